"""Updates: functions change arrays in place on every back end; values match NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet.backends import load_backend
from graphnet.backends.numba.backend import REHEARSED, _program
from graphnet.backends.numba.machine import this_machine
from graphnet.backends.numba.schedule import make_schedule
from graphnet.errors import BackendError, DtypeError, GraphnetError
from graphnet.graph.node import Array, Node
from graphnet.ops.elementwise import Add
from graphnet.plan import lower
from tests.tables import case

BACKENDS = ["numba", "numpy"] + (["cuda"] if not load_backend("cuda").missing() else [])
LONG = 140_001

Made = tuple[list[Node], dict[Node, Node], list[Node]]


def leaves(n: int, names: str) -> list[Node]:
    return [gn.input((n,), name=name) for name in names]


def step(n: int) -> Made:
    """An optimizer step: the norm of the gradient, then updates of x and v in one loop."""
    x, v, g = leaves(n, "xvg")
    length = gn.sqrt(gn.sum(gn.cast(g, "float64") ** 2))
    new = 0.9 * v - 0.1 * g / gn.cast(1 + length, "float32")
    return [length], {x: x + new, v: new}, [x, v, g]


def norm_of_itself(n: int) -> Made:
    """All elements of x must be read before the first one is written, on all cores."""
    (x,) = leaves(n, "x")
    return [gn.sum(x)], {x: x / (1 + gn.sum(gn.absolute(x)))}, [x]


def changed_places(n: int) -> Made:
    a, b = leaves(n, "ab")
    return [], {a: b, b: a}, [a, b]


def turned_round(n: int) -> Made:
    """Each element of the update reads another element's old value."""
    (x,) = leaves(n, "x")
    return [x + 1], {x: x[::-1] * 2}, [x]


def transposed(n: int) -> Made:
    """As turned_round; the places begin with the same element and have the same shape."""
    m = math.isqrt(n)
    x = gn.input((m, m), name="x")
    return [gn.sum(x)], {x: x.T * 2}, [x]


def shifted(n: int) -> Made:
    (x,) = leaves(n, "x")
    return [x[:1]], {x: gn.concatenate([x[1:], x[:1]])}, [x]


def kept_result(n: int) -> Made:
    """The results have the old values of x, which is updated."""
    x, y = leaves(n, "xy")
    return [x, 2 * x, y], {x: x + 1}, [x, y]


def one_for_two(n: int) -> Made:
    """Arrays that are only written."""
    a, b, x = leaves(n, "abx")
    y = gn.exp(-x * x)
    return [y], {a: y, b: y}, [a, b, x]


def number_for_all(n: int) -> Made:
    x, y = leaves(n, "xy")
    return [gn.sum(x)], {x: gn.fill(3, (n,), "float32"), y: y}, [x, y]


def product(n: int) -> Made:
    x, w = gn.input((n % 97 + 3, 5), name="x"), gn.input((5, 5), name="w")
    y = x @ w
    return [gn.sum(y)], {x: gn.tanh(y) + x, w: w - 0.1 * (x.T @ y)}, [x, w]


def looked_up(n: int) -> Made:
    """An update with `take`. If an index is out of range, x must stay unchanged."""
    x, index = gn.input((7, 3), name="x"), gn.input((n % 11 + 1,), "int64", name="index")
    return [], {x: x + gn.sum(gn.take(x, index))}, [x, index]


def counted(n: int) -> Made:
    x, t = gn.input((n,), name="x"), gn.input((1,), "int64", name="t")
    return [], {t: t + 1, x: x * gn.cast(t + 1, "float32")}, [x, t]


def many_terms(n: int) -> Made:
    """A sum of 20 terms, which is computed in several loops."""
    terms = leaves(n, "abcdefghijklmnopqrst")
    return [], {terms[0]: Add()(*terms)}, terms


PROGRAMS: list[Callable[[int], Made]] = [
    step, norm_of_itself, changed_places, turned_round, transposed, shifted, kept_result, one_for_two, number_for_all,
    product, looked_up, counted, many_terms,
]  # fmt: skip


def arrays_for(inputs: list[Node]) -> list[Array]:
    generator = np.random.default_rng(len(inputs))
    kinds = {"i": lambda shape: generator.integers(0, 3, shape), "f": generator.standard_normal}
    return [kinds[node.dtype.kind](node.shape).astype(node.dtype) for node in inputs]


def expected(made: Made, arrays: list[Array]) -> tuple[list[Array], list[Array]]:
    """Returns (results, arrays afterwards), with each node computed alone."""
    results, updates, inputs = made
    function = gn.compile([*results, *updates.values()], inputs, backend="numpy", passes=())
    found = function(*arrays)
    after = list(arrays)
    for node, value in zip(updates, found[len(results) :], strict=True):
        after[inputs.index(node)] = value
    return list(found[: len(results)]), after


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_updated_arrays_have_the_values_of_their_nodes(program: Callable[[int], Made]) -> None:
    for backend in BACKENDS:
        for n in (1, 37, 300 if backend == "cuda" else LONG):  # a simulated thread does all of it
            with case(backend, n):
                results, updates, inputs = program(n)
                arrays = arrays_for(inputs)
                wanted = expected((results, updates, inputs), [a.copy() for a in arrays])
                function = gn.compile(results, inputs, backend, updates=updates)
                assert (function.updates, list(function.outputs)) == (updates, results)
                for _ in range(2):  # other arrays, elsewhere
                    given = [a.copy() for a in arrays]
                    for found, right in zip((function(*given), given), wanted, strict=True):
                        for a, b in zip(found, right, strict=True):
                            np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-5)


def test_cores_in_any_order() -> None:
    """Runs small parts on one core at a time, in both orders of the cores; bits are equal."""
    for program in PROGRAMS:
        with case(program.__name__):
            results, updates, inputs = program(61)
            arrays = arrays_for(inputs)
            graph = gn.compile(results, inputs, updates=updates).graph
            positions = [inputs.index(node) for node in updates]
            found = set()
            for parts in REHEARSED:
                schedule = make_schedule(graph, this_machine(), parts, False, finely=True, updated=positions)
                for order in (range(parts), range(parts)[::-1]):
                    given = [a.copy() for a in arrays]
                    for _, outputs in _program(schedule, graph, False).run_alone(given, order):
                        written = given if schedule.written else []
                        found.add(b"".join(np.ascontiguousarray(a).tobytes() for a in (*outputs, *written)))
            assert len(found) == 1


def test_bits_do_not_depend_on_threads() -> None:
    for program in PROGRAMS:
        results, updates, inputs = program(LONG)
        arrays = arrays_for(inputs)
        found = set()
        for threads in (1, 2, 3):
            given = [a.copy() for a in arrays]
            outputs = gn.compile(results, inputs, threads=threads, updates=updates)(*given)
            found.add(b"".join(a.tobytes() for a in (*outputs, *given)))
        assert len(found) == 1, program.__name__


def test_optimizer_step_runs_in_place() -> None:
    """All vectors are read and written in place, in one loop."""
    results, updates, inputs = step(LONG)
    function = gn.compile(results, inputs, updates=updates)
    assert function.memory.peak < 10_000
    lowered = lower(function.graph, [0, 1])
    stores = [access for i in lowered.instructions for access in i.writes if access.view.size == LONG]
    assert {access.view.buffer.leaf for access in stores} == {inputs[0], inputs[1]}
    assert len(stores) == 2
    assert len([i for i in lowered.instructions if any(a in stores for a in i.writes)]) == 1


def test_failed_runs_write_no_updates() -> None:
    results, updates, inputs = looked_up(5)
    x = np.ones((7, 3), np.float32)
    with pytest.raises(GraphnetError, match="index"):
        gn.compile(results, inputs, updates=updates)(x, np.array([0, 1, 2, 99, 0, 0]))
    assert (x == 1).all()
    x, array = gn.input((3,), name="x"), np.array([1, -1, 2], np.float32)
    with pytest.raises(gn.NonFiniteError, match="Log"):
        gn.compile([], [x], updates={x: gn.log(x)}, check=True)(array)
    assert array.tolist() == [1, -1, 2]


def test_invalid_arrays_for_updates_are_rejected() -> None:
    read_only, x = np.ones(2, np.float32), gn.input((2,), name="x")
    read_only.flags.writeable = False
    for given, words in [
        ([1.0, 2.0], "x.* is updated, so it must be given an array of float32 .* not a list"),
        (np.ones(2, np.float16), "float16 of shape"),
        (np.ones(4, np.float32)[::2], "not contiguous"),
        (read_only, "read-only"),
    ]:
        for backend in BACKENDS:
            with case(backend, words), pytest.raises(DtypeError, match=words):
                gn.compile([], [x], backend, updates={x: 2 * x})(given)
    y, array = gn.input((2,), name="y"), np.zeros(2, np.float32)  # if only read, any strides
    gn.compile([], [x, y], updates={x: x + y})(array, np.arange(4, dtype=np.float32)[::2])
    assert array.tolist() == [0, 2]


def test_arrays_that_share_memory() -> None:
    """Written arrays must not share memory with others; arrays that are only read may."""
    x, y, z = (gn.input((3,), name=name) for name in "xyz")
    memory = np.ones(4, np.float32)
    for backend in ("numba", "numpy"):
        for updates, second in (({x: x + y}, memory[1:]), ({x: y * 2, y: x * 3}, memory[:3])):
            with pytest.raises(BackendError, match=r"the arrays of inputs 0 and 1 .* share memory"):
                gn.compile([], [x, y], backend, updates=updates)(memory[:3], second)
            assert (memory == 1).all()
    read = gn.compile([gn.sum(x * y)], [x, y, z], updates={z: z + 1})
    assert read(memory[:3], memory[:3], np.zeros(3, np.float32))[0] == 3


def test_parameter_arrays_are_updated() -> None:
    """Elements of w are read and written at different positions."""
    for size in (6, 64, 5000):
        for backend in ("numba", "numpy"):
            with case(size, backend):
                before = np.arange(float(size))
                w, x = gn.parameter(before.copy(), name="w"), gn.input((size,), "float64", name="x")
                total = gn.sum(w * w)
                function = gn.compile([total], [x], backend, updates={x: gn.tanh(x) + 2 * w[::-1]})
                assert function(w.value)[0] == pytest.approx(before @ before)
                np.testing.assert_array_equal(w.value, np.tanh(before) + 2 * before[::-1])


def test_invalid_updates_are_rejected(tmp_path: Any) -> None:
    x, y, v = gn.input((3,), name="x"), gn.input((3,), name="y"), gn.input((3,), name="v", varying=True)
    w, array = gn.parameter(np.ones(3), name="w"), np.ones(3, np.float32)
    for inputs, updates, words in (
        ([x], {w: 2 * w}, "is not an Input"),
        ([x], {x: gn.sum(x)}, r"x\[3\] .* cannot become .*Sum"),
        ([x], {x: gn.cast(x, "float64")}, "cannot become .* of float64"),
        ([x], {x: 3.0}, "cannot become 3.0"),
        ([x], {y: 2 * x}, r"y\[3\] .* is not among the inputs"),
        ([x, v], {x: x + v}, "without varying=True"),
    ):
        with case(words), pytest.raises(GraphnetError, match=words):
            gn.compile([], inputs, updates=updates)
    function = gn.compile([], [x], updates={x: 2 * x})
    with pytest.raises(BackendError, match="with updates cannot be stored"):
        function.save(tmp_path / "f")
    function.profile(array)
    assert (array == 1).all(), "a profile changes nothing"


def test_a_long_vector_is_reduced_in_chunks() -> None:
    for dtype in ("float32", "float64", "int64"):
        for n in (32_767, 32_768, 40_001, 49_152, 140_001):
            with case(n, dtype):
                x = gn.input((n,), dtype, name="x")
                y = 2 * x
                function = gn.compile([gn.sum(y), gn.max(x), gn.min(y), y], [x])
                array = np.random.default_rng(0).permutation(n).astype(dtype)
                total, most, least, twice = function(array)
                assert total == pytest.approx(n * (n - 1), rel=2e-7 if dtype == "float32" else 1e-15)
                assert (most, least) == (n - 1, 0)
                assert np.array_equal(twice, 2 * array)
