"""Tests for your own cells and optimizers.

rnn.testing.check_cell(MyCell)
rnn.testing.check_optimizer(MyOptimizer(rate=0.1))
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet.testing.check import check_graph
from graphnet.testing.laws import TOLERANCES, LawError, held_where_stopped, require_same_in_any_order
from graphnet_rnn.cell.cell import Cell, classes_of
from graphnet_rnn.errors import UsageError
from graphnet_rnn.formats.model_file import ModelFile, describe_model, model_tensors, network_of
from graphnet_rnn.network.network import Network
from graphnet_rnn.network.unroll import Unrolled
from graphnet_rnn.optimizers.checks import OPTIMIZER_CHECKS, check_optimizer
from graphnet_rnn.settings import shown

__all__ = ["CHECKS", "OPTIMIZER_CHECKS", "check_cell", "check_network", "check_optimizer"]

SYMBOLS = 4


@dataclass
class Subject:
    """The cell in a small float64 network, with random weights, inputs and states."""

    name: str
    cell: Cell
    network: Network
    generator: np.random.Generator

    @property
    def parameters(self) -> list[Node]:
        return list(self.network.parameters.values())

    def unroll(
        self, time: int = 3, batch: int = 2, network: Network | None = None
    ) -> tuple[Unrolled, list[Node], list[Array]]:
        """An unrolled network, its inputs, targets and initial states, and arrays for these."""
        net = network or self.network
        u = net.unroll(time, batch, training=False)
        symbols = self.generator.integers(0, SYMBOLS, (2, time, batch))
        states = [0.5 * self.generator.standard_normal(node.shape) for node in u.initial]
        return u, [u.inputs, u.targets, *u.initial], [symbols[0], symbols[1], *states]


def check_cell(cell: Cell | type[Cell], report: Callable[[str, str], None] | None = None) -> None:
    """Tests gradients, batching, unrolling, curvature, threads, float32 and model files of a cell.

    cell: a class, or an instance with the settings to test (rebuilt with three units to be fast). Values that the
    equations stop by `gn.stop_gradient` are held constant in finite differences.
    report: called with (name of the test, result) after each test that passed; None by default.
    Raises LawError or CellError.

    >>> passed = []
    >>> rnn.testing.check_cell(rnn.Elman, report=lambda name, found: passed.append(name))
    >>> passed[:4]
    ['gradient', 'one step', 'cases', 'unrolling']
    """
    small = _small(cell)
    network = Network([small], inputs=SYMBOLS, outputs=SYMBOLS, dtype="float64")
    generator = np.random.default_rng(0)
    network.theta = 0.5 * generator.standard_normal(network.theta.shape)
    subject = Subject(type(small).__name__, small, network, generator)
    for name, check in CHECKS.items():
        found = check(subject)
        if report is not None:
            report(name, found)


def check_network(network: Network, report: Callable[[str, str], None] | None = None) -> None:
    """Compares derivatives of a network, at its current weights, with finite differences; LawError if they differ.

    network: one with the softmax loss. report: called with (name of the test, result) after each test that passed; None
    by default. The gradient, the R-operator and the Gauss-Newton product are tested in float64 along a random direction
    of all parameters, over 5 time steps of 2 sequences.

    >>> rnn.testing.check_network(rnn.Network([rnn.Elman(3)], inputs=4, outputs=4))
    """
    if not network.predicts_symbols:
        raise UsageError("check_network needs a network that reads symbols and predicts them")
    double = Network(network.layers, network.inputs, network.outputs, **_like(network))
    double.theta = network.theta
    for name, node in double.fixed.items():
        node.value[...] = network.fixed[name].value
    generator = np.random.default_rng(0)
    subject = Subject("the network", network.layers[0], double, generator)
    learned = network.initial_state == "learned"
    u = double.unroll(5, 2, training=False, initial="learned" if learned else "given")
    symbols = generator.integers(0, network.inputs, (2, 5, 2))
    arrays = [symbols[0], symbols[1] % network.outputs, *([] if learned else double.first_states(2))]
    inputs = [u.inputs, u.targets, *([] if learned else u.initial)]
    parameters = subject.parameters
    v = generator.standard_normal(double.theta.size)
    tangents = _divided(v, parameters)

    cost_slope = _slope(subject, _moving(u.cost, inputs, arrays), v)
    logits_slope = _slope(subject, _moving(u.logits, inputs, arrays), v)
    gradient = gn.compile(gn.gradient(u.cost, parameters), inputs)(*arrays)
    (rop,) = gn.compile(gn.rop([u.logits], tangents), inputs)(*arrays)
    product = gn.compile(gn.gauss_newton_product(u.cost, tangents), inputs)(*arrays)
    # vᵀGv is the mean over cases of the variance of R{o} under the predicted distribution p.
    p = np.exp(_log_softmax(gn.compile([u.logits], inputs)(*arrays)[0]))
    variance = (p * logits_slope**2).sum(axis=2) - (p * logits_slope).sum(axis=2) ** 2
    for name, found, expected in (
        ("gradient", _along(gradient, tangents), cost_slope),
        ("R-operator", rop, logits_slope),
        ("Gauss-Newton", _along(product, tangents), variance.mean()),
    ):
        worst = _require(subject, f"{name} = finite difference", found, expected, "difference")
        if report is not None:
            report(
                name,
                f"{float(np.ravel(found)[0]):+.8f} = {float(np.ravel(expected)[0]):+.8f} along a random direction "
                f"of {v.size:,} parameters, largest difference {worst:.1e}",
            )


def _divided(vector: Array, nodes: Sequence[Node]) -> dict[Node, Array]:
    pieces = np.split(vector, np.cumsum([node.size for node in nodes])[:-1])
    return {node: piece.reshape(node.shape) for node, piece in zip(nodes, pieces, strict=True)}


def _along(arrays: Sequence[Array], tangents: dict[Node, Array]) -> float:
    return sum(float((a * v).sum()) for a, v in zip(arrays, tangents.values(), strict=True))


def _log_softmax(o: Array) -> Array:
    o = o - o.max(axis=-1, keepdims=True)
    found: Array = o - np.log(np.exp(o).sum(axis=-1, keepdims=True))
    return found


def _like(network: Network) -> dict[str, Any]:
    settings = {k: v for k, v in network.settings().items() if k not in ("layers", "inputs", "outputs")}
    return {**settings, "dtype": "float64"}


def _small(cell: Cell | type[Cell]) -> Cell:
    if isinstance(cell, type) and issubclass(cell, Cell):
        try:
            inspect.signature(cell).bind()
        except TypeError as error:
            raise UsageError(
                f"{cell.__name__} cannot be created without settings ({error}): give check_cell an instance, or give "
                "the setting a default"
            ) from None
        cell = cell()
    if isinstance(cell, Cell):
        return cell.resized(3)
    raise UsageError(f"check_cell takes a cell class or a cell, not {shown(cell)}")


# -- tests: each raises LawError, or returns its result in words -----------------------------------


def step_obeys_the_laws(subject: Subject) -> str:
    """One step, as a function of x, the states and every weight, obeys laws 1-7."""
    graph = subject.network.layers[0].__graph__()
    leaves = [*graph.inputs, *subject.network.layers[0].weights.values()]
    values = [0.5 * subject.generator.standard_normal(leaf.shape) for leaf in leaves]
    # The states, not their labels, so that errors show the line of the equation.
    check_graph([label.inputs[0] for label in graph.outputs], leaves, values, laws=range(1, 8))
    return f"{len(graph)} nodes, {len(leaves)} leaves: laws 1-7 hold"


def cases_are_independent(subject: Subject) -> str:
    """A step's results for a case of a batch equal those for the case alone."""
    cell, batch = subject.network.layers[0], 3
    together, alone = _step(cell, batch), _step(cell, 1)
    arrays = [0.5 * subject.generator.standard_normal(node.shape) for node in together.inputs]

    def mixed(some: Sequence[Node], same: Sequence[Node]) -> list[Node]:
        """Nodes whose values for a case depend on the others; same: the nodes of a case alone."""
        found = gn.compile(some, together.inputs, passes=())(*arrays)
        single = gn.compile(same, alone.inputs, passes=())
        cases = zip(*(single(*(a[i : i + 1] for a in arrays)) for i in range(batch)), strict=True)
        pairs = [(v, np.concatenate(rows)) for v, rows in zip(found, cases, strict=True) if v.ndim]
        nodes = [node for node in some if node.ndim]
        return [n for n, (v, w) in zip(nodes, pairs, strict=True) if v.shape == w.shape and _differ(v, w)]

    wrong = mixed(together.outputs, alone.outputs)
    if wrong:
        steps = [[node for node in graph.order if node.inputs] for graph in (together, alone)]
        if len(steps[0]) == len(steps[1]):  # same equations: find the first wrong one
            wrong = mixed(*steps)
        raise LawError(
            f"{subject.name}: results for a case of a batch depend on other cases, at {wrong[0].origin} "
            f"({wrong[0].describe()}). The first axis is the batch: sum, take and join along the others."
        )
    return f"each of {batch} cases is computed as if it were alone"


def _step(cell: Cell, batch: int) -> gn.Graph:
    given = [gn.input((batch, n), "float64") for n in (cell.reads, *cell.widths)]
    output, after = cell.advance(given[0], given[1:])
    return gn.Graph([output, *after], given)


def _differ(found: Array, expected: Array) -> bool:
    exact = TOLERANCES["float64"]["exact"]
    return not np.allclose(found, expected, rtol=exact, atol=exact)


def unrolled_is_a_loop(subject: Subject) -> str:
    """An unrolled network = its step in a plain loop (law 11): stacked, skipping, batch 1, one time step."""
    cases = 0
    for layers in (1, 2):
        for skip in (False, True):
            network = Network(
                [subject.cell] * layers, SYMBOLS, SYMBOLS, skip=skip, dtype="float64", seed=layers
            )
            for time, batch in ((1, 1), (3, 2)):
                u, inputs, arrays = subject.unroll(time, batch, network)
                (found,) = gn.compile([u.cost], inputs)(*arrays)
                _require(subject, "unrolled cost = plain loop", found, _loop_cost(network, arrays), "exact")
                cases += 1
    cell = subject.network.layers[0]
    if cell.causal:  # `sequence` is used beside a bidirectional layer
        xs = [0.5 * subject.generator.standard_normal((2, cell.reads)) for _ in range(3)]
        states = [0.5 * subject.generator.standard_normal((2, n)) for n in cell.widths]
        _require(
            subject, "sequence = plain loop", _in_one(cell, xs, states), _looped(cell, xs, states), "exact"
        )
        _require_read_off(subject, cell, [xs[0], *states])
    return f"{cases} shapes agree with a plain loop"


def _loop_cost(network: Network, arrays: list[Array]) -> float:
    inputs, targets, *initial = arrays
    time, batch = inputs.shape
    weights = {name: node.value for name, node in network.parameters.items()}
    xs = list(np.eye(network.inputs)[inputs])
    below, hidden, at = xs, [], 0
    for l, cell in enumerate(network.layers):
        read = (
            [np.concatenate([h, x], axis=1) for h, x in zip(below, xs, strict=True)]
            if network.skip and l
            else below
        )
        states = initial[at : at + len(cell.states)]
        at += len(cell.states)
        below = _looped(cell, read, states)
        hidden.append(below)
    total = 0.0
    for t, column in enumerate(zip(*hidden, strict=True)):
        if network.skip:
            o = sum(h @ weights[f"output.W_h{l}o"] for l, h in enumerate(column)) + weights["output.b_o"]
        else:
            o = column[-1] @ weights["output.W_ho"] + weights["output.b_o"]
        total -= float(_log_softmax(np.asarray(o))[np.arange(batch), targets[t]].sum())
    return total / (time * batch)


def _require_read_off(subject: Subject, cell: Cell, arrays: list[Array]) -> None:
    """Requires that `read_off`, of the states after a step, is the output of this step."""
    x, *before = [gn.input(array.shape, "float64") for array in arrays]
    output, after = cell.advance(x, before)
    try:
        read = cell.read_off(after)
    except UsageError:  # the output depends on the input, too
        return
    found, expected = gn.compile([read, output], [x, *before], backend="numpy", passes=())(*arrays)
    _require(subject, "read_off(states after a step) = output", found, expected, "exact")


def _in_one(cell: Cell, xs: list[Array], states: list[Array]) -> list[Array]:
    """Outputs of `sequence`."""
    nodes = [gn.input(x.shape, "float64") for x in xs]
    before = [gn.input(state.shape, "float64") for state in states]
    outputs, _ = cell.sequence(nodes, before)
    return list(gn.compile(outputs, [*nodes, *before], backend="numpy", passes=())(*xs, *states))


def _looped(cell: Cell, xs: list[Array], states: list[Array]) -> list[Array]:
    batch, width = xs[0].shape
    if not cell.causal:
        return _in_one(cell, xs, states)
    x = gn.input((batch, width), "float64")
    before = [gn.input((batch, n), "float64") for n in cell.widths]
    output, after = cell.advance(x, before)
    step = gn.compile([output, *after], [x, *before], backend="numpy", passes=())
    results = []
    for value in xs:
        out, *states = step(value, *states)
        results.append(out)
    return results


def gradient_is_slope(subject: Subject) -> str:
    """Backpropagation through time = finite difference of the cost, in every parameter."""
    u, inputs, arrays = subject.unroll()
    parameters = subject.parameters
    pieces = gn.compile(gn.gradient(u.cost, parameters), inputs)(*arrays)
    found = np.concatenate([p.ravel() for p in pieces])
    expected = _slopes(subject, _moving(u.cost, inputs, arrays)).ravel()
    worst = _require(subject, "gradient = finite difference", found, expected, "difference")
    return f"{found.size} derivatives, largest difference {worst:.1e}"


def rop_is_slope(subject: Subject) -> str:
    """The R-operator of the pre-outputs = their finite difference along a random direction."""
    u, inputs, arrays = subject.unroll()
    parameters = subject.parameters
    v = [subject.generator.standard_normal(node.shape) for node in parameters]
    (found,) = gn.compile(gn.rop([u.logits], dict(zip(parameters, v, strict=True))), inputs)(*arrays)
    flat = np.concatenate([piece.ravel() for piece in v])
    expected = _slope(subject, _moving(u.logits, inputs, arrays), flat)
    worst = _require(subject, "R{o} = finite difference", found, expected, "difference")
    return f"{found.size} derivatives, largest difference {worst:.1e}"


def gauss_newton_is_dense(subject: Subject) -> str:
    """Gv = Jᵀ H_L J v with J from finite differences and H_L = (diag p - ppᵀ) / cases; symmetric, PSD."""
    u, inputs, arrays = subject.unroll()
    parameters = subject.parameters
    directions = [gn.input(node.shape, node.dtype) for node in parameters]
    product = gn.compile(
        gn.gauss_newton_product(u.cost, dict(zip(parameters, directions, strict=True))),
        [*inputs, *directions],
    )
    size = subject.network.theta.size
    found = np.empty((size, size))
    for i, unit in enumerate(np.eye(size)):
        vs = _divided(unit, parameters).values()
        found[i] = np.concatenate([g.ravel() for g in product(*arrays, *vs)])
    (o,) = gn.compile([u.logits], inputs)(*arrays)
    p = np.exp(_log_softmax(o.reshape(-1, SYMBOLS)))
    jacobian = _slopes(subject, _moving(u.logits, inputs, arrays)).reshape(size, len(p), SYMBOLS)
    weighted = (p * jacobian - p * (p * jacobian).sum(axis=2, keepdims=True)) / len(p)
    expected = np.einsum("ack,bck->ab", jacobian, weighted)
    worst = _require(subject, "Gv = dense JᵀHJ", found, expected, "difference")
    _require(subject, "G symmetric", found, found.T, "exact")
    smallest = float(np.linalg.eigvalsh((found + found.T) / 2)[0])
    if smallest < -TOLERANCES["float64"]["exact"]:
        raise LawError(
            f"{subject.name}: G has the eigenvalue {smallest:.3g}; it must be positive semi-definite"
        )
    return f"{size} × {size} matrix, largest difference {worst:.1e}, symmetric, PSD"


def cores_run_in_any_order(subject: Subject) -> str:
    """Cost, gradient and Gv are bit-identical to one core for any number and order of cores (law 8)."""
    u, inputs, arrays = subject.unroll(2, 12)
    parameters = subject.parameters
    tangents = {node: subject.generator.standard_normal(node.shape) for node in parameters}
    nodes = [u.cost, *gn.gradient(u.cost, parameters), *gn.gauss_newton_product(u.cost, tangents)]
    require_same_in_any_order(gn.Graph(nodes, inputs), arrays)
    return f"{len(nodes)} results have the same bits on 1 and 5 cores"


def trains_in_float32(subject: Subject) -> str:
    """A cell recreated from its settings, in float32 and with other sizes, gives the same numbers."""
    cell, again = subject.cell.resized(5), subject.cell.resized(5)
    single = Network([cell, cell], SYMBOLS, SYMBOLS, skip=True, dtype="float32")
    double = Network([again, again], SYMBOLS, SYMBOLS, skip=True, dtype="float64")
    double.theta = single.theta
    symbols = subject.generator.integers(0, SYMBOLS, (2, 3, 2))
    results = []
    for network in (single, double):
        u = network.unroll(3, 2, training=False)
        nodes = [u.cost, *gn.gradient(u.cost, list(network.parameters.values()))]
        arrays = [symbols[0], symbols[1], *network.zero_states(2)]
        results.append([np.ravel(a) for a in gn.compile(nodes, [u.inputs, u.targets, *u.initial])(*arrays)])
        wrong = [a.dtype for a in results[-1] if a.dtype != network.dtype]
        if wrong:
            raise LawError(f"{subject.name}: a network of {network.dtype} computed {wrong[0]}")
    found, expected = (np.concatenate(r) for r in results)
    worst = float(np.abs(found - expected).max() / max(1.0, float(np.abs(expected).max())))
    if not worst <= TOLERANCES["float32"]["exact"]:
        raise LawError(
            f"{subject.name}: float32 differs from float64 by {worst:.2g} in the cost or its gradient, or the "
            "cell changes when it is recreated from its settings (are there random numbers in __init__?)"
        )
    return f"cost and {found.size - 1} derivatives agree with float64 to {worst:.1e}"


def comes_back_from_a_file(subject: Subject) -> str:
    """A model file restores settings, with their types, and weights."""
    network = subject.network
    described = json.loads(json.dumps(describe_model(network)))
    file = ModelFile(model_tensors(network), described)
    again = network_of(file, "a model file", classes_of(network.layers))
    before, after = (repr([cell.settings() for cell in net.layers]) for net in (network, again))
    if before != after:
        raise LawError(
            f"{subject.name}: after loading from a model file, the settings are {after}, not {before}"
        )
    if again.theta.tobytes() != network.theta.tobytes():
        raise LawError(f"{subject.name}: after loading from a model file, the weights differ")
    return f"{len(network.layers[0].settings())} settings and {network.theta.size} weights are equal after loading"


CHECKS: dict[str, Callable[[Subject], str]] = {
    "gradient": gradient_is_slope,  # first, since it names the weight
    "one step": step_obeys_the_laws,
    "cases": cases_are_independent,
    "unrolling": unrolled_is_a_loop,
    "R-operator": rop_is_slope,
    "Gauss-Newton": gauss_newton_is_dense,
    "threads": cores_run_in_any_order,
    "float32": trains_in_float32,
    "file": comes_back_from_a_file,
}


# -- finite differences over the flat vector -------------------------------------------------------

STEP = 1e-5


def _moving(node: Node, inputs: Sequence[Node], arrays: Sequence[Array]) -> Callable[[], Array]:
    """Function of the current parameters that returns the node's value, with stopped gradients held constant."""
    (moving,), stopped, held = held_where_stopped([node])
    values = gn.compile(stopped, inputs)(*arrays) if stopped else ()
    function = gn.compile([moving], [*inputs, *held])
    return lambda: function(*arrays, *values)[0]


def _slope(subject: Subject, function: Callable[[], Array], direction: Array) -> Array:
    theta = subject.network.theta
    before = theta.copy()
    try:
        theta[...] = before + STEP * direction
        plus = function()
        theta[...] = before - STEP * direction
        return np.asarray((plus - function()) / (2 * STEP))
    finally:
        theta[...] = before


def _slopes(subject: Subject, function: Callable[[], Array]) -> Array:
    return np.stack([_slope(subject, function, unit) for unit in np.eye(subject.network.theta.size)])


def _require(subject: Subject, what: str, found: Any, expected: Any, kind: str) -> float:
    found, expected = np.asarray(found), np.asarray(expected)
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    worst = float(np.abs(found - expected).max(initial=0)) / scale
    if not worst <= TOLERANCES["float64"][kind]:
        place = _place(subject, found, expected)
        raise LawError(f"{subject.name}: {what} fails: largest difference {worst:.3g}{place}")
    return worst


def _place(subject: Subject, found: Array, expected: Array) -> str:
    if found.shape[:1] != subject.network.theta.shape:
        return f"\n    found     {found.ravel()[:4]}\n    expected  {expected.ravel()[:4]}"
    worst = int(np.abs(found - expected).reshape(len(found), -1).max(axis=1).argmax())
    at = 0
    for name, node in subject.network.parameters.items():
        if worst < at + node.size:
            index = [int(i) for i in np.unravel_index(worst - at, node.shape)]
            return (
                f" in {name}{index}\n    found     {np.atleast_1d(found[worst])[:4]}"
                f"\n    expected  {np.atleast_1d(expected[worst])[:4]}\n    made at   {node.origin}"
            )
        at += node.size
    return ""
