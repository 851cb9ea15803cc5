"""fit_output: output weights of a network in closed form, as for an echo-state network."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphnet.graph.dtypes import require_unmasked
from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.network.network import Network, require_network
from graphnet_rnn.network.running import Runner, checked_floats, checked_inputs
from graphnet_rnn.settings import amount, whole_number


def fit_output(
    network: Network,
    inputs: Any,
    targets: Any,
    ridge: float = 1e-6,
    washout: int = 0,
    backend: str = "numba",
    threads: int | None = None,
) -> float:
    """W, b = argmin mean ‖h W + b - t‖² + λ ‖W‖²: ridge regression of the targets on what the output reads

    network: its loss is "squared"; W_ho (W_h0o, ... with skip) and b_o are set, the layers stay unchanged. inputs:
    (time, batch, inputs), or symbols (time, batch). targets: (time, batch, outputs). ridge: λ, the penalty of the
    weights but not of b, 1e-6 by default. washout: number of time steps at the start to ignore, until the states have
    forgotten their initial values; 0 by default. backend, threads: see gn.compile.
    Returns the mean over cases and scored steps of Σ (o - t)²; with a scaling, fits and returns this for standardized
    targets.
    Raises UsageError for a network with another loss, DataError for arrays of other shapes.
    Source: Jaeger & Haas 2004; Sutskever 2013, 2.8.4.

    >>> net = rnn.Network([rnn.EchoState(20)], inputs=1, outputs=1, loss="squared")
    >>> wave = np.sin(np.arange(60.0)).reshape(-1, 1, 1)
    >>> error = rnn.fit_output(net, inputs=wave[:-1], targets=wave[1:], washout=10)
    >>> error < 1e-3
    True
    """
    require_network("fit_output", network).require_each_step("fit_output")
    if network.loss != "squared":
        raise UsageError(
            f"fit_output minimizes squared errors, but the network's loss is {network.loss!r}; create it with "
            "loss='squared'"
        )
    ridge = amount("fit_output: ridge", ridge)
    washout = whole_number("fit_output: washout", washout, least=0)
    x, t = _checked(network, inputs, targets, washout)
    h = Runner(network, read_by_output=True, backend=backend, threads=threads)(x)[0][washout:].astype(
        np.float64
    )
    rows, wanted = h.reshape(-1, h.shape[2]), t[washout:].reshape(-1, network.outputs)
    weights = network.output_weights
    bias = wanted.mean(axis=0) if network.output_bias else np.zeros(network.outputs)
    centre = rows.mean(axis=0) if network.output_bias else np.zeros(rows.shape[1])
    # Centered, so that b has no penalty.
    a, b = rows - centre, wanted - bias
    moments = a.T @ a / len(a) + ridge * np.eye(a.shape[1])
    spectrum = np.linalg.eigvalsh(moments)
    if spectrum[0] <= len(moments) * np.finfo(np.float64).eps * spectrum[-1]:
        raise DataError(
            f"fit_output: the {rows.shape[1]} inputs of the output layer are linearly dependent over {len(rows)} "
            f"rows, so with ridge = {ridge:g} the solution is not unique; use a larger ridge, e.g. 1e-6."
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
    require_unmasked("fit_output: targets", targets)
    x, t = checked_inputs("fit_output", network, inputs), np.asarray(targets)
    if t.shape != (*x.shape[:2], network.outputs):
        raise DataError(
            f"fit_output: targets must be {[*x.shape[:2], network.outputs]} for these inputs, not {list(t.shape)}"
        )
    if len(x) <= washout:
        raise DataError(
            f"fit_output: a washout of {washout} leaves none of the {len(x)} time steps to fit; give longer "
            "sequences or a smaller washout."
        )
    t = checked_floats("fit_output: targets", t, np.float64)
    columns = network.scaling_of("outputs", np.float64)
    return x, t if columns is None else (t - columns[0]) / columns[1]
