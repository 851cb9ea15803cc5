"""Per-example gradients match gradients of single losses, and mixed cases are rejected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.errors import GraphnetError
from graphnet.graph.node import Node
from graphnet_rnn.cells import ALL
from tests.tables import case

BATCH = 3
generator = np.random.default_rng(0)


def weight(*shape: int) -> Node:
    return gn.parameter(np.random.default_rng(shape).standard_normal(shape), name="W")


def require_rows_of_losses(
    losses: Node, parameters: Sequence[Node], mixed: bool = False, backend: str = "numpy", arrays: Any = None
) -> None:
    """Each row is gn.gradient of one loss, at any inputs."""
    inputs = gn.Graph([losses]).inputs
    arrays = arrays or [
        generator.integers(0, 4, n.shape) if n.dtype.kind == "i" else generator.standard_normal(n.shape)
        for n in inputs
    ]
    found = gn.compile(gn.per_example_gradients(losses, parameters, mixed), inputs, backend)(*arrays)
    singles = [g for b in range(losses.size) for g in gn.gradient(losses[b], parameters)]
    expected = gn.compile(singles, inputs, backend="numpy", passes=())(*arrays)
    for i, w in enumerate(parameters):
        rows = np.stack(expected[i :: len(parameters)])
        assert found[i].shape == (losses.size, *w.shape)
        assert found[i].dtype == w.dtype
        assert np.any(rows)
        np.testing.assert_allclose(found[i], rows, rtol=1e-9, atol=1e-11, err_msg=repr(w))


def network(layers: list[Any], **settings: Any) -> rnn.Network:
    net = rnn.Network(layers, 4, 4, dtype="float64", **settings)
    net.theta = 0.5 * generator.standard_normal(net.theta.shape)
    return net


LENGTHS = gn.constant(np.array([4, 1, 3]))


def test_gradients_of_cases_with_different_lengths() -> None:
    for pool in ("last", "mean", "max", None):
        with case(pool):
            net = network([rnn.Bidirectional(rnn.GRU(3)), rnn.LSTM(3)], reads="vectors", pool=pool)
            u = net.unroll(4, BATCH, initial="zero", lengths=LENGTHS)
            losses = u.losses if pool else gn.sum(u.losses, axis=0)
            require_rows_of_losses(losses, list(net.parameters.values()))
    # one network reads another
    below, above = network([rnn.GRU(4)], reads="vectors"), network([rnn.GRU(3)], reads="vectors", pool="last")
    u = below.unroll(4, BATCH, initial="zero", lengths=LENGTHS)
    v = above.unroll(4, BATCH, initial="zero", lengths=u.lengths, inputs=u.hidden[-1])
    cells = [w for name, w in below.parameters.items() if not name.startswith("output")]
    require_rows_of_losses(v.losses, [*cells, *above.parameters.values()])


def test_gradients_of_every_cell() -> None:
    for name in ALL:
        with case(name):
            net = network([rnn.testing._small(ALL[name])])
            u = net.unroll(3, BATCH, training=False)
            require_rows_of_losses(gn.sum(u.losses, axis=0), list(net.parameters.values()))


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_with_dropout_and_learned_initial_states(backend: str) -> None:
    how = {"skip": True, "dropout": 0.3, "recurrent_dropout": 0.2, "initial_state": "learned"}
    net = network([rnn.LSTM(3), rnn.GRU(2)], **how)
    u = net.unroll(3, BATCH, initial="learned")
    require_rows_of_losses(gn.mean(u.losses, axis=0), list(net.parameters.values()), backend=backend)


def test_gradients_of_ctc_losses() -> None:
    """CTC reads logits of all cases, separated only by its index arithmetic."""
    net = network([rnn.Bidirectional(rnn.GRU(2))], loss="ctc", reads="vectors")
    u = net.unroll(4, BATCH, initial="zero", labels=2)
    values = generator.standard_normal((4, BATCH, 4)), np.array([[0, 1], [2, -1], [1, 0]])
    with pytest.raises(gn.DifferentiationError, match="Take"):
        gn.per_example_gradients(u.losses, net.parameters)
    require_rows_of_losses(
        u.losses, list(net.parameters.values()), mixed=True, backend="numba", arrays=values
    )


def cases(*shape: int) -> Node:
    return gn.input(shape, "float64", name="x")


def symbols(*shape: int) -> Node:
    return gn.input(shape, "int64", name="i")


def per_case(y: Node, axis: int = 0) -> Node:
    return gn.sum(gn.tanh(y) * y, axis=tuple(k for k in range(y.ndim) if k != axis))


#: name -> what makes of a weight the losses, and the weight's shape. 4 cases.
APART: dict[str, tuple[Callable[[Node], Node], tuple[int, ...]]] = {
    "product": (lambda W: per_case(cases(4, 3) @ W), (3, 2)),
    "product, cases in columns": (lambda W: per_case(W @ cases(3, 4), 1), (2, 3)),
    "a product of both": (lambda W: per_case(cases(4, 3) @ W) + per_case(W @ cases(3, 4), 1), (3, 3)),
    "product over time": (lambda W: per_case(cases(5, 4, 3) @ W, 1), (3, 2)),
    "product over time, cases first": (lambda W: per_case(cases(4, 5, 3) @ W), (3, 2)),
    "cut and joined": (
        lambda W: per_case(gn.concatenate([(y := gn.reshape(cases(5, 4, 3) @ W, (20, 2)))[4:12], y[:8]])[:4]), (3, 2),
    ),
    "batched product": (lambda W: per_case(gn.matmul(cases(6, 4, 3), W), 1), (6, 3, 2)),
    "batched product, repeated": (lambda W: per_case(gn.matmul(cases(4, 6, 3), W[None])), (1, 3, 2)),
    "both operands": (lambda W: per_case(cases(4, 3) @ (W @ (2 * W))), (3, 3)),
    "scaled": (lambda W: per_case(gn.scaled_matmul(cases(4, 3), W, cases(4, 2, 3), cases(4, 2, 5))), (3, 5)),
    "scaled, all of it": (
        lambda W: per_case(gn.scaled_matmul(gn.tanh(y := cases(4, 3) @ W), W, y[:, None], y[:, None])), (3, 3),
    ),
    "bias": (lambda W: per_case(cases(4, 3) + W), (3,)),
    "number": (lambda W: per_case(cases(4, 3) * W), ()),
    "bias over time": (lambda W: per_case(cases(5, 4, 3) * gn.exp(W), 1), (5, 1, 3)),
    "lookup": (lambda W: per_case(W[symbols(4)]), (4, 3)),
    "lookup over time": (lambda W: per_case(gn.take(W, symbols(5, 4)), 1), (4, 3, 2)),
    "lookup, narrow symbols": (lambda W: per_case(gn.take(W, gn.cast(symbols(5, 4), "int8")), 1), (4, 3)),
    "lookup along the second axis": (lambda W: per_case(gn.take(W, symbols(4), axis=1), 1), (3, 5)),
    "one-hot": (lambda W: per_case(gn.one_hot(symbols(4), 4, "float64") @ W), (4, 3)),
    "one-hot over time": (lambda W: per_case(gn.one_hot(symbols(5, 4), 4, "float64") @ W, 1), (4, 3)),
    "one-hot beside": (lambda W: per_case((gn.one_hot(symbols(4), 4, "float64") @ W) * (cases(4, 4) @ W)), (4, 3)),
    "a row for each case": (lambda W: per_case(cases(4, 3) * W), (4, 3)),
    "a row for each, and all": (lambda W: per_case(cases(4, 4) * W) + per_case(cases(4, 4) @ W), (4, 4)),
    "of weights alone": (lambda W: per_case(cases(4, 3) @ (W.T / gn.sqrt(gn.sum(W * W, axis=1))[None])), (2, 3)),
    "of weights alone, moved": (
        lambda W: per_case(
            cases(4, 4) @ gn.concatenate([gn.reshape(gn.stack([W[0], W[1]]), (3, 2)), gn.label(W[:, 1:2], "V").T], 0)
        ), (2, 3),
    ),
    "of weights alone, reduced": (lambda W: per_case(cases(4, 3) * gn.softmax(W) + gn.max(W) + gn.logsumexp(W)), (3,)),
    "softmax": (lambda W: gn.softmax_cross_entropy(cases(4, 3) @ W, symbols(4)), (3, 4)),
    "softmax in columns": (lambda W: per_case(gn.softmax(W @ cases(3, 4), axis=0), 1), (2, 3)),
    "reductions": (lambda W: per_case(gn.max((y := cases(4, 3, 2) @ W), 1) + gn.logsumexp(y, axis=1)), (2, 2)),
    "masked weights": (lambda W: per_case(cases(4, 3) @ (W * gn.input((), "float64", name="τ"))), (3, 2)),
    "parts of size 0": (
        lambda W: per_case(gn.concatenate([(h := cases(4, 3) @ W)[:, :1], h[:, 1:1], h[:, 1:]], 1)), (3, 2),
    ),
    "a weight of size 0": (lambda W: per_case(cases(4, 3) @ W) + per_case(cases(4, 3) @ (W[:, :0] * 2)), (3, 2)),
    "stopped": (lambda W: per_case(cases(4, 3) @ W) * gn.stop_gradient(gn.sum(W)), (3, 2)),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_gradients_through_ops_on_separate_cases(backend: str) -> None:
    for name, (make, shape) in APART.items():
        with case(name):
            W = weight(*shape)
            require_rows_of_losses(make(W), [W], backend=backend)


def test_graph_size_does_not_grow_with_the_batch() -> None:
    """Graphs of many and few cases have the same number of nodes."""
    counts = []
    for batch in (4, 40):
        net = network([rnn.LSTM(3)], initial_state="learned")
        u = net.unroll(3, batch, initial="learned")
        counts.append(len(gn.Graph(gn.per_example_gradients(gn.sum(u.losses, axis=0), net.parameters))))
    assert counts[0] == counts[1]


class Silent(gn.Op):
    """y = x², and says nothing of itself"""

    def infer(self, x):
        return x.shape, x.dtype

    def forward(self, x):
        return x * x

    def backward(self, gy, y, x):
        return [2 * gy * x]


def batch_normalised(y: Node) -> Node:
    centred = y - gn.mean(y, axis=0)
    return centred / gn.sqrt(gn.mean(centred * centred, axis=0) + 0.1)


#: name -> what makes of a weight losses of 4 cases that are mixed, the weight's shape, and what the error names.
MIXED: dict[str, tuple[Callable[[Node], Node], tuple[int, ...], str]] = {
    "batch normalisation": (lambda W: per_case(batch_normalised(cases(4, 3) @ W)), (3, 2), r"Sqrt\[2\]"),
    "attention": (lambda W: per_case(gn.softmax((y := cases(4, 3) @ W) @ y.T) @ y), (3, 2), r"MatMul\[4, 2\]"),
    "softmax over cases": (lambda W: per_case(gn.softmax(cases(4, 3) @ W, axis=0)), (3, 2), r"Softmax\[4, 2\]"),
    "turned": (lambda W: per_case((y := cases(4, 4) @ W) + y.T), (4, 4), r"MatMul\[4, 4\]"),
    "shifted": (lambda W: per_case(gn.concatenate([(y := cases(4, 3) @ W)[1:], y[:1]])), (3, 2), r"Concatenate"),
    "chosen": (lambda W: per_case((cases(4, 3) @ W)[symbols(4)]), (3, 2), r"Take\[4, 2\]"),
    "scattered": (lambda W: per_case(gn.scatter_add(cases(8, 3) @ W, symbols(8), 4)), (3, 2), r"Scatter"),
    "some of more": (lambda W: per_case((cases(8, 3) @ W)[::2]), (3, 2), r"Slice\[4, 2\]"),
    "one by one": (lambda W: gn.stack([gn.sum(gn.tanh(cases(4, 2) @ W)) for _ in range(4)]), (2, 2), r"Stack\[4\]"),
    "of two axes": (lambda W: gn.reshape(gn.sum(gn.reshape(cases(4, 3) * W, (2, 2, 3)), axis=2), (4,)), (3,), r"Sum"),
    "an op that says nothing": (lambda W: per_case(Silent()(cases(4, 3) @ W)), (3, 2), r"Silent.*aligned_axes"),
}  # fmt: skip


def test_mixed_cases_are_rejected_unless_allowed() -> None:
    for name, (make, shape, named) in MIXED.items():
        with case(name):
            W = weight(*shape)
            losses = make(W)
            with pytest.raises(gn.DifferentiationError, match=named) as refused:
                gn.per_example_gradients(losses, [W])
            assert "mixed=True" in str(refused.value)
            assert "test_per_example.py" in str(refused.value)
            require_rows_of_losses(losses, [W], mixed=True)


def test_few_cases_and_unused_parameters() -> None:
    W, other = weight(3, 2), weight(5)
    require_rows_of_losses(per_case(cases(1, 3) @ W), [W])
    says = type("Says", (Silent,), {"row_offset": lambda op, y, x: 0, "__doc__": Silent.__doc__})()
    require_rows_of_losses(per_case(says(cases(4, 3) @ W)), [W])
    x, rows = gn.input((BATCH, 4), "float64"), gn.input((2 * BATCH, 4), "float64")
    require_rows_of_losses(gn.sum(gn.tanh(x @ rows.T), 1), [rows])  # an input, with a multiple of the cases
    (zero,) = gn.per_example_gradients(per_case(cases(4, 3) @ W), [other])
    assert zero.shape == (4, 5)
    assert not gn.compile([zero], [])()[0].any()
    (none,) = gn.per_example_gradients(gn.sum(cases(0, 3) @ W, axis=1), [W])
    assert none.shape == (0, 3, 2)
    h = (x := cases(4, 3)) @ W
    losses = per_case(gn.tanh(h))
    require_rows_of_losses(losses, [h, x, W, losses])  # by any node


good, W = per_case(cases(4, 3) @ weight(3, 2)), weight(3, 2)
REFUSED: list[tuple[Any, Any, type[GraphnetError], str]] = [
    (gn.sum(good), [W], gn.DifferentiationError, r"shape \(batch,\).* of shape \[\]"),
    (cases(4, 3) @ W, [W], gn.DifferentiationError, r"shape \[4, 2\].*axis=0"),
    (3, [W], gn.ValueAccessError, "the losses must be a node, not 3"),
    (symbols(4), [W], gn.DifferentiationError, "int64 of shape"),
    (good, 3, gn.ValueAccessError, "per_example_gradients: parameters"),
    (good, [symbols(4)], gn.DifferentiationError, "int64"),
]


def test_invalid_arguments_are_rejected() -> None:
    for losses, parameters, error, message in REFUSED:
        with case(message), pytest.raises(error, match=message):
            gn.per_example_gradients(losses, parameters)
