"""Native calls from XLA, without a compiler: a handler of its foreign function interface (FFI), made by ctypes.

XLA calls the handler with a call frame (xla/ffi/api/c_api.h, version 0): pointers to the buffers of arguments and
results, and the key of the function. Buffers are used in place, so a call costs a few microseconds.
"""

from __future__ import annotations

import ctypes
import secrets
from collections.abc import Sequence
from functools import cache
from typing import Any
from weakref import WeakValueDictionary

import jax
import numpy as np

from graphnet.graph.node import Array, Node
from graphnet.inside.differentiable import Differentiable

TARGET = "graphnet"
#: Version of the interface: fields of the call frame that are read here exist in all versions from this one on.
VERSION = 0, 1
#: Places in a call frame, in bytes.
EXTENSION, API, ARGUMENTS, RESULTS, ATTRIBUTES = 8, 16, 72, 112, 160
#: Place of the data in a buffer, of the value in a scalar attribute, of Error_Create in the interface.
DATA, VALUE, ERROR_CREATE = 24, 8, 48
#: Place of the kind in an extension, and that of metadata.
KIND, METADATA_KIND = 8, 1
#: Place of the metadata in their extension, of both numbers of the version in the metadata.
METADATA, MAJOR, MINOR = 24, 24, 28
#: Code of an internal error.
INTERNAL = 13

_functions: WeakValueDictionary[int, Differentiable] = WeakValueDictionary()


def key_of(function: Differentiable) -> int:
    """Returns a random key of the function, so that no program from a cache on disk has it."""
    found = next((key for key, each in _functions.items() if each is function), None)
    if found is None:
        found = secrets.randbits(62)
        _functions[found] = function
    return found


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


@cache
def _words_of(count: int) -> type[ctypes.Array[ctypes.c_uint64]]:
    return ctypes.c_uint64 * count


def _addresses(buffers: int, count: int) -> list[int]:
    """Addresses of the data of buffers."""
    return [_word(buffer + DATA) for buffer in _words_of(count).from_address(buffers)] if count else []


def _arrays(nodes: list[Node], addresses: Sequence[int]) -> list[Array]:
    """Arrays in the memory of the buffers."""
    found = []
    for node, address in zip(nodes, addresses, strict=True):
        size = node.size * node.dtype.itemsize
        memory: Any = (ctypes.c_char * size).from_address(address) if size else None
        found.append(np.ndarray(node.shape, node.dtype, memory))
    return found


def _handle(address: int) -> int | None:
    try:
        extension = _word(address + EXTENSION)
        if extension and ctypes.c_int.from_address(extension + KIND).value == METADATA_KIND:
            _write_version(extension)
            return None
        function = _functions[_word(_word(_word(_word(address + ATTRIBUTES)) + VALUE))]
        given = _addresses(_word(address + ARGUMENTS), len(function.inputs))
        wanted = _addresses(_word(address + RESULTS), len(function.outputs))
        outputs = function.value(*_arrays(function.inputs, given))
        for buffer, output in zip(_arrays(function.outputs, wanted), outputs, strict=True):
            buffer[...] = output
    except BaseException as error:
        return _error(_word(address + API), f"{type(error).__name__}: {error}")
    return None


def _write_version(extension: int) -> None:
    """Answers the question for the version of the interface."""
    metadata = _word(extension + METADATA)
    for place, number in zip((MAJOR, MINOR), VERSION, strict=True):
        ctypes.c_int.from_address(metadata + place).value = number


class _ErrorArguments(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t), ("extension", ctypes.c_void_p), ("message", ctypes.c_char_p), ("code", ctypes.c_int),
    )  # fmt: skip


def _error(api: int, message: str) -> int:
    create = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(_word(api + ERROR_CREATE))
    arguments = _ErrorArguments(ctypes.sizeof(_ErrorArguments), None, message.encode(), INTERNAL)
    found: int = create(ctypes.addressof(arguments))
    return found


HANDLER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(_handle)


def _register() -> bool:
    try:
        jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(HANDLER), platform="cpu")
    except Exception:  # another version of the interface: JAX calls back instead
        return False
    return True


#: True if XLA accepted the handler.
is_registered = _register()
