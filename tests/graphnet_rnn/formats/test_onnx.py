"""Networks as ONNX files: every cell, wrapper and composition in onnxruntime, with other sizes."""

from __future__ import annotations

import itertools
import json
import sys
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


def require_close(got: Any, wanted: Any, near: float = 1e-5) -> None:
    for value, want in zip(got, wanted, strict=True):
        assert value.shape == want.shape
        np.testing.assert_allclose(value, want, near, near)


def read_in(graph: Any) -> set[str]:
    """Names that nodes read, also in the bodies of loops."""
    bodies = [attribute.g for node in graph.node for attribute in node.attribute]
    return {name for node in graph.node for name in node.input}.union(*map(read_in, bodies))


def check(
    runtime: Any, network: rnn.Network, path: Path, lengths: Sequence[int] | None = None, **how: Any
) -> Any:
    """The file gives what rnn.run does, for two numbers of steps and cases; returns the file."""
    import onnx

    export_onnx(drawn(network), path, lengths=lengths is not None, **how)
    file = onnx.load(path)
    onnx.checker.check_model(file, full_check=True)
    assert {each.name for each in file.graph.initializer} <= read_in(file.graph)
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
        require_close(got, [logits, *after])
    return file


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


GRU_OF_BOTH = [rnn.Bidirectional(rnn.GRU(3)), rnn.LSTM1997(4)]
SKIP = {"skip": True}
SCALING = rnn.data.Scaling(
    *(([k + 2.0 for k in range(n)], [0.5 + k for k in range(n)]) for n in (INPUTS, OUTPUTS))
)
#: what -> (layers, settings of the network, the operators of the file)
COMPOSED: dict[str, tuple[list[rnn.Cell], dict[str, Any], set[str]]] = {
    "both directions, one operator": ([rnn.Bidirectional(rnn.LSTM(3))], SKIP, {"LSTM"}),
    "two cells": ([rnn.Bidirectional(rnn.LSTM(3), rnn.GRU(4))], SKIP, {"LSTM", "GRU"}),
    "an operator and a scan": ([rnn.Bidirectional(rnn.LSTMKrause(3), rnn.GRU(4))], SKIP, {"Scan", "GRU"}),
    "both of both": ([rnn.Bidirectional(rnn.Bidirectional(rnn.GRUResetAfter(3)))], SKIP, {"GRU"}),
    "shortcuts": ([rnn.Residual(rnn.Bidirectional(rnn.GRU(3))), rnn.Residual(rnn.MRNN(6))], SKIP, {"GRU", "Scan"}),
    "normalised": ([rnn.Normalized(rnn.Residual(rnn.LSTMPeephole(3)))], SKIP, {"LSTM", "Scan"}),
    "my own": ([Mine(3), rnn.Elman(4)], SKIP, {"RNN", "Scan"}),
    "of mine": ([rnn.Bidirectional(Mine(3))], SKIP, {"Scan"}),
    "sigmoid": ([rnn.RHN(4)], {"loss": "sigmoid"}, {"Scan"}),  # behind the end logits are those of run
    "ctc": ([rnn.RHN(4)], {"loss": "ctc"}, {"Scan"}),
    "last": (GRU_OF_BOTH, {"pool": "last"}, {"GRU", "Scan"}),
    "mean": (GRU_OF_BOTH, {"pool": "mean", "skip": True, "output_bias": False}, {"GRU", "Scan"}),
    "max": (GRU_OF_BOTH, {"pool": "max"}, {"GRU", "Scan"}),
    "numbers in other units": ([rnn.LSTM(3)], {"loss": "squared", "scaling": SCALING}, {"LSTM"}),
    "max, skip": (GRU_OF_BOTH, {"pool": "max", "skip": True, "output_bias": False}, {"GRU", "Scan"}),
}  # fmt: skip


def test_composed_networks(runtime: Any, tmp_path: Path) -> None:
    for name, (cells, how, wanted) in COMPOSED.items():
        for lengths in (None, LENGTHS):
            with case(name, lengths):
                network = rnn.Network(cells, INPUTS, OUTPUTS, **how)
                file = check(runtime, network, tmp_path / "n.onnx", lengths)
                assert {node.op_type for node in file.graph.node} & {"Scan", "LSTM", "GRU", "RNN"} == wanted


def test_networks_without_output_layer_return_the_last_layer(runtime: Any, tmp_path: Path) -> None:
    network = drawn(rnn.Network([rnn.GRU(3), rnn.Bidirectional(rnn.RHN(4))], INPUTS, 0))
    export_onnx(network, tmp_path / "n.onnx", initial="zero")
    session = runtime.InferenceSession(tmp_path / "n.onnx")
    x = np.random.default_rng(0).integers(INPUTS, size=(5, 2))
    u = network.unroll(5, 2, initial="zero", training=False)
    wanted = gn.compile([u.hidden[-1], *u.final], [u.inputs], backend="numpy")(x)
    assert next(o.name for o in session.get_outputs()) == "hidden"
    require_close(session.run(None, {"x": x}), wanted)


def test_exported_networks_have_the_initial_states(runtime: Any, tmp_path: Path) -> None:
    for initial in ("zero", "learned"):
        with case(initial):
            cells = [rnn.RHN(4), Mine(3), rnn.LSTM(3), rnn.LSTMPeephole(4), rnn.GRUResetAfter(3)]
            network = drawn(rnn.Network(cells, INPUTS, OUTPUTS, initial_state=initial))
            export_onnx(network, tmp_path / "n.onnx", initial=initial)
            x = np.random.default_rng(0).integers(INPUTS, size=(3, 2))
            logits, after = rnn.run(network, x, backend="numpy")
            got = runtime.InferenceSession(tmp_path / "n.onnx").run(None, {"x": x})
            require_close(got, [logits, *after])


def test_a_scan_in_float64_and_of_a_network_of_float64(runtime: Any, tmp_path: Path) -> None:
    """Operators of the equations are in float64, too; float32 would match our results."""
    network = drawn(rnn.Network([rnn.LSTMKrause(4)], INPUTS, OUTPUTS, dtype="float64", reads="vectors"))
    x = np.random.default_rng(0).normal(size=(3, 2, INPUTS))
    wanted = rnn.run(network, x, backend="numpy")[0]
    for dtype, near in (("float64", 1e-12), ("float32", 1e-5)):
        export_onnx(network, tmp_path / "n.onnx", dtype=dtype, initial="zero")
        got = runtime.InferenceSession(tmp_path / "n.onnx").run(["logits"], {"x": x.astype(dtype)})
        assert got[0].dtype == dtype
        require_close(got, [wanted], near)


def test_float64_against_the_reference_of_onnx(runtime: Any, tmp_path: Path) -> None:
    """Runtimes lack these operators in float64; the reference evaluator of the specification has them."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    for cell in (rnn.Elman, rnn.LSTM, rnn.LSTMPeephole, rnn.GRU, rnn.GRUResetAfter):
        with case(cell):
            how: dict[str, Any] = {"dtype": "float64", "skip": True, "reads": "vectors"}
            network = drawn(rnn.Network([cell(6), cell(4)], INPUTS, OUTPUTS, **how))
            export_onnx(network, tmp_path / "n.onnx", dtype="float64")
            file = onnx.load(tmp_path / "n.onnx")
            onnx.checker.check_model(file, full_check=True)
            generator = np.random.default_rng(2)
            x = generator.normal(size=(5, 3, INPUTS))
            states = [generator.normal(0, 0.5, s.shape) for s in network.zero_states(3)]
            names = ["x", *(f"initial_{s.name}{l}" for l, c in enumerate(network.layers) for s in c.states)]
            got = ReferenceEvaluator(file).run(None, dict(zip(names, [x, *states], strict=True)))
            logits, after = rnn.run(network, x, states, backend="numpy")
            assert {value.dtype.name for value in got} == {"float64"}
            require_close(got, [logits, *after], 1e-12)


def test_names_and_axes_of_the_file(runtime: Any, tmp_path: Path) -> None:
    import onnx

    network = rnn.Network([rnn.LSTM(6), rnn.GRU(4)], INPUTS, OUTPUTS)
    network.vocabulary = rnn.data.Vocabulary("\n aé")
    export_onnx(network, tmp_path / "open.onnx")
    export_onnx(network, tmp_path / "fixed.onnx", time=8, batch=2)

    def shapes(path: Path) -> dict[str, list[Any]]:
        graph = onnx.load(path).graph
        axes = {v.name: v.type.tensor_type.shape.dim for v in (*graph.input, *graph.output)}
        return {name: [d.dim_param or d.dim_value for d in dims] for name, dims in axes.items()}

    states = {"h0": ["batch", 6], "c0": ["batch", 6], "h1": ["batch", 4]}
    expected = {"x": ["time", "batch"], "logits": ["time", "batch", OUTPUTS]}
    for when in ("initial", "final"):
        expected |= {f"{when}_{name}": shape for name, shape in states.items()}
    assert shapes(tmp_path / "open.onnx") == expected
    fixed = shapes(tmp_path / "fixed.onnx")
    assert (fixed["x"], fixed["logits"], fixed["final_h1"]) == ([8, 2], [8, 2, OUTPUTS], [2, 4])
    (entry,) = onnx.load(tmp_path / "open.onnx").metadata_props
    assert (entry.key, json.loads(entry.value)) == ("vocabulary", "\n aé")
    before = (tmp_path / "open.onnx").read_bytes()
    export_onnx(network, tmp_path / "open.onnx")
    assert (tmp_path / "open.onnx").read_bytes() == before


def test_symbols_out_of_range_raise_errors_in_onnxruntime(runtime: Any, tmp_path: Path) -> None:
    export_onnx(rnn.Network([rnn.Elman(3)], INPUTS, OUTPUTS), tmp_path / "n.onnx", initial="zero")
    session = runtime.InferenceSession(tmp_path / "n.onnx")
    session.run(None, {"x": np.array([[INPUTS - 1]])})
    for symbol in (INPUTS, -1):
        with case(symbol), pytest.raises(Exception, match="out of data bounds"):
            session.run(None, {"x": np.array([[symbol]])})


def test_unsupported_networks_are_rejected(
    runtime: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = type("OwnSequence", (rnn.Elman,), {"sequence": lambda self: None})
    refused: list[tuple[Any, dict[str, Any], str]] = [
        (own, {}, r"OwnSequence\(units=3\) overrides `sequence`.*gn\.export_onnx\("),
        (rnn.LSTM, {"batch": 2.5}, "batch must be a whole number >= 1, not 2.5"),
        (rnn.LSTM, {"initial": "none"}, "initial must be"),
        (rnn.LSTM, {"initial": "learned"}, "initial_state='learned'"),
        (rnn.LSTM, {"lengths": 3}, "lengths must be"),
        (rnn.LSTM, {"dtype": "float16"}, "dtype must be 'float32' or 'float64', not 'float16'"),
    ]
    for cell, how, said in refused:
        with case(cell, how), pytest.raises(UsageError, match=said):
            export_onnx(rnn.Network([cell(3)], INPUTS, OUTPUTS), tmp_path / "n.onnx", **how)
    with pytest.raises(UsageError, match="export_onnx: the argument must be a Network, not LSTM"):
        export_onnx(rnn.LSTM(4), tmp_path / "n.onnx")  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UsageError, match="pip install 'onnx"):
        export_onnx(rnn.Network([rnn.LSTM(4)], INPUTS, OUTPUTS), tmp_path / "n.onnx")
    assert not list(tmp_path.iterdir())


def test_step_invariant_values_are_computed_once(runtime: Any, tmp_path: Path) -> None:
    """Weights keep their names."""
    network = rnn.Network([rnn.HMMFilter(3)], INPUTS, OUTPUTS)
    file = check(runtime, network, tmp_path / "n.onnx")
    assert set(network.parameters) <= {given.name for given in file.graph.initializer}
    (scan,) = (node for node in file.graph.node if node.op_type == "Scan")
    inside = [node.op_type for node in scan.attribute[0].g.node]
    assert inside.count("Softmax") == 2  # and not those of the weights
    assert "LogSoftmax" in [node.op_type for node in file.graph.node]


def test_encoder_and_decoder_with_attention(runtime: Any, tmp_path: Path) -> None:
    """Two networks as one graph, for any batch size and lengths."""
    steps, apart = 4, {"training": False}
    for feedback, score in itertools.product((None, "likeliest"), ("additive", "dot")):
        encoder = drawn(rnn.Network([rnn.Bidirectional(rnn.GRU(3))], INPUTS, 0))
        cell = rnn.Attention(rnn.GRU(5), memory=6, places=steps, score=score)
        decoder = drawn(rnn.Network([cell], OUTPUTS, OUTPUTS))

        def equations(batch: int) -> tuple[dict[str, Node], dict[str, Node]]:
            e = encoder.unroll(steps, batch, initial="zero", lengths=True, name="encoder", **apart)
            how = {"initial": rnn.attention_memory(e.hidden[-1], e.lengths), "lengths": e.lengths, **apart}
            d = decoder.unroll(steps, batch, feedback=feedback, name="decoder", **how)
            looked = d.course("attention")
            outputs = {"logits": d.logits, "likeliest": gn.argmax(d.logits), "looked": looked}
            return outputs, {"word": e.inputs, "length": e.lengths, "before": d.inputs}

        with case(feedback, score):
            gn.export_onnx(equations, tmp_path / "n.onnx")
            session = runtime.InferenceSession(tmp_path / "n.onnx")
            assert session.get_inputs()[1].shape == ["batch"]
            for batch in (1, 6):
                generator = np.random.default_rng(batch)
                outputs, inputs = equations(batch)
                word, length = (
                    generator.integers(INPUTS, size=(steps, batch)),
                    generator.integers(1, steps + 1, batch),
                )
                before = generator.integers(OUTPUTS, size=inputs["before"].shape)
                wanted = gn.compile([*outputs.values()], [*inputs.values()], backend="numpy")(
                    word, length, before
                )
                require_close(session.run(None, {"word": word, "length": length, "before": before}), wanted)


def test_gradients_and_gauss_newton_products_are_exported(runtime: Any, tmp_path: Path) -> None:
    """Gradient and Gauss-Newton product of a network, for any batch size."""
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
    require_close(session.run(None, arrays), wanted, 1e-4)
