"""Models of files, for commands that compute with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from graphnet_rnn.apps.cli.user_cells import own_cells
from graphnet_rnn.errors import ModelFileError
from graphnet_rnn.formats.model_file import network_of, read_model_file
from graphnet_rnn.network.network import Network

__all__ = ["load_finite"]


def load_finite(path: str, cell: str | None, others: Mapping[str, Any] | None = None) -> Network:
    """The network of a file; ModelFileError if its weights are no numbers: whatever it computed would be none, too.

    others: settings of a network that are to be others than the file says, of those that change no weight.
    """
    cells = own_cells(cell)
    file = read_model_file(path)
    described = file.description.get("model")
    if others and isinstance(described, dict):
        file = replace(file, description={**file.description, "model": {**described, **others}})
    for name, array in file.weights().items():
        odd = np.size(array) - np.count_nonzero(np.isfinite(array))
        if odd:
            raise ModelFileError(
                f"{path}: {odd:,} of the {np.size(array):,} numbers of the weight {name} are nan or infinite, so it "
                "predicts nothing; take an earlier model, or train anew."
            )
    return network_of(file, path, cells)
