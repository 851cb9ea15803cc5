"""One time step of each cell, as a competent user writes it: gates in one product, inputs looked up before.

The equations are the same in all engines, so they are defined here once; `Math` has the engine's operations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Tensor = Any
Weights = dict[str, Any]


@dataclass(frozen=True)
class Math:
    """tanh, sigmoid; affine(b, h, W) = b + h W; split(z, widths): pieces side by side."""

    tanh: Callable[[Tensor], Tensor]
    sigmoid: Callable[[Tensor], Tensor]
    affine: Callable[[Tensor, Tensor, Tensor], Tensor]
    split: Callable[[Tensor, list[int]], Any]
    concatenate: Callable[[list[Tensor]], Tensor]


def table(m: Math, cell: str, H: int, w: Weights) -> Tensor:
    """Contribution of symbols to the gates, one row for each symbol: the bias is added to V rows, not to T B."""
    if cell != "mLSTM":
        return w["W_x"] + w["b"]
    to_m, to_gates = m.split(w["W_x"], [H, 4 * H])  # m has no bias
    return m.concatenate([to_m, to_gates + w["b"]])


def lstm(m: Math, H: int, w: Weights, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    gates, g = m.split(m.affine(x, h, w["W_h"]), [3 * H, H])
    i, f, o = m.split(m.sigmoid(gates), [H, H, H])
    c = f * c + i * m.tanh(g)
    return o * m.tanh(c), c


def gru(m: Math, H: int, w: Weights, x: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    """Reset before the product, as in graphnet_rnn."""
    x_rz, x_n = m.split(x, [2 * H, H])
    r, z = m.split(m.sigmoid(m.affine(x_rz, h, w["W_hrz"])), [H, H])
    n = m.tanh(m.affine(x_n, r * h, w["W_hn"]))
    return (h + z * (n - h),)


def elman(m: Math, H: int, w: Weights, x: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    return (m.tanh(m.affine(x, h, w["W_h"])),)


def mlstm(m: Math, H: int, w: Weights, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    """Krause et al. 2016: m = (x W_mx) ⊙ (h W_mh) replaces h in an LSTM."""
    x_m, x_gates = m.split(x, [H, 4 * H])
    gates, g = m.split(m.affine(x_gates, x_m * (h @ w["W_hm"]), w["W_m"]), [3 * H, H])
    i, f, o = m.split(m.sigmoid(gates), [H, H, H])
    c = f * c + i * m.tanh(g)
    return o * m.tanh(c), c


def peephole(m: Math, H: int, w: Weights, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    """Graves 2013: i and f read the old c, o the new one."""
    i, f, o, g = m.split(m.affine(x, h, w["W_h"]), [H, H, H, H])
    w_ci, w_cf = m.split(w["w_cif"], [H, H])
    c = m.sigmoid(f + w_cf * c) * c + m.sigmoid(i + w_ci * c) * m.tanh(g)
    return m.sigmoid(o + w["w_co"] * c) * m.tanh(c), c


def rhn(m: Math, H: int, w: Weights, x: Tensor, s: Tensor) -> tuple[Tensor, ...]:
    """Zilly et al. 2016, depth 3, the carry gate coupled: 1 − t."""
    for bias, weight in ((x, "W_s1"), (w["b2"], "W_s2"), (w["b3"], "W_s3")):
        new, gate = m.split(m.affine(bias, s, w[weight]), [H, H])
        s = s + m.sigmoid(gate) * (m.tanh(new) - s)
    return (s,)


STEPS: dict[str, Callable[..., tuple[Tensor, ...]]] = {
    "LSTM": lstm,
    "GRU": gru,
    "Elman": elman,
    "mLSTM": mlstm,
    "peephole": peephole,
    "RHN": rhn,
}
