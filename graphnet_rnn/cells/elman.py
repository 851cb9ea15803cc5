"""Vanilla recurrent networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from graphnet.graph.node import Node
from graphnet.ops.elementwise import tanh
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.declaration import State
from graphnet_rnn.cell.initializers import Initializer, orthogonal
from graphnet_rnn.cell.tracing import require_equations
from graphnet_rnn.settings import CountOrZero


class Elman(Cell):
    """h' = tanh(x W_xh + h W_hh + b_h)

    units: width of h, 128 by default. initial: initializers by weight name, see Cell.

    W_hh starts as 0.7 times an orthogonal matrix. States then fade, which keeps large nets stable. For long memory, use
    initial={"W_hh": rnn.initializers.orthogonal()}.
    Source: Elman 1990; Lynge 2016, eq. 3.32.

    >>> net = rnn.Network([rnn.Elman(4)], inputs=3, outputs=3)
    >>> {name: node.shape for name, node in net.layers[0].weights.items()}
    {'W_xh': (3, 4), 'W_hh': (4, 4), 'b_h': (4,)}
    """

    states = (State("h"),)
    initially: ClassVar[Mapping[str, Initializer]] = {"W_hh": orthogonal(0.7)}

    def step(self, x: Node, h: Node) -> Node:
        return tanh(self.affine("h", x=x, h=h))


@dataclass(eq=False, repr=False)
class NARX(Cell):
    """h_t = tanh(Σ_{k=0..taps} x_{t-k} W_xkh + Σ_{k=1..order} h_{t-k} W_hkh + b_h)

    units: width of h, 128 by default. order: number of earlier outputs that are read, 3 by default. taps: number of
    earlier inputs, besides the current one, 2 by default; with order=0 the cell is a time-delay network. initial:
    initializers by weight name, see Cell.

    The delayed values are states h1, h2, ... and x1, x2, ...; x_t is x0 in the names of weights.
    Source: Lin et al. 1996; Waibel et al. 1989; Sutskever 2013, 2.8.2.

    >>> net = rnn.Network([rnn.NARX(4, order=2, taps=1)], inputs=3, outputs=3)
    >>> list(net.layers[0].weights)
    ['W_x0h', 'W_x1h', 'W_h1h', 'W_h2h', 'b_h']
    """

    order: CountOrZero = 3
    taps: CountOrZero = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        require_equations("NARX: order", self.order)
        require_equations("NARX: taps", self.taps)
        outputs = [State(f"h{k}") for k in range(1, self.order + 1)]
        self.states = [*outputs, *(State(f"x{k}", "reads") for k in range(1, self.taps + 1))]
        if not outputs:
            self.output = State("h")

    @classmethod
    def least_weights(cls, *, order: int = 3, taps: int = 2, **settings: Any) -> int:
        return order + taps

    def step(self, x: Node, *delayed: Node) -> tuple[Node, ...]:
        outputs, inputs = delayed[: self.order], (x, *delayed[self.order :])
        sources: dict[str, Any] = {f"x{k}": node for k, node in enumerate(inputs)}
        sources |= {f"h{k}": node for k, node in enumerate(outputs, start=1)}
        h = tanh(self.affine("h", **sources))
        return h, *outputs[:-1], *inputs[: self.taps]
