"""A minimal compiled back end, to copy for a new one (docs/adding_a_back_end.md); kernels are Python code."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphnet.backends.base import Backend, Program
from graphnet.backends.compiled.expressions import Emitter, evaluate
from graphnet.backends.compiled.files import restored_schedule
from graphnet.backends.compiled.host import HostProgram
from graphnet.backends.compiled.locations import Location
from graphnet.backends.compiled.schedule import ProgramSchedule, Scheduler
from graphnet.graph.dtypes import converted
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Dtype, Node
from graphnet.plan.instructions import Loop, MatrixProduct, Scatter
from graphnet.plan.lowering import lower
from graphnet.plan.views import Buffer, View


class ExampleEmitter(Emitter[str]):
    """Writes the code of one operation; here, with NumPy's functions."""

    def number(self, value: float, dtype: Dtype) -> str:
        return f"{dtype.type.__name__}({value!r})"

    def convert(self, x: str, of: Dtype, to: Dtype) -> str:
        return f"converted(asarray({x}), dtype({to.str!r}))"

    def arithmetic(self, symbol: str, a: str, b: str, dtype: Dtype) -> str:
        return f"({a} {symbol} {b})"

    compare = arithmetic

    def logical(self, word: str, values: Sequence[str]) -> str:
        return f"logical_{word}.reduce(broadcast_arrays({', '.join(values)}))"

    def inverse(self, x: str) -> str:
        return f"logical_not({x})"

    def negative(self, x: str, dtype: Dtype) -> str:
        return f"(-{x})"

    def select(self, condition: str, a: str, b: str, dtype: Dtype) -> str:
        return f"where({condition}, {a}, {b})"

    def call(self, name: str, arguments: Sequence[str], dtype: Dtype) -> str:
        x, y = arguments[0], arguments[-1]
        if name in ("max", "min"):
            return f"where({x} {'>' if name == 'max' else '<'} {y}, {x}, {y})"
        if name == "sigmoid":
            return f"(1 / (1 + exp(-{x})))"
        return f"{ {'pow': 'power'}.get(name, name) }({', '.join(arguments)})"


def loop_text(loop: Loop, check: bool) -> str:
    """Code of a loop on a0, a1, ..., arrays in the order of the views. check: NaN, infinity set the flag."""
    lines, dtypes, number = list[str](), list[Dtype](), 0
    for load in loop.loads:
        data, index = f"a{number}", f"a{number + (load.data is not None)}"
        number += (load.data is not None) + (load.at is not None)
        at = f"checked_index({index}, {load.depth}, flag)"
        code = {
            "plain": data, "rows": f"{data}[{at}]", "columns": f"{data}[:, {at}]",
            "one_hot": f"({at}[..., None] == arange({(0, *loop.shape)[-1]})).astype({load.dtype.str!r})",
        }  # fmt: skip
        lines.append(f"v{len(dtypes)} = {code[load.kind]}")
        dtypes.append(load.dtype)
    for step in loop.steps:
        sources = [f"v{s}" for s in step.sources]
        code_of = evaluate(ExampleEmitter(), step, sources, [dtypes[s] for s in step.sources])
        lines.append(f"v{len(dtypes)} = {code_of}")
        dtypes.append(step.dtype)
    lines += [f"check_finite(v{i}, flag)" for i, d in enumerate(dtypes) if check and d.kind == "f"]
    for k, (value, _) in enumerate(loop.stores, number):
        lines.append(f"a{k}[...] = v{value}")
    for k, reduction in enumerate(loop.reductions, number + len(loop.stores)):
        kept = "float64" if dtypes[reduction.number].kind == "f" else dtypes[reduction.number].str
        whole = f"broadcast_to(v{reduction.number}, {loop.shape})"
        if reduction.how == "sum":
            lines.append(f"a{k}[...] = add.reduce({whole}, {loop.reduced}, {kept!r})")
        else:
            lines.append(f"a{k}[...] = {reduction.how}imum.reduce({whole}, {loop.reduced})")
    return "\n".join(lines)


SCATTER = "a2[...] = 0\nadd.at(a2{turned}, checked_index(a1, a2{turned}.shape[0], flag), a0{turned})"


def checked_index(index: Array, size: int, flag: Array) -> Array:
    """The index; an index out of range becomes 0 and sets the flag."""
    inside = (index >= 0) & (index < size)
    flag[0] |= not inside.all()
    return np.where(inside, index, 0)


def check_finite(x: Array, flag: Array) -> None:
    flag[0] |= not np.isfinite(x).all()


def erf(x: Array) -> Array:
    return np.array([math.erf(number) for number in x.flat], x.dtype).reshape(x.shape)


#: Functions that kernels can call.
KNOWN = {**vars(np), "nan": np.nan} | {f.__name__: f for f in (converted, checked_index, check_finite, erf)}


class Kernel(NamedTuple):
    """Code on the arrays a0, a1, ...: the views (parts of buffers) before memory is planned, the locations after."""

    code: str
    views: Sequence[View]
    nodes: tuple[Node, ...]
    locations: Sequence[Location] = ()

    @property
    def buffers(self) -> list[Buffer]:
        return [view.buffer for view in self.views]


class ExampleScheduler(Scheduler[Kernel, list[Kernel]]):
    """Writes the kernels of each instruction."""

    def loop(self, loop: Loop) -> list[Kernel]:
        return [Kernel(loop_text(loop, self.check), loop.views, loop.nodes)]

    def products(self, products: Sequence[MatrixProduct]) -> list[Kernel]:
        # The products of one node. a0, a1, a2 are the views, in this order.
        return [Kernel("a2[...] = a0 @ a1", (p.a, p.b, p.c), p.nodes) for p in products]

    def scatter(self, scatter: Scatter) -> list[Kernel]:
        code = SCATTER.format(turned=".T" if scatter.by_columns else "")
        return [Kernel(code, (scatter.x, scatter.index, scatter.y), scatter.nodes)]

    def work(self, first: int, jobs: Sequence[Kernel]) -> list[Kernel]:
        # The kernels of a section (no Python in between), when all arrays have a place in memory: `location`.
        return [each._replace(locations=list(map(self.location, each.views))) for each in jobs]


class ExampleProgram(HostProgram[ProgramSchedule[list[Kernel]]]):
    """Runs the kernels. A device with its own memory needs CompiledProgram, with `write`, `read` and `fetch`."""

    def launch(self, number: int) -> None:
        self.timed_launch(number, defaultdict(float))

    def timed_launch(self, number: int, spent: dict[Node, float]) -> None:
        # Adds the seconds of each node. The flag is the first word of the memory of the program.
        for kernel in self.schedule.sections[number].work:
            start = time.perf_counter()
            arrays = {f"a{k}": self.at(location) for k, location in enumerate(kernel.locations)}
            with np.errstate(all="ignore"):
                exec(kernel.code, {**KNOWN, **arrays, "flag": self.flag})
            for node in kernel.nodes:
                spent[node] += (time.perf_counter() - start) / len(kernel.nodes)

    def stored_work(self) -> tuple[dict[str, Any], dict[str, Array]]:
        # For Function.save: JSON values, and a dict of arrays; `restore` reads them.
        works = [section.work for section in self.schedule.sections]
        return {"kernels": [[[x.code, [at.stored() for at in x.locations]] for x in w] for w in works]}, {}


class ExampleBackend(Backend):
    """Define `missing`, too, if it cannot run on every machine.

    A device with its own memory: set `apart`, define `place`, and `place_leaves` of the scheduler. For
    contiguous arrays, schedule in_one_piece(lower(graph)) (graphnet/plan/transfers.py).
    """

    name = "example"

    def build(
        self,
        graph: Graph,
        source: Graph,
        threads: int | None,
        check: bool,
        updated: Sequence[int] | None = None,
    ) -> Program:
        return ExampleProgram(ExampleScheduler(lower(graph), check).schedule(), source, check)

    def restore(
        self, header: Mapping[str, Any], arrays: Mapping[str, Array], source: Graph | None = None
    ) -> Program:
        works = [
            [Kernel(code, (), (), [Location.restored(at) for at in stored]) for code, stored in work]
            for work in header["kernels"]
        ]
        schedule = restored_schedule(header, arrays, works, source)
        return ExampleProgram(schedule, source, False)
