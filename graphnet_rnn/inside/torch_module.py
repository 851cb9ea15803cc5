"""torch_module: a network as a torch.nn.Module."""

from __future__ import annotations

import importlib.util
from typing import Any

from graphnet_rnn.errors import UsageError
from graphnet_rnn.network.network import Network, require_network
from graphnet_rnn.settings import yes_or_no

__all__ = ["torch_module"]


def torch_module(
    network: Network, batch_first: bool = False, backend: str = "numba", threads: int | None = None
) -> Any:
    """outputs, states = module(x, states=None), as torch.nn.LSTM is called; a torch.nn.Module

    x: (time, batch, inputs), with batch_first (batch, time, inputs); symbols without the last axis. states: one tensor
    (batch, width) for each state, in the order of `network.state_names()`; the network's first states if None. outputs:
    what enters the loss's own nonlinearity (with a scaling, in the units of the targets), or, of a network without
    output layer, what its last layer gives. With a layer that reads a sequence from its end, or pool "mean" or "max",
    pieces that hand their states on are not the whole; as in PyTorch this is not refused.
    Its Parameters are copies of the network's, named as there with "/" for "."; `module.network()` is the network with
    the present ones. What is compiled for a time and batch is kept, for the last eight of these.
    Raises UsageError without PyTorch, and for a network with dropout, whose draws are not PyTorch's.
    """
    network = require_network("torch_module", network)
    batch_first = yes_or_no("torch_module: batch_first", batch_first)
    if importlib.util.find_spec("torch") is None:
        raise UsageError("torch_module: PyTorch is not installed: pip install torch")
    from graphnet_rnn.inside.torch_modules import NetworkModule

    return NetworkModule(network, batch_first, backend, threads)
