"""What is written as a call in an argument, `RHN(units=64, depth=3)`: taken apart, and made."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from graphnet.errors import GraphnetError
from graphnet_rnn.errors import UsageError

__all__ = ["Named", "line_of", "made", "read_settings", "said", "taken_apart", "usage"]

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
    text: str, settings: str, example: str, look_up: Callable[[str], Any] | None = None
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments in the parentheses, which are literals, or calls of what `look_up` finds.

    Raises UsageError for anything else.
    """
    try:
        call = ast.parse(f"call{settings or '()'}", mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        call = None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise _unreadable(text, example)
    return _arguments(text, call, look_up)


def made(kind: Callable[..., Made], arguments: list[Any], named: dict[str, Any]) -> Made:
    """kind(*arguments, **named); UsageError in one sentence where that cannot be."""
    name = kind.__name__
    try:
        inspect.signature(kind).bind(*arguments, **named)
    except TypeError as error:
        raise UsageError(f"{name}: {error}; its settings: {usage(kind)}") from None
    try:
        return kind(*arguments, **named)
    except (GraphnetError, MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:  # whatever the user's __init__ raises is told, with its line
        line = line_of(error, inspect.getfile(kind))
        raise UsageError(f"{name} cannot be made: {said(error)}{line}") from error


def usage(kind: Callable[..., Any]) -> str:
    """RHN(units=128, depth=7), as a reader may write it."""
    parameters = [p for p in inspect.signature(kind).parameters.values() if p.name != "initial"]
    return f"{kind.__name__}({', '.join(str(p.replace(annotation=p.empty)) for p in parameters)})"


def line_of(error: BaseException, where: str) -> str:
    """(file:line) of the innermost frame in this file; empty if there is none."""
    traceback, found = error.__traceback__, ""
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename.endswith(Path(where).name):
            found = f" ({where}:{traceback.tb_lineno})"
        traceback = traceback.tb_next
    return found


def said(error: BaseException) -> str:
    """ValueError: what it says, in one line; some errors of users cannot be printed."""
    try:
        words = " ".join(str(error).split())
    except Exception:
        words = ""
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def _unreadable(text: str, example: str) -> UsageError:
    return UsageError(f"{text!r} cannot be read; write settings as in Python: {example!r}")


def _arguments(
    text: str, call: ast.Call, look_up: Callable[[str], Any] | None
) -> tuple[list[Any], dict[str, Any]]:
    values = [_value(text, argument, look_up) for argument in call.args]
    named = {}
    for keyword in call.keywords:
        if keyword.arg is None:
            raise UsageError(f"{text!r}: write settings one by one, name=value")
        named[keyword.arg] = _value(text, keyword.value, look_up)
    return values, named


def _value(text: str, node: ast.expr, look_up: Callable[[str], Any] | None) -> Any:
    if look_up is not None and isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return made(look_up(node.func.id), *_arguments(text, node, look_up))
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        written = ast.unparse(node)
        raise UsageError(
            f"{text!r}: {written} is no setting; one is a number, a 'word' in quotes, None, True, False, a tuple or "
            f"dict of these{'' if look_up is None else ', or a cell with parentheses'}. {_hint(written, look_up)} may "
            "be meant"
        ) from None


def _hint(written: str, look_up: Callable[[str], Any] | None) -> str:
    """What might be meant by a name: a call, where there is such a thing, else a word."""
    try:
        found = look_up is not None and look_up(written)
    except UsageError:
        found = False
    return f"{written}()" if found else repr(written)
