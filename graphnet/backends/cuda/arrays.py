"""DeviceArray: an array in the GPU's memory, with arithmetic and sums on the GPU.

It has the operations that optimizers need of a long vector, and no more. NumPy's own functions and operators work on it
(by NumPy's protocols). Operations that would copy it to the host raise an error, except explicit ones: np.asarray,
float, print.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numba import cuda
from numpy.lib.mixins import NDArrayOperatorsMixin

from graphnet.backends.cuda.device import SIMULATED, this_device
from graphnet.backends.cuda.exchange import CPU, CUDA, Borrowed, borrowed, capsule_of
from graphnet.backends.cuda.expressions import convert, evaluate
from graphnet.backends.cuda.kernels import compiled
from graphnet.backends.cuda.launch import GPU, ONE_THREAD, ThreadDivision
from graphnet.backends.cuda.loops import stepping
from graphnet.backends.cuda.source import INDEX, KernelSource, TypedName, array_name
from graphnet.errors import DtypeError, ShapeError
from graphnet.graph.dtypes import BOOL, FLOAT64, as_dtype
from graphnet.graph.node import Array, Dtype, Shape
from graphnet.plan.instructions import Step

#: NumPy's function -> the scalar expression of its inputs, see graphnet.graph.expression.
EXPRESSIONS: dict[Any, str] = {
    np.add: "x + y", np.subtract: "x - y", np.multiply: "x * y", np.divide: "x / y", np.negative: "-x",
    np.power: "x ** y", np.square: "x * x", np.sqrt: "sqrt(x)", np.exp: "exp(x)", np.log: "log(x)",
    np.absolute: "abs(x)", np.maximum: "x if x >= y or x != x else y", np.minimum: "x if x <= y or x != x else y",
    np.greater: "x > y", np.greater_equal: "x >= y", np.less: "x < y", np.less_equal: "x <= y", np.equal: "x == y",
    np.not_equal: "x != y", np.isfinite: "x - x == 0", np.positive: "x",
}  # fmt: skip
TESTS = (np.greater, np.greater_equal, np.less, np.less_equal, np.equal, np.not_equal, np.isfinite)


class DeviceArray(NDArrayOperatorsMixin):
    """A contiguous array on the GPU, row by row. `gn.place(array, "cuda")` makes one; np.asarray copies it back.

    Other libraries read it in place, by __cuda_array_interface__ or DLPack. Operands must have its shape, or be
    numbers. Raises ShapeError, DtypeError or TypeError for other operands.
    """

    #: Back end that computes with it in place (see gn.backend_of).
    backend: ClassVar[str] = "cuda"

    def __init__(self, memory: Any, owner: object, shape: Shape, dtype: Dtype) -> None:
        """memory: numbers of this dtype, contiguous; owner: the object that keeps them alive."""
        self.memory, self._owner, self.shape, self.dtype = memory, owner, shape, dtype

    # -- attributes --------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a DeviceArray without axes")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"DeviceArray({np.asarray(self)!r})"

    # -- to the host, and to other libraries -------------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError(
                "an array on the GPU cannot be read on the host without a copy; leave copy=False out"
            )
        result = np.empty(self.shape, self.dtype)
        if self.size:
            this_device().download(self.memory, result)
            this_device().wait()
        return result if dtype is None else result.astype(dtype)

    def __float__(self) -> float:
        return float(np.asarray(self))

    def __int__(self) -> int:
        return int(np.asarray(self))

    def __bool__(self) -> bool:
        return bool(np.asarray(self))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if SIMULATED:
            raise AttributeError("arrays of the simulator are in host memory, not on a GPU")
        return {
            "shape": self.shape, "typestr": self.dtype.str, "version": 3, "strides": None,
            "data": (this_device().address(self.memory), False), "stream": int(this_device().stream),
        }  # fmt: skip

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CPU, 0) if SIMULATED else (CUDA, this_device().number)

    def __dlpack__(self, *, stream: Any = None, **wishes: Any) -> Any:
        """A capsule of DLPack 0.x, which all libraries take; all work on it is done by then."""
        this_device().wait()
        return capsule_of(
            this_device().address(self.memory), self.shape, self.dtype, self.__dlpack_device__(), self._owner
        )

    # -- changing it -------------------------------------------------------------------------------------------------

    def __setitem__(self, key: Any, value: Any) -> None:
        """Sets all elements (`...`), or a range along the first axis."""
        target = self[key]
        _elementwise("x", (value,), target.dtype, target)

    def __getitem__(self, key: Any) -> DeviceArray:
        """All of it (`...`), or a range along the first axis: the same memory."""
        if key is Ellipsis:
            return self
        if not isinstance(key, slice) or not self.shape:
            raise TypeError(
                f"a DeviceArray of shape {list(self.shape)} supports only slices along its first axis, not {key!r}; "
                "copy it to the host with np.asarray(...)"
            )
        start, stop, step = key.indices(self.shape[0])
        if step != 1:
            raise TypeError(f"slices of a DeviceArray must have step 1, not {step}")
        row = self.size // max(self.shape[0], 1)
        stop = max(start, stop)
        piece = self.memory[start * row : stop * row]
        return DeviceArray(piece, self._owner, (stop - start, *self.shape[1:]), self.dtype)

    # -- computing ---------------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        expression = EXPRESSIONS.get(ufunc)
        (out,) = settings.pop("out", (None,))
        wanted = settings.pop("dtype", None)
        if method != "__call__" or expression is None or settings:
            raise TypeError(_refusal(f"np.{ufunc.__name__}"))
        if out is not None and not isinstance(out, DeviceArray):
            raise TypeError(f"np.{ufunc.__name__}: out= must be a DeviceArray, too")
        if wanted is None:
            wanted = _common_dtype(inputs)
            if wanted.kind != "f" and ufunc in (np.divide, np.sqrt, np.exp, np.log):
                wanted = FLOAT64
        return _elementwise(expression, inputs, np.dtype(wanted), out, BOOL if ufunc in TESTS else None)

    def __array_function__(self, function: Any, types: Any, arguments: Any, settings: Any) -> Any:
        own = FUNCTIONS.get(function)
        if own is None:
            raise TypeError(_refusal(f"np.{function.__name__}"))
        return own(*arguments, **settings)

    def astype(self, dtype: Any, copy: bool = True) -> DeviceArray:
        """As another dtype; itself where that changes nothing and copy=False."""
        wanted = np.dtype(dtype)
        return self if wanted == self.dtype and not copy else _elementwise("x", (self,), wanted, None)

    def copy(self) -> DeviceArray:
        return self.astype(self.dtype)

    def reshape(self, *shape: Any) -> DeviceArray:
        """View of the same memory with another shape."""
        wanted = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else tuple(shape)
        if -1 in wanted:
            rest = -math.prod(wanted)
            wanted = tuple(self.size // max(rest, 1) if n == -1 else n for n in wanted)
        if math.prod(wanted) != self.size:
            raise ShapeError(
                f"a DeviceArray of shape {list(self.shape)} cannot be reshaped to {list(wanted)}"
            )
        return DeviceArray(self.memory, self._owner, wanted, self.dtype)

    def ravel(self) -> DeviceArray:
        return self.reshape(self.size)

    def sum(self) -> Any:
        """The sum of all, in float64 where they are floats."""
        return _total("x", (self,), FLOAT64 if self.dtype.kind == "f" else INDEX)

    def any(self) -> bool:
        return bool(_total("x != 0", (self,), INDEX))

    def all(self) -> bool:
        return not _total("x == 0", (self,), INDEX)


def empty(shape: Shape, dtype: Dtype) -> DeviceArray:
    """An uninitialized array."""
    count = math.prod(shape)
    block = this_device().block(count * dtype.itemsize)
    return DeviceArray(block.numbers(count, dtype), block, shape, dtype)


def place(array: Any) -> DeviceArray:
    """A copy of the array on the GPU."""
    if isinstance(array, DeviceArray):
        return array.copy()
    source = np.asarray(array)
    source = source.astype(source.dtype.newbyteorder("="), copy=False)
    as_dtype(source.dtype)  # or DtypeError
    result = empty(source.shape, source.dtype)
    if source.size:
        this_device().upload(source, result.memory)
        this_device().wait()  # the source may change as soon as this returns
    return result


def as_device_array(array: Any) -> DeviceArray | None:
    """An array of any library as a DeviceArray with the same memory, if it is on this GPU; else None.

    ShapeError if it is not contiguous.
    """
    if isinstance(array, DeviceArray):
        return array
    if SIMULATED or isinstance(array, (np.ndarray, np.generic)):
        return None
    # DLPack first: it gives the GPU of the array, and makes our stream wait for pending work on the array.
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        if tuple(array.__dlpack_device__()) != (CUDA, this_device().number):
            return None
        return _of_borrowed(borrowed(array.__dlpack__(stream=int(this_device().stream))))
    if hasattr(array, "__cuda_array_interface__"):
        memory = cuda.as_cuda_array(array)
        if not memory.is_c_contiguous():
            raise ShapeError(_PIECES.format(list(memory.shape)))
        return DeviceArray(memory.reshape(memory.size), array, tuple(memory.shape), np.dtype(memory.dtype))
    return None


_PIECES = (
    "an array of shape {} on the GPU is not contiguous; make it contiguous first "
    "(x.contiguous(), cupy.ascontiguousarray(x))"
)


def _of_borrowed(array: Borrowed) -> DeviceArray:
    if array.strides is not None and math.prod(array.shape) > 1:
        step = 1
        for size, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
            if size != 1 and stride != step:
                raise ShapeError(_PIECES.format(list(array.shape)))
            step *= size
    interface = {
        "shape": (math.prod(array.shape),), "typestr": array.dtype.str, "version": 3, "strides": None,
        "data": (array.address, False),
    }  # fmt: skip
    memory = cuda.from_cuda_array_interface(interface, owner=array.holder)
    return DeviceArray(memory, array.holder, array.shape, array.dtype)


# -- elementwise -----------------------------------------------------------------------------------------------------


def _common_dtype(inputs: Sequence[Any]) -> Dtype:
    """NumPy's rule: Python numbers take the dtype of the other operand."""
    return np.result_type(*(x.dtype if isinstance(x, DeviceArray) else x for x in inputs))


def _elementwise(
    expression: str, inputs: Sequence[Any], dtype: Dtype, out: DeviceArray | None, result: Dtype | None = None
) -> DeviceArray:
    """dtype: dtype of the computation. result: dtype of the result, if different."""
    given = dtype if result is None else result
    shapes = [x.shape for x in inputs if isinstance(x, DeviceArray) and x.ndim]
    if out is not None:
        shapes.append(out.shape)
    shape = shapes[0] if shapes else ()
    operands = [_apart(_operand(x, shape), out) for x in inputs]
    if any(s != shape for s in shapes):
        raise ShapeError(
            f"arrays on the GPU have different shapes: {', '.join(str(list(s)) for s in shapes)}"
        )
    if out is not None and not np.can_cast(given, out.dtype, "same_kind"):
        raise DtypeError(f"out= must have a dtype that can hold {given}, not {out.dtype}")
    made = empty(shape, given) if out is None else out
    if made.size:
        kinds = tuple(_kind(x) for x in (made, *operands))
        text = ufunc_text(expression, kinds, dtype)
        _launch(text, (*kinds, "i8"), made.size, [made, *operands])
    return made


def _operand(x: Any, shape: Shape) -> Any:
    if isinstance(x, DeviceArray):
        return x if x.shape == shape else x.dtype.type(np.asarray(x)) if x.size == 1 else x
    value = np.asarray(x)
    if value.ndim == 0:
        return value[()]
    if value.shape != shape:
        raise ShapeError(
            f"an array of shape {list(value.shape)} does not match the array of shape {list(shape)} on the GPU"
        )
    return place(value)


def _apart(x: Any, out: DeviceArray | None) -> Any:
    """The operand, or a copy if it overlaps another range of `out`."""
    if not isinstance(x, DeviceArray) or out is None or x._owner is not out._owner or not x.size:
        return x
    address = this_device().address
    return x if address(x.memory) == address(out.memory) else x.copy()


def _kind(x: Any) -> str:
    return f"{array_name(x.dtype)}*" if isinstance(x, DeviceArray) else array_name(np.asarray(x).dtype)


@cache
def ufunc_text(expression: str, kinds: tuple[str, ...], dtype: Dtype) -> str:
    """out[i] = expression of the others at i. kinds: of out and of the inputs; "f4*" is an array, "f4" a number."""
    source = KernelSource()
    start = "cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x"
    with stepping(source, "i", start, "n", "cuda.blockDim.x * cuda.gridDim.x"):
        value = evaluate(source, Step(expression, dtype, ()), _read(source, kinds[1:], dtype))
        wanted = np.dtype(kinds[0].rstrip("*"))
        source.line(f"out[i] = {convert(source, value, wanted)}")
    return source.text(["out", *(f"a{k}" for k in range(len(kinds) - 1)), "n"])


def _read(source: KernelSource, kinds: Sequence[str], dtype: Dtype) -> list[TypedName]:
    found = []
    for k, kind in enumerate(kinds):
        own = np.dtype(kind.rstrip("*"))
        found.append(
            convert(source, source.assign(f"a{k}[i]" if kind.endswith("*") else f"a{k}", own), dtype)
        )
    return found


def _division() -> ThreadDivision:
    return ONE_THREAD if SIMULATED else GPU


def _launch(text: str, kinds: tuple[str, ...], work: int, arguments: Sequence[Any]) -> None:
    division = _division()
    blocks = max(1, min(-(-work // division.threads), division.most[0], 8 * division.blocks))
    given = [x.memory if isinstance(x, DeviceArray) else x for x in arguments]
    compiled(text, kinds)[blocks, division.threads, this_device().stream](*given, work)


# -- sums ------------------------------------------------------------------------------------------------------------


def _total(expression: str, inputs: Sequence[DeviceArray], dtype: Dtype) -> Any:
    """Σ expression in a fixed order: parts by blocks, then the sum of parts by one block."""
    shapes = {x.shape for x in inputs}
    if len(shapes) > 1:
        raise ShapeError(
            f"arrays on the GPU have different shapes: {', '.join(str(list(s)) for s in shapes)}"
        )
    work, division = inputs[0].size, _division()
    inside = np.result_type(*(x.dtype for x in inputs)) if dtype == INDEX else dtype
    blocks = max(1, min(division.blocks, work // (4 * division.threads)))
    parts = empty((blocks,), dtype)
    _sum(expression, inputs, inside, parts, division)
    if blocks > 1:
        whole = empty((1,), dtype)
        _sum("x", [parts], dtype, whole, division)
        parts = whole
    return np.asarray(parts)[0]


def _sum(
    expression: str,
    inputs: Sequence[DeviceArray],
    inside: Dtype,
    parts: DeviceArray,
    division: ThreadDivision,
) -> None:
    kinds = (_kind(parts), *map(_kind, inputs))
    text = sum_text(expression, kinds, inside, division.threads)
    kernel = compiled(text, (*kinds, "i8"))
    kernel[parts.size, division.threads, this_device().stream](
        parts.memory, *(x.memory for x in inputs), inputs[0].size
    )


@cache
def sum_text(expression: str, kinds: tuple[str, ...], dtype: Dtype, threads: int) -> str:
    """out[block] = Σ of the block's elements. dtype: in which the expression is computed."""
    source, total = KernelSource(), np.dtype(kinds[0].rstrip("*"))
    source.line("t = cuda.threadIdx.x")
    source.line(f"sum = {total.name}(0)")
    start = f"cuda.blockIdx.x * {threads} + t"
    with stepping(source, "i", start, "n", f"{threads} * cuda.gridDim.x"):
        value = evaluate(
            source,
            Step(expression, BOOL if "=" in expression else dtype, ()),
            _read(source, kinds[1:], dtype),
        )
        source.line(f"sum += {source.assign(str(value), total)}")
    if threads > 1:
        source.shared("shared", str(threads), total)
        source.line("shared[t] = sum")
        source.line("cuda.syncthreads()")
        half = threads // 2
        while half:
            with source.block(f"if t < {half}"):
                source.line(f"shared[t] += shared[t + {half}]")
            source.line("cuda.syncthreads()")
            half //= 2
        source.line("sum = shared[0]")
    with source.block("if t == 0"):
        source.line("out[cuda.blockIdx.x] = sum")
    return source.text(["out", *(f"a{k}" for k in range(len(kinds) - 1)), "n"])


# -- NumPy's functions -----------------------------------------------------------------------------------------------


def _refusal(name: str) -> str:
    return f"{name} does not support arrays on the GPU; copy a DeviceArray to the host with np.asarray(...)"


def _sum_of(x: DeviceArray, axis: Any = None) -> Any:
    if axis is not None:
        raise TypeError(_refusal("np.sum along an axis"))
    return x.sum()


def _inner(subscripts: Any, *operands: Any) -> Any:
    if subscripts != "i,i->" or not all(isinstance(x, DeviceArray) for x in operands):
        raise TypeError(_refusal(f"np.einsum({subscripts!r})"))
    return _total("x * y", operands, FLOAT64)


def _zeros_like(x: DeviceArray, dtype: Any = None) -> DeviceArray:
    result = empty(x.shape, x.dtype if dtype is None else np.dtype(dtype))
    result[...] = 0
    return result


def _where(condition: DeviceArray, x: Any, y: Any) -> DeviceArray:
    return _elementwise("y if x != 0 else z", (condition, x, y), _common_dtype((x, y)), None)


def _clip(x: DeviceArray, low: Any, high: Any) -> DeviceArray:
    return np.minimum(np.maximum(x, low), high)


def _concatenate(arrays: Sequence[DeviceArray]) -> DeviceArray:
    if any(x.ndim != 1 for x in arrays):
        raise TypeError(_refusal("np.concatenate of arrays with several axes"))
    result = empty((sum(x.size for x in arrays),), np.result_type(*(x.dtype for x in arrays)))
    at = 0
    for x in arrays:
        result[at : at + x.size] = x
        at += x.size
    return result


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.sum: _sum_of, np.einsum: _inner, np.zeros_like: _zeros_like, np.where: _where, np.clip: _clip,
    np.concatenate: _concatenate, np.copy: lambda x: x.copy(), np.any: lambda x: x.any(), np.all: lambda x: x.all(),
    np.empty_like: lambda x: empty(x.shape, x.dtype), np.shape: lambda x: x.shape, np.ravel: lambda x: x.ravel(),
    np.reshape: lambda x, shape: x.reshape(shape),
}  # fmt: skip
