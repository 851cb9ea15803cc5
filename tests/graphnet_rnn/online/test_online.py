"""Online learning: RTRL against backpropagation, truncated LSTM against NumPy, dynamic evaluation against a loop."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet_rnn.apps.cli import main
from graphnet_rnn.data import Vocabulary
from graphnet_rnn.errors import DataError, TrainingError, UsageError
from graphnet_rnn.online import RTRL, DynamicEvaluation, Learner, TruncatedLSTM, truncated
from graphnet_rnn.online.dynamic import KnownGradient
from tests.graphnet_rnn.cells.oracles import ORACLES, TINY, Array, sigmoid, softmax_loss
from tests.graphnet_rnn.cells.test_oracles import CELLS
from tests.graphnet_rnn.training.reports import Told
from tests.tables import case

TIME, BATCH, SYMBOLS = 5, 2, 4
TOLERANCE = {"rtol": 1e-10, "atol": 1e-10}


def network(*layers: rnn.Cell, **settings: Any) -> rnn.Network:
    """A network with random weights, also for the biases."""
    net = rnn.Network(list(layers), inputs=SYMBOLS, outputs=SYMBOLS, **{"dtype": "float64", **settings})
    net.theta = net.theta + 0.3 * np.random.default_rng(1).standard_normal(net.theta.size)
    return net


def symbols(batch: int = BATCH, time: int = TIME) -> tuple[Array, Array]:
    generator = np.random.default_rng(2)
    return generator.integers(0, SYMBOLS, (time, batch)), generator.integers(0, SYMBOLS, (time, batch))


def backpropagated(net: Any, x: Array, t: Array, initial: str, states: Any = (), unscored: int = 0) -> Any:
    """The summed loss and its gradient, of the whole sequence at once."""
    u = net.unroll(len(x), x.shape[1], initial=initial)
    cost = gn.sum(u.losses[unscored:])
    given = u.initial if initial == "given" else []
    outputs = [cost, *gn.gradient(cost, list(net.parameters.values()))]
    loss, *gradients = gn.compile(outputs, [u.inputs, u.targets, *given], backend="numpy")(x, t, *states)
    return float(loss), np.concatenate([g.ravel() for g in gradients])


def online(learner: Learner, x: Array, t: Array, unscored: int = 0) -> tuple[float, Array]:
    """Loss and gradient, summed over the steps of online learning."""
    loss, gradient = 0.0, np.zeros_like(learner.network.theta)
    for k in range(len(x)):
        found, g = learner.step(x[k], t[k] if k >= unscored else None)
        loss, gradient = loss + found, gradient + g
    return loss, gradient


def assert_same(found: tuple[float, Array], expected: tuple[float, Array]) -> None:
    assert found[0] == pytest.approx(expected[0], rel=1e-10)
    np.testing.assert_allclose(found[1], expected[1], **TOLERANCE)
    assert np.abs(expected[1]).max() > 1e-3, "or there is nothing to compare"


@pytest.mark.slow
def test_rtrl_matches_backpropagation() -> None:
    """Includes gradients of learned initial states."""
    for name in CELLS:
        with case(name):
            net = network(CELLS[name](3), initial_state="learned")
            if not net.causal:
                with pytest.raises(UsageError, match=r"RTRL: .* reads later inputs"):
                    RTRL(net)
                continue
            x, t = symbols()
            assert_same(online(RTRL(net, BATCH), x, t), backpropagated(net, x, t, "learned"))


def test_rtrl_from_given_and_zero_states() -> None:
    """Steps without targets; `reset` restores the start; given states are constants, even if learned."""
    networks = {
        "deep": network(rnn.LSTM(3), rnn.Dense(2), rnn.GRU(2), skip=True),
        "shared": network(rnn.Elman(4), rnn.Elman(4), share={1: 0}),
        "no states": network(rnn.Dense(3)),
        "no weights that states depend on": network(rnn.EchoState(5)),
        "no bias": network(rnn.Elman(3), output_bias=False, skip="outputs"),
        "numbers": network(rnn.Elman(3), loss="squared"),
        "probabilities": network(rnn.Elman(3), loss="sigmoid"),
        "learned": network(rnn.GRU(3), initial_state="learned"),
    }
    for name, net in networks.items():
        with case(name):
            x, t = symbols()
            if net.reads == "vectors":
                x, t = np.random.default_rng(4).random((2, TIME, BATCH, SYMBOLS))
            generator, own = np.random.default_rng(3), "learned" if name == "learned" else "zero"
            states = [generator.standard_normal((BATCH, width)) for _, width in net.state_names()]
            learner = RTRL(net, BATCH)
            expected = backpropagated(net, x, t, own, unscored=2)
            assert_same(online(learner, x, t, unscored=2), expected)
            learner.reset(states)
            assert_same(online(learner, x, t), backpropagated(net, x, t, "given", states))
            learner.reset()
            assert_same(online(learner, x, t, unscored=2), expected)
    net = network(rnn.GRU(3), dtype="float32")
    x, t = symbols()
    loss, gradient = online(RTRL(net, BATCH), x, t)
    expected = backpropagated(net, x, t, "zero")
    assert gradient.dtype == np.float32
    assert loss == pytest.approx(expected[0], rel=1e-5)
    np.testing.assert_allclose(gradient, expected[1], atol=1e-4)


def test_each_step_has_the_gradient_of_its_loss() -> None:
    """Gradient of loss_t alone for every t; outputs and states equal those of `run`."""
    net = network(rnn.LSTM(3))
    x, t = symbols()
    learner = RTRL(net, BATCH)
    for k in range(TIME):
        found = learner.step(x[k], t[k])
        assert_same(found, backpropagated(net, x[: k + 1], t[: k + 1], "zero", unscored=k))
        outputs, states = rnn.run(net, x[: k + 1])
        for made, expected in zip([learner.outputs, *learner.states], [outputs[-1], *states], strict=True):
            np.testing.assert_allclose(made, expected, **TOLERANCE)


def test_variational_dropout_matches_the_unrolled_network() -> None:
    """One mask between resets, as for unrolled sequences. Other dropout is drawn for each step."""
    dropout = {"dropout": 0.5, "recurrent_dropout": 0.4, "variational": True}
    net = network(rnn.Elman(6), rnn.GRU(5), skip="outputs", **dropout)
    x, t = symbols(batch=1)
    u = net.unroll(TIME, 1, initial="zero")
    outputs = [gn.sum(u.losses), *gn.gradient(gn.sum(u.losses), list(net.parameters.values()))]
    function, learner, seen = gn.compile(outputs, [u.inputs, u.targets]), RTRL(net), set()
    for _ in range(3):
        learner.reset()
        u.random.state = learner._random.state
        loss, *gradients = function(x, t)
        assert_same(online(learner, x, t), (float(loss), np.concatenate([g.ravel() for g in gradients])))
        seen.add(float(loss))
    assert len(seen) == 3
    learner, rows = RTRL(network(rnn.Dense(20), rnn.Dense(20), dropout=0.5), 2), []
    for _ in range(3):
        learner.step([1, 1], [0, 0])
        rows += learner.outputs.tolist()
    assert len(np.unique(rows, axis=0)) == 6


def sutskever(w: Any, x: Array, h: Array, n: Array, m: Array) -> tuple[Array, ...]:
    """LSTMSutskever, with every product of h or ñ cut: `.real` drops the derivative."""
    h = np.tanh(h.real @ w["W_hh"] + x @ w["W_xh"] + n.real @ w["W_nh"])
    read = lambda k: h.real @ w[f"W_h{k}"] + x @ w[f"W_x{k}"] + n.real @ w[f"W_n{k}"]
    m = sigmoid(read("f") + w["b_f"]) * m + sigmoid(read("i")) * np.tanh(read("g"))
    n = m * sigmoid(read("o"))
    return np.concatenate([h, n], axis=1), h, n, m


def truncated_by_numpy(net: rnn.Network, x: Array, t: Array) -> Array:
    """The gradient from zero states, one weight at a time, by complex steps: h_{t-1} enters with its real part."""
    cell = net.layers[0]
    oracle = ORACLES[type(cell).__name__](cell, SYMBOLS)
    step = sutskever if isinstance(cell, rnn.LSTMSutskever) else oracle.step
    ends = np.cumsum([node.size for node in net.parameters.values()])[:-1]

    def loss(theta: Array) -> complex:
        pairs = zip(net.parameters.items(), np.split(theta, ends), strict=True)
        w = {name.removeprefix("layer0."): flat.reshape(node.shape) for (name, node), flat in pairs}
        states = [np.zeros((x.shape[1], width), complex) for _, width in net.state_names()]
        total = 0j
        for k in range(len(x)):
            given = *(s.real for s in states[:-1]), states[-1]
            h, *states = step(w, np.eye(SYMBOLS)[x[k]], *given)
            total += softmax_loss(h @ w["output.W_ho"] + w["output.b_o"], t[k]).sum()
        return total

    steps = 1j * TINY * np.eye(net.theta.size)
    return np.array([loss(net.theta + step).imag / TINY for step in steps])


FORMS = [rnn.LSTM, rnn.LSTMPeephole, rnn.LSTM1997, rnn.LSTMKrause, rnn.LSTMSutskever]


def test_truncated_gradient() -> None:
    """Backpropagation, TruncatedLSTM and RTRL on the truncated net all give NumPy's truncated gradient."""
    for form in FORMS:
        with case(form):
            net = network(form(3))
            x, t = symbols()
            whole = backpropagated(net, x, t, "zero")
            expected = whole[0], truncated_by_numpy(net, x, t)
            assert np.abs(expected[1] - whole[1]).max() > 1e-2
            assert_same(backpropagated(truncated(net), x, t, "zero"), expected)
            assert_same(online(TruncatedLSTM(net, BATCH), x, t), expected)
            assert_same(online(RTRL(truncated(net), BATCH), x, t), expected)


def test_traces_under_layers_without_states_and_from_learned_states() -> None:
    for form in FORMS:
        with case(form):
            net = network(form(3), rnn.Dense(4), skip=True, initial_state="learned")
            x, t = symbols()
            learner = TruncatedLSTM(net, BATCH)
            expected = backpropagated(truncated(net), x, t, "learned")
            for _ in range(2):
                assert_same(online(learner, x, t), expected)
                learner.reset()
    net = network(rnn.LSTM(20))
    assert TruncatedLSTM(net)._remembered[0][0].size < net.theta.size, "traces take no more than the weights"


def test_truncated_network_keeps_outputs_and_gradients_within_a_step() -> None:
    """Equal outputs; the original network keeps its derivatives; backpropagation and RTRL agree."""
    net = network(rnn.LSTM(3), rnn.LSTMKrause(2))
    x, t = symbols()
    whole, cut = backpropagated(net, x, t, "zero"), truncated(net)
    np.testing.assert_array_equal(rnn.run(cut, x)[0], rnn.run(net, x)[0])
    assert_same(backpropagated(net, x, t, "zero"), whole)
    expected = backpropagated(truncated(net), x, t, "zero")
    assert_same(online(RTRL(truncated(net), BATCH), x, t), expected)
    assert np.abs(expected[1][: net.layers[0].weights["W_xi"].size]).max() > 1e-4, "learned from the upper"
    cut.theta = np.zeros_like(cut.theta)
    assert not net.theta.any()


class OwnLSTM(rnn.LSTM):
    """i, f, o = σ(x, h);  c' = f c + i g + (c of the next unit), so truncation is not allowed"""

    def step(self, x, h, c):
        h, c = super().step(x, h, c)
        return h, c + gn.concatenate([c[:, 1:], c[:, :1]], axis=1)


def test_unsupported_networks_are_rejected() -> None:
    layers = [[rnn.GRU(3)], [OwnLSTM(3)], [rnn.LSTM(3), rnn.LSTM(2)], [rnn.Dense(3), rnn.LSTM(2)]]
    own = "TruncatedLSTM: the first layer must be one of LSTM, LSTMPeephole"
    cases = [(lambda each=each: TruncatedLSTM(network(*each)), own) for each in layers]
    for cell in [rnn.GRU(3), OwnLSTM(3), rnn.cells.Residual(rnn.LSTM(3))]:
        words = f"truncated: {type(cell).__name__}.* cannot be truncated"
        cases.append((lambda cell=cell: truncated(network(rnn.LSTM(3), cell)), words))
    cases += [
        (
            lambda: RTRL(network(rnn.LSTM(2), loss="ctc", reads="symbols")),
            "RTRL: each time step must have a loss",
        ),
        (lambda: RTRL(network(rnn.LSTM(2)), 0), "RTRL: batch .* not 0"),
    ]
    for call, words in cases:
        with case(words), pytest.raises(UsageError, match=words):
            call()


def test_invalid_observations_and_states_are_rejected() -> None:
    """After each error, the learner is unchanged."""
    learner = RTRL(network(rnn.Elman(3)), BATCH)
    vectors = RTRL(network(rnn.Elman(3), loss="squared"), BATCH)
    one_is_nan = [[1, 1, 1, 1], [np.nan, 1, 1, 1]]
    cases = [
        (learner.step, ([1], [1, 2]), r"inputs of one step must be \[2\], \(batch\), not \[1\]"),
        (learner.step, ([1, 4], [1, 2]), r"whole numbers in 0 ... 3, not int64 from 1 to 4"),
        (learner.step, ([1, 2], [1, -1]), "RTRL: targets must be symbols, whole numbers in 0 ... 3"),
        (learner.step, ([[1], [2, 3]], [1, 2]), "RTRL: inputs must be an array, not"),
        (vectors.step, ([1.0, 2.0],), r"must be \[2, 4\], \(batch, inputs\), not \[2\]"),
        (vectors.step, (np.ones((2, 4)), one_is_nan), r"RTRL: targets at \[1, 0\] is nan"),
        (learner.reset, ([np.zeros((1, 3))],), r"the states must be h_0 \[2, 3\], not \[1, 3\]"),
        (learner.reset, ([np.full((2, 3), np.inf)],), r"the states at \[0, 0\] is inf"),
    ]
    for call, given, words in cases:
        with case(words), pytest.raises(DataError, match=words):
            call(*given)
    x, t = symbols()
    assert_same(online(learner, x, t), backpropagated(learner.network, x, t, "zero"))


def learn(learner: Learner, optimizer: Any, x: Array, t: Array, every: int, weights: Any = None) -> Any:
    """Trains one epoch with a step after every `every` time steps. Returns the reports."""
    settings = rnn.Training(optimizer, epochs=1, schedule=rnn.Constant(), stopping=None)
    told = Told()
    rnn.Trainer(rnn.Stream(learner, x, t, every, weights=weights), settings, listeners=[told]).run()
    return told.reports


def test_online_learning_matches_a_loop_by_hand() -> None:
    """Steps after every `every` time steps equal the optimizer's equations; Nesterov evaluates ahead."""
    optimizers = [rnn.SGD(0.1), rnn.Nesterov(0.1), rnn.RMSprop(0.01), rnn.Adam(0.01, clip_norm=0.1)]
    weights = {1: [1, 0.5, 2, 1, 1, 3, 1], 3: [1, 0.5, 0, 1, 1, 3, 1]}  # 0: a step is asked nothing
    for (every, chi), optimizer in itertools.product(weights.items(), optimizers):
        with case(every, optimizer):
            x, t = symbols(time=7)
            net, other = network(rnn.LSTM(3)), network(rnn.LSTM(3))
            reports = learn(TruncatedLSTM(net, BATCH), optimizer, x, t, every, np.array(chi))
            learner, theta = TruncatedLSTM(other, BATCH), other.theta.copy()
            state = optimizer.init(theta)
            assert len(reports) == 7 // every
            for step, report in enumerate(reports):
                loss, gradient, total = 0.0, np.zeros_like(theta), 0.0
                other.theta = optimizer.evaluation_point(theta, state)
                for k in range(step * every, (step + 1) * every):
                    found, g = learner.step(x[k], t[k] if chi[k] else None)
                    loss, gradient = loss + chi[k] * found, gradient + chi[k] * g
                    total += chi[k] * BATCH
                assert report.loss == pytest.approx(loss / total)
                gradient /= total
                if optimizer.clip_norm is not None:
                    gradient *= min(1, optimizer.clip_norm / np.linalg.norm(gradient))
                replace(optimizer, clip_norm=None).step(KnownGradient(other, 0.0, gradient), theta, state)
            np.testing.assert_allclose(net.theta, theta, **TOLERANCE)


def test_validation_is_the_mean_loss_of_another_sequence() -> None:
    net = network(rnn.Elman(3))
    x, t = symbols(time=9)
    stream = rnn.Stream(RTRL(net, BATCH), x[:5], t[:5], valid=(x[:, :1], t[:, :1]))
    loss, _ = backpropagated(net, x[:, :1], t[:, :1], "zero")
    assert stream.validate() == pytest.approx(loss / 9)
    numbers = RTRL(network(rnn.Elman(3), loss="squared", reads="vectors", dtype="float32"), 2)
    x, t = np.ones((4, 2, SYMBOLS)), np.zeros((4, 2, SYMBOLS))
    assert rnn.Stream(numbers, x, t, valid=(x, t)).validate() > 0
    assert rnn.Stream(numbers, x, t).validate() is None


def test_invalid_streams_leave_the_weights_unchanged() -> None:
    net = network(rnn.Elman(3))
    x, t = symbols(batch=1)
    for wrong_arrays in ({}, RTRL(net, batch=2).remembered()):
        with pytest.raises(
            UsageError, match=r"RTRL\.recall: arrays must be those that .* returned: state\.000 \[1, 3"
        ):
            RTRL(net).recall(wrong_arrays)
    with pytest.raises(UsageError, match="Stream: optimizer must be first-order"):
        learn(RTRL(net), rnn.HessianFree(), x, t, 1)
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (UsageError, {"learner": net}, r"learner must be a learner, e.g. rnn.online.RTRL\(network\)"),
        (UsageError, {"every": 0}, "every .* not 0"),
        (DataError, {"every": 9}, "a step takes 9 time steps, but there are only 5"),
        (DataError, {"targets": t[1:]}, r"Stream: targets must be \[5, 1\], not \[4, 1\]"),
        (DataError, {"targets": t + SYMBOLS}, r"Stream: targets must be symbols"),
        (DataError, {"valid": (x + SYMBOLS, t)}, r"Stream: valid: inputs must be symbols"),
        (DataError, {"learner": RTRL(net, batch=2)}, r"learner has batch=2, but there are 1 sequences"),
        (DataError, {"inputs": [[1], [2, 3]]}, "must be an array"),
        (DataError, {"weights": np.ones(4)}, r"weights must be 5 numbers >= 0, .* not \[4\]"),
        (DataError, {"weights": -np.ones(5)}, "weights .* minimum -1"),
        (DataError, {"weights": [1, 0, 1, 1, 1]}, "step 1 has no time step with a weight above 0"),
        (UsageError, {"valid": x}, r"valid must be \(inputs, targets\)"),
    ]
    for error, changed, words in wrong:
        with case(words), pytest.raises(error, match=words):
            rnn.Stream(**{"learner": RTRL(net), "inputs": x, "targets": t, **changed})
    without = np.where(np.arange(len(t))[:, np.newaxis] == 1, -1, t)  # targets of weight 0 may have any value
    rnn.Stream(RTRL(net), x, without, every=5, weights=[1, 0, 1, 1, 1])
    net = network(rnn.Elman(3), loss="squared", dtype="float32")
    before = net.theta.copy()
    x, t = np.ones((1, 1, 4)), np.full((1, 1, 4), 1e30)
    with np.errstate(over="ignore"), pytest.raises(TrainingError, match=r"at step 0 .*try a smaller --rate"):
        learn(RTRL(net), rnn.SGD(1.0), x, t, 1)
    assert np.array_equal(net.theta, before)


def drawn(length: int) -> Array:
    return np.random.default_rng(length).integers(0, 5, length)


@cache
def characters(kind: str = "zero") -> rnn.Network:
    settings = {"dtype": "float64", "initial_state": kind, "dropout": 0.5}
    net = rnn.Network([rnn.LSTM(4), rnn.GRU(3)], inputs=5, outputs=5, **settings)
    net.theta = np.random.default_rng(1).standard_normal(net.theta.size)
    net.vocabulary = Vocabulary("\nabcd")
    return net


def test_dynamic_evaluation_without_adaptation_matches_evaluation() -> None:
    texts = [(40, 0, 7), (41, 13, 7), (20, 5, 30), (2, 0, 1), (30, 1, 1)]
    for (length, context, time), kind in itertools.product(texts, ["zero", "learned"]):
        with case(length, context, kind):
            expected = rnn.Evaluator(characters(kind), lanes=1, time=time)(drawn(length), context)
            found = DynamicEvaluation(characters(kind), None, time)(drawn(length), context)
            assert found.nats == pytest.approx(expected.nats, rel=1e-12)
            assert (found.correct, found.scored) == (expected.correct, expected.scored)
            barely = DynamicEvaluation(characters(kind), rnn.SGD(1e-14), time)(drawn(length), context)
            assert barely.nats == pytest.approx(expected.nats, rel=1e-10)


def read_by_hand(symbols: Array, optimizer: Any, time: int, decay: float, context: int) -> tuple[float, int]:
    """Nats and number of correct guesses, by pieces without padding, each with its own functions."""
    net = characters()
    trained = net.theta.copy()
    theta = trained.copy()
    state, states = optimizer.init(theta), net.zero_states(1)
    nats, correct = 0.0, 0
    for start in range(0, len(symbols) - 1, time):
        piece = symbols[start : start + time + 1, None]
        x, t = piece[:-1], piece[1:]
        net.theta = optimizer.evaluation_point(theta, state)
        o, after = rnn.run(net, x, states)
        for k in range(len(x)):
            if start + k + 1 >= max(1, context):
                nats -= o[k, 0, t[k, 0]] - math.log(np.exp(o[k, 0]).sum())
                correct += int(o[k, 0].argmax() == t[k, 0])
        u = net.unroll(len(x), 1, training=False)
        gradient = gn.gradient(u.cost, list(net.parameters.values()))
        function = gn.compile(gradient, [u.inputs, u.targets, *u.initial], backend="numpy")
        g = np.concatenate([each.ravel() for each in function(x, t, *states)])
        pull = decay * (trained - theta)
        optimizer.step(KnownGradient(net, 0.0, g), theta, state)
        theta += pull
        states = after
    net.theta = trained
    return nats, correct


def test_dynamic_evaluation_matches_a_loop_by_hand() -> None:
    """Each piece, also of the context, is scored before learning from it. Then the weights are restored."""
    for (decay, context), optimizer in itertools.product(
        [(0.0, 0), (0.2, 9)], [rnn.SGD(0.3), rnn.Nesterov(0.1), rnn.Adam(0.05)]
    ):
        with case(decay, context, optimizer):
            symbols, before = drawn(33), characters().theta.copy()
            nats, correct = read_by_hand(symbols, optimizer, 6, decay, context)
            reader = DynamicEvaluation(characters(), optimizer, 6, decay)
            for _ in range(2):  # the second reading does not depend on the first
                found = reader(symbols, context)
                assert found.nats == pytest.approx(nats, rel=1e-10)
                assert (found.correct, found.scored) == (correct, 33 - max(1, context))
                assert np.array_equal(characters().theta, before)
            assert abs(nats - rnn.Evaluator(characters(), 1)(symbols, context).nats) > 1e-3


def test_dynamic_evaluation_adapts_and_restores_weights_after_errors() -> None:
    """A repetitive text becomes predictable only with adaptation."""
    symbols, seen = np.tile([1, 2, 3, 4], 150), []
    still = DynamicEvaluation(characters(), None)(symbols).bits
    assert DynamicEvaluation(characters(), rnn.SGD(1.0))(symbols).bits < 0.5 * still
    DynamicEvaluation(characters(), None, 7)(drawn(20), progress=lambda *told: seen.append(told))
    assert seen == [(7, 19), (14, 19), (19, 19)]
    before, broken = characters().theta.copy(), DynamicEvaluation(characters(), rnn.SGD(1e308), 2)
    with np.errstate(all="ignore"), pytest.raises(TrainingError, match="diverged: at character"):
        broken(drawn(40))
    assert np.array_equal(characters().theta, before)


def test_invalid_settings_of_dynamic_evaluation_are_rejected() -> None:
    net = characters()
    cases = [
        (lambda: DynamicEvaluation(net, rnn.HessianFree()), UsageError, "must be a first-order optimizer"),
        (lambda: DynamicEvaluation(net, None, 0), UsageError, "time .* not 0"),
        (lambda: DynamicEvaluation(net, None, decay=1), UsageError, "decay .* not 1"),
        (lambda: DynamicEvaluation(rnn.Network([rnn.LSTM(2)], 3, 3, "squared"), None), UsageError, "symbols"),
        (
            lambda: DynamicEvaluation(rnn.Network([rnn.Bidirectional(2)], 3, 3), None),
            UsageError,
            "reads later inputs",
        ),
        (lambda: DynamicEvaluation(net, None)(drawn(3), 3), DataError, "a context of 3"),
    ]
    for call, error, words in cases:
        with case(words), pytest.raises(error, match=words):
            call()


def test_dynamic_evaluation_command(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    rnn.save(characters(), "model.safetensors")
    Path("text.txt").write_text("abcd" * 100, encoding="utf-8")
    evaluate = ["evaluate", "model.safetensors", "text.txt"]

    def bits(options: str) -> float:
        assert main([*evaluate, "--context", "10", *options.split()]) == 0
        found = re.match(r"([\d.]+) bits/char, .* over 390 characters", capsys.readouterr().out)
        return float(found[1])

    symbols, still = np.tile([1, 2, 3, 4], 100), bits("--lanes 1")
    adapted = bits("--dynamic 0.5")
    assert adapted == pytest.approx(DynamicEvaluation(characters(), rnn.SGD(0.5))(symbols, 10).bits, abs=1e-4)
    assert adapted < still - 0.1
    expected = DynamicEvaluation(characters(), rnn.SGD(0.5), 5, 0.3)(symbols, 10).bits
    held = bits("--dynamic 0.5 --dynamic-time 5 --dynamic-decay 0.3")
    assert held == pytest.approx(expected, abs=1e-4)
    assert bits("--dynamic 1e-12 --lanes 1") == pytest.approx(still, abs=1e-4)
