"""The problem of all contenders: one Hessian-free step on the addition problem, and its results.

Imports NumPy only, so that a worker under any interpreter can import it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

Array = Any
Arrays = dict[str, Any]

#: Of an Elman net, in the order in which ours keeps them.
NAMES = ("W_xh", "W_hh", "b_h", "W_ho", "b_o")


@dataclass(frozen=True)
class Problem:
    """T of the addition problem, sequences, tanh units; λ; the weight λ μ of structural damping; CG's steps."""

    length: int
    batch: int
    units: int
    damping: float
    structural: float
    cg_steps: int

    def record(self) -> dict[str, Any]:
        """The problem as JSON-compatible values."""
        return asdict(self)

    def __str__(self) -> str:
        damped = f", structural damping {self.structural:g}" if self.structural else ""
        return (
            f"addition, T = {self.length}, batch {self.batch}, {self.units} tanh units, "
            f"{self.cg_steps} steps of CG, λ = {self.damping:g}{damped}"
        )


@dataclass(frozen=True)
class Data:
    """inputs (time, batch, 2); targets (batch, 1), of the last step; weights, and v of Gv, by the names in NAMES."""

    inputs: Array
    targets: Array
    weights: Arrays
    direction: Arrays

    def save(self, path: str) -> None:
        named = {f"weights {name}": array for name, array in self.weights.items()}
        named |= {f"direction {name}": array for name, array in self.direction.items()}
        np.savez(path, inputs=self.inputs, targets=self.targets, **named)

    @classmethod
    def load(cls, path: str) -> Data:
        with np.load(path) as file:
            kinds = ({name: file[f"{kind} {name}"] for name in NAMES} for kind in ("weights", "direction"))
            return cls(file["inputs"], file["targets"], *kinds)

    @property
    def time(self) -> int:
        return int(self.inputs.shape[0])


class Contender(ABC):
    """One implementation, with the problem loaded. The cost is the mean over cases of (o - t)² at the last step.

    Structural damping adds λ μ times the mean over cases of Σ_t Jᵀ diag(1 - h²) J, J = ∂a_t/∂w, where h_t = tanh a_t.
    Vectors are its own, float32 or float64; `named` reads them.
    """

    #: How many products Gv the last step took, and how many losses besides the gradient's.
    products = losses = 0

    @abstractmethod
    def named(self, vector: Any) -> Arrays:
        """Parts of a vector by the names in NAMES."""

    @abstractmethod
    def gradient(self) -> Any:
        """∇C"""

    @abstractmethod
    def linearized(self) -> Callable[[], Any]:
        """Does the work that a step's products share; returns a function that multiplies the direction by G.

        With structural damping, without λ.
        """

    @abstractmethod
    def step(self, cg_steps: int) -> Any:
        """A whole Hessian-free step from the weights and from δ = 0, which the next call starts from, too.

        Returns δ after CG's last step.
        """


class Judge(Contender):
    """The contender by which δ is judged."""

    @abstractmethod
    def model(self, delta: Array) -> float:
        """φ(δ) = ∇Cᵀδ + ½ δᵀ(G + λ I + structural damping) δ, which CG minimizes."""
