"""torch_function: a graph as a function on tensors of PyTorch."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from typing import Any

from graphnet.errors import UsageError
from graphnet.graph.graph import Nodes
from graphnet.graph.node import Node
from graphnet.inside.differentiable import Differentiable


def torch_function(
    outputs: Nodes, inputs: Iterable[Node], backend: str = "numba", threads: int | None = None
) -> Callable[..., Any]:
    """y = f(x) on tensors, differentiable by autograd and torch.func: backward to any order, and forward mode

    outputs: nodes. inputs: Inputs, or parameters, which become arguments like other inputs. The function takes a tensor
    for each, on the CPU, and returns a tuple of tensors. backend, threads: see gn.compile.
    Values of forward are kept for backward, for up to four calls at a time. They are computed again by backward of
    further calls, by a second backward of one call, and by derivatives of derivatives.
    vmap calls the function case by case.
    Raises UsageError without PyTorch, for random values, and for an input listed twice. The function raises DtypeError
    or ShapeError for a tensor that does not fit, and UsageError where PyTorch traces (linearize, torch.jit.trace).

    >>> x = gn.input(2, name="x")
    >>> import torch  # doctest: +SKIP
    >>> f = gn.inside.torch_function(gn.sum(x**2), [x])  # doctest: +SKIP
    >>> tensor = torch.tensor([3.0, 5.0], requires_grad=True)  # doctest: +SKIP
    >>> f(tensor)[0].backward()  # doctest: +SKIP
    >>> tensor.grad.tolist()  # doctest: +SKIP
    [6.0, 10.0]
    """
    if importlib.util.find_spec("torch") is None:
        raise UsageError("torch_function: PyTorch is not installed: pip install torch")
    from graphnet.inside.torch_calls import on_tensors

    return on_tensors(Differentiable(outputs, inputs, backend, threads))
