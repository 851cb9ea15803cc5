"""A back end with only kernels, an emitter and a launcher satisfies the laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import graphnet as gn
import graphnet_rnn as rnn
from graphnet import backends
from graphnet.testing import check_graph, check_op
from tests.graphnet.backends.conftest import require_close
from tests.graphnet.backends.cuda.programs import PROGRAMS
from tests.graphnet.backends.test_native import Reversed
from tests.graphnet.backends.test_random_graphs import NUMBERS, some
from tests.graphnet.ops.op_cases import BY_OP
from tests.graphnet.testing.test_random_graphs import graphs
from tests.tables import case

NAME, MODULE = "example", "tests.graphnet.backends.example_back_end"


@pytest.fixture(autouse=True, scope="module")
def _only_it():
    """Laws 7 and 8 ask all back ends that there are."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("numba", "cuda", "cuda-tf32"):
            patch.delitem(backends.AVAILABLE, name)
        patch.setitem(backends.AVAILABLE, NAME, (MODULE, "ExampleBackend"))
        yield


@pytest.mark.parametrize("op", BY_OP)
def test_ops_match_numpy(op: str) -> None:
    for each in BY_OP[op]:
        with case(each.id):
            check_op(each.op, *each.arrays, laws=(7,))


@NUMBERS
def test_random_graphs_match_numpy(share: int) -> None:
    some(200 // share)(given(graphs())(lambda drawn: check_graph(*drawn, laws=(7,))))()


def test_programs() -> None:
    """All kinds of instructions, run and called again."""
    for name, program in PROGRAMS.items():
        with case(name):
            require_same(*program.nodes())


def require_same(outputs, inputs, arrays, **how) -> gn.Function:
    function = gn.compile(outputs, inputs, backend=NAME, **how)
    expected = gn.compile(outputs, inputs, backend="numpy", passes=())(*arrays)
    for _ in range(2):
        require_close(function(*arrays), expected, rtol=1e-9, atol=1e-12)
    return function


def test_a_network_in_a_file_gives_the_same_bits(tmp_path) -> None:
    net = rnn.Network([rnn.LSTM(6)], 5, 5, dtype="float64", seed=1)
    u = net.unroll(4, 3, training=False)
    generator = np.random.default_rng(0)
    nodes = [u.cost, *gn.gradient(u.cost, list(net.parameters.values()))]
    states = [generator.standard_normal(node.shape) for node in u.initial]
    inputs, arrays = [u.inputs, u.targets, *u.initial], [*generator.integers(0, 5, (2, 4, 3)), *states]
    for memory in (None, "sqrt"):
        function = require_same(nodes, inputs, arrays, memory=memory)
        function.save(tmp_path / "f.gn")
        require_close(gn.load_function(tmp_path / "f.gn")(*arrays), function(*arrays))


def test_again_runs_only_varying_steps() -> None:
    x, v = gn.input((3, 4), "float64"), gn.input((4,), "float64", varying=True)
    function = gn.compile([gn.tanh(x) @ v, gn.tanh(x)], [x, v], backend=NAME)
    a, b = np.ones((3, 4)), np.arange(4.0)
    function(a, b)
    np.testing.assert_allclose(function.again(-b)[0], np.tanh(a) @ -b)
    assert 0 < function._program.schedule.fixed < 2


def test_ops_without_kernel_run_in_python(tmp_path) -> None:
    x = gn.input((4,), "float64")
    function = require_same([gn.tanh(Reversed()(x * 2.0))], [x], [np.arange(4.0)])
    assert "Reversed" in str(function.profile(np.arange(4.0), repeats=1))
    with pytest.raises(gn.BackendError, match="cannot be stored"):
        function.save(tmp_path / "f.gn")
    x, i = gn.input((3,), "float64", name="x"), gn.input((2,), "int64", name="i")
    function = gn.compile([gn.take(gn.log(x), i)], [x, i], backend=NAME)
    with pytest.raises(gn.GraphnetError, match=r"out of range|out of bounds"):
        function(np.ones(3), np.array([0, 3]))
    assert function(np.ones(3), np.array([0, 2]))[0].tolist() == [0, 0]
    checked = gn.compile([gn.log(x) * 2.0], [x], backend=NAME, check=True)
    with pytest.raises(gn.NonFiniteError, match=r"Log.*makes NaN"):
        checked(np.array([1.0, -1.0, 1.0]))
    assert checked(np.ones(3))[0].tolist() == [0, 0, 0]
