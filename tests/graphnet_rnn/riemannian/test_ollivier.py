"""The oracle against itself: gradients, moduli and metrics = differences of its forward pass; invariance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

from tests.graphnet_rnn.riemannian import ollivier as o

Array = o.Array
Kind = Literal["RNN", "GNN", "GLNN"]
KINDS: list[Kind] = ["RNN", "GNN", "GLNN"]
SPARSE = [(1, 1), (2, 2), (1, 2), (3, 1), (2, 3)]  # unit 3 without a loop
A, T, STEP = 3, 9, 1e-6


class Case:
    """A net with parameters, a sequence and weights drawn at random; forward, B, m̃ of it."""

    def __init__(
        self, kind: Kind, edges: list[tuple[int, int]] | None = None, N: int = 3, T: int = T
    ) -> None:
        rng = np.random.default_rng(5)
        self.net = o.Net(kind, N, A, SPARSE if edges is None else edges)
        self.p = o.zeros(self.net)
        for keys in o.blocks(self.net).values():
            for name, index in keys:
                self.p[name][index] = 0.6 * rng.standard_normal()
        self.p["w"] = rng.standard_normal((N + 1, A))
        self.p["V0"][1:] = rng.standard_normal(N)
        self.x = rng.integers(A, size=T)
        self.chi = np.where(rng.random(T) < 0.3, 0.0, rng.uniform(0.5, 1.5, T))
        self.run = o.forward(self.net, self.p, self.x, self.chi)
        self.B = o.backward(self.net, self.p, self.run)

    def log_likelihood(self, name: str, index: tuple[int, ...], step: float) -> float:
        """The log-likelihood with one parameter moved."""
        p = self.p | {name: self.p[name].copy()}
        p[name][index] += step
        return o.forward(self.net, p, self.x, self.chi).log_likelihood


def difference(f: Callable[[float], Any], step: float = STEP) -> Any:
    """(f(ε) − f(−ε)) / 2ε"""
    return (f(step) - f(-step)) / (2 * step)


def random(*shape: int, seed: int = 3) -> Array:
    return np.random.default_rng(seed).random(shape)


@pytest.fixture(scope="module", params=KINDS)
def case(request: pytest.FixtureRequest) -> Case:
    return Case(request.param)


def test_log_likelihood_is_of_a_distribution_over_sequences(case: Case) -> None:
    total = sum(
        np.exp(o.forward(case.net, case.p, np.array(x), np.ones(3)).log_likelihood)
        for x in np.ndindex((A,) * 3)
    )
    assert total == pytest.approx(1, abs=1e-12)


def test_forward_by_hand() -> None:
    """One unit, two symbols; (8), (10), (13), (6) written out."""
    bias, carried = 0.3, 0.5 * np.tanh(0.2)
    values: dict[Kind, float] = {
        "RNN": 0.7 + bias + carried,
        "GNN": bias + carried,
        "GLNN": 0.2 + bias + carried,
    }
    for kind, expected in values.items():
        net = o.Net(kind, 1, 2, [(1, 1)])
        p = o.zeros(net)
        p["V0"][1] = 0.2
        p["tau"][0, 1] += 0.3 if kind == "RNN" else np.array([9, 0.3])
        p["tau"][1, 1] += 0.5 if kind == "RNN" else np.array([9, 0.5])
        if kind == "RNN":
            p["rho"][1] = [9, 0.7]
        p["w"] = np.array([[0.1, 0.0], [0.0, 2.0]])
        run = o.forward(net, p, [1, 0], np.array([1.0, 1.0]))
        assert run.V[1, 1] == pytest.approx(expected, abs=1e-15)
        odds = [np.exp(2 * np.tanh(v) - 0.1) for v in (0.2, expected)]  # π(1) / π(0)
        assert run.pi[:, 1] == pytest.approx([r / (1 + r) for r in odds], abs=1e-15)
        assert run.log_likelihood == pytest.approx(np.log(run.pi[0, 1]) + np.log(run.pi[1, 0]), abs=1e-15)


def test_gradients_are_differences(case: Case) -> None:
    W = o.writing_gradient(case.net, case.run)
    for index in np.ndindex(W.shape):
        assert W[index] == pytest.approx(difference(lambda e: case.log_likelihood("w", index, e)), abs=1e-8)
    G = o.transition_gradient(case.net, case.run, case.B)
    keys = [key for keys in o.blocks(case.net).values() for key in keys] + [
        ("V0", (j,)) for j in case.net.units
    ]
    for name, index in keys:
        expected = difference(lambda e: case.log_likelihood(name, index, e))
        assert G[name][index] == pytest.approx(expected, abs=1e-8), (name, index)
        G[name][index] = 0
    assert not any(value.any() for value in G.values()), "a gradient where there is no parameter"


def test_backpropagated_values_are_differences(case: Case) -> None:
    for t in range(T):
        for i in case.net.units:
            push = np.zeros((T, case.net.N + 1))
            push[t, i] = 1
            expected = difference(
                lambda e: o.forward(case.net, case.p, case.x, case.chi, e * push).log_likelihood
            )
            assert case.B[t, i] == pytest.approx(expected, abs=1e-8)


def test_modulus_is_pulled_back_step_by_step(case: Case) -> None:
    """(63) with ∂V^{t+1}/∂V^t, and the Fisher norm of δπ as in (45), by differences."""
    net, p, run = case.net, case.p, case.run
    m = o.rbpm(net, p, run)
    assert not m[T].any()
    for t in range(T):
        for i in net.units:
            unit = np.eye(net.N + 1)[i]
            dV = difference(lambda e: o.next_V(net, p, run.V[t] + e * unit, int(case.x[t])))
            dpi = difference(lambda e: o.write(p, o.activities(net, run.V[t] + e * unit)))
            expected = case.chi[t] * np.sum(dpi**2 / run.pi[t]) + np.sum(dV[1:] ** 2 * m[t + 1, 1:])
            assert m[t, i] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_modulus_of_a_lone_unit_is_the_fisher_metric(kind: Kind) -> None:
    """With one unit there is one path from (i, t) to any π, so m̃^t = Σ_{t'≥t} χ_t' E (∂ log π_t' / ∂V^t)²."""
    case = Case(kind, [(1, 1)], N=1)
    m = o.rbpm(case.net, case.p, case.run)
    for t in range(T):
        push = np.zeros((T, 2))
        push[t, 1] = 1
        dpi = difference(lambda e: o.forward(case.net, case.p, case.x, case.chi, e * push).pi)
        assert m[t, 1] == pytest.approx(np.sum(case.chi @ (dpi**2 / case.run.pi)), abs=1e-8)


def test_metric_is_the_sum_of_outer_products(case: Case) -> None:
    """(55) = (67) with ∂V_j^{t+1}/∂θ^t by differences of one transition; no ε."""
    net, run = case.net, case.run
    m = o.rbpm(net, case.p, run)
    for (j, *_), keys in o.blocks(net).items():
        expected = np.zeros((len(keys), len(keys)))
        for t in range(T):
            moved = np.zeros(len(keys))
            for k, (name, index) in enumerate(keys):

                def V(e: float, name: str = name, index: tuple[int, ...] = index, t: int = t) -> Array:
                    p = case.p | {name: case.p[name].copy()}
                    p[name][index] += e
                    return o.next_V(net, p, run.V[t], int(case.x[t]))

                d = difference(V)
                moved[k] = d[j]
                assert np.flatnonzero(np.abs(d) > 1e-12).tolist() in ([], [j]), "not a parameter of unit j"
            expected += m[t + 1, j] * np.outer(moved, moved)
        assert o.metric(net, run, m, j, keys, eps=0) == pytest.approx(expected, abs=1e-8)
        assert np.diag(o.metric(net, run, m, j, keys, eps=2)) == pytest.approx(
            np.diag(expected) + 2, abs=1e-8
        )


def test_ruop_is_the_outer_product_of_the_terms_of_the_gradient(case: Case) -> None:
    for (j, *_), keys in o.blocks(case.net).items():
        terms = np.array([o.signal(case.net, case.run, key) * case.B[1:, j] for key in keys])
        block = o.metric(case.net, case.run, o.ruop(case.B), j, keys, eps=0)
        assert block == pytest.approx(terms @ terms.T, abs=1e-12)
        assert o.gradient_of(case.net, case.run, case.B, j, keys) == pytest.approx(terms.sum(1), abs=1e-12)


def test_hessian_is_that_of_the_log_likelihood(case: Case) -> None:
    eps_y = np.array([0.5, 1.0, 2.0])
    diagonal, cross = o.hessian(case.net, case.run, eps_y)

    def W(e: float, i: int, y: int) -> Array:
        p = case.p | {"w": case.p["w"].copy()}
        p["w"][i, y] += e
        return o.writing_gradient(case.net, o.forward(case.net, p, case.x, case.chi))

    for i in range(case.net.N + 1):
        for y in range(A):
            H = -difference(lambda e: W(e, i, y))[:, y]
            assert diagonal[i, y] == pytest.approx(H[i] + eps_y[y], abs=1e-8)
            assert cross[i, y] == pytest.approx(H[0], abs=1e-8)


def test_quasi_diagonal_is_exact_where_the_others_are_orthogonal() -> None:
    """Orthogonal given the bias: M_kl = M_0k M_0l / M_00. Then quasi-diagonal = full."""
    rng = np.random.default_rng(1)
    for n in (1, 2, 5):
        cross = rng.standard_normal(n)
        cross[0] = 1.7
        M = np.outer(cross, cross) / cross[0] + np.diag([0, *rng.uniform(1, 2, n - 1)])
        G = rng.standard_normal(n)
        assert o.quasi_diagonal(G, np.diag(M), M[0]) == pytest.approx(o.full(G, M), abs=1e-12)


def test_directions_solve_for_the_gradient(case: Case) -> None:
    """M̃ δ = G of each block; quasi-diagonal: of each M̃ with the entries it does not read made those of above."""
    net, run, eps = case.net, case.run, 0.3
    for method, m in [("RUOP", o.ruop(case.B)), ("RBPM", o.rbpm(net, case.p, run))]:
        for way in ("", "QD"):
            d = o.transition_direction(net, case.p, run, way + method, eps)  # type: ignore[arg-type]
            for (j, *_), keys in o.blocks(net).items():
                block = o.metric(net, run, m, j, keys, eps)
                if way == "QD":
                    diagonal = np.diag(block).copy()
                    block = np.outer(block[0], block[0]) / block[0, 0]
                    np.fill_diagonal(block, diagonal)
                solved = [d[name][index] for name, index in keys]
                assert block @ solved == pytest.approx(o.gradient_of(net, run, case.B, j, keys), abs=1e-10)
            assert d["V0"][1:] == pytest.approx(case.B[0, 1:] / (m[0, 1:] + eps), rel=1e-12)


def test_writing_directions(case: Case) -> None:
    eps_y = o.damping_of_writing(case.x, A)
    assert eps_y == pytest.approx([np.mean(case.x == y) for y in range(A)], abs=1e-15)
    assert o.damping_of_writing([0], A)[1] == np.finfo(float).eps
    W = o.writing_gradient(case.net, case.run)
    diagonal, cross = o.hessian(case.net, case.run, eps_y)
    assert o.writing_direction(case.net, case.run, "plain", eps_y) == pytest.approx(W)
    assert o.writing_direction(case.net, case.run, "DH", eps_y) == pytest.approx(W / diagonal)
    d = o.writing_direction(case.net, case.run, "QDH", eps_y)
    for y in range(A):
        for i in case.net.units:
            pair = np.array([[diagonal[0, y], cross[i, y]], [cross[i, y], diagonal[i, y]]])
            assert d[i, y] == pytest.approx(np.linalg.solve(pair, W[[0, i], y])[1], rel=1e-10)
        assert diagonal[0, y] * d[0, y] + cross[1:, y] @ d[1:, y] == pytest.approx(W[0, y], rel=1e-10)


# ---- invariance (3.6) --------------------------------------------------------------------------------------


def logistic_twin(net: o.Net, p: o.Params) -> tuple[o.Net, o.Params]:
    """The same net with σ for tanh: σ(V) = (1 + tanh(V/2)) / 2, so V is doubled and a = 2 a_σ − 1."""
    q = {name: value.copy() for name, value in p.items()}
    q["V0"] = 2 * p["V0"]
    q["w"][1:] = 2 * p["w"][1:]
    q["w"][0] = p["w"][0] - p["w"][1:].sum(axis=0)
    q["tau"][1:] = 4 * p["tau"][1:]
    q["tau"][0] = 2 * (p["tau"][0] - p["tau"][1:].sum(axis=0))
    if "rho" in p:
        q["rho"] = 2 * p["rho"]
    return replace(net, s="logistic"), q


@pytest.mark.parametrize(
    ("kind", "transition", "invariant"),
    [
        ("GLNN", "RUOP", True),
        ("GLNN", "RBPM", True),
        ("GLNN", "QDRBPM", True),
        ("GNN", "RBPM", True),
        ("GNN", "QDRUOP", True),
        ("RNN", "QDRUOP", True),
        ("RNN", "QDRBPM", True),
        ("GNN", "FB", False),
        ("GLNN", "RMS", False),
    ],
)
def test_tanh_and_logistic_learn_the_same(kind: Kind, transition: o.Transition, invariant: bool) -> None:
    """ "Exactly invariant under affine reparametrizations [...] (such as changing sigmoid into tanh)" """
    case = Case(kind, T=30)
    eps_y = np.zeros(A)

    def learn(net: o.Net, p: o.Params) -> o.Params:
        for _ in range(2):
            run = o.forward(net, p, case.x, case.chi)
            p = p | {"w": p["w"] + 0.2 * o.writing_direction(net, run, "QDH", eps_y)}
            d = o.transition_direction(net, p, o.forward(net, p, case.x, case.chi), transition, eps=0)
            p = p | {name: p[name] + 0.05 * value for name, value in d.items()}
        return p

    twin, q = logistic_twin(case.net, case.p)
    assert o.forward(twin, q, case.x, case.chi).log_likelihood == pytest.approx(
        case.run.log_likelihood, abs=1e-12
    )
    p, q = learn(case.net, case.p), learn(twin, q)
    _, expected = logistic_twin(case.net, p)
    same = all(np.allclose(q[name], expected[name], rtol=1e-7, atol=1e-9) for name in q)
    assert same == invariant
    assert all(np.abs(p[name] - case.p[name]).max() > 1e-3 for name in p), "nothing was learnt"


# ---- baselines, initial parameters, training, validation ---------------------------------------------------


def test_baselines_divide_the_gradient(case: Case) -> None:
    net, run = case.net, case.run
    G = o.transition_direction(net, case.p, run, "plain")
    FB = o.transition_direction(net, case.p, run, "FB")
    RMS = o.transition_direction(net, case.p, run, "RMS")
    counts = [np.sum(case.x == y) for y in range(A)]
    assert min(counts) > 0
    for (j, *_), keys in o.blocks(net).items():
        for name, index in keys:
            per_symbol = name == "rho" or net.kind != "RNN"
            factor = T / counts[index[-1]] if per_symbol else 1
            assert FB[name][index] == pytest.approx(G[name][index] * factor, rel=1e-12)
            terms = o.signal(net, run, (name, index)) * case.B[1:, j]
            assert RMS[name][index] == pytest.approx(terms.sum() / np.sqrt((terms**2).mean()), rel=1e-10)
    assert all((d["V0"] == G["V0"]).all() for d in (FB, RMS))
    FB = o.transition_direction(net, case.p, run, "FB", start="symbol")
    RMS = o.transition_direction(net, case.p, run, "RMS", start="symbol")
    assert FB["V0"] == pytest.approx(T * G["V0"])
    assert RMS["V0"] == pytest.approx(np.sqrt(T) * np.sign(G["V0"]))


@pytest.mark.parametrize("kind", KINDS)
def test_initial_model_is_of_the_frequencies(kind: Kind) -> None:
    case = Case(kind)
    case.x[:3] = range(A)
    case.chi[:3] = 1
    p = o.initial(case.net, case.x, case.chi, random(4, A))
    run = o.forward(case.net, p, case.x, case.chi)
    for t in range(T):
        assert run.pi[t] == pytest.approx(o.predicted_frequencies(case.x, case.chi, A), abs=1e-14)


def test_initial_glnn_remembers_for_as_long_as_its_number() -> None:
    """(72), (75): around its fixed point V̄, δV_j^{t+1} = (1 − μ_j) δV_j^t with μ_j = 1/(j+1)."""
    net = o.Net("GLNN", 5, A, o.full_graph(5))
    p = o.initial(net, [0, 1, 2, 2], np.ones(4), np.zeros((6, A)))  # u = 0: no signal
    assert o.next_V(net, p, p["V0"], 0) == pytest.approx(p["V0"], abs=1e-12)
    for j in net.units:
        d = difference(lambda e: o.next_V(net, p, p["V0"] + e * np.eye(6)[j], 0))
        assert d[j] == pytest.approx(1 - 1 / (j + 1), abs=1e-8)
    p = o.initial(net, [0, 1, 2, 2], np.ones(4), random(6, A))
    for j in net.units:
        apart = (random(6, A)[j, 1] - random(6, A)[j, 0]) / (j + 1) / 4
        assert p["tau"][0, j, 1] - p["tau"][0, j, 0] == pytest.approx(apart, abs=1e-14)
    signal = (p["tau"][0] @ [0.25, 0.25, 0.5])[1:]  # Σ_y ν̃_y τ_0jy = β_j
    assert signal == pytest.approx(np.tanh(p["V0"][1:]) / 2, abs=1e-14)


def test_initial_rnn_decays_with_its_number() -> None:
    net = o.Net("RNN", 4, A, o.full_graph(4))
    p = o.initial(net, [0, 1, 2, 2], np.ones(4), random(5, A))
    assert p["tau"] == pytest.approx(np.diag([0, 0, 1 / 2, 2 / 3, 3 / 4]))
    assert p["rho"] @ [0.25, 0.25, 0.5] == pytest.approx(np.zeros(5), abs=1e-15)
    assert p["rho"][1, 1] - p["rho"][1, 0] == pytest.approx((random(5, A)[1, 1] - random(5, A)[1, 0]) / 2)


def test_initial_gnn_is_the_initial_rnn() -> None:
    x = np.array([0, 1, 2, 2, 0])
    values = []
    for kind in KINDS[:2]:
        net = o.Net(kind, 4, A, o.full_graph(4))
        values.append(o.forward(net, o.initial(net, x, np.ones(5), random(5, A)), x, np.ones(5)).V)
    assert np.ptp(values[0]) > 0.1
    assert values[0] == pytest.approx(values[1], abs=1e-14)


def test_a_symbol_never_to_be_predicted_stays_impossible() -> None:
    """As in "distant XOR", where only bits are: w_0y = log 0, and nothing becomes NaN."""
    x = np.array([2, 0, 2, 1, 2, 1, 2, 0, 2, 1, 2, 0])
    chi = (x != 2).astype(float)
    net = o.Net("GLNN", 2, A, o.full_graph(2))
    trained = o.train(net, o.initial(net, x, chi, random(3, A)), x, chi, 6)
    assert trained.p["w"][0, 2] == -np.inf
    assert all(np.isfinite(value).all() for name, value in trained.p.items() if name != "w")
    assert np.isfinite(trained.p["w"][:, :2]).all()
    assert trained.log_likelihood > at_start(net, x, chi)
    assert np.isfinite(o.validation_bits(net, trained.p, x, chi))


def at_start(net: o.Net, x: Array, chi: Array) -> float:
    """The log-likelihood of the frequencies, where training starts."""
    nu = o.predicted_frequencies(x, chi, net.A)
    return float(np.sum(chi[chi > 0] * np.log(nu[x[chi > 0]])))


@pytest.mark.parametrize(
    ("kind", "writing", "transition"),
    [
        ("RNN", "DH", "FB"),
        ("RNN", "DH", "RMS"),
        ("RNN", "QDH", "QDRUOP"),
        ("RNN", "QDH", "RBPM"),
        ("GNN", "QDH", "RUOP"),
        ("GLNN", "QDH", "RBPM"),
        ("GLNN", "DH", "FB"),
    ],
)
def test_training(kind: Kind, writing: o.Writing, transition: o.Transition) -> None:
    """Rates and turns as section 2 has them, on a sequence of period 4; L never falls, and rises."""
    x = np.array([0, 1, 0, 2] * 6)
    net = o.Net(kind, 3, A, o.full_graph(3))
    p = o.initial(net, x, np.ones(24), random(4, A))
    before = {name: value.copy() for name, value in p.items()}
    trained = o.train(net, p, x, np.ones(24), 8, writing, transition)
    assert all((p[name] == before[name]).all() for name in p), "the parameters given were changed"
    L, rates = o.forward(net, p, x, np.ones(24)).log_likelihood, {"w": 1 / 3, "tau": 1 / 3}
    step = 0
    for attempt in trained.attempts:
        assert attempt.step == step
        assert attempt.of == ("w", "tau")[step % 2]
        assert attempt.rate == pytest.approx(rates[attempt.of], rel=1e-14)
        assert attempt.accepted == (attempt.log_likelihood >= L)
        rates[attempt.of] *= 1.1 if attempt.accepted else 0.5
        if attempt.accepted:
            L, step = attempt.log_likelihood, step + 1
    assert step == 8
    assert rates == pytest.approx(trained.rates)
    assert trained.log_likelihood == L == o.forward(net, trained.p, x, np.ones(24)).log_likelihood
    assert trained.log_likelihood > at_start(net, x, np.ones(24)) + 0.5


def test_a_failed_update_is_tried_again_with_half_the_rate() -> None:
    x = np.array([0, 1, 0, 2] * 3)
    net = o.Net("GLNN", 2, A, o.full_graph(2))
    p = o.initial(net, x, np.ones(12), random(3, A))
    trained = o.train(net, p, x, np.ones(12), 3, rate=64.0)
    assert [a for a in trained.attempts if not a.accepted], "64 was no rate too large"
    for one, other in zip(trained.attempts, trained.attempts[1:], strict=False):
        if not one.accepted:
            assert (other.step, other.rate) == (one.step, one.rate / 2)
    given_up = o.train(net, p, x, np.ones(12), 4, rate=1e9, tries=2)
    assert [a.of for a in given_up.attempts[:2]] == ["w", "w"]


def test_smoothing() -> None:
    case = Case("GLNN")
    pi = o.smoothed(case.run.pi)
    assert pi.sum(axis=1) == pytest.approx(np.ones(T))
    assert pi[0] == pytest.approx(case.run.pi[0] / 2 + 1 / 6)
    assert pi[8] == pytest.approx(0.9 * case.run.pi[8] + 0.1 / 3)
    bits = sum(case.chi[t] * np.log(pi[t, case.x[t]]) for t in range(T)) / np.log(2)
    assert o.validation_bits(case.net, case.p, case.x, case.chi) == pytest.approx(bits)
