"""A folder to work in, and a browser."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.graphnet_rnn.cli.bad_invocations import TEXT


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a text in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="the extra `browser` is not installed")
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    chromium = next(filter(None, map(shutil.which, names)), None)
    if chromium is None:
        pytest.skip("there is no Chromium on PATH")
    with api.sync_playwright() as running:
        started = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser: Any) -> Callable[..., contextlib.AbstractContextManager[Any]]:
    """`with opened(url) as tab:` complained of nothing when it is closed, and asked for nothing elsewhere."""

    @contextlib.contextmanager
    def opened(url: str, scheme: str = "light") -> Iterator[Any]:
        tab = browser.new_page(viewport={"width": 1100, "height": 800}, color_scheme=scheme)
        told: list[str] = []
        asked_for: list[str] = []
        tab.on("pageerror", lambda error: told.append(str(error)))
        tab.on("console", lambda message: told.append(message.text))
        tab.on("dialog", lambda dialog: told.append(dialog.message))
        tab.on("request", lambda request: asked_for.append(request.url))
        tab.goto(url)
        yield tab
        tab.close()
        assert told == []
        assert all(each.startswith((url, "data:")) for each in asked_for)

    return opened
