"""Chords: what each costs the one who knows how they are drawn, by counting."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError


def root_of(frame: Array) -> tuple[int, int]:
    """Which chord, and whether its lower notes are raised, told from the keys alone."""
    keys = np.flatnonzero(frame)
    steps = tuple(np.diff(keys))
    assert steps in ((4, 3), (5, 4)), keys
    return (int(keys[0]) - 27, 0) if steps == (4, 3) else (int(keys[0]) - 27 - 7, 1)


def test_frames_cost_what_is_said() -> None:
    """All frames tell their chord; moves and positions are equally often, within 5 deviations."""
    rolls = rnn.tasks.chords(np.random.default_rng(0), 300, 20)
    assert rolls.shape == (20, 300, 88)
    told = np.array([[root_of(frame) for frame in step] for step in rolls])
    roots, raised = told[..., 0], told[..., 1]
    moves = np.diff(roots, axis=0) % 12
    after = Counter(zip(moves.ravel().tolist(), raised[1:].ravel().tolist(), strict=True))
    assert len(set(zip(roots[0].tolist(), raised[0].tolist(), strict=True))) == 24
    assert math.isclose(rnn.tasks.FIRST_CHORD_NATS, math.log(24))
    assert {move for move, _ in after} == {0, 5, 7}
    count, p = sum(after.values()), math.exp(-rnn.tasks.CHORD_NATS)
    assert len(after) == 6
    assert all(abs(n / count - p) < 5 * math.sqrt(p / count) for n in after.values())
    # Independent keys: the sum of their entropies, over the six frames that can follow a chord; docs/music.md.
    following: dict[int, set[bytes]] = {}
    for before, frame in zip(rolls[:-1].reshape(-1, 88), rolls[1:].reshape(-1, 88), strict=True):
        following.setdefault(root_of(before)[0], set()).add(frame.tobytes())
    for frames in following.values():
        assert len(frames) == 6
        p = np.mean([np.frombuffer(frame, np.float32) for frame in frames], axis=0, dtype=np.float64)
        p = p[(p > 0) & (p < 1)]
        assert -(p * np.log(p) + (1 - p) * np.log(1 - p)).sum() == pytest.approx(6.53, abs=0.005)


def test_they_follow_from_the_generator() -> None:
    one, other = (rnn.tasks.chords(np.random.default_rng(1), 3, 4) for _ in range(2))
    np.testing.assert_array_equal(one, other)
    for words, arguments in (("generator", (0, 3, 4)), ("time", (np.random.default_rng(1), 3, 0))):
        with pytest.raises(UsageError, match=f"chords: {words}"):
            rnn.tasks.chords(*arguments)
