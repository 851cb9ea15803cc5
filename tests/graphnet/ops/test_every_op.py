"""Every op satisfies every law, and no op is missing."""

from __future__ import annotations

import os
from collections.abc import Iterator

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
from tests.graphnet.ops.op_cases import BY_OP, CASES, LEAVES, Case
from tests.tables import case, require_rows

each_op = pytest.mark.parametrize("op", BY_OP)


def subclasses(kind: type[Op]) -> Iterator[type[Op]]:
    for each in kind.__subclasses__():
        if each.__module__.startswith("graphnet."):
            yield each
            yield from subclasses(each)


def test_every_op_has_a_case() -> None:
    """Every op is also in the list of its family and not among the leaves if it has inputs."""
    ops = {op for op in subclasses(Op) if op.__module__.startswith("graphnet.ops")} - {gn.Rowwise}
    missing = {op for op in ops if not any(subclasses(op))} - set(all_ops())
    what = "its name; laws hold what is listed there"
    require_rows(missing, "FAMILIES in graphnet/ops/__init__.py, or the exports of its family", what)
    missing = {op for op in all_ops() if op.__name__ not in LEAVES} - {type(each.op) for each in CASES}
    what = "the op, and arrays that it takes; all laws then run over it"
    require_rows(missing, "CASES in op_cases.py", what)
    for op in all_ops():
        if op.__name__ in LEAVES:
            assert op().infer()[0] == (), op
            said = op().everywhere is not None
            assert not said or np.array_equal(op().forward(), op().everywhere), op


#: Where there is no GPU, tests/conftest.py has one simulated, which takes long.
SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"


@pytest.mark.cuda
@each_op
def test_op_satisfies_the_laws(op: str) -> None:
    for number, each in enumerate(BY_OP[op]):
        with case(each.id), pytest.MonkeyPatch.context() as patch:
            if SIMULATED and number:  # a case of each op is enough; the next test has all
                for name in ("cuda", "cuda-tf32"):
                    patch.delitem(backends.AVAILABLE, name)
            check_op(each.op, *each.arrays, laws=each.laws, narrow=True)


@pytest.mark.slow
def test_simulated_gpu_agrees_in_every_case() -> None:
    for each in CASES:
        with case(each.id):
            laws = [number for number in each.laws if number in (7, 8, 9)]
            check_op(each.op, *each.arrays, laws=laws, narrow=True)


#: The input of which a zero gives no number: x mod 0, beside which x mod y has a jump at every x / n.
NO_NUMBER = {"mod": 1}


def require_derivatives_at_a_zero(each: Case) -> None:
    """They are those beside it, up to the third: a rule that chooses another formula where something is 0 must not lose
    its slope there. Where the two sides differ, there is a kink: what stands there, and all behind it, is the op's own.
    """
    leaves = [gn.input(a.shape, a.dtype) for a in each.arrays]
    floats = [leaf for leaf in leaves if leaf.dtype.kind == "f"]
    nodes, weights = [each.op(*leaves)], np.random.default_rng(0)
    for _ in range(3):
        values = [node for node in nodes[-len(floats) :] if node.dtype.kind == "f"]
        terms = [node * weights.standard_normal(node.shape) for node in values]
        if not terms or not floats:
            return
        nodes += gn.gradient(gn.add(*map(gn.sum, terms)), floats)
    function = gn.compile(nodes, leaves, backend="numpy", passes=())
    for place, (leaf, array) in enumerate(zip(leaves, each.arrays, strict=True)):
        if leaf not in floats or NO_NUMBER.get(each.id) == place:
            continue
        found = []
        for beside in (-1e-6, 0.0, 1e-6):
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


def require_rows_said(each: Case) -> None:
    y, inputs, value = applied(each)
    counts = {x.shape[:1] for x in (y, *y.inputs)}
    if len(counts) > 1 or counts <= {(), (0,), (1,)} or each.id == "concatenate-one" or not y.inputs:
        return
    if y.op.rows(range(1), lambda x, some: x[some.start : some.stop], y, *y.inputs) is None:
        assert depends_on_other_rows(y, inputs, value, 0), (
            f"row i of {y.op.name} reads row i of each input alone: let `row_offset` say 0 (see Op)"
        )


def require_commutes_said(each: Case) -> None:
    y, inputs, value = applied(each)
    if len(inputs) != 2 or not isinstance(y.op, Elementwise) or y.op.commutes:
        return
    with np.errstate(all="ignore"):
        turned = y.op.forward(*inputs[::-1])
    assert not np.allclose(turned, value), f"{y.op.name} commutes: say `commutes = True`"


def applied(each: Case, arrays: tuple[Array, ...] = ()) -> tuple[gn.Node, list[Array], Array]:
    """The case's node, the values of its inputs, and its own; at other arrays than its own."""
    leaves = [gn.input(a.shape, a.dtype) for a in each.arrays]
    y = each.op(*leaves)
    *inputs, value = gn.compile([*y.inputs, y], leaves, backend="numpy", passes=())(*arrays or each.arrays)
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
                    applied(each, arrays)
                continue
            try:
                applied(each, arrays)
            except gn.GraphnetError as error:
                error.add_note("Give the op `index_size`, which says what its indices must be less than.")
                raise


def require_kernel(each: Case) -> None:
    """The kernel as a Python expression on numbers = forward; it reads x of one input, x and y of two."""
    op = each.op
    if not isinstance(op, Elementwise) or isinstance(op, Cast) or len({a.shape for a in each.arrays}) > 1:
        return
    arity = op.arity or 2  # the kernel of a sum is for two terms
    if len(each.arrays) != arity:
        return
    names = set(compile(op.kernel, each.id, "eval").co_names)
    assert names <= {*"xyz", *MATHEMATICS}
    assert names & {*"xyz"} == {*"xyz"[:arity]}
    y = applied(each)[2]
    np.testing.assert_allclose(evaluate_kernel(op.kernel, each.arrays, y), y, rtol=1e-14, atol=1e-15)


@each_op
def test_declared_op_properties_are_true(op: str) -> None:
    for each in BY_OP[op]:
        for check in (
            require_derivatives_at_a_zero, require_rows_said, require_commutes_said, require_index_size, require_kernel,
        ):  # fmt: skip
            with case(each.id, check.__name__):
                check(each)


def test_op_has_a_formula_and_a_symbol() -> None:
    """Equal settings give equal ops, with three exceptions."""
    for op in all_ops():
        with case(op.__name__):
            assert {*"=:~"} & {*op.formula()}, op.formula()
            assert op.__doc__ is not op.__mro__[1].__doc__, "the docstring is inherited, not its own"
            if op.__name__ not in ("Label", "Fill"):  # drawn as a name, or a number
                assert isinstance(op().symbol, str)
                assert op().symbol
            by_identity = op.__name__ in ("Input", "Parameter", "Random")
            assert (op() == op()) is not by_identity
            assert by_identity or hash(op()) == hash(op())


class Cube(Elementwise):
    """y = x³, with a partial that is wrong"""

    kernel = "x * x * x"

    def forward(self, x):
        return x**3

    def partials(self, y, x):
        return [2 * x**2]


class Wide(Cube):
    """y = x³"""

    def partials(self, y, x):
        return [gn.constant(np.array(3.0)) * x**2]


def test_failed_law_names_op_line_and_smallest_input() -> None:
    """The input is shrunk from 2 x 2 and rounded."""
    where = r"(?s)Cube: law 2.*y = x³.*\[\[1\.\]\]   float64\[1, 1\]"
    for op, message, laws in (
        (Cube(), where, None),
        (Cube(), r"(?s)law 1: .*bool\[.*Cube accepts bool: set `domain = 'float'`", (1,)),
        (Wide(), "law 1: Wide.backward returned float64 .* must be float32", None),
    ):
        how = {"laws": laws, "narrow": True} if laws else {}
        with case(message), pytest.raises(LawError, match=message):
            check_op(op, np.array([[1.5, 2.5], [-0.5, 3.5]]), **how)
