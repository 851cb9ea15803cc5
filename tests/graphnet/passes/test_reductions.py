"""The pass `fuse reductions`: sums and maxima are computed in the loops of their operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet import passes
from graphnet.graph.node import Array, Node
from graphnet.plan import lower
from graphnet.plan.instructions import Loop
from tests.tables import case


def loops(function: gn.Function) -> list[Loop]:
    return [i for i in lower(function.graph).instructions if isinstance(i, Loop)]


def fused(function: gn.Function) -> list[Loop]:
    return [loop for loop in loops(function) if loop.reductions and loop.steps]


def both(build: Callable[[Node], Any], array: Array, **how: Any) -> gn.Function:
    """Compares results with the pass, without it, and in double precision by NumPy. Returns the function."""
    x = gn.input(array.shape, array.dtype)
    outputs = build(x)
    function = gn.compile(outputs, [x], **how)
    apart = gn.compile(outputs, [x], passes=passes.without("fuse reductions"), **how)
    wide = gn.input(array.shape, "float64")
    right = gn.compile(build(wide), [wide], backend="numpy")(array.astype(np.float64))
    for found, other, expected in zip(function(array), apart(array), right, strict=True):
        assert np.allclose(found, expected, rtol=2e-6, atol=1e-5)
        assert np.allclose(found, other, rtol=1e-6, atol=1e-5)
    assert not fused(apart)
    return function


def numbers(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_softmax_cross_entropy_is_four_loops_over_its_logits() -> None:
    """Shapes with and without whole vectors, one row, axes of size 1; with one and two threads."""
    for shape in ((5, 7), (1, 4), (1, 1, 4), (3, 2, 4), (64, 16), (200, 33), (6, 5, 100), (2, 70, 5)):
        for threads in (1, 2):
            with case(shape, threads):
                right = np.random.default_rng(1).integers(0, shape[-1], shape[:-1])

                def build(x: Node) -> list[Node]:
                    cost = gn.mean(gn.softmax_cross_entropy(gn.sin(x), right))
                    return [cost, *gn.gradient(cost, [x])]

                function = both(build, numbers(*shape), threads=threads)
                assert len(fused(function)) == 2
                (top,) = [r for loop in fused(function) for r in loop.reductions if r.how == "max"]
                assert top.view.size == right.size
                exponentials = next(loop for loop in fused(function) if loop.reductions[0].how == "sum")
                # sums of exponentials and of picked logits; only the exponentials are stored for the gradient
                assert (len(exponentials.reductions), len(exponentials.stores)) == (2, 1)


def test_fused_reductions_store_only_values_read_elsewhere() -> None:
    def build(x: Node) -> list[Node]:
        y = gn.tanh(x)
        return [y, gn.sum(y, axis=1), gn.max(y, axis=1), gn.min(y, axis=1), gn.sum(y * y, axis=(1,))]

    (loop,) = loops(both(build, numbers(40, 30)))
    assert [r.how for r in loop.reductions] == ["sum", "max", "min", "sum"]
    assert len(loop.stores) == 1
    (loop,) = loops(both(lambda x: [gn.sum(gn.tanh(x) * 2.0 + x, axis=1)], numbers(40, 30)))
    assert not loop.stores


def test_groups_reduce_one_set_of_trailing_axes() -> None:
    """The first axis is divided among cores, so it is not reduced within a loop."""
    for axis in (0, 1, (0, 1), (0, 2), (0, 1, 2)):
        with case(axis):
            assert not fused(both(lambda x: [gn.sum(gn.tanh(x), axis=axis)], numbers(6, 5, 4)))

    def build(x: Node) -> list[Node]:
        y = gn.tanh(x)
        return [gn.sum(y, axis=2), gn.sum(y, axis=(1, 2)), gn.max(y, axis=2)]

    function = both(build, numbers(6, 5, 4))
    (loop,) = fused(function)
    assert loop.reduced in ((2,), (1, 2))
    assert len(loops(function)) > 1


def test_nested_empty_and_transposed_reductions() -> None:
    """Vectorized over the axis that is kept; results may be part of a larger array."""
    both(lambda x: [gn.max(gn.sum(gn.exp(x), axis=2) * 2.0, axis=1)], numbers(6, 5, 40))
    both(lambda x: [gn.sum(gn.sum(gn.exp(x), axis=2), axis=1)], numbers(6, 5, 40))
    for shape in ((1, 0), (5, 0), (0, 5), (3, 0, 2), (3, 2, 0)):
        with case(shape):
            both(lambda x: [gn.sum(y := gn.tanh(x) * 2.0, axis=len(shape) - 1), y], numbers(*shape))
    for shape in ((40, 30), (7, 90), (3, 1)):
        both(lambda x: [y := gn.tanh(x.T) * 2.0, gn.sum(y, axis=1), gn.max(y, axis=1)], numbers(*shape))
    join = gn.concatenate
    both(lambda x: [join([t := gn.sum(gn.tanh(x), 1), x[:, 0]]), join([x[:, 1], t])], numbers(9, 30))


def test_reductions_of_integers_booleans_and_non_finite_values() -> None:
    i, x = gn.input((9, 21), "int64"), gn.input((4, 20))
    y = i * 3 - 1
    outputs = [gn.sum(y, axis=1), gn.max(y, axis=1), gn.min(y, axis=1), gn.max(i > 2, axis=1)]
    array = np.random.default_rng(0).integers(-5, 6, (9, 21))
    right = gn.compile(outputs, [i], backend="numpy")(array)
    for one, other in zip(gn.compile(outputs, [i])(array), right, strict=True):
        np.testing.assert_array_equal(one, other)
    function = gn.compile(gn.sum(gn.exp(x), axis=1), [x], check=True)
    assert np.isfinite(function(numbers(4, 20))[0]).all()
    for number, op in ((100, "Exp"), (88, "Sum")):
        with pytest.raises(gn.NonFiniteError, match=op):
            function(np.full((4, 20), number, np.float32))


def test_layer_norms_and_softmaxes_fire_in_networks() -> None:
    net = rnn.Network([rnn.LayerNormLSTM(8)], 5, 5)
    u = net.unroll(3, 4, initial="zero")
    outputs = [u.cost, *gn.gradient(u.cost, list(net.parameters.values()))]
    function = gn.compile(outputs, [u.inputs, u.targets])
    assert len(fused(function)) > 5
