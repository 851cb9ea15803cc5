"""The processes of `mpiexec`, by mpi4py."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, TypeVar

import numpy as np

from graphnet.backends import backend_of
from graphnet.graph.node import Array
from graphnet.system.process import own_cores
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.parallel.launcher import rank_and_size
from graphnet_rnn.parallel.ranks import ALONE, Ranks, branches, joined, summed
from graphnet_rnn.settings import amount, shown

T = TypeVar("T")
#: Timeout for a rank that does not answer, in seconds.
PATIENCE = 300.0
#: Seconds to wait for the same error in all ranks.
ENDING = 5.0
#: Larger messages (bytes, over all ranks) are summed in slices, one by each rank.
TOGETHER = 1 << 16
#: Seconds of busy waiting.
SPIN = 2e-4
#: Back end with vectors in GPU memory, and MPI's name of that memory.
GPU = "cuda"
#: Tags of small messages: the rank is present; it is about to print the reason of the end; the witness is dismissed.
HERE, SPEAKS, SILENT = 1, 2, 3
#: Shell command that prints the sentence unless its input has a line.
WITNESS = 'read -r word || printf "%s\\n" "$1" >&2'


def launched(patience: float = PATIENCE) -> Ranks:
    """Returns the ranks of the `mpiexec` that started this process; one rank without it. UsageError without mpi4py."""
    if rank_and_size()[1] == 1:
        return ALONE
    if importlib.util.find_spec("mpi4py") is None:
        raise UsageError(
            "mpiexec has started several processes, but mpi4py is not installed: pip install 'graphnet-rnn[mpi]'"
        )
    return _world(patience)


def as_ranks(who: str, parallel: Ranks | str | None) -> Ranks:
    """Returns one process for None, the processes of `mpiexec` for "mpi", or the given ranks."""
    if parallel is None:
        return ALONE
    if parallel == "mpi":
        return launched()
    if not isinstance(parallel, Ranks):
        raise UsageError(f'{who}: parallel must be "mpi", rnn.parallel.Ranks, or None, not {shown(parallel)}')
    return parallel


def is_spoken_for() -> bool:
    """True if the first process prints this process's message: all have ended in the same way."""
    if not rank_and_size()[0] or not _world.cache_info().currsize:
        return False
    ranks = launched()
    return isinstance(ranks, MPIRanks) and ranks.ended_together


@cache
def _world(patience: float) -> MPIRanks:
    from mpi4py import MPI

    return MPIRanks(MPI.COMM_WORLD, patience)


class MPIRanks(Ranks):
    """The ranks of an mpi4py communicator.

    All ranks call every method. Sums of long vectors are sliced: each rank adds one slice and all gather the slices, so
    each sends and receives about two vectors, for any number of ranks.
    patience: seconds after which a rank that does not answer aborts the job, with a message that names it.
    GPU vectors are passed to MPI directly if it supports device memory (see `takes_gpu`), else through the host; the
    order of additions, and so the bits, are the same.
    """

    def __init__(self, communicator: Any, patience: float = PATIENCE) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self.patience = amount("MPIRanks: patience", patience, above_zero=True)
        #: True if MPI accepts vectors in GPU memory.
        self.gpu = takes_gpu(communicator)
        self._comm, self._watch = communicator.Dup(), communicator.Dup()
        self.rank, self.size = self._comm.Get_rank(), self._comm.Get_size()
        own = own_cores()
        here = self._comm.Split_type(MPI.COMM_TYPE_SHARED).allgather(own)
        # Launchers may have assigned cores to each rank.
        apart = sum(map(len, here)) == len(set().union(*here))
        self.threads = len(own) if apart else max(1, len(set().union(*here)) // len(here))
        self._depth = 0
        self._witness: subprocess.Popen[bytes] | None = None
        #: True if all ranks have reached the end of `together`, so that one may print for all.
        self.ended_together = False

    # -- sums ----------------------------------------------------------------------------------

    def sum(self, count: int, parts: Iterable[Array], length: int) -> Array:
        of_rank = [
            branches(own.start, own.stop, count) for own in (self.own(count, r) for r in range(self.size))
        ]
        given = iter(parts)
        own = [self._as_sent(summed(given, *branch)) for branch in of_rank[self.rank]]
        most = max(map(len, of_rank)) * self.size * length * 8
        if most <= TOGETHER:
            found = self._gathered(_end_to_end(own), [len(each) * length for each in of_rank])
            return self._joined(found, of_rank, count, length)
        slices = [slice(length * r // self.size, length * (r + 1) // self.size) for r in range(self.size)]
        lengths = [each.stop - each.start for each in slices]
        mine = lengths[self.rank]
        send = _end_to_end([vector[each] for each in slices for vector in own])
        receive = _empty_beside(send, mine * sum(map(len, of_rank)))
        self._wait(self._comm.Ibarrier())
        self._wait(
            self._comm.Ialltoallv(
                [self._as_buffer(send), [len(own) * n for n in lengths], self._mpi.DOUBLE],
                [self._as_buffer(receive), [len(each) * mine for each in of_rank], self._mpi.DOUBLE],
            ),
            moving=True,
        )
        return self._gathered(self._joined(receive, of_rank, count, mine), lengths, moving=True)

    def _gathered(self, own: Array, counts: list[int], moving: bool = False) -> Array:
        whole = _empty_beside(own, sum(counts))
        self._wait(
            self._comm.Iallgatherv(
                [self._as_buffer(own), len(own), self._mpi.DOUBLE],
                [self._as_buffer(whole), counts, self._mpi.DOUBLE],
            ),
            moving,
        )
        return whole

    @staticmethod
    def _joined(flat: Array, of_rank: list[list[tuple[int, int]]], count: int, length: int) -> Array:
        known = [branch for each in of_rank for branch in each]
        found = {branch: flat[i * length : (i + 1) * length] for i, branch in enumerate(known)}
        return joined(found, 0, count)

    def _as_sent(self, vector: Array) -> Array:
        return vector if self.gpu and backend_of(vector) == GPU else np.asarray(vector)

    def _as_buffer(self, vector: Array) -> Any:
        """Returns the memory of a vector, after synchronizing the GPU, since MPI would not wait."""
        if backend_of(vector) != GPU:
            return vector
        from graphnet.backends.cuda.device import this_device

        this_device().wait()
        return self._mpi.buffer.fromaddress(this_device().address(vector.memory), vector.nbytes)  # type: ignore[attr-defined]

    # -- agreement -----------------------------------------------------------------------------

    def any(self, flags: int) -> int:
        found = np.zeros(self.size, np.int64)
        self._wait(self._comm.Iallgather(np.array([flags], np.int64), found))
        return int(np.bitwise_or.reduce(found))

    def of_first(self, make: Callable[[], T]) -> T:
        if not self.is_first:
            found, error = pickle.loads(self._broadcast(b""))
        else:
            found, error = None, None
            try:
                found = make()
            except Exception as raised:
                error = raised
            self._broadcast(_as_bytes(found, error))
        if error is not None:
            raise error
        return found

    def _broadcast(self, content: bytes) -> bytes:
        size = np.array([len(content)], np.int64)
        self._wait(self._comm.Ibcast(size, 0), patience=math.inf)  # the first rank may be busy for long
        buffer = np.frombuffer(content, np.uint8) if self.is_first else np.empty(int(size[0]), np.uint8)
        self._wait(self._comm.Ibcast(buffer, 0))
        return buffer.tobytes()

    def gather(self, value: T) -> list[T]:
        content = np.frombuffer(pickle.dumps(value), np.uint8)
        sizes = np.zeros(self.size, np.int64)
        self._wait(self._comm.Iallgather(np.array([content.size], np.int64), sizes))
        whole = np.empty(int(sizes.sum()), np.uint8)
        self._wait(
            self._comm.Iallgatherv(
                [content, content.size, self._mpi.BYTE], [whole, sizes.tolist(), self._mpi.BYTE]
            )
        )
        return [pickle.loads(each.tobytes()) for each in np.split(whole, np.cumsum(sizes)[:-1])]

    # -- faults --------------------------------------------------------------------------------

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        self._depth += 1
        error: BaseException | None = None
        try:
            yield
        except BaseException as raised:
            error = raised
        finally:
            self._depth -= 1
        if not self._depth:
            common = self._all_ended()
            if error is not None and not common:
                self._abort(f"rank {self.rank} of {self.size}: {str(error) or type(error).__name__}")
            self.ended_together = common
        if error is not None:
            raise error

    @contextlib.contextmanager
    def witnessed(self, sentence: str) -> Iterator[None]:
        """See Ranks. A separate shell prints the sentence, since launchers kill all processes at once."""
        shell = shutil.which("sh")
        if self.is_first and shell is not None:
            self._witness = subprocess.Popen(
                [shell, "-c", WITNESS, "sh", f"graphnet-rnn: {sentence}"],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        try:
            yield
        finally:
            self._dismiss()

    def _dismiss(self) -> None:
        witness, self._witness = self._witness, None
        if witness is not None:
            witness.communicate(b"well\n")

    def _all_ended(self) -> bool:
        request, end = self._watch.Ibarrier(), time.monotonic() + ENDING
        while not request.Test():
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True

    # A pause of 50 µs while long vectors move: 0.1 GB/s instead of 1.6 GB/s. MPICH sends one piece per poll.
    def _wait(self, request: Any, moving: bool = False, patience: float | None = None) -> None:
        """Aborts the job after `patience`. moving: polls without a pause, since each poll moves one piece."""
        begun, patience = time.monotonic(), self.patience if patience is None else patience
        while not request.Test():
            waited = time.monotonic() - begun
            if waited > patience:
                self._name_missing()
            if self._witness is not None and waited > SPIN:
                self._let_speak()
            if moving or waited < SPIN:
                os.sched_yield() if hasattr(os, "sched_yield") else time.sleep(0)
            else:
                time.sleep(5e-5)

    def _name_missing(self) -> None:
        """Aborts the job. Waiting ranks notify all others; silent ranks are missing."""
        others = [rank for rank in range(self.size) if rank != self.rank]
        word = np.zeros(1, np.int8)
        heard = {
            rank: self._watch.Irecv([np.zeros(1, np.int8), self._mpi.BYTE], rank, HERE) for rank in others
        }
        sent = [self._watch.Isend([word, self._mpi.BYTE], rank, HERE) for rank in others]
        end = time.monotonic() + ENDING
        missing = set(others)
        while missing and time.monotonic() < end:
            missing -= {rank for rank in missing if heard[rank].Test()}
            time.sleep(0.01)
        del sent
        there = [rank for rank in range(self.size) if rank not in missing]
        if self.rank != there[0]:  # only the first one prints
            time.sleep(ENDING)
        named = f"rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, sorted(missing)))}"
        who = named if missing else "a rank"
        self._abort(f"{who} of {self.size} did not answer for {self.patience:g} s; the run can be resumed")

    def _let_speak(self) -> None:
        """Dismisses the witness if another rank is about to abort the job with a message."""
        for rank in range(1, self.size):
            if self._watch.Iprobe(rank, SPEAKS):
                self._dismiss()
                self._watch.Isend([np.zeros(1, np.int8), self._mpi.BYTE], rank, SILENT)
                return

    def _abort(self, sentence: str) -> None:
        if self.is_first:
            self._dismiss()
        else:  # dismiss the witness of the first rank, so that the reason is printed once
            answer = self._watch.Irecv([np.zeros(1, np.int8), self._mpi.BYTE], 0, SILENT)
            self._watch.Isend([np.zeros(1, np.int8), self._mpi.BYTE], 0, SPEAKS)
            end = time.monotonic() + ENDING / 5
            while not answer.Test() and time.monotonic() < end:
                time.sleep(0.01)
        print(f"graphnet-rnn: {sentence}", file=sys.stderr, flush=True)
        self._comm.Abort(1)


def takes_gpu(communicator: Any) -> bool:
    """True if this MPI accepts arrays in GPU memory. Source: MPI 4.1, 11.4.3, mpi_memory_alloc_kinds."""
    kinds = communicator.Get_info().Get("mpi_memory_alloc_kinds") or ""
    return GPU in {kind.strip().partition(":")[0] for kind in kinds.split(",")}


def _end_to_end(vectors: list[Array]) -> Array:
    if not vectors or backend_of(vectors[0]) != GPU:
        return np.concatenate([np.zeros(0), *vectors])
    whole, at = _empty_beside(vectors[0], sum(map(len, vectors))), 0
    for vector in vectors:
        whole[at : at + len(vector)] = vector
        at += len(vector)
    return whole


def _empty_beside(like: Array, count: int) -> Array:
    if backend_of(like) != GPU:
        return np.empty(count)
    from graphnet.backends.cuda.arrays import empty

    return empty((count,), np.dtype(np.float64))  # type: ignore[return-value]


def _as_bytes(found: Any, error: Exception | None) -> bytes:
    """Pickles a result or error; errors that cannot be pickled are sent as text."""
    try:
        content = pickle.dumps((found, error))
        pickle.loads(content)
    except Exception as problem:
        shown = problem if error is None else error
        return pickle.dumps((None, TrainingError(f"{type(shown).__name__}: {shown}")))
    return content
