"""CTC: loss against enumeration of alignments and PyTorch, decoding, and training."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.errors import DtypeError, GraphnetError, ShapeError, ValueAccessError
from graphnet_rnn.errors import DataError, TrainingError, UsageError
from graphnet_rnn.network import ctc
from tests.tables import case as named

Array = npt.NDArray[Any]
Labels = tuple[int, ...]


def spell(path: Sequence[int], repeats: str, blank: int) -> Labels:
    """Labels of an alignment: blanks are removed; with repeats="merge", equal neighbours are first merged."""
    runs = [k for k, _ in itertools.groupby(path)] if repeats == "merge" else path
    return tuple(k for k in runs if k != blank)


def probabilities(logits: Array, repeats: str, blank: int) -> dict[Labels, float]:
    """P(l) of every label sequence that some alignment spells; logits (time, symbols)."""
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    found: defaultdict[Labels, float] = defaultdict(float)
    for path in itertools.product(range(p.shape[1]), repeat=len(p)):
        found[spell(path, repeats, blank)] += float(np.prod([p[t, k] for t, k in enumerate(path)]))
    return dict(found)


def padded(sequences: Sequence[Sequence[int]], length: int) -> Array:
    """Targets (batch, length) with -1 after each sequence."""
    targets = np.full((len(sequences), length), -1)
    for row, labels in zip(targets, sequences, strict=True):
        row[: len(labels)] = labels
    return targets


def random_logits(*shape: int, seed: int = 0, scale: float = 2.0) -> Array:
    return scale * np.random.default_rng(seed).standard_normal(shape)


def compiled(
    logits: Array, length: int, derivatives: bool = True, backend: str = "numba", **settings: Any
) -> gn.Function:
    """Function of (logits, targets) that gives the loss of each case and the gradient of their sum."""
    z = gn.input(logits.shape, logits.dtype, name="logits")
    t = gn.input((logits.shape[1], length), "int64", name="targets")
    loss = ctc.ctc_loss(z, t, **settings)
    more = gn.gradient(gn.sum(loss), [z]) if derivatives else []
    return gn.compile([loss, *more], [z, t], backend=backend)


def test_every_sequence_of_five_steps() -> None:
    """All 63 sequences of two labels and length 0 to 5 have the probability of their alignments."""
    for blank, backend, repeats in itertools.product([0, 1, -1], ["numba", "numpy"], ["merge", "keep"]):
        with named(blank, backend, repeats):
            time, symbols = 5, 3
            index = blank % symbols
            logits = random_logits(time, symbols)
            exact = probabilities(logits, repeats, index)
            others = [k for k in range(symbols) if k != index]
            sequences = [s for n in range(time + 1) for s in itertools.product(others, repeat=n)]
            batch = np.repeat(logits[:, None], len(sequences), axis=1)
            function = compiled(batch, time, backend=backend, repeats=repeats, blank=blank)
            loss, gradient = function(batch, padded(sequences, time))
            expected = np.array([exact.get(s, 0.0) for s in sequences])
            assert np.exp(-loss) == pytest.approx(expected, rel=1e-12)
            assert np.exp(-loss).sum() == pytest.approx(1)
            impossible = expected == 0
            assert impossible.any() == (repeats == "merge")
            assert (np.isinf(loss) == impossible).all()
            assert (gradient[:, impossible] == 0).all()
            assert np.isfinite(gradient).all()
            # The gradient of -log P over all cases weighted by P is that of -Σ P = -1: zero.
            np.testing.assert_allclose(np.einsum("tbk,b->tk", gradient, expected), 0, atol=1e-13)


def test_ctc_without_labels() -> None:
    """Targets of length 0 have a blank at every step. Also tests targets of int8."""
    logits = random_logits(4, 2, 3)
    log_p = logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))
    for repeats in ["merge", "keep"]:
        loss, gradient = compiled(logits, 0, repeats=repeats)(logits, np.zeros((2, 0), np.int64))
        assert loss == pytest.approx(-log_p[:, :, -1].sum(axis=0))
        assert gradient == pytest.approx(np.exp(log_p) - np.eye(3)[2])
    z, t = gn.input(logits.shape, "float64"), gn.input((2, 2), "int8")
    (loss,) = gn.compile([ctc.ctc_loss(z, t)], [z, t])(logits, np.array([[1, -1]] * 2, np.int8))
    assert loss[0] == pytest.approx(-np.log(probabilities(logits[:, 0], "merge", 2)[1,]))


def test_pytorch_agrees() -> None:
    torch = pytest.importorskip("torch")
    for time in [1, 12]:
        with named(time):
            batch, symbols, length = 8, 5, 6
            rng = np.random.default_rng(1)
            logits = random_logits(time, batch, symbols, scale=3)
            lengths = np.array([0, 1, 1, 2, 3, 4, 6, 6])
            targets = padded([rng.integers(1, symbols, n) for n in lengths], length)
            targets[-1] = 2  # six equal labels need eleven steps
            loss, gradient = compiled(logits, length, blank=0)(logits, targets)
            z = torch.tensor(logits, requires_grad=True)
            log_p, steps = torch.log_softmax(z, 2), torch.full((batch,), time)
            labels = torch.tensor(np.maximum(targets, 1)), steps, torch.tensor(lengths)
            how = {"reduction": "none", "zero_infinity": True}  # torch then has loss 0 and gradient 0
            expected = torch.nn.functional.ctc_loss(log_p, *labels, **how)
            expected.sum().backward()
            finite = np.where(np.isinf(loss), 0, loss)
            assert finite == pytest.approx(expected.detach().numpy(), rel=1e-10, abs=1e-10)
            assert np.isinf(loss).any() == (time == 1)
            assert gradient == pytest.approx(z.grad.numpy(), rel=1e-10, abs=1e-10)


def test_inputs_of_different_lengths() -> None:
    """Shorter inputs by the docstring's recipe: after the end, the blank has probability 1."""
    time, symbols = 6, 3
    logits, ends = random_logits(time, 2, symbols), [4, 6]
    z, t = gn.input(logits.shape, "float64"), gn.input((2, 2), "int64")
    inside = gn.input((time, 2, 1), "bool")
    loss = ctc.ctc_loss(gn.where(inside, z, np.array([-1e4, -1e4, 0.0])), t)
    now = np.arange(time)[:, None, None] < np.array(ends)[:, None]
    targets = np.array([[1, 1], [0, -1]])
    nodes = [loss, *gn.gradient(gn.sum(loss), [z])]
    values, gradient = gn.compile(nodes, [z, t, inside])(logits, targets, now)
    exact = [probabilities(logits[:end, case], "merge", 2) for case, end in enumerate(ends)]
    assert values == pytest.approx([-np.log(exact[0][1, 1]), -np.log(exact[1][0,])])
    assert (gradient[4:, 0] == 0).all()


def test_derivatives() -> None:
    """Finite differences, R-operator, transpose, Hessian and Gauss-Newton products, passes, back ends."""
    for blank, repeats in ((0, "merge"), (-1, "keep")):
        with named(blank, repeats):
            z, t = gn.input((5, 3, 4), "float32", name="z"), gn.input((3, 3), "int64", name="t")
            loss = ctc.ctc_loss(z, t, repeats=repeats, blank=blank)
            targets = np.array([[1, 1, 2], [2, -1, -1], [-1, -1, -1]])
            gn.testing.check_graph([loss], [z, t], [random_logits(5, 3, 4, seed=5), targets])


def test_extreme_logits_in_float32() -> None:
    """No overflow and no NaN, in value, gradient, R-operator and Hessian product, also of impossible cases."""
    for scale, backend, repeats in itertools.product([1e4, 1e30], ["numba", "numpy"], ["merge", "keep"]):
        with named(scale, backend, repeats):
            rng = np.random.default_rng(2)
            logits = (scale * rng.choice([-1.0, 0, 1.0], (6, 5, 4))).astype(np.float32)
            targets = np.array([[0, 1, 2], [2, 2, -1], [-1, -1, -1], [1, 1, 1], [0, 1, 0]])
            v = rng.standard_normal(logits.shape).astype(np.float32)
            z, t = gn.input(logits.shape, "float32"), gn.input(targets.shape, "int64")
            loss = ctc.ctc_loss(z, t, repeats=repeats)
            cost, u = gn.sum(loss), gn.input(v.shape, "float32")
            products = *gn.rop([loss], {z: u}), *gn.hessian_product(cost, {z: u})
            outputs = [loss, *gn.gradient(cost, [z]), *products]
            values = gn.compile(outputs, [z, t, u], backend=backend)(logits, targets, v)
            assert [a.dtype for a in values] == [np.float32] * 4
            assert not any(np.isnan(a).any() for a in values)
            assert all(np.isfinite(a).all() for a in values[1:])
            if scale < 1e30:
                assert np.isfinite(values[0]).all()
                double = logits.astype(np.float64)
                exact = compiled(double, 3, repeats=repeats)(double, targets)
                assert values[0] == pytest.approx(exact[0], rel=1e-6)


def test_impossible_cases_do_not_affect_others() -> None:
    """Targets that are too long or have an impossible symbol have loss inf and zero derivatives."""
    for repeats in ["merge", "keep"]:
        with named(repeats):
            logits = random_logits(3, 5, 4)
            logits[:, 2, 1] = -np.inf
            logits[:, 4, [0, 1, 3]] = -np.inf  # neither the target's symbols nor the blank, at any step
            targets = padded([[0, 1, 2, 0], [1, 1, 1], [1], [0], [0, 1]], 4)
            z, t = gn.input(logits.shape, "float64"), gn.input((5, 4), "int64")
            u = gn.input(logits.shape, "float64")
            loss = ctc.ctc_loss(z, t, repeats=repeats)
            cost = gn.sum(gn.where(loss < np.inf, loss, 0))
            outputs = [loss, cost, *gn.gradient(cost, [z]), *gn.hessian_product(cost, {z: u})]
            function = gn.compile(outputs, [z, t, u])
            losses, total, gradient, product = function(logits, targets, np.ones_like(logits))
            impossible = [True, repeats == "merge", True, False, True]
            assert np.isinf(losses).tolist() == impossible
            assert total == pytest.approx(losses[np.isfinite(losses)].sum())
            assert (gradient[:, impossible] == 0).all()
            assert (product[:, impossible] == 0).all()
            alone = compiled(logits[:, 3:4], 4, repeats=repeats)(logits[:, 3:4], targets[3:4])
            assert gradient[:, 3:4] == pytest.approx(alone[1])


def test_training_reports_an_impossible_case() -> None:
    """Two equal labels need three steps. The error names the loss; possible targets give no error."""
    x, t = gn.input((2, 2, 4), "float64", name="x"), gn.input((2, 2), "int64", name="t")
    W = gn.parameter(random_logits(4, 3), name="W")
    objective = rnn.Objective(gn.mean(ctc.ctc_loss(x @ W, t)), [W], [x, t])
    objective.feed(random_logits(2, 2, 4), np.array([[0, 1], [1, 0]]))
    rnn.minimize(objective, rnn.Adam(), steps=2)
    assert not objective.explain_non_finite()
    objective.feed(random_logits(2, 2, 4), np.array([[0, 1], [1, 1]]))
    with pytest.raises(TrainingError, match="Log: log of: an alignment spells the target"):
        rnn.minimize(objective, rnn.Adam(), steps=2)


def test_padded_logits_may_be_anything() -> None:
    x, v = (gn.input((4, 2, 3), "float64", name=name) for name in "xv")
    loss = gn.sum(rnn.ctc.ctc_loss(x, np.array([[0, 1], [0, -1]]), lengths=np.array([4, 2])))
    products = gn.gauss_newton_product(loss, {x: v})
    function = gn.compile([loss, *gn.gradient(loss, [x]), *products], [x, v])
    logits, direction = np.random.default_rng(0).normal(size=(2, 4, 2, 3))
    expected = function(logits, direction)
    for padding in (0.0, np.nan, np.inf, -np.inf):
        logits[2:, 1] = padding
        for found, other in zip(function(logits, direction), expected, strict=True):
            np.testing.assert_allclose(found, other, atol=1e-12)


def test_nan_logits_give_a_nan_loss() -> None:
    logits = random_logits(3, 2, 3)
    logits[1, 0, 0] = np.nan
    (loss,) = compiled(logits, 1, derivatives=False)(logits, np.array([[0], [1]]))
    assert np.isnan(loss[0])
    assert np.isfinite(loss[1])


def dense(nodes: list[gn.Node], tangent: gn.Node, held: Sequence[tuple[gn.Node, Array]] = ()) -> Array:
    """The matrix of a product, column by column."""
    function = gn.compile(nodes, [tangent, *(node for node, _ in held)])
    arrays = [array for _, array in held]
    return np.stack([function(e.reshape(tangent.shape), *arrays)[0].ravel() for e in np.eye(tangent.size)], 1)


def alignments(p: Array, target: Labels, repeats: str) -> tuple[Array, Array]:
    """All alignments of the target, one-hot (count, time, symbols), and their shares of its probability."""
    time, symbols = p.shape
    every = itertools.product(range(symbols), repeat=time)
    found = [path for path in every if spell(path, repeats, symbols - 1) == target]
    weights = np.array([np.prod(p[np.arange(time), path]) for path in found])
    return np.eye(symbols)[np.array(found)], weights / weights.sum()


def test_curvature_is_the_fisher_information_of_the_alignment() -> None:
    """G = Jᵀ H̃ J, H̃ = diag(p_t) - p_t p_tᵀ; the loss's own Hessian is less by the alignments' covariance."""
    for repeats in ["merge", "keep"]:
        with named(repeats):
            rng = np.random.default_rng(0)
            time, width, symbols, target = 4, 2, 3, (0, 1)
            x = rng.standard_normal((time, 1, width))
            W = gn.parameter(rng.standard_normal((width, symbols)), name="W")
            logits = gn.tanh(gn.constant(x) @ W)
            cost = 3 * gn.sum(ctc.ctc_loss(logits, gn.constant(np.array([target])), repeats=repeats))
            v = gn.input(W.shape, "float64")
            J = dense(gn.rop([logits], {W: v}), v)
            at = np.tanh(x @ W.value)
            p = np.exp(at[:, 0]) / np.exp(at[:, 0]).sum(axis=1, keepdims=True)
            information = np.zeros((time, symbols, time, symbols))
            for t in range(time):
                information[t, :, t] = np.diag(p[t]) - np.outer(p[t], p[t])
            information = information.reshape(time * symbols, time * symbols)
            G = dense(gn.gauss_newton_product(cost, {W: v}), v)
            assert pytest.approx(3 * J.T @ information @ J, rel=1e-10, abs=1e-12) == G

            paths, shares = alignments(p, target, repeats)
            centred = (paths - np.tensordot(shares, paths, 1)).reshape(len(paths), -1)
            z, u = gn.input(logits.shape, "float64"), gn.input(logits.shape, "float64")
            of_logits = gn.sum(ctc.ctc_loss(z, gn.constant(np.array([target])), repeats=repeats))
            H = dense(gn.hessian_product(of_logits, {z: u}), u, [(z, at)])
            covariance = centred.T @ (shares[:, None] * centred)
            assert pytest.approx(information - covariance, rel=1e-9, abs=1e-12) == H
            assert np.linalg.eigvalsh(H).min() < -0.01
            own = dense(gn.gauss_newton_product(cost, {W: v}, at=[logits]), v)
            assert pytest.approx(3 * J.T @ H @ J, rel=1e-9, abs=1e-12) == own


def test_impossible_targets_have_no_curvature() -> None:
    """A case with loss inf is left out; the others have the same curvature as alone."""
    rng = np.random.default_rng(1)
    at, targets = rng.standard_normal((3, 2, 3)), np.array([[0, 1, 0, 1], [0, -1, -1, -1]])
    z, u = gn.input(at.shape, "float64"), gn.input(at.shape, "float64")
    loss = ctc.ctc_loss(z, gn.constant(targets))
    cost = gn.sum(gn.where(loss < np.inf, loss, 0))
    G = dense(gn.gauss_newton_product(cost, {z: u}), u, [(z, at)]).reshape(3, 2, 3, 3, 2, 3)
    assert not G[:, 0].any()
    assert not G[:, :, :, :, 0].any()
    of_one = gn.sum(ctc.ctc_loss(z[:, 1:], gn.constant(targets[1:, :1])))
    alone = dense(gn.gauss_newton_product(of_one, {z: u}), u, [(z, at)]).reshape(3, 2, 3, 3, 2, 3)
    assert pytest.approx(alone) == G
    assert alone.any()


def node(*shape: int, dtype: str = "float32") -> gn.Node:
    return gn.input(shape, dtype)


def test_errors_when_built() -> None:
    integers, z = node(4, 2, dtype="int64"), node(5, 4, 3)
    for arguments, settings, error, message in (
        ((node(5, 4), integers), {}, ShapeError, "logits must be (time, batch, labels + 1)"),
        ((node(5, 4, 1), integers), {}, ShapeError, "one label and the blank, not [5, 4, 1]"),
        ((z, node(3, 2, dtype="int64")), {}, ShapeError, "the batch of the logits, 4, not [3, 2]"),
        ((z, node(4, dtype="int64")), {}, ShapeError, "targets must be (batch, length)"),
        ((z, node(4, 2)), {}, DtypeError, "targets are float32; they must be integers"),
        ((node(5, 4, 3, dtype="int64"), integers), {}, DtypeError, "logits must be floats, not int64"),
        ((z, integers), {"blank": 3}, UsageError, "3 symbols, in -3 ... 2, not 3"),
        ((z, integers), {"repeats": "drop"}, UsageError, "'merge' or 'keep', not 'drop'"),
    ):
        with named(message), pytest.raises(error, match=re.escape(message)):
            ctc.ctc_loss(*arguments, **settings)
    for loss, settings, message in (
        ("ctc", {}, "with the loss 'ctc', give labels=..., the largest number of labels"),
        ("softmax", {"labels": 3}, "with the loss 'softmax', leave out labels"),
        ("ctc", {"labels": -1}, "labels must be a whole number >= 0, not -1"),
        ("ctc", {"labels": 3, "unscored": 1}, "unroll: unscored: each time step must have a loss"),
    ):
        with named(message), pytest.raises(UsageError, match=re.escape(message)):
            rnn.Network([rnn.Elman(2)], 3, 3, loss=loss).unroll(4, 2, **settings)


def test_errors_when_run() -> None:
    """Invalid labels raise an error for the first and the last case."""
    rows = [[4, -1, -1], [0, -2, -1], [1, -1, 1], [-1, 1, -1], [3, -1, -1], [2**62, 1, 1]]
    logits, right = random_logits(5, 2, 4), [0, 1, -1]
    for backend, repeats in itertools.product(["numba", "numpy"], ["merge", "keep"]):
        function = compiled(logits, 3, backend=backend, repeats=repeats)
        assert np.isfinite(function(logits, np.array([right, right]))[0]).all()
        for row, turned in itertools.product(rows, [1, -1]):
            with named(row, backend, repeats):
                with pytest.raises(GraphnetError, match="out of range") as caught:
                    function(logits, np.array([row, right][::turned]))
                said = "targets of ctc_loss: 0 ... 3 without the blank (3); -1 only as padding"
                assert backend == "numpy" or said in str(caught.value)


def test_wide_beam_finds_all_sequences() -> None:
    """All sequences with their exact probabilities, best first; the best path is not always the best sequence."""
    for blank, repeats in itertools.product([0, 1, -1], ["merge", "keep"]):
        with named(blank, repeats):
            time, batch, symbols = 4, 20, 3
            logits = random_logits(time, batch, symbols, scale=0.7)
            found = ctc.beam_search(logits, width=1000, repeats=repeats, blank=blank)
            single = ctc.greedy(logits, repeats=repeats, blank=blank)
            missed = 0
            for case in range(batch):
                exact = probabilities(logits[:, case], repeats, blank % symbols)
                logs = {labels: np.log(p) for labels, p in exact.items()}
                assert {tuple(labels): p for labels, p in found[case]} == pytest.approx(logs)
                assert [p for _, p in found[case]] == sorted((p for _, p in found[case]), reverse=True)
                best = max(exact, key=exact.__getitem__)
                assert tuple(found[case][0][0]) == best
                path = logits[:, case].argmax(axis=1)
                assert tuple(single[case]) == spell(path.tolist(), repeats, blank % symbols)
                missed += tuple(single[case]) != best
            assert 0 < missed < batch


def test_narrow_beam() -> None:
    """At most `width` sequences, and never more probable than they are."""
    for repeats in ["merge", "keep"]:
        with named(repeats):
            logits = random_logits(12, 3, 5, scale=1)
            found = ctc.beam_search(logits.astype(np.float32), width=4, repeats=repeats)
            length = max(len(labels) for case in found for labels, _ in case)
            for rank in range(4):
                targets = padded([case[rank][0] for case in found], length)
                (loss,) = compiled(logits, length, derivatives=False, repeats=repeats)(logits, targets)
                lower = np.array([case[rank][1] for case in found])
                assert (lower <= -loss + 1e-6).all()
                assert (lower > -loss - 3).all()
            assert [len(case) for case in found] == [4, 4, 4]
            wide = ctc.beam_search(logits, width=500, repeats=repeats)
            assert all(w[0][1] >= n[0][1] - 1e-6 for w, n in zip(wide, found, strict=True))


def test_beam_search_skips_symbols_of_probability_zero() -> None:
    """Symbols of probability zero appear in no sequence, and need no width."""
    logits = np.full((3, 1, 3), -np.inf)
    logits[[0, 1, 2], 0, [0, 2, 0]] = 0.0
    assert ctc.beam_search(logits, width=8) == [[([0, 0], 0.0)]]
    assert ctc.greedy(logits) == [[0, 0]]


def test_errors_of_decoding() -> None:
    logits = random_logits(3, 2, 3)
    broken, never = logits.copy(), logits.copy()
    broken[1, 0, 2], never[2, 1] = np.nan, -np.inf
    for decode in [ctc.greedy, ctc.beam_search]:
        for array, settings, error, message in (
            (logits[0], {}, DataError, "floats (time, batch, labels + 1)"),
            (logits.astype(int), {}, DataError, "not int64[3, 2, 3]"),
            (logits[:, :, :1], {}, DataError, "one label and the blank"),
            (broken, {}, DataError, "step 1, case 0"),
            (never, {}, DataError, "step 2, case 1"),
            (gn.input((3, 2, 3)), {}, ValueAccessError, "not an array"),
            (logits, {"blank": 3}, UsageError, "blank must be the index"),
            (logits, {"repeats": "all"}, UsageError, "repeats must be"),
        ):
            with named(decode, message), pytest.raises(error, match=re.escape(message)):
                decode(array, **settings)
    with pytest.raises(UsageError, match="width must be a whole number >= 1, not 0"):
        ctc.beam_search(logits, width=0)


def test_label_error_rate() -> None:
    """kitten -> sitting takes three edits."""
    kitten, sitting = ([ord(c) for c in word] for word in ("kitten", "sitting"))
    assert ctc.label_error_rate([kitten], [sitting]) == 3 / 7
    assert ctc.label_error_rate([[], [1, 2]], np.array([[5, 6], [1, -1]])) == (2 + 1) / 3
    assert ctc.label_error_rate([[3, 4]], [[3, 4]]) == 0
    found, wanted = [[], [1, 2], [3]], [[5, 6], [1], [4, 3]]
    copies = ctc.label_error_rate([found[0]] * 2 + [found[2]] * 3, [wanted[0]] * 2 + [wanted[2]] * 3)
    assert ctc.label_error_rate(found, wanted, [2, 0, 3]) == copies
    with pytest.raises(DataError, match=r"weights must be \(3,\)"):
        ctc.label_error_rate(found, wanted, [1, 2])
    with pytest.raises(DataError, match="one sequence for each case, but there are 1 and 2"):
        ctc.label_error_rate([[1]], [[1], [2]])
    with pytest.raises(DataError, match="all targets with a weight > 0 are empty"):
        ctc.label_error_rate([[1]], [[-1]])


TIME, BATCH, LABELS, LONGEST, WIDTH = 26, 16, 4, 4, 6


def speech(rng: np.random.Generator) -> tuple[Array, Array]:
    """Noisy frames (time, batch, width) in which each label sounds for 2 to 5 steps, and the labels."""
    voices = np.vstack([np.random.default_rng(7).standard_normal((LABELS, WIDTH)), np.zeros(WIDTH)])
    frames, targets = np.full((TIME, BATCH), LABELS), np.full((BATCH, LONGEST), -1)
    for case in range(BATCH):
        t = int(rng.integers(3))
        for j in range(rng.integers(1, LONGEST + 1)):
            targets[case, j] = rng.integers(LABELS)
            t += int(j > 0 and targets[case, j] == targets[case, j - 1])  # a pause between equal labels
            held = int(rng.integers(2, 6))
            frames[t : t + held, case] = targets[case, j]
            t += held
    noisy = voices[frames] + 0.3 * rng.standard_normal((TIME, BATCH, WIDTH))
    return noisy.astype(np.float32), targets


def test_hessian_free_learns_to_spell() -> None:
    """CG finds negative curvature with the loss, and none with the surrogate."""
    net = rnn.Network([rnn.Elman(12)], inputs=WIDTH, outputs=LABELS + 1, loss="ctc", seed=1)
    u = net.unroll(time=TIME, batch=BATCH, initial="zero", labels=LONGEST)
    fed = speech(np.random.default_rng(0))
    start, reached = net.theta.copy(), {}
    for name, at in (("own", [u.logits]), ("surrogate", None)):
        objective = rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets], at=at)
        objective.feed(*fed)
        optimizer = rnn.HessianFree(damping=0.1, structural=0.0 if at else 0.01, cg_steps=40)
        result = rnn.minimize(objective, optimizer, steps=15, start=start)
        reached[name] = result.loss
        reasons = {report.cg_reason for report in result.reports}
        assert ("curvature" in reasons) == (at is not None)
    assert reached["surrogate"] < 0.35 * reached["own"]
