"""PyTensor: scan, in its Numba mode (the C mode finds no BLAS if PyTensor is installed with pip)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.gradient import pullback, pushforward

from benchmarks.networks.candidate import Candidate
from benchmarks.networks.problem import STATES, Arrays, Problem
from benchmarks.networks.steps import STEPS, Math, Tensor, table


def _split(z: Tensor, widths: list[int]) -> list[Tensor]:
    starts = [sum(widths[:k]) for k in range(len(widths))]
    return [z[..., start : start + width] for start, width in zip(starts, widths, strict=True)]


MATH = Math(
    tanh=pt.tanh,
    sigmoid=pt.sigmoid,
    affine=lambda b, h, W: b + pt.dot(h, W),
    split=_split,
    concatenate=lambda pieces: pt.concatenate(pieces, axis=-1),
)


def _read(task: str, problem: Problem, w: dict[str, Tensor], x: Tensor) -> Tensor:
    """Contribution of the symbols to the gates, for all steps.

    For Gv the bias is added after the lookup: PyTensor 3.0.7 loses the direction of b in (W + b)[x].
    """
    if task == "gradient":
        return table(MATH, problem.cell, problem.hidden, w)[x]
    nothing = np.zeros((1, problem.shape("W_x")[1]), np.float32)
    return w["W_x"][x] + table(MATH, problem.cell, problem.hidden, {**w, "W_x": nothing})


def candidates(contender: str, task: str, problem: Problem, options: dict[str, Any]) -> list[Candidate]:
    """One candidate: the symbols are looked up before the scan."""
    pytensor.config.floatX = "float32"
    H, cases = problem.hidden, problem.steps * problem.batch

    def make() -> Callable[[], Any]:
        w = {name: pytensor.shared(array, name) for name, array in problem.weights().items()}
        x, t = pt.lmatrix("x"), pt.lmatrix("t")
        inner = [name for name in w if name not in ("W_x", "b", "W_o", "b_o")]
        count = STATES[problem.cell]

        def body(x_t: Tensor, *rest: Tensor) -> list[Tensor]:
            weights = dict(zip(inner, rest[count:], strict=True))
            return list(STEPS[problem.cell](MATH, H, weights, x_t, *rest[:count]))

        states = pytensor.scan(
            body,
            sequences=[_read(task, problem, w, x)],
            outputs_info=[pt.zeros((problem.batch, H), dtype="float32")] * count,
            non_sequences=[w[name] for name in inner],
            return_updates=False,
        )
        h = states[0] if count > 1 else states
        logits = h.reshape((cases, H)) @ w["W_o"] + w["b_o"]
        parameters = list(w.values())
        symbols, targets = problem.data()
        if task == "gradient":
            picked = pt.special.log_softmax(logits, axis=1)[pt.arange(cases), t.ravel()]
            loss = -picked.mean()
            outputs = [loss, *pytensor.grad(loss, parameters)]
            function = pytensor.function([x, t], outputs, mode="NUMBA")
            return lambda: function(symbols, targets)
        v = [pt.tensor(dtype="float32", shape=a.shape) for a in problem.direction().values()]
        tangent = pushforward(logits, parameters, v)
        p = pt.special.softmax(logits, axis=1)
        curved = (p * (tangent - (p * tangent).sum(1, keepdims=True))) / np.float32(cases)
        function = pytensor.function(
            [x, *v],
            pullback(logits, parameters, curved),
            mode="NUMBA",
        )
        arrays = [symbols, *problem.direction().values()]
        return lambda: function(*arrays)

    def read(result: Any) -> Arrays:
        loss, derivatives = ({"loss": result[0]}, result[1:]) if task == "gradient" else ({}, result)
        return {**loss, **dict(zip(problem.names, derivatives, strict=True))}

    return [Candidate("lookup", make, read)]
