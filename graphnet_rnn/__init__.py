"""graphnet_rnn: recurrent networks declared by equations on nodes, and their training.

import graphnet_rnn as rnn

net = rnn.Network([rnn.LSTM(128)], inputs=65, outputs=65)
u = net.unroll(time=50, batch=32)
"""

from __future__ import annotations

import graphnet_rnn.starting as _starting  # noqa: F401  before all else
from graphnet_rnn import cells, data, formats, online, optimizers, riemannian, tasks, testing, training
from graphnet_rnn.cell import initializers
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.declaration import State
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
    GraphLSTM,
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
from graphnet_rnn.formats.model_file import load, save
from graphnet_rnn.model import Model
from graphnet_rnn.models import control, energy
from graphnet_rnn.models.hmm import HMM
from graphnet_rnn.network import ctc
from graphnet_rnn.network.network import Network
from graphnet_rnn.network.norms import gradient_by_distance, weight_norms
from graphnet_rnn.network.readout import fit_output
from graphnet_rnn.network.running import Runner, run
from graphnet_rnn.network.unroll import Unrolled
from graphnet_rnn.optimizers import (
    LBFGS,
    SGD,
    Adam,
    AugmentedHessianFree,
    ExpectationMaximization,
    FirstOrder,
    GreedyHessianFree,
    HessianFree,
    Momentum,
    NaturalGradient,
    Nesterov,
    NesterovMomentum,
    NonlinearConjugateGradient,
    Riemannian,
    RMSprop,
    Stepwise,
    TrustRegion,
    minimize,
)
from graphnet_rnn.optimizers.batched import BatchedObjective
from graphnet_rnn.optimizers.objective import Objective
from graphnet_rnn.text.evaluation import Evaluator
from graphnet_rnn.text.reading import Reading, TextCost, cost_over_text, read
from graphnet_rnn.text.sampling import Sampler
from graphnet_rnn.training import (
    Arrays,
    CarriedText,
    DrawnText,
    EarlyStopping,
    EnergyCases,
    LongSequence,
    Movements,
    Problem,
    Stream,
    SymbolSequences,
    Trainer,
    Training,
)

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
    "Arrays",
    "AugmentedHessianFree",
    "BatchedObjective",
    "Bidirectional",
    "CarriedText",
    "Cell",
    "Dense",
    "DrawnText",
    "EarlyStopping",
    "EchoState",
    "Elman",
    "EnergyCases",
    "Evaluator",
    "ExpectationMaximization",
    "FirstOrder",
    "GRUResetAfter",
    "GraphLSTM",
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
    "LongSequence",
    "Model",
    "Momentum",
    "Movements",
    "MultiplicativeLSTM",
    "NaturalGradient",
    "Nesterov",
    "NesterovMomentum",
    "Network",
    "NonlinearConjugateGradient",
    "Normalized",
    "Objective",
    "Problem",
    "RMSprop",
    "Reading",
    "Residual",
    "Riemannian",
    "Runner",
    "Sampler",
    "StackedMRNN",
    "State",
    "Stepwise",
    "Stream",
    "SymbolSequences",
    "TensorRNN",
    "TextCost",
    "Trainer",
    "Training",
    "TrustRegion",
    "Unrolled",
    "cells",
    "control",
    "cost_over_text",
    "ctc",
    "data",
    "energy",
    "fit_output",
    "formats",
    "gradient_by_distance",
    "initializers",
    "load",
    "minimize",
    "online",
    "optimizers",
    "read",
    "riemannian",
    "run",
    "save",
    "tasks",
    "testing",
    "training",
    "weight_norms",
]  # fmt: skip
