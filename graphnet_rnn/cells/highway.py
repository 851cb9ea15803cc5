"""Recurrent highway networks, plain and with weights scaled by a smaller one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphnet.graph.node import Node
from graphnet.graph.provenance import scope
from graphnet.ops.elementwise import sigmoid, tanh
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.declaration import State
from graphnet_rnn.cell.tracing import require_equations
from graphnet_rnn.settings import Count, Fraction


@dataclass(eq=False, repr=False)
class RHN(Cell):
    """for l = 0 ... L-1:  h = tanh(x W_xh + s W_sh^l);  t = σ(x W_xt + s W_st^l);  s ← (1 - t) s + dropout(t) h
    (x only for l = 0)

    units: width of s, 128 by default. depth: L, highway layers in each time step, 7 by default. t_dropout: share of t
    that is zeroed in training, 0 by default (0.35 in the source). initial: initializers by weight name, see Cell.

    W_st3 leads from s to t in the fourth of the L layers.
    Source: Suarez 2017, eq. 3, after Zilly et al. 2017.

    >>> net = rnn.Network([rnn.RHN(4, depth=2)], inputs=3, outputs=3)
    >>> list(net.layers[0].weights)
    ['W_xh0', 'W_sh0', 'W_xt0', 'W_st0', 'W_sh1', 'W_st1']
    """

    depth: Count = 7
    t_dropout: Fraction = 0.0

    states = (State("s"),)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_equations("RHN: depth", self.depth, each=2)

    def step(self, x: Node, s: Node) -> Node:
        for l in range(self.depth):
            sources: dict[str, Any] = {"x": x, "s": s} if l == 0 else {"s": s}
            with scope(block=l):
                h = tanh(self.affine(f"h{l}", bias=None, **sources))
                t = sigmoid(self.affine(f"t{l}", bias=None, **sources))
                s = (1 - t) * s + self.dropout(f"t{l}", t, self.t_dropout) * h
        return s


@dataclass(eq=False, repr=False)
class HyperRHN(Cell):
    """for l = 0 ... L-1:  a ← layer l of a small RHN with state a;  z = a W_az^l;  h = tanh((x W_xh + s W_sh^l) z);
    t = σ((x W_xt + s W_st^l) z);  s ← (1 - t) s + dropout(t) h  (x only for l = 0)

    units: width of s, 128 by default. hyper_units: width of a, 16 by default. depth: L, highway layers in each time
    step, 7 by default. t_dropout: share of both t that is zeroed in training, 0 by default. initial: initializers by
    weight name, see Cell.

    A small highway network (state a) scales the columns of all weights of a large one (state s), at each depth:
    (x W_xh) z is x with the columns of W_xh scaled by z. W_az^l is called W_az0, W_az1, ...; the weights of the small
    net end in _a.
    The source has 1000 units, 128 hyper units, depth 7 and a dropout rate of 0.35 for both t.
    Source: Suarez 2017, eqs 6-7.

    >>> net = rnn.Network([rnn.HyperRHN(4, hyper_units=2, depth=1)], inputs=3, outputs=3)
    >>> net.state_names()
    [('s_0', 4), ('a_0', 2)]
    """

    hyper_units: Count = 16
    depth: Count = 7
    t_dropout: Fraction = 0.0

    states = (State("s"), State("a", "hyper_units"))
    sizes = ("units", "hyper_units")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_equations("HyperRHN: depth", self.depth, each=4)

    def step(self, x: Node, s: Node, a: Node) -> tuple[Node, Node]:
        for l in range(self.depth):
            first: dict[str, Any] = {"x": x} if l == 0 else {}
            with scope(block=l):
                h = tanh(self.affine(f"h{l}_a", bias=None, units=self.hyper_units, **first, a=a))
                t = sigmoid(self.affine(f"t{l}_a", bias=None, units=self.hyper_units, **first, a=a))
                a = (1 - t) * a + self.dropout(f"t{l}_a", t, self.t_dropout) * h
                z = self.product("a", f"z{l}", a)
                h = tanh(self.affine(f"h{l}", bias=None, **first, s=s) * z)
                t = sigmoid(self.affine(f"t{l}", bias=None, **first, s=s) * z)
                s = (1 - t) * s + self.dropout(f"t{l}", t, self.t_dropout) * h
        return s, a
