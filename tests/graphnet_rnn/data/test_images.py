"""Images from files; damaged or hostile files give one-line errors and use little memory."""

from __future__ import annotations

import gzip
import io
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from graphnet.errors import NotEnoughMemoryError
from graphnet.graph.node import Array
from graphnet_rnn.data import read_images
from graphnet_rnn.data.matlab import read_matlab
from graphnet_rnn.errors import DataError, UsageError
from tests.tables import case

BYTES = np.random.default_rng(0).integers(0, 256, (5, 4, 3), np.uint8)
WANTED = (BYTES.reshape(5, 12) / 255).astype(np.float32)


def idx(array: Array, kind: int = 0x08) -> bytes:
    """As LeCun's page says it: two zeros, the kind, the number of axes, sizes, numbers; the largest byte first."""
    return bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def put(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_idx(tmp_path: Path) -> None:
    """Bytes are divided by 255; other numbers are unchanged."""
    for name in ("train-images-idx3-ubyte", "train-images-idx3-ubyte.gz", "t.idx"):
        with case(name):
            content = idx(BYTES)
            path = put(tmp_path / name, gzip.compress(content) if name.endswith("gz") else content)
            found = read_images(path, pixels=12)
            assert found.dtype == np.float32
            assert found.flags.c_contiguous
            np.testing.assert_allclose(found, WANTED, rtol=1e-6)
            np.testing.assert_array_equal(found, read_images(path))
    for kind, dtype in ((0x09, "i1"), (0x0B, ">i2"), (0x0C, ">i4"), (0x0D, ">f4"), (0x0E, ">f8")):
        with case(kind, dtype):
            numbers = (np.arange(24).reshape(2, 12) - 12).astype(dtype)
            np.testing.assert_array_equal(read_images(put(tmp_path / "n", idx(numbers, kind))), numbers)


def test_bytes_and_other_numbers_are_not_joined(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a1=BYTES, a2=BYTES.astype("int64"))
    with pytest.raises(DataError, match="a1, a2 are bytes, which are divided by 255, and other numbers"):
        read_images(tmp_path / "a.npz", "a*")


def test_only_a_star_is_a_wildcard(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **{"a[1]": BYTES[:2], "a1": BYTES[2:]})
    assert len(read_images(tmp_path / "a.npz", "a[1]")) == 2


def test_arrays_of_numpy_and_matlab(tmp_path: Path) -> None:
    """Bytes and floats, rows and columns, one array and several by a *."""
    faces = np.random.default_rng(1).standard_normal((12, 7))  # pixels first, as the source's faces are
    given = {"train1": BYTES[2:].reshape(3, 12), "train0": BYTES[:2].reshape(2, 12), "faces": faces}
    np.savez(tmp_path / "a.npz", **given)
    scipy.io.savemat(tmp_path / "a.mat", given | {"label": "text"}, do_compression=True)
    for name in ("a.npz", "a.mat"):
        path = tmp_path / name
        np.testing.assert_allclose(read_images(path, "train*"), WANTED, rtol=1e-6)
        np.testing.assert_array_equal(read_images(path, "faces", 12), faces.T.astype(np.float32))
        np.testing.assert_array_equal(read_images(path, "faces"), faces.astype(np.float32))
        assert read_images(path, "faces", 12).flags.c_contiguous
        with pytest.raises(DataError, match=r"no array 'train\?'"):
            read_images(path, "train?")
        for array, pixels, said in (
            (None, None, r"has several arrays; name one, or several with a \* .*, of .*faces"),
            ("test", None, "has no array 'test'; name one"),
            ("faces", 784, r"faces: images must have 784 pixels, but the array is \[12, 7\]"),
        ):
            with case(name, array, pixels), pytest.raises(DataError, match=said):
                read_images(path, array, pixels)
    scipy.io.savemat(tmp_path / "mask.mat", {"x": np.eye(3) > 0})  # which SciPy reads as bytes
    with pytest.raises(DataError, match="images must be numbers, not bool"):
        read_images(tmp_path / "mask.mat")
    with pytest.raises(DataError, match="label: images must be numbers, not "):
        read_images(tmp_path / "a.mat", "label")
    with pytest.raises(DataError, match=r"those of faces, train0, train1 have \[7, 12\]"):
        read_images(tmp_path / "a.npz", "*")
    scipy.io.savemat(tmp_path / "old.mat", {"x": faces}, format="4")
    np.testing.assert_array_equal(read_images(tmp_path / "old.mat"), faces.astype(np.float32))


def odd_npz(x: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, x=x)
    return stream.getvalue()


def member(shape: tuple[int, ...]) -> bytes:
    """A file of NumPy whose head says that shape, with no numbers behind it."""
    stream = io.BytesIO()
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}".encode().ljust(117) + b"\n"
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head)
    return stream.getvalue()


HEAD = idx(BYTES)[:16]
FAR = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2**32 - 1, 2**32 - 1, 2**32 - 1)
DAMAGED: dict[str, tuple[str, bytes, str]] = {
    "nothing": ("a", b"", "is not an idx file: it begins with nothing, but must begin with 00 00"),
    "text": ("a", b"pixel,pixel", "it begins with 70 69 78 65"),
    "a kind that is none": ("a", b"\0\0\7\3" + bytes(99), "is not an idx file"),
    "no axes": ("a", b"\0\0\x08\0", "must declare 1 to 8 axes, with sizes above 0; got 0"),
    "255 axes": ("a", b"\0\0\x08\xff" + b"\0\0\0\1" * 255, "must declare 1 to 8 axes, with sizes above 0; got"),
    "half a head": ("a", HEAD[:11], r"got 3, with the sizes \[5\]"),
    "an axis of 0": ("a", b"\0\0\x08\2" + struct.pack(">2I", 0, 4), r"got 2, with the sizes \[0, 4\]"),
    "an early end": ("a", idx(BYTES)[:-1], r"has only 59 bytes of the 60 bytes \(\[5, 4, 3\] numbers of"),
    "a late end": ("a", idx(BYTES) + b"x", "is longer than the 60 bytes"),
    "labels": ("a", idx(BYTES[:, 0, 0]), r"not \[5\]; the labels of images are in a separate file"),
    "four axes": ("a", idx(BYTES[None]), r"images must be \(count, pixels\) or"),
    "half of gzip": ("a.gz", gzip.compress(idx(BYTES))[:40], "is not a valid gzip file"),
    "gzip of nothing": ("a.gz", b"\x1f\x8b", "is not a valid gzip file"),
    "not finite": ("a", idx(np.array([[1, 2], [3, np.nan]], ">f4"), 0x0D), "image 1 has nan or infinity"),
    "no zip": ("a.npz", b"PK", r"is not a valid file of arrays \(np.savez\)"),
    "objects": ("a.npz", odd_npz(np.array([[None]])), r"is not a valid file of arrays \(np.savez\):"),
    "complex": ("a.npz", odd_npz(np.ones((2, 2), complex)), "x: images must be numbers, not complex128"),
    "empty": ("a.npz", odd_npz(np.ones((0, 2))), r"x: there are no images: the array has the shape \[0, 2\]"),
    "a head of terabytes": ("a.npz", member((2**20, 2**20)), "has 0 bytes of numbers, but its header declares"),
    "a head of a part": (
        "a.npz", odd_npz(np.ones((4, 3))).replace(b"(4, 3)", b"(2, 3)"), "is not a valid file of arrays"
    ),
    "no matlab": ("a.mat", b"MATLAB" + bytes(200), r"is not a valid MATLAB file \(.mat, versions 4 to 7.2\)"),
}  # fmt: skip


def test_damaged_files_give_one_line_errors(tmp_path: Path) -> None:
    for damage, (name, content, said) in DAMAGED.items():
        path = put(tmp_path / name, content)
        with case(damage):
            with pytest.raises(DataError, match=said) as caught:
                read_images(path)
            assert str(path) in str(caught.value)
            assert "\n" not in str(caught.value)


def test_damaged_matlab_files_do_not_end_the_process(tmp_path: Path) -> None:
    """Every byte is damaged. SciPy alone crashes on some, so another process reads the files."""
    program = """
import io, sys, warnings
import numpy as np, scipy.io
from graphnet_rnn.data import read_images
from graphnet_rnn.data.matlab import read_matlab
from graphnet_rnn.errors import DataError
warnings.simplefilter("ignore")
refused = 0
for value in (np.full((3, 4), 255, "u1"), np.array([[np.eye(2), np.ones((1, 3))]], object)):
    stream = io.BytesIO()
    scipy.io.savemat(stream, {"x": value})
    for place in range(128, len(stream.getvalue())):
        for code in (0, 8, 15, 255):
            content = bytearray(stream.getvalue())
            content[place] = code
            with open(sys.argv[1], "wb") as file:
                file.write(content)
            try:
                read_images(sys.argv[1])
            except DataError:
                refused += 1
print(refused)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "a.mat")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 500


def test_sound_matlab_files_of_all_kinds_are_read(tmp_path: Path) -> None:
    x = np.arange(6.0).reshape(2, 3)
    others = {
        "complex": x * 1j, "text": "abc", "cells": np.array([[x, "a", np.zeros((0, 3))]], object),
        "none": np.zeros((0, 0)),
        "structure": {"a": x, "b": {"c": "text"}}, "sparse": scipy.sparse.eye(3), "mask": x > 2, "int8": x.astype("i1"),
    }  # fmt: skip
    for packed in (True, False):
        scipy.io.savemat(tmp_path / "a.mat", others | {"x": x}, do_compression=packed)
        np.testing.assert_array_equal(read_images(tmp_path / "a.mat", "x"), x)


@pytest.mark.filterwarnings("ignore")
def test_matlab_files_of_other_programs_are_read() -> None:
    """All files of SciPy's own tests that SciPy reads."""
    files = [*(Path(scipy.io.__file__).parent / "matlab" / "tests" / "data").glob("*.mat")]
    if not files:
        pytest.skip("SciPy's tests are not installed")
    for path in files:
        try:
            names = scipy.io.loadmat(path).keys()
        except Exception:  # a damaged file, of which there are some
            continue
        with case(path.name):
            read_matlab(path, names)


def test_a_header_with_a_size_beyond_memory_is_rejected(tmp_path: Path) -> None:
    for content in (FAR, gzip.compress(FAR)):
        path = put(tmp_path / "a", content)
        with (
            case(content),
            pytest.raises(DataError, match=r"too short for the [0-9,]* bytes \(\[4294967295, "),
        ):
            read_images(path)
    scipy.io.savemat(tmp_path / "a.mat", {"x": np.ones((2, 3))})
    content, sizes = (tmp_path / "a.mat").read_bytes(), struct.pack("<2i", 2, 3)
    assert content.count(sizes) == 1
    path = put(tmp_path / "b.mat", content.replace(sizes, struct.pack("<2i", 2**30, 2**30)))
    with pytest.raises(NotEnoughMemoryError, match="reading the arrays of"):
        read_images(path)


def test_gzip_data_beyond_the_header_size_is_not_read(tmp_path: Path) -> None:
    """200 MB of zeros in a file of 200 kB."""
    path = put(tmp_path / "bomb.gz", gzip.compress(idx(BYTES) + bytes(200_000_000), 1))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="is longer than the 60 bytes"):
            read_images(path)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


def test_invalid_arguments_are_rejected(tmp_path: Path) -> None:
    path = put(tmp_path / "a", idx(BYTES))
    for name, how, said in (
        ("none", {}, "there is no file"),
        ("a", {"array": "x"}, "a single array without a name"),
        ("a", {"array": 3}, "array must be the name of an array, or None, not 3"),
        ("a", {"pixels": 0}, "pixels must be a whole number >= 1, not 0"),
    ):
        with case(said), pytest.raises((DataError, UsageError), match=said):
            read_images(path.with_name(name), **how)
