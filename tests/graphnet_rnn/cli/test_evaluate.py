"""How `evaluate` shows a reading: in colours, as a page, and as a chart of costs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import graphnet_rnn as rnn
import viz
from graphnet_rnn.cli import main
from graphnet_rnn.data import Vocabulary

pytest.importorskip("matplotlib")

TEXT = "a cat sat on a mat.\n" * 40


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    vocabulary = Vocabulary.of(TEXT)
    net = rnn.Network([rnn.GRU(5)], len(vocabulary), len(vocabulary))
    net.vocabulary = vocabulary
    rnn.save(net, "model.safetensors")
    return tmp_path


def evaluate(*arguments: str) -> int:
    return main(["evaluate", "model.safetensors", "text.txt", *arguments])


def test_an_excerpt_from_a_cold_and_a_warm_start(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate("--colour", "--at", "40", "--length", "20", "--context", "30") == 0
    out = capsys.readouterr().out
    net = rnn.load("model.safetensors")
    cold, warm = rnn.read(net, TEXT[40:60]), rnn.read(net, TEXT[40:60], TEXT[10:40])
    first, shown = out.split("\n\n", 1)
    assert "with at least 30 of context" in first
    assert shown == f"{viz.reading({'cold start': cold, 'warm start, after 30 characters': warm})}\n"


def test_the_page_is_the_same(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate("--save", "page.html", "--theme", "colour-blind") == 0
    assert "\x1b" not in capsys.readouterr().out
    page = (here / "page.html").read_text(encoding="utf-8")
    assert "text.txt as read by a network" in page
    assert "warm start, after 50 characters" in page
    assert "orange low" in page
    assert page.count('title="p = ') == 2 * 600 - 1  # the first of a cold start is not predicted


def test_without_context_there_is_a_cold_start_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate("--colour", "--at", "0") == 0
    out = capsys.readouterr().out
    assert "cold start" in out
    assert "warm start" not in out


def test_costs_of_the_whole_text(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        assert evaluate("--costs", "costs.svg", "--split") == 0
    assert "wrote costs.svg" in capsys.readouterr().out
    words = re.findall(r">([^<>\n]+)</text>", (here / "costs.svg").read_text(encoding="utf-8"))
    assert {"training", "validation", "test", "bits per character"} <= set(words)


def test_lanes_are_no_more_than_what_is_scored(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Memory and time go with the lanes, and those beyond would read to score nothing."""
    Path("text.txt").write_text(TEXT[:60], encoding="utf-8")
    for lanes in ("50", "99999999"):
        assert evaluate("--context", "10", "--lanes", lanes, "--costs", f"{lanes}.svg") == 0
    one, other = (line.split("wrote")[0] for line in capsys.readouterr().out.split("matplotlib)\n")[:2])
    assert one == other
    assert Path("50.svg").read_bytes() == Path("99999999.svg").read_bytes()


def test_what_it_wrote_before_is_replaced(here: Path) -> None:
    for page, chart in ((".html", ".svg"), (".svg", ".png"), (".ansi", ".pdf"), (".txt", ".svg")):
        for _ in range(2):
            assert evaluate("--save", f"page{page}", "--costs", f"costs{chart}", "--length", "20") == 0
    assert Path("text.txt").read_text(encoding="utf-8") == TEXT
