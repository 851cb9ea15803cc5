"""Samples of text: one character at a time, each fed back as the next input (Lynge 2016, 3.5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.network.network import Network, require_network
from graphnet_rnn.network.running import Runner
from graphnet_rnn.settings import is_number, shown, whole_number
from graphnet_rnn.text.evaluation import vocabulary_of


def choose(logits: Array, temperature: float, generator: np.random.Generator) -> int:
    """A symbol drawn with p_k ∝ exp(o_k / τ); the likeliest if τ = 0. Source: Lynge 2016, eqs 3.46-3.49."""
    check_temperature(temperature)
    if temperature == 0:
        return int(np.argmax(logits))
    below = np.asarray(logits, np.float64) - np.max(logits)
    with np.errstate(over="ignore"):  # for tiny τ all but the likeliest get e^-∞ = 0
        p = np.exp(below / temperature)
    cumulative = np.cumsum(p / p.sum())
    drawn = int(np.searchsorted(cumulative, generator.random(), side="right"))
    return min(drawn, len(p) - 1)  # rounding may leave the last cumulative value below 1


def check_temperature(temperature: float) -> None:
    """Raises UsageError for an invalid temperature."""
    if not is_number(temperature) or not temperature >= 0:
        raise UsageError(f"temperature must be >= 0 (0: always the likeliest), not {shown(temperature)}")


class Stepper:
    """A network of text, one character at a time, without a state of its own: callers keep states and logits.

    Call `refresh()` after the weights have changed.
    Raises UsageError for a network without a vocabulary, with a bidirectional layer, or with one output for a sequence.
    """

    def __init__(self, network: Network, who: str = "Stepper", threads: int | None = None) -> None:
        require_network(who, network).require_finite(who)
        self.network, self.vocabulary = network, vocabulary_of(who, network)
        network.require_causal(who)
        network.require_each_step(who)
        self._runner = Runner(network, threads=threads, frozen=True)

    def refresh(self) -> None:
        """Reads the current weights."""
        self._runner.refresh()

    def __call__(self, symbol: int, states: Sequence[Array]) -> tuple[Array, list[Array]]:
        """Returns the logits of the next symbol, (symbols,), and the states after this symbol."""
        logits, after = self._runner(np.full((1, 1), symbol, np.int64), states)
        return logits[0, 0], after

    @property
    def opening(self) -> int:
        """Symbol to read at a cold start: the newline, or the first of the vocabulary."""
        return max(self.vocabulary.characters.find("\n"), 0)


class Sampler:
    """Samples text character by character; the network's state stays between calls.

    network: causal network with a vocabulary.
    Raises UsageError for a network without a vocabulary.

    >>> net = rnn.Network([rnn.GRU(4)], inputs=3, outputs=3)
    >>> net.vocabulary = rnn.data.Vocabulary("abc")
    >>> sampler = rnn.Sampler(net)
    >>> sampler.read("abc")
    >>> len("".join(sampler.sample(10, temperature=0.5)))
    10
    >>> sampler.reset()  # begins another text
    """

    def __init__(self, network: Network) -> None:
        self._step_by = Stepper(network, "Sampler")
        self.network, self.vocabulary = network, self._step_by.vocabulary
        self.reset()

    def reset(self) -> None:
        """Forgets the text read so far (cold start)."""
        self.states = self.network.first_states(1)
        self.logits: Array | None = None

    def read(self, text: str, unknown: str | None = None) -> None:
        """Reads a text to set the state.

        text: characters. unknown: character to read in place of those that the vocabulary lacks; None (default): an
        error.
        Raises DataError for characters that the vocabulary lacks.
        """
        symbols = self.vocabulary.encode(text, unknown)
        self._look_at_weights()
        for symbol in symbols:
            self._step(int(symbol))

    def _look_at_weights(self) -> None:
        self.network.require_finite("Sampler")
        self._step_by.refresh()

    def _step(self, symbol: int) -> None:
        self.logits, self.states = self._step_by(symbol, self.states)

    def sample(self, length: int, temperature: float = 1.0, seed: int = 0) -> Iterator[str]:
        """Yields `length` characters. After a cold start the network first reads a newline (or its first symbol).

        length: number of characters. temperature: τ of p_k ∝ exp(o_k / τ), 1 by default; 0 takes the likeliest. seed:
        of the random numbers. The weights must not change until the last character.
        Raises UsageError at once for invalid settings.
        """
        check_temperature(temperature)
        self._look_at_weights()
        generator = np.random.default_rng(whole_number("seed", seed, least=0))
        return self._sample(whole_number("length", length, least=0), temperature, generator)

    def _sample(self, length: int, temperature: float, generator: np.random.Generator) -> Iterator[str]:
        if self.logits is None:
            self._step(self._step_by.opening)
        for _ in range(length):
            assert self.logits is not None
            symbol = choose(self.logits, temperature, generator)
            yield self.vocabulary.characters[symbol]
            self._step(symbol)
