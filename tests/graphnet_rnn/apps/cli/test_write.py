"""graphnet-rnn write in a terminal: keys, screen contents and files."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wcwidth import wcwidth

import graphnet_rnn as rnn
from graphnet_rnn.apps.cli.typewriter import page
from graphnet_rnn.apps.writer import Draft, Snapshot
from tests.graphnet_rnn.apps.writer.test_draft import network

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX's")

if sys.platform != "win32":
    from tests.graphnet_rnn.apps.cli.pseudo_terminal import Terminal


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    rnn.save(network(), path)
    return path


@pytest.fixture
def written(model: Path, tmp_path: Path) -> Iterator[Any]:
    begun: list[Terminal] = []

    def begin(*arguments: str, own: bool = False, **how: Any) -> Terminal:
        environment = {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1", **how.pop("environment", {})}
        named = [] if own else [str(model)]
        command = [sys.executable, "-m", "graphnet_rnn", "write", *named, *arguments]
        terminal = Terminal(command, folder=tmp_path, environment=environment, **how)
        begun.append(terminal)
        terminal.until(lambda: bool(terminal.lines[-1]) or terminal.ended())
        return terminal

    yield begin
    for terminal in begun:
        terminal.__exit__()


def test_default_model_writes_a_file(written: Any, tmp_path: Path) -> None:
    t = written("story.txt", own=True, rows=8, columns=70)
    assert t.lines[-1].startswith("story.txt  temperature 0.7  0 characters")
    t.press("T", "h", "e", " ", sees=" 4 characters")
    t.press("^S")
    t.until((tmp_path / "story.txt").exists)
    assert (tmp_path / "story.txt").read_text(encoding="utf-8") == "The "


def test_text_is_suggested_and_saved(written: Any, tmp_path: Path) -> None:
    t = written("novel.txt", "--temperature", "0", rows=10, columns=70)
    assert t.lines[-1].startswith("novel.txt  temperature 0.0  0 characters")
    t.press("ab c")
    draft = Draft(network(), 0.0, 0)
    draft.type("ab c")
    grey = draft.suggest()
    shown = ("ab c" + grey).replace("\n", "")
    t.until(lambda: "".join(t.lines[:3]).replace(" ", "") == shown.replace(" ", ""))
    assert t.style(0, 0).fg == "default"
    row = grey.find(grey.strip()[:1])  # empty lines before it
    assert t.style(row, 0 if row else 4).fg == "878787"
    t.press("tab", sees=f"{4 + len(grey)} characters")
    t.press("up", "up", "up", "down", sees="temperature 0.2")
    t.press("escape", sees="paused")
    t.press("backspace", sees=" 4 characters")
    t.press("enter", "é", "H", sees="2 unknown")
    assert t.lines[:2] == ["ab c", "éH"]
    assert t.style(1, 0).underscore
    t.press("left", "backspace", sees="1 unknown")
    t.press("^S", sees="saved novel.txt")
    assert (tmp_path / "novel.txt").read_text("utf-8") == "ab c\né"
    t.press("^C")
    assert t.wait() == 0
    assert [p.name for p in tmp_path.iterdir()] == ["novel.txt"]


def test_unnamed_text_is_saved_and_external_changes_are_detected(written: Any, tmp_path: Path) -> None:
    t = written()
    t.press("abc", sees="abc")
    t.press("^C", sees="not saved: ^S saves it, ^C")
    t.press("^S", sees="save as:")
    t.press("one.txt", "enter", sees="saved one.txt")
    (tmp_path / "one.txt").write_text("another's", encoding="utf-8")
    t.press("d", "^S", sees="one.txt was changed by another program; ^S again")
    assert (tmp_path / "one.txt").read_text("utf-8") == "another's"
    t.press("^S", sees="saved one.txt")
    assert (tmp_path / "one.txt").read_text("utf-8") == "abcd"
    (tmp_path / "two.txt").write_bytes(b"gh\r\nab\r\n")
    t.press("e")

    def open_another(*keys: str) -> None:
        t.press("^O", sees="not saved: ^S saves it, ^O again discards it")
        t.press("^O", sees="open:")
        t.press(*keys)

    open_another("~no-such-user/x.txt", "enter")
    t.until(lambda: t.sees("there is no folder ~no-such-user for x.txt"))
    for leave in ("escape", "^C"):
        open_another(leave)
        t.until(lambda: not t.sees("open:"))
    open_another("two.txt", "enter")
    t.until(lambda: t.lines[:2] == ["gh", "ab"])
    t.press("c", "^S", sees="saved two.txt")
    assert (tmp_path / "two.txt").read_bytes() == b"gh\r\nab\r\nc"
    assert (tmp_path / "one.txt").read_text("utf-8") == "abcd"
    t.press("^Q")
    assert t.wait() == 0


def test_unsaved_text_is_kept_after_a_signal(written: Any, tmp_path: Path) -> None:
    """The program is terminated, or its terminal is closed."""
    (tmp_path / "novel.txt").write_text("abc", encoding="utf-8")
    t = written("novel.txt", columns=100)
    t.press(" def", sees="abc def")
    t.kill(signal.SIGTERM)
    assert t.wait() == 130
    assert t.sees("the text was not saved; it is in novel.txt.unsaved")
    again = written("novel.txt", columns=80)
    again.until(lambda: again.sees("novel.txt.unsaved holds the text that was not saved last time"))
    again.press("g", sees="abcg")
    again.hang_up()
    assert again.wait() == 130
    assert (tmp_path / "novel.txt").read_text("utf-8") == "abc"
    assert (tmp_path / "novel.txt.unsaved").read_text("utf-8") == "abc def"
    assert (tmp_path / "novel.txt.unsaved-2").read_text("utf-8") == "abcg"


@pytest.mark.parametrize("name", ["SIGQUIT", "SIGUSR1", "SIGXCPU"])
def test_unsaved_text_is_kept_after_signals_of_batch_systems(written: Any, tmp_path: Path, name: str) -> None:
    t = written("novel.txt", columns=100)
    t.press("abc", sees="abc")
    t.kill(getattr(signal, name))
    assert t.wait() == 130
    assert (tmp_path / "novel.txt.unsaved").read_text("utf-8") == "abc"


def test_letters_are_kept_if_standard_input_is_ascii(written: Any, tmp_path: Path) -> None:
    t = written("novel.txt", environment={"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"})
    t.press("café", "^S", sees="saved")
    t.press("^Q")
    assert t.wait() == 0
    assert (tmp_path / "novel.txt").read_text("utf-8") == "café"


def folded(text: str, columns: int) -> list[str]:
    """The rows of a text in a terminal: a letter that does not fit into a row begins the next one."""
    rows: list[str] = []
    for line in text.split("\n"):
        row, taken = "", 0
        for letter in line:
            cells = max(wcwidth(letter), 0)
            if taken + cells > columns:
                rows.append(row)
                row, taken = "", 0
            row, taken = row + letter, taken + cells
        rows.append(row)
    return [row.rstrip() for row in rows]


@pytest.mark.slow
def test_another_suggestion_is_drawn_and_accepted(written: Any, tmp_path: Path) -> None:
    """→ draws as the draft does and changes nothing else; Tab accepts the visible suggestion."""
    columns = 20
    t = written("novel.txt", "--seed", "3", columns=columns)
    draft = Draft(network(), 0.7, 3)
    seen = []
    for _ in range(5):
        seen.append(draft.suggest())
        expected = [*folded(seen[-1], columns), *[""] * len(t.lines)][: len(t.lines) - 1]
        t.until(lambda rows=expected: t.lines[:-1] == rows)
        t.rest()
        assert t.lines[-1].startswith("novel.txt")
        assert "*" not in t.lines[-1]
        t.press("right")
        draft.forget_suggestion()
    assert len(set(seen)) == 5
    last = draft.suggest()
    t.until(lambda: t.lines[: len(folded(last, columns))] == folded(last, columns))
    t.rest()
    t.press("tab", "^S")
    t.until((tmp_path / "novel.txt").exists)
    assert (tmp_path / "novel.txt").read_text("utf-8") == last


def test_pasting_wide_letters_in_a_narrow_terminal(written: Any, tmp_path: Path) -> None:
    t = written("novel.txt", rows=6, columns=20, environment={"NO_COLOR": "1"})
    t.press("escape", sees="paused")
    t.paste("日本語 ab\r\nabcd efgh abcd efgh abcd\rh" * 3)
    text = "日本語 ab\nabcd efgh abcd efgh abcd\nh" * 3
    assert folded(text, 20)[-5:] == ["abcd", "h日本語 ab", "abcd efgh abcd efgh", "abcd", "h"]
    t.until(lambda: t.lines[:-1] == folded(text, 20)[-5:])
    assert t.lines[-1] == "novel.txt *  paused"
    t.press("^S", sees="saved novel.txt")
    assert (tmp_path / "novel.txt").read_text("utf-8") == text
    assert all(cell.fg == cell.bg == "default" for row in t.screen.buffer.values() for cell in row.values())
    t.resize(9, 44)
    t.press("d")
    t.until(lambda: t.lines[:-1] == [*folded(text + "d", 44), ""])
    assert t.lines[-1].startswith("novel.txt *  paused  ")


def test_learning_and_colours(written: Any) -> None:
    t = written("--learn", "0.1", "--colour", "--theme", "dark", columns=110)
    t.press("abcdabcdabcdabcdabcdabcd", sees="learned 1")
    colours = {t.style(0, column).bg for column in range(24)}
    assert len(colours) > 2
    t.press(*["backspace"] * 24, sees=" 0 characters")
    assert not t.sees("learned")


def test_page_shows_the_last_full_rows() -> None:
    """The visible rows are the last ones of the text, for any letters."""

    def shown_on(text: str, rows: int, columns: int) -> str:
        return "".join(piece[1] for piece in page(Snapshot(text, (None,) * len(text)), rows, columns, text))

    for columns in (7, 20, 21):
        random, text = np.random.default_rng(columns), ""
        of = [0.3, 0.2, 0.1, 0.01, 0.15, 0.1, 0.09, 0.05]
        for letter in random.choice(list("ab \n日語e\u0301"), 700, p=of):
            text += letter
            assert folded(shown_on(text, 4, columns), columns) == folded(text + " ", columns)[-4:]
    wide = "x" * 5000
    assert shown_on(wide[:4099], 5, 20) == "x" * 99 + " "  # it begins where lines are folded
    assert shown_on(wide[:4100], 5, 20) == "x" * 80 + " "  # and the cursor has a row of its own
