"""Online learning: RTRL against backpropagation through time, truncated LSTM against NumPy, and weights that change."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet_rnn.errors import DataError, TrainingError, UsageError
from graphnet_rnn.online import RTRL, Learner, TruncatedLSTM, truncated
from graphnet_rnn.online.known_gradient import KnownGradient
from graphnet_rnn.optimizers.base import Report, State
from graphnet_rnn.optimizers.first_order import FirstOrder
from tests.graphnet_rnn.cells.oracles import ORACLES, TINY, Array, sigmoid, softmax_loss
from tests.graphnet_rnn.cells.test_oracles import CELLS
from tests.graphnet_rnn.training.told import Told
from tests.tables import case

TIME, BATCH, SYMBOLS = 5, 2, 4
TOLERANCE = {"rtol": 1e-10, "atol": 1e-10}


def network(*layers: rnn.Cell, **settings: Any) -> rnn.Network:
    """A network with weights that are not those of a fresh one: no bias is zero."""
    net = rnn.Network(list(layers), inputs=SYMBOLS, outputs=SYMBOLS, **{"dtype": "float64", **settings})
    net.theta = net.theta + 0.3 * np.random.default_rng(1).standard_normal(net.theta.size)
    return net


def symbols(batch: int = BATCH, time: int = TIME) -> tuple[Array, Array]:
    generator = np.random.default_rng(2)
    return generator.integers(0, SYMBOLS, (time, batch)), generator.integers(0, SYMBOLS, (time, batch))


def backpropagated(
    net: rnn.Network, x: Array, t: Array, initial: str, states: Any = (), unscored: int = 0
) -> tuple[float, Array]:
    """The summed loss and its gradient, of the whole sequence at once."""
    u = net.unroll(len(x), x.shape[1], initial=initial)
    cost = gn.sum(u.losses[unscored:])
    given = u.initial if initial == "given" else []
    outputs = [cost, *gn.gradient(cost, list(net.parameters.values()))]
    loss, *gradients = gn.compile(outputs, [u.inputs, u.targets, *given], backend="numpy")(x, t, *states)
    return float(loss), np.concatenate([g.ravel() for g in gradients])


def online(learner: Learner, x: Array, t: Array, unscored: int = 0) -> tuple[float, Array]:
    """The same, summed up step by step."""
    loss, gradient = 0.0, np.zeros_like(learner.network.theta)
    for k in range(len(x)):
        found, g = learner.step(x[k], t[k] if k >= unscored else None)
        loss, gradient = loss + found, gradient + g
    return loss, gradient


def assert_same(found: tuple[float, Array], expected: tuple[float, Array]) -> None:
    assert found[0] == pytest.approx(expected[0], rel=1e-10)
    np.testing.assert_allclose(found[1], expected[1], **TOLERANCE)
    assert np.abs(expected[1]).max() > 1e-3, "or there is nothing to compare"


# -- RTRL ------------------------------------------------------------------------------------------


def test_rtrl_is_bptt() -> None:
    """From learned states, whose parameters have gradients, too."""
    for name in CELLS:
        with case(name):
            net = network(CELLS[name](3), initial_state="learned")
            if not net.causal:
                with pytest.raises(UsageError, match=r"RTRL: .* reads a sequence from its end"):
                    RTRL(net)
                continue
            x, t = symbols()
            assert_same(online(RTRL(net, BATCH), x, t), backpropagated(net, x, t, "learned"))


NETWORKS: dict[str, Callable[[], rnn.Network]] = {
    "deep": lambda: network(rnn.LSTM(3), rnn.Dense(2), rnn.GRU(2), skip=True),
    "shared": lambda: network(rnn.Elman(4), rnn.Elman(4), share={1: 0}),
    "no states": lambda: network(rnn.Dense(3)),
    "no weights that states depend on": lambda: network(rnn.EchoState(5)),
    "no bias": lambda: network(rnn.Elman(3), output_bias=False, skip="outputs"),
}


def test_rtrl_from_given_and_zero_states() -> None:
    """Some steps ask nothing; after a reset all is as it was."""
    for name, make in NETWORKS.items():
        with case(name):
            net = make()
            x, t = symbols()
            generator = np.random.default_rng(3)
            states = [generator.standard_normal((BATCH, width)) for _, width in net.state_names()]
            learner = RTRL(net, BATCH)
            expected = backpropagated(net, x, t, "zero", unscored=2)
            assert_same(online(learner, x, t, unscored=2), expected)
            learner.reset(states)
            assert_same(online(learner, x, t), backpropagated(net, x, t, "given", states))
            learner.reset()
            assert_same(online(learner, x, t, unscored=2), expected)


def test_given_states_are_constants_where_others_are_learned() -> None:
    net = network(rnn.GRU(3), initial_state="learned")
    x, t = symbols()
    learner = RTRL(net, BATCH)
    learner.reset([np.full((BATCH, 3), 0.5)])
    expected = backpropagated(net, x, t, "given", [np.full((BATCH, 3), 0.5)])
    assert_same(online(learner, x, t), expected)


def test_rtrl_on_vectors() -> None:
    for loss in ["squared", "sigmoid"]:
        with case(loss):
            net = network(rnn.Elman(3), loss=loss)
            generator = np.random.default_rng(4)
            x, t = generator.random((2, TIME, BATCH, SYMBOLS))
            assert_same(online(RTRL(net, BATCH), x, t), backpropagated(net, x, t, "zero"))


def test_each_step_has_the_gradient_of_its_own_loss() -> None:
    """Not only their sum: loss_t backpropagated alone, for every t; and states and outputs are those of a run."""
    net = network(rnn.LSTM(3))
    x, t = symbols()
    learner = RTRL(net, BATCH)
    outputs, _ = rnn.run(net, x)
    for k in range(TIME):
        found = learner.step(x[k], t[k])
        assert_same(found, backpropagated(net, x[: k + 1], t[: k + 1], "zero", unscored=k))
        np.testing.assert_allclose(learner.outputs, outputs[k], **TOLERANCE)
        for state, expected in zip(learner.states, rnn.run(net, x[: k + 1])[1], strict=True):
            np.testing.assert_allclose(state, expected, **TOLERANCE)


def test_rtrl_in_single_precision() -> None:
    net = network(rnn.GRU(3), dtype="float32")
    x, t = symbols()
    loss, gradient = online(RTRL(net, BATCH), x, t)
    expected = backpropagated(net, x, t, "zero")
    assert gradient.dtype == np.float32
    assert loss == pytest.approx(expected[0], rel=1e-5)
    np.testing.assert_allclose(gradient, expected[1], atol=1e-4)


def test_variational_dropout_is_that_of_the_unrolled_network() -> None:
    """One mask from a reset to the next: the gradient is that of the whole sequence under the same mask."""
    net = network(
        rnn.Elman(6), rnn.GRU(5), dropout=0.5, recurrent_dropout=0.4, variational=True, skip="outputs"
    )
    x, t = symbols(batch=1)
    u = net.unroll(TIME, 1, initial="zero")
    function = gn.compile(
        [gn.sum(u.losses), *gn.gradient(gn.sum(u.losses), list(net.parameters.values()))],
        [u.inputs, u.targets],
    )
    learner = RTRL(net)
    seen = set()
    for _ in range(3):
        learner.reset()
        u.random.state = learner._random.state
        loss, *gradients = function(x, t)
        assert_same(online(learner, x, t), (float(loss), np.concatenate([g.ravel() for g in gradients])))
        seen.add(float(loss))
    assert len(seen) == 3


def test_other_dropout_is_drawn_for_each_step_and_sequence() -> None:
    net = network(rnn.Dense(20), rnn.Dense(20), dropout=0.5)
    learner = RTRL(net, 2)
    rows = []
    for _ in range(3):
        learner.step([1, 1], [0, 0])
        assert learner.outputs is not None
        rows += learner.outputs.tolist()
    assert len(np.unique(rows, axis=0)) == 6


# -- the truncated gradient of LSTM ----------------------------------------------------------------


def sutskever(w: Any, x: Array, h: Array, n: Array, m: Array) -> tuple[Array, ...]:
    """LSTMSutskever, with every product of h or ñ cut: `.real` drops the derivative."""
    h = np.tanh(h.real @ w["W_hh"] + x @ w["W_xh"] + n.real @ w["W_nh"])

    def read(k: str) -> Array:
        return np.asarray(h.real @ w[f"W_h{k}"] + x @ w[f"W_x{k}"] + n.real @ w[f"W_n{k}"])

    m = sigmoid(read("f") + w["b_f"]) * m + sigmoid(read("i")) * np.tanh(read("g"))
    n = m * sigmoid(read("o"))
    return np.concatenate([h, n], axis=1), h, n, m


def truncated_by_numpy(net: rnn.Network, x: Array, t: Array) -> Array:
    """The gradient from zero states, one weight at a time, by complex steps: h_{t-1} enters with its real part."""
    cell = net.layers[0]
    oracle = ORACLES[type(cell).__name__](cell, SYMBOLS)
    one_hot = np.eye(SYMBOLS)[x]
    step = sutskever if isinstance(cell, rnn.LSTMSutskever) else oracle.step

    def loss(theta: Array) -> complex:
        w, at = {}, 0
        for name, node in net.parameters.items():
            owner, _, short = name.partition(".")
            w[f"{owner}.{short}"] = theta[at : at + node.size].reshape(node.shape)
            at += node.size
        inner = {name.removeprefix("layer0."): v for name, v in w.items() if name.startswith("layer0.")}
        states = [np.zeros((x.shape[1], width), complex) for _, width in net.state_names()]
        total = 0j
        for k in range(len(x)):
            returned = step(inner, one_hot[k], *(s.real for s in states[:-1]), states[-1])
            states = list(returned[1:])
            o = returned[0] @ w["output.W_ho"] + w["output.b_o"]
            total += softmax_loss(o, t[k]).sum()
        return total

    steps = 1j * TINY * np.eye(net.theta.size)
    return np.array([loss(net.theta + step).imag / TINY for step in steps])


FORMS = [rnn.LSTM, rnn.LSTMPeephole, rnn.LSTM1997, rnn.LSTMKrause, rnn.LSTMSutskever]


def test_truncated_gradient() -> None:
    """As a graph, by RTRL on it, and with one trace for each weight: all that of NumPy, and not the whole gradient."""
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


def test_errors_of_lstm1997_do_not_vanish() -> None:
    """∂c_t/∂c_{t-1} = 1 (Krause 2015, 2.2): what the first step wrote has the same derivative after 200 steps."""
    net = network(rnn.LSTM1997(2))
    u = truncated(net).unroll(200, 1)
    (g,) = gn.backward({u.final[1]: np.ones((1, 2))}, [u.initial[1]])
    found = gn.compile([g], [u.inputs, *u.initial], backend="numpy")(
        np.zeros((200, 1), int), *net.zero_states(1)
    )[0]
    assert found.tolist() == [[1, 1]]


def test_a_truncated_network_is_the_network() -> None:
    """Same values, same weights; the network itself keeps its derivatives."""
    net = network(rnn.LSTM(3), rnn.LSTM(2))
    x, t = symbols()
    before = backpropagated(net, x, t, "zero")
    cut = truncated(net)
    outputs, _ = rnn.run(cut, x)
    np.testing.assert_array_equal(outputs, rnn.run(net, x)[0])
    assert_same(backpropagated(net, x, t, "zero"), before)
    cut.theta = np.zeros_like(cut.theta)
    assert not net.theta.any()


def test_truncated_layers_pass_errors_down_within_a_step() -> None:
    """Two layers: the graph and RTRL on it agree, and the lower layer does learn from the upper one's loss."""
    net = network(rnn.LSTM(3), rnn.LSTMKrause(2))
    x, t = symbols()
    expected = backpropagated(truncated(net), x, t, "zero")
    assert_same(online(RTRL(truncated(net), BATCH), x, t), expected)
    assert np.abs(expected[1][: net.layers[0].weights["W_xi"].size]).max() > 1e-4


def test_traces_take_no_more_than_the_weights() -> None:
    net = network(rnn.LSTM(20))
    (trace,) = TruncatedLSTM(net)._remembered[0]
    assert trace.size < net.theta.size


class OwnLSTM(rnn.LSTM):
    """i, f, o = σ(x, h);  c' = f c + i g + c of the unit beside: not a memory that keeps to itself"""

    def step(self, x: gn.Node, h: gn.Node, c: gn.Node) -> tuple[gn.Node, gn.Node]:
        h, c = super().step(x, h, c)
        return h, c + gn.concatenate([c[:, 1:], c[:, :1]], axis=1)


def test_networks_without_traces() -> None:
    for layers in [[rnn.GRU(3)], [OwnLSTM(3)], [rnn.LSTM(3), rnn.LSTM(2)], [rnn.Dense(3), rnn.LSTM(2)]]:
        with (
            case(layers),
            pytest.raises(
                UsageError, match="TruncatedLSTM: the first layer must be one of LSTM, LSTMPeephole"
            ),
        ):
            TruncatedLSTM(network(*layers))


def test_cells_without_known_memory() -> None:
    for cell in [rnn.GRU(3), OwnLSTM(3), rnn.cells.Residual(rnn.LSTM(3))]:
        with (
            case(cell),
            pytest.raises(
                UsageError, match=f"truncated: {type(cell).__name__}.* has no memory cells that are known"
            ),
        ):
            truncated(network(rnn.LSTM(3), cell))


# -- what a learner is given -----------------------------------------------------------------------


def test_networks_that_no_learner_reads() -> None:
    with pytest.raises(UsageError, match=r"RTRL: .* reads a sequence from its end"):
        RTRL(network(rnn.Bidirectional(2)))
    with pytest.raises(UsageError, match="RTRL: the loss 'ctc' judges whole sequences"):
        RTRL(network(rnn.LSTM(2), loss="ctc", reads="symbols"))
    with pytest.raises(UsageError, match="RTRL: batch must be a whole number >= 1, not 0"):
        RTRL(network(rnn.LSTM(2)), 0)


def test_observations_that_do_not_fit() -> None:
    """And the learner is as before."""
    cases = [
        ([1], [1, 2], r"inputs of one step must be \[2\], \(batch\), not \[1\]"),
        ([[1, 2]], [1, 2], r"inputs of one step must be \[2\], \(batch\), not \[1, 2\]"),
        ([1, 4], [1, 2], r"symbols, whole numbers in 0 ... 3, not int64 from 1 to 4"),
        ([1.0, 2.0], [1, 2], "not float64"),
        ([1, 2], [1, -1], r"targets of one step must be \[2\] symbols, whole numbers in 0 ... 3"),
        ([1, 2], 3, r"targets of one step must be \[2\], \(batch\), not \[\]"),
        ([[1], [2, 3]], [1, 2], "not what makes no array"),
    ]
    for inputs, targets, sentence in cases:
        with case(inputs, targets):
            net = network(rnn.Elman(3))
            learner = RTRL(net, 2)
            with pytest.raises(DataError, match=sentence):
                learner.step(inputs, targets)
            x, t = symbols()
            assert_same(online(learner, x, t), backpropagated(net, x, t, "zero"))


def test_vectors_and_states_that_do_not_fit() -> None:
    learner = RTRL(network(rnn.Elman(3), loss="squared"), 2)
    with pytest.raises(DataError, match=r"must be \[2, 4\], \(batch, inputs\), not \[2\]"):
        learner.step([1.0, 2.0])
    with pytest.raises(DataError, match=r"RTRL: targets at \[1, 0\] is nan"):
        learner.step(np.ones((2, 4)), [[1, 1, 1, 1], [np.nan, 1, 1, 1]])
    with pytest.raises(DataError, match=r"the states must be \[\[2, 3\]\], not \[\[1, 3\]\]"):
        learner.reset([np.zeros((1, 3))])
    with pytest.raises(DataError, match=r"the states at \[0, 0\] is inf"):
        learner.reset([np.full((2, 3), np.inf)])


# -- weights that change ---------------------------------------------------------------------------


def learn(
    learner: Learner, optimizer: FirstOrder, x: Array, t: Array, every: int, weights: Any = None, **how: Any
) -> list[Report]:
    """The sequence is read once, with a step after every so many time steps; what each reported."""
    settings = rnn.Training(optimizer, epochs=1, schedule=rnn.Constant(), stopping=None)
    told = Told(**how)
    rnn.Trainer(rnn.Stream(learner, x, t, every, weights=weights), settings, listeners=[told]).run()
    return told.reports


def test_one_step_for_a_whole_sequence_is_backpropagation() -> None:
    """every = T from one start: the optimiser gets the gradient of u.cost; a step is asked nothing."""
    x, t = symbols(time=3 * TIME)
    nets = [network(rnn.LSTM(3)) for _ in range(2)]
    learner, chi = RTRL(nets[0], BATCH), np.arange(TIME) > 0
    for k in range(0, len(x), TIME):
        (report,) = learn(learner, rnn.SGD(0.5), x[k : k + TIME], t[k : k + TIME], TIME, chi)
        loss, gradient = backpropagated(nets[1], x[k : k + TIME], t[k : k + TIME], "zero", unscored=1)
        assert report.loss == pytest.approx(loss / (BATCH * (TIME - 1)))
        nets[1].theta = nets[1].theta - 0.5 * gradient / (BATCH * (TIME - 1))
        np.testing.assert_allclose(nets[0].theta, nets[1].theta, **TOLERANCE)


OPTIMIZERS: list[FirstOrder] = [
    rnn.SGD(0.1),
    rnn.Nesterov(0.1),
    rnn.RMSprop(0.01),
    rnn.Adam(0.01, clip_norm=0.1),
]


def test_a_loop_by_hand() -> None:
    """Weights move after every so many steps, by the optimiser's own equations; Nesterov reads ahead of them."""
    for every, optimizer in itertools.product([1, 3], OPTIMIZERS):
        with case(every, optimizer):
            x, t = symbols(batch=1, time=7)
            chi = np.array([1, 0.5, 2, 1, 1, 3, 1])
            net, other = network(rnn.LSTM(3)), network(rnn.LSTM(3))
            reports = learn(TruncatedLSTM(net), optimizer, x, t, every, chi)
            learner = TruncatedLSTM(other)
            theta = other.theta.copy()
            state: State = optimizer.init(theta)
            for step, start in enumerate(range(0, 7 // every * every, every)):
                some = range(start, start + every)
                other.theta = optimizer.evaluation_point(theta, state)
                found, total = [learner.step(x[k], t[k]) for k in some], sum(chi[k] for k in some)
                loss = sum(chi[k] * l for k, (l, _) in zip(some, found, strict=True)) / total
                assert reports[step].loss == pytest.approx(loss)
                gradient = sum(chi[k] * g for k, (_, g) in zip(some, found, strict=True)) / total
                if optimizer.clip_norm is not None:
                    gradient = gradient * min(1, optimizer.clip_norm / np.linalg.norm(gradient))
                replace(optimizer, clip_norm=None).step(KnownGradient(other, 0.0, gradient), theta, state)
            np.testing.assert_allclose(net.theta, theta, **TOLERANCE)
            assert len(reports) == 7 // every


def test_learns_what_lies_steps_back() -> None:
    """The first symbol is asked for after five others: at the last step alone, which without the past is a guess."""
    for kind in [RTRL, TruncatedLSTM]:
        with case(kind):
            net = rnn.Network([rnn.LSTM(5)], inputs=5, outputs=2, dtype="float64")
            learner, generator = kind(net, 4), np.random.default_rng(0)
            first = generator.integers(0, 2, (250, 1, 4))
            x = np.concatenate(
                [first, generator.integers(2, 4, (250, 5, 4)), np.full((250, 1, 4), 4)], axis=1
            ).reshape(-1, 4)
            said: list[Array] = []
            chi = np.tile(np.arange(7) == 6, 250)
            learn(
                learner, rnn.Adam(rate=0.03), x, np.repeat(first, 7, axis=1).reshape(-1, 4), 7, chi,
                look=lambda: said.append(np.array(learner.outputs)),
            )  # fmt: skip
            right = [(o.argmax(axis=1) == f[0]).mean() for o, f in zip(said, first, strict=True)]
            assert np.mean(right[:20]) < 0.8
            assert np.mean(right[-50:]) > 0.97


def test_what_is_validated_is_the_mean_loss_of_another_sequence() -> None:
    net = network(rnn.Elman(3))
    x, t = symbols(time=9)
    stream = rnn.Stream(RTRL(net, BATCH), x[:5], t[:5], valid=(x[:, :1], t[:, :1]))
    loss, _ = backpropagated(net, x[:, :1], t[:, :1], "zero")
    assert stream.validate() == pytest.approx(loss / 9)
    numbers = network(rnn.Elman(3), loss="squared", reads="vectors", dtype="float32")
    x, t = np.ones((4, 2, SYMBOLS)), np.zeros((4, 2, SYMBOLS))
    judged = rnn.Stream(RTRL(numbers, 2), x, t, valid=(x, t)).validate()
    assert judged is not None
    assert judged > 0
    assert rnn.Stream(RTRL(numbers, 2), x, t).validate() is None


def test_broken_numbers_leave_the_weights() -> None:
    net = network(rnn.Elman(3), loss="squared", dtype="float32")
    before = net.theta.copy()
    x, t = np.ones((1, 1, 4)), np.full((1, 1, 4), 1e30)
    with np.errstate(over="ignore"), pytest.raises(TrainingError, match=r"at step 0 .*try a smaller --rate"):
        learn(RTRL(net), rnn.SGD(1.0), x, t, 1)
    assert np.array_equal(net.theta, before)


def test_learning_that_cannot_be_meant() -> None:
    net = network(rnn.Elman(3))
    x, t = symbols(batch=1)
    with pytest.raises(UsageError, match="Stream: optimizer must be one of first order"):
        learn(RTRL(net), rnn.HessianFree(), x, t, 1)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"learner must be a learner, e.g. rnn.online.RTRL\(network\)"):
        rnn.Stream(net, x, t)  # type: ignore[arg-type]
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (UsageError, {"every": 0}, "every must be a whole number >= 1, not 0"),
        (DataError, {"every": 9}, "5 time steps are fewer than a step takes, 9"),
        (DataError, {"targets": t[1:]}, r"as many time steps and sequences, not \[5, 1\] and \[4, 1\]"),
        (DataError, {"inputs": [[1], [2, 3]]}, "must be arrays"),
        (DataError, {"weights": np.ones(4)}, r"weights must be 5 numbers >= 0, .* of shape \[4\]"),
        (DataError, {"weights": -np.ones(5)}, "weights must be 5 numbers >= 0, .* from -1"),
        (DataError, {"weights": [1, 0, 1, 1, 1]}, "step 1 has no time step with a weight above 0"),
        (UsageError, {"valid": x}, r"valid must be \(inputs, targets\)"),
    ]
    for error, changed, said in wrong:
        with pytest.raises(error, match=said):
            rnn.Stream(RTRL(net), **{"inputs": x, "targets": t, **changed})
