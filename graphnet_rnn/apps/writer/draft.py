"""Draft: text of a writer with suggestions and character probabilities of a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array
from graphnet_rnn.errors import TrainingError
from graphnet_rnn.network.network import Network
from graphnet_rnn.online.dynamic import KnownGradient, first_order
from graphnet_rnn.optimizers.base import State
from graphnet_rnn.optimizers.first_order import FirstOrder
from graphnet_rnn.optimizers.step import guarded_step
from graphnet_rnn.settings import text as checked_text, whole_number
from graphnet_rnn.text.sampling import Stepper, check_temperature, choose

#: Maximum length of white space that a suggestion begins with: an indentation.
BLANKS = 8
#: Maximum length of a suggestion, for models without white space.
LONGEST = 40
#: Maximum bytes of states, and of earlier weights.
STATES, WEIGHTS = 256 << 20, 256 << 20
#: Interval of kept older states; others are computed again.
KEPT = 32
#: Number of last characters of a loaded text that the model reads.
CONTEXT = 2000


class _Mark(NamedTuple):
    """State of the model after some characters: states, and logits of the next character."""

    states: list[Array]
    logits: Array


class _Lesson(NamedTuple):
    """Record of an optimizer step: range of characters, weights and optimizer state before it."""

    start: int
    end: int
    theta: Array
    state: State


@dataclass
class _Suggestion:
    text: str = ""
    complete: bool = False


class Draft:
    """Text that grows at its end, with suggestions of a language model.

    The model reads each character once, also after `undo`. It skips characters that are not in its vocabulary.
    `suggestion` continues the text up to the next white space; `grow` adds one character to it. Typing the suggested
    characters keeps the rest of the suggestion.
    network: network that was trained on text. temperature: temperature of suggestions, 0.7 by default; 0 takes the most
    probable character. seed: seed of suggestions; 0 by default. learn: first-order optimizer for a step after every
    `piece` characters (the rule of rnn.online.DynamicEvaluation; the gradient goes back to the start of the piece);
    None by default. `undo` also undoes these steps; earlier weights are kept up to 256 MB. piece: characters of a
    step; 20 by default. threads: maximum number of threads; all cores by default.
    characters, in methods: characters to type.
    Raises UsageError for a network that was not trained on text, or that is bidirectional.
    Source: Lynge 2016, 4 ("NovelWriter").

    >>> network = rnn.Network([rnn.GRU(4)], inputs=4, outputs=4)
    >>> network.vocabulary = rnn.data.Vocabulary(" abc")
    >>> draft = rnn.writer.Draft(network)
    >>> draft.type("a cab")
    >>> draft.undo(), draft.text, len(draft.nats)
    ('b', 'a ca', 4)
    >>> draft.suggest() == draft.suggestion, draft.complete
    (True, True)
    >>> draft.accept() == draft.text[4:]
    True
    >>> draft.grow(), len(draft.suggestion)
    (True, 1)
    >>> draft.forget_suggestion()
    >>> draft.suggestion
    ''
    >>> draft.replace("cab")
    >>> draft.text
    'cab'
    >>> learning = rnn.writer.Draft(network, learn=rnn.SGD(rate=0.1), piece=4)
    >>> learning.type("a cab")
    >>> learning.learn(), learning.lessons
    (True, 1)
    """

    def __init__(
        self,
        network: Network,
        temperature: float = 0.7,
        seed: int = 0,
        learn: FirstOrder | None = None,
        piece: int = 20,
        threads: int | None = None,
    ) -> None:
        self._step = Stepper(network, "Draft", threads)
        self.network, self.vocabulary = network, self._step.vocabulary
        self._symbol = {character: symbol for symbol, character in enumerate(self.vocabulary.characters)}
        check_temperature(temperature)
        self._temperature = float(temperature)
        self._random = np.random.default_rng(whole_number("Draft: seed", seed, least=0))
        self.optimizer = None if learn is None else first_order("Draft", learn)
        self.piece = whole_number("Draft: piece", piece)
        self.text, self.unknown, self.lessons = "", 0, 0
        #: True if the model reads typed characters. Otherwise typing takes no time.
        self.reads = True
        #: -ln p of each character; None for unknown or unread characters.
        self.nats: list[float | None] = []
        self._sums: list[tuple[float, int]] = [(0.0, 0)]
        #: Start and end of each accepted suggestion that is still complete.
        self.accepted: list[tuple[int, int]] = []
        self._suggestion, self._ahead = _Suggestion(), list[_Mark]()
        self._cold = network.first_states(1)
        #: First character that the model has read.
        self._from = 0
        self._marks: dict[int, _Mark] = {}
        each = sum(a.nbytes for a in self._cold) + 4 * len(self.vocabulary)
        self._most = max(4 * KEPT, STATES // each)
        self._lessons: list[_Lesson] = []
        self._learned = 0
        self._theta = network.theta.copy()
        self._state: State = {} if self.optimizer is None else self.optimizer.init(self._theta)
        self._gradient: gn.Function | None = None

    # -- writing -------------------------------------------------------------------------------

    def type(self, characters: str) -> None:
        """Types characters."""
        characters = checked_text("Draft.type: characters", characters)
        for place, character in enumerate(characters):
            if not self.reads:  # another thread may have changed it
                self._leave_unread(characters[place:])
                return
            self._append(character)

    def _leave_unread(self, characters: str) -> None:
        self.text += characters
        self.nats += [None] * len(characters)
        self._sums += [self._sums[-1]] * len(characters)
        self.unknown += sum(character not in self._symbol for character in characters)

    def accept(self) -> str:
        """Appends the suggestion, as far as it has grown; returns it."""
        accepted = self._suggestion.text
        if accepted:
            start = len(self.text)
            self.type(accepted)
            self.accepted.append((start, len(self.text)))
        return accepted

    def undo(self) -> str:
        """Removes the last accepted suggestion if it ends the text, else one character; returns the removed text."""
        if not self.text:
            return ""
        end = len(self.text)
        start = self.accepted[-1][0] if self.accepted and self.accepted[-1][1] == end else end - 1
        taken = self.text[start:]
        self._cut(start)
        return taken

    def replace(self, text: str) -> None:
        """Replaces the whole text; the model reads the last 2,000 characters, and learned steps are undone."""
        text = checked_text("Draft.replace: text", text)
        self._cut(0)
        before = max(0, len(text) - CONTEXT)
        self.text, self.nats, self._sums = text[:before], [None] * before, [(0.0, 0)] * (before + 1)
        self.unknown = sum(character not in self._symbol for character in self.text)
        self._learned = self._from = before
        self._marks.clear()
        self.type(text[before:])

    def _append(self, character: str) -> None:
        here, symbol = self._mark(len(self.text)), self._symbol.get(character)
        goes_along = self._suggestion.text[:1] == character
        after = here
        total, count = self._sums[-1]
        if symbol is None:
            self.nats.append(None)
            self.unknown += 1
        else:
            nats = _nats(here.logits, symbol)
            self.nats.append(nats)
            total, count = total + nats, count + 1
            after = self._ahead[0] if goes_along and self._ahead else self._read(symbol, here.states)
        self._sums.append((total, count))
        self.text += character
        self._marks[len(self.text)] = after
        if goes_along:
            self._suggestion.text, self._ahead = self._suggestion.text[1:], self._ahead[1:]
        if not goes_along or not self._suggestion.text:
            self.forget_suggestion()
        if len(self._marks) > self._most:
            self._thin()

    def _cut(self, length: int) -> None:
        while self._lessons and self._lessons[-1].end > length:
            lesson = self._lessons.pop()
            self.lessons -= 1
            self._learned, self._state = lesson.start, lesson.state
            self._set(lesson.theta)
        self._learned = min(self._learned, length)
        for position in range(length + 1, len(self.text) + 1):
            self._marks.pop(position, None)
        too_little = bool(self._from) and length - self._from < CONTEXT // 2
        if too_little:
            self._marks.clear()
            self._from = max(0, length - CONTEXT)
        self.unknown -= sum(character not in self._symbol for character in self.text[length:])
        self.text = self.text[:length]
        del self.nats[length:], self._sums[length + 1 :]
        while self.accepted and self.accepted[-1][1] > length:
            self.accepted.pop()
        self.forget_suggestion()
        if too_little and self.reads:
            self._judge()

    def _judge(self) -> None:
        total, count = self._sums[self._from]
        del self._sums[self._from + 1 :]
        for place in range(self._from, len(self.text)):
            symbol = self._symbol.get(self.text[place])
            if symbol is not None:
                found = self.nats[place]
                nats = _nats(self._mark(place).logits, symbol) if found is None else found
                self.nats[place], total, count = nats, total + nats, count + 1
            self._sums.append((total, count))

    def _mark(self, position: int) -> _Mark:
        """Mark after `position` characters; reads again from the last kept mark."""
        found = self._marks.get(position)
        if found is None:
            before = position
            while before not in self._marks:
                if before == self._from:
                    self._marks[before] = self._read(self._step.opening, self._cold)
                    break
                before -= 1
            found = self._marks[before]
            for place in range(before, position):
                symbol = self._symbol.get(self.text[place])
                if symbol is not None:
                    found = self._read(symbol, found.states)
                self._marks[place + 1] = found
        return found

    def _read(self, symbol: int, states: Sequence[Array]) -> _Mark:
        logits, after = self._step(symbol, states)
        return _Mark(after, logits)

    def _thin(self) -> None:
        """Keeps only every KEPT-th mark of the older half."""
        positions = sorted(self._marks)
        for position in positions[: len(positions) // 2]:
            if position % KEPT:
                del self._marks[position]

    # -- probabilities of the text -------------------------------------------------------------

    @property
    def bits(self) -> float:
        """Mean bits per character, over read characters of the vocabulary; NaN before the first."""
        total, count = self._sums[-1]
        return total / count / math.log(2) if count else math.nan

    # -- suggestions ---------------------------------------------------------------------------

    @property
    def suggestion(self) -> str:
        """Suggested text so far."""
        return self._suggestion.text

    @property
    def complete(self) -> bool:
        """True if the suggestion has reached white space or its maximum length."""
        return self._suggestion.complete

    @property
    def temperature(self) -> float:
        """Temperature of suggestions."""
        return self._temperature

    @temperature.setter
    def temperature(self, value: float) -> None:
        check_temperature(value)
        if value != self._temperature:
            self._temperature = float(value)
            self.forget_suggestion()

    def forget_suggestion(self) -> None:
        """Discards the suggestion, so that another one is drawn."""
        self._suggestion, self._ahead = _Suggestion(), []

    def grow(self) -> bool:
        """Draws one more character of the suggestion; returns True if it grew.

        A suggestion ends before the first white space after another character.
        """
        own = self._suggestion
        own.complete |= not self.reads
        if own.complete:
            return False
        here = self._ahead[-1] if self._ahead else self._mark(len(self.text))
        symbol = choose(here.logits, self._temperature, self._random)
        character = self.vocabulary.characters[symbol]
        ends = bool(own.text.strip()) or len(own.text) >= BLANKS
        own.complete = len(own.text) >= LONGEST or (character.isspace() and ends)
        if own.complete:
            return False
        own.text += character
        self._ahead.append(self._read(symbol, here.states))
        return True

    def suggest(self) -> str:
        """Returns the complete suggestion."""
        while self.grow():
            pass
        return self.suggestion

    # -- learning ------------------------------------------------------------------------------

    @property
    def can_learn(self) -> bool:
        """True if a whole piece has been written since the last step."""
        return self.reads and self.optimizer is not None and len(self._piece()) == self.piece

    def _piece(self) -> list[int]:
        places: list[int] = []
        for place in range(self._learned, len(self.text)):
            if self.nats[place] is not None:
                places.append(place)
            if len(places) == self.piece:
                break
        return places

    def learn(self) -> bool:
        """Makes an optimizer step on the next piece; returns False if there is none.

        Raises TrainingError for a step that breaks the weights; the draft then continues after the piece, with the
        earlier weights.
        """
        places = self._piece()
        if self.optimizer is None or len(places) < self.piece:
            return False
        start, end = self._learned, places[-1] + 1
        self._learned = end
        before = _Lesson(start, end, self._theta.copy(), {name: a.copy() for name, a in self._state.items()})
        loss, g = self._slopes(places)
        given = KnownGradient(self.network, loss, g)
        try:
            guarded_step(self.optimizer, given, self._theta, self._state, f"character {end}")
            self._set(self._theta)
            if not np.isfinite(self._theta).all():
                raise TrainingError(f"the step up to character {end} broke the weights")
            after = self._read(self._symbol[self.text[places[-1]]], self._mark(places[-1]).states)
            if not np.isfinite(after.logits).all():
                raise TrainingError(f"the step up to character {end} broke the weights")
        except TrainingError as error:
            self._state = before.state
            self._set(before.theta)
            raise TrainingError(f"{error}; this step was undone; use a smaller learning rate") from None
        for place in [place for place in self._marks if place >= end]:  # read again, with the new weights
            del self._marks[place]
        self._lessons.append(before)
        self.lessons += 1
        most = max(1, WEIGHTS // max(self._theta.nbytes * (1 + len(self._state)), 1))
        del self._lessons[: max(0, len(self._lessons) - most)]
        self.forget_suggestion()
        return True

    def _slopes(self, places: Sequence[int]) -> tuple[float, Array]:
        """Mean loss of the characters at `places`, and its gradient, back to the first of them."""
        targets = [self._symbol[self.text[place]] for place in places]
        last = places[0] - 1
        while last >= self._from and self.text[last] not in self._symbol:
            last -= 1
        if last >= self._from:
            symbol, states = self._symbol[self.text[last]], self._mark(last).states
        else:
            symbol, states = self._step.opening, self._cold
        if self._gradient is None:
            u = self.network.unroll(self.piece, 1, training=False)
            slopes = gn.gradient(u.cost, list(self.network.parameters.values()))
            self._gradient = gn.compile([u.cost, *slopes], [u.inputs, u.targets, *u.initial])
        column = np.array([symbol, *targets])[:, None]
        loss, *g = self._gradient(column[:-1], column[1:], *states)
        return float(loss), np.concatenate([each.ravel() for each in g])

    def _set(self, theta: Array) -> None:
        self._theta = theta
        self.network.theta = theta
        self._step.refresh()


def _nats(logits: Array, symbol: int) -> float:
    """-ln softmax(logits)[symbol]"""
    shifted = np.asarray(logits, np.float64) - np.max(logits)
    return float(np.log(np.exp(shifted).sum()) - shifted[symbol])
