"""Instructions of a graph as JavaScript, for the page to compute values itself.

Each form of an instruction (see `Loop.form`) is one function of JavaScript: `m` are the arrays, `a` the numbers and
offsets of those that it reads and writes, `h` the functions that JavaScript lacks.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from graphnet.backends.compiled.expressions import Emitter, Fold, evaluate
from graphnet.graph.dtypes import BOOL, FLOAT32, of_nan
from graphnet.graph.node import Dtype
from graphnet.plan.instructions import Instruction, Load, Loop, MatrixProduct, Scatter
from graphnet.plan.views import Buffer, View

#: Whole numbers wrap, as in NumPy; those of 64 bits, which are missing here, are doubles.
_WRAPPED = {
    "int8": "({} << 24 >> 24)", "int16": "({} << 16 >> 16)", "int32": "({} | 0)",
    "uint8": "({} & 255)", "uint16": "({} & 65535)", "uint32": "({} >>> 0)",
}  # fmt: skip
_MATH = frozenset(["abs", "ceil", "cos", "exp", "floor", "log", "log1p", "max", "min", "sin", "sqrt", "tanh"])


class PageProgram:
    """Instructions as data for JSON.

    buffers    [dtype, size] of each array
    forms      texts of functions (m, a, h)
    calls      [form, array, offset, array, offset, ...]
    """

    def __init__(self, instructions: Iterable[Instruction]) -> None:
        self.numbers: dict[Buffer, int] = {}
        self.places: dict[Hashable, int] = {}
        self.forms: list[str] = []
        self.calls = [self._call(instruction) for instruction in instructions]

    def view(self, view: View) -> list[Any]:
        """[array, offset, shape, strides]"""
        return [self._number(view.buffer), view.offset, list(view.shape), list(view.strides)]

    @property
    def buffers(self) -> list[list[Any]]:
        return [[buffer.dtype.name, buffer.size] for buffer in self.numbers]

    def _number(self, buffer: Buffer) -> int:
        return self.numbers.setdefault(buffer, len(self.numbers))

    def _call(self, instruction: Instruction) -> list[int]:
        form: Hashable
        match instruction:
            case Loop():
                views, form, write = instruction.views, instruction.form, partial(_loop, instruction)
            case MatrixProduct(a=a, b=b, c=c):
                views, write = [a, b, c], partial(_product, instruction)
                form = ("product", a.shape, b.shape, *(view.strides for view in views))
            case Scatter(x=x, index=index, y=y, by_columns=by_columns):
                views, write = [x, index, y], partial(_scatter, instruction)
                form = ("scatter", by_columns, x.shape, y.shape, *(view.strides for view in views))
            case _:
                raise AssertionError(f"{type(instruction).__name__} cannot run in a page")
        place = self.places.setdefault(form, len(self.forms))
        if place == len(self.forms):
            self.forms.append(write())
        return [place, *(number for view in views for number in (self._number(view.buffer), view.offset))]


class _Text:
    """Lines of a function with nested loops."""

    def __init__(self, count: int) -> None:
        arrays = (f"x{k} = m[a[{2 * k + 1}]], p{k} = a[{2 * k + 2}]" for k in range(count))
        self.lines = [f"const {', '.join(arrays)};"] if count else []

    @contextmanager
    def counted(self, *axes: tuple[str, int]) -> Iterator[None]:
        for name, size in axes:
            self.lines.append(f"for (let {name} = 0; {name} < {size}; {name}++) {{")
        yield
        self.lines.append("}" * len(axes))

    def __str__(self) -> str:
        return "\n".join(self.lines)


def _times(x: str, y: str, dtype: Dtype) -> str:
    return f"Math.imul({x}, {y})" if dtype.name in _WRAPPED else f"({x} * {y})"


def _wrapped(x: str, dtype: Dtype) -> str:
    return _WRAPPED.get(dtype.name, "{}").format(x)


def _at(array: int, *terms: tuple[str, int]) -> str:
    """Element of an array at the sum of these variables times strides."""
    return (
        f"x{array}[{' + '.join([f'p{array}', *(f'{name} * {stride}' for name, stride in terms if stride)])}]"
    )


def _product(product: MatrixProduct) -> str:
    text = _Text(3)
    (rows, inner), columns = product.a.shape, product.b.shape[1]
    a, b, c = (view.strides for view in (product.a, product.b, product.c))
    with text.counted(("i", rows), ("j", columns)):
        text.lines.append("let s = 0;")
        with text.counted(("k", inner)):
            x, y = _at(0, ("i", a[0]), ("k", a[1])), _at(1, ("k", b[0]), ("j", b[1]))
            text.lines.append(f"s += {_times(x, y, product.c.dtype)};")
        text.lines.append(f"{_at(2, ('i', c[0]), ('j', c[1]))} = s;")
    return str(text)


def _scatter(scatter: Scatter) -> str:
    text = _Text(3)
    x, y, index = scatter.x, scatter.y, scatter.index
    if scatter.by_columns:
        x, y = x.transposed((1, 0)), y.transposed((1, 0))
    with text.counted(("i", y.shape[0]), ("j", y.shape[1])):
        text.lines.append(f"{_at(2, ('i', y.strides[0]), ('j', y.strides[1]))} = 0;")
    with text.counted(("i", index.size)):
        text.lines.append(f"const r = {_at(1, ('i', index.strides[0]))};")
        with text.counted(("j", y.shape[1])):
            target = _at(2, ("r", y.strides[0]), ("j", y.strides[1]))
            text.lines.append(f"{target} += {_at(0, ('i', x.strides[0]), ('j', x.strides[1]))};")
    return str(text)


def _loop(loop: Loop) -> str:
    text = _Text(len(loop.views))
    axes = [(f"i{axis}", size) for axis, size in enumerate(loop.shape)]
    kept = [axis for n, axis in enumerate(axes) if n not in loop.reduced]
    inner = [axis for n, axis in enumerate(axes) if n in loop.reduced]
    folds = [Fold(r.how, loop.dtype_of(r.number)) for r in loop.reductions]
    emitter = _JavaScript()
    with text.counted(*kept):
        for k, fold in enumerate(folds):
            text.lines.append(f"let s{k} = {emitter.number(fold.identity, fold.kept)};")
        with text.counted(*inner):
            array = 0
            for k, load in enumerate(loop.loads):
                text.lines.append(f"const v{k} = {_loaded(load, array, axes)};")
                array += (load.data is not None) + (load.at is not None)
            for k, step in enumerate(loop.steps, len(loop.loads)):
                dtypes = [loop.dtype_of(source) for source in step.sources]
                value = evaluate(emitter, step, [f"v{source}" for source in step.sources], dtypes)
                text.lines.append(f"const v{k} = {value};")
            names = [name for name, _ in axes]
            for number, view in loop.stores:
                text.lines.append(f"{_at(array, *zip(names, view.strides, strict=True))} = v{number};")
                array += 1
            for k, (fold, reduction) in enumerate(zip(folds, loop.reductions, strict=True)):
                text.lines.append(
                    f"s{k} = {fold.combined(emitter, f's{k}', f'v{reduction.number}', fold.kept)};"
                )
        for k, reduction in enumerate(loop.reductions):
            places = zip((name for name, _ in kept), reduction.view.strides, strict=True)
            text.lines.append(f"{_at(array + k, *places)} = s{k};")
    return str(text)


def _loaded(load: Load, array: int, axes: Sequence[tuple[str, int]]) -> str:
    names = [name for name, _ in axes]
    if load.at is None:
        assert load.data is not None
        return _at(array, *zip(names, load.data.strides, strict=True))
    if load.kind == "columns":
        assert load.data is not None
        row, column = load.data.strides
        found = _at(array + 1, *zip(names[1:], load.at.strides, strict=True))
        return _at(array, (names[0], row), (found, column))
    known = len(load.at.shape)
    if load.data is None:
        return f"{_at(array, *zip(names[:known], load.at.strides, strict=True))} === {names[-1]} ? 1 : 0"
    found = _at(array + 1, *zip(names[:known], load.at.strides, strict=True))
    first, *rest = load.data.strides
    return _at(array, (found, first), *zip(names[known:], rest, strict=True))


class _JavaScript(Emitter[str]):
    """Numbers are doubles; they are rounded to float32 where they are stored."""

    def number(self, value: float, dtype: Dtype) -> str:
        if dtype == BOOL:
            return "true" if value else "false"
        if math.isfinite(value):
            return f"({value!r})" if value < 0 else repr(value)
        return "NaN" if math.isnan(value) else f"({'-' * (value < 0)}Infinity)"

    def convert(self, x: str, of: Dtype, to: Dtype) -> str:
        if to == BOOL:
            return f"({x} != 0)"
        if of == BOOL:
            return f"({x} ? 1 : 0)"
        if of.kind == "f" and to.kind in "iu":
            info = np.iinfo(to)
            return f"h.whole({x}, {info.min}, {info.max}, {of_nan(to)})"
        return f"Math.fround({x})" if to == FLOAT32 else _wrapped(x, to)

    def arithmetic(self, symbol: str, a: str, b: str, dtype: Dtype) -> str:
        return _wrapped(_times(a, b, dtype) if symbol == "*" else f"({a} {symbol} {b})", dtype)

    def compare(self, symbol: str, a: str, b: str, dtype: Dtype) -> str:
        return f"({a} {symbol} {b})"

    def logical(self, word: str, values: Sequence[str]) -> str:
        return "(" + (" && " if word == "and" else " || ").join(values) + ")"

    def inverse(self, x: str) -> str:
        return f"(!{x})"

    def negative(self, x: str, dtype: Dtype) -> str:
        return _wrapped(f"(-{x})", dtype)

    def select(self, condition: str, a: str, b: str, dtype: Dtype) -> str:
        return f"({condition} ? {a} : {b})"

    def call(self, name: str, arguments: Sequence[str], dtype: Dtype) -> str:
        if name == "mod" and dtype.kind != "f":
            name = "modWhole"
        return _wrapped(f"{'Math' if name in _MATH else 'h'}.{name}({', '.join(arguments)})", dtype)
