"""exp, log, tanh, erf and their kin on vectors: branch-free arithmetic, from the series themselves.

Every function holds over the whole range, with denormals, infinities and NaN, to 1e-6 relative in float32 and
1e-14 in float64. sin, cos, powers and remainders call the system's library, lane by lane.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

from graphnet.backends.compiled.expressions import exp_coefficients as _exp_coefficients, through as _through
from graphnet.backends.numba.code.ir import Code, LLVMValue, element, lanes_of, vector_type


def _is_single(x: LLVMValue) -> bool:
    return element(x.type) == "float"


def _polynomial(code: Code, x: LLVMValue, coefficients: Sequence[float]) -> LLVMValue:
    """Σ_k coefficients[k] x^k, by Horner's scheme."""
    total = code.constant(x.type, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = code.fused(total, x, code.constant(x.type, coefficient))
    return total


def _integers(x: LLVMValue) -> str:
    return "i32" if _is_single(x) else "i64"


def _bits(code: Code, x: LLVMValue) -> LLVMValue:
    return code.convert("bitcast", x, _integers(x))


def _floats(code: Code, x: LLVMValue) -> LLVMValue:
    return code.convert("bitcast", x, "float" if element(x.type) == "i32" else "double")


def _negative(code: Code, x: LLVMValue) -> LLVMValue:
    return code.value(x.type, f"fneg {x}")


def absolute(code: Code, x: LLVMValue) -> LLVMValue:
    if element(x.type) in ("float", "double"):
        return code.intrinsic("fabs", x.type, x)
    zero = code.constant(x.type, 0)
    return code.select(code.compare("slt", x, zero), code.subtract(zero, x), x)


def square_root(code: Code, x: LLVMValue) -> LLVMValue:
    return code.intrinsic("sqrt", x.type, x)


def _pick(code: Code, condition: str, x: LLVMValue, y: LLVMValue) -> LLVMValue:
    return code.select(code.compare(condition, x, y), x, y)


def maximum(code: Code, x: LLVMValue, y: LLVMValue) -> LLVMValue:
    """The larger; y where x is NaN, as Python's `x if x > y else y`."""
    return _pick(code, "ogt" if element(x.type) in ("float", "double") else "sgt", x, y)


def minimum(code: Code, x: LLVMValue, y: LLVMValue) -> LLVMValue:
    return _pick(code, "olt" if element(x.type) in ("float", "double") else "slt", x, y)


def _clamped(code: Code, x: LLVMValue, low: float, high: float) -> LLVMValue:
    """x in [low, high]; NaN stays."""
    bottom, top = code.constant(x.type, low), code.constant(x.type, high)
    x = code.select(code.compare("olt", x, bottom), bottom, x)
    return code.select(code.compare("ogt", x, top), top, x)


#: ln 2 in parts. In single precision the first is so near (2e-9) that it does for all exponents that there are.
_LN2 = {
    True: (0.6931471824645996, -1.904654299957768e-9),
    False: (0.69314718036912381649, 1.90821492927058770002e-10),
}


def _reduced(code: Code, x: LLVMValue, times: int = 1) -> tuple[LLVMValue, LLVMValue]:
    """times · (x - r) = n ln 2 with a whole n, |times · r| <= ½ ln 2; times is a power of two."""
    n = code.intrinsic("rint", x.type, code.multiply(x, code.constant(x.type, times / math.log(2))))
    r = x
    for part in _LN2[_is_single(x)][: 1 if _is_single(x) else 2]:
        # The product is exact inside of the fused operation.
        r = code.fused(n, code.constant(x.type, -part / times), r)
    return n, r


def _exp_series(code: Code, r: LLVMValue, times: int = 1) -> LLVMValue:
    """(exp(times · r) - 1) / r for |times · r| <= ½ ln 2, to 5e-7 in single and 2e-17 in double precision."""
    return _polynomial(code, r, _exp_coefficients(_is_single(r), times))


def _exp_of_reduced(code: Code, r: LLVMValue) -> LLVMValue:
    """exp(r) for |r| <= ½ ln 2."""
    return code.fused(_exp_series(code, r), r, code.constant(r.type, 1.0))


def _times_power_of_two(code: Code, x: LLVMValue, n: LLVMValue, small: bool = False) -> LLVMValue:
    """x · 2^n for a whole n (held as a float); rounded once where the result is denormal.

    small: 2^n itself is a normal number, so that one factor will do.
    """
    if code.avx512 and lanes_of(x.type) * (4 if _is_single(x) else 8) == 64:
        name = f"x86.avx512.mask.scalef.{'ps' if _is_single(x) else 'pd'}.512"
        mask = LLVMValue("i16", "-1") if _is_single(x) else LLVMValue("i8", "-1")
        return code.intrinsic(name, x.type, x, n, x, mask, LLVMValue("i32", "4"), suffix="")
    whole = code.convert("fptosi", n, _integers(x))
    if small:
        return code.multiply(x, _power_of_two(code, whole))
    half = code.binary("ashr", whole, code.constant(whole.type, 1))
    first, second = _power_of_two(code, half), _power_of_two(code, code.subtract(whole, half))
    return code.multiply(code.multiply(x, first), second)


def _power_of_two(code: Code, n: LLVMValue) -> LLVMValue:
    """2^n for an integer n within the range of normal numbers."""
    mantissa, bias = (23, 127) if element(n.type) == "i32" else (52, 1023)
    shifted = code.binary("shl", code.add(n, code.constant(n.type, bias)), code.constant(n.type, mantissa))
    return _floats(code, shifted)


def _quotient(code: Code, x: LLVMValue, y: LLVMValue) -> LLVMValue:
    """x / y for 1 <= y < 1e30 or NaN: in single precision from an estimate of 1 / y, refined by the remainder of x.

    (Refining 1 / y instead costs as much, but y / y is then not always 1.)
    """
    if not (code.avx512 and x.type == "<16 x float>"):
        return code.binary("fdiv", x, y)
    every = LLVMValue("i16", "-1")
    estimate = code.intrinsic("x86.avx512.rcp14.ps.512", x.type, y, y, every, suffix="")
    quotient = code.multiply(x, estimate)
    rest = code.fused(_negative(code, quotient), y, x)
    return code.fused(rest, estimate, quotient)


def exponential(code: Code, x: LLVMValue) -> LLVMValue:
    """2^n · exp(r)."""
    x = _clamped(code, x, *((-104.0, 89.0) if _is_single(x) else (-746.0, 710.0)))
    n, r = _reduced(code, x)
    return _times_power_of_two(code, _exp_of_reduced(code, r), n)


def logistic(code: Code, x: LLVMValue) -> LLVMValue:
    """e / (1 + e) with e = exp(x), precise for every x: it rounds to 1 before 1 + e is large."""
    n, r = _reduced(code, _clamped(code, x, *((-104.0, 40.0) if _is_single(x) else (-746.0, 60.0))))
    e = _times_power_of_two(code, _exp_of_reduced(code, r), n)
    return _quotient(code, e, code.add(e, code.constant(x.type, 1.0)))


def hyperbolic_tangent(code: Code, x: LLVMValue) -> LLVMValue:
    """e / (e + 2) with e = exp(2x) - 1 = 2^n (exp(2r) - 1) + (2^n - 1), precise near 0 too; zero keeps its sign."""
    limit = 10.0 if _is_single(x) else 22.0
    n, r = _reduced(code, _clamped(code, x, -limit, limit), times=2)
    one = code.constant(x.type, 1.0)
    scale = _times_power_of_two(code, one, n, small=True)
    e = code.fused(_exp_series(code, r, times=2), code.multiply(r, scale), code.subtract(scale, one))
    y = _quotient(code, e, code.add(e, code.constant(x.type, 2.0)))
    return code.intrinsic("copysign", x.type, y, x)


def logarithm(code: Code, x: LLVMValue) -> LLVMValue:
    """e ln 2 + 2 atanh(s), s = (m - 1) / (m + 1), where x = 2^e m and √½ <= m < √2."""
    single = _is_single(x)
    mantissa = 23 if single else 52
    tiny = code.constant(x.type, 1.1754943508222875e-38 if single else 2.2250738585072014e-308)
    is_tiny = code.compare("olt", x, tiny)
    lifted = code.multiply(x, code.constant(x.type, 2.0 ** (mantissa + 2)))
    normal = code.select(is_tiny, lifted, x)
    # Subtracting the bits of √½ makes the exponent field change at √½ instead of at 1.
    bits = _bits(code, normal)
    root = 0x3F3504F3 if single else 0x3FE6A09E667F3BCD
    shifted = code.subtract(bits, code.constant(bits.type, root))
    e = code.binary("ashr", shifted, code.constant(bits.type, mantissa))
    m = _floats(code, code.subtract(bits, code.binary("shl", e, code.constant(bits.type, mantissa))))
    power = code.convert("sitofp", e, element(x.type))
    correction = code.select(is_tiny, code.constant(x.type, -(mantissa + 2.0)), code.constant(x.type, 0.0))
    power = code.add(power, correction)
    f = code.subtract(m, code.constant(x.type, 1.0))
    s = code.binary("fdiv", f, code.add(f, code.constant(x.type, 2.0)))
    z = code.multiply(s, s)
    terms = 5 if single else 11
    series = _polynomial(code, z, [2 / (2 * k + 3) for k in range(terms)])
    high, low = _LN2[single]
    # 2s + s z series, then the exponent's part, the small terms first.
    rest = code.fused(power, code.constant(x.type, low), code.multiply(code.multiply(s, z), series))
    value = code.fused(power, code.constant(x.type, high), code.fused(s, code.constant(x.type, 2.0), rest))
    zero, infinity = code.constant(x.type, 0.0), code.constant(x.type, math.inf)
    value = code.select(code.compare("oeq", x, zero), code.constant(x.type, -math.inf), value)
    value = code.select(code.compare("oeq", x, infinity), infinity, value)
    return code.select(code.compare("oge", x, zero), value, code.constant(x.type, math.nan))


def logarithm_plus_one(code: Code, x: LLVMValue) -> LLVMValue:
    """log(1 + x): the error of the sum y = 1 + x is put back as (x - (y - 1)) / y."""
    one = code.constant(x.type, 1.0)
    y = code.add(x, one)
    lost = code.binary("fdiv", code.subtract(x, code.subtract(y, one)), y)
    value = code.add(logarithm(code, y), lost)
    finite = code.compare("olt", absolute(code, x), code.constant(x.type, math.inf))
    bounded = code.binary("and", finite, code.compare("one", y, code.constant(x.type, 0.0)))
    return code.select(bounded, value, logarithm(code, y))


#: erf is 1 to the last digit from here on; in single precision, in double precision.
_ERF_ENDS = {True: 4, False: 6}
#: In 1 / (t + 3) a polynomial comes nearest to exp(t²) erfc(t) between 1 and there.
_ERF_SHIFT = 3


@cache
def _erf_coefficients(single: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Coefficients of erf(t) / t in t² for 0 <= t <= 1, and of exp(t²) erfc(t) from 1 on, in 1 / (t + 3) scaled to
    [-1, 1].
    """

    def points(
        count: int,
    ) -> list[Fraction]:  # Chebyshev's, but of few digits: nearly as good, and exact arithmetic is fast
        return [
            Fraction(round(2**20 * math.cos(math.pi * (2 * i + 1) / (2 * count))), 2**20)
            for i in range(count)
        ]

    squares = [(1 + v) / 2 for v in points(7 if single else 13)]
    series = [
        sum(((-s) ** k / (math.factorial(k) * (2 * k + 1)) for k in range(30)), Fraction()) for s in squares
    ]
    near = [2 / math.sqrt(math.pi) * float(c) for c in _through(squares, series)]
    middle, half = _erf_scale(single)
    scaled = points(6 if single else 13)
    far = _through(scaled, [_scaled_complement(1 / (middle + half * v) - _ERF_SHIFT) for v in scaled])
    return tuple(near), tuple(map(float, far))


def _erf_scale(single: bool) -> tuple[Fraction, Fraction]:
    least, greatest = (Fraction(1, t + _ERF_SHIFT) for t in (_ERF_ENDS[single], 1))
    return (greatest + least) / 2, (greatest - least) / 2


def _scaled_complement(t: Fraction) -> Fraction:
    """exp(t²) erfc(t) = Σ t^2k / k! - 2/√π Σ 2^k t^(2k+1) / (2k+1)!!; where t = 6, 16 digits of them cancel."""
    digits = 200  # binary ones behind the point
    one = 1 << digits
    pi = 3141592653589793238462643383279502884197169399375105820974944592
    factor = Fraction(2 << digits, math.isqrt((pi << 2 * digits) // 10**63))  # 2/√π
    first, second, square = one, int(t * one), int(t * t * one)
    whole = part = k = 0
    while first or second:
        whole, part, k = whole + first, part + second, k + 1
        first, second = (first * square >> digits) // k, (second * square >> digits) * 2 // (2 * k + 1)
    return Fraction(whole, one) - factor * Fraction(part, one)


def error_function(code: Code, x: LLVMValue) -> LLVMValue:
    """x · (a series in x²) for |x| < 1, else 1 - exp(-x²) · (a series in 1 / (|x| + 3)) with the sign of x."""
    single = _is_single(x)
    near, far = _erf_coefficients(single)
    one = code.constant(x.type, 1.0)
    size = absolute(code, x)
    inside = code.multiply(x, _polynomial(code, code.multiply(x, x), near))
    t = _clamped(code, size, 0.0, float(_ERF_ENDS[single]))
    middle, half = _erf_scale(single)
    inverse = code.binary(
        "fdiv", code.constant(x.type, float(1 / half)), code.add(t, code.constant(x.type, _ERF_SHIFT))
    )
    v = code.subtract(inverse, code.constant(x.type, float(middle / half)))
    decay = exponential(code, _negative(code, code.multiply(t, t)))
    outside = code.fused(_negative(code, decay), _polynomial(code, v, far), one)
    outside = code.intrinsic("copysign", x.type, outside, x)
    return code.select(code.compare("olt", size, one), inside, outside)


def remainder(code: Code, x: LLVMValue, y: LLVMValue) -> LLVMValue:
    """x - n y with the sign of y, as NumPy's; floats by the system's fmod, which is exact."""
    if element(x.type) in ("float", "double"):
        zero = code.constant(x.type, 0.0)
        rest = code.binary("frem", x, y)
        other_side = code.binary("xor", code.compare("olt", rest, zero), code.compare("olt", y, zero))
        none = code.compare("oeq", rest, zero)
        rest = code.select(other_side, code.add(rest, y), rest)
        return code.select(none, code.intrinsic("copysign", x.type, zero, y), rest)
    zero, one = code.constant(x.type, 0), code.constant(x.type, 1)
    # Processors trap for the divisor 0, and for -1 if the quotient overflows. Both remainders are 0, as for 1.
    trap = code.binary("or", code.compare("eq", y, zero), code.compare("eq", y, code.constant(x.type, -1)))
    y = code.select(trap, one, y)
    rest = code.binary("srem", x, y)
    other_side = code.compare("slt", code.binary("xor", rest, y), zero)
    moves = code.binary("and", other_side, code.compare("ne", rest, zero))
    return code.select(moves, code.add(rest, y), rest)


def remainder_of_unsigned(code: Code, x: LLVMValue, y: LLVMValue) -> LLVMValue:
    zero = code.constant(x.type, 0)
    return code.binary("urem", x, code.select(code.compare("eq", y, zero), code.constant(x.type, 1), y))


def _to_whole(name: str) -> Callable[[Code, LLVMValue], LLVMValue]:
    return lambda code, x: code.intrinsic(name, x.type, x)


def _by_lane(name: str) -> Callable[..., LLVMValue]:
    def function(code: Code, *arguments: LLVMValue) -> LLVMValue:
        scalar, lanes = element(arguments[0].type), lanes_of(arguments[0].type)
        if lanes == 1:
            return code.intrinsic(name, scalar, *arguments)
        result = LLVMValue(vector_type(scalar, lanes), "poison")
        for i in range(lanes):
            parts = [code.value(scalar, f"extractelement {a}, i64 {i}") for a in arguments]
            one = code.intrinsic(name, scalar, *parts)
            result = code.value(result.type, f"insertelement {result}, {one}, i64 {i}")
        return result

    return function


FUNCTIONS: dict[str, Callable[..., LLVMValue]] = {
    "abs": absolute, "ceil": _to_whole("ceil"), "cos": _by_lane("cos"), "erf": error_function, "exp": exponential,
    "floor": _to_whole("floor"), "log": logarithm, "log1p": logarithm_plus_one, "max": maximum, "min": minimum,
    "mod": remainder, "pow": _by_lane("pow"), "round": _to_whole("rint"), "sigmoid": logistic, "sin": _by_lane("sin"),
    "sqrt": square_root, "tanh": hyperbolic_tangent,
}  # fmt: skip

#: Those that are others for whole numbers without a sign.
OF_UNSIGNED: dict[str, Callable[..., LLVMValue]] = {
    "abs": lambda code, x: x, "max": lambda code, x, y: _pick(code, "ugt", x, y),
    "min": lambda code, x, y: _pick(code, "ult", x, y), "mod": remainder_of_unsigned,
}  # fmt: skip
