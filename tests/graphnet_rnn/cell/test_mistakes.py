"""Mistakes in user-defined cells raise errors with the user's line, the cause and the remedy.

Each row is written into a real file my_cells.py. The lines that the message must name end in `# here`.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.errors import DtypeError, GraphnetError, ShapeError, ValueAccessError
from graphnet.graph.node import INSTEAD_OF_METHODS
from graphnet.testing import LawError
from graphnet_rnn.errors import CellError, UsageError
from tests.tables import case

HEAD = """\
import functools
import math

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn


"""
USE = """

def use():
    {use}
"""
NETWORK = "return rnn.Network([MyCell(3)], inputs=5, outputs=5).unroll(2, 2)"
ONE, TWO = 'rnn.State("h"),', 'rnn.State("h"), rnn.State("c")'


class Row(NamedTuple):
    """A file of cells, and the error that using it must raise; parts: what the message must hold."""

    name: str
    code: str
    error: type[Exception]
    parts: tuple[str, ...]
    use: str


def step(name, body, *parts, takes="x, h", states=ONE, more="", use=NETWORK, error=CellError) -> Row:
    """A cell with this body of `step`; more: what else is in the class."""
    return declared(name, f"{more}\ndef step(self, {takes}):\n{indented(body)}", *parts, states=f"({states})",
                    use=use, error=error)  # fmt: skip


def declared(name, lines, *parts, states=f"({ONE})", use=NETWORK, error=CellError) -> Row:
    """A cell of these states and lines."""
    code = f"class MyCell(rnn.Cell):\n{indented(f'states = {states}')}\n{indented(lines)}\n"
    return Row(name, code, error, parts, use)


def indented(text: str) -> str:
    return textwrap.indent(textwrap.dedent(text).strip(), "    ")


def of(equation: str, *parts: str, **others: Any) -> Row:
    """A cell that returns this."""
    return step(equation, f"return {equation}  # here", *parts, **others)


AFFINE = "return self.affine('h', x=x, h=h)"
STEP = "\ndef step(self, x, h):\n    return h"
INIT = "def __init__(self, units=3):\n    super().__init__(units)\n    "
INNER = """
    class Inner(rnn.Cell):
        states = (rnn.State("h"),)
        def step(self, x, h):
            return h, h  # here
    globals()["Inner"] = Inner
    """

# fmt: off
RETURNS = [
    step("a state is not returned", "h = gn.tanh(self.affine('h', x=x, h=h))\nreturn h  # here",
         "returned 1 value(s), but", "2 state(s)", "the new h, the new c,", takes="x, h, c", states=TWO),
    of("c, h", "returned float32[1, 4] for the state h, which is float32[1, 3]", takes="x, h, c",
       states='rnn.State("h"), rnn.State("c", 4)'),
    of("h, 0.0", "a float for the state c", "gn.fill(0, x.shape[:1] + (3,)", takes="x, h, c", states=TWO),
    step("nothing", "h = gn.tanh(h)  # here", "returned NoneType", "return the new h"),
    step("a generator", "yield h  # here", "returned generator", "return the new h"),
    of("self.affine('h', x=x, units=4)", "float32[1, 4]", "float32[1, 3]", "Declare its width"),
    of("gn.sum(self.affine('h', x=x, h=h), axis=0, keepdims=True)", "float32[1, 3] for the state h",
       "float32[2, 3]", "Keep the batch as the first axis"),
    step("an output that is not returned", AFFINE + "  # here", "an output and 1 state(s)",
         more="output = rnn.State('y', 4)"),
]

DECLARATIONS = [
    declared("step without self", "def step(x, h):  # here\n    return h", "write step(self, x, h)"),
    declared("step misspelt", "def stepp(self, x, h):\n  return h", "rename stepp if it is", "my_cells.py:10"),
    declared("without super().__init__", "def __init__(self, units):  # here\n    self.units = units" + STEP,
             "must call super().__init__(units, initial=initial)"),
    declared("arguments in another order", "def step(self, x, c, h):  # here\n    return h, c",
             "in the order c, h", "write step(self, x, h, c)", states=f"({TWO})"),
    declared("no comma", STEP, "not a tuple of State", "with the comma", states='rnn.State("h")  # here'),
    declared("no states", STEP, "declares no states", states="()  # here"),
    declared("a name twice", "def step(self, x, h, h2):\n    return h, h2", "declares h twice",
             states='(rnn.State("h"), rnn.State("h"))  # here'),
    declared("output is a word", 'output = "y"  # here' + STEP, "must be a State, not 'y'", "output = State('y')"),
    *(
        declared(f"State({written})", STEP, *parts, states=f"(rnn.State({written}),)  # here")
        for written, *parts in [
            ("'h', 'slow'", "the state h has the width 'slow'", "write self.slow = ..."),
            ("'h', 2.5", "State('h'", "a whole number >= 1 or the name of an attribute"),
            ("3", "State(3", "the name of a state must be an identifier"),
            ("'x'", "State('x'", "an identifier other than x and self"),
        ]
    ),
    *(
        step(f"self.{name} = ...", "return self.affine('h', x=x)", f"MyCell sets {name} = 0.1",
             more=f"{INIT}self.{name} = 0.1  # here")
        for name in ("weight", "step", "reads")
    ),
    step("a setting called cell", "return h", "a setting named cell", "e.g. inner",
         more="def __init__(self, units=3, cell=0):  # here\n  super().__init__(units)\n  self.cell = cell"),
    step("a setting that is not kept", "return h", "write self.speed = speed",
         more="def __init__(self, units=3, speed=2):  # here\n    super().__init__(units)",
         use="return repr(MyCell())"),
    step("a setting that is changed", AFFINE, "MyCell(speed=4) stores speed = 8", "write self.speed = speed",
         more="def __init__(self, units=3, speed=2):  # here\n    super().__init__(units)\n    self.speed = 2 * speed"),
    step("a setting that no file holds", "return h", "the setting f = <",
         more="def __init__(self, units=3, f=gn.tanh):\n    super().__init__(units)\n    self.f = f",
         use="return rnn.Network([MyCell()], 5, 5).settings()"),
]

EQUATIONS = [
    of("x + h", "x[1, 5]", "h[1, 3]", "do not broadcast", "in MyCell.step", error=ShapeError),
    of("self.affine('h', h=1.0)", "h=...) at", "is a float, not a node"),
    of("self.affine('h', h=h[:, None])", "shape (batch, width)", "not [1, 1, 3]"),
    of("self.affine('h')", "no sources", "affine('h', x=x, h=h)"),
    of("self.affine('h', x, h)", "without names"),
    of("self.affine(x, h=h)", "the first argument x[1, 5]", "affine('h', ...)"),
    of("self.affine('h', x=x, biass=None)", "biass=", "NoneType", "did you mean bias=?"),
    of("self.affine('h', x=x, bias=False)", "bias=False", "None for no bias"),
    of("self.affine('h', x=x, units='many')", "units must be a whole", "'many'", error=UsageError),
    of("self.dropout('h', h, 1.5)", "must be in [0, 1), not 1.5", error=UsageError),
    of("h + c", "name 'c' is not defined", "receives x, h", "add a State"),
    of("self.h + h", "no attribute 'h'", "arguments of step: write h"),
    of("gn.tahn(h)", "AttributeError in MyCell.step", "'tahn'"),
    step("float64 constant", "k = np.ones(3)\nreturn self.affine('h', x=x) * k  # here", ".astype(x.dtype)"),
    step("another", "a = h * np.ones(3)  # here\nreturn self.affine('h', x=x, h=a)  # here", "in Constant[3]",
         "returned float64[1, 3] for the state h, which is float32[1, 3]"),
]

WEIGHTS = [
    step("two shapes", "a = self.affine('h', x=x)  # here\nreturn self.affine('h', x=a)  # here",
         "W_xh is used with shape [3, 3]", "declared with shape [5, 3]", "another name"),
    of("h * self.weight('w', h.shape)", "used with shape [2, 3]", "write x.shape[1], not x.shape"),
    of("h * self.weight('w', 3)", "shape 3", "(self.units,)"),
    of("h * self.weight(3, (3,))", "the first argument 3", "a str"),
    of("h * self.weight('w', (3,), lambda generator, shape: np.zeros(2))", "w returned the shape [2], not [3]"),
    of("h * self.weight('w', (3,), np.ones(3))", ".array(values)"),
    of("h * self.weight('w', (3,), 0.5)", ".constant(0.5)"),
    of("h * self.weight('w', (3,), rnn.initializers.zeros)", "with its parentheses"),
    of("h * self.weight('w', (3,), rnn.initializers.orthogonal())", "[3]"),
    of("h * self.weight('w', (3,), rnn.initializers.constant(math.nan))", "NaN or infinite"),
    step("initially is no initializer", AFFINE, "not {'W_*': 0.1}", "rnn.initializers.normal(0.1)",
         more="initially = {'W_*': 0.1}  # here"),
    step("initially is for no weight", AFFINE, "initially names 'Wh_*'", "the weights are W_xh, W_hh, b_h",
         more="initially = {'Wh_*': rnn.initializers.zeros()}  # here"),
    step("initial is for no weight", AFFINE, "'W_z*', but there is no such weight", "the weights are W_xh, W_hh, b_h",
         use="return MyCell(3, initial={'W_z*': rnn.initializers.zeros()}).bind(5)"),
    step("a weight that comes later",
         "self.n = getattr(self, 'n', 0) + 1\nreturn h * self.weight('late', ()) if self.n > 1 else h  # here",
         "the weight late first appears after the first step"),
    step("gn.parameter in step",
         "W = gn.parameter(np.ones((3, 3), 'float32'), name='W')  # here\nreturn h @ W",
         "reads the parameter W[3, 3]", "self.weight(name, shape, initial)"),
    step("a weight that is kept",
         "self.k = getattr(self, 'k', None) or [self.weight('W', (3, 3)) * 2]  # here\nreturn h @ self.k[0]",
         "reads the parameter layer0.W[3, 3]", "Do not store nodes in attributes"),
]

NOT_A_FUNCTION_OF_X_AND_STATES = [
    step("a node of another step",
         "then = getattr(self, 'last', h)\nself.last = gn.tanh(h)  # here\nreturn self.last + then  # here",
         "a node of another step"),
    of("h + self.context", "reads context[3]", "pass other values as a part of x",
       more=INIT + "self.context = gn.input((3,), name='context')  # here"),
    of("h * np.random.default_rng().random(3).astype(x.dtype)", "self.dropout(name, a, share)"),
    step("a counter",
         "self.t = getattr(self, 't', 0) + 1\nreturn gn.tanh(h) if self.t % 2 else gn.sigmoid(h)  # here",
         "Sigmoid[1, 3] is computed at", "instead of Tanh[1, 3]"),
]

PYTHON = [
    step("h[:, 0] = 1", "h[:, 0] = 1  # here\nreturn h", "immutable", "gn.where", error=ValueAccessError),
    of("np.tanh(h)", "h[1, 3]", "not an array", "gn.tanh", error=ValueAccessError),
    of("np.where(h > 0, h, 0)", "Greater[1, 3]", "gn.where(condition, a, b)", error=ValueAccessError),
    of("math.tanh(h)", "not a number", "gn.tanh for math.tanh", error=ValueAccessError),
    of("gn.where(h > 0 and h < 1, h, 0)", "Greater[1, 3]", "& | ~ for and, or, not", error=ValueAccessError),
    of("h if x in h else x", "not a container", error=ValueAccessError),
    of("gn.where(h & (h < 1), h, 0)", "& takes booleans", "compare it first, (x > 0)", error=DtypeError),
    of("gn.where(~h, h, 0)", "~ takes booleans", "gn.logical_not(...)", error=DtypeError),
    of("h // 2", "Nodes have + - * / % ** @"),
    of("h - h.sum(axis=1)", "h[1, 3]", "no attribute 'sum'", "write gn.sum(node, ...)"),
    of("h.softmaxx()", "'softmaxx'", "functions, e.g. gn.tanh(node)"),
    of("h(x)", "TypeError in MyCell.step", "'Node' object is not callable"),
    of("self.step(x, h)", "RecursionError in MyCell.step"),
]

PARTS = [
    of("self.part('a', rnn.Elman, 5).advance(x, [h])[0]", "a cell, not the class Elman"),
    of("self.part('a', rnn.Elman(3), 4).advance(x, [h])[0]", "Elman (layer0.a) reads 4 values", "x[1, 5]"),
    of("self.part('a', rnn.Elman(3), 5).advance(x, h)[0]", "needs 1 state(s)", "write advance(x, [h])"),
    of("self.part('a', rnn.Elman(4), 5).advance(x, [h])[0]", "the state h is [1, 4]", "h[1, 3] was given"),
    of("self.part('a', Inner(3), 5).advance(x, [h])[0]", "Inner.step (at", use=INNER + NETWORK),
    of("self.inner(x, h)", "Elman was called as a function", ".advance(x, states)",
       more=INIT + "self.inner = rnn.Elman(units)"),
]

USES = [
    of("self.affine('h', x=x, h=h)", "used outside of a network", "cell.bind(inputs=...)",
       use="return MyCell(3).step(gn.input((1, 5)), gn.input((1, 3)))"),
    step("called outside of a network", "return h", "MyCell was called as a function", "rnn.Network([...])",
         use="return MyCell(3)(gn.input((1, 5)), gn.input((1, 3)))  # here"),
    step("the class", "return h", "MyCell(128)", use="return rnn.Network([MyCell], 5, 5)", error=UsageError),
]
# fmt: on

KINDS = {
    "returns": RETURNS, "declarations": DECLARATIONS, "equations": EQUATIONS, "weights": WEIGHTS,
    "no function of x and the states": NOT_A_FUNCTION_OF_X_AND_STATES, "Python's own": PYTHON, "parts": PARTS,
    "uses": USES,
}  # fmt: skip


def loaded(folder: Path, row: Row, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module my_cells of a file in a new folder."""
    folder.mkdir()
    file = folder / "my_cells.py"
    file.write_text(HEAD + row.code + USE.format(use=row.use), encoding="utf-8")
    spec: Any = importlib.util.spec_from_file_location("my_cells", file)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "my_cells", module)
    spec.loader.exec_module(module)
    return module


def require_lines(folder: Path, message: str) -> None:
    """The message names the lines of my_cells.py that end in `# here`."""
    for number, line in enumerate((folder / "my_cells.py").read_text(encoding="utf-8").splitlines(), 1):
        assert not line.endswith("# here") or re.search(rf"my_cells\.py:{number}\b", message), message


@pytest.mark.filterwarnings("ignore:Bitwise inversion")  # Python 3.12 and newer say it of ~True as well
@pytest.mark.parametrize("kind", KINDS)
def test_mistake_is_reported_with_its_line_and_remedy(kind, tmp_path, monkeypatch) -> None:
    for number, row in enumerate(KINDS[kind]):
        folder = tmp_path / str(number)
        with case(row.name):
            with pytest.raises(GraphnetError) as caught:
                loaded(folder, row, monkeypatch).use()
            assert type(caught.value) is row.error
            assert not [part for part in row.parts if part not in str(caught.value)], str(caught.value)
            require_lines(folder, str(caught.value))


PARTIAL = """
def scaled(self, x, h, k):
    return k * self.affine("h", x=x, h=h)
step = functools.partialmethod(scaled, k=2.0)
"""
RIGHT = [
    step("h += ...", "h += self.affine('h', x=x)\nreturn h"),
    step("abs, len", "for k in 'ab':\n    h = abs(self.affine(k, h=h))\nreturn h / len(h.T)"),
    step("a list", "return [gn.tanh(h)]"),
    step("a state called as a method", "return weight * 2", takes="x, weight", states="rnn.State('weight'),"),
    step("other names for the states", "return s * 2", takes="x, s"),
    step("a node that is kept for a look", "self.gate = gn.sigmoid(h)\nreturn self.gate * h"),
    step("a kept constant", "return h * self.k", more=INIT + "self.k = gn.constant(np.ones(3, 'f'))"),
    step("a scalar weight", "return h * self.weight('alpha', ())"),
    step("a size by NumPy", "return h * self.weight('w', (np.int64(3),))"),
    step(
        "the same part twice",
        "e = self.part('e', rnn.Elman(3), 3)\nreturn e.advance(h, e.advance(h, [h])[1])[0]",
    ),
    of("self.part('r', rnn.cells.Residual(rnn.GRU(3)), 5).advance(x, [h])[1][0]"),
    declared("a partial method", PARTIAL),
]


def test_correct_cells_raise_no_error(tmp_path, monkeypatch) -> None:
    for number, row in enumerate(RIGHT):
        with case(row.name):
            u = loaded(tmp_path / str(number), row, monkeypatch).use()
            gn.gradient(u.cost, list(u.network.parameters.values()))


def test_cases_that_depend_on_each_other_are_found(tmp_path, monkeypatch) -> None:
    for number, other in enumerate(["gn.sum(a, axis=0)", "h[0]", "sum(h)"]):
        body = f"a = self.affine('h', x=x, h=h)\nreturn a - {other}  # here"
        folder = tmp_path / str(number)
        module = loaded(folder, step("", body), monkeypatch)
        with case(body):
            with pytest.raises(
                LawError, match="results for a case of a batch depend on other cases, at"
            ) as caught:
                rnn.testing.check_cell(module.MyCell)
            require_lines(folder, str(caught.value))


def test_check_cell_rejects_cells_that_cannot_be_stored(tmp_path, monkeypatch) -> None:
    """Random numbers of __init__, and settings without a default."""
    body = "return gn.tanh(self.affine('h', x=x) * self.mask.astype(x.dtype))"
    row = step("", body, more=INIT + "self.mask = np.random.default_rng().random(units)")
    with pytest.raises(LawError, match="when it is recreated from its settings"):
        rnn.testing.check_cell(loaded(tmp_path / "random", row, monkeypatch).MyCell)
    more = "def __init__(self, units, *, speed):\n    super().__init__(units)\n    self.speed = speed"
    row = step("", "return gn.tanh(self.affine('h', x=x, h=h)) * self.speed", more=more)
    module = loaded(tmp_path / "settings", row, monkeypatch)
    with pytest.raises(UsageError, match=r"without settings .*'units'.*: give check_cell an instance"):
        rnn.testing.check_cell(module.MyCell)
    rnn.testing.check_cell(module.MyCell(3, speed=0.5))


def test_check_cell_compares_an_own_sequence_with_steps() -> None:
    class Doubled(rnn.Elman):
        def sequence(self, *args: Any, **kwargs: Any) -> Any:
            outputs, after = super().sequence(*args, **kwargs)
            return [2 * y for y in outputs], after

    with pytest.raises(LawError, match="sequence = plain loop fails"):
        rnn.testing.check_cell(Doubled)


def test_check_cell_compares_read_off_with_outputs() -> None:
    class Doubled(rnn.Elman):
        def read_off(self, states: Sequence[gn.Node]) -> gn.Node:
            return 2 * states[0]

    with pytest.raises(LawError, match=r"read_off\(states after a step\) = output fails"):
        rnn.testing.check_cell(Doubled)


def test_functions_named_in_hints_exist() -> None:
    node = gn.input((2, 3), name="h")
    for name, instead in INSTEAD_OF_METHODS.items():
        with case(name):
            assert all(hasattr(gn, function) for function in re.findall(r"gn\.(\w+)", instead))
            with pytest.raises(AttributeError, match=re.escape(f"{name!r}; write {instead}.")):
                getattr(node, name)
