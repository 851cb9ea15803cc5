"""Programs for the tests of kernels. Together they use every kind of kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import graphnet as gn
from graphnet.backends.cuda.device import SIMULATED
from graphnet.graph.node import Node

#: Number of terms from which sums are divided among blocks; the simulator does so for fewer.
#: Half of it is no multiple of a tile's depth.
LONG = 282 if SIMULATED else 1100

rng = np.random.default_rng(7)


class Program(NamedTuple):
    """A function that builds outputs from inputs, and arrays for the inputs."""

    build: Any
    arrays: tuple[np.ndarray, ...]

    def nodes(self, dtype: str = "float64"):
        """Returns outputs, inputs and arrays; floats have this dtype."""
        arrays = [a.astype(dtype) if a.dtype.kind == "f" else a for a in self.arrays]
        inputs = [gn.input(a.shape, a.dtype) for a in arrays]
        built = self.build(*inputs)
        return [built] if isinstance(built, Node) else list(built), inputs, arrays


def floats(*shape: int):
    return rng.standard_normal(shape)


def indices(below: int, *shape: int):
    return rng.integers(0, below, shape)


def slope(cost: Node, wrt: Node) -> list[Node]:
    return gn.gradient(gn.sum(cost**3), [wrt])


def every_function(x: Node, y: Node, i: Node) -> list[Node]:
    """All scalar expressions of the engine."""
    positive = x * x + 0.5
    less = x < y
    return [
        x + y, x - y, x * y, x / positive, -x, positive**y, x**3, x**-2, positive**0.5, gn.tanh(x), gn.sigmoid(x),
        gn.exp(x), gn.log(positive), gn.relu(x), gn.softplus(x), gn.sqrt(positive), gn.sin(x), gn.cos(x),
        gn.absolute(x), gn.sign(x), gn.squared_error(x, y), gn.sigmoid_cross_entropy(x, y), gn.maximum(x, y),
        gn.minimum(x, y), gn.where(less, x, y), less, x <= y, x > y, x >= y, gn.equal(x, y), ~less,
        less & (x > 0), less | (x > 0), gn.cast(less, x.dtype), gn.cast(x, "int64"), gn.cast(i, x.dtype),
        gn.cast(i, "bool"), gn.stop_gradient(x) * 2.0,
        gn.erf(x), x % positive, x % y, i % 3, i % (i - 2), gn.cast(i, "uint8") % 3, gn.floor(x), gn.ceil(x),
        gn.round(x),
    ]  # fmt: skip


#: Kind of kernel -> (a program that has it, and arrays).
MADE = {
    "every function": (every_function, floats(5, 6), floats(5, 6), indices(4, 5, 6)),
    "one axis": (lambda x: gn.tanh(x) * 2.0, floats(19)),
    "two axes, one of them broadcast": (lambda x, b: gn.exp(x + b), floats(5, 7), floats(7)),
    "an axis of columns": (lambda x, b: gn.exp(x * b), floats(5, 7), floats(5, 1)),
    "three axes, turned": (lambda x, y: x.T + y, floats(2, 3, 5), floats(5, 3, 2)),
    "four axes, turned": (lambda x, y: gn.transpose(x, (3, 1, 0, 2)) + y, floats(2, 3, 4, 5), floats(5, 3, 2, 4)),
    "five axes, turned": (lambda x: gn.transpose(x, (4, 1, 3, 0, 2)) * 2.0, floats(2, 3, 2, 2, 3)),
    "a number": (lambda x: x * x + 1.0, np.array(1.5)),
    "booleans": (lambda x, y: [gn.where(x > y, x, y), x > y, gn.equal(x, y)], floats(9), floats(9)),
    "integers": (lambda i: [i * i - 3, gn.sum(i), gn.maximum(i, 2)], indices(9, 11)),
    "rows by index": (lambda W, i: gn.tanh(gn.take(W, i)) + 1.0, floats(6, 5), indices(6, 7)),
    "rows by a smaller kind of index": (lambda W, i: gn.tanh(gn.take(W, i)), floats(6, 5), indices(6, 7).astype("i4")),
    "columns by index": (lambda W, i: gn.tanh(gn.take(W, i, axis=1)), floats(4, 6), indices(6, 9)),
    "one-hot": (lambda x, i: x - gn.one_hot(i, 5, x.dtype), floats(4, 5), indices(5, 4)),
    "sums of one-hot": (lambda x, i: gn.sum(x * gn.one_hot(i, 5, x.dtype), (1, 2)), floats(3, 4, 5), indices(5, 3, 4)),
    "sum of all": (gn.sum, floats(23)),
    "sum of all, in parts": (lambda x: gn.sum(x * x), floats(40, 30)),
    "sums of rows": (lambda x: gn.sum(x, 1), floats(7, 11)),
    "sums of long rows": (lambda x: gn.sum(x, 1), floats(2, 2100)),
    "sums of columns": (lambda x: gn.sum(x, 0), floats(11, 7)),
    "sums of columns, in parts": (lambda x: gn.sum(x, 0), floats(600, 3)),
    "sums over the middle": (lambda x: gn.sum(x, 1), floats(3, 5, 4)),
    "sums over two axes": (lambda x: gn.sum(x, (0, 2)), floats(3, 5, 4)),
    "sums over two axes, outer": (lambda x: gn.sum(x, (0, 2)), floats(3, 2, 4, 5)),
    "sum over nothing": (lambda x: gn.sum(x, 0), floats(0, 3)),
    "largest, smallest": (lambda x: [gn.max(x, 1), gn.max(x, 0), gn.min(x), gn.min(x, 1)], floats(6, 9)),
    "largest of integers": (lambda i: [gn.max(i, 1), gn.min(i, 0)], indices(99, 4, 6)),
    "any, all": (lambda x: [gn.max(x > 0, 1), gn.min(x > 0, 0)], floats(4, 6)),
    "product": (lambda a, b: a @ b, floats(9, 7), floats(7, 10)),
    "product, left turned": (lambda a, b: a.T @ b, floats(7, 9), floats(7, 10)),
    "product, right turned": (lambda a, b: a @ b.T, floats(9, 7), floats(10, 7)),
    "product, all turned": (lambda a, b: (b @ a).T + 1.0, floats(7, 9), floats(10, 7)),
    "product, sums in parts": (lambda a, b: a @ b, floats(3, LONG), floats(LONG, 4)),
    "product with a vector": (lambda a, b: [a @ b, b @ a.T], floats(9, 7), floats(7)),
    "product of every second row": (lambda a, b: a[::2] @ b[:, 1::2], floats(9, 7), floats(7, 10)),
    "products": (lambda a, b: a @ b, floats(3, 4, 5), floats(3, 5, 6)),
    "products, sums in parts": (lambda a, b: a @ b, floats(2, 2, LONG), floats(2, LONG, 3)),
    "product over nothing": (lambda a, b: a @ b, floats(3, 0), floats(0, 2)),
    "rows added by index": (lambda W, i: slope(gn.take(W, i), W), floats(6, 5), indices(6, 40)),
    "rows added by index, all to one": (lambda W, i: slope(gn.take(W, i), W), floats(6, 5), np.full(40, 3)),
    "columns added by index": (lambda W, i: slope(gn.take(W, i, axis=1), W), floats(3, 6), np.arange(17) * 5 % 6),
    "a join along the last axis": (lambda x, y: gn.exp(gn.concatenate([x, y * 2.0, x + y], 1)), *floats(2, 4, 3)),
    "a result that lies between others": (lambda x, y: [gn.concatenate([x, y], 1), x.T, x[:, 1:]], *floats(2, 4, 3)),
    "many terms": (lambda x: gn.add(*(x * float(k) for k in range(70))), floats(5)),
}  # fmt: skip
PROGRAMS = {name: Program(build, tuple(arrays)) for name, (build, *arrays) in MADE.items()}
