"""torch_module: a network as a torch.nn.Module."""

from __future__ import annotations

import importlib.util
from typing import Any

from graphnet_rnn.errors import UsageError
from graphnet_rnn.network.network import Network, require_network
from graphnet_rnn.settings import yes_or_no


def torch_module(
    network: Network, batch_first: bool = False, backend: str = "numba", threads: int | None = None
) -> Any:
    """outputs, states = module(x, states=None, lengths=None), as torch.nn.LSTM is called; a torch.nn.Module

    network: any rnn.Network without dropout. batch_first: True for x and outputs (batch, time, ...). backend, threads:
    see gn.compile.
    x: (time, batch, inputs), or with batch_first (batch, time, inputs); symbols without the last axis. states: one
    tensor (batch, width) for each state, in the order of `network.state_names()`; None: the network's first states.
    lengths: whole numbers (batch,), the length of each padded sequence; None: all have the length of x. Outputs of
    padding are 0, and the returned states are those after the last step of each sequence.
    outputs: before the loss's nonlinearity (with a scaling, in the units of the targets); without an output layer,
    those of the last layer. With a bidirectional layer, or pool "mean" or "max", running a sequence in segments changes
    the result; as in PyTorch, this is not an error.
    The module's Parameters are copies of the network's, with "/" for "." in their names; `module.network()` returns the
    network with the current values. The last eight compiled sizes (time, batch, with lengths or without) are kept.
    Raises UsageError without PyTorch, and for a network with dropout, whose random numbers PyTorch does not control.

    >>> network = rnn.Network([rnn.LSTM(3)], inputs=4, outputs=2, reads="vectors")
    >>> import torch  # doctest: +SKIP
    >>> module = rnn.inside.torch_module(network, batch_first=True)  # doctest: +SKIP
    >>> outputs, states = module(torch.zeros(1, 5, 4))  # doctest: +SKIP
    >>> outputs.shape, [state.shape for state in states]  # doctest: +SKIP
    (torch.Size([1, 5, 2]), [torch.Size([1, 3]), torch.Size([1, 3])])
    """
    network = require_network("torch_module", network)
    batch_first = yes_or_no("torch_module: batch_first", batch_first)
    if importlib.util.find_spec("torch") is None:
        raise UsageError("torch_module: PyTorch is not installed: pip install torch")
    from graphnet_rnn.inside.torch_modules import NetworkModule

    return NetworkModule(network, batch_first, backend, threads)
