"""The explorer page in headless Chromium: display and interaction."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from tests.tables import case

playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on PATH")

STEPS, BATCH, UNITS, SYMBOLS = 10, 4, 6, 5


class Reader:
    """A browser tab and what somebody does in it."""

    def __init__(self, tab) -> None:
        self.tab = tab
        self.complaints: list[str] = []
        self.requests: list[str] = []
        tab.on("console", lambda message: self.complaints.append(message.text))
        tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        tab.on("request", lambda request: self.requests.append(request.url))

    def opens(self, path: Path) -> None:
        self.tab.goto(path.as_uri())
        self.tab.wait_for_selector("html[data-ready]", timeout=300_000)

    def presses(self, *keys: str) -> None:
        for key in keys:
            self.tab.keyboard.press(key)

    def finds(self, words: str) -> None:
        self.presses("/")
        self.tab.keyboard.type(words)
        self.presses("Enter")

    def text(self, part: str) -> str:
        return self.tab.inner_text(f"[data-part={part}]")

    def boxes(self, title: str) -> list:
        boxes = self.tab.query_selector_all("g.box")
        return [box for box in boxes if box.query_selector(".title").text_content() == title]

    def count(self, selector: str) -> int:
        return len(self.tab.query_selector_all(selector))

    def number(self, kind: str, what: str) -> float:
        text = self.tab.inner_text(f"[data-kind={kind}] [data-what={what}]")
        mantissa, _, power = text.replace("−", "-").partition("·10")
        power = power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
        return float(mantissa) * 10.0 ** int(power or 0)

    def reads(self, kind: str, what: str, expected: float) -> None:
        assert self.number(kind, what) == pytest.approx(float(expected), rel=1e-5)


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def reader(browser) -> Iterator[Reader]:
    context = browser.new_context(viewport={"width": 1400, "height": 900}, reduced_motion="reduce")
    found = Reader(context.new_page())
    yield found
    context.close()
    assert found.complaints == []
    assert [url for url in found.requests if not url.startswith(("file:", "data:"))] == []


class Lstm:
    """A network, what it is fed, and its values, gradients and tangents by way of compiled functions."""

    def __init__(self, folder: Path) -> None:
        self.network = rnn.Network([rnn.LSTM(UNITS)], SYMBOLS, SYMBOLS, dtype="float64")
        self.unrolled = u = self.network.unroll(STEPS, BATCH)
        generator = np.random.default_rng(5)
        self.feeds = {
            u.inputs: generator.integers(0, SYMBOLS, (STEPS, BATCH)),
            u.targets: generator.integers(0, SYMBOLS, (STEPS, BATCH)),
            **{state: generator.standard_normal(state.shape) for state in u.initial},
        }
        self.path = viz.explore(u, folder / "lstm.html", feeds=self.feeds)

    def first(self, op: str, time: int) -> gn.Node:
        order = gn.Graph(self.unrolled.cost).order
        return next(n for n in order if n.scope.get("time") == time and n.op.name == op)

    def computed(self, node: gn.Node) -> np.ndarray:
        inputs = [x for x in self.feeds if x in set(gn.Graph(node).inputs)]
        return gn.compile(node, inputs, backend="numpy", passes=())(*(self.feeds[x] for x in inputs))[0]


@pytest.fixture(scope="module")
def lstm(tmp_path_factory) -> Lstm:
    return Lstm(tmp_path_factory.mktemp("explorer"))


def test_opening_a_composite_stepping_and_reading_a_value(reader, lstm):
    reader.opens(lstm.path)
    assert len(reader.boxes("LSTM")) == STEPS
    assert reader.count("g.mark.operator") == 0
    reader.boxes("LSTM")[2].query_selector(".title").click(force=True)
    assert len(reader.boxes("LSTM")) == STEPS - 1
    inside = reader.count("g.mark.operator")
    assert inside == 13  # four sums, three σ, two tanh, three × and one +
    reader.presses("Home")
    steps = 0
    while "t = 3" not in reader.text("panel") or "×" not in reader.tab.inner_text("aside h2"):
        reader.presses("n")
        steps += 1
        assert steps < 40
    # The first product of the step is f c: with what was computed up to now, and nothing behind it.
    value = lstm.computed(lstm.first("Multiply", time=3))
    reader.reads("value", "mean", value.mean())
    reader.reads("value", "min", value.min())
    reader.reads("value", "norm", np.linalg.norm(value))
    assert reader.count("g.current") == 1
    assert 0 < reader.count("g.mark.operator.todo") < inside


def test_cost_equals_the_numpy_result(reader, lstm):
    reader.opens(lstm.path)
    reader.presses("End")
    reader.boxes("cost")[0].query_selector(".title").click(force=True)
    reader.finds("multiply cost")
    reader.reads("value", "scalar", lstm.computed(lstm.unrolled.cost))


def test_backward_and_the_r_operator_at_a_node(reader, lstm):
    reader.opens(lstm.path)
    reader.presses("m")
    assert reader.tab.get_attribute("[data-mode=backward]", "aria-checked") == "true"
    reader.finds("tanh t=10")
    node = lstm.first("Tanh", time=STEPS)
    (gradient,) = gn.gradient(lstm.unrolled.cost, node)
    reader.reads("gradient", "norm", np.linalg.norm(lstm.computed(gradient)))
    rule = reader.tab.inner_text("table.rule")
    assert "∂C/∂" in rule
    assert "×" in rule
    assert reader.count("g.heated") > 0
    reader.presses("m")
    assert reader.tab.get_attribute("[data-mode=rop]", "aria-checked") == "true"
    parameters = [n for n in gn.Graph(lstm.unrolled.cost).order if n.op.is_parameter]
    generator = np.random.default_rng(1)
    direction = {n: generator.standard_normal(n.shape) for n in parameters}
    (tangent,) = gn.rop(node, direction)
    reader.reads("tangent", "norm", np.linalg.norm(lstm.computed(tangent)))


def test_backward_steps_go_from_the_cost_to_the_first_time_step(reader, lstm):
    reader.opens(lstm.path)
    reader.presses("m", "Home")
    seen = []
    for _ in range(100):
        reader.presses("n")
        if reader.text("stepName") == "after all steps":
            break
        seen.append(reader.tab.inner_text("aside h2"))
    assert seen[0] == "cost"
    assert seen.count("LSTM") == STEPS
    assert reader.count("g.todo") == 0


def test_search_opens_boxes_around_the_node(reader, lstm):
    reader.opens(lstm.path)
    reader.finds("sigmoid t=7")
    assert len(reader.boxes("LSTM")) == STEPS - 1
    panel = reader.text("panel")
    assert "Sigmoid" in panel
    assert "t = 7" in panel
    assert "y = 1 / (1 + exp(-x))" in panel
    assert re.search(r"lstm\.py:\d+", panel)
    assert f"{BATCH} × {UNITS}" in panel


def test_search_finds_names_in_every_spelling(reader, lstm):
    reader.opens(lstm.path)
    weight = lstm.network.parameters["layer0.W_xf"]
    for name in ("W_xf", "Wxf", "w_xf", "layer0.W_xf"):
        with case(name):
            reader.finds(name)
            reader.reads("value", "max", weight.value.max())
    for name in ("h_0", "c_0", "b_o"):
        with case(name):
            reader.finds(name)
            assert name[0] in reader.text("panel")


def test_a_folded_weight_can_be_read(reader, lstm):
    reader.opens(lstm.path)
    reader.finds("Whg")
    weight = lstm.network.parameters["layer0.W_hg"]
    reader.reads("value", "max", weight.value.max())
    (gradient,) = gn.gradient(lstm.unrolled.cost, weight)
    reader.reads("gradient", "max", lstm.computed(gradient).max())


def test_values_and_gradients_follow_a_change(reader, tmp_path):
    x = gn.input((2, 3), name="x", dtype="float64")
    W = gn.parameter(np.linspace(-1, 1, 9).reshape(3, 3), name="W")
    a = gn.tanh(x @ W)
    cost = gn.mean(gn.sigmoid(a) * x)
    data = np.random.default_rng(0).standard_normal((2, 3))

    def sets(what: str, value: float) -> None:
        reader.tab.fill(f"[data-what={what}]", str(value))

    reader.opens(viz.explore(cost, tmp_path / "change.html", feeds={x: data}))
    reader.finds("W")
    sets("scale", -0.5)
    assert reader.count("g.changed") == 1
    _, gradient = gn.compile([cost, *gn.gradient(cost, [W])], [x], backend="numpy")(data)
    changed = gn.parameter(-0.5 * W.value, name="W")
    (other,) = gn.gradient(gn.mean(gn.sigmoid(gn.tanh(x @ changed)) * x), [changed])
    reader.reads("gradient", "norm", np.linalg.norm(gn.compile(other, [x], backend="numpy")(data)[0]))
    reader.finds("tanh")
    sets("hold", 1.5)
    assert reader.count("g.changed") == 1  # the weight is folded into tanh
    reader.finds("W")
    reader.reads("gradient", "norm", 0.0)
    assert reader.tab.is_visible("[data-what=undo]")
    shown = reader.tab.text_content("g.cost .thumb-number").replace("−", "-")
    assert float(shown) == pytest.approx(np.mean(data / (1 + np.exp(-1.5))), rel=0.01)
    reader.finds("matmul")
    reader.tab.check("[data-what='cut 0']")
    assert 0 < reader.count(".cut") < reader.count(".arc")  # the product is folded into tanh
    reader.tab.click("[data-what=undo]")
    assert reader.count(".cut") == 0
    assert not reader.tab.is_visible("[data-what=undo]")
    assert reader.count("g.changed") == 0
    reader.finds("W")
    reader.reads("gradient", "norm", np.linalg.norm(gradient))


def test_slider_shows_the_passes(reader, lstm):
    reader.opens(lstm.path)
    assert reader.text("pass") == "as written"
    graph = gn.Graph(lstm.unrolled.cost)
    for step in gn.passes.DEFAULT:
        graph = step(graph)
        reader.presses("]")
        assert reader.text("pass") == f"after {step.name}"
        assert reader.text("passNews").startswith(f"{len(graph)} nodes")
        if step.name == "stack rows":
            assert reader.count("g.fresh") > 0
    reader.presses("]", "[")
    assert reader.text("pass") == f"after {gn.passes.DEFAULT[-2].name}"
    reader.tab.fill("[data-part=passes]", "0")
    assert reader.text("pass") == "as written"


def test_keyboard_navigation(reader, lstm):
    reader.opens(lstm.path)
    reader.presses("ArrowRight")
    first = reader.tab.get_attribute("g.selected", "data-key")
    assert reader.tab.evaluate("document.activeElement.dataset.key") == first
    for _ in range(30):
        if reader.tab.get_attribute("g.selected", "aria-label").startswith("LSTM"):
            break
        reader.presses("ArrowRight")
    closed = reader.count("g.box")
    reader.presses("Enter")
    assert reader.tab.get_attribute("g.selected", "aria-expanded") == "true"
    assert reader.count("g.mark.operator") > 0
    reader.presses("Enter")
    assert reader.count("g.box") == closed
    reader.presses("?")
    assert reader.tab.is_visible("dialog")
    reader.presses("Escape")
    assert not reader.tab.is_visible("dialog")
    before = reader.tab.get_attribute("g.world", "style")
    reader.presses("+")
    assert reader.tab.get_attribute("g.world", "style") != before
    reader.presses("0", "s")
    assert reader.text("styleName") == "full"
    assert reader.tab.inner_text("[data-part=live]")


def test_opened_boxes_keep_their_position(reader, tmp_path):
    u = rnn.Network([rnn.GRU(4)], 5, 5).unroll(time=2, batch=2)
    reader.opens(viz.explore(u, tmp_path / "gru.html"))
    reader.presses("c", "ArrowRight", "ArrowRight")
    for kind in ("frame", "box"):
        before = reader.tab.query_selector("g.selected").bounding_box()
        reader.presses("Enter")
        after = reader.tab.query_selector("g.selected").bounding_box()
        assert kind in reader.tab.get_attribute("g.selected", "class").split()
        assert (after["x"], after["y"]) == pytest.approx((before["x"], before["y"]), abs=8)


def test_boxes_do_not_overlap(reader, lstm, tmp_path):
    """Leaves and closed boxes do not overlap, and are inside their frames."""
    other = viz.explore(rnn.LayerNormLSTM, tmp_path / "cell.html")
    for path, keys in ((lstm.path, "o"), (lstm.path, "os"), (other, ""), (other, "s")):
        reader.opens(path)
        reader.presses(*keys)
        rectangles = reader.tab.evaluate(
            "[...document.querySelectorAll('.nodes > g')].map(g => {const r = g.getBoundingClientRect();"
            "return [r.left, r.top, r.right, r.bottom]})"
        )
        left, top, right, bottom = np.array(rectangles).T
        across = (np.minimum(right[:, None], right) - np.maximum(left[:, None], left)) > 2
        along = (np.minimum(bottom[:, None], bottom) - np.maximum(top[:, None], top)) > 2
        both = across & along
        np.fill_diagonal(both, False)
        assert len(rectangles) > 20
        assert not both.any()


def test_a_hundred_steps_are_folded_and_unfolded(reader, tmp_path):
    u = rnn.Network([rnn.LSTM(4), rnn.LSTM(4)], 5, 5).unroll(time=100, batch=2)
    reader.opens(viz.explore(u, tmp_path / "long.html"))
    shown = len(reader.boxes("LSTM"))
    assert 4 <= shown < 30
    reader.presses("m", "Home", "n")
    # Each closed composite is one step, those that are folded away are one together.
    assert int(re.search(r"of (\d+)", reader.text("stepName"))[1]) < 3 * shown
    reader.presses("m", "m", "End")
    ellipsis = reader.tab.query_selector("g.ellipsis")
    hidden = int(ellipsis.query_selector(".title").text_content().split()[0])
    assert hidden == 100 - shown // 2
    ellipsis.query_selector(".title").click(force=True)
    assert len(reader.boxes("LSTM")) > shown
    reader.finds("sigmoid t=50")
    assert "t = 50" in reader.text("panel")
    assert reader.count("g.ellipsis") == 2


@pytest.mark.parametrize(
    "name", ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a\u2028b &amp; c"]
)
def test_hostile_names_are_escaped(name, reader, tmp_path):
    x = gn.input((2,), name=name)
    with gn.scope(layer=name, block=name):
        y = gn.tanh(x) + gn.exp(x)
    reader.opens(viz.explore(gn.label(y, name), tmp_path / "a.html"))
    reader.finds("input")
    shown = " ".join(name.split())
    assert shown[:28] in reader.tab.inner_text("aside h2").replace("\xa0", " ")
    assert reader.count("img[src=x]") == 0


def test_a_single_input_can_be_explored(reader, tmp_path):
    reader.opens(viz.explore(gn.input((2, 2), name="x"), tmp_path / "a.html"))
    reader.presses("n", "p", "m", "Home", "]", "ArrowRight")
    assert "2 × 2" in reader.text("panel")


def test_themes_in_the_page(reader, tmp_path):
    x = gn.input((2, 2), name="x")
    reader.opens(viz.explore(gn.tanh(x), tmp_path / "a.html", theme="dark"))
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = reader.tab.evaluate(colour)
    reader.tab.click("[data-do=theme]")
    assert reader.tab.evaluate(colour) == "rgb(255, 255, 255)" != dark
    reader.tab.emulate_media(color_scheme="dark")
    reader.opens(viz.explore(gn.tanh(x), tmp_path / "a.html", theme="auto"))
    assert reader.tab.evaluate(colour) == dark


def test_narrow_windows_show_the_graph_above_the_details(reader, lstm):
    reader.tab.set_viewport_size({"width": 400, "height": 800})
    reader.opens(lstm.path)
    graph, said = (reader.tab.query_selector(name).bounding_box() for name in ("main", "aside"))
    assert graph["width"] == said["width"] == 400
    assert graph["y"] + graph["height"] <= said["y"]
    assert graph["height"] > 250
    assert reader.tab.evaluate("document.documentElement.scrollWidth") <= 400
