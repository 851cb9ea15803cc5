"""Callbacks of PyTorch's autograd for a Differentiable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from graphnet.errors import DtypeError, ShapeError, UsageError
from graphnet.graph.node import Array, Node
from graphnet.inside.differentiable import Begun, Differentiable, require_count

VALUES = (
    "a function of graphnet reads the values of its tensors; there are none in torch.func.linearize, torch.jit.trace, "
    "make_fx and fake tensors, nor with is_grads_batched=True or vectorize=True. Use torch.func.jvp, vjp, jacrev, "
    "hessian or vmap"
)


def on_tensors(of: Differentiable) -> Callable[..., tuple[torch.Tensor, ...]]:
    """Returns the function on tensors."""

    fitting = [(getattr(torch, str(node.dtype)), torch.Size(node.shape)) for node in of.inputs]

    def function(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if torch.jit.is_tracing() or (torch._C._len_torch_dispatch_stack() and _traced()):
            raise UsageError(VALUES)
        if len(tensors) != len(fitting) or not all(map(_fits, fitting, tensors)):
            _refuse(of.inputs, tensors)
        kept = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        transformed = torch._C._are_functorch_transforms_active()
        if not (kept or transformed or _moves()):
            return _tensors(of.value(*_arrays(tensors)))
        kind = _Transformed if transformed else _Applied
        found: tuple[torch.Tensor, ...] = kind.apply(_Call(of, kept), *tensors)
        return found

    # torch.compile breaks its graph here, and calls the function as it is.
    found: Callable[..., tuple[torch.Tensor, ...]] = torch.compiler.disable(function)
    return found


def _fits(wanted: tuple[torch.dtype, torch.Size], tensor: Any) -> bool:
    return (
        isinstance(tensor, torch.Tensor)
        and tensor.dtype is wanted[0]
        and tensor.shape == wanted[1]
        and tensor.layout is torch.strided
        and tensor.is_cpu
    )


def _moves() -> bool:
    """True within a level of forward mode."""
    return forward_ad._current_level >= 0


def _traced() -> bool:
    """True while PyTorch records operations, where the values of a call would become constants."""
    return any(isinstance(mode, ProxyTorchDispatchMode) for mode in _get_current_dispatch_mode_stack())


class _Call:
    def __init__(self, of: Differentiable, kept: bool) -> None:
        self.of, self.kept = of, kept
        self.begun: Begun | None = None


class _Applied(torch.autograd.Function):  # type: ignore[misc]  # PyTorch may be missing
    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = _outputs(call, tensors)
        _keep(ctx, call, tensors, found)
        if _moves():
            ctx.save_for_forward(*tensors)
        return found

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        of, tensors = ctx.call.of, ctx.saved_tensors
        given = [cotangents[i] for i in of.float_outputs]
        if torch.is_grad_enabled():
            found = on_tensors(of.derivative)(*tensors, *given)
        else:
            found = _tensors(ctx.call.begun.gradients(_arrays(tensors), _arrays(given)))
        gradients: list[torch.Tensor | None] = [None] * (1 + len(tensors))
        for i, gradient in zip(of.float_inputs, found, strict=True):
            gradients[1 + i] = gradient if ctx.needs_input_grad[1 + i] else None
        return tuple(gradients)

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        of, tensors = ctx.call.of, ctx.saved_tensors
        given = []
        for i in of.float_inputs:
            tangent = tangents[i]
            given.append(torch.zeros_like(tensors[i]) if tangent is None else tangent)
        moved: list[torch.Tensor | None] = [None] * len(of.outputs)
        for i, tangent in zip(of.float_outputs, on_tensors(of.tangent)(*tensors, *given), strict=True):
            moved[i] = tangent
        return tuple(moved)


class _Transformed(_Applied):
    """In the form that torch.func needs; PyTorch takes 60 µs more to call it."""

    @staticmethod
    def forward(call: _Call, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:  # type: ignore[override]
        return _outputs(call, tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        call, *tensors = inputs
        _keep(ctx, call, tensors, output)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], call: _Call, *tensors: torch.Tensor
    ) -> tuple[tuple[torch.Tensor, ...], tuple[int, ...]]:
        function, count = on_tensors(call.of), len(call.of.outputs)
        if not info.batch_size:
            empty = [np.empty((0, *y.shape), y.dtype) for y in call.of.outputs]
            return _tensors(empty), (0,) * count
        rows = [
            function(
                *(x if d is None else x.select(d, row) for x, d in zip(tensors, in_dims[1:], strict=True))
            )
            for row in range(info.batch_size)
        ]
        return tuple(map(torch.stack, zip(*rows, strict=True))), (0,) * count


def _outputs(call: _Call, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    arrays = _arrays(tensors)
    if not call.kept or not call.of.float_inputs or not call.of.float_outputs:
        return _tensors(call.of.value(*arrays))
    call.begun = call.of.begin(arrays)
    return _tensors(call.begun.outputs)


def _keep(ctx: Any, call: _Call, tensors: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
    ctx.call = call
    ctx.save_for_backward(*tensors)
    ctx.mark_non_differentiable(*(y for y in outputs if not y.is_floating_point()))


def _arrays(tensors: Sequence[torch.Tensor]) -> list[Array]:
    """Returns arrays that share the memory of the tensors, if they have any: zeros and negatives may be lazy."""
    # contiguous() of a lazy zero crashes.
    dense = [
        torch.zeros(tensor.shape, dtype=tensor.dtype) if tensor._is_zerotensor() else tensor.contiguous()
        for tensor in tensors
    ]
    try:
        return [tensor.numpy(force=True) for tensor in dense]
    except RuntimeError as error:
        if not any(
            torch._C._functorch.is_legacy_batchedtensor(x) or type(x) is not torch.Tensor for x in dense
        ):
            raise
        raise UsageError(VALUES) from error


def _tensors(arrays: Sequence[Array]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.from_numpy(np.asarray(array)) for array in arrays)


def _refuse(inputs: Sequence[Node], tensors: Sequence[Any]) -> None:
    """Raises the error for the first tensor that does not fit."""
    require_count(inputs, tensors, "tensor")
    for node, tensor in zip(inputs, tensors, strict=True):
        who = f"input {node.describe()}"
        if not isinstance(tensor, torch.Tensor):
            raise DtypeError(
                f"{who} must be a tensor, not a {type(tensor).__name__}; write torch.as_tensor(...)"
            )
        if tensor.layout != torch.strided:
            raise DtypeError(f"{who} must be a dense tensor; pass tensor.to_dense()")
        if tensor.device.type != "cpu":
            raise DtypeError(f"{who} must be a tensor on the CPU, not on {tensor.device}; pass tensor.cpu()")
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype != str(node.dtype):
            raise DtypeError(f"{who} must be {node.dtype}, not {dtype}; pass tensor.to(torch.{node.dtype})")
        if tuple(tensor.shape) != node.shape:
            raise ShapeError(f"{who} must have shape {list(node.shape)}, not {list(tensor.shape)}")
