"""Optimizers of an objective over a flat vector, independent of networks.

base         base class of optimizers: settings, a state of arrays, and a step
objective    a cost as a function of the flat vector: loss, gradient, curvature, on one batch or several
objective_arguments  checks of its arguments
batches      batches of a step, and means over them
compiled_cost  compiled functions of a cost, for batches of one size
parameter_vector  parameters as one vector
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
    from graphnet_rnn.optimizers.all import ALL as ALL
    from graphnet_rnn.optimizers.base import Optimizer as Optimizer, Report as Report
    from graphnet_rnn.optimizers.conjugate_gradient import conjugate_gradient as conjugate_gradient
    from graphnet_rnn.optimizers.expectation import ExpectationMaximization as ExpectationMaximization
    from graphnet_rnn.optimizers.first_order import (
        SGD as SGD,
        Adam as Adam,
        AdamW as AdamW,
        FirstOrder as FirstOrder,
        Momentum as Momentum,
        Nesterov as Nesterov,
        RMSprop as RMSprop,
    )
    from graphnet_rnn.optimizers.hessian_free import (
        AugmentedHessianFree as AugmentedHessianFree,
        CurvedOptimizer as CurvedOptimizer,
        GreedyHessianFree as GreedyHessianFree,
        HessianFree as HessianFree,
        HessianFreeReport as HessianFreeReport,
    )
    from graphnet_rnn.optimizers.lbfgs import LBFGS as LBFGS
    from graphnet_rnn.optimizers.line_search_methods import (
        LineSearchOptimizer as LineSearchOptimizer,
        LineSearchReport as LineSearchReport,
    )
    from graphnet_rnn.optimizers.minimize import Result as Result, minimize as minimize
    from graphnet_rnn.optimizers.natural_gradient import (
        NaturalGradient as NaturalGradient,
        NaturalGradientReport as NaturalGradientReport,
    )
    from graphnet_rnn.optimizers.nonlinear_cg import NonlinearConjugateGradient as NonlinearConjugateGradient
    from graphnet_rnn.optimizers.riemannian import (
        Riemannian as Riemannian,
        RiemannianReport as RiemannianReport,
    )
    from graphnet_rnn.optimizers.schedules import (
        Constant as Constant,
        Cosine as Cosine,
        ExponentialDecay as ExponentialDecay,
        InverseRootDecay as InverseRootDecay,
        NesterovMomentum as NesterovMomentum,
        OneCycle as OneCycle,
        OnPlateau as OnPlateau,
        Ramp as Ramp,
        Schedule as Schedule,
        Stepwise as Stepwise,
        Warmup as Warmup,
    )
