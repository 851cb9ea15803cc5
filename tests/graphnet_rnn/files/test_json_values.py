"""Values written to files are read back unchanged, or rejected with a clear error."""

from __future__ import annotations

import enum
import json
import math
import os
import random
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Node
from graphnet_rnn.errors import CellError, SaveError
from graphnet_rnn.files.json_values import from_json, to_json
from graphnet_rnn.files.whole import append_line, cut, sync, write_atomically
from tests.tables import case


class Holding(rnn.Cell):
    """h' = tanh(x W_xh + h W_hh + b_h), with a setting of any kind"""

    states = (rnn.State("h"),)

    def __init__(self, units: int = 2, kept: Any = (1.0, 2.0)) -> None:
        super().__init__(units)
        self.kept = kept

    def step(self, x: Node, h: Node) -> Node:  # type: ignore[override]
        return gn.tanh(self.affine("h", x=x, h=h))


class Speed(enum.Enum):
    SLOW = 1


class Level(enum.IntEnum):
    LOW = 1


class Word(str, enum.Enum):  # noqa: UP042 (what older code has)
    YES = "yes"


@dataclass(frozen=True)
class Window:
    size: int = 3


Pair = namedtuple("Pair", "a b")


def same(a: Any, b: Any) -> bool:
    """True if types and all parts are equal. NaN equals itself; -0.0 differs from 0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, rnn.Cell):
        return same(a.settings(), b.settings())
    return repr(a) == repr(b)


def anything(generator: random.Random, depth: int = 3) -> Any:
    """A setting of any kind that a file can hold."""
    plain = [
        None, True, False, 0, -7, 2**70, 0.1, -0.0, 1e-320, math.inf, -math.inf, math.nan, "", "tanh", "ω\n\"\\\ud800",
        np.float32(0.1), np.float64(0.1), np.float16(2.5), np.int64(-3), np.uint8(200), np.bool_(True),
        np.float32(math.nan), rnn.LSTM(2), rnn.Residual(rnn.GRU(3)),
    ]  # fmt: skip
    kind = generator.choice(["plain", "plain", "tuple", "list", "dict"]) if depth else "plain"
    if kind == "plain":
        return generator.choice(plain)
    parts = [anything(generator, depth - 1) for _ in range(generator.randrange(4))]
    if kind == "dict":
        keys = ["list", "dict", "numpy", "value", "float", "cell", 3, (1, "a"), None, 2.5]
        return dict(zip(generator.sample(keys, len(parts)), parts, strict=True))
    return tuple(parts) if kind == "tuple" else parts


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, 4))])
def test_settings_round_trip_through_files(seed: int, tmp_path: Path) -> None:
    generator = random.Random(seed)
    for _ in range(50):
        value = anything(generator)
        network = rnn.Network([Holding(2, value)], 3, 3)
        rnn.save(network, tmp_path / "m")
        found = rnn.load(tmp_path / "m", Holding).layers[0]
        assert isinstance(found, Holding)
        assert same(found.kept, value), value
        assert network.settings() == json.loads(json.dumps(network.settings()))


def test_values_without_a_round_trip_are_rejected_on_save(tmp_path: Path) -> None:
    """Such a value is rejected alone, in a list and in a mapping."""
    values: list[Any] = [
        Speed.SLOW, Level.LOW, Word.YES, Window(), Pair(1, 2), OrderedDict(a=1), {1, 2}, frozenset(), b"bytes", 1j,
        range(3), np.zeros(2), np.longdouble(1), np.str_("a"), np.datetime64("2020-01-01"), Fraction(1, 2), gn.tanh,
        rnn.LSTM, Path("."), object,
    ]  # fmt: skip
    for value in values:
        for kept in (value, (1, [value]), {"a": value}):
            network = rnn.Network([Holding(2, kept)], 3, 3)
            with case(kept):
                with pytest.raises(
                    CellError, match=r"^Holding: the setting kept = .* cannot be stored in a model file"
                ) as caught:
                    rnn.save(network, tmp_path / "m")
                assert f"JSON cannot store a {type(value).__name__}." in str(caught.value)
                assert "\n" not in str(caught.value)
                assert not (tmp_path / "m").exists()


def test_invalid_stored_values_are_rejected() -> None:
    def described(entry: Any) -> Any:
        raise ValueError("no cell")

    for stored in (
        {}, {"list": 3}, {"list": [], "more": 1}, {"dict": [1]}, {"dict": [[1, 2, 3]]}, {"dict": [[{"list": []}, 1]]},
        {"float": "1"}, {"float": 1}, {"numpy": "float32"}, {"numpy": "object", "value": 1},
        {"numpy": "int8", "value": 300}, {"numpy": "int8", "value": "3"}, {"numpy": "float32", "value": 0.1},
        {"numpy": "int64", "value": 1.5}, {"numpy": "float32", "value": [1.0]}, {"cell": 3},
    ):  # fmt: skip
        with case(stored), pytest.raises(ValueError, match=r"."):
            from_json(stored, described)
    assert from_json([1, [2.5]], described) == (1, (2.5,)), "files from before lists were told from tuples"
    assert to_json(((1,), [2])) == [[1], {"list": [2]}]


class Forgetful(Holding):
    """A cell that makes another setting of the one it is given."""

    def __init__(self, units: int = 2, kept: Any = (1.0,)) -> None:
        super().__init__(units, [*kept, 1.0])


def test_check_cell_finds_settings_changed_by_saving() -> None:
    with pytest.raises(gn.GraphnetError, match=r"stores kept = .* write self.kept = kept"):
        rnn.testing.check_cell(Forgetful)
    rnn.testing.check_cell(Holding(2, (np.float32(0.5), [rnn.GRU(2)], {"a": (1,)})))


WRITERS: dict[str, Any] = {
    "append": lambda path: append_line(path, {"a": 1}), "cut": lambda path: cut(path, 0), "sync": sync,
    "write": lambda path: write_atomically(path, b"a"),
}  # fmt: skip


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no pipes by name")
def test_folder_or_pipe_in_place_of_a_file_raises_an_error(tmp_path: Path) -> None:
    """Python's message for a pipe ends in a full stop, which must not be doubled."""
    for make, names in ((Path.mkdir, WRITERS), (os.mkfifo, ("cut", "sync", "write"))):
        for name in names:
            path = tmp_path / f"{make.__name__} {name}"
            make(path)
            with case(path.name), pytest.raises(SaveError) as caught:
                WRITERS[name](path)
            said = str(caught.value)
            assert said.startswith(f"{path} could not be written: ")
            assert said.endswith("check the free space and the permissions.")
            assert ".." not in said
            assert "\n" not in said
