"""fit_output: the output weights of a network in closed form, as for an echo-state network."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphnet as gn
from graphnet.node import Array
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.network import Network
from graphnet_rnn.settings import whole_number

__all__ = ["fit_output"]

#: Steps that are unrolled at once; longer sequences are read in pieces of this length.
PIECE = 100


def fit_output(network: Network, inputs: Any, targets: Any, ridge: float = 1e-6, washout: int = 0) -> float:
    """W, b = argmin mean ‖h W + b - t‖² + λ ‖W‖²: ridge regression of the targets on what the output reads

    inputs (time, batch, inputs), or symbols (time, batch); targets (time, batch, outputs). ridge: λ, by which the
    weights, but not b, are kept small. washout: steps at the start that are left out, until the states have forgotten
    where they began. The layers stay as they are; W_ho (W_h0o, ... where connections skip) and b_o are set. Returns the
    mean over cases and scored steps of Σ (o - t)².
    Raises UsageError for a network whose loss is not "squared", DataError for arrays that do not fit.
    Source: Jaeger & Haas 2004; Sutskever 2013, 2.8.4.
    """
    if network.loss != "squared":
        raise UsageError(
            f"fit_output minimises squared errors, but the network's loss is {network.loss!r}; give it "
            "loss='squared'"
        )
    if not (isinstance(ridge, (int, float)) and ridge >= 0):
        raise UsageError(f"fit_output: ridge must be >= 0, not {ridge!r}")
    washout = whole_number("fit_output: washout", washout, least=0)
    x, t = _checked(network, inputs, targets, washout)
    h = _read_by_output(network, x)[washout:]
    rows, wanted = h.reshape(-1, h.shape[2]), t[washout:].reshape(-1, network.outputs).astype(np.float64)
    weights = network.output_weights
    bias = wanted.mean(axis=0) if network.output_bias else np.zeros(network.outputs)
    centre = rows.mean(axis=0) if network.output_bias else np.zeros(rows.shape[1])
    # Centred, so that b is free of the penalty.
    a, b = rows - centre, wanted - bias
    moments = a.T @ a / len(a) + ridge * np.eye(a.shape[1])
    spectrum = np.linalg.eigvalsh(moments)
    if spectrum[0] <= len(moments) * np.finfo(np.float64).eps * spectrum[-1]:
        raise DataError(
            f"fit_output: the {rows.shape[1]} values that the output reads depend on each other over {len(rows)} "
            f"cases, so with ridge = {ridge:g} no solution is unique; give a larger one, e.g. 1e-6."
        )
    solution = np.linalg.solve(moments, a.T @ b / len(a))
    start = 0
    for node in weights:
        node.value[...] = solution[start : start + node.shape[0]]
        start += node.shape[0]
    if network.output_bias:
        network.parameters["output.b_o"].value[...] = bias - centre @ solution
    return float(((a @ solution - b) ** 2).sum(axis=1).mean())


def _checked(network: Network, inputs: Any, targets: Any, washout: int) -> tuple[Array, Array]:
    x, t = np.asarray(inputs), np.asarray(targets)
    symbols = network.reads == "symbols"
    width = () if symbols else (network.inputs,)
    if x.ndim != (2 if symbols else 3) or x.shape[2:] != width:
        raise DataError(
            f"fit_output: inputs must be (time, batch{'' if symbols else f', {network.inputs}'}), not {list(x.shape)}"
        )
    if t.shape != (*x.shape[:2], network.outputs):
        raise DataError(
            f"fit_output: targets must be {[*x.shape[:2], network.outputs]} for these inputs, not {list(t.shape)}"
        )
    if len(x) <= washout:
        raise DataError(
            f"fit_output: {len(x)} steps and a washout of {washout} leave nothing to fit; give longer sequences."
        )
    return x.astype(np.int64 if symbols else network.dtype), t


def _read_by_output(network: Network, x: Array) -> Array:
    """What the output reads, (time, batch, width), in float64."""
    batch = x.shape[1]
    states: list[Array] = network.first_states(batch)
    pieces = []
    functions: dict[int, gn.Function] = {}
    length = PIECE if network.causal else len(x)
    for start in range(0, len(x), length):
        piece = x[start : start + length]
        function = functions.get(len(piece))
        if function is None:
            u = network.unroll(len(piece), batch, training=False)
            read = u.hidden if network.skips_outputs else u.hidden[-1:]
            function = functions[len(piece)] = gn.compile([*read, *u.final], [u.inputs, *u.initial])
        results = function(piece, *states)
        states = list(results[len(network.output_weights) :])
        pieces.append(
            np.concatenate([h.astype(np.float64) for h in results[: len(network.output_weights)]], axis=2)
        )
    return np.concatenate(pieces)
