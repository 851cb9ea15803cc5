"""Loops as C functions: a nest of counted loops, with sizes and strides as constants."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack

from graphnet.backends.compiled.expressions import Fold, evaluate
from graphnet.plan.axes import joined, operand_strides
from graphnet.plan.instructions import Load, Loop
from graphnet.plan.views import View
from graphnet.standalone_c.expressions import CEmitter, Helpers
from graphnet.standalone_c.language import c_type, literal
from graphnet.standalone_c.source import CBody, CFunction, index, parameters

#: A nest's axis: its variable ("0" if it has one place), its size, and the strides of all operands.
Axis = tuple[str, int, Sequence[int | None]]


def loop_kernel(loop: Loop, helpers: Helpers) -> tuple[CFunction, list[View]]:
    """The function of a loop, and its arguments: those of the loop's views that it needs."""
    return _Nest(loop, helpers).kernel()


class _Nest:
    def __init__(self, loop: Loop, helpers: Helpers) -> None:
        self.loop, self.helpers, self.source = loop, helpers, CBody()
        inputs = sum((load.data is not None) + (load.at is not None) for load in loop.loads)
        self.arrays = [f"x{k}" if k < inputs else f"y{k - inputs}" for k in range(len(loop.views))]
        self.targets = self.arrays[inputs:]
        self.used = self._used()
        tables = operand_strides(loop)
        self.kept = self._axes([a for a in range(len(loop.shape)) if a not in loop.reduced], tables, "i")
        self.inner = self._axes(list(loop.reduced), tables, "k")
        #: Load -> the name of the row (or column) that its index has found.
        self.found: dict[int, str] = {}
        #: Variables of the loops that are open.
        self.opened: list[str] = []

    def _used(self) -> set[int]:
        loop = self.loop
        pending = [number for number, _ in loop.stores] + [r.number for r in loop.reductions]
        found: set[int] = set()
        while pending:
            number = pending.pop()
            if number not in found:
                found.add(number)
                pending += loop.steps[number - len(loop.loads)].sources if number >= len(loop.loads) else ()
        return found | {k for k, load in enumerate(loop.loads) if load.kind != "plain"}

    def _axes(self, axes: list[int], tables: list[list[int | None]], letter: str) -> list[Axis]:
        loop = self.loop
        if loop.looks_up:  # a lookup counts the loop's own axes
            names = ["0" if loop.shape[a] == 1 else f"{letter}{a}" for a in axes]
            return [(n, loop.shape[a], [t[a] for t in tables]) for n, a in zip(names, axes, strict=True)]
        found = joined(axes, loop.shape, tables)
        return [(f"{letter}{n}", size, strides) for n, (size, strides) in enumerate(found)]

    def kernel(self) -> tuple[CFunction, list[View]]:
        loop, source = self.loop, self.source
        folds = [Fold(r.how, loop.dtype_of(r.number)) for r in loop.reductions]
        with ExitStack() as nest:
            self._open(nest, self.kept)
            for k, fold in enumerate(folds):
                source.line(f"{c_type(fold.kept)} s{k} = {literal(fold.identity, fold.kept)};")
            with ExitStack() as inside:
                self._open(inside, self.inner)
                self._point(folds)
            for k, (fold, reduction) in enumerate(zip(folds, loop.reductions, strict=True)):
                to = reduction.view.dtype
                value = (
                    f"s{k}" if fold.kept == to else CEmitter(self.helpers, []).convert(f"s{k}", fold.kept, to)
                )
                source.line(f"{self._element(len(loop.loads) + len(loop.stores) + k)} = {value};")
        if loop.looks_up:
            source.line("return 0;")
        words = set(re.findall(r"\w+", source.text))
        kept = [(view, name) for view, name in zip(loop.views, self.arrays, strict=True) if name in words]
        views, names = [view for view, _ in kept], [name for _, name in kept]
        head = parameters(views, names, sum(name in self.targets for name in names))
        return CFunction("loop", head, source.text, loop.looks_up), views

    def _open(self, nest: ExitStack, axes: Sequence[Axis]) -> None:
        self._look_up()
        for name, size, _ in axes:
            if name != "0":
                nest.enter_context(self.source.counted(name, size))
            self._look_up(name)

    # -- lookups -----------------------------------------------------------------------------------------------------

    def _variables(self) -> dict[int, str]:
        kept = [a for a in range(len(self.loop.shape)) if a not in self.loop.reduced]
        order = [*kept, *self.loop.reduced]
        return {a: axis[0] for a, axis in zip(order, [*self.kept, *self.inner], strict=True)}

    def _look_up(self, opened: str | None = None) -> None:
        """Looks up the rows whose index depends only on loops that are already open."""
        loop = self.loop
        if not loop.looks_up:
            return
        if opened is not None:
            self.opened.append(opened)
        variables = self._variables()
        number = 0
        for k, (load, twin) in enumerate(zip(loop.loads, loop.twins, strict=True)):
            array = self.arrays[number + (load.data is not None)] if load.at is not None else ""
            number += (load.data is not None) + (load.at is not None)
            if load.at is None or k in self.found:
                continue
            axes = [1] if load.kind == "columns" else range(len(load.at.shape))
            if any(variables[a] not in (*self.opened, "0") for a in axes):
                continue
            if twin >= 0:
                self.found[k] = self.found[twin]
                continue
            self.found[k] = f"r{k}"
            at = index(*((variables[a], s) for a, s in zip(axes, load.at.strides, strict=True)))
            self.source.line(f"const int64_t r{k} = (int64_t){array}[{at}];")
            self.source.line(f"if (r{k} < 0 || r{k} >= {load.depth})")
            self.source.line("    return 1;")

    def _loaded(self, k: int, load: Load, array: str) -> str:
        if load.kind == "plain":
            return self._element(k, array)
        variables = self._variables()
        row = self.found[k]
        if load.kind == "one_hot":
            last = variables[len(self.loop.shape) - 1]
            return f"({c_type(load.dtype)})({row} == {last})"
        assert load.data is not None
        strides = load.data.strides
        if load.kind == "columns":
            return f"{array}[{index((variables[0], strides[0]), (row, strides[1]))}]"
        assert load.at is not None
        first = len(load.at.shape)
        rest = ((variables[first + a], s) for a, s in enumerate(strides[1:]))
        return f"{array}[{index((row, strides[0]), *rest)}]"

    # -- a point -----------------------------------------------------------------------------------------------------

    def _element(self, operand: int, array: str | None = None) -> str:
        array = self.targets[operand - len(self.loop.loads)] if array is None else array
        terms = ((name, strides[operand]) for name, _, strides in [*self.kept, *self.inner])
        return f"{array}[{index(*terms)}]"

    def _point(self, folds: Sequence[Fold]) -> None:
        loop, source, lines = self.loop, self.source, list[str]()
        names: list[str] = []
        number = 0
        for k, load in enumerate(loop.loads):
            if k in self.used:
                loaded = self._loaded(k, load, self.arrays[number])
                lines.append(f"const {c_type(load.dtype)} v{k} = {loaded};")
            number += (load.data is not None) + (load.at is not None)
            names.append(f"v{k}")
        emitter = CEmitter(self.helpers, lines)
        for k, step in enumerate(loop.steps, len(loop.loads)):
            if k not in self.used:
                names.append("")
                continue
            dtypes = [loop.dtype_of(s) for s in step.sources]
            value = evaluate(emitter, step, [names[s] for s in step.sources], dtypes)
            if step.sources:
                lines.append(f"const {c_type(step.dtype)} v{k} = {value};")
                value = f"v{k}"
            names.append(value)
        for k, (of, _) in enumerate(loop.stores):
            lines.append(f"{self._element(len(loop.loads) + k)} = {names[of]};")
        for k, (fold, reduction) in enumerate(zip(folds, loop.reductions, strict=True)):
            x = names[reduction.number]
            if fold.kept != fold.dtype:
                x = emitter.convert(x, fold.dtype, fold.kept)
            lines.append(f"s{k} = {fold.combined(emitter, f's{k}', x, fold.kept)};")
        for line in lines:
            source.line(line)
