"""Piano rolls whose true nats are known: chords that follow each other, each in one of two positions."""

from __future__ import annotations

import math

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.experiments.draws import require_generator
from graphnet_rnn.settings import whole_number

__all__ = ["CHORD_NATS", "FIRST_CHORD_NATS", "chords"]

#: Keys of a piano; the lowest C that a chord stands on; semitones of an octave; of a major chord; to the next chord.
PIANO, LOWEST_C, OCTAVE, MAJOR, MOVES = 88, 27, 12, (0, 4, 7), (0, 5, 7)
#: What a frame costs the one who knows how it is drawn, in nats: the move and the position.
CHORD_NATS = math.log(len(MOVES) * 2)
#: What the first costs: the chord and the position.
FIRST_CHORD_NATS = math.log(OCTAVE * 2)


def chords(generator: np.random.Generator, cases: int, time: int) -> Array:
    """Piano rolls (time, cases, 88): major chords, the next the same, a fourth or a fifth higher, each in 1/3 of frames

    The first is any of twelve. In half of the frames the two lower notes of a chord are an octave higher, never one of
    them alone. So keys depend on each other, given all frames before: no distribution under which they do not comes
    near to CHORD_NATS, log 6 for each frame but the first. Raises UsageError.
    """
    generator = require_generator("chords", generator)
    cases, time = whole_number("chords: cases", cases), whole_number("chords: time", time)
    first = generator.integers(OCTAVE, size=(1, cases))
    moves = generator.choice(MOVES, (time - 1, cases))
    roots = np.cumsum(np.concatenate([first, moves]), axis=0) % OCTAVE
    raised = generator.integers(2, size=(time, cases))
    found = np.zeros((time, cases, PIANO), np.float32)
    steps, which = np.indices((time, cases))
    for n, note in enumerate(MAJOR):
        found[steps, which, LOWEST_C + roots + note + OCTAVE * raised * (n < 2)] = 1
    return found
