"""Cells: graphnet's own and a user's obey every law, and a wrong declaration is told with its line."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array, Node
from graphnet.ops.elementwise import Elementwise
from graphnet.testing import LawError
from graphnet_rnn import Cell, State
from graphnet_rnn.errors import CellError, UsageError
from graphnet_rnn.testing import CHECKS, check_cell
from tests.tables import require_rows

every_cell = pytest.mark.parametrize("cell", rnn.cells.ALL.values(), ids=rnn.cells.ALL)


# -- graphnet's own ------------------------------------------------------------------------------


@pytest.mark.cuda
@every_cell
def test_cell_obeys_the_laws(cell: type[Cell]) -> None:
    told: list[str] = []
    check_cell(cell, lambda name, found: told.append(name))
    assert told == list(CHECKS)


@every_cell
def test_docstring_is_formula_then_source(cell: type[Cell]) -> None:
    first, *rest = inspect.cleandoc(cell.__doc__ or "").splitlines()
    assert " = " in first or " ← " in first, "the first line is the formula"
    assert any(line.startswith("Source: ") for line in rest)


@every_cell
def test_equations_are_short(cell: type[Cell]) -> None:
    assert len(inspect.getsource(cell.step).splitlines()) <= 25
    assert len(inspect.getsource(cell).splitlines()) <= 80


@every_cell
def test_cell_can_be_made_again_from_its_settings(cell: type[Cell]) -> None:
    made = cell().resized(7)
    again = type(made)(**made.settings())
    assert repr(again) == repr(made)
    assert again.description() == made.description() == json.loads(json.dumps(made.description()))
    assert cell().output_width
    assert cell(7).output_width  # the first argument is a number of units, or may be


def test_every_exported_cell_is_in_all() -> None:
    exported = {
        v
        for v in (getattr(rnn, name) for name in rnn.__all__)
        if isinstance(v, type) and issubclass(v, Cell) and v is not Cell
    }
    listed = set(rnn.cells.ALL.values())
    require_rows(exported - listed, "cells.ALL", "the class")
    require_rows(listed - exported, "the imports and __all__ of graphnet_rnn", "its name")


def test_initial_weights_of_the_lstm() -> None:
    """Forget bias 1, other biases 0, and Glorot's limit on the matrices."""
    weights = rnn.LSTM(16).bind(inputs=8).weights
    assert list(weights) == [f"{kind}{gate}" for gate in "ifog" for kind in ("W_x", "W_h", "b_")]
    assert (weights["b_f"].value == 1).all()
    assert not any(weights[f"b_{gate}"].value.any() for gate in "iog")
    limit = np.sqrt(6 / (8 + 16))
    assert 0.9 * limit < np.abs(weights["W_xi"].value).max() <= limit


# -- a user's own --------------------------------------------------------------------------------


class TwoTimescale(Cell):
    """a = σ(x W_xa + h W_ha + b_a);  h' = a h + (1 - a) tanh(...);  s' = ρ s + (1 - ρ) h', W_ha twice

    The slow state has a width of its own, and the matrix W_ha serves the gate and the content.
    Source: this test.
    """

    states = (State("h"), State("s", "slow"))

    def __init__(self, units: int = 4, slow: int = 3, keep: float = 0.9, **more: Any) -> None:
        super().__init__(units, **more)
        self.slow, self.keep = slow, keep

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "slow": self.slow, "keep": self.keep}

    def step(self, x: Node, h: Node, s: Node) -> tuple[Node, Node]:  # type: ignore[override]
        a = gn.sigmoid(self.affine("a", x=x, h=h))
        shared = self.weight("W_ha", (self.units, self.units))
        content = gn.tanh(self.affine("n", x=x, s=s, bias=None) + (a * h) @ shared)
        h = a * h + (1 - a) * content
        return h, self.keep * s + (1 - self.keep) * self.affine("s", h=h, units=self.slow)


@pytest.mark.parametrize("cell", [TwoTimescale, TwoTimescale(9, slow=2, keep=0.5)], ids=["class", "instance"])
def test_users_cell_obeys_the_laws(cell: Any) -> None:
    check_cell(cell)


def test_shared_weight_is_one_parameter() -> None:
    weights = TwoTimescale().bind(inputs=5).weights
    assert list(weights) == ["W_xa", "W_ha", "b_a", "W_xn", "W_sn", "W_hs", "b_s"]
    assert weights["W_hs"].shape == (4, 3)


@dataclass(frozen=True, eq=False)
class BadSlope(Elementwise):
    """y = x² with the slope of another function"""

    def forward(self, x: Array) -> Array:
        return x * x

    def partials(self, y: Node, x: Node) -> list[Node]:
        return [2.1 * x]


class UsesBadSlope(Cell):
    """h' = tanh(badly differentiated)"""

    states = (State("h"),)

    def step(self, x: Node, h: Node) -> Node:  # type: ignore[override]
        return gn.tanh(BadSlope()(self.affine("h", x=x, h=h)))


class Cut(Elementwise):
    """y = x, through which no derivative passes, though the op does not say so"""

    def forward(self, x: Array) -> Array:
        return x

    def partials(self, y: Node, x: Node) -> list[Node]:
        return [0 * x]


class CutsGradient(Cell):
    """h' = tanh(x W_xh + cut(h W_hh))"""

    states = (State("h"),)

    def step(self, x: Node, h: Node) -> Node:  # type: ignore[override]
        kept = Cut()(self.affine("h", h=h, bias=None))
        return gn.tanh(self.affine("h", x=x, bias=None) + kept)


class StopsGradient(Cell):
    """h' = tanh(x W_xh + stop(h W_hh) + f h), f = σ(stop(x) W_xf + stop(f) b_f): what is stopped is meant to be"""

    states = (State("h"),)

    def step(self, x: Node, h: Node) -> Node:  # type: ignore[override]
        kept = gn.stop_gradient(self.affine("h", h=h, bias=None))
        f = gn.sigmoid(self.affine("f", x=gn.stop_gradient(x)))
        g = gn.sigmoid(self.affine("g", h=gn.stop_gradient(h * gn.stop_gradient(f))))
        return gn.tanh(self.affine("h", x=x, bias=None) + kept + f * g * h)


def test_a_cell_may_stop_gradients() -> None:
    check_cell(StopsGradient)
    rnn.testing.check_network(rnn.Network([StopsGradient(4), rnn.LSTM(3)], 5, 5))


class StopsWrongly(StopsGradient):
    """The same, less an error that is not meant to be stopped"""

    def step(self, x: Node, h: Node) -> Node:  # type: ignore[override]
        return Cut()(StopsGradient.step(self, x, h))


class RemembersNodes(Cell):
    """A cell that looks at the first step's input for ever: no loop of equal steps equals it."""

    states = (State("h"),)

    def step(self, x: Node, h: Node) -> Node:  # type: ignore[override]
        first = self.__dict__.setdefault("first", {}).setdefault(x.shape, x)
        used = first if first.scope.get("time") == 1 and x.scope.get("time") else x
        return gn.tanh(self.affine("h", x=used, h=h))


class CountsSteps(Cell):
    """h' = tanh(...) · 1 / (number of traces so far): a step that is not the same step each time"""

    states = (State("h"),)

    def step(self, x: Node, h: Node) -> Node:  # type: ignore[override]
        self.count = getattr(self, "count", 0) + 1
        return gn.tanh(self.affine("h", x=x, h=h)) * (1 / self.count)


class ReadsTheClock(Cell):
    """h' = tanh(...) / t: another function at each time step, though not where no time is told"""

    states = (State("h"),)

    def step(self, x: Node, h: Node) -> Node:  # type: ignore[override]
        return gn.tanh(self.affine("h", x=x, h=h)) / x.scope.get("time", 1)


@pytest.mark.parametrize(
    ("cell", "error", "content"),
    [
        (UsesBadSlope, LawError, r"gradient = finite difference fails.* in layer0\.(W_xh|W_hh|b_h)\["),
        (CutsGradient, LawError, r"gradient = finite difference fails.* in layer0\.W_hh\["),
        (StopsWrongly, LawError, "gradient = finite difference fails"),
        (ReadsTheClock, LawError, "unrolled cost = plain loop fails"),
        (RemembersNodes, CellError, "is no part of this step"),
        (CountsSteps, CellError, r"is another one when step runs again"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_faulty_cell_is_caught(cell: type[Cell], error: type[Exception], content: str) -> None:
    with pytest.raises(error, match=content):
        check_cell(cell)


@pytest.mark.parametrize("check", ["gradient", "R-operator", "Gauss-Newton"])
@pytest.mark.parametrize(
    "cell", [UsesBadSlope, CutsGradient, StopsWrongly], ids=["bad slope", "cut", "stops wrongly"]
)
def test_every_derivative_check_sees_the_fault(cell: type[Cell], check: str) -> None:
    """The checks of the whole net find it too, without the check of one step before them."""
    with pytest.raises(LawError, match=cell.__name__):
        CHECKS[check](subject(cell(3)))


def subject(cell: Cell) -> Any:
    """What the checks are given."""
    from graphnet_rnn.testing import SYMBOLS, Subject

    network = rnn.Network([cell], inputs=SYMBOLS, outputs=SYMBOLS, dtype="float64")
    generator = np.random.default_rng(0)
    network.theta = 0.5 * generator.standard_normal(network.theta.shape)
    return Subject(type(cell).__name__, cell, network, generator)


def test_fault_is_told_with_its_weight_and_line() -> None:
    """W_hh gets no gradient through the cut, so the gradient check names it and the line that declared it."""
    with pytest.raises(LawError) as caught:
        CHECKS["gradient"](subject(CutsGradient(3)))
    message = str(caught.value)
    assert re.search(r"in layer0\.W_hh\[\d, \d\]", message)
    assert place(CutsGradient.step, "h=h") in message


def test_one_step_is_told_with_the_line_of_its_equation() -> None:
    with pytest.raises(LawError, match=re.escape(place(UsesBadSlope.step, "BadSlope()"))):
        CHECKS["one step"](subject(UsesBadSlope(3)))


def test_check_cell_takes_cells_only() -> None:
    with pytest.raises(UsageError, match="takes a cell class or a cell, not 3"):
        check_cell(3)  # type: ignore[arg-type]


# -- declaration errors --------------------------------------------------------------------------


def place(function: Callable[..., Any], text: str) -> str:
    """file:line of the first line of a function that holds this text."""
    lines, start = inspect.getsourcelines(function)
    return f"test_cells.py:{next(start + i for i, line in enumerate(lines) if text in line)}"


class WrongCell(Cell):
    """Two states; each subclass makes one mistake in `step`."""

    states = (State("h"), State("c"))


class NotReturned(WrongCell):
    def step(self, x, h, c):
        return gn.tanh(self.affine("h", x=x, h=h))


class TooMany(WrongCell):
    def step(self, x, h, c):
        h = self.affine("h", x=x, h=h)
        return h, c, x


class WrongShape(WrongCell):
    def step(self, x, h, c):
        c = gn.concatenate([h, c], axis=1)
        return h, c


class WrongDtype(WrongCell):
    def step(self, x, h, c):
        c = gn.cast(h, "int64")
        return h, c


class TwoShapes(WrongCell):
    def step(self, x, h, c):
        h = self.affine("h", x=x)  # first use
        c = self.affine("h", x=h)  # second use
        return h, c


class NumberAsSource(WrongCell):
    def step(self, x, h, c):
        return self.affine("h", x=x, h=0.5), c


class ArrayAsSource(WrongCell):
    def step(self, x, h, c):
        return h, self.diagonal("c", c=np.ones(3))


class NoSource(WrongCell):
    def step(self, x, h, c):
        return self.affine("h"), c


class NoDiagonalSource(WrongCell):
    def step(self, x, h, c):
        return h, self.diagonal("c")


class ReturnsNone(WrongCell):
    def step(self, x, h, c):
        self.affine("h", x=x, h=h)


class ReturnsNumber(WrongCell):
    def step(self, x, h, c):
        return h, 0.0


class ForgetsState(WrongCell):
    def step(self, x, h):
        return h, x


class NoStates(Cell):
    """No states"""

    def step(self, x):
        return gn.tanh(self.affine("h", x=x))


class WrongInitializer(WrongCell):
    def step(self, x, h, c):
        return h + self.weight("b", (self.units,), lambda generator, shape: np.zeros(2)), c


MISTAKES: list[tuple[type[Cell], str, str]] = [
    (
        NotReturned,
        "return gn",
        "returned 1 value(s), but the cell declares 2 state(s): return the new h, the new c",
    ),
    (TooMany, "return h", "returned 3 value(s), but the cell declares 2 state(s)"),
    (
        WrongShape,
        "concatenate",
        "returned float32[1, 6] for the state c, which is float32[1, 3] (batch, units)",
    ),
    (WrongDtype, "gn.cast", "returned int64[1, 3] for the state c, which is float32[1, 3]"),
    (TwoShapes, "# second use", "the weight W_xh is used with shape [3, 3]"),
    (TwoShapes, "# first use", "but it was declared with shape [5, 3]"),
    (NumberAsSource, "h=0.5", "affine('h', h=...)"),
    (NumberAsSource, "h=0.5", "is a float, not a node"),
    (ArrayAsSource, "np.ones", "diagonal('c', c=...)"),
    (ArrayAsSource, "np.ones", "is a ndarray, not a node"),
    (NoSource, "self.affine", "has no sources; name them, e.g. affine('h', x=x, h=h)"),
    (NoDiagonalSource, "self.diagonal", "has no sources; name them"),
    (ReturnsNone, "self.affine", "returned NoneType where nodes are needed: return the new h, the new c"),
    (ReturnsNumber, "return h", "returned a float for the state c, not a node"),
    (ForgetsState, "def step", "does not fit the declared states"),
    (ForgetsState, "def step", "write step(self, x, h, c)"),
    (NoStates, "def step", "declares no states; write e.g. states = (State('h'),)"),
    (WrongInitializer, "self.weight", "the initializer of b gave shape [2], not [3]"),
]


@pytest.mark.parametrize(
    ("cell", "line", "content"),
    MISTAKES,
    ids=[f"{cell.__name__}-{i}" for i, (cell, *_) in enumerate(MISTAKES)],
)
def test_mistake_is_told_with_its_line(cell: type[Cell], line: str, content: str) -> None:
    with pytest.raises(CellError) as caught:
        rnn.Network([cell(3)], inputs=5, outputs=5)
    message = str(caught.value)
    assert content in message
    assert place(cell.step, line) in message
    assert cell.__name__ in message or "layer0" in message or "affine" in message or "diagonal" in message


def test_every_wrong_cell_is_in_the_table() -> None:
    assert set(WrongCell.__subclasses__()) == {cell for cell, *_ in MISTAKES} - {NoStates} | {Misfit, Fails}


def test_cell_without_step() -> None:
    with pytest.raises(CellError, match=re.escape("WrongCell needs a method step(self, x, h, c)")):
        rnn.Network([WrongCell(3)], inputs=5, outputs=5)


class Misfit(WrongCell):
    def step(self, x, h, c):
        h = self.affine("h", x=x)
        return h, x @ c


class Fails(WrongCell):
    def step(self, x, h, c):
        h = self.affine("h", x=x)
        return h, c / len(self.nothing)


@pytest.mark.parametrize(
    ("cell", "kind", "line", "content"),
    [
        (Misfit, gn.ShapeError, "x @ c", "MatMul: axis k is 5 in input 1 but 1 in input 2"),
        (Fails, CellError, "self.nothing", "AttributeError in Fails.step"),
    ],
    ids=["shapes", "AttributeError"],
)
def test_failing_equation_is_told_with_its_line(
    cell: type[Cell], kind: type[Exception], line: str, content: str
) -> None:
    """Also where there is no traceback to read, as on the command line."""
    with pytest.raises(kind) as caught:
        rnn.Network([cell(3)], inputs=5, outputs=5)
    assert content in str(caught.value)
    assert f"in {cell.__name__}.step at " in str(caught.value)
    assert place(cell.step, line) in str(caught.value)


class LateWeight(Cell):
    """A weight that is first used at the second step"""

    states = (State("h"),)

    def step(self, x: Node, h: Node) -> Node:  # type: ignore[override]
        h = gn.tanh(self.affine("h", x=x, h=h))
        if h.scope.get("time", 1) > 1:
            h = h + self.weight("b_late", (self.units,))
        return h


def test_conditional_weight_is_told_with_its_line() -> None:
    network = rnn.Network([LateWeight(3)], inputs=5, outputs=5)
    with pytest.raises(CellError) as caught:
        network.unroll(time=2, batch=1)
    assert "the weight b_late first appears after the first step" in str(caught.value)
    assert place(LateWeight.step, "b_late") in str(caught.value)


def test_cell_outside_of_a_network() -> None:
    x = gn.input((1, 3))
    with pytest.raises(CellError) as caught:
        rnn.Elman(3).weight("W", (3, 3))
    assert "Elman is used outside of a network, so it has no weights" in str(caught.value)
    assert place(test_cell_outside_of_a_network, "rnn.Elman(3).weight") in str(caught.value)
    assert "bind(inputs=...)" in str(caught.value)
    with pytest.raises(CellError, match="NotReturned is used outside of a network"):
        NotReturned(3).step(x, x, x)


@pytest.mark.parametrize("units", [0, -3, "a", True, 2.0, None], ids=repr)
def test_impossible_units(units: Any) -> None:
    with pytest.raises(
        UsageError, match=re.escape(f"LSTM: units must be a whole number >= 1, not {units!r}")
    ):
        rnn.LSTM(units)


@pytest.mark.parametrize("layers", [[rnn.GRU], rnn.GRU], ids=["in a list", "alone"])
def test_class_instead_of_an_instance(layers: Any) -> None:
    with pytest.raises(UsageError, match=re.escape("layers must hold cells, e.g. GRU(128), not")):
        rnn.Network(layers, inputs=5, outputs=5)


def test_users_initializer_of_wrong_shape_names_the_weight() -> None:
    cell = rnn.Elman(3, initial={"W_h*": lambda generator, shape: np.zeros((2, 2))})
    with pytest.raises(
        CellError, match=re.escape("layer0: the initializer of W_hh gave shape [2, 2], not [3, 3]")
    ):
        rnn.Network([cell], inputs=5, outputs=5)


# -- mistakes that only show in other sizes, in float32, or when a model is loaded ----------------------


class ForgetsItsSetting(rnn.Cell):
    """h' = tanh(speed x + h)"""

    states = (rnn.State("h"),)

    def __init__(self, units: int = 3, speed: float = 0.1) -> None:
        super().__init__(units)
        self._speed = speed

    def step(self, x: gn.Node, h: gn.Node) -> gn.Node:
        return gn.tanh(self.affine("h", x=x, h=h) * self._speed)


class KeepsItsSetting(ForgetsItsSetting):
    """h' = tanh(speed x + h)"""

    def __init__(self, units: int = 3, speed: float = 0.1) -> None:
        super().__init__(units, speed)
        self.speed = speed


class Float64Constant(rnn.Elman):
    """h' = tanh(...) k"""

    def step(self, x: gn.Node, h: gn.Node) -> gn.Node:
        return super().step(x, h) * np.linspace(0.5, 1, self.units)


class FixedWidth(rnn.Elman):
    """h' = tanh(...), 3 units whatever was asked"""

    def step(self, x: gn.Node, h: gn.Node) -> gn.Node:
        return gn.tanh(self.affine("h", x=x, h=h, units=3))


class NoSuper(rnn.Elman):
    """h' = tanh(...)"""

    def __init__(self, units: int = 3) -> None:
        self.units = units


class NoComma(rnn.Elman):
    """h' = tanh(...)"""

    states = rnn.State("h")  # type: ignore[assignment]


class NamelessStates(rnn.Elman):
    """h' = tanh(...)"""

    states = ("h",)  # type: ignore[assignment]


class NoSuchWidth(rnn.Elman):
    """h' = tanh(...)"""

    states = (rnn.State("h", "slow_units"),)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (ForgetsItsSetting, "does not keep its argument 'speed'"),
        (Float64Constant, "returned float64[1, 5] for the state h, which is float32[1, 5]"),
        (FixedWidth, "returned float32[1, 3] for the state h, which is float32[1, 5]"),
        (NoSuper, "NoSuper.__init__ must call super().__init__"),
        (NoComma, "with the comma"),
        (NamelessStates, "not a tuple of State"),
        (NoSuchWidth, "write self.slow_units = ... in __init__"),
    ],
)
def test_check_cell_finds_what_would_fail_later(cell: type[rnn.Cell], message: str) -> None:
    with pytest.raises(CellError, match=re.escape(message)):
        rnn.testing.check_cell(cell)


def test_settings_are_read_off_the_constructor(tmp_path: Path) -> None:
    """A cell that keeps its arguments under their names is stored and made again without more ado."""
    rnn.testing.check_cell(KeepsItsSetting)
    net = rnn.Network([KeepsItsSetting(4, speed=0.9)], 5, 5)
    rnn.save(net, tmp_path / "m")
    assert rnn.load(tmp_path / "m", [KeepsItsSetting]).layers[0].settings() == {
        "units": 4,
        "speed": 0.9,
    }


def test_initializer_for_no_weight_is_told() -> None:
    """A misspelt pattern would otherwise be ignored."""
    cell = rnn.Elman(3, initial={"W_zz*": rnn.initializers.zeros()})
    with pytest.raises(
        CellError, match=r"initial names 'W_zz\*', but no weight is called so; there are W_xh, W_hh"
    ):
        cell.bind(inputs=2)
