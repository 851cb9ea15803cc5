"""Mistakes in a cell of one's own: each is an error that names the user's line, what was found, and the remedy.

Each row is written into a real file my_cells.py. The lines that the message must name end in `# here`.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.errors import DtypeError, GraphnetError, ShapeError, ValueAccessError
from graphnet.graph.node import INSTEAD_OF_METHODS
from graphnet.testing import LawError
from graphnet_rnn.errors import CellError, UsageError

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
    use: str = NETWORK


def step(
    name: str,
    body: str,
    error: type[Exception],
    *parts: str,
    takes: str = "x, h",
    states: str = ONE,
    more: str = "",
    use: str = NETWORK,
) -> Row:
    """A cell with this body of `step`."""
    code = (
        f"class MyCell(rnn.Cell):\n    states = ({states})\n{textwrap.indent(textwrap.dedent(more), '    ')}\n"
        f"    def step(self, {takes}):\n{textwrap.indent(textwrap.dedent(body).strip(), '        ')}\n"
    )
    return Row(name, code, error, parts, use)


def of(equation: str, error: type[Exception], *parts: str, **others: str) -> Row:
    """A cell that returns this."""
    return step(equation, f"return {equation}  # here", error, *parts, **others)


def whole(name: str, code: str, error: type[Exception], *parts: str, use: str = NETWORK) -> Row:
    """A class that is written out."""
    return Row(name, textwrap.dedent(code).lstrip("\n"), error, parts, use)


def in_init(*lines: str) -> str:
    """An __init__ of these lines."""
    return "\n".join(["def __init__(self, units=3):", *(f"    {line}" for line in lines)])


SUPER = "super().__init__(units)"

RETURNS = [
    step(
        "a state is not returned",
        "h = gn.tanh(self.affine('h', x=x, h=h))\nreturn h  # here",
        CellError,
        "returned 1 value(s), but the cell declares 2 state(s)",
        "return the new h, the new c, in this order",
        takes="x, h, c",
        states=TWO,
    ),
    of("h, h", CellError, "returned 2 value(s)", "return the new h"),
    of(
        "c, h",
        CellError,
        "returned float32[1, 4] for the state h, which is float32[1, 3]",
        "Return the new h, the new c, in this order",
        takes="x, h, c",
        states='rnn.State("h"), rnn.State("c", 4)',
    ),
    of("0.0", CellError, "returned float where nodes are needed", "the new h"),
    of(
        "h, 0.0",
        CellError,
        "a float for the state c",
        "gn.fill(0, x.shape[:1] + (3,), x.dtype)",
        takes="x, h, c",
        states=TWO,
    ),
    of("np.zeros((1, 3))", CellError, "returned ndarray", "return the new h"),
    of("{'h': h}", CellError, "returned dict", "return the new h"),
    step("nothing", "h = gn.tanh(h)  # here", CellError, "returned NoneType", "return the new h"),
    step(
        "one of two returns",
        "if self.units > 2:\n    return h, h  # here\nreturn h  # here",
        CellError,
        "2 value(s)",
    ),
    step(
        "a generator",
        "yield h  # here",
        CellError,
        "is a generator",
        "def step(self, x, h)",
        "return the new",
    ),
    whole(
        "async",
        """
        class MyCell(rnn.Cell):
            states = (rnn.State("h"),)
            async def step(self, x, h):
                return h  # here
        """,
        CellError,
        "is async",
        "write def step(self, x, h)",
    ),
    of(
        "self.affine('h', x=x, units=4)",
        CellError,
        "float32[1, 4]",
        "float32[1, 3]",
        "Declare the width that it has",
    ),
    of(
        "gn.sum(self.affine('h', x=x, h=h), axis=0)",
        CellError,
        "float32[3] for the state h",
        "Its first axis must stay the batch",
    ),
    of(
        "gn.sum(self.affine('h', x=x, h=h), axis=0, keepdims=True)",
        CellError,
        "float32[1, 3] for the state h, which is float32[2, 3]",
        "Its first axis must stay the batch",
    ),
    step(
        "an output that is not returned",
        "return self.affine('h', x=x, h=h)  # here",
        CellError,
        "returned 1 value(s), but the cell declares an output and 1 state(s)",
        "return the new y, the new h, in this order",
        more="output = rnn.State('y', 4)",
    ),
]

DECLARATIONS = [
    whole(
        "step without self",
        """
        class MyCell(rnn.Cell):
            states = (rnn.State("h"),)
            def step(x, h):  # here
                return h
        """,
        CellError,
        "MyCell.step",
        "does not fit the declared states",
        "write step(self, x, h)",
    ),
    whole(
        "step misspelt",
        """
        class MyCell(rnn.Cell):  # here
            states = (rnn.State("h"),)
            def stepp(self, x, h):
                return h
        """,
        CellError,
        "needs a method step(self, x, h)",
        "its stepp may be meant",
    ),
    whole(
        "without super().__init__",
        """
        class MyCell(rnn.Cell):
            states = (rnn.State("h"),)
            def __init__(self, units):  # here
                self.units = units
            def step(self, x, h):
                return h
        """,
        CellError,
        "must call super().__init__(units, initial=initial)",
    ),
    whole(
        "arguments in another order",
        """
        class MyCell(rnn.Cell):
            states = (rnn.State("h"), rnn.State("c"))
            def step(self, x, c, h):  # here
                return h, c
        """,
        CellError,
        "in the order c, h, but they are declared as h, c",
        "write step(self, x, h, c)",
    ),
    whole(
        "no comma",
        """
        class MyCell(rnn.Cell):
            states = rnn.State("h")  # here
            def step(self, x, h):
                return h
        """,
        CellError,
        "not a tuple of State",
        "states = (State('h'),), with the comma",
    ),
    whole(
        "states are words",
        """
        class MyCell(rnn.Cell):
            states = ("h", "c")  # here
            def step(self, x, h, c):
                return h, c
        """,
        CellError,
        "states is ('h', 'c'), not a tuple of State",
    ),
    whole(
        "no states",
        """
        class MyCell(rnn.Cell):
            state = (rnn.State("h"),)
            def step(self, x, h):  # here
                return h
        """,
        CellError,
        "declares no states",
        "states = (State('h'),)",
        "output = State('y')",
    ),
    whole(
        "a name twice",
        """
        class MyCell(rnn.Cell):
            states = (rnn.State("h"), rnn.State("h"))  # here
            def step(self, x, h, h2):
                return h, h2
        """,
        CellError,
        "declares h twice",
        "its own name",
    ),
    whole(
        "output is a word",
        """
        class MyCell(rnn.Cell):
            states = (rnn.State("h"),)
            output = "y"  # here
            def step(self, x, h):
                return h, h
        """,
        CellError,
        "output is 'y'",
        "output = State('y')",
    ),
    whole(
        "no such width",
        """
        class MyCell(rnn.Cell):
            states = (rnn.State("h", "slow"),)  # here
            def step(self, x, h):
                return h
        """,
        CellError,
        "the state h has the width 'slow'",
        "write self.slow = ...",
    ),
    whole(
        "a width that is no number",
        """
        class MyCell(rnn.Cell):
            states = (rnn.State("h", "slow"),)
            slow = "many"  # here
            def step(self, x, h):
                return h
        """,
        CellError,
        "the width of h is 'many'",
        "must be a whole number >= 1",
    ),
    *(
        whole(
            f"State({written})",
            f"""
            class MyCell(rnn.Cell):
                states = (rnn.State({written}),)  # here
                def step(self, x, h):
                    return h
            """,
            CellError,
            f"State({written.split(',')[0]})",
            remedy,
        )
        for written, remedy in [
            ("'h', 2.5", "a whole number >= 1 or the name of an attribute"),
            ("'h', None", "a whole number >= 1"),
            ("'h', 0", "a whole number >= 1"),
            ("'h', 'units', 3", "it is an initializer, e.g. rnn.initializers.zeros()"),
            ("3", "a state's name is a word"),
            ("'h t'", "a state's name is a word"),
            ("'x'", "a word other than x and self"),
        ]
    ),
    *(
        step(
            f"self.{name} = ...",
            "return self.affine('h', x=x)",
            CellError,
            f"MyCell sets {name} = 0.1",
            "give the setting another",
            more=in_init(SUPER, f"self.{name} = 0.1  # here"),
        )
        for name in ("dropout", "weight", "part", "step", "reads")
    ),
    step("weights = ...", "return h", CellError, "MyCell sets weights = 3", more="weights = 3  # here"),
    step(
        "a setting called cell",
        "return h",
        CellError,
        "a setting called cell",
        "e.g. inner",
        more="def __init__(self, units=3, cell=None):  # here\n    super().__init__(units)\n    self.cell = cell",
    ),
    step(
        "a setting that is not kept",
        "return h",
        CellError,
        "does not keep its argument 'speed'",
        "write self.speed = speed in __init__",
        more="def __init__(self, units=3, speed=2):  # here\n    super().__init__(units)",
        use="return repr(MyCell())",
    ),
    step(
        "a setting that no file holds",
        "return h",
        CellError,
        "the setting f is <",
        "let a name stand for anything else",
        more="def __init__(self, units=3, f=gn.tanh):\n    super().__init__(units)\n    self.f = f",
        use="return rnn.Network([MyCell()], 5, 5).settings()",
    ),
]

EQUATIONS = [
    of("x + h", ShapeError, "x[1, 5]", "h[1, 3]", "do not broadcast", "in MyCell.step"),
    step(
        "h @ W of another inner size",
        "W = self.weight('W', (4, 3))  # here\nreturn h @ W  # here",
        ShapeError,
        "axis k is 3 in input 1 but 4 in input 2",
        "h[1, 3]",
        "W[4, 3]",
    ),
    of("gn.reshape(h, (1, 3))", ShapeError, "[1, 3]", "6 elements"),
    of("self.affine('h', h=1.0)", CellError, "h=...) at", "is a float, not a node"),
    of("self.diagonal('h', h=np.ones(3))", CellError, "is a ndarray, not a node"),
    of("self.product('h', 'h', 2.0)", CellError, "is a float, not a node"),
    of("self.normalized('h', 2.0)", CellError, "is a float, not a node"),
    of("self.dropout('h', 2.0, 0.5)", CellError, "is a float, not a node"),
    of("self.affine('h', h=h[:, None])", CellError, "shape [1, 1, 3]", "(batch, width)"),
    of("self.affine('h')", CellError, "no sources; name them", "affine('h', x=x, h=h)"),
    of("self.affine('h', x, h)", CellError, "without names; name them"),
    of("self.diagonal('h', h)", CellError, "without names; name them"),
    of("self.affine(x, h=h)", CellError, "begins with x[1, 5]", "affine('h', ...)"),
    of("self.product('h', h, 'h')", CellError, "begins with h[1, 3]"),
    of("self.normalized(h, 'h')", CellError, "begins with h[1, 3]", "a str"),
    of("self.affine('h', x=x, biass=None)", CellError, "biass=", "NoneType", "bias= may be meant"),
    of("self.affine('h', x=x, unit=4)", CellError, "unit=...", "int", "units= may be meant"),
    of("self.affine('h', x=x, bias=False)", CellError, "bias=False", "bias=None is no bias"),
    of("self.affine('h', x=x, bias='zeros')", CellError, "'zeros'", "an initializer"),
    of("self.affine('h', x=x, units='many')", UsageError, "units must be a whole", "'many'"),
    of("self.dropout('h', h, 1.5)", UsageError, "must be in [0, 1), not 1.5"),
    of("h + c", CellError, "name 'c' is not defined", "given x, h", "another State"),
    of("self.h + h", CellError, "no attribute 'h'", "arguments of step: write h"),
    of("gn.tahn(h)", CellError, "AttributeError in MyCell.step", "'tahn'"),
    of("super().step(x, h)", CellError, "needs a method step(self, x, h)"),
    step(
        "float64 constant",
        "k = np.ones(3)\nreturn self.affine('h', x=x) * k  # here",
        CellError,
        "array.astype(x.dtype)",
    ),
    step(
        "float64 constant, some lines before",
        "a = h * np.ones(3)  # here\nreturn self.affine('h', x=x, h=a)  # here",
        CellError,
        "returned float64[1, 3] for the state h, which is float32[1, 3]",
        "by Constant[3]",
    ),
    of("h * np.arange(3)", DtypeError, "float32 with int64", "gn.cast"),
]

WEIGHTS = [
    step(
        "two shapes",
        "a = self.affine('h', x=x)  # here\nreturn self.affine('h', x=a)  # here",
        CellError,
        "W_xh is used with shape [3, 3]",
        "declared with shape [5, 3]",
        "another name",
    ),
    step(
        "bias and matrix of one name",
        "a = self.affine('h', x=x)  # here\nreturn a + h @ self.weight('b_h', (3, 3))  # here",
        CellError,
        "b_h is used with shape [3, 3]",
        "with shape [3] at",
    ),
    of(
        "h * self.weight('w', h.shape)",
        CellError,
        "used with shape [2, 3]",
        "write x.shape[1], not x.shape",
    ),
    of("h * self.weight('w', 3)", CellError, "shape 3", "(self.units,)"),
    of("h * self.weight('w', (3.0,))", CellError, "(3.0,)", "a tuple of sizes"),
    of("h * self.weight(3, (3,))", CellError, "begins with 3", "a str"),
    of(
        "h * self.weight('w', (3,), lambda generator, shape: np.zeros(2))",
        CellError,
        "the initializer of w gave shape [2], not [3]",
        "the shape that it is asked for",
    ),
    of("h * self.weight('w', (3,), np.ones(3))", CellError, ".array(values)"),
    of("h * self.weight('w', (3,), 0.5)", CellError, ".constant(0.5)"),
    of(
        "h * self.weight('w', (3,), rnn.initializers.zeros)",
        CellError,
        "the initializer of w failed for the shape [3]",
        "with its parentheses",
    ),
    of(
        "h @ self.weight('w', (3, 3), rnn.initializers.sparse)",
        CellError,
        "the initializer of w failed",
        "with its parentheses",
    ),
    of("h * self.weight('w', (3,), rnn.initializers.orthogonal())", CellError, "[3]"),
    of(
        "h * self.weight('w', (3,), rnn.initializers.constant(math.nan))",
        CellError,
        "not finite",
    ),
    step(
        "initially is no initializer",
        "return self.affine('h', x=x, h=h)",
        CellError,
        "initially is {'W_*': 0.1}",
        "initially = {'W_*': rnn.initializers.normal(0.1)}",
        more="initially = {'W_*': 0.1}  # here",
    ),
    step(
        "initially is for no weight",
        "return self.affine('h', x=x, h=h)",
        CellError,
        "initially names 'Wh_*', but no weight is called so; there are W_xh, W_hh, b_h",
        more="initially = {'Wh_*': rnn.initializers.zeros()}  # here",
    ),
    step(
        "initial is for no weight",
        "return self.affine('h', x=x, h=h)",
        CellError,
        "'W_z*', but no weight is called so; there are W_xh, W_hh, b_h",
        use="return MyCell(3, initial={'W_z*': rnn.initializers.zeros()}).bind(5)",
    ),
    step(
        "initial is an initializer",
        "return h",
        CellError,
        "it holds initializers by the names of weights",
        use="return MyCell(3, initial=rnn.initializers.zeros())  # here",
    ),
    step(
        "a weight that comes later",
        """
        self.seen = getattr(self, "seen", 0) + 1
        h = self.affine("h", x=x, h=h)
        return h + self.weight("late", (3,)) if self.seen > 1 else h  # here
        """,
        CellError,
        "the weight late first appears after the first step",
        "do not declare them conditionally",
    ),
    step(
        "gn.parameter in step",
        "W = gn.parameter(np.ones((3, 3), 'float32'), name='W')  # here\nreturn h @ W",
        CellError,
        "reads the parameter W[3, 3]",
        "no training would change it",
        "self.weight(name, shape, initial)",
    ),
    step(
        "gn.parameter in __init__",
        "return h @ self.W",
        CellError,
        "reads the parameter W[3, 3]",
        "self.weight(name, shape, initial)",
        more=in_init(SUPER, "self.W = gn.parameter(np.ones((3, 3), 'float32'), name='W')  # here"),
    ),
    step(
        "a weight that is kept",
        "self.kept = getattr(self, 'kept', None) or [self.weight('W', (3, 3)) * 2]  # here\nreturn h @ self.kept[0]",
        CellError,
        "reads the parameter layer0.W[3, 3]",
        "keep no nodes in attributes",
    ),
]

NOT_A_FUNCTION_OF_X_AND_STATES = [
    step(
        "a node of another step",
        """
        before = getattr(self, "last", h)
        self.last = gn.tanh(self.affine("h", x=x, h=h))  # here
        return self.last + before  # here
        """,
        CellError,
        "was kept from another step",
        "is a state, declared and returned",
    ),
    step(
        "gn.input in step",
        "noise = gn.input((1, 3), name='noise')  # here\nreturn h + noise  # here",
        CellError,
        "reads noise[1, 3]",
        "what comes from outside is a part of x",
    ),
    of(
        "h + self.context",
        CellError,
        "reads context[3]",
        "what comes from outside is a part of x",
        more=in_init(SUPER, "self.context = gn.input((3,), name='context')  # here"),
    ),
    of(
        "h * np.random.default_rng().random(3).astype(x.dtype)",
        CellError,
        "the constant Constant[3]",
        "is another one when step runs again",
        "self.dropout(name, a, share)",
    ),
    step(
        "Python's random numbers",
        "import random\nreturn h * random.random()  # here",
        CellError,
        "is another one when step runs again",
    ),
    step(
        "a counter",
        "self.t = getattr(self, 't', 0) + 1\nreturn gn.tanh(h) if self.t % 2 else gn.sigmoid(h)  # here",
        CellError,
        "Sigmoid[1, 3] is computed at",
        "where Tanh[1, 3] was before",
        "the same function at every time step",
    ),
]

PYTHON = [
    step(
        "h[:, 0] = 1", "h[:, 0] = 1  # here\nreturn h", ValueAccessError, "h[1, 3]", "immutable", "gn.where"
    ),
    step("h[:, :2] += 1", "h[:, :2] += 1  # here\nreturn h", ValueAccessError, "immutable", "gn.concatenate"),
    step(
        "h.value[...] = 1",
        "h.value[...] = 1  # here\nreturn h",
        ValueAccessError,
        "h[1, 3]",
        "holds no value",
    ),
    step(
        "np.add(out=)",
        "np.add(h, 1, out=h)  # here\nreturn h",
        ValueAccessError,
        "not an array",
        "gn.tanh",
    ),
    of("np.tanh(h)", ValueAccessError, "h[1, 3]", "not an array", "gn.tanh"),
    of("h * np.sum(h)", ValueAccessError, "h[1, 3]", "not an array", "graphnet's functions"),
    of("np.concatenate([h, x], 1)", ValueAccessError, "not an array", "graphnet's functions"),
    of("np.where(h > 0, h, 0)", ValueAccessError, "Greater[1, 3]", "gn.where(condition, a, b)"),
    of("math.tanh(h)", ValueAccessError, "not a number", "gn.tanh for math.tanh"),
    of("h * float(h)", ValueAccessError, "not a number"),
    of("h * int(h)", ValueAccessError, "not a number"),
    of("[h for _ in range(h)][0]", ValueAccessError, "not an index"),
    step(
        "if",
        "if h > 0:  # here\n    h = -h\nreturn h",
        ValueAccessError,
        "not a truth value",
        "gn.where(condition, a, b)",
    ),
    step("while", "while h < 1:  # here\n    h = 2 * h\nreturn h", ValueAccessError, "not a truth value"),
    of("gn.where(h > 0 and h < 1, h, 0)", ValueAccessError, "Greater[1, 3]", "& | ~ for and, or, not"),
    of("h or x", ValueAccessError, "h[1, 3]", "& | ~ for and, or, not"),
    of("not h", ValueAccessError, "not a truth value"),
    of("h if x in h else x", ValueAccessError, "not a container"),
    of("max(h, 0)", ValueAccessError, "not a truth value", "gn.maximum for max"),
    of("gn.where(h & (h < 1), h, 0)", DtypeError, "& is for booleans", "h[1, 3]", "compare it, (x > 0)"),
    of("gn.where(h == 0, h, 0)", ValueAccessError, "h[1, 3]", "is compared with 0", "write gn.equal(a, b)"),
    of("gn.where(h != 0, h, 0)", ValueAccessError, "is compared with 0", "~gn.equal(a, b) for !="),
    of("gn.where(h == x, h, 0)", ValueAccessError, "where is given Python's False", "gn.equal(a, b)"),
    of(
        "gn.where((h == x) & (h > 0), h, 0)",
        ValueAccessError,
        "LogicalAnd is given Python's False",
        "gn.equal(a, b)",
    ),
    of("gn.where(~(h == x), h, 0)", ValueAccessError, "where is given Python's -1", "gn.equal(a, b)"),
    of(
        "gn.where(gn.logical_not(h == x), h, 0)",
        ValueAccessError,
        "LogicalNot is given Python's",
        "gn.equal(a, b)",
    ),
    of("(h == x) * h", ValueAccessError, "Multiply is given Python's False", "gn.equal(a, b)"),
    of("gn.cast(h == x, 'float32')", ValueAccessError, "cast is given Python's False", "gn.equal(a, b)"),
    of("gn.where(True, h, 0)", ValueAccessError, "x if flag else y"),
    of("gn.where(~h, h, 0)", DtypeError, "~ is for booleans", "gn.logical_not(...)"),
    of("h // 2", CellError, "Nodes have + - * / % ** @"),
    of("h - h.sum(axis=1)", CellError, "h[1, 3]", "no attribute 'sum'", "write gn.sum(node, ...)"),
    of("h.reshape(-1)", CellError, "'reshape'", "write gn.reshape(node, ...)"),
    of("h.astype('float32')", CellError, "'astype'", "write gn.cast(node, dtype)"),
    of("h.detach()", CellError, "'detach'", "write gn.stop_gradient(node)"),
    of("h.dot(h)", CellError, "'dot'", "write node @ other"),
    of("h.softmaxx()", CellError, "'softmaxx'", "functions, e.g. gn.tanh(node)"),
    of("h(x)", CellError, "TypeError in MyCell.step", "'Node' object is not callable"),
    of("self.step(x, h)", CellError, "RecursionError in MyCell.step"),
]

PARTS = [
    of(
        "self.part('a', rnn.Elman, 5).advance(x, [h])[0]",
        CellError,
        "the class Elman, not a cell",
        "self.part('a', rnn.GRU(64), x.shape[1])",
    ),
    of(
        "self.part('a', rnn.Elman(3), 4).advance(x, [h])[0]",
        CellError,
        "Elman (layer0.a) reads 4 values",
        "x[1, 5]",
    ),
    of(
        "self.part('a', rnn.Elman(3), 5).advance(x, h)[0]",
        CellError,
        "has 1 state(s), but was given h[1, 3]",
        "write advance(x, [h])",
    ),
    of(
        "self.part('a', rnn.LSTM(3), 5).advance(x, [h])[0]",
        CellError,
        "has 2 state(s), but was given 1 of them",
        "write advance(x, [h, c])",
    ),
    of(
        "self.part('a', rnn.Elman(4), 5).advance(x, [h])[0]",
        CellError,
        "the state h is [1, 4]",
        "h[1, 3] was given",
    ),
    of(
        "self.part('a', Inner(3), 5).advance(x, [h])[0]",
        CellError,
        "Inner.step (at",
        "returned 2 value(s)",
        more="pass\n",
        use="""
    class Inner(rnn.Cell):
        states = (rnn.State("h"),)
        def step(self, x, h):
            return h, h  # here
    globals()["Inner"] = Inner
    """
        + NETWORK,
    ),
    of(
        "self.inner.step(x, h)",
        CellError,
        "Elman is used outside of a network",
        "self.part(name, cell, reads)",
        more=in_init(SUPER, "self.inner = rnn.Elman(units)"),
    ),
    of(
        "self.inner(x, h)",
        CellError,
        "Elman is called as a function",
        "self.part(name, cell, x.shape[1]).advance(x, states)",
        more=in_init(SUPER, "self.inner = rnn.Elman(units)"),
    ),
    step(
        "a cell with weights of its own",
        "return self.inner.step(x, h)",
        CellError,
        "reads the parameter layer0.W_xh[5, 3]",
        "self.part(name, cell, reads)",
        more=in_init(SUPER, "self.inner = rnn.Elman(units).bind(5)"),
    ),
]

USES = [
    of(
        "self.affine('h', x=x, h=h)",
        CellError,
        "used outside of a network",
        "rnn.Network([...])",
        "cell.bind(inputs=...)",
        use="return MyCell(3).step(gn.input((1, 5)), gn.input((1, 3)))",
    ),
    step(
        "called outside of a network",
        "return h",
        CellError,
        "MyCell is called as a function",
        "rnn.Network([...])",
        use="return MyCell(3)(gn.input((1, 5)), gn.input((1, 3)))  # here",
    ),
    step("the class", "return h", UsageError, "e.g. MyCell(128)", use="return rnn.Network([MyCell], 5, 5)"),
    step(
        "units='many'",
        "return h",
        UsageError,
        "whole number >= 1, not 'many'",
        use="return MyCell(units='many')",
    ),
]

ROWS = [
    *RETURNS,
    *DECLARATIONS,
    *EQUATIONS,
    *WEIGHTS,
    *NOT_A_FUNCTION_OF_X_AND_STATES,
    *PYTHON,
    *PARTS,
    *USES,
]


def loaded(folder: Path, code: str, use: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module my_cells of a file in the folder."""
    file = folder / "my_cells.py"
    file.write_text(HEAD + code + USE.format(use=use))
    spec = importlib.util.spec_from_file_location("my_cells", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "my_cells", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore:Bitwise inversion")  # Python 3.12 and newer say it of ~True as well
@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_mistake_is_told_with_its_line_and_remedy(
    row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(GraphnetError) as caught:
        loaded(tmp_path, row.code, row.use, monkeypatch).use()
    message = str(caught.value)
    assert type(caught.value) is row.error
    for part in row.parts:
        assert part in message, f"{part!r} is not in\n{message}"
    lines = (tmp_path / "my_cells.py").read_text(encoding="utf-8").splitlines()
    wanted = {number for number, line in enumerate(lines, 1) if line.endswith("# here")}
    told = {int(number) for number in re.findall(r"my_cells\.py:(\d+)", message)}
    assert wanted <= told, f"lines {sorted(wanted - told)} are not named in\n{message}"


def test_names_are_distinct() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)


RIGHT = [
    step("h += ...", "h += self.affine('h', x=x)\nreturn h", CellError),
    step(
        "abs, len, a loop over names",
        "for k in 'ab':\n    h = abs(self.affine(k, h=h))\nreturn h / len(h.T)",
        CellError,
    ),
    step("a list", "return [gn.tanh(h)]", CellError),
    step(
        "a state called as a method",
        "return weight * 2",
        CellError,
        takes="x, weight",
        states="rnn.State('weight'),",
    ),
    step("other names for the states", "return s * 2", CellError, takes="x, s"),
    step("a node that is kept for a look", "self.gate = gn.sigmoid(h)\nreturn self.gate * h", CellError),
    step(
        "a constant that is kept",
        "return h * self.k",
        CellError,
        more=in_init(SUPER, "self.k = gn.constant(np.ones(3, 'f'))"),
    ),
    step("a scalar weight", "return h * self.weight('alpha', ())", CellError),
    step("a size by NumPy", "return h * self.weight('w', (np.int64(3),))", CellError),
    step(
        "the same part twice",
        "e = self.part('e', rnn.Elman(3), 3)\nreturn e.advance(h, e.advance(h, [h])[1])[0]",
        CellError,
    ),
    step(
        "a part of a part",
        "return self.part('r', rnn.cells.Residual(rnn.GRU(3)), 5).advance(x, [h])[1][0]",
        CellError,
    ),
    whole(
        "a lambda",
        """
        class MyCell(rnn.Cell):
            states = (rnn.State("h"),)
            step = lambda self, x, h: gn.tanh(h)
        """,
        CellError,
    ),
    whole(
        "a partial method",
        """
        class MyCell(rnn.Cell):
            states = (rnn.State("h"),)
            def scaled(self, x, h, k):
                return k * self.affine("h", x=x, h=h)
            step = functools.partialmethod(scaled, k=2.0)
        """,
        CellError,
    ),
]


@pytest.mark.parametrize("row", RIGHT, ids=[row.name for row in RIGHT])
def test_what_looks_like_a_mistake_and_is_none(
    row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that works is refused."""
    u = loaded(tmp_path, row.code, row.use, monkeypatch).use()
    assert isinstance(u, rnn.Unrolled)
    gn.gradient(u.cost, list(u.network.parameters.values()))


# -- what only numbers show: check_cell ----------------------------------------------------------------

MIXED = {
    "a sum over the batch": "return h - gn.sum(self.affine('h', x=x, h=h), axis=0)  # here",
    "the first case": "a = self.affine('h', x=x, h=h)\nreturn a + h[0]  # here",
    "Python's sum": "a = self.affine('h', x=x, h=h)\nreturn a + sum(h)  # here",
}


@pytest.mark.parametrize("body", MIXED.values(), ids=MIXED)
def test_cases_that_depend_on_each_other_are_found(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = step("", body, LawError)
    module = loaded(tmp_path, row.code, row.use, monkeypatch)
    with pytest.raises(LawError, match="a case of a batch is computed from the others, at") as caught:
        rnn.testing.check_cell(module.MyCell)
    lines = (tmp_path / "my_cells.py").read_text(encoding="utf-8").splitlines()
    (here,) = [number for number, line in enumerate(lines, 1) if line.endswith("# here")]
    assert f"my_cells.py:{here} (" in str(caught.value)


def test_random_numbers_in_init_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stored model would have others when it is loaded."""
    more = in_init(SUPER, "self.mask = np.random.default_rng().random(units)")
    row = step("", "return gn.tanh(self.affine('h', x=x) * self.mask.astype(x.dtype))", LawError, more=more)
    module = loaded(tmp_path, row.code, row.use, monkeypatch)
    with pytest.raises(LawError, match="when it is made again from its settings"):
        rnn.testing.check_cell(module.MyCell)


def test_a_class_that_needs_settings_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = "def __init__(self, units, *, speed):\n    super().__init__(units)\n    self.speed = speed"
    row = step("", "return gn.tanh(self.affine('h', x=x, h=h)) * self.speed", UsageError, more=more)
    module = loaded(tmp_path, row.code, row.use, monkeypatch)
    with pytest.raises(
        UsageError, match="MyCell cannot be made without units, speed: give check_cell an instance"
    ):
        rnn.testing.check_cell(module.MyCell)
    rnn.testing.check_cell(module.MyCell(3, speed=0.5))


# -- the engine's own hints ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", INSTEAD_OF_METHODS)
def test_what_the_hints_name_is_there(name: str) -> None:
    instead = INSTEAD_OF_METHODS[name]
    for function in re.findall(r"gn\.(\w+)", instead):
        assert hasattr(gn, function)
    node = gn.input((2, 3), name="h")
    assert not hasattr(node, name)
    with pytest.raises(AttributeError, match=re.escape(f"has no attribute {name!r}; write {instead}.")):
        getattr(node, name)


# -- the how-to --------------------------------------------------------------------------------------------


def test_code_of_the_how_to_runs() -> None:
    """As a reader would paste it; every method that its table names is there."""
    text = (Path(rnn.__file__).parents[1] / "docs" / "declaring_cells.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    namespace: dict[str, object] = {"__name__": "how_to"}
    exec(compile(block, "docs/declaring_cells.md", "exec"), namespace)
    assert isinstance(namespace["net"], rnn.Network)
    for name in re.findall(r"self\.(\w+)\(", text):
        assert callable(getattr(rnn.Cell, name))
    for name in re.findall(r"gn\.(\w+)", text):
        assert hasattr(gn, name)
