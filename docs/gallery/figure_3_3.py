"""Draw shared weights

A network whose two hidden layers share their weights: W_1 has two paths to the cost.
"""

import numpy as np

import graphnet as gn
import viz

X, y = gn.input((20, 3), name="X"), gn.input((20, 1), name="y")
W1 = gn.parameter(np.ones((3, 3), "float32"), name="W_1")
W2 = gn.parameter(np.ones((3, 1), "float32"), name="W_2")

h1 = gn.label(gn.tanh(X @ W1), "h1")
h2 = gn.label(gn.tanh(h1 @ W1), "h2")
y_hat = gn.label(h2 @ W2, "y_hat")
with gn.scope(cell="SSE"):
    sse = gn.sum((y_hat - y) ** 2)

pictures = {"": viz.draw(sse, closed=True)}
