"""The steps of CI run what they promise, and their table counts it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import everything, steps


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str]]]:
    """Commands that a step starts, with their environments."""
    found: list[tuple[list[str], dict[str, str]]] = []

    def start(command: list[str], cwd: Path, env: dict[str, str], check: bool) -> SimpleNamespace:
        found.append((command, env))
        return SimpleNamespace(returncode=3)

    monkeypatch.setattr(steps.subprocess, "run", start)
    return found


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["steps", *words])
    return steps.main()


def test_arguments_are_those_of_pytest(
    monkeypatch: pytest.MonkeyPatch, started: list[tuple[list[str], dict[str, str]]]
) -> None:
    assert call(monkeypatch, "test", "--seed", "7", "-k", "lstm") == 3
    command, environment = started[0]
    assert command[-2:] == ["-k", "lstm"]
    assert "--random-order-seed=7" in command
    assert environment["PYTHONHASHSEED"] == "7"
    assert "GRAPHNET_PROCESSOR" not in environment


def test_an_older_processor_runs_what_it_changes_unless_tests_are_named(
    monkeypatch: pytest.MonkeyPatch, started: list[tuple[list[str], dict[str, str]]]
) -> None:
    call(monkeypatch, "elsewhere", "-x")
    call(monkeypatch, "elsewhere", "-x", "tests/viz")
    (some, _), (named, _) = started
    assert set(steps.COMPUTED) <= set(some)
    assert named[-2:] == ["-x", "tests/viz"]


def test_what_steps_run_is_there() -> None:
    paths = (*steps.COMPUTED, *steps.SAME_EVERYWHERE, *steps.QUICK)
    assert [path for path in paths if not (steps.ROOT / path).exists()] == []


def test_the_table_counts_tests_and_reasons(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "def test_right(): pass\n"
        "def test_wrong(): assert False\n"
        "@pytest.mark.parametrize('n', range(2))\n"
        "def test_not_here(n): pytest.skip('no moon')\n",
        encoding="utf-8",
    )
    report = tmp_path / "report.xml"
    code = pytest.main(["-p", "no:cacheprovider", "-c", "/dev/null", str(tmp_path), f"--junitxml={report}"])
    passed, failed, skipped = everything.counted(report)
    assert (passed, failed, skipped) == (1, 1, {"no moon": 2})
    outcomes = [everything.Outcome("suite", int(code), 0.5, passed, failed, skipped)]
    last = everything.table(outcomes).splitlines()[-2:]
    assert last[0].split() == ["suite", "red", "(1)", "0.5", "1", "1", "2"]
    assert last[1] == "skipped in suite: 2 × no moon"
