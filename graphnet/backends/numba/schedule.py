"""Schedule: from a graph to tapes: jobs, barriers, places in memory, records."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphnet.backends.compiled.host import require_arena
from graphnet.backends.compiled.locations import ARENA
from graphnet.backends.compiled.schedule import ProgramSchedule, Scheduler
from graphnet.backends.numba.cores.barriers import barriers_of
from graphnet.backends.numba.jobs import (
    WORK,
    CoreDivision,
    InstructionJob,
    KernelCallJob,
    LoopJob,
    Record,
    RecordContext,
    ScatterJob,
)
from graphnet.backends.numba.machine import Machine
from graphnet.backends.numba.product_jobs import (
    BlockedProductJob,
    OperandBlock,
    Packed,
    PackedProductJob,
    PackJob,
    panel_width,
)
from graphnet.backends.numba.tape import Tape, address, make_tape
from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from graphnet.passes.analysis import varying_nodes
from graphnet.plan.arena import ALIGNMENT
from graphnet.plan.instructions import Access, Host, Instruction, KernelCall, Loop, MatrixProduct, Scatter
from graphnet.plan.lowering import Lowered, lower
from graphnet.plan.views import Buffer, View
from graphnet.system.process import own_cores

#: A program of fewer multiply-adds and elements runs on one core: waking another would cost more.
WORTH_SHARING = 3_000_000
#: Maximum number of rows for which the right operand is read in place; for more it is packed first.
FEW_ROWS = 8


@dataclass
class TapeSchedule(ProgramSchedule[list[Tape]]):
    """The work of a section: a tape for each part. kernels: their texts, by their numbers on the tapes.

    borrowed: positions of the inputs that are read, and updated, in place, in the order of their pieces of
    memory, which come after the leaves'. written: the positions of those that are updated.
    """

    parts: int
    kernels: list[str]
    borrowed: list[int]
    written: list[int]


def make_schedule(
    graph: Graph, machine: Machine, threads: int | None, check: bool, finely: bool = False,
    updated: Sequence[int] | None = None,
) -> TapeSchedule:  # fmt: skip
    """The program of a graph. check: raises the error flag if a value is not finite. finely: divides all work, however
    small, so that small programs have the races of large ones. updated: see lower.
    """
    lowered = lower(graph, updated)
    parts = _parts(lowered, threads)
    division = CoreDivision(parts, least=0, tile=1, columns=1) if finely else CoreDivision(parts)
    scheduler = TapeScheduler(lowered, check, machine, division)
    return TapeSchedule(
        **vars(scheduler.schedule()),
        parts=parts,
        kernels=list(scheduler.numbers),
        borrowed=[i for i, node in enumerate(graph.inputs) if node in scheduler.pieces],
        written=list(updated or ()) if lowered.borrowed else [],
    )


#: Records of one part, by supersteps.
Supersteps = list[list[Record]]


class TapeScheduler(Scheduler[InstructionJob, list[Tape]]):
    """Divides jobs among the cores, which synchronize at barriers; each core's work is written on its tape."""

    def __init__(self, lowered: Lowered, check: bool, machine: Machine, division: CoreDivision) -> None:
        super().__init__(lowered, check)
        self.machine, self.division = machine, division
        self.barriers: set[int] = set()
        #: Text of a kernel -> its number.
        self.numbers: dict[str, int] = {}
        self._packing = _Packing(lowered, division, machine)
        #: Into how many rows the memory was divided that a job wrote last.
        self._divided: dict[Buffer, int] = {}

    # -- jobs --------------------------------------------------------------------------------------------------------

    def before_inputs(self) -> Sequence[InstructionJob]:
        return self._packing.early()

    def loop(self, loop: Loop) -> Sequence[InstructionJob]:
        if loop in self._packing.needless:
            return ()
        return [self._noted(loop, LoopJob(loop, self.division, self._follows(loop)))]

    def scatter(self, scatter: Scatter) -> Sequence[InstructionJob]:
        return [self._noted(scatter, ScatterJob(scatter, self.division, self._follows(scatter)))]

    def host(self, host: Host) -> Sequence[InstructionJob | Host]:
        if not isinstance(host, KernelCall):
            return [host]
        return [self._noted(host, KernelCallJob(host, self.division, self._follows(host)))]

    def products(self, products: Sequence[MatrixProduct]) -> Sequence[InstructionJob]:
        return [job for product in products for job in self._product(product)]

    def _product(self, product: MatrixProduct) -> list[InstructionJob]:
        follows = self._follows(product)
        first = self._packing.before(product)
        packed = self._packing.packed.get(product.b)
        job = (
            BlockedProductJob(product, self.division)
            if packed is None
            else PackedProductJob(product, packed, self.division, follows)
        )
        return [*first, self._noted(product, job)]

    def _follows(self, instruction: Instruction) -> bool:
        """True if the loop reads rows that an earlier job has divided among cores."""
        return any(
            a.by_rows and a.view.shape and self._divided.get(a.view.buffer) == a.view.shape[0]
            for a in instruction.reads
        )

    def _noted(self, instruction: Instruction, job: InstructionJob) -> InstructionJob:
        rows = job.count if job.split == "rows" else 0
        self._divided.update((access.view.buffer, rows) for access in instruction.writes)
        return job

    # -- places ------------------------------------------------------------------------------------------------------

    def place_values(self, start: int) -> int:
        """The memory of each core follows the values."""
        parts, machine = self.division.parts, self.machine
        own = [job for job in self.jobs if not isinstance(job, Host)]
        self.barriers = barriers_of(self.jobs, self.fixed)
        if parts == 1 and all(job.tiles == 1 for job in own):
            self.barriers = set(range(len(self.jobs)))  # nothing runs out of order, so memory is free at once
        end = self.give_places(start, self.barriers, self._rows())
        scratch = max((job.scratch(machine.vector_bytes) for job in own), default=0)
        scratch = -(-scratch // ALIGNMENT) * ALIGNMENT + 5 * ALIGNMENT
        self.context = RecordContext(
            address(ARENA, 0), {node: address(piece, 0) for node, piece in self.pieces.items()},
            address(ARENA, end), scratch, machine.vector_bytes, machine.registers, self.check, machine.avx512,
        )  # fmt: skip
        end += scratch * parts
        require_arena(end)  # before the work is cut into records, of which there are as many as rows
        return end

    def _rows(self) -> dict[Buffer, tuple[int, int] | None]:
        """Division of the rows of a buffer, if all jobs that touch the buffer agree."""
        rows: dict[Buffer, tuple[int, int] | None] = {}
        for job in self.jobs:
            for access in (*job.reads, *job.writes):
                buffer = access.view.buffer
                tag = None if isinstance(job, Host) else _rows_of(job, access)
                rows[buffer] = tag if rows.setdefault(buffer, tag) == tag else None
        for node in (*self.lowered.graph.inputs, *self.lowered.copied_leaves):
            if node in self.lowered.views:
                rows[self.lowered.views[node].buffer] = None
        return rows

    # -- tapes -------------------------------------------------------------------------------------------------------

    def work(self, first: int, jobs: Sequence[InstructionJob]) -> list[Tape]:
        parts = self.division.parts
        tapes: list[Supersteps] = [[[]] for _ in range(parts)]
        owners: list[list[tuple[Node, ...]]] = [[] for _ in range(parts)]
        # Work of this superstep: for each part, for each tile, (record, nodes)s.
        since: list[dict[int, list[tuple[Record, tuple[Node, ...]]]]] = [
            defaultdict(list) for _ in range(parts)
        ]

        def write_out() -> None:
            for tape, owner, by_tile in zip(tapes, owners, since, strict=True):
                for tile in sorted(by_tile):
                    tape[-1] += [record for record, _ in by_tile[tile]]
                    owner += [nodes for _, nodes in by_tile[tile]]
                by_tile.clear()

        for i, job in enumerate(jobs, first):
            if i in self.barriers:
                write_out()
                if parts > 1 and any(tape[-1] for tape in tapes):
                    for tape in tapes:
                        tape.append([])
            for part, by_tile in enumerate(since):
                for tile in range(job.tiles):
                    for record in job.records(self.context, part * job.tiles + tile):
                        by_tile[tile].append((record, job.nodes))
        write_out()
        return [make_tape(tape, owner, self.numbers) for tape, owner in zip(tapes, owners, strict=True)]


def _work(lowered: Lowered) -> int:
    total = 0
    for instruction in lowered.instructions:
        if isinstance(instruction, MatrixProduct):
            total += instruction.c.size * instruction.a.shape[1]
        elif isinstance(instruction, Loop):
            total += math.prod(instruction.shape) * (1 + len(instruction.steps))
        elif isinstance(instruction, KernelCall):
            layout = instruction.layout
            total += WORK * layout.rows * sum(math.prod(core) for core in layout.cores)
    return total


def _parts(lowered: Lowered, threads: int | None) -> int:
    cores = len(own_cores())
    if threads is not None:
        return min(threads, 64)
    return min(cores, 16) if _work(lowered) >= WORTH_SHARING else 1


class _Packing:
    """The right operands that are packed once in a run, since many rows or several products read them.

    packed: their panels. needless: copies into joins that only the packing would read.
    """

    def __init__(self, lowered: Lowered, division: CoreDivision, machine: Machine) -> None:
        self.packed: dict[View, Packed] = {}
        self._machine = machine
        self._joins = _static_joins(lowered)
        self._waiting: dict[View, PackJob] = {}
        self._early: list[View] = []
        users: dict[View, list[MatrixProduct]] = defaultdict(list)
        writer_of: dict[Buffer, int] = {}
        for i, instruction in enumerate(lowered.instructions):
            if isinstance(instruction, MatrixProduct):
                users[instruction.b].append(instruction)
            for access in instruction.writes:
                writer_of[access.view.buffer] = i
        varying = varying_nodes(lowered.graph)
        in_blocks: set[View] = set()
        for b, products in users.items():
            right = products[0].nodes[0].inputs[1]
            # A join of inputs has no writer: inputs are copied into it.
            weights_only = (
                writer_of.get(b.buffer, -1) < lowered.unfed and not _is_fed(right) and right not in varying
            )
            # Operands that `again` does not recompute are packed for the rows of several calls.
            few = sum(p.c.shape[0] for p in products) <= FEW_ROWS and not (varying and weights_only)
            if few or not (weights_only or len(products) > 1):
                continue
            blocks = self._pack(b, right, max(p.c.shape[0] for p in products))
            reads = [products[0].reads[1]]
            if blocks:
                reads = [copy.reads[0] for copy in self._joins[b.buffer]]
                in_blocks.add(b)
            self._waiting[b] = PackJob(self.packed[b], reads, division)
            if weights_only:
                self._early.append(b)
        self.needless: set[Instruction] = _needless_copies(lowered, self._joins, in_blocks)

    def _pack(self, b: View, right: Node, rows: int) -> tuple[OperandBlock, ...] | None:
        """Plans b's panels for products of at most `rows` rows; returns the blocks to pack from, if there are any."""
        lanes = self._machine.vector_bytes // b.dtype.itemsize
        width = panel_width(b.shape[1], lanes, self._machine.registers, rows) * lanes
        panels = -(-b.shape[1] // width)
        buffer = Buffer(panels * width * b.shape[0], b.dtype)
        blocks = _blocks(b, self._joins.get(b.buffer), width)
        whole = blocks or (OperandBlock(b, 0, 0),)
        self.packed[b] = Packed(b, buffer.whole((buffer.size,)), width, right, whole)
        return blocks

    def early(self) -> list[PackJob]:
        """Packing jobs that depend on parameters and constants alone."""
        return [self._waiting.pop(b) for b in self._early if b in self._waiting]

    def before(self, instruction: Instruction) -> list[PackJob]:
        if isinstance(instruction, MatrixProduct) and instruction.b in self._waiting:
            return [self._waiting.pop(instruction.b)]
        return []


def _static_joins(lowered: Lowered) -> dict[Buffer, list[Loop]]:
    """Buffers into which weights are only copied, side by side, with the copies."""
    found: dict[Buffer, list[Loop]] = defaultdict(list)
    others: set[Buffer] = set()
    for i, instruction in enumerate(lowered.instructions):
        plain = (
            isinstance(instruction, Loop)
            and i < lowered.unfed
            and not instruction.steps
            and len(instruction.loads) == len(instruction.stores) == 1
            and instruction.loads[0].kind == "plain"
        )
        for access in instruction.writes:
            if plain:
                assert isinstance(instruction, Loop)
                found[access.view.buffer].append(instruction)
            else:
                others.add(access.view.buffer)
    return {buffer: copies for buffer, copies in found.items() if buffer not in others}


def _blocks(b: View, copies: Sequence[Loop] | None, width: int) -> tuple[OperandBlock, ...] | None:
    """The blocks that would be joined into the right operand; None if they do not end with panels."""
    if not copies:
        return None
    turned = b.strides[1] != 1
    pitch = b.strides[1] if turned else b.strides[0]
    blocks = []
    for copy in copies:
        ((_, region),) = copy.stores
        source = copy.loads[0].data
        if (
            source is None
            or source.buffer.leaf is None
            or len(region.shape) != 2
            or region.strides != (pitch, 1)
        ):
            return None
        major, minor = divmod(region.offset - b.offset, pitch)
        row, column = (minor, major) if turned else (major, minor)
        block = OperandBlock(source.transposed((1, 0)) if turned else source, row, column)
        rows, columns = block.source.shape
        inside = 0 <= row <= b.shape[0] - rows and 0 <= column <= b.shape[1] - columns
        ends = column % width == 0 and (columns % width == 0 or column + columns == b.shape[1])
        if not inside or not ends:
            return None
        blocks.append(block)
    return tuple(blocks) if sum(p.source.size for p in blocks) == b.size else None


def _needless_copies(
    lowered: Lowered, joins: Mapping[Buffer, Sequence[Loop]], in_blocks: set[View]
) -> set[Instruction]:
    """Copies into joins that only products read, since these pack the blocks directly."""
    buffers = {b.buffer for b in in_blocks}
    for instruction in lowered.instructions:
        for access in instruction.reads:
            packed = isinstance(instruction, MatrixProduct) and access is instruction.reads[1]
            if not packed or access.view not in in_blocks:
                buffers.discard(access.view.buffer)
    for node in lowered.graph.outputs:
        buffers.discard(lowered.views[node].buffer)
    return {copy for buffer in buffers for copy in joins[buffer]}


def _is_fed(node: object) -> bool:
    """True for nodes that depend directly on an Input or a Random node."""
    while isinstance(node, Node) and node.op.is_view:
        node = node.inputs[0]
    return isinstance(node, Node) and not node.inputs and node.op.is_fed


def _rows_of(job: InstructionJob, access: Access) -> tuple[int, int] | None:
    """Division of the rows, if each of the job's cores touches its own rows of the whole buffer."""
    view = access.view
    if job.split != "rows" or not access.by_rows or not view.shape or view.shape[0] != job.count:
        return None
    return (job.count, job.tiles) if view.strides[0] * job.count == view.buffer.size else None
