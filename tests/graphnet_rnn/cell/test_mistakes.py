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
    use: str = NETWORK


def step(
    name: str,
    body: str,
    *parts: str,
    takes: str = "x, h",
    states: str = ONE,
    more: str = "",
    use: str = NETWORK,
    error: type[Exception] = CellError,
) -> Row:
    """A cell with this body of `step`."""
    code = (
        f"class MyCell(rnn.Cell):\n    states = ({states})\n{textwrap.indent(textwrap.dedent(more), '    ')}\n"
        f"    def step(self, {takes}):\n{textwrap.indent(textwrap.dedent(body).strip(), '        ')}\n"
    )
    return Row(name, code, error, parts, use)


def of(equation: str, *parts: str, **others: Any) -> Row:
    """A cell that returns this."""
    return step(equation, f"return {equation}  # here", *parts, **others)


def whole(name: str, code: str, *parts: str) -> Row:
    """A class that is written out."""
    return Row(name, textwrap.dedent(code).lstrip("\n"), CellError, parts)


def in_init(*lines: str) -> str:
    """An __init__ of these lines."""
    return "\n".join(["def __init__(self, units=3):", *(f"    {line}" for line in lines)])


SUPER = "super().__init__(units)"

RETURNS = [
    step(
        "a state is not returned",
        "h = gn.tanh(self.affine('h', x=x, h=h))\nreturn h  # here",
        "returned 1 value(s), but the cell declares 2 state(s)",
        "return the new h, the new c, in this order",
        takes="x, h, c",
        states=TWO,
    ),
    of(
        "c, h",
        "returned float32[1, 4] for the state h, which is float32[1, 3]",
        "Return the new h, the new c, in this order",
        takes="x, h, c",
        states='rnn.State("h"), rnn.State("c", 4)',
    ),
    of(
        "h, 0.0",
        "a float for the state c",
        "gn.fill(0, x.shape[:1] + (3,), x.dtype)",
        takes="x, h, c",
        states=TWO,
    ),
    step("nothing", "h = gn.tanh(h)  # here", "returned NoneType", "return the new h"),
    step("a generator", "yield h  # here", "is a generator", "def step(self, x, h)", "return the new"),
    whole(
        "async",
        """
        class MyCell(rnn.Cell):
            states = (rnn.State("h"),)
            async def step(self, x, h):
                return h  # here
        """,
        "is async",
        "write def step(self, x, h)",
    ),
    of("self.affine('h', x=x, units=4)", "float32[1, 4]", "float32[1, 3]", "Declare the width that it has"),
    of(
        "gn.sum(self.affine('h', x=x, h=h), axis=0, keepdims=True)",
        "float32[1, 3] for the state h, which is float32[2, 3]",
        "Its first axis must stay the batch",
    ),
    step(
        "an output that is not returned",
        "return self.affine('h', x=x, h=h)  # here",
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
        "not a tuple of State",
        "states = (State('h'),), with the comma",
    ),
    whole(
        "no states",
        """
        class MyCell(rnn.Cell):
            state = (rnn.State("h"),)
            def step(self, x, h):  # here
                return h
        """,
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
        "the state h has the width 'slow'",
        "write self.slow = ...",
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
            f"State({written.split(',')[0]})",
            remedy,
        )
        for written, remedy in [
            ("'h', 2.5", "a whole number >= 1 or the name of an attribute"),
            ("'h', 'units', 3", "it is an initializer, e.g. rnn.initializers.zeros()"),
            ("3", "a state's name is a word"),
            ("'x'", "a word other than x and self"),
        ]
    ),
    *(
        step(
            f"self.{name} = ...",
            "return self.affine('h', x=x)",
            f"MyCell sets {name} = 0.1",
            "give the setting another",
            more=in_init(SUPER, f"self.{name} = 0.1  # here"),
        )
        for name in ("dropout", "weight", "part", "step", "reads")
    ),
    step(
        "a setting called cell",
        "return h",
        "a setting called cell",
        "e.g. inner",
        more="def __init__(self, units=3, cell=None):  # here\n    super().__init__(units)\n    self.cell = cell",
    ),
    step(
        "a setting that is not kept",
        "return h",
        "does not keep its argument 'speed'",
        "write self.speed = speed in __init__",
        more="def __init__(self, units=3, speed=2):  # here\n    super().__init__(units)",
        use="return repr(MyCell())",
    ),
    step(
        "a setting that no file holds",
        "return h",
        "the setting f is <",
        "let a name stand for anything else",
        more="def __init__(self, units=3, f=gn.tanh):\n    super().__init__(units)\n    self.f = f",
        use="return rnn.Network([MyCell()], 5, 5).settings()",
    ),
]

EQUATIONS = [
    of("x + h", "x[1, 5]", "h[1, 3]", "do not broadcast", "in MyCell.step", error=ShapeError),
    of("gn.reshape(h, (1, 3))", "[1, 3]", "6 elements", error=ShapeError),
    of("self.affine('h', h=1.0)", "h=...) at", "is a float, not a node"),
    of("self.product('h', 'h', 2.0)", "is a float, not a node"),
    of("self.normalized('h', 2.0)", "is a float, not a node"),
    of("self.dropout('h', 2.0, 0.5)", "is a float, not a node"),
    of("self.affine('h', h=h[:, None])", "shape [1, 1, 3]", "(batch, width)"),
    of("self.affine('h')", "no sources; name them", "affine('h', x=x, h=h)"),
    of("self.affine('h', x, h)", "without names; name them"),
    of("self.affine(x, h=h)", "begins with x[1, 5]", "affine('h', ...)"),
    of("self.affine('h', x=x, biass=None)", "biass=", "NoneType", "bias= may be meant"),
    of("self.affine('h', x=x, bias=False)", "bias=False", "bias=None is no bias"),
    of("self.affine('h', x=x, units='many')", "units must be a whole", "'many'", error=UsageError),
    of("self.dropout('h', h, 1.5)", "must be in [0, 1), not 1.5", error=UsageError),
    of("h + c", "name 'c' is not defined", "given x, h", "another State"),
    of("self.h + h", "no attribute 'h'", "arguments of step: write h"),
    of("gn.tahn(h)", "AttributeError in MyCell.step", "'tahn'"),
    step(
        "float64 constant",
        "k = np.ones(3)\nreturn self.affine('h', x=x) * k  # here",
        "array.astype(x.dtype)",
    ),
    step(
        "float64 constant, some lines before",
        "a = h * np.ones(3)  # here\nreturn self.affine('h', x=x, h=a)  # here",
        "returned float64[1, 3] for the state h, which is float32[1, 3]",
        "by Constant[3]",
    ),
]

WEIGHTS = [
    step(
        "two shapes",
        "a = self.affine('h', x=x)  # here\nreturn self.affine('h', x=a)  # here",
        "W_xh is used with shape [3, 3]",
        "declared with shape [5, 3]",
        "another name",
    ),
    of("h * self.weight('w', h.shape)", "used with shape [2, 3]", "write x.shape[1], not x.shape"),
    of("h * self.weight('w', 3)", "shape 3", "(self.units,)"),
    of("h * self.weight(3, (3,))", "begins with 3", "a str"),
    of(
        "h * self.weight('w', (3,), lambda generator, shape: np.zeros(2))",
        "the initializer of w gave shape [2], not [3]",
        "the shape that it is asked for",
    ),
    of("h * self.weight('w', (3,), np.ones(3))", ".array(values)"),
    of("h * self.weight('w', (3,), 0.5)", ".constant(0.5)"),
    of(
        "h * self.weight('w', (3,), rnn.initializers.zeros)",
        "the initializer of w failed for the shape [3]",
        "with its parentheses",
    ),
    of("h * self.weight('w', (3,), rnn.initializers.orthogonal())", "[3]"),
    of("h * self.weight('w', (3,), rnn.initializers.constant(math.nan))", "not finite"),
    step(
        "initially is no initializer",
        "return self.affine('h', x=x, h=h)",
        "initially is {'W_*': 0.1}",
        "initially = {'W_*': rnn.initializers.normal(0.1)}",
        more="initially = {'W_*': 0.1}  # here",
    ),
    step(
        "initially is for no weight",
        "return self.affine('h', x=x, h=h)",
        "initially names 'Wh_*', but no weight is called so; there are W_xh, W_hh, b_h",
        more="initially = {'Wh_*': rnn.initializers.zeros()}  # here",
    ),
    step(
        "initial is for no weight",
        "return self.affine('h', x=x, h=h)",
        "'W_z*', but no weight is called so; there are W_xh, W_hh, b_h",
        use="return MyCell(3, initial={'W_z*': rnn.initializers.zeros()}).bind(5)",
    ),
    step(
        "a weight that comes later",
        """
        self.seen = getattr(self, "seen", 0) + 1
        h = self.affine("h", x=x, h=h)
        return h + self.weight("late", (3,)) if self.seen > 1 else h  # here
        """,
        "the weight late first appears after the first step",
        "do not declare them conditionally",
    ),
    step(
        "gn.parameter in step",
        "W = gn.parameter(np.ones((3, 3), 'float32'), name='W')  # here\nreturn h @ W",
        "reads the parameter W[3, 3]",
        "no training would change it",
        "self.weight(name, shape, initial)",
    ),
    step(
        "a weight that is kept",
        "self.kept = getattr(self, 'kept', None) or [self.weight('W', (3, 3)) * 2]  # here\nreturn h @ self.kept[0]",
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
        "was kept from another step",
        "is a state, declared and returned",
    ),
    of(
        "h + self.context",
        "reads context[3]",
        "what comes from outside is a part of x",
        more=in_init(SUPER, "self.context = gn.input((3,), name='context')  # here"),
    ),
    of(
        "h * np.random.default_rng().random(3).astype(x.dtype)",
        "the constant Constant[3]",
        "is another one when step runs again",
        "self.dropout(name, a, share)",
    ),
    step(
        "a counter",
        "self.t = getattr(self, 't', 0) + 1\nreturn gn.tanh(h) if self.t % 2 else gn.sigmoid(h)  # here",
        "Sigmoid[1, 3] is computed at",
        "where Tanh[1, 3] was before",
        "the same function at every time step",
    ),
]

PYTHON = [
    step(
        "h[:, 0] = 1",
        "h[:, 0] = 1  # here\nreturn h",
        "h[1, 3]",
        "immutable",
        "gn.where",
        error=ValueAccessError,
    ),
    of("np.tanh(h)", "h[1, 3]", "not an array", "gn.tanh", error=ValueAccessError),
    of("np.where(h > 0, h, 0)", "Greater[1, 3]", "gn.where(condition, a, b)", error=ValueAccessError),
    of("math.tanh(h)", "not a number", "gn.tanh for math.tanh", error=ValueAccessError),
    of("h * float(h)", "not a number", error=ValueAccessError),
    of("[h for _ in range(h)][0]", "not an index", error=ValueAccessError),
    step(
        "if",
        "if h > 0:  # here\n    h = -h\nreturn h",
        "not a truth value",
        "gn.where(condition, a, b)",
        error=ValueAccessError,
    ),
    of("gn.where(h > 0 and h < 1, h, 0)", "Greater[1, 3]", "& | ~ for and, or, not", error=ValueAccessError),
    of("h if x in h else x", "not a container", error=ValueAccessError),
    of("max(h, 0)", "not a truth value", "gn.maximum for max", error=ValueAccessError),
    of(
        "gn.where(h & (h < 1), h, 0)", "& is for booleans", "h[1, 3]", "compare it, (x > 0)", error=DtypeError
    ),
    of(
        "gn.where(h == 0, h, 0)",
        "h[1, 3]",
        "is compared with 0",
        "write gn.equal(a, b)",
        error=ValueAccessError,
    ),
    of("gn.where(h == x, h, 0)", "where is given Python's False", "gn.equal(a, b)", error=ValueAccessError),
    of("gn.where(True, h, 0)", "x if flag else y", error=ValueAccessError),
    of("gn.where(~h, h, 0)", "~ is for booleans", "gn.logical_not(...)", error=DtypeError),
    of("h // 2", "Nodes have + - * / % ** @"),
    of("h - h.sum(axis=1)", "h[1, 3]", "no attribute 'sum'", "write gn.sum(node, ...)"),
    of("h.detach()", "'detach'", "write gn.stop_gradient(node)"),
    of("h.softmaxx()", "'softmaxx'", "functions, e.g. gn.tanh(node)"),
    of("h(x)", "TypeError in MyCell.step", "'Node' object is not callable"),
    of("self.step(x, h)", "RecursionError in MyCell.step"),
]

PARTS = [
    of(
        "self.part('a', rnn.Elman, 5).advance(x, [h])[0]",
        "the class Elman, not a cell",
        "self.part('a', rnn.GRU(64), x.shape[1])",
    ),
    of("self.part('a', rnn.Elman(3), 4).advance(x, [h])[0]", "Elman (layer0.a) reads 4 values", "x[1, 5]"),
    of(
        "self.part('a', rnn.Elman(3), 5).advance(x, h)[0]",
        "has 1 state(s), but was given h[1, 3]",
        "write advance(x, [h])",
    ),
    of(
        "self.part('a', rnn.LSTM(3), 5).advance(x, [h])[0]",
        "has 2 state(s), but was given 1 of them",
        "write advance(x, [h, c])",
    ),
    of("self.part('a', rnn.Elman(4), 5).advance(x, [h])[0]", "the state h is [1, 4]", "h[1, 3] was given"),
    of(
        "self.part('a', Inner(3), 5).advance(x, [h])[0]",
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
        "self.inner(x, h)",
        "Elman is called as a function",
        "self.part(name, cell, x.shape[1]).advance(x, states)",
        more=in_init(SUPER, "self.inner = rnn.Elman(units)"),
    ),
]

USES = [
    of(
        "self.affine('h', x=x, h=h)",
        "used outside of a network",
        "rnn.Network([...])",
        "cell.bind(inputs=...)",
        use="return MyCell(3).step(gn.input((1, 5)), gn.input((1, 3)))",
    ),
    step(
        "called outside of a network",
        "return h",
        "MyCell is called as a function",
        "rnn.Network([...])",
        use="return MyCell(3)(gn.input((1, 5)), gn.input((1, 3)))  # here",
    ),
    step(
        "the class",
        "return h",
        "e.g. MyCell(128)",
        use="return rnn.Network([MyCell], 5, 5)",
        error=UsageError,
    ),
]

KINDS = {
    "what step returns": RETURNS,
    "declarations": DECLARATIONS,
    "equations": EQUATIONS,
    "weights": WEIGHTS,
    "not a function of x and the states": NOT_A_FUNCTION_OF_X_AND_STATES,
    "Python's own": PYTHON,
    "parts": PARTS,
    "how it is used": USES,
}


def loaded(folder: Path, code: str, use: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module my_cells of a file in the folder."""
    file = folder / "my_cells.py"
    file.write_text(HEAD + code + USE.format(use=use), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("my_cells", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "my_cells", module)
    spec.loader.exec_module(module)
    return module


def told_and_wanted(folder: Path, message: str) -> tuple[set[int], set[int]]:
    """The lines of my_cells.py that a message names, and those that end in `# here`."""
    lines = (folder / "my_cells.py").read_text(encoding="utf-8").splitlines()
    wanted = {number for number, line in enumerate(lines, 1) if line.endswith("# here")}
    return {int(number) for number in re.findall(r"my_cells\.py:(\d+)", message)}, wanted


@pytest.mark.filterwarnings("ignore:Bitwise inversion")  # Python 3.12 and newer say it of ~True as well
@pytest.mark.parametrize("kind", KINDS)
def test_mistake_is_told_with_its_line_and_remedy(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, row in enumerate(KINDS[kind]):
        with case(row.name):
            folder = tmp_path / str(number)
            folder.mkdir()
            with pytest.raises(GraphnetError) as caught:
                loaded(folder, row.code, row.use, monkeypatch).use()
            message = str(caught.value)
            assert type(caught.value) is row.error
            for part in row.parts:
                assert part in message, f"{part!r} is not in\n{message}"
            told, wanted = told_and_wanted(folder, message)
            assert wanted <= told, f"lines {sorted(wanted - told)} are not named in\n{message}"


RIGHT = [
    step("h += ...", "h += self.affine('h', x=x)\nreturn h"),
    step(
        "abs, len, a loop over names", "for k in 'ab':\n    h = abs(self.affine(k, h=h))\nreturn h / len(h.T)"
    ),
    step("a list", "return [gn.tanh(h)]"),
    step("a state called as a method", "return weight * 2", takes="x, weight", states="rnn.State('weight'),"),
    step("other names for the states", "return s * 2", takes="x, s"),
    step("a node that is kept for a look", "self.gate = gn.sigmoid(h)\nreturn self.gate * h"),
    step(
        "a constant that is kept",
        "return h * self.k",
        more=in_init(SUPER, "self.k = gn.constant(np.ones(3, 'f'))"),
    ),
    step("a scalar weight", "return h * self.weight('alpha', ())"),
    step("a size by NumPy", "return h * self.weight('w', (np.int64(3),))"),
    step(
        "the same part twice",
        "e = self.part('e', rnn.Elman(3), 3)\nreturn e.advance(h, e.advance(h, [h])[1])[0]",
    ),
    step(
        "a part of a part", "return self.part('r', rnn.cells.Residual(rnn.GRU(3)), 5).advance(x, [h])[1][0]"
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
    ),
]


def test_what_looks_like_a_mistake_and_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that works is refused."""
    for number, row in enumerate(RIGHT):
        with case(row.name):
            folder = tmp_path / str(number)
            folder.mkdir()
            u = loaded(folder, row.code, row.use, monkeypatch).use()
            assert isinstance(u, rnn.Unrolled)
            gn.gradient(u.cost, list(u.network.parameters.values()))


# -- what only numbers show: check_cell ----------------------------------------------------------------

MIXED = {
    "a sum over the batch": "return h - gn.sum(self.affine('h', x=x, h=h), axis=0)  # here",
    "the first case": "a = self.affine('h', x=x, h=h)\nreturn a + h[0]  # here",
    "Python's sum": "a = self.affine('h', x=x, h=h)\nreturn a + sum(h)  # here",
}


def test_cases_that_depend_on_each_other_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, body in MIXED.items():
        with case(name):
            folder = tmp_path / name
            folder.mkdir()
            module = loaded(folder, step("", body).code, NETWORK, monkeypatch)
            with pytest.raises(LawError, match="a case of a batch is computed from the others, at") as caught:
                rnn.testing.check_cell(module.MyCell)
            told, wanted = told_and_wanted(folder, str(caught.value))
            assert wanted <= told


def test_random_numbers_in_init_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stored model would have others when it is loaded."""
    more = in_init(SUPER, "self.mask = np.random.default_rng().random(units)")
    row = step("", "return gn.tanh(self.affine('h', x=x) * self.mask.astype(x.dtype))", more=more)
    module = loaded(tmp_path, row.code, row.use, monkeypatch)
    with pytest.raises(LawError, match="when it is made again from its settings"):
        rnn.testing.check_cell(module.MyCell)


def test_a_class_that_needs_settings_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = "def __init__(self, units, *, speed):\n    super().__init__(units)\n    self.speed = speed"
    row = step("", "return gn.tanh(self.affine('h', x=x, h=h)) * self.speed", more=more)
    module = loaded(tmp_path, row.code, row.use, monkeypatch)
    with pytest.raises(
        UsageError, match="MyCell cannot be made without units, speed: give check_cell an instance"
    ):
        rnn.testing.check_cell(module.MyCell)
    rnn.testing.check_cell(module.MyCell(3, speed=0.5))


# -- the engine's own hints ------------------------------------------------------------------------------


def test_what_the_hints_name_is_there() -> None:
    node = gn.input((2, 3), name="h")
    for name, instead in INSTEAD_OF_METHODS.items():
        with case(name):
            for function in re.findall(r"gn\.(\w+)", instead):
                assert hasattr(gn, function)
            assert not hasattr(node, name)
            with pytest.raises(
                AttributeError, match=re.escape(f"has no attribute {name!r}; write {instead}.")
            ):
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
