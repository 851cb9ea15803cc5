"""graphnet_rnn: recurrent networks declared by equations on nodes, and their training.

import graphnet_rnn as rnn

net = rnn.Network([rnn.LSTM(128)], inputs=65, outputs=65)
u = net.unroll(time=50, batch=32)
"""

from __future__ import annotations

from graphnet_rnn import cells, data, initializers, interchange, optimizers, testing
from graphnet_rnn.cell import Cell, State
from graphnet_rnn.cells import GRU, LSTM, Elman, GRUResetAfter, LSTMKrause, LSTMPeephole
from graphnet_rnn.early_stopping import EarlyStopping
from graphnet_rnn.evaluation import Evaluator
from graphnet_rnn.model_file import load, save
from graphnet_rnn.network import Network
from graphnet_rnn.objective import Objective
from graphnet_rnn.optimizers import SGD, Adam, Momentum, Nesterov, RMSprop, minimize
from graphnet_rnn.sampling import Sampler
from graphnet_rnn.training import Trainer
from graphnet_rnn.unroll import Unrolled

__all__ = [
    "GRU",
    "LSTM",
    "SGD",
    "Adam",
    "Cell",
    "EarlyStopping",
    "Elman",
    "Evaluator",
    "GRUResetAfter",
    "LSTMKrause",
    "LSTMPeephole",
    "Momentum",
    "Nesterov",
    "Network",
    "Objective",
    "RMSprop",
    "Sampler",
    "State",
    "Trainer",
    "Unrolled",
    "cells",
    "data",
    "initializers",
    "interchange",
    "load",
    "minimize",
    "optimizers",
    "save",
    "testing",
]  # fmt: skip
