"""What is measured of an unrolled network besides its loss."""

from __future__ import annotations

import graphnet as gn
from graphnet.graph.node import Node
from graphnet_rnn.network.unroll import Unrolled

__all__ = ["MEASURES", "losses_of_cases", "measures", "measures_of_cases"]

#: By loss what there is of each target.
MEASURES: dict[str, str] = {"softmax": "accuracy", "sigmoid": "accuracy", "squared": "absolute_error"}


def measures(u: Unrolled, of_values: bool = False) -> dict[str, Node]:
    """Of each target how right it was, or how far away, a mean over its values; or its parts, one of each value."""
    o, t = u.logits, u.targets
    match u.network.loss:
        case "softmax":
            return {"accuracy": gn.cast(gn.equal(gn.argmax(o), t), o.dtype)}
        case "sigmoid":
            values = gn.cast(gn.equal(o > 0, t > 0.5), o.dtype)
        case "squared":
            values = gn.absolute(o - t)
        case _:
            return {}
    return {MEASURES[u.network.loss]: values / values.shape[-1] if of_values else gn.mean(values, axis=-1)}


def losses_of_cases(u: Unrolled) -> Node:
    """(batch,): the sum over the scored steps of each case."""
    return u.losses if u.losses.ndim == 1 else gn.sum(u.losses[u.unscored :], axis=0)


def measures_of_cases(u: Unrolled) -> dict[str, Node]:
    """(batch,): the mean over the scored steps that a case has; "exact": 1 where all of them are right."""
    found: dict[str, Node] = {}
    for name, value in measures(u).items():
        if value.ndim == 1:
            found[name] = value
            continue
        value, ends = value[u.unscored :], u.judged_ends
        if ends is None:
            found[name] = gn.mean(value, axis=0)
        else:
            inside = ends.inside[u.unscored :]
            steps = gn.maximum(gn.sum(gn.cast(inside, value.dtype), axis=0), 1)
            found[name] = gn.sum(gn.where(inside, value, 0), axis=0) / steps
            value = gn.where(inside, value, 1)
        if u.network.loss == "softmax":
            found["exact"] = gn.min(value, axis=0)
    return found
