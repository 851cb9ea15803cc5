"""The processes that `mpiexec` has started, by mpi4py."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, TypeVar

import numpy as np

from graphnet.graph.node import Array
from graphnet.system.cores import own_cores
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.parallel.ranks import ALONE, Ranks
from graphnet_rnn.parallel.tree import branches, joined, summed
from graphnet_rnn.settings import amount

__all__ = ["MPIRanks", "alone", "as_ranks", "is_spoken_for", "launched", "rank_and_size"]

T = TypeVar("T")
#: What MPICH and Open MPI, and what is made of them, tell a process: its number, and of how many.
VARIABLES = (("PMI_RANK", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))
#: Seconds until a rank that does not answer is given up.
PATIENCE = 300.0
#: Seconds until it is clear that an error is not one of all ranks.
ENDING = 5.0
#: Bytes that all ranks together may send to each of them; above that a sum is made in slices, each by one rank.
TOGETHER = 1 << 16
#: Seconds in which a rank that waits keeps its core.
SPIN = 2e-4


def rank_and_size() -> tuple[int, int]:
    """The number of this process, and how many there are, as mpiexec has told it; (0, 1) without one."""
    for rank, size in VARIABLES:
        with contextlib.suppress(KeyError, ValueError):
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1


def alone(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that is none of those of mpiexec, though one of these starts it."""
    ours = {name for pair in VARIABLES for name in pair}
    return {name: value for name, value in environment.items() if name not in ours}


def launched(patience: float = PATIENCE) -> Ranks:
    """The ranks of the `mpiexec` that has started this process; one alone without it. UsageError without mpi4py."""
    if rank_and_size()[1] == 1:
        return ALONE
    if importlib.util.find_spec("mpi4py") is None:
        raise UsageError(
            "mpiexec has started several processes, and mpi4py is not installed: pip install 'graphnet[mpi]'"
        )
    return _world(patience)


def as_ranks(who: str, parallel: Ranks | str | None) -> Ranks:
    """None: one process alone; "mpi": those of `mpiexec`; or what is given."""
    if parallel is None:
        return ALONE
    if parallel == "mpi":
        return launched()
    if not isinstance(parallel, Ranks):
        raise UsageError(f'{who}: parallel must be "mpi", rnn.parallel.Ranks, or None, not {parallel!r:.60}')
    return parallel


def is_spoken_for() -> bool:
    """Whether the first process of `mpiexec` says what this one would: all have come to the same end."""
    if not rank_and_size()[0] or not _world.cache_info().currsize:
        return False
    ranks = launched()
    return isinstance(ranks, MPIRanks) and ranks.ended_together


@cache
def _world(patience: float) -> MPIRanks:
    from mpi4py import MPI

    return MPIRanks(MPI.COMM_WORLD, patience)


class MPIRanks(Ranks):
    """The ranks of a communicator of mpi4py.

    Every method is called by all of them. A sum of long vectors is made in slices: each rank adds up one, and all get
    them all, so each sends and receives about two vectors, however many they are.
    patience: seconds after which a rank that does not answer ends the job, with a sentence that names it.
    """

    def __init__(self, communicator: Any, patience: float = PATIENCE) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self.patience = amount("MPIRanks: patience", patience, above_zero=True)
        self._comm, self._watch = communicator.Dup(), communicator.Dup()
        self.rank, self.size = self._comm.Get_rank(), self._comm.Get_size()
        own = own_cores()
        here = self._comm.Split_type(MPI.COMM_TYPE_SHARED).allgather(own)
        # Launchers may have given each cores of its own.
        apart = sum(map(len, here)) == len(set().union(*here))
        self.threads = len(own) if apart else max(1, len(set().union(*here)) // len(here))
        self._depth = 0
        #: Whether all have come to the end of `together`, so that one may speak for all.
        self.ended_together = False

    # -- sums ----------------------------------------------------------------------------------

    def sum(self, count: int, parts: Iterable[Array], length: int) -> Array:
        of_rank = [
            branches(own.start, own.stop, count) for own in (self.own(count, r) for r in range(self.size))
        ]
        given = iter(parts)
        own = [np.asarray(summed(given, *branch)) for branch in of_rank[self.rank]]
        most = max(map(len, of_rank)) * self.size * length * 8
        if most <= TOGETHER:
            return self._joined(self._gathered(own, of_rank, length), of_rank, count, length)
        slices = [slice(length * r // self.size, length * (r + 1) // self.size) for r in range(self.size)]
        lengths = [each.stop - each.start for each in slices]
        mine = lengths[self.rank]
        send = np.concatenate([vector[each] for each in slices for vector in own]) if own else np.zeros(0)
        receive = np.empty(mine * sum(map(len, of_rank)))
        self._wait(self._comm.Ibarrier())
        self._wait(
            self._comm.Ialltoallv(
                [send, [len(own) * n for n in lengths], self._mpi.DOUBLE],
                [receive, [len(each) * mine for each in of_rank], self._mpi.DOUBLE],
            ),
            moving=True,
        )
        slice_of_sum = self._joined(receive, of_rank, count, mine)
        whole = np.empty(length)
        self._wait(
            self._comm.Iallgatherv(
                [slice_of_sum, mine, self._mpi.DOUBLE], [whole, lengths, self._mpi.DOUBLE]
            ),
            moving=True,
        )
        return whole

    def _gathered(self, own: list[Array], of_rank: list[list[tuple[int, int]]], length: int) -> Array:
        """The branches of all ranks, one after the other."""
        send = np.concatenate(own) if own else np.zeros(0)
        counts = [len(each) * length for each in of_rank]
        whole = np.empty(sum(counts))
        self._wait(
            self._comm.Iallgatherv([send, len(send), self._mpi.DOUBLE], [whole, counts, self._mpi.DOUBLE])
        )
        return whole

    @staticmethod
    def _joined(flat: Array, of_rank: list[list[tuple[int, int]]], count: int, length: int) -> Array:
        known = [branch for each in of_rank for branch in each]
        found = dict(zip(known, flat.reshape(len(known), length), strict=True))
        return np.ascontiguousarray(joined(found, 0, count))

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
        self._wait(self._comm.Ibcast(size, 0), patience=math.inf)  # the first may have much to do
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

    def _all_ended(self) -> bool:
        """Whether all ranks have come to the end, well or not, within a moment."""
        request, end = self._watch.Ibarrier(), time.monotonic() + ENDING
        while not request.Test():
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True

    def _wait(self, request: Any, moving: bool = False, patience: float | None = None) -> None:
        """Until it is done; a rank that is not there in time ends the job.

        moving: all are there, and long vectors move, a piece at each look: so it looks without a pause.
        """
        begun, patience = time.monotonic(), self.patience if patience is None else patience
        while not request.Test():
            waited = time.monotonic() - begun
            if waited > patience:
                self._name_missing()
            if moving or waited < SPIN:
                os.sched_yield() if hasattr(os, "sched_yield") else time.sleep(0)
            else:
                time.sleep(5e-5)

    def _name_missing(self) -> None:
        """Ends the job. Who waits in vain says so to all others; who says nothing is missing."""
        others = [rank for rank in range(self.size) if rank != self.rank]
        word = np.zeros(1, np.int8)
        heard = {rank: self._watch.Irecv([np.zeros(1, np.int8), self._mpi.BYTE], rank, 1) for rank in others}
        sent = [self._watch.Isend([word, self._mpi.BYTE], rank, 1) for rank in others]
        end = time.monotonic() + ENDING
        missing = set(others)
        while missing and time.monotonic() < end:
            missing -= {rank for rank in missing if heard[rank].Test()}
            time.sleep(0.01)
        del sent
        there = [rank for rank in range(self.size) if rank not in missing]
        if self.rank != there[0]:  # one of them speaks
            time.sleep(ENDING)
        who = (
            f"rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, sorted(missing)))}"
            if missing
            else "a rank"
        )
        self._abort(f"{who} of {self.size} did not answer for {self.patience:g} s; the run can be resumed")

    def _abort(self, sentence: str) -> None:
        print(f"graphnet-rnn: {sentence}", file=sys.stderr, flush=True)
        self._comm.Abort(1)


def _as_bytes(found: Any, error: Exception | None) -> bytes:
    """What can be sent of it; an error that cannot is told by its words."""
    try:
        content = pickle.dumps((found, error))
        pickle.loads(content)
    except Exception as problem:
        shown = problem if error is None else error
        return pickle.dumps((None, TrainingError(f"{type(shown).__name__}: {shown}")))
    return content
