"""Conditions on a text, and the characters that can still lead to meeting one in the remaining length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.data.text import Vocabulary
from graphnet_rnn.errors import UsageError
from graphnet_rnn.text.patterns import (
    Pattern,
    Repeat,
    Symbols,
    automaton,
    literal,
    one_after_another,
    read_pattern,
)

#: Maximum size of `reach`, in bytes.
MOST_TABLE = 500_000_000


@dataclass(frozen=True, eq=False)
class Condition:
    """An automaton, and from which of its states the end can be reached.

    table: (states, symbols), the state after a symbol; 0 is the first. reach: (steps + 1, states), True if a text can
    end well with exactly this number of symbols left, or, with a stop, with this maximum. stops: the last state is that
    after the stop, where a text ends at once.
    """

    table: Array
    reach: Array
    stops: bool

    @classmethod
    def of(
        cls, vocabulary: Vocabulary, pattern: str | None, ending: str, length: int, stop: str | None
    ) -> Condition:
        """See `complete`; UsageError if no text fulfils it."""
        symbols = len(vocabulary)
        any_text = Repeat(Symbols(frozenset(range(symbols))), 0, None)
        first: Pattern = any_text if pattern is None else read_pattern(pattern, vocabulary)
        whole = one_after_another([first, literal(vocabulary.encode(ending))])
        found = automaton(whole, symbols, pattern or ending)
        table, ends, steps = found.table, found.accepts, length
        if stop is not None:  # two more states: failed, and ended
            count = len(table)
            table = np.concatenate([table, np.full((2, symbols), count)])
            table[:, vocabulary.characters.index(stop)] = count
            table[:count, vocabulary.characters.index(stop)][ends] = count + 1
            ends = np.arange(count + 2) == count + 1
            table[count + 1] = count + 1
            steps += 1
        if steps * len(table) > MOST_TABLE:
            raise UsageError(
                f"complete: a pattern of {len(table):,} states is too large for a length of {length:,}; simplify the "
                "pattern, or use a smaller length"
            )
        reach: list[Array] = [np.asarray(ends)]
        for _ in range(steps):
            reach.append(np.asarray(reach[-1][table].any(axis=1)))
        if not reach[-1][0]:
            how = f"{length} characters" if stop is None else f"at most {length} characters before {stop!r}"
            raise UsageError(
                f"complete: no text of {how} that the model can write matches the pattern and the ending"
            )
        return cls(table, np.array(reach), stop is not None)

    @property
    def steps(self) -> int:
        """Maximum number of symbols to draw, with the stop."""
        return len(self.reach) - 1

    def allowed(self, states: Array, left: int) -> Array:
        """(n, symbols): True for symbols that may come next, with `left` symbols left to draw."""
        return np.asarray(self.reach[left - 1][self.table[states]])

    def ended(self, states: Array, left: int) -> Array:
        """(n,): True for texts that have ended."""
        if self.stops:
            return np.asarray(states == len(self.table) - 1)
        return np.full(len(states), left == 0)
