"""Columns of a training table: their roles, categories, and means of columns with empty cells."""

from __future__ import annotations

import numpy as np

from graphnet_rnn.data.choice import Choice
from graphnet_rnn.data.columns import Columns, categories_of, kind_of, numbers_of
from graphnet_rnn.data.frame import Frame
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.settings import shown

__all__ = ["fitted"]


def fitted(frame: Frame, choice: Choice) -> Columns:
    """Determines Columns from the training table."""
    inputs, targets = _roles(frame, choice)
    for name in (*inputs, *targets, *choice.categories):
        _ = frame[name]
    strange = set(choice.categories) - {*inputs, *targets}
    if strange:
        raise UsageError(
            f"{frame.where}: the category {shown(sorted(strange)[0])} is not among inputs and targets"
        )
    chosen = set(choice.categories)
    of = {name for name in (*inputs, *targets) if name in chosen or kind_of(frame, name) == "categories"}
    means = {}
    for name in inputs:
        if name not in of and np.isnan(column := numbers_of(frame, name)).any():
            there = column[~np.isnan(column)]
            if not there.size:
                raise DataError(
                    f"{frame.where}: the column {shown(name)} is empty; leave it out of the inputs"
                )
            means[name] = float(f"{there.mean():.9g}")
    return Columns(
        inputs,
        targets,
        {
            name: categories_of(frame, name, name in chosen, name in targets)
            for name in (*inputs, *targets)
            if name in of
        },
        means,
        choice.time,
        choice.case,
        choice.calendar,  # type: ignore[arg-type]
        choice.horizon,
        choice.date_format,
        choice.independent,
    )


def _roles(frame: Frame, choice: Choice) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the input and target columns. Raises UsageError for a column with two roles."""
    inputs, targets = tuple(choice.inputs), tuple(choice.targets)
    if choice.horizon is not None and not targets:
        raise UsageError(f"{frame.where}: name the target columns; the columns are {frame.names()}")
    roles: dict[str, str] = {}
    for role, each in (
        ("among the inputs", inputs),
        ("among the targets", targets),
        ("the weights", (choice.weights,)),
        ("the cases", (choice.case,)),
        ("the times", (choice.time,)),
    ):
        for name in filter(None, each):
            both = choice.horizon is not None and name in inputs and name in targets
            if name in roles and not both and not (role == "the cases" and name in inputs):
                raise UsageError(
                    f"{frame.where}: {shown(name)} is {roles[name]} and {role}; a column can have only one role"
                )
            roles[name] = role
    if inputs and choice.horizon is not None:
        inputs = (*inputs, *(name for name in targets if name not in inputs))
    if not inputs:
        apart = {
            name for name, role in roles.items() if choice.horizon is None or role != "among the targets"
        }
        inputs = tuple(name for name in frame.columns if name not in apart)
    if choice.case is not None and choice.case in choice.categories and choice.case not in inputs:
        inputs = (choice.case, *inputs)
    if not inputs:
        raise DataError(
            f"{frame.where}: no column is left for the inputs; the columns are {frame.names()} (to predict the next "
            "rows of the target, give a horizon)"
        )
    return inputs, targets
