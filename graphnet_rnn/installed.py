"""Entry points of experiments and other packages: see pyproject.toml.

graphnet_rnn.models     classes of models for files
graphnet_rnn.commands   modules with EXAMPLE, add_arguments(parser) and run(options): commands of graphnet-rnn
graphnet_rnn.materials  classes of data for `train NAME:...`, subclasses of apps.cli.material.Material
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeGuard


def names_of(group: str) -> dict[str, EntryPoint]:
    """Returns the entry points of a group by name."""
    return {each.name: each for each in entry_points(group=f"graphnet_rnn.{group}")}


def installed(group: str, name: str) -> Any:
    """Imports and returns the entry point of this name; None if it is not installed."""
    found = names_of(group).get(name)
    return None if found is None else found.load()


def material_kind(data: str | None) -> str | None:
    """Returns the kind in `kind:...` if it is installed; None for files, and for None."""
    kind, colon, _ = (data or "").partition(":")
    return kind if colon and kind in names_of("materials") else None


def is_file(data: str | None) -> TypeGuard[str]:
    """True if `data` is the name of a file, not of something installed."""
    return bool(data) and material_kind(data) is None
