"""Cells on the command line: from packages and user files, with settings; the list of all cells."""

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
from graphnet_rnn.apps.cli import main
from graphnet_rnn.apps.cli.specs import find_cell, make_cell, own_cells
from tests.graphnet_rnn.apps.cli.bad_invocations import TEXT
from tests.tables import case

SMALL = ["--time", "10", "--batch", "4", "--epochs", "1", "--sample", "0", "--quiet"]
TRAIN = ["train", "text.txt", *SMALL, "--out", "run", "--cell"]
AGAIN = ["train", "--resume", "run", "--quiet", "--epochs"]

#: Written to a file named like a module of Python, which imports a file beside it.
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
'''


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Changes to a folder with text.txt; ../cells/random.py has the cells."""
    for name in ("work", "cells"):
        (tmp_path / name).mkdir()
    for name, code in {"random": CELLS, "beside_it": "from graphnet import tanh as squash\n"}.items():
        (tmp_path / "cells" / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(sys, "path", sys.path[:])
    Path("text.txt").write_text(TEXT, encoding="utf-8")
    yield tmp_path / "work"
    for name in ("beside_it", "random.py"):
        sys.modules.pop(name, None)


def sentence(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Error message of a command that must fail."""
    capsys.readouterr()
    assert main(arguments) in (1, 2)
    said = capsys.readouterr().err
    assert said.startswith(f"graphnet-rnn {arguments[0]}: ")
    return said.rstrip("\n")


SLOW = "{here}/../cells/random.py:Slow(units=5, slow=3)"
OUTER = "../cells/random.py:Outer(3, inner=Slow(2, keep=0.5))"


@pytest.mark.parametrize("cell", [SLOW, OUTER, "Residual(GRU(3))"])
def test_every_command_takes_the_cell(elsewhere: Path, capsys: pytest.CaptureFixture[str], cell: str) -> None:
    cell, model = cell.format(here=elsewhere), "run/model.safetensors"
    assert main([*TRAIN, cell]) == 0
    assert main(["sample", model, "--cell", cell, "--length", "5"]) == 0
    assert main(["evaluate", model, "text.txt", "--cell", cell]) == 0
    assert "bits/char" in capsys.readouterr().out
    assert main(["draw", model, "--cell", cell, "--out", "model.dot", "--time", "2"]) == 0
    assert main(["draw", cell, "--out", "cell.dot"]) == 0
    assert main([*AGAIN, "2"]) == 0
    network = rnn.load(model, own_cells(cell))
    assert repr(network.layers[0]) == repr(make_cell(cell))
    assert np.isfinite(network.theta).all()


def test_settings_and_units() -> None:
    for text, units, made in (
        ("MRNN(factors=3)", 7, "MRNN(units=7, factors=3)"),
        ("Residual", 3, "Residual(inner=LSTM(units=3))"),
        ("StackedMRNN((4, 3))", None, "StackedMRNN(units=(4, 3))"),
        (" GRU (units = 3 ) ", None, "GRU(units=3)"),
        ("Bidirectional(GRU(2), GRU(3))", None, "Bidirectional(forward=GRU(units=2), backward=GRU(units=3))"),
        ("Dense(3, activation='relu', bias=False)", None, "Dense(units=3, activation='relu', bias=False)"),
    ):
        with case(text):
            assert repr(make_cell(text, units)) == made


def test_layers_units_and_folder_names(elsewhere: Path) -> None:
    """Without --units, the units of the cell are used."""
    for cell, options, folder in (
        ("RHN(units=3, depth=2)", ["--layers", "2"], "text-RHN-units-3-depth-2"),
        ("../cells/random.py:Layer", [], "text-Layer"),
        ("../cells/random.py:Slow(slow=1)", ["--units", "3"], "text-Slow-slow-1-3"),
    ):
        before = {path.name for path in Path("runs").glob("*")}
        assert main(["train", "text.txt", "--cell", cell, *options, *SMALL]) == 0
        with case(cell):
            assert {path.name for path in Path("runs").iterdir()} - before == {folder}
    network = rnn.load("runs/text-RHN-units-3-depth-2/model.safetensors")
    assert [repr(cell) for cell in network.layers] == ["RHN(units=3, depth=2, t_dropout=0.0)"] * 2
    assert any(name.startswith("layer1.") for name in network.parameters)
    start = json.loads(Path("runs/text-Layer/history.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert start["model"]["layers"] == [{"cell": "Layer", "units": 5}]


def test_resume_after_the_cell_has_moved(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRAIN, "../cells/random.py:Slow(3)"]) == 0
    (elsewhere.parent / "cells").rename(elsewhere.parent / "moved")
    again = [*AGAIN, "2"]
    assert "there is no file ../cells/random.py" in sentence(capsys, *again)
    assert "write it as in Python" in sentence(capsys, *again, "--cell", "RHN(3")
    assert "cannot be continued" in sentence(capsys, *again, "--cell", "GRU")
    assert "cannot be continued" in sentence(capsys, *again, "--cell", "../moved/random.py:Slow(4)")
    assert main([*again, "--cell", "../moved/random.py:Slow(3)"]) == 0
    assert main([*AGAIN, "3"]) == 0  # the new place was kept


def test_errors_in_cell_files_have_the_line(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file has the name of a module of Python, but the error shows the right line."""
    right, wrong = '    states = (rnn.State("h"), rnn.State("s", "slow"))', '    states = rnn.State("h")'
    file = elsewhere.parent / "cells" / "random.py"
    file.write_text(CELLS.replace(right, wrong), encoding="utf-8")
    line = CELLS.splitlines().index(right) + 1
    assert f"cells/random.py:{line}: states is" in sentence(capsys, "check", "../cells/random.py:Slow")


def test_cells_are_found_in_the_working_folder(elsewhere: Path) -> None:
    """As with `python -m`, although the path of the installed command lacks the working folder."""
    cell = find_cell("../cells/random.py:Slow")
    import random

    assert hasattr(random, "shuffle")
    assert find_cell("../cells/random.py:Slow") is cell  # it is run once
    Path("cells_of_mine.py").write_text("from graphnet_rnn import Elman as Mine\n", encoding="utf-8")
    sys.path[:] = [place for place in sys.path if place not in ("", os.getcwd())]
    assert find_cell("cells_of_mine:Mine") is rnn.Elman
    sys.modules.pop("cells_of_mine")


def test_edited_cells_are_reported(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Changed equations stop training with an error; other commands warn."""
    file = elsewhere.parent / "cells" / "random.py"
    assert main([*TRAIN, "../cells/random.py:Slow(3)"]) == 0
    sample = ["sample", "run/model.safetensors", "--cell", "../cells/random.py:Slow", "--length", "3"]
    capsys.readouterr()
    assert main(sample) == 0
    assert not capsys.readouterr().err
    file.write_text(CELLS.replace("self.keep * s +", "self.keep / 2 * s +"), encoding="utf-8")
    sys.modules.pop("random.py")
    assert main(sample) == 0
    said = capsys.readouterr().err
    assert said.startswith("graphnet-rnn sample: run/model.safetensors: with the same weights")
    assert "the equations of a cell have changed" in sentence(capsys, *AGAIN, "2")


def test_cells_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cells"]) == 0
    *entries, _ = capsys.readouterr().out.split("\n\n")
    assert [entry.split("(")[0] for entry in entries] == list(rnn.cells.ALL)
    for entry, cell in zip(entries, rnn.cells.ALL.values(), strict=True):
        first, formula, *source = entry.splitlines()
        assert formula.strip() == (cell.__doc__ or "").strip().splitlines()[0]
        assert source[0].strip().startswith("Source: ")
        assert re.search(r"\): [\d,]+ parameters(, [\d,]+ fixed weights)?$", first)


def test_check_shows_the_equations_that_were_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", 'Equations(4, "h\' = sin(x W_xh)")']) == 0
    assert capsys.readouterr().out.startswith("h' = sin(x W_xh)\n")


def test_number_of_parameters_in_the_list(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Parameters by hand: (65 + 128) · 128 + 128, four times that for the LSTM."""
    assert main(["cells", "Elman", "LSTM", "EchoState(128)", "../cells/random.py:Layer"]) == 0
    elman, lstm, echo, layer = capsys.readouterr().out.split("\n\n")
    assert elman.startswith(f"Elman(units=128): {(65 + 128) * 128 + 128:,} parameters\n")
    assert lstm.startswith(f"LSTM(units=128): {4 * ((65 + 128) * 128 + 128):,} parameters\n")
    assert f": 0 parameters, {(65 + 128) * 128 + 128:,} fixed weights\n" in echo
    assert layer == f"Layer(units=5): {66 * 5} parameters\n    y = relu(x W_xy + b_y)\n"
    for number, words in enumerate(('" "', "5", "None")):
        mine = f"import graphnet_rnn as rnn\nclass Mine(rnn.Elman):\n    __doc__ = {words}\n"
        Path(f"mine{number}.py").write_text(mine, encoding="utf-8")
        assert main(["cells", f"mine{number}.py:Mine(units=3)"]) == 0
        assert "(not described)" in capsys.readouterr().out
