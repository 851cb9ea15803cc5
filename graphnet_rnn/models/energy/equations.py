"""Free energy and log Z as nodes; all gradients of this package are derivatives of these two."""

from __future__ import annotations

import math

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.errors import UsageError
from graphnet_rnn.models.energy.units import VisibleUnits

#: Maximum number of terms of an exact log Z, of which memory holds a few arrays.
LARGEST_SUM = 2**24


def free_energy(v: Node, W: Node, b_v: Node, b_h: Node, units: VisibleUnits) -> Node:
    """F(v) = -log Σ_h exp(-E(v, h)) = e(v) - v·b_v - Σ_i softplus(v W + b_h)_i, e(v) = |v|²/2σ² or 0.

    v: (..., visible). b_v, b_h: vectors, or one row for each case. Result: (...), nats.
    Source: Sutskever 2013, eqs 2.24, 2.33, with h summed out.
    """
    linear = gn.sum(v * b_v, axis=-1) + gn.sum(gn.softplus(v @ W + b_h), axis=-1)
    own = units.own_energy(v)
    return -linear if own is None else own - linear


def log_partition(owner: str, W: Node, b_v: Node, b_h: Node, units: VisibleUnits) -> Node:
    """log Z = log Σ_v exp(-F(v)), exact: the side with fewer units is enumerated, the other summed in closed form.

    b_v, b_h: (visible), (hidden), or with leading axes (time, batch): one RBM for each. Result: those axes; nats.
    Raises UsageError for more than 2^24 numbers. Source: Sutskever 2013, eqs 2.25, 2.33.
    """
    visible, hidden = W.shape
    over_visible = units.countable and visible < hidden
    count = visible if over_visible else hidden
    leading = b_v.shape[:-1] or b_h.shape[:-1]
    machines, width = math.prod(leading), hidden if over_visible else visible
    if machines * 2**count * width > LARGEST_SUM:
        raise UsageError(
            f"{owner}: the exact log Z of {visible} visible and {hidden} hidden units sums {machines} x 2^{count} x "
            f"{width} numbers (RBMs, states, units); at most {LARGEST_SUM:,} are allowed. Use fewer cases, or "
            "evaluate a larger model by its reconstructions or predictions."
        )
    states = gn.constant(all_states(count).astype(W.dtype))
    rows_v = gn.reshape(b_v, (math.prod(b_v.shape[:-1]), visible))
    rows_h = gn.reshape(b_h, (math.prod(b_h.shape[:-1]), hidden))
    if over_visible:
        own, other, inputs = rows_v, rows_h, states @ W
    else:
        own, other, inputs = rows_h, rows_v, states @ W.T
    # Axes: RBM, state of the side that is enumerated, unit of the other side.
    total = gn.reshape(other, (other.shape[0], 1, other.shape[1])) + gn.reshape(inputs, (1, *inputs.shape))
    summed = gn.sum(gn.softplus(total), axis=-1) if over_visible else units.log_normaliser(total)
    return gn.reshape(gn.logsumexp(own @ states.T + summed, axis=-1), leading)


def growth(energies: Node, reference: Node) -> Node:
    """log (1/M) Σ_m exp(F_k(v_m) - F(v_m)): estimated growth of log Z since chains ended at the M places v_m

    energies: F(v_m) now; reference: F_k(v_m), when the chains ran; axis 0 is that of the chains. By importance
    sampling: Z / Z_k is the mean of exp(F_k - F) over the earlier distribution. Convex in W and the biases.
    Source: Geyer & Thompson 1992.
    """
    return gn.logsumexp(reference - energies, axis=0) - math.log(energies.shape[0])


def all_states(units: int) -> Array:
    """All binary vectors, (2^units, units), int64."""
    return np.arange(2**units)[:, None] >> np.arange(units) & 1
