"""Language modeling: segments with carried states, or independent sequences of a text."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array
from graphnet_rnn.data.batches import Batches
from graphnet_rnn.data.text import Corpus
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.network.network import Network, require_network
from graphnet_rnn.optimizers.base import Optimizer, Report
from graphnet_rnn.optimizers.batches import Batch
from graphnet_rnn.optimizers.objective import Objective
from graphnet_rnn.parallel.ranks import Ranks
from graphnet_rnn.settings import Count, CountOrZero, require_kinds, setting
from graphnet_rnn.text.evaluation import Evaluation, Evaluator
from graphnet_rnn.text.sampling import Sampler
from graphnet_rnn.training.problem import ObjectiveProblem, Validated

#: Symbols read from disk at a time.
PIECE = 1 << 20


@dataclass(eq=False, repr=False)
class TextProblem(ObjectiveProblem):
    """Predicts the next character of a text; history rows are in bits per character, and have a sample.

    network: reads and predicts symbols; gets the vocabulary of the corpus.
    corpus: an rnn.data.Corpus; its training and validation parts are used. The first `time` characters to validate on
    are not scored; without others, there is no validation.
    time: time steps (characters) of a segment, default 50.
    batch: segments in parallel, default 32.
    sample: length of the sample after each epoch, in characters, default 200; 0 for none.
    clip_values, l2, threads, memory, backend, frozen: see ObjectiveProblem and Objective.
    Raises UsageError, DataError.
    """

    measure: ClassVar[str] = "bits"
    unit: ClassVar[float] = math.log(2)
    unit_name: ClassVar[str] = "bits/char"
    item: ClassVar[str] = "char"

    model: Network = field(init=False)

    network: Network
    corpus: Corpus
    time: Count = setting(50, "time steps in a segment")
    batch: Count = setting(32, "segments in parallel")
    _: KW_ONLY
    sample: CountOrZero = setting(200, "characters of a sample after each epoch", metavar="LENGTH")

    def __post_init__(self) -> None:
        require_kinds(self)
        name, network, corpus = type(self).__name__, self.network, self.corpus
        if not isinstance(corpus, Corpus):
            raise UsageError(
                f"{name}: corpus must be a Corpus, not a {type(corpus).__name__}; make one: rnn.data.Corpus.split(text)"
            )
        self._require_symbols(name, require_network(name, network), corpus)
        network.vocabulary = corpus.vocabulary
        self.model = network
        self._random = gn.RandomSource(network.seed)
        self._sampler = Sampler(network) if self.sample else None
        # Before scoring, each lane reads as much context as in training.
        enough = len(corpus.valid) > self.time
        self._validated = Validated[Evaluation](network)
        self._evaluator = Evaluator(network, min(self.batch, 32), self.time, self.threads) if enough else None

    def _warn_without_validation(self) -> None:
        """Warns about a text that is too short to validate on."""
        count = len(self.corpus.valid)
        if count and self._evaluator is None:
            warnings.warn(
                f"{type(self).__name__}: the validation text has {count} characters, and the first {self.time} (time) "
                "are not scored, so there is no validation; give a longer text. The best epoch is that of minimum "
                "training loss",
                stacklevel=4,
            )

    @staticmethod
    def _require_symbols(name: str, network: Network, corpus: Corpus) -> None:
        size = len(corpus.vocabulary)
        if size != network.inputs or size != network.outputs:
            raise UsageError(
                f"the text has {size} different characters, but the network has {network.inputs} inputs and "
                f"{network.outputs} outputs; both must be {size}."
            )
        if network.vocabulary not in (None, corpus.vocabulary):
            raise UsageError(
                "the network has another vocabulary than this text; create the Corpus with "
                "vocabulary=network.vocabulary."
            )
        if not network.predicts_symbols:
            raise UsageError(f"{name}: the network must read symbols and predict them")
        network.require_causal(name)

    def validate(self) -> float | None:
        if self._evaluator is None:
            return None
        found = self._evaluator(self.corpus.valid, context=self.time)
        self._validated.keep(found)
        return found.bits

    def metrics(self) -> Mapping[str, Callable[[], float]]:
        return {} if self._evaluator is None else {"accuracy": self._accuracy}

    def _accuracy(self) -> float:
        found = self._validated.now(self.validate)
        return math.nan if found is None else found.accuracy

    def row(self, epoch: int) -> dict[str, Any]:
        if self._sampler is None:
            return {}
        self._sampler.reset()
        return {"sample": "".join(self._sampler.sample(self.sample, seed=epoch))}

    def description(self) -> dict[str, Any]:
        digest = hashlib.sha256()
        parts = self.corpus.train, self.corpus.valid, self.corpus.test
        for part in parts:
            for start in range(0, len(part), PIECE):
                digest.update(part[start : start + PIECE].tobytes())
        return {**super().description(), "text": digest.hexdigest(), "parts": [len(part) for part in parts]}

    def numbers(self) -> dict[str, Any]:
        return {"random": self._random.state}

    def restore(self, arrays: Callable[[str, Array], Array], numbers: Mapping[str, Any]) -> None:
        self._random.state = numbers["random"]


@dataclass(eq=False, repr=False)
class CarriedText(TextProblem):
    """Truncated backpropagation through time on one long text: states are carried from one segment to the next.

    network, corpus, time, batch, sample: see TextProblem. The text is cut into `batch` lanes that are read in parallel.
    stride: truncated BPTT(k₁ = stride, k₂ = time): each segment begins this number of steps after the one before. Its
    last `stride` steps are scored (in the first segment of an epoch: all steps) and backpropagated through all of its
    steps. Default `time`.
    shares: number of equal parts of the batch, differentiated separately, that processes may share; default 1.
    clip_values, l2, threads, memory, backend, frozen: see ObjectiveProblem and Objective.

    The states are reset at the start of an epoch. See also rnn.data.Batches. Source: Sutskever 2013, 2.8.6.

    >>> corpus = rnn.data.Corpus.split("abracadabra " * 100)
    >>> symbols = len(corpus.vocabulary)
    >>> problem = rnn.CarriedText(rnn.Network([rnn.LSTM(8)], symbols, symbols), corpus, time=20, batch=4)
    >>> len(problem)  # steps of an epoch
    11
    """

    objective: Objective = field(init=False)

    stride: int | None = setting(
        None, "time steps between segments: truncated BPTT(stride, time) (default: --time)", type=int
    )
    shares: Count = setting(1, "parts of the batch that processes may share (mpiexec)")

    def __post_init__(self) -> None:
        super().__post_init__()
        network = self.network
        if self.shares > 1 and self.clip_values is not None:
            raise UsageError(
                "CarriedText: clip_values must be None with several shares, which would change its limit; use "
                "clip_norm of the optimizer"
            )
        if self.batch % self.shares:
            raise UsageError(f"shares must divide the batch size ({self.batch}); got {self.shares}")
        size = self.batch // self.shares
        self._lanes = [slice(start, start + size) for start in range(0, self.batch, size)]
        self._batches = Batches(self.corpus.train, self.time, self.batch, self.stride)
        self.stride = self._batches.stride
        self.items = self.batch * self.stride
        self._learned = network.initial_state == "learned"
        self.objective = self._objective_of("given", self.time - self.stride)
        # Only the first segment of an epoch starts from the learned states, so only it trains them; and no segment
        # before it has scored any of its steps.
        self._first = self.objective
        if self._learned or self.stride < self.time:
            self._first = self._objective_of("learned" if self._learned else "given", 0)
        self._last = self.objective
        #: States before the next segment.
        self.carried: list[Array] = network.first_states(self.batch)
        self._warn_without_validation()

    def _objective_of(self, initial: str, unscored: int) -> Objective:
        """Objective of a segment, with its final states; "given" makes its initial states inputs."""
        network = self.model
        lanes = self.batch // self.shares
        u = network.unroll(self.time, lanes, initial=initial, unscored=unscored, random=self._random)
        return Objective(
            u.cost,
            inputs=[u.inputs, u.targets, *(u.initial if initial == "given" else [])],
            also=u.after[self._batches.stride - 1],
            random=self._random,
            structure=u.structure,
            structure_scale=1 / (self.time - unscored),
            **self.objective_settings(),
        )

    def share(self, ranks: Ranks) -> None:
        if ranks.size > self.shares:
            raise UsageError(
                f"{ranks.size} processes need at least as many shares; got {self.shares}. Increase shares, to a "
                f"divisor of the batch size ({self.batch})"
            )
        self._first.ranks = self.objective.ranks = ranks

    def __len__(self) -> int:
        return len(self._batches)

    def compile(self) -> None:
        for objective in (self._first, self.objective):
            objective.compile()

    def feed(self, epoch: int, step: int) -> Objective:
        inputs, targets = self._batches[step]
        if step == 0:
            self.carried = self.model.first_states(self.batch)
        self._last = self.objective if step else self._first
        self._last.redraw()
        carried = [] if step == 0 and self._learned else self.carried
        if self.shares == 1:
            self._last.feed(inputs, targets, *carried)
        else:
            parts = [(inputs[:, at], targets[:, at], *(s[at] for s in carried)) for at in self._lanes]
            self._last.feed_batches(parts, curvature=parts)
        return self._last

    def stepped(self, point: Array, report: Report) -> None:
        if report.gradients != 1:  # the last one was taken elsewhere
            self._last.gradient(point)
        if self.shares == 1:
            self.carried = list(self._last.also_values)  # on a GPU they stay there
        else:
            self._carry(self._last.also_by_batch)

    def _carry(self, parts: Mapping[int, Sequence[Array]]) -> None:
        assert parts, "the step returned no states"
        self.carried = [np.array(state) for state in self.carried]
        for number, states in parts.items():
            for state, found in zip(self.carried, states, strict=True):
                state[self._lanes[number]] = np.asarray(found)

    def weight(self, epoch: int, step: int) -> float:
        return 1.0 if step else self.time / self._batches.stride

    def arrays(self) -> dict[str, Array]:
        if self._last.ranks.size > 1:
            own = {k: [s[self._lanes[k]] for s in self.carried] for k in self._last.ranks.own(self.shares)}
            for parts in self._last.ranks.gather(own):
                self._carry(parts)
        return {f"carried.{i:03d}": array for i, array in enumerate(self.carried)}

    def restore(self, arrays: Callable[[str, Array], Array], numbers: Mapping[str, Any]) -> None:
        super().restore(arrays, numbers)
        self.carried = [arrays(name, array) for name, array in self.arrays().items()]


@dataclass(eq=False, repr=False)
class DrawnText(TextProblem):
    """A text cut into independent sequences of `time` characters, shuffled in every epoch.

    network, corpus, time, batch, sample: see TextProblem. Each sequence starts from the initial states.
    gradient_batches: batches of `batch` sequences for the gradient of a step, default 16.
    curvature_batches: number of these for the curvature, and for the loss that accepts or rejects steps; default a
    quarter of them.
    unscored: characters at the start of a sequence that are read but not scored, default 0.
    clip_values, l2, threads, memory, backend, frozen: see ObjectiveProblem and Objective.

    Sequences that do not fill the last step of an epoch are left out. Source: Krause 2015, 4.2; Sutskever 2013, 5.4.2.

    >>> corpus = rnn.data.Corpus.split("abracadabra " * 100)
    >>> symbols = len(corpus.vocabulary)
    >>> net = rnn.Network([rnn.LSTM(8)], symbols, symbols)
    >>> problem = rnn.DrawnText(net, corpus, time=20, batch=4, gradient_batches=4)
    >>> len(problem)  # steps of an epoch
    2
    """

    has_single_cases: ClassVar[bool] = True
    objective: Objective = field(init=False)

    gradient_batches: Count = setting(
        16,
        "batches of independent sequences of a step, instead of segments with carried states "
        "(default: 16 for second-order optimizers)",
        default=None,
        type=int,
    )
    curvature_batches: Count | None = setting(
        None, "number of these batches for the curvature (default: a quarter)", type=int
    )
    unscored: CountOrZero = setting(
        0, "characters at the start of such a sequence that are read but not scored"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        network, corpus = self.network, self.corpus
        if self.unscored >= self.time:
            raise UsageError(f"unscored must be in 0 ... {self.time - 1}, not {self.unscored}")
        self._curvature_given = self.curvature_batches is not None
        self.curvature_batches = self.curvature_batches or 1
        self._require_part(self.curvature_batches)
        self._count = max(0, len(corpus.train) - 1) // self.time
        self._steps = self._count // (self.batch * self.gradient_batches)
        if not self._steps:
            raise DataError(
                f"the text has {self._count} sequences of {self.time} characters, fewer than a step needs: "
                f"{self.gradient_batches} batches of {self.batch}. Make these fewer, or sequences shorter."
            )
        self._starts: tuple[int, Array] | None = None
        self.items = self.gradient_batches * self.batch * (self.time - self.unscored)
        u = network.unroll(
            self.time, self.batch, initial=network.initial_state, unscored=self.unscored, random=self._random
        )
        self.objective = Objective(
            u.cost,
            inputs=[u.inputs, u.targets],
            random=self._random,
            structure=u.structure,
            structure_scale=1 / (self.time - self.unscored),
            single=self._single(),
            **self.objective_settings(),
        )
        self._warn_without_validation()

    def _single(self) -> Objective:
        """Returns the objective of one sequence, without dropout and l2, for preconditioners."""
        network = self.model
        u = network.unroll(
            self.time, 1, initial=network.initial_state, unscored=self.unscored, training=False
        )
        return Objective(
            u.cost,
            self.objective_settings()["parameters"],
            [u.inputs, u.targets],
            threads=self.threads,
            backend=self.backend,
        )

    def require_fit(self, optimizer: Optimizer) -> None:
        super().require_fit(optimizer)
        if self._curvature_given:
            self._require_curved(optimizer)

    def __len__(self) -> int:
        return self._steps

    def compile(self) -> None:
        self.objective.compile()

    def feed(self, epoch: int, step: int) -> Objective:
        if self._starts is None or self._starts[0] != epoch:
            order = np.random.default_rng([self.model.seed, epoch]).permutation(self._count)
            self._starts = epoch, order * self.time
        size = self.batch * self.gradient_batches
        starts = self._starts[1][step * size : (step + 1) * size].reshape(self.gradient_batches, self.batch)
        batches = [self._sequences(each) for each in starts]
        self.objective.redraw()
        self.objective.feed_batches(batches, curvature=batches[: self.curvature_batches])
        return self.objective

    def _sequences(self, starts: Array) -> Batch:
        at = np.arange(self.time)[:, None] + starts[None, :]
        return self.corpus.train[at], self.corpus.train[at + 1]
