"""Damaged files are read or give one-line errors, with no more memory than whole ones."""

from __future__ import annotations

import contextlib
import gzip
import struct
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.errors import GraphnetError
from graphnet.system.json_lines import read_rows
from graphnet_rnn.apps.sweep.recipe import Recipe
from graphnet_rnn.data import Table, read_images, read_midi, read_sequences, read_text, write_midi
from graphnet_rnn.data.sequence_files import read_inputs
from graphnet_rnn.data.table_files import TABLES
from graphnet_rnn.errors import DataError
from graphnet_rnn.formats import from_torch, to_torch
from tests.graphnet_rnn.data.test_data_files import write_table
from tests.tables import case

DRAW = np.random.default_rng(0)
X, Y = DRAW.random((4, 3, 2)), DRAW.random((4, 3))
RECIPE = """data = "a.txt"
seeds = 2
method = "random"
trials = 4
[settings]
cell = { values = ["LSTM(units=6)", "GRU(units=7)"] }
rate = { log = [1e-4, 1e-2] }
"""


def arrays(path: Path) -> None:
    np.savez(path, x=X, y=Y)


def packed(path: Path) -> None:
    np.savez_compressed(path, x=X, y=Y)


def table(path: Path) -> None:
    write_table(path, {"a": DRAW.random(12), "b": DRAW.random(12), "k": np.arange(12) % 3})


def music(path: Path) -> None:
    write_midi(path, (DRAW.random((20, 88)) < 0.05) * 1.0)


def images(path: Path) -> None:
    content = struct.pack(">HBBIII", 0, 8, 3, 5, 4, 4) + DRAW.bytes(80)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def model(path: Path) -> None:
    rnn.save(rnn.Network([rnn.GRU(3)], 4, 4), path)


def weights(path: Path) -> None:
    save_file(to_torch(rnn.Network([rnn.LSTM(3)], 4, 4)), path, {"format": "pt"})


def function(path: Path) -> None:
    x = gn.input((3,))
    gn.compile([gn.tanh(x)], [x]).save(path)


def sequences(path: Path) -> None:
    if path.suffix in TABLES:
        _ = Table(path, targets="k").sequences
    else:
        read_sequences(path)
        read_inputs(path)


#: Name of the file -> what writes it, and what reads it.
KINDS: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any]]] = {
    "arrays.npz": (arrays, sequences),
    "packed.npz": (packed, sequences),
    "table.csv": (table, sequences),
    "table.parquet": (table, sequences),
    "music.mid": (music, read_midi),
    "images.idx": (images, read_images),
    "images.gz": (images, read_images),
    "text.txt": (lambda path: path.write_text("Ein Täubchen — ruckediguh. " * 9, "utf-8"), read_text),
    "recipe.toml": (lambda path: path.write_text(RECIPE, "utf-8"), Recipe.read),
    "rows.jsonl": (
        lambda path: path.write_text('{"kind": "start"}\n' * 9, "utf-8"),
        lambda path: read_rows(path, DataError),
    ),
    "model": (model, rnn.load),
    "weights.safetensors": (weights, from_torch),
    "function.gn": (function, gn.load_function),
}


def damaged(content: bytes, draw: np.random.Generator) -> bytes:
    """With bytes that are others, more, fewer, or not there."""
    start, stop = sorted(draw.integers(0, len(content) + 1, 2).tolist())
    noise = draw.bytes(int(draw.integers(1, 8)))
    other = bytearray(content)
    for at in draw.integers(len(content), size=3):
        other[at] = draw.integers(256)
    ways = (
        content[:stop], content[:start] + content[stop:], content[:start] + noise + content[start:],
        content[:start] + noise + content[start + len(noise):], bytes(other),
    )  # fmt: skip
    return ways[draw.integers(len(ways))]


@contextlib.contextmanager
def memory(path: Path) -> Iterator[None]:
    """AssertionError for more than 2 MB, or ten hours of music. Arrow's threads cannot be traced (gh-128679)."""
    if path.suffix == ".parquet":
        yield
        return
    most = 36_000 * 10 * 88 * 4 + 2e6 if path.suffix == ".mid" else 2e6
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("count", [60, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", KINDS)
def test_damaged_files_are_read_or_rejected(tmp_path: Path, name: str, count: int) -> None:
    write, read = KINDS[name]
    draw, path, said = np.random.default_rng(count), tmp_path / name, []
    write(path)
    content = path.read_bytes()
    read(path)
    for number in range(count):
        path.write_bytes(damaged(content, draw))
        with case(number, path), warnings.catch_warnings(), memory(path):
            warnings.simplefilter("error")
            try:
                read(path)
            except GraphnetError as error:
                said.append(str(error))
    assert len(said) > 0.2 * count
    assert not any("\n" in sentence for sentence in said)
