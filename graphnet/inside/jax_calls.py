"""A Differentiable as a primitive of JAX: with values, tangents, transposes, and batches.

JAX computes gradients by transposing tangents. A tangent Jv is therefore the same primitive with another function, and
with its transpose, Jᵀu.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from graphnet.errors import DtypeError, ShapeError
from graphnet.graph.node import Array, Node
from graphnet.inside.differentiable import Differentiable, require_count
from graphnet.inside.jax_native import TARGET, is_registered, key_of

#: Parameters: of, a Differentiable; transposed: None, or, if the function is linear in its last inputs, its transpose.
CALL: Any = Primitive("graphnet")
CALL.multiple_results = True


def on_arrays(of: Differentiable) -> Callable[..., tuple[Any, ...]]:
    """Returns the function on arrays of JAX."""

    def function(*arrays: Any) -> tuple[Any, ...]:
        return tuple(CALL.bind(*_fitting(of.inputs, arrays), of=of, transposed=None))

    return function


def _fitting(inputs: Sequence[Node], arrays: Sequence[Any]) -> list[Any]:
    require_count(inputs, arrays, "array")
    found = [jnp.asarray(array) for array in arrays]
    for node, array in zip(inputs, found, strict=True):
        who = f"input {node.describe()}"
        if array.dtype != node.dtype:
            wide = (
                ' (64 bits need jax.config.update("jax_enable_x64", True))'
                if node.dtype.itemsize == 8
                else ""
            )
            raise DtypeError(
                f"{who} must be {node.dtype}, not {array.dtype}; pass array.astype({str(node.dtype)!r}){wide}"
            )
        if array.shape != node.shape:
            raise ShapeError(f"{who} must have shape {list(node.shape)}, not {list(array.shape)}")
    return found


# -- values ----------------------------------------------------------------------------------------


def _on_host(*arrays: Any, of: Differentiable) -> tuple[Array, ...]:
    return of.value(*map(np.asarray, arrays))


def _value(*arrays: Any, of: Differentiable, transposed: Differentiable | None) -> list[Any]:
    return [jnp.asarray(y) for y in _on_host(*arrays, of=of)]


def _shapes(*_: Any, of: Differentiable, transposed: Differentiable | None) -> list[Any]:
    return [jax.core.ShapedArray(node.shape, node.dtype) for node in of.outputs]


def _callback(*arrays: Any, of: Differentiable, transposed: Differentiable | None) -> Sequence[Any]:
    shapes = [jax.ShapeDtypeStruct(node.shape, node.dtype) for node in of.outputs]
    found: Sequence[Any] = jax.pure_callback(lambda *given: _on_host(*given, of=of), shapes, *arrays)
    return found


def _native(context: Any, *arrays: Any, of: Differentiable, transposed: Differentiable | None) -> Any:
    context.module_context.add_keepalive(of)
    return jax.ffi.ffi_lowering(TARGET)(context, *arrays, key=np.int64(key_of(of)))


CALL.def_impl(_value)
CALL.def_abstract_eval(_shapes)
mlir.register_lowering(CALL, mlir.lower_fun(_callback, multiple_results=True))
if is_registered:
    mlir.register_lowering(CALL, _native, platform="cpu")


# -- derivatives -----------------------------------------------------------------------------------


def _tangents(
    arrays: Sequence[Any], tangents: Sequence[Any], of: Differentiable, transposed: Differentiable | None
) -> tuple[list[Any], list[Any]]:
    outputs = CALL.bind(*arrays, of=of, transposed=transposed)
    moved = [ad.Zero(jax.core.ShapedArray(node.shape, jax.dtypes.float0)) for node in of.outputs]
    for i in of.float_outputs:
        moved[i] = ad.Zero(jax.core.ShapedArray(of.outputs[i].shape, of.outputs[i].dtype))
    given = [tangents[i] for i in of.float_inputs]
    if all(isinstance(tangent, ad.Zero) for tangent in given):
        return outputs, moved
    fixed = len(arrays) - (0 if transposed is None else len(transposed.outputs))
    if transposed is not None and all(isinstance(tangent, ad.Zero) for tangent in tangents[:fixed]):
        ends = [ad.instantiate_zeros(tangent) for tangent in tangents[fixed:]]
        found = CALL.bind(*arrays[:fixed], *ends, of=of, transposed=transposed)
    else:
        given = [ad.instantiate_zeros(tangent) for tangent in given]
        found = CALL.bind(*arrays, *given, of=of.tangent, transposed=of.derivative)
    for i, tangent in zip(of.float_outputs, found, strict=True):
        moved[i] = tangent
    return outputs, moved


def _transpose(
    cotangents: Sequence[Any], *arrays: Any, of: Differentiable, transposed: Differentiable
) -> list[Any]:
    fixed = len(arrays) - len(transposed.outputs)
    given = [ad.instantiate_zeros(cotangent) for cotangent in cotangents]
    found = CALL.bind(*arrays[:fixed], *given, of=transposed, transposed=of)
    return [None] * fixed + [
        gradient if ad.is_undefined_primal(array) else None
        for array, gradient in zip(arrays[fixed:], found, strict=True)
    ]


def _batch(
    arrays: Sequence[Any], axes: Sequence[int | None], **how: Any
) -> tuple[Sequence[Any], Sequence[int]]:
    """Calls the function case by case."""
    batched = [jnp.moveaxis(x, axis, 0) for x, axis in zip(arrays, axes, strict=True) if axis is not None]

    def one(rows: Sequence[Any]) -> Any:
        left = iter(rows)
        return CALL.bind(
            *(x if axis is None else next(left) for x, axis in zip(arrays, axes, strict=True)), **how
        )

    found = jax.lax.map(one, batched)
    return found, [0] * len(found)


ad.primitive_jvps[CALL] = _tangents
ad.primitive_transposes[CALL] = _transpose
batching.primitive_batchers[CALL] = _batch
