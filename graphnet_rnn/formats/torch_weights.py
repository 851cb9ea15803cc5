"""Weights of torch.nn.RNN, LSTM and GRU, or of their cells, with an output layer, from and to PyTorch.

PyTorch need not be installed: only names and layouts of tensors are used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cells.combine import Bidirectional
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.files.tensor_file import tensor_bytes
from graphnet_rnn.files.whole import write_atomically
from graphnet_rnn.formats.state_dict import (
    DIRECTIONS,
    FAMILIES,
    INITIAL,
    Family,
    as_layers,
    directions_of,
    find_initial,
    find_output,
    find_recurrent,
    is_module,
    refuse_others,
    required_matrix,
    tensors_of,
)
from graphnet_rnn.network.network import Network, require_network
from graphnet_rnn.settings import one_of, shown, yes_or_no

# -- from torch ----------------------------------------------------------------------------------


def from_torch(
    model: Any,
    kind: str | None = None,
    prefix: str | None = None,
    output_prefix: str | None = None,
    *,
    embedding_prefix: str | None = None,
    reads: str | None = None,
    loss: str = "softmax",
    dropout: float | None = None,
) -> Network:
    """Converts a torch.nn.RNN (tanh), LSTM or GRU, and the torch.nn.Linear after it, to a Network.

    model: a state dict of tensors or arrays, a safetensors file of one, or the torch module. The network is float64 if
    a tensor is, else float32.
    kind: "RNN", "LSTM" or "GRU"; default None, inferred from the shapes. Shapes do not show an RNN's nonlinearity: tanh
    is assumed; relu is an error if the module is given.
    prefix, output_prefix: prefixes of `weight_ih_l0` and of the output layer's `weight`, e.g. "lstm." and "fc.";
    default None, found automatically. Tensors that belong to neither are an error.
    embedding_prefix: prefix of a torch.nn.Embedding that the module reads; it is multiplied into the W_x·. Default
    None. An embedding with max_norm is an error if the module is given.
    reads: "vectors", as torch's modules do, or "symbols" for one-hot vectors; by default "symbols" with an embedding.
    loss: as in Network, default "softmax".
    dropout: as in Network; by default the module's, if that is given.

    Layers of a bidirectional module become Bidirectional. RNNCell, LSTMCell or GRUCell become one layer, a ModuleList
    of them one layer each. torch's two biases are added (except for n of the GRU). Tensors "initial.h" and "initial.c",
    written by `to_torch`, become learned initial states. Data are (time, batch, inputs), as with batch_first=False.
    Raises UsageError for invalid arguments, DataError for tensors that are no such network, ModelFileError for an
    unreadable file.

    >>> tensors = rnn.formats.to_torch(rnn.Network([rnn.LSTM(3)], inputs=4, outputs=2))
    >>> rnn.formats.from_torch(tensors, kind="LSTM")
    Network([LSTM(units=3)], inputs=4, outputs=2, loss='softmax'): 104 parameters
    """
    if kind is not None:
        kind = one_of("kind", kind, tuple(FAMILIES))
    tensors = as_layers(tensors_of(model))
    part = find_recurrent(tensors, kind, prefix)
    module = dict(model.named_modules()).get(part.prefix.rstrip(".")) if is_module(model) else None
    if is_module(model) and _uses_relu(model, part.prefix):
        raise DataError(
            "this torch.nn.RNN has nonlinearity='relu', which no cell of graphnet has; write an rnn.Cell with "
            "step: gn.relu(self.affine('h', x=x, h=h)), and copy the weights."
        )
    used = part.names
    if embedding_prefix is not None:
        table = dict(model.named_modules()).get(embedding_prefix.rstrip(".")) if is_module(model) else None
        if getattr(table, "max_norm", None) is not None:
            raise DataError(
                f"from_torch: the torch.nn.Embedding {embedding_prefix.rstrip('.')} has max_norm, which changes rows "
                "when they are read; look up all symbols once, then set max_norm = None"
            )
        name = f"{embedding_prefix}weight"
        part = part.behind(required_matrix(tensors, name, part.inputs, "embedding_prefix"))
        used = used | {name}
    initial = find_initial(tensors, part)
    used = used | {f"{INITIAL}{state}" for state in initial}
    weight, bias, names = find_output(tensors, part, output_prefix, used)
    if prefix is None or output_prefix is None:
        refuse_others(tensors, used | names, part, embedding_prefix)
    for name in sorted(used | names):
        if not np.isfinite(tensors[name]).all():
            raise DataError(
                f"from_torch: {name} has weights that are NaN or infinite; use an earlier checkpoint"
            )
    network = Network(
        [part.cell() for _ in range(part.layers)],
        part.inputs,
        len(weight),
        loss=loss,
        dropout=getattr(module, "dropout", 0.0) if dropout is None else dropout,
        initial_state="learned" if initial else "zero",
        dtype=np.result_type(np.float32, *(tensors[name].dtype for name in used | names)),
        reads=reads or ("vectors" if embedding_prefix is None else "symbols"),
    )
    for l, cell in enumerate(network.layers):
        for name, array in part.weights(l).items():
            cell.weights[name].value[...] = array
    network.parameters["output.W_ho"].value[...] = weight.T
    network.parameters["output.b_o"].value[...] = bias
    for state, rows in initial.items():
        for row, name in zip(rows, _initial_names(network, state), strict=True):
            network.parameters[name].value[...] = row[0]
    return network


def _uses_relu(model: Any, prefix: str) -> bool:
    own = [each for name, each in model.named_modules() if f"{name}.".startswith(prefix)]
    return any(
        "relu" in str(getattr(each, key, "")).lower() for each in own for key in ("mode", "nonlinearity")
    )


def _initial_names(network: Network, state: str) -> list[str]:
    """Returns the parameters of a learned state in torch's order: layer by layer, forward before backward."""
    endings = ("_forward", "_backward") if isinstance(network.layers[0], Bidirectional) else ("",)
    return [f"initial.{state}{ending}{l}" for l in range(len(network.layers)) for ending in endings]


# -- to torch ------------------------------------------------------------------------------------


def to_torch(
    network: Network, prefix: str = "rnn.", output_prefix: str = "linear.", cells: bool = False
) -> dict[str, Array]:
    """Converts a network of Elman, LSTM or GRUResetAfter to a state dict of a torch.nn.RNN, LSTM or GRU and a Linear.

    network: the network; layers of Bidirectional become a module with bidirectional=True.
    prefix, output_prefix: names of the two modules, with a dot; default "rnn." and "linear.".
    cells: True for an RNNCell, LSTMCell or GRUCell instead, or, for several layers, a ModuleList of them; default
    False.

    Returns new arrays of the network's dtype; in torch: `{k: torch.from_numpy(v) for k, v in ....items()}`. Our bias
    becomes bias_ih, and bias_hh is zero (except for n of the GRU). Learned initial states become "initial.h" and
    "initial.c", (layers, 1, units) like h_0, which a module must declare to load. Dropout is a setting of torch's
    module. Scaling is folded into the weights and biases of the first and the output layer.
    Raises UsageError for a network that no torch module computes (other or mixed cells, unequal widths, skip
    connections), and for prefixes that are equal or lack a dot.

    >>> tensors = rnn.formats.to_torch(rnn.Network([rnn.LSTM(3)], inputs=4, outputs=2))
    >>> [(name, tensor.shape) for name, tensor in tensors.items()][:2]
    [('rnn.weight_ih_l0', (12, 4)), ('rnn.weight_hh_l0', (12, 3))]
    """
    require_network("to_torch", network).require_finite("to_torch")
    _require_modules(prefix, output_prefix)
    family = FAMILIES[torch_kind(network)]
    tensors: dict[str, Array] = {}
    both = isinstance(network.layers[0], Bidirectional)
    if yes_or_no("to_torch: cells", cells) and both:
        raise UsageError(
            "to_torch: a torch cell reads forward in time only; leave cells= out for a bidirectional network"
        )
    if cells and type(network.layers[0]) is family.projected:
        raise UsageError("to_torch: torch.nn.LSTMCell has no projection; leave cells= out for torch.nn.LSTM")
    for l, layer in enumerate(network.layers):
        for cell, ending in zip(directions_of(layer), DIRECTIONS, strict=False):
            owner = f"{prefix}{l}." if cells and len(network.layers) > 1 else prefix
            _add(tensors, owner, "" if cells else f"_l{l}{ending}", family, cell)
            if not l:
                _read_scaled(tensors, owner, "" if cells else f"_l{l}{ending}", network)
    if network.outputs:
        tensors |= _output(network, output_prefix)
    if network.initial_state == "learned":
        for state in family.cell.states:
            rows = [network.parameters[name].value for name in _initial_names(network, state.name)]
            tensors[f"{INITIAL}{state.name}"] = np.stack(rows)[:, None]
    return tensors


def _output(network: Network, prefix: str) -> dict[str, Array]:
    weight = network.parameters["output.W_ho"].value.T.copy(order="C")
    bias = network.parameters["output.b_o"].value.copy() if network.output_bias else None
    columns = network.scaling_of("outputs", np.float64)
    if columns is not None:
        m, s = columns
        weight = (weight * s[:, None]).astype(network.dtype)
        bias = (m if bias is None else m + s * bias).astype(network.dtype)
    return {f"{prefix}weight": weight} | ({} if bias is None else {f"{prefix}bias": bias})


def _add(tensors: dict[str, Array], owner: str, ending: str, family: Family, cell: Cell) -> None:
    for side, letter in (("ih", "x"), ("hh", "h")):
        tensors[f"{owner}weight_{side}{ending}"] = stacked(cell, [f"W_{letter}{g}" for g in family.gates])
    of_x = [f"b_x{gate}" if gate in family.split else f"b_{gate}" for gate in family.gates]
    tensors[f"{owner}bias_ih{ending}"] = stacked(cell, of_x)
    zeros = np.zeros_like(cell.weights[of_x[0]].value)
    of_h = [cell.weights[f"b_h{g}"].value if g in family.split else zeros for g in family.gates]
    tensors[f"{owner}bias_hh{ending}"] = np.concatenate(of_h)
    if type(cell) is family.projected:
        tensors[f"{owner}weight_hr{ending}"] = stacked(cell, ["W_mh"])


def _read_scaled(tensors: dict[str, Array], owner: str, ending: str, network: Network) -> None:
    """Folds the input scaling into the first layer: W / s, and b - W m / s."""
    columns = network.scaling_of("inputs", np.float64)
    if columns is not None:
        m, s = columns
        weight, bias = (tensors[f"{owner}{name}_ih{ending}"] for name in ("weight", "bias"))
        tensors[f"{owner}weight_ih{ending}"] = (weight / s).astype(network.dtype)
        tensors[f"{owner}bias_ih{ending}"] = (bias - weight / s @ m).astype(network.dtype)


def _require_modules(prefix: str, output_prefix: str) -> None:
    for argument, given in (("prefix", prefix), ("output_prefix", output_prefix)):
        if not isinstance(given, str) or not re.fullmatch(r"(\w+\.)*", given):
            raise UsageError(
                f"{argument} must be a module's name with a dot after it, as 'rnn.', or '', not {shown(given)}"
            )
    if prefix == output_prefix:
        raise UsageError(f"prefix and output_prefix must differ; both are {prefix!r}")


def save_torch(
    network: Network,
    path: str | Path,
    prefix: str = "rnn.",
    output_prefix: str = "linear.",
    cells: bool = False,
) -> None:
    """Saves `to_torch` as a safetensors file; in torch: `module.load_state_dict(safetensors.torch.load_file(path))`.

    network, prefix, output_prefix, cells: see to_torch. path: the file to write.
    Raises UsageError like `to_torch`, SaveError if the file cannot be written.

    >>> network = rnn.Network([rnn.LSTM(3)], inputs=4, outputs=2)
    >>> rnn.formats.save_torch(network, "lstm.safetensors")
    >>> bool((rnn.formats.from_torch("lstm.safetensors").theta == network.theta).all())
    True
    """
    # safetensors writes memory unchanged; arrays of to_torch are in row order.
    tensors = {k: np.ascontiguousarray(v) for k, v in to_torch(network, prefix, output_prefix, cells).items()}
    write_atomically(path, tensor_bytes(tensors, {"format": "pt"}))


def torch_kind(network: Network) -> str:
    """Returns the torch.nn module that computes all layers: "RNN", "LSTM" or "GRU".

    network: a network of Elman, LSTM or GRUResetAfter layers, also with projections or Bidirectional.
    Raises UsageError with the reason and a remedy.

    >>> rnn.formats.torch_kind(rnn.Network([rnn.Elman(3)], inputs=4, outputs=2))
    'RNN'
    """
    if network.skip:
        raise UsageError(
            "torch's modules have no skip connections: train with skip=False, or use export_onnx"
        )
    if len({isinstance(layer, Bidirectional) for layer in network.layers}) > 1:
        raise UsageError(
            "a torch module is bidirectional in all layers, or in none; the layers of this network differ"
        )
    cells = [cell for layer in network.layers for cell in directions_of(layer)]
    kinds = {type(cell) for cell in cells}
    found = next(
        (kind for kind, family in FAMILIES.items() if kinds in ({family.cell}, {family.projected})), None
    )
    if found is None:
        names = ", ".join(dict.fromkeys(type(cell).__name__ for cell in cells))
        known = ", ".join(f"{f.cell.__name__} (torch.nn.{kind})" for kind, f in FAMILIES.items())
        raise UsageError(
            f"no torch module computes a network of {names}; these can be converted, one kind for all layers: {known}"
        )
    widths = [cell.widths for cell in cells]
    if len(set(widths)) > 1:
        these = ", ".join(str(max(w)) for w in widths)
        raise UsageError(f"a torch module has one width for all layers; these have {these}")
    return found


def stacked(cell: Cell, names: Iterable[str]) -> Array:
    """Returns the transposed weights of these names, concatenated along axis 0, as a new array in row order.

    Matrices (in, units) give (gates · units, in); vectors (units,) give (gates · units,).
    """
    return np.ascontiguousarray(np.concatenate([cell.weights[name].value.T for name in names]))
