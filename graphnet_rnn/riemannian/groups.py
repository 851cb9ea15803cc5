"""Groups: weights that enter the same pre-activations, found in the graph of a cost.

A pre-activation V (cases, units) is a sum of terms that are linear in weights; each entry of a weight leads to one
unit. Terms are products s W, biases, diagonal connections s ∘ w and sums over edges; a symbol may choose the weight.
Terms may be subtracted, and multiplied or divided by a number. A term that is multiplied by anything else, such as a
gate, is its own pre-activation. The weights whose terms meet form a group. Its units are the columns of its
pre-activations, one of which there is at each time step. So every cell has its groups, however it writes its products.
Source: Ollivier 2013, 3.3: the incoming parameters of a unit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from graphnet.graph.graph import ancestors
from graphnet.graph.node import Array, Node
from graphnet.ops.broadcast import BroadcastTo
from graphnet.ops.elementwise import Add, Divide, Multiply, Negative, Subtract
from graphnet.ops.index import ScatterAdd, Take
from graphnet.ops.linear import MatMul
from graphnet.ops.shape import Reshape
from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import listed, shown


@dataclass(frozen=True)
class Incoming:
    """A weight of a group, and how its entries lead to the units.

    kind: "product", s W of a source (cases, n); "bias"; "diagonal", s ∘ w of a source (cases, units); "edges",
    Σ_e s_{i(e)} τ_e at the unit j(e), of a source (cases, n). gated: True if its first axis is the symbol that chooses.
    """

    weight: Node
    kind: str
    gated: bool = False
    i: Array | None = None
    j: Array | None = None

    @property
    def ends(self) -> tuple[Array, Array]:
        """i(e) and j(e)"""
        assert self.i is not None, "edges"
        assert self.j is not None, "edges"
        return self.i, self.j

    def places(self, units: int) -> Array:
        """(units, entries): indices of the weight's entries (of one symbol) that lead to each unit, padded by -1."""
        match self.kind:
            case "product":
                return np.arange(self.weight.shape[-2] * units).reshape(-1, units).T
            case "edges":
                return _by_unit(self.ends[1], units)
            case _:
                return np.arange(units)[:, None]

    def features(self, units: int) -> Array:
        """(units, entries): column of the source that each of these entries multiplies; 0 for padding."""
        match self.kind:
            case "product":
                return np.tile(np.arange(self.weight.shape[-2]), (units, 1))
            case "edges":
                places = self.places(units)
                return np.where(places < 0, 0, self.ends[0][places])
            case "diagonal":
                return np.arange(units)[:, None]
            case _:
                return np.zeros((units, 1), np.int64)


def _by_unit(targets: Array, units: int) -> Array:
    """For each unit the edges that lead to it, padded by -1."""
    incoming = [np.flatnonzero(targets == unit) for unit in range(units)]
    found = np.full((units, max(len(each) for each in incoming)), -1)
    for unit, each in enumerate(incoming):
        found[unit, : len(each)] = each
    return found


@dataclass(frozen=True)
class Term:
    """A summand of a pre-activation: scale · node, node = f(source, factor).

    source: the other factor of the weight's entries, None for the constant 1. factor: the weight as it enters, with a
    row for each case if it is repeated or chosen. gate: the one-hot code whose symbol chooses the entries.
    """

    node: Node
    incoming: Incoming
    source: Node | None = None
    factor: Node | None = None
    gate: Node | None = None
    scale: float = 1.0


@dataclass(frozen=True)
class PreActivation:
    """A pre-activation and its terms. symbol: (cases,), if they are gated."""

    V: Node
    terms: list[Term]
    symbol: Node | None = None

    @property
    def sources(self) -> dict[Node, Node | float]:
        """Source S of each weight, a node or a number; the sum, if the weight enters twice.

        With slopes B = ∂C/∂V, the sum of Sᵀ B over time steps is the gradient of a weight matrix without a gate.
        """
        found: dict[Node, Node | float] = {}
        for term in self.terms:
            own: Node | float = term.scale
            if term.source is not None:
                own = term.source if term.scale == 1 else term.scale * term.source
            weight = term.incoming.weight
            found[weight] = found[weight] + own if weight in found else own
        return found


@dataclass(frozen=True)
class UnitGroup:
    """Weights that enter the same pre-activations, and these pre-activations.

    incoming: the weights, each with its form. pre_activations: one for each time step, (cases, units). gated: True if a
    symbol chooses among all of the weights, so that each symbol has its blocks.

    >>> u = rnn.Network([rnn.Elman(3)], inputs=4, outputs=2).unroll(time=5, batch=1)
    >>> group = rnn.riemannian.unit_groups(u.cost, u.network.parameters)[0]
    >>> group.units, len(group.pre_activations), [each.kind for each in group.incoming]
    (3, 5, ['product', 'product', 'bias'])
    """

    incoming: list[Incoming]
    pre_activations: list[PreActivation] = field(repr=False)

    @property
    def units(self) -> int:
        return self.pre_activations[0].V.shape[1]

    @property
    def symbols(self) -> int:
        """Number of symbols that choose among its weights; 1 for none."""
        return self.incoming[0].weight.shape[0] if self.gated else 1

    @property
    def gated(self) -> bool:
        return self.incoming[0].gated

    @property
    def bias(self) -> Incoming | None:
        """Weight of the always-active unit, if there is one."""
        return next((each for each in self.incoming if each.kind == "bias"), None)

    def __str__(self) -> str:
        names = ", ".join(each.weight.name or each.weight.describe() for each in self.incoming)
        return f"{self.units} units of {names}" + (f", each for {self.symbols} symbols" if self.gated else "")


def unit_groups(cost: Node, parameters: Iterable[Node] | Mapping[str, Node]) -> list[UnitGroup]:
    """Returns the groups of these parameters in a cost, in the order of their first pre-activations.

    Raises UsageError for a parameter that enters in another way, with the op and its line, and for anything but
    parameters.

    >>> u = rnn.Network([rnn.Elman(3)], inputs=4, outputs=2).unroll(time=5, batch=1)
    >>> [str(group) for group in rnn.riemannian.unit_groups(u.cost, u.network.parameters)]
    ['3 units of layer0.W_xh, layer0.W_hh, layer0.b_h', '2 units of output.W_ho, output.b_o']
    """
    given = parameters.values() if isinstance(parameters, Mapping) else parameters
    parameters = listed("unit_groups: parameters", given, "nodes")
    if not isinstance(cost, Node):
        raise UsageError(f"unit_groups: cost must be a node, not {shown(cost)}")
    for node in parameters:
        if not isinstance(node, Node) or not node.op.is_parameter:
            raise UsageError(
                f"unit_groups: parameters must be parameter nodes, e.g. net.parameters, not {shown(node)}"
            )
    order = ancestors([cost])
    readers: dict[Node, list[Node]] = defaultdict(list)
    for node in order:
        for source in dict.fromkeys(node.inputs):
            readers[source].append(node)
    terms: dict[Node, list[Term]] = defaultdict(list)
    for parameter in parameters:
        for term in _terms_of(parameter, readers):
            V, scale = _climbed(term.node, readers)
            terms[V].append(replace(term, scale=scale))
    return _grouped(terms)


def _climbed(node: Node, readers: Mapping[Node, Sequence[Node]]) -> tuple[Node, float]:
    """Sum in which a term ends, and its factor there: follows nodes with a single reader upwards."""
    scale = 1.0
    while len(readers[node]) == 1:
        (reader,) = readers[node]
        if reader.ndim != 2:
            break
        match reader.op:
            case Add():
                pass
            case Subtract():
                if reader.inputs[0] is reader.inputs[1]:
                    break
                scale *= -1 if reader.inputs[1] is node else 1
            case Negative():
                scale *= -1
            case Multiply() if (factor := _number_beside(node, reader)) is not None:
                scale *= factor
            case Divide() if (
                reader.inputs[0] is node and (by := _number(reader.inputs[1])) is not None and by
            ):
                scale /= by
            case _ if not reader.op.is_label:
                break
        node = reader
    return node, scale


def _number(node: Node) -> float | None:
    while node.op.is_view:
        node = node.inputs[0]
    if node.op.everywhere is not None:
        return float(node.op.everywhere)
    return float(node.value.item()) if node.op.is_constant and node.size == 1 else None


def _number_beside(node: Node, product: Node) -> float | None:
    """Other factor of the product, if that is a number."""
    x, y = product.inputs
    return None if x is y else _number(x if y is node else y)


# -- terms -----------------------------------------------------------------------------------


def _terms_of(parameter: Node, readers: Mapping[Node, Sequence[Node]]) -> list[Term]:
    return [term for reader in readers[parameter] for term in _read_by(parameter, reader, readers)]


def _read_by(parameter: Node, reader: Node, readers: Mapping[Node, Sequence[Node]]) -> list[Term]:
    match reader.op:
        case MatMul() if reader.inputs[1] is parameter and reader.inputs[0] is not parameter:
            source = reader.inputs[0]
            if source.op.is_one_hot:
                gated = [_over_edges(parameter, reader, each, readers, source) for each in readers[reader]]
                if gated and all(gated):
                    return [term for term in gated if term]
            return [Term(reader, Incoming(parameter, "product"), source, parameter)]
        case BroadcastTo() if parameter.ndim == 1 and reader.ndim == 2:
            return [_broadcast(parameter, reader, readers)]
        case Reshape() if parameter.ndim == 3:
            return [_matrix_of_symbol(parameter, reader, readers)]
    raise _unfit(parameter, reader)


def _broadcast(parameter: Node, row: Node, readers: Mapping[Node, Sequence[Node]]) -> Term:
    """Terms of a vector that is repeated for each case: weights of edges, of a diagonal connection, or biases.

    A repeated vector with several readers is a value, such as a learned initial state.
    """
    if len(readers[row]) == 1 and isinstance(readers[row][0].op, Multiply):
        (reader,) = readers[row]
        edges = _over_edges(parameter, row, reader, readers, None)
        if edges:
            return edges
        source = reader.inputs[1] if reader.inputs[0] is row else reader.inputs[0]
        return Term(reader, Incoming(parameter, "diagonal"), source, row)
    return Term(row, Incoming(parameter, "bias"))


def _over_edges(
    parameter: Node,
    weights: Node,
    product: Node,
    readers: Mapping[Node, Sequence[Node]],
    gate: Node | None,
) -> Term | None:
    """Term Σ_e s_{i(e)} τ_e at j(e), if this product with the edges' weights is summed over edges."""
    if not isinstance(product.op, Multiply) or len(readers[product]) != 1:
        return None
    taken = product.inputs[1] if product.inputs[0] is weights else product.inputs[0]
    (summed,) = readers[product]
    match taken.op, summed.op:
        case Take(axis=1), ScatterAdd(axis=1):
            index = taken.inputs[1], summed.inputs[1]
            if all(k.op.is_constant and k.op.everywhere is None for k in index):
                i, j = (np.asarray(k.value) for k in index)
                own = Incoming(parameter, "edges", gate is not None, i, j)
                return Term(summed, own, taken.inputs[0], weights, gate)
    return None


def _matrix_of_symbol(parameter: Node, flat: Node, readers: Mapping[Node, Sequence[Node]]) -> Term:
    """h W^(x), W^(x) = Σ_k x_k W[k], as in TensorRNN: a matrix for each symbol."""
    node = flat
    path = []
    while len(readers[node]) == 1 and not (node.op.is_product and node.ndim == 3):
        (node,) = readers[node]
        path.append(node)
    chosen = path[0] if path else flat
    if (
        (node.op.is_product and node.ndim == 3)
        and (chosen.op.is_product and chosen.ndim == 2)
        and chosen.inputs[0].op.is_one_hot
        and [type(each.op) for each in path[1:-1]] == [Reshape]
        and len(readers[node]) == 1
    ):
        (row,) = readers[node]
        spread = node.inputs[0]
        if row.op.is_view and row.ndim == 2 and spread.op.is_view and spread.inputs[0].ndim == 2:
            own = Incoming(parameter, "product", True)
            return Term(row, own, spread.inputs[0], node.inputs[1], chosen.inputs[0])
    raise _unfit(parameter, node)


def _unfit(parameter: Node, reader: Node) -> UsageError:
    return UsageError(
        f"the parameter {parameter.describe()} enters {reader.op.name} (made at {reader.origin}), which is not "
        "a term of a pre-activation, so it has no units; write s @ W, a bias, s * w or over_edges, or train it with "
        "another optimizer"
    )


# -- groups ----------------------------------------------------------------------------------


def _grouped(terms: Mapping[Node, Sequence[Term]]) -> list[UnitGroup]:
    """Weights that meet anywhere form one group, except that gated weights form their own."""
    group_of: dict[Node, int] = {}
    members: dict[int, dict[Node, None]] = {}
    for number, met in enumerate(terms.values()):
        members[number] = {}
        for term in met:
            weight = term.incoming.weight
            other = group_of.get(weight, number)
            if other != number:
                for moved in members.pop(other):
                    group_of[moved] = number
                    members[number][moved] = None
            group_of[weight] = number
            members[number][weight] = None
    found: dict[int, dict[Node, Sequence[Term]]] = defaultdict(dict)
    for V, met in terms.items():
        found[group_of[met[0].incoming.weight]][V] = met
    groups = [
        group
        for sums in found.values()
        for group in _group(dict(sorted(sums.items(), key=lambda item: item[0].serial)))
    ]
    return sorted(groups, key=lambda group: group.pre_activations[0].V.serial)


def _group(sums: Mapping[Node, Sequence[Term]]) -> list[UnitGroup]:
    """One group, or two if a symbol chooses only some of the weights."""
    gated = {V: [term for term in met if _gate_of(term) is not None] for V, met in sums.items()}
    whole = all(len(gated[V]) == len(met) for V, met in sums.items())
    if not whole and not any(term.gate is not None for met in sums.values() for term in met):
        return [_made(sums, split=False)]
    others = {V: [term for term in met if _gate_of(term) is None] for V, met in sums.items()}
    halves = [({V: met for V, met in some.items() if met}, some is gated) for some in (gated, others)]
    return [_made(some, split) for some, split in halves if some]


def _made(sums: Mapping[Node, Sequence[Term]], split: bool) -> UnitGroup:
    incoming: dict[Node, Incoming] = {}
    listed = []
    for V, met in sums.items():
        gates = {_gate_of(term) for term in met} if split else set()
        if len(gates) > 1:
            raise UsageError(
                f"the weights of {V.describe()} (made at {V.origin}) are chosen by different symbols, so they "
                "have no block for each symbol; use another optimizer"
            )
        symbol = next((gate.inputs[0] for gate in gates if gate is not None), None)
        terms = [_by_row(term) if split else term for term in met]
        for term in terms:
            known = incoming.setdefault(term.incoming.weight, term.incoming)
            if known.kind != term.incoming.kind:
                raise UsageError(
                    f"the weight {known.weight.describe()} is a {known.kind} term at one place, and a "
                    f"{term.incoming.kind} term at {term.node.origin}; give the second use another name"
                )
        listed.append(PreActivation(V, terms, symbol))
    return UnitGroup(list(incoming.values()), listed)


def _by_row(term: Term) -> Term:
    """For a product with a one-hot code, the row that it chooses, as a bias of the symbol."""
    if term.gate is not None:
        return term
    own = Incoming(term.incoming.weight, "bias", True)
    return Term(term.node, own, gate=_gate_of(term), scale=term.scale)


def _gate_of(term: Term) -> Node | None:
    """One-hot code that chooses the entries of the weight; for a product with a one-hot code, that code."""
    source = term.source
    if term.gate is not None:
        return term.gate
    product = term.incoming.kind == "product" and source is not None and source.op.is_one_hot
    return source if product else None
