"""Every op holds every law, and no op is left out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import graphnet as gn
from graphnet.call.arguments import index_sizes
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Op
from graphnet.ops import all_ops
from graphnet.ops.elementwise import Cast, Elementwise
from graphnet.testing import LawError, check_op
from graphnet.testing.declared import depends_on_other_rows
from graphnet.testing.kernel import MATHEMATICS, evaluate_kernel
from tests.graphnet.ops.op_cases import CASES, LEAVES, Case, covered_ops, ops_with_inputs
from tests.tables import require_rows

by_id = pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
by_op = pytest.mark.parametrize("op", list(all_ops()), ids=lambda op: op.__name__)


def run(op: Callable[..., gn.Node], arrays: tuple[Array, ...]) -> Array:
    """The op's value at the arrays, through nodes and the defining back end, with no pass."""
    leaves = [gn.input(a.shape, a.dtype) for a in arrays]
    return gn.compile([op(*leaves)], leaves, backend="numpy", passes=())(*arrays)[0]


# -- the table ----------------------------------------------------------------------------------


def test_every_op_has_a_case() -> None:
    missing = set(ops_with_inputs()) - covered_ops()
    require_rows(
        missing, "CASES in op_cases.py", "the op, and arrays that it takes; all laws then run over it"
    )


def test_leaves_are_leaves_with_a_reason() -> None:
    """An op that takes inputs cannot hide among the leaves, and the list names no op that is gone."""
    classes = {op.__name__: op for op in all_ops()}
    assert set(LEAVES) <= set(classes)
    for name, reason in LEAVES.items():
        assert classes[name]().infer()[0] == (), name
        assert reason


def test_ids_are_unique() -> None:
    assert len({case.id for case in CASES}) == len(CASES)


# -- the laws -----------------------------------------------------------------------------------


@pytest.mark.cuda
@by_id
def test_op_holds_the_laws(case: Case) -> None:
    check_op(case.op, *case.arrays, laws=case.laws, narrow=True)


#: The inputs of which a zero gives no number, whatever is beside it: of each case, by position.
NO_NUMBER: dict[str, int] = {"mod": 1}  # x mod 0, beside which x mod y has a jump at every x / n

#: How far beside a zero the derivatives are compared with those at it.
BESIDE = 1e-6


@by_id
def test_derivatives_at_a_zero_are_those_beside_it(case: Case) -> None:
    """Up to the third: a rule that chooses another formula where something is 0 must not lose its slope there.

    Where the two sides differ, there is a kink, and what stands at the zero itself is the op's own choice.
    """
    leaves = [gn.input(a.shape, a.dtype) for a in case.arrays]
    floats = [leaf for leaf in leaves if leaf.dtype.kind == "f"]
    nodes, weights = [case.op(*leaves)], np.random.default_rng(0)
    for _ in range(3):
        terms = [
            node * weights.standard_normal(node.shape)
            for node in nodes[-len(floats) :]
            if node.dtype.kind == "f"
        ]
        if not terms or not floats:
            return
        nodes += gn.gradient(gn.add(*map(gn.sum, terms)), floats)
    function = gn.compile(nodes, leaves, backend="numpy", passes=())
    for place, (leaf, array) in enumerate(zip(leaves, case.arrays, strict=True)):
        if leaf not in floats or NO_NUMBER.get(case.id) == place:
            continue
        found = []
        for beside in (-BESIDE, 0.0, BESIDE):
            given = array.copy()
            given.ravel()[::2] = beside
            with np.errstate(all="ignore"):
                found.append(function(*case.arrays[:place], given, *case.arrays[place + 1 :]))
        for before, at, after in zip(*found, strict=True):
            smooth = np.isclose(before, after, rtol=1e-3, atol=1e-3) & (np.abs(before) < 1e5)  # no pole
            np.testing.assert_allclose(at[smooth], before[smooth], rtol=1e-3, atol=1e-3)


# -- what an op says of itself, and what it leaves unsaid ------------------------------------------

#: Ops that would be right to say something, and do not: with the reason.
UNSAID: dict[str, str] = {"concatenate-one": "along the rows, of which it has those of one input by chance"}


@by_id
def test_rows_that_depend_on_no_others_are_said(case: Case) -> None:
    """Unsaid, recomputation keeps the whole of what it could drop a segment of time at a time."""
    y, inputs, value = applied(case)
    counts = {x.shape[:1] for x in (y, *y.inputs)}
    if len(counts) > 1 or counts <= {(), (0,), (1,)} or case.id in UNSAID or not y.inputs:
        return
    if y.op.rows(range(1), lambda x, some: x[some.start : some.stop], y, *y.inputs) is None:
        assert depends_on_other_rows(y, inputs, value, 0), (
            f"row i of {y.op.name} reads row i of each input alone: let `row_offset` say 0 (see Op)"
        )


@by_id
def test_inputs_that_may_change_places_are_said(case: Case) -> None:
    """Unsaid, a picture numbers the edges into it."""
    y, inputs, value = applied(case)
    if len(inputs) != 2 or not isinstance(y.op, Elementwise) or y.op.commutes:
        return
    with np.errstate(all="ignore"):
        turned = y.op.forward(*inputs[::-1])
    assert not np.allclose(turned, value), f"{y.op.name} commutes: say `commutes = True`"


def applied(case: Case) -> tuple[gn.Node, list[Array], Array]:
    """The case's node, the values of its inputs, and its own."""
    leaves = [gn.input(a.shape, a.dtype) for a in case.arrays]
    y = case.op(*leaves)
    *inputs, value = gn.compile([*y.inputs, y], leaves, backend="numpy", passes=())(*case.arrays)
    return y, inputs, value


INDEXED = [case for case in CASES if any(a.dtype.kind in "iu" and a.size for a in case.arrays)]


@pytest.mark.parametrize("case", INDEXED, ids=[case.id for case in INDEXED])
def test_what_indices_must_be_less_than_is_declared(case: Case) -> None:
    """An op refuses integers that are out of range if, and only if, its `index_size` says where that begins."""
    leaves = [gn.input(a.shape, a.dtype) for a in case.arrays]
    sizes = index_sizes(Graph([case.op(*leaves)], leaves))
    for place, (leaf, array) in enumerate(zip(leaves, case.arrays, strict=True)):
        if leaf.dtype.kind not in "iu" or not leaf.size:
            continue
        for value in (sizes[leaf] - 1, sizes[leaf]) if leaf in sizes else (100,):
            arrays = (*case.arrays[:place], np.full_like(array, value), *case.arrays[place + 1 :])
            if value == sizes.get(leaf):
                with pytest.raises(gn.GraphnetError, match="out of range"):
                    run(case.op, arrays)
            elif leaf in sizes:
                run(case.op, arrays)
            else:
                try:
                    run(case.op, arrays)
                except gn.GraphnetError as error:
                    pytest.fail(
                        f"{error}\nGive the op `index_size`, which says what its indices must be less than."
                    )


ASKS_FOR_FLOAT64 = {"cast-float", "one_hot-2d", "one_hot-product"}
OTHERS = [case for case in CASES if case.id not in ASKS_FOR_FLOAT64]


@pytest.mark.parametrize("case", OTHERS, ids=[case.id for case in OTHERS])
def test_float32_stays_float32(case: Case) -> None:
    """Also the derivatives, and the derivatives of the derivatives: nothing widens to float64."""
    arrays = [a.astype("float32") if a.dtype.kind == "f" else a for a in case.arrays]
    leaves = [gn.input(a.shape, a.dtype) for a in arrays]
    y = case.op(*leaves)
    floats = [leaf for leaf in leaves if leaf.dtype.kind == "f"]
    assert y.dtype.kind != "f" or y.dtype == np.float32
    if y.dtype.kind != "f" or not floats:
        return
    tangents = {leaf: np.ones(leaf.shape) for leaf in floats}
    nodes = [y, *gn.hessian_product(gn.sum(y * y), tangents), *gn.rop([y], tangents)]
    values = gn.compile(nodes, leaves, backend="numpy")(*arrays)
    assert {v.dtype for v in values} == {np.dtype("float32")}


# -- kernels: the one scalar expression of which compiled back ends are made -------------------------

#: The kernel of a sum is for two terms without broadcasts; a cast's is x, converted by the output.
NOT_A_KERNEL = {"add-1", "add-3", "add-broadcast", "cast-float", "cast-to-integer", "cast-from-bool"}
ELEMENTWISE = [c for c in CASES if isinstance(c.op, Elementwise) and c.id not in NOT_A_KERNEL]


@pytest.mark.parametrize("case", ELEMENTWISE, ids=[case.id for case in ELEMENTWISE])
def test_kernel_is_forward(case: Case) -> None:
    """The kernel as a Python expression on numbers = forward, element by element."""
    code = compile(case.op.kernel, case.id, "eval")
    assert set(code.co_names) <= {*"xyz", *MATHEMATICS}
    y = run(case.op, case.arrays)
    np.testing.assert_allclose(evaluate_kernel(case.op.kernel, case.arrays, y), y, rtol=1e-14, atol=1e-15)


def test_every_elementwise_op_has_a_tested_kernel() -> None:
    classes = {op for op in all_ops() if issubclass(op, Elementwise)}
    tested = {type(case.op) for case in ELEMENTWISE}
    require_rows(classes - tested - {Cast}, "CASES in op_cases.py", "the op, and arrays that it takes")


@pytest.mark.parametrize("name", ["x", "y", "z"])
@pytest.mark.parametrize("case", ELEMENTWISE, ids=[case.id for case in ELEMENTWISE])
def test_kernel_reads_each_input(case: Case, name: str) -> None:
    """x for one input; x, y for two; x, y, z for three: no other names."""
    names = set(compile(case.op.kernel, case.id, "eval").co_names)
    arity = case.op.arity or 2
    assert (name in names) == ("xyz".index(name) < arity)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 0.0])
@pytest.mark.parametrize("name", ["relu", "sign", "absolute", "tanh", "softplus"])
def test_kernel_and_forward_agree_on_special_numbers(name: str, special: float) -> None:
    op = next(case.op for case in CASES if case.id == name)
    expected = run(op, (np.array([special]),))[0]
    found = evaluate_kernel(op.kernel, [np.array(special)], expected)
    np.testing.assert_equal(found[()], expected)


# -- what a reader sees ---------------------------------------------------------------------------


@by_op
def test_op_has_a_formula_and_a_symbol(op: type[Op]) -> None:
    assert "=" in op.formula() or ":" in op.formula() or "~" in op.formula(), op.formula()
    assert op.__doc__ is not op.__mro__[1].__doc__, "the docstring is inherited, not its own"
    if op.__name__ != "Label":  # drawn as its name
        symbol = op().symbol
        assert isinstance(symbol, str)
        assert symbol or op.__name__ == "Fill"  # drawn as its number


@by_op
def test_equal_settings_make_equal_ops(op: type[Op]) -> None:
    """But for the three that are equal to themselves alone."""
    by_identity = op.__name__ in ("Input", "Parameter", "Random")
    assert (op() == op()) is not by_identity
    assert by_identity or hash(op()) == hash(op())


# -- the testing kit itself -------------------------------------------------------------------------


class Cube(Elementwise):
    """y = x³, with a partial that is wrong"""

    kernel = "x * x * x"

    def forward(self, *arrays: Array) -> Array:
        return arrays[0] ** 3

    def partials(self, y: gn.Node, *inputs: gn.Node) -> list[gn.Node]:
        return [2 * inputs[0] ** 2]


def test_a_failure_names_law_op_place_and_smallest_input() -> None:
    with pytest.raises(LawError) as caught:
        check_op(Cube(), np.array([[1.5, 2.5], [-0.5, 3.5]]))
    message = str(caught.value)
    for part in ("Cube: law 2", "finite difference", "found", "expected", "y = x³", "test_laws.py:"):
        assert part in message
    assert "[[1.]]   float64[1, 1]" in message  # shrunk from 2 x 2 and rounded


def test_a_user_op_is_checked_in_one_line() -> None:
    class RightCube(Cube):
        """y = x³"""

        def partials(self, y: gn.Node, *inputs: gn.Node) -> list[gn.Node]:
            return [3 * inputs[0] ** 2]

    check_op(RightCube(), np.array([[1.5, 2.5], [-0.5, 3.5]]))


def test_what_is_made_of_booleans_is_what_was_inferred() -> None:
    with pytest.raises(LawError, match=r"(?s)law 1: .*bool\[.*Cube takes bool: say `domain = 'float'`"):
        check_op(Cube(), np.array([1.5]), laws=(1,), narrow=True)


def test_a_derivative_that_widens_is_caught() -> None:
    class Widening(Cube):
        """y = x³"""

        def partials(self, y: gn.Node, *inputs: gn.Node) -> list[gn.Node]:
            return [gn.constant(np.array(3.0)) * inputs[0] ** 2]

    with pytest.raises(LawError, match=r"backward gave float64 for .* which is float32"):
        check_op(Widening(), np.array([1.5, 2.5]))
