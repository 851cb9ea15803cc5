"""Adaptive predictors: bits of each symbol, given all symbols before.

bzip2  Burrows & Wheeler's transform, a file compressor: bits of whole texts only
PPM    prediction by partial matching: the longest context that has seen the symbol, after escapes from longer ones
CTW    context tree weighting: the mean over all context trees up to a depth
"""

from __future__ import annotations

import bz2
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit, types
from numba.typed import Dict

from graphnet.graph.node import Array

Function = TypeVar("Function", bound=Callable[..., Any])
compiled: Callable[[Function], Function] = njit(cache=True)


def bzip2_bits(train: str, valid: str, level: int = 9) -> int:
    """8 (bytes of train + valid, compressed, - bytes of train, compressed): the cost of valid after train"""
    both, first = (len(bz2.compress(text.encode(), level)) for text in (train + valid, train))
    return 8 * (both - first)


def ppm_bits(symbols: Array, count: int, order: int, method: str = "C") -> Array:
    """-log₂ p(x_t | x_<t) by partial matching, contexts of up to `order` symbols: escapes of method "C" or "D"

    In a context with n symbols of which u are different, a symbol seen c times has c / (n + u), an escape to the next
    shorter context u / (n + u) (method D: (c - 1/2) / n and u / 2n). Symbols of a longer context are excluded in
    shorter ones, and a symbol is counted only in the contexts that were tried. After the empty context, all remaining
    symbols are equally probable; if a context has all remaining symbols, there is no escape.
    symbols: 0 ... count - 1. Source: Moffat 1990 (C); Howard 1993 (D).
    """
    if method not in ("C", "D"):
        raise ValueError(f"ppm_bits: method must be 'C' or 'D', not {method!r}")
    return _ppm(np.asarray(symbols, np.int64), count, order, method == "D")


def ctw_bits(symbols: Array, count: int, depth: int) -> Array:
    """-log₂ p(x_t | x_<t), p a mean over all trees of contexts of up to `depth` symbols: P_w = (P_e + Π P_w(child)) / 2

    A symbol is coded by about log₂ count binary decisions, each of which halves the alphabet. Each decision has its own
    tree, whose contexts are whole symbols. P_e is the estimator of Krichevsky & Trofimov, which after a zeros and b
    ones predicts (b + 1/2) / (a + b + 1). At the maximum depth P_w = P_e. A special symbol precedes the text.
    symbols: 0 ... count - 1.
    Source: Willems, Shtarkov & Tjalkens 1995; for alphabets, Tjalkens, Shtarkov & Willems 1993.
    """
    return _ctw(np.asarray(symbols, np.int64), count, depth)


@compiled
def _before(symbols: Array, t: int, back: int, count: int) -> int:
    """Symbol `back` places before t; `count` before the text."""
    return symbols[t - back] if t >= back else count


@compiled
def _grown(rows: Array, least: int) -> Array:
    if len(rows) >= least:
        return rows
    more = np.zeros((max(least, 2 * len(rows)), *rows.shape[1:]), rows.dtype)
    more[: len(rows)] = rows
    return more


# -- prediction by partial matching ----------------------------------------------------------------


@compiled
def _ppm(symbols: Array, count: int, order: int, half: bool) -> Array:
    T = len(symbols)
    children = Dict.empty(types.int64, types.int64)  # context * (count + 1) + the symbol before it -> context
    # A context's symbols are a chain of entries: (symbol, how often, the next entry).
    first, entries, used = np.full(T * order + 1, -1), np.empty((T * (order + 1), 3), np.int64), 0
    path, excluded, bits = np.zeros(order + 1, np.int64), np.zeros(count, np.bool_), np.zeros(T)
    for t in range(T):
        for back in range(1, order + 1):
            key = path[back - 1] * (count + 1) + _before(symbols, t, back, count)
            path[back] = children.setdefault(key, len(children) + 1)
        excluded[:] = False
        bits[t], found = _partially_matched(symbols[t], path, first, entries, excluded, half)
        for back in range(found, order + 1):
            used = _counted(symbols[t], path[back], first, entries, used)
    return bits


@compiled
def _partially_matched(
    symbol: int, path: Array, first: Array, entries: Array, excluded: Array, half: bool
) -> tuple[float, int]:
    """Bits of the symbol, and the order of the shortest tried context."""
    discount, escapes = (0.5, 0.5) if half else (0.0, 1.0)
    p, left = 1.0, len(excluded)
    for back in range(len(path) - 1, -1, -1):
        own, mass, kinds = 0.0, 0.0, 0
        entry = first[path[back]]
        while entry >= 0:
            other, often, entry = entries[entry]
            if excluded[other]:
                continue
            kinds, mass, excluded[other] = kinds + 1, mass + often - discount, True
            if other == symbol:
                own = often - discount
        if kinds == 0:
            continue
        if kinds < left:
            mass += escapes * kinds
        if own > 0:
            return -math.log2(p * own / mass), back
        p, left = p * escapes * kinds / mass, left - kinds
    return -math.log2(p / left), 0


@compiled
def _counted(symbol: int, context: int, first: Array, entries: Array, used: int) -> int:
    entry = first[context]
    while entry >= 0:
        if entries[entry, 0] == symbol:
            entries[entry, 1] += 1
            return used
        entry = entries[entry, 2]
    entries[used, 0], entries[used, 1], entries[used, 2] = symbol, 1, first[context]
    first[context] = used
    return used + 1


# -- context tree weighting ------------------------------------------------------------------------


@compiled
def _ctw(symbols: Array, count: int, depth: int) -> Array:
    # node * (count + 1) + the symbol before its context -> node
    children = Dict.empty(types.int64, types.int64)
    # The question "is it m or more?" has node m for its root. Of a node: noes and yeses, log(P_e / Π P_w(child)), and
    # when it was seen first, if it was seen once and so has no children yet: they would all have the one answer.
    seen, lead, once = np.zeros((count, 2)), np.zeros(count), np.full(count, -1)
    path, used, bits = np.empty(depth + 1, np.int64), count, np.zeros(len(symbols))
    for t in range(len(symbols)):
        low, high = 0, count
        while high - low > 1:
            middle = (low + high) // 2
            room = used + 2 * depth
            seen, lead, once = _grown(seen, room), _grown(lead, room), _grown(once, room)
            length, used = _path(symbols, t, middle, count, depth, children, path, seen, once, used)
            answer = int(symbols[t] >= middle)
            bits[t] -= math.log2(_weighted(path[:length], answer, depth, seen, lead))
            low, high = (middle, high) if answer else (low, middle)
    return bits


@compiled
def _path(
    symbols: Array, t: int, middle: int, count: int, depth: int, children: dict[int, int], path: Array, seen: Array,
    once: Array, used: int,
) -> tuple[int, int]:  # fmt: skip
    """Writes the nodes from the root to the first new one; returns their number, and the number of all nodes."""
    path[0] = middle
    for back in range(1, depth + 1):
        node = path[back - 1]
        total = seen[node, 0] + seen[node, 1]
        if total == 0:
            once[node] = t
            return back, used
        if total == 1:  # pass its only observation on to the child
            children[node * (count + 1) + _before(symbols, once[node], back, count)] = used
            seen[used, int(symbols[once[node]] >= middle)] = 1
            once[used] = once[node]
            used += 1
        key = node * (count + 1) + _before(symbols, t, back, count)
        path[back] = children.get(key, used)
        if path[back] == used:
            children[key] = used
            used += 1
    return depth + 1, used


@compiled
def _weighted(path: Array, answer: int, depth: int, seen: Array, lead: Array) -> float:
    """P_w(answer | all before) at the root; then updates the path. Nodes below a new one predict 1/2, too."""
    p = 0.5
    for place in range(len(path) - 1, -1, -1):
        node = path[place]
        own = (seen[node, answer] + 0.5) / (seen[node, 0] + seen[node, 1] + 1)
        if place == depth:
            p = own
        else:
            share = 1 / (1 + math.exp(-lead[node]))
            lead[node] += math.log(own / p)
            p = share * own + (1 - share) * p
        seen[node, answer] += 1
    return p
