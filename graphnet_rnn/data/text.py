"""Text files, vocabularies of characters, and splits in the order of time (Lynge 2016, 4.2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from graphnet.node import Array
from graphnet_rnn.errors import DataError
from graphnet_rnn.files import read_bytes

__all__ = ["Corpus", "Vocabulary", "read_text"]


def read_text(path: str | Path, encoding: str = "utf-8") -> str:
    """The file's decoded characters, every line ending as one newline.

    Raises DataError, in one sentence, for a file that is missing, empty, binary or in another encoding.
    """
    file = Path(path)
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
        return cls("".join(sorted(set(text))))

    def __post_init__(self) -> None:
        if list(self.characters) != sorted(set(self.characters)) or not self.characters:
            raise DataError("a vocabulary holds each character once, sorted, and at least one.")

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, text: str, unknown: str | None = None) -> Array:
        """Symbols (int64). DataError names characters that the model has not seen in training.

        unknown: a known character to read in their place.
        """
        points = _code_points(text)
        known = _code_points(self.characters)
        symbols = np.searchsorted(known, points)
        if unknown is not None and (len(unknown) != 1 or unknown not in self.characters):
            raise DataError(f"unknown={unknown!r} must itself be one character that the model knows.")
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
        """The characters of a sequence of symbols."""
        return "".join(self.characters[int(s)] for s in symbols)


def _code_points(text: str) -> Array:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


@dataclass(frozen=True)
class Corpus:
    """Training, validation and test symbols, and the vocabulary that all of them share."""

    train: Array
    valid: Array
    test: Array
    vocabulary: Vocabulary

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {len(getattr(self, name)):,}" for name in ("train", "valid", "test"))
        return f"Corpus({parts} characters, {len(self.vocabulary)} different)"

    @classmethod
    def split(cls, text: str, valid: float = 0.1, test: float = 0.1) -> Corpus:
        """The first part trains, the next validates, the last tests: by default 80, 10 and 10 %."""
        if not (valid >= 0 and test >= 0 and valid + test < 1):
            raise DataError(
                f"the shares of validation ({valid}) and test ({test}) must be >= 0 and sum to less than 1."
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
    except OSError:  # longer than a name can be
        return False
