"""Columns: the numbers that a network reads and predicts, computed from the cells of a table."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.data.frame import Frame, as_number
from graphnet_rnn.data.times import as_date, calendar_of, require_times
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.settings import Count, is_number, listed, require_kinds, shown, text

#: Names of columns: a tuple or list, or a string in which commas separate them.
Names: TypeAlias = Sequence[str]
#: Cells that count as empty, in lower case, as in pandas; -nan and -nan(ind) are NaN as C prints it.
EMPTY = frozenset(
    ["", "na", "n/a", "#n/a", "<na>", "nan", "+nan", "-nan", "-nan(ind)", "nat", "null", "none"]
)
_INFINITE = re.compile(r"[-+]?(inf(inity)?|(\d+\.?\d*|\.\d+)e\+?\d+)", re.IGNORECASE)
#: Classes that are also the numbers 0 and 1, in lower case.
BINARY = {"0", "1", "false", "true"}
#: Maximum number of categories of a column.
MOST = 1000
#: Maximum number that is accepted in any table, if categories are not chosen explicitly.
FEW = 20


@dataclass(frozen=True)
class Columns:
    """The columns of a table that a network reads and predicts, and how their cells become numbers.

    inputs: names of the input columns.
    targets: names of the target columns.
    categories: columns of categories, inputs or a target -> the categories. Inputs are one-hot encoded: one number for
    each category, 1 for that of the cell and 0 for the others. A target is encoded as the index of its category.
    means: input columns with empty cells in the training data -> mean of the others, which replaces empty cells. A
    second number, 1 for an empty cell and otherwise 0, follows that of the column.
    time: column with the time of each row; default None, rows are in order.
    case: column with the case (sequence) of each row; default None, one case.
    calendar: features of the time, of "hour", "weekday", "day" (of the year) and "month": sine and cosine of each.
    horizon: number of following rows whose targets each row predicts; default None, targets are those of the row.
    date_format: format of times, as in datetime.strptime; default None, ISO 8601.
    independent: True if each row is a case of one time step; default False.

    `rnn.save` stores them, so the same columns are read from another table, whatever their order there. Raises
    UsageError.

    >>> columns = rnn.data.Columns(("temperature", "sky"), ("demand",), {"sky": ("clear", "rain")}, horizon=2)
    >>> columns.input_names()
    ['temperature', 'sky = clear', 'sky = rain']
    >>> columns.output_names()
    ['demand +1', 'demand +2']
    >>> columns.outputs("squared")
    2
    """

    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    means: Mapping[str, float] = field(default_factory=dict)
    time: str | None = None
    case: str | None = None
    calendar: tuple[str, ...] = ()
    horizon: Count | None = None
    date_format: str | None = None
    independent: bool = False

    def __post_init__(self) -> None:
        require_kinds(self)
        for what in ("inputs", "targets", "calendar"):
            object.__setattr__(self, what, names(f"Columns: {what}", getattr(self, what)))
        if not self.inputs:
            raise UsageError("Columns: inputs must have at least one name")
        for what, known in (("categories", (*self.inputs, *self.targets)), ("means", self.inputs)):
            given = getattr(self, what)
            if not isinstance(given, Mapping) or not set(given) <= set(known):
                raise UsageError(f"Columns: {what} must be a mapping from columns, not {shown(given)}")
        each = {name: names(f"Columns: categories of {name}", of) for name, of in self.categories.items()}
        object.__setattr__(self, "categories", each)
        if not all(is_number(mean) and math.isfinite(mean) for mean in self.means.values()):
            raise UsageError(f"Columns: means must be finite numbers, not {shown(self.means)}")
        object.__setattr__(self, "means", {name: float(mean) for name, mean in self.means.items()})
        classes = [name for name in self.targets if name in each]
        if classes and (len(self.targets) > 1 or (self.horizon or 1) > 1):
            what = "several targets" if len(self.targets) > 1 else "a horizon of more than one row"
            raise UsageError(
                f"Columns: the target {shown(classes[0])} is a column of categories, which cannot be predicted with "
                f"{what}; choose one target of categories, and at most horizon 1"
            )
        if self.independent and self.horizon is not None:
            raise UsageError("Columns: horizon does not apply to independent rows; leave out one of the two")
        for what in ("time", "case", "date_format"):
            if getattr(self, what) is not None:
                text(f"Columns: {what}", getattr(self, what))
        require_times("Columns", self.calendar, self.time, self.date_format)

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Classes of the target, in the order of the outputs; None for targets that are numbers."""
        return self.categories.get(self.targets[0]) if self.targets else None

    def input_names(self) -> list[str]:
        """Returns a name for each input of the network."""
        found = []
        for name in self.inputs:
            if name in self.categories:
                found += [f"{name} = {each}" for each in self.categories[name]]
            else:
                found += [name, f"{name} is empty"] if name in self.means else [name]
        return found + [f"{part} of {name}" for name in self.calendar for part in ("sine", "cosine")]

    def outputs(self, loss: str) -> int:
        """Returns the number of outputs of a network with this loss: one for true and false, unless it is "softmax".

        Raises UsageError if other classes have a loss for numbers.
        """
        if self.classes is not None:
            if loss != "softmax" and not {name.lower() for name in self.classes} <= BINARY:
                raise UsageError(
                    f"loss {loss}: the target {shown(self.targets[0])} holds classes, not numbers; use the loss softmax"
                )
            return len(self.classes) if loss == "softmax" else 1
        return len(self.targets) * (self.horizon or 1)

    def output_names(self) -> list[str]:
        """Returns a name for each output of the network: classes, or targets, in the order of the horizon."""
        if self.classes is not None:
            return list(self.classes)
        if self.horizon is None:
            return list(self.targets)
        return [f"{name} +{step}" for step in range(1, self.horizon + 1) for name in self.targets]


def indicators_of(columns: Columns) -> dict[int, int]:
    """Returns the position of the indicator of empty cells, among the inputs, by that of its column."""
    found = columns.input_names()
    return {found.index(name): found.index(f"{name} is empty") for name in columns.means}


def names(what: str, given: Any) -> tuple[str, ...]:
    """Returns different names as a tuple; a string has names separated by commas. Raises UsageError."""
    if isinstance(given, (set, frozenset)):
        raise UsageError(f"{what} must be a list or a tuple, not a set, whose order differs from run to run")
    words = isinstance(given, str)
    found = tuple(name.strip() for name in given.split(",")) if words else tuple(listed(what, given, "names"))
    odd = (words and "" in found) or not all(isinstance(name, str) for name in found)
    if odd or len(set(found)) < len(found):
        raise UsageError(f"{what} must be different names, not {shown(list(found))}")
    return found


# -- encoding ---------------------------------------------------------------------------


def encoded(columns: Columns, frame: Frame, times: Array | None) -> tuple[Array, list[str]]:
    """Returns the inputs (rows, inputs), float32, and notes about cells without a known category."""
    parts, notes = list[Array](), list[str]()
    for name in columns.inputs:
        if name in columns.categories:
            parts.append(_one_hot(columns, frame, name, notes))
            continue
        column = numbers_of(frame, name)
        empty = np.isnan(column)
        if name in columns.means:
            parts += [np.where(empty, columns.means[name], column)[:, None], empty[:, None]]
        elif empty.any():
            remedy = ", an empty cell; the training data had none in this column. Fill it in"
            raise frame.error(int(empty.argmax()), name, remedy)
        else:
            parts.append(column[:, None])
    parts += [] if times is None else [calendar_of(times, name) for name in columns.calendar]
    x = np.concatenate(parts, axis=1)
    with np.errstate(over="ignore"):
        found = x.astype(np.float32)
    over = np.argwhere(np.isinf(found))
    if len(over):
        row, column = over[0]
        name = columns.input_names()[column]
        raise DataError(
            f"{frame.where}: row {row + 1} of the column {shown(name)} is {x[row, column]:g}, which float32 cannot "
            "hold; scale the column"
        )
    return found, notes


def _one_hot(columns: Columns, frame: Frame, name: str, notes: list[str]) -> Array:
    index = _indices_of(frame, name, columns.categories[name])
    unknown = np.flatnonzero(index == UNKNOWN)
    if len(unknown):
        which = f"first {shown(str(frame[name][unknown[0]]))} in row {unknown[0] + 1}"
        notes.append(
            f"{len(unknown)} cells of the column {shown(name)} have a category that is not in the training data "
            f"({which}); its inputs are 0"
        )
    if empty := int((index == EMPTY_CELL).sum()):
        words = _words_for_empty(frame, name)
        notes.append(f"{empty} cells of the column {shown(name)} are empty{words}; its inputs are 0")
    return index[:, None] == np.arange(len(columns.categories[name]))


def notes_on_classes(columns: Columns, frame: Frame) -> list[str]:
    """Returns a note if words such as None in the column of the classes are taken for empty cells."""
    if columns.classes is None or columns.targets[0] not in frame.columns:
        return []
    (name,) = columns.targets
    words = _words_for_empty(frame, name)
    remedy = "no targets; if this is a class, change the word"
    return [f"cells of the column {shown(name)} are empty{words}: {remedy}"] if words else []


def labels_of(columns: Columns, frame: Frame) -> Array:
    """Returns the class index of each row, -1 for an empty cell."""
    (name,) = columns.targets
    index = _indices_of(frame, name, columns.categories[name])
    unknown = np.flatnonzero(index == UNKNOWN)
    if len(unknown):
        known = ", ".join(columns.categories[name][:FEW])
        raise frame.error(int(unknown[0]), name, f", which is no class of the training data ({known})")
    return index


# -- cells ---------------------------------------------------------------------------------------


def is_empty(cell: str) -> bool:
    return cell.lower() in EMPTY


def _words_for_empty(frame: Frame, name: str) -> str:
    """Words such as NA that are taken for empty cells, in brackets."""
    both = zip(frame[name], frame.texts(name), strict=True)
    words = sorted({text for cell, text in both if isinstance(cell, str) and text and is_empty(text)})
    return f" ({', '.join(map(shown, words))})" if words else ""


def kind_of(frame: Frame, name: str) -> str:
    """Returns "numbers" or "categories"; DataError for times, and for texts that seem to be numbers."""
    column = frame[name]
    if column.dtype.kind in "iuf":
        return "numbers"
    if column.dtype.kind == "b":
        return "categories"
    is_time = column.dtype.kind in "mM"
    cells = [] if is_time else [cell for cell in frame.texts(name) if not is_empty(cell)]
    numbers = [] if is_time else frame.numbers(name)
    found = sum(value is not None for value in numbers)
    if found:  # infinite ones are numbers, too, which numbers_of then rejects
        both = zip(frame.texts(name), numbers, strict=True)
        found += sum(value is None and _INFINITE.fullmatch(cell) is not None for cell, value in both)
    if not is_time and 2 * found >= len(cells):
        return "numbers"
    if not cells or all(as_date(cell) is not None for cell in cells):
        raise DataError(
            f"{frame.where}: the column {shown(name)} holds times; name it as the time of the rows "
            "(--time-column), or leave it out of the inputs (--inputs)"
        )
    if 2 * sum(re.search(r"[^\W\d_]", cell) is not None for cell in cells) <= len(cells):
        both = zip(frame.texts(name), frame.numbers(name), strict=True)
        row = next(i for i, (cell, value) in enumerate(both) if value is None and not is_empty(cell))
        raise frame.error(
            row,
            name,
            ", which is not a number (written 1234.5); correct it, name the column as the time (--time-column) or "
            "among the categories, or leave it out of the inputs (--inputs)",
        )
    return "categories"


def numbers_of(frame: Frame, name: str) -> Array:
    """Returns a column as float64, NaN for empty cells. Raises DataError."""
    column = frame[name]
    if column.dtype.kind in "mM":
        kind_of(frame, name)
    if column.dtype.kind in "iufb":
        found = column.astype(np.float64)
    else:
        numbers = frame.numbers(name)
        for row, (cell, value) in enumerate(zip(frame.texts(name), numbers, strict=True)):
            if value is None and not is_empty(cell):
                remedy = "; all values must be finite numbers, or empty"
                raise frame.error(row, name, remedy)
        found = np.array([np.nan if value is None else value for value in numbers])
    if np.isinf(found).any():
        raise frame.error(
            int(np.isinf(found).argmax()), name, "; all values must be finite numbers, or empty"
        )
    _require_resolution(frame, name, found)
    return found


def _require_resolution(frame: Frame, name: str, found: Array) -> None:
    there = ~np.isnan(found)
    if not there.any():
        return
    exact = centered = found[there]
    if np.abs(exact).max() > 2**53 and frame[name].dtype.kind != "f":  # float64 rounds whole numbers
        fractions = [_fraction(str(value).strip()) for value in frame[name][there]]
        centered = np.array([_rounded(value - fractions[0]) for value in fractions])
    step = coarse_step(exact, centered)
    if step:
        remedy = "subtract the first value" if np.abs(exact).max() > 1e-30 else "multiply it by a constant"
        raise DataError(
            f"{frame.where}: float32 rounds the values of the column {shown(name)}, from {exact.min():.16g} to "
            f"{exact.max():.16g}, to multiples of {step:g}; {remedy}, or leave the column out"
        )


def _fraction(cell: str) -> int | Fraction:
    return int(cell) if cell.isdecimal() else Fraction(cell)


def _rounded(value: int | Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf


def moments(values: Array) -> tuple[float, float]:
    """Mean and standard deviation, also of numbers whose squares are 0 or infinite."""
    unit = math.ldexp(0.5, math.frexp(np.abs(values).max())[1])
    scaled = values / unit
    return float(scaled.mean() * unit), float(scaled.std() * unit)


def coarse_step(values: Array, centered: Array | None = None) -> float:
    """Returns the step of float32 at these values if it is over 6 % of their deviation, else 0.

    Rounding is then over 2 % of the deviation. Fractions that differ only by the rounding of float64 are equal.
    centered: the values minus one of them, computed exactly.
    """
    most = np.abs(values).max()
    with np.errstate(over="ignore", invalid="ignore"):
        if values.dtype.kind in "iu":  # exact, where float64 would round
            centered = values.astype(np.uint64) - values.min().astype(np.uint64)
        elif centered is None:
            centered = values
        step, (_, deviation) = float(np.spacing(np.float32(most))), moments(centered)
        least = 0.0 if (values == np.rint(values)).all() else 4 * float(np.spacing(np.float64(most)))
    return step if least < deviation < 16 * step < np.inf else 0.0


EMPTY_CELL, UNKNOWN = -1, -2


def _indices_of(frame: Frame, name: str, categories: tuple[str, ...]) -> Array:
    """Returns the index of each cell's category, -1 for an empty cell, -2 for another category."""
    index = {_spelled(category): i for i, category in enumerate(categories)}
    cells = frame.texts(name)
    return np.array(
        [EMPTY_CELL if is_empty(cell) else index.get(_spelled(cell), UNKNOWN) for cell in cells], np.int64
    )


def _spelled(cell: str) -> str:
    """One spelling for 3 and 3.0, which pandas writes for whole numbers in a column with empty cells."""
    return cell[:-2] if re.fullmatch(r"-?\d+\.0", cell) else cell


def most_categories(rows: int) -> int:
    """Maximum number of categories of a column that the user did not name among the categories."""
    return min(MOST, max(FEW, rows // 4))


def categories_of(frame: Frame, name: str, chosen: bool, target: bool = False) -> tuple[str, ...]:
    """Returns the categories of a column, numbers in their order, texts alphabetically.

    chosen: True if the user named the column among the categories. target: True for a target, which may have twice as
    many.
    """
    found = {_spelled(cell) for cell in frame.texts(name) if not is_empty(cell)}
    if not found:
        raise DataError(f"{frame.where}: the column {shown(name)} is empty; leave it out")
    if len(found) > (MOST if chosen else most_categories(2 * len(frame) if target else len(frame))):
        remedy = "leave it out" + (f"; the most is {MOST}" if chosen else ", or name it among the categories")
        raise DataError(
            f"{frame.where}: the column {shown(name)} has {len(found):,} different values in {len(frame):,} rows; "
            f"{remedy}"
        )
    numbers = {cell: as_number(cell) for cell in found}
    if all(value is not None for value in numbers.values()):
        return tuple(sorted(found, key=lambda cell: (numbers[cell], cell)))
    return tuple(sorted(found))
