"""What is written as a call in an argument, `RHN(units=64, depth=3)`: taken apart, and made."""

from __future__ import annotations

import ast
import inspect
import re
import reprlib
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from graphnet.errors import GraphnetError
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers.schedules import Schedule
from graphnet_rnn.settings import is_number

__all__ = [
    "Named",
    "error_text",
    "line_of",
    "made",
    "quoted",
    "read_expression",
    "read_settings",
    "signature_of",
    "taken_apart",
    "usage",
]

#: The methods by which schedules are made of others.
COMPOSING = ("then", "by_epoch", "capped", "spaced")

_SHORT = reprlib.Repr()
_SHORT.maxstring = 120

Made = TypeVar("Made")


class Named(NamedTuple):
    """`where:name(settings)`, taken apart; where and settings may be missing."""

    where: str
    name: str
    settings: str


def taken_apart(text: str, example: str) -> Named:
    """UsageError, with the example, where parentheses do not fit."""
    found = re.fullmatch(r"(?:(.+?):)?([^\W\d]\w*)\s*(\(.*\))?", text.strip(), re.DOTALL)
    if not found and re.search(r"\w\s*\(", text):
        raise _unreadable(text, example)
    return Named(*(part or "" for part in found.groups())) if found else Named("", text, "")


def read_settings(
    text: str,
    settings: str,
    example: str,
    look_up: Callable[[str], Any] | None = None,
    words: Collection[str] = (),
    called: str = "a cell with parentheses",
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments in the parentheses, which are literals, or calls of what `look_up` finds, or one of the words.

    called: what that is, in words. Schedules may be composed as in Python. Raises UsageError for anything else.
    """
    try:
        call = ast.parse(f"call{settings or '()'}", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # so deep that the parser has no room
        call = None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise _unreadable(text, example)
    return _arguments(text, call, _Known(look_up, words, called))


def read_expression(text: str, example: str, look_up: Callable[[str], Any], called: str) -> Any:
    """What one expression says: a literal, or a call of what `look_up` finds; UsageError for anything else."""
    try:
        expression = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UsageError(f"{quoted(text)} cannot be read; write it as in Python: {example!r}") from None
    return _value(text, expression, _Known(look_up, (), called))


def made(kind: Callable[..., Made], arguments: list[Any], named: dict[str, Any]) -> Made:
    """kind(*arguments, **named); UsageError in one sentence where that cannot be."""
    name = kind.__name__
    try:
        signature_of(kind).bind(*arguments, **named)
    except TypeError as error:
        raise UsageError(f"{name}: {error}; its settings: {usage(kind)}") from None
    try:
        result = kind(*arguments, **named)
    except (GraphnetError, MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:  # whatever the user's __init__ raises is told, with its line
        line = line_of(error, inspect.getfile(kind))
        raise UsageError(f"{name} cannot be made: {error_text(error)}{line}") from error
    if isinstance(kind, type) and not isinstance(result, kind):  # by a metaclass, or by __new__
        raise UsageError(f"{name} cannot be made: to call it gives {type(result).__name__}, not {name}")
    return result


def usage(kind: Callable[..., Any]) -> str:
    """RHN(units=128, depth=7), as a reader may write it."""
    parameters = [p for p in signature_of(kind).parameters.values() if p.name != "initial"]
    return f"{kind.__name__}({', '.join(str(p.replace(annotation=p.empty)) for p in parameters)})"


def signature_of(kind: Callable[..., Any]) -> inspect.Signature:
    """Its settings; UsageError for a class that hides them."""
    try:
        return inspect.signature(kind)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the settings of {kind.__name__} cannot be read: {error_text(error)}") from None


def line_of(error: BaseException, where: str) -> str:
    """(file:line) of the innermost frame in this file; empty if there is none."""
    traceback, found = error.__traceback__, ""
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename.endswith(Path(where).name):
            found = f" ({where}:{traceback.tb_lineno})"
        traceback = traceback.tb_next
    return found


def error_text(error: BaseException) -> str:
    """ValueError: what it says, in one line; some errors of users cannot be printed."""
    try:
        words = " ".join(str(error).split())
    except Exception:
        words = ""
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def quoted(text: str) -> str:
    """'text', with the middle of a long one left out."""
    return _SHORT.repr(text)


def _unreadable(text: str, example: str) -> UsageError:
    return UsageError(f"{quoted(text)} cannot be read; write settings as in Python: {example!r}")


class _Known(NamedTuple):
    """What arguments may hold besides literals. called: what `look_up` finds, in words."""

    look_up: Callable[[str], Any] | None
    words: Collection[str]
    called: str


def _arguments(text: str, call: ast.Call, known: _Known) -> tuple[list[Any], dict[str, Any]]:
    values = [_value(text, argument, known) for argument in call.args]
    named = {}
    for keyword in call.keywords:
        if keyword.arg is None:
            raise UsageError(f"{quoted(text)}: write settings one by one, name=value")
        if keyword.arg in named:
            raise UsageError(f"{quoted(text)} says {keyword.arg} twice; leave out one")
        named[keyword.arg] = _value(text, keyword.value, known)
    return values, named


def _value(text: str, node: ast.expr, known: _Known) -> Any:
    look_up, words, called = known
    if look_up is not None and isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return made(look_up(node.func.id), *_arguments(text, node, known))
    if look_up is not None and _is_composed(node):
        return _composed(text, node, known)
    if isinstance(node, ast.Name) and node.id in words:
        return node.id
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        others = "" if look_up is None else f", or {called}"
        others = f", or one of {', '.join(words)}" if words else others + _hint(node, look_up)
        raise UsageError(
            f"{quoted(text)}: {_written(node)} is no setting; one is a number, a 'word' in quotes, "
            f"None, True, False, a tuple or dict of these{others}"
        ) from None
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, int) and part.value > sys.float_info.max:
            raise UsageError(f"{quoted(text)}: {_shortened(str(part.value))} is larger than any setting")
        if isinstance(part, ast.Dict):
            keys = [ast.literal_eval(key) for key in part.keys if key is not None]
            for key in keys:
                if keys.count(key) > 1:
                    raise UsageError(f"{quoted(text)} says {key!r:.60} twice; leave out one")
    return value


def _is_composed(node: ast.expr) -> bool:
    """Whether it is a method of a call, or a product that holds a call."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute)
    product = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
    return product and any(isinstance(part, ast.Call) for part in ast.walk(node))


def _composed(text: str, node: ast.expr, known: _Known) -> Any:
    """A schedule that is made of others; UsageError where that cannot be."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if isinstance(node.func.value, ast.Name) and known.look_up is not None:
            of = known.look_up(node.func.value.id)  # Stepwise.spaced(...)
        else:
            of = _value(text, node.func.value, known)
        kind = of if isinstance(of, type) else type(of)
        if issubclass(kind, Schedule) and node.func.attr in COMPOSING:
            return made(getattr(of, node.func.attr), *_arguments(text, node, known))
    elif isinstance(node, ast.BinOp):
        factors = [_value(text, each, known) for each in (node.left, node.right)]
        if any(isinstance(each, Schedule) for each in factors) and all(
            isinstance(each, Schedule) or is_number(each) for each in factors
        ):
            return factors[0] * factors[1]
    raise UsageError(
        f"{quoted(text)}: {_written(node)} is no setting; schedules are multiplied, and have "
        f"{', '.join(COMPOSING)}, as in Python"
    )


def _written(node: ast.expr) -> str:
    try:
        return _shortened(ast.unparse(node))
    except RecursionError:
        return "what is nested so deeply"


def _shortened(written: str) -> str:
    return quoted(written)[1:-1]


def _hint(node: ast.expr, look_up: Callable[[str], Any] | None) -> str:
    """What might be meant: by a name a call, where there is such a thing, else a word; by a sum its result."""
    if isinstance(node, ast.BinOp):
        return ". Write the number itself"
    if not isinstance(node, ast.Name) or node.id.lower() in ("nan", "inf", "infinity"):
        return ""
    try:
        found = look_up is not None and look_up(node.id)
    except UsageError:
        found = False
    constant = {"true": "True", "false": "False", "none": "None"}.get(node.id.lower())
    return f". {f'{node.id}()' if found else constant or quoted(node.id)} may be meant"
