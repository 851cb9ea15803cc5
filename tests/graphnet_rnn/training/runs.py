"""Helpers: training runs from flat settings, stopped at a step, and compared byte by byte."""

from __future__ import annotations

import inspect
import json
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from safetensors.numpy import load

import graphnet_rnn as rnn
from graphnet_rnn.training import Listener, RunFolder, Trainer, Training

OF_TRAINING = {field.name for field in fields(Training)}
OF_TRAINER = {"listeners", "metrics", "notes", "start"}


def text_run(network: rnn.Network, corpus: rnn.data.Corpus, folder: Path | None, **settings: Any) -> Trainer:
    """settings: of Trainer, Training and the problem, which is DrawnText if gradient_batches is given."""
    own = {name: settings.pop(name) for name in OF_TRAINER & set(settings)}
    training = Training(**{name: settings.pop(name) for name in OF_TRAINING & set(settings)})
    if settings.get("gradient_batches") is None:
        settings.pop("gradient_batches", None)
        return Trainer(rnn.CarriedText(network, corpus, **settings), training, folder, **own)
    return Trainer(rnn.DrawnText(network, corpus, **settings), training, folder, **own)


def settings_of(*kinds: type) -> set[str]:
    return {name for kind in kinds for name in inspect.signature(kind).parameters}


def rows(folder: Path, event: str) -> list[dict[str, Any]]:
    """Rows of the history with this event."""
    listed = [
        json.loads(line) for line in (folder / "history.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    return [row for row in listed if row["event"] == event]


def contents(folder: Path) -> dict[str, bytes]:
    """Files that must not depend on interruptions: the model, the last checkpoint, the history."""
    last = RunFolder(folder).checkpoints()[-1]
    return {name: (folder / name).read_bytes() for name in ("model.safetensors", "history.jsonl", last.name)}


def require_same_files(found: Mapping[str, bytes], expected: Mapping[str, bytes]) -> None:
    """Requires equal files; the error names the tensors, texts and lines that differ."""
    assert set(found) == set(expected)
    for name in sorted(expected):
        if found[name] != expected[name]:
            a, b = _parts(name, found[name]), _parts(name, expected[name])
            differing = [part for part in sorted(a | b) if str(a.get(part)) != str(b.get(part))]
            told = {part: (str(a.get(part))[:200], str(b.get(part))[:200]) for part in differing[:5]}
            raise AssertionError(f"{name} differs in {differing}: (found, expected) {told}")


def _parts(name: str, content: bytes) -> dict[str, Any]:
    """Tensors and descriptions by name, or lines by number."""
    if not name.endswith(".safetensors"):
        return {f"line {i}": line for i, line in enumerate(content.splitlines(), start=1)}
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    described = json.loads(header["__metadata__"]["graphnet"])
    return {**{name: (a.tobytes(), a) for name, a in load(content).items()}, **described}


class At(Listener):
    """Calls `what` after this step."""

    def __init__(self, step: int, what: Callable[[], Any]) -> None:
        self.step, self.what = step, what

    def stepped(self, trainer: Trainer, report: rnn.optimizers.Report) -> None:
        if trainer.progress.step == self.step:
            self.what()


def interrupt_at(step: int, number: int = signal.SIGINT) -> At:
    """Sends Ctrl-C after this step."""
    return At(step, lambda: os.kill(os.getpid(), number))
