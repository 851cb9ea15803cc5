"""Functions of the numba back end against NumPy in a wider type, over all numbers that there are."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet.graph.node import Array, Node
from tests.tables import case

single, double = np.dtype("float32"), np.dtype("float64")
both = pytest.mark.parametrize("dtype", [single, double], ids=str)


def run(build: Callable[[Node], Any], numbers: Array, **how: Any) -> Array:
    x = gn.input(numbers.shape, numbers.dtype)
    (found,) = gn.compile([build(x)], [x], backend="numba", **how)(numbers)
    return found


def every_kind_of(dtype: Any) -> Array:
    """Random bit patterns; both signs of every exponent with three mantissas; small steps around 0; the rest.

    Their number leaves a rest that is no whole vector.
    """
    generator = np.random.default_rng(0)
    bits = np.dtype(f"uint{8 * dtype.itemsize}")
    info = np.finfo(dtype)
    patterns = generator.integers(0, np.iinfo(bits).max, 20_000, dtype=bits, endpoint=True)
    exponents = np.arange(2**info.nexp, dtype=bits) << bits.type(info.nmant)
    last = bits.type((1 << info.nmant) - 1)
    of_exponents = np.concatenate([exponents, exponents + last // bits.type(3), exponents + last])
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, info.max, info.min, info.tiny, -info.tiny]
    special += [
        info.smallest_subnormal,
        -info.smallest_subnormal,
        1 + info.eps,
        1 - info.epsneg,
        np.sqrt(0.5),
    ]
    return np.concatenate(
        [patterns.view(dtype), of_exponents.view(dtype), -of_exponents.view(dtype), np.array(special, dtype),
         np.linspace(-120, 120, 6_007, dtype=dtype), np.linspace(-1.5, 1.5, 6_001, dtype=dtype)]
    )  # fmt: skip


def wide(numbers: Array) -> Array:
    """float32 as float64, float64 as long double."""
    return numbers.astype(np.float64 if numbers.dtype == single else np.longdouble)


def logistic(x: Array) -> Array:
    e = np.exp(-abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def softplus(x: Array) -> Array:
    return np.where(np.isnan(x), x, np.where(x > 0, x, 0) + np.log1p(np.exp(-abs(x))))


def in_place(numbers: Array, function: Callable[[float], float]) -> Array:
    return np.array([function(float(x)) for x in numbers], numbers.dtype)


#: name -> (on nodes, in the wider type)
FUNCTIONS: dict[str, tuple[Callable[[Node], Node], Callable[[Array], Array]]] = {
    "ceil": (gn.ceil, np.ceil),
    "cos": (gn.cos, np.cos),
    "erf": (gn.erf, lambda x: in_place(x, math.erf)),
    "exp": (gn.exp, np.exp),
    "floor": (gn.floor, np.floor),
    "log": (gn.log, np.log),
    "round": (gn.round, np.rint),
    "sigmoid": (gn.sigmoid, logistic),
    "sin": (gn.sin, np.sin),
    "softplus": (gn.softplus, softplus),
    "sqrt": (gn.sqrt, np.sqrt),
    "tanh": (gn.tanh, np.tanh),
}

# A long double that is no longer than a double is no oracle for it.
has_longer = np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant


def require_near(found: Array, numbers: Array, right: Array, relative: float) -> None:
    """Relative to the right number, or one step of the smallest denormals; NaN and infinities where they are right."""
    with np.errstate(all="ignore"):
        nearest = right.astype(found.dtype)
        step = np.finfo(found.dtype).smallest_subnormal
        near = abs(wide(found) - right) <= relative * abs(right) + wide(np.array(step))
        # Next to overflow both the largest number and infinity are near.
        edge = abs(right) >= np.finfo(found.dtype).max * (1 - relative)
        near |= (
            edge
            & (abs(found) >= np.finfo(found.dtype).max * (1 - relative))
            & (np.sign(found) == np.sign(right))
        )
    same = np.where(np.isnan(right), np.isnan(found), (found == nearest) | near)
    at = np.flatnonzero(~same)
    assert not at.size, (
        f"{at.size} of {same.size} are wrong, as at {numbers[at[:4]]!r}: {found[at[:4]]!r}, not {right[at[:4]]!r}"
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_hold_over_all_numbers(name: str) -> None:
    """1e-5 in float32, 1e-13 in float64; NaN for NaN, and infinities where they are right."""
    function, right = FUNCTIONS[name]
    for dtype in (single, double) if has_longer else (single,):
        numbers = every_kind_of(dtype)
        with np.errstate(all="ignore"):
            expected = right(wide(numbers))
        with case(dtype):
            require_near(run(function, numbers), numbers, expected, 1e-5 if dtype == single else 1e-13)


@both
def test_signs_of_zero(dtype: Any) -> None:
    zeros = np.array([0.0, -0.0], dtype)
    own = (lambda x: x * 2.0, lambda x: x + -0.0, lambda x: gn.maximum(x, x))
    for function in (gn.tanh, gn.erf, gn.floor, gn.ceil, gn.round, gn.sqrt, gn.negative, *own):
        x = gn.input((2,), dtype)
        (expected,) = gn.compile([function(x)], [x], backend="numpy", passes=())(zeros)
        found = run(function, zeros)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
    np.testing.assert_array_equal(run(lambda x: 1.0 / x, zeros), [np.inf, -np.inf])
    np.testing.assert_array_equal(run(gn.log, zeros), [-np.inf, -np.inf])


@both
def test_functions_that_grow_do_not_step_back(dtype: Any) -> None:
    """exp, tanh, sigmoid and erf of rising numbers rise, but for their last digits."""
    numbers = np.sort(every_kind_of(dtype))
    numbers = numbers[np.isfinite(numbers)]
    for function in (gn.exp, gn.tanh, gn.sigmoid, gn.erf):
        found = run(function, numbers)
        slack = 8 * np.finfo(dtype).eps * abs(found[1:])
        with np.errstate(invalid="ignore"):
            assert not (found[1:] < found[:-1] - slack).any()


def test_ranges() -> None:
    """tanh and erf never leave [-1, 1], sigmoid never [0, 1], exp is never negative."""
    for dtype in (single, double):
        numbers = every_kind_of(dtype)
        numbers = numbers[~np.isnan(numbers)]
        assert (abs(run(gn.tanh, numbers)) <= 1).all()
        assert (abs(run(gn.erf, numbers)) <= 1).all()
        sigmoid = run(gn.sigmoid, numbers)
        assert ((sigmoid >= 0) & (sigmoid <= 1)).all()
        assert (run(gn.exp, numbers) >= 0).all()


@both
def test_erf_is_right_but_for_its_last_digits(dtype: Any) -> None:
    """Four steps of the type, through all that is not yet 1; the oracle is the system's own, by Python."""
    numbers = np.linspace(-6.5, 6.5, 40_011, dtype=dtype)
    right = in_place(numbers.astype(double), math.erf)
    assert (abs(run(gn.erf, numbers) - right) <= 4 * np.spacing(abs(right.astype(dtype)))).all()


@both
def test_remainders_are_those_of_numpy_bit_for_bit(dtype: Any) -> None:
    """fmod is exact, so there is one right answer: for all numbers, by divisors of all sizes, signs of zeros too."""
    numbers = every_kind_of(dtype)
    by = np.random.default_rng(1).permutation(numbers)
    x, y = gn.input(numbers.shape, dtype), gn.input(by.shape, dtype)
    (found,) = gn.compile([x % y], [x, y], backend="numba")(numbers, by)
    with np.errstate(all="ignore"):
        right = np.mod(numbers, by)
    np.testing.assert_array_equal(found, right)
    known = ~np.isnan(right)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(right[known]))


@pytest.mark.parametrize("backend", ["numpy", "numba", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_a_rest_of_zero_has_the_sign_of_the_divisor(backend: str) -> None:
    for dtype in (single, double):
        xs, ys = (a.ravel() for a in np.meshgrid(*[np.array([6, -6, 0.0, -0.0, 3, -3, np.inf], dtype)] * 2))
        x, y = gn.input(xs.shape, dtype), gn.input(ys.shape, dtype)
        (found,) = gn.compile([x % y], [x, y], backend=backend)(xs, ys)
        with np.errstate(all="ignore"):
            right = np.mod(xs, ys)
        np.testing.assert_array_equal(found, right)
        np.testing.assert_array_equal(np.signbit(found)[right == 0], np.signbit(right)[right == 0])


@pytest.mark.parametrize("backend", ["numpy", "numba", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_remainders_of_integers(backend: str) -> None:
    """By nothing it is 0; of the smallest by -1, whose quotient no integer holds, as well."""
    for dtype in ("int8", "int32", "int64", "uint8", "uint64"):
        with case(dtype):
            require_remainders(dtype, backend)


def require_remainders(dtype: str, backend: str) -> None:
    info = np.iinfo(dtype)
    each = np.array(
        [info.min, info.min + 1, 0, 1, 2, 7, info.max - 1, info.max, *([-1, -2, -7] * (info.min < 0))], dtype
    )
    xs, ys = (a.ravel() for a in np.meshgrid(each, each))
    x, y = gn.input(xs.shape, dtype), gn.input(ys.shape, dtype)
    (found,) = gn.compile([x % y], [x, y], backend=backend)(xs, ys)
    assert found.dtype == dtype
    right = [int(a) % int(b) if b else 0 for a, b in zip(xs, ys, strict=True)]
    np.testing.assert_array_equal(found, np.array(right, dtype))


# -- the softmax family -----------------------------------------------------------------------------------


def rows(dtype: Any) -> Array:
    """Logits of sizes 1e-30 to 1e30, ties, ruled-out symbols, and rows of one number."""
    generator = np.random.default_rng(1)
    sizes = 10.0 ** np.linspace(-30, 30, 61)
    random = generator.standard_normal((61, 11)) * sizes[:, None]
    special = np.zeros((5, 11))
    special[0] = 1e4
    special[1, 3] = 1e30
    special[2, 1:] = -np.inf
    special[3] = np.linspace(-80, 80, 11)
    special[4, :5] = -np.inf
    return np.concatenate([random, special]).astype(dtype)


def log_softmax(z: Array) -> Array:
    shifted = z - z.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


@both
def test_softmax_and_its_logarithm(dtype: Any) -> None:
    logits = rows(dtype)
    with np.errstate(all="ignore"):
        right = log_softmax(wide(logits))
    relative = 1e-5 if dtype == single else 1e-13
    # The differences of logits are rounded; those of 1e30 mean exp(-1e30) = 0 however they are rounded.
    found = run(gn.log_softmax, logits)
    np.testing.assert_allclose(found, right.astype(dtype), rtol=relative, atol=4 * np.finfo(dtype).eps)
    scale = 1 + abs(np.where(np.isfinite(right), right, 0))
    probability = run(gn.softmax, logits)
    assert (abs(probability - np.exp(right)) <= relative * scale * np.exp(right) + np.finfo(dtype).tiny).all()
    np.testing.assert_allclose(probability.sum(axis=1), 1, rtol=20 * np.finfo(dtype).eps)


# -- sums ---------------------------------------------------------------------------------------------------

MILLION = 1_000_003


@pytest.fixture(scope="module")
def million() -> Array:
    """Numbers of one sign, so that relative accuracy has a meaning, with sizes from 1e-3 to 1e3."""
    generator = np.random.default_rng(3)
    return (10.0 ** generator.uniform(-3, 3, MILLION)).astype(single)


def test_long_sums_are_exact_to_single_precision(million: Array) -> None:
    exact = np.sum(million.astype(np.longdouble))
    for build in (gn.sum, lambda x: gn.sum(gn.sum(gn.reshape(x[:-3], (1000, 1000)), 0)) + gn.sum(x[-3:])):
        assert abs(float(run(build, million)) / float(exact) - 1) < 1e-6
    assert abs(float(run(gn.mean, million)) / float(exact / MILLION) - 1) < 1e-6


def test_sums_that_cancel_are_exact_to_single_precision(million: Array) -> None:
    """[x, -x, 1]: each piece would drown the 1 in float32."""
    numbers = np.concatenate([million, np.ones(1, single), -million])
    assert abs(float(run(gn.sum, numbers)) - 1) < 1e-3


def test_sums_are_the_same_bits_at_every_run_and_for_every_number_of_threads(million: Array) -> None:
    x = gn.input((MILLION,))
    matrix = gn.reshape(x[: 10**6], (1000, 1000))
    nodes = [gn.sum(x), gn.sum(matrix, 0), gn.sum(matrix, 1), gn.sum(gn.tanh(x) * x), gn.max(matrix, 0)]
    found = []
    for threads in (1, 1, 2, 2):
        function = gn.compile(nodes, [x], threads=threads)
        found += [[value.tobytes() for value in function(million)] for _ in range(2)]
    assert all(other == found[0] for other in found[1:])
