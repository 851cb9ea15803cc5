"""Lowering: from a graph with groups to instructions over views, in an order in which they can run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphnet.errors import NotEnoughMemoryError
from graphnet.graph.dtypes import BOOL
from graphnet.graph.graph import Graph, Group
from graphnet.graph.node import Dtype, Key, Node, Shape
from graphnet.ops.broadcast import Reduction
from graphnet.ops.elementwise import Add, Elementwise
from graphnet.ops.index import Lookup, ScatterAdd, is_by_columns
from graphnet.ops.leaf import Fill
from graphnet.ops.linear import Product
from graphnet.ops.rowwise import Rowwise
from graphnet.ops.shape import Join, Pad
from graphnet.passes.fuse import WIDEST, is_fusable
from graphnet.plan.chunks import in_chunks
from graphnet.plan.instructions import (
    Host,
    Instruction,
    KernelCall,
    Load,
    Loop,
    LoopReduction,
    MatrixProduct,
    Scatter,
    Step,
    by_rows,
)  # fmt: skip
from graphnet.plan.placement import place
from graphnet.plan.units import in_order, units_of
from graphnet.plan.updates import can_fail, copied, write_updates
from graphnet.plan.views import Buffer, View
from graphnet.system.process import collector_paused

#: Elements of an array, at most: their addresses are part of a word of 64 bits.
LARGEST = 2**40


@dataclass(eq=False)
class Lowered:
    """Instructions in order, and the views of leaves and outputs.

    copied_leaves: leaves whose own arrays no instruction can read; copied to their views before a run.
    unfed: number of instructions, at the start, that depend on parameters and constants alone. fixed: number that
    depend on no varying input (see Function.again); 0 if nothing varies.
    results: views of the outputs. borrowed: True if inputs are read in the caller's arrays; the instructions then
    write their updates, the last of the outputs, into these arrays, and results holds the other outputs.
    """

    graph: Graph
    instructions: list[Instruction]
    views: dict[Node, View]
    copied_leaves: list[Node]
    unfed: int
    results: Sequence[View]
    fixed: int = 0
    borrowed: bool = False


def lower(graph: Graph, updated: Sequence[int] | None = None) -> Lowered:
    """Lowers a graph to instructions, in linear time except for ordering, which takes n log n.

    updated: positions of the inputs whose new values are the last outputs. Inputs are then read and written in place,
    if no instruction can fail.
    NotEnoughMemoryError for a node with more elements than can be addressed, even if it is never stored.
    """
    for node in graph.order:
        if node.size > LARGEST:
            raise NotEnoughMemoryError(
                f"{node.describe()} (made at {node.origin}) has {node.size:.3g} elements; the maximum is "
                f"{LARGEST:.3g}. Make its shape smaller."
            )
    with collector_paused():
        if updated is None:
            return _Lowering(graph).run()
        lowered = _Lowering(graph, borrowed=True).run()
        if can_fail(lowered.instructions):
            return _Lowering(graph).run()
        count = len(graph.outputs) - len(updated)
        targets = [graph.inputs[i] for i in updated]
        for node in targets:  # one that nothing reads
            lowered.views.setdefault(node, Buffer(node.size, node.dtype, node).whole(node.shape))
        lowered.results = write_updates(
            lowered.instructions, lowered.views, targets, graph.outputs[count:], graph.outputs[:count]
        )
        lowered.borrowed = True
        return lowered


class _Lowering:
    def __init__(self, graph: Graph, borrowed: bool = False) -> None:
        """borrowed: inputs are read in the caller's arrays."""
        self.graph, self.borrowed = graph, borrowed
        self.home = units_of(graph)
        placement = place(graph, self._is_placeable)
        self.placed, self.copies = placement.views, placement.copies
        self.extra: dict[Node, list[View]] = {}
        self._share_copies()
        self.views: dict[Node, View] = {}
        self.numbers: dict[Node, float | int | bool] = {}
        self.instructions: list[Instruction] = []
        self.copied_leaves: list[Node] = []

    def _is_placeable(self, node: Node) -> bool:
        if node.op.is_input:
            return not self.borrowed
        unit = self.home.get(node)
        if unit is None:
            return node.op.is_input
        if unit.group is not None:
            return True
        return isinstance(node.op, (Join, Product, Reduction, ScatterAdd)) or is_fusable(node)

    def _share_copies(self) -> None:
        """Lets a fused loop store its value in all destinations, which saves later copies."""
        for copies in self.copies.values():
            kept = []
            for source, region in copies:
                unit = self.home.get(source)
                if unit is not None and unit.group is not None and is_fusable(source):
                    self.extra.setdefault(source, []).append(region)
                else:
                    kept.append((source, region))
            copies[:] = kept

    # -- places ------------------------------------------------------------------------------------

    def _leaf(self, node: Node) -> None:
        match node.op:
            case Fill(number=number):
                self.numbers[node] = number
            case op if op.is_input and self.borrowed:
                self.views[node] = Buffer(node.size, node.dtype, node).whole(node.shape)
            case op if op.is_fed or not node.value.flags.c_contiguous:
                self.views[node] = self.placed.get(node) or Buffer(node.size, node.dtype).whole(node.shape)
                if not op.is_input:
                    self.copied_leaves.append(node)
            case _:
                self.views[node] = Buffer(node.size, node.dtype, node).whole(node.shape)

    def _own(self, node: Node) -> View:
        view = self.placed.get(node)
        if view is None:
            view = Buffer(node.size, node.dtype).whole(node.shape)
        self.views[node] = view
        return view

    def view(self, node: Node) -> View:
        """View of the value of a node; a number is stored in memory on demand."""
        found = self.views.get(node)
        if found is None:
            number = self.numbers[node]
            found = self._own(node)
            step = _number(number, node.dtype)
            self.instructions.append(Loop((node,), node.shape, [], [step], [(0, found)]))
        return found

    # -- instructions --------------------------------------------------------------------------------

    def run(self) -> Lowered:
        for node in self.graph.order:
            if not node.inputs:
                self._leaf(node)
        if any(node.op.varying for node in self.graph.inputs):
            # A number that is an output never varies: it is written by the fixed instructions, not at the end.
            for node in self.graph.outputs:
                if node in self.numbers:
                    self.view(node)
        counts, phase, ascending = [0, len(self.instructions), 0], 0, True
        for unit in in_order(self.graph, self.home):
            ascending = ascending and unit.phase >= phase
            phase = unit.phase
            if unit.group is not None:
                self._fused(unit.group)
            else:
                self._single(unit.nodes[0])
            counts[unit.phase] = len(self.instructions)
        results = list(map(self.view, self.graph.outputs))
        # If a fixed part came after a varying one, everything would have to be computed each time.
        fixed = max(counts[:2]) if counts[2] and ascending else 0
        return Lowered(
            self.graph, self.instructions, self.views, self.copied_leaves, counts[0], results, fixed
        )

    def _single(self, node: Node) -> None:
        """Lowers one node; ops and dtypes without a primitive run in Python."""
        if not node.size:
            self._own(node)
            return
        match node.op:
            case op if op.is_view:
                self._as_view(node)
            case Join():
                self._join(node)
            case Pad(key=key):
                self._pad(node, key)
            case Product() if node.dtype != BOOL:
                self._products(node)
            case Reduction(how=how) if how:
                self._reduction(node)
            case ScatterAdd(axis=0) if node.dtype != BOOL:
                self._scatter(node)
            case ScatterAdd(axis=axis) if node.dtype != BOOL and is_by_columns(
                node.inputs[0], node.inputs[1], axis
            ):
                self._scatter_columns(node)
            case _ if is_fusable(node):
                self._fused(Group((node,), (node,)))
            case Add():
                self._wide_sum(node)
            case Rowwise() as op:
                self._kernel_call(node, op)
            case _:
                self._host(node)

    def _as_view(self, node: Node) -> None:
        x = node.inputs[0]
        if x in self.numbers and x not in self.views:
            self.numbers[node] = self.numbers[x]
            return
        source = self.view(x)
        found = node.op.view(source)
        if found is None:
            # The elements must first be copied into row order.
            moved = Buffer(x.size, x.dtype).whole(x.shape)
            self._copy(node, x, source, moved)
            found = node.op.view(moved)
        if found is None:
            self._host(node)
        else:
            self.views[node] = found

    def _copy(self, node: Node, x: Node, source: View, target: View) -> None:
        if source.size:
            self.instructions.append(copied(node, source, target))

    def _join(self, node: Node) -> None:
        if not node.size:
            self._own(node)
            return
        self.views[node] = self.placed[node]
        for x, region in self.copies[node]:
            if x in self.numbers and x not in self.views:
                step = _number(self.numbers[x], x.dtype)
                self.instructions.append(Loop((node,), x.shape, [], [step], [(0, region)]))
            else:
                self._copy(node, x, self.view(x), region)

    def _pad(self, node: Node, key: Key) -> None:
        (x,) = node.inputs
        target = self._own(node)
        zero = Step("0", node.dtype, ())
        self.instructions.append(Loop((node,), node.shape, [], [zero], [(0, target)]))
        source = self.view(x)
        self._copy(node, x, source, target.sliced(key))

    def _products(self, node: Node) -> None:
        a, b = map(self.view, node.inputs)
        c = self._own(node)
        if node.ndim == 2:
            self.instructions.append(MatrixProduct((node,), a, b, c))
            return
        for i in range(node.shape[0]):
            x, y, z = (v.sliced((i, (0, v.shape[1], 1), (0, v.shape[2], 1))) for v in (a, b, c))
            self.instructions.append(MatrixProduct((node,), x, y, z))

    def _reduction(self, node: Node) -> None:
        assert isinstance(node.op, Reduction)
        (x,) = node.inputs
        target = self._own(node)
        loads, steps = self._operand(x)
        combined = [LoopReduction(node.op.how, 0, target)]
        self.instructions += in_chunks(Loop((node,), x.shape, loads, steps, [], node.op.axes, combined))

    def _operand(self, x: Node) -> tuple[list[Load], list[Step]]:
        if x in self.numbers:
            return [], [_number(self.numbers[x], x.dtype)]
        return [Load("plain", self.view(x), None, x.dtype)], []

    def _scatter(self, node: Node) -> None:
        x, index = node.inputs
        shape = node.shape[0], node.size // node.shape[0]
        own = self._own(node)
        rows = self._reshaped(node, x, (index.size, shape[1]))
        flat = self._reshaped(node, index, (index.size,))
        y = _in_rows(own, shape)
        target = y or Buffer(node.size, node.dtype).whole(shape)
        self.instructions.append(
            Scatter(
                (node,), rows, flat, target,
            )
        )  # fmt: skip
        if y is None:
            self._copy(node, node, target.buffer.whole(node.shape), own)

    def _reshaped(self, node: Node, x: Node, shape: Shape) -> View:
        """x in another shape, with contiguous rows; copied if necessary."""
        source = self.view(x)
        found = _in_rows(source, shape)
        if found is None:
            copy = Buffer(x.size, x.dtype).whole(x.shape)
            self._copy(node, x, source, copy)
            return copy.buffer.whole(shape)
        return found

    def _scatter_columns(self, node: Node) -> None:
        x, index = node.inputs
        source, at, y = self.view(x), self.view(index), self._own(node)
        self.instructions.append(
            Scatter(
                (node,), source, at, y, by_columns=True,
            )
        )  # fmt: skip

    def _wide_sum(self, node: Node) -> None:
        """Adds WIDEST terms at a time, and starts a new total after WIDEST additions, to limit rounding errors."""
        target = self._own(node)
        if not node.size:
            return
        terms = [self.view(x) for x in node.inputs]
        most = WIDEST * WIDEST
        for start in range(0, len(terms), most):
            total = Buffer(node.size, node.dtype).whole(node.shape) if start else target
            for first in range(start, min(start + most, len(terms)), WIDEST):
                some = terms[first : min(first + WIDEST, start + most)]
                self._add_up(node, some if first == start else [*some, total], total)
            if start:
                self._add_up(node, [total, target], target)

    def _add_up(self, node: Node, terms: Sequence[View], target: View) -> None:
        loads = [Load("plain", view, None, node.dtype) for view in terms]
        steps = [
            Step("x + y", node.dtype, (i - 1 if i == 1 else len(loads) + i - 2, i))
            for i in range(1, len(loads))
        ]
        stores = [(len(loads) + len(steps) - 1, target)]
        self.instructions.append(Loop((node,), node.shape, loads, steps, stores))

    def _host(self, node: Node) -> None:
        sources = [self.view(x) for x in node.inputs]
        target = self._own(node)
        self.instructions.append(
            Host(
                (node,), node, sources, target,
            )
        )  # fmt: skip

    def _kernel_call(self, node: Node, op: Rowwise) -> None:
        layout = op.row_layout(node, node.inputs)
        sources = []
        for x, core, own in zip(node.inputs, layout.cores[1:], layout.by_rows[1:], strict=True):
            view = self.view(x)
            if by_rows(view, (layout.rows, *core), own) is None:
                whole = Buffer(x.size, x.dtype).whole(x.shape)
                self._copy(node, x, view, whole)
                view = whole
            sources.append(view)
        self.instructions.append(KernelCall((node,), node, sources, self._own(node), layout))

    # -- fused loops -----------------------------------------------------------------------------------

    def _fused(self, group: Group) -> None:
        reductions = {node: node.op for node in group.nodes if isinstance(node.op, Reduction)}
        computed = [node for node in group.nodes if node not in reductions]
        body = _Body()
        own = set(group.nodes)
        for node in computed:
            self._load(node, own, body)
        for node in computed:
            self._compute(node, body)
        stores: list[tuple[int, View]] = []
        combined: list[LoopReduction] = []
        for node in group.outputs:
            for view in (self._own(node), *self.extra.get(node, ())):
                if node in reductions:
                    combined.append(LoopReduction(reductions[node].how, body.number[node.inputs[0]], view))
                else:
                    stores.append((body.number[node], view))
        axes = next((op.axes for op in reductions.values()), ())
        loop = Loop(group.nodes, computed[-1].shape, body.loads, body.steps, stores, axes, combined)
        if any(access.view.size for access in loop.writes):  # an empty sum has a value
            self.instructions += in_chunks(loop)

    def _load(self, node: Node, own: set[Node], body: _Body) -> None:
        if isinstance(node.op, Lookup):
            body.load(node, self._lookup(node, node.op))
            return
        for x in node.inputs:
            if x not in own and x not in body.number and x not in self.numbers:
                body.load(x, Load("plain", self.view(x), None, x.dtype))

    def _lookup(self, node: Node, op: Lookup) -> Load:
        *table, index = node.inputs
        size = op.index_size(len(table), *node.inputs)
        assert size is not None, f"{op.name} gives no upper bound for its index"
        at = self.view(index)
        return Load(op.load(*node.inputs), self.view(table[0]) if table else None, at, node.dtype, size)

    def _compute(self, node: Node, body: _Body) -> None:
        for x in node.inputs if isinstance(node.op, Elementwise) else ():
            if x not in body.number:
                body.number[x] = body.step(_number(self.numbers[x], x.dtype))
        match node.op:
            case Add(kernel=kernel):
                total, *others = [body.number[x] for x in node.inputs]
                for other in others:
                    total = body.step(Step(kernel, node.dtype, (total, other)))
                body.number[node] = total
            case Elementwise(kernel=kernel):
                sources = tuple([body.number[x] for x in node.inputs])
                body.number[node] = body.step(Step(kernel, node.dtype, sources))


class _Body:
    """Body of a loop at one point: loads, then steps, numbered from 0; `number` maps nodes to these numbers."""

    def __init__(self) -> None:
        self.loads: list[Load] = []
        self.steps: list[Step] = []
        self.number: dict[Node, int] = {}

    def load(self, node: Node, load: Load) -> None:
        self.number[node] = len(self.loads)
        self.loads.append(load)

    def step(self, step: Step) -> int:
        self.steps.append(step)
        return len(self.loads) + len(self.steps) - 1


def _in_rows(view: View, shape: Shape) -> View | None:
    """The view in another shape with contiguous rows, which kernels need; None if this is impossible."""
    found = view.reshaped(shape)
    strided = found is not None and len(shape) > 1 and found.strides[-1] != 1 and found.size
    return None if strided else found


def _number(number: float | int | bool, dtype: Dtype) -> Step:
    return Step(repr(np.asarray(number, dtype).item()), dtype, ())
