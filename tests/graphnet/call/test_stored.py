"""Compiled functions in files."""

from __future__ import annotations

import copy
import hashlib
import pickle
from pathlib import Path

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.backends import contents
from graphnet.backends.compiled.locations import HEADER
from graphnet.backends.numba import reach
from graphnet.backends.numba.machine import symbol_of, this_machine
from graphnet.backends.numba.program import NumbaProgram
from graphnet.backends.numba.reach import arena_end
from graphnet.backends.numba.records import form_of, restored_form
from graphnet.backends.numba.tape import address, runner
from graphnet.call import packing, stored
from graphnet.errors import BackendError, DtypeError, GraphnetError, ShapeError, ValueAccessError
from graphnet.graph.node import Array
from tests.graphnet.backends.conftest import output_of, require_close
from tests.graphnet.call.stored_mutants import sealed, split
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
    """Two of one name, one without a name, and one whose memory is strided, which is copied before each run."""
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


def test_arguments_are_checked_as_before(tmp_path: Path) -> None:
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


def test_what_no_file_can_hold_and_where_none_can_be(tmp_path: Path) -> None:
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

    def test_a_damaged_one(self, path: Path) -> None:
        """A bit of it, at several places, or its end; a missing one, and another kind of file."""
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
        with pytest.raises(BackendError, match="no function"):
            gn.load_function(path)

    def test_another_version_or_processor(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for place, name, value, words in (
            (stored, "__version__", "0.0.0", r"stored by graphnet .* this is 0\.0\.0"),
            (this_machine(), "processor_key", "x86_64 abacus +beads llvm 1.0", "another processor"),
        ):
            with monkeypatch.context() as other:
                other.setattr(place, name, value)
                with pytest.raises(BackendError, match=words):
                    gn.load_function(path)

    def test_memory_is_not_taken_for_what_is_claimed(self, path: Path) -> None:
        header, data = split(path.read_bytes())
        for name, value, words in (
            ("arena_bytes", 10**13, "its arena is of another size"),
            ("arena_bytes", 10**15, "the size of its arena"),
            ("arrays", [["a", "<f8", [10**12]]], "the array a is not there"),
            ("arrays", [["a", "<f8", [2**31, 2**31]]], "the shape of the array a"),
            ("inputs", [["x", [2**60], "<f4", "f", 1, False]], "a size of an input"),
        ):  # fmt: skip
            path.write_bytes(sealed({**header, name: value}, data))
            with pytest.raises(BackendError, match=words):
                gn.load_function(path)

    def test_addresses_outside_of_memory(self, path: Path) -> None:
        """Of every operand of every record: behind the arena, in its header, in no piece of memory; what is written, in
        a leaf."""
        function, _ = network_function()
        function.save(path)
        header, data = split(path.read_bytes())
        starts = np.cumsum([0] + [int(np.prod(s)) * np.dtype(d).itemsize for _, d, s in header["arrays"]])
        at = {name: int(start) for (name, *_), start in zip(header["arrays"], starts, strict=False)}
        sizes = {name: shape for name, _, shape in header["arrays"]}
        words, heads, kernels = (
            np.frombuffer(data, np.int64, sizes[name][0], at[name])
            for name in ("words.0.0", "heads.0.0", "kernels.0.0")
        )
        forms = [restored_form(form) for _, _, form in header["kernels"]]
        refused = 0
        for head, number in zip(heads[::32], kernels[::32], strict=True):
            record = words[head : head + forms[number].words].tolist()
            for operand in forms[number].operands:
                if reach._span(operand, record, reach.LONG) is None:
                    continue
                outside = [(1, header["arena_bytes"]), (1, 8), (header["leaves"] + 2, 0)]
                for piece, byte in outside + [(2, 0)] * operand.writes:
                    held = bytearray(data)
                    tape = np.frombuffer(held, np.int64, len(words), at["words.0.0"])
                    tape[head + operand.base] = address(piece, byte)
                    path.write_bytes(sealed(header, bytes(held)))
                    with pytest.raises(BackendError, match=r"an operand (reaches outside|lies in no memory)"):
                        gn.load_function(path)
                    refused += 1
        assert refused > 7

    def test_a_header_that_is_none(self, path: Path) -> None:
        header, data = split(path.read_bytes())
        for text in (b"[" * 100_000, b"1", b"{", b"\xff", b"", b'{"graphnet": ' + b"9" * 5000 + b"}"):
            with case(text[:20]):
                body = len(text).to_bytes(packing.LENGTH, "little") + text
                path.write_bytes(stored.MAGIC + hashlib.sha256(body).digest() + body)
                with pytest.raises(BackendError, match=r"its header|it has no header"):
                    gn.load_function(path)
        header["kernels"][0][1] = "\ud800"
        path.write_bytes(sealed(header, data))
        with pytest.raises(BackendError, match="the name of its kernel 0 has half of a character"):
            gn.load_function(path)

    def test_code_under_the_name_of_another_kernel(self, tmp_path: Path) -> None:
        """What is compiled later in this process does not get it."""
        x = gn.input((4,), "float64")
        wrong, right = gn.sin(x) * 1.375, gn.tanh(x) * 1.375
        gn.compile([wrong], [x]).save(tmp_path / "wrong")
        program = gn.compile([right], [x])._program
        (key,) = this_machine().keys(program.schedule.kernels)  # type: ignore[attr-defined]
        del program
        header, data = split((tmp_path / "wrong").read_bytes())
        ((_, symbol, form),) = header["kernels"]
        (start,) = [at for at in range(len(data)) if data.startswith(symbol.encode(), at)][:1]
        forged = data[:start] + symbol_of(key).encode() + data[start + len(symbol) :]
        sizes = [int(np.prod(shape)) * np.dtype(dtype).itemsize for _, dtype, shape in header["arrays"]]
        at = [name for name, *_ in header["arrays"]].index("kernel.0")
        code = forged[sum(sizes[:at]) : sum(sizes[: at + 1])]
        seal = contents.seal([symbol_of(key).encode(), restored_form(form).line().encode(), code])
        header["kernels"] = [[seal, symbol_of(key), form]]
        (tmp_path / "forged").write_bytes(sealed(header, forged))
        np.testing.assert_allclose(gn.load_function(tmp_path / "forged")(np.ones(4))[0], 1.375 * np.sin(1))
        held = gn.load_function(tmp_path / "forged")
        np.testing.assert_allclose(gn.compile([right], [x])(np.ones(4))[0], 1.375 * np.tanh(1))
        assert held is not None


@pytest.mark.parametrize("mutants", [120, pytest.param(600, marks=pytest.mark.slow)])
def test_odd_contents_under_a_seal_that_fits(mutants: int) -> None:
    """None ends the process, and none raises anything but a sentence; `stored_mutants` makes as many as one likes."""
    printed = output_of("-m", "tests.graphnet.call.stored_mutants", f"--mutants={mutants}", "--seed=7")
    counts = {line.split()[1]: int(line.split()[0]) for line in printed.splitlines()}
    assert counts["refused"] > mutants / 2
    assert counts["runs"] > mutants / 30


def test_what_records_touch_is_known() -> None:
    """Every record of every cell's gradient lies within its memory, and uses all of it but what cores keep apart.

    With one thread and with two, in turn."""
    for number, name in enumerate(sorted(rnn.cells.ALL)):
        net = rnn.Network([rnn.cells.ALL[name](9)], inputs=5, outputs=5, seed=1)
        u = net.unroll(time=3, batch=4)
        nodes = [u.cost, *gn.gradient(u.cost, list(net.parameters.values()))]
        with case(name):
            program = gn.compile(nodes, threads=1 + number % 2)._program
            assert isinstance(program, NumbaProgram)
            end = arena_end(program.schedule, [form_of(text) for text in program.schedule.kernels])
            assert program.schedule.arena_bytes // 3 < end <= program.schedule.arena_bytes
            write_where_they_say(program)


def write_where_they_say(program: NumbaProgram) -> None:
    """Every record, run by itself over memory full of noise, changes nothing but what its form says it writes."""
    memory, forms = program._arena.bytes, [form_of(text) for text in program.schedule.kernels]
    memory[HEADER:] = GENERATOR.integers(0, 256, len(memory) - HEADER)
    for location in program.schedule.copied_inputs:
        if location is not None:
            program.at(location)[...] = 1
    for section, (tapes, _) in zip(program._sections, program.schedule.sections, strict=True):
        for tape, words in zip(tapes, section.words, strict=True):
            for head, number in zip(tape.heads, tape.kernels, strict=True):
                form, record = forms[number], tape.words[head:].tolist()
                bounds = words.ctypes.data + 8 * np.array([head, head + form.words])
                before = memory.copy()
                runner()(bounds.ctypes.data)
                changed = memory != before
                changed[:HEADER] = False  # the flag
                for operand in form.operands:
                    span = reach._span(operand, record, reach.LONG)
                    if operand.writes and span:
                        at = record[operand.base] & (reach.LARGE - 1)
                        changed[at + span[0] : at + span[1]] = False
                assert not changed.any()


def test_copies_are_made_by_files(tmp_path: Path) -> None:
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
