"""Every optimizer by its name on the command line."""

from __future__ import annotations

from graphnet_rnn.optimizers.base import Optimizer
from graphnet_rnn.optimizers.first_order import SGD, Adam, AdamW, Momentum, Nesterov, RMSprop
from graphnet_rnn.optimizers.hessian_free import AugmentedHessianFree, GreedyHessianFree, HessianFree
from graphnet_rnn.optimizers.lbfgs import LBFGS
from graphnet_rnn.optimizers.natural_gradient import NaturalGradient
from graphnet_rnn.optimizers.nonlinear_cg import NonlinearConjugateGradient
from graphnet_rnn.optimizers.riemannian import Riemannian

ALL: dict[str, type[Optimizer]] = {
    "sgd": SGD,
    "momentum": Momentum,
    "nesterov": Nesterov,
    "rmsprop": RMSprop,
    "adam": Adam,
    "adamw": AdamW,
    "hf": HessianFree,
    "greedy_hf": GreedyHessianFree,
    "augmented_hf": AugmentedHessianFree,
    "lbfgs": LBFGS,
    "nonlinear_cg": NonlinearConjugateGradient,
    "riemannian": Riemannian,
    "natural_gradient": NaturalGradient,
}
