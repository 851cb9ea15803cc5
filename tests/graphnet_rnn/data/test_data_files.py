"""Sequences from files: reading, folds, and cases of different lengths."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from graphnet.errors import NotEnoughMemoryError
from graphnet.system import memory
from graphnet_rnn.data import Sequences, Table, balanced_weights, padded, read_sequences, with_missing
from graphnet_rnn.data.music import write_midi
from graphnet_rnn.data.sequence_files import read_inputs
from graphnet_rnn.data.table_files import table_bytes
from graphnet_rnn.errors import DataError, UsageError
from tests.tables import case

RANDOM = np.random.default_rng(0)
#: Rows of three cases, of 7, 4 and 9 steps, that take turns.
ROWS = [
    {"who": who, "u": float(u), "v": float(v), "label": int(u > 0), "weight": weight}
    for step in range(9)
    for who, count, weight in (("ann", 7, 1.0), ("bob", 4, 2.0), ("eve", 9, 0.5))
    if step < count
    for u, v in [RANDOM.standard_normal(2).round(4)]
]


def write_table(path: Path, columns: Mapping[str, Any]) -> Path:
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([columns, *zip(*columns.values(), strict=True)])
    else:
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def of(who: str, *names: str) -> Any:
    return np.array([[row[name] for name in names] for row in ROWS if row["who"] == who])


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_table_rows_are_time_steps_of_cases(tmp_path: Path, ending: str) -> None:
    path = write_table(tmp_path / f"t{ending}", {name: [row[name] for row in ROWS] for name in ROWS[0]})
    choice = {
        "inputs": ("u", "v"),
        "targets": "label",
        "weights": "weight",
        "case": "who",
        "pieces": 2,
        "categories": "label",
    }
    found = Table(path, **choice).sequences
    assert (found.time, len(found)) == (2, 4 + 2 + 5)
    cases = [("ann", i) for i in range(4)] + [("bob", i) for i in range(2)] + [("eve", i) for i in range(5)]
    for number, (who, piece) in enumerate(cases):
        steps = slice(2 * piece, 2 * piece + 2)
        inside = slice(0, found.lengths[number])
        np.testing.assert_array_equal(found.inputs[inside, number], of(who, "u", "v")[steps].astype("f4"))
        np.testing.assert_array_equal(found.targets[inside, number], of(who, "label")[steps, 0])
        assert found.weights[number] == of(who, "weight")[0, 0]
    assert found.targets.dtype == np.int64
    table = Table(path, **choice)
    for read, expected in ((table.inputs, found.inputs), (table.lengths, found.lengths)):
        np.testing.assert_array_equal(read, expected)
    numbers = Table(path, inputs=("u",), targets=("v", "label"), case="who", pieces=4).sequences
    assert numbers.targets.shape == (4, 2 + 1 + 3, 2)
    np.testing.assert_array_equal(numbers.lengths, [4, 3, 4, 4, 4, 1])
    rest = Table(path, targets=("v",), weights="weight", case="who", pieces=4).sequences
    np.testing.assert_array_equal(rest.inputs[:, 2], of("bob", "u", "label")[:4].astype("f4"))
    whole = Table(path, inputs=("u",), targets=("v",), case="who", whole=True).sequences
    np.testing.assert_array_equal(whole.lengths, [7, 4, 9])
    np.testing.assert_array_equal(whole.inputs[:4, 1, 0], of("bob", "u")[:, 0].astype("f4"))
    np.testing.assert_array_equal(whole.targets[:, 0], [of(who, "v")[-1, 0] for who in ("ann", "bob", "eve")])
    one = Table(path, inputs=("u",), targets=("v",)).sequences
    np.testing.assert_array_equal(one.inputs[:, 0, 0], np.array([row["u"] for row in ROWS], "f4"))


def test_rows_have_weights_and_zero_weight_needs_no_target(tmp_path: Path) -> None:
    choice, path = (
        {"inputs": "u", "targets": "label", "weights": "w", "case": "who", "categories": "label"},
        tmp_path / "t.csv",
    )
    rows = "a,1,0,1\na,2,,0\nb,3,1,2\nb,4,0,0.5"
    path.write_text(f"who,u,label,w\n{rows}\n", encoding="utf-8")
    found = Table(path, **choice).sequences
    np.testing.assert_array_equal(found.weights, [[1, 2], [0, 0.5]])
    np.testing.assert_array_equal(found.targets, [[0, 1], [0, 0]])
    for text, whole, said in (
        (rows, True, "the rows of case 1 have different weights"),
        ("a,1,0,1\na,2,1,", False, "row 2 of the column 'w' is ''; each row must have a weight"),
        ("a,1,0,1\na,-1e39,1,1", False, r"row 2 of the column 'u' is -1e\+39, which float32 cannot hold"),
    ):
        path.write_text(f"who,u,label,w\n{text}\n", encoding="utf-8")
        with case(said), pytest.raises(DataError, match=said):
            Table(path, **{**choice, "whole": whole}).sequences


def test_tables_with_semicolons_and_tabs(tmp_path: Path) -> None:
    rows, path = "who;u;y\na;1,5;-,25\na;2;1,5e2\nb,c;3;4,5\n", tmp_path / "t.csv"
    for text in (rows, rows.replace("b,c", "b").replace(",", ".").replace(";", "\t")):
        with case(text):
            path.write_text(text, encoding="utf-8")
            found = Table(path, inputs=("u",), targets=("y",), case="who").sequences
            np.testing.assert_array_equal(found.inputs[:, 0, 0], [1.5, 2])
            np.testing.assert_array_equal(found.targets[:, 0, 0], [-0.25, 150])
            np.testing.assert_array_equal(found.lengths, [2, 1])
    for mark in ";\t":  # names with commas
        path.write_text(f"u, left{mark}y\n1.5{mark}2\n3.5{mark}4\n", encoding="utf-8")
        found = Table(path, inputs=("u, left",), targets=("y",)).sequences
        np.testing.assert_array_equal(found.inputs.ravel(), [1.5, 3.5])
    path.write_text("u, left;y\n1,5;2\n", encoding="utf-8")
    assert Table(path, inputs=("u, left",), targets=("y",)).sequences.inputs.ravel().tolist() == [1.5]
    path.write_text("u;y, b\n1;2\n3;4\nsum\n", encoding="utf-8")
    with pytest.raises(DataError, match="row 3 has 1 values for 2 columns"):
        Table(path, inputs=("u",), targets=("y, b",)).sequences
    path.write_text('u,y\n"1,234",1\n', encoding="utf-8")
    with pytest.raises(DataError, match="is '1,234'"):  # between commas a comma is no decimal one
        Table(path, targets=("y",)).sequences
    path.write_text("u;y\n1.234;2\n999,5;4\n", encoding="utf-8")
    with pytest.raises(DataError, match="is '999,5'"):
        Table(path, targets=("y",)).sequences
    for text in ("price;y\n1,500;2.5\n999;4.75\n", "price;y\n1.500;2,5\n999;4,75\n"):  # thousands, as y shows
        path.write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=r"in the column 'price', '1.500' may be a fraction or thousands"):
            Table(path, targets=("y",)).sequences
    for text in ("version;u;y\n1.2;0,5;1,5\n1.3;0,75;2,5\n", "tags;u;y\n1,2;0.5;1.5\n3,4;0.75;2.5\n"):
        path.write_text(text, encoding="utf-8")
        assert Table(path, inputs=("u",), targets=("y",)).sequences.inputs.ravel().tolist() == [0.5, 0.75]
    path.write_text('"a"\t"y"\n"1"\t"2.5"\n"3"\t"4"\n', encoding="utf-8")
    assert Table(path, targets=("y",)).sequences.inputs.ravel().tolist() == [1, 3]


def test_parquet_tables_beyond_memory_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_table(tmp_path / "t.parquet", {"u": np.zeros(1 << 22), "y": np.zeros(1 << 22)})
    assert path.stat().st_size < 1 << 16
    monkeypatch.setattr("graphnet.system.memory.available_memory", lambda: 1 << 24)
    with pytest.raises(NotEnoughMemoryError, match=r"t\.parquet would take 64\.0 MiB.*a smaller file"):
        Table(path, targets=("y",)).sequences


def test_arrays_are_read_unchanged(tmp_path: Path) -> None:
    x, y = RANDOM.standard_normal((6, 5, 2)).astype("f4"), RANDOM.standard_normal((6, 5, 1))
    labels, ctc = np.arange(5) % 3, np.array([[0, 1], [1, -1], [2, 0], [0, -1], [1, 1]])
    np.savez(tmp_path / "a.npz", x=x, y=y, labels=labels, ctc=ctc, turned=x.swapaxes(0, 1), w=np.arange(5.0))
    found = read_sequences(tmp_path / "a.npz", weights="w")
    np.testing.assert_array_equal(found.inputs, x)
    np.testing.assert_array_equal(found.targets, y)
    np.testing.assert_array_equal(found.weights, np.arange(5.0))
    turned = read_sequences(tmp_path / "a.npz", inputs="turned", targets="labels", cases_first=True)
    np.testing.assert_array_equal(turned.inputs, x)
    assert not turned.by_step
    np.testing.assert_array_equal(turned.targets, labels)
    np.testing.assert_array_equal(read_sequences(tmp_path / "a.npz", targets="ctc").targets, ctc)
    pieces = read_sequences(tmp_path / "a.npz", pieces=3)
    np.testing.assert_array_equal(pieces.inputs[:, 3], x[3:, 1])
    np.testing.assert_array_equal(pieces.targets[:, 2], y[:3, 1])
    np.testing.assert_array_equal(read_inputs(tmp_path / "a.npz", pieces=3)[0], pieces.inputs)


def test_folds_partition_the_cases(tmp_path: Path) -> None:
    x = np.arange(11.0).reshape(1, 11, 1)
    whole = Sequences(x, x, weights=np.arange(11.0))
    seen = []
    for fold in range(3):
        train, valid = whole.fold(fold, 3)
        for part in (train, valid):
            assert part.weights is not None
            np.testing.assert_array_equal(part.inputs[0, :, 0], part.weights)
        assert sorted([*train.inputs.ravel(), *valid.inputs.ravel()]) == list(range(11))
        seen += list(valid.inputs.ravel())
    assert sorted(seen) == list(range(11))
    assert seen != sorted(seen)
    with pytest.raises(UsageError, match="seed must be a whole number >= 0, not None"):
        whole.fold(0, 3, seed=None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="folds at most the number of cases"):
        whole.fold(0, 12)


ROLL = np.eye(88, dtype=bool)[np.arange(121) % 88]


def series_of(kind: str, folder: Path) -> Path:
    """One series of 120 steps, whose first value is the step."""
    steps = np.arange(120.0)
    if kind == "csv":
        write_table(folder / "a.csv", {"t": steps, "y": -steps})
    elif kind == "npz":
        np.savez(folder / "a.npz", x=steps.reshape(120, 1, 1), y=-steps.reshape(120, 1, 1))
    else:
        write_midi(folder / "a.mid", ROLL)
    return folder / f"a.{kind}"


def test_folds_of_one_series_are_blocks_of_time_with_a_gap(tmp_path: Path) -> None:
    """No training step is within the gap of a validation step."""
    for gap, kind in itertools.product((0, 1, 4, 9), ("csv", "npz", "mid")):
        with case(gap, kind):
            path = series_of(kind, tmp_path)
            whole = (
                Table(path, targets="y", pieces=4).sequences
                if kind == "csv"
                else read_sequences(path, pieces=4)
            )
            assert len(whole) == 30
            if kind == "mid":
                np.testing.assert_array_equal(whole.inputs.transpose(1, 0, 2).reshape(120, 88), ROLL[:120])
                np.testing.assert_array_equal(whole.targets.transpose(1, 0, 2).reshape(120, 88), ROLL[1:])
            if kind != "mid":
                np.testing.assert_array_equal(whole.inputs[..., 0].T.ravel(), np.arange(120))
            for fold in range(5):
                train, valid = whole.fold(fold, 5, gap=gap)
                start, stop = 24 * fold, 24 * (fold + 1)
                block = list(range(start // 4, stop // 4))
                learned = [p for p in range(30) if 4 * p + 4 + gap <= start or 4 * p >= stop + gap]
                np.testing.assert_array_equal(train.inputs, whole.inputs[:, learned])
                np.testing.assert_array_equal(valid.inputs, whole.inputs[:, block])
                np.testing.assert_array_equal(valid.targets, whole.targets[:, block])
            with pytest.raises(UsageError, match="leave none for training or for validation"):
                whole.fold(2, 5, gap=50)


def test_folds_keep_whole_series_if_there_are_enough(tmp_path: Path) -> None:
    rows = [f"{who},{who}{t:02d},1\n" for who in range(1, 7) for t in range(10)]
    (tmp_path / "a.csv").write_text("who,t,y\n" + "".join(rows), encoding="utf-8")
    whole = Table(tmp_path / "a.csv", inputs=("t",), targets=("y",), case="who", pieces=4).sequences
    assert len(whole) == 18
    seen: list[float] = []
    for fold in range(3):
        train, valid = whole.fold(fold, 3)
        of_train, of_valid = ({int(t) // 100 for t in part.inputs[0, :, 0]} for part in (train, valid))
        assert not of_train & of_valid  # no series is in both
        assert len(of_valid) == 2
        assert len(valid) == 6
        seen += sorted(of_valid)
    assert sorted(seen) == [1, 2, 3, 4, 5, 6]
    assert seen != sorted(seen)
    assert whole.series is not None
    mixed = whole.chosen(np.arange(len(whole))[::-1])
    assert mixed.series is None
    with pytest.raises(UsageError, match="gap applies to blocks of time"):
        mixed.fold(0, 3, gap=1)
    few = whole.chosen(np.flatnonzero(whole.series < 2))  # two series, three folds: blocks of each
    train, valid = few.fold(0, 3, gap=4)
    assert valid.inputs[0, :, 0].tolist() == [100, 200]
    assert train.inputs[0, :, 0].tolist() == [108, 208]
    with pytest.raises(UsageError, match="gap applies to blocks of time"):
        whole.fold(0, 3, gap=4)
    with pytest.raises(DataError, match="series must be whole numbers"):
        Sequences(whole.inputs, whole.targets, whole.lengths, series=np.zeros(3, int))


LISTS = [np.arange(6.0).reshape(3, 2), np.arange(2.0).reshape(1, 2), np.arange(8.0).reshape(4, 2)]


def test_lists_of_cases_are_stacked() -> None:
    found = Sequences.of(LISTS, [case.sum(axis=1) for case in LISTS], [1, 2, 3])
    assert (found.time, len(found), found.by_step) == (4, 3, True)
    np.testing.assert_array_equal(found.lengths, [3, 1, 4])
    np.testing.assert_array_equal(found.weights, [1, 2, 3])
    for n, own in enumerate(LISTS):
        np.testing.assert_array_equal(found.inputs[: len(own), n], own)
        np.testing.assert_array_equal(found.targets[: len(own), n], own.sum(axis=1))
        assert not found.inputs[len(own) :, n].any()
    np.testing.assert_array_equal(found.inside(), np.arange(4)[:, None] < [3, 1, 4])
    for one, other in zip(padded(LISTS), (found.inputs, found.lengths), strict=True):
        np.testing.assert_array_equal(one, other)
    pieces = found.pieces(2)  # with the rest of each case
    np.testing.assert_array_equal(pieces.lengths, [2, 1, 1, 2, 2])
    np.testing.assert_array_equal(pieces.weights, [1, 1, 2, 3, 3])
    np.testing.assert_array_equal(pieces.inputs[:, 4], LISTS[2][2:])
    np.testing.assert_array_equal(pieces.targets[:1, 1], LISTS[0][2:].sum(axis=1))


def test_targets_may_belong_to_cases_or_be_labels() -> None:
    """Targets may belong to cases even if they have as many rows as the inputs."""
    whole = Sequences.of(LISTS, [2, 0, 1])
    assert not whole.by_step
    np.testing.assert_array_equal(whole.chosen([2, 0]).targets, [1, 2])
    for selected in (np.array([True, False, True]), slice(0, 3, 2), [0, -1]):
        np.testing.assert_array_equal(whole.chosen(selected).targets, [2, 1])
    for wrong in (np.array([True, False]), [0.9], ["0"], 1, [[0, 1]], [], [9], None, slice(3, 3)):
        with pytest.raises(DataError, match="cases must be indices of the 3 cases, a slice or a mask"):
            whole.chosen(wrong)
    labels = Sequences.of(LISTS, [[1, 0], [], [2]])
    np.testing.assert_array_equal(labels.targets, [[1, 0], [-1, -1], [2, -1]])
    assert labels.targets.dtype == np.int64
    x, labels = [X[:3, 0], X[:2, 1]], [[1, 2, 0], [1, 1]]
    assert Sequences.of(x, labels).targets.shape == (3, 2)
    np.testing.assert_array_equal(Sequences.of(x, labels, by_step=False).targets, [[1, 2, 0], [1, 1, -1]])


def test_missing_values_get_indicators_and_class_weights_balance() -> None:
    x = np.array([[1.0, np.nan], [np.nan, 0.0]])
    np.testing.assert_array_equal(with_missing(x), [[1, 0, 1, 0], [1, 0, 0, 1]])
    np.testing.assert_array_equal(with_missing(x, [5, 7]), [[1, 7, 1, 0], [5, 0, 0, 1]])
    ragged = np.array([[[36.0], [1.0]], [[np.nan], [3.0]], [[0.0], [np.nan]]])  # the first case has two steps
    found = with_missing(ragged, lengths=[2, 3])
    np.testing.assert_allclose(found[1, 0], [40 / 3, 0])
    np.testing.assert_allclose(found[2], [[40 / 3, 0], [40 / 3, 0]])
    with pytest.raises(DataError, match="lengths need x of shape"):
        with_missing(x, lengths=[1, 2])
    for fill in ([1, 2, 3], np.nan, "0"):
        with pytest.raises(DataError, match="with_missing: fill must be"):
            with_missing(x, fill)
    labels = np.array([0, 0, 0, 1, 2, 2])
    w = balanced_weights(labels)
    own = np.arange(1.0, 1 + labels.size).reshape(labels.shape)
    totals = [balanced_weights(labels, own)[labels == each].sum() for each in np.unique(labels)]
    np.testing.assert_allclose(totals, own.sum() / len(totals))
    np.testing.assert_allclose([w[labels == k].sum() for k in range(3)], 2)
    without = balanced_weights(labels, labels != 1)  # class 1 has no weight
    np.testing.assert_allclose([without[labels == k].sum() for k in range(3)], [2.5, 0, 2.5])


def test_cases_may_be_the_first_axis() -> None:
    draw = np.random.default_rng(0)
    x, weights = draw.standard_normal((5, 7, 2)), draw.uniform(size=5)  # (cases, time, width)
    kinds = (((5, 7, 3), None, True), ((5, 7), None, True), ((5, 3), None, False), ((5, 7), False, False))
    for shape, asked, by_step in kinds:
        with case(shape, asked):
            t = draw.integers(0, 9, shape)
            found = Sequences.cases_first(x, t, None, weights, asked)
            assert found.by_step == by_step
            np.testing.assert_array_equal(found.inputs, x.swapaxes(0, 1))
            np.testing.assert_array_equal(found.targets, t.swapaxes(0, 1) if by_step else t)
            np.testing.assert_array_equal(found.weights, weights)
            if by_step:
                w = abs(x[..., 0])
                np.testing.assert_array_equal(Sequences.cases_first(x, t, None, w).weights, w.T)
                with pytest.raises(DataError, match=r"begin with \(cases, time\), \[5, 7\] .*not \[7, 5\]"):
                    Sequences.cases_first(x, t, None, w.T)


def test_unsigned_labels_are_padded_with_minus_one() -> None:
    made = Sequences.of(
        [np.ones((2, 1)), np.ones((2, 1))], [np.array([200, 2], "uint8"), np.array([3], "uint8")]
    )
    assert made.targets.tolist() == [[200, 2], [3, -1]]
    for dtype in ("bool", "int8", "float32"):
        assert padded([np.ones(2, dtype), np.ones(1, dtype)])[0].dtype == dtype


def test_cases_of_two_dtypes_keep_their_values() -> None:
    assert padded([[3, -(2**53)], [0.5]])[0].T.tolist() == [[3, -(2**53)], [0.5, 0]]
    ids, _ = padded([np.array([2**63 + 5], "uint64"), np.array([7], "uint8")])
    assert ids.tolist() == [[2**63 + 5, 7]]
    assert Sequences.of([[1.0], [2.0]], [[2**62 + 1], []]).targets.tolist() == [[2**62 + 1], [-1]]


X, T = np.zeros((4, 3, 2)), np.zeros((4, 3), int)
#: what -> (the call, what the DataError names)
REFUSED: dict[str, tuple[Any, str]] = {
    "two lengths": (lambda: Sequences(X, T, [1, 2]), "lengths must be whole numbers (3,), one for each"),
    "a long case": (lambda: Sequences(X, T, [1, 2, 5]), "lengths must be in 1 ... 4 (the time steps of inputs); got 5"),
    "weights": (lambda: Sequences(X, T, None, np.ones((3, 4))), "weights must be [4, 3], one for each"),
    "targets": (lambda: Sequences(X, np.zeros((5, 3))), "targets must be (4, 3, ...) for each time step or"),
    "one number": (lambda: Sequences(X, np.float64(1)), "targets must be (4, 3, ...) for each time step or"),
    "steps": (lambda: Sequences(X, T, by_step=False), "targets must be (3, ...) for each case, not [4"),
    "turned": (lambda: Sequences(X, np.zeros((4, 5))), "for arrays with cases first use"),
    "no inputs": (lambda: Sequences(None, T), "inputs must be an array of numbers, not None"),
    "lists": (lambda: Sequences([[1], [1, 2]], T), "inputs must be an array of numbers, not"),
    "a number": (lambda: Sequences.of(5, [1]), "inputs must be a list of cases, not 5"),
    "numbers of different widths": (
        lambda: Sequences.of([[1], [2]], [[0.5, 1.0], [2.0]]), "must have the same shape in all cases, not (1,) and"),
    "a target": (lambda: Sequences.of([[1], [2]], 5), "targets must be a list of cases, not 5"),
    "no weights": (lambda: Sequences.of([[1], [2]], [1, 2], []), "weights must be one number for each of the 2"),
    "weights of another case": (
        lambda: Sequences.of([[1, 2], [2]], [[1, 2], [2]], [[1.0], [2.0, 1.0]]),
        "the weights of case 0 must have 2 time steps, as its inputs, not 1",
    ),
    "by step": (lambda: Sequences.of([[1], [2, 3]], [1, 2], by_step=True), "must have as many time steps"),
    "no cases": (lambda: Sequences.of([], []), "Sequences: there are no cases"),
    "no steps": (lambda: Sequences.of([np.zeros((0, 2))], [1]), "case 0 has no time steps"),
    "two widths": (lambda: Sequences.of([X[:, 0], X[:, 0, :1]], [1, 2]), "inputs of case 1 have the shape [4, 1]"),
    "padded": (lambda: padded(5), "padded: cases must be a list of cases, not 5"),
    "padded numbers": (lambda: padded([1, 2]), "padded: each case must be a sequence; case 0 is 1"),
    "padded nothing": (lambda: padded([]), "padded: there are no cases"),
    "padded unsigned": (lambda: padded([np.array([2**63 + 5], "uint64"), [7]]), f"all cases, may round {2**63 + 5}"),
    "padded large": (lambda: padded([[0.5], [3, -(2**53) - 1]]), "case 1 are int64, and float64, the common dtype"),
    "large targets": (lambda: Sequences.of([[1], [2]], [0.5, 2**53 + 1]), f"all cases, may round {2**53 + 1}; convert"),
    "missing": (lambda: with_missing([1, 2]), "with_missing: x must be floats"),
    "balanced": (lambda: balanced_weights([0.5]), "labels must be whole numbers, not float64"),
    "weights of classes": (lambda: balanced_weights([0, 1], [1, -1]), "at least 0 and not all 0, not [2] from -1 to 1"),
}  # fmt: skip


def test_invalid_arguments_are_rejected() -> None:
    for what, (call, said) in REFUSED.items():
        with case(what), pytest.raises(DataError, match=re.escape(said)):
            call()


def test_parquet_nulls_are_missing_values(tmp_path: Path) -> None:
    """Arrow's array of such a column has the last entry instead of the null."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, numbers = tmp_path / "a.parquet", [1.0, 2, 3, 4]
    for columns, choice, message in (
        (
            {"x": numbers, "y": numbers, "who": ["a", None, "b", "b"]},
            {"case": "who"},
            "row 2 of the column 'who' is 'None', an empty cell",
        ),
        ({"x": ["1", "?", "3", "7"], "y": numbers}, {}, "row 2 of the column 'x' is '\\?'"),
        ({"x": numbers, "y": ["1", "2", "?", "7"]}, {}, "row 3 of the column 'y' is '\\?'"),
    ):
        kept = {
            name: pa.array(column).dictionary_encode() if isinstance(column[0], str) else column
            for name, column in columns.items()
        }
        parquet.write_table(pa.table(kept), path)
        with case(message), pytest.raises(DataError, match=message):
            Table(path, targets=("y",), **choice).sequences  # type: ignore[arg-type]
    texts = pa.array(["1.5", "2", "1.5", "7"]).dictionary_encode()
    parquet.write_table(pa.table({"x": texts, "y": numbers}), path)
    assert Table(path, targets=("y",)).sequences.inputs.ravel().tolist() == [1.5, 2, 1.5, 7]


def test_unclosed_quotes_raise_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for text, line in (
        ('x,y,who\n1,.1,a\n2,.2,"a\n3,.3,b\n4,.4,b\n', 3),
        ('x,y,comment\n1,.1,fine\n2,.2,"5 inch\n3,.3,x\n5,.5,"x"\n', 3),
        ('x,y\n1,2\n3,"4"5\n', 3),
        ('x,"y\n1,2\n', 1),
    ):
        path.write_text(text)
        with case(text), pytest.raises(DataError, match=f"the row at line {line} cannot be read"):
            Table(path, inputs=("x",), targets=("y",)).sequences
    path.write_text('x,y,comment\n1,2,"two\nlines, ""quoted"""\n3,4,\n')
    assert Table(path, inputs=("x",), targets=("y",)).sequences.inputs.ravel().tolist() == [1, 3]


def test_values_equal_in_float32_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for first, step, fits in (
        (1_700_000_000, 1, False),
        (1_700_000_000, 3600, True),
        (0, 1e-9, True),
    ):
        rows = "".join(f"{first + i * step},{i}\n" for i in range(100))
        path.write_text("time,y\n" + rows)
        with case((first, step)):
            if fits:
                assert np.unique(Table(path, targets=("y",)).sequences.inputs).size == 100
                continue
            with pytest.raises(DataError, match="float32 rounds the values of the column 'time'"):
                Table(path, targets=("y",)).sequences
    path.write_text("time,y\n" + "1700000000,1\n1700000000,2\n")  # all alike: nothing is lost
    Table(path, targets=("y",)).sequences
    path.write_text("time,a,y\n" + f"1,2,5\n{2**64 + 1},4,1\n{2**64 + 2},3,2\n")
    with pytest.raises(DataError, match=r"row 2 .* must be less than 2\^63"):
        Table(path, targets=("y",), time="time").sequences


def test_lengths_may_be_unsigned(tmp_path: Path) -> None:
    x, lengths = np.zeros((5, 3, 2)), np.array([5, 4, 2], np.uint64)
    np.savez(tmp_path / "a.npz", x=x, y=x, lengths=lengths)
    for found in (
        read_inputs(tmp_path / "a.npz")[1],
        read_sequences(tmp_path / "a.npz").lengths,
    ):
        assert found is not None
        assert found.dtype == np.int64
        assert found.tolist() == [5, 4, 2]


def test_weights_of_values_of_whole_cases_with_cases_first() -> None:
    x, t, w = np.zeros((5, 7, 2)), np.ones((5, 3)), np.arange(15.0).reshape(5, 3)
    np.testing.assert_array_equal(Sequences.cases_first(x, t, None, w).weights, w)


def test_written_tables_are_read_back(tmp_path: Path) -> None:
    names = ["old\rname", "two\nlines", 'a "b", c', "", " x "]
    (tmp_path / "p.csv").write_bytes(table_bytes("p.csv", {"who\rwhat": names, "y": [1.5, 2, 3, 4, 5]}))
    with open(tmp_path / "p.csv", newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [
            ["who\rwhat", "y"],
            *map(list, zip(names, ["1.5", "2", "3", "4", "5"], strict=True)),
        ]


def test_horizons_that_need_too_much_memory_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "SMALL", 0)
    monkeypatch.setattr(memory, "available_memory", lambda: 10**6)
    rows = {"y": np.arange(1000.0) + 0.5}
    with pytest.raises(
        NotEnoughMemoryError, match=r"999 following rows.*use a smaller horizon \(--horizon\)"
    ):
        _ = Table(rows, targets="y", horizon=999).sequences
