"""Open the tutorials as notebooks in JupyterLab.

python3 run.py tutorials                   open all tutorials in a browser
python3 run.py tutorials 3                 open the third tutorial
python3 run.py tutorials --execute         run all without a browser, and write an HTML page for each
python3 run.py tutorials --execute 1 2 --to pages
python3 run.py tutorials 3 --no-browser    pass other options to JupyterLab: --no-browser, --port 9000, --allow-root

The notebooks are copies in tutorials/notebooks. Your changes in them are never overwritten.
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
#: Do not break words in the printed output of cells.
PAGE_STYLE = "<style>.jp-OutputArea-output pre { word-break: normal; overflow-wrap: anywhere; }</style>"
MISSING = "The package {} is missing: pip install 'graphnet-rnn[tutorials]', or run python3 run.py tutorials."


def sources() -> list[Path]:
    """The tutorials, in order."""
    return sorted(HERE.glob("[0-9][0-9]_*.py"))


def notebook_of(source: Path, suffix: str = ".ipynb", folder: Path = HERE) -> Any:
    """A tutorial as a notebook in `folder`.

    suffix: ending of links to other tutorials. Links to guides are relative to `folder`.
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
        cell["id"] = f"cell-{i}"  # not random: the same tutorial gives the same bytes
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"(\]\(\d\d_\w+)\.py\)", rf"\1{suffix})", cell.source)
            cell.source = cell.source.replace("](../docs/", f"]({docs}/")
    return notebook


def write_notebooks(folder: Path) -> list[Path]:
    """Write the notebooks that `folder` lacks, and keep the others. Returns all paths."""
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
            print(
                f"{path.name}: kept, but the tutorial has changed. Delete the notebook to get the new version."
            )
        paths.append(path)
    return paths


def _made_from(path: Path) -> Any:
    import nbformat

    try:
        return nbformat.read(path, as_version=4).metadata.get("made_from")
    except (ValueError, OSError, nbformat.reader.NotJSONError):
        return None


def execute(chosen: list[Path], folder: Path) -> int:
    """Run tutorials, write their pages, and print errors. Returns the number of tutorials that failed."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError
    from nbconvert import HTMLExporter
    from traitlets.config import Config

    folder.mkdir(parents=True, exist_ok=True)
    hidden = Config({"TagRemovePreprocessor": {"enabled": True, "remove_input_tags": {"hide-input"}}})
    # The pages have no TeX formulas and no widgets, so they need no scripts from other servers.
    exporter = HTMLExporter(config=hidden, mathjax_url="", require_js_url="")
    failed = 0
    for source in chosen:
        notebook = notebook_of(source, ".html", folder)
        try:
            NotebookClient(
                notebook,
                timeout=600,
                resources={"metadata": {"path": str(HERE)}},
                extra_arguments=["--IPKernelApp.log_level=ERROR"],  # hides a warning that each kernel prints
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
            sys.exit(
                f"tutorials: tutorial {number} does not exist. Choose from {', '.join(map(str, known))}."
            )
    return [known[number] for number in numbers] or list(known.values())


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 run.py tutorials", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("number", type=int, nargs="*", help="numbers of tutorials (default: all)")
    parser.add_argument(
        "--execute", action="store_true", help="run the tutorials and write HTML pages, without a browser"
    )
    parser.add_argument(
        "--to", type=Path, metavar="FOLDER", help="output folder (default: tutorials/notebooks)"
    )
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
