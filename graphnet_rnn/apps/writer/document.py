"""Document: file of a draft, saved atomically, never over the changes of another program."""

from __future__ import annotations

from pathlib import Path

from graphnet.settings import path as named_file
from graphnet_rnn.errors import DataError, SaveError, UsageError
from graphnet_rnn.files.whole import read_bytes, write_atomically
from graphnet_rnn.settings import yes_or_no

#: Suffix of the file with an unsaved text; name for a document without a file.
UNSAVED, NAMELESS = ".unsaved", "writing.txt"
#: Maximum size of a text, in bytes.
LARGEST = 50 << 20


class Document:
    """Text file in UTF-8 that is saved atomically.

    path: name of the file; None for a new document without a name. Line ends CR LF are kept. text, in methods: text to
    write.

    >>> document = rnn.writer.Document("draft.txt")
    >>> document.save("once upon a time")
    >>> document.read()
    'once upon a time'
    >>> document.rescue("once upon a time there").name
    'draft.txt.unsaved'
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = None if path is None else named_file("Document: path", path)
        self._content: bytes | None = None
        self._crlf = False

    def read(self) -> str:
        """Returns the text; "" if the file does not exist. Raises DataError for a file that is not text."""
        if self.path is None:
            return ""
        if not self.path.parent.is_dir():
            raise DataError(f"there is no folder {self.path.parent} for {self.path.name}")
        if not self.is_there:
            self._content = None
            return ""
        content = read_bytes(self.path, DataError)
        if len(content) > LARGEST:
            raise DataError(
                f"{self.path} has {len(content) >> 20} MB; the maximum is {LARGEST >> 20} MB. Divide it"
            )
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self.path} is not a text in UTF-8: byte {error.start} is {content[error.start]:#x}"
            ) from None
        self._content, self._crlf = content, "\r\n" in text and "\n" not in text.replace("\r\n", "")
        return text.replace("\r\n", "\n") if self._crlf else text

    def save(self, text: str, over: bool = False) -> None:
        """Writes the text completely or not at all.

        over: True overwrites a file that another program has changed; False by default.
        Raises SaveError if the file cannot be written, UsageError if another program has changed it.
        """
        over = yes_or_no("Document.save: over", over)
        if self.path is None:
            raise UsageError("the document has no file name yet")
        if not self.path.parent.is_dir():
            raise SaveError(f"there is no folder {self.path.parent} for {self.path.name}")
        if not over and self.changed_elsewhere:
            raise UsageError(f"{self.path} was changed by another program")
        content = self._bytes(text)
        write_atomically(self.path, content)
        self._content = content

    def _bytes(self, text: str) -> bytes:
        return (text.replace("\n", "\r\n") if self._crlf else text).encode()

    @property
    def is_there(self) -> bool:
        """True if the file exists."""
        return self.path is not None and self.path.exists()

    @property
    def changed_elsewhere(self) -> bool:
        """True if another program has changed the file since it was last read or written here."""
        assert self.path is not None
        try:
            return self.path.read_bytes() != self._content
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def rescue(self, text: str) -> Path:
        """Writes the text next to its file, under an unused name. Raises SaveError."""
        own = Path(NAMELESS) if self.path is None else self.path
        for number in range(1, 1000):
            place = own.with_name(f"{own.name}{UNSAVED}{'' if number == 1 else f'-{number}'}")
            if not place.exists() and not place.is_symlink():
                write_atomically(place, self._bytes(text), like=own)
                return place
        raise SaveError(f"there are already a thousand unsaved texts next to {own}; remove some")

    @property
    def unsaved(self) -> Path | None:
        """Path of the rescued text of an interrupted session; None if there is none."""
        own = Path(NAMELESS) if self.path is None else self.path
        place = own.with_name(own.name + UNSAVED)
        return place if place.exists() else None
