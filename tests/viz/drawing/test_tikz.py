"""Pictures as TikZ: every shape, edge and text, in characters supported by pdflatex."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from tests.tables import some_quick
from viz.drawing.render import Drawing, installed_renderer
from viz.drawing.tikz import tikz_of

pytestmark = pytest.mark.skipif(installed_renderer() is None, reason="Graphviz")


def regression() -> gn.Node:
    x, t = gn.input((4, 3), name="x%_{}"), gn.input((4, 2), name="t")
    W = gn.parameter([[0.5, -0.2], [0.1, 0.4], [-0.3, 0.2]], name="W")
    return gn.mean(gn.squared_error(gn.label(gn.tanh(x @ W), "y_hat"), t))


def network() -> rnn.Network:
    return rnn.Network([rnn.GRU(4), rnn.GRU(4)], inputs=3, outputs=3)


DRAWINGS: dict[str, Callable[[], Drawing]] = {
    "closed": lambda: viz.draw(network().unroll(time=12, batch=1).cost),
    "dark": lambda: viz.draw(cost := regression(), theme="dark", notes=viz.values(cost)),
    "gradients": lambda: viz.draw(cost := regression(), notes=viz.gradients(cost)),
    "mirror": lambda: viz.mirror(regression()),
    "unrolled": lambda: viz.draw(network().unroll(time=2, batch=1), style="compact", closed=False),
}


def cells() -> Any:
    return some_quick(sorted(rnn.cells.ALL), ("LSTM", "RHN", "GRU"))


def code_of(drawing: Drawing, folder: Path) -> str:
    return drawing.save(folder / "picture.tex").read_text(encoding="utf-8")


def check(drawing: Drawing, code: str) -> None:
    """As many arrows and lines of text as in the layout; only letters that every TeX reads."""
    layout = json.loads(drawing._by_graphviz(drawing._laid_out, "json"))
    every = [*layout.get("objects", ()), *layout.get("edges", ())]
    tips = sum(key in part for part in every for key in ("_hdraw_", "_tdraw_"))
    curves = sum("_draw_" in part for part in layout.get("edges", ()))
    assert len(re.findall(r"\\path\[draw=\w+, [^]]*\] .* controls", code)) >= curves
    assert len(re.findall(r"\\path\[fill=\w+.* -- cycle;", code)) >= tips
    letters = {
        operation["text"]
        for part in [layout, *every]
        for key in part
        if key.endswith("ldraw_")
        for operation in part[key]
        if operation["op"] == "T"
    }
    assert code.isascii(), sorted(set(filter(lambda c: not c.isascii(), code)))
    words = [word for word in letters if re.fullmatch("[A-Za-z]{2,}", word)]
    assert not [word for word in words if word not in code]
    escaped = re.sub(r"\\[{}]", "", code)
    assert escaped.count("{") == escaped.count("}")
    assert code.replace(r"\$", "").count("$") % 2 == 0


@pytest.mark.parametrize("name", cells())
def test_cell_pictures_have_all_edges_and_texts(name: str, tmp_path: Path) -> None:
    drawing = viz.draw(rnn.cells.ALL[name], style="compact")
    check(drawing, code_of(drawing, tmp_path))


@pytest.mark.parametrize("name", sorted(DRAWINGS))
def test_pictures_have_all_edges_and_texts(name: str, tmp_path: Path) -> None:
    drawing = DRAWINGS[name]()
    check(drawing, code_of(drawing, tmp_path))


def test_names_are_formulas() -> None:
    run = {"op": "T", "align": "l", "width": 8.0}
    texts = [({"op": "t", "fontchar": flags}, {**run, "pt": [8.0 * n, 0], "text": text})
             for n, (flags, text) in enumerate([(2, "ŷ"), (16, "t−1"), (8, "(1)"), (0, " 5 % σ")])]  # fmt: skip
    font = [{"op": "F", "size": 14.0, "face": "Times"}, {"op": "c", "color": "#111111"}]
    code = tikz_of(json.dumps({"objects": [{"_ldraw_": [*font, *(op for pair in texts for op in pair)]}]}))
    assert r"at (16,0) {$\hat{y}_{t-1}^{(1)}$ 5 \% $\sigma $};" in code


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("2·10⁻⁵", r"2$\cdot $10${}^{-5}$"), ("x₁₂", "x${}_{12}$"), ("λ", r"$\lambda $"), ("Αο", "$Ao$"),
        ("naïve", "naïve"), ("ŷ is", r"$\hat{y}$ is"), ("$α", r"\$$\alpha $"), ("a\\b", r"a\textbackslash{}b"),
        ("ℓ𝛼ℝ", r"l$\alpha $R"), ("权重", "权重"), ("tanh′", "tanh$'$"), ("각", "각"),
        ("100 %_{#&}~^", r"100 \%\_\{\#\&\}\textasciitilde{}\textasciicircum{}"),
    ],
)  # fmt: skip
def test_letters_are_converted_to_latex(name: str, code: str) -> None:
    run = {"op": "T", "align": "c", "width": 8.0, "pt": [0, 0], "text": name.replace("\\", "\\\\")}
    operations = [{"op": "F", "size": 14.0, "face": "Times"}, {"op": "c", "color": "#111111"}, run]
    assert f"{{{code}}};" in tikz_of(json.dumps({"objects": [{"_ldraw_": operations}]}))


def test_pictures_too_large_for_tex_are_rejected(tmp_path: Path) -> None:
    y = gn.input((2,), name="x")
    for _ in range(290):
        y = gn.tanh(y)
    with pytest.raises(viz.DrawingError, match="more than the 16000 that TeX can draw"):
        viz.draw(y).save(tmp_path / "long.tex")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex")
def test_odd_names_compile_with_latex(tmp_path: Path) -> None:
    names = ("λ", "Ω_Β", "ŷ is", "x₁₂", "$α", "café_1", "a\\b", "10⁻⁵ᵀ", "ℓ∇ℝ", "50 %", "{x}_{y}", "#&~^")
    y = sum(gn.input((2,), name=name) * 1e-12 for name in names)
    code_of(viz.draw(gn.mean(y)), tmp_path)
    set_by_latex(tmp_path)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex")
@pytest.mark.parametrize("name", sorted(DRAWINGS))
def test_pictures_compile_with_latex(name: str, tmp_path: Path) -> None:
    code_of(DRAWINGS[name](), tmp_path)
    set_by_latex(tmp_path)


def set_by_latex(tmp_path: Path) -> None:
    text = r"\documentclass{article}\usepackage{tikz}\begin{document}\input{picture.tex}\end{document}"
    (tmp_path / "paper.tex").write_text(text, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
