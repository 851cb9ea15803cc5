"""Cells that contain other cells: in separate frames, or closed."""

from __future__ import annotations

import graphnet_rnn as rnn
import viz
from tests.tables import case
from viz.style import Role

WRAPPERS = {
    rnn.Residual: {"GRU"}, rnn.Normalized: {"GRU"}, rnn.Attention: {"GRU"},
    rnn.Bidirectional: {"GRU forward", "GRU backward"},
}  # fmt: skip


def test_inner_cells_have_frames() -> None:
    for wrapper, frames in WRAPPERS.items():
        with case(wrapper.__name__):
            shapes = viz.draw(wrapper(rnn.GRU(4)), style="compact").picture.shapes
            assert {" ".join(s.cluster.lines) for s in shapes if s.cluster is not None} == frames
            alone = [
                s for s in viz.draw(rnn.GRU(4), style="compact").picture.shapes if s.role is Role.OPERATOR
            ]
            inside = [s for s in shapes if s.cluster is not None and s.role is Role.OPERATOR]
            assert len(inside) == len(alone) * len(frames)


def test_closed_inner_cells_are_one_operator() -> None:
    for wrapper, frames in WRAPPERS.items():
        with case(wrapper.__name__):
            picture = viz.draw(wrapper(rnn.GRU(4)), style="compact", closed=True).picture
            boxes = {s.key for s in picture.shapes if " ".join(s.lines) in frames}
            assert len(boxes) == len(frames)
            for key in boxes:
                tails = [edge.tail for edge in picture.edges if edge.head == key]
                assert len(tails) == len(set(tails)) == 2
                assert not any(edge.label for edge in picture.edges if edge.head == key)


def test_networks_have_the_frames_of_layers() -> None:
    shapes = viz.draw(rnn.Network([rnn.Residual(rnn.GRU(3))], 3, 3).unroll(2, 1), closed=False).picture.shapes
    assert {s.cluster.cell for s in shapes if s.cluster is not None} - {None} == {"Residual(GRU)"}
