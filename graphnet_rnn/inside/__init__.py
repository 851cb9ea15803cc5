"""Networks within the programs of others.

torch_module   a network as a torch.nn.Module
torch_modules  the class of such modules; the one file that imports torch
jax_function   a network as a function on arrays of JAX
jax_functions  the making of such functions; the one file that imports jax
calls          what both call: a network's outputs and states, compiled for a time and batch
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.inside.jax_function import jax_function
    from graphnet_rnn.inside.torch_module import torch_module

__all__ = ["jax_function", "torch_module"]
