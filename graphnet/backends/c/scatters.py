"""Scatters as C functions: one term after the other, as NumPy adds them."""

from __future__ import annotations

from graphnet.backends.c.language import c_type, literal, unsigned
from graphnet.backends.c.source import CBody, CFunction, index, parameters
from graphnet.plan.instructions import Scatter
from graphnet.plan.views import View

__all__ = ["scatter_kernel"]


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
