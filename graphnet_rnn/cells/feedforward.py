"""Layers without memory, and deep autoencoders made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from graphnet.graph.node import Node
from graphnet.ops.elementwise import relu, sigmoid, softplus, tanh
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.declaration import State
from graphnet_rnn.cell.initializers import Initializer
from graphnet_rnn.settings import one_of

#: name -> φ
ACTIVATIONS: dict[str, Callable[[Node], Node]] = {
    "tanh": tanh,
    "sigmoid": sigmoid,
    "relu": relu,
    "softplus": softplus,
    "linear": lambda a: a,
}

Activation = Annotated[str, partial(one_of, choices=tuple(ACTIVATIONS))]

#: The encoders of Sutskever 2013, table 7.2 (after Hinton & Salakhutdinov 2006): pixels, hidden layers, code.
AUTOENCODERS: dict[str, tuple[int, ...]] = {
    "CURVES": (784, 400, 200, 100, 50, 25, 6),
    "MNIST": (784, 1000, 500, 250, 30),
    "FACES": (625, 2000, 1000, 500, 30),
}


@dataclass(eq=False, repr=False)
class Dense(Cell):
    """y = φ(x W_xy + b_y)

    units: width of y, 128 by default. activation: φ, "tanh" by default; a name in rnn.cells.feedforward.ACTIVATIONS.
    bias: False for no b_y. initial: initializers by weight name, see Cell.

    A layer without memory. A deep feedforward net is a network of such layers, unrolled over one time step.
    Source: Sutskever 2013, 2.4.

    >>> net = rnn.Network([rnn.Dense(8, activation="relu"), rnn.Dense(4)], inputs=3, outputs=2)
    >>> net.theta.size
    78
    """

    activation: Activation = "tanh"
    bias: bool = True

    output = State("y")

    def step(self, x: Node) -> Node:
        return ACTIVATIONS[self.activation](self.affine("y", x=x, bias=0.0 if self.bias else None))


def autoencoder_layers(
    sizes: tuple[int, ...], activation: str = "sigmoid", initial: Mapping[str, Initializer] | None = None
) -> list[Dense]:
    """All layers of x → code → x except the last, which rnn.Network adds; the code is linear.

    sizes: widths of the input, the hidden layers and the code. activation: of the hidden layers, "sigmoid" by default.
    initial: initializers by weight name.
    With the output layer:
    rnn.Network(autoencoder_layers(AUTOENCODERS["CURVES"]), inputs=784, outputs=784, loss="sigmoid").
    Source: Hinton & Salakhutdinov 2006; Sutskever 2013, 7.3.
    """
    hidden, code = sizes[1:-1], sizes[-1]
    widths = [(n, activation) for n in hidden] + [(code, "linear")] + [(n, activation) for n in hidden[::-1]]
    return [Dense(units, kind, initial=initial) for units, kind in widths]
