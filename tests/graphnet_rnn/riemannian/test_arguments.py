"""What no metric can be asked is said in a sentence."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet.errors import GraphnetError
from graphnet_rnn.errors import TrainingError
from graphnet_rnn.riemannian import Kronecker, OuterProduct, unit_groups
from tests.tables import case


def fed() -> tuple[Any, Any, Any]:
    """An objective, the same of batches, and its parameters."""
    net = rnn.Network([rnn.Elman(2)], 2, 2, loss="squared", dtype="float64")
    u = net.unroll(3, batch=2, initial="zero")
    objective = rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets])
    x, t = np.ones((3, 2, 2)), np.zeros((3, 2, 2))
    objective.feed(x, t)
    many = rnn.BatchedObjective(objective)
    many.feed([(x, t)])
    return objective, many, net


M = OuterProduct()
BAD: dict[str, tuple[Callable[[Any, Any, Any], Any], str]] = {
    "no metric": (lambda o, w, n: o.metric(w, None), "metric must be one of rnn.riemannian"),
    "a class": (lambda o, w, n: o.metric(w, OuterProduct), "metric must be one of rnn.riemannian"),
    "another part": (
        lambda o, w, n: o.metric(w, M, "both"),
        "part must be 'all' or 'outputs' or 'hidden', not 'both'",
    ),
    "a negative draw": (
        lambda o, w, n: o.metric(w, M, "all", -1),
        "draw must be a whole number >= 0, not -1",
    ),
    "no draw": (lambda o, w, n: o.metric(w, M, "all", None), "draw must be a whole number >= 0, not None"),
    "a short vector": (lambda o, w, n: o.metric(w[:3], M), r"the vector has shape \[3\]"),
    "no numbers": (
        lambda o, w, n: o.metric_solver(M, "all", None),
        r"numbers must be the \d+ that `metric` gives",
    ),
    "others' numbers": (
        lambda o, w, n: o.metric_solver(Kronecker(), "all", o.metric(w, M)[2]),
        r"numbers must be the \d+ that `metric` gives",
    ),
    "a short gradient": (
        lambda o, w, n: o.metric_solver(M, "all", o.metric(w, M)[2])(w[:3]),
        r"the vector has shape \[3\]",
    ),
    "a negative damping": (
        lambda o, w, n: o.metric_solver(M, "all", o.metric(w, M)[2], -1),
        "damping must be a finite number >= 0, not -1",
    ),
    "no cost": (lambda o, w, n: unit_groups(None, n.parameters), "cost must be a node, not None"),  # type: ignore[arg-type]
    "arrays": (
        lambda o, w, n: unit_groups(next(iter(n.parameters.values())), [w]),
        "parameters must be nodes of such",
    ),
    "no list": (
        lambda o, w, n: unit_groups(next(iter(n.parameters.values())), None),
        "parameters must be a list of nodes",
    ),  # type: ignore[arg-type]
}


def test_what_cannot_be_asked() -> None:
    for (ask, words), batched in itertools.product(BAD.values(), [False, True]):
        with case(ask, words, batched):
            objective, many, net = fed()
            with pytest.raises(GraphnetError, match=words):
                ask(many if batched else objective, objective.start(), net)


def test_reductions_that_a_metric_has_not() -> None:
    for reduction in ["full", "diagonal", "xyz"]:
        with case(reduction), pytest.raises(GraphnetError, match="Kronecker: reduction must be 'kronecker'"):
            Kronecker(reduction)


def test_a_mapping_and_a_name_will_do() -> None:
    objective, _, net = fed()
    assert len(unit_groups(objective.cost, net.parameters)) == 2
    by_name = objective.metric(objective.start(), "ruop")[2]
    assert np.array_equal(by_name, objective.metric(objective.start(), OuterProduct())[2])


def test_a_singular_metric_names_its_units() -> None:
    """An input that is always 0, and what is no number."""
    for value, reduction in itertools.product([0.0, np.nan, np.inf], ["full", "quasi-diagonal", "diagonal"]):
        with case(value, reduction):
            objective, _, _ = fed()
            x = np.ones((3, 2, 2))
            x[..., 1] = value
            objective.feed(x, np.zeros((3, 2, 2)))
            metric = OuterProduct(reduction, damping=0.0)
            with np.errstate(all="ignore"):
                g, numbers = objective.metric(objective.start(), metric, "hidden")[1:]
                with pytest.raises(
                    TrainingError, match=r"the metric of 2 units of layer0.W_xh.* is singular"
                ):
                    objective.metric_solver(metric, "hidden", numbers)(g)


def test_singular_kronecker_factors_name_their_units() -> None:
    for value, over_time in itertools.product(
        [0.0, np.nan, np.inf, 1e300], ["independent", "symmetric", "linear"]
    ):
        with case(value, over_time):
            objective, _, _ = fed()
            objective.feed(np.full((3, 2, 2), value), np.zeros((3, 2, 2)))
            metric = Kronecker(over_time=over_time, damping=0.0)
            with np.errstate(all="ignore"):
                numbers = objective.metric(objective.start(), metric)[2]
                with pytest.raises(TrainingError, match=r"the metric of .* is singular"):
                    objective.metric_solver(metric, "all", numbers)
