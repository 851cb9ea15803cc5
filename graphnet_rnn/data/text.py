"""Vocabularies of characters; texts as symbols, split in the order of time (Lynge 2016, 4.2)."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet.settings import path as named_file
from graphnet.system.memory import require_memory
from graphnet_rnn.data.characters import characters_of, held
from graphnet_rnn.data.symbols import dtype_of, stored, symbol_row
from graphnet_rnn.errors import DataError
from graphnet_rnn.settings import is_number, shown, whole_number

#: Characters encoded at a time.
PIECE = 1 << 20
#: Number of code points.
UNICODE = 0x110000


class _UnseenError(DataError):
    """Characters that a vocabulary lacks."""


@dataclass(frozen=True)
class Vocabulary:
    """The characters of a model, sorted, each once; a symbol is an index into them.

    characters: a str. Raises DataError unless it is sorted and without repetitions.

    >>> vocabulary = rnn.data.Vocabulary.of("hello")
    >>> vocabulary.characters, vocabulary.encode("hole").tolist()
    ('ehlo', [1, 3, 2, 0])
    >>> vocabulary.decode([1, 0, 2, 2, 3])
    'hello'
    >>> [piece.tolist() for piece in vocabulary.encoded(["he", "llo"])]
    [[1, 0], [2, 2, 3]]
    """

    characters: str

    @classmethod
    def of(cls, text: str) -> Vocabulary:
        """Collects all characters of a text.

        text: a str.
        """
        _require_text("Vocabulary.of: text", text)
        return cls("".join(sorted(set(text))))

    def __post_init__(self) -> None:
        if not isinstance(self.characters, str):
            found = shown(self.characters)
            raise DataError(f"Vocabulary: characters must be a str, not {found}; see Vocabulary.of(text).")
        halves = [c for c in self.characters if "\ud800" <= c <= "\udfff"]
        if halves:
            raise DataError(
                f"Vocabulary: characters must not contain half of a surrogate pair, {halves[0]!r}; read the text in "
                "its encoding."
            )
        if list(self.characters) != sorted(set(self.characters)) or not self.characters:
            raise DataError(
                "Vocabulary: characters must be sorted and different, at least one; use Vocabulary.of(text)."
            )

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, text: str, unknown: str | None = None) -> Array:
        """Converts a text to symbols (int64).

        text: a str.
        unknown: a character of the vocabulary to use for characters that it lacks; default None, DataError names them.
        """
        _require_text("encode: text", text)
        require_memory(
            12 * len(text), f"the symbols of a text of {len(text):,} characters", "give a shorter text"
        )
        pieces = (text[start : start + PIECE] for start in range(0, len(text), PIECE))
        return np.concatenate([np.empty(0, np.int64), *self.encoded(pieces, unknown)])

    def encoded(self, pieces: Iterable[str], unknown: str | None = None) -> Iterator[Array]:
        """Converts a text piece by piece.

        pieces: the parts of the text.
        unknown: as in `encode`.
        """
        if unknown is not None and (
            not isinstance(unknown, str) or len(unknown) != 1 or unknown not in self.characters
        ):
            raise DataError(f"unknown must be one character of the vocabulary, not {shown(unknown, 40)}.")
        known = _code_points(self.characters)
        symbol_of = np.full(UNICODE, -1, np.int32)
        symbol_of[known] = np.arange(len(known))
        other = -1 if unknown is None else self.characters.index(unknown)
        unseen: set[int] = set()
        for piece in pieces:
            points = _code_points(piece)
            symbols = symbol_of[points]
            is_unseen = symbols < 0
            if is_unseen.any():
                symbols[is_unseen] = other
                unseen |= set(points[is_unseen].tolist())
            if not unseen or unknown is not None:
                yield symbols
        if unseen and unknown is None:
            listed = [repr(chr(point)) for point in sorted(unseen)[:8]]
            some = f"{' '.join(listed)}{' ...' if len(unseen) > 8 else ''}"
            raise _UnseenError(
                f"the text has {len(unseen)} character(s) that are not in the vocabulary of the model: {some}. "
                "Remove them, or choose a known character that replaces them (--unknown '?')."
            )

    def decode(self, symbols: Iterable[int]) -> str:
        """Converts symbols to characters.

        symbols: whole numbers. Raises DataError for a symbol that is out of range.
        """
        row = symbol_row("decode: symbols", symbols, len(self))
        return "".join([self.characters[s] for s in row.tolist()])


def _require_text(what: str, text: Any) -> None:
    if not isinstance(text, str):
        raise DataError(f"{what} must be a str, not {shown(text)}.")


def _code_points(text: str) -> Array:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


@dataclass(frozen=True, eq=False)
class Corpus:
    """Training, validation and test symbols with their common vocabulary.

    train, valid, test: rows of symbols, 1 byte each, or 2 or 4 if there are more than 256 or 65,536 characters.
    vocabulary: the rnn.data.Vocabulary of all three.

    Make one with `Corpus.split`, `Corpus.given` or `Corpus.read`.

    >>> corpus = rnn.data.Corpus.split("abracadabra " * 100)
    >>> corpus
    Corpus(train 960, valid 120, test 120 characters, 6 different)
    >>> corpus.vocabulary.decode(corpus.train[:11])
    'abracadabra'
    >>> train, valid = corpus.vocabulary.decode(corpus.train), corpus.vocabulary.decode(corpus.valid)
    >>> rnn.data.Corpus.given(train, valid)
    Corpus(train 960, valid 120, test 0 characters, 6 different)
    >>> corpus.fold(0, folds=4, gap=10)
    Corpus(train 800, valid 270, test 120 characters, 6 different)
    >>> from pathlib import Path
    >>> _ = Path("book.txt").write_text(train)
    >>> rnn.data.Corpus.read("book.txt", valid=0.25, test=0)
    Corpus(train 720, valid 240, test 0 characters, 6 different)
    """

    train: Array
    valid: Array
    test: Array
    vocabulary: Vocabulary

    def __post_init__(self) -> None:
        if not isinstance(self.vocabulary, Vocabulary):
            found = shown(self.vocabulary)
            raise DataError(f"Corpus: vocabulary must be a Vocabulary, not {found}; see Corpus.split(text).")
        count = len(self.vocabulary)
        for name in ("train", "valid", "test"):
            row = symbol_row(f"Corpus: {name}", getattr(self, name), count)
            object.__setattr__(self, name, row.astype(dtype_of(count), copy=False))

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {len(getattr(self, name)):,}" for name in ("train", "valid", "test"))
        return f"Corpus({parts} characters, {len(self.vocabulary)} different)"

    @classmethod
    def split(
        cls,
        text: str,
        valid: float = 0.1,
        test: float = 0.1,
        *,
        vocabulary: Vocabulary | None = None,
        unknown: str | None = None,
    ) -> Corpus:
        """Splits a text in order: first the training part, then the validation part, last the test part.

        text: a str.
        valid, test: fractions of the text, 0.1 each by default.
        vocabulary, unknown: see `read`.
        """
        shares = _shares(valid, test)
        if vocabulary is None and unknown is not None:
            raise DataError(
                "Corpus.split: unknown replaces characters that are not in vocabulary; also give vocabulary."
            )
        return cls._split(_Text.of("the text", text), *shares, vocabulary, unknown)

    def fold(self, number: int, folds: int, gap: int = 0) -> Corpus:
        """Splits the training and validation parts anew, for cross-validation.

        number: index of the block to validate on, 0 ... folds - 1.
        folds: number of blocks, of equal length to within a character, in the order of the text.
        gap: characters on each side of the validation block to leave out, since neighbors are correlated; default 0.

        The training text is joined where the block is cut out. The test part does not change.
        """
        folds = whole_number("Corpus.fold: folds", folds, least=2)
        number = whole_number("Corpus.fold: number", number, least=0, most=folds - 1)
        gap = whole_number("Corpus.fold: gap", gap, least=0)
        row = np.concatenate([self.train, self.valid])
        begin, end = len(row) * number // folds, len(row) * (number + 1) // folds
        train = np.concatenate([row[: max(0, begin - gap)], row[end + gap :]])
        if not len(train) or begin == end:
            cut = f"{folds} folds of {len(row):,} characters with a gap of {gap:,}"
            raise DataError(
                f"Corpus.fold: {cut} leave no characters for training or for validation; use a smaller gap or fewer "
                "folds"
            )
        return Corpus(train, row[begin:end], self.test, self.vocabulary)

    @classmethod
    def given(cls, train: str, valid: str, test: str = "", unknown: str | None = None) -> Corpus:
        """Encodes texts that are already split; the vocabulary is that of the training text.

        train, valid, test: the texts.
        unknown: a character of the training text to use for characters that it lacks; default None, DataError names
        them.
        """
        for name, text in (("valid", valid), ("test", test)):
            _require_text(f"Corpus.given: {name}", text)
        return cls._given(
            _Text.of("the training text", train),
            _Text(lambda: iter([valid])),
            _Text(lambda: iter([test])),
            unknown,
        )

    @classmethod
    def read(
        cls,
        train: str | Path,
        valid: str | Path | float = 0.1,
        test: str | Path | float | None = None,
        unknown: str | None = None,
        encoding: str = "utf-8",
        *,
        vocabulary: Vocabulary | None = None,
    ) -> Corpus:
        """Reads text files, piece by piece: they are never in memory as a whole.

        train: the file of the training text.
        valid, test: fractions of the training text, as in `split` (default 0.1 each), or files, as in `given` (then no
        test text by default).
        unknown: a character of the vocabulary to use for characters that it lacks; default None, DataError names them.
        encoding: of the files, default UTF-8.
        vocabulary: that of a trained network; by default the characters of the training text.

        Symbols of more than 64 MB are stored in a temporary file (folder: TMPDIR), which is deleted with the corpus.
        Raises the errors of `read_text`.
        """
        text = _Text.read(named_file("Corpus.read: train", train), encoding)
        if is_number(valid):
            shares = _shares(valid, 0.1 if test is None else test)
            if unknown is not None and vocabulary is None:
                raise DataError(
                    "Corpus.read: unknown replaces characters of the validation and test files; also give valid."
                )
            return cls._split(text, *shares, vocabulary, unknown)
        valid_text = _Text.read(named_file("Corpus.read: valid", valid), encoding)
        test_text = _Text(lambda: iter(()))
        if test is not None:
            test_text = _Text.read(named_file("Corpus.read: test", test), encoding)
        return cls._given(text, valid_text, test_text, unknown, vocabulary)

    @classmethod
    def _split(
        cls, text: _Text, valid: float, test: float, vocabulary: Vocabulary | None, unknown: str | None
    ) -> Corpus:
        vocabulary, symbols = text.read_by(vocabulary, unknown)
        train_end = round(len(symbols) * (1 - valid - test))
        valid_end = round(len(symbols) * (1 - test))
        return cls(symbols[:train_end], symbols[train_end:valid_end], symbols[valid_end:], vocabulary)

    @classmethod
    def _given(
        cls,
        train: _Text,
        valid: _Text,
        test: _Text,
        unknown: str | None,
        vocabulary: Vocabulary | None = None,
    ) -> Corpus:
        vocabulary, train_row = train.read_by(vocabulary, unknown)
        valid_row, test_row = (text.symbols(vocabulary, unknown) for text in (valid, test))
        return cls(train_row, valid_row, test_row, vocabulary)


class _Text:
    """A text that can be read repeatedly, piece by piece."""

    def __init__(self, pieces: Callable[[], Iterator[str]]) -> None:
        self.pieces = pieces

    @classmethod
    def of(cls, what: str, text: str) -> _Text:
        is_path = isinstance(text, Path) or (isinstance(text, str) and text.isprintable() and _is_file(text))
        if is_path:
            raise DataError(
                f"{what} must be a text, but {str(text)!r} is the name of a file; use Corpus.read, or "
                f"rnn.data.read_text({str(text)!r})."
            )
        _require_text(what, text)
        if not text:
            raise DataError(f"{what} is empty.")
        return cls(lambda: (text[start : start + PIECE] for start in range(0, len(text), PIECE)))

    @classmethod
    def read(cls, file: Path, encoding: str) -> _Text:
        if file.is_file():
            return cls(lambda: characters_of(file, encoding))
        # A pipe can be read only once.
        pieces = held(
            file,
            encoding,
            "write it to a file, of which only a part is in memory at a time, and give that file",
        )
        return cls(lambda: iter(pieces))

    def vocabulary(self) -> Vocabulary:
        seen = np.zeros(UNICODE, bool)
        for piece in self.pieces():
            seen[_code_points(piece)] = True
        return Vocabulary("".join(map(chr, np.flatnonzero(seen))))

    def symbols(self, vocabulary: Vocabulary, unknown: str | None = None) -> Array:
        return stored(vocabulary.encoded(self.pieces(), unknown), dtype_of(len(vocabulary)))

    def read_by(self, vocabulary: Vocabulary | None, unknown: str | None) -> tuple[Vocabulary, Array]:
        """Returns the vocabulary (by default its own) and the symbols; DataError if the text has changed."""
        if vocabulary is not None:
            return vocabulary, self.symbols(vocabulary, unknown)
        vocabulary = self.vocabulary()
        try:
            return vocabulary, self.symbols(vocabulary)
        except _UnseenError:
            raise DataError(
                "the training text changed while it was read; read it again when it is complete."
            ) from None


def _shares(valid: Any, test: Any) -> tuple[float, float]:
    if is_number(valid) and is_number(test) and valid >= 0 and test >= 0 and valid + test < 1:
        return valid, test
    raise DataError(
        f"valid and test must be fractions of the text, >= 0, with a sum below 1; got {shown(valid)} and "
        f"{shown(test)}."
    )


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # too long for a file name, or with a NUL
        return False


def standard_library_text(characters: int = 1_000_000) -> str:
    """Returns source code of Python's standard library, a text that is available everywhere

    characters: length of the text; the modules are read in the order of their names.

    Source code, like the Linux kernel of Lynge (2016, 2.2). The text differs a little between Python versions.

    >>> len(rnn.data.standard_library_text(1000))
    1000
    """
    characters = whole_number("standard_library_text: characters", characters)
    folder = Path(sysconfig.get_paths()["stdlib"])
    pieces: list[str] = []
    length = 0
    for file in sorted(folder.glob("*.py")):
        piece = file.read_text(encoding="utf-8", errors="ignore")
        pieces.append(piece)
        length += len(piece)
        if length >= characters:
            break
    if not length:
        raise DataError(
            f"this Python has no library sources in {folder}; name a text: graphnet-rnn train TEXT."
        )
    return "".join(pieces)[:characters]
