"""Base class of elementwise ops; broadcasting and casting of their inputs."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from graphnet.errors import (
    DifferentiationError,
    DtypeError,
    ShapeError,
    UsageError,
    ValueAccessError,
    table_of_inputs,
)  # fmt: skip
from graphnet.graph.dtypes import BOOL, FLOAT64, common_dtype, is_float
from graphnet.graph.expression import VARIABLES, is_compilable, parse_expression
from graphnet.graph.node import OPERATORS, Dtype, Node, Op, Shape
from graphnet.ops.broadcast import broadcast_to
from graphnet.ops.leaf import as_node, filled
from graphnet.settings import one_of, text, whole_number


class Elementwise(Op):
    """y = f(x_1, ..., x_n), element by element

    Base class for your own elementwise ops. Set `kernel`, one scalar expression in x, y, z from which back ends are
    compiled, and `arity`, the number of inputs; define `forward` on arrays and `partials` on nodes.

    >>> class Cube(gn.Elementwise):
    ...     "y = x³"
    ...
    ...     kernel, domain = "x * x * x", "float"
    ...
    ...     def forward(self, x):
    ...         return x * x * x
    ...
    ...     def partials(self, y, x):
    ...         return (3 * x * x,)
    >>> gn.compile(Cube()([1.0, 2.0]))()[0].tolist()
    [1.0, 8.0]
    >>> x = gn.input(2, "int64")
    >>> [node.dtype.name for node in Cube().cast_together([x])]
    ['float64']
    >>> y = Cube()(x)
    >>> [node.shape for node in y.op.partials(y, *y.inputs)]
    [(2,)]
    """

    is_elementwise: ClassVar[bool] = True
    #: One scalar expression in x (one input), or x, y, z (two or three).
    kernel: ClassVar[str] = ""
    arity: ClassVar[int] = 1
    #: Dtypes of the inputs: "common" (one dtype), "number" (no booleans), "float" (integers become float64)
    #: or "any".
    domain: ClassVar[str] = "common"
    #: True if Python's True and False are valid inputs.
    takes_flags: ClassVar[bool] = False

    # -- given by each op --------------------------------------------------------------------

    def partials(self, *args: Any, **kwargs: Any) -> Sequence[Node]:
        """partials(y, *inputs): returns ∂y/∂x for each input."""
        raise DifferentiationError(
            f"{self.name} has no partials, so nothing behind {args[0].describe()} can be differentiated (made at "
            f"{args[0].origin}). Give the op a `partials` method, or cut the path with gn.stop_gradient."
        )

    # -- derived from them -------------------------------------------------------------------

    def row_offset(self, y: Node, *inputs: Node) -> int | None:
        return 0

    def aligned_axes(self, axis: int, y: Node, *inputs: Node) -> Sequence[int | None] | None:
        return [axis] * len(inputs)

    def backward(self, *args: Any, **kwargs: Any) -> Sequence[Node]:
        gy, y, *inputs = args
        return [gy * partial for partial in self._checked_partials(y, inputs)]

    def rop(self, *args: Any, **kwargs: Any) -> Node:
        n = (len(args) - 1) // 2
        tangents, y, inputs = args[:n], args[n], args[n + 1 :]
        return OPERATORS["add"](
            *(r * p for r, p in zip(tangents, self._checked_partials(y, inputs), strict=True))
        )

    def _checked_partials(self, y: Node, inputs: Sequence[Node]) -> Sequence[Node]:
        partials = self.partials(y, *inputs)
        if not isinstance(partials, (list, tuple)) or len(partials) != len(inputs):
            given = len(partials) if isinstance(partials, (list, tuple)) else f"a {type(partials).__name__}"
            raise DifferentiationError(
                f"{self.name}.partials returned {given}, at {y.describe()} (made at {y.origin}); return a list "
                f"or tuple of {len(inputs)} node(s), one ∂y/∂x for each input."
            )
        return partials

    # -- one place for broadcasts and casts --------------------------------------------------

    def prepare(self, inputs: Sequence[Any]) -> tuple[Node, ...]:
        _require_settings(self.name, self.kernel, self.arity, self.domain)
        if len(inputs) != self.arity and self.arity:
            raise ShapeError(
                f"{self.name} takes {self.arity} input(s), not {len(inputs)}; if you define the op, set `arity`"
            )
        if not self.takes_flags and bool in map(type, inputs):
            raise no_condition(self.name, next(x for x in inputs if type(x) is bool))
        nodes = [x if isinstance(x, Node) or _is_number(x) else as_node(x) for x in inputs]
        return broadcast_together(self.name, nodes, self.cast_together)

    def cast_together(self, nodes: list[Node]) -> list[Node]:
        dtype = common_dtype(self.name, nodes)
        if self.domain == "number" and dtype == BOOL:
            raise DtypeError(
                f"{self.name}: not defined for booleans; cast them first, e.g. gn.cast(x, 'float32')."
                + table_of_inputs(nodes)
            )
        if self.domain == "float" and not is_float(dtype):
            dtype = FLOAT64
        return [node if node.dtype == dtype else OPERATORS["cast"](node, dtype) for node in nodes]

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        return inputs[0].shape, inputs[0].dtype


@lru_cache(maxsize=4096, typed=True)
def _require_settings(name: str, kernel: str, arity: int, domain: str) -> None:
    text(f"{name}.kernel", kernel)
    whole_number(f"{name}.arity", arity, least=0)
    one_of(f"{name}.domain", domain, ("common", "number", "float", "any"))
    if arity and is_compilable(kernel):
        read = {part.id for part in ast.walk(parse_expression(kernel)) if isinstance(part, ast.Name)}
        for unknown in read.intersection(VARIABLES[arity:]):
            raise UsageError(
                f"{name}: the kernel {kernel!r} reads {unknown}, but arity is {arity}; set `arity`"
            )


def no_condition(what: str, value: int) -> ValueAccessError:
    """Returns the error for a Python bool where a boolean for each element is needed."""
    return ValueAccessError(
        f"{what} got Python's {value}. `a == b` is True only if a and b are the same node: write gn.equal(a, b). "
        "For a Python bool, write: x if flag else y."
    )


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float, np.number, np.bool_))


def _number_dtype(number: Any, beside: Sequence[Node]) -> Dtype:
    """Returns the dtype of the other operands, or a wider one if that cannot hold the number."""
    known = np.result_type(*(node.dtype for node in beside))
    if isinstance(number, (bool, np.bool_)) or is_float(known):
        return known
    is_whole = isinstance(number, (int, np.integer))
    if known.kind in "iu" and is_whole and np.iinfo(known).min <= number <= np.iinfo(known).max:
        return known
    return np.dtype("int64") if is_whole else FLOAT64


def as_nodes_together(op_name: str, operands: Sequence[Any], shape: Shape = ()) -> list[Node]:
    """Returns the operands as nodes; a number becomes a Fill of this shape and the dtype of the others."""
    given = [x if isinstance(x, Node) or _is_number(x) else as_node(x) for x in operands]
    nodes = [x for x in given if isinstance(x, Node)]
    if not nodes:
        return [as_node(x) for x in given]
    return [x if isinstance(x, Node) else filled(op_name, x, shape, _number_dtype(x, nodes)) for x in given]


def broadcast_together(op_name: str, inputs: Sequence[Any], cast_together: Any = None) -> tuple[Node, ...]:
    """Returns the inputs as nodes of one shape; numbers become Fill nodes. Raises ShapeError if they do not fit."""
    nodes = [x for x in inputs if isinstance(x, Node)]
    shape = nodes[0].shape if nodes else ()
    for node in nodes:
        if node.shape != shape:
            try:
                shape = np.broadcast_shapes(*(n.shape for n in nodes))
            except ValueError:
                raise ShapeError(
                    f"{op_name}: shapes {' and '.join(str(list(n.shape)) for n in nodes)} do not "
                    "broadcast: aligned from the right, two sizes must be equal or one of them 1."
                    + table_of_inputs(nodes)
                ) from None
            break
    whole = nodes if len(nodes) == len(inputs) else as_nodes_together(op_name, inputs, shape)
    if cast_together is not None:
        whole = cast_together(whole)
    return tuple([n if n.shape == shape else broadcast_to(n, shape) for n in whole])
