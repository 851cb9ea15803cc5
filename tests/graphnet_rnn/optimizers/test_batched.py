"""Batched objectives, single cases, weight decay, stopping of minimize, and failed steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn import optimizers
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.optimizers import HessianFree
from graphnet_rnn.optimizers.step import guarded_step
from tests.graphnet_rnn.optimizers.toys import Plain, rosenbrock
from tests.graphnet_rnn.training.problems import PROBLEMS
from tests.tables import case

TIME, CASES = 4, 6


class Two(rnn.parallel.Ranks):
    size = 2


def objective(batch: int, units: int = 5, **how: Any) -> rnn.Objective:
    net = rnn.Network([rnn.Elman(units)], 3, 3, dtype="float64", seed=1)
    u = net.unroll(TIME, batch)
    inputs = [u.inputs, u.targets, *u.initial]
    return rnn.Objective(u.cost, net.parameters, inputs, structure=u.structure, **how)


def part(cases: slice = slice(None)) -> list[Array]:
    generator = np.random.default_rng(0)
    x, t = generator.integers(0, 3, (2, TIME, CASES))
    return [x[:, cases], t[:, cases], 0.3 * generator.standard_normal((CASES, 5))[cases]]


def test_tolerance_applies_to_the_whole_gradient() -> None:
    """The steps of Riemannian alternate between two parts of the weights."""
    generator = np.random.default_rng(0)
    net = rnn.Network([rnn.Elman(3)], 2, 1, loss="squared", dtype="float64", seed=1)
    u = net.unroll(4, 6, initial="zero")
    objective = rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets])
    objective.feed(generator.normal(size=(4, 6, 2)), generator.normal(size=(4, 6, 1)))
    found = rnn.minimize(objective, rnn.Riemannian("qdruop"), steps=2000, tolerance=0.1)
    assert found.reason == "tolerance"
    assert np.linalg.norm(objective.gradient(found.theta)[1]) <= 0.1


def test_means_over_batches_match_means_over_cases() -> None:
    whole = objective(CASES)
    whole.feed(*part())
    w = whole.start()
    batches = [part(slice(i, i + 2)) for i in (0, 2, 4)]
    found = objective(2)
    found.feed_batches(gradient=batches, curvature=batches, loss=batches)
    assert found.loss(w) == pytest.approx(whole.loss(w))
    assert found.gradient(w)[0] == pytest.approx(whole.gradient(w)[0])
    assert np.allclose(found.gradient(w)[1], whole.gradient(w)[1])
    v = np.random.default_rng(2).standard_normal(w.size)
    assert np.allclose(found.curvature(w, 0.3)(v), whole.curvature(w, 0.3)(v))
    assert np.array_equal(found.start(), w)


def test_each_part_has_its_own_batches() -> None:
    first, second, third = (part(slice(i, i + 2)) for i in (0, 2, 4))
    found, alone = objective(2), objective(2)
    found.feed_batches(gradient=[first, second], curvature=[second], loss=[third])
    w, v = alone.start(), np.ones(alone.size)
    product = found.curvature(w)
    alone.feed(*third)
    assert found.loss(w) == alone.loss(w)
    alone.feed(*second)
    assert np.array_equal(product(v), alone.curvature(w)(v))
    found.feed_batches(gradient=[first, second])  # by default, the other batches are the first of `gradient`
    alone.feed(*first)
    assert found.loss(w) == alone.loss(w)
    assert np.array_equal(found.curvature(w)(v), alone.curvature(w)(v))


def test_squared_gradients_use_single_cases() -> None:
    alone = objective(1)
    found = objective(3, single=objective(1))
    found.feed_batches(
        [part(slice(0, 3)), part(slice(3, 6))], curvature=[part(slice(0, 3)), part(slice(3, 6))]
    )
    w = alone.start()
    expected = np.zeros(w.size)
    for i in range(CASES):
        alone.feed(*part(slice(i, i + 1)))
        expected += alone.gradient(w)[1] ** 2 / CASES
    assert np.allclose(found.squared_gradients(w), expected)


def test_invalid_single_case_objectives_are_rejected() -> None:
    """With any other objective, the preconditioner would be wrong."""
    singles = [
        (objective(3), "as large as those of a batch"),
        (objective(2), "of one case"),
        (rnn.Network([rnn.Elman(5)], 3, 3).unroll(TIME, 1), "single must be an Objective, not"),
        (objective(1, units=4), "have the same parameters"),
        (objective(1, parallel=Two()), "leave out its `parallel`"),
    ]
    for single, words in singles:
        with case(words), pytest.raises(UsageError, match=words):
            objective(3, single=single)
    objective(1, single=objective(1))


def test_each_batch_uses_the_cost_of_its_size() -> None:
    """Means over batches of two sizes equal those by two objectives; sizes that cannot be fed are rejected."""
    pair, three = objective(2), objective(3)
    net = rnn.Network([rnn.Elman(5)], 3, 3, dtype="float64", seed=1)
    small, large = (net.unroll(TIME, batch) for batch in (2, 3))
    both = rnn.Objective(small.cost, net.parameters, [small.inputs, small.targets, *small.initial])
    inputs = [large.inputs, large.targets, *large.initial]
    both.add_size(large.cost, inputs)
    some, others = part(slice(0, 2)), part(slice(3, 6))
    pair.feed(*some)
    three.feed(*others)
    both.feed_batches([some, others], curvature=[some, others], weights=[1, 3])
    w, v = both.start(), np.random.default_rng(2).standard_normal(both.size)
    assert both.loss(w) == pytest.approx((pair.loss(w) + 3 * three.loss(w)) / 4)
    assert np.allclose(both.gradient(w)[1], (pair.gradient(w)[1] + 3 * three.gradient(w)[1]) / 4)
    assert np.allclose(both.curvature(w)(v), (pair.curvature(w)(v) + 3 * three.curvature(w)(v)) / 4)
    refused = [
        (lambda: both.feed(*part()), r"no cost has inputs of these sizes, \[4, 6\].* there are \[4, 2\]"),
        (lambda: both.feed([[1], [1, 2]], *some[1:]), "cannot be converted to an array"),
        (lambda: both.add_size(large.cost, inputs), "must differ"),
        (lambda: both.add_size(net.unroll(TIME, 4, initial="zero").cost, []), "depends on"),
        (lambda: both.add_size(large.cost, [*inputs, gn.input((1,))]), "inputs and also must be 3 and 0"),
    ]
    for call, words in refused:
        with case(words), pytest.raises(UsageError, match=words):
            call()


def test_weight_decay() -> None:
    """½ l2 |w|² is part of the loss and the gradient, and optionally of the curvature."""
    for inside in [True, False]:
        with case(inside):
            plain, decayed = objective(CASES), objective(CASES, l2=0.3, l2_in_curvature=inside)
            for each in (plain, decayed):
                each.feed(*part())
            w = plain.start()
            v = np.random.default_rng(3).standard_normal(w.size)
            assert decayed.loss(w) == pytest.approx(plain.loss(w) + 0.15 * w @ w)
            assert decayed.gradient(w)[0] == pytest.approx(decayed.loss(w))
            assert decayed.penalty(w) == pytest.approx(0.15 * w @ w)
            assert np.allclose(decayed.gradient(w)[1], plain.gradient(w)[1] + 0.3 * w)
            assert np.allclose(decayed.curvature(w)(v), plain.curvature(w)(v) + (0.3 * v if inside else 0))


def bowl() -> rnn.Objective:
    w = gn.parameter(np.array([3.0, -2.0]), name="w")
    return rnn.Objective(gn.sum(gn.squared_error(w * np.array([1.0, 2.0]), np.array([0.5, 4.0]))), [w])


def test_minimize_reports_why_it_stopped() -> None:
    """Reasons: number of steps, a tolerance of `minimize` or of the optimizer, rounding, no progress."""
    assert rnn.minimize(bowl(), steps=3).reason == "steps"
    for optimizer in (rnn.SGD(1e-3), rnn.LBFGS(iterations=5), rnn.NonlinearConjugateGradient(iterations=5)):
        with case(optimizer):
            found = rnn.minimize(rosenbrock(), optimizer, steps=10_000, tolerance=2.0)
            norms = [getattr(each, "last_gradient_norm", each.gradient_norm) for each in found.reports]
            assert found.reason == "tolerance"
            assert norms[-1] <= 2.0 < min(norms[:-1], default=9.0)
    for kind in (rnn.LBFGS, rnn.NonlinearConjugateGradient):
        with case(kind):
            coarse = rnn.minimize(rosenbrock(), kind(tolerance=1e-3), steps=50, tolerance=1e-12)
            assert (coarse.reason, coarse.reports[-1].reason) == ("stalled", "tolerance")
            x = gn.parameter(np.array([3.0, 2.0]), name="x")
            finest = rnn.minimize(rnn.Objective(gn.sum(np.pi * x - gn.log(x)), [x]), kind(), steps=50)
            assert finest.reason in ("stalled", "tolerance"), "a gradient of rounding, or of exactly 0"
            assert np.allclose(finest.theta, 1 / np.pi, rtol=1e-7)
    called = rnn.minimize(bowl(), callback=lambda step, report: np.float64(step) == 4)  # NumPy's True
    assert (called.reason, len(called.reports)) == ("callback", 5)
    stuck = rnn.minimize(bowl(), HessianFree(line_search=0, rate=1e9), steps=400)
    assert (stuck.reason, len(stuck.reports)) == ("stalled", 30)
    assert np.array_equal(stuck.theta, [3.0, -2.0])


def test_callbacks_see_accepted_points_only() -> None:
    """Rejected points are not passed to callbacks."""
    for optimizer in [HessianFree(damping=1e-3), rnn.LBFGS(iterations=3), rnn.SGD(1e-3)]:
        with case(optimizer):
            objective, seen = bowl(), []

            def look(step: int, report: rnn.optimizers.Report) -> None:
                seen.append(objective.start())

            result = rnn.minimize(objective, optimizer, steps=3, callback=look)
            theta = np.array([3.0, -2.0])
            state = optimizer.init(theta)
            for point in seen:
                optimizer.step(bowl(), theta, state)
                assert np.array_equal(point, theta)
            assert np.array_equal(seen[-1], result.theta)


def test_minimize_resumes_from_a_state(tmp_path: Path) -> None:
    """Three steps, then four from a file, equal seven steps."""
    for name in ("adam", "hf", "lbfgs", "natural_gradient"):
        with case(name):
            optimizer = rnn.optimizers.ALL[name]()
            whole = rnn.minimize(rosenbrock(), optimizer, steps=7)
            first = rnn.minimize(rosenbrock(), optimizer, steps=3)
            np.savez(tmp_path / f"{name}.npz", theta=first.theta, **first.state)
            state = dict(np.load(tmp_path / f"{name}.npz"))
            start = state.pop("theta")
            second = rnn.minimize(rosenbrock(), optimizer, steps=4, start=start, state=state)
            assert np.array_equal(second.theta, whole.theta)
            for key, array in whole.state.items():
                assert np.array_equal(first.state[key], state[key]), "it was copied"
                assert np.array_equal(second.state[key], array)


def test_errors_name_the_non_finite_value() -> None:
    x = gn.input((2,), "float64", name="x")
    w = gn.parameter(np.ones(2), name="w")
    objective = rnn.Objective(gn.sum(gn.squared_error(w, x)), [w], [x])
    flat = rnn.Objective(gn.sum(gn.sqrt(w - 1.0)), [w])
    steep = rnn.Objective(gn.sum(1e200 * w), [w])
    cases = [
        (objective, [np.array([1.0, np.nan])], r"an input is not finite. Input: x\[2\] holds NaN"),
        (
            objective,
            [np.full(2, 1e200)],
            r"inf at step 0; try a smaller learning rate or gradient clipping\. SquaredError: ",
        ),
        (steep, [], r"inf at step 0; try a smaller .* All nodes are finite, but a sum over all"),
        (flat, [], r"(?s)the loss is 0 and the gradient's norm (inf|nan) at step 0.*makes"),
    ]
    for broken, given, words in cases:
        broken.feed(*given)
        with case(words), pytest.raises(TrainingError, match=words):
            rnn.minimize(broken, rnn.SGD(1e-300), steps=2, start=np.ones(2))
    objective.feed(np.ones(2))
    assert objective.explain_non_finite() == ""


class Broken(Plain):
    """An objective whose loss and gradient are changed by `broken`."""

    broken = staticmethod(lambda loss, g: (loss, g))

    def gradient(self, w: Array) -> tuple[float, Array]:
        return self.broken(*super().gradient(w))


def pressed(loss: float, g: Array) -> Any:
    raise KeyboardInterrupt


BREAKS: dict[str, Any] = {
    "the loss is NaN": lambda loss, g: (np.nan, g),
    "the loss is infinite": lambda loss, g: (np.inf, g),
    "a derivative is NaN": lambda loss, g: (loss, np.where(np.arange(g.size) == 2, np.nan, g)),
    "a derivative is infinite": lambda loss, g: (loss, np.where(np.arange(g.size) == 2, -np.inf, g)),
    "somebody presses Ctrl-C": pressed,
}


@pytest.mark.parametrize("kind", optimizers.ALL.values())
def test_failed_steps_change_nothing(kind: Any) -> None:
    """The step fails after two good ones. θ, the parameters and the state stay as before it."""
    for what, broken in BREAKS.items():
        with case(what):
            optimizer, w = kind(), gn.parameter(np.arange(4.0), name="w")
            x = gn.input((4,), "float64", name="x")
            objective = Broken(gn.mean(gn.squared_error(w, 1.0) * x), [w], [x])
            objective.feed(np.ones(4))
            theta = objective.start()
            state = optimizer.init(theta, objective)
            for step in range(2):
                guarded_step(optimizer, objective, theta, state, f"step {step}")
            before = theta.copy(), {name: array.tobytes() for name, array in state.items()}
            objective.broken = broken
            error, said = (KeyboardInterrupt, None) if broken is pressed else (TrainingError, "at step 2")
            with pytest.raises(error, match=said), np.errstate(all="ignore"):
                guarded_step(optimizer, objective, theta, state, "step 2", remedy="try another thing")
            assert theta.tobytes() == w.value.tobytes() == before[0].tobytes()
            assert {name: array.tobytes() for name, array in state.items()} == before[1]


def test_trainer_stops_at_the_last_finite_step(tmp_path: Path) -> None:
    """The model gets the weights of the last finite step."""
    net = rnn.Network([rnn.Elman(3)], 4, 4, "squared", reads="symbols")  # whose loss has no bound
    data, symbols = 1e3 * np.random.default_rng(0).normal(size=(9, 3)), np.ones((9, 1), int)
    problems = {
        "one's own": PROBLEMS["one's own"].make(),
        "arrays": PROBLEMS["arrays"].make(),
        "stream": rnn.Stream(rnn.online.RTRL(net), symbols, np.ones((9, 1, 4))),
        "energy": rnn.EnergyCases(rnn.energy.RBM(3, 2, "gaussian"), data, 9, valid=0),
    }
    # The first step is finite at this rate; the next ones are not.
    settings = rnn.Training(rnn.Nesterov(1e30, clip_norm=1.0), epochs=9)
    for name, problem in problems.items():
        with case(name):
            seen: list[Array] = []

            class Tells(rnn.training.Listener):
                def stepped(self, trainer: rnn.Trainer, report: Any) -> None:
                    trainer.problem.model.theta = np.asarray(trainer.theta)
                    seen.append(trainer.problem.model.theta.copy())

            trainer = rnn.Trainer(problem, settings, tmp_path / name, listeners=[Tells()])
            with pytest.raises(TrainingError), np.errstate(all="ignore"):
                trainer.run()
            assert np.isfinite(seen[-1]).all()
            assert trainer.problem.model.theta.tobytes() == seen[-1].tobytes()


ADAMS = {"m": np.zeros(2), "v": np.zeros(2), "t": np.ones(1, np.int64)}


#: (arguments of `minimize` or `feed`, part of the error).
ARGUMENTS = [
    ({"state": {}}, "state lacks m, t, v; Adam needs m, v, t"),
    ({"state": 5}, "state must be a dict of arrays, .* not 5"),
    ({"state": ADAMS | {"theta": np.ones(2)}}, "state has theta"),
    ({"state": ADAMS | {"m": np.ones(3)}}, r"m in state must be .* shape \[2\] and float64"),
    ({"state": ADAMS | {"m": np.array([1j, 0])}}, "not complex128 of shape"),
    ({"callback": 5}, "callback .* not 5"),
    ({"feed": "x"}, "feed .* not 'x'"),
    ({"tolerance": -1}, "tolerance .* not -1"),
]
FED = [
    (iter([part(slice(0, 2))]), "gradient must be batches"),  # can be read only once
    ([{"x": 1, "t": 2, "h": 3}], "gradient must be batches"),
    ([None], "gradient must be batches"),
    (3, "gradient must be batches"),
    (part(), r"each of 3 arrays .* one of them has 4; .* \[\(x, t\)\]"),
]


def test_invalid_arguments_are_rejected() -> None:
    for given, words in ARGUMENTS:
        with case(words), pytest.raises(UsageError, match=words):
            rnn.minimize(bowl(), rnn.Adam(), **given)
    batched = objective(2)
    for fed, words in FED:
        with case(words), pytest.raises(UsageError, match=words):
            batched.feed_batches(fed)
    batched.feed_batches([part(slice(0, 2))])
    with pytest.raises(UsageError, match="need single="):
        batched.squared_gradients(batched.start())
    x, t = gn.input((2, 3), "float64", name="x"), gn.input((2,), "float64", name="t")
    w = gn.parameter(np.ones(3), name="w")
    of_two = rnn.Objective(gn.mean(gn.squared_error(x @ w, t)), [w], [x, t])
    with pytest.raises(UsageError, match=r"t\[2\] has the cases of one batch, but the others make 2 batches"):
        of_two.divided(np.zeros((4, 3)), np.zeros(2))
    with pytest.raises(UsageError, match="l2"):
        objective(2, l2=float("nan"))


def test_final_loss_is_that_of_all_batches() -> None:
    w, x = gn.parameter(np.zeros(1), name="w"), gn.input((2,), "float64", name="x")
    batched = rnn.Objective(gn.mean(gn.squared_error(w, x)), [w], [x])
    data = np.array([0.0, 0, 0, 0, 10, 10])
    batched.feed_batches(batched.divided(data))
    for optimizer in (rnn.LBFGS(), rnn.SGD(0.25)):
        with case(optimizer):
            result = rnn.minimize(batched, optimizer, steps=30)
            assert result.loss == pytest.approx(((result.theta - data) ** 2).mean())


def test_a_batch_that_is_listed_twice_has_each_weight() -> None:
    w, x = gn.parameter(np.zeros(1), name="w"), gn.input((1,), "float64", name="x")
    several = rnn.Objective(gn.mean(gn.squared_error(w, x)), [w], [x])
    one, two = [np.ones(1)], [np.full(1, 2.0)]
    several.feed_batches([one, two, one], weights=[1, 1, 0])
    assert several.gradient_loss(several.start()) == pytest.approx((1 + 4) / 2)


def test_batches_of_weight_0_have_no_curvature() -> None:
    w, x = gn.parameter(np.zeros(1), name="w"), gn.input((2,), "float64", name="x")
    batched = rnn.Objective(gn.mean(gn.squared_error(w, x)), [w], [x])
    batches = [(np.array([0.0, 1.0]),), (np.array([4.0, 5.0]),)]
    batched.feed_batches(batches, weights=[0, 1])
    assert rnn.minimize(batched, rnn.HessianFree(), steps=30).theta == pytest.approx(4.5, abs=1e-4)
    for weights in ([-1, 1], [np.nan, 1], [np.inf, 1], ["a", 1], [None, 1]):
        with (
            case(weights),
            pytest.raises(UsageError, match="feed_batches: a weight must be a finite number >= 0"),
        ):
            batched.feed_batches(batches, weights=weights)
