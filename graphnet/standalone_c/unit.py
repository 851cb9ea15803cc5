"""A function as C: its header, its source, and its weights as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import graphnet.passes as passes_module
from graphnet.errors import BackendError
from graphnet.graph.graph import Graph
from graphnet.graph.node import Dtype, Node
from graphnet.ops.elementwise import Elementwise
from graphnet.ops.leaf import Constant, Fill, constant
from graphnet.ops.rowwise import Rowwise
from graphnet.passes import Pass
from graphnet.plan import lower
from graphnet.plan.arena import Life, give_places
from graphnet.plan.instructions import Host, Instruction, Loop, MatrixProduct, Scatter
from graphnet.plan.lowering import Lowered
from graphnet.plan.updates import copied
from graphnet.plan.views import Buffer, View
from graphnet.standalone_c.expressions import Helpers
from graphnet.standalone_c.language import UniqueNames, c_type, comment, listed, place, short
from graphnet.standalone_c.loops import loop_kernel
from graphnet.standalone_c.products import product_kernel, scatter_kernel
from graphnet.standalone_c.source import CFunction
from graphnet.version import __version__

MADE = f"Made by graphnet {__version__}."


class Argument(NamedTuple):
    """An array that the function reads or writes."""

    name: str
    node: Node

    @property
    def declaration(self) -> str:
        return f"{c_type(self.node.dtype)} *{self.name}"


@dataclass
class Unit:
    """C source of a function. name: prefix of all public names. weights: name -> leaf."""

    name: str
    inputs: Sequence[Argument]
    outputs: Sequence[Argument]
    pools: Mapping[Dtype, int]
    weights: Mapping[str, Node]
    functions: Sequence[str]
    calls: Sequence[str]

    @property
    def signature(self) -> str:
        arguments = [*(f"const {x.declaration}" for x in self.inputs), *(y.declaration for y in self.outputs)]
        head = f"int {self.name}_run("
        separator = ",\n" + " " * len(head)
        return head + separator.join([*arguments, f"{self.name}_arena *arena"]) + ")"

    def header(self) -> str:
        """Header file for programs that call this one."""
        guard = f"{self.name.upper()}_H"
        pools = [f"    {c_type(dtype)} {short(dtype)}[{size}];" for dtype, size in self.pools.items()]
        bytes_ = sum(dtype.itemsize * size for dtype, size in self.pools.items())
        rows = [f"   {_described(argument)}" for argument in (*self.inputs, *self.outputs)]
        return "\n".join([
            f"/* {MADE} */", f"#ifndef {guard}", f"#define {guard}", "", "#include <stdbool.h>", "#include <stdint.h>",
            "", "#ifdef __cplusplus", 'extern "C" {', "#endif", "",
            f"/* Memory of one run, {bytes_} bytes. It needs no initialization; parallel runs need one each. */",
            "typedef struct {", *(pools or ["    char unused;"]), f"}} {self.name}_arena;", "",
            "/* Arrays are row-major, and belong to the caller:", *rows,
            "   Returns 0, or 1 if an index is out of range; outputs are then unchanged. An output may be the same",
            "   array as an input (a state that is replaced). Otherwise arrays must not overlap. */",
            f"{self.signature};", "", "#ifdef __cplusplus", "}", "#endif", "", "#endif", "",
        ])  # fmt: skip

    def source(self, apart: bool, header: str | None = None) -> str:
        """The program. apart: weights in a separate file. header: file name of the header, by default NAME.h."""
        declared = [self._declared(name, node, apart) + ";" for name, node in self.weights.items()]
        unused = [f"    (void){x};" for x in self._unused()]
        return "\n".join([
            f"/* {MADE} C11; link with -lm. */", f'#include "{header or f"{self.name}.h"}"', "",
            "#include <math.h>", "#include <stddef.h>", "#include <string.h>", "",
            *declared, "", *self.functions, self.signature, "{", *unused, *self.calls, "    return 0;", "}",
            *([] if apart else ["", self.weights_text(apart)]), "",
        ])  # fmt: skip

    def weights_text(self, apart: bool) -> str:
        """The arrays of parameters and constants."""
        includes = ["#include <math.h>", "#include <stdbool.h>", "#include <stdint.h>", ""]
        head = [f"/* {MADE} */", *includes] if apart else []
        blocks = []
        for name, node in self.weights.items():
            if apart:
                blocks.append(self._declared(name, node, apart) + ";")
            start = (
                self._declared(name, node, False).removeprefix("static ")
                if apart
                else self._declared(name, node, False)
            )
            blocks.append(f"{comment(place(node))}\n{start} = {{\n{listed(node.value)}\n}};")
        if apart and not blocks:
            blocks.append("typedef int no_weights;")
        return "\n".join([*head, *blocks])

    def _declared(self, name: str, node: Node, apart: bool) -> str:
        return f"{'extern' if apart else 'static'} const {c_type(node.dtype)} {name}[{max(node.size, 1)}]"

    def _unused(self) -> Iterator[str]:
        words: AbstractSet[str] = {w for call in self.calls for w in _words(call)}
        return (
            name for name in [*(a.name for a in (*self.inputs, *self.outputs)), "arena"] if name not in words
        )


def _words(text: str) -> list[str]:
    code, _, _ = text.partition("/*")
    return "".join(c if c.isalnum() or c == "_" else " " for c in code).split()


def _described(argument: Argument) -> str:
    sizes = "".join(f"[{size}]" for size in argument.node.shape)
    return f"{argument.name}: {c_type(argument.node.dtype)}{sizes or ', one number'}"


def unit_of(source: Graph, passes: Sequence[PassLike], has: AbstractSet[str], name: str) -> Unit:
    """The C of a graph after these passes; has: see passes.optimize.

    BackendError for a node that only Python runs, and for one that draws random numbers.
    """
    graph, _ = passes_module.optimize(source, baking(passes), has)
    return _Writer(source, lower(graph, ()), name).unit()


class _Writer:
    def __init__(self, source: Graph, lowered: Lowered, name: str) -> None:
        self.lowered, self.name = lowered, name
        names = UniqueNames([f"{name}_arena", f"{name}_run"])
        self.inputs = [Argument(names.fresh(x.name or "", f"in{i}"), x) for i, x in enumerate(source.inputs)]
        self.outputs = [
            Argument(names.fresh(y.name or "", f"out{i}"), y) for i, y in enumerate(source.outputs)
        ]
        self.helpers = Helpers()
        self.kernels: dict[CFunction, str] = {}
        self.bases: dict[Buffer, str] = {}
        self.weights: dict[str, Node] = {}

    def unit(self) -> Unit:
        instructions = self._instructions()
        pools = self._give_places(instructions)
        calls = [line for step in instructions for line in self._call(step)]
        functions = [*self.helpers.texts.values(), *(k.text(name) for k, name in self.kernels.items())]
        return Unit(self.name, self.inputs, self.outputs, pools, self.weights, functions, calls)

    def _instructions(self) -> list[Instruction]:
        lowered, before = self.lowered, []
        for argument in self.inputs:
            view = lowered.views.get(argument.node)
            if view is None:
                continue
            if view.buffer.leaf is argument.node:
                self.bases[view.buffer] = argument.name
            elif view.size:
                before.append(copied(argument.node, self._given(argument), view))
        after = [
            copied(argument.node, view, self._given(argument))
            for argument, view in zip(self.outputs, lowered.results, strict=True)
            if view.size
        ]
        return [*before, *lowered.instructions, *after]

    def _given(self, argument: Argument) -> View:
        buffer = Buffer(argument.node.size, argument.node.dtype, argument.node)
        self.bases[buffer] = argument.name
        return buffer.whole(argument.node.shape)

    def _give_places(self, instructions: Sequence[Instruction]) -> dict[Dtype, int]:
        """Sets the offsets of computed values; dtype -> number of elements. Dtypes never share memory."""
        first: dict[Buffer, int] = {}
        last: dict[Buffer, int] = {}
        for i, instruction in enumerate(instructions):
            for buffer in instruction.buffers:
                first.setdefault(buffer, i)
                last[buffer] = i
        pools: dict[Dtype, list[Life]] = {}
        for buffer, begin in first.items():
            if buffer.leaf is None and buffer.size:
                life = Life(buffer, begin, last[buffer], (begin + 1, last[buffer] + 1), None)
                pools.setdefault(buffer.dtype, []).append(life)
        in_order = sorted(pools.items(), key=lambda pool: pool[0].str)
        return {dtype: give_places(lives) // dtype.itemsize for dtype, lives in in_order}

    def _pointer(self, view: View) -> str:
        buffer = view.buffer
        base, start = self.bases.get(buffer), view.offset
        if not buffer.size and base is None:
            return "NULL"
        if base is None and buffer.leaf is None:
            base, start = f"arena->{short(buffer.dtype)}", start + buffer.offset // buffer.dtype.itemsize
        elif base is None:
            assert buffer.leaf is not None
            base = self.bases[buffer] = f"{self.name}_w{len(self.weights)}"
            self.weights[base] = buffer.leaf
        return f"{base} + {start}" if start else base

    def _call(self, step: Instruction) -> list[str]:
        note = comment(place(step.nodes[-1])) if step.nodes else ""
        views: Sequence[View]
        match step:
            case Loop() if _is_copy(step):
                target, source = step.stores[0][1], step.loads[0].data
                assert source is not None
                size = f"{target.size} * sizeof({c_type(target.dtype)})"
                return [f"    memcpy({self._pointer(target)}, {self._pointer(source)}, {size}); {note}"]
            case Loop():
                kernel, views = loop_kernel(step, self.helpers)
            case MatrixProduct():
                kernel, views = product_kernel(step)
            case Scatter():
                kernel, views = scatter_kernel(step)
            case Host():
                raise _refusal(step.node)
            case _:
                raise BackendError(f"instruction {type(step).__name__} cannot be exported to C")
        name = self.kernels.setdefault(kernel, f"{kernel.kind}_{len(self.kernels)}")
        call = f"{name}({', '.join(map(self._pointer, views))})"
        return [f"    if ({call}) {note}", "        return 1;"] if kernel.fails else [f"    {call}; {note}"]


def _is_copy(loop: Loop) -> bool:
    if len(loop.loads) != 1 or len(loop.stores) != 1 or loop.steps or loop.reductions or loop.stores[0][0]:
        return False
    load, target = loop.loads[0], loop.stores[0][1]
    same = load.kind == "plain" and load.data is not None and load.data.is_contiguous
    return bool(
        same and target.is_contiguous and load.data is not None and load.data.buffer is not target.buffer
    )


def _refusal(node: Node) -> BackendError:
    if isinstance(node.op, Rowwise):
        remedy = "compute the value with graphnet's own ops, or leave the node out"
    elif isinstance(node.op, Elementwise):
        remedy = "give the op a `kernel`"
    else:
        remedy = (
            "compile with backend='numba' and passes=gn.passes.DEFAULT; for your own op, define `expanded`, which "
            "computes the value with graphnet's own ops; or leave the node out"
        )
    return BackendError(
        f"this function cannot be exported to C: {node.describe()} (made at {node.origin}) runs the Python rule of "
        f"{node.op.name}; {remedy}."
    )


PassLike = Pass | Callable[[Graph], Graph]


def baked(graph: Graph) -> Graph:
    """Replaces parameters by constants, and nodes whose inputs are all constants, unless memory would grow by that."""
    return graph.rewrite(_replace)


def baking(passes: Sequence[PassLike]) -> list[PassLike]:
    """The passes with this one inserted: after those that join weights, before those that make loops."""
    found: list[PassLike] = list(passes)
    wants = [isinstance(step, Pass) and bool(step.wants) for step in found]
    found.insert(wants.index(True) if True in wants else len(found), Pass("bake", baked))
    return found


def _replace(node: Node) -> Node:
    if not node.inputs:
        if node.op.is_parameter:
            return constant(node.value, name=node.name)
        if not node.op.is_input and not isinstance(node.op, (Constant, Fill)):
            raise BackendError(
                f"this function cannot be exported to C: {node.describe()} (made at {node.origin}) draws "
                "random numbers, which is only possible in Python. Leave the node out (in a network: "
                "training=False), or make it an input."
            )
        return node
    if not all(isinstance(x.op, (Constant, Fill)) for x in node.inputs):
        return node
    size = sum(x.nbytes for x in node.inputs if isinstance(x.op, Constant))
    if node.nbytes > size:
        return node
    try:
        with np.errstate(all="ignore"):
            value = np.asarray(node.op.forward(*[x.op.forward() for x in node.inputs]))
    except Exception:  # an index out of range, for instance: the program raises it at run time
        return node
    return constant(value, name=node.name)
