"""linear_operator: H, G, J and F over the flat vector of parameters, as SciPy's LinearOperator.

Each is a compiled function of directions, which vary while parameters and data stay. So from the second product on,
the forward pass is not computed again (`Function.again`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np

from graphnet.backends import load_backend, place
from graphnet.call.arguments import as_input
from graphnet.call.function import Function, compile
from graphnet.derivatives.curvature import gauss_newton_product, hessian_product
from graphnet.derivatives.gradient import backward, require_scalar, rop
from graphnet.errors import DifferentiationError, UsageError, ValueAccessError
from graphnet.graph.dtypes import held_as, is_float, require_unmasked
from graphnet.graph.graph import ancestors
from graphnet.graph.node import Array, Dtype, Node
from graphnet.ops.leaf import input as input_node
from graphnet.settings import listed, one_of, shown

KINDS = ("hessian", "gauss-newton", "jacobian", "fisher")


def linear_operator(
    kind: str,
    outputs: Node,
    parameters: Sequence[Node] | Mapping[str, Node],
    feed: Mapping[Node, Any] | None = None,
    at: Node | Sequence[Node] | None = None,
    backend: str = "numba",
    threads: int | None = None,
    memory: str | int | None = None,
) -> Any:
    """v ↦ Mv, M a matrix of derivatives over w, the concatenated parameters: a scipy.sparse.linalg.LinearOperator

    kind and outputs: the matrix, and the node whose derivatives it holds:

    "hessian"       ∂²C/∂w∂w of a scalar cost C (Pearlmutter 1994)
    "gauss-newton"  JᵀH_L J of a scalar cost, see gn.gauss_newton_product, also for `at` (Schraudolph 2002)
    "jacobian"      J = ∂y/∂w of any node y, a row for each of its elements, in their order in memory
    "fisher"        F = 1/B Σ_b g_b g_bᵀ = 1/B JᵀJ of the losses of B cases, (B,): the empirical Fisher matrix, g_b the
                    gradient of case b (Kunstner, Balles & Hennig 2019)

    parameters: a list of them, or a mapping, such as net.parameters; their order is that of w (as in rnn.Objective).
    feed: {input: array} for all inputs that the outputs depend on; the arrays are copied.
    backend, threads, memory: see gn.compile.

        u = net.unroll(time=20, batch=32, initial="zero")
        H = gn.linear_operator("hessian", u.cost, net.parameters, {u.inputs: x, u.targets: t})
        H @ v, H.matmat(V), gn.eigenvalues(H, 10), scipy.sparse.linalg.cg(H, b)

    It has all methods of SciPy's: matvec, rmatvec, matmat, `.H`, sums and products with other operators. The method
    H.feed({u.inputs: other}) replaces some of the arrays. Products use the *current* values of the parameters and of
    random draws. The dtype is that of the parameters; H, G and F are symmetric. The operator is compiled at the first
    product and must be used by one thread at a time.
    Raises UsageError without SciPy (pip install scipy), for an invalid kind or parameters, and for inputs without
    an array; DifferentiationError for a cost that is not a scalar, and for losses that are not a vector; ShapeError and
    DtypeError for arrays that do not fit.

    >>> w = gn.parameter([1.0, 2.0, 3.0], name="w")
    >>> H = gn.linear_operator("hessian", gn.sum(w**3), [w])
    >>> (H @ np.ones(3)).tolist()
    [6.0, 12.0, 18.0]
    """
    one_of("linear_operator: kind", kind, KINDS)
    linalg = scipy_linalg("linear_operator")
    matrix = _Matrix(
        kind, outputs, _parameters(parameters), at, {"backend": backend, "threads": threads, "memory": memory}
    )
    matrix.feed({} if feed is None else feed)
    matrix.require_fed()
    return _operator_class(linalg.LinearOperator)(matrix)


def scipy_linalg(function: str) -> Any:
    """Imports scipy.sparse.linalg; raises UsageError if it is not installed."""
    try:
        import scipy.sparse.linalg
    except ImportError:
        raise UsageError(f"{function} needs SciPy, which is not installed: pip install scipy") from None
    return scipy.sparse.linalg


@cache
def _operator_class(base: Any) -> Any:
    class ParameterOperator(base):  # type: ignore[misc]
        """A matrix of derivatives over the flat vector of parameters, given by its products."""

        def __init__(self, matrix: _Matrix) -> None:
            super().__init__(matrix.dtype, matrix.shape)
            self._matrix = matrix
            self.kind, self.parameters, self.inputs = (
                matrix.kind,
                tuple(matrix.parameters),
                tuple(matrix.inputs),
            )

        def feed(self, arrays: Mapping[Node, Any]) -> None:
            """Replaces the arrays of some inputs."""
            self._matrix.feed(arrays)

        def _matvec(self, x: Array) -> Array:
            return self._matrix.product(x)

        def _rmatvec(self, x: Array) -> Array:
            return self._matrix.transposed(x)

        def _rmatmat(self, X: Array) -> Array:
            # SciPy's default calls the adjoint, whose default calls this one.
            return np.stack([self._matrix.transposed(x) for x in X.T], axis=1)

        def _adjoint(self) -> Any:
            return super()._adjoint() if self.kind == "jacobian" else self

        def __repr__(self) -> str:
            rows, columns = self.shape
            return f"<{self.kind} of {self._matrix.outputs.describe()}, {rows:,} × {columns:,}, {self.dtype}>"

    return ParameterOperator


class _Matrix:
    def __init__(
        self,
        kind: str,
        outputs: Node,
        parameters: list[Node],
        at: Node | Sequence[Node] | None,
        how: Mapping[str, Any],
    ) -> None:
        if at is not None and kind != "gauss-newton":
            raise UsageError(f"linear_operator: `at` is only for kind='gauss-newton', not for kind={kind!r}")
        self.kind, self.outputs, self.parameters = kind, outputs, parameters
        _require_outputs(kind, outputs, parameters)
        self.backend, self._how = how["backend"], dict(how)
        self._apart = load_backend(self.backend).apart
        self.dtype: Dtype = np.result_type(*(node.dtype for node in parameters))
        size = sum(node.size for node in parameters)
        self.shape = (outputs.size if kind == "jacobian" else size, size)
        self.inputs = [node for node in ancestors([outputs]) if node.op.is_input]
        self._fed: dict[Node, Any] = {}
        directions = [input_node(w.shape, w.dtype, f"v_{w.name}", varying=True) for w in parameters]
        along = dict(zip(parameters, directions, strict=True))
        self._product = _Product(self, _product_nodes(kind, outputs, along, at), directions)
        self._transposed = self._product
        if kind == "jacobian":
            u = input_node(outputs.shape, outputs.dtype, "u", varying=True)
            self._transposed = _Product(self, backward({outputs: u}, parameters), [u])

    # -- the inputs' arrays ----------------------------------------------------------------------

    def feed(self, arrays: Mapping[Node, Any]) -> None:
        if not isinstance(arrays, Mapping):
            raise UsageError(f"linear_operator: feed must be a dict, input -> array, not {shown(arrays)}")
        found = {}
        for node, array in arrays.items():
            if not isinstance(node, Node) or not node.op.is_input:
                what = f"{node.describe()} (made at {node.origin})" if isinstance(node, Node) else shown(node)
                raise UsageError(
                    f"linear_operator: feed has an array for {what}, which is not an input; its keys must be nodes "
                    "made by gn.input, e.g. {u.inputs: x}"
                )
            given = np.asarray(array)
            if given.dtype.kind == node.dtype.kind == "f":
                given = held_as(given, node.dtype, f"input {node.describe()} (made at {node.origin})")
            own = np.array(as_input(node, array if given.dtype != node.dtype else given))
            found[node] = place(own, self.backend) if self._apart else own
        self._fed.update(found)
        self._product.forget()
        self._transposed.forget()

    def require_fed(self) -> None:
        missing = [node for node in self.inputs if node not in self._fed]
        if missing:
            names = ", ".join(f"{node.describe()} (made at {node.origin})" for node in missing)
            raise UsageError(
                f"linear_operator: {self.outputs.describe()} (made at {self.outputs.origin}) depends on {names}; pass "
                "an array for each: feed={input: array}"
            )

    def arrays(self) -> list[Any]:
        return [self._fed[node] for node in self.inputs]

    # -- products --------------------------------------------------------------------------------

    def product(self, v: Array) -> Array:
        """Mv"""
        v = _real(v)
        ends = list(accumulate(node.size for node in self.parameters))
        pieces = [
            np.ascontiguousarray(piece.reshape(node.shape), node.dtype)
            for piece, node in zip(np.split(v, ends[:-1]), self.parameters, strict=True)
        ]
        return self._flat(self._product(pieces))

    def transposed(self, u: Array) -> Array:
        """Mᵀu"""
        if self.kind != "jacobian":
            return self.product(u)
        return self._flat(
            self._transposed([np.ascontiguousarray(_real(u).reshape(self.outputs.shape), self.outputs.dtype)])
        )

    def _flat(self, arrays: Sequence[Any]) -> Array:
        return np.concatenate([np.asarray(array).ravel() for array in arrays]).astype(self.dtype, copy=False)

    def compiled(self, nodes: Sequence[Node], directions: Sequence[Node]) -> Function:
        return compile(nodes, [*self.inputs, *directions], **self._how)


class _Product:
    """A function of directions; nodes that do not depend on these are kept between calls."""

    def __init__(self, matrix: _Matrix, nodes: Sequence[Node], directions: Sequence[Node]) -> None:
        self._matrix, self._nodes, self._directions = matrix, nodes, directions
        self._function: Function | None = None
        self._held: list[tuple[Node, Array]] | None = None

    def forget(self) -> None:
        self._held = None

    def __call__(self, pieces: Sequence[Array]) -> Sequence[Any]:
        if self._function is None:
            self._function = self._matrix.compiled(self._nodes, self._directions)
        if self._held is not None and all(_holds(node, array) for node, array in self._held):
            return self._function.again(*pieces)
        self._held = None  # invalid if the call fails
        arrays = self._function(*self._matrix.arrays(), *pieces)
        order = self._function.source.order
        self._held = [(n, n.value.copy()) for n in order if n.op.is_parameter]
        self._held += [(n, n.value) for n in order if n.is_leaf and n.op.is_fed and not n.op.is_input]
        return arrays


def _holds(node: Node, array: Array) -> bool:
    """True if a parameter, or a random draw, still has the same value."""
    return node.value is array or (node.op.is_parameter and np.array_equal(node.value, array))


def _real(vector: Array) -> Array:
    require_unmasked("linear_operator: the vector", vector)
    if vector.dtype.kind not in "fiub":
        raise UsageError(f"linear_operator: the vector must be of real numbers, not {vector.dtype}")
    return vector.ravel()


def _product_nodes(
    kind: str, outputs: Node, along: Mapping[Node, Node], at: Node | Sequence[Node] | None
) -> list[Node]:
    """Returns the nodes of Mv, one for each parameter; for a Jacobian one node, Jv."""
    match kind:
        case "hessian":
            return hessian_product(outputs, along)
        case "gauss-newton":
            return gauss_newton_product(outputs, along, at)
        case "jacobian":
            return rop([outputs], along)
        case _:
            (moved,) = rop([outputs], along)
            return backward({outputs: moved * (1 / outputs.size)}, list(along))


def _require_outputs(kind: str, outputs: Any, parameters: Sequence[Node]) -> None:
    if kind in ("hessian", "gauss-newton"):
        require_scalar("linear_operator", outputs)
    if not isinstance(outputs, Node):
        raise ValueAccessError(f"linear_operator: outputs must be a node, not {shown(outputs)}")
    what = f"{outputs.describe()} (made at {outputs.origin})"
    if not is_float(outputs.dtype):
        raise DifferentiationError(
            f"linear_operator: {what} is {outputs.dtype}; only floats have derivatives"
        )
    if kind == "fisher" and (outputs.ndim != 1 or not outputs.size):
        raise DifferentiationError(
            f"linear_operator: kind='fisher' needs a loss for each case, (batch,), but {what} has shape "
            f"{list(outputs.shape)}. For losses of shape (time, batch), pass gn.sum(losses, axis=0)."
        )
    if set(ancestors([outputs])).isdisjoint(parameters):
        names = ", ".join(node.describe() for node in parameters[:3])
        raise UsageError(
            f"linear_operator: {what} depends on none of the parameters, {names}"
            f"{', ...' if len(parameters) > 3 else ''}; pass the parameters of this network"
        )


def _parameters(given: Any) -> list[Node]:
    values = (
        list(given.values()) if isinstance(given, Mapping) else [given] if isinstance(given, Node) else given
    )
    found = listed("linear_operator: parameters", values, "nodes")
    for node in found:
        if not isinstance(node, Node) or not node.op.is_parameter:
            what = f"{node.describe()} (made at {node.origin})" if isinstance(node, Node) else shown(node)
            raise UsageError(f"linear_operator: parameters must hold nodes made by gn.parameter, not {what}")
    if not found or len(set(found)) < len(found):
        twice = next((node for node in found if found.count(node) > 1), None)
        problem = f"{twice.describe()} (made at {twice.origin}) twice" if twice is not None else "nothing"
        raise UsageError(f"linear_operator: parameters lists {problem}")
    return found
