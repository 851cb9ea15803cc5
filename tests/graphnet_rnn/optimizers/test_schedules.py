"""Schedules by step against plain loops from the paper's equations; states that resume; settings that make it again."""

from __future__ import annotations

import copy
import itertools
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.optimizers import (
    SGD,
    Adam,
    Momentum,
    Nesterov,
    NesterovMomentum,
    Optimizer,
    RMSprop,
    Schedule,
    Stepwise,
)
from graphnet_rnn.tasks import (
    TASKS,
    momentum_settings,
    zero_one_loss,
)
from tests.tables import case

MOMENTA = (0.8, 0.9, 0.95, 0.97, 0.99, 0.995, 0.997, 0.999)

# -- the values ----------------------------------------------------------------------------------


def test_values_hold_from_their_step_on() -> None:
    """Sutskever 2013, 7.4.2: "3e-5 for the first 1500 iterations, 3e-4 for another 1500, 3e-3 for another 3000"."""
    rate = Stepwise({3000: 3e-3, 0: 3e-5, 1500: 3e-4})
    expected = [3e-5] * 1500 + [3e-4] * 1500 + [3e-3] * 3000
    assert [rate.at(step) for step in range(6000)] == expected
    assert rate.at(2**40) == 3e-3
    assert rate.range == (3e-5, 3e-3)


def test_momenta_at_exponentially_spaced_steps() -> None:
    """7.3: eight values, the last from step 200,000 on; each step is twice the one before."""
    momentum = Stepwise.spaced(MOMENTA, last=200_000)
    steps, values = zip(*momentum.values, strict=True)
    assert values == MOMENTA
    assert steps[0] == 0
    assert steps[-1] == 200_000
    assert [b / a for a, b in itertools.pairwise(steps[1:])] == pytest.approx([2] * 6, rel=1e-3)
    assert momentum.at(199_999) == 0.997
    assert Stepwise.spaced(MOMENTA, 10**6, ratio=10).at(99) == 0.95
    assert Stepwise.spaced([0.5], 3) == Stepwise({0: 0.5})


def test_the_last_tenth_and_the_cap() -> None:
    """7.3: classical momentum is capped at 0.99, and the last tenth has it too; at 0.9 the cap holds there as well."""
    whole = Stepwise.spaced(MOMENTA, last=200_000).then(0.99, at=540_000)
    assert [whole.at(step) for step in (300_000, 539_999, 540_000, 599_999)] == [0.999, 0.999, 0.99, 0.99]
    for cap in (0.99, 0.9):
        capped = rnn.Stepwise(whole.values).capped(cap)
        grid = range(0, 600_000, 777)
        assert [capped.at(step) for step in grid] == [min(whole.at(step), cap) for step in grid]
    assert whole.then(0.5, at=0).values == ((0, 0.5),)
    assert whole.then(0.5, at=200_000).at(10**6) == 0.5, "what was to come later is gone"


def test_nesterov_momentum() -> None:
    """1 - 3/(t + 5) comes near (a_t - 1)/a_{t+1} of eqs 7.5, 7.6, and stays below `most`."""
    schedule = NesterovMomentum(most=0.9999)
    a = 1.0
    for t in range(2000):
        following = (1 + math.sqrt(4 * a * a + 1)) / 2
        exact = (a - 1) / following
        assert schedule.at(t) == 1 - 3 / (t + 5)
        if t >= 100:
            assert abs(exact - schedule.at(t)) < 0.1 * (1 - exact)
        a = following
    assert NesterovMomentum(0.95).at(10_000) == 0.95
    assert [NesterovMomentum(0.95).range, NesterovMomentum(0.3).range] == [(0.4, 0.95), (0.3, 0.3)]


def test_impossible_schedules() -> None:
    cases = [
        (lambda: Stepwise({}), "the first of the steps must be 0, not None"),
        (lambda: Stepwise({5: 0.1}), "the first of the steps must be 0, not 5"),
        (lambda: Stepwise({0: 0.1, 1.5: 0.2}), "a step must be a whole number >= 0, not 1.5"),
        (lambda: Stepwise({0: math.nan}), "the value from step 0 on must be a finite number, not nan"),
        (lambda: Stepwise([(0, 1.0), (3, 1.0), (3, 2.0)]), "each step can have one value"),
        (lambda: Stepwise([0.1, 0.2]), "values must be pairs (step, value), but one is 0.1"),
        (lambda: Stepwise(0.1), "values must be a mapping or pairs"),
        (lambda: Stepwise.spaced(MOMENTA, 20), "8 values do not fit into 20 steps"),
        (lambda: Stepwise.spaced(MOMENTA, 999, 1), "ratio must be a finite number > 1, not 1"),
        (lambda: Stepwise({0: 0.5}).then(0.2, at=-1), "then: at must be a whole number >= 0, not -1"),
        (lambda: rnn.Warmup(0), "Warmup: steps must be a whole number >= 1, not 0"),
        (lambda: rnn.Cosine(5.5), "Cosine: steps must be a whole number >= 1, not 5.5"),
        (lambda: rnn.OneCycle(100, rise=0.6), "OneCycle: rise must be in (0, 0.5], not 0.6"),
        (lambda: rnn.OneCycle(3, rise=0.1), "OneCycle: 3 steps are too few to go up and down"),
        (lambda: rnn.Ramp(math.nan, 1, 3), "Ramp: first must be a finite number, not nan"),
        (lambda: rnn.ExponentialDecay(2), "ExponentialDecay: decay must be in (0, 1], not 2"),
        (lambda: rnn.OnPlateau(1), "OnPlateau: factor must be in (0, 1), not 1"),
        (
            lambda: rnn.Constant().then(rnn.Cosine(5)),
            "Constant(value=1.0) has no last step; say when the next",
        ),
        (lambda: rnn.Cosine(5).then("slow"), "then: following must be a Schedule or a number, not 'slow'"),
        (lambda: math.nan * rnn.Cosine(5), "a schedule's factor must be a finite number, not nan"),
        (lambda: SGD(rnn.OnPlateau()), "an optimizer does not know validated costs; a Trainer does"),
        (lambda: SGD(rnn.Cosine(5).by_epoch()), "an optimizer does not know epochs; a Trainer does"),
        (
            lambda: rnn.Training(schedule=0.5),
            "schedule must be a Schedule, e.g. rnn.Warmup(500), or None, not 0.5",
        ),
        (
            lambda: rnn.Training(schedule=rnn.Constant(0)),
            "schedule must be of factors >= 0, and not always 0",
        ),
        (lambda: NesterovMomentum(1.0), "NesterovMomentum: most must be in [0, 1), not 1.0"),
    ]
    for make, content in cases:
        with case(make, content), pytest.raises(UsageError, match=re.escape(content)):
            make()


# -- shapes, each against its formula as a plain loop ----------------------------------------------


def warmup(n: int, start: float) -> list[float]:
    value, values = start, []
    for _ in range(n):
        value += (1 - start) / n
        values.append(value)
    return values


def one_cycle(up: int, left: int, start: float, final: float) -> list[float]:
    values = [start + (1 - start) * i / up for i in range(up)]
    values += [1 - (1 - start) * i / up for i in range(up)]
    return values + [start - (start - final) * i / left for i in range(left)]


def plateau(costs: list[float], patience: int) -> list[float]:
    """The factor after each of these epochs: halved when so many in a row were no lower than the best before."""
    best, waited, factor, factors = math.inf, 0, 1.0, []
    for cost in costs:
        if cost < best:
            best, waited = cost, 0
        else:
            waited += 1
            if waited == patience:
                factor, waited = factor / 2, 0
        factors.append(factor)
    return factors


COSTS = [3.0, 2.0, 2.0, 2.5, 1.9, 1.9, 2.0, 1.9, 1.8, 1.7, math.nan, 1.7]
SHAPES: dict[str, tuple[Schedule, list[float], float]] = {
    "constant": (rnn.Constant(0.3), [0.3] * 5, 0.3),
    "ramp": (rnn.Ramp(2, 1, 4), [2, 1.75, 1.5, 1.25], 1.0),
    "warm-up": (rnn.Warmup(8), warmup(8, 0), 1.0),
    "warm-up from a tenth": (rnn.Warmup(3, 0.1), warmup(3, 0.1), 1.0),
    "warm-up of a step": (rnn.Warmup(1), [1.0], 1.0),
    "cosine": (rnn.Cosine(10), [math.cos(math.pi * t / 20) ** 2 for t in range(10)], 0.0),
    "cosine to a tenth": (
        rnn.Cosine(7, 0.1),
        [0.1 + 0.9 * math.cos(math.pi * t / 14) ** 2 for t in range(7)],
        0.1,
    ),
    "one cycle": (rnn.OneCycle(20), one_cycle(9, 2, 0.1, 0.001), 0.001),
    "one cycle, half down": (rnn.OneCycle(12, 0.2, 0.0, rise=0.25), one_cycle(3, 6, 0.2, 0.0), 0.0),
    "one cycle, nothing left": (rnn.OneCycle(8, 0.2, 0.1, rise=0.5), one_cycle(4, 0, 0.2, 0.1), 0.1),
    "exponential": (rnn.ExponentialDecay(0.5), [0.5**t for t in range(9)], 0.0),
    "exponential, in so many steps": (
        rnn.ExponentialDecay(0.5, steps=4),
        [2 ** (-t / 4) for t in range(9)],
        0.0,
    ),
    "inverse root": (rnn.InverseRootDecay(4), [2 / math.sqrt(4 + t) for t in range(9)], 0.0),
    "then": (
        rnn.Warmup(3).then(rnn.Cosine(4, 0.5)).then(rnn.Ramp(1, 0, 2)),
        [*warmup(3, 0), *(0.5 + 0.5 * math.cos(math.pi * t / 8) ** 2 for t in range(4)), 1, 0.5],
        0.0,
    ),
    "then, at a step": (rnn.Cosine(10).then(0.7, at=2), [1, math.cos(math.pi / 20) ** 2, 0.7], 0.7),
    "transformer": (
        rnn.Warmup(5).then(rnn.InverseRootDecay(5)),
        [min((t + 1) / 5, math.sqrt(5 / max(t, 5))) for t in range(20)],
        0.0,
    ),
    "scaled": (0.002 * rnn.Warmup(4), [0.002 * v for v in warmup(4, 0)], 0.002),
    "scaled by NumPy": (np.float64(2) * rnn.Warmup(2) * np.float32(2), [2, 4], 4.0),
    "product": (rnn.Warmup(3) * rnn.Ramp(1, 0, 6), [1 / 3, 2 / 3 * 5 / 6, 4 / 6, 3 / 6], 0.0),
}


def test_shapes() -> None:
    """The formula, the limit, the promised range; what it is made of says it again, in words and in JSON."""
    for schedule, expected, limit in SHAPES.values():
        with case(schedule, expected):
            found = [schedule.at(t) for t in range(len(expected))]
            assert found == pytest.approx(expected, rel=1e-12, abs=1e-15)
            assert schedule.at(10**12) == pytest.approx(limit, abs=1e-5)
            assert schedule.length is None or schedule.at(schedule.length) == schedule.at(10**9)
            least, most = schedule.range
            assert all(least <= schedule.at(t) <= most for t in (*range(60), 10**9))
            assert [schedule.now(t, 3, [1.0]) for t in range(len(expected))] == found
            assert eval(repr(schedule), dict(vars(rnn.optimizers.schedules))) == schedule
            stored = json.loads(json.dumps(schedule.description()))
            if most < math.inf:
                assert rnn.SGD(stored).rate == schedule
                assert [rnn.SGD(stored).rate.at(t) for t in range(30)] == [schedule.at(t) for t in range(30)]
            assert hash(schedule) == hash(eval(repr(schedule), dict(vars(rnn.optimizers.schedules))))


def test_by_epoch_the_same_of_epochs() -> None:
    schedule = rnn.Warmup(100) * rnn.Cosine(10).by_epoch()
    assert schedule.reads == {"step", "epoch"}
    for step, epoch in ((0, 0), (57, 2), (500, 9)):
        expected = min(step + 1, 100) / 100 * math.cos(math.pi * epoch / 20) ** 2
        assert schedule.now(step, epoch) == pytest.approx(expected)
    in_epochs = rnn.Warmup(2).then(rnn.Ramp(1, 0, 4)).by_epoch()
    assert [in_epochs.now(999, epoch) for epoch in range(7)] == [0.5, 1, 1, 0.75, 0.5, 0.25, 0]
    assert eval(repr(schedule), dict(vars(rnn.optimizers.schedules))) == schedule
    with pytest.raises(UsageError, match=re.escape("depends on epochs; ask now(step, epoch, costs)")):
        schedule.at(0)


def test_on_plateau() -> None:
    for patience in [1, 2, 3]:
        with case(patience):
            schedule = rnn.OnPlateau(0.5, patience, tolerance=0.0)
            found = [schedule.now(0, n, COSTS[:n]) for n in range(1, len(COSTS) + 1)]
            assert found == plateau(COSTS, patience)
            assert found[-1] < 1
            assert rnn.OnPlateau(0.5, 1, least=0.3).now(0, 9, [1.0] * 9) == 0.3
            assert rnn.OnPlateau(0.5, 1, tolerance=0.1).now(0, 2, [1.0, 0.95]) == 0.5, (
                "a twentieth is no improvement"
            )
            assert rnn.OnPlateau(0.5, 1, tolerance=0.1).now(0, 2, [-1.0, -1.05]) == 0.5, "nor below 0"
            warm = rnn.Warmup(10).then(schedule)
            assert [warm.now(4, 9, COSTS), warm.now(10, 12, COSTS)] == [0.5, found[-1]]


# -- optimisers with them ------------------------------------------------------------------------

H = np.array([[3.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 1.0]])
CENTRE = np.array([1.0, -2.0, 0.5])
RATE = Stepwise({0: 0.01, 2: 0.1, 5: 0.03})
MU = Stepwise({0: 0.5, 3: 0.9})


class Quadratic:
    """½ (w - c)ᵀ H (w - c); not a number at one call."""

    def __init__(self, break_at: int = -1) -> None:
        self.calls, self.break_at = 0, break_at

    def gradient(self, w: Array) -> tuple[float, Array]:
        self.calls += 1
        g = H.astype(w.dtype) @ (w - CENTRE.astype(w.dtype))
        return (math.nan if self.calls == self.break_at else float((w - CENTRE) @ g / 2)), g


SCHEDULED: dict[str, Optimizer] = {
    "sgd": SGD(RATE),
    "momentum": Momentum(RATE, momentum=MU),
    "momentum, its rate alone": Momentum(RATE, momentum=0.9),
    "nesterov, its momentum alone": Nesterov(0.05, momentum=NesterovMomentum(0.9)),
    "nesterov": Nesterov(RATE, clip_norm=2.0, momentum=MU),
    "rmsprop": RMSprop(RATE),
    "adam": Adam(RATE),
}


def test_steps_are_those_of_the_equations() -> None:
    """Eqs 7.1, 7.2 and 7.12, 7.13 with μ and ε of each step."""
    for look_ahead in [False, True]:
        with case(look_ahead):
            theta, v = np.array([0.3, -0.4, 2.0]), np.zeros(3)
            expected = theta.copy()
            optimizer = (Nesterov if look_ahead else Momentum)(RATE, momentum=MU)
            state = optimizer.init(theta)
            for t in range(9):
                mu, epsilon = (0.5 if t < 3 else 0.9), (0.01 if t < 2 else 0.1 if t < 5 else 0.03)
                assert (optimizer.rate_at(state), optimizer.momentum_at(state)) == (epsilon, mu)
                at = expected + mu * v if look_ahead else expected
                v = mu * v - epsilon * (H @ (at - CENTRE))
                expected = expected + v
                optimizer.step(Quadratic(), theta, state)
                assert np.allclose(theta, expected, rtol=1e-13)
            assert state["step"].tolist() == [9]
            assert state["step"].dtype == np.int64


def test_a_rate_by_step_is_that_rate_handed_to_each_step() -> None:
    for kind in [SGD, RMSprop, Adam]:
        with case(kind):
            scheduled, plain = kind(RATE), kind(7.0)
            a, b = np.zeros(3, np.float32), np.zeros(3, np.float32)
            states = scheduled.init(a), plain.init(b)
            for t in range(8):
                scheduled.step(Quadratic(), a, states[0])
                plain.step(Quadratic(), b, states[1], RATE.at(t))
                assert np.array_equal(a, b)


def test_a_broken_step_is_not_counted() -> None:
    for optimizer in SCHEDULED.values():
        with case(optimizer):
            theta, objective = np.array([0.3, -0.4, 2.0]), Quadratic(break_at=3)
            state = optimizer.init(theta)
            for _ in range(2):
                optimizer.step(objective, theta, state)
            before, kept = theta.copy(), copy.deepcopy(state)
            assert math.isnan(optimizer.step(objective, theta, state).loss)
            assert np.array_equal(theta, before)
            assert all(np.array_equal(state[name], kept[name]) for name in kept)
            assert state["step"].tolist() == [2]


def test_a_rate_handed_to_step_comes_first_and_the_count_goes_on() -> None:
    for optimizer in SCHEDULED.values():
        with case(optimizer):
            theta = np.ones(3)
            state = optimizer.init(theta)
            optimizer.step(Quadratic(), theta, state, rate=0.0)
            assert np.array_equal(theta, np.ones(3))
            assert state["step"].tolist() == [1]


def test_a_state_without_a_count_is_told() -> None:
    theta = np.zeros(3)
    with pytest.raises(
        UsageError, match=r"SGD.step: state lacks step; SGD keeps step; make it with optimizer\.init"
    ):
        SGD(RATE).step(Quadratic(), theta, SGD(0.1).init(theta))


class Wave(Schedule):
    """A schedule of a user's own."""

    def at(self, step: int) -> float:
        return 0.02 + 0.01 * math.sin(step)

    @property
    def range(self) -> tuple[float, float]:
        return 0.01, 0.03


def test_a_schedule_of_ones_own() -> None:
    theta = np.zeros(3)
    optimizer = SGD(Wave())
    state = optimizer.init(theta)
    rates = []
    for _ in range(3):
        rates.append(optimizer.rate_at(state))
        optimizer.step(Quadratic(), theta, state)
    assert rates == [Wave().at(t) for t in range(3)]
    assert optimizer.settings()["rate"] == {"schedule": "Wave"}


def test_impossible_optimizers() -> None:
    cases = [
        (lambda: SGD(Stepwise({0: 0.0, 9: 0.0})), "SGD: rate must be >= 0, and not always 0, not 0.0"),
        (lambda: Adam(Stepwise({0: -0.1, 9: 0.1})), "Adam: rate must be >= 0, and not always 0, not -0.1"),
        (lambda: Momentum(0.1, momentum=Stepwise({0: 0.9, 9: 1.0})), "momentum must be in [0, 1), not 1.0"),
        (
            lambda: SGD("0.1"),
            "SGD: rate must be a number or a Schedule, e.g. 0.1 * Warmup(500), not '0.1'",
        ),
        (lambda: SGD({"schedule": "Stepwise"}), "rate must be a number or a Schedule"),
        (lambda: Nesterov(momentum=None), "Nesterov: momentum must be a number or a Schedule"),
        (lambda: SGD(RATE, clip_norm=0), "SGD: clip_norm must be > 0, or None for no limit, not 0"),
    ]
    for make, content in cases:
        with case(make, content), pytest.raises(UsageError, match=re.escape(content)):
            make()


def test_nesterovs_own_schedule_keeps_his_promise() -> None:
    """7.14: for a convex f with an L-Lipschitz gradient and ε = 1/L, f(θ_t) - f* ≤ 4 L |θ_-1 - θ*|² / (t + 2)²."""
    scale = np.geomspace(1e-4, 1, 50)
    x = gn.parameter(np.ones(50), name="x")
    objective = rnn.Objective(0.5 * gn.sum(gn.constant(scale) * x * x), [x])
    optimizer, theta = Nesterov(1.0, momentum=NesterovMomentum(0.9999)), objective.start()
    state = optimizer.init(theta)
    for t in range(300):
        optimizer.step(objective, theta, state)
        loss = 0.5 * scale @ theta**2
        assert loss <= 4 * 50 / (t + 2) ** 2
    plain = rnn.minimize(objective, SGD(1.0), steps=300, start=np.ones(50))
    assert loss < 0.1 * plain.loss


# -- Sutskever's settings by step, as data -------------------------------------------------------


def test_settings_of_section_7_4() -> None:
    """As the text of 7.4.2 and table 7.3 have them."""
    add, mul, few, many = (
        momentum_settings(TASKS[name](length))
        for name, length in (("addition", 80), ("multiplication", 80), ("memory-5", 200), ("memory-20", 50))
    )
    for numbers in (add, mul):
        rates = [numbers.rate.at(t) for t in (0, 1499, 1500, 2999, 3000, 5999, 6000, 29_999, 30_000, 49_999)]
        assert rates == [3e-5, 3e-5, 3e-4, 3e-4, 3e-3, 3e-3, 1e-3, 1e-3, 1e-4, 1e-4]
    for settings in (add, mul, few, many):
        assert [settings.momentum.at(t) for t in (0, 3999, 4000, 49_999)] == [0.9, 0.9, 0.98, 0.98]
        assert (settings.iterations, settings.units) == (50_000, 100)
        assert settings.optimizer() == Nesterov(settings.rate, momentum=settings.momentum)
        assert type(settings.optimizer(Momentum)) is Momentum
    assert [s.rate.at(1500) for s in (few, many)] == [1e-5, 1e-5]
    assert [s.minibatch for s in (add, mul, few, many)] == [100, 100, 32, 100]
    assert [s.length for s in (add, mul, few, many)] == [80, 80, 200, 50]
    assert [s.nesterov for s in (add, mul, few, many)] == [0.011, 0.270, 0.025, 0.032]
    assert [s.classical for s in (add, mul, few, many)] == [0.250, 0.340, 0.180, 0.00006]
    with pytest.raises(UsageError, match="the source has none for xor, only for addition, multiplication"):
        momentum_settings(TASKS["xor"](30))


def test_zero_one_loss_of_memory_is_by_symbol() -> None:
    """Only the places to be remembered count, and each for itself; a NaN is wrong."""
    task = TASKS["memory-20"](12)
    _, t = task.batch(np.random.default_rng(0), 6)
    o = np.eye(task.outputs)[t]
    assert zero_one_loss(task, o, t) == 0
    o[: task.time - 10] = 0.25  # of what is before, nothing is asked
    assert zero_one_loss(task, o, t) == 0
    assert task.wrong(o, t).all()
    o[-1, 2] = np.roll(o[-1, 2], 1)
    o[-10, 2] = np.roll(o[-10, 2], 1)
    o[-4, 5, 0] = np.nan
    assert zero_one_loss(task, o, t) == pytest.approx(3 / 60)
    guess = np.broadcast_to(np.eye(task.outputs)[3], o.shape)
    assert zero_one_loss(task, guess, t) == (t[-10:] != 3).mean()


def test_zero_one_loss_of_numbers_is_by_sequence() -> None:
    task = TASKS["addition"](10)
    _, t = task.batch(np.random.default_rng(0), 8)
    o = t.astype(float).copy()
    o[-1, :3, 0] += [0.039, 0.041, -0.5]
    assert zero_one_loss(task, o, t) == 2 / 8 == task.wrong(o, t).mean()
    with pytest.raises(DataError, match="addition: logits must be"):
        zero_one_loss(task, o[1:], t[1:])


# -- training on a text --------------------------------------------------------------------------


class StopAt(rnn.training.Listener):
    """Interrupts a run after a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def stepped(self, trainer: rnn.Trainer, report: rnn.optimizers.Report) -> None:
        if trainer.progress.step == self.step:
            trainer._interruption.came = True


FACTORS = {
    "warm-up and cosine": rnn.Warmup(6).then(rnn.Cosine(20)),
    "on a plateau": rnn.Warmup(3) * rnn.OnPlateau(0.5, patience=1, tolerance=0.5),
    "by epoch": rnn.Cosine(6).by_epoch(),
}


def test_a_run_of_factors_that_is_broken_ends_with_the_same_bytes(tmp_path: Path) -> None:
    """The rates are those of steps, epochs and costs, and a resumed run has them, too."""
    for number, (stop, schedule) in enumerate(itertools.product([2, 13], FACTORS.values())):
        with case(stop, schedule):
            folder = tmp_path / str(number)
            folder.mkdir()
            generator = np.random.default_rng(0)
            x = generator.normal(size=(3, 20, 1))

            def trainer(name: str, **more: Any) -> rnn.Trainer:
                problem = rnn.Arrays(
                    rnn.Network([rnn.Elman(3)], 1, 1, loss="squared"), x, x.cumsum(0), 5, valid=0.25
                )
                settings = rnn.Training(
                    rnn.Adam(0.05), epochs=6, schedule=schedule, stopping=None, log_every=1
                )
                return rnn.Trainer(problem, settings, folder / name, **more)

            whole = trainer("whole")
            whole.run()
            assert trainer("broken", listeners=[StopAt(stop)]).run().reason == "interrupted"
            again = trainer("broken")
            again.resume()
            again.run()
            assert again.theta.tobytes() == whole.theta.tobytes()
            texts = [
                (folder / name / "history.jsonl").read_text(encoding="utf-8") for name in ("whole", "broken")
            ]
            assert texts[0] == texts[1]
            rows = [json.loads(line) for line in texts[0].splitlines()]
            costs = [row["valid_loss"] for row in rows if row["event"] == "epoch"]
            rates = [row["learning_rate"] for row in rows if row["event"] == "step"]
            per_epoch = len(whole.problem)
            assert rates == [
                0.05 * schedule.now(t, t // per_epoch, costs[: t // per_epoch]) for t in range(len(rates))
            ]
            assert len(set(rates)) > 2
