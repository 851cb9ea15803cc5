"""Updates: arrays that a function changes in place, on every back end, against the graph's own values by NumPy."""

from __future__ import annotations

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


def step(n: int) -> Made:
    """What an optimiser does: a norm of what is read, then all in one pass."""
    x, v, g = (gn.input((n,), name=name) for name in "xvg")
    length = gn.sqrt(gn.sum(gn.cast(g, "float64") ** 2))
    new = 0.9 * v - 0.1 * g / gn.cast(1 + length, "float32")
    return [length], {x: x + new, v: new}, [x, v, g]


def norm_of_itself(n: int) -> Made:
    """All of the old numbers are read before the first is written, by other cores, too."""
    x = gn.input((n,), name="x")
    return [gn.sum(x)], {x: x / (1 + gn.sum(gn.absolute(x)))}, [x]


def changed_places(n: int) -> Made:
    a, b = (gn.input((n,), name=name) for name in "ab")
    return [], {a: b, b: a}, [a, b]


def turned_round(n: int) -> Made:
    """An element reads another one's old value."""
    x = gn.input((n,), name="x")
    return [x + 1], {x: x[::-1] * 2}, [x]


def shifted(n: int) -> Made:
    x = gn.input((n,), name="x")
    return [x[:1]], {x: gn.concatenate([x[1:], x[:1]])}, [x]


def kept_result(n: int) -> Made:
    """The result is of before, the update is not."""
    x = gn.input((n,), name="x")
    y = gn.input((n,), name="y")
    return [x, 2 * x, y], {x: x + 1}, [x, y]


def out_alone(n: int) -> Made:
    """An array that is only written."""
    out, x = (gn.input((n,), name=name) for name in ("out", "x"))
    return [], {out: gn.tanh(x)}, [out, x]


def same_for_two(n: int) -> Made:
    a, b, x = (gn.input((n,), name=name) for name in "abx")
    y = gn.exp(-x * x)
    return [y], {a: y, b: y}, [a, b, x]


def number_for_all(n: int) -> Made:
    x, y = (gn.input((n,), name=name) for name in "xy")
    return [gn.sum(x)], {x: gn.fill(3, (n,), "float32"), y: y}, [x, y]


def product(n: int) -> Made:
    x = gn.input((n % 97 + 3, 5), name="x")
    w = gn.input((5, 5), name="w")
    y = x @ w
    return [gn.sum(y)], {x: gn.tanh(y) + x, w: w - 0.1 * (x.T @ y)}, [x, w]


def looked_up(n: int) -> Made:
    """What may fail on the way writes nothing before its end."""
    x = gn.input((7, 3), name="x")
    index = gn.input((n % 11 + 1,), "int64", name="index")
    return [], {x: x + gn.sum(gn.take(x, index))}, [x, index]


def counted(n: int) -> Made:
    x, t = gn.input((n,), name="x"), gn.input((1,), "int64", name="t")
    return [], {t: t + 1, x: x * gn.cast(t + 1, "float32")}, [x, t]


def many_terms(n: int) -> Made:
    """A sum that is added up in several loops."""
    terms = [gn.input((n,), name=f"x{i}") for i in range(20)]
    return [], {terms[0]: Add()(*terms)}, terms


PROGRAMS: list[Callable[[int], Made]] = [
    step, norm_of_itself, changed_places, turned_round, shifted, kept_result, out_alone, same_for_two, number_for_all,
    product, looked_up, counted, many_terms,
]  # fmt: skip
every_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)


def arrays_for(inputs: list[Node]) -> list[Array]:
    generator = np.random.default_rng(len(inputs))
    return [
        generator.integers(0, 3, node.shape)
        if node.dtype == np.int64
        else generator.standard_normal(node.shape).astype(node.dtype)
        for node in inputs
    ]


def expected(made: Made, arrays: list[Array]) -> tuple[list[Array], list[Array]]:
    """(results, arrays afterwards), each node by itself."""
    results, updates, inputs = made
    function = gn.compile([*results, *updates.values()], inputs, backend="numpy", passes=())
    found = function(*arrays)
    after = list(arrays)
    for node, value in zip(updates, found[len(results) :], strict=True):
        after[inputs.index(node)] = value
    return list(found[: len(results)]), after


def require_equal(found: Any, wanted: Any) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-5)


@every_program
def test_arrays_have_the_nodes_values(program: Callable[[int], Made]) -> None:
    for backend in BACKENDS:
        for n in (1, 37, 300 if backend == "cuda" else LONG):  # a simulated thread does all of it
            with case(backend, n):
                require_values(program, backend, n)


def require_values(program: Callable[[int], Made], backend: str, n: int) -> None:
    made = program(n)
    results, updates, inputs = made
    arrays = arrays_for(inputs)
    wanted, after = expected(made, [a.copy() for a in arrays])
    function = gn.compile(results, inputs, backend, updates=updates)
    assert function.updates == updates
    assert list(function.outputs) == results
    for _ in range(2):  # other arrays, elsewhere
        given = [a.copy() for a in arrays]
        require_equal(function(*given), wanted)
        require_equal(given, after)


def test_cores_in_any_order() -> None:
    """Finely divided, one core at a time, the first or the last one first: the bits are the same."""
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
        with case(program.__name__):
            results, updates, inputs = program(LONG)
            arrays = arrays_for(inputs)
            found = set()
            for threads in (1, 2, 3):
                given = [a.copy() for a in arrays]
                outputs = gn.compile(results, inputs, threads=threads, updates=updates)(*given)
                found.add(b"".join(a.tobytes() for a in (*outputs, *given)))
            assert len(found) == 1


def test_a_step_takes_no_memory_but_for_its_norm() -> None:
    """All vectors are read and written where they lie, in one loop."""
    results, updates, inputs = step(LONG)
    function = gn.compile(results, inputs, updates=updates)
    assert function.memory.peak < 10_000
    lowered = lower(function.graph, [0, 1])
    stores = [access for i in lowered.instructions for access in i.writes if access.view.size == LONG]
    assert {access.view.buffer.leaf for access in stores} == {inputs[0], inputs[1]}
    assert len(stores) == 2
    assert len([i for i in lowered.instructions if any(a in stores for a in i.writes)]) == 1


def test_nothing_is_written_where_a_run_fails() -> None:
    results, updates, inputs = looked_up(5)
    x = np.ones((7, 3), np.float32)
    function = gn.compile(results, inputs, updates=updates)
    with pytest.raises(GraphnetError, match="index"):
        function(x, np.array([0, 1, 2, 99, 0, 0]))
    assert (x == 1).all()


def test_check_finds_what_breaks_before_anything_is_written() -> None:
    x = gn.input((3,), name="x")
    array = np.array([1, -1, 2], np.float32)
    with pytest.raises(gn.NonFiniteError, match="Log"):
        gn.compile([], [x], updates={x: gn.log(x)}, check=True)(array)
    assert array.tolist() == [1, -1, 2]


def test_what_cannot_be_updated() -> None:
    for given, words in [
        ([1.0, 2.0], "x.* is updated, so it must be given an array of float32 .* not a list"),
        (np.ones(2, np.float16), "float16 of shape"),
        (np.ones(4, np.float32)[::2], "not in one piece"),
    ]:
        for backend in BACKENDS:
            with case(backend, words):
                x = gn.input((2,), name="x")
                with pytest.raises(DtypeError, match=words):
                    gn.compile([], [x], backend, updates={x: 2 * x})(given)


def test_an_array_that_cannot_be_written() -> None:
    x, array = gn.input((2,), name="x"), np.ones(2, np.float32)
    array.flags.writeable = False
    with pytest.raises(DtypeError, match="read-only"):
        gn.compile([], [x], updates={x: 2 * x})(array)


def test_what_is_only_read_may_lie_anyhow() -> None:
    x, y = gn.input((3,), name="x"), gn.input((3,), name="y")
    array = np.zeros(3, np.float32)
    gn.compile([], [x, y], updates={x: x + y})(array, np.arange(6, dtype=np.float32)[::2])
    assert array.tolist() == [0, 2, 4]


def test_arrays_that_share_memory() -> None:
    """Two that are written, or one that is written and one that is read; what is only read may."""
    x, y, z = (gn.input((3,), name=name) for name in "xyz")
    memory = np.ones(4, np.float32)
    for backend in ("numba", "numpy"):
        for updates, given in (
            ({x: x + y}, (memory[:3], memory[1:])),
            ({x: y * 2, y: x * 3}, (memory[:3], memory[:3])),
        ):
            with pytest.raises(
                BackendError, match="the arrays of inputs 0 and 1 of this function share memory"
            ):
                gn.compile([], [x, y], backend, updates=updates)(*given)
            assert (memory == 1).all()
    read = gn.compile([gn.sum(x * y)], [x, y, z], updates={z: z + 1})
    assert read(memory[:3], memory[:3], np.zeros(3, np.float32))[0] == 3


def test_a_parameters_own_array_is_updated() -> None:
    """Also where the parameter is read at other places than those that are written meanwhile."""
    for size in (6, 64, 5000):
        for backend in ("numba", "numpy"):
            with case(size, backend):
                before = np.arange(float(size))
                w, x = gn.parameter(before.copy(), name="w"), gn.input((size,), "float64", name="x")
                total = gn.sum(w * w)
                function = gn.compile([total], [x], backend, updates={x: gn.tanh(x) + 2 * w[::-1]})
                assert function(w.value)[0] == pytest.approx(before @ before)
                np.testing.assert_array_equal(w.value, np.tanh(before) + 2 * before[::-1])


def test_updates_that_cannot_be_meant() -> None:
    x, y, v = gn.input((3,), name="x"), gn.input((3,), name="y"), gn.input((3,), name="v", varying=True)
    w = gn.parameter(np.ones(3), name="w")
    for outputs, inputs, updates, words in (
        ([], [x], {w: 2 * w}, "is no Input"),
        ([], [x], {x: gn.sum(x)}, r"x\[3\] .* cannot become .*Sum"),
        ([], [x], {x: gn.cast(x, "float64")}, "cannot become .* of float64"),
        ([], [x], {x: 3.0}, "cannot become 3.0"),
        ([], [x], {y: 2 * x}, r"y\[3\] .* is not among the inputs"),
        ([], [x, v], {x: x + v}, "without varying=True"),
    ):
        with pytest.raises(GraphnetError, match=words):
            gn.compile(outputs, inputs, updates=updates)


def test_a_function_with_updates_is_in_no_file(tmp_path: Any) -> None:
    x = gn.input((3,), name="x")
    with pytest.raises(BackendError, match="with updates cannot be stored"):
        gn.compile([], [x], updates={x: 2 * x}).save(tmp_path / "f")


def test_a_profile_changes_nothing() -> None:
    x, array = gn.input((3,), name="x"), np.ones(3, np.float32)
    gn.compile([], [x], updates={x: 2 * x}).profile(array)
    assert (array == 1).all()


# -- long sums -----------------------------------------------------------------------------------


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
