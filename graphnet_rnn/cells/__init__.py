"""The architectures, in families; ALL names every one, with default arguments that build.

elman   the vanilla recurrent net
lstm    long short-term memory: the common form, Graves' with peepholes, Krause's
gru     gated recurrent unit, with the reset before or after the product
"""

from __future__ import annotations

from graphnet_rnn.cell import Cell
from graphnet_rnn.cells.elman import Elman
from graphnet_rnn.cells.gru import GRU, GRUResetAfter
from graphnet_rnn.cells.lstm import LSTM, LSTMKrause, LSTMPeephole

__all__ = ["ALL", "GRU", "LSTM", "Elman", "GRUResetAfter", "LSTMKrause", "LSTMPeephole"]

ALL: dict[str, type[Cell]] = {
    cell.__name__: cell for cell in (Elman, LSTM, LSTMPeephole, LSTMKrause, GRU, GRUResetAfter)
}
