"""Networks in PyTorch and JAX.

torch_module   a network as a torch.nn.Module
torch_modules  class of these modules; the only file that imports torch
jax_function   a network as a function on JAX arrays
jax_functions  makes these functions; the only file that imports jax
calls          used by both: a network's outputs and states, compiled for a time and batch
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.inside.jax_function import jax_function as jax_function
    from graphnet_rnn.inside.torch_module import torch_module as torch_module
