"""The command line: help, exit codes, and one clear sentence for all that can go wrong."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from cycler import cycler
from safetensors.numpy import save as safetensors_save

import graphnet
import graphnet_rnn as rnn
from graphnet.graph.node import Node
from graphnet_rnn import cells, optimizers
from graphnet_rnn.cli import COMMANDS, graphs, main, make_parser, module_of
from graphnet_rnn.cli.console import Console
from graphnet_rnn.cli.graphs import SHOWN
from graphnet_rnn.cli.optimizer import make_optimizer
from graphnet_rnn.cli.train import make_trainer
from graphnet_rnn.data import Vocabulary
from graphnet_rnn.errors import ModelFileError, TrainingError, UsageError
from graphnet_rnn.formats.model_file import FORMAT, KEY, ModelFile
from graphnet_rnn.training import RunFolder
from tests.graphnet_rnn.formats.resealed import parts_of
from tests.tables import case

TEXT = "a cat sat on a mat, and a rat sat on the cat. " * 30
SMALL = ["--units", "6", "--time", "10", "--batch", "4", "--epochs", "2", "--sample", "20"]

CELLS = '''
import graphnet as gn
import graphnet_rnn as rnn


class Good(rnn.Cell):
    """h' = tanh(x W_xh + h W_hh + b_h) / 2"""

    states = (rnn.State("h"),)

    def step(self, x, h):
        return gn.tanh(self.affine("h", x=x, h=h)) / 2


class Cuts(rnn.Cell):
    """h' = tanh(cut)"""

    states = (rnn.State("h"),)

    def step(self, x, h):
        return gn.tanh(Cut()(self.affine("h", x=x, h=h)))


class Stateless(rnn.Cell):
    """A cell without a step"""

    states = (rnn.State("h"),)


class Wrong(rnn.Cell):
    """A cell whose shapes do not fit"""

    states = (rnn.State("h"),)

    def step(self, x, h):
        return x @ h


class Typo(rnn.Cell):
    """A cell that calls what is not there"""

    states = (rnn.State("h"),)

    def step(self, x, h):
        return gn.tanh(self.afine("h", x=x, h=h))


class Cut(gn.Elementwise):
    """y = x, with a wrong slope"""

    kernel = "x"

    def forward(self, x):
        return x

    def partials(self, y, x):
        return [0 * x]
'''


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with text.txt in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of two epochs, which is made once."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    with contextlib.chdir(folder):
        assert main(["train", "text.txt", *SMALL, "--out", "run", "--quiet"]) == 0
    return folder / "run"


@pytest.fixture
def run(here: Path, trained: Path) -> Path:
    """A copy of it beside its text."""
    return Path(shutil.copytree(trained, here / "run"))


@pytest.fixture
def model(here: Path) -> Path:
    """A model of the text's characters in model.safetensors."""
    network = rnn.Network([rnn.GRU(4)], inputs=len(set(TEXT)), outputs=len(set(TEXT)))
    network.vocabulary = Vocabulary.of(TEXT)
    rnn.save(network, here / "model.safetensors")
    return here / "model.safetensors"


def files(folder: Path) -> dict[str, bytes]:
    """All files, but what Python keeps of code, and what is in them."""
    files = (p for p in folder.rglob("*") if p.is_file() and p.parent.name != "__pycache__")
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


def fails(capsys: pytest.CaptureFixture[str], arguments: Sequence[str], code: int = 1) -> str:
    """The one sentence of a failed command, which wrote nothing and lost nothing."""
    before = files(Path.cwd())
    assert main(arguments) == code
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert captured.err.startswith(f"graphnet-rnn {arguments[0]}: ")
    assert captured.err.endswith("\n")
    assert files(Path.cwd()) == before
    return captured.err.removeprefix(f"graphnet-rnn {arguments[0]}: ").rstrip("\n")


def one_line(sentence: str) -> str:
    assert "\n" not in sentence
    return sentence


# -- help ----------------------------------------------------------------------------------------


def shown_by(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What --help prints, on one line."""
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--help"])
    assert ended.value.code == 0
    return " ".join(capsys.readouterr().out.split())


def test_help_shows_defaults_and_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        shown, options = shown_by(capsys, command), module_of(command)
        with case(command):
            assert f"example: graphnet-rnn {command}" in shown
            assert "None)" not in shown
            assert "(default: )" not in shown
            first, *examples = options.EXAMPLE.splitlines()
            assert first == "example:"
            for line in examples:  # they are understood
                make_parser().parse_args(re.findall(r'"[^"]*"|\S+', line)[1:])


def test_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    own = "the cell's own, 128 in most"
    for command, defaults in (
        ("train", (own, "LSTM", "0.0", "50", "adam", "20.0")),
        ("sample", ("500", "1.0", "0")),
        ("evaluate", ("50", "32", "utf-8")),
        ("draw", ("graph.svg", "full", "3")),
        ("demo", ("demo", "60.0")),
    ):
        shown = shown_by(capsys, command)
        for default in defaults:
            assert f"(default: {default}" in shown


class Careful(optimizers.FirstOrder):
    """θ ← θ - ε g, with a rate of its own"""

    def update(
        self, theta: Node, g: Node, state: dict[str, Node], rate: Node
    ) -> tuple[Node, dict[str, Node]]:
        return theta - rate * g, {}


def test_the_help_says_each_optimizer_s_rate(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that says nothing of texts has the rate that it has everywhere."""
    monkeypatch.setitem(optimizers.ALL, "careful", Careful)
    firsts = {n: kind for n, kind in optimizers.ALL.items() if issubclass(kind, optimizers.FirstOrder)}
    rates = {}
    for name in firsts:
        options = make_parser().parse_args(
            ["train", "text.txt", "--cell", "LSTM", *SMALL, "--optimizer", name]
        )
        options.written = frozenset()
        optimizer = make_trainer(options, here / name, Console(quiet=True)).settings.optimizer
        assert isinstance(optimizer, optimizers.FirstOrder)
        rates[name] = optimizer.rate
    said = ", ".join(f"{name} {rate}" for name, rate in rates.items())
    assert f"learning rate (default: {said})" in shown_by(capsys, "train")
    assert (rates["adam"], rates["careful"]) == (5e-3, Careful().rate)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    for name, does in COMMANDS.items():
        assert re.search(rf"^ +{name} +{re.escape(does.split()[0])}", shown, re.MULTILINE)
        assert (module_of(name).__doc__ or "").startswith(does)


def test_version_from_a_process() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(rnn.__file__).parents[1])}
    line = [sys.executable, "-m", "graphnet_rnn", "--version"]
    said = subprocess.run(line, env=environment, capture_output=True, text=True, check=True).stdout
    assert said == f"graphnet-rnn {graphnet.__version__}\n"


# -- train, sample, evaluate, resume ---------------------------------------------------------------


def test_round_trip(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "text.txt", *SMALL, "--out", "run"]) == 0
    shown = capsys.readouterr().out
    assert "Network([LSTM(units=6)]" in shown
    assert "text: 1,104 characters to train on, 138 to validate, 138 to test; 14 different" in shown
    assert re.search(r"epoch +2: train \d\.\d{3}, validation \d\.\d{3} bits/char", shown)
    assert re.search(r"ended \(epochs\): best \d\.\d{3} bits/char after epoch 2", shown)
    assert "try: graphnet-rnn sample run/model.safetensors --length 500" in shown
    assert {"model.safetensors", "history.jsonl", "timing.jsonl", "curve.png"} <= set(files(here / "run"))
    assert (here / "run" / "curve.png").read_bytes().startswith(b"\x89PNG")

    assert main(["sample", "run/model.safetensors", "--length", "30", "--warm-up", "a cat"]) == 0
    sampled = capsys.readouterr().out
    assert sampled.startswith("a cat")
    assert len(sampled) == len("a cat") + 30 + 1
    assert set(sampled) <= set(TEXT) | {"\n"}

    assert main(["evaluate", "run/model.safetensors", "text.txt", "--context", "10"]) == 0
    found = re.fullmatch(
        r"(\d\.\d{4}) bits/char, accuracy (\d+\.\d\d)%, over 1,370 characters with at least 10 of context\n",
        capsys.readouterr().out,
    )
    assert found
    assert 0 < float(found[1]) < np.log2(14) + 0.2

    assert main(["train", "--resume", "run", "--epochs", "4"]) == 0
    shown = capsys.readouterr().out
    assert "continuing at epoch 3" in shown
    assert "epoch   4: train" in shown
    main(["train", "text.txt", *SMALL, "--out", "whole", "--epochs", "4", "--quiet"])
    for name in ("model.safetensors", "history.jsonl"):
        assert (here / "run" / name).read_bytes() == (here / "whole" / name).read_bytes()


@pytest.mark.parametrize(
    ("setting", "value"),
    [("axes.prop_cycle", cycler(color=[])), ("text.usetex", True)],
    ids=["colours", "tex"],
)
def test_a_curve_that_cannot_be_drawn_is_told_and_the_run_has_ended_well(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, setting: str, value: Any
) -> None:
    monkeypatch.setenv("PATH", "")  # no TeX, either
    with matplotlib.rc_context({setting: value}):
        assert main(["train", "text.txt", *SMALL, "--epochs", "1", "--out", "run"]) == 0
    said = capsys.readouterr()
    assert "wrote run/model.safetensors and run/history.jsonl\n" in said.out
    assert "try: graphnet-rnn sample" in said.out
    assert said.err.count("\n") == 1
    assert said.err.startswith(
        "graphnet-rnn train: curve.png was not drawn: matplotlib, which draws charts, fails ("
    )
    assert said.err.endswith("Later: graphnet-rnn draw run --out run/curve.png\n")


def test_resume_alone_goes_to_the_epochs_that_were_asked_for(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(run)
    assert main(["train", "--resume", "run", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    after = files(run)
    assert before.pop("curve.png")
    assert after.pop("curve.png")
    assert after == before


@pytest.mark.parametrize(
    ("schedule", "optimizer"),
    [
        ("Warmup(5).then(Cosine(20))", "adamw(groups={'layer0.b_*': {'weight_decay': 0}})"),
        ("OnPlateau(0.5, patience=1)", "adam(rate=0.002 * Warmup(5))"),
    ],
)
def test_a_schedule_and_an_average_by_the_command(here: Path, schedule: str, optimizer: str) -> None:
    """The rates are those of the library, and more epochs go on as if they had been asked for at once."""
    options = [*SMALL, "--schedule", schedule, "--optimizer", optimizer, "--average", "0.9", "--quiet"]
    assert main(["train", "text.txt", *options, "--epochs", "4", "--out", "whole"]) == 0
    assert main(["train", "text.txt", *options, "--epochs", "2", "--out", "run"]) == 0
    assert main(["train", "--resume", "run", "--epochs", "4", "--quiet"]) == 0
    whole, again = (
        {n: each for n, each in files(here / name).items() if n.endswith((".safetensors", ".jsonl"))}
        for name in ("whole", "run")
    )
    assert whole["history.jsonl"] == again["history.jsonl"]
    assert whole["model.safetensors"] == again["model.safetensors"]
    rows = [
        json.loads(line) for line in (here / "run" / "history.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    epochs = [row for row in rows if row["event"] == "epoch"]
    if schedule.startswith("Warmup"):
        steps = [row for row in rows if row["event"] == "step"]
        expected = rnn.Warmup(5).then(rnn.Cosine(20))
        base = steps[0]["learning_rate"] / expected.at(steps[0]["step"] - 1)
        assert [row["learning_rate"] for row in steps] == pytest.approx(
            [base * expected.at(row["step"] - 1) for row in steps]
        )
    assert len(epochs) == 4


def test_resume_computed_in_another_way(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = ["train", "--resume", "run", "--quiet", "--epochs"]
    assert main([*again, "3", "--backend", "numpy", "--threads", "1"]) == 0
    assert main([*again, "4", "--backend", "numba", "--memory", "sqrt"]) == 0
    rows = [json.loads(line) for line in (run / "history.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["epoch"] for row in rows if row["event"] == "epoch"] == [1, 2, 3, 4]
    assert "leave out --seed" in fails(capsys, [*again, "5", "--seed", "3"], code=2)
    # Also an option that is a default: the run may have been made with another.
    assert "leave out --optimizer" in fails(capsys, [*again, "5", "--optimizer", "adam"], code=2)


def test_resume_where_the_validation_text_has_moved(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "valid.txt").write_text(TEXT, encoding="utf-8")
    main(["train", "text.txt", "--valid", "valid.txt", *SMALL, "--out", "run", "--quiet"])
    (here / "valid.txt").rename(here / "other.txt")
    again = ["train", "--resume", "run", "--epochs", "3", "--quiet"]
    assert "train --resume run --valid FOLDER/valid.txt" in fails(capsys, again, code=2)
    assert main([*again, "--valid", "other.txt"]) == 0


def test_resume_where_the_text_has_moved(run: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "text.txt").rename(here / "moved.txt")
    told = fails(capsys, ["train", "--resume", "run"], code=2)
    assert "there is no file text.txt here" in told
    assert "say where the file is: train --resume run FOLDER/text.txt" in told
    assert main(["train", "moved.txt", "--resume", "run", "--quiet"]) == 0
    (here / "moved.txt").write_text(TEXT.replace("cat", "tac"), encoding="utf-8")
    assert "the text is another one" in fails(capsys, ["train", "moved.txt", "--resume", "run"], code=2)


@pytest.mark.parametrize("quiet", [[], ["--quiet"]], ids=["", "quiet"])
def test_interrupted_ends_with_130(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, quiet: list[str]
) -> None:
    """In the first epoch, of which no curve can be drawn yet."""
    stepped = rnn.training.Listener.stepped

    def interrupt(self: object, trainer: rnn.Trainer, report: rnn.optimizers.Report) -> None:
        stepped(self, trainer, report)  # type: ignore[arg-type]
        trainer._interruption.came = True

    monkeypatch.setattr("graphnet_rnn.cli.console.Console.stepped", interrupt)
    assert main(["train", "text.txt", *SMALL, "--out", "my run", *quiet]) == 130
    assert ("continue with: graphnet-rnn train --resume 'my run'" in capsys.readouterr().out) is not quiet
    assert list((here / "my run").glob("checkpoint-*"))


def test_two_default_folders_at_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder is made where its name is chosen: another command that starts before the first trains takes the next."""
    names, run = [], rnn.Trainer.run

    def meanwhile(trainer: rnn.Trainer) -> object:
        if not names:
            names.append(trainer.folder.path.name)
            assert main(["train", "text.txt", *SMALL, "--epochs", "1", "--quiet"]) == 0
        names.append(trainer.folder.path.name)
        return run(trainer)

    monkeypatch.setattr(rnn.Trainer, "run", meanwhile)
    assert main(["train", "text.txt", *SMALL, "--epochs", "1", "--quiet"]) == 0
    assert names == ["text-LSTM-6", "text-LSTM-6-2", "text-LSTM-6"]


def test_given_validation_text_and_options(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "valid.txt").write_text(TEXT[:200], encoding="utf-8")
    options = "--optimizer nesterov --rate 0.05 --clip-values 1 --clip-norm 0 --layers 2 --skip --dropout 0.1"
    options += " --recurrent-dropout 0.2 --variational"
    arguments = [*options.split(), "--initial-state", "learned", "--no-early-stopping", "--cell", "GRU"]
    assert main(["train", "text.txt", "--valid", "valid.txt", *SMALL, *arguments, "--out", "run"]) == 0
    assert "1,380 characters to train on, 200 to validate, 0 to test" in capsys.readouterr().out
    start = json.loads((here / "run" / "history.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert start["optimizer"] == {
        "name": "Nesterov", "rate": 0.05, "clip_norm": None, "clip_value": None, "momentum": 0.9,
        "weight_decay": 0.0, "groups": {},
    }  # fmt: skip
    assert start["clip_values"] == 1
    network = start["model"]
    assert (network["skip"], network["dropout"], network["initial_state"]) == (True, 0.1, "learned")
    assert (network["recurrent_dropout"], network["variational"]) == (0.2, True)
    assert [layer["cell"] for layer in network["layers"]] == ["GRU", "GRU"]


def test_sample_seed_and_argmax(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def sample(*options: str) -> str:
        assert main(["sample", str(model), "--length", "40", *options]) == 0
        return capsys.readouterr().out

    assert sample() == sample("--seed", "0") != sample("--seed", "1")
    assert sample("--argmax") == sample("--temperature", "0") == sample("--argmax", "--seed", "3")


def test_evaluate_with_unknown_characters(
    model: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "other.txt").write_text(TEXT + "Ω", encoding="utf-8")
    sentence = fails(capsys, ["evaluate", str(model), "other.txt"])
    assert "has not seen in training: 'Ω'" in one_line(sentence)
    assert main(["evaluate", str(model), "other.txt", "--unknown", "a"]) == 0


# -- bad inputs ----------------------------------------------------------------------------------


def damaged_models(content: bytes) -> dict[str, tuple[bytes, str]]:
    middle = len(content) * 3 // 4
    flipped = bytes([*content[:middle], content[middle] ^ 4, *content[middle + 1 :]])
    newer = safetensors_save({"w": np.zeros(1)}, {KEY: json.dumps({"format": FORMAT + 1})})
    return {
        "truncated": (content[:middle], "is damaged or cut short"),
        "cut in the header": (content[:50], "is damaged or cut short"),
        "bit-flipped": (flipped, "is damaged: its content does not fit its checksum"),
        "newer": (newer, f"is of format {FORMAT + 1}, newer than this program reads ({FORMAT})"),
        "a text": (TEXT.encode(), "is not a graphnet model"),
        "empty": (b"", "is not a graphnet model"),
    }


def test_bad_model(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for damage, (content, sentence) in damaged_models(model.read_bytes()).items():
        model.write_bytes(content)
        for command in ("sample", "evaluate", "draw"):
            arguments = [command, model.name, *(["text.txt"] if command == "evaluate" else [])]
            with case(damage, command):
                assert f"{model.name} {sentence}" in one_line(fails(capsys, arguments))


def test_more_memory_than_there_is(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the failing allocation says is kept, and a remedy given."""

    def exhausted(*arguments: object) -> None:
        raise MemoryError("Unable to allocate 9 TiB")

    monkeypatch.setattr("graphnet_rnn.cli.material.load_corpus", exhausted)
    sentence = fails(capsys, ["train", "text.txt", "--out", "run"])
    assert "not enough memory; try a smaller --units or --layers or --batch or --time" in sentence
    assert "Unable to allocate 9 TiB" in sentence


def test_nan_loss(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["train", "text.txt", *SMALL, "--out", "run", "--optimizer", "sgd", "--rate", "1e38"]
    assert main([*arguments, "--clip-norm", "0"]) == 1
    message = capsys.readouterr().err
    assert "Traceback" not in message
    assert "training cannot go on; try a smaller --rate or --clip-norm." in message
    assert "The checkpoints in run are untouched." in message
    (checkpoint,) = (here / "run").glob("checkpoint-*")
    assert np.isfinite(rnn.load(checkpoint).theta).all()


def test_a_run_that_cannot_begin_leaves_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(here.rglob("*"))
    assert main(["train", "text.txt", *SMALL, "--memory", "1"]) == 1
    assert "memory" in capsys.readouterr().err
    assert sorted(p for p in here.rglob("*") if p.name != "runs") == before
    assert main(["train", "text.txt", *SMALL, "--memory", "1", "--out", "run"]) == 1
    assert main(["train", "text.txt", *SMALL, "--out", "run", "--quiet"]) == 0


def test_resume_of_a_run_from_python(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = rnn.data.Corpus.split(TEXT)
    network = rnn.Network([rnn.Elman(3)], inputs=14, outputs=14)
    rnn.Trainer(rnn.CarriedText(network, corpus, time=10, batch=4), rnn.Training(epochs=1), "run").run()
    assert "was not written by this command" in fails(capsys, ["train", "--resume", "run"], code=2)


# -- debugging -------------------------------------------------------------------------------------


def test_debug_raises(here: Path) -> None:
    (here / "bad.safetensors").write_bytes(b"")
    with pytest.raises(ModelFileError):
        main(["sample", "bad.safetensors", "--debug"])
    with pytest.raises(TrainingError):
        main(["train", "text.txt", *SMALL, "--out", "r", "--optimizer", "sgd", "--rate", "1e38", "--debug"])


# -- check -----------------------------------------------------------------------------------------


def test_check(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A cell of the package, and one of a user."""
    (here / "my_cells.py").write_text(CELLS, encoding="utf-8")
    assert main(["check", "graphnet_rnn.cells.gru:GRU", "my_cells.py:Good"]) == 0
    words, *lines = capsys.readouterr().out.splitlines()
    assert words == (cells.ALL["GRU"].__doc__ or "").splitlines()[0]
    checks = [line.split(":")[0] for line in lines[: len(rnn.testing.CHECKS)]]
    assert checks == [f"  ok    {check}" for check in rnn.testing.CHECKS]
    assert lines[len(checks)] == "GRU obeys all laws"
    assert lines[-1] == "Good obeys all laws"


BAD_CELLS: list[tuple[str, int, str]] = [
    ("my_cells.py:Cuts", 1, r"Cuts: gradient = finite difference fails.*in layer0\.(W|b)_.*my_cells\.py:21"),
    ("my_cells.py:Stateless", 1, r"Stateless needs a method step\(self, x, h\)"),
    ("my_cells.py:Wrong", 1, r"MatMul: axis k is 4 in input 1 but 1 in.*in Wrong\.step at my_cells\.py:36"),
    ("my_cells.py:Typo", 1, r"^AttributeError in Typo\.step at my_cells\.py:45: .*no attribute 'afine'"),
    ("my_cells.py:Missing", 2, r"has no cell 'Missing'; its cells: Good, Cuts, Stateless, Wrong, Typo\."),
    ("my_cells.py", 2, r"my_cells\.py is a file; say which cell: my_cells\.py:Good or my_cells\.py:Cuts or "),
]


def test_check_bad_cell(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "my_cells.py").write_text(CELLS, encoding="utf-8")
    for cell, code, content in BAD_CELLS:
        with case(cell):
            assert re.search(content, fails(capsys, ["check", cell], code), re.DOTALL)
    with pytest.raises(graphnet.testing.LawError):
        main(["check", "my_cells.py:Cuts", "--debug"])


# -- draw ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shown", SHOWN)
def test_draw_shows_everything(here: Path, capsys: pytest.CaptureFixture[str], shown: str) -> None:
    """Of a cell, and of a model."""
    rnn.save(rnn.Network([rnn.Elman(2)], 3, 3), "model.safetensors")
    for what in ("Elman(units=2)", "model.safetensors"):
        out = {"explorer": "page.html", "dump": "folder"}.get(shown, "picture.svg")
        assert main(["draw", what, "--show", shown, "--out", out, "--theme", "dark", "--time", "2"]) == 0
        assert out in capsys.readouterr().out
        if shown == "dump":
            assert (here / out / "instructions.txt").stat().st_size > 0
        else:
            assert "#15181d" in (here / out).read_text(encoding="utf-8") or shown == "explorer"


def test_a_picture_of_before_is_replaced(here: Path) -> None:
    for ending in ("svg", "png", "pdf", "dot", "html"):
        for _ in range(2):
            assert main(["draw", "Dense", "--out", f"cell.{ending}"]) == 0


def test_a_picture_of_many_steps_is_announced(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "MANY_STEPS", 3)
    how = ["draw", "Elman", "--show", "values", "--out", "values.svg"]
    assert main([*how, "--time", "3"]) == 0
    assert capsys.readouterr().err == ""
    assert main([*how, "--time", "4"]) == 0
    assert "4 time steps take long to draw" in capsys.readouterr().err


def test_two_processes_cannot_train_in_one_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second is told so; once the first is gone, by any end, the folder is free."""
    train = ["train", "text.txt", *SMALL, "--steps", "1", "--out", "run"]
    with RunFolder(here / "run").locked():
        assert main(train) == 2
        assert "another process trains" in capsys.readouterr().err
    assert main(train) == 0


def test_training_ends_with_the_score_on_the_test_text(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The printed number is that of `evaluate` on the same characters."""
    assert main(["train", "text.txt", *SMALL, "--time", "5", "--steps", "5", "--out", "run"]) == 0
    printed = re.search(r"on the test text: ([\d.]+) bits/char", capsys.readouterr().out)
    assert printed
    (here / "test.txt").write_text(TEXT[round(len(TEXT) * 0.9) :], encoding="utf-8")
    assert main(["evaluate", "run/model.safetensors", "test.txt", "--context", "5"]) == 0
    evaluated = re.search(r"([\d.]+) bits/char", capsys.readouterr().out)
    assert evaluated
    assert float(printed[1]) == pytest.approx(float(evaluated[1]), abs=1e-3)


METRICS: dict[str, optimizers.Optimizer] = {
    "riemannian": optimizers.Riemannian(),
    "riemannian(rbpm)": optimizers.Riemannian("rbpm"),  # type: ignore[arg-type]
    "riemannian(metric='rbpm', rate=0.1)": optimizers.Riemannian("rbpm", rate=0.1),  # type: ignore[arg-type]
    "riemannian(OuterProduct('diagonal', damping=0.1), tries=3)": optimizers.Riemannian(
        rnn.riemannian.OuterProduct("diagonal", damping=0.1), tries=3
    ),
    "natural_gradient(kfac, every=5, graft='adam')": optimizers.NaturalGradient(
        rnn.riemannian.Kronecker(), every=5, graft="adam"
    ),
    "natural_gradient(rate={0: 0.1, 9: 0.01})": optimizers.NaturalGradient(
        rate=optimizers.Stepwise({0: 0.1, 9: 0.01})
    ),
    "adam(rate=0.002 * Warmup(5).then(Cosine(20)))": optimizers.Adam(
        0.002 * rnn.Warmup(5).then(rnn.Cosine(20))
    ),
    "natural_gradient(rate=2 * Cosine(9), momentum=NesterovMomentum(0.9))": optimizers.NaturalGradient(
        rate=2 * rnn.Cosine(9), momentum=rnn.NesterovMomentum(0.9)
    ),
    "momentum(momentum=Stepwise.spaced((0.5, 0.9), last=8).capped(0.8))": optimizers.Momentum(
        momentum=rnn.Stepwise({0: 0.5, 8: 0.8})
    ),
    "hf(preconditioner='qdruop')": optimizers.HessianFree(preconditioner=rnn.riemannian.METRICS["qdruop"]()),
}


def test_metrics_are_written_by_name_or_as_calls() -> None:
    for text, optimizer in METRICS.items():
        assert make_optimizer(text) == optimizer, text


def test_metrics_that_cannot_be_meant() -> None:
    for text, words in (
        ("riemannian(foo)", "foo is no setting; .*, or one of ruop, rbpm, .*frequency$"),
        ("riemannian('foo')", "metric must be one of rnn.riemannian, .*, not 'foo'"),
        ("riemannian(kfac(damping=1))", "no metric 'kfac' with settings; .*Kronecker.*; write kfac alone"),
        ("riemannian(Nothing(1))", "there is no metric 'Nothing' with settings; there are OuterProduct"),
        ("riemannian(ruop, kfac)", "write settings of optimizers by name"),
        ("riemannian(ruop, metric=kfac)", "write settings of optimizers by name"),
        ("riemannian(OuterProduct(reduction='half'))", "reduction must be 'full' or"),
        ("natural_gradient(graft='lbfgs')", "graft must be"),
        ("adam(ruop)", "'ruop' may be meant"),
        (
            "hf(window=3, " + "{0:" * 300 + "1" + "}" * 300 + ")",
            "cannot be read; write settings as in Python",
        ),
        ("hf(preconditioner='nope')", r"preconditioner must be in \[0, 1\], or one of rnn.riemannian"),
    ):
        with case(text), pytest.raises(UsageError, match=words):
            make_optimizer(text)


@pytest.mark.parametrize("text", ["riemannian(qdruop)", "hf(preconditioner='kfac', cg_steps=2)"])
def test_metrics_train_texts(here: Path, text: str) -> None:
    small = [
        "--units",
        "3",
        "--cell",
        "Elman",
        "--time",
        "5",
        "--batch",
        "4",
        "--steps",
        "2",
        "--sample",
        "0",
    ]
    assert main(["train", "text.txt", *small, "--optimizer", text, "--out", "run", "--quiet"]) == 0
    assert main(["train", "--resume", "run", "--steps", "3", "--quiet"]) == 0


def test_arguments_that_nobody_wrote(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a checkpoint from somebody else: one sentence on one line."""
    before = {path: path.read_bytes() for path in run.glob("checkpoint-*")}
    for name, value in (
        ("cell", None),
        ("cell", ...),
        ("encoding", "x\0"),
        ("data", "book.txt\ngraphnet-rnn train: all is well"),
        ("memory", "9" * 5000),
    ):
        for checkpoint, content in before.items():
            tensors, described = parts_of(content)
            arguments = described["training"]["notes"]["arguments"]
            if value is ...:
                del arguments[name]
            else:
                arguments[name] = value
            checkpoint.write_bytes(ModelFile(tensors, described).to_bytes())
        assert main(["train", "--resume", "run", "--epochs", "3", "--quiet"]) in (1, 2)
        (said,) = capsys.readouterr().err.splitlines()
        with case(name):
            assert "unexpected" not in said
            assert len(said) < 400
            assert re.search("which cannot be|--memory must be|keeps no --cell", said)


def test_resume_says_whose_code_it_imports(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before it does, also if it is quiet; not where the person named the file."""
    (here / "mine.py").write_text(
        CELLS + "\nimport sys\nprint('imported', file=sys.stderr)\n", encoding="utf-8"
    )
    assert main(["train", "text.txt", *SMALL, "--cell", "mine.py:Good", "--out", "run", "--quiet"]) == 0
    assert "importing" not in capsys.readouterr().err
    os.utime(here / "mine.py", (1, 1))  # as another process would, the command imports it anew
    assert main(["train", "--resume", "run", "--epochs", "3", "--quiet"]) == 0
    said, where = capsys.readouterr().err.splitlines(), here / "mine.py"
    assert said == [
        f"graphnet-rnn train: run was begun with the cell mine.py:Good: importing {where}, which runs its code",
        "imported",
    ]
    assert main(["train", "--resume", "run", "--cell", "mine.py:Good", "--quiet"]) == 0
    assert "importing" not in capsys.readouterr().err


def test_a_text_too_short_to_validate_on_is_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "short.txt").write_text(TEXT[:200], encoding="utf-8")
    assert main(["train", "short.txt", *SMALL, "--time", "30", "--batch", "1", "--out", "run"]) == 0
    assert "no validation: too few characters for it, so the best epoch is" in capsys.readouterr().out


def test_what_nobody_expected_is_one_sentence_too(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphnet_rnn.cli.material.load_corpus", lambda *_: {}["a\nb"])
    sentence = one_line(fails(capsys, ["train", "text.txt", "--out", "run"]))
    assert re.match(r"unexpected KeyError: .* at \S*test_train\.py:\d+; --debug shows how", sentence)
    with pytest.raises(KeyError):
        main(["train", "text.txt", "--out", "run", "--debug"])
