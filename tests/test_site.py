"""The documentation site builds without warnings, is complete and self-contained; its extensions."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import graphnet_rnn as rnn
from tests.tables import case

from .test_exports import names_of_the_api

ROOT = Path(__file__).parent.parent
NEEDED = ("sphinx", "furo", "myst_nb", "jupytext", "latex2mathml")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]

pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"the extra 'docs' is not installed: there is no {', '.join(MISSING)}"
)


class Page(HTMLParser):
    """Ids, links and automatically fetched URLs of an HTML page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given: dict[str, str] = {name: value or "" for name, value in attributes}
        self.ids.add(given.get("id", ""))
        if tag in ("a", "link"):
            (self.links if tag == "a" else self.fetched).append(given.get("href", ""))
        self.fetched += [given.get(name, "") for name in ("src", "srcset", "poster", "data")]
        self.fetched += re.findall(r"url\(([^)]+)\)", given.get("style", ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the site without running guides and tutorials, which other tests run. A warning is an error."""
    pages = tmp_path_factory.mktemp("site")
    command = ["-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going", "-n", "-D", "nb_execution_mode=off"]
    result = subprocess.run(
        [sys.executable, *command, "-d", str(pages / "doctrees"), "docs", str(pages / "html")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return pages / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_pages_fetch_no_external_files_and_hold_no_local_paths(site: Path, pages: dict[Path, Page]) -> None:
    """The build depends only on the sources: no times, local paths or addresses of objects."""
    for path, page in pages.items():
        schemes = {urlsplit(url).scheme or "//" * url.startswith("//") for url in page.fetched}
        assert schemes <= {"", "data"}, path
    elsewhere = {
        ".css": r"@import|url\(\s*['\"]?(?:https?:)?//",
        ".js": r"(?:fetch|importScripts|import)\(\s*['\"`]https?:|src\s*=\s*['\"]https?:",
    }
    here = rf"{re.escape(str(ROOT))}| object at 0x[0-9a-f]+|Last updated|ipykernel_\d"
    for path in site.rglob("*"):
        if path.suffix in (".html", ".js", ".css", ".svg"):
            text = path.read_text(encoding="utf-8")
            assert not re.search(here, text), path
            assert path.suffix not in elsewhere or not re.search(elsewhere[path.suffix], text), path


def test_every_link_has_a_target(site: Path, pages: dict[Path, Page]) -> None:
    """Each link leads to a file of the site, and to an existing id if it has a fragment."""
    seen = 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or not link:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.is_file(), f"{path.relative_to(site)}: {link}"
            if parts.fragment and target.suffix == ".html":
                assert unquote(parts.fragment) in pages[target].ids, f"{path.relative_to(site)}: {link}"
                seen += 1
    assert seen > 500


def test_every_page_is_in_the_sidebar(site: Path, pages: dict[Path, Page]) -> None:
    """Every file of docs/ and tutorials/ also has a page."""
    reached = {(site / unquote(urlsplit(link).path)).resolve() for link in pages[site / "index.html"].links}
    others = {site / name for name in ("index.html", "genindex.html", "search.html", "py-modindex.html")}
    assert set(pages) - others <= reached
    written = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert written <= {path.stem for path in pages}
    tutorials = {path.stem for path in (ROOT / "tutorials").glob("[0-9]*.py")}
    assert tutorials == {path.stem for path in pages if path.parent == site / "tutorials"}


def test_every_public_name_has_an_entry_with_text(pages: dict[Path, Page]) -> None:
    """All public names in the sources of the API pages have an entry on the site."""
    entries, empty = set(), []
    untold = re.compile(r'<dt class="sig[^"]*" id="([\w.]+)">(?:(?!</dt>).)*</dt>\s*<dd>\s*</dd>', re.DOTALL)
    for path, page in pages.items():
        if path.parent.name == "api":
            entries |= page.ids
            empty += untold.findall(path.read_text(encoding="utf-8"))
    names = names_of_the_api()
    missing = {*names.documented_names().values()} - entries - {*names.public_modules()}
    assert not missing, f"give each a place in docs/api/: {missing}"
    assert not empty


def test_the_gallery_has_a_section_for_each_architecture(site: Path, pages: dict[Path, Page]) -> None:
    assert {name.lower() for name in rnn.cells.ALL} <= pages[site / "architectures.html"].ids
    text = (site / "architectures.html").read_text(encoding="utf-8")
    pictures = set(re.findall(r'<img[^>]* src="_images/([\w.]+\.svg)"', text))
    assert len(pictures) >= len(list((ROOT / "docs" / "architectures").glob("*.svg")))
    assert "W<sub>xh</sub>" in text
    assert "<td>" in text  # the other tables stay tables


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return lambda name: importlib.import_module(f"extensions.{name}")


def test_parts_of_a_docstring(extension: Any) -> None:
    part = extension("docstrings")

    def told(text: str, *parameters: str) -> list[str]:
        return [line for line in part.restructured(text.splitlines(), parameters) if line]

    text = """y = x W, and b

rate: ε. steps: how many; a number
that goes on. `check=True`: looks.
Then another sentence.
Raises ShapeError for a_b.
Source: Author 1990, eq. 1.

x = make(1)

    more(x)

states   those of both,
         one after the other
two words  what they are"""
    parameter = ".. rst-class:: parameter"
    assert told(text, "rate", "steps", "check") == [
        ".. rst-class:: formula", "y = x W, and b",
        parameter, "**rate**: ε.",
        parameter, "**steps**: how many; a number that goes on.",
        parameter, "**check=True**: looks.", "Then another sentence.",
        ".. rst-class:: raises", r"**Raises** :py:obj:`ShapeError <graphnet.ShapeError>` for a\_b.",
        ".. rst-class:: source", "Source: Author 1990, eq. 1.",
        ".. code-block:: python", "   x = make(1)", "       more(x)",
        ".. rst-class:: columns", "``states``", "   those of both, one after the other",
        "**two words**", "   what they are",
    ]  # fmt: skip
    for first, kind in (
        ("y = f(x)", "formula"),
        ("for all l:  s ← (1 - t) s", "formula"),
        ("Jv: for each output y, R{y} = ...", "formula"),
        ("A node that is one (`value = 3`), and no more", "summary"),
        ("Says in many words what is = to something else", "summary"),
    ):
        assert told(first)[0] == f".. rst-class:: {kind}", first
    assert told("a *b |c| _d `e*` <f>")[-1] == r"a \*b \|c\| \_d \ ``e*``\  \<f\>"


def test_indices_and_latex(extension: Any) -> None:
    part = extension("formulas")
    kinds = [type(node).__name__ for node in part.indexed("h^{l-1}_t + b")]
    assert kinds == ["Text", "superscript", "subscript", "Text"]
    assert [node.astext() for node in part.indexed("π_{i_0} W_xh")] == ["π", "i₀", " W", "xh"]
    assert list(map(str, part.indexed("no index"))) == ["no index"]
    assert "<mfrac>" in part.mathml(r"\tfrac12 x")
    assert "<mtr>" in part.mathml(r"\begin{aligned} a &= b \\ c &= d \end{aligned}")
    for wrong in (r"\nosuch{a}", r"\frac{a}{"):
        with case(wrong), pytest.raises(ValueError, match=r"nosuch|no MathML"):
            part.mathml(wrong)


def test_names_resolve_to_one_entry(extension: Any) -> None:
    part = extension("names")
    for written, path in (
        ("gn.gradient", "graphnet.gradient"),
        ("rnn.cells.LSTM", "graphnet_rnn.LSTM"),
        ("Function.profile", "graphnet.Function.profile"),
        ("rnn.Network.unroll", "graphnet_rnn.Network.unroll"),
        ("ShapeError", "graphnet.ShapeError"),
        *((none, None) for none in ("gn.gradiant", "gn", "stack", "Function._program")),
    ):
        assert part.public_path(written) == path, written


def test_tutorials_are_fetched(extension: Any, tmp_path: Path) -> None:
    part = extension("guides")
    source, target = tmp_path / "tutorials", tmp_path / "docs"
    source.mkdir()
    (source / "01_a.py").write_text("# [a](../docs/x.md) [b](../CHANGELOG.md) [c](02_b.py)\n")
    (source / "exercises.py").write_text("")
    target.mkdir()
    (target / "09_gone.py").write_text("")
    assert [path.name for path in part.fetch_tutorials(source, target)] == ["01_a.py"]
    fetched = (target / "01_a.py").read_text(encoding="utf-8")
    assert fetched == "# [a](../x.md) [b](../changelog.md) [c](02_b.py)\n"
    assert part.fetch_tutorials(tmp_path / "none", target) == []


def test_guide_output_is_cached_while_the_code_is_unchanged(extension: Any, tmp_path: Path) -> None:
    part = extension("guides")
    code = tmp_path / "package"
    code.mkdir()
    (code / "a.py").write_text("x = 1\n")
    before = part.state_of(code)
    assert part.state_of(code) == before
    (code / "a.py").write_text("x = 2\n")
    assert part.state_of(code) != before
    (tmp_path / "kept" / before).mkdir(parents=True)
    (tmp_path / "kept" / "old").mkdir()
    assert part.keep_one_cache(tmp_path / "kept", before) == str(tmp_path / "kept" / before)
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [before]
