"""Pictures of runs and of readings, which several commands write."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graphnet_rnn.apps.cli.outputs import PAGES, require_ending
from graphnet_rnn.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["KINDS", "draw_runs", "is_run"]

#: Of a run: bits per character by epoch, steps of second order, norms of weights, what it wrote after each epoch.
KINDS = ("curve", "flight", "weights", "samples")


def is_run(path: str) -> bool:
    """Whether it is a history, or the folder of a run."""
    return path.endswith(".jsonl") or os.path.isdir(path)


def draw_runs(paths: Sequence[str], kind: str | None, out: str | None) -> int:
    """One run as its chart of this kind (by default the one that fits it), or several compared."""
    import viz

    for path in paths:
        if os.path.isdir(path) and not os.path.exists(os.path.join(path, "history.jsonl")):
            raise UsageError(f"{path} is a folder, and there is no run in it: it has no history.jsonl")

    if len(paths) > 1 and kind not in (None, "curve"):
        raise UsageError(f"--chart {kind} shows one run, not {len(paths)}; name one, or leave --chart out")
    if kind == "samples":
        if out is None:
            print(viz.samples(paths[0]))
            return 0
        require_ending("--out", out, PAGES, "the name of a page of samples")
        viz.samples(paths[0]).save(out)
        print(f"wrote {out}")
        return 0
    out = "graph.svg" if out is None else out
    require_ending("--out", out)
    figure: Figure
    if len(paths) > 1:
        figure = viz.compare_runs(dict(zip(_names(paths), paths, strict=True)))
    elif kind is None:
        figure = viz.history_chart(paths[0])
    else:
        charts: dict[str, Callable[[str], Figure]] = {
            "curve": viz.training_curve, "flight": viz.flight_recorder, "weights": viz.weight_norms,
        }  # fmt: skip
        figure = charts[kind](paths[0])
    figure.savefig(out, dpi=150)
    print(f"wrote {out} (drawn by matplotlib)")
    return 0


def _names(paths: Sequence[str]) -> list[str]:
    """A short name for each run, as long as they are different; bytes that are no text as \\x.."""
    files = [Path(os.path.abspath(path)) for path in paths]
    folders = [f.parent if f.name == "history.jsonl" else f for f in files]
    names = [f.stem if f.suffix == ".jsonl" else f.name for f in folders]
    chosen = names if len(set(names)) == len(names) else paths
    return [os.fsencode(name).decode(errors="backslashreplace") for name in chosen]
