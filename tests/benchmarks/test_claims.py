"""Claims: each number is on its page, is read from its benchmark's table, and is checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import claims
from benchmarks.claims import CLAIMS, Claim, cell, ratios, verdict
from tests.tables import case

NETWORKS = """
LSTM, 64 units, batch 32, 50 steps, 64 symbols: loss and gradient (0.197 GF; peak 167 GF/s: torch, tuned)
  contender  installed ms    p10–p90  × ours  tuned ms    p10–p90  best × ours
  ours               2.43  2.43–2.43    1.00       4.1    4.1–4.1         1.00
  torch nn           7.38  7.38–7.38    3.04      6.56  6.56–6.56         2.70
  - ours: 6.0 MiB by its own count

LSTM, 64 units, batch 32, 50 steps, 64 symbols: Gauss-Newton product Gv (0.328 GF)
  contender  installed ms  × ours
  ours                7.4    1.00
  torch nn            599   80.96
  torch loop          300   40.00
"""
GPU = """
| network | task | floor | graphnet | cuDNN | jax |
|---|---|---:|---:|---:|---:|
| LSTM, 256 units | gradient | 0.21 | 2 | 5 | 7 |
| LSTM, 256 units | product | 0.3 | 4 |  | 9.96 |
| LSTM, 1000 units | gradient | 3 | 6,860 | 10,290 | 16 |
| RHN, 256 units | gradient | 3 | 1 | - | nan |
"""
CELLS = """
| cell | gradient, ms | gradient, MiB | in √T | time × |
|---|---|---|---|---|
| LSTM | 40.1 | 130.2 | 10.1 | 1.15× |
"""


def test_numbers_are_read_from_tables() -> None:
    for output, section, row, column, expected in (
        (NETWORKS, "LSTM, 64.*: loss", "torch nn", "× ours", 3.04),
        (NETWORKS, "LSTM, 64.*: loss", "torch nn", "best × ours", 2.70),
        (NETWORKS, "LSTM, 64.*: Gauss", "torch nn", "× ours", 80.96),
        (GPU, "network", "LSTM, 256 units gradient", "graphnet", 2),
        (CELLS, "cell", "LSTM", "in √T", 10.1),
        (CELLS, "cell", "LSTM", "time ×", 1.15),
    ):
        with case((section, row, column)):
            assert cell(output, section, row, column) == expected
    assert ratios(GPU, "network", "", "cuDNN", "graphnet") == [2.5, 1.5]
    for section, row, column, told in (
        ("GRU", "ours", "× ours", "no line has 'GRU'"),
        ("LSTM", "jax", "× ours", "the row 'jax'"),
        ("LSTM", "ours", "none", "the columns 'none'"),
        ("LSTM, 64.*: loss", "torch loop", "× ours", "the row 'torch loop'"),
        ("network", "RHN, 256 units", "cuDNN", "'-' is not a number"),
        ("network", "RHN, 256 units", "jax", "'nan' is not a number"),
    ):
        with case((section, row, column)), pytest.raises(ValueError, match=told):
            cell(NETWORKS + GPU, section, row, column)


def test_every_claim_is_on_its_page() -> None:
    """Where a page changes, its claim here must change with it."""
    for claim in CLAIMS:
        with case(claim.name):
            assert claim.claimed > 0
            page = (claims.ROOT / claim.page).read_text(encoding="utf-8")
            assert f"python -m {claim.command.split(' --', 1)[0]}" in page


def test_claims_are_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "`torch.nn.LSTM` takes 2.9 times as long (a), and b\nas graphnet (1.1 times with its best settings)"
    )
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    monkeypatch.setattr(claims, "ROOT", tmp_path)
    pattern = r"`torch.nn.LSTM` takes ([\d.]+) times as long \("
    faster, smaller, here = (Claim("README.md", pattern, "c", float, better, "") for better in (1, -1, 0))
    memory = replace(smaller, tolerance=0.05, neutral=0)
    similar = replace(faster, pattern=r"as graphnet \(([\d.]+) times with its best settings\)")
    assert similar.claimed == 1.1
    assert faster.claimed == 2.9
    for claim, measured, expected in (
        (faster, 2.45, "confirmed"),  # 1 + 0.75 · 1.9 = 2.425
        (faster, 9, "confirmed"),
        (faster, 2.4, "NOT CONFIRMED"),
        (smaller, 3.3, "confirmed"),  # 1 + 1.25 · 1.9 = 3.375
        (smaller, 0, "confirmed"),
        (smaller, 3.4, "NOT CONFIRMED"),
        (memory, 3.04, "confirmed"),  # 1.05 · 2.9 = 3.045
        (memory, 3.05, "NOT CONFIRMED"),
        (similar, 1.0, "confirmed"),  # 0.9 · 1.1 = 0.99
        (similar, 0.98, "NOT CONFIRMED"),
        (here, 9, "here"),
    ):
        with case((claim.better, measured)):
            assert verdict(claim, measured) == expected


def test_report_runs_each_command_once_and_lists_failures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unmeasurable claims are listed, and only a wrong claim makes the command fail."""
    ran: list[str] = []

    def measure(command: str) -> str:
        ran.append(command)
        if "benchmarks.cells" in command:
            raise ValueError("no module named torch")
        return NETWORKS

    names = ("LSTM of 64 units, nn.LSTM", "LSTM of 64 units, lax.scan", "memory of 1,600 steps, MiB")
    monkeypatch.setattr(claims, "CLAIMS", [claim for claim in CLAIMS if claim.name in names])
    monkeypatch.setattr(claims, "measure", measure)
    monkeypatch.setattr("sys.argv", ["claims"])
    assert claims.main() == 0
    told = capsys.readouterr().out
    assert len(ran) == len(set(ran)) == 2
    assert "3.04 confirmed" in told
    assert "not measured: no table has the row 'jax scan'" in told
    assert "not measured: no module named torch" in told
    monkeypatch.setattr(claims, "measure", lambda command: NETWORKS.replace("3.04", "1.04"))
    assert claims.main() == 1
    assert "NOT CONFIRMED" in capsys.readouterr().out


def test_failed_benchmarks_raise_their_last_line() -> None:
    with pytest.raises(ValueError, match="No module named"):
        claims.measure("benchmarks.absent")
