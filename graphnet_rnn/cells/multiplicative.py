"""Cells whose recurrent weights depend on the input: by a tensor, by factors, and with memory cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from graphnet.graph.node import Node
from graphnet.ops.elementwise import sigmoid, tanh
from graphnet.ops.shape import concatenate, reshape
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.declaration import State
from graphnet_rnn.cell.initializers import Initializer, glorot, normal, orthogonal, stacked
from graphnet_rnn.settings import Count, has_items, whole_number


class TensorRNN(Cell):
    """h' = tanh(x W_xh + h W^(x) + b_h),  W^(x) = Σ_k x_k W_hh[k]  (one recurrent matrix for each symbol)

    units: width of h, 128 by default. initial: initializers by weight name, see Cell.

    If x is a symbol, its matrix is looked up.
    Source: Sutskever 2013, eqs 5.1 and 5.3.

    >>> net = rnn.Network([rnn.TensorRNN(4)], inputs=3, outputs=3)
    >>> net.layers[0].weights["W_hh"].shape
    (3, 4, 4)
    """

    states = (State("h"),)

    def step(self, x: Node, h: Node) -> Node:
        symbols, n = x.shape[1], self.units
        matrices = self.weight("W_hh", (symbols, n, n), stacked(glorot()))
        chosen = reshape(x @ reshape(matrices, (symbols, n * n)), (-1, n, n))
        return tanh(self.affine("h", x=x) + (self.recurrent("h", h)[:, None, :] @ chosen)[:, 0, :])


@dataclass(eq=False, repr=False)
class MRNN(Cell):
    """m = (x W_xm) (h W_hm);  h' = tanh(m W_mh + x W_xh + b_h)

    units: width of h, 128 by default. factors: width of m; `units` by default. initial: initializers by weight name,
    see Cell.

    By default, all weights ~ N(0, 0.05²), as in Krause 2015, 4.2.
    Source: Sutskever 2013, eqs 5.4-5.6; Krause 2015, eq. 2.20.

    >>> net = rnn.Network([rnn.MRNN(4, factors=5)], inputs=3, outputs=3)
    >>> net.layers[0].weights["W_hm"].shape
    (4, 5)
    """

    factors: Count | None = None

    states = (State("h"),)
    sizes = ("units", "factors")
    initially: ClassVar[Mapping[str, Initializer]] = {"W_*": normal(0.05)}

    def step(self, x: Node, h: Node) -> Node:
        width = self.factors or self.units
        m = self.product("x", "m", x, width) * self.product("h", "m", h, width)
        return tanh(self.affine("h", m=m, x=x))


class StackedMRNN(Cell):
    """m^l = (x W_xm^l) (h^l W_hm^l);  h^l' = tanh(x W_xh^l + m^l W_mh^l + h^{l-1}' W_gh^l + b_h^l);  y = [h^1', ...]

    units: width of each layer, (64, 56, 48) by default. initial: initializers by weight name, see Cell.

    Every layer reads x, the layer below (called g in W_gh) and itself. The output reads all layers.
    By default, all weights ~ N(0, 0.05²).
    Source: Krause 2015, eqs 4.4-4.6.

    >>> net = rnn.Network([rnn.StackedMRNN((4, 2))], inputs=3, outputs=3)
    >>> net.state_names(), net.layers[0].output_width
    ([('h1_0', 4), ('h2_0', 2)], 6)
    """

    initially: ClassVar[Mapping[str, Initializer]] = {"W_*": normal(0.05)}

    def __init__(
        self, units: Sequence[int] = (64, 56, 48), *, initial: Mapping[str, Initializer] | None = None
    ) -> None:
        given = units if has_items(units) else (units,)
        widths = tuple(whole_number("StackedMRNN: a layer's units", n) for n in given)
        super().__init__(sum(widths), initial=initial)
        self.units: tuple[int, ...] = widths  # type: ignore[assignment]
        self.states = [State(f"h{l}", n) for l, n in enumerate(widths, start=1)]
        self.output = State("y", sum(widths))

    def step(self, x: Node, *states: Node) -> tuple[Node, ...]:
        after: list[Node] = []
        for l, (h, n) in enumerate(zip(states, self.units, strict=True), start=1):
            m = self.product("x", f"m{l}", x, n) * self.product("h", f"m{l}", h, n)
            below: dict[str, Any] = {"g": after[-1]} if after else {}
            after.append(tanh(self.affine(f"h{l}", x=x, m=m, **below, units=n)))
        return concatenate(after, axis=1), *after


class MultiplicativeLSTM(Cell):
    """m = (x W_xm) (h W_hm);  i, f, o = σ(x, m);  g = x W_xg + m W_mg;  s' = i g + f s;  h' = tanh(s' o)  (no biases)

    units: width of m, h and s, 128 by default. initial: initializers by weight name, see Cell.

    W_hm starts orthogonal, and all other weights ~ N(0, 0.1²). The source draws W_hm from N(0, 0.1²) as well, with
    which nets of 512 units do not learn; initial={"W_hm": rnn.initializers.normal(0.1)} does the same.
    Source: Krause 2015, eqs 4.7-4.10, algorithm 7.

    >>> net = rnn.Network([rnn.MultiplicativeLSTM(4)], inputs=3, outputs=3)
    >>> list(net.layers[0].weights)
    ['W_xm', 'W_hm', 'W_xi', 'W_mi', 'W_xf', 'W_mf', 'W_xo', 'W_mo', 'W_xg', 'W_mg']
    """

    states = (State("h"), State("s"))
    initially: ClassVar[Mapping[str, Initializer]] = {"W_*": normal(0.1), "W_hm": orthogonal()}

    def step(self, x: Node, h: Node, s: Node) -> tuple[Node, Node]:
        m = self.product("x", "m", x) * self.product("h", "m", h)
        i = sigmoid(self.affine("i", x=x, m=m, bias=None))
        f = sigmoid(self.affine("f", x=x, m=m, bias=None))
        o = sigmoid(self.affine("o", x=x, m=m, bias=None))
        g = self.affine("g", x=x, m=m, bias=None)
        s = i * g + f * s
        return tanh(s * o), s
