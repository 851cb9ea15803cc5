"""PyTorch: its own layers, a loop as users write it, and that loop compiled.

nn.LSTM, nn.GRU and nn.RNN read precomputed one-hot vectors: they multiply by their input weights themselves, so a
lookup is not possible. nn.GRU resets after the product, ours before: it computes other numbers at the same cost, and
is compared in speed alone. The loop looks symbols up (F.embedding) or multiplies one-hot vectors, whichever is
faster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.networks.candidate import Absent, Candidate
from benchmarks.networks.problem import STATES, Array, Arrays, Problem, one_hot
from benchmarks.networks.steps import STEPS, Math, Tensor, Weights, table

MATH = Math(
    tanh=torch.tanh,
    sigmoid=torch.sigmoid,
    affine=torch.addmm,
    split=lambda z, widths: torch.split(z, widths, dim=-1),
    concatenate=lambda pieces: torch.cat(pieces, dim=-1),
)

Net = Callable[[Weights], Tensor]


def prepare(options: dict[str, Any]) -> None:
    """Sets the number of threads of the process."""
    if options["limited"]:
        torch.set_num_threads(options["threads"])


def _tensors(arrays: Arrays, grad: bool) -> Weights:
    return {name: torch.tensor(array, requires_grad=grad) for name, array in arrays.items()}


def _read(result: Any) -> Arrays:
    return {name: value.detach().numpy() for name, value in result.items()}


# ---- its own layers ----------------------------------------------------------------------------------------


#: Cell -> class, and where each of our blocks of gates stands in its weights: i f g o, not i f o g.
LAYERS: dict[str, tuple[Any, list[int]]] = {
    "LSTM": (torch.nn.LSTM, [0, 1, 3, 2]),
    "GRU": (torch.nn.GRU, [0, 1, 2]),
    "Elman": (torch.nn.RNN, [0]),
}


def _reorder(cell: str, array: Array) -> Array:
    """Our order of gates, along the first axis, to PyTorch's; its own inverse, so it serves both ways."""
    order = LAYERS[cell][1]
    blocks = np.split(array, len(order))
    return np.ascontiguousarray(np.concatenate([blocks[k] for k in order]))


def _to_layer(cell: str, w: Arrays) -> Arrays:
    """Merged weights (or directions) as those of the layer, and of a Linear; all of b in the first bias."""
    recurrent = np.concatenate([w["W_hrz"], w["W_hn"]], axis=1) if cell == "GRU" else w["W_h"]
    bias = _reorder(cell, w["b"])
    return {
        "weight_ih_l0": _reorder(cell, w["W_x"].T),
        "weight_hh_l0": _reorder(cell, recurrent.T),
        "bias_ih_l0": bias,
        "bias_hh_l0": np.zeros_like(bias),
        "W_o": np.ascontiguousarray(w["W_o"].T),
        "b_o": w["b_o"],
    }


def _from_layer(cell: str, result: Any) -> Arrays:
    """Derivatives by merged name (GRU's, which are not compared, keep W_h in one)."""
    found = _read(result)
    merged = {
        "W_x": _reorder(cell, found["weight_ih_l0"]).T,
        "W_h": _reorder(cell, found["weight_hh_l0"]).T,
        "b": _reorder(cell, found["bias_ih_l0"]),
        "W_o": found["W_o"].T,
        "b_o": found["b_o"],
    }
    return {**merged, "loss": found["loss"]} if "loss" in found else merged


def _own_layer(problem: Problem, task: str, way: str) -> Candidate:
    cell = problem.cell

    def make() -> Callable[[], Any]:
        layer = LAYERS[cell][0](problem.symbols, problem.hidden)
        symbols, targets = problem.data()
        x = torch.tensor(one_hot(symbols, problem.symbols))
        w, v = (_to_layer(cell, arrays) for arrays in (problem.weights(), problem.direction()))

        def logits(w: Weights) -> Tensor:
            own = {name: w[name] for name in w if name not in ("W_o", "b_o")}
            h = torch.func.functional_call(layer, own, (x,))[0]
            return F.linear(h.flatten(0, 1), w["W_o"], w["b_o"])

        if task == "product":
            return _product(w, v, logits, way, False)
        leaves = dict(layer.named_parameters())
        with torch.no_grad():
            for name, parameter in leaves.items():
                parameter.copy_(torch.tensor(w[name]))
        leaves |= _tensors({name: w[name] for name in ("W_o", "b_o")}, True)

        def usual(w: Weights) -> Tensor:
            """Calls the layer directly, without functional_call."""
            return F.linear(layer(x)[0].flatten(0, 1), w["W_o"], w["b_o"])

        return _gradient(leaves, targets, usual, False)

    unlike = "resets after the product" if cell == "GRU" else ""
    name = ", ".join(filter(None, ["one-hot", way]))
    return Candidate(name, make, lambda result: _from_layer(cell, result), unlike)


# ---- the loop ----------------------------------------------------------------------------------------------


def _net(problem: Problem, hot: bool, step: Callable[..., tuple[Tensor, ...]]) -> Net:
    H = problem.hidden
    symbols, _ = problem.data()
    vectors = torch.tensor(one_hot(symbols, problem.symbols)) if hot else None
    x = torch.tensor(symbols)
    zeros = torch.zeros(problem.batch, H)

    def logits(w: Weights) -> Tensor:
        rows = table(MATH, problem.cell, H, w)
        read = F.embedding(x, rows) if vectors is None else vectors @ rows
        states, hs = (zeros,) * STATES[problem.cell], []
        for x_t in read.unbind(0):
            states = step(MATH, H, w, x_t, *states)
            hs.append(states[0])
        return torch.addmm(w["b_o"], torch.cat(hs), w["W_o"])

    return logits


def _gradient(w: Weights, targets: Array, net: Net, compiled: bool) -> Callable[[], Any]:
    t = torch.tensor(targets).flatten()

    def cost(w: Weights) -> Tensor:
        return F.cross_entropy(net(w), t)

    value: Callable[[Weights], Tensor] = torch.compile(cost, dynamic=False) if compiled else cost

    def run() -> Any:
        loss = value(w)
        return {"loss": loss, **dict(zip(w, torch.autograd.grad(loss, list(w.values())), strict=True))}

    return run


def _curved(logits: Tensor, tangent: Tensor) -> Tensor:
    """H_L u = p ⊙ (u − p·u) / cases, the Hessian of the mean cross entropy."""
    p = torch.softmax(logits, 1)
    weighted = p * tangent
    return (weighted - p * weighted.sum(1, keepdim=True)) / logits.shape[0]


def _product(weights: Arrays, direction: Arrays, net: Net, way: str, compiled: bool) -> Callable[[], Any]:
    """jvp and vjp: two passes forward. dual: one, on dual numbers that autograd records. twice: Jv as the
    derivative of Jᵀu by u."""
    w, v = _tensors(weights, way != "jvp and vjp"), _tensors(direction, False)

    def functional(w: Weights, v: Weights) -> Any:
        logits, tangent = torch.func.jvp(net, (w,), (v,))[:2]
        return torch.func.vjp(net, w)[1](_curved(logits, tangent))[0]

    def dual() -> Any:
        forward: Any = torch.autograd.forward_ad
        with forward.dual_level():
            both = {name: forward.make_dual(w[name], v[name]) for name in w}
            logits, tangent = forward.unpack_dual(net(both))
            curved = _curved(logits.detach(), tangent.detach())
            return dict(zip(w, torch.autograd.grad(logits, list(w.values()), curved), strict=True))

    def twice() -> Any:
        leaves = list(w.values())
        logits = net(w)
        u = torch.zeros_like(logits, requires_grad=True)
        pulled = torch.autograd.grad(logits, leaves, u, create_graph=True)
        (tangent,) = torch.autograd.grad(pulled, u, list(v.values()), retain_graph=True)
        return dict(
            zip(w, torch.autograd.grad(logits, leaves, _curved(logits.detach(), tangent)), strict=True)
        )

    if way == "jvp and vjp":
        function = torch.compile(functional, dynamic=False) if compiled else functional
        return lambda: function(w, v)
    return {"dual": dual, "twice": twice}[way]


def _loop(problem: Problem, task: str, hot: bool, way: str, compiled: str) -> Candidate:
    """compiled: "" (nothing), "whole" (the unrolled loop) or "step" (one step; Python loops over it)."""

    def make() -> Callable[[], Any]:
        step = STEPS[problem.cell]
        if compiled == "step":
            step = torch.compile(step, dynamic=False)
        net = _net(problem, hot, step)
        if task == "gradient":
            w = _tensors(problem.weights(), True)
            return _gradient(w, problem.data()[1], net, compiled == "whole")
        return _product(problem.weights(), problem.direction(), net, way, compiled == "whole")

    said = ["one-hot" if hot else "lookup", way, "step compiled" if compiled == "step" else ""]
    return Candidate(", ".join(filter(None, said)), make, _read)


def candidates(contender: str, task: str, problem: Problem, options: dict[str, Any]) -> list[Candidate]:
    """The ways of this contender; raises Absent if it has none."""
    if contender == "torch nn":
        if problem.cell not in ("LSTM", "GRU", "Elman"):
            raise Absent("PyTorch has no such layer")
        # oneDNN's LSTM has no forward mode, so only the derivative of the derivative is possible.
        ways = [""] if task == "gradient" else ["jvp and vjp", "dual", "twice"]
        return [_own_layer(problem, task, way) for way in (ways[-1:] if problem.cell == "LSTM" else ways)]
    if contender == "torch loop":
        ways = [""] if task == "gradient" else ["jvp and vjp", "dual", "twice"]
        return [_loop(problem, task, hot, way, "") for hot in (False, True) for way in ways]
    # Whole-loop compilation takes time in proportion to the steps, minutes for a hundred.
    whole = problem.steps <= options["compiled_steps"]
    if task == "product" and not whole:
        raise Absent(f"more than {options['compiled_steps']} steps (--compiled-steps)")
    way = "jvp and vjp" if task == "product" else ""  # the one that torch.compile understands
    return [_loop(problem, task, False, way, "whole" if whole else "step")]
