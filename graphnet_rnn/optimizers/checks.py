"""Tests for your own optimizer, in one line.

rnn.testing.check_optimizer(MyOptimizer(rate=0.1))
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

import graphnet as gn
from graphnet.backends import load_backend, usable_backends
from graphnet.graph.node import Array, Node
from graphnet.ops.leaf import parameter
from graphnet.testing.laws import TOLERANCES, LawError
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers import vectors
from graphnet_rnn.optimizers.base import Optimizer, State
from graphnet_rnn.optimizers.first_order import FirstOrder
from graphnet_rnn.optimizers.schedules import Schedule
from graphnet_rnn.riemannian.blocks import Solver
from graphnet_rnn.settings import shown

SIZE, STEPS = 7, 4


class Bowl:
    """½ (w - c)ᵀ H (w - c) + ¼ Σ w⁴, with the interface of an Objective; `broken` makes one result not finite."""

    def __init__(self, broken: str = "") -> None:
        generator = np.random.default_rng(0)
        a = generator.standard_normal((SIZE, SIZE))
        self.hessian, self.centre = a @ a.T / SIZE + np.eye(SIZE), generator.standard_normal(SIZE)
        self.broken, self.asked_at = broken, np.zeros(SIZE)

    def start(self, dtype: str = "float64") -> Array:
        return np.linspace(-1, 1, SIZE).astype(dtype)

    def loss(self, w: Array) -> float:
        d = np.asarray(w, np.float64) - self.centre
        return float(d @ self.hessian @ d / 2 + np.sum(np.asarray(w, np.float64) ** 4) / 4)

    def gradient(self, w: Array) -> tuple[float, Array]:
        self.asked_at = np.array(w, np.float64)
        g = (self.hessian @ (self.asked_at - self.centre) + self.asked_at**3).astype(w.dtype)
        if self.broken.startswith("gradient"):
            g[2] = np.nan if self.broken.endswith("NaN") else np.inf
        loss = self.loss(w) if not self.broken.startswith("loss") else float(self.broken.split()[-1])
        return loss, gn.place(g, gn.backend_of(w))

    def curvature(self, w: Array, structural: float = 0.0) -> Callable[[Array], Array]:
        bend = self.hessian + np.diag(3 * np.asarray(w, np.float64) ** 2)
        return lambda v: (bend @ v).astype(w.dtype)

    def squared_gradients(self, w: Array) -> Array:
        return np.square(self.gradient(w)[1], dtype=np.float64)

    units, slices = SIZE, [slice(0, SIZE)]
    parameters: ClassVar[Sequence[Node]] = [
        parameter(np.zeros(3), name="a"),
        parameter(np.zeros(SIZE - 3), name="b"),
    ]

    def metric(self, w: Array, metric: Any, part: str = "all", draw: int = 0) -> tuple[float, Array, Array]:
        return *self.gradient(w), self.hessian.ravel()

    def metric_size(self, metric: Any, part: str = "all") -> int:
        return SIZE * SIZE

    def metric_solver(self, metric: Any, part: str, numbers: Array, damping: float = 0.0) -> Solver:
        damped = numbers.reshape(SIZE, SIZE) + damping * np.eye(SIZE)
        return Solver(lambda g: np.linalg.solve(damped, np.asarray(g, np.float64)), 1.0)


def check_optimizer(optimizer: Optimizer, report: Callable[[str, str], None] | None = None) -> None:
    """Tests an optimizer, with its settings, against the rules for all optimizers; LawError for a violation.

    optimizer: an instance, e.g. MyOptimizer(rate=0.1).
    report: called as report(name of the check, result) after each check that passed; default None.

    Checks of equations apply to optimizers that declare them (FirstOrder).

    >>> passed = []
    >>> rnn.testing.check_optimizer(rnn.SGD(rate=0.1), lambda name, result: passed.append(name))
    >>> passed[:3]
    ['settings', 'state', 'formula']
    """
    if not isinstance(optimizer, Optimizer):
        raise UsageError(
            f"check_optimizer takes an optimizer, e.g. rnn.Adam(rate=0.01), not {shown(optimizer)}"
        )
    for name, check in OPTIMIZER_CHECKS.items():
        found = check(optimizer)
        if found and report is not None:
            report(name, found)


def _stepped(
    optimizer: Optimizer, steps: int = STEPS, dtype: str = "float64"
) -> Iterator[tuple[Array, State]]:
    objective, theta = Bowl(), Bowl().start(dtype)
    state = optimizer.init(theta, objective)
    yield theta.copy(), deepcopy(state)
    for _ in range(steps):
        optimizer.step(objective, theta, state)
        yield theta.copy(), deepcopy(state)


def _bits(theta: Array, state: State) -> dict[str, bytes]:
    return {"θ": np.asarray(theta).tobytes(), **{name: np.asarray(a).tobytes() for name, a in state.items()}}


def _require(optimizer: Optimizer, holds: bool, what: str) -> None:
    if not holds:
        raise LawError(f"{type(optimizer).__name__}: {what}")


# -- the checks: each raises LawError, or returns its result in words, or "" ----------------------------


def settings_come_back(optimizer: Optimizer) -> str:
    """Settings stored as JSON create an equal optimizer."""
    try:
        stored = json.loads(json.dumps(optimizer.settings()))
    except TypeError as error:
        raise LawError(
            f"{type(optimizer).__name__}: its settings cannot be stored as JSON: {error}"
        ) from None
    _require(
        optimizer,
        type(optimizer)(**stored) == optimizer,
        f"its settings, {stored}, create a different optimizer",
    )
    return f"{len(stored)} settings create an equal optimizer"


def state_is_arrays(optimizer: Optimizer) -> str:
    """The state consists of named arrays, which steps change in place, like θ."""
    theta = Bowl().start()
    state = optimizer.init(theta, Bowl())
    held = dict(state)
    optimizer.step(Bowl(), theta, state)
    for name, array in held.items():
        _require(optimizer, isinstance(array, np.ndarray), f"{name} in its state is no array")
        _require(optimizer, state.get(name) is array, f"a step puts another array in the place of {name}")
    _require(
        optimizer, list(state) == list(held), f"a step adds {sorted(state.keys() - held.keys())} to the state"
    )
    _require(optimizer, not np.array_equal(theta, Bowl().start()), "a step does not change θ")
    return f"{len(state)} arrays, changed in place: {', '.join(state) or 'none'}"


def a_resumed_run_has_the_same_bits(optimizer: Optimizer) -> str:
    """From copies of θ and the state, and from stored settings, the run goes on bit for bit."""
    for dtype in ("float64", "float32"):
        whole = list(_stepped(optimizer, 2 * STEPS, dtype))
        theta, state = whole[STEPS][0].copy(), deepcopy(whole[STEPS][1])
        again = type(optimizer)(**json.loads(json.dumps(optimizer.settings())))
        for _ in range(STEPS):
            again.step(Bowl(), theta, state)
        before, after = _bits(*whole[-1]), _bits(theta, state)
        wrong = [name for name in before if before[name] != after[name]]
        _require(
            optimizer, not wrong, f"resumed after {STEPS} steps, {', '.join(wrong)} are others in {dtype}"
        )
    return f"{STEPS} steps and {STEPS} resumed ones equal {2 * STEPS} steps"


def what_is_not_finite_changes_nothing(optimizer: Optimizer) -> str:
    """A loss or gradient that is not finite changes neither θ nor the state; the report's row is JSON."""
    cases = ("gradient NaN", "gradient infinity", "loss nan", "loss inf")
    for broken in cases:
        for theta, state in _stepped(optimizer, 1):
            before = _bits(theta, state)
            report = optimizer.step(Bowl(broken), theta, state)
            wrong = [name for name, a in _bits(theta, state).items() if before[name] != a]
            _require(optimizer, not wrong, f"a step changes {', '.join(wrong)} where there is a {broken}")
            json.dumps(report.row(), allow_nan=False)
    return f"{len(cases)} kinds of values that are not finite leave θ and the state unchanged"


def float32_agrees(optimizer: Optimizer) -> str:
    """θ stays float32, and a step by equations equals that in float64, to rounding; a line search may differ."""
    (_, theta), (_, wide) = (
        tuple(t for t, _ in _stepped(optimizer, 1, dtype)) for dtype in ("float32", "float64")
    )
    _require(optimizer, theta.dtype == np.float32, f"θ becomes {theta.dtype}")
    if not isinstance(optimizer, FirstOrder):
        fell = Bowl().loss(theta) < Bowl().loss(Bowl().start())
        _require(optimizer, fell, "a step in float32 does not lower the loss")
        return "a step lowers the loss"
    worst = float(np.abs(theta - wide).max())
    _require(
        optimizer,
        worst <= 10 * TOLERANCES["float32"]["exact"],
        f"float32 differs from float64 by {worst:.2g}",
    )
    return f"largest difference from float64 {worst:.1e}"


def steps_are_the_formula(optimizer: Optimizer) -> str:
    """Each step equals its nodes, evaluated one by one with NumPy; the gradient is taken at `lookahead`."""
    if not isinstance(optimizer, FirstOrder):
        return ""
    worst = 0.0
    for dtype in ("float64", "float32"):
        for (theta, state), after in pairwise(_stepped(optimizer, dtype=dtype)):
            asked = Bowl()
            optimizer.step(asked, theta.copy(), deepcopy(state))
            point, *found = _by_numpy(optimizer, theta, state, asked)
            for a, b in zip([point, *found], [asked.asked_at, after[0], *after[1].values()], strict=True):
                scale = max(1.0, float(np.abs(b).max(initial=0)))
                worst = max(worst, float(np.abs(a - b).max(initial=0)) / scale / TOLERANCES[dtype]["exact"])
    _require(
        optimizer,
        worst <= 1,
        f"steps differ from its own equations by {worst:.2g} times what rounding may do",
    )
    return f"{STEPS} steps in two precisions agree with its nodes evaluated by NumPy"


def _by_numpy(optimizer: FirstOrder, theta: Array, state: State, asked: Bowl) -> list[Array]:
    """Returns the gradient's point, and θ and the state after a step, evaluated node by node."""
    now = optimizer.settings_now(state)
    inputs = [gn.input(a.shape, a.dtype) for a in (theta, theta, *state.values())]
    named = dict(zip(state, inputs[2:], strict=True))
    ahead = optimizer.looked_ahead(inputs[0], named, **now)
    (point,) = gn.compile([ahead], [inputs[0], *inputs[2:]], backend="numpy", passes=())(
        theta, *state.values()
    )
    after, new = optimizer.apply(inputs[0], inputs[1], named, **now)
    step = gn.compile([after, *new.values()], inputs, backend="numpy", passes=())
    return [point, *step(theta, asked.gradient(point.astype(theta.dtype))[1], *state.values())]


def one_compilation_serves_all_steps(optimizer: Optimizer) -> str:
    """Other learning rates and steps compile no new function."""
    if not isinstance(optimizer, FirstOrder):
        return ""
    theta = Bowl().start()
    state = optimizer.init(theta, Bowl())
    optimizer.step(Bowl(), theta, state)
    before = set(vectors._kept)
    for rate in (None, 0.3, 0.01):
        optimizer.step(Bowl(), theta, state, rate)
    if not isinstance(optimizer.rate, Schedule):
        replace(optimizer, rate=0.7 * optimizer.rate).step(Bowl(), theta, state)
    new = len(set(vectors._kept) - before)
    _require(optimizer, not new, f"{new} more functions were compiled for other rates")
    return "no compilation for other rates and steps"


def clipping_is_a_shorter_gradient(optimizer: Optimizer) -> str:
    """With clip_norm, a step equals that of the clipped gradient."""
    if not isinstance(optimizer, FirstOrder):
        return ""
    free = replace(optimizer, clip_norm=None, clip_value=None)
    theta, state = list(_stepped(free, 2))[-1]
    point = np.asarray(free.evaluation_point(theta, state))
    g = Bowl().gradient(point)[1]

    class Shorter:
        def __init__(self, share: float) -> None:
            self.share = share

        def gradient(self, w: Array) -> tuple[float, Array]:
            return 1.0, self.share * g

    # Norm without frozen parameters.
    length = free.step(Shorter(1.0), theta.copy(), deepcopy(state)).gradient_norm
    for share in (0.5, 2.0):  # 2: the limit is not reached
        limit = share * length
        ends = [(theta.copy(), deepcopy(state)) for _ in range(2)]
        replace(free, clip_norm=limit).step(Shorter(1.0), *ends[0])
        free.step(Shorter(min(1.0, share)), *ends[1])
        same = np.allclose(ends[0][0], ends[1][0], rtol=1e-12, atol=1e-14)
        _require(optimizer, same, f"clip_norm={limit:.3g} is not a gradient of this length")
    return "clip_norm has the effect of a shorter gradient"


def back_ends_agree(optimizer: Optimizer) -> str:
    """Steps in a device's memory (or its simulator) give the same vectors as here."""
    devices = [name for name in usable_backends() if load_backend(name).apart]
    if not isinstance(optimizer, FirstOrder) or not devices:
        return ""
    *_, (theta, state) = _stepped(optimizer, 2)
    for backend in devices:
        there = gn.place(Bowl().start(), backend)
        held = optimizer.init(there, Bowl())
        for _ in range(2):
            optimizer.step(Bowl(), there, held)
        for name, a, b in [("θ", there, theta), *((n, held[n], state[n]) for n in state)]:
            same = np.allclose(np.asarray(a), b, rtol=1e-10, atol=1e-12)
            _require(optimizer, same, f"{name} is another one by {backend}")
    return f"two steps on {', '.join(devices)} agree with two steps here"


def the_rate_counts(optimizer: Optimizer) -> str:
    """A step with another learning rate gives another θ."""
    if not isinstance(optimizer, FirstOrder):
        return ""
    found = []
    for rate in (0.3, 0.01):
        theta = Bowl().start()
        optimizer.step(Bowl(), theta, optimizer.init(theta, Bowl()), rate)
        found.append(theta)
    _require(optimizer, not np.array_equal(found[0], found[1]), "a step does not depend on its rate")
    return "steps depend on their rate"


OPTIMIZER_CHECKS: dict[str, Callable[[Optimizer], str]] = {
    "settings": settings_come_back,
    "state": state_is_arrays,
    "formula": steps_are_the_formula,
    "resuming": a_resumed_run_has_the_same_bits,
    "not finite": what_is_not_finite_changes_nothing,
    "float32": float32_agrees,
    "rate": the_rate_counts,
    "compilation": one_compilation_serves_all_steps,
    "clipping": clipping_is_a_shorter_gradient,
    "back ends": back_ends_agree,
}
