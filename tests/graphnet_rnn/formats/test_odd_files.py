"""Any file gives at most a one-line error and uses little memory, with a valid checksum or not."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load as safetensors_load, save as safetensors_save

import graphnet_rnn as rnn
from graphnet_rnn import optimizers
from graphnet_rnn.apps.cli import main
from graphnet_rnn.errors import DataError, ModelFileError, UsageError
from graphnet_rnn.formats import from_torch, to_torch
from graphnet_rnn.formats.model_file import ModelFile, read_model_file
from graphnet_rnn.training import RunFolder, Trainer, Training
from tests.graphnet_rnn.formats import resealed as odd
from tests.graphnet_rnn.formats.resealed import PLAIN, doubled, nested, parts_of
from tests.tables import case, usual_recursion

MOST = 50e6
TEXT = "abcd" * 40 + "dcba" * 40
Read = Callable[[Path], Any]


def model(kind: str) -> rnn.Network:
    layers: dict[str, list[rnn.Cell]] = {
        "LSTM": [rnn.LSTM(3), rnn.Dense(2)],
        "wrapped": [rnn.Residual(rnn.Hyper(rnn.GRU(4), rank=2)), rnn.Bidirectional(3)],
        "graph": [rnn.GLNN(6, edges=3, frequencies=[1.0, 2.0, 3.0, 4.0]), rnn.NARX(3, order=2)],
        "more": [rnn.StackedMRNN((2, 3)), rnn.EchoState(5), rnn.RHN(2, depth=3)],
    }
    network = rnn.Network(layers[kind], 4, 4, skip=kind == "more", initial_state="learned", dropout=0.1)
    network.vocabulary = rnn.data.Vocabulary("abcd")
    return network


def models(folder: Path) -> Iterator[tuple[str, bytes, Read]]:
    for kind in ("LSTM", "wrapped", "graph", "more"):
        rnn.save(model(kind), folder / "m", {"epoch": 3})
        yield kind, (folder / "m").read_bytes(), rnn.load


def checkpoints(folder: Path) -> Iterator[tuple[str, bytes, Read]]:
    network = rnn.Network([rnn.LSTM(3)], 4, 4, dropout=0.2, initial_state="learned")
    problem = rnn.CarriedText(network, rnn.data.Corpus.split(TEXT), time=5, batch=4, sample=0)
    run = Trainer(problem, Training(optimizers.Adam(0.01), epochs=1), folder / "run")
    run.run()
    (newest,) = run.folder.checkpoints()[-1:]
    for other in run.folder.checkpoints()[:-1]:
        other.unlink()

    def resume(path: Path) -> None:
        newest.write_bytes(path.read_bytes())
        run.resume()

    yield "run", newest.read_bytes(), resume


def modules(folder: Path) -> Iterator[tuple[str, bytes, Read]]:
    for cell in (rnn.LSTM, rnn.GRUResetAfter):
        network = rnn.Network([cell(3), cell(3)], 4, 5, initial_state="learned")
        yield cell.__name__, safetensors_save(to_torch(network), {"format": "pt"}), from_torch


@contextlib.contextmanager
def memory(most: float) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def refused(read: Read, path: Path, content: bytes) -> bool:
    """Returns True if the file is refused. Fails for longer errors, several warnings, or more than 50 MB."""
    path.write_bytes(content)
    sentence = ""
    with memory(MOST), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            read(path)
        except (ModelFileError, UsageError, DataError) as error:
            sentence = str(error)
            assert "\n" not in sentence, sentence
            assert 20 < len(sentence) < 1500, sentence
    assert len(caught) <= 1, [str(each.message) for each in caught]
    return sentence != ""


def mutated(kind: str, content: bytes, generator: random.Random) -> bytes:
    if generator.random() < 0.15:
        return odd.odd_header(content, generator)
    if kind != "torch":
        return odd.odd_file(content, generator)
    return safetensors_save(odd.odd_tensors(dict(safetensors_load(content)), generator), {"format": "pt"})


SORTS: dict[str, Any] = {"model": (models, 15), "checkpoint": (checkpoints, 25), "torch": (modules, 20)}
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", SORTS)
def test_odd_files_give_one_line_errors(kind: str, seed: int, tmp_path: Path) -> None:
    (make, count), found = SORTS[kind], []
    for sort, content, read in make(tmp_path):
        assert not refused(read, tmp_path / "odd", content), sort
        generator = random.Random(f"{seed} {sort}")
        for number in range(13 * count if seed else count):
            changed = mutated(kind, content, generator)
            with case(sort, number, tmp_path / "odd"):
                found.append(refused(read, tmp_path / "odd", changed))
    assert sum(found) > 0.5 * len(found)


HUGE = {"cell": "GNN", "units": 10**6, "edges": 10**5}
LSTM = {"cell": "LSTM", "units": 30_000}
GNN = {"cell": "GNN", "units": 4, "edges": 2}
RHN = {"cell": "RHN", "units": 4, "depth": 200_000}
SEEN: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown setting": ({"model": {"colour": 1}}, "a Network has no setting 'colour'"),
    "a setting that is missing": ({"model": {"inputs": ...}}, "its settings are invalid"),
    "no layers": ({"model": {"layers": ...}}, "its settings are invalid"),
    "another kind": ({"model": {"variational": [1]}}, "variational must be True or False, not (1,)"),
    "no bias": ({"tensors": lambda t: {k: t[k] for k in t if k != "output.b_o"}}, "weight output.b_o is"),
    "another dtype": ({"tensors": lambda t: t | {"output.b_o": np.zeros(4, int)}}, "output.b_o is int64"),
    "equations of words": ({"equations": ["a"]}, "its digest of equations is ['a'], not numbers"),
    "equations that are none": ({"equations": {"a": 1}}, "its digest of equations is {'a': 1}, not numbers"),
    "a vocabulary of numbers": ({"vocabulary": [1, 2]}, "Vocabulary: characters must be a str, not [1, 2]"),
    "a vocabulary twice": ({"vocabulary": "aabc"}, "Vocabulary: characters must be sorted and different"),
    "a vocabulary of another size": ({"vocabulary": "abcde"}, "a vocabulary of 5 characters does not fit"),
    "units that are not there": ({"model": {"layers": [LSTM]}}, "is missing, or its shape is not [4"),
    "no such inputs": ({"model": {"inputs": 2**31 - 1}, "vocabulary": None}, "[2147483647, 3]"),
    "no such delays": ({"model": {"layers": [{"cell": "NARX", "order": 10**9}]}}, "has at least"),
    "no such graph": ({"model": {"layers": [HUGE]}}, "has at least 100000000000 weights"),
    "a size that no input has": ({"model": {"inputs": 10**8, "layers": [GNN]}, "vocabulary": None}, "cannot be"),
    "a depth that no weight has": ({"model": {"layers": [RHN]}}, "cannot be created"),
    "unsaid cells": ({"model": {"layers": [doubled(60)]}}, "the cell for its setting"),
    "cells within each other": ({"model": {"layers": [nested(300)]}}, "nested too deeply"),
}  # fmt: skip


def test_known_bad_files_give_one_line_errors(tmp_path: Path) -> None:
    """The checksum is valid. No memory is allocated for sizes that only the description claims."""
    network, path = rnn.Network([rnn.LSTM(3)], 4, 4), tmp_path / "odd"
    network.vocabulary = rnn.data.Vocabulary("abcd")
    rnn.save(network, path)
    file = read_model_file(path)
    for what, (changed, said) in SEEN.items():
        with case(what):
            model = {**network.description(), **changed.get("model", {})}
            model = {name: value for name, value in model.items() if value is not ...}
            tensors = changed.get("tensors", dict)(file.tensors)
            described = {**file.description, **changed, "model": model}
            described.pop("tensors", None)
            path.write_bytes(ModelFile(tensors, described).to_bytes())
            with (
                usual_recursion(),
                memory(5e6),
                pytest.raises(ModelFileError, match=re.escape(said)) as caught,
            ):
                rnn.load(path)
            assert str(caught.value).startswith(str(path))
            assert "\n" not in str(caught.value)


def test_large_files_of_other_kinds_are_not_read(tmp_path: Path) -> None:
    """Sparse files of 64 GiB, which take no space on the disk."""
    long, longer = ((1 << bits).to_bytes(8, "little") + b"{" for bits in (23, 35))
    with memory(5e7):
        for number, start in enumerate((b"", long, longer, safetensors_save({"w": np.zeros(3)}))):
            path = tmp_path / str(number)
            path.write_bytes(start)
            os.truncate(path, 1 << 36)
            for read in (rnn.load, from_torch):
                with pytest.raises(ModelFileError, match=re.escape(str(path))):
                    read(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_pipes_and_devices_do_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path / "pipe", "a pipe"), (Path("/dev/zero"), "a device")):
        with pytest.raises(ModelFileError, match=f"{path} is {kind}; name a file"):
            rnn.load(path)


def test_too_long_descriptions_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="must together be shorter than"):
        rnn.save(rnn.Network([rnn.LSTM(3)], 4, 4), tmp_path / "m", {"all": "x" * (1 << 24)})
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(("seed", "count"), [(0, 10), pytest.param(1, 100, marks=pytest.mark.slow)])
def test_resuming_with_odd_arguments_gives_one_line_errors(
    seed: int, count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Arguments stored in a checkpoint are used, or rejected with a one-line error."""
    (tmp_path / "text").write_text(TEXT, encoding="utf-8")
    arguments = ["--units", "3", "--epochs", "1", "--sample", "0", "--time", "5", "--batch", "4", "--out"]
    assert main(["train", "--quiet", str(tmp_path / "text"), *arguments, str(tmp_path / "run")]) == 0
    (newest,) = RunFolder(tmp_path / "run").checkpoints()[-1:]
    whole, generator = newest.read_bytes(), random.Random(seed)
    capsys.readouterr()
    for _ in range(count):
        tensors, description = parts_of(whole)
        kept = description["training"]["notes"]["arguments"]
        name, value = generator.choice(sorted(kept)), generator.choice(PLAIN)
        kept[name] = value
        if generator.random() < 0.1:
            description["training"]["notes"] = value
        if generator.random() < 0.2:  # a claim that all of the description agrees with
            kept["units"] = 30_000
            for network in (description["model"], description["training"]["run"]["model"]):
                network["layers"][0]["units"] = 30_000
        newest.write_bytes(ModelFile(tensors, description).to_bytes())
        for other in RunFolder(tmp_path / "run").checkpoints():
            if other != newest:
                other.unlink()
        with memory(MOST):
            code = main(["train", "--quiet", "--resume", str(tmp_path / "run")])
        said = capsys.readouterr().err
        assert code in (0, 1, 2), (name, value)
        assert code == 0 or re.fullmatch(r"graphnet-rnn train: .{20,1500}\n", said), (name, value, said)


def test_large_descriptions_are_rejected_before_parsing(tmp_path: Path) -> None:
    """Parsed, each byte of the description would take 70 bytes of memory."""
    rnn.save(model("LSTM"), tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    described = json.loads(header["__metadata__"]["graphnet"])
    described["model"]["layers"] = [[[[]] * 100] * 100] * 100
    header["__metadata__"]["graphnet"] = json.dumps(described)
    head = json.dumps(header).encode()
    (tmp_path / "m").write_bytes(len(head).to_bytes(8, "little") + head + content[8 + length :])
    with memory(4 * len(head)), pytest.raises(ModelFileError, match="its header cannot be read"):
        rnn.load(tmp_path / "m")
