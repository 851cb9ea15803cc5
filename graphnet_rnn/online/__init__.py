"""Online learning: the weights change while a sequence is read, without backpropagation through time.

learner         base of online learners: one time step at a time, states and derivatives of the past
rtrl            RTRL: the exact gradient of any causal network, forward in time
truncated       the truncated gradient of LSTM as a graph; TruncatedLSTM, the same forward in time
dynamic         DynamicEvaluation: weights that adapt to the test text

Source: Williams & Zipser 1989; Hochreiter & Schmidhuber 1997; Sutskever 2013, 2.8.1; Krause 2015, 2.2.
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.online.dynamic import DynamicEvaluation as DynamicEvaluation
    from graphnet_rnn.online.learner import Learner as Learner
    from graphnet_rnn.online.rtrl import RTRL as RTRL
    from graphnet_rnn.online.truncated import TruncatedLSTM as TruncatedLSTM, truncated as truncated
