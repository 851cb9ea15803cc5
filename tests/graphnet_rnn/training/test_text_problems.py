"""Texts as problems: pieces that carry their states, and independent sequences in the order of an epoch."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet_rnn.data import Corpus
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.optimizers import Adam, HessianFree
from graphnet_rnn.training import DrawnText, Trainer
from tests.graphnet_rnn.training.runs import At, interrupt_at, text_run
from tests.tables import case

TEXT = "the cat sat on the mat and the dog sat on the log. " * 60


def corpus(different: int) -> Corpus:
    """A thousand characters, so many of them different, in turns; nothing to validate."""
    return Corpus.given("".join(chr(0x4E00 + i % different) for i in range(1000)), "", "")


def network(**how: Any) -> rnn.Network:
    return rnn.Network([rnn.Elman(5)], 7, 7, **how)


def drawn(net: rnn.Network | None = None, **how: Any) -> DrawnText:
    settings: dict[str, Any] = {
        "gradient_batches": 3,
        "curvature_batches": 2,
        "unscored": 0,
        "sample": 0,
    } | how
    return DrawnText(net or network(), corpus(7), 9, 4, **settings)


def starts(problem: DrawnText, epoch: int) -> list[int]:
    """The first symbol of each sequence of an epoch."""
    found = []
    for step in range(len(problem)):
        objective = problem.feed(epoch, step)
        for inputs, targets in objective.gradient_batches:
            assert inputs.shape == targets.shape == (9, 4)
            assert np.array_equal(inputs[1:], targets[:-1])
            found += list(inputs[0])
    return found


def test_an_epoch_takes_every_sequence_at_most_once() -> None:
    """Here all symbols are different, so that the first one tells where a sequence is from."""
    net = rnn.Network([rnn.Elman(2)], 1000, 1000)
    problem = DrawnText(net, corpus(1000), 9, 4, gradient_batches=3, curvature_batches=2, sample=0)
    assert len(problem) == 111 // 12
    first, again, second = (starts(problem, epoch) for epoch in (0, 0, 1))
    assert len(set(first)) == len(first) == 9 * 12
    assert {start % 9 for start in first} == {0}
    assert first == again
    assert first != second


def test_curvature_and_loss_are_of_the_first_batches() -> None:
    problem = drawn()
    objective = problem.feed(0, 1)
    sizes = (objective.gradient_batches, objective.curvature_batches, objective.loss_batches)
    assert [len(batches) for batches in sizes] == [3, 2, 2]
    for batches in sizes[1:]:
        assert all(
            np.array_equal(a[0], b[0]) for a, b in zip(batches, objective.gradient_batches, strict=False)
        )


@pytest.mark.parametrize("initial_state", ["zero", "learned"])
def test_the_loss_is_that_of_unscored_sequences(initial_state: str) -> None:
    """Against a network run by hand from its first state."""
    net = network(initial_state=initial_state)
    problem = drawn(net, unscored=3)
    assert problem.items == 3 * 4 * 6
    objective = problem.feed(0, 0)
    expected = []
    for inputs, targets in objective.gradient_batches:
        u = net.unroll(9, 4, training=False, initial=initial_state)
        (losses,) = gn.compile([u.losses], [u.inputs, u.targets])(inputs, targets)
        expected.append(losses[3:].mean())
    assert objective.gradient(net.theta)[0] == pytest.approx(np.mean(expected), rel=1e-5)


def test_structural_damping_weighs_against_the_mean_loss() -> None:
    """μ means the same for sequences of any length: both matrices are means over steps."""
    objective = drawn(unscored=3, gradient_batches=1, curvature_batches=1).feed(0, 0)
    summed = objective.objective
    w = objective.start()
    v = np.random.default_rng(0).standard_normal(w.size)
    damping = objective.curvature(w, 0.5)(v) - objective.curvature(w)(v)
    summed.structure_scale = 1.0
    assert np.allclose(
        6 * damping, summed.curvature(w, 0.5)(v) - summed.curvature(w)(v), rtol=1e-3, atol=1e-6
    )


def test_a_preconditioner_has_its_single_cases() -> None:
    problem = drawn(gradient_batches=1, curvature_batches=1)
    squares = problem.feed(0, 0).squared_gradients(problem.feed(0, 0).start())
    assert squares.shape == (problem.feed(0, 0).size,)
    assert (squares >= 0).all()
    assert squares.any()


def test_impossible_settings() -> None:
    cases = [
        ({"gradient_batches": 0}, UsageError, "gradient_batches must be a whole number >= 1"),
        (
            {"curvature_batches": 4},
            UsageError,
            "curvature_batches must be at most gradient_batches, 3, not 4",
        ),
        ({"gradient_batches": 30}, DataError, "has 111 sequences of 9 characters, fewer than a step needs"),
        ({"unscored": 9}, UsageError, "unscored must be in 0 ... 8"),
        ({"unscored": "x"}, UsageError, "unscored must be a whole number"),
    ]
    for how, error, words in cases:
        with case(how, error), pytest.raises(error, match=words):
            drawn(**how)


# -- training runs -------------------------------------------------------------------------------


def trainer(folder: Path, **how: Any) -> Trainer:
    data = Corpus.split(TEXT)
    net = rnn.Network([rnn.Elman(8)], len(data.vocabulary), len(data.vocabulary), dropout=0.0, seed=3)
    settings: dict[str, Any] = {
        "optimizer": HessianFree(damping=0.1, structural=0.3, cg_steps=10), "time": 15, "batch": 8,
        "gradient_batches": 4, "curvature_batches": 2, "epochs": 3, "sample": 10, "stopping": None,
    }  # fmt: skip
    chosen = {
        name: value for name, value in (settings | how).items() if value is not None or name == "stopping"
    }
    return text_run(net, data, folder, **chosen)


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name != "timing.jsonl"}


@pytest.mark.parametrize(
    "optimizer",
    [
        HessianFree(structural=0.3, adapts="structural", cg_steps=10, preconditioner=0.75),
        rnn.LBFGS(iterations=3),
    ],
    ids=lambda o: type(o).__name__,
)
def test_resumed_is_never_stopped(tmp_path: Path, optimizer: rnn.optimizers.Optimizer) -> None:
    """Byte for byte, λ, μ, the last direction and the order of the sequences included."""
    how: dict[str, Any] = {"optimizer": optimizer}
    if not isinstance(optimizer, rnn.optimizers.CurvedOptimizer):
        how["curvature_batches"] = None
    trainer(tmp_path / "whole", **how).run()
    for step in (1, 4, 6):
        run = trainer(tmp_path / "parts", **how, listeners=[interrupt_at(step)])
        if step > 1:
            run.resume()
        assert run.run().reason == "interrupted"
    last = trainer(tmp_path / "parts", **how)
    last.resume()
    assert last.run().reason == "epochs"
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


def test_hessian_free_learns_a_text_and_records_its_flight(tmp_path: Path) -> None:
    from viz.charts.curves import read_history

    outcome = trainer(tmp_path / "run", epochs=8, optimizer=HessianFree(damping=0.1, cg_steps=40)).run()
    assert outcome.best < 1.5
    rows = [row for row in read_history(tmp_path / "run" / "history.jsonl") if row["event"] == "step"]
    assert [row["step"] for row in rows] == list(range(1, outcome.steps + 1))
    for row in rows:
        assert {"before", "after", "ratio", "damping", "cg_steps", "cg_values", "chosen", "scale"} <= set(row)
        assert "seconds" not in row
    timing = [row for row in read_history(tmp_path / "run" / "timing.jsonl") if "step" in row]
    assert [row["step"] for row in timing] == [row["step"] for row in rows]
    assert all(row["seconds"] > 0 for row in timing)


CARRIED: dict[str, Any] = {"gradient_batches": None, "curvature_batches": None}


def test_settings_that_exclude_each_other(tmp_path: Path) -> None:
    cases = [
        ({"clip_values": 1.0}, "DrawnText: clip_values would make the gradient another function's"),
        (
            CARRIED | {"clip_values": 1.0},
            "CarriedText: clip_values would make the gradient another function's",
        ),
        ({"optimizer": Adam()}, "curvature_batches means nothing to Adam"),
        (
            CARRIED | {"optimizer": HessianFree(preconditioner=0.75)},
            "a preconditioner that is an exponent needs the gradients of independent sequences",
        ),
    ]
    for how, words in cases:
        with case(how, words):
            with pytest.raises(UsageError, match=words):
                trainer(tmp_path / "run", **how)
            assert not (tmp_path / "run").exists()


def test_what_is_no_network_for_a_text() -> None:
    cases = [
        (network(), "a text", "corpus must be a Corpus, not a str; make one"),
        ("a net", corpus(7), "network must be a Network, not 'a net'"),
        (network(), corpus(8), "8 different characters, but the network has 7 inputs and 7 outputs"),
        (network(reads="vectors"), corpus(7), "only a network that reads symbols and predicts them"),
        (rnn.Network([rnn.Bidirectional(3)], 7, 7), corpus(7), "reads a sequence from its end as well"),
    ]
    for (net, data, words), kind in itertools.product(cases, [rnn.CarriedText, DrawnText]):
        with case(words, kind), pytest.raises(UsageError, match=words):
            kind(net, data)


@pytest.mark.parametrize("optimizer", [rnn.Nesterov(0.01), rnn.LBFGS(iterations=2), HessianFree()], ids=repr)
def test_bits_do_not_count_the_weight_decay(tmp_path: Path, optimizer: rnn.optimizers.Optimizer) -> None:
    """The first step's bits are those of the first weights, whatever the penalty."""
    bits = []
    for l2 in (0.0, 40.0):
        run = trainer(
            tmp_path / str(l2), optimizer=optimizer, l2=l2, epochs=1, curvature_batches=None, log_every=1
        )
        run.run()
        rows = [
            json.loads(line)
            for line in (tmp_path / str(l2) / "history.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        bits.append(next(row["train_bits"] for row in rows if row["event"] == "step"))
    assert bits[0] == pytest.approx(bits[1], rel=1e-5)


def test_carried_states_are_those_of_the_step_before_it(tmp_path: Path) -> None:
    """However often a step evaluates the loss: the states that go on are where it began."""
    seen: list[np.ndarray[Any, Any]] = []
    for optimizer in (rnn.LBFGS(iterations=4), rnn.SGD(1e-9)):
        folder = tmp_path / type(optimizer).__name__
        run = trainer(folder, optimizer=optimizer, **CARRIED, epochs=1)
        run.listeners = [
            At(step, lambda: seen.append(run.problem.carried[0].copy())) for step in range(1, 100)
        ]
        run.run()
    assert np.allclose(seen[0], seen[len(seen) // 2], atol=1e-6)
