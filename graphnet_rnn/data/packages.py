"""Packages that some files need, imported where such a file is read."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from graphnet_rnn.errors import UsageError

__all__ = ["package_for"]


def package_for(what: str | Path, module: str, package: str) -> Any:
    """The module; UsageError with the remedy where its package is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UsageError(f"{what} needs {package}: pip install {package}") from None
