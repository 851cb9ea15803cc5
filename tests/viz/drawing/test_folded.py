"""Long encoder-decoders are folded without losing inputs of hidden steps."""

from __future__ import annotations

import re

import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from graphnet_rnn.network.unroll import Unrolled
from tests.viz.drawing.test_closed import check_layout, plain
from viz.drawing.closed import BoxKind

ENCODERS = {
    "both ways": ([rnn.Bidirectional(rnn.GRU(4))], 8),
    "stacked": ([rnn.GRU(4), rnn.GRU(4)], 4),
    "one": ([rnn.GRU(4)], 4),
}


def pair(layers: list[rnn.Cell], width: int, time: int) -> Unrolled:
    """A decoder that looks at an encoder's outputs."""
    encoder = rnn.Network(layers, 10, 0)
    decoder = rnn.Network([rnn.Attention(rnn.GRU(5), memory=width, places=time, score="dot")], 11, 11)
    e = encoder.unroll(time, 2, inputs="word", initial="zero", name="encoder")
    memory = rnn.attention_memory(e.hidden[-1])
    return decoder.unroll(time, 2, inputs="before", targets="answer", initial=memory, name="decoder")


@pytest.mark.parametrize("name", ENCODERS)
def test_the_memory_of_a_decoder_is_drawn(name: str) -> None:
    for time in (3, 6, 8, 20):
        dot = viz.draw(pair(*ENCODERS[name], time)).dot
        assert "of encoder" in dot, time


@pytest.mark.parametrize("longest", [(3, 2), (12, 9), (4, 20)])
def test_encoder_and_decoder_count_and_fold_their_own_steps(longest: tuple[int, int]) -> None:
    drawing = viz.draw(rnn.Seq2Seq.of(rnn.GRU(4), 5, 6, longest), closed=True)
    check_layout(drawing)
    boxes = drawing.picture.shapes
    for name, time in (("read_{}", longest[0]), ("before_{}", longest[1] + 1), ("o{}", longest[1] + 1)):
        shown = (1, time) if time > 3 else range(1, time + 1)
        numbered = [name.format(number) for number in shown]
        words = [plain(box.lines[0]) for box in boxes]
        assert [word for word in words if re.fullmatch(name.format(r"\d+"), word)] == numbered
    cells = {
        row: [box.column for box in boxes if (box.row, box.kind) == (row, BoxKind.CELL)] for row in (1, 2)
    }
    starts = {box.row: box.column for box in boxes if box.kind is BoxKind.STATE}
    assert starts[1] == min(cells[1]) - 1
    assert starts[2] == max(cells[2]) + 1
    assert len(starts) == 3


def steps_of(layer: str, h: gn.Node, times: range) -> gn.Node:
    for time in times:
        with gn.scope(layer=layer, cell="Tanh", time=time):
            h = gn.tanh(h)
    return h


def test_consecutive_networks_are_folded_separately() -> None:
    """Each network is a part; repeated layers, single-step layers and outputs before the steps are not."""
    h = gn.input((1, 2), name="h_0")
    thrice = steps_of("c", steps_of("b", steps_of("a", h, range(1, 6)), range(6, 9)), range(9, 13))
    again = steps_of("a", steps_of("b", steps_of("a", h, range(1, 6)), range(6, 9)), range(9, 13))
    single = h
    for time in range(1, 13):
        single = steps_of(f"layer{time}", single, range(time, time + 1))
    e = rnn.Network([rnn.GRU(4)], 5, 0).unroll(4, 1, name="encoder")
    d = rnn.Network([rnn.GRU(4)], 5, 5).unroll(3, 1, initial=e.final, predict_first=True, name="decoder")
    for thing, parts in ((thrice, 3), (again, 1), (single, 1), (d, 1)):
        drawing = viz.draw(thing, closed=True, steps=20)
        check_layout(drawing)
        assert len(drawing.picture.parts) == parts
        check_layout(viz.draw(thing, closed=True))


def test_output_reading_the_previous_state() -> None:
    h, outputs = gn.input((1, 2), name="h_0"), []
    for time in range(1, 4):
        with gn.scope(layer="output", time=time):
            outputs.append(gn.exp(h))
        h = steps_of("layer0", h, range(time, time + 1))
    assert viz.draw(gn.sum(gn.add(*outputs)), closed=True).svg


def test_the_output_of_a_whole_sequence_is_drawn() -> None:
    for pool, words in (("last", "last step"), ("mean", "mean over time"), ("max", "max over time")):
        for lengths in (False, True):
            net = rnn.Network([rnn.LSTM(3), rnn.Bidirectional(rnn.GRU(2))], 5, 3, pool=pool)
            dot = viz.draw(net.unroll(6, 2, lengths=lengths)).dot
            assert (words in dot, "of each case" in dot) == (True, lengths), (pool, lengths)
            assert dot.count("<sub>ho</sub>") == 1, (pool, lengths)  # its weight, on an arrow or in the box


def test_cost_with_lengths_is_labelled_as_a_mean_over_all_steps() -> None:
    for loss in ("softmax", "squared", "sigmoid"):
        u = rnn.Network([rnn.GRU(2)], 2, 2, loss=loss, reads="vectors").unroll(3, 2, lengths=True)
        assert "mean over the steps of all cases" in viz.draw(u).dot, loss
