"""Hypernetworks: a small recurrent net that scales the weights of another one anew at each time step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from graphnet.graph.node import Array, Node
from graphnet.ops.elementwise import sigmoid, tanh
from graphnet.ops.linear import scaled_matmul
from graphnet.ops.shape import concatenate, reshape
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.declaration import State
from graphnet_rnn.cell.initializers import Initializer, constant, normal
from graphnet_rnn.cells.combine import LayerNormLSTM, as_cell, output_or_one, parts_states
from graphnet_rnn.cells.elman import Elman
from graphnet_rnn.cells.lstm import LSTM
from graphnet_rnn.errors import CellError, UsageError
from graphnet_rnn.settings import MANY, Count, shown, whole_number


class Hyper(Cell):
    """a = controller([x, h]);  x W̃ with W̃ = W ∘ S(a) in every product of the main cell

    main: any cell whose products are those of `affine` and `product`, or the number of units of an LSTM; 64 by default.
    controller: any cell, or the number of units of an LSTM; Elman(16) by default. initial: initializers by weight name,
    see Cell.

    rank: None (default) for S = 1 zᵀ, z = a W_ap + b_p, that is (x W) ∘ z: one factor for each column of W (eqs 4-5).
    The source has no b_p; here b_p starts at 1, so that at first the main cell is almost unchanged. A number d for
    S = Σ_i u_i v_iᵀ (eq. 8) with d terms, u = a W_au + b_u, v = a W_av + b_v; no matrix is made for single examples.
    Source: Suarez 2017, eqs 4, 5 and 8; Ha, Dai & Le 2016.

    >>> net = rnn.Network([rnn.Hyper(rnn.Elman(4), rnn.Elman(2))], inputs=3, outputs=3)
    >>> net.state_names()
    [('h_0', 4), ('h_a_0', 2)]
    """

    initially: ClassVar[Mapping[str, Initializer]] = {"W_a*": normal(0.01)}

    def __init__(
        self,
        main: Cell | int = 64,
        controller: Cell | int | None = None,
        rank: int | None = None,
        *,
        initial: Mapping[str, Initializer] | None = None,
    ) -> None:
        self.main = as_cell("Hyper", "main", main)
        self.controller = as_cell("Hyper", "controller", Elman(16) if controller is None else controller)
        for argument, cell in (("main", self.main), ("controller", self.controller)):
            if not cell.causal:
                raise UsageError(f"Hyper: {argument} must be causal, so it cannot be {shown(cell, MANY)}")
        if any(state.width == "reads" for state in self.controller.states):
            raise UsageError(
                f"Hyper: controller must not keep its inputs as states, so it cannot be {shown(self.controller, MANY)}"
            )
        super().__init__(1, initial=initial)
        self.rank = None if rank is None else whole_number("Hyper: rank", rank)
        self.resolve()

    def resolve(self) -> None:
        main = self.main.reading(self.reads)
        controller = self.controller.reading(self.reads + sum(main.widths[:1]))
        names, suffix = {state.name for state in main.returns}, "_a"
        while any(state.name + suffix in names for state in controller.states):
            suffix += "a"
        self.states = [*parts_states(main), *parts_states(controller, suffix)]
        if main.output is not None:
            self.output = State(main.output.name, output_or_one(main))

    def step(self, x: Node, *states: Node) -> tuple[Node, ...]:
        count = len(self.main.states)
        read = concatenate([x, *states[: min(count, 1)]], axis=1)
        a, control = self.part("controller", self.controller, read.shape[1]).advance(read, states[count:])

        scaled_weights = []

        def scaled(name: str, to: str, source: Node, weight: Node) -> Node:
            rows, columns = weight.shape
            scaled_weights.append(weight)
            if self.rank is None:
                z = self.affine(f"p_{name}{to}", a=a, units=columns, bias=1.0)
                return (source @ weight) * z
            u = self._factors(f"u_{name}{to}", a, self.rank, rows)
            v = self._factors(f"v_{name}{to}", a, self.rank, columns, others=0.1)
            return scaled_matmul(source, weight, u, v)

        y, after = self.part("main", self.main, x.shape[1], scaled).advance(x, states[:count])
        if not scaled_weights:
            raise CellError(
                f"Hyper: {self.main!r} uses neither `affine` nor `product`, so there are no weights to scale"
            )
        return (*(() if self.output is None else (y,)), *after, *control)

    def _factors(self, name: str, a: Node, rank: int, width: int, others: float = 0.0) -> Node:
        """a W + b as (batch, rank, width): starts at 1 in the first row and at small numbers in the others."""

        def first_row_of_ones(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
            rows = others * generator.standard_normal((rank, width))
            rows[0] = 1
            return rows.reshape(shape)

        flat = self.affine(name, a=a, units=rank * width, bias=first_row_of_ones)
        return reshape(flat, (-1, rank, width))


@dataclass(eq=False, repr=False)
class HyperLSTM(Cell):
    """a = LSTM([x, h]);  i, f, o, g: y_k = d_hk(a) (h W_hk) + d_xk(a) (x W_xk) + b_k(a);  then as in LSTM

    units: width of h and c, 128 by default. hyper_units: width of the controller's states h_a and c_a, 16 by default.
    embedding: width of z, 4 by default. layer_norm: True normalizes each y_k, the c' that h' reads, and the controller.
    initial: initializers by weight name, see Cell.

    d_hk = z_hk D_hk, z_hk = a W_azhk + b_zhk, and likewise for x and b: the scales are linear in a narrow embedding z.
    They start at 0.1. The gates read a of the same time step, as in Suarez 2017.
    Source: Ha, Dai & Le 2016, eqs 10-13.

    >>> net = rnn.Network([rnn.HyperLSTM(4, hyper_units=2)], inputs=3, outputs=3)
    >>> net.state_names()
    [('h_0', 4), ('c_0', 4), ('h_a_0', 2), ('c_a_0', 2)]
    """

    hyper_units: Count = 16
    embedding: Count = 4
    layer_norm: bool = False

    states = (State("h"), State("c"), State("h_a", "hyper_units"), State("c_a", "hyper_units"))
    sizes = ("units", "hyper_units")
    initially: ClassVar[Mapping[str, Initializer]] = {"W_az*": constant(0.0), "W_azb*": normal(0.01)}

    def step(self, x: Node, h: Node, c: Node, h_a: Node, c_a: Node) -> tuple[Node, ...]:
        controller = LayerNormLSTM(self.hyper_units) if self.layer_norm else LSTM(self.hyper_units)
        read = concatenate([x, h], axis=1)
        a, (h_a, c_a) = self.part("controller", controller, read.shape[1]).advance(read, (h_a, c_a))
        i = sigmoid(self._gate("i", x, h, a))
        f = sigmoid(self._gate("f", x, h, a, bias=1.0))
        o = sigmoid(self._gate("o", x, h, a))
        g = tanh(self._gate("g", x, h, a))
        c = f * c + i * g
        return o * tanh(self.normalized("c", c) if self.layer_norm else c), c, h_a, c_a

    def _gate(self, k: str, x: Node, h: Node, a: Node, bias: float = 0.0) -> Node:
        e = self.embedding
        d_h = self.affine(f"zh{k}", a=a, units=e, bias=1.0) @ self._spread(f"D_h{k}", 0.1 / e)
        d_x = self.affine(f"zx{k}", a=a, units=e, bias=1.0) @ self._spread(f"D_x{k}", 0.1 / e)
        b = self.product("a", f"zb{k}", a, e) @ self._spread(f"D_b{k}", 0.0)
        y = d_h * self.product("h", k, h) + d_x * self.product("x", k, x) + b
        if not self.layer_norm:
            return y + self.weight(f"b_{k}", (self.units,), constant(bias))
        # The norm removes a shift that all units share, so the bias is added after it.
        return self.normalized(k, y + self.weight(f"b_{k}", (self.units,)), shift=bias)

    def _spread(self, name: str, value: float) -> Node:
        return self.weight(name, (self.embedding, self.units), constant(value))
