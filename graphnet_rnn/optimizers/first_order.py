"""First-order optimizers, as equations on nodes. θ: parameters; g: (clipped) gradient; ε: learning rate."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet.system.process import cached_property
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers.base import HasGradient, Optimizer, Report, State
from graphnet_rnn.optimizers.compiled_equations import (
    VectorKind,
    clip_by_norm,
    clip_by_value,
    lookahead_function,
    update_function,
)
from graphnet_rnn.optimizers.groups import DECAYS, RATES, as_groups, as_mapping, factors, kinds_of
from graphnet_rnn.optimizers.schedules import FractionOrSchedule, Rate, Schedule, described
from graphnet_rnn.optimizers.vectors import compiled, norm
from graphnet_rnn.settings import Amount, Fraction, Limit, shown

Nodes = dict[str, Node]


@dataclass(frozen=True)
class FirstOrder(Optimizer):
    """Base class of first-order optimizers: one gradient for each step, clipped by value, then by norm

    A subclass declares the arrays of its state in `accumulators`, and its update on nodes in `update`. Each step is
    compiled into one pass over memory, in place. `apply` adds a step to your own graph, to differentiate through it.

        @dataclass(frozen=True)
        class Heavy(rnn.FirstOrder):
            decay: float = 0.9

            def accumulators(self, theta):
                return {"v": np.zeros_like(theta)}

            def update(self, theta, g, state, rate):
                v = self.decay * state["v"] - rate * g
                return theta + v, {"v": v}

    rate: learning rate ε, a number or a Schedule. With a schedule, the state also counts the steps ("step"), so it
    resumes exactly. Settings that follow a schedule are nodes in `update`, others are numbers. Settings must be
    hashable.
    clip_norm: maximum norm of the gradient; default None, not clipped.
    clip_value: maximum absolute value of each gradient element; default None, not clipped.
    weight_decay: λ, decoupled: θ ← update - ε λ θ, default 0. It does not enter the gradient or the accumulators (`l2`
    of an Objective does).
    groups: factors on ε and λ for parameters by patterns of their names; the last matching pattern wins, for each
    setting. (To freeze parameters, use `frozen` of a problem.)

        rnn.Adam(1e-3, groups={"layer0.*": {"rate": 0.1}, "*.b_*": {"weight_decay": 0}})

    With groups, `rate` in `update` is a vector. Initialize the state by init(theta, objective), with an objective whose
    parameters have names.
    If the loss or the gradient is not finite, θ and the state do not change.
    Source of decoupled decay: Loshchilov & Hutter 2019, algorithm 2, whose λ is ε λ here.

    >>> optimizer = rnn.SGD(rate=0.5, clip_norm=1.0)
    >>> w, g = gn.parameter(np.array([1.0, 2.0])), gn.constant(np.array([3.0, 4.0]))
    >>> after, state = optimizer.apply(w, g, {})
    >>> gn.compile(after)()[0].round(3).tolist()
    [0.7, 1.6]
    >>> optimizer.settings_now({}), optimizer.accumulators(np.zeros(2))
    ({'rate': 0.5}, {})
    >>> nesterov, state = rnn.Nesterov(momentum=0.5), {"v": gn.constant(np.ones(2))}
    >>> nodes = nesterov.lookahead(w, state), nesterov.looked_ahead(w, state), nesterov.update(w, g, state, 0.1)[0]
    >>> [array.round(3).tolist() for array in gn.compile(nodes)()]
    [[1.5, 2.5], [1.5, 2.5], [1.2, 2.1]]
    """

    rate: Rate = 1e-3
    clip_norm: Limit | None = None
    clip_value: Limit | None = None
    weight_decay: Amount = field(default=0.0, kw_only=True)
    groups: Any = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        own = type(self).__name__
        object.__setattr__(self, "groups", as_groups(own, self.groups))
        if DECAYS in kinds_of(self.groups) and not self.weight_decay:
            raise UsageError(f"{own}: groups have factors on the weight decay, which is 0; give weight_decay")

    def settings(self) -> dict[str, Any]:
        """Returns the arguments that recreate this optimizer, as JSON; schedules as descriptions."""
        own = {name: described(value) for name, value in super().settings().items()}
        return own | {"groups": as_mapping(self.groups)}

    # -- what a class declares -----------------------------------------------------------------

    def accumulators(self, theta: Array) -> State:
        """Returns the arrays of the initial state, without the step count. theta: the parameters."""
        return {}

    @abstractmethod
    def update(self, theta: Node, g: Node, state: Nodes, rate: Node) -> tuple[Node, Nodes]:
        """Returns θ after a step, and the changed arrays of the state by name, as nodes.

        theta, g, state, rate: parameters, clipped gradient, state and learning rate, as nodes.
        """

    def lookahead(self, theta: Node, state: Nodes) -> Node:
        """Returns the point at which a step computes its gradient, θ by default."""
        return theta

    # -- on nodes ------------------------------------------------------------------------------

    def apply(
        self, theta: Node, g: Node, state: Mapping[str, Node], rate: float | Node | None = None,
        **settings: float | Node,
    ) -> tuple[Node, Nodes]:  # fmt: skip
        """Returns θ and the state after a step as nodes: clipping, update, step count.

        theta, g, state: parameters, gradient and state, as nodes.
        rate: learning rate; by default the setting.
        settings: numbers or nodes that replace other settings; required for settings that follow schedules.

        Use gn.gradient of a later loss for its derivative by a learning rate or momentum.
        Raises UsageError for an update that does not fit θ and the state.
        """
        given = {"rate": self.rate if rate is None else rate, **settings}
        own = self._with(**given)
        name = type(self).__name__
        for array in kinds_of(self.groups):
            if array not in state:
                raise UsageError(
                    f"{name}.apply: the state has no {array}; create it with init(theta, objective)"
                )
        for scheduled in (f for f in fields(self) if isinstance(getattr(own, f.name), Schedule)):
            raise UsageError(
                f"{name}.apply: {scheduled.name} follows a schedule; give its value of this step: "
                f"apply(..., {scheduled.name}=...)"
            )
        if own.clip_value is not None:
            g = clip_by_value(g, own.clip_value)
        if own.clip_norm is not None:
            g = clip_by_norm(g, own.clip_norm)
        try:
            scaled: Any = own.rate * state[RATES] if RATES in state else own.rate
            after, changed = own.update(theta, g, dict(state), scaled)
        except KeyError as error:
            raise UsageError(
                f"{name}: the state has no {error}, only {', '.join(state) or 'nothing'}; create it with `init`"
            ) from None
        changed = (
            {**changed, "step": state["step"] + 1} if self._scheduled and "step" in state else dict(changed)
        )
        self._require_fit({"θ": theta, **state}, {"θ": after, **changed})
        if self.weight_decay:
            decay = self.weight_decay * state[DECAYS] if DECAYS in state else self.weight_decay
            after = after - scaled * decay * theta
        return after, {**state, **changed}

    def looked_ahead(self, theta: Node, state: Mapping[str, Node], **settings: float | Node) -> Node:
        """Returns the point at which a step computes its gradient, as a node. settings: as in `apply`."""
        return self._with(**settings).lookahead(theta, dict(state))

    def _require_fit(self, before: Mapping[str, Node], after: Mapping[str, Node]) -> None:
        for name, node in after.items():
            if name not in before:
                raise UsageError(
                    f"{type(self).__name__}.update returned {name!r}, which `accumulators` did not return; that "
                    f"returned {', '.join(n for n in before if n != 'θ') or 'nothing'}"
                )
            old = before[name]
            if not isinstance(node, Node) or (node.shape, node.dtype) != (old.shape, old.dtype):
                found = f"{node.describe()} of {node.dtype}" if isinstance(node, Node) else f"{shown(node)}"
                raise UsageError(
                    f"{type(self).__name__}.update: the new {name} must be a node of {old.dtype} of shape "
                    f"{list(old.shape)}, as the old one, not {found}"
                )

    def __graph__(self) -> gn.Graph:
        """Returns a step as a graph, for pictures: θ, g, state and ε, and their new values."""
        kind = VectorKind.of(np.zeros(1), self._fresh(np.zeros(1)), self._scalars, None)
        theta, state, scalars = kind.nodes()
        g = gn.input(theta.shape, theta.dtype, name="g")
        scalars["rate"] = rate = gn.input((), theta.dtype, name="ε")
        after, changed = self.apply(theta, g, state, **scalars)
        new = {name: node for name, node in changed.items() if node is not state[name]}
        outputs = [gn.label(node, f"{name}′") for name, node in {"θ": after, **new}.items()]
        others = [node for name, node in scalars.items() if name != "rate"]
        return gn.Graph(outputs, [theta, g, *state.values(), rate, *others])

    # -- on arrays -----------------------------------------------------------------------------

    def init(self, theta: Array, objective: Any = None) -> State:
        found = self._begun(theta)
        return found | factors(type(self).__name__, self.groups, theta, objective) if self.groups else found

    def _begun(self, theta: Array) -> State:
        """Returns the initial state without the arrays of groups."""
        counted = {"step": np.zeros(1, np.int64)} if self._scheduled else {}
        return self.accumulators(theta) | counted | {name: theta.copy() for name in kinds_of(self.groups)}

    def _fresh(self, theta: Array, objective: Any = None) -> State:
        return self._begun(theta) if self.groups else self.init(theta, objective)

    def rate_at(self, state: State) -> float:
        """Returns ε of the next step."""
        return self._now("rate", state)

    def evaluation_point(self, theta: Array, state: State) -> Array:
        if type(self).lookahead is FirstOrder.lookahead:
            return theta
        scheduled = tuple(name for name in self._scheduled if name != "rate")
        kind = VectorKind.of(theta, state, scheduled, None)

        def make() -> gn.Function:
            return lookahead_function(kind, lambda t, s, more: self.looked_ahead(t, s, **more))

        out, now = np.empty_like(theta), self.settings_now(state)
        values = [theta.dtype.type(now[name]) for name in scheduled]
        compiled(("lookahead", *self._key, kind), make)(out, theta, *state.values(), *values)
        return out

    def step(self, objective: HasGradient, theta: Array, state: State, rate: float | None = None) -> Report:
        loss, g = objective.gradient(self.evaluation_point(theta, state))
        kind = VectorKind.of(theta, state, self._scalars, getattr(objective, "threads", None))

        def make() -> gn.Function:
            applied = lambda t, g, s, scalars: self.apply(t, g, s, **scalars)  # noqa: E731
            return update_function(kind, applied)

        if g.dtype != theta.dtype or (isinstance(g, np.ndarray) and np.may_share_memory(g, theta)):
            g = g.astype(theta.dtype)
        now = self.settings_now(state) | ({} if rate is None else {"rate": rate})
        with np.errstate(over="ignore"):  # infinite weights raise an error later
            values = [theta.dtype.type(now[name]) for name in self._scalars]
        function = compiled(("update", *self._key, kind), make)
        length = float(function(np.float64(loss), theta, g, *state.values(), *values)[0])
        if length == math.inf and self.clip_norm is not None and self.clip_value is None:
            found = norm(g)
            if math.isfinite(found):  # only its square overflowed; the clipped gradient is finite
                clipped = g * g.dtype.type(self.clip_norm / found)
                function(np.float64(loss), theta, clipped, *state.values(), *values)
                length = found
        return Report(loss, length or norm(g))

    # -- settings ------------------------------------------------------------------------------

    def settings_now(self, state: State) -> dict[str, float]:
        """Returns the learning rate and other scheduled settings of the next step, as `apply` takes them."""
        return {name: self._now(name, state) for name in self._scalars}

    @cached_property
    def _scheduled(self) -> tuple[str, ...]:
        return tuple(f.name for f in fields(self) if isinstance(getattr(self, f.name), Schedule))

    @cached_property
    def _scalars(self) -> tuple[str, ...]:
        """Names of the settings that may differ at each step."""
        return tuple(dict.fromkeys(("rate", *self._scheduled)))

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        varying = set(self._scalars)
        return type(self), *((f.name, getattr(self, f.name)) for f in fields(self) if f.name not in varying)

    def _with(self, **settings: Any) -> Self:
        own = object.__new__(type(self))
        vars(own).update({f.name: getattr(self, f.name) for f in fields(self)})
        for name in settings:
            if name not in vars(own):
                raise UsageError(f"{type(self).__name__}: there is no setting {name!r}")
        vars(own).update(settings)
        return own

    def _now(self, name: str, state: State) -> float:
        setting = getattr(self, name)
        if not isinstance(setting, Schedule):
            return float(setting)
        if "step" not in state:
            raise UsageError(
                f"{type(self).__name__}: the state has no step count, which the schedule {shown(setting)} needs; "
                "create it with `init` of this optimizer."
            )
        return setting.at(int(state["step"][0]))


@dataclass(frozen=True)
class SGD(FirstOrder):
    """θ ← θ - ε g

    rate: ε, a number or a Schedule, default 0.1.
    clip_norm, clip_value, weight_decay, groups: see FirstOrder.

    >>> optimizer = rnn.SGD(rate=0.1 * rnn.Warmup(4))
    >>> optimizer.rate_at(optimizer.init(np.zeros(3)))
    0.025
    """

    rate: Rate = 0.1

    def update(self, theta: Node, g: Node, state: Nodes, rate: Node) -> tuple[Node, Nodes]:
        return theta - rate * g, {}


@dataclass(frozen=True)
class Momentum(FirstOrder):
    """v ← μ v - ε g(θ);  θ ← θ + v. Source: Polyak 1964; Sutskever 2013, 7.2.

    rate: ε, a number or a Schedule, default 0.1.
    momentum: μ in [0, 1), a number or a Schedule, default 0.9.
    clip_norm, clip_value, weight_decay, groups: see FirstOrder.

    >>> optimizer = rnn.Momentum(rate=0.01, momentum=0.95)
    >>> optimizer.init(np.zeros(3))
    {'v': array([0., 0., 0.])}
    >>> optimizer.momentum_at(optimizer.init(np.zeros(3)))
    0.95
    """

    rate: Rate = 0.1
    momentum: FractionOrSchedule = 0.9

    def accumulators(self, theta: Array) -> State:
        return {"v": np.zeros_like(theta)}

    def momentum_at(self, state: State) -> float:
        """Returns μ of the next step."""
        return self._now("momentum", state)

    def update(self, theta: Node, g: Node, state: Nodes, rate: Node) -> tuple[Node, Nodes]:
        v = self.momentum * state["v"] - rate * g
        return theta + v, {"v": v}


@dataclass(frozen=True)
class Nesterov(Momentum):
    """v ← μ v - ε g(θ + μ v);  θ ← θ + v. Source: Nesterov 1983; Sutskever 2013, eqs 7.11-7.13.

    rate: ε, a number or a Schedule, default 0.1.
    momentum: μ in [0, 1), a number or a Schedule, default 0.9.
    clip_norm, clip_value, weight_decay, groups: see FirstOrder.

    >>> optimizer = rnn.Nesterov(rate=0.01, momentum=rnn.NesterovMomentum(most=0.99))
    >>> optimizer.momentum_at(optimizer.init(np.zeros(3)))
    0.4
    """

    def lookahead(self, theta: Node, state: Nodes) -> Node:
        return theta + self.momentum * state["v"]


@dataclass(frozen=True)
class RMSprop(FirstOrder):
    """r ← ρ r + (1 - ρ) g²;  θ ← θ - ε g / √(r + δ). Source: Tieleman & Hinton 2012; Lynge 2016, 3.6.1.

    rate: ε, a number or a Schedule, default 0.002.
    decay: ρ in [0, 1), default 0.95.
    delta: δ >= 0, default 1e-8.
    clip_norm, clip_value, weight_decay, groups: see FirstOrder.

    (Lynge's eq. 3.54 averages g; his source, and this class, average g².)

    >>> rnn.RMSprop(rate=0.001).init(np.zeros(3))
    {'r': array([0., 0., 0.])}
    """

    rate: Rate = 2e-3
    decay: Fraction = 0.95
    delta: Amount = 1e-8

    def accumulators(self, theta: Array) -> State:
        return {"r": np.zeros_like(theta)}

    def update(self, theta: Node, g: Node, state: Nodes, rate: Node) -> tuple[Node, Nodes]:
        r = self.decay * state["r"] + (1 - self.decay) * g * g
        return theta - rate * g / gn.sqrt(r + self.delta), {"r": r}


@dataclass(frozen=True)
class Adam(FirstOrder):
    """m ← β₁ m + (1-β₁) g;  v ← β₂ v + (1-β₂) g²;  θ ← θ - ε m̂ / (√v̂ + δ), m̂ = m/(1-β₁ᵗ), v̂ = v/(1-β₂ᵗ)

    rate: ε, a number or a Schedule, default 0.003.
    beta1, beta2: β₁ and β₂ in [0, 1), default 0.9 and 0.999.
    delta: δ >= 0, default 1e-8.
    clip_norm, clip_value, weight_decay, groups: see FirstOrder.
    Source: Kingma & Ba 2015, algorithm 1.

    >>> w = gn.parameter(np.zeros(2), name="w")
    >>> objective = rnn.Objective(gn.sum(gn.squared_error(w, np.array([1.0, -1.0]))), [w])
    >>> rnn.minimize(objective, rnn.Adam(rate=0.1), steps=1).theta.round(3).tolist()
    [0.1, -0.1]
    """

    rate: Rate = 3e-3
    beta1: Fraction = 0.9
    beta2: Fraction = 0.999
    delta: Amount = 1e-8

    def accumulators(self, theta: Array) -> State:
        return {"m": np.zeros_like(theta), "v": np.zeros_like(theta), "t": np.zeros(1, np.int64)}

    def update(self, theta: Node, g: Node, state: Nodes, rate: Node) -> tuple[Node, Nodes]:
        t = state["t"] + 1
        m = self.beta1 * state["m"] + (1 - self.beta1) * g
        v = self.beta2 * state["v"] + (1 - self.beta2) * g * g
        m_hat, v_hat = (a * _unbiasing(beta, t, a.dtype) for a, beta in ((m, self.beta1), (v, self.beta2)))
        return theta - rate * m_hat / (gn.sqrt(v_hat) + self.delta), {"m": m, "v": v, "t": t}


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam, and θ ← θ - ε λ θ, λ = weight_decay: θ ← θ - ε (m̂ / (√v̂ + δ) + λ θ)

    weight_decay: λ, default 0.01 as in PyTorch.
    rate, beta1, beta2, delta: see Adam. clip_norm, clip_value, groups: see FirstOrder.

    Every first-order optimizer has weight_decay; this class only has another default.
    Source: Loshchilov & Hutter 2019, algorithm 2, whose λ is ε λ here.

    >>> rnn.AdamW() == rnn.AdamW(weight_decay=0.01), rnn.Adam().weight_decay
    (True, 0.0)
    """

    weight_decay: Amount = field(default=0.01, kw_only=True)


def _unbiasing(beta: float, t: Node, dtype: Any) -> Node:
    """1 / (1 - βᵗ)"""
    return gn.cast(1 / (1 - beta ** gn.cast(t, "float64")), dtype)
