"""The cases in JAX: `lax.scan` under `jit`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.others import cases
from benchmarks.others.cases import BATCH, COLUMNS, NODES, UNITS, WINDOW, Arrays, Case
from graphnet.graph.node import Array


def costs() -> dict[str, Callable[..., Any]]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def carries(w: Any, x: Any) -> Any:
        def step(carry: Any, value: Any) -> Any:
            s = {k: jnp.tanh(w[k] * carry[k] + 0.5 * carry[(k - 1) % NODES] + value) for k in range(NODES)}
            return s, s[0] * s[NODES - 1]

        return lax.scan(step, dict.fromkeys(range(NODES), jnp.zeros(())), x)[1].sum()

    def window(W: Any, v: Any, first: Any, steps: int) -> Any:
        def step(memory: Any, t: Any) -> Any:
            new = jnp.tanh(lax.dynamic_slice(memory, [t], [WINDOW]) @ W) @ v
            return lax.dynamic_update_index_in_dim(memory, new, t + WINDOW, 0), None

        memory = jnp.concatenate([first, jnp.zeros(steps)])
        return (lax.scan(step, memory, jnp.arange(steps))[0][WINDOW:] ** 2).sum()

    def insert(values: Any, state: Any) -> Any:
        # The slice always has the full width, so the array is twice as wide.
        wide = jnp.concatenate([state, jnp.zeros_like(state)], 1)

        def step(state: Any, each: Any) -> Any:
            value, row, column = each
            new = jnp.sin(value) * state[row, 0]
            part = lax.dynamic_slice(state, (row, column), (1, COLUMNS))
            state = lax.dynamic_update_slice(state, part, (row, column + 1))
            return state.at[row, column].set(new), None

        rows, columns = np.array(cases.places(len(values))).T
        return (lax.scan(step, wide, (values, rows, columns))[0][:, :COLUMNS] ** 2).sum()

    def matrix(A: Any, x: Any) -> Any:
        def step(P: Any, row: Any) -> Any:
            Ax, d = A @ row, 1 + row @ P @ row
            k = (A @ P @ row) / d
            return 0.5 * (A @ P @ A.T - d * jnp.outer(k, k)) + jnp.outer(Ax, Ax), jnp.log(d)

        return lax.scan(step, jnp.eye(3), x)[1].sum()

    def masked(w: Any, x: Any) -> Any:
        def step(h: Any, value: Any) -> Any:
            return jnp.where(~jnp.isnan(value), jnp.tanh(w[0] * value + w[1] * h), h), None

        return lax.scan(step, jnp.zeros(()), x)[0] ** 2

    def running(x: Any) -> Any:
        def step(carry: Any, t: Any) -> Any:
            state, cost = carry
            state = state + x[t]
            return (state, cost + state**2), None

        return lax.scan(step, (0.0, 0.0), jnp.arange(len(x)))[0][1]

    def light(U: Any, x: Any) -> Any:
        def step(h: Any, value: Any) -> Any:
            a = value + h @ U
            z = jax.nn.sigmoid(a[:, :UNITS])
            return z * h + (1 - z) * jax.nn.relu(a[:, UNITS:]), None

        return (lax.scan(step, jnp.zeros((BATCH, UNITS)), x)[0] ** 2).sum()

    def lstm(W: Any, U: Any, x: Any) -> Any:
        def step(carry: Any, value: Any) -> Any:
            h, c = carry
            i, f, g, o = jnp.split(value @ W.T + h @ U.T, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        zero = jnp.zeros((x.shape[1], UNITS), x.dtype)
        return lax.scan(step, (zero, zero), x)[0][0]

    def gru(W: Any, U: Any, x: Any) -> Any:
        def step(h: Any, value: Any) -> Any:
            (r, z, n), (hr, hz, hn) = jnp.split(value @ W.T, 3, -1), jnp.split(h @ U.T, 3, -1)
            r, z = jax.nn.sigmoid(r + hr), jax.nn.sigmoid(z + hz)
            return (1 - z) * jnp.tanh(n + r * hn) + z * h, None

        return (lax.scan(step, jnp.zeros(UNITS, x.dtype), x)[0] ** 2).sum()

    def repeated(x: Any, shift: Any) -> Any:
        return lax.scan(lambda x, s: (jnp.exp(x) - 1 - s, None), x, shift)[0]

    return {
        "carries": carries, "window": window, "insert": insert, "matrix": matrix, "masked": masked, "running": running,
        "light": light, "Hv": lstm, "Jv": lstm, "each": gru, "repeated": repeated,
    }  # fmt: skip


def program(name: str, case: Case, arrays: Arrays, size: int) -> Callable[[], Sequence[Array]]:
    """The program of the case, jitted."""
    import jax

    jax.config.update("jax_enable_x64", True)
    cost = costs()[name]
    product = case.kind in ("Jv", "Hv")
    inputs = arrays[: -case.wrt] if product else arrays
    places = tuple(range(case.wrt))
    rest: list[Any] = list(inputs[case.wrt :])
    if name == "window":
        rest.append(size)

    def tangent(of: Callable[..., Any], point: Any, directions: Any) -> Any:
        return jax.jvp(lambda *wanted: of(*wanted, *rest), tuple(point), tuple(directions))

    match case.kind:
        case "gradient":
            made = jax.jit(lambda *point: jax.value_and_grad(cost, places)(*point, *rest))
        case "each":
            each = jax.vmap(jax.value_and_grad(cost, places), in_axes=(None, None, 1))
            made = jax.jit(lambda *point: each(*point, *rest))
        case "Jv":
            made = jax.jit(lambda *point: tangent(cost, point, arrays[-case.wrt :]))
        case "Hv":

            def slope(*all_inputs: Any) -> Any:
                return jax.grad(lambda *a: (cost(*a) ** 2).sum(), places)(*all_inputs)

            made = jax.jit(lambda *point: tangent(slope, point, arrays[-case.wrt :]))

    def call() -> Sequence[Array]:
        value, derivatives = jax.block_until_ready(made(*inputs[: case.wrt]))
        listed = derivatives if isinstance(derivatives, tuple) else (derivatives,)
        return [np.asarray(value[0] if isinstance(value, tuple) else value), *map(np.asarray, listed)]

    return call
