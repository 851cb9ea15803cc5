"""Cell: the equations of one time step. Everything else about a recurrent network is derived from it.

    class Elman(Cell):
        \"\"\"h' = tanh(x W_xh + h W_hh + b_h)\"\"\"
        states = (State("h"),)

        def step(self, x, h):
            return gn.tanh(self.affine("h", x=x, h=h))

A cell declares its weights by using them: `self.affine("h", x=x, h=h)` is x @ W_xh + h @ W_hh + b_h, and
makes the three parameters when it is first met. A Network runs `step` to find them all.

A cell with more settings is a dataclass of them, as those of graphnet_rnn/cells/, or has an __init__ of its own.

`step` returns the new states in the order of `states`; what the layer above reads is the first of them, or, where the
class names an `output` that is no state, one more value before them.
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
from graphnet_rnn.settings import Count, fraction, require_kinds, whole_number, yes_or_no

__all__ = ["Cell", "State", "at_each_step", "classes_of", "kept_inside"]

# Lines of this file are machinery: an error should name the equation that called `affine`.
hide_module(__file__)


@dataclass(eq=False, repr=False)
class Cell(ShowsItself):
    """The equations of one time step: `step(x, *states) -> new states`; the first state is the output.

    units: width of the states. initial: initializers by weight name, e.g. {"W_h*": orthogonal()}, which
    override the cell's own; patterns as in file names, the last that fits wins.
    """

    units: Count = 128
    initial: Mapping[str, Initializer] | None = field(default=None, kw_only=True)

    #: What is handed from each time step to the next; none: a feedforward layer.
    states: Sequence[State] = field(default=(), init=False)
    #: What the layer above reads, if it is not the first state: `step` returns it before the states.
    output: State | None = field(default=None, init=False)
    #: The settings that are widths: `resized` changes them.
    sizes: ClassVar[tuple[str, ...]] = ("units",)
    #: How the source of the cell initializes weights, by name; `initial` overrides it.
    initially: ClassVar[Mapping[str, Initializer]] = {}

    def __post_init__(self) -> None:
        require_kinds(self)
        self.initial = checked_initial(type(self).__name__, self.initial, CellError)
        #: Width of x, once bound.
        self.reads = 0
        self._weights: Weights | WeightsWithin | None = None
        self._masks: Masks | None = None
        self._connect: Callable[[str, str, Node, Node], Node] | None = None
        #: While a step runs with recurrent dropout: its states, by name, and what they become in products.
        self._carried: dict[Node, tuple[str, Node | None]] = {}

    # -- what a cell's equations are written with ---------------------------------------------

    def step(self, *args: Any, **kwargs: Any) -> Node | tuple[Node, ...]:
        """step(x, *states): the new states, from the input (batch, inputs) and the old states (batch, units)."""
        raise declaration.no_step(self)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Cells are not called: a network runs them, and a cell runs its parts by `advance`."""
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

        bias: the initial value of b_to, or None for no bias. units: the width of the result.
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
        """s @ W_s·to: one of the products of `affine`, for equations that treat it differently."""
        declaration.require_name(self, "product", name)
        declaration.require_nodes(self, "product", to, {name: source})
        width = self.units if units is None else whole_number(f"product({name!r}, {to!r}): units", units)
        weight = self.weight(f"W_{name}{to}", (source.shape[-1], width), initial)
        source = self._dropped(source)
        return source @ weight if self._connect is None else self._connect(name, to, source, weight)

    def diagonal(self, to: str, *unnamed: Node, **sources: Node) -> Node:
        """Σ_s s ⊙ w_s·to over the named sources: a diagonal (peephole) connection."""
        declaration.require_nodes(self, "diagonal", to, sources, unnamed)
        small = initializers.uniform(0.1)
        return gn.add(
            *(s * self.weight(f"w_{name}{to}", (s.shape[-1],), small) for name, s in sources.items())
        )

    def normalized(self, to: str, a: Node, gain: float = 1.0, shift: float | None = 0.0) -> Node:
        """LN(a) = g_to ⊙ (a - μ) / √(σ² + 1e-5) + s_to, μ and σ over the units of a case.

        gain, shift: where g_to and s_to start; None for no s_to.
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
        """a with `share` of its values zeroed and the others enlarged, while a network trains; else a."""
        declaration.require_nodes(self, "dropout", name, {"a": a})
        share = fraction(f"dropout({name!r}): the share that is zeroed", share)
        return a if self._masks is None else self._masks.drop(a, share, (self.bound_weights.owner, name))

    def recurrent(self, name: str, a: Node) -> Node:
        """a with the network's recurrent dropout: for states that enter products which are not those of `affine`.

        `affine` and `product` see to it themselves: a state has one mask at each time step for all its products.
        """
        declaration.require_nodes(self, "recurrent", name, {"a": a})
        if self._masks is None or not self._masks.recurrent:
            return a
        self._masks.reached = True
        return self._masks.drop(a, self._masks.recurrent, (self.bound_weights.owner, name, "recurrent"))

    def _dropped(self, source: Node) -> Node:
        """What enters a product: a state, with recurrent dropout, or what it is."""
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
        """The parameter of this name, for equations that `affine` does not cover.

        initial: Glorot's for matrices and zeros for vectors by default. trained: False for one that keeps its
        initial value (it is stored with the model, but no part of `theta`).
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
        """`cell` as a part of this one, for inputs of this width: its W_xh is this cell's `name`.W_xh.

        connect(source's name, to, source, W): what its products are instead of source @ W.
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
        inner._connect = connect or (self._connected_within(name) if self._connect else None)
        if new:
            declaration.check_widths(inner)
        return inner

    def _connected_within(self, part: str) -> Callable[[str, str, Node, Node], Node]:
        """What a cell around this one makes of its products, for those of a part; sources bear the part's name."""
        outer = self._connect
        assert outer is not None
        return lambda name, to, source, weight: outer(f"{part}_{name}", to, source, weight)

    # -- what is derived from the equations ---------------------------------------------------

    def bind(
        self,
        inputs: int,
        name: str = "layer0",
        seed: int = 0,
        dtype: Any = "float32",
        values: Mapping[str, Array] | None = None,
    ) -> Cell:
        """A copy with weights of its own, for inputs of this width; CellError if `step` is not sound.

        values: of the weights, by their full names ("layer0.W_xh"), instead of what initializers draw.
        """
        weights = Weights(name, seed, as_dtype(dtype), self.initial or {}, values)
        return self.bind_to(weights, inputs)

    def bind_to(self, weights: Weights, inputs: int) -> Cell:
        """A copy with these weights; those that are not there yet are made."""
        declaration.check(self)
        if type(self).step is Cell.step:
            raise declaration.no_step(self)
        bound = self.reading(inputs)
        bound._weights, bound._connect = weights, None
        declaration.check_widths(bound)
        with gn.scope(layer=weights.owner, cell=type(self).__name__):
            tracing.declare(bound, weights)
        weights.require_patterns(type(self).__name__, CellError)
        declaration.check_initially(self, weights.nodes)
        return bound

    def reading(self, inputs: int) -> Cell:
        """A copy for inputs of this width, with all widths that follow from it."""
        reading = copy.copy(self)
        reading.reads = inputs
        reading.resolve()
        return reading

    def resolve(self) -> None:
        """Called when `reads` is known: cells made of cells set here what depends on it."""

    def running(self, masks: Masks) -> Cell:
        """A bound cell whose equations use these masks."""
        running = copy.copy(self)
        running._masks = masks
        return running

    def advance(
        self, x: Node, states: Sequence[Node], inside: Node | None = None
    ) -> tuple[Node, tuple[Node, ...]]:
        """The output and the new states: `step`, with what it reads and returns checked against the declaration.

        inside: (batch, 1), which cases have this step; of others the states stand still, and an output that is no state
        is 0.
        """
        if self._masks is not None and self._masks.recurrent:
            # Inputs of earlier steps are no recurrence.
            own = zip(states, self.states, strict=False)
            self._carried = {node: (state.name, None) for node, state in own if state.width != "reads"}
        listed = tracing.run(self, x, states)
        if inside is not None:
            apart = len(listed) - len(states)
            listed = (
                *(kept_inside(inside, y, 0) for y in listed[:apart]),
                *(kept_inside(inside, new, old) for new, old in zip(listed[apart:], states, strict=True)),
            )
        return listed[0], listed if self.output is None and self.states else listed[1:]

    def read_off(self, states: Sequence[Node]) -> Node:
        """The output where these are the states, before anything is read: the first of them.

        A cell whose output is none of its states overrides it, if the output is a function of these alone; UsageError
        if it is not.
        """
        if self.output is not None:
            raise UsageError(
                f"{type(self).__name__}: its output {self.output.name} depends on what it reads, so there is none "
                "before the first input; predict_first=True needs layers whose output is a function of their states"
            )
        return states[0]

    @property
    def causal(self) -> bool:
        """Whether the output at a time step depends on no later input."""
        return True

    def whole(self, first: Node, last: Node) -> Node:
        """The output that has read all of a sequence, of those at its first and at its last step: the last."""
        return last

    def sequence(
        self,
        xs: Sequence[Node],
        states: Sequence[Node],
        backward: bool = False,
        inside: Sequence[Node] | None = None,
    ) -> tuple[list[Node], tuple[Node, ...]]:
        """The outputs for a whole sequence, and the last states; backward: from the last input to the first.

        inside: for each step which cases have it, see `advance`. Backward, a case begins at its own last step.
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
        """The weights of a bound cell; CellError if it is not bound."""
        if self._weights is None:
            raise declaration.unbound(self)
        return self._weights

    @property
    def weights(self) -> Mapping[str, Node]:
        """The parameters of a bound cell, by name, in the order in which the equations use them."""
        return {} if self._weights is None else self._weights.nodes

    @property
    def widths(self) -> tuple[int, ...]:
        """The width of each state."""
        return tuple(self.width_of(state) for state in self.states)

    @property
    def output_width(self) -> int:
        """The width of what the layer above reads."""
        return self.width_of(self.returns[0])

    @property
    def returns(self) -> tuple[State, ...]:
        """What `step` returns, in order."""
        return (*(() if self.output is None else (self.output,)), *self.states)

    def width_of(self, state: State) -> int:
        """The width of a state or output, as a number."""
        return state.width if isinstance(state.width, int) else int(getattr(self, state.width))

    # -- description --------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """The arguments that make this cell again (without initializers: a stored model has its weights).

        Read off the attributes that bear the names of `__init__`'s arguments; CellError if one is missing.
        """
        names = [
            name
            for name, parameter in inspect.signature(type(self)).parameters.items()
            if name != "initial" and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]
        missing = [name for name in names if not hasattr(self, name)]
        if missing:
            raise CellError(
                f"{type(self).__name__} does not keep its argument {missing[0]!r}, so a stored model could not make "
                f"the cell again; write self.{missing[0]} = {missing[0]} in __init__ (at "
                f"{declaration.init_line(self)}), or override settings."
            )
        return {name: getattr(self, name) for name in names}

    def description(self) -> dict[str, Any]:
        """The cell's class and settings as JSON holds them: cells among the settings are described as well.

        Raises CellError for a setting that would not come back from a file as it is.
        """
        description = {"cell": type(self).__name__}
        for name, value in self.settings().items():
            try:
                description[name] = to_json(value)
            except TypeError as problem:
                raise CellError(
                    f"{type(self).__name__}: the setting {name} is {value!r:.60}, and {problem} as it was, so no model "
                    "file can. A setting is a number, a str, None, a cell, or a tuple, list or dict of these; let a "
                    "name stand for anything else, e.g. 'tanh'."
                ) from None
        return description

    @classmethod
    def least_weights(cls, **settings: Any) -> int:
        """How many numbers the weights of a cell of these settings hold at least.

        For cells that take memory as soon as they are made: a file with fewer weights is refused before.
        """
        return 0

    def resized(self, units: int) -> Cell:
        """The cell made again with all its widths changed to `units`; cells among its settings are resized."""
        settings = self.settings()
        for name, value in settings.items():
            if isinstance(value, Cell):
                settings[name] = value.resized(units)
            elif name in self.sizes and value is not None:
                settings[name] = (units,) * len(value) if isinstance(value, tuple) else units
        return type(self)(**settings)

    def __graph__(self) -> gn.Graph:
        """One step as a graph, for pictures: x_t and the states before and after it."""
        declaration.check(self)
        bound = self if self._weights is not None else self.bind(inputs=self.drawn_inputs)
        dtype = bound.bound_weights.dtype
        x = gn.input((1, bound.reads), dtype, name="x_t")
        before = [
            gn.input((1, n), dtype, name=self.name_before(s))
            for s, n in zip(bound.states, bound.widths, strict=True)
        ]
        output, after = bound.advance(x, before)
        named = list(zip(bound.states, after, strict=True))
        if bound.output is not None:
            named.insert(0, (bound.output, output))
        return gn.Graph([gn.label(node, f"{state.name}_t") for state, node in named], [x, *before])

    def name_before(self, state: State) -> str:
        """What a picture calls the state that a step starts from."""
        return f"{state.name}_t−1"

    @property
    def drawn_inputs(self) -> int:
        """The width of x in a picture of a cell that is in no network."""
        return self.output_width

    def __repr__(self) -> str:
        listed = ", ".join(f"{k}={v!r}" for k, v in self.settings().items())
        return f"{type(self).__name__}({listed})"


def classes_of(settings: Iterable[Any]) -> Iterator[type[Cell]]:
    """The classes of all cells among these, and among the settings of these, however deep."""
    for value in settings:
        if isinstance(value, Cell):
            yield type(value)
            yield from classes_of(value.settings().values())
        elif isinstance(value, (tuple, list)):
            yield from classes_of(value)
        elif isinstance(value, dict):
            yield from classes_of(value.values())


def kept_inside(inside: Node, new: Node, outside: Node | float) -> Node:
    """`new` for the cases that have this step."""
    if new is outside:
        return new
    with gn.scope(composite=ENDED):
        return gn.where(inside, new, outside)


def at_each_step(make: Callable[..., Node], *sequences: Sequence[Node]) -> list[Node]:
    """make(x_t, y_t, ...) for each t, labelled with its time step."""
    made = []
    for t, given in enumerate(zip(*sequences, strict=True)):
        with gn.scope(time=t + 1):
            made.append(make(*given))
    return made
