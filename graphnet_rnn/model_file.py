"""One file for a model: safetensors with a JSON description, and a checksum over both. No pickle.

Other tools read the weights by their names ("layer0.W_xi"); graphnet reads the architecture, the vocabulary
and, in a checkpoint, the training state as well. Equal models make equal bytes: no time, no path is stored.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from graphnet.node import Array
from graphnet_rnn.cell import Cell
from graphnet_rnn.cells import ALL
from graphnet_rnn.data.text import Vocabulary
from graphnet_rnn.errors import ModelFileError, UsageError
from graphnet_rnn.files import read_bytes, write_atomically
from graphnet_rnn.fingerprint import fingerprint, same_fingerprint
from graphnet_rnn.network import Network

__all__ = ["FORMAT", "ModelFile", "load", "read_model_file", "save"]

#: Raised whenever an older reader would misread a file.
FORMAT = 1
KEY = "graphnet"


@dataclass(frozen=True)
class ModelFile:
    """What a file holds: tensors by name, and the description."""

    tensors: Mapping[str, Array]
    description: Mapping[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The file's content."""
        from safetensors.numpy import save as safetensors_bytes

        # safetensors writes the memory of a strided array as it lies, which scrambles it. (Not with
        # np.ascontiguousarray, which turns a scalar into a vector.)
        tensors = {name: np.asarray(array, order="C") for name, array in self.tensors.items()}
        text = json.dumps({**self.description, "sha256": self.digest()}, sort_keys=True)
        return bytes(safetensors_bytes(tensors, {KEY: text}))

    def digest(self) -> str:
        """SHA-256 over the description and every tensor's name, dtype, shape and content."""
        digest = hashlib.sha256(json.dumps(dict(self.description), sort_keys=True).encode())
        for name in sorted(self.tensors):
            array = self.tensors[name]
            digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
            digest.update(array.tobytes())
        return digest.hexdigest()


def read_model_file(path: str | Path) -> ModelFile:
    """Reads and verifies a file; ModelFileError says in one sentence what is wrong with it."""
    file = Path(path)
    content = read_bytes(file, ModelFileError)
    description = _description(file, content)
    version = description.get("format")
    if not isinstance(version, int):
        raise ModelFileError(f"{file} is damaged: it does not say its format.")
    if version > FORMAT:
        raise ModelFileError(
            f"{file} is of format {version}, newer than this program reads ({FORMAT}); update graphnet."
        )
    from safetensors import SafetensorError
    from safetensors.numpy import load as safetensors_load

    try:
        tensors = safetensors_load(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise ModelFileError(f"{file} is damaged or cut short ({error}).") from None
    result = ModelFile(tensors, {key: value for key, value in description.items() if key != "sha256"})
    if result.digest() != description.get("sha256"):
        raise ModelFileError(f"{file} is damaged: its content does not fit its checksum.")
    return result


def _description(file: Path, content: bytes) -> dict[str, Any]:
    """The JSON description from the header of a safetensors file."""
    length = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + length]
    if len(content) < 8 or not header.startswith(b"{"):
        raise ModelFileError(f"{file} is not a graphnet model.")
    if len(header) < length:
        raise ModelFileError(f"{file} is damaged or cut short.")
    try:
        metadata = json.loads(header).get("__metadata__", {})
        description = json.loads(metadata[KEY]) if KEY in metadata else None
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise ModelFileError(f"{file} is damaged: its header cannot be read.") from None
    if not isinstance(description, dict):
        raise ModelFileError(f"{file} is not a graphnet model.")
    return description


# -- networks ------------------------------------------------------------------------------------


def describe_network(network: Network) -> dict[str, Any]:
    """The description of a network's file."""
    vocabulary = network.vocabulary.characters if network.vocabulary else None
    return {
        "format": FORMAT,
        "network": network.settings(),
        "vocabulary": vocabulary,
        "fingerprint": fingerprint(network),
    }


def has_same_equations(network: Network, file: ModelFile) -> bool:
    """False if the network computes something else than the one that the file was made of, at the same weights."""
    return same_fingerprint(fingerprint(network), file.description.get("fingerprint", []))


def network_tensors(network: Network) -> dict[str, Array]:
    """The weights by name, fixed ones too."""
    return {name: node.value for name, node in (network.parameters | network.fixed).items()}


def save(network: Network, path: str | Path, notes: Mapping[str, Any] | None = None) -> None:
    """One file with architecture, weights and vocabulary; notes: more JSON to keep with them.

    Raises SaveError if it cannot be written; a file that was there is then untouched. UsageError for anything but a
    Network.
    """
    if not isinstance(network, Network):
        raise UsageError(
            f"save takes a Network and a path, not {network!r:.60}. Of other models keep `settings()` and the arrays "
            "of `parameters` (np.savez)."
        )
    description = {**describe_network(network), **({"notes": dict(notes)} if notes else {})}
    write_atomically(path, ModelFile(network_tensors(network), description).to_bytes())


def load(path: str | Path, cells: type[Cell] | Iterable[type[Cell]] = ()) -> Network:
    """The network of a file that `save` or training wrote. cells: classes of your own that it uses.

    Raises ModelFileError for a file that is no model, damaged, newer, or of unknown cells. Warns (UserWarning) if the
    equations are no longer those of the network that was saved: the weights were learned for others.
    """
    return network_of(read_model_file(path), str(path), cells)


def network_of(file: ModelFile, path: str, cells: type[Cell] | Iterable[type[Cell]] = ()) -> Network:
    """The network that a verified file describes."""
    listed = [cells] if isinstance(cells, type) else cells
    known = {**ALL, **{cell.__name__: cell for cell in listed}}
    settings = dict(file.description.get("network") or {})
    if not settings:
        raise ModelFileError(f"{path} holds no network.")
    layers = [_cell_of(entry, known, path) for entry in settings.pop("layers")]
    network = Network(layers, **settings)
    characters = file.description.get("vocabulary")
    network.vocabulary = Vocabulary(characters) if characters else None
    for name, node in (network.parameters | network.fixed).items():
        if name not in file.tensors or file.tensors[name].shape != node.shape:
            raise ModelFileError(
                f"{path}: the weight {name} is missing or of another shape than {list(node.shape)}; the cell "
                "may have changed since the file was written."
            )
        node.value[...] = file.tensors[name]
    if not has_same_equations(network, file):
        kinds = ", ".join(dict.fromkeys(type(cell).__name__ for cell in network.layers))
        warnings.warn(
            f"{path}: with the same weights this network computes something else than the one that was saved, so the "
            f"equations of {kinds} have changed since, or a constant in them. Load it with the class as it was, or "
            "train it anew.",
            stacklevel=3,
        )
    return network


def _cell_of(entry: Mapping[str, Any], known: Mapping[str, type[Cell]], path: str) -> Cell:
    """The cell that `Cell.description` described."""
    arguments: dict[str, Any] = {
        key: _cell_of(value, known, path) if isinstance(value, Mapping) and "cell" in value else value
        for key, value in entry.items()
        if key != "cell"
    }
    name = entry["cell"]
    if name not in known:
        raise ModelFileError(
            f"{path} uses the cell {name}, which graphnet does not have; give its class: "
            f"rnn.load(path, cells=[{name}]), or --cell my_cells.py:{name}."
        )
    try:
        return known[name](**arguments)
    except TypeError as error:
        raise ModelFileError(
            f"{path}: the cell {name} cannot be made again with {arguments} ({error}); it may have changed "
            "since the file was written."
        ) from None
