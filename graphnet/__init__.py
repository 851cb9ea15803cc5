"""graphnet: automatic differentiation on a graph of nodes.

import graphnet as gn

x = gn.input((32, 10), name="x")
W = gn.parameter(weights, name="W")
cost = gn.mean(gn.squared_error(gn.tanh(x @ W), targets))
function = gn.compile([cost, *gn.gradient(cost, [W])], inputs=[x])
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet import inside as inside, passes as passes, testing as testing
    from graphnet.backends import backend_of as backend_of, place as place
    from graphnet.call.function import Function as Function, compile as compile
    from graphnet.call.stored import StoredFunction as StoredFunction, load_function as load_function
    from graphnet.derivatives.curvature import (
        gauss_newton_product as gauss_newton_product,
        hessian_product as hessian_product,
    )
    from graphnet.derivatives.gradient import backward as backward, gradient as gradient, rop as rop
    from graphnet.derivatives.jacobian import jacobian as jacobian
    from graphnet.derivatives.per_example import per_example_gradients as per_example_gradients
    from graphnet.errors import (
        BackendError as BackendError,
        DifferentiationError as DifferentiationError,
        DtypeError as DtypeError,
        GraphnetError as GraphnetError,
        NonFiniteError as NonFiniteError,
        NotEnoughMemoryError as NotEnoughMemoryError,
        ShapeError as ShapeError,
        UsageError as UsageError,
        ValueAccessError as ValueAccessError,
    )
    from graphnet.graph.graph import Graph as Graph
    from graphnet.graph.node import Node as Node, Op as Op
    from graphnet.graph.provenance import scope as scope
    from graphnet.onnx import export_onnx as export_onnx
    from graphnet.operators.estimates import Estimate as Estimate, diagonal as diagonal, trace as trace
    from graphnet.operators.linear_operator import linear_operator as linear_operator
    from graphnet.operators.spectrum import (
        Eigenvalues as Eigenvalues,
        SpectralDensity as SpectralDensity,
        eigenvalues as eigenvalues,
        spectral_density as spectral_density,
    )
    from graphnet.ops.broadcast import broadcast_to as broadcast_to
    from graphnet.ops.einsum import einsum as einsum
    from graphnet.ops.elementwise import (
        Elementwise as Elementwise,
        absolute as absolute,
        add as add,
        cast as cast,
        ceil as ceil,
        clip as clip,
        cos as cos,
        divide as divide,
        equal as equal,
        erf as erf,
        exp as exp,
        floor as floor,
        greater as greater,
        greater_equal as greater_equal,
        less as less,
        less_equal as less_equal,
        log as log,
        logical_and as logical_and,
        logical_not as logical_not,
        logical_or as logical_or,
        maximum as maximum,
        minimum as minimum,
        mod as mod,
        multiply as multiply,
        negative as negative,
        power as power,
        relu as relu,
        round as round,
        sigmoid as sigmoid,
        sign as sign,
        sin as sin,
        softplus as softplus,
        sqrt as sqrt,
        subtract as subtract,
        tanh as tanh,
        where as where,
    )
    from graphnet.ops.index import (
        one_hot as one_hot,
        scatter_add as scatter_add,
        take as take,
        take_along_axis as take_along_axis,
    )
    from graphnet.ops.leaf import (
        constant as constant,
        fill as fill,
        input as input,
        label as label,
        parameter as parameter,
        stop_gradient as stop_gradient,
    )
    from graphnet.ops.linear import matmul as matmul, scaled_matmul as scaled_matmul
    from graphnet.ops.loss import (
        sigmoid_cross_entropy as sigmoid_cross_entropy,
        softmax_cross_entropy as softmax_cross_entropy,
        squared_error as squared_error,
    )
    from graphnet.ops.random import RandomSource as RandomSource
    from graphnet.ops.reduce import (
        argmax as argmax,
        cumsum as cumsum,
        log_softmax as log_softmax,
        logsumexp as logsumexp,
        max as max,
        mean as mean,
        min as min,
        softmax as softmax,
        sum as sum,
    )
    from graphnet.ops.rowwise import Rowwise as Rowwise
    from graphnet.ops.shape import (
        concatenate as concatenate,
        pad as pad,
        reshape as reshape,
        stack as stack,
        transpose as transpose,
    )
    from graphnet.ops.surrogate import with_surrogate as with_surrogate
    from graphnet.version import __version__ as __version__
