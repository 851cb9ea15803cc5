"""Metrics of the units of any net: what a step in all parameters costs by what it does to each unit.

groups   which weights meet at which pre-activations, found in the graph of a cost
moduli   how much a change of each pre-activation counts
blocks   what a modulus makes of the weights of a group, and steps M⁻¹ g
metrics  each metric: a modulus, and how much of the blocks is kept
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.riemannian.blocks import Solver
    from graphnet_rnn.riemannian.groups import UnitGroup, unit_groups
    from graphnet_rnn.riemannian.metrics import (
        KINDS,
        METRICS,
        Backpropagated,
        Frequency,
        Kronecker,
        Metric,
        OuterProduct,
        RootMeanSquare,
    )

__all__ = [
    "KINDS",
    "METRICS",
    "Backpropagated",
    "Frequency",
    "Kronecker",
    "Metric",
    "OuterProduct",
    "RootMeanSquare",
    "Solver",
    "UnitGroup",
    "unit_groups",
]
