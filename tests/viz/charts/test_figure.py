"""Charts: the same bytes each time, and shown in notebooks."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import viz
from graphnet.errors import GraphnetError
from tests.tables import case
from viz.errors import by_matplotlib

pytest.importorskip("matplotlib")

ROWS = [{"event": "epoch", "epoch": e, "train_bits": 3 / e, "valid_bits": 3.1 / e} for e in (1, 2, 3)]


def test_the_same_rows_are_the_same_bytes(tmp_path, monkeypatch):
    for ending in ("svg", "png", "pdf"):
        viz.training_curve(ROWS).save(tmp_path / f"1.{ending}")
        with monkeypatch.context() as another_day:
            another_day.setattr(time, "time", lambda: 2e9)
            another_day.setenv("SOURCE_DATE_EPOCH", "86400")
            viz.training_curve(ROWS).savefig(tmp_path / f"2.{ending}")
        assert (tmp_path / f"1.{ending}").read_bytes() == (tmp_path / f"2.{ending}").read_bytes(), ending


def test_metadata_and_formats_are_still_ones_own(tmp_path):
    viz.training_curve(ROWS).savefig(tmp_path / "curve", format="svg", metadata={"Title": "mine"})
    text = (tmp_path / "curve").read_text(encoding="utf-8")
    assert "mine" in text
    assert "<dc:date>" not in text


def test_a_chart_shows_itself_and_never_raises(monkeypatch):
    chart = viz.training_curve(ROWS)
    bundle = chart._repr_mimebundle_()
    assert bundle["image/svg+xml"] == chart.svg == viz.training_curve(ROWS).svg
    assert chart.svg.startswith("<?xml")
    monkeypatch.setattr(type(chart), "savefig", lambda *_, **__: 1 / 0)
    assert set(chart._repr_mimebundle_()) == {"text/plain"}


def test_saving_again_in_another_size_and_format_changes_nothing(tmp_path):
    norms = {"at first": {"h": [1.0, 0.1, 0.01]}, "at last": {"h": [1.0, 0.3, 0.1]}}
    chart = viz.gradient_by_distance(norms)
    first = chart.svg
    chart.savefig(tmp_path / "a.png", dpi=150)
    chart.savefig(tmp_path / "b.png", dpi=150)
    assert chart.svg == first
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


# -- what matplotlib reads of the user's -----------------------------------------------------------

ROOT = Path(viz.__file__).parents[1]


def test_a_date_that_is_none_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "abc")
    says = r"matplotlib.* fails \(ValueError: .*'abc'\);.* SOURCE_DATE_EPOCH"
    for ending in ("svg", "pdf"):
        with case(ending), pytest.raises(viz.DrawingError, match=says):
            viz.training_curve(ROWS).savefig(tmp_path / f"curve.{ending}")
    assert list(tmp_path.iterdir()) == []


def test_settings_that_cannot_be_drawn_by_are_one_sentence():
    import matplotlib
    from cycler import cycler

    with (
        matplotlib.rc_context({"axes.prop_cycle": cycler(color=[])}),
        pytest.raises(viz.DrawingError, match=r"matplotlib.* fails .*matplotlibrc"),
    ):
        viz.training_curve(ROWS)


def test_a_matplotlib_that_cannot_be_imported_is_one_sentence():
    program = f"import viz\ntry:\n    viz.training_curve({ROWS})\nexcept viz.DrawingError as error:\n    print(error)\n"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "klingon"},
        capture_output=True, text=True, encoding="utf-8", check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("matplotlib, which draws charts, fails (")
    assert "MPLBACKEND" in done.stdout
    assert done.stdout.count("\n") == 1


def test_every_chart_is_drawn_so():
    public = [getattr(viz, name) for name in viz.__all__]
    charts = [f for f in public if inspect.isfunction(f) and f.__annotations__.get("return") == "Chart"]
    assert len(charts) > 7
    outer = by_matplotlib()(lambda: None).__code__
    for chart in charts:
        assert chart.__code__ is outer or chart.__name__ == "history_chart", f"decorate {chart.__name__}"


def test_a_fault_of_ours_is_told_as_one():
    with pytest.raises(ZeroDivisionError), by_matplotlib():
        1 / 0
    with pytest.raises(GraphnetError), by_matplotlib():
        raise GraphnetError
