"""Programs kept on disk: a graph that any process has compiled is not optimized and scheduled again.

A program's name is the SHA-256 of all that it follows from: the ops with their settings, who reads whom, the contents
of constants, the passes, the back end with what it knows of the machine, and graphnet's own code. The numbers of
parameters, inputs and random draws are no part of it: a program that was found reads those of the graph at hand.
Nothing is kept of a graph with an op or a pass from outside graphnet, whose code cannot be known to be the same.
"""

from __future__ import annotations

import hashlib
import sys
import time
import zlib
from array import array as numbers
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from graphnet.backends.base import Backend, Program
from graphnet.backends.cache import LARGEST, open_cache
from graphnet.call.stored import packed, unpacked
from graphnet.errors import BackendError
from graphnet.graph.graph import Graph
from graphnet.graph.node import Op
from graphnet.ops.leaf import Constant
from graphnet.ops.random import Random
from graphnet.passes import Pass

__all__ = ["KeptProgram", "keep", "name_of", "recall"]

#: A graph of fewer nodes is compiled about as fast as it is looked up.
WORTH_KEEPING = 2000
_PACKAGE = Path(__file__).parents[1]
#: When this process loaded graphnet.
_LOADED = time.time()


class _NotKept(Exception):
    """There is something in a graph of which it cannot be known whether it will be the same."""


class KeptProgram(NamedTuple):
    """A program, and how many nodes the graph has that it was made of."""

    program: Program
    nodes: int


def name_of(
    source: Graph, passes: Sequence[Pass | Callable[[Graph], Graph]], backend: Backend, threads: int | None
) -> str:
    """The name under which the program is kept; empty where it is not worth it, or cannot be."""
    if len(source) < WORTH_KEEPING or open_cache() is None:
        return ""
    situation, code = backend.situation(), _own_code()
    if not situation or not code:
        return ""
    digest = hashlib.sha256()
    try:
        named = [backend.name, situation, code, np.__version__, repr(threads), *map(_name_of_pass, passes)]
        digest.update("\n".join(named).encode())
        _add_graph(digest, source)
    except _NotKept:
        return ""
    return digest.hexdigest() + ".program"


def recall(name: str, source: Graph, backend: Backend) -> KeptProgram | None:
    """The program that was kept under this name, to be run on the leaves of `source`; None if there is none."""
    kept = open_cache() if name else None
    content = kept.read(name) if kept else None
    if content is None:
        return None
    header, arrays = unpacked(zlib.decompress(content))
    return KeptProgram(backend.restore(header, arrays, source), header["nodes"])


def keep(name: str, program: Program, graph: Graph, source: Graph) -> None:
    """Keeps a program that was made of `graph`, into which passes turned `source`, where there is a name for it."""
    kept = open_cache() if name else None
    if kept is None:
        return
    try:
        header, arrays = program.stored()
    except BackendError:  # Python does a part of its work
        return
    place = {node: i for i, node in enumerate(source.order) if not node.inputs}
    own: dict[str, int] = {}
    for key, node in program.leaves_by_key().items():
        if node in place:
            own[key] = place[node]
            del arrays[key]
        elif not isinstance(node.op, Constant):
            return
    if sum(array.nbytes for array in arrays.values()) > LARGEST:
        return
    header |= {"own": own, "nodes": len(graph)}
    kept.write(name, zlib.compress(packed(header, arrays), 1))


@cache
def _own_code() -> str:
    """The digest of graphnet's own code; empty where it cannot be read, or may be another than what was loaded."""
    digest, found = hashlib.sha256(), False
    try:
        for path in sorted(_PACKAGE.rglob("*.py")):
            if path.stat().st_mtime > _LOADED:
                return ""
            content = path.read_bytes()
            digest.update(f"{path.relative_to(_PACKAGE).as_posix()} {len(content)}\n".encode() + content)
            found = True
    except OSError:
        return ""
    return digest.hexdigest() if found else ""


def _name_of_pass(step: Pass | Callable[[Graph], Graph]) -> str:
    """The name of a pass of graphnet's own."""
    function: Any = step.function if isinstance(step, Pass) else step
    settings = ""
    if isinstance(function, partial):
        settings = repr((function.args, sorted(function.keywords.items())))
        function = function.func
    module, name = getattr(function, "__module__", None) or "", getattr(function, "__name__", "")
    if (
        not module.startswith("graphnet.passes.")
        or getattr(sys.modules.get(module), name, None) is not function
    ):
        raise _NotKept
    return f"{module} {name} {settings} {step.wants if isinstance(step, Pass) else ''}"


def _add_graph(digest: Any, source: Graph) -> None:
    """Who reads whom, in numbers, and what each op is."""
    number = {node: i for i, node in enumerate(source.order)}
    kinds: dict[int, int] = {}  # by the op's address: it is held by its node
    shapes: dict[tuple[int, ...], int] = {}
    known: dict[str, int] = {}
    words = numbers("q")
    for node in source.order:
        op, inputs = node.op, node.inputs
        kind = kinds.get(id(op))
        if kind is None:
            text = _description(op)
            if op.by_identity:  # two of these are two, though nothing else tells them apart
                text += f" {len(known)}"
            if text not in known:
                known[text] = len(known)
                digest.update(f"\n{text}".encode())
            kind = kinds[id(op)] = known[text]
        shape = shapes.get(node.shape)
        if shape is None:
            shape = shapes[node.shape] = len(shapes)
            digest.update(f"\n{node.shape}".encode())
        words.extend((kind, shape, node.dtype.num, len(inputs)))
        words.extend([number[x] for x in inputs])
    digest.update(words.tobytes())
    # Where nodes stand in the user's program: passes ask which comes first.
    _, ranks = np.unique([node.source_serial for node in source.order], return_inverse=True)
    for some in (ranks, [number[x] for x in source.outputs], [number.get(x, -1) for x in source.inputs]):
        digest.update(np.asarray([len(some), *some], np.int64).tobytes())
    for node in source.inputs:  # that nothing reads, too
        digest.update(f"\n{node.shape} {node.dtype.str} {_description(node.op)}".encode())


def _description(op: Op) -> str:
    """The op's class and settings, as far as a program depends on them: not on what numbers are drawn or held."""
    kind = type(op)
    if not kind.__module__.startswith("graphnet."):
        raise _NotKept
    if op.is_parameter:
        settings = [f"one piece: {vars(op)['value'].flags.c_contiguous}"]
    elif op.is_label or isinstance(op, Random):
        settings = []
    else:
        settings = [f"{name}={_text(value)}" for name, value in vars(op).items()]
    return " ".join([f"{kind.__module__}.{kind.__qualname__}", *settings])


def _text(value: object) -> str:
    """A setting, so that different ones differ."""
    match value:
        case None | bool() | int() | str():
            return repr(value)
        case float():
            return value.hex()
        case tuple():
            return f"({','.join(map(_text, value))})"
        case np.dtype():
            return f"dtype {value.str}"
        case np.ndarray():
            content = np.ascontiguousarray(value)
            how = f"{value.dtype.str}{list(value.shape)} {value.flags.c_contiguous}"
            return f"{how} {hashlib.sha256(content.tobytes()).hexdigest()}"
        case np.generic():
            return f"{value.dtype.str} {value.tobytes().hex()}"
        case type():
            if value.__module__.startswith(("graphnet.", "numpy", "builtins")):
                return f"{value.__module__}.{value.__qualname__}"
    raise _NotKept
