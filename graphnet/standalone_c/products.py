"""Matrix products, in the form that compilers make vectors of, and scatters, as C functions."""

from __future__ import annotations

from graphnet.plan.instructions import MatrixProduct, Scatter
from graphnet.plan.views import View
from graphnet.standalone_c.language import c_type, literal, unsigned
from graphnet.standalone_c.source import CBody, CFunction, index, parameters

#: Rows of b that are added to a row of c at once: it is then read and written for every fourth of them.
ROWS = 4
#: Partial sums of a scalar product, whose order compilers may not change.
LANES = 16


def product_kernel(product: MatrixProduct) -> tuple[CFunction, tuple[View, View, View]]:
    """c = a b; the function, and its arguments. Where columns of c are contiguous, it is its transpose, bᵀ aᵀ."""
    a, b, c = product.a, product.b, product.c
    if c.strides[1] != 1 and c.strides[0] == 1 and c.shape[0] > 1:
        a, b, c = (view.transposed((1, 0)) for view in (b, a, c))
    source = CBody()
    with source.counted("i", c.shape[0]):
        floats = c.dtype.kind == "f"
        if floats and b.shape[0] and c.shape[1] > 1 and (b.strides[1], c.strides[1]) == (1, 1):
            _by_rows(source, a, b, c)
        else:
            lanes = floats and a.strides[1] == 1 and b.strides[0] == 1 and a.shape[1] >= LANES
            (_by_lanes if lanes else _by_terms)(source, a, b, c)
    return CFunction("product", parameters((a, b, c), "abc", 1), source.text, False), (a, b, c)


def _by_rows(source: CBody, a: View, b: View, c: View) -> None:
    """c[i] = Σ_k a[i, k] b[k]"""
    (terms, columns), row = b.shape, index(("i", c.strides[0]))
    t = c_type(c.dtype)
    source.line(f"{t} *y = c + {row};")
    with source.counted("j", columns):
        source.line(f"y[j] = {literal(0, c.dtype)};")
    whole = terms - terms % ROWS
    if whole:
        with source.counted("k", whole, ROWS):
            _rows_added(source, a, b, t, "k", 0, ROWS)
    if terms % ROWS:
        with source.block():
            _rows_added(source, a, b, t, "0", whole, terms % ROWS)


def _rows_added(source: CBody, a: View, b: View, t: str, k: str, first: int, count: int) -> None:
    """y += a[i, k + first + n] b[k + first + n] for n < count"""
    begin = [index(("i", a.strides[0]), (k, a.strides[1])), index((k, b.strides[0]))]
    for n in range(count):
        at, to = (x + s * (first + n) for x, s in ((0, a.strides[1]), (0, b.strides[0])))
        source.line(f"const {t} x{n} = a[{begin[0]} + {at}];")
        source.line(f"const {t} *w{n} = b + ({begin[1]} + {to});")
    with source.counted("j", b.shape[1]):
        added = " + ".join(f"x{n} * w{n}[j]" for n in range(count))
        source.line(f"y[j] += {added};")


def _by_lanes(source: CBody, a: View, b: View, c: View) -> None:
    """c[i, j] as a scalar product of two contiguous vectors"""
    terms, t = a.shape[1], c_type(c.dtype)
    whole = terms - terms % LANES
    with source.counted("j", c.shape[1]):
        source.line(f"const {t} *x = a + {index(('i', a.strides[0]))};")
        source.line(f"const {t} *w = b + {index(('j', b.strides[1]))};")
        source.line(f"{t} s[{LANES}] = {{0}};")
        source.line(f"{t} sum = {literal(0, c.dtype)};")
        with source.counted("k", whole, LANES), source.counted("l", LANES):
            source.line("s[l] += x[k + l] * w[k + l];")
        with source.counted("l", LANES):
            source.line("sum += s[l];")
        if terms > whole:
            with source.block(f"for (ptrdiff_t k = {whole}; k < {terms}; k++)"):
                source.line("sum += x[k] * w[k];")
        source.line(f"c[{index(('i', c.strides[0]), ('j', c.strides[1]))}] = sum;")


def _by_terms(source: CBody, a: View, b: View, c: View) -> None:
    """c[i, j], a term at a time; integers wrap"""
    t = c_type(c.dtype)
    with source.counted("j", c.shape[1]):
        source.line(f"{t} sum = {literal(0, c.dtype)};")
        with source.counted("k", a.shape[1]):
            x = f"a[{index(('i', a.strides[0]), ('k', a.strides[1]))}]"
            w = f"b[{index(('k', b.strides[0]), ('j', b.strides[1]))}]"
            if c.dtype.kind == "f":
                source.line(f"sum += {x} * {w};")
            else:
                u = unsigned(c.dtype)
                source.line(f"sum = ({t})(({u})sum + ({u}){x} * ({u}){w});")
        source.line(f"c[{index(('i', c.strides[0]), ('j', c.strides[1]))}] = sum;")


def scatter_kernel(scatter: Scatter) -> tuple[CFunction, tuple[View, View, View]]:
    """y = 0; y[index[i]] += x[i]: the function, and its arguments."""
    x, y, at = scatter.x, scatter.y, scatter.index
    if scatter.by_columns:
        x, y = x.transposed((1, 0)), y.transposed((1, 0))
    source, t = CBody(), c_type(y.dtype)
    place = f"y[{index(('r', y.strides[0]), ('j', y.strides[1]))}]"
    with source.counted("r", y.shape[0]), source.counted("j", y.shape[1]):
        source.line(f"{place} = {literal(0, y.dtype)};")
    with source.counted("i", at.size):
        source.line(f"const int64_t r = (int64_t)at[{index(('i', at.strides[0]))}];")
        source.line(f"if (r < 0 || r >= {y.shape[0]})")
        source.line("    return 1;")
        with source.counted("j", y.shape[1]):
            term = f"x[{index(('i', x.strides[0]), ('j', x.strides[1]))}]"
            if y.dtype.kind == "f":
                source.line(f"{place} += {term};")
            else:
                u = unsigned(y.dtype)
                source.line(f"{place} = ({t})(({u}){place} + ({u}){term});")
    source.line("return 0;")
    return CFunction("scatter", parameters((x, at, y), ("x", "at", "y"), 1), source.text, True), (x, at, y)
