"""What experiments and other packages add by name, as entry points: see pyproject.toml.

graphnet_rnn.models     classes of models that files name
graphnet_rnn.commands   modules with EXAMPLE, add_arguments(parser) and run(options): commands of graphnet-rnn
graphnet_rnn.materials  classes of what `train --data NAME:...` learns from
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeGuard

__all__ = ["installed", "is_file", "material_kind", "names_of"]


def names_of(group: str) -> dict[str, EntryPoint]:
    """What is installed in a group, by name."""
    return {each.name: each for each in entry_points(group=f"graphnet_rnn.{group}")}


def installed(group: str, name: str) -> Any:
    """What is installed under this name in a group, imported; None if nothing is."""
    found = names_of(group).get(name)
    return None if found is None else found.load()


def material_kind(data: str | None) -> str | None:
    """The kind in `kind:...`, if one of this name is installed; None for files, and for nothing."""
    kind, colon, _ = (data or "").partition(":")
    return kind if colon and kind in names_of("materials") else None


def is_file(data: str | None) -> TypeGuard[str]:
    """Whether what a run learns from is the name of a file: not of something installed, nor nothing."""
    return bool(data) and material_kind(data) is None
