"""Draw a cost function

The sum of squared errors as a graph of nodes: (a) every node, (b) the cost as one node.
"""

import numpy as np

import graphnet as gn
import viz

X, y = gn.input((20, 3), name="X"), gn.input((20, 1), name="y")
W = gn.parameter(np.ones((3, 1), "float32"), name="W_est")
b = gn.parameter(np.ones((20, 1), "float32"), name="b")

y_est = gn.label(X @ W + b, "y_est")
with gn.scope(cell="SSE"):
    error = y_est - y
    sse = gn.sum(error.T @ error)

pictures = {"a": viz.draw(sse, rankdir="LR"), "b": viz.draw(sse, closed=True)}
