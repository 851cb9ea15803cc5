"""Charts: the same bytes each time, and shown in notebooks."""

from __future__ import annotations

import time

import pytest

import viz

pytest.importorskip("matplotlib")

ROWS = [{"event": "epoch", "epoch": e, "train_bits": 3 / e, "valid_bits": 3.1 / e} for e in (1, 2, 3)]


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_the_same_rows_are_the_same_bytes(tmp_path, monkeypatch, ending):
    for number in (1, 2):
        viz.training_curve(ROWS).savefig(tmp_path / f"{number}.{ending}")
        monkeypatch.setattr(time, "time", lambda: 2e9)  # another day
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert (tmp_path / f"1.{ending}").read_bytes() == (tmp_path / f"2.{ending}").read_bytes()


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
