"""Text files, decoded piece by piece, so that little of a long text is in memory."""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Iterator
from pathlib import Path

from graphnet.settings import path as named_file, shown
from graphnet.system.files import kind_of, opened
from graphnet.system.memory import require_memory
from graphnet_rnn.errors import DataError
from graphnet_rnn.files.whole import reading

#: Bytes decoded at a time.
PIECE = 1 << 20


def read_text(path: str | Path, encoding: str = "utf-8") -> str:
    """Reads a text file as a str; every line ends in one newline character.

    path: the file.
    encoding: its character encoding, default UTF-8; a byte order mark is dropped.
    Raises DataError for a file that is missing, empty, binary or in another encoding, and NotEnoughMemoryError for a
    file that is too large.

    >>> with open("poem.txt", "w") as file:
    ...     _ = file.write("roses are red")
    >>> rnn.data.read_text("poem.txt")
    'roses are red'
    """
    return "".join(held(named_file("read_text: path", path), encoding, "name a shorter text"))


def held(file: Path, encoding: str, remedy: str) -> list[str]:
    """Reads all pieces into memory; NotEnoughMemoryError as soon as twice the size read so far would not fit.

    Checked while reading, since the length of a pipe is unknown.
    """
    pieces, size, count = [], 0, 0
    for piece in characters_of(file, encoding):
        pieces.append(piece)
        size, count = size + sys.getsizeof(piece), count + len(piece)
        require_memory(
            size, f"the text {file} is too large: its first {count:,} characters and the rest", remedy
        )
    return pieces


def characters_of(file: Path, encoding: str) -> Iterator[str]:
    """Yields the text piece by piece; raises DataError where decoding fails."""
    try:
        "a".encode(encoding)  # raises for codecs that are not text encodings
        decoder = codecs.getincrementaldecoder(encoding)()
    except LookupError:
        raise DataError(
            f"encoding must be one that Python has, e.g. 'utf-8' or 'latin-1', not {encoding!r}."
        ) from None
    except UnicodeError as error:
        raise DataError(f"{file} is not {encoding} text: {error}.") from None
    except (ValueError, TypeError):
        raise DataError(
            f"encoding must be the name of an encoding, e.g. 'utf-8', not {shown(encoding)}."
        ) from None
    lines = io.IncrementalNewlineDecoder(decoder, translate=True)
    name = codecs.lookup(encoding).name
    wide, unicode = name.startswith(("utf-16", "utf-32")), name.startswith(("utf-", "gb18030"))
    start, empty, first = 0, True, True
    with reading(file, DataError), opened(file) as stream:
        while True:
            raw = stream.read(PIECE)
            if b"\0" in raw and not wide:
                raise DataError(
                    f"{file} is a binary file (byte 0 at offset {start + raw.index(0)}), not a text."
                )
            try:
                text = lines.decode(raw, final=not raw)
            except UnicodeDecodeError as error:
                at = start + len(raw) - len(error.object) + error.start
                raise DataError(
                    f"{file} is not {encoding} text (byte 0x{error.object[error.start]:02x} at offset {at}); name its "
                    "encoding, e.g. --encoding latin-1."
                ) from None
            except UnicodeError as error:
                raise DataError(f"{file} is not {encoding} text: {error}.") from None
            if first and text:  # a byte order mark is not part of the text
                text, first = text.removeprefix("\ufeff") if unicode else text, False
            if text:
                empty = False
                yield text
            if not raw:
                if empty:
                    what = "an empty pipe" if kind_of(file) == "a pipe" else "empty"
                    raise DataError(f"{file} is {what}.")
                return
            start += len(raw)
