"""graphnet_rnn: recurrent networks declared by equations on nodes, and their training.

    import graphnet_rnn as rnn

    net = rnn.Network([rnn.LSTM(128)], inputs=65, outputs=65)
    u = net.unroll(time=50, batch=32)
"""

from __future__ import annotations

from graphnet_rnn import cells, data, initializers, optimizers
from graphnet_rnn.cell import Cell, State
from graphnet_rnn.cells import GRU, LSTM, Elman, LSTMKrause, LSTMPeephole
from graphnet_rnn.network import Network
from graphnet_rnn.unroll import Unrolled
