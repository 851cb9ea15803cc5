"""A C function that is being written line by line, and the arrays that it is given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from graphnet.plan.views import View
from graphnet.standalone_c.language import c_type


class CFunction(NamedTuple):
    """A static C function without its name. fails: it returns 1 if an index was out of range."""

    kind: str
    head: str
    body: str
    fails: bool

    def text(self, name: str) -> str:
        return f"static {'int' if self.fails else 'void'} {name}({self.head})\n{{\n{self.body}\n}}\n"


class CBody:
    """Lines of a function's body."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str = "") -> Iterator[None]:
        """Lines in braces."""
        self.line(f"{head} {{".lstrip())
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    @contextmanager
    def counted(self, name: str, size: int, step: int = 1) -> Iterator[None]:
        """For each number below `size`."""
        moved = f"{name}++" if step == 1 else f"{name} += {step}"
        with self.block(f"for (ptrdiff_t {name} = 0; {name} < {size}; {moved})"):
            yield

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def index(*terms: tuple[str, int | None]) -> str:
    """Σ name · stride, as short as it can be; names may be "0"."""
    parts = [
        name if stride == 1 else f"{name} * {stride}" for name, stride in terms if stride and name != "0"
    ]
    return " + ".join(parts) or "0"


def parameters(views: Sequence[View], names: Sequence[str], written: int) -> str:
    """The function's parameters, the last of which are written to. restrict: no other one reaches its array."""
    found = []
    for k, (view, name) in enumerate(zip(views, names, strict=True)):
        const = "const " if k < len(views) - written else ""
        sharing = [j for j, other in enumerate(views) if j != k and other.buffer is view.buffer]
        alone = not any(not const or j >= len(views) - written for j in sharing)
        found.append(f"{const}{c_type(view.dtype)} *{'restrict ' if alone else ''}{name}")
    return ", ".join(found) or "void"
