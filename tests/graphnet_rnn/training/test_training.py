"""Training learns, is reproducible, and loses nothing when interrupted."""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn import optimizers
from graphnet_rnn.data import Corpus
from graphnet_rnn.errors import ModelFileError, SaveError, TrainingError, UsageError
from graphnet_rnn.formats.model_file import ModelFile, read_model_file
from graphnet_rnn.optimizers import Report
from graphnet_rnn.training import EarlyStopping, Listener, Outcome, RunFolder, Trainer
from graphnet_rnn.training.state import TrainingState, read_training_state
from tests.graphnet_rnn.formats.resealed import parts_of
from tests.graphnet_rnn.training.reports import Told
from tests.graphnet_rnn.training.runs import At, contents, interrupt_at, require_same_files, rows, text_run
from tests.tables import case, some_quick
from viz.charts.history import read_history

TEXT = "the quick brown fox jumps over the lazy dog. " * 25


def trainer(folder: Path, text: str = TEXT, **settings: Any) -> Trainer:
    """A run of three epochs of seven pieces. net: settings of the network."""
    corpus = Corpus.split(text)
    size = len(corpus.vocabulary)
    net = {"layers": [rnn.GRU(8)], **settings.pop("net", {})}
    network = rnn.Network(**net, inputs=size, outputs=size)
    optimizer = settings.pop("optimizer", optimizers.Adam(0.01, clip_norm=5.0))
    chosen = {"time": 15, "batch": 8, "epochs": 3, "sample": 10, "log_every": 2, **settings}
    return text_run(network, corpus, folder, optimizer=optimizer, **chosen)


def resumed(folder: Path, **settings: Any) -> Trainer:
    run = trainer(folder, **settings)
    run.resume()
    return run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Files of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    trainer(folder).run()
    return contents(folder)


def require_it_goes_on(folder: Path, whole: dict[str, bytes], **settings: Any) -> None:
    resumed(folder, **settings).run()
    require_same_files(contents(folder), whole)


def test_loss_falls_and_the_history_records_it(tmp_path: Path) -> None:
    run = trainer(tmp_path / "run", epochs=6, optimizer=optimizers.Adam(0.03))
    net, corpus = run.problem.model, run.problem.corpus
    norms = rnn.weight_norms(net)
    outcome = run.run()
    (start,), (initial,), epochs, steps = (
        rows(tmp_path / "run", event) for event in ("start", "initial", "epoch", "step")
    )
    assert epochs[-1]["train_bits"] < 0.7 * epochs[0]["train_bits"]
    assert epochs[-1]["valid_bits"] < 0.7 * epochs[0]["valid_bits"]
    assert steps[0]["train_bits"] == pytest.approx(np.log2(len(corpus.vocabulary)), rel=0.1)
    assert [row["epoch"] for row in (initial, *epochs)] == [0, 1, 2, 3, 4, 5, 6]
    assert [row["step"] for row in steps] == list(range(2, 43, 2))
    assert steps[0]["epoch"] == pytest.approx(2 / 7)
    timing = read_history(tmp_path / "run" / "timing.jsonl")
    assert [row["epoch"] for row in timing if row["seconds"] > 0] == [1, 2, 3, 4, 5, 6]
    assert all(len(row["sample"]) == 10 for row in (initial, *epochs))
    assert initial["weight_norms"] == norms
    assert epochs[-1]["weight_norms"] == rnn.weight_norms(net) != norms
    assert start["model"] == net.description()
    best = min(epochs, key=lambda row: row["valid_bits"])
    assert outcome == Outcome("epochs", best["valid_bits"], best["epoch"], 6, 42)
    assert epochs[0]["best"] is True
    notes = read_model_file(run.folder.model).description["notes"]
    assert notes == {"epoch": best["epoch"], "bits": best["valid_bits"]}
    evaluator = rnn.Evaluator(rnn.load(run.folder.model), lanes=8, time=15)
    assert outcome.best == pytest.approx(evaluator(corpus.valid, context=15).bits)
    checkpoint = rnn.load(run.folder.checkpoints()[-1])
    assert np.array_equal(checkpoint.theta, run.theta)
    assert checkpoint.vocabulary == corpus.vocabulary


def test_rate_follows_the_schedule(tmp_path: Path) -> None:
    """Listeners and rows of steps and epochs report the learning rate of the last step."""
    schedule = optimizers.ExponentialDecay(0.5, after=2)
    by_step = [0.01 * schedule.at(t) for t in range(28)]
    by_epoch = np.repeat([0.01, 0.01, 0.005, 0.0025], 7).tolist()
    for name, chosen, expected in (("epoch", schedule.by_epoch(), by_epoch), ("step", schedule, by_step)):
        with case(name):
            taken: list[float] = []
            look = Told(lambda: taken.append(run.progress.rate))
            run = trainer(tmp_path / name, epochs=4, listeners=[look], schedule=chosen, log_every=1)
            run.run()
            assert taken == expected
            assert [row["learning_rate"] for row in rows(tmp_path / name, "step")] == taken
            assert [row["learning_rate"] for row in rows(tmp_path / name, "epoch")] == taken[6::7]


def test_every_piece_has_new_dropout_masks(tmp_path: Path) -> None:
    """The weights hardly change, so only the masks change the loss of a piece between epochs."""
    for dropout, kind in ((0.0, "zero"), (0.4, "zero"), (0.4, "learned")):
        net = {"layers": [rnn.GRU(8), rnn.GRU(8)], "dropout": dropout, "initial_state": kind}
        told, folder = Told(), tmp_path / f"{dropout} {kind}"
        trainer(folder, net=net, optimizer=optimizers.SGD(1e-30), epochs=2, listeners=[told]).run()
        losses = [report.loss for report in told.reports]
        assert [a == b for a, b in zip(losses[:7], losses[7:], strict=True)] == [not dropout] * 7


def test_folder_keeps_two_checkpoints_and_other_files(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".model.safetensors.0123abcd.part").write_bytes(b"what a killed process was writing")
    theirs = tmp_path / "run" / ".curve.png.0123abcd.part"
    theirs.write_bytes(b"a picture that is being written")
    trainer(tmp_path / "run", checkpoint_seconds=0).run()
    last = {"checkpoint-000000020.safetensors", "checkpoint-000000021.safetensors"}
    names = {"model.safetensors", "history.jsonl", "timing.jsonl", theirs.name}
    assert {p.name for p in (tmp_path / "run").iterdir()} == names | last


def test_early_stopping_and_stop_end_a_run(tmp_path: Path) -> None:
    slow = {"epochs": 50, "stopping": EarlyStopping(2, 0.5), "optimizer": optimizers.SGD(1e-30)}
    outcome = trainer(tmp_path / "early", **slow).run()
    assert outcome.reason == "early stopping"
    assert outcome.epochs == 3, "the cost has not fallen to a quarter in two epochs"
    assert resumed(tmp_path / "early", **slow).run() == outcome, "a run that has ended stays ended"
    run = trainer(tmp_path / "told", listeners=[At(1, lambda: run.stop("time is up"))])
    outcome = run.run()
    assert (outcome.reason, outcome.epochs) == ("time is up", 1)


@pytest.mark.parametrize("name", some_quick(optimizers.ALL, ("adam", "lbfgs", "greedy_hf", "riemannian")))
def test_interrupted_run_resumes_to_the_same_files(tmp_path: Path, name: str) -> None:
    """Files are equal byte by byte, for interruptions at the first step, within an epoch and at its end."""
    kind = optimizers.ALL[name]
    limit = {"clip_norm": 1.0} if issubclass(kind, optimizers.FirstOrder) else {}
    settings: dict[str, Any] = {"net": {"layers": [rnn.GRU(4)]}, "optimizer": kind(**limit), "epochs": 2}
    trainer(tmp_path / "whole", **settings).run()
    for step in (1, 7, 11):
        run = trainer(tmp_path / "parts", **settings, listeners=[interrupt_at(step)])
        if step > 1:
            run.resume()
        assert run.run().reason == "interrupted"
        assert run.progress.step == step
    require_it_goes_on(tmp_path / "parts", contents(tmp_path / "whole"), **settings)


def test_fixed_weights_come_from_the_checkpoint(tmp_path: Path) -> None:
    """Resuming keeps the fixed weights of the first run, even if the new cell would draw others."""
    drawn = {"layers": [rnn.EchoState(8, initial={"W_hh": rnn.initializers.orthogonal()})]}
    trainer(tmp_path / "whole", net=drawn).run()
    trainer(tmp_path / "parts", net=drawn, listeners=[interrupt_at(5)]).run()
    require_it_goes_on(tmp_path / "parts", contents(tmp_path / "whole"), net={"layers": [rnn.EchoState(8)]})


INTERRUPT, END, HANG_UP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


def signalled(folder: Path, *numbers: int) -> Trainer:
    """A run that receives these signals in the fifth step."""
    return trainer(folder, listeners=[At(5, lambda: [os.kill(os.getpid(), number) for number in numbers])])


def test_signals_write_a_checkpoint_and_a_second_one_exits(tmp_path: Path) -> None:
    """A second SIGHUP is ignored: a closed terminal often sends two."""
    before = [signal.getsignal(number) for number in (INTERRUPT, END, HANG_UP)]
    for numbers in ((END,), (HANG_UP,), (INTERRUPT, HANG_UP), (HANG_UP, HANG_UP)):
        with case(*numbers):
            run = signalled(tmp_path / str(numbers), *numbers)
            assert run.run().reason == "interrupted"
            assert run.folder.checkpoints()[-1].name == "checkpoint-000000005.safetensors"
    for numbers in ((INTERRUPT, INTERRUPT), (END, END), (HANG_UP, INTERRUPT)):
        with case(*numbers), pytest.raises(KeyboardInterrupt):
            signalled(tmp_path / str(numbers), *numbers).run()
    assert [signal.getsignal(number) for number in (INTERRUPT, END, HANG_UP)] == before
    try:  # nohup ignores SIGHUP; a shell ignores SIGINT in background jobs
        for number in (HANG_UP, INTERRUPT):
            signal.signal(number, signal.SIG_IGN)
        assert signalled(tmp_path / "run", HANG_UP, INTERRUPT).run().reason == "epochs"
    finally:
        for number, handler in zip((INTERRUPT, END, HANG_UP), before, strict=True):
            signal.signal(number, handler)


def test_listeners_with_misspelt_methods_are_rejected() -> None:
    of_trainer = lambda self, trainer: None
    with pytest.raises(UsageError, match=r"Odd.step_ended: .* stepped\(trainer, report\)"):
        type("Odd", (Listener,), {"step_ended": of_trainer})
    type("Even", (Listener,), {"_of": of_trainer, "table": lambda self, rows: None})


fails = mock.Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))


def test_failed_listener_loses_no_step(tmp_path: Path, whole: dict[str, bytes]) -> None:
    """For example, its terminal has closed."""
    run = trainer(tmp_path / "parts", listeners=[At(5, fails)])
    with pytest.raises(OSError, match="No space left"):
        run.run()
    assert run.folder.checkpoints()[-1].name == "checkpoint-000000005.safetensors"
    require_it_goes_on(tmp_path / "parts", whole)


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_checkpoints_of_a_private_run_are_private(tmp_path: Path) -> None:
    trainer(tmp_path, steps=5).run()
    for file in tmp_path.iterdir():
        file.chmod(0o600)
    resumed(tmp_path, steps=9).run()
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}


def test_step_limit_validates_and_the_run_resumes(tmp_path: Path, whole: dict[str, bytes]) -> None:
    for steps in (1, 9, 20):
        folder = tmp_path / str(steps)
        with case(steps):
            outcome = trainer(folder, steps=steps).run()
            assert (outcome.reason, outcome.steps) == ("steps", steps)
            epochs = rows(folder, "epoch")
            assert epochs[-1]["epoch"] == pytest.approx(steps / 7)
            assert outcome.best == min(row["valid_bits"] for row in epochs)
            before = contents(folder)
            assert resumed(folder, steps=steps).run() == outcome
            assert contents(folder) == before
            require_it_goes_on(folder, whole)


def test_processor_time_limit_ends_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processor time that was used before `resume` counts."""
    now = itertools.count()
    monkeypatch.setattr(time, "process_time", lambda: float(next(now)))
    outcome = trainer(tmp_path / "run", epochs=50, core_seconds=5.5).run()
    assert (outcome.reason, outcome.steps) == ("core seconds", 6)
    assert resumed(tmp_path / "run", epochs=50, core_seconds=9.5).run().steps == 9  # and a validation


def test_damaged_newest_checkpoint_falls_back(tmp_path: Path, whole: dict[str, bytes]) -> None:
    for damage in ("cut", "flip", "empty"):
        with case(damage):
            run = trainer(tmp_path / damage, listeners=[interrupt_at(17)])
            run.run()
            newest = run.folder.checkpoints()[-1]
            content = bytearray(newest.read_bytes())
            content[len(content) // 2] ^= 1
            damaged = {"cut": bytes(content[: len(content) // 2]), "flip": bytes(content), "empty": b""}
            newest.write_bytes(damaged[damage])
            assert resumed(tmp_path / damage).progress.step == 14, "the end of the second epoch"
            require_it_goes_on(tmp_path / damage, whole)


def test_failed_resume_or_run_changes_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"none cannot be resumed\. There is no"):
        trainer(tmp_path / "none").resume()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SaveError, match=r"the folder .* cannot be created: File exists"):
        trainer(tmp_path / "file").run()
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"
    run = trainer(tmp_path / "run", epochs=1)
    run.run()
    before = contents(tmp_path / "run")
    with pytest.raises(UsageError, match=r"already contains a run; resume it \(.*trainer\.resume\(\)\)"):
        trainer(tmp_path / "run", epochs=1).run()
    require_same_files(contents(tmp_path / "run"), before)
    for path in run.folder.checkpoints():
        tensors, said = parts_of(path.read_bytes())
        said["training"]["progress"]["finished"] = "\x1b[2J"  # a file says it to a terminal
        path.write_bytes(ModelFile(tensors, said).to_bytes())
    with pytest.raises(ModelFileError, match=r"the reason of its end must be epochs or"):
        trainer(tmp_path / "run").resume()
    for path in run.folder.checkpoints():
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelFileError, match=r"cannot be resumed\. .*damaged or cut.*damaged or cut"):
        trainer(tmp_path / "run", epochs=1).resume()


def test_changed_history_is_reported(tmp_path: Path) -> None:
    run = trainer(tmp_path / "run", listeners=[interrupt_at(9)])
    run.run()
    written = run.folder.history.read_bytes()
    twice = written.splitlines(keepends=True)[0] + written
    for changed in (
        written[:40],
        written.replace(b"\n", b"\r\n"),
        twice,
        written.replace(b"0", b"1", 1),
        b"",
    ):
        with case(changed[:100]):
            run.folder.history.write_bytes(changed)
            before = contents(tmp_path / "run")
            with pytest.raises(ModelFileError, match="has changed since the checkpoint was written"):
                trainer(tmp_path / "run").resume()
            require_same_files(contents(tmp_path / "run"), before)


def test_lost_or_changed_best_model_is_restored(tmp_path: Path) -> None:
    """The model is restored if it is missing, empty or another run's, even if the best epoch was long ago."""

    class Worse(Listener):
        def stepped(self, trainer: Trainer, report: Report) -> None:
            if trainer.progress.epoch >= 1:  # no later epoch is better
                trainer.theta[...] = 0.0

    trainer(tmp_path / "whole", listeners=[Worse()]).run()
    assert [row["best"] for row in rows(tmp_path / "whole", "epoch")] == [True, False, False]
    other = trainer(tmp_path / "other", net={"seed": 3}, epochs=1)
    other.run()
    for content in (None, b"", other.folder.model.read_bytes()):
        shutil.rmtree(tmp_path / "parts", ignore_errors=True)
        trainer(tmp_path / "parts", listeners=[Worse(), interrupt_at(9)]).run()
        model = tmp_path / "parts" / "model.safetensors"
        model.unlink()
        if content is not None:
            model.write_bytes(content)
        require_it_goes_on(tmp_path / "parts", contents(tmp_path / "whole"), listeners=[Worse()])


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    in_the_way = r"training would overwrite|already contains a run|\.lock is a file with content, not a lock"
    for name in ("timing.jsonl", "curve.png", "history.jsonl", "model.safetensors", ".lock"):
        with case(name):
            folder = tmp_path / f"of {name}"
            folder.mkdir()
            (folder / name).write_text("somebody's notes", encoding="utf-8")
            with pytest.raises((UsageError, SaveError), match=in_the_way):
                trainer(folder).run()
            left = {p.name: p.read_text(encoding="utf-8") for p in folder.iterdir()}
            assert left == {name: "somebody's notes"}


def test_runs_do_not_write_through_links(tmp_path: Path) -> None:
    """Folders may contain symbolic links to other files; dangling links are rejected as well."""
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
            with contextlib.suppress(ModelFileError):  # the checkpoint is a symbolic link
                last.resume()
            with pytest.raises(SaveError, match="is a symbolic link"):
                last.run()
            assert mine.read_bytes() == before
            new.mkdir()
            (new / name).symlink_to(tmp_path / "nothing")
            with pytest.raises(SaveError, match="is a symbolic link"):
                trainer(new).run()
            assert not (tmp_path / "nothing").exists()


def test_history_changed_during_a_run(tmp_path: Path, whole: dict[str, bytes]) -> None:
    """No checkpoint is written for a changed history; older ones can be resumed if it is restored."""
    kept: list[bytes] = []
    for change in ("removed", "shortened", "added to"):
        history = tmp_path / change / "history.jsonl"

        def meddle() -> None:
            kept.append(history.read_bytes())
            if change == "removed":
                history.unlink()
            else:
                history.write_bytes(kept[-1][:-1] if change == "shortened" else kept[-1] + b"{}\n")

        with case(change):
            with pytest.raises(SaveError, match=r"\.jsonl has [\d,]+ bytes, but this run has written"):
                trainer(history.parent, listeners=[At(9, meddle)]).run()
            history.write_bytes(kept[-1])
            require_it_goes_on(history.parent, whole)


def test_rejected_trainer_changes_no_file(tmp_path: Path, whole: dict[str, bytes]) -> None:
    """Only the process that holds the lock may truncate the history."""

    def another() -> None:
        before = {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir()}
        with pytest.raises(UsageError, match="another process is training in"):
            resumed(tmp_path / "run").run()
        assert {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir()} == before

    assert trainer(tmp_path / "run", listeners=[At(9, another)]).run().reason == "epochs"
    require_same_files(contents(tmp_path / "run"), whole)


def test_resume_continues_from_steps_of_another_process(tmp_path: Path, whole: dict[str, bytes]) -> None:
    """Another process trains between `resume` and `run`: no row is lost or doubled."""
    for end in (9, 21):
        with case(end):
            folder = tmp_path / str(end)
            trainer(folder, listeners=[interrupt_at(5)]).run()
            first, second = resumed(folder, listeners=[interrupt_at(end)]), resumed(folder)
            assert second.progress.step == 5
            first.run()
            assert second.run().reason == "epochs"
            require_same_files(contents(folder), whole)


def test_checkpoint_replaced_during_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training process may remove old checkpoints; a reader then reads the newer one."""
    trainer(tmp_path / "run", listeners=[interrupt_at(5)]).run()
    folder, read = RunFolder(tmp_path / "run"), read_training_state

    def trains_on(path: Path) -> TrainingState:
        monkeypatch.setattr("graphnet_rnn.training.folder.read_training_state", read)
        resumed(tmp_path / "run").run()
        return read(path)

    monkeypatch.setattr("graphnet_rnn.training.folder.read_training_state", trains_on)
    assert folder.read_checkpoint().path.name == "checkpoint-000000021.safetensors"


def test_run_ends_if_its_folder_is_removed(tmp_path: Path) -> None:
    """The folder may have been made again by another run."""
    theirs: dict[str, bytes] = {}

    def another_begins() -> None:
        shutil.rmtree(tmp_path / "run")
        other = stack.enter_context(RunFolder(tmp_path / "run").locked())
        other.add_row({"event": "start"})
        theirs.update({p.name: p.read_bytes() for p in (tmp_path / "run").iterdir()})

    with contextlib.ExitStack() as stack:
        with pytest.raises(UsageError, match="another process is training in"):
            trainer(tmp_path / "run", listeners=[At(9, another_begins)]).run()
        assert {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir()} == theirs
    with pytest.raises(
        SaveError, match=r"gone or its lock was removed.* cannot be locked again: No such file"
    ):
        trainer(tmp_path / "gone", listeners=[At(9, lambda: shutil.rmtree(tmp_path / "gone"))]).run()
    assert not (tmp_path / "gone").exists()


def test_removed_lock_is_acquired_again(tmp_path: Path, whole: dict[str, bytes]) -> None:
    """The lock is made again with the next file. If another run has taken it by then, this run ends."""
    lock = tmp_path / "run" / ".lock"
    there: list[bool] = []
    at = [At(9, lock.unlink), At(20, lambda: there.append(lock.exists()))]
    trainer(tmp_path / "run", listeners=at).run()
    assert there == [True]
    assert not lock.exists()
    require_same_files(contents(tmp_path / "run"), whole)


def test_checkpoints_count_only_rows_that_survive_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a checkpoint gets its name, all rows of the history that it counts are synced to the disk."""
    synced, fsync, replace, history = {}, os.fsync, os.replace, tmp_path / "run" / "history.jsonl"

    def watched_fsync(descriptor: int) -> None:
        found = os.fstat(descriptor)
        synced[found.st_ino] = found.st_size
        fsync(descriptor)

    def watched_replace(source: Path, target: Path) -> None:
        if Path(target).parent == history.parent:  # not kernels in the cache: they need no sync
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


def test_nan_loss_is_reported_and_reaches_no_file(tmp_path: Path) -> None:
    run = trainer(tmp_path / "run", optimizer=optimizers.SGD(1e38), checkpoint_seconds=0)
    with pytest.raises(TrainingError, match=r"try a smaller --rate or .*checkpoints in .* are untouched"):
        run.run()
    whole = [read_model_file(path) for path in run.folder.checkpoints()]
    assert whole
    for file in whole:
        assert all(np.isfinite(a).all() for a in file.tensors.values() if a.dtype.kind == "f")
    assert not run.folder.model.exists()
    for step, weight, said in (
        (14, np.inf, "the weights are no longer finite after step 14"),  # no NaN loss follows in this epoch
        (1, np.nan, r"(?s)the loss is nan.*step 1 .*epoch 1.*layer0\.W_xr.* holds NaN"),
    ):
        with case(step):
            run = trainer(tmp_path / str(step))
            run.listeners = [At(step, lambda: run.theta.put(0, weight))]
            with pytest.raises(TrainingError, match=said):
                run.run()
            if step == 14:
                assert len(rows(tmp_path / str(step), "epoch")) == 1
            assert np.isfinite(rnn.load(run.folder.checkpoints()[-1]).theta).all()


def fills_half_a_row(file: io.FileIO, line: bytes) -> None:
    file.write(line[: len(line) // 2])
    fails()


def test_full_disk_loses_nothing(tmp_path: Path, whole: dict[str, bytes]) -> None:
    """If only a part of a row fits on the disk, it is removed, and the run can be resumed."""
    for what, function, failing, last in (
        ("the first row", "graphnet_rnn.training.folder.append_line", fails, 0),
        ("a checkpoint", "os.fsync", fails, 7),
        ("the history", "graphnet.system.json_lines._write", fills_half_a_row, 7),
    ):
        with case(what), pytest.MonkeyPatch.context() as planted:
            full = At(10, lambda: planted.setattr(function, failing))
            run = trainer(tmp_path / what, listeners=[full])
            if not last:
                full.what()
            with pytest.raises((OSError, SaveError), match="No space left on device"):
                run.run()
            planted.undo()
            assert run.folder.checkpoints()[-1].name == f"checkpoint-{last:09}.safetensors"
            assert not list((tmp_path / what).glob(".*"))
            assert what != "the history" or rows(tmp_path / what, "step")[-1]["step"] == 10
            require_it_goes_on(tmp_path / what, whole)


def test_checkpoints_that_cannot_be_removed_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, bytes]
) -> None:
    """Training continues, since the new checkpoint is complete."""
    refuse = mock.Mock(side_effect=OSError(errno.EIO, os.strerror(errno.EIO)))
    run = trainer(tmp_path / "parts", listeners=[At(7, lambda: monkeypatch.setattr(Path, "unlink", refuse))])
    run.run()
    monkeypatch.undo()
    assert len(run.folder.checkpoints()) > 2
    for path in run.folder.checkpoints()[:-2]:
        path.unlink()
    require_same_files(contents(tmp_path / "parts"), whole)
