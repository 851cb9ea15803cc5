"""Time of a run by node, by op, and by any scope label (layer, cell, time step)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from graphnet.graph.node import Node


@dataclass(frozen=True)
class Profile:
    """Seconds for each node of the compiled graph, the median of several runs."""

    nodes: tuple[Node, ...]
    seconds: tuple[float, ...]

    @property
    def total(self) -> float:
        return sum(self.seconds)

    def by_node(self) -> list[tuple[Node, float]]:
        """Returns nodes and their seconds, slowest first."""
        return sorted(zip(self.nodes, self.seconds, strict=True), key=lambda row: -row[1])

    def by_op(self) -> dict[str, float]:
        """Returns {op name: seconds}, slowest first."""
        return self._summed([node.op.name for node in self.nodes])

    def by_scope(self, label: str) -> dict[Hashable, float]:
        """Returns {value of a scope label ("layer", "cell", "time"): seconds}; None for nodes without it."""
        return self._summed([node.scope.get(label) for node in self.nodes])

    def by_cell(self) -> dict[Hashable, float]:
        """Returns {cell: seconds}."""
        return self.by_scope("cell")

    def by_time_step(self) -> dict[Hashable, float]:
        """Returns {time step: seconds}."""
        return self.by_scope("time")

    def _summed(self, keys: Sequence[Hashable]) -> dict:  # type: ignore[type-arg]
        totals: dict[Hashable, float] = {}
        for key, seconds in zip(keys, self.seconds, strict=True):
            totals[key] = totals.get(key, 0.0) + seconds
        return dict(sorted(totals.items(), key=lambda row: -row[1]))

    def __str__(self) -> str:
        lines = [f"{self.total * 1e3:.3f} ms in {len(self.nodes)} nodes", "", "by op"]
        for op, seconds in list(self.by_op().items())[:12]:
            lines.append(f"  {seconds * 1e3:9.3f} ms  {seconds / max(self.total, 1e-12):6.1%}  {op}")
        for label in ("layer", "cell"):
            totals = self.by_scope(label)
            if set(totals) != {None}:
                lines += ["", f"by {label}"]
                lines += [f"  {s * 1e3:9.3f} ms  {key}" for key, s in totals.items()]
        lines += ["", "slowest nodes"]
        for node, seconds in self.by_node()[:8]:
            lines.append(f"  {seconds * 1e3:9.3f} ms  {node.describe()}  {node.origin}")
        return "\n".join(lines)
