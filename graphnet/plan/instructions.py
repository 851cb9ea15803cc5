"""Instructions of compiled back ends: a flat list of operations on views."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from graphnet.graph.node import Dtype, Node, Shape
from graphnet.ops.rowwise import RowLayout
from graphnet.plan.views import Buffer, View
from graphnet.system.process import cached_property


class Access(NamedTuple):
    """A view that is read or written. by_rows: row i of the instruction touches row i of the view and no other.

    Instructions compute it from their views, so that it is always correct: cores that divide rows rely on it.
    """

    view: View
    by_rows: bool


class Load(NamedTuple):
    """An operand of a loop, one element for each point of its shape.

    plain     data[i, j]
    rows      data[at[i], j]: a row lookup
    columns   data[i, at[j]]: a lookup of columns, the same for each row
    one_hot   1 where j = at[i], else 0, of type `dtype`
    """

    kind: str
    data: View | None
    at: View | None
    dtype: Dtype
    depth: int = 0


class Step(NamedTuple):
    """A scalar expression (see Elementwise.kernel) of earlier values: loads first, then steps, from 0."""

    kernel: str
    dtype: Dtype
    sources: tuple[int, ...]


@dataclass(eq=False)
class Instruction(ABC):
    """nodes: the nodes that it computes. reads, writes: memory that it touches. Cores may divide its rows."""

    nodes: tuple[Node, ...]

    @cached_property
    def reads(self) -> list[Access]:
        return list(self._reads())

    @cached_property
    def writes(self) -> list[Access]:
        return list(self._writes())

    @property
    def buffers(self) -> list[Buffer]:
        """All buffers that the instruction touches."""
        return [access.view.buffer for access in (*self.reads, *self.writes)]

    @abstractmethod
    def _reads(self) -> Iterator[Access]: ...

    @abstractmethod
    def _writes(self) -> Iterator[Access]: ...


class LoopReduction(NamedTuple):
    """Reduction over the loop's `reduced` axes: "sum", "max" or "min", the number of the value, the destination.

    Sums of floats are kept in double precision until they are stored, for any dtype of the value or the view.
    """

    how: str
    number: int
    view: View


@dataclass(eq=False)
class Loop(Instruction):
    """For every point of `shape`: load, compute the steps, store; reductions: combine over the axes `reduced`.

    stores: (number of the value, where).
    """

    shape: Shape
    loads: list[Load]
    steps: list[Step]
    stores: list[tuple[int, View]]
    reduced: tuple[int, ...] = ()
    reductions: list[LoopReduction] = field(default_factory=list)

    def dtype_of(self, number: int) -> Dtype:
        """Dtype of the value with this number: of a load or of a step."""
        loads = len(self.loads)
        return self.loads[number].dtype if number < loads else self.steps[number - loads].dtype

    @property
    def looks_up(self) -> bool:
        """True if a load finds its element by an index."""
        return any(load.kind != "plain" for load in self.loads)

    @property
    def row_axis(self) -> int:
        """Its rows run along the first axis that is kept; -1 if none is."""
        return next((i for i in range(len(self.shape)) if i not in self.reduced), -1)

    def _reads(self) -> Iterator[Access]:
        first = self.row_axis == 0
        for load in self.loads:
            if load.at is not None:
                yield Access(load.at, first and load.kind != "columns" and _moves(load.at))
            if load.data is not None:
                yield Access(load.data, first and load.kind != "rows" and _moves(load.data))

    def _writes(self) -> Iterator[Access]:
        for _, view in self.stores:
            yield Access(view, self.row_axis == 0)
        for reduction in self.reductions:  # its axes are those that are kept
            yield Access(reduction.view, self.row_axis >= 0)

    @property
    def views(self) -> list[View]:
        """Views of the loop: data and index of each load, then stores, then results of reductions."""
        found = []
        for load in self.loads:
            if load.data is not None:
                found.append(load.data)
            if load.at is not None:
                found.append(load.at)
        found += [view for _, view in self.stores]
        found += [reduction.view for reduction in self.reductions]
        return found

    @property
    def twins(self) -> list[int]:
        """For each load the number of an earlier one that looks up rows by the same index, or -1."""
        first: dict[Hashable, int] = {}
        found = []
        for k, load in enumerate(self.loads):
            earlier = -1
            if load.kind in ("rows", "one_hot"):
                assert load.at is not None
                earlier = first.setdefault((load.at.buffer, load.at.offset, load.at.strides, load.depth), k)
            found.append(earlier if earlier != k else -1)
        return found

    @property
    def form(self) -> tuple[Hashable, ...]:
        """Everything except the offsets of its views: equal for all time steps, so it is compiled once."""
        return (
            self.shape, tuple(self.steps), tuple(self.twins),
            tuple([(load.kind, load.dtype.num, load.depth, load.at and load.at.dtype.num) for load in self.loads]),
            tuple([number for number, _ in self.stores]),
            self.reduced, tuple([(r.how, r.number, r.view.dtype.num) for r in self.reductions]),
            tuple([view.strides for view in self.views]),
        )  # fmt: skip


@dataclass(eq=False)
class MatrixProduct(Instruction):
    """c = a b, matrices."""

    a: View
    b: View
    c: View

    def _reads(self) -> Iterator[Access]:
        yield Access(self.a, True)
        yield Access(self.b, False)

    def _writes(self) -> Iterator[Access]:
        yield Access(self.c, True)


@dataclass(eq=False)
class Scatter(Instruction):
    """y = 0; y[index[i]] += x[i] for every row i in order; by_columns: y[:, index[j]] += x[:, j] for every column j"""

    x: View
    index: View
    y: View
    by_columns: bool = False

    def _reads(self) -> Iterator[Access]:
        yield Access(self.x, self.by_columns and _moves(self.x))
        yield Access(self.index, False)

    def _writes(self) -> Iterator[Access]:
        yield Access(self.y, self.by_columns)


@dataclass(eq=False)
class Host(Instruction):
    """The op's own `forward`, run by Python."""

    node: Node
    sources: list[View]
    target: View

    def _reads(self) -> Iterator[Access]:
        return (Access(view, False) for view in self.sources)

    def _writes(self) -> Iterator[Access]:
        yield Access(self.target, False)


@dataclass(eq=False)
class KernelCall(Host):
    """The op's own kernel, for each row. A back end without code for it calls `forward`, as for any host call.

    The arrays of each row are contiguous, as `lowering` guarantees.
    """

    layout: RowLayout

    @cached_property
    def operands(self) -> list[View]:
        """The output and the inputs: rows along the first axis, then the axes of the kernel."""
        layout = self.layout
        found = []
        for view, core, own in zip((self.target, *self.sources), layout.cores, layout.by_rows, strict=True):
            rows = by_rows(view, (layout.rows, *core), own)
            assert rows is not None, "lowering copies operands that are not contiguous"
            found.append(rows)
        return found

    def _reads(self) -> Iterator[Access]:
        return (Access(view, _moves(view)) for view in self.operands[1:])

    def _writes(self) -> Iterator[Access]:
        yield Access(self.operands[0], True)


def by_rows(view: View, shape: Shape, own: bool) -> View | None:
    """The view as rows, each of them contiguous; None if not possible.

    own: True for rows of the view; False if each row is the whole view.
    """
    found = view.reshaped(shape) if own else view.broadcast(shape)
    if found is None or not found.size:
        return found
    return found if View(found.buffer, 0, shape[1:], found.strides[1:]).is_contiguous else None


def _moves(view: View) -> bool:
    """True if rows are different parts of memory."""
    return bool(view.shape) and view.strides[0] != 0


def looking_at(view: View, nodes: tuple[Node, ...]) -> Loop:
    """A loop that reads a value and stores nothing; nodes: whose value it is."""
    return Loop(nodes, view.shape, [Load("plain", view, None, view.dtype)], [], [])
