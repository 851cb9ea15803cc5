"""Commands train, sample, evaluate and check: results, starting points, and files after failures."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest

import graphnet
import graphnet_rnn as rnn
from graphnet_rnn import cells, optimizers
from graphnet_rnn.apps.cli import all_commands, main, make_parser, module_of
from graphnet_rnn.apps.cli.specs import make_optimizer
from graphnet_rnn.errors import DataError, ModelFileError, TrainingError
from graphnet_rnn.formats.model_file import ModelFile
from graphnet_rnn.training import RunFolder
from graphnet_rnn.training.state import digest_of
from tests.graphnet_rnn.apps.cli.bad_invocations import CELLS, TEXT
from tests.graphnet_rnn.formats.resealed import parts_of
from tests.graphnet_rnn.training.runs import contents, require_same_files, rows
from tests.tables import case

SMALL = ["--units", "6", "--time", "10", "--batch", "4", "--epochs", "2", "--sample", "20"]
TRAIN = ["train", "text.txt", *SMALL, "--out", "run"]
AGAIN = ["train", "--resume", "run", "--quiet"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    with contextlib.chdir(folder):
        assert main([*TRAIN, "--quiet"]) == 0
    return folder / "run"


@pytest.fixture
def run(here: Path, trained: Path) -> Path:
    """A run of two epochs, beside its text."""
    return Path(shutil.copytree(trained, here / "run"))


def files(folder: Path) -> dict[str, bytes]:
    """Contents of all files, except in `__pycache__`."""
    found = (p for p in folder.rglob("*") if p.is_file() and p.parent.name != "__pycache__")
    return {str(p.relative_to(folder)): p.read_bytes() for p in found}


def fails(capsys: pytest.CaptureFixture[str], arguments: list[str], code: int = 1) -> str:
    """The one-line error of a command that must change no file."""
    before = files(Path.cwd())
    assert main(arguments) == code
    said = capsys.readouterr().err
    assert said.startswith(f"graphnet-rnn {arguments[0]}: ")
    assert said.count("\n") == 1
    assert files(Path.cwd()) == before
    return said


def shown_by(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Output of --help, on one line."""
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--help"])
    assert ended.value.code == 0
    return " ".join(capsys.readouterr().out.split())


def test_help_shows_commands_defaults_and_valid_examples(capsys: Any) -> None:
    of_all = shown_by(capsys)
    for command, does in all_commands().items():
        shown, options = shown_by(capsys, command), module_of(command)
        with case(command):
            assert f" {command} {does.split()[0]}" in of_all
            assert (options.__doc__ or "").startswith(does)
            assert f"example: graphnet-rnn {command}" in shown
            assert "None)" not in shown
            assert "(default: )" not in shown
            for line in options.EXAMPLE.splitlines()[1:]:
                make_parser().parse_args(re.findall(r'"[^"]*"|\S+', line)[1:])
    with pytest.raises(SystemExit):
        main(["--help", "tasks"])  # of all, whatever follows
    assert " ".join(capsys.readouterr().out.split()) == of_all
    assert "learning rate (default: sgd " in shown_by(capsys, "train")
    assert "adam 0.003" in shown_by(capsys, "train")


def test_round_trip(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(TRAIN) == 0
    shown = capsys.readouterr().out
    for words in (
        r"text: 1,104 characters to train on, 138 to validate, 138 to test; 14 different",
        r"Network\(\[LSTM\(units=6\)\]",
        r"epoch +2: train \d\.\d{3}, validation \d\.\d{3} bits/char",
        r"ended \(epochs\): best \d\.\d{3} bits/char after epoch 2",
        r"try: graphnet-rnn sample run/model.safetensors --length 500",
    ):
        assert re.search(words, shown), words
    assert rows(Path("run"), "start")[0]["optimizer"].items() >= {"rate": 3e-3, "clip_norm": 1.0}.items()
    assert {"model.safetensors", "history.jsonl", "timing.jsonl", "curve.png"} <= set(files(here / "run"))

    assert main(["sample", "run/model.safetensors", "--length", "30", "--warm-up", "a cat"]) == 0
    sampled = capsys.readouterr().out
    assert sampled.startswith("a cat")
    assert len(sampled) == len("a cat") + 30 + 1
    assert set(sampled) <= set(TEXT) | {"\n"}

    assert main(["evaluate", "run/model.safetensors", "text.txt", "--context", "10"]) == 0
    said = "bits/char, accuracy \\d+\\.\\d\\d%, over 1,370 characters with at least 10 of context\n"
    found = re.fullmatch(rf"(\d\.\d{{4}}) {said}", capsys.readouterr().out)
    assert 0 < float(found[1]) < np.log2(14) + 0.2

    assert main(["train", "--resume", "run", "--epochs", "3"]) == 0
    assert "continuing at epoch 3" in capsys.readouterr().out


def test_resume_reads_a_checkpoint_that_replaced_another(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process trains in the folder: the newest checkpoint is gone when its network is read."""
    read = RunFolder.read_checkpoint
    gone = [replace(read(RunFolder("run")), path=run / "checkpoint-000000001.safetensors")]
    monkeypatch.setattr(RunFolder, "read_checkpoint", lambda self: gone.pop() if gone else read(self))
    assert main([*AGAIN, "--epochs", "3"]) == 0
    assert not gone


def test_training_ends_with_the_score_on_the_test_text(here: Path, capsys: Any) -> None:
    """The printed score matches `evaluate` on the same characters."""
    (here / "test.txt").write_text(TEXT[round(len(TEXT) * 0.9) :], encoding="utf-8")
    numbers, judge = [], ["evaluate", "run/model.safetensors", "test.txt", "--context", "5"]
    for command in ([*TRAIN, "--time", "5", "--steps", "5"], judge):
        assert main(command) == 0
        said = capsys.readouterr().out.partition("on the test text: ")
        numbers.append(float(re.match(r"[\d.]+", said[2] or said[0])[0]))  # type: ignore[index]
    assert numbers[0] == pytest.approx(numbers[1], abs=1e-3)


def test_failed_curve_drawing_does_not_fail_the_run(here: Path, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("PATH", "")  # no TeX
    with matplotlib.rc_context({"text.usetex": True}):
        assert main([*TRAIN, "--epochs", "1"]) == 0
    said = capsys.readouterr()
    assert "wrote run/model.safetensors and run/history.jsonl\n" in said.out
    assert "train: curve.png was not drawn: matplotlib, which draws charts, fails (" in said.err
    assert said.err.endswith("Later: graphnet-rnn draw run --out run/curve.png\n")


@pytest.mark.parametrize(
    ("schedule", "optimizer"),
    [
        ("Warmup(5).then(Cosine(20))", "adamw(groups={'layer0.b_*': {'weight_decay': 0}})"),
        ("OnPlateau(0.5, patience=1)", "adam(rate=0.002 * Warmup(5))"),
        pytest.param("", "riemannian(qdruop)", marks=pytest.mark.slow),
        pytest.param("", "hf(preconditioner='kfac', cg_steps=2)", marks=pytest.mark.slow),
    ],
)
def test_schedules_and_optimizers_resume_exactly(here: Path, schedule: str, optimizer: str) -> None:
    """The learning rates match the library."""
    options = [*SMALL, "--units", "3", "--optimizer", optimizer, "--quiet"]
    options += ["--schedule", schedule, "--average", "0.9"] if schedule else ["--steps", "8"]
    for epochs, folder in (("2", "whole"), ("1", "run")):
        assert main(["train", "text.txt", *options, "--epochs", epochs, "--out", folder]) == 0
    assert main([*AGAIN, "--epochs", "2"]) == 0
    require_same_files(contents(here / "run"), contents(here / "whole"))
    if schedule.startswith("Warmup"):
        steps = rows(Path("run"), "step")
        expected = [rnn.Warmup(5).then(rnn.Cosine(20)).at(row["step"] - 1) for row in steps]
        base = steps[0]["learning_rate"] / expected[0]
        assert [row["learning_rate"] for row in steps] == pytest.approx([base * each for each in expected])


def test_resume_without_changes_and_with_other_back_ends(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without changes, no epoch is left; then training continues with other back ends."""
    before = files(run)
    assert main(AGAIN) == 0
    assert capsys.readouterr() == ("", "")
    assert files(run).keys() == before.keys()
    assert {name for name, content in files(run).items() if content != before[name]} <= {"curve.png"}
    assert main([*AGAIN, "--epochs", "3", "--backend", "numpy", "--threads", "1"]) == 0
    assert main([*AGAIN, "--epochs", "4", "--backend", "numba", "--memory", "sqrt"]) == 0
    assert [row["epoch"] for row in rows(Path("run"), "epoch")] == [1, 2, 3, 4]


def test_resume_after_the_texts_have_moved(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "valid.txt").write_text(TEXT, encoding="utf-8")
    assert main([*TRAIN, "--valid", "valid.txt", "--quiet"]) == 0
    (here / "valid.txt").rename(here / "other.txt")
    assert "train --resume run --valid FOLDER/valid.txt" in fails(capsys, AGAIN, 2)
    again = [*AGAIN, "--valid", "other.txt"]
    (here / "text.txt").rename(here / "moved.txt")
    assert "give the new place of the file: train --resume run FOLDER/text.txt" in fails(capsys, again, 2)
    assert main([*again, "moved.txt"]) == 0
    (here / "moved.txt").write_text(TEXT.replace("cat", "tac"), encoding="utf-8")
    assert "the text has changed" in fails(capsys, [*again, "moved.txt"], 2)


def test_interrupted_ends_with_130(here: Path, capsys: Any, monkeypatch: Any) -> None:
    """Interrupted in the first epoch, when there is no curve yet."""

    def interrupt(self: Any, trainer: rnn.Trainer, report: Any) -> None:
        trainer._interruption.requested = True

    monkeypatch.setattr("graphnet_rnn.apps.cli.console.Console.stepped", interrupt)
    for folder, quiet in (("my run", []), ("other", ["--quiet"])):
        assert main(["train", "text.txt", *SMALL, "--out", folder, *quiet]) == 130
        assert list((here / folder).glob("checkpoint-*"))
        said = capsys.readouterr().out
        assert said == "" if quiet else "continue with: graphnet-rnn train --resume 'my run'" in said


def test_concurrent_runs_get_different_default_folders(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is made when its name is chosen, so a second command takes the next name."""
    names, run = [], rnn.Trainer.run
    train = ["train", "text.txt", *SMALL, "--epochs", "1", "--quiet"]

    def meanwhile(trainer: rnn.Trainer) -> object:
        if not names:
            names.append(trainer.folder.path.name)
            assert main(train) == 0
        names.append(trainer.folder.path.name)
        return run(trainer)

    monkeypatch.setattr(rnn.Trainer, "run", meanwhile)
    assert main(train) == 0
    assert names == ["text-LSTM-6", "text-LSTM-6-2", "text-LSTM-6"]


def test_validation_text_and_training_options(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "valid.txt").write_text(TEXT[:200], encoding="utf-8")
    learns = "--optimizer nesterov --rate 0.05 --clip-values 1 --clip-norm 0 --valid valid.txt"
    made_of = "--cell GRU --layers 2 --skip --dropout 0.1 --recurrent-dropout 0.2 --initial-state learned"
    assert main([*TRAIN, "--no-early-stopping", "--variational", *learns.split(), *made_of.split()]) == 0
    assert "1,380 characters to train on, 200 to validate, 0 to test" in capsys.readouterr().out
    (start,) = rows(Path("run"), "start")
    assert start["optimizer"].items() >= {"name": "Nesterov", "rate": 0.05, "clip_norm": None}.items()
    assert start["clip_values"] == 1
    expected = {"skip": True, "dropout": 0.1, "recurrent_dropout": 0.2, "variational": True}
    assert start["model"] == start["model"] | expected | {"initial_state": "learned"}
    assert [layer["cell"] for layer in start["model"]["layers"]] == ["GRU", "GRU"]


def test_output_bias_starts_at_the_frequencies_of_the_training_text(here: Path) -> None:
    assert main([*TRAIN, "--quiet", "--epochs", "1", "--steps", "1", "--rate", "1e-9"]) == 0
    network, begun = rnn.load("run/model.safetensors"), TEXT[: len(TEXT) * 8 // 10]
    seen = np.array([begun.count(c) + 1 for c in network.vocabulary.characters])
    bias = network.parameters["output.b_o"].value
    np.testing.assert_allclose(np.exp(bias), seen / seen.sum(), rtol=1e-3)


def test_seeds_argmax_and_unknown_characters(here: Path, run: Path, capsys: Any) -> None:
    def sample(*options: str) -> str:
        assert main(["sample", "run/model.safetensors", "--length", "40", *options]) == 0
        return capsys.readouterr().out

    assert sample() == sample("--seed", "0") != sample("--seed", "1")
    assert sample("--argmax") == sample("--temperature", "0") == sample("--argmax", "--seed", "3")
    (here / "other.txt").write_text(TEXT + "Ω", encoding="utf-8")
    assert main(["evaluate", "run/model.safetensors", "other.txt", "--unknown", "a"]) == 0


def test_texts_too_short_to_validate_are_reported(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "short.txt").write_text(TEXT[:200], encoding="utf-8")
    assert main(["train", "short.txt", *SMALL, "--time", "30", "--batch", "1", "--out", "run"]) == 0
    assert "the first 30 (time) are not scored, so there is no validation" in capsys.readouterr().err


def test_check(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A cell of the package, and one of a user."""
    (here / "cells.py").write_text(CELLS, encoding="utf-8")
    assert main(["check", "graphnet_rnn.cells.gru:GRU", "cells.py:Own(2)"]) == 0
    words, *lines = capsys.readouterr().out.splitlines()
    assert words == (cells.ALL["GRU"].__doc__ or "").splitlines()[0]
    checks = [line.split(":")[0] for line in lines[: len(rnn.testing.CHECKS)]]
    assert checks == [f"  ok    {check}" for check in rnn.testing.CHECKS]
    assert lines[len(checks)] == "GRU passes all checks"
    assert lines[-1] == "Own passes all checks"
    with pytest.raises(graphnet.testing.LawError):
        main(["check", "cells.py:Cuts", "--debug"])


def test_memory_errors_and_unexpected_exceptions_are_reported(
    here: Path, capsys: Any, monkeypatch: Any
) -> None:
    """The error has the allocation's message and a remedy; --debug raises the exception itself."""

    def exhausted(*arguments: object) -> None:
        raise MemoryError("Unable to allocate 9 TiB")

    monkeypatch.setattr("graphnet_rnn.apps.cli.material.load_corpus", exhausted)
    remedy = "not enough memory; try a smaller --units or --layers or --batch or --time"
    assert re.search(f"{remedy} .*Unable to allocate 9 TiB", fails(capsys, TRAIN))
    monkeypatch.setattr("graphnet_rnn.apps.cli.material.load_corpus", lambda *_: {}["a\nb"])
    assert re.search(r"unexpected KeyError: .* at \S*test_train\.py:\d+; --debug", fails(capsys, TRAIN))
    with pytest.raises(KeyError):
        main([*TRAIN, "--debug"])
    (here / "bad.safetensors").write_bytes(b"")
    with pytest.raises(ModelFileError):
        main(["sample", "bad.safetensors", "--debug"])


def test_non_finite_loss_keeps_the_checkpoints(here: Path, capsys: Any) -> None:
    diverges = [*TRAIN, "--optimizer", "sgd", "--rate", "1e38", "--clip-norm", "0"]
    assert main(diverges) == 1
    said = "training cannot go on; try a smaller --rate or --clip-norm. The checkpoints in run are untouched."
    assert said in " ".join(capsys.readouterr().err.split())
    (checkpoint,) = (here / "run").glob("checkpoint-*")
    assert np.isfinite(rnn.load(checkpoint).theta).all()
    with pytest.raises(TrainingError):
        main([*diverges, "--out", "other", "--debug"])


def test_failed_start_leaves_no_files(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(here.rglob("*"))
    assert main(["train", "text.txt", *SMALL, "--memory", "1"]) == 1
    assert "memory" in capsys.readouterr().err
    assert sorted(p for p in here.rglob("*") if p.name != "runs") == before
    with RunFolder(here / "run").locked():
        assert main([*TRAIN, "--steps", "1"]) == 2
        assert "another process is training" in capsys.readouterr().err
    assert main([*TRAIN, "--quiet", "--steps", "1"]) == 0


def test_resume_says_how_an_ended_run_continues(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that reached its number of epochs takes more; one that reached its goal does not."""
    assert main([*TRAIN, "--goal", "99", "--quiet"]) == 0
    assert main(["train", "--resume", "run", "--epochs", "9"]) == 0
    shown = capsys.readouterr().out
    assert "by its goal and cannot be continued; train its model in a new run: --start run/model" in shown
    assert "increase" not in shown
    assert main([*TRAIN, "--quiet", "--out", "other"]) == 0
    assert main(["train", "--resume", "other"]) == 0
    assert "this run has ended; to continue it, increase --epochs" in capsys.readouterr().out


def test_resume_of_a_run_from_python(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = rnn.Network([rnn.Elman(3)], inputs=14, outputs=14)
    problem = rnn.CarriedText(network, rnn.data.Corpus.split(TEXT), time=10, batch=4)
    rnn.Trainer(problem, rnn.Training(epochs=1), "run").run()
    assert "was not written by this command" in fails(capsys, AGAIN, 2)


def test_invalid_stored_arguments_are_rejected(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Checkpoints of others with invalid arguments give a one-line error."""
    before = {path: path.read_bytes() for path in run.glob("checkpoint-*")}
    data = "book.txt\ngraphnet-rnn train: all is well"
    wrong = [("encoding", "x\0"), ("data", data), ("data", 3), ("memory", "9" * 5000), ("units", "many")]
    for name, value in wrong:
        for checkpoint, content in before.items():
            tensors, described = parts_of(content)
            arguments = described["training"]["notes"]["arguments"]
            arguments[name] = value
            checkpoint.write_bytes(ModelFile(tensors, described).to_bytes())
        assert main([*AGAIN, "--epochs", "3"]) in (1, 2)
        (said,) = capsys.readouterr().err.splitlines()
        with case(name):
            assert "unexpected" not in said
            assert len(said) < 400
            assert re.search("is damaged|--memory must be|is no file|encoding", said)


def test_resume_names_the_code_that_it_imports(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names the file before importing it, also with --quiet, but not if the user named it in this command."""
    mine = here / "mine.py"
    mine.write_text(CELLS + "\nimport sys\nprint('imported', file=sys.stderr)\n", encoding="utf-8")
    assert main([*TRAIN, "--cell", "mine.py:Own", "--quiet"]) == 0
    assert "importing" not in capsys.readouterr().err
    os.utime(mine, (1, 1))  # as another process would, the command imports it anew
    assert main([*AGAIN, "--epochs", "3"]) == 0
    first, *others = capsys.readouterr().err.splitlines()
    assert first.endswith(f"started with the cell mine.py:Own: importing {mine}, which executes its code")
    assert others == ["imported"]
    assert main([*AGAIN, "--cell", "mine.py:Own"]) == 0
    assert "importing" not in capsys.readouterr().err


DIAGONAL = rnn.riemannian.OuterProduct("diagonal", damping=0.1)
KFAC = rnn.riemannian.Kronecker()
WAVES = rnn.Warmup(5).then(rnn.Cosine(20))
NESTEROV = rnn.NesterovMomentum(0.9)
METRICS: dict[str, optimizers.Optimizer] = {
    "riemannian(rbpm)": rnn.Riemannian("rbpm"),
    "riemannian(OuterProduct('diagonal', damping=0.1), tries=3)": rnn.Riemannian(DIAGONAL, tries=3),
    "natural_gradient(kfac, every=5, graft='adam')": rnn.NaturalGradient(KFAC, every=5, graft="adam"),
    "natural_gradient(rate={0: 0.1, 9: 0.01})": rnn.NaturalGradient(rate=rnn.Stepwise({0: 0.1, 9: 0.01})),
    "adam(rate=0.002 * Warmup(5).then(Cosine(20)))": rnn.Adam(0.002 * WAVES),
    "natural_gradient(rate=2 * Cosine(9), momentum=NesterovMomentum(0.9))":
        rnn.NaturalGradient(rate=2 * rnn.Cosine(9), momentum=NESTEROV),
    "momentum(momentum=Stepwise.spaced((0.5, 0.9), last=8).capped(0.8))":
        rnn.Momentum(momentum=rnn.Stepwise({0: 0.5, 8: 0.8})),
    "hf(preconditioner='qdruop')": rnn.HessianFree(preconditioner=rnn.riemannian.METRICS["qdruop"]()),
}  # fmt: skip


def test_metrics_are_written_by_name_or_as_calls() -> None:
    for text, optimizer in METRICS.items():
        assert make_optimizer(text) == optimizer, text


# -- from the network of a model file ------------------------------------------------------------

SHORT = ("--time", "10", "--batch", "4", "--sample", "0", "--quiet", "--epochs", "1")
START = ("--start", "run/model.safetensors", *SHORT)


@pytest.mark.slow
def test_training_from_a_model_with_another_optimizer_resumes(here: Path, run: Path) -> None:
    """The result equals that of a program with `rnn.load`, a problem and a Trainer."""
    net = rnn.load("run/model.safetensors")
    words = ["train", "text.txt", *START, "--optimizer", "hf(cg_steps=2)", "--gradient-batches", "2"]
    assert main([*words, "--epochs", "2", "--out", "whole"]) == 0
    assert main([*words, "--out", "parts"]) == 0
    described, start = rows(here / "whole", "start")[0], digest_of(net.theta)
    assert (described["start"], described["model"]) == (start, net.description())
    shutil.rmtree(run)  # the new one has its own weights by now
    assert main(["train", "--resume", "parts", "--epochs", "2", "--quiet"]) == 0
    require_same_files(contents(here / "parts"), contents(here / "whole"))
    problem = rnn.DrawnText(net, rnn.data.Corpus.read("text.txt"), 10, 4, gradient_batches=2, sample=0)
    rnn.Trainer(problem, rnn.Training(rnn.HessianFree(cg_steps=2), epochs=2), "program", start=start).run()
    theta = rnn.load("program/model.safetensors").theta
    np.testing.assert_array_equal(theta, rnn.load("parts/model.safetensors").theta)


def test_training_options_may_differ_from_the_starting_model(run: Path) -> None:
    assert main(["train", "text.txt", *START, "--dropout", "0.25", "--seed", "9", "--out", "new"]) == 0
    described = rows(Path("new"), "start")[0]["model"]
    assert (described["dropout"], described["seed"]) == (0.25, 9)
    assert described["layers"] == [{"cell": "LSTM", "units": 6}]


def test_start_from_a_model_uses_its_vocabulary(here: Path, run: Path, capsys: Any) -> None:
    (here / "few.txt").write_text("a mat sat on a hat. " * 40, encoding="utf-8")
    assert main(["train", "few.txt", *START, "--out", "few"]) == 0
    assert rnn.load("few/model.safetensors").vocabulary == rnn.load("run/model.safetensors").vocabulary
    (here / "zebra.txt").write_text("a zebra sat on a mat. " * 40, encoding="utf-8")
    before = sorted(here.rglob("*"))
    assert main(["train", "zebra.txt", *START]) == 1
    assert sorted(here.rglob("*")) == before
    assert "2 character(s) that are not in the vocabulary of the model: 'b' 'z'" in capsys.readouterr().err
    assert main(["train", "zebra.txt", *START, "--unknown", "a", "--out", "zebra"]) == 0
    with pytest.raises(DataError, match="also give vocabulary"):  # in Python
        rnn.data.Corpus.split("axca" * 10, unknown="d")


def test_start_and_resume_with_a_user_defined_cell(here: Path) -> None:
    mine = "import graphnet_rnn as rnn\nclass Mine(rnn.Elman):\n    __doc__ = rnn.Elman.__doc__\n"
    (here / "cells.py").write_text(mine, encoding="utf-8")
    words = ["train", "text.txt", *SHORT, "--cell", "cells.py:Mine"]
    assert main([*words, "--units", "4", "--out", "first"]) == 0
    assert main([*words, "--start", "first/model.safetensors", "--out", "second"]) == 0
    assert main(["train", "--resume", "second", "--epochs", "2", "--quiet"]) == 0


def test_start_from_a_model_uses_its_loss_and_columns(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The model's loss and columns are used, for columns in any order. Tables with others are rejected."""
    table = np.random.default_rng(0).standard_normal((200, 3)).round(2)
    np.savetxt("one.csv", table, "%.3f", ",", header="a,b,c", comments="")
    np.savetxt("two.csv", table[:, ::-1], "%.3f", ",", header="c,b,a", comments="")
    words = ["train", "--pieces", "10", "--epochs", "1", "--quiet"]
    assert main([*words, "one.csv", "--target", "c", "--units", "3", "--out", "first"]) == 0
    for name in ("one", "two"):
        assert main([*words, f"{name}.csv", "--start", "first/model.safetensors", "--out", name]) == 0
    one, two = (rnn.load(f"{name}/model.safetensors") for name in ("one", "two"))
    assert one.columns == two.columns
    np.testing.assert_array_equal(one.theta, two.theta)
    (here / "three.csv").write_text("x,y\n1,2\n" * 20, encoding="utf-8")
    assert main([*words, "three.csv", "--start", "first/model.safetensors", "--out", "three"]) != 0
    assert "has no column 'a'" in capsys.readouterr().err


def test_patience_counts_epochs_without_a_new_best(here: Path) -> None:
    # Of random weights that rates of 1e-12 leave as they are, no epoch is better than the first.
    words = [*TRAIN, "--quiet", "--epochs", "9", "--patience", "2", "--rate", "1e-12"]
    assert main(words) == 0
    history = Path("run/history.jsonl").read_text(encoding="utf-8")
    assert history.count('"event": "epoch"') == 3
