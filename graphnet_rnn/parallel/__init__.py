"""Data-parallel processes: distribution of a step's work, and sums that are bit-identical on all.

ranks      one process alone, the interface of all code; sums in a fixed order, whichever process computes which part
launcher   the environment variables of `mpiexec`
mpi        the processes of `mpiexec`
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.parallel.mpi import MPIRanks as MPIRanks, as_ranks as as_ranks, launched as launched
    from graphnet_rnn.parallel.ranks import ALONE as ALONE, Ranks as Ranks
