"""Synthetic tasks against programs that solve them; bits of texts against enumeration."""

from __future__ import annotations

import itertools
import math
import re
import string
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.experiments.tasks import (
    TASKS,
    TEXTS,
    FreshSequences,
    Memory5,
    Permutation,
    Task,
    alphabet,
    anbn,
    distant_xor,
    elman,
    music,
    settings,
    summed_over_time,
)  # fmt: skip
from graphnet_rnn.optimizers import HessianFree, Optimizer
from tests.graphnet_rnn.training.reports import Told
from tests.tables import case

RNG = np.random.default_rng
by_task = pytest.mark.parametrize("name", TASKS)


def marked(answer: Callable[[float, float], float]) -> Callable[[Array, Task], Array]:
    def solve(x: Array, task: Task) -> Array:
        o = np.full((len(x), x.shape[1], 1), 7.0)  # what is said before the end does not matter
        for n in range(x.shape[1]):
            a, b = (u for u, mark in x[:, n] if mark)
            o[-1, n, 0] = answer(a, b)
        return o

    return solve


def order(x: Array, task: Task) -> Array:
    o = np.zeros((len(x), x.shape[1], task.outputs))
    for n, sequence in enumerate(x.T):
        special = [str(symbol) for symbol in sequence if symbol < 2]
        o[-1, n, int("".join(special), base=2)] = 1
    return o


def repeat_first(x: Array, task: Task) -> Array:
    return np.eye(task.outputs)[np.broadcast_to(x[0], x.shape)]


def recall(x: Array, task: Task) -> Array:
    """Says the constant symbol until the trigger, then what it has heard before that symbol."""
    constant = task.outputs - 1
    said = np.full_like(x, constant)
    for n, sequence in enumerate(x.T):
        trigger = list(sequence).index(constant + 1)
        heard = list(itertools.takewhile(lambda symbol: symbol != constant, sequence[:trigger]))
        said[trigger + 1 : trigger + 1 + len(heard), n] = heard
    return np.eye(task.outputs)[said]


SOLVERS: dict[str, Callable[[Array, Task], Array]] = {
    "addition": marked(lambda a, b: (a + b) / 2),
    "multiplication": marked(lambda a, b: a * b),
    "xor": marked(lambda a, b: 1.0 if a != b else -1.0),
    "temporal-order": order,
    "temporal-order-3": order,
    "permutation": repeat_first,
    "memory-5": recall,
    "memory-20": recall,
}


@by_task
def test_hand_written_programs_solve_every_task(name: str) -> None:
    for length in (10, 19, 37):
        with case(length):
            task = TASKS[name](length)
            x, t = task.batch(RNG(length), 300)
            o = SOLVERS[name](x, task)
            assert task.wrong(o, t).tolist() == 300 * [False]
            # One step before the end of what is judged nothing is asked for.
            o[: task.time - task.judged] = 99
            assert not task.wrong(o, t).any()
            o[-1, 5] = np.nan
            assert np.flatnonzero(task.wrong(o, t)).tolist() == [5]


#: The answer, and how often it is wrong.
CONSTANT = {
    "addition": (0.5, 0.92**2),  # 1 - P(|a + b - 1| <= 0.08)
    "multiplication": (0.0, 1 - 0.04 * (1 - math.log(0.04))),  # P(a b > 0.04)
    "xor": (1.0, 1 / 2), "temporal-order": (2, 3 / 4), "temporal-order-3": (5, 7 / 8),
    "permutation": (1, 1 / 2), "memory-5": (2, 1.0), "memory-20": (5, 1.0),
}  # fmt: skip


@by_task
def test_error_rate_of_constant_answers(name: str) -> None:
    task, count = TASKS[name](20), 4000
    answer, expected = CONSTANT[name]
    o = np.full((task.time, count, 1), answer)
    if task.loss == "softmax":
        o = np.eye(task.outputs)[o[..., 0]]
    share = task.wrong(o, task.batch(RNG(0), count)[1]).mean()
    assert abs(share - expected) <= 4 * math.sqrt(expected * (1 - expected) / count)


def test_marked_numbers() -> None:
    for length, name in itertools.product((10, 30, 57), ("addition", "multiplication", "xor")):
        with case(length, name):
            task = TASKS[name](length)
            x, t = task.batch(RNG(1), 6000)
            assert x.shape == (11 * length // 10, 6000, 2)
            assert t.shape == (11 * length // 10, 6000, 1)
            assert (x.dtype, t.dtype, task.unscored) == (np.float32, np.float32, task.time - 1)
            assert not t[:-1].any()
            assert (x[:, :, 1].sum(axis=0) == 2).all()
            assert set(np.unique(x[:, :, 1])) == {0, 1}
            if name == "xor":
                assert set(np.unique(x[:, :, 0])) == {0, 1}
                continue
            # A number is 0 with probability 2⁻²⁴, so the first that is not starts its sequence.
            begin = (x[:, :, 0] > 0).argmax(axis=0)
            lengths = task.time - begin
            assert set(lengths) == set(range(length, task.time + 1))
            most_common = Counter(lengths.tolist()).most_common()
            assert most_common[0][1] - most_common[-1][1] < 8 * math.sqrt(6000 / len(most_common))
            first, second = np.array([np.flatnonzero(column) for column in x[:, :, 1].T]).T - begin + 1
            for T in range(length, task.time + 1):  # from 1, in each sequence
                assert set(first[lengths == T]) == set(range(1, T // 10 + 1))
                assert set(second[lengths == T]) == set(range(T // 10 + 1, T // 2 + 1))


def test_places_of_ordered_symbols() -> None:
    for name, length, places in (
        ("temporal-order", 10, [(1, 2), (5, 6)]), ("temporal-order", 100, [(10, 20), (50, 60)]),
        ("temporal-order-3", 55, [(6, 11), (17, 22), (33, 38)]),  # 5.5 ... 11, 16.5 ... 22, 33 ... 38.5
        ("temporal-order-3", 10, [(1, 2), (3, 4), (6, 7)]),
    ):  # fmt: skip
        with case(name, length, places):
            x, t = TASKS[name](length).batch(RNG(0), 3000)
            assert x.shape == t.shape == (length, 3000)
            assert set(np.unique(x)) == set(range(6))
            found = np.array([np.flatnonzero(sequence < 2) + 1 for sequence in x.T])
            assert [set(column) for column in found.T] == [set(range(a, b + 1)) for a, b in places]
            assert set(t[-1]) == set(range(2 ** len(places)))


def test_permutation() -> None:
    task = Permutation(30)
    x, t = task.batch(RNG(0), 2000)
    assert x.shape == t.shape == (30, 2000)
    assert np.array_equal(np.concatenate([x, x[:1]])[1:], t)
    assert set(x[0]) == {0, 1}
    assert set(np.unique(x[1:])) == set(range(2, 100))
    assert (task.unscored, task.judged) == (0, 1)


def test_memory_task_matches_the_source() -> None:
    """v: 5 bits, then 3 but for the trigger 4 at T + 5; y: 3 up to T + 5, then the bits (from 1 in the source)."""
    x, t = (array + 1 for array in Memory5(7).batch(RNG(3), 50))
    for v, y in zip(x.T, t.T, strict=True):
        assert set(v[:5]) <= {1, 2}
        assert v[5:].tolist() == [3] * 6 + [4] + [3] * 5
        assert y.tolist() == [3] * 12 + v[:5].tolist()
    task = Memory5(9)
    x, t = task.every()  # of five bits, once
    assert x.shape[1] == task.distinct == len({tuple(column) for column in x.T}) == 32
    assert not task.wrong(recall(x, task), t).any()


def test_sequences_are_reproducible_from_the_seed_at_every_length() -> None:
    for name, kind in TASKS.items():
        with case(name):
            one, same, other = (kind(15).batch(RNG(seed), 40) for seed in (4, 4, 5))
            assert all(map(np.array_equal, one, same))
            assert not np.array_equal(one[0], other[0])
            kind(kind.shortest).batch(RNG(0), 50)
            with pytest.raises(UsageError, match=f"{name}: length .*>= {kind.shortest}"):
                kind(kind.shortest - 1)


def test_settings_of_the_source() -> None:
    found = settings(TASKS["addition"](50))
    assert (found.gradient, found.curvature) == (10_000, 1_000)
    source = {"damping": 0.1, "structural": 1 / 30, "cg_steps": 300, "tolerance": 1e-4, "retained": 0.9}
    assert found.optimizer() == HessianFree(**source)
    without = settings(TASKS["xor"](50), structural=False)
    assert (without.damping, without.structural) == (0.3, 0)
    assert settings(Permutation(70)).damping == pytest.approx(7)
    few = settings(Memory5(50))
    assert (few.gradient, few.curvature, few.test) == (32, 32, 32)


def test_initial_weights() -> None:
    """15 connections into each hidden and output unit, and out of each input, of the source's variances."""
    for name in TASKS:
        with case(name):
            network = elman(TASKS[name](30), units=400)
            arrays = {key.split(".")[1]: node.value for key, node in network.parameters.items()}
            assert set(arrays) == {"W_xh", "W_hh", "b_h", "W_ho", "b_o"}
            for key, variance in (("W_xh", 1.0), ("W_hh", 1 / 15), ("W_ho", 1 / 15)):
                w = arrays[key]
                assert (np.count_nonzero(w, axis=1 if key == "W_xh" else 0) == 15).all()
                n = np.count_nonzero(w)
                assert abs((w**2).sum() / n / variance - 1) < 5 * math.sqrt(2 / n)
            assert abs((arrays["b_h"] ** 2).mean() * 15 - 1) < 5 * math.sqrt(2 / 400)
            assert arrays["b_o"].all()


@by_task
def test_cost_is_summed_over_time(name: str) -> None:
    """Against the loss of each step in NumPy, for scored steps and for the last steps."""
    task, count = TASKS[name](11), 6
    network = elman(task, units=5)
    x, t = task.batch(RNG(0), count)
    u = network.unroll(task.time, count, initial="zero")
    (logits,) = gn.compile([u.logits], [u.inputs])(x)
    for unscored, chosen in ((task.unscored, None), (task.time - 2, task.time - 2)):
        with case(unscored):
            objective = summed_over_time(task, network, count, chosen)
            objective.feed(x, t)
            o, wanted = logits[unscored:].astype(float), t[unscored:]
            if task.loss == "squared":
                expected = ((o - wanted) ** 2).sum() / count
            elif task.loss == "sigmoid":
                expected = np.logaddexp(0, np.where(wanted > 0, -o, o)).sum() / count
            else:
                log_p = o - np.logaddexp.reduce(o, axis=2, keepdims=True)
                expected = -np.take_along_axis(log_p, wanted[:, :, None], 2).sum() / count
            assert objective.loss(objective.start()) == pytest.approx(expected, rel=1e-5)
            scored = network.unroll(task.time, count, initial="zero", unscored=unscored)
            mean = rnn.Objective(scored.cost, objective.parameters, [scored.inputs, scored.targets])
            mean.feed(x, t)
            v = RNG(1).standard_normal(objective.size)
            plain, damped = (objective.curvature(objective.start(), weight)(v) @ v for weight in (0.0, 1.0))
            assert 0 < plain < damped
            steps = task.time - unscored
            assert plain == pytest.approx(steps * (mean.curvature(mean.start())(v) @ v), rel=1e-4)


def trained(problem: FreshSequences, optimizer: Optimizer) -> tuple[Any, Any]:
    """The outcome, and the report of each step."""
    settings, told = rnn.Training(optimizer, epochs=1, schedule=rnn.Constant(), stopping=None), Told()
    return rnn.Trainer(problem, settings, listeners=[told]).run(), told.reports


def test_training_on_fresh_sequences() -> None:
    task = TASKS["temporal-order"](10)
    problem = FreshSequences(task, elman(task, 20), 100, 2, 330, seed=1, steps=40)
    # The test sequences: 330, each once, though they come in batches of 100.
    x, t = task.batch(RNG([1, 1]), 330)
    u = problem.model.unroll(task.time, 330, initial="zero")
    (logits,) = gn.compile([u.logits], [u.inputs])(x)
    assert problem.wrong() == task.wrong(logits, t).mean() > 0.4
    outcome, reports = trained(problem, HessianFree(damping=0.1, cg_steps=30))
    assert problem.sequences == sum(100 * (2 + report.products) for report in reports)
    assert outcome.steps == 40
    assert outcome.best < 0.02
    task = TASKS["addition"](10)
    problem = FreshSequences(task, elman(task, 5), 20, 2, 30, steps=1)
    _, (report,) = trained(problem, rnn.LBFGS(iterations=3))
    assert report.evaluations >= 4, "of a line search"
    assert problem.sequences == 40 * report.evaluations


def test_defaults_of_fresh_sequences() -> None:
    problem = FreshSequences(TASKS["addition"](10))
    assert (problem.batch, problem.gradient_batches, problem.test) == (1000, 10, 10_000)
    assert problem.model.theta.size == 10_401  # "a little over 10,000 parameters"
    problem = FreshSequences(Memory5(10), elman(Memory5(10), 10))
    assert (problem.batch, problem.gradient_batches, problem.test) == (32, 1, 32)
    problem.feed(0, 0)
    assert len({tuple(column) for column in problem.objective.gradient_batches[0][0].T}) == 32


def test_alphabet() -> None:
    """Grammar and probabilities; the first letter and symbols after insertions, opens and closes are certain."""
    drawn = alphabet(RNG(0), 400)
    inside = "".join(rf"{digit}(\[[A-Z]{{9}}\])?" for digit in string.digits)
    grammar = "".join(rf"{letter}(\({inside}\))?" for letter in string.ascii_lowercase)
    assert all(re.fullmatch(grammar, line) for line in drawn.text.splitlines())
    for before, symbol, bits in zip("\n" + drawn.text, drawn.text, drawn.bits, strict=False):
        share = 1 / 26 if before in string.ascii_lowercase else 1 / 5
        p = {"(": 1 / 26, "[": 1 / 5}.get(symbol, 1 - share)
        if before in "\n(])" or symbol == "]":
            p = 1
        elif symbol in string.ascii_uppercase:
            p = 1 / 26
        assert bits == pytest.approx(-math.log2(p))
    text = alphabet(RNG(1), 2000).text
    blocks, inner = text.count("("), text.count("[")
    assert abs(blocks - 2000) < 4 * math.sqrt(2000 * 25 / 26)
    assert abs(inner - 2 * blocks) < 4 * math.sqrt(10 * blocks * 0.16)

    def coin(p: float) -> float:
        return -p * math.log2(p) - (1 - p) * math.log2(1 - p)

    # The mean of 4,000 lines, whose standard deviation is about 105 bits.
    expected = 26 * coin(1 / 26) + 10 * coin(1 / 5) + 2 * 9 * math.log2(26)
    assert expected == pytest.approx(97.9, abs=0.05)
    assert abs(alphabet(RNG(2), 4000).total / 4000 - expected) < 4 * 105 / math.sqrt(4000)


def every_bar() -> Iterator[tuple[str, float]]:
    """The bars of harmony I with their probabilities."""
    for values in (["4", "4", "4"], ["2", "4"], ["4.", "8", "4"], ["2."], ["4", "4", "8", "8"]):
        for pitches in itertools.product("ceg", repeat=len(values)):
            yield " ".join(map("".join, zip(pitches, values, strict=True))) + " |\n", 1 / 5 / 3 ** len(values)


def conditional_bits(text: str, law: dict[str, float]) -> list[float]:
    """-log2 Pr(x_t | x_1 ... x_{t-1}), by summing over all that may have been written."""
    masses = [sum(p for other, p in law.items() if other.startswith(text[:t])) for t in range(len(text) + 1)]
    return [math.log2(a / b) for a, b in itertools.pairwise(masses)]


def test_music_against_every_bar() -> None:
    law = dict(every_bar())
    assert sum(law.values()) == pytest.approx(1)
    entropy = -sum(p * math.log2(p) for p in law.values())
    drawn = music(RNG(0), 2704)
    bars, start = drawn.text.splitlines(keepends=True), 0
    chords = {"I": "ceg", "IV": "cfa", "V": "gbd"}
    for number, bar in enumerate(bars):
        chord = chords[["I", "IV", "I", "V", "I", "IV", "V", "I"][number % 8]]
        assert set(re.findall("[a-g]", bar)) <= set(chord)
        if number < 80:
            in_one = "".join("ceg"[chord.index(s)] if s in chord else s for s in bar)
            assert np.allclose(drawn.bits[start : start + len(bar)], conditional_bits(in_one, law))
        start += len(bar)
    assert drawn.total / len(bars) == pytest.approx(entropy, rel=0.03)


def every_line(T: int) -> Iterator[tuple[str, float]]:
    """The lines of the distant XOR with all bits 0, and the probability of their lengths and marks."""
    lengths = range(T, 11 * T // 10 + 1)
    for n in lengths:
        first = [i for i in range(n) if i < n / 10]
        second = [j for j in range(n) if n / 10 <= j < n / 2]
        for i, j in itertools.product(first, second):
            line = "".join("X0" if k in (i, j) else " 0" for k in range(n)) + "=0\n"
            yield line, 1 / len(lengths) / len(first) / len(second)


def test_distant_xor_against_every_line() -> None:
    for length in (3, 10, 29):
        with case(length):
            law = dict(every_line(length))
            drawn = distant_xor(RNG(0), 60, length)
            assert drawn.total == 0
            start, lengths = 0, set()
            for line in drawn.text.splitlines(keepends=True):
                marks = [int(bit) for bit in re.findall(r"X(\d)", line)]
                assert len(marks) == 2
                assert int(line[-2]) == marks[0] ^ marks[1]
                blank = re.sub(r"\d", "0", line)
                assert blank in law
                expected = np.array(conditional_bits(blank, law))
                expected[1:-3:2] += 1  # the random bits
                found = slice(start, start + len(line))
                assert np.allclose(drawn.bits[found], expected)
                assert np.flatnonzero(drawn.scored[found]).tolist() == [len(line) - 2]
                start += len(line)
                lengths.add((len(line) - 3) // 2)
            assert lengths == set(range(length, 11 * length // 10 + 1))


def test_anbn() -> None:
    drawn = anbn(RNG(0))
    lines = drawn.text.splitlines()
    assert len(lines) == 20
    for a, b in zip(lines[::2], lines[1::2], strict=True):
        assert a == "a" * len(a)
        assert b == "b" * len(a)
        assert 1024 <= len(a) < 2048
    assert drawn.total == pytest.approx(100)  # 10 bits for each block, as the source has it
    law = {"a" * n + "\n": 1 / 5 for n in range(3, 8)}
    small = anbn(RNG(1), 40, least=3, end=8)
    start = 0
    for number, line in enumerate(small.text.splitlines(keepends=True)):
        expected = [0.0] * len(line) if number % 2 else conditional_bits(line, law)
        assert np.allclose(small.bits[start : start + len(line)], expected)
        start += len(line)
    assert {len(line) for line in small.text.splitlines()} == {3, 4, 5, 6, 7}


def test_texts_follow_their_distribution() -> None:
    """χ² test of the frequencies of all possible pieces."""
    for name, make in TEXTS.items():
        with case(name):
            one, same, other = (make(RNG(seed), 20) for seed in (1, 1, 2))
            assert one.text == same.text != other.text
            assert np.array_equal(one.bits, same.bits)
            assert len(one.text) == len(one.bits) == len(one.scored)
            assert (one.bits >= 0).all()
    for text, every, taken, law in (
        (music(RNG(3), 8 * 4000).text, 8, 1, every_bar()),  # the first bar of eight
        (re.sub(r"\d", "0", distant_xor(RNG(3), 4000, 10).text), 1, 1, every_line(10)),
        (anbn(RNG(3), 4000, 3, 8).text, 2, 2, [(f"{'a' * n}\n{'b' * n}\n", 1 / 5) for n in range(3, 8)]),
    ):
        with case(text[:40]):
            lines = text.splitlines(keepends=True)
            pieces = ["".join(lines[k : k + taken]) for k in range(0, len(lines), every)]
            came, probabilities = Counter(pieces), dict(law)
            assert set(came) <= set(probabilities)
            expected = len(pieces) * np.array(list(probabilities.values()))
            found = np.array([came[piece] for piece in probabilities])
            chi, freedom = ((found - expected) ** 2 / expected).sum(), len(expected) - 1
            assert abs(chi - freedom) < 4 * math.sqrt(2 * freedom)


XOR, ADD = TASKS["xor"](10), TASKS["addition"](10)
LOGITS = np.zeros((XOR.time, 3, 1))
NO_BATCH = summed_over_time(ADD, elman(ADD, units=3), 2)
NOTHING = np.zeros(NO_BATCH.size)
# fmt: off
REFUSED = {
    "length of another kind": (lambda: TASKS["xor"]("30"), UsageError, "length must be a whole number"),
    "no sequences": (lambda: XOR.batch(RNG(0), 0), UsageError, "batch: count"),
    "no generator": (lambda: XOR.batch(0, 5), UsageError, "xor: batch: generator must be a NumPy generator"),
    "too many": (lambda: TASKS["memory-20"](9).every(), UsageError, "memory-20 has too many"),
    "time": (lambda: XOR.wrong(LOGITS[1:], LOGITS[1:]), DataError, r"logits must be \(11, count, 1\)"),
    "texts": (lambda: XOR.wrong(LOGITS, LOGITS.astype(str)), DataError, r"not float64 .* and <U32 \[11,"),
    "cases": (lambda: XOR.wrong(LOGITS, LOGITS[:, :2]), DataError, r"logits must be \(11, count, 1\)"),
    "feed of none": (lambda: NO_BATCH.feed_batches([]), UsageError, "at least one batch"),
    "loss of none": (lambda: NO_BATCH.loss(NOTHING), UsageError, "have no arrays yet"),
    "gradient of none": (lambda: NO_BATCH.gradient(NOTHING), UsageError, "have no arrays yet"),
    "curvature of none": (lambda: NO_BATCH.curvature(NOTHING), UsageError, "have no arrays yet"),
    "network": (lambda: FreshSequences(ADD, elman(TASKS["memory-5"](10), 3)), UsageError, "inputs=2"),
    "batch": (lambda: FreshSequences(ADD, batch=0), UsageError, "FreshSequences: batch must be"),
    "batches": (lambda: FreshSequences(ADD, gradient_batches=0), UsageError, "gradient_batches must be"),
    "test": (lambda: FreshSequences(ADD, test=0), UsageError, "FreshSequences: test must be"),
    "xor's length": (lambda: distant_xor(RNG(0), 1, 2), UsageError, "distant_xor: length .*>= 3"),
    "anbn's end": (lambda: anbn(RNG(0), 1, 5, 5), UsageError, "anbn: end must be larger than least, not 5"),
    **{f"count of {n}": (lambda t=t: t(RNG(0), 0), UsageError, ">= 1, not 0") for n, t in TEXTS.items()},
    **{f"generator of {n}": (lambda t=t: t(0), UsageError, "generator must be") for n, t in TEXTS.items()},
}
# fmt: on


def test_invalid_arguments_are_rejected() -> None:
    for name, (call, error, part) in REFUSED.items():
        with case(name), pytest.raises(error, match=part):
            call()
