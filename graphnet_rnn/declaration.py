"""What a cell declares besides its equations, and what it must hold to.

Each mistake is told with the line of the equation and the remedy.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphnet.errors import GraphnetError
from graphnet.node import Node
from graphnet.provenance import Origin, here, hide_module
from graphnet_rnn.errors import CellError
from graphnet_rnn.initializers import Initializer

if TYPE_CHECKING:
    from graphnet_rnn.cell import Cell

__all__ = ["State", "arguments", "check", "check_widths", "checked", "require_nodes", "trace", "unbound"]

# Lines of this file are machinery: an error should name the equation that called them.
hide_module(__file__)


@dataclass(frozen=True)
class State:
    """A value that a cell hands on: its name and its width, a number or the name of an attribute.

    The attribute "reads" is the width of x. initial: of the parameter that a network with learned initial
    states keeps for it; zeros by default.
    """

    name: str
    width: str | int = "units"
    initial: Initializer | None = None


def arguments(cell: Cell) -> str:
    """What `step` takes, in words."""
    return ", ".join(["x", *(state.name for state in cell.states)])


def unbound(cell: Cell) -> CellError:
    """The error for a cell that has no weights yet."""
    return CellError(
        f"{type(cell).__name__} is used outside of a network, so it has no weights (at {here()}). "
        "Put it into rnn.Network([...]), or call cell.bind(inputs=...) and step that."
    )


def check(cell: Cell) -> None:
    """What can be told before any equation is run: states, output, and the arguments of `step`."""
    owner, line = type(cell).__name__, _step_line(cell)
    states: Any = cell.states
    if not isinstance(states, (tuple, list)) or not all(isinstance(state, State) for state in states):
        raise CellError(
            f"{owner} (step at {line}): states is {states!r}, not a tuple of State; write "
            "states = (State('h'),), with the comma."
        )
    if cell.output is not None and not isinstance(cell.output, State):
        raise CellError(f"{owner} (step at {line}): output is {cell.output!r}; write output = State('y').")
    if not states and cell.output is None:
        raise CellError(
            f"{owner} (step at {line}) declares no states; write e.g. states = (State('h'),) in the class (or "
            "output = State('y') for a layer without memory)."
        )
    names = [state.name for state in cell.returns]
    for name in names:
        if names.count(name) > 1:
            raise CellError(f"{owner} (step at {line}) declares {name} twice; give each state its own name.")
    if not hasattr(cell, "initial") or not hasattr(cell, "_masks"):
        raise CellError(f"{owner}.__init__ must call super().__init__(units, initial=initial).")
    for state in cell.returns:
        if not isinstance(state.width, int) and not hasattr(cell, state.width):
            raise CellError(
                f"{owner}: the state {state.name} has the width {state.width!r}, but the cell has no such "
                f"attribute; write self.{state.width} = ... in __init__."
            )
    try:
        inspect.signature(cell.step).bind("x", *states)
    except TypeError as error:
        raise CellError(
            f"{owner}.step at {line} does not fit the declared states ({error}); write "
            f"step(self, {arguments(cell)})."
        ) from None


def check_widths(cell: Cell) -> None:
    """The widths of the states of a bound cell are whole numbers."""
    for state in cell.returns:
        width = state.width if isinstance(state.width, int) else getattr(cell, state.width)
        if isinstance(width, bool) or not isinstance(width, int) or width < 1:
            raise CellError(
                f"{type(cell).__name__}: the width of {state.name} is {width!r}; it must be a whole number >= 1 "
                f"(width={state.width!r} in its State)."
            )


def require_nodes(cell: Cell, method: str, to: str, sources: Mapping[str, Any]) -> None:
    """The sources of `affine` and `diagonal` are nodes, and there are some."""
    owner = type(cell).__name__
    if not sources:
        raise CellError(
            f"{owner}: {method}({to!r}) at {here()} has no sources; name them, e.g. {method}({to!r}, x=x, h=h)"
        )
    for name, source in sources.items():
        if not isinstance(source, Node):
            raise CellError(
                f"{owner}: {method}({to!r}, {name}=...) at {here()} is a {type(source).__name__}, not a node. "
                "Sources are x and the states, or what is computed from them."
            )
        if source.ndim != 2:
            raise CellError(
                f"{owner}: {method}({to!r}, {name}=...) at {here()} has shape {list(source.shape)}; a source is "
                "(batch, width)."
            )


def trace(cell: Cell, step: Callable[[], object]) -> None:
    """Runs the first step; whatever fails in it is told with the line of its equation."""
    try:
        step()
    except (CellError, MemoryError):
        raise
    except Exception as error:
        where = f"in {type(cell).__name__}.step at {_line_in_step(cell, error)}"
        if isinstance(error, GraphnetError):
            raise type(error)(f"{error}\n    {where}") from error
        raise CellError(f"{type(error).__name__} {where}: {error}") from error


def checked(cell: Cell, x: Node, states: Sequence[Node], result: Any) -> tuple[Node, ...]:
    """What `step` returned, if it is what the cell declares."""
    owner, line = type(cell).__name__, _step_line(cell)
    declared = cell.returns
    listed = (result,) if isinstance(result, Node) else result
    if not isinstance(listed, (tuple, list)):
        raise CellError(
            f"{owner}.step (at {line}) returned {type(listed).__name__} where nodes are needed: "
            f"return {_wanted(cell)}."
        )
    if len(listed) != len(declared):
        raise CellError(
            f"{owner}.step (at {line}) returned {len(listed)} value(s), but the cell declares "
            f"{len(declared)} state(s): return {_wanted(cell)}, in this order."
        )
    for state, new in zip(declared, listed, strict=True):
        if not isinstance(new, Node):
            raise CellError(
                f"{owner}.step (at {line}) returned a {type(new).__name__} for the state {state.name}, not a node."
            )
        shape = (x.shape[0], cell.width_of(state))
        if new.shape != shape or new.dtype != x.dtype:
            raise CellError(
                f"{owner}.step returned {new.dtype}{list(new.shape)} for the state {state.name}, which is "
                f"{x.dtype}{list(shape)} (batch, units). The new value was made at {new.origin}."
            )
    return tuple(listed)


def _wanted(cell: Cell) -> str:
    return ", ".join(f"the new {state.name}" for state in cell.returns)


def _step_line(cell: Cell) -> Origin:
    code = inspect.unwrap(type(cell).step).__code__
    return Origin(code.co_filename, code.co_firstlineno)


def _line_in_step(cell: Cell, error: BaseException) -> Origin:
    """The innermost line of the file of `step` that the error has passed."""
    origin, traceback = _step_line(cell), error.__traceback__
    file = origin.file
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == file:
            origin = Origin(file, traceback.tb_lineno)
        traceback = traceback.tb_next
    return origin
