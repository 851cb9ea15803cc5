"""Energy-based models on nodes: restricted Boltzmann machines and their temporal forms.

units        visible units: binary or Gaussian
equations    free energy and log Z, as nodes
model        base of the models
rbm          RBM
sequence     an RBM at every time step: inference, prediction, sampling
temporal     TRBM, RTRBM
recurrent    RecurrentRBM: biases from a recurrent network
divergence   contrastive divergence as an objective of the optimizers
annealing    Markov chains in NumPy, and estimates of log Z
stack        models on top of each other, trained one at a time

Rows are cases, so a matrix of the source (v to h: W v) is transposed here (v @ W). Nats throughout.
Source: Sutskever 2013, 2.7 and chapter 3.
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.models.energy.divergence import ContrastiveDivergence as ContrastiveDivergence
    from graphnet_rnn.models.energy.model import EnergyModel as EnergyModel
    from graphnet_rnn.models.energy.rbm import RBM as RBM
    from graphnet_rnn.models.energy.recurrent import RecurrentRBM as RecurrentRBM
    from graphnet_rnn.models.energy.stack import Stack as Stack
    from graphnet_rnn.models.energy.temporal import RTRBM as RTRBM, TRBM as TRBM
