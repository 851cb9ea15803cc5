"""graphnet_rnn: recurrent networks declared by equations on nodes, and their training.

import graphnet_rnn as rnn

net = rnn.Network([rnn.LSTM(128)], inputs=65, outputs=65)
u = net.unroll(time=50, batch=32)
"""

from __future__ import annotations

from graphnet_rnn import (
    cells,
    control,
    ctc,
    data,
    energy,
    initializers,
    interchange,
    online,
    optimizers,
    tasks,
    testing,
)
from graphnet_rnn.batched import BatchedObjective
from graphnet_rnn.cell import Cell
from graphnet_rnn.cells import (
        GLNN,
        GNN,
        GRU,
        LSTM,
        LSTM1997,
        MRNN,
        NARX,
        RHN,
        RTRBM,
        Bidirectional,
        Dense,
        EchoState,
        Elman,
        GraphRNN,
        GRUResetAfter,
        HMMFilter,
        Hyper,
        HyperLSTM,
        HyperRHN,
        LayerNormLSTM,
        LeakyRNN,
        LSTMKrause,
        LSTMPeephole,
        LSTMSutskever,
        MultiplicativeLSTM,
        Normalized,
        Residual,
        StackedMRNN,
        TensorRNN,
)  # fmt: skip
from graphnet_rnn.declaration import State
from graphnet_rnn.early_stopping import EarlyStopping
from graphnet_rnn.evaluation import Evaluator
from graphnet_rnn.markov import HMM
from graphnet_rnn.model import Model
from graphnet_rnn.model_file import load, save
from graphnet_rnn.network import Network
from graphnet_rnn.norms import gradient_by_distance, weight_norms
from graphnet_rnn.objective import Objective
from graphnet_rnn.optimizers import (
    LBFGS,
    SGD,
    Adam,
    AugmentedHessianFree,
    GreedyHessianFree,
    HessianFree,
    Momentum,
    Nesterov,
    NesterovMomentum,
    NonlinearConjugateGradient,
    RMSprop,
    Stepwise,
    minimize,
)
from graphnet_rnn.reading import Reading, TextCost, cost_over_text, read
from graphnet_rnn.readout import fit_output
from graphnet_rnn.running import Runner, run
from graphnet_rnn.sampling import Sampler
from graphnet_rnn.training import Trainer
from graphnet_rnn.unroll import Unrolled

__all__ = [
    "GLNN",
    "GNN",
    "GRU",
    "HMM",
    "LBFGS",
    "LSTM",
    "LSTM1997",
    "MRNN",
    "NARX",
    "RHN",
    "RTRBM",
    "SGD",
    "Adam",
    "AugmentedHessianFree",
    "BatchedObjective",
    "Bidirectional",
    "Cell",
    "Dense",
    "EarlyStopping",
    "EchoState",
    "Elman",
    "Evaluator",
    "GRUResetAfter",
    "GraphRNN",
    "GreedyHessianFree",
    "HMMFilter",
    "HessianFree",
    "Hyper",
    "HyperLSTM",
    "HyperRHN",
    "LSTMKrause",
    "LSTMPeephole",
    "LSTMSutskever",
    "LayerNormLSTM",
    "LeakyRNN",
    "Model",
    "Momentum",
    "MultiplicativeLSTM",
    "Nesterov",
    "NesterovMomentum",
    "Network",
    "NonlinearConjugateGradient",
    "Normalized",
    "Objective",
    "RMSprop",
    "Reading",
    "Residual",
    "Runner",
    "Sampler",
    "StackedMRNN",
    "State",
    "Stepwise",
    "TensorRNN",
    "TextCost",
    "Trainer",
    "Unrolled",
    "cells",
    "control",
    "cost_over_text",
    "ctc",
    "data",
    "energy",
    "fit_output",
    "gradient_by_distance",
    "initializers",
    "interchange",
    "load",
    "minimize",
    "online",
    "optimizers",
    "read",
    "run",
    "save",
    "tasks",
    "testing",
    "weight_norms",
]  # fmt: skip
