"""The data of an explorer page: contents, escaping, size and reproducibility."""

from __future__ import annotations

import json
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from graphnet.errors import DtypeError, ShapeError
from tests.tables import case
from viz.explorer.derivatives import in_its_own_place
from viz.explorer.values import summary
from viz.feeds import computed

from ..conftest import make_unrolled

LEVELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


class Read:
    """A page's data by name."""

    def __init__(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
        self.data = json.loads(found[1])
        self.nodes = self.data["nodes"]

    def text(self, place: int) -> str:
        return re.sub("<.*?>", "", self.data["texts"][place]) if place >= 0 else ""

    def find(self, *, op: str = "", name: str = "") -> list[int]:
        return [
            i
            for i in self.data["stages"][0]["order"]
            if op in ("", self.text(self.data["ops"][self.nodes[i][0]][0]))
            and name in ("", self.text(self.nodes[i][1]))
        ]

    def value(self, node: int) -> list:
        return self.data["values"][self.nodes[node][9]]

    def derivative(self, mode: str, node: int) -> list:
        of = self.data[mode]["of"]
        return self.value(dict(zip(of[::2], of[1::2], strict=True))[node])


@pytest.fixture
def regression():
    """mean (x W - t)² with numbers of which all is known."""
    x, t = gn.input((2, 3), "float64", name="x"), gn.input((2, 1), "float64", name="t")
    weights = gn.parameter(np.array([[1.0], [-2.0], [0.5]]), name="W")
    cost = gn.mean(gn.squared_error(x @ weights, t))
    return cost, x, t, weights


FED = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.array([[1.0], [-1.0]])


def test_values_gradients_and_tangents_match_the_equations(regression, tmp_path):
    cost, x, t, weights = regression
    v = np.array([[0.1], [0.2], [-0.3]])
    feeds = dict(zip((x, t), FED, strict=True))
    page = Read(viz.explore(cost, tmp_path / "a.html", feeds=feeds, tangents={weights: v}))
    # Of two cases: the cost is ½ Σ residual², its gradient Xᵀ residual.
    residual = FED[0] @ weights.value - FED[1]
    (product,) = page.find(op="MatMul")
    (w,) = page.find(name="W")
    assert page.value(product)[6] == (FED[0] @ weights.value).ravel().tolist()
    assert page.derivative("backward", w)[6] == pytest.approx((FED[0].T @ residual).ravel(), rel=1e-5)
    assert page.derivative("rop", product)[6] == pytest.approx((FED[0] @ v).ravel(), rel=1e-5)
    end = page.data["stages"][0]["outputs"][0]
    assert page.derivative("rop", end)[1] == pytest.approx((residual * (FED[0] @ v)).sum(), rel=1e-5)
    assert page.derivative("backward", end)[1] == 1
    page = Read(viz.explore(cost, tmp_path / "a.html", wrt=weights))
    assert page.data["backward"]["of"][::2] == page.find(name="W")


def test_backward_steps_belong_to_their_node(tmp_path):
    x = gn.input((3,), "float64", name="x")
    y = gn.tanh(x)
    page = Read(viz.explore(gn.sum(y * 3.0), tmp_path / "a.html"))
    made = {row[0]: row[1:] for row in page.data["backward"]["made"]}
    (tanh,) = page.find(op="Tanh")
    ops = [page.text(page.data["ops"][page.nodes[i][0]][0]) for i in made[tanh]]
    assert sorted(ops) == ["Multiply", "Multiply", "Subtract"]  # g · (1 - y · y)
    graph_nodes = set(page.data["stages"][0]["order"])
    assert not graph_nodes & {i for row in made.values() for i in row}


def test_derivative_graphs_have_derivatives(tmp_path):
    x = gn.input((3,), "float64", name="x")
    (g,) = gn.gradient(gn.sum(gn.tanh(x)), [x])
    page = Read(viz.explore(gn.sum(g * g), tmp_path / "a.html", feeds={x: np.array([0.1, -0.4, 2.0])}))
    (place,) = page.find(name="x")
    s = np.tanh([0.1, -0.4, 2.0])
    expected = 2 * (1 - s * s) * (-2 * s) * (1 - s * s)
    assert page.derivative("backward", place)[6] == pytest.approx(expected, rel=1e-5)


def test_nodes_without_differentiable_inputs_have_no_derivative(tmp_path):
    x, i = gn.input((3,), name="x"), gn.input((3,), "int64", name="i")
    page = Read(viz.explore([gn.sum(x), gn.one_hot(i, 4, "float32")], tmp_path / "a.html"))
    places = page.find(name="x") + page.find(op="OneHot") + page.find(name="i")
    assert [place in page.data["backward"]["of"][::2] for place in places] == [True, False, False]
    page = Read(viz.explore(gn.tanh(gn.input((2, 2), name="x")), tmp_path / "a.html"))
    assert page.data["backward"] is None, "there is no scalar cost"
    assert page.data["rop"]["of"]


def test_stages_follow_the_passes_and_mark_new_nodes(tmp_path):
    x = gn.input((4,), name="x")
    y = gn.tanh(x) * 1.0 + gn.tanh(x) * 1.0  # merge leaves one tanh, simplify takes away the ones
    passes = [p for p in gn.passes.DEFAULT if p.name in ("merge", "simplify")]
    page = Read(viz.explore(gn.exp(y), tmp_path / "a.html", passes=passes))
    stages = page.data["stages"]
    assert [stage["name"] for stage in stages] == ["as written", "merge", "simplify"]
    merged = passes[0](gn.Graph(gn.exp(y)))
    sizes = [len(merged), len(passes[1](merged))]
    assert [len(stage["order"]) for stage in stages[1:]] == sizes
    assert stages[0]["fresh"] == stages[1]["fresh"] == []
    assert stages[1]["gone"] == len(stages[0]["order"]) - sizes[0] > 0
    stems = [{page.nodes[i][10] for i in stage["order"]} for stage in stages]
    assert stems[1] < stems[0]  # what a pass leaves is known again
    assert len(stems[2]) == len(stages[2]["order"])


def test_all_stages_give_the_same_results(tmp_path):
    for thing in (rnn.LSTM, rnn.Network([rnn.GRU(4)], 5, 5)):  # whatever can be drawn
        assert Read(viz.explore(thing, tmp_path / "a.html")).data["stages"][0]["order"]
    u = rnn.Network([rnn.LSTM(4)], 5, 5).unroll(time=3, batch=2)
    page = Read(viz.explore(u, tmp_path / "a.html"))
    ends = [page.value(stage["outputs"][0])[1] for stage in page.data["stages"]]
    assert len(ends) == len(gn.passes.DEFAULT) + 1
    assert ends == pytest.approx([ends[0]] * len(ends), rel=1e-5)


def test_functions_are_shown_as_written_and_after_passes(regression, tmp_path):
    cost, x, t, _ = regression
    every = {p.name for p in gn.passes.DEFAULT}
    for passes, names in ((gn.passes.without("merge", "fuse"), {"merge", "fuse"}), ((), every)):
        function = gn.compile(cost, [x, t], passes=passes)
        stages = Read(viz.explore(function, tmp_path / "a.html")).data["stages"]
        assert not names & {stage["name"] for stage in stages}
        assert len(stages[0]["order"]) == len(function.source)
        assert len(stages[-1]["order"]) == len(function.graph)

    def pass_of_my_own(graph: gn.Graph) -> gn.Graph:
        return gn.passes.merge(graph)

    function = gn.compile(cost, [x, t], passes=[pass_of_my_own])
    assert Read(viz.explore(function, tmp_path / "a.html")).data["stages"][1]["name"] == "as compiled"


def test_summary_holds_min_mean_max_and_norm():
    array = np.random.default_rng(3).standard_normal((30, 7))
    *found, columns, heat, numbers = summary(array, 12)
    assert found == pytest.approx([array.min(), array.mean(), array.max(), np.linalg.norm(array)], rel=1e-5)
    assert (columns, len(heat), numbers) == (7, 12 * 7, [])
    for odd in [np.zeros((0, 3)), np.zeros((3, 0)), np.zeros(3), np.array([True, False]), np.array(7)]:
        with case(odd):
            told = summary(odd, 12)
            assert (len(told), told[6]) == (7, [int(x) for x in odd.ravel()])


def test_a_heat_map_is_the_means_of_blocks():
    def blocks(size: int) -> list[int]:
        return [size * k // 12 for k in range(1, 12)] if size > 12 else list(range(1, size))

    for shape in [(), (3,), (12, 12), (13, 5), (2, 3, 40), (100, 100)]:
        with case(shape):
            array = np.random.default_rng(4).standard_normal(shape)
            *_, columns, heat, _ = summary(array, 12)
            table = array.reshape(-1, shape[-1]) if shape else array.reshape(1, 1)
            rows = [part.mean(0) for part in np.split(table, blocks(len(table)))]
            cells = np.array([[part.mean() for part in np.split(row, blocks(len(row)))] for row in rows])
            read = np.array([LEVELS.index(letter) - 32 for letter in heat]).reshape(-1, columns) / 31
            assert read == pytest.approx(cells / np.abs(cells).max(), abs=0.5 / 31 + 1e-9)


def test_non_finite_values_are_stored_as_valid_json():
    told = summary(np.array([1.0, np.nan, np.inf, -np.inf]), 12)
    assert told[:4] == ["NaN", "NaN", "NaN", "NaN"]
    assert told[5][1:] == "!!!"
    assert told[6] == [1, "NaN", "inf", "-inf"]
    json.dumps(told, allow_nan=False)


def test_values_are_dropped_once_they_are_used():
    x = gn.input((1000, 100), "float64")
    y = x
    for _ in range(60):
        y = gn.tanh(y)
    tracemalloc.start()
    for _ in computed([y], {x: np.ones((1000, 100))}):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * 800_000


def test_copied_graphs_give_the_same_results(regression):
    cost, x, t, _ = regression
    graph, copies = in_its_own_place(gn.Graph(gn.gradient(cost, [x])))
    assert all(node.source_serial == node.serial for node in graph.order)
    assert [copies[n] for n in (x, t)] == list(graph.inputs)
    (a,) = gn.compile(gn.gradient(cost, [x]), [x, t], backend="numpy")(*FED)
    np.testing.assert_array_equal(gn.compile(graph.outputs, graph.inputs, backend="numpy")(*FED)[0], a)


def test_pages_are_reproducible(tmp_path):
    first, second = (
        viz.explore(make_unrolled(), tmp_path / name).read_bytes() for name in ("a.html", "b.html")
    )
    assert first == second
    assert str(Path(__file__).parent).encode() not in first


def test_ten_steps_of_an_lstm_take_less_than_two_megabytes(tmp_path):
    u = rnn.Network([rnn.LSTM(128)], 65, 65).unroll(time=10, batch=32)
    path = viz.explore(u, tmp_path / "lstm.html")
    data = Read(path).data
    assert all(data[mode]["made"] for mode in ("backward", "rop"))
    assert path.stat().st_size < 2_000_000


def test_pages_load_no_external_files(regression, tmp_path):
    text = viz.explore(regression[0], tmp_path / "a.html").read_text(encoding="utf-8")
    text = text.replace("http://www.w3.org/2000/svg", "")  # a namespace, which nobody fetches
    assert not re.search(r"https?:|//[\w.]+\.\w{2,3}/|@import|url\((?!#)|<link|src=", text)


def test_hostile_names_are_escaped(tmp_path):
    script, tag = "</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>'
    for name in (script, "<b>&amp;", tag, "a\u2028b\x00", "%%data%%", "\ud800"):
        with case(ascii(name)):
            x = gn.input((2,), name=name.replace("\ud800", "x"))
            with gn.scope(layer=name, **{"cell" if name == "\ud800" else "block": x.name}):
                y = gn.tanh(x) + gn.exp(x)
            path = viz.explore(gn.label(y, x.name), tmp_path / "a.html")
            text = path.read_text(encoding="utf-8")
            assert text.count("</script>") == 2
            assert "<script>alert" not in text
            assert "<img" not in text
            assert ("\\ud800" in text) == (name == "\ud800"), "half a character is an escape"
            assert Read(path).nodes


def test_themes(regression, tmp_path):
    own = viz.Style(cost="#00ff00")
    styles = {"dark": viz.DARK, "colour-blind": viz.COLOUR_BLIND, "auto": viz.LIGHT, own: own}
    for theme, style in styles.items():
        text = viz.explore(regression[0], tmp_path / "a.html", theme=theme).read_text(encoding="utf-8")
        assert ("@media (prefers-color-scheme: dark)" in text) == (theme == "auto")
        assert f"--cost: {style.cost};" in text


def test_pages_of_large_graphs_list_omitted_parts(tmp_path):
    y = gn.input((2,), name="x")
    for _ in range(2600):
        y = gn.tanh(y)
    data = Read(viz.explore(y, tmp_path / "a.html")).data
    assert (len(data["stages"]), data["rop"]["made"]) == (1, [])
    assert any("large graph" in line for line in data["about"])


def test_errors_name_the_argument_and_keep_the_file(regression, tmp_path):
    cost, x, t, weights = regression
    path = tmp_path / "a.html"
    path.write_text("kept")
    other = gn.input((2,), name="other")
    for arguments, error, names in (
        ({"thing": 3}, viz.DrawingError, "thing: cannot draw a int"),
        ({"path": tmp_path / "a.svg"}, viz.DrawingError, "suffix must be .html"),
        ({"path": tmp_path / "missing" / "a.html"}, viz.DrawingError, "cannot be written"),
        ({"theme": "pink"}, viz.DrawingError, "theme must be"),
        ({"feeds": {x: FED[0]}}, viz.DrawingError, r"feeds has no array for t\[2, 1\]"),
        ({"feeds": {cost: 1}}, viz.DrawingError, r"feeds: .* is not an input .*x\[2, 3\]"),
        ({"feeds": 3}, viz.DrawingError, "feeds must be a dict"),
        ({"feeds": {x: np.ones((3, 3)), t: FED[1]}}, ShapeError, "x"),
        ({"feeds": {x: np.ones((2, 3), "complex128"), t: FED[1]}}, DtypeError, "x"),
        ({"wrt": [other]}, viz.DrawingError, "wrt: other"),
        ({"wrt": "x"}, viz.DrawingError, "wrt: 'x' is not a float node of this graph"),
        ({"passes": 3}, viz.DrawingError, "passes must be a sequence .* not 3"),
        ({"passes": "fuse"}, viz.DrawingError, "passes must be .* not 'fuse'"),
        ({"passes": ["fuse"]}, viz.DrawingError, r"passes must be .* not \['fuse'\]"),
        ({"tangents": {other: np.ones(2)}}, viz.DrawingError, "tangents: other"),
        ({"tangents": {}}, viz.DrawingError, "tangents must be a dict"),
        ({"tangents": {weights: np.ones(3)}}, ShapeError, "W"),
        ({"thing": gn.tanh(x), "wrt": x}, viz.DrawingError, "no output is a scalar cost"),
    ):
        given = {"thing": cost, "path": path, **arguments}
        with case(names), pytest.raises(error, match=names):
            viz.explore(given.pop("thing"), given.pop("path"), **given)
    assert path.read_text(encoding="utf-8") == "kept"
