"""DLPack's structures, with memory of the host: what we lend NumPy reads, and what NumPy lends we read."""

from __future__ import annotations

import gc
import itertools
import weakref
from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet.backends.cuda import exchange
from graphnet.backends.cuda.exchange import CPU, borrowed, capsule_of
from graphnet.errors import DtypeError
from graphnet.graph.node import Array
from tests.tables import case


class Owner:
    """What a lent piece of memory belongs to."""

    def __init__(self, array: Array) -> None:
        self.array = array


class Lender:
    """Lends an array as other libraries do."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU, 0

    def __dlpack__(self, **wishes: Any) -> Any:
        array = self.owner.array
        return capsule_of(array.ctypes.data, array.shape, array.dtype, (CPU, 0), self.owner)


def test_numpy_reads_what_is_lent() -> None:
    for dtype, shape in itertools.product(
        ("float32", "float64", "int32", "int64", "uint8"), ((), (5,), (2, 3, 4), (0, 3))
    ):
        array = np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)
        taken = np.from_dlpack(Lender(Owner(array)))
        with case(dtype, shape):
            assert (taken.shape, taken.dtype) == (array.shape, array.dtype)
            np.testing.assert_array_equal(taken, array)
            assert np.shares_memory(taken, array) or not array.size


def test_the_owner_lives_as_long_as_the_taker() -> None:
    owner = Owner(np.arange(6.0))
    gone = weakref.ref(owner)
    taken = np.from_dlpack(Lender(owner))
    del owner
    gc.collect()
    assert gone() is not None
    del taken
    gc.collect()
    assert gone() is None


def test_a_capsule_that_nobody_takes_lets_its_owner_go() -> None:
    owner = Owner(np.arange(6.0))
    gone = weakref.ref(owner)
    capsule = Lender(owner).__dlpack__()
    del owner
    gc.collect()
    assert gone() is not None
    del capsule
    gc.collect()
    assert gone() is None
    assert not exchange._exported


def test_what_numpy_lends() -> None:
    for array in (np.arange(6.0), np.arange(12).reshape(3, 4).T, np.zeros((2, 2), "float32")):
        lent = borrowed(array.__dlpack__())
        assert (lent.shape, lent.dtype, lent.device) == (array.shape, array.dtype, (CPU, 0))
        assert lent.address == array.ctypes.data
        strides = tuple(s // array.itemsize for s in array.strides)
        assert (lent.strides or strides) == strides


def test_what_is_borrowed_is_given_back() -> None:
    owner = Owner(np.arange(6.0))
    gone = weakref.ref(owner)
    lent: Any = borrowed(Lender(owner).__dlpack__())
    del owner
    gc.collect()
    assert gone() is not None
    del lent
    gc.collect()
    assert gone() is None


def test_every_back_end_takes_what_others_lend() -> None:
    x = gn.input((2, 3))
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    for backend in ("numpy", "numba", "cuda"):
        (doubled,) = gn.compile([x * 2.0], [x], backend)(Lender(Owner(array)))
        np.testing.assert_array_equal(doubled, 2 * array, err_msg=backend)


def test_numbers_that_graphnet_does_not_know() -> None:
    with pytest.raises(DtypeError, match="16 bits"):
        borrowed(np.zeros(3, "float16").__dlpack__())
