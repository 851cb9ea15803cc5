"""Elementwise ops. Each defines a scalar expression, its NumPy forward and its partial derivatives.

`kernel` is mathematics, not code for one machine: every compiled back end is generated from it. The base
class derives `backward = gy · ∂y/∂x` and `rop = Σ rx · ∂y/∂x` from `partials`.

base         Elementwise; broadcasting and casting of inputs
casting      casts to another dtype
comparisons  < ≤ > ≥ =, and logical operations
functions    functions of one variable: tanh, σ, exp, ...
choices      maximum, minimum, where
arithmetic   + - * / ** and mod
"""

from __future__ import annotations

from graphnet.ops.elementwise.arithmetic import (
    Add,
    Divide,
    Mod,
    Multiply,
    Negative,
    Power,
    PowerOf,
    Subtract,
    add,
    divide,
    mod,
    multiply,
    negative,
    power,
    subtract,
)
from graphnet.ops.elementwise.base import Elementwise
from graphnet.ops.elementwise.casting import Cast, cast
from graphnet.ops.elementwise.choices import Maximum, Minimum, Where, clip, maximum, minimum, where
from graphnet.ops.elementwise.comparisons import (
    Equal,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    LogicalAnd,
    LogicalNot,
    LogicalOr,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
)
from graphnet.ops.elementwise.functions import (
    Absolute,
    Ceil,
    Cos,
    Erf,
    Exp,
    Floor,
    Log,
    ReLU,
    Round,
    Sigmoid,
    Sign,
    Sin,
    Softplus,
    Sqrt,
    Tanh,
    absolute,
    ceil,
    cos,
    erf,
    exp,
    floor,
    log,
    relu,
    round,
    sigmoid,
    sign,
    sin,
    softplus,
    sqrt,
    tanh,
)

__all__ = [
    "Absolute", "Add", "Cast", "Ceil", "Cos", "Divide", "Elementwise", "Equal", "Erf", "Exp", "Floor", "Greater",
    "GreaterEqual", "Less", "LessEqual", "Log", "LogicalAnd", "LogicalNot", "LogicalOr", "Maximum", "Minimum", "Mod",
    "Multiply", "Negative", "Power", "PowerOf", "ReLU", "Round", "Sigmoid", "Sign", "Sin", "Softplus", "Sqrt",
    "Subtract", "Tanh", "Where",
    "absolute", "add", "cast", "ceil", "clip", "cos", "divide", "equal", "erf", "exp", "floor", "greater",
    "greater_equal", "less", "less_equal", "log", "logical_and", "logical_not", "logical_or", "maximum", "minimum",
    "mod", "multiply", "negative", "power", "relu", "round", "sigmoid", "sign", "sin", "softplus", "sqrt", "subtract",
    "tanh", "where",
]  # fmt: skip
