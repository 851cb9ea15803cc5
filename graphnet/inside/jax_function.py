"""jax_function: a graph as a function on arrays of JAX."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from typing import Any

from graphnet.errors import UsageError
from graphnet.graph.graph import Nodes
from graphnet.graph.node import Node
from graphnet.inside.differentiable import Differentiable


def jax_function(
    outputs: Nodes, inputs: Iterable[Node], backend: str = "numba", threads: int | None = None
) -> Callable[..., Any]:
    """y = f(x) on arrays of JAX, under jit, vmap, grad, jvp, hessian, and derivatives of any order

    outputs: nodes. inputs: Inputs, or parameters, which become arguments like other inputs. The function takes an array
    for each and returns a tuple. backend, threads: see gn.compile.
    Compiled programs of JAX call it natively on the CPU, with their own memory. Its backward computes forward again,
    since JAX may omit or repeat calls; vmap calls it case by case. Raises UsageError without JAX; the function raises
    DtypeError or ShapeError for an array that does not fit.

    >>> x = gn.input(2, name="x")
    >>> import jax  # doctest: +SKIP
    >>> f = gn.inside.jax_function(gn.sum(x**2), [x])  # doctest: +SKIP
    >>> jax.grad(lambda v: f(v)[0])(jax.numpy.array([3.0, 5.0])).tolist()  # doctest: +SKIP
    [6.0, 10.0]
    """
    if importlib.util.find_spec("jax") is None:
        raise UsageError("jax_function: JAX is not installed: pip install jax")
    from graphnet.inside.jax_calls import on_arrays

    return on_arrays(Differentiable(outputs, inputs, backend, threads))
