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
s, b = gn.input((2,), name="s"), gn.input((2,), "bool")


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


def test_matmul_mismatch_is_worded_line_by_line() -> None:
    with pytest.raises(gn.ShapeError) as caught:
        x @ W
    first, signature, one, two = str(caught.value).split("\n")
    assert first == "MatMul: axis k is 3 in input 1 but 4 in input 2."
    assert signature.split(None, 1) == ["signature", "n k, k m -> n m"]
    assert re.fullmatch(rf"    input 1 +x\[2, 3\] +made at \S*{x_line}", one)
    assert re.fullmatch(rf"    input 2 +W\[4, 5\] +made at \S*{W_line}", two)
    assert one.index("made at") == two.index("made at")


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


# -- derivatives ------------------------------------------------------------------------------------


def test_cost_must_be_a_scalar() -> None:
    for derive in (gn.gradient, lambda cost, w: gn.hessian_product(cost, {w: np.ones(w.shape)})):
        cost, line = gn.label(x * x, "errors"), here()
        with message(gn.DifferentiationError, "errors[2, 3]", line, "scalar", "gn.mean", "gn.backward"):
            derive(cost, x)


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


function = gn.compile([gn.sum(x) + gn.sum(gn.take(W, index))], [x, index], passes=())
good = np.ones((2, 3)), np.array([0, 1])


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


def test_an_array_of_a_subclass_cannot_be_updated() -> None:
    class Own(np.ndarray):
        pass

    function = gn.compile([x], [x], updates={x: x * 2.0})
    with message(errors.DtypeError, "(a plain numpy.ndarray)", "not a Own of float64"):
        function(np.ones((2, 3)).view(Own))


# -- calls that are refused: the error, and what its message must hold -------------------------------------

ShapeError, DtypeError, ValueAccessError = errors.ShapeError, errors.DtypeError, errors.ValueAccessError
DifferentiationError, BackendError, UsageError = (
    errors.DifferentiationError,
    errors.BackendError,
    errors.UsageError,
)
BY_INTEGERS = ("index[2]", index_line, "int64", "float32")
FILL = ("gn.fill takes one number", "gn.constant", "gn.broadcast_to")
NO_BOOLEANS = ("booleans have no such arithmetic; cast them first",)

REFUSED: list[tuple[Callable[[], Any], type[Exception], tuple[str, ...]]] = [
    # shapes
    (lambda: x + gn.input((4, 3)), ShapeError, ("Add", "[2, 3] and [4, 3]", "broadcast", "x[2, 3]", x_line)),
    (lambda: gn.where(x > 0, W, x), ShapeError, ("Where", "broadcast", "W[4, 5]", W_line)),
    (lambda: x @ gn.input((2, 4, 3)), ShapeError, ("axis k is 3 in input 1 but 4 in input 2", "... n k", x_line)),
    (lambda: x @ scalar, ShapeError, ("scalar", "use *", "x[2, 3]")),
    (lambda: gn.input((2, 3, 4)) @ gn.input((3, 4, 5)), ShapeError,
     ("leading axes do not broadcast", "[2, 3, 4]", "[3, 4, 5]")),
    (lambda: gn.reshape(x, (4, 2)), ShapeError, ("Reshape", "6 elements", "[4, 2]", "8 elements", x_line)),
    (lambda: gn.reshape(x, (4, -1)), ShapeError, ("Reshape", "6 elements", "[4, -1]", x_line)),
    (lambda: gn.reshape(x, (2, -3)), ShapeError, ("whole numbers >= 0", "-3")),
    (lambda: gn.input((2, -3)), ShapeError, ("shape", "whole numbers >= 0", "-3")),
    (lambda: gn.input((2.5,)), ShapeError, ("shape", "whole numbers", "2.5")),
    (lambda: gn.transpose(x, (0, 0)), ShapeError, ("Transpose", "(0, 0)", "x[2, 3]", x_line)),
    (lambda: gn.sum(x, 2), ShapeError, ("Sum", "axis 2", "2 axes")),
    (lambda: gn.sum(x, (0, 0)), ShapeError, ("Sum", "(0, 0)", "twice")),
    (lambda: gn.broadcast_to(x, (3, 2)), ShapeError, ("BroadcastTo", "[2, 3]", "[3, 2]", x_line)),
    (lambda: gn.concatenate([x, W]), ShapeError, ("Concatenate", "input 2 is [4, 5]", "[2, 3]", x_line, W_line)),
    (lambda: gn.concatenate([]), ShapeError, ("Concatenate", "nothing to join", "at least one")),
    (lambda: gn.stack([x, x[0]]), ShapeError, ("Stack", "input 2 is [3]", "[2, 3]", x_line)),
    (lambda: gn.stack([]), ShapeError, ("Stack", "nothing to join")),
    (lambda: x[2], ShapeError, ("index 2", "axis 0", "size 2", x_line)),
    (lambda: x[0, 0, 0], ShapeError, ("2 axes", "3", x_line)),
    (lambda: x[..., ...], ShapeError, ("x[2, 3]", "only one '...'")),
    (lambda: x[::0], ShapeError, ("x[2, 3]", "step cannot be 0")),
    (lambda: gn.max(gn.input((0, 3), name="e")), ShapeError, ("Max: there is no maximum of nothing", "e[0, 3]")),
    (lambda: gn.min(gn.input((0, 3), name="e")), ShapeError, ("Min: there is no minimum of nothing", "e[0, 3]")),
    (lambda: gn.argmax(gn.input((0, 3), name="e"), 0), ShapeError, ("ArgMax", "nothing", "e[0, 3]")),
    (lambda: gn.mean(gn.input((0, 3), name="e")), ShapeError, ("Mean", "no mean of nothing", "e[0, 3]", FILE)),
    (lambda: gn.softmax(gn.input((3, 0), name="e")), ShapeError, ("Softmax", "empty", "e[3, 0]")),
    (lambda: gn.softmax_cross_entropy(gn.input((3, 0)), index[:1]), ShapeError, ("SymbolCrossEntropy",)),
    (lambda: gn.softmax_cross_entropy(scalar, index), ShapeError, ("softmax_cross_entropy", "axis of symbols")),
    (lambda: gn.softmax_cross_entropy(x, gn.input((3,), "int64", name="t")), ShapeError,
     ("SymbolCrossEntropy", "leading axes", "[2]", "[3]", "x[2, 3]", "t[3]", x_line)),
    (lambda: gn.constant([[1.0], [2.0, 3.0]]), ShapeError, ("gn.constant", "not an array")),
    (lambda: len(scalar), ValueAccessError, ("scalar", "no length")),
    (lambda: setattr(W, "value", np.ones((5, 4))), ShapeError, ("W[4, 5]", W_line, "[5, 4]", "[4, 5]")),
    (lambda: type((x * x).op)()(x), ShapeError, ("Multiply takes 2 input(s), not 1",)),
    (gn.add, ShapeError, ("Add needs at least one input",)),
    # dtypes
    (lambda: gn.input((2,), "float16"), DtypeError, ("float16", "float32", "float64")),
    (lambda: gn.constant(np.ones(2, "float16")), DtypeError, ("float16", "astype")),
    (lambda: gn.input((2,), "complex128"), DtypeError, ("complex128", "float64")),
    (lambda: gn.input((2,), "no such thing"), DtypeError, ("'no such thing'", "'float32'")),
    (lambda: gn.input((2,)) + index, DtypeError, ("Add", "int64", "gn.cast", "index[2]", index_line)),
    (lambda: gn.input((2, 2)) @ gn.input((2, 2), "int32"), DtypeError, ("MatMul", "int32", "gn.cast")),
    (lambda: gn.parameter(np.array([1, 2])), DtypeError, ("parameter", "int64", "gn.constant", "astype")),
    (lambda: gn.where(index, 1.0, 2.0), DtypeError, ("Where", "condition is int64", "gn.where(x > 0", index_line)),
    (lambda: gn.take(x, x), DtypeError, ("Take", "float64", "integers", "gn.cast", x_line)),
    (lambda: gn.one_hot(x, 3), DtypeError, ("OneHot", "float64", "integers", x_line)),
    (lambda: gn.concatenate([x, gn.input((2, 3))]), DtypeError, ("Concatenate", "float32", "gn.cast", x_line)),
    (lambda: gn.stack([x, gn.input((2, 3))]), DtypeError, ("Stack", "float32", "float64", "gn.cast")),
    (lambda: gn.softmax_cross_entropy(x, x > 0), DtypeError, ("booleans", "integers", "x[2, 3]")),
    (lambda: x[x > 0], DtypeError, ("x[2, 3][mask]", "fixed", "gn.where", x_line)),
    (lambda: x[True], DtypeError, ("x[2, 3]", "True", "gn.take")),
    (lambda: x["row"], DtypeError, ("x[2, 3]", "'row'", "str", "gn.take")),
    (lambda: x[0, index], DtypeError, ("x[2, 3]", "gn.take")),
    (lambda: gn.fill(10**400, (2,), "float64"), DtypeError, ("float64 cannot hold 1000",)),
    (lambda: x + 10**400, DtypeError, ("float64 cannot hold 1000",)),
    (lambda: gn.input((2,), "int8") ** 200, DtypeError, ("power: the exponent 200 is no int8",)),
    *((lambda n=n: gn.fill(n, (2,), "float32"), ValueAccessError, FILL) for n in ([1], np.ones(2), "a", None, 1j, x)),
    *(
        (lambda n=n, t=t: gn.fill(n, (2,), t), DtypeError, (f"{t} cannot hold {n!r}",))
        for n, t in ((1.5, "int32"), (np.nan, "int32"), (np.inf, "int64"), (2**70, "int64"), (2, "bool"), (-1, "uint8"))
    ),
    *((lambda f=f: f(b), DtypeError, NO_BOOLEANS) for f in (lambda b: b - b, lambda b: -b, lambda b: b % b, gn.sign)),
    # no nodes, no numbers, no lists
    (lambda: x.__setitem__(0, 1.0), ValueAccessError, ("x[2, 3]", "immutable", "gn.where", "gn.concatenate")),
    (lambda: gn.parameter(x), ValueAccessError, ("gn.parameter", "x[2, 3]")),
    (lambda: function(x, good[1]), DtypeError, ("input x[2, 3]", "node", "array")),
    (lambda: gn.gradient(3.0, x), ValueAccessError, ("gradient", "3.0", "node")),
    (lambda: gn.gauss_newton_product(3.0, {x: np.ones((2, 3))}), ValueAccessError, ("gauss_newton_product", "3.0")),
    (lambda: gn.concatenate(np.array(2)), UsageError, ("concatenate", "an array of shape []")),
    (lambda: gn.stack(np.array(2.0)), UsageError, ("stack",)),
    (lambda: gn.Graph(np.array(2)), ValueAccessError, ("array(2)", "not a node")),
    (lambda: gn.compile([x], [x], updates=[(x, x)]), errors.GraphnetError, ("updates", "dict")),
    (lambda: gn.with_surrogate(x, lambda z: z, 1.5), UsageError, ("with_surrogate: at", "1.5")),
    (lambda: setattr(gn.parameter(np.ones(2, "f4")), "value", np.array([1e300, 0])), DtypeError, ("float32", "1e+300")),
    # derivatives
    (lambda: gn.gauss_newton_product(x, {x: np.ones((2, 3))}), DifferentiationError, ("scalar", "[2, 3]", "gn.mean")),
    (lambda: gn.gradient(scalar, [x, index]), DifferentiationError, BY_INTEGERS),
    (lambda: gn.rop([scalar], {index: np.ones(2)}), DifferentiationError, BY_INTEGERS),
    (lambda: gn.backward({index: np.ones(2)}, x), DifferentiationError, BY_INTEGERS),
    (lambda: gn.backward({x: np.ones((3, 2))}, x), ShapeError, ("backward", "x[2, 3]", x_line, "[3, 2]", "[2, 3]")),
    (lambda: gn.rop([scalar], {x: np.ones(3)}), ShapeError, ("rop", "x[2, 3]", x_line, "[3]")),
    (lambda: gn.rop([scalar], {x: gn.input((2, 3))}), DtypeError, ("rop", "x[2, 3]", "float32", "float64", "gn.cast")),
    (lambda: gn.rop([scalar], [x]), ValueAccessError, ("gn.rop", "dict", "list")),
    # compiling and calling
    (lambda: gn.compile([index], [x]), errors.GraphnetError, ("1 Input node(s)", index_line, "inputs=[...]")),
    (lambda: gn.compile([x], [x, x]), errors.GraphnetError, ("x[2, 3]", "twice")),
    (lambda: gn.compile([gn.tanh(W)], [W]), errors.GraphnetError, ("W[4, 5]", W_line, "Parameter", "gn.input")),
    (lambda: gn.compile([np.ones(3)]), ValueAccessError, ("outputs", "ndarray", "node")),
    (lambda: gn.compile([x], [x], backend="abacus"), BackendError, ("'abacus'", "available", "numpy")),
    (lambda: gn.passes.without("polish"), errors.GraphnetError, ("'polish'", "prune", "merge", "fold")),
    *(
        (lambda n=n: gn.compile([x], [x], threads=n), BackendError, ("threads must be a whole number", repr(n)))
        for n in (0, 2.5, "2", True)
    ),
    (lambda: function(good[0]), ShapeError, ("2 array(s)", "x[2, 3], index[2]", "1 were given")),
    (lambda: function(good[0].T, good[1]), ShapeError, ("x[2, 3]", x_line, "[3, 2]")),
    (lambda: function([[1.0], [2.0, 3.0]], good[1]), ShapeError, ("x[2, 3]", "not an array")),
    (lambda: function(good[0], np.ones(2)), DtypeError, (index_line, "int64", "float64", "astype('int64')")),
    (lambda: function(good[0] * 1j, good[1]), DtypeError, ("x[2, 3]", "complex128", "array.real")),
    (lambda: gn.compile([s], [s])(np.ones(2)), DtypeError, ("s[2]", "float32", "float64", "astype('float32')")),
]  # fmt: skip


def test_what_cannot_be_meant_is_refused() -> None:
    for call, error, parts in REFUSED:
        with case(parts), message(error, *parts):
            call()


def test_what_is_meant_is_taken() -> None:
    assert gn.input(np.array(2)).shape == (2,)
    assert gn.reshape(gn.input((3, 4)), np.array(12)).shape == (12,)
    assert gn.fill(0.0, np.array(2), "float64").shape == (2,)
    for number in (True, 3, 2.0, np.float32(2), np.array(3), 2**62):
        (value,) = gn.compile([gn.fill(number, (2,), "int64")], [])()
        assert (value == number).all()
    for backend in ("numba", "numpy"):
        gn.compile([x], [x], backend, threads=np.int64(1))(np.ones((2, 3)))  # type: ignore[arg-type]
