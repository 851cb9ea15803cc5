"""Listing: the instructions of a program as text, for readers and error reports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from graphnet.graph.expression import VARIABLES
from graphnet.plan.instructions import Host, Instruction, KernelCall, Load, Loop, MatrixProduct, Scatter
from graphnet.plan.lowering import Lowered
from graphnet.plan.views import Buffer, View


def listing(lowered: Lowered) -> list[str]:
    """One line for each instruction: its number, its operation, and the last node that it computes, with source line.

    b7+64[32×128] is a part of buffer 7, from its element 64 on; leaves are shown by name.
    """
    names = _Names()
    texts = [(_kind(step), names.text(step), _purpose(step)) for step in lowered.instructions]
    width = max((min(len(text), 96) for _, text, _ in texts), default=0)
    return [
        f"{i:>5}{'*' if i < lowered.unfed else ' '} {kind:<8} {text:<{width}}  {purpose}"
        for i, (kind, text, purpose) in enumerate(texts)
    ] + ([f"* {lowered.unfed} depend on parameters and constants alone"] if lowered.unfed else [])


def _kind(step: Instruction) -> str:
    if isinstance(step, Loop) and step.reductions and not step.stores:
        return step.reductions[0].how
    match step:
        case KernelCall():
            return "kernel"
        case MatrixProduct():
            return "product"
    return type(step).__name__.lower()


def _purpose(step: Instruction) -> str:
    if not step.nodes:
        return ""
    node = step.nodes[-1]
    place = " ".join(
        str(node.scope[label]) if label != "time" else f"t={node.scope[label]}"
        for label in ("layer", "cell", "time")
        if node.scope.get(label) is not None
    )
    more = f" and {len(step.nodes) - 1} more" if len(step.nodes) > 1 else ""
    return "  ".join(part for part in (f"{node.describe()}{more}", place, str(node.origin)) if part)


class _Names:
    def __init__(self) -> None:
        self.number: dict[Buffer, int] = {}

    def view(self, view: View | None) -> str:
        if view is None:
            return "-"
        leaf = view.buffer.leaf
        if leaf is not None:
            base = leaf.name or leaf.op.name.lower()
        else:
            base = f"b{self.number.setdefault(view.buffer, len(self.number))}"
        return f"{base}{f'+{view.offset}' if view.offset else ''}[{_sizes(view.shape)}]"

    def text(self, step: Instruction) -> str:
        if isinstance(step, MatrixProduct):
            return f"{self.view(step.c)} = {self.view(step.a)} @ {self.view(step.b)}"
        if isinstance(step, Scatter):
            at = f"{self.view(step.y)} at {self.view(step.index)}"
            return f"{at} += {self.view(step.x)}"
        if isinstance(step, Host):
            return (
                f"{self.view(step.target)} = {step.node.op.name}({', '.join(map(self.view, step.sources))})"
            )
        assert isinstance(step, Loop)
        return self.loop(step)

    def loop(self, step: Loop) -> str:
        values = [self.load(load) for load in step.loads]
        parts: list[str] = []
        for inner in step.steps:
            text = _filled(inner.kernel, [values[j] for j in inner.sources])
            if not inner.sources:
                values.append(text)
                continue
            values.append(f"v{len(parts)}")
            parts.append(f"{values[-1]} = {text}")
        parts += [f"{self.view(view)} = {values[j]}" for j, view in step.stores]
        over = ",".join(map(str, step.reduced))
        parts += [f"{self.view(r.view)} = {r.how} over {over} of {values[r.number]}" for r in step.reductions]
        return f"[{_sizes(step.shape)}] " + "; ".join(parts)

    def load(self, load: Load) -> str:
        if load.kind == "plain":
            return self.view(load.data)
        inside = (self.view(view) for view in (load.data, load.at) if view is not None)
        return f"{load.kind}({', '.join(inside)})"


def _filled(kernel: str, values: Sequence[str]) -> str:
    """The expression with its variables replaced: x + y of v1 and b2[8] is v1 + b2[8]."""
    named = dict(zip(VARIABLES, values, strict=False))
    return re.sub(rf"\b[{''.join(VARIABLES)}]\b", lambda found: named.get(found[0], found[0]), kernel)


def _sizes(shape: Iterable[int]) -> str:
    return "×".join(map(str, shape))
