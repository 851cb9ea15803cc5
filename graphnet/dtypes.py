"""Which dtypes a node may have, and what two of them make together.

NumPy's promotion holds, with two exceptions that protect float32 work: a number (Python's or a NumPy
scalar) takes the dtype of the node beside it, and an integer array beside a float32 node is an error
(NumPy would silently answer float64).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphnet.errors import DtypeError, table_of_inputs

if TYPE_CHECKING:
    from graphnet.node import Node

__all__ = ["BOOL", "FLOAT32", "FLOAT64", "INT64", "as_dtype", "common_dtype", "is_float"]

FLOAT32, FLOAT64 = np.dtype("float32"), np.dtype("float64")
INT64, BOOL = np.dtype("int64"), np.dtype("bool")


def as_dtype(dtype: Any) -> np.dtype[Any]:
    """The NumPy dtype, or DtypeError where graphnet has no arithmetic for it."""
    try:
        result = np.dtype(dtype)
    except TypeError:
        raise DtypeError(f"{dtype!r} is not a dtype; use 'float32', 'float64', 'int64' or 'bool'") from None
    if result in (FLOAT32, FLOAT64) or result.kind in "iub":
        return result
    raise DtypeError(
        f"dtype {result} is not supported: a node holds float32, float64, integers or booleans. "
        "Convert the array first, e.g. array.astype('float32')."
    )


def is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f"


def common_dtype(op_name: str, nodes: Sequence[Node]) -> np.dtype[Any]:
    """NumPy's promotion of the nodes' dtypes; DtypeError for an integer array beside float32."""
    first = nodes[0].dtype
    if all(node.dtype == first for node in nodes):
        return first
    dtypes = [node.dtype for node in nodes]
    if FLOAT32 in dtypes and FLOAT64 not in dtypes and any(d.kind in "iu" for d in dtypes):
        raise DtypeError(
            f"{op_name}: NumPy would promote float32 with {next(d for d in dtypes if d.kind in 'iu')} "
            f"to float64; say what you want with gn.cast(node, 'float32')." + table_of_inputs(nodes)
        )
    return np.result_type(*dtypes)
