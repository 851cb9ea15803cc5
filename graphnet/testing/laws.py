"""The laws, each a function that raises LawError where it does not hold.

1  forward gives the shape and dtype that were inferred; float32 agrees with float64.
2  rop = central finite difference of forward, with values behind gn.stop_gradient fixed.
3  <u, J v> = <Jᵀ u, v>; for an op without `rop`, J v is a central finite difference of forward.
4  rop = double backward (R{y} = d/du <v, Jᵀu>, since Jᵀu is linear in u).
5  Hv is symmetric and = finite difference of the gradient; Gv = the dense Jᵀ H_L J v, symmetric.
6  Every pass keeps every output and every derivative.
7  Every back end agrees with NumPy.
8  Threads: any number of cores, in any order, gives the bits of one core.
9  Edges: with an infinity, a NaN or a zero in an input, every back end agrees with NumPy. For ops only: in graphs,
   passes omit products with known zeros.

All derivatives are checked in float64.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from graphnet import passes
from graphnet.backends import load_backend, usable_backends
from graphnet.backends.numpy import NumpyProgram
from graphnet.call.function import compile
from graphnet.derivatives.curvature import gauss_newton_product, hessian_product
from graphnet.derivatives.gradient import backward, gradient, rop
from graphnet.errors import DifferentiationError
from graphnet.graph.dtypes import FLOAT32, FLOAT64, is_float
from graphnet.graph.graph import Graph, ancestors, rewrite, substitute
from graphnet.graph.node import Array, Node
from graphnet.ops.elementwise import add
from graphnet.ops.leaf import constant, input, parameter
from graphnet.ops.reduce import sum as sum_of

#: Tolerances relative to the largest value: "exact" for two ways to the same number, "difference" for finite
#: differences.
TOLERANCES: dict[str, dict[str, float]] = {
    "float32": {"exact": 2e-5, "difference": 1e-2},
    "float64": {"exact": 1e-10, "difference": 1e-6, "bits": 0.0},
}

STEP = 1e-5

#: Derivative rules of an op.
RULES = frozenset({"backward", "rop"})


class LawError(AssertionError):
    """A law is broken; the message gives the law, the place, both values and the smallest failing input."""


class LawProblem:
    """Outputs as a function of leaves, in float64, at one point."""

    def __init__(
        self,
        outputs: Sequence[Node],
        leaves: Sequence[Node],
        values: Sequence[Array],
        holds_stopped: bool = True,
        rules: frozenset[str] = RULES,
    ) -> None:
        """holds_stopped: values behind gn.stop_gradient stay fixed in finite differences.

        rules: those of RULES that all ops of the problem define.
        """
        self.holds_stopped, self.rules = holds_stopped, rules
        self.outputs, self.leaves, self.values = list(outputs), list(leaves), list(values)
        self.floats = [i for i, leaf in enumerate(leaves) if is_float(leaf.dtype)]
        self.smooth_outputs = [node for node in dict.fromkeys(outputs) if is_float(node.dtype)]  # each once
        self.generator = np.random.default_rng(0)
        #: The second derivatives of `scalar` at the outputs.
        self.weights = [self.generator.uniform(0.5, 1.5, node.shape) for node in self.smooth_outputs]

    @property
    def wrt(self) -> list[Node]:
        return [self.leaves[i] for i in self.floats]

    def run(
        self,
        nodes: Sequence[Node],
        extra: Sequence[tuple[Node, Array]] = (),
        values: Sequence[Array] | None = None,
        **how: Any,
    ) -> list[Array]:
        """Returns the nodes' values at the problem's point, or at other values of the leaves."""
        how.setdefault("passes", ())
        how.setdefault("backend", "numpy")
        function = compile(nodes, [*self.leaves, *(node for node, _ in extra)], **how)
        return list(function(*(values or self.values), *(array for _, array in extra)))

    def direction(self) -> list[Array]:
        """Returns a random direction, one array for each float leaf."""
        return [self.generator.standard_normal(leaf.shape) for leaf in self.wrt]

    def moved(self, direction: Sequence[Array], step: float) -> list[Array]:
        values = list(self.values)
        for i, d in zip(self.floats, direction, strict=True):
            values[i] = values[i] + step * d
        return values

    def slope(self, nodes: Sequence[Node], direction: Sequence[Array]) -> list[Array]:
        """Returns the central finite difference of the nodes along a direction, with stopped values fixed."""
        moving, stopped, held = held_where_stopped(nodes) if self.holds_stopped else (list(nodes), [], [])
        extra = list(zip(held, self.run(stopped) if stopped else (), strict=True))
        plus = self.run(moving, extra, self.moved(direction, STEP))
        minus = self.run(moving, extra, self.moved(direction, -STEP))
        return [(p - m) / (2 * STEP) for p, m in zip(plus, minus, strict=True)]

    def scalar(self) -> Node:
        """Returns a cost with known curvature: Σ u·y + ½ Σ w·y² over the float outputs, u and w random, w > 0."""
        parts = []
        for node, weights in zip(self.smooth_outputs, self.weights, strict=True):
            u = constant(self.generator.standard_normal(node.shape))
            parts.append(sum_of(node * u) + 0.5 * sum_of(constant(weights) * node * node))
        return add(*parts)

    def run_with_parameters(self, nodes: Sequence[Node], **how: Any) -> list[Array]:
        """Runs with parameters in place of float leaves, which take their values after compiling."""
        held = {self.leaves[i]: parameter(self.values[i] + 1.0) for i in self.floats}
        fed = [i for i in range(len(self.leaves)) if i not in self.floats]
        function = compile(substitute(nodes, held), [self.leaves[i] for i in fed], **how)
        for i in self.floats:
            held[self.leaves[i]].value = self.values[i]
        return list(function(*(self.values[i] for i in fed)))


def held_where_stopped(nodes: Sequence[Node]) -> tuple[list[Node], list[Node], list[Node]]:
    """Returns the nodes as functions also of values behind `gn.stop_gradient`, these values, and inputs for them.

    Derivatives are those of this function, with the inputs at the stopped values.
    """
    stopped = [node for node in ancestors(nodes) if node.op.stops_gradient]
    held = [input(node.shape, node.dtype) for node in stopped]
    return substitute(nodes, dict(zip(stopped, held, strict=True))), stopped, held


def make_problem(
    outputs: Sequence[Node],
    leaves: Sequence[Node],
    values: Sequence[Array],
    holds_stopped: bool = True,
    rules: frozenset[str] = RULES,
) -> LawProblem:
    """Returns the problem of a graph in float64, with every leaf (also parameters) as an input."""
    fed: dict[Node, Node] = {leaf: input(leaf.shape, _double(leaf.dtype), name=leaf.name) for leaf in leaves}

    def in_float64(node: Node) -> Node:
        if node in fed:
            return fed[node]
        op = node.op
        if op.is_input:
            return node
        if not node.inputs and op.everywhere is None:
            return constant(node.value.astype(_double(node.dtype)))
        settings = {f.name: getattr(op, f.name) for f in fields(op) if f.init}
        changes = {name: FLOAT64 for name, s in settings.items() if isinstance(s, np.dtype) and s == FLOAT32}
        if not changes and not node.inputs:
            return node
        return (replace(op, **changes) if changes else op)(*node.inputs, name=node.name)

    done = rewrite(ancestors(outputs), in_float64, same=False)
    doubled = [done.get(node, node) for node in outputs]
    doubles = [_as_double(v) for v in values]
    return LawProblem(doubled, [fed[leaf] for leaf in leaves], doubles, holds_stopped, rules)


def _double(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return FLOAT64 if is_float(dtype) else dtype


def _as_double(array: Array) -> Array:
    return array.astype(_double(array.dtype))


# -- comparing -------------------------------------------------------------------------------


def require_close(law: str, what: str, node: Node, found: Array, expected: Array, kind: str) -> None:
    """Raises LawError unless floats agree, relative to the largest finite value expected, and others are equal."""
    tolerance = TOLERANCES["float64"][kind]
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape:
        raise LawError(
            f"{law}: {what} has shape {list(found.shape)}, but must have {list(expected.shape)}"
            + _where(node)
        )
    same = found == expected
    if not is_float(expected.dtype):
        finite = np.zeros(same.shape, bool)
    else:
        finite = np.isfinite(found) & np.isfinite(expected)
        same |= np.isnan(found) & np.isnan(expected)
    scale = max(1.0, float(np.abs(np.where(finite, expected, 0)).max(initial=0)))
    wrong = np.where(
        finite, np.abs(np.where(finite, found, 0) - np.where(finite, expected, 0)) > tolerance * scale, ~same
    )
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        places = f" in {int(wrong.sum())} of {wrong.size} places, first at {list(at)}" if at else ""
        raise LawError(
            f"{law}: {what} is wrong{places}"
            f"\n    found     {found[at]}\n    expected  {expected[at]}" + _where(node)
        )


def _where(node: Node) -> str:
    return f"\n    node      {node.describe()}, {node.op.formula()}\n    made at   {node.origin}"


# -- the laws --------------------------------------------------------------------------------


def law_1_forward(problem: LawProblem) -> None:
    """Checks that forward gives the inferred shape and dtype, at every node."""
    graph = Graph(problem.outputs, problem.leaves)
    order = graph.order

    def observe(i: int, value: Array, seconds: float) -> None:
        node = order[i]
        if not isinstance(value, (np.ndarray, np.generic)):
            raise LawError(f"law 1: forward returned a {type(value).__name__}, not an array" + _where(node))
        if value.shape != node.shape or value.dtype != node.dtype:
            raise LawError(
                f"law 1: forward returned {value.dtype}{list(value.shape)}, but {node.dtype}"
                f"{list(node.shape)} was inferred" + _where(node)
            )

    NumpyProgram(graph, None, False).observed(problem.values, observe)


def law_2_rop_is_slope(problem: LawProblem) -> None:
    """Checks that rop = finite difference of forward."""
    direction = problem.direction()
    tangents = problem.run(rop(problem.smooth_outputs, dict(zip(problem.wrt, direction, strict=True))))
    slopes = problem.slope(problem.smooth_outputs, direction)
    for node, r, d in zip(problem.smooth_outputs, tangents, slopes, strict=True):
        require_close("law 2 (rop = finite difference)", "rop", node, r, d, "difference")


def law_3_transpose(problem: LawProblem) -> None:
    """Checks that <u, J v> = <Jᵀ u, v>."""
    direction = problem.direction()
    us = [problem.generator.standard_normal(node.shape) for node in problem.smooth_outputs]
    if "rop" in problem.rules:
        jv = problem.run(rop(problem.smooth_outputs, dict(zip(problem.wrt, direction, strict=True))))
        law, kind = "law 3 (<u, Jv> = <Jᵀu, v>)", "exact"
    else:
        jv = problem.slope(problem.smooth_outputs, direction)
        law, kind = "law 3 (<u, Jv> = <Jᵀu, v>, Jv a finite difference of forward)", "difference"
    jtu = problem.run(backward(dict(zip(problem.smooth_outputs, us, strict=True)), problem.wrt))
    left = sum(float((u * r).sum()) for u, r in zip(us, jv, strict=True))
    right = sum(float((g * v).sum()) for g, v in zip(jtu, direction, strict=True))
    require_close(law, "<Jᵀu, v>", problem.smooth_outputs[-1], np.asarray(right), np.asarray(left), kind)


def law_4_double_backward(problem: LawProblem) -> None:
    """Checks that rop = double backward."""
    direction = problem.direction()
    tangents = rop(problem.smooth_outputs, dict(zip(problem.wrt, direction, strict=True)))
    us = [input(node.shape, FLOAT64) for node in problem.smooth_outputs]
    jtu = backward(dict(zip(problem.smooth_outputs, us, strict=True)), problem.wrt)
    inner = add(*(sum_of(g * constant(v)) for g, v in zip(jtu, direction, strict=True)))
    extra = [(u, problem.generator.standard_normal(u.shape)) for u in us]
    found = problem.run(tangents)
    derived = problem.run(gradient(inner, us), extra)
    for node, r, d in zip(problem.smooth_outputs, found, derived, strict=True):
        require_close("law 4 (rop = double backward)", "rop", node, r, d, "exact")


def law_5_curvature(problem: LawProblem) -> None:
    """Checks that Hv is symmetric, = slope of the gradient, and = gradient of rop; that Gv = dense Jᵀ H_L J v."""
    cost, v, w = problem.scalar(), problem.direction(), problem.direction()
    product = hessian_product(cost, dict(zip(problem.wrt, v, strict=True)))
    hv = problem.run(product)
    hw = problem.run(hessian_product(cost, dict(zip(problem.wrt, w, strict=True))))
    left = sum(float((a * b).sum()) for a, b in zip(w, hv, strict=True))
    right = sum(float((a * b).sum()) for a, b in zip(v, hw, strict=True))
    require_close(
        "law 5 (<w, Hv> = <v, Hw>)",
        "<v, Hw>",
        problem.outputs[-1],
        np.asarray(right),
        np.asarray(left),
        "exact",
    )
    slopes = problem.slope(gradient(cost, problem.wrt), v)
    for leaf, h, d in zip(problem.wrt, hv, slopes, strict=True):
        require_close("law 5 (Hv = finite difference of the gradient)", "Hv", leaf, h, d, "difference")
    along_v = sum_of(rop([cost], dict(zip(problem.wrt, v, strict=True)))[0])
    with contextlib.suppress(DifferentiationError):  # a rule may use ops that have no derivative
        for leaf, g, h in zip(problem.wrt, problem.run(gradient(along_v, problem.wrt)), hv, strict=True):
            require_close("law 5 (gradient of rop = Hv)", "gradient of rop", leaf, g, h, "exact")
    # The cost is quadratic in the outputs with Hessian diag(w), so G = Jᵀ diag(w) J when linearized at them.
    tangents = dict(zip(problem.wrt, v, strict=True))
    if not any(leaf in problem.outputs for leaf in problem.wrt):
        gv = problem.run(gauss_newton_product(cost, tangents, at=problem.smooth_outputs))
        expected = dense_gauss_newton(problem, v)
        for leaf, g, e in zip(problem.wrt, gv, expected, strict=True):
            require_close("law 5 (Gv = dense JᵀHJv)", "Gv", leaf, g, e, "difference")


def dense_gauss_newton(problem: LawProblem, v: Sequence[Array]) -> list[Array]:
    """Returns Jᵀ diag(w) J v with J from finite differences, column by column if small, else along v only."""
    slopes = problem.slope(problem.smooth_outputs, v)
    jv = [weights * slope for weights, slope in zip(problem.weights, slopes, strict=True)]
    size = sum(leaf.size for leaf in problem.wrt)
    if size > 64:
        return problem.run(
            backward(dict(zip(problem.smooth_outputs, map(constant, jv), strict=True)), problem.wrt)
        )
    result = []
    for position, leaf in enumerate(problem.wrt):
        product = np.zeros(leaf.shape)
        for index in np.ndindex(leaf.shape):
            unit = [np.zeros(other.shape) for other in problem.wrt]
            unit[position][index] = 1.0
            column = problem.slope(problem.smooth_outputs, unit)
            product[index] = sum(float((c * r).sum()) for c, r in zip(column, jv, strict=True))
        result.append(product)
    return result


def _everything(problem: LawProblem) -> list[Node]:
    nodes = list(problem.outputs)
    if problem.smooth_outputs and problem.wrt:
        cost = problem.scalar()
        direction = dict(zip(problem.wrt, problem.direction(), strict=True))
        if "backward" in problem.rules:
            nodes += gradient(cost, problem.wrt)
        if "rop" in problem.rules:
            nodes += rop(problem.smooth_outputs, direction)
        if problem.rules == RULES:
            nodes += hessian_product(cost, direction)
    return nodes


def law_6_passes(problem: LawProblem) -> None:
    """Checks that every pass, alone and with all others, keeps every output and every derivative.

    Also for parameters that change after compiling: no pass may freeze a parameter's value.
    """
    nodes = _everything(problem)
    plain = problem.run(nodes)
    choices: list[tuple[str, Sequence[Callable[[Graph], Graph]]]] = [
        (f"pass {step.name}", (step,)) for step in passes.DEFAULT
    ]
    choices.append(("pass cut, every other row", (partial(passes.cut, rows=2),)))
    for name, chosen in [*choices, ("all passes", passes.DEFAULT)]:
        for node, a, b in zip(nodes, problem.run(nodes, passes=chosen), plain, strict=True):
            if a.dtype != b.dtype:
                raise LawError(f"law 6: {name} changed {b.dtype} to {a.dtype}" + _where(node))
            require_close(f"law 6 ({name} keeps every value)", "the value", node, a, b, "exact")
    found = problem.run_with_parameters(nodes, backend="numpy")
    for node, a, b in zip(nodes, found, plain, strict=True):
        require_close("law 6 (passes see parameters change)", "the value", node, a, b, "exact")


def law_7_backends(problem: LawProblem) -> None:
    """Checks that every usable back end agrees with NumPy, also after parameters change."""
    nodes = _everything(problem)
    plain = problem.run(nodes)
    for backend in usable_backends():
        found = problem.run(nodes, backend=backend, passes=passes.DEFAULT)
        for node, a, b in zip(nodes, found, plain, strict=True):
            require_close(f"law 7 (back end {backend} = numpy)", "the value", node, a, b, "exact")
        changed = problem.run_with_parameters(nodes, backend=backend)
        for node, a, b in zip(nodes, changed, plain, strict=True):
            require_close(f"law 7 (back end {backend} sees parameters)", "the value", node, a, b, "exact")


def law_8_threads(problem: LawProblem) -> None:
    """Checks that any number of cores, running in any order, gives the bits of one core."""
    require_same_in_any_order(Graph(_everything(problem), problem.leaves), problem.values)


def require_same_in_any_order(source: Graph, values: Sequence[Array]) -> None:
    """Checks law 8 for a graph's outputs: with all passes, with none and check=True, and with recomputation.

    source: a gn.Graph. values: one array for each of its inputs. The program's parts run in the orders in which threads
    may run them. Raises LawError if any bit differs.

    >>> x = gn.input((3,), "float64", name="x")
    >>> gn.testing.require_same_in_any_order(gn.Graph(gn.tanh(x)), [np.ones(3)])
    """
    ways: Sequence[tuple[str, Sequence[passes.Pass], bool]] = (
        ("", passes.DEFAULT, False),
        (", without passes, check=True", (), True),
        (", memory='sqrt'", (*passes.recomputing(), *passes.DEFAULT), False),
    )
    for backend in map(load_backend, usable_backends()):
        for name, chosen, check in ways:
            graph, _ = passes.optimize(source, chosen, backend.has)
            expected: list[Array] | None = None
            for order, found in backend.rehearse(graph, source, values, check):
                expected = expected or found
                for node, a, b in zip(source.outputs, found, expected, strict=True):
                    if a.tobytes() != b.tobytes():
                        law = f"law 8 (back end {backend.name}{name}: {order} = one core)"
                        require_close(law, "the value", node, a, b, "bits")


def law_9_edges(problem: LawProblem) -> None:
    """Checks that NaN and infinities agree with NumPy, with one of them, or a zero, in a float input."""
    given = [
        (i, value, [_with_one(a, value) if j == i else a for j, a in enumerate(problem.values)])
        for i in problem.floats
        for value in (np.inf, np.nan, 0.0)
        if problem.values[i].size
    ]
    if not given:
        return
    plain = [problem.run(problem.outputs, values=values) for _, _, values in given]
    for backend in usable_backends():
        function = compile(problem.outputs, problem.leaves, backend=backend)
        for (i, value, values), expected in zip(given, plain, strict=True):
            law = f"law 9 (back end {backend} = numpy, with {value} in the middle of input {i + 1})"
            for node, a, b in zip(problem.outputs, function(*values), expected, strict=True):
                require_close(law, "the value", node, a, b, "exact")


def _with_one(array: Array, value: float) -> Array:
    changed = np.array(array, order="C")
    changed.reshape(-1)[array.size // 2] = value
    return changed


#: Law number -> (function, True if it needs derivatives).
LAWS: dict[int, tuple[Callable[[LawProblem], None], bool]] = {
    1: (law_1_forward, False),
    2: (law_2_rop_is_slope, True),
    3: (law_3_transpose, True),
    4: (law_4_double_backward, True),
    5: (law_5_curvature, True),
    6: (law_6_passes, False),
    7: (law_7_backends, False),
    8: (law_8_threads, False),
    9: (law_9_edges, False),
}
#: Law number -> the rules that it needs.
NEEDS: dict[int, frozenset[str]] = {2: frozenset({"rop"}), 3: frozenset({"backward"}), 4: RULES, 5: RULES}
#: Numbers of the laws that hold for any graph.
OF_GRAPHS = tuple(number for number in LAWS if number != 9)
