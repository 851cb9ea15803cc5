"""Choice: the arrays or columns of a file to read, and their roles."""

from __future__ import annotations

from dataclasses import dataclass

from graphnet_rnn.data.columns import names
from graphnet_rnn.data.times import require_times
from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import Count, require_kinds

__all__ = ["Choice"]


@dataclass(frozen=True)
class Choice:
    """The arrays or columns of a file to read as inputs, targets, weights and lengths.

    inputs: names of arrays or columns; by default all columns without another role ("x" of arrays).
    targets: names of arrays or columns.
    weights: name of the array or column of weights; default None, all equal.
    lengths: name of the array of lengths; by default "lengths", if the file has it.
    case: column with the case (sequence) of each row; default None, one case.
    whole: True if each case has one target, in its last row (tables only); default False.
    cases_first: True if arrays are (cases, time, ...), not (time, cases, ...); default False.
    pieces: maximum number of time steps of a segment, see Sequences.pieces; default None, cases are not cut.
    time: column with the time of each row, by which rows are sorted: dates or numbers; default None, rows are in order.
    calendar: features of the time to add to the inputs, of "hour", "weekday", "day" and "month".
    categories: columns of numbers that are categories; columns of texts always are. The column of the case is an input
    only if it is among the categories or inputs.
    horizon: number of following rows to predict; default None, targets are in the same row as inputs. With a horizon,
    targets are always inputs, too.
    date_format: format of dates in texts, as in datetime.strptime; default None, ISO 8601.
    independent: True if rows do not depend on each other: each row is then a case of one time step; default False.

    Names are a tuple or list, or a string in which commas separate them. Raises UsageError.

    >>> choice = rnn.data.Choice(inputs=("temperature", "hour"), targets="demand", case="city")
    >>> choice.targets
    ('demand',)
    """

    inputs: tuple[str, ...] | str = ()
    targets: tuple[str, ...] | str = ()
    weights: str | None = None
    lengths: str | None = None
    case: str | None = None
    whole: bool = False
    cases_first: bool = False
    pieces: Count | None = None
    time: str | None = None
    calendar: tuple[str, ...] | str = ()
    categories: tuple[str, ...] | str = ()
    horizon: Count | None = None
    date_format: str | None = None
    independent: bool = False

    def __post_init__(self) -> None:
        require_kinds(self)
        for what in ("inputs", "targets", "calendar", "categories"):
            object.__setattr__(self, what, names(f"Choice: {what}", getattr(self, what)))
        require_times("Choice", self.calendar, self.time, self.date_format)
        if self.whole and self.horizon is not None:
            raise UsageError(
                "Choice: horizon does not apply to cases with one target (--pool); leave out one of the two"
            )
        for what in ("horizon", "pieces", "whole"):
            if self.independent and getattr(self, what):
                raise UsageError(
                    f"Choice: {what} does not apply to independent rows; leave out one of the two"
                )
