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
        cells as cells,
        data as data,
        formats as formats,
        inside as inside,
        online as online,
        optimizers as optimizers,
        parallel as parallel,
        riemannian as riemannian,
        testing as testing,
        training as training,
    )
    from graphnet_rnn.apps import sweep as sweep, writer as writer
    from graphnet_rnn.apps.sweep import Sweep as Sweep
    from graphnet_rnn.cell import initializers as initializers
    from graphnet_rnn.cell.cell import Cell as Cell
    from graphnet_rnn.cell.declaration import State as State
    from graphnet_rnn.cells import (
        GLNN as GLNN,
        GNN as GNN,
        GRU as GRU,
        LSTM as LSTM,
        LSTM1997 as LSTM1997,
        MRNN as MRNN,
        NARX as NARX,
        RHN as RHN,
        Attention as Attention,
        Bidirectional as Bidirectional,
        Dense as Dense,
        EchoState as EchoState,
        Elman as Elman,
        Equations as Equations,
        GraphLSTM as GraphLSTM,
        GraphRNN as GraphRNN,
        GRUResetAfter as GRUResetAfter,
        HMMFilter as HMMFilter,
        Hyper as Hyper,
        HyperLSTM as HyperLSTM,
        HyperRHN as HyperRHN,
        LayerNormLSTM as LayerNormLSTM,
        LeakyRNN as LeakyRNN,
        LSTMKrause as LSTMKrause,
        LSTMPeephole as LSTMPeephole,
        LSTMProjected as LSTMProjected,
        LSTMSutskever as LSTMSutskever,
        MultiplicativeLSTM as MultiplicativeLSTM,
        Normalized as Normalized,
        Residual as Residual,
        RTRBMFilter as RTRBMFilter,
        StackedMRNN as StackedMRNN,
        TensorRNN as TensorRNN,
        attention_memory as attention_memory,
    )
    from graphnet_rnn.experiments import control as control, tasks as tasks
    from graphnet_rnn.formats.model_file import load as load, save as save
    from graphnet_rnn.model import Model as Model
    from graphnet_rnn.models import energy as energy
    from graphnet_rnn.models.hmm import HMM as HMM
    from graphnet_rnn.models.nade import RecurrentNADE as RecurrentNADE
    from graphnet_rnn.network import ctc as ctc
    from graphnet_rnn.network.composed import composed as composed
    from graphnet_rnn.network.network import Network as Network
    from graphnet_rnn.network.norms import (
        gradient_by_distance as gradient_by_distance,
        weight_norms as weight_norms,
    )
    from graphnet_rnn.network.readout import fit_output as fit_output
    from graphnet_rnn.network.running import Runner as Runner, run as run
    from graphnet_rnn.network.seq2seq import Seq2Seq as Seq2Seq
    from graphnet_rnn.network.unroll import Unrolled as Unrolled
    from graphnet_rnn.optimizers import (
        LBFGS as LBFGS,
        SGD as SGD,
        Adam as Adam,
        AdamW as AdamW,
        AugmentedHessianFree as AugmentedHessianFree,
        Constant as Constant,
        Cosine as Cosine,
        ExpectationMaximization as ExpectationMaximization,
        ExponentialDecay as ExponentialDecay,
        FirstOrder as FirstOrder,
        GreedyHessianFree as GreedyHessianFree,
        HessianFree as HessianFree,
        InverseRootDecay as InverseRootDecay,
        Momentum as Momentum,
        NaturalGradient as NaturalGradient,
        Nesterov as Nesterov,
        NesterovMomentum as NesterovMomentum,
        NonlinearConjugateGradient as NonlinearConjugateGradient,
        OneCycle as OneCycle,
        OnPlateau as OnPlateau,
        Ramp as Ramp,
        Riemannian as Riemannian,
        RMSprop as RMSprop,
        Schedule as Schedule,
        Stepwise as Stepwise,
        Warmup as Warmup,
        minimize as minimize,
    )
    from graphnet_rnn.optimizers.objective import Objective as Objective
    from graphnet_rnn.text.completion import (
        Completion as Completion,
        Completions as Completions,
        complete as complete,
    )
    from graphnet_rnn.text.evaluation import Evaluator as Evaluator
    from graphnet_rnn.text.lanes import Lanes as Lanes
    from graphnet_rnn.text.ngrams import NGrams as NGrams
    from graphnet_rnn.text.reading import (
        Reading as Reading,
        TextCost as TextCost,
        cost_over_text as cost_over_text,
        read as read,
    )
    from graphnet_rnn.text.sampling import Sampler as Sampler
    from graphnet_rnn.training import (
        Arrays as Arrays,
        CarriedText as CarriedText,
        DrawnText as DrawnText,
        EarlyStopping as EarlyStopping,
        EnergyCases as EnergyCases,
        GraphCases as GraphCases,
        LongSequence as LongSequence,
        Problem as Problem,
        Stream as Stream,
        SymbolSequences as SymbolSequences,
        Trainer as Trainer,
        Training as Training,
    )
