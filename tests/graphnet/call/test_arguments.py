"""Every invalid argument is rejected before any computation, with an error that names it."""

from __future__ import annotations

import math
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet import settings
from graphnet.errors import DtypeError, GraphnetError, ShapeError, UsageError, ValueAccessError
from tests.tables import case

x = gn.input((4, 3), "float32", name="x")
i = gn.input((4,), "int64", name="i")
W = gn.parameter(np.ones((3, 2), "float32"), name="W")
y = gn.tanh(x @ W)
cost = gn.sum(y * y)
masked = np.ma.masked_array(np.ones((4, 3), "float32"), np.eye(4, 3, dtype=bool))


def with_pass(function: Any) -> gn.Function:
    a, b = gn.input((2,)), gn.input((2,))
    return gn.compile([a + b], [a, b], passes=[function])


def compiled() -> gn.Function:
    return gn.compile([y], inputs=[x], backend="numpy")


def stored() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        gn.compile([y], inputs=[x]).save(f"{folder}/file")
        return gn.load_function(f"{folder}/file")


def set_to(node: Any, field: str, value: Any = 2) -> Any:
    return lambda: setattr(node, field, value)


V = {W: np.ones((3, 2))}
bad_damping = {"at": [y], "damping": [(y, 0.1)]}
ones = np.ones((4, 3), "complex64")
# fmt: off
#: A call, the error, and what its message must hold.
ROWS = [
    (set_to(x, "shape", (400, 300)), ValueAccessError, "x[4, 3]", "(400, 300)", "gn.reshape"),
    (set_to(x, "dtype", np.dtype("int8")), ValueAccessError, "int8", "gn.cast"),
    (set_to(y, "op", x.op), ValueAccessError, "op cannot be set", "immutable"),
    (set_to(y, "name", "z"), ValueAccessError, "name cannot be set", "gn.label"),
    (set_to(y, "scope", {}), ValueAccessError, "gn.scope"),
    (set_to(y, "colour", 0), ValueAccessError, "colour cannot be set"),
    (lambda: delattr(y, "shape"), ValueAccessError, "shape cannot be deleted"),
    *((lambda n=n: setattr(compiled(), n, 2), ValueAccessError, n, "2", "immutable", "gn.compile(")
      for n in ("thread", "threads", "backend", "check", "graph", "inputs", "_program")),
    *((lambda n=n: setattr(stored(), n, 2), ValueAccessError, n, "2", "immutable", "gn.compile(")
      for n in ("parameter", "parameters", "backend", "inputs")),
    *((lambda n=n: setattr(gn.Graph(y), n, 2), ValueAccessError, n, "2", "immutable", "gn.Graph(")
      for n in ("output", "outputs", "inputs", "order", "groups")),
    *((lambda v=v: gn.gradient(cost, W, clip_values=v), UsageError, "gradient: clip_values", repr(v)[:50])
      for v in (-1, math.nan, 0, "a", 10**400, True)),
    (lambda: gn.backward({cost: 1.0}, W, clip_values=-1), UsageError, "backward: clip_values", "-1"),
    # nodes
    (lambda: gn.compile(None), ValueAccessError, "outputs", "None", "nor a list of nodes"),
    (lambda: gn.compile([y], inputs=3), ValueAccessError, "inputs", "3"),
    (lambda: gn.gradient(cost, 3), ValueAccessError, "gradient: wrt", "3"),
    (lambda: gn.backward({cost: 1.0}, 3), ValueAccessError, "backward: wrt", "3"),
    (lambda: gn.backward(None, W), ValueAccessError, "gn.backward", "NoneType", "dict"),
    (lambda: gn.backward({3: 1.0}, W), ValueAccessError, "backward: the keys", "3"),
    (lambda: gn.rop(3, V), ValueAccessError, "rop: outputs", "3"),
    (lambda: gn.gauss_newton_product(cost, V, at=3), ValueAccessError, "gauss_newton_product: at", "3"),
    (lambda: gn.gauss_newton_product(cost, V, **bad_damping), UsageError, "damping", "triples"),
    (lambda: gn.concatenate("ab"), UsageError, "concatenate: nodes", "'ab'"),
    (lambda: gn.stack(None), UsageError, "stack: nodes", "None"),
    # settings of a function
    (lambda: gn.compile([y], passes=None), UsageError, "compile: passes", "None", "gn.passes.without"),
    (lambda: gn.compile([y], passes="fuse"), UsageError, "compile: passes", "'fuse'", "without('fuse')"),
    (lambda: gn.compile([y], passes=["fuse"]), UsageError, "compile: passes", "'fuse'"),
    (lambda: gn.compile([y], passes=[lambda graph: None]), UsageError, "NoneType", "must return a Graph"),
    (lambda: with_pass(lambda g: gn.Graph(gn.cast(g.outputs[0], "float64"), g.inputs)), UsageError, "pass", "float64"),
    (lambda: with_pass(lambda g: gn.Graph([*g.outputs] * 2, g.inputs)), UsageError, "pass", "outputs", "as before"),
    (lambda: with_pass(lambda g: gn.Graph(g.outputs, g.inputs[::-1])), UsageError, "pass", "inputs", "graph.inputs"),
    *((lambda r=r: with_pass(lambda g: g.rewrite(lambda n: r(n) if n.inputs else n)), UsageError, "rewrite", "replace")
      for r in (lambda n: None, lambda n: 1.0, lambda n: gn.cast(n, "float64"), lambda n: gn.stack([n]))),
    (lambda: with_pass(lambda g: g.rewrite(lambda n: gn.input(n.shape))), GraphnetError, "does not list"),
    (lambda: gn.compile([y], check="no"), UsageError, "compile: check", "'no'"),
    (lambda: gn.compile([y], deterministic=1), UsageError, "compile: deterministic", "1"),
    (lambda: gn.compile([y], backend=["numba"]), gn.BackendError, "['numba']", "available"),
    (lambda: gn.compile([y], memory=np.ones(3)), gn.BackendError, "memory", "'sqrt'"),
    (lambda: compiled().profile(repeats="a"), UsageError, "profile: repeats", "'a'"),
    (lambda: compiled().save("a\0b"), UsageError, "save: path", "NUL"),
    *((lambda p=p: gn.load_function(p), UsageError, "load_function: path", "file")
      for p in (None, 3, b"file", "a\0b", "", ["file"])),
    # shapes
    (lambda: gn.transpose(x, axes=0), UsageError, "transpose: axes", "0"),
    (lambda: gn.one_hot(i, [3, 4]), ShapeError, "one_hot: depth", "[3, 4]"),
    (lambda: gn.scatter_add(x, i, []), ShapeError, "scatter_add: size", "[]"),
    (lambda: gn.input({2, 3}), ShapeError, "shape", "{2, 3}"),
    (lambda: gn.reshape(x, {12: 1}), ShapeError, "shape", "{12: 1}"),
    (lambda: gn.sum(x, 0, 1), UsageError, "keepdims", "1", "axis=(0, 1)"),
    (lambda: x["0":], DtypeError, "x[4, 3]", "'0'", "Use whole numbers, slices of them"),
    # values
    (lambda: gn.input((2,), None), DtypeError, "None", "'float32'"),
    (lambda: gn.cast(x, None), DtypeError, "None"),
    (lambda: gn.fill(1e300, (2,), "float32"), DtypeError, "gn.fill", "float32", "1e+300", "'float64'"),
    (lambda: x * 1e300, DtypeError, "Multiply", "float32", "1e+300", "gn.cast(node, 'float64')"),
    (lambda: x * 10**5000, DtypeError, "Multiply", "cannot hold"),
    (lambda: gn.constant(masked), DtypeError, "gn.constant", "masked array", "filled(value)"),
    (lambda: gn.parameter(masked), DtypeError, "gn.parameter", "masked array"),
    (lambda: x + masked, DtypeError, "masked array"),
    (lambda: compiled()(masked), DtypeError, "input x[4, 3]", "masked array"),
    (set_to(W, "value", masked[:3, :2]), DtypeError, "W[3, 2]", "masked array"),
    (lambda: compiled()(ones), DtypeError, "input x[4, 3]", "complex64", "array.real"),
    (lambda: compiled()(None), DtypeError, "input x[4, 3]", "None of type NoneType"),
    (lambda: gn.input((2,), name=3), UsageError, "Input: name", "3"),
    (lambda: gn.label(x, name=["a"]), UsageError, "Label: name", "['a']"),
    (lambda: gn.input((2,), varying="no"), UsageError, "varying", "'no'"),
    (lambda: gn.input((2,), weights=1), UsageError, "weights", "1"),
    (lambda: gn.RandomSource(-1), UsageError, "RandomSource: seed", "-1"),
    (lambda: gn.RandomSource().bernoulli("a", (2,)), GraphnetError, "bernoulli", "'a'"),
    (lambda: gn.RandomSource().normal("a", (2,)), UsageError, "normal: scale", "'a'"),
    (lambda: gn.RandomSource().uniform(math.nan, (2,)), UsageError, "uniform: high", "nan"),
    (set_to(gn.RandomSource(), "state", {"seed": 1}), UsageError, "state", "seed and draw"),
    # the checkers themselves
    *((lambda v=v: settings.one_of("it", v, ("a", "b")), UsageError, "it must be 'a' or 'b', not")
      for v in (np.ones(3), np.array(["a", "b"]), {}, None, 0)),
    *((lambda v=v: settings.yes_or_no("it", v), UsageError, "it must be True or False, not")
      for v in (np.ones(3), np.array(["a", "b"]), [], None, 0)),
    *((lambda v=v: settings.listed("it", v, "nodes"), UsageError, "it must be a list of nodes, not")
      for v in ("abc", b"abc", {"a": 1}, None, 3)),
    *((lambda c=c: c("it", 10**5000), UsageError, "it must be")
      for c in (settings.number, settings.amount, settings.limit, settings.fraction)),
    (lambda: settings.limit("it", 0), UsageError, "it must be > 0, or None for no limit, not 0"),
    (lambda: settings.path("it", ""), UsageError, "it must be the name of a file, not '': it is empty"),
]
# fmt: on


def test_invalid_arguments_are_rejected_by_name() -> None:
    for call, error, *parts in ROWS:
        with case(*parts), warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(error) as caught:
                call()
            missing = [part for part in parts if part not in str(caught.value)]
            assert not missing, f"{missing} not in\n{caught.value}"
    (found,) = compiled()(np.ones((4, 3), "float32"))  # the nodes are what they were
    np.testing.assert_array_equal(found, np.tanh(np.full((4, 2), 3, "float32")))


def test_equivalent_arguments_are_accepted(tmp_path: Path) -> None:
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
    assert settings.listed("it", (1, 2), "n") == settings.listed("it", np.array([1, 2]), "n") == [1, 2]
    file = tmp_path / "file"
    assert settings.path("it", file) == settings.path("it", str(file)) == file
    for checker in (settings.number, settings.amount, settings.limit):
        assert checker("it", 10**30) == 1e30
    assert [settings.is_number(huge) for huge in (10**30, 10**400)] == [True, False]


def test_shown_values_are_short() -> None:
    assert (settings.shown("a\nb  c"), settings.shown("x" * 58)) == ("'a\\nb c'", f"'{'x' * 58}'")
    assert settings.shown(np.ones((2, 3))) == "an array of shape [2, 3]"
    assert settings.shown(list(range(1000))) == "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 1 ..."
    assert len(settings.shown("x" * 1000, settings.MANY)) == settings.MANY
