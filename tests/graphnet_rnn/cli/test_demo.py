"""The first program that a newcomer runs, on a shorter text."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphnet.system import files
from graphnet_rnn.cli import demo, main
from graphnet_rnn.data import standard_library_text
from graphnet_rnn.errors import UsageError


@pytest.fixture(autouse=True)
def short_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "standard_library_text", lambda: standard_library_text(30_000))


def test_demo_shows_the_whole_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pictures, samples from noise on, a falling loss, checked derivatives, files and what to try next."""
    monkeypatch.setenv("GRAPHNET_COMMAND", "python3 run.py")
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--seconds", "0.1"]) == 0
    printed = capsys.readouterr().out
    folder = tmp_path / "demo"
    for name in ("cell.svg", "unrolled.svg"):
        assert (folder / name).read_text(encoding="utf-8").count("<svg") == 1
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "model.safetensors").exists()
    assert printed.count("    | ") > 3
    assert "(time is up)" in printed
    for product in ("gradient", "R-operator", "Gauss-Newton"):
        assert printed.count(product) >= 2
    after = printed[printed.index("Files in demo/") :]
    for name in ("cell.svg", "unrolled.svg", "curve.png", "model.safetensors", "history.jsonl"):
        assert name in after
    # In the words that can be pasted where nothing is on the PATH.
    assert after.count("\n  python3 run.py ") == 3


def test_demo_replaces_its_own_folder_and_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "mine"
    other.mkdir()
    (other / "precious.txt").write_text("precious", encoding="utf-8")
    assert main(["demo", "--out", str(other)]) == 2
    assert "was not made by the demo" in capsys.readouterr().err
    assert (other / "precious.txt").read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize("other", ["demo", "train"])
def test_a_folder_in_use_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], other: str
) -> None:
    """By another demo, or by a training that goes on with what one made."""
    (tmp_path / demo.MARKER).touch()
    (tmp_path / "history.jsonl").write_text("{}\n", encoding="utf-8")
    with files.locked(tmp_path / demo.MARKER if other == "demo" else tmp_path):
        assert main(["demo", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert ("another demo runs in" if other == "demo" else "another process trains in") in said
    assert said.count("\n") == 1
    assert (tmp_path / "history.jsonl").read_text(encoding="utf-8") == "{}\n"


def test_a_demo_that_was_killed_at_once_is_replaced(tmp_path: Path) -> None:
    """Its folder holds a lock and no more; all of an earlier one goes but the marks that it is a demo's."""
    (tmp_path / f".{demo.MARKER}.lock").touch()
    with demo._fresh_folder(tmp_path) as folder:
        for name in (
            "history.jsonl",
            "cell.svg",
            "checkpoint-000000012.safetensors",
            ".cell.svg.0a0a0a0a.part",
        ):
            (folder / name).touch()
    with demo._fresh_folder(tmp_path):
        assert {path.name for path in tmp_path.iterdir()} == {demo.MARKER, f".{demo.MARKER}.lock"}
    assert [path.name for path in tmp_path.iterdir()] == [demo.MARKER]


@pytest.mark.parametrize("name", ["notes.txt", "my.svg", "pictures/a.svg"])
def test_what_others_put_there_stays(tmp_path: Path, name: str) -> None:
    with demo._fresh_folder(tmp_path) as folder:
        (folder / "cell.svg").touch()
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="was not made by the demo"), demo._fresh_folder(tmp_path):
        raise AssertionError("it begins")
    assert (tmp_path / name).read_text(encoding="utf-8") == "mine"
    assert (tmp_path / "cell.svg").exists()
