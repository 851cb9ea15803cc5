"""What of a file of sequences is what: as it is chosen, and as a network keeps it."""

from __future__ import annotations

from dataclasses import dataclass

from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import listed, shown, whole_number, yes_or_no

__all__ = ["Choice", "Columns"]


@dataclass(frozen=True)
class Choice:
    """What of a file is what.

    inputs, targets: names of arrays or columns; no inputs: all columns that are nothing else ("x" of arrays). weights:
    the name of the cases' weights. lengths: the array of how many steps each case has ("lengths", if there is one).
    case: the column that says of which case a row is; without it there is one case. whole: of tables, a case has one
    target, that of its last row. cases_first: arrays are (cases, time, ...), not (time, cases, ...). pieces: see
    Sequences.pieces.
    """

    inputs: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    weights: str | None = None
    lengths: str | None = None
    case: str | None = None
    whole: bool = False
    cases_first: bool = False
    pieces: int | None = None

    def __post_init__(self) -> None:
        yes_or_no("Choice: cases_first", self.cases_first)
        yes_or_no("Choice: whole", self.whole)
        if self.pieces is not None:
            object.__setattr__(self, "pieces", whole_number("Choice: pieces", self.pieces))


@dataclass(frozen=True)
class Columns:
    """The columns of a table that a network reads, and those that it predicts, by name and in their order.

    `rnn.save` keeps them, so that of another table the same are read, wherever they stand there. Raises UsageError.
    """

    inputs: tuple[str, ...]
    targets: tuple[str, ...]

    def __post_init__(self) -> None:
        for what in ("inputs", "targets"):
            names = tuple(listed(f"Columns: {what}", getattr(self, what), "names"))
            if not names or not all(isinstance(n, str) for n in names) or len(set(names)) < len(names):
                raise UsageError(f"Columns: {what} must be different names, not {shown(list(names))}")
            object.__setattr__(self, what, names)
