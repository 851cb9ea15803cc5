"""Pages of the writer and of sweeps in Chromium: requests, actions, display."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn.apps.cli.pages import SweepPage, WritingPage, data_of, page_of
from graphnet_rnn.apps.sweep import Between, Recipe, Results, Values
from graphnet_rnn.apps.writer import Desk, Document, Draft
from tests.graphnet_rnn.apps.sweep.conftest import history
from tests.graphnet_rnn.apps.writer.test_draft import network
from tests.tables import case
from viz.colours import _luminance


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
    """Opens a page; at the end, requires no errors and no requests to other servers."""

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


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[WritingPage]:
    document = Document(tmp_path / "novel.txt")
    document.read()
    with Desk(Draft(network(), temperature=0.0)) as desk:
        page = WritingPage(desk, document)
        server = threading.Thread(target=page.run)
        server.start()
        yield page
        page.close()
        server.join(300)
        assert not server.is_alive()


def asked(writing: Any, method: str, path: str, body: Any = None, headers: Any = None) -> tuple[int, str]:
    """Status and text of the server's answer."""
    connection = http.client.HTTPConnection("127.0.0.1", writing.server.server_port, timeout=300)
    given = body if isinstance(body, (str, bytes)) else None if body is None else json.dumps(body)
    connection.request(method, path, given, headers or {})
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


def ordered(writing: WritingPage, *orders: list[Any]) -> tuple[int, str]:
    return asked(writing, "POST", f"/{writing.token}/orders", list(orders))


def test_page_serves_html_and_accepts_orders(writing: WritingPage, tmp_path: Path) -> None:
    status, html = asked(writing, "GET", f"/{writing.token}/")
    assert (status, "<title>novel.txt</title>" in html) == (200, True)
    assert not re.search(r"https?:|src=|href=|url\(|@import|%%", html)
    assert ordered(writing, ["type", "ab c"], ["warm", 3], ["warm", -1])[0] == 200
    view = writing.desk.wait(300)
    assert (view.text, view.temperature) == ("ab c", pytest.approx(0.2))
    ordered(writing, ["another"], ["pause"], ["undo"], ["accept"], ["pause"], ["save", None])
    assert writing.desk.wait(300).text == "ab "
    assert (tmp_path / "novel.txt").read_text("utf-8") == writing.desk.view.text
    (tmp_path / "novel.txt").write_text("another's", encoding="utf-8")
    ordered(writing, ["type", "d"], ["save", None])
    assert "changed by another program; save again to overwrite it" in writing.desk.wait(300).message
    assert (tmp_path / "novel.txt").read_text("utf-8") == "another's"
    ordered(writing, ["save", None])
    assert not writing.desk.wait(300).changed
    ordered(writing, ["save", str(tmp_path / "two.txt")])
    writing.desk.wait(300)
    assert (tmp_path / "two.txt").read_text("utf-8") == writing.desk.view.text


def test_events_follow_the_draft(writing: WritingPage) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", writing.server.server_port, timeout=300)
    connection.request("GET", f"/{writing.token}/events")
    answer = connection.getresponse()
    ordered(writing, ["type", "aé"])
    held: dict[str, Any] = {}
    while held.get("text") != "aé" or not held["suggestion"]:
        line = answer.readline().decode()
        if line.startswith("data: "):
            held.update(json.loads(line.removeprefix("data: ")))
    assert held["levels"][1] == -2
    assert 0 <= held["levels"][0] <= 24
    assert (held["length"], held["unknown"], held["changed"], held["named"]) == (2, 1, True, True)
    connection.close()


def test_requests_without_token_get_no_answer(writing: WritingPage) -> None:
    own = f"127.0.0.1:{writing.server.server_port}"
    token = writing.token
    for path in ("/", "/events", f"/{token[:-1]}/", f"/{token}x/", f"/%C3%A9{token}/"):
        assert asked(writing, "GET", path) == (403, "Forbidden"), path
        assert asked(writing, "POST", path, [])[0] in (403, 404)
    elsewhere = f"localhost.evil.example:{writing.server.server_port}"
    for header in (
        {"Host": "evil.example"}, {"Host": elsewhere}, {"Origin": "http://evil.example"}, {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ):  # fmt: skip
        assert asked(writing, "POST", f"/{token}/orders", [["type", "x"]], header)[0] in (403, 404), header
    assert writing.desk.wait(300).text == ""
    assert asked(writing, "POST", f"/{token}/orders", [["type", "x"]], {"Origin": f"http://{own}"})[0] == 200
    assert writing.desk.wait(300).text == "x"
    assert writing.server.server_address[0] == "127.0.0.1"


def test_invalid_orders_are_rejected(writing: WritingPage) -> None:
    path = f"/{writing.token}/orders"
    for body in (
        b"{", b"1" * 5000, b"[" * 100_000, b'{"type": "x"}', b'[["type"]]', b'[["type", 3]]', b'[["warm", "x"]]',
        b'[[]]', b'["type"]', b'[["save", 3]]', b"\xff\xfe", b'[["__class__"]]', b'[["wait"]]',
    ):  # fmt: skip
        status, words = asked(writing, "POST", path, body)
        with case(body[:20]):
            assert status == 400
            assert "sys" not in words
    for length, status in (("99999999999", 413), ("-1", 413), ("many", 411)):
        assert asked(writing, "POST", path, b"", {"Content-Length": length})[0] == status
    assert asked(writing, "GET", f"/{writing.token}/nothing")[0] == 404
    assert writing.desk.wait(300).text == ""


def test_unsaved_text_is_kept_on_exit(tmp_path: Path) -> None:
    rnn.save(network(), tmp_path / "m.safetensors")
    command = [sys.executable, "-m", "graphnet_rnn", "write", "m.safetensors", "--html"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, text=True, **pipes) as run:
        address = run.stdout.readline().split()[2]
        port, token = int(address.split(":")[2].split("/")[0]), address.rstrip("/").rpartition("/")[2]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        connection.request("POST", f"/{token}/orders", json.dumps([["type", "abc"]]))
        assert connection.getresponse().status == 200
        connection.close()
        run.send_signal(signal.SIGTERM)
        _, err = run.communicate(timeout=300)
    assert run.returncode == 130
    assert "the text was not saved; it is in writing.txt.unsaved" in err
    assert (tmp_path / "writing.txt.unsaved").read_text("utf-8") == "abc"


def test_in_chromium(opened: Any, writing: WritingPage, tmp_path: Path) -> None:
    api = pytest.importorskip("playwright.sync_api")
    with opened(writing.address) as page:

        def seen(name: str) -> api.LocatorAssertions:
            return api.expect(page.locator(f"#{name}"))

        page.keyboard.type("ab é")
        seen("written").to_have_text("ab é")
        seen("suggestion").not_to_be_empty()
        suggested = writing.desk.wait(300).suggestion
        page.keyboard.press("Tab")
        seen("written").not_to_have_text("ab é")
        assert writing.desk.wait(300).text == "ab é" + suggested
        page.keyboard.press("ArrowUp")
        seen("temperature").to_have_text("0.1")
        page.keyboard.press("Backspace")
        seen("written").to_have_text("ab é")
        assert page.locator(".unknown").text_content() == "é"
        page.locator("#colours").click()
        assert page.locator("[data-level]").count() >= 2
        page.keyboard.press("Escape")
        seen("suggestion").to_be_empty()
        page.keyboard.press("Control+s")
        api.expect(page).to_have_title("novel.txt")
        assert (tmp_path / "novel.txt").read_text("utf-8") == "ab é"
        writing.desk.type("<b>&amp;")
        seen("written").to_have_text("ab é<b>&amp;")


EVIL = "</script><script>alert(1)</script>"


def book(folder: Path, runs: int) -> Results:
    """Made-up histories: the rate matters most, the cell a little, the layers not at all."""
    (folder / "t.txt").write_text("abc" * 99, encoding="utf-8")
    settings = {
        "cell": Values(("GRU", "Elman")), "rate": Between(1e-4, 1e-1, log=True), "layers": Values((1, 2)), "epochs": 6,
    }  # fmt: skip
    made = Results(Recipe(str(folder / "t.txt"), settings, "random", runs, name=EVIL), folder / "sweep")
    random = np.random.default_rng(0)
    for entry in made.entries:
        base = 2 + abs(np.log10(entry.settings["rate"]) + 2.5) + 0.2 * (entry.settings["cell"] == "Elman")
        epochs = np.arange(2 if entry.number % 3 else 6)
        noise = 0.02 * random.standard_normal(len(epochs))
        history(entry.run, *(base + 2 / (1 + epochs) + noise).tolist(), sample=EVIL)
        entry.end("cut" if entry.number % 3 else "done")
    made.entries[4].end("failed", EVIL)
    return made


def test_page_is_one_self_contained_file(tmp_path: Path) -> None:
    made = book(tmp_path, 12)
    html, data = page_of(made), data_of(made)
    assert html.count("</script>") == 2  # its own
    assert not re.search(r"(src|href)=\"?https?:|@import|url\(|%%", html)
    assert data["names"] == ["cell", "rate", "layers"]
    assert {run["state"] for run in data["runs"]} == {"done", "cut", "failed"}
    assert set(data["pictures"]) == {"GRU", "Elman"}
    assert all("<svg" in picture for picture in data["pictures"].values())
    json.dumps(data, allow_nan=False)


@contextlib.contextmanager
def live(made: Results) -> Iterator[SweepPage]:
    page = SweepPage(made)
    server = threading.Thread(target=page.run)
    server.start()
    try:
        yield page
    finally:
        page.close()
        server.join(300)


def test_a_live_page_sends_new_rows(tmp_path: Path) -> None:
    made = book(tmp_path, 6)
    with live(made) as page:
        assert f'<script nonce="{page.token}">' in asked(page, "GET", f"/{page.token}/")[1]
        assert asked(page, "POST", f"/{page.token}/orders", [["type", "x"]])[0] == 400
        _, before = page.event(None)
        assert page.event(before)[0] is None
        made.entries[0].end("failed", "broken")
        data, _ = page.event(before)
        assert data["runs"][0]["sentence"] == "broken"


READY = "html[data-ready='1']"  # no function: the page allows no code but its own


def test_runs_are_sorted_filtered_and_chosen(opened: Any, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(page_of(book(tmp_path, 500)), encoding="utf-8")
    with opened(f"file://{tmp_path / 'page.html'}") as page:
        page.wait_for_selector(READY)
        rows = page.locator("#rows tr")
        assert page.locator("#title").text_content() == EVIL
        assert rows.count() == 500
        assert page.locator("#which .bar span").first.text_content() == "rate"

        def column(number: int) -> list[float]:
            return [float(v) for v in page.locator(f"#rows td:nth-child({number})").all_text_contents()]

        assert column(5) == sorted(column(5))
        page.get_by_role("button", name="rate").click()
        rates = column(3)
        assert rates == sorted(rates)
        page.get_by_role("button", name="rate").click()
        assert column(3)[0] == rates[-1]
        page.locator("#filter").fill("elman layers=2 done")
        assert 0 < rows.count() < 150
        assert page.locator("#shown").text_content() == f"{rows.count()} of 500"
        rows.first.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        assert page.locator("#rows tr.chosen").count() == 1
        name = page.locator("tr.chosen td").first.text_content()
        assert page.locator("#onehead").text_content() == f"Run {name}"
        assert page.locator("#one pre").text_content() == EVIL
        assert page.locator("#one img").get_attribute("alt") == "the cell Elman"
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        assert page.locator("#onehead").text_content() == "Chosen runs"
        names = page.locator("tr.chosen td:first-child").all_text_contents()
        assert page.locator("#one section dd:first-of-type").all_text_contents() == names
        assert len(names) == 2
        page.keyboard.press("Enter")
        assert page.locator("#onehead").text_content() == f"Run {name}"
        page.locator("#filter").fill("")
        axis = page.get_by_role("slider", name="range of layers")
        axis.focus()
        page.keyboard.press("ArrowDown")  # the upper end is now below the last value, 2
        assert set(column(4)) == {1}
        page.keyboard.press("Shift+ArrowUp")
        assert rows.count() == 0
        page.keyboard.press("Escape")
        assert rows.count() == 500
        box = page.locator("#parallel").bounding_box()
        place = box["x"] + 60 + (box["width"] - 120) / 3
        page.mouse.move(place, box["y"] + 60)
        page.mouse.down()
        page.mouse.move(place, box["y"] + 120)
        page.mouse.up()
        assert 0 < rows.count() < 400


def test_live_page_updates_and_keeps_focus(opened: Any, tmp_path: Path) -> None:
    """The page updates by itself, and keeps the focus, the filter and the chosen run."""
    made = book(tmp_path, 30)
    best = min(made.look(), key=lambda entry: entry.best)
    # So many dots that it is known again, as a run has it of what each step did.
    matplotlib.image.imsave(best.run / "flight.png", np.linspace(0, 1, 37 * 23).reshape(23, 37))
    with live(made) as served, opened(served.address) as tab:
        tab.wait_for_selector(READY)
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_has_enough_contrast_in_light_and_dark_mode(opened: Any, tmp_path: Path, scheme: str) -> None:
    """All text has enough contrast (WCAG: 4.5 to 1); curves use the colors of the scheme."""

    def luminance(colour: str) -> float:
        return _luminance("#" + bytes(map(int, re.findall(r"\d+", colour)[:3])).hex())

    (tmp_path / "page.html").write_text(page_of(book(tmp_path, 40)), encoding="utf-8")
    with opened(f"file://{tmp_path / 'page.html'}", scheme) as tab:
        tab.wait_for_selector(READY)
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
        style = "getComputedStyle(document.documentElement)"
        accent = tab.evaluate(f"{style}.getPropertyValue('--accent').trim()")
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
