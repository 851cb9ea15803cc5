"""Decoding of label sequences, and their distance from the targets.

argmax_l P(l | p) is not tractable (Sutskever 2013, (2.52)): `greedy` reads the best single alignment, `beam_search`
sums over the alignments of the most probable prefixes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphnet.graph.dtypes import require_unmasked
from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError
from graphnet_rnn.network.ctc.loss import PADDING, REPEATS, blank_index
from graphnet_rnn.network.running import array_of
from graphnet_rnn.settings import has_items, one_of, shown, whole_number


def greedy(logits: Any, repeats: str = "merge", blank: int = -1) -> list[list[int]]:
    """l spelled by π_t = argmax_k p_t(k): labels of the most probable alignment of each case.

    logits: an array (time, batch, labels + 1), before or after log-softmax. repeats, blank: see `ctc_loss`.
    Raises UsageError for invalid settings and DataError for invalid arrays, also with a NaN.
    Source: Graves et al. 2006, 3.2 (best path decoding).

    >>> logits = np.eye(3)[[[0], [0], [2], [0], [1]]]  # (time 5, batch 1, labels + 1); the blank is 2
    >>> rnn.ctc.greedy(logits)
    [[0, 0, 1]]
    >>> rnn.ctc.greedy(logits, repeats="keep")
    [[0, 0, 0, 1]]
    """
    log_p, blank = _prepared("greedy", logits, repeats, blank)
    return [_spelled(path, repeats, blank) for path in log_p.argmax(axis=2).T]


def beam_search(
    logits: Any, width: int = 16, repeats: str = "merge", blank: int = -1
) -> list[list[tuple[list[int], float]]]:
    """For each case the most probable label sequences l found, best first, each with log P(l | p) in nats.

    logits: an array (time, batch, labels + 1), before or after log-softmax. width: number of prefixes kept at each
    step, and maximum number of sequences returned, 16 by default. repeats, blank: see `ctc_loss`.
    The log probability sums over all alignments whose prefixes were kept, so it is a lower bound, exact if none was
    dropped.
    Raises UsageError for invalid settings and DataError for invalid arrays, also with a NaN.
    Source: Graves 2012 (prefix search); Graves and Jaitly 2014, algorithm 1 (with a beam), without a language model.

    >>> logits = np.log([[[0.5, 0.1, 0.4]], [[0.6, 0.1, 0.3]]])  # (time 2, batch 1, labels + 1)
    >>> [(labels, round(log_p, 3)) for labels, log_p in rnn.ctc.beam_search(logits, width=3)[0]]
    [([0], -0.371), ([], -2.12), ([1], -2.526)]
    """
    log_p, blank = _prepared("beam_search", logits, repeats, blank)
    width = whole_number("beam_search: width", width)
    return [_search(log_p[:, case], width, repeats, blank) for case in range(log_p.shape[1])]


def label_error_rate(decoded: Sequence[Any], targets: Sequence[Any], weights: Any = None) -> float:
    """Σ w ED(decoded, target) / Σ w |target| over all cases, ED the edit distance: 0 is perfect, 1 as bad as no labels.

    decoded, targets: one label sequence for each case; -1 (padding) is ignored. weights: (cases,); None: all 1.
    Raises DataError if their numbers differ, or if no target with a weight has a label.
    Source: Graves et al. 2006, 2.1, but normalized by the labels of all cases together.

    >>> rnn.ctc.label_error_rate(decoded=[[0, 1], [2]], targets=[[0, 1, 1], [2, -1, -1]])
    0.25
    """
    decoded, targets = _label_rows("decoded", decoded), _label_rows("targets", targets)
    if len(decoded) != len(targets):
        raise DataError(
            "label_error_rate: decoded and targets must have one sequence for each case, but there are "
            f"{len(decoded)} and {len(targets)}"
        )
    w = np.ones(len(targets)) if weights is None else array_of("label_error_rate: weights", weights)
    if w.shape != (len(targets),):
        raise DataError(
            f"label_error_rate: weights must be ({len(targets)},), one for each case, not {list(w.shape)}"
        )
    if not ((w >= 0) & (w < np.inf)).all():
        raise DataError("label_error_rate: weights must be finite, and at least 0")
    errors = labels = 0.0
    for found, wanted, weight in zip(decoded, targets, w.tolist(), strict=True):
        right = [int(k) for k in wanted if k != PADDING]
        errors += weight * _edit_distance([int(k) for k in found if k != PADDING], right)
        labels += weight * len(right)
    if not labels:
        raise DataError("label_error_rate: all targets with a weight > 0 are empty, so the rate is undefined")
    return errors / labels


def _label_rows(what: str, rows: Any) -> list[Array]:
    if isinstance(rows, (str, bytes)) or not has_items(rows):
        raise DataError(
            f"label_error_rate: {what} must hold a sequence of labels for each case, not {shown(rows)}"
        )
    found = []
    for case, row in enumerate(rows):
        require_unmasked(f"label_error_rate: {what}", row)
        labels = np.asarray(row if isinstance(row, (np.ndarray, list, tuple)) else [None])
        if labels.ndim != 1 or (labels.size and labels.dtype.kind not in "iu"):
            raise DataError(
                f"label_error_rate: {what} of case {case} must be a sequence of whole numbers, not {shown(row)}"
            )
        found.append(labels)
    return found


# -- input ----------------------------------------------------------------------------------------------------


def _prepared(function: str, logits: Any, repeats: str, blank: int) -> tuple[Array, int]:
    one_of(f"{function}: repeats", repeats, REPEATS)
    x = array_of(f"{function}: logits", logits)
    if x.dtype.kind != "f" or x.ndim != 3 or x.shape[0] < 1 or x.shape[2] < 2:
        raise DataError(
            f"{function}: logits must be floats (time, batch, labels + 1), with at least one time step, one label and "
            f"the blank, not {x.dtype}{list(x.shape)}"
        )
    blank = blank_index(function, blank, x.shape[2])
    x = x.astype(np.float64)
    top = x.max(axis=2, keepdims=True, initial=-np.inf)
    if not np.isfinite(top).all():
        t, case = (int(i) for i in np.argwhere(~np.isfinite(top))[0][:2])
        raise DataError(
            f"{function}: the logits of step {t}, case {case} hold a NaN or +inf, or are all -inf, so they have "
            "no probabilities; check the network's weights and inputs"
        )
    x = x - top
    return x - np.log(np.exp(x).sum(axis=2, keepdims=True)), blank


def _spelled(path: Array, repeats: str, blank: int) -> list[int]:
    kept = path != blank
    if repeats == "merge":
        kept[1:] &= path[1:] != path[:-1]
    return [int(k) for k in path[kept]]


# -- prefix beam search ---------------------------------------------------------------------------------------


def _search(log_p: Array, width: int, repeats: str, blank: int) -> list[tuple[list[int], float]]:
    """Prefix beam search of one case, log_p (time, symbols).

    A prefix has two log probabilities: of alignments that end with the blank, and of those that end with its last
    label. Only "merge" needs the difference: a label directly repeated there is still the same label.
    """
    merge = repeats == "merge"
    beginnings: list[tuple[int, ...]] = [()]
    by_blank, by_label = np.zeros(1), np.full(1, -np.inf)
    for p in log_p:
        total = np.logaddexp(by_blank, by_label)
        longer = total[:, None] + p
        longer[:, blank] = -np.inf
        stays = np.full(len(beginnings), -np.inf)
        at = {beginning: i for i, beginning in enumerate(beginnings)}
        for i, beginning in enumerate(beginnings):
            if beginning and merge:
                last = beginning[-1]
                stays[i] = by_label[i] + p[last]
                longer[i, last] = by_blank[i] + p[last]
        for i, beginning in enumerate(beginnings):
            parent = at.get(beginning[:-1]) if beginning else None
            if parent is not None:  # reached from the parent, too
                last = beginning[-1]
                stays[i] = np.logaddexp(stays[i], longer[parent, last])
                longer[parent, last] = -np.inf
        by_blank = np.concatenate([total + p[blank], np.full(longer.size, -np.inf)])
        by_label = np.concatenate([stays, longer.ravel()])
        score = np.logaddexp(by_blank, by_label)
        best = np.argsort(-score, kind="stable")[:width]
        best = best[score[best] > -np.inf]
        beginnings = [_beginning(beginnings, int(i), len(p)) for i in best]
        by_blank, by_label = by_blank[best], by_label[best]
    total = np.logaddexp(by_blank, by_label)
    return [(list(labels), float(value)) for labels, value in zip(beginnings, total, strict=True)]


def _beginning(beginnings: Sequence[tuple[int, ...]], candidate: int, symbols: int) -> tuple[int, ...]:
    """Labels of a candidate: the prefixes come first, then each prefix with each symbol added."""
    count = len(beginnings)
    if candidate < count:
        return beginnings[candidate]
    parent, symbol = divmod(candidate - count, symbols)
    return (*beginnings[parent], symbol)


def _edit_distance(a: Sequence[int], b: Sequence[int]) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, start=1):
            diagonal, row[j] = row[j], min(diagonal + (x != y), row[j] + 1, row[j - 1] + 1)
    return row[-1]
