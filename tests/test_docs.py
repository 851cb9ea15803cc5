"""The README's and the guides' programs run, and the pages that programs make are what these make."""

from __future__ import annotations

import ast
import linecache
import re
import runpy
import shlex
import sys
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_of(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return [block for language, block in FENCED.findall(text) if language == "python"]


WITH_CODE = sorted(page.stem for page in DOCS.glob("*.md") if blocks_of(page))
#: Those whose blocks are run one after another by one test. Two have tests of their own, below, and the gallery has
#: scripts with their pictures (tests/viz/test_gallery.py).
GUIDES = [name for name in WITH_CODE if name not in ("gallery", "training_on_arrays", "second_order")]


def run_block(name: str, block: str, names: dict[str, Any]) -> Any:
    """Runs a block as a notebook does: the value of an expression at its end is what is shown."""
    linecache.cache[name] = (len(block), None, block.splitlines(keepends=True), name)
    tree = ast.parse(block, name)
    shown = None
    if isinstance(tree.body[-1], ast.Expr):
        shown = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]
    exec(compile(tree, name, "exec"), names)
    return None if shown is None else eval(compile(shown, name, "eval"), names)


@pytest.mark.parametrize("guide", GUIDES)
def test_a_guide_runs_as_it_stands(
    guide: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every block, in one namespace, in an empty folder; what it draws can be drawn."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = [
        run_block(f"{guide} {i}", block, names) for i, block in enumerate(blocks_of(DOCS / f"{guide}.md"))
    ]
    for thing in shown:
        if hasattr(thing, "_repr_mimebundle_"):
            pictured = set(thing._repr_mimebundle_()) - {"text/plain"}
            assert pictured, f"{guide}: {thing!r} shows itself as text only"
        if isinstance(thing, matplotlib.figure.Figure):
            assert thing.axes
    told = capsys.readouterr().out
    for wanted in TOLD.get(guide, ()):
        assert re.search(wanted, told), f"{guide} did not print {wanted!r}:\n{told}"


#: What must be among the lines that a guide prints: what its prose says of them.
TOLD = {
    "quick_start": (r"[1-3]\.\d\d bits per character", r"\b0% wrong after 8 steps"),
    "from_keras_and_pytorch": (r"label error rate 0\.[0-4]", r"\('(GRU|LSTM)', (8|16), ", r"\(16, 8, 8\)"),
    "adding_an_op": (r"Wrong: law 2", r"smallest failing input"),
    "finding_a_nan": (
        r"Sqrt\[3\] makes NaN \(layer features\)",
        r"x\[3\] holds NaN",
        r"TrainingError: .* Log\[2\] makes NaN",
    ),
    "on_a_gpu": (r"0\.76", r"DeviceArray \d", r"\d -> \d"),
    "speed_and_memory": (r"stack rows", r"by layer", r"sqrt -> .* peak", r"layer0\.W_xi"),
    "long_sequences": (r"memory-20", r"\b0\.\d% wrong", r"[5-9]\d\.\d% wrong before", r"bits per symbol"),
    "music": (r"independent keys: [6-8]\.\d\d nats a frame, at least 1\.79", r"NADE: [23]\.\d\d nats"),
    "balls": (r"squared error a pixel: 0\.00\d\d; of the frame before: 0\.01\d\d",),
    "control": (r"Plan\(1 movements of 40 steps: mean cost \d.*1 settled", r", iLQR \d"),
    "exchange": (r"LSTM\(units=24\)", r"\(7, 3, 5\)"),
    "drawing": (r"lstm\.pdf", r"drawn by", r"more than limit=50"),
    "reading_a_run": (r"bits per character, \d\d\.\d% right",),
}


def lines_of(block: str) -> int:
    """Those that do something: no imports, comments, blank lines, and none that only brings cases to the front."""
    told = [line.strip() for line in block.splitlines()]
    return sum(
        bool(line) and not line.startswith(("#", "import ", "from ")) and "swapaxes" not in line
        for line in told
    )


def test_each_job_takes_no_more_lines_than_in_keras_or_pytorch() -> None:
    """The page says that this counts them. A section has data, the job here, and the job there."""
    text = (DOCS / "from_keras_and_pytorch.md").read_text(encoding="utf-8")
    _, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    assert len(sections) == 9
    for section in sections:
        title = section.splitlines()[0]
        (_, data), (_, here), (_, there) = FENCED.findall(section)
        for block in (data, here, there):
            ast.parse(block)
            assert all(len(line) <= 120 and ";" not in line for line in block.splitlines()), title
        assert lines_of(here) <= lines_of(there), title


def test_code_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every block, one after another in one namespace, as a reader would paste them."""
    monkeypatch.chdir(tmp_path)
    blocks = blocks_of(ROOT / "README.md")
    assert len(blocks) >= 3
    names: dict[str, Any] = {"__name__": "readme"}
    for i, block in enumerate(blocks):
        run_block(f"README {i}", block, names)
    assert "simplify" in capsys.readouterr().out
    assert (tmp_path / "lstm.svg").read_text(encoding="utf-8").count("<svg") == 1


def test_files_that_the_readme_names_are_there() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"\]\(([\w/.]+)\)", text) + re.findall(r"^\| `([\w/]+)` \|", text, flags=re.MULTILINE)
    assert len(named) > 6
    assert not [name for name in named if not (ROOT / name).exists()]


def test_every_guide_is_run_for_the_site() -> None:
    tree = ast.parse((DOCS / "conf.py").read_text(encoding="utf-8"))
    (listed,) = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "guides_that_run"
    ]
    assert {*listed} == {*WITH_CODE} - {"gallery"}, "add it to guides_that_run in docs/conf.py"


def test_commands_of_the_guides_are_understood() -> None:
    """Every `graphnet-rnn` line of a console block is one that the command line takes."""
    from graphnet_rnn.cli import make_parser

    lines = [
        line
        for page in [*DOCS.glob("*.md"), ROOT / "README.md"]
        for language, block in FENCED.findall(page.read_text(encoding="utf-8"))
        if language in ("", "console")
        for line in block.replace("\\\n", " ").splitlines()
        if re.match(r"(\$ )?graphnet-rnn ", line)
    ]
    assert len(lines) > 15
    for line in lines:
        words = shlex.split(line.removeprefix("$ "), comments=True)[1:]
        make_parser().parse_args(words)


@pytest.mark.parametrize("program", ["architectures", "gallery"])
def test_pages_are_what_their_programs_write(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [program, "--check"])
    assert runpy.run_path(str(DOCS / f"{program}.py"))["main"]() == 0, capsys.readouterr().out


def test_training_on_arrays_runs_as_it_stands() -> None:
    trained, code, reservoir = blocks_of(DOCS / "training_on_arrays.md")
    exec(reservoir, {})
    names: dict[str, Any] = {}
    exec(trained, names)
    assert np.mean((names["outputs"] - names["t"]) ** 2) < 0.03  # of 0.07
    exec(code, names)
    assert np.shape(names["outputs"]) == (30, 64, 1)
    assert names["result"].loss < 0.01


def test_training_with_curvature_runs_as_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    blocks = blocks_of(DOCS / "second_order.md")
    assert len(blocks) == 9
    names: dict[str, Any] = {}
    exec(blocks[0], names)
    assert np.allclose(names["result"].theta, 1, atol=1e-6)
    assert names["result"].reason == "tolerance"
    exec(blocks[1], names)
    assert names["more"].loss <= names["result"].loss
    exec(blocks[2], names)
    assert names["result"].loss < 0.3 * names["result"].reports[0].before
    exec(blocks[3], names)
    assert names["hmm"].bits(np.arange(40)[:, None] * np.arange(1, 9) % 5) < 2.0 < np.log2(5)
    exec(blocks[4], names)
    assert names["model"].log_likelihood(names["patterns"]) > -8 * 6 * np.log(2) / 4
    exec(blocks[5], names)
    assert names["objective"].loss(names["objective"].start()) < 0.0
    exec(blocks[6], names)
    assert names["net"].theta.shape == names["hessian"].shape[:1]
    exec(blocks[7], names)
    assert np.trapezoid(names["density"], names["points"]) == pytest.approx(1, abs=1e-2)
    assert names["points"][names["density"].argmax()] == pytest.approx(0, abs=0.1 * names["points"].max())
    exec(blocks[8], names)
    scale = np.abs(names["fisher"] @ names["v"]).max()
    product = names["rows"].T @ (names["rows"] @ names["v"]) / 100
    np.testing.assert_allclose(names["fisher"] @ names["v"], product, atol=1e-4 * scale)
