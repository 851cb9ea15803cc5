"""Metrics of the units of any net, for natural-gradient training.

groups     weights that enter the same pre-activations, found in the graph of a cost
losses     losses of a cost, the nodes that they read, and their Hessians
moduli     modulus of each pre-activation: the cost's sensitivity to it
rows       sources and moduli of a group, over all cases and time steps
blocks     blocks of the metric for the weights of a group, and steps M⁻¹ g
kronecker  the same for K-FAC
metrics    each metric: a modulus, and the entries of the blocks to keep
over_cost  a metric of one cost, and steps of gradients in it
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.riemannian.blocks import Solver as Solver
    from graphnet_rnn.riemannian.groups import UnitGroup as UnitGroup, unit_groups as unit_groups
    from graphnet_rnn.riemannian.metrics import (
        METRICS as METRICS,
        Backpropagated as Backpropagated,
        Frequency as Frequency,
        Kronecker as Kronecker,
        Metric as Metric,
        OuterProduct as OuterProduct,
        RootMeanSquare as RootMeanSquare,
    )
