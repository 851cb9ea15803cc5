"""Ragged batches match single cases; padding has no effect."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from graphnet.graph.node import Node
from graphnet_rnn.data.batches import bucket_of, bucket_times
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.network.losses import POOLS
from graphnet_rnn.riemannian.metrics import Kronecker, as_metric
from tests.graphnet_rnn.cells.test_oracles import CELLS
from tests.tables import case as named, some_quick

Array = Any

TIME, SYMBOLS, OUTPUTS = 4, 5, 4
LENGTHS = np.array([2, 4, 1])
BATCH = len(LENGTHS)
#: Cells with different layouts of hidden units in time.
KINDS = ("Elman", "LSTM", "Bidirectional", "NARX", "Attention", "GLNN")
#: Arguments of compile.
WAYS: list[dict[str, Any]] = [{}, {"memory": "sqrt"}, {"threads": 2}, {"backend": "cuda"}]
LOSSES = ("softmax", "sigmoid", "squared", "ctc", *(f"softmax, {pool}" for pool in POOLS), "squared, mean")


def network(cells: list[rnn.Cell], loss: str = "softmax", **how: Any) -> rnn.Network:
    loss, _, pool = loss.partition(", ")
    return rnn.Network(
        cells, SYMBOLS, OUTPUTS, loss, reads="symbols", dtype="float64", pool=pool or None, seed=3, **how
    )


def arrays(net: rnn.Network, seed: int = 0) -> tuple[Array, Array]:
    """Symbols and targets; padding is drawn at random, too."""
    draw = np.random.default_rng(seed)
    x = draw.integers(0, SYMBOLS, (TIME, BATCH))
    if net.loss == "ctc":
        return x, np.array([[0, 1], [1, 1], [2, -1]])
    places = (BATCH,) if net.pool else (TIME, BATCH)
    if net.loss == "softmax":
        return x, draw.integers(0, OUTPUTS, places)
    t = draw.standard_normal((*places, OUTPUTS))
    return x, t if net.loss == "squared" else (t > 0) * 1.0


def targets_of(net: rnn.Network, t: Array, case: int, steps: int) -> Array:
    return t[case : case + 1] if net.loss == "ctc" or net.pool else t[:steps, case : case + 1]


class Found:
    """One function for the summed losses, gradient, R-operator, G v and last states."""

    def __init__(self, net: rnn.Network, time: int, batch: int, lengths: bool, **how: Any) -> None:
        self.net = net
        initial = "learned" if net.initial_state == "learned" else "given"
        labels = 2 if net.loss == "ctc" else None
        u = self.u = net.unroll(time, batch, training=False, initial=initial, labels=labels, lengths=lengths)
        given = () if initial == "learned" else tuple(u.initial)
        parameters = list(net.parameters.values())
        draw = np.random.default_rng(1)
        v = dict(zip(parameters, (draw.standard_normal(p.shape) for p in parameters), strict=True))
        cost = gn.sum(u.losses)
        nodes = [cost, *gn.gradient(cost, parameters), *gn.rop([cost], v), *gn.gauss_newton_product(cost, v)]
        self.count = len(nodes)
        inputs = [u.inputs, u.targets, *given, *([] if u.lengths is None else [u.lengths])]
        self.function = gn.compile([*nodes, *u.final], inputs, **how)

    def __call__(self, *given: Array) -> tuple[list[Array], list[Array]]:
        found = self.function(*given)
        return list(found[: self.count]), list(found[self.count :])


def states(net: rnn.Network) -> list[Array]:
    """States before the first step, other than zero."""
    if net.initial_state == "learned":
        return []
    draw = np.random.default_rng(2)
    return [0.3 * draw.standard_normal((BATCH, width)) for _, width in net.state_names()]


def require_each_by_itself(net: rnn.Network, **how: Any) -> None:
    x, t = arrays(net)
    before = states(net)
    all_of_it, last = Found(net, TIME, BATCH, lengths=True, **how)(x, t, *before, LENGTHS)
    sums: list[Array] = [0.0] * len(all_of_it)
    for case, steps in enumerate(LENGTHS):
        own = slice(case, case + 1)
        given = [x[:steps, own], targets_of(net, t, case, steps), *(state[own] for state in before)]
        found, ends = Found(net, int(steps), 1, lengths=False, backend="numpy", passes=())(*given)
        sums = [total + each for total, each in zip(sums, found, strict=True)]
        for whole, alone in zip(last, ends, strict=True):
            np.testing.assert_allclose(whole[own], alone, rtol=1e-12, atol=1e-13)
    for whole, total in zip(all_of_it, sums, strict=True):
        np.testing.assert_allclose(whole, total, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", CELLS)
def test_padded_cases_match_single_cases(name: str) -> None:
    require_each_by_itself(network([CELLS[name](4)]), backend="numpy")


def require_as_numpy(name: str, **how: Any) -> None:
    """Losses, gradient, R-operator, G v and last states."""
    net = network([CELLS[name](4)])
    given = *arrays(net), *states(net), LENGTHS
    expected = Found(net, TIME, BATCH, lengths=True, backend="numpy", passes=())(*given)
    found = Found(net, TIME, BATCH, lengths=True, **how)(*given)
    for some, same in zip(found, expected, strict=True):
        for a, b in zip(some, same, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("how", some_quick(WAYS[2:], WAYS[2:3]), ids=str)
def test_cells_of_several_kinds_compiled(how: dict[str, Any]) -> None:
    for name in KINDS:
        with named(name):
            require_as_numpy(name, **how)


def test_with_every_loss() -> None:
    names = ["GRU", "Bidirectional", "Residual, both directions", "NARX"]
    for name, loss in itertools.product(names, LOSSES):
        with named(name, loss):
            require_each_by_itself(network([CELLS[name](4)], loss), backend="numpy")


@pytest.mark.parametrize("how", some_quick(WAYS, WAYS[2:3]), ids=str)
def test_on_every_back_end(how: dict[str, Any]) -> None:
    for loss in ["softmax", "ctc", "softmax, last"]:
        with named(loss, how):
            net = network(
                [rnn.LSTM(4), rnn.Bidirectional(rnn.GRU(3))], loss, skip=True, initial_state="learned"
            )
            require_each_by_itself(net, **how)


def test_last_pooling_of_bidirectional_layers() -> None:
    """pool="last" of nested layers, against the final states of GRUs."""
    inner = rnn.Bidirectional(rnn.GRU(2), rnn.GRU(3))
    net = network([rnn.Bidirectional(inner, rnn.GRU(4))], "softmax, last")
    x, _ = arrays(net)
    outputs, ends = rnn.run(net, x, lengths=LENGTHS)
    W, b = (net.parameters[f"output.{name}"].value for name in ("W_ho", "b_o"))
    np.testing.assert_allclose(outputs, np.concatenate(ends, axis=1) @ W + b, rtol=1e-12)


def test_padding_is_not_read() -> None:
    """Results have the same bits with and without NaN in the padding."""
    for loss in ["softmax", "squared", "ctc", "softmax, mean"]:
        with named(loss):
            net = rnn.Network(
                [rnn.Bidirectional(rnn.LSTM(4)), rnn.GRU(3)], 3, OUTPUTS, loss.partition(",")[0], reads="vectors",
                pool="mean" if "mean" in loss else None,
            )  # fmt: skip
            x = np.random.default_rng(5).standard_normal((TIME, BATCH, 3)).astype("f4")
            _, t = arrays(net)
            t = t.astype("f4") if t.dtype.kind == "f" else t
            lengths = np.array([2, TIME, 0])
            behind = np.arange(TIME)[:, None] >= lengths
            x[behind] = 0
            function = Found(net, TIME, BATCH, lengths=True)
            before = [state.astype("f4") for state in states(net)]
            whole = [array.tobytes() for part in function(x, t, *before, lengths) for array in part]
            x[behind] = np.nan
            if t.shape[:2] == behind.shape:
                t[behind] = np.nan if t.dtype.kind == "f" else -7
            assert [array.tobytes() for part in function(x, t, *before, lengths) for array in part] == whole


def test_outputs_and_losses_of_padding_are_zero() -> None:
    net = network([CELLS["Bidirectional"](3), CELLS["LSTM"](4)])
    u = net.unroll(TIME, BATCH, initial="zero", lengths=True)
    x, t = arrays(net)
    for node in (u.losses, *u.hidden):
        (found,) = gn.compile(node, [u.inputs, u.targets, u.lengths], backend="numpy")(x, t, LENGTHS)
        behind = np.arange(TIME)[:, None] >= LENGTHS
        assert not found[behind].any()
        assert found[~behind].all()
    (cost, losses) = gn.compile([u.cost, u.losses], [u.inputs, u.targets, u.lengths])(x, t, LENGTHS)
    assert cost == pytest.approx(losses.sum() / LENGTHS.sum(), rel=1e-14)


def test_cost_is_the_mean_over_scored_steps() -> None:
    for unscored in [1, 2, 3]:
        with named(unscored):
            net = network([rnn.GRU(3)])
            u = net.unroll(TIME, BATCH, initial="zero", unscored=unscored, lengths=True)
            x, t = arrays(net)
            cost, losses = gn.compile([u.cost, u.losses], [u.inputs, u.targets, u.lengths])(x, t, LENGTHS)
            scored = np.maximum(LENGTHS - unscored, 0).sum()
            assert cost == pytest.approx(losses[unscored:].sum() / scored, rel=1e-14)


def test_predict_first_adds_one_step_to_each_length() -> None:
    net = network([rnn.GRU(3)])
    draw = np.random.default_rng(0)
    x, t = draw.integers(0, SYMBOLS, (TIME, BATCH)), draw.integers(0, OUTPUTS, (TIME + 1, BATCH))
    u = net.unroll(TIME, BATCH, initial="zero", predict_first=True, lengths=True)
    losses, cost = gn.compile([u.losses, u.cost], [u.inputs, u.targets, u.lengths])(x, t, LENGTHS)
    for case, steps in enumerate(LENGTHS):
        one = net.unroll(int(steps), 1, initial="zero", predict_first=True)
        (alone,) = gn.compile(one.losses, [one.inputs, one.targets])(
            x[:steps, [case]], t[: steps + 1, [case]]
        )
        np.testing.assert_allclose(losses[: steps + 1, [case]], alone, rtol=1e-13)
        assert not losses[steps + 1 :, case].any()
    assert cost == pytest.approx(losses.sum() / (LENGTHS + 1).sum(), rel=1e-14)


def test_empty_cases_keep_their_states() -> None:
    net = network([CELLS["Bidirectional"](3), CELLS["LSTM"](4)])
    found = Found(net, TIME, BATCH, lengths=True, backend="numpy")
    x, t = arrays(net)
    before = states(net)
    (cost, *_), last = found(x, t, *before, np.zeros(BATCH, np.int64))
    assert cost == 0
    for state, unchanged in zip(last, before, strict=True):
        np.testing.assert_array_equal(state, unchanged)


@pytest.mark.parametrize("pool", POOLS)
def test_empty_cases_ignore_their_inputs(pool: str) -> None:
    """With NaN in the inputs of an empty sequence, the cost, gradient and curvature stay finite."""
    for cell in (rnn.LSTM(3), rnn.Bidirectional(rnn.GRU(2))):
        net = rnn.Network([cell], 2, 3, "squared", reads="vectors", pool=pool)
        u = net.unroll(4, 3, lengths=True, initial="zero")
        parameters = list(net.parameters.values())
        nodes = [u.cost, *gn.gradient(u.cost, parameters)]
        nodes += gn.gauss_newton_product(u.cost, {p: np.ones(p.shape, p.dtype) for p in parameters})
        x = np.random.default_rng(0).standard_normal((4, 3, 2)).astype(np.float32)
        x[:, 1] = x[2:, 0] = np.nan
        function = gn.compile(nodes, [u.inputs, u.targets, u.lengths])
        assert all(
            np.isfinite(a).all() for a in function(x, np.ones((3, 3), np.float32), np.array([2, 0, 4]))
        )


def test_empty_cases_with_feedback_ignore_their_inputs() -> None:
    net = rnn.Network([rnn.LSTM(3)], 2, 2, "squared", reads="vectors")
    u = net.unroll(4, 3, lengths=True, initial="zero", feedback="likeliest")
    function = gn.compile(
        gn.gradient(u.cost, list(net.parameters.values())), [u.inputs, u.targets, u.lengths]
    )
    x = np.ones((1, 3, 2), np.float32)
    x[:, 1] = np.nan
    assert all(np.isfinite(a).all() for a in function(x, np.ones((4, 3, 2), np.float32), np.array([2, 0, 4])))


def test_wrong_lengths_raise_an_error() -> None:
    net = network([rnn.GRU(3)])
    u = net.unroll(TIME, BATCH, initial="zero", lengths=True)
    for wrong, backend in itertools.product([-1, TIME + 1], ["numba", "numpy"]):
        function = gn.compile(u.cost, [u.inputs, u.targets, u.lengths], backend=backend)
        says = rf"lengths\[3\].*index {wrong} is out of range|index {wrong} is out of range.*lengths\[3\]"
        with named(wrong, backend), pytest.raises(gn.GraphnetError, match="(?s)" + says):
            function(*arrays(net), np.array([1, wrong, 2]))


class Blocks(rnn.Cell):
    """h_t = Σ_k tanh(a_k), with as many blocks as cases, so that a mask of cases fits either axis."""

    states = (rnn.State("h"),)

    def step(self, x: Node, h: Node) -> Node:
        a = self.affine("a", x=x, h=h, units=BATCH * self.units)
        return gn.sum(gn.tanh(gn.reshape(a, (h.shape[0], BATCH, self.units))), axis=1)


class Turned(rnn.Cell):
    """h_t = tanh(aᵀ)ᵀ, whose units are not cases along the first axis."""

    states = (rnn.State("h"),)

    def step(self, x: Node, h: Node) -> Node:
        return gn.transpose(gn.tanh(gn.transpose(self.affine("a", x=x, h=h))))


DAMPED: dict[str, Callable[[], rnn.Cell]] = {
    **{name: partial(CELLS[name], 4) for name in (*KINDS, "RHN")},
    "additive": lambda: rnn.Attention(rnn.GRU(3), memory=2, places=BATCH, score="additive"),
    "Blocks": lambda: Blocks(2),
}


def one_by_one(net: rnn.Network, of: Callable[..., Array]) -> tuple[Array, list[Array]]:
    """Returns the values of `of` for the whole batch, and for each case alone."""
    x, t = arrays(net)
    alone = []
    for case, n in enumerate(LENGTHS):
        alone.append(of(net.unroll(int(n), 1, initial="zero"), x[:n, [case]], t[:n, [case]]))
    return of(net.unroll(TIME, BATCH, initial="zero", lengths=True), x, t, LENGTHS), alone


def objective_of(cost: gn.Node, u: rnn.Unrolled, given: tuple[Array, ...], **how: Any) -> rnn.Objective:
    inputs = [u.inputs, u.targets, *([] if u.lengths is None else [u.lengths])]
    objective = rnn.Objective(cost, u.network.parameters, inputs, **how)
    objective.feed(*given)
    return objective


def test_structural_damping_ignores_padding() -> None:
    """G_s of a batch is the mean of G_s of its cases, each summed over its own steps."""

    def damping(u: rnn.Unrolled, *given: Array) -> Array:
        objective = objective_of(gn.sum(u.losses) / u.batch, u, given, backend="numpy")
        w = objective.start()
        v = np.random.default_rng(4).standard_normal(w.shape)
        return objective.curvature(w, 1.0)(v) - objective.curvature(w, 0.0)(v)

    for name, make in DAMPED.items():
        with named(name):
            found, alone = one_by_one(network([make()]), damping)
            assert np.abs(found).max() > 1e-3
            np.testing.assert_allclose(found, np.mean(alone, axis=0), rtol=1e-10, atol=1e-12)


def test_structural_damping_of_units_without_an_axis_of_cases() -> None:
    u = network([Turned(4)]).unroll(TIME, BATCH, initial="zero", lengths=True)
    with pytest.raises(
        UsageError, match=r"first axis of Tanh\[4, 3\] \(made at .*test_lengths.*must be the 3 cases"
    ):
        _ = u.structure
    assert len(network([Turned(4)]).unroll(TIME, BATCH, initial="zero").structure) == TIME


def test_metrics_ignore_padding() -> None:
    """The numbers of a metric for a batch are the sum over single cases."""
    for metric in [
        Kronecker(sampled=False),
        *(as_metric("test", name) for name in ("ruop", "rbpm", "qdrbpm")),
    ]:
        with named(metric):
            net = network([rnn.Elman(4)])
            x, t = arrays(net)

            def numbers(u: rnn.Unrolled, *given: Array) -> Array:
                inputs = [u.inputs, u.targets, *([] if u.lengths is None else [u.lengths])]
                objective = rnn.Objective(gn.sum(u.losses), net.parameters, inputs)
                objective.feed(*given)
                found: Array = objective.metric(objective.start(), metric)[2]
                return found

            found = numbers(net.unroll(TIME, BATCH, initial="zero", lengths=True), x, t, LENGTHS)
            alone = [
                numbers(net.unroll(int(n), 1, initial="zero"), x[:n, [case]], t[:n, [case]])
                for case, n in enumerate(LENGTHS)
            ]
            # The first number is the scale of the sum, 1 for each case.
            np.testing.assert_allclose(found[1:], np.sum(alone, axis=0)[1:], rtol=1e-10, atol=1e-12)


def test_long_sequences_are_run_in_pieces() -> None:
    """Sequences longer than the pieces that `run` compiles."""
    for name in ["LSTM", "Bidirectional"]:
        with named(name):
            net = network([CELLS[name](4)])
            lengths = np.array([250, 100, 7, 101])
            x = np.random.default_rng(0).integers(0, SYMBOLS, (250, 4))
            outputs, ends = rnn.run(net, x, lengths=lengths)
            for case, n in enumerate(lengths):
                alone, last = rnn.run(net, x[:n, [case]])
                np.testing.assert_allclose(outputs[:n, [case]], alone, rtol=1e-10, atol=1e-12)
                assert not outputs[n:, case].any()
                for whole, own in zip(ends, last, strict=True):
                    np.testing.assert_allclose(whole[[case]], own, rtol=1e-10, atol=1e-12)


def test_run_rejects_invalid_arguments() -> None:
    net = network([rnn.GRU(3)])
    for lengths, said in (
        ([1, 2], r"run: lengths must be whole numbers \(3,\)"), ([1.0, 2.0, 2.0], "not float64"),
        ([1, 0, 2], "lengths must be in 1 .* got 0 for case 1"), ([1, 2, 5], "got 5 for case 2"),
    ):  # fmt: skip
        with named(said), pytest.raises(DataError, match=said):
            rnn.run(net, arrays(net)[0], lengths=lengths)


def steps_of(lengths: Array, times: list[int], batch: int = 1) -> int:
    """Number of computed steps: each batch has cases of one bucket, padded to its length."""
    counts = np.bincount(bucket_of(lengths, times), minlength=len(times))
    return int(sum(time * batch * -(-int(count) // batch) for time, count in zip(times, counts, strict=True)))


def test_bucket_lengths_minimize_the_computed_steps() -> None:
    draw = np.random.default_rng(0)
    for batch, most, _ in itertools.product([1, 4], (1, 2, 3), range(20)):
        lengths = draw.integers(1, 12, 30)
        *times, last = sorted(set(lengths))
        found = bucket_times(lengths, most, batch)
        assert found == sorted(set(found))
        assert found[-1] == lengths.max()
        chosen = [c for k in range(most) for c in itertools.combinations(times, k)]
        least = min(steps_of(lengths, [*each, last], batch) for each in chosen)
        # An additional length must save at least 5 %.
        assert steps_of(lengths, found, batch) * 0.95 ** (most - len(found)) <= least + 1e-9
        assert len(found) <= most


WHOLE = rnn.Network([rnn.GRU(3)], 4, 4, pool="last", reads="vectors")
WHOLE_NUMBERS = rnn.Network([rnn.GRU(3)], 4, 4, "squared", pool="mean")


def test_functions_that_need_an_output_at_each_step_reject_pooling() -> None:
    said = "one (output )?for a whole sequence"
    symbols, corpus = rnn.Network([rnn.GRU(3)], 4, 4, pool="max"), rnn.data.Corpus.split("abcd" * 200)
    for number, (ask, words) in enumerate((
        (lambda: WHOLE.unroll(3, 2, unscored=1), said),
        (lambda: WHOLE.unroll(3, 2, predict_first=True), said),
        (lambda: rnn.fit_output(WHOLE_NUMBERS, np.zeros((3, 2, 4)), np.zeros((3, 2, 4))), said),
        (lambda: rnn.LongSequence(WHOLE), said),
        (lambda: rnn.online.RTRL(WHOLE_NUMBERS), said),
        (lambda: rnn.gradient_by_distance(WHOLE, np.zeros((3, 2, 4)), np.zeros((3, 2), int)), said),
        (lambda: rnn.tasks.FreshSequences(rnn.tasks.Addition(10), WHOLE_NUMBERS), said),
        (lambda: viz.generation(WHOLE), said),
        (lambda: rnn.CarriedText(symbols, corpus), "must read symbols and predict them"),
        (lambda: rnn.Network([rnn.GRU(3)], 4, 4, "ctc", pool="last"), "pool makes one .* but the loss 'ctc' needs"),
        (lambda: rnn.Network([rnn.GRU(3)], 4, 4, pool="first"), "pool must be 'last' or 'mean' or 'max'"),
    )):  # fmt: skip
        with named(number), pytest.raises((UsageError, viz.DrawingError), match=words):
            ask()


def test_pooled_networks_are_saved_and_drawn(tmp_path: Path) -> None:
    net = rnn.Network([rnn.Bidirectional(rnn.GRU(3))], 4, 5, pool="mean", reads="vectors")
    rnn.save(net, tmp_path / "m.safetensors")
    again = rnn.load(tmp_path / "m.safetensors")
    assert isinstance(again, rnn.Network)
    assert again.pool == "mean"
    x = np.random.default_rng(0).standard_normal((6, 2, 4))
    np.testing.assert_array_equal(rnn.run(net, x)[0], rnn.run(again, x)[0])
    assert rnn.run(net, x)[0].shape == (2, 5)
    drawn = viz.draw(net.unroll(3, 2, lengths=True, initial="zero"), style="compact")
    drawn.save(tmp_path / "m.svg")
    shown = (tmp_path / "m.svg").read_text(encoding="utf-8")
    assert "mean over 2 cases" in shown
    assert "lengths" in shown
