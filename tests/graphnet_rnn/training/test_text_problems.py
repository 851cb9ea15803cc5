"""Text problems: pieces with carried states, and independent sequences."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet_rnn.data import Corpus
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.optimizers import HessianFree
from graphnet_rnn.training import CarriedText, DrawnText, Trainer
from tests.graphnet_rnn.training.reports import Told
from tests.graphnet_rnn.training.runs import rows, text_run
from tests.tables import case
from viz.charts.history import read_history

TEXT = "the cat sat on the mat and the dog sat on the log. " * 60


def corpus(different: int) -> Corpus:
    """A thousand characters, so many of them different, in turns; nothing to validate."""
    return Corpus.given("".join(chr(0x4E00 + i % different) for i in range(1000)), "", "")


def network(**how: Any) -> rnn.Network:
    return rnn.Network([rnn.Elman(5)], 7, 7, **how)


def drawn(net: rnn.Network | None = None, **how: Any) -> DrawnText:
    settings = {"gradient_batches": 3, "curvature_batches": 2, "unscored": 0, "sample": 0, **how}
    return DrawnText(net or network(), corpus(7), 9, 4, **settings)


def test_each_sequence_is_used_at_most_once_per_epoch() -> None:
    """All symbols are different, so the first one identifies a sequence."""
    net = rnn.Network([rnn.Elman(2)], 1000, 1000)
    problem = DrawnText(net, corpus(1000), 9, 4, gradient_batches=3, curvature_batches=2, sample=0)
    assert len(problem) == 111 // 12
    starts: list[list[int]] = []
    for epoch in (0, 0, 1):
        starts.append([])
        for step in range(len(problem)):
            for inputs, targets in problem.feed(epoch, step).gradient_batches:
                assert inputs.shape == targets.shape == (9, 4)
                assert np.array_equal(inputs[1:], targets[:-1])
                starts[-1] += list(inputs[0])
    first, again, second = starts
    assert len(set(first)) == len(first) == 9 * 12
    assert {start % 9 for start in first} == {0}
    assert first == again
    assert first != second


@pytest.mark.parametrize("initial_state", ["zero", "learned"])
def test_loss_ignores_unscored_steps(initial_state: str) -> None:
    """Against a network run by hand; curvature and loss use the first batches."""
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
    for batches in (objective.curvature_batches, objective.loss_batches):
        assert len(batches) == 2
        for one, other in zip(batches, objective.gradient_batches, strict=False):
            assert np.array_equal(one[0], other[0])


def test_structural_damping_is_a_mean_over_steps() -> None:
    """μ means the same for sequences of any length: both matrices are means over steps."""
    objective = drawn(unscored=3, gradient_batches=1, curvature_batches=1).feed(0, 0)
    summed = rnn.Objective(
        objective.cost, objective.parameters, objective.inputs, structure=objective.structure
    )
    summed.feed(*objective.gradient_batches[0])
    w = objective.start()
    v = np.random.default_rng(0).standard_normal(w.size)
    damping = objective.curvature(w, 0.5)(v) - objective.curvature(w)(v)
    expected = summed.curvature(w, 0.5)(v) - summed.curvature(w)(v)
    assert np.allclose(6 * damping, expected, rtol=1e-3, atol=1e-6)


def trainer(folder: Path | None, **how: Any) -> Trainer:
    data = Corpus.split(TEXT)
    net = rnn.Network([rnn.Elman(8)], len(data.vocabulary), len(data.vocabulary), dropout=0.0, seed=3)
    settings = {"time": 15, "batch": 8, "gradient_batches": 4, "epochs": 1, "sample": 10, **how}
    return text_run(net, data, folder, **settings)


CARRIED: dict[str, Any] = {"gradient_batches": None}
CURVED, EXPONENT = rnn.LBFGS(), HessianFree(preconditioner=0.75)
KNOWS = rnn.Network([rnn.Elman(3)], 3, 3)
CarriedText(KNOWS, Corpus.split("abc" * 100), time=5, batch=2)
#: Of the same size: its symbols would silently mean other characters.
XYZ = Corpus.split("xyz" * 100)
#: what -> (the call, the error, what it names)
REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "no batch": (lambda: drawn(gradient_batches=0), UsageError, "gradient_batches must be a whole number"),
    "curvature": (lambda: drawn(curvature_batches=4), UsageError, "must be at most gradient_batches"),
    "a large step": (lambda: drawn(gradient_batches=30), DataError, "has 111 sequences of 9 characters"),
    "unscored": (lambda: drawn(unscored=9), UsageError, "unscored must be in 0 ... 8"),
    "a sample": (lambda: drawn(sample=-1), UsageError, "sample must be a whole number >= 0, not -1"),
    "a limit below 0": (lambda: drawn(clip_values=-1.0), UsageError, "clip_values must be > 0, or None"),
    "clipped": (lambda: trainer(None, optimizer=CURVED, clip_values=1.0), UsageError, "DrawnText: clip_va"),
    "carried, clipped": (
        lambda: trainer(None, optimizer=CURVED, **CARRIED, clip_values=1.0), UsageError, "CarriedText: clip_",
    ),
    "Adam": (lambda: trainer(None, optimizer=rnn.Adam(), curvature_batches=2), UsageError, "curvature_batches has"),
    "an exponent": (lambda: trainer(None, **CARRIED, optimizer=EXPONENT), UsageError, "needs the"),
    "a text": (lambda: CarriedText(network(), "a text"), UsageError, "corpus must be a Corpus, not a str"),
    "no network": (lambda: DrawnText("a net", corpus(7)), UsageError, "DrawnText: the argument must be a Network, not"),
    "characters": (lambda: CarriedText(network(), corpus(8)), UsageError, "8 different characters"),
    "other characters": (lambda: CarriedText(KNOWS, XYZ), UsageError, "has another vocabulary than"),
    "drawn, other characters": (lambda: DrawnText(KNOWS, XYZ), UsageError, "has another vocabulary"),
    "vectors": (lambda: DrawnText(network(reads="vectors"), corpus(7)), UsageError, "must read symbols and pre"),
    "backwards": (
        lambda: CarriedText(rnn.Network([rnn.Bidirectional(3)], 7, 7), corpus(7)), UsageError, "reads later inputs",
    ),
}  # fmt: skip


def test_a_text_of_one_scored_character_validates_and_a_shorter_one_warns() -> None:
    for kind in (CarriedText, DrawnText):
        with case(kind.__name__):
            found = kind(rnn.Network([rnn.GRU(2)], 4, 4), Corpus.given("abcd" * 90, "abcda"), 4, 4).validate()
            assert found is not None
            assert found > 0
            with pytest.warns(
                UserWarning, match=r"has 4 characters, and the first 4 \(time\) are not scored"
            ):
                short = kind(rnn.Network([rnn.GRU(2)], 4, 4), Corpus.given("abcd" * 90, "abcd"), 4, 4)
            assert short.validate() is None


def test_invalid_arguments_are_rejected() -> None:
    for what, (call, error, said) in REFUSED.items():
        with case(what), pytest.raises(error, match=said):
            call()


@pytest.mark.parametrize("optimizer", [rnn.Nesterov(0.01), rnn.LBFGS(iterations=2), HessianFree()], ids=repr)
def test_bits_do_not_count_the_weight_decay(tmp_path: Path, optimizer: rnn.optimizers.Optimizer) -> None:
    """The bits of the first step are those of the first weights, for any penalty."""
    for l2 in (0.0, 40.0):
        trainer(tmp_path / str(l2), l2=l2, optimizer=optimizer, log_every=1).run()
    first, other = (rows(tmp_path / str(l2), "step")[0]["train_bits"] for l2 in (0.0, 40.0))
    assert first == pytest.approx(other, rel=1e-5)
    if isinstance(optimizer, HessianFree):
        times = [row["seconds"] for row in read_history(tmp_path / "0.0" / "timing.jsonl") if "step" in row]
        assert len(times) == len(rows(tmp_path / "0.0", "step"))
        assert all(seconds > 0 for seconds in times)


def test_carried_states_come_from_the_start_of_the_step() -> None:
    """Steps may evaluate the loss several times; carried states are from the step's start."""
    seen: list[np.ndarray[Any, Any]] = []
    for optimizer in (rnn.LBFGS(iterations=4), rnn.SGD(1e-9)):
        run = trainer(None, optimizer=optimizer, **CARRIED)
        run.listeners = [Told(lambda: seen.append(run.problem.carried[0].copy()))]
        run.run()
    assert np.allclose(seen[0], seen[len(seen) // 2], atol=1e-6)


@pytest.mark.parametrize(
    ("initial", "k1"), [("zero", 7), ("learned", 3), pytest.param("zero", 3, marks=pytest.mark.slow)]
)
def test_training_by_windows(initial: str, k1: int) -> None:
    """Two epochs by hand: the first window is scored completely, others in their last k₁ steps."""
    k2, batch = 7, 2
    data = Corpus.split("a cat sat on a mat, and a rat sat on the cat. " * 6)
    n = len(data.vocabulary)
    how: dict[str, Any] = {"dtype": "float64", "initial_state": initial}
    layers = [rnn.LSTM(4), rnn.Dense(4), rnn.GRU(3)]
    net, other = (rnn.Network(layers, inputs=n, outputs=n, **how) for _ in range(2))
    problem = rnn.CarriedText(net, data, time=k2, batch=batch, stride=k1, sample=0)
    outcome = rnn.Trainer(problem, rnn.Training(rnn.SGD(0.5), epochs=2, stopping=None)).run()
    bits = [row["train_bits"] for row in outcome.history if row["event"] == "epoch"]
    lane = (len(data.train) - 1) // batch
    x = data.train[: batch * lane].reshape(batch, lane).T
    t = data.train[1 : batch * lane + 1].reshape(batch, lane).T

    @cache
    def window_of(learned: bool, unscored: int) -> gn.Function:
        u = other.unroll(k2, batch, initial="learned" if learned else "given")
        cost = gn.mean(u.losses[unscored:])
        outputs = [cost, *gn.gradient(cost, list(other.parameters.values()))]
        inputs = [u.inputs, u.targets, *([] if learned else u.initial)]
        return gn.compile(outputs, inputs, backend="numpy")

    for epoch in range(2):
        states, total, count = other.first_states(batch), 0.0, 0
        for start in range(0, lane - k2 + 1, k1):
            learned = initial == "learned" and not start
            unscored = k2 - k1 if start else 0
            window = slice(start, start + k2)
            given = [x[window], t[window], *([] if learned else states)]
            loss, *gradients = window_of(learned, unscored)(*given)
            _, states = rnn.run(other, x[start : start + k1], states)
            other.theta = other.theta - 0.5 * np.concatenate([g.ravel() for g in gradients])
            total, count = total + float(loss) * (k2 - unscored), count + k2 - unscored
        assert bits[epoch] == pytest.approx(total / count / math.log(2))
    np.testing.assert_allclose(net.theta, other.theta, rtol=1e-8, atol=1e-10)
