"""Which weights meet in which units, in pictures."""

from __future__ import annotations

from typing import Any

import pytest

import graphnet_rnn as rnn
import viz
from graphnet_rnn.riemannian import unit_groups
from tests.tables import case
from viz.errors import DrawingError


def unrolled(cell: rnn.Cell) -> Any:
    return rnn.Network([cell], 3, 3).unroll(2, 2)


def test_every_weight_and_every_pre_activation_says_its_units() -> None:
    u = unrolled(rnn.GRU(4))
    groups = unit_groups(u.cost, u.network.parameters)
    notes = viz.units(groups)
    for number, group in enumerate(groups):
        for incoming in group.incoming:
            note = notes.note([incoming.weight])
            assert note is not None
            assert note.lines == (f"into V{number + 1}",)
        for at in group.pre_activations:
            note = notes.note([u.inputs, at.V])
            assert note is not None
            assert note.lines == (f"V{number + 1}: {group.units} units",)
            assert note.heat == number + 1
    assert notes.note([u.inputs]) is None


def test_a_picture_shows_them() -> None:
    for style in ["full", "compact"]:
        with case(style):
            u = unrolled(rnn.GRU(4))
            drawn = viz.draw(
                u.cost, style, closed=False, notes=viz.units(unit_groups(u.cost, u.network.parameters))
            )
            # In the compact style weights are words at the edges.
            weights = ["into V1"] if style == "full" else []
            for words in (*weights, "V1: 4 units", "V3: 4 units", "units, by pre-activation"):
                assert words in drawn.dot


def test_symbols_are_told() -> None:
    u = unrolled(rnn.GLNN(4, edges=2))
    drawn = viz.draw(u.cost, closed=False, notes=viz.units(unit_groups(u.cost, u.network.parameters)))
    assert "4 units for each of 3 symbols" in drawn.dot


def test_what_are_no_groups() -> None:
    for given in [None, 3, "groups", [1], [rnn.GRU]]:
        with case(given), pytest.raises(DrawingError, match=r"units takes what rnn\.riemannian\.unit_groups"):
            viz.units(given)
