"""Schedule of a graph, as plain data: sections of native work, locations of arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, NamedTuple, Protocol, TypeVar

from graphnet.backends.compiled.locations import ARENA, HEADER, Location
from graphnet.errors import BackendError
from graphnet.graph.node import Node
from graphnet.plan.arena import Life, give_places, lifetimes
from graphnet.plan.instructions import Access, Host, Instruction, Loop, MatrixProduct, Scatter, looking_at
from graphnet.plan.lowering import Lowered
from graphnet.plan.order import RunMemory
from graphnet.plan.views import Buffer, View


class _Job(Protocol):
    @property
    def buffers(self) -> Sequence[Buffer]: ...


J = TypeVar("J", bound=_Job)
W = TypeVar("W")


class HostCall(NamedTuple):
    """The node's own `forward`, run by Python: views of its inputs, and of its value."""

    node: Node
    sources: list[Location]
    target: Location


class Section(NamedTuple, Generic[W]):
    """Native work, then Python's work if there is any."""

    work: W
    host: HostCall | None


@dataclass
class ProgramSchedule(Generic[W]):
    """fixed: number of sections, at the start, that depend on no varying input. varying: positions of these inputs.

    copied_inputs: destinations of inputs (None: the input is unread, or read in place). leaves: parameters and
    constants that are read in place, in the order of their pieces of memory, or that have a place in the arena.
    copied_leaves: leaves that are copied before each run, from their current arrays.
    """

    memory: RunMemory
    arena_bytes: int
    sections: list[Section[W]]
    fixed: int
    copied_inputs: list[Location | None]
    varying: list[bool]
    leaves: list[Node]
    copied_leaves: list[tuple[Node, Location]]
    results: list[Location]


class Scheduler(ABC, Generic[J, W]):
    """Makes a schedule. A back end defines the jobs of an instruction, and the work of a section.

    check: raises the error flag if a value is not finite. Loops check all values that they read and compute; results of
    other instructions are checked by a separate loop.
    """

    def __init__(self, lowered: Lowered, check: bool) -> None:
        self.lowered, self.check = lowered, check
        self.jobs: list[J | Host] = []
        #: The number of the first job that depends on an input that varies; 0 if none does.
        self.fixed = 0
        #: Leaves that are read in place -> their piece of memory.
        self.pieces: dict[Node, int] = {}

    # -- defined by back ends ----------------------------------------------------------------------------------------

    @abstractmethod
    def loop(self, loop: Loop) -> Sequence[J]: ...

    @abstractmethod
    def products(self, products: Sequence[MatrixProduct]) -> Sequence[J]:
        """Jobs for one node's products."""

    @abstractmethod
    def scatter(self, scatter: Scatter) -> Sequence[J]: ...

    @abstractmethod
    def work(self, first: int, jobs: Sequence[J]) -> W:
        """Turns a section's jobs into something that can be launched, once all memory has its place. first: number of
        the first job.
        """

    def host(self, host: Host) -> Sequence[J | Host]:
        """Jobs for an op that Python runs; a back end may run the op's kernel instead (see KernelCall)."""
        return [host]

    def before_inputs(self) -> Sequence[J]:
        """More jobs, after those that depend on parameters and constants alone."""
        return ()

    def place_leaves(self, leaves: Sequence[Node]) -> int:
        """Offset at which the arena's values may begin. Leaves whose buffers get an offset are before it."""
        return HEADER

    def place_values(self, start: int) -> int:
        """Gives all other buffers their places in the arena; returns its end."""
        return self.give_places(start)

    # -- shared by all -----------------------------------------------------------------------------------------------

    def schedule(self) -> ProgramSchedule[W]:
        lowered = self.lowered
        graph, views = lowered.graph, lowered.views
        self._make_jobs()
        leaves = self._leaves()
        start = self.place_leaves(leaves)
        where = (node for node in leaves if views[node].buffer.offset < 0)
        self.pieces = {node: piece for piece, node in enumerate(where, ARENA + 1)}
        end = self.place_values(start)
        inside = sum(node.nbytes for node in leaves if node not in self.pieces)
        sections, kept = self._sections()
        return ProgramSchedule(
            memory=RunMemory(sum(node.nbytes for node in leaves), end - inside),
            arena_bytes=end,
            sections=sections,
            fixed=kept,
            copied_inputs=[
                self.location(views[node]) if node in views and not lowered.borrowed else None
                for node in graph.inputs
            ],
            varying=[node.op.varying for node in graph.inputs],
            leaves=[node for node in leaves if not node.op.is_input],
            copied_leaves=[(node, self.location(views[node])) for node in lowered.copied_leaves],
            results=list(map(self.location, lowered.results)),
        )

    def location(self, view: View) -> Location:
        leaf = view.buffer.leaf
        return Location.of(view, ARENA if leaf is None else self.pieces.get(leaf, ARENA))

    def give_places(
        self, start: int, barriers: Collection[int] | None = None, rows: Mapping[Buffer, object] | None = None
    ) -> int:
        """Sets the offsets of buffers other than leaves, from `start` on; returns their end.

        barriers: numbers of the jobs before which dead memory may be reused; None: before any job. rows: see
        `arena.Life`.
        """
        epochs, epoch = [0], 0
        for i in range(len(self.jobs) + 1):
            epoch += barriers is None or i == len(self.jobs) or i in barriers
            epochs.append(epoch)
        first, last = lifetimes(self.lowered, [job.buffers for job in self.jobs], self.fixed)
        tags = rows or {}
        lives = [
            Life(b, first[b], last[b], (epochs[first[b] + 1], epochs[last[b] + 1]), tags.get(b))
            for b in first
            if b.leaf is None
        ]
        end = start + give_places(lives)
        for life in lives:
            life.buffer.offset += start
        return end

    def _leaves(self) -> list[Node]:
        graph, views = self.lowered.graph, self.lowered.views
        borrowed = [node for node in graph.inputs if self.lowered.borrowed]
        others = [node for node in graph.order if not node.op.is_input]
        return [node for node in (*others, *borrowed) if node in views and views[node].buffer.leaf is node]

    def _make_jobs(self) -> None:
        for i, instruction in _in_groups(self.lowered.instructions):
            if i == self.lowered.unfed:
                self.jobs += self.before_inputs()
            if self.lowered.fixed and i == self.lowered.fixed:
                self.fixed = len(self.jobs)
            self._add(instruction)

    def _add(self, instruction: Instruction | Sequence[MatrixProduct]) -> None:
        looked_at: list[Access] = []
        match instruction:
            case Loop():
                self.jobs += self.loop(instruction)
                looked_at = instruction.writes if instruction.reductions else []
            case Scatter():
                self.jobs += self.scatter(instruction)
                looked_at = instruction.writes
            case Host():
                self.jobs += self.host(instruction)
                looked_at = instruction.writes
            case Instruction():
                raise BackendError(
                    f"compiled back ends do not support the instruction {type(instruction).__name__}"
                )
            case _:
                self.jobs += self.products(instruction)
                looked_at = [access for product in instruction for access in product.writes]
                instruction = instruction[0]
        for access in looked_at if self.check else ():
            self.jobs += self.loop(looking_at(access.view, instruction.nodes))

    def _sections(self) -> tuple[list[Section[W]], int]:
        """The jobs, cut at Python's jobs and before the first varying one; and the number of sections before that."""
        sections: list[Section[W]] = []
        start = kept = 0

        def cut(stop: int, host: Host | None) -> None:
            call = None
            if host is not None:
                call = HostCall(host.node, list(map(self.location, host.sources)), self.location(host.target))
            own = [job for job in self.jobs[start:stop] if not isinstance(job, Host)]
            sections.append(Section(self.work(start, own), call))

        for i, job in enumerate(self.jobs):
            if self.fixed and i == self.fixed:
                cut(i, None)
                start, kept = i, len(sections)
            if isinstance(job, Host):
                cut(i, job)
                start = i + 1
        cut(len(self.jobs), None)
        return sections, kept


def _in_groups(instructions: Sequence[Instruction]) -> list[tuple[int, Instruction | list[MatrixProduct]]]:
    """The instructions with their numbers; consecutive products of one node as a list."""
    found: list[tuple[int, Instruction | list[MatrixProduct]]] = []

    def kind(item: tuple[int, Instruction]) -> object:
        return item[1].nodes if isinstance(item[1], MatrixProduct) else item[0]

    for _, group in groupby(enumerate(instructions), kind):
        items = list(group)
        products = [each for _, each in items if isinstance(each, MatrixProduct)]
        found.append((items[0][0], products if products else items[0][1]))
    return found


Layout = TypeVar("Layout")
#: Maximum number of cached layouts, far more than a program has.
REMEMBERED = 1024


def remembered(layouts: dict[Hashable, Layout], key: Hashable, layout: Layout) -> Layout:
    """The layout, which the table holds from now on; key: `Loop.form`, and all else that it depends on."""
    if len(layouts) >= REMEMBERED:
        layouts.clear()
    layouts[key] = layout
    return layout
