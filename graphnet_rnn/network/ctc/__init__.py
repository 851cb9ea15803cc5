"""Connectionist temporal classification: loss and decoding for unaligned label sequences.

from graphnet_rnn.network import ctc

u = net.unroll(time=100, batch=32)  # outputs=labels + 1
targets = gn.input((32, 10), "int64", name="labels")  # each row: labels, padded by -1
cost = gn.mean(ctc.ctc_loss(u.logits, targets))
found = ctc.greedy(logits), ctc.beam_search(logits, width=16)  # of arrays
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.network.ctc.decoding import (
        beam_search as beam_search,
        greedy as greedy,
        label_error_rate as label_error_rate,
    )
    from graphnet_rnn.network.ctc.loss import ctc_loss as ctc_loss
