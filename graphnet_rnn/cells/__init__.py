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
    from graphnet_rnn.cells.all import ALL as ALL
    from graphnet_rnn.cells.attention import Attention as Attention, attention_memory as attention_memory
    from graphnet_rnn.cells.boltzmann import HMMFilter as HMMFilter, RTRBMFilter as RTRBMFilter
    from graphnet_rnn.cells.combine import (
        Bidirectional as Bidirectional,
        LayerNormLSTM as LayerNormLSTM,
        Normalized as Normalized,
        Residual as Residual,
    )
    from graphnet_rnn.cells.elman import NARX as NARX, Elman as Elman
    from graphnet_rnn.cells.equations import Equations as Equations
    from graphnet_rnn.cells.feedforward import Dense as Dense
    from graphnet_rnn.cells.gru import GRU as GRU, GRUResetAfter as GRUResetAfter
    from graphnet_rnn.cells.highway import RHN as RHN, HyperRHN as HyperRHN
    from graphnet_rnn.cells.hyper import Hyper as Hyper, HyperLSTM as HyperLSTM
    from graphnet_rnn.cells.lstm import (
        LSTM as LSTM,
        LSTM1997 as LSTM1997,
        LSTMKrause as LSTMKrause,
        LSTMPeephole as LSTMPeephole,
        LSTMProjected as LSTMProjected,
        LSTMSutskever as LSTMSutskever,
    )
    from graphnet_rnn.cells.multiplicative import (
        MRNN as MRNN,
        MultiplicativeLSTM as MultiplicativeLSTM,
        StackedMRNN as StackedMRNN,
        TensorRNN as TensorRNN,
    )
    from graphnet_rnn.cells.reservoir import EchoState as EchoState, LeakyRNN as LeakyRNN
    from graphnet_rnn.cells.sparse import (
        GLNN as GLNN,
        GNN as GNN,
        GraphLSTM as GraphLSTM,
        GraphRNN as GraphRNN,
    )
