"""Networks of commands: from model files, or new ones for training."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from graphnet_rnn.apps.cli.specs import make_cell, own_cells, parts_of
from graphnet_rnn.cell.cell import Cell, classes_of
from graphnet_rnn.cell.tracing import require_nodes
from graphnet_rnn.errors import ModelFileError, UsageError
from graphnet_rnn.formats.model_file import ModelFile, network_of, read_model_file
from graphnet_rnn.network.network import Network
from graphnet_rnn.settings import whole_number
from graphnet_rnn.training.folder import RunFolder

#: Options of a new network, which --start replaces.
MADE = ("units", "layers", "skip", "initial_state", "loss", "pool", "no_scaling")
#: Options that affect training, but no weight.
TRAINED = ("dropout", "recurrent_dropout", "variational", "seed")


def load_for_use(path: str, cell: str | None) -> Network:
    """Loads a network that is not trained further; UsageError for a --cell that it does not have."""
    network = load_finite(path, cell)
    if cell:
        names = sorted({each.__name__ for each in classes_of(network.layers)})
        if parts_of(cell).name not in names:
            raise UsageError(f"--cell {cell}: the cells of {path} are {', '.join(names)}; name one of these")
    return network


def load_finite(path: str, cell: str | None, others: Mapping[str, Any] | None = None) -> Network:
    """Loads a network; raises ModelFileError for weights that are NaN or infinite.

    others: settings that replace those of the file, if they change no weight.
    """
    file = read_model_file(path)
    described = file.description.get("model")
    if others and isinstance(described, dict):
        file = replace(file, description={**file.description, "model": {**described, **others}})
    return _finite(file, path, cell)


def _finite(file: ModelFile, path: str, cell: str | None) -> Network:
    for name, array in file.weights().items():
        odd = np.size(array) - np.count_nonzero(np.isfinite(array))
        if odd:
            raise ModelFileError(
                f"{path}: {odd:,} of the {np.size(array):,} numbers of the weight {name} are nan or infinite, so "
                "the model cannot predict; use an earlier model, or train again."
            )
    return network_of(file, path, own_cells(cell))


def network_to_begin_with(options: argparse.Namespace) -> Network | None:
    """Network of `--start`, or of the checkpoint of a resumed run; None for a new network.

    Raises UsageError for options that the model fixes, ModelFileError for a file that is not a model.
    """
    if options.resume:
        checkpoint = RunFolder(options.resume).read_checkpoint()
        with warnings.catch_warnings(action="ignore"):  # changed equations raise an error later
            return _finite(checkpoint.file, str(checkpoint.path), options.cell)
    if options.start is None:
        return None
    strange = [name for name in MADE if name in options.written]
    if "cell" in options.written:
        where, _, settings = parts_of(options.cell)
        strange += ["cell"] if settings or not where else []
    if strange:
        names = ", ".join("--" + name.replace("_", "-") for name in sorted(strange))
        raise UsageError(
            f"--start uses the network in {options.start}, so leave out {names}; you may change --dropout, "
            "--recurrent-dropout, --variational and --seed"
        )
    others = {name: getattr(options, name) for name in TRAINED if name in options.written}
    return load_finite(options.start, options.cell, others)


def new_layers(options: argparse.Namespace) -> list[Cell]:
    """Cells of a new network."""
    cell = make_cell(options.cell, options.units)
    layers = whole_number("--layers", options.layers)
    require_nodes(layers, f"--layers {layers}", "fewer layers take less")
    return [cell] * layers


def new_network(layers: list[Cell], shape: Mapping[str, Any], options: argparse.Namespace) -> Network:
    """New network of these cells. shape: arguments that follow from the data."""
    names = ("skip", "dropout", "recurrent_dropout", "variational", "initial_state", "seed")
    return Network(layers, **shape, **{name: getattr(options, name) for name in names})
