"""Draw a feed-forward network

A network with two hidden layers, with the cost as one node: (a) the default style, (b) the compact style.
"""

import numpy as np

import graphnet as gn
import viz

X, y = gn.input((20, 3), name="X"), gn.input((20, 1), name="y")


def layer(x: gn.Node, units: int, number: int) -> gn.Node:
    W = gn.parameter(np.ones((x.shape[1], units), "float32"), name=f"W_{number}")
    b = gn.parameter(np.ones((20, units), "float32"), name=f"b_{number}")
    return x @ W + b


h1 = gn.label(gn.tanh(layer(X, 4, 1)), "h1")
h2 = gn.label(gn.tanh(layer(h1, 4, 2)), "h2")
y_hat = gn.label(layer(h2, 1, 3), "y_hat")
with gn.scope(cell="SSE"):
    sse = gn.sum((y_hat - y) ** 2)

pictures = {"a": viz.draw(sse, closed=True), "b": viz.draw(sse, "compact", closed=True)}
