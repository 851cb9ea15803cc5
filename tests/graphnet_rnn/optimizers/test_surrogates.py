"""Surrogates of the Hessian for non-convex losses, against dense matrices, and Hessian-free runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.models.energy import RBM, RTRBM, TRBM, ContrastiveDivergence, EnergyModel
from tests.graphnet_rnn.cells.test_every_cell import DIFFERENT
from tests.graphnet_rnn.models.trained import train
from tests.tables import case

RNG = np.random.default_rng
LARGE = {"*": rnn.initializers.normal(0.6)}


def matrix(objective: Any, w: Array, structural: float = 0.0) -> Array:
    product = objective.curvature(w, structural)
    return np.stack([product(e) for e in np.eye(w.size)], axis=1)


def jacobian(f: Callable[[Array], Array], w: Array) -> Array:
    """∂f/∂w by central differences, (size of f, parameters)."""
    h = 1e-5
    return np.stack([(f(w + h * e) - f(w - h * e)) / (2 * h) for e in np.eye(w.size)], axis=1)


def markov(initial: str = "pi") -> tuple[rnn.HMM, Any, rnn.Objective, Array]:
    hmm, generator = rnn.HMM(3, 4, seed=1), RNG(3)
    hmm.A, hmm.B = generator.dirichlet(np.full(3, 3.0), 3), generator.dirichlet(np.full(4, 3.0), 3)
    x = generator.integers(0, 4, (5, 2))
    u = hmm.unroll(5, 2, tables="softmax", initial=initial)
    given = initial == "given"
    parameters = [node for name, node in u.parameters.items() if name != "pi" or not given]
    objective = rnn.Objective(u.cost, parameters, [u.symbols, u.initial] if given else [u.symbols])
    objective.feed(x, *([np.tile(hmm.pi, (2, 1))] if given else []))
    return hmm, u, objective, x


def rows_left(hmm: rnn.HMM, x: Array) -> tuple[Array, Array]:
    """Expected number of draws from each row of A and B for one sequence, summed over all paths."""
    of_A, of_B, total = np.zeros(3), np.zeros(3), 0.0
    for path in itertools.product(range(3), repeat=len(x)):
        p = hmm.pi[path[0]] * hmm.B[path[0], x[0]]
        for a, b, symbol in zip(path, path[1:], x[1:], strict=False):
            p *= hmm.A[a, b] * hmm.B[b, symbol]
        total += p
        for i in path:
            of_B[i] += p
        for i in path[:-1]:
            of_A[i] += p
    return of_A / total, of_B / total


def information(*tables: tuple[Array, Array]) -> Array:
    """count_i (diag(p_i) - p_i p_iᵀ) down the diagonal, p_i the rows of the tables."""
    rows = [(p, n) for table, counts in tables for p, n in zip(table, counts, strict=True)]
    return scipy.linalg.block_diag(*(n * (np.diag(p) - np.outer(p, p)) for p, n in rows))


def test_hmm_surrogate_is_the_expected_information() -> None:
    """Σ over rows of the tables: expected count · (diag(p) - p pᵀ), an upper bound."""
    for initial in ["pi", "given"]:
        with case(initial):
            hmm, u, objective, x = markov(initial)
            counts = [rows_left(hmm, x[:, lane]) for lane in range(2)]
            of_A, of_B = (sum(found) for found in zip(*counts, strict=True))
            start = [(hmm.pi[None], np.array([2.0]))] if initial == "pi" else []
            wanted = information(*start, (hmm.A, of_A), (hmm.B, of_B))
            w = objective.start()
            G = matrix(objective, w)
            assert pytest.approx(wanted / 10, rel=1e-10, abs=1e-14) == G
            H = jacobian(lambda w: objective.gradient(w)[1], w)
            assert np.linalg.eigvalsh(H).min() < -1e-3
            assert np.linalg.eigvalsh(G - (H + H.T) / 2).min() > -1e-9

            cost = -gn.sum(u.log_likelihood * np.array([2.0, 0.0]))
            of_lanes = rnn.Objective(cost, objective.parameters, objective.inputs)
            of_lanes.feed(*objective.gradient_batches[0])
            first = information((hmm.B, 2 * counts[0][1]))
            assert pytest.approx(first, rel=1e-10, abs=1e-14) == matrix(of_lanes, w)[-12:, -12:]
    free = rnn.HMM(2, 3).unroll(3, 1)  # tables that are parameters themselves have no surrogate
    with pytest.raises(gn.DifferentiationError, match="with_surrogate"):
        gn.gauss_newton_product(free.cost, {free.parameters["A"]: np.ones((2, 2))})


def natural(model: EnergyModel, v: Array) -> Callable[[Array], Array]:
    """θ ↦ (rows of v, natural parameters [b_v, b_h, W] of the RBM of each row), flat."""

    def parameters(w: Array) -> Array:
        model.theta = w
        rows, W = v.size // model.visible, model.values["W"]
        biases = (np.broadcast_to(b, (*v.shape[:-1], b.shape[-1])).reshape(rows, -1) for b in model.biases(v))
        return np.concatenate([*biases, np.tile(W.ravel(), (rows, 1))], axis=1).ravel()

    return parameters


def covariance(b_v: Array, b_h: Array, W: Array) -> Array:
    """Covariance of v, h and v hᵀ in an RBM, over all its states."""
    v, h = (np.array(list(itertools.product([0.0, 1.0], repeat=len(b)))) for b in (b_v, b_h))
    s = np.array([[*a, *b, *np.outer(a, b).ravel()] for a in v for b in h])
    e = np.exp(s @ np.concatenate([b_v, b_h, W.ravel()]))
    p = e / e.sum()
    centred = s - p @ s
    return centred.T @ (p[:, None] * centred)


MODELS: dict[str, Callable[[], EnergyModel]] = {
    "RTRBM": lambda: RTRBM(3, 2, dtype="float64", initial=LARGE),
    "RTRBM, all connections": lambda: RTRBM(3, 2, connections=("HH", "VV", "VH"), dtype="float64", initial=LARGE),
    "TRBM": lambda: TRBM(3, 2, dtype="float64", initial=LARGE),
    "RBM": lambda: RBM(3, 2, dtype="float64", initial=LARGE),
}  # fmt: skip


def data(model: EnergyModel, *shape: int, seed: int = 0) -> Array:
    """Bits (time, batch, visible), or (cases, visible)."""
    shape = shape or ((3, 2) if len(model.axes) == 3 else (4,))
    return RNG(seed).integers(0, 2, (*shape, model.visible)).astype(model.dtype)


def pulled_back(model: Any, v: Array, w: Array, covariance_of: Callable[..., Array]) -> Array:
    """mean over rows of J_nᵀ C_n J_n, J of W and the biases that the past sets; the past of a TRBM is data."""
    found = natural(model, v)(w).reshape(v.size // 3, -1)
    covariances = [covariance_of(i, n[:3], n[3:5], n[5:].reshape(3, 2)) for i, n in enumerate(found)]
    J = _direct(model, v, w) if isinstance(model, TRBM) else jacobian(natural(model, v), w)
    pieces = zip(J.reshape(*found.shape, -1), covariances, strict=True)
    return np.mean([j.T @ c @ j for j, c in pieces], axis=0)


def test_likelihood_surrogate_is_the_model_covariance() -> None:
    """Jᵀ Cov(v, h, v hᵀ) J, mean over rows."""
    for name, make in MODELS.items():
        with case(name):
            model: Any = make()
            v = data(model)
            node = gn.input(v.shape, "float64")
            log_p = model.log_probability(node) if isinstance(model, RBM) else model.log_probabilities(node)
            objective = rnn.Objective(-gn.mean(log_p), model.parameters, [node])
            objective.feed(v)
            w = objective.start()
            wanted = pulled_back(model, v, w, lambda i, *machine: covariance(*machine))
            G = matrix(objective, w)
            assert pytest.approx(wanted, rel=1e-6, abs=1e-8) == G
            assert np.linalg.eigvalsh(G).min() > -1e-12


def _direct(model: Any, v: Array, w: Array) -> Array:
    """J with the inferred past held."""
    model.theta = w
    past = model.infer(v)

    def parameters(w: Array) -> Array:
        model.theta = w
        p = model.values
        before = np.concatenate([np.broadcast_to(p["h_0"], (1, *past.shape[1:])), past[:-1]])
        seen = np.concatenate([np.broadcast_to(p["v_0"], (1, *v.shape[1:])), v[:-1]])
        b_v, b_h = p["b_v"] + seen @ p["A_1"], p["b_h"] + before @ p["W'_1"] + seen @ p["W_1"]
        W = np.broadcast_to(p["W"].ravel(), (*v.shape[:2], p["W"].size))
        return np.concatenate([b_v, b_h, W], axis=2).ravel()

    return jacobian(parameters, w)


def of_chains(v_k: Array, b_v: Array, b_h: Array, W: Array) -> Array:
    """The covariance of v, h and v hᵀ with h ~ P(h|v), each v of the chains as probable as the next."""
    within, means = [], []
    for v in v_k:
        h = 1 / (1 + np.exp(-(v @ W + b_h)))
        moves = np.concatenate(
            [np.zeros((len(v), len(h))), np.eye(len(h)), np.kron(v[:, None], np.eye(len(h)))]
        )
        within.append(moves @ np.diag(h * (1 - h)) @ moves.T)
        means.append(np.concatenate([v, h, np.outer(v, h).ravel()]))
    centred = np.array(means) - np.mean(means, axis=0)
    return sum(within) / len(within) + centred.T @ centred / len(within)


def test_contrastive_divergence_surrogate_is_the_chain_covariance() -> None:
    for chains, (name, make) in itertools.product([1, 4], MODELS.items()):
        with case(chains, name):
            model = make()
            v = data(model)
            objective = ContrastiveDivergence(model, 3, chains=chains)
            objective.feed(v)
            w = model.theta.copy() * 0.5
            _, g = objective.gradient(w)
            if chains == 1 and len(model.axes) == 3:
                for method in (objective.loss, objective.curvature):
                    with pytest.raises(UsageError, match="chains=10, or a first-order optimizer"):
                        method(w)
                continue
            ends = objective._held[0].reshape(chains, -1, 3)
            if isinstance(model, RBM):  # one RBM, shared by all chains
                ends = np.broadcast_to(ends.reshape(-1, 1, 3), (ends[..., 0].size, v.size // 3, 3))
            wanted = pulled_back(model, v, w, lambda i, *machine: of_chains(ends[:, i], *machine))
            G = matrix(objective, w)
            assert pytest.approx(wanted, rel=1e-6, abs=1e-8) == G
            assert np.linalg.eigvalsh(G).min() > -1e-12
            # The loss is the free energy of the data plus, at other weights, the change of log Z.
            model.theta = w
            node = gn.input(v.shape, "float64")
            energies = gn.compile([model.energies(node, node)], [node])
            assert objective.loss(w) == pytest.approx(energies(v)[0].mean(), rel=1e-12)
            if not isinstance(model, TRBM):  # its gradient leaves out the change of the inferred past
                slope = jacobian(lambda w: np.array([objective.loss(w)]), w)[0]
                assert slope == pytest.approx(g, rel=1e-5, abs=1e-8)
            further = w + 0.3 * RNG(1).standard_normal(w.size)
            model.theta = w
            before = _free_energies(model, v, ends)
            model.theta = further
            grown = np.log(np.mean(np.exp(before - _free_energies(model, v, ends)), axis=0))
            wanted = np.mean(_free_energies(model, v, v.reshape(1, -1, 3))[0] + grown)
            assert objective.loss(further) == pytest.approx(wanted, rel=1e-10)


def _free_energies(model: EnergyModel, v: Array, x: Array) -> Array:
    """F(x), (chains, rows), in the RBMs of the rows of v."""
    b_v, b_h = (b.reshape(-1, b.shape[-1]) for b in model.biases(v))
    return -(x * b_v).sum(-1) - np.log1p(np.exp(x @ model.values["W"] + b_h)).sum(-1)


def test_chains_are_drawn_by_gradient_and_kept() -> None:
    model = RBM(3, 2, dtype="float64", initial=LARGE)
    objective = ContrastiveDivergence(model)
    objective.feed(data(model))
    w = objective.start()
    for method in (objective.loss, objective.curvature):
        with pytest.raises(UsageError, match=r"call gradient\(w\) first"):
            method(w)
    objective.gradient(w)
    here, there = objective.loss(w), objective.loss(w + 0.5)
    assert (objective.loss(w), objective.loss(w + 0.5)) == (here, there)
    objective.gradient(w)
    assert objective.loss(w) == pytest.approx(here), "that of the data alone"
    assert objective.loss(w + 0.5) != there
    objective.feed(data(model, seed=1))
    with pytest.raises(UsageError, match=r"call gradient\(w\) first"):
        objective.loss(w)
    v, v_k = gn.input((2, 3), "float64"), gn.input((5, 2, 3), "float64")
    with pytest.raises(UsageError, match="need reference="):
        model.divergence(v, v_k)


def test_hessian_free_raises_the_likelihood_with_chains() -> None:
    """With noisy cyclic patterns, 30 steps beat 300 steps of Adam."""
    generator = RNG(0)
    base = generator.random((4, 6)) < 0.5
    times = np.arange(8)[:, None] + generator.integers(0, 4, 20)
    v = base[times % 4] ^ (generator.random((8, 20, 6)) < 0.05)
    fresh, ours, theirs = (RTRBM(6, 6, initial={"*": rnn.initializers.normal(0.1)}, seed=1) for _ in range(3))
    train(ours, v, rnn.HessianFree(cg_steps=20, structural=0.001), 30, gibbs_steps=5, chains=10)
    train(theirs, v, rnn.Adam(rate=0.01), 300, gibbs_steps=5)
    assert ours.log_likelihood(v) > theirs.log_likelihood(v) + 0.5 > fresh.log_likelihood(v) + 5


def spelling() -> rnn.Objective:
    net = rnn.Network([rnn.Elman(5)], 3, 4, loss="ctc", seed=1, dtype="float64")
    u = net.unroll(time=8, batch=4, initial="zero", labels=3)
    objective = rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets])
    targets = np.array([[0, 1, -1], [2, 1, 0], [1, -1, -1], [2, 0, -1]])
    objective.feed(RNG(0).standard_normal((8, 4, 3)), targets)
    return objective


def remembering() -> rnn.Objective:
    model = RTRBM(3, 3, dtype="float64", initial=LARGE)
    v = gn.input((5, 6, 3), "float64")
    objective = rnn.Objective(-gn.mean(model.log_probabilities(v)), model.parameters, [v])
    objective.feed(data(model, 5, 6))
    return objective


def reaching() -> rnn.Objective:
    controller = rnn.control.Controller([rnn.Elman(4), rnn.Elman(3)], dtype="float64")
    return rnn.control.CenterOut(controller, directions=4, time=10).objective()


PROBLEMS: dict[str, tuple[Callable[[], rnn.Objective], int]] = {
    "CTC": (spelling, 5 * 8),
    "HMM": (lambda: markov()[2], 0),
    "RTRBM": (remembering, 3 * 4),  # the last step's hidden units have no future
    "closed loop": (reaching, 7 * 10),
}


def test_hessian_free_learns_with_structural_damping() -> None:
    """Structural damping is the mean over cases of Σ J_aᵀ e'(a) J_a; an error without hidden units."""
    for name, (make, units) in PROBLEMS.items():
        with case(name):
            result = rnn.minimize(make(), rnn.HessianFree(structural=0.01 if units else 0.0), steps=12)
            assert result.loss < 0.9 * result.reports[0].loss
            assert all(report.cg_reason != "curvature" for report in result.reports)
            assert sum(report.taken for report in result.reports) > 6
            objective = make()
            w = objective.start()
            G = matrix(objective, w)
            assert pytest.approx(G.T, rel=1e-9, abs=1e-15) == G
            assert np.linalg.eigvalsh(G).min() > -1e-13 * np.abs(G).max()
            assert np.abs(G).max() > 1e-4
            assert sum(a.shape[1] for a, _ in objective.structure) == units
            if not units:
                with pytest.raises(UsageError, match="needs hidden units to damp"):
                    objective.curvature(w, 0.1)
                continue
            pairs = gn.compile([node for pair in objective.structure for node in pair], objective.inputs)

            def both(w: Array) -> list[Array]:
                objective.set(w)
                return list(pairs(*objective.gradient_batches[0]))

            slopes = [
                1 - h**2 if node.op.name == "Tanh" else h * (1 - h)
                for (_, node), h in zip(objective.structure, both(w)[1::2], strict=True)
            ]
            J = jacobian(lambda w: np.concatenate([a.ravel() for a in both(w)[::2]]), w)
            bend = np.concatenate([slope.ravel() for slope in slopes])[:, None]
            wanted = 0.7 * J.T @ (bend * J) / objective.structure[0][0].shape[0]
            found = matrix(objective, w, 0.7) - G
            assert pytest.approx(wanted, rel=1e-5, abs=1e-6 * np.abs(wanted).max()) == found


class Repeating(rnn.Cell):
    """h' = tanh(a) ⊙ σ(tanh(a)), a = x W_xh + h W_hh + b_h, which is computed twice"""

    states = (rnn.State("h"),)

    def step(self, x, h):
        squashed = gn.tanh(gn.label(self.affine("h", x=x, h=h), "a"))
        return gn.tanh(self.affine("h", x=x, h=h)) * gn.sigmoid(squashed)


#: Cells, wrapped cells and settings of unrolling; some compute units twice.
STRUCTURES: dict[str, tuple[list[rnn.Cell], dict[str, Any]]] = {
    **{name: ([cell().resized(2)], {}) for name, cell in rnn.cells.ALL.items()},
    "Repeating": ([Repeating(2)], {}),
    "Residual(GLNN)": ([rnn.Residual(rnn.GLNN(2))], {}),
    "Normalized(Repeating)": ([rnn.Normalized(Repeating(2))], {}),
    "Hyper(Repeating)": ([rnn.Hyper(Repeating(2), Repeating(2))], {}),
    "Bidirectional(GLNN, Repeating)": ([rnn.Bidirectional(rnn.GLNN(2), Repeating(2))], {}),
    "skip": ([rnn.GLNN(2), Repeating(2)], {"skip": True}),
    "dropout": ([rnn.GLNN(2), Repeating(2)], {"dropout": 0.5, "recurrent_dropout": 0.5}),
    "shared": ([rnn.GLNN(3), rnn.GLNN(3)], {"share": {1: 0}}),
    "learned": ([rnn.GLNN(2)], {"initial_state": "learned"}),
}


QUICK = [name for name in STRUCTURES if name not in rnn.cells.ALL or name in DIFFERENT]


@pytest.mark.parametrize(
    "names", [QUICK, pytest.param(STRUCTURES, marks=pytest.mark.slow)], ids=["few", "all"]
)
def test_each_unit_is_damped_once(names: list[str]) -> None:
    """uᵀ G_s v = Σ over units of R_u{a} e'(a) R_v{a} / batch, by differences; equal units count once."""
    for name in names:
        with case(name):
            cells, settings = STRUCTURES[name]
            network = rnn.Network(cells, 3, 3, dtype="float64", **settings)
            generator = np.random.default_rng(1)
            network.theta = 0.5 * generator.standard_normal(network.theta.shape)
            time, batch = 2, 2
            u = network.unroll(time, batch)
            fed = [u.inputs, u.targets, *u.initial]
            symbols = generator.integers(0, 3, (2, time, batch))
            arrays = [*symbols, *(generator.random(s.shape) for s in u.initial)]
            objective = rnn.Objective(
                u.cost, network.parameters, fed, structure=u.structure, structure_scale=3.0, random=u.random
            )
            objective.feed(*arrays)
            w, v = objective.start(), generator.standard_normal((2, objective.size))
            if not u.structure:  # a layer without tanh and σ
                with pytest.raises(UsageError, match="needs hidden units to damp"):
                    objective.curvature(w, 0.5)
                continue
            damped, plain = objective.curvature(w, 0.5), objective.curvature(w)
            found = [damped(row) - plain(row) for row in v]

            activations = [n for n in gn.Graph([u.cost]).order if n.op.name in ("Tanh", "Sigmoid")]
            units = [n for n in activations if "cell" in n.scope]
            values = gn.compile(units, fed)(*arrays)
            distinct = {(n.op.name, value.tobytes()): n for n, value in zip(units, values, strict=True)}
            assert len(u.structure) == len(distinct)
            nodes = [node for h in distinct.values() for node in (h.inputs[0], h)]
            measured = gn.compile(nodes, fed)
            moved = []
            for row in 1e-6 * v:
                ends = []
                for network.theta in (w + row, w - row):
                    ends.append(list(measured(*arrays)))
                moved.append([(plus - minus) / 2e-6 for plus, minus in zip(*ends, strict=True)])
            for i, j in itertools.product(range(2), repeat=2):
                pairs = zip(moved[i][::2], moved[j][1::2], strict=True)  # e'(a) R_v{a} = R_v{h}
                expected = 0.5 * 3.0 * sum(float((a * h).sum()) for a, h in pairs) / batch
                assert v[i] @ found[j] == pytest.approx(expected, rel=1e-5, abs=1e-8)
