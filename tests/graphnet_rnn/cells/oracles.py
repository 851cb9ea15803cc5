"""Oracles: cells and networks in plain NumPy, written from the papers' equations.

Nothing here uses the engine. All of it also runs on complex numbers, so that the derivative along v is
Im f(w + iεv) / ε, exact to rounding for tiny ε (complex-step differentiation): no difference is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Weights = Mapping[str, Array]
States = tuple[Array, ...]
Step = Callable[..., tuple[Array, ...]]
Maker = Callable[[Any, int], "Oracle"]

TINY = 1e-30  # ε of the complex step


# A step takes the weights, x and the states, and returns the output, then the new states. Weights are called
# W_sk: from s to k. Each function says in which equations of which source it is written down.


def sigmoid(a: Array) -> Array:
    return (1 + np.tanh(a / 2)) / 2


def softmax(a: Array) -> Array:
    e = np.exp(a - a.real.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(a: Array) -> Array:
    """(a − μ) / √(σ² + 10⁻⁵), μ and σ² of each row: Ba, Kiros & Hinton 2016, (4), before gain and shift."""
    centred = a - a.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "linear": lambda a: a,
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "relu": lambda a: np.where(a.real > 0, a, 0),
}


def elman(w: Weights, x: Array, h: Array) -> tuple[Array]:
    """Lynge 2016, (3.32), with a bias."""
    return (np.tanh(x @ w["W_xh"] + h @ w["W_hh"] + w["b_h"]),)


def pre(w: Weights, x: Array, h: Array, k: str, source: str = "h") -> Array:
    """Pre-activation of gate k, without a bias."""
    return x @ w[f"W_x{k}"] + h @ w[f"W_{source}{k}"]


def lstm(w: Weights, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    """Lynge 2016, (3.68)–(3.73), without the peepholes."""
    i, f, o, candidate = (pre(w, x, h, k) + w[f"b_{k}"] for k in "ifog")
    c_new = sigmoid(f) * c + sigmoid(i) * np.tanh(candidate)
    return sigmoid(o) * np.tanh(c_new), c_new


def lstm_peephole(w: Weights, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    """Graves 2013, (7)–(11): peepholes are diagonal and o looks at the new c."""
    i, f, o, candidate = (pre(w, x, h, k) + w[f"b_{k}"] for k in "ifoc")
    c_new = sigmoid(f + w["w_cf"] * c) * c + sigmoid(i + w["w_ci"] * c) * np.tanh(candidate)
    return sigmoid(o + w["w_co"] * c_new) * np.tanh(c_new), c_new


def lstm_1997(w: Weights, x: Array, h: Array, s: Array) -> tuple[Array, Array]:
    """Krause 2015, (2.11)–(2.15): nothing is forgotten."""
    h_in, omega, rho = (pre(w, x, h, k) for k in "gio")
    s_new = s + sigmoid(omega) * h_in
    return np.tanh(s_new * sigmoid(rho)), s_new


def lstm_krause(w: Weights, x: Array, h: Array, s: Array, source: str = "h") -> tuple[Array, Array]:
    """Krause 2015, algorithm 2: linear input, no biases, and the output gate inside the tanh."""
    h_in, omega, phi, rho = (pre(w, x, h, k, source) for k in "gifo")
    s_new = sigmoid(omega) * h_in + s * sigmoid(phi)
    return np.tanh(s_new * sigmoid(rho)), s_new


def multiplicative_lstm(w: Weights, x: Array, h: Array, s: Array) -> tuple[Array, Array]:
    """Krause 2015, (4.7)–(4.10) and algorithm 7."""
    return lstm_krause(w, x, (h @ w["W_hm"]) * (x @ w["W_xm"]), s, "m")


def lstm_sutskever(w: Weights, x: Array, h: Array, n: Array, m: Array) -> tuple[Array, ...]:
    """Sutskever 2013, (2.37)–(2.44). n: the m̃ of the thesis; the output reads the new h and m̃."""
    h = np.tanh(pre(w, x, h, "h") + n @ w["W_nh"])
    i_gate, i, o, f = (pre(w, x, h, k) + n @ w[f"W_n{k}"] for k in "igof")
    m = m * sigmoid(w["b_f"] + f) + np.tanh(i) * sigmoid(i_gate)
    n = m * sigmoid(o)
    return np.concatenate([h, n], axis=1), h, n, m


def gru(w: Weights, x: Array, h: Array) -> tuple[Array]:
    """Lynge 2016, (3.74)–(3.77), with biases."""
    r, z = (sigmoid(pre(w, x, h, k) + w[f"b_{k}"]) for k in "rz")
    return ((1 - z) * h + z * np.tanh(pre(w, x, r * h, "n") + w["b_n"]),)


def gru_reset_after(w: Weights, x: Array, h: Array) -> tuple[Array]:
    """torch.nn.GRU: n = tanh(W_in x + b_in + r ⊙ (W_hn h + b_hn)), h' = (1 − z) ⊙ n + z ⊙ h."""
    r, z = (sigmoid(pre(w, x, h, k) + w[f"b_{k}"]) for k in "rz")
    n = np.tanh(x @ w["W_xn"] + w["b_xn"] + r * (h @ w["W_hn"] + w["b_hn"]))
    return ((1 - z) * n + z * h,)


def minimal_gated_unit(w: Weights, x: Array, h: Array) -> tuple[Array]:
    """Zhou et al. 2016, eqs 11-13: one gate, which forgets, and resets inside of the new content."""
    f = sigmoid(pre(w, x, h, "f") + w["b_f"])
    return ((1 - f) * h + f * np.tanh(pre(w, x, f * h, "h") + w["b_h"]),)


def tensor_rnn(w: Weights, x: Array, h: Array) -> tuple[Array]:
    """Sutskever 2013, (5.1) and (5.3): the recurrent matrix is Σ_m x_m W_hh[m], made for each case."""
    by_input = [sum(x[b, m] * w["W_hh"][m] for m in range(x.shape[1])) for b in range(len(x))]
    recurrent = np.stack([h[b] @ by_input[b] for b in range(len(x))])
    return (np.tanh(x @ w["W_xh"] + recurrent + w["b_h"]),)


def mrnn(w: Weights, x: Array, h: Array) -> tuple[Array]:
    """Sutskever 2013, (5.4) in (5.1) = Krause 2015, (2.20), for each case with the diagonal matrix itself."""
    synthesised = [w["W_hm"] @ np.diag(case @ w["W_xm"]) @ w["W_mh"] for case in x]
    recurrent = np.stack([case @ matrix for case, matrix in zip(h, synthesised, strict=True)])
    return (np.tanh(w["b_h"] + x @ w["W_xh"] + recurrent),)


def stacked_mrnn(w: Weights, x: Array, *hidden: Array) -> tuple[Array, ...]:
    """Krause 2015, (4.4)–(4.6); the output reads all layers."""
    new: list[Array] = []
    for l, h in enumerate(hidden, start=1):
        m = (x @ w[f"W_xm{l}"]) * (h @ w[f"W_hm{l}"])
        a = w[f"b_h{l}"] + x @ w[f"W_xh{l}"] + m @ w[f"W_mh{l}"]
        if l > 1:
            a = a + new[-1] @ w[f"W_gh{l}"]
        new.append(np.tanh(a))
    return np.concatenate(new, axis=1), *new


def rhn_layer(w: Weights, x: Array, s: Array, layer: int, scale: Array | int = 1, names: str = "s") -> Array:
    """Suarez 2017, (3), or (6) with `scale`; names: of the state, then of what it may leave in W's name."""
    state, suffix = names[0], names[1:]
    h, t = (s @ w[f"W_{state}{k}{layer}{suffix}"] * scale for k in "ht")
    if layer == 0:
        h, t = (a + x @ w[f"W_x{k}0{suffix}"] * scale for a, k in ((h, "h"), (t, "t")))
    h, t = np.tanh(h), sigmoid(t)
    c = 1 - t
    return c * s + t * h


def layer_norm_lstm(w: Weights, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    """Ba, Kiros & Hinton 2016, (20)–(22); the shifts of both norms and the bias are one bias."""
    a = w["g_x"] * layer_norm(x @ w["W_x"]) + w["g_h"] * layer_norm(h @ w["W_h"])
    a_i, a_f, a_o, a_g = np.split(a, 4, axis=1)
    candidate = np.tanh(a_g + w["b_g"])
    c_new = sigmoid(a_f + w["b_f"]) * c + sigmoid(a_i + w["b_i"]) * candidate
    return sigmoid(a_o + w["b_o"]) * np.tanh(w["g_c"] * layer_norm(c_new) + w["s_c"]), c_new


def rtrbm(w: Weights, x: Array, r: Array) -> tuple[Array]:
    """Sutskever 2013, (3.20)."""
    return (sigmoid(x @ w["W_xr"] + w["b_r"] + r @ w["W_rr"]),)


def hmm_filter(cell: Any, w: Weights, x: Array, l: Array) -> tuple[Array, Array]:
    """Ollivier 2013, 1.2.2, note 4: a_j' = Σ_i a_i B_ix A_ij, here as the logarithms of shares of 1.

    Row i of A and of B is a softmax, so that any weights are probabilities; so is the state.
    """
    transition, emission = softmax(w["W_A"]), softmax(w["W_B"])
    a = (softmax(l) * (x @ emission.T)) @ transition
    a = a / a.sum(axis=1, keepdims=True)
    return a, np.log(a)


Run = Callable[[Weights, Sequence[Array], States], tuple[list[Array], States]]


@dataclass(frozen=True)
class Oracle:
    """A cell of given settings, as a step or, if outputs depend on later inputs, for a whole sequence.

    states: name and width of each. width: of the output.
    """

    states: tuple[tuple[str, int], ...]
    width: int
    step: Step | None = None
    whole: Run | None = None

    def run(self, w: Weights, xs: Sequence[Array], states: States) -> tuple[list[Array], States]:
        """The outputs for x_1 ... x_T, and the states that are handed on."""
        if self.whole:
            return self.whole(w, xs, states)
        outputs = []
        for x in xs:
            y, *states = self.step(w, x, *states)
            outputs.append(y)
        return outputs, tuple(states)


def simple(step: Callable[..., tuple[Array, ...]], *states: str) -> Maker:
    """Oracle of a cell whose states have the width of its units; the output is the first state."""
    return shown(lambda cell, *given: (new := step(*given))[:1] + tuple(new), *states)


def shown(step: Callable[..., tuple[Array, ...]], *states: str) -> Maker:
    """Oracle of a cell whose states and output have the width of its units; `step` reads its settings."""
    return lambda cell, reads: Oracle(tuple((s, cell.units) for s in states), cell.units, partial(step, cell))


def dense(cell: Any, w: Weights, x: Array) -> tuple[Array]:
    """Sutskever 2013, 2.4: y = f(x W + b)."""
    return (ACTIVATIONS[cell.activation](x @ w["W_xy"] + (w["b_y"] if cell.bias else 0)),)


def rhn(cell: Any, w: Weights, x: Array, s: Array) -> tuple[Array, Array]:
    """Suarez 2017, (3), for each layer in turn."""
    for layer in range(cell.depth):
        s = rhn_layer(w, x, s, layer)
    return s, s


def lstm_projected(cell: Any, reads: int) -> Oracle:
    """Sak, Senior & Beaufays 2014, (8)–(14), without W_ic, W_fc, W_oc: gates read r, which is W_rm m."""

    def step(w: Weights, x: Array, h: Array, c: Array) -> tuple[Array, ...]:
        m, c = lstm(w, x, h, c)
        return m @ w["W_mh"], m @ w["W_mh"], c

    return Oracle((("h", cell.projection), ("c", cell.units)), cell.projection, step)


def hyper_rhn(cell: Any, reads: int) -> Oracle:
    """Suarez 2017, (6)–(7): at each layer the small net steps first, and its new state makes z."""

    def step(w: Weights, x: Array, s: Array, a: Array) -> tuple[Array, ...]:
        for layer in range(cell.depth):
            a = rhn_layer(w, x, a, layer, names="a_a")
            s = rhn_layer(w, x, s, layer, scale=a @ w[f"W_az{layer}"])
        return s, s, a

    return Oracle((("s", cell.units), ("a", cell.hyper_units)), cell.units, step)


def hyper(cell: Any, reads: int) -> Oracle:
    """Suarez 2017, (4)–(5), or (8) with a rank: every matrix is scaled, entry by entry, for each case.

    The small net reads x and h of the step before, as in Ha, Dai & Le 2016, (10); its new output makes the scales.
    """
    large = oracle_of(cell.main, reads)
    count = len(large.states)
    small = oracle_of(cell.controller, reads + sum(width for _, width in large.states[:1]))

    def scaling(w: Weights, a: Array, name: str, shape: tuple[int, ...]) -> Array:
        """The matrix S of W̃ = W ∘ S, from the activations of the small net in one case."""
        if cell.rank is None:
            return np.tile(a @ w[f"W_ap_{name}"] + w[f"b_p_{name}"], (shape[0], 1))
        u, v = (a @ w[f"W_a{k}_{name}"] + w[f"b_{k}_{name}"] for k in "uv")
        pairs = zip(np.split(u, cell.rank), np.split(v, cell.rank), strict=True)
        return sum(np.outer(u_i, v_i) for u_i, v_i in pairs)

    def step(w: Weights, x: Array, *states: Array) -> tuple[Array, ...]:
        read = np.concatenate([x, *states[:1]], axis=1)
        a, *states_a = small.step(part(w, "controller"), read, *states[count:])
        rows = []
        for b in range(len(x)):
            weights = dict(part(w, "main"))
            for name, matrix in weights.items():
                kind, _, ends = name.partition("_")
                if kind == "W" and matrix.ndim == 2:
                    weights[name] = matrix * scaling(w, a[b], ends, matrix.shape)
            rows.append(large.step(weights, x[b : b + 1], *(s[b : b + 1] for s in states[:count])))
        return *(np.concatenate(values) for values in zip(*rows, strict=True)), *states_a

    states = (*large.states, *((f"{name}_a", width) for name, width in small.states))
    return Oracle(states, large.width, step)


def attention(cell: Any, reads: int) -> Oracle:
    """Bahdanau, Cho & Bengio 2015, A.1.2: e_ij = v·tanh(W s_{i-1} + U h_j), c_i = Σ_j softmax_j(e_ij) h_j, beside x.

    "dot": Luong, Pham & Manning 2015, (8), "general", over √width as in Vaswani et al. 2017, (1). One case, one place
    at a time; l_j is added to e_ij. The output is the state beside c_i, A.2.2.
    """
    inner = oracle_of(cell.inner, reads + cell.memory)
    count = len(inner.states)

    def step(w: Weights, x: Array, *states: Array) -> tuple[Array, ...]:
        memory, l = states[count:]
        contexts = []
        for b in range(len(x)):
            query, places = states[0][b] @ w["W_hq"], np.split(memory[b], cell.places)
            if cell.score == "dot":
                scores = [query @ place / np.sqrt(cell.memory) for place in places]
            else:
                scores = [(np.tanh(query + place @ w["W_mq"] + w["b_q"]) @ w["W_qe"])[0] for place in places]
            a = softmax(np.array(scores) + l[b])
            contexts.append(sum(share * place for share, place in zip(a, places, strict=True)))
        c = np.array(contexts)
        y, *new = inner.step(part(w, "inner"), np.concatenate([x, c], axis=1), *states[:count])
        return np.concatenate([y, c], axis=1), *new, memory, l

    own = (("memory", cell.places * cell.memory), ("l", cell.places))
    return Oracle((*inner.states, *own), inner.width + cell.memory, step)


def hyper_lstm(cell: Any, reads: int) -> Oracle:
    """Ha, Dai & Le 2016, (10)–(13), with the ĥ of this step; without layer norm, LN(y) = y."""
    small = lstm if not cell.layer_norm else layer_norm_lstm

    def norm(w: Weights, a: Array, name: str) -> Array:
        return w[f"g_{name}"] * layer_norm(a) + w[f"s_{name}"] if cell.layer_norm else a

    def step(w: Weights, x: Array, h: Array, c: Array, h_a: Array, c_a: Array) -> tuple[Array, ...]:
        h_a, c_a = small(part(w, "controller"), np.concatenate([x, h], axis=1), h_a, c_a)
        gate = {}
        for y in "ifog":
            z_h = h_a @ w[f"W_azh{y}"] + w[f"b_zh{y}"]
            z_x = h_a @ w[f"W_azx{y}"] + w[f"b_zx{y}"]
            z_b = h_a @ w[f"W_azb{y}"]
            d_h, d_x, b = z_h @ w[f"D_h{y}"], z_x @ w[f"D_x{y}"], z_b @ w[f"D_b{y}"] + w[f"b_{y}"]
            gate[y] = norm(w, d_h * (h @ w[f"W_h{y}"]) + d_x * (x @ w[f"W_x{y}"]) + b, y)
        c = sigmoid(gate["f"]) * c + sigmoid(gate["i"]) * np.tanh(gate["g"])
        h = sigmoid(gate["o"]) * np.tanh(norm(w, c, "c"))
        return h, h, c, h_a, c_a

    n, n_a = cell.units, cell.hyper_units
    return Oracle((("h", n), ("c", n), ("h_a", n_a), ("c_a", n_a)), n, step)


def along_edges(cell: Any, a: Array, tau: Array) -> Array:
    """Σ_i a_i τ_ij over the edges i → j of the cell's graph; tau: for each edge, or each case and edge."""
    total = np.zeros((len(a), cell.units), np.result_type(a, tau))
    for e, (i, j) in enumerate(zip(cell.sources, cell.targets, strict=True)):
        total[:, j] += a[:, i] * tau[..., e]
    return total


def graph_rnn(cell: Any, w: Weights, x: Array, a: Array) -> tuple[Array, Array]:
    """Ollivier 2013, (8)–(9), a_0 ≡ 1."""
    a = ACTIVATIONS[cell.activation](x @ w["rho"] + along_edges(cell, a, w["tau"]) + w["tau_0"])
    return a, a


def gnn(cell: Any, w: Weights, x: Array, a: Array) -> tuple[Array, Array]:
    """Ollivier 2013, (10)–(11), with Σ_k x_k τ_ijk for vectors, a_0 ≡ 1."""
    a = ACTIVATIONS[cell.activation](along_edges(cell, a, x @ w["tau"]) + x @ w["tau_0"])
    return a, a


def glnn(cell: Any, w: Weights, x: Array, v: Array) -> tuple[Array, Array]:
    """Ollivier 2013, (13)–(14): V leaks; other units and the output read a = s(V)."""
    s = ACTIVATIONS[cell.activation]
    v = v + along_edges(cell, s(v), x @ w["tau"]) + x @ w["tau_0"]
    return s(v), v


def graph_lstm(cell: Any, w: Weights, x: Array, h: Array, c: Array) -> tuple[Array, ...]:
    """Ollivier 2013, 4: Graves 2013, (7)–(11), where h_{t−1} W_h· are sums over the edges of the graph."""
    i, f, o, candidate = (
        x @ w[f"W_x{k}"] + along_edges(cell, h, w[f"tau_{k}"]) + w[f"b_{k}"] for k in "ifoc"
    )
    c_new = sigmoid(f + w["w_cf"] * c) * c + sigmoid(i + w["w_ci"] * c) * np.tanh(candidate)
    h = sigmoid(o + w["w_co"] * c_new) * np.tanh(c_new)
    return h, h, c_new


def leaky_rnn(cell: Any, w: Weights, x: Array, h: Array) -> tuple[Array, Array]:
    """Sutskever 2013, (2.45), α = leak, with a bias; an echo-state net is the same with fixed weights."""
    h = cell.leak * h + (1 - cell.leak) * elman(w, x, h)[0]
    return h, h


def narx(cell: Any, reads: int) -> Oracle:
    """Lin et al. 1996: h_t = tanh(Σ_k x_{t−k} W_xkh + Σ_k h_{t−k} W_hkh + b), k = 0 ... taps and 1 ... order."""

    def step(w: Weights, x: Array, *states: Array) -> tuple[Array, ...]:
        hidden, inputs = list(states[: cell.order]), [x, *states[cell.order :]]
        a = w["b_h"] + sum(value @ w[f"W_x{k}h"] for k, value in enumerate(inputs))
        a = a + sum(value @ w[f"W_h{k}h"] for k, value in enumerate(hidden, start=1))
        h = np.tanh(a)
        return h, *[h, *hidden][: cell.order], *inputs[: cell.taps]

    states = [(f"h{k + 1}", cell.units) for k in range(cell.order)]
    return Oracle((*states, *((f"x{k + 1}", reads) for k in range(cell.taps))), cell.units, step)


def residual(cell: Any, reads: int) -> Oracle:
    """He et al. 2016, (1): y_t = x_t + the inner cell's y_t; (2), with a projection of x, where the widths differ."""
    inner = oracle_of(cell.inner, reads)

    def run(w: Weights, xs: Sequence[Array], states: States) -> tuple[list[Array], States]:
        outputs, states = inner.run(part(w, "inner"), xs, states)
        around = xs if inner.width == reads else [x @ w["W_xy"] for x in xs]
        return [a + y for a, y in zip(around, outputs, strict=True)], states

    return Oracle(inner.states, inner.width, whole=run)


def normalized(cell: Any, reads: int) -> Oracle:
    """Ba, Kiros & Hinton 2016, (4), of the inner cell's y_t."""
    inner = oracle_of(cell.inner, reads)

    def run(w: Weights, xs: Sequence[Array], states: States) -> tuple[list[Array], States]:
        outputs, states = inner.run(part(w, "inner"), xs, states)
        return [w["g_y"] * layer_norm(y) + w["s_y"] for y in outputs], states

    return Oracle(inner.states, inner.width, whole=run)


def bidirectional(cell: Any, reads: int) -> Oracle:
    """Schuster & Paliwal 1997: y_t = [forward h_t, backward h_t]; the second reads x_T first."""
    there, back = oracle_of(cell.forward, reads), oracle_of(cell.backward, reads)

    def run(w: Weights, xs: Sequence[Array], states: States) -> tuple[list[Array], States]:
        first, ahead = there.run(part(w, "forward"), xs, states[: len(there.states)])
        second, behind = back.run(part(w, "backward"), xs[::-1], states[len(there.states) :])
        outputs = [np.concatenate(pair, axis=1) for pair in zip(first, second[::-1], strict=True)]
        return outputs, (*ahead, *behind)

    states = [(f"{name}_forward", width) for name, width in there.states]
    states += [(f"{name}_backward", width) for name, width in back.states]
    return Oracle(tuple(states), there.width + back.width, whole=run)


#: From a cell (of which only the settings are looked at) and the width of what it reads.
ORACLES: dict[str, Maker] = {
    "Elman": simple(elman, "h"),
    "Dense": shown(dense),
    "LSTM": simple(lstm, "h", "c"),
    "LSTMPeephole": simple(lstm_peephole, "h", "c"),
    "LSTMProjected": lstm_projected,
    "LSTM1997": simple(lstm_1997, "h", "s"),
    "LSTMKrause": simple(lstm_krause, "h", "s"),
    "LSTMSutskever": lambda cell, _: Oracle(
        tuple((s, cell.units) for s in "hnm"), 2 * cell.units, lstm_sutskever
    ),
    "GRU": simple(gru, "h"),
    "GRUResetAfter": simple(gru_reset_after, "h"),
    "TensorRNN": simple(tensor_rnn, "h"),
    "MRNN": simple(mrnn, "h"),
    "StackedMRNN": lambda cell, _: Oracle(
        tuple((f"h{l}", n) for l, n in enumerate(cell.units, 1)), sum(cell.units), stacked_mrnn
    ),
    "MultiplicativeLSTM": simple(multiplicative_lstm, "h", "s"),
    "RHN": shown(rhn, "s"),
    "HyperRHN": hyper_rhn,
    "Hyper": hyper,
    "HyperLSTM": hyper_lstm,
    "Normalized": normalized,
    "LayerNormLSTM": simple(layer_norm_lstm, "h", "c"),
    "GraphRNN": shown(graph_rnn, "a"),
    "GNN": shown(gnn, "a"),
    "GLNN": shown(glnn, "V"),
    "GraphLSTM": shown(graph_lstm, "h", "c"),
    "LeakyRNN": shown(leaky_rnn, "h"),
    "EchoState": shown(leaky_rnn, "h"),
    "NARX": narx,
    "RTRBMFilter": simple(rtrbm, "r"),
    "HMMFilter": shown(hmm_filter, "l"),
    "Residual": residual,
    "Bidirectional": bidirectional,
    "Attention": attention,
    "Equations": simple(minimal_gated_unit, "h"),
}


def oracle_of(cell: Any, reads: int) -> Oracle:
    """The oracle for a cell that reads vectors of this width."""
    return ORACLES[type(cell).__name__](cell, reads)


def softmax_loss(o: Array, target: Array) -> Array:
    """−log p(target), p = softmax(o); target: the numbers of the symbols."""
    o = o - o.real.max(axis=1, keepdims=True)
    return np.log(np.exp(o).sum(axis=1)) - o[np.arange(len(o)), target]


def sigmoid_loss(o: Array, target: Array) -> Array:
    """−Σ t log σ(o) + (1 − t) log σ(−o) = Σ log(1 + e^o) − t o."""
    size = np.where(o.real > 0, o, -o)  # |o|
    return (np.where(o.real > 0, o, 0) + np.log1p(np.exp(-size)) - target * o).sum(axis=1)


def squared_loss(o: Array, target: Array) -> Array:
    """Σ (o − t)²"""
    return ((o - target) ** 2).sum(axis=1)


LOSSES = {"softmax": softmax_loss, "sigmoid": sigmoid_loss, "squared": squared_loss}


@dataclass(frozen=True)
class Settings:
    """Settings of a network for `run`. cells: cells with the settings of each layer, first layer to last."""

    cells: tuple[Any, ...]
    inputs: int
    outputs: int
    loss: str = "softmax"
    skip: bool = False
    reads: str = "symbols"
    unscored: int = 0


@dataclass(frozen=True)
class Result:
    """Results of a network; shapes as in Unrolled."""

    logits: Array
    hidden: list[Array]
    final: list[Array]
    losses: Array
    cost: Any


def part(weights: Weights, prefix: str) -> dict[str, Array]:
    """Weights whose names begin with `prefix.`, without this prefix."""
    return {name.partition(".")[2]: w for name, w in weights.items() if name.startswith(prefix + ".")}


def layers_of(settings: Settings) -> list[Oracle]:
    """An oracle for each layer, for its input width."""
    layers: list[Oracle] = []
    for cell in settings.cells:
        reads = layers[-1].width + (settings.inputs if settings.skip else 0) if layers else settings.inputs
        layers.append(oracle_of(cell, reads))
    return layers


def run(settings: Settings, weights: Weights, inputs: Array, targets: Array, initial, masks=None) -> Result:
    """A plain loop over layers and time.

    masks: for each layer but the last, the factors (time, batch, units) on its way to the layer above.
    """
    layers, rest = layers_of(settings), list(initial)
    states = [tuple(rest.pop(0) for _ in layer.states) for layer in layers]
    assert not rest
    x = list(np.eye(settings.inputs)[inputs] if settings.reads == "symbols" else inputs)
    below, hidden = x, []
    for l, layer in enumerate(layers):
        if l > 0 and masks is not None:
            below = [h * m for h, m in zip(below, masks[l - 1], strict=True)]
        if l > 0 and settings.skip:
            below = [np.concatenate(pair, axis=1) for pair in zip(below, x, strict=True)]
        below, states[l] = layer.run(part(weights, f"layer{l}"), below, states[l])
        hidden.append(below)
    logits, losses = [], []
    for t in range(len(x)):
        if settings.skip:  # Lynge 2016, (3.36)
            o = sum(h[t] @ weights[f"output.W_h{l}o"] for l, h in enumerate(hidden)) + weights["output.b_o"]
        else:
            o = hidden[-1][t] @ weights["output.W_ho"] + weights["output.b_o"]
        logits.append(o)
        losses.append(LOSSES[settings.loss](o, targets[t]))
    scored = losses[settings.unscored :]
    cost = sum(loss.sum() for loss in scored) / (len(scored) * len(scored[0]))
    final = [state for layer in states for state in layer]
    return Result(np.stack(logits), [np.stack(h) for h in hidden], final, np.stack(losses), cost)


def along(values: Mapping[str, Array], direction: Mapping[str, Array]) -> dict[str, Array]:
    """values + iε direction: run on these, and `Im / ε` is the derivative along the direction."""
    return {k: w + 1j * TINY * direction[k] if k in direction else w for k, w in values.items()}


def assert_close(got: Any, want: Any, tolerance: float, what: str = "") -> None:
    """max |got − want| ≤ tolerance · max |want|, and the same shape; `want` must not be all zeros."""
    got, want = np.asarray(got), np.asarray(want)
    size = np.abs(want).max()
    assert got.shape == want.shape, what
    assert 0 < size < np.inf, f"{what}: of the oracle"
    assert np.abs(got - want).max() <= tolerance * size, what
