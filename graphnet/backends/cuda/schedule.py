"""Schedule: from a graph to what the GPU is to do, as plain data: launches, copies, places in its memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from graphnet.backends.cuda.launch import Launch
from graphnet.backends.cuda.loops import loop_launches
from graphnet.backends.cuda.products import Products, grouped, orientation, product_launches
from graphnet.backends.cuda.scatters import Chains, scatter_launches
from graphnet.backends.cuda.target import Target
from graphnet.errors import BackendError
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Dtype, Node, Shape
from graphnet.plan.arena import ALIGNMENT, Life, give_places
from graphnet.plan.instructions import Host, Instruction, Load, Loop, Product, Scatter, looking_at
from graphnet.plan.lifetimes import lifetimes
from graphnet.plan.lowering import Lowered, lower
from graphnet.plan.order import Memory
from graphnet.plan.views import Buffer, View

__all__ = ["HEADER", "LibraryProduct", "Place", "Schedule", "Stretch", "Upload", "make_schedule"]

#: Bytes at the start of the arena: word 0 is the flag that says that something is wrong.
HEADER = ALIGNMENT
#: In the text of a kernel that may raise it.
RAISED = "i8[0] = 1"

Action = Launch | Products | Host


class Place(NamedTuple):
    """Where an array lies, in one piece: its first byte."""

    byte: int
    shape: Shape
    dtype: Dtype


class Part(NamedTuple):
    """Where an operand of a library's product lies: its first element, from the start of the arena."""

    start: int
    shape: Shape
    strides: tuple[int, ...]


class LibraryProduct(NamedTuple):
    """c[i] = a[i] b[i] for every i, by cuBLAS."""

    a: Part
    b: Part
    c: Part
    dtype: Dtype
    nodes: tuple[Node, ...]


class Upload(NamedTuple):
    """Leaves that lie side by side, here and there, brought in at once: when the program is made, if they are constant,
    else before each run."""

    nodes: tuple[Node, ...]
    byte: int
    constant: bool


class Stretch(NamedTuple):
    """What the GPU does by itself, views located; then, if any, the node whose own `forward` Python runs, with the
    places of its inputs and of its value."""

    runs: list[Launch | LibraryProduct]
    host: tuple[Node, list[Place], Place] | None


@dataclass
class Schedule:
    """given: where inputs are copied to (None: nothing reads them). fixed: how many stretches, at the start, depend on
    no input that varies. brought: leaves that are copied before each run, wherever their arrays are then. flagged: the
    flag may be raised."""

    arena_bytes: int
    memory: Memory
    stretches: list[Stretch]
    fixed: int
    given: list[Place | None]
    varying: list[bool]
    uploads: list[Upload]
    brought: list[tuple[Node, Place]]
    results: list[Place]
    flagged: bool


def make_schedule(graph: Graph, target: Target, library: bool, check: bool) -> Schedule:
    """library: products are left to cuBLAS, but for those with a vector. check: the flag is raised where a value is not
    finite."""
    lowered = lower(graph)
    moves = _Moves(lowered)
    before, again, after = moves.actions(target, check)
    actions: list[Action] = []
    fixed = 0
    changes = {access.view.buffer for instruction in lowered.instructions for access in instruction.writes}
    chains: Chains = {}
    for i, instruction in _in_groups(lowered.instructions):
        if lowered.fixed and i == lowered.fixed:
            fixed = len(actions)
        actions += _actions(instruction, target, library, check, chains)
        for key in [key for key in chains if key[0].buffer in changes]:
            del chains[key]
    if fixed:
        actions[fixed:fixed] = again
        fixed += len(before)
    else:
        before += again
    actions = [*before, *actions, *after]
    leaves = [n for n in graph.order if n in lowered.views and lowered.views[n].buffer.leaf is n]
    uploads, size = _lay_out(leaves, lowered.views)
    total = _give_places(lowered, moves, actions, fixed, size)
    stretches, kept = _stretches(actions, fixed)
    memory = sum(node.nbytes for node in leaves)
    return Schedule(
        arena_bytes=total,
        memory=Memory(memory, total - memory),
        stretches=stretches,
        fixed=kept,
        given=[_place(moves.given[node]) if node in moves.given else None for node in graph.inputs],
        varying=[node.op.varying for node in graph.inputs],
        uploads=uploads,
        brought=[(node, _place(view)) for node, view in moves.brought.items()],
        results=[_place(view) for view in moves.results],
        flagged=any(isinstance(run, Launch) and RAISED in run.text for s in stretches for run in s.runs),
    )


class _Moves:
    """What is copied between arrays in one piece and the views of the program: those of inputs that lie between others
    in a join, and results that lie elsewhere than an array does."""

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.given: dict[Node, View] = {}
        self.brought: dict[Node, View] = {}
        self.results: list[View] = []
        self._before: list[tuple[Node, View, View]] = []
        self._again: list[tuple[Node, View, View]] = []
        self._after: list[tuple[Node, View, View]] = []
        for node in lowered.graph.inputs:
            if node in lowered.views:
                varies = lowered.fixed and node.op.varying
                self.given[node] = self._into(node, self._again if varies else self._before)
        for node in lowered.brought:
            self.brought[node] = self._into(node, self._before)
        for node in lowered.graph.outputs:
            view = lowered.views[node]
            if not view.is_contiguous:
                whole = Buffer(node.size, node.dtype).whole(node.shape)
                self._after.append((node, view, whole))
                view = whole
            self.results.append(view)

    def _into(self, node: Node, moves: list[tuple[Node, View, View]]) -> View:
        view = self.lowered.views[node]
        if view.is_contiguous:
            return view
        whole = Buffer(node.size, node.dtype).whole(node.shape)
        moves.append((node, whole, view))
        return whole

    def actions(self, target: Target, check: bool) -> tuple[list[Action], list[Action], list[Action]]:
        """Before all else; before what varies; at the end."""
        before, again, after = (
            [launch for node, source, to in moves for launch in _copy(node, source, to, target, check)]
            for moves in (self._before, self._again, self._after)
        )
        return list[Action](before), list[Action](again), list[Action](after)

    @property
    def staged(self) -> list[View]:
        """Where arrays are copied to before all launches."""
        return [*self.given.values(), *self.brought.values()]


def _in_groups(instructions: Sequence[Instruction]) -> list[tuple[int, Instruction | list[Product]]]:
    """The instructions with their numbers; products of one node that follow each other as a list."""
    found: list[tuple[int, Instruction | list[Product]]] = []

    def kind(item: tuple[int, Instruction]) -> object:
        return item[1].nodes if isinstance(item[1], Product) else item[0]

    for _, group in groupby(enumerate(instructions), kind):
        items = list(group)
        products = [each for _, each in items if isinstance(each, Product)]
        found.append((items[0][0], products if products else items[0][1]))
    return found


def _actions(
    instruction: Instruction | list[Product], target: Target, library: bool, check: bool, chains: Chains
) -> list[Action]:
    nodes = instruction[0].nodes if isinstance(instruction, list) else instruction.nodes
    if isinstance(instruction, list):
        together = grouped(instruction)
        products = [together] if together else [p for each in instruction if (p := grouped([each]))]
        actions = [a for p in products for a in _product(p, target, library)]
        writes = [access for each in instruction for access in each.writes]
    elif isinstance(instruction, Loop):
        actions = list[Action](loop_launches(instruction, target, check))
        writes = instruction.writes if instruction.reductions else []
    elif isinstance(instruction, Scatter):
        actions, writes = list[Action](scatter_launches(instruction, target, chains)), instruction.writes
    elif isinstance(instruction, Host):
        actions, writes = _host(instruction, target), instruction.writes
    else:
        raise BackendError(f"the cuda back end has no kernel for {type(instruction).__name__}")
    if check:
        actions += [
            launch
            for access in writes
            for launch in loop_launches(looking_at(access.view, nodes), target, check)
        ]
    return actions


def _copy(node: Node, source: View, to: View, target: Target, check: bool) -> list[Launch]:
    loop = Loop((node,), source.shape, [Load("plain", source, None, source.dtype)], [], [(0, to)])
    return loop_launches(loop, target, check) if source.size else []


def _host(host: Host, target: Target) -> list[Action]:
    """What Python reads is copied in one piece."""
    actions: list[Action] = []
    sources = []
    for view in host.sources:
        whole = view
        if not view.is_contiguous:
            whole = Buffer(view.size, view.dtype).whole(view.shape)
            actions += _copy(host.node, view, whole, target, False)
        sources.append(whole)
    return [*actions, Host(host.nodes, host.node, sources, host.target)]


def _product(products: Products, target: Target, library: bool) -> list[Action]:
    _, rows, columns = products.c.shape
    lies = products.c.dtype.kind == "f" and all(
        orientation(v.shape[1:], v.strides[1:]) for v in (products.a, products.b, products.c)
    )
    if library and lies and rows > 1 and columns > 1 and products.a.shape[2]:
        return [products]
    return list[Action](product_launches(products, target))


def _views(action: Action) -> list[View]:
    if isinstance(action, Launch):
        return [a for a in action.arguments if isinstance(a, View)]
    if isinstance(action, Products):
        return [action.a, action.b, action.c]
    return [*action.sources, action.target]


# -- places ----------------------------------------------------------------------------------------------------------


def _lay_out(leaves: Sequence[Node], views: Mapping[Node, View]) -> tuple[list[Upload], int]:
    """Places for leaves behind the header; what lies side by side on the host does so on the GPU. Also: where they end.

    The parameters of a network are parts of one vector, so they are copied at once.
    """
    uploads: list[Upload] = []
    end, root, stop = HEADER, None, 0
    for node in sorted(leaves, key=lambda n: (n.op.is_parameter, n.value.ctypes.data)):
        address, own = node.value.ctypes.data, _root(node.value)
        constant = not node.op.is_parameter
        gap = address - stop
        if not (
            own is root and own is not None and 0 <= gap < ALIGNMENT and uploads[-1].constant == constant
        ):
            end = -(-end // ALIGNMENT) * ALIGNMENT
            uploads.append(Upload((), end, constant))
            gap = 0
        end += gap
        views[node].buffer.offset = end
        end += node.nbytes
        uploads[-1] = uploads[-1]._replace(nodes=(*uploads[-1].nodes, node))
        root, stop = own, address + node.nbytes
    return uploads, -(-end // ALIGNMENT) * ALIGNMENT


def _root(array: Array) -> Array | None:
    """The array in one piece, of the same dtype, that this one is a part of."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    return root if root.flags.c_contiguous and root.dtype == array.dtype else None


def _give_places(lowered: Lowered, moves: _Moves, actions: Sequence[Action], fixed: int, start: int) -> int:
    """Sets the offset of every buffer that is no leaf, from `start` on; returns where they end."""
    end = len(actions)
    first, last = lifetimes(lowered, [[v.buffer for v in _views(a)] for a in actions], fixed)
    for view in moves.staged:
        first[view.buffer] = -1
        last.setdefault(view.buffer, -1)
    for view in moves.results:
        first.setdefault(view.buffer, end)
        last[view.buffer] = end
    if fixed:
        again = [node for node in moves.given if node.op.varying]
        last |= {moves.given[node].buffer: end for node in again}
    lives = [Life(b, first[b], last[b], (first[b], last[b]), None) for b in first if b.leaf is None]
    size = give_places(lives)
    for life in lives:
        life.buffer.offset += start
    return start + size


def _place(view: View) -> Place:
    assert view.is_contiguous or not view.size, "what is copied lies in one piece"
    return Place(
        view.buffer.offset + view.offset * view.dtype.itemsize if view.size else 0, view.shape, view.dtype
    )


def _start(view: View) -> int:
    """In elements, from the start of the arena. (What takes no memory has no place.)"""
    return view.buffer.offset // view.dtype.itemsize + view.offset if view.buffer.nbytes else 0


def _part(view: View) -> Part:
    return Part(_start(view), view.shape, view.strides)


def _located(action: Launch | Products) -> Launch | LibraryProduct:
    if isinstance(action, Products):
        return LibraryProduct(_part(action.a), _part(action.b), _part(action.c), action.c.dtype, action.nodes)
    return action._replace(arguments=tuple(_start(a) if isinstance(a, View) else a for a in action.arguments))


def _stretches(actions: Sequence[Action], fixed: int) -> tuple[list[Stretch], int]:
    """The actions, cut where Python has to do something and before number `fixed`; and how many come before that."""
    stretches: list[Stretch] = []
    runs: list[Launch | LibraryProduct] = []
    kept = 0
    for i, action in enumerate(actions):
        if fixed and i == fixed:
            stretches.append(Stretch(runs, None))
            runs, kept = [], len(stretches)
        if isinstance(action, Host):
            stretches.append(
                Stretch(runs, (action.node, [_place(v) for v in action.sources], _place(action.target)))
            )
            runs = []
        else:
            runs.append(_located(action))
    return [*stretches, Stretch(runs, None)], kept
