"""One file for a model: safetensors with a JSON description, and a checksum over both. No pickle.

Other tools read the weights by their names ("layer0.W_xi"); graphnet reads the architecture, the vocabulary
and, in a checkpoint, the training state as well. Equal models make equal bytes: no time, no path is stored.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from graphnet.errors import GraphnetError
from graphnet.graph.node import Array
from graphnet.system.text import in_brief, read_json
from graphnet_rnn.cell.cell import Cell, classes_of
from graphnet_rnn.cells.all import ALL
from graphnet_rnn.data.columns import Columns
from graphnet_rnn.data.text import Vocabulary
from graphnet_rnn.errors import ModelFileError, UsageError
from graphnet_rnn.files.json_values import from_json
from graphnet_rnn.files.tensor_file import read_tensor_file, tensor_bytes
from graphnet_rnn.files.whole import write_atomically
from graphnet_rnn.formats.digest import equation_digest, same_digest
from graphnet_rnn.installed import installed
from graphnet_rnn.model import HELD, STATE, Model
from graphnet_rnn.models.energy.rbm import RBM
from graphnet_rnn.models.energy.recurrent import RecurrentRBM
from graphnet_rnn.models.energy.stack import Stack
from graphnet_rnn.models.energy.temporal import RTRBM, TRBM
from graphnet_rnn.models.hmm import HMM
from graphnet_rnn.models.nade import RecurrentNADE
from graphnet_rnn.network.network import Network
from graphnet_rnn.network.seq2seq import Seq2Seq
from graphnet_rnn.settings import listed, path as named_file, shown

#: Raised whenever an older reader would misread a file.
FORMAT = 1
KEY = "graphnet"
#: Models found by name, besides entry points of graphnet_rnn.models; pass other classes to `load`.
MODELS: dict[str, type[Model]] = {
    kind.__name__: kind
    for kind in (Network, RBM, TRBM, RTRBM, RecurrentRBM, Stack, HMM, RecurrentNADE, Seq2Seq)
}
LARGEST_NUMBER = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class ModelFile:
    """Content of a file: tensors by name, and the description."""

    tensors: Mapping[str, Array]
    description: Mapping[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The file's content; UsageError for a description that is too long."""
        # safetensors writes the memory of a strided array unchanged, which scrambles it. np.ascontiguousarray would
        # turn a scalar into a vector.
        tensors = {name: np.asarray(array, order="C") for name, array in self.tensors.items()}
        text = json.dumps({**self.description, "sha256": self.digest()}, sort_keys=True)
        return tensor_bytes(tensors, {KEY: text})

    def weights(self) -> dict[str, Array]:
        """Returns the tensors without those of a training state."""
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
    """Reads and verifies a file. Raises ModelFileError."""
    read = read_tensor_file(path, "is not a graphnet model.")
    try:
        description = read_json(read.texts.get(KEY, "null"))
    except ValueError:
        raise ModelFileError(f"{path} is damaged: its header cannot be read.") from None
    if not isinstance(description, dict):
        raise ModelFileError(f"{path} is not a graphnet model.")
    version = description.get("format")
    if type(version) is not int or version < 1:
        raise ModelFileError(f"{path} is damaged: its format version is missing or invalid.")
    if version > FORMAT:
        raise ModelFileError(
            f"{path} is of format {shown(version)}, newer than this program reads ({FORMAT}); update graphnet."
        )
    result = ModelFile(read.tensors, {key: value for key, value in description.items() if key != "sha256"})
    if result.digest() != description.get("sha256"):
        raise ModelFileError(f"{path} is damaged: its content does not match its checksum.")
    return result


# -- models --------------------------------------------------------------------------------------


def describe_model(model: Model) -> dict[str, Any]:
    """The description of a model's file."""
    described = {"format": FORMAT, "model": model.description(), "equations": equation_digest(model)}
    if isinstance(model, Network):
        described["vocabulary"] = model.vocabulary.characters if model.vocabulary else None
        if model.columns is not None:
            described["columns"] = asdict(model.columns)
    return described


def has_same_equations(model: Model, file: ModelFile) -> bool:
    """False if the model computes other outputs than the file's model did, at the same weights.

    Raises ValueError for an invalid digest in the file.
    """
    stored = file.description.get("equations", [])
    if not isinstance(stored, list) or not all(
        type(n) in (int, float) and abs(n) <= LARGEST_NUMBER for n in stored
    ):
        raise ValueError(f"its digest of equations is {shown(stored)}, not numbers")
    return same_digest(equation_digest(model), stored)


def model_tensors(model: Model) -> dict[str, Array]:
    """Returns the weights by name, including fixed ones."""
    return {name: node.value for name, node in (model.parameters | model.fixed).items()}


def save(model: Model, path: str | Path, notes: Mapping[str, Any] | None = None) -> None:
    """Saves settings, weights and a network's vocabulary in one file (safetensors).

    model: a Network, RBM, TRBM, RTRBM, RecurrentRBM, Stack, HMM, Controller, or your own rnn.Model.
    path: the file to write; missing folders are created.
    notes: more JSON to store in the file; default None.
    Raises SaveError if the file cannot be written; an existing file then stays unchanged. UsageError for other objects,
    and for a model that could not be loaded again: a setting that JSON cannot store, weights that are not finite, or
    settings changed since its creation.

    >>> net = rnn.Network([rnn.GRU(4)], inputs=3, outputs=3)
    >>> rnn.save(net, "model.safetensors")
    >>> (rnn.load("model.safetensors").theta == net.theta).all().item()
    True
    """
    path = named_file("save: path", path)
    write_atomically(path, model_bytes(model, notes))


def model_bytes(model: Model, notes: Mapping[str, Any] | None = None) -> bytes:
    """Returns the content of a file for `save`. Raises its UsageErrors."""
    if not isinstance(model, Model):
        raise UsageError(
            f"save takes a model and a path, not {shown(model)}; a class of your own must be a subclass of rnn.Model"
        )
    kept = {"notes": notes} if (notes := checked_notes("save", notes)) else {}
    model.require_finite("save")
    if isinstance(model, Network):
        model.require_unchanged("save")
    return ModelFile(model_tensors(model), {**describe_model(model), **kept}).to_bytes()


def checked_notes(who: str, notes: Any) -> dict[str, Any]:
    """Returns a copy, empty for None; UsageError, with the caller's name `who`, for values that JSON does not have."""
    if notes is None or isinstance(notes, Mapping):
        with contextlib.suppress(TypeError, ValueError, RecursionError):
            found = dict(notes or {})
            json.dumps(found, sort_keys=True)
            return found
    raise UsageError(f"{who}: notes must be a dict of values that JSON can store, not {shown(notes)}")


def load(path: str | Path, classes: type[Cell | Model] | Iterable[type[Cell | Model]] = ()) -> Any:
    """Loads a model from a file that `save` or training wrote. Never executes code from the file.

    path: the file.
    classes: your own classes of models and cells that the model uses; default none.
    Raises ModelFileError for other, damaged, newer files, and unknown classes. Warns (UserWarning) if the equations of
    the model's classes have changed since it was saved.

    >>> rnn.save(rnn.Network([rnn.GRU(4)], inputs=3, outputs=3), "model.safetensors")
    >>> rnn.load("model.safetensors").layers
    [GRU(units=4)]
    """
    path, own = named_file("load: path", path), _own_classes(classes)
    return model_of(read_model_file(path), str(path), own)


def _own_classes(classes: Any) -> list[type[Cell | Model]]:
    must = "load: classes", "classes of cells or models"
    found = [classes] if isinstance(classes, type) else listed(must[0], classes, must[1])
    for kind in found:
        if not (isinstance(kind, type) and issubclass(kind, (Cell, Model))):
            raise UsageError(f"{must[0]} must be {must[1]}, e.g. [MyCell], not {shown(kind)}")
    return found


def load_network(path: str | Path, classes: type[Cell] | Iterable[type[Cell]] = ()) -> Network:
    """See load; ModelFileError for another model than a network."""
    return network_of(read_model_file(path), str(path), classes)


def network_of(file: ModelFile, path: str, classes: type[Cell] | Iterable[type[Cell]] = ()) -> Network:
    """See model_of; ModelFileError for another model than a network."""
    described = file.description.get("model")
    name = described.get("model") if isinstance(described, dict) else None
    if name != "Network":
        held = "no network" if name is None else f"a model {in_brief(name)}, not a network"
        raise ModelFileError(f"{path} holds {held}.")
    network = model_of(file, path, classes)
    assert isinstance(network, Network)
    return network


def model_of(
    file: ModelFile, path: str, classes: type[Cell | Model] | Iterable[type[Cell | Model]] = ()
) -> Model:
    """Creates the model that a verified file describes.

    It uses the file's weights from the start: sizes in the description allocate no memory.
    """
    own = [classes] if isinstance(classes, type) else list(classes)
    cells = {**ALL, **{kind.__name__: kind for kind in own if issubclass(kind, Cell)}}
    models = {**MODELS, **{kind.__name__: kind for kind in own if issubclass(kind, Model)}}
    described = file.description.get("model")
    if not described:
        raise ModelFileError(f"{path} holds no model.")
    reader = _Reader(path, cells, models)
    try:
        model = reader.model(described, file.weights())
        if isinstance(model, Network):
            characters, columns = map(file.description.get, ("vocabulary", "columns"))
            model.vocabulary = None if characters is None else Vocabulary(characters)
            model.columns = None if columns is None else Columns(**columns)
        same = has_same_equations(model, file)
    except ModelFileError:
        raise
    except (GraphnetError, TypeError, ValueError, RecursionError, MemoryError) as error:
        what = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).split("\n")[0]
        raise ModelFileError(
            f"{path}: the model in this file cannot be created: {in_brief(what.rstrip('.'), 500)}; the file is "
            "damaged, or a class has changed."
        ) from error
    if not same:
        kinds = model.layers if isinstance(model, Network) else [model]
        listed = ", ".join(dict.fromkeys(type(kind).__name__ for kind in kinds))
        warnings.warn(
            f"{path}: with the same weights, this model computes other values than the saved one: the equations of "
            f"{listed}, or constants in them, have changed. Load it with the old version of the class, or train it "
            "again.",
            stacklevel=3,
        )
    return model


@dataclass(frozen=True)
class _Reader:
    """Recreates the objects that a file describes. Raises ModelFileError, ValueError or GraphnetError."""

    path: str
    cells: Mapping[str, type[Cell]]
    models: Mapping[str, type[Model]]

    def model(self, described: Any, weights: Mapping[str, Array]) -> Model:
        """Creates the model with these weights; a model among its settings uses the weights with its prefix."""
        name = described.get("model") if isinstance(described, dict) else None
        if not isinstance(name, str):
            raise ValueError("the name of its model is missing")
        kind = self.models.get(name) or installed("models", name)
        if kind is None:
            raise ModelFileError(
                f"{self.path} holds a model {in_brief(name)}, which is not part of graphnet; give its class: "
                f"rnn.load(path, [{in_brief(name)}])."
            )
        known = inspect.signature(kind).parameters
        arguments: dict[str, Any] = {}
        for key, value in described.items():
            if key == "model":
                continue
            if key in HELD or key not in known:
                raise ValueError(f"a {name} has no setting {shown(key)}")
            arguments[key] = self.setting(key, value, weights)
        if "values" in known:
            arguments["values"] = weights
        try:
            made = kind(**arguments)
        except (GraphnetError, ValueError, RecursionError):
            raise
        except Exception as error:  # a user's class may raise anything
            raise ValueError(f"its settings are invalid ({error})") from None
        for differing in _differing(name, described, made.description()):
            raise ValueError(f"{differing} has an invalid value")
        if sorted(made.parameters | made.fixed) != sorted(weights):
            raise ValueError("the names of its weights differ from those of the class")
        return made

    def setting(self, name: str, stored: Any, weights: Mapping[str, Array]) -> Any:
        match stored:
            case {"model": _}:
                return self.part(name, stored, weights)
            case {"list": [{"model": _}, *_] as models}:
                return [self.part(f"{name}.{i}", each, weights) for i, each in enumerate(models)]
            case [{"model": _}, *_]:
                return tuple(self.part(f"{name}.{i}", each, weights) for i, each in enumerate(stored))
        return self.value(stored, weights)

    def part(self, name: str, described: Any, weights: Mapping[str, Array]) -> Model:
        try:
            return self.model(described, _within(name, weights))
        except ModelFileError:
            raise
        except (GraphnetError, ValueError) as error:
            raise ValueError(f"{in_brief(name)}: {error}") from error

    def value(self, stored: Any, weights: Mapping[str, Array]) -> Any:
        def cell(described: Mapping[str, Any]) -> Cell:
            return self.cell(described, weights)

        return from_json(stored, cell)

    def cell(self, described: Mapping[str, Any], weights: Mapping[str, Array]) -> Cell:
        name = described.get("cell")
        if not isinstance(name, str):
            raise ValueError(f"a cell in it has no name: {shown(described)}")
        if name not in self.cells:
            raise ModelFileError(
                f"{self.path} uses the cell {in_brief(name)}, which is not part of graphnet; give its class: "
                f"rnn.load(path, [{in_brief(name)}]), or --cell my_cells.py:{in_brief(name)}."
            )
        arguments = {key: self.value(value, weights) for key, value in described.items() if key != "cell"}
        try:
            self.require_weights(self.cells[name], arguments, weights)
            made = self.cells[name](**arguments)
            for setting, value in made.settings().items():
                # A few nested default cells could exceed the memory.
                if setting not in arguments and any(classes_of([value])):
                    raise ValueError(f"the cell for its setting {setting} is missing")
            return made
        except GraphnetError:
            raise
        except Exception as error:  # a user's class may raise anything
            raise ModelFileError(
                f"{self.path}: the cell {name} cannot be created with {shown(arguments, 120)} "
                f"({in_brief(error, 200)}); its class may have changed."
            ) from error

    def require_weights(
        self, cell: type[Cell], arguments: Mapping[str, Any], weights: Mapping[str, Array]
    ) -> None:
        """Raises ModelFileError for a cell that would allocate more memory than the file has weights for."""
        held, least = sum(array.size for array in weights.values()), cell.least_weights(**arguments)
        if least > held:
            raise ModelFileError(
                f"{self.path}: a cell {cell.__name__} with {shown(arguments, 120)} has at least {least} weights, "
                f"but the file holds {held}."
            )


def _within(part: str, weights: Mapping[str, Array]) -> dict[str, Array]:
    start = f"{part}."
    return {name.removeprefix(start): array for name, array in weights.items() if name.startswith(start)}


def _differing(name: str, stored: Any, made: Any) -> Iterator[str]:
    """Yields the names of settings that differ from the stored values; new settings are ignored."""
    if isinstance(stored, dict) and isinstance(made, dict):
        for key, value in stored.items():
            yield from _differing(f"{name}.{in_brief(key)}", value, made.get(key))
    elif isinstance(stored, list) and isinstance(made, list) and len(stored) == len(made):
        for i, (one, other) in enumerate(zip(stored, made, strict=True)):
            yield from _differing(f"{name}[{i}]", one, other)
    elif stored != made or isinstance(stored, bool) != isinstance(made, bool):  # True == 1
        yield name
