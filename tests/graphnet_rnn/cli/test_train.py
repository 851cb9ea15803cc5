"""The command line: help, exit codes, and one clear sentence for all that can go wrong."""

from __future__ import annotations

import json
import os
import re
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
from graphnet.errors import GraphnetError
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
    (tmp_path / "text.txt").write_text(TEXT)
    return tmp_path


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


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_defaults_and_an_example(capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"example: graphnet-rnn {command}" in shown
    assert "None)" not in shown
    assert "(default: )" not in shown
    options = module_of(command)
    parser = make_parser().parse_args
    assert options.EXAMPLE.splitlines()[0] == "example:"
    for line in options.EXAMPLE.splitlines()[1:]:
        parser(re.findall(r'"[^"]*"|\S+', line)[1:])  # the examples themselves are understood


@pytest.mark.parametrize(
    ("command", "defaults"),
    [
        (
            "train",
            [
                "(default: the cell's own, 128 in most)",
                "(default: LSTM)",
                "(default: 0.0)",
                "(default: 50",
                "(default: adam)",
                "(default: 20.0)",
            ],
        ),
        ("sample", ["(default: 500)", "(default: 1.0)", "(default: 0)"]),
        ("evaluate", ["(default: 50)", "(default: 32)", "(default: utf-8)"]),
        ("draw", ["(default: graph.svg)", "(default: full)", "(default: 3)"]),
        ("demo", ["(default: demo)", "(default: 60.0)"]),
    ],
)
def test_defaults(capsys: pytest.CaptureFixture[str], command: str, defaults: list[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for default in defaults:
        assert default in shown


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
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    said = ", ".join(f"{name} {rate}" for name, rate in rates.items())
    assert f"learning rate (default: {said})" in " ".join(capsys.readouterr().out.split())
    assert (rates["adam"], rates["careful"]) == (5e-3, Careful().rate)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    for name, does in COMMANDS.items():
        assert re.search(rf"^ +{name} +{re.escape(does.split()[0])}", shown, re.MULTILINE)
        assert (module_of(name).__doc__ or "").startswith(does)


@pytest.mark.parametrize(
    "arguments", [[], ["dance"], ["train", "--units", "many"], ["sample"], ["train", "--oops"]]
)
def test_usage_error_of_the_parser(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"(graphnet-rnn( sample| train)?): .+; see \1 --help", line)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(Path(rnn.__file__).parents[1])}
    line = [sys.executable, "-m", "graphnet_rnn", *arguments]
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=False)


def test_version_from_a_process() -> None:
    ended = run("--version")
    assert (ended.returncode, ended.stdout) == (0, f"graphnet-rnn {graphnet.__version__}\n")


def test_failure_from_a_process(here: Path) -> None:
    ended = run("train", "none.txt")
    assert ended.returncode == 1
    assert ended.stderr == "graphnet-rnn train: there is no file none.txt.\n"
    assert ended.stdout == ""
    assert run("train", "none.txt", "--units", "x").returncode == 2


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


def test_resume_alone_goes_to_the_epochs_that_were_asked_for(here: Path) -> None:
    assert main(["train", "text.txt", *SMALL, "--out", "run", "--quiet"]) == 0
    before = files(here / "run")
    assert main(["train", "--resume", "run", "--quiet"]) == 0
    after = files(here / "run")
    assert {k: v for k, v in after.items() if k != "curve.png"} == {
        k: v for k, v in before.items() if k != "curve.png"
    }


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


def test_resume_computed_in_another_way(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", "text.txt", *SMALL, "--out", "run", "--quiet"])
    again = ["train", "--resume", "run", "--quiet", "--epochs"]
    assert main([*again, "3", "--backend", "numpy", "--threads", "1"]) == 0
    assert main([*again, "4", "--backend", "numba", "--memory", "sqrt"]) == 0
    rows = [
        json.loads(line) for line in (here / "run" / "history.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert [row["epoch"] for row in rows if row["event"] == "epoch"] == [1, 2, 3, 4]
    assert "leave out --seed" in fails(capsys, [*again, "5", "--seed", "3"], code=2)


def test_resume_where_the_validation_text_has_moved(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "valid.txt").write_text(TEXT)
    main(["train", "text.txt", "--valid", "valid.txt", *SMALL, "--out", "run", "--quiet"])
    (here / "valid.txt").rename(here / "other.txt")
    again = ["train", "--resume", "run", "--epochs", "3", "--quiet"]
    assert "train --resume run --valid FOLDER/valid.txt" in fails(capsys, again, code=2)
    assert main([*again, "--valid", "other.txt"]) == 0


def test_resume_where_the_text_has_moved(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", "text.txt", *SMALL, "--out", "run", "--quiet"])
    (here / "text.txt").rename(here / "moved.txt")
    told = fails(capsys, ["train", "--resume", "run"], code=2)
    assert "there is no file text.txt here" in told
    assert "say where the file is: train --resume run FOLDER/text.txt" in told
    assert main(["train", "moved.txt", "--resume", "run", "--quiet"]) == 0
    (here / "moved.txt").write_text(TEXT.replace("cat", "tac"))
    assert "the text is another one" in fails(capsys, ["train", "moved.txt", "--resume", "run"], code=2)


def test_quiet_says_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "text.txt", *SMALL, "--out", "run", "--quiet"]) == 0
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    assert (here / "run" / "curve.png").exists()


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


def test_default_folder_is_a_new_one(here: Path) -> None:
    for _ in range(2):
        assert main(["train", "text.txt", *SMALL, "--epochs", "1", "--quiet"]) == 0
    assert {p.name for p in (here / "runs").iterdir()} == {"text-LSTM-6", "text-LSTM-6-2"}


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


def test_wrong_arguments_make_no_folder(here: Path) -> None:
    assert main(["train", "text.txt", *SMALL, "--time", "0"]) == 2
    assert not (here / "runs").exists()


def test_given_validation_text_and_options(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "valid.txt").write_text(TEXT[:200])
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


def test_own_cell_through_train_sample_and_evaluate(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "my_cells.py").write_text(CELLS)
    own = ["--cell", "my_cells.py:Good"]
    assert main(["train", "text.txt", *SMALL, "--epochs", "1", *own, "--out", "run", "--quiet"]) == 0
    model = "run/model.safetensors"
    assert "--cell my_cells.py:Good" in one_line(fails(capsys, ["sample", model]))
    assert main(["sample", model, *own, "--length", "5"]) == 0
    assert main(["evaluate", model, "text.txt", *own]) == 0
    assert "bits/char" in capsys.readouterr().out
    assert main(["train", "--resume", "run", "--quiet", "--epochs", "2"]) == 0


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


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "there is no file bad.txt."),
        (b"", "bad.txt is empty."),
        (b"\x7fELF\0\0", "bad.txt is a binary file (byte 0 at offset 4), not a text."),
        (b"\xff\xfeab", "bad.txt is not utf-8 text (byte 0xff at offset 0)"),
        (b"too short", "characters, fewer than one batch needs: 4 lanes of 10 steps take 41."),
        (b"x", "the text has 1 characters, fewer than one batch needs"),
    ],
    ids=["missing", "empty", "binary", "encoding", "short", "one character"],
)
def test_bad_text(
    here: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, sentence: str
) -> None:
    if content is not None:
        (here / "bad.txt").write_bytes(content)
    assert sentence in one_line(fails(capsys, ["train", "bad.txt", *SMALL, "--out", "run"]))
    assert not (here / "run").exists()


@pytest.mark.parametrize("content", [None, b"", b"\0"], ids=["missing", "empty", "binary"])
def test_bad_text_to_evaluate(model: Path, capsys: pytest.CaptureFixture[str], content: bytes | None) -> None:
    if content is not None:
        (model.parent / "bad.txt").write_bytes(content)
    assert "bad.txt" in one_line(fails(capsys, ["evaluate", str(model), "bad.txt"]))


def test_short_text_to_evaluate(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (model.parent / "short.txt").write_text("a cat")
    sentence = fails(capsys, ["evaluate", str(model), "short.txt"])
    assert sentence == "the text has 5 characters; with 50 of context there is nothing to score."


def test_unseen_characters_in_the_validation_text(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "valid.txt").write_text("ß" * 60, encoding="utf-8")
    assert "'ß'" in one_line(fails(capsys, ["train", "text.txt", "--valid", "valid.txt"]))


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


@pytest.mark.parametrize("command", ["sample", "evaluate", "draw"])
@pytest.mark.parametrize("damage", damaged_models(bytes(100)))
def test_bad_model(model: Path, capsys: pytest.CaptureFixture[str], command: str, damage: str) -> None:
    content, sentence = damaged_models(model.read_bytes())[damage]
    model.write_bytes(content)
    arguments = [command, model.name, *(["text.txt"] if command == "evaluate" else [])]
    assert f"{model.name} {sentence}" in one_line(fails(capsys, arguments))


@pytest.mark.parametrize("command", ["sample", "evaluate", "draw"])
def test_missing_model(here: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    arguments = [command, "none.safetensors", *(["text.txt"] if command == "evaluate" else [])]
    assert fails(capsys, arguments) == "there is no file none.safetensors."


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("train text.txt --units 0", "LSTM: units must be a whole number >= 1, not 0"),
        ("train text.txt --units -5", "LSTM: units must be a whole number >= 1, not -5"),
        ("train text.txt --batch -1", "batch must be a whole number >= 1, not -1"),
        ("train text.txt --batch 0", "batch must be a whole number >= 1, not 0"),
        ("train text.txt --time 0", "time must be a whole number >= 1, not 0"),
        ("train text.txt --memory most", "--memory must be sqrt, or a number of bytes, not most"),
        ("train text.txt --memory 0", "--memory must be sqrt, or a number of bytes, not 0"),
        ("train text.txt --layers 0", "--layers must be a whole number >= 1, not 0"),
        ("train text.txt --epochs 0", "epochs must be a whole number >= 1, not 0"),
        ("train text.txt --dropout 1.5", "dropout, the share that is zeroed, must be in [0, 1), not 1.5"),
        ("train text.txt --dropout nan", "--dropout must be a number, not nan"),
        ("train text.txt --rate 0", "--rate must be a finite number > 0, not 0.0"),
        ("train text.txt --rate nan", "--rate must be a number, not nan"),
        ("train text.txt --clip-norm -1", "--clip-norm must be > 0, or 0 for no limit, not -1"),
        ("train text.txt --clip-values -1", "--clip-values must be > 0, or 0 for no limit, not -1"),
        (
            "train text.txt --optimizer adamm",
            "there is no optimizer 'adamm'; there are sgd, momentum, nesterov,",
        ),
        (
            "train text.txt --optimizer hf --clip-norm 2",
            "--clip-norm is not for --optimizer hf, which has no such",
        ),
        ("train text.txt --optimizer hf --clip-values 2", "it is for first-order optimizers"),
        (
            "train text.txt --optimizer lbfgs --schedule Warmup(2)",
            "--schedule is a factor on a rate, and --optimizer lbfgs has none",
        ),
        (
            "train text.txt --optimizer lbfgs --rate 2",
            "--rate is not for --optimizer lbfgs, which has no such",
        ),
        ("train text.txt --curvature-batches 2", "--curvature-batches is for independent sequences"),
        (
            "train text.txt --gradient-batches 2 --curvature-batches 2",
            "optimizers that ask for the curvature, not for --optimizer adam",
        ),
        (
            "train text.txt --optimizer hf --stride 3 --curvature-batches 2",
            "the curvature, not for --optimizer hf with --stride",
        ),
        ("train text.txt --stride 60", "stride must be at most time, 50, not 60"),
        ("train text.txt --unscored 2", "--unscored is for independent sequences"),
        ("train text.txt --l2 -1", "l2 must be a finite number >= 0, not -1.0"),
        ("train text.txt --seed -1", "seed must be a whole number >= 0, not -1"),
        ("train text.txt --sample -1", "--sample must be a whole number >= 0, not -1"),
        ("train text.txt --cell LSTN", "there is no cell 'LSTN'; graphnet has Elman, Dense, LSTM,"),
        ("train text.txt --cell LSTN", "Did you mean LSTM?"),
        ("train text.txt --test text.txt", "--test FILE needs --valid FILE as well"),
        ("train --valid text.txt", "--valid and --test go with a training text"),
        (
            "sample model.safetensors --temperature -1",
            "temperature must be >= 0 (0: always the likeliest), not -1.0",
        ),
        ("sample model.safetensors --temperature nan", "--temperature must be a number, not nan"),
        ("sample model.safetensors --length 0", "--length must be at least 1, not 0"),
        ("sample model.safetensors --seed -1", "seed must be a whole number >= 0, not -1"),
        ("evaluate model.safetensors text.txt --context -1", "context must be a whole number >= 0, not -1"),
        ("evaluate model.safetensors text.txt --lanes 0", "lanes must be a whole number >= 1, not 0"),
        ("draw model.safetensors --time 0", "--time must be at least 1, not 0"),
        ("draw nothing", "there is no cell 'nothing'"),
        ("draw runs/nothing", "there is no file or folder 'runs/nothing' here"),
        ("demo --out .", ". exists and was not made by the demo"),
    ],
)
def test_impossible_settings(
    model: Path, capsys: pytest.CaptureFixture[str], arguments: str, sentence: str
) -> None:
    """Exit code 2, one sentence, and nothing on standard output before it."""
    before = files(model.parent)
    assert main(arguments.split()) == 2
    captured = capsys.readouterr()
    assert sentence in one_line(captured.err.rstrip("\n"))
    assert captured.out == ""
    assert files(model.parent) == before
    assert not (model.parent / "runs").exists()


@pytest.mark.parametrize("units", [10**14, 10**18])
def test_sizes_that_no_machine_has(here: Path, capsys: pytest.CaptureFixture[str], units: int) -> None:
    sentence = fails(capsys, ["train", "text.txt", "--units", str(units), "--out", "run"], code=2)
    assert f"units must be at most 2147483647, not {units}" in sentence


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


def test_unseen_warm_up(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "has not seen in training: 'Z'" in one_line(
        fails(capsys, ["sample", str(model), "--warm-up", "Z"])
    )


def test_model_that_read_no_text(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rnn.save(rnn.Network([rnn.Elman(2)], inputs=2, outputs=2), here / "m.safetensors")
    assert "no vocabulary" in fails(capsys, ["sample", "m.safetensors"], code=2)
    assert "no vocabulary" in fails(capsys, ["evaluate", "m.safetensors", "text.txt"], code=2)


def test_nan_loss(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["train", "text.txt", *SMALL, "--out", "run", "--optimizer", "sgd", "--rate", "1e38"]
    assert main([*arguments, "--clip-norm", "0"]) == 1
    message = capsys.readouterr().err
    assert "Traceback" not in message
    assert "training cannot go on; try a smaller --rate or --clip-norm." in message
    assert "The checkpoints in run are untouched." in message
    (checkpoint,) = (here / "run").glob("checkpoint-*")
    assert np.isfinite(rnn.load(checkpoint).theta).all()


def test_folder_in_use(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", "text.txt", *SMALL, "--epochs", "1", "--out", "run", "--quiet"])
    sentence = fails(capsys, ["train", "text.txt", *SMALL, "--out", "run", "--quiet"], code=2)
    assert (
        "run holds a run already; continue it (train --resume run, or trainer.resume()), or name another folder."
        in sentence
    )


def test_a_run_that_cannot_begin_leaves_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(here.rglob("*"))
    assert main(["train", "text.txt", *SMALL, "--memory", "1"]) == 1
    assert "memory" in capsys.readouterr().err
    assert sorted(p for p in here.rglob("*") if p.name != "runs") == before
    assert main(["train", "text.txt", *SMALL, "--memory", "1", "--out", "run"]) == 1
    assert main(["train", "text.txt", *SMALL, "--out", "run", "--quiet"]) == 0


def test_resume_of_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sentence = fails(capsys, ["train", "--resume", "none"])
    assert sentence == "none cannot be resumed. There is no checkpoint in it."


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


@pytest.mark.parametrize("cell", ["LSTM", "graphnet_rnn.cells.gru:GRU"])
def test_check(capsys: pytest.CaptureFixture[str], cell: str) -> None:
    assert main(["check", cell]) == 0
    lines = capsys.readouterr().out.splitlines()
    name = cell.rpartition(":")[2]
    assert lines[0] == (cells.ALL[name].__doc__ or "").splitlines()[0]
    assert lines[-1] == f"{name} obeys all laws"
    assert [line.split(":")[0] for line in lines[1:-1]] == [
        f"  ok    {check}" for check in rnn.testing.CHECKS
    ]


def test_check_own_cell(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "my_cells.py").write_text(CELLS)
    assert main(["check", "my_cells.py:Good"]) == 0
    assert capsys.readouterr().out.endswith("Good obeys all laws\n")


BAD_CELLS: list[tuple[str, int, str]] = [
    ("my_cells.py:Cuts", 1, r"Cuts: gradient = finite difference fails.*in layer0\.(W|b)_.*my_cells\.py:21"),
    ("my_cells.py:Stateless", 1, r"Stateless needs a method step\(self, x, h\)"),
    (
        "my_cells.py:Wrong",
        1,
        r"MatMul: axis k is 4 in input 1 but 1 in input 2.*in Wrong\.step at my_cells\.py:36",
    ),
    ("my_cells.py:Typo", 1, r"^AttributeError in Typo\.step at my_cells\.py:45: .*no attribute 'afine'"),
    (
        "my_cells.py:Missing",
        2,
        r"my_cells\.py has no cell 'Missing'; its cells: Good, Cuts, Stateless, Wrong, Typo\.",
    ),
    ("none.py:Cell", 2, r"there is no file none\.py\."),
    ("broken.py:Cell", 2, r"broken\.py cannot be imported: SyntaxError: .*line 2"),
    ("raising.py:Cell", 2, r"raising\.py cannot be imported: ZeroDivisionError: .*\(raising\.py:3\)"),
    (
        "no.such.module:Cell",
        2,
        r"no\.such\.module cannot be imported: ModuleNotFoundError: No module named 'no'",
    ),
    ("LSTMM", 2, r"there is no cell 'LSTMM'.*Did you mean LSTM\?"),
    ("my_cells.py", 2, r"my_cells\.py is a file; say which cell: my_cells\.py:Good or my_cells\.py:Cuts or "),
]


@pytest.mark.parametrize(("cell", "code", "content"), BAD_CELLS, ids=[cell for cell, *_ in BAD_CELLS])
def test_check_bad_cell(
    here: Path, capsys: pytest.CaptureFixture[str], cell: str, code: int, content: str
) -> None:
    (here / "my_cells.py").write_text(CELLS)
    (here / "broken.py").write_text("import graphnet\nclass Cell(:\n")
    (here / "raising.py").write_text("import graphnet\n\n1 / 0\n")
    assert re.search(content, fails(capsys, ["check", cell], code), re.DOTALL)


def test_check_debug_raises_the_law_error(here: Path) -> None:
    (here / "my_cells.py").write_text(CELLS)
    with pytest.raises(graphnet.testing.LawError):
        main(["check", "my_cells.py:Cuts", "--debug"])


# -- draw ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "content", "code"),
    [
        (["GRU", "--out", "picture.xyz"], "xyz", 2),
        (["GRU", "--out", "no/such/folder/picture.svg"], "picture.svg", 2),
    ],
    ids=["ending", "folder"],
)
def test_draw_that_cannot_be_saved(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], content: str, code: int
) -> None:
    assert content in fails(capsys, ["draw", *arguments], code)


@pytest.mark.parametrize("shown", SHOWN)
@pytest.mark.parametrize("subject", ["cell", "model"])
def test_draw_shows_everything_of_a_cell_and_of_a_model(
    here: Path, capsys: pytest.CaptureFixture[str], shown: str, subject: str
) -> None:
    what = "GRU(units=4)"
    if subject == "model":
        what = str(here / "model.safetensors")
        rnn.save(rnn.Network([rnn.Elman(4)], 5, 5), what)
    out = {"explorer": "page.html", "dump": "folder"}.get(shown, "picture.svg")
    assert main(["draw", what, "--show", shown, "--out", out, "--theme", "dark"]) == 0
    assert out in capsys.readouterr().out
    if shown == "dump":
        assert (here / out / "instructions.txt").stat().st_size > 0
    else:
        assert "#15181d" in (here / out).read_text(encoding="utf-8") or shown == "explorer"


@pytest.mark.parametrize("ending", ["svg", "png", "pdf", "dot", "html"])
def test_a_picture_of_before_is_replaced(here: Path, ending: str) -> None:
    for _ in range(2):
        assert main(["draw", "Elman", "--out", f"cell.{ending}"]) == 0


def test_a_picture_of_many_steps_is_announced(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "MANY_STEPS", 3)
    how = ["draw", "Elman", "--show", "values", "--out", "values.svg"]
    assert main([*how, "--time", "3"]) == 0
    assert capsys.readouterr().err == ""
    assert main([*how, "--time", "4"]) == 0
    assert "4 time steps take long to draw" in capsys.readouterr().err


def test_what_is_shown_has_a_fitting_name(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "must end in .html" in fails(capsys, ["draw", "GRU", "--show", "explorer"], 2)
    assert "is to be a folder" in fails(capsys, ["draw", "GRU", "--show", "dump"], 2)


def test_draw_style_is_one_of_two(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["draw", "GRU", "--style", "baroque"])
    assert ended.value.code == 2
    assert "baroque" in capsys.readouterr().err


def test_every_error_of_the_package_is_caught_by_the_command_line() -> None:
    """What is raised on purpose is one class, which `main` words."""
    from graphnet_rnn import errors
    from viz.errors import DrawingError

    for name in errors.__all__:
        assert issubclass(getattr(errors, name), GraphnetError)
    assert issubclass(DrawingError, GraphnetError)


def test_resume_refuses_options_that_would_change_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are named, not ignored."""
    assert main(["train", "--resume", str(tmp_path), "--units", "7", "--out", "x"]) in (1, 2)
    text = tmp_path / "text.txt"
    text.write_text("the same few words again and again. " * 30)
    run = str(tmp_path / "run")
    assert (
        main(
            ["train", str(text), "--units", "4", "--batch", "2", "--time", "5", "--epochs", "1", "--out", run]
        )
        == 0
    )
    assert main(["train", "--resume", run, "--units", "7", "--skip"]) == 2
    assert "leave out --skip, --units" in capsys.readouterr().err
    # Also one that is a default: the run may have been made with another.
    assert main(["train", "--resume", run, "--optimizer", "adam"]) == 2
    assert "leave out --optimizer" in capsys.readouterr().err


def test_two_processes_cannot_train_in_one_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second is told so; once the first is gone, by any end, the folder is free."""
    text = tmp_path / "text.txt"
    text.write_text("the same few words again and again. " * 30)
    train = ["train", str(text), "--units", "4", "--batch", "2", "--time", "5", "--epochs", "1"]
    with RunFolder(tmp_path / "run").locked():
        assert main([*train, "--out", str(tmp_path / "run")]) == 2
        assert "another process trains" in capsys.readouterr().err
    assert main([*train, "--out", str(tmp_path / "run")]) == 0


def test_training_ends_with_the_score_on_the_test_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The printed number is that of `evaluate` on the same characters."""
    text = tmp_path / "text.txt"
    words = "the same few words again and again. " * 60
    text.write_text(words)
    run = tmp_path / "run"
    main(
        [
            "train",
            str(text),
            "--units",
            "4",
            "--batch",
            "2",
            "--time",
            "5",
            "--epochs",
            "1",
            "--out",
            str(run),
        ]
    )
    printed = re.search(r"on the test text: ([\d.]+) bits/char", capsys.readouterr().out)
    assert printed
    (tmp_path / "test.txt").write_text(words[round(len(words) * 0.9) :])
    main(["evaluate", str(run / "model.safetensors"), str(tmp_path / "test.txt"), "--context", "5"])
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


@pytest.mark.parametrize("text", METRICS)
def test_metrics_are_written_by_name_or_as_calls(text: str) -> None:
    assert make_optimizer(text) == METRICS[text]


@pytest.mark.parametrize(
    ("text", "words"),
    [
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
    ],
)
def test_metrics_that_cannot_be_meant(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make_optimizer(text)


@pytest.mark.parametrize(
    "text", ["riemannian(qdruop)", "natural_gradient(kfac)", "hf(preconditioner='kfac', cg_steps=3)"]
)
def test_metrics_train_texts(here: Path, text: str) -> None:
    assert main(["train", "text.txt", *SMALL, "--optimizer", text, "--out", "run", "--quiet"]) == 0
    assert main(["train", "--resume", "run", "--epochs", "3", "--quiet"]) == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cell", None),
        ("cell", ...),
        ("encoding", "x\0"),
        ("data", "book.txt\ngraphnet-rnn train: all is well"),
        ("memory", "9" * 5000),
    ],
)
def test_arguments_that_nobody_wrote(
    here: Path, capsys: pytest.CaptureFixture[str], name: str, value: Any
) -> None:
    """Of a checkpoint from somebody else: one sentence on one line."""
    assert main(["train", "text.txt", *SMALL, "--out", "run", "--quiet"]) == 0
    for checkpoint in (here / "run").glob("checkpoint-*"):
        tensors, said = parts_of(checkpoint.read_bytes())
        arguments = said["training"]["notes"]["arguments"]
        if value is ...:
            del arguments[name]
        else:
            arguments[name] = value
        checkpoint.write_bytes(ModelFile(tensors, said).to_bytes())
    capsys.readouterr()
    assert main(["train", "--resume", "run", "--epochs", "3", "--quiet"]) in (1, 2)
    (said,) = capsys.readouterr().err.splitlines()
    assert "unexpected" not in said
    assert len(said) < 400
    assert re.search("which cannot be|--memory must be|keeps no --cell", said)


def test_resume_says_whose_code_it_imports(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before it does, also if it is quiet; not where the person named the file."""
    (here / "mine.py").write_text(CELLS + "\nimport sys\nprint('imported', file=sys.stderr)\n")
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
    (here / "short.txt").write_text(TEXT[:200])
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
