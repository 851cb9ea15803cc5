"""Long encoder-decoders are folded to a few steps: what stands at hidden steps alone is not lost."""

from __future__ import annotations

import pytest

import graphnet_rnn as rnn
import viz
from graphnet_rnn.network.unroll import Unrolled

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


def test_the_output_of_a_whole_sequence_is_drawn() -> None:
    for pool, words in (("last", "last step"), ("mean", "mean over time"), ("max", "max over time")):
        for lengths in (False, True):
            net = rnn.Network([rnn.LSTM(3), rnn.Bidirectional(rnn.GRU(2))], 5, 3, pool=pool)
            dot = viz.draw(net.unroll(6, 2, lengths=lengths)).dot
            assert (words in dot, "of each case" in dot) == (True, lengths), (pool, lengths)
