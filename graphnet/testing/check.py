"""check_op and check_graph."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from graphnet.call.function import compile
from graphnet.derivatives.gradient import backward, rop
from graphnet.errors import DtypeError, GraphnetError, ShapeError, ValueAccessError
from graphnet.graph.dtypes import FLOAT32, is_float
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node, Op
from graphnet.graph.provenance import passed
from graphnet.graph.signature import parse
from graphnet.ops.elementwise import Elementwise
from graphnet.ops.leaf import input
from graphnet.ops.rowwise import Rowwise
from graphnet.settings import yes_or_no
from graphnet.testing.declared import check_declared
from graphnet.testing.kernel import MATHEMATICS, check_rows, evaluate_kernel, seen_otherwise
from graphnet.testing.laws import LAWS, NEEDS, OF_GRAPHS, RULES, TOLERANCES, LawError, make_problem


def check_op(
    op: Op | Callable[..., Node],
    *example_inputs: Any,
    laws: Iterable[int] = tuple(LAWS),
    narrow: bool = False,
) -> None:
    """Checks an op against laws 1-9, at the example and at smaller shapes; raises LawError if one is broken.

    op: an Op, or any function from nodes to a node. example_inputs: arrays. Float arrays are differentiated, so keep
    them away from kinks, where no derivative exists; integers and booleans are data. Sizes 1 and 0 are tried for every
    axis of the op's signature, and broadcasting for elementwise ops.
    laws: numbers of the laws, all by default. narrow: True also checks laws 1 and 7 with int8, uint8 and bool instead
    of floats, and with int8 and uint8 instead of integers, unless the op raises an error for them; False by default.
    An elementwise op's kernel must agree with its forward. A rowwise kernel must stay within its arrays, must not
    depend on memory that it has not written, and must give the same for any memory layout. Properties that the op
    declares (rows, expansion, ...) must hold. Second derivatives lack those that the op's rules stop with
    gn.stop_gradient. For an op without `rop`, `backward` is compared with finite differences of forward; laws that need
    the missing rule, such as second derivatives, are skipped with a warning.

    >>> gn.testing.check_op(gn.tanh, np.array([0.5, -1.0]), laws=(1, 2, 3))
    """
    if isinstance(op, type):
        raise ValueAccessError(f"check_op needs an op, not its class: check_op({op.__name__}(...), ...)")
    arrays = [np.asarray(a) for a in example_inputs]
    name = op.name if isinstance(op, Op) else getattr(op, "__name__", repr(op))
    narrow = yes_or_no("check_op: narrow", narrow)
    chosen = _possible(op, name, arrays, tuple(laws))
    for variant in [arrays, *_smaller(op, arrays)]:
        if isinstance(op, Rowwise):
            check_rows(op, variant)
        _check(op, name, variant, chosen)
        leaves = [input(a.shape, a.dtype) for a in variant]
        check_declared(op(*leaves), leaves, variant)
    if isinstance(op, Rowwise):
        _check(*_otherwise(op, arrays), [number for number in chosen if number in (7, 8)], _rules(op))
    if any(a.dtype.kind == "f" for a in arrays):
        _check_float32(op, name, arrays)
    if narrow:
        _check_narrow(op, name, arrays, [number for number in chosen if number in (1, 7)])
    if isinstance(op, Elementwise) and op.kernel and op.arity == len(arrays):
        _check_kernel(op, arrays)


def _rules(op: Any) -> frozenset[str]:
    if not isinstance(op, Op):
        return RULES
    return frozenset(rule for rule in RULES if getattr(type(op), rule) is not getattr(Op, rule))


def _possible(op: Any, name: str, arrays: Sequence[Array], laws: tuple[int, ...]) -> tuple[int, ...]:
    missing = sorted(RULES - _rules(op))
    left_out = [number for number in laws if NEEDS.get(number, frozenset()) & {*missing}]
    y = op(*(input(a.shape, a.dtype) for a in arrays)) if left_out else None
    if y is None or not is_float(y.dtype) or not any(is_float(a.dtype) for a in arrays):
        return laws
    held = "" if "backward" in missing else "; backward is compared with finite differences of forward"
    warnings.warn(
        f"check_op: {name} has no {' and no '.join(missing)}, so law{'s' * (len(left_out) > 1)} "
        f"{', '.join(map(str, left_out))} {'are' if len(left_out) > 1 else 'is'} not checked{held}",
        stacklevel=3,
    )
    return tuple(number for number in laws if number not in left_out)


def _otherwise(op: Rowwise, arrays: Sequence[Array]) -> tuple[Callable[..., Node], str, list[Array]]:
    seen, held = seen_otherwise(op, arrays)
    return seen, f"{op.name} of views", held


def _check_kernel(op: Elementwise, arrays: Sequence[Array]) -> None:
    whole = list(np.broadcast_arrays(*arrays))
    y = np.asarray(op.forward(*whole))
    try:
        found = evaluate_kernel(op.kernel, whole, y)
    except (SyntaxError, NameError, TypeError, ArithmeticError, ValueError) as error:
        raise LawError(
            f"{op.name}: kernel {op.kernel!r} cannot be evaluated: {error}. It is one expression in x, y, z and "
            f"{', '.join(MATHEMATICS)}."
        ) from None
    wrong = ~np.isclose(found, y, rtol=1e-6 if y.dtype == FLOAT32 else 1e-13, atol=1e-14, equal_nan=True)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        point = [a[at].item() for a in whole]
        raise LawError(
            f"{op.name}: kernel {op.kernel!r} differs from forward: at {point} the kernel gives {found[at].item()!r}, "
            f"forward {y[at].item()!r}"
        )


def _check(
    op: Callable[..., Node],
    name: str,
    arrays: Sequence[Array],
    laws: Sequence[int],
    rules: frozenset[str] | None = None,
) -> None:
    """Checks laws; rules: rules of the ops in op's graph, by default those of op."""
    rules = _rules(op) if rules is None else rules
    for number in laws:
        law, needs_derivatives = LAWS[number]

        def broken(
            values: Sequence[Array], law: Any = law, needs: bool = needs_derivatives, number: int = number
        ) -> LawError | None:
            leaves = [input(a.shape, a.dtype, name=f"input{i}") for i, a in enumerate(values, start=1)]
            # Finite differences include derivatives that an op's rules stop, unless stopping is its purpose.
            own = isinstance(op, Op) and not op.stops_gradient
            problem = make_problem([op(*leaves)], leaves, values, not own, rules)
            if needs and not (problem.wrt and problem.smooth_outputs):
                return None
            try:
                law(problem)
            except LawError as error:
                return error
            except (GraphnetError, ValueError, IndexError, TypeError, ArithmeticError) as error:
                found = LawError(f"law {number}: {type(error).__name__}: {error}{_line_of(error)}")
                found.__cause__ = error
                return found
            return None

        if broken(arrays) is not None:
            smallest = _shrink(arrays, lambda values: _still(broken, values))
            found = broken(smallest)
            raise LawError(f"{name}: {found}" + _listed(smallest)) from (found and found.__cause__)


def _line_of(error: Exception) -> str:
    places = [place for place in passed(error) if not place.file.startswith(_NUMPY)]
    return f"\n    raised at {places[-1]}" if places else ""


_NUMPY = os.path.dirname(np.__file__) + os.sep


def _still(broken: Callable[[Sequence[Array]], LawError | None], values: Sequence[Array]) -> bool:
    try:
        return broken(values) is not None
    except (GraphnetError, ValueError):  # invalid shapes are not a smaller failure
        return False


def _listed(arrays: Sequence[Array]) -> str:
    rows = "".join(
        f"\n      input {i}   {np.array2string(a, threshold=20, separator=', ')}   {a.dtype}{list(a.shape)}"
        for i, a in enumerate(arrays, start=1)
    )
    return f"\n    smallest failing input{rows}"


def _smaller(op: Any, arrays: Sequence[Array]) -> Iterator[list[Array]]:
    """Yields the example with each axis of the signature cut to sizes 1 and 0, and broadcast pairs."""
    if isinstance(op, Elementwise):
        for size in (1, 0):
            yield [a[tuple(slice(0, size) for _ in a.shape)] for a in arrays]
        yield [a.reshape(-1)[:1].reshape(()) for a in arrays]
        if len(arrays) > 1 and all(a.ndim for a in arrays):
            for i in range(len(arrays)):
                yield [a[..., :1] if j == i else a for j, a in enumerate(arrays)]
                yield [a[(0,) * a.ndim] if j == i else a for j, a in enumerate(arrays)]
    elif isinstance(op, Op) and op.signature:
        axes = parse(op.signature).inputs
        for letter in sorted({axis for inputs in axes for axis in inputs if axis != "..."}):
            for size in (1, 0):
                variant = [
                    a[tuple(slice(0, size) if x == letter else slice(None) for x in _spelled(inputs, a))]
                    for inputs, a in zip(axes, arrays, strict=True)
                ]
                try:
                    op(*(input(a.shape, a.dtype) for a in variant))
                except (ShapeError, DtypeError):
                    continue  # the op raises for this size
                # Indices of a cut axis would point outside of it.
                if not any(a.dtype.kind in "iu" and a.size and letter == "k" for a in variant):
                    yield variant


def _spelled(axes: Sequence[str], array: Array) -> list[str]:
    named = [axis for axis in axes if axis != "..."]
    return ["..."] * (array.ndim - len(named)) + named


def _check_float32(op: Callable[..., Node], name: str, arrays: Sequence[Array]) -> None:
    single = [a.astype(FLOAT32) if a.dtype.kind == "f" else a for a in arrays]
    double = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in single]
    results = []
    for values in (single, double):
        leaves = [input(a.shape, a.dtype) for a in values]
        y = op(*leaves)
        (result,) = compile([y], leaves, backend="numpy", passes=())(*values)
        if result.dtype != y.dtype:
            raise LawError(f"{name}: law 1: forward returned {result.dtype}, but {y.dtype} was inferred")
        _check_derivative_dtypes(name, y, [leaf for leaf in leaves if is_float(leaf.dtype)], _rules(op))
        results.append(result)
    found, expected = results
    if found.dtype.kind != "f":
        return
    scale = np.abs(expected).max(initial=1.0)
    worst = float(np.abs(found - expected).max(initial=0)) / scale
    if worst > TOLERANCES["float32"]["exact"]:
        raise LawError(
            f"{name}: law 1: float32 differs from float64 by {worst:.2g} (relative)" + _listed(single)
        )


def _check_narrow(op: Callable[..., Node], name: str, arrays: Sequence[Array], laws: Sequence[int]) -> None:
    for dtype in ("int8", "uint8", "bool"):
        values = [_narrowed(a, dtype) for a in arrays]
        try:
            op(*(input(a.shape, a.dtype) for a in values))
        except GraphnetError:
            continue  # the op raises for this dtype
        try:
            _check(op, name, values, laws)
        except LawError as error:
            remedy = "cast it in `prepare`, or raise a DtypeError in `infer`"
            if isinstance(op, Elementwise):
                remedy = "set `domain = 'float'`, which casts to floats, or 'number', which rejects booleans"
            raise LawError(f"{error}\n    {name} accepts {dtype}: {remedy}.") from None


def _narrowed(array: Array, dtype: str) -> Array:
    """Rounds floats and casts; integers, which may be indices, keep their values and never become booleans."""
    if array.dtype.kind not in "iuf" or (array.dtype.kind != "f" and dtype == "bool"):
        return array
    whole = np.rint(np.nan_to_num(array)).clip(-100, 100)
    return (abs(whole) if dtype == "uint8" else whole).astype(dtype)


def _check_derivative_dtypes(name: str, y: Node, leaves: Sequence[Node], rules: frozenset[str]) -> None:
    if not is_float(y.dtype):
        return
    try:
        if "backward" in rules:
            backward({y: np.ones(y.shape)}, leaves)
        if "rop" in rules:
            rop([y], {leaf: np.ones(leaf.shape) for leaf in leaves})
    except DtypeError as error:
        raise LawError(f"{name}: law 1: {error}") from error


def check_graph(
    outputs: Node | Iterable[Node],
    inputs: Iterable[Node],
    values: Sequence[Any] | None = None,
    laws: Iterable[int] = OF_GRAPHS,
) -> None:
    """Checks a graph, as a function of `inputs`, against laws 1-8; raises LawError if one is broken.

    outputs: a node or several. inputs: Input or Parameter nodes; the float ones are differentiated. values: one array
    for each input; by default standard normal numbers for float inputs, each parameter's own value, and zeros for
    integers.
    laws: numbers of the laws, 1-8 by default. Values that `gn.stop_gradient` stops stay fixed in finite differences.

    >>> x = gn.input((3,), "float64", name="x")
    >>> gn.testing.check_graph(gn.sum(gn.tanh(x)), inputs=[x], laws=(1, 2, 3))
    """
    listed = [outputs] if isinstance(outputs, Node) else list(outputs)
    leaves = list(inputs)
    for leaf in leaves:
        if leaf.inputs:
            raise GraphnetError(
                f"check_graph: {leaf.describe()} (made at {leaf.origin}) is not a leaf; list Input and "
                "Parameter nodes."
            )
    Graph(listed, [node for node in leaves if node.op.is_input])  # raises if one is missing
    generator = np.random.default_rng(0)
    arrays = (
        [np.asarray(v) for v in values] if values is not None else [_typical(n, generator) for n in leaves]
    )
    problem = make_problem(listed, leaves, arrays)
    for number in laws:
        law, needs_derivatives = LAWS[number]
        if not needs_derivatives or (problem.wrt and problem.smooth_outputs):
            law(make_problem(listed, leaves, arrays))


def _typical(leaf: Node, generator: np.random.Generator) -> Array:
    if not leaf.op.is_input:
        return leaf.value
    if is_float(leaf.dtype):
        return generator.standard_normal(leaf.shape)
    return np.zeros(leaf.shape, leaf.dtype)


# -- the smallest input that still breaks a law: first fewer elements, then rounder numbers --------------


def _shrink(arrays: Sequence[Array], fails: Callable[[list[Array]], bool], most: int = 60) -> list[Array]:
    """Returns smaller and rounder arrays for which `fails` still holds; tries up to `most` candidates."""
    best = [np.asarray(a) for a in arrays]
    tries = 0
    improved = True
    while improved:
        improved = False
        for candidate in _smaller_or_rounder(best):
            tries += 1
            if tries > most:
                return best
            if fails(candidate):
                best, improved = candidate, True
                break
    return best


def _smaller_or_rounder(arrays: list[Array]) -> Iterator[list[Array]]:
    # Axes of one size are cut together: they are probably the same axis of the signature.
    for size in sorted({n for a in arrays for n in a.shape if n > 1}, reverse=True):
        for smaller in (1, size // 2):
            if smaller < size:
                yield [a[tuple(slice(0, smaller if n == size else n) for n in a.shape)] for a in arrays]
    for i, a in enumerate(arrays):
        if a.dtype.kind == "f" and a.size:
            for rounder in (np.ones_like(a), np.round(a), np.round(a, 1)):
                if not np.array_equal(rounder, a) and _simpler(rounder, a):
                    yield [*arrays[:i], rounder, *arrays[i + 1 :]]


def _simpler(new: Array, old: Array) -> bool:
    return len(np.array2string(new)) < len(np.array2string(old))
