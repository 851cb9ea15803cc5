"""Whatever is answered by yes or no takes True and False, and refuses all else by its name.

A public function, class or method with such an argument needs a row in `CALLS`, or one in `INNER` with the reason.
"""

from __future__ import annotations

import importlib
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
from tests.tables import case, require_rows

x = gn.input((4, 3), "float64", name="x")
W = gn.parameter(np.ones((3, 2)), name="W")
cost = gn.sum(gn.tanh(x @ W))
BITS = np.zeros((2, 3))


class Chooses(rnn.Elman):
    """A cell that asks for a weight, and says whether it is trained."""

    trained: Any = True

    def step(self, x: gn.Node, h: gn.Node) -> gn.Node:
        return gn.tanh(self.affine("h", x=x, h=h)) * self.weight("gain", (self.units,), trained=self.trained)


def saved(v: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rnn.writer.Document(Path(folder) / "a.txt").save("a", over=v)


def as_module(v: Any) -> None:
    try:
        rnn.inside.torch_module(net(), batch_first=v)
    except rnn.errors.UsageError as error:  # an answer that is none is told first
        if "PyTorch is not installed" not in str(error):
            raise


def with_weight(trained: Any) -> Any:
    cell = Chooses(3)
    cell.trained = trained
    return rnn.Network([cell], 3, 3)


def net(**settings: Any) -> rnn.Network:
    return rnn.Network([rnn.Elman(3)], 3, 3, **settings)


def nade() -> rnn.RecurrentNADE:
    return rnn.RecurrentNADE(rnn.Network([rnn.Elman(2)], 3, 0, reads="vectors"), 2)


def unrolled() -> rnn.Unrolled:
    return net().unroll(2, 1)


#: What has such an argument -> a call with the value.
def swept() -> rnn.Sweep:
    """Of a text that is there."""
    folder = Path(tempfile.mkdtemp())
    (folder / "a.txt").write_text("ab" * 500)
    recipe = rnn.sweep.Recipe(
        str(folder / "a.txt"), {"epochs": 1, "units": 2, "sample": 0, "time": 5, "batch": 2}
    )
    return rnn.Sweep(recipe, folder / "sweep")


def exported(**how: Any) -> None:
    network = rnn.Network([rnn.LSTM(2)], 3, 3)
    rnn.formats.export_onnx(network, Path(tempfile.mkdtemp()) / "net.onnx", **how)


CALLS: dict[str, Callable[[Any], Any]] = {
    "graphnet_rnn.formats.export_onnx: lengths": lambda v: exported(lengths=v),
    "graphnet_rnn.formats.to_torch: cells": lambda v: rnn.formats.to_torch(
        rnn.Network([rnn.LSTM(2)], 3, 3), cells=v
    ),
    "graphnet_rnn.formats.save_torch: cells": lambda v: rnn.formats.save_torch(
        rnn.Network([rnn.LSTM(2)], 3, 3), Path(tempfile.mkdtemp()) / "net.safetensors", cells=v
    ),
    "graphnet.compile: check": lambda v: gn.compile([cost], [x], check=v),
    "graphnet.compile: deterministic": lambda v: gn.compile([cost], [x], deterministic=v),
    "graphnet.input: varying": lambda v: gn.input((3,), varying=v),
    "graphnet.input: weights": lambda v: gn.input((3,), weights=v),
    "graphnet.testing.check_op: narrow": lambda v: gn.testing.check_op(
        gn.tanh, np.ones(2), laws=(1,), narrow=v
    ),
    "graphnet.cumsum: reverse": lambda v: gn.cumsum(x, 0, v),
    "graphnet.max: keepdims": lambda v: gn.max(x, 0, v),
    "graphnet.mean: keepdims": lambda v: gn.mean(x, 0, v),
    "graphnet.min: keepdims": lambda v: gn.min(x, 0, v),
    "graphnet.sum: keepdims": lambda v: gn.sum(x, 0, v),
    "graphnet_rnn.Cell.weight: trained": with_weight,
    "graphnet_rnn.Dense: bias": lambda v: rnn.Dense(3, bias=v),
    "graphnet_rnn.HessianFree: backtrack": lambda v: rnn.HessianFree(backtrack=v),
    **{
        f"graphnet_rnn.riemannian.{kind.__name__}: sampled": lambda v, kind=kind: kind(sampled=v)
        for kind in (
            rnn.riemannian.OuterProduct,
            rnn.riemannian.RootMeanSquare,
            rnn.riemannian.Frequency,
            rnn.riemannian.Kronecker,
        )
    },
    "graphnet.per_example_gradients: mixed": lambda v: gn.per_example_gradients(
        gn.sum(x @ W, 1), [W], mixed=v
    ),
    "graphnet_rnn.HyperLSTM: layer_norm": lambda v: rnn.HyperLSTM(3, layer_norm=v),
    "graphnet_rnn.Network: output_bias": lambda v: net(output_bias=v),
    "graphnet_rnn.Network: skip": lambda v: net(skip=v),
    "graphnet_rnn.Network: truncated": lambda v: rnn.Network([rnn.LSTM(3)], 3, 3, truncated=v),
    "graphnet_rnn.Network: variational": lambda v: net(variational=v),
    "graphnet_rnn.LongSequence: predict_first": lambda v: rnn.LongSequence(net(), predict_first=v),
    "graphnet_rnn.Network.unroll: predict_first": lambda v: net().unroll(3, 2, predict_first=v),
    "graphnet_rnn.Network.unroll: training": lambda v: net().unroll(3, 2, training=v),
    "graphnet_rnn.Objective: l2_in_curvature": lambda v: rnn.Objective(cost, [W], [x], l2_in_curvature=v),
    "graphnet_rnn.Runner: read_by_output": lambda v: rnn.Runner(net(), read_by_output=v),
    "graphnet_rnn.inside.torch_module: batch_first": as_module,
    "graphnet_rnn.Runner: frozen": lambda v: rnn.Runner(net(), frozen=v),
    "graphnet_rnn.energy.EnergyModel.check_data: exact": lambda v: rnn.energy.RBM(3, 2).check_data(
        "v", BITS, exact=v
    ),
    "graphnet_rnn.energy.RBM.sample: means": lambda v: rnn.energy.RBM(3, 2).sample(2, 1, means=v),
    "graphnet_rnn.energy.Stack.sample: means": lambda v: rnn.energy.Stack([rnn.energy.RBM(3, 2)]).sample(
        2, 1, means=v
    ),
    "graphnet_rnn.energy.Stack.sample_sequences: means": lambda v: rnn.energy.Stack(
        [rnn.energy.TRBM(3, 2)]
    ).sample_sequences(2, means=v),
    "graphnet_rnn.energy.Stack.sample_sequences: mean_field": lambda v: rnn.energy.Stack(
        [rnn.energy.TRBM(3, 2)]
    ).sample_sequences(2, mean_field=v),
    "graphnet_rnn.energy.TemporalRBM.emit: means": lambda v: rnn.energy.TRBM(3, 2).emit(
        np.zeros((2, 1, 2)), means=v
    ),
    "graphnet_rnn.energy.TemporalRBM.sample: means": lambda v: rnn.energy.TRBM(3, 2).sample(2, means=v),
    "graphnet_rnn.energy.TemporalRBM.sample: mean_field": lambda v: rnn.energy.TRBM(3, 2).sample(
        2, mean_field=v
    ),
    "graphnet_rnn.initializers.sparse: outgoing": lambda v: rnn.initializers.sparse(1, outgoing=v),
    "graphnet_rnn.Network.unroll: lengths": lambda v: net().unroll(3, 2, lengths=v),
    "graphnet_rnn.data.Choice: cases_first": lambda v: rnn.data.Choice(cases_first=v),
    "graphnet_rnn.data.Choice: whole": lambda v: rnn.data.Choice(whole=v),
    "graphnet_rnn.data.Sequences: by_step": lambda v: rnn.data.Sequences(
        np.ones((2, 2, 1)), np.ones((2, 2)), by_step=v
    ),
    "graphnet_rnn.Sweep.run: retry": lambda v: swept().run(retry=v),
    "graphnet_rnn.sweep.Halving: brackets": lambda v: rnn.sweep.Halving(brackets=v),
    "graphnet_rnn.sweep.Between: log": lambda v: rnn.sweep.Between(1.0, 2.0, log=v),
    "graphnet_rnn.sweep.Between: whole": lambda v: rnn.sweep.Between(1, 3, whole=v),
    "graphnet_rnn.writer.Document.save: over": saved,
    "graphnet_rnn.tasks.settings: structural": lambda v: rnn.tasks.settings(rnn.tasks.Addition(10), v),
    "graphnet_rnn.RecurrentNADE.predict: drawn": lambda v: nade().predict(np.ones((2, 1, 3)), drawn=v),
    "graphnet_rnn.RecurrentNADE.unroll: lengths": lambda v: nade().unroll(gn.input((2, 1, 3)), lengths=v),
    "viz.draw: closed": lambda v: viz.draw(unrolled(), closed=v),
    "viz.mirror: closed": lambda v: viz.mirror(unrolled().cost, closed=v),
    "viz.mirror: values": lambda v: viz.mirror(cost, values=v),
}
#: What is called by graphnet itself, or by who writes a class of it.
INNER = {
    "graphnet_rnn.Completions": "complete makes it",
    "Function": "gn.compile makes it",
    "Unrolled": "Network.unroll makes it",
    "sequence: backward": "Bidirectional calls it",
    "replace_inputs: own_place": "rewriting of graphs calls it",
    "row: times": "a Trainer calls it",
    "viz.Style": "the pictures call it",
    "RiemannianReport": "a step makes it",
    "writer.View": "a desk makes it",
}


def public() -> Iterator[tuple[str, Any]]:
    """The public names of all packages, and of classes their methods; each thing once."""
    seen: set[int] = set()
    waiting: list[tuple[str, ModuleType]] = [
        (name, importlib.import_module(name)) for name in ("graphnet", "graphnet_rnn", "viz")
    ]
    while waiting:
        path, module = waiting.pop(0)
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, ModuleType):
                waiting.append((f"{path}.{name}", value))
            elif callable(value) and id(value) not in seen:
                seen.add(id(value))
                yield f"{path}.{name}", value
                if isinstance(value, type):
                    for method, function in inspect.getmembers(value, inspect.isfunction):
                        if not method.startswith("_") and id(function) not in seen:
                            seen.add(id(function))
                            yield f"{path}.{function.__qualname__}", function


def asked() -> list[str]:
    """Of all public callables, the arguments that are answered by yes or no."""
    found = []
    for path, value in public():
        try:
            parameters = inspect.signature(value).parameters.values()
        except (TypeError, ValueError):  # of a class of Python's own
            continue
        for parameter in parameters:
            kind = parameter.annotation
            said = kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))
            if re.match(r"bool\b", said) or isinstance(parameter.default, bool):
                found.append(f"{path}: {parameter.name}")
    return found


def test_every_such_argument_has_a_row() -> None:
    missing = [a for a in asked() if a not in CALLS and not any(inner in a for inner in INNER)]
    require_rows(missing, "CALLS in test_yes_or_no.py", "a call that takes the answer")
    assert set(CALLS) <= {*asked()}, "rows of what is no longer asked"


#: Where a text is a name, for what True would make under one of its own.
NAMED = {"graphnet_rnn.Network.unroll: lengths", "graphnet_rnn.RecurrentNADE.unroll: lengths"}
#: What trains or tests for long if it is answered; the answers are given in tests of its own.
LONG = {"graphnet_rnn.Sweep.run: retry"}


def test_only_true_and_false_are_an_answer() -> None:
    for argument, call in CALLS.items():
        name = argument.rsplit(" ", 1)[-1]
        refusal = rf"{name}\b.* must be True or False|True or False.*{name}"
        with case(argument):
            for value in (True, False, np.bool_(True)) if argument not in LONG else ():
                call(value)
            for wrong in (
                *(() if argument in NAMED else ("no",)),
                2,
                np.ones(2),
                np.array([True, False]),
                [],
            ):
                with pytest.raises(GraphnetError, match=refusal):
                    call(wrong)


def test_shares_of_hessian_free_are_numbers() -> None:
    for name in ("warm_start", "preconditioner"):
        for right in (0, 0.5, 1):
            assert getattr(rnn.HessianFree(**{name: right}), name) == right
        for wrong in (np.ones(2), "no", True, -0.1, 1.1, None):
            with pytest.raises(
                GraphnetError, match=rf"^HessianFree: {name} must be in \[0, 1\],( or one of .*,)? not "
            ):
                rnn.HessianFree(**{name: wrong})
