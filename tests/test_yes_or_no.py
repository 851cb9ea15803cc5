"""Boolean arguments accept only True and False; for other values, the error names the argument.

A public callable with such an argument needs a row in `CALLS`, or in `INNER` with the reason.
"""

from __future__ import annotations

import inspect
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from graphnet.errors import GraphnetError
from graphnet_rnn import energy, riemannian, sweep
from tests.tables import case, require_rows

x = gn.input((4, 3), "float64", name="x")
W = gn.parameter(np.ones((3, 2)), name="W")
costs = gn.sum(gn.tanh(x @ W), 1)
cost = gn.sum(costs)
BITS, ONES, STEPS = np.zeros((2, 3)), np.ones((2, 2)), np.ones((2, 1, 3))
LABELS = np.ones((3, 10), int)
RBM, TRBM = energy.RBM(3, 2), energy.TRBM(3, 2)
STACK = energy.Stack([TRBM])


class Chooses(rnn.Elman):
    """A cell with a weight whose argument `trained` is set by the test."""

    trained: Any = True

    def step(self, x: gn.Node, h: gn.Node) -> gn.Node:
        return gn.tanh(self.affine("h", x=x, h=h)) * self.weight("gain", (self.units,), trained=self.trained)


def with_weight(trained: Any) -> None:
    cell = Chooses(3)
    cell.trained = trained
    rnn.Network([cell], 3, 3)


def net(cell: type[rnn.Cell] = rnn.Elman, **settings: Any) -> rnn.Network:
    return rnn.Network([cell(3)], 3, 3, **settings)


def nade() -> rnn.RecurrentNADE:
    return rnn.RecurrentNADE(rnn.Network([rnn.Elman(2)], 3, 0, reads="vectors"), 2)


def new(name: str) -> Path:
    return Path(tempfile.mkdtemp()) / name


def as_module(v: Any) -> None:
    try:
        rnn.inside.torch_module(net(), batch_first=v)
    except rnn.errors.UsageError as error:  # an invalid value is reported before a missing PyTorch
        if "PyTorch is not installed" not in str(error):
            raise


def again(v: Any) -> None:
    """Runs a sweep of an existing text with this `retry`."""
    text = new("a.txt")
    text.write_text("ab" * 500)
    settings = {"epochs": 1, "units": 2, "sample": 0, "time": 5, "batch": 2}
    rnn.Sweep(sweep.Recipe(str(text), settings), text.parent / "sweep").run(retry=v)


def arrays() -> Path:
    np.savez(path := new("a.npz"), x=np.ones((2, 2, 1)), y=np.ones((2, 2)))
    return path


ROWS = {"x": [1.0, 2.0], "y": [1.5, 2.5]}
#: Boolean argument -> a call with the value.
CALLS: dict[str, Callable[[Any], Any]] = {
    "graphnet.compile: check": lambda v: gn.compile([cost], [x], check=v),
    "graphnet.compile: deterministic": lambda v: gn.compile([cost], [x], deterministic=v),
    "graphnet.cumsum: reverse": lambda v: gn.cumsum(x, 0, v),
    "graphnet.input: varying": lambda v: gn.input((3,), varying=v),
    "graphnet.input: weights": lambda v: gn.input((3,), weights=v),
    "graphnet.max: keepdims": lambda v: gn.max(x, 0, v),
    "graphnet.mean: keepdims": lambda v: gn.mean(x, 0, v),
    "graphnet.min: keepdims": lambda v: gn.min(x, 0, v),
    "graphnet.per_example_gradients: mixed": lambda v: gn.per_example_gradients(costs, [W], mixed=v),
    "graphnet.sum: keepdims": lambda v: gn.sum(x, 0, v),
    "graphnet.testing.check_op: narrow": lambda v: gn.testing.check_op(gn.tanh, BITS, laws=(1,), narrow=v),
    "graphnet_rnn.Cell.weight: trained": with_weight,
    "graphnet_rnn.Dense: bias": lambda v: rnn.Dense(3, bias=v),
    "graphnet_rnn.HessianFree: backtrack": lambda v: rnn.HessianFree(backtrack=v),
    "graphnet_rnn.Arrays: balanced": lambda v: rnn.Arrays(net(), LABELS, LABELS, balanced=v),
    "graphnet_rnn.HyperLSTM: layer_norm": lambda v: rnn.HyperLSTM(3, layer_norm=v),
    "graphnet_rnn.LongSequence: predict_first": lambda v: rnn.LongSequence(net(), predict_first=v),
    "graphnet_rnn.Network: output_bias": lambda v: net(output_bias=v),
    "graphnet_rnn.Network: skip": lambda v: net(skip=v),
    "graphnet_rnn.Network: truncated": lambda v: net(rnn.LSTM, truncated=v),
    "graphnet_rnn.Network: variational": lambda v: net(variational=v),
    "graphnet_rnn.Network.unroll: lengths": lambda v: net().unroll(3, 2, lengths=v),
    "graphnet_rnn.Network.unroll: predict_first": lambda v: net().unroll(3, 2, predict_first=v),
    "graphnet_rnn.Network.unroll: training": lambda v: net().unroll(3, 2, training=v),
    "graphnet_rnn.Objective: l2_in_curvature": lambda v: rnn.Objective(cost, [W], [x], l2_in_curvature=v),
    "graphnet_rnn.RecurrentNADE.predict: drawn": lambda v: nade().predict(STEPS, drawn=v),
    "graphnet_rnn.RecurrentNADE.unroll: lengths": lambda v: nade().unroll(gn.input((2, 1, 3)), lengths=v),
    "graphnet_rnn.Runner: frozen": lambda v: rnn.Runner(net(), frozen=v),
    "graphnet_rnn.Runner: read_by_output": lambda v: rnn.Runner(net(), read_by_output=v),
    "graphnet_rnn.Sweep.run: retry": again,
    "graphnet_rnn.Trainer: progress": lambda v: rnn.Trainer(rnn.Arrays(net(), LABELS, LABELS, batch=2), progress=v),
    "graphnet_rnn.data.Columns: independent": lambda v: rnn.data.Columns(("a",), ("b",), independent=v),
    "graphnet_rnn.data.Table: independent": lambda v: rnn.data.Table(ROWS, targets="y", independent=v),
    "graphnet_rnn.data.Table: whole": lambda v: rnn.data.Table(ROWS, targets="y", whole=v),
    "graphnet_rnn.data.read_sequences: cases_first":
        lambda v: rnn.data.read_sequences(arrays(), cases_first=v),
    "graphnet_rnn.data.read_sequences: by_step": lambda v: rnn.data.read_sequences(arrays(), by_step=v),
    "graphnet_rnn.data.Sequences: by_step": lambda v: rnn.data.Sequences(ONES[..., None], ONES, by_step=v),
    "graphnet_rnn.energy.EnergyModel.check_data: exact": lambda v: RBM.check_data("v", BITS, exact=v),
    "graphnet_rnn.energy.RBM.sample: means": lambda v: RBM.sample(2, 1, means=v),
    "graphnet_rnn.energy.Stack.sample: means": lambda v: energy.Stack([RBM]).sample(2, 1, means=v),
    "graphnet_rnn.energy.Stack.sample_sequences: mean_field": lambda v: STACK.sample_sequences(2, mean_field=v),
    "graphnet_rnn.energy.Stack.sample_sequences: means": lambda v: STACK.sample_sequences(2, means=v),
    "graphnet_rnn.energy.SequenceRBM.emit: means": lambda v: TRBM.emit(STEPS[..., 1:], means=v),
    "graphnet_rnn.energy.SequenceRBM.sample: mean_field": lambda v: TRBM.sample(2, mean_field=v),
    "graphnet_rnn.energy.SequenceRBM.sample: means": lambda v: TRBM.sample(2, means=v),
    "graphnet_rnn.formats.export_onnx: lengths":
        lambda v: rnn.formats.export_onnx(net(rnn.LSTM), new("net.onnx"), lengths=v),
    "graphnet_rnn.formats.save_torch: cells":
        lambda v: rnn.formats.save_torch(net(rnn.LSTM), new("net.safetensors"), cells=v),
    "graphnet_rnn.formats.to_torch: cells": lambda v: rnn.formats.to_torch(net(rnn.LSTM), cells=v),
    "graphnet_rnn.initializers.sparse: outgoing": lambda v: rnn.initializers.sparse(1, outgoing=v),
    "graphnet_rnn.inside.torch_module: batch_first": as_module,
    "graphnet_rnn.riemannian.Frequency: sampled": lambda v: riemannian.Frequency(sampled=v),
    "graphnet_rnn.riemannian.Kronecker: sampled": lambda v: riemannian.Kronecker(sampled=v),
    "graphnet_rnn.riemannian.OuterProduct: sampled": lambda v: riemannian.OuterProduct(sampled=v),
    "graphnet_rnn.riemannian.RootMeanSquare: sampled": lambda v: riemannian.RootMeanSquare(sampled=v),
    "graphnet_rnn.sweep.Between: log": lambda v: sweep.Between(1.0, 2.0, log=v),
    "graphnet_rnn.sweep.Between: whole": lambda v: sweep.Between(1, 3, whole=v),
    "graphnet_rnn.sweep.Halving: brackets": lambda v: sweep.Halving(brackets=v),
    "graphnet_rnn.tasks.settings: structural": lambda v: rnn.tasks.settings(rnn.tasks.Addition(10), v),
    "graphnet_rnn.writer.Document.save: over": lambda v: rnn.writer.Document(new("a.txt")).save("a", over=v),
    "viz.attention_map: arrows": lambda v: viz.attention_map(np.eye(2), arrows=v),
    "viz.draw: closed": lambda v: viz.draw(net().unroll(2, 1), closed=v),
    "viz.mirror: closed": lambda v: viz.mirror(net().unroll(2, 1).cost, closed=v),
    "viz.mirror: values": lambda v: viz.mirror(cost, values=v),
}  # fmt: skip
#: Arguments for which a string is a valid name.
NAMED = {"graphnet_rnn.Network.unroll: lengths", "graphnet_rnn.RecurrentNADE.unroll: lengths"}
#: Arguments for which True and False train for long; other tests use these values.
LONG = {"graphnet_rnn.Sweep.run: retry"}
#: Callables that only graphnet calls, or authors of a subclass; with the reason.
INNER = {
    "graphnet_rnn.Completions": "complete makes it",
    "Function": "gn.compile makes it",
    "Unrolled": "Network.unroll makes it",
    "sequence: backward": "Bidirectional calls it",
    "replace_inputs: own_place": "rewriting of graphs calls it",
    "row: times": "a Trainer calls it",
    "viz.Style": "the pictures call it",
    "RiemannianReport": "a step makes it",
    "writer.Snapshot": "a desk makes it",
}


def asked() -> Iterator[str]:
    """Boolean arguments of public callables and their methods, each only once."""
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [("graphnet", gn), ("graphnet_rnn", rnn), ("viz", viz)]
    while waiting:
        path, value = waiting.pop(0)
        if isinstance(value, ModuleType):
            waiting += [(f"{path}.{name}", getattr(value, name)) for name in value.__all__]
            continue
        if not callable(value) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, type):
            methods = [
                each for _, each in inspect.getmembers(value, inspect.isfunction) if each.__name__[0] != "_"
            ]
            package = path.removesuffix(f".{value.__name__}")
            waiting = [(f"{package}.{each.__qualname__}", each) for each in methods] + waiting
        try:
            parameters = inspect.signature(value).parameters.values()
        except (TypeError, ValueError):  # of a class of Python's own
            continue
        for parameter in parameters:
            kind = parameter.annotation
            said = kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))
            if re.match(r"bool\b", said) or isinstance(parameter.default, bool):
                yield f"{path}: {parameter.name}"


def test_every_boolean_argument_has_a_row() -> None:
    missing = [a for a in asked() if a not in CALLS and not any(inner in a for inner in INNER)]
    require_rows(missing, "CALLS in test_yes_or_no.py", "a call that takes the answer")
    assert set(CALLS) <= {*asked()}, "rows of what is no longer asked"


def test_only_true_and_false_are_accepted() -> None:
    wrong = ("no", 2, np.ones(2), np.array([True, False]), [])
    for argument, call in CALLS.items():
        name = argument.rsplit(" ", 1)[-1]
        refusal = rf"{name}\b.* must be True or False|True or False.*{name}"
        with case(argument):
            for value in () if argument in LONG else (True, False, np.bool_(True)):
                call(value)
            for value in wrong[argument in NAMED :]:
                with pytest.raises(GraphnetError, match=refusal):
                    call(value)


def test_shares_of_hessian_free_are_numbers() -> None:
    for name in ("warm_start", "preconditioner"):
        for wrong in (np.ones(2), "no", True, -0.1, None):
            with pytest.raises(GraphnetError, match=rf"^HessianFree: {name} must be in \[0, 1\]"):
                rnn.HessianFree(**{name: wrong})
