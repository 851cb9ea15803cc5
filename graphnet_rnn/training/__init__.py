"""Training: the Trainer, the problems that it trains, and the files of a run."""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.training.arrays import Arrays
    from graphnet_rnn.training.energy import EnergyCases
    from graphnet_rnn.training.folder import RunFolder
    from graphnet_rnn.training.graph_cases import GraphCases
    from graphnet_rnn.training.interruption import Interruption
    from graphnet_rnn.training.listeners import Listener, Outcome
    from graphnet_rnn.training.long_sequence import LongSequence
    from graphnet_rnn.training.problem import Problem
    from graphnet_rnn.training.progress_bar import ProgressBar
    from graphnet_rnn.training.settings import EarlyStopping, Training
    from graphnet_rnn.training.stream import Stream
    from graphnet_rnn.training.symbols import SymbolSequences
    from graphnet_rnn.training.text import CarriedText, DrawnText
    from graphnet_rnn.training.trainer import Trainer

__all__ = [
    "Arrays",
    "CarriedText",
    "DrawnText",
    "EarlyStopping",
    "EnergyCases",
    "GraphCases",
    "Interruption",
    "Listener",
    "LongSequence",
    "Outcome",
    "Problem",
    "ProgressBar",
    "RunFolder",
    "Stream",
    "SymbolSequences",
    "Trainer",
    "Training",
]
