"""graphnet_rnn: recurrent networks declared by equations on nodes, and their training.

import graphnet_rnn as rnn

net = rnn.Network([rnn.LSTM(128)], inputs=65, outputs=65)
u = net.unroll(time=50, batch=32)
"""

from __future__ import annotations

try:
    from graphnet.lazy import lazy_imports
except ModuleNotFoundError as error:
    if error.name != "graphnet.lazy":
        raise
    raise ImportError(
        "graphnet_rnn finds another project's package graphnet. Uninstall that, then install this one again: "
        "pip uninstall -y graphnet; pip install --force-reinstall --no-deps graphnet-rnn"
    ) from error

with lazy_imports(__name__):
    from graphnet_rnn import (
        cells,
        data,
        formats,
        inside,
        online,
        optimizers,
        parallel,
        riemannian,
        testing,
        training,
    )
    from graphnet_rnn.apps import sweep, writer
    from graphnet_rnn.apps.sweep import Sweep
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
        Attention,
        Bidirectional,
        Dense,
        EchoState,
        Elman,
        Equations,
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
        LSTMProjected,
        LSTMSutskever,
        MultiplicativeLSTM,
        Normalized,
        Residual,
        StackedMRNN,
        TensorRNN,
        attention_memory,
    )  # fmt: skip
    from graphnet_rnn.experiments import control, tasks
    from graphnet_rnn.formats.model_file import load, save
    from graphnet_rnn.model import Model
    from graphnet_rnn.models import energy
    from graphnet_rnn.models.hmm import HMM
    from graphnet_rnn.models.nade import RecurrentNADE
    from graphnet_rnn.network import ctc
    from graphnet_rnn.network.composed import composed
    from graphnet_rnn.network.network import Network
    from graphnet_rnn.network.norms import gradient_by_distance, weight_norms
    from graphnet_rnn.network.readout import fit_output
    from graphnet_rnn.network.running import Runner, run
    from graphnet_rnn.network.seq2seq import Seq2Seq
    from graphnet_rnn.network.unroll import Unrolled
    from graphnet_rnn.optimizers import (
        LBFGS,
        SGD,
        Adam,
        AdamW,
        AugmentedHessianFree,
        Constant,
        Cosine,
        ExpectationMaximization,
        ExponentialDecay,
        FirstOrder,
        GreedyHessianFree,
        HessianFree,
        InverseRootDecay,
        Momentum,
        NaturalGradient,
        Nesterov,
        NesterovMomentum,
        NonlinearConjugateGradient,
        OneCycle,
        OnPlateau,
        Ramp,
        Riemannian,
        RMSprop,
        Schedule,
        Stepwise,
        Warmup,
        minimize,
    )
    from graphnet_rnn.optimizers.batched import BatchedObjective
    from graphnet_rnn.optimizers.objective import Objective
    from graphnet_rnn.text.completion import Completion, Completions, complete
    from graphnet_rnn.text.evaluation import Evaluator
    from graphnet_rnn.text.lanes import Lanes
    from graphnet_rnn.text.ngrams import NGrams
    from graphnet_rnn.text.reading import Reading, TextCost, cost_over_text, read
    from graphnet_rnn.text.sampling import Sampler
    from graphnet_rnn.training import (
        Arrays,
        CarriedText,
        DrawnText,
        EarlyStopping,
        EnergyCases,
        GraphCases,
        LongSequence,
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
    "AdamW",
    "Arrays",
    "Attention",
    "AugmentedHessianFree",
    "BatchedObjective",
    "Bidirectional",
    "CarriedText",
    "Cell",
    "Completion",
    "Completions",
    "Constant",
    "Cosine",
    "Dense",
    "DrawnText",
    "EarlyStopping",
    "EchoState",
    "Elman",
    "EnergyCases",
    "Equations",
    "Evaluator",
    "ExpectationMaximization",
    "ExponentialDecay",
    "FirstOrder",
    "GRUResetAfter",
    "GraphCases",
    "GraphLSTM",
    "GraphRNN",
    "GreedyHessianFree",
    "HMMFilter",
    "HessianFree",
    "Hyper",
    "HyperLSTM",
    "HyperRHN",
    "InverseRootDecay",
    "LSTMKrause",
    "LSTMPeephole",
    "LSTMProjected",
    "LSTMSutskever",
    "Lanes",
    "LayerNormLSTM",
    "LeakyRNN",
    "LongSequence",
    "Model",
    "Momentum",
    "MultiplicativeLSTM",
    "NGrams",
    "NaturalGradient",
    "Nesterov",
    "NesterovMomentum",
    "Network",
    "NonlinearConjugateGradient",
    "Normalized",
    "Objective",
    "OnPlateau",
    "OneCycle",
    "Problem",
    "RMSprop",
    "Ramp",
    "Reading",
    "RecurrentNADE",
    "Residual",
    "Riemannian",
    "Runner",
    "Sampler",
    "Schedule",
    "Seq2Seq",
    "StackedMRNN",
    "State",
    "Stepwise",
    "Stream",
    "Sweep",
    "SymbolSequences",
    "TensorRNN",
    "TextCost",
    "Trainer",
    "Training",
    "Unrolled",
    "Warmup",
    "attention_memory",
    "cells",
    "complete",
    "composed",
    "control",
    "cost_over_text",
    "ctc",
    "data",
    "energy",
    "fit_output",
    "formats",
    "gradient_by_distance",
    "initializers",
    "inside",
    "load",
    "minimize",
    "online",
    "optimizers",
    "parallel",
    "read",
    "riemannian",
    "run",
    "save",
    "sweep",
    "tasks",
    "testing",
    "training",
    "weight_norms",
    "writer",
]  # fmt: skip
