"""The slides of docs/lecture.py: readable on a slide, and animated in the order of execution."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from viz.drawing.render import installed_renderer

pytestmark = pytest.mark.skipif(installed_renderer() is None, reason="Graphviz")
FILE = Path(__file__).parents[1] / "docs" / "lecture.py"
#: Room for pictures on a slide, in pixels.
WIDE, HIGH, GAP = 1520, 650, 40


@pytest.fixture(scope="module")
def lecture() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lecture", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["lecture"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(slide: Any) -> None:
    room = (WIDE - GAP * (len(slide.pictures) - 1)) / len(slide.pictures)
    for drawing in slide.pictures:
        size = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', drawing.svg)
        assert size is not None
        scale = min(room / float(size[1]), HIGH / float(size[2]))
        assert scale * min(map(float, re.findall(r'font-size="([\d.]+)"', drawing.svg))) >= 10
    shapes = {
        key: n
        for drawing in slide.pictures
        for n, key in enumerate(re.findall(r"<title>(\w+)</title>", drawing.svg))
    }
    assert {key for key, _ in slide.steps} <= set(shapes)
    assert bool(slide.steps) == slide.animated


def test_the_first_slides(lecture: ModuleType) -> None:
    slides = lecture.slides()
    for _ in range(2):
        check(next(slides))


@pytest.mark.slow
def test_all_slides(lecture: ModuleType) -> None:
    every = list(lecture.slides())
    assert len(every) == 21
    for slide in every:
        check(slide)
    page = lecture.page()
    assert page.count("<section") == 21
    assert "%%" not in page


def test_the_mirror_is_animated_forward_and_then_backward(lecture: ModuleType) -> None:
    cost = lecture.regression()
    steps = lecture.Slide(
        "", "", (lecture.viz.mirror(cost, values=False, style="full"),), animated=True
    ).steps
    keys = [key for key, _ in steps]
    turn = next(n for n, key in enumerate(keys) if key.endswith("_back"))
    numbers = [int(key.removesuffix("_back")[1:]) for key in keys]
    assert numbers[:turn] == sorted(numbers[:turn])
    assert numbers[turn:] == sorted(numbers[turn:], reverse=True)
    assert numbers[turn] == numbers[turn - 1]
