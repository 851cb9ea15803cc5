"""exp, tanh, σ, and operators where C leaves cases undefined, as inline C functions.

exp, tanh and σ are branch-free polynomials, which compilers turn into vectors; they hold over the whole range, with
denormals, infinities and NaN, to 1e-6 relative in float32 and 1e-14 in float64. All other functions are the library's.
"""

from __future__ import annotations

import math

import numpy as np

from graphnet.backends.compiled.expressions import exp_coefficients
from graphnet.graph.dtypes import FLOAT32, limits, of_nan
from graphnet.graph.node import Dtype
from graphnet.standalone_c.language import c_type, literal, short, unsigned

#: Name of a function in C's library; float32 adds an f.
LIBRARY = {
    "abs": "fabs", "ceil": "ceil", "cos": "cos", "erf": "erf", "floor": "floor", "log": "log", "log1p": "log1p",
    "pow": "pow", "round": "rint", "sin": "sin", "sqrt": "sqrt",
}  # fmt: skip
#: ln 2 in two parts, of which the first has so few digits that its product with an exponent is exact.
LN2 = {
    True: (0.693359375, -2.1219444005469057e-4),
    False: (6.93147180369123816490e-01, 1.90821492927058770002e-10),
}
#: 1.5 · 2^23 and 1.5 · 2^52: added to a number, they leave the nearest integer in its last bits.
ROUNDING = {True: 12582912.0, False: 6755399441055744.0}

POWER = """\
/* 2^n, for exponents of normal numbers */
static inline {t} power_of_two_{s}(int32_t n)
{{
    union {{ {u} bits; {t} value; }} x;
    x.bits = ({u})(({u})n + {bias}u) << {mantissa};
    return x.value;
}}
"""
NEAREST = """\
/* the integer nearest to x, for small ones: it stands in the last bits of x + 1.5 2^{mantissa} */
static inline int32_t nearest_{s}({t} x)
{{
    union {{ {u} bits; {t} value; }} sum;
    sum.value = x + {magic};
    return (int32_t)(uint32_t)(sum.bits - {magic_bits});
}}
"""
EXP = """\
/* exp(x) = 2^n exp(r), |r| <= ln 2 / 2 */
static inline {t} exp_{s}({t} x)
{{
    x = x < {low} ? {low} : x;
    x = x > {high} ? {high} : x;
    const int32_t n = nearest_{s}(x * {inverse});
    const {t} r = (x - ({t})n * {ln2_1}) - ({t})n * {ln2_2};
    const {t} series = {series};
    const int32_t half = n / 2;
    return (series * r + {one}) * power_of_two_{s}(half) * power_of_two_{s}(n - half);
}}
"""
SIGMOID = """\
/* e / (1 + e), e = exp(x) */
static inline {t} sigmoid_{s}({t} x)
{{
    const {t} e = exp_{s}(x > {top} ? {top} : x);
    return e / (e + {one});
}}
"""
TANH = """\
/* e / (e + 2), e = exp(2x) - 1 = 2^n (exp(2r) - 1) + (2^n - 1) */
static inline {t} tanh_{s}({t} x)
{{
    {t} z = x < -{limit} ? -{limit} : x;
    z = z > {limit} ? {limit} : z;
    const int32_t n = nearest_{s}(z * {twice_inverse});
    const {t} r = (z - ({t})n * {half_ln2_1}) - ({t})n * {half_ln2_2};
    const {t} scale = power_of_two_{s}(n);
    const {t} series = {twice_series};
    const {t} e = series * (r * scale) + (scale - {one});
    return copysign{f}(e / (e + {two}), x);
}}
"""
PICK = """\
static inline {t} {name}_{s}({t} x, {t} y)
{{
    return x {sign} y ? x : y;
}}
"""
ABSOLUTE = """\
static inline {t} abs_{s}({t} x)
{{
    return x < 0 ? ({t})(0u - ({u})x) : x;
}}
"""
REST_OF_FLOATS = """\
/* x - n y, with the sign of y */
static inline {t} mod_{s}({t} x, {t} y)
{{
    const {t} rest = fmod{f}(x, y);
    if (rest == {zero})
        return copysign{f}({zero}, y);
    return (rest < {zero}) != (y < {zero}) ? rest + y : rest;
}}
"""
REST_OF_SIGNED = """\
/* x - n y, with the sign of y; 0 if y is 0 */
static inline {t} mod_{s}({t} x, {t} y)
{{
    if (y == 0 || y == -1)
        return 0;
    const {t} rest = ({t})(x % y);
    return rest != 0 && (rest < 0) != (y < 0) ? ({t})(rest + y) : rest;
}}
"""
REST_OF_UNSIGNED = """\
/* x - n y; 0 if y is 0 */
static inline {t} mod_{s}({t} x, {t} y)
{{
    return y == 0 ? 0 : ({t})(x % y);
}}
"""
CONVERSION = """\
/* truncates toward zero; saturates out-of-range values */
static inline {to} {name}({t} x)
{{
    if ({low} < x && x < {high})
        return ({to})x;
    return x >= {high} ? {most} : x <= {low} ? {least} : {none};
}}
"""
#: Function -> functions that it calls.
NEEDS = {
    "exp": ("power_of_two", "nearest"),
    "sigmoid": ("power_of_two", "nearest", "exp"),
    "tanh": ("power_of_two", "nearest"),
}


def needs(name: str) -> tuple[str, ...]:
    """Functions that must precede this one."""
    return NEEDS.get(name, ())


def definition(name: str, dtype: Dtype) -> str:
    """The text of one of our functions for numbers of a dtype."""
    if dtype.kind == "f":
        text = {
            "power_of_two": POWER, "nearest": NEAREST, "exp": EXP, "sigmoid": SIGMOID, "tanh": TANH,
            "max": PICK, "min": PICK, "mod": REST_OF_FLOATS,
        }[name]  # fmt: skip
        values = _of_floats(dtype)
    else:
        rest = REST_OF_SIGNED if dtype.kind == "i" else REST_OF_UNSIGNED
        text = {"abs": ABSOLUTE, "max": PICK, "min": PICK, "mod": rest}[name]
        values = {"u": unsigned(dtype)}
    sign = ">" if name == "max" else "<"
    return text.format(**values, t=c_type(dtype), s=short(dtype), name=name, sign=sign)


def conversion(of: Dtype, to: Dtype) -> tuple[str, str]:
    """The name and the text of the function that makes integers of floats, as `dtypes.converted`."""
    name, info = f"{short(to)}_of_{short(of)}", np.iinfo(to)
    low, high = (literal(limit, of) for limit in limits(to))
    most, least, none = (literal(number, to) for number in (info.max, info.min, of_nan(to)))
    return name, CONVERSION.format(
        to=c_type(to), t=c_type(of), name=name, low=low, high=high, most=most, least=least, none=none
    )


def _of_floats(dtype: Dtype) -> dict[str, str]:
    single = dtype == FLOAT32
    numbers = {
        "low": -104.0 if single else -746.0,
        "high": 89.0 if single else 710.0,
        "top": 40.0 if single else 60.0,
        "limit": 10.0 if single else 22.0,
        "inverse": 1 / math.log(2),
        "twice_inverse": 2 / math.log(2),
        "magic": ROUNDING[single],
        "ln2_1": LN2[single][0],
        "ln2_2": LN2[single][1],
        "half_ln2_1": LN2[single][0] / 2,
        "half_ln2_2": LN2[single][1] / 2,
        "zero": 0.0,
        "one": 1.0,
        "two": 2.0,
    }
    found = {name: literal(number, dtype) for name, number in numbers.items()}
    bits = int(np.array(ROUNDING[single], dtype).view("u4" if single else "u8"))
    return found | {
        "f": "f" if single else "",
        "u": "uint32_t" if single else "uint64_t",
        "bias": "127" if single else "1023",
        "mantissa": "23" if single else "52",
        "magic_bits": f"UINT{32 if single else 64}_C({bits:#x})",
        "series": _horner(exp_coefficients(single, 1), dtype),
        "twice_series": _horner(exp_coefficients(single, 2), dtype),
    }


def _horner(coefficients: tuple[float, ...], dtype: Dtype) -> str:
    """Σ_k coefficients[k] r^k"""
    text = literal(coefficients[-1], dtype)
    for coefficient in reversed(coefficients[:-1]):
        text = f"({text}) * r + {literal(coefficient, dtype)}"
    return text
