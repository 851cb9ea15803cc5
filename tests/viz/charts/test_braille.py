"""Text curves in braille: every dot is checked."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np

from viz.charts.braille import text_curve


def dots(lines: list[str]) -> np.ndarray:
    """(4 rows, 2 columns) of dots for each character, from the numbering of Unicode's braille patterns."""
    rows = [re.split("[│┤]", line)[1] for line in lines]
    grid = np.zeros((4 * len(rows), 2 * max(map(len, rows))), int)
    places = {1: (0, 0), 2: (1, 0), 3: (2, 0), 4: (0, 1), 5: (1, 1), 6: (2, 1), 7: (3, 0), 8: (3, 1)}
    for r, row in enumerate(rows):
        for c, character in enumerate(row):
            code = ord(character) - 0x2800 if "⠀" <= character <= "⣿" else 0
            for number, (y, x) in places.items():
                grid[4 * r + y, 2 * c + x] = code >> (number - 1) & 1
    return grid


def test_falling_line_has_no_gaps():
    lines = text_curve([(0, 1), (1, 0)], width=24, height=4)
    grid = dots(lines)
    assert grid[0, 0]
    assert grid[-1, -1]
    heights = [np.flatnonzero(column) for column in grid.T]
    assert all(h.size for h in heights)
    for left, right in itertools.pairwise(heights):
        assert right.min() - left.max() <= 1, "no gap"
        assert right.min() >= left.min(), "it falls"
    assert [line[:2] for line in (lines[0], lines[-1])] == ["1┤", "0┤"]


def test_steep_steps_are_vertical():
    grid = dots(text_curve([(0, 0), (10, 0), (10.01, 5), (20, 5)], width=22, height=3))
    assert (grid.sum(axis=1) > 0).all()


def test_points_are_marked_at_their_position():
    lines = text_curve([(0, 0), (10, 10)], [(10, 0)], width=20, height=4)
    assert lines[-1].endswith("●")
    assert sum(line.count("●") for line in lines) == 1


def test_columns_take_the_mean_of_their_points():
    noisy = [(x / 1000, (-1) ** x) for x in range(10_000)]
    grid = dots(text_curve([(0, -1), *noisy, (10, 1)], width=30, height=5))
    assert (grid[:, 4:-4].sum(axis=0) <= 2).all(), "a flat line, for the noise cancels"


def test_axis_ignores_steep_first_steps():
    line = [(0, 100.0), *((x, 3 - x / 100) for x in range(1, 101))]
    assert text_curve(line, width=40)[0].startswith("2.98┤")


def test_width_height_and_colours():
    line = [(x, math.sin(x / 5)) for x in range(100)]
    for width, height in ((16, 2), (40, 7), (133, 20)):
        lines = text_curve(line, [(50, 0)], width, height)
        assert len(lines) == height
        assert max(map(len, lines)) <= width
        assert "\x1b" not in "".join(lines)
        painted = text_curve(line, [(50, 0)], width, height, colour=True)
        assert [re.sub(r"\x1b\[\d+m", "", row) for row in painted] == lines
        assert all(row.count("\x1b[0m") == (row.count("\x1b") > 0) for row in painted)


def test_single_points_flat_lines_and_non_finite_values():
    assert len(text_curve([(1, 1)], width=20, height=2)) == 2
    assert len(text_curve([], [(1, 1)], width=20, height=2)) == 2
    assert text_curve([(0, 2), (1, 2), (2, math.nan), (math.inf, 2)])[0].startswith("2┤⠉")
