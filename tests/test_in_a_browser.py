"""Pages that run in a browser: computations and files of Draw your cell.

With GRAPHNET_PYODIDE (a folder of Pyodide with NumPy and pydoc-data) and GRAPHNET_VIZ_JS (viz-global.js of
@viz-js/viz), the page is opened in Chromium.
"""

from __future__ import annotations

import functools
import http.server
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

import graphnet_rnn as rnn
from graphnet_rnn.errors import CellError
from tests.tables import case

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "in_a_browser"
PYODIDE, VIZ_JS = (os.environ.get(name, "") for name in ("GRAPHNET_PYODIDE", "GRAPHNET_VIZ_JS"))
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def cell() -> dict[str, Any]:
    return runpy.run_path(str(PAGE / "cell.py"))


@pytest.fixture(scope="module")
def writer() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "in_a_browser.py"))


def examples() -> dict[str, str]:
    found = re.findall(
        r'^  "([^"]+)": ("h?.*"),$', (PAGE / "draw_your_cell.html").read_text(encoding="utf-8"), re.M
    )
    return {name: json.loads(text) for name, text in found}


def test_examples_of_the_page_are_cells() -> None:
    assert len(examples()) >= 8
    for name, text in examples().items():
        with case(name):
            assert rnn.Equations(3, text).bind(3).weights


def test_picture_fading_checks_and_training(cell: dict[str, Any]) -> None:
    text = "f = σ(x, h)\nh' = (1 - f) h + f tanh(x W_xh)"
    picture = json.loads(cell["picture"](text, "compact"))
    assert picture["svg"].startswith("<svg")
    assert picture["weights"] == [
        ["W_xf", "64 × 64"],
        ["W_hf", "64 × 64"],
        ["b_f", "64"],
        ["W_xh", "64 × 64"],
    ]
    assert picture["count"] == 3 * 64 * 64 + 64
    (norms,) = json.loads(cell["fading"](text)).values()
    assert len(norms) == 40
    assert norms[0] > norms[-1] > 0
    assert [name for name, _ in json.loads(cell["checks"](text))] == list(rnn.testing.CHECKS)
    assert "Graph of" in cell["explorer"](text)
    rows: list[dict[str, float]] = []
    sample = json.loads(cell["train"](text, lambda row: rows.append(json.loads(row)), epochs=2))
    assert [row["epoch"] for row in rows] == [1, 2]
    assert rows[0]["valid_bits"] > rows[1]["valid_bits"]
    assert len(sample) == len("the value of ") + 120
    assert json.loads(cell["fading"]("y = tanh(x W)")) == {}
    for job in (lambda: cell["picture"]("h' = q", "full"), lambda: cell["checks"]("h'")):
        with pytest.raises(CellError):
            job()


@pytest.fixture
def pyodide(tmp_path: Path) -> Path:
    """A distribution with the names of the real one."""
    folder = tmp_path / "pyodide"
    folder.mkdir()
    for name in (
        "pyodide.mjs",
        "pyodide.asm.wasm",
        "python_stdlib.zip",
        "numpy-2.whl",
        "base-1.whl",
        "other-1.whl",
    ):
        (folder / name).write_text(name, encoding="utf-8")
    packages = {
        name: {"file_name": f"{name}-{version}.whl", "depends": depends}
        for name, version, depends in (
            ("numpy", 2, ["base"]),
            ("base", 1, []),
            ("other", 1, []),
            ("gone", 1, []),
        )
    }
    (folder / "pyodide-lock.json").write_text(json.dumps({"packages": packages}), encoding="utf-8")
    return folder


def test_folder_has_all_files_of_the_page(writer: dict[str, Any], pyodide: Path, tmp_path: Path) -> None:
    graphviz = tmp_path / "viz-global.js"
    graphviz.write_text("var Viz", encoding="utf-8")
    for k in range(2):
        writer["write_cells"](tmp_path / f"out{k}", pyodide, graphviz, ["numpy"])
    out = tmp_path / "out0"
    copied = {path.name for path in (out / "pyodide").iterdir()}
    assert copied == {path.name for path in pyodide.iterdir()} - {"other-1.whl"}
    assert {path.name for path in out.iterdir()} >= {
        "draw_your_cell.html",
        "worker.js",
        "cell.py",
        "viz-global.js",
    }
    assert (out / "graphnet.zip").read_bytes() == (tmp_path / "out1" / "graphnet.zip").read_bytes()
    for name, told in (("gone", "lacks gone-1.whl"), ("none", "has no package none")):
        with pytest.raises(SystemExit, match=told):
            writer["files_of"](pyodide, [name])


def test_archive_is_self_contained(writer: dict[str, Any], tmp_path: Path) -> None:
    """With NumPy only, as in the browser: without Numba, pygraphviz and matplotlib."""
    archive = tmp_path / "graphnet.zip"
    archive.write_bytes(writer["packed"]([*writer["OURS"], *writer["PURE"]]))
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(tmp_path / "packages")
    program = """
import sys
sys.modules.update(dict.fromkeys(["numba", "llvmlite", "pygraphviz", "matplotlib", "safetensors"]))
import graphnet_rnn as rnn, viz
rnn.testing.check_cell(rnn.Equations(3))
assert viz.draw(rnn.Equations).dot
assert "/packages/" in rnn.__file__
"""
    done = subprocess.run(
        [sys.executable, "-P", "-W", "ignore", "-c", program], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "packages")}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_lessons_start_with_installation(writer: dict[str, Any]) -> None:
    """Cells of the lesson are unchanged, but links out of JupyterLite's files become text."""
    pytest.importorskip("jupytext", reason="the extra `tutorials` is not installed")
    opener = runpy.run_path(str(ROOT / "tutorials" / "__main__.py"))
    links = 0
    for source in opener["sources"]():
        cells = writer["lesson"](source, opener["notebook_of"]).cells
        before = opener["notebook_of"](source).cells
        assert "graphnet-rnn" in cells.pop(1).source
        code = [cell.source for cell in cells if cell.cell_type == "code"]
        assert code == [cell.source for cell in before if cell.cell_type == "code"]
        links += sum("](../" in cell.source for cell in before)
        assert not [cell.source for cell in cells if "](../" in cell.source]
    assert links


class Files(http.server.SimpleHTTPRequestHandler):
    extensions_map: ClassVar = {
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
    }

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def address(writer: dict[str, Any], tmp_path: Path) -> Iterator[str]:
    writer["write_cells"](tmp_path, Path(PYODIDE), Path(VIZ_JS), writer["FOR_CELLS"])
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Files, directory=str(tmp_path))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.mark.skipif(
    not (PYODIDE and VIZ_JS and CHROMIUM), reason="no GRAPHNET_PYODIDE, GRAPHNET_VIZ_JS or Chromium"
)
def test_the_page_in_a_browser(address: str) -> None:
    """Picture, fading, checks, error and explorer; no message on the console, and no request to elsewhere."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    told: list[str] = []
    with sync_api.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(120_000)
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on(
            "request", lambda request: request.url.startswith((address, "blob:")) or told.append(request.url)
        )
        page.goto(f"{address}draw_your_cell.html#h'%20%3D%20tanh(x%20W_xh%20%2B%20h%20R)")
        page.wait_for_selector("#checks td.right")
        assert page.text_content("#weights") == "W_xh64 × 64R64 × 64"
        assert "R" in (page.text_content("#drawing svg") or "")
        assert page.locator("#fading polyline").count() == 1
        page.fill("#text", "h' = tanh(x W_xh + hh)")
        page.wait_for_function("document.querySelector('#problem').textContent")
        assert "did you mean h?" in (page.text_content("#problem") or "")
        page.select_option("#examples", "LSTM")
        page.wait_for_selector("#drawing:not(.stale)")
        with page.expect_popup() as opened:  # while the other parts are still computed
            page.click("#explore")
        opened.value.wait_for_selector("[data-part=picture] g")
        page.wait_for_selector("#checks:not(.stale)")
        assert page.locator("#fading polyline").count() == 2
        assert page.text_content("#problem") == ""
        page.evaluate(
            'location.hash = encodeURIComponent("h\' = 10 h + x W_new")'
        )  # whose gradient overflows
        page.wait_for_function("document.querySelector('#weights').textContent === 'W_new64 × 64'")
        page.wait_for_selector("#checks:not(.stale)")
        assert page.locator("#fading.stale").count() == 0
        page.goto("about:blank")
        page.goto(f"{address}draw_your_cell.html#%E0%A4%A")  # not an address of ours
        page.wait_for_function("document.querySelector('#problem').textContent")
        browser.close()
    assert told == []
