"""The cost over a text: where the parts are, their means, and the rate of new words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import viz
from tests.tables import case

pytest.importorskip("matplotlib")


@dataclass
class Costs:
    characters: int = 1000
    bits: tuple[float, ...] = (float("nan"), *np.linspace(3, 2, 79), *[2.5] * 10, *[2.8] * 10)
    new_words: tuple[int, ...] = (50, *[4] * 99)
    parts: tuple[tuple[str, int], ...] = (("training", 0), ("validation", 80_000), ("test", 90_000))
    length: int = 100_000


def test_parts_are_marked_with_their_means():
    above, below = viz.cost_over_text(Costs()).axes
    assert [text.get_text() for text in above.texts] == [
        "training\n2.500",
        "validation\n2.500",
        "test\n2.800",
    ]
    borders = [line.get_xdata()[0] for line in below.get_lines() if len(line.get_xdata()) == 2]
    assert borders == [80, 90]
    assert below.get_xlabel() == "characters (thousands)"


def test_pieces_and_their_running_mean():
    above, _ = viz.cost_over_text(Costs()).axes
    pieces, mean = (line for line in above.get_lines() if len(line.get_xdata()) > 2)
    np.testing.assert_allclose(pieces.get_xdata(), np.arange(1, 100) + 0.5)
    np.testing.assert_allclose(pieces.get_ydata(), Costs().bits[1:])
    np.testing.assert_allclose(mean.get_ydata()[[0, -1]], [3, 2.8])


def test_new_words_are_for_a_thousand_characters_also_in_a_last_short_piece():
    costs = Costs(characters=500, bits=(2.0,) * 3, new_words=(5, 5, 1), parts=(), length=1100)
    _, below = viz.cost_over_text(costs).axes
    np.testing.assert_allclose(below.get_lines()[0].get_ydata(), [10, 10, 10])
    assert below.get_xlabel() == "characters"


def test_one_spike_does_not_press_the_rest_together():
    bits = [2.0 + 0.1 * np.sin(i) for i in range(4000)]
    bits[7] = 60.0
    above, _ = viz.cost_over_text(
        Costs(bits=tuple(bits), new_words=(1,) * 4000, parts=(), length=4_000_000)
    ).axes
    assert above.get_ylim()[1] < 3
    assert above.get_xlim() == (0, 4)


def test_several_networks_share_the_axes():
    figure = viz.cost_over_text({"GRU": Costs(), "LSTM": Costs(bits=(1.0,) * 100)}, title="Both")
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["GRU", "LSTM"]


def test_nothing_to_draw_is_said():
    for costs in (Costs(bits=(float("nan"),)), Costs(bits=())):
        with case(costs), pytest.raises(viz.DrawingError, match=r"give what rnn\.cost_over_text"):
            viz.cost_over_text(costs)


def test_a_text_shorter_than_a_piece_is_a_point():
    """A line through one point would be an empty picture, and so would a point beyond the end of the text."""
    short = Costs(1000, (3.1,), (12,), (("text", 0),), 230)
    for axes in viz.cost_over_text(short).axes:
        (point,) = [line for line in axes.get_lines() if line.get_marker() == "o"]
        assert list(point.get_xdata()) == [115]
        assert axes.get_xlim() == (0, 230)
