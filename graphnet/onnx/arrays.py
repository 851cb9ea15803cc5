"""Export to ONNX of all ops that are not elementwise; inputs have their whole shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from graphnet.errors import UsageError
from graphnet.graph.dtypes import BOOL, FLOAT32, INT64, is_float
from graphnet.graph.node import Array, Op
from graphnet.onnx.call import Call, Value
from graphnet.onnx.elementwise import Saying
from graphnet.onnx.sizes import Extent, Size
from graphnet.ops import index, leaf, linear, reduce, shape
from graphnet.ops.broadcast import BroadcastTo, Sum
from graphnet.ops.surrogate import Surrogate

#: Before the first element, for a slice downwards.
FRONT = np.iinfo(np.int64).min


# -- leaves and labels, whose values may have shapes that broadcast ----------------------------------


def _first(call: Call) -> Value:
    return call.inputs[0]


def _parameter(call: Call) -> Value:
    return Value(call.writer.parameter(call.node), call.node.shape)


def _fill(call: Call) -> Value:
    """Returns one number, which may be the number of cases or its reciprocal, as in a mean."""
    one, *others = found = call.twins.numbers(call.node)
    if isinstance(one, float) and any(other != one for other in others):
        whole = one * call.twins.cases[0]
        if all(
            math.isclose(each * count, whole) for each, count in zip(found, call.twins.cases, strict=True)
        ):
            count = call.cast(call.writer.scalar(Size(1)), call.dtype)
            return Value(call.say("Div", call.number(whole), count), ())
    number = call.twins.merged(call.node, found)
    if isinstance(number, Size):
        return Value(call.cast(call.writer.scalar(number), call.dtype), ())
    return Value(call.number(number), ())


def _constant(call: Call) -> Value:
    one, *others = found = call.twins.arrays(call.node)
    if all(other.shape == one.shape for other in others):
        if not all(np.array_equal(one, other, equal_nan=is_float(one.dtype)) for other in others):
            raise _depends(call)
        return Value(call.writer.constant(one), one.shape)
    ranges = one.ndim == 1 and one.dtype.kind in "iu" and all(map(_is_range, found))
    if ranges and all((other[:2] == one[:2]).all() for other in others):
        return Value(_range(call, one), call.shape)
    # All cases are equal: store one, which broadcasts.
    key = tuple(slice(0, 1) if isinstance(n, Size) else slice(None) for n in call.shape)
    row = one[key]
    if not all(each[key].shape == row.shape and np.all(each == row) for each in found):
        raise _depends(call)
    return Value(call.writer.constant(row), row.shape)


def _is_range(array: Array) -> bool:
    return len(array) > 1 and bool(np.all(np.diff(array) == array[1] - array[0]))


def _range(call: Call, array: Array) -> str:
    """Returns first + step · i."""
    count = call.writer.scalar(call.shape[0])
    start, step = int(array[0]), int(array[1]) - int(array[0])
    found = call.say("Range", call.number(0, INT64), count, call.number(1, INT64))
    if step != 1:
        found = call.say("Mul", found, call.number(step, INT64))
    if start:
        found = call.say("Add", found, call.number(start, INT64))
    return found if call.dtype == INT64 else call.cast(found, call.dtype)


def _depends(call: Call) -> UsageError:
    return UsageError(
        f"export_onnx: the constant {call.node.describe()} (made at {call.node.origin}) depends on the batch size "
        "in a way that ONNX cannot express; export with a fixed batch size (pass nodes, not a function), or make it an "
        "input."
    )


LOOSE = {
    leaf.Parameter: _parameter,
    leaf.Constant: _constant,
    leaf.Fill: _fill,
    leaf.Zeros: _fill,
    leaf.Label: _first,
    leaf.StopGradient: _first,
    leaf.After: _first,
    Surrogate: _first,
    BroadcastTo: _first,
}


# -- shapes ----------------------------------------------------------------------------------------


def _reshape(call: Call) -> str:
    to: Sequence[Extent] = call.shape
    open_ones = [n for n in to if isinstance(n, Size)]
    if len(open_ones) == 1 and 0 not in to:
        return call.say(
            "Reshape", call.full(), call.integers(*(-1 if isinstance(n, Size) else n for n in to))
        )
    return call.say("Reshape", call.full(), call.writer.sizes(to), allowzero=1)


def _transpose(call: Call) -> str:
    return call.say("Transpose", call.full(), perm=list(call.setting("axes")))


def _slice(call: Call) -> str:
    x, shape = call.full(), call.input_shape()
    cut: list[tuple[int, Extent, Extent, int]] = []
    dropped = []
    for axis, (entry, size) in enumerate(zip(call.setting("key"), shape, strict=True)):
        if isinstance(entry, int):
            cut.append((axis, entry, entry + 1, 1))
            dropped.append(axis)
        elif isinstance(entry, Size):  # a case, counted from the last
            raise UsageError(
                f"export_onnx: {call.node.describe()} (made at {call.node.origin}) reads a case whose position "
                "depends on the batch size; export with a fixed batch size (pass nodes, not a function)."
            )
        elif entry != (0, size, 1):
            start, stop, step = entry
            if isinstance(step, Size):
                raise UsageError(
                    f"export_onnx: {call.node.describe()} (made at {call.node.origin}) has a step that depends on the "
                    "batch size; export with a fixed batch size (pass nodes, not a function)."
                )
            cut.append((axis, start, FRONT if step < 0 and stop == -1 else stop, step))
    if cut:
        axes, starts, stops, steps = zip(*cut, strict=True)
        sizes = call.writer.sizes
        x = call.say("Slice", x, sizes(starts), sizes(stops), call.integers(*axes), call.integers(*steps))
    return call.say("Squeeze", x, call.integers(*dropped)) if dropped else x


def _pad(call: Call) -> str:
    """Pads x with zeros; zeros between its elements are rows that a lookup inserts."""
    x, key, to, shape = (
        call.wide(call.full(), call.dtype),
        call.setting("key"),
        call.shape,
        [*call.input_shape()],
    )
    zero = call.wide(call.number(0), call.dtype)
    new = [axis for axis, entry in enumerate(key) if isinstance(entry, int)]
    for axis in new:
        shape.insert(axis, 1)
    if new:
        x = call.say("Unsqueeze", x, call.integers(*new))
    before: list[Extent] = [0] * len(to)
    after: list[Extent] = [0] * len(to)
    for axis, (entry, size) in enumerate(zip(key, to, strict=True)):
        start, stop, step = (entry, entry + 1, 1) if isinstance(entry, int) else entry
        if step == -1:  # reverse x, and pad it upwards
            ends = call.integers(-1), call.integers(FRONT)
            x = call.say("Slice", x, *ends, call.integers(axis), call.integers(-1))
            start, stop, step = _less(stop, -1), _less(start, -1), 1
        if step == 1:
            before[axis], after[axis] = start, _less(size, stop)
            continue
        if any(isinstance(n, Size) for n in (start, stop, step, size)):
            raise UsageError(
                f"export_onnx: {call.node.describe()} (made at {call.node.origin}) is the gradient of a slice with a "
                "step, or a padding, along an axis whose size depends on the batch size; export with a fixed batch "
                "size (pass nodes, not a function)."
            )
        among = range(start, stop, step)
        places = np.full(size, len(among))
        places[list(among)] = np.arange(len(among))
        one_more = [0] * len(to) + [int(i == axis) for i in range(len(to))]
        x = call.say("Pad", x, call.integers(*one_more), zero)
        x = call.say("Gather", x, call.writer.constant(places), axis=axis)
    if any([*before, *after]):
        x = call.say("Pad", x, call.writer.sizes([*before, *after]), zero)
    return call.narrow(x)


def _less(size: Extent, by: Extent) -> Extent:
    if isinstance(size, int) and isinstance(by, int):
        return size - by
    a, b = (n if isinstance(n, Size) else Size(0, n) for n in (size, by))
    found = Size(a.per_case - b.per_case, a.plus - b.plus)
    return found if found.per_case else found.plus


def _concatenate(call: Call) -> str:
    parts = [call.full(i) for i in range(len(call.inputs))]
    return call.say("Concat", *parts, axis=call.setting("axis"))


def _stack(call: Call) -> str:
    axis = call.setting("axis")
    parts = [call.say("Unsqueeze", call.full(i), call.integers(axis)) for i in range(len(call.inputs))]
    return call.say("Concat", *parts, axis=axis)


# -- sums and products -------------------------------------------------------------------------------


def _sum(call: Call) -> str:
    x = call.wide(call.full(), call.dtype)
    return call.narrow(call.say("ReduceSum", x, call.integers(*call.setting("axes")), keepdims=0))


def _extreme(operator: str) -> Saying:
    def written(call: Call) -> str:
        x, axes = call.full(), list(call.setting("axes"))
        if is_float(call.dtype):
            return call.writer.extreme(operator, x, axes, call.dtype)
        return call.narrow(call.say(operator, call.wide(x, call.dtype), axes=axes, keepdims=0))

    return written


def _argmax(call: Call) -> str:
    x, axis = call.full(), call.setting("axis")
    if not is_float(call.input_dtype()):  # runtimes support floats only: first position of the maximum
        x = call.wide(x, call.input_dtype())
        most = call.say("ReduceMax", x, axes=[axis], keepdims=1)
        x = call.cast(call.say("Equal", x, most), FLOAT32)
        return call.say("ArgMax", x, axis=axis, keepdims=0)
    found, wrong = call.say("ArgMax", x, axis=axis, keepdims=0), call.writer.is_nan(x)
    first = call.say("ArgMax", wrong, axis=axis, keepdims=0)
    any_wrong = call.cast(call.say("ReduceMax", wrong, axes=[axis], keepdims=0), BOOL)
    return call.say("Where", any_wrong, first, found)


def _cumsum(call: Call) -> str:
    x, axis = call.wide(call.full(), call.dtype), call.number(call.setting("axis"), INT64)
    return call.narrow(call.say("CumSum", x, axis, reverse=int(call.setting("reverse"))))


def _over_axis(operator: str) -> Saying:
    return lambda call: call.say(operator, call.full(), axis=call.setting("axis"))


def _matmul(call: Call) -> str:
    return call.narrow(call.say("MatMul", *(call.wide(call.full(i), call.dtype) for i in range(2))))


# -- indices -----------------------------------------------------------------------------------------


def _index(call: Call, i: int) -> str:
    return call.full(i) if call.input_dtype(i) == INT64 else call.cast(call.full(i), INT64)


def _take(call: Call) -> str:
    return call.say("Gather", call.full(), _index(call, 1), axis=call.setting("axis"))


def _scatter_add(call: Call) -> str:
    """Adds along the axis element by element, with one index for each element."""
    axis, size = call.setting("axis"), call.setting("size")
    count = len(call.input_shape(1))
    shape = call.input_shape()
    length = math.prod(n for n in shape[axis : axis + count] if isinstance(n, int))
    if any(isinstance(n, Size) for n in call.input_shape(1)):
        raise UsageError(
            f"export_onnx: {call.node.describe()} (made at {call.node.origin}) adds rows by an index for each case, "
            "which needs a fixed batch size; pass nodes, not a function."
        )
    rows = (*shape[:axis], length, *shape[axis + count :])
    zeros = call.say(
        "Expand",
        call.wide(call.number(0), call.dtype),
        call.writer.sizes((*rows[:axis], size, *rows[axis + 1 :])),
    )
    if 0 in rows:  # ONNX Runtime raises an error for an empty scatter
        return call.narrow(zeros)
    x, at = call.wide(call.full(), call.dtype), _index(call, 1)
    if count != 1:
        x = call.say("Reshape", x, call.writer.sizes(rows), allowzero=1)
    column = [length if i == axis else 1 for i in range(len(rows))]
    at = call.say("Reshape", at, call.integers(*column), allowzero=1)
    at = call.say("Expand", at, call.writer.sizes(rows))
    return call.narrow(call.say("ScatterElements", zeros, at, x, axis=axis, reduction="add"))


def _one_hot(call: Call) -> str:
    """Looks up the index among all symbols first, so that an index out of range is an error, not zeros."""
    depth = call.setting("depth")
    if isinstance(depth, Size):
        symbols = call.say("Range", call.number(0, INT64), call.writer.scalar(depth), call.number(1, INT64))
    else:
        symbols = call.writer.constant(np.arange(depth))
    known = call.say("Gather", symbols, _index(call, 0))
    same = call.say("Equal", call.say("Unsqueeze", known, call.integers(-1)), symbols)
    return call.cast(same, call.dtype)


ARRAYS: dict[type[Op], Saying] = {
    shape.Reshape: _reshape,
    shape.Transpose: _transpose,
    shape.Slice: _slice,
    shape.Pad: _pad,
    shape.Concatenate: _concatenate,
    shape.Stack: _stack,
    Sum: _sum,
    reduce.Max: _extreme("ReduceMax"),
    reduce.Min: _extreme("ReduceMin"),
    reduce.ArgMax: _argmax,
    reduce.CumSum: _cumsum,
    reduce.Softmax: _over_axis("Softmax"),
    reduce.LogSoftmax: _over_axis("LogSoftmax"),
    linear.MatMul: _matmul,
    linear.BatchMatMul: _matmul,
    index.Take: _take,
    index.ScatterAdd: _scatter_add,
    index.OneHot: _one_hot,
}
