"""Optimizers of an objective over a flat vector, independent of networks.

base         base class of optimizers: settings, a state of arrays, and a step
objective    the cost as a function of the flat vector: loss, gradient, curvature
batched      loss, gradient and curvature averaged over several batches
by_size      batches of several sizes, one graph for each size
structure    hidden units for structural damping
vectors      operations on long vectors
compiled_equations  compiles an optimizer's equations into in-place functions; gradient clipping
first_order  SGD, momentum, Nesterov, RMSprop, Adam, AdamW
groups       parameter groups: factors on learning rate and weight decay, frozen parameters
conjugate_gradient  linear systems by matrix-vector products
quadratic_model  the quadratic model of a second-order step
hessian_free  Hessian-free optimization
line_search  a step length by the strong Wolfe conditions
line_search_methods  base class of L-BFGS and nonlinear conjugate gradients
lbfgs        L-BFGS
riemannian   steps in a metric of the network's units, with the step control of its source
natural_gradient  natural gradient for minibatches: steps in a running mean of a metric
nonlinear_cg  nonlinear conjugate gradient
expectation  expectation-maximization
step         one guarded step, the basis of every training loop
schedules    schedules of learning rate and momentum
minimize     runs an optimizer on any objective
checks       tests for your own optimizer
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
