"""Schedule: from a graph to an image: jobs, barriers, places in memory, tapes."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence

from graphnet.backends.numba.barriers import barriers_of
from graphnet.backends.numba.image import ARENA, HEADER, LESS, RUN, Image, Place, address, make_tape
from graphnet.backends.numba.jobs import Division, HostJob, Job, LoopJob, Record, ScatterJob, Target
from graphnet.backends.numba.machine import Machine
from graphnet.backends.numba.product_jobs import (
    BlockedProductJob,
    Packed,
    PackedProductJob,
    PackJob,
    Piece,
    panel_width,
)
from graphnet.errors import BackendError
from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from graphnet.passes.analysis import varying_nodes
from graphnet.plan.arena import ALIGNMENT, Life, give_places
from graphnet.plan.instructions import Access, Host, Instruction, Loop, Product, Scatter, looking_at
from graphnet.plan.lifetimes import lifetimes
from graphnet.plan.lowering import Lowered, lower
from graphnet.plan.order import Memory
from graphnet.plan.views import Buffer, View
from graphnet.system.memory import require_memory

__all__ = ["make_image"]

#: A program of fewer multiply-adds and elements runs on one core: waking another would cost more.
WORTH_SHARING = 3_000_000
#: The right operand of so few rows is read where it lies; for more it is packed first.
FEW_ROWS = 8


def make_image(
    graph: Graph, machine: Machine, threads: int | None, check: bool, finely: bool = False,
    updated: Sequence[int] | None = None,
) -> Image:  # fmt: skip
    """The program of a graph. check: the error flag is raised where a value is not finite. finely: all that can be
    divided is, however small: what races there are in large programs, a small one has then, too. updated: see lower.
    """
    lowered = lower(graph, updated)
    parts = _parts(lowered, threads)
    division = Division(parts, least=0, tile=1, columns=1) if finely else Division(parts)
    jobs, fixed = _jobs(lowered, division, machine, check)
    barriers = barriers_of(jobs, fixed)
    if parts == 1 and all(job.tiles == 1 for job in jobs):
        barriers = set(range(len(jobs)))  # nothing runs out of order, so memory is free at once
    size = _give_places(lowered, jobs, barriers, fixed)
    scratch = max((job.scratch(machine.vector_bytes) for job in jobs), default=0)
    scratch = -(-scratch // ALIGNMENT) * ALIGNMENT + 5 * ALIGNMENT
    leaves: dict[Node, int] = {}
    lent = [node for node in graph.inputs if lowered.lent and node in lowered.views]
    for node in (*(node for node in graph.order if node not in graph.inputs), *lent):
        view = lowered.views.get(node)
        if view is not None and view.buffer.leaf is node:
            leaves[node] = ARENA + 1 + len(leaves)
    target = Target(
        address(ARENA, 0), address(ARENA, HEADER), {n: address(i, 0) for n, i in leaves.items()},
        address(ARENA, HEADER + size), scratch, machine.vector_bytes, machine.registers, check, machine.avx512,
    )  # fmt: skip

    def place(view: View) -> Place:
        return Place.of(view, ARENA if view.buffer.leaf is None else leaves[view.buffer.leaf])

    total = HEADER + size + scratch * parts
    require_memory(
        total, RUN, LESS
    )  # before the work is cut into records, of which there are as many as rows
    numbers: dict[str, int] = {}
    segments, owners, kept = _segments(jobs, barriers, target, parts, fixed)
    views = lowered.views
    return Image(
        parts=parts,
        arena_bytes=total,
        memory=Memory(sum(node.nbytes for node in leaves), total),
        segments=[
            (
                [make_tape(tape, numbers) for tape in tapes],
                None if host is None else (host.node, [place(v) for v in host.sources], place(host.target)),
            )
            for tapes, host in segments
        ],
        kernels=list(numbers),
        leaves=[node for node in leaves if node not in lent],
        lent=[graph.inputs.index(node) for node in lent],
        written=list(updated or ()) if lowered.lent else [],
        given=[place(views[node]) if node in views and not lent else None for node in graph.inputs],
        fixed=kept,
        varying=[node.op.varying for node in graph.inputs],
        brought=[place(views[node]) for node in lowered.brought],
        brought_from=lowered.brought,
        results=list(map(place, lowered.results)),
        owners=owners,
    )


def _give_places(lowered: Lowered, jobs: Sequence[Job], barriers: set[int], fixed: int) -> int:
    """Sets the offset of every buffer in the arena; returns the bytes that they take."""
    epochs, epoch = [], 0
    for i in range(len(jobs)):
        epoch += i in barriers
        epochs.append(epoch)
    end = len(jobs)
    first, last = lifetimes(lowered, [[a.view.buffer for a in (*j.reads, *j.writes)] for j in jobs], fixed)
    rows: dict[Buffer, tuple[int, int] | None] = {}
    for job in jobs:
        for access in (*job.reads, *job.writes):
            buffer = access.view.buffer
            tag = _rows_of(job, access)
            rows[buffer] = tag if rows.setdefault(buffer, tag) == tag else None
    for node in (*lowered.graph.inputs, *lowered.brought):
        if node in lowered.views:
            rows[lowered.views[node].buffer] = None

    def epoch_at(i: int) -> int:
        return 0 if i < 0 else epochs[i] if i < end else epoch + 1

    return give_places(
        [
            Life(b, first[b], last[b], (epoch_at(first[b]), epoch_at(last[b])), rows.get(b))
            for b in first
            if b.leaf is None
        ]
    )


Owners = list[list[tuple[Node, ...]]]
#: What one part does: its records, by supersteps.
Supersteps = list[list[Record]]


def _segments(
    jobs: Sequence[Job], barriers: set[int], target: Target, parts: int, fixed: int
) -> tuple[list[tuple[list[Supersteps], Host | None]], list[Owners], int]:
    """The records of each part, by supersteps, cut where Python has to do something and before job `fixed`; whom each
    works for; and how many segments come before that job.
    """
    segments: list[tuple[list[Supersteps], Host | None]] = []
    all_owners: list[Owners] = []
    tapes: list[Supersteps] = [[[]] for _ in range(parts)]
    owners: Owners = [[] for _ in range(parts)]
    # What is done in this superstep: for each part, for each tile, (record, nodes)s.
    since: list[dict[int, list[tuple[Record, tuple[Node, ...]]]]] = [defaultdict(list) for _ in range(parts)]
    kept = 0

    def write_out() -> None:
        for tape, owner, by_tile in zip(tapes, owners, since, strict=True):
            for tile in sorted(by_tile):
                tape[-1] += [record for record, _ in by_tile[tile]]
                owner += [nodes for _, nodes in by_tile[tile]]
            by_tile.clear()

    def cut(host: Host | None) -> None:
        nonlocal tapes, owners
        segments.append((tapes, host))
        all_owners.append(owners)
        tapes, owners = [[[]] for _ in range(parts)], [[] for _ in range(parts)]

    for i, job in enumerate(jobs):
        if i in barriers:
            write_out()
        if fixed and i == fixed:
            cut(None)
            kept = len(segments)
        if isinstance(job, HostJob):
            cut(job.host)
            continue
        if i in barriers and parts > 1 and any(tape[-1] for tape in tapes):
            for tape in tapes:
                tape.append([])
        for part, by_tile in enumerate(since):
            for tile in range(job.tiles):
                for record in job.records(target, part * job.tiles + tile):
                    by_tile[tile].append((record, job.nodes))
    write_out()
    cut(None)
    return segments, all_owners, kept


def _work(lowered: Lowered) -> int:
    total = 0
    for instruction in lowered.instructions:
        if isinstance(instruction, Product):
            total += instruction.c.size * instruction.a.shape[1]
        elif isinstance(instruction, Loop):
            total += math.prod(instruction.shape) * (1 + len(instruction.steps))
    return total


def _parts(lowered: Lowered, threads: int | None) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if threads is not None:
        return min(threads, 64)
    return min(cores, 16) if _work(lowered) >= WORTH_SHARING else 1


def _jobs(lowered: Lowered, division: Division, machine: Machine, check: bool) -> tuple[list[Job], int]:
    """A job for each instruction, and the packing of right operands that several rows share; the first that varies.

    check: loops look at all that they read and compute; what other jobs make is looked at by a loop of its own.
    """
    packing = _Packing(lowered, division, machine)
    jobs: list[Job] = []
    fixed = 0
    divided: dict[Buffer, int] = {}  # into how many rows the memory was divided that a job wrote last
    for i, instruction in enumerate(lowered.instructions):
        if i == lowered.static:
            jobs += packing.early()
        if lowered.fixed and i == lowered.fixed:
            fixed = len(jobs)
        if instruction in packing.needless:
            continue
        follows = any(
            a.by_rows and a.view.shape and divided.get(a.view.buffer) == a.view.shape[0]
            for a in instruction.reads
        )
        jobs += packing.before(instruction)
        job = _job(instruction, packing.packed, division, follows)
        jobs.append(job)
        rows = job.count if job.split == "rows" else 0
        divided.update((access.view.buffer, rows) for access in instruction.writes)
        if check and not (isinstance(instruction, Loop) and not instruction.reductions):
            jobs += [LoopJob(looking_at(a.view, instruction.nodes), division) for a in instruction.writes]
    return jobs, fixed


def _job(instruction: Instruction, packed: Mapping[View, Packed], division: Division, follows: bool) -> Job:
    """follows: it reads rows that a job has divided before it."""
    match instruction:
        case Product(b=b) if b in packed:
            return PackedProductJob(instruction, packed[b], division, follows)
        case Product():
            return BlockedProductJob(instruction, division)
        case Loop():
            return LoopJob(instruction, division, follows)
        case Scatter():
            return ScatterJob(instruction, division, follows)
        case Host():
            return HostJob(instruction, division)
    raise BackendError(f"the numba back end has no job for {type(instruction).__name__}")


class _Packing:
    """The right operands that are packed once in a run, since many rows or several products read them.

    `packed`: what they become. `needless`: copies into joins of which nothing but their packing would read.
    """

    def __init__(self, lowered: Lowered, division: Division, machine: Machine) -> None:
        self.packed: dict[View, Packed] = {}
        self._machine = machine
        self._joins = _static_joins(lowered)
        self._waiting: dict[View, PackJob] = {}
        self._early: list[View] = []
        users: dict[View, list[Product]] = defaultdict(list)
        writer_of: dict[Buffer, int] = {}
        for i, instruction in enumerate(lowered.instructions):
            if isinstance(instruction, Product):
                users[instruction.b].append(instruction)
            for access in instruction.writes:
                writer_of[access.view.buffer] = i
        varying = varying_nodes(lowered.graph)
        in_pieces: set[View] = set()
        for b, products in users.items():
            right = products[0].nodes[0].inputs[1]
            # A join of inputs has no writer: they are brought to their places in it.
            static = (
                writer_of.get(b.buffer, -1) < lowered.static and not _is_fed(right) and right not in varying
            )
            if sum(p.c.shape[0] for p in products) <= FEW_ROWS or not (static or len(products) > 1):
                continue
            pieces = self._pack(b, right)
            reads = [products[0].reads[1]]
            if pieces:
                reads = [copy.reads[0] for copy in self._joins[b.buffer]]
                in_pieces.add(b)
            self._waiting[b] = PackJob(self.packed[b], reads, division)
            if static:
                self._early.append(b)
        self.needless: set[Instruction] = _needless_copies(lowered, self._joins, in_pieces)

    def _pack(self, b: View, right: Node) -> tuple[Piece, ...] | None:
        """Plans b's panels; the pieces that they are packed from, where b would only be copied together for that."""
        lanes = self._machine.vector_bytes // b.dtype.itemsize
        width = panel_width(b.shape[1], lanes, self._machine.registers) * lanes
        panels = -(-b.shape[1] // width)
        buffer = Buffer(panels * width * b.shape[0], b.dtype)
        pieces = _pieces(b, self._joins.get(b.buffer), width)
        whole = pieces or (Piece(b, 0, 0),)
        self.packed[b] = Packed(b, buffer.whole((buffer.size,)), width, right, whole)
        return pieces

    def early(self) -> list[PackJob]:
        """The packing of what depends on parameters and constants alone."""
        return [self._waiting.pop(b) for b in self._early if b in self._waiting]

    def before(self, instruction: Instruction) -> list[PackJob]:
        """The packing that the instruction is the first to want."""
        if isinstance(instruction, Product) and instruction.b in self._waiting:
            return [self._waiting.pop(instruction.b)]
        return []


def _static_joins(lowered: Lowered) -> dict[Buffer, list[Loop]]:
    """Buffers into which weights are only copied, side by side, with the copies."""
    found: dict[Buffer, list[Loop]] = defaultdict(list)
    others: set[Buffer] = set()
    for i, instruction in enumerate(lowered.instructions):
        plain = (
            isinstance(instruction, Loop)
            and i < lowered.static
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


def _pieces(b: View, copies: Sequence[Loop] | None, width: int) -> tuple[Piece, ...] | None:
    """The right operand as the pieces that were to be copied together; None if they do not end with panels."""
    if not copies:
        return None
    turned = b.strides[1] != 1
    pitch = b.strides[1] if turned else b.strides[0]
    pieces = []
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
        piece = Piece(source.transposed((1, 0)) if turned else source, row, column)
        rows, columns = piece.source.shape
        inside = 0 <= row <= b.shape[0] - rows and 0 <= column <= b.shape[1] - columns
        ends = column % width == 0 and (columns % width == 0 or column + columns == b.shape[1])
        if not inside or not ends:
            return None
        pieces.append(piece)
    return tuple(pieces) if sum(p.source.size for p in pieces) == b.size else None


def _needless_copies(
    lowered: Lowered, joins: Mapping[Buffer, Sequence[Loop]], in_pieces: set[View]
) -> set[Instruction]:
    """Copies into joins that only products read, which pack the pieces from where they are."""
    buffers = {b.buffer for b in in_pieces}
    for instruction in lowered.instructions:
        for access in instruction.reads:
            packed = isinstance(instruction, Product) and access is instruction.reads[1]
            if not packed or access.view not in in_pieces:
                buffers.discard(access.view.buffer)
    for node in lowered.graph.outputs:
        buffers.discard(lowered.views[node].buffer)
    return {copy for buffer in buffers for copy in joins[buffer]}


def _is_fed(node: object) -> bool:
    """True for what depends directly on an Input or a Random node."""
    while isinstance(node, Node) and node.op.is_view:
        node = node.inputs[0]
    return isinstance(node, Node) and not node.inputs and node.op.is_fed


def _rows_of(job: Job, access: Access) -> tuple[int, int] | None:
    """How the rows are divided, if the job's cores each touch their own rows of the whole buffer."""
    view = access.view
    if job.split != "rows" or not access.by_rows or not view.shape or view.shape[0] != job.count:
        return None
    return (job.count, job.tiles) if view.strides[0] * job.count == view.buffer.size else None
