"""A checkpoint file: a model file with the optimizer's state and everything else needed to resume."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from graphnet.graph.node import Array, Node
from graphnet.system.text import in_brief
from graphnet_rnn.errors import ModelFileError, UsageError
from graphnet_rnn.files.whole import write_atomically
from graphnet_rnn.formats.model_file import (
    ModelFile,
    describe_model,
    has_same_equations,
    model_tensors,
    read_model_file,
)
from graphnet_rnn.model import STATE, Model
from graphnet_rnn.network.network import Network
from graphnet_rnn.settings import shown

OPTIMIZER = "optimizer."
#: Maximum number of differences in an error.
LISTED = 5
#: Keys that identify the class of settings.
KINDS = ("problem", "name", "model", "cell")
#: Settings stored as a digest, and the message if it differs.
DIGESTS = {
    "text": "the text has changed",
    "data": "the data have changed",
    "graph": "the graph has changed",
    "start": "the initial weights have changed",
}


@dataclass(frozen=True)
class TrainingState:
    """Content of a checkpoint. arrays: by name, including the optimizer's. training: JSON."""

    path: Path
    file: ModelFile
    arrays: dict[str, Array]
    training: dict[str, Any]

    @property
    def start(self) -> str:
        """Origin of the run's initial weights; "" if its seed drew them."""
        return str(self._mapping("run").get("start", ""))

    def require_same(self, settings: Mapping[str, Any]) -> None:
        """Raises UsageError if the run's settings, `training["run"]`, differ."""
        try:
            found = list(differences(self._mapping("run"), as_stored(settings)))
        except RecursionError:
            raise ModelFileError(f"{self.path} is damaged: its settings are nested too deeply.") from None
        if found:
            more = [f"and {len(found) - LISTED} more"] if len(found) > LISTED else []
            raise UsageError(
                f"{self.path} cannot be continued: {'; '.join([*found[:LISTED], *more])}. Use the same settings, or "
                "another folder."
            )

    def restore(self, model: Model, state: Mapping[str, Array]) -> None:
        """Copies the weights to the model, and the optimizer's arrays to `state`.

        Raises UsageError if the model's equations or characters differ, ModelFileError if an array does not fit;
        nothing is changed then.
        """
        try:
            same = has_same_equations(model, self.file)
        except ValueError as error:
            raise ModelFileError(f"{self.path} cannot be continued: {error}.") from None
        if not same:
            raise UsageError(f"{self.path} cannot be continued: the equations of a cell have changed since.")
        vocabulary = model.vocabulary if isinstance(model, Network) else None
        if self.file.description.get("vocabulary") != (vocabulary and vocabulary.characters):
            raise UsageError(f"{self.path} cannot be continued: the vocabulary has changed.")
        weights = model.parameters | model.fixed
        read = [(node.value, self._fitting(self.file.tensors, name, node)) for name, node in weights.items()]
        read += [(array, self.array(OPTIMIZER + name, array)) for name, array in state.items()]
        for array, stored in read:
            array[...] = stored

    def array(self, name: str, like: Array | Node) -> Array:
        """Returns the array of this name; ModelFileError unless it has the shape and dtype of `like`."""
        return self._fitting(self.arrays, name, like)

    def _fitting(self, arrays: Mapping[str, Array], name: str, like: Array | Node) -> Array:
        found = arrays.get(name)
        if found is None or found.shape != like.shape or found.dtype != like.dtype:
            what = "lacks" if found is None else f"has {found.dtype} of shape {list(found.shape)} for"
            wanted = f"{name!r}, {like.dtype} of shape {list(like.shape)}"
            raise ModelFileError(
                f"{self.path} {what} {wanted}: it belongs to another run, or is of another version."
            )
        return found

    def value(self, name: str, like: Any) -> Any:
        """Returns the entry of `training` with this name; ModelFileError unless it has the type of `like`.

        Whole numbers are at least 0. null means infinity, only if `like` contains one.
        """
        found = self.training.get(name)
        if not _is_like(found, like):
            raise ModelFileError(
                f"{self.path} has {shown(found)} for {name!r}: it is damaged, belongs to another run, or is of "
                "another version."
            )
        if not isinstance(found, dict):
            return found
        return {key: like[key] if value is None else value for key, value in found.items()}

    def _mapping(self, name: str) -> dict[str, Any]:
        found = self.training.get(name)
        if not isinstance(found, dict):
            raise ModelFileError(
                f"{self.path} is damaged: {name!r} must be the settings of the run, not {shown(found)}."
            )
        return found


def write_training_state(
    path: Path,
    model: Model,
    state: Mapping[str, Array],
    arrays: Mapping[str, Array],
    training: Mapping[str, Any],
    before: Path | None = None,
) -> None:
    """Writes a checkpoint. state: the optimizer's arrays; arrays: others, in any memory. training: JSON; its "run" must
    not change on resume. before: the last checkpoint, whose permissions the new one gets.
    """
    named = {STATE + OPTIMIZER + name: np.asarray(array) for name, array in state.items()}
    named |= {STATE + name: np.asarray(array) for name, array in arrays.items()}
    description = {**describe_model(model), "training": {**training, "run": as_stored(training["run"])}}
    write_atomically(path, ModelFile({**model_tensors(model), **named}, description).to_bytes(), before)


def read_training_state(path: Path) -> TrainingState:
    """Reads a checkpoint. Raises ModelFileError if it is missing, damaged, or a model only."""
    file = read_model_file(path)
    training = file.description.get("training")
    if not isinstance(training, dict):
        raise ModelFileError(f"{path} is a model without the state of a training run; give a checkpoint.")
    arrays = {k.removeprefix(STATE): v for k, v in file.tensors.items() if k.startswith(STATE)}
    return TrainingState(path, file, arrays, training)


def as_stored(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Converts settings to JSON values; other objects by `description_of`."""
    stored: dict[str, Any] = json.loads(json.dumps(dict(settings), default=description_of))
    return stored


def description_of(setting: Any) -> str:
    """Returns an object's repr, or its class and attributes if it has no repr of its own.

    A function is described by its name and code, an array by a digest.
    """
    if isinstance(setting, np.ndarray):
        return f"{setting.dtype} {list(setting.shape)} {digest_of(setting)[:12]}"
    if isinstance(setting, FunctionType):
        return (
            f"{setting.__qualname__} {hashlib.sha256(repr(fixed_parts(setting)).encode()).hexdigest()[:12]}"
        )
    if getattr(type(setting), "__repr__", None) is object.__repr__:
        return f"{type(setting).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(setting).items())})"
    return repr(setting)


def fixed_parts(value: Any, within: tuple[Any, ...] = ()) -> Any:
    """Returns what has the same repr in each process: numbers, texts, arrays and code, also within containers and
    functions; of nodes dtype and shape, of anything else the class.

    within: the values that contain this one.
    """
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic, np.dtype)):
        return type(value).__name__, repr(value)
    if any(value is each for each in within):
        return "itself"
    inside = (*within, value)
    if isinstance(value, Node):
        return value.dtype.str, value.shape
    if isinstance(value, np.ndarray):
        return digest_of(value) if value.dtype != object else fixed_parts(value.tolist(), inside)
    if isinstance(value, (tuple, list)):
        return [type(value).__name__, *(fixed_parts(each, inside) for each in value)]
    if isinstance(value, (set, frozenset)):
        return sorted(repr(fixed_parts(each, inside)) for each in value)
    if isinstance(value, Mapping):
        return sorted(repr(fixed_parts(item, inside)) for item in value.items())
    if isinstance(value, CodeType):
        return value.co_code.hex(), value.co_names, fixed_parts(value.co_consts, inside)
    if isinstance(value, partial):
        return fixed_parts((value.func, value.args, value.keywords), inside)
    if isinstance(value, MethodType):
        return fixed_parts(value.__func__, inside)
    if isinstance(value, FunctionType):
        held = (
            value.__code__,
            value.__defaults__,
            value.__kwdefaults__,
            *map(_content, value.__closure__ or ()),
        )
        return fixed_parts(held, inside)
    return type(value).__qualname__


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def digest_of(*arrays: Array) -> str:
    """Returns a digest of dtypes, shapes and contents."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _is_like(found: Any, like: Any) -> bool:
    if isinstance(like, dict):
        same = isinstance(found, dict) and found.keys() == like.keys()
        return same and all(_is_like(found[key], each) for key, each in like.items())
    if isinstance(like, list):
        return isinstance(found, list) and all(type(each) in (int, float) for each in found)
    if isinstance(like, float):
        if found is None:
            return math.isinf(like)
        return type(found) in (int, float) and abs(found) < math.inf
    return type(found) is type(like) and (not isinstance(found, int) or found >= 0)


def differences(before: Any, now: Any, name: str = "") -> Iterator[str]:
    """Yields the changed settings by name: `network.layers[0].units was 8, now it is 9`."""
    if name in DIGESTS and before != now:
        yield DIGESTS[name]
    elif isinstance(before, Mapping) and isinstance(now, Mapping):
        # Settings of different classes cannot be compared.
        both = ((key, before.get(key), now.get(key)) for key in KINDS)
        kind = next((key for key, old, new in both if isinstance(old, str) and old != new), None)
        for key in {**before, **now} if kind is None else [kind]:
            part = f"{name}.{key}" if name else key
            yield from differences(before.get(key, "not set"), now.get(key, "not set"), part)
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for i, (a, b) in enumerate(zip(before, now, strict=True)):
            yield from differences(a, b, f"{name}[{i}]")
    elif before != now:
        yield f"{in_brief(name, 80)} was {in_brief(before, 100)}, now it is {in_brief(now, 100)}"
