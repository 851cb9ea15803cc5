"""Display of charts, runs, readings and graphs in notebooks; files of charts."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from cycler import cycler

import graphnet as gn
import graphnet_rnn as rnn
import viz
from graphnet.errors import GraphnetError
from tests.tables import case
from viz.errors import by_matplotlib
from viz.notebook import bundle_of

pytest.importorskip("matplotlib")


ROWS = [{"event": "epoch", "epoch": e, "train_bits": 3 / e, "valid_bits": 3.1 / e} for e in (1, 2, 3)]


def test_charts_are_reproducible(tmp_path, monkeypatch):
    for ending in ("svg", "png", "pdf"):
        chart = viz.training_curve(ROWS)
        chart.save(tmp_path / f"1.{ending}")
        chart.savefig(tmp_path / "other.png", dpi=150)  # which changes nothing
        chart.save(tmp_path / f"2.{ending}")
        with monkeypatch.context() as another_day:
            another_day.setattr(time, "time", lambda: 2e9)
            another_day.setenv("SOURCE_DATE_EPOCH", "86400")
            viz.training_curve(ROWS).savefig(tmp_path / f"3.{ending}")
        found = {(tmp_path / f"{n}.{ending}").read_bytes() for n in (1, 2, 3)}
        assert len(found) == 1, ending
    viz.training_curve(ROWS).savefig(tmp_path / "curve", format="svg", metadata={"Title": "mine"})
    text = (tmp_path / "curve").read_text(encoding="utf-8")
    assert ("mine" in text, "<dc:date>" in text) == (True, False)


def test_charts_display_themselves_and_never_raise(monkeypatch):
    chart = viz.training_curve(ROWS)
    bundle = chart._repr_mimebundle_()
    assert bundle["image/svg+xml"] == chart.svg == viz.training_curve(ROWS).svg
    assert chart.svg.startswith("<?xml")
    assert "max-width" in bundle["text/html"]
    monkeypatch.setattr(type(chart), "savefig", lambda *_, **__: 1 / 0)
    assert set(chart._repr_mimebundle_()) == {"text/plain"}


def test_invalid_matplotlib_settings_give_one_line_errors(tmp_path, monkeypatch):
    with (
        matplotlib.rc_context({"axes.prop_cycle": cycler(color=[])}),
        pytest.raises(viz.DrawingError, match=r"matplotlib.* fails .*matplotlibrc"),
    ):
        viz.training_curve(ROWS)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "abc")
    for ending in ("svg", "pdf"):
        says = r"matplotlib.* fails \(ValueError: .*'abc'\);.* SOURCE_DATE_EPOCH"
        with case(ending), pytest.raises(viz.DrawingError, match=says):
            viz.training_curve(ROWS).savefig(tmp_path / f"curve.{ending}")
    assert list(tmp_path.iterdir()) == []
    for fault in (ZeroDivisionError, GraphnetError):  # of ours
        with pytest.raises(fault), by_matplotlib():
            raise fault


def test_failed_matplotlib_import_gives_a_one_line_error():
    program = f"import viz\ntry:\n    viz.training_curve({ROWS})\nexcept viz.DrawingError as error:\n    print(error)\n"
    environment = {**os.environ, "PYTHONPATH": str(Path(viz.__file__).parents[1]), "MPLBACKEND": "klingon"}
    how = {"capture_output": True, "text": True, "encoding": "utf-8", "timeout": 300}
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=False, **how)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("matplotlib, which draws charts, fails (")
    assert "MPLBACKEND" in done.stdout
    assert done.stdout.count("\n") == 1


def test_wide_pictures_are_scaled_but_legible():
    bundle = bundle_of('<svg width="900pt" height="90pt" viewBox="0 0 900 90"></svg>', "<a picture>")
    assert bundle["text/plain"] == "<a picture>"
    # 900 pt are 1200 pixels; less than half of them, nobody could read.
    assert "max-width:max(100%, 600px);height:auto" in bundle["text/html"]
    assert 'alt="&lt;a picture&gt;"' in bundle["text/html"]


def test_html_contains_the_same_picture():
    bundle = viz.draw(gn.tanh(gn.input((3,), name="x")))._repr_mimebundle_()
    data = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', bundle["text/html"])
    assert data is not None
    assert base64.b64decode(data[1]).decode() == bundle["image/svg+xml"]


def test_explorer_display_is_the_written_page(tmp_path):
    cost = gn.sum(gn.tanh(gn.input((3,), name="x<")))
    page = viz.explore(cost)
    bundle = page._repr_mimebundle_()
    (frame,) = ElementTree.fromstring(f"<p>{bundle['text/html']}</p>")  # the whole page is in one attribute
    assert frame.tag == "iframe"
    assert " ".join(frame.attrib["srcdoc"].split()) == " ".join(page.html.split())
    written = viz.explore(cost, tmp_path / "a.html")
    assert written.read_text(encoding="utf-8") == page.html
    assert page.save(tmp_path / "b.html").read_bytes() == written.read_bytes()
    with pytest.raises(viz.DrawingError, match=r"suffix must be \.html"):
        page.save(tmp_path / "b.svg")


TEXT = "to be or not to be, that is the question. " * 30


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[rnn.Network, rnn.training.Outcome]:
    corpus = rnn.data.Corpus.split(TEXT)
    net = rnn.Network([rnn.GRU(4)], len(corpus.vocabulary), len(corpus.vocabulary))
    folder = tmp_path_factory.mktemp("run")
    problem = rnn.CarriedText(net, corpus, time=10, batch=4, sample=9)
    return net, rnn.Trainer(problem, rnn.Training(epochs=2), folder).run()


def result(steps: int = 5) -> rnn.optimizers.minimize.Result:  # type: ignore[name-defined]
    w = gn.parameter(np.ones(3), name="w")
    return rnn.minimize(rnn.Objective(gn.sum(w * w), [w]), rnn.Adam(0.1), steps=steps)


def test_outcomes_display_a_curve_and_are_accepted_by_charts(trained) -> None:
    _, outcome = trained
    bundle = outcome._repr_mimebundle_()
    assert bundle["image/svg+xml"] == viz.training_curve(outcome).svg
    assert outcome.history not in bundle["text/plain"]
    viz.compare_runs({"a": outcome, "b": str(Path(outcome.history).parent)})
    assert [axes.get_title(loc="left") for axes in viz.weight_norms(outcome).axes] == ["layer0", "output"]
    assert "before training" in str(viz.samples(outcome))


def test_results_display_their_steps() -> None:
    found = result()
    assert found._repr_mimebundle_()["image/svg+xml"] == viz.flight_recorder(found).svg
    assert [row["step"] for row in found.__history__()] == [1, 2, 3, 4, 5]
    assert len(repr(found)) < 200, "its reports could be thousands"


def test_readings_and_costs_display_themselves(trained) -> None:
    net, _ = trained
    bundle = rnn.read(net, TEXT[:50])._repr_mimebundle_()
    assert "cold start" in bundle["text/html"]
    assert "image/svg+xml" in rnn.cost_over_text(net, TEXT, characters=100)._repr_mimebundle_()


def test_objects_without_a_picture_are_shown_as_text(trained, monkeypatch: pytest.MonkeyPatch) -> None:
    net, outcome = trained
    broken = rnn.training.Outcome("epochs", 1.0, 1, 1, 1, "no/such/history.jsonl")
    assert set(broken._repr_mimebundle_()) == {"text/plain"}
    assert set(rnn.training.Outcome("epochs", 1.0, 1, 1, 1)._repr_mimebundle_()) == {"text/plain"}
    monkeypatch.setattr(viz, "mimebundle", lambda thing: 1 / 0)
    for thing in (outcome, result(1), rnn.read(net, "to be"), net):
        assert set(thing._repr_mimebundle_()) == {"text/plain"}
