"""Safetensors files; the header is checked against the file's size before memory is allocated.

A file: 8 bytes with the length of the header, the header in JSON (name -> dtype, shape and offsets of each tensor;
named texts under __metadata__), the tensors' bytes.
Source: github.com/huggingface/safetensors, "Format".
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from graphnet.graph.node import Array
from graphnet.system.files import kind_of
from graphnet.system.text import read_json
from graphnet_rnn.errors import ModelFileError, UsageError
from graphnet_rnn.files.whole import reading

KEPT_APART = "__metadata__"
#: Maximum bytes of a header, which takes about twenty times as much in memory; typical headers are far smaller.
LONGEST_HEADER = 1 << 24


@dataclass(frozen=True)
class TensorFile:
    """Tensors and texts by name."""

    tensors: dict[str, Array]
    texts: dict[str, str]


def tensor_bytes(tensors: Mapping[str, Array], texts: Mapping[str, str]) -> bytes:
    """Returns the content of a file; UsageError for texts above the maximum header size."""
    from safetensors.numpy import save

    content = bytes(save(dict(tensors), dict(texts)))
    if int.from_bytes(content[:8], "little") > LONGEST_HEADER:
        raise UsageError(
            f"names, description and notes of a file must together be shorter than {LONGEST_HEADER:,} bytes; "
            "shorten the notes"
        )
    return content


def read_tensor_file(path: str | Path, other: str, damaged: str = "is damaged or cut short.") -> TensorFile:
    """Reads a file. other, damaged: messages for files of another format, and for damaged ones.

    Raises ModelFileError. Of other and damaged files, at most the header is read.
    """
    file = Path(path)
    try:
        with reading(file, ModelFileError):
            status = os.stat(file)
            kind = kind_of(file)
            if kind not in ("", "a folder"):  # opening a pipe would block
                raise ModelFileError(f"{file} is {kind}; name a file.")
            with open(file, "rb") as stream:
                head = _header(stream, status.st_size)
                if head is None:
                    raise ModelFileError(f"{file} {other}")
                texts = _texts(head, status.st_size - 8 - len(head))
                stream.seek(0)
                return TensorFile(_tensors(stream.read(status.st_size)), texts)
    except _Damaged as problem:
        raise ModelFileError(f"{file} {str(problem) or damaged}") from None


class _Damaged(Exception):
    """A damaged file; the optional text has details."""


def _header(stream: BinaryIO, size: int) -> bytes | None:
    length = int.from_bytes(stream.read(8), "little")
    if size < 9 or stream.read(1) != b"{" or LONGEST_HEADER < length <= size - 8:
        return None
    if length > size - 8:
        raise _Damaged
    return b"{" + stream.read(length - 1)


def _texts(head: bytes, size: int) -> dict[str, str]:
    try:
        entries = read_json(head)
        texts = entries.pop(KEPT_APART, {})
        whole = all(isinstance(text, str) for text in texts.values())
    except (ValueError, AttributeError):
        whole = False
    if not whole:
        raise _Damaged("is damaged: its header cannot be read.")
    try:
        end = max((entry["data_offsets"][1] for entry in entries.values()), default=0)
    except (TypeError, KeyError, IndexError):
        raise _Damaged from None
    if end != size:
        raise _Damaged
    return dict(texts)


def _tensors(content: bytes) -> dict[str, Array]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(content))
    except KeyError as error:  # a type that NumPy does not have
        raise _Damaged(f"holds tensors of the type {error}; save them as float32.") from None
    except (SafetensorError, ValueError, TypeError, OverflowError, MemoryError):
        raise _Damaged from None
