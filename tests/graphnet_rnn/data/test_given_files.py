"""User files: valid files are read completely, invalid ones raise errors with the position."""

from __future__ import annotations

import datetime
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import graphnet_rnn as rnn
from graphnet.errors import NotEnoughMemoryError
from graphnet_rnn.data import Corpus, Table, read_rolls, read_sequences, read_text
from graphnet_rnn.data.arrays import read_arrays
from graphnet_rnn.errors import DataError, UsageError
from tests.tables import case

parquet = pytest.importorskip("pyarrow.parquet")
pyarrow = pytest.importorskip("pyarrow")
DAY = datetime.datetime(2020, 1, 1)
#: Case -> (additional columns of a table with a and y, the choice, part of the error).
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "times are read": (
        {"t": [DAY, None, DAY]},
        {"inputs": ("a", "t"), "targets": ("y",)},
        "column 't' holds times",
    ),
    "times are predicted": (
        {"t": [DAY] * 3},
        {"inputs": ("a",), "targets": ("t",)},
        "column 't' holds times",
    ),
    "durations": ({"t": [DAY - DAY] * 3}, {"inputs": ("t",), "targets": ("y",)}, "column 't' holds times"),
    "no case, of texts": (
        {"c": ["u", None, "v"]},
        {"inputs": ("a",), "targets": ("y",), "case": "c"},
        "row 2 .*column 'c'",
    ),
    "no case, in a word": (
        {"c": ["u", "N/A", "v"]},
        {"inputs": ("a",), "targets": ("y",), "case": "c"},
        "row 2 .*column 'c'",
    ),
    "no case, of numbers": (
        {"c": [1, None, 2]},
        {"inputs": ("a",), "targets": ("y",), "case": "c"},
        "row 2 .*column 'c'",
    ),
    "no case, of times": (
        {"c": [DAY, DAY, None]},
        {"inputs": ("a",), "targets": ("y",), "case": "c"},
        "row 3 .*column 'c'",
    ),
    "whole numbers that float64 rounds": (
        {"x": pyarrow.array([2**63, 2**63 + 1, 2**63 + 2], "uint64")},
        {"inputs": ("x",), "targets": ("y",)},
        "float32 rounds the values of the column 'x'",
    ),
    "numbers that are 0 in float32": (
        {"x": [1e-300, -2e-300, 3e-300]},
        {"inputs": ("x",), "targets": ("y",)},
        "float32 rounds the values of the column 'x'.*multiply it by a constant",
    ),
    "numbers, most of them infinite": (
        {"x": ["1.5", "-inf", "1e999"]},
        {"inputs": ("x",), "targets": ("y",)},
        "row 2 of the column 'x' is '-inf'; all values must be finite",
    ),
    "infinity": (
        {"x": [1.0, np.inf, 2.0]},
        {"inputs": ("x",), "targets": ("y",)},
        "row 2 of the column 'x' is 'inf'",
    ),
}


def table(path: Path, more: dict[str, Any]) -> Path:
    parquet.write_table(pyarrow.table({"a": [1.0, 2, 3], "y": [1.5, 2, 3], **more}), path)
    return path


def test_unsupported_column_types_are_rejected(tmp_path: Path) -> None:
    for name, (columns, choice, said) in REFUSED.items():
        with case(name), pytest.raises(DataError, match=rf"a\.parquet: .*{said}"):
            _ = Table(table(tmp_path / "a.parquet", columns), **choice).sequences
    (tmp_path / "a.csv").write_text("a,c,y\n1,nan,2\n2,,3.5\n")
    with pytest.raises(DataError, match=r"row 1 .*column 'c'"):
        Table(tmp_path / "a.csv", inputs=("a",), targets=("y",), case="c").sequences


def test_column_names_with_separators_and_duplicates(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('"temp, C";"a ""b"", c";y\n1,5;2;0,5\n2,5;3;1,5\n')
    cases = Table(tmp_path / "a.csv", inputs=("temp, C",), targets=("y",)).sequences
    np.testing.assert_array_equal(cases.inputs[:, 0], [[1.5], [2.5]])
    twice = pyarrow.table([pyarrow.array([1.0, 2.0])] * 3, names=["a", "a", "y"])
    parquet.write_table(twice, tmp_path / "a.parquet")
    with pytest.raises(DataError, match="two columns have the same name"):
        Table(tmp_path / "a.parquet", inputs=("a",), targets=("y",)).sequences


def test_large_integers_in_csv_files_are_rejected(tmp_path: Path) -> None:
    for first in (2**63, 2**70):
        (tmp_path / "a.csv").write_text("a,y\n" + "".join(f"{first + i},{i}.5\n" for i in range(9)))
        with pytest.raises(DataError, match="float32 rounds the values of the column 'a'"):
            Table(tmp_path / "a.csv", inputs=("a",), targets=("y",)).sequences
    (tmp_path / "w.csv").write_text("a,y,w\n0,,0\n" + "".join(f"{i},{2**63 + i},1\n" for i in range(9)))
    with pytest.raises(DataError, match="float32 rounds the values of the column 'y'"):
        Table(tmp_path / "w.csv", inputs=("a",), targets=("y",), weights="w").sequences


def test_nested_columns_of_parquet_files(tmp_path: Path) -> None:
    """Only those that are used are refused."""
    columns = {
        "x": [1.5, 2.5, 3.5],
        "y": [0.5, 1.5, 2.5],
        "tags": [["a"], ["b", "c"], []],
        "more": [{"k": 1}] * 3,
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    assert Table(tmp_path / "a.parquet", inputs=("x",), targets=("y",)).sequences.inputs.shape == (3, 1, 1)
    for name in ("tags", "more"):
        with pytest.raises(
            DataError, match=rf"row 1 of the column '{name}' is .*; each cell must be one number"
        ):
            Table(tmp_path / "a.parquet", inputs=(name,), targets=("y",)).sequences


def test_columns_without_a_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",a,y\n0,1,2\n1,3,4.5\n")
    with pytest.raises(DataError, match=r"a\.csv: column 1 has no name; .*index=False"):
        Table(tmp_path / "a.csv", inputs=("a",), targets=("y",)).sequences
    found = Table(table(tmp_path / "a.parquet", {"": [0, 1, 2]}), inputs=("a",), targets=("y",)).sequences
    assert found.inputs.shape == (3, 1, 1)


def test_empty_lines_in_csv_files(tmp_path: Path) -> None:
    path, choice = tmp_path / "a.csv", {"inputs": ("a",), "targets": ("y",)}
    path.write_text("\na,y\n1,2.5\n2,3.5\n\n\n")
    assert len(Table(path, **choice).sequences.inputs) == 2
    path.write_text("a,y\n1,2.5\n\n2,3.5\n")
    with pytest.raises(DataError, match=r"a\.csv: line 3 is empty, and rows follow"):
        Table(path, **choice).sequences


def test_last_piece_may_be_shorter(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,y\n" + "".join(f"{i},{i}.5\n" for i in range(95)))
    found = Table(tmp_path / "a.csv", inputs=("a",), targets=("y",), pieces=48).sequences
    assert found.lengths is not None
    assert found.lengths.tolist() == [48, 47]
    np.testing.assert_array_equal(found.inputs[:47, 1, 0], np.arange(48, 95))


def test_arrays_in_pieces_keep_all_steps(tmp_path: Path) -> None:
    x = np.arange(70.0).reshape(7, 5, 2)
    np.savez(tmp_path / "a.npz", x=x, y=x[..., 0])
    found = read_sequences(tmp_path / "a.npz", pieces=3)
    assert found.lengths is not None
    assert found.lengths.tolist() == [3, 3, 1] * 5
    np.testing.assert_array_equal(np.sort(found.inputs[found.inside()], axis=None), np.arange(70))
    whole = read_sequences(tmp_path / "a.npz", pieces=7)
    assert whole.lengths is None


def test_columns_have_one_role_and_types_are_inferred(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,y\n1,0\n2,1\n3,0\n")
    for name, choice in {
        "target and weight": {"inputs": ("a",), "targets": ("y",), "weights": "y"},
        "target and case": {"inputs": ("a",), "targets": ("y",), "case": "y"},
        "input and time": {"inputs": ("a",), "targets": ("y",), "time": "a"},
        "input and weight": {"inputs": ("a",), "targets": ("y",), "weights": "a"},
        "input and target": {"inputs": ("a", "y"), "targets": ("y",)},
    }.items():
        with case(name), pytest.raises(UsageError, match="a column can have only one role"):
            Table(path, **choice).sequences
    for cell in (" ", "nan", "NaN", ""):
        path.write_text(f"a,c,y\n1,u,0\n2,{cell},1\n3,v,0\n")
        with case(cell), pytest.raises(DataError, match=r"row 2 of the column 'c' is '.*', an empty cell"):
            Table(path, inputs=("a",), targets=("y",), case="c").sequences
    path.write_text("a,y\n1_000,0\n2,1\n")
    with pytest.raises(DataError, match="row 1 of the column 'a' is '1_000'"):
        Table(path, inputs=("a",), targets=("y",)).sequences


def test_byte_order_mark_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffÄpfel".encode())
    assert read_text(path) == "Äpfel"
    assert Corpus.read(path, path, path).vocabulary.characters == "eflpÄ"
    path.write_bytes("a\ufeffb".encode())
    assert read_text(path) == "a\ufeffb"
    path.write_bytes("\ufeff".encode())
    with pytest.raises(DataError, match="empty"):
        read_text(path)
    path.write_bytes(b"\xef\xbb\xbfab\xff")
    with pytest.raises(DataError, match="0xff at offset 5"):
        read_text(path)


def test_object_arrays_are_rejected(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", fine=np.ones(3), odd=np.array([None, 1], dtype=object))
    with pytest.raises(DataError, match="odd"):
        read_arrays(tmp_path / "a.npz")


def test_unused_object_arrays_are_ignored(tmp_path: Path) -> None:
    x, y = np.ones((3, 2, 1)), np.zeros((3, 2), int)
    np.savez(tmp_path / "a.npz", x=x, y=y, odd=np.array([None, 1], dtype=object))
    assert read_sequences(tmp_path / "a.npz").targets.shape == (3, 2)


def test_missing_zip_directory_entries_are_detected(tmp_path: Path) -> None:
    """A longer comment of the second entry hides the third, here the lengths."""
    np.savez(tmp_path / "a.npz", x=np.ones((3, 2, 1)), y=np.zeros((3, 2), int), lengths=[3, 2])
    content = bytearray((tmp_path / "a.npz").read_bytes())
    last = content.rfind(b"PK\1\2")
    second = content.rfind(b"PK\1\2", 0, last)
    content[second + 32] = content.rfind(b"PK\5\6") - last
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(DataError, match="directory lists 2 of 3"):
        read_sequences(tmp_path / "a.npz")


def test_renamed_arrays_are_detected(tmp_path: Path) -> None:
    """One bit of the directory is wrong: lengths would be an array that nobody asks for."""
    np.savez(tmp_path / "a.npz", x=np.ones((3, 2, 1)), y=np.zeros((3, 2), int), lengths=[2, 1, 2])
    content = (tmp_path / "a.npz").read_bytes()
    start = content.rfind(b"lengths.npy")
    (tmp_path / "a.npz").write_bytes(content[:start] + b"m" + content[start + 1 :])
    with pytest.raises(DataError, match="File name in directory"):
        read_sequences(tmp_path / "a.npz")


def test_arrays_of_strings_and_times_are_rejected(tmp_path: Path) -> None:
    x, y = np.ones((3, 2, 1)), np.zeros((3, 2))
    for kind in ("U3", "S3", "V8", "M8[s]", "c16"):
        for name in ("x", "y", "w"):
            arrays = {"x": x, "y": y, "w": y}
            np.savez(tmp_path / "a.npz", **{**arrays, name: np.zeros(arrays[name].shape, kind)})
            with case(kind, name), pytest.raises(DataError, match="must be numbers, not"):
                read_sequences(tmp_path / "a.npz", weights="w")


def test_horizon_beyond_all_rows_is_rejected() -> None:
    rows = Table({"x": np.arange(50.0)}, targets="x", horizon=10**9)
    with pytest.raises(DataError, match=r"no training row has a value of x \+45"):
        rows.split(0.1)


def test_padding_beyond_memory_is_rejected() -> None:
    rows = 200_000
    columns = {"c": np.r_[np.zeros(rows), 1 : rows + 1], "x": np.arange(2.0 * rows)}
    with pytest.raises(NotEnoughMemoryError, match=r"padding 200,001 cases of .* to 200,000 rows .*--pieces"):
        Table(columns, targets="x", case="c", horizon=1)


def test_sparse_matlab_arrays_are_rejected(tmp_path: Path) -> None:
    rolls = {name: scipy.sparse.eye(88) for name in ("traindata", "validdata", "testdata")}
    scipy.io.savemat(tmp_path / "a.mat", rolls)
    with pytest.raises(DataError, match="traindata"):
        read_rolls(tmp_path / "a.mat")


def test_one_long_cell_does_not_enlarge_other_rows(tmp_path: Path) -> None:
    """A long cell in one row does not enlarge all other rows."""
    (tmp_path / "a.csv").write_text("c,x,y\n" + "z" * 200_000 + ",1,2.5\n" + "u,1,2.5\n" * 2_000)
    tracemalloc.start()
    try:
        assert len(Table(tmp_path / "a.csv", inputs=("x",), targets=("y",)).sequences.inputs) == 2_001
        assert tracemalloc.get_traced_memory()[1] < 2e7
    finally:
        tracemalloc.stop()


def test_encodings_by_any_of_their_names(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for name in (
        "utf-16",
        "utf_16",
        "U16",
        "utf16",
        "utf_16_le",
        "utf-16-be",
        "UTF32",
        "utf_32_le",
        "u8",
        "utf-8-sig",
    ):
        for mark in ("", "\ufeff"):
            path.write_bytes((mark + "hello\nwörld").encode(name))
            with case(name, mark):
                assert read_text(path, name) == "hello\nwörld"
    for wrong in (None, 5, "utf-99"):
        with case(wrong), pytest.raises(DataError, match="encoding must be"):
            read_text(path, wrong)  # type: ignore[arg-type]


def test_unsupported_table_types_are_rejected() -> None:
    source = pyarrow.table({"x": [1.0, 2.0], "y": [3.0, 4.0]})
    with pytest.raises(UsageError, match="Table: source must be a path, a DataFrame of pandas or polars, or"):
        Table(source, targets="y")


def test_integers_rounded_by_float32_are_rejected() -> None:
    x, t = np.zeros((3, 20, 1)), 2**60 + np.arange(60).reshape(3, 20, 1)
    net = rnn.Network([rnn.Elman(2)], 1, 1, loss="squared")
    with pytest.raises(DataError, match="float32 rounds column 0 of the targets"):
        rnn.Arrays(net, x, t)
