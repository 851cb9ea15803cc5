"""The cases in graphnet: arrays -> a function that computes the results of the case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import graphnet as gn
from benchmarks.anew import compiled_anew
from benchmarks.others import cases
from benchmarks.others.cases import BATCH, COLUMNS, LAYERS, NODES, UNITS, WINDOW, Arrays, Case
from graphnet.graph.node import Array, Node

ROLLED = [(k, k - 1) for k in range(NODES)]


def carries(w: Node, x: Node) -> Node:
    weights, s = [w[k] for k in range(NODES)], [gn.fill(0.0, (), "float64")] * NODES
    cost = gn.fill(0.0, (), "float64")
    for t in range(len(x)):
        s = [gn.tanh(weights[k] * s[k] + 0.5 * s[before] + x[t]) for k, before in ROLLED]
        cost = cost + s[0] * s[-1]
    return cost


def window(W: Node, v: Node, first: Node, steps: int) -> Node:
    memory = [first[k] for k in range(WINDOW)]
    for _ in range(steps):
        memory.append(gn.sum(gn.tanh(gn.stack(memory[-WINDOW:]) @ W) * v))
    return gn.sum(gn.stack(memory[WINDOW:]) ** 2)


def insert(values: Node, state: Node) -> Node:
    rows = [state[row] for row in range(len(state))]
    for t, (row, column) in enumerate(cases.places(len(values))):
        new, old = gn.sin(values[t]), rows[row]
        rows[row] = gn.concatenate([old[:column], gn.reshape(new * old[0], (1,)), old[column : COLUMNS - 1]])
    return gn.sum(gn.stack(rows) ** 2)


def matrix(A: Node, x: Node) -> Node:
    P, cost = gn.constant(np.eye(3)), gn.fill(0.0, (), "float64")
    for t in range(len(x)):
        column = gn.reshape(x[t], (3, 1))
        Ax, Pc = A @ column, P @ column
        d = 1 + gn.sum(column * Pc)
        k = (A @ Pc) / d
        P = 0.5 * (A @ P @ A.T - d * (k @ k.T)) + Ax @ Ax.T
        cost = cost + gn.log(d)
    return cost


def masked(w: Node, x: Node) -> Node:
    h = gn.fill(0.0, (), "float64")
    for t in range(len(x)):
        h = gn.where(gn.equal(x[t], x[t]), gn.tanh(w[0] * x[t] + w[1] * h), h)
    return h * h


def running(x: Node) -> Node:
    state = cost = gn.fill(0.0, (), "float64")
    for t in range(len(x)):
        state = state + x[t]
        cost = cost + state * state
    return cost


def layers(*nodes: Node) -> Node:
    *weights, x = nodes
    states = [gn.fill(0.0, (BATCH, cases.FEATURES), "float64")] * LAYERS
    cost = gn.fill(0.0, (), "float64")
    for t in range(len(x)):
        value = x[t]
        for layer, W in enumerate(weights):
            value = states[layer] + 0.1 * gn.concatenate([states[layer], value], 1) @ W
            states = [*states[:layer], value, *states[layer + 1 :]]
        cost = cost + gn.sum(gn.sin(value))
    return cost


def affine(a: Node, b: Node, weights: Node) -> Node:
    y = cost = gn.fill(0.0, (), "float64")
    for t in range(len(a)):
        y = a[t] * y + b[t]
        cost = cost + weights[t] * y
    return cost


def light(U: Node, x: Node) -> Node:
    h = gn.fill(0.0, (BATCH, UNITS), "float64")
    for t in range(len(x)):
        a = x[t] + h @ U
        z = gn.sigmoid(a[:, :UNITS])
        h = z * h + (1 - z) * gn.relu(a[:, UNITS:])
    return gn.sum(h * h)


def gates_of(a: Node, number: int) -> list[Node]:
    return [a[:, k * UNITS : (k + 1) * UNITS] for k in range(number)]


def lstm(W: Node, U: Node, x: Node) -> Node:
    h = c = gn.fill(0.0, (BATCH, UNITS), "float32")
    for t in range(len(x)):
        i, f, g, o = gates_of(x[t] @ W.T + h @ U.T, 4)
        c = gn.sigmoid(f) * c + gn.sigmoid(i) * gn.tanh(g)
        h = gn.sigmoid(o) * gn.tanh(c)
    return h


def gru(W: Node, U: Node, x: Node) -> Node:
    h = gn.fill(0.0, (BATCH, UNITS), "float32")
    for t in range(len(x)):
        (r, z, n), (hr, hz, hn) = gates_of(x[t] @ W.T, 3), gates_of(h @ U.T, 3)
        r, z = gn.sigmoid(r + hr), gn.sigmoid(z + hz)
        h = (1 - z) * gn.tanh(n + r * hn) + z * h
    return gn.sum(h * h, 1)


def repeated(x: Node, shift: Node) -> Node:
    for t in range(len(shift)):
        x = gn.exp(x) - 1 - shift[t]
    return x


COSTS: dict[str, Callable[..., Node]] = {
    "carries": carries, "window": window, "insert": insert, "matrix": matrix, "masked": masked, "running": running,
    "layers": layers, "affine": affine, "light": light, "Hv": lstm, "Jv": lstm, "each": gru, "repeated": repeated,
}  # fmt: skip


def program(name: str, case: Case, arrays: Arrays, size: int) -> Callable[[], Sequence[Array]]:
    """The program of the case, compiled."""
    inputs = [gn.input(a.shape, a.dtype) for a in arrays]
    directions = inputs[-case.wrt :] if case.kind in ("Jv", "Hv") else []
    others: list[Any] = [size] if name == "window" else []
    cost = COSTS[name](*inputs[: len(inputs) - len(directions)], *others)
    wanted = inputs[: case.wrt]
    match case.kind:
        case "gradient":
            outputs = [cost, *gn.gradient(cost, wanted)]
        case "each":
            outputs = [cost, *gn.per_example_gradients(cost, wanted)]
        case "Jv":
            outputs = [cost, *gn.rop([cost], dict(zip(wanted, directions, strict=True)))]
        case "Hv":
            square = gn.sum(cost * cost)
            outputs = [square, *gn.hessian_product(square, dict(zip(wanted, directions, strict=True)))]
    with compiled_anew():
        function = gn.compile(outputs, inputs)
    return lambda: function(*arrays)
