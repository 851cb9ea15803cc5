"""Which weights meet in which units, in pictures."""

from __future__ import annotations

from typing import Any

import graphnet_rnn as rnn
import viz
from graphnet_rnn.riemannian import unit_groups


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


def drawn(cell: rnn.Cell, style: Any = "full") -> str:
    u = unrolled(cell)
    return viz.draw(
        u.cost, style, closed=False, notes=viz.units(unit_groups(u.cost, u.network.parameters))
    ).dot


def test_a_picture_shows_them() -> None:
    for style in ("full", "compact"):
        text = drawn(rnn.GRU(4), style)
        # In the compact style weights are words at the edges.
        weights = ["into V1"] if style == "full" else []
        for words in (*weights, "V1: 4 units", "V3: 4 units", "units, by pre-activation"):
            assert words in text, (style, words)
    assert "4 units for each of 3 symbols" in drawn(rnn.GLNN(4, edges=2))
