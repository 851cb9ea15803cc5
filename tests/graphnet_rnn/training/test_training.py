"""Training: it learns, it is the same every time, and nothing that stops it loses anything."""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn import optimizers
from graphnet_rnn.data import Corpus
from graphnet_rnn.errors import DataError, ModelFileError, SaveError, TrainingError, UsageError
from graphnet_rnn.formats.model_file import ModelFile, read_model_file
from graphnet_rnn.optimizers import Report
from graphnet_rnn.training import EarlyStopping, Listener, Outcome, RunFolder, Trainer
from graphnet_rnn.training.state import TrainingState, read_training_state
from tests.graphnet_rnn.formats.resealed import parts_of
from tests.graphnet_rnn.training.runs import At, contents, interrupt_at, require_same_files, rows, text_run
from tests.tables import case

TEXT = "the quick brown fox jumps over the lazy dog. " * 25


def trainer(folder: Path, text: str = TEXT, **settings: Any) -> Trainer:
    """A run of three epochs of seven pieces; network settings in `net`."""
    corpus = Corpus.split(text)
    size = len(corpus.vocabulary)
    net = {"layers": [rnn.GRU(8)], **settings.pop("net", {})}
    network = rnn.Network(**net, inputs=size, outputs=size)
    optimizer = settings.pop("optimizer", optimizers.Adam(0.01, clip_norm=5.0))
    chosen = {"time": 15, "batch": 8, "epochs": 3, "sample": 10, "log_every": 2, **settings}
    return text_run(network, corpus, folder, optimizer=optimizer, **chosen)


# -- what a run does -----------------------------------------------------------------------------


def test_loss_falls_and_the_history_tells(tmp_path: Path) -> None:
    run = trainer(tmp_path / "run", epochs=6, optimizer=optimizers.Adam(0.03))
    outcome = run.run()
    assert len(run.problem) == 7
    epochs, steps, (start,) = (rows(tmp_path / "run", event) for event in ("epoch", "step", "start"))
    assert epochs[-1]["train_bits"] < 0.7 * epochs[0]["train_bits"]
    assert epochs[-1]["valid_bits"] < 0.7 * epochs[0]["valid_bits"]
    assert [row["epoch"] for row in epochs] == [1, 2, 3, 4, 5, 6]
    assert [row["step"] for row in steps] == list(range(2, 43, 2))
    assert steps[0]["epoch"] == pytest.approx(2 / 7)
    assert all(len(row["sample"]) == 10 for row in epochs)
    assert start["model"] == run.problem.model.description()
    best = min(epochs, key=lambda row: row["valid_bits"])
    assert outcome == Outcome("epochs", best["valid_bits"], best["epoch"], 6, 42)
    assert epochs[0]["best"] is True
    model = read_model_file(run.folder.model)
    assert model.description["notes"] == {"epoch": best["epoch"], "bits": best["valid_bits"]}


def test_the_history_tells_norms_and_samples_from_before_the_first_step_on(tmp_path: Path) -> None:
    run = trainer(tmp_path / "run", epochs=2)
    before = rnn.weight_norms(run.problem.model)
    run.run()
    (initial,), epochs = (rows(tmp_path / "run", event) for event in ("initial", "epoch"))
    assert initial["epoch"] == 0
    assert initial["weight_norms"] == before
    assert len(initial["sample"]) == 10
    assert epochs[-1]["weight_norms"] == rnn.weight_norms(run.problem.model) != before
    assert list(before) == list(run.problem.model.parameters)


def test_reported_losses_are_those_of_an_untrained_and_a_trained_net(tmp_path: Path) -> None:
    """The first step's bits are near log₂ of the vocabulary; the epoch's validation is the evaluator's."""
    run = trainer(tmp_path / "run", epochs=1)
    run.run()
    (epoch,), first = rows(tmp_path / "run", "epoch"), rows(tmp_path / "run", "step")[0]
    assert first["train_bits"] == pytest.approx(np.log2(len(run.problem.corpus.vocabulary)), rel=0.1)
    evaluated = rnn.Evaluator(rnn.load(run.folder.model), lanes=8, time=15)(
        run.problem.corpus.valid, context=15
    )
    assert epoch["valid_bits"] == pytest.approx(evaluated.bits)


def test_less_memory_is_the_same_training(tmp_path: Path) -> None:
    """Dropout masks and learned states included: only rounding differs, and it grows little in two epochs."""
    net = {"layers": [rnn.LSTM(8), rnn.LSTM(8)], "dropout": 0.2, "initial_state": "learned"}
    found = []
    for memory in (None, "sqrt"):
        t = trainer(tmp_path / str(memory), epochs=2, time=24, batch=8, memory=memory, net=dict(net))
        t.run()
        found.append([row["train_bits"] for row in rows(tmp_path / str(memory), "step")])
    np.testing.assert_allclose(found[1], found[0], rtol=2e-4)


@pytest.mark.parametrize("by_epoch", [True, False])
def test_rate_follows_the_schedule(by_epoch: bool, tmp_path: Path) -> None:
    """What listeners are told, and rows of steps and of epochs: each the rate that the last step took."""

    class Taken(Listener):
        def stepped(self, trainer: Trainer, report: Any) -> None:
            taken.append(trainer.progress.rate)

    taken: list[float] = []
    schedule = optimizers.ExponentialDecay(0.5, after=2)
    how: dict[str, Any] = {"schedule": schedule.by_epoch() if by_epoch else schedule, "log_every": 1}
    run = trainer(tmp_path / "run", epochs=4, listeners=[Taken()], **how)
    run.run()
    pieces = len(run.problem)
    if by_epoch:
        assert taken[::pieces] == [0.01, 0.01, 0.005, 0.0025]
    else:
        assert taken == [0.01 * schedule.at(t) for t in range(4 * pieces)]
    assert [row["learning_rate"] for row in rows(tmp_path / "run", "step")] == taken
    assert [row["learning_rate"] for row in rows(tmp_path / "run", "epoch")] == taken[pieces - 1 :: pieces]


def test_states_are_carried_from_piece_to_piece(tmp_path: Path) -> None:
    """A step is taken from the states that the piece before ended in, and an epoch starts anew."""
    run = trainer(tmp_path / "run", optimizer=optimizers.SGD(1e-30), epochs=2)
    seen: list[list[np.ndarray[Any, Any]]] = []

    class Watch(Listener):
        def stepped(self, trainer: Trainer, report: Report) -> None:
            seen.append([a.copy() for a in trainer.problem.carried])

    run.listeners = [Watch()]
    run.run()
    assert all(a.any() for carried in seen for a in carried)
    for first, again in zip(seen[:7], seen[7:], strict=True):  # the weights hardly change
        assert np.allclose(first[0], again[0], atol=1e-6)
    assert not np.allclose(seen[0][0], seen[1][0], atol=1e-3)


@pytest.mark.parametrize("kind", ["zero", "learned"])
def test_every_piece_gets_dropout_masks_of_its_own(tmp_path: Path, kind: str) -> None:
    """The weights hardly change, so that losses of one piece in two epochs differ by the masks alone."""
    losses: dict[float, list[float]] = {0.0: [], 0.4: []}
    for dropout, seen in losses.items():

        class Watch(Listener):
            def stepped(self, trainer: Trainer, report: Report) -> None:
                seen.append(report.loss)

        layers = [rnn.GRU(8), rnn.GRU(8)]
        net = {"layers": layers, "dropout": dropout, "initial_state": kind}
        folder = tmp_path / str(dropout)
        trainer(folder, net=net, optimizer=optimizers.SGD(1e-30), epochs=2, listeners=[Watch()]).run()
    assert losses[0.0][:7] == losses[0.0][7:]
    assert all(a != b for a, b in zip(losses[0.4][:7], losses[0.4][7:], strict=True))


def test_two_runs_are_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        trainer(tmp_path / name, net={"layers": [rnn.LSTM(6), rnn.GRU(5)], "dropout": 0.3}).run()
    require_same_files(contents(tmp_path / "a"), contents(tmp_path / "b"))


def test_only_the_last_two_checkpoints_are_kept(tmp_path: Path) -> None:
    run = trainer(tmp_path / "run", checkpoint_seconds=0)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".model.safetensors.0123abcd.part").write_bytes(b"what a killed process was writing")
    run.run()
    assert [p.name for p in run.folder.checkpoints()] == [
        "checkpoint-000000020.safetensors",
        "checkpoint-000000021.safetensors",
    ]
    assert {p.name for p in (tmp_path / "run").iterdir()} == {
        "model.safetensors", "history.jsonl", "timing.jsonl", *(p.name for p in run.folder.checkpoints())
    }  # fmt: skip


def test_checkpoint_is_a_model(tmp_path: Path) -> None:
    run = trainer(tmp_path / "run")
    run.run()
    loaded = rnn.load(run.folder.checkpoints()[-1])
    assert np.array_equal(loaded.theta, run.theta)
    assert loaded.vocabulary == run.problem.corpus.vocabulary


def test_early_stopping_ends(tmp_path: Path) -> None:
    outcome = trainer(
        tmp_path / "run", epochs=50, stopping=EarlyStopping(2, 0.5), optimizer=optimizers.SGD(1e-30)
    ).run()
    assert outcome.reason == "early stopping"
    assert outcome.epochs == 3, "the cost has not fallen to a quarter in two epochs"
    resumed = trainer(
        tmp_path / "run", epochs=50, stopping=EarlyStopping(2, 0.5), optimizer=optimizers.SGD(1e-30)
    )
    resumed.resume()
    assert resumed.run() == outcome, "a run that has ended stays ended"


def test_too_little_to_validate_means_training_bits_decide(tmp_path: Path) -> None:
    run = trainer(tmp_path / "run", text=TEXT[:160], time=15, batch=8)
    outcome = run.run()
    epochs = rows(tmp_path / "run", "epoch")
    assert {row["valid_bits"] for row in epochs} == {None}
    assert outcome.best == min(row["train_bits"] for row in epochs)


def test_a_listener_ends_the_run_after_the_epoch(tmp_path: Path) -> None:
    class Stop(Listener):
        def stepped(self, trainer: Trainer, report: Report) -> None:
            trainer.stop("time is up")

    outcome = trainer(tmp_path / "run", listeners=[Stop()]).run()
    assert (outcome.reason, outcome.epochs) == ("time is up", 1)


# -- interrupted and resumed ---------------------------------------------------------------------

NETS: dict[str, dict[str, Any]] = {
    "dropout": {"layers": [rnn.LSTM(6), rnn.GRU(5)], "dropout": 0.3, "skip": True},
    "learned states": {"layers": [rnn.Elman(6), rnn.LSTM(4)], "dropout": 0.2, "initial_state": "learned"},
}


def require_the_same_bytes_in_parts(
    folder: Path, kind: type[optimizers.Optimizer], net: dict[str, Any]
) -> None:
    """Byte for byte: mid-epoch, at the first step, and at the end of an epoch."""
    limit = {"clip_norm": 1.0} if issubclass(kind, optimizers.FirstOrder) else {}
    settings: dict[str, Any] = {"net": net, "optimizer": kind(**limit), "epochs": 2}
    trainer(folder / "whole", **settings).run()
    for step in (1, 7, 11):
        run = trainer(folder / "parts", **settings, listeners=[interrupt_at(step)])
        if step > 1:
            run.resume()
        assert run.run().reason == "interrupted"
        assert run.progress.step == step
    last = trainer(folder / "parts", **settings)
    last.resume()
    assert last.run().reason == "epochs"
    require_same_files(contents(folder / "parts"), contents(folder / "whole"))


@pytest.mark.parametrize("kind", optimizers.ALL.values(), ids=optimizers.ALL)
def test_interrupted_and_resumed_is_never_stopped(tmp_path: Path, kind: type[optimizers.Optimizer]) -> None:
    require_the_same_bytes_in_parts(tmp_path, kind, {"layers": [rnn.GRU(4)]})


@pytest.mark.slow
def test_nets_with_dropout_and_learned_states_too(tmp_path: Path) -> None:
    for net, kind in (("dropout", rnn.Adam), ("dropout", rnn.HessianFree), ("learned states", rnn.Adam)):
        with case(net, kind.__name__):
            require_the_same_bytes_in_parts(tmp_path / net / kind.__name__, kind, NETS[net])


def test_fixed_weights_come_from_the_checkpoint(tmp_path: Path) -> None:
    """They are what was drawn when the run began, whatever the cell of the continuation would draw."""
    drawn = rnn.EchoState(8, initial={"W_hh": rnn.initializers.orthogonal()})
    whole = trainer(tmp_path / "whole", net={"layers": [drawn]})
    whole.run()
    trainer(tmp_path / "parts", net={"layers": [drawn]}, listeners=[interrupt_at(5)]).run()
    last = trainer(tmp_path / "parts", net={"layers": [rnn.EchoState(8)]})
    last.resume()
    last.run()
    assert np.array_equal(
        last.problem.model.fixed["layer0.W_hh"].value, whole.problem.model.fixed["layer0.W_hh"].value
    )
    require_same_files(contents(tmp_path / "parts"), contents(tmp_path / "whole"))


def test_other_signals_leave_a_checkpoint_too(tmp_path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        with case(number):
            run = trainer(tmp_path / str(number), listeners=[interrupt_at(5, number)])
            assert run.run().reason == "interrupted"
            assert run.folder.checkpoints()[-1].name == "checkpoint-000000005.safetensors"


def test_what_is_ignored_stays_so(tmp_path: Path) -> None:
    """nohup ignores SIGHUP, and a shell SIGINT in what a script starts in the background."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGHUP, signal.SIGINT)}
    try:
        for number in before:
            outcome = trainer(tmp_path / str(number), listeners=[interrupt_at(5, number)]).run()
            assert outcome.reason == "epochs"
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_handlers_are_put_back(tmp_path: Path) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    trainer(tmp_path / "run", epochs=1).run()
    assert [signal.getsignal(number) for number in numbers] == before


def test_a_listener_with_a_method_that_nobody_calls() -> None:
    with pytest.raises(
        UsageError, match=r"Odd.step_ended: a listener is told by .* stepped\(trainer, report\)"
    ):

        class Odd(Listener):
            def step_ended(self, trainer: Trainer) -> None: ...

    class Even(Listener):
        def stepped(self, trainer: Trainer, report: Report) -> None: ...

        def _of(self, trainer: Trainer) -> None: ...

        def table(self, rows: int) -> None: ...

    assert Even()


class Twice(Listener):
    """Two signals in the fifth step."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers

    def stepped(self, trainer: Trainer, report: Report) -> None:
        if trainer.progress.step == 5:
            for number in self.numbers:
                os.kill(os.getpid(), number)


def test_second_interrupt_ends_at_once(tmp_path: Path) -> None:
    for first, second in (
        (signal.SIGINT, signal.SIGINT),
        (signal.SIGTERM, signal.SIGTERM),
        (signal.SIGHUP, signal.SIGINT),
    ):
        with case(first, second), pytest.raises(KeyboardInterrupt):
            trainer(tmp_path / str(first), listeners=[Twice(first, second)]).run()


def test_a_terminal_that_closes_is_not_impatient(tmp_path: Path) -> None:
    """It often sends two: its shell tells its jobs, and the system tells them when the shell has gone."""
    for first in (signal.SIGINT, signal.SIGHUP):
        with case(first):
            run = trainer(tmp_path / str(first), listeners=[Twice(first, signal.SIGHUP)])
            assert run.run().reason == "interrupted"
            assert run.folder.checkpoints()[-1].name == "checkpoint-000000005.safetensors"


def test_a_listener_that_fails_loses_no_step(tmp_path: Path) -> None:
    """The terminal that it writes to has closed, e.g."""

    class Fails(Listener):
        def stepped(self, trainer: Trainer, report: Report) -> None:
            if trainer.progress.step == 5:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.raises(OSError, match="Input/output error"):
        trainer(tmp_path / "parts", listeners=[Fails()]).run()
    last = trainer(tmp_path / "parts")
    assert last.folder.checkpoints()[-1].name == "checkpoint-000000005.safetensors"
    last.resume()
    last.run()
    trainer(tmp_path / "whole").run()
    require_same_files(contents(tmp_path / "parts"), contents(tmp_path / "whole"))


def test_killed_between_first_checkpoint_and_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*arguments: Any) -> None:
        raise ConnectionError

    with monkeypatch.context() as planted:
        planted.setattr("graphnet_rnn.training.folder.append_line", die)
        with pytest.raises(ConnectionError):
            trainer(tmp_path / "parts").run()
    last = trainer(tmp_path / "parts")
    last.resume()
    last.run()
    trainer(tmp_path / "whole").run()
    require_same_files(contents(tmp_path / "parts"), contents(tmp_path / "whole"))


def test_more_epochs_on_resume(tmp_path: Path) -> None:
    trainer(tmp_path / "whole", epochs=4).run()
    assert trainer(tmp_path / "parts", epochs=2).run().epochs == 2
    more = trainer(tmp_path / "parts", epochs=4)
    more.resume()
    assert more.run().epochs == 4
    require_same_files(contents(tmp_path / "parts"), contents(tmp_path / "whole"))


@pytest.mark.parametrize("steps", [1, 9, 20])
def test_a_run_whose_steps_are_used_up_is_validated_there_and_goes_on_as_if_unbroken(
    tmp_path: Path, steps: int
) -> None:
    whole = trainer(tmp_path / "whole", epochs=3)
    whole.run()
    length = len(whole.problem)
    cut = trainer(tmp_path / "cut", epochs=3, steps=steps)
    outcome = cut.run()
    assert (outcome.reason, outcome.steps) == ("steps", steps)
    epochs = rows(tmp_path / "cut", "epoch")
    assert epochs[-1]["epoch"] == pytest.approx(steps / length)
    assert outcome.best == min(row[cut.problem.row_names[1]] for row in epochs)
    again = trainer(tmp_path / "cut", epochs=3, steps=steps)
    again.resume()
    before = contents(tmp_path / "cut")
    assert again.run() == outcome
    assert contents(tmp_path / "cut") == before
    more = trainer(tmp_path / "cut", epochs=3)
    more.resume()
    assert more.run().reason == "epochs"
    require_same_files(contents(tmp_path / "cut"), contents(tmp_path / "whole"))


def test_the_processors_time_ends_a_run_and_what_was_used_counts_when_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = itertools.count()
    monkeypatch.setattr(time, "process_time", lambda: float(next(now)))
    run = trainer(tmp_path / "run", epochs=50, core_seconds=5.5)
    outcome = run.run()
    assert (outcome.reason, outcome.steps) == ("core seconds", 6)
    again = trainer(tmp_path / "run", epochs=50, core_seconds=9.5)
    again.resume()
    assert again.run().steps == 9  # and a validation


def test_finished_run_stays_as_it_is(tmp_path: Path) -> None:
    outcome = trainer(tmp_path / "run").run()
    before = contents(tmp_path / "run")
    again = trainer(tmp_path / "run")
    again.resume()
    assert again.run() == outcome
    require_same_files(contents(tmp_path / "run"), before)


def test_damaged_newest_checkpoint_falls_back(tmp_path: Path) -> None:
    trainer(tmp_path / "whole").run()
    for damage in ("cut", "flip", "empty"):
        with case(damage):
            run = trainer(tmp_path / damage, listeners=[interrupt_at(17)])
            run.run()
            newest = run.folder.checkpoints()[-1]
            content = bytearray(newest.read_bytes())
            content[len(content) // 2] ^= 1
            damaged = {"cut": bytes(content[: len(content) // 2]), "flip": bytes(content), "empty": b""}
            newest.write_bytes(damaged[damage])
            last = trainer(tmp_path / damage)
            last.resume()
            assert last.progress.step == 14, "the end of the second epoch"
            last.run()
            require_same_files(contents(tmp_path / damage), contents(tmp_path / "whole"))


def test_all_checkpoints_damaged(tmp_path: Path) -> None:
    run = trainer(tmp_path / "run", epochs=1)
    run.run()
    for path in run.folder.checkpoints():
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(
        ModelFileError, match=r"cannot be resumed\. .*damaged or cut short.*damaged or cut short"
    ):
        trainer(tmp_path / "run", epochs=1).resume()


def test_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(
        ModelFileError, match=re.escape(f"{tmp_path / 'none'} cannot be resumed. There is no")
    ):
        trainer(tmp_path / "none").resume()


def test_a_changed_history_is_told(tmp_path: Path) -> None:
    run = trainer(tmp_path / "run", listeners=[interrupt_at(9)])
    run.run()
    whole = run.folder.history.read_bytes()
    for name, changed in {
        "shorter": whole[:40],
        "CRLF": whole.replace(b"\n", b"\r\n"),
        "a line twice": whole.splitlines(keepends=True)[0] + whole,
        "another number": whole.replace(b"0", b"1", 1),
        "empty": b"",
    }.items():
        with case(name):
            run.folder.history.write_bytes(changed)
            before = contents(tmp_path / "run")
            with pytest.raises(ModelFileError, match="is not what it was when the checkpoint was written"):
                trainer(tmp_path / "run").resume()
            require_same_files(contents(tmp_path / "run"), before)


def test_a_best_model_that_was_lost_or_changed_is_there_again(tmp_path: Path) -> None:
    """Another run's too, and where the best epoch is long ago: the checkpoint knows its weights."""

    class Worse(Listener):
        def stepped(self, trainer: Trainer, report: Report) -> None:
            if trainer.progress.epoch >= 1:  # no later epoch is better
                trainer.theta[...] = 0.0

    trainer(tmp_path / "whole", listeners=[Worse()]).run()
    assert rows(tmp_path / "whole", "epoch")[0]["best"]
    assert not any(row["best"] for row in rows(tmp_path / "whole", "epoch")[1:])
    other = trainer(tmp_path / "other", net={"seed": 3}, epochs=1)
    other.run()
    for content in (None, b"", b"junk", other.folder.model.read_bytes()):
        shutil.rmtree(tmp_path / "parts", ignore_errors=True)
        trainer(tmp_path / "parts", listeners=[Worse(), interrupt_at(9)]).run()
        model = tmp_path / "parts" / "model.safetensors"
        model.unlink()
        if content is not None:
            model.write_bytes(content)
        last = trainer(tmp_path / "parts", listeners=[Worse()])
        last.resume()
        last.run()
        require_same_files(contents(tmp_path / "parts"), contents(tmp_path / "whole"))


def test_a_folder_with_files_of_these_names_is_left_alone(tmp_path: Path) -> None:
    for name in ("timing.jsonl", "curve.png", "history.jsonl", "model.safetensors"):
        with case(name):
            folder = tmp_path / Path(name).stem
            folder.mkdir()
            (folder / name).write_text("somebody's notes", encoding="utf-8")
            with pytest.raises(
                UsageError, match=f"{name}, which training would write over|holds a run already"
            ):
                trainer(folder).run()
            left = {p.name: p.read_text(encoding="utf-8") for p in folder.iterdir()}
            assert left == {name: "somebody's notes"}


def test_a_run_writes_through_no_link(tmp_path: Path) -> None:
    """A folder from somebody else may hold links to one's own files; dangling ones, too."""
    for name in ("model.safetensors", "history.jsonl", "timing.jsonl", "checkpoint-000000099.safetensors"):
        with case(name):
            folder, new = tmp_path / f"of {name}", tmp_path / f"new {name}"
            trainer(folder, listeners=[interrupt_at(9)]).run()
            mine = tmp_path / f"mine {name}"
            if (folder / name).exists():
                (folder / name).rename(mine)
            else:
                mine.write_text("notes", encoding="utf-8")
            before = mine.read_bytes()
            (folder / name).symlink_to(mine)
            last = trainer(folder)
            with contextlib.suppress(ModelFileError):  # the checkpoint that is a link
                last.resume()
            with pytest.raises(SaveError, match="is a link"):
                last.run()
            assert mine.read_bytes() == before
            new.mkdir()
            (new / name).symlink_to(tmp_path / "nothing")
            with pytest.raises(SaveError, match="is a link"):
                trainer(new).run()
            assert not (tmp_path / "nothing").exists()


def test_a_lock_that_is_none_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("somebody's notes")
    with pytest.raises(SaveError, match=r"\.lock there is a file, and no lock"):
        trainer(tmp_path).run()
    assert {p.name: p.read_text(encoding="utf-8") for p in tmp_path.iterdir()} == {
        ".lock": "somebody's notes"
    }


def test_what_ended_a_run_is_one_of_a_few_words(tmp_path: Path) -> None:
    """A file says it to a terminal: no more than these."""
    run = trainer(tmp_path / "run", epochs=1)
    run.run()
    for checkpoint in run.folder.checkpoints():
        tensors, said = parts_of(checkpoint.read_bytes())
        said["training"]["progress"]["finished"] = "\x1b[2J"
        checkpoint.write_bytes(ModelFile(tensors, said).to_bytes())
    with pytest.raises(ModelFileError, match=r"the run ended by '\\x1b\[2J', not by epochs or"):
        trainer(tmp_path / "run").resume()


def test_a_history_that_changes_while_a_run_writes_it(tmp_path: Path) -> None:
    """No checkpoint is written that could not be resumed; what was kept before can be, with the history restored."""
    trainer(tmp_path / "whole").run()

    def meddle(history: Path, change: str) -> None:
        kept[change] = history.read_bytes()
        if change == "removed":
            history.unlink()
        else:
            history.write_bytes(kept[change][:-1] if change == "shortened" else kept[change] + b"{}\n")

    kept: dict[str, bytes] = {}
    for change in ("removed", "shortened", "added to"):
        with case(change):
            folder = tmp_path / change
            history = folder / "history.jsonl"
            at = At(9, lambda: meddle(history, change))
            with pytest.raises(
                SaveError, match=r"history\.jsonl has [\d,]+ bytes where this run has written [\d,]+"
            ):
                trainer(folder, listeners=[at]).run()
            history.write_bytes(kept[change])
            again = trainer(folder)
            again.resume()
            again.run()
            require_same_files(contents(folder), contents(tmp_path / "whole"))


# -- two of them ---------------------------------------------------------------------------------


def test_a_trainer_that_is_refused_changes_nothing(tmp_path: Path) -> None:
    """Whatever it has read: the history is cut by the one that has the folder, under its lock."""
    trainer(tmp_path / "whole").run()

    def another() -> None:
        before = {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir()}
        second = trainer(tmp_path / "run")
        second.resume()
        with pytest.raises(UsageError, match="another process trains in"):
            second.run()
        assert {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir()} == before

    assert trainer(tmp_path / "run", listeners=[At(9, another)]).run().reason == "epochs"
    require_same_files(contents(tmp_path / "run"), contents(tmp_path / "whole"))


def test_what_another_has_trained_since_is_taken_up(tmp_path: Path) -> None:
    """The first goes on, or ends, between the second's `resume` and its `run`: no row is lost or there twice."""
    for number, end in enumerate([9, 21]):
        with case(end):
            folder = tmp_path / str(number)
            folder.mkdir()
            trainer(folder / "whole").run()
            second = trainer(folder / "run")
            trainer(folder / "run", listeners=[interrupt_at(5)]).run()
            first = trainer(folder / "run", listeners=[interrupt_at(end)])
            first.resume()
            second.resume()
            assert second.progress.step == 5
            first.run()
            assert second.run().reason == "epochs"
            require_same_files(contents(folder / "run"), contents(folder / "whole"))


def test_a_checkpoint_that_is_replaced_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that trains removes old ones; the one that reads looks again."""
    trainer(tmp_path / "run", listeners=[interrupt_at(5)]).run()
    folder, read = RunFolder(tmp_path / "run"), read_training_state

    def trains_on(path: Path) -> TrainingState:
        monkeypatch.setattr("graphnet_rnn.training.folder.read_training_state", read)
        first = trainer(tmp_path / "run")
        first.resume()
        first.run()
        return read(path)

    monkeypatch.setattr("graphnet_rnn.training.folder.read_training_state", trains_on)
    assert folder.read_checkpoint().path.name == "checkpoint-000000021.safetensors"


def test_a_run_does_not_write_into_the_folder_of_another(tmp_path: Path) -> None:
    """Its folder was removed, and made anew by a run that has it now."""
    theirs: dict[str, bytes] = {}

    def another_begins() -> None:
        shutil.rmtree(tmp_path / "run")
        other = stack.enter_context(RunFolder(tmp_path / "run").locked())
        other.add_row({"event": "start"})
        theirs.update({p.name: p.read_bytes() for p in (tmp_path / "run").iterdir()})

    with contextlib.ExitStack() as stack:
        with pytest.raises(UsageError, match="another process trains in"):
            trainer(tmp_path / "run", listeners=[At(9, another_begins)]).run()
        assert {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir()} == theirs


def test_a_run_whose_folder_is_removed_says_so(tmp_path: Path) -> None:
    with pytest.raises(SaveError, match=r"run was removed meanwhile.* cannot be locked again: No such file"):
        trainer(tmp_path / "run", listeners=[At(9, lambda: shutil.rmtree(tmp_path / "run"))]).run()
    assert not (tmp_path / "run").exists()


def test_a_run_whose_lock_is_removed_takes_it_again(tmp_path: Path) -> None:
    """From the next file that is written; before, another may take it, and this one ends."""
    lock = tmp_path / "run" / ".lock"
    trainer(tmp_path / "whole").run()
    there = []
    at = [At(9, lock.unlink), At(20, lambda: there.append(lock.exists()))]
    trainer(tmp_path / "run", listeners=at).run()
    assert there == [True]
    assert not lock.exists()
    require_same_files(contents(tmp_path / "run"), contents(tmp_path / "whole"))


def test_what_others_write_in_the_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    theirs = tmp_path / "run" / ".curve.png.0123abcd.part"
    theirs.write_bytes(b"a picture that is being written")
    trainer(tmp_path / "run", epochs=1).run()
    assert theirs.exists()


def test_a_checkpoint_knows_no_row_that_a_power_cut_may_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a checkpoint's file gets its name, all of the history that it counts has been brought to the disk."""
    synced, fsync, replace, history = {}, os.fsync, os.replace, tmp_path / "run" / "history.jsonl"

    def watched_fsync(descriptor: int) -> None:
        found = os.fstat(descriptor)
        synced[found.st_ino] = found.st_size
        fsync(descriptor)

    def watched_replace(source: Path, target: Path) -> None:
        if Path(target).parent == history.parent:  # and no kernel in its cache, which can be made again
            assert os.stat(source).st_size == synced[os.stat(source).st_ino]
        if Path(target).name.startswith("checkpoint-") and history.exists():
            assert history.stat().st_size == synced[history.stat().st_ino]
            seen.append(Path(target).name)
        replace(source, target)

    seen: list[str] = []
    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    trainer(tmp_path / "run", checkpoint_seconds=0, log_every=1).run()
    assert len(seen) >= 21


# -- what goes wrong -----------------------------------------------------------------------------


def test_folder_in_use(tmp_path: Path) -> None:
    trainer(tmp_path / "run", epochs=1).run()
    before = contents(tmp_path / "run")
    with pytest.raises(
        UsageError,
        match=r"holds a run already; continue it \(train --resume .*, or trainer\.resume\(\)\), or name another",
    ):
        trainer(tmp_path / "run", epochs=1).run()
    require_same_files(contents(tmp_path / "run"), before)


def test_nan_loss_is_told_and_reaches_no_file(tmp_path: Path) -> None:
    run = trainer(tmp_path / "run", optimizer=optimizers.SGD(1e38), checkpoint_seconds=0)
    with pytest.raises(
        TrainingError, match=r"try a smaller --rate or --clip-norm.*checkpoints in .* are untouched"
    ):
        run.run()
    whole = [read_model_file(path) for path in run.folder.checkpoints()]
    assert whole
    for file in whole:
        assert all(np.isfinite(a).all() for a in file.tensors.values() if a.dtype.kind == "f")
    assert not run.folder.model.exists()


def test_weights_that_overflow_in_the_last_step_reach_no_file(tmp_path: Path) -> None:
    """A finite gradient times a huge rate: no NaN loss follows in this epoch, yet the weights are lost."""
    run = trainer(tmp_path / "run")

    class Overflow(Listener):
        def stepped(self, trainer: Trainer, report: Report) -> None:
            if trainer.progress.step == 14:
                trainer.theta[0] = np.inf

    run.listeners = [Overflow()]
    with pytest.raises(TrainingError, match="the weights are no longer finite after step 14"):
        run.run()
    assert len(rows(tmp_path / "run", "epoch")) == 1
    assert np.isfinite(rnn.load(run.folder.checkpoints()[-1]).theta).all()


def test_nan_names_the_node(tmp_path: Path) -> None:
    run = trainer(tmp_path / "run")

    class Break(Listener):
        def stepped(self, trainer: Trainer, report: Report) -> None:
            trainer.theta[0] = np.nan

    run.listeners = [Break()]
    with pytest.raises(
        TrainingError, match=r"(?s)the loss is nan.*step 1 .*epoch 1.*layer0\.W_xr.* holds NaN"
    ):
        run.run()


class FullDisk(Listener):
    """The disk is full from this step on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
        self.monkeypatch, self.step = monkeypatch, step

    def stepped(self, trainer: Trainer, report: Report) -> None:
        if trainer.progress.step == self.step:

            def refuse(descriptor: int) -> None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            self.monkeypatch.setattr(os, "fsync", refuse)


def test_full_disk_at_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer(tmp_path / "whole").run()
    with monkeypatch.context() as planted:
        run = trainer(tmp_path / "parts", listeners=[FullDisk(planted, 10)])
        with pytest.raises(SaveError, match=r"could not be written: No space left on device"):
            run.run()
    assert run.folder.checkpoints()[-1].name == "checkpoint-000000007.safetensors"
    assert not list((tmp_path / "parts").glob(".*"))
    last = trainer(tmp_path / "parts")
    last.resume()
    last.run()
    require_same_files(contents(tmp_path / "parts"), contents(tmp_path / "whole"))


def test_full_disk_at_the_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a part of a row: none of it stays, and the run can be continued once there is room."""
    trainer(tmp_path / "whole").run()

    def half(file: io.FileIO, line: bytes) -> None:
        file.write(line[: len(line) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    class Full(Listener):
        def stepped(self, trainer: Trainer, report: Report) -> None:
            if trainer.progress.step == 10:
                planted.setattr("graphnet.system.json_lines._write", half)

    with monkeypatch.context() as planted:
        run = trainer(tmp_path / "parts", listeners=[Full()])
        with pytest.raises(SaveError, match=r"history\.jsonl could not be written: No space left on device"):
            run.run()
    assert rows(tmp_path / "parts", "step")[-1]["step"] == 10
    last = trainer(tmp_path / "parts")
    last.resume()
    last.run()
    require_same_files(contents(tmp_path / "parts"), contents(tmp_path / "whole"))


def test_a_checkpoint_that_cannot_be_removed_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new one is whole, so training goes on."""
    trainer(tmp_path / "whole").run()

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    stick = At(7, lambda: monkeypatch.setattr(Path, "unlink", refuse))
    run = trainer(tmp_path / "parts", listeners=[stick])
    run.run()
    monkeypatch.undo()
    assert len(run.folder.checkpoints()) > 2
    for path in run.folder.checkpoints()[:-2]:
        path.unlink()
    require_same_files(contents(tmp_path / "parts"), contents(tmp_path / "whole"))


def test_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(SaveError, match=r"the folder .* cannot be made: File exists"):
        trainer(tmp_path / "run").run()
    assert (tmp_path / "run").read_text(encoding="utf-8") == "mine"


def test_impossible_settings(tmp_path: Path) -> None:
    cases = [
        ({"epochs": 0}, "epochs must be a whole number >= 1, not 0"),
        ({"time": 0}, "time must be a whole number >= 1, not 0"),
        ({"batch": -1}, "batch must be a whole number >= 1, not -1"),
        ({"clip_values": -1.0}, "clip_values must be > 0 or None, not -1.0"),
        ({"sample": -1}, "sample must be a whole number >= 0, not -1"),
    ]
    for settings, content in cases:
        with case(settings, content):
            with pytest.raises(UsageError, match=re.escape(content)):
                trainer(tmp_path / "run", **settings)
            assert not (tmp_path / "run").exists()


def test_text_shorter_than_a_batch(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="fewer than one batch needs: 8 lanes of 15 steps take 121"):
        trainer(tmp_path / "run", text=TEXT[:100])


# -- killed --------------------------------------------------------------------------------------


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "graphnet_rnn", "train", "--quiet", "--checkpoint-seconds", "0", *arguments]


def environment() -> Mapping[str, str]:
    """The package from this checkout, and one thread."""
    root = str(Path(rnn.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": root, "OPENBLAS_NUM_THREADS": "1"}


@pytest.mark.slow
def test_killed_at_random_moments_and_resumed_is_never_stopped(tmp_path: Path) -> None:
    """SIGKILL at three seeded moments, between and within steps and checkpoints; the last run ends it."""
    text, seeded = tmp_path / "text.txt", random.Random(0)
    text.write_text(TEXT)
    settings = [
        str(text),
        *["--units", "24", "--layers", "2", "--dropout", "0.2", "--sample", "5"],
        *["--time", "5", "--batch", "4", "--epochs", "10"],
    ]
    subprocess.run(command(*settings, "--out", str(tmp_path / "whole")), env=environment(), check=True)

    folder, killed, at = tmp_path / "parts", 0, []
    arguments = [*settings, "--out", str(folder)]
    while killed < 3:
        before = newest(folder)
        process = subprocess.Popen(command(*arguments), env=environment())
        # Waits for progress, so that each kill falls on another place of the run.
        patience = time.monotonic() + 300
        while newest(folder) == before and process.poll() is None and time.monotonic() < patience:
            time.sleep(0.002)
        time.sleep(seeded.uniform(0, 0.1))
        process.kill()
        process.wait()
        killed += 1
        at.append(newest(folder))
        arguments = ["--resume", str(folder)]
    finished = subprocess.run(command(*arguments), env=environment(), check=False)
    assert finished.returncode == 0
    assert at == sorted(at)
    assert -1 < at[0] < at[-1] < newest(folder), "the kills fell into the run"
    require_same_files(contents(folder), contents(tmp_path / "whole"))
    assert not list(folder.glob(".*.part"))


def newest(folder: Path) -> int:
    """The step of the newest checkpoint; -1 for none."""
    names = [p.stem for p in RunFolder(folder).checkpoints()]
    return int(names[-1].rpartition("-")[2]) if names else -1


def test_network_of_another_vocabulary_is_refused() -> None:
    """Of the same size, its symbols would silently mean other characters."""
    net = rnn.Network([rnn.Elman(3)], 3, 3)
    rnn.CarriedText(net, rnn.data.Corpus.split("abc" * 100), time=5, batch=2)
    with pytest.raises(UsageError, match="knows other characters than this text"):
        rnn.CarriedText(net, rnn.data.Corpus.split("xyz" * 100), time=5, batch=2)
