"""Runs the equations of a cell and checks them. Errors name the line of the equation.

A step is a function of x, the states and the cell's weights, and the same function at every time step. So binding runs
a cell twice: the first run declares the weights, the second must compute the same values.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import graphnet as gn
from graphnet.errors import GraphnetError
from graphnet.graph.graph import ancestors
from graphnet.graph.node import Node
from graphnet.graph.provenance import Origin, Provenance, attributed_to, context, here, hide_module
from graphnet.system.memory import readable_bytes, require_memory
from graphnet_rnn.cell.declaration import State, arguments, return_lines, step_line
from graphnet_rnn.cell.weights import Weights
from graphnet_rnn.errors import CellError

if TYPE_CHECKING:
    from graphnet_rnn.cell.cell import Cell

# Hidden from errors, so that they name the equation.
hide_module(__file__)


def declare(cell: Cell, weights: Weights) -> None:
    """Runs `step` to plan the weights, to make them, and once more; CellError if the runs differ.

    Raises NotEnoughMemoryError if the weights exceed the memory.
    """
    if not weights.nodes:
        with weights.planned():
            run(copy.copy(cell), *_given(cell, weights))  # a copy, as a step may set attributes
    first = run(cell, *_given(cell, weights))
    weights.complete = True
    _require_same(cell, first, run(cell, *_given(cell, weights)))


def _given(cell: Cell, weights: Weights) -> tuple[Node, list[Node]]:
    with attributed_to() as made:
        made.model = Provenance(step_line(cell), context.scope, 0)
        x = gn.input((1, cell.reads), weights.dtype, name="x")
        named = zip(cell.states, cell.widths, strict=True)
        return x, [gn.input((1, width), weights.dtype, name=state.name) for state, width in named]


def run(cell: Cell, x: Node, states: Sequence[Node]) -> tuple[Node, ...]:
    """Returns the results of `step` in the order of `cell.returns`. Errors in `step` name the line of the equation."""
    _require_fit(cell, x, states)
    try:
        result = cell.step(x, *states)
    except MemoryError:
        raise
    except GraphnetError as error:
        line = _line_in_step(cell, error)
        if isinstance(error, CellError) and re.search(rf"{re.escape(str(line))}(?!\d)", str(error)):
            raise
        raise type(error)(f"{error}\n    in {type(cell).__name__}.step at {line}") from error
    except Exception as error:
        where = f"in {type(cell).__name__}.step at {_line_in_step(cell, error)}"
        raise CellError(f"{type(error).__name__} {where}: {error}{_remedy(cell, error)}") from error
    returned = _require_declared(cell, x, states, result)
    if isinstance(cell.bound_weights, Weights):  # a part may read nodes of the whole cell
        _require_own_leaves(cell, x, states, returned)
    return returned


def _line_in_step(cell: Cell, error: BaseException) -> Origin:
    """Innermost line in the file of `step` in the error's traceback."""
    origin, traceback = step_line(cell), error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == origin.file:
            origin = Origin(origin.file, traceback.tb_lineno)
        traceback = traceback.tb_next
    return origin


def _remedy(cell: Cell, error: Exception) -> str:
    text = str(error)
    if "'Node'" in text and "operand" in text:
        return (
            ". Nodes have + - * / % ** @, comparisons, & | ~ of these, and slices; use functions for the rest, "
            "e.g. gn.sum(x), gn.sqrt(x)."
        )
    if isinstance(error, NameError):
        return f". step receives {arguments(cell)}; to store another value, add a State to `states`."
    names = [state.name for state in cell.states]
    if isinstance(error, AttributeError) and error.obj is cell and error.name in names:
        return f". States are arguments of step: write {error.name}."
    return ""


# -- inputs and results of a step ------------------------------------------------------------------


def _require_fit(cell: Cell, x: Any, states: Any) -> None:
    owner = f"{type(cell).__name__} ({cell.bound_weights.owner})"
    if not isinstance(x, Node) or x.ndim != 2 or x.shape[1] != cell.reads:
        wanted = f"{cell.reads} values, (batch, {cell.reads})"
        raise CellError(f"{owner} reads {wanted}, but x at {here()} is {_in_words(x)}.")
    given = [] if isinstance(states, Node) or not isinstance(states, Sequence) else states
    if len(given) != len(cell.states):
        what = f"{len(given)}" if given is states else _in_words(states)
        raise CellError(
            f"{owner} needs {len(cell.states)} state(s), not {what}, at {here()}: write "
            f"advance(x, [{', '.join(state.name for state in cell.states)}])."
        )
    for state, width, value in zip(cell.states, cell.widths, given, strict=True):
        if not isinstance(value, Node) or value.shape != (x.shape[0], width):
            wanted = f"{[x.shape[0], width]} (batch, units)"
            raise CellError(
                f"{owner}: the state {state.name} is {wanted}, but {_in_words(value)} was given at {here()}."
            )


def _in_words(value: Any) -> str:
    return value.describe() if isinstance(value, Node) else f"a {type(value).__name__}"


def _require_declared(cell: Cell, x: Node, states: Sequence[Node], result: Any) -> tuple[Node, ...]:
    declared = cell.returns
    listed = (result,) if isinstance(result, Node) else result
    if not isinstance(listed, (tuple, list)) or len(listed) != len(declared):
        what = f"{type(listed).__name__} where nodes are needed"
        if isinstance(listed, (tuple, list)):
            what = f"{len(listed)} value(s), but the cell declares {_declared(cell)}"
        raise CellError(f"{_returned(cell)} {what}: return {_wanted(cell)}, in this order.")
    for state, new in zip(declared, listed, strict=True):
        if not isinstance(new, Node):
            raise CellError(
                f"{_returned(cell)} a {type(new).__name__} for the state {state.name}, not a node; a constant state "
                f"is e.g. gn.fill(0, x.shape[:1] + ({cell.width_of(state)},), x.dtype)."
            )
        shape = (x.shape[0], cell.width_of(state))
        if new.shape != shape or new.dtype != x.dtype:
            same = new.shape == shape
            remedy = _dtype_remedy(x, states, new) if same else _shape_remedy(cell, x, state, new)
            raise CellError(
                f"{_returned(cell)} {new.dtype}{list(new.shape)} for the state {state.name}, which is "
                f"{x.dtype}{list(shape)} (batch, units). The new value was made at {new.origin}. {remedy}"
            )
    return tuple(listed)


def _returned(cell: Cell) -> str:
    return f"{type(cell).__name__}.step (at {return_lines(cell)}) returned"


def _wanted(cell: Cell) -> str:
    return ", ".join(f"the new {state.name}" for state in cell.returns)


def _declared(cell: Cell) -> str:
    states = f"{len(cell.states)} state(s)"
    return states if cell.output is None else f"an output and {states}"


def _shape_remedy(cell: Cell, x: Node, state: State, new: Node) -> str:
    if new.shape[:1] != x.shape[:1] or new.ndim != 2:
        return "Keep the batch as the first axis: sum, join and reshape only along other axes."
    if len(cell.returns) > 1:
        return f"Return {_wanted(cell)}, in this order."
    return f"Declare its width, State({state.name!r}, 'name of an attribute'), or return the width {state.width}."


def _dtype_remedy(x: Node, states: Sequence[Node], new: Node) -> str:
    made = (node for node in ancestors([new], stop=[x, *states]) if node.dtype == new.dtype)
    first = next(made, new)
    return (
        f"The dtype changes to {new.dtype} at {first.origin}, in {first.describe()}. Convert an array with "
        "array.astype(x.dtype), a node with gn.cast(node, x.dtype)."
    )


def _require_own_leaves(cell: Cell, x: Node, states: Sequence[Node], returned: Sequence[Node]) -> None:
    """Raises CellError if a step reads anything besides x, the states, the weights and constants."""
    given, weights = {x, *states}, set(cell.weights.values())
    nodes = ancestors(returned, stop=given)
    for leaf in nodes:
        if leaf.inputs or leaf in given or leaf in weights:
            continue
        if leaf.op.is_parameter:
            raise CellError(
                f"{_step(cell)} reads the parameter {leaf.describe()} (made at {leaf.origin}), which is not a "
                "weight of the cell, so training would not change it; write self.weight(name, shape, initial) "
                "in step, or self.part(name, cell, reads) for another cell. Do not store nodes in attributes."
            )
        if leaf.op.is_input:
            reader, read = _first_reading(nodes, leaf, max(node.serial for node in given))
            raise CellError(
                f"{_step(cell)} reads {read.describe()} (made at {read.origin}) at {reader.origin}, which is "
                "not part of this step: it is a gn.input, or a node of another step. Declare and return a "
                "state for values that pass from step to step; pass other values as a part of x."
            )


def _step(cell: Cell) -> str:
    return f"{type(cell).__name__}.step (at {step_line(cell)})"


def _first_reading(nodes: Sequence[Node], leaf: Node, start: int) -> tuple[Node, Node]:
    """First node of this step that depends on the foreign leaf, and its input that does."""
    foreign = {leaf}
    for node in nodes:
        if not foreign.isdisjoint(node.inputs):
            foreign.add(node)
            if node.serial > start:
                return node, next(source for source in node.inputs if source in foreign)
    return leaf, leaf


def _require_same(cell: Cell, first: Sequence[Node], again: Sequence[Node]) -> None:
    """Raises CellError unless two runs of a step compute the same: equal ops on equal values."""
    pending, seen = list(zip(first, again, strict=True)), set()
    differing: list[tuple[Node, Node]] = []
    while pending:
        pair = pending.pop()
        if pair in seen or pair[0] is pair[1]:
            continue
        seen.add(pair)
        one, other = pair
        if type(one.op) is not type(other.op) or len(one.inputs) != len(other.inputs):
            differing.append(pair)
        elif one.inputs:
            pending += zip(one.inputs, other.inputs, strict=True)
        elif not one.op.by_identity and one.op != other.op:
            differing.append(pair)
    if not differing:
        return
    one, other = min(differing, key=lambda pair: pair[1].serial)
    constants = not one.inputs and not other.inputs
    what = (
        f"the constant {other.describe()} at {other.origin} has another value"
        if constants
        else f"{other.describe()} is computed at {other.origin}, instead of {one.describe()} (at {one.origin}),"
    )
    raise CellError(
        f"{type(cell).__name__}: {what} when step runs again, but step must be the same function at every time step. "
        "For random masks write self.dropout(name, a, share); use a state for values that change with time."
    )


#: Memory and time for each node of an unrolled network, to make and compile it with its gradient (LSTM, 2,000 steps).
NODE_BYTES, NODE_SECONDS = 5_000, 150e-6
#: Nodes of the smallest equation of a cell.
EQUATION_NODES = 4
#: Number of nodes above which a warning announces a wait of half a minute.
MANY = 200_000


def require_nodes(count: int, what: str, remedy: str) -> None:
    """Raises NotEnoughMemoryError for more nodes than fit into memory; warns about long compile times."""
    if count <= MANY:
        return
    nodes = f"{what} makes about {count:,} nodes, which"
    require_memory(count * NODE_BYTES, nodes, remedy)
    warnings.warn(
        f"{nodes} take {readable_bytes(count * NODE_BYTES)} and about {count * NODE_SECONDS:,.0f} s to compile; "
        f"{remedy}",
        stacklevel=3,
    )


def require_equations(argument: str, count: int, each: int = 1) -> None:
    """Like `require_nodes`, for an argument of a cell that makes `count` times `each` equations."""
    nodes, name = EQUATION_NODES * each * count, argument.rsplit(maxsplit=1)[-1]
    require_nodes(nodes, f"{argument} = {count:,}", f"a smaller {name} takes less")
