"""Several processes that work on one step: who makes which part of a sum, and that all get the same bits.

ranks      one process alone, which is what all code sees; sums in an order that does not depend on who made which
launcher   what `mpiexec` has told this process
mpi        the processes of `mpiexec`
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.parallel.mpi import MPIRanks, as_ranks, launched
    from graphnet_rnn.parallel.ranks import ALONE, Ranks

__all__ = ["ALONE", "MPIRanks", "Ranks", "as_ranks", "launched"]
