"""Oracle: Ollivier 2013, *Riemannian metrics for neural networks II: recurrent networks [...]*, in NumPy loops.

Numbers in parentheses are its equations. Nothing here uses the engine.

Indices are the paper's. Units are 0..N, and unit 0 is always active: row 0 of an array over units is that of
unit 0, or is not read where unit 0 has none (V, B, m̃, ρ, u). Symbols are 0..A−1, times 0..T−1; an array over
time that is defined at T, too, has T+1 rows (B, m̃: 0 there). Parameters are full arrays; where the graph has
no edge they are 0 and not read:

    RNN         tau[i, j]     rho[j, y]   w[i, y]   V0[j]
    GNN, GLNN   tau[i, j, y]              w[i, y]   V0[j]

A comment that starts with "Choice:" says what was taken where the paper is silent, or can be read otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Params = dict[str, Array]
# One parameter: its array's name, its index there.
Key = tuple[str, tuple[int, ...]]

MACHINE = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Net:
    """Units 1..N, edges i → j between them, an alphabet of A symbols; 0 → j is an edge for every j besides.

    kind: RNN, GNN or GLNN; s: tanh or logistic.
    """

    kind: str
    N: int
    A: int
    edges: Sequence[tuple[int, int]]
    s: str = "tanh"

    @property
    def units(self) -> range:
        return range(1, self.N + 1)

    def sources(self, j: int) -> list[int]:
        """0, then every i with i → j, in order."""
        return [0, *sorted(i for i, k in self.edges if k == j)]

    def targets(self, i: int) -> list[int]:
        """Every j with i → j, in order; all units if i = 0."""
        return [*self.units] if i == 0 else sorted(j for k, j in self.edges if k == i)


def zeros(net: Net) -> Params:
    """All parameters, 0."""
    n, A = net.N + 1, net.A
    own = {"tau": (n, n), "rho": (n, A)} if net.kind == "RNN" else {"tau": (n, n, A)}
    return {name: np.zeros(shape) for name, shape in {"w": (n, A), "V0": (n,), **own}.items()}


def blocks(net: Net) -> dict[tuple[int, ...], list[Key]]:
    """The parameters that have scalar products with each other in the metric, the bias of the unit first (3.4).

    GNN, GLNN: one block for each (j, y): τ_0jy, τ_ijy for i → j. "Different symbols x are independent".
    RNN: one block for each (j,): τ_0j, τ_ij for i → j, ρ_jx for all x, with which τ_ij "have non-trivial scalar
    product".
    """
    found: dict[tuple[int, ...], list[Key]] = {}
    for j in net.units:
        if net.kind == "RNN":
            found[j,] = [("tau", (i, j)) for i in net.sources(j)] + [("rho", (j, y)) for y in range(net.A)]
            continue
        for y in range(net.A):
            found[j, y] = [("tau", (i, j, y)) for i in net.sources(j)]
    return found


def activities(net: Net, V: Array) -> Array:
    """a_j = s(V_j), s(V) = tanh V, or 1 / (1 + e^−V); a_0 = 1."""
    a = np.tanh(V) if net.s == "tanh" else (1 + np.tanh(V / 2)) / 2
    a[0] = 1
    return a


def slope(net: Net, V: Array) -> Array:
    """s'(V) = 1 − tanh² V, or σ(V) (1 − σ(V)); that of unit 0 is not read."""
    a = activities(net, V)
    return 1 - a**2 if net.s == "tanh" else a * (1 - a)


def connection(net: Net, p: Params, i: int, j: int, x: int) -> float:
    """τ_ij of an RNN, τ_ijx of the others."""
    return p["tau"][i, j] if net.kind == "RNN" else p["tau"][i, j, x]


def next_V(net: Net, p: Params, V: Array, x: int) -> Array:
    """V^{t+1} given V^t and x_t.

    RNN:  V_j^{t+1} = ρ_{j x_t} + Σ_i τ_ij a_i^t        (8)
    GNN:  V_j^{t+1} = Σ_i τ_{ij x_t} a_i^t               (10)
    GLNN: V_j^{t+1} = V_j^t + Σ_i τ_{ij x_t} a_i^t       (13)
    """
    a, new = activities(net, V), np.zeros(net.N + 1)
    for j in net.units:
        new[j] = sum(connection(net, p, i, j, x) * a[i] for i in net.sources(j))
        if net.kind == "RNN":
            new[j] += p["rho"][j, x]
        elif net.kind == "GLNN":
            new[j] += V[j]
    return new


def write(p: Params, a: Array) -> Array:
    """π(x) = e^{Σ_i a_i w_ix} / Σ_y e^{Σ_i a_i w_iy}     (6, 14)"""
    E = sum(a[i] * p["w"][i] for i in range(len(a)))
    e = np.exp(E - np.max(E))
    return e / e.sum()


@dataclass(frozen=True)
class Run:
    """A forward pass. V, a: (T, N+1); pi: (T, A). log_likelihood = Σ_t χ_t log π_t(x_t), L below, in nats  (16)"""

    x: Array
    chi: Array
    V: Array
    a: Array
    pi: Array
    log_likelihood: float


def forward(net: Net, p: Params, x: Sequence[int] | Array, chi: Array) -> Run:
    """V^t, a^t, π_t for t = 0..T−1, and the log-likelihood. V^0 is a parameter; π_0 is written from it."""
    x = np.asarray(x)
    T = len(x)
    V, a, pi = np.zeros((T, net.N + 1)), np.zeros((T, net.N + 1)), np.zeros((T, net.A))
    L = 0.0
    for t in range(T):
        V[t] = p["V0"] if t == 0 else next_V(net, p, V[t - 1], int(x[t - 1]))
        V[t, 0] = 0
        a[t] = activities(net, V[t])
        pi[t] = write(p, a[t])
        # Only symbols to be predicted: a symbol that never is may have π = 0, and 0 log 0 = 0.
        if chi[t] != 0:
            with np.errstate(divide="ignore"):
                L += float(chi[t] * np.log(pi[t, x[t]]))
    return Run(x, np.asarray(chi), V, a, pi, L)


def backward(net: Net, p: Params, run: Run) -> Array:
    """B_i^t = ∂L / ∂V_i^t, (T+1, N+1), B^T = 0.

    GLNN:     B_i^t = B_i^{t+1} + s'(V_i^t) (χ_t (w_{i x_t} − Σ_y π_t(y) w_iy) + Σ_j τ_{ij x_t} B_j^{t+1})  (22)
    GNN, RNN: the same without the first term, as ∂V_j^{t+1}/∂V_i^t = τ_ij s'(V_i^t), of (10) and (8).
    """
    T = len(run.x)
    B = np.zeros((T + 1, net.N + 1))
    for t in reversed(range(T)):
        x = int(run.x[t])
        ds = slope(net, run.V[t])
        for i in net.units:
            w = p["w"][i]
            written = run.chi[t] * (w[x] - run.pi[t] @ w)
            carried = sum(connection(net, p, i, j, x) * B[t + 1, j] for j in net.targets(i))
            B[t, i] = ds[i] * (written + carried)
            if net.kind == "GLNN":
                B[t, i] += B[t + 1, i]
    return B


def writing_gradient(net: Net, run: Run) -> Array:
    """W_iy = Σ_t χ_t a_i^t (1_{x_t = y} − π_t(y)), (N+1, A)     (17)"""
    return (run.chi[:, None] * run.a).T @ (np.eye(net.A)[run.x] - run.pi)


def signal(net: Net, run: Run, key: Key) -> Array:
    """∂V_j^{t+1} / ∂θ^t for t = 0..T−1, θ^t used at time t only (3.4): what θ of unit j multiplies at time t.

    RNN: a_i^t for τ_ij, 1_{x_t = y} for ρ_jy. GNN, GLNN: 1_{x_t = y} a_i^t for τ_ijy.
    """
    name, index = key
    if name == "rho":
        return (run.x == index[1]).astype(float)
    if net.kind == "RNN":
        return run.a[:, index[0]]
    return (run.x == index[2]) * run.a[:, index[0]]


def transition_gradient(net: Net, run: Run, B: Array) -> Params:
    """∂L/∂τ, ∂L/∂ρ, G_k = Σ_t ∂V_j^{t+1}/∂θ_k B_j^{t+1} (25), and ∂L/∂V^0 = B^0 (proposition 11)."""
    G = {name: value for name, value in zeros(net).items() if name != "w"}
    for (j, *_), keys in blocks(net).items():
        for key in keys:
            G[key[0]][key[1]] = signal(net, run, key) @ B[1:, j]
    G["V0"][1:] = B[0, 1:]
    return G


def rbpm(net: Net, p: Params, run: Run) -> Array:
    """m̃_i^t of the recurrent backpropagated metric, (T+1, N+1), m̃^T = 0.

    All:      m̃_i^t = s'(V_i^t)² χ_t Var_{y~π_t} w_iy + Σ_j (∂V_j^{t+1}/∂V_i^t)² m̃_j^{t+1}          (63)
    GLNN:     ∂V_j^{t+1}/∂V_i^t = 1_{i=j} + τ_{ij x_t} s'(V_i^t)   (64), which gives (24)
    GNN, RNN: ∂V_j^{t+1}/∂V_i^t = τ_{ij x_t} s'(V_i^t), τ_ij s'(V_i^t), from (10) and (8)
    """
    T = len(run.x)
    m = np.zeros((T + 1, net.N + 1))
    for t in reversed(range(T)):
        x, ds, pi = int(run.x[t]), slope(net, run.V[t]), run.pi[t]
        for i in net.units:
            w = p["w"][i]
            variance = pi @ w**2 - (pi @ w) ** 2
            m[t, i] = ds[i] ** 2 * run.chi[t] * variance
            # A unit without the edge i → i still holds its V: (13) has V_i^t in it whatever the graph is.
            for j in {*net.targets(i), i}:
                moved = connection(net, p, i, j, x) * ds[i] if j in net.targets(i) else 0.0
                moved += net.kind == "GLNN" and i == j
                m[t, i] += moved**2 * m[t + 1, j]
    return m


def metric(net: Net, run: Run, m: Array, j: int, keys: Sequence[Key], eps: float = 1.0) -> Array:
    """M̃_kk' = Σ_t m̃_j^{t+1} ∂V_j^{t+1}/∂θ_k ∂V_j^{t+1}/∂θ_k' + ε 1_{k=k'}     (55, 67)

    Of GNN and GLNN: M̃_ii'^{(jy)} = Σ_t 1_{x_t = y} a_i^t a_i'^t m̃_j^{t+1} + ε 1_{i=i'}     (26)

    Of an RNN ε > 0 is needed: Σ_x 1_{x_t = x} = 1 = a_0, so the bias is the sum of the inputs of all symbols,
    and the undamped block is singular.
    """
    signals = np.array([signal(net, run, k) for k in keys])
    return (m[1:, j] * signals) @ signals.T + eps * np.eye(len(keys))


def quasi_diagonal(G: Array, diagonal: Array, cross: Array) -> Array:
    """The quasi-diagonal inverse of a matrix M applied to G: M_kk = diagonal[k], M_0k = cross[k], 0 the bias.

    k ≠ 0: δ_k = (G_k − G_0 M_0k / M_00) / (M_kk − M_0k² / M_00)     (20, 34)
    bias:  δ_0 = G_0 / M_00 − Σ_{k≠0} M_0k / M_00 δ_k                (21, 35)
    """
    share = cross[1:] / diagonal[0]
    others = (G[1:] - G[0] * share) / (diagonal[1:] - cross[1:] * share)
    return np.array([G[0] / diagonal[0] - share @ others, *others])


def damping_of_writing(x: Sequence[int] | Array, A: int) -> Array:
    """ε_y = the frequency of y in the training sequence + the machine epsilon (below 19).

    Choice: of all symbols, ν̃_y, not among those to be predicted: "in the training sequence" is what the paper
    says, and ν_y it calls "among symbols to be predicted". A share, not a count: that is how it uses the word.
    """
    return np.array([sum(1 for s in x if s == y) for y in range(A)]) / len(x) + MACHINE


def hessian(net: Net, run: Run, eps_y: Array) -> tuple[Array, Array]:
    """h_ii^y and h_0i^y, both (N+1, A); row 0 of the latter is not read.

    h_ii^y = ε_y + Σ_t χ_t (a_i^t)² π_t(y) (1 − π_t(y)),  i = 0 too     (18)
    h_0i^y = Σ_t χ_t a_i^t π_t(y) (1 − π_t(y))                          (19)
    """
    spread = run.chi[:, None] * run.pi * (1 - run.pi)
    return eps_y + (run.a**2).T @ spread, run.a.T @ spread


def writing_direction(net: Net, run: Run, method: str, eps_y: Array) -> Array:
    """Direction that η_w multiplies, (N+1, A).

    DH:    W_iy / h_ii^y, "the inverse diagonal Hessian (obtained from (18))" (section 4)
    QDH:   (20), (21)

    Choice: DH is damped by ε_y as QDH is, since (18) has it.
    """
    W = writing_gradient(net, run)
    diagonal, cross = hessian(net, run, eps_y)
    if method == "DH":
        return W / diagonal
    return np.stack([quasi_diagonal(W[:, y], diagonal[:, y], cross[:, y]) for y in range(net.A)], axis=1)


def transition_direction(net: Net, p: Params, run: Run, method: str, eps: float = 1.0) -> Params:
    """Direction that η_τ multiplies, for tau, V0 and, in an RNN, rho.

    RUOP, RBPM:     M̃⁻¹ G of each block (27), V^0 by (29); of RUOP m̃_i^t = (B_i^t)² (23)
    QDRUOP, QDRBPM: (34), (35) of each block, V^0 by (29)
    """
    B = backward(net, p, run)
    G = transition_gradient(net, run, B)
    m = rbpm(net, p, run) if method.endswith("RBPM") else B**2
    new = {name: np.zeros_like(value) for name, value in G.items()}
    for (j, *_), keys in blocks(net).items():
        g = np.array([G[name][index] for name, index in keys])
        M = metric(net, run, m, j, keys, eps)
        # Of an RNN the bias τ_0j plays unit 0. Choice: each ρ_jx is one more incoming weight, i ≠ 0, of "an
        # input unit activated when reading x" (1.2.1), whose activity is 1_{x_t = x}; so its terms are
        # M̃_xx = Σ_t 1_{x_t = x} m̃_j^{t+1} + ε and M̃_0x = Σ_t 1_{x_t = x} m̃_j^{t+1}. Reading x as the bias
        # instead (there is always exactly one) would need A biases, and (34), (35) have one.
        d = quasi_diagonal(g, np.diag(M), M[0]) if method.startswith("QD") else np.linalg.solve(M, g)
        for (name, index), value in zip(keys, d, strict=True):
            new[name][index] = value
    for j in net.units:
        new["V0"][j] = B[0, j] / (m[0, j] + eps)  # (29)
    return new


@dataclass(frozen=True)
class Attempt:
    """An update that was tried, at which rate, and the log-likelihood (nats) it led to."""

    step: int
    rate: float
    log_likelihood: float


def train(net: Net, p: Params, x: Array, chi: Array, steps: int, transition: str) -> list[Attempt]:
    """Section 2: steps in turn of w, of τ (with ρ, V^0), w first; η ×1.1 if L rose, cancelled and η /2 if it fell.

    "If an update of the parameter decreases data log-likelihood, the update is cancelled, the corresponding
    learning rate (η_w or η_τ) is divided by 2, and the update is tried again. On the contrary, if the update
    improves data log-likelihood, the corresponding learning rate is multiplied by 1.1."

    Choice: it is tried again at once, from the same gradient and metric; the other parameters' turn comes when
    it has succeeded. So η may go down by several halves and up by 1.1 in the same step.
    Choice: after 50 failures the step is given up (the rate stays divided): the paper sets no end.
    Choice: an update after which L is the same is kept, and leaves the rate; it neither decreases nor improves
    it. One after which L is not a number is cancelled.
    Choice: 1/N is of the N units without unit 0.
    """
    rates = dict.fromkeys(("w", "tau"), 1 / net.N)
    run, attempts = forward(net, p, x, chi), []
    for step in range(steps):
        of = "w" if step % 2 == 0 else "tau"
        if of == "w":
            d = {"w": writing_direction(net, run, "QDH", damping_of_writing(x, net.A))}
        else:
            d = transition_direction(net, p, run, transition)
        for _ in range(50):
            eta = rates[of]
            new = p | {name: p[name] + eta * d[name] for name in d}
            with np.errstate(over="ignore", invalid="ignore"):
                after = forward(net, new, x, chi)
            attempts.append(Attempt(step, eta, after.log_likelihood))
            if not after.log_likelihood >= run.log_likelihood:  # or NaN
                rates[of] = eta / 2
                continue
            if after.log_likelihood > run.log_likelihood:
                rates[of] = eta * 1.1
            p, run = new, after
            break
    return attempts
