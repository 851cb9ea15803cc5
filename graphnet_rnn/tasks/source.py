"""How Sutskever 2013 trained on these problems: the settings of section 4.4 as data, and the initial weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

from graphnet_rnn.cells import Elman
from graphnet_rnn.initializers import Initializer, normal, sparse
from graphnet_rnn.network import Network
from graphnet_rnn.optimizers import HessianFree
from graphnet_rnn.tasks.pathological import Permutation, Task

__all__ = ["Settings", "elman", "initial_weights", "settings"]


@dataclass(frozen=True)
class Settings:
    """damping: λ at the start; structural: μ. Both are for a cost that is summed over time, see summed_over_time.

    units: of the Elman net. gradient, curvature, test: sequences for each (the curvature's are among the gradient's).
    cg_steps: the most of a step. success: a run is one if a smaller share of test sequences is wrong. minibatches: a
    run that has gone through more of these, of `minibatch` sequences each, has failed.
    """

    damping: float
    structural: float
    gradient: int = 10_000
    curvature: int = 1_000
    test: int = 10_000
    units: int = 100
    cg_steps: int = 300
    success: float = 0.01
    minibatch: int = 1_000
    minibatches: int = 50_000

    def optimizer(self) -> HessianFree:
        """Hessian-free optimisation with these settings: CG ends where less than 90 % of the reduction is retained."""
        return HessianFree(
            damping=self.damping,
            structural=self.structural,
            cg_steps=self.cg_steps,
            tolerance=0,
            retained=0.9,
        )


def settings(task: Task, structural: bool = True) -> Settings:
    """The source's settings for a problem, with structural damping or without.

    λ = 0.1 and μ = 1/30, or λ = 0.3 without structural damping; for the permutation λ = 0.1 T (the source gives no
    other for it); where there are few different sequences, all of them serve for everything.
    Source: Sutskever 2013, 4.4.
    """
    damping = 0.1 * task.length if isinstance(task, Permutation) else 0.1 if structural else 0.3
    weight = 1 / 30 if structural else 0.0
    if task.distinct is not None:
        return Settings(damping, weight, task.distinct, task.distinct, task.distinct)
    return Settings(damping, weight)


def initial_weights() -> tuple[dict[str, Initializer], dict[str, Initializer]]:
    """`initial=` of the Elman cell, and of the network: each unit is connected to 15 others.

    Each hidden and each output unit has 15 incoming connections, and each input 15 outgoing ones. Those of W_hh and
    W_ho, and all biases, are ~ N(0, 1/15), those of W_xh ~ N(0, 1). (The source does not say which side of W_xh it
    means. With 15 incoming connections, all that there are where there are few inputs, every unit is driven hard at
    each step, and what the first step leaves behind after 50 is 1e-9 of it, not 1e-5.) Source: Sutskever 2013, 4.4.
    """
    scale = 1 / math.sqrt(15)
    cell = {"W_xh": sparse(15, outgoing=True), "W_hh": sparse(15, scale), "b_h": normal(scale)}
    return cell, {"W_ho": sparse(15, scale), "b_o": normal(scale)}


def elman(task: Task, units: int = 100, seed: int = 0) -> Network:
    """The source's network for a problem: `units` tanh units, with its initial weights. Source: Sutskever 2013, 4.4."""
    cell, output = initial_weights()
    return Network(
        [Elman(units, initial=cell)],
        task.inputs,
        task.outputs,
        task.loss,
        seed=seed,
        reads=task.reads,
        initial=output,
    )
