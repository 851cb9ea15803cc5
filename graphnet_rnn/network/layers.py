"""Layers of a network: cells with their own weights, or those of another layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graphnet.graph.node import Array, Dtype
from graphnet.graph.provenance import hide_module
from graphnet.system.memory import require_memory
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.tracing import require_nodes
from graphnet_rnn.cell.weights import Weights
from graphnet_rnn.errors import CellError, UsageError
from graphnet_rnn.settings import MANY, shown, whole_number

#: Nodes that the smallest layer makes when it is bound.
LAYER_NODES = 10

hide_module(__file__)


def checked_layers(layers: Any) -> list[Cell]:
    """Returns the cells as a list; UsageError unless there is at least one, and each is a cell."""
    cells = list(layers) if isinstance(layers, Iterable) else [layers]
    for cell in cells:
        if not isinstance(cell, Cell):
            hint = f"{cell.__name__}(128)" if isinstance(cell, type) else "rnn.LSTM(128)"
            raise UsageError(f"layers must hold cells, e.g. {hint}, not {shown(cell)}")
    if not cells:
        raise UsageError("layers is empty: give at least one cell, e.g. [rnn.LSTM(128)]")
    return cells


def checked_share(share: Mapping[int, int] | Iterable[Sequence[int]], count: int) -> dict[int, int]:
    """Returns {layer: layer whose weights it uses}; UsageError for invalid pairs."""
    checked: dict[int, int] = {}
    try:
        pairs = [(layer, owner) for layer, owner in (share.items() if isinstance(share, Mapping) else share)]
    except (TypeError, ValueError):
        raise UsageError(
            f"share must map layers to earlier layers, e.g. {{1: 0}}: layer 1 uses the weights of "
            f"layer 0; got {shown(share)}"
        ) from None
    for layer, owner in pairs:
        layer = whole_number("share: a layer", layer, least=0)
        owner = whole_number("share: a layer", owner, least=0)
        if not owner < layer < count or owner in checked:
            raise UsageError(
                f"share: layer {layer} cannot use the weights of layer {owner}; the layers are 0 ... "
                f"{count - 1}; map each to an earlier layer that has its own weights, e.g. {{1: 0}}"
            )
        checked[layer] = owner
    return checked


def bound_layers(
    cells: Sequence[Cell],
    inputs: int,
    beside: int,
    share: Mapping[int, int],
    seed: int,
    dtype: Dtype,
    values: Mapping[str, Array] | None,
) -> list[Cell]:
    """Returns the cells with weights; beside: width that layers after the first read besides the layer below."""
    bound: list[Cell] = []
    for l, cell in enumerate(cells):
        below = bound[-1].output_width + beside if l else inputs
        if l in share:
            bound.append(_bound_to(cell, l, bound[share[l]], below))
        else:
            bound.append(cell.bind(below, f"layer{l}", seed, dtype, values))
        if l == 1:  # an estimate of the layers above
            _require_room(bound[1], len(cells))
    return bound


def _require_room(cell: Cell, count: int) -> None:
    weights = cell.weights.values()
    what, remedy = f"{count:,} layers like {shown(cell, MANY)}", "use fewer layers"
    require_memory(count * sum(node.nbytes for node in weights), f"{what}, their weights alone,", remedy)
    require_nodes(count * LAYER_NODES, what, remedy)


def _bound_to(cell: Cell, layer: int, owner: Cell, below: int) -> Cell:
    weights = owner.bound_weights
    assert isinstance(weights, Weights)
    if cell.initial:
        raise UsageError(
            f"share: layer {layer} has initializers, but uses the weights of {weights.owner}; pass initializers "
            "to that layer"
        )
    try:
        return cell.bind_to(weights, below)
    except CellError as error:
        raise UsageError(
            f"share: layer {layer} ({shown(cell, MANY)}, which reads {below} values) cannot use the weights of "
            f"{weights.owner} ({shown(owner, MANY)}, which reads {owner.reads}): both must have the same "
            "weights of the same shapes."
        ) from error
