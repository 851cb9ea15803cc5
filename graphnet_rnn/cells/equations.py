"""A cell from the text of its equations.

A text is read once, into a tree for each equation; `step` computes the trees. Nothing of it runs as Python code.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from graphnet.errors import GraphnetError
from graphnet.graph.node import Node
from graphnet.graph.provenance import hide_module
from graphnet.ops.elementwise import cos, exp, log, relu, sigmoid, sin, softplus, sqrt, tanh
from graphnet.ops.reduce import softmax
from graphnet.system.text import did_you_mean
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.declaration import State
from graphnet_rnn.cell.initializers import uniform, zeros
from graphnet_rnn.errors import CellError
from graphnet_rnn.settings import shown

# Hidden from errors, so that they name the line that uses the cell.
hide_module(__file__)

FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "σ": sigmoid, "sigmoid": sigmoid, "tanh": tanh, "relu": relu, "softplus": softplus, "exp": exp, "log": log,
    "sqrt": sqrt, "sin": sin, "cos": cos, "softmax": partial(softmax, axis=-1),
}  # fmt: skip
_NORM = "LN"
#: Maximum number of parentheses and signs within each other.
DEEPEST = 100
_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "^": lambda a, b: a**b,
}
#: Signs that mean the same as others, as papers and word processors write them.
_SAME = str.maketrans({"′": "'", "’": "'", "−": "-", "⊙": "*", "∘": "*", "×": "*"})
_TOKENS = re.compile(r"\s*(?:([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)|([^\W\d][\w·]*'?)|(\S))")
#: Characters of a text at most. Each takes memory and time when a cell is made, also from a model file.
_LONGEST = 10_000
_TARGET = re.compile(r"[^\W\d]\w*'?")
MINIMAL_GATED_UNIT = "f = σ(x W_xf + h W_hf + b_f); h' = (1 - f) h + f tanh(x W_xh + (f h) W_hh + b_h)"


class Number(NamedTuple):
    value: float


class Name(NamedTuple):
    name: str


class FunctionCall(NamedTuple):
    function: str
    of: Tree


class Apply(NamedTuple):
    operation: str
    left: Tree
    right: Tree


class WeightProduct(NamedTuple):
    """Matrix product with a weight."""

    left: Tree
    weight: str


Tree = Number | Name | FunctionCall | Apply | WeightProduct


@dataclass(frozen=True)
class Equation:
    target: str
    text: str
    tree: Tree


@dataclass(eq=False, repr=False)
class Equations(Cell):
    """f = σ(x, h);  h' = (1 - f) h + f tanh(x W_xh + (f h) W_hh + b_h)

    A cell from the text of its equations; these are the default, the minimal gated unit.

    units: width of all states and weights, 128 by default. equations: text, with semicolons or ends of lines between
    equations. initial: initializers by weight name, see Cell.

    x is the input, h the old state and h' the new one; each primed name that an equation defines is a state. The output
    is y if an equation defines it, else h', else the first state. Names that start with a capital letter and are
    defined nowhere are matrices: x W_xh is a matrix product. b_... are biases, and w_... vectors such as peepholes.
    Every other product is elementwise: f h, (1 - f) h, i * g. Products and quotients are computed from left to right:
    r h W is (r h) W. Recurrent dropout and Hyper find the products of states whose weights are named W_, source,
    result, as in h W_hf. Functions: σ, sigmoid, tanh, relu, softplus, exp, log, sqrt, sin, cos, softmax (over the
    units), LN (layer normalization, once for each result). Several targets share an equation, in which · stands for the
    target: i, f, o = σ(x W_x· + h W_h· + b_·), in short i, f, o = σ(x, h).
    Raises CellError for a text that cannot be read; the error shows the equation.
    Source: Zhou et al. 2016, eqs 11-13 (the default).

    >>> cell = rnn.Equations(4, "h' = tanh(x W_xh + h W_hh + b_h)")
    >>> net = rnn.Network([cell], inputs=3, outputs=2)
    >>> list(net.layers[0].weights)
    ['W_xh', 'W_hh', 'b_h']
    >>> rnn.testing.check_cell(cell)
    """

    equations: str = MINIMAL_GATED_UNIT

    def __post_init__(self) -> None:
        super().__post_init__()
        self._read = _Reader(self.equations)
        self.states = [State(name) for name in self._read.states]
        self.output = State("y") if self._read.has_output else None

    def step(self, x: Node, *states: Node) -> tuple[Node, ...]:
        values: dict[str, Any] = {"x": x, **dict(zip(self._read.states, states, strict=True))}
        for equation in self._read.equations:
            try:
                value = self._value(equation.tree, values, equation.target.rstrip("'"))
            except (GraphnetError, ArithmeticError, RecursionError) as error:
                problem = str(error).splitlines()[0]
                raise CellError(f"Equations: in {equation.text!r}: {problem}") from None
            if not isinstance(value, Node):
                raise CellError(
                    f"Equations: in {equation.text!r}: the result depends on no node, such as x or h"
                )
            result = equation.target == "y" or equation.target[-1] == "'"
            if result and len(value.shape) == 1:
                raise CellError(
                    f"Equations: in {equation.text!r}: {equation.target} is the same for all cases; it must depend on "
                    "x or a state"
                )
            if result and value.shape[1:] != (self.units,):
                raise CellError(
                    f"Equations: in {equation.text!r}: {equation.target} has the width {value.shape[-1]}, but the "
                    f"width of the cell is {self.units}; multiply by a matrix, as in x W_xh"
                )
            values[equation.target] = value
        new = tuple(values[f"{name}'"] for name in self._read.states)
        return (values["y"], *new) if self._read.has_output else new

    def _value(self, tree: Tree, values: Mapping[str, Any], to: str) -> Any:
        match tree:
            case Number(value):
                return value
            case Name(name):
                return values[name] if name in values else self._vector(name)
            case FunctionCall(function, of):
                a = self._value(of, values, to)
                if not isinstance(a, Node):
                    raise CellError(f"{function}({a:g}) is a number; write its value")
                return self.normalized(to, a) if function == _NORM else FUNCTIONS[function](a)
            case Apply(operation, left, right):
                return _OPERATIONS[operation](self._value(left, values, to), self._value(right, values, to))
            case WeightProduct(left, weight):
                a = self._value(left, values, to)
                if not isinstance(a, Node) or len(a.shape) != 2:
                    raise CellError(f"{weight} must follow x, a state or a result, as in x {weight}")
                source = left.name.rstrip("'") if isinstance(left, Name) else ""
                end = weight.removeprefix(f"W_{source}")
                if source and end not in ("", weight):
                    return self.product(source, end, a)
                return self._dropped(a) @ self.weight(weight, (a.shape[1], self.units))

    def _vector(self, name: str) -> Node:
        return self.weight(name, (self.units,), uniform(0.1) if name.startswith("w_") else zeros())


class _Reader:
    """Reads the text: its equations in order, and the names of its states."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise CellError(
                f"Equations: equations must be a str, e.g. {MINIMAL_GATED_UNIT!r}, not {shown(text)}"
            )
        if len(text) > _LONGEST:
            raise CellError(f"Equations: the text has {len(text):,} characters; the limit is {_LONGEST:,}")
        lines = [line.strip() for line in re.split(r"[;\n]", text.translate(_SAME)) if line.strip()]
        split = [(line, *_targets_of(line)) for line in lines]
        defined = Counter(target for _, targets, _ in split for target in targets)
        for target in defined:
            if defined[target] > 1 or target in ("x", "x'") or target in FUNCTIONS or target == _NORM:
                problem = "is defined twice" if defined[target] > 1 else "has a meaning of its own"
                raise CellError(f"Equations: {target} {problem}; use another name for one of the results")
        names = [target[:-1] for target in defined if target.endswith("'")]
        if wrong := [name for name in names if not name.isidentifier() or name == "self"]:
            raise CellError(f"Equations: {wrong[0]} cannot be the name of a state; use letters, digits and _")
        if both := [name for name in names if name in defined]:
            raise CellError(
                f"Equations: both {both[0]} and {both[0]}' are defined, but {both[0]} is the old state"
            )
        self.states = sorted(names, key=lambda name: name != "h")
        self.has_output = "y" in defined
        if not names and not self.has_output:
            raise CellError(
                "Equations: no equation defines a new state, such as h' = ..., or the output y = ..."
            )
        self.equations: list[Equation] = []
        results, written = {"x", *self.states}, 0
        for line, targets, right in split:
            for target in targets:
                written += len(right) + right.count("·") * len(target)
                if written > 10 * _LONGEST:
                    raise CellError("Equations: with the names in place of ·, the text is too long")
                tree = _Parser(line, target, right, results, defined).tree()
                self.equations.append(Equation(target, line, tree))
                results.add(target)


def _targets_of(line: str) -> tuple[list[str], str]:
    """The names that an equation defines, and its right side."""
    left, equals, right = line.partition("=")
    targets = [target.strip() for target in left.split(",")]
    if not equals or "=" in right or not right.strip() or not all(map(_TARGET.fullmatch, targets)):
        raise CellError(f"Equations: {line!r} is not an equation such as h' = tanh(x W_xh + h W_hh + b_h)")
    if len(targets) == 1 and re.search(r"(?<![\w·])·(?![\w·])", right):
        raise CellError(
            f"Equations: · stands for the name of the result, not for a product, in {line!r}; write f h for f times h"
        )
    if len(targets) > 1 and "·" not in right and "," not in right:
        raise CellError(
            f"Equations: {line!r} defines {len(targets)} results, so write · for their names in it, as in "
            "i, f = σ(x W_x· + h W_h· + b_·)"
        )
    return targets, right


class _Parser:
    """One right side, by recursive descent: sums of products of powers."""

    def __init__(self, line: str, target: str, right: str, known: set[str], defined: Collection[str]) -> None:
        self.line, self.to, self.known, self.defined = line, target.rstrip("'"), known, defined
        self.tokens = list(_tokens_of(right.replace("·", self.to)))
        self.norms = self.lists = self.depth = 0

    def tree(self) -> Tree:
        tree = self.sum()
        if self.tokens:
            raise self.error(f"{self.tokens[0]} is unexpected")
        return tree

    def within(self, part: Callable[[], Tree]) -> Tree:
        """A part in parentheses, or after a sign."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.error("too many nested parentheses or signs")
        tree = part()
        self.depth -= 1
        return tree

    def sum(self) -> Tree:
        tree = self.product()
        while self.next() in ("+", "-"):
            tree = Apply(self.take(), tree, self.product())
        return tree

    def product(self) -> Tree:
        tree = self.signed()
        while True:
            if self.next() in ("*", "/"):
                tree = Apply(self.take(), tree, self.signed())
            elif self.is_weight(self.next()):
                tree = self.matrix_product(tree, self.take())
            elif self.next() == "(" or self.next()[:1].isalnum() or self.next()[:1] == "_":
                tree = Apply("*", tree, self.power())
            else:
                return tree

    def matrix_product(self, left: Tree, weight: str) -> Tree:
        if weight.lower() in FUNCTIONS:
            raise self.error(f"{weight} is not a function; write {weight.lower()}")
        match left:
            case Apply("*", Number(), inner):  # 2 h W is 2 (h W), so that h W is the product of a state
                return Apply("*", left.left, self.matrix_product(inner, weight))
        return WeightProduct(left, weight)

    def signed(self) -> Tree:
        if self.next() == "-":
            self.take()
            return Apply("*", Number(-1.0), self.within(self.signed))
        return self.power()

    def power(self) -> Tree:
        tree = self.atom()
        if self.next() == "^":
            return Apply(self.take(), tree, self.within(self.signed))
        return tree

    def atom(self) -> Tree:
        token = self.take()
        if token == "(":
            tree = self.within(self.sum)
            if self.next() == ",":
                tree = self.affine(tree)
            if self.take() != ")":
                raise self.error("a parenthesis is not closed")
            return tree
        if token[:1].isdecimal() or token[:1] == ".":
            return Number(float(token))
        if token in FUNCTIONS or token == _NORM:
            if self.next() != "(":
                raise self.error(f"{token} needs parentheses, as in {token}(x W_xh + b_h)")
            self.norms += token == _NORM
            if self.norms > 1:
                raise self.error(f"{_NORM} occurs twice; write one of them as a result of its own")
            return FunctionCall(token, self.atom())
        return Name(self.checked(token))

    def affine(self, first: Tree) -> Tree:
        """(x, h) after its first comma: x W_x· + h W_h· + b_·"""
        sources = [first]
        while self.next() == ",":
            self.take()
            sources.append(self.within(self.sum))
        self.lists += 1
        if self.lists > 1:
            raise self.error(
                "two lists of names would share weights; write one of them as a result of its own"
            )
        total: Tree = Name(f"b_{self.to}")
        names = [source.name.rstrip("'") for source in sources if isinstance(source, Name)]
        if twice := [name for i, name in enumerate(names) if name in names[:i]]:
            raise self.error(
                f"{twice[0]} and {twice[0]}' in a list would share W_{twice[0]}{self.to}; write their products, as in "
                "x W_x"
            )
        for source in reversed(sources):
            if not isinstance(source, Name):
                raise self.error(
                    "a list such as (x, h) may only have names in it; write r h as a result of its own"
                )
            name = source.name.rstrip("'")
            total = Apply("+", WeightProduct(source, f"W_{name}{self.to}"), total)
        return total

    def checked(self, name: str) -> str:
        if name in self.known or (name[:2] in ("b_", "w_") and name not in self.defined):
            return name
        if self.is_weight(name):
            raise self.error(f"{name} is a matrix, which must follow what it multiplies, as in x {name}")
        if name in self.defined:
            raise self.error(f"{name} is used before the equation that defines it")
        if not _TARGET.fullmatch(name):
            raise self.error(f"{name or 'its end'} is unexpected")
        near = did_you_mean(name, [*self.known, *self.defined, *FUNCTIONS])
        raise self.error(
            f"{name} is not defined{near}. Weights are called W_... (matrices), w_... and b_... (vectors)"
        )

    def is_weight(self, token: str) -> bool:
        free = token not in self.known and token not in self.defined and token != _NORM
        return token[:1].isupper() and free and "'" not in token

    def next(self) -> str:
        return self.tokens[0] if self.tokens else ""

    def take(self) -> str:
        return self.tokens.pop(0) if self.tokens else ""

    def error(self, problem: str) -> CellError:
        return CellError(f"Equations: in {self.line!r}: {problem}")


def _tokens_of(right: str) -> Iterator[str]:
    for found in _TOKENS.finditer(right.replace("**", "^")):
        yield found[0].strip()
