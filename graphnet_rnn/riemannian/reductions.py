"""How much of a group's blocks a metric keeps, by name."""

from __future__ import annotations

from graphnet_rnn.riemannian.blocks import (
    Block,
    Diagonal,
    DiagonalOfSlopes,
    Frequency,
    Full,
    QuasiDiagonal,
    RootMeanSquare,
)
from graphnet_rnn.riemannian.kronecker import Kronecker, KroneckerOverTime, KroneckerSymmetric
from graphnet_rnn.riemannian.rows import Rows

__all__ = ["REDUCTIONS", "block_of"]


def block_of(reduction: str, rows: Rows) -> Block:
    """The block of a group; of one without Kronecker factors its diagonal, where these are asked for."""
    kind = REDUCTIONS[reduction]
    if issubclass(kind, Kronecker) and not kind.has_factors(rows.group):
        return DiagonalOfSlopes(rows)
    return kind(rows)


REDUCTIONS: dict[str, type[Block]] = {
    "diagonal": Diagonal,
    "quasi-diagonal": QuasiDiagonal,
    "full": Full,
    "rms": RootMeanSquare,
    "frequency": Frequency,
    "kronecker": Kronecker,
    "kronecker symmetric": KroneckerSymmetric,
    "kronecker over time": KroneckerOverTime,
}
