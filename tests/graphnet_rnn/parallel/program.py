"""Started by `test_mpi.py` with mpiexec: python -m tests.graphnet_rnn.parallel.program WHAT FOLDER"""

from __future__ import annotations

import os
import signal
import sys

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
from graphnet_rnn.parallel import ALONE, MPIRanks, Ranks, mpi
from graphnet_rnn.parallel.mpi import takes_gpu


def parts_of(count: int, length: int) -> list[np.ndarray]:
    """Parts of very different magnitudes, so that another order of additions changes the bits."""
    random = np.random.default_rng(count)
    return [random.standard_normal(length) * 10.0 ** random.integers(-8, 9) for _ in range(count)]


def sums(ranks: MPIRanks) -> None:
    """Sums of short and long vectors (which use different algorithms), and of fewer parts than ranks."""
    for count, length in ((7, 5), (7, 40_000), (2, 5), (2, 40_001)):
        parts = parts_of(count, length)
        found = ranks.sum(count, (parts[i] for i in ranks.own(count)), length)
        assert found.tobytes() == ALONE.sum(count, parts, length).tobytes()
    assert ranks.any(1 << ranks.rank) == (1 << ranks.size) - 1
    assert ranks.gather("x" * ranks.rank) == ["x" * rank for rank in range(ranks.size)]
    assert ranks.of_first(lambda: [ranks.rank]) == [0]
    try:
        ranks.of_first(lambda: 1 // 0)
    except ZeroDivisionError:
        print("well" if ranks.is_first else "", end="")


def on_a_gpu(ranks: MPIRanks) -> None:
    """Sums of vectors on a GPU have the same bits with a GPU-aware MPI and through the host.

    A simulated GPU uses the host's memory, which any MPI can access.
    """
    from mpi4py import MPI

    from graphnet.backends.cuda.device import SIMULATED

    for gpu in (True, False) if SIMULATED or takes_gpu(MPI.COMM_WORLD) else (False,):
        ranks.gpu = gpu
        for together in (1 << 16, 0):
            mpi.TOGETHER = together
            for count in (7, 2, 1):
                parts = parts_of(count, 5)
                placed = (gn.place(parts[i], "cuda") for i in ranks.own(count))
                found = ranks.sum(count, placed, 5)
                assert gn.backend_of(found) == ("cuda" if gpu and ranks.own(count) else "numba")
                assert np.asarray(found).tobytes() == ALONE.sum(count, parts, 5).tobytes()
    print("well" if ranks.is_first else "", end="")


def training(ranks: Ranks, what: str, folder: str) -> None:
    corpus = rnn.data.Corpus.split("the cat sat on the mat, and the rat sat on the hat.\n" * 30)
    network = rnn.Network([rnn.Elman(4)], len(corpus.vocabulary), len(corpus.vocabulary))
    problem = rnn.DrawnText(network, corpus, 6, 4, gradient_batches=4, sample=0, threads=1)
    feed = problem.feed

    def at(epoch: int, step: int) -> rnn.Objective:
        if what == "hangs" and isinstance(ranks, MPIRanks) and epoch == 1 and step == 2:
            ranks.patience = 2.0  # timeout in seconds if the other rank hangs
        if ranks.rank == 1 and epoch == 1 and step == 2:
            if what == "raises":
                raise RuntimeError("the disk of this machine is gone")
            os.kill(os.getpid(), {"hangs": signal.SIGSTOP, "dies": signal.SIGKILL}[what])
        return feed(epoch, step)

    if what != "well":
        problem.feed = at  # type: ignore[method-assign]
    settings = rnn.Training(rnn.HessianFree(cg_steps=3), epochs=3)
    trainer = rnn.Trainer(problem, settings, folder, parallel=ranks)
    if os.path.exists(folder):
        trainer.resume()
    trainer.run()


if __name__ == "__main__":
    from mpi4py import MPI

    ranks = MPIRanks(MPI.COMM_WORLD)
    with ranks.together():
        what, *words = sys.argv[1:]
        alone = {"sums": sums, "on_a_gpu": on_a_gpu}.get(what)
        if alone:
            alone(ranks)
        else:
            training(ranks, what, *words)
