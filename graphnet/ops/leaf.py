"""Leaves (inputs, parameters, constants), and ops that compute nothing: label, stop_gradient, after."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from graphnet.errors import DtypeError, ShapeError, ValueAccessError
from graphnet.graph.dtypes import FLOAT32, FLOAT64, as_dtype, is_float, require_unmasked
from graphnet.graph.node import OPERATORS, Array, ByIdentity, Dtype, Node, Op, RowsOf, S, Shape, shared
from graphnet.settings import has_items, shown, yes_or_no


@dataclass(frozen=True, eq=False)
class Leaf(Op):
    """A node without inputs."""

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        raise NotImplementedError

    def backward(self, gy: Node, y: Node, *inputs: Node) -> Sequence[Node]:
        return ()


@dataclass(frozen=True, eq=False)
class Input(Leaf, ByIdentity):
    """x: an array that is given at every call"""

    is_input: ClassVar[bool] = True
    symbol: ClassVar[str] = "x"
    of_shape: Shape = ()
    of_dtype: Dtype = FLOAT64
    #: True if `Function.again` takes a new array for this input while all other inputs stay.
    varying: bool = False
    #: True if the input stands for parameters; passes then join products with it as with weights.
    weights: bool = False

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        return self.of_shape, self.of_dtype


@dataclass(frozen=True, eq=False)
class Parameter(Leaf, ByIdentity):
    """θ: an array that training changes; the node shares its memory"""

    is_parameter: ClassVar[bool] = True
    is_fed: ClassVar[bool] = False
    symbol: ClassVar[str] = "θ"
    value: Array = field(repr=False, default_factory=lambda: np.zeros(()))

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        return self.value.shape, self.value.dtype

    def forward(self) -> Array:
        return self.value


@dataclass(frozen=True, eq=False)
class Constant(Leaf):
    """y: an array that never changes"""

    symbol: ClassVar[str] = "constant"
    is_fed: ClassVar[bool] = False
    value: Array = field(repr=False, default_factory=lambda: np.zeros(()))

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        return self.value.shape, self.value.dtype

    def forward(self) -> Array:
        return self.value

    # Constants with equal contents are equal, so that they are merged.
    def _key(self) -> tuple[Any, ...]:
        return self.value.shape, self.value.dtype.str, self.value.tobytes()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Constant) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())


@dataclass(frozen=True, eq=False)
class Fill(Leaf):
    """y = v everywhere"""

    is_fed: ClassVar[bool] = False
    number: float | int | bool = 0
    of_shape: Shape = ()
    of_dtype: Dtype = FLOAT64

    @property
    def everywhere(self) -> float | int | bool | None:
        return self.number

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        return self.of_shape, self.of_dtype

    def rows(self, some: range, of: RowsOf, y: Node, *inputs: Node) -> Node | None:
        return fill(self.number, (len(some), *y.shape[1:]), y.dtype)

    def forward(self) -> Array:
        return np.broadcast_to(np.asarray(self.number, self.of_dtype), self.of_shape)

    # In Python 1 == 1.0 == True and 0.0 == -0.0: compare their bits.
    def _key(self) -> tuple[Any, ...]:
        bits = np.asarray(self.number, self.of_dtype).tobytes()
        return self.of_shape, self.of_dtype.str, bits

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


@dataclass(frozen=True, eq=False)
class Zeros(Fill):
    """y = 0: an absent derivative; linear ops of it are never built"""

    is_zeros: ClassVar[bool] = True
    symbol: ClassVar[str] = "0"


@dataclass(frozen=True, eq=False)
class Label(Op):
    """y = x: a name for the reader (an imaginary node, Lynge 2016, 3.1.1); computes nothing"""

    signature: ClassVar[str] = "... -> ..."
    is_label: ClassVar[bool] = True
    moves: ClassVar[bool] = True
    zero_if: ClassVar[str] = "all"

    def view(self, x: S) -> S | None:
        return x

    def aligned_axes(self, axis: int, y: Node, *inputs: Node) -> Sequence[int | None] | None:
        return (axis, *([None] * (len(inputs) - 1)))

    def row_offset(self, y: Node, *inputs: Node) -> int | None:
        return 0

    def forward(self, x: Array) -> Array:
        return x

    def backward(self, gy: Node, y: Node, x: Node) -> Sequence[Node]:
        return (gy,)

    def rop(self, rx: Node, y: Node, x: Node) -> Node:
        return rx


@dataclass(frozen=True, eq=False)
class StopGradient(Op):
    """y = x, with no derivative"""

    signature: ClassVar[str] = "... -> ..."
    symbol: ClassVar[str] = "stop"
    stops_gradient: ClassVar[bool] = True
    moves: ClassVar[bool] = True

    def view(self, x: S) -> S | None:
        return x

    def row_offset(self, y: Node, *inputs: Node) -> int | None:
        return 0

    def forward(self, x: Array) -> Array:
        return x

    def backward(self, gy: Node, y: Node, x: Node) -> Sequence[Node]:
        return (zeros(y.shape, y.dtype),)

    def rop(self, rx: Node, y: Node, x: Node) -> Node:
        return zeros(y.shape, y.dtype)


@dataclass(frozen=True, eq=False)
class After(Op):
    """y = x, computed after the other inputs; passes use it to fix an order"""

    symbol: ClassVar[str] = "after"
    zero_if: ClassVar[str] = "first"

    def view(self, x: S) -> S | None:
        return x

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        return inputs[0].shape, inputs[0].dtype

    def forward(self, x: Array, *others: Array) -> Array:
        return x

    def backward(self, gy: Node, y: Node, x: Node, *others: Node) -> Sequence[Node]:
        return (gy, *(zeros(other.shape, gy.dtype) for other in others))

    def rop(self, rx: Node, *rest: Node) -> Node:
        return rx


def as_shape(shape: Any, argument: str = "shape") -> Shape:
    """Returns a tuple of sizes; raises ShapeError if one is negative or not a whole number."""
    unordered = isinstance(shape, (str, bytes, bytearray, Set, Mapping))
    if isinstance(shape, np.ndarray) and not shape.ndim:
        shape = shape.item()
    sizes = tuple(shape) if isinstance(shape, Iterable) and not unordered else (shape,)
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
            raise ShapeError(f"{argument} must hold whole numbers >= 0, not {shown(shape, 80)}")
    return tuple(int(size) for size in sizes)


def as_size(size: Any, argument: str) -> int:
    """Returns one size; raises ShapeError if it is negative or not a whole number."""
    if has_items(size):
        raise ShapeError(f"{argument} must be one whole number >= 0, not {shown(size)}")
    return as_shape(size, argument)[0]


def input(
    shape: Any, dtype: Any = "float32", name: str | None = None, varying: bool = False, weights: bool = False
) -> Node:
    """A node whose array is given at every call of a compiled function.

    shape: sizes of the array, a tuple or one number. dtype: NumPy dtype or its name, float32 by default. name: name in
    error messages and pictures, None by default.
    varying: True if `Function.again` takes a new array for this input while all others stay; only nodes that depend on
    such inputs are computed again. Used for the directions of curvature products. False by default.
    weights: True if the input stands for parameters, such as one vector of all parameters on a GPU; passes then treat
    nodes that depend on it alone as weights. False by default.
    Raises ShapeError and DtypeError for a shape or dtype that is invalid.

    >>> x = gn.input((2, 3), name="x")
    >>> x.describe(), x.dtype.name
    ('x[2, 3]', 'float32')
    >>> gn.compile(gn.sum(x, axis=1), [x])(np.ones((2, 3), "float32"))[0].tolist()
    [3.0, 3.0]
    """
    varying, weights = yes_or_no("gn.input: varying", varying), yes_or_no("gn.input: weights", weights)
    return Input(as_shape(shape), as_dtype(dtype), varying, weights)(name=name)


def parameter(array: Any, name: str | None = None) -> Node:
    """A node that holds a trainable array.

    array: float32 or float64 array; the node shares its memory. Set new values with `node.value = new`. Python numbers
    and lists become float64. name: name in error messages and pictures, None by default.
    Raises DtypeError for an array that is not float32 or float64.

    >>> w = gn.parameter([1.0, 2.0], name="w")
    >>> f = gn.compile(gn.sum(w))
    >>> w.value = [10.0, 20.0]
    >>> f()[0].item()
    30.0
    """
    value = _as_array(array, "parameter")
    if not is_float(value.dtype):
        value = value.astype(FLOAT64) if not isinstance(array, np.ndarray) else value
    if not is_float(value.dtype):
        raise DtypeError(
            f"a parameter holds float32 or float64, not {value.dtype}: only floats can be "
            "trained. Use gn.constant for fixed integers, or array.astype('float32')."
        )
    return Parameter(value)(name=name)


def constant(array: Any, name: str | None = None) -> Node:
    """A node that holds a fixed array.

    array: numbers or booleans; they are copied, so later changes to `array` have no effect. name: name in error
    messages and pictures, None by default.

    >>> gn.compile(2 * gn.constant([1.0, 2.0]))()[0].tolist()
    [2.0, 4.0]
    """
    value = np.array(_as_array(array, "constant"), order="C")
    value.flags.writeable = False
    return Constant(value)(name=name)


def fill(number: float, shape: Any, dtype: Any) -> Node:
    """A node whose elements are all `number`; it takes no memory.

    number: the value. shape: sizes, a tuple or one number. dtype: NumPy dtype or its name.
    Raises ValueAccessError for an array or a node, DtypeError if the dtype cannot hold the number.

    >>> gn.compile(gn.fill(7, (2, 3), "int64"))()[0].tolist()
    [[7, 7, 7], [7, 7, 7]]
    """
    return filled("gn.fill", number, as_shape(shape), as_dtype(dtype))


def filled(who: str, number: Any, shape: Shape, dtype: Dtype) -> Node:
    """Returns `fill`, with the caller's name in errors."""
    held = _as_number(number)
    if not _holds(dtype, held):
        wider = "float64" if dtype == FLOAT32 else "float32"
        raise DtypeError(
            f"{who}: {dtype} cannot hold {shown(held)}; use another dtype, such as {wider!r}. If the dtype is that of "
            f"another operand, a node, write gn.cast(node, {wider!r})."
        )
    return (shared(Fill, held, shape, dtype) if held else Fill(held, shape, dtype))()  # as a key, -0.0 is 0.0


def zeros(shape: Shape, dtype: Any) -> Node:
    """Returns the absent derivative of a node of this shape. For zeros as data, use `gn.fill(0, ...)`."""
    return Zeros(0, shape, dtype)()


def label(x: Any, name: str) -> Node:
    """y = x under a name; pictures show it as a light gray square.

    x: node or array. name: the label. It computes nothing and does not change derivatives.

    >>> h = gn.label(gn.tanh(gn.input((2, 3))), "hidden")
    >>> h.describe()
    'hidden[2, 3]'
    """
    return shared(Label)(x, name=name)


def stop_gradient(x: Any) -> Node:
    """y = x; a constant for every derivative.

    x: node or array.

    >>> w = gn.parameter([3.0])
    >>> (g,) = gn.gradient(gn.sum(w * gn.stop_gradient(w)), [w])
    >>> gn.compile(g)()[0].tolist()
    [3.0]
    """
    return shared(StopGradient)(x)


def as_node(x: Any) -> Node:
    """Returns the node itself, or a Constant that holds the number or array."""
    return x if isinstance(x, Node) else constant(x)


def _as_number(number: Any) -> float | int | bool:
    if isinstance(number, (np.generic, np.ndarray)) and number.ndim == 0:
        number = number.item()
    if not isinstance(number, (bool, int, float)):
        raise ValueAccessError(
            f"gn.fill takes one number, not {shown(number)} of type {type(number).__name__}; for an array use "
            "gn.constant, for a node gn.broadcast_to."
        )
    return number


def _holds(dtype: Dtype, number: float | int | bool) -> bool:
    """True if an integer or boolean dtype holds exactly this number, or a float dtype does not overflow."""
    try:
        if is_float(dtype):
            with np.errstate(over="ignore"):
                return bool(np.isfinite(dtype.type(number))) or not math.isfinite(number)
        with np.errstate(invalid="ignore"):
            return bool(np.asarray(number).astype(dtype) == number)
    except OverflowError:  # no integer of the machine's, or no float
        return False


def _as_array(array: Any, function: str) -> Array:
    if isinstance(array, Node):
        raise ValueAccessError(f"gn.{function}: the value must be an array, not the node {array.describe()}")
    if isinstance(array, (list, tuple)) and any(isinstance(item, Node) for item in array):
        raise ValueAccessError(
            f"a {type(array).__name__} of nodes, such as gn.gradient returns, stands where one node is needed; take "
            "one of them, e.g. nodes[0], or join them with gn.stack or gn.concatenate."
        )
    require_unmasked(f"gn.{function}", array)
    try:
        result = np.asarray(array)
    except ValueError as error:
        raise ShapeError(f"gn.{function}: {shown(array)} is not an array: {error}") from None
    if result.dtype.kind not in "fiub":
        raise ValueAccessError(
            f"gn.{function}: {shown(array)} of type {type(array).__name__} is neither a node nor an "
            "array of numbers. Build nodes with gn.input, gn.parameter, gn.constant or by calling ops."
        )
    as_dtype(result.dtype)
    return result


OPERATORS["as_node"] = as_node
OPERATORS["zeros"] = zeros
