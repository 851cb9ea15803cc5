"""Moduli by definition, eq. 24 and random signs; Kronecker factors against dense ones and curvlinops."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet.ops.elementwise import Elementwise
from graphnet_rnn.errors import UsageError
from graphnet_rnn.riemannian import metrics, moduli
from graphnet_rnn.riemannian.groups import unit_groups
from graphnet_rnn.riemannian.kronecker import KroneckerFactors, KroneckerOverTime, KroneckerSymmetric
from graphnet_rnn.riemannian.losses import Losses
from graphnet_rnn.riemannian.over_cost import OverCost
from graphnet_rnn.riemannian.rows import Rows
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


def unrolled(cells: Sequence[Any], time: int, batch: int, **how: Any) -> Any:
    net = rnn.Network(list(cells), 3, 3, dtype="float64", seed=2, **how)
    net.theta = 0.6 * np.random.default_rng(0).standard_normal(net.theta.size)
    return net.unroll(time, batch, initial="zero")


def drawn(u: Any) -> tuple[Array, Array]:
    """Inputs and targets."""
    generator = np.random.default_rng(1)
    symbols = u.network.reads == "symbols"
    x = generator.integers(0, 3, u.inputs.shape) if symbols else generator.standard_normal(u.inputs.shape)
    t = u.targets
    return x, generator.integers(0, 3, t.shape) if t.dtype.kind == "i" else generator.random(t.shape)


def parts(cost: gn.Node, parameters: Any) -> tuple[Losses, list[Any], list[Any]]:
    """Returns the outputs of the network, the groups of hidden units, and the groups of output units."""
    outputs, groups = Losses(cost), unit_groups(cost, parameters)
    judged = [group for group in groups if outputs.is_output(group)]
    return outputs, [group for group in groups if group not in judged], judged


def parts_of(u: Any) -> tuple[Losses, list[Any], list[Any]]:
    return parts(u.cost, u.network.parameters.values())


def moduli_and_slopes(metric: metrics.Metric) -> tuple[Array, Array]:
    """m and B of 3 Elman units, (4 steps, 2 cases, 3 units): m by the metric, B by NumPy."""
    u = unrolled([rnn.Elman(3)], 4, 2)
    (m,) = metric.moduli(*parts_of(u), gn.RandomSource(0))
    x, t = drawn(u)
    W_xh, W_hh, b_h, W_ho, b_o = (node.value for node in u.network.parameters.values())
    h = [np.zeros((2, 3))]
    for symbols in x:
        h.append(np.tanh(W_xh[symbols] + h[-1] @ W_hh + b_h))
    B, later = np.zeros((4, 2, 3)), np.zeros((2, 3))
    for k in reversed(range(4)):
        p = np.exp(h[k + 1] @ W_ho + b_o)
        judged = p / p.sum(axis=1, keepdims=True) - np.eye(3)[t[k]]
        B[k] = (judged @ W_ho.T + later) * (1 - h[k + 1] ** 2)
        later = B[k] @ W_hh.T
    return np.array(gn.compile(m, [u.inputs, u.targets])(x, t)), B


def test_outer_product() -> None:
    m, B = moduli_and_slopes(metrics.OuterProduct())
    np.testing.assert_allclose(m, B**2, rtol=1e-9)


def test_weights_are_derivatives_between_units() -> None:
    any_loss = [
        [rnn.Elman(4), rnn.Elman(2)], [rnn.GRU(3), rnn.Elman(2)], [rnn.GraphRNN(4, edges=3)], [rnn.LSTM(3)],
        [rnn.LSTMPeephole(3)], [Twice(3)], [Leaky(3)],
    ]  # fmt: skip
    symbols = [[rnn.GLNN(4, edges=3)], [rnn.TensorRNN(4)]]  # a vector chooses no weight of a symbol
    cases = [*itertools.product(any_loss, ("softmax", "sigmoid", "squared"))]
    for layers, loss in [*cases, *itertools.product(symbols, ["softmax"])]:
        with case(layers, loss):
            u = unrolled(layers, 4, 2, loss=loss)
            outputs, hidden, judged = parts_of(u)
            defined = [node for some in moduli.exact(outputs, hidden) for node in some]
            nodes = [node for some in moduli.structured(outputs, hidden, judged) for node in some]
            found = gn.compile([*defined, *nodes], [u.inputs, u.targets], backend="numpy")(*drawn(u))
            for a, b in zip(found[: len(defined)], found[len(defined) :], strict=True):
                np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-13)
                assert (a >= 0).all()
            assert any(a.max() > 1e-3 for a in found[: len(defined)])


def test_random_sign_estimates_are_unbiased() -> None:
    """Estimates for 6,000 copies of a case, each with its own signs: their mean is the exact value."""
    cells = [(rnn.LSTM(3), "softmax"), (rnn.RHN(3, depth=2), "sigmoid"), (rnn.LayerNormLSTM(3), "squared")]
    for cell, loss in cells:
        with case(cell):
            count = 6_000
            few, many = (unrolled([cell], 3, batch, loss=loss) for batch in (1, count))
            x, t = drawn(few)
            exact = moduli.exact(*parts_of(few)[:2])
            probed = moduli.probed(*parts_of(many)[:2], gn.RandomSource(3))
            defined, estimates = (
                gn.compile([node for some in nodes for node in some], [u.inputs, u.targets])(*arrays)
                for u, nodes, arrays in (
                    (few, exact, (x, t)),
                    (many, probed, (np.repeat(x, count, 1), np.repeat(t, count, 1))),
                )
            )
            for estimate, expected in zip(estimates, defined, strict=True):
                # Standard error of the mean of the estimates.
                error = np.sqrt(estimate.var(axis=0) / count)
                assert (np.abs(estimate.mean(axis=0) - expected[0]) <= 5 * error + 1e-9).all()


W_0, O_0, X_0, T_0 = np.random.default_rng(0).standard_normal((4, 3, 3))
MASK = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
#: Argument of a loss -> (node from z = tanh(x W) O and h, slope by hand from z's slope J, (rows, units, y)).
JUDGED: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Array, Array], Array]]] = {
    "z": (lambda z, h: z, lambda z, J: J),
    "-2 z": (lambda z, h: -2 * z, lambda z, J: -2 * J),
    "tanh z": (lambda z, h: gn.tanh(z), lambda z, J: (1 - np.tanh(z) ** 2)[:, None] * J),
    "a masked z": (lambda z, h: z * gn.constant(MASK), lambda z, J: MASK[:, None] * J),
    "z + h": (lambda z, h: z + h, lambda z, J: J + (1 - np.tanh(X_0 @ W_0) ** 2)[:, :, None] * np.eye(3)),
    "z of a stack": (lambda z, h: gn.stack([z, h])[0], lambda z, J: J),
    "z, reshaped": (lambda z, h: gn.reshape(z, (3, 1, 3)), lambda z, J: J),
    "z, transposed": (lambda z, h: gn.transpose(z), lambda z, J: J),
    "z, taken": (lambda z, h: gn.take(z, np.arange(3)), lambda z, J: J),
    "z, joined": (lambda z, h: gn.concatenate([z[:1], z[1:]], 0), lambda z, J: J),
}


def test_moduli_match_hand_computed_values_or_raise_errors() -> None:
    """Each estimate equals m̃ = ½ Σ_y (∂o_y/∂V_i)² H_yy, by hand, or raises an error."""
    for judged, (write, slope) in JUDGED.items():
        W, O = gn.parameter(W_0, name="W"), gn.parameter(O_0, name="O")
        h = gn.tanh(gn.constant(X_0) @ W)
        o = write(h @ O, h)
        target = T_0.T if judged == "z, transposed" else T_0
        cost = gn.sum(gn.squared_error(o, gn.constant(target.reshape(o.shape))))
        a = np.tanh(X_0 @ W_0)
        expected = 2 * (slope(a @ O_0, (1 - a**2)[:, :, None] * O_0) ** 2).sum(axis=2)
        outputs, hidden, last = parts(cost, [W, O])
        assert bool(last) == (judged in ("z", "-2 z", "z of a stack", "z + h"))
        random = gn.RandomSource(0)
        estimates = {
            "structured": functools.partial(moduli.structured, outputs, hidden, last),
            "exact": functools.partial(moduli.exact, outputs, hidden),
            "probe": functools.partial(moduli.probed, outputs, hidden, random),
        }
        refused = {"tanh z": ["structured"], "a masked z": ["structured"]}
        if judged.startswith("z, "):
            refused[judged] = ["structured", "exact"]
        for estimate, make in estimates.items():
            with case(judged, estimate):
                if estimate in refused.get(judged, ()):
                    with pytest.raises(UsageError, match=r"a loss reads .*use estimate='probe'"):
                        make()
                    continue
                function = gn.compile([make()[0][0]], [], backend="numpy")
                if estimate != "probe":
                    np.testing.assert_allclose(function()[0], expected, rtol=1e-10)
                    continue
                found = []
                for random.draw in range(600):
                    found.append(function()[0])
                mean = np.mean(found, axis=0)
                np.testing.assert_allclose(mean, expected, rtol=0.35, atol=0.05 * expected.max())


def test_derivatives_and_losses_of_one_unit_are_summed() -> None:
    """o = tanh(V) A - 2 sin(V) B: derivatives are summed before squaring, losses after."""
    W, A, B = gn.parameter(W_0, name="W"), gn.parameter(O_0, name="A"), gn.parameter(X_0, name="B")
    V, t = gn.constant(X_0) @ W, gn.constant(T_0)
    o = gn.tanh(V) @ A - 2 * (gn.sin(V) @ B)
    v = X_0 @ W_0
    slope = (1 - np.tanh(v) ** 2)[:, :, None] * O_0 - 2 * np.cos(v)[:, :, None] * X_0
    for double in (False, True):
        cost = gn.sum(gn.squared_error(o, t)) + (gn.sum(gn.squared_error(o, -t)) if double else 0.0)
        outputs, hidden, last = parts(cost, [W, A, B])
        assert [len(hidden), len(last)] == [1, 1]
        nodes = [moduli.structured(outputs, hidden, last)[0][0], moduli.exact(outputs, hidden)[0][0]]
        nodes.append(outputs.curvature(last[0].pre_activations)[0])
        found = gn.compile(nodes, [], backend="numpy")()
        for each in found[:2]:
            np.testing.assert_allclose(each, (4 if double else 2) * (slope**2).sum(axis=2), rtol=1e-12)
        np.testing.assert_allclose(found[2], 4.0 if double else 2.0)


def test_unscored_steps_do_not_change_the_update() -> None:
    """Only the last step is scored: by a slice, `unscored`, or zero weights."""
    for metric in ["ruop", "qdruop", "kfac", "rms", "frequency", "rbpm", "qdrbpm_probed"]:
        with case(metric):
            net = rnn.Network([rnn.Elman(4)], 3, 3, dtype="float64", seed=1)
            x, t = np.random.default_rng(0).integers(0, 3, (2, 5, 6))
            other = np.concatenate([(t[:-1] + 1) % 3, t[-1:]])
            u, cut = (net.unroll(5, 6, initial="zero", unscored=unscored) for unscored in (0, 4))
            last, weights = gn.input((6,), "int64"), np.zeros((5, 6))
            weights[-1] = 1 / 6
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
                _, g, numbers = objective.metric(objective.start(), metric)
                steps.append(objective.metric_solver(metric, "all", numbers)(g))
            if "probed" in metric or metric == "kfac":  # random draws differ for other shapes
                steps = steps[2:]
            for step in steps[1:]:
                np.testing.assert_allclose(step, steps[0], rtol=1e-9, atol=1e-12)


class Quartic(Elementwise):
    """C = (z - t)⁴: a loss that does not say its Hessian"""

    kernel, arity, domain = "(x - y) * (x - y) * (x - y) * (x - y)", 2, "float"
    judged_input = 0

    def forward(self, z, t):
        return np.asarray((z - t) ** 4)

    def partials(self, C, z, t):
        slope = 4 * (z - t) ** 3
        return slope, -slope


def test_networks_without_moduli_are_rejected() -> None:
    with pytest.raises(UsageError, match=r"mixes units between two pre-activations.*estimate='probe'"):
        moduli.structured(*parts_of(unrolled([rnn.LayerNormLSTM(3)], 3, 2)))
    u = rnn.Network([rnn.Elman(3)], 3, 3, "ctc").unroll(5, 2, labels=2)
    with pytest.raises(UsageError, match=r"only that of a surrogate.*outputs='same'"):
        Losses(u.cost).roots(gn.RandomSource(0))
    with pytest.raises(UsageError, match=r"only that of a surrogate.*Kronecker\(sampled=False\)"):
        moduli.structured(*parts_of(u))
    with pytest.raises(UsageError, match="has no loss"):
        Losses(gn.mean(u.logits))
    x, t = gn.input((5, 3), "float64"), gn.input((5, 2), "float64")
    outputs = Losses(gn.mean(Quartic()(x @ gn.parameter(np.ones((3, 2)), name="W"), t)))
    with pytest.raises(UsageError, match=r"give its op curvature_diagonal"):
        outputs.roots(gn.RandomSource(0))


TIME, BATCH = 5, 30


def values(u: Any, nodes: list[gn.Node]) -> list[Array]:
    return [np.asarray(a) for a in gn.compile(nodes, [u.inputs, u.targets])(*drawn(u))]


def test_steps_match_the_dense_matrix() -> None:
    """M of a group sums the covariances of all pairs of steps, by powers of the transition matrix."""
    u = unrolled([rnn.Elman(2)], TIME, BATCH)
    groups = unit_groups(u.cost, u.network.parameters.values())
    slopes = moduli.slopes(Losses(u.cost), groups)
    for kind, (group, B) in itertools.product(
        [KroneckerFactors, KroneckerSymmetric, KroneckerOverTime], zip(groups, slopes, strict=True)
    ):
        with case(kind, group):
            rows = Rows(group, B)
            block = kind(rows)
            numbers = values(u, block.nodes())
            m, *sources = values(u, [rows.m, *rows.sources])
            S, count, epsilon = np.concatenate(sources, axis=1), TIME * BATCH, 0.05
            A, G = S.T @ S / count, m.T @ m
            pi = np.sqrt((np.trace(A) / len(A)) / (np.trace(G) / len(G)))
            A = A + pi * np.sqrt(epsilon * count) * np.eye(len(A))
            G = G + np.sqrt(epsilon * count) / pi * np.eye(len(G))
            M = first = np.kron(A, G)
            if kind is not KroneckerFactors:
                lags = S[:-BATCH].T @ S[BATCH:] / count, m[:-BATCH].T @ m[BATCH:]
                factors = zip((A, G), lags, strict=True)
                carried = np.kron(*(_white(x, lag, kind is KroneckerSymmetric) for x, lag in factors))
                for _ in range(400):
                    first = carried @ first
                    M = M + first + first.T
            g = [np.random.default_rng(3).standard_normal(each.weight.shape) for each in group.incoming]
            solved = block.solver(numbers, epsilon)(g)
            whole, step = (np.concatenate([np.atleast_2d(a) for a in each]).ravel() for each in (g, solved))
            np.testing.assert_allclose(step, np.linalg.solve(M, whole), rtol=1e-6, atol=1e-9)


def _white(M: Array, lag: Array, symmetric: bool) -> Array:
    """Matrix that maps a step to the next one; if symmetric, symmetrized in a basis in which M = 1."""
    if not symmetric:
        return lag.T @ np.linalg.inv(M)
    spectrum, vectors = np.linalg.eigh(M)
    root, inverse = (vectors * spectrum**p @ vectors.T for p in (0.5, -0.5))
    white = inverse @ lag.T @ inverse
    return root @ (white + white.T) / 2 @ inverse


def test_drawn_slopes_have_the_covariance_of_the_fisher_metric() -> None:
    """Without recurrence, the mean over draws equals the Gauss-Newton matrix of each pre-activation."""
    net = rnn.Network([rnn.Dense(2)], 3, 3, dtype="float64", seed=2)
    u = net.unroll(1, 1)
    groups, random = unit_groups(u.cost, net.parameters.values()), gn.RandomSource(0)
    ((B,), _) = moduli.drawn_slopes(Losses(u.cost), groups, random)
    given, V = np.array([[1]]), groups[0].pre_activations[0].V
    units = [gn.gauss_newton_product(u.cost, {V: gn.constant(unit[None])})[0] for unit in np.eye(2)]
    wanted = [np.asarray(row)[0] for row in gn.compile(units, [u.inputs, u.targets])(given, given)]
    function, draws = gn.compile([B], [u.inputs, u.targets]), []
    for _ in range(4000):
        random.redraw()
        draws.append(np.asarray(function(given, given)[0])[0])
    found = np.cov(np.array(draws).T, bias=True)
    np.testing.assert_allclose(found, np.array(wanted), atol=0.1 * np.abs(wanted).max())


def test_groups_without_factors_use_a_diagonal() -> None:
    """Σ S² B² over cases and steps with the damping of a mean, for groups without Kronecker factors."""
    for cell in [rnn.GLNN(3), rnn.LSTMPeephole(3)]:
        with case(cell):
            u = unrolled([cell], TIME, BATCH)
            parameters = list(u.network.parameters.values())
            over = OverCost(metrics.Kronecker(damping=0.25, sampled=False), u.cost, parameters)
            undamped = metrics.OuterProduct("diagonal", "same", damping=0.0)
            squares = OverCost(undamped, u.cost, parameters)
            g = {p: np.random.default_rng(1).standard_normal(p.shape) for p in parameters}
            numbers = (np.concatenate(values(u, each.nodes())) for each in (over, squares))
            found, plain = (each.solver(a)(g) for each, a in zip((over, squares), numbers, strict=True))
            groups = [block.group for block in over.blocks if not KroneckerFactors.has_factors(block.group)]
            assert groups
            for group in groups:
                # Of steps at which a change counts: a forget gate before a state of 0 is none.
                slopes = values(u, moduli.slopes(Losses(u.cost), [group])[0])
                rows = sum(int(np.any(b != 0, axis=1).sum()) for b in slopes)
                for w in (incoming.weight for incoming in group.incoming):
                    seen = plain[w] != 0
                    M = g[w][seen] / plain[w][seen]  # of the mean cost
                    expected = g[w][seen] / (M + 0.25 * rows / u.losses.size)
                    np.testing.assert_allclose(found[w][seen], expected, rtol=1e-8)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_steps_in_a_feed_forward_net_match_curvlinops() -> None:
    torch, curvlinops = pytest.importorskip("torch"), pytest.importorskip("curvlinops")
    draws = np.random.default_rng(0)
    sizes = list(itertools.pairwise((4, 6, 5, 3)))
    arrays = [(draws.standard_normal((n, m)) / 2, draws.standard_normal(m) / 2) for n, m in sizes]
    x, y = draws.standard_normal((50, 4)), draws.integers(0, 3, 50)

    layers: list[Any] = []
    parameters = []
    h = given = gn.input(x.shape, "float64", name="x")
    for i, (W, b) in enumerate(arrays):
        parameters += [gn.parameter(W, f"W{i}"), gn.parameter(b, f"b{i}")]
        a = h @ parameters[-2] + parameters[-1]
        h = gn.tanh(a)
        linear = torch.nn.Linear(*W.shape, dtype=torch.float64)
        with torch.no_grad():
            linear.weight.copy_(torch.as_tensor(W.T))
            linear.bias.copy_(torch.as_tensor(b))
        layers += [linear, torch.nn.Tanh()]
    targets = gn.input(y.shape, "int64", name="y")
    objective = rnn.Objective(gn.mean(gn.softmax_cross_entropy(a, targets)), parameters, [given, targets])
    objective.feed(x, y)
    metric = metrics.Kronecker(damping=0.0, sampled=False)
    _, g, numbers = objective.metric(objective.start(), metric)

    net, loss = torch.nn.Sequential(*layers[:-1]), torch.nn.CrossEntropyLoss()
    data, weights = (torch.as_tensor(x), torch.as_tensor(y)), list(net.parameters())
    slopes = torch.autograd.grad(loss(net(data[0]), data[1]), weights)
    how = {"fisher_type": "empirical", "separate_weight_and_bias": False}
    kfac = curvlinops.KFACLinearOperator(net, loss, weights, [data], **how)
    flat = lambda tensors: np.concatenate([s.detach().numpy().T.ravel() for s in tensors])
    np.testing.assert_allclose(flat(slopes), g, rtol=1e-9, atol=1e-14)
    for damping in [1e-3, 0.1]:
        inverse = curvlinops.KFACInverseLinearOperator(kfac, damping, use_heuristic_damping=True)
        step = objective.metric_solver(metric, "all", numbers, damping)(g)
        np.testing.assert_allclose(step, flat(inverse @ list(slopes)), rtol=1e-8)
