"""Weights from and to PyTorch, and ONNX files: the same numbers on both sides, and clear words where there are none."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from safetensors.numpy import save as safetensors_save

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.cli import main
from graphnet_rnn.data import Vocabulary
from graphnet_rnn.errors import DataError, ModelFileError, UsageError
from graphnet_rnn.formats import export_onnx, from_torch, save_torch, to_torch
from graphnet_rnn.formats.state_dict import directions_of
from tests.tables import case

TIME, BATCH, INPUTS, UNITS, OUTPUTS = 5, 3, 4, 6, 7
#: Module of torch -> our cell, and how many gates.
KINDS: dict[str, tuple[type[rnn.Cell], int]] = {
    "RNN": (rnn.Elman, 1),
    "LSTM": (rnn.LSTM, 4),
    "GRU": (rnn.GRUResetAfter, 3),
}
TOLERANCE = {"float32": 1e-6, "float64": 1e-12}

every_kind = pytest.mark.parametrize("kind", KINDS)


def network_of(*cells: rnn.Cell, seed: int = 0, **settings: Any) -> rnn.Network:
    """A network with random weights and biases."""
    network = rnn.Network(
        list(cells), **{"inputs": INPUTS, "outputs": OUTPUTS, "reads": "vectors", **settings}
    )
    network.theta = np.random.default_rng(seed).normal(0, 0.5, network.theta.size)
    return network


def state_dict(
    kind: str = "LSTM", layers: int = 1, bias: bool = True, dtype: str = "float32", prefix: str = "rnn."
) -> dict[str, Array]:
    """Random tensors as torch names and shapes them, with an output layer `linear`."""
    rng, gates = np.random.default_rng(1), KINDS[kind][1]
    shapes: dict[str, tuple[int, ...]] = {}
    for l in range(layers):
        shapes[f"{prefix}weight_ih_l{l}"] = (gates * UNITS, UNITS if l else INPUTS)
        shapes[f"{prefix}weight_hh_l{l}"] = (gates * UNITS, UNITS)
        if bias:
            shapes[f"{prefix}bias_ih_l{l}"] = shapes[f"{prefix}bias_hh_l{l}"] = (gates * UNITS,)
    shapes |= {"linear.weight": (OUTPUTS, UNITS), "linear.bias": (OUTPUTS,)}
    return {name: rng.normal(0, 0.5, shape).astype(dtype) for name, shape in shapes.items()}


def data_for(network: rnn.Network, time: int = TIME, batch: int = BATCH) -> tuple[Array, list[Array]]:
    """x and the states before it."""
    rng = np.random.default_rng(2)
    if network.reads == "symbols":
        x = rng.integers(network.inputs, size=(time, batch))
    else:
        x = rng.normal(size=(time, batch, network.inputs)).astype(network.dtype)
    states = [rng.normal(0, 0.5, s.shape).astype(network.dtype) for s in network.zero_states(batch)]
    return x, states


def run(network: rnn.Network, x: Array, states: list[Array]) -> list[Array]:
    """Logits and final states."""
    u = network.unroll(*x.shape[:2], training=False)
    return list(gn.compile([u.logits, *u.final], [u.inputs, *u.initial])(x, *states))


def close(got: Any, want: Any, dtype: str) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= TOLERANCE[dtype] * max(1.0, float(np.abs(want).max()))


def fails(kind: type[Exception], *parts: str) -> Any:
    """Raises this kind of error, with all parts in one sentence, in this order."""
    return pytest.raises(kind, match=".*".join(map(re.escape, parts)))


# -- PyTorch: the same numbers -------------------------------------------------------------------


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def modules(
    torch: Any, kind: str, dtype: str = "float32", layers: int = 1, inputs: int = INPUTS, **settings: Any
) -> Any:
    """A torch model of two modules, rnn and linear."""
    torch.manual_seed(3)
    number = getattr(torch, dtype)
    return torch.nn.ModuleDict(
        {
            "rnn": getattr(torch.nn, kind)(inputs, UNITS, layers, dtype=number, **settings),
            "linear": torch.nn.Linear(UNITS, OUTPUTS, dtype=number),
        }
    )


def run_torch(torch: Any, model: Any, x: Any, states: list[Any]) -> list[Any]:
    """Logits and final states; states layer by layer, as we list them."""
    layers = model["rnn"].num_layers
    count = len(states) // layers
    before = [torch.stack(states[k::count]) for k in range(count)]
    hidden, after = model["rnn"](x, tuple(before) if count > 1 else before[0])
    ends = after if count > 1 else (after,)
    return [model["linear"](hidden), *(end[l] for l in range(layers) for end in ends)]


@every_kind
def test_values_and_gradients_are_those_of_torch(torch: Any, kind: str) -> None:
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
            values = [u.logits, u.cost, *u.final]
            got = gn.compile([*values, *gn.gradient(u.cost, wrt)], [u.inputs, u.targets, *u.initial])(
                x, targets, *states
            )
            for value, want in zip(got, [logits, cost, *ends], strict=False):
                close(value, want.detach(), dtype)
            slopes = got[len(values) :]
            for value, leaf in zip(slopes[len(network.parameters) :], leaves, strict=True):
                close(value, leaf.grad, dtype)
            # The gradient has the layout of the weights, so it converts as they do. Ours by the one bias is torch's by
            # either of two; only n of the GRU has two of its own.
            network.theta = np.concatenate([slope.ravel() for slope in slopes[: len(network.parameters)]])
            converted = to_torch(network)
            for name, parameter in model.named_parameters():
                if "bias_hh" in name:
                    rows = slice(2 * UNITS, None) if kind == "GRU" else slice(0, 0)
                    assert converted[name][rows].size == (UNITS if kind == "GRU" else 0)
                    np.testing.assert_allclose(
                        converted[name][rows], parameter.grad.numpy()[rows], 0, TOLERANCE[dtype]
                    )
                else:
                    close(converted[name], parameter.grad, dtype)


@every_kind
def test_saved_weights_run_in_torch(torch: Any, tmp_path: Path, kind: str) -> None:
    """Into modules of the user's names, through a file, with load_state_dict as strict as it is."""
    for layers, dtype in ((1, "float64"), (2, "float32")):
        with case(layers, dtype):
            from safetensors.torch import load_file as load_tensors

            network = network_of(*[KINDS[kind][0](UNITS) for _ in range(layers)], dtype=dtype)
            save_torch(network, tmp_path / "w.safetensors", prefix="core.", output_prefix="head.")
            model = modules(torch, kind, dtype, layers)
            renamed = {
                name.replace("core.", "rnn.").replace("head.", "linear."): tensor
                for name, tensor in load_tensors(tmp_path / "w.safetensors").items()
            }
            model.load_state_dict(renamed)
            x, states = data_for(network)
            with torch.no_grad():
                want = run_torch(torch, model, torch.tensor(x), [torch.tensor(s) for s in states])
            for value, expected in zip(run(network, x, states), want, strict=True):
                close(value, expected, dtype)


def test_symbols_are_torch_on_one_hot_vectors(torch: Any) -> None:
    for kind in KINDS:
        with case(kind):
            model = modules(torch, kind, "float64")
            network = from_torch(model, reads="symbols")
            x, states = data_for(network)
            assert x.dtype == np.int64
            one_hot = torch.nn.functional.one_hot(torch.tensor(x), INPUTS).double()
            with torch.no_grad():
                want = run_torch(torch, model, one_hot, [torch.tensor(s) for s in states])
            for value, expected in zip(run(network, x, states), want, strict=True):
                close(value, expected, "float64")


def test_an_embedding_is_multiplied_in(torch: Any) -> None:
    """Also one that is as wide as the output layer, which names must tell apart."""
    for kind in KINDS:
        with case(kind):
            symbols = 9
            model = modules(torch, kind, "float64", inputs=UNITS)
            model["table"] = torch.nn.Embedding(symbols, UNITS, dtype=torch.float64)
            with fails(DataError, "table.weight [9, 6]", "output_prefix=", "embedding_prefix="):
                from_torch(model.state_dict())
            network = from_torch(model.state_dict(), embedding_prefix="table.")
            assert (network.inputs, network.reads) == (symbols, "symbols")
            x, states = data_for(network)
            with torch.no_grad():
                rows = model["table"](torch.tensor(x))
                want = run_torch(torch, model, rows, [torch.tensor(s) for s in states])
            for value, expected in zip(run(network, x, states), want, strict=True):
                close(value, expected, "float64")


def test_a_module_tells_its_dropout_and_its_nonlinearity(torch: Any) -> None:
    """Neither is in a state dict."""
    model = modules(torch, "LSTM", layers=2, dropout=0.25)
    assert from_torch(model).dropout == 0.25
    assert from_torch(model, dropout=0.5).dropout == 0.5
    assert from_torch(model.state_dict()).dropout == 0
    relu = modules(torch, "RNN", nonlinearity="relu")
    with fails(DataError, "nonlinearity='relu'", "rnn.Cell"):
        from_torch(relu)
    assert isinstance(from_torch(modules(torch, "RNN")).layers[0], rnn.Elman)


def test_tensors_in_a_graph_and_of_half_precision(torch: Any) -> None:
    model = modules(torch, "GRU")
    network = from_torch(dict(model.named_parameters()))
    np.testing.assert_array_equal(network.theta, from_torch(model.state_dict()).theta)
    half = from_torch(model.half())
    assert half.theta.dtype == np.float32
    np.testing.assert_array_equal(half.theta, from_torch(model.float()).theta)
    one, other = (model["rnn"].get_parameter(f"bias_{side}_l0").detach().numpy() for side in ("ih", "hh"))
    np.testing.assert_array_equal(half.layers[0].weights["b_r"].value, (one + other)[:UNITS])
    with fails(DataError, "rnn.weight_ih_l0", "cannot be made an array", ".float()"):
        from_torch(model.bfloat16())


def same_tensors_back(network: rnn.Network, tensors: dict[str, Any]) -> None:
    """To torch go the tensors that the network was made of; of two biases, their sum."""
    again = to_torch(network)
    assert set(again) == set(tensors)
    assert from_torch(again).theta.tobytes() == network.theta.tobytes()
    for name, tensor in tensors.items():
        if "bias_" not in name:
            np.testing.assert_array_equal(again[name], np.asarray(tensor))


def test_projected_modules(torch: Any) -> None:
    """torch.nn.LSTM with proj_size is LSTMProjected, and back."""
    for layers in (1, 2):
        for directions in (1, 2):
            for learned in (False, True):
                with case(layers, directions, learned):
                    torch.manual_seed(9)
                    module = torch.nn.LSTM(
                        INPUTS, UNITS, layers, bidirectional=directions == 2, proj_size=3, dtype=torch.float64
                    )
                    linear = torch.nn.Linear(3 * directions, OUTPUTS, dtype=torch.float64)
                    tensors = dict(torch.nn.ModuleDict({"rnn": module, "linear": linear}).state_dict())
                    begin = [torch.randn(layers * directions, 1, n, dtype=torch.float64) for n in (3, UNITS)]
                    if learned:
                        tensors |= {f"initial.{name}": value for name, value in zip("hc", begin, strict=True)}
                    network = from_torch(tensors)
                    assert {type(c) for layer in network.layers for c in directions_of(layer)} == {
                        rnn.LSTMProjected
                    }
                    x = np.random.default_rng(6).normal(size=(TIME, BATCH, INPUTS))
                    with torch.no_grad():
                        before = tuple(value.expand(-1, BATCH, -1).contiguous() for value in begin)
                        hidden, ends = module(torch.tensor(x), before if learned else None)
                        logits, after = rnn.run(network, x, backend="numpy")
                        close(logits, linear(hidden), "float64")
                    for value, want in zip(
                        after, [end[d] for d in range(layers * directions) for end in ends], strict=True
                    ):
                        close(value, want, "float64")
                    same_tensors_back(network, tensors)


def test_projections_that_do_not_fit() -> None:
    tensors = to_torch(network_of(rnn.LSTMProjected(UNITS, 3)))
    with fails(DataError, "columns of weight_hr_l0", "[5, 7]"):
        from_torch(tensors | {"rnn.weight_hr_l0": np.zeros((5, 7), "float32")})
    with fails(DataError, "rnn.weight_hh_l0", f"a torch.nn.LSTM of {UNITS} units projected to 2"):
        from_torch(tensors | {"rnn.weight_hr_l0": np.zeros((2, UNITS), "float32")})
    with fails(UsageError, "LSTMCell has no projection"):
        to_torch(network_of(rnn.LSTMProjected(UNITS, 3)), cells=True)


BOTH = {"RNN": "RNNCell", "LSTM": "LSTMCell", "GRU": "GRUCell"}


@every_kind
def test_both_directions_are_those_of_torch(torch: Any, kind: str) -> None:
    """From torch and, the same tensors, back; learned states lie as h_0 does."""
    for layers in (1, 2):
        for initial_state in ("zero", "learned"):
            with case(layers, initial_state):
                torch.manual_seed(5)
                module = getattr(torch.nn, kind)(
                    INPUTS, UNITS, layers, bidirectional=True, dtype=torch.float64
                )
                linear = torch.nn.Linear(2 * UNITS, OUTPUTS, dtype=torch.float64)
                model = torch.nn.ModuleDict({"rnn": module, "linear": linear})
                tensors = dict(model.state_dict())
                states = 1 + (kind == "LSTM")
                begin = [torch.randn(2 * layers, 1, UNITS, dtype=torch.float64) for _ in range(states)]
                if initial_state == "learned":
                    tensors |= {f"initial.{name}": value for name, value in zip("hc", begin, strict=False)}
                network = from_torch(tensors)
                assert (len(network.layers), network.initial_state) == (layers, initial_state)
                x = np.random.default_rng(6).normal(size=(TIME, BATCH, INPUTS))
                logits, after = rnn.run(network, x, backend="numpy")
                with torch.no_grad():
                    given = [value.expand(-1, BATCH, -1).contiguous() for value in begin]
                    before = (
                        (given[0] if states == 1 else tuple(given)) if initial_state == "learned" else None
                    )
                    hidden, ends = module(torch.tensor(x), before)
                    close(logits, linear(hidden), "float64")
                ends = ends if states > 1 else (ends,)
                for value, want in zip(
                    after, [end[d] for d in range(2 * layers) for end in ends], strict=True
                ):
                    close(value, want, "float64")
                same_tensors_back(network, tensors)


def test_cell_modules_are_layers(torch: Any) -> None:
    """One cell, and a list of them; stepped by hand in torch."""
    for layers in (1, 2):
        for kind in KINDS:
            with case(layers, kind):
                torch.manual_seed(7)
                cells = [
                    getattr(torch.nn, BOTH[kind])(UNITS if l else INPUTS, UNITS, dtype=torch.float64)
                    for l in range(layers)
                ]
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
                    close(rnn.run(network, x, backend="numpy")[0], torch.stack(outputs), "float64")
                assert [type(cell) for cell in network.layers] == [KINDS[kind][0]] * layers
                again = to_torch(network, "core.", cells=True)
                model.load_state_dict({name: torch.from_numpy(array) for name, array in again.items()})
                assert from_torch(again).theta.tobytes() == network.theta.tobytes()


def test_cells_and_directions_that_torch_has_not(torch: Any) -> None:
    relu = torch.nn.ModuleDict(
        {"core": torch.nn.RNNCell(4, 4, nonlinearity="relu"), "linear": torch.nn.Linear(4, 2)}
    )
    with fails(DataError, "nonlinearity='relu'"):
        from_torch(relu)
    with fails(UsageError, "leave cells= out for two directions"):
        to_torch(network_of(rnn.Bidirectional(rnn.GRUResetAfter(3))), cells=True)
    with fails(UsageError, "in all layers, or in none"):
        to_torch(network_of(rnn.Bidirectional(rnn.LSTM(3)), rnn.LSTM(3)))
    with fails(UsageError, "network of LSTM, Elman"):
        to_torch(network_of(rnn.Bidirectional(rnn.LSTM(3), rnn.Elman(3))))


# -- PyTorch: names and shapes -------------------------------------------------------------------


def test_to_torch_and_back_is_the_same_network_bit_by_bit(tmp_path: Path) -> None:
    for initial_state in ("zero", "learned"):
        for kind in KINDS:
            with case(initial_state, kind):
                network = network_of(*[KINDS[kind][0](UNITS) for _ in range(3)], initial_state=initial_state)
                save_torch(network, tmp_path / "w.safetensors")
                for given in (to_torch(network), tmp_path / "w.safetensors", str(tmp_path / "w.safetensors")):
                    back = from_torch(given)
                    assert back.settings() == network.settings()
                    assert back.theta.tobytes() == network.theta.tobytes()


def test_from_torch_and_back_is_the_same_but_for_the_split_of_biases() -> None:
    for bias in (True, False):
        for kind in KINDS:
            with case(bias, kind):
                tensors = state_dict(kind, layers=2, bias=bias, dtype="float64")
                back = to_torch(from_torch(tensors))
                assert set(state_dict(kind, layers=2)) == set(back)
                for name, array in tensors.items():
                    if "bias_" not in name:
                        np.testing.assert_array_equal(back[name], array)
                for l in range(2):
                    total = sum(tensors.get(f"rnn.bias_{side}_l{l}", np.zeros(1)) for side in ("ih", "hh"))
                    got = back[f"rnn.bias_ih_l{l}"] + back[f"rnn.bias_hh_l{l}"]
                    np.testing.assert_array_equal(got, np.broadcast_to(total, got.shape))


def test_gates_lie_where_torch_has_them() -> None:
    """Each block of rows holds its own number: no convention of this module is used to check it."""
    for kind, letters in (("LSTM", "ifgo"), ("GRU", "rzn"), ("RNN", "h")):
        tensors = state_dict(kind)
        for j in range(len(letters)):
            tensors["rnn.weight_hh_l0"][j * UNITS : (j + 1) * UNITS] = j
        weights = from_torch(tensors).layers[0].weights
        assert [float(weights[f"W_h{letter}"].value[0, 0]) for letter in letters] == list(range(len(letters)))
        j = len(letters) - 1
        np.testing.assert_array_equal(
            weights[f"W_x{letters[j]}"].value, tensors["rnn.weight_ih_l0"][j * UNITS :].T
        )


def test_to_torch_gives_arrays_of_its_own_in_row_order(tmp_path: Path) -> None:
    network = network_of(rnn.LSTM(UNITS), initial_state="learned")
    for name, array in to_torch(network).items():
        assert array.flags.c_contiguous, name
        assert not np.shares_memory(array, network.theta), name
    save_torch(network, tmp_path / "w")
    for name, array in load_file(tmp_path / "w").items():
        np.testing.assert_array_equal(array, to_torch(network)[name])


def test_prefixes_are_found() -> None:
    for prefix, output in (("lstm.", "fc."), ("", "head."), ("module.net.core.", "out_")):
        with case(prefix, output):
            named = {k.replace("rnn.", prefix).replace("linear.", output): v for k, v in state_dict().items()}
            want = from_torch(state_dict()).theta
            np.testing.assert_array_equal(from_torch(named).theta, want)
            np.testing.assert_array_equal(from_torch(named, "LSTM", prefix, output).theta, want)


def test_an_output_layer_without_bias() -> None:
    tensors = state_dict()
    del tensors["linear.bias"]
    assert not from_torch(tensors).parameters["output.b_o"].value.any()


def test_prefixes_choose_among_several() -> None:
    tensors = {**state_dict(), **state_dict("GRU", prefix="other.")}
    with fails(DataError, "2 recurrent modules", "'rnn.', 'other.'", "prefix="):
        from_torch(tensors)
    tensors["second.weight"] = np.ones((2, UNITS), "float32")
    network = from_torch(tensors, prefix="other.", output_prefix="second.")
    assert isinstance(network.layers[0], rnn.GRUResetAfter)
    assert network.outputs == 2


def without(*names: str, **more: Array) -> dict[str, Array]:
    return {k: v for k, v in {**state_dict(layers=2), **more}.items() if k not in names}


ones = np.ones


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
    (also("rnn.weight_ih_l1", 24, 4), "rnn.weight_ih_l1 has the shape [24, 4]", "needs [24, 6]"),
    (also("rnn.bias_ih_l1", 24, 1), "rnn.bias_ih_l1 has the shape [24, 1]", "needs [24]"),
    (also("rnn.weight_ih_l0", 24, 4, kind="int8"), "int8", "quantised"),
    (without("linear.weight", "linear.bias"), "no output layer", "6 units", "torch.nn.Linear(6, outputs)"),
    (also("second.weight", 2, 6), "second.weight [2, 6] all read 6 units", "output_prefix="),
    (also("linear.bias", 3), "linear.bias has the shape [3]", "7 outputs needs [7]"),
    (also("norm.weight", 6), "norm.weight [6]: no part of", "prefix='rnn.' and output_prefix="),
    (also("table.weight", 9, 4), "table.weight [9, 4]: no part of", "embedding_prefix='table.'"),
    (also("initial.h", 2, 1, 6), "initial.c missing"),
]


#: What a file may call a tensor, or a module.
NAMES = ["x" * 10_000, "a\x1b]0;owned\x07\x1b[2J\nTraceback (most recent call last):", "\u202e", "a\ud800"]


def odd_tensors(name: str) -> dict[str, dict[str, Array]]:
    """By what is wrong, tensors with such names, and many of them."""
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


@pytest.mark.parametrize("name", NAMES, ids=["long", "control", "turned", "half"])
def test_names_of_a_file_are_shown_on_one_line_and_bounded(name: str) -> None:
    given: list[tuple[str, dict[str, Array], dict[str, Any]]] = [
        (wrong, tensors, {}) for wrong, tensors in odd_tensors(name).items()
    ]
    for argument in ("prefix", "output_prefix", "embedding_prefix"):
        given.append((argument, state_dict(), {argument: name}))
    for wrong, tensors, arguments in given:
        with case(wrong):
            with pytest.raises((DataError, UsageError)) as caught:
                from_torch(tensors, **arguments)
            assert str(caught.value).isprintable()
            assert len(str(caught.value)) < 2000


def test_tensors_that_make_no_network() -> None:
    for tensors, *sentence in BAD_TENSORS:
        with case(*sentence), fails(DataError, *sentence):
            from_torch(tensors)


def test_arguments_that_do_not_fit() -> None:
    for arguments, kind, sentence in (
        ({"prefix": "lstm."}, UsageError, ("prefix='lstm.'", "no lstm.weight_ih_l0", "found: 'rnn.'")),
        ({"output_prefix": "fc."}, UsageError, ("output_prefix", "no fc.weight", "linear.weight [7, 6]")),
        ({"output_prefix": "rnn."}, UsageError, ("output_prefix", "no rnn.weight")),
        ({"embedding_prefix": "linear."}, DataError, ("linear.weight has the shape [7, 6]", "[7, 4]")),
        ({"kind": "GRU"}, DataError, ("kind is 'GRU'", "torch.nn.LSTM")),
        ({"kind": "Transformer"}, UsageError, ("kind must be 'RNN' or 'LSTM' or 'GRU'",)),
        ({"reads": "words"}, UsageError, ("reads must be",)),
        ({"loss": "hinge"}, UsageError, ("loss must be",)),
        ({"dropout": 1.0}, UsageError, ("dropout",)),
    ):
        with case(arguments), fails(kind, *sentence):
            from_torch(state_dict(), **arguments)


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    with fails(ModelFileError, "there is no file"):
        from_torch(path)
    for cut in (0, 5, 200, -1):
        path.write_bytes(safetensors_save(state_dict())[:cut])
        with (
            case(cut),
            fails(ModelFileError, f"{path} is not a safetensors file, or is damaged", "torch.load"),
        ):
            from_torch(path)


def test_a_file_of_bfloat16(tmp_path: Path) -> None:
    header = json.dumps({"w": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}).encode()
    (tmp_path / "w").write_bytes(len(header).to_bytes(8, "little") + header + bytes(2))
    with fails(ModelFileError, "BF16", "float32"):
        from_torch(tmp_path / "w")


def test_networks_that_torch_has_not() -> None:
    for make, sentence in (
        (lambda: network_of(rnn.GRU(UNITS)), ("network of GRU", "after the product, as GRUResetAfter")),
        (lambda: network_of(rnn.LSTMPeephole(4)), ("LSTMPeephole", "Elman (torch.nn.RNN)")),
        (lambda: network_of(rnn.LSTM(4), rnn.Elman(4)), ("network of LSTM, Elman", "one kind for all")),
        (lambda: network_of(rnn.LSTM(4), rnn.LSTM(5)), ("one width for all layers", "4, 5")),
        (lambda: network_of(rnn.LSTM(4), rnn.LSTM(4), skip=True), ("skip=False", "export_onnx")),
        (lambda: rnn.LSTM(4), ("rnn.Network is needed, not a LSTM",)),
    ):
        with case(sentence), fails(UsageError, *sentence):
            to_torch(make())


# -- ONNX ----------------------------------------------------------------------------------------

CELLS = [rnn.Elman, rnn.LSTM, rnn.LSTMPeephole, rnn.GRU, rnn.GRUResetAfter]
every_cell = pytest.mark.parametrize("cell", CELLS)


@pytest.fixture
def onnx() -> Any:
    return pytest.importorskip("onnx")


@pytest.fixture
def runtime(onnx: Any) -> Any:
    return pytest.importorskip("onnxruntime")


def named(session: Any, x: Array, states: list[Array]) -> dict[str, Array]:
    """The arrays by the names of the session's inputs."""
    return dict(zip([value.name for value in session.get_inputs()], [x, *states], strict=True))


def check_onnx(onnx: Any, runtime: Any, network: rnn.Network, path: Path, initial: str = "given") -> None:
    """A valid file, which gives what we compute, at any length and batch, and carries states on."""
    export_onnx(network, path, initial=initial)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = runtime.InferenceSession(path)
    for time, batch in ((TIME, BATCH), (1, 1), (9, 2)):
        x, states = data_for(network, time, batch)
        if initial != "given":
            states = network.first_states(batch) if initial == "learned" else network.zero_states(batch)
        got = session.run(None, named(session, x, states if initial == "given" else []))
        for value, want in zip(got, run(network, x, states), strict=True):
            assert value.dtype == "float32"
            close(value, want, "float32")
    if initial == "given":
        x, states = data_for(network)
        first, *carried = session.run(None, named(session, x[:2], states))
        second, *ends = session.run(None, named(session, x[2:], carried))
        whole = session.run(None, named(session, x, states))
        for value, want in zip([np.concatenate([first, second]), *ends], whole, strict=True):
            close(value, want, "float32")


def test_onnx_of_all_cells_in_one_network(onnx: Any, runtime: Any, tmp_path: Path) -> None:
    for initial_state, initial in (("zero", "zero"), ("learned", "learned")):
        for skip in (True, False):
            with case(initial_state, initial, skip):
                cells = [cell(3 + l) for l, cell in enumerate(CELLS)]
                network = network_of(
                    *cells, skip=skip, dropout=0.5, initial_state=initial_state, reads="symbols"
                )
                check_onnx(onnx, runtime, network, tmp_path / "n.onnx", initial)


def test_float64_against_the_reference_of_onnx(onnx: Any, tmp_path: Path) -> None:
    """Runtimes have no float64 operators; the specification's own evaluator does."""
    for cell in CELLS:
        with case(cell):
            from onnx.reference import ReferenceEvaluator

            network = network_of(cell(UNITS), cell(4), dtype="float64", skip=True)
            export_onnx(network, tmp_path / "n.onnx", dtype="float64")
            file = onnx.load(tmp_path / "n.onnx")
            onnx.checker.check_model(file, full_check=True)
            x, states = data_for(network)
            names = ["x", *(f"initial_{s.name}{l}" for l, c in enumerate(network.layers) for s in c.states)]
            got = ReferenceEvaluator(file).run(None, dict(zip(names, [x, *states], strict=True)))
            for value, want in zip(got, run(network, x, states), strict=True):
                assert value.dtype == "float64"
                close(value, want, "float64")


def test_names_and_axes_of_the_file(onnx: Any, tmp_path: Path) -> None:
    network = network_of(rnn.LSTM(UNITS), rnn.GRU(4), reads="symbols")
    network.vocabulary = Vocabulary("\n aé")
    export_onnx(network, tmp_path / "open.onnx")
    export_onnx(network, tmp_path / "fixed.onnx", time=8, batch=2)

    def shapes(path: Path) -> dict[str, list[Any]]:
        graph = onnx.load(path).graph
        return {
            v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
            for v in (*graph.input, *graph.output)
        }

    assert shapes(tmp_path / "open.onnx") == {
        "x": ["time", "batch"],
        "initial_h0": ["batch", UNITS],
        "initial_c0": ["batch", UNITS],
        "initial_h1": ["batch", 4],
        "logits": ["time", "batch", OUTPUTS],
        "final_h0": ["batch", UNITS],
        "final_c0": ["batch", UNITS],
        "final_h1": ["batch", 4],
    }
    fixed = shapes(tmp_path / "fixed.onnx")
    assert (fixed["x"], fixed["logits"], fixed["final_h1"]) == ([8, 2], [8, 2, OUTPUTS], [2, 4])
    (entry,) = onnx.load(tmp_path / "open.onnx").metadata_props
    assert (entry.key, json.loads(entry.value)) == ("vocabulary", "\n aé")
    before = (tmp_path / "open.onnx").read_bytes()
    export_onnx(network, tmp_path / "open.onnx")
    assert (tmp_path / "open.onnx").read_bytes() == before


def test_a_symbol_that_is_too_large_is_an_error_in_onnxruntime(
    onnx: Any, runtime: Any, tmp_path: Path
) -> None:
    export_onnx(network_of(rnn.Elman(3), reads="symbols"), tmp_path / "n.onnx", initial="zero")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(tmp_path / "n.onnx", options)
    session.run(None, {"x": np.array([[INPUTS - 1]])})
    with pytest.raises(Exception, match="out of data bounds"):
        session.run(None, {"x": np.array([[INPUTS]])})


def test_what_onnx_has_not(tmp_path: Path) -> None:
    for cell, arguments, sentence in (
        (rnn.LSTM, {"batch": 2.5}, ("batch must be a whole number >= 1, not 2.5",)),
        (rnn.LSTM, {"initial": "none"}, ("initial must be",)),
        (rnn.LSTM, {"initial": "learned"}, ("initial_state='learned'",)),
        (rnn.LSTM, {"lengths": 3}, ("lengths must be",)),
        (rnn.LSTM, {"dtype": "float16"}, ("dtype must be 'float32' or 'float64', not 'float16'",)),
    ):
        with case(arguments):
            with fails(UsageError, *sentence):
                export_onnx(network_of(cell(4)), tmp_path / "n.onnx", **arguments)
            with fails(UsageError, "rnn.Network is needed, not a LSTM"):
                export_onnx(rnn.LSTM(4), tmp_path / "n.onnx")  # type: ignore[arg-type]
            assert not list(tmp_path.iterdir())


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with fails(UsageError, "pip install 'onnx>=1.16'"):
        export_onnx(network_of(rnn.LSTM(4)), tmp_path / "n.onnx")


# -- the command ---------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> rnn.Network:
    """Saved as model.safetensors in the folder where one is."""
    monkeypatch.chdir(tmp_path)
    network = network_of(rnn.LSTM(4), rnn.LSTM(4), reads="symbols")
    rnn.save(network, "model.safetensors")
    return network


def export(*arguments: str) -> int:
    return main(["export", "model.safetensors", *arguments])


def test_export_to_torch(model: rnn.Network, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        export("--to", "torch", "--out", "w.safetensors", "--prefix", "lstm.", "--output-prefix", "fc.") == 0
    )
    assert capsys.readouterr().out == (
        "wrote w.safetensors: lstm = torch.nn.LSTM(4, 4, num_layers=2), fc = torch.nn.Linear(4, 7)\n"
    )
    want = to_torch(model, "lstm.", "fc.")
    for name, array in load_file("w.safetensors").items():
        np.testing.assert_array_equal(array, want.pop(name))
    assert not want


def test_export_names_the_modules_as_their_keys_do(
    model: rnn.Network, capsys: pytest.CaptureFixture[str]
) -> None:
    for prefix, words in (("", "torch.nn.LSTM"), ("model.0.", "model.0 = torch.nn.LSTM")):
        with case(prefix, words):
            for _ in range(2):  # the second replaces what the first wrote
                assert export("--to", "torch", "--out", "w.safetensors", "--prefix", prefix) == 0
                assert f"w.safetensors: {words}(4, 4" in capsys.readouterr().out
            assert f"{prefix}weight_ih_l0" in load_file("w.safetensors")


def test_prefixes_that_no_module_loads() -> None:
    for prefixes in (("rnn",), ("..",), (".",), (5,), ("rnn.", "rnn."), ("", ""), ("rnn.", "a b.")):
        with case(prefixes), pytest.raises(UsageError, match="prefix"):
            to_torch(network_of(rnn.LSTM(4)), *prefixes)


def test_export_of_learned_states_to_torch(model: rnn.Network, capsys: pytest.CaptureFixture[str]) -> None:
    rnn.save(network_of(rnn.LSTM(4), initial_state="learned"), "model.safetensors")
    assert export("--to", "torch", "--out", "w.safetensors") == 0
    told = capsys.readouterr().out
    assert told.endswith("initial.h (1, 1, 4), to be given as h_0, initial.c (1, 1, 4), to be given as c_0\n")
    assert load_file("w.safetensors")["initial.c"].shape == (1, 1, 4)


def test_the_modules_that_export_names_load_the_file(
    torch: Any, model: rnn.Network, capsys: pytest.CaptureFixture[str]
) -> None:
    from safetensors.torch import load_file as load_tensors

    assert export("--to", "torch", "--out", "w.safetensors") == 0
    modules = torch.nn.ModuleDict()
    for line in capsys.readouterr().out.strip().partition(": ")[2].replace("), ", ")\n").splitlines():
        name, _, made = line.partition(" = ")
        modules[name] = eval(made, {"torch": torch})
    modules.load_state_dict(load_tensors("w.safetensors"))


def test_export_to_onnx(onnx: Any, model: rnn.Network, capsys: pytest.CaptureFixture[str]) -> None:
    assert export("--to", "onnx", "--out", "a.onnx") == 0
    assert capsys.readouterr().out == (
        "wrote a.onnx: x, initial_h0, initial_c0, initial_h1, initial_c1 -> "
        "logits, final_h0, final_c0, final_h1, final_c1\n"
    )
    export_onnx(model, "b.onnx")
    assert Path("a.onnx").read_bytes() == Path("b.onnx").read_bytes()
    assert export("--to", "onnx", "--out", "c.onnx", "--time", "3", "--batch", "2", "--initial", "zero") == 0
    assert "c.onnx: x -> logits, final_h0" in capsys.readouterr().out
    assert export("--to", "onnx", "--out", "e.onnx", "--lengths", "--initial", "zero") == 0
    assert "e.onnx: x, lengths -> logits, final_h0" in capsys.readouterr().out
    export_onnx(model, "d.onnx", time=3, batch=2, initial="zero")
    assert Path("c.onnx").read_bytes() == Path("d.onnx").read_bytes()


def test_export_of_a_cell_that_torch_has_not(model: rnn.Network, capsys: pytest.CaptureFixture[str]) -> None:
    rnn.save(network_of(rnn.GRU(4)), "model.safetensors")
    assert export("--to", "torch", "--out", "w.safetensors") == 2
    assert "GRUResetAfter" in capsys.readouterr().err
