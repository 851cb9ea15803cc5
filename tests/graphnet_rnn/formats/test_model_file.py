"""Model files: exact round trips, and one-line errors for every kind of damage."""

from __future__ import annotations

import errno
import io
import json
import os
import re
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from safetensors.numpy import load as safetensors_load, save as safetensors_save

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Node
from graphnet_rnn.data import Vocabulary
from graphnet_rnn.errors import ModelFileError, SaveError
from graphnet_rnn.formats.digest import equation_digest, same_digest
from graphnet_rnn.formats.model_file import FORMAT, KEY, ModelFile, read_model_file
from tests.tables import case


def small(**settings: Any) -> rnn.Network:
    """A network with random weights and a vocabulary that needs escaping."""
    network = rnn.Network([rnn.GRU(2)], **{"inputs": 5, "outputs": 5, **settings})
    network.theta = np.random.default_rng(0).standard_normal(network.theta.size)
    network.vocabulary = Vocabulary('\n"\\é😀')
    return network


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    rnn.save(small(), path)
    return path


def same(a: rnn.Network, b: rnn.Network) -> bool:
    """True if two networks are bit-identical."""
    one, other = ((n.settings(), n.vocabulary, n.theta.dtype, n.theta.tobytes()) for n in (a, b))
    return one == other


def test_saved_models_round_trip_and_other_tools_read_them(tmp_path: Path) -> None:
    """Settings, vocabulary, notes, special numbers; folders are created. (Every cell: check_cell.)"""
    other = {"dropout": 0.25, "initial_state": "learned", "seed": 7, "skip": True, "dtype": "float64"}
    for how in ({}, other):
        with case(how):
            network, path = small(**how), tmp_path / f"of {len(how)}" / "b" / "m"
            network.theta[:4] = [-0.0, np.finfo("float32").max, -np.finfo("float32").max, np.float32(1e-45)]
            rnn.save(network, path, {"epoch": 3, "by": "ω"})
            loaded = rnn.load(path)
            assert same(loaded, network)
            assert loaded.vocabulary == Vocabulary('\n"\\é😀')
            assert read_model_file(path).description["notes"] == {"epoch": 3, "by": "ω"}
            tensors = {name: a.tobytes() for name, a in safetensors_load(path.read_bytes()).items()}
            assert tensors == {name: node.value.tobytes() for name, node in network.parameters.items()}
            rnn.save(loaded, tmp_path / "again", {"epoch": 3, "by": "ω"})
            assert path.read_bytes() == (tmp_path / "again").read_bytes(), "equal models give equal bytes"
    rnn.save(rnn.Network([rnn.Elman(2)], inputs=2, outputs=2, loss="squared"), path)
    assert rnn.load(path).vocabulary is None


def test_non_contiguous_arrays_survive(tmp_path: Path) -> None:
    """safetensors itself would write the underlying memory, in a wrong order, without an error."""
    whole = np.arange(24.0).reshape(4, 6)
    spread = np.broadcast_to(np.arange(3.0), (2, 3))
    for strided in (
        whole.T,
        whole[::2, 1::2],
        whole[0, ::-1],
        spread,
        np.zeros((0, 3)),
        whole[0, 0].reshape(()),
    ):
        with case(strided.shape, strided.strides):
            path = tmp_path / "m"
            path.write_bytes(ModelFile({"a": strided}, {"format": FORMAT}).to_bytes())
            found = read_model_file(path).tensors["a"]
            assert found.shape == strided.shape
            assert np.array_equal(found, strided)


class Leaky(rnn.Cell):
    """h' = ρ h + (1 - ρ) tanh(k (x W_xh + h W_hh + b_h)), k a single number"""

    states = (rnn.State("h"),)

    def __init__(self, units: int = 4, keep: float = 0.9) -> None:
        super().__init__(units)
        self.keep = keep

    def step(self, x: Node, h: Node) -> Node:  # type: ignore[override]
        k = self.weight("k", (), rnn.initializers.constant(0.7))
        return self.keep * h + (1 - self.keep) * gn.tanh(k * self.affine("h", x=x, h=h))


@pytest.fixture
def own(tmp_path: Path) -> Path:
    rnn.save(rnn.Network([Leaky(3, keep=0.5)], inputs=2, outputs=2), tmp_path / "own")
    return tmp_path / "own"


def test_own_cells(own: Path) -> None:
    loaded = rnn.load(own, [Leaky])
    assert repr(loaded.layers[0]) == "Leaky(units=3, keep=0.5)"
    assert same(loaded, rnn.Network([Leaky(3, keep=0.5)], inputs=2, outputs=2))
    assert loaded.parameters["layer0.k"].shape == ()


def test_unknown_cell_names_are_shortened_to_one_line(tmp_path: Path) -> None:
    for name in ("Leaky", "a\x1b]0;owned\x07\nTraceback:", "x" * 10_000):
        with case(name[:9]):
            network = rnn.Network([type(name, (Leaky,), {})(3, keep=0.5)], inputs=2, outputs=2)
            rnn.save(network, tmp_path / "own")
            with pytest.raises(ModelFileError, match="which is not part of graphnet") as caught:
                rnn.load(tmp_path / "own")
            assert name != "Leaky" or "rnn.load(path, [Leaky])" in str(caught.value)
            assert str(caught.value).isprintable()
            assert len(str(caught.value)) < 500


def test_a_changed_cell_is_reported(own: Path) -> None:
    def other_weights(self: rnn.Cell, x: Node, h: Node) -> Node:
        return gn.tanh(self.affine("new", x=x, h=h))

    def other_equations(self: rnn.Cell, x: Node, h: Node) -> Node:
        return gn.sin(Leaky.step(self, x, h))

    with pytest.raises(
        ModelFileError, match=r"the cell Leaky cannot be created with .*keep.*may have changed"
    ):
        rnn.load(own, [type("Leaky", (rnn.Elman,), {})])
    with pytest.raises(ModelFileError, match=r"the weight layer0\.W_xnew is missing, or its shape is not"):
        rnn.load(own, [type("Leaky", (Leaky,), {"step": other_weights})])
    with pytest.warns(
        UserWarning, match=r"own: .* the equations of Leaky, or constants in them, have changed"
    ) as caught:
        rnn.load(own, [type("Leaky", (Leaky,), {"step": other_equations})])
    assert caught[0].filename == __file__


def test_equation_digests_differ_between_cells() -> None:
    """Digests differ between architectures, except those with equal equations."""
    one = {"EchoState": "Elman", "Equations": "GRU"}  # weights of one shape are equal
    found: dict[tuple[float, ...], str] = {}
    for name, cell in rnn.cells.ALL.items():
        key = tuple(equation_digest(rnn.Network([cell().resized(4)], 5, 5)))
        assert len(key) == 8, name
        other = found.setdefault(key, name)
        assert other == one.get(name, name), (
            f"the digests of {name} and {other} are equal; if their equations are, where weights of one shape are "
            "equal, add the pair to `one`"
        )
    nets = (rnn.Network([rnn.GRU(4)], 5, 5, seed=s, dtype=d) for s, d in ((0, "float32"), (1, "float64")))
    assert same_digest(*map(equation_digest, nets)), "they are of the equations alone"


def test_tensors_that_change_their_names_are_found(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    rnn.save(rnn.Network([rnn.GRU(3)], 4, 4), path)
    content = path.read_bytes()
    for a, b in ((b'"layer0.W_hr"', b'"layer0.W_hz"'), (b'"layer0.W_xr"', b'"layer0.W_xz"')):
        assert content.count(a) == content.count(b) == 1
        path.write_bytes(content.replace(a, b"\0other\0").replace(b, a).replace(b"\0other\0", b))
        with pytest.raises(ModelFileError, match="content does not match its checksum"):
            rnn.load(path)


def test_file_without_equations_is_loaded(model: Path) -> None:
    file = read_model_file(model)
    description = {key: value for key, value in file.description.items() if key != "equations"}
    model.write_bytes(ModelFile(file.tensors, description).to_bytes())
    assert same(rnn.load(model), small())


def refused(path: Path) -> bool:
    """True if the file is refused in one sentence; False if it loads as the original network."""
    try:
        loaded = rnn.load(path)
    except ModelFileError as error:
        sentence = str(error)
    else:
        assert same(loaded, small()), "a damaged file was loaded as another network"
        return False
    assert str(path) in sentence
    assert "\n" not in sentence
    return True


def test_every_bit_flip_is_rejected(model: Path, tmp_path: Path) -> None:
    """Nearly all bit flips are rejected; others must be harmless."""
    content = model.read_bytes()
    generator = np.random.default_rng(0)
    header = 8 + int.from_bytes(content[:8], "little")
    flips = [generator.integers(64, 8 * header, 150), generator.integers(8 * header, 8 * len(content), 60)]
    damaged, accepted = tmp_path / "damaged", 0
    for bit in map(int, (*range(64), *flips[0], *flips[1])):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        damaged.write_bytes(flipped)
        accepted += not refused(damaged)
    assert accepted <= 2


def test_every_truncation_and_addition_is_rejected(model: Path, tmp_path: Path) -> None:
    content = model.read_bytes()
    cuts = {0, 1, 7, 8, 9, len(content) - 1, *np.linspace(0, len(content) - 1, 30).astype(int).tolist()}
    added = [content + more for more in (b"\0", b"{}", b"x" * 1000)]
    for changed in (*added, *(content[:cut] for cut in cuts)):
        (tmp_path / "changed").write_bytes(changed)
        assert refused(tmp_path / "changed"), len(changed)


W = {"w": np.zeros(3)}
NO_MODEL = "is not a graphnet model"
#: Kind of file -> (content, error).
NOT_A_MODEL: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", NO_MODEL),
    "zeros": (bytes(64), NO_MODEL),
    "ones": (b"\xff" * 64, NO_MODEL),
    "tensors": (safetensors_save(W), NO_MODEL),
    "of torch": (safetensors_save(W, {"format": "pt"}), NO_MODEL),
    "a list": (safetensors_save(W, {KEY: "[]"}), NO_MODEL),
    "half a text": (safetensors_save(W, {KEY: "{"}), "is damaged: its header cannot be read"),
    "no format": (safetensors_save(W, {KEY: "{}"}), "is damaged: its format version is missing or invalid"),
    "no checksum": (safetensors_save(W, {KEY: '{"format": 1}'}), "is damaged: its content does not"),
    "no network": (ModelFile(W, {"format": FORMAT}).to_bytes(), "holds no model"),
    "a new format": (
        safetensors_save(W, {KEY: json.dumps({"format": FORMAT + 1})}),
        f"is of format {FORMAT + 1}, newer than this program reads ({FORMAT}); update graphnet.",
    ),
}


def test_other_files_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    for what, (content, sentence) in NOT_A_MODEL.items():
        with case(what):
            path.write_bytes(content)
            with pytest.raises(ModelFileError, match=re.escape(f"{path} {sentence}")):
                rnn.load(path) if "holds" in sentence else read_model_file(path)
    with pytest.raises(ModelFileError, match=re.escape(f"there is no file {tmp_path / 'none'}.")):
        rnn.load(tmp_path / "none")
    with pytest.raises(ModelFileError, match=re.escape(f"{tmp_path} is a folder; name a file in it.")):
        rnn.load(tmp_path)


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class FullDisk(io.FileIO):
    """Writes ten bytes; then the disk is full."""

    def write(self, content: Any) -> int:
        super().write(content[:10])
        raise FULL


OPEN = "graphnet.system.files.open"
#: Function that fails while writing a file, and how.
FAILING: dict[str, tuple[str, Any, type[BaseException]]] = {
    "open": (OPEN, mock.Mock(side_effect=PermissionError(13, "Permission denied")), SaveError),
    "write": (OPEN, FullDisk, SaveError),
    "fsync": ("os.fsync", mock.Mock(side_effect=FULL), SaveError),
    "replace": ("os.replace", mock.Mock(side_effect=FULL), SaveError),
    "interrupted": ("os.replace", mock.Mock(side_effect=KeyboardInterrupt), KeyboardInterrupt),
}


def test_failed_write_leaves_the_old_file(model: Path) -> None:
    before, said = model.read_bytes(), "could not be written: .*Files that were saved before are unchanged"
    for where, (function, failing, error) in FAILING.items():
        with case(where), pytest.MonkeyPatch.context() as planted:
            planted.setattr(function, failing, raising=False)
            with pytest.raises(error, match=said if error is SaveError else None):
                rnn.save(small(seed=9), model)
            assert model.read_bytes() == before
            assert [p.name for p in model.parent.iterdir()] == [model.name], "nothing is left lying about"
    for way in (model / "inside a file" / "m", model.parent):
        with case(way), pytest.raises(SaveError, match="could not be written: "):
            rnn.save(small(), way)
    assert model.read_bytes() == before
    assert [p for p in model.parent.parent.iterdir() if p.name.endswith(".part")] == []
    rnn.save(small(seed=9), model)
    assert model.read_bytes() != before


def test_truncated_networks_round_trip_through_files(tmp_path: Path) -> None:
    """`truncated` is a setting of the network, not a hidden state of its layers."""
    plain = rnn.Network([rnn.LSTM(3), rnn.Dense(4), rnn.LSTM1997(2)], 5, 5, dtype="float64", skip=True)
    cut = rnn.online.truncated(plain)
    rnn.save(cut, tmp_path / "cut")
    loaded = rnn.load(tmp_path / "cut")
    assert loaded.truncated
    assert same(loaded, cut)
    assert rnn.Network(cut.layers, 5, 5, dtype="float64", skip=True).settings() == plain.settings()
    with pytest.raises(gn.GraphnetError, match=r"GRU.* cannot be truncated"):
        rnn.Network([rnn.GRU(2)], 3, 3, truncated=True)
