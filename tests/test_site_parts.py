"""What the site adds to Sphinx: docstrings, formulas, names, tutorials."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.tables import case

ROOT = Path(__file__).parent.parent
MISSING = [name for name in ("sphinx", "latex2mathml", "jupytext") if importlib.util.find_spec(name) is None]

pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"the extra 'docs' is not installed: there is no {', '.join(MISSING)}"
)


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module(f"extensions.{request.param}")


docstrings = pytest.mark.parametrize("part", ["docstrings"], indirect=True)
formulas = pytest.mark.parametrize("part", ["formulas"], indirect=True)
guides = pytest.mark.parametrize("part", ["guides"], indirect=True)
names = pytest.mark.parametrize("part", ["names"], indirect=True)


def told(part: ModuleType, text: str, *parameters: str) -> list[str]:
    return [line for line in part.restructured(text.splitlines(), parameters) if line]


@docstrings
def test_parts_of_a_docstring(part: ModuleType) -> None:
    text = """y = x W, and b

rate: ε. steps: how many; a number
that goes on. `check=True`: looks.
Then another sentence.
Raises ShapeError for a_b.
Source: Author 1990, eq. 1."""
    assert told(part, text, "rate", "steps", "check") == [
        ".. rst-class:: formula",
        "y = x W, and b",
        ".. rst-class:: parameter",
        "**rate**: ε.",
        ".. rst-class:: parameter",
        "**steps**: how many; a number that goes on.",
        ".. rst-class:: parameter",
        "**check=True**: looks.",
        "Then another sentence.",
        ".. rst-class:: raises",
        r"**Raises** :py:obj:`ShapeError <graphnet.ShapeError>` for a\_b.",
        ".. rst-class:: source",
        "Source: Author 1990, eq. 1.",
    ]


@docstrings
def test_formula_or_sentence(part: ModuleType) -> None:
    for first, kind in [
        ("y = f(x)", "formula"),
        ("for all l:  s ← (1 - t) s", "formula"),
        ("Jv: for each output y, R{y} = ...", "formula"),
        ("A node that is one (`value = 3`), and no more", "summary"),
        ("Says in many words what is = to something else", "summary"),
    ]:
        with case(first, kind):
            assert told(part, first)[0] == f".. rst-class:: {kind}"


@docstrings
def test_code_and_columns(part: ModuleType) -> None:
    text = """What it is.

x = make(1)

    more(x)

states   those of both,
         one after the other
two words  what they are"""
    assert told(part, text) == [
        ".. rst-class:: summary",
        "What it is.",
        ".. code-block:: python",
        "   x = make(1)",
        "       more(x)",
        ".. rst-class:: columns",
        "``states``",
        "   those of both, one after the other",
        "**two words**",
        "   what they are",
    ]


@docstrings
def test_markup_by_chance_is_text(part: ModuleType) -> None:
    assert told(part, "a *b |c| _d `e*` <f>")[-1] == r"a \*b \|c\| \_d \ ``e*``\  \<f\>"


@formulas
def test_indices(part: ModuleType) -> None:
    def shown(text: str) -> str:
        return "".join(
            str(node) if type(node).__name__ == "Text" else node.pformat().strip()
            for node in part.indexed(text)
        )

    assert [type(node).__name__ for node in part.indexed("h^{l-1}_t + b")] == [
        "Text", "superscript", "subscript", "Text",
    ]  # fmt: skip
    assert [node.astext() for node in part.indexed("π_{i_0} W_xh")] == ["π", "i₀", " W", "xh"]
    assert shown("no index") == "no index"


@formulas
def test_latex_is_made_into_mathml_or_refused(part: ModuleType) -> None:
    assert "<mfrac>" in part.mathml(r"\tfrac12 x")
    assert "<mtr>" in part.mathml(r"\begin{aligned} a &= b \\ c &= d \end{aligned}")
    with pytest.raises(ValueError, match=r"of \\nosuch"):
        part.mathml(r"\nosuch{a}")
    with pytest.raises(ValueError, match="no MathML can be made"):
        part.mathml(r"\frac{a}{")


@names
def test_names_lead_to_one_entry(part: ModuleType) -> None:
    for written, path in [
        ("gn.gradient", "graphnet.gradient"),
        ("rnn.cells.LSTM", "graphnet_rnn.LSTM"),
        ("Function.profile", "graphnet.Function.profile"),
        ("rnn.Network.unroll", "graphnet_rnn.Network.unroll"),
        ("ShapeError", "graphnet.ShapeError"),
        ("gn.gradiant", None),
        ("gn", None),
        ("stack", None),
        ("Function._program", None),
    ]:
        with case(written, path):
            assert part.public_path(written) == path


@guides
def test_tutorials_are_fetched(part: ModuleType, tmp_path: Path) -> None:
    source, target = tmp_path / "tutorials", tmp_path / "docs"
    source.mkdir()
    (source / "01_a.py").write_text("# [a](../docs/x.md) [b](../CHANGELOG.md) [c](02_b.py)\n")
    (source / "exercises.py").write_text("")
    target.mkdir()
    (target / "09_gone.py").write_text("")
    assert [path.name for path in part.fetch_tutorials(source, target)] == ["01_a.py"]
    assert (target / "01_a.py").read_text(
        encoding="utf-8"
    ) == "# [a](../x.md) [b](../changelog.md) [c](02_b.py)\n"
    assert part.fetch_tutorials(tmp_path / "none", target) == []


@guides
def test_what_guides_show_is_kept_while_the_code_stays(part: ModuleType, tmp_path: Path) -> None:
    code = tmp_path / "package"
    code.mkdir()
    (code / "a.py").write_text("x = 1\n")
    before = part.state_of(code)
    assert part.state_of(code) == before
    (code / "a.py").write_text("x = 2\n")
    assert part.state_of(code) != before
    (tmp_path / "kept" / before).mkdir(parents=True)
    (tmp_path / "kept" / "old").mkdir()
    assert part.keep_one_cache(tmp_path / "kept", before) == str(tmp_path / "kept" / before)
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [before]
