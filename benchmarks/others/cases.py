"""The cases: an issue, its arrays, and its cost (or what is differentiated) as a plain NumPy loop.

Written from the descriptions in the threads. The first `wrt` arrays are differentiated with respect to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from graphnet.graph.node import Array

Arrays = list[Array]


@dataclass(frozen=True)
class Case:
    """One program: its issue, and the reference for its result."""

    issue: str
    about: str
    #: size, generator -> arrays
    arrays: Callable[[int, np.random.Generator], Arrays]
    #: arrays -> the value to differentiate: one number, or one for each example, or a vector
    cost: Callable[..., Any]
    sizes: Sequence[int]
    wrt: int = 1
    #: Results besides the value: gradients, gradients of each example, or a product along the last `wrt` arrays.
    kind: Literal["gradient", "each", "Jv", "Hv"] = "gradient"
    peers: Sequence[str] = ()


def sigmoid(a: Array) -> Array:
    return 1 / (1 + np.exp(-a))


# -- many scalar carries ---------------------------------------------------------------------------------------------

NODES = 40


def carries_arrays(steps: int, generator: np.random.Generator) -> Arrays:
    return [0.3 * generator.standard_normal(NODES), generator.standard_normal(steps)]


def carries(w: Array, x: Array) -> float:
    s, cost = np.zeros(NODES), 0.0
    for value in x:
        s = np.tanh(w * s + 0.5 * np.roll(s, 1) + value)
        cost += s[0] * s[-1]
    return cost


# -- each value from a window of those before ------------------------------------------------------------------------

WINDOW = 50


def window_arrays(steps: int, generator: np.random.Generator) -> Arrays:
    W, v = 0.1 * generator.standard_normal((WINDOW, 8)), 0.3 * generator.standard_normal(8)
    return [W, v, generator.standard_normal(WINDOW)]


def window(W: Array, v: Array, first: Array, steps: int) -> float:
    memory = list(first)
    for _ in range(steps):
        memory.append(np.tanh(np.array(memory[-WINDOW:]) @ W) @ v)
    return float(np.sum(np.square(memory[WINDOW:])))


# -- a value put into a row, the rest shifted ------------------------------------------------------------------------

ROWS, COLUMNS = 20, 100


def places(steps: int) -> list[tuple[int, int]]:
    generator = np.random.default_rng(5)
    return [(int(generator.integers(ROWS)), int(generator.integers(COLUMNS - 1))) for _ in range(steps)]


def insert_arrays(steps: int, generator: np.random.Generator) -> Arrays:
    return [generator.standard_normal(steps), generator.standard_normal((ROWS, COLUMNS))]


def insert(values: Array, state: Array) -> float:
    state = state.copy()
    for value, (row, column) in zip(values, places(len(values)), strict=True):
        state[row, column + 1 :] = state[row, column:-1].copy()
        state[row, column] = np.sin(value) * state[row, 0]
    return float(np.sum(state**2))


# -- a small matrix carried ------------------------------------------------------------------------------------------


def matrix_arrays(steps: int, generator: np.random.Generator) -> Arrays:
    return [np.eye(3) + 0.1 * generator.standard_normal((3, 3)), 0.3 * generator.standard_normal((steps, 3))]


def matrix(A: Array, x: Array) -> float:
    P, cost = np.eye(3), 0.0
    for row in x:
        Ax = A @ row
        d = 1 + row @ P @ row
        k = (A @ P @ row) / d
        P = 0.5 * (A @ P @ A.T - d * np.outer(k, k)) + np.outer(Ax, Ax)
        cost += np.log(d)
    return cost


# -- steps that a mask leaves out ------------------------------------------------------------------------------------


def masked_arrays(steps: int, generator: np.random.Generator) -> Arrays:
    x = generator.standard_normal(steps)
    x[steps // 2 :] = np.nan
    return [np.array([0.7, 0.4]), x]


def masked(w: Array, x: Array) -> float:
    h = 0.0
    for value in x:
        h = h if np.isnan(value) else np.tanh(w[0] * value + w[1] * h)
    return float(h**2)


# -- a running sum, read one element at a time -----------------------------------------------------------------------


def running_arrays(steps: int, generator: np.random.Generator) -> Arrays:
    return [generator.standard_normal(steps)]


def running(x: Array) -> float:
    return float(np.sum(np.cumsum(x) ** 2))


# -- layers within a step --------------------------------------------------------------------------------------------

LAYERS, FEATURES, BATCH = 3, 5, 4


def layers_arrays(steps: int, generator: np.random.Generator) -> Arrays:
    weights = [0.3 * generator.standard_normal((2 * FEATURES, FEATURES)) for _ in range(LAYERS)]
    return [*weights, generator.standard_normal((steps, BATCH, FEATURES))]


def layers(*arrays: Array) -> float:
    *weights, x = arrays
    states, cost = [np.zeros((BATCH, FEATURES))] * LAYERS, 0.0
    for value in x:
        for layer, W in enumerate(weights):
            value = states[layer] + 0.1 * np.concatenate([states[layer], value], 1) @ W
            states = [*states[:layer], value, *states[layer + 1 :]]
        cost += np.sum(np.sin(value))
    return float(cost)


# -- an affine recurrence --------------------------------------------------------------------------------------------


def affine_arrays(steps: int, generator: np.random.Generator) -> Arrays:
    return [
        generator.uniform(0, 1, steps),
        generator.standard_normal(steps),
        generator.standard_normal(steps),
    ]


def affine(a: Array, b: Array, weights: Array) -> float:
    y, cost = 0.0, 0.0
    for t in range(len(a)):
        y = a[t] * y + b[t]
        cost += weights[t] * y
    return cost


# -- a light gated unit, for long sequences --------------------------------------------------------------------------

UNITS = 16


def light_arrays(steps: int, generator: np.random.Generator) -> Arrays:
    U = 0.2 * generator.standard_normal((UNITS, 2 * UNITS))
    return [U, 0.5 * generator.standard_normal((steps, BATCH, 2 * UNITS))]


def light(U: Array, x: Array) -> float:
    h = np.zeros((BATCH, UNITS))
    for value in x:
        a = value + h @ U
        z = sigmoid(a[:, :UNITS])
        h = z * h + (1 - z) * np.maximum(a[:, UNITS:], 0)
    return float(np.sum(h**2))


# -- an LSTM and a GRU, float32 as the modules have it ---------------------------------------------------------------


def gated(gates: int, steps: int, generator: np.random.Generator) -> Arrays:
    rows = gates * UNITS
    weights = [0.3 * generator.standard_normal((rows, UNITS)) for _ in range(2)]
    return [np.asarray(a, np.float32) for a in (*weights, generator.standard_normal((steps, BATCH, UNITS)))]


def lstm_arrays(steps: int, generator: np.random.Generator) -> Arrays:
    arrays = gated(4, steps, generator)
    return [*arrays, *(np.asarray(generator.standard_normal(a.shape), np.float32) for a in arrays[:2])]


def lstm(W: Array, U: Array, x: Array) -> Array:
    h = c = np.zeros((BATCH, UNITS))
    for value in x:
        i, f, g, o = np.split(value @ W.T + h @ U.T, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    return h


def gru_arrays(steps: int, generator: np.random.Generator) -> Arrays:
    return gated(3, steps, generator)


def gru(W: Array, U: Array, x: Array) -> Array:
    h = np.zeros((BATCH, UNITS))
    for value in x:
        (r, z, n), (hr, hz, hn) = np.split(value @ W.T, 3, axis=1), np.split(h @ U.T, 3, axis=1)
        r, z = sigmoid(r + hr), sigmoid(z + hz)
        h = (1 - z) * np.tanh(n + r * hn) + z * h
    return np.sum(h**2, axis=1)


# -- a map repeated --------------------------------------------------------------------------------------------------


def repeated_arrays(steps: int, generator: np.random.Generator) -> Arrays:
    return [generator.uniform(-1, 0, 7), np.full(steps, 0.5), generator.standard_normal(7)]


def repeated(x: Array, shift: Array) -> Array:
    for s in shift:
        x = np.exp(x) - 1 - s
    return x


J, T, C = "jax", "torch", "torch compiled"
JAX, TORCH = "jax-ml/jax", "pytorch/pytorch"
CASES = {
    "carries": Case(
        f"{JAX} 40150", f"{NODES} scalars carried", carries_arrays, carries, (100, 200), peers=(J,)
    ),
    "window": Case(
        f"{JAX} 7009", f"a value from the {WINDOW} before", window_arrays, window, (250, 1000), 2, peers=(J,)
    ),
    "insert": Case(
        f"{JAX} 17640",
        "a value put into a row, the rest shifted",
        insert_arrays,
        insert,
        (250, 1000),
        2,
        peers=(J,),
    ),
    "matrix": Case(f"{JAX} 36799", "a 3 × 3 matrix, float64", matrix_arrays, matrix, (500, 2000), peers=(J,)),
    "masked": Case(f"{JAX} 20601", "NaN where a mask is 0", masked_arrays, masked, (20,), peers=(J, T)),
    "running": Case(
        f"{JAX} 15906, EnzymeAD/Reactant.jl 3166",
        "an array read one element at a step",
        running_arrays,
        running,
        (1000, 10000),
        peers=(J, T),
    ),
    "layers": Case(
        f"{TORCH} 153679",
        f"{LAYERS} layers within a step",
        layers_arrays,
        layers,
        (20,),
        LAYERS,
        peers=(T, C),
    ),
    "affine": Case(f"{TORCH} 172568", "y = a y + b", affine_arrays, affine, (50,), 2, peers=(T,)),
    "light": Case(
        f"{TORCH} 97155",
        "a gated unit, long sequences",
        light_arrays,
        light,
        (32, 128, 1000),
        peers=(C, T, J),
    ),
    "Hv": Case(
        f"{TORCH} 5261, 25315, 134901",
        "Hessian product of an LSTM",
        lstm_arrays,
        lstm,
        (50,),
        2,
        "Hv",
        (T, J),
    ),
    "Jv": Case(f"{TORCH} 174355", "R-operator of an LSTM", lstm_arrays, lstm, (50,), 2, "Jv", (T, J)),
    "each": Case(f"{TORCH} 134606", "a gradient for each case", gru_arrays, gru, (50,), 2, "each", (T, J)),
    "repeated": Case(
        "pymc-devs/pytensor 787",
        "R-operator of a map repeated",
        repeated_arrays,
        repeated,
        (10,),
        1,
        "Jv",
        (J,),
    ),
}
