"""The package `hessianfree` 0.4.0 (Daniel Rasmussen, NumPy): its RNNet, its optimizer, with nothing in it changed.

So that it computes the same numbers, three things are set from outside, through classes that it means to be derived
from: the loss has no factor ½, and is curved only where there is a target (its own SquaredError is curved everywhere);
structural damping is on the inputs of the nonlinearity, as in Martens & Sutskever 2011 (its own is on the outputs); and
the bias that its layers have for the first time step stays zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hessianfree  # type: ignore[import-not-found, unused-ignore]
import numpy as np

from benchmarks.second_order.problem import NAMES, Array, Arrays, Contender, Data, Problem


class Loss(hessianfree.loss_funcs.LossFunction):  # type: ignore[misc]
    """(o - t)² where t is not NaN; for the curvature, the structural weight / (1 - h²) at the hidden units' outputs."""

    def __init__(self, structural: float) -> None:
        self.structural = structural

    def loss(self, activities: list[Array], targets: Array) -> list[Array | None]:
        difference = np.nan_to_num(activities[-1] - targets)
        return [None, None, np.sum(difference**2, axis=tuple(range(1, targets.ndim)))]

    def d_loss(self, activities: list[Array], targets: Array) -> list[Array | None]:
        return [None, None, 2 * np.nan_to_num(activities[-1] - targets)]

    def d2_loss(self, activities: list[Array], targets: Array) -> list[Array | None]:
        hidden = np.float32(self.structural) / (1 - activities[1] ** 2) if self.structural else None
        return [None, hidden, 2 * np.isfinite(targets).astype(np.float32)]


class Net(hessianfree.RNNet):  # type: ignore[misc]
    """Counts, and holds the bias of the first time step fixed."""

    products = losses = 0

    def calc_grad(self) -> Array:
        return self._without_first_bias(super().calc_grad())

    def calc_G(self, v: Array, damping: float = 0, out: Array | None = None) -> Array:
        self.products += 1
        return self._without_first_bias(super().calc_G(v, damping, out))

    def error(self, W: Array | None = None, inputs: Array | None = None, targets: Array | None = None) -> Any:
        self.losses += W is not None  # without W, it uses values of the forward run
        return super().error(W, inputs, targets)

    def _without_first_bias(self, vector: Array) -> Array:
        self.get_weights(vector, (1, 1))[1][:] = 0
        return vector


class HessianFreePackage(Contender):
    def __init__(self, problem: Problem, data: Data) -> None:
        self.problem = problem
        targets = np.full((data.time, *data.targets.shape), np.nan, np.float32)
        targets[-1] = data.targets
        # batch first
        self.inputs, self.targets = (np.ascontiguousarray(a.swapaxes(0, 1)) for a in (data.inputs, targets))
        nonlinearities = hessianfree.nl
        self.net = Net(
            shape=[data.inputs.shape[2], problem.units, data.targets.shape[1]],
            layers=[nonlinearities.Linear(), nonlinearities.Tanh(), nonlinearities.Linear()],
            loss_type=Loss(problem.structural),
        )
        self.net.W, self.direction = self._flat(data.weights), self._flat(data.direction)

    def _places(self, vector: Array) -> Arrays:
        """Views into a vector of the package."""
        W_xh, b_h = self.net.get_weights(vector, (0, 1))
        W_ho, b_o = self.net.get_weights(vector, (1, 2))
        W_hh, _ = self.net.get_weights(vector, (1, 1))
        return dict(zip(NAMES, (W_xh, W_hh, b_h, W_ho, b_o), strict=True))

    def _flat(self, arrays: Arrays) -> Array:
        vector = np.zeros_like(self.net.W)
        for name, place in self._places(vector).items():
            place[...] = arrays[name]
        return vector

    def named(self, vector: Any) -> Arrays:
        return self._places(vector)

    def _run_forward(self) -> None:
        self.net.cache_minibatch(self.inputs, self.targets)

    def gradient(self) -> Any:
        self._run_forward()
        return self.net.calc_grad()

    def linearized(self) -> Callable[[], Any]:
        self._run_forward()
        return lambda: self.net.calc_G(self.direction)

    def step(self, cg_steps: int) -> Any:
        optimizer = hessianfree.opt.HessianFree(cg_steps, self.problem.damping, plotting=False)
        self.net.optimizer = optimizer
        self.net.products = self.net.losses = 0
        self._run_forward()
        optimizer.compute_update()
        self.products, self.losses = self.net.products, self.net.losses
        return optimizer.init_delta


def ways(contender: str, problem: Problem, data: Data, options: dict[str, Any]) -> tuple[str, ...]:
    return ("",)


def make(contender: str, problem: Problem, data: Data, way: str, options: dict[str, Any]) -> Contender:
    return HessianFreePackage(problem, data)
