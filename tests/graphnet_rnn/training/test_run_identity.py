"""Identity of a run: `resume` with other settings that affect results raises an error that names them."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet_rnn import optimizers
from graphnet_rnn.errors import UsageError
from graphnet_rnn.training import EarlyStopping, Listener, Trainer, Training
from tests.graphnet_rnn.training.runs import contents, interrupt_at, require_same_files, settings_of, text_run
from tests.tables import case

TEXT = "abcd" * 40 + "acbd" * 40 + "dcba" * 40
NET: dict[str, Any] = {
    "layers": [rnn.LSTM(4), rnn.LSTM(4)], "dropout": 0.25, "recurrent_dropout": 0.1, "initial_state": "learned",
}  # fmt: skip
RUN: dict[str, Any] = {
    "time": 6, "batch": 4, "epochs": 2, "sample": 5, "log_every": 2, "checkpoint_seconds": 0,
    "optimizer": optimizers.Momentum(0.05, clip_norm=1.0),
}  # fmt: skip
DRAWN = {"gradient_batches": 2, "optimizer": optimizers.HessianFree(cg_steps=3)}


def trainer(folder: Path, corpus: rnn.data.Corpus | None = None, **changed: Any) -> Trainer:
    """A small run; `changed` are arguments of the network or of the Trainer."""
    of_network = inspect.signature(rnn.Network).parameters
    net = NET | {name: value for name, value in changed.items() if name in of_network}
    run = RUN | {name: value for name, value in changed.items() if name not in of_network}
    corpus = rnn.data.Corpus.split(TEXT) if corpus is None else corpus
    size = len(corpus.vocabulary)
    return text_run(rnn.Network(inputs=size, outputs=size, **net), corpus, folder, **run)


def begun(folder: Path, **changed: Any) -> None:
    trainer(folder, **changed, listeners=[interrupt_at(3)]).run()


@dataclass(frozen=True)
class Halved(optimizers.Schedule):
    """A user's schedule without a description of its own."""

    by: float = 0.5
    __repr__ = object.__repr__

    def at(self, step: int) -> float:
        return float(self.by**step)

    @property
    def range(self) -> tuple[float, float]:
        return 0.0, 1.0


DROPPING = {"layers": [rnn.RHN(4, depth=2, t_dropout=0.1)]}
DECAY = optimizers.ExponentialDecay(after=5).by_epoch()
#: setting -> (arguments of the first run, arguments that changed, part of the error)
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "layers, units": ({}, {"layers": [rnn.LSTM(4), rnn.LSTM(5)]}, "model.layers[1].units was 4, now it is 5"),
    "layers, setting": (DROPPING, {"layers": [rnn.RHN(4, depth=2)]}, "layers[0].t_dropout was 0.1, now it"),
    "skip": ({}, {"skip": "outputs"}, "model.skip was False, now it is outputs"),
    "dropout": ({}, {"dropout": 0.5}, "model.dropout was 0.25, now it is 0.5"),
    "recurrent_dropout": ({}, {"recurrent_dropout": 0.0}, "model.recurrent_dropout was 0.1, now it is 0.0"),
    "variational": ({}, {"variational": True}, "model.variational was False, now it is True"),
    "initial_state": ({}, {"initial_state": "zero"}, "model.initial_state was learned, now it is zero"),
    "seed": ({}, {"seed": 1}, "model.seed was 0, now it is 1"),
    "dtype": ({}, {"dtype": "float64"}, "model.dtype was float32, now it is float64"),
    "share": ({}, {"share": {1: 0}}, "model.share was [], now it is [[1, 0]]"),
    "output_bias": ({}, {"output_bias": False}, "model.output_bias was True, now it is False"),
    "truncated": ({"truncated": True}, {}, "model.truncated was True, now it is False"),
    "corpus, text": ({}, {"corpus": rnn.data.Corpus.split(TEXT[::-1])}, "the text has changed"),
    "corpus, parts": ({}, {"corpus": rnn.data.Corpus.split(TEXT, valid=0.2)}, "parts[0] was 384, now it"),
    "corpus, characters": ({}, {"corpus": rnn.data.Corpus.split(TEXT.upper())}, "the vocabulary has changed"),
    "optimizer": ({}, {"optimizer": optimizers.SGD(0.05)}, "optimizer.name was Momentum, now it is SGD"),
    "time": ({}, {"time": 5}, "time was 6, now it is 5"),
    "batch": ({}, {"batch": 5}, "batch was 4, now it is 5"),
    "stride": ({}, {"stride": 3}, "stride was 6, now it is 3"),
    "shares": ({}, {"shares": 2}, "shares was 1, now it is 2"),
    "gradient_batches": (DRAWN, {"gradient_batches": 1}, "gradient_batches was 2, now it is 1"),
    "curvature_batches": (DRAWN, {"curvature_batches": 2}, "curvature_batches was 1, now it is 2"),
    "unscored": (DRAWN, {"unscored": 1}, "unscored was 0, now it is 1"),
    "l2": ({}, {"l2": 0.1}, "l2 was 0.0, now it is 0.1"),
    "schedule": ({}, {"schedule": DECAY}, "schedule was ExponentialDecay(decay=0.95, after=10"),
    "schedule, own": ({"schedule": Halved()}, {"schedule": Halved(0.3)}, "Halved(by=0.5), now it is"),
    "average": ({}, {"average": 0.9}, "average was None, now it is 0.9"),
    "stopping": ({}, {"stopping": None}, "stopping was EarlyStopping("),
    "frozen": ({}, {"frozen": "output.*"}, "frozen was [], now it is ['output.*']"),
    "clip_values": ({}, {"clip_values": 1.0}, "clip_values was None, now it is 1.0"),
    "sample": ({}, {"sample": 6}, "sample was 5, now it is 6"),
    "goal": ({}, {"goal": 0.1}, "goal was None, now it is 0.1"),
    "log_every": ({}, {"log_every": 3}, "log_every was 2, now it is 3"),
}  # fmt: skip
#: Settings that change no number.
ACCEPTED: dict[str, dict[str, Any]] = {
    "initial": {"initial": {"W_ho": rnn.initializers.zeros()}},
    "layers, initial": {"layers": [rnn.LSTM(4, initial={"W_*": rnn.initializers.normal(1.0)}), rnn.LSTM(4)]},
    "values": {"values": None},
    "threads": {"threads": 1},
    "checkpoint_seconds": {"checkpoint_seconds": 20.0},
    "notes": {},
    "start": {"start": "another model"},  # the checkpoint's weights and its `start` are kept
    "listeners": {"listeners": [Listener()]},
    "schedule that says the same": {"schedule": optimizers.ExponentialDecay(0.95, after=10).by_epoch()},
    "stopping that says the same": {"stopping": EarlyStopping()},
}  # fmt: skip
#: Settings that change only rounding or the contents of rows.
ROUNDED: dict[str, Any] = {"backend": "numpy", "memory": "sqrt", "metrics": ["accuracy"]}
#: Settings with only one possible value for a run on a text, or that change only place, length or output.
FIXED = {
    "pool", "scaling", "inputs", "outputs", "loss", "reads", "network", "folder", "epochs", "steps", "core_seconds",
    "problem", "settings", "parallel", "progress", "patience",
}  # fmt: skip


def test_settings_with_effect_on_results_are_rejected(tmp_path: Path) -> None:
    begun_with: dict[str, Path] = {}
    for what, (before, now, named) in REFUSED.items():
        with case(what):
            folder = begun_with.setdefault(repr(before), tmp_path / str(len(begun_with)))
            if not folder.exists():
                begun(folder, **before)
            history = (folder / "history.jsonl").read_bytes()
            other = trainer(folder, **(before | now if what != "truncated" else now))
            with pytest.raises(UsageError, match=re.escape(named)) as caught:
                other.resume()
            assert "cannot be continued" in str(caught.value)
            assert "\n" not in str(caught.value)
            assert (folder / "history.jsonl").read_bytes() == history


def test_settings_without_effect_on_results_may_differ(tmp_path: Path) -> None:
    trainer(tmp_path / "whole").run()
    expected = rnn.load(tmp_path / "whole" / "model.safetensors").theta
    alone = {what: ACCEPTED[what] for what in ("layers, initial", "start")}
    together = {k: v for what, changed in ACCEPTED.items() if what not in alone for k, v in changed.items()}
    rounded = {what: {what: value} for what, value in ROUNDED.items()}
    for what, changed in {"all at once": together, **alone, **rounded}.items():
        with case(what):
            begun(tmp_path / what)
            other = trainer(tmp_path / what, **changed)
            other.resume()
            other.run()
            if what in ROUNDED:
                found = rnn.load(tmp_path / what / "model.safetensors").theta
                assert np.allclose(found, expected, rtol=1e-4, atol=1e-5)
            else:
                require_same_files(contents(tmp_path / what), contents(tmp_path / "whole"))


def test_constants_of_own_losses_must_not_change(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0)
    x = numbers.normal(size=(3, 6, 1)).astype("float32")
    weights = {name: numbers.random((3, 1, 1)).astype("float32") for name in ("first", "second")}

    def of_arrays(folder: Path, factor: float, held: str) -> Trainer:
        net = rnn.Network([rnn.Elman(2)], 1, 1, loss="squared")
        loss = lambda o, t: factor * gn.absolute(t - o) * gn.constant(weights[held])
        return Trainer(rnn.Arrays(net, x, x, batch=3, loss=loss), Training(epochs=1), folder)

    def of_a_graph(folder: Path, factor: float, held: str) -> Trainer:
        net = rnn.Network([rnn.Elman(2)], 1, 1, loss="squared")

        def losses(batch: int, **how: Any) -> gn.Node:
            u = net.unroll(3, batch, initial="zero", **how)
            return factor * gn.sum(u.losses * gn.constant(weights[held][:, :, 0]), axis=0)

        problem = rnn.GraphCases(net, {"x": x, "t": x}, batch=3, graph=losses, valid=None)
        return Trainer(problem, Training(epochs=1), folder)

    for make, said in ((of_arrays, "loss was"), (of_a_graph, "the graph has changed")):
        make(tmp_path / said, 0.5, "first").run()
        make(tmp_path / said, 0.5, "first").resume()
        for factor, held in ((0.25, "first"), (0.5, "second")):
            with pytest.raises(UsageError, match=said):
                make(tmp_path / said, factor, held).resume()


DIGEST = """
import numpy as np
import graphnet as gn
from graphnet_rnn.training.batches_of_cases import digest_of_graph
o, t = gn.input((3, 4)), gn.constant(np.ones((3, 4), "float32"))
def calls_itself(z, n=1):
    return calls_itself(z, 0) if n and "abs" in {"sin", "cos", "exp", "log"} else (z - t) * (z - t)
loss = gn.with_surrogate(gn.squared_error(o, t), lambda z: calls_itself(z), at=o)
print(digest_of_graph(gn.sum(loss)))
"""


def test_the_digest_of_a_graph_is_the_same_in_each_process() -> None:
    """The order of sets, lines of the script and addresses differ."""
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, program in (("1", DIGEST), ("2", "\n" + DIGEST))
    }
    assert len(found) == 1


def test_every_setting_has_its_row() -> None:
    rows = {re.split("[ ,]", name)[0] for name in (*REFUSED, *ACCEPTED, *ROUNDED)}
    assert settings_of(rnn.Network, rnn.CarriedText, rnn.DrawnText, Training, Trainer) <= rows | FIXED


#: Other values for settings where half or plus one would be invalid.
OTHERS: dict[str, Any] = {
    "clip_norm": 2.0, "clip_value": 2.0, "beta1": 0.5, "beta2": 0.5, "decay": 0.5, "momentum": 0.5, "adapts": "nothing",
    "metric": "rms", "graft": "adam",
}  # fmt: skip


def other_than(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return "damping" if value == OTHERS.get(name) else OTHERS.get(name, value)
    if name in OTHERS:
        return OTHERS[name]
    if isinstance(value, (bool, int)):
        return not value if isinstance(value, bool) else value + 1
    return 0.37 if value is None else 0.5 * value if value else 0.25


@pytest.mark.parametrize("name", optimizers.ALL)
def test_every_setting_of_an_optimizer_is_part_of_the_run(name: str, tmp_path: Path) -> None:
    kind = optimizers.ALL[name]

    def trainer(optimizer: optimizers.Optimizer) -> Trainer:
        task = rnn.tasks.Addition(10)
        problem = rnn.tasks.FreshSequences(task, batch=2, gradient_batches=1, test=2, steps=1)
        return Trainer(problem, Training(optimizer, epochs=1), tmp_path / "run")

    trainer(kind()).run()
    trainer(kind()).resume()
    tried = 0
    for setting in fields(kind):
        value = getattr(kind(), setting.name)
        try:
            changed = kind(**{setting.name: other_than(setting.name, value)})
        except UsageError:  # not alone
            continue
        tried += 1
        with pytest.raises(UsageError, match=rf"optimizer\.{setting.name}(\.\w+)? was "):
            trainer(changed).resume()
    assert tried >= len(fields(kind)) - 2
