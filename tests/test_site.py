"""The documentation site: built without a warning, complete, whole, and on its own."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from .test_exports import names_of_the_api

ROOT = Path(__file__).parent.parent
NEEDED = ("sphinx", "furo", "myst_nb", "jupytext", "latex2mathml")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]

pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"the extra 'docs' is not installed: there is no {', '.join(MISSING)}"
)


class Page(HTMLParser):
    """What of a page matters here: ids, links, whatever a browser fetches by itself, and the sidebar."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given: dict[str, str] = {name: value or "" for name, value in attributes}
        self.ids.add(given.get("id", ""))
        if tag == "a":
            self.links.append(given.get("href", ""))
        elif tag == "link":
            self.fetched.append(given.get("href", ""))
        for name in ("src", "srcset", "poster", "data"):
            self.fetched.append(given.get(name, ""))
        self.fetched += re.findall(r"url\(([^)]+)\)", given.get("style", ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site without what guides and tutorials show (tests of their own run these); a warning is an error."""
    pages = tmp_path_factory.mktemp("site")
    command = ["-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going", "-n", "-D", "nb_execution_mode=off"]
    result = subprocess.run(
        [sys.executable, *command, "-d", str(pages / "doctrees"), "docs", str(pages / "html")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return pages / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def test_nothing_is_fetched_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    """Neither by pages nor by style sheets, and no script names a place from which it could."""
    for path, page in pages.items():
        outside = [
            url for url in page.fetched if urlsplit(url).scheme not in ("", "data") or url.startswith("//")
        ]
        assert not outside, f"{path}: {outside}"
    for path in site.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"@import|url\(\s*['\"]?(?:https?:)?//", text), path
    for path in site.rglob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(
            r"(?:fetch|importScripts|import)\(\s*['\"`]https?:|src\s*=\s*['\"]https?:", text
        ), path


def test_every_link_leads_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    """To a file of the site, and to a place in it where the link names one."""
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
    """All that docs/ and tutorials/ have can be reached from each page."""
    reached = {(site / unquote(urlsplit(link).path)).resolve() for link in pages[site / "index.html"].links}
    others = {site / name for name in ("index.html", "genindex.html", "search.html", "py-modindex.html")}
    assert set(pages) - others <= reached
    written = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert written <= {path.stem for path in pages}
    tutorials = {path.stem for path in (ROOT / "tutorials").glob("[0-9]*.py")}
    assert tutorials == {path.stem for path in pages if path.parent == site / "tutorials"}


def test_every_public_name_has_an_entry(pages: dict[Path, Page]) -> None:
    """What test_exports finds in the sources of the pages has come to be an entry of the site."""
    entries = {name for path, page in pages.items() if path.parent.name == "api" for name in page.ids}
    names = names_of_the_api()
    missing = {*names.documented_names().values()} - entries - {*names.public_modules()}
    assert not missing, f"give each a place in docs/api/: {missing}"


def test_every_entry_of_a_function_or_class_says_something(site: Path) -> None:
    empty = [
        name
        for path in (site / "api").glob("*.html")
        for name in re.findall(
            r'<dt class="sig[^"]*" id="([\w.]+)">(?:(?!</dt>).)*</dt>\s*<dd>\s*</dd>',
            path.read_text(encoding="utf-8"),
            re.DOTALL,
        )
    ]
    assert not empty


def test_the_gallery_has_a_section_for_each_architecture(site: Path, pages: dict[Path, Page]) -> None:
    import graphnet_rnn as rnn

    gallery = pages[site / "architectures.html"]
    assert {name.lower() for name in rnn.cells.ALL} <= gallery.ids
    text = (site / "architectures.html").read_text(encoding="utf-8")
    pictures = set(re.findall(r'<img[^>]* src="_images/([\w.]+\.svg)"', text))
    assert len(pictures) >= len(list((ROOT / "docs" / "architectures").glob("*.svg")))
    assert "W<sub>xh</sub>" in text
    assert "<td>" in text  # the table of reported parameters stays one


def test_what_is_built_depends_on_the_sources_alone(site: Path) -> None:
    """No times, no places on this machine, no addresses of objects."""
    for path in site.rglob("*"):
        if path.suffix in (".html", ".js", ".css", ".svg"):
            text = path.read_text(encoding="utf-8")
            assert str(ROOT) not in text, path
            assert not re.search(r" object at 0x[0-9a-f]+", text), path
            assert not re.search(r"Last updated|ipykernel_\d", text), path
