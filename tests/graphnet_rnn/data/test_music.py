"""Piano rolls: MIDI round trips, MATLAB collections, and frame accuracy."""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any

import mido
import numpy as np
import pytest
import scipy.io

from graphnet.graph.node import Array
from graphnet_rnn.data import frame_accuracy, read_midi, read_rolls, write_midi
from graphnet_rnn.errors import DataError, SaveError, UsageError
from tests.tables import case


def a_roll(time: int = 30, seed: int = 0) -> Array:
    """With keys that are held, struck again after a pause, and both ends of the piano."""
    roll = (np.random.default_rng(seed).random((time, 88)) < 0.3).astype(np.float32)
    roll[-1, [0, 87]] = 1
    return roll


def test_rolls_are_read_with_shorter_frames(tmp_path: Path) -> None:
    write_midi(tmp_path / "m.mid", a_roll(), 5)
    found = read_midi(tmp_path / "m.mid", 15)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.repeat(a_roll(), 3, axis=0))


def test_written_rolls_have_the_notes_of_the_roll(tmp_path: Path) -> None:
    roll = np.zeros((6, 88))
    roll[1:3, 39] = 1
    write_midi(tmp_path / "m.mid", roll, 2)
    now, heard = 0.0, []
    for message in mido.MidiFile(tmp_path / "m.mid"):
        now += message.time
        if message.type in ("note_on", "note_off"):
            heard.append((message.type, message.note, round(now, 6)))
    assert heard == [("note_on", 60, 0.5), ("note_off", 60, 1.5)]


def test_music_without_piano_keys_is_rejected(tmp_path: Path) -> None:
    file, track = mido.MidiFile(), mido.MidiTrack()
    file.tracks.append(track)
    for kind, time in (("note_on", 0), ("note_off", 480)):
        track.append(mido.Message(kind, note=120, velocity=64, time=time))
    file.save(tmp_path / "a.mid")
    with pytest.raises(DataError, match="no notes of the 88 keys"):
        read_midi(tmp_path / "a.mid")


def test_notes_at_the_last_moment_have_a_frame(tmp_path: Path) -> None:
    for released in (True, False):
        file, track = mido.MidiFile(), mido.MidiTrack()
        file.tracks.append(track)
        messages = [("note_on", 60, 0), ("note_off", 60, 960), ("note_on", 70, 0), ("note_off", 70, 0)]
        for kind, note, time in messages if released else messages[:3]:
            track.append(mido.Message(kind, note=note, velocity=64, time=time))
        file.save(tmp_path / "a.mid")
        roll = read_midi(tmp_path / "a.mid", 10)
        assert roll.shape == (11, 88)
        assert np.argwhere(roll[:, 70 - 21]).ravel().tolist() == [10]


def test_invalid_rolls_are_rejected(tmp_path: Path) -> None:
    midi = tmp_path / "m.mid"
    no_roll = r"write_midi: roll must be numbers \(time, 88\), a column for each key, not float64 \[3, 87\]"
    for call, error, said in (
        (lambda: write_midi(midi, np.zeros((3, 87))), DataError, no_roll),
        (lambda: write_midi(midi, np.zeros((0, 88))), DataError, r"\[0, 88\]"),
        (lambda: write_midi(midi, np.full((3, 88), 0.5)), DataError, "only 0 and 1; got 0.5"),
        (lambda: write_midi(midi, np.full((3, 88), np.nan)), DataError, "must contain only 0 and 1"),
        (lambda: write_midi(midi, a_roll(), 0.01), UsageError, r"the range of MIDI\), not 0\.01"),
        (lambda: write_midi(tmp_path, a_roll()), SaveError, "could not be written"),
        (lambda: read_midi(midi, 0), UsageError, "read_midi: frames_per_second"),
    ):
        with case(said), pytest.raises(error, match=said):
            call()
    assert not midi.exists()


def collection(**parts: Any) -> bytes:
    """A file of MATLAB; lists are its cells, and those of a collection are there if not said otherwise."""
    for n, name in enumerate(("traindata", "validdata", "testdata")):
        parts.setdefault(name, [a_roll(5 + i, i).astype(np.uint8) for i in range(3 - n)])
    for name, rolls in parts.items():
        if isinstance(rolls, list):
            parts[name] = np.empty((1, len(rolls)), object)
            parts[name][0, :] = rolls
    stream = io.BytesIO()
    scipy.io.savemat(stream, {k: v for k, v in parts.items() if v is not None}, do_compression=True)
    return stream.getvalue()


def test_collections_have_train_valid_and_test_parts(tmp_path: Path) -> None:
    (tmp_path / "c.mat").write_bytes(collection(other=np.ones(3)))
    found = read_rolls(tmp_path / "c.mat")
    assert {name: len(rolls) for name, rolls in found.items()} == {"train": 3, "valid": 2, "test": 1}
    for rolls in found.values():
        for i, roll in enumerate(rolls):
            assert roll.dtype == np.float32
            np.testing.assert_array_equal(roll, a_roll(5 + i, i))


def test_invalid_collections_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "c.mat"
    for content, said in (
        (b"no MATLAB at all, but long enough to have a head" * 10, r"c\.mat is not a valid MATLAB file"),
        (collection()[:400], "c.mat"),
        (collection(validdata=None, testdata=None), "missing: validdata, testdata"),
        (collection(testdata=[np.ones((2, 49))]), r"piece 0 of testdata must be numbers \(time, 88\)"),
    ):
        path.write_bytes(content)
        with case(said), pytest.raises(DataError, match=said):
            read_rolls(path)
    with pytest.raises(DataError):
        read_rolls(tmp_path / "none.mat")


def test_frame_accuracy_matches_a_loop() -> None:
    generator = np.random.default_rng(0)
    a, b = (generator.integers(0, 2, (4, 3, 5)) for _ in range(2))
    lengths = np.array([4, 1, 2])
    right = either = 0
    for n, t, k in itertools.product(range(3), range(4), range(5)):
        if t < lengths[n]:
            right += int(a[t, n, k] and b[t, n, k])
            either += int(a[t, n, k] or b[t, n, k])
    assert frame_accuracy(a, b, lengths) == right / either
    assert frame_accuracy(a[:, 0], b[:, 0]) == frame_accuracy(a[:, :1], b[:, :1])
    assert frame_accuracy(b, b) == 1
    assert frame_accuracy(np.zeros((2, 88)), np.zeros((2, 88))) == 1
    garbage = np.where((np.arange(4)[:, None] < lengths)[..., None], a, np.nan)
    assert frame_accuracy(garbage, b, lengths) == right / either
    assert frame_accuracy(a[:, 0], b[:, 0], [2]) == frame_accuracy(a[:2, 0], b[:2, 0])
    assert frame_accuracy(a > 0, b) == frame_accuracy(a.astype("f4"), b)
    with pytest.raises(DataError, match="frame_accuracy: predicted and truth must both be"):
        frame_accuracy(a, b[:2])
    with pytest.raises(DataError, match="frame_accuracy: lengths"):
        frame_accuracy(a, b, [4])
    for wrong, got in (
        (a * 0.9, "0.9"),
        (-a, "-1"),
        (a * np.nan, "nan"),
        (a.astype(str), "'[01]'"),
        (3 * a, "3"),
    ):
        for name, both in (("predicted", (wrong, b)), ("truth", (b, wrong))):
            said = f"frame_accuracy: {name} must contain only 0 and 1; got {got}; .* {name} > 0.5"
            with case(said), pytest.raises(DataError, match=said):
                frame_accuracy(*both)
    with pytest.raises(DataError, match="frame_accuracy: predicted must be an array of numbers"):
        frame_accuracy([[0, 1], [1]], [[0, 1], [1, 0]])
