"""The scalar expression of an elementwise op, from which every compiled back end generates code.

It may use x, y, z (the inputs in order), numbers, inf, nan, arithmetic, comparisons, `a if c else b`, and, or,
not, and the functions in FUNCTIONS.
"""

from __future__ import annotations

import ast
from functools import lru_cache

VARIABLES = ("x", "y", "z")
#: Name -> number of arguments.
FUNCTIONS = {
    "abs": 1, "ceil": 1, "cos": 1, "erf": 1, "exp": 1, "floor": 1, "log": 1, "log1p": 1, "max": 2, "min": 2,
    "mod": 2, "round": 1, "sigmoid": 1, "sin": 1, "sqrt": 1, "tanh": 1,
}  # fmt: skip

_NODES = (
    ast.BinOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.BoolOp, ast.Call, ast.Name, ast.Constant, ast.Load,
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.USub, ast.UAdd, ast.Not, ast.And, ast.Or,
    ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq,
)  # fmt: skip


@lru_cache(maxsize=4096)
def parse_expression(kernel: str) -> ast.expr:
    """Returns the syntax tree of the expression; raises ValueError if no back end supports it."""
    try:
        tree = ast.parse(kernel.strip(), mode="eval").body
    except SyntaxError:
        raise ValueError(f"{kernel!r} is not an expression") from None
    for part in ast.walk(tree):
        if not isinstance(part, _NODES):
            raise ValueError(f"{kernel!r}: {type(part).__name__} has no meaning in a kernel")
        if isinstance(part, ast.Call):
            _check_call(part, kernel)
        if isinstance(part, ast.Compare) and len(part.ops) != 1:
            raise ValueError(f"{kernel!r}: write a chain of comparisons with `and`")
        if isinstance(part, ast.Constant) and not isinstance(part.value, (int, float)):
            raise ValueError(f"{kernel!r}: {part.value!r} is not a number")
        if isinstance(part, ast.Name) and part.id not in (*VARIABLES, *FUNCTIONS, "inf", "nan"):
            raise ValueError(f"{kernel!r}: {part.id} is unknown")
    return tree


def _check_call(call: ast.Call, kernel: str) -> None:
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    if name not in FUNCTIONS:
        raise ValueError(f"{kernel!r} calls an unknown function; known: {', '.join(FUNCTIONS)}")
    if call.keywords or len(call.args) != FUNCTIONS[name]:
        raise ValueError(f"{kernel!r}: {name} takes {FUNCTIONS[name]} argument(s)")


@lru_cache(maxsize=4096)
def is_compilable(kernel: str) -> bool:
    """True if `parse_expression` accepts it."""
    try:
        parse_expression(kernel)
    except ValueError:
        return False
    return bool(kernel)


def fixed_number(tree: ast.expr) -> float | None:
    """Returns the value of a constant subexpression; None if it is not constant."""
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        inner = fixed_number(tree.operand)
        return None if inner is None else -inner
    known = isinstance(tree, ast.Constant) and isinstance(tree.value, (int, float))
    return float(tree.value) if known else None  # type: ignore[attr-defined]
