"""Networks as ONNX files: every cell, wrapper and composition, in onnxruntime, at other sizes than it was made for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array, Node
from graphnet_rnn.cells import ALL
from graphnet_rnn.errors import UsageError
from graphnet_rnn.formats import export_onnx
from tests.tables import case

INPUTS, OUTPUTS = 4, 7
LENGTHS = [5, 2, 3]
#: Of cells whose first argument is no number of units, or that would be large.
SETTINGS: dict[str, tuple[Any, ...]] = {"Hyper": (rnn.GRU(5), 4), "Attention": (rnn.GRU(5), 4, 3)}


@pytest.fixture
def runtime() -> Any:
    pytest.importorskip("onnx")
    found = pytest.importorskip("onnxruntime")
    found.set_default_logger_severity(4)
    return found


def drawn(network: rnn.Network) -> rnn.Network:
    network.theta = np.random.default_rng(0).normal(0, 0.3, network.theta.size)
    return network


def check(
    runtime: Any, network: rnn.Network, path: Path, lengths: Sequence[int] | None = None, **how: Any
) -> Any:
    """The file gives what rnn.run does, for two numbers of steps and cases; returns the file."""
    import onnx

    export_onnx(drawn(network), path, lengths=lengths is not None, **how)
    file = onnx.load(path)
    onnx.checker.check_model(file, full_check=True)
    session = runtime.InferenceSession(path)
    names = [given.name for given in session.get_inputs()]
    for time, batch in ((5, 3), (max(lengths), len(lengths)) if lengths else (2, 1)):
        generator = np.random.default_rng(time)
        x: Array = generator.normal(size=(time, batch, network.inputs)).astype(network.dtype)
        if network.reads == "symbols":
            x = generator.integers(network.inputs, size=(time, batch))
        states = [generator.normal(0, 0.5, s.shape).astype("f") for s in network.zero_states(batch)]
        given = [x, *states, *([np.array(lengths)] if lengths else [])]
        got = session.run(None, dict(zip(names, given, strict=True)))
        # Not rnn.run, which takes no states for a network whose sequences cannot be continued from them.
        runner, ends = rnn.Runner(network, backend="numpy"), [] if lengths is None else [np.array(lengths)]
        logits, *after = runner._run((time, batch, lengths is not None), x, *states, *ends)
        for value, want in zip(got, [logits, *after], strict=True):
            assert value.shape == want.shape
            np.testing.assert_allclose(value, want, 1e-5, 1e-5)
    return file


def operators(file: Any) -> set[str]:
    return {node.op_type for node in file.graph.node} & {"Scan", "LSTM", "GRU", "RNN"}


@pytest.mark.parametrize("name", ALL)
def test_every_cell(runtime: Any, tmp_path: Path, name: str) -> None:
    for lengths in (None, LENGTHS):
        with case(lengths):
            network = rnn.Network([ALL[name](*SETTINGS.get(name, (6,)))], INPUTS, OUTPUTS, reads="vectors")
            check(runtime, network, tmp_path / "n.onnx", lengths)


class Mine(rnn.Elman):
    """h' = tanh(…) / 2 + LN(x W_xn): an Elman cell by class, but not by its equations"""

    def step(self, x: Node, h: Node) -> Node:
        return rnn.Elman.step(self, x, h) / 2 + self.normalized("n", self.affine("n", x=x, bias=None))


COMPOSED: dict[str, tuple[list[rnn.Cell], set[str]]] = {
    "both directions, one operator": ([rnn.Bidirectional(rnn.LSTM(3))], {"LSTM"}),
    "two cells": ([rnn.Bidirectional(rnn.LSTM(3), rnn.GRU(4))], {"LSTM", "GRU"}),
    "an operator and a scan": ([rnn.Bidirectional(rnn.LSTMKrause(3), rnn.GRU(4))], {"Scan", "GRU"}),
    "both of both": ([rnn.Bidirectional(rnn.Bidirectional(rnn.GRUResetAfter(3)))], {"GRU"}),
    "shortcuts": ([rnn.Residual(rnn.Bidirectional(rnn.GRU(3))), rnn.Residual(rnn.MRNN(6))], {"GRU", "Scan"}),
    "normalised": ([rnn.Normalized(rnn.Residual(rnn.LSTMPeephole(3)))], {"LSTM", "Scan"}),
    "my own": ([Mine(3), rnn.Elman(4)], {"RNN", "Scan"}),
    "of mine": ([rnn.Bidirectional(Mine(3))], {"Scan"}),
}  # fmt: skip


def test_cells_of_cells(runtime: Any, tmp_path: Path) -> None:
    for name, (cells, wanted) in COMPOSED.items():
        for lengths in (None, LENGTHS):
            with case(name, lengths):
                network = rnn.Network(cells, INPUTS, OUTPUTS, skip=True)
                file = check(runtime, network, tmp_path / "n.onnx", lengths)
                assert operators(file) == wanted


def test_one_output_for_a_sequence(runtime: Any, tmp_path: Path) -> None:
    for pool in ("last", "mean", "max"):
        for lengths in (None, LENGTHS):
            with case(pool, lengths):
                cells = [rnn.Bidirectional(rnn.GRU(3)), rnn.LSTM1997(4)]
                for skip in (False, True):
                    network = rnn.Network(cells, INPUTS, OUTPUTS, pool=pool, skip=skip, output_bias=not skip)
                    check(runtime, network, tmp_path / "n.onnx", lengths)


def test_behind_the_end_logits_are_those_of_run(runtime: Any, tmp_path: Path) -> None:
    for loss in ("sigmoid", "ctc"):
        with case(loss):
            check(runtime, rnn.Network([rnn.RHN(4)], INPUTS, OUTPUTS, loss), tmp_path / "n.onnx", LENGTHS)


def test_an_encoder_gives_what_its_last_layer_does(runtime: Any, tmp_path: Path) -> None:
    network = drawn(rnn.Network([rnn.GRU(3), rnn.Bidirectional(rnn.RHN(4))], INPUTS, 0))
    export_onnx(network, tmp_path / "n.onnx", initial="zero")
    session = runtime.InferenceSession(tmp_path / "n.onnx")
    x = np.random.default_rng(0).integers(INPUTS, size=(5, 2))
    u = network.unroll(5, 2, initial="zero", training=False)
    wanted = gn.compile([u.hidden[-1], *u.final], [u.inputs], backend="numpy")(x)
    assert next(o.name for o in session.get_outputs()) == "hidden"
    for value, want in zip(session.run(None, {"x": x}), wanted, strict=True):
        np.testing.assert_allclose(value, want, 1e-5, 1e-5)


def test_where_a_scan_begins(runtime: Any, tmp_path: Path) -> None:
    for initial in ("zero", "learned"):
        with case(initial):
            network = drawn(rnn.Network([rnn.RHN(4), Mine(3)], INPUTS, OUTPUTS, initial_state=initial))
            export_onnx(network, tmp_path / "n.onnx", initial=initial)
            x = np.random.default_rng(0).integers(INPUTS, size=(3, 2))
            logits, after = rnn.run(network, x, backend="numpy")
            got = runtime.InferenceSession(tmp_path / "n.onnx").run(None, {"x": x})
            for value, want in zip(got, [logits, *after], strict=True):
                np.testing.assert_allclose(value, want, 1e-5, 1e-5)


def test_a_scan_in_float64_and_of_a_network_of_float64(runtime: Any, tmp_path: Path) -> None:
    """Operators of the equations there are in float64, as well; in float32 the file computes what ours would."""
    network = drawn(rnn.Network([rnn.LSTMKrause(4)], INPUTS, OUTPUTS, dtype="float64", reads="vectors"))
    x = np.random.default_rng(0).normal(size=(3, 2, INPUTS))
    wanted = rnn.run(network, x, backend="numpy")[0]
    for dtype, near in (("float64", 1e-12), ("float32", 1e-5)):
        export_onnx(network, tmp_path / "n.onnx", dtype=dtype, initial="zero")
        got = runtime.InferenceSession(tmp_path / "n.onnx").run(["logits"], {"x": x.astype(dtype)})[0]
        assert got.dtype == dtype
        np.testing.assert_allclose(got, wanted, near, near)


def test_weights_have_their_own_names_and_what_is_the_same_at_each_step_is_computed_once(
    runtime: Any, tmp_path: Path
) -> None:
    network = rnn.Network([rnn.HMMFilter(3)], INPUTS, OUTPUTS)
    file = check(runtime, network, tmp_path / "n.onnx")
    assert set(network.parameters) <= {given.name for given in file.graph.initializer}
    (scan,) = (node for node in file.graph.node if node.op_type == "Scan")
    inside = [node.op_type for node in scan.attribute[0].g.node]
    assert inside.count("Softmax") == 2  # and not those of the weights
    assert "LogSoftmax" in [node.op_type for node in file.graph.node]


class Noisy(rnn.Elman):
    """h' = tanh(…) + noise, drawn at each step"""

    source = gn.RandomSource()

    def step(self, x: Node, h: Node) -> Node:
        return rnn.Elman.step(self, x, h) + self.source.normal(0.1, h.shape, name="noise")


class OwnSequence(rnn.Elman):
    """An Elman cell that reads all steps in a way of its own"""

    def sequence(self, *args: Any, **kwargs: Any) -> Any:
        return super().sequence(*args, **kwargs)


class Swaying(rnn.Elman):
    """h' = tanh(…), plus the number of each case"""

    def step(self, x: Node, h: Node) -> Node:
        numbers = np.random.default_rng(0).random((x.shape[0], 1)).astype("float32")
        return rnn.Elman.step(self, x, h) + gn.constant(numbers)


def test_cells_that_no_file_can_hold(runtime: Any, tmp_path: Path) -> None:
    for cell, sentence in (
        (Noisy, ("noise[10007, 3] (made at", "test_onnx.py:", "training=False")),
        (OwnSequence, ("OwnSequence(units=3) has a `sequence` of its own", "gn.export_onnx(")),
        (Swaying, ("the constant", "test_onnx.py:", "depends on the number of cases")),
    ):
        with case(cell, sentence):
            with pytest.raises(UsageError, match=".*".join(map(re.escape, sentence))):
                export_onnx(rnn.Network([cell(3)], INPUTS, OUTPUTS), tmp_path / "n.onnx")
            assert not list(tmp_path.iterdir())


def test_an_encoder_and_a_decoder_that_looks_back(runtime: Any, tmp_path: Path) -> None:
    """Two networks as one graph: any number of words, of any lengths."""
    for feedback in (None, "likeliest"):
        for score in ("additive", "dot"):
            with case(feedback, score):
                steps = 4
                encoder = drawn(rnn.Network([rnn.Bidirectional(rnn.GRU(3))], INPUTS, 0))
                cell = rnn.Attention(rnn.GRU(5), memory=6, places=steps, score=score)
                decoder = drawn(rnn.Network([cell], OUTPUTS, OUTPUTS))

                def equations(batch: int) -> tuple[dict[str, Node], dict[str, Node]]:
                    e = encoder.unroll(
                        steps, batch, initial="zero", lengths=True, training=False, name="encoder"
                    )
                    memory = rnn.attention_memory(e.hidden[-1], e.lengths)
                    d = decoder.unroll(
                        steps,
                        batch,
                        initial=memory,
                        lengths=e.lengths,
                        feedback=feedback,
                        training=False,
                        name="decoder",
                    )
                    outputs = {
                        "logits": d.logits,
                        "likeliest": gn.argmax(d.logits),
                        "looked": d.course("attention"),
                    }
                    return outputs, {"word": e.inputs, "length": e.lengths, "before": d.inputs}

                gn.export_onnx(equations, tmp_path / "n.onnx")
                session = runtime.InferenceSession(tmp_path / "n.onnx")
                assert session.get_inputs()[1].shape == ["batch"]
                for batch in (1, 6):
                    generator = np.random.default_rng(batch)
                    outputs, inputs = equations(batch)
                    arrays = {
                        "word": generator.integers(INPUTS, size=(steps, batch)),
                        "length": generator.integers(1, steps + 1, batch),
                        "before": generator.integers(OUTPUTS, size=inputs["before"].shape),
                    }
                    wanted = gn.compile([*outputs.values()], [*inputs.values()], backend="numpy")(
                        *arrays.values()
                    )
                    for value, want in zip(session.run(None, arrays), wanted, strict=True):
                        np.testing.assert_allclose(value, want, 1e-5, 1e-5)


def test_derivatives_are_graphs_too(runtime: Any, tmp_path: Path) -> None:
    """The gradient and a Gauss-Newton product of a network, for any number of cases."""
    network = drawn(rnn.Network([rnn.LSTM(3), rnn.GRU(4)], INPUTS, OUTPUTS))
    parameters = list(network.parameters.values())
    directions = {p: gn.constant(np.full(p.shape, 0.1, "float32")) for p in parameters}

    def equations(batch: int) -> tuple[list[Node], dict[str, Node]]:
        u = network.unroll(3, batch, initial="zero", training=False)
        products = gn.gauss_newton_product(u.cost, directions)
        return [u.cost, *gn.gradient(u.cost, parameters), *products], {"x": u.inputs, "t": u.targets}

    gn.export_onnx(equations, tmp_path / "n.onnx")
    session = runtime.InferenceSession(tmp_path / "n.onnx")
    outputs, inputs = equations(5)
    generator = np.random.default_rng(0)
    arrays = {"x": generator.integers(INPUTS, size=(3, 5)), "t": generator.integers(OUTPUTS, size=(3, 5))}
    wanted = gn.compile(outputs, [*inputs.values()], backend="numpy")(*arrays.values())
    for value, want in zip(session.run(None, arrays), wanted, strict=True):
        np.testing.assert_allclose(value, want, 1e-4, 1e-6)
