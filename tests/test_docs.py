"""Programs of README, guides and design pages print the output that the pages show; named paths exist."""

from __future__ import annotations

import ast
import linecache
import re
import runpy
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib.figure
import mypy.api
import numpy as np
import pytest

from graphnet_rnn.apps.cli import all_commands, make_parser
from tests.newcomer.commands import programs
from tests.tables import case

from . import test_imports

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_of(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return [block for language, block in FENCED.findall(text) if language == "python"]


WITH_CODE = sorted(page.stem for page in DOCS.glob("*.md") if blocks_of(page))
#: Pages whose blocks are run by other tests below; the gallery has scripts with their pictures
#: (tests/viz/test_gallery.py).
OTHERWISE = (
    "gallery",
    "arrays_and_tables",
    "forecasting",
    "second_order",
    "hmm_and_rbm",
    "non_convex_losses",
    "curvature",
)
GUIDES = ["README", *(name for name in WITH_CODE if name not in OTHERWISE)]


def run_block(name: str, block: str, names: dict[str, Any]) -> Any:
    """Runs a block as a notebook does; returns the value of its last expression."""
    linecache.cache[name] = (len(block), None, block.splitlines(keepends=True), name)
    tree = ast.parse(block, name)
    shown = None
    if isinstance(tree.body[-1], ast.Expr):
        shown = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]
    exec(compile(tree, name, "exec"), names)
    return None if shown is None else eval(compile(shown, name, "eval"), names)


@pytest.mark.parametrize("guide", GUIDES)
def test_guides_run(
    guide: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs every block in one namespace and an empty folder; figures and pictures can be rendered."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    blocks = blocks_of(ROOT / "README.md" if guide == "README" else DOCS / f"{guide}.md")
    for thing in [run_block(f"{guide} {i}", block, names) for i, block in enumerate(blocks)]:
        if hasattr(thing, "_repr_mimebundle_"):
            assert set(thing._repr_mimebundle_()) - {"text/plain"}, f"{thing!r} shows itself as text only"
        if isinstance(thing, matplotlib.figure.Figure):
            assert thing.axes
    told = capsys.readouterr().out
    for wanted in TOLD.get(guide, ()):
        assert re.search(wanted, told), f"{guide} did not print {wanted!r}:\n{told}"
    if guide == "README":
        assert (tmp_path / "cell.svg").read_text(encoding="utf-8").count("<svg") == 1


#: Guide -> patterns of lines that it must print, because its prose mentions them.
TOLD = {
    "README": (r"[1-3]\.\d\d bits per character",),
    "quick_start": (r"[1-3]\.\d\d bits per character", r"\b0% wrong after 8 steps"),
    "coming_from_pytorch_and_keras": (
        r"label error rate 0\.[0-4]",
        r"\('(GRU|LSTM)', (8|16), ",
        r"\(16, 8, 8\)",
    ),
    "declaring_ops": (r"Wrong: law 2", r"smallest failing input"),
    "debugging_nans": (
        r"Sqrt\[3\] makes NaN \(layer features\)",
        r"x\[3\] holds NaN",
        r"TrainingError: .* Log\[2\]",
    ),
    "on_a_gpu": (r"0\.76", r"DeviceArray \d", r"\d -> \d"),
    "speed_and_memory": (r"stack rows", r"by layer", r"sqrt -> .* peak", r"layer0\.W_xi"),
    "long_sequences": (r"memory-20", r"\b0\.\d% wrong", r"[5-9]\d\.\d% wrong before", r"bits per symbol"),
    "music": (r"independent keys: [6-8]\.\d\d nats a frame, at least 1\.79", r"NADE: [23]\.\d\d nats"),
    "balls": (r"squared error per pixel 0\.00\d\d; previous frame 0\.01\d\d",),
    "natural_gradient_for_your_own_cell": (
        r"layer0\.b_h\n8 units of layer0\.W_hg, layer0\.b_g\n3 units of output\.W_ho, output\.b_o\n",
    ),
    "control": (r"Plan\(1 movements of 40 steps: mean cost \d.*1 settled", r", iLQR \d"),
    "exporting": (r"LSTM\(units=24\)", r"\(7, 3, 5\)"),
    "drawing": (r"lstm\.pdf", r"drawn by", r"more than limit=50"),
    "reading_a_run": (r"bits per character, \d\d\.\d% right",),
}


def test_guides_with_required_output_are_run() -> None:
    assert set(TOLD) <= {*GUIDES}


def test_examples_need_no_more_lines_than_keras_or_pytorch() -> None:
    """The page refers to this test. A section has blocks for the data, graphnet, and the other library."""

    def lines_of(block: str) -> int:
        """Lines without imports, comments, blank lines and swaps of axes; a wrapped statement is one line."""
        aside = re.compile(r"import |from |.*swapaxes|$")
        return sum(not aside.match(line.strip()) for line in ast.unparse(ast.parse(block)).splitlines())

    text = (DOCS / "coming_from_pytorch_and_keras.md").read_text(encoding="utf-8")
    _, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    assert len(sections) == 9
    for section in sections:
        title = section.splitlines()[0]
        (_, data), (_, here), (_, there) = FENCED.findall(section)
        for block in (data, here, there):
            ast.parse(block)
            assert all(len(line) <= 88 and ";" not in line for line in block.splitlines()), title
        assert lines_of(here) <= lines_of(there), title


@pytest.mark.slow
def test_programs_of_the_guides_pass_type_checks(tmp_path: Path) -> None:
    """mypy --strict, but for functions without annotations."""
    for guide in GUIDES:
        page = ROOT / "README.md" if guide == "README" else DOCS / f"{guide}.md"
        (tmp_path / f"{guide.lower()}.py").write_text("\n".join(blocks_of(page)), encoding="utf-8")
    options = (
        "--allow-untyped-defs",
        "--allow-untyped-calls",
        "--allow-incomplete-defs",
        "--ignore-missing-imports",
    )
    redefined = ("--allow-redefinition-new", "--local-partial-types", "--disable-error-code=override")
    paths = [str(path) for path in tmp_path.glob("*.py")]
    found, errors, status = mypy.api.run(
        ["--strict", *options, *redefined, "--follow-imports=silent", "--config-file=", *paths]
    )
    assert not status, found + errors


#: Search terms, by the page that answers them.
TERMS = {
    "arrays_and_tables": "one-hot, standardize, embedding, batch",
    "coming_from_pytorch_and_keras": "DataLoader, batch_first, nn.LSTM, state_dict, zero_grad, fit",
    "composing": "encoder, decoder, shared weights, multi-task",
    "curvature": "eigenvalues, trace, spectral density, Fisher, per-example gradients, LinearOperator",
    "data_parallel_training": "MPI, distributed, data-parallel",
    "debugging_nans": "NaN, infinity",
    "declaring_cells": "dropout, layer normalization, custom RNN cell, peephole",
    "early_stopping_and_callbacks": "early stopping, patience, callback, checkpoint, resume, metric, overfitting",
    "evaluating_text_models": "beam search, constrained generation",
    "exporting": "ONNX, PyTorch, standalone C, deploy",
    "faq": "seed, float64, cite, batch_first",
    "how_it_compares": "vmap, mixed precision, jit",
    "forecasting": "time series, forecast, horizon, lagged, seasonal, MAE, confusion matrix, DataFrame",
    "hessian_free_settings": "structural damping, preconditioner, weight decay",
    "hyperparameter_search": "hyperparameter, grid search, random search, cross-validation, Optuna, Hyperband",
    "long_sequences": "vanishing, long-term dependencies",
    "hmm_and_rbm": "hidden Markov model, contrastive divergence, Gibbs",
    "non_convex_losses": "CTC, surrogate, Gaussians",
    "natural_gradient": "natural gradient, K-FAC, Fisher",
    "on_a_gpu": "CUDA, GPU",
    "reading_a_run": "training curve, perplexity, accuracy",
    "schedules": "learning rate, warm-up, cosine, weight decay, weight averaging, freeze, parameter groups",
    "second_order": "Hessian-free, Gauss-Newton, conjugate gradient, L-BFGS, structural damping",
    "sequence_to_sequence": "seq2seq, encoder, decoder, teacher forcing, attention, beam search",
    "speed_and_memory": "profile, gradient checkpointing, out of memory, cache",
    "tables": "CSV, pandas, dates, categorical, one-hot, standardize",
    "threads": "reproducib, number of threads",
    "training": "gradient clipping, truncated backpropagation, language model, initialization, minibatch",
    "variable_length_sequences": "padding, mask, missing values, class weights, sequence lengths, CTC, classification",
    "which_optimizer": "Adam, RMSprop, momentum",
    "writing": "temperature",
}


def test_pages_contain_search_terms() -> None:
    missing = []
    for page, terms in TERMS.items():
        text = " ".join((DOCS / f"{page}.md").read_text(encoding="utf-8").lower().split())
        missing += [f"{page}: {term}" for term in terms.split(", ") if term.lower() not in text]
    assert not missing


def test_every_guide_is_run_for_the_site() -> None:
    text = (DOCS / "conf.py").read_text(encoding="utf-8")
    assigned = [node for node in ast.parse(text).body if isinstance(node, ast.Assign)]
    (listed,) = [node.value for node in assigned if ast.unparse(node.targets[0]) == "guides_that_run"]
    wanted = {*WITH_CODE} - {"gallery"}
    assert {*ast.literal_eval(listed)} == wanted, "add it to guides_that_run in docs/conf.py"


def test_commands_of_the_guides_are_valid() -> None:
    """Every `graphnet-rnn` line of a console block is a valid command."""
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
        make_parser().parse_args(shlex.split(line.removeprefix("$ "), comments=True)[1:])


@pytest.mark.filterwarnings("ignore:.*found in sys.modules")
def test_every_program_shows_its_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    for program in [*programs(), *(f"python -m graphnet_rnn {name}" for name in all_commands())]:
        run = runpy.run_module if " -m " in program else runpy.run_path
        name, *words = program.removeprefix("python ").removeprefix("-m ").split()
        monkeypatch.setattr(sys, "argv", [name, *words, "--help"])
        with case(program):
            with pytest.raises(SystemExit) as ended:
                run(name, run_name="__main__")
            assert not ended.value.code
            assert re.search("^(usage: |python3 run.py demo)", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("program", ["architectures", "gallery"])
def test_generated_pages_are_up_to_date(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [program, "--check"])
    assert runpy.run_path(str(DOCS / f"{program}.py"))["main"]() == 0, capsys.readouterr().out


def test_text_of_pictures_has_10_pixels_on_a_slide() -> None:
    for path in (DOCS / "architectures").glob("*.svg"):
        svg = path.read_text(encoding="utf-8")
        wide, high = map(float, re.search(r'viewBox="0.00 0.00 ([\d.]+) ([\d.]+)"', svg).groups())
        with case(path.name):
            assert (
                min(1600 / wide, 900 / high) * min(map(float, re.findall(r'font-size="([\d.]+)"', svg))) >= 10
            )


def test_training_on_arrays_guide_runs() -> None:
    trained, in_units, code = blocks_of(DOCS / "arrays_and_tables.md")
    names: dict[str, Any] = {}
    exec(trained, names)
    assert np.mean((names["outputs"] - names["t"]) ** 2) < 0.03  # of 0.07
    exec(in_units, names)
    assert 900 < names["predicted"].mean() < 1100
    exec(code, names)
    assert np.shape(names["outputs"]) == (30, 64, 1)
    assert names["result"].loss < 0.01


def test_forecasting_guide_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    table, steps = blocks_of(DOCS / "forecasting.md")
    names: dict[str, Any] = {}
    exec(table, names)
    hours = len(names["hours"]) + np.arange(24)
    expected = 50 + 20 * np.sin(hours / 24 * 2 * np.pi) + hours % 7
    assert abs(np.array(names["forecast"]["predicted_demand"]) - expected).mean() < 2.5
    exec(steps, names)
    assert names["error"] < 0.2


def test_second_order_guides_run() -> None:
    hessian_free, minimum, more = blocks_of(DOCS / "second_order.md")
    hmm, chain = blocks_of(DOCS / "hmm_and_rbm.md")
    (objective,) = blocks_of(DOCS / "non_convex_losses.md")
    names: dict[str, Any] = {}

    def after(block: str) -> SimpleNamespace:
        exec(block, names)
        return SimpleNamespace(**names)

    n = after(hessian_free)
    assert n.result.loss < 0.3 * n.result.reports[0].before
    n = after(minimum)
    assert np.allclose(n.result.theta, 1, atol=1e-6)
    assert n.result.reason == "tolerance"
    assert after(more).more.loss <= n.result.loss
    symbols = np.arange(40)[:, None] * np.arange(1, 9) % 5
    assert after(hmm).hmm.bits(symbols) < 2.0 < np.log2(5)
    n = after(chain)
    assert n.model.log_likelihood(n.patterns) > -8 * 6 * np.log(2) / 4
    n = after(objective)
    assert n.objective.loss(n.objective.start()) < 0.0


def test_curvature_guide_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    network, spectrum, fisher = blocks_of(DOCS / "curvature.md")
    names: dict[str, Any] = {}

    def after(block: str) -> SimpleNamespace:
        exec(block, names)
        return SimpleNamespace(**names)

    n = after(network)
    assert n.net.theta.shape == n.hessian.shape[:1]
    n = after(spectrum)
    assert np.trapezoid(n.density, n.points) == pytest.approx(1, abs=1e-2)
    assert n.points[n.density.argmax()] == pytest.approx(0, abs=0.1 * n.points.max())
    n = after(fisher)
    product = n.fisher @ n.v
    right = n.rows.T @ (n.rows @ n.v) / 100
    np.testing.assert_allclose(product, right, atol=1e-4 * np.abs(product).max())


DESIGN = ROOT / "docs" / "design"
STORY, INDEX = "life_of_W_hh", "index"
DESIGN_PAGES = sorted(page.stem for page in DESIGN.glob("*.md"))
#: Those about one part each.
PARTS = [page for page in DESIGN_PAGES if page not in (STORY, INDEX)]
#: Maximum number of lines of a function without its docstring, and functions that may have more: all
#: cases are inside a function that imports an optional library.
LINES = 60
LONGER = {f"benchmarks/others/{peer}_peer.py: costs" for peer in ("jax", "torch")}


def text_of(page: str) -> str:
    return (DESIGN / f"{page}.md").read_text(encoding="utf-8")


def paths_in(text: str) -> list[str]:
    """Project paths in backticks."""
    return re.findall(r"`((?:graphnet|graphnet_rnn|viz|docs|tests|benchmarks)/[\w./]*)`", text)


def test_paths_named_in_pages_and_glossary_exist() -> None:
    """Folders are written with a slash at the end, files without one."""
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    entries = re.findall(r"^- \*\*.+?\*\* \(`([\w./]+)`\): \S", glossary, re.MULTILINE)
    assert len(entries) == len(re.findall(r"^- ", glossary, re.MULTILINE)) > 30
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"\]\(([\w/.]+)\)|^\| `([\w/]+)` \|", readme, re.MULTILINE)
    assert len(named) > 6
    entries += [link or folder for link, folder in named]
    assert [path for path in entries if not (ROOT / path).exists()] == []
    for page in DESIGN_PAGES:
        places = [(path, ROOT / path) for path in paths_in(text_of(page))]
        wrong = [path for path, place in places if not place.exists() or path.endswith("/") != place.is_dir()]
        for module in re.findall(r"python -m (benchmarks\.\w+)", text_of(page)):
            place = ROOT / module.replace(".", "/")
            wrong += [] if place.is_dir() or place.with_suffix(".py").exists() else [module]
        assert not wrong, page


def test_files_can_be_read_in_the_order_of_the_page() -> None:
    """A file imports no later file of its list. The engine's files are short enough for an afternoon."""
    engine, framework = (
        [path for path in paths_in(part) if path.endswith(".py")]
        for part in text_of("reading_order").split("## The framework")
    )
    assert (len(engine), len(framework)) == (12 + 1, 8)  # the first names this file
    for listed in (engine[1:], framework):
        for number, file in enumerate(listed):
            imported = {
                name.replace(".", "/") + ".py" for name, _ in test_imports.files_of(file.split("/")[0])[file]
            }
            later = {
                name for name in listed[number + 1 :] if any(each.startswith(name[:-3]) for each in imported)
            }
            assert not later, file
    lines = [len((ROOT / file).read_text(encoding="utf-8").splitlines()) for file in engine[1:]]
    assert sum(lines) <= 3200  # with the examples of docstrings


def test_package_docstrings_name_existing_modules() -> None:
    seen = 0
    for package in ("graphnet", "graphnet_rnn", "viz"):
        for path in (ROOT / package).rglob("__init__.py"):
            text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            named = re.findall(r"^(\w+) {2,}\S", text, re.MULTILINE)
            if path.parent.name != "passes":  # whose table has the passes
                seen += len(named)
                assert set(named) <= {beside.stem for beside in path.parent.iterdir()}, path
    assert seen > 100


def test_every_folder_is_named_by_the_index_and_by_a_page() -> None:
    folders = {
        f"{path.parent.relative_to(ROOT).as_posix()}/"
        for package in ("graphnet", "graphnet_rnn", "viz")
        for path in (ROOT / package).rglob("*.py")
    }
    assert len(folders) > 30
    index = set(paths_in(text_of(INDEX)))
    pages = {path for page in PARTS for path in paths_in(text_of(page))}
    for folder in folders:
        package, part, *_ = folder.split("/")
        assert f"{package}/{part}/".replace("//", "/") in index, f"name {folder} in docs/design/index.md"
        # A page may also name a folder above it, or a file inside it.
        known = any(folder.startswith(path) or path.startswith(folder) for path in pages)
        assert known, f"name {folder} in a page of docs/design/, in its line 'Modules'"


def test_index_has_the_layers_of_test_imports() -> None:
    block = re.search(r"^```\n(.*?)^```", text_of(INDEX), re.DOTALL | re.MULTILINE)
    assert block
    shown: dict[str, list[tuple[str, ...]]] = {}
    package = ""
    for line in filter(None, block[1].splitlines()):
        begins = re.match(r"(\w+)/ +", line)
        if begins:
            package, line = begins[1], line[begins.end() :]
        shown.setdefault(package, []).append(tuple(line.strip().split(", ")))
    layers = (test_imports.LAYERS, test_imports.RNN_LAYERS, test_imports.VIZ_LAYERS)
    for name, held in zip(("graphnet", "graphnet_rnn", "viz"), layers, strict=True):
        assert shown[name] == [parts for parts in held if not parts[0].startswith("__")], name


def test_functions_are_short() -> None:
    found = {}
    for folder in ("graphnet", "graphnet_rnn", "viz", "benchmarks", "docs"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef):
                    # Count from the first statement after the docstring.
                    body = node.body[ast.get_docstring(node) is not None :]
                    lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
                    if lines > LINES:
                        found[f"{path.relative_to(ROOT).as_posix()}: {node.name}"] = lines
    assert found.keys() - LONGER == set(), "split it, or say in LONGER why it cannot be"
    assert LONGER - found.keys() == set(), "these are short enough again: remove their rows"


@pytest.mark.parametrize("page", [page for page in DESIGN_PAGES if "```python\n" in text_of(page)])
def test_code_blocks_of_a_design_page_print_their_output(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs every block in one namespace and an empty folder; each prints the text block below it, if any."""
    monkeypatch.chdir(tmp_path)
    block_and_shown = r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?"
    blocks = re.findall(block_and_shown, text_of(page), re.DOTALL | re.MULTILINE)
    assert len(blocks) == text_of(page).count("```python\n") > (8 if page == STORY else 0)
    assert sum(bool(shown) for _, shown in blocks) == text_of(page).count("```text\n")
    names: dict[str, Any] = {"__name__": "__main__"}
    for i, (block, shown) in enumerate(blocks):
        run_block(f"{page} {i}", block, names)
        assert capsys.readouterr().out == shown


def test_paper_cites_every_entry_of_its_bibliography() -> None:
    folder = ROOT / "paper"
    cited = set(re.findall(r"@(\w+)", (folder / "paper.md").read_text(encoding="utf-8")))
    listed = re.findall(r"^@\w+\{(\w+),", (folder / "paper.bib").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(cited) == sorted(listed)
