"""The program cache: programs are found for equal graphs only, and match newly compiled ones."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet import passes
from graphnet.backends.cache import Cache, open_cache
from graphnet.backends.numba.backend import NumbaBackend
from graphnet.call import kept
from graphnet.errors import GraphnetError, ShapeError
from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from tests.graphnet.backends.conftest import output_of, require_close
from tests.graphnet.ops.op_cases import CASES

GENERATOR = np.random.default_rng(0)
Made = tuple[list[Node], list[Node]]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """A folder of its own, in which programs of all graphs are kept."""
    monkeypatch.setenv("GRAPHNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kept, "WORTH_KEEPING", 0)
    found = open_cache()
    assert found is not None
    return found


def files(cache: Cache) -> list[Path]:
    return sorted(cache.folder.glob("*.program"))


def was_kept(function: Any) -> bool:
    return "loaded from the cache" in function.explain()


def recurrence(units=4, steps=5, scale=0.5, name="x") -> Made:
    """Cost and gradients of a small net, with its inputs."""
    x = gn.input((steps, 3, units), "float64", name=name)
    W = gn.parameter(scale * np.random.default_rng(units).standard_normal((units, units)), name="W")
    b = gn.parameter(np.zeros(units), name="b")
    h = gn.fill(0, (3, units), "float64")
    for t in range(steps):
        h = gn.tanh(x[t] + h @ W + b)
    cost = gn.mean(h * h) + gn.sum(gn.constant(np.arange(units) * 1.0) * gn.sum(h, axis=0))
    return [cost, h, *gn.gradient(cost, [W, b])], [x]


def compiled(made: Made, **settings: Any) -> Any:
    return gn.compile(*made, **settings)


def test_cached_programs_give_the_same_bits(cache: Cache) -> None:
    x = GENERATOR.standard_normal((5, 3, 4))
    first, second = compiled(recurrence()), compiled(recurrence())
    assert not was_kept(first)
    assert was_kept(second)
    assert len(files(cache)) == 1
    require_close(first(x), second(x))
    assert repr(first) == repr(second)
    assert first.memory == second.memory
    assert first.instructions() == second.instructions()


def test_cached_programs_read_the_current_parameters() -> None:
    x = GENERATOR.standard_normal((5, 3, 4))
    compiled(recurrence())
    made, other = recurrence(), recurrence(scale=0.1)
    function = compiled(made)
    np.testing.assert_allclose(compiled(other)(x)[0], compiled(other, backend="numpy")(x)[0], rtol=1e-12)
    assert was_kept(function)
    assert compiled(other)(x)[0] != function(x)[0]
    before = function(x)[0]
    (W,) = [node for node in Graph(made[0]).order if node.name == "W"]
    W.value[...] *= 2
    after = function(x)[0]
    assert after != before
    np.testing.assert_allclose(after, compiled(made, backend="numpy")(x)[0], rtol=1e-12)


def test_every_op(tmp_path: Path) -> None:
    """Programs of every op can be cached and stored, and cached programs give the same results."""

    def build() -> Made:
        inputs = [[gn.input(x.shape, x.dtype) for x in each.arrays] for each in CASES]
        outputs = [each.op(*leaves) for each, leaves in zip(CASES, inputs, strict=True)]
        for each, leaves, node in zip(CASES, inputs, outputs, strict=True):
            assert name(([node], leaves)), each.id
        return outputs, [leaf for leaves in inputs for leaf in leaves]

    anew, again = compiled(build()), compiled(build())
    assert not was_kept(anew)
    assert was_kept(again)
    arrays = [x for each in CASES for x in each.arrays]
    anew.save(tmp_path / "function")
    for found in (again, gn.load_function(tmp_path / "function")):
        for each, a, b in zip(CASES, anew(*arrays), found(*arrays), strict=True):
            np.testing.assert_array_equal(a, b, err_msg=each.id, strict=True)


def with_x(build: Callable[[Node], Node], dtype: str = "float64", **settings: Any) -> Made:
    x = gn.input((3,), dtype, **settings)
    return [build(x)], [x]


def two_inputs(turned: bool = False, both: bool = True, varying: bool = False) -> Made:
    x, y = gn.input((3,), "float64", varying=varying), gn.input((3,), "float64")
    return [x - (y if both else x)], [y, x] if turned else [x, y]


def parameters(shared: bool, turned: bool = False) -> Made:
    x = gn.input((3, 2), "float64")
    a, b = (gn.parameter(np.full((4, 2), k).T if turned else np.full((2, 4), k)) for k in (1.0, 2.0))
    return [x @ a + x @ (a if shared else b)], [x]


#: Graphs that differ in one thing each: no two may have one name.
DIFFERENT: dict[str, Callable[[], Made]] = {
    "as it is": recurrence,
    "units": lambda: recurrence(units=5),
    "steps": lambda: recurrence(steps=6),
    "constant 1": lambda: with_x(lambda x: x * gn.constant(np.array([1.0, 2.0, 3.0]))),
    "constant 1 + ε": lambda: with_x(lambda x: x * gn.constant(np.array([1.0 + 2**-52, 2.0, 3.0]))),
    "fill 0": lambda: with_x(lambda x: x * gn.fill(0.0, (3,), x.dtype)),
    "fill -0": lambda: with_x(lambda x: x * gn.fill(-0.0, (3,), x.dtype)),
    "fill 1": lambda: with_x(lambda x: x * gn.fill(1.0, (3,), x.dtype)),
    "fill 1, float32": lambda: with_x(lambda x: x * gn.fill(1.0, (3,), x.dtype), "float32"),
    "inputs": two_inputs,
    "inputs in turn": lambda: two_inputs(turned=True),
    "one input read": lambda: two_inputs(both=False),
    "varying": lambda: two_inputs(varying=True),
    "one parameter": lambda: parameters(True),
    "two parameters": lambda: parameters(False),
    "parameters in columns": lambda: parameters(False, turned=True),
}


def name(made: Made, threads: int | None = None, chosen: Any = passes.DEFAULT) -> str:
    return kept.name_of(Graph(*made), chosen, NumbaBackend(), threads)


def test_cache_names_depend_on_graph_and_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {which: name(build()) for which, build in DIFFERENT.items()}
    assert all(names.values())
    assert names == {which: name(build()) for which, build in DIFFERENT.items()}, "not the same twice"
    outputs, inputs = recurrence()
    names["an output less"] = name((outputs[:-1], inputs))
    names["outputs in turn"] = name((outputs[::-1], inputs))
    names["a thread"] = name((outputs, inputs), 1)
    names["two threads"] = name((outputs, inputs), 2)
    names["without a pass"] = name((outputs, inputs), chosen=passes.without("fold"))
    names["recomputed"] = name((outputs, inputs), chosen=(*passes.recomputing(), *passes.DEFAULT))
    names["in 3 segments"] = name((outputs, inputs), chosen=(*passes.recomputing(3), *passes.DEFAULT))
    assert len(set(names.values())) == len(names)
    # What a graph and its nodes are called does not matter.
    assert name(recurrence(name="y")) == names["as it is"]
    monkeypatch.setattr(NumbaBackend, "situation", lambda self: "another processor, 2 cores")
    assert name(recurrence()) not in (names["as it is"], "")
    monkeypatch.setattr(NumbaBackend, "situation", lambda self: "")
    assert name(recurrence()) == ""


class Twice(gn.Op):
    """y = 2 x"""

    signature = "... -> ..."

    def forward(self, x: Any) -> Any:
        return 2 * x

    def expanded(self, y: Node, x: Node) -> Node:
        return x + x


def own_pass(graph: Graph) -> Graph:
    return graph


def test_programs_with_code_of_other_packages_are_not_cached(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, w = gn.input((3,), "float64"), gn.input((3,), "float64")
    assert name(([Twice()(x)], [x])) == ""
    assert name(recurrence(), chosen=(own_pass, *passes.DEFAULT)) == ""
    assert name(recurrence(), chosen=(passes.Pass("fold", own_pass),)) == ""
    gn.compile([Twice()(x)], [x])
    compiled(recurrence(), check=True)
    compiled(recurrence(), backend="numpy")
    gn.compile([], [w, x], updates={w: w + x})
    assert files(cache) == []
    for value in (10_000, 0):  # small graphs
        monkeypatch.setattr(kept, "WORTH_KEEPING", value)
        assert bool(name(recurrence())) is not bool(value)
    with monkeypatch.context() as patch:
        patch.setenv("GRAPHNET_CACHE_MB", "0")
        assert name(recurrence()) == ""
        compiled(recurrence())
    assert files(cache) == []
    monkeypatch.setattr(sys.modules[passes.fold.__module__], "fold", own_pass)
    assert name(recurrence()) == ""


def test_programs_are_not_cached_if_source_is_newer_than_the_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A process with old code must not cache programs under the name of the new code."""
    (tmp_path / "module.py").write_text("1")
    monkeypatch.setattr(kept, "_PACKAGE", tmp_path)
    own_code = kept._own_code.__wrapped__
    assert own_code() == ""  # written after this process began
    os.utime(tmp_path / "module.py", (time.time() - 1e6,) * 2)
    before = own_code()
    assert before
    (tmp_path / "module.py").write_text("2")
    os.utime(tmp_path / "module.py", (time.time() - 1e6,) * 2)
    assert own_code() not in (before, "")
    (tmp_path / "module.py").unlink()
    assert own_code() == ""


def test_damaged_and_wrong_programs_are_recompiled(cache: Cache) -> None:
    x = GENERATOR.standard_normal((5, 3, 4))
    wanted = compiled(recurrence())(x)
    (path,) = files(cache)
    content = path.read_bytes()
    compiled(recurrence(units=5))
    (another,) = [p for p in files(cache) if p != path]
    for damage in (
        content[:-1], content[: len(content) // 2], b"", content[:40] + b"\0" + content[41:], another.read_bytes(),
    ):  # fmt: skip
        path.write_bytes(damage)
        function = compiled(recurrence())
        assert not was_kept(function)
        require_close(function(x), wanted)
        assert path.read_bytes() == content, "not repaired"


def test_cached_functions_support_all_methods(tmp_path: Path) -> None:
    x = GENERATOR.standard_normal((5, 3, 4))
    anew, found = compiled(recurrence()), compiled(recurrence())
    assert was_kept(found)
    found.save(tmp_path / "function")
    require_close(gn.load_function(tmp_path / "function")(x), anew(x))
    found.save(tmp_path / "function.c")
    assert [node.op.name for node in found.graph.order] == [node.op.name for node in anew.graph.order]
    assert [r[:3] for r in found.reports] == [r[:3] for r in anew.reports]
    assert len(list(found.stages())) == len(found.reports)
    timed = [sum(seconds > 0 for seconds in f.profile(x).seconds) for f in (found, anew)]
    assert timed[0] == timed[1]
    with pytest.raises(ShapeError, match=r"input x"):
        found(x[0])
    x, v = gn.input((4, 3), "float64"), gn.input((4, 3), "float64", varying=True)
    h = gn.tanh(x @ gn.parameter(np.eye(3)))
    a, b = GENERATOR.standard_normal((2, 4, 3))
    first, found = (gn.compile([h, h * v], [x, v]) for _ in range(2))
    assert was_kept(found)
    for function in (first, found):  # in parts
        np.testing.assert_allclose(function.begin(a)[0], np.tanh(a), rtol=1e-12)
        for call in (lambda: function.again(b), lambda: function(a, b)):
            np.testing.assert_allclose(call()[1], np.tanh(a) * b, rtol=1e-12)


def test_cached_programs_use_draws_and_errors_of_the_current_nodes() -> None:
    first, second = (gn.RandomSource(seed) for seed in (1, 2))
    compiled(drawn := with_x(lambda x: x * first.normal(1.0, (3,), "float64")))
    again = with_x(lambda x: x * second.normal(1.0, (3,), "float64"))
    found, x = compiled(again), np.ones(3)
    assert was_kept(found)
    before = found(x)[0]
    require_close([before], compiled(again, backend="numpy")(x))
    second.redraw()
    after = found(x)[0]
    require_close([after], compiled(again, backend="numpy")(x))
    assert not np.array_equal(before, after)
    assert not np.array_equal(before, compiled(drawn)(x)[0])
    for kept_already in (False, True):  # errors speak of the nodes at hand, too
        i = gn.input((2,), "int64", name=f"symbols{kept_already}")
        found = gn.compile([gn.take(gn.parameter(np.eye(3)), i)], [i])
        assert was_kept(found) is kept_already
    with pytest.raises(GraphnetError, match="symbolsTrue"):
        found(np.array([0, 7]))


PROGRAM = """
import numpy as np
import graphnet as gn
from graphnet.call import kept
x = gn.input((3, 4), "float64")
h = x
W = gn.parameter(np.eye(4))
for t in range(900):
    h = gn.tanh(h @ W + x)
function = gn.compile([gn.sum(h)], [x])
print(len(function.source), "loaded from the cache" in function.explain(), float(function(np.ones((3, 4)))[0]).hex())
"""


def test_another_process_finds_cached_programs() -> None:
    """With the default cache size and no settings."""
    first, second = (output_of("-c", PROGRAM) for _ in range(2))
    assert int(first.split()[0]) > 2000
    assert "False" in first
    assert second == first.replace("False", "True")
