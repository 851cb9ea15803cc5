"""Files of all earlier versions can be read with the same meaning."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from graphnet_rnn.apps.cli import main
from tests.graphnet_rnn.formats.golden import FOLDER, MODELS, outputs

VERSIONS = sorted(path.name for path in FOLDER.iterdir())
every_version = pytest.mark.parametrize("version", VERSIONS)


def test_this_version_has_golden_files() -> None:
    assert gn.__version__ in VERSIONS, "python -m tests.graphnet_rnn.formats.golden writes them"


@every_version
def test_models_compute_the_same(version: str) -> None:
    files = sorted((FOLDER / version).glob("*.safetensors"))
    assert len(files) >= len(MODELS)
    for file in files:
        found = outputs(rnn.load(file))
        with np.load(file.with_suffix(".npz")) as golden:
            assert len(found) == len(golden.files)
            for value, name in zip(found, golden.files, strict=True):
                np.testing.assert_allclose(value, golden[name], rtol=1e-4, atol=1e-6, err_msg=file.name)


@every_version
def test_runs_are_drawn_and_resumed(version: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FOLDER / version, tmp_path / version))
    assert viz.training_curve(folder / "run").axes
    words = ["train", str(folder / "book.txt"), "--resume", str(folder / "run"), "--epochs", "2", "--quiet"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # another processor, or other packages
        assert main(words) == 0
    assert rnn.load(folder / "run/model.safetensors").theta.size


@every_version
def test_sweeps_are_reported(version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(shutil.copytree(FOLDER / version, tmp_path / version))
    assert main(["sweep", str(folder / "sweep"), "--only-report"]) == 0
    assert capsys.readouterr().out.count("| done |") == 2
