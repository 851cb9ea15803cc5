"""Law 11: unrolled networks match hand-written NumPy loops (oracles.py)."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet_rnn import cells
from tests.graphnet_rnn.cells.oracles import (
    ORACLES,
    TINY,
    Array,
    Result,
    Settings,
    along,
    assert_close,
    layers_of,
    run,
)
from tests.tables import case as named, require_rows, some_quick

TOLERANCE = {"float64": 1e-12, "float32": 1e-5}
SYMBOLS, OUTPUTS = 5, 4
UNITS = (4, 3, 6)  # of the first, second and third layer

Both = cells.Bidirectional
#: Cells of few units for each class, named `Class` or `Class, what is special`.
CELLS: dict[str, Callable[[int], rnn.Cell]] = {
    **{name: getattr(cells, name) for name in (
        "Elman", "Dense", "LSTM", "LSTMPeephole", "LSTM1997", "LSTMKrause", "LSTMSutskever", "GRU",
        "GRUResetAfter", "TensorRNN", "MRNN", "MultiplicativeLSTM", "LayerNormLSTM", "RTRBMFilter", "HMMFilter",
        "Equations",
    )},
    "Dense, linear": lambda n: cells.Dense(n, activation="linear", bias=False),
    "Dense, sigmoid": lambda n: cells.Dense(n, activation="sigmoid"),
    "LSTMProjected": lambda n: cells.LSTMProjected(n, projection=n - 1),
    "MRNN, few factors": lambda n: cells.MRNN(n, factors=n - 1),
    "StackedMRNN": lambda n: cells.StackedMRNN((n, n + 1, n - 1)),
    "RHN": lambda n: cells.RHN(n, depth=3),
    "HyperRHN": lambda n: cells.HyperRHN(n, hyper_units=2, depth=2),
    "Hyper": lambda n: cells.Hyper(rnn.LSTM(n), rnn.Elman(2)),
    "Hyper, rank 2": lambda n: cells.Hyper(rnn.GRU(n), rnn.LSTM(2), rank=2),
    "Hyper, of products": lambda n: cells.Hyper(cells.GRUResetAfter(n), rnn.Elman(2), rank=1),
    "HyperLSTM": lambda n: cells.HyperLSTM(n, hyper_units=2, embedding=3),
    "HyperLSTM, layer norm": lambda n: cells.HyperLSTM(n, 4, 2, layer_norm=True),
    "Normalized": lambda n: cells.Normalized(cells.GLNN(n, edges=2)),
    **{cell.__name__: lambda n, cell=cell: cell(n, edges=2)
       for cell in (cells.GraphRNN, cells.GNN, cells.GLNN, cells.GraphLSTM)},
    "GraphRNN, sigmoid": lambda n: cells.GraphRNN(n, edges=2, activation="sigmoid"),
    "GNN, linear": lambda n: cells.GNN(n, edges=2, activation="linear"),
    "GLNN, sigmoid": lambda n: cells.GLNN(n, edges=2, activation="sigmoid"),
    "GLNN, linear": lambda n: cells.GLNN(n, edges=2, activation="linear"),
    "LeakyRNN": lambda n: cells.LeakyRNN(n, leak=0.3),
    "EchoState": lambda n: cells.EchoState(n, density=0.9, leak=0.2),
    "NARX": lambda n: cells.NARX(n, order=3, taps=2),
    "NARX, order 0": lambda n: cells.NARX(n, order=0, taps=2),
    "NARX, taps 0": lambda n: cells.NARX(n, order=1, taps=0),
    "Attention": lambda n: rnn.Attention(rnn.GRU(n), memory=3, places=2),
    "Attention, dot": lambda n: rnn.Attention(rnn.LSTM(n), memory=2, places=3, score="dot"),
    "Residual": lambda n: cells.Residual(rnn.LSTM(n)),
    "Residual, same width": lambda n: cells.Residual(cells.LSTMSutskever(n)),
    "Residual, both directions": lambda n: cells.Residual(Both(cells.GLNN(n, edges=2), rnn.Elman(n))),
    "Bidirectional": lambda n: Both(rnn.LSTM(n), rnn.Elman(n - 1)),
    "Bidirectional, nested": lambda n: Both(
        Both(rnn.Elman(2)), cells.Residual(Both(rnn.GRU(n), rnn.Elman(2)))
    ),
}  # fmt: skip

every_cell = pytest.mark.parametrize("cell", list(CELLS))
#: Of all kinds of ops, wrappers and states.
DIFFERENT = (
    "LSTMPeephole", "MRNN", "LayerNormLSTM", "HMMFilter", "RHN", "GLNN, linear", "NARX", "Attention",
    "Residual, both directions",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A network with random weights (biases too), unrolled, and random arrays to put in."""

    settings: Settings
    net: Any
    unrolled: Any
    inputs: Array
    targets: Array
    initial: list[Array]
    given: bool  # the initial states are inputs

    def weights(self) -> dict[str, Array]:
        """In float64, by name; those that are never trained too."""
        nodes = {**self.net.parameters, **self.net.fixed}
        return {name: np.array(p.value, "float64") for name, p in nodes.items()}

    def arrays(self) -> list[Array]:
        return [self.inputs, self.targets, *(self.initial if self.given else [])]

    def compute(self, outputs: list[Any]) -> tuple[Array, ...]:
        """Without passes, which have laws of their own: what is compared here are a cell's equations."""
        u = self.unrolled
        inputs = [u.inputs, u.targets, *(u.initial if self.given else [])]
        return gn.compile(outputs, inputs, passes=())(*self.arrays())

    def oracle(self, weights: dict[str, Array] | None = None, **more: Any) -> Result:
        return run(self.settings, weights or self.weights(), self.inputs, self.targets, self.initial, **more)


def make_case(
    cell, layers=1, batch=3, time=5, loss="softmax", skip=False, reads="symbols", unscored=0, initial="given",
    dtype="float64", **network,
) -> Case:  # fmt: skip
    names = (cell,) * layers if isinstance(cell, str) else cell
    if "HMMFilter" in names:  # it reads symbols, which are found in the first layer only
        names, reads = ("HMMFilter", *("Elman" for _ in names[1:])), "symbols"
    layer_cells = tuple(CELLS[name](units) for name, units in zip(names, UNITS, strict=False))
    settings = Settings(layer_cells, SYMBOLS, OUTPUTS, loss, skip, reads, unscored)
    state = "learned" if initial == "learned" else "zero"
    made = {"loss": loss, "skip": skip, "reads": reads, "dtype": dtype, "initial_state": state, **network}
    net = rnn.Network(layer_cells, SYMBOLS, OUTPUTS, **made)
    rng = np.random.default_rng(zlib.crc32(repr((settings, batch, time, initial)).encode()))
    net.theta[:] = rng.normal(0, 0.8, net.theta.shape)
    u = net.unroll(time, batch, training="dropout" in network, initial=initial, unscored=unscored)
    symbols = reads == "symbols"
    x = rng.integers(SYMBOLS, size=(time, batch)) if symbols else rng.normal(size=(time, batch, SYMBOLS))
    targets = {
        "softmax": lambda: rng.integers(OUTPUTS, size=(time, batch)),
        "sigmoid": lambda: rng.random((time, batch, OUTPUTS)),
        "squared": lambda: rng.normal(size=(time, batch, OUTPUTS)),
    }[loss]()
    x, targets = (a if a.dtype == np.int64 else a.astype(dtype) for a in (x, targets))
    declared = [
        (f"initial.{name}{l}", width) for l, o in enumerate(layers_of(settings)) for name, width in o.states
    ]
    if initial == "given":
        states = [rng.normal(size=(batch, width)).astype(dtype) for _, width in declared]
    elif initial == "zero":
        states = [np.zeros((batch, width)) for _, width in declared]
    else:
        learned = [np.array(net.parameters[name].value, "float64") for name, _ in declared]
        states = [np.tile(value, (batch, 1)) for value in learned]
    return Case(settings, net, u, x, targets, states, initial == "given")


def check_case(case: Case, dtype: str = "float64", **more: Any) -> None:
    """Everything that Unrolled names equals the plain loop's."""
    u, want = case.unrolled, case.oracle(**more)
    pairs = {name: (getattr(u, name), getattr(want, name)) for name in ("logits", "losses", "cost")}
    pairs |= {f"hidden[{l}]": pair for l, pair in enumerate(zip(u.hidden, want.hidden, strict=True))}
    pairs |= {f"final[{k}]": pair for k, pair in enumerate(zip(u.final, want.final, strict=True))}
    got = case.compute([node for node, _ in pairs.values()])
    for what, value, (_, expected) in zip(pairs, got, pairs.values(), strict=True):
        assert value.dtype == dtype, what
        assert_close(value, expected, TOLERANCE[dtype], f"{case.settings}, {what}")


def test_every_cell_has_an_oracle() -> None:
    made = {name.partition(",")[0] for name in CELLS}
    require_rows(set(cells.ALL) - set(ORACLES), "ORACLES in oracles.py", "its equations in NumPy")
    require_rows(set(cells.ALL) - made, "CELLS in test_oracles.py", "an instance of it, of so many units")
    for name, make in CELLS.items():
        assert type(make(3)) is cells.ALL[name.partition(",")[0]], name


def test_unrolled_network_matches_a_plain_loop() -> None:
    for cell, layers, skip, loss, shape, reads, dtype in itertools.product(
        ["Elman", "LSTMPeephole"], [1, 2], [False, True], ["softmax", "sigmoid", "squared"], [(3, 5), (1, 1)],
        ["symbols", "vectors"], ["float64", "float32"],
    ):  # fmt: skip
        if dtype == "float64" or (layers, shape) == (2, (3, 5)):
            with named(cell, layers, skip, loss, shape, reads, dtype):
                case = make_case(cell, layers, *shape, loss, skip, reads, dtype=dtype)
                check_case(case, dtype)
                if (layers, shape, reads, dtype) == (2, (3, 5), "symbols", "float64"):
                    check_gradient(case)


@every_cell
def test_every_cell_matches_a_plain_loop(cell: str) -> None:
    """Few combinations cover each network setting at least twice."""
    check_case(make_case(cell, 1, batch=1, time=1))
    check_case(make_case(cell, 1, loss="squared", reads="vectors", unscored=4))
    check_case(make_case(cell, 2, time=1, loss="sigmoid", skip=True, reads="vectors"))
    if not cell.startswith("Attention"):  # whose memory would stay zero
        check_case(make_case(cell, 2, batch=1, loss="squared", unscored=1, initial="zero"))
    check_case(make_case(cell, 2, skip=True, initial="learned"))
    if cell != "HMMFilter":
        check_case(make_case(cell, 3, time=2, reads="vectors"))
    more = {"loss": "squared", "reads": "vectors", "initial": "learned"}
    check_case(make_case(cell, 2, skip=True, dtype="float32"), "float32")
    check_case(make_case(cell, 1, dtype="float32", **more), "float32")


def test_layers_of_different_cells() -> None:
    """States are passed layer by layer, although layers have different numbers of states."""
    for skip in [False, True]:
        with named(skip):
            check_case(make_case(("LSTMKrause", "Elman", "LSTMPeephole"), skip=skip, unscored=4))
            check_case(make_case(("GRU", "LSTM", "Elman"), skip=skip, initial="learned"))
            check_case(make_case(("Dense", "NARX", "Normalized"), skip=skip))
            check_case(make_case(("StackedMRNN", "Bidirectional", "GLNN"), skip=skip, reads="vectors"))


def test_losses_of_large_logits() -> None:
    """σ and softmax saturate at logits of thousands, where the naive formulas overflow."""
    for loss in ["softmax", "sigmoid"]:
        with named(loss):
            case = make_case("Elman", loss=loss)
            case.net.parameters["output.W_ho"].value[:] *= 3000
            assert np.abs(case.oracle().logits).max() > 1000
            check_case(case)


def check_gradient(case: Case, **more: Any) -> None:
    """For each parameter and initial state, along a random direction, with no difference taken: to 1e-11."""
    parameters, weights = case.net.parameters, case.weights()
    states = [f"initial.{name}{l}" for l, o in enumerate(layers_of(case.settings)) for name, _ in o.states]
    wrt = dict(parameters)
    if case.given:
        wrt |= dict(zip(states, case.unrolled.initial, strict=True))
    gradient = dict(zip(wrt, case.compute(gn.gradient(case.unrolled.cost, list(wrt.values()))), strict=True))
    scale = max(np.abs(g).max() for g in gradient.values())
    rng = np.random.default_rng(1)
    for name, g in gradient.items():
        v = rng.normal(size=g.shape)
        moved = dict(zip(states, case.initial, strict=True))
        if name in moved:
            moved[name] = moved[name] + 1j * TINY * v
        along_v = replace(case, initial=list(moved.values()))
        want = along_v.oracle(along(weights, {name: v}), **more).cost.imag / TINY
        assert want != 0, name
        assert abs(np.sum(g * v) - want) <= 1e-11 * max(scale, abs(want)), name


@every_cell
def test_gradient_of_every_cell_matches_the_complex_step(cell: str) -> None:
    check_gradient(make_case(cell, layers=2, time=4))
    check_gradient(make_case(cell, layers=1, time=4, loss="squared", reads="vectors", initial="learned"))


@pytest.mark.parametrize("cell", some_quick(CELLS, DIFFERENT))
def test_rop_and_hessian_product_match_the_complex_step(cell: str) -> None:
    """R of the logits, of the hidden layers and of the cost, and u·Hv, along directions in all parameters.

    v·∇cost is exact by the complex step; how it changes along u, by differences of it of order 8.
    """
    case = make_case(cell, layers=2, time=4, skip=cell.startswith("L"))
    u, parameters, rng = case.unrolled, case.net.parameters, np.random.default_rng(2)
    v = {name: rng.normal(size=p.shape) for name, p in parameters.items()}
    w = {name: rng.normal(size=p.shape) for name, p in parameters.items()}
    size = np.sqrt(sum(np.sum(part**2) for part in w.values()))
    w = {name: part / size for name, part in w.items()}
    tangents = {p: gn.constant(v[name]) for name, p in parameters.items()}
    jv = gn.rop([u.logits, *u.hidden, u.cost], tangents)
    hv = gn.hessian_product(u.cost, tangents)
    got = case.compute([*jv, *hv])

    weights = case.weights()
    moved = case.oracle(along(weights, v))
    for value, want in zip(got, [moved.logits, *moved.hidden, moved.cost], strict=False):
        if np.abs(want.imag).max():  # no parameter lies below the output of an echo-state net
            assert_close(value, want.imag / TINY, 1e-11, f"{case.settings}")
        else:
            assert not value.any()

    def slope(step: float) -> Any:
        shifted = {name: a + step * w[name] if name in w else a for name, a in weights.items()}
        return case.oracle(along(shifted, v)).cost.imag / TINY

    h, order_8 = 0.001, {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
    want = sum(c * (slope(k * h) - slope(-k * h)) for k, c in order_8.items()) / h
    terms = [part * w[name] for name, part in zip(parameters, got[len(jv) :], strict=True)]
    scale = sum(np.abs(term).sum() for term in terms)
    assert abs(want) > 1e-6
    assert abs(sum(term.sum() for term in terms) - want) <= 1e-9 * scale


DROP = 0.4


def test_dropout_masks_are_independent_and_fixed_until_redrawn() -> None:
    """Three layers copy their inputs, h^l = tanh(h^{l−1} ⊙ mask), and are never 0 themselves."""
    units, time, batch = 25, 10, 40
    net = rnn.Network([rnn.Elman(units)] * 3, SYMBOLS, OUTPUTS, dropout=DROP, dtype="float64", seed=3)
    rng = np.random.default_rng(4)
    net.theta[:] = 0
    signs, sizes = rng.choice([-1, 1], (SYMBOLS, units)), rng.uniform(0.3, 0.7, (SYMBOLS, units))
    net.parameters["layer0.W_xh"].value[:] = signs * sizes
    for l in (1, 2):
        net.parameters[f"layer{l}.W_xh"].value[:] = np.eye(units)
    u = net.unroll(time=time, batch=batch, training=True, initial="zero")
    x = rng.integers(SYMBOLS, size=(time, batch))
    f, g = (gn.compile(u.hidden, [u.inputs]) for _ in range(2))
    before = f(x)
    with np.errstate(invalid="ignore"):  # nan where a 0 came in from below
        first, second = (np.arctanh(above) / below for below, above in itertools.pairwise(before))
    known = ~np.isnan(second)  # where the first mask let a value pass
    np.testing.assert_array_equal(known, first != 0)
    for mask in (first, second[known]):
        kept = mask != 0
        assert abs(kept.mean() - (1 - DROP)) < 5 * np.sqrt(DROP * (1 - DROP) / mask.size)
        np.testing.assert_allclose(mask[kept], 1 / (1 - DROP), rtol=1e-12)
    for axis in range(3):  # no axis along which the mask only repeats
        assert (np.diff(first, axis=axis) != 0).any()
    assert (first[known] != second[known]).any()
    for again in (f(x), g(x)):
        assert all(map(np.array_equal, before, again))
    u.random.redraw()
    after = f(x)
    np.testing.assert_array_equal(after[0], before[0])  # below the first mask
    assert all(((now == 0) != (then == 0)).any() for now, then in zip(after[1:], before[1:], strict=True))
    assert all(map(np.array_equal, after, g(x)))


def test_gradient_with_dropout_matches_the_complex_step() -> None:
    for skip in [False, True]:
        with named(skip):
            case = make_case("Elman", layers=2, skip=skip, dropout=DROP)
            net, u = case.net, case.unrolled
            f = gn.compile(u.hidden, [u.inputs, u.targets, *u.initial])
            drawn = net.theta.copy()
            # Made transparent for a moment, to see the mask: layer 1 shows 3 units at a time.
            net.theta[:] = 0
            net.parameters["layer0.b_h"].value[:] = 0.5
            mask = np.ones((5, 3, UNITS[0]))
            for units in ([0, 1, 2], [1, 2, 3]):
                net.parameters["layer1.W_xh"].value[:] = 0
                net.parameters["layer1.W_xh"].value[units, range(3)] = 1
                h0, h1 = f(*case.arrays())
                mask[..., units] = np.arctanh(h1) / h0[..., units]
            net.theta[:] = drawn
            assert (mask == 0).any()
            check_case(case, masks=[mask])
            check_gradient(case, masks=[mask])


def test_no_dropout_in_a_single_layer_or_outside_training() -> None:
    for cell in ["Elman", "LSTMPeephole", "Dense", "NARX", "Bidirectional"]:
        with named(cell):
            check_case(make_case(cell, layers=1, dropout=DROP))  # unrolled for training, yet nothing to drop
            case = make_case(cell, layers=2, dropout=DROP)
            assert np.abs(case.compute([case.unrolled.logits])[0] - case.oracle().logits).max() > 1e-3
            calm = case.net.unroll(time=5, batch=3, training=False)
            check_case(replace(case, unrolled=calm))


def test_highway_dropout_applies_to_t_only() -> None:
    """Suarez 2017, (3): c = 1 − t comes first, then t is dropped, in the small net and in the large one."""
    for hyper, training in itertools.product([False, True], [True, False]):
        with named(hyper, training):
            cell = rnn.cells.RHN(30, depth=1, t_dropout=DROP)
            if hyper:
                cell = rnn.cells.HyperRHN(30, hyper_units=20, depth=1, t_dropout=DROP)
            net = rnn.Network([cell], SYMBOLS, OUTPUTS, dtype="float64")
            u = net.unroll(time=1, batch=8, training=training)
            rng = np.random.default_rng(6)
            symbols = rng.integers(SYMBOLS, size=(1, 8))
            states = [rng.normal(size=s.shape) for s in u.initial]
            after = gn.compile(u.final, [u.inputs, *u.initial])(symbols, *states)
            w = {name.removeprefix("layer0."): p.value for name, p in net.parameters.items()}
            x = np.eye(SYMBOLS)[symbols[0]]
            scales = [1] if not hyper else [after[1] @ w["W_az0"], 1]
            nets = zip(states, after, scales, (("s", ""), ("a", "_a")), strict=False)
            for s, new, scale, (state, suffix) in nets:
                h, t = ((x @ w[f"W_x{k}0{suffix}"] + s @ w[f"W_{state}{k}0{suffix}"]) * scale for k in "ht")
                t = 1 / (1 + np.exp(-t))
                m = (new - (1 - t) * s) / (t * np.tanh(h))  # in s' = (1 − t) s + m t h
                kept = np.abs(m) > 1e-6
                np.testing.assert_allclose(m[kept], 1 / (1 - DROP) if training else 1, rtol=1e-6)
                if training:
                    assert abs(kept.mean() - (1 - DROP)) < 5 * np.sqrt(DROP * (1 - DROP) / m.size)
                    assert (np.diff(kept, axis=0) != 0).any()
                else:
                    assert kept.all()
