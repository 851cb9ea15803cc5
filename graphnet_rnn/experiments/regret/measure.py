"""Regret: bits of a model beyond those of the true model (Ollivier 2013, section 4).

    p = smoothed(probabilities_of_what_came, symbols=len(alphabet))
    curve = regret(-np.log2(p), drawn)      # curve[-1]: for the whole text

Texts with known bits are from `rnn.tasks`. The model is trained on another text of the same law.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError
from graphnet_rnn.experiments.regret.texts import Drawn
from graphnet_rnn.network.running import array_of, checked_floats
from graphnet_rnn.settings import shown, whole_number

#: Tolerance of negative bits, for rounding in float32.
ROUNDING = 1e-5


def smoothed(probabilities: Any, symbols: int, first: int = 0) -> Array:
    """(1 - 1/(t+2)) π_t + 1/(t+2) · 1/symbols, t = 0 for the first symbol of the sequence

    A model that has memorized one sequence may give the first symbols of another one probability 0. After this mixing,
    a symbol needs at most log₂((t+2) symbols) bits, and mixing costs at most log₂(T+1) bits for all T symbols.
    probabilities: axis 0 is time; π_t(x) of all symbols or of those in the text. symbols: size of the alphabet. first:
    t of the first row, for a sequence in pieces; 0 by default. Returns float64.
    Raises DataError for values that are not probabilities. Source: Ollivier 2013, section 4.

    >>> rnn.tasks.smoothed([1.0, 1.0], symbols=4).round(3).tolist()
    [0.625, 0.75]
    """
    symbols, first = (
        whole_number("smoothed: symbols", symbols),
        whole_number("smoothed: first", first, least=0),
    )
    what = "smoothed: probabilities"
    p = checked_floats(what, array_of(what, probabilities), np.float64, "; apply np.exp to logarithms")
    if p.ndim == 0 or not ((p >= 0) & (p <= 1 + ROUNDING)).all():
        raise DataError(
            f"smoothed: probabilities must be an array of numbers in [0, 1], time first, not {shown(probabilities)}; "
            "apply np.exp to logarithms."
        )
    share = 1 / (np.arange(first, first + len(p)) + 2.0).reshape(-1, *[1] * (p.ndim - 1))
    return (1 - share) * p + share / symbols


def regret(bits: Any, drawn: Drawn) -> Array:
    """Σ_{s ≤ t, scored} (bits_s - bits of the true model), for each t: the cumulative regret; the last is the total

    bits: -log₂ π_t(x_t) of a model that reads drawn.text, one number for each symbol; unscored symbols add nothing. May
    be inf. The regret is negative if the model was luckier than the law. drawn: text with the bits of the true model.
    Raises DataError for arrays that do not fit. Source: Ollivier 2013, section 4 and table 1.

    >>> drawn = rnn.tasks.anbn(np.random.default_rng(0), blocks=2, least=3, end=5)
    >>> rnn.tasks.regret(drawn.bits + 1, drawn)[-1].item() == len(drawn.text)
    True
    """
    if not isinstance(drawn, Drawn):
        raise DataError(
            f"regret: drawn must be a text with known bits, from rnn.tasks.symbols, not {shown(drawn)}."
        )
    row = array_of("regret: bits", bits)
    if row.shape != drawn.bits.shape or row.dtype.kind not in "biuf":
        raise DataError(
            f"regret: bits must have one number for each of the text's {len(drawn.bits)} symbols, not the shape "
            f"{list(row.shape)} of {row.dtype}."
        )
    more = np.where(drawn.scored, row.astype(np.float64), 0.0)
    if not (more >= -ROUNDING).all():
        t = int(np.flatnonzero(~(more >= -ROUNDING))[0])
        raise DataError(
            f"regret: bits must be -log2 of probabilities, >= 0, but those of symbol {t} are {row[t]:g}."
        )
    return np.cumsum(np.where(drawn.scored, more - drawn.bits, 0.0))
