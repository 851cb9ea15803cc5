"""Compiled functions in files."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.backends.numba.machine import this_machine
from graphnet.call import stored
from graphnet.errors import BackendError, DtypeError, GraphnetError, ShapeError, ValueAccessError
from graphnet.graph.node import Array
from tests.graphnet.backends.conftest import require_close
from tests.tables import case

GENERATOR = np.random.default_rng(3)


def network_function() -> tuple[gn.Function, list[Array]]:
    """Cost and gradient of a small LSTM, and arrays for it."""
    net = rnn.Network([rnn.LSTM(7)], inputs=5, outputs=5, seed=1)
    u = net.unroll(time=4, batch=3)
    nodes = [u.cost, *gn.gradient(u.cost, list(net.parameters.values()))]
    symbols = GENERATOR.integers(0, 5, (2, 4, 3))
    states = [GENERATOR.standard_normal((3, 7)).astype("float32") for _ in u.initial]
    return gn.compile(nodes, [u.inputs, u.targets, *u.initial]), [*symbols, *states]


def test_a_stored_function_gives_the_same_bits(tmp_path: Path) -> None:
    function, arrays = network_function()
    function.save(tmp_path / "f.gn")
    loaded = gn.load_function(tmp_path / "f.gn")
    require_close(loaded(*arrays), function(*arrays))
    assert loaded.memory == function.memory
    assert [n.describe() for n in loaded.inputs] == [n.describe() for n in function.inputs]


def test_parameters_are_set_by_name(tmp_path: Path) -> None:
    W = gn.parameter(np.eye(3), name="W")
    x = gn.input((2, 3), "float64", name="x")
    gn.compile([x @ W], [x]).save(tmp_path / "f.gn")
    W.value[...] = 7  # what is stored is what was there when it was saved
    loaded, array = gn.load_function(tmp_path / "f.gn"), np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(loaded(array)[0], array)
    loaded.parameters["W"][...] = 2 * np.eye(3)
    np.testing.assert_array_equal(loaded(array)[0], 2 * array)
    loaded.parameters["W"] = 3 * np.eye(3)
    np.testing.assert_array_equal(loaded(array)[0], 3 * array)
    assert (list(loaded.parameters), len(loaded.parameters)) == (["W"], 1)
    loaded.parameters.update({"W": 4 * np.eye(3, dtype="float32")})
    np.testing.assert_array_equal(loaded(array)[0], 4 * array)
    for name, value, error, words in (
        ("W", np.full((3, 3), 1j), DtypeError, "W is float64.* complex128"),
        ("V", np.eye(3), ValueAccessError, "no parameter 'V'; it has W"),
        ("W", np.ones(2), ShapeError, r"W .*shape \[2\]; its shape is \[3, 3\]"),
    ):
        with case(words), pytest.raises(error, match=words):
            loaded.parameters[name] = value


def test_all_parameters_can_be_set(tmp_path: Path) -> None:
    """Parameters with equal names, without a name, and with strided memory."""
    W, d = gn.parameter(np.asfortranarray(np.ones((2, 3))), name="W"), gn.parameter(np.ones(3))
    b, c = (gn.parameter(np.full(3, value), name="b") for value in (0.0, 1.0))
    gn.compile([gn.sum(W, 0) + b + 10 * c + d], []).save(tmp_path / "f.gn")
    loaded = gn.load_function(tmp_path / "f.gn")
    assert {"W", "b", "b_2"} < set(loaded.parameters)
    assert len(loaded.parameters) == 4
    np.testing.assert_array_equal(loaded()[0], [13.0] * 3)
    for name, value in (("W", np.full((2, 3), 3.0)), ("b", np.full(3, 0.5)), ("b_2", np.full(3, 2.0))):
        loaded.parameters[name] = value
    np.testing.assert_array_equal(loaded()[0], [27.5] * 3)


def test_held_draws_are_stored(tmp_path: Path) -> None:
    source, x = gn.RandomSource(seed=5), gn.input((40,), "float64")
    function = gn.compile([x * source.bernoulli(0.5, (40,), "float64")], [x])
    function.save(tmp_path / "f.gn")
    (expected,) = function(np.ones(40))
    source.redraw()
    np.testing.assert_array_equal(gn.load_function(tmp_path / "f.gn")(np.ones(40))[0], expected)


def test_loaded_functions_check_arguments(tmp_path: Path) -> None:
    function, (x, t, h, c) = network_function()
    function.save(tmp_path / "f.gn")
    loaded = gn.load_function(tmp_path / "f.gn")
    for arrays, error, words in (
        ((x, t, h), ShapeError, r"takes 4 array\(s\)"),
        ((x[:2], t, h, c), ShapeError, "was given an array of shape"),
        ((x, t, h.astype("float64") + 1e-12, c), DtypeError, "float64"),
        ((x + 5, t, h, c), GraphnetError, "index is out of range"),
    ):
        with case(words), pytest.raises(error, match=words):
            loaded(*arrays)


def test_unsupported_functions_and_invalid_paths_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for file, how, words in (
        ("f.gn", {"backend": "numpy"}, "backend='numba'"),
        ("f.gn", {"check": True}, "check=True"),
        ("folder", {}, "save: cannot write .*folder: it is a folder, not a file"),
    ):
        x = gn.input((3,))
        with case(words), pytest.raises(BackendError, match=words):
            gn.compile([gn.tanh(x)], [x], **how).save(tmp_path / file)
        assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    if Path("/dev/zero").exists():
        with pytest.raises(BackendError, match="cannot read /dev/zero: it is a device"):
            gn.load_function("/dev/zero")


class TestBadFiles:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        x = gn.input((3,))
        gn.compile([gn.tanh(x)], [x]).save(tmp_path / "f.gn")
        return tmp_path / "f.gn"

    def test_damaged_files_are_rejected(self, path: Path) -> None:
        """Flipped bits, truncated and missing files, and files of other kinds."""
        with pytest.raises(BackendError, match=r"cannot read .*nothing\.gn"):
            gn.load_function(path.parent / "nothing.gn")
        content = path.read_bytes()
        for place in (30, 100, 1000, -1, None):
            damaged = bytearray(content[:-100] if place is None else content)
            if place is not None:
                damaged[place] ^= 1
            path.write_bytes(damaged)
            with case(place), pytest.raises(BackendError, match="damaged"):
                gn.load_function(path)
        path.write_bytes(b"something else altogether")
        with pytest.raises(BackendError, match="not a function"):
            gn.load_function(path)

    def test_files_of_other_versions_or_processors_are_rejected(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for place, name, value, words in (
            (stored, "__version__", "0.0.0", r"stored by graphnet .* this is 0\.0\.0"),
            (this_machine(), "processor_key", "x86_64 abacus +beads llvm 1.0", "another processor"),
        ):
            with monkeypatch.context() as other:
                other.setattr(place, name, value)
                with pytest.raises(BackendError, match=words):
                    gn.load_function(path)


def test_pickling_and_copying_raise_errors(tmp_path: Path) -> None:
    x = gn.input((3,), name="x")
    function = gn.compile([gn.tanh(x)], [x])
    function.save(tmp_path / "f.gn")
    nodes = (x, gn.parameter(np.ones(3), name="x"))
    for how in (copy.copy, copy.deepcopy, pickle.dumps):
        with case(how.__name__):
            for held in (function, gn.load_function(tmp_path / "f.gn")):
                with pytest.raises(BackendError, match=r"pickled or copied.* function\.save\(path\)"):
                    how(held)
            for node in nodes:
                with pytest.raises(ValueAccessError, match=r"x\[3\] .*:\d+\) cannot be pickled"):
                    how(node)
