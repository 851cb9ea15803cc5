"""Training: the Trainer, the problems that it trains, and the files of a run."""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.training.arrays import Arrays as Arrays
    from graphnet_rnn.training.energy import EnergyCases as EnergyCases
    from graphnet_rnn.training.folder import RunFolder as RunFolder
    from graphnet_rnn.training.graph_cases import GraphCases as GraphCases
    from graphnet_rnn.training.interruption import Interruption as Interruption
    from graphnet_rnn.training.listeners import Listener as Listener, Outcome as Outcome
    from graphnet_rnn.training.long_sequence import LongSequence as LongSequence
    from graphnet_rnn.training.problem import Problem as Problem
    from graphnet_rnn.training.progress_bar import ProgressBar as ProgressBar
    from graphnet_rnn.training.settings import EarlyStopping as EarlyStopping, Training as Training
    from graphnet_rnn.training.stream import Stream as Stream
    from graphnet_rnn.training.symbols import SymbolSequences as SymbolSequences
    from graphnet_rnn.training.text import CarriedText as CarriedText, DrawnText as DrawnText
    from graphnet_rnn.training.trainer import Trainer as Trainer
