"""Compiled functions in files, which run in another process without differentiating, optimizing or compiling.

A file holds a line with its format, the SHA-256 of the rest, and the program: the length of a header, the header as
JSON, and arrays: tapes, machine code, and the values of parameters and constants. It runs only on the kind of
processor, and with the version of LLVM, that it was made for.

The checksum detects damage, not malice: loading a file runs its machine code, so load only files that you trust.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from graphnet.backends import load_backend
from graphnet.backends.base import Program
from graphnet.call.running import CompiledCallable, Running
from graphnet.errors import BackendError, ValueAccessError
from graphnet.graph.dtypes import assign
from graphnet.graph.node import Array, Node
from graphnet.graph.provenance import NO_SCOPE, Origin, Provenance, attributed_to
from graphnet.ops.leaf import input
from graphnet.plan import RunMemory
from graphnet.settings import path as named_file
from graphnet.system.files import read_whole, write_whole
from graphnet.system.text import in_brief
from graphnet.version import __version__

MAGIC = b"graphnet function 7\n"
#: Number of bytes of the header's length.
LENGTH = 8


def store_function(
    path: str | os.PathLike[str], backend: str, inputs: Sequence[Node], program: Program
) -> None:
    """Writes the file atomically; raises BackendError if that fails or the function cannot be stored."""
    header, arrays = program.stored()
    header |= {
        "graphnet": __version__,
        "backend": backend,
        "inputs": [
            [n.name, list(n.shape), n.dtype.str, n.origin.file, n.origin.line, n.op.varying] for n in inputs
        ],
    }
    body = packed(header, arrays)
    try:
        write_whole(path, MAGIC + hashlib.sha256(body).digest() + body)
    except OSError as error:
        raise BackendError(f"save: cannot write {os.fspath(path)}: {error.strerror}") from None


def load_function(path: str | os.PathLike[str]) -> StoredFunction:
    """A function that `Function.save` wrote, ready to run.

    path: the file. Loading runs machine code: load only files that you trust.
    Raises BackendError for a file that is damaged, is not a function, or was made by another version of graphnet or
    for another processor: compile and save it again here.

    >>> x = gn.input((3,), "float64", name="x")
    >>> gn.compile(2 * x, [x]).save("double.fn")
    >>> gn.load_function("double.fn")(np.array([1.0, 2.0, 3.0]))[0].tolist()
    [2.0, 4.0, 6.0]
    """
    path = named_file("load_function: path", path)
    try:
        content = read_whole(path)
    except OSError as error:
        raise BackendError(f"load_function: cannot read {os.fspath(path)}: {error.strerror}") from None
    start = len(MAGIC) + 32
    if not content.startswith(MAGIC):
        raise BackendError(
            f"load_function: {os.fspath(path)} is not a function stored by this version of graphnet; compile and save "
            "it again."
        )
    if hashlib.sha256(content[start:]).digest() != content[len(MAGIC) : start]:
        raise BackendError(
            f"load_function: {os.fspath(path)} is damaged: its checksum does not match; save it again"
        )
    header, arrays = unpacked(content, start)
    if header["graphnet"] != __version__:
        raise BackendError(
            f"load_function: {os.fspath(path)} was stored by graphnet {in_brief(header['graphnet'], 20)}, but this is "
            f"{__version__}; compile and save it again."
        )
    try:
        return StoredFunction(header, arrays)
    except BackendError as error:
        raise BackendError(f"load_function: {os.fspath(path)}: {error}") from None


def packed(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """Returns header and arrays as bytes; header: JSON-serializable, gets a list of the arrays."""
    listed = [[name, array.dtype.str, array.shape] for name, array in arrays.items()]
    text = json.dumps({**header, "arrays": listed}).encode()
    return b"".join(
        [len(text).to_bytes(LENGTH, "little"), text, *(array.tobytes() for array in arrays.values())]
    )


def unpacked(content: bytes, start: int = 0) -> tuple[dict[str, Any], dict[str, Array]]:
    """Returns header and arrays, from the byte `start` on."""
    at = start + LENGTH + int.from_bytes(content[start : start + LENGTH], "little")
    header = json.loads(content[start + LENGTH : at])
    arrays: dict[str, Array] = {}
    for name, dtype, shape in header["arrays"]:
        count = math.prod(shape)
        arrays[name] = np.frombuffer(content, dtype, count, at).reshape(shape).copy()
        at += arrays[name].nbytes
    return header, arrays


class StoredParameters(Mapping[str, Array]):
    """Arrays that a stored function reads, by name; setting one copies into it."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        self._arrays = arrays

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __setitem__(self, name: str, value: Any) -> None:
        """Copies a value; raises ShapeError or DtypeError if it does not fit, ValueAccessError for an unknown name."""
        if name not in self._arrays:
            raise ValueAccessError(
                f"the function has no parameter {name!r}; it has {', '.join(self._arrays) or 'none'}."
            )
        assign(self._arrays[name], value, f"the parameter {name}")

    def update(self, values: Mapping[str, Any]) -> None:
        """Sets several values, {name: array}."""
        for name, value in values.items():
            self[name] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        return f"StoredParameters({self._arrays!r})"


class StoredFunction(CompiledCallable):
    """A compiled function from a file: call it with one array for each input; it returns a tuple of arrays.

    header, arrays: contents of the file; use gn.load_function to read one. parameters: {name: array}, in the order of
    use (a second `b` is `b_2`); values written into them, or set by name, take effect at the next call.

    >>> x, w = gn.input((3,), "float64", name="x"), gn.parameter([1.0, 2.0, 3.0], name="w")
    >>> gn.compile(gn.sum(w * x), [x]).save("dot.fn")
    >>> f = gn.load_function("dot.fn")
    >>> f.parameters["w"] = np.array([10.0, 0.0, 0.0])
    >>> f(np.array([1.0, 2.0, 3.0]))[0].item()
    10.0
    >>> v = gn.input((3,), "float64", name="v", varying=True)
    >>> gn.compile(gn.sum(w * v), [v]).save("varying.fn")
    >>> f = gn.load_function("varying.fn")
    >>> f(np.array([1.0, 2.0, 3.0]))[0].item(), f.again(np.array([1.0, 0.0, 0.0]))[0].item()
    (14.0, 1.0)
    """

    def __init__(self, header: dict[str, Any], arrays: dict[str, Array]) -> None:
        self.inputs: tuple[Node, ...] = tuple(map(_input, header["inputs"]))
        self.backend = header["backend"]
        self._program = load_backend(self.backend).restore(header, arrays)
        self.parameters = StoredParameters({name: arrays[key] for name, key in header["parameters"].items()})
        self._running = Running(self.inputs, self._program)

    @property
    def memory(self) -> RunMemory:
        """Number of bytes that a run needs."""
        return self._program.memory

    def __call__(self, *arrays: Any) -> tuple[Array, ...]:
        """Returns the outputs, as arrays that belong to the caller; ShapeError or DtypeError before anything runs."""
        return self._running(arrays)

    def again(self, *arrays: Any) -> tuple[Array, ...]:
        """Returns the outputs for new arrays of the inputs that vary; see Function.again."""
        return self._running.again(arrays)

    def __repr__(self) -> str:
        listed = ", ".join(node.describe() for node in self.inputs)
        return f"<StoredFunction of ({listed}) on {self.backend}>"


def _input(stored: list[Any]) -> Node:
    name, shape, dtype, file, line, varying = stored
    with attributed_to() as made:
        made.model = Provenance(Origin(file, line), NO_SCOPE, 0)
        return input(tuple(shape), dtype, name=name, varying=varying)
