"""Without Numba, Graphviz or matplotlib, other features work, and errors name the missing package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import graphnet

ROOT = Path(graphnet.__file__).parents[1]
COMPILER, PICTURES, CHARTS = ["numba", "llvmlite"], ["graphviz", "pygraphviz"], ["matplotlib"]
#: Makes these packages missing for the program that follows.
WITHOUT = "import sys; sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(',')))\n"
TEXT = "the quick brown fox jumps over the lazy dog. " * 200
#: Losses of all kinds of training, as JSON; pictures as files.
PROGRAM = """
import json
import numpy as np
import graphnet as gn
import graphnet_rnn as rnn
import viz

x = gn.input(3, "float64", name="x")
cost = gn.sum(gn.tanh(x) ** 2)
found = {"gradient": gn.compile(gn.gradient(cost, [x]), [x])(np.arange(3.0))[0].tolist()}
random = np.random.default_rng(0)
inputs = random.standard_normal((10, 24, 2)).astype("float32")
targets = inputs.sum(2, keepdims=True)
for name, optimizer in {"adam": rnn.Adam(), "hessian-free": rnn.HessianFree(cg_steps=5)}.items():
    net = rnn.Network([rnn.GRU(6)], 2, 1, "squared", seed=0)
    problem = rnn.Arrays(net, inputs, targets, batch=8)
    found[name] = rnn.Trainer(problem, rnn.Training(epochs=2, optimizer=optimizer), name).run().best
corpus = rnn.data.Corpus.split(TEXT)
symbols = len(corpus.vocabulary)
net = rnn.Network([rnn.LSTM(6)], symbols, symbols, seed=0)
found["text"] = rnn.Trainer(rnn.CarriedText(net, corpus, time=10, batch=8), rnn.Training(epochs=1), "text").run().best
rnn.testing.check_cell(rnn.Elman(3))
viz.draw(rnn.GRU).save("cell.dot")
viz.draw(rnn.GRU).save("cell.html")
viz.explore(net.unroll(time=3, batch=2).cost).save("explorer.html")
print(json.dumps(found))
"""


def run(program: str, missing: list[str], place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(map(str, (ROOT, ROOT / "tutorials")))
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + program, ",".join(missing), *arguments], cwd=place, capture_output=True,
        env={**os.environ, "PYTHONPATH": path, "PATH": os.defpath, "MPLBACKEND": "agg", "PYTHONIOENCODING": "utf-8"},
        encoding="utf-8", check=False, timeout=600,
    )  # fmt: skip


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    done = run(f"TEXT = {TEXT!r}{PROGRAM}", ["nothing"], tmp_path_factory.mktemp("complete"))
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("missing", [["numba"], ["llvmlite"], COMPILER + PICTURES + CHARTS], ids=",".join)
def test_numpy_gives_the_same_results(
    missing: list[str], complete: dict[str, object], tmp_path: Path
) -> None:
    done = run(f"TEXT = {TEXT!r}{PROGRAM}", missing, tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.keys() == complete.keys()
    for name, loss in found.items():
        assert loss == pytest.approx(complete[name], rel=1e-3), name
    assert done.stderr.count("Numba is not installed") == 1


COMMANDS = [
    (["train", "book.txt", "--units", "6", "--epochs", "1", "--batch", "8", "--out", "run", "--quiet"], ""),
    (["sample", "run/model.safetensors", "--length", "20"], ""),
    (["evaluate", "run/model.safetensors", "book.txt"], "bits/char"),
    (["draw", "LSTM", "--out", "lstm.dot"], "wrote lstm.dot"),
    (["draw", "LSTM", "--out", "lstm.html"], "wrote lstm.html"),
    (["check", "Elman"], "Elman passes all checks"),
    (["cells", "RHN"], "Zilly et al. 2017.\n"),
]
MAIN = "import sys\nfrom graphnet_rnn.__main__ import main\nsys.exit(main())"


def test_commands_work_and_name_missing_packages(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text(TEXT, encoding="utf-8")
    missing = COMPILER + PICTURES + CHARTS
    for words, shown in COMMANDS:
        done = run(MAIN, missing, tmp_path, *words)
        assert done.returncode == 0, (words, done.stderr)
        assert shown in done.stdout
        if words[0] == "train":
            assert "charts need matplotlib, which is not installed: pip install matplotlib" in done.stderr
    done = run(MAIN, missing, tmp_path, "draw", "LSTM", "--out", "lstm.svg")
    assert done.returncode == 1
    assert "pip install 'pygraphviz>=2.0'" in done.stderr


@pytest.mark.slow
def test_long_commands_complete_without_optional_packages(tmp_path: Path) -> None:
    missing = COMPILER + PICTURES + CHARTS
    done = run(MAIN, missing, tmp_path, "control", "center-out", "--epochs", "1", "--out", "arm")
    assert done.returncode == 0, done.stderr
    assert "calls.png and movements.png were not drawn: charts need matplotlib" in done.stderr
    assert "wrote arm/model.safetensors and history.jsonl" in done.stdout
    done = run(MAIN, missing, tmp_path, "demo", "--seconds", "0", "--out", "demo")
    assert done.returncode == 0, done.stderr
    assert "Files in demo/: cell.html, unrolled.html, model.safetensors, history.jsonl" in done.stdout


@pytest.mark.parametrize(
    "name", ["01_a_graph_by_hand", "02_three_rules_of_a_node", "03_derivatives_are_graphs"]
)
def test_first_tutorials_run_without_compiler_and_graphviz(name: str, tmp_path: Path) -> None:
    program = f"import runpy; runpy.run_path({str(ROOT / 'tutorials' / f'{name}.py')!r}, run_name='__main__')"
    done = run(program, COMPILER + PICTURES, tmp_path)
    assert done.returncode == 0, done.stderr


def test_another_package_named_graphnet_is_reported(tmp_path: Path) -> None:
    (tmp_path / "graphnet").mkdir()
    (tmp_path / "graphnet/__init__.py").touch()
    # Not by the finder of an editable installation, which knows graphnet.lazy wherever graphnet was found.
    program = "sys.meta_path[:] = [each for each in sys.meta_path if 'Editable' not in repr(each)]\nimport graphnet_rnn"
    done = run(program, ["nothing"], tmp_path)
    assert "ImportError: graphnet_rnn finds another project's package graphnet. Uninstall that" in done.stderr
