"""What stands for the Hessian of losses that are not convex, model by model: dense oracles, and Hessian-free runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.models.energy import RBM, RTRBM, TRBM, ContrastiveDivergence, EnergyModel
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


# -- hidden Markov models --------------------------------------------------------------------------------------------


def markov(initial: str = "pi") -> tuple[rnn.HMM, Any, rnn.Objective, Array, list[Array]]:
    hmm, generator = rnn.HMM(3, 4, seed=1), RNG(3)
    hmm.A, hmm.B = generator.dirichlet(np.full(3, 3.0), 3), generator.dirichlet(np.full(4, 3.0), 3)
    x = generator.integers(0, 4, (5, 2))
    u = hmm.unroll(5, 2, tables="softmax", initial=initial)
    inputs, arrays = [u.symbols], [x]
    parameters = [node for name, node in u.parameters.items() if name != "pi" or initial == "pi"]
    if initial == "given":
        inputs, arrays = [u.symbols, u.initial], [x, np.tile(hmm.pi, (2, 1))]
    objective = rnn.Objective(u.cost, parameters, inputs)
    objective.feed(*arrays)
    return hmm, u, objective, x, arrays


def rows_left(hmm: rnn.HMM, x: Array) -> tuple[Array, Array]:
    """How often each row of A and of B is drawn from, expected given one sequence: over all paths, one by one."""
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


def information(rows: Array, counts: Array) -> Array:
    """count_i (diag(p_i) - p_i p_iᵀ) down the diagonal, p_i the rows."""
    size = rows.shape[1]
    found = np.zeros((rows.size, rows.size))
    for i, (p, n) in enumerate(zip(rows, counts, strict=True)):
        found[i * size : (i + 1) * size, i * size : (i + 1) * size] = n * (np.diag(p) - np.outer(p, p))
    return found


def test_a_hidden_markov_model_has_that_of_expectation_maximisation() -> None:
    """Σ over rows of the tables: expected count · (diag(p) - p pᵀ); it is the likelihood's from above."""
    for initial in ["pi", "given"]:
        with case(initial):
            hmm, u, objective, x, arrays = markov(initial)
            counts = [rows_left(hmm, x[:, lane]) for lane in range(2)]
            of_A, of_B = (sum(found) for found in zip(*counts, strict=True))
            blocks = [information(hmm.pi[None], np.array([2.0]))] if initial == "pi" else []
            blocks += [information(hmm.A, of_A), information(hmm.B, of_B)]
            wanted = np.zeros((objective.size, objective.size))
            start = 0
            for block in blocks:
                wanted[start : start + len(block), start : start + len(block)] = block
                start += len(block)
            w = objective.start()
            G = matrix(objective, w)
            assert pytest.approx(wanted / 10, rel=1e-10, abs=1e-14) == G
            H = jacobian(lambda w: objective.gradient(w)[1], w)
            assert np.linalg.eigvalsh(H).min() < -1e-3
            assert np.linalg.eigvalsh(G - (H + H.T) / 2).min() > -1e-9

            of_lanes = rnn.Objective(
                -gn.sum(u.log_likelihood * np.array([2.0, 0.0])), objective.parameters, objective.inputs
            )
            of_lanes.feed(*arrays)
            first = information(hmm.B, 2 * counts[0][1])
            assert pytest.approx(first, rel=1e-10, abs=1e-14) == matrix(of_lanes, w)[-12:, -12:]


def test_tables_as_free_numbers_have_no_surrogate() -> None:
    u = rnn.HMM(2, 3).unroll(3, 1)
    with pytest.raises(gn.DifferentiationError, match="with_surrogate"):
        gn.gauss_newton_product(u.cost, {u.parameters["A"]: np.ones((2, 2))})


# -- Boltzmann machines ----------------------------------------------------------------------------------------------


def natural(model: EnergyModel, v: Array) -> Callable[[Array], Array]:
    """θ ↦ (rows of v, natural parameters [b_v, b_h, W] of the RBM that judges each), flat."""

    def parameters(w: Array) -> Array:
        model.theta = w
        rows, W = v.reshape(-1, model.visible), model.values["W"]
        b_v, b_h = (
            np.broadcast_to(b, (*v.shape[:-1], b.shape[-1])).reshape(len(rows), -1) for b in model.biases(v)
        )
        return np.concatenate([b_v, b_h, np.tile(W.ravel(), (len(rows), 1))], axis=1).ravel()

    return parameters


def statistics(v: Array, h: Array) -> Array:
    return np.concatenate([v, h, np.outer(v, h).ravel()])


def covariance(b_v: Array, b_h: Array, W: Array) -> Array:
    """Of v, h and v hᵀ in an RBM, over all its states."""
    v, h = (np.array(list(itertools.product([0.0, 1.0], repeat=len(b)))) for b in (b_v, b_h))
    s = np.array([statistics(a, b) for a in v for b in h])
    e = np.exp(np.array([a @ b_v + b @ b_h + a @ W @ b for a in v for b in h]))
    p = e / e.sum()
    centred = s - p @ s
    return centred.T @ (p[:, None] * centred)


def pulled_back(J: Array, of_rows: list[Array]) -> Array:
    """mean over rows of J_nᵀ C_n J_n"""
    pieces = J.reshape(len(of_rows), -1, J.shape[1])
    return sum(j.T @ c @ j for j, c in zip(pieces, of_rows, strict=True)) / len(of_rows)


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


def test_exact_likelihoods_have_the_covariance_of_the_machine() -> None:
    """Jᵀ Cov(v, h, v hᵀ) J, mean over rows; J of W and the biases that the past sets."""
    for make in MODELS.values():
        with case(make):
            model: Any = make()
            v = data(model)
            node = gn.input(v.shape, "float64")
            log_p = model.log_probability(node) if isinstance(model, RBM) else model.log_probabilities(node)
            objective = rnn.Objective(-gn.mean(log_p), model.parameters, [node])
            objective.feed(v)
            w = objective.start()
            found = natural(model, v)(w).reshape(len(v.reshape(-1, 3)), -1)
            machines = [covariance(n[:3], n[3:5], n[5:].reshape(3, 2)) for n in found]
            # The past of a TRBM is data, so its biases move with the weights alone.
            J = _direct(model, v, w) if isinstance(model, TRBM) else jacobian(natural(model, v), w)
            G = matrix(objective, w)
            assert pytest.approx(pulled_back(J, machines), rel=1e-6, abs=1e-8) == G
            assert np.linalg.eigvalsh(G).min() > -1e-12


def _direct(model: Any, v: Array, w: Array) -> Array:
    """J with the inferred past held."""
    model.theta = w
    past = model.infer(v)

    def parameters(w: Array) -> Array:
        model.theta = w
        values = model.values
        before = np.concatenate([np.broadcast_to(values["h_0"], (1, *past.shape[1:])), past[:-1]])
        seen = np.concatenate([np.broadcast_to(values["v_0"], (1, *v.shape[1:])), v[:-1]])
        b_v = values["b_v"] + seen @ values["A_1"]
        b_h = values["b_h"] + before @ values["W'_1"] + seen @ values["W_1"]
        W = np.broadcast_to(values["W"].ravel(), (*v.shape[:2], values["W"].size))
        return np.concatenate([b_v, b_h, W], axis=2).ravel()

    return jacobian(parameters, w)


def of_chains(v_k: Array, b_v: Array, b_h: Array, W: Array) -> Array:
    """The covariance of v, h and v hᵀ with h ~ P(h|v), each v of the chains as probable as the next."""
    found = []
    for v in v_k:
        h = 1 / (1 + np.exp(-(v @ W + b_h)))
        moves = np.concatenate(
            [np.zeros((len(v), len(h))), np.eye(len(h)), np.kron(v[:, None], np.eye(len(h)))]
        )
        found.append((statistics(v, h), moves @ np.diag(h * (1 - h)) @ moves.T))
    means = np.array([mean for mean, _ in found])
    centred = means - means.mean(0)
    return sum(c for _, c in found) / len(found) + centred.T @ centred / len(found)


def test_contrastive_divergence_has_the_covariance_over_its_chains() -> None:
    for chains, make in itertools.product([1, 4], MODELS.values()):
        with case(chains, make):
            model = make()
            v = data(model)
            objective = ContrastiveDivergence(model, 3, chains=chains)
            objective.feed(v)
            w = model.theta.copy() * 0.5
            _, g = objective.gradient(w)
            v_k = objective._held[0]  # type: ignore[index]
            if chains == 1 and len(model.axes) == 3:
                for method in (objective.loss, objective.curvature):
                    with pytest.raises(UsageError, match="chains=10, or take a first-order optimizer"):
                        method(w)
                continue
            found = natural(model, v)(w).reshape(len(v.reshape(-1, 3)), -1)
            ends = v_k.reshape(chains, -1, 3)
            if isinstance(model, RBM):  # one machine, of which all chains tell
                ends = np.broadcast_to(ends.reshape(-1, 1, 3), (ends[..., 0].size, len(found), 3))
            machines = [
                of_chains(ends[:, i], n[:3], n[3:5], n[5:].reshape(3, 2)) for i, n in enumerate(found)
            ]
            J = _direct(model, v, w) if isinstance(model, TRBM) else jacobian(natural(model, v), w)
            G = matrix(objective, w)
            assert pytest.approx(pulled_back(J, machines), rel=1e-6, abs=1e-8) == G
            assert np.linalg.eigvalsh(G).min() > -1e-12
            # The loss of a step: the free energy of the data, with the gradient, and what log Z grows by these chains.
            model.theta = w
            node = gn.input(v.shape, "float64")
            energies = gn.compile([model.energies(node, node)], [node])
            assert objective.loss(w) == pytest.approx(energies(v)[0].mean(), rel=1e-12)
            if not isinstance(
                model, TRBM
            ):  # whose loss moves with the inferred past, which its gradient leaves out
                assert jacobian(lambda w: np.array([objective.loss(w)]), w)[0] == pytest.approx(
                    g, rel=1e-5, abs=1e-8
                )
            further = w + 0.3 * RNG(1).standard_normal(w.size)
            model.theta = w
            before = _free_energies(model, v, ends)
            model.theta = further
            grown = np.log(np.mean(np.exp(before - _free_energies(model, v, ends)), axis=0))
            wanted = np.mean(_free_energies(model, v, v.reshape(1, -1, 3))[0] + grown)
            assert objective.loss(further) == pytest.approx(wanted, rel=1e-10)


def _free_energies(model: EnergyModel, v: Array, x: Array) -> Array:
    """F(x), (chains, rows), in the machines by which the rows of v are judged."""
    b_v, b_h = (b.reshape(-1, b.shape[-1]) for b in model.biases(v))
    return -(x * b_v).sum(-1) - np.log1p(np.exp(x @ model.values["W"] + b_h)).sum(-1)


def test_chains_are_drawn_by_the_gradient_and_held() -> None:
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


def test_hessian_free_climbs_the_likelihood_by_chains(tmp_path: Path) -> None:
    """Cyclic patterns with noise: in 30 steps farther than Adam comes in 300, and it goes on from its state."""
    generator = RNG(0)
    base = generator.random((4, 6)) < 0.5
    times = np.arange(8)[:, None] + generator.integers(0, 4, 20)
    v = base[times % 4] ^ (generator.random((8, 20, 6)) < 0.05)

    def made() -> RTRBM:
        return RTRBM(6, 6, initial={"*": rnn.initializers.normal(0.1)}, seed=1)

    ours, halves, theirs = made(), made(), made()
    optimizer = rnn.HessianFree(cg_steps=20, structural=0.001)
    train(ours, v, optimizer, 30, gibbs_steps=5, chains=10)
    train(halves, v, optimizer, 15, gibbs_steps=5, chains=10, folder=tmp_path / "run")
    train(halves, v, optimizer, 30, gibbs_steps=5, chains=10, folder=tmp_path / "run", resumed=True)
    assert np.array_equal(ours.theta, halves.theta)
    train(theirs, v, rnn.Adam(rate=0.01), 300, gibbs_steps=5)
    assert ours.log_likelihood(v) > theirs.log_likelihood(v) + 0.5 > made().log_likelihood(v) + 5


# -- all of them ------------------------------------------------------------------------------------------------------


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


def test_hessian_free_needs_no_further_argument() -> None:
    for make, units in PROBLEMS.values():
        with case(make, units):
            objective = make()
            before = objective.loss(objective.start())
            result = rnn.minimize(objective, rnn.HessianFree(structural=0.01 if units else 0.0), steps=12)
            assert result.loss < 0.9 * before
            assert all(report.cg_reason != "curvature" for report in result.reports)
            assert sum(report.taken for report in result.reports) > 6


def test_curvature_is_symmetric_and_positive() -> None:
    for make, units in PROBLEMS.values():
        with case(make, units):
            objective = make()
            G = matrix(objective, objective.start())
            assert pytest.approx(G.T, rel=1e-9, abs=1e-15) == G
            assert np.linalg.eigvalsh(G).min() > -1e-13 * np.abs(G).max()
            assert np.abs(G).max() > 1e-4


def test_structural_damping_finds_the_hidden_units() -> None:
    """Σ over units of J_aᵀ e'(a) J_a, the mean over cases; told where there are none."""
    for make, units in PROBLEMS.values():
        with case(make, units):
            objective = make()
            w = objective.start()
            assert sum(a.shape[1] for a, _ in objective.structure) == units
            if not units:
                with pytest.raises(UsageError, match="needs hidden units to damp"):
                    objective.curvature(w, 0.1)
                continue
            pairs = gn.compile([node for pair in objective.structure for node in pair], objective.inputs)

            def inside(w: Array) -> Array:
                objective.set(w)
                return np.concatenate([a.ravel() for a in pairs(*objective.fed)[::2]])

            objective.set(w)
            slopes = np.concatenate(
                [
                    (1 - h**2 if node.op.name == "Tanh" else h * (1 - h)).ravel()
                    for (_, node), h in zip(objective.structure, pairs(*objective.fed)[1::2], strict=True)
                ]
            )
            J, cases = jacobian(inside, w), objective.structure[0][0].shape[0]
            wanted = 0.7 * J.T @ (slopes[:, None] * J) / cases
            found = matrix(objective, w, 0.7) - matrix(objective, w)
            assert pytest.approx(wanted, rel=1e-5, abs=1e-6 * np.abs(wanted).max()) == found
