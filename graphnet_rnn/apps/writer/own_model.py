"""The small model that comes with the package, and how it is made: it writes Python's documentation.

    python -m graphnet_rnn.apps.writer.own_model text python.txt
    graphnet-rnn train python.txt --cell "LSTM(units=256)" --recurrent-dropout 0.3 --time 100 \
        --schedule "ExponentialDecay(0.85, after=8).by_epoch()" --epochs 32 --sample 0 --out runs/documentation
    python -m graphnet_rnn.apps.writer.own_model keep runs/documentation/model.safetensors

The text is that of the topics of `help()`, and of the docstrings of the standard library's public modules: as the
Python that runs it has them, under the license of Python.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import sys
from importlib import resources
from inspect import cleandoc
from pathlib import Path

from graphnet.system.streams import prepare_streams
from graphnet_rnn.errors import UsageError
from graphnet_rnn.files.whole import write_atomically
from graphnet_rnn.formats.model_file import read_model_file

#: Maximum size of the file, in bytes.
LARGEST = 2 << 20
#: Minimum length of a docstring.
LEAST = 80


def own_model() -> Path:
    """Path of the model in the package."""
    return Path(str(resources.files("graphnet_rnn.apps.writer").joinpath("assets", "python.safetensors")))


def documentation() -> str:
    """Training text, in ASCII; rare characters would only enlarge the model."""
    from pydoc_data.topics import topics

    pieces = [*topics.values()]
    for name in sorted(sys.stdlib_module_names):
        if not name.startswith("_") and name not in ("antigravity", "this", "idlelib", "lib2to3", "test"):
            pieces += _docstrings(name)
    seen: dict[str, None] = {}
    for piece in pieces:
        text = cleandoc(piece).strip()
        if len(text) >= LEAST and all(c == "\n" or " " <= c <= "~" for c in text):
            seen[text] = None
    return "\n\n".join(seen) + "\n"


def _docstrings(name: str) -> list[str]:
    spec = importlib.util.find_spec(name)
    if spec is None or not (spec.origin or "").endswith(".py"):
        return []
    assert spec.origin is not None
    origin = Path(spec.origin)
    files = sorted(origin.parent.glob("*.py")) if origin.name == "__init__.py" else [origin]
    found = []
    for file in files:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                found.append(ast.get_docstring(node) or "")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m graphnet_rnn.apps.writer.own_model",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=("text", "keep"))
    parser.add_argument("file", type=Path)
    chosen = parser.parse_args()
    if chosen.what == "text":
        text = documentation()
        write_atomically(chosen.file, text.encode())
        print(f"{len(text):,} characters, {len(set(text))} different")
        return
    read_model_file(chosen.file)
    content = chosen.file.read_bytes()
    if len(content) > LARGEST:
        raise UsageError(
            f"{chosen.file} has {len(content):,} bytes, more than the {LARGEST:,} that may be shipped"
        )
    write_atomically(own_model(), content)
    print(f"{own_model()}: {len(content):,} bytes")


if __name__ == "__main__":
    prepare_streams()
    main()
