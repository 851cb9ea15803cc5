"""Writes the pages that run graphnet in a browser: Draw your cell, and the tutorials in JupyterLite.

    python docs/in_a_browser.py --pyodide PYODIDE --graphviz viz-global.js [--to FOLDER] [--without-lessons]

FOLDER (build/in_a_browser/browser by default, which `python3 run.py docs` makes a part of the site) gets
`draw_your_cell.html`, all that it loads, and `lessons/`. Any web server can serve it, and its pages load nothing from
elsewhere. PYODIDE is an unpacked distribution of Pyodide (pyodide.org) with its packages; `viz-global.js`
is in the npm package @viz-js/viz. The lessons need `pip install jupyterlite-core jupyterlite-pyodide-kernel`.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from graphnet.system.streams import prepare_streams

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
PAGE = DOCS / "in_a_browser"
FOLDER = ROOT / "build" / "in_a_browser" / "browser"
OURS = ("graphnet", "graphnet_rnn", "viz")
#: Plain Python that these import.
PURE = ("graphviz", "tqdm", "threadpoolctl")
#: Pyodide itself; not all versions have all of these.
RUNTIME = (
    "pyodide.mjs", "pyodide.js", "pyodide.asm.js", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip",
    "pyodide-lock.json", "package.json",
)  # fmt: skip
FOR_CELLS = ("numpy", "pydoc-data")
FOR_LESSONS = ("matplotlib", "safetensors", "tqdm", "threadpoolctl")
FOR_KERNEL = ("ipython", "jedi", "micropip", "sqlite3", "ssl")
KERNEL = "@jupyterlite/pyodide-kernel-extension"
FIRST_CELL = f"""%pip install -q {" ".join((*FOR_CELLS, *FOR_LESSONS))} graphviz
%pip install -q --no-deps graphnet-rnn
from pathlib import Path
from viz.drawing.in_browser import load_graphviz

await load_graphviz(Path("viz-global.js").read_text())"""


def python_files(package: str) -> Iterator[tuple[str, bytes]]:
    """Files of an importable package or module, with their paths."""
    found = importlib.util.find_spec(package)
    assert found is not None
    assert found.origin is not None
    place = Path(found.origin)
    whole = found.submodule_search_locations is not None
    for path in sorted(place.parent.rglob("*")) if whole else [place]:
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(place.parents[1] if whole else place.parent).as_posix(), path.read_bytes()


def packed(packages: Iterable[str]) -> bytes:
    """Packages as a zip archive; the same files give the same bytes."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as target:
        for package in packages:
            for name, content in python_files(package):
                target.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return archive.getvalue()


def files_of(pyodide: Path, packages: Iterable[str]) -> list[Path]:
    """Files of Pyodide that these packages need, with the packages that they depend on."""
    listed = json.loads((pyodide / "pyodide-lock.json").read_text(encoding="utf-8"))["packages"]
    lock: dict[str, Any] = {_spelled(name): package for name, package in listed.items()}
    needed, waiting = {}, list(packages)
    while waiting:
        name = _spelled(waiting.pop())
        if name not in lock:
            sys.exit(f"in_a_browser: Pyodide in {pyodide} has no package {name}")
        if name not in needed:
            needed[name] = pyodide / lock[name]["file_name"]
            waiting += lock[name]["depends"]
    if missing := sorted(path.name for path in needed.values() if not path.exists()):
        sys.exit(
            f"in_a_browser: {pyodide} lacks {', '.join(missing)}; unpack the full distribution of Pyodide"
        )
    return [path for path in map(pyodide.joinpath, RUNTIME) if path.exists()] + sorted(needed.values())


def _spelled(name: str) -> str:
    """The name of a package as the index of packages spells it."""
    return name.lower().replace("_", "-")


def write_cells(folder: Path, pyodide: Path, graphviz: Path, packages: Iterable[str]) -> None:
    """Draw your cell."""
    (folder / "pyodide").mkdir(parents=True, exist_ok=True)
    for path in files_of(pyodide, packages):
        shutil.copyfile(path, folder / "pyodide" / path.name)
    for path in [*sorted(PAGE.iterdir()), graphviz]:
        if path.is_file():
            shutil.copyfile(path, folder / path.name)
    (folder / "graphnet.zip").write_bytes(packed([*OURS, *PURE]))


def lesson(source: Path, notebook_of: Any) -> Any:
    """A tutorial as a notebook, whose first cell installs graphnet in the browser."""
    import nbformat

    notebook = notebook_of(source)
    notebook.metadata["kernelspec"] = {
        "name": "python",
        "display_name": "Python (Pyodide)",
        "language": "python",
    }
    first = nbformat.v4.new_code_cell(FIRST_CELL, id="in-a-browser")
    first["metadata"] = {"jupyter": {"source_hidden": True}}
    notebook.cells.insert(1, first)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":  # JupyterLite opens its own files only
            cell.source = re.sub(r"\[([^\]]+)\]\(\.\./[^)]*\)", r"\1", cell.source)
    return notebook


def write_lessons(folder: Path, graphviz: Path) -> None:
    """The tutorials, in JupyterLite."""
    import nbformat

    opener = runpy.run_path(str(ROOT / "tutorials" / "__main__.py"))
    with tempfile.TemporaryDirectory() as place:
        contents, wheels = Path(place, "contents"), Path(place, "wheels")
        contents.mkdir()
        for source in opener["sources"]():
            nbformat.write(lesson(source, opener["notebook_of"]), contents / f"{source.stem}.ipynb")
        shutil.copyfile(ROOT / "tutorials" / "exercises.py", contents / "exercises.py")
        shutil.copyfile(graphviz, contents / graphviz.name)
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", wheels], cwd=ROOT, check=True
        )
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", wheels, "graphviz", "comm"],
            check=True,
        )
        options = [f"--piplite-wheels={wheel}" for wheel in sorted(wheels.iterdir())]
        subprocess.run(
            [
                sys.executable, "-m", "jupyter", "lite", "build", "--apps=lab", "--apps=notebooks",
                f"--contents={contents}", f"--output-dir={folder / 'lessons'}", *options,
            ],
            cwd=place, check=True,
        )  # fmt: skip
    settings_file = folder / "lessons" / "jupyter-lite.json"
    settings = json.loads(settings_file.read_text(encoding="utf-8"))
    config = settings["jupyter-config-data"]
    # Extensions of this environment's JupyterLab do not belong on the page.
    config["federated_extensions"] = [
        each for each in config["federated_extensions"] if each["name"] == KERNEL
    ]
    script = "pyodide.mjs" if (folder / "pyodide" / "pyodide.asm.mjs").exists() else "pyodide.js"
    config["litePluginSettings"][f"{KERNEL}:kernel"]["pyodideUrl"] = f"../../pyodide/{script}"
    settings_file.write_text(json.dumps(settings, indent=2), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--to", type=Path, metavar="FOLDER", default=FOLDER, help="output folder")
    parser.add_argument(
        "--pyodide", type=Path, required=True, help="folder of an unpacked Pyodide distribution"
    )
    parser.add_argument(
        "--graphviz", type=Path, required=True, help="viz-global.js of the npm package @viz-js/viz"
    )
    parser.add_argument("--without-lessons", action="store_true", help="write only Draw your cell")
    wanted = parser.parse_args()
    packages = FOR_CELLS if wanted.without_lessons else (*FOR_CELLS, *FOR_LESSONS, *FOR_KERNEL)
    write_cells(wanted.to, wanted.pyodide, wanted.graphviz, packages)
    if not wanted.without_lessons:
        write_lessons(wanted.to, wanted.graphviz)
    print(wanted.to / "draw_your_cell.html")
    return 0


if __name__ == "__main__":
    prepare_streams()
    sys.exit(main())
