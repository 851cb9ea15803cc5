"""MIDI files: several tracks, unreleased keys, tempo changes, SMPTE ticks."""

from __future__ import annotations

from pathlib import Path

import mido
import numpy as np
import pytest

from graphnet.graph.node import Array
from graphnet_rnn.data import read_midi, read_sequences, write_midi
from graphnet_rnn.errors import DataError
from tests.tables import case


def rolled(path: Path, *tracks: list[mido.Message], beat: int = 480) -> Array:
    """The roll of a file of these tracks, 20 frames a second; a beat is half a second."""
    file = mido.MidiFile(ticks_per_beat=beat)
    file.tracks += [mido.MidiTrack(track) for track in tracks]
    file.save(path)
    return read_midi(path, 20)


def on(note: int, time: int, velocity: int = 64) -> mido.Message:
    return mido.Message("note_on", note=note, time=time, velocity=velocity)


def off(note: int, time: int) -> mido.Message:
    return mido.Message("note_off", note=note, time=time)


def sounding(roll: Array, note: int) -> list[int]:
    return np.flatnonzero(roll[:, note - 21]).tolist()


def test_tracks_release_only_their_own_keys(tmp_path: Path) -> None:
    """Two tracks of one channel hold the same key: frames 0 to 9, and 5 to 19."""
    roll = rolled(tmp_path / "a.mid", [on(60, 0), off(60, 480)], [on(60, 240), off(60, 720)])
    assert sounding(roll, 60) == list(range(20))


def test_unreleased_keys_sound_to_the_end_of_the_track(tmp_path: Path) -> None:
    end = mido.MetaMessage("end_of_track", time=432)
    roll = rolled(tmp_path / "a.mid", [on(60, 0), on(62, 0), off(62, 48), end], [on(64, 0), off(64, 960)])
    assert (sounding(roll, 60), sounding(roll, 62), len(roll)) == (list(range(10)), [0], 20)


def test_velocity_0_releases_the_key(tmp_path: Path) -> None:
    roll = rolled(tmp_path / "a.mid", [on(60, 0), on(60, 240, velocity=0), on(62, 240), off(62, 480)])
    assert (sounding(roll, 60), sounding(roll, 62)) == (list(range(5)), list(range(10, 20)))


def test_tempo_changes_apply_to_all_tracks(tmp_path: Path) -> None:
    tempo = [mido.MetaMessage("set_tempo", tempo=1_000_000, time=480)]
    roll = rolled(tmp_path / "a.mid", tempo, [on(60, 240), off(60, 480)])
    assert sounding(roll, 60) == list(range(5, 20))  # from 0.25 s to 0.5 + 0.5 s


def test_smpte_ticks(tmp_path: Path) -> None:
    """25 frames per second with 40 ticks each: a tick is a millisecond."""
    for division, frames in ((0xE728, 10), (0xE350, 4)):  # -25 and 40; -29 (29.97) and 80
        with case(hex(division)):
            rolled(tmp_path / "a.mid", [on(60, 0), off(60, 500), on(60, 500), off(60, 1)])
            raw = bytearray((tmp_path / "a.mid").read_bytes())
            raw[12:14] = division.to_bytes(2, "big")
            (tmp_path / "b.mid").write_bytes(raw)
            assert len(sounding(read_midi(tmp_path / "b.mid", 20), 60)) == frames + 1
    raw[12:14] = b"\xd0\x28"
    (tmp_path / "b.mid").write_bytes(raw)
    with pytest.raises(DataError, match=r"b\.mid has the invalid time base -12248"):
        read_midi(tmp_path / "b.mid", 20)


def test_frame_times_accumulate_no_error(tmp_path: Path) -> None:
    """A frame of 1/60 s is not an integer number of microseconds."""
    for rate in (0.06, 12, 29.97, 30, 60, 441, 1e6):
        with case(rate):
            roll = np.zeros((min(8_000, int(30_000 * rate)), 88), np.float32)
            roll[:, 40] = np.random.default_rng(0).random(len(roll)) < 0.5
            roll[-1] = 1
            write_midi(tmp_path / "m.mid", roll, rate)
            np.testing.assert_array_equal(read_midi(tmp_path / "m.mid", rate), roll)
            write_midi(tmp_path / "m.mid", roll[-1:], rate)
            np.testing.assert_array_equal(read_midi(tmp_path / "m.mid", rate), roll[-1:])
    write_midi(tmp_path / "m.mid", roll[-1:])
    with pytest.raises(DataError, match=r"m\.mid must have at least two frames"):
        read_sequences(tmp_path / "m.mid")
