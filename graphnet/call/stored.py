"""Compiled functions in files: run again in another process without differentiating, optimizing or compiling.

A file holds a line that says what it is, the SHA-256 of all behind it, and the program (see packing): tapes, machine
code, and the values of parameters and constants. It is run only on the kind of processor, and with the version of LLVM,
that it was made for.

What a file says is looked at before it is used: sizes before memory is taken for them, and all that is told to machine
code before it runs. The machine code itself is executed as it stands; its seal keeps it from damage, not from malice.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphnet.backends import contents, load_backend
from graphnet.backends.base import Program
from graphnet.call.packing import packed, unpacked
from graphnet.call.running import Compiled, Running
from graphnet.errors import BackendError, ValueAccessError
from graphnet.graph.dtypes import assign
from graphnet.graph.node import Array, Node
from graphnet.graph.provenance import NO_SCOPE, Origin, Provenance, attributed_to
from graphnet.ops.leaf import input
from graphnet.plan import Memory
from graphnet.settings import path as named_file
from graphnet.system.characters import in_brief
from graphnet.system.files import read_whole, write_whole
from graphnet.version import __version__

__all__ = ["StoredFunction", "load_function", "store_function"]

MAGIC = b"graphnet function 6\n"


def store_function(
    path: str | os.PathLike[str], backend: str, inputs: Sequence[Node], program: Program
) -> None:
    """Writes the file, whole or not at all. BackendError where it cannot, and for a function that no file can hold."""
    header, arrays = program.stored()
    header |= {
        "graphnet": __version__,
        "backend": backend,
        "inputs": contents.stored_inputs(inputs),
    }
    body = packed(header, arrays)
    try:
        write_whole(path, MAGIC + hashlib.sha256(body).digest() + body)
    except OSError as error:
        raise BackendError(f"save: cannot write {os.fspath(path)}: {error.strerror}") from None


def load_function(path: str | os.PathLike[str]) -> StoredFunction:
    """A function that `Function.save` wrote, ready to run.

    Raises BackendError for a file that is damaged, is no function, or was made by another version of graphnet or
    for another processor: compile and save it again here.
    """
    path = named_file("load_function: path", path)
    try:
        content = read_whole(path)
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
    header, arrays = unpacked(content, start)
    if contents.entry(header, "graphnet") != __version__:
        raise BackendError(
            f"load_function: {os.fspath(path)} was stored by graphnet {in_brief(header['graphnet'], 20)}, this is "
            f"{__version__}; compile and save it again."
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


class StoredFunction(Compiled):
    """A compiled function from a file: call it with one array for each input; it returns a tuple of arrays.

    parameters: name -> array, in the order of use (the second `b` is `b_2`); what is written into them, or set by name,
    holds from the next call on.
    """

    def __init__(self, header: dict[str, Any], arrays: dict[str, Array]) -> None:
        backend = contents.text(contents.entry(header, "backend"), "its back end", 20)
        named = contents.parameters(header, arrays)
        self.inputs: tuple[Node, ...] = tuple(map(_input, contents.inputs(header)))
        self._program = load_backend(backend).restore(header, arrays)
        self.backend = backend
        self.parameters = StoredParameters({name: arrays[key] for name, key in named.items()})
        self._running = Running(self.inputs, self._program)

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


def _input(stored: contents.StoredInput) -> Node:
    with attributed_to() as made:
        made.model = Provenance(Origin(stored.file, stored.line), NO_SCOPE, 0)
        return input(stored.shape, stored.dtype, name=stored.name, varying=stored.varying)
