"""The benchmark of distant XOR: parallel lines, training, and interrupted runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from graphnet_rnn.experiments.regret import xor
from graphnet_rnn.experiments.regret.texts import distant_xor


def job(folder: Path, passes: int) -> xor.XorJob:
    return xor.XorJob("RUOP", 4, 60, 4, 0, passes, 6, folder)


def test_parallel_lines_match_the_text() -> None:
    text = distant_xor(np.random.default_rng(0), 25, 5).text
    symbols, scored = xor.parallel_lines(text, 4)
    pieces = ["".join(xor.SYMBOLS[s] for s in column) for column in symbols.T]
    assert "".join(piece.rstrip("\n") + "\n" for piece in pieces) == text
    assert scored.sum() == 25
    assert {pieces[n][t - 1] for t, n in np.argwhere(scored)} == {"="}
    answers = "".join(pieces[n][t] for n, t in np.argwhere(scored.T))
    assert answers == "".join(line[-1] for line in text.splitlines())


def test_interrupted_run_resumes_to_the_same_curve(tmp_path: Path) -> None:
    whole = xor.run(job(tmp_path / "a", 100))
    xor.run(job(tmp_path / "b", 50))
    half = next((tmp_path / "b").iterdir())
    half.rename(job(tmp_path / "b", 100).place)
    resumed = xor.run(job(tmp_path / "b", 100))
    assert resumed["curve"] == whole["curve"]
    passes, losses, *_ = zip(*whole["curve"], strict=True)
    assert passes[-1] == whole["passed"]
    assert losses[-1] < losses[0]
    assert "RUOP | 4 | 60 × 4 | 100 |" in xor.table([whole])


def test_run_stops_when_the_task_is_learned(tmp_path: Path) -> None:
    """With two bits, the marks are always at the same positions."""
    easy = replace(job(tmp_path, 400), length=3, lines=200)
    row = xor.run(easy)
    assert row["error"] < xor.SOLVED
    assert row["passed"] < 400
