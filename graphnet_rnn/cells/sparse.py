"""Recurrent nets over a sparse random graph: RNN, GNN, GLNN and LSTM of Ollivier (2013).

i → j are the edges: each unit sends `edges` of them, one to itself. a_i = s(V_i); τ_ij are the weights `tau`, in the
order of the edges. The always-active unit 0 gives biases: τ_0j is `tau_0`, and w_0 is the b_o of the network. A step
costs O(edges). If x is a symbol, its weights are looked up, not multiplied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np

from graphnet.graph.node import Array, Node
from graphnet.graph.provenance import scope
from graphnet.ops.elementwise import sigmoid, tanh
from graphnet.ops.index import scatter_add, take
from graphnet.ops.leaf import constant
from graphnet.system.memory import require_memory
from graphnet_rnn.cell import initializers
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.declaration import State
from graphnet_rnn.cell.initializers import Initializer, array
from graphnet_rnn.cells.feedforward import ACTIVATIONS
from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import Count, CountOrZero, amount, listed, one_of, shown

Squashing = Annotated[str, partial(one_of, choices=("tanh", "sigmoid", "linear"))]

ALPHA = 0.5  # α of eq. 33
#: Bytes for each edge while the random graph is drawn.
EDGE_BYTES = 300


def random_edges(units: int, edges: int, seed: int) -> Array:
    """(2, units · edges): sources and targets, sorted by target; each unit sends `edges` distinct ones, one to itself.

    Depends only on the raw bits of PCG64, so that no version of NumPy changes the graph.
    """
    require_memory(
        units * edges * EDGE_BYTES,
        f"a random graph of {units * edges:,} edges",
        "fewer units or edges take less",
    )
    bits = np.random.PCG64(seed)
    pairs = []
    for unit in range(units):
        chosen = {unit: None}
        while len(chosen) < edges:
            chosen[int(bits.random_raw() % units)] = None
        pairs += [(target, unit) for target in chosen]
    targets, sources = np.array(sorted(pairs)).T
    return np.stack([sources, targets])


def _time_scales(units: int) -> tuple[Array, Array]:
    """μ_j and β_j, for j = 1 ... units. Source: eq. 33."""
    mu = 1 / (np.arange(1, units + 1) + 1.0)
    return mu, -np.sqrt(ALPHA * (ALPHA - mu))


def _frequencies(name: str, given: Any) -> tuple[float, ...]:
    numbers = tuple(
        amount(f"{name}: frequencies: each", f) for f in listed(f"{name}: frequencies", given, "numbers")
    )
    if not sum(numbers) > 0:
        raise UsageError(f"{name}: frequencies must be >= 0, and not all 0, not {shown(given)}")
    return numbers


@dataclass(eq=False, repr=False)
class _OverGraph(Cell):
    """Random graph, and sums over its edges.

    edges: number of edges that each unit sends, limited to `units`; 10 by default. graph_seed: seed of the random
    graph.
    """

    edges: Count = 10
    graph_seed: CountOrZero = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sources, self.targets = random_edges(self.units, min(self.edges, self.units), self.graph_seed)
        with scope(cell=type(self).__name__):
            self._i, self._j = constant(self.sources, name="i"), constant(self.targets, name="j")

    @classmethod
    def least_weights(cls, *, units: int = 128, edges: int = 10, **settings: Any) -> int:
        return units * min(edges, units)

    def over_edges(self, a: Node, tau: Node) -> Node:
        """Σ_i τ_ij a_i over the edges i → j; tau: (edges,), or (batch, edges)"""
        return scatter_add(take(a, self._i, axis=1) * tau, self._j, self.units, axis=1)


@dataclass(eq=False, repr=False)
class _Integrators(_OverGraph):
    """RNN, GNN and GLNN: a = s(V), with initial weights that make each unit an integrator with its own time scale.

    activation: s, "tanh", "sigmoid" or "linear". frequencies: of the symbols in the data, by which the initial weights
    are centered; equal by default. The source derives initial weights for tanh. Those for the sigmoid give the same
    net, as σ(V) = (1 + tanh(V/2)) / 2: τ_ij is four times that of tanh, and τ_0j twice that less twice the sum of its
    τ_ij.
    """

    frequencies: Sequence[float] | None = None
    activation: Squashing = "tanh"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frequencies is not None:
            self.frequencies = _frequencies(type(self).__name__, self.frequencies)
        self.states = (State(self.states[0].name, initial=self._first_states),)

    def _first_states(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """s(0)"""
        return np.full(shape, 0.5 if self.activation == "sigmoid" else 0.0)

    def s(self, V: Node) -> Node:
        return ACTIVATIONS[self.activation](V)

    def _gated(self, x: Node, a: Node, loops: Array, biases: Initializer) -> Node:
        """τ_0jx + Σ_i τ_ijx a_i, a weight for each edge and symbol; loops, biases: initial τ_jj and τ_0j for tanh"""
        symbols, own = x.shape[1], self._on_loops(loops)
        tau = self.weight("tau", (symbols, len(self.sources)), lambda g, shape: np.broadcast_to(own, shape))
        tau_0 = self.weight("tau_0", (symbols, self.units), self._shifted(biases, loops))
        return x @ tau_0 + self.over_edges(self.recurrent("a", a), x @ tau)

    @property
    def _memories(self) -> Array:
        """1 - 1/j; units count from 1"""
        return 1 - 1 / np.arange(1, self.units + 1.0)

    def _on_loops(self, loops: Array) -> Array:
        """τ of all edges from `loops`, the τ_jj for tanh: 0 between different units."""
        own = 4 * loops if self.activation == "sigmoid" else loops
        return np.where(self.sources == self.targets, own[self.sources], 0.0)

    def _shifted(self, biases: Initializer, loops: Array | float) -> Initializer:
        """Converts an initializer of τ_0j for tanh, with τ_jj = loops, to this activation."""
        if self.activation != "sigmoid":
            return biases
        return lambda generator, shape: 2 * (biases(generator, shape) - loops)

    def _centred(self, scale: Array, generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """scale_j (u_jy - Σ_y' ν_y' u_jy'), u ~ U(0, 1): a random reading of the symbols, 0 in the mean"""
        u = generator.uniform(0, 1, shape)
        if self.frequencies is not None and len(self.frequencies) != shape[0]:
            raise UsageError(
                f"{type(self).__name__}: {len(self.frequencies)} frequencies were given, but x has {shape[0]} values"
            )
        nu = np.array(self.frequencies if self.frequencies is not None else [1.0] * shape[0])
        return scale * (u - (nu / nu.sum()) @ u)

    def _reading(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return self._centred(np.array(0.5), generator, shape)


class GraphRNN(_Integrators):
    """a'_j = s(ρ_jx + τ_0j + Σ_i τ_ij a_i)

    units: width of a, 128 by default. edges: number of edges that each unit sends, 10 by default. graph_seed: seed of
    the random graph. activation: s, "tanh" (default), "sigmoid" or "linear". frequencies: of the symbols in the data,
    by which the initial weights are centered; equal by default. initial: initializers by weight name, see Cell.

    Unit j starts as an integrator of a random reading of the symbols over about j steps: τ_jj = 1 - 1/j with tanh
    (eq. 69), and an equivalent value with the others.
    Source: Ollivier 2013, eqs 8-9.

    >>> net = rnn.Network([rnn.GraphRNN(5, edges=2)], inputs=3, outputs=3)
    >>> {name: node.shape for name, node in net.layers[0].weights.items()}
    {'rho': (3, 5), 'tau': (10,), 'tau_0': (5,)}
    """

    states = (State("a"),)

    def step(self, x: Node, a: Node) -> Node:
        loops = self._memories
        rho = self.weight("rho", (x.shape[1], self.units), self._shifted(self._reading, 0.0))
        tau = self.weight("tau", (len(self.sources),), array(self._on_loops(loops)))
        read = x @ rho + self.over_edges(self.recurrent("a", a), tau)
        return self.s(read + self.weight("tau_0", (self.units,), self._shifted(initializers.zeros(), loops)))


class GNN(_Integrators):
    """V_j = τ_0jx + Σ_i τ_ijx a_i;  a'_j = s(V_j)  (all weights depend on the symbol x)

    units, edges, graph_seed, frequencies, initial: as in GraphRNN. activation: s, "tanh" (default), "sigmoid" or
    "linear"; with "linear" hidden Markov models are a special case.

    Unit j starts as in GraphRNN.
    Source: Ollivier 2013, eqs 10-11.

    >>> net = rnn.Network([rnn.GNN(5, edges=2)], inputs=3, outputs=3)
    >>> {name: node.shape for name, node in net.layers[0].weights.items()}
    {'tau': (3, 10), 'tau_0': (3, 5)}
    """

    states = (State("a"),)

    def step(self, x: Node, a: Node) -> Node:
        return self.s(self._gated(x, a, self._memories, self._reading))


class GLNN(_Integrators):
    """V'_j = V_j + τ_0jx + Σ_i τ_ijx a_i;  a_j = s(V_j)  (as GNN, but V accumulates)

    units, edges, graph_seed, initial: as in GraphRNN. activation: s, "tanh" (default), "sigmoid" or "linear".
    frequencies: ν̃ of eq. 32, of the symbols in the data; equal by default.

    With tanh, τ_jj = -1/2 and the biases (eqs 31-33) make unit j an integrator of a random reading of the symbols over
    about j steps. With the others unit j is the same integrator; a linear one has τ_jj = -1/(j + 1).
    With initial_state="learned" the network starts at V⁰ = s⁻¹(β / α). For eq. 30 use
    rnn.Network(..., initial={"W_ho": zeros(), "b_o": array(np.log(ν))}), with functions of rnn.initializers.
    Source: Ollivier 2013, eqs 13, 30-33, appendix A.

    >>> net = rnn.Network([rnn.GLNN(5, edges=2)], inputs=3, outputs=3, initial_state="learned")
    >>> net.state_names()
    [('V_0', 5)]
    """

    states = (State("V"),)
    output = State("a")

    def step(self, x: Node, V: Node) -> tuple[Node, Node]:
        # The slope of s at V⁰ times -τ_jj is μ_j; a linear unit has the slope 1.
        loops = -_time_scales(self.units)[0] if self.activation == "linear" else np.full(self.units, -ALPHA)
        V = V + self._gated(x, self.s(V), loops, self._readings)
        return self.s(V), V

    def read_off(self, states: Sequence[Node]) -> Node:
        return self.s(states[0])

    def _readings(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        mu, beta = _time_scales(self.units)
        reading = self._centred(mu / 4, generator, shape)
        return reading if self.activation == "linear" else beta + reading

    def _first_states(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """V⁰_j = s⁻¹(β_j / α); a linear unit starts at 0"""
        at = np.arctanh(_time_scales(shape[0])[1] / ALPHA)
        return at * {"tanh": 1.0, "sigmoid": 2.0, "linear": 0.0}[self.activation]


class GraphLSTM(_OverGraph):
    """i, f = σ(x, h, c);  c' = f c + i tanh(x, h);  o = σ(x, h, c');  h' = o tanh(c')  (h has one weight per edge)

    units: width of h and c, 128 by default. edges: number of edges that each unit sends, 10 by default. graph_seed:
    seed of the random graph. initial: initializers by weight name, see Cell; by default all weights ~ U(-0.1, 0.1).

    Each gate reads x W_x· + b_· + Σ_i τ·_ij h_i over the edges i → j. Peepholes are diagonal. In the source, each
    unit of an RNN is replaced by an LSTM cell.
    Source: Ollivier 2013, 4; Graves 2013, eqs 7-11.

    >>> net = rnn.Network([rnn.GraphLSTM(5, edges=2)], inputs=3, outputs=3)
    >>> net.layers[0].weights["tau_i"].shape
    (10,)
    """

    states = (State("h"), State("c"))
    initially: ClassVar[Mapping[str, Initializer]] = {"*": initializers.uniform(0.1)}

    def step(self, x: Node, h: Node, c: Node) -> tuple[Node, Node]:
        h = self.recurrent("h", h)
        i = sigmoid(self._read("i", x, h) + self.diagonal("i", c=c))
        f = sigmoid(self._read("f", x, h) + self.diagonal("f", c=c))
        c = f * c + i * tanh(self._read("c", x, h))
        o = sigmoid(self._read("o", x, h) + self.diagonal("o", c=c))
        return o * tanh(c), c

    def _read(self, to: str, x: Node, h: Node) -> Node:
        """x W_xk + b_k + Σ_i τᵏ_ij h_i, for the gate k"""
        tau = self.weight(f"tau_{to}", (len(self.sources),))
        return self.affine(to, x=x) + self.over_edges(h, tau)
