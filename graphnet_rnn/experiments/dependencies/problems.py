"""The synthetic problems with long-term dependencies of Hochreiter & Schmidhuber 1997, as in Sutskever 2013, 4.4.

    task = TASKS["addition"](30)
    inputs, targets = task.batch(np.random.default_rng(0), 1000)
    u = network.unroll(task.time, 1000, initial="zero", unscored=task.unscored)

Positions in the sources count from 1, and i[a, b] is a whole number in a ... b.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.settings import require_generator, shown, whole_number

__all__ = [
    "TASKS", "Addition", "Memory", "Memory5", "Memory20", "Multiplication", "Permutation", "Task", "TemporalOrder",
    "TemporalOrder3", "Xor",
]  # fmt: skip


@dataclass(frozen=True)
class Task(ABC):
    """Sequences with targets, drawn without end. length: T of the sources.

    name; shortest: the least T. inputs, outputs, reads, loss: as rnn.Network takes them. time: the steps to unroll
    over; unscored: how many of them, at the start, have no target. judged: at how many steps, at the end, an answer
    must be right. distinct: how many different sequences there are, where these are few; else None.
    Raises UsageError for a length that the problem cannot have.
    """

    length: int

    name: ClassVar[str]
    inputs: ClassVar[int]
    outputs: ClassVar[int]
    loss: ClassVar[str]
    shortest: ClassVar[int] = 10
    reads: ClassVar[str] = "symbols"
    distinct: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", whole_number(f"{self.name}: length", self.length, self.shortest))

    @property
    def time(self) -> int:
        return self.length

    @property
    def unscored(self) -> int:
        return self.time - 1

    @property
    def judged(self) -> int:
        return self.time - self.unscored

    def batch(self, generator: np.random.Generator, count: int) -> tuple[Array, Array]:
        """`count` new sequences: inputs and targets for `u.inputs` and `u.targets`.

        float32 (time, count, width) where the network reads vectors, or has another loss than softmax; else int64
        (time, count).
        """
        generator = require_generator(f"{self.name}: batch", generator)
        return self._draw(generator, whole_number("batch: count", count))

    @abstractmethod
    def _draw(self, generator: np.random.Generator, count: int) -> tuple[Array, Array]: ...

    def every(self) -> tuple[Array, Array]:
        """Each of the `distinct` sequences once, as `batch` gives them. UsageError where there are too many."""
        raise UsageError(
            f"{self.name} has too many different sequences to look at all; draw some with `batch`"
        )

    def wrong(self, logits: Any, targets: Any) -> Array:
        """Whether each sequence is misclassified, bool (count,), from the network's outputs (time, count, outputs).

        Real targets: where an output is off by more than 0.04; symbols: where the most probable one is another than the
        target, at any of the `judged` steps. Outputs that are not finite are wrong.
        Source: Sutskever 2013, 4.4. Raises DataError for arrays that do not fit.
        """
        o, t = np.asarray(logits), np.asarray(targets)
        wanted = (self.time, o.shape[1], self.outputs) if o.ndim == 3 else ()
        if o.shape != wanted or t.shape != (wanted if self.loss != "softmax" else wanted[:2]):
            raise DataError(
                f"{self.name}: logits must be ({self.time}, count, {self.outputs}) and targets as `batch` gives them, "
                f"not {list(o.shape)} and {list(t.shape)}"
            )
        o, t = o[-self.judged :], t[-self.judged :]
        right = self._right(o, t) & np.isfinite(o).all(axis=2)
        return ~right.all(axis=0)

    def _right(self, o: Array, t: Array) -> Array:
        """For each step and case."""
        if self.loss == "squared":
            return (np.abs(o - t) <= 0.04).all(axis=2)
        if self.loss == "sigmoid":
            return ((o > 0) == (t > 0.5)).all(axis=2)
        return o.argmax(axis=2) == t


# -- two marked numbers ----------------------------------------------------------------------


def require_task(who: str, task: Any) -> Task:
    """The problem; UsageError, naming `who` asks, for anything else."""
    if not isinstance(task, Task):
        raise UsageError(f"{who}: a Task is needed, e.g. rnn.tasks.Addition(30), not {shown(task)}")
    return task


class Marked(Task):
    """Numbers, of which two are marked; the answer, at the end, depends on these alone.

    A sequence has T' = i[T, 11 T/10] steps. The marks are in i[1, T'/10] and in i[T'/10, T'/2]; the second range
    begins here behind the end of the first, so that there are always two.
    All sequences end at the last of `time` = 11 T/10 steps, where the target is. What is before the first step of a
    shorter one is zero: a network that starts earlier reads steps without numbers and marks.
    """

    inputs = 2
    outputs = 1
    reads = "vectors"
    loss = "squared"

    @property
    def time(self) -> int:
        return 11 * self.length // 10

    def _draw(self, generator: np.random.Generator, count: int) -> tuple[Array, Array]:
        cases, lengths = np.arange(count), generator.integers(self.length, self.time + 1, count)
        starts = self.time - lengths
        first = starts + generator.integers(0, lengths // 10)
        second = starts + generator.integers(lengths // 10, lengths // 2)
        x = np.zeros((self.time, count, 2), np.float32)
        x[:, :, 0] = self._numbers(generator, (self.time, count))
        x[np.arange(self.time)[:, None] < starts] = 0
        x[first, cases, 1] = x[second, cases, 1] = 1
        t = np.zeros((self.time, count, 1), np.float32)
        t[-1, :, 0] = self._answer(x[first, cases, 0], x[second, cases, 0])
        return x, t

    def _numbers(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return generator.random(shape, np.float32)

    @abstractmethod
    def _answer(self, a: Array, b: Array) -> Array:
        """The target, from the two marked numbers."""


class Addition(Marked):
    """(u_I + u_J) / 2 at the end of numbers u_t ~ U[0, 1], of which those at I and J are marked

    Source: Hochreiter & Schmidhuber 1997, 5.4; Sutskever 2013, 4.4.1.
    """

    name = "addition"

    def _answer(self, a: Array, b: Array) -> Array:
        return (a + b) / 2


class Multiplication(Marked):
    """u_I u_J at the end of numbers u_t ~ U[0, 1], of which those at I and J are marked

    Source: Hochreiter & Schmidhuber 1997, 5.5; Sutskever 2013, 4.4.1.
    """

    name = "multiplication"

    def _answer(self, a: Array, b: Array) -> Array:
        return a * b


class Xor(Marked):
    """u_I xor u_J at the end of random bits u_t, of which those at I and J are marked

    Source: Sutskever 2013, 4.4.1.
    """

    name = "xor"
    loss = "sigmoid"

    def _numbers(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return generator.integers(0, 2, shape)

    def _answer(self, a: Array, b: Array) -> Array:
        return np.abs(a - b)


# -- the order of symbols --------------------------------------------------------------------


class TemporalOrder(Task):
    """Which of two symbols, 0 or 1, were at two places among T random ones of 2 ... 5

    The places are i[T/10, 2T/10] and i[5T/10, 6T/10]; the target, at the last step, is 2a + b for the symbols a and b.
    Source: Hochreiter & Schmidhuber 1997, 5.6, task 6a; Sutskever 2013, 4.4.2.
    """

    name = "temporal-order"
    inputs = 6
    outputs = 4
    loss = "softmax"
    #: Where the symbols are, in tenths of T: from the first number to the second.
    tenths: ClassVar[tuple[tuple[int, int], ...]] = ((1, 2), (5, 6))

    def _draw(self, generator: np.random.Generator, count: int) -> tuple[Array, Array]:
        x = generator.integers(2, 6, (self.length, count))
        t = np.zeros_like(x)
        for start, end in self.tenths:
            first, last = -(-start * self.length // 10), end * self.length // 10
            places = generator.integers(first, last + 1, count) - 1
            symbols = generator.integers(0, 2, count)
            x[places, np.arange(count)] = symbols
            t[-1] = 2 * t[-1] + symbols
        return x, t


class TemporalOrder3(TemporalOrder):
    """The same for three symbols, at i[T/10, 2T/10], i[3T/10, 4T/10] and i[6T/10, 7T/10]: 4a + 2b + c

    Source: Hochreiter & Schmidhuber 1997, 5.6, task 6b; Sutskever 2013, 4.4.3.
    """

    name = "temporal-order-3"
    outputs = 8
    tenths = ((1, 2), (3, 4), (6, 7))


class Permutation(Task):
    """The next of T + 1 symbols: the first and the last are the same, 0 or 1, the others random ones of 2 ... 99

    Every step has a target, x_{t+1}, of which only the last can be known: that one is judged.
    (The source leaves open whether T counts the last symbol; here the first has to be kept for T steps.)
    Source: Hochreiter & Schmidhuber 1997, 5.2, task 2b; Sutskever 2013, 4.4.4.
    """

    name = "permutation"
    inputs = outputs = 100
    loss = "softmax"
    shortest = 2
    unscored = 0
    judged = 1

    def _draw(self, generator: np.random.Generator, count: int) -> tuple[Array, Array]:
        symbols = generator.integers(2, 100, (self.length + 1, count))
        symbols[0] = symbols[-1] = generator.integers(0, 2, count)
        return symbols[:-1], symbols[1:]


# -- memory ----------------------------------------------------------------------------------


class Memory(Task):
    """`places` random symbols of `kinds`, again in order after T steps: noiseless memorization, the copy task

    For K kinds and p places the input is v_1 ... v_p, then the constant symbol K, but at step T + p the trigger K + 1;
    the target is K up to that step, then v_1 ... v_p. Every step counts, and is judged.
    Source: Sutskever 2013, 4.4.5.
    """

    places: ClassVar[int]
    kinds: ClassVar[int]
    loss = "softmax"
    shortest = 1
    unscored = 0

    @property
    def time(self) -> int:
        return self.length + 2 * self.places

    def _draw(self, generator: np.random.Generator, count: int) -> tuple[Array, Array]:
        return self._laid_out(generator.integers(0, self.kinds, (self.places, count)))

    def _laid_out(self, symbols: Array) -> tuple[Array, Array]:
        x = np.full((self.time, symbols.shape[1]), self.kinds)
        t = x.copy()
        x[: self.places] = t[-self.places :] = symbols
        x[self.length + self.places - 1] = self.kinds + 1
        return x, t


class Memory5(Memory):
    """5 bits, again in order after T steps. There are only 32 sequences."""

    name = "memory-5"
    places, kinds = 5, 2
    inputs, outputs = 4, 3
    distinct = 32

    def every(self) -> tuple[Array, Array]:
        return self._laid_out(np.indices((self.kinds,) * self.places).reshape(self.places, -1))


class Memory20(Memory):
    """10 symbols of 5 kinds, more than 20 bits, again in order after T steps."""

    name = "memory-20"
    places, kinds = 10, 5
    inputs, outputs = 7, 6


#: Every problem by the name that the command line uses: TASKS["addition"](30).
TASKS: dict[str, type[Task]] = {
    task.name: task
    for task in (
        Addition, Multiplication, Xor, TemporalOrder, TemporalOrder3, Permutation, Memory5, Memory20,
    )
}  # fmt: skip
