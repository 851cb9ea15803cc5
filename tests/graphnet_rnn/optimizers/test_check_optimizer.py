"""What must hold of any optimiser: of all that we have, of one of five lines, and of none that has a fault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array, Node
from graphnet.testing import LawError
from graphnet_rnn import optimizers
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers import FirstOrder, NesterovMomentum, Stepwise
from graphnet_rnn.optimizers.base import Differentiable, Report, State
from tests.tables import case

Nodes = dict[str, Node]
SCHEDULED = {"rate": Stepwise({0: 0.1, 2: 0.05}), "clip_norm": 0.5, "clip_value": 0.3}


@dataclass(frozen=True)
class Lion(FirstOrder):
    """θ ← θ - ε sign(β₁ m + (1-β₁) g);  m ← β₂ m + (1-β₂) g. Source: Chen et al. 2023."""

    beta1: float = 0.9
    beta2: float = 0.99

    def accumulators(self, theta: Array) -> State:
        return {"m": np.zeros_like(theta)}

    def update(self, theta: Node, g: Node, state: Nodes, rate: Node) -> tuple[Node, Nodes]:
        m = state["m"]
        way = gn.sign(self.beta1 * m + (1 - self.beta1) * g)
        return theta - rate * way, {"m": self.beta2 * m + (1 - self.beta2) * g}


#: Settings that take other ways through an optimiser.
SPECIAL: list[optimizers.Optimizer] = [
    rnn.Nesterov(0.1, momentum=NesterovMomentum(0.9)),
    rnn.HessianFree(preconditioner=0.75),
    rnn.HessianFree(preconditioner="kfac"),
    rnn.NaturalGradient(
        every=3, graft="adam", rate=Stepwise({0: 0.1, 2: 0.2}), momentum=NesterovMomentum(0.9)
    ),
    rnn.HessianFree(damping=0.0, adapts="nothing"),
    rnn.Adam(weight_decay=0.1, groups={"a": {"rate": 0.5}, "b": {"weight_decay": 0.2}}),
    rnn.Nesterov(Stepwise({0: 0.1, 2: 0.05}), groups={"*": {"rate": 0.5}, "b": {"rate": 2}}),
    Lion(0.01),
    Lion(0.01, weight_decay=0.1, groups={"b": {"weight_decay": 0}}),
    Lion(Stepwise({0: 0.1, 1: 0.2}), clip_norm=0.1),
]


def require_all_checks(optimizer: optimizers.Optimizer) -> None:
    told: list[str] = []
    rnn.testing.check_optimizer(optimizer, lambda name, found: told.append(name))
    assert len(told) >= (8 if isinstance(optimizer, FirstOrder) else 5)


@pytest.mark.parametrize("kind", optimizers.ALL.values(), ids=optimizers.ALL)
def test_all_that_we_have(kind: type[optimizers.Optimizer]) -> None:
    require_all_checks(kind())
    if issubclass(kind, FirstOrder):
        require_all_checks(kind(**SCHEDULED))


def test_settings_that_take_other_ways() -> None:
    for optimizer in SPECIAL:
        with case(optimizer):
            require_all_checks(optimizer)


# -- each fault is found -------------------------------------------------------------------------


@dataclass(frozen=True)
class ByHand(optimizers.Optimizer):
    """θ ← θ - ε g, without a fault."""

    rate: float = 0.1

    def init(self, theta: Array, objective: Any = None) -> State:
        return {"v": np.zeros_like(theta)}

    def step(
        self, objective: Differentiable, theta: Array, state: State, rate: float | None = None
    ) -> Report:
        loss, g = objective.gradient(theta)
        length = float(np.linalg.norm(g))
        if np.isfinite(loss) and np.isfinite(length):
            self.move(theta, g, state)
        return Report(loss, length)

    def move(self, theta: Array, g: Array, state: State) -> None:
        state["v"] += g
        theta -= theta.dtype.type(self.rate) * g


class Careless(ByHand):
    def step(
        self, objective: Differentiable, theta: Array, state: State, rate: float | None = None
    ) -> Report:
        loss, g = objective.gradient(theta)
        self.move(theta, g, state)
        return Report(loss, float(np.linalg.norm(g)))


class Replacing(ByHand):
    def move(self, theta: Array, g: Array, state: State) -> None:
        state["v"] = state["v"] + g
        theta -= theta.dtype.type(self.rate) * g


class Forgetful(ByHand):
    """It remembers what no state tells."""

    def move(self, theta: Array, g: Array, state: State) -> None:
        seen = getattr(self, "seen", 0)
        object.__setattr__(self, "seen", seen + 1)
        theta -= theta.dtype.type(self.rate / (1 + seen)) * g


class Adding(ByHand):
    def move(self, theta: Array, g: Array, state: State) -> None:
        state["more"] = g
        theta -= theta.dtype.type(self.rate) * g


class Idle(ByHand):
    def move(self, theta: Array, g: Array, state: State) -> None:
        state["v"] += g


class Unstorable(ByHand):
    def settings(self) -> dict[str, Any]:
        return {"rate": np.float32(self.rate)}


class Unclipped(rnn.SGD):
    def apply(
        self, theta: Node, g: Node, state: Any, rate: Any = None, **settings: Any
    ) -> tuple[Node, Nodes]:
        return theta - rate * g, dict(state)


class OneWayHereAnotherThere(rnn.SGD):
    """What it asks nodes for is not where it takes its gradient."""

    def lookahead(self, theta: Node, state: Nodes) -> Node:
        return 1.5 * theta

    def evaluation_point(self, theta: Array, state: State) -> Array:
        return theta


class Coarse(rnn.SGD):
    """θ ← θ - ε g, in steps of a thousandth: other numbers in float32"""

    def update(self, theta: Node, g: Node, state: Nodes, rate: Node) -> tuple[Node, Nodes]:
        scale = 1000.0 if theta.dtype == np.float64 else 999.0
        return theta - rate * g * (scale / 1000), {}


class Recompiling(rnn.SGD):
    @property
    def _key(self) -> tuple[Any, ...]:
        return *super()._key, object()


def test_faults_are_found() -> None:
    cases = [
        (Careless(), "a step changes θ, v where there is a gradient NaN"),
        (Replacing(), "puts another array in the place of v"),
        (Forgetful(), "resumed after 4 steps, θ are others"),
        (Adding(), r"adds \['more'\] to the state"),
        (Idle(), "does not change θ"),
        (Unstorable(), "not what JSON can hold"),
        (Unclipped(), "clip_norm=.* is not a gradient of this length"),
        (OneWayHereAnotherThere(), "differ from its own equations"),
        (Coarse(), "float32 differs from float64"),
        (Recompiling(), "more functions were compiled"),
    ]
    for optimizer, words in cases:
        with case(optimizer, words):
            rnn.testing.check_optimizer(ByHand())
            with pytest.raises(LawError, match=words):
                rnn.testing.check_optimizer(optimizer)


def test_what_is_no_optimizer() -> None:
    with pytest.raises(UsageError, match=r"takes an optimizer, e\.g\. rnn\.Adam"):
        rnn.testing.check_optimizer(rnn.Adam)  # type: ignore[arg-type]


# -- equations that do not fit -------------------------------------------------------------------


def updating(new: Any) -> FirstOrder:
    """One whose update gives what `new` makes of θ, g, the state and the rate."""

    @dataclass(frozen=True)
    class Odd(FirstOrder):
        def accumulators(self, theta: Array) -> State:
            return {"v": np.zeros_like(theta)}

        def update(self, theta: Node, g: Node, state: Nodes, rate: Node) -> tuple[Node, Nodes]:
            return new(theta, g, state, rate)  # type: ignore[no-any-return]

    return Odd()


def test_an_update_that_does_not_fit() -> None:
    cases = [
        (
            lambda t, g, s, r: (t, {"w": g}),
            "Odd.update: gives a new 'w', which `accumulators` does not begin with",
        ),
        (lambda t, g, s, r: (gn.sum(t), {}), r"the new θ must be a node of float64 of shape \[3\]"),
        (
            lambda t, g, s, r: (t, {"v": gn.cast(g, "float32")}),
            "the new v must be a node of float64 .* not .* float32",
        ),
        (lambda t, g, s, r: (t, {"v": 3}), "the new v must be a node .* not 3"),
        (lambda t, g, s, r: (t - s["u"], {}), "the state has no 'u', only v"),
    ]
    for new, words in cases:
        with case(new, words):
            optimizer, theta = updating(new), np.ones(3)
            with pytest.raises(UsageError, match=words):
                optimizer.step(Slope(), theta, optimizer.init(theta))
            assert (theta == 1).all()


class Slope:
    def gradient(self, w: Array) -> tuple[float, Array]:
        return 1.0, 2 * w


# -- through steps -------------------------------------------------------------------------------


def test_the_slope_of_a_loss_in_the_rate_of_the_steps_before() -> None:
    """A hypergradient: d loss(θ₃) / d ε through three steps = its finite difference, of steps on arrays."""
    cases = [
        rnn.SGD(0.1),
        rnn.Momentum(0.1),
        rnn.Nesterov(0.1),
        rnn.RMSprop(0.05),
        rnn.Adam(0.05),
        rnn.Adam(0.05, clip_norm=1.0),
    ]
    for optimizer in cases:
        with case(optimizer):
            h = np.array([[3.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 1.0]])
            start = np.array([0.3, -0.4, 2.0])

            def loss(w: Node) -> Node:
                return gn.sum(w * (gn.constant(h) @ w)) / 2 + gn.sum(w**4)

            rate = gn.input((), "float64", name="rate")
            theta = gn.constant(start)
            state: Nodes = {name: gn.constant(a) for name, a in optimizer.init(start).items()}
            for _ in range(3):
                point = optimizer.looked_ahead(theta, state, rate=rate)
                (g,) = gn.gradient(loss(point), [point]) if point is not theta else (_slope_at(loss, theta),)
                theta, state = optimizer.apply(theta, g, state, rate)
            value = loss(theta)
            found = gn.compile([value, *gn.gradient(value, [rate])], [rate])(np.float64(optimizer.rate))

            x = gn.parameter(start.copy(), name="x")
            objective = rnn.Objective(loss(x), [x])

            def after(rate: float) -> float:
                theta = start.copy()
                state = optimizer.init(theta)
                for _ in range(3):
                    optimizer.step(objective, theta, state, rate)
                return objective.loss(theta)

            step = 1e-6
            slope = (after(optimizer.rate + step) - after(optimizer.rate - step)) / (2 * step)  # type: ignore[operator]
            assert float(found[0]) == pytest.approx(after(optimizer.rate), rel=1e-12)  # type: ignore[arg-type]
            assert float(found[1]) == pytest.approx(slope, rel=1e-5)


def _slope_at(loss: Any, theta: Node) -> Node:
    (g,) = gn.gradient(loss(theta), [theta])
    return g


def test_a_schedule_must_be_said_of_nodes() -> None:
    theta = gn.input((3,), "float64")
    momentum = rnn.Momentum(0.1, momentum=NesterovMomentum())
    state = {"v": gn.input((3,), "float64"), "step": gn.input((1,), "int64")}
    with pytest.raises(
        UsageError, match=r"Momentum.apply: momentum follows a schedule; .* apply\(..., momentum=...\)"
    ):
        momentum.apply(theta, theta, state)
    _, new = momentum.apply(theta, theta, state, momentum=0.9)
    assert new["step"] is not state["step"]
    with pytest.raises(UsageError, match="there is no setting 'mass'"):
        momentum.apply(theta, theta, state, mass=3)
