"""The compiled program: jobs divided among cores, tapes over one arena, and the threads that run them."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from graphnet.backends.base import Program
from graphnet.backends.numba.jobs import (
    BlockedProductJob,
    Job,
    LoopJob,
    Packed,
    PackedProductJob,
    PackJob,
    Record,
    ScatterJob,
    Target,
    panel_width,
)
from graphnet.backends.numba.machine import this_machine
from graphnet.backends.numba.tape import BARRIER, runner
from graphnet.backends.numba.threads import run_together
from graphnet.errors import BackendError
from graphnet.graph import Graph
from graphnet.node import Array, Node
from graphnet.ops.leaf import Input
from graphnet.ops.random import Random
from graphnet.ops.shape import Concatenate, Slice, Stack
from graphnet.plan.arena import ALIGNMENT, Life, give_places
from graphnet.plan.instructions import Access, Host, Load, Loop, Product, Scatter
from graphnet.plan.lowering import VIEWS, Lowered, lower
from graphnet.plan.order import Memory
from graphnet.plan.views import Buffer, View

__all__ = ["NumbaProgram"]

#: Bytes at the start of the arena: the error flag and the barriers' count, each on a line of its own.
HEADER = 256
#: A program of fewer multiply-adds and elements runs on one core: waking another would cost more.
WORTH_SHARING = 3_000_000


class HostJob(Job):
    """The op's own `forward`, between two stretches of native code."""

    def __init__(self, host: Host) -> None:
        self.host, self.nodes, self.reads, self.writes = host, host.nodes, host.reads, host.writes
        self.split, self.count = "", 1

    def records(self, target: Target, part: int, parts: int) -> list[Record]:
        return []


class NumbaProgram(Program):
    def __init__(self, graph: Graph, source: Graph, threads: int | None, check: bool) -> None:
        self.graph, self.source, self.check = graph, source, check
        lowered = lower(graph)
        self._machine = this_machine()
        self.parts = _parts(lowered, threads)
        jobs = _jobs(lowered, self.parts, check)
        barriers = _barriers(jobs, self.parts)
        self._jobs = jobs
        self._allocate(lowered, jobs, barriers)
        self._build(jobs, barriers)
        views = lowered.views
        self._given = [self._array(views[node]) if node in views else None for node in graph.inputs]
        self._copied = [(self._array(views[node]), node) for node in lowered.brought]
        self._results = [self._array(views[node]) for node in graph.outputs]
        self._lock = threading.Lock()

    # -- memory --------------------------------------------------------------------------------------

    def _allocate(self, lowered: Lowered, jobs: Sequence[Job], barriers: set[int]) -> None:
        epochs, epoch = [], 0
        for i in range(len(jobs)):
            epoch += i in barriers
            epochs.append(epoch)
        end = len(jobs)
        first: dict[Buffer, int] = {}
        last: dict[Buffer, int] = {}
        rows: dict[Buffer, int | None] = {}
        for i, job in enumerate(jobs):
            for access in (*job.reads, *job.writes):
                buffer = access.view.buffer
                first.setdefault(buffer, i)
                last[buffer] = i
                tag = _rows_of(job, access)
                rows[buffer] = tag if rows.setdefault(buffer, tag) == tag else None
        for node in (*self.graph.inputs, *lowered.brought):
            view = lowered.views.get(node)
            if view is not None:
                first[view.buffer] = -1
                last.setdefault(view.buffer, -1)
                rows[view.buffer] = None
        for node in self.graph.outputs:
            buffer = lowered.views[node].buffer
            last[buffer] = end
            first.setdefault(buffer, end)
        def epoch_at(i: int) -> int:
            return 0 if i < 0 else epochs[i] if i < end else epoch + 1

        lives = [
            Life(b, first[b], last[b], (epoch_at(first[b]), epoch_at(last[b])), rows.get(b))
            for b in first
            if b.leaf is None
        ]
        size = give_places(lives)
        vector = self._machine.vector_bytes
        scratch = max((job.scratch(vector, self.parts) for job in jobs), default=0)
        scratch = -(-scratch // ALIGNMENT) * ALIGNMENT + 5 * ALIGNMENT
        leaves = sum(node.nbytes for node in self.graph.order if not node.inputs and node in lowered.views and lowered.views[node].buffer.leaf is not None)
        total = HEADER + size + scratch * self.parts
        self.memory = Memory(leaves, total)
        self._arena = Arena(total)
        for job in jobs:
            if isinstance(job, BlockedProductJob):
                job.scratch_address = self._arena.address + HEADER + size
                job.scratch_stride = scratch

    # -- tapes -----------------------------------------------------------------------------------------

    def _build(self, jobs: Sequence[Job], barriers: set[int]) -> None:
        base = self._arena.address
        machine = self._machine
        target = Target(base, base + HEADER, machine.vector_bytes, machine.registers, self.check, machine.avx512)
        self._target = target
        # A segment ends where Python has to do something.
        segments: list[tuple[list[list[Record]], Host | None]] = []
        tapes: list[list[Record]] = [[] for _ in range(self.parts)]
        owners: list[list[Job]] = [[] for _ in range(self.parts)]
        self._owners: list[list[list[Job]]] = []
        met = 0
        for i, job in enumerate(jobs):
            if isinstance(job, HostJob):
                segments.append((tapes, job.host))
                self._owners.append(owners)
                tapes, owners = [[] for _ in range(self.parts)], [[] for _ in range(self.parts)]
                continue
            if i in barriers and any(tapes):
                met += 1
                for tape, owner in zip(tapes, owners, strict=True):
                    tape.append(Record(BARRIER(), (base + 64, met * self.parts)))
                    owner.append(job)
            for part, (tape, owner) in enumerate(zip(tapes, owners, strict=True)):
                records = job.records(target, part, self.parts)
                tape += records
                owner += [job] * len(records)
        segments.append((tapes, None))
        self._owners.append(owners)
        texts = dict.fromkeys(r.text for tapes, _ in segments for tape in tapes for r in tape)
        addresses = dict(zip(texts, self._machine.addresses(list(texts)), strict=True))
        self.kernels = len(addresses)
        self._segments = [
            ([_tape(tape, addresses) for tape in tapes if tape], host) for tapes, host in segments
        ]

    # -- running -----------------------------------------------------------------------------------------

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        with self._lock:
            self._bring(arrays)
            self._execute()
            raised = self._arena.header[0] != 0
            if not raised:
                return [np.array(result, order="C") for result in self._results]
        return self._explain(arrays)

    def _explain(self, arrays: Sequence[Array]) -> list[Array]:
        """An index was out of range, or a value not finite: the NumPy back end says which, in its words."""
        from graphnet.backends.numpy import NumpyProgram

        return NumpyProgram(self.source, None, self.check).run(arrays)

    def _bring(self, arrays: Sequence[Array]) -> None:
        for place, array in zip(self._given, arrays, strict=True):
            if place is not None:
                place[...] = array
        for place, node in self._copied:
            place[...] = node.value

    def _execute(self) -> None:
        self._arena.header[:] = 0
        run = runner()
        for tapes, host in self._segments:
            run_together(run, [bounds.ctypes.data for _, bounds in tapes], self._abort)
            if host is not None:
                self._run_host(host)

    def _abort(self) -> None:
        """No barrier holds any more: whoever waits goes on to the end of its tape."""
        self._arena.header[9] = 1

    def _run_host(self, host: Host) -> None:
        from graphnet.backends.numpy import call_forward

        value = call_forward(host.node, [self._array(v) for v in host.sources])
        self._array(host.target)[...] = value

    def _array(self, view: View) -> Array:
        """The memory of a view, as NumPy sees it."""
        if view.buffer.leaf is not None:
            whole = view.buffer.leaf.value.reshape(-1)
        else:
            start = HEADER + view.buffer.offset
            whole = self._arena.bytes[start : start + view.buffer.nbytes].view(view.dtype)
        if not view.size:
            return np.zeros(view.shape, view.dtype)
        itemsize = view.dtype.itemsize
        return np.lib.stride_tricks.as_strided(
            whole[view.offset :], view.shape, tuple(s * itemsize for s in view.strides)
        )

    def timed(self, arrays: Sequence[Array]) -> dict[Node, float]:
        """Seconds of each node: its job's time on all cores, shared among the job's nodes."""
        spent: dict[Node, float] = defaultdict(float)
        with self._lock:
            self._bring(arrays)
            header = self._arena.header
            header[:] = 0
            run = runner(timed=True)
            for (tapes, host), owners in zip(self._segments, self._owners, strict=True):
                counts = [np.zeros(len(owner), np.int64) for owner in owners if owner]
                bounds = [np.append(b, c.ctypes.data) for (_, b), c in zip(tapes, counts, strict=True)]
                start = time.perf_counter()
                run_together(run, [b.ctypes.data for b in bounds], self._abort)
                elapsed = time.perf_counter() - start
                cycles = max((int(c.sum()) for c in counts), default=0)
                for count, owner in zip(counts, (o for o in owners if o), strict=True):
                    for ticks, job in zip(count.tolist(), owner, strict=True):
                        share = ticks * elapsed / max(cycles, 1) / len(job.nodes) / len(counts)
                        for node in job.nodes:
                            spent[node] += share
                if host is not None:
                    start = time.perf_counter()
                    self._run_host(host)
                    spent[host.node] += time.perf_counter() - start
        return spent


def _tape(records: Sequence[Record], addresses: dict[str, int]) -> tuple[Array, Array]:
    words: list[int] = []
    for record in records:
        words.append(addresses[record.text])
        words.append(2 + len(record.words))
        words.extend(record.words)
    tape = np.array(words, np.int64)
    return tape, np.array([tape.ctypes.data, tape.ctypes.data + tape.nbytes], np.int64)


class Arena:
    """Zeroed memory that starts on a cache line, on huge pages where the system has them."""

    def __init__(self, nbytes: int) -> None:
        page = 1 << 21
        self._raw = np.zeros(nbytes + (page if nbytes >= page else ALIGNMENT), np.uint8)
        step = page if nbytes >= page else ALIGNMENT
        start = -self._raw.ctypes.data % step
        self.bytes = self._raw[start : start + nbytes]
        self.address = self.bytes.ctypes.data
        self.header = self.bytes[:HEADER].view(np.int64)
        if nbytes >= page:
            _ask_for_huge_pages(self.address, nbytes)


def _ask_for_huge_pages(address: int, nbytes: int) -> None:
    try:
        ctypes.CDLL(None).madvise(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), 14)
    except (AttributeError, OSError, TypeError):  # another system: ordinary pages do
        pass


# -- planning ----------------------------------------------------------------------------------------


def _work(lowered: Lowered) -> int:
    total = 0
    for instruction in lowered.instructions:
        if isinstance(instruction, Product):
            total += instruction.c.size * instruction.a.shape[1]
        elif isinstance(instruction, Loop):
            size = 1
            for n in instruction.shape:
                size *= n
            total += size * (1 + len(instruction.steps))
    return total


def _parts(lowered: Lowered, threads: int | None) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if threads is not None:
        return min(threads, 64)
    return min(cores, 16) if _work(lowered) >= WORTH_SHARING else 1


def _jobs(lowered: Lowered, parts: int, check: bool) -> list[Job]:
    """A job for each instruction, and the packing of right operands that several rows share.

    check: loops look at all that they read and compute; what other jobs make is looked at by a loop of its own.
    """
    machine_ = this_machine()
    users: dict[View, list[Product]] = defaultdict(list)
    for instruction in lowered.instructions:
        if isinstance(instruction, Product):
            users[instruction.b].append(instruction)
    writer_of: dict[Buffer, int] = {}
    for i, instruction in enumerate(lowered.instructions):
        for access in instruction.writes:
            writer_of[access.view.buffer] = i
    packed: dict[View, Packed] = {}
    waiting: dict[View, PackJob] = {}
    early: list[View] = []
    jobs: list[Job] = []
    for b, products in users.items():
        rows = sum(p.c.shape[0] for p in products)
        static = writer_of.get(b.buffer, -1) < lowered.static and not _is_fed(products[0].reads[1].node)
        if rows <= 8 or not (static or len(products) > 1):
            continue
        lanes = machine_.vector_bytes // b.dtype.itemsize
        width = panel_width(b.shape[1], lanes, machine_.registers) * lanes
        panels = -(-b.shape[1] // width)
        buffer = Buffer(panels * width * b.shape[0], b.dtype)
        node = products[0].reads[1].node
        packed[b] = Packed(b, buffer.whole((buffer.size,)), width, node)  # type: ignore[arg-type]
        waiting[b] = PackJob(packed[b], products[0].reads[1], parts)
        if static:
            early.append(b)
    for i, instruction in enumerate(lowered.instructions):
        if i == lowered.static:
            jobs += [waiting.pop(b) for b in early if b in waiting]
        if isinstance(instruction, Product):
            b = instruction.b
            if b in waiting:
                jobs.append(waiting.pop(b))
            if b in packed:
                jobs.append(PackedProductJob(instruction, packed[b], parts))
            else:
                jobs.append(BlockedProductJob(instruction, parts))
        elif isinstance(instruction, Loop):
            jobs.append(LoopJob(instruction, parts))
        elif isinstance(instruction, Scatter):
            jobs.append(ScatterJob(instruction, parts))
        elif isinstance(instruction, Host):
            jobs.append(HostJob(instruction))
        else:
            raise BackendError(f"the numba back end has no job for {type(instruction).__name__}")
        if check and not (isinstance(instruction, Loop) and instruction.reduction is None):
            jobs += [LoopJob(_looking_at(access), parts) for access in instruction.writes]
    return jobs


def _looking_at(access: Access) -> Loop:
    """A loop that reads a value and stores nothing."""
    view, node = access.view, access.node
    assert isinstance(node, Node)
    load = Load("plain", view, None, view.dtype)
    return Loop((node,), view.shape, [load], [], [], reads=[access])


def _is_fed(node: object) -> bool:
    """True for what depends directly on an Input or a Random node."""
    while isinstance(node, Node) and isinstance(node.op, VIEWS):
        node = node.inputs[0]
    return isinstance(node, Node) and isinstance(node.op, (Input, Random))


def _rows_of(job: Job, access: Access) -> int | None:
    """The number of rows, if the job's cores each touch their own rows of the whole buffer."""
    view = access.view
    if job.split != "rows" or not access.by_rows or not view.shape or view.shape[0] != job.count:
        return None
    return job.count if view.strides[0] * job.count == view.buffer.size else None


def _barriers(jobs: Sequence[Job], parts: int) -> set[int]:
    """Before which jobs all cores must meet: those that read what another core wrote since the last meeting."""
    if parts == 1:
        return set()
    barriers: set[int] = set()
    written: dict[object, list[tuple[int, Job, Access]]] = defaultdict(list)
    origins = _Origins()
    since = 0
    for i, job in enumerate(jobs):
        if isinstance(job, HostJob):
            since = i + 1
            barriers.add(i)
            continue
        if any(_clashes(job, access, written, origins, since) for access in job.reads):
            barriers.add(i)
            since = i
        for access in job.writes:
            written[access.node].append((i, job, access))
    return barriers


def _clashes(
    job: Job,
    access: Access,
    written: dict[object, list[tuple[int, Job, Access]]],
    origins: _Origins,
    since: int,
) -> bool:
    view = access.view
    for node, whole_rows in origins.of(access.node):
        for i, writer, made in reversed(written.get(node, ())):
            if i < since:
                break
            if job.key != writer.key:
                return True
            if not job.split:
                continue
            aligned = (
                job.split == "rows"
                and access.by_rows
                and made.by_rows
                and whole_rows
                and view.shape[0] == made.view.shape[0]
                and view.strides[0] == made.view.strides[0]
            )
            if not aligned:
                return True
    return False


class _Origins:
    """For each node, the nodes that wrote its memory, and whether its rows are theirs, one for one."""

    def __init__(self) -> None:
        self._found: dict[object, list[tuple[object, bool]]] = {}

    def of(self, node: object) -> list[tuple[object, bool]]:
        found = self._found.get(node)
        if found is None:
            found = self._found[node] = list(self._search(node))
        return found

    def _search(self, start: object) -> list[tuple[object, bool]]:
        result: list[tuple[object, bool]] = []
        pending: list[tuple[object, bool]] = [(start, True)]
        seen: set[object] = set()
        while pending:
            node, rows = pending.pop()
            result.append((node, rows))
            if not isinstance(node, Node) or node in seen:
                continue
            seen.add(node)
            if isinstance(node.op, VIEWS):
                x = node.inputs[0]
                same = isinstance(node.op, Slice) and bool(x.shape) and node.op.key[0] == (0, x.shape[0], 1)
                joined = isinstance(x.op, (Concatenate, Stack))
                pending.append((x, rows and (same or not joined)))
            elif isinstance(node.op, (Concatenate, Stack)):
                pending += [(x, rows) for x in node.inputs]
        return result
