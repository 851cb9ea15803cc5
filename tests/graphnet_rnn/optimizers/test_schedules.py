"""Schedules against loops from the papers' equations; resuming and round trips through settings."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.experiments.tasks import TASKS, momentum_settings, zero_one_loss
from graphnet_rnn.optimizers import SGD, Adam, Momentum, Nesterov, RMSprop
from graphnet_rnn.optimizers.schedules import NesterovMomentum, Schedule, Stepwise
from tests.graphnet_rnn.optimizers.toys import CENTRE, H, Quadratic
from tests.tables import case

MOMENTA = (0.8, 0.9, 0.95, 0.97, 0.99, 0.995, 0.997, 0.999)


def test_stepwise_values_start_at_their_step() -> None:
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
    assert (steps[0], steps[-1], momentum.at(199_999)) == (0, 200_000, 0.997)
    assert [b / a for a, b in itertools.pairwise(steps[1:])] == pytest.approx([2] * 6, rel=1e-3)
    assert Stepwise.spaced(MOMENTA, 10**6, ratio=10).at(99) == 0.95
    assert Stepwise.spaced([0.5], 3) == Stepwise({0: 0.5})


def test_then_and_capped() -> None:
    """7.3: classical momentum is capped at 0.99, also in the last tenth."""
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
    schedule, a = NesterovMomentum(most=0.9999), 1.0
    for t in range(2000):
        following = (1 + math.sqrt(4 * a * a + 1)) / 2
        exact = (a - 1) / following
        assert schedule.at(t) == 1 - 3 / (t + 5)
        assert t < 100 or abs(exact - schedule.at(t)) < 0.1 * (1 - exact)
        a = following
    assert NesterovMomentum(0.95).at(10_000) == 0.95
    assert [NesterovMomentum(0.95).range, NesterovMomentum(0.3).range] == [(0.4, 0.95), (0.3, 0.3)]


def warmup(n: int, start: float) -> list[float]:
    return [start + (1 - start) * t / n for t in range(1, n + 1)]


def cosine(n: int, least: float = 0.0) -> list[float]:
    return [least + (1 - least) * math.cos(math.pi * t / 2 / n) ** 2 for t in range(n)]


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
    "cosine": (rnn.Cosine(10), cosine(10), 0.0),
    "cosine to a tenth": (rnn.Cosine(7, 0.1), cosine(7, 0.1), 0.1),
    "one cycle": (rnn.OneCycle(20), one_cycle(9, 2, 0.1, 0.001), 0.001),
    "one cycle, half down": (rnn.OneCycle(12, 0.2, 0.0, rise=0.25), one_cycle(3, 6, 0.2, 0.0), 0.0),
    "one cycle, nothing left": (rnn.OneCycle(8, 0.2, 0.1, rise=0.5), one_cycle(4, 0, 0.2, 0.1), 0.1),
    "exponential": (rnn.ExponentialDecay(0.5), [0.5**t for t in range(9)], 0.0),
    "exponential, in steps": (rnn.ExponentialDecay(0.5, steps=4), [2 ** (-t / 4) for t in range(9)], 0.0),
    "inverse root": (rnn.InverseRootDecay(4), [2 / math.sqrt(4 + t) for t in range(9)], 0.0),
    "then": (
        rnn.Warmup(3).then(rnn.Cosine(4, 0.5)).then(rnn.Ramp(1, 0, 2)),
        [*warmup(3, 0), *cosine(4, 0.5), 1, 0.5],
        0.0,
    ),
    "then, at a step": (rnn.Cosine(10).then(0.7, at=2), [*cosine(10)[:2], 0.7], 0.7),
    "scaled": (0.002 * rnn.Warmup(4), [0.002 * v for v in warmup(4, 0)], 0.002),
    "scaled by NumPy": (np.float64(2) * rnn.Warmup(2) * np.float32(2), [2, 4], 4.0),
    "product": (rnn.Warmup(3) * rnn.Ramp(1, 0, 6), [1 / 3, 2 / 3 * 5 / 6, 4 / 6, 3 / 6], 0.0),
}


def test_shapes() -> None:
    """Formula, limit, declared range, and round trips through repr and JSON."""
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


def test_by_epoch_schedules_use_epochs() -> None:
    schedule = rnn.Warmup(100) * rnn.Cosine(10).by_epoch()
    assert schedule.reads == {"step", "epoch"}
    for step, epoch in ((0, 0), (57, 2), (500, 9)):
        expected = min(step + 1, 100) / 100 * math.cos(math.pi * epoch / 20) ** 2
        assert schedule.now(step, epoch) == pytest.approx(expected)
    in_epochs = rnn.Warmup(2).then(rnn.Ramp(1, 0, 4)).by_epoch()
    assert [in_epochs.now(999, epoch) for epoch in range(7)] == [0.5, 1, 1, 0.75, 0.5, 0.25, 0]
    assert eval(repr(schedule), dict(vars(rnn.optimizers.schedules))) == schedule


def test_on_plateau() -> None:
    for patience in [1, 2, 3]:
        with case(patience):
            schedule = rnn.OnPlateau(0.5, patience, tolerance=0.0)
            found = [schedule.now(0, n, COSTS[:n]) for n in range(1, len(COSTS) + 1)]
            assert found == plateau(COSTS, patience)
            assert found[-1] < 1
            warm = rnn.Warmup(10).then(schedule)
            assert [warm.now(4, 9, COSTS), warm.now(10, 12, COSTS)] == [0.5, found[-1]]
    assert rnn.OnPlateau(0.5, 1, least=0.3).now(0, 9, [1.0] * 9) == 0.3
    for costs in ([1.0, 0.95], [-1.0, -1.05]):  # a twentieth is no improvement, nor below 0
        assert rnn.OnPlateau(0.5, 1, tolerance=0.1).now(0, 2, costs) == 0.5


RATE = Stepwise({0: 0.01, 2: 0.1, 5: 0.03})
MU = Stepwise({0: 0.5, 3: 0.9})


def test_steps_match_the_equations() -> None:
    """Eqs 7.1, 7.2 and 7.12, 7.13 with μ and ε of each step."""
    for kind in [Momentum, Nesterov]:
        with case(kind):
            theta, v = np.array([0.3, -0.4, 2.0]), np.zeros(3)
            expected, optimizer = theta.copy(), kind(RATE, momentum=MU)
            state = optimizer.init(theta)
            for t in range(9):
                mu, epsilon = (0.5 if t < 3 else 0.9), (0.01 if t < 2 else 0.1 if t < 5 else 0.03)
                assert (optimizer.rate_at(state), optimizer.momentum_at(state)) == (epsilon, mu)
                at = expected + mu * v if kind is Nesterov else expected
                v = mu * v - epsilon * (H @ (at - CENTRE))
                expected = expected + v
                optimizer.step(Quadratic(), theta, state)
                assert np.allclose(theta, expected, rtol=1e-13)
            assert (state["step"].tolist(), state["step"].dtype) == ([9], np.int64)


def test_learning_rate_schedule_matches_explicit_rates() -> None:
    """Includes user-defined schedules; an explicit rate takes precedence, and counting continues."""

    class Wave(Schedule):
        range = 0.01, 0.03

        def at(self, step):
            return 0.02 + 0.01 * math.sin(step)

    assert SGD(Wave()).settings()["rate"] == {"schedule": "Wave"}
    for kind, rate in [(SGD, RATE), (RMSprop, RATE), (Adam, RATE), (SGD, Wave())]:
        with case(kind, rate):
            scheduled, plain = kind(rate), kind(7.0)
            a, b = np.zeros(3, np.float32), np.zeros(3, np.float32)
            states = scheduled.init(a), plain.init(b)
            for t in range(8):
                scheduled.step(Quadratic(), a, states[0])
                plain.step(Quadratic(), b, states[1], rate.at(t))
                assert np.array_equal(a, b)
            scheduled.step(Quadratic(), a, states[0], rate=0.0)
            assert np.array_equal(a, b)
            assert states[0]["step"].tolist() == [9]


def test_settings_of_section_7_4() -> None:
    """As in 7.4.2 and table 7.3."""
    tasks = [("addition", 80), ("multiplication", 80), ("memory-5", 200), ("memory-20", 50)]
    made = [momentum_settings(TASKS[name](length)) for name, length in tasks]
    for numbers in made[:2]:
        rates = [numbers.rate.at(t) for t in (0, 1499, 1500, 2999, 3000, 5999, 6000, 29_999, 30_000, 49_999)]
        assert rates == [3e-5, 3e-5, 3e-4, 3e-4, 3e-3, 3e-3, 1e-3, 1e-3, 1e-4, 1e-4]
    for settings in made:
        assert [settings.momentum.at(t) for t in (0, 3999, 4000, 49_999)] == [0.9, 0.9, 0.98, 0.98]
        assert (settings.iterations, settings.units) == (50_000, 100)
        assert settings.optimizer() == Nesterov(settings.rate, momentum=settings.momentum)
        assert type(settings.optimizer(Momentum)) is Momentum
    assert [s.rate.at(1500) for s in made[2:]] == [1e-5, 1e-5]
    assert [s.minibatch for s in made] == [100, 100, 32, 100]
    assert [s.length for s in made] == [80, 80, 200, 50]
    assert [s.nesterov for s in made] == [0.011, 0.270, 0.025, 0.032]
    assert [s.classical for s in made] == [0.250, 0.340, 0.180, 0.00006]


def test_zero_one_loss_is_by_symbol_of_memory_and_by_sequence_of_numbers() -> None:
    """For memory, only remembered positions count, each separately; NaN is wrong."""
    task = TASKS["memory-20"](12)
    _, t = task.batch(np.random.default_rng(0), 6)
    o = np.eye(task.outputs)[t]
    o[: task.time - 10] = 0.25  # of what is before, nothing is asked
    assert (zero_one_loss(task, o, t), task.wrong(o, t).all()) == (0, True)
    o[[-1, -10], 2] = np.roll(o[[-1, -10], 2], 1, axis=1)
    o[-4, 5, 0] = np.nan
    assert zero_one_loss(task, o, t) == pytest.approx(3 / 60)
    adding = TASKS["addition"](10)
    _, t = adding.batch(np.random.default_rng(0), 8)
    o = t.astype(float).copy()
    o[-1, :3, 0] += [0.039, 0.041, -0.5]
    assert zero_one_loss(adding, o, t) == 2 / 8 == adding.wrong(o, t).mean()
    with pytest.raises(DataError, match="addition: logits"):
        zero_one_loss(adding, o[1:], t[1:])


def test_product_of_schedules_uses_steps_epochs_and_costs(tmp_path: Path) -> None:
    schedule = rnn.Warmup(3) * rnn.OnPlateau(0.5, patience=1, tolerance=0.5) * rnn.Cosine(6).by_epoch()
    x = np.random.default_rng(0).normal(size=(3, 20, 1))
    problem = rnn.Arrays(rnn.Network([rnn.Elman(3)], 1, 1, loss="squared"), x, x.cumsum(0), 5, valid=0.25)
    settings = rnn.Training(rnn.Adam(0.05), epochs=6, schedule=schedule, stopping=None, log_every=1)
    rnn.Trainer(problem, settings, tmp_path).run()
    rows = [json.loads(row) for row in (tmp_path / "history.jsonl").read_text(encoding="utf-8").splitlines()]
    costs = [row["valid_loss"] for row in rows if row["event"] == "epoch"]
    rates = [row["learning_rate"] for row in rows if row["event"] == "step"]
    epochs = [t // len(problem) for t in range(len(rates))]
    assert rates == [0.05 * schedule.now(t, e, costs[:e]) for t, e in enumerate(epochs)]
    assert min(rates) < 0.05 / 4 < max(rates)


REFUSED = [
    (lambda: Stepwise({}), "the first .* 0, not None"),
    (lambda: Stepwise({5: 0.1}), "the first .* 0, not 5"),
    (lambda: Stepwise({0: 0.1, 1.5: 0.2}), "a step must be .* not 1.5"),
    (lambda: Stepwise({0: math.nan}), "step 0 .* not nan"),
    (lambda: Stepwise([(0, 1.0), (3, 1.0), (3, 2.0)]), "each step can have one value"),
    (lambda: Stepwise([0.1, 0.2]), "pairs .* one is 0.1"),
    (lambda: Stepwise(0.1), "values must be a mapping or pairs"),
    (lambda: Stepwise.spaced(MOMENTA, 20), "8 values .* 20 steps"),
    (lambda: Stepwise.spaced(MOMENTA, 999, 1), "ratio .* not 1"),
    (lambda: Stepwise({0: 0.5}).then(0.2, at=-1), "then: at .* not -1"),
    (lambda: rnn.Warmup(0), "Warmup: steps .* not 0"),
    (lambda: rnn.OneCycle(100, rise=0.6), "OneCycle: rise .* not 0.6"),
    (lambda: rnn.OneCycle(3, rise=0.1), "OneCycle: 3 steps are too few"),
    (lambda: rnn.Ramp(math.nan, 1, 3), "Ramp: first .* not nan"),
    (lambda: rnn.ExponentialDecay(2), "ExponentialDecay: decay .* not 2"),
    (lambda: rnn.OnPlateau(1), "OnPlateau: factor .* not 1"),
    (lambda: NesterovMomentum(1.0), "NesterovMomentum: most .* not 1.0"),
    (lambda: rnn.Constant().then(rnn.Cosine(5)), "Constant.value=1.0. has no last step"),
    (lambda: rnn.Cosine(5).then("slow"), "then: following .* not 'slow'"),
    (lambda: math.nan * rnn.Cosine(5), "factor .* not nan"),
    (lambda: rnn.Cosine(5).by_epoch().at(0), r"depends on epochs; call now\(step, epoch, costs\)"),
    (lambda: SGD(rnn.OnPlateau()), "it depends on validation costs"),
    (lambda: SGD(rnn.Cosine(5).by_epoch()), "it depends on epochs"),
    (lambda: rnn.Training(schedule=0.5), "schedule must be a Schedule, .* not 0.5"),
    (lambda: rnn.Training(schedule=rnn.Constant(0)), "schedule .* not all 0"),
    (lambda: SGD(Stepwise({0: 0.0, 9: 0.0})), "rate .* > 0 at some step, not 0.0"),
    (lambda: Adam(Stepwise({0: -0.1, 9: 0.1})), "rate .* not -0.1"),
    (lambda: Momentum(0.1, momentum=Stepwise({0: 0.9, 9: 1.0})), "momentum .* not 1.0"),
    (lambda: SGD("0.1"), "rate must be a number or a Schedule, .* not '0.1'"),
    (lambda: SGD({"schedule": "Stepwise"}), "rate must be a number or a Schedule"),
    (lambda: SGD(RATE).step(Quadratic(), np.zeros(3), {}), r"SGD.step: state lacks step"),
    (lambda: momentum_settings(TASKS["xor"](30)), "no settings for xor"),
]


def test_invalid_arguments_are_rejected() -> None:
    for call, words in REFUSED:
        with case(words), pytest.raises(UsageError, match=words):
            call()
