"""Accuracy of functions and sums of the numba back end, compared with wider types."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import graphnet as gn
from graphnet.backends.numba import machine
from graphnet.passes.cut import cut
from tests.graphnet.backends.conftest import everywhere
from tests.tables import case

single, double = np.dtype("float32"), np.dtype("float64")
both = pytest.mark.parametrize("dtype", [single, double], ids=str)


def run(build, *arrays, **how):
    leaves = [gn.input(a.shape, a.dtype) for a in arrays]
    (found,) = gn.compile([build(*leaves)], leaves, **how)(*arrays)
    return found


def every_kind_of(dtype):
    """Random bit patterns; both signs of every exponent with three mantissas; small steps; in no whole vectors."""
    generator = np.random.default_rng(0)
    bits = np.dtype(f"uint{8 * dtype.itemsize}")
    info = np.finfo(dtype)
    patterns = generator.integers(0, np.iinfo(bits).max, 20_000, dtype=bits, endpoint=True)
    exponents = np.arange(2**info.nexp, dtype=bits) << bits.type(info.nmant)
    last = bits.type((1 << info.nmant) - 1)
    of_exponents = np.concatenate([exponents, exponents + last // bits.type(3), exponents + last])
    special = [0.0, np.inf, 1.0, info.max, info.tiny, info.smallest_subnormal]
    special += [*(-x for x in special), np.nan, 1 + info.eps, 1 - info.epsneg, np.sqrt(0.5)]
    return np.concatenate(
        [patterns.view(dtype), of_exponents.view(dtype), -of_exponents.view(dtype), np.array(special, dtype),
         np.linspace(-120, 120, 6_007, dtype=dtype), np.linspace(-1.5, 1.5, 6_001, dtype=dtype)]
    )  # fmt: skip


def wide(numbers):
    """float32 as float64, float64 as long double."""
    return numbers.astype(np.float64 if numbers.dtype == single else np.longdouble)


def logistic(x):
    e = np.exp(-abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def softplus(x):
    return np.where(np.isnan(x), x, np.where(x > 0, x, 0) + np.log1p(np.exp(-abs(x))))


def erf(numbers):
    return np.array([math.erf(float(x)) for x in numbers], numbers.dtype)


#: name -> (on nodes, in the wider type)
FUNCTIONS = {
    "ceil": (gn.ceil, np.ceil), "cos": (gn.cos, np.cos), "erf": (gn.erf, erf), "exp": (gn.exp, np.exp),
    "floor": (gn.floor, np.floor), "log": (gn.log, np.log), "round": (gn.round, np.rint),
    "sigmoid": (gn.sigmoid, logistic), "sin": (gn.sin, np.sin), "softplus": (gn.softplus, softplus),
    "sqrt": (gn.sqrt, np.sqrt), "tanh": (gn.tanh, np.tanh),
}  # fmt: skip
# A long double that is no longer than a double is no oracle for it.
has_longer = np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant


def require_near(found, numbers, right, relative: float) -> None:
    """Relative to the right number, or one step of the smallest denormals; NaN and infinities where they are right."""
    info = np.finfo(found.dtype)
    with np.errstate(all="ignore"):
        near = abs(wide(found) - right) <= relative * abs(right) + wide(np.array(info.smallest_subnormal))
        # Next to overflow both the largest number and infinity are near.
        edge = np.minimum(abs(right), abs(found)) >= info.max * (1 - relative)
        near |= edge & (np.sign(found) == np.sign(right))
        same = np.where(np.isnan(right), np.isnan(found), (found == right.astype(found.dtype)) | near)
    at = np.flatnonzero(~same)[:4]
    assert not at.size, f"{(~same).sum()} are wrong, as at {numbers[at]!r}: {found[at]!r}, not {right[at]!r}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_accurate_over_all_numbers(name: str) -> None:
    """Errors are at most 1e-5 in float32 and 1e-13 in float64; NaN and infinities match."""
    function, right = FUNCTIONS[name]
    for dtype in (single, double) if has_longer else (single,):
        numbers = every_kind_of(dtype)
        with np.errstate(all="ignore"):
            expected = right(wide(numbers))
        with case(dtype):
            require_near(run(function, numbers), numbers, expected, 1e-5 if dtype == single else 1e-13)


@both
def test_signs_of_zero(dtype) -> None:
    zeros = np.array([0.0, -0.0], dtype)
    own = (lambda x: x * 2.0, lambda x: x + -0.0, lambda x: gn.maximum(x, x))
    for function in (gn.tanh, gn.erf, gn.floor, gn.ceil, gn.round, gn.sqrt, gn.negative, *own):
        expected = run(function, zeros, backend="numpy", passes=())
        np.testing.assert_array_equal(np.signbit(run(function, zeros)), np.signbit(expected))
    np.testing.assert_array_equal(run(lambda x: 1.0 / x, zeros), [np.inf, -np.inf])
    np.testing.assert_array_equal(run(gn.log, zeros), [-np.inf, -np.inf])


@both
def test_functions_stay_in_range_and_are_monotonic(dtype) -> None:
    """exp, tanh, sigmoid and erf are monotonic up to rounding errors."""
    numbers = np.sort(every_kind_of(dtype))
    numbers = numbers[~np.isnan(numbers)]
    for function, least, most in ((gn.exp, 0, np.inf), (gn.tanh, -1, 1), (gn.sigmoid, 0, 1), (gn.erf, -1, 1)):
        found = run(function, numbers)
        with case(function.__name__), np.errstate(invalid="ignore"):
            assert least <= found.min()
            assert found.max() <= most
            found = found[np.isfinite(numbers)]
            assert not (found[1:] < found[:-1] - 8 * np.finfo(dtype).eps * abs(found[1:])).any()
    # erf is right but for four steps of the type, through all that is not yet 1.
    numbers = np.linspace(-6.5, 6.5, 40_011, dtype=dtype)
    right = erf(numbers.astype(double))
    assert (abs(run(gn.erf, numbers) - right) <= 4 * np.spacing(abs(right.astype(dtype)))).all()


def require_remainders(xs, ys, backend: str) -> None:
    """fmod is exact, so there is one right answer; where it is 0 it has the sign of the divisor."""
    found = run(lambda x, y: x % y, xs, ys, backend=backend)
    with np.errstate(all="ignore"):
        right = np.mod(xs, ys)
    if xs.dtype.kind != "f":
        right = np.array([int(a) % int(b) if b else 0 for a, b in zip(xs, ys, strict=True)], xs.dtype)
    assert found.dtype == xs.dtype
    np.testing.assert_array_equal(found, right)
    known = ~np.isnan(right)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(right[known]))


@everywhere
def test_remainders(backend: str) -> None:
    """Integer remainder by 0 is 0; the smallest integer by -1 is included."""
    for dtype in (single, double) if backend == "numba" else ():
        numbers = every_kind_of(dtype)
        require_remainders(numbers, np.random.default_rng(1).permutation(numbers), backend)
    for dtype in ("float32", "float64", "int8", "int32", "int64", "uint8", "uint64"):
        if dtype[0] == "f":
            each = np.array([6, -6, 0.0, -0.0, 3, -3, np.inf], dtype)
        else:
            info = np.iinfo(dtype)
            numbers = [info.min, info.min + 1, 0, 1, 2, 7, info.max - 1, info.max]
            each = np.array(numbers + [-1, -2, -7] * (info.min < 0), dtype)
        with case(dtype):
            require_remainders(*(a.ravel() for a in np.meshgrid(each, each)), backend)


@both
def test_softmax_and_its_logarithm(dtype) -> None:
    """Logits of 1e-30 to 1e30, ties, logits of minus infinity, and rows of one number."""
    random = np.random.default_rng(1).standard_normal((61, 11)) * 10.0 ** np.linspace(-30, 30, 61)[:, None]
    special = np.zeros((5, 11))
    special[0], special[1, 3], special[3] = 1e4, 1e30, np.linspace(-80, 80, 11)
    special[2, 1:] = special[4, :5] = -np.inf
    logits = np.concatenate([random, special]).astype(dtype)
    with np.errstate(all="ignore"):
        shifted = wide(logits) - wide(logits).max(axis=1, keepdims=True)
        right = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    relative = 1e-5 if dtype == single else 1e-13
    # The differences of logits are rounded; those of 1e30 mean exp(-1e30) = 0 however they are rounded.
    found = run(gn.log_softmax, logits)
    np.testing.assert_allclose(found, right.astype(dtype), rtol=relative, atol=4 * np.finfo(dtype).eps)
    scale = 1 + abs(np.where(np.isfinite(right), right, 0))
    probability = run(gn.softmax, logits)
    assert (abs(probability - np.exp(right)) <= relative * scale * np.exp(right) + np.finfo(dtype).tiny).all()
    np.testing.assert_allclose(probability.sum(axis=1), 1, rtol=20 * np.finfo(dtype).eps)


#: A million numbers of one sign, so that relative accuracy has a meaning, with sizes from 1e-3 to 1e3.
MILLION = (10.0 ** np.random.default_rng(3).uniform(-3, 3, 1_000_003)).astype(single)


def test_long_and_cancelling_sums_are_accurate() -> None:
    """[x, -x, 1]: partial sums would lose the 1 in float32."""
    exact = np.sum(MILLION.astype(np.longdouble))
    for build in (gn.sum, lambda x: gn.sum(gn.sum(gn.reshape(x[:-3], (1000, 1000)), 0)) + gn.sum(x[-3:]),
                  lambda x: gn.mean(x) * MILLION.size):  # fmt: skip
        assert abs(float(run(build, MILLION)) / float(exact) - 1) < 1e-6
    numbers = np.concatenate([MILLION, np.ones(1, single), -MILLION])
    assert abs(float(run(gn.sum, numbers)) - 1) < 1e-3


EPSILON = 2.0**-52
#: Shape, and the axes that are summed. 0.1 a million times over, one after the other, is wrong by 10,000 ε.
LONG = [
    ((1_000_000,), (0,)), ((3, 200_001), (1,)), ((17, 30_000), (1,)), ((200_000, 3), (0,)), ((30_000, 133), (0,)),
    ((400, 700), (0, 1)), ((70, 60, 90), (0, 1)), ((5_000, 3, 5), (0,)), ((3, 5_000, 5), (1,)),
    ((300, 5, 40), (0, 2)), ((3_000, 2), (0, 1)),
]  # fmt: skip

#: The simulator would take minutes for so many terms.
by_host = pytest.mark.parametrize("how", [{"backend": "numpy"}, {"threads": 1}, {"threads": 2}], ids=str)


def worst(found, number: float, count: int) -> float:
    """The largest error of sums of so many equal numbers, in ε of the sum."""
    right = math.fsum(itertools.repeat(number, count))
    return float(abs((found - right) / right).max() / EPSILON)


@by_host
def test_long_sums(how) -> None:
    for (shape, axes), number in itertools.product(LONG, (0.1, 0.7)):
        x = gn.input(shape, "float64")
        nodes = [gn.sum(x, axes), gn.sum(gn.stop_gradient(x) * 1.0, axes)]
        for found in gn.compile(nodes, [x], **how)(np.full(shape, number)):
            assert worst(found, number, math.prod(shape[axis] for axis in axes)) <= 2, (shape, axes, number)
    x = gn.input((30_000, 20), "float64")
    rows, columns = gn.compile([gn.sum(x.T, 1), gn.mean(x.T, 0)], [x], **how)(np.full(x.shape, 0.1))
    assert max(worst(rows, 0.1, 30_000), worst(columns, 0.1 / 20, 20)) <= 2, "what lies the other way"


def test_long_sums_of_small_and_large_numbers() -> None:
    """1 + 1e16 is 1e16 in float64; the rounding errors of chunks are added at the end."""
    numbers = np.zeros(5_000)
    numbers[[0, 1024, 4096]] = 1, 1e16, -1e16
    x, columns = gn.input(numbers.shape, "float64"), gn.input((5_000, 3), "float64")
    total, totals = gn.compile([gn.sum(x), gn.sum(columns, 0)], [x, columns])(
        numbers, numbers[:, None].repeat(3, 1)
    )
    assert (float(total), totals.tolist()) == (1, [1, 1, 1])


@pytest.mark.cuda
def test_long_sums_on_cuda() -> None:
    for shape, axis in (((6_000,), 0), ((2_000, 3), 0), ((3, 2_000), 1)):
        x = gn.input(shape, "float64")
        (found,) = gn.compile(gn.sum(x, axis), [x], backend="cuda")(np.full(shape, 0.1))
        assert worst(found, 0.1, shape[axis]) <= 2, shape


def test_sums_with_any_vector_width(monkeypatch: pytest.MonkeyPatch) -> None:
    here = machine.this_machine()
    x, terms = gn.input((2, 40_003), "float64"), np.full((2, 40_003), 0.1)
    nodes = [gn.sum(x, 1), gn.sum(gn.transpose(x) * 1.0, 0)]
    for width, threads in itertools.product((16, 32, 64), (1, 2)):
        if width <= here.vector_bytes:
            with monkeypatch.context() as patch, case(width, threads):
                patch.setattr(here, "vector_bytes", width)
                for found in gn.compile(nodes, [x], threads=threads)(terms):
                    assert worst(found, 0.1, 40_003) <= 2


@by_host
def test_sums_of_many_nodes_and_within_other_ops(how) -> None:
    for count in (17, 256, 257, 5_000):
        x = gn.input((count, 2), "float64")
        (found,) = gn.compile(gn.add(*(row * 1.0 for row in x)), [x], passes=(), **how)(np.full(x.shape, 0.1))
        assert worst(found, 0.1, count) <= (4 if count < 5_000 else 8), count
    # Of n equal numbers: n, which log and exp round as much as they must.
    x = gn.input((50_000, 3), "float64")
    nodes = [gn.exp(gn.logsumexp(x, 0)), 1 / gn.softmax(x, 0)[0], gn.exp(-gn.log_softmax(x, 0)[0])]
    for found in gn.compile(nodes, [x], **how)(np.full(x.shape, 0.1) - 0.1):
        np.testing.assert_allclose(found, 50_000, rtol=30 * EPSILON)


def test_sums_in_chunks() -> None:
    pieces = [gn.input((2, 3), "float64") for _ in range(2_000)]
    arrays = [np.full((2, 3), 0.1)] * 2_000
    graph = cut(gn.Graph([gn.sum(gn.concatenate(pieces), 0)], pieces), rows=2)
    assert len(graph) > 4_000, "nothing was cut"
    for backend in ("numpy", "numba"):
        (found,) = gn.compile(graph.outputs, pieces, backend=backend, passes=())(*arrays)
        assert worst(found, 0.1, 4_000) <= 8


@everywhere
def test_sums_of_non_finite_numbers_match_ieee(backend: str) -> None:
    x, y = gn.input((700, 3), "float64"), gn.input((3, 700), "float64")
    function = gn.compile([gn.sum(x, 0), gn.sum(gn.transpose(x), 1), gn.sum(y, 1)], [x, y], backend=backend)
    for first, last, expected in (
        (np.inf, 1.0, np.inf), (-np.inf, 1.0, -np.inf), (np.inf, -np.inf, np.nan), (np.nan, 1.0, np.nan),
        (1e308, 1e308, np.inf), (-1e308, -1e308, -np.inf),
    ):  # fmt: skip
        terms = np.ones((700, 3))
        terms[0], terms[600] = first, last
        for found in function(terms, terms.T.copy()):
            np.testing.assert_array_equal(found, np.full(3, expected), err_msg=f"{first}, {last}")
