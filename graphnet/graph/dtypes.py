"""Dtypes of nodes, and their promotion.

NumPy's promotion holds, with two exceptions that protect float32 work: a number (Python's or a NumPy
scalar) takes the dtype of the other operand, and an integer array with a float32 node is an error
(NumPy would silently return float64).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphnet.errors import DtypeError, ShapeError, table_of_inputs
from graphnet.settings import shown

if TYPE_CHECKING:
    from graphnet.graph.node import Node

FLOAT32, FLOAT64 = np.dtype("float32"), np.dtype("float64")
INT64, BOOL = np.dtype("int64"), np.dtype("bool")


def as_dtype(dtype: Any) -> np.dtype[Any]:
    """Returns the NumPy dtype; raises DtypeError if nodes cannot have it."""
    try:
        if dtype is None:  # which NumPy takes for float64
            raise TypeError
        result = np.dtype(dtype)
    except (TypeError, ValueError):
        raise DtypeError(
            f"{shown(dtype)} is not a dtype; use 'float32', 'float64', 'int64' or 'bool'"
        ) from None
    if result in (FLOAT32, FLOAT64) or (result.kind in "iub" and result.isnative):
        return result
    own = result.newbyteorder("=").name if result.kind in "iubf" and not result.isnative else "float32"
    raise DtypeError(
        f"dtype {result} is not supported: a node holds float32, float64, integers or booleans, in this machine's "
        f"order of bytes. Convert the array first, e.g. array.astype({own!r})."
    )


def is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f"


def common_dtype(op_name: str, nodes: Sequence[Node]) -> np.dtype[Any]:
    """Returns NumPy's promotion of the nodes' dtypes; raises DtypeError for an integer array with float32."""
    first = nodes[0].dtype
    if all(node.dtype == first for node in nodes):
        return first
    dtypes = [node.dtype for node in nodes]
    if FLOAT32 in dtypes and FLOAT64 not in dtypes and any(d.kind in "iu" for d in dtypes):
        raise DtypeError(
            f"{op_name}: an input is float32 and another {next(d for d in dtypes if d.kind in 'iu')}; cast one of "
            f"them, e.g. gn.cast(node, 'float32')." + table_of_inputs(nodes)
        )
    return np.result_type(*dtypes)


def limits(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Returns bounds (exclusive) between which floats can be truncated to this integer dtype."""
    info = np.iinfo(dtype)
    return float(info.min), float(info.max + 1)


def of_nan(dtype: np.dtype[Any]) -> int:
    """Returns the integer that NaN becomes, never a valid index: the smallest, or the largest if unsigned."""
    info = np.iinfo(dtype)
    return int(info.min or info.max)


def converted(x: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Casts x; floats that an integer cannot hold become the nearest one that it can, and NaN `of_nan`.

    (In C, and so in NumPy, the result depends on the machine.)
    """
    if x.dtype.kind != "f" or dtype.kind not in "iu":
        return x.astype(dtype)
    low, high = limits(dtype)
    inside = (low < x) & (x < high)
    if inside.all():
        return x.astype(dtype)
    most, least, none = (dtype.type(n) for n in (np.iinfo(dtype).max, np.iinfo(dtype).min, of_nan(dtype)))
    outside = np.where(x >= high, most, np.where(x <= low, least, none))
    return np.where(inside, np.where(inside, x, 0).astype(dtype), outside)


def require_unmasked(what: str, array: Any) -> None:
    """Raises DtypeError for a masked array, whose mask NumPy would drop."""
    if isinstance(array, np.ma.MaskedArray):
        raise DtypeError(
            f"{what} cannot take a masked array, whose mask would be lost: write array.filled(value), and keep the "
            "mask as an array of its own, e.g. for gn.where(mask, x, 0)."
        )


def assign(held: np.ndarray[Any, Any], value: Any, what: str) -> None:
    """Sets held[...] = value; raises ShapeError or DtypeError, with `what` in the message, if it does not fit."""
    require_unmasked(what, value)
    try:
        new = np.asarray(value)
    except ValueError as error:
        raise ShapeError(f"{what} needs an array: {error}.") from None
    if new.shape != held.shape:
        raise ShapeError(
            f"{what} cannot take a value of shape {list(new.shape)}; its shape is {list(held.shape)}."
        )
    if not np.can_cast(new.dtype, held.dtype, "same_kind"):
        raise DtypeError(f"{what} is {held.dtype}, and cannot take a value of {new.dtype}.")
    held[...] = held_as(new, held.dtype, what)


def held_as(array: np.ndarray[Any, Any], dtype: np.dtype[Any], what: str) -> np.ndarray[Any, Any]:
    """Casts the array; raises DtypeError, with `what` in the message, if a finite number would become infinite."""
    if array.dtype == dtype:
        return array
    try:
        with np.errstate(over="raise"):
            return array.astype(dtype)
    except FloatingPointError:
        largest = float(np.max(np.abs(array[np.isfinite(array)])))
        raise DtypeError(f"{what} is {dtype}, which cannot hold {largest:.3g}.") from None
