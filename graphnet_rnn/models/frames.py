"""Models of frames on a network that reads the frames before: its check, and its inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphnet as gn
from graphnet_rnn.errors import UsageError
from graphnet_rnn.network.network import Network, require_network
from graphnet_rnn.settings import shown


def require_network_of_frames(owner: str, network: Any) -> Network:
    """Returns the network; UsageError unless it is causal, reads vectors and has no output of its own."""
    require_network(owner, network).require_causal(owner)
    if network.outputs or network.reads != "vectors" or network.pool is not None:
        raise UsageError(
            f"{owner}: network must read vectors and have no output of its own, e.g. "
            f"rnn.Network([rnn.GRU(100)], 88, 0, reads='vectors'), not {shown(network, 200)}"
        )
    found: Network = network
    return found


def before(v: Any, of: Any) -> Any:
    """Frames before each: zeros, v_1 ... v_{T-1}; of nodes (of = gn) or arrays (of = np)."""
    zeros = gn.fill(0, (1, *v.shape[1:]), v.dtype) if of is gn else np.zeros_like(v[:1])
    return of.concatenate([zeros, v[:-1]], axis=0) if v.shape[0] > 1 else zeros
