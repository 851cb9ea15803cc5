"""Recurrent nets over a sparse random graph, with weights for each symbol: RNN, GNN and GLNN of Ollivier (2013).

i → j: edges, of which each unit sends `edges`, one to itself; a_i = tanh(V_i); τ_ij are the weights `tau`, in the order
of the edges. The always-active unit 0 gives biases: τ_0j is `tau_0`, and w_0 is the b_o of the network. A step costs
O(edges), and x is looked up, not multiplied, where it is a symbol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphnet import constant, scatter_add, scope, take, tanh
from graphnet.memory import require_memory
from graphnet.node import Array, Node
from graphnet_rnn.cell import Cell
from graphnet_rnn.declaration import State
from graphnet_rnn.errors import UsageError
from graphnet_rnn.initializers import Initializer, array
from graphnet_rnn.settings import amount, listed, shown, whole_number

__all__ = ["GLNN", "GNN", "GraphRNN", "random_edges"]

ALPHA = 0.5  # α of eq. 33
#: Of each edge, while the graph is drawn.
EDGE_BYTES = 300


def random_edges(units: int, edges: int, seed: int) -> Array:
    """(2, units · edges): from and to, sorted by the latter; each unit sends `edges`, all distinct, one to itself.

    The same for ever, whatever the version of NumPy: it is made of the raw bits of PCG64 alone.
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


def _first_potentials(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """V⁰_j = tanh⁻¹(β_j / α)"""
    return np.arctanh(_time_scales(shape[0])[1] / ALPHA)


def _frequencies(name: str, given: Any) -> tuple[float, ...]:
    numbers = tuple(
        amount(f"{name}: frequencies: each", f) for f in listed(f"{name}: frequencies", given, "numbers")
    )
    if not sum(numbers) > 0:
        raise UsageError(f"{name}: frequencies must be >= 0, and not all 0; they are {shown(given)}")
    return numbers


class _OverGraph(Cell):
    """What the three share: the graph, and sums over its edges.

    edges: how many each unit sends, at most as many as there are units. graph_seed: of the random graph.
    frequencies: of the symbols in the data, by which the initial weights are centred; equal by default.
    """

    def __init__(
        self,
        units: int = 128,
        edges: int = 10,
        graph_seed: int = 0,
        frequencies: Sequence[float] | None = None,
        *,
        initial: Mapping[str, Initializer] | None = None,
    ) -> None:
        name = type(self).__name__
        super().__init__(units, initial=initial)
        self.edges = whole_number(f"{name}: edges", edges)
        self.graph_seed = whole_number(f"{name}: graph_seed", graph_seed, least=0)
        self.frequencies = None if frequencies is None else _frequencies(name, frequencies)
        self.sources, self.targets = random_edges(self.units, min(self.edges, self.units), self.graph_seed)
        with scope(cell=name):
            self._i, self._j = constant(self.sources, name="i"), constant(self.targets, name="j")

    @classmethod
    def least_weights(cls, *, units: int = 128, edges: int = 10, **settings: Any) -> int:
        return units * min(edges, units)

    def over_edges(self, a: Node, tau: Node) -> Node:
        """Σ_i τ_ij a_i over the edges i → j; tau: (edges,), or (batch, edges)"""
        a = self.recurrent("a", a)
        return scatter_add(take(a, self._i, axis=1) * tau, self._j, self.units, axis=1)

    def _gated(self, x: Node, a: Node, loops: Array, biases: Initializer) -> Node:
        """τ_0jx + Σ_i τ_ijx a_i, a weight for each edge and symbol"""
        symbols = x.shape[1]
        tau = self.weight("tau", (symbols, len(self.sources)), lambda g, shape: np.broadcast_to(loops, shape))
        tau_0 = self.weight("tau_0", (symbols, self.units), biases)
        return x @ tau_0 + self.over_edges(a, x @ tau)

    def _one_over(self) -> Array:
        """1/i at each edge i → j; units count from 1"""
        return 1 / (self.sources + 1.0)

    def _on_loops(self, value: Array | float) -> Array:
        """The value at edges i → i, 0 at the others."""
        return np.where(self.sources == self.targets, value, 0.0)

    def _centred(self, scale: Array, generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """scale_j (u_jy - Σ_y' ν_y' u_jy'), u ~ U(0, 1): a random reading of the symbols, 0 in the mean"""
        u = generator.uniform(0, 1, shape)
        if self.frequencies is not None and len(self.frequencies) != shape[0]:
            raise UsageError(
                f"{type(self).__name__}: {len(self.frequencies)} frequencies were given, but x has {shape[0]} values"
            )
        nu = np.array(self.frequencies if self.frequencies is not None else [1.0] * shape[0])
        return scale * (u - (nu / nu.sum()) @ u)


class GraphRNN(_OverGraph):
    """a'_j = tanh(ρ_jx + τ_0j + Σ_i τ_ij a_i)

    Unit j starts as an integrator of a random reading of the symbols over about j steps: τ_jj = 1 - 1/j (eq. 69).
    Source: Ollivier 2013, eqs 8-9.
    """

    states = (State("a"),)

    def step(self, x: Node, a: Node) -> Node:
        rho = self.weight("rho", (x.shape[1], self.units), lambda g, s: self._centred(np.array(0.5), g, s))
        tau = self.weight("tau", (len(self.sources),), array(self._on_loops(1 - self._one_over())))
        return tanh(x @ rho + self.over_edges(a, tau) + self.weight("tau_0", (self.units,)))


class GNN(_OverGraph):
    """V_j = τ_0jx + Σ_i τ_ijx a_i;  a'_j = tanh(V_j): gated, as all weights depend on the symbol x

    Source: Ollivier 2013, eqs 10-11. Unit j starts as in GraphRNN.
    """

    states = (State("a"),)

    def step(self, x: Node, a: Node) -> Node:
        loops = self._on_loops(1 - self._one_over())
        return tanh(self._gated(x, a, loops, lambda g, s: self._centred(np.array(0.5), g, s)))


class GLNN(_OverGraph):
    """V'_j = V_j + τ_0jx + Σ_i τ_ijx a_i;  a_j = tanh(V_j): gated and leaky

    τ_jj = -1/2 and the biases (eqs 31-33) make unit j an integrator of a random reading of the symbols over about j
    steps. edges: how many each unit sends; frequencies: ν̃ of eq. 32. V⁰ = tanh⁻¹(β / α) with initial_state="learned";
    eq. 30 is rnn.Network(..., initial={"W_ho": zeros(), "b_o": array(np.log(ν))}), of rnn.initializers.
    Source: Ollivier 2013, eqs 13, 30-33.
    """

    states = (State("V", initial=_first_potentials),)
    output = State("a")

    def step(self, x: Node, V: Node) -> tuple[Node, Node]:
        V = V + self._gated(x, tanh(V), self._on_loops(-ALPHA), self._biases)
        return tanh(V), V

    def _biases(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        mu, beta = _time_scales(self.units)
        return beta + self._centred(mu / 4, generator, shape)
