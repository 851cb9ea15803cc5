"""Plant: a planar arm of two rigid links, as nodes.

The state of an arm is x = [θ, φ, θ̇, φ̇]: angle of the shoulder against the first axis, angle of the elbow against
the upper arm, and their velocities (rad, rad/s). Torques are [τ_θ, τ_φ] at the two joints (N m). The arm moves in a
horizontal plane, without gravity and friction.

Link k has length l_k, mass m_k, its center of mass at distance c_k from its joint, and inertia I_k about that center.
The Lagrangian is the kinetic energy, ½ q̇ᵀ M(φ) q̇ with q = [θ, φ] and

    M(φ) = [a₁ + 2 a₂ cos φ   a₃ + a₂ cos φ]     a₁ = I₁ + I₂ + m₁ c₁² + m₂ (l₁² + c₂²)
           [a₃ + a₂ cos φ     a₃           ]     a₂ = m₂ l₁ c₂        a₃ = I₂ + m₂ c₂²

and its equations d/dt ∂L/∂q̇ - ∂L/∂q = τ are  M(φ) q̈ = τ + a₂ sin φ [φ̇ (2 θ̇ + φ̇), -θ̇²].

    det M = (I₁ + m₁ c₁²)(I₂ + m₂ c₂²) + m₂ l₁² I₂ + (m₂ l₁ c₂ sin φ)²

is positive in every posture. (With inertias about the centers of mass in place of those about the joints, e.g. I₂ for
a₃, it is not: this may be the singular inertia matrix in Sutskever 2013, 6.6.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.dtypes import require_unmasked
from graphnet.graph.node import Array, Node
from graphnet_rnn.errors import UsageError


@dataclass(frozen=True)
class Arm:
    """M(φ) q̈ = τ + a₂ sin φ [φ̇ (2 θ̇ + φ̇), -θ̇²];  x_{t+1} = x_t + Δt [q̇_t, q̈_t], x = [q, q̇]

    length1, length2: of upper arm and forearm, in m. mass1, mass2: in kg. center1, center2: distance of the center of
    mass from the joint, in m. inertia1, inertia2: about the center of mass, in kg m². dt: Δt in s, 0.01 by default.
    Defaults are similar to a macaque's upper arm, and forearm with hand (Cheng & Scott 2000), but not quoted from
    there. state, in methods: node x (..., 4). torques: node τ (..., 2), in N m. phi: elbow angles (...), in rad.
    Raises UsageError for numbers that no arm can have.
    Source: Sutskever 2013, 6.3 (Euler, Δt = 0.01 s) and 6.6.

    >>> arm = rnn.control.Arm()
    >>> arm.inertia(0.0).shape, arm.state_at([0.02, 0.265]).shape
    ((2, 2), (4,))
    >>> state, force = gn.input((4,), "float64", name="x"), gn.input((2,), "float64", name="F")
    >>> torques = arm.torques_of(force, state)
    >>> nodes = [arm.hand(state), torques, arm.accelerations(state, torques), arm.step(state, torques)]
    >>> found = gn.compile(nodes, [state, force], backend="numpy")(arm.state_at([0.02, 0.265]), np.array([0.0, 1.0]))
    >>> [each.round(3).tolist() for each in found]
    [[0.02, 0.265], [0.02, -0.11], [14.148, -40.312], [0.52, 1.575, 0.141, -0.403]]
    """

    length1: float = 0.15
    length2: float = 0.22
    mass1: float = 0.35
    mass2: float = 0.30
    center1: float = 0.07
    center2: float = 0.10
    inertia1: float = 7e-4
    inertia2: float = 1.2e-3
    dt: float = 0.01

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if (
                isinstance(value, bool)
                or not isinstance(value, (int, float, np.number))
                or not 0 < value < math.inf
            ):
                raise UsageError(f"Arm: {field.name} must be a number > 0, not {value!r}")

    @property
    def coefficients(self) -> tuple[float, float, float]:
        """a₁, a₂ and a₃ of M(φ), in kg m²."""
        a1 = self.inertia1 + self.mass1 * self.center1**2 + self.mass2 * self.length1**2
        a2 = self.mass2 * self.length1 * self.center2
        a3 = self.inertia2 + self.mass2 * self.center2**2
        return a1 + a3, a2, a3

    # -- equations on nodes ------------------------------------------------------------------

    def accelerations(self, state: Node, torques: Node) -> Node:
        """q̈ = M(φ)⁻¹ (τ + a₂ sin φ [φ̇ (2 θ̇ + φ̇), -θ̇²]), (..., 2), for x (..., 4) and τ (..., 2)."""
        a1, a2, a3 = self.coefficients
        phi, v_theta, v_phi = state[..., 1], state[..., 2], state[..., 3]
        coupling = a2 * gn.cos(phi)
        turning = a2 * gn.sin(phi)
        r1 = torques[..., 0] + turning * v_phi * (2 * v_theta + v_phi)
        r2 = torques[..., 1] - turning * v_theta * v_theta
        m11, m12, m22 = a1 + 2 * coupling, a3 + coupling, a3
        determinant = m11 * m22 - m12 * m12
        return gn.stack(
            [(m22 * r1 - m12 * r2) / determinant, (m11 * r2 - m12 * r1) / determinant], axis=r1.ndim
        )

    def step(self, state: Node, torques: Node) -> Node:
        """x_{t+1} from x_t and the torques, by Euler's method."""
        rates = gn.concatenate([state[..., 2:], self.accelerations(state, torques)], axis=state.ndim - 1)
        return state + self.dt * rates

    def hand(self, state: Node) -> Node:
        """Position of the hand, (..., 2) in m, with the shoulder at the origin; x is (..., 4)."""
        theta, both = state[..., 0], state[..., 0] + state[..., 1]
        l1, l2 = self.length1, self.length2
        return gn.stack(
            [l1 * gn.cos(theta) + l2 * gn.cos(both), l1 * gn.sin(theta) + l2 * gn.sin(both)], axis=theta.ndim
        )

    def torques_of(self, force: Node, state: Node) -> Node:
        """τ = Jᵀ F: torques of a force (..., 2) in N on the hand, J = ∂hand/∂q."""
        theta, both = state[..., 0], state[..., 0] + state[..., 1]
        forearm = self.length2 * (force[..., 1] * gn.cos(both) - force[..., 0] * gn.sin(both))
        upper = self.length1 * (force[..., 1] * gn.cos(theta) - force[..., 0] * gn.sin(theta))
        return gn.stack([upper + forearm, forearm], axis=theta.ndim)

    # -- arrays ------------------------------------------------------------------------------

    def inertia(self, phi: Any) -> Array:
        """M(φ), (..., 2, 2) in kg m², for elbow angles (...)."""
        a1, a2, a3 = self.coefficients
        coupling = a2 * np.cos(np.asarray(phi, np.float64))
        m = np.empty((*coupling.shape, 2, 2))
        m[..., 0, 0] = a1 + 2 * coupling
        m[..., 0, 1] = m[..., 1, 0] = a3 + coupling
        m[..., 1, 1] = a3
        return m

    def state_at(self, hand: Any) -> Array:
        """[θ, φ, 0, 0]: at rest with the hand at these positions, (..., 4) for (..., 2) in m, the elbow bent by 0 < φ <
        π.

        Raises UsageError for a position out of reach.
        """
        require_unmasked("state_at: hand", hand)
        at = np.asarray(hand, np.float64)
        if at.ndim == 0 or at.shape[-1] != 2:
            raise UsageError(f"state_at: places must have the shape (..., 2), not {list(at.shape)}")
        distance = np.hypot(at[..., 0], at[..., 1])
        nearest, farthest = abs(self.length1 - self.length2), self.length1 + self.length2
        out = ~((distance > nearest) & (distance < farthest))
        if out.any():
            raise UsageError(
                f"state_at: the place {at[out][0].tolist()} is {distance[out][0]:.4g} m from the shoulder; the hand "
                f"reaches from {nearest:.4g} to {farthest:.4g} m."
            )
        cos_phi = (distance**2 - self.length1**2 - self.length2**2) / (2 * self.length1 * self.length2)
        phi = np.arccos(cos_phi)
        theta = np.arctan2(at[..., 1], at[..., 0]) - np.arctan2(
            self.length2 * np.sin(phi), self.length1 + self.length2 * np.cos(phi)
        )
        return np.stack([theta, phi, 0 * phi, 0 * phi], axis=-1)
