"""Sum scatters: sums over rows that an index adds up as well are taken over the fewer rows."""

from __future__ import annotations

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
from graphnet import passes
from graphnet.graph.node import Node
from tests.tables import case


def rows_summed(function: gn.Function) -> list[int]:
    return sorted(
        n.inputs[0].shape[0] for n in function.graph.order if n.op.name == "Sum" and n.op.axes == (0,)
    )


def test_over_the_fewer_rows() -> None:
    for rows, size, expected in ((50, 7, 7), (7, 7, 7), (5, 9, 5)):
        for backend in ("numpy", "numba"):
            with case(rows, size, backend):
                x, index = gn.input((rows, 20)), gn.input((rows,), "int64")
                y = gn.tanh(x)
                outputs = [gn.sum(y, axis=0), gn.scatter_add(y, index, size)]
                function = gn.compile(outputs, [x, index], backend=backend)
                assert rows_summed(function) == [expected]
                generator = np.random.default_rng(0)
                array, at = (
                    generator.standard_normal((rows, 20)).astype(np.float32),
                    generator.integers(0, size, rows),
                )
                for found, right in zip(
                    function(array, at), gn.compile(outputs, [x, index], passes=())(array, at), strict=True
                ):
                    assert np.allclose(found, right, rtol=1e-5, atol=1e-5)


def test_of_several_scatters_that_with_the_fewest_rows() -> None:
    x, i, j = gn.input((50, 20)), gn.input((50,), "int64"), gn.input((50,), "int64")
    outputs = [gn.scatter_add(x, i, 30), gn.sum(x, axis=0), gn.scatter_add(x, j, 4), gn.scatter_add(x, i, 40)]
    assert rows_summed(gn.compile(outputs, [x, i, j])) == [4]


def test_all_else_stays() -> None:
    for build in [
        lambda x, i: [gn.sum(x, axis=1), gn.scatter_add(x, i, 3)],
        lambda x, i: [gn.sum(x, axis=(0, 1)), gn.scatter_add(x, i, 3)],
        lambda x, i: [gn.max(x, axis=0), gn.scatter_add(x, i, 3)],
        lambda x, i: [gn.sum(x, axis=0), gn.scatter_add(x.T, i, 3, axis=1)],
        lambda x, i: [gn.sum(x * 2.0, axis=0), gn.scatter_add(x, i, 3)],
    ]:
        x, i = gn.input((50, 20)), gn.input((50,), "int64")
        graph = gn.Graph(build(x, i), [x, i])
        assert passes.sum_scatters(graph) is graph


def test_a_sum_that_stays_does_not_wait_for_an_index_that_varies() -> None:
    for varies, expected in (("index", 50), ("rows", 4), ("", 4)):
        with case(varies):
            x = gn.input((50, 20), varying=varies == "rows")
            i = gn.input((50,), "int64", varying=varies == "index")
            assert rows_summed(gn.compile([gn.scatter_add(x, i, 4), gn.sum(x, axis=0)], [x, i])) == [expected]


def test_it_fires_for_biases_of_cells_that_read_symbols() -> None:
    for cell in (rnn.LSTM, rnn.Elman, rnn.GRU):
        with case(cell.__name__):
            net = rnn.Network([cell(8)], 5, 5)
            u = net.unroll(10, 4, initial="zero")
            outputs: list[Node] = [u.cost, *gn.gradient(u.cost, list(net.parameters.values()))]
            function = gn.compile(outputs, [u.inputs, u.targets])
            # The output's bias has no symbols beside it.
            assert 40 in rows_summed(function)
            assert set(rows_summed(function)) == {5, 40}
            apart = gn.compile(outputs, [u.inputs, u.targets], passes=passes.without("sum scatters"))
            assert 5 not in rows_summed(apart)
