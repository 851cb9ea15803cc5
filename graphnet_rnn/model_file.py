"""One file for a model: safetensors with a JSON description, and a checksum over both. No pickle.

Other tools read the weights by their names ("layer0.W_xi"); graphnet reads the architecture, the vocabulary
and, in a checkpoint, the training state as well. Equal models make equal bytes: no time, no path is stored.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from graphnet.errors import GraphnetError
from graphnet.node import Array
from graphnet_rnn.cell import Cell, classes_of
from graphnet_rnn.cells import ALL
from graphnet_rnn.data.text import Vocabulary
from graphnet_rnn.errors import ModelFileError, UsageError
from graphnet_rnn.files import write_atomically
from graphnet_rnn.fingerprint import fingerprint, same_fingerprint
from graphnet_rnn.json_values import from_json
from graphnet_rnn.network import Network
from graphnet_rnn.settings import listed
from graphnet_rnn.settings import path as named_file
from graphnet_rnn.tensor_file import read_tensor_file, tensor_bytes

__all__ = ["FORMAT", "STATE", "ModelFile", "load", "read_model_file", "save"]

#: Raised whenever an older reader would misread a file.
FORMAT = 1
KEY = "graphnet"
#: What the names of tensors begin with that are no weights, but of a training state.
STATE = "state."
#: What a network says of itself, see Network.settings.
NETWORK_SETTINGS = frozenset(inspect.signature(Network).parameters) - {"initial", "values"}
LARGEST_NUMBER = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class ModelFile:
    """What a file holds: tensors by name, and the description."""

    tensors: Mapping[str, Array]
    description: Mapping[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The file's content; UsageError for a description that is too long."""
        # safetensors writes the memory of a strided array as it lies, which scrambles it. (Not with
        # np.ascontiguousarray, which turns a scalar into a vector.)
        tensors = {name: np.asarray(array, order="C") for name, array in self.tensors.items()}
        text = json.dumps({**self.description, "sha256": self.digest()}, sort_keys=True)
        return tensor_bytes(tensors, {KEY: text})

    def weights(self) -> dict[str, Array]:
        """The tensors but for those of a training state."""
        return {name: array for name, array in self.tensors.items() if not name.startswith(STATE)}

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
    read = read_tensor_file(path, "is not a graphnet model.")
    try:
        description = json.loads(read.texts.get(KEY, "null"))
    except (ValueError, RecursionError):
        raise ModelFileError(f"{path} is damaged: its header cannot be read.") from None
    if not isinstance(description, dict):
        raise ModelFileError(f"{path} is not a graphnet model.")
    version = description.get("format")
    if type(version) is not int or version < 1:
        raise ModelFileError(f"{path} is damaged: it does not say its format.")
    if version > FORMAT:
        raise ModelFileError(
            f"{path} is of format {version}, newer than this program reads ({FORMAT}); update graphnet."
        )
    result = ModelFile(read.tensors, {key: value for key, value in description.items() if key != "sha256"})
    if result.digest() != description.get("sha256"):
        raise ModelFileError(f"{path} is damaged: its content does not fit its checksum.")
    return result


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
    """False if the network computes something else than the one that the file was made of, at the same weights.

    ValueError if what the file says of that is no list of numbers.
    """
    stored = file.description.get("fingerprint", [])
    if not isinstance(stored, list) or not all(
        type(n) in (int, float) and abs(n) <= LARGEST_NUMBER for n in stored
    ):
        raise ValueError(f"its fingerprint is {stored!r:.60}, not numbers")
    return same_fingerprint(fingerprint(network), stored)


def network_tensors(network: Network) -> dict[str, Array]:
    """The weights by name, fixed ones too."""
    return {name: node.value for name, node in (network.parameters | network.fixed).items()}


def save(network: Network, path: str | Path, notes: Mapping[str, Any] | None = None) -> None:
    """One file with architecture, weights and vocabulary; notes: more JSON to keep with them.

    Raises SaveError if it cannot be written; a file that was there is then untouched. UsageError for anything but a
    Network, and for one that could not be loaded again: with weights that are not finite, or other settings than it was
    made with.
    """
    if not isinstance(network, Network):
        raise UsageError(
            f"save takes a Network and a path, not {network!r:.60}. Of other models keep `settings()` and the arrays "
            "of `parameters` (np.savez)."
        )
    path = named_file("save: path", path)
    if notes is not None and not isinstance(notes, Mapping):
        raise UsageError(f"save: notes must be a dict of what JSON holds, not {notes!r:.60}")
    network.require_finite("save")
    network.require_unchanged("save")
    description = {**describe_network(network), **({"notes": dict(notes)} if notes else {})}
    try:
        json.dumps(description)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"save: notes must be a dict of what JSON holds: {error}") from None
    write_atomically(path, ModelFile(network_tensors(network), description).to_bytes())


def load(path: str | Path, cells: type[Cell] | Iterable[type[Cell]] = ()) -> Network:
    """The network of a file that `save` or training wrote. cells: classes of your own that it uses.

    Raises ModelFileError for a file that is no model, damaged, newer, or of unknown cells. Warns (UserWarning) if the
    equations are no longer those of the network that was saved: the weights were learned for others.
    """
    path, classes = named_file("load: path", path), _cell_classes(cells)
    return network_of(read_model_file(path), str(path), classes)


def _cell_classes(cells: Any) -> list[type[Cell]]:
    """The classes; UsageError for what is none of a cell."""
    classes = [cells] if isinstance(cells, type) else listed("load: cells", cells, "classes of cells")
    for cell in classes:
        if not (isinstance(cell, type) and issubclass(cell, Cell)):
            raise UsageError(f"load: cells must be classes of cells, e.g. cells=[MyCell], not {cell!r:.60}")
    return classes


def network_of(file: ModelFile, path: str, cells: type[Cell] | Iterable[type[Cell]] = ()) -> Network:
    """The network that a verified file describes.

    Its weights are those of the file from the start: what the description claims beyond them is never allocated.
    """
    classes = [cells] if isinstance(cells, type) else cells
    known = {**ALL, **{cell.__name__: cell for cell in classes}}
    described = file.description.get("network")
    if not described:
        raise ModelFileError(f"{path} holds no network.")
    reader = _Reader(path, known, file.weights())
    try:
        network = reader.network(described)
        network.vocabulary = _vocabulary(file.description.get("vocabulary"), network)
        same = has_same_equations(network, file)
    except ModelFileError:
        raise
    except (GraphnetError, ValueError, RecursionError, MemoryError) as error:
        what = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).split("\n")[0]
        raise ModelFileError(
            f"{path}: the network that it describes cannot be made: {what.rstrip('.'):.500}; the file is damaged, or a "
            "cell has changed since it was written."
        ) from error
    if not same:
        kinds = ", ".join(dict.fromkeys(type(cell).__name__ for cell in network.layers))
        warnings.warn(
            f"{path}: with the same weights this network computes something else than the one that was saved, so the "
            f"equations of {kinds} have changed since, or a constant in them. Load it with the class as it was, or "
            "train it anew.",
            stacklevel=3,
        )
    return network


@dataclass(frozen=True)
class _Reader:
    """Makes what a file describes. ModelFileError, or ValueError and GraphnetError in one sentence, if it cannot be."""

    path: str
    known: Mapping[str, type[Cell]]
    weights: Mapping[str, Array]

    def network(self, described: Any) -> Network:
        if not isinstance(described, dict) or not isinstance(described.get("layers"), list):
            raise ValueError("it names no layers")
        layers = [self.value(entry) for entry in described["layers"]]
        settings = {name: value for name, value in described.items() if name != "layers"}
        for name in settings:
            if name not in NETWORK_SETTINGS:
                raise ValueError(f"a network has no setting {name!r:.60}")
        try:
            network = Network(layers, **settings, values=self.weights)
        except TypeError as error:  # a setting that is missing, or of a type that nothing could be made of
            raise ValueError(f"its settings do not fit ({error})") from None
        for name in _differing("network", described, network.settings()):
            raise ValueError(f"{name} is not what it could be")
        return network

    def value(self, stored: Any) -> Any:
        """A setting as it was, see json_values."""
        return from_json(stored, self.cell)

    def cell(self, described: Mapping[str, Any]) -> Cell:
        """The cell that `Cell.description` described."""
        name = described.get("cell")
        if not isinstance(name, str):
            raise ValueError(f"a setting is {described!r:.60}")
        if name not in self.known:
            raise ModelFileError(
                f"{self.path} uses the cell {name:.60}, which graphnet does not have; give its class: "
                f"rnn.load(path, cells=[{name:.60}]), or --cell my_cells.py:{name:.60}."
            )
        arguments = {key: self.value(value) for key, value in described.items() if key != "cell"}
        try:
            self.require_weights(self.known[name], arguments)
            made = self.known[name](**arguments)
            for setting, value in made.settings().items():
                # A few of those within each other would be more than a machine holds.
                if setting not in arguments and any(classes_of([value])):
                    raise ValueError(f"it does not say which cell is the {setting}")
            return made
        except GraphnetError:
            raise
        except Exception as error:  # a user's class may raise anything
            raise ModelFileError(
                f"{self.path}: the cell {name} cannot be made again with {_listed(arguments)} ({error}); it may have "
                "changed since the file was written."
            ) from error

    def require_weights(self, cell: type[Cell], arguments: Mapping[str, Any]) -> None:
        """ModelFileError for a cell that takes memory when it is made, and more than the file has weights for."""
        held, least = sum(array.size for array in self.weights.values()), cell.least_weights(**arguments)
        if least > held:
            raise ModelFileError(
                f"{self.path}: a cell {cell.__name__} with {_listed(arguments)} has at least {least} weights, but the "
                f"file holds {held}."
            )


def _listed(arguments: Mapping[str, Any]) -> str:
    return f"{arguments!r:.120}"


def _vocabulary(described: Any, network: Network) -> Vocabulary | None:
    """The characters behind a network's symbols; ValueError for what cannot be them."""
    if described is None:
        return None
    if not isinstance(described, str):
        raise ValueError(f"its vocabulary is {described!r:.60}, no characters")
    vocabulary = Vocabulary(described)
    if network.reads == "symbols" and len(vocabulary) != network.inputs:
        raise ValueError(f"its vocabulary has {len(vocabulary)} characters for {network.inputs} symbols")
    return vocabulary


def _differing(name: str, stored: Any, made: Any) -> Iterator[str]:
    """The names of settings that became something else than what was stored; new ones may have come."""
    if isinstance(stored, dict) and isinstance(made, dict):
        for key, value in stored.items():
            yield from _differing(f"{name}.{key:.60}", value, made.get(key))
    elif isinstance(stored, list) and isinstance(made, list) and len(stored) == len(made):
        for i, (one, other) in enumerate(zip(stored, made, strict=True)):
            yield from _differing(f"{name}[{i}]", one, other)
    elif stored != made or isinstance(stored, bool) != isinstance(made, bool):  # True == 1
        yield name
