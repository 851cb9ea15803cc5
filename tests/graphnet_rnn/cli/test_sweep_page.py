"""The page of a sweep: its data, and what is seen of it in Chromium."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest

from graphnet_rnn.cli.sweep_page import SweepPage, data_of, page_of
from graphnet_rnn.sweep import Between, Book, Recipe, Values
from tests.graphnet_rnn.cli.test_writing_page import CHROMIUM, asked

EVIL = "</script><script>alert(1)</script>"


def book(folder: Path, runs: int) -> Book:
    """Histories written by hand: the rate explains nearly all, the cell little, the layers nothing."""
    (folder / "t.txt").write_text("abc" * 99, encoding="utf-8")
    settings = {
        "cell": Values(("GRU", "Elman")), "rate": Between(1e-4, 1e-1, log=True), "layers": Values((1, 2)), "epochs": 6,
    }  # fmt: skip
    made = Book(Recipe(str(folder / "t.txt"), settings, "random", runs, name=EVIL), folder / "sweep")
    random = np.random.default_rng(0)
    for entry in made.entries:
        entry.run.mkdir(parents=True)
        base = 2 + abs(np.log10(entry.settings["rate"]) + 2.5) + 0.2 * (entry.settings["cell"] == "Elman")
        values = [
            base + 2 / (1 + k) + 0.02 * random.standard_normal() for k in range(2 if entry.number % 3 else 6)
        ]
        lines: list[dict[str, Any]] = [{"event": "start", "unit": "bits/char"}]
        lines += [{"event": "epoch", "valid_bpc": value, "sample": EVIL} for value in values]
        (entry.run / "history.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
        )
        entry.end("cut" if entry.number % 3 else "done")
    made.entries[4].end("failed", EVIL)
    return made


def test_one_file_that_needs_nothing_else(tmp_path: Path) -> None:
    made = book(tmp_path, 12)
    html = page_of(made)
    assert "%%" not in html
    assert html.count("</script>") == 2  # its own
    assert not re.search(r"(src|href)=\"?https?:|@import|url\(", html)
    data = data_of(made)
    assert data["names"] == ["cell", "rate", "layers"]
    assert {run["state"] for run in data["runs"]} == {"done", "cut", "failed"}
    assert set(data["pictures"]) == {"GRU", "Elman"}
    assert all("<svg" in picture for picture in data["pictures"].values())
    assert json.loads(json.dumps(data, allow_nan=False)) == json.loads(json.dumps(data))


def test_a_live_page_tells_what_is_new(tmp_path: Path) -> None:
    made = book(tmp_path, 6)
    page = SweepPage(made)
    server = threading.Thread(target=page.run)
    server.start()
    try:
        status, html = asked(page, "GET", f"/{page.token}/")  # type: ignore[arg-type]
        assert status == 200
        assert f'<script nonce="{page.token}">' in html
        assert asked(page, "POST", f"/{page.token}/orders", [["type", "x"]])[0] == 400  # type: ignore[arg-type]
        data, before = page.event(None)
        assert data is not None
        assert page.event(before)[0] is None
        made.entries[0].end("failed", "broken")
        data, _ = page.event(before)
        assert data is not None
        assert data["runs"][0]["sentence"] == "broken"
    finally:
        page.close()
        server.join(300)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on PATH")
def test_in_chromium(tmp_path: Path) -> None:
    api = pytest.importorskip("playwright.sync_api", reason="the extra `browser` is not installed")
    (tmp_path / "page.html").write_text(page_of(book(tmp_path, 500)), encoding="utf-8")
    with api.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1100, "height": 800})
        told: list[str] = []
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on("console", lambda message: told.append(message.text))
        page.on("dialog", lambda dialog: told.append(dialog.message))
        asked_for: list[str] = []
        page.on("request", lambda request: asked_for.append(request.url))
        page.goto(f"file://{tmp_path / 'page.html'}")
        page.wait_for_selector("html[data-ready='1']")
        assert page.locator("#title").text_content() == EVIL
        assert page.locator("#rows tr").count() == 500
        assert page.locator("#which .bar span").first.text_content() == "rate"
        values = [float(v) for v in page.locator("#rows td:nth-child(5)").all_text_contents()]
        assert values == sorted(values)
        page.get_by_role("button", name="rate").click()
        rates = [float(v) for v in page.locator("#rows td:nth-child(3)").all_text_contents()]
        assert rates == sorted(rates)
        page.get_by_role("button", name="rate").click()
        assert float(page.locator("#rows td:nth-child(3)").first.text_content()) == rates[-1]
        page.locator("#filter").fill("elman layers=2 done")
        shown = page.locator("#rows tr").count()
        assert 0 < shown < 150
        assert page.locator("#shown").text_content() == f"{shown} of 500"
        page.locator("#rows tr").first.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        assert page.locator("#rows tr.chosen").count() == 1
        assert (
            page.locator("#onehead").text_content()
            == f"Run {page.locator('tr.chosen td').first.text_content()}"
        )
        assert page.locator("#one pre").text_content() == EVIL
        assert page.locator("#one img").get_attribute("alt") == "the cell Elman"
        page.locator("#filter").fill("")
        box = page.locator("#parallel").bounding_box()
        place = box["x"] + 60 + (box["width"] - 120) / 3
        page.mouse.move(place, box["y"] + 60)
        page.mouse.down()
        page.mouse.move(place, box["y"] + 120)
        page.mouse.up()
        assert 0 < page.locator("#rows tr").count() < 400
        browser.close()
    assert told == []
    assert all(url.startswith(("file:", "data:")) for url in asked_for)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="the extra `browser` is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on PATH")
    with api.sync_playwright() as running:
        started = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@contextlib.contextmanager
def opened(browser: Any, url: str, scheme: str = "light") -> Iterator[Any]:
    """A tab that has complained of nothing when it is closed, and asked for nothing elsewhere."""
    tab = browser.new_page(viewport={"width": 1100, "height": 800}, color_scheme=scheme)
    told: list[str] = []
    asked_for: list[str] = []
    tab.on("pageerror", lambda error: told.append(str(error)))
    tab.on("console", lambda message: told.append(message.text))
    tab.on("request", lambda request: asked_for.append(request.url))
    tab.goto(url)
    tab.wait_for_selector("html[data-ready='1']")  # no function: the page allows no code but its own
    yield tab
    tab.close()
    assert told == []
    assert all(each.startswith((url, "data:")) for each in asked_for)


@contextlib.contextmanager
def live(made: Book) -> Iterator[tuple[SweepPage, str]]:
    page = SweepPage(made)
    server = threading.Thread(target=page.run)
    server.start()
    try:
        yield page, page.address
    finally:
        page.close()
        server.join(300)


def drawn(folder: Path) -> None:
    """A picture of so many dots that it is known again, as a run has it of what each step did."""
    folder.mkdir(parents=True, exist_ok=True)
    matplotlib.image.imsave(folder / "flight.png", np.linspace(0, 1, 37 * 23).reshape(23, 37))


def test_a_live_page_goes_on_while_it_is_read(browser: Any, tmp_path: Path) -> None:
    """What is new is seen by itself; who is in the table, has filtered it, or has chosen a run, stays there."""
    made = book(tmp_path, 30)
    best = min(made.look(), key=lambda entry: entry.best)
    drawn(best.run)
    with live(made) as (served, url), opened(browser, url) as tab:
        tab.wait_for_selector("#one img[alt='flight recorder']")
        size = "image => [image.naturalWidth, image.naturalHeight]"
        assert tab.locator("#one img[alt='flight recorder']").evaluate(size) == [37, 23]
        assert tab.locator("#one img[alt^='the cell']").evaluate("image => image.naturalWidth") > 50
        assert "1 failed" in tab.locator("#stands").text_content()
        tab.locator("#filter").fill("done")
        shown = tab.locator("#rows tr").count()
        tab.locator("#rows tr").nth(2).focus()
        name = tab.evaluate("document.activeElement.firstChild.textContent")
        tab.keyboard.press("Enter")
        made.entries[0].end("failed", "broken")
        served.changed()
        tab.locator("#stands", has_text="2 failed").wait_for()
        assert tab.locator("#rows tr").count() == shown - 1
        assert tab.evaluate("document.activeElement.firstChild?.textContent") == name
        assert tab.locator("tr.chosen td").first.text_content() == name
        assert tab.locator("#filter").input_value() == "done"
        tab.keyboard.press("ArrowDown")
        assert tab.evaluate("document.activeElement.tagName") == "TR"


def luminance(color: str) -> float:
    """Of rgb(...), as WCAG has it."""
    parts = [int(n) / 255 for n in re.findall(r"\d+", color)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return float(np.dot((0.2126, 0.7152, 0.0722), linear))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_read_in_the_light_and_in_the_dark(browser: Any, tmp_path: Path, scheme: str) -> None:
    """All words stand out (WCAG: 4.5 to 1), and curves are drawn in the scheme's own colours."""
    made = book(tmp_path, 40)
    (tmp_path / "page.html").write_text(page_of(made), encoding="utf-8")
    with opened(browser, f"file://{tmp_path / 'page.html'}", scheme) as tab:
        tab.locator("#rows tr").first.click()
        pairs = tab.evaluate("""() => [...document.querySelectorAll('h1, h2, p, td, th, dt, dd, input, .bar span')]
            .filter((node) => node.textContent.trim()).map((node) => {
                let behind = node;
                while (getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)') behind = behind.parentElement;
                return [getComputedStyle(node).color, getComputedStyle(behind).backgroundColor];
            })""")
        assert len(pairs) > 100
        paper = luminance(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert (paper < 0.05) == (scheme == "dark")
        for ink, behind in set(map(tuple, pairs)):
            low, high = sorted((luminance(ink), luminance(behind)))
            assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, behind)
        accent = tab.evaluate(
            "getComputedStyle(document.documentElement).getPropertyValue('--accent').trim()"
        )
        wanted = [int(accent[i : i + 2], 16) for i in (1, 3, 5)]
        count = """(wanted) => {
            const canvas = document.querySelector('#curves');
            const dots = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            let count = 0;
            for (let i = 0; i < dots.length; i += 4)
                count += dots[i + 3] > 200 && wanted.every((part, k) => Math.abs(dots[i + k] - part) < 8);
            return count;
        }"""
        assert tab.evaluate(count, wanted) > 50
