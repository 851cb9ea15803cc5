"""Error messages name the node or argument, the user's line, the shapes or values, and the remedy.

Each fault is on a line with a call of `here()`, which returns the place that the message must name.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest

import graphnet as gn
from graphnet import errors
from graphnet.errors import (
    BackendError,
    DifferentiationError,
    DtypeError,
    GraphnetError,
    NonFiniteError,
    ShapeError,
    UsageError,
    ValueAccessError,
)  # fmt: skip
from graphnet.graph.node import Op
from graphnet.graph.provenance import Origin, hide_module
from graphnet.ops.elementwise import Elementwise, Log, Sqrt
from tests.tables import case, require_rows

FILE = "test_errors.py"


def here() -> str:
    """`test_errors.py:<line of the caller>`, as an error must name it."""
    return f"{FILE}:{sys._getframe(1).f_lineno}"


@contextmanager
def message(error: type[Exception], *parts: str) -> Iterator[None]:
    """The block raises this error, a GraphnetError, and its message holds all parts."""
    with pytest.raises(error) as caught:
        yield
    assert isinstance(caught.value, GraphnetError)
    missing = [part for part in parts if part not in str(caught.value)]
    assert not missing, f"{missing} not in\n{caught.value}"


x, x_line = gn.input((2, 3), "float64", name="x"), here()
W, W_line = gn.parameter(np.ones((4, 5)), name="W"), here()
index, index_line = gn.input((2,), "int64", name="index"), here()
scalar, ones = gn.sum(x), np.ones((2, 3))
empty, single = gn.input((0, 0), name="e"), gn.input((2,), name="s")
b = gn.input((2,), "bool")
function = gn.compile([scalar + gn.sum(gn.take(W, index))], [x, index], passes=())

STANDARD = {
    ShapeError: ValueError, DtypeError: TypeError, UsageError: ValueError, ValueAccessError: TypeError,
    DifferentiationError: ValueError, NonFiniteError: ArithmeticError, BackendError: RuntimeError,
    errors.NotEnoughMemoryError: MemoryError,
}  # fmt: skip


def test_errors_are_standard_exceptions_too() -> None:
    names = {name for name in vars(errors) if name.endswith("Error")} - {"GraphnetError"}
    require_rows(names - {error.__name__ for error in STANDARD}, "STANDARD", "the kind that it is, too")
    for error, standard in STANDARD.items():
        assert issubclass(error, GraphnetError) and issubclass(error, standard)  # noqa: PT018
        assert getattr(gn, error.__name__) is error


def test_mismatch_error_has_one_line_per_input() -> None:
    with pytest.raises(ShapeError) as caught:
        x @ W
    first, signature, one, two = str(caught.value).split("\n")
    assert first == "MatMul: axis k is 3 in input 1 but 4 in input 2."
    assert signature.split(None, 1) == ["signature", "n k, k m -> n m"]
    assert re.fullmatch(rf"    input 1 +x\[2, 3\] +made at \S*{x_line}", one)
    assert re.fullmatch(rf"    input 2 +W\[4, 5\] +made at \S*{W_line}", two)


def test_using_nodes_as_values_raises_an_error() -> None:
    array, (node, line) = np.ones((2, 3)), (gn.label(scalar, "loss"), here())
    uses: list[tuple[Callable[[], Any], tuple[str, ...]]] = [
        (lambda: bool(node), ("truth value", "symbolic", "gn.where")),
        (lambda: float(node), ("a number", "gn.compile")),
        (lambda: int(node), ("a number",)),
        (lambda: np.asarray(node), ("an array",)),
        (lambda: [1, 2, 3][node], ("an index",)),
        (lambda: x[node:], ("an index",)),
        (lambda: 0 < node < 1, ("truth value",)),
        (lambda: node.value, ("holds no value", "gn.compile")),
        *((lambda f=f: f(node), ("symbolic node, not an array", "gn.tanh")) for f in (np.tanh, np.isnan, np.sum)),
        *((lambda f=f: f.reduce(node), ("gn.tanh",)) for f in (np.add, np.equal)),
        *((lambda f=f: f(array, node), ("gn.tanh",)) for f in (np.floor_divide, np.logical_and)),
        (lambda: array.__iadd__(node), ("gn.tanh",)),
        (lambda: np.add(array, node, out=array), ("gn.tanh",)),
    ]  # fmt: skip
    for number, (use, parts) in enumerate(uses):
        with case(number), message(ValueAccessError, *parts, *([] if "an index" in parts else [FILE])):
            use()
    with message(ValueAccessError, "loss[]", line):
        bool(node)
    np.testing.assert_array_equal(array, np.ones((2, 3)))


def test_comparing_nodes_with_numbers_raises_an_error() -> None:
    node = gn.input((2,), "float64", name="n")
    for other in (0, 0.5, 1j, Fraction(1, 2), np.ones(2), np.float64(1), np.True_, True):
        for compare in (lambda: node == other, lambda: other == node, lambda: node != other):
            with case(other), message(ValueAccessError, "n[2]", "gn.equal(a, b)"):
                compare()
    assert node == node and node != gn.tanh(node) and node in [gn.tanh(node), node]  # noqa: PLR0124, PT018
    assert node not in (None, "x") and node == mock.ANY  # noqa: PT018


def test_operators_between_arrays_and_nodes() -> None:
    a, value = np.arange(6.0).reshape(2, 3), np.linspace(-1, 1, 6).reshape(2, 3)
    operators: list[Callable[[Any], Any]] = [
        lambda x: a + x, lambda x: a - x, lambda x: a * x, lambda x: a / x, lambda x: a.T @ x, lambda x: x @ a.T,
        lambda x: np.float64(2) * x, lambda x: a < x, lambda x: a % x, lambda x: x % a.max(), lambda x: 7 % x,
    ]  # fmt: skip
    found = gn.compile([operator(x) for operator in operators], [x])(value)
    for each, operator in zip(found, operators, strict=True):
        np.testing.assert_allclose(each, operator(value), rtol=1e-15)


def test_values_that_are_not_numeric_arrays_are_rejected() -> None:
    for thing in ("text", None, object(), 1 + 2j, np.array(["a"]), {"a": 1}):
        with case(thing):
            with message(ValueAccessError, "gn.constant", type(thing).__name__, "gn.input"):
                gn.constant(thing)
            with message(ValueAccessError, "neither a node nor an array"):
                gn.tanh(thing)


def test_where_accepts_numpy_bools_and_rejects_python_bools() -> None:
    n = gn.input((2,), "float64")
    np.testing.assert_array_equal(gn.compile([gn.where(np.True_, n, 0.0)], [n])([1.0, 2.0])[0], [1, 2])
    with message(ValueAccessError, "Python's False", "gn.equal(a, b)"):
        gn.where(n == gn.tanh(n), n, 0.0)


def test_derivative_errors_name_the_node() -> None:
    weights = gn.parameter(np.ones((3, 4)), name="weights")
    v, ends = {weights: np.ones((3, 4))}, x @ weights
    for derive in (gn.gradient, lambda cost, w: gn.hessian_product(cost, {w: ones})):
        cost, line = gn.label(x * x, "errors"), here()
        with message(DifferentiationError, "errors[2, 3]", line, "scalar", "gn.mean"):
            derive(cost, x)
    cost, line = gn.label(gn.sum(gn.tanh(x)), "C"), here()
    with message(DifferentiationError, "C[]", line, "no loss op", "at=[...]"):
        gn.gauss_newton_product(cost, {x: ones})
    penalised = gn.mean(gn.softmax_cross_entropy(ends, [1, 2])) + 0.1 * gn.sum(weights**2)
    with message(DifferentiationError, "weights[3, 4]", FILE, "around", "at=[logits, W]"):
        gn.gauss_newton_product(penalised, v)
    assert gn.gauss_newton_product(penalised, v, at=[ends, weights])[0].shape == (3, 4)


def test_gauss_newton_ignores_paths_without_derivative() -> None:
    """Targets computed from the parameter behind a stop-gradient are data."""
    weight, data = gn.parameter(np.ones((2, 2))), np.ones((3, 2))
    z, v = gn.constant(data) @ weight, np.arange(4.0).reshape(2, 2)
    cost = gn.mean(gn.squared_error(z, gn.stop_gradient(gn.tanh(z))))
    (found,) = gn.compile(gn.gauss_newton_product(cost, {weight: v}), [])()
    np.testing.assert_allclose(found, data.T @ (2 / 6 * (data @ v)))


def own(name: str, base: type = Op, **said: Any) -> Op:
    return type(name, (base,), {"__doc__": "y = x²", **said})()


def fail(op: Op, *arrays: Any) -> None:
    raise KeyError("table")


def test_missing_and_invalid_op_rules_raise_errors() -> None:
    square = own("Square", signature="... -> ...", forward=lambda op, x: x**2)
    node, line = square(x, name="squares"), here()
    with message(DifferentiationError, "Square", "no backward rule", "squares[2, 3]", line, "stop_gradient"):
        gn.gradient(gn.sum(node), x)
    with message(DifferentiationError, "Square", "no R-operator rule", "squares[2, 3]", line, "`rop`"):
        gn.rop([node], {x: ones})
    np.testing.assert_array_equal(gn.compile([node], [x])(3 * ones)[0], 9 * ones)

    two = own("TwoForOne", type(square), backward=lambda op, gy, y, x: [gy, gy])
    node, line = two(x, name="squares"), here()
    with message(DifferentiationError, "TwoForOne.backward", "2 cotangents for 1", "squares[2, 3]", line):
        gn.gradient(gn.sum(node), x)

    sums = {"backward": lambda op, gy, y, x: [gn.sum(gy)], "rop": lambda op, rx, y, x: gn.sum(rx)}
    node, line = own("Wrong", type(square), **sums)(x, name="squares"), here()
    with message(ShapeError, "Wrong.backward", "shape []", "x[2, 3]", x_line):
        gn.gradient(gn.sum(node), x)
    with message(ShapeError, "Wrong.rop", "shape []", "squares[2, 3]", line):
        gn.rop([node], {x: ones})

    narrow = {
        "backward": lambda op, gy, y, x: [gn.cast(gy, "float32")], "rop": lambda op, rx, y, x: gn.cast(rx, "float32"),
    }  # fmt: skip
    node, line = own("Narrow", type(square), **narrow)(x, name="squares"), here()
    with message(DtypeError, "Narrow.backward", "float32", "x[2, 3]", x_line, "must be float64"):
        gn.gradient(gn.sum(node), x)
    with message(DtypeError, "Narrow.rop", "float32", "squares[2, 3]", line, "must be float64"):
        gn.rop([node], {x: ones})

    node, line = own("Nothing", signature="... -> ...")(x, name="nothing"), here()
    with message(BackendError, "Nothing", "no forward rule", "nothing[2, 3]", line, "x[2, 3]", x_line):
        gn.compile([node], [x])(ones)
    node, line = gn.tanh(own("Failing", type(square), forward=fail)(x, name="f")), here()
    for check in (False, True):
        with message(BackendError, "Failing.forward failed at f[2, 3]", "KeyError", "table", line, x_line):
            gn.compile([node], [x], check=check)(ones)
    with pytest.raises(NotImplementedError, match="Shapeless needs a `signature` or an `infer` method"):
        own("Shapeless")(x)
    for signature, problem in (
        ("n -> m", "output axis m is in no input"), ("n", "has no '->'"),
        ("... n -> n ...", "... must be the first axis"), ("n -> ...", "output axis ... is in no input"),
    ):  # fmt: skip
        with message(UsageError, "Typo: ", problem, "write e.g."):
            own("Typo", signature=signature)


def test_a_parameter_keeps_its_dtype() -> None:
    p, fixed = gn.parameter(np.ones(3), name="p"), np.ones(3)
    for wrong in (np.full(3, 1j), ["a", "b", "c"]):
        with message(DtypeError, "p[3]", "float64"):
            p.value = wrong
    with message(ShapeError, "p[3]", "needs an array"):
        p.value = [[1], [2, 3]]
    p.value = [1, 2, 3]
    np.testing.assert_array_equal(p.value, [1.0, 2.0, 3.0])
    fixed.flags.writeable = False
    with message(ValueAccessError, "read-only", "gn.parameter(array.copy())"):
        gn.parameter(fixed).value = np.zeros(3)


def test_lossless_conversions_are_made() -> None:
    whole = gn.input((2,), "uint8")
    run = gn.compile([single, whole], [single, whole])
    for a, b in ([1, 2.5], [1, 2]), (np.array([1, 2], "int16"), np.array([1, 255])), ((True, False), (0, 1)):
        floats, integers = run(a, b)
        assert (floats.dtype, integers.dtype) == (np.float32, np.uint8)
        np.testing.assert_array_equal(floats, np.asarray(a, "float32"))
        np.testing.assert_array_equal(integers, b)
    with message(DtypeError, "uint8", "int64"):
        run([1, 2], np.array([1, 256]))
    double = gn.input((2,), "float64", name="d")
    given = np.array([2**53, -(2**60)])
    np.testing.assert_array_equal(gn.compile([double], [double])(given)[0], given)
    for lost in (np.array([2**53 + 1, 0]), np.array([0, -(2**53) - 1]), np.array([2**60 + 1, 0], "uint64")):
        with message(DtypeError, "d[2]", f"cannot hold {lost[lost != 0][0]}", "np.asarray(array, 'float64')"):
            gn.compile([double], [double])(lost)
    for dtype, given, lost in (
        ("int8", [200, 1], "200"), ("int32", [0, 2**31], "2147483648"), ("float32", [1.0, 1e300], "1e+300"),
    ):  # fmt: skip
        with case(dtype):
            node = gn.input((2,), dtype, name="n")
            with message(DtypeError, "n[2]", f"is {dtype}, which cannot hold {lost}"):
                gn.compile([node], [node])(given)
            gn.compile([node], [node])([np.inf, np.nan] if dtype == "float32" else [1, -1])


def test_nodes_have_native_byte_order() -> None:
    for dtype in (">i8", ">i4", ">u2", ">f4"):
        with case(dtype):
            native = np.dtype(dtype).newbyteorder("=")
            with message(DtypeError, "order of bytes", f"array.astype('{native}')"):
                gn.input((3,), dtype)
            node = gn.input((3,), native)
            found = gn.compile([node + 1], [node])(np.array([1, 2, 3], dtype))[0]
            np.testing.assert_array_equal(found, [2, 3, 4])


def test_index_out_of_range() -> None:
    """The error names the node that failed, with and without check=True."""
    scores = gn.input((2, 4), "float64", name="scores")
    for wrong in (-1, 4):
        for check in (False, True):
            for node, name, line in (
                (gn.take(W, index), "Take", here()),
                (gn.one_hot(index, 4), "OneHot", here()),
                (gn.softmax_cross_entropy(scores, index), "SymbolCrossEntropy", here()),
            ):
                with case(wrong, check, name):
                    run = gn.compile([gn.tanh(gn.sum(node))], check=check)
                    arrays = [np.ones((2, 4)) if n is scores else np.array([0, wrong]) for n in run.inputs]
                    range_ = f" {wrong} is out of range: it must be 0 ... 3"
                    with message(GraphnetError, name, range_, f"{line}\n", "index[2]"):
                        run(*arrays)


@pytest.mark.parametrize("passes", [(), gn.passes.DEFAULT], ids=["no passes", "all passes"])
def test_check_names_the_first_node_with_its_scope_and_line(passes: Any) -> None:
    """Covers data, constants and derivatives; a derivative has the line of its node."""
    how: dict[str, Any] = {"passes": passes, "check": True}
    with gn.scope(layer="layer1", time=3):
        bad, line = Log()(x * 1, name="log_p"), here()
    run = gn.compile([gn.sum(gn.tanh(bad) * bad)], [x], **how)
    assert np.isfinite(run(ones)[0])
    with message(NonFiniteError, "Log: log_p[2, 3] makes NaN", "layer layer1, time 3", line):
        run(-ones)
    with message(NonFiniteError, "log_p[2, 3] makes an infinity", line):
        run(0 * ones)
    with pytest.raises(NonFiniteError) as caught:
        gn.compile([gn.sum(gn.tanh(gn.log(x)))], [x], **how)(-ones)
    assert str(caught.value).count("node made at") == 1
    assert "Tanh" not in str(caught.value)
    assert np.isnan(gn.compile([gn.log(x)], [x], passes=passes)(-ones)[0]).all()

    with message(NonFiniteError, "Input: x[2, 3] holds NaN", x_line):
        gn.compile([gn.tanh(x)], [x], **how)(np.nan * ones)
    theta, line = gn.parameter(np.array([1.0, np.inf]), name="theta"), here()
    with message(NonFiniteError, "Parameter: theta[2] holds an infinity", line):
        gn.compile([gn.tanh(theta)], **how)()
    constant, line = Log()(gn.constant(np.array([1.0, -1.0])), name="bad"), here()
    with message(NonFiniteError, "bad[2] makes NaN", line):
        gn.compile([gn.sum(constant)], **how)()
    with gn.scope(cell="LSTM"):
        root, line = Sqrt()(x, name="root"), here()
    with message(NonFiniteError, "makes an infinity", "cell LSTM", line):
        gn.compile(gn.gradient(gn.sum(root), x), [x], **how)(0 * ones)


def test_origin_is_the_users_line(tmp_path: Any) -> None:
    """Lines of operators, helpers and hidden framework files are skipped."""
    nodes, line = [x + 1, x @ W[:3], gn.mean(x), x[0], -x, gn.softmax_cross_entropy(x, [0, 1])], here()
    assert {str(node.origin).rsplit("/", 1)[-1] for node in nodes} == {line}
    assert isinstance(nodes[0].op, Elementwise)
    file = tmp_path / "framework.py"
    file.write_text("import graphnet as gn\ndef layer(x):\n    return gn.tanh(x)\n")
    namespace: dict[str, Any] = {}
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), namespace)
    assert namespace["layer"](x).origin.file == str(file)
    hide_module(str(file))
    node, line = namespace["layer"](x), here()
    assert str(node.origin).endswith(line)


def test_origin_in_a_notebook_has_the_cell_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses the cell's number, since the temporary file's name differs in every run. Tries other shells."""
    cell = "/tmp/ipykernel_8123/1938475.py"
    names = {cell: ("Cell", "In[3]")}
    notebook = SimpleNamespace(compile=SimpleNamespace(format_code_name=names.get))
    for shell in (notebook, None, SimpleNamespace(), SimpleNamespace(compile=compile)):
        ipython: Any = SimpleNamespace(get_ipython=lambda: shell)
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        assert str(Origin("cells.py", 2)) == "cells.py:2"
        assert str(Origin(cell, 2)) == ("In[3]:2" if shell is notebook else f"{Origin(cell, 2).file}:2")


class Own(np.ndarray):
    pass


REFUSED: list[tuple[Callable[[], Any], type[Exception], tuple[str, ...]]] = [
    # shapes
    (lambda: x + gn.input((4, 3)), ShapeError, ("Add", "[2, 3] and [4, 3]", "x[2, 3]", x_line)),
    (lambda: gn.where(x > 0, W, x), ShapeError, ("Where", "W[4, 5]", W_line)),
    (lambda: x @ gn.input((2, 4, 3)), ShapeError, ("axis k is 3 in input 1 but 4 in input 2", x_line)),
    (lambda: x @ scalar, ShapeError, ("scalar", "use *", "x[2, 3]")),
    (lambda: gn.input((2, 3, 4)) @ gn.input((3, 4, 5)), ShapeError, ("[2, 3, 4]", "[3, 4, 5]")),
    (lambda: gn.reshape(x, (4, 2)), ShapeError, ("Reshape", "6 elements", "[4, 2]", "8 elements", x_line)),
    (lambda: gn.reshape(x, (4, -1)), ShapeError, ("Reshape", "6 elements", "[4, -1]", x_line)),
    (lambda: gn.reshape(x, (2, -3)), ShapeError, ("whole numbers >= 0", "-3")),
    (lambda: gn.input((2, -3)), ShapeError, ("shape", "-3")),
    (lambda: gn.input((2.5,)), ShapeError, ("shape", "2.5")),
    (lambda: gn.transpose(x, (0, 0)), ShapeError, ("Transpose", "(0, 0)", x_line)),
    (lambda: gn.sum(x, 2), ShapeError, ("Sum", "axis 2", "2 axes")),
    (lambda: gn.sum(x, (0, 0)), ShapeError, ("Sum", "(0, 0)")),
    (lambda: gn.broadcast_to(x, (3, 2)), ShapeError, ("BroadcastTo", "[2, 3]", "[3, 2]", x_line)),
    (lambda: gn.concatenate([x, W]), ShapeError, ("Concatenate", "input 2 is [4, 5]", x_line, W_line)),
    (lambda: gn.concatenate([]), ShapeError, ("Concatenate", "nothing to join")),
    (lambda: gn.stack([x, x[0]]), ShapeError, ("Stack", "input 2 is [3]", x_line)),
    (lambda: gn.stack([]), ShapeError, ("Stack", "nothing to join")),
    (lambda: x[2], ShapeError, ("index 2", "axis 0", "size 2", x_line)),
    (lambda: x[0, 0, 0], ShapeError, ("2 axes", "3", x_line)),
    (lambda: x[..., ...], ShapeError, ("x[2, 3]", "'...'")),
    (lambda: x[::0], ShapeError, ("x[2, 3]", "step")),
    *((lambda f=f: f(empty), ShapeError, ("size 0", "e[0, 0]")) for f in (gn.max, gn.min, gn.argmax, gn.mean)),
    (lambda: gn.softmax(empty, 0), ShapeError, ("Softmax", "e[0, 0]")),
    (lambda: gn.softmax_cross_entropy(gn.input((3, 0)), index[:1]), ShapeError, ("SymbolCrossEntropy",)),
    (lambda: gn.softmax_cross_entropy(scalar, index), ShapeError, ("softmax_cross_entropy", "axis of classes")),
    (lambda: gn.softmax_cross_entropy(x, gn.input((3,), "int64", name="t")), ShapeError, ("[2]", "t[3]", x_line)),
    (lambda: gn.constant([[1.0], [2.0, 3.0]]), ShapeError, ("gn.constant", "not an array")),
    (lambda: len(scalar), ValueAccessError, ("scalar", "no length")),
    (lambda: setattr(W, "value", np.ones((5, 4))), ShapeError, ("W[4, 5]", W_line, "[5, 4]")),
    (lambda: type((x * x).op)()(x), ShapeError, ("Multiply takes 2 input(s), not 1",)),
    (gn.add, ShapeError, ("Add",)),
    # dtypes
    (lambda: gn.input((2,), "float16"), DtypeError, ("float16", "float32")),
    (lambda: gn.constant(np.ones(2, "float16")), DtypeError, ("float16", "astype")),
    (lambda: gn.input((2,), "no such thing"), DtypeError, ("'no such thing'",)),
    (lambda: single + index, DtypeError, ("Add", "int64", "gn.cast", "index[2]", index_line)),
    (lambda: gn.input((2, 2)) @ gn.input((2, 2), "int32"), DtypeError, ("MatMul", "int32", "gn.cast")),
    (lambda: gn.parameter(np.array([1, 2])), DtypeError, ("parameter", "int64", "gn.constant")),
    (lambda: gn.where(index, 1.0, 2.0), DtypeError, ("Where", "condition is int64", index_line)),
    (lambda: gn.take(x, x), DtypeError, ("Take", "float64", x_line)),
    (lambda: gn.one_hot(x, 3), DtypeError, ("OneHot", "float64", x_line)),
    (lambda: gn.concatenate([x, gn.input((2, 3))]), DtypeError, ("Concatenate", "float32", x_line)),
    (lambda: gn.stack([x, gn.input((2, 3))]), DtypeError, ("Stack", "float32", "float64")),
    (lambda: gn.softmax_cross_entropy(x, x > 0), DtypeError, ("booleans", "integers", "x[2, 3]")),
    (lambda: x[x > 0], DtypeError, ("x[2, 3][mask]", "gn.where", x_line)),
    *((lambda k=k: x[k], DtypeError, ("x[2, 3]", "gn.take")) for k in (True, "row", (0, index))),
    (lambda: gn.fill(10**400, (2,), "float64"), DtypeError, ("float64 cannot hold 1000",)),
    (lambda: x + 10**400, DtypeError, ("float64 cannot hold 1000",)),
    (lambda: gn.input((2,), "uint8") + single, DtypeError, ("an input is float32 and another uint8",)),
    (lambda: gn.input((2,), "int8") ** 200, DtypeError, ("the exponent 200 does not fit int8",)),
    (lambda: gn.input((2,), "int64") ** (2**53 + 1), DtypeError, ("does not fit int64 (at most 9.00",)),
    (lambda: gn.input((2,), "float64") ** 10**400, DtypeError, ("does not fit float64",)),
    *((lambda n=n: gn.fill(n, (2,), "float32"), ValueAccessError, ("gn.fill",)) for n in ([1], "a", None, 1j, x)),
    *(
        (lambda n=n, t=t: gn.fill(n, (2,), t), DtypeError, (f"{t} cannot hold {n!r}",))
        for n, t in ((1.5, "int32"), (np.nan, "int32"), (np.inf, "int64"), (2**70, "int64"), (2, "bool"), (-1, "uint8"))
    ),
    *((lambda f=f: f(b), DtypeError, ("booleans",)) for f in (lambda b: b - b, lambda b: -b, lambda b: b % b, gn.sign)),
    # no nodes, no numbers, no lists
    (lambda: x.__setitem__(0, 1.0), ValueAccessError, ("x[2, 3]", "immutable", "gn.where")),
    (lambda: gn.parameter(x), ValueAccessError, ("gn.parameter", "x[2, 3]")),
    (lambda: function(x, [0, 1]), DtypeError, ("input x[2, 3]", "node", "array")),
    (lambda: x * gn.gradient(gn.sum(x), [x]), ValueAccessError, ("a list of nodes", "nodes[0]", "gn.stack")),
    (lambda: gn.gradient(3.0, x), ValueAccessError, ("gradient", "3.0", "node")),
    (lambda: gn.gauss_newton_product(3.0, {x: ones}), ValueAccessError, ("gauss_newton_product", "3.0")),
    (lambda: gn.concatenate(np.array(2)), UsageError, ("concatenate", "array(2)")),
    (lambda: gn.stack(np.array(2.0)), UsageError, ("stack",)),
    (lambda: gn.Graph(np.array(2)), ValueAccessError, ("array(2)",)),
    (lambda: gn.compile([x], [x], updates=[(x, x)]), GraphnetError, ("updates", "dict")),
    (lambda: gn.compile([x], [x], updates={x: x * 2.0})(ones.view(Own)), DtypeError, ("numpy.ndarray", "Own")),
    (lambda: gn.with_surrogate(x, lambda z: z, 1.5), UsageError, ("with_surrogate: at", "1.5")),
    (lambda: setattr(gn.parameter(np.ones(2, "f4")), "value", np.array([1e300, 0])), DtypeError, ("float32", "1e+300")),
    (lambda: gn.RandomSource().bernoulli(1.5, (2,)), GraphnetError, ("[0, 1]", "1.5")),
    # derivatives
    (lambda: gn.gauss_newton_product(x, {x: ones}), DifferentiationError, ("scalar", "[2, 3]", "gn.mean")),
    *(
        (lambda d=d: gn.gauss_newton_product(scalar, {x: ones}, at=x, damping=[d]), UsageError, ("damping", *words))
        for d, words in (
            ((gn.exp(x), gn.tanh(x), 0.1), ("not computed from", "Exp")),
            ((x, gn.tanh(x), -0.1), (">= 0", "-0.1")),
        )
    ),
    (lambda: gn.gradient(scalar, [x, index]), DifferentiationError, ("index[2]", index_line, "int64")),
    (lambda: gn.rop([scalar], {index: np.ones(2)}), DifferentiationError, ("index[2]", index_line, "int64")),
    (lambda: gn.backward({index: np.ones(2)}, x), DifferentiationError, ("index[2]", index_line, "int64")),
    (lambda: gn.backward({x: np.ones((3, 2))}, x), ShapeError, ("backward", "x[2, 3]", x_line, "[3, 2]")),
    (lambda: gn.rop([scalar], {x: np.ones(3)}), ShapeError, ("rop", "x[2, 3]", x_line, "[3]")),
    (lambda: gn.rop([scalar], {x: gn.input((2, 3))}), DtypeError, ("rop", "x[2, 3]", "float32", "float64")),
    (lambda: gn.rop([scalar], [x]), ValueAccessError, ("gn.rop", "dict", "list")),
    # compiling and calling
    (lambda: gn.compile([index], [x]), GraphnetError, ("1 Input node(s)", index_line, "inputs=[...]")),
    (lambda: gn.compile([x], [x, x]), GraphnetError, ("x[2, 3]", "twice")),
    (lambda: gn.compile([gn.tanh(W)], [W]), GraphnetError, ("W[4, 5]", W_line, "Parameter", "gn.input")),
    (lambda: gn.compile([np.ones(3)]), ValueAccessError, ("outputs", "ndarray", "node")),
    (lambda: gn.compile([x], [x], backend="abacus"), BackendError, ("'abacus'", "numpy")),
    (lambda: gn.passes.without("polish"), GraphnetError, ("'polish'", "prune", "merge", "fold")),
    *((lambda n=n: gn.compile([x], [x], threads=n), BackendError, ("threads", repr(n))) for n in (0, 2.5, "2", True)),
    (lambda: function(ones), ShapeError, ("2 array(s)", "x[2, 3], index[2]", "1 were given")),
    (lambda: function(ones.T, [0, 1]), ShapeError, ("x[2, 3]", x_line, "[3, 2]")),
    (lambda: function([[1.0], [2.0, 3.0]], [0, 1]), ShapeError, ("x[2, 3]", "must be an array")),
    (lambda: function(ones, np.ones(2)), DtypeError, (index_line, "int64", "astype('int64')")),
    (lambda: function(ones * 1j, [0, 1]), DtypeError, ("x[2, 3]", "complex128", "array.real")),
    (lambda: gn.compile([single], [single])(np.ones(2)), DtypeError, ("s[2]", "astype('float32')")),
]  # fmt: skip


def test_invalid_arguments_are_rejected_and_equivalent_ones_accepted() -> None:
    for call, error, parts in REFUSED:
        with case(parts), message(error, *parts):
            call()
    assert gn.input(np.array(2)).shape == (2,)
    assert gn.reshape(gn.input((3, 4)), np.array(12)).shape == (12,)
    assert gn.fill(0.0, np.array(2), "float64").shape == (2,)
    for number in (True, 3, 2.0, np.float32(2), np.array(3), 2**62):
        assert (gn.compile([gn.fill(number, (2,), "int64")], [])()[0] == number).all()
    for backend in ("numba", "numpy"):
        gn.compile([x], [x], backend, threads=np.int64(1))(ones)  # type: ignore[arg-type]
