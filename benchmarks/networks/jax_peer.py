"""JAX: one jit around the loss and its gradient, or around jvp, the loss's Hessian and vjp."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.networks.candidate import Absent, Candidate
from benchmarks.networks.problem import STATES, Array, Arrays, Problem
from benchmarks.networks.steps import STEPS, Math, Tensor, Weights, table


def _split(z: Tensor, widths: list[int]) -> Any:
    ends = [sum(widths[: k + 1]) for k in range(len(widths) - 1)]
    return jnp.split(z, ends, axis=-1)


MATH = Math(
    tanh=jnp.tanh,
    sigmoid=jax.nn.sigmoid,
    affine=lambda b, h, W: b + h @ W,
    split=_split,
    concatenate=lambda pieces: jnp.concatenate(pieces, axis=-1),
)


def _net(problem: Problem, hot: bool, unroll: int) -> Callable[[Weights, Array], Tensor]:
    """logits (steps, batch, symbols) of weights and symbols."""
    step, H = STEPS[problem.cell], problem.hidden

    def logits(w: Weights, x: Array) -> Tensor:
        rows = table(MATH, problem.cell, H, w)
        read = jax.nn.one_hot(x, problem.symbols, dtype=jnp.float32) @ rows if hot else rows[x]
        zeros = (jnp.zeros((problem.batch, H), jnp.float32),) * STATES[problem.cell]

        def body(states: tuple[Tensor, ...], x_t: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
            states = step(MATH, H, w, x_t, *states)
            return states, states[0]

        if unroll:
            h = jax.lax.scan(body, zeros, read, unroll=unroll)[1]
        else:
            states, hs = zeros, []
            for t in range(problem.steps):
                states, h_t = body(states, read[t])
                hs.append(h_t)
            h = jnp.stack(hs)
        return h @ w["W_o"] + w["b_o"]

    return logits


def _loss(logits: Tensor, t: Array) -> Tensor:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), t[..., None], axis=-1).mean()


def _candidate(name: str, task: str, problem: Problem, net: Callable[[Weights, Array], Tensor]) -> Candidate:
    def gradient(w: Weights, x: Array, t: Array) -> Any:
        return jax.value_and_grad(lambda w: _loss(net(w, x), t))(w)

    def gauss_newton(w: Weights, v: Weights, x: Array, t: Array) -> Any:
        # linearize shares the forward pass between the push forward and the pull back
        logits, push = jax.linearize(lambda w: net(w, x), w)
        _, curved = jax.jvp(jax.grad(lambda o: _loss(o, t)), (logits,), (push(v),))
        return jax.linear_transpose(push, w)(curved)[0]

    def gauss_newton_twice(w: Weights, v: Weights, x: Array, t: Array) -> Any:
        logits, tangent = jax.jvp(lambda w: net(w, x), (w,), (v,))
        _, curved = jax.jvp(jax.grad(lambda o: _loss(o, t)), (logits,), (tangent,))
        return jax.vjp(lambda w: net(w, x), w)[1](curved)[0]

    def make() -> Callable[[], Any]:
        x, t = (jnp.asarray(array) for array in problem.data())
        w, v = jax.device_put(problem.weights()), jax.device_put(problem.direction())
        finished: Any = jax.block_until_ready
        if task == "gradient":
            run = jax.jit(gradient)
            return lambda: finished(run(w, x, t))
        both = jax.jit(gauss_newton if name.endswith("linearize") else gauss_newton_twice)
        return lambda: finished(both(w, v, x, t))

    def read(result: Any) -> Arrays:
        if task == "gradient":
            return {"loss": result[0], **result[1]}
        return dict(result)

    return Candidate(name, make, read)


def candidates(contender: str, task: str, problem: Problem, options: dict[str, Any]) -> list[Candidate]:
    """Lookup or one-hot product (XLA's scatter is slow on some processors), scan unrolled or not."""
    if contender == "jax unrolled" and problem.steps > options["unrolled_steps"]:
        raise Absent(f"more than {options['unrolled_steps']} steps (--unrolled-steps)")
    unrolls = [0] if contender == "jax unrolled" else [1, 4]
    ways = [""] if task == "gradient" else [", linearize", ", jvp and vjp"][: len(unrolls)]  # compiles long
    reads = [True, False] if problem.symbols <= 2 * problem.hidden else [False]
    return [
        _candidate(
            ("one-hot" if hot else "lookup") + (f", unroll {unroll}" if unroll > 1 else "") + way,
            task,
            problem,
            _net(problem, hot, unroll),
        )
        for hot, unroll, way in product(reads, unrolls, ways)
    ]
