"""Columns of a training table: their roles, categories, and means of columns with empty cells."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from graphnet_rnn.data.columns import Columns, categories_of, kind_of, numbers_of
from graphnet_rnn.data.frame import Frame
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.settings import shown


def fitted(
    frame: Frame,
    *,
    inputs: tuple[str, ...],
    targets: tuple[str, ...],
    categories: tuple[str, ...],
    weights: str | None,
    **described: Any,
) -> Columns:
    """Determines Columns from the training table; described: the other arguments of Columns."""
    horizon, case = described["horizon"], described["case"]
    inputs = _inputs(
        frame,
        inputs,
        targets,
        horizon,
        {"the weights": weights, "the cases": case, "the times": described["time"]},
    )
    if case is not None and case in categories and case not in inputs:
        inputs = (case, *inputs)
    if not inputs:
        raise DataError(
            f"{frame.where}: no column is left for the inputs; the columns are {frame.names()} (to predict the next "
            "rows of the target, give a horizon)"
        )
    read = tuple(dict.fromkeys((*inputs, *targets)))
    for name in (*read, *categories):
        _ = frame[name]
    strange = set(categories) - {*read}
    if strange:
        raise UsageError(
            f"{frame.where}: the category {shown(sorted(strange)[0])} is not among inputs and targets"
        )
    of = {
        name: categories_of(frame, name, name in categories, name in targets)
        for name in read
        if name in categories or kind_of(frame, name) == "categories"
    }
    means = {}
    for name in inputs:
        if name not in of and np.isnan(column := numbers_of(frame, name)).any():
            there = column[~np.isnan(column)]
            if not there.size:
                raise DataError(
                    f"{frame.where}: the column {shown(name)} is empty; leave it out of the inputs"
                )
            means[name] = float(f"{there.mean():.9g}")
    return Columns(inputs, targets, of, means, **described)


def require_same(where: str | Path, described: Mapping[str, Any], columns: Columns) -> None:
    """Raises UsageError if the arguments of a Table describe other columns than those of a model."""
    for name, given in described.items():
        fixed = getattr(columns, name)
        if name == "inputs":  # which may also have the targets and, as categories, an earlier case
            same = set(given) <= set(fixed) <= {*given, *columns.targets, *columns.categories}
        else:
            same = set(given) <= set(fixed) if name == "categories" else given == fixed
        if given and not same:
            option = {"targets": "target", "independent": "independent-rows"}.get(name, name)
            raise UsageError(
                f"{where}: {name} (--{option}) is fixed by the columns of the model, which reads "
                f"{', '.join(columns.inputs)}; leave it out"
            )


def _inputs(
    frame: Frame,
    inputs: tuple[str, ...],
    targets: tuple[str, ...],
    horizon: int | None,
    others: Mapping[str, str | None],
) -> tuple[str, ...]:
    """Returns the input columns. others: role -> column. Raises UsageError for a column with two roles."""
    if horizon is not None and not targets:
        raise UsageError(f"{frame.where}: name the target columns; the columns are {frame.names()}")
    roles = dict.fromkeys(inputs, "among the inputs")
    single = ((role, (name,)) for role, name in others.items() if name is not None)
    for role, each in (("among the targets", targets), *single):
        for name in each:
            both = role == "the cases" or (role == "among the targets" and horizon is not None)
            if name in roles and not (both and name in inputs):
                raise UsageError(
                    f"{frame.where}: {shown(name)} is {roles[name]} and {role}; a column can have only one role"
                )
            roles[name] = role
    if inputs:
        return inputs if horizon is None else (*inputs, *(name for name in targets if name not in inputs))
    apart = {name for name, role in roles.items() if horizon is None or role != "among the targets"}
    return tuple(name for name in frame.columns if name not in apart)
