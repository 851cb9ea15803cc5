"""ALL: cells by name. Each can be built with default arguments."""

from __future__ import annotations

from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cells.attention import Attention
from graphnet_rnn.cells.boltzmann import HMMFilter, RTRBMFilter
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

ALL: dict[str, type[Cell]] = {
    cell.__name__: cell
    for cell in (
        Elman, Dense, LSTM, LSTMPeephole, LSTMProjected, LSTM1997, LSTMKrause, LSTMSutskever, GRU, GRUResetAfter,
        TensorRNN, MRNN, StackedMRNN, MultiplicativeLSTM, RHN, HyperRHN, Hyper, HyperLSTM,
        Normalized, LayerNormLSTM, GraphRNN, GNN, GLNN, GraphLSTM, LeakyRNN, EchoState, NARX, RTRBMFilter, HMMFilter,
        Residual, Bidirectional, Attention, Equations,
    )
}  # fmt: skip
