"""Every tutorial runs and draws its pictures; its exercises check answers."""

from __future__ import annotations

import ast
import bisect
import io
import json
import os
import re
import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.tables import case

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "tutorials"
TUTORIALS = sorted(FOLDER.glob("[0-9][0-9]_*.py"))


def cells_of(path: Path) -> list[tuple[str, str]]:
    """Returns (text after `# %%`, content) of each cell; comment signs of prose are removed."""
    head, *cells = re.split(r"^# %%(.*)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert not head.strip(), f"{path.name} starts with something that is in no cell"
    pairs = zip(cells[::2], cells[1::2], strict=True)
    signs = re.compile(r"^# ?", re.MULTILINE)
    return [(kind.strip(), signs.sub("", text) if "[markdown]" in kind else text) for kind, text in pairs]


@pytest.fixture
def exercises() -> ModuleType:
    """A new copy of the module `exercises`."""
    module = ModuleType("exercises")
    exec((FOLDER / "exercises.py").read_text(encoding="utf-8"), vars(module))
    return module


def exercises_of(path: Path) -> list[int]:
    text = path.read_text(encoding="utf-8")
    return [int(n) for n in re.findall(r"^# #+ Exercise (\d+)", text, re.MULTILINE)]


def test_tutorials_are_listed_and_exercises_have_the_same_form() -> None:
    """Each exercise has a heading, a cell with dots, and a hidden cell with its check. Links exist."""
    assert [int(path.name[:2]) for path in TUTORIALS] == list(range(1, len(TUTORIALS) + 1))
    listed = re.findall(r"\]\((\w+\.py)\)", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert listed == [path.name for path in TUTORIALS] != []
    for path in TUTORIALS:
        with case(path.name):
            cells, numbers = cells_of(path), exercises_of(path)
            prose = "\n".join(text for kind, text in cells if "[markdown]" in kind)
            linked = re.findall(r"\]\((?!https?:)([^)#]+)", prose)
            assert not [link for link in linked if not (FOLDER / link).exists()]
            assert numbers == list(range(1, len(numbers) + 1))
            assert len(numbers) >= 2
            for n in numbers:
                dots = re.compile(rf"^answer_{n} = \.\.\.", re.MULTILINE)
                check = re.compile(rf"^check\(\s*{n},\s*answer_{n},", re.MULTILINE)
                assert sum(bool(dots.search(text)) for _, text in cells) == 1
                (kind,) = [kind for kind, text in cells if check.search(text)]
                assert kind == 'tags=["hide-input"] jupyter={"source_hidden": true}'


def shown_by(value: Any) -> None:
    """Renders the last value of a cell, which must not fail."""
    assert " at 0x" not in repr(value), "what a cell ends with differs in each run; end it otherwise"
    if hasattr(value, "_repr_mimebundle_"):
        assert {"image/svg+xml", "text/html"} & set(value._repr_mimebundle_()), repr(value)
    elif hasattr(value, "savefig"):
        value.savefig(io.BytesIO())


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_run(
    path: Path, exercises: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs all cells and shows their last values. Checks accept the solutions and reject wrong answers."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    pyplot.switch_backend("agg")
    monkeypatch.setitem(sys.modules, "exercises", exercises)
    exercises.on_trial = True
    script = ModuleType("__main__")
    script.__file__ = str(path)
    monkeypatch.setitem(sys.modules, "__main__", script)
    shown = []
    show = lambda value: value is None or shown.append(value) or shown_by(value)
    monkeypatch.setattr(sys, "displayhook", show)
    source = path.read_text(encoding="utf-8")
    starts = [i for i, line in enumerate(source.splitlines(), start=1) if line.startswith("# %%")]
    statements = ast.parse(source).body
    cells = [bisect.bisect(starts, statement.lineno) for statement in statements]
    try:
        for statement, cell, following in zip(statements, cells, [*cells[1:], None], strict=True):
            # As "single", an expression's value goes to the displayhook.
            last = isinstance(statement, ast.Expr) and cell != following
            code = ast.Interactive([statement]) if last else ast.Module([statement], [])
            exec(compile(code, str(path), "single" if last else "exec"), vars(script))
        for number in pyplot.get_fignums():  # notebooks show figures at the ends of their cells
            pyplot.figure(number).savefig(io.BytesIO())
            shown.append(number)
    finally:
        pyplot.close("all")
    assert exercises.met == exercises_of(path)
    assert shown
    assert not list(tmp_path.iterdir()), "a tutorial leaves nothing behind"


def test_exercise_checks_print_the_right_message(
    exercises: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """Checks of answers of all kinds: missing, right, wrong, of another shape or type."""
    asked: dict[str, Any] = {"solution": [4, -6], "wrong": [[2, -3]], "hint": "Mind the 2."}
    for answer, told in (
        (..., "Exercise 1: no answer yet"),
        ([4.0, -6.001], "Exercise 1: right!"),
        ([4.0, -6.1], "Exercise 1: not yet. Hint: Mind the 2."),
        ([[4, -6]], "the answer has the shape [1, 2]; it should be [2]"),
        ("four", "could not convert string"),
        (None, "not yet"),
    ):
        exercises.check(1, answer, **asked)
        assert told in capsys.readouterr().out
    exercises.on_trial = True
    exercises.check(1, ..., **asked)
    for answer, change, complaint in (
        (..., {"right": lambda answer: True}, "accepts"),
        (..., {"right": lambda answer: False}, "rejects its solution"),
        (..., {"wrong": [[4, -6]]}, "accepts"),
        (..., {"wrong": []}, "no wrong answer"),
        ([4, -6], {}, "already"),
    ):
        with pytest.raises(AssertionError, match=complaint):
            exercises.check(1, answer, **{**asked, **change})


@pytest.fixture
def opener() -> SimpleNamespace:
    """Namespace of tutorials/__main__.py."""
    pytest.importorskip("jupytext", reason="the extra `tutorials` is not installed")
    return SimpleNamespace(**runpy.run_path(str(FOLDER / "__main__.py")))


def test_notebooks_are_written_once(
    opener: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook with a learner's answers is never overwritten, even if the tutorial changes."""
    first, *_ = opener.write_notebooks(tmp_path)
    assert [path.stem for path in TUTORIALS] == sorted(path.stem for path in tmp_path.glob("*.ipynb"))
    before = first.read_bytes()
    cells = json.loads(before)["cells"]
    assert cells[0]["source"][0].startswith("# 1 · ")
    assert any(cell["metadata"].get("jupyter", {}).get("source_hidden") for cell in cells)
    sixth = (tmp_path / f"{TUTORIALS[5].stem}.ipynb").read_text(encoding="utf-8")
    guides = re.findall(r"\]\(([^)]*/docs/[^)]*)\)", sixth)
    assert guides
    assert all((tmp_path / guide).is_file() for guide in guides)
    assert not capsys.readouterr().out

    changed = lambda content: type("", (), {"hexdigest": lambda self: "new"})()
    answered = before.replace(b"answer_1 = ...", b"answer_1 = 42")
    assert answered != before
    for learners, other, told in (
        (answered, None, ""),
        (answered, changed, f"{first.name}: kept"),
        (b"not a notebook", None, f"{first.name}: kept"),
    ):
        first.write_bytes(learners)
        with monkeypatch.context() as patch:
            if other:
                patch.setattr(opener.hashlib, "sha256", other)
            opener.write_notebooks(tmp_path)
        said = capsys.readouterr().out
        assert first.read_bytes() == learners
        assert told in said if told else not said
    first.unlink()
    opener.write_notebooks(tmp_path)
    assert first.read_bytes() == before


def test_notebooks_run_and_show_pictures(opener: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="the extra `tutorials` is not installed")
    pytest.importorskip("ipykernel", reason="the extra `tutorials` is not installed")
    places = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(places))
    notebook = opener.notebook_of(TUTORIALS[0])
    where = {"metadata": {"path": str(FOLDER)}}
    nbclient.NotebookClient(notebook, timeout=300, resources=where).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/svg+xml" in output.get("data", {}) for output in outputs)
    printed = "".join(output.get("text", "") for output in outputs)
    assert "no answer yet" in printed
    assert "made at In[2]:1" in printed  # errors name the notebook's cell, not Jupyter's temporary file


def test_pages(opener: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tutorial that fails is reported, its page shows the error, and the others still run."""
    pytest.importorskip("nbconvert", reason="the extra `tutorials` is not installed")
    wrong, right = tmp_path / "01_wrong.py", tmp_path / "02_right.py"
    wrong.write_text("# %% [markdown]\n# # 1 · Wrong\n\n# %%\n1 / 0\n", encoding="utf-8")
    right.write_text(
        "# %% [markdown]\n# # 2 · Right\n# See [tutorial 1](01_wrong.py).\n\n# %%\n6 * 7\n\n"
        '# %% tags=["hide-input"] jupyter={"source_hidden": true}\nsecret = 1\n',
        encoding="utf-8",
    )
    assert opener.execute([wrong, right], tmp_path / "pages") == 1
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert "ZeroDivisionError" in (tmp_path / "pages" / "01_wrong.html").read_text(encoding="utf-8")
    page = (tmp_path / "pages" / "02_right.html").read_text(encoding="utf-8")
    assert "<title>2 · Right</title>" in page
    assert ">42<" in re.sub(r"\s", "", page)
    assert 'href="01_wrong.html"' in page
    assert "secret" not in page
    # The page loads nothing from the network.
    assert not re.findall(r'<(?:script|link|img)[^>]* (?:src|href)="(https?:[^"]+)"', page)


def test_other_arguments_are_passed_to_jupyterlab(
    opener: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    done = lambda command, **how: commands.append(command) or SimpleNamespace(returncode=0)
    monkeypatch.setattr(opener.subprocess, "run", done)
    monkeypatch.setitem(sys.modules, "jupyterlab", ModuleType("jupyterlab"))
    monkeypatch.setattr(sys, "argv", ["tutorials", "2", "--to", str(tmp_path), "--no-browser", "--port=9000"])
    assert opener.main() == 0
    assert commands[0][-3:] == [f"{TUTORIALS[1].stem}.ipynb", "--no-browser", "--port=9000"]
    for words in (["--execute", "--quickly"], ["99"]):
        monkeypatch.setattr(sys, "argv", ["tutorials", *words])
        with pytest.raises(SystemExit):
            opener.main()
    assert len(commands) == 1
