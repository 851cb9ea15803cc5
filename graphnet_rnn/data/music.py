"""Music as piano rolls: the keys that sound in each frame. MIDI files, collections, and frame accuracy."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet.system.memory import require_memory
from graphnet_rnn.data.arrays import no_file_of, package_for
from graphnet_rnn.data.matlab import read_matlab
from graphnet_rnn.data.sequences import array_of_numbers, checked_lengths, zero_outside
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.files.whole import read_bytes, write_atomically
from graphnet_rnn.settings import amount, path as path_of, shown

#: MIDI numbers of the lowest and highest piano key; default frames per second.
KEYS, FRAMES = (21, 108), 10
#: Maximum length of a piece of music, in seconds.
LONGEST = 36_000
#: Names of the parts in a collection -> our names.
PARTS = {"train": "traindata", "valid": "validdata", "test": "testdata"}
#: Ticks per beat in written MIDI; maximum microseconds per beat.
TICKS, LONGEST_BEAT = 25_000, 4_000_000
#: Minimum ticks per frame: each note is rounded to the nearest tick, so errors do not accumulate.
FINE = 0.002
#: Default tempo in microseconds per beat; SMPTE code in the file -> frames per second.
TEMPO, SMPTE = 500_000, {24: 24.0, 25: 25.0, 29: 30_000 / 1001, 30: 30.0}
#: Tolerance for rounded onset and end times, as a fraction of a frame.
HAIR = 0.01


def read_midi(path: str | Path, frames_per_second: float = FRAMES) -> Array:
    """Reads a MIDI file as a piano roll (time, 88), float32: 1 where a key sounds in a frame. Needs mido: `pip install
    mido`

    path: the file; all its tracks and channels are merged.
    frames_per_second: frames of the piano roll for each second of music, default 10.

    A key sounds from the frame of its onset, for at least one frame; its end is rounded to the nearest frame. Onsets
    less than 1 % of a frame before the next one count as its own, since files round them to ticks. A key that is never
    released sounds to the end of its track. Keys that a piano lacks are left out.
    Raises UsageError without mido, DataError for a file without a key of a piano, or of more than ten hours.

    >>> rnn.data.write_midi("chord.mid", np.ones((20, 88)))
    >>> rnn.data.read_midi("chord.mid").shape
    (20, 88)
    """
    rate = amount("read_midi: frames_per_second", frames_per_second, above_zero=True)
    path = path_of("read_midi: path", path)
    notes, end = _notes(path)
    frames = max([math.ceil(end * rate - HAIR), *(int(begun * rate + HAIR) + 1 for _, begun, _ in notes)])
    if not notes or end > LONGEST:
        raise DataError(
            f"{path} must have notes, and last at most {LONGEST:,} seconds; got {len(notes)} "
            f"notes in {end:.0f} seconds"
        )
    require_memory(4 * 88 * frames, f"{frames:,} frames of {path}", "use fewer frames per second")
    roll = np.zeros((frames, KEYS[1] - KEYS[0] + 1), np.float32)
    for note, begun, ended in notes:
        if KEYS[0] <= note <= KEYS[1]:
            first = int(begun * rate + HAIR)
            roll[first : max(first + 1, round(ended * rate)), note - KEYS[0]] = 1
    if not roll.any():
        raise DataError(f"{path} has no notes of the 88 keys of a piano, {KEYS[0]} to {KEYS[1]}")
    return roll


def _notes(path: Path) -> tuple[list[tuple[int, float, float]], float]:
    """Returns (key, start, end) of each note, and the end of the music, in seconds."""
    mido = package_for(f"reading {path}", "mido", "mido")
    with no_file_of(path, "MIDI file"):
        return _paired(mido.MidiFile(file=io.BytesIO(read_bytes(path, DataError))), path)


def _paired(file: Any, path: Path) -> tuple[list[tuple[int, float, float]], float]:
    """Returns the notes of all tracks; the track that starts a note, or its end, also ends the note."""
    events: list[tuple[int, int, Any]] = []
    for i, track in enumerate(file.tracks):
        ticks = 0
        for message in track:
            ticks += message.time
            events.append((ticks, i, message))
        events.append((ticks, i, None))
    events.sort(key=lambda event: event[0])
    tick, changes = _tick(file.ticks_per_beat, path)
    notes: list[tuple[int, float, float]] = []
    sounding: dict[tuple[int, int, int], float] = {}
    now, before = 0.0, 0
    for at, i, message in events:
        now, before = now + (at - before) * tick, at
        if message is None:
            held = [key for key in sounding if key[0] == i]
            notes += [(key[2], sounding.pop(key), now) for key in held]
        elif message.type == "set_tempo" and changes:
            tick = message.tempo * 1e-6 / file.ticks_per_beat
        elif message.type in ("note_on", "note_off"):
            key = (i, message.channel, message.note)
            if key in sounding:
                notes.append((message.note, sounding.pop(key), now))
            if message.type == "note_on" and message.velocity:
                sounding[key] = now
    return notes, now


def _tick(division: int, path: Path) -> tuple[float, bool]:
    """Returns the seconds of a tick at the start, and True if tempo events change them (unlike SMPTE frames)."""
    if division > 0:
        return TEMPO * 1e-6 / division, True
    frames, ticks = -(division >> 8), division & 0xFF
    if frames not in SMPTE or not ticks:
        raise DataError(
            f"{path} has the invalid time base {division}: a tick must be a fraction of a beat or of an SMPTE frame"
        )
    return 1 / (SMPTE[frames] * ticks), False


def write_midi(path: str | Path, roll: Any, frames_per_second: float = FRAMES) -> None:
    """Writes a piano roll as a MIDI file, with mido; consecutive frames of a key become one held note

    path: the file to write.
    roll: 0 and 1, (time, 88), one column for each piano key, lowest first.
    frames_per_second: frames of `roll` for each second of music, default 10.

    `read_midi` with the same frames_per_second returns the same roll, without silence at its end. It refuses silent
    rolls, and more than ten hours of music.
    Raises UsageError without mido and for a frame rate that MIDI cannot store, DataError for an invalid roll, SaveError
    if the file cannot be written.

    >>> scale = np.eye(88)[30:38]
    >>> rnn.data.write_midi("scale.mid", scale, frames_per_second=4)
    >>> (rnn.data.read_midi("scale.mid", frames_per_second=4) == scale).all().item()
    True
    """
    rate = amount("write_midi: frames_per_second", frames_per_second, above_zero=True)
    keys, beat = _checked_roll("write_midi: roll", roll), int(min(FINE * TICKS * 1e6 / rate, LONGEST_BEAT))
    if not 0.06 <= rate <= 1e6:
        raise UsageError(
            "write_midi: frames_per_second must be 0.06 ... 1,000,000 (the range of MIDI), not "
            f"{frames_per_second:g}"
        )
    mido = package_for("writing music", "mido", "mido")
    file, track = mido.MidiFile(ticks_per_beat=TICKS), mido.MidiTrack()
    file.tracks.append(track)
    track.append(mido.MetaMessage("set_tempo", tempo=beat))
    silence = np.zeros((1, keys.shape[1]), np.int8)
    changes = np.diff(np.concatenate([silence, keys, silence]), axis=0)
    now = 0
    for frame, key in zip(*np.nonzero(changes), strict=True):
        kind = "note_on" if changes[frame, key] > 0 else "note_off"
        at = round(int(frame) * 1e6 / rate * TICKS / beat)
        track.append(mido.Message(kind, note=KEYS[0] + int(key), velocity=64, time=at - now))
        now = at
    stream = io.BytesIO()
    file.save(file=stream)
    write_atomically(path, stream.getvalue())


def read_rolls(path: str | Path) -> dict[str, list[Array]]:
    """Reads a collection of piano rolls from a .mat file: {"train": [...], "valid": [...], "test": [...]}, each roll
    (time, 88)

    path: a file with the cell arrays traindata, validdata and testdata, one matrix of 0 and 1 for each piece, the
    format of the data sets of Boulanger-Lewandowski, Bengio & Vincent 2012. Rolls are float32. Needs SciPy.
    Raises UsageError without SciPy, DataError for another file.

    >>> rnn.data.read_rolls("JSB_Chorales.mat")["train"][0].shape  # doctest: +SKIP
    (64, 88)
    """
    found = read_matlab(path, PARTS.values())
    missing = [name for name in PARTS.values() if not isinstance(found.get(name), np.ndarray)]
    if missing:
        raise DataError(
            f"{path} must hold the arrays of a collection of piano rolls; missing: {', '.join(missing)}"
        )
    return {
        part: [
            _checked_roll(f"{path}: piece {i} of {name}", piece).astype(np.float32)
            for i, piece in enumerate(found[name].ravel())
        ]
        for part, name in PARTS.items()
    }


def _checked_roll(what: str, given: Any) -> Array:
    keys, roll = KEYS[1] - KEYS[0] + 1, array_of_numbers(what, given)
    if roll.dtype.kind not in "biuf" or roll.ndim != 2 or roll.shape[1] != keys or not len(roll):
        raise DataError(
            f"{what} must be numbers (time, {keys}), a column for each key, not {roll.dtype} {list(roll.shape)}"
        )
    _require_bits(what, roll)
    return roll.astype(np.int8)


def _require_bits(what: str, roll: Array, remedy: str = "") -> None:
    other = roll[(roll != 0) & (roll != 1)]
    if other.size:
        raise DataError(f"{what} must contain only 0 and 1; got {shown(other.item(0))}{remedy}")


def frame_accuracy(predicted: Any, truth: Any, lengths: Any = None) -> float:
    """Σ_t TP_t / Σ_t (TP_t + FP_t + FN_t): correctly predicted notes, as a fraction of all notes that are predicted or
    true

    predicted, truth: 0 and 1, (time, cases, keys), or (time, keys) for one case.
    lengths: number of time steps of each case, (cases,); default all. Values after the end of a case are ignored.
    True negatives do not count. The result is 1 if there are no notes at all. Raises DataError for other values, such
    as probabilities: pass predicted > 0.5.
    Source: Bay, Ehmann & Downie 2009, accuracy.

    >>> truth = np.array([[1, 0, 1], [1, 0, 0]])
    >>> rnn.data.frame_accuracy([[1, 0, 0], [1, 1, 0]], truth)
    0.5
    """
    a = array_of_numbers("frame_accuracy: predicted", predicted)
    b = array_of_numbers("frame_accuracy: truth", truth)
    if a.shape != b.shape or a.ndim not in (2, 3):
        raise DataError(
            f"frame_accuracy: predicted and truth must both be (time, cases, keys), not {list(a.shape)} and "
            f"{list(b.shape)}"
        )
    if a.ndim == 2:
        a, b = a[:, None], b[:, None]
    if lengths is not None:
        inside = np.arange(len(b))[:, None] < checked_lengths("frame_accuracy", lengths, *b.shape[:2])
        a, b = zero_outside(a, inside), zero_outside(b, inside)
    for name, roll in (("predicted", a), ("truth", b)):
        _require_bits(f"frame_accuracy: {name}", roll, f"; for probabilities, pass {name} > 0.5")
    a, b = a == 1, b == 1
    count = int((a | b).sum())
    return int((a & b).sum()) / count if count else 1.0
