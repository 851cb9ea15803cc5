"""The network that a run begins with: of the arguments, or of a model file, `train --start MODEL`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from graphnet_rnn.apps.cli.models import load_finite
from graphnet_rnn.apps.cli.user_cells import make_cell, parts_of
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.tracing import require_nodes
from graphnet_rnn.errors import UsageError
from graphnet_rnn.network.network import Network
from graphnet_rnn.settings import whole_number
from graphnet_rnn.training.folder import RunFolder

__all__ = ["add_start", "network_to_start", "new_layers", "new_network"]

#: Options that make a network. The model says what they would.
MADE = ("units", "layers", "skip", "initial_state", "loss", "pool", "no_scaling")
#: Those that change what training does with it, and none of its weights.
TRAINED = ("dropout", "recurrent_dropout", "variational", "seed")


def add_start(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--start",
        metavar="MODEL",
        help="begin with the network and the weights of a model file, e.g. the best of a sweep",
    )


def network_to_start(options: argparse.Namespace) -> Network | None:
    """The network of `--start`, or of the run's own checkpoint once it is resumed; None without `--start`.

    Raises UsageError for options that say what the model does, ModelFileError for a file that is no model.
    """
    if options.start is None:
        return None
    if options.resume:
        return load_finite(str(RunFolder(options.resume).read_checkpoint().path), options.cell)
    strange = [name for name in MADE if name in options.written]
    if "cell" in options.written:
        where, _, settings = parts_of(options.cell)
        strange += ["cell"] if settings or not where else []
    if strange:
        names = ", ".join("--" + name.replace("_", "-") for name in sorted(strange))
        raise UsageError(
            f"--start takes the network that {options.start} holds, so leave out {names}; it may be trained with "
            "another --dropout, --recurrent-dropout, --variational and --seed"
        )
    others = {name: getattr(options, name) for name in TRAINED if name in options.written}
    return load_finite(options.start, options.cell, others)


def new_layers(options: argparse.Namespace) -> list[Cell]:
    """The cells of a new network."""
    cell = make_cell(options.cell, options.units)
    layers = whole_number("--layers", options.layers)
    require_nodes(layers, f"--layers {layers}", "fewer layers take less")
    return [cell] * layers


def new_network(layers: list[Cell], shape: Mapping[str, Any], options: argparse.Namespace) -> Network:
    """A network of these cells. shape: what the data say of it."""
    return Network(
        layers,
        **shape,
        skip=options.skip,
        dropout=options.dropout,
        recurrent_dropout=options.recurrent_dropout,
        variational=options.variational,
        initial_state=options.initial_state,
        seed=options.seed,
    )
