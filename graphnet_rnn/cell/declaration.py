"""What a cell declares besides its equations, and what can be told before any of them is run.

Each mistake is told with its line and the remedy.
"""

from __future__ import annotations

import difflib
import dis
import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from graphnet.graph.node import Node
from graphnet.graph.provenance import Origin, here, hide_module
from graphnet_rnn.cell.initializers import Initializer, checked_initial, wrong_initial
from graphnet_rnn.cell.weights import unfit
from graphnet_rnn.errors import CellError

if TYPE_CHECKING:
    from graphnet_rnn.cell.cell import Cell

__all__ = [
    "State", "arguments", "called", "check", "check_initially", "check_widths", "init_line", "no_cell", "no_step",
    "require_bias", "require_name", "require_nodes", "return_lines", "step_line", "unbound",
]  # fmt: skip

# Lines of this file are machinery: an error should name the equation that called them.
hide_module(__file__)


@dataclass(frozen=True, init=False)
class State:
    """A value that a cell hands on: its name and its width, a number or the name of an attribute.

    The attribute "reads" is the width of x. initial: of the parameter that a network with learned initial
    states keeps for it; zeros by default. Raises CellError for what can be none of these.
    """

    name: str
    width: str | int
    initial: Initializer | None

    # Written out, since the line of the user's State(...) cannot be told from inside of a generated one.
    def __init__(self, name: str, width: str | int = "units", initial: Initializer | None = None) -> None:
        if not isinstance(name, str) or not name.isidentifier() or name in ("x", "self"):
            raise CellError(
                f"State({name!r}) at {here()}: a state's name is a word other than x and self, e.g. State('h')."
            )
        width = int(width) if isinstance(width, np.integer) else width
        whole = isinstance(width, int) and not isinstance(width, bool) and width >= 1
        if not whole and not (isinstance(width, str) and width.isidentifier()):
            raise CellError(
                f"State({name!r}) at {here()}: the width is {width!r}; it is a whole number >= 1 or the name of an "
                "attribute, e.g. State('h', 'units')."
            )
        for field, value in (("name", name), ("width", width), ("initial", initial)):
            object.__setattr__(self, field, value)


def arguments(cell: Cell) -> str:
    """What `step` takes, in words."""
    return ", ".join(["x", *(state.name for state in cell.states)])


# -- where things are written ---------------------------------------------------------------------


def _step_code(cell: Cell) -> CodeType | None:
    return getattr(inspect.unwrap(type(cell).step), "__code__", None)


def step_line(cell: Cell) -> Origin:
    code = _step_code(cell)
    return _class_line(cell) if code is None else Origin(code.co_filename, code.co_firstlineno)


def return_lines(cell: Cell) -> str:
    """Where `step` returns, in words."""
    code = _step_code(cell)
    if code is None:
        return str(step_line(cell))
    lines = {
        found.positions.lineno
        for found in dis.get_instructions(code)
        if found.opname in ("RETURN_VALUE", "RETURN_CONST") and found.positions
    }
    return " or ".join(str(Origin(code.co_filename, line)) for line in sorted(filter(None, lines)))


def _class_line(cell: Cell) -> Origin:
    return _line_of(cell, r"class\b") or Origin(type(cell).__module__, 1)


def init_line(cell: Cell) -> Origin:
    """Where `__init__` is written, else the class."""
    return _line_of(cell, r"def __init__\b") or _class_line(cell)


def _declared_at(cell: Cell, name: str) -> Origin:
    """Where the class sets `name`, else where it writes its step."""
    return _line_of(cell, rf"(self\.)?{name}\b[^=]*=(?!=)") or step_line(cell)


def _line_of(cell: Cell, pattern: str) -> Origin | None:
    """The first line of the class, or of a class that it derives from, that begins so."""
    for kind in type(cell).__mro__:
        try:
            lines, first = inspect.getsourcelines(kind)
            file = inspect.getsourcefile(kind)
        except (OSError, TypeError):  # there is no file, as at a prompt
            continue
        for line, text in enumerate(lines, start=max(first, 1)):
            if file and kind.__module__ != "graphnet_rnn.cell.cell" and re.match(rf"\s*{pattern}", text):
                return Origin(file, line)
    return None


# -- what is declared ----------------------------------------------------------------------------


def unbound(cell: Cell) -> CellError:
    """The error for a cell that has no weights yet."""
    return CellError(
        f"{type(cell).__name__} is used outside of a network, so it has no weights (at {here()}). "
        "Put it into rnn.Network([...]); inside of another cell, into self.part(name, cell, reads); or call "
        "cell.bind(inputs=...) and step that."
    )


def called(cell: Cell) -> CellError:
    """The error for a cell that is used as a function."""
    return CellError(
        f"{type(cell).__name__} is called as a function at {here()}. A network runs its cells: rnn.Network([...]); a "
        "cell runs its parts: output, states = self.part(name, cell, x.shape[1]).advance(x, states)."
    )


def no_step(cell: Cell) -> CellError:
    """The error for a cell without equations."""
    methods = [name for name, value in vars(type(cell)).items() if inspect.isfunction(value)]
    close = difflib.get_close_matches("step", methods, 1)
    return CellError(
        f"{type(cell).__name__} needs a method step(self, {arguments(cell)}) (class at {_class_line(cell)})"
        + (f"; its {close[0]} may be meant." if close else ".")
    )


def check(cell: Cell) -> None:
    """States, output, settings and the arguments of `step`; CellError where they do not hold together."""
    _check_attributes(cell)
    _check_states(cell)
    _check_step(cell)


def _check_attributes(cell: Cell) -> None:
    owner = type(cell).__name__
    if not hasattr(cell, "_masks"):
        raise CellError(
            f"{owner}.__init__ must call super().__init__(units, initial=initial) (at {init_line(cell)})."
        )
    for name in (*vars(type(cell)), *vars(cell)):
        value = inspect.getattr_static(cell, name)
        plain = not callable(value) and not hasattr(value, "__get__")
        methods = any(inspect.isfunction(vars(kind).get(name)) for kind in type(cell).__mro__)
        if plain and (methods or name == "weights"):
            raise CellError(
                f"{owner} sets {name} = {value!r:.40} at {_declared_at(cell, name)}, but every cell has a method of "
                "this name; give the setting another one."
            )
    checked_initial(owner, cell.initial, CellError)
    if wrong := wrong_initial(cell.initially):
        raise CellError(f"{owner} at {_declared_at(cell, 'initially')}: initially {wrong}.")
    if "cell" in inspect.signature(type(cell)).parameters:
        raise CellError(
            f"{owner} has a setting called cell (at {init_line(cell)}), which is what model files call the class; give "
            "the setting another name, e.g. inner."
        )
    if cell._weights is None and cell.reads != 0:
        raise CellError(
            f"{owner} sets reads = {cell.reads!r} at {_declared_at(cell, 'reads')}, but reads is the width of x, which "
            "a network tells; give the setting another name."
        )


def _check_states(cell: Cell) -> None:
    owner = type(cell).__name__
    states: Any = cell.states
    if not isinstance(states, (tuple, list)) or not all(isinstance(state, State) for state in states):
        raise CellError(
            f"{owner} at {_declared_at(cell, 'states')}: states is {states!r}, not a tuple of State; write "
            "states = (State('h'),), with the comma."
        )
    if cell.output is not None and not isinstance(cell.output, State):
        raise CellError(
            f"{owner} at {_declared_at(cell, 'output')}: output is {cell.output!r}; write output = State('y')."
        )
    if not states and cell.output is None:
        raise CellError(
            f"{owner} at {_declared_at(cell, 'states')} declares no states; write e.g. states = (State('h'),) in the "
            "class (or output = State('y') for a layer without memory)."
        )
    names = [state.name for state in cell.returns]
    for state in cell.returns:
        if names.count(state.name) > 1:
            raise CellError(
                f"{owner} at {_declared_at(cell, 'states')} declares {state.name} twice; give each state (and the "
                "output) its own name."
            )
        if isinstance(state.width, str) and not hasattr(cell, state.width):
            raise CellError(
                f"{owner} at {_declared_at(cell, 'states')}: the state {state.name} has the width {state.width!r}, but "
                f"the cell has no such attribute; write self.{state.width} = ... in __init__."
            )


def _check_step(cell: Cell) -> None:
    owner, line, wanted = type(cell).__name__, step_line(cell), f"step(self, {arguments(cell)})"
    signature = inspect.signature(cell.step)
    try:
        signature.bind("x", *cell.states)
    except TypeError as error:
        raise CellError(
            f"{owner}.step at {line} does not fit the declared states ({error}); write {wanted}."
        ) from None
    taken, names = list(signature.parameters)[1:], [state.name for state in cell.states]
    if taken != names and sorted(taken) == sorted(names):
        raise CellError(
            f"{owner}.step at {line} takes the states in the order {', '.join(taken)}, but they are declared as "
            f"{', '.join(names)}; write {wanted}."
        )


def check_widths(cell: Cell) -> None:
    """The widths of the states of a bound cell are whole numbers."""
    for state in cell.returns:
        width = state.width if isinstance(state.width, int) else getattr(cell, state.width)
        if isinstance(width, bool) or not isinstance(width, int) or width < 1:
            raise CellError(
                f"{type(cell).__name__} at {_declared_at(cell, str(state.width))}: the width of {state.name} is "
                f"{width!r}; it must be a whole number >= 1 (width={state.width!r} in its State)."
            )


# -- what the equations hand to the methods of a cell ----------------------------------------------


def require_name(cell: Cell, method: str, name: Any) -> None:
    if not isinstance(name, str):
        given = name.describe() if isinstance(name, Node) else repr(name)
        raise CellError(
            f"{type(cell).__name__}: {method}(...) at {here()} begins with {given:.60}; its first argument is the name "
            f"of what it computes, a str: {method}('h', ...)."
        )


def require_nodes(
    cell: Cell, method: str, to: str, sources: Mapping[str, Any], unnamed: tuple[Any, ...] = ()
) -> None:
    """The sources of `affine`, `diagonal` and `product` are nodes, and there are some."""
    owner = type(cell).__name__
    require_name(cell, method, to)
    if unnamed or not sources:
        what = "has sources without names" if unnamed else "has no sources"
        raise CellError(
            f"{owner}: {method}({to!r}) at {here()} {what}; name them, e.g. {method}({to!r}, x=x, h=h)"
        )
    for name, source in sources.items():
        if not isinstance(source, Node):
            raise CellError(
                f"{owner}: {method}({to!r}, {name}=...) at {here()} is a {type(source).__name__}, not a node. "
                f"Sources are x and the states, or what is computed from them{_misspelt(name)}."
            )
        if source.ndim != 2:
            raise CellError(
                f"{owner}: {method}({to!r}, {name}=...) at {here()} has shape {list(source.shape)}; a source is "
                "(batch, width)."
            )


def _misspelt(name: str) -> str:
    """A keyword that is none of ours is taken for a source."""
    close = difflib.get_close_matches(name, ("bias", "units"), 1, 0.7)
    return f"; if it is no source, {close[0]}= may be meant" if close else ""


def no_cell(cell: Cell, name: str, part: Any) -> CellError:
    """The error for a part that is no cell."""
    given = f"the class {part.__name__}" if isinstance(part, type) else f"a {type(part).__name__}"
    return CellError(
        f"{type(cell).__name__}: part({name!r}, ...) at {here()} is {given}, not a cell; write e.g. "
        f"self.part({name!r}, rnn.GRU(64), x.shape[1])."
    )


def require_bias(cell: Cell, to: str, bias: Any) -> None:
    """A number or an initializer, not a yes or no."""
    if isinstance(bias, bool) or not (callable(bias) or isinstance(bias, Real)):
        raise CellError(
            f"{type(cell).__name__}: affine({to!r}, bias={bias!r:.40}) at {here()}: bias is the value that b_{to} "
            "starts at, a number or an initializer; bias=None is no bias."
        )


def check_initially(cell: Cell, names: Iterable[str]) -> None:
    """CellError where a pattern of the cell's own initializers fits none of its weights."""
    if wrong := unfit(cell.initially, names):
        raise CellError(f"{type(cell).__name__} at {_declared_at(cell, 'initially')}: initially {wrong}.")
