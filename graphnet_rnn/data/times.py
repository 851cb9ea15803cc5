"""Times of rows: read from a column, continued, written, and turned into features."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.data.frame import Frame
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.settings import shown, text

#: Feature of a date -> its value in periods (hours of a day, days of a week, days and months of a year).
CALENDAR: dict[str, Callable[[Array], Array]] = {
    "hour": lambda t: _part(t, "D", "h") / 24 + _part(t, "h", "s") / 86400,
    "weekday": lambda t: (t.astype("M8[D]").astype(np.int64) + 3) % 7 / 7,
    "day": lambda t: _part(t, "Y", "D") / 365.25,
    "month": lambda t: _part(t, "Y", "M") / 12,
}
_TOO_FINE = ", but times must be whole microseconds; round them"


def _part(times: Array, whole: str, unit: str) -> Array:
    """Number of units since the begin of the whole (hours since midnight: "D", "h")."""
    return (times.astype(f"M8[{unit}]") - times.astype(f"M8[{whole}]").astype(f"M8[{unit}]")).astype(np.int64)


def require_times(
    who: str | Path, calendar: Iterable[str], time: str | None, date_format: str | None
) -> None:
    if date_format is not None and "%" not in text(f"{who}: date_format", date_format):
        raise UsageError(
            f"{who}: date_format must have codes of strptime, e.g. %d.%m.%Y %H:%M, not {shown(date_format)}"
        )
    codes = re.findall("%(.)", date_format or "")
    if "Z" in codes:
        raise UsageError(
            f"{who}: date_format must not have %Z, as names of zones are ambiguous; if all times have one zone, write "
            "its name in the format, such as %H:%M UTC; otherwise write offsets, such as +0100, and %z"
        )
    if "z" in codes and not set(codes) & set("HIcX"):
        raise UsageError(f"{who}: date_format with %z must have the hour (%H), as times are converted to UTC")
    odd = [name for name in calendar if name not in CALENDAR]
    if odd:
        raise UsageError(f"{who}: calendar must be of {', '.join(CALENDAR)}, not {shown(odd[0])}")
    if calendar and time is None:
        raise UsageError(f"{who}: calendar features need the column of the time (--time-column)")


def as_date(cell: str, date_format: str | None = None) -> datetime | None:
    if date_format is None:
        cell = re.sub(r"^(\d{4})/(\d\d)/(\d\d)", r"\1-\2-\3", cell)
    try:
        found = datetime.fromisoformat(cell) if date_format is None else datetime.strptime(cell, date_format)
    except ValueError:
        return None
    return found


def _is_day(cell: str) -> bool:
    """True for 20240131, which could also be a number."""
    return re.fullmatch(r"\d{8}", cell) is not None


def times_of(frame: Frame, name: str, date_format: str | None) -> tuple[Array, bool]:
    """Returns the times of a column (datetime64[us], int64, float64), and True if they have zones. Raises DataError."""
    column, zoned = frame[name], False
    if column.dtype.kind == "M":
        found: Array = column.astype("M8[us]")
        finer = (found != column) & ~np.isnat(column)
        if finer.any():
            raise frame.error(int(finer.argmax()), name, _TOO_FINE)
    elif column.dtype.kind in "iuf":
        found = _numbers_as_times(frame, name, column)
    else:
        cells, numbers = frame.texts(name), frame.numbers(name)
        dates = date_format is not None or all(map(_is_day, cells))
        if not dates and all(value is not None for value in numbers):
            whole = all(re.fullmatch(r"[-+]?\d{1,999}", cell) for cell in cells)
            given = np.array([int(cell) for cell in cells], object) if whole else np.array(numbers)
            found = _numbers_as_times(frame, name, given)
        else:
            read = [as_date(cell, date_format) for cell in cells]
            finer = [
                date is not None and re.search(r"[.,]\d{6}\d*[1-9]", cell) is not None
                for date, cell in zip(read, cells, strict=True)
            ]
            if date_format is None and any(finer):
                raise frame.error(finer.index(True), name, _TOO_FINE)
            odd = next((row for row, value in enumerate(read) if value is None), None)
            some = [cell for cell, value in zip(cells, numbers, strict=True) if value is not None]
            if odd is not None and not dates and 2 * len(some) >= len(cells) and not all(map(_is_day, some)):
                raise frame.error(numbers.index(None), name, ", but must be a number, as in other rows")
            if odd is not None:
                form = (
                    "a time in the form 2024-12-31 or 2024-12-31 18:00"
                    if date_format is None
                    else date_format
                )
                remedy = (
                    "; for others give the date format, e.g. %d.%m.%Y %H:%M (--date-format)"
                    if date_format is None
                    else ""
                )
                raise frame.error(odd, name, f", but must be {form}{remedy}")
            zoned = any(date.tzinfo is not None for date in read if date is not None)
            utc = [
                date.astimezone(UTC).replace(tzinfo=None) if date and date.tzinfo else date for date in read
            ]
            found = np.array(utc, "M8[us]")
    missing = np.isnat(found) if found.dtype.kind == "M" else ~np.isfinite(found)
    if missing.any():
        raise frame.error(int(missing.argmax()), name, ", but each row must have a finite time")
    return found, zoned


def _numbers_as_times(frame: Frame, name: str, column: Array) -> Array:
    """Returns int64, if these are whole numbers that it holds, else float64."""
    if column.dtype.kind in "uO":
        large = [row for row, value in enumerate(column.tolist()) if not -(2**63) <= value < 2**63]
        if large:
            raise frame.error(large[0], name, ", but whole numbers that are times must be less than 2^63")
    return column.astype(np.float64 if column.dtype.kind == "f" else np.int64)


def calendar_of(times: Array, name: str) -> Array:
    """Returns sine and cosine of a feature, (rows, 2). Raises DataError."""
    if times.dtype.kind != "M":
        raise DataError(f"calendar features ({name}) need dates; the times of this table are numbers")
    angle = 2 * np.pi * CALENDAR[name](times)
    return np.stack([np.sin(angle), np.cos(angle)], axis=1)


def step_between(times: Array) -> tuple[str, int | float] | None:
    """Returns (unit, count) of the equal gaps between times in order; None if they differ.

    Units: "us", "M" (the same day of each month, or the last), or "" for numbers.
    """
    gaps = np.diff(times)
    if not len(gaps):
        return None
    if times.dtype.kind != "M":
        equal = np.allclose(gaps, gaps[0], rtol=1e-6) if times.dtype.kind == "f" else (gaps == gaps[0]).all()
        return ("", gaps[0].item()) if equal else None
    for shift in (0, 1):  # days: month ends are the day before first days
        moved = times + np.timedelta64(shift, "D")
        months = moved.astype("M8[M]")
        counts = np.diff(months).astype(np.int64)
        if (moved - months == moved[0] - months[0]).all() and counts[0] and (counts == counts[0]).all():
            return "M", int(counts[0])
    return ("us", int(gaps[0].astype(np.int64))) if (gaps == gaps[0]).all() else None


def times_after(times: Array, count: int, step: tuple[str, int | float]) -> Array:
    """Returns the next times after the last; step: result of step_between. A day that a month lacks is its last one."""
    unit, size = step
    if times.dtype.kind == "i":
        whole = [int(times[-1]) + n * size for n in range(1, count + 1)]
        return np.array(whole, np.int64 if min(whole) >= -(2**63) and max(whole) < 2**63 else object)
    steps = np.arange(1, count + 1) * size
    if unit != "M":
        found: Array = times[-1] + (steps if unit == "" else steps.astype("m8[us]"))
        return found
    months = times.astype("M8[M]")
    shift = np.timedelta64(int((times - months != times[0] - months[0]).any()), "D")
    month = (times[-1:] + shift).astype("M8[M]")
    offset = times[-1] + shift - month
    after = month + steps.astype("m8[M]")
    days = (after + 1).astype("M8[D]") - after.astype("M8[D]")
    surplus = np.maximum(offset.astype("m8[D]") - days + np.timedelta64(1, "D"), np.timedelta64(0, "D"))
    found = after.astype("M8[us]") + offset - surplus - shift
    return found


def written(times: Array, date_format: str | None = None, zoned: bool = False) -> list[str]:
    """Returns times as texts; dates without a time of day if all are midnight. zoned: True marks them as UTC."""
    if times.dtype.kind != "M":
        exact = (int(t) if abs(t) < 2**63 and float(t).is_integer() else t for t in times.tolist())
        return [str(t) if isinstance(t, int) else f"{t:.15g}" for t in exact]
    first, last = np.datetime64("0001-01-01"), np.datetime64("9999-12-31T23:59:59")  # of Python's dates
    if times.min() < first or times.max() > last:
        return [str(time) for time in times]
    dates: list[datetime] = [date.replace(tzinfo=UTC) if zoned else date for date in times.tolist()]
    if date_format is not None:
        return [date.strftime(date_format) for date in dates]
    whole = all((date.hour, date.minute, date.second, date.microsecond) == (0, 0, 0, 0) for date in dates)
    return [date.date().isoformat() if whole and not zoned else date.isoformat(" ") for date in dates]
