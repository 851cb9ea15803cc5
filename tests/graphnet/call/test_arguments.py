"""Every argument that cannot be meant is refused before anything is computed, in a sentence that names it.

Each row is a call, the error, and what its message must hold.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import graphnet as gn
from graphnet import settings
from graphnet.errors import DtypeError, GraphnetError, ShapeError, UsageError, ValueAccessError
from tests.tables import case

x = gn.input((4, 3), "float32", name="x")
i = gn.input((4,), "int64", name="i")
W = gn.parameter(np.ones((3, 2), "float32"), name="W")
C = gn.constant(np.ones(3))
y = gn.tanh(x @ W)
cost = gn.sum(y * y)
masked = np.ma.masked_array(np.ones((4, 3), "float32"), np.eye(4, 3, dtype=bool))


class Row(NamedTuple):
    call: Callable[[], Any]
    error: type[GraphnetError]
    parts: tuple[str, ...]


def compiled() -> gn.Function:
    return gn.compile([y], inputs=[x], backend="numpy")


def set_to(node: gn.Node, field: str, value: Any) -> Callable[[], None]:
    return lambda: setattr(node, field, value)


NODES_NEVER_CHANGE = [
    Row(set_to(x, "shape", (400, 300)), ValueAccessError, ("x[4, 3]", "(400, 300)", "gn.reshape")),
    Row(set_to(x, "dtype", np.dtype("int8")), ValueAccessError, ("int8", "gn.cast")),
    Row(set_to(y, "op", x.op), ValueAccessError, ("op cannot be set", "never changes")),
    Row(set_to(y, "inputs", ()), ValueAccessError, ("inputs cannot be set",)),
    Row(set_to(y, "name", "z"), ValueAccessError, ("name cannot be set", "gn.label")),
    Row(set_to(y, "scope", {}), ValueAccessError, ("gn.scope",)),
    Row(set_to(y, "serial", 0), ValueAccessError, ("serial cannot be set",)),
    Row(set_to(y, "colour", 0), ValueAccessError, ("colour cannot be set",)),
    Row(lambda: delattr(y, "shape"), ValueAccessError, ("shape cannot be deleted",)),
]


def stored() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        gn.compile([y], inputs=[x]).save(f"{folder}/file")
        return gn.load_function(f"{folder}/file")


SETTLED = [
    Row(lambda n=n, make=make: setattr(make(), n, 2), ValueAccessError, (n, "2", "never changes", remedy))
    for make, remedy, names in (
        (compiled, "gn.compile(", ("thread", "threads", "backend", "check", "graph", "inputs", "_program")),
        (stored, "gn.compile(", ("parameter", "parameters", "backend", "inputs")),
        (lambda: gn.Graph(y), "gn.Graph(", ("output", "outputs", "inputs", "order", "groups")),
    )
    for n in names
]

CLIP_VALUES = [
    Row(lambda v=v: gn.gradient(cost, W, clip_values=v), UsageError, ("gradient: clip_values", "> 0", repr(v)[:50]))
    for v in (-1, math.nan, 0, "a", 10**400, True)
] + [
    Row(lambda: gn.backward({cost: 1.0}, W, clip_values=-1), UsageError, ("backward: clip_values", "-1")),
]  # fmt: skip

NODES = [
    Row(lambda: gn.compile(None), ValueAccessError, ("outputs", "None", "nor a list of nodes")),
    Row(lambda: gn.compile([y], inputs=3), ValueAccessError, ("inputs", "3")),
    Row(lambda: gn.compile("abc"), ValueAccessError, ("outputs", "'abc'")),
    Row(lambda: gn.gradient(cost, None), ValueAccessError, ("gradient: wrt", "None")),
    Row(lambda: gn.gradient(cost, 3), ValueAccessError, ("gradient: wrt", "3")),
    Row(lambda: gn.backward({cost: 1.0}, 3), ValueAccessError, ("backward: wrt", "3")),
    Row(lambda: gn.backward(None, W), ValueAccessError, ("gn.backward", "NoneType", "dict")),
    Row(lambda: gn.backward({3: 1.0}, W), ValueAccessError, ("backward: the keys", "3")),
    Row(lambda: gn.backward({"y": 1.0}, W), ValueAccessError, ("backward: the keys", "y")),
    Row(lambda: gn.rop(3, {W: np.ones((3, 2))}), ValueAccessError, ("rop: outputs", "3")),
    Row(lambda: gn.rop(None, {W: np.ones((3, 2))}), ValueAccessError, ("rop: outputs", "None")),
    Row(
        lambda: gn.gauss_newton_product(cost, {W: np.ones((3, 2))}, at=3),
        ValueAccessError,
        ("gauss_newton_product: at", "3"),
    ),
    Row(
        lambda: gn.gauss_newton_product(cost, {W: np.ones((3, 2))}, at=[y], damping=[(y, 0.1)]),
        UsageError,
        ("damping", "triples"),
    ),
    Row(lambda: gn.concatenate(3), UsageError, ("concatenate: nodes", "3")),
    Row(lambda: gn.concatenate("ab"), UsageError, ("concatenate: nodes", "'ab'")),
    Row(lambda: gn.stack(None), UsageError, ("stack: nodes", "None")),
]

COMPILE = [
    Row(lambda: gn.compile([y], passes=None), UsageError, ("compile: passes", "None", "gn.passes.without")),
    Row(lambda: gn.compile([y], passes="fuse"), UsageError, ("compile: passes", "'fuse'", "without('fuse')")),
    Row(lambda: gn.compile([y], passes=["fuse"]), UsageError, ("compile: passes", "'fuse'")),
    Row(lambda: gn.compile([y], passes=[lambda graph: None]), UsageError, ("NoneType", "returns a Graph")),
    Row(lambda: gn.compile([y], check=[]), UsageError, ("compile: check", "[]")),
    Row(lambda: gn.compile([y], check="no"), UsageError, ("compile: check", "'no'")),
    Row(lambda: gn.compile([y], deterministic=1), UsageError, ("compile: deterministic", "1")),
    Row(lambda: gn.compile([y], backend=None), gn.BackendError, ("None", "available")),
    Row(lambda: gn.compile([y], backend=["numba"]), gn.BackendError, ("['numba']", "available")),
    Row(lambda: gn.compile([y], memory=np.ones(3)), gn.BackendError, ("memory", "'sqrt'")),
    Row(lambda: compiled().profile(repeats="a"), UsageError, ("profile: repeats", "'a'")),
]

SHAPES = [
    Row(lambda: gn.transpose(x, axes=0), UsageError, ("transpose: axes", "0")),
    Row(lambda: gn.one_hot(i, [3, 4]), ShapeError, ("one_hot: depth", "[3, 4]")),
    Row(lambda: gn.one_hot(i, b"x"), ShapeError, ("one_hot: depth", "b'x'")),
    Row(lambda: gn.scatter_add(x, i, []), ShapeError, ("scatter_add: size", "[]")),
    Row(lambda: gn.input({2, 3}), ShapeError, ("shape", "{2, 3}")),
    Row(lambda: gn.input(b"ab"), ShapeError, ("shape", "b'ab'")),
    Row(lambda: gn.reshape(x, {12: 1}), ShapeError, ("shape", "{12: 1}")),
    Row(lambda: gn.sum(x, 0, 1), UsageError, ("keepdims", "1", "axis=(0, 1)")),
    Row(lambda: gn.mean(x, 0, keepdims="no"), UsageError, ("keepdims", "'no'")),
    Row(lambda: gn.max(x, 0, np.ones(2)), UsageError, ("keepdims", "an array of shape [2]")),
    Row(lambda: x["0":], DtypeError, ("x[4, 3]", "'0'", "Use whole numbers, slices of them")),
    Row(lambda: x[1.5:], DtypeError, ("x[4, 3]", "1.5")),
    Row(lambda: x[::2.0], DtypeError, ("x[4, 3]", "2.0")),
]

VALUES = [
    Row(lambda: gn.input((2,), None), DtypeError, ("None", "'float32'")),
    Row(lambda: gn.cast(x, None), DtypeError, ("None",)),
    Row(lambda: gn.input((2,), {"a": 1}), DtypeError, ("{'a': 1}",)),
    Row(lambda: gn.fill(1e300, (2,), "float32"), DtypeError, ("gn.fill", "float32", "1e+300", "'float64'")),
    Row(lambda: x * 1e300, DtypeError, ("Multiply", "float32", "1e+300", "gn.cast(node, 'float64')")),
    Row(lambda: x + np.float64(-1e300), DtypeError, ("Add", "-1e+300")),
    Row(lambda: x * 10**5000, DtypeError, ("Multiply", "cannot hold")),
    Row(lambda: gn.constant(masked), DtypeError, ("gn.constant", "masked array", "filled(value)")),
    Row(lambda: gn.parameter(masked), DtypeError, ("gn.parameter", "masked array")),
    Row(lambda: x + masked, DtypeError, ("masked array",)),
    Row(lambda: compiled()(masked), DtypeError, ("input x[4, 3]", "masked array")),
    Row(
        lambda: compiled()(np.ones((4, 3), "complex64")),
        DtypeError,
        ("input x[4, 3]", "complex64", "array.real"),
    ),
    Row(set_to(W, "value", masked[:3, :2]), DtypeError, ("W[3, 2]", "masked array")),
    Row(lambda: compiled()(None), DtypeError, ("input x[4, 3]", "None of type NoneType")),
    Row(lambda: compiled()("abc"), DtypeError, ("input x[4, 3]", "'abc' of type str")),
    Row(lambda: gn.input((2,), name=3), UsageError, ("Input: name", "3")),
    Row(lambda: gn.parameter([1.0], name=b"W"), UsageError, ("Parameter: name", "b'W'")),
    Row(lambda: gn.label(x, name=["a"]), UsageError, ("Label: name", "['a']")),
    Row(lambda: gn.input((2,), varying="no"), UsageError, ("varying", "'no'")),
    Row(lambda: gn.input((2,), weights=1), UsageError, ("weights", "1")),
    Row(lambda: gn.RandomSource("a"), UsageError, ("RandomSource: seed", "'a'")),
    Row(lambda: gn.RandomSource(-1), UsageError, ("RandomSource: seed", "-1")),
    Row(lambda: gn.RandomSource().bernoulli("a", (2,)), GraphnetError, ("bernoulli", "'a'")),
    Row(lambda: gn.RandomSource().normal("a", (2,)), UsageError, ("normal: scale", "'a'")),
    Row(lambda: gn.RandomSource().uniform(math.nan, (2,)), UsageError, ("uniform: high", "nan")),
    Row(set_to(gn.RandomSource(), "state", {"seed": 1}), UsageError, ("state", "seed and draw")),
]

NO_PATHS = (None, 3, b"file", "a\0b", "", ["file"])
PATHS = [
    Row(lambda p=p: compiled().save(p), UsageError, ("save: path", "file")) for p in NO_PATHS
] + [
    Row(lambda p=p: gn.load_function(p), UsageError, ("load_function: path", "file")) for p in NO_PATHS
]  # fmt: skip


ROWS = [*NODES_NEVER_CHANGE, *SETTLED, *CLIP_VALUES, *NODES, *COMPILE, *SHAPES, *VALUES, *PATHS]


def test_it_is_refused_in_a_sentence_that_names_it() -> None:
    for row in ROWS:
        with case(row.parts):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with pytest.raises(row.error) as caught:
                    row.call()
            missing = [part for part in row.parts if part not in str(caught.value)]
            assert not missing, f"{missing} not in\n{caught.value}"


def test_a_node_is_what_it_was_after_a_refusal() -> None:
    for row in NODES_NEVER_CHANGE:
        with pytest.raises(ValueAccessError):
            row.call()
    (found,) = compiled()(np.ones((4, 3), "float32"))
    np.testing.assert_array_equal(found, np.tanh(np.full((4, 2), 3, "float32")))


def test_what_is_meant_is_taken() -> None:
    assert gn.gradient(cost, W, clip_values=math.inf)[0].shape == W.shape
    assert gn.gradient(cost, W, clip_values=np.float32(5))[0].shape == W.shape
    assert gn.sum(x, 0, True).shape == gn.sum(x, 0, keepdims=np.True_).shape == (1, 3)
    assert gn.fill(math.inf, (2,), "float32").op.number == math.inf
    assert gn.fill(1e300, (2,), "float64").op.number == 1e300
    assert (x * -math.inf).dtype == x.dtype
    assert gn.input(np.array([2, 3])).shape == gn.input(iter([2, 3])).shape == (2, 3)
    assert x[np.int64(1) :].shape == (3, 3)
    assert gn.RandomSource(2**64).seed == 2**64
    value = gn.parameter([1.0, 2.0])
    value.value = [3.0, 4.0]
    assert value.value.tolist() == [3.0, 4.0]


def test_no_number_is_too_large_for_a_checker() -> None:
    for huge in (10**30, 10**400, 10**5000):
        assert settings.is_number(huge) is (huge < 10**308)
        for checker in (settings.number, settings.amount, settings.limit):
            if huge == 10**30:
                assert checker("it", huge) == 1e30
            else:
                with pytest.raises(UsageError, match="it must be"):
                    checker("it", huge)
        with pytest.raises(UsageError, match="it must be"):
            settings.fraction("it", huge)


def test_a_choice_and_a_yes_or_no_are_no_arrays() -> None:
    for value in (np.ones(3), np.array(["a", "b"]), {}, [], None, 0):
        with case(value):
            with pytest.raises(UsageError, match="it must be 'a' or 'b', not"):
                settings.one_of("it", value, ("a", "b"))
            with pytest.raises(UsageError, match="it must be True or False, not"):
                settings.yes_or_no("it", value)


def test_what_was_given_is_shown_in_few_characters() -> None:
    """And where it was longer, that it was."""
    for value, said in [
        (list(range(1000)), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 1 ..."),
        ("a\nb  c", "'a\\nb c'"),
        ("x" * 58, f"'{'x' * 58}'"),
        (np.ones((2, 3)), "an array of shape [2, 3]"),
    ]:
        assert settings.shown(value) == said
        assert len(settings.shown("x" * 1000, settings.MANY)) == settings.MANY


def test_what_is_no_list() -> None:
    """A mapping's names are hardly meant by who gives it."""
    for value in ("abc", b"abc", {"a": 1}, None, 3):
        with case(value):
            with pytest.raises(UsageError, match="it must be a list of nodes, not"):
                settings.listed("it", value, "nodes")
            assert (
                settings.listed("it", (1, 2), "numbers")
                == settings.listed("it", np.array([1, 2]), "numbers")
                == [1, 2]
            )


def test_the_remedy_is_said() -> None:
    for checker, value, said in [
        (settings.limit, 0, "it must be > 0, or None for no limit, not 0"),
        (settings.path, "", "it must name a file, which '' cannot: it is empty"),
        (settings.path, "a\0b", "it must name a file, which 'a\\x00b' cannot: it has a NUL character in it"),
    ]:
        with pytest.raises(UsageError) as caught:
            checker("it", value)
        assert str(caught.value) == said


def test_a_path_is_a_str_or_what_names_one(tmp_path: Path) -> None:
    file = tmp_path / "file"
    assert settings.path("it", file) == settings.path("it", str(file)) == file
