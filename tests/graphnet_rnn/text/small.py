"""Small networks of text with weights at random, and ln p of a text by the plainest means."""

from __future__ import annotations

import numpy as np

import graphnet_rnn as rnn
from graphnet_rnn.network.running import run


def network(characters: str, cell: rnn.Cell | None = None, seed: int = 0, scale: float = 1.0) -> rnn.Network:
    count = len(characters)
    net = rnn.Network([cell or rnn.LSTM(5)], inputs=count, outputs=count)
    net.vocabulary = rnn.data.Vocabulary("".join(sorted(characters)))
    net.theta = np.random.default_rng(seed).normal(0, scale, net.theta.shape).astype(np.float32)
    return net


def log_p(net: rnn.Network, before: str, text: str) -> float:
    """ln p(text | before), by one run over all of it."""
    assert net.vocabulary is not None
    symbols = net.vocabulary.encode(before + text)
    logits = run(net, symbols[:-1, None])[0][:, 0].astype(np.float64)
    rows = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    every = rows[np.arange(len(rows)), symbols[1:]]
    return float(every[len(before) - 1 :].sum())
