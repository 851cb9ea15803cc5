"""A sum of pads as a few joins: the cotangent of an array that was read a slice at a time."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from graphnet.graph.node import Key, Node
from graphnet.ops.leaf import fill
from graphnet.ops.shape import Pad, concatenate, is_whole, reshape, stack


class Piece(NamedTuple):
    """Content of a pad, and its start and stop along one axis."""

    start: int
    stop: int
    node: Node


def joins_of_pads(terms: Sequence[Node]) -> list[Node] | None:
    """Fewer terms of the same sum, or None: pads that do not overlap are one join, with zeros in its gaps.

    A pad is as large as the array, so T reads of one step each would cost T². Windows that overlap become as many joins
    as there are windows at one place.
    """
    pads = [t for t in terms if isinstance(t.op, Pad)]
    if len(pads) < 2:
        return None
    axis = _first_differing(pads)
    if axis is None:
        return None
    rest = [t for t in terms if not isinstance(t.op, Pad)]
    groups: dict[tuple[Key, bool], list[tuple[Piece, Node]]] = {}
    for pad in pads:
        piece = _piece(pad, axis)
        if piece is None:
            rest.append(pad)
        else:
            key, whole = _key(pad), (0, pad.shape[axis], 1)
            group = (*key[:axis], whole, *key[axis + 1 :]), isinstance(key[axis], int)
            groups.setdefault(group, []).append((piece, pad))
    made = [node for group, found in groups.items() for node in _joins(*group, axis, found)]
    return [*made, *rest] if len(made) + len(rest) < len(terms) else None


def _key(pad: Node) -> Key:
    match pad.op:
        case Pad(key=key):
            return key
    raise TypeError(f"expected a pad, got {pad.describe()}")


def _first_differing(pads: Sequence[Node]) -> int | None:
    first, *others = map(_key, pads)
    return next((axis for axis, k in enumerate(first) if any(key[axis] != k for key in others)), None)


def _piece(pad: Node, axis: int) -> Piece | None:
    match _key(pad)[axis]:
        case int(at):
            return Piece(at, at + 1, pad.inputs[0])
        case (start, stop, 1) if start < stop:
            return Piece(start, stop, pad.inputs[0])
    return None


def _joins(key: Key, at_points: bool, axis: int, found: Sequence[tuple[Piece, Node]]) -> Iterator[Node]:
    """One array for each layer; a layer of a single pad is that pad."""
    to = found[0][1].shape
    for layer in _layers(found):
        if len(layer) == 1:
            yield layer[0][1]
            continue
        # The contents of the pads may lack axes before this one.
        own = sum(not isinstance(k, int) for k in key[:axis])
        joined = _joined([piece for piece, _ in layer], to[axis], own, at_points)
        yield joined if is_whole(key, to) else Pad(to, key)(joined)


def _layers(found: Sequence[tuple[Piece, Node]]) -> list[list[tuple[Piece, Node]]]:
    """The fewest layers without overlapping pieces, each from left to right."""
    layers: list[list[tuple[Piece, Node]]] = []
    ends: list[tuple[int, int]] = []
    for each in sorted(found, key=lambda one: (one[0].start, one[0].stop)):
        piece, _ = each
        if ends and ends[0][0] <= piece.start:
            _, number = heapq.heappop(ends)
        else:
            number = len(layers)
            layers.append([])
        layers[number].append(each)
        heapq.heappush(ends, (piece.stop, number))
    return layers


def _joined(pieces: Sequence[Piece], size: int, axis: int, at_points: bool) -> Node:
    nodes = [piece.node for piece in pieces]
    if at_points and len(nodes) == size:
        return stack(nodes, axis)
    shape, dtype = list(nodes[0].shape), nodes[0].dtype
    if at_points:
        shape.insert(axis, 1)
        nodes = [reshape(node, tuple(shape)) for node in nodes]
    parts: list[Node] = []
    end = 0
    for piece, node in zip([*pieces, Piece(size, size, nodes[0])], [*nodes, None], strict=True):
        if piece.start > end:
            shape[axis] = piece.start - end
            parts.append(fill(0, tuple(shape), dtype))
        if node is not None:
            parts.append(node)
        end = piece.stop
    return concatenate(parts, axis)
