"""Training settings of Sutskever 2013 for these problems: Hessian-free optimization (4.4), and momentum (7.4)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphnet_rnn.cell.initializers import Initializer, normal, reservoir, sparse, zeros
from graphnet_rnn.cells.elman import Elman
from graphnet_rnn.errors import UsageError
from graphnet_rnn.experiments.dependencies.problems import (
    Addition,
    Memory,
    Memory5,
    Memory20,
    Multiplication,
    Permutation,
    Task,
    require_task,
)
from graphnet_rnn.network.network import Network, require_network
from graphnet_rnn.optimizers.first_order import Momentum, Nesterov
from graphnet_rnn.optimizers.hessian_free import HessianFree
from graphnet_rnn.optimizers.objective import Objective
from graphnet_rnn.optimizers.schedules import Stepwise
from graphnet_rnn.settings import yes_or_no

#: `initial=` of the Elman cell, and of the network.
CellAndOutput = tuple[dict[str, Initializer], dict[str, Initializer]]

# -- Hessian-free optimization: 4.4 --------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """Settings of Hessian-free optimization in the source.

    damping: initial λ. structural: μ. Both are for a cost that is summed over time, see summed_over_time. gradient,
    curvature, test: numbers of sequences (those of the curvature are among those of the gradient). units: of the Elman
    network. cg_steps: maximum CG steps of an optimizer step. success: a run is solved below this share of wrong test
    sequences. minibatch: sequences of a minibatch. minibatches: a run fails after this number of minibatches.

    >>> settings = rnn.tasks.settings(rnn.tasks.Addition(30))
    >>> settings.damping, settings.units, settings.optimizer().cg_steps
    (0.1, 100, 300)
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
        """Hessian-free optimization with these settings.

        As in Martens 2010, which the source follows, CG also ends when the loss keeps less than 90 % of its reduction,
        and when the model hardly decreases, here with ε = 1e-4: with 5e-4 it left plateaus later.
        """
        return HessianFree(
            damping=self.damping,
            structural=self.structural,
            cg_steps=self.cg_steps,
            tolerance=1e-4,
            retained=0.9,
        )


def settings(task: Task, structural: bool = True) -> Settings:
    """Settings of the source for a problem, with or without structural damping.

    task: the problem. structural: True (default) for structural damping.
    λ = 0.1 and μ = 1/30, or λ = 0.3 without structural damping; λ = 0.1 T for the permutation (the source gives only
    this one). Problems with few different sequences use all of them for everything.
    Source: Sutskever 2013, 4.4.

    >>> rnn.tasks.settings(rnn.tasks.Addition(30), structural=False).damping
    0.3
    """
    require_task("settings", task)
    structural = yes_or_no("settings: structural", structural)
    damping = 0.1 * task.length if isinstance(task, Permutation) else 0.1 if structural else 0.3
    weight = 1 / 30 if structural else 0.0
    if task.distinct is not None:
        return Settings(damping, weight, task.distinct, task.distinct, task.distinct)
    return Settings(damping, weight)


def initial_weights() -> CellAndOutput:
    """`initial=` of the Elman cell, and of the network: 15 connections for each unit.

    Each hidden and output unit has 15 incoming connections, and each input 15 outgoing ones. Those of W_hh and W_ho,
    and all biases, are ~ N(0, 1/15), those of W_xh ~ N(0, 1). (The source does not specify the side of W_xh. With 15
    incoming connections, which are all for few inputs, each step drives every unit hard, and after 50 steps 1e-9 of the
    first step remains, not 1e-5.)
    Source: Sutskever 2013, 4.4.

    >>> cell, output = rnn.tasks.initial_weights()
    >>> sorted(cell), sorted(output)
    (['W_hh', 'W_xh', 'b_h'], ['W_ho', 'b_o'])
    """
    scale = 1 / math.sqrt(15)
    cell = {"W_xh": sparse(15, outgoing=True), "W_hh": sparse(15, scale), "b_h": normal(scale)}
    return cell, {"W_ho": sparse(15, scale), "b_o": normal(scale)}


def elman(task: Task, units: int = 100, seed: int = 0, initial: CellAndOutput | None = None) -> Network:
    """Network of the source for a problem: `units` tanh units.

    task: the problem. units: 100 by default. seed: seed of the weights; 0 by default. initial: initial weights of the
    cell and of the network; initial_weights() by default; echo_state_weights(task) for momentum.
    Source: Sutskever 2013, 4.4, 7.4.1.

    >>> rnn.tasks.elman(rnn.tasks.Addition(10), units=20).layers
    [Elman(units=20)]
    """
    require_task("elman", task)
    cell, output = initial_weights() if initial is None else initial
    return Network(
        [Elman(units, initial=cell)],
        task.inputs,
        task.outputs,
        task.loss,
        seed=seed,
        reads=task.reads,
        initial=output,
    )


# -- momentum: 7.4 -------------------------------------------------------------------------------


@dataclass(frozen=True)
class MomentumSettings:
    """Settings of momentum in the source.

    rate, momentum: schedules by step. minibatch: new sequences in each step. input_scale: of the standard normal
    connections into the hidden units. length: T in table 7.3. nesterov, classical: zero-one loss (see zero_one_loss)
    there, the mean of ten runs. iterations: number of steps. units: of the Elman network.
    kind, in `optimizer`: rnn.Nesterov (default) or rnn.Momentum.

    >>> settings = rnn.tasks.momentum_settings(rnn.tasks.Addition(30))
    >>> settings.minibatch, settings.iterations, type(settings.optimizer()).__name__
    (100, 50000, 'Nesterov')
    """

    rate: Stepwise
    momentum: Stepwise
    minibatch: int
    input_scale: float
    length: int
    nesterov: float
    classical: float
    iterations: int = 50_000
    units: int = 100

    def optimizer(self, kind: type[Momentum] = Nesterov) -> Momentum:
        """Nesterov momentum with these settings, or classical momentum."""
        return kind(rate=self.rate, momentum=self.momentum)


_MOMENTUM = Stepwise({0: 0.9, 4000: 0.98})
_FOR_NUMBERS = Stepwise({0: 3e-5, 1500: 3e-4, 3000: 3e-3, 6000: 1e-3, 30_000: 1e-4})
_FOR_MEMORY = Stepwise({0: 3e-5, 1500: 1e-5})

#: Name of the problem -> settings. For memorization, the source states only that ε had to fall to about 1e-5 "fairly
#: early on (after 1500 iterations)", and that results did not depend on the schedules otherwise. The start is ours: the
#: first rate of the other problems, and their momentum. (From 1e-3 the units saturated for good.)
#: All are for a cost that is summed over time, see summed_over_time. Settings that train here differ, see
#: graphnet_rnn/experiments/dependencies/momentum.py.
MOMENTUM_SETTINGS: Mapping[str, MomentumSettings] = {
    Addition.name: MomentumSettings(_FOR_NUMBERS, _MOMENTUM, 100, 0.02, 80, 0.011, 0.250),
    Multiplication.name: MomentumSettings(_FOR_NUMBERS, _MOMENTUM, 100, 0.02, 80, 0.270, 0.340),
    Memory5.name: MomentumSettings(_FOR_MEMORY, _MOMENTUM, 32, 0.3, 200, 0.025, 0.180),
    Memory20.name: MomentumSettings(_FOR_MEMORY, _MOMENTUM, 100, 0.3, 50, 0.032, 0.00006),
}


def momentum_settings(task: Task) -> MomentumSettings:
    """Settings of the source for training with momentum.

    task: the problem. Raises UsageError for a problem without such settings in the source.
    Source: Sutskever 2013, 7.4 and table 7.3.

    >>> rnn.tasks.momentum_settings(rnn.tasks.Memory5(50)).minibatch
    32
    """
    require_task("momentum_settings", task)
    if task.name not in MOMENTUM_SETTINGS:
        raise UsageError(
            f"momentum_settings: the source has no settings for {task.name}, only for {', '.join(MOMENTUM_SETTINGS)}"
        )
    return MOMENTUM_SETTINGS[task.name]


def echo_state_weights(task: Task) -> CellAndOutput:
    """`initial=` of the Elman cell, and of the network: W_hh with 15 incoming connections, spectral radius 1.2.

    W_xh has up to 15, ~ N(0, s²), s = 0.02 for addition and multiplication, 0.3 for memorization. The source does not
    specify the rest: W_ho is as in initial_weights, biases are 0.
    task: the problem. Raises UsageError for a problem without such settings in the source.
    Source: Sutskever 2013, 7.4.1.

    >>> cell, output = rnn.tasks.echo_state_weights(rnn.tasks.Addition(30))
    >>> sorted(cell), sorted(output)
    (['W_hh', 'W_xh', 'b_h'], ['W_ho', 'b_o'])
    """
    require_task("echo_state_weights", task)
    cell = {
        "W_xh": sparse(15, momentum_settings(task).input_scale),
        "W_hh": reservoir(1.2, connections=15),
        "b_h": zeros(),
    }
    return cell, {"W_ho": sparse(15, 1 / math.sqrt(15)), "b_o": zeros()}


def zero_one_loss(task: Task, logits: Any, targets: Any) -> float:
    """Share of wrong answers, as in table 7.3; `Task.wrong` judges whole sequences.

    Memorization: the share of wrong symbols in the answers, at the last steps. (The source counts "incorrectly
    remembered bits" and "timesteps" alike. An untrained network gets half of the bits wrong; counted over all T + 10
    steps, most of which are constant, it could not reach 18 % as in the table.) Other problems: the share of wrong
    sequences. task: the problem. logits, targets: as for Task.wrong. Raises DataError for arrays that do not fit.
    Source: Sutskever 2013, 7.4.2.

    >>> task = rnn.tasks.Memory5(10)
    >>> inputs, targets = task.every()
    >>> rnn.tasks.zero_one_loss(task, np.eye(task.outputs)[targets], targets)
    0.0
    """
    require_task("zero_one_loss", task)
    sequences = task.wrong(logits, targets)
    if not isinstance(task, Memory):
        return float(sequences.mean())
    o, t = np.asarray(logits)[-task.places :], np.asarray(targets)[-task.places :]
    return float(((o.argmax(axis=2) != t) | ~np.isfinite(o).all(axis=2)).mean())


def summed_over_time(
    task: Task, network: Network, count: int, unscored: int | None = None, **how: Any
) -> Objective:
    """C = Σ_t loss_t over the scored steps, averaged over `count` sequences; feed inputs and targets.

    The mean over steps, `u.cost`, would make every λ of the sources too large by the number of scored steps.
    task: the problem. network: network for it. count: number of sequences. unscored: number of first steps that are not
    scored; those without a target by default. how: more settings of Objective (backend, memory, ...).

    >>> task = rnn.tasks.Addition(10)
    >>> objective = rnn.tasks.summed_over_time(task, rnn.tasks.elman(task, units=20), count=5)
    >>> objective.feed(*task.batch(np.random.default_rng(0), 5))
    >>> objective.loss(objective.start()) > 0
    True
    """
    require_task("summed_over_time", task)
    require_network("summed_over_time", network).require_each_step("summed_over_time")
    unscored = task.unscored if unscored is None else unscored
    u = network.unroll(task.time, count, initial="zero", unscored=unscored)
    cost = u.cost * float(task.time - unscored)
    # u.structure reads u.cost, so its pairs match this cost.
    return Objective(
        cost, list(network.parameters.values()), [u.inputs, u.targets], structure=u.structure, **how
    )
