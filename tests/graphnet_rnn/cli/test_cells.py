"""Cells on the command line: of one's own, from anywhere, with settings, with parts; and the list of all."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn.cli import main
from graphnet_rnn.cli.user_cells import find_cell, make_cell, own_cells
from tests.tables import case

TEXT = "a cat sat on a mat, and a rat sat on the cat. " * 30
SMALL = ["--time", "10", "--batch", "4", "--epochs", "1", "--sample", "0", "--quiet"]

#: In a file that is called like a module of Python's, and which imports another that lies beside it.
CELLS = '''
import graphnet as gn
import graphnet_rnn as rnn
from beside_it import squash


class Slow(rnn.Cell):
    """s' = k s + (1 - k) (x, h);  h' = tanh(x, h, s');  y = [h', s']"""

    states = (rnn.State("h"), rnn.State("s", "slow"))
    output = rnn.State("y", "both")
    sizes = ("units", "slow")

    def __init__(self, units=6, slow=2, keep=0.9, *, initial=None):
        super().__init__(units, initial=initial)
        self.slow, self.keep = slow, keep

    @property
    def both(self):
        return self.units + self.slow

    def step(self, x, h, s):
        s = self.keep * s + (1 - self.keep) * self.affine("s", x=x, h=h, units=self.slow)
        h = squash(self.affine("h", x=x, h=h, s=s))
        return gn.concatenate([h, s], axis=1), h, s


class Layer(rnn.Cell):
    """y = relu(x W_xy + b_y)"""

    output = rnn.State("y")

    def __init__(self, units=5):
        super().__init__(units)

    def step(self, x):
        return gn.relu(self.affine("y", x=x))


class Outer(rnn.Cell):
    """y = inner(x) W_iy + b_y"""

    output = rnn.State("y")

    def __init__(self, units=4, inner=None):
        super().__init__(units)
        self.inner = Slow(3) if inner is None else inner
        self.states = tuple(
            rnn.State(f"{s.name}_inner", n) for s, n in zip(self.inner.states, self.inner.widths)
        )

    def step(self, x, *states):
        i, after = self.part("inner", self.inner, x.shape[1]).advance(x, states)
        return self.affine("y", i=i), *after


class Needy(rnn.Cell):
    """A cell without defaults"""

    states = (rnn.State("h"),)

    def __init__(self, units, speed):
        super().__init__(units)
        self.speed = 1 / speed

    def step(self, x, h):
        return gn.tanh(self.affine("h", x=x, h=h))
'''


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in, with text.txt; ../cells/random.py holds the cells."""
    (tmp_path / "work").mkdir()
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "random.py").write_text(CELLS, encoding="utf-8")
    (tmp_path / "cells" / "beside_it.py").write_text(
        "from graphnet import tanh as squash\n", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(sys, "path", sys.path[:])
    Path("text.txt").write_text(TEXT, encoding="utf-8")
    yield tmp_path / "work"
    sys.modules.pop("beside_it", None)
    sys.modules.pop("random.py", None)


def sentence(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command that must fail says."""
    capsys.readouterr()
    assert main(arguments) in (1, 2)
    said = capsys.readouterr().err
    assert said.startswith(f"graphnet-rnn {arguments[0]}: ")
    return said.rstrip("\n")


# -- every command with every kind of cell -------------------------------------------------------------


@pytest.mark.parametrize(
    "cell",
    [
        "{here}/../cells/random.py:Slow(units=5, slow=3)",
        "../cells/random.py:Layer",
        "../cells/random.py:Outer(3, inner=Slow(2, keep=0.5))",
        "Residual(GRU(3))",
    ],
)
def test_every_command_takes_the_cell(elsewhere: Path, capsys: pytest.CaptureFixture[str], cell: str) -> None:
    cell = cell.format(here=elsewhere)
    assert main(["train", "text.txt", "--cell", cell, *SMALL, "--out", "run"]) == 0
    model = "run/model.safetensors"
    assert main(["sample", model, "--cell", cell, "--length", "5"]) == 0
    assert main(["evaluate", model, "text.txt", "--cell", cell]) == 0
    assert "bits/char" in capsys.readouterr().out
    assert main(["draw", model, "--cell", cell, "--out", "model.dot", "--time", "2"]) == 0
    assert main(["draw", cell, "--out", "cell.dot"]) == 0
    assert main(["train", "--resume", "run", "--epochs", "2", "--quiet"]) == 0
    network = rnn.load(model, own_cells(cell))
    assert repr(network.layers[0]) == repr(make_cell(cell))
    assert np.isfinite(network.theta).all()


def test_check_takes_several_with_settings(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "Residual(Elman(2))", "../cells/random.py:Slow(2, 2, keep=0.5)"]) == 0
    assert re.findall(r"(\w+) obeys all laws\n", capsys.readouterr().out) == ["Residual", "Slow"]


def test_layers_have_weights_of_their_own(elsewhere: Path) -> None:
    main(["train", "text.txt", "--cell", "RHN(units=3, depth=2)", "--layers", "2", *SMALL, "--out", "run"])
    network = rnn.load("run/model.safetensors")
    assert [repr(cell) for cell in network.layers] == ["RHN(units=3, depth=2, t_dropout=0.0)"] * 2
    assert any(name.startswith("layer1.") for name in network.parameters)


def test_settings_and_units() -> None:
    rows: list[tuple[list[str], str]] = [
        (["--units", "7"], "LSTM(units=7)"),
        (["--cell", "MRNN(factors=3)", "--units", "7"], "MRNN(units=7, factors=3)"),
        (["--cell", "Residual", "--units", "3"], "Residual(inner=LSTM(units=3))"),
        (["--cell", "StackedMRNN((4, 3))"], "StackedMRNN(units=(4, 3))"),
        (["--cell", " GRU (units = 3 ) "], "GRU(units=3)"),
        (
            ["--cell", "Bidirectional(GRU(2), Elman(3))"],
            "Bidirectional(forward=GRU(units=2), backward=Elman(units=3))",
        ),
        (
            ["--cell", "Dense(3, activation='relu', bias=False)"],
            "Dense(units=3, activation='relu', bias=False)",
        ),
    ]
    for arguments, made in rows:
        options = dict(zip(arguments[::2], arguments[1::2], strict=True))
        units = options.get("--units")
        with case(*arguments):
            assert repr(make_cell(options.get("--cell", "LSTM"), units and int(units))) == made


def test_the_cell_s_own_units_hold_where_none_are_given(elsewhere: Path) -> None:
    main(["train", "text.txt", "--cell", "../cells/random.py:Layer", *SMALL, "--out", "run"])
    start = json.loads(Path("run/history.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert start["model"]["layers"] == [{"cell": "Layer", "units": 5}]


def test_folders_are_called_by_cell_and_settings(elsewhere: Path) -> None:
    for cell, units in (("GRU(3)", []), ("../cells/random.py:Slow(slow=1)", ["--units", "3"])):
        main(["train", "text.txt", "--cell", cell, *units, *SMALL])
    assert {path.name for path in Path("runs").iterdir()} == {"text-GRU-3", "text-Slow-slow-1-3"}


# -- a run goes on where its files have moved ----------------------------------------------------------


def test_resume_where_the_cell_has_moved(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cell = "../cells/random.py:Slow(3)"
    assert main(["train", "text.txt", "--cell", cell, *SMALL, "--out", "run"]) == 0
    (elsewhere.parent / "cells").rename(elsewhere.parent / "moved")
    again = ["train", "--resume", "run", "--epochs", "2", "--quiet"]
    assert "there is no file ../cells/random.py" in sentence(capsys, *again)
    assert "write settings as in Python: 'RHN(units=64, depth=3)'" in sentence(
        capsys, *again, "--cell", "RHN(3"
    )
    assert "cannot be continued" in sentence(capsys, *again, "--cell", "GRU")
    assert "cannot be continued" in sentence(capsys, *again, "--cell", "../moved/random.py:Slow(4)")
    assert main([*again, "--cell", "../moved/random.py:Slow(3)"]) == 0
    again[again.index("2")] = "3"
    assert main(again) == 0  # the new place was kept


# -- what can be wrong ---------------------------------------------------------------------------------


def test_wrong_settings(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for cell, said in (
        (
            "RHN(deep=3)",
            "got an unexpected keyword argument 'deep'; its settings: RHN(units=128, depth=7, t_dropout",
        ),
        (
            "RHN(depth=3",
            "'RHN(depth=3' cannot be read; write settings as in Python: 'RHN(units=64, depth=3)'",
        ),
        ("RHN()(3)", "cannot be read"),
        ("Dense(activation=relu)", "relu is no setting; one is a number, a 'word' in quotes"),
        ("Dense(activation=relu)", "'relu' may be meant"),
        ("Dense(units=(lambda: 3)())", "is no setting"),
        ("Residual(GRU)", "GRU() may be meant"),
        ("Residual(GRUU(3))", "there is no cell 'GRUU'"),
        ("Residual(GRUU(3))", "Did you mean GRU?"),
        ("Residual(open('text.txt'))", "there is no cell 'open'"),
        ("../cells/random.py:Slow(speed=3)", "its settings: Slow(units=6, slow=2, keep=0.9)"),
        ("../cells/random.py:Slo(3)", "has no cell 'Slo'; its cells: Slow, Layer, Outer, Needy."),
        ("../cells/random.py:Outer(inner=Slo(3))", "Did you mean Slow?"),
        (
            "../cells/random.py:Needy",
            "missing a required argument: 'units'; its settings: Needy(units, speed)",
        ),
        ("../cells/random.py:Needy(3, 0)", "Needy cannot be made: ZeroDivisionError: division by zero"),
        (
            "../cells/random.py",
            "random.py is a file; say which cell: ../cells/random.py:Slow or ../cells/random.py:Layer or ",
        ),
        ("../cells/none.py:Slow(3)", "there is no file ../cells/none.py."),
    ):
        for command in (["train", "text.txt", "--out", "run", "--cell"], ["check"], ["draw"], ["cells"]):
            told = sentence(capsys, *command, cell)
            with case(command[0], cell):
                assert said in told
                assert "\n" not in told
    assert {path.name for path in elsewhere.iterdir()} == {"text.txt"}
    line = CELLS.splitlines().index("        self.speed = 1 / speed") + 1
    assert f"random.py:{line})" in sentence(capsys, "check", "../cells/random.py:Needy(3, 0)")


def test_units_said_twice(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for cell in ("GRU(units=64)", "GRU(64)", "Residual(GRU(3))", "../cells/random.py:Slow(3)"):
        told = sentence(capsys, "train", "text.txt", "--cell", cell, "--units", "5")
        assert f"--units 5 and {cell!r} both say how many units" in told


def test_units_for_a_cell_without(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text(
        "import graphnet_rnn as rnn\nclass Mine(rnn.Cell):\n    states = (rnn.State('h'),)\n"
        "    def __init__(self, depth=3):\n        super().__init__(5)\n        self.depth = depth\n"
        "    def step(self, x, h):\n        return self.affine('h', x=x, h=h)\n",
        encoding="utf-8",
    )
    told = sentence(capsys, "train", "text.txt", "--cell", "mine.py:Mine", "--units", "5")
    assert "Mine has no setting units; leave out --units" in told
    assert "Mine(depth=3)" in told


def test_a_mistake_at_import_is_told_with_its_line(
    elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What else cannot be imported is among the bad invocations."""
    for code, said in (
        ("import no_such_module\n", r"No module named 'no_such_module' \(mine.py:1\)"),
        (
            "import graphnet_rnn as rnn\n\nclass C(rnn.Cell):\n    states = (rnn.State('h', 0.5),)\n",
            r"State\('h'\) at mine.py:4: the width is 0.5",
        ),
    ):
        Path("mine.py").write_text(code, encoding="utf-8")
        assert re.search(f"^graphnet-rnn check: mine.py .*{said}", sentence(capsys, "check", "mine.py:C"))
        assert "mine.py" not in sys.modules


def test_a_mistake_is_told_with_its_line(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the file is called like a module of Python's, whose source it must not be taken for."""
    file = elsewhere.parent / "cells" / "random.py"
    file.write_text(
        CELLS.replace('states = (rnn.State("h"), rnn.State("s", "slow"))', 'states = rnn.State("h")'),
        encoding="utf-8",
    )
    line = file.read_text(encoding="utf-8").splitlines().index('    states = rnn.State("h")') + 1
    assert f"cells/random.py:{line}: states is" in sentence(capsys, "check", "../cells/random.py:Slow")


def test_a_file_does_not_hide_a_standard_module(elsewhere: Path) -> None:
    cell = find_cell("../cells/random.py:Slow")
    import random

    assert not hasattr(random, "Slow")
    assert hasattr(random, "shuffle")
    assert find_cell("../cells/random.py:Slow") is cell  # it is run once


# -- the list ------------------------------------------------------------------------------------------


def test_cells_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cells"]) == 0
    *entries, _ = capsys.readouterr().out.split("\n\n")
    assert [entry.split("(")[0] for entry in entries] == list(rnn.cells.ALL)
    for entry, cell in zip(entries, rnn.cells.ALL.values(), strict=True):
        first, formula, *source = entry.splitlines()
        assert formula.strip() == (cell.__doc__ or "").strip().splitlines()[0]
        assert source[0].strip().startswith("Source: ")
        assert re.search(r"\): [\d,]+ parameters(, [\d,]+ fixed weights)?$", first)


def test_parameters_in_the_list(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By hand: (65 + 128) · 128 + 128, four times for the LSTM."""
    assert main(["cells", "Elman", "LSTM", "EchoState(128)", "../cells/random.py:Layer"]) == 0
    elman, lstm, echo, layer = capsys.readouterr().out.split("\n\n")
    assert elman.startswith(f"Elman(units=128): {(65 + 128) * 128 + 128:,} parameters\n")
    assert lstm.startswith(f"LSTM(units=128): {4 * ((65 + 128) * 128 + 128):,} parameters\n")
    assert f": 0 parameters, {(65 + 128) * 128 + 128:,} fixed weights\n" in echo
    assert layer == f"Layer(units=5): {66 * 5} parameters\n    y = relu(x W_xy + b_y)\n"


def test_dotted_names_are_looked_for_here(elsewhere: Path) -> None:
    """As `python -m` would; the installed command's path does not hold the present folder."""
    Path("cells_of_mine.py").write_text(
        "import graphnet_rnn as rnn\nclass Mine(rnn.Elman):\n    pass\n", encoding="utf-8"
    )
    sys.path[:] = [place for place in sys.path if place not in ("", os.getcwd())]
    assert find_cell("cells_of_mine:Mine").__name__ == "Mine"
    sys.modules.pop("cells_of_mine")


def test_a_cell_that_was_edited(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The weights were learned for other equations: a run does not go on, other commands say so."""
    file = elsewhere.parent / "cells" / "random.py"
    assert main(["train", "text.txt", "--cell", "../cells/random.py:Slow(3)", *SMALL, "--out", "run"]) == 0
    sample = ["sample", "run/model.safetensors", "--cell", "../cells/random.py:Slow", "--length", "3"]
    capsys.readouterr()
    assert main(sample) == 0
    assert not capsys.readouterr().err
    file.write_text(CELLS.replace("self.keep * s +", "self.keep / 2 * s +"), encoding="utf-8")
    sys.modules.pop("random.py")
    assert main(sample) == 0
    said = capsys.readouterr().err
    assert said.startswith("graphnet-rnn sample: run/model.safetensors: with the same weights")
    assert said.count("\n") == 1
    assert "the equations of a cell have changed" in sentence(
        capsys, "train", "--resume", "run", "--epochs", "2"
    )


def test_a_cell_without_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, words in (("blank", '" "'), ("number", "5"), ("none", "None")):
        Path(f"{name}.py").write_text(
            f"import graphnet_rnn as rnn\nclass Mine(rnn.Elman):\n    __doc__ = {words}\n", encoding="utf-8"
        )
        assert main(["cells", f"{name}.py:Mine(units=3)"]) == 0
        assert "(not described)" in capsys.readouterr().out
