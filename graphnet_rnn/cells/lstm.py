"""Long short-term memory in six forms.

i, f, o: input, forget and output gates; g: the new content; c, s, m: the memory cells, as each source calls them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from graphnet.graph.node import Node
from graphnet.ops.elementwise import sigmoid, tanh
from graphnet.ops.leaf import stop_gradient
from graphnet.ops.shape import concatenate
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.declaration import State
from graphnet_rnn.cell.initializers import Initializer, normal, sparse, spread
from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import MANY, Count, shown


class LSTM(Cell):
    """i, f, o = σ(x W_x· + h W_h· + b_·);  g = tanh(x W_xg + h W_hg + b_g);  c' = f c + i g;  h' = o tanh(c')

    units: width of h and c, 128 by default. initial: initializers by weight name, see Cell.

    b_f starts between 0 and 2, with a different value for each unit, and b_i at -b_f: time scales differ between units,
    and a unit with a long memory takes less in (after Tallec & Ollivier 2018, 3). For b_f = 1 as in Jozefowicz et al.
    2015 use initial={"b_f": rnn.initializers.constant(1), "b_i": rnn.initializers.zeros()}.
    Source: Hochreiter & Schmidhuber 1997; forget gate, Gers et al. 2000.

    >>> net = rnn.Network([rnn.LSTM(4)], inputs=3, outputs=2)
    >>> net.state_names(), net.theta.size
    ([('h_0', 4), ('c_0', 4)], 138)
    """

    states = (State("h"), State("c"))

    def step(self, x: Node, h: Node, c: Node) -> tuple[Node, Node]:
        i = sigmoid(self.affine("i", x=x, h=h, bias=spread(0.0, -2.0)))
        f = sigmoid(self.affine("f", x=x, h=h, bias=spread(0.0, 2.0)))
        o = sigmoid(self.affine("o", x=x, h=h))
        g = tanh(self.affine("g", x=x, h=h))
        c = f * c + i * g
        return o * tanh(c), c


@dataclass(eq=False, repr=False)
class LSTMProjected(LSTM):
    """i, f, o, c' as in LSTM;  m = o tanh(c');  h' = m W_mh  (h has fewer units than m)

    units: width of c and m, 128 by default. projection: width of h, 32 by default. initial: initializers by weight
    name, see Cell.

    Gates and the layers above read the projection, so a large memory has few recurrent weights: 4 · units · projection
    instead of 4 · units². Peepholes and non-recurrent projections of the source are left out.
    Source: Sak, Senior & Beaufays 2014, eqs 8-14; torch.nn.LSTM(proj_size=).

    >>> net = rnn.Network([rnn.LSTMProjected(4, projection=2)], inputs=3, outputs=2)
    >>> net.state_names()
    [('h_0', 2), ('c_0', 4)]
    """

    projection: Count = 32

    sizes = ("units", "projection")
    states = (State("h", "projection"), State("c"))

    def step(self, x: Node, h: Node, c: Node) -> tuple[Node, Node]:
        m, c = super().step(x, h, c)
        return self.product("m", "h", m, self.projection), c


class LSTMPeephole(Cell):
    """i, f = σ(x, h, c);  c' = f c + i tanh(x, h);  o = σ(x, h, c');  h' = o tanh(c')  (c has one weight per unit)

    units: width of h and c, 128 by default. initial: initializers by weight name, see Cell.

    The output gate o reads the new c, as in Graves 2013; in Lynge 2016, eq. 3.72, it reads the old c.
    Source: Graves 2013, eqs 7-11.

    >>> net = rnn.Network([rnn.LSTMPeephole(4)], inputs=3, outputs=2)
    >>> [name for name in net.layers[0].weights if name.startswith("w")]
    ['w_ci', 'w_cf', 'w_co']
    """

    states = (State("h"), State("c"))

    def step(self, x: Node, h: Node, c: Node) -> tuple[Node, Node]:
        i = sigmoid(self.affine("i", x=x, h=h) + self.diagonal("i", c=c))
        f = sigmoid(self.affine("f", x=x, h=h, bias=1.0) + self.diagonal("f", c=c))
        c = f * c + i * tanh(self.affine("c", x=x, h=h))
        o = sigmoid(self.affine("o", x=x, h=h) + self.diagonal("o", c=c))
        return o * tanh(c), c


class LSTM1997(Cell):
    """g = x W_xg + h W_hg;  i, o = σ(x, h);  s' = s + i g;  h' = tanh(s' o)  (no forget gate, no biases)

    units: width of h and s, 128 by default. initial: initializers by weight name, see Cell.

    The memory has a self-connection of 1.
    Source: Hochreiter & Schmidhuber 1997, as in Krause 2015, eqs 2.11-2.15.

    >>> net = rnn.Network([rnn.LSTM1997(4)], inputs=3, outputs=2)
    >>> list(net.layers[0].weights)
    ['W_xg', 'W_hg', 'W_xi', 'W_hi', 'W_xo', 'W_ho']
    """

    states = (State("h"), State("s"))
    initially: ClassVar[Mapping[str, Initializer]] = {"W_*": normal(0.1)}

    def step(self, x: Node, h: Node, s: Node) -> tuple[Node, Node]:
        g = self.affine("g", x=x, h=h, bias=None)
        i = sigmoid(self.affine("i", x=x, h=h, bias=None))
        o = sigmoid(self.affine("o", x=x, h=h, bias=None))
        s = s + i * g
        return tanh(s * o), s


class LSTMKrause(Cell):
    """g = x W_xg + h W_hg (linear);  i, f, o = σ(x, h);  s' = i g + f s;  h' = tanh(s' o)  (no biases)

    units: width of h and s, 128 by default. initial: initializers by weight name, see Cell.

    By default, all weights ~ N(0, 0.1²), as in section 4.3 of the source.
    Source: Krause 2015, 2.2, algorithm 2.

    >>> net = rnn.Network([rnn.LSTMKrause(4)], inputs=3, outputs=2)
    >>> net.layers[0].weights["W_xg"].shape
    (3, 4)
    """

    states = (State("h"), State("s"))
    initially: ClassVar[Mapping[str, Initializer]] = {"W_*": normal(0.1)}

    def step(self, x: Node, h: Node, s: Node) -> tuple[Node, Node]:
        g = self.affine("g", x=x, h=h, bias=None)
        i = sigmoid(self.affine("i", x=x, h=h, bias=None))
        f = sigmoid(self.affine("f", x=x, h=h, bias=None))
        o = sigmoid(self.affine("o", x=x, h=h, bias=None))
        s = i * g + f * s
        return tanh(s * o), s


class LSTMSutskever(Cell):
    """h' = tanh(x, h, n);  i, f, o = σ(x, h', n);  g = tanh(x, h', n);  m' = f m + i g;  n' = m' o;  y = [h', n']

    units: width of h, n and m, 128 by default; the output has twice this width. initial: initializers by weight name,
    see Cell.

    A plain hidden layer h and a memory m in parallel; the rest of the net reads n (m̃ in the source). The only bias is
    that of the forget gate, 5. By default, weights are sparse and ~ N(0, 0.1²), as in section 4.5 of the source.
    Source: Sutskever 2013, eqs 2.37-2.44.

    >>> net = rnn.Network([rnn.LSTMSutskever(4)], inputs=3, outputs=2)
    >>> net.layers[0].output_width, net.parameters["output.W_ho"].shape
    (8, (8, 2))
    """

    states = (State("h"), State("n"), State("m"))
    output = State("y", "both")
    initially: ClassVar[Mapping[str, Initializer]] = {"W_*": sparse(15, 0.1)}

    @property
    def both(self) -> int:
        return 2 * self.units

    def step(self, x: Node, h: Node, n: Node, m: Node) -> tuple[Node, Node, Node, Node]:
        h = tanh(self.affine("h", x=x, h=h, n=n, bias=None))
        i = sigmoid(self.affine("i", x=x, h=h, n=n, bias=None))
        f = sigmoid(self.affine("f", x=x, h=h, n=n, bias=5.0))
        o = sigmoid(self.affine("o", x=x, h=h, n=n, bias=None))
        g = tanh(self.affine("g", x=x, h=h, n=n, bias=None))
        m = f * m + i * g
        n = m * o
        return self.read_off((h, n)), h, n, m

    def read_off(self, states: Sequence[Node]) -> Node:
        return concatenate(states[:2], axis=1)


#: Name of the memory state, by form of LSTM.
MEMORY: dict[type[Cell], str] = {
    LSTM: "c",
    LSTMPeephole: "c",
    LSTM1997: "s",
    LSTMKrause: "s",
    LSTMSutskever: "m",
}


def without_recurrent_errors(cell: Cell) -> Cell:
    """Returns the bound cell with h constant to derivatives in its products h W.

    Raises UsageError for a cell that is not in MEMORY.
    """
    # Not isinstance: a subclass may have other equations.
    if type(cell) not in MEMORY:
        forms = ", ".join(form.__name__ for form in MEMORY)
        raise UsageError(
            f"truncated: {shown(cell, MANY)} cannot be truncated; the rule is defined for {forms}, and "
            "layers without states. For the exact gradient of any network, online, use rnn.online.RTRL."
        )
    result = copy.copy(cell)
    result._connect = _cut
    return result


def _cut(name: str, to: str, source: Node, weight: Node) -> Node:
    return (source if name == "x" else stop_gradient(source)) @ weight
