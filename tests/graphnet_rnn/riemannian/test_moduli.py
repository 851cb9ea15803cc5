"""Moduli by their definition, by eq. 24 and by random signs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array, Node
from graphnet.ops.elementwise import Elementwise
from graphnet_rnn.errors import UsageError
from graphnet_rnn.riemannian import moduli
from graphnet_rnn.riemannian.groups import unit_groups
from tests.tables import case


class Twice(rnn.Cell):
    """V = x W_xa - c W_ca + h W_ha + b_a;  h' = tanh V, c' = sin V: each unit reaches the next by two weights."""

    states = (rnn.State("h"), rnn.State("c"))

    def step(self, x: Any, h: Any, c: Any) -> Any:
        V = self.affine("a", x=x, h=h) - self.affine("a", c=c, bias=None)
        return gn.tanh(V), gn.sin(V)


class Leaky(rnn.Cell):
    """a' = a + 0.3 (x W_xa + tanh(a) W_ha + b_a - a) + w_a ∘ a, h' = tanh a': a scaled sum, a leak, a diagonal."""

    states = (rnn.State("h"), rnn.State("a"))

    def step(self, x: Any, h: Any, a: Any) -> Any:
        a = a + 0.3 * (self.affine("a", x=x, h=gn.tanh(a)) - a) - self.diagonal("a", a=a)
        return gn.tanh(a), a


STRUCTURED: dict[str, Callable[[], Any]] = {
    "Elman": lambda: rnn.Elman(4),
    "GraphRNN": lambda: rnn.GraphRNN(4, edges=3),
    "GLNN": lambda: rnn.GLNN(4, edges=3),
    "TensorRNN": lambda: rnn.TensorRNN(4),
    "LSTM": lambda: rnn.LSTM(3),
    "LSTMPeephole": lambda: rnn.LSTMPeephole(3),
    "GRU": lambda: rnn.GRU(3),
    "twice": lambda: Twice(3),
    "leaky": lambda: Leaky(3),
}


def unrolled(cells: Sequence[Any], time: int, batch: int, **how: Any) -> Any:
    net = rnn.Network(list(cells), 3, 3, dtype="float64", seed=2, **how)
    net.theta = 0.6 * np.random.default_rng(0).standard_normal(net.theta.size)
    return net.unroll(time, batch, initial="zero")


def values(u: Any, nodes: Sequence[Sequence[gn.Node]]) -> list[Array]:
    flat = [node for some in nodes for node in some]
    function = gn.compile(flat, [u.inputs, u.targets], backend="numpy")
    return [np.asarray(a) for a in function(*drawn(u))]


def drawn(u: Any) -> tuple[Array, Array]:
    """Inputs and targets."""
    generator = np.random.default_rng(1)
    symbols = u.network.reads == "symbols"
    x = generator.integers(0, 3, u.inputs.shape) if symbols else generator.standard_normal(u.inputs.shape)
    t = u.targets
    return x, generator.integers(0, 3, t.shape) if t.dtype.kind == "i" else generator.random(t.shape)


def parts(u: Any) -> tuple[moduli.Outputs, list[Any], list[Any]]:
    outputs = moduli.Outputs(u.cost)
    groups = unit_groups(u.cost, u.network.parameters.values())
    judged = [group for group in groups if outputs.is_output(group)]
    return outputs, [group for group in groups if group not in judged], judged


#: A vector chooses no weight of a symbol.
CASES = [
    (name, loss)
    for name in STRUCTURED
    for loss in ("softmax", "sigmoid", "squared")
    if loss == "softmax" or name not in ("GLNN", "TensorRNN")
]


def test_weights_are_derivatives_from_unit_to_unit() -> None:
    for name, loss in CASES:
        with case(name, loss):
            layers = [STRUCTURED[name](), rnn.Elman(2)] if name in ("Elman", "GRU") else [STRUCTURED[name]()]
            u = unrolled(layers, 4, 2, loss=loss)
            outputs, hidden, judged = parts(u)
            defined = moduli.exact(outputs, hidden)
            count = sum(len(each) for each in defined)
            found = values(u, [*defined, *moduli.structured(outputs, hidden, judged)])
            for a, b in zip(found[:count], found[count:], strict=True):
                np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-13)
                assert (a >= 0).all()
            assert any(a.max() > 1e-3 for a in found[:count])


def test_random_signs_estimate_it_without_bias() -> None:
    """A case that is there 6,000 times, each with signs of its own."""
    for cell, loss in [
        (rnn.LSTM(3), "softmax"),
        (rnn.RHN(3, depth=2), "sigmoid"),
        (rnn.LayerNormLSTM(3), "squared"),
    ]:
        with case(cell, loss):
            count = 6_000
            few, many = (unrolled([cell], 3, batch, loss=loss) for batch in (1, count))
            outputs, hidden, _ = parts(few)
            defined = values(few, moduli.exact(outputs, hidden))
            outputs, hidden, _ = parts(many)
            nodes = [node for some in moduli.probed(outputs, hidden, gn.RandomSource(3)) for node in some]
            function = gn.compile(nodes, [many.inputs, many.targets])
            x, t = drawn(few)
            estimates = function(np.repeat(x, count, 1), np.repeat(t, count, 1))
            for estimate, expected in zip(estimates, defined, strict=True):
                # Of a mean over so many the error is some hundredth of the deviation.
                error = np.sqrt(estimate.var(axis=0) / count)
                assert (np.abs(estimate.mean(axis=0) - expected[0]) <= 5 * error + 1e-9).all()


def test_outputs_that_read_a_unit_twice() -> None:
    """o = tanh(V) A + sin(V) B: derivatives add up before they are squared."""
    draws = np.random.default_rng(0)
    W, A, B = (gn.parameter(draws.standard_normal((3, 3)), name=name) for name in "WAB")
    x, t = gn.input((4, 3), "float64"), gn.input((4, 3), "float64")
    V = x @ W
    cost = gn.sum(gn.squared_error(gn.tanh(V) @ A - 2 * (gn.sin(V) @ B), t))
    outputs, groups = moduli.Outputs(cost), unit_groups(cost, [W, A, B])
    judged = [group for group in groups if outputs.is_output(group)]
    hidden = [group for group in groups if group not in judged]
    assert [len(hidden), len(judged)] == [1, 1]
    nodes = [moduli.structured(outputs, hidden, judged)[0][0], moduli.exact(outputs, hidden)[0][0]]
    given = draws.standard_normal((4, 3)), draws.standard_normal((4, 3))
    found, defined = gn.compile(nodes, [x, t], backend="numpy")(*given)
    v = given[0] @ W.value
    slope = (1 - np.tanh(v) ** 2)[:, :, None] * A.value - 2 * np.cos(v)[:, :, None] * B.value
    np.testing.assert_allclose(found, 2 * (slope**2).sum(axis=2), rtol=1e-12)
    np.testing.assert_allclose(defined, found, rtol=1e-12)


DRAWN = np.random.default_rng(0)
W_0, O_0, X_0, T_0 = (DRAWN.standard_normal((3, 3)) for _ in range(4))
MASK = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
#: What a loss judges of z = tanh(x W) O and h: the node, and by hand m̃ of the hidden units, ½ Σ_y (∂o_y/∂V_i)² H_yy.
JUDGED: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Array, Array], Array]]] = {
    "z": (lambda z, h: z, lambda z, J: J),
    "-2 z": (lambda z, h: -2 * z, lambda z, J: -2 * J),
    "tanh z": (lambda z, h: gn.tanh(z), lambda z, J: (1 - np.tanh(z) ** 2)[:, None] * J),
    "a masked z": (lambda z, h: z * gn.constant(MASK), lambda z, J: MASK[:, None] * J),
    "z + h": (lambda z, h: z + h, lambda z, J: J),
    "z of a stack": (lambda z, h: gn.stack([z, h])[0], lambda z, J: J),
    "z, reshaped": (lambda z, h: gn.reshape(z, (3, 1, 3)), lambda z, J: J),
    "z, transposed": (lambda z, h: gn.transpose(z), lambda z, J: J),
    "z, taken": (lambda z, h: gn.take(z, np.arange(3)), lambda z, J: J),
    "z, joined": (lambda z, h: gn.concatenate([z[:1], z[1:]], 0), lambda z, J: J),
}


def test_whatever_a_loss_judges_is_right_or_refused() -> None:
    """Each estimate that gives a number gives the definition's, computed by hand."""
    for judged, estimate in itertools.product(JUDGED, ["structured", "exact", "probe"]):
        with case(judged, estimate):
            write, slope = JUDGED[judged]
            W, O = gn.parameter(W_0, name="W"), gn.parameter(O_0, name="O")
            h = gn.tanh(gn.constant(X_0) @ W)
            o = write(h @ O, h)
            target = T_0.T if judged == "z, transposed" else T_0
            cost = gn.sum(gn.squared_error(o, gn.constant(target.reshape(o.shape))))
            a = np.tanh(X_0 @ W_0)
            through = (1 - a**2)[:, :, None] * O_0  # ∂z_y/∂V_i
            if judged == "z + h":
                through = (1 - a**2)[:, :, None] * (O_0 + np.eye(3))
            expected = 2 * (slope(a @ O_0, through) ** 2).sum(axis=2)
            outputs, groups = moduli.Outputs(cost), unit_groups(cost, [W, O])
            last = [group for group in groups if outputs.is_output(group)]
            hidden = [group for group in groups if group not in last]
            if judged == "z + h":
                assert last, "the sum is one pre-activation"
            elif judged not in ("z", "-2 z", "z of a stack"):
                assert not last
            random = gn.RandomSource(0)
            make: dict[str, Callable[[], Any]] = {
                "structured": lambda: moduli.structured(outputs, hidden, last),
                "exact": lambda: moduli.exact(outputs, hidden),
                "probe": lambda: moduli.probed(outputs, hidden, random),
            }
            moved = judged.startswith("z, ")
            if (moved and estimate != "probe") or (
                estimate == "structured" and judged in ("tanh z", "a masked z")
            ):
                with pytest.raises(UsageError, match=r"a loss judges .*use estimate='probe'"):
                    make[estimate]()
                continue
            m = make[estimate]()[0][0]
            function = gn.compile([m], [], backend="numpy")
            if estimate != "probe":
                np.testing.assert_allclose(function()[0], expected, rtol=1e-10)
                continue
            found = []
            for draw in range(600):
                random.draw = draw
                found.append(function()[0])
            np.testing.assert_allclose(
                np.mean(found, axis=0), expected, rtol=0.35, atol=0.05 * expected.max()
            )


def test_two_losses_of_one_node_add_up() -> None:
    for double in (False, True):
        W, O = gn.parameter(W_0, name="W"), gn.parameter(O_0, name="O")
        z = gn.tanh(gn.constant(X_0) @ W) @ O
        t = gn.constant(T_0)
        cost = gn.sum(gn.squared_error(z, t)) + (gn.sum(gn.squared_error(z, -t)) if double else 0.0)
        outputs, groups = moduli.Outputs(cost), unit_groups(cost, [W, O])
        last = [group for group in groups if outputs.is_output(group)]
        hidden = [group for group in groups if group not in last]
        nodes = [
            moduli.structured(outputs, hidden, last)[0][0],
            moduli.exact(outputs, hidden)[0][0],
            outputs.curvature(last[0].pre_activations)[0],
        ]
        found = gn.compile(nodes, [], backend="numpy")()
        a = np.tanh(X_0 @ W_0)
        expected = (4 if double else 2) * (((1 - a**2)[:, :, None] * O_0) ** 2).sum(axis=2)
        for each in found[:2]:
            np.testing.assert_allclose(each, expected, rtol=1e-12)
        np.testing.assert_allclose(found[2], 4.0 if double else 2.0)


def test_what_is_not_scored_changes_no_step() -> None:
    """The last step alone: by a slice, by `unscored`, and with other numbers in steps of no weight."""
    for metric in ["ruop", "qdruop", "kfac", "rms", "frequency", "rbpm", "qdrbpm_probed"]:
        with case(metric):
            net = rnn.Network([rnn.Elman(4)], 3, 3, dtype="float64", seed=1)
            x, t, other = (np.random.default_rng(0).integers(0, 3, (5, 6)) for _ in range(3))
            other = (t + 1) % 3
            other[-1] = t[-1]
            u, cut, last = (
                net.unroll(5, 6, initial="zero"),
                net.unroll(5, 6, initial="zero", unscored=4),
                gn.input((6,), "int64"),
            )
            weights = gn.constant(np.repeat([[0.0], [1.0 / 6]], [4, 1], axis=0) * np.ones((5, 6)))
            masked = gn.sum(gn.softmax_cross_entropy(u.logits, u.targets) * weights)
            steps = []
            for cost, inputs, arrays in (
                (cut.cost, [cut.inputs, cut.targets], (x, t)),
                (gn.mean(gn.softmax_cross_entropy(u.logits[-1], last)), [u.inputs, last], (x, t[-1])),
                (masked, [u.inputs, u.targets], (x, t)),
                (masked, [u.inputs, u.targets], (x, other)),
            ):
                objective = rnn.Objective(cost, net.parameters, inputs)
                objective.feed(*arrays)
                _, g, numbers = objective.metric(objective.start(), metric)  # type: ignore[arg-type]
                steps.append(objective.metric_solver(metric, "all", numbers)(g))  # type: ignore[arg-type]
            if "probed" in metric or metric == "kfac":  # other draws, where there are other shapes
                steps = steps[2:]
            for step in steps[1:]:
                np.testing.assert_allclose(step, steps[0], rtol=1e-9, atol=1e-12)


def test_a_net_that_mixes_units_says_so() -> None:
    u = unrolled([rnn.LayerNormLSTM(3)], 3, 2)
    outputs, hidden, judged = parts(u)
    with pytest.raises(UsageError, match=r"mixes units between two pre-activations.*estimate='probe'"):
        moduli.structured(outputs, hidden, judged)


def test_a_loss_without_hessian_says_so() -> None:
    u = rnn.Network([rnn.Elman(3)], 3, 3, "ctc").unroll(5, 2, labels=2)
    outputs = moduli.Outputs(u.cost)
    with pytest.raises(UsageError, match=r"does not say its Hessian, a surrogate does.*outputs='same'"):
        outputs.roots(gn.RandomSource(0))
    with pytest.raises(UsageError, match="has no loss, so it is not known where the net ends"):
        moduli.Outputs(gn.mean(u.logits))


def test_a_loss_of_ones_own_says_its_hessian_or_is_refused() -> None:
    """As an op, which the metric asks by name; slopes alone need nothing of it."""

    class Quartic(Elementwise):
        """C = (z - t)⁴"""

        kernel, arity, domain = "(x - y) * (x - y) * (x - y) * (x - y)", 2, "float"
        judged_input: ClassVar[int | None] = 0

        def forward(self, z: Array, t: Array) -> Array:
            return np.asarray((z - t) ** 4)

        def partials(self, C: Node, z: Node, t: Node) -> tuple[Node, Node]:
            slope = 4 * (z - t) ** 3
            return slope, -slope

    x, t = gn.input((5, 3), "float64"), gn.input((5, 2), "float64")
    W = gn.parameter(np.ones((3, 2)), name="W")
    outputs = moduli.Outputs(gn.mean(Quartic()(x @ W, t)))
    with pytest.raises(UsageError, match=r"does not say its Hessian: give its op curvature_diagonal"):
        outputs.roots(gn.RandomSource(0))
