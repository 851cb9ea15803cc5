"""Built-in and user-defined cells satisfy every law, and wrong declarations raise errors with their line."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.backends import usable_backends
from graphnet.graph.node import Array, Node
from graphnet.ops.elementwise import Elementwise
from graphnet.testing import LawError, laws
from graphnet_rnn import Cell, State
from graphnet_rnn.errors import CellError, UsageError
from graphnet_rnn.testing import CHECKS, SYMBOLS, Subject, check_cell
from tests.tables import case, require_rows, some_quick

#: Cells whose steps are made of different ops. Test_oracles has the values and all derivatives of every cell.
DIFFERENT = ("LSTMPeephole", "MRNN", "GLNN", "LayerNormLSTM", "Attention")


@pytest.mark.cuda
@pytest.mark.parametrize("name", some_quick(rnn.cells.ALL, DIFFERENT))
def test_cell_obeys_the_laws(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A GPU takes all cells; its simulator is slow.
    if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1" and name not in DIFFERENT:
        fast = [name for name in usable_backends() if name != "cuda"]
        monkeypatch.setattr(laws, "usable_backends", lambda: fast)
    told: list[str] = []
    check_cell(rnn.cells.ALL[name], lambda check, found: told.append(check))
    assert told == list(CHECKS)


def test_cells_round_trip_through_settings() -> None:
    for cell in rnn.cells.ALL.values():
        with case(cell):
            made = cell().resized(7)
            again = type(made)(**made.settings())
            assert repr(again) == repr(made)
            assert again.description() == made.description() == json.loads(json.dumps(made.description()))
            assert cell().output_width
            assert cell(7).output_width  # the first argument is a number of units, or may be
            assert rnn.Network([cell().resized(3)], 4, 4).theta.size < 600, "all of its sizes are changed"


def test_every_exported_cell_is_in_all() -> None:
    names = (getattr(rnn, name) for name in rnn.__all__)
    exported = {v for v in names if isinstance(v, type) and issubclass(v, Cell) and v is not Cell}
    require_rows(
        exported ^ set(rnn.cells.ALL.values()), "cells.ALL, or the imports of graphnet_rnn", "the class"
    )


class TwoTimescale(Cell):
    """a = σ(x W_xa + h W_ha + b_a);  h' = a h + (1 - a) tanh(...);  s' = ρ s + (1 - ρ) h', W_ha twice

    The slow state has a width of its own, and the matrix W_ha serves the gate and the content.
    Source: this test.
    """

    states = (State("h"), State("s", "slow"))

    def __init__(self, units: int = 4, slow: int = 3, keep: float = 0.9) -> None:
        super().__init__(units)
        self.slow, self.keep = slow, keep

    def step(self, x: Node, h: Node, s: Node) -> tuple[Node, Node]:
        a = gn.sigmoid(self.affine("a", x=x, h=h))
        shared = self.weight("W_ha", (self.units, self.units))
        content = gn.tanh(self.affine("n", x=x, s=s, bias=None) + (a * h) @ shared)
        h = a * h + (1 - a) * content
        return h, self.keep * s + (1 - self.keep) * self.affine("s", h=h, units=self.slow)


def test_users_cell_obeys_the_laws() -> None:
    for cell in [TwoTimescale, TwoTimescale(9, slow=2, keep=0.5)]:
        with case(cell):
            check_cell(cell)
    weights = TwoTimescale().bind(inputs=5).weights  # the matrix that serves twice is one
    assert list(weights) == ["W_xa", "W_ha", "b_a", "W_xn", "W_sn", "W_hs", "b_s"]


class BadSlope(Elementwise):
    """y = x² with the slope of another function"""

    def forward(self, x: Array) -> Array:
        return x * x

    def partials(self, y: Node, x: Node) -> list[Node]:
        return [2.1 * x]


class UsesBadSlope(rnn.Elman):
    def step(self, x: Node, h: Node) -> Node:
        return gn.tanh(BadSlope()(self.affine("h", x=x, h=h)))


class Cut(Elementwise):
    """y = x, through which no derivative passes, though the op does not say so"""

    def forward(self, x: Array) -> Array:
        return x

    def partials(self, y: Node, x: Node) -> list[Node]:
        return [0 * x]


class CutsGradient(rnn.Elman):
    def step(self, x: Node, h: Node) -> Node:
        kept = Cut()(self.affine("h", h=h, bias=None))
        return gn.tanh(self.affine("h", x=x, bias=None) + kept)


class StopsGradient(rnn.Elman):
    """h' = tanh(x W_xh + stop(h W_hh) + f h), f = σ(stop(x) W_xf + stop(f) b_f): what is stopped is meant to be"""

    def step(self, x: Node, h: Node) -> Node:
        kept = gn.stop_gradient(self.affine("h", h=h, bias=None))
        f = gn.sigmoid(self.affine("f", x=gn.stop_gradient(x)))
        g = gn.sigmoid(self.affine("g", h=gn.stop_gradient(h * gn.stop_gradient(f))))
        return gn.tanh(self.affine("h", x=x, bias=None) + kept + f * g * h)


def test_a_cell_may_stop_gradients() -> None:
    check_cell(StopsGradient)
    rnn.testing.check_network(rnn.Network([StopsGradient(4), rnn.LSTM(3)], 5, 5))


class StopsWrongly(StopsGradient):
    def step(self, x: Node, h: Node) -> Node:
        return Cut()(StopsGradient.step(self, x, h))


class RemembersNodes(rnn.Elman):
    """A cell that looks at the first step's input for ever: no loop of equal steps equals it."""

    def step(self, x: Node, h: Node) -> Node:
        first = self.__dict__.setdefault("first", {}).setdefault(x.shape, x)
        used = first if first.scope.get("time") == 1 and x.scope.get("time") else x
        return gn.tanh(self.affine("h", x=used, h=h))


class ReadsTheClock(rnn.Elman):
    """h' = tanh(...) / t: another function at each time step, though not where no time is told"""

    def step(self, x: Node, h: Node) -> Node:
        return gn.tanh(self.affine("h", x=x, h=h)) / x.scope.get("time", 1)


class Float64Constant(rnn.Elman):
    def step(self, x: Node, h: Node) -> Node:
        return super().step(x, h) * np.linspace(0.5, 1, self.units)


class FixedWidth(rnn.Elman):
    """3 units, whatever was asked"""

    def step(self, x: Node, h: Node) -> Node:
        return gn.tanh(self.affine("h", x=x, h=h, units=3))


def test_faulty_cell_is_caught() -> None:
    for cell, error, content in [
        (UsesBadSlope, LawError, r"gradient = finite difference fails.* in layer0\.(W_xh|W_hh|b_h)\["),
        (CutsGradient, LawError, r"(?s)finite difference fails.* in layer0\.W_hh\[.*test_every_cell\.py:\d"),
        (StopsWrongly, LawError, "gradient = finite difference fails"),
        (ReadsTheClock, LawError, "unrolled cost = plain loop fails"),
        (RemembersNodes, CellError, "is not part of this step"),
        (Float64Constant, CellError, r"returned float64\[1, 5\] for the state h, which is float32"),
        (FixedWidth, CellError, r"returned float32\[1, 3\] for the state h, which is float32\[1, 5\]"),
    ]:
        with case(cell, error), pytest.raises(error, match=content):
            check_cell(cell)


def test_every_derivative_check_sees_the_fault() -> None:
    """The checks of the whole network find it without the check of one step."""
    for cell, check in itertools.product(
        [UsesBadSlope, CutsGradient, StopsWrongly], ["gradient", "R-operator", "Gauss-Newton"]
    ):
        network = rnn.Network([cell(3)], inputs=SYMBOLS, outputs=SYMBOLS, dtype="float64")
        generator = np.random.default_rng(0)
        network.theta = 0.5 * generator.standard_normal(network.theta.shape)
        with case(cell, check), pytest.raises(LawError, match=cell.__name__):
            CHECKS[check](Subject(cell.__name__, cell(3), network, generator))


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(UsageError, match="takes a cell class or a cell, not 3"):
        check_cell(3)
    for units in [0, "a", True, 2.0, None]:
        with case(units), pytest.raises(UsageError, match=rf"LSTM: units .*not {units!r}"):
            rnn.LSTM(units)


def test_settings_are_read_from_the_constructor(tmp_path: Path) -> None:
    """Cells that store arguments under their names can be saved and loaded."""
    rnn.save(rnn.Network([TwoTimescale(4, keep=0.5)], 5, 5), tmp_path / "m")
    (layer,) = rnn.load(tmp_path / "m", [TwoTimescale]).layers
    assert layer.settings() == {"units": 4, "slow": 3, "keep": 0.5}
