"""Per-example gradients: the gradient of each case, without a loop over the cases.

As long as cases stay apart, one backward pass of the sum of all losses gives in row b of each cotangent the
contribution of case b. Cases meet where they read a shared value, usually a weight. There the ordinary derivative sums
over the cases; here the cases are kept apart. For y = x W the result is x_b δ_bᵀ for each case instead of xᵀδ.

So there are two kinds of values. *Of cases*: each element belongs to one case, and the cotangent has the value's
shape. *Shared*: each case may read all of it, and its cotangents have the shape (cases, *shape). The kind follows
from the ops, from the losses backwards (`Op.aligned_axes`); a value is shared unless an op is known to keep cases
apart. So the result is the Jacobian of the losses for any graph; the kinds affect only the cost.
Source: Goodfellow 2015, "Efficient per-example gradient computations"; Rochette, Manoel & Tramel 2019.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from graphnet.derivatives.gradient import float_nodes, gradient, pull_back
from graphnet.errors import DifferentiationError, ValueAccessError
from graphnet.graph.dtypes import INT64, is_float
from graphnet.graph.graph import Nodes, ancestors, dependents
from graphnet.graph.node import Node, Shape
from graphnet.graph.provenance import attributed_to
from graphnet.ops.broadcast import BroadcastTo, Sum, broadcast_to
from graphnet.ops.elementwise import add, cast, where
from graphnet.ops.index import ScatterAdd, Take
from graphnet.ops.leaf import constant, fill, zeros
from graphnet.ops.linear import BatchMatMul, MatMul, ScaledMatMul, matmul, scaled_rows
from graphnet.ops.shape import (
    Concatenate,
    Join,
    Pad,
    Reshape,
    Slice,
    Transpose,
    concatenate,
    reshape,
    slice_along,
    stack,
    transpose,
)
from graphnet.settings import shown, yes_or_no
from graphnet.system.process import collector_paused


def per_example_gradients(losses: Node, parameters: Nodes, mixed: bool = False) -> list[Node]:
    """g_b = ∂losses[b]/∂w for each case b and each w of `parameters`, (batch, *w.shape); zeros where none depends on w.

    losses: float node (batch,), one value for each case, such as gn.sum(u.losses, axis=0) of an unrolled network.
    parameters: a list of nodes, or a mapping of them, such as net.parameters. The sum of the result over the first axis
    is the gradient of gn.sum(losses). The cost is about that of a gradient plus writing the result.
    mixed: False by default. No loss may depend, through a parameter, on the rows of another case, as with batch
    normalization; this is found from the ops (`Op.aligned_axes`), and the error names the node that reads all cases.
    mixed=True allows such graphs: row b is still the derivative of losses[b], but the backward pass from that node
    on costs batch times as much (rnn.ctc.ctc_loss needs this, since it looks up among the logits of all cases). Data
    may be mixed, since they are constants for every derivative.
    Raises ValueAccessError and DifferentiationError for losses that are not floats of shape (batch,), and the latter
    for cases that are mixed.

    >>> w = gn.parameter([0.0, 0.0])
    >>> losses = gn.matmul([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], w)
    >>> (g,) = gn.per_example_gradients(losses, [w])
    >>> gn.compile(g)()[0].tolist()
    [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    """
    function = "per_example_gradients"
    mixed = yes_or_no(f"{function}: mixed", mixed)
    targets = list(float_nodes(function, "parameters", parameters, "differentiate with respect to"))
    if not isinstance(losses, Node):
        raise ValueAccessError(f"{function}: the losses must be a node, not {shown(losses)}")
    if losses.ndim != 1 or not is_float(losses.dtype):
        raise DifferentiationError(
            f"{function}: the losses must be floats of shape (batch,), one for each case, but {losses.describe()} "
            f"(made at {losses.origin}) is {losses.dtype} of shape {list(losses.shape)}. For losses of "
            "shape (time, batch), pass gn.sum(losses, axis=0); for the gradient of a cost use gn.gradient."
        )
    (batch,) = losses.shape
    if batch < 2:
        alone = gradient(losses[0], targets) if batch else [zeros(w.shape, w.dtype) for w in targets]
        return [broadcast_to(g, (batch, *g.shape)) for g in alone]
    with collector_paused():
        return _PerExample(losses, targets, mixed).gradients()


class _PerExample:
    """The backward walk from the losses, for at least two cases."""

    def __init__(self, losses: Node, targets: Sequence[Node], mixed: bool) -> None:
        self.losses, self.targets, (self.batch,) = losses, targets, losses.shape
        self.order = ancestors([losses])
        self.moving = _moving(self.order, targets)
        self.shared: set[Node] = set()
        #: For nodes of cases: element f of the flat array belongs to case (f // stride) % batch.
        self.strides: dict[Node, int] = {}
        if losses in self.moving:
            self._divide(mixed)
        #: For each shared node the cotangents (batch, *shape) from its readers, and factors of further ones.
        self.sent: dict[Node, list[Node]] = defaultdict(list)
        self.factors: dict[Node, list[tuple[Node, Node, bool]]] = defaultdict(list)

    # -- which values are of cases ---------------------------------------------------------------

    def _divide(self, mixed: bool) -> None:
        self.strides[self.losses] = 1
        targets, data = set(self.targets), self._data()
        for node in reversed(self.order):
            if node not in self.moving or not (node in self.shared or node in self.strides):
                continue
            for x, stride in zip(*self._read(node), strict=True):
                if x not in self.moving:
                    continue
                known = self.strides.get(x)
                if stride is not None and known in (None, stride) and x not in self.shared:
                    self.strides[x] = stride
                    continue
                read_otherwise = known is not None or stride is not None
                if (
                    not mixed
                    and x not in targets
                    and (read_otherwise or (node in self.strides and x in data))
                ):
                    raise self._mixed(node, x)
                self.strides.pop(x, None)
                self.shared.add(x)

    def _data(self) -> set[Node]:
        """Returns nodes that depend on data of cases: on leaves other than weights and common factors.

        An input that is differentiated with respect to is a weight here: its rows are not the cases'.
        """
        targets = set(self.targets)
        leaves = [node for node in self.order if node.is_leaf and node.op.is_fed and node not in targets]
        return dependents(self.order, [node for node in leaves if node.size and not node.size % self.batch])

    def _read(self, node: Node) -> tuple[Sequence[Node], Sequence[int | None]]:
        """Returns the inputs that derivatives pass to, and the strides of the cases in each, None if shared."""
        inputs = _passed(node)
        if node in self.shared:
            return inputs, [None] * len(inputs)
        return inputs, self._strides_of(node, inputs)

    def _strides_of(self, node: Node, inputs: Sequence[Node]) -> Sequence[int | None]:
        stride, nothing = self.strides[node], [None] * len(inputs)
        if node.op.is_elementwise or isinstance(node.op, Reshape):
            return [stride] * len(inputs)
        place = _place(node.shape, stride, self.batch)
        if place is None:
            return nothing
        axis, inner = place
        whole = self.batch * inner
        found = node.op.aligned_axes(axis, node, *node.inputs)
        if found is not None:
            return [
                None if own is None else inner * math.prod(x.shape[own + 1 :])
                for own, x in zip(found, inputs, strict=False)
            ]
        # Whole blocks of all cases, such as the time steps of a product over time, may be joined and split.
        match node.op:
            case Concatenate():
                edges = np.cumsum([0, *(x.shape[axis] for x in inputs)])
                return [stride] * len(inputs) if not (edges % whole).any() else nothing
            case Slice(key=key):
                own = [i for i, k in enumerate(key) if not isinstance(k, int)][axis]
                (x,) = inputs
                start, _, step = key[own]  # type: ignore[misc]
                fits = step == 1 and not start % whole and not x.shape[own] % whole
                return [inner * math.prod(x.shape[own + 1 :])] if fits else nothing
            case Pad(key=key) if not isinstance(key[axis], int):
                (x,) = inputs
                own = sum(not isinstance(k, int) for k in key[:axis])
                start, _, step = key[axis]  # type: ignore[misc]
                fits = step == 1 and not start % whole and not x.shape[own] % whole
                return [inner * math.prod(x.shape[own + 1 :])] if fits else nothing
        return nothing

    def _mixed(self, node: Node, x: Node) -> DifferentiationError:
        place = _place(node.shape, self.strides[node], self.batch) if node in self.strides else None
        unknown = place is not None and node.op.aligned_axes(place[0], node, *node.inputs) is None
        why = (
            f"and {node.op.name} does not declare that it keeps cases apart (Op.aligned_axes)"
            if unknown
            else "so the loss of one case may depend on the rows of others"
        )
        return DifferentiationError(
            f"per_example_gradients: {node.describe()} (made at {node.origin}) reads {x.describe()} (made at "
            f"{x.origin}) of all {self.batch} cases, {why}. Compute each case from its own rows; or pass mixed=True: "
            f"row b is then still the derivative of losses[b], but the backward pass from here on costs {self.batch} "
            "times as much."
        )

    # -- the walk --------------------------------------------------------------------------------

    def gradients(self) -> list[Node]:
        wanted = set(self.targets)
        of_cases = [node for node in self.order if node in self.strides]
        ends = [n for n in of_cases if n in wanted or not self.shared.isdisjoint(_passed(n))]
        seeds = {self.losses: fill(1, self.losses.shape, self.losses.dtype)}
        totals = dict(
            zip(ends, pull_back(self.order, set(of_cases), seeds, ends, None), strict=True)
            if of_cases
            else ()
        )
        found: dict[Node, Node] = {}
        with attributed_to() as made:
            for node in reversed(ends):
                made.model = node
                if totals[node].op.is_zeros:
                    continue
                if node in wanted:
                    found[node] = self._apart(totals[node], self.strides[node])
                self._meet(node, totals[node])
            for node in reversed(self.order):
                made.model = node
                total = self._total(node)
                if total is None:
                    continue
                if node in wanted:
                    found[node] = total
                for i, x in enumerate(_passed(node)):
                    if x in self.shared:
                        self._send(x, _sent_back(node, i, total))
        return [found.get(w, zeros((self.batch, *w.shape), w.dtype)) for w in self.targets]

    def _send(self, x: Node, cotangents: Node) -> None:
        if not cotangents.op.is_zeros:
            self.sent[x].append(cotangents)

    def _apart(self, g: Node, stride: int) -> Node:
        """Returns for each case its elements of g, zeros elsewhere: (batch, *shape)."""
        own = np.eye(self.batch, dtype=bool)[:, None, :, None]
        parts = reshape(g, (1, -1, self.batch, stride))
        return reshape(where(constant(own), parts, 0), (self.batch, *g.shape))

    def _meet(self, node: Node, g: Node) -> None:
        """Sends each case's part of the cotangent g of a node of cases to its shared inputs."""
        strides = self._read(node)[1]
        for i, (x, stride) in enumerate(zip(_passed(node), strides, strict=True)):
            if x not in self.shared:
                continue
            if stride is not None:  # of cases here, shared elsewhere
                self._send(x, self._apart(_backward(node, g)[i], stride))
            elif not self._meet_by_rule(node, i, x, g):
                own = self._apart(g, self.strides[node])
                self._send(x, stack([_backward(node, own[b])[i] for b in range(self.batch)]))

    def _meet_by_rule(self, node: Node, i: int, x: Node, g: Node) -> bool:
        """As `_meet`, without a node for each case; False if the op has no such rule."""
        place = _place(node.shape, self.strides[node], self.batch)
        if place is None:
            return False
        axis, inner = place
        match node.op:
            case MatMul() if i == 1 - axis:  # x = (k, m) of y = a x, or (n, k) of y = x b
                a, back = (node.inputs[0], g) if axis == 0 else (transpose(node.inputs[1]), transpose(g))
                self.factors[x].append((self._rows(a, inner), self._rows(back, inner), axis == 1))
            case ScaledMatMul() if axis == 0 and i == 1:
                s, _, u, v = node.inputs
                both = scaled_rows(s, u), scaled_rows(g, v)
                a, back = (self._rows(rows, inner * u.shape[1]) for rows in both)
                self.factors[x].append((a, back, False))
            case BroadcastTo():
                # A value that is repeated for each case has no axis of cases in x.
                split = (*g.shape[:axis], -1, self.batch, inner, *g.shape[axis + 1 :])
                order = (axis + 1, *(k for k in range(g.ndim + 2) if k != axis + 1))
                merged = (self.batch, *g.shape[:axis], g.shape[axis] // self.batch, *g.shape[axis + 1 :])
                self._send(x, _summed_to(reshape(transpose(reshape(g, split), order), merged), x.shape))
            case Take(axis=0) if i == 0 and axis < node.inputs[1].ndim:
                index, width = node.inputs[1], math.prod(x.shape[1:])
                taken = reshape(g, (index.size, width)), reshape(index, (index.size,))
                self._send(x, self._scattered(*taken, self.strides[node] // width, x.shape))
            case _:
                return False
        return True

    def _rows(self, matrix: Node, inner: int) -> Node:
        """Returns (rows of a case, batch, columns)."""
        n = matrix.shape[1]
        split = reshape(matrix, (-1, self.batch, inner, n))
        if inner > 1:
            split = transpose(split, (0, 2, 1, 3))
        return reshape(split, (-1, self.batch, n))

    def _scattered(self, rows: Node, index: Node, stride: int, shape: Shape) -> Node:
        """Returns the rows added up by their index, for each case separately: (batch, *shape)."""
        cases = np.arange(index.size) // stride % self.batch
        places = _as_index(index) + constant(shape[0] * cases)
        return reshape(ScatterAdd(self.batch * shape[0], 0)(rows, places), (self.batch, *shape))

    def _total(self, x: Node) -> Node | None:
        """Returns the total cotangent of a shared node, after all of its readers."""
        parts = self.sent.pop(x, [])
        by_kind: dict[bool, list[tuple[Node, Node]]] = defaultdict(list)
        for a, g, transposed in self.factors.pop(x, ()):
            by_kind[transposed].append((a, g))
        for transposed, pairs in by_kind.items():
            looked_up = [] if transposed else [(a, g) for a, g in pairs if _code(a) is not None]
            others = [pair for pair in pairs if pair not in looked_up]
            if looked_up:
                codes = [code for a, _ in looked_up if (code := _code(a)) is not None]
                index = concatenate([_as_index(reshape(code, (-1,))) for code in codes])
                rows = concatenate([reshape(g, (-1, g.shape[2])) for _, g in looked_up])
                parts.append(self._scattered(rows, index, 1, x.shape))
            if others:
                a, g = (concatenate([pair[k] for pair in others]) for k in (0, 1))
                outer = BatchMatMul()(transpose(a, (1, 2, 0)), transpose(g, (1, 0, 2)))
                parts.append(transpose(outer, (0, 2, 1)) if transposed else outer)
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else add(*parts)


def _moving(order: Sequence[Node], targets: Sequence[Node]) -> set[Node]:
    """Returns the nodes that depend on targets; a node of size 0 passes nothing on."""
    found = {target for target in targets if target.size}
    for node in order:
        passes = is_float(node.dtype) and node.size and not node.op.stops_gradient
        if passes and not found.isdisjoint(_passed(node)):
            found.add(node)
    return found


def _passed(node: Node) -> Sequence[Node]:
    """Returns the inputs to which derivatives may pass; for a label, the labeled node."""
    return node.inputs[:1] if node.op.is_label else node.inputs


def _place(shape: Shape, stride: int, batch: int) -> tuple[int, int] | None:
    """Returns (axis, inner): place i of the axis belongs to case (i // inner) % batch; None without such an axis."""
    tail = 1
    for axis in reversed(range(len(shape))):
        if stride % tail == 0 and shape[axis] and shape[axis] % (batch * (stride // tail)) == 0:
            return axis, stride // tail
        tail *= shape[axis]
    return None


def _backward(node: Node, g: Node) -> Sequence[Node]:
    return node.op.backward(g, node, *node.inputs)


def _as_index(index: Node) -> Node:
    """Casts to int64: positions among all cases may exceed the dtype of one case's indices."""
    return index if index.dtype == INT64 else cast(index, INT64)


def _code(rows: Node) -> Node | None:
    """Returns the indices if these rows are one-hot codes, else None."""
    leading = rows.shape[:-1]
    while isinstance(rows.op, Reshape) and rows.shape[-1] == rows.inputs[0].shape[-1]:
        (rows,) = rows.inputs
    return reshape(rows.inputs[0], leading) if rows.op.is_one_hot else None


def _summed_to(cotangents: Node, shape: Shape) -> Node:
    """Sums (batch, *any) to (batch, *shape), along axes in which shape was repeated."""
    offset = cotangents.ndim - 1 - len(shape)
    kept = [1] * offset + list(shape)
    axes = tuple(k + 1 for k, n in enumerate(kept) if k < offset or (n == 1 and cotangents.shape[k + 1] != 1))
    summed = Sum(axes)(cotangents) if axes else cotangents
    return reshape(summed, (cotangents.shape[0], *shape))


def _sent_back(node: Node, i: int, total: Node) -> Node:
    """Returns the cotangents (batch, *shape) of a shared input of a shared node, from those of the node."""
    batch, x = total.shape[0], node.inputs[i]
    if node.op.is_label:
        return total
    if node.op.is_elementwise:
        # Linear in the cotangent and element by element: the cotangent of 1 is the factor for all cases.
        partial = _backward(node, fill(1, node.shape, node.dtype))[i]
        return total * broadcast_to(partial, total.shape)
    match node.op:
        case Reshape():
            return reshape(total, (batch, *x.shape))
        case Transpose(axes=axes):
            return transpose(total, (0, *(1 + int(k) for k in np.argsort(axes))))
        case Slice(key=key):
            return Pad((batch, *x.shape), ((0, batch, 1), *key))(total)
        case Pad(key=key):
            return Slice(((0, batch, 1), *key))(total)
        case Join(axis=axis) as join:
            return slice_along(total, axis + 1, join.places(node.inputs)[i])
        case BroadcastTo():
            return _summed_to(total, x.shape)
        case Sum(axes=axes):
            kept = [1 if k in axes else n for k, n in enumerate(x.shape)]
            return broadcast_to(reshape(total, (batch, *kept)), (batch, *x.shape))
        case MatMul():
            return (
                matmul(total, transpose(node.inputs[1]))
                if i == 0
                else matmul(transpose(node.inputs[0]), total)
            )
    return stack([_backward(node, total[b])[i] for b in range(batch)])
