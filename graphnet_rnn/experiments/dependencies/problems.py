"""Synthetic problems with long-term dependencies of Hochreiter & Schmidhuber 1997, as in Sutskever 2013, 4.4.

    task = TASKS["addition"](30)
    inputs, targets = task.batch(np.random.default_rng(0), 1000)
    u = network.unroll(task.time, 1000, initial="zero", unscored=task.unscored)

Positions count from 1 in the sources, and i[a, b] is a random whole number in a ... b.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.network.running import array_of
from graphnet_rnn.settings import require_generator, shown, whole_number


@dataclass(frozen=True)
class Task(ABC):
    """Generator of random sequences with targets.

    length: T of the sources. name: name of the problem. shortest: minimum T. inputs, outputs, reads, loss: as for
    rnn.Network. time: steps to unroll. unscored: number of first steps without a target. judged: number of last steps
    with answers that must be right. distinct: number of different sequences, if small, else None.
    generator, in methods: NumPy generator. count: number of sequences. logits: outputs of a network (time, count,
    outputs). targets: as from `batch`.
    Raises UsageError for a length that does not fit.

    >>> task = rnn.tasks.Addition(30)
    >>> isinstance(task, rnn.tasks.Task), task.time
    (True, 33)
    >>> x, t = task.batch(np.random.default_rng(0), count=2)
    >>> x.shape, t.shape, task.wrong(t, t).tolist(), task.wrong(t + 0.1, t).tolist()
    ((33, 2, 2), (33, 2, 1), [False, False], [True, True])
    >>> x, t = rnn.tasks.Memory5(10).every()
    >>> x.shape
    (20, 32)
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

        float32 (time, count, width) for vectors as inputs, and for other losses than softmax; else int64 (time, count).
        """
        generator = require_generator(f"{self.name}: batch", generator)
        return self._draw(generator, whole_number("batch: count", count))

    @abstractmethod
    def _draw(self, generator: np.random.Generator, count: int) -> tuple[Array, Array]: ...

    def every(self) -> tuple[Array, Array]:
        """Each of the `distinct` sequences once, as from `batch`. Raises UsageError if there are too many."""
        raise UsageError(f"{self.name} has too many different sequences to enumerate; draw some with `batch`")

    def wrong(self, logits: Any, targets: Any) -> Array:
        """True for each misclassified sequence, bool (count,), from the outputs of the network.

        Real targets: an output is wrong if it is off by more than 0.04. Symbols: a sequence is wrong if the most
        probable symbol differs from the target at any of the `judged` steps. Outputs that are not finite are wrong.
        Source: Sutskever 2013, 4.4. Raises DataError for arrays that do not fit.
        """
        o, t = array_of(f"{self.name}: logits", logits), array_of(f"{self.name}: targets", targets)
        wanted = (self.time, o.shape[1], self.outputs) if o.ndim == 3 else ()
        fits = o.shape == wanted and t.shape == (wanted if self.loss != "softmax" else wanted[:2])
        if not fits or o.dtype.kind not in "biuf" or t.dtype.kind not in "biuf":
            raise DataError(
                f"{self.name}: logits must be ({self.time}, count, {self.outputs}) and targets as `batch` gives them, "
                f"not {o.dtype} {list(o.shape)} and {t.dtype} {list(t.shape)}"
            )
        o, t = o[-self.judged :], t[-self.judged :]
        return np.asarray(~(self._right(o, t) & np.isfinite(o).all(axis=2)).all(axis=0))

    def _right(self, o: Array, t: Array) -> Array:
        if self.loss == "squared":
            return (np.abs(o - t) <= 0.04).all(axis=2)
        if self.loss == "sigmoid":
            return ((o > 0) == (t > 0.5)).all(axis=2)
        return o.argmax(axis=2) == t


# -- two marked numbers ----------------------------------------------------------------------


def require_task(who: str, task: Any) -> Task:
    """The problem; raises UsageError, which names `who`, for other objects."""
    if not isinstance(task, Task):
        raise UsageError(f"{who}: task must be a Task, e.g. rnn.tasks.Addition(30), not {shown(task)}")
    return task


class Marked(Task):
    """Sequences of numbers with two marks; the answer, at the end, depends only on the marked numbers.

    A sequence has T' = i[T, 11 T/10] steps. The marks are in i[1, T'/10] and in i[T'/10, T'/2]; the second range begins
    after the end of the first, so that there are always two.
    All sequences end at the last of `time` = 11 T/10 steps, where the target is. Shorter sequences are padded with
    zeros at the start.
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
        """Target, from the two marked numbers."""


class Addition(Marked):
    """(u_I + u_J) / 2 at the end of numbers u_t ~ U[0, 1], of which those at I and J are marked

    length: T, the minimum number of steps.
    Source: Hochreiter & Schmidhuber 1997, 5.4; Sutskever 2013, 4.4.1.

    >>> inputs, targets = rnn.tasks.Addition(10).batch(np.random.default_rng(0), 3)
    >>> inputs.shape, targets.shape
    ((11, 3, 2), (11, 3, 1))
    """

    name = "addition"

    def _answer(self, a: Array, b: Array) -> Array:
        return (a + b) / 2


class Multiplication(Marked):
    """u_I u_J at the end of numbers u_t ~ U[0, 1], of which those at I and J are marked

    length: T, the minimum number of steps.
    Source: Hochreiter & Schmidhuber 1997, 5.5; Sutskever 2013, 4.4.1.

    >>> inputs, targets = rnn.tasks.Multiplication(10).batch(np.random.default_rng(0), 3)
    >>> inputs.shape, targets.shape
    ((11, 3, 2), (11, 3, 1))
    """

    name = "multiplication"

    def _answer(self, a: Array, b: Array) -> Array:
        return a * b


class Xor(Marked):
    """u_I xor u_J at the end of random bits u_t, of which those at I and J are marked

    length: T, the minimum number of steps.
    Source: Sutskever 2013, 4.4.1.

    >>> inputs, targets = rnn.tasks.Xor(10).batch(np.random.default_rng(0), 3)
    >>> inputs.shape, targets.shape
    ((11, 3, 2), (11, 3, 1))
    """

    name = "xor"
    loss = "sigmoid"

    def _numbers(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return generator.integers(0, 2, shape)

    def _answer(self, a: Array, b: Array) -> Array:
        return np.abs(a - b)


# -- the order of symbols --------------------------------------------------------------------


class TemporalOrder(Task):
    """Order of two symbols, each 0 or 1, at two places among T random symbols of 2 ... 5

    The places are i[T/10, 2T/10] and i[5T/10, 6T/10]; the target, at the last step, is 2a + b for the symbols a and b.
    length: T, the number of steps.
    Source: Hochreiter & Schmidhuber 1997, 5.6, task 6a; Sutskever 2013, 4.4.2.

    >>> inputs, targets = rnn.tasks.TemporalOrder(10).batch(np.random.default_rng(0), 3)
    >>> inputs.shape, int(targets.max()) < 4
    ((10, 3), True)
    """

    name = "temporal-order"
    inputs = 6
    outputs = 4
    loss = "softmax"
    #: Ranges of the symbols' places, in tenths of T.
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
    """Order of three symbols, at i[T/10, 2T/10], i[3T/10, 4T/10] and i[6T/10, 7T/10]: 4a + 2b + c

    length: T, the number of steps. See TemporalOrder.
    Source: Hochreiter & Schmidhuber 1997, 5.6, task 6b; Sutskever 2013, 4.4.3.

    >>> inputs, targets = rnn.tasks.TemporalOrder3(10).batch(np.random.default_rng(0), 3)
    >>> inputs.shape, int(targets.max()) < 8
    ((10, 3), True)
    """

    name = "temporal-order-3"
    outputs = 8
    tenths = ((1, 2), (3, 4), (6, 7))


class Permutation(Task):
    """The next of T + 1 symbols: the first and the last are equal, 0 or 1, the others random of 2 ... 99

    Every step has the target x_{t+1}; only the last can be known, and only the last is judged.
    length: T, the number of steps. (In the source T may or may not include the last symbol; here the first must be kept
    for T steps.)
    Source: Hochreiter & Schmidhuber 1997, 5.2, task 2b; Sutskever 2013, 4.4.4.

    >>> inputs, targets = rnn.tasks.Permutation(10).batch(np.random.default_rng(0), 3)
    >>> inputs.shape, bool((inputs[0] == targets[-1]).all())
    ((10, 3), True)
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
    """`places` random symbols of `kinds`, repeated in order after T steps: noiseless memorization, the copy task

    For K kinds and p places the input is v_1 ... v_p, then the constant symbol K, except the trigger K + 1 at step T +
    p. The target is K up to that step, then v_1 ... v_p. Every step is scored and judged. length: T, the delay.
    Source: Sutskever 2013, 4.4.5.

    >>> issubclass(rnn.tasks.Memory5, rnn.tasks.Memory), rnn.tasks.Memory5(10).places
    (True, 5)
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
    """5 bits, repeated in order after T steps. There are only 32 sequences.

    length: T, the delay.

    >>> inputs, targets = rnn.tasks.Memory5(10).every()
    >>> inputs.shape
    (20, 32)
    """

    name = "memory-5"
    places, kinds = 5, 2
    inputs, outputs = 4, 3
    distinct = 32

    def every(self) -> tuple[Array, Array]:
        return self._laid_out(np.indices((self.kinds,) * self.places).reshape(self.places, -1))


class Memory20(Memory):
    """10 symbols of 5 kinds, more than 20 bits, repeated in order after T steps.

    length: T, the delay.

    >>> inputs, targets = rnn.tasks.Memory20(10).batch(np.random.default_rng(0), 3)
    >>> inputs.shape
    (30, 3)
    """

    name = "memory-20"
    places, kinds = 10, 5
    inputs, outputs = 7, 6


#: All problems by name, as on the command line: TASKS["addition"](30).
TASKS: dict[str, type[Task]] = {
    task.name: task
    for task in (
        Addition, Multiplication, Xor, TemporalOrder, TemporalOrder3, Permutation, Memory5, Memory20,
    )
}  # fmt: skip
