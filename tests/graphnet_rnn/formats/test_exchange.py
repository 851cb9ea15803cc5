"""Weights from and to PyTorch: equal results on both sides, and clear errors for other files."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save as safetensors_save

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.apps.cli import main
from graphnet_rnn.errors import DataError, ModelFileError, UsageError
from graphnet_rnn.formats import export_onnx, from_torch, save_torch, to_torch
from graphnet_rnn.formats.state_dict import directions_of
from tests.tables import case

TIME, BATCH, INPUTS, UNITS, OUTPUTS = 5, 3, 4, 6, 7
#: torch module -> (our cell, number of gates).
KINDS: dict[str, Any] = {"RNN": (rnn.Elman, 1), "LSTM": (rnn.LSTM, 4), "GRU": (rnn.GRUResetAfter, 3)}
TOLERANCE = {"float32": 1e-6, "float64": 1e-12}
every_kind = pytest.mark.parametrize("kind", KINDS)


def network_of(*cells: rnn.Cell, **settings: Any) -> rnn.Network:
    """A network with random weights and biases."""
    settings = {"inputs": INPUTS, "outputs": OUTPUTS, "reads": "vectors", **settings}
    network = rnn.Network(list(cells), **settings)
    network.theta = np.random.default_rng(0).normal(0, 0.5, network.theta.size)
    return network


def state_dict(
    kind: str = "LSTM", layers: int = 1, bias: bool = True, dtype: str = "float32", prefix: str = "rnn."
) -> dict[str, Array]:
    """Random tensors with torch's names and shapes, and an output layer `linear`."""
    rng, gates = np.random.default_rng(1), KINDS[kind][1]
    shapes: dict[str, tuple[int, ...]] = {}
    for l in range(layers):
        shapes[f"{prefix}weight_ih_l{l}"] = (gates * UNITS, UNITS if l else INPUTS)
        shapes[f"{prefix}weight_hh_l{l}"] = (gates * UNITS, UNITS)
        if bias:
            shapes[f"{prefix}bias_ih_l{l}"] = shapes[f"{prefix}bias_hh_l{l}"] = (gates * UNITS,)
    shapes |= {"linear.weight": (OUTPUTS, UNITS), "linear.bias": (OUTPUTS,)}
    return {name: rng.normal(0, 0.5, shape).astype(dtype) for name, shape in shapes.items()}


def data_for(network: rnn.Network) -> tuple[Array, list[Array]]:
    """Random inputs and initial states."""
    rng = np.random.default_rng(2)
    if network.reads == "symbols":
        x = rng.integers(network.inputs, size=(TIME, BATCH))
    else:
        x = rng.normal(size=(TIME, BATCH, network.inputs)).astype(network.dtype)
    states = [rng.normal(0, 0.5, s.shape).astype(network.dtype) for s in network.zero_states(BATCH)]
    return x, states


def close(got: Any, want: Any, dtype: str = "float64") -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= TOLERANCE[dtype] * max(1.0, float(np.abs(want).max()))


def fails(kind: type[Exception], *parts: str) -> Any:
    """Expects an error of this kind whose message has all parts in this order."""
    return pytest.raises(kind, match=".*".join(map(re.escape, parts)))


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def modules(
    torch: Any, kind: str, dtype: str = "float32", layers: int = 1, inputs: int = INPUTS, **settings: Any
) -> Any:
    """A torch model of two modules, rnn and linear."""
    torch.manual_seed(3)
    number = getattr(torch, dtype)
    own = getattr(torch.nn, kind)(inputs, UNITS, layers, dtype=number, **settings)
    width = (settings.get("proj_size") or UNITS) * (1 + own.bidirectional)
    return torch.nn.ModuleDict({"rnn": own, "linear": torch.nn.Linear(width, OUTPUTS, dtype=number)})


def run_torch(torch: Any, model: Any, x: Any, states: list[Any]) -> list[Any]:
    """Logits and final states; states layer by layer, as we list them."""
    layers = model["rnn"].num_layers
    count = len(states) // layers
    before = [torch.stack(states[k::count]) for k in range(count)]
    hidden, after = model["rnn"](x, tuple(before) if count > 1 else before[0])
    ends = after if count > 1 else (after,)
    return [model["linear"](hidden), *(end[l] for l in range(layers) for end in ends)]


@every_kind
def test_values_and_gradients_match_torch(torch: Any, kind: str) -> None:
    """Logits, final states, cost, and its gradient by every weight, by x and by the states before it."""
    for layers, dtype, bias in ((1, "float32", True), (2, "float64", True), (1, "float64", False)):
        with case(layers, dtype, bias):
            model = modules(torch, kind, dtype, layers, bias=bias)
            network = from_torch(model.state_dict(), loss="softmax")
            assert [type(cell) for cell in network.layers] == [KINDS[kind][0]] * layers
            assert (network.inputs, network.outputs, network.reads) == (INPUTS, OUTPUTS, "vectors")
            assert network.theta.dtype == dtype
            x, states = data_for(network)
            targets = np.random.default_rng(4).integers(OUTPUTS, size=(TIME, BATCH))
            leaves = [torch.tensor(a, requires_grad=True) for a in (x, *states)]
            logits, *ends = run_torch(torch, model, leaves[0], leaves[1:])
            cost = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(targets).flatten())
            cost.backward()

            u = network.unroll(TIME, BATCH)
            wrt = [*network.parameters.values(), u.inputs, *u.initial]
            nodes = [u.logits, u.cost, *u.final, *gn.gradient(u.cost, wrt)]
            got = gn.compile(nodes, [u.inputs, u.targets, *u.initial])(x, targets, *states)
            for value, want in zip(got, [logits, cost, *ends], strict=False):
                close(value, want.detach(), dtype)
            slopes = got[2 + len(ends) :]
            for value, leaf in zip(slopes[len(network.parameters) :], leaves, strict=True):
                close(value, leaf.grad, dtype)
            # The gradient has the layout of the weights, so it converts as they do. Ours by the one bias is torch's by
            # either of two; only n of the GRU has two of its own.
            network.theta = np.concatenate([slope.ravel() for slope in slopes[: len(network.parameters)]])
            converted = to_torch(network)
            for name, parameter in model.named_parameters():
                found, want = converted[name], parameter.grad.numpy()
                if "bias_hh" in name:
                    rows = slice(2 * UNITS, None) if kind == "GRU" else slice(0, 0)
                    assert found[rows].size == (UNITS if kind == "GRU" else 0)
                    np.testing.assert_allclose(found[rows], want[rows], 0, TOLERANCE[dtype])
                else:
                    close(found, want, dtype)


@every_kind
def test_symbols_and_embeddings(torch: Any, kind: str) -> None:
    """Symbols as one-hot vectors and embeddings; one table has the output layer's width."""
    model = modules(torch, kind, "float64")
    network = from_torch(model, reads="symbols")
    assert data_for(network)[0].dtype == np.int64
    other = modules(torch, kind, "float64", inputs=UNITS)
    other["table"] = torch.nn.Embedding(9, UNITS, dtype=torch.float64)
    with fails(DataError, "table.weight [9, 6]", "output_prefix=", "embedding_prefix="):
        from_torch(other.state_dict())
    embedded = from_torch(other.state_dict(), embedding_prefix="table.")
    assert (embedded.inputs, embedded.reads) == (9, "symbols")
    one_hot = lambda x: torch.nn.functional.one_hot(x, INPUTS).double()
    for module, net, read in ((model, network, one_hot), (other, embedded, other["table"])):
        x, states = data_for(net)
        logits, ends = rnn.run(net, x, states, backend="numpy")
        with torch.no_grad():
            want = run_torch(torch, module, read(torch.tensor(x)), [torch.tensor(s) for s in states])
        for value, expected in zip([logits, *ends], want, strict=True):
            close(value, expected)


def test_dropout_and_nonlinearity_are_read_from_a_module(torch: Any) -> None:
    """They are read from a module, since a state dict does not have them."""
    model = modules(torch, "LSTM", layers=2, dropout=0.25)
    assert from_torch(model).dropout == 0.25
    assert from_torch(model, dropout=0.5).dropout == 0.5
    assert from_torch(model.state_dict()).dropout == 0
    cell = torch.nn.RNNCell(4, 4, nonlinearity="relu")
    cell = torch.nn.ModuleDict({"core": cell, "linear": torch.nn.Linear(4, 2)})
    for module in (modules(torch, "RNN", nonlinearity="relu"), cell):
        with fails(DataError, "nonlinearity='relu'", "rnn.Cell"):
            from_torch(module)
    model = modules(torch, "LSTM", inputs=UNITS)
    model["table"] = torch.nn.Embedding(9, UNITS, max_norm=0.1)
    with fails(DataError, "torch.nn.Embedding table has max_norm", "max_norm = None"):
        from_torch(model, embedding_prefix="table.")


def test_tensors_in_a_graph_and_of_half_precision(torch: Any) -> None:
    model = modules(torch, "GRU")
    network = from_torch(dict(model.named_parameters()))
    np.testing.assert_array_equal(network.theta, from_torch(model.state_dict()).theta)
    half = from_torch(model.half())
    assert half.theta.dtype == np.float32
    np.testing.assert_array_equal(half.theta, from_torch(model.float()).theta)
    one, other = (model["rnn"].get_parameter(f"bias_{side}_l0").detach().numpy() for side in ("ih", "hh"))
    np.testing.assert_array_equal(half.layers[0].weights["b_r"].value, (one + other)[:UNITS])
    with fails(DataError, "rnn.weight_ih_l0", "cannot be converted to an array", ".float()"):
        from_torch(model.bfloat16())


@pytest.mark.parametrize("kind", [*KINDS, "projected"])
def test_directions_and_projections_match_torch(torch: Any, kind: str) -> None:
    """Conversion from torch and back keeps the tensors; learned states correspond to h_0 and c_0."""
    how, name = ({"proj_size": 3}, "LSTM") if kind == "projected" else ({}, kind)
    for layers, directions, learned in itertools.product((1, 2), (1, 2) if how else (2,), (False, True)):
        with case(layers, directions, learned):
            model = modules(torch, name, "float64", layers, bidirectional=directions == 2, **how)
            widths = [how.get("proj_size", UNITS), UNITS][: 1 + (name == "LSTM")]
            begin = [torch.randn(layers * directions, 1, n, dtype=torch.float64) for n in widths]
            tensors = dict(model.state_dict())
            if learned:
                tensors |= {f"initial.{s}": value for s, value in zip("hc", begin, strict=False)}
            network = from_torch(tensors)
            assert (len(network.layers), network.initial_state == "learned") == (layers, learned)
            cells = {type(c) for layer in network.layers for c in directions_of(layer)}
            assert cells == {rnn.LSTMProjected if how else KINDS[kind][0]}
            x = np.random.default_rng(6).normal(size=(TIME, BATCH, INPUTS))
            logits, after = rnn.run(network, x, backend="numpy")
            with torch.no_grad():
                given = [value.expand(-1, BATCH, -1).contiguous() for value in begin]
                before = tuple(given) if len(given) > 1 else given[0]
                hidden, ends = model["rnn"](torch.tensor(x), before if learned else None)
                close(logits, model["linear"](hidden))
            ends = ends if len(given) > 1 else (ends,)
            want = [end[d] for d in range(layers * directions) for end in ends]
            for value, expected in zip(after, want, strict=True):
                close(value, expected)
            again = to_torch(network)
            assert set(again) == set(tensors)
            assert from_torch(again).theta.tobytes() == network.theta.tobytes()
            for key, tensor in tensors.items():
                if "bias_" not in key:  # of two, their sum
                    np.testing.assert_array_equal(again[key], np.asarray(tensor))


@every_kind
def test_cell_modules_are_layers(torch: Any, kind: str) -> None:
    """One cell module and a list of them, compared with a loop in torch."""
    for layers in (1, 2):
        with case(layers):
            torch.manual_seed(7)
            make = getattr(torch.nn, f"{kind}Cell")
            cells = [make(UNITS if l else INPUTS, UNITS, dtype=torch.float64) for l in range(layers)]
            own = torch.nn.ModuleList(cells) if layers > 1 else cells[0]
            linear = torch.nn.Linear(UNITS, OUTPUTS, dtype=torch.float64)
            model = torch.nn.ModuleDict({"core": own, "linear": linear})
            x = np.random.default_rng(8).normal(size=(TIME, BATCH, INPUTS))
            with torch.no_grad():
                states: list[Any] = [None] * layers
                outputs = []
                for step in torch.tensor(x):
                    for l, cell in enumerate(cells):
                        states[l] = cell(step, states[l])
                        step = states[l][0] if kind == "LSTM" else states[l]
                    outputs.append(linear(step))
            for given in (model, model.state_dict()):
                network = from_torch(given)
                close(rnn.run(network, x, backend="numpy")[0], torch.stack(outputs))
            assert [type(cell) for cell in network.layers] == [KINDS[kind][0]] * layers
            again = to_torch(network, "core.", cells=True)
            model.load_state_dict({name: torch.from_numpy(array) for name, array in again.items()})
            assert from_torch(again).theta.tobytes() == network.theta.tobytes()


@every_kind
def test_torch_round_trip_keeps_the_network(tmp_path: Path, kind: str) -> None:
    for initial_state in ("zero", "learned"):
        network = network_of(*[KINDS[kind][0](UNITS) for _ in range(3)], initial_state=initial_state)
        save_torch(network, tmp_path / "w.safetensors")
        for given in (to_torch(network), tmp_path / "w.safetensors", str(tmp_path / "w.safetensors")):
            back = from_torch(given)
            assert back.settings() == network.settings()
            assert back.theta.tobytes() == network.theta.tobytes()
    for bias in (True, False):
        tensors = state_dict(kind, layers=2, bias=bias, dtype="float64")
        again = to_torch(from_torch(tensors))
        assert set(state_dict(kind, layers=2)) == set(again)
        for name, array in tensors.items():
            if "bias_" not in name:
                np.testing.assert_array_equal(again[name], array)
        for l in range(2):
            total = sum(tensors.get(f"rnn.bias_{side}_l{l}", np.zeros(1)) for side in ("ih", "hh"))
            got = again[f"rnn.bias_ih_l{l}"] + again[f"rnn.bias_hh_l{l}"]
            np.testing.assert_array_equal(got, np.broadcast_to(total, got.shape))


def test_weights_that_are_not_finite_are_rejected() -> None:
    tensors = state_dict("GRU")
    tensors["rnn.weight_hh_l0"][1, 2] = np.nan
    with pytest.raises(DataError, match="weight_hh_l0 has weights that are NaN or infinite"):
        from_torch(tensors)


def test_networks_that_are_not_finite_are_not_exported(tmp_path: Path) -> None:
    network = network_of(rnn.GRU(UNITS))
    network.theta[0] = np.inf
    for export in (
        to_torch,
        lambda network: rnn.formats.export_onnx(network, tmp_path / "n.onnx"),
        lambda network: rnn.formats.export_c(network, tmp_path / "n.c"),
    ):
        with pytest.raises(UsageError, match=r"the parameter layer0.W_x\w is inf at \[0, 0\]"):
            export(network)
    assert not list(tmp_path.iterdir())


def test_gate_order_matches_torch() -> None:
    """The rows of gate j have the value j, so the check does not depend on this module's order."""
    for kind, letters in (("LSTM", "ifgo"), ("GRU", "rzn"), ("RNN", "h")):
        tensors = state_dict(kind)
        for j in range(len(letters)):
            tensors["rnn.weight_hh_l0"][j * UNITS : (j + 1) * UNITS] = j
        weights = from_torch(tensors).layers[0].weights
        assert [float(weights[f"W_h{letter}"].value[0, 0]) for letter in letters] == list(range(len(letters)))
        last = tensors["rnn.weight_ih_l0"][(len(letters) - 1) * UNITS :]
        np.testing.assert_array_equal(weights[f"W_x{letters[-1]}"].value, last.T)


def test_to_torch_returns_contiguous_copies() -> None:
    network = network_of(rnn.LSTM(UNITS), initial_state="learned")
    for name, array in to_torch(network).items():
        assert array.flags.c_contiguous, name
        assert not np.shares_memory(array, network.theta), name


def test_prefixes_are_found_and_choose_among_several() -> None:
    for prefix, output in (("lstm.", "fc."), ("", "head."), ("module.net.core.", "out_")):
        with case(prefix, output):
            named = {k.replace("rnn.", prefix).replace("linear.", output): v for k, v in state_dict().items()}
            want = from_torch(state_dict()).theta
            np.testing.assert_array_equal(from_torch(named).theta, want)
            np.testing.assert_array_equal(from_torch(named, "LSTM", prefix, output).theta, want)
    tensors = {**state_dict(), **state_dict("GRU", prefix="other."), "second.weight": ones((2, UNITS), "f")}
    network = from_torch(tensors, prefix="other.", output_prefix="second.")
    assert isinstance(network.layers[0], rnn.GRUResetAfter)
    assert network.outputs == 2
    assert not network.parameters["output.b_o"].value.any(), "there is none in the file"


ones = np.ones
PROJECTED = to_torch(network_of(rnn.LSTMProjected(UNITS, 3)))


def without(*names: str, **more: Array) -> dict[str, Array]:
    return {k: v for k, v in {**state_dict(layers=2), **more}.items() if k not in names}


def also(name: str, *shape: int, kind: str = "f") -> dict[str, Array]:
    return without(**{name: ones(shape, kind)})


BAD_TENSORS: list[tuple[Any, ...]] = [
    ({}, "no weight_ih_l0", "found: nothing"),
    ({"fc.weight": ones((2, 3), "f")}, "no weight_ih_l0", "LSTMCell", "found: fc.weight [2, 3]"),
    (without("rnn.weight_hh_l1"), "rnn.weight_hh_l1 missing: 2 layer(s)"),
    (without("rnn.bias_hh_l0"), "rnn.bias_hh_l0 missing"),
    (without("rnn.weight_ih_l1", **{"rnn.weight_ih_l2": ones((24, 6), "f")}), "rnn.weight_ih_l1", "missing"),
    (also("rnn.weight_hh_l0", 30, 6), "rnn.weight_hh_l0 has the shape [30, 6]", "3 (GRU)"),
    (also("rnn.weight_hh_l0", 24), "rnn.weight_hh_l0 has the shape [24]: not a matrix"),
    (also("rnn.weight_ih_l0", 18, 4), "rnn.weight_ih_l0 has the shape [18, 4]", "of 6 units needs [24, 4]"),
    (also("rnn.bias_ih_l1", 24, 1), "rnn.bias_ih_l1 has the shape [24, 1]", "needs [24]"),
    (also("rnn.weight_ih_l0", 24, 4, kind="int8"), "int8", "quantized"),
    (without("linear.weight", "linear.bias"), "no output layer", "6 units", "torch.nn.Linear(6, outputs)"),
    (also("second.weight", 2, 6), "second.weight [2, 6] all read 6 units", "output_prefix="),
    (also("linear.bias", 3), "linear.bias has the shape [3]", "7 outputs needs [7]"),
    (also("norm.weight", 6), "norm.weight [6]: not a part of", "prefix='rnn.' and output_prefix="),
    (also("table.weight", 9, 4), "table.weight [9, 4]: not a part of", "embedding_prefix='table.'"),
    (also("initial.h", 2, 1, 6), "initial.c missing"),
    (state_dict() | state_dict("GRU", prefix="other."), "2 recurrent modules", "'rnn.', 'other.'", "prefix="),
    (PROJECTED | {"rnn.weight_hr_l0": ones((5, 7), "f")}, "columns of weight_hr_l0", "[5, 7]"),
    (PROJECTED | {"rnn.weight_hr_l0": ones((2, UNITS), "f")}, "rnn.weight_hh_l0", "LSTM of 6 units projecte"),
]  # fmt: skip


def test_invalid_tensors_are_rejected() -> None:
    for tensors, *sentence in BAD_TENSORS:
        with case(*sentence), fails(DataError, *sentence):
            from_torch(tensors)
    for arguments, kind, sentence in (
        ({"prefix": "lstm."}, UsageError, ("prefix='lstm.'", "no lstm.weight_ih_l0", "found: 'rnn.'")),
        ({"output_prefix": "fc."}, UsageError, ("output_prefix", "no fc.weight", "linear.weight [7, 6]")),
        ({"output_prefix": "rnn."}, UsageError, ("output_prefix", "no rnn.weight")),
        ({"embedding_prefix": "linear."}, DataError, ("linear.weight has the shape [7, 6]", "[7, 4]")),
        ({"kind": "GRU"}, DataError, ("kind is 'GRU'", "torch.nn.LSTM")),
        ({"kind": "Transformer"}, UsageError, ("kind must be 'RNN' or 'LSTM' or 'GRU'",)),
        ({"reads": "words"}, UsageError, ("reads must be",)),
    ):
        with case(arguments), fails(kind, *sentence):
            from_torch(state_dict(), **arguments)


#: Odd names of tensors: long, control characters, right-to-left, half a surrogate pair.
NAMES = ["x" * 10_000, "a\x1b]0;owned\x07\x1b[2J\nTraceback (most recent call last):", "\u202e", "a\ud800"]


def odd_tensors(name: str) -> dict[str, dict[str, Array]]:
    """Invalid or too many tensors with such names, by kind of fault."""
    of = {key.removeprefix("rnn."): value for key, value in state_dict(prefix=f"{name}.").items()}
    first = f"{name}.weight_ih_l0"
    return {
        "none": {f"{name}{i}": ones(1, "f") for i in range(3_000)},
        "many modules": {f"{i}{name}.weight_ih_l0": ones((24, 4), "f") for i in range(3_000)},
        "many layers": {f"{name}.weight_ih_l{i}": ones((24, 4), "f") for i in range(3_000)},
        "shape": {**of, first: ones(24, "f")},
        "rows": {**of, first: ones((18, 4), "f")},
        "dtype": {**of, first: ones((24, 4), "int8")},
        "gates": {**of, f"{name}.weight_hh_l0": ones((30, 6), "f")},
        "outputs": {**of, **{f"{name}{i}.weight": ones((2, 6), "f") for i in range(3_000)}},
        "others": {**of, **{f"{name}{i}weight": ones((9, 4), "f") for i in range(3_000)}},
    }


def test_names_in_files_are_shortened_to_one_line() -> None:
    for name in NAMES:
        given = {wrong: (tensors, {}) for wrong, tensors in odd_tensors(name).items()}
        for argument in ("prefix", "output_prefix", "embedding_prefix"):
            given[argument] = (state_dict(), {argument: name})
        for wrong, (tensors, arguments) in given.items():
            with case(name[:20], wrong):
                with pytest.raises((DataError, UsageError)) as caught:
                    from_torch(tensors, **arguments)
                assert str(caught.value).isprintable()
                assert len(str(caught.value)) < 2000


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    with fails(ModelFileError, "there is no file"):
        from_torch(path)
    for cut in (0, 5, 200, -1):
        path.write_bytes(safetensors_save(state_dict())[:cut])
        with case(cut), fails(ModelFileError, f"{path} is not a safetensors file", "torch.load"):
            from_torch(path)
    header = json.dumps({"w": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(2))
    with fails(ModelFileError, "BF16", "float32"):
        from_torch(path)


def test_networks_unsupported_by_torch_are_rejected() -> None:
    turned, plain = rnn.Bidirectional(rnn.LSTM(3)), rnn.LSTM(4)
    for cells, how, *sentence in (
        ([rnn.GRU(UNITS)], {}, "network of GRU", "GRUResetAfter (torch.nn.GRU)"),
        ([rnn.LSTMPeephole(4)], {}, "LSTMPeephole", "Elman (torch.nn.RNN)"),
        ([plain, rnn.Elman(4)], {}, "network of LSTM, Elman", "one kind for all"),
        ([plain, rnn.LSTM(5)], {}, "one width for all layers", "4, 5"),
        ([plain, rnn.LSTM(4)], {"skip": True}, "skip=False", "export_onnx"),
        ([rnn.LSTMProjected(UNITS, 3)], {"cells": True}, "LSTMCell has no projection"),
        ([turned], {"cells": True}, "leave cells= out for a bidirectional network"),
        ([turned, rnn.LSTM(3)], {}, "in all layers, or in none"),
        ([rnn.Bidirectional(rnn.LSTM(3), rnn.Elman(3))], {}, "network of LSTM, Elman"),
    ):
        of_network = {name: value for name, value in how.items() if name == "skip"}
        with case(sentence), fails(UsageError, *sentence):
            to_torch(network_of(*cells, **of_network), cells="cells" in how)
    with fails(UsageError, "to_torch: the argument must be a Network, not LSTM"):
        to_torch(plain)  # type: ignore[arg-type]
    for prefixes in (("rnn",), ("..",), (".",), (5,), ("rnn.", "rnn."), ("", ""), ("rnn.", "a b.")):
        with case(prefixes), pytest.raises(UsageError, match="prefix"):
            to_torch(network_of(rnn.LSTM(4)), *prefixes)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> rnn.Network:
    """A network that is saved as model.safetensors in the working folder."""
    monkeypatch.chdir(tmp_path)
    network = network_of(rnn.LSTM(4), rnn.LSTM(4), reads="symbols")
    rnn.save(network, "model.safetensors")
    return network


def export(capsys: pytest.CaptureFixture[str], to: str, out: str, *arguments: str) -> str:
    """Runs the command `export` and returns its output."""
    assert main(["export", "model.safetensors", "--to", to, "--out", out, *arguments]) == 0
    return capsys.readouterr().out


def test_export_to_torch(model: rnn.Network, capsys: pytest.CaptureFixture[str]) -> None:
    for prefix, words in (("lstm.", "lstm = "), ("", ""), ("model.0.", "model.0 = ")):  # over the first file
        said = export(capsys, "torch", "w.safetensors", "--prefix", prefix, "--output-prefix", "fc.")
        made = f"{words}torch.nn.LSTM(4, 4, num_layers=2), fc = torch.nn.Linear(4, 7)"
        assert said == f"wrote w.safetensors: {made}\n"
        found, want = load_file("w.safetensors"), to_torch(model, prefix, "fc.")
        assert {name: a.tobytes() for name, a in found.items()} == {
            name: a.tobytes() for name, a in want.items()
        }
    rnn.save(network_of(rnn.LSTM(4), initial_state="learned"), "model.safetensors")
    said = export(capsys, "torch", "w.safetensors")
    assert said.endswith("initial.h (1, 1, 4), to be given as h_0, initial.c (1, 1, 4), to be given as c_0\n")
    assert load_file("w.safetensors")["initial.c"].shape == (1, 1, 4)


def test_printed_torch_modules_load_the_exported_file(
    torch: Any, model: rnn.Network, capsys: pytest.CaptureFixture[str]
) -> None:
    from safetensors.torch import load_file as load_tensors

    said = export(capsys, "torch", "w.safetensors").strip().partition(": ")[2]
    modules = torch.nn.ModuleDict()
    for line in said.replace("), ", ")\n").splitlines():
        name, _, made = line.partition(" = ")
        modules[name] = eval(made, {"torch": torch})
    modules.load_state_dict(load_tensors("w.safetensors"))


def test_export_to_onnx(model: rnn.Network, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnx")
    for options, how, named in (
        ([], {}, "x, initial_h0, initial_c0, initial_h1, initial_c1 -> logits, final_h0, "),
        (["--time", "3", "--batch", "2"], {"time": 3, "batch": 2}, "x, initial_h0, "),
        (
            ["--lengths", "--initial", "zero"],
            {"lengths": True, "initial": "zero"},
            "x, lengths -> logits, final_h0",
        ),
    ):
        with case(options):
            assert f"wrote a.onnx: {named}" in export(capsys, "onnx", "a.onnx", *options)
            export_onnx(model, "b.onnx", **how)
            assert Path("a.onnx").read_bytes() == Path("b.onnx").read_bytes()
