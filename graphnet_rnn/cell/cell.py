"""Cell: the equations of one time step, from which a recurrent network derives everything else.

    class Elman(Cell):
        \"\"\"h' = tanh(x W_xh + h W_hh + b_h)\"\"\"
        states = (State("h"),)

        def step(self, x, h):
            return gn.tanh(self.affine("h", x=x, h=h))

A cell declares its weights by using them: `self.affine("h", x=x, h=h)` is x @ W_xh + h @ W_hh + b_h, and makes the
three parameters when `step` first runs. A Network runs `step` to find all weights.

A cell with more settings is a dataclass, as those of graphnet_rnn/cells/, or defines __init__.

`step` returns the new states in the order of `states`. The layer above reads the first of them. If the class declares
an `output` that is not a state, `step` returns the output before the states, and the layer above reads it.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

import graphnet as gn
from graphnet.graph.display import ShowsItself
from graphnet.graph.dtypes import as_dtype
from graphnet.graph.node import Array, Node
from graphnet.graph.provenance import hide_module
from graphnet_rnn.cell import declaration, initializers, tracing
from graphnet_rnn.cell.declaration import State
from graphnet_rnn.cell.initializers import Initializer, checked_initial
from graphnet_rnn.cell.masks import Masks
from graphnet_rnn.cell.weights import Weights, WeightsWithin, chosen
from graphnet_rnn.errors import CellError, UsageError
from graphnet_rnn.files.json_values import to_json
from graphnet_rnn.optimizers.structure import ENDED
from graphnet_rnn.settings import (
    Count,
    NamedArguments,
    fraction,
    require_kinds,
    shown,
    whole_number,
    yes_or_no,
)

# Hidden from errors, so that they name the equation that called `affine`.
hide_module(__file__)


@dataclass(eq=False, repr=False)
class Cell(NamedArguments, ShowsItself):
    """The equations of one time step: `step(x, *states) -> new states`; the first state is the output.

    units: width of the states, 128 by default. initial: initializers by weight name, e.g. {"W_h*": orthogonal()}, which
    override the cell's own; in a pattern, * stands for any characters; the last that matches applies.

    >>> class Leaky(rnn.Cell):
    ...     states = (rnn.State("h"),)
    ...     def step(self, x, h):
    ...         return 0.9 * h + gn.tanh(self.affine("h", x=x, h=h))
    >>> net = rnn.Network([Leaky(4)], inputs=3, outputs=2)
    >>> {name: node.shape for name, node in net.layers[0].weights.items()}
    {'W_xh': (3, 4), 'W_hh': (4, 4), 'b_h': (4,)}
    >>> class Layered(rnn.Cell):
    ...     states = (rnn.State("h"),)
    ...     def step(self, x, h):
    ...         W = self.weight("W_hh", (h.shape[1], self.units))
    ...         a = self.product("x", "h", self.dropout("x", x, 0.2)) + self.recurrent("h", h) @ W
    ...         a = self.normalized("h", a) + self.diagonal("h", h=h)
    ...         return self.part("inner", rnn.Elman(self.units), reads=self.units).advance(a, [h])[0]
    >>> Layered(4).settings(), Layered(4).description(), Layered(4).resized(8)
    ({'units': 4}, {'cell': 'Layered', 'units': 4}, Layered(units=8))
    >>> cell = Layered(4).bind(inputs=3)
    >>> list(cell.weights)
    ['W_hh', 'W_xh', 'g_h', 's_h', 'w_hh', 'inner.W_xh', 'inner.W_hh', 'inner.b_h']
    >>> x, h = gn.input((5, 3), name="x"), gn.input((5, 4), name="h")
    >>> cell.step(x, h).shape, cell.width_of(cell.states[0]), cell.name_before(cell.states[0])
    ((5, 4), 4, 'h_t−1')
    >>> outputs, last = cell.sequence([x, x], [h])
    >>> len(outputs), cell.whole(outputs[0], outputs[1]) is outputs[1], cell.read_off([h]) is h
    (2, True, True)
    >>> training = cell.running(rnn.cell.masks.Masks(gn.RandomSource(0), training=True))  # with dropout
    >>> same = Layered(4).bind_to(cell.bound_weights, inputs=3)  # shares the weights
    >>> wider = Layered(4).reading(7)
    >>> wider.resolve()
    >>> wider.reads, Layered.least_weights(units=4)
    (7, 0)
    """

    units: Count = 128
    initial: Mapping[str, Initializer] | None = field(default=None, kw_only=True)

    #: Values passed from each time step to the next; empty for a feedforward layer.
    states: Sequence[State] = field(default=(), init=False)
    #: Output, if it is not the first state; `step` returns it before the states.
    output: State | None = field(default=None, init=False)
    #: Names of the settings that are widths, which `resized` changes.
    sizes: ClassVar[tuple[str, ...]] = ("units",)
    #: Default initializers by weight name, as in the cell's source; `initial` overrides them.
    initially: ClassVar[Mapping[str, Initializer]] = {}
    #: True if the cells inside have boxes of their own in closed pictures.
    _shows_parts: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_kinds(self)
        self.initial = checked_initial(type(self).__name__, self.initial, CellError)
        #: Width of x, once bound.
        self.reads = 0
        self._weights: Weights | WeightsWithin | None = None
        self._masks: Masks | None = None
        self._connect: Callable[[str, str, Node, Node], Node] | None = None
        #: True in a drawing without a network; name of a part whose nodes have a box of their own there.
        self._drawn_alone, self._box = False, ""
        #: During a step with recurrent dropout: states, with their names and their dropped values.
        self._carried: dict[Node, tuple[str, Node | None]] = {}

    # -- methods for equations ---------------------------------------------------------------

    def step(self, *args: Any, **kwargs: Any) -> Node | tuple[Node, ...]:
        """step(x, *states): returns the new states, from x (batch, inputs) and the old states (batch, units)."""
        raise declaration.no_step(self)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises CellError: a network runs its cells, and a cell runs its parts by `advance`."""
        raise declaration.called(self)

    def affine(
        self,
        to: str,
        *unnamed: Node,
        bias: float | Initializer | None = 0.0,
        units: int | None = None,
        **sources: Node,
    ) -> Node:
        """Σ_s s @ W_s·to + b_to over the named sources: affine("i", x=x, h=h) = x W_xi + h W_hi + b_i.

        to: name of the result. sources: nodes (batch, width) by name; unnamed ones are an error. bias: initial value of
        b_to, a number or an initializer, 0 by default; None for no bias. units: width of the result, `units` of the
        cell by default.
        """
        width = self.units if units is None else whole_number(f"affine({to!r}): units", units)
        declaration.require_nodes(self, "affine", to, sources, unnamed)
        terms = [self.product(name, to, source, width) for name, source in sources.items()]
        if bias is not None:
            declaration.require_bias(self, to, bias)
            initial = bias if callable(bias) else initializers.constant(bias)
            terms.append(self.weight(f"b_{to}", (width,), initial))
        return gn.add(*terms)

    def product(
        self, name: str, to: str, source: Node, units: int | None = None, initial: Initializer | None = None
    ) -> Node:
        """s @ W_s·to: one of the products of `affine`, for equations that treat it differently.

        name: of the source. to: name of the result. source: node s (batch, width). units: width of the result, `units`
        of the cell by default. initial: initializer of W_s·to.
        """
        declaration.require_name(self, "product", name)
        declaration.require_nodes(self, "product", to, {name: source})
        width = self.units if units is None else whole_number(f"product({name!r}, {to!r}): units", units)
        weight = self.weight(f"W_{name}{to}", (source.shape[-1], width), initial)
        source = self._dropped(source)
        return source @ weight if self._connect is None else self._connect(name, to, source, weight)

    def diagonal(self, to: str, *unnamed: Node, **sources: Node) -> Node:
        """Σ_s s ⊙ w_s·to over the named sources: a diagonal (peephole) connection.

        to: name of the result. sources: nodes (batch, width) by name; unnamed ones are an error.
        """
        declaration.require_nodes(self, "diagonal", to, sources, unnamed)
        small = initializers.uniform(0.1)
        return gn.add(
            *(s * self.weight(f"w_{name}{to}", (s.shape[-1],), small) for name, s in sources.items())
        )

    def normalized(self, to: str, a: Node, gain: float = 1.0, shift: float | None = 0.0) -> Node:
        """LN(a) = g_to ⊙ (a - μ) / √(σ² + 1e-5) + s_to, μ and σ over the units of a case.

        to: name of the result. a: node (batch, width). gain: initial value of g_to, 1 by default. shift: initial value
        of s_to, 0 by default; None for no s_to.
        Source: Ba, Kiros & Hinton 2016, eq. 4.
        """
        declaration.require_nodes(self, "normalized", to, {"a": a})
        with gn.scope(composite="layer norm"):
            centred = a - gn.mean(a, axis=1, keepdims=True)
            deviation = gn.sqrt(gn.mean(centred * centred, axis=1, keepdims=True) + 1e-5)
            result = self.weight(f"g_{to}", (a.shape[-1],), initializers.constant(gain)) * (
                centred / deviation
            )
            if shift is None:
                return result
            return result + self.weight(f"s_{to}", (a.shape[-1],), initializers.constant(shift))

    def dropout(self, name: str, a: Node, share: float) -> Node:
        """Returns a with dropout in training, else a.

        name: name of the mask. a: node. share: dropout rate in [0, 1); the other values are scaled by 1 / (1 - share).
        """
        declaration.require_nodes(self, "dropout", name, {"a": a})
        share = fraction(f"dropout({name!r}): the share that is zeroed", share)
        return a if self._masks is None else self._masks.drop(a, share, (self.bound_weights.owner, name))

    def recurrent(self, name: str, a: Node) -> Node:
        """Returns a with the network's recurrent dropout, for states in products other than those of `affine` and
        `product`.

        `affine` and `product` apply recurrent dropout by themselves. All products of a state share one mask at each
        time step. name: name of the state. a: the state.
        """
        declaration.require_nodes(self, "recurrent", name, {"a": a})
        if self._masks is None or not self._masks.recurrent:
            return a
        self._masks.reached = True
        return self._masks.drop(a, self._masks.recurrent, (self.bound_weights.owner, name, "recurrent"))

    def _dropped(self, source: Node) -> Node:
        """Returns a state with recurrent dropout; any other source unchanged."""
        found = self._carried.get(source)
        if found is None:
            return source
        name, dropped = found
        if dropped is None:
            dropped = self.recurrent(name, source)
            self._carried[source] = (name, dropped)
        return dropped

    def weight(
        self, name: str, shape: Sequence[int], initial: Initializer | None = None, trained: bool = True
    ) -> Node:
        """Returns the parameter of this name, for equations that `affine` does not cover.

        name: e.g. "W_hh". shape: sizes, e.g. (x.shape[1], self.units). initial: initializer; by default Glorot's for
        matrices and zeros for vectors. trained: False keeps the initial value: the weight is saved with the model but
        is not in `theta`.
        """
        declaration.require_name(self, "weight", name)
        trained = yes_or_no(f"weight({name!r}): trained", trained)
        initial = chosen(self.initially, name, initial)
        return self.bound_weights.get(name, shape, initial, trained)

    def part(
        self,
        name: str,
        cell: Cell,
        reads: int,
        connect: Callable[[str, str, Node, Node], Node] | None = None,
    ) -> Cell:
        """Returns `cell` as a part of this one: its W_xh is this cell's `name`.W_xh.

        name: prefix of the part's weights. cell: any cell. reads: width of the part's input.
        connect: function (name of the source, to, source, W) that replaces the products source @ W; None by default.
        """
        declaration.require_name(self, "part", name)
        if not isinstance(cell, Cell):
            raise declaration.no_cell(self, name, cell)
        new = not self.bound_weights.complete
        if new:
            declaration.check(cell)
        inner = cell.reading(whole_number(f"part({name!r}): reads, the width of its x,", reads))
        inner._weights = self.bound_weights.within(name, cell.initial or {})
        inner._masks = self._masks
        inner._box = name if self._drawn_alone else ""
        inner._connect = connect or (self._connected_within(name) if self._connect else None)
        if new:
            declaration.check_widths(inner)
        return inner

    def _connected_within(self, part: str) -> Callable[[str, str, Node, Node], Node]:
        """Applies the outer cell's `connect` to the products of a part, with the part's name before the source's."""
        outer = self._connect
        assert outer is not None
        return lambda name, to, source, weight: outer(f"{part}_{name}", to, source, weight)

    # -- derived from the equations ----------------------------------------------------------

    def bind(
        self,
        inputs: int,
        name: str = "layer0",
        seed: int = 0,
        dtype: Any = "float32",
        values: Mapping[str, Array] | None = None,
    ) -> Cell:
        """Returns a copy with its own weights, for inputs of this width; CellError if `step` is invalid.

        inputs: width of x. name: prefix of the weights' full names, "layer0" by default. seed: of the initial values, 0
        by default. dtype: "float32" (default) or "float64". values: weights by full name ("layer0.W_xh") instead of
        initial ones.
        """
        weights = Weights(name, seed, as_dtype(dtype), self.initial or {}, values)
        return self.bind_to(weights, inputs)

    def bind_to(self, weights: Weights, inputs: int) -> Cell:
        """Returns a copy that uses `weights`, for inputs of width `inputs`; missing weights are created."""
        declaration.check(self)
        if type(self).step is Cell.step:
            raise declaration.no_step(self)
        bound = self.reading(inputs)
        bound._weights, bound._connect = weights, None
        declaration.check_widths(bound)
        with gn.scope(layer=weights.owner, cell=title_of(self)):
            tracing.declare(bound, weights)
        weights.require_patterns(type(self).__name__, CellError)
        declaration.check_initially(self, weights.nodes)
        return bound

    def reading(self, inputs: int) -> Cell:
        """Returns a copy for inputs of this width, with all widths that depend on it."""
        reading = copy.copy(self)
        reading.reads = inputs
        reading.resolve()
        return reading

    def resolve(self) -> None:
        """Sets attributes that depend on `reads`, the width of x; called when `reads` is set."""

    def running(self, masks: Masks) -> Cell:
        """Returns a copy of a bound cell whose equations use these masks."""
        running = copy.copy(self)
        running._masks = masks
        return running

    def advance(
        self, x: Node, states: Sequence[Node], inside: Node | None = None
    ) -> tuple[Node, tuple[Node, ...]]:
        """Returns the output and the new states: runs `step` and checks its arguments and results.

        x: input, (batch, inputs). states: one node (batch, width) each. inside: (batch, 1), True for the cases that
        have this time step; the other cases keep their states, and an output that is not a state is 0.
        """
        if self._masks is not None and self._masks.recurrent:
            # A state of earlier inputs is not recurrent.
            own = zip(states, self.states, strict=False)
            self._carried = {node: (state.name, None) for node, state in own if state.width != "reads"}
        box = (
            {"cell": title_of(self), "part": None if self._box == "inner" else self._box} if self._box else {}
        )
        with gn.scope(**box):
            listed = tracing.run(self, x, states)
        if inside is not None:
            apart = len(listed) - len(states)
            listed = (
                *(kept_inside(inside, y, 0) for y in listed[:apart]),
                *(kept_inside(inside, new, old) for new, old in zip(listed[apart:], states, strict=True)),
            )
        return listed[0], listed if self.output is None and self.states else listed[1:]

    def read_off(self, states: Sequence[Node]) -> Node:
        """Returns the output for these states before any input: the first of them.

        A cell whose output is not a state overrides this method, if the output is a function of the states alone.
        Raises UsageError if it is not.
        """
        if self.output is not None:
            raise UsageError(
                f"{type(self).__name__}: the output {self.output.name} depends on the input, so it does not exist "
                "before the first input; predict_first=True needs layers whose output is a function of their states"
            )
        return states[0]

    @property
    def causal(self) -> bool:
        """True if the output at a time step depends on no later input."""
        return True

    def whole(self, first: Node, last: Node) -> Node:
        """Returns the output that depends on the whole sequence, `first` or `last`, the outputs at its ends: `last`."""
        return last

    def sequence(
        self,
        xs: Sequence[Node],
        states: Sequence[Node],
        backward: bool = False,
        inside: Sequence[Node] | None = None,
    ) -> tuple[list[Node], tuple[Node, ...]]:
        """Returns the outputs at all time steps, and the last states.

        xs: inputs, one node (batch, inputs) for each time step. states: before the first step. backward: True reads
        from the last input to the first; a case then begins at its own last step. inside: for each step the cases that
        have it, see `advance`.
        """
        times = range(len(xs))
        outputs = []
        for t in reversed(times) if backward else times:
            with gn.scope(time=t + 1):
                output, states = self.advance(xs[t], states, None if inside is None else inside[t])
            outputs.append(output)
        return outputs[::-1] if backward else outputs, tuple(states)

    @property
    def bound_weights(self) -> Weights | WeightsWithin:
        """Weights of a bound cell; CellError if the cell is not bound."""
        if self._weights is None:
            raise declaration.unbound(self)
        return self._weights

    @property
    def weights(self) -> Mapping[str, Node]:
        """Parameters of a bound cell by name, in the order in which the equations use them."""
        return {} if self._weights is None else self._weights.nodes

    @property
    def widths(self) -> tuple[int, ...]:
        """Width of each state."""
        return tuple(self.width_of(state) for state in self.states)

    @property
    def output_width(self) -> int:
        """Width of the output."""
        return self.width_of(self.returns[0])

    @property
    def returns(self) -> tuple[State, ...]:
        """States that `step` returns, in order, after the output if that is not a state."""
        return (*(() if self.output is None else (self.output,)), *self.states)

    def width_of(self, state: State) -> int:
        """Returns the width of a state or output as a number."""
        return state.width if isinstance(state.width, int) else int(getattr(self, state.width))

    # -- description --------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """Returns the arguments that recreate this cell, without initializers, since model files hold the weights.

        Reads the attributes named like the arguments of `__init__`; CellError if one is missing.
        """
        names = [
            name
            for name, parameter in inspect.signature(type(self)).parameters.items()
            if name != "initial" and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]
        missing = [name for name in names if not hasattr(self, name)]
        if missing:
            raise CellError(
                f"{type(self).__name__} does not store its argument {missing[0]!r}, so a model file could not recreate "
                f"the cell; write self.{missing[0]} = {missing[0]} in __init__ (at "
                f"{declaration.init_line(self)}), or override settings."
            )
        return {name: getattr(self, name) for name in names}

    def description(self) -> dict[str, Any]:
        """Returns the class and settings as JSON, with cells among the settings.

        Raises CellError for a setting that a file cannot restore.
        """
        description = {"cell": type(self).__name__}
        for name, value in self.settings().items():
            try:
                description[name] = to_json(value)
            except TypeError as problem:
                raise CellError(
                    f"{type(self).__name__}: the setting {name} = {shown(value)} cannot be stored in a model file: "
                    f"{problem}. A setting must be a number, a str, None, a cell, or a tuple, list or dict of these; "
                    "use a name for anything else, e.g. 'tanh'."
                ) from None
        return description

    @classmethod
    def least_weights(cls, **settings: Any) -> int:
        """Returns a lower bound of the number of weights of a cell with these `settings`.

        For cells that allocate memory on creation: `load` refuses a file with fewer weights before it creates the cell.
        """
        return 0

    def resized(self, units: int) -> Cell:
        """Returns the cell with all its widths set to `units`, and cells among its settings likewise."""
        settings = self.settings()
        for name, value in settings.items():
            if isinstance(value, Cell):
                settings[name] = value.resized(units)
            elif name in self.sizes and value is not None:
                settings[name] = (units,) * len(value) if isinstance(value, tuple) else units
        return type(self)(**settings)

    def __graph__(self) -> gn.Graph:
        """One step as a graph for drawing: x_t and the states before and after."""
        declaration.check(self)
        bound = self if self._weights is not None else self.bind(inputs=self.drawn_inputs)
        dtype = bound.bound_weights.dtype
        x = gn.input((1, bound.reads), dtype, name="x_t")
        before = [
            gn.input((1, n), dtype, name=self.name_before(s))
            for s, n in zip(bound.states, bound.widths, strict=True)
        ]
        bound = copy.copy(bound)
        bound._drawn_alone = True
        output, after = bound.advance(x, before)
        named = list(zip(bound.states, after, strict=True))
        if bound.output is not None:
            named.insert(0, (bound.output, output))
        return gn.Graph([gn.label(node, f"{state.name}_t") for state, node in named], [x, *before])

    def name_before(self, state: State) -> str:
        """Returns the name of a state before the step, for drawings."""
        return f"{state.name}_t−1"

    @property
    def drawn_inputs(self) -> int:
        """Width of x in a drawing of a cell without a network."""
        return self.output_width

    def __repr__(self) -> str:
        listed = ", ".join(f"{k}={v!r}" for k, v in self.settings().items())
        return f"{type(self).__name__}({listed})"


def title_of(cell: Cell) -> str:
    """Name in pictures and profiles: the class, with those of the cells inside, as in `Residual(LSTM)`."""
    attributes = {} if cell._shows_parts else vars(cell)
    inside = [title_of(a) for name, a in attributes.items() if isinstance(a, Cell) and name[0] != "_"]
    return type(cell).__name__ + (f"({', '.join(inside)})" if inside else "")


def classes_of(settings: Iterable[Any]) -> Iterator[type[Cell]]:
    """Yields the classes of all cells among these settings and their settings, recursively."""
    for value in settings:
        if isinstance(value, Cell):
            yield type(value)
            yield from classes_of(value.settings().values())
        elif isinstance(value, (tuple, list)):
            yield from classes_of(value)
        elif isinstance(value, dict):
            yield from classes_of(value.values())


# Storing only the masked state, and computing the derivative of tanh from it, takes 7.1 MB instead of 8.7 MB.
# But if an initial state is infinite, derivatives at padded steps are then NaN.
def kept_inside(inside: Node, new: Node, outside: Node | float) -> Node:
    """Returns `new` for the cases that have this step, `outside` for the others."""
    if new is outside:
        return new
    with gn.scope(composite=ENDED):
        return gn.where(inside, new, outside)


def at_each_step(make: Callable[..., Node], *sequences: Sequence[Node]) -> list[Node]:
    """Returns make(x_t, y_t, ...) for each t, labeled with its time step."""
    made = []
    for t, given in enumerate(zip(*sequences, strict=True)):
        with gn.scope(time=t + 1):
            made.append(make(*given))
    return made
