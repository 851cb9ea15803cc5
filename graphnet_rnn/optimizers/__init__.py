"""Optimizers: they see an objective over a flat vector, and know nothing of networks.

base         what every optimizer is: settings, a state of arrays, and a step
objective    the cost as a function of the flat vector: loss, gradient, curvature
batched      each of these over batches of its own
by_size      for batches of several sizes, a graph of each
structure    the hidden units, whose change structural damping penalises
vectors      what is computed of long vectors
compiled_equations  from equations on nodes to functions that change arrays; limits on the gradient
first_order  SGD, momentum, Nesterov, RMSprop, Adam, AdamW
groups       which parameters learn more slowly, decay less, or do not learn
conjugate_gradient  linear systems by products with their matrix
quadratic_model  what a second-order step minimises, and how well it predicts
hessian_free  steps to the minimum of a damped quadratic model
line_search  a step length by the strong Wolfe conditions
line_search_methods  what L-BFGS and nonlinear conjugate gradients share
lbfgs        L-BFGS
riemannian   steps in a metric of the net's units, by the control of its source
natural_gradient  steps in a running mean of such a metric, for minibatches
nonlinear_cg  nonlinear conjugate gradient
expectation  expectation-maximisation
step         one guarded step, under every loop
schedules    how rate and momentum change from step to step, from epoch to epoch, and by what was validated
minimize     an optimizer applied to any objective
checks       what must hold of any optimizer
all          every optimizer by its name: ALL
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.optimizers.all import ALL
    from graphnet_rnn.optimizers.base import Optimizer, Report
    from graphnet_rnn.optimizers.conjugate_gradient import conjugate_gradient
    from graphnet_rnn.optimizers.expectation import ExpectationMaximization
    from graphnet_rnn.optimizers.first_order import SGD, Adam, AdamW, FirstOrder, Momentum, Nesterov, RMSprop
    from graphnet_rnn.optimizers.hessian_free import (
        AugmentedHessianFree,
        CurvedOptimizer,
        GreedyHessianFree,
        HessianFree,
        HessianFreeReport,
    )
    from graphnet_rnn.optimizers.lbfgs import LBFGS
    from graphnet_rnn.optimizers.line_search_methods import LineSearchOptimizer, LineSearchReport
    from graphnet_rnn.optimizers.minimize import Result, minimize
    from graphnet_rnn.optimizers.natural_gradient import NaturalGradient, NaturalGradientReport
    from graphnet_rnn.optimizers.nonlinear_cg import NonlinearConjugateGradient
    from graphnet_rnn.optimizers.riemannian import Riemannian, RiemannianReport
    from graphnet_rnn.optimizers.schedules import (
        Constant,
        Cosine,
        ExponentialDecay,
        InverseRootDecay,
        NesterovMomentum,
        OneCycle,
        OnPlateau,
        Ramp,
        Schedule,
        Stepwise,
        Warmup,
    )

__all__ = [
    "ALL",
    "LBFGS",
    "SGD",
    "Adam",
    "AdamW",
    "AugmentedHessianFree",
    "Constant",
    "Cosine",
    "CurvedOptimizer",
    "ExpectationMaximization",
    "ExponentialDecay",
    "FirstOrder",
    "GreedyHessianFree",
    "HessianFree",
    "HessianFreeReport",
    "InverseRootDecay",
    "LineSearchOptimizer",
    "LineSearchReport",
    "Momentum",
    "NaturalGradient",
    "NaturalGradientReport",
    "Nesterov",
    "NesterovMomentum",
    "NonlinearConjugateGradient",
    "OnPlateau",
    "OneCycle",
    "Optimizer",
    "RMSprop",
    "Ramp",
    "Report",
    "Result",
    "Riemannian",
    "RiemannianReport",
    "Schedule",
    "Stepwise",
    "Warmup",
    "conjugate_gradient",
    "minimize",
]  # fmt: skip
