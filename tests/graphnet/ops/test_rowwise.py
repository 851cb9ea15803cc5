"""Row-wise ops: native kernels, storage, division among threads, and memory bounds."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import viz
from graphnet import passes
from graphnet.backends import usable_backends
from graphnet.backends.numba.backend import NumbaBackend
from graphnet.backends.numba.machine import this_machine
from graphnet.backends.numba.schedule import make_schedule
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node
from graphnet.ops.kernel_content import content_of
from graphnet.plan import lower
from graphnet.plan.instructions import KernelCall
from tests.graphnet.backends.conftest import output_of, require_close, run_at_once
from tests.graphnet.backends.example_back_end import ExampleBackend
from tests.graphnet.backends.races import planned, races
from tests.graphnet.ops.lattices import PathSums, Recursion
from tests.tables import case

GENERATOR = np.random.default_rng(5)


@dataclass(frozen=True, eq=False)
class Decayed(gn.Rowwise):
    """y[t] = x[t] + λ y[t-1], or from the end; λ^n of what was so many steps ago"""

    signature = "... t -> ... t"
    zero_if = "all"

    decay: float = 0.9
    from_end: bool = False

    @staticmethod
    def kernel(y, x, work, decay, from_end):
        size, total = x.shape[0], 0.0
        for k in range(size):
            work[k] = x[size - 1 - k] if from_end else x[k]
        for k in range(size):
            total = work[k] + decay * total
            y[size - 1 - k if from_end else k] = total

    def scratch(self, y, *inputs):
        return {"work": y.shape[-1:]}

    def backward(self, gy, y, x):
        return (type(self)(self.decay, not self.from_end)(gy),)

    def rop(self, rx, y, x):
        return self(rx)


class Through(gn.Rowwise):
    """y = x W: a row of y reads its row of x, and all of W"""

    signature = "... n, n m -> ... m"
    zero_if = "any"

    @staticmethod
    def kernel(y, x, W):
        for j in range(y.shape[0]):
            y[j] = 0
            for i in range(x.shape[0]):
                y[j] += x[i] * W[i, j]

    def backward(self, gy, y, x, W):
        rows, out = (gn.reshape(z, (math.prod(z.shape[:-1]), z.shape[-1])) for z in (x, gy))
        return self(gy, gn.transpose(W)), gn.transpose(rows) @ out

    def rop(self, rx, rW, y, x, W):
        return gn.add(self(rx, W), self(x, rW))


class Norm(gn.Rowwise):
    """y = √(1 + Σ x²): what is left of a row has no axes"""

    signature = "... n -> ..."

    @staticmethod
    def kernel(y, x):
        total = 1.0
        for i in range(x.shape[0]):
            total += x[i] * x[i]
        y[()] = math.sqrt(total)

    def backward(self, gy, y, x):
        return (x * (gy / y)[..., None],)

    def rop(self, rx, y, x):
        return gn.sum(rx * x, -1) / y


class Shifted(gn.Rowwise):
    """y[i] = x[(i - n) mod size] of all of x at once, n an integer; it has no rows"""

    signature = "n, -> n"

    @staticmethod
    def kernel(y, x, by):
        size = x.shape[0]
        for i in range(size):
            y[(i + by[()]) % size] = x[i]

    def backward(self, gy, y, x, by):
        return self(gy, 0 - by), gn.fill(0, (), gy.dtype)

    def rop(self, rx, rby, y, x, by):
        return self(rx, by)


OPS: dict[str, tuple[gn.Rowwise, tuple[Array, ...]]] = {
    "scratch and settings": (Decayed(0.8), (GENERATOR.standard_normal((2, 3, 4)),)),
    "read by all": (Through(), (GENERATOR.standard_normal((4, 3)), GENERATOR.standard_normal((3, 2)))),
    "rows without axes": (Norm(), (1 + GENERATOR.uniform(size=(4, 3)),)),
    "no rows": (Shifted(), (GENERATOR.standard_normal(5), np.array(2))),
    "sums over paths": (PathSums(), (GENERATOR.standard_normal((2, 3, 3, 4)),)),
    "a recursion": (Recursion(), (GENERATOR.uniform(size=(2, 3, 3, 2)), GENERATOR.standard_normal((2, 3, 2)))),
}  # fmt: skip


@pytest.mark.cuda
@pytest.mark.parametrize("name", OPS)
def test_all_laws(name: str) -> None:
    op, arrays = OPS[name]
    gn.testing.check_op(op, *arrays, narrow=name == "read by all")


def test_rowwise_ops_are_native_or_run_in_python() -> None:
    for name, (op, arrays) in OPS.items():
        with case(name):
            leaves = [gn.input(a.shape, a.dtype) for a in arrays]
            graph = Graph([op(*leaves)], leaves)
            (call,) = lower(graph).instructions
            assert isinstance(call, KernelCall)
            schedule = make_schedule(graph, this_machine(), 2, False)
            assert [section.host for section in schedule.sections] == [None]
            (found,) = ExampleBackend().build(graph, graph, None, False).run(arrays)
            np.testing.assert_allclose(found, op.forward(*arrays), rtol=1e-12)


def test_rows_are_derived_from_the_signature() -> None:
    x, W = gn.input((4, 2, 3), "float64"), gn.input((3, 5), "float64")
    y = Through()(x, W)
    assert y.op.row_offset(y, x, W) is None
    assert (y.op.aligned_axes(1, y, x, W), y.op.aligned_axes(2, y, x, W)) == ([1, None], None)
    assert Norm()(x).op.row_offset(Norm()(x), x) == 0
    some = y.op.rows(range(1, 3), lambda node, rows: node[rows.start : rows.stop], y, x, W)
    assert some is not None and some.shape == (2, 2, 5)  # noqa: PT018
    (per_case,) = gn.per_example_gradients(gn.sum(y * y, (1, 2)), [W])
    assert per_case.shape == (4, 3, 5)


def recurrent() -> tuple[list[Node], list[Node], list[Array]]:
    """Kernels amid a recurrence, of its rows and of what all rows make, with gradients and curvature."""
    x = gn.input((12, 6), "float64", name="x")
    W = gn.parameter(np.random.default_rng(0).standard_normal((6, 6)) / 3, name="W")
    h = x
    for _ in range(3):
        h = gn.tanh(Decayed(0.5)(h @ W) + Through()(h, gn.tanh(W)))
        h = h + Decayed(0.3)(h.T).T / 4
    cost = gn.sum(Norm()(h))
    nodes = [cost, *gn.gradient(cost, [W, x]), *gn.hessian_product(cost, {W: np.ones(W.shape)})]
    return nodes, [x], [np.random.default_rng(1).standard_normal(x.shape)]


def test_rowwise_ops_with_all_settings_in_any_order() -> None:
    nodes, inputs, arrays = recurrent()
    gn.testing.require_same_in_any_order(Graph(nodes, inputs), arrays)
    expected = gn.compile(nodes, inputs, backend="numpy", passes=())(*arrays)
    ways: list[dict[str, Any]] = [{"threads": 1}, {"threads": 2}, {"memory": "sqrt"}, {"check": True}]
    if "cuda" in usable_backends():
        ways.append({"backend": "cuda"})
    for settings in ways:
        with case(settings):
            require_close(gn.compile(nodes, inputs, **settings)(*arrays), expected, rtol=1e-11, atol=1e-13)
    graph, _ = passes.optimize(Graph(nodes, inputs), passes.DEFAULT, NumbaBackend.has)
    for parts in (2, 3, 8):
        with case(parts):
            plan = planned(lambda: make_schedule(graph, this_machine(), parts, False, finely=True))
            assert "rows" in {getattr(job, "split", None) for job in plan.jobs}
            assert not list(races(plan))
            assert any(list(races(plan, without=barrier)) for barrier in plan.barriers), "it sees nothing"
    function = gn.compile(nodes, inputs)
    assert re.search(r" kernel .*Decayed\(", str(function.instructions()))
    assert "Decayed" in viz.draw(nodes[:1]).dot
    assert "Decayed" in str(function.profile(*arrays))


def scaled(factor):
    def kernel(y, x):
        for i in range(x.shape[0]):
            y[i] = factor * x[i]

    return kernel


def test_several_threads_may_compile_at_once() -> None:
    def run(factor: float) -> None:
        x = gn.input((2, 3), "float64")
        node = with_kernel(scaled(factor))(x)
        for backend in ("numpy", "numba"):
            assert (gn.compile([node], [x], backend=backend)(np.ones((2, 3)))[0] == factor).all()

    run_at_once(*(partial(run, factor) for factor in (1.5, 2.5, 3.5, 4.5)))


def test_stored_rowwise_ops_run_without_numba(tmp_path: Path) -> None:
    nodes, inputs, arrays = recurrent()
    function = gn.compile(nodes, inputs, threads=2)
    function.save(tmp_path / "f.gn")
    np.save(tmp_path / "x.npy", arrays[0])
    program = """
import json, sys
import numpy as np, graphnet as gn
from graphnet.backends.numba.machine import this_machine
x, function = np.load(sys.argv[2]), gn.load_function(sys.argv[1])
compiled = this_machine().compiled
found = [a.tobytes().hex() for a in function(x)]
print(json.dumps([found, compiled, "numba" in sys.modules]))
"""
    files = [str(tmp_path / name) for name in ("f.gn", "x.npy")]
    said = output_of("-c", program, *files, GRAPHNET_CACHE=str(tmp_path / "empty"))
    found, compiled, numba = json.loads(said)
    assert found == [a.tobytes().hex() for a in function(*arrays)]
    assert (compiled, numba) == (0, False)


def test_numba_is_imported_only_for_kernels(tmp_path: Path) -> None:
    """Building graphs, derivatives and cached programs do not import numba."""
    program = """
import sys
import numpy as np, graphnet as gn
class Doubled(gn.Rowwise):
    "y = 2 x"
    signature = "... n -> ... n"
    @staticmethod
    def kernel(y, x):
        for i in range(x.shape[0]):
            y[i] = 2 * x[i]
    def backward(self, gy, y, x):
        return (2 * gy,)
x = gn.input((3, 4), "float64")
y = Doubled()(x)
g, = gn.gradient(gn.sum(y * y), [x])
built = "numba" in sys.modules
found, = gn.compile([g], [x])(np.ones((3, 4)))
assert (found == 8).all()
print(built, "numba" in sys.modules)
"""
    (tmp_path / "own.py").write_text(program, encoding="utf-8")
    said = [output_of(str(tmp_path / "own.py"), GRAPHNET_CACHE=str(tmp_path / "cache")) for _ in range(2)]
    assert said == ["False True\n", "False False\n"]


def test_kernel_content_covers_code_and_captured_values() -> None:
    assert content_of(scaled(2)) == content_of(scaled(2))
    assert len({content_of(scaled(value)) for value in (2, 3, 2.0, True)}) == 4
    assert content_of(scaled(object())) is None  # nobody knows whether it stays as it is
    assert content_of(PathSums().python_kernel) is not None


FACTOR = 5.0


def by_factor(y, x):
    for k in range(x.shape[0]):
        y[k] = x[k] * FACTOR


def test_changed_globals_change_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    x, op = gn.input((3,), "float64"), with_kernel(by_factor)
    for factor in (5.0, 7.0, 5.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        for backend in ("numba", "numpy"):
            (value,) = gn.compile([op(x)], [x], backend=backend)(np.ones(3))
            np.testing.assert_array_equal(value, np.full(3, factor))


def beyond(y, x):
    for i in range(x.shape[0]):
        y[i + 1] = 2 * x[i]


def unwritten(y, x):
    for i in range(1, x.shape[0]):
        y[i] = 2 * x[i]


def before_the_first(y, x):
    for i in range(x.shape[0]):
        y[i] = 2 * x[i] + 0 * y[i - 1]


def into_an_input(y, x):
    for i in range(x.shape[0]):
        x[i] = 2 * x[i]
        y[i] = x[i]


def with_arrays(y, x):
    twice = 2 * x
    for i in range(x.shape[0]):
        y[i] = twice[i]


def with_gamma(y, x):
    for i in range(x.shape[0]):
        y[i] = 2 * x[i] * math.gamma(2.0 + 0 * x[i])


def returned(y, x):
    y[:] = 0
    return 2 * x[0]


def unknown_parameter(y, x, z):
    y[0] = z[0]


def of_positive(y, x):
    for i in range(x.shape[0]):
        if x[i] < 0:
            raise ValueError("x must be positive")
        y[i] = 2 * x[i]


def tripled(y, x):
    for i in range(x.shape[0]):
        y[i] = 3 * x[i]


def with_an_import(y, x):
    import math

    for i in range(x.shape[0]):
        y[i] = math.ldexp(x[i], 1)


def with_kernel(function: Any, **more: Any) -> gn.Rowwise:
    """An op that says that it doubles."""
    said = {
        "__doc__": "y = 2 x", "signature": "... n -> ... n", "zero_if": "all", "kernel": staticmethod(function),
        "backward": lambda op, gy, y, x: (2 * gy,), "rop": lambda op, rx, y, x: 2 * rx,
    }  # fmt: skip
    return type("Doubled", (gn.Rowwise,), said | more)()


#: Kernel -> what check_op says; its lines are told, too.
WRONG: dict[Any, str] = {
    beyond: r"index outside of an array: index 3 is out of bounds .*: y\[i \+ 1\] = 2 \* x\[i\]\. Indices go",
    unwritten: r"leaves y\[0, 0\] unwritten, or computes it from memory that it has not written",
    before_the_first: r"leaves y\[0, 0\] unwritten, .*an index below 0 counts from the end",
    into_an_input: r"writes an input, at .*: x\[i\] = 2 \* x\[i\]",
    with_arrays: r"(?s)cannot be compiled, at .*:\d+.*twice = 2 \* x.*in `scratch`",
    with_gamma: r"(?s)cannot be compiled, at .*numba_gamma.*exp of lgamma",
    with_an_import: r"(?s)cannot be compiled, at .*import math.*at the top of the file",
    unknown_parameter: r"the parameter 'z' of the kernel at .* is not a field of the op",
}


class DecayedInWork(gn.Rowwise):
    "y_i = decay · y_{i-1} + x_i"

    signature = "... n -> ... n"

    def __init__(self, decay: Any, scratch: Any) -> None:
        self.decay, self.arrays = decay, scratch

    def scratch(self, y: Any, *inputs: Any) -> Any:
        return self.arrays

    @staticmethod
    def kernel(y, x, decay, work):
        work[0] = 0
        for i in range(x.shape[0]):
            work[0] = decay * work[0] + x[i]
            y[i] = work[0]


def test_settings_and_scratch_arrays() -> None:
    x = gn.input((1, 3), "float64")
    for decay, scratch in ((0.5, {"work": (1,)}), (np.float32(0.5), {"work": 1})):
        with case(decay, scratch):
            found = gn.compile(DecayedInWork(decay, scratch)(x), [x])(np.ones((1, 3)))[0]
            assert found.tolist() == [[1.0, 1.5, 1.75]]
    for decay, scratch, message in (
        (2**63, {"work": 1}, "decay.*not a number that fits in 64 bits"),
        (0.5, None, "scratch.*dict"),
        (0.5, {"work": "a"}, r"scratch\['work'\].*whole numbers"),
    ):
        with case(message), pytest.raises(gn.errors.GraphnetError, match=f"DecayedInWork: .*{message}"):
            gn.compile(DecayedInWork(decay, scratch)(x), [x])


def test_kernel_errors_name_the_line() -> None:
    for kernel, message in WRONG.items():
        with case(kernel.__name__):
            with pytest.raises((gn.testing.LawError, gn.BackendError, gn.UsageError), match=message) as told:
                gn.testing.check_op(with_kernel(kernel), np.array([[1.0, 2.0, -3.0], [0.5, 1.0, 2.0]]))
            assert str(told.value).startswith("Doubled: ")
            assert kernel is unknown_parameter or f"{Path(__file__).name}:" in str(told.value)
    with pytest.raises(gn.UsageError, match=r"Bare: .*needs a `signature`"):
        type("Bare", (gn.Rowwise,), {"kernel": staticmethod(beyond)})
    twice_said = with_kernel(tripled, forward=lambda op, x: 2 * x)
    with pytest.raises(gn.testing.LawError, match=r"forward differs from the kernel in Python"):
        gn.testing.check_op(twice_said, np.ones((2, 3)))


def test_kernel_compile_and_run_errors_name_the_node(tmp_path: Path) -> None:
    """Failed native code returns no array, from files neither."""
    x, ones = gn.input((2, 3), "float64", name="x"), np.ones((2, 3))
    with pytest.raises(
        gn.BackendError, match=r"(?s)Doubled: .*must not return a value.*node made at .*test_row"
    ):
        gn.compile([with_kernel(returned)(x)], [x])
    for check in (False, True):
        function = gn.compile([with_kernel(beyond)(x)], [x], check=check)
        where = r"(?s)Doubled\.forward failed .*out of bounds.*made at .*test_row"
        with case(check), pytest.raises(gn.BackendError, match=where):
            function(ones)
    gn.compile([with_kernel(beyond)(x)], [x]).save(tmp_path / "f.gn")
    with pytest.raises(gn.GraphnetError, match="in this stored function"):
        gn.load_function(tmp_path / "f.gn")(ones)
    function = gn.compile([with_kernel(of_positive)(x)], [x])
    np.testing.assert_array_equal(function(ones)[0], 2)
    with pytest.raises(gn.BackendError, match=r"(?s)Doubled\.forward .*: x must be positive.*x\[2, 3\]"):
        function(-ones)
