"""Other packages add models, commands and kinds of data by entry points."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet_rnn.apps.cli import main
from graphnet_rnn.errors import ModelFileError

ROOT = Path(__file__).parents[2]
#: What somebody installs: a model, a command, and something to learn from.
PLUGIN = '''
"""Say hello to a name."""

import graphnet as gn
import graphnet_rnn as rnn
from graphnet_rnn.apps.cli.material import Material

EXAMPLE = "example:\\n  graphnet-rnn hello world"


class Line(rnn.Model):
    def __init__(self, width, seed=0, values=None):
        self.width, self.seed = width, seed
        self.declare_parameters({"w": ((width,), rnn.initializers.normal(0.1))}, seed, "float32", values=values)

    def __graph__(self):
        x = gn.input((1, self.width), name="x")
        return gn.Graph(x @ self.parameters["w"], [x])


class Noise(Material):
    def __init__(self, options):
        super().__init__(options)
        raise SystemExit(f"noise from {options.data}")

    def problem(self, network, optimizer):
        raise NotImplementedError


def add_arguments(parser):
    parser.add_argument("name")


def run(options):
    print("hello", options.name)
'''


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package of somebody, installed: the name of its module."""
    name = "greetings_for_graphnet"
    (tmp_path / f"{name}.py").write_text(PLUGIN)
    metadata = tmp_path / f"{name}-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(
        f"[graphnet_rnn.models]\nLine = {name}:Line\n[graphnet_rnn.commands]\nhello = {name}\n"
        f"[graphnet_rnn.materials]\nnoise = {name}:Noise\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return name


def test_a_model_of_another_package_is_loaded_by_name(plugin: str, tmp_path: Path) -> None:
    model = __import__(plugin).Line(3, seed=1)
    rnn.save(model, tmp_path / "line.safetensors")
    again = rnn.load(tmp_path / "line.safetensors")
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.theta, model.theta)


def test_a_command_of_another_package(plugin: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hello", "world"]) == 0
    assert capsys.readouterr().out == "hello world\n"
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "Say hello to a name." in capsys.readouterr().out


def test_data_of_another_package(plugin: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "noise:3", "--out", str(tmp_path / "run")]) == 1
    assert "noise from noise:3" in capsys.readouterr().err


def test_an_experiments_model_is_loaded_by_name(tmp_path: Path) -> None:
    controller = rnn.control.Controller([rnn.Elman(4)], seed=1)
    rnn.save(controller, tmp_path / "c.safetensors")
    again = rnn.load(tmp_path / "c.safetensors")
    assert isinstance(again, rnn.control.Controller)
    np.testing.assert_array_equal(again.theta, controller.theta)


def test_uninstalled_models_must_be_passed(tmp_path: Path) -> None:
    class Own(rnn.Model):
        def __init__(self, values: object = None) -> None:
            self.declare_parameters({"w": ((1,), None)}, 0, "float32", values=values)  # type: ignore[arg-type]

        def __graph__(self) -> gn.Graph:
            return gn.Graph(self.parameters["w"] * 2.0)

    rnn.save(Own(), tmp_path / "own.safetensors")
    with pytest.raises(ModelFileError, match=r"give its class: rnn.load\(path, \[Own\]\)"):
        rnn.load(tmp_path / "own.safetensors")
