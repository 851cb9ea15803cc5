"""`check_optimizer` accepts all optimizers and a user-defined one, and finds faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.testing import LawError
from graphnet_rnn import optimizers
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers import FirstOrder, NesterovMomentum, Stepwise
from graphnet_rnn.optimizers.base import Report
from tests.graphnet_rnn.optimizers.toys import H, Quadratic
from tests.tables import case

SCHEDULED = {"rate": Stepwise({0: 0.1, 2: 0.05}), "clip_norm": 0.5, "clip_value": 0.3}


@dataclass(frozen=True)
class Lion(FirstOrder):
    """θ ← θ - ε sign(β₁ m + (1-β₁) g);  m ← β₂ m + (1-β₂) g. Source: Chen et al. 2023."""

    beta1: float = 0.9
    beta2: float = 0.99

    def accumulators(self, theta):
        return {"m": np.zeros_like(theta)}

    def update(self, theta, g, state, rate):
        m = state["m"]
        way = gn.sign(self.beta1 * m + (1 - self.beta1) * g)
        return theta - rate * way, {"m": self.beta2 * m + (1 - self.beta2) * g}


#: Settings that use other branches of an optimizer.
SPECIAL: list[optimizers.Optimizer] = [
    rnn.Nesterov(0.1, momentum=NesterovMomentum(0.9)),
    rnn.HessianFree(preconditioner=0.75),
    rnn.HessianFree(preconditioner="kfac"),
    rnn.NaturalGradient(every=3, graft="adam", rate=Stepwise({0: 0.1, 2: 0.2}), momentum=NesterovMomentum()),
    rnn.HessianFree(damping=0.0, adapts="nothing"),
    rnn.Adam(weight_decay=0.1, groups={"a": {"rate": 0.5}, "b": {"weight_decay": 0.2}}),
    rnn.Nesterov(Stepwise({0: 0.1, 2: 0.05}), groups={"*": {"rate": 0.5}, "b": {"rate": 2}}),
    Lion(0.01),
    Lion(0.01, weight_decay=0.1, groups={"b": {"weight_decay": 0}}),
    Lion(Stepwise({0: 0.1, 1: 0.2}), clip_norm=0.1),
]


@pytest.mark.parametrize("kind", [*optimizers.ALL.values(), None])
def test_every_optimizer_passes_the_check(kind: Any) -> None:
    """kind None: the optimizers of SPECIAL."""
    first_order = kind is not None and issubclass(kind, FirstOrder)
    for optimizer in SPECIAL if kind is None else [kind(), kind(**SCHEDULED)] if first_order else [kind()]:
        with case(optimizer):
            told: list[str] = []
            rnn.testing.check_optimizer(optimizer, lambda name, found: told.append(name))
            assert len(told) >= (9 if isinstance(optimizer, FirstOrder) else 5)


@dataclass(frozen=True)
class ByHand(optimizers.Optimizer):
    """θ ← θ - ε g, without a fault."""

    rate: float = 0.1
    careful: ClassVar = True

    def init(self, theta, objective=None):
        return {"v": np.zeros_like(theta)}

    def step(self, objective, theta, state, rate=None):
        loss, g = objective.gradient(theta)
        length = float(np.linalg.norm(g))
        if not self.careful or (np.isfinite(loss) and np.isfinite(length)):
            self.move(theta, g, state)
        return Report(loss, length)

    def move(self, theta, g, state):
        state["v"] += g
        theta -= theta.dtype.type(self.rate) * g


class Replacing(ByHand):
    def move(self, theta, g, state):
        state["v"] = state["v"] + g
        theta -= theta.dtype.type(self.rate) * g


class Forgetful(ByHand):
    """Depends on an attribute that is not part of the state."""

    def move(self, theta, g, state):
        seen = getattr(self, "seen", 0)
        object.__setattr__(self, "seen", seen + 1)
        theta -= theta.dtype.type(self.rate / (1 + seen)) * g


class Coarse(rnn.SGD):
    """θ ← θ - ε g, with an ε that is 0.1 % smaller in float32"""

    def update(self, theta, g, state, rate):
        scale = 1000.0 if theta.dtype == np.float64 else 999.0
        return theta - rate * g * (scale / 1000), {}


def test_faults_are_found() -> None:
    rnn.testing.check_optimizer(ByHand())
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (ByHand, {"careful": False}, "a step changes θ, v where there is a gradient NaN"),
        (Replacing, {}, "puts another array in the place of v"),
        (Forgetful, {}, "resumed after 4 steps, θ are others"),
        (ByHand, {"move": lambda self, w, g, state: state.update(more=g)}, r"adds \['more'\] to the state"),
        (ByHand, {"move": lambda self, w, g, state: None}, "does not change θ"),
        (ByHand, {"settings": lambda self: {"rate": np.float32(self.rate)}}, "cannot be stored as JSON"),
        (rnn.SGD, {"apply": lambda self, w, g, state, rate=None, **_: (w - rate * g, dict(state))},
         "clip_norm=.* is not a gradient of this length"),
        # lookahead and evaluation_point disagree.
        (rnn.SGD, {"lookahead": lambda self, w, state: 1.5 * w, "evaluation_point": lambda self, w, state: w},
         "differ from its own equations"),
        (Coarse, {}, "float32 differs from float64"),
        (rnn.SGD, {"update": lambda self, w, g, state, rate: (w - 0.1 * g, {})}, "does not depend on its rate"),
        (rnn.SGD, {"_key": property(lambda self: (object(),))}, "more functions were compiled"),
    ]  # fmt: skip
    for kind, faulty, words in cases:
        with case(words), pytest.raises(LawError, match=words):
            rnn.testing.check_optimizer(type("Faulty", (kind,), faulty)())
    with pytest.raises(UsageError, match=r"takes an optimizer, e\.g\. rnn\.Adam"):
        rnn.testing.check_optimizer(rnn.Adam)


@dataclass(frozen=True)
class Odd(FirstOrder):
    """Its update returns `new(θ, g, state)`."""

    new: Any = None

    def accumulators(self, theta):
        return {"v": np.zeros_like(theta)}

    def update(self, theta, g, state, rate):
        return self.new(theta, g, state)


def test_invalid_updates_are_rejected() -> None:
    cases = [
        (lambda t, g, s: (t, {"w": g}), "Odd.update returned 'w'"),
        (lambda t, g, s: (gn.sum(t), {}), r"the new θ must be a node of float64 of shape \[3\]"),
        (lambda t, g, s: (t, {"v": gn.cast(g, "float32")}), "the new v must be .* float64 .* not .* float32"),
        (lambda t, g, s: (t, {"v": 3}), "the new v must be a node .* not 3"),
        (lambda t, g, s: (t - s["u"], {}), "the state has no 'u', only v"),
    ]
    for new, words in cases:
        optimizer, theta = Odd(new=new), np.ones(3)
        with case(words), pytest.raises(UsageError, match=words):
            optimizer.step(Quadratic(), theta, optimizer.init(theta))
        assert (theta == 1).all()
    theta = gn.input((3,), "float64")
    momentum = rnn.Momentum(0.1, momentum=NesterovMomentum())
    state = {"v": theta, "step": gn.input((1,), "int64")}
    with pytest.raises(UsageError, match=r"Momentum.apply: momentum follows a schedule"):
        momentum.apply(theta, theta, state)
    assert momentum.apply(theta, theta, state, momentum=0.9)[1]["step"] is not state["step"]
    with pytest.raises(UsageError, match="no setting 'mass'"):
        momentum.apply(theta, theta, state, mass=3)


def test_hypergradient_matches_finite_differences() -> None:
    """d loss(θ₃) / d ε through three steps matches finite differences."""
    start = np.array([0.3, -0.4, 2.0])

    def loss(w: gn.Node) -> gn.Node:
        return gn.sum(w * (gn.constant(H) @ w)) / 2 + gn.sum(w**4)

    for optimizer in [
        rnn.SGD(0.1), rnn.Momentum(0.1), rnn.Nesterov(0.1), rnn.RMSprop(0.05), rnn.Adam(0.05, clip_norm=1.0),
    ]:  # fmt: skip
        with case(optimizer):
            rate, theta = gn.input((), "float64", name="rate"), gn.constant(start)
            state = {name: gn.constant(a) for name, a in optimizer.init(start).items()}
            for _ in range(3):
                point = optimizer.looked_ahead(theta, state, rate=rate)
                (g,) = gn.gradient(loss(point), [point])
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

            slope = (after(optimizer.rate + 1e-6) - after(optimizer.rate - 1e-6)) / 2e-6
            assert float(found[0]) == pytest.approx(after(optimizer.rate), rel=1e-12)
            assert float(found[1]) == pytest.approx(slope, rel=1e-5)
