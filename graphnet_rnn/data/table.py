"""Tables: sequences whose time steps are the rows of a table, with dates, categories and empty cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet.system.memory import require_memory
from graphnet.system.process import cached_property
from graphnet_rnn.data.columns import (
    Columns,
    Names,
    encoded,
    is_empty,
    labels_of,
    names,
    notes_on_classes,
    numbers_of,
)
from graphnet_rnn.data.frame import frame_of
from graphnet_rnn.data.predicted import predicted
from graphnet_rnn.data.sequences import Sequences
from graphnet_rnn.data.table_roles import fitted, require_same
from graphnet_rnn.data.times import require_times, step_between, times_after, times_of, written
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.settings import fraction, one_of, shown, text, whole_number, yes_or_no


@dataclass(frozen=True, eq=False)
class Forecast:
    """A forecast of one target in one case, with the values before it.

    case: name of the case, "" for a table of one case. target: name of the column.
    times, values: of the rows of the case, (rows,); times are dates, numbers, or row numbers from 1; NaN is empty.
    after, predicted: times and forecasts of the rows after the end, (horizon,); times that do not follow from the
    others are row numbers.
    earlier: forecasts that were made `horizon` rows before the end, for the last rows, (horizon,).
    time: name of the column of the times, "" for row numbers.

    >>> rows = {"sold": [3.0, 5.0, 4.0, 6.0, 5.0, 7.0]}
    >>> table = rnn.data.Table(rows, targets="sold", horizon=2)
    >>> (forecast,) = table.forecasts(np.full((6, 1, 2), 5.5), "squared")
    >>> forecast.target, forecast.after.tolist(), forecast.predicted.tolist()
    ('sold', [7, 8], [5.5, 5.5])
    """

    case: str
    target: str
    times: Array
    values: Array
    after: Array
    predicted: Array
    earlier: Array
    time: str = ""


class Table:
    """Sequences from a table, with the times and cases of its rows.

    source: path of a .csv or .parquet file, a DataFrame of pandas or polars, or a mapping from names to columns.
    columns: Columns of a trained network (net.columns), to encode new data in the same way; default None, determined
    from this table and the following arguments. With them, case, time and date_format replace those of the model,
    weights, whole and pieces are as always, and the other arguments must be as the model has them; inputs may leave out
    columns of categories, which are read all the same.

    inputs: names of the input columns; by default all columns without another role.
    targets: names of the target columns; without any, the table serves only for predictions.
    categories: columns of numbers that are categories; columns of texts always are. The column of the case is an input
    only if it is among the categories or inputs.
    horizon: number of following rows to predict; default None, targets are in the same row as inputs. With a horizon,
    targets are always inputs, too.
    case: column with the case (sequence) of each row; default None, one case.
    time: column with the time of each row, by which rows are sorted: dates or numbers; default None, rows are in order.
    calendar: features of the time to add to the inputs, of "hour", "weekday", "day" and "month".
    date_format: format of dates in texts, as in datetime.strptime; default None, ISO 8601.
    independent: True if rows do not depend on each other: each row is then a case of one time step; default False.
    weights: name of the column of weights; default None, all equal.
    whole: True if each case has one target, in its last row; default False.
    pieces: maximum number of time steps of a segment, see Sequences.pieces; default None, cases are not cut.

    Names are a tuple or list, or a string in which commas separate them.

    Columns of texts are categories, one-hot encoded. Empty cells of input columns are replaced by the mean of the
    column, and marked by an additional input. Targets in empty cells have weight 0. Attributes: `columns` (Columns, set
    it as `net.columns`), `inputs` (time, cases, inputs), `lengths` (None if all are equal), and `notes`, sentences
    about irregular data. Raises DataError, UsageError.

    >>> rows = {"day": ["2024-05-01", "2024-05-02", "2024-05-03"], "sky": ["sun", "rain", "sun"], "sold": [9, 4, 7]}
    >>> table = rnn.data.Table(rows, targets="sold", time="day", horizon=1)
    >>> table.columns.input_names()
    ['sky = rain', 'sky = sun', 'sold']
    >>> table.sequences.targets.ravel().tolist(), table.sequences.weights.ravel().tolist()
    ([4.0, 7.0, 0.0], [1.0, 1.0, 0.0])
    >>> table.predictions(np.full((3, 1, 1), 6.5), "squared")
    {'day': ['2024-05-04'], 'step': [1], 'predicted_sold': [6.5]}
    """

    def __init__(
        self,
        source: Any,
        columns: Columns | None = None,
        *,
        inputs: Names = (),
        targets: Names = (),
        categories: Names = (),
        horizon: int | None = None,
        case: str | None = None,
        time: str | None = None,
        calendar: Names = (),
        date_format: str | None = None,
        independent: bool = False,
        weights: str | None = None,
        whole: bool = False,
        pieces: int | None = None,
    ) -> None:
        self._frame = frame = frame_of(source)
        self.where = frame.where
        self._weighted = None if weights is None else text("Table: weights", weights)
        self._whole = yes_or_no("Table: whole", whole)
        self._pieces = None if pieces is None else whole_number("Table: pieces", pieces)
        described: dict[str, Any] = {
            "inputs": names("Table: inputs", inputs),
            "targets": names("Table: targets", targets),
            "categories": names("Table: categories", categories),
            "calendar": names("Table: calendar", calendar),
            "horizon": None if horizon is None else whole_number("Table: horizon", horizon),
            "independent": yes_or_no("Table: independent", independent),
        }
        of_rows: dict[str, Any] = {"case": case, "time": time, "date_format": date_format}
        if not isinstance(columns, Columns | None):
            raise UsageError(f"Table: columns must be those of a model, net.columns, not {shown(columns)}")
        known = None if columns is None else columns.time
        require_times(self.where, described["calendar"], time or known, date_format)
        if columns is None:
            self.columns = fitted(frame, weights=self._weighted, **described, **of_rows)
        else:
            require_same(self.where, described, columns)
            self.columns = replace(
                columns, **{what: given for what, given in of_rows.items() if given is not None}
            )
        self._require_one_unit()
        if date_format is not None and self.columns.time is None:
            raise UsageError(
                f"{self.where}: date_format needs a column of times (--time-column); leave it out"
            )
        self._times: Array | None = None
        self._zoned, zones, time = False, [], self.columns.time
        if time is not None:
            self._times, self._zoned = times_of(frame, time, self.columns.date_format)
            zones = [f"times of the column {shown(time)} are read as UTC"] * self._zoned
        width = len(self.columns.input_names())
        require_memory(12 * len(frame) * width, f"the inputs of {frame.where}", "choose fewer columns")
        x, notes = encoded(self.columns, frame, self._times)
        self.notes = [*zones, *notes, *notes_on_classes(self.columns, frame)]
        self._x = x
        self._groups = self._rows_of_cases()
        one = self.columns.case is None and time is None and not (self._whole or self.columns.independent)
        if one and len(frame) > 2:
            self.notes.append(
                "all rows are one series, in the order of the file (see also --independent-rows)"
            )
        self._index, self.lengths, _ = self._segments(self._groups)
        self.inputs: Array = x[self._index]

    def _require_one_unit(self) -> None:
        """Raises UsageError unless a case is one row, one target, segments, or a series to forecast."""
        units = {
            "independent rows": self.columns.independent,
            "cases with one target (whole, --pool)": self._whole,
            "segments (pieces)": self._pieces is not None,
        }
        chosen = [what for what, is_chosen in units.items() if is_chosen]
        if len(chosen) > 1:
            raise UsageError(f"{self.where}: {chosen[0]} cannot be {chosen[1]}; leave out one of the two")
        if self._whole and self.columns.horizon is not None:
            raise UsageError(
                f"{self.where}: horizon does not apply to cases with one target (whole, --pool); leave out one of the "
                "two"
            )

    # -- rows and cases ----------------------------------------------------------------------------

    def _rows_of_cases(self) -> list[Array]:
        """Returns the rows of each case in the order of time."""
        frame, times, time, case = self._frame, self._times, self.columns.time, self.columns.case
        if self.columns.independent:
            return list(np.arange(len(frame))[:, None])
        if case is None:
            groups = [np.arange(len(frame))]
        else:
            names_of_cases = frame.texts(case)
            without = [row for row, name in enumerate(names_of_cases) if is_empty(name)]
            if without:
                remedy = ", an empty cell, but must name the case of each row; fill it in, or delete the row"
                raise frame.error(without[0], case, remedy)
            _, first, number = np.unique(names_of_cases, return_index=True, return_inverse=True)
            groups = np.split(np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))[:-1])
            groups = [groups[i] for i in np.argsort(first)]
        if times is None or time is None:
            return groups
        found = [rows[np.argsort(times[rows], kind="stable")] for rows in groups]
        if any((a != b).any() for a, b in zip(found, groups, strict=True)):
            self.notes.append(f"rows are sorted by the column {shown(time)}")
        self._check_gaps(found, times, time)
        return found

    def _check_gaps(self, groups: list[Array], times: Array, time: str) -> None:
        """Raises DataError for equal times in a case; adds a note if gaps differ."""
        for rows in groups:
            same = np.flatnonzero(times[rows][1:] == times[rows][:-1])
            if len(same):
                one, other = sorted(rows[same[0] : same[0] + 2] + 1)
                remedy = (
                    "; name the column of the cases (--case), or add --independent-rows if rows do not depend on each "
                    "other"
                    if self.columns.case is None
                    else " and the same case"
                )
                raise DataError(
                    f"{self.where}: rows {one} and {other} have the same time in the column {shown(time)}{remedy}"
                )
        if any(len(rows) > 2 and step_between(times[rows]) is None for rows in groups):
            gaps = np.concatenate([np.diff(times[rows]) for rows in groups])
            row = np.concatenate([rows[1:] for rows in groups])[gaps.argmax()] + 1
            self.notes.append(
                f"gaps in the column {shown(time)} differ, from {_span(gaps.min())} to {_span(gaps.max())} (before row "
                f"{row}); each row counts as one time step"
            )

    def _segments(self, groups: list[Array]) -> tuple[Array, Array | None, Array | None]:
        """Returns the rows of each segment (time, segments), padded with its first row; the lengths, if they differ;
        and the case that each belongs to.
        """
        time, series = self._pieces, None
        if self.columns.independent:
            return np.concatenate(groups)[None], None, None
        if time is not None:
            counts = [-(-len(rows) // time) for rows in groups]  # the last piece of a case may be shorter
            pairs = zip(groups, counts, strict=True)
            series = np.repeat(np.arange(len(groups)), counts)
            groups = [rows[i * time : (i + 1) * time] for rows, n in pairs for i in range(n)]
        lengths = np.array([len(rows) for rows in groups])
        require_memory(
            int(lengths.max()) * len(groups) * (8 + 4 * self._x.shape[1]),
            f"padding {len(groups):,} cases of {self.where} to {lengths.max():,} rows",
            "leave out the longest cases, or cut them into pieces (--pieces)",
        )
        index = np.zeros((lengths.max(), len(groups)), np.int64)
        for n, rows in enumerate(groups):
            index[:, n] = rows[0]
            index[: len(rows), n] = rows
        return index, None if (lengths == len(index)).all() else lengths, series

    # -- targets -----------------------------------------------------------------------------------

    @cached_property
    def sequences(self) -> Sequences:
        """Inputs, targets and weights, as rnn.Arrays takes them."""
        return self._sequences(self._groups)

    def split(self, valid: float = 0.1) -> tuple[Sequences, Sequences]:
        """Splits each case in the order of time: the last rows are for validation. Returns both Sequences

        valid: fraction of the rows of each case, default 0.1. No target of the training part is in a row of the
        validation part, whatever the horizon. Independent rows are divided at random. Raises UsageError if a part
        would be empty, DataError if no training row has a value of a target.

        >>> table = rnn.data.Table({"sold": np.arange(20.0)}, targets="sold", horizon=1)
        >>> train, valid = table.split(0.2)
        >>> train.inputs.max().item(), valid.inputs.ravel().tolist()
        (15.0, [16.0, 17.0, 18.0, 19.0])
        """
        share = fraction("Table.split: valid", valid)
        if self.columns.independent and 0 < (held := round(share * len(self._groups))) < len(self._groups):
            order = np.random.default_rng(0).permutation(len(self._groups))[:, None]
            return self._sequences(list(order[held:]), "training"), self._sequences(
                list(order[:held]), "validation"
            )
        least = 1 if self.columns.horizon is None else 2  # the last row has no target
        kept = [n if (n := round(share * len(rows))) >= least else 0 for rows in self._groups]
        pairs = [
            (rows[: len(rows) - n], rows[len(rows) - n :]) for rows, n in zip(self._groups, kept, strict=True)
        ]
        both = [[rows for rows in part if len(rows) >= least] for part in zip(*pairs, strict=True)]
        if not all(both) or self._whole:
            raise UsageError(f"{self.where}: valid = {share:g} of the rows of each case leaves an empty part")
        train, validation = both
        return self._sequences(train, "training"), self._sequences(validation, "validation")

    def _sequences(self, groups: list[Array], part: str = "") -> Sequences:
        """groups: rows of each case; targets of other rows are missing. part: "training", whose targets must all have a
        value, or "validation"; "" for the whole table.
        """
        index, lengths, series = self._segments(groups)
        longest = max(map(len, groups))
        if part == "training" and (self.columns.horizon or 0) >= longest:
            raise _unknown(self.where, f"{self.columns.targets[0]} +{longest}")
        t, w = self._ahead(self._targets(), groups), self._weights()
        there = t >= 0 if t.dtype.kind == "i" else ~np.isnan(t)
        if part == "training" and there.ndim == 2:
            found = there[np.concatenate(groups)].any(axis=0)
            for name, known in zip(self.columns.output_names(), found, strict=True):
                if not known:
                    raise _unknown(self.where, name)
        t = np.where(there, t, 0)
        if w is None:
            w = there * 1.0
        else:  # of the row that is predicted
            w = np.nan_to_num(self._ahead(w[:, None], groups))
            w = there * (w[:, 0] if t.ndim == 1 else np.repeat(w, t.shape[1] // w.shape[1], axis=1))
        if w.ndim == 2 and (w == w[:, :1]).all():
            w = w[:, 0]
        if self._whole:
            last = index[_ends(index, lengths), np.arange(index.shape[1])]
            t, w = t[last], w[last]
        else:
            t, w = t[index], w[index]
            if w.ndim == 2 and (w == w[0]).all():
                w = w[0]
        if not w.any():
            part = "last" if self._whole else part
            raise DataError(
                f"{self.where}: the {part} rows have no target with a weight above 0; fill in targets, or leave out "
                "the rows without them"
                if part
                else f"{self.where}: all targets are empty, or have weight 0"
            )
        return Sequences(self._x[index], t, lengths, None if (w == 1).all() else w, not self._whole, series)

    def _targets(self) -> Array:
        """Returns the targets of each row: class indices (rows,), -1 if empty, or numbers (rows, targets)."""
        columns, frame = self.columns, self._frame
        if not columns.targets:
            raise UsageError(f"{self.where}: name the target columns; the columns are {frame.names()}")
        if columns.classes is not None:
            return labels_of(columns, frame)
        return np.stack([numbers_of(frame, name) for name in columns.targets], axis=1)

    def _ahead(self, t: Array, groups: list[Array]) -> Array:
        """Returns the targets of the following rows of each row; NaN or -1 after the end of a case."""
        horizon = self.columns.horizon
        if horizon is None:
            return t
        what = f"the targets of {horizon:,} following rows, for {len(t):,} rows"
        require_memory(2 * horizon * t.nbytes, what, "use a smaller horizon (--horizon)")
        parts = [_later(t, groups, step) for step in range(1, horizon + 1)]
        return parts[0] if t.ndim == 1 else np.concatenate(parts, axis=1)

    def naive(self, season: int = 1) -> Array:
        """ŷ_{t+h} = y_{t+h-km}, k = ⌈h/m⌉: the naive forecast of each target, (time, cases, outputs); NaN without one

        season: m, in rows; default 1, the last value. Needs a horizon. Source: Hyndman & Athanasopoulos 2021, 5.2.

        >>> table = rnn.data.Table({"sold": [3.0, 5.0, 4.0]}, targets="sold", horizon=1)
        >>> table.naive().ravel().tolist()
        [3.0, 5.0, 4.0]
        """
        season, y = whole_number("Table: season", season), self._targets()
        if self.columns.horizon is None or y.ndim == 1:
            raise UsageError("Table: naive forecasts need a horizon, and targets that are numbers")
        steps = range(1, self.columns.horizon + 1)
        parts = [_later(y, self._groups, step - season * -(-step // season)) for step in steps]
        return np.concatenate(parts, axis=1)[self._index]

    def naive_error(self, season: int = 1) -> Array:
        """mean of |y_t - y_{t-m}|: the scale of the mean absolute scaled error (MASE), (outputs,)

        season: m, in rows; default 1. Source: Hyndman & Koehler 2006.

        >>> table = rnn.data.Table({"sold": [3.0, 5.0, 4.0]}, targets="sold", horizon=1)
        >>> table.naive_error().tolist()
        [1.5]
        """
        season, y = whole_number("Table: season", season), self._targets()
        if y.ndim == 1:
            raise UsageError("Table: naive_error needs targets that are numbers, not classes")
        gaps = [np.abs(y[rows[season:]] - y[rows[:-season]]) for rows in self._groups]
        each = np.concatenate(gaps)
        if not (~np.isnan(each)).any(axis=0).all():
            raise DataError(f"{self.where}: no two values are {season} rows apart; use a smaller season")
        return np.tile(np.nanmean(each, axis=0), self.columns.horizon or 1)

    def _weights(self) -> Array | None:
        name, frame = self._weighted, self._frame
        if name is None:
            return None
        w = numbers_of(frame, name)
        if np.isnan(w).any():
            raise frame.error(int(np.isnan(w).argmax()), name, "; each row must have a weight")
        for n, rows in enumerate(self._groups):
            if self._whole and (w[rows] != w[rows[0]]).any():
                raise DataError(
                    f"{frame.where}: the rows of case {n + 1} have different weights; with one target for each case, "
                    "they must be equal"
                )
        return w

    # -- predictions -------------------------------------------------------------------------------

    def predictions(self, outputs: Any, loss: str) -> dict[str, list[Any]]:
        """Returns the predictions as columns, with the cases and times of the table.

        outputs: of the network, rnn.run(net, table.inputs, lengths=table.lengths)[0].
        loss: of the network, net.loss.

        A row for each row of the table, in the same order; for each case, if the outputs are of whole cases. With a
        horizon: for each case, the rows after its end. Columns: case and time as in the table (dates as texts), and
        `predicted_TARGET`. Times after a case whose gaps differ are None; without any known time, there is no such
        column.
        For classes, this is the most probable one, and `probability_CLASS` follows for each class. pandas.DataFrame
        accepts the result.
        """
        columns, numbers = self.columns, ("squared", "sigmoid")  # also of two classes, such as true and false
        one_of("Table.predictions: loss", loss, numbers if columns.classes is None else (*numbers, "softmax"))
        o = self._checked_outputs("Table.predictions", outputs, columns.outputs(loss))
        if self.columns.horizon is not None:
            return self._following(o, loss)
        by_case = o.ndim == 2
        if by_case:
            rows, values = np.array([group[0] for group in self._groups]), o
        else:
            rows, values = np.arange(len(self._frame)), np.empty((len(self._frame), o.shape[-1]), o.dtype)
            for n, end in enumerate(_ends(self._index, self.lengths)):
                values[self._index[: end + 1, n]] = o[: end + 1, n]
        found: dict[str, list[Any]] = {}
        if self.columns.case is not None:
            found[self.columns.case] = self._cells(self.columns.case, rows)
        time = self.columns.time
        if time is not None and not by_case:
            found[time] = self._cells(time, rows)
        if not found or (self.columns.independent and "row" not in found):
            found["case" if by_case else "row"] = list(range(1, len(rows) + 1))
        return self._joined(found, values, loss)

    def _checked_outputs(self, who: str, outputs: Any, width: int) -> Array:
        o, steps, whole = np.asarray(outputs), (*self._index.shape, width), (len(self._groups), width)
        for_cases = self.columns.horizon is None
        if o.dtype.kind not in "iuf" or not (o.shape == steps or (for_cases and o.shape == whole)):
            shapes = f"{list(steps)}, or {list(whole)} for whole cases" if for_cases else str(list(steps))
            given = list(o.shape) if o.dtype.kind in "iuf" else shown(outputs)
            raise UsageError(f"{who}: outputs must be those of rnn.run, of shape {shapes}, not {given}")
        return o

    def _cells(self, name: str, rows: Array) -> list[Any]:
        column = self._frame[name][rows]
        return written(column.astype("M8[us]")) if column.dtype.kind == "M" else column.tolist()

    def _following(self, o: Array, loss: str) -> dict[str, list[Any]]:
        """Forecasts of each case, from its last row."""
        assert self.columns.horizon is not None
        horizon, columns = self.columns.horizon, self.columns
        values = np.stack([self._outputs_at(o, rows[-1]) for rows in self._groups])
        found: dict[str, list[Any]] = {}
        if self.columns.case is not None:
            first = np.repeat([rows[0] for rows in self._groups], horizon)
            found[self.columns.case] = self._cells(self.columns.case, first)
        if self._times is not None and (time := columns.time) is not None:
            after = self._times_after(horizon)
            known = [times for times in after if times is not None]
            if known:
                texts = written(np.concatenate(known), columns.date_format, self._zoned)
                kind = self._frame[time].dtype.kind  # an array of numbers in the table: numbers here, too
                cells = iter(map(int if kind in "iu" else float, texts) if kind in "iuf" else texts)
                found[time] = [
                    next(cells) if times is not None else None for times in after for _ in range(horizon)
                ]
        found["step" if "step" not in found else "step_ahead"] = list(range(1, horizon + 1)) * len(
            self._groups
        )
        return self._joined(found, values.reshape(len(values) * horizon, -1), loss)

    def _times_after(self, horizon: int) -> list[Array | None]:
        """Returns the next times of each case; of one with too few rows by the gap of the others, if that is equal.

        None for a case without equal gaps, or of one row if the gaps of the others differ.
        """
        assert self._times is not None
        own = [self._times[rows] for rows in self._groups]
        steps = [step_between(times) for times in own]
        others = {step for step in steps if step is not None}
        if len(others) == 1:
            (one,) = others
            steps = [one if len(times) == 1 else step for step, times in zip(steps, own, strict=True)]
        return [
            None if step is None else times_after(times, horizon, step)
            for times, step in zip(own, steps, strict=True)
        ]

    def _outputs_at(self, o: Array, row: int) -> Array:
        """Returns the outputs of a row of the table."""
        n = int(np.flatnonzero((self._index == row).any(axis=0))[-1])
        found: Array = o[np.flatnonzero(self._index[:, n] == row)[0], n]
        return found

    def forecasts(self, outputs: Any, loss: str) -> list[Forecast]:
        """Returns a forecast of each target in each case, for viz.forecast; needs a horizon.

        outputs: of the network, rnn.run(net, table.inputs, lengths=table.lengths)[0].
        loss: of the network, net.loss; with "sigmoid", forecasts are probabilities.
        Raises UsageError for others.

        >>> table = rnn.data.Table({"sold": [3.0, 5.0, 4.0]}, targets="sold", horizon=1)
        >>> table.forecasts(np.full((3, 1, 1), 5.5), "squared")[0].predicted.tolist()
        [5.5]
        """
        horizon = self.columns.horizon
        if horizon is None or self.columns.classes is not None:
            raise UsageError("Table: forecasts need a horizon, and targets that are numbers")
        one_of("Table.forecasts: loss", loss, ("squared", "sigmoid"))
        o = self._checked_outputs("Table.forecasts", outputs, self.columns.outputs(loss))
        (o,) = predicted(o, loss).values()
        y, found = self._targets(), []
        for rows in self._groups:
            now = self._outputs_at(o, rows[-1]).reshape(horizon, -1)
            before = np.full_like(now, np.nan)
            if len(rows) > horizon:
                before = self._outputs_at(o, rows[-1 - horizon]).reshape(horizon, -1)
            times = np.arange(1, len(rows) + 1) if self._times is None else self._times[rows]
            step = step_between(times)
            if step is None:
                times, after = np.arange(1, len(rows) + 1), np.arange(1, horizon + 1) + len(rows)
            else:
                after = times_after(times, horizon, step)
            time = "" if step is None else self.columns.time or ""
            case = "" if self.columns.case is None else self._frame.texts(self.columns.case)[rows[0]]
            found += [
                Forecast(case, name, times, y[rows, k], after, now[:, k], before[:, k], time)
                for k, name in enumerate(self.columns.targets)
            ]
        return found

    def _joined(self, found: dict[str, list[Any]], values: Array, loss: str) -> dict[str, list[Any]]:
        named = self._named(values, loss)
        both = found.keys() & named.keys()
        if both:
            raise UsageError(
                f"{self.where}: predictions have the column {shown(sorted(both)[0])}, which the table uses for cases "
                "or times; rename it in the table"
            )
        return found | named

    def _named(self, values: Array, loss: str) -> dict[str, list[Any]]:
        """values: outputs of rows, (rows, outputs)."""
        targets, classes = (
            self.columns.targets or tuple(map(str, range(values.shape[1]))),
            self.columns.classes,
        )
        found = predicted(values, loss)
        shares = found.get("probability", values)
        if "label" in found:
            known = classes or tuple(map(str, range(values.shape[1])))
            best: list[str | None] = [known[i] for i in found["label"]]
            for i in np.flatnonzero(np.isnan(values).any(axis=1)):
                best[i] = None
            each = {f"probability_{name}": _short(shares[:, i]) for i, name in enumerate(known)}
            return {f"predicted_{targets[0]}": best, **each}
        return {f"predicted_{name}": _short(shares[:, i]) for i, name in enumerate(targets)}


def _unknown(where: str | Path, name: str) -> DataError:
    return DataError(
        f"{where}: no training row has a value of {name}, so it cannot be learned; leave it out, or take a smaller "
        "horizon or more rows"
    )


def _ends(index: Array, lengths: Array | None) -> Array:
    """Returns the last time step of each segment."""
    return (np.full(index.shape[1], len(index)) if lengths is None else lengths) - 1


def _later(values: Array, groups: list[Array], steps: int) -> Array:
    """Returns the value `steps` rows later in the same case, or earlier if negative; NaN or -1 where there is none."""
    found = np.full_like(values, -1 if values.dtype.kind == "i" else np.nan)
    for rows in groups:
        if steps > 0:
            found[rows[:-steps]] = values[rows[steps:]]
        else:
            found[rows[-steps:]] = values[rows[: max(0, len(rows) + steps)]]
    return found


def _short(values: Array) -> list[float]:
    """Plain numbers with the digits of their type."""
    return [float(str(value)) for value in values]


def _span(gap: Any) -> str:
    if isinstance(gap, np.timedelta64):
        return str(gap.astype("m8[us]").item())
    return f"{gap:g}"
