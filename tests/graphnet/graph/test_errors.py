"""What an error says: the node or argument, the user's line, the shapes or values, and the remedy.

Each test writes its fault on a line that holds `here()` or is the line before, so that the place that the
message must name is known.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pytest

import graphnet as gn
from graphnet import errors
from graphnet.graph.node import Array, Node, Op
from graphnet.graph.provenance import hide_module
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
    text = str(caught.value)
    assert isinstance(caught.value, gn.GraphnetError)
    missing = [part for part in parts if part not in text]
    assert not missing, f"{missing} not in\n{text}"


x, x_line = gn.input((2, 3), "float64", name="x"), here()
W, W_line = gn.parameter(np.ones((4, 5)), name="W"), here()
index, index_line = gn.input((2,), "int64", name="index"), here()
scalar = gn.sum(x)


# -- classes ------------------------------------------------------------------------------------


STANDARD = [
    (errors.ShapeError, ValueError),
    (errors.DtypeError, TypeError),
    (errors.UsageError, ValueError),
    (errors.ValueAccessError, TypeError),
    (errors.DifferentiationError, ValueError),
    (errors.NonFiniteError, ArithmeticError),
    (errors.BackendError, RuntimeError),
    (errors.NotEnoughMemoryError, MemoryError),
]


def test_errors_are_python_s_own_kinds_too() -> None:
    names = {name for name in errors.__all__ if name.endswith("Error")}
    require_rows(
        names - {"GraphnetError", *(e.__name__ for e, _ in STANDARD)}, "STANDARD", "the kind that it is, too"
    )
    for error, standard in STANDARD:
        assert issubclass(error, errors.GraphnetError)
        assert issubclass(error, standard)
        assert getattr(gn, error.__name__) is error


# -- shapes ---------------------------------------------------------------------------------------


def test_matmul_mismatch_is_worded_line_by_line() -> None:
    with pytest.raises(gn.ShapeError) as caught:
        x @ W
    first, signature, one, two = str(caught.value).split("\n")
    assert first == "MatMul: axis k is 3 in input 1 but 4 in input 2."
    assert signature.split(None, 1) == ["signature", "n k, k m -> n m"]
    assert re.fullmatch(rf"    input 1 +x\[2, 3\] +made at \S*{x_line}", one)
    assert re.fullmatch(rf"    input 2 +W\[4, 5\] +made at \S*{W_line}", two)
    assert one.index("made at") == two.index("made at")


SHAPES: list[tuple[Callable[[], Any], tuple[str, ...]]] = [
    (lambda: x + gn.input((4, 3)), ("Add", "[2, 3] and [4, 3]", "broadcast", "x[2, 3]", x_line)),
    (lambda: gn.where(x > 0, W, x), ("Where", "broadcast", "W[4, 5]", W_line)),
    (lambda: x @ gn.input((2, 4, 3)), ("axis k is 3 in input 1 but 4 in input 2", "... n k", x_line)),
    (lambda: x @ scalar, ("scalar", "use *", "x[2, 3]")),
    (
        lambda: gn.input((2, 3, 4)) @ gn.input((3, 4, 5)),
        ("leading axes do not broadcast", "[2, 3, 4]", "[3, 4, 5]"),
    ),
    (lambda: gn.reshape(x, (4, 2)), ("Reshape", "6 elements", "[4, 2]", "8 elements", x_line)),
    (lambda: gn.reshape(x, (4, -1)), ("Reshape", "6 elements", "[4, -1]", x_line)),
    (lambda: gn.reshape(x, (2, -3)), ("whole numbers >= 0", "-3")),
    (lambda: gn.input((2, -3)), ("shape", "whole numbers >= 0", "-3")),
    (lambda: gn.input((2.5,)), ("shape", "whole numbers", "2.5")),
    (lambda: gn.transpose(x, (0, 0)), ("Transpose", "(0, 0)", "x[2, 3]", x_line)),
    (lambda: gn.sum(x, 2), ("Sum", "axis 2", "2 axes")),
    (lambda: gn.sum(x, (0, 0)), ("Sum", "(0, 0)", "twice")),
    (lambda: gn.broadcast_to(x, (3, 2)), ("BroadcastTo", "[2, 3]", "[3, 2]", x_line)),
    (lambda: gn.concatenate([x, W]), ("Concatenate", "input 2 is [4, 5]", "[2, 3]", x_line, W_line)),
    (lambda: gn.concatenate([]), ("Concatenate", "nothing to join", "at least one")),
    (lambda: gn.stack([x, x[0]]), ("Stack", "input 2 is [3]", "[2, 3]", x_line)),
    (lambda: gn.stack([]), ("Stack", "nothing to join")),
    (lambda: x[2], ("index 2", "axis 0", "size 2", x_line)),
    (lambda: x[0, 0, 0], ("2 axes", "3", x_line)),
    (lambda: x[..., ...], ("x[2, 3]", "only one '...'")),
    (lambda: x[::0], ("x[2, 3]", "step cannot be 0")),
    (lambda: gn.max(gn.input((0, 3), name="e")), ("Max: there is no maximum of nothing", "e[0, 3]")),
    (lambda: gn.min(gn.input((0, 3), name="e")), ("Min: there is no minimum of nothing", "e[0, 3]")),
    (lambda: gn.argmax(gn.input((0, 3), name="e"), 0), ("ArgMax", "nothing", "e[0, 3]")),
    (lambda: gn.mean(gn.input((0, 3), name="e")), ("Mean", "no mean of nothing", "e[0, 3]", FILE)),
    (lambda: gn.softmax(gn.input((3, 0), name="e")), ("Softmax", "empty", "e[3, 0]")),
    (lambda: gn.softmax_cross_entropy(gn.input((3, 0)), index[:1]), ("SymbolCrossEntropy",)),
    (lambda: gn.softmax_cross_entropy(scalar, index), ("softmax_cross_entropy", "axis of symbols")),
    (
        lambda: gn.softmax_cross_entropy(x, gn.input((3,), "int64", name="t")),
        ("SymbolCrossEntropy", "leading axes", "[2]", "[3]", "x[2, 3]", "t[3]", x_line),
    ),
    (lambda: gn.constant([[1.0], [2.0, 3.0]]), ("gn.constant", "not an array")),
    (lambda: len(scalar), ("scalar", "no length")),
]  # fmt: skip


def test_shapes() -> None:
    for build, parts in SHAPES:
        with case(parts):
            error = gn.ValueAccessError if "no length" in parts else gn.ShapeError
            with message(error, *parts):
                build()


def test_parameter_keeps_its_shape() -> None:
    with message(gn.ShapeError, "W[4, 5]", W_line, "[5, 4]", "[4, 5]"):
        W.value = np.ones((5, 4))


def test_parameter_keeps_its_dtype() -> None:
    p = gn.parameter(np.ones(3), name="p")
    for wrong in (np.full(3, 1j), ["a", "b", "c"]):
        with message(gn.DtypeError, "p[3]", "is float64, and cannot take a value of"):
            p.value = wrong
    with message(gn.ShapeError, "p[3]", "no array"):
        p.value = [[1], [2, 3]]
    p.value = [1, 2, 3]
    np.testing.assert_array_equal(p.value, [1.0, 2.0, 3.0])
    fixed = np.ones(3)
    fixed.flags.writeable = False
    with message(gn.ValueAccessError, "holds a read-only array", "gn.parameter(array.copy())"):
        gn.parameter(fixed).value = np.zeros(3)


def test_a_signature_that_cannot_be_is_the_op_author_s_error() -> None:
    class Typo(Op):
        """y = x"""

        signature = "n -> m"

    with pytest.raises(ValueError, match="output axis m is in no input"):
        Typo()(x)


# -- dtypes ---------------------------------------------------------------------------------------


DTYPES: list[tuple[Callable[[], Any], tuple[str, ...]]] = [
    (lambda: gn.input((2,), "float16"), ("float16", "float32", "float64")),
    (lambda: gn.constant(np.ones(2, "float16")), ("float16", "astype")),
    (lambda: gn.input((2,), "complex128"), ("complex128", "float64")),
    (lambda: gn.input((2,), "no such thing"), ("'no such thing'", "'float32'")),
    (lambda: gn.input((2,)) + index, ("Add", "int64", "gn.cast", "index[2]", index_line)),
    (lambda: gn.input((2, 2)) @ gn.input((2, 2), "int32"), ("MatMul", "int32", "gn.cast")),
    (lambda: gn.parameter(np.array([1, 2])), ("parameter", "int64", "gn.constant", "astype")),
    (lambda: gn.where(index, 1.0, 2.0), ("Where", "condition is int64", "gn.where(x > 0", index_line)),
    (lambda: gn.take(x, x), ("Take", "float64", "integers", "gn.cast", x_line)),
    (lambda: gn.one_hot(x, 3), ("OneHot", "float64", "integers", x_line)),
    (lambda: gn.concatenate([x, gn.input((2, 3))]), ("Concatenate", "float32", "gn.cast", x_line)),
    (lambda: gn.stack([x, gn.input((2, 3))]), ("Stack", "float32", "float64", "gn.cast")),
    (lambda: gn.softmax_cross_entropy(x, x > 0), ("booleans", "integers", "x[2, 3]")),
    (lambda: x[x > 0], ("x[2, 3][mask]", "fixed", "gn.where", x_line)),
    (lambda: x[True], ("x[2, 3]", "True", "gn.take")),
    (lambda: x["row"], ("x[2, 3]", "'row'", "str", "gn.take")),
    (lambda: x[0, index], ("x[2, 3]", "gn.take")),
]


def test_dtypes() -> None:
    for build, parts in DTYPES:
        with case(parts), message(gn.DtypeError, *parts):
            build()


# -- a node is not a number, and some things are not nodes ---------------------------------------------


USES: list[tuple[Callable[[Node], Any], str]] = [
    (bool, "truth value"),
    (float, "a number"),
    (int, "a number"),
    (np.asarray, "an array"),
    (lambda node: [1, 2, 3][node], "an index"),
    (lambda node: 1 if node > 0 else 2, "truth value"),
    (lambda node: 0 < node < 1, "truth value"),
    (lambda node: x[node:], "an index"),
]


def test_a_node_is_symbolic() -> None:
    for number, (use, wanted) in enumerate(USES):
        parts = (wanted, "symbolic node", FILE, "gn.where", "gn.compile")
        with case(number), message(gn.ValueAccessError, *parts):
            use(gn.tanh(scalar))


def test_a_symbolic_node_names_its_line() -> None:
    node, line = gn.label(scalar, "loss"), here()
    with message(gn.ValueAccessError, "loss[]", line, "symbolic", "gn.where"):
        bool(node)
    with message(gn.ValueAccessError, "loss[]", line, "holds no value", "gn.compile"):
        node.value


def test_numpy_functions_on_nodes_name_the_node_and_the_remedy() -> None:
    array = np.ones((2, 3))
    uses: list[Callable[[], Any]] = [
        lambda: np.tanh(x), lambda: np.isnan(x), lambda: np.sum(x), lambda: np.add.reduce(x),
        lambda: np.equal.reduce(x), lambda: array // x, lambda: array.__iadd__(x),
        lambda: np.add(array, x, out=array), lambda: np.logical_and(array, x),
    ]  # fmt: skip
    for use in uses:
        with message(gn.ValueAccessError, "x[2, 3]", FILE, "symbolic node, not an array", "gn.tanh"):
            use()
    np.testing.assert_array_equal(array, np.ones((2, 3)))
    for use in (lambda: array == x, lambda: array != x, lambda: x == array):
        with message(gn.ValueAccessError, "x[2, 3]", FILE, "gn.equal"):
            use()


def test_nodes_are_immutable() -> None:
    with message(gn.ValueAccessError, "x[2, 3]", "immutable", "gn.where", "gn.concatenate"):
        x[0] = 1.0


def test_arrays_beside_nodes_reach_our_operators() -> None:
    array = np.arange(6.0).reshape(2, 3)
    value = np.linspace(-1, 1, 6).reshape(2, 3)
    nodes = [
        array + x,
        array - x,
        array * x,
        array / x,
        array.T @ x,
        x @ array.T,
        np.float64(2) * x,
        array < x,
        array % x,
        x % array.max(),
        7 % x,
    ]
    expected = [
        array + value, array - value, array * value, array / value, array.T @ value, value @ array.T,
        2 * value, array < value, array % value, value % 5, 7 % value,
    ]  # fmt: skip
    assert all(isinstance(node, Node) for node in nodes)
    for found, right in zip(gn.compile(nodes, [x])(value), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-15)


def test_what_is_not_an_array_of_numbers() -> None:
    for thing in ("text", None, object(), 1 + 2j, np.array(["a"]), {"a": 1}):
        with case(thing):
            with message(gn.ValueAccessError, "gn.constant", type(thing).__name__, "gn.input"):
                gn.constant(thing)
            with message(gn.ValueAccessError, "neither a node nor an array"):
                gn.tanh(thing)


def test_a_node_where_an_array_is_needed() -> None:
    with message(gn.ValueAccessError, "gn.parameter", "x[2, 3]"):
        gn.parameter(x)
    function = gn.compile([gn.tanh(x)], [x])
    with message(gn.DtypeError, "input x[2, 3]", "node", "array"):
        function(x)


# -- derivatives ------------------------------------------------------------------------------------


def test_cost_must_be_a_scalar() -> None:
    for derive in (gn.gradient, lambda cost, w: gn.hessian_product(cost, {w: np.ones(w.shape)})):
        cost, line = gn.label(x * x, "errors"), here()
        with message(gn.DifferentiationError, "errors[2, 3]", line, "scalar", "gn.mean", "gn.backward"):
            derive(cost, x)


def test_cost_must_be_a_node() -> None:
    with message(gn.ValueAccessError, "gradient", "3.0", "node"):
        gn.gradient(3.0, x)
    with message(gn.ValueAccessError, "gauss_newton_product", "3.0", "node"):
        gn.gauss_newton_product(3.0, {x: np.ones((2, 3))})
    with message(gn.DifferentiationError, "gauss_newton_product", "scalar", "[2, 3]", "gn.mean"):
        gn.gauss_newton_product(x, {x: np.ones((2, 3))})


def test_integers_have_no_derivatives() -> None:
    for derive in (
        lambda: gn.gradient(scalar, [x, index]),
        lambda: gn.rop([scalar], {index: np.ones(2)}),
        lambda: gn.backward({index: np.ones(2)}, x),
    ):
        with message(gn.DifferentiationError, "index[2]", index_line, "int64", "float32"):
            derive()


def test_derivatives_have_their_node_s_shape_and_dtype() -> None:
    y, line = gn.label(gn.tanh(x), "y"), here()
    with message(gn.ShapeError, "backward", "y[2, 3]", line, "[3, 2]", "[2, 3]"):
        gn.backward({y: np.ones((3, 2))}, x)
    with message(gn.ShapeError, "rop", "x[2, 3]", x_line, "[3]"):
        gn.rop([y], {x: np.ones(3)})
    with message(gn.DtypeError, "rop", "x[2, 3]", "float32", "float64", "gn.cast"):
        gn.rop([y], {x: gn.input((2, 3), "float32")})
    with message(gn.ValueAccessError, "gn.rop", "dict", "list"):
        gn.rop([y], [x])


def test_gauss_newton_needs_a_loss_or_at() -> None:
    cost, line = gn.label(gn.sum(gn.tanh(x)), "C"), here()
    with message(gn.DifferentiationError, "C[]", line, "no loss op", "softmax_cross_entropy", "at=[...]"):
        gn.gauss_newton_product(cost, {x: np.ones((2, 3))})


def test_gauss_newton_names_the_way_around() -> None:
    weights, line = gn.parameter(np.ones((3, 4)), name="weights"), here()
    logits = x @ weights
    cost = gn.mean(gn.softmax_cross_entropy(logits, [1, 2])) + 0.1 * gn.sum(weights**2)
    tangents = {weights: np.ones((3, 4))}
    with message(gn.DifferentiationError, "weights[3, 4]", line, "around", "at=[logits, W]"):
        gn.gauss_newton_product(cost, tangents)
    assert gn.gauss_newton_product(cost, tangents, at=[logits, weights])[0].shape == (3, 4)


# -- users' own ops -----------------------------------------------------------------------------------


class Square(Op):
    """y = x²"""

    signature = "... -> ..."

    def forward(self, *arrays: Array) -> Array:
        return arrays[0] ** 2


def test_an_op_without_rules() -> None:
    node, line = Square()(x, name="squares"), here()
    with message(
        gn.DifferentiationError, "Square", "no backward rule", "squares[2, 3]", line, "stop_gradient"
    ):
        gn.gradient(gn.sum(node), x)
    with message(gn.DifferentiationError, "Square", "no R-operator rule", "squares[2, 3]", line, "`rop`"):
        gn.rop([node], {x: np.ones((2, 3))})
    np.testing.assert_array_equal(gn.compile([node], [x])(np.full((2, 3), 3.0))[0], np.full((2, 3), 9.0))


def test_an_op_without_forward() -> None:
    class Nothing(Op):
        """y = ?"""

        signature = "... -> ..."

    node, line = Nothing()(x, name="nothing"), here()
    with message(gn.BackendError, "Nothing", "no forward rule", "nothing[2, 3]", line, "x[2, 3]", x_line):
        gn.compile([node], [x])(np.ones((2, 3)))


def test_an_op_without_shapes() -> None:
    class Shapeless(Op):
        """y = x"""

    with pytest.raises(NotImplementedError, match="Shapeless needs a `signature` or an `infer` method"):
        Shapeless()(x)


def test_a_forward_that_fails_names_its_node() -> None:
    class Failing(Square):
        """y = x²"""

        def forward(self, *arrays: Array) -> Array:
            raise KeyError("table")

    node, line = gn.tanh(Failing()(x, name="f")), here()
    for check in (False, True):
        with message(gn.BackendError, "Failing.forward failed at f[2, 3]", "KeyError", "table", line, x_line):
            gn.compile([node], [x], check=check)(np.ones((2, 3)))


def test_a_backward_of_the_wrong_count() -> None:
    class TwoForOne(Square):
        """y = x²"""

        def backward(self, gy: Node, y: Node, *inputs: Node) -> list[Node]:
            return [gy, gy]

    node, line = TwoForOne()(x, name="squares"), here()
    with message(gn.DifferentiationError, "TwoForOne.backward", "2 cotangents for 1", "squares[2, 3]", line):
        gn.gradient(gn.sum(node), x)


def test_rules_of_the_wrong_shape() -> None:
    class Wrong(Square):
        """y = x²"""

        def backward(self, gy: Node, y: Node, *inputs: Node) -> list[Node]:
            return [gn.sum(gy)]

        def rop(self, *rs_y_inputs: Node) -> Node:
            return gn.sum(rs_y_inputs[0])

    node, line = Wrong()(x, name="squares"), here()
    with message(gn.ShapeError, "Wrong.backward", "shape []", "x[2, 3]", x_line, "[2, 3]"):
        gn.gradient(gn.sum(node), x)
    with message(gn.ShapeError, "Wrong.rop", "shape []", "squares[2, 3]", line, "[2, 3]"):
        gn.rop([node], {x: np.ones((2, 3))})


def test_an_elementwise_op_counts_its_inputs() -> None:
    with message(gn.ShapeError, "Multiply takes 2 input(s), not 1"):
        type((x * x).op)()(x)
    with message(gn.ShapeError, "Add needs at least one input"):
        gn.add()


# -- compiling ---------------------------------------------------------------------------------------


def test_missing_input() -> None:
    with message(gn.GraphnetError, "1 Input node(s)", "index[2]", index_line, "inputs=[...]"):
        gn.compile([gn.take(x, index)], [x])


def test_duplicate_input() -> None:
    with message(gn.GraphnetError, "x[2, 3]", "twice"):
        gn.compile([x], [x, x])


def test_inputs_must_be_inputs() -> None:
    with message(gn.GraphnetError, "W[4, 5]", W_line, "Parameter", "gn.input"):
        gn.compile([gn.tanh(W)], [W])
    with message(gn.ValueAccessError, "outputs", "ndarray", "node"):
        gn.compile([np.ones(3)])


def test_unknown_back_end_pass_and_threads() -> None:
    with message(gn.BackendError, "'abacus'", "available", "numpy"):
        gn.compile([x], [x], backend="abacus")
    with message(gn.GraphnetError, "'polish'", "prune", "merge", "fold"):
        gn.passes.without("polish")
    for threads in (0, 2.5, "2", True):
        with message(gn.BackendError, "threads must be a whole number", repr(threads)):
            gn.compile([x], [x], threads=threads)  # type: ignore[arg-type]
    for backend in ("numba", "numpy"):
        gn.compile([x], [x], backend, threads=np.int64(1))(np.ones((2, 3)))  # type: ignore[arg-type]


# -- calling ------------------------------------------------------------------------------------------


function = gn.compile([gn.sum(x) + gn.sum(gn.take(W, index))], [x, index], passes=())
good = np.ones((2, 3)), np.array([0, 1])


def test_count_of_arrays() -> None:
    with message(gn.ShapeError, "2 array(s)", "x[2, 3], index[2]", "1 were given"):
        function(good[0])


def test_shape_of_an_array() -> None:
    with message(gn.ShapeError, "x[2, 3]", x_line, "[3, 2]"):
        function(good[0].T, good[1])
    with message(gn.ShapeError, "x[2, 3]", "not an array"):
        function([[1.0], [2.0, 3.0]], good[1])


def test_dtype_of_an_array() -> None:
    with message(gn.DtypeError, "index[2]", index_line, "int64", "float64", "astype('int64')"):
        function(good[0], good[1].astype("float64"))
    with message(gn.DtypeError, "x[2, 3]", "complex128", "array.real"):
        function(good[0] * 1j, good[1])
    single = gn.input((2,), name="single")
    with message(gn.DtypeError, "single[2]", "float32", "float64", "astype('float32')"):
        gn.compile([single], [single])(np.ones(2))


def test_conversions_that_lose_nothing_are_made() -> None:
    single, whole = gn.input((2,), name="single"), gn.input((2,), "uint8")
    run = gn.compile([single, whole], [single, whole])
    for a, b in [
        ([1, 2.5], [1, 2]),
        (np.array([1, 2], "int16"), np.array([1, 255])),
        ((True, False), (0, 1)),
    ]:
        floats, integers = run(a, b)
        assert (floats.dtype, integers.dtype) == (np.float32, np.uint8)
        np.testing.assert_array_equal(floats, np.asarray(a, "float32"))
        np.testing.assert_array_equal(integers, b)
    with message(gn.DtypeError, "uint8", "int64"):
        run([1, 2], np.array([1, 256]))


def test_lists_that_the_dtype_cannot_hold() -> None:
    for dtype, numbers, lost in (
        ("int8", [200, 1], "200"),
        ("int32", [0, 2**31], "2147483648"),
        ("float32", [1.0, 1e300], "1e+300"),
    ):
        with case(dtype):
            node = gn.input((2,), dtype, name="n")
            run = gn.compile([node], [node])
            with message(gn.DtypeError, "n[2]", f"is {dtype}, which cannot hold {lost}"):
                run(numbers)
            run([np.inf, np.nan] if dtype == "float32" else [1, -1])


def test_a_node_has_this_machine_s_order_of_bytes() -> None:
    for dtype in (">i8", ">i4", ">u2", ">f4"):
        with case(dtype):
            own = np.dtype(dtype).newbyteorder("=")
            with message(gn.DtypeError, "this machine's order of bytes", f"array.astype('{own}')"):
                gn.input((3,), dtype)
            node = gn.input((3,), own)
            np.testing.assert_array_equal(
                gn.compile([node + 1], [node])(np.array([1, 2, 3], dtype))[0], [2, 3, 4]
            )


def test_numbers_that_no_float_can_stand_for() -> None:
    for make in (lambda: gn.fill(10**400, (2,), "float64"), lambda: x + 10**400):
        with message(gn.DtypeError, "float64 cannot hold 1000"):
            make()
    with message(gn.DtypeError, "power: the exponent 200 is no int8"):
        gn.input((2,), "int8") ** 200


def test_index_out_of_range() -> None:
    """Also with check=True, and after nodes that come later: the node that failed is named."""
    for wrong in (-1, 4):
        for check in (False, True):
            with case(wrong, check):
                rows, rows_line = gn.take(W, index), here()
                codes, codes_line = gn.one_hot(index, 4), here()
                scores = gn.input((2, 4), "float64", name="scores")
                losses, losses_line = gn.softmax_cross_entropy(scores, index), here()
                for node, name, line in [
                    (rows, "Take", rows_line),
                    (codes, "OneHot", codes_line),
                    (losses, "SymbolCrossEntropy", losses_line),
                ]:
                    run = gn.compile([gn.tanh(gn.sum(node))], check=check)
                    arrays = [np.ones((2, 4)) if n is scores else np.array([0, wrong]) for n in run.inputs]
                    with pytest.raises(gn.GraphnetError) as caught:
                        run(*arrays)
                    text = str(caught.value)
                    assert text.startswith(name)
                    assert f" {wrong} is out of range: it must be 0 ... 3" in text
                    assert re.search(rf"node made at \S*{line}\n", text)
                    assert "index[2]" in text


# -- check=True -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("passes", [(), gn.passes.DEFAULT], ids=["no passes", "all passes"])
class TestCheck:
    def test_names_the_first_node_with_scope_and_line(self, passes: Any) -> None:
        with gn.scope(layer="layer1", time=3):
            bad, line = Log()(x * 1, name="log_p"), here()
        cost = gn.sum(gn.tanh(bad) * bad)
        run = gn.compile([cost], [x], passes=passes, check=True)
        assert np.isfinite(run(np.ones((2, 3)))[0])
        with message(gn.NonFiniteError, "Log: log_p[2, 3] makes NaN", "layer layer1, time 3", line):
            run(-np.ones((2, 3)))
        with message(gn.NonFiniteError, "log_p[2, 3] makes an infinity", line):
            run(np.zeros((2, 3)))

    def test_names_one_node_only(self, passes: Any) -> None:
        run = gn.compile([gn.sum(gn.tanh(gn.log(x)))], [x], passes=passes, check=True)
        with pytest.raises(gn.NonFiniteError) as caught:
            run(-np.ones((2, 3)))
        assert str(caught.value).count("node made at") == 1
        assert "Tanh" not in str(caught.value)

    def test_names_data_that_is_not_finite(self, passes: Any) -> None:
        run = gn.compile([gn.tanh(x)], [x], passes=passes, check=True)
        with message(gn.NonFiniteError, "Input: x[2, 3] holds NaN", x_line):
            run(np.full((2, 3), np.nan))
        theta, line = gn.parameter(np.array([1.0, np.inf]), name="theta"), here()
        with message(gn.NonFiniteError, "Parameter: theta[2] holds an infinity", line):
            gn.compile([gn.tanh(theta)], passes=passes, check=True)()

    def test_derivatives_belong_to_the_line_of_their_node(self, passes: Any) -> None:
        with gn.scope(cell="LSTM"):
            root, line = Sqrt()(x, name="root"), here()
        (g,) = gn.gradient(gn.sum(root), x)
        with message(gn.NonFiniteError, "makes an infinity", "cell LSTM", line):
            gn.compile([g], [x], passes=passes, check=True)(np.zeros((2, 3)))

    def test_without_check_values_flow_silently(self, passes: Any) -> None:
        (value,) = gn.compile([gn.log(x)], [x], passes=passes)(-np.ones((2, 3)))
        assert np.isnan(value).all()

    def test_a_fault_in_constants_is_reported_where_it_runs(self, passes: Any) -> None:
        bad, line = Log()(gn.constant(np.array([1.0, -1.0])), name="bad"), here()
        with message(gn.NonFiniteError, "bad[2] makes NaN", line):
            gn.compile([gn.sum(bad)], passes=passes, check=True)()


# -- whose line it is -------------------------------------------------------------------------------------


def test_lines_of_machinery_can_be_hidden(tmp_path: Any) -> None:
    """A framework's own files do not count as the user's code."""
    file = tmp_path / "framework.py"
    file.write_text("import graphnet as gn\ndef layer(x):\n    return gn.tanh(x)\n")
    namespace: dict[str, Any] = {}
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), namespace)
    assert namespace["layer"](x).origin.file == str(file)
    hide_module(str(file))
    node, line = namespace["layer"](x), here()
    assert str(node.origin).endswith(line)


def test_operators_and_helpers_name_the_user_s_line() -> None:
    nodes, line = [x + 1, x @ W[:3], gn.mean(x), x[0], -x, gn.softmax_cross_entropy(x, [0, 1])], here()
    assert {str(node.origin).rsplit("/", 1)[-1] for node in nodes} == {line}
    assert isinstance(nodes[0].op, Elementwise)


# -- what would otherwise fail only when it runs, or be refused though it is right ---------------------


def test_booleans_have_no_signed_arithmetic() -> None:
    for make in (lambda b: b - b, lambda b: -b, lambda b: b % b, gn.sign):
        with pytest.raises(gn.DtypeError, match=r"booleans have no such arithmetic; cast them first"):
            make(gn.input((2,), "bool"))


def test_where_takes_a_truth_value_of_numpys() -> None:
    """But none of Python's, which `a == b` is."""
    x = gn.input((2,), "float64")
    (found,) = gn.compile([gn.where(np.True_, x, 0.0)], [x])(np.array([1.0, 2.0]))
    assert found.tolist() == [1.0, 2.0]
    with pytest.raises(gn.ValueAccessError, match=r"where is given Python's False. .* gn\.equal\(a, b\)"):
        gn.where(x == gn.tanh(x), x, 0.0)


def test_nodes_are_compared_with_no_number() -> None:
    for other in (0, 0.5, 1j, Fraction(1, 2), np.ones(2), np.float64(1), np.True_, True):
        with case(other):
            x = gn.input((2,), "float64", name="x")
            for compare in (lambda: x == other, lambda: other == x, lambda: x != other):
                with pytest.raises(
                    gn.ValueAccessError, match=r"x\[2\] .* is compared with .* write gn\.equal\(a, b\)"
                ):
                    compare()
            assert x == x and x != gn.tanh(x) and x in [gn.tanh(x), x] and x != "x"  # noqa: PLR0124, PT018
            assert x not in (None, "x")
            assert x == mock.ANY


def test_gauss_newton_ignores_paths_without_derivative() -> None:
    """Targets computed from the parameter behind a stop-gradient are data."""
    weight = gn.parameter(np.ones((2, 2)), name="W")
    z = gn.constant(np.ones((3, 2))) @ weight
    cost = gn.mean(gn.squared_error(z, gn.stop_gradient(gn.tanh(z))))
    v = np.arange(4.0).reshape(2, 2)
    (found,) = gn.compile(gn.gauss_newton_product(cost, {weight: v}), [])()
    x = np.ones((3, 2))
    np.testing.assert_allclose(found, x.T @ (2 / 6 * (x @ v)))


# -- numbers that fill a shape --------------------------------------------------------------------


def test_fill_takes_one_number() -> None:
    for number in ([1], np.ones(2), "a", None, 1j, x):
        with (
            case(number),
            message(errors.ValueAccessError, "gn.fill takes one number", "gn.constant", "gn.broadcast_to"),
        ):
            gn.fill(number, (2,), "float32")


def test_fill_refuses_what_the_dtype_cannot_hold() -> None:
    for number, dtype in (
        (1.5, "int32"),
        (np.nan, "int32"),
        (np.inf, "int64"),
        (2**70, "int64"),
        (2, "bool"),
        (-1, "uint8"),
    ):
        with case(number, dtype), message(errors.DtypeError, f"{dtype} cannot hold {number!r}"):
            gn.fill(number, (2,), dtype)


def test_fill_takes_numbers_of_any_kind() -> None:
    for number in (True, 3, 2.0, np.float32(2), np.array(3), 2**62):
        with case(number):
            (value,) = gn.compile([gn.fill(number, (2,), "int64")], [])()
            assert (value == number).all()


# -- arrays without axes, and other things that only look like lists -----------------------------

ODD_ARGUMENTS: dict[str, tuple[Callable[[], Any], type[Exception], tuple[str, ...]]] = {
    "concatenate": (lambda: gn.concatenate(np.array(2)), errors.UsageError, ("concatenate", "an array of shape []")),
    "stack": (lambda: gn.stack(np.array(2.0)), errors.UsageError, ("stack",)),
    "Graph": (lambda: gn.Graph(np.array(2)), errors.ValueAccessError, ("array(2)", "not a node")),
    "outputs": (lambda: gn.compile(np.array(2)), errors.ValueAccessError, ("array(2)", "not a node")),
    "inputs": (lambda: gn.compile([x], np.array(2)), errors.ValueAccessError, ("array(2)",)),
    "rop": (lambda: gn.rop(np.array(2), {x: x}), errors.ValueAccessError, ("array(2)",)),
    "wrt": (lambda: gn.gradient(scalar, np.array(2)), errors.ValueAccessError, ("array(2)",)),
    "list of updates": (lambda: gn.compile([x], [x], updates=[(x, x)]), errors.GraphnetError, ("updates", "dict")),
    "array of updates": (lambda: gn.compile([x], [x], updates=np.zeros(2)), errors.GraphnetError, ("updates", "dict")),
    "at": (lambda: gn.with_surrogate(x, lambda z: z, 1.5), errors.UsageError, ("with_surrogate: at", "1.5")),
    "no at": (lambda: gn.with_surrogate(x, lambda z: z, None), errors.UsageError, ("with_surrogate: at",)),
    "value": (lambda: setattr(gn.parameter(np.ones(2, "f4")), "value", np.array([1e300, 0])), errors.DtypeError,
              ("float32", "1e+300")),
}  # fmt: skip


def test_what_only_looks_like_a_list() -> None:
    for name, (call, error, parts) in ODD_ARGUMENTS.items():
        with case(name), message(error, *parts):
            call()


def test_a_shape_may_be_an_array_without_axes() -> None:
    assert gn.input(np.array(2)).shape == (2,)
    assert gn.reshape(gn.input((3, 4)), np.array(12)).shape == (12,)
    assert gn.fill(0.0, np.array(2), "float64").shape == (2,)


def test_an_array_of_a_subclass_cannot_be_updated() -> None:
    class Own(np.ndarray):
        pass

    function = gn.compile([x], [x], updates={x: x * 2.0})
    with message(errors.DtypeError, "(a plain numpy.ndarray)", "not a Own of float64"):
        function(np.ones((2, 3)).view(Own))
