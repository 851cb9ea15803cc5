"""Opens the tutorials as notebooks, in JupyterLab.

python3 run.py tutorials                   all of them, in a browser
python3 run.py tutorials 3                 the third
python3 run.py tutorials --execute         runs them, without a browser, and writes a page (HTML) of each
python3 run.py tutorials --execute 1 2 --to pages
python3 run.py tutorials 3 --no-browser    any other word is JupyterLab's: --no-browser, --port 9000, --allow-root

The notebooks are copies, in tutorials/notebooks: what you write into them is yours, and is never overwritten.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from graphnet.system.files import write_whole
from graphnet.system.streams import prepare_streams

HERE = Path(__file__).resolve().parent
#: Words in what a cell prints stay whole at the ends of lines.
PAGE_STYLE = "<style>.jp-OutputArea-output pre { word-break: normal; overflow-wrap: anywhere; }</style>"
MISSING = "tutorials need {}; `python3 run.py tutorials` installs it, or: pip install 'graphnet[tutorials]'."


def sources() -> list[Path]:
    """The tutorials, in order."""
    return sorted(HERE.glob("[0-9][0-9]_*.py"))


def notebook_of(source: Path, suffix: str = ".ipynb", folder: Path = HERE) -> Any:
    """The notebook that a tutorial is, to lie in a folder.

    Its links lead to the other tutorials as files with this suffix, and to the guides from that folder.
    """
    import jupytext

    notebook = jupytext.read(source)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    notebook.metadata = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "language_info": {"name": "python"},
        "made_from": {"file": source.name, "sha256": digest},
    }
    docs = Path(os.path.relpath(HERE.parent / "docs", folder.resolve())).as_posix()
    for i, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{i}"  # not at random: the same tutorial, the same bytes
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"(\]\(\d\d_\w+)\.py\)", rf"\1{suffix})", cell.source)
            cell.source = cell.source.replace("](../docs/", f"]({docs}/")
    return notebook


def write_notebooks(folder: Path) -> list[Path]:
    """The notebooks in a folder: those that are not there yet are written, the others kept."""
    import nbformat

    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "exercises.py", (HERE / "exercises.py").read_bytes(), durable=False)
    paths = []
    for source in sources():
        path = folder / f"{source.stem}.ipynb"
        new = notebook_of(source, folder=folder)
        if not path.exists():
            write_whole(path, f"{nbformat.writes(new).rstrip()}\n".encode())
        elif _made_from(path) != new.metadata["made_from"]:
            print(f"{path.name}: kept, though the tutorial has changed since; delete it to get the new one.")
        paths.append(path)
    return paths


def _made_from(path: Path) -> Any:
    import nbformat

    try:
        return nbformat.read(path, as_version=4).metadata.get("made_from")
    except (ValueError, OSError, nbformat.reader.NotJSONError):
        return None


def execute(chosen: list[Path], folder: Path) -> int:
    """Runs tutorials and writes their pages; tells those that fail. The number of those is returned."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError
    from nbconvert import HTMLExporter
    from traitlets.config import Config

    folder.mkdir(parents=True, exist_ok=True)
    hidden = Config({"TagRemovePreprocessor": {"enabled": True, "remove_input_tags": {"hide-input"}}})
    # The pages show no formulas in TeX and no widgets: without scripts from elsewhere they open without a network.
    exporter = HTMLExporter(config=hidden, mathjax_url="", require_js_url="")
    failed = 0
    for source in chosen:
        notebook = notebook_of(source, ".html", folder)
        try:
            NotebookClient(
                notebook,
                timeout=600,
                resources={"metadata": {"path": str(HERE)}},
                extra_arguments=[
                    "--IPKernelApp.log_level=ERROR"
                ],  # a warning for each kernel, about other users
            ).execute()
        except CellExecutionError as error:
            failed += 1
            print(f"{source.name} failed:\n{error}", file=sys.stderr)
        page, _ = exporter.from_notebook_node(notebook, {"metadata": {"name": _title(notebook)}})
        path = folder / f"{source.stem}.html"
        write_whole(path, page.replace("</head>", f"{PAGE_STYLE}\n</head>", 1).encode(), durable=False)
        print(path)
    return failed


def _title(notebook: Any) -> str:
    return str(notebook.cells[0].source.splitlines()[0].removeprefix("# "))


def _chosen(numbers: list[int]) -> list[Path]:
    known = {int(source.name[:2]): source for source in sources()}
    for number in numbers:
        if number not in known:
            sys.exit(f"tutorials: there is no tutorial {number}; there are {', '.join(map(str, known))}.")
    return [known[number] for number in numbers] or list(known.values())


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 run.py tutorials", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("number", type=int, nargs="*", help="which tutorials; all where none is given")
    parser.add_argument("--execute", action="store_true", help="run them and write HTML, without a browser")
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="where to write (tutorials/notebooks)")
    wanted, others = parser.parse_known_args()
    if wanted.execute and others:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    folder = wanted.to or HERE / "notebooks"
    try:
        chosen = _chosen(wanted.number)
        if wanted.execute:
            return 1 if execute(chosen, folder) else 0
        write_notebooks(folder)
        import jupyterlab  # noqa: F401
    except ModuleNotFoundError as error:
        sys.exit(MISSING.format(error.name))
    start = f"{chosen[0].stem}.ipynb"
    return subprocess.run(
        [sys.executable, "-m", "jupyterlab", start, *others], cwd=folder, check=False
    ).returncode


if __name__ == "__main__":
    prepare_streams()
    sys.exit(main())
