"""Placement: a value that is joined with others is computed straight into its place in the joined array.

Joins along the first axis often overlap: h_0 ... h_{T-1} for one product, h_1 ... h_T for another. Where the
same values follow each other, they are laid out once, as a chain, of which each join is a slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from graphnet.graph.graph import Graph
from graphnet.graph.node import Dtype, KeyEntry, Node
from graphnet.ops.shape import Concatenate, Join
from graphnet.plan.views import Buffer, View, contiguous_strides


class Placement:
    """views: of nodes whose place is fixed by a join. copies: for each join, (source, place)s to fill."""

    def __init__(self) -> None:
        self.views: dict[Node, View] = {}
        self.copies: dict[Node, list[tuple[Node, View]]] = {}


def place(graph: Graph, is_placeable: Callable[[Node], bool]) -> Placement:
    """is_placeable: the node's value can be written wherever it is wanted."""
    result = Placement()
    joins = [node for node in graph.order if isinstance(node.op, Join) and node.size]
    height = _heights(joins)
    # Joins of joins first: they fix the places of their inputs' inputs.
    for level in sorted(set(height.values()), reverse=True):
        here = [join for join in joins if height[join] == level]
        for join in here:
            if join in result.views:
                _place_inputs(join, is_placeable, result)
        loose = [j for j in here if j not in result.views and not _lies_already(j, result)]
        chains = [j for j in loose if _is_chain(j) and not any(x in result.views for x in j.inputs)]
        _place_chains(chains, is_placeable, result)
        for join in loose:
            if join not in result.views:
                _place_inputs(join, is_placeable, result)
    return result


def _heights(joins: Sequence[Node]) -> dict[Node, int]:
    height: dict[Node, int] = {}
    for join in joins:
        height[join] = 1 + max((height.get(x, 0) for x in join.inputs), default=0)
    return height


def _lies_already(join: Node, result: Placement) -> bool:
    """True if the inputs already have the places that this join needs; it is then a view."""
    match join.op:
        case Concatenate(axis=0):
            pass
        case _:
            return False
    views = [result.views.get(x) for x in join.inputs]
    first = views[0]
    if first is None or not first.shape:
        return False
    rows = 0
    for view in views:
        if view is None or view.buffer is not first.buffer or view.strides != first.strides:
            return False
        if view.offset != first.offset + rows * first.strides[0]:
            return False
        rows += view.shape[0]
    result.views[join] = View(first.buffer, first.offset, join.shape, first.strides)
    result.copies[join] = []
    return True


def _is_chain(join: Node) -> bool:
    match join.op:
        case Join(axis=0):
            return all(x.size for x in join.inputs)
    return False


#: A link of a chain: a node that is computed in place, or (join, number) for one that is copied there.
Link = Node | tuple[Node, int]


def _place_chains(joins: Sequence[Node], is_placeable: Callable[[Node], bool], result: Placement) -> None:
    follower: dict[Link, Link] = {}
    leader: dict[Link, Link] = {}
    accepted: list[tuple[Node, list[Link]]] = []
    for join in sorted(joins, key=lambda j: -len(j.inputs)):
        links: list[Link] = [x if is_placeable(x) else (join, i) for i, x in enumerate(join.inputs)]
        taken = [each in follower or each in leader for each in links]
        if 2 * sum(taken) < len(links):
            # They would join two buffers that need not exist at the same time.
            links = [(join, i) if t else each for i, (each, t) in enumerate(zip(links, taken, strict=True))]
        if not any(isinstance(each, Node) for each in links) or len(set(links)) < len(links):
            continue
        pairs = list(pairwise(links))
        free = all(follower.get(a, b) == b and leader.get(b, a) == a for a, b in pairs)
        if free and not _leads_to(links[-1], links[0], follower):
            accepted.append((join, links))
            follower.update(pairs)
            leader.update((b, a) for a, b in pairs)
    at: dict[Link, tuple[Buffer, int]] = {}
    for join, links in accepted:
        if links[0] not in at:
            _lay_out(links[0], join.dtype, follower, leader, at)
        buffer, start = at[links[0]]
        result.views[join] = View(buffer, start, join.shape, contiguous_strides(join.shape))
        copies = result.copies[join] = []
        for x, link in zip(join.inputs, links, strict=True):
            view = View(buffer, at[link][1], x.shape, contiguous_strides(x.shape))
            if isinstance(link, Node):
                result.views[link] = view
            else:
                copies.append((x, view))


def _leads_to(link: Link, goal: Link, follower: Mapping[Link, Link]) -> bool:
    """True if the goal follows the link: joining them in reverse would make a cycle."""
    while link in follower:
        link = follower[link]
        if link == goal:
            return True
    return False


def _lay_out(
    link: Link,
    dtype: Dtype,
    follower: Mapping[Link, Link],
    leader: Mapping[Link, Link],
    at: dict[Link, tuple[Buffer, int]],
) -> None:
    first = link
    while first in leader:
        first = leader[first]
    chain = [first]
    while chain[-1] in follower:
        chain.append(follower[chain[-1]])
    buffer = Buffer(sum(_size(each) for each in chain), dtype)
    start = 0
    for each in chain:
        at[each] = buffer, start
        start += _size(each)


def _size(link: Link) -> int:
    return link.size if isinstance(link, Node) else link[0].inputs[link[1]].size


def _place_inputs(join: Node, is_placeable: Callable[[Node], bool], result: Placement) -> None:
    view = result.views.get(join)
    if view is None:
        view = result.views[join] = Buffer(join.size, join.dtype).whole(join.shape)
    copies = result.copies[join] = []
    for x, region in zip(join.inputs, regions(join, view), strict=True):
        if x.size == 0:
            continue
        if x not in result.views and is_placeable(x) and region.strides[-1:] in ((1,), ()):
            result.views[x] = region
        else:
            copies.append((x, region))


def regions(join: Node, view: View) -> Iterable[View]:
    """The part of the join's view that each of its inputs fills."""
    assert isinstance(join.op, Join)
    whole: list[KeyEntry] = [(0, size, 1) for size in join.shape]
    for place in join.op.places(join.inputs):
        whole[join.op.axis] = place
        yield view.sliced(whole)
