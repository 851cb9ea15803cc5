"""Arguments in Python syntax: cells, optimizers, schedules and metrics, by name or as calls.

RHN(depth=3), Residual(GRU(64)), my_cells.py:MyCell(units=3), package.module:Cell; adam(rate=0.001), riemannian(rbpm),
hf(structural=0.1); Warmup(500).then(Cosine(20000)). Settings are literals or nested calls; no other code is executed.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import importlib.util
import inspect
import os
import re
import reprlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from graphnet.errors import GraphnetError
from graphnet_rnn import optimizers
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cells.all import ALL
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers.base import Optimizer
from graphnet_rnn.optimizers.first_order import FirstOrder
from graphnet_rnn.optimizers.schedules import KINDS as SCHEDULES, Schedule, Stepwise
from graphnet_rnn.riemannian.metrics import KINDS, METRICS
from graphnet_rnn.settings import amount

EXAMPLE = "RHN(units=64, depth=3)"
EXAMPLE_OF_OPTIMIZER = "hf(structural=0.1, cg_steps=100)"
EXAMPLE_OF_SCHEDULE = "Warmup(500).then(Cosine(20000))"
#: Methods that combine schedules.
COMPOSING = ("then", "by_epoch", "capped", "spaced")

_SHORT = reprlib.Repr()
_SHORT.maxstring = 120

Made = TypeVar("Made")


# -- reading ---------------------------------------------------------------------------------------


class Spec(NamedTuple):
    """Parts of `where:name(settings)`; where and settings are optional."""

    where: str
    name: str
    settings: str


def parts_of(text: str) -> Spec:
    """Parts of a text: before the colon, name, settings with parentheses. Raises UsageError."""
    found = re.fullmatch(r"(?:(.+?):)?([^\W\d]\w*)\s*(\(.*\))?", text.strip(), re.DOTALL)
    if not found and re.search(r"\w\s*\(", text):
        raise UsageError(f"{quoted(text)} cannot be read; write it as in Python: {EXAMPLE!r}")
    return Spec(*(part or "" for part in found.groups())) if found else Spec("", text, "")


def read_settings(
    text: str, example: str, known: Mapping[str, Any] | None = None, what: str = "setting"
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments in the parentheses: literals, or known names (classes, which are called, and words).

    what: kind of the known names. Raises UsageError for anything else.
    """
    reader = _Expression(text, example, known or {}, what)
    call = reader.parsed(f"call{parts_of(text).settings or '()'}")
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise UsageError(f"{quoted(text)} cannot be read; write it as in Python: {example!r}")
    return reader.arguments(call)


class _Expression(NamedTuple):
    """Parser of an expression in `text`; for the other fields see `read_settings`."""

    text: str
    example: str
    known: Mapping[str, Any]
    what: str

    def parsed(self, expression: str) -> ast.expr:
        try:
            return ast.parse(expression.strip(), mode="eval").body
        except (
            SyntaxError,
            ValueError,
            RecursionError,
            MemoryError,
        ) as error:  # the last two: nested too deeply
            why = f": {error.msg}" if isinstance(error, SyntaxError) else ""
            raise UsageError(
                f"{quoted(self.text)} cannot be read{why}; write it as in Python: {self.example!r}"
            ) from None

    def arguments(self, call: ast.Call) -> tuple[list[Any], dict[str, Any]]:
        named = {}
        for each in call.keywords:
            if each.arg is None:
                raise UsageError(f"{quoted(self.text)}: write settings one by one, name=value")
            if each.arg in named:
                raise UsageError(f"{quoted(self.text)} sets {each.arg} twice; leave out one")
            named[each.arg] = self.value(each.value)
        return [self.value(each) for each in call.args], named

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Name(id=name) if isinstance(self.known.get(name), str):
                return name
            case ast.Call(func=ast.Name(id=name)) if self.known:
                return made(among(name, self.known, self.what), *self.arguments(node))
            case ast.Call(func=ast.Attribute(value=owner, attr=attr)) if attr in COMPOSING:
                of = self.known.get(owner.id) if isinstance(owner, ast.Name) else self.value(owner)
                if isinstance(of, Schedule) or of is Stepwise:
                    return made(getattr(of, attr), *self.arguments(node))
            case ast.BinOp(left=left, op=ast.Mult(), right=right) if ast.Call in map(type, ast.walk(node)):
                factors = self.value(left), self.value(right)
                if any(isinstance(each, Schedule) for each in factors):
                    try:
                        return factors[0] * factors[1]
                    except TypeError:
                        pass
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            words = [name for name, each in self.known.items() if isinstance(each, str)]
            other = f", or one of {', '.join(words)}" if words else f", or a {self.what} with parentheses"
            raise UsageError(
                f"{quoted(self.text)}: {_written(node)} is not a setting; a setting is a number, a 'word' in "
                f"quotes, None, True, False, a tuple or dict of these{other if self.known else ''}"
            ) from None


def among(name: str, known: Mapping[str, Made], what: str, more: str = "") -> Made:
    """Value of a known name; raises UsageError with suggestions for others."""
    if name in known:
        return known[name]
    lowered = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), lowered, 1, 0.5)
    hint = f" Did you mean {lowered[close[0]]}?" if close else ""
    raise UsageError(f"there is no {what} {quoted(name)}; there are {', '.join(known)}.{hint}{more}")


def made(kind: Callable[..., Made], arguments: list[Any], named: dict[str, Any]) -> Made:
    """kind(*arguments, **named); raises UsageError, in one sentence, for an error."""
    if isinstance(kind, str):
        raise UsageError(f"{kind} has no settings; write {kind} alone")
    name, signature = kind.__name__, inspect.signature(kind)
    try:
        signature.bind(*arguments, **named)
    except TypeError as error:
        raise UsageError(f"{name}: {error}; its settings: {_usage(kind)}") from None
    try:
        return kind(*arguments, **named)
    except (GraphnetError, MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:  # the user's __init__ may raise anything
        line = line_of(error, inspect.getfile(kind))
        raise UsageError(f"{name} cannot be created: {error_text(error)}{line}") from error


def _usage(kind: Callable[..., Any]) -> str:
    """RHN(units=128, depth=7): signature for messages."""
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


def error_text(error: BaseException) -> str:
    """Type and message of an error, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")


def quoted(text: str) -> str:
    """'text', shortened in the middle if long."""
    return _SHORT.repr(text)


def _written(node: ast.expr) -> str:
    try:
        return quoted(ast.unparse(node))[1:-1]
    except RecursionError:
        return "an expression that is nested too deeply"


# -- cells -----------------------------------------------------------------------------------------


def find_cell(text: str) -> type[Cell]:
    """Class of a cell, with or without settings; raises UsageError with the reason."""
    where, name, _ = parts_of(text)
    if not where and name.endswith(".py"):
        found = " or ".join(f"{name}:{cell}" for cell in _cells(_load(name)) if cell not in ALL)
        raise UsageError(
            f"{name} is a file; " + (f"choose a cell: {found}." if found else "it holds no cell.")
        )
    if where:
        cells = _cells(_load(where))
        if name not in cells:
            raise UsageError(f"{where} has no cell {name!r}; its cells: {', '.join(cells) or 'none'}.")
        return cells[name]
    if name not in ALL and ("/" in name or name.endswith(".safetensors") or os.path.isfile(name)):
        raise UsageError(
            f"{name} is not a cell{'' if os.path.exists(name) else ', and there is no such file'}; give the name "
            "of a cell (`graphnet-rnn cells` lists them), or a cell in a file of your own, my_cells.py:MyCell; draw "
            "also takes a model file (.safetensors) and a run (its folder, or its history.jsonl)."
        )
    return among(name, ALL, "cell", " Your own: my_cells.py:MyCell")


def make_cell(text: str, units: int | None = None) -> Cell:
    """Cell with the settings in the parentheses, or with `units`.

    Raises UsageError for unknown settings, for those that are not literals, and for units given twice.
    """
    cell, where = find_cell(text), parts_of(text).where
    known = {**ALL, **(_cells(_load(where)) if where else {})}
    arguments, named = read_settings(text, EXAMPLE, known, "cell")
    if units is not None:
        parameters = inspect.signature(cell).parameters
        first = next(iter(parameters), "")
        # The first setting of graphnet's own cells is a number of units, or may be one.
        takes = "units" if "units" in parameters else first if cell in ALL.values() else ""
        if not takes:
            raise UsageError(
                f"{cell.__name__} has no setting units; leave out --units, and give its settings in parentheses: "
                f"{_usage(cell)}"
            )
        if takes in named or (arguments and takes == first):
            raise UsageError(
                f"--units {units} and {quoted(text)} both set the number of units; leave out --units"
            )
        named[takes] = units
    return made(cell, arguments, named)


def own_cells(text: str | None) -> list[type[Cell]]:
    """Cells besides those of graphnet for `load`: the class, and others in its module."""
    if not text:
        return []
    where, cell = parts_of(text).where, find_cell(text)
    beside = _cells(_load(where)).items() if where else ()
    return [*(other for name, other in beside if name not in ALL), cell]


def described(cell: type[Cell]) -> list[str]:
    """Lines of the docstring, the first of which is the formula; at least one."""
    words = cell.__doc__
    return (inspect.cleandoc(words).splitlines() if isinstance(words, str) else []) or ["(not described)"]


def own_line(error: BaseException) -> str:
    """(file:line) of the innermost frame in the module of a cell; empty if there is none."""
    files = [str(getattr(module, "__file__", "")) for module in _loaded.values()]
    return next((line for file in files if file and (line := line_of(error, file))), "")


def slug(text: str) -> str:
    """Cell and settings as a part of a folder's name: RHN-depth-3."""
    _, name, settings = parts_of(text)
    return re.sub(r"\W+", "-", name + settings).strip("-")


def _cells(module: ModuleType) -> dict[str, type[Cell]]:
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Cell) and value is not Cell
    }


_loaded: dict[str, ModuleType] = {}


def _load(where: str) -> ModuleType:
    """Module, executed once per command; its own folder is on the import path."""
    path, key = Path(where), where
    if where.endswith(".py"):
        if not path.is_file():
            raise UsageError(f"there is no file {where} of Python code.")
        key = f"{path.resolve()} {path.stat().st_mtime_ns}"
    if key not in _loaded:
        # At the end of the path: a file of the user must not hide a standard module of the same name.
        folder = str(path.resolve().parent if where.endswith(".py") else Path.cwd())
        if folder not in sys.path:
            sys.path.append(folder)
        try:
            _loaded[key] = _run_file(path) if where.endswith(".py") else importlib.import_module(where)
        except (UsageError, KeyboardInterrupt):
            raise
        except BaseException as error:  # the user's file may raise anything
            line = line_of(error, where)
            raise UsageError(f"{where} cannot be imported: {error_text(error)}{line}") from error
    return _loaded[key]


def _run_file(path: Path) -> ModuleType:
    # Registered as "my_cells.py", which is never imported: a file random.py must not replace the module random.
    spec = importlib.util.spec_from_file_location(path.name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.name]
        raise
    return module


# -- optimizers, schedules and metrics -------------------------------------------------------------


def optimizer_class(text: str) -> type[Optimizer]:
    """Class of an optimizer, with or without settings; raises UsageError for an unknown name."""
    where, name, _ = parts_of(text)
    return among(text if where else name, optimizers.ALL, "optimizer")


def default_rates() -> str:
    """Optimizers with a learning rate and its default, in words."""
    firsts = {name: kind for name, kind in optimizers.ALL.items() if issubclass(kind, FirstOrder)}
    return ", ".join(f"{name} {kind.rate}" for name, kind in firsts.items())


def add_optimizer(
    parser: argparse.ArgumentParser, default: str, example: str, rate: str = "that of the optimizer"
) -> None:
    """Adds options of an optimizer; example: settings for the help text. rate: default in words."""
    add = parser.add_argument
    add(
        "--optimizer",
        default=default,
        metavar="NAME",
        help=f"{', '.join(optimizers.ALL)}; with settings: {example}",
    )
    add("--rate", type=float, help=f"learning rate (default: {rate})")
    add(
        "--clip-norm",
        type=float,
        help="maximum gradient norm of first-order optimizers; 0 for no limit (default: 1)",
    )


def no_limit(option: str, value: float) -> float | None:
    """Limit of an option; None for 0."""
    if not value >= 0:
        raise UsageError(f"{option} must be > 0, or 0 for no limit, not {value:g}")
    return value or None


def make_optimizer(
    text: str,
    default: Mapping[str, Any] | None = None,
    rate: float | None = None,
    clip_norm: float | None = None,
) -> Optimizer:
    """Optimizer with the settings in the parentheses; others come from `default`, or from the optimizer.

    A learning rate or momentum may be a schedule, adam(rate=0.002 * Warmup(500)), or a dict by step:
    momentum(rate={0: 1e-4, 1000: 1e-3}). A metric may be its name, or a call: riemannian(rbpm),
    riemannian(OuterProduct('diagonal', damping=0.1)). rate, clip_norm: values of separate options, for optimizers with
    such settings; clip_norm 0 for no limit.
    Raises UsageError for unknown settings, and for those given twice.
    """
    kind = optimizer_class(text)
    own = inspect.signature(kind).parameters
    metrics = {**KINDS, **{name: name for name in METRICS}} if "metric" in own else {}
    what = f"{'metric or ' if metrics else ''}schedule"
    arguments, named = read_settings(text, EXAMPLE_OF_OPTIMIZER, {**SCHEDULES, **metrics}, what)
    if metrics and len(arguments) == 1 and "metric" not in named:
        named["metric"] = arguments.pop()
    if arguments:
        raise UsageError(f"{quoted(text)}: write settings of optimizers by name, e.g. adam(rate=0.001)")
    for name, option, value in (("rate", "--rate", rate), ("clip_norm", "--clip-norm", clip_norm)):
        if value is None:
            continue
        if name not in own:
            raise UsageError(
                f"{option} does not apply to --optimizer {text}, which has no such setting; leave it out"
            )
        if name in named:
            raise UsageError(f"{option} {value:g} and {quoted(text)} both set {name}; leave out one")
        named[name] = amount(option, value, above_zero=True) if name == "rate" else no_limit(option, value)
    settings = {**{k: v for k, v in (default or {}).items() if k in own}, **named}
    return made(
        kind,
        [],
        {k: Stepwise(v) if isinstance(v, dict) and k != "groups" else v for k, v in settings.items()},
    )


def make_schedule(text: str) -> Schedule:
    """Schedule of an expression; raises UsageError for anything else."""
    reader = _Expression(text, EXAMPLE_OF_SCHEDULE, SCHEDULES, "schedule")
    found = reader.value(reader.parsed(text))
    if not isinstance(found, Schedule):
        raise UsageError(f"{quoted(text)} is not a schedule; an example: {EXAMPLE_OF_SCHEDULE!r}")
    return found


def is_schedule(text: str) -> bool:
    """True if the text begins like an expression of a schedule."""
    return re.match(rf"[(\s]*([\d.e-]+\s*\*[(\s]*)?({'|'.join(SCHEDULES)})\s*[(.]", text) is not None


def schedule_help() -> str:
    """Help text of an option that takes a schedule."""
    return (
        f"schedule, a factor on the learning rate by step, '{EXAMPLE_OF_SCHEDULE}', or by epoch, "
        f"'Cosine(20).by_epoch()'; from {', '.join(SCHEDULES)}, combined by * and .then()"
    )
