"""A step that goes wrong leaves everything as it was: θ, the optimiser's state, the model, under every loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn import optimizers
from graphnet_rnn.errors import TrainingError
from graphnet_rnn.optimizers.step import guarded_step
from graphnet_rnn.training import Trainer, Training
from tests.graphnet_rnn.optimizers.toys import Plain
from tests.graphnet_rnn.training.problems import PROBLEMS
from tests.tables import case

KINDS = {**optimizers.ALL}


def bowl() -> tuple[rnn.Objective, Any]:
    """(w - 1)² + a term that is fed, which may be anything."""
    w = gn.parameter(np.arange(4.0), name="w")
    x = gn.input((4,), "float64", name="x")
    objective = rnn.Objective(gn.mean(gn.squared_error(w, 1.0) * x), [w], [x])
    objective.feed(np.ones(4))
    return objective, w


class Broken(Plain):
    """What it gives is changed."""

    break_: Callable[[float, Array], tuple[float, Array]]

    def gradient(self, w: Array) -> tuple[float, Array]:
        return self.break_(*super().gradient(w))


def fail(loss: float, gradient: Array) -> tuple[float, Array]:
    raise KeyboardInterrupt


BREAKS: dict[str, Callable[[float, Array], tuple[float, Array]]] = {
    "the loss is NaN": lambda loss, g: (np.nan, g),
    "the loss is infinite": lambda loss, g: (np.inf, g),
    "a derivative is NaN": lambda loss, g: (loss, np.where(np.arange(g.size) == 2, np.nan, g)),
    "a derivative is infinite": lambda loss, g: (loss, np.where(np.arange(g.size) == 2, -np.inf, g)),
    "somebody presses Ctrl-C": fail,
}


@pytest.mark.parametrize("name", KINDS)
def test_nothing_changes(name: str) -> None:
    """After two good steps, so that there is a state to lose."""
    for what, broken in BREAKS.items():
        with case(what):
            optimizer = KINDS[name]()
            objective, w = bowl()
            objective.__class__ = Broken
            objective.break_ = lambda loss, g: (loss, g)  # type: ignore[attr-defined]
            theta = objective.start()
            state = optimizer.init(theta, objective)
            for step in range(2):
                guarded_step(optimizer, objective, theta, state, f"step {step}")
            before = theta.copy(), {name: array.copy() for name, array in state.items()}
            objective.break_ = broken  # type: ignore[attr-defined]
            error = KeyboardInterrupt if "Ctrl-C" in what else TrainingError
            with pytest.raises(error) as caught, np.errstate(all="ignore"):
                guarded_step(optimizer, objective, theta, state, "step 2", remedy="try another thing")
            if error is TrainingError:
                assert "at step 2" in str(caught.value)
            assert theta.tobytes() == before[0].tobytes()
            assert {name: array.tobytes() for name, array in state.items()} == {
                name: array.tobytes() for name, array in before[1].items()
            }
            assert np.array_equal(w.value, theta), (
                "the model's parameters are θ, wherever the optimizer looked"
            )


def test_the_node_is_named() -> None:
    w, x = gn.parameter(np.ones(2), name="w"), gn.input((2,), "float64", name="x")
    objective = rnn.Objective(gn.sum(gn.log(w * x)), [w], [x])
    objective.feed(np.array([1.0, -1.0]))
    theta = objective.start()
    optimizer = rnn.Nesterov(0.1)
    with (
        pytest.raises(TrainingError, match=r"(?s)the loss is nan.*at the first.*Log"),
        np.errstate(all="ignore"),
    ):
        guarded_step(optimizer, objective, theta, optimizer.init(theta), "the first")


# -- under every loop ----------------------------------------------------------------------------
# A rate at which the first step is finite, and what follows is not. Each loop gives the model, and tells of each step.

HUGE = rnn.Nesterov(1e30, clip_norm=1.0)


def network() -> rnn.Network:
    return rnn.Network([rnn.Elman(3)], 4, 4, "squared", reads="symbols")


def by_minimize(told: Callable[[], Any], folder: Path, model: list[rnn.Model]) -> None:
    net = network()
    model.append(net)
    u = net.unroll(5, 2, initial="zero")
    objective = rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets])
    objective.feed(np.ones((5, 2), int), np.ones((5, 2, 4), np.float32))
    rnn.minimize(objective, HUGE, callback=lambda step, report: told())


def energy() -> rnn.training.Problem:
    data = 1e3 * np.random.default_rng(0).normal(size=(9, 3))
    return rnn.EnergyCases(rnn.energy.RBM(3, 2, "gaussian"), data, 9, valid=0)


def stream() -> rnn.training.Problem:
    """Of a network whose loss has no bound."""
    return rnn.Stream(rnn.online.RTRL(network()), np.ones((9, 1), int), np.ones((9, 1, 4)))


def by_trainer(make: Callable[[], rnn.training.Problem]) -> Any:
    def loop(told: Callable[[], Any], folder: Path, model: list[rnn.Model]) -> None:
        class Tells(rnn.training.Listener):
            def stepped(self, trainer: Trainer, report: Any) -> None:
                trainer.problem.model.theta = np.asarray(trainer.theta)
                told()

        problem = make()
        model.append(problem.model)
        Trainer(problem, Training(HUGE, epochs=9), folder / "run", listeners=[Tells()]).run()

    return loop


LOOPS: dict[str, Any] = {
    "minimize": by_minimize,
    **{f"Trainer, {name}": by_trainer(PROBLEMS[name].make) for name in ("one's own", "arrays")},
    "Trainer, stream": by_trainer(stream), "Trainer, energy": by_trainer(energy),
}  # fmt: skip


def test_a_loop_ends_at_the_last_finite_step(tmp_path: Path) -> None:
    """The model has the weights of the last step that went well; they are what somebody may look at."""
    for number, name in enumerate(LOOPS):
        with case(name):
            folder = tmp_path / str(number)
            folder.mkdir()
            model: list[rnn.Model] = []
            seen: list[Array] = []
            with pytest.raises(TrainingError), np.errstate(all="ignore"):
                LOOPS[name](lambda: seen.append(model[0].theta.copy()), folder, model)
            assert seen, "a step went well"
            assert np.isfinite(seen[-1]).all()
            assert model[0].theta.tobytes() == seen[-1].tobytes()
