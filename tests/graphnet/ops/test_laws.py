"""Every op holds every law, and no op is left out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import graphnet as gn
from graphnet import backends
from graphnet.call.arguments import index_sizes
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Op
from graphnet.ops import all_ops
from graphnet.ops.elementwise import Cast, Elementwise
from graphnet.testing import LawError, check_op
from graphnet.testing.declared import depends_on_other_rows
from graphnet.testing.kernel import MATHEMATICS, evaluate_kernel
from tests.graphnet.ops.op_cases import BY_OP, CASES, LEAVES, Case, covered_ops, ops_with_inputs
from tests.tables import case, require_rows

each_op = pytest.mark.parametrize("op", BY_OP)


def run(op: Callable[..., gn.Node], arrays: tuple[Array, ...]) -> Array:
    """The op's value at the arrays, through nodes and the defining back end, with no pass."""
    leaves = [gn.input(a.shape, a.dtype) for a in arrays]
    return gn.compile([op(*leaves)], leaves, backend="numpy", passes=())(*arrays)[0]


def subclasses(kind: type[Op]) -> Iterator[type[Op]]:
    """Those in graphnet.ops."""
    for each in kind.__subclasses__():
        if each.__module__.startswith("graphnet."):
            yield each
            yield from subclasses(each)


def test_every_op_has_a_case() -> None:
    """And none is left out of its family's list, or hides among the leaves though it takes inputs."""
    ops = {op for op in subclasses(Op) if op.__module__.startswith("graphnet.ops")} - {gn.Rowwise}
    missing = {op for op in ops if not any(subclasses(op))} - set(all_ops())
    require_rows(
        missing, "__all__ of its family in graphnet/ops/", "its name; laws hold what is listed there"
    )
    missing = set(ops_with_inputs()) - covered_ops()
    require_rows(
        missing, "CASES in op_cases.py", "the op, and arrays that it takes; all laws then run over it"
    )
    classes = {op.__name__: op for op in all_ops()}
    for name in LEAVES:
        assert classes[name]().infer()[0] == (), name


#: Where there is no GPU, tests/conftest.py has one simulated, which takes long.
SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"


@pytest.mark.cuda
@each_op
def test_op_holds_the_laws(op: str) -> None:
    for number, each in enumerate(BY_OP[op]):
        with case(each.id), pytest.MonkeyPatch.context() as patch:
            if SIMULATED and number:  # a case of each op is enough; the next test has all
                for name in ("cuda", "cuda-tf32"):
                    patch.delitem(backends.AVAILABLE, name)
            check_op(each.op, *each.arrays, laws=each.laws, narrow=True)


@pytest.mark.slow
def test_a_simulated_gpu_agrees_in_every_case() -> None:
    for each in CASES:
        with case(each.id):
            laws = [number for number in each.laws if number in (7, 8, 9)]
            check_op(each.op, *each.arrays, laws=laws, narrow=True)


# -- what an op says of itself, what it leaves unsaid, and what `check_op` does not try ------------


#: The inputs of which a zero gives no number, whatever is beside it: of each case, by position.
NO_NUMBER: dict[str, int] = {"mod": 1}  # x mod 0, beside which x mod y has a jump at every x / n

#: How far beside a zero the derivatives are compared with those at it.
BESIDE = 1e-6


def require_derivatives_at_a_zero(each: Case) -> None:
    """They are those beside it, up to the third: a rule that chooses another formula where something is 0 must not lose
    its slope there.

    Where the two sides differ, there is a kink: what stands at the zero itself is the op's own choice, and so are the
    higher derivatives by the same number, which do not exist there.
    """
    leaves = [gn.input(a.shape, a.dtype) for a in each.arrays]
    floats = [leaf for leaf in leaves if leaf.dtype.kind == "f"]
    nodes, weights = [each.op(*leaves)], np.random.default_rng(0)
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
    for place, (leaf, array) in enumerate(zip(leaves, each.arrays, strict=True)):
        if leaf not in floats or NO_NUMBER.get(each.id) == place:
            continue
        found = []
        for beside in (-BESIDE, 0.0, BESIDE):
            given = array.copy()
            given.ravel()[::2] = beside
            with np.errstate(all="ignore"):
                found.append(function(*each.arrays[:place], given, *each.arrays[place + 1 :]))
        exists = [np.ones(by.shape, bool) for by in floats]
        for number, (before, at, after) in enumerate(zip(*found, strict=True)):
            smooth = np.isclose(before, after, rtol=1e-3, atol=1e-3) & (np.abs(before) < 1e5)  # no pole
            if number:
                by = (number - 1) % len(floats)
                exists[by] = smooth = smooth & exists[by]
            order = (number + len(floats) - 1) // len(floats)
            told = f"derivative {order} where input {place + 1} is 0 differs from that beside it"
            np.testing.assert_allclose(at[smooth], before[smooth], rtol=1e-3, atol=1e-3, err_msg=told)


#: Ops that would be right to say something, and do not: with the reason.
UNSAID: dict[str, str] = {"concatenate-one": "along the rows, of which it has those of one input by chance"}


def require_rows_said(each: Case) -> None:
    """Unsaid, recomputation keeps the whole of what it could drop a segment of time at a time."""
    y, inputs, value = applied(each)
    counts = {x.shape[:1] for x in (y, *y.inputs)}
    if len(counts) > 1 or counts <= {(), (0,), (1,)} or each.id in UNSAID or not y.inputs:
        return
    if y.op.rows(range(1), lambda x, some: x[some.start : some.stop], y, *y.inputs) is None:
        assert depends_on_other_rows(y, inputs, value, 0), (
            f"row i of {y.op.name} reads row i of each input alone: let `row_offset` say 0 (see Op)"
        )


def require_commutes_said(each: Case) -> None:
    """Unsaid, a picture numbers the edges into it."""
    y, inputs, value = applied(each)
    if len(inputs) != 2 or not isinstance(y.op, Elementwise) or y.op.commutes:
        return
    with np.errstate(all="ignore"):
        turned = y.op.forward(*inputs[::-1])
    assert not np.allclose(turned, value), f"{y.op.name} commutes: say `commutes = True`"


def applied(each: Case) -> tuple[gn.Node, list[Array], Array]:
    """The case's node, the values of its inputs, and its own."""
    leaves = [gn.input(a.shape, a.dtype) for a in each.arrays]
    y = each.op(*leaves)
    *inputs, value = gn.compile([*y.inputs, y], leaves, backend="numpy", passes=())(*each.arrays)
    return y, inputs, value


def require_index_size(each: Case) -> None:
    """An op refuses integers that are out of range if, and only if, its `index_size` says where that begins."""
    leaves = [gn.input(a.shape, a.dtype) for a in each.arrays]
    sizes = index_sizes(Graph([each.op(*leaves)], leaves))
    for place, (leaf, array) in enumerate(zip(leaves, each.arrays, strict=True)):
        if leaf.dtype.kind not in "iu" or not leaf.size:
            continue
        for value in (sizes[leaf] - 1, sizes[leaf]) if leaf in sizes else (100,):
            arrays = (*each.arrays[:place], np.full_like(array, value), *each.arrays[place + 1 :])
            if value == sizes.get(leaf):
                with pytest.raises(gn.GraphnetError, match="out of range"):
                    run(each.op, arrays)
            elif leaf in sizes:
                run(each.op, arrays)
            else:
                try:
                    run(each.op, arrays)
                except gn.GraphnetError as error:
                    remedy = "Give the op `index_size`, which says what its indices must be less than."
                    raise AssertionError(f"{error}\n{remedy}") from error


ASKS_FOR_FLOAT64 = {"cast-float", "one_hot-2d", "one_hot-product"}


def require_float32(each: Case) -> None:
    """Also the derivatives, and the derivatives of the derivatives: nothing widens to float64."""
    if each.id in ASKS_FOR_FLOAT64:
        return
    arrays = [a.astype("float32") if a.dtype.kind == "f" else a for a in each.arrays]
    leaves = [gn.input(a.shape, a.dtype) for a in arrays]
    y = each.op(*leaves)
    floats = [leaf for leaf in leaves if leaf.dtype.kind == "f"]
    assert y.dtype.kind != "f" or y.dtype == np.float32
    if y.dtype.kind != "f" or not floats:
        return
    tangents = {leaf: np.ones(leaf.shape) for leaf in floats}
    nodes = [y, *gn.hessian_product(gn.sum(y * y), tangents), *gn.rop([y], tangents)]
    values = gn.compile(nodes, leaves, backend="numpy")(*arrays)
    assert {v.dtype for v in values} == {np.dtype("float32")}


def require_kernel(each: Case) -> None:
    """The kernel as a Python expression on numbers = forward, element by element; it reads x of one input, x and y of
    two. That of a sum is for two terms; a cast's is x, converted by the output."""
    op = each.op
    if not isinstance(op, Elementwise) or isinstance(op, Cast) or len({a.shape for a in each.arrays}) > 1:
        return
    arity = op.arity or 2
    if len(each.arrays) != arity:
        return
    names = set(compile(op.kernel, each.id, "eval").co_names)
    assert names <= {*"xyz", *MATHEMATICS}
    assert names & {*"xyz"} == {*"xyz"[:arity]}
    y = run(op, each.arrays)
    np.testing.assert_allclose(evaluate_kernel(op.kernel, each.arrays, y), y, rtol=1e-14, atol=1e-15)


@each_op
def test_op_says_what_is_so(op: str) -> None:
    checks = (
        require_derivatives_at_a_zero,
        require_rows_said,
        require_commutes_said,
        require_index_size,
        require_float32,
        require_kernel,
    )
    for each in BY_OP[op]:
        for check in checks:
            with case(each.id, check.__name__):
                check(each)


def test_kernel_and_forward_agree_on_special_numbers() -> None:
    for each in CASES:
        if each.id in ("relu", "sign", "absolute", "tanh", "softplus"):
            for special in (np.nan, np.inf, -np.inf, 0.0):
                expected = run(each.op, (np.array([special]),))[0]
                found = evaluate_kernel(each.op.kernel, [np.array(special)], expected)
                np.testing.assert_equal(found[()], expected, err_msg=each.id)


def test_op_has_a_formula_and_a_symbol() -> None:
    """And equal settings make equal ops, but for the three that are equal to themselves alone."""
    for op in all_ops():
        with case(op.__name__):
            assert {*"=:~"} & {*op.formula()}, op.formula()
            assert op.__doc__ is not op.__mro__[1].__doc__, "the docstring is inherited, not its own"
            if op.__name__ != "Label":  # drawn as its name
                symbol = op().symbol
                assert isinstance(symbol, str)
                assert symbol or op.__name__ == "Fill"  # drawn as its number
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
