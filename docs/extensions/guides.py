"""Guides that run: Python blocks become cells, and tutorials are taken from tutorials/.

A guide is plain Markdown, as it is read anywhere; on the site its Python blocks are run in their order, and what they
print or draw is shown under them. One namespace for each page.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
_METADATA: dict[str, dict[str, str]] = {
    "kernelspec": {"name": "python3", "display_name": "Python 3"},
    "language_info": {"name": "python", "pygments_lexer": "python"},
}
_HEADER = f"---\n{json.dumps({'file_format': 'mystnb', **_METADATA})}\n---\n\n"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def as_notebook(app: Sphinx, docname: str, content: list[str]) -> None:
    """source-read: a guide with Python blocks becomes a notebook."""
    path = Path(app.env.doc2path(docname))
    if docname in app.config.guides_that_run and path.suffix == ".md" and _BLOCK.search(content[0]):
        content[0] = _HEADER + _BLOCK.sub(r"```{code-cell} python\n\1```", content[0])


def read_tutorial(text: str) -> Any:
    """A program in percent format as a notebook for this Python."""
    import jupytext

    notebook = jupytext.reads(text, fmt="py:percent")
    notebook.metadata.update(_METADATA)
    return notebook


def fetch_tutorials(source: Path, target: Path) -> list[Path]:
    """Copies tutorials/*.py to where Sphinx finds them; links to files of the project are turned to its pages."""
    wanted = {path.name: path for path in sorted(source.glob("[0-9]*.py"))} if source.is_dir() else {}
    target.mkdir(exist_ok=True)
    for old in target.glob("*.py"):
        if old.name not in wanted:
            old.unlink()
    for name, path in wanted.items():
        text = path.read_text(encoding="utf-8")
        text = re.sub(r"\]\(\.\./docs/", "](../", text)
        text = re.sub(r"\]\(\.\./(CONTRIBUTING|CHANGELOG)\.md", lambda m: f"](../{m[1].lower()}.md", text)
        copy = target / name
        if not copy.exists() or copy.read_text(encoding="utf-8") != text:
            copy.write_text(text, encoding="utf-8")
    return sorted(target.glob("*.py"))


def state_of(*code: Path) -> str:
    """A name for the present state of packages and modules: what guides show is kept as long as that stays."""
    digest = hashlib.sha256(sys.version.encode())
    for place in code:
        for path in sorted(place.rglob("*.py")) if place.is_dir() else filter(Path.is_file, [place]):
            digest.update(path.relative_to(place.parent).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def keep_one_cache(folder: Path, name: str) -> str:
    """The folder of results that belong to this state; those of other states are removed."""
    for old in folder.glob("*") if folder.is_dir() else ():
        if old.name != name:
            shutil.rmtree(old, ignore_errors=True)
    return str(folder / name)


def bare_ipython(folder: Path) -> str:
    """An IPython of our own: what somebody has configured for theirs does not reach the pages."""
    profile = folder / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    # The kernel warns that it talks to us without encryption, on this very machine.
    (profile / "ipython_kernel_config.py").write_text(
        "get_config().IPKernelApp.log_level = 40\n", encoding="utf-8"
    )
    return str(folder)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_config_value("guides_that_run", [], "env", list)
    app.connect("source-read", as_notebook)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
