"""Text files, vocabularies of characters, and splits in the order of time (Lynge 2016, 4.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from graphnet.graph.dtypes import require_unmasked
from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError
from graphnet_rnn.files.whole import read_bytes
from graphnet_rnn.settings import is_number, shown
from graphnet_rnn.settings import path as named_file

__all__ = ["Corpus", "Vocabulary", "read_text", "symbol_row"]


def symbol_row(what: str, symbols: Any, count: int | None = None) -> Array:
    """The symbols as an array; DataError for what is no row of whole numbers, or not in 0 ... count - 1."""
    require_unmasked(what, symbols)
    try:
        row = np.asarray(symbols if isinstance(symbols, (np.ndarray, Sequence)) else list(symbols))
    except (TypeError, ValueError):
        raise DataError(f"{what} must be a row of symbols, whole numbers, not {shown(symbols)}") from None
    if row.ndim != 1 or (row.size and row.dtype.kind not in "iu"):
        raise DataError(
            f"{what} must be a row of symbols, whole numbers, not {shown(symbols)} ({row.dtype} of shape "
            f"{list(row.shape)})"
        )
    if row.size and (row.min() < 0 or (count is not None and row.max() >= count)):
        wrong = int(row.min() if row.min() < 0 else row.max())
        last = "" if count is None else f" ... {count - 1}"
        raise DataError(f"{what}: the symbol {wrong} is out of range: symbols are 0{last or ' and more'}.")
    return row


def read_text(path: str | Path, encoding: str = "utf-8") -> str:
    """The file's decoded characters, every line ending as one newline.

    Raises DataError, in one sentence, for a file that is missing, empty, binary or in another encoding.
    """
    file = named_file("read_text: path", path)
    raw = read_bytes(file, DataError)
    if not raw:
        raise DataError(f"{file} is empty.")
    if b"\0" in raw and not encoding.lower().startswith(("utf-16", "utf-32")):
        raise DataError(f"{file} is a binary file (byte 0 at offset {raw.index(0)}), not a text.")
    try:
        text = raw.decode(encoding)
    except LookupError:
        raise DataError(f"{encoding!r} is not an encoding that Python knows.") from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file} is not {encoding} text (byte 0x{raw[error.start]:02x} at offset {error.start}); name its "
            "encoding, e.g. --encoding latin-1."
        ) from None
    except UnicodeError as error:
        raise DataError(f"{file} is not {encoding} text: {error}.") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


@dataclass(frozen=True)
class Vocabulary:
    """The characters that a model knows, each once, sorted; a symbol is a position in them."""

    characters: str

    @classmethod
    def of(cls, text: str) -> Vocabulary:
        """All characters of a text."""
        _require_text("Vocabulary.of: text", text)
        return cls("".join(sorted(set(text))))

    def __post_init__(self) -> None:
        if not isinstance(self.characters, str):
            raise DataError(
                f"a vocabulary holds characters, a str, not {shown(self.characters)}; Vocabulary.of(text) makes that "
                "of a text."
            )
        halves = [c for c in self.characters if "\ud800" <= c <= "\udfff"]
        if halves:
            raise DataError(
                f"a vocabulary holds characters, of which {halves[0]!r} is only half of one (a surrogate), which no "
                "file can hold; read the text in its right encoding."
            )
        if list(self.characters) != sorted(set(self.characters)) or not self.characters:
            raise DataError("a vocabulary holds each character once, sorted, and at least one.")

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, text: str, unknown: str | None = None) -> Array:
        """Symbols (int64). DataError names characters that the model has not seen in training.

        unknown: a known character to read in their place.
        """
        _require_text("encode: text", text)
        points = _code_points(text)
        known = _code_points(self.characters)
        symbols = np.searchsorted(known, points)
        if unknown is not None and (
            not isinstance(unknown, str) or len(unknown) != 1 or unknown not in self.characters
        ):
            raise DataError(f"unknown={unknown!r:.40} must itself be one character that the model knows.")
        unseen = known[np.minimum(symbols, len(known) - 1)] != points
        if unseen.any():
            if unknown is None:
                listed = sorted({chr(int(p)) for p in points[unseen]})
                shown = " ".join(map(repr, listed[:8])) + (" ..." if len(listed) > 8 else "")
                raise DataError(
                    f"the text holds {len(listed)} character(s) that the model has not seen in training: {shown}. "
                    "Remove them, or name a known character to read in their place (--unknown '?')."
                )
            symbols[unseen] = self.characters.index(unknown)
        return symbols.astype(np.int64)

    def decode(self, symbols: Iterable[int]) -> str:
        """The characters of a sequence of symbols. DataError for what is no symbol of this vocabulary."""
        row = symbol_row("decode: symbols", symbols, len(self))
        return "".join([self.characters[s] for s in row.tolist()])


def _require_text(what: str, text: Any) -> None:
    if not isinstance(text, str):
        raise DataError(f"{what} must be a str, not {shown(text)}.")


def _code_points(text: str) -> Array:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


@dataclass(frozen=True)
class Corpus:
    """Training, validation and test symbols, and the vocabulary that all of them share."""

    train: Array
    valid: Array
    test: Array
    vocabulary: Vocabulary

    def __post_init__(self) -> None:
        if not isinstance(self.vocabulary, Vocabulary):
            raise DataError(
                f"Corpus: vocabulary must be a Vocabulary, not {shown(self.vocabulary)}; Corpus.split(text) and "
                "Corpus.given(train, valid) make all of it."
            )
        for name in ("train", "valid", "test"):
            object.__setattr__(
                self, name, symbol_row(f"Corpus: {name}", getattr(self, name), len(self.vocabulary))
            )

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {len(getattr(self, name)):,}" for name in ("train", "valid", "test"))
        return f"Corpus({parts} characters, {len(self.vocabulary)} different)"

    @classmethod
    def split(cls, text: str, valid: float = 0.1, test: float = 0.1) -> Corpus:
        """The first part trains, the next validates, the last tests: by default 80, 10 and 10 %."""
        numbers = is_number(valid) and is_number(test)
        if not (numbers and valid >= 0 and test >= 0 and valid + test < 1):
            raise DataError(
                f"the shares of validation ({shown(valid)}) and test ({shown(test)}) must be >= 0 and sum to less than "
                "1."
            )
        vocabulary = _vocabulary("the text", text)
        symbols = vocabulary.encode(text)
        train_end = round(len(symbols) * (1 - valid - test))
        valid_end = round(len(symbols) * (1 - test))
        return cls(symbols[:train_end], symbols[train_end:valid_end], symbols[valid_end:], vocabulary)

    @classmethod
    def given(cls, train: str, valid: str, test: str = "", unknown: str | None = None) -> Corpus:
        """Texts that are already split; the vocabulary is that of the training text.

        Raises DataError if another holds characters that the training text does not, unless `unknown` is a
        character to read in their place.
        """
        vocabulary = _vocabulary("the training text", train)
        encoded_valid, encoded_test = vocabulary.encode(valid, unknown), vocabulary.encode(test, unknown)
        return cls(vocabulary.encode(train), encoded_valid, encoded_test, vocabulary)


def _vocabulary(what: str, text: str) -> Vocabulary:
    """All characters of a text that a corpus is made of; DataError if it is none, empty, or a file's name."""
    is_path = isinstance(text, Path) or (isinstance(text, str) and text.isprintable() and _is_file(text))
    if is_path:
        raise DataError(
            f"{what} is {str(text)!r}, a file's name; give what it holds: rnn.data.read_text({str(text)!r})."
        )
    if not isinstance(text, str):
        raise DataError(f"{what} must be a str, not {type(text).__name__}.")
    if not text:
        raise DataError(f"{what} is empty.")
    return Vocabulary.of(text)


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # longer than a name can be, or with a NUL in it
        return False
