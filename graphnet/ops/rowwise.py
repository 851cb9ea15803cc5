"""Rowwise: ops defined by a loop over one row, which Numba compiles.

Numba is imported only when such an op runs or is compiled.
"""

from __future__ import annotations

import inspect
import linecache
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from graphnet.errors import BackendError, UsageError
from graphnet.graph.node import Array, Dtype, Node, Op, RowsOf, Shape
from graphnet.graph.provenance import Origin
from graphnet.graph.signature import parse
from graphnet.ops.kernel_content import content_of
from graphnet.ops.leaf import as_shape
from graphnet.settings import shown
from graphnet.system.process import has_compiler

Setting = float | int | bool
ROWS = "..."


class Typed(Protocol):
    """Shape and dtype of a node or an array."""

    @property
    def shape(self) -> Shape: ...

    @property
    def dtype(self) -> Dtype: ...


class RowLayout(NamedTuple):
    """Layout of the calls of a kernel, one for each row.

    rows: number of calls. cores: shapes of the output and of each input, as the kernel sees them. by_rows: True for
    those that have a row for each call; others are passed whole. more: the further parameters, in order: the value of a
    setting, or the shape of a scratch array.
    """

    rows: int
    cores: tuple[Shape, ...]
    by_rows: tuple[bool, ...]
    more: tuple[Setting | Shape, ...]


class Rowwise(Op):
    """y = a loop over x_1, ..., x_n, for each row

    Base class for your own ops that are loops. Set `signature`, with "..." for the axes of the rows, and `kernel`, a
    static function that computes y for one row in the Python that Numba compiles; `forward` follows. Define `backward`
    and `rop` if the op has derivatives.

    >>> class Largest(gn.Rowwise):
    ...     "y = max_i x_i of each row"
    ...
    ...     signature = "... n -> ..."
    ...
    ...     @staticmethod
    ...     def kernel(y, x):
    ...         y[()] = x[0]
    ...         for i in range(1, x.shape[0]):
    ...             y[()] = max(y[()], x[i])
    >>> x = gn.input((4, 3))
    >>> y = Largest()(x)
    >>> y.shape, y.op.row_layout(y, [x]).rows, y.op.scratch(y, x)
    ((4,), 4, {})
    """

    #: kernel(y, *inputs, ...): writes y for one row; a `staticmethod`, in the Python that Numba compiles. Its arrays
    #: are contiguous and lack the axes of `...`; without any other axis they are 0-d (`y[()] = x[()]`). Further
    #: parameters, by name, are settings (fields of the op that are numbers) and scratch arrays.
    kernel: ClassVar[Callable[..., None]]

    def scratch(self, y: Any, *inputs: Any) -> Mapping[str, Shape]:
        """Returns the shapes of the kernel's scratch arrays by the names of its parameters; none by default.

        y, inputs: the output and the inputs, nodes or arrays. Scratch arrays have y's dtype and are not initialized.
        """
        return {}

    # -- derived from the kernel ---------------------------------------------------------------------

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "kernel" in vars(cls) and not cls.signature:
            raise UsageError(
                f"{cls.__name__}: an op with a `kernel` needs a `signature`, such as '... n m -> ...': the axes "
                "after ... are those of the kernel's arrays."
            )

    @property
    def python_kernel(self) -> Callable[..., None]:
        """The kernel as a Python function."""
        found = inspect.getattr_static(self, "kernel", None)
        found = found.__func__ if isinstance(found, staticmethod) else found
        found = getattr(found, "py_func", found)
        if not inspect.isfunction(found):
            raise UsageError(
                f"{self.name}: `kernel` is {shown(found)}; it must be a function kernel(y, *inputs) that writes y."
            )
        return found

    def row_layout(self, y: Typed, inputs: Sequence[Typed]) -> RowLayout:
        """Returns the shapes with which the kernel is called.

        y, inputs: the output and the inputs, nodes or arrays. Raises UsageError for an unknown parameter of the kernel.
        """
        leading, mapped = self._leading(y), self._is_mapped
        by_rows = (mapped, *self._reads_rows())
        cores = tuple(
            x.shape[leading:] if own else x.shape for x, own in zip((y, *inputs), by_rows, strict=True)
        )
        return RowLayout(math.prod(y.shape[:leading]), cores, by_rows, self._more(y, inputs))

    def _more(self, y: Typed, inputs: Sequence[Typed]) -> tuple[Setting | Shape, ...]:
        function = self.python_kernel
        parameters = list(inspect.signature(function).parameters.values())
        named = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        place = Origin(function.__code__.co_filename, function.__code__.co_firstlineno)
        if len(named) < len(parameters) or len(named) <= len(inputs):
            raise UsageError(
                f"{self.name}: the kernel at {place} takes ({', '.join(map(str, parameters))}); it is called with the "
                f"output and {len(inputs)} input(s), in order, then settings and scratch memory by name."
            )
        settings, scratch = vars(self), self.scratch(y, *inputs)
        if not isinstance(scratch, Mapping):
            raise UsageError(
                f"{self.name}: `scratch` must return a dict of shapes by name, not {shown(scratch)}."
            )
        found: list[Setting | Shape] = []
        for name in named[1 + len(inputs) :]:
            value = settings.get(name)
            value = value.item() if isinstance(value, np.generic) else value
            if name in scratch:
                found.append(as_shape(scratch[name], f"{self.name}: scratch[{name!r}]"))
            elif isinstance(value, (bool, float)) or (isinstance(value, int) and -(2**63) <= value < 2**63):
                found.append(value)
            else:
                what = (
                    f"{shown(settings[name], 40)}, not a number that fits in 64 bits"
                    if name in settings
                    else "not a field of the op"
                )
                raise UsageError(
                    f"{self.name}: the parameter {name!r} of the kernel at {place} is {what}. After the output and "
                    f"{len(inputs)} input(s) come fields of the op that are numbers, and arrays that `scratch` names."
                )
        return tuple(found)

    def forward(self, *arrays: Array) -> Array:
        """Runs the kernel, compiled by Numba with bounds checks; as plain Python if Numba is not installed."""
        inputs = [np.asarray(x) for x in arrays]
        shape, dtype = self.infer(*inputs)  # type: ignore[arg-type]  # which looks at shapes and dtypes alone
        y = np.empty(shape, dtype)
        if y.size and not has_compiler():
            with np.errstate(all="ignore"):
                run_rows(self, self.python_kernel, y, inputs)
        elif y.size:
            from numba.core.errors import NumbaError, UnsupportedBytecodeError

            try:
                run_rows(self, _compiled(self.python_kernel), y, inputs)
            except (NumbaError, UnsupportedBytecodeError) as error:
                raise refused(self.name, self.python_kernel, error) from error
        return y

    # -- derived from the signature, which keeps rows apart ------------------------------------------

    @property
    def _is_mapped(self) -> bool:
        """True if the kernel is called for each row, False if once with whole arrays."""
        return parse(self.signature).output[:1] == (ROWS,)

    def _leading(self, y: Typed) -> int:
        return len(y.shape) - len(parse(self.signature).output) + 1 if self._is_mapped else 0

    def _reads_rows(self) -> list[bool]:
        """Returns for each input whether a row of y reads one row of it."""
        return [self._is_mapped and axes[:1] == (ROWS,) for axes in parse(self.signature).inputs]

    def row_offset(self, y: Node, *inputs: Node) -> int | None:
        return 0 if self._leading(y) and all(self._reads_rows()) else None

    def aligned_axes(self, axis: int, y: Node, *inputs: Node) -> Sequence[int | None] | None:
        return [axis if own else None for own in self._reads_rows()] if axis < self._leading(y) else None

    def rows(self, some: range, of: RowsOf, y: Node, *inputs: Node) -> Node | None:
        if not self._leading(y):
            return None
        found = [of(x, some) if own else x for x, own in zip(inputs, self._reads_rows(), strict=True)]
        return None if None in found else self(*found)


def run_rows(
    op: Rowwise,
    function: Callable[..., None],
    y: Array,
    inputs: Sequence[Array],
    unknown: float | None = None,
) -> None:
    """Calls the function for each row, as the op's kernel.

    unknown: initial value of scratch memory; None leaves it uninitialized. Inputs are read-only, as in Numba; boolean
    settings are integers, as in compiled code.
    """
    layout = op.row_layout(y, inputs)
    arrays = []
    for x, core, own in zip((y, *inputs), layout.cores, layout.by_rows, strict=True):
        rows = np.ascontiguousarray(x).reshape((layout.rows if own else 1, *core)).view()
        rows.flags.writeable = x is y
        arrays.append(rows)
    more: list[Any] = []
    for held in layout.more:
        if isinstance(held, tuple):
            memory = np.empty(held, y.dtype)
            if unknown is not None:
                memory.fill(unknown)
            more.append(memory)
        else:
            more.append(held if isinstance(held, float) else int(held))
    for i in range(layout.rows):
        # A row without axes is an array, not a number.
        function(*(a[i if own else 0, ...] for a, own in zip(arrays, layout.by_rows, strict=True)), *more)


def _compiled(function: Callable[..., None]) -> Callable[..., None]:
    return _compiled_as(function, content_of(function))


@cache
def _compiled_as(function: Callable[..., None], content: str | None) -> Callable[..., None]:
    """Compiles the function; content is part of the cache key, since global numbers may change."""
    import numba

    found: Callable[..., None] = numba.njit(boundscheck=True, error_model="numpy", nogil=True)(function)
    return found


#: Parts of Numba's messages -> remedy.
_REMEDIES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("Cannot modify readonly",),
        "A kernel may write only its output, which is its first parameter, and scratch memory; not its inputs.",
    ),
    (
        ("__svml",),
        "Set NUMBA_DISABLE_INTEL_SVML=1 before Numba is imported: compiled code cannot use Intel's library SVML.",
    ),
    (("IMPORT_NAME",), "A kernel cannot import: import modules at the top of the file."),
    (
        ("It would call",),
        "Compiled code cannot call Python: no printing, no random numbers, no lists, dictionaries or strings, and only "
        "those functions of `math` that C also has (for gamma: exp of lgamma).",
    ),
    (
        ("NRT required", "Only accept returning of array", "NRT_", "_ol_array_allocate"),
        "A kernel cannot create or copy arrays: write loops over numbers, and declare working memory in `scratch`.",
    ),
    (
        ("Untyped global name",),
        "A kernel may call functions of `math` and functions decorated with numba.njit.",
    ),
    (
        ("to none for",),
        "A kernel must not return a value: it writes its output, y[i] = ..., or y[()] = ... where y has no axes.",
    ),
)
_OTHERWISE = "Write it as loops over numbers, in the Python that Numba compiles."


def refused(name: str, function: Callable[..., Any], error: Exception | str) -> BackendError:
    """Returns the error for a kernel that Numba cannot compile: the user's line, Numba's reason, the remedy."""
    code, message = function.__code__, re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [int(n) for n in re.findall(re.escape(code.co_filename) + r" \((\d+)\)", message)]
    loc = getattr(error, "loc", None)
    if loc is not None and loc.filename == code.co_filename:
        lines.insert(0, loc.line)
    line = lines[0] if lines else code.co_firstlineno
    part, remedy = next(
        ((part, remedy) for parts, remedy in _REMEDIES for part in parts if part in message), ("", _OTHERWISE)
    )
    reasons = [
        text.strip() for text in message.splitlines() if text.strip() and not text.startswith("Failed in ")
    ]
    reason = next((text for text in reasons if part and part in text), " ".join(reasons[:2]))
    text = linecache.getline(code.co_filename, line).strip()
    return BackendError(
        f"{name}: its kernel cannot be compiled, at {Origin(code.co_filename, line)}"
        + (f"\n        {text}" if text else "")
        + f"\n    {'Numba: ' if isinstance(error, Exception) else ''}{reason[:300]}\n    {remedy}"
    )
