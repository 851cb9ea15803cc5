"""Op and Node: the rules of an operation, and an immutable application of it.

An op defines its value (`forward`, on arrays), how a cotangent goes back through it (`backward`, on
nodes) and how a tangent goes forward (`rop`, on nodes). The argument order is always *incoming
derivative(s), output, inputs*; prefix g is a cotangent, prefix r is R{·}.

Properties that passes, back ends and pictures use are methods and fields of the op, too. Their defaults are right for
any op, and no other file names an op.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Number
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol, Self, TypeVar

import numpy as np

from graphnet.errors import DifferentiationError, UsageError, ValueAccessError
from graphnet.graph.display import ShowsItself
from graphnet.graph.dtypes import assign
from graphnet.graph.provenance import Origin, Scope, context, here
from graphnet.graph.signature import check_signature, parse
from graphnet.settings import shown

Array = np.ndarray[Any, Any]
Dtype = np.dtype[Any]
Shape = tuple[int, ...]
#: Selection along an axis: an index, which drops the axis, or (start, stop, step), which keeps it.
KeyEntry = int | tuple[int, int, int]
#: One entry for each axis.
Key = tuple[KeyEntry, ...]
#: of(x, range(start, stop)): these rows of x (along its first axis), or None if they cannot be computed alone.
RowsOf = Callable[["Node", range], "Node | None"]


class Strided(Protocol):
    """A strided view of a value in memory, from which other views can be made (plan.views.View)."""

    @property
    def shape(self) -> Shape: ...

    def sliced(self, key: Sequence[KeyEntry]) -> Self: ...

    def transposed(self, axes: Sequence[int]) -> Self: ...

    def broadcast(self, to: Shape) -> Self: ...

    def reshaped(self, to: Shape) -> Self | None: ...


S = TypeVar("S", bound=Strided)


#: Implementations of `+`, `@`, `x[...]` and conversion to a node, filled in by `graphnet.ops`, which imports this file.
OPERATORS: dict[str, Callable[..., Node]] = {}

#: Methods of NumPy and PyTorch that a node lacks -> what to write instead.
INSTEAD_OF_METHODS: dict[str, str] = {
    **{
        name: f"gn.{name}(node, ...)"
        for name in (
            "sum", "mean", "max", "min", "argmax", "softmax", "log_softmax", "logsumexp", "reshape", "transpose",
            "clip", "exp", "log", "sqrt", "tanh", "sigmoid", "relu", "sin", "cos", "sign", "take", "where", "matmul",
            "cumsum", "erf", "floor", "ceil", "round",
        )
    },
    **dict.fromkeys(("view", "flatten", "ravel", "squeeze"), "gn.reshape(node, shape)"),
    **dict.fromkeys(("astype", "to", "float", "double"), "gn.cast(node, dtype)"),
    **dict.fromkeys(("numpy", "item", "tolist", "eval"), "gn.compile([node], inputs=[...])(*arrays)"),
    **dict.fromkeys(("copy", "clone"), "the node itself: nodes are immutable"),
    **dict.fromkeys(("grad", "backward"), "gn.gradient(cost, [node])"),
    "detach": "gn.stop_gradient(node)",
    "dot": "node @ other",
    "abs": "abs(node)",
    "pow": "node ** power",
    "unsqueeze": "node[:, None]",
    "std": "gn.mean and gn.sqrt",
    "var": "gn.mean",
    "dim": "node.ndim",
}  # fmt: skip

#: Field of a node -> what to write instead of setting it.
INSTEAD_OF_SETTING: dict[str, str] = {
    "shape": "Write gn.reshape(node, shape).",
    "dtype": "Write gn.cast(node, dtype).",
    "name": "Give the name where the node is made, e.g. gn.input(shape, name='x'), or write gn.label(node, name).",
    "scope": "Make the node within gn.scope(layer=...).",
    "op": "Call the other op on the node's inputs.",
    "inputs": "Call the op on the other inputs.",
    "T": "Write gn.transpose(node, axes).",
}

#: NumPy's name of an operator -> ours, where they differ.
_OPERATOR_OF = {"bitwise_and": "both", "bitwise_or": "either", "remainder": "mod"}

_serials = itertools.count()

_VANISHES: dict[str, Callable[[list[bool]], bool]] = {
    "all": all,
    "any": any,
    "first": lambda absent: absent[0],
    "rest": lambda absent: all(absent[1:]),
}


@dataclass(frozen=True, eq=False)
class Op:
    """The rules of an operation. The first docstring line of a subclass is its formula; its settings are fields.

    A subclass defines `forward`, `backward` and `rop`, and either `signature` or its own `infer`. Ops of one class with
    equal settings are equal, so equal nodes can be merged. In all methods y is the node that applies the op, and inputs
    are its input nodes, in order.

    >>> class Double(gn.Op):
    ...     "y = 2 x"
    ...
    ...     signature, zero_if = "... -> ...", "all"
    ...
    ...     def forward(self, x):
    ...         return 2 * x
    ...
    ...     def backward(self, gy, y, x):
    ...         return (2 * gy,)
    ...
    ...     def rop(self, rx, y, x):
    ...         return 2 * rx
    >>> gn.compile(Double()([1.0, 2.0]))()[0].tolist()
    [2.0, 4.0]
    >>> Double.formula(), Double().forward(np.array([1.0, 2.0])).tolist()
    ('y = 2 x', [2.0, 4.0])
    >>> x = gn.input((3, 2), name="x")
    >>> y = Double()(x)
    >>> y.op.prepare([x])[0] is x, y.op.infer(x)[0]
    (True, (3, 2))
    >>> [node.shape for node in y.op.backward(x, y, x)], y.op.rop(x, y, x).shape
    ([(3, 2)], (3, 2))
    >>> h, a, s = gn.tanh(x), gn.concatenate([x, x]), gn.softmax(x)
    >>> h.op.row_offset(h, x), h.op.aligned_axes(1, h, x)
    (0, [1])
    >>> h.op.rows(range(1, 3), lambda node, some: node[some.start : some.stop], h, x).shape
    (2, 2)
    >>> a.op.sliced((0, (0, 2, 1)), a, x, x).shape, s.op.expanded(s, x).op.name
    ((2,), 'Divide')
    >>> gn.take(x, [0, 2]).op.index_size(1, *gn.take(x, [0, 2]).inputs)
    3
    >>> memory = gn.plan.views.Buffer(x.size, x.dtype).whole(x.shape)
    >>> x.T.op.view(memory).shape
    (2, 3)
    """

    signature: ClassVar[str] = ""
    #: Text that a picture shows inside the node; the class name if empty.
    symbol: ClassVar[str] = ""
    #: Inputs that make the output an absent derivative (Zeros) if they are absent: "all" (a linear op), "any" (a
    #: multilinear one), "first" (a quotient), "rest" (a choice), "" (none). Such nodes are never built, so
    #: rules are written as on paper and derivative graphs hold no zeros.
    zero_if: ClassVar[str] = ""
    #: Position of the input that a loss judges (logits, predictions); None for all other ops.
    judged_input: ClassVar[int | None] = None
    #: True for ops whose value is given at every call.
    is_input: ClassVar[bool] = False
    #: True for ops that hold a trainable array.
    is_parameter: ClassVar[bool] = False
    #: True for zeros that represent an absent derivative.
    is_zeros: ClassVar[bool] = False
    #: True for ops that are equal only to themselves.
    by_identity: ClassVar[bool] = False
    #: True for labels, which compute nothing.
    is_label: ClassVar[bool] = False
    #: True for ops that define `view`: y is a view of the memory of the first input.
    is_view: ClassVar[bool] = False
    #: True for ops that only move elements of their inputs, perhaps cast to another dtype.
    moves: ClassVar[bool] = False
    #: True for commutative ops.
    commutes: ClassVar[bool] = False
    #: True if each element of y is the same function of the elements at its place in the inputs, which have y's shape.
    is_elementwise: ClassVar[bool] = False
    #: True for products of two matrices, or of batches of matrices: y = a @ b.
    is_product: ClassVar[bool] = False
    #: True for one-hot codes of integers, along a new last axis.
    is_one_hot: ClassVar[bool] = False
    #: True for ops that every derivative treats as a constant.
    stops_gradient: ClassVar[bool] = False
    #: True for leaves whose array may be replaced at each call; programs read the arrays of others in place.
    is_fed: ClassVar[bool] = True

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        cls.is_view = cls.view is not Op.view
        if cls.infer is Op.infer:
            check_signature(cls.__name__, cls.signature)

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is type(self) and self._settings() == other._settings())

    def _settings(self) -> tuple[object, ...]:
        """Returns the settings with their types: in Python 0.0 == -0.0 and 1 == True, but the ops differ."""
        return tuple((type(v), v.hex() if isinstance(v, float) else v) for v in vars(self).values())

    def __hash__(self) -> int:
        try:
            return hash((type(self), self._settings()))
        except TypeError:  # a setting that cannot be hashed: equal only to itself
            return id(self)

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def everywhere(self) -> float | int | bool | None:
        """Value of all elements of y, for leaves with one value; None for other ops."""
        return None

    @property
    def joins_along(self) -> int | None:
        """Axis along which y is the concatenation of its inputs; None for other ops."""
        return None

    @property
    def is_constant(self) -> bool:
        """True for leaves whose value never changes."""
        return not (self.is_fed or self.is_parameter)

    @property
    def varying(self) -> bool:
        """True for inputs that get a new array in `Function.again`."""
        return False

    @classmethod
    def formula(cls) -> str:
        """Returns the first line of the docstring of the class `cls`."""
        return (cls.__doc__ or cls.__name__).strip().splitlines()[0]

    # -- the three rules: a subclass writes them with its own arguments, as on paper -------------------

    def forward(self, *args: Any, **kwargs: Any) -> Array:
        """forward(*arrays): returns the value from the inputs' values, an array or (for a 0-d value) a NumPy scalar."""
        raise NotImplementedError(f"{self.name} has no forward rule")

    def backward(self, *args: Any, **kwargs: Any) -> Sequence[Node]:
        """backward(gy, y, *inputs): returns one cotangent (a node, or zeros) for each input, from that of y."""
        y = args[1]
        raise DifferentiationError(
            f"{self.name} has no backward rule, so nothing behind {y.describe()} can be "
            f"differentiated (made at {y.origin}). Give the op a `backward` method, or cut the path "
            "with gn.stop_gradient."
        )

    def rop(self, *args: Any, **kwargs: Any) -> Node:
        """rop(*tangents, y, *inputs): returns the tangent of y from the inputs' tangents."""
        y = args[len(args) // 2]
        raise DifferentiationError(
            f"{self.name} has no R-operator rule, so there is no R-operator through {y.describe()} "
            f"(made at {y.origin}). Give the op a `rop` method, or cut the path with gn.stop_gradient."
        )

    # -- shapes ------------------------------------------------------------------------------

    def prepare(self, inputs: Sequence[Any]) -> tuple[Node, ...]:
        """Returns the input nodes; casts and broadcasts are inserted here and nowhere else."""
        return tuple(x if isinstance(x, Node) else OPERATORS["as_node"](x) for x in inputs)

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        """Returns shape and dtype of the output; by default from `signature` and the first input's dtype."""
        if not self.signature:
            raise NotImplementedError(f"{self.name} needs a `signature` or an `infer` method")
        return parse(self.signature).infer(self.name, inputs), inputs[0].dtype

    def index_size(self, position: int, *inputs: Node) -> int | None:
        """Returns the upper bound (exclusive) of integer indices in an input; None if it holds no indices.

        position: number of the input, from 0.
        """
        return None

    # -- optional properties for passes and back ends ----------------------------------------------------

    def expanded(self, *args: Any, **kwargs: Any) -> Node | None:
        """expanded(y, *inputs): returns y written with other ops, for back ends that compile; None if not needed."""
        return None

    def row_offset(self, y: Node, *inputs: Node) -> int | None:
        """Returns k if row i of y reads only row i + k of each input (first axes); None if it may read others."""
        return None

    def aligned_axes(self, axis: int, y: Node, *inputs: Node) -> Sequence[int | None] | None:
        """Returns for each input the axis of which place i of y along `axis` reads only place i; None if unknown.

        axis: axis of y. An entry None: all of that input may be read. By default follows from `row_offset`, for first
        axes.
        """
        apart = axis == 0 and self.row_offset(y, *inputs) == 0
        return [0] * len(inputs) if apart and all(x.shape[:1] == y.shape[:1] for x in inputs) else None

    def rows(self, some: range, of: RowsOf, y: Node, *inputs: Node) -> Node | None:
        """Returns some rows of y, computed from rows of the inputs; None if that is impossible.

        some: range of row numbers. of: of(x, range(start, stop)) gives rows of an input. By default applies this op to
        the same rows of each input, if `row_offset` is 0.
        """
        if self.row_offset(y, *inputs) != 0:
            return None
        found = [of(x, some) for x in inputs]
        return None if None in found else self(*found)

    def sliced(self, key: Key, y: Node, *inputs: Node) -> Node | None:
        """Returns y[key], computed from less than all of y; None if that is impossible.

        key: for each axis of y an index or (start, stop, step).
        """
        return None

    def view(self, x: S) -> S | None:
        """Returns y as a view of x's memory; None if elements would have to move. Defined by view ops only."""
        return None

    # -- applying ----------------------------------------------------------------------------

    def __call__(self, *inputs: Any, name: str | None = None) -> Node:
        """Returns a node that applies this op.

        inputs: nodes, arrays or numbers. name: name in error messages and pictures, None by default.
        Raises ShapeError or DtypeError if the inputs do not fit.
        """
        if name is not None and not isinstance(name, str):
            raise UsageError(f"{self.name}: name must be a str or None, not {shown(name)}")
        nodes = self.prepare(inputs)
        shape, dtype = self.infer(*nodes)
        if self.zero_if:
            absent = [node.op.is_zeros for node in nodes]
            if any(absent) and _VANISHES[self.zero_if](absent):
                return OPERATORS["zeros"](shape, dtype)
        return Node(self, nodes, shape, dtype, name)


@lru_cache(maxsize=4096, typed=True)
def shared(kind: Callable[..., Op], *settings: Hashable) -> Op:
    """Returns kind(*settings), one object for all nodes: saves memory, and equal ops are found faster."""
    return kind(*settings)


class ByIdentity(Op):
    """An op that is equal only to itself: two inputs of one shape are different inputs."""

    by_identity: ClassVar[bool] = True

    __eq__ = object.__eq__
    __hash__ = object.__hash__


class _Draft(ShowsItself):
    """A node under construction, which becomes a Node. A Node forbids assignments; setting its fields through
    descriptors would double the time to make one.
    """

    __slots__ = (
        "__weakref__", "dtype", "inputs", "name", "op", "origin", "scope", "serial", "shape", "source_serial",
    )  # fmt: skip

    op: Op
    inputs: tuple[Node, ...]
    shape: Shape
    dtype: Dtype
    name: str | None
    origin: Origin
    scope: Scope
    serial: int
    #: Serial of the user's node from which this one derives, by differentiation or rewriting: its place in the user's
    #: program.
    source_serial: int


class Node(_Draft):
    """An immutable application of an op to input nodes, made by gn.input, gn.parameter and functions of nodes.

    op: the Op. inputs: the nodes it is applied to. shape: tuple of sizes. dtype: NumPy dtype. name: the user's name, or
    None. Nodes are equal only to themselves. `serial` grows with creation, and inputs exist before the node that uses
    them, so sorting by serial is a topological order. Arithmetic, comparisons and slices make new nodes.

    >>> x = gn.input((2, 3), name="x")
    >>> y = 2 * gn.tanh(x)
    >>> y.shape, y.dtype.name, y.op.name
    ((2, 3), 'float32', 'Multiply')
    >>> [node.describe() for node in y.inputs]
    ['Fill[2, 3]', 'Tanh[2, 3]']
    >>> y[:, 0].shape, (y @ y.T).shape
    ((2,), (2, 2))
    >>> y.replace_inputs((y.inputs[0], gn.exp(x))).inputs[1].describe()
    'Exp[2, 3]'
    """

    __slots__ = ()

    def __new__(
        cls,
        op: Op,
        inputs: tuple[Node, ...],
        shape: Shape,
        dtype: Dtype,
        name: str | None = None,
    ) -> Node:
        draft = _Draft()
        draft.op = op
        draft.inputs = inputs
        draft.shape = shape
        draft.dtype = dtype
        draft.name = name
        model = context.model
        draft.serial = next(_serials)
        if model is None:
            draft.origin, draft.scope, draft.source_serial = here(), context.scope, draft.serial
        else:
            draft.origin, draft.scope, draft.source_serial = model.origin, model.scope, model.source_serial
        draft.__class__ = Node
        return draft  # type: ignore[return-value]

    def replace_inputs(self, inputs: tuple[Node, ...], own_place: bool = False) -> Node:
        """Returns a node that applies the same op to other inputs of the same shapes and dtypes.

        own_place: True if the new node gets its own place in the user's program, see `source_serial`.
        """
        copy = _Draft()
        copy.op, copy.inputs, copy.shape, copy.dtype = self.op, inputs, self.shape, self.dtype
        copy.name, copy.origin, copy.scope = self.name, self.origin, self.scope
        copy.serial = next(_serials)
        copy.source_serial = copy.serial if own_place else self.source_serial
        copy.__class__ = Node
        return copy  # type: ignore[return-value]

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "value":
            raise ValueAccessError(
                f"{self.describe()} (made at {self.origin}): {name} cannot be set to {shown(value)}: nodes are "
                f"immutable. {INSTEAD_OF_SETTING.get(name, 'Make a new node from it.')}"
            )
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> NoReturn:
        raise ValueAccessError(
            f"{self.describe()} (made at {self.origin}): {name} cannot be deleted: nodes are immutable."
        )

    # -- description -------------------------------------------------------------------------

    @property
    def is_leaf(self) -> bool:
        """True for nodes without inputs: data, parameters, constants."""
        return not self.inputs

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        size = 1
        for extent in self.shape:
            size *= extent
        return size

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def T(self) -> Node:
        """The node with its axes reversed."""
        return OPERATORS["transpose"](self)

    @property
    def value(self) -> Array:
        """Array of a Parameter, Constant or Random node (shared, not copied)."""
        holds = getattr(self.op, "value", None)
        if holds is None:
            raise ValueAccessError(
                f"{self.describe()} (made at {self.origin}) is symbolic and holds no value; compute it "
                "with gn.compile([node], inputs=[...])(*arrays)."
            )
        return holds

    @value.setter
    def value(self, array: Any) -> None:
        held, what = self.value, f"{self.describe()} (made at {self.origin})"
        if not held.flags.writeable:
            remedy = (
                "holds a read-only array; create it from a copy: gn.parameter(array.copy())"
                if self.op.is_parameter
                else f"is a {self.op.name}, whose value cannot be assigned. Use gn.parameter for values that training "
                "changes, gn.input for values that you pass to each call"
            )
            raise ValueAccessError(f"{what} {remedy}.")
        assign(held, array, what)

    def describe(self) -> str:
        """Returns the name, or the op's name, and the shape: `h0[2, 3]`."""
        return f"{self.name or self.op.name}{list(self.shape)}"

    def __repr__(self) -> str:
        label = f" {self.name!r}" if self.name else ""
        return f"<{self.op.name}{label} {list(self.shape)} {self.dtype} at {self.origin}>"

    # -- arithmetic --------------------------------------------------------------------------

    def __add__(self, other: Any) -> Node:
        return OPERATORS["add"](self, other)

    def __radd__(self, other: Any) -> Node:
        return OPERATORS["add"](other, self)

    def __sub__(self, other: Any) -> Node:
        return OPERATORS["subtract"](self, other)

    def __rsub__(self, other: Any) -> Node:
        return OPERATORS["subtract"](other, self)

    def __mul__(self, other: Any) -> Node:
        return OPERATORS["multiply"](self, other)

    def __rmul__(self, other: Any) -> Node:
        return OPERATORS["multiply"](other, self)

    def __truediv__(self, other: Any) -> Node:
        return OPERATORS["divide"](self, other)

    def __rtruediv__(self, other: Any) -> Node:
        return OPERATORS["divide"](other, self)

    def __mod__(self, other: Any) -> Node:
        return OPERATORS["mod"](self, other)

    def __rmod__(self, other: Any) -> Node:
        return OPERATORS["mod"](other, self)

    def __pow__(self, other: Any) -> Node:
        return OPERATORS["power"](self, other)

    def __rpow__(self, other: Any) -> Node:
        return OPERATORS["power"](other, self)

    def __matmul__(self, other: Any) -> Node:
        return OPERATORS["matmul"](self, other)

    def __rmatmul__(self, other: Any) -> Node:
        return OPERATORS["matmul"](other, self)

    def __neg__(self) -> Node:
        return OPERATORS["negative"](self)

    def __pos__(self) -> Node:
        return self

    def __abs__(self) -> Node:
        return OPERATORS["absolute"](self)

    def __lt__(self, other: Any) -> Node:
        return OPERATORS["less"](self, other)

    def __le__(self, other: Any) -> Node:
        return OPERATORS["less_equal"](self, other)

    def __gt__(self, other: Any) -> Node:
        return OPERATORS["greater"](self, other)

    def __ge__(self, other: Any) -> Node:
        return OPERATORS["greater_equal"](self, other)

    def __and__(self, other: Any) -> Node:
        return OPERATORS["both"](self, other)

    def __rand__(self, other: Any) -> Node:
        return OPERATORS["both"](other, self)

    def __or__(self, other: Any) -> Node:
        return OPERATORS["either"](self, other)

    def __ror__(self, other: Any) -> Node:
        return OPERATORS["either"](other, self)

    def __invert__(self) -> Node:
        return OPERATORS["invert"](self)

    def __getitem__(self, key: Any) -> Node:
        return OPERATORS["getitem"](self, key)

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise ValueAccessError(
            f"{self.describe()} (made at {self.origin}) cannot be changed in place: nodes are immutable. Build "
            "the new value with gn.where, gn.concatenate or gn.stack."
        )

    def __iter__(self) -> Iterator[Node]:
        return (self[i] for i in range(len(self)))

    def __len__(self) -> int:
        if not self.shape:
            raise ValueAccessError(f"{self.describe()} is a scalar: it has no length")
        return self.shape[0]

    def __eq__(self, other: object) -> bool:
        """True for the same node: dicts and sets of nodes rely on it. Numbers and arrays raise ValueAccessError."""
        if isinstance(other, Node):
            return self is other
        if isinstance(other, (Number, np.ndarray, np.bool_)):
            raise ValueAccessError(
                f"{self.describe()} (made at {self.origin}) is compared with {shown(other, 40)}: `==` is True only "
                "for the same node; write gn.equal(a, b), or ~gn.equal(a, b) for !=, to compare values."
            )
        return NotImplemented

    __hash__ = object.__hash__

    # -- errors for uses as an array or a number --------------------------------------------------

    if not TYPE_CHECKING:  # type checkers must still find misspelled attributes

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_") or name in _Draft.__slots__:
                raise AttributeError(f"Node has no attribute {name!r}", name=name, obj=self)
            instead = INSTEAD_OF_METHODS.get(name)
            raise AttributeError(
                f"the node {self.describe()} (made at {self.origin}) has no attribute {name!r}; "
                + (
                    f"write {instead}."
                    if instead
                    else "operations on nodes are functions, e.g. gn.tanh(node)."
                ),
                name=name,
                obj=self,
            )

    def _symbolic(self, wanted: str) -> NoReturn:
        raise ValueAccessError(
            f"{self.describe()} (made at {self.origin}) is a symbolic node, not {wanted}: its value is "
            "computed only when a compiled function runs. Use graphnet's functions on nodes (gn.tanh for math.tanh, "
            "gn.where(condition, a, b) for if; & | ~ for and, or, not; gn.maximum for max), or "
            "gn.compile([node], inputs=[...])(*arrays) to compute it."
        )

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise ValueAccessError(
            f"{self.describe()} (made at {self.origin}) cannot be pickled or copied, nor can an object that holds it. "
            "Build the graph in the process that uses it; to write to files, use Function.save or rnn.save."
        )

    def __contains__(self, item: Any) -> bool:
        self._symbolic("a container")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **settings: Any) -> Node:
        """Computes `array @ node` and other operators; raises ValueAccessError for functions such as np.tanh(node)."""
        if method == "__call__" and not settings:
            if ufunc in (np.equal, np.not_equal):
                self.__eq__(inputs[0] if inputs[1] is self else inputs[1])  # raises for arrays
            operator = OPERATORS.get(_OPERATOR_OF.get(ufunc.__name__, ufunc.__name__))
            if operator is not None:
                return operator(*inputs)
        self._symbolic("an array")

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        self._symbolic("an array")

    def __bool__(self) -> bool:
        self._symbolic("a truth value")

    def __float__(self) -> float:
        self._symbolic("a number")

    def __int__(self) -> int:
        self._symbolic("a number")

    def __index__(self) -> int:
        self._symbolic("an index")
