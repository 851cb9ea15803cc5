"""The cases in PyTorch: its modules, its scans, a loop, a compiled loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.others.cases import BATCH, FEATURES, LAYERS, UNITS, Arrays, Case
from graphnet.graph.node import Array


def costs() -> dict[str, Callable[..., Any]]:
    import torch

    def masked(w: Any, x: Any) -> Any:
        h = torch.zeros((), dtype=x.dtype)
        for value in x:
            h = torch.where(~torch.isnan(value), torch.tanh(w[0] * value + w[1] * h), h)
        return h**2

    def running(x: Any) -> Any:
        state = cost = torch.zeros((), dtype=x.dtype)
        for t in range(len(x)):
            state = state + x[t]
            cost = cost + state**2
        return cost

    def layers(*tensors: Any) -> Any:
        from torch._higher_order_ops.scan import scan

        *weights, x = tensors

        def step(states: Any, value: Any) -> Any:
            new = []
            for h, W in zip(states, weights, strict=True):
                value = h + 0.1 * torch.cat([h, value], -1) @ W
                new.append(value)
            return new, value.clone()

        zeros = [torch.zeros(BATCH, FEATURES, dtype=x.dtype) for _ in range(LAYERS)]
        return torch.sin(scan(step, zeros, x)[1]).sum()

    def affine(a: Any, b: Any, weights: Any) -> Any:
        from torch._higher_order_ops import associative_scan

        def composed(left: Any, right: Any) -> Any:
            return left[0] * right[0], right[1] + right[0] * left[1]

        _, y = associative_scan(composed, (a, b), dim=0, combine_mode="generic")
        return (weights * y).sum()

    def light(U: Any, x: Any) -> Any:
        h = torch.zeros(BATCH, UNITS, dtype=x.dtype)
        for value in x:
            a = value + h @ U
            z = torch.sigmoid(a[:, :UNITS])
            h = z * h + (1 - z) * torch.relu(a[:, UNITS:])
        return (h**2).sum()

    def last_of(module: type) -> Callable[..., Any]:
        made = module(UNITS, UNITS, bias=False)

        def last(W: Any, U: Any, x: Any) -> Any:
            named = {"weight_ih_l0": W, "weight_hh_l0": U}
            return torch.func.functional_call(made, named, (x,))[0][-1]

        return last

    lstm, gru = last_of(torch.nn.LSTM), last_of(torch.nn.GRU)
    return {
        "masked": masked, "running": running, "layers": layers, "affine": affine, "light": light, "Hv": lstm,
        "Jv": lstm, "each": lambda W, U, x: (gru(W, U, x) ** 2).sum(),
    }  # fmt: skip


def program(
    name: str, case: Case, arrays: Arrays, size: int, compiled: bool = False
) -> Callable[[], Sequence[Array]]:
    """The program of the case; the Hessian product is double backward."""
    import torch

    torch.set_num_threads(1)  # faster than two for arrays as small as these
    tensors = [torch.from_numpy(np.array(a)) for a in arrays]
    directions: list[Any] = []
    if case.kind in ("Jv", "Hv"):
        tensors, directions = tensors[: -case.wrt], tensors[-case.wrt :]
    point, rest = [t.requires_grad_() for t in tensors[: case.wrt]], tensors[case.wrt :]
    cost = costs()[name]
    if compiled:
        cost = torch.compile(cost)

    def gradient() -> Any:
        value = cost(*point, *rest)
        return [value, *torch.autograd.grad(value, point)]

    def each() -> Any:
        places = tuple(range(case.wrt))
        of_case = torch.func.vmap(torch.func.grad_and_value(cost, places), in_dims=(None, None, 1))
        derivatives, value = of_case(*(p.detach() for p in point), *(r[:, :, None] for r in rest))
        return [value, *derivatives]

    def forward_mode() -> Any:
        primals = tuple(p.detach() for p in point)
        return torch.func.jvp(lambda *wanted: cost(*wanted, *rest), primals, tuple(directions))

    def double_backward() -> Any:
        value = (cost(*point, *rest) ** 2).sum()
        slopes = torch.autograd.grad(value, point, create_graph=True)
        along = sum((g * d).sum() for g, d in zip(slopes, directions, strict=True))
        return [value, *torch.autograd.grad(along, point)]

    call = {"gradient": gradient, "each": each, "Jv": forward_mode, "Hv": double_backward}[case.kind]
    return lambda: [t.detach().numpy() for t in call()]


def compiled_program(name: str, case: Case, arrays: Arrays, size: int) -> Callable[[], Sequence[Array]]:
    return program(name, case, arrays, size, compiled=True)
