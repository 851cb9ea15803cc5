"""Oracles: the cells and networks once more, in plain NumPy, written from the papers' equations.

Nothing here uses the engine. All of it also runs on complex numbers, so that the derivative along v is
Im f(w + iεv) / ε, exact to rounding for tiny ε (complex-step differentiation): no difference is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Weights = Mapping[str, Array]
Step = Callable[..., tuple[Array, ...]]

TINY = 1e-30  # ε of the complex step


# ---- the cells ---------------------------------------------------------------------------------------------


def sigmoid(a: Array) -> Array:
    """σ(a) = 1 / (1 + e^−a), without overflow."""
    return (1 + np.tanh(a / 2)) / 2


def elman(w: Weights, x: Array, h: Array) -> tuple[Array]:
    """Lynge 2016, (3.32), with a bias."""
    return (np.tanh(x @ w["W_xh"] + h @ w["W_hh"] + w["b_h"]),)


def lstm(w: Weights, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    """Lynge 2016, (3.68)–(3.73), without the peepholes."""
    i = sigmoid(x @ w["W_xi"] + h @ w["W_hi"] + w["b_i"])
    f = sigmoid(x @ w["W_xf"] + h @ w["W_hf"] + w["b_f"])
    o = sigmoid(x @ w["W_xo"] + h @ w["W_ho"] + w["b_o"])
    candidate = np.tanh(x @ w["W_xg"] + h @ w["W_hg"] + w["b_g"])
    c_new = f * c + i * candidate
    return o * np.tanh(c_new), c_new


def lstm_peephole(w: Weights, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    """Lynge 2016, (3.68)–(3.73); as in Graves 2013, peepholes are diagonal and o looks at the new c."""
    i = sigmoid(x @ w["W_xi"] + h @ w["W_hi"] + w["w_ci"] * c + w["b_i"])
    f = sigmoid(x @ w["W_xf"] + h @ w["W_hf"] + w["w_cf"] * c + w["b_f"])
    candidate = np.tanh(x @ w["W_xc"] + h @ w["W_hc"] + w["b_c"])
    c_new = f * c + i * candidate
    o = sigmoid(x @ w["W_xo"] + h @ w["W_ho"] + w["w_co"] * c_new + w["b_o"])
    return o * np.tanh(c_new), c_new


def lstm_krause(w: Weights, x: Array, h: Array, s: Array) -> tuple[Array, Array]:
    """Krause 2015, algorithm 2: linear input, no biases, and the output gate inside the tanh."""
    h_in = x @ w["W_xg"] + h @ w["W_hg"]
    omega = sigmoid(x @ w["W_xi"] + h @ w["W_hi"])
    phi = sigmoid(x @ w["W_xf"] + h @ w["W_hf"])
    rho = sigmoid(x @ w["W_xo"] + h @ w["W_ho"])
    s_new = omega * h_in + s * phi
    return np.tanh(s_new * rho), s_new


def gru(w: Weights, x: Array, h: Array) -> tuple[Array]:
    """Lynge 2016, (3.74)–(3.77), with biases."""
    r = sigmoid(x @ w["W_xr"] + h @ w["W_hr"] + w["b_r"])
    z = sigmoid(x @ w["W_xz"] + h @ w["W_hz"] + w["b_z"])
    candidate = np.tanh(x @ w["W_xn"] + (r * h) @ w["W_hn"] + w["b_n"])
    return ((1 - z) * h + z * candidate,)


def gru_reset_after(w: Weights, x: Array, h: Array) -> tuple[Array]:
    """Cho et al. 2014, arXiv version 1, with torch.nn.GRU's z: z = 1 keeps the state."""
    r = sigmoid(x @ w["W_xr"] + h @ w["W_hr"] + w["b_r"])
    z = sigmoid(x @ w["W_xz"] + h @ w["W_hz"] + w["b_z"])
    candidate = np.tanh(x @ w["W_xn"] + w["b_xn"] + r * (h @ w["W_hn"] + w["b_hn"]))
    return ((1 - z) * candidate + z * h,)


#: step(weights, x, *states) -> the new states; the first of them is what the layer above reads.
STEPS: dict[str, Step] = {
    "Elman": elman,
    "LSTM": lstm,
    "LSTMPeephole": lstm_peephole,
    "LSTMKrause": lstm_krause,
    "GRU": gru,
    "GRUResetAfter": gru_reset_after,
}

#: The names of each cell's states, in the order in which its step takes and returns them.
STATES: dict[str, tuple[str, ...]] = {
    "Elman": ("h",),
    "LSTM": ("h", "c"),
    "LSTMPeephole": ("h", "c"),
    "LSTMKrause": ("h", "s"),
    "GRU": ("h",),
    "GRUResetAfter": ("h",),
}


# ---- the losses, one number for each case ------------------------------------------------------------------


def softmax_loss(o: Array, target: Array) -> Array:
    """−log p(target), p = softmax(o); target: the numbers of the symbols."""
    o = o - o.real.max(axis=1, keepdims=True)
    return np.log(np.exp(o).sum(axis=1)) - o[np.arange(len(o)), target]


def sigmoid_loss(o: Array, target: Array) -> Array:
    """−Σ t log σ(o) + (1 − t) log σ(−o) = Σ log(1 + e^o) − t o."""
    size = np.where(o.real > 0, o, -o)  # |o|
    return (np.where(o.real > 0, o, 0) + np.log1p(np.exp(-size)) - target * o).sum(axis=1)


def squared_loss(o: Array, target: Array) -> Array:
    """Σ (o − t)²"""
    return ((o - target) ** 2).sum(axis=1)


LOSSES: dict[str, Callable[[Array, Array], Array]] = {
    "softmax": softmax_loss,
    "sigmoid": sigmoid_loss,
    "squared": squared_loss,
}


# ---- the network -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """What makes a network, for `run`. cells: names, first layer to last."""

    cells: tuple[str, ...]
    inputs: int
    outputs: int
    loss: str = "softmax"
    skip: bool = False
    reads: str = "symbols"
    unscored: int = 0


@dataclass(frozen=True)
class Result:
    """What a network computes; shapes as in Unrolled."""

    logits: Array
    hidden: list[Array]
    final: list[Array]
    losses: Array
    cost: Any


def part(weights: Weights, prefix: str) -> dict[str, Array]:
    """The weights whose names begin with `prefix.`, by the rest of their names."""
    return {name.partition(".")[2]: w for name, w in weights.items() if name.startswith(prefix + ".")}


def split_states(settings: Settings, flat: Sequence[Array]) -> list[tuple[Array, ...]]:
    """One tuple of states for each layer, from the flat list."""
    rest = list(flat)
    layers = [tuple(rest.pop(0) for _ in STATES[cell]) for cell in settings.cells]
    assert not rest
    return layers


def vectors(settings: Settings, inputs: Array) -> Array:
    """The inputs as vectors, (time, batch, inputs): symbol k is the unit vector e_k."""
    return np.eye(settings.inputs)[inputs] if settings.reads == "symbols" else inputs


def run(
    settings: Settings,
    weights: Weights,
    inputs: Array,
    targets: Array,
    initial: Sequence[Array],
    masks: Sequence[Array] | None = None,
) -> Result:
    """A plain loop over time and layers.

    masks: for each layer but the last, the factors (time, batch, units) on its way to the layer above.
    """
    depth = len(settings.cells)
    layer_weights = [part(weights, f"layer{l}") for l in range(depth)]
    states = split_states(settings, initial)
    hidden: list[list[Array]] = [[] for _ in range(depth)]
    logits, losses = [], []
    for t, x in enumerate(vectors(settings, inputs)):
        below = x
        for l, cell in enumerate(settings.cells):
            if l > 0 and masks is not None:
                below = below * masks[l - 1][t]
            if l > 0 and settings.skip:
                below = np.concatenate([below, x], axis=1)
            states[l] = STEPS[cell](layer_weights[l], below, *states[l])
            below = states[l][0]
            hidden[l].append(below)
        if settings.skip:  # Lynge 2016, (3.36)
            o = sum(hidden[l][t] @ weights[f"output.W_h{l}o"] for l in range(depth)) + weights["output.b_o"]
        else:
            o = below @ weights["output.W_ho"] + weights["output.b_o"]
        logits.append(o)
        losses.append(LOSSES[settings.loss](o, targets[t]))
    scored = losses[settings.unscored :]
    cost = sum(loss.sum() for loss in scored) / (len(scored) * len(scored[0]))
    final = [state for layer in states for state in layer]
    return Result(np.stack(logits), [np.stack(h) for h in hidden], final, np.stack(losses), cost)


def along(values: Mapping[str, Array], direction: Mapping[str, Array]) -> dict[str, Array]:
    """values + iε direction: run on these, and `Im / ε` is the derivative along the direction."""
    return {k: w + 1j * TINY * direction[k] if k in direction else w for k, w in values.items()}


# ---- backpropagation through time, derived by hand ---------------------------------------------------------


def elman_bptt(
    settings: Settings,
    weights: Weights,
    inputs: Array,
    targets: Array,
    initial: Sequence[Array],
    masks: Sequence[Array] | None = None,
) -> tuple[dict[str, Array], list[Array]]:
    """The gradient of the cost of an Elman net with the softmax loss: for the weights, for the h_0."""
    result = run(settings, weights, inputs, targets, initial, masks)
    x, hidden, depth = vectors(settings, inputs), result.hidden, len(settings.cells)
    time, batch = inputs.shape[:2]
    p = np.exp(result.logits - result.logits.max(axis=2, keepdims=True))
    p = p / p.sum(axis=2, keepdims=True)
    d_logits = (p - np.eye(settings.outputs)[targets]) / ((time - settings.unscored) * batch)
    d_logits[: settings.unscored] = 0

    gradient = {name: np.zeros_like(w) for name, w in weights.items()}
    gradient["output.b_o"] += d_logits.sum(axis=(0, 1))
    from_future = [np.zeros_like(h) for h in initial]
    for t in reversed(range(time)):
        from_above = np.zeros_like(initial[-1])
        for l in reversed(range(depth)):
            h, h_before = hidden[l][t], hidden[l][t - 1] if t else initial[l]
            d_h = from_future[l] + from_above
            if settings.skip or l == depth - 1:
                name = f"output.W_h{l}o" if settings.skip else "output.W_ho"
                gradient[name] += h.T @ d_logits[t]
                d_h = d_h + d_logits[t] @ weights[name].T
            d_a = d_h * (1 - h**2)  # a: the argument of the tanh
            below = x[t]
            if l > 0:
                below = hidden[l - 1][t] * (1 if masks is None else masks[l - 1][t])
                below = np.concatenate([below, x[t]], axis=1) if settings.skip else below
            gradient[f"layer{l}.W_xh"] += below.T @ d_a
            gradient[f"layer{l}.W_hh"] += h_before.T @ d_a
            gradient[f"layer{l}.b_h"] += d_a.sum(axis=0)
            from_future[l] = d_a @ weights[f"layer{l}.W_hh"].T
            if l > 0:
                from_above = (d_a @ weights[f"layer{l}.W_xh"].T)[:, : hidden[l - 1].shape[2]]
                from_above = from_above * (1 if masks is None else masks[l - 1][t])
    return gradient, from_future


# ---- comparison --------------------------------------------------------------------------------------------


def assert_close(got: Any, want: Any, tolerance: float, what: str = "") -> None:
    """max |got − want| ≤ tolerance · max |want|, and the same shape; `want` must not be all zeros."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, f"{what}: shape {got.shape}, not {want.shape}"
    assert np.isfinite(want).all(), f"{what}: the oracle itself is not finite"
    size = np.abs(want).max()
    assert size > 0, f"{what}: the oracle is all zeros, which tells nothing"
    error = np.abs(got - want).max() / size
    assert error <= tolerance, f"{what}: off by {error:.3g} of the largest value (allowed: {tolerance:g})"
