"""The writer in a browser: who is answered, what is done, what is seen in Chromium."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import graphnet_rnn as rnn
from graphnet_rnn.cli.writing_page import WritingPage
from graphnet_rnn.writer import Desk, Document, Draft
from tests.graphnet_rnn.writer.test_draft import network
from tests.tables import case

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None
)


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


def asked(
    writing: WritingPage, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", writing.server.server_port, timeout=300)
    given = body if isinstance(body, (str, bytes)) else None if body is None else json.dumps(body)
    connection.request(method, path, given, headers or {})
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


def ordered(writing: WritingPage, *orders: list[Any]) -> tuple[int, str]:
    return asked(writing, "POST", f"/{writing.token}/orders", list(orders))


def test_what_a_page_does(writing: WritingPage, tmp_path: Path) -> None:
    status, html = asked(writing, "GET", f"/{writing.token}/")
    assert status == 200
    assert "<title>novel.txt</title>" in html
    assert "%%" not in html
    assert not any(word in html for word in ("http:", "https:", "src=", "href=", "url(", "@import"))
    assert ordered(writing, ["type", "ab c"], ["warm", 3], ["warm", -1])[0] == 200
    view = writing.desk.wait(300)
    assert (view.text, view.temperature) == ("ab c", pytest.approx(0.2))
    ordered(writing, ["another"], ["pause"], ["undo"], ["accept"], ["pause"], ["save", None])
    assert writing.desk.wait(300).text == "ab "
    assert (tmp_path / "novel.txt").read_text("utf-8") == writing.desk.view.text
    (tmp_path / "novel.txt").write_text("another's", encoding="utf-8")
    ordered(writing, ["type", "d"], ["save", None])
    assert "changed by another program; save again to write over it" in writing.desk.wait(300).message
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


def test_who_does_not_know_the_token_is_told_nothing(writing: WritingPage) -> None:
    own = f"127.0.0.1:{writing.server.server_port}"
    token = writing.token
    for path in (
        "/",
        "/events",
        f"/{token[:-1]}/",
        f"/{token}x/",
        f"/%C3%A9{token}/",
    ):
        assert asked(writing, "GET", path) == (403, "Forbidden"), path
        assert asked(writing, "POST", path, [])[0] in (403, 404)
    for headers in (
        {"Host": "evil.example"},
        {"Host": f"localhost.evil.example:{writing.server.server_port}"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ):
        assert asked(writing, "POST", f"/{token}/orders", [["type", "x"]], headers)[0] in (403, 404), headers
    assert writing.desk.wait(300).text == ""
    assert asked(writing, "POST", f"/{token}/orders", [["type", "x"]], {"Origin": f"http://{own}"})[0] == 200
    assert writing.desk.wait(300).text == "x"
    assert writing.server.server_address[0] == "127.0.0.1"


def test_what_is_no_order_is_refused(writing: WritingPage) -> None:
    for body in (
        b"", b"{", b"1" * 5000, b"[" * 100_000, b'{"type": "x"}', b'[["type"]]', b'[["type", 3]]', b'[["warm", "x"]]',
        b'[["fly"]]',
        b'[[]]', b'["type"]', b'[["save", 3]]', b"\xff\xfe", b'[["__class__"]]', b'[["wait"]]',
    ):  # fmt: skip
        status, words = asked(writing, "POST", f"/{writing.token}/orders", body)
        with case(body[:20]):
            assert status == 400
            assert words
            assert "sys" not in words
    assert writing.desk.wait(300).text == ""


def test_requests_of_no_length_or_too_large(writing: WritingPage) -> None:
    path = f"/{writing.token}/orders"
    assert asked(writing, "POST", path, b"", {"Content-Length": "99999999999"})[0] == 413
    assert asked(writing, "POST", path, b"", {"Content-Length": "-1"})[0] == 413
    assert asked(writing, "POST", path, b"", {"Content-Length": "many"})[0] == 411
    assert asked(writing, "GET", f"/{writing.token}/nothing")[0] == 404


def test_the_program_keeps_what_was_not_saved(tmp_path: Path) -> None:
    rnn.save(network(), tmp_path / "m.safetensors")
    command = [sys.executable, "-m", "graphnet_rnn", "write", str(tmp_path / "m.safetensors"), "--html"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        line = run.stdout.readline()
        address = line.split()[2]
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


# -- in a browser --------------------------------------------------------------------------------


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on PATH")
def test_in_chromium(writing: WritingPage, tmp_path: Path) -> None:
    api = pytest.importorskip("playwright.sync_api", reason="the extra `browser` is not installed")
    with api.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        told: list[str] = []
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on("console", lambda message: told.append(message.text) if message.type == "error" else None)
        asked_for: list[str] = []
        page.on("request", lambda request: asked_for.append(request.url))
        page.goto(writing.address)

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
        page.screenshot(path=tmp_path / "page.png")
        browser.close()
    assert told == []
    assert all(url.startswith(writing.address) for url in asked_for)


def test_who_opens_many_connections_is_not_heard(writing: WritingPage) -> None:
    """Those that are open go on being served, and there is room again once others have closed."""
    writing.server._free = threading.BoundedSemaphore(4)
    port, before = writing.server.server_port, threading.active_count()
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(12)]
    assert threading.active_count() <= before + 4
    for each in idle:
        each.close()
    end = time.monotonic() + 300
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if asked(writing, "GET", f"/{writing.token}/")[0] == 200:
                return
        time.sleep(0.05)
    raise AssertionError("no answer any more")
