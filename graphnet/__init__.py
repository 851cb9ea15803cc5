"""graphnet: automatic differentiation on a graph of nodes.

import graphnet as gn

x = gn.input((32, 10), name="x")
W = gn.parameter(weights, name="W")
cost = gn.mean(gn.squared_error(gn.tanh(x @ W), targets))
function = gn.compile([cost, *gn.gradient(cost, [W])], inputs=[x])
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports
from graphnet.version import __version__

with lazy_imports(__name__):
    from graphnet import inside, passes, testing
    from graphnet.backends import backend_of, place
    from graphnet.call.function import Function, compile
    from graphnet.call.stored import StoredFunction, load_function
    from graphnet.derivatives.curvature import gauss_newton_product, hessian_product
    from graphnet.derivatives.gradient import backward, gradient, rop
    from graphnet.derivatives.jacobian import jacobian
    from graphnet.derivatives.per_example import per_example_gradients
    from graphnet.errors import (
        BackendError,
        DifferentiationError,
        DtypeError,
        GraphnetError,
        NonFiniteError,
        NotEnoughMemoryError,
        ShapeError,
        UsageError,
        ValueAccessError,
    )
    from graphnet.graph.graph import Graph
    from graphnet.graph.node import Node, Op
    from graphnet.graph.provenance import scope
    from graphnet.onnx import export_onnx
    from graphnet.operators.estimates import Estimate, diagonal, trace
    from graphnet.operators.linear_operator import linear_operator
    from graphnet.operators.spectrum import Eigenvalues, SpectralDensity, eigenvalues, spectral_density
    from graphnet.ops.broadcast import broadcast_to
    from graphnet.ops.einsum import einsum
    from graphnet.ops.elementwise import (
        Elementwise,
        absolute,
        add,
        cast,
        ceil,
        clip,
        cos,
        divide,
        equal,
        erf,
        exp,
        floor,
        greater,
        greater_equal,
        less,
        less_equal,
        log,
        logical_and,
        logical_not,
        logical_or,
        maximum,
        minimum,
        mod,
        multiply,
        negative,
        power,
        relu,
        round,
        sigmoid,
        sign,
        sin,
        softplus,
        sqrt,
        subtract,
        tanh,
        where,
    )  # fmt: skip
    from graphnet.ops.index import one_hot, scatter_add, take, take_along_axis
    from graphnet.ops.leaf import constant, fill, input, label, parameter, stop_gradient
    from graphnet.ops.linear import matmul, scaled_matmul
    from graphnet.ops.loss import sigmoid_cross_entropy, softmax_cross_entropy, squared_error
    from graphnet.ops.random import RandomSource
    from graphnet.ops.reduce import argmax, cumsum, log_softmax, logsumexp, max, mean, min, softmax, sum
    from graphnet.ops.rowwise import Rowwise
    from graphnet.ops.shape import concatenate, pad, reshape, stack, transpose
    from graphnet.ops.surrogate import with_surrogate


__all__ = [
    "BackendError", "DifferentiationError", "DtypeError", "Eigenvalues", "Elementwise", "Estimate",
    "Function", "Graph", "GraphnetError", "Node", "NonFiniteError", "NotEnoughMemoryError", "Op",
    "RandomSource", "Rowwise", "ShapeError", "SpectralDensity", "StoredFunction", "UsageError", "ValueAccessError",
    "__version__", "absolute", "add", "argmax", "backend_of", "backward", "broadcast_to", "cast", "ceil",
    "clip", "compile", "concatenate", "constant", "cos", "cumsum", "diagonal", "divide", "eigenvalues",
    "einsum", "equal", "erf", "exp", "export_onnx", "fill", "floor", "gauss_newton_product", "gradient", "greater",
    "greater_equal", "hessian_product", "input", "inside", "jacobian", "label", "less", "less_equal", "linear_operator",
    "load_function", "log", "log_softmax", "logical_and", "logical_not", "logical_or", "logsumexp", "matmul",
    "max", "maximum", "mean", "min", "minimum", "mod", "multiply", "negative", "one_hot", "pad", "parameter",
    "passes", "per_example_gradients", "place", "power", "relu", "reshape", "rop", "round", "scaled_matmul",
    "scatter_add", "scope", "sigmoid", "sigmoid_cross_entropy", "sign", "sin", "softmax",
    "softmax_cross_entropy", "softplus", "spectral_density", "sqrt", "squared_error", "stack",
    "stop_gradient", "subtract", "sum", "take", "take_along_axis", "tanh", "testing", "trace", "transpose",
    "where", "with_surrogate",
]  # fmt: skip
