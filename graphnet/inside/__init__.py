"""Compiled functions as differentiable functions of PyTorch and JAX.

differentiable  values, products with the Jacobian and its transpose, of any order, compiled on first use
torch_function  as a function on tensors of PyTorch
torch_calls     callbacks of PyTorch's autograd; the one file that imports torch
jax_function    as a function on arrays of JAX
jax_calls       as a primitive of JAX, with its derivatives
jax_native      calls from compiled programs of JAX, by its foreign function interface
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet.inside.differentiable import Differentiable as Differentiable
    from graphnet.inside.jax_function import jax_function as jax_function
    from graphnet.inside.torch_function import torch_function as torch_function
