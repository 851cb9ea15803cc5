"""On-disk cache of programs, so that a graph compiled by any process is not optimized and scheduled again.

The key of a program is the SHA-256 of all that it depends on: the ops with their settings, the edges of the graph, the
values of constants, the passes, the back end with its view of the machine, and graphnet's own code. Values of
parameters, inputs and random draws are not part of it: a cached program reads those of the current graph. Graphs with
an op or a pass from outside graphnet are not cached, since their code may change.
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

#: Smaller graphs are compiled about as fast as they are looked up.
WORTH_KEEPING = 2000
_PACKAGE = Path(__file__).parents[1]
#: Time at which this process loaded graphnet.
_LOADED = time.time()


class _NotKept(Exception):
    """Raised if a graph cannot be cached, since a part of it may change."""


class KeptProgram(NamedTuple):
    """A program, and the number of nodes of its graph."""

    program: Program
    nodes: int


def name_of(
    source: Graph, passes: Sequence[Pass | Callable[[Graph], Graph]], backend: Backend, threads: int | None
) -> str:
    """Returns the key of the program; empty if it is too small or cannot be cached."""
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
    """Returns the cached program, to be run on the leaves of `source`; None if there is none."""
    kept = open_cache() if name else None
    content = kept.read(name) if kept else None
    if content is None:
        return None
    header, arrays = unpacked(zlib.decompress(content))
    return KeptProgram(backend.restore(header, arrays, source), header["nodes"])


def keep(name: str, program: Program, graph: Graph, source: Graph) -> None:
    """Caches the program of `graph`, the result of the passes on `source`, unless the name is empty."""
    kept = open_cache() if name else None
    if kept is None:
        return
    try:
        header, arrays = program.stored()
    except BackendError:  # a part of it runs in Python
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
    """Returns the digest of graphnet's code; empty if it is unreadable or changed after it was loaded."""
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
    number = {node: i for i, node in enumerate(source.order)}
    kinds: dict[int, int] = {}  # by the op's address, which is stable while its node exists
    shapes: dict[tuple[int, ...], int] = {}
    known: dict[str, int] = {}
    words = numbers("q")
    for node in source.order:
        op, inputs = node.op, node.inputs
        kind = kinds.get(id(op))
        if kind is None:
            text = _description(op)
            if op.by_identity:  # distinct ops of equal description
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
    # Order of the user's program, which passes use.
    _, ranks = np.unique([node.source_serial for node in source.order], return_inverse=True)
    for some in (ranks, [number[x] for x in source.outputs], [number.get(x, -1) for x in source.inputs]):
        digest.update(np.asarray([len(some), *some], np.int64).tobytes())
    for node in source.inputs:  # also unused ones
        digest.update(f"\n{node.shape} {node.dtype.str} {_description(node.op)}".encode())


def _description(op: Op) -> str:
    """Returns the op's class and settings, without values that are drawn or held."""
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
    """Returns a setting as text; different settings have different texts."""
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
