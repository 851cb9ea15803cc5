"""gn.einsum against NumPy's, over a table and over subscripts drawn at random; what it is made of; its errors."""

from __future__ import annotations

import string
from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet import passes
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node
from graphnet.ops.linear import BatchMatMul, MatMul
from graphnet.plan.instructions import Host
from graphnet.plan.lowering import lower
from tests.tables import case

#: How long the axis of each letter is.
SIZES = dict(zip(string.ascii_letters, [2, 3, 4, 5, 2, 3, 1, 4] * 7, strict=False))

#: Letters alone: shapes follow from them.
LETTERS = [
    "a->a", "a->", "a", "ab->ba", "ab->a", "ba", "ab->", "abc->cab", "abc->b",  # one operand
    "aa->a", "aa->", "aa", "aab->ab", "aba->ba", "baa->b", "abab->ab", "aaa->a", "abcab->c",  # diagonals
    "a,a->a", "a,a->", "a,b->ab", "a,b->ba", "a,b->", "ab,b->a", "ab,a->b", "ab,b->ab", "a,ab->b",  # two
    "ab,bc->ac", "ab,bc->ca", "ba,bc->ac", "ab,cb->ac", "ab,bc", "ab,ab->", "ab,ba->", "ab,ab->ab", "abc,bcd->ad",
    "abc,cd->abd", "abc,abd->acd", "abc,acd->abd", "abc,ac->ab", "abc,bad->dcab", "abc,abc->b", "aab,bcc->ac",
    ",->", ",ab->ba", "a,->a",  # numbers
    "ab,bc,cd->ad", "ab,cd,ef->af", "a,a,a->a", "ab,bc,ca->", "abc,bd,ce->ade", "a,b,c->cab", ",a,a->",  # several
    "ab,bc,cd,de->ae", "ab,ac,ad,ae->bcde", "ab,bc,cd,de,ef,fh->ah",
    "ag,gb->ab", "ag,bg->ab", "g,g->", "gg->",  # axes of size 1
]  # fmt: skip

#: With shapes of their own: an ellipsis, sizes of 1 that are repeated, sizes of 0.
SHAPES: list[tuple[str, list[tuple[int, ...]]]] = [
    ("...", [(2, 3)]), ("...->...", [()]), ("i...", [(2, 3)]), ("...i->i...", [(2, 3, 4)]),
    ("...ii->...i", [(2, 3, 3)]),
    ("i...i->...", [(3, 2, 3)]), ("...i,...i", [(2, 1, 3), (4, 3)]), ("...ij,...jk->...ik", [(5, 1, 2, 3), (4, 3, 2)]),
    ("...ij,jk", [(2, 3, 4), (4, 5)]), ("i...,j...->ij...", [(2, 4), (3, 5, 4)]), ("...,...", [(3,), (2, 1)]),
    ("a...,...->a...", [(2, 3), ()]), ("...a,b...,ab->...", [(3, 2), (4, 3), (2, 4)]), ("i->...i", [(3,)]),
    ("ij,ij->ij", [(1, 3), (2, 3)]), ("ij,jk->ik", [(2, 1), (3, 4)]), ("ii,i->i", [(1, 1), (4,)]),
    ("ij,jk->ik", [(2, 0), (0, 3)]), ("ij,jk->ik", [(0, 2), (2, 3)]), ("ii->i", [(0, 0)]),
    ("ij,jk,kl->il", [(2, 0), (0, 3), (3, 0)]),
    (" i j , j k -> i k ", [(2, 3), (3, 4)]),
]  # fmt: skip


def shapes_of(subscripts: str) -> list[tuple[int, ...]]:
    return [tuple(SIZES[letter] for letter in term) for term in subscripts.partition("->")[0].split(",")]


TABLE = [*((subscripts, shapes_of(subscripts)) for subscripts in LETTERS), *SHAPES]


def applied(subscripts: str, arrays: list[Array]) -> tuple[Node, list[Node]]:
    leaves = [gn.input(a.shape, a.dtype) for a in arrays]
    return gn.einsum(subscripts, *leaves), leaves


def require_numpys(subscripts: str, arrays: list[Array], backend: str) -> None:
    y, leaves = applied(subscripts, arrays)
    (found,) = gn.compile([y], leaves, backend=backend)(*arrays)
    right = np.asarray(np.einsum(subscripts, *arrays))
    assert (found.shape, found.dtype) == (right.shape, right.dtype) == (y.shape, y.dtype)
    rtol = 1e-5 if right.dtype == "float32" else 1e-12
    np.testing.assert_allclose(found, right, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("backend", ["numpy", "numba", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_the_table(backend: str) -> None:
    for subscripts, shapes in TABLE:
        random = np.random.default_rng(len(subscripts))
        with case(subscripts, shapes):
            require_numpys(subscripts, [random.standard_normal(shape) for shape in shapes], backend)


def test_no_row_needs_python() -> None:
    """Nor its gradient: so functions of it can be stored, and run on a GPU."""
    for subscripts, shapes in TABLE:
        y, leaves = applied(subscripts, [np.zeros(shape) for shape in shapes])
        graph, _ = passes.optimize(Graph([y, *gn.gradient(gn.sum(y * y), leaves)], leaves))
        assert not any(isinstance(step, Host) for step in lower(graph).instructions), subscripts


def drawn(random: np.random.Generator) -> tuple[str, list[tuple[int, ...]]]:
    """Letters that repeat, axes of size 1, an ellipsis of up to two axes, a result or none."""
    letters, sizes = "abcde", dict(zip("abcde", random.integers(1, 5, 5).tolist(), strict=True))
    behind = tuple(random.integers(1, 4, 2).tolist()) if random.random() < 0.4 else None
    terms, shapes = [], []
    for _ in range(random.integers(1, 5)):
        term = "".join(random.choice(list(letters), random.integers(0, 4)))
        once = random.random() < 0.2 and len(set(term)) == len(term)  # one of its axes is repeated
        shape = [sizes[letter] for letter in term]
        if once and shape:
            shape[random.integers(len(shape))] = 1
        if behind is not None:
            at, kept = random.integers(len(term) + 1), random.integers(3)
            shape[at:at] = [1 if random.random() < 0.3 else n for n in behind[2 - kept :]]
            term = f"{term[:at]}...{term[at:]}"
        terms.append(term)
        shapes.append(tuple(shape))
    subscripts = ",".join(terms)
    used = sorted({letter for letter in subscripts if letter in letters})
    if random.random() < 0.7:
        result = "".join(random.permutation(used)[: random.integers(len(used) + 1)]) if used else ""
        subscripts += f"->{'...' if behind is not None else ''}{result}"
    return subscripts, shapes


def test_what_is_drawn_at_random() -> None:
    for seed in range(120):
        random = np.random.default_rng(seed)
        subscripts, shapes = drawn(random)
        arrays = [random.integers(-3, 4, shape).astype(float) for shape in shapes]  # sums of which are exact
        with case(seed, subscripts, shapes):
            require_numpys(subscripts, arrays, "numba" if seed < 20 else "numpy")


def test_dtypes_are_kept() -> None:
    """Also where integers wrap; of booleans, whether any is true."""
    for dtype in ("float32", "int8", "int64", "uint16", "bool"):
        for subscripts in ("ab,bc->ac", "ab->a", "ab,ab->", "aa->a", "bac,bcd->bad", "a,b->ab"):
            random = np.random.default_rng(0)
            below = 2 if dtype == "bool" else 60
            arrays = [random.integers(0, below, s).astype(dtype) for s in shapes_of(subscripts)]
            for backend in ("numpy", "numba"):
                with case(dtype, subscripts, backend):
                    require_numpys(subscripts, arrays, backend)


# -- what it is made of -----------------------------------------------------------------------------------


def products_of(y: Node, leaves: list[Node]) -> list[tuple[int, ...]]:
    """(rows, inner, columns) of each matrix product."""
    return [
        (*node.inputs[0].shape[-2:], node.shape[-1])
        for node in Graph([y], leaves).order
        if isinstance(node.op, (MatMul, BatchMatMul))
    ]


def test_a_product_of_matrices_is_one() -> None:
    y, leaves = applied("bij,bjk->bik", [np.zeros((6, 2, 3)), np.zeros((6, 3, 4))])
    assert products_of(y, leaves) == [(2, 3, 4)]
    y, leaves = applied("abc,cd->abd", [np.zeros((2, 3, 4)), np.zeros((4, 5))])
    assert products_of(y, leaves) == [(6, 4, 5)]


def test_the_cheapest_order_is_chosen() -> None:
    for shapes, products in (
        ([(2, 100), (100, 100), (100, 3)], [(2, 100, 3), (2, 100, 100)]),
        ([(100, 100), (100, 100), (100, 1)], [(100, 100, 1), (100, 100, 1)]),
    ):
        y, leaves = applied("ij,jk,kl->il", [np.zeros(shape) for shape in shapes])
        assert sorted(products_of(y, leaves)) == products


def test_what_changes_nothing_is_the_operand_itself() -> None:
    x = gn.input((2, 3))
    assert gn.einsum("ij->ij", x) is x


# -- errors -------------------------------------------------------------------------------------------------


ERRORS: list[tuple[str, list[Any], str]] = [
    ("ij,jk->ik", [(2, 3), (4, 5)], r"'j' is 4 in operand 2, but 3 before"),
    ("ij->ji", [(2,)], r"operand 1 has 1 axes, but 'ij' names 2"),
    ("ij->ji", [(2, 3, 4)], r"operand 1 has 3 axes, but 'ij' names 2"),
    ("i...j", [(2,)], r"operand 1 has 1 axes, but 'i...j' names 2"),
    ("ij,jk", [(2, 3)], r"there are 2 operands in it, but 1 are given"),
    ("ij->ijk", [(2, 3)], r"'k' of the result is in no operand"),
    ("ij->ii", [(2, 3)], r"'i' stands twice in the result"),
    ("ii->i", [(2, 3)], r"the axes 'i' of operand 1 have different sizes"),
    ("i.j", [(2, 3)], r"'i.j' is none of letters and one '...'"),
    ("......", [(2, 3)], r"is none of letters"),
    ("ij>ji", [(2, 3)], r"'ij>ji' is none of letters"),
    ("ij->j->i", [(2, 3)], r"'j->i' is none of letters"),
    ("...i->i", [(2, 3)], r"'...' stands for 1 axes, which the result must have as well: write '->...i'"),
    ("...i,...i", [(2, 3), (4, 3)], r"is 4 in operand 2, but 2 before"),
]


def test_errors_name_the_operand_and_the_shapes() -> None:
    for subscripts, shapes, words in ERRORS:
        leaves = [gn.input(shape, name=f"x{i}") for i, shape in enumerate(shapes, start=1)]
        with pytest.raises(gn.ShapeError) as caught:
            gn.einsum(subscripts, *leaves)
        message = str(caught.value)
        names = [leaf.describe() for leaf in leaves]
        for part in (words, f"einsum: {subscripts!r}", *names, "test_einsum.py:"):
            assert part in message


def test_what_are_no_subscripts() -> None:
    with pytest.raises(gn.UsageError, match="einsum: subscripts must be a str"):
        gn.einsum(gn.input((2, 3)), "ij")  # type: ignore[arg-type]
    with pytest.raises(gn.ShapeError, match="there are 1 operands in it, but 0 are given"):
        gn.einsum("")
