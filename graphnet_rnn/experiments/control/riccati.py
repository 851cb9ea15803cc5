"""Backward pass of iLQR: a linear-quadratic problem, solved by dynamic programming."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.experiments.control.plant import LinearisedPlant


@dataclass(frozen=True)
class Feedback:
    """δu_t = α k_t + K_t δx_t, and the value function of the linear-quadratic problem.

    offsets k (time, batch, m); gains K (time, batch, m, n); slopes V_x (time + 1, batch, n); curvatures V_xx
    (time + 1, batch, n, n). linear, quadratic: Σ_t k_tᵀ Q_u and ½ Σ_t k_tᵀ Q_uu k_t, (batch,). sound: True if each
    (regularized) Q_uu is positive definite; otherwise the other fields have no meaning.
    """

    offsets: Array
    gains: Array
    slopes: Array
    curvatures: Array
    linear: Array
    quadratic: Array
    sound: Array

    def promise(self, alpha: Array) -> Array:
        """-(α Σ kᵀ Q_u + ½ α² Σ kᵀ Q_uu k): predicted reduction of the cost."""
        return -(alpha * self.linear + alpha**2 * self.quadratic)


def riccati(plant: LinearisedPlant, mu: Array) -> Feedback:
    """k = -Q_uu⁻¹ Q_u and K = -Q_uu⁻¹ Q_ux, backward in time, with μ I added to V_xx in these two.

        Q_x = ℓ_x + f_xᵀ V'_x       Q_xx = ℓ_xx + f_xᵀ V'_xx f_x      V_x  = Q_x + Kᵀ Q_uu k + Kᵀ Q_u + Q_uxᵀ k
        Q_u = ℓ_u + f_uᵀ V'_x       Q_ux = ℓ_ux + f_uᵀ V'_xx f_x      V_xx = Q_xx + Kᵀ Q_uu K + Kᵀ Q_ux + Q_uxᵀ K

    mu: μ ≥ 0 of each movement, (batch,); limits the change of states.
    Source: Tassa, Erez & Todorov 2012, eqs 5, 10 and 11.
    """
    time, batch, n, m = plant.f_u.shape
    k, K = np.zeros((time, batch, m)), np.zeros((time, batch, m, n))
    V_x, V_xx = np.zeros((time + 1, batch, n)), np.zeros((time + 1, batch, n, n))
    V_x[time], V_xx[time] = plant.final_x, plant.final_xx
    linear, quadratic = np.zeros(batch), np.zeros(batch)
    sound: Array = np.ones(batch, bool)
    damping = mu[:, None, None] * np.eye(n)
    for t in reversed(range(time)):
        f_x, f_u, after, curved = plant.f_x[t], plant.f_u[t], V_x[t + 1][..., None], V_xx[t + 1]
        back_x, back_u = f_x.swapaxes(1, 2), f_u.swapaxes(1, 2)
        Q_x, Q_u = plant.l_x[t][..., None] + back_x @ after, plant.l_u[t][..., None] + back_u @ after
        Q_xx = plant.l_xx[t] + back_x @ curved @ f_x
        Q_ux, Q_uu = plant.l_ux[t] + back_u @ curved @ f_x, plant.l_uu[t] + back_u @ curved @ f_u
        damped = _symmetric(Q_uu + back_u @ damping @ f_u)
        sound[...] = sound & _definite(damped)
        damped = np.where(sound[:, None, None], damped, np.eye(m))
        step = -np.linalg.solve(damped, np.concatenate([Q_u, Q_ux + back_u @ damping @ f_x], axis=2))
        offset, gain = step[..., :1], step[..., 1:]
        gain_T = gain.swapaxes(1, 2)
        k[t], K[t] = offset[..., 0], gain
        V_x[t] = (Q_x + gain_T @ (Q_uu @ offset + Q_u) + Q_ux.swapaxes(1, 2) @ offset)[..., 0]
        cross = gain_T @ Q_ux
        V_xx[t] = _symmetric(Q_xx + gain_T @ Q_uu @ gain + cross + cross.swapaxes(1, 2))
        V_x[t, ~sound], V_xx[t, ~sound] = 0, 0  # otherwise they would grow further
        linear += (offset * Q_u).sum(axis=(1, 2))
        quadratic += (offset * (Q_uu @ offset)).sum(axis=(1, 2)) / 2
    return Feedback(k, K, V_x, V_xx, linear, quadratic, sound)


def _symmetric(matrix: Array) -> Array:
    return (matrix + matrix.swapaxes(1, 2)) / 2


def _definite(matrix: Array) -> Array:
    """True for matrices that are positive definite by more than rounding; False for NaN."""
    finite = np.asarray(np.isfinite(matrix).all(axis=(1, 2)))
    found = np.linalg.eigvalsh(np.where(finite[:, None, None], matrix, np.eye(matrix.shape[1])))
    least: Array = np.logical_and(finite, found[:, 0] > np.finfo(np.float64).eps * np.abs(found).max(axis=1))
    return least
