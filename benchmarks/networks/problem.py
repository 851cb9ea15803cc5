"""The problem of all contenders: settings, cells with merged weights, data, and flops.

Imports NumPy only, so that a worker under any interpreter can import it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

Array = Any
Arrays = dict[str, Any]

#: Both tasks: loss + full gradient; Gauss-Newton product, linearised at the logits.
TASKS = {"gradient": "loss and gradient", "product": "Gauss-Newton product Gv"}

#: Cell -> merged weight -> the weights of the graphnet cell that it joins. "W_x" is the input weight
#: (for RHN and the multiplicative LSTM, of one transition and of m too); "b" is appended to it.
LAYOUT: dict[str, dict[str, list[str]]] = {
    "LSTM": {
        "W_x": ["W_xi", "W_xf", "W_xo", "W_xg"],
        "W_h": ["W_hi", "W_hf", "W_ho", "W_hg"],
        "b": ["b_i", "b_f", "b_o", "b_g"],
    },
    "GRU": {
        "W_x": ["W_xr", "W_xz", "W_xn"],
        "W_hrz": ["W_hr", "W_hz"],
        "W_hn": ["W_hn"],
        "b": ["b_r", "b_z", "b_n"],
    },
    "Elman": {"W_x": ["W_xh"], "W_h": ["W_hh"], "b": ["b_h"]},
    "mLSTM": {
        "W_x": ["W_xm", "W_xi", "W_xf", "W_xo", "W_xg"],
        "W_hm": ["W_hm"],
        "W_m": ["W_mi", "W_mf", "W_mo", "W_mg"],
        "b": ["b_i", "b_f", "b_o", "b_g"],
    },
    "peephole": {
        "W_x": ["W_xi", "W_xf", "W_xo", "W_xc"],
        "W_h": ["W_hi", "W_hf", "W_ho", "W_hc"],
        "w_cif": ["w_ci", "w_cf"],
        "w_co": ["w_co"],
        "b": ["b_i", "b_f", "b_o", "b_c"],
    },
    "RHN": {
        "W_x": ["W_xh1", "W_xt1"],
        "W_s1": ["W_sh1", "W_st1"],
        "W_s2": ["W_sh2", "W_st2"],
        "W_s3": ["W_sh3", "W_st3"],
        "b": ["b_h1", "b_t1"],
        "b2": ["b_h2", "b_t2"],
        "b3": ["b_h3", "b_t3"],
    },
}

#: How many states each cell carries.
STATES = {"LSTM": 2, "GRU": 1, "Elman": 1, "mLSTM": 2, "peephole": 2, "RHN": 1}


@dataclass(frozen=True)
class Problem:
    """One net on one batch. cores: number of cores (0: all)."""

    cell: str
    hidden: int
    batch: int
    steps: int
    symbols: int
    cores: int = 0

    def shape(self, merged: str) -> tuple[int, ...]:
        """Shape of a merged weight."""
        if merged == "W_o":
            return (self.hidden, self.symbols)
        if merged == "b_o":
            return (self.symbols,)
        width = self.hidden * len(LAYOUT[self.cell][merged])
        if not merged.startswith("W_"):
            return (width,)
        return (self.symbols if merged == "W_x" else self.hidden, width)

    @property
    def names(self) -> list[str]:
        """Names of the merged weights; the output layer's are last."""
        return [*LAYOUT[self.cell], "W_o", "b_o"]

    def weights(self) -> Arrays:
        """Random weights by merged name, the same for every contender."""
        return self._draw(1)

    def direction(self) -> Arrays:
        """v of Gv, by merged name."""
        return self._draw(2)

    def _draw(self, seed: int) -> Arrays:
        generator = np.random.default_rng([seed, self.hidden])
        bound = 1 / np.sqrt(self.hidden)  # as PyTorch draws them: states neither die nor explode
        return {
            name: generator.uniform(-bound, bound, self.shape(name)).astype(np.float32) for name in self.names
        }

    def data(self) -> tuple[Array, Array]:
        """Symbols to read and to predict, int64 (steps, batch)."""
        both = np.random.default_rng(3).integers(self.symbols, size=(2, self.steps, self.batch))
        return both[0], both[1]

    def flops(self, task: str) -> float:
        """Multiplications and additions of the matrix products; nothing else is counted.

        One forward pass is F = 2 T B (sum of the entries of the matrices); x W_x is left out, since it is a
        lookup, and so is its gradient, a scatter. Of a product A W, the gradient needs A W, dY Wᵀ and Aᵀ dY:
        3 F.
        Gv needs A W and both parts of R{A W} = R{A} W + A V on the way forward, dY Wᵀ and Aᵀ dY on the
        way back: 5 F. (A contender that runs forward twice does more, and is credited with no more.)
        The first step, whose states are zero, is counted like the others.
        """
        entries = sum(np.prod(self.shape(n)) for n in self.names if n.startswith("W_") and n != "W_x")
        return float({"gradient": 3, "product": 5}[task] * 2 * self.steps * self.batch * entries)

    def record(self) -> dict[str, Any]:
        """The problem as JSON-compatible values."""
        return asdict(self)

    def __str__(self) -> str:
        cores = f", {self.cores} core{'s' * (self.cores > 1)}" if self.cores else ""
        size = f"{self.hidden} units, batch {self.batch}, {self.steps} steps, {self.symbols} symbols"
        return f"{self.cell}, {size}{cores}"


def split(cell: str, weights: Arrays) -> Arrays:
    """Converts merged weights to parameters of the graphnet network, by name."""
    named: Arrays = {"output.W_ho": weights["W_o"], "output.b_o": weights["b_o"]}
    for merged, parts in LAYOUT[cell].items():
        for name, piece in zip(parts, np.split(weights[merged], len(parts), axis=-1), strict=True):
            named[f"layer0.{name}"] = piece
    return named


def merge(cell: str, named: Arrays) -> Arrays:
    """The inverse of `split`."""
    merged = {
        name: np.concatenate([named[f"layer0.{part}"] for part in parts], axis=-1)
        for name, parts in LAYOUT[cell].items()
    }
    return {**merged, "W_o": named["output.W_ho"], "b_o": named["output.b_o"]}


def one_hot(symbols: Array, width: int) -> Array:
    return np.eye(width, dtype=np.float32)[symbols]


def largest_difference(found: Arrays, expected: Arrays) -> float:
    """max over arrays of |found − expected| / |expected|, in the norm of the array."""
    worst = 0.0
    for name, array in expected.items():
        difference = np.linalg.norm(np.asarray(found[name], np.float64) - array)
        worst = max(worst, float(difference / (np.linalg.norm(array) + 1e-30)))
    return worst
