"""-log P(labels | softmax(logits)) for labels without an alignment to time steps.

A net reads T steps and emits M ≤ T labels. At each step it emits one of K labels or the blank B; the labels are what
the T symbols spell without blanks. The probability of a label sequence is the sum over all alignments that spell it.
Dynamic programming computes this sum in T steps over a vector of positions, here in logarithms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.errors import DtypeError, GraphnetError, ShapeError, table_of_inputs
from graphnet.graph.dtypes import INT64, is_float
from graphnet.graph.node import Array, Node
from graphnet.graph.provenance import hide_module
from graphnet.ops.elementwise import Log
from graphnet.ops.leaf import as_node
from graphnet_rnn.errors import UsageError
from graphnet_rnn.network.lengths import Lengths
from graphnet_rnn.settings import one_of

hide_module(__file__)

#: A run of one label spells one label ("merge"), or one for each step ("keep").
REPEATS = ("merge", "keep")
#: Padding of target sequences.
PADDING = -1

#: Logarithm of probability zero. Unlike with -inf, its difference from itself is 0, so no derivative becomes NaN. In
#: float32, 10⁸ of them can be summed; the log probabilities of real alignments are far smaller.
_IMPOSSIBLE = -1e30


def ctc_loss(logits: Any, targets: Any, repeats: str = "merge", blank: int = -1, lengths: Any = None) -> Node:
    """-log P(l | p), P(l | p) = Σ_π Π_t p_t(π_t) over all alignments π that spell l; p_t = softmax(logits_t).

    logits: floats (time, batch, labels + 1). targets: integers (batch, length), the labels of each case, padded by -1
    (an empty sequence is all -1; length may be 0).
    Returns nats, (batch,); the cost is its mean or sum.
    repeats: "keep": every emission other than the blank is a label (Sutskever 2013, (2.46)). "merge" (default): a run
    of one label counts once, so a label that follows itself needs a blank between (Graves et al. 2006, 3.1).
    blank: the blank's index among the symbols, negative from the end, -1 by default (Sutskever: the last; PyTorch: 0).
    lengths: integers (batch,), number of time steps of each case, all by default; logits in the padding are ignored.

    A target that no alignment spells (longer than time, or with too many repeats for "merge", or with a symbol whose
    logit is always -inf) has the loss inf and derivatives of zero, never NaN. The mean over a batch is then inf, too.
    To exclude such cases, use gn.where(loss < np.inf, loss, 0).

    The loss is Σ_t log Σ_k exp(logits_tk) minus log Σ_π exp(Σ_t logits_tπ(t)), both convex in the logits, so it is not
    convex. Gauss-Newton products end the net at the logits and use the first term's Hessian, diag(p_t) - p_t p_tᵀ for
    each step: the Hessian of the cross-entropy with the expected alignment as targets, which EM would minimize, and the
    Fisher information of the alignment. The Hessian of the loss itself is smaller by the covariance of the alignments
    given the labels and may be indefinite; gn.gauss_newton_product(cost, tangents, at=[logits]) uses it.

    Raises ShapeError, DtypeError and UsageError for invalid arguments. At run time: GraphnetError for a label that is
    the blank or not a symbol, and for a label after padding.
    Source: Graves et al. 2006, 3.1 and 4.1; Sutskever 2013, 2.8.5, (2.46)-(2.51).

    >>> logits = gn.input((4, 1, 3), "float64", name="logits")  # 4 time steps, 1 case, 2 labels and the blank
    >>> loss = gn.compile(rnn.ctc.ctc_loss(logits, np.array([[0, 1]])), [logits])
    >>> loss(np.zeros((4, 1, 3)))[0].round(3).tolist()  # log (3**4 / 15 alignments)
    [1.686]
    """
    logits, targets = as_node(logits), as_node(targets)
    one_of("ctc_loss: repeats", repeats, REPEATS)
    _check(logits, targets)
    blank = blank_index("ctc_loss", blank, logits.shape[2])
    if targets.dtype != INT64:
        targets = gn.cast(targets, INT64)
    with gn.scope(layer="ctc", composite="CTC"):
        ends = None if lengths is None else Lengths(logits.shape[0], _checked_lengths(logits, lengths))
        read = logits if ends is None else ends.cut(logits)
        log_p = gn.maximum(gn.log_softmax(read), _IMPOSSIBLE)
        labels = _checked_labels(targets, logits.shape[2], blank)
        length = gn.sum(gn.cast(targets >= 0, INT64), axis=1, keepdims=True)
        positions = _all_emissions if repeats == "keep" else _runs
        last, final = positions(log_p, labels, length, blank, ends)
        log_probability = gn.logsumexp(gn.where(final, last, _IMPOSSIBLE), axis=1)
        # In this form a NaN of the logits stays NaN.
        possible = gn.logical_not(log_probability < _IMPOSSIBLE / 2)
        # 0 or -inf; errors (of compile's check, and of failed training) show the name of this node.
        allowed = Log()(gn.cast(possible, logits.dtype), name="log of: an alignment spells the target")
        loss = -(gn.where(possible, log_probability, 0) + allowed)
        inside = [] if ends is None else [ends.inside]
        return gn.with_surrogate(loss, _alignment_information, [logits], [possible, *inside])


def _alignment_information(logits: Node, possible: Node, inside: Node | None = None) -> Node:
    """Σ_t log Σ_k exp(logits_tk), if an alignment spells the target: the convex part of the loss"""
    if inside is not None:
        logits = gn.where(gn.reshape(inside, (*inside.shape, 1)), logits, 0)
    each = gn.logsumexp(logits)
    return gn.where(possible, gn.sum(each if inside is None else gn.where(inside, each, 0), axis=0), 0)


def blank_index(function: str, blank: Any, symbols: int) -> int:
    """Returns the blank's index in 0 ... symbols - 1; UsageError if it is out of range."""
    if isinstance(blank, bool) or not isinstance(blank, (int, np.integer)) or not -symbols <= blank < symbols:
        raise UsageError(
            f"{function}: blank must be the index of one of the {symbols} symbols, in {-symbols} ... {symbols - 1}, "
            f"not {blank!r}"
        )
    return int(blank) % symbols


def blank_for_sure(symbols: int, dtype: Any, blank: int = -1) -> Array:
    """Logits of a step that emits the blank with certainty."""
    row = np.full(symbols, -1e4, dtype)
    row[blank] = 0
    return row


def _checked_lengths(logits: Node, lengths: Any) -> Node:
    lengths = as_node(lengths)
    dtype, shape, given = lengths.dtype, lengths.shape, [logits, lengths]
    remedy = "they must be integers, the sequence length of each case"
    _require(dtype.kind in "iu", DtypeError, f"lengths are {dtype}; {remedy}", given)
    wanted = f"({logits.shape[1]},), one for each case"
    _require(shape == logits.shape[1:2], ShapeError, f"lengths must be {wanted}, not {list(shape)}", given)
    return gn.cast(lengths, INT64)


def _check(logits: Node, targets: Node) -> None:
    given, shape = [logits, targets], list(logits.shape)
    _require(is_float(logits.dtype), DtypeError, f"logits must be floats, not {logits.dtype}", given)
    what = (
        f"targets are {targets.dtype}; they must be integers, the labels of each case, padded with -1, e.g. "
        "gn.input((batch, length), 'int64')"
    )
    _require(targets.dtype.kind in "iu", DtypeError, what, given)
    what = "logits must be (time, batch, labels + 1), with at least one time step, one label and the blank"
    _require(len(shape) == 3 and shape[0] > 0 and shape[2] > 1, ShapeError, f"{what}, not {shape}", given)
    what = (
        f"targets must be (batch, length) with the batch of the logits, {shape[1]}, not {list(targets.shape)}"
    )
    _require(targets.ndim == 2 and targets.shape[0] == shape[1], ShapeError, what, given)


def _require(fits: bool, error: type[GraphnetError], what: str, given: list[Node]) -> None:
    if not fits:
        raise error(f"ctc_loss: {what}." + table_of_inputs(given))


# -- the positions of a target sequence, and the steps between them --------------------------------------------


def _all_emissions(
    log_p: Node, labels: Node, length: Node, blank: int, ends: Lengths | None
) -> tuple[Node, Node]:
    """Sutskever 2013, (2.48)-(2.51): position m after m labels; returns log S_{m,T} and the mask m = M."""
    time, batch, _ = log_p.shape
    count = labels.shape[1] + 1
    emitted, blanks = _look_up(log_p, labels, blank), log_p[:, :, blank, None]
    nothing = gn.fill(_IMPOSSIBLE, (batch, 1), log_p.dtype)
    log_s = _start(batch, count, log_p)
    for t in range(time):
        stays = log_s + blanks[t]
        moves = gn.concatenate([nothing, log_s[:, :-1] + emitted[:, :, t]], axis=1)
        log_s = _stepped(ends, t, _log_add([stays, moves]), log_s)
    return log_s, gn.equal(gn.constant(np.arange(count)[None]), length)


def _runs(log_p: Node, labels: Node, length: Node, blank: int, ends: Lengths | None) -> tuple[Node, Node]:
    """Graves et al. 2006, 4.1: positions blank, l_1, blank, ..., l_M, blank; returns log α_T and the mask of ends."""
    time, batch, _ = log_p.shape
    blanks = gn.fill(blank, (batch, labels.shape[1]), INT64)
    pairs = gn.reshape(gn.stack([blanks, labels], axis=2), (batch, -1))
    extended = gn.concatenate([pairs, gn.fill(blank, (batch, 1), INT64)], axis=1)
    count = extended.shape[1]
    emitted = _look_up(log_p, extended, blank)
    # From label to label without a blank between, unless they are equal. Two blanks are equal, too.
    before = gn.concatenate([extended[:, :2], extended[:, :-2]], axis=1) if count > 1 else extended
    may_skip = gn.logical_not(gn.equal(extended, before))
    nothing = gn.fill(_IMPOSSIBLE, (batch, 2), log_p.dtype)
    log_alpha = _start(batch, count, log_p)
    for t in range(time):
        padded = gn.concatenate([nothing, log_alpha], axis=1)
        skips = gn.where(may_skip, padded[:, :-2], _IMPOSSIBLE)
        after = emitted[:, :, t] + _log_add([log_alpha, padded[:, 1:-1], skips])
        log_alpha = _stepped(ends, t, after, log_alpha)
    position, end = gn.constant(np.arange(count)[None]), 2 * length
    return log_alpha, gn.where(gn.equal(position, end), True, gn.equal(position, end - 1))


def _start(batch: int, count: int, like: Node) -> Node:
    row = np.full((1, count), _IMPOSSIBLE, like.dtype)
    row[0, 0] = 0
    return gn.broadcast_to(gn.constant(row), (batch, count))


def _stepped(ends: Lengths | None, t: int, after: Node, before: Node) -> Node:
    return after if ends is None else gn.where(ends.inside_at(t), after, before)


def _log_add(terms: Sequence[Node]) -> Node:
    """log Σ exp(x). The maximum is constant to derivatives, as it cancels in all of them."""
    top = terms[0]
    for x in terms[1:]:
        top = gn.maximum(top, x)
    top = gn.stop_gradient(top)
    return top + gn.log(gn.add(*[gn.exp(x - top) for x in terms]))


# -- labels ---------------------------------------------------------------------------------------------------


def _checked_labels(targets: Node, symbols: int, blank: int) -> Node:
    """The targets, with symbol 0 for padding and an invalid index for an invalid target, so that the lookup raises.

    Labels after padding, blanks and indices that are not symbols are invalid.
    """
    is_padding = gn.equal(targets, PADDING)
    wrong = gn.where(targets < PADDING, True, targets >= symbols)
    wrong = gn.where(gn.equal(targets, blank), True, wrong)
    if targets.shape[1] > 1:
        first = gn.fill(False, (targets.shape[0], 1), "bool")
        after_padding = gn.concatenate([first, is_padding[:, :-1]], axis=1)
        wrong = gn.where(after_padding, gn.where(is_padding, wrong, True), wrong)
    return gn.where(wrong, -1, gn.where(is_padding, 0, targets))


def _look_up(log_p: Node, symbols: Node, blank: int) -> Node:
    """log p_t(symbol), (batch, count, time), for symbols (batch, count).

    Looks up rows of all time steps, one row for each case and symbol: this lookup and its transpose are native.
    """
    time, batch, width = log_p.shape
    rows = gn.reshape(gn.transpose(log_p, (1, 2, 0)), (batch * width, time))
    case = gn.constant(width * np.arange(batch)[:, None])
    index = gn.where(symbols < 0, -1, case + symbols)
    # An error of the lookup shows this name.
    allowed = (
        f"targets of ctc_loss: 0 ... {width - 1} without the blank ({blank}); -1 only as padding at the end"
    )
    return rows[gn.label(index, allowed)]
