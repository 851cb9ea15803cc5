"""Options that follow from the fields of settings: name, kind, default and help are said there, once."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from typing import Any

from graphnet_rnn.settings import declared_settings

__all__ = ["add_settings", "free_settings", "given_settings"]


def add_settings(parser: argparse.ArgumentParser, *kinds: type, without: Collection[str] = ()) -> None:
    """An option for each setting of these dataclasses; what two of them share is said once.

    without: settings that are no options, or others.
    """
    names = set(without)
    for kind in kinds:
        for each in declared_settings(kind):
            if each.name in names:
                continue
            names.add(each.name)
            how = {"help": each.metadata["says"], "default": each.default, **each.metadata["option"]}
            if how["default"] is not None:
                how.setdefault("type", type(how["default"]))
            parser.add_argument(f"--{each.name.replace('_', '-')}", **how)


def given_settings(
    kind: type, options: argparse.Namespace, without: Collection[str] = (), **others: Any
) -> dict[str, Any]:
    """What the options say of the settings of a dataclass. others: those that mean something else there."""
    names = (each.name for each in declared_settings(kind) if each.name not in without)
    return {name: getattr(options, name) for name in names} | others


def free_settings(*kinds: type) -> frozenset[str]:
    """The names of those that may be others when a run goes on."""
    return frozenset(each.name for kind in kinds for each in declared_settings(kind) if each.metadata["free"])
