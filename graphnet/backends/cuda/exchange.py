"""DLPack: memory passed from one library to another without a copy, by C structures that all of them support.

Source: the DLPack specification 1.0, dlpack.h; and the Python array API standard, `__dlpack__`.
"""

from __future__ import annotations

import ctypes
from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint64,
    c_void_p,
    py_object,
)
from typing import Any, NamedTuple

import numpy as np

from graphnet.errors import DtypeError
from graphnet.graph.node import Dtype, Shape

#: Kinds of devices.
CPU, CUDA = 1, 2
#: Kinds of numbers.
CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


class _Device(Structure):
    _fields_ = (("kind", c_int32), ("number", c_int32))


class _DataType(Structure):
    _fields_ = (("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16))


class _Tensor(Structure):
    _fields_ = (
        ("data", c_void_p), ("device", _Device), ("ndim", c_int32), ("dtype", _DataType), ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)), ("byte_offset", c_uint64),
    )  # fmt: skip


class _Managed(Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, POINTER(_Managed))
_Managed._fields_ = (("tensor", _Tensor), ("context", c_void_p), ("deleter", _Deleter))

_api = ctypes.pythonapi
_new = ctypes.PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", _api))
_set_name = ctypes.PYFUNCTYPE(c_int, py_object, c_char_p)(("PyCapsule_SetName", _api))
_held = ctypes.PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", _api))
_pointer = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", _api))
_is_valid = ctypes.PYFUNCTYPE(c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", _api))

FRESH, USED = b"dltensor", b"used_dltensor"

#: Exported arrays, by the address of their structure, with the objects that must live until they are returned.
_exported: dict[int, tuple[Any, ...]] = {}


def _returned(managed: Any) -> None:
    _exported.pop(ctypes.addressof(managed.contents), None)


def _dropped(capsule: int) -> None:
    """Destructor of an unconsumed capsule. (The capsule is dying, so it must not become a Python object.)"""
    if _is_valid(capsule, FRESH):
        _exported.pop(_pointer(capsule, FRESH), None)


_give_back = _Deleter(_returned)
_let_go = ctypes.CFUNCTYPE(None, c_void_p)(_dropped)


def capsule_of(address: int, shape: Shape, dtype: Dtype, device: tuple[int, int], owner: object) -> Any:
    """A capsule for memory in one piece, which keeps its owner alive until the library that takes it has done."""
    sizes = (c_int64 * max(len(shape), 1))(*shape)
    managed = _Managed()
    managed.tensor = _Tensor(
        address, _Device(*device), len(shape), _DataType(CODES[dtype.kind], dtype.itemsize * 8, 1),
        ctypes.cast(sizes, POINTER(c_int64)), None, 0,
    )  # fmt: skip
    managed.deleter = _give_back
    place = ctypes.addressof(managed)
    _exported[place] = (managed, sizes, owner)
    return _new(place, FRESH, ctypes.cast(_let_go, c_void_p))


class Borrowed(NamedTuple):
    """Memory of another library; strides in elements, None for one piece. It is given back when `holder` goes."""

    address: int
    shape: Shape
    strides: tuple[int, ...] | None
    dtype: Dtype
    device: tuple[int, int]
    holder: object


class _Holder:
    def __init__(self, managed: Any) -> None:
        self._managed = managed

    def __del__(self) -> None:
        if self._managed.deleter:
            self._managed.deleter(ctypes.pointer(self._managed))


def borrowed(capsule: Any) -> Borrowed:
    """Content of a capsule, which is used up. DtypeError for numbers that graphnet does not support."""
    managed = _Managed.from_address(_held(capsule, FRESH))
    tensor = managed.tensor
    kind = next((k for k, code in CODES.items() if code == tensor.dtype.code), "")
    if not kind or tensor.dtype.lanes != 1 or (kind == "f" and tensor.dtype.bits < 32):
        raise DtypeError(
            f"DLPack dtype (code {tensor.dtype.code}, {tensor.dtype.bits} bits) is not supported"
        )
    _set_name(capsule, USED)
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else None
    return Borrowed(
        (tensor.data or 0) + tensor.byte_offset, shape, strides, np.dtype(f"{kind}{tensor.dtype.bits // 8}"),
        (tensor.device.kind, tensor.device.number), _Holder(managed),
    )  # fmt: skip
