"""Compiled functions in files: run again in another process without differentiating, optimising or compiling.

A file holds a line that says what it is, the SHA-256 of all behind it, and an uncompressed NumPy archive (no
pickles): the header as JSON, tapes, machine code, and the values of parameters and constants. It is run only on
the kind of processor, and with the version of LLVM, that it was made for.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphnet.backends import load_backend
from graphnet.backends.base import Program
from graphnet.dtypes import as_dtype, assign
from graphnet.errors import BackendError, ValueAccessError
from graphnet.files import write_whole
from graphnet.node import Array, Node
from graphnet.ops.leaf import input
from graphnet.plan import Memory
from graphnet.provenance import Origin
from graphnet.running import InFiles, Running
from graphnet.version import __version__

__all__ = ["StoredFunction", "load_function", "store_function"]

MAGIC = b"graphnet function 3\n"


def store_function(
    path: str | os.PathLike[str], backend: str, inputs: Sequence[Node], program: Program
) -> None:
    """Writes the file, whole or not at all. BackendError where it cannot, and for a function that no file can hold."""
    header, arrays = program.stored()
    header |= {
        "graphnet": __version__,
        "backend": backend,
        "inputs": [
            [n.name, list(n.shape), n.dtype.name, n.origin.file, n.origin.line, n.op.varying]  # type: ignore[attr-defined]
            for n in inputs
        ],
    }
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **{"header": text, **arrays})
    body = content.getvalue()
    try:
        write_whole(path, MAGIC + hashlib.sha256(body).digest() + body)
    except OSError as error:
        raise BackendError(f"save: cannot write {os.fspath(path)}: {error.strerror}") from None


def load_function(path: str | os.PathLike[str]) -> StoredFunction:
    """A function that `Function.save` wrote, ready to run.

    Raises BackendError for a file that is damaged, is no function, or was made by another version of graphnet or
    for another processor: compile and save it again here.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise BackendError(f"load_function: cannot read {os.fspath(path)}: {error.strerror}") from None
    start = len(MAGIC) + 32
    if not content.startswith(MAGIC):
        raise BackendError(
            f"load_function: {os.fspath(path)} is no function stored by this version of graphnet"
        )
    if hashlib.sha256(content[start:]).digest() != content[len(MAGIC) : start]:
        raise BackendError(
            f"load_function: {os.fspath(path)} is damaged: its checksum does not fit; save it again"
        )
    try:
        with np.load(io.BytesIO(content[start:]), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(arrays.pop("header").tobytes())
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        raise BackendError(f"load_function: {os.fspath(path)} cannot be read: {error}") from None
    if header["graphnet"] != __version__:
        raise BackendError(
            f"load_function: {os.fspath(path)} was stored by graphnet {header['graphnet']}, this is {__version__}; "
            "compile and save it again."
        )
    return StoredFunction(header, arrays)


class StoredParameters(Mapping[str, Array]):
    """The arrays that a stored function reads, by name; setting one copies into it."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        self._arrays = arrays

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __setitem__(self, name: str, value: Any) -> None:
        """ShapeError or DtypeError for a value that does not fit, ValueAccessError for a name that there is not."""
        if name not in self._arrays:
            raise ValueAccessError(
                f"the function has no parameter {name!r}; it has {', '.join(self._arrays) or 'none'}."
            )
        assign(self._arrays[name], value, f"the parameter {name}")

    def update(self, values: Mapping[str, Any]) -> None:
        """Sets several."""
        for name, value in values.items():
            self[name] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        return f"StoredParameters({self._arrays!r})"


class StoredFunction(InFiles):
    """A compiled function from a file: call it with one array for each input; it returns a tuple of arrays.

    parameters: name -> array, in the order of use (the second `b` is `b_2`); what is written into them, or set by name,
    holds from the next call on.
    """

    def __init__(self, header: dict[str, Any], arrays: dict[str, Array]) -> None:
        self._program = load_backend(header["backend"]).restore(header, arrays)
        self.backend: str = header["backend"]
        self.inputs: tuple[Node, ...] = tuple(map(_input, header["inputs"]))
        self._running = Running(self.inputs, self._program)
        self.parameters = StoredParameters(
            {name: arrays[place] for name, place in header["parameters"].items()}
        )

    @property
    def memory(self) -> Memory:
        """Bytes that a run needs."""
        return self._program.memory

    def __call__(self, *arrays: Any) -> tuple[Array, ...]:
        """The outputs, as arrays that belong to the caller. ShapeError or DtypeError before anything runs."""
        return self._running(arrays)

    def again(self, *arrays: Any) -> tuple[Array, ...]:
        """The outputs for other arrays of the inputs that vary; see Function.again."""
        return self._running.again(arrays)

    def __repr__(self) -> str:
        listed = ", ".join(node.describe() for node in self.inputs)
        return f"<StoredFunction of ({listed}) on {self.backend}>"


def _input(told: Sequence[Any]) -> Node:
    name, shape, dtype, file, line, varying = told
    node = input(shape, as_dtype(dtype), name=name, varying=varying)
    node.origin = Origin(file, line)
    return node
