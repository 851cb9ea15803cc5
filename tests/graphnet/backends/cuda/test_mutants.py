"""Faults planted in the cuda back end are caught by the tests of its kernels and programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet.backends.compiled import schedule
from graphnet.backends.cuda import building, loops, products, scatters
from graphnet.backends.cuda.device import SIMULATED
from graphnet.plan import arena
from tests.graphnet.backends.cuda.programs import PROGRAMS
from tests.graphnet.backends.cuda.test_kernels import FEW, require_same

pytestmark = pytest.mark.skipif(not SIMULATED, reason="a fault in a kernel may hang a GPU")


def no_ends(source: Any, index: str, sizes: Any, names: str) -> list[str]:
    return [index] * len(sizes)


def forgetful_tree(source: Any, fold: Any, lanes: int, sharing: int, by_rows: bool) -> None:
    """Threads keep what they have."""
    source.line("shared[0] = sum")


def half_filled(filling: Any, name: str) -> None:
    original_fill(filling, name)
    filling.source.line(f"{filling.into}[0, 0] = {name}(0)")


original_fill = products._Filling.fill


def short_search(source: Any, at: Any, scatter: Any) -> None:
    """Finds nothing in the last place of a chunk."""
    source.line("end -= 1")
    original_search(source, at, scatter)


original_search = scatters._search


def early(lives: Any) -> int:
    shorter = [
        life._replace(last=life.last - 1, epoch=(life.epoch[0], life.epoch[1] - 1))
        if life.last > life.first
        else life
        for life in lives
    ]
    return arena.give_places(shorter)


#: Fault -> (what is replaced, by what, the program that finds it)
FAULTS: dict[str, tuple[object, str, Callable[..., Any], str]] = {
    "all axes have one index": (loops, "divided", no_ends, "five axes, turned"),
    "threads do not add up": (loops, "_tree", forgetful_tree, "sums of rows"),
    "a tile lacks a number": (products._Filling, "fill", half_filled, "product"),
    "the last of an index is forgotten": (scatters, "_search", short_search, "rows added by index"),
    "memory is free one step too early": (schedule, "give_places", early, "every function"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, wrong, program = FAULTS[fault]
    monkeypatch.setattr(building, "ONE_THREAD", FEW)
    monkeypatch.setattr(loops, "_layouts", {})
    products.tile_text.cache_clear()
    if module is schedule:
        deep, a = gn.input((5, 5), "float64"), np.random.default_rng(0).standard_normal((5, 5))
        node: Any = deep
        for k in range(3):
            node = gn.tanh(node @ deep) @ deep.T + float(k)
        right = gn.compile([node], [deep], backend="numpy")(a)[0]
        monkeypatch.setattr(module, name, wrong)
        assert not np.allclose(gn.compile([node], [deep], backend="cuda")(a)[0], right)
    else:
        require_same(PROGRAMS[program], "float64")
        monkeypatch.setattr(loops, "_layouts", {})
        products.tile_text.cache_clear()
        monkeypatch.setattr(module, name, wrong)
        with pytest.raises((AssertionError, IndexError)):
            require_same(PROGRAMS[program], "float64")
    products.tile_text.cache_clear()
