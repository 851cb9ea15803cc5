"""Writes docs/gallery.md and its pictures: the figures of Lynge 2016, chapter 3, each by a short script.

    python docs/gallery.py [--check]

A script, docs/gallery/figure_*.py, has a docstring of a title and a caption, and assigns `pictures`: name -> drawing.
--check writes nothing, and fails if the page is not what it would write.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import viz
from graphnet.system.streams import prepare_streams

FOLDER = Path(__file__).parent / "gallery"

HEADING = """# Gallery of figures

Copy a script to draw a graph, a network over time, a cell or text generation. The pictures are figures 3.1 to 3.7 of
Lynge's thesis on recurrent networks (2016).

Black squares are data and parameters, gray squares are labels, circles are operations, and the cost is red. Blue edges
come from input data, red edges lead to the output, and green edges lead from a prediction to the next input.

[Architectures](architectures.md) has pictures of all cells, [drawing](drawing.md) explains all options.
`python docs/gallery.py` generates this page and the pictures.
"""


def scripts() -> list[Path]:
    return sorted(FOLDER.glob("figure_*.py"))


def pictures_of(script: Path) -> Mapping[str, viz.Drawing]:
    found: Mapping[str, viz.Drawing] = runpy.run_path(str(script))["pictures"]
    return found


def file_of(script: Path, name: str) -> str:
    return f"{script.stem}{f'_{name}' if name else ''}.svg"


def page() -> str:
    """The page as Markdown."""
    return "\n".join([HEADING, *(line for script in scripts() for line in section(script))])


def section(script: Path) -> Iterator[str]:
    number = script.stem.removeprefix("figure_").replace("_", ".")
    _, said, code = script.read_text(encoding="utf-8").split('"""', 2)
    title, caption = said.strip().split("\n\n")
    yield f"## {title} (figure {number})\n\n{caption}\n"
    for name in pictures_of(script):
        yield f"![Figure {number} {name}](gallery/{file_of(script, name)})\n"
    yield f"```python\n{code.strip()}\n```\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is out of date")
    target = FOLDER.parent / "gallery.md"
    files = {
        FOLDER / file_of(script, name): drawing
        for script in scripts()
        for name, drawing in pictures_of(script).items()
    }
    if parser.parse_args().check:
        missing = [path.name for path in files if not path.is_file()]
        if target.read_text(encoding="utf-8") != page() or missing:
            print(f"docs/gallery.md is out of date (pictures missing: {missing}); run python docs/gallery.py")
            return 1
        return 0
    for path, drawing in files.items():
        drawing.save(path)
    target.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    prepare_streams()
    sys.exit(main())
