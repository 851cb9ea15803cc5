"""Callbacks of JAX for a Differentiable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from graphnet.errors import DtypeError, ShapeError
from graphnet.graph.node import Array, Node
from graphnet.inside.differentiable import Differentiable, require_count

__all__ = ["on_arrays"]


def on_arrays(of: Differentiable) -> Callable[..., tuple[Any, ...]]:
    """Returns the function on arrays of JAX."""
    shapes = tuple(jax.ShapeDtypeStruct(node.shape, node.dtype) for node in of.outputs)

    def on_host(*arrays: Any) -> tuple[Array, ...]:
        return of.value(*map(np.asarray, arrays))

    @jax.custom_vjp  # type: ignore[untyped-decorator]  # JAX may be missing
    def function(*arrays: Any) -> tuple[Any, ...]:
        found: tuple[Any, ...] = jax.pure_callback(on_host, shapes, *arrays, vmap_method="sequential")
        return found

    def forward(*arrays: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return function(*arrays), arrays

    def backward(arrays: tuple[Any, ...], cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
        gradients: list[Any] = [np.zeros(node.shape, jax.dtypes.float0) for node in of.inputs]
        found = on_arrays(of.derivative)(*arrays, *(cotangents[i] for i in of.float_outputs))
        for i, gradient in zip(of.float_inputs, found, strict=True):
            gradients[i] = gradient
        return tuple(gradients)

    function.defvjp(forward, backward)

    def checked(*arrays: Any) -> tuple[Any, ...]:
        found: tuple[Any, ...] = function(*_fitting(of.inputs, arrays))
        return found

    return checked


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
