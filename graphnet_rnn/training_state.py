"""A training run as one file: a model file that also holds the optimiser's state, and what else it takes to go on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from graphnet.node import Array
from graphnet_rnn.errors import ModelFileError, TrainingError, UsageError
from graphnet_rnn.files import write_atomically
from graphnet_rnn.model_file import (
    ModelFile,
    describe_network,
    has_same_equations,
    network_tensors,
    read_model_file,
)
from graphnet_rnn.network import Network

__all__ = ["TrainingState", "read_training_state", "require_finite", "write_training_state"]

PREFIX = "state."
OPTIMIZER = "optimizer."


@dataclass(frozen=True)
class TrainingState:
    """What `write_training_state` wrote. arrays: by name, the optimiser's among them. training: what JSON holds."""

    path: Path
    file: ModelFile
    arrays: dict[str, Array]
    training: dict[str, Any]

    def require_same(self, settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        """UsageError if the run's settings, `training["run"]`, were others; defaults: of those that it may lack."""
        stored = {**defaults, **self.training["run"]}
        differences = [
            what for key, value in stored.items() for what in _differences(key, value, settings.get(key))
        ]
        if differences:
            raise UsageError(
                f"{self.path} cannot be continued: {'; '.join(differences)}. Say the same again, or keep this run in "
                "another place."
            )

    def restore(self, network: Network, state: Mapping[str, Array]) -> None:
        """Writes the weights into the network, and the optimiser's arrays into `state`.

        Raises UsageError if the network's equations are others, ModelFileError if an array is missing.
        """
        if not has_same_equations(network, self.file):
            raise UsageError(f"{self.path} cannot be continued: the equations of a cell have changed since.")
        stored = {name: self.array(OPTIMIZER + name) for name in state}  # all, before anything is written
        for name, node in (network.parameters | network.fixed).items():
            node.value[...] = self.file.tensors[name]
        for name, array in state.items():
            array[...] = stored[name]

    def array(self, name: str) -> Array:
        if name not in self.arrays:
            raise ModelFileError(f"{self.path} lacks {name!r}: it is of another run, or of another version.")
        return self.arrays[name]


def require_finite(theta: Array, step: int, untouched: str) -> None:
    """TrainingError if a step gave infinite weights from a finite gradient; they must reach no file."""
    if not np.isfinite(theta).all():
        raise TrainingError(
            f"the weights are no longer finite after step {step}, so training cannot go on; try a smaller --rate or "
            f"--clip-norm. {untouched} untouched."
        )


def write_training_state(
    path: Path,
    network: Network,
    state: Mapping[str, Array],
    arrays: Mapping[str, Array],
    training: Mapping[str, Any],
) -> None:
    """state: the optimiser's; arrays: others, of any back end. training: JSON; its "run" has what must not change."""
    named = {PREFIX + OPTIMIZER + name: np.asarray(array) for name, array in state.items()}
    named |= {PREFIX + name: np.asarray(array) for name, array in arrays.items()}
    description = {**describe_network(network), "training": dict(training)}
    write_atomically(path, ModelFile({**network_tensors(network), **named}, description).to_bytes())


def read_training_state(path: Path) -> TrainingState:
    """Raises ModelFileError if there is no such file, or if it is damaged or a model alone."""
    file = read_model_file(path)
    if "training" not in file.description:
        raise ModelFileError(
            f"{path} is a model alone, without the state of a training run; name another file."
        )
    arrays = {k[len(PREFIX) :]: v for k, v in file.tensors.items() if k.startswith(PREFIX)}
    return TrainingState(path, file, arrays, dict(file.description["training"]))


def _differences(name: str, before: Any, now: Any) -> Iterator[str]:
    """What has changed of a setting, each part by its own name: `network.layers[0].units was 8, now it is 9`."""
    if name == "text" and before != now:
        yield "the text is another one"
    elif isinstance(before, Mapping) and isinstance(now, Mapping):
        # Settings of another optimiser, or of another cell, are not to be compared.
        kind = next((key for key in ("name", "cell") if before.get(key) != now.get(key)), None)
        for key in {**before, **now} if kind is None else [kind]:
            yield from _differences(f"{name}.{key}", before.get(key), now.get(key))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for i, (a, b) in enumerate(zip(before, now, strict=True)):
            yield from _differences(f"{name}[{i}]", a, b)
    elif before != now:
        yield f"{name} was {before}, now it is {now}"
