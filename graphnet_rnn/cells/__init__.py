"""Cells in families. ALL maps names to classes; each class can be built with default arguments.

elman           vanilla recurrent net; NARX and time-delay connections
feedforward     layers without memory; deep autoencoders
lstm            long short-term memory in six forms
gru             gated recurrent unit, with both places of the reset gate
multiplicative  recurrent weights that depend on the input: tensor, factors, stacked, with memory cells
highway         recurrent highway networks, plain and hyper
hyper           hypernetworks, which scale the weights of any cell; HyperLSTM
sparse          RNN, GNN, GLNN and LSTM over a sparse random graph
reservoir       leaky integrators, echo-state network
boltzmann       deterministic part of the RTRBM, filter of a hidden Markov model
combine         bidirectional layers, residual connections, layer normalization
attention       attention over the states of another network
equations       a cell from the text of its equations
all             ALL: cells by name
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.cells.all import ALL
    from graphnet_rnn.cells.attention import Attention, attention_memory
    from graphnet_rnn.cells.boltzmann import RTRBM, HMMFilter
    from graphnet_rnn.cells.combine import Bidirectional, LayerNormLSTM, Normalized, Residual
    from graphnet_rnn.cells.elman import NARX, Elman
    from graphnet_rnn.cells.equations import Equations
    from graphnet_rnn.cells.feedforward import Dense
    from graphnet_rnn.cells.gru import GRU, GRUResetAfter
    from graphnet_rnn.cells.highway import RHN, HyperRHN
    from graphnet_rnn.cells.hyper import Hyper, HyperLSTM
    from graphnet_rnn.cells.lstm import LSTM, LSTM1997, LSTMKrause, LSTMPeephole, LSTMProjected, LSTMSutskever
    from graphnet_rnn.cells.multiplicative import MRNN, MultiplicativeLSTM, StackedMRNN, TensorRNN
    from graphnet_rnn.cells.reservoir import EchoState, LeakyRNN
    from graphnet_rnn.cells.sparse import GLNN, GNN, GraphLSTM, GraphRNN

__all__ = [
    "ALL", "GLNN", "GNN", "GRU", "LSTM", "LSTM1997", "MRNN", "NARX", "RHN", "RTRBM", "Attention", "Bidirectional",
    "Dense", "EchoState", "Elman", "Equations", "GRUResetAfter", "GraphLSTM", "GraphRNN", "HMMFilter", "Hyper",
    "HyperLSTM", "HyperRHN", "LSTMKrause", "LSTMPeephole", "LSTMProjected", "LSTMSutskever", "LayerNormLSTM",
    "LeakyRNN", "MultiplicativeLSTM", "Normalized", "Residual", "StackedMRNN", "TensorRNN", "attention_memory",
]  # fmt: skip
