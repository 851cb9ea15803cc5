"""Models as files: exact round trips; invalid files give one-line errors and use little memory."""

from __future__ import annotations

import copy
import random
import re
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.errors import ModelFileError, UsageError
from graphnet_rnn.formats.model_file import (
    MODELS,
    ModelFile,
    describe_model,
    has_same_equations,
    load_network,
    read_model_file,
)
from graphnet_rnn.installed import names_of
from graphnet_rnn.network.composed import Composed
from tests.graphnet_rnn.formats.resealed import ODD
from tests.graphnet_rnn.training.problems import Line
from tests.tables import case, leaves, require_rows

MOST = 5e6


class Bent(rnn.Model):
    """y = tanh(k · below(x)), a model that contains another model"""

    def __init__(self, below: Line, k: float = 1.0, values: Mapping[str, Array] | None = None) -> None:
        self.below, self.k = below, k
        self.declare_parameters({"scale": ((1,), rnn.initializers.constant(k))}, 0, "float32", values=values)

    def __graph__(self) -> gn.Graph:
        graph = self.below.__graph__()
        return gn.Graph([gn.tanh(self.parameters["scale"] * graph.outputs[0])], graph.inputs)


class Sum(rnn.Model):
    """y = Σ_l layer_l(x)"""

    def __init__(self, layers: Any) -> None:
        self.layers = layers
        self.declare_parameters({}, 0, "float32")

    def __graph__(self) -> gn.Graph:
        graphs = [layer.__graph__() for layer in self.layers]
        return gn.Graph([g.outputs[0] for g in graphs], [x for g in graphs for x in g.inputs])


class Reader(rnn.Model):
    """One step of a cell, with its own weights."""

    def __init__(self, cell: rnn.Cell, values: Mapping[str, Array] | None = None) -> None:
        dtype = np.dtype("float32")
        self.cell = cell.bind(3, "cell", 0, dtype, values)
        self.lay_out([self.cell.bound_weights], dtype)  # type: ignore[list-item]

    def __graph__(self) -> gn.Graph:
        x, *old = [gn.input((1, n), name=f"x{i}") for i, n in enumerate((3, *self.cell.widths))]
        return gn.Graph([self.cell.advance(x, tuple(old))[0]], [x, *old])


OWN: list[type[rnn.Model]] = [Line, Bent, Sum, Reader]
RBM, TRBM, RTRBM, Stack = rnn.energy.RBM, rnn.energy.TRBM, rnn.energy.RTRBM, rnn.energy.Stack
MAKE: dict[str, Callable[[], rnn.Model]] = {
    "Network": lambda: rnn.Network([rnn.LSTM(3), rnn.Elman(2)], 4, 5, loss="squared", skip=True, seed=3),
    "RBM": lambda: RBM(4, 3),
    "RBM of numbers": lambda: RBM(4, 3, visibles="gaussian", sigma=0.5, dtype="float64"),
    "TRBM": lambda: TRBM(4, 3),
    "RTRBM": lambda: RTRBM(4, 3, seed=2),
    "RecurrentRBM": lambda: rnn.energy.RecurrentRBM(
        rnn.Network([rnn.LSTM(2), rnn.Elman(3)], 4, 0, reads="vectors", initial_state="learned"), 2
    ),
    "Stack": lambda: Stack([RBM(5, 4), RBM(4, 3, seed=1)]),
    "Stack of temporal ones": lambda: Stack([TRBM(5, 4), RTRBM(4, 3)]),
    "HMM": lambda: rnn.HMM(3, 4, seed=1),
    "Controller": lambda: rnn.control.Controller([rnn.Elman(3), rnn.GRU(2)], output="tanh"),
    "RecurrentNADE": lambda: rnn.RecurrentNADE(rnn.Network([rnn.GRU(2)], 3, 0, reads="vectors"), 2),
    "RecurrentNADE without hidden units": lambda: rnn.RecurrentNADE(
        rnn.Network([rnn.Elman(2)], 3, 0, reads="vectors", initial_state="learned"), 0, seed=1
    ),
    "Seq2Seq": lambda: rnn.Seq2Seq.of(rnn.GRU(2), 3, 3, (3, 2)),
    "Seq2Seq without attention": lambda: rnn.Seq2Seq.of(rnn.LSTM(2), 3, 3, (3, 2), attention=None),
    "one's own": lambda: Line(3, seed=4),
    "one's own within one's own": lambda: Bent(Line(3), k=0.5),
    "one's own list of them": lambda: Sum([Line(3), Bent(Line(2)), RBM(2, 2)]),
    "one's own tuple of them": lambda: Sum((Line(3), Line(3, seed=1))),
    "one's own with a cell": lambda: Reader(rnn.LSTM(2)),
}  # fmt: skip
every = pytest.mark.parametrize("name", MAKE)


def made(name: str) -> rnn.Model:
    """A model with random weights; the tables of an HMM stay as they are."""
    model = MAKE[name]()
    if not isinstance(model, rnn.HMM):
        model.theta = np.random.default_rng(7).standard_normal(model.theta.size)
    return model


def test_every_model_has_a_row_and_can_be_loaded() -> None:
    kinds = set(leaves(rnn.Model)) - {Composed}  # functions make subclasses of it for users
    installed = {point.load() for point in names_of("models").values()}
    require_rows(kinds - set(MODELS.values()) - installed, "model_file.MODELS", "the class")
    require_rows(
        kinds - {type(make()) for make in MAKE.values()}, "MAKE in test_every_model.py", "a small one of it"
    )
    assert set(MODELS.values()) <= kinds


@every
def test_models_round_trip_through_files(name: str, tmp_path: Path) -> None:
    model = made(name)
    rnn.save(model, tmp_path / "a", {"epoch": 3})
    loaded = rnn.load(tmp_path / "a", OWN)
    rnn.save(loaded, tmp_path / "b", {"epoch": 3})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert type(loaded) is type(model)
    assert loaded.description() == model.description()
    assert list(loaded.parameters) == list(model.parameters)
    assert loaded.theta.tobytes() == model.theta.tobytes()
    assert loaded.theta.dtype == model.theta.dtype
    assert set(read_model_file(tmp_path / "a").weights()) == set(model.parameters | model.fixed)


def test_theta_has_all_parameters_in_order() -> None:
    for name in MAKE:
        with case(name):
            model = made(name)
            laid = model.theta.copy()
            model.theta = 2 * model.theta
            found = np.concatenate([node.value.ravel() for node in model.parameters.values()])
            assert np.array_equal(found, 2 * laid)
            with pytest.raises(UsageError, match=f"theta has {laid.size} numbers; an array of shape"):
                model.theta = np.zeros(laid.size + 1)
            assert np.array_equal(model.theta, 2 * laid)


def test_loaded_models_give_the_same_results(tmp_path: Path) -> None:
    for name in MAKE:
        with case(name):
            saved = saved_in(tmp_path, name)
            before, after = made(name).__graph__(), rnn.load(saved, OWN).__graph__()
            generator = np.random.default_rng(0)
            drawn = [(generator.random(x.shape), x.dtype) for x in before.inputs]
            arrays = [(array * (dtype.kind == "f")).astype(dtype) for array, dtype in drawn]
            found, again = (gn.compile(graph.outputs, graph.inputs)(*arrays) for graph in (before, after))
            for a, b in zip(found, again, strict=True):
                assert np.array_equal(a, b), name


def resealed(path: Path, change: Callable[[dict[str, Array], dict[str, Any]], None]) -> Path:
    """Rewrites the file with changed tensors or description, and a valid checksum."""
    file = read_model_file(path)
    tensors, description = dict(file.tensors), copy.deepcopy(dict(file.description))
    change(tensors, description)
    path.write_bytes(ModelFile(tensors, description).to_bytes())
    return path


def sentence(path: Path) -> str:
    """The one-line error for a bad file, raised without allocating much memory."""
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError) as caught:
            rnn.load(path, OWN)
        assert tracemalloc.get_traced_memory()[1] < MOST
    finally:
        tracemalloc.stop()
    said = str(caught.value)
    assert said.startswith(str(path))
    assert "\n" not in said
    assert len(said) < 1500
    return said


def saved_in(folder: Path, name: str) -> Path:
    rnn.save(made(name), folder / "m")
    return folder / "m"


def parts(described: Any) -> Iterator[dict[str, Any]]:
    """Yields all models in a description, itself first."""
    if isinstance(described, dict):
        if "model" in described:
            yield described
        for value in described.values():
            yield from parts(value)
    elif isinstance(described, list):
        for value in described:
            yield from parts(value)


def test_invalid_stored_settings_are_rejected(tmp_path: Path) -> None:
    for name, make in MAKE.items():
        with case(name):
            saved = saved_in(tmp_path, name)
            kind = type(make()).__name__
            for key in ("colour", "values", "initial"):
                resealed(saved, lambda tensors, said, key=key: said["model"].update({key: 1}))
                assert f"a {kind} has no setting {key!r}" in sentence(saved)
                resealed(saved, lambda tensors, said, key=key: said["model"].pop(key))
            resealed(saved, lambda tensors, said: said["model"].update({"model": "Nobody"}))
            assert "rnn.load(path, [Nobody])" in sentence(saved)
            for odd in (None, 3, [], {}, {"model": 7}, "Line"):
                resealed(saved, lambda tensors, said, odd=odd: said.update({"model": odd or {}}))
                sentence(saved)


@pytest.mark.slow
def test_missing_and_wrong_weights_are_rejected(tmp_path: Path) -> None:
    for name in MAKE:
        with case(name):
            saved = saved_in(tmp_path, name)
            content = saved.read_bytes()
            for weight, array in read_model_file(saved).tensors.items():
                longer, scalar = np.append(array.ravel(), 0).astype(array.dtype), np.zeros((), array.dtype)
                for other in (None, longer, scalar, array.astype(np.int64)):

                    def change(tensors: Any, said: Any, weight: str = weight, other: Any = other) -> None:
                        tensors.update({weight: other})
                        if other is None:
                            tensors.pop(weight)

                    saved.write_bytes(content)
                    resealed(saved, change)
                    said = sentence(saved)
                    assert all(part in said for part in weight.split(".")), "of a part, too, by its name"
            saved.write_bytes(content)
            resealed(saved, lambda tensors, said: tensors.update({"more": np.zeros(3, np.float32)}))
            assert "the names of its weights differ" in sentence(saved)


def test_huge_sizes_in_files_allocate_no_memory(tmp_path: Path) -> None:
    """Replaces each integer of a description, also in nested models, by 10⁹."""
    for name, make in MAKE.items():
        with case(name):
            saved = saved_in(tmp_path, name)
            content = saved.read_bytes()
            settings = [
                (i, key)
                for i, part in enumerate(parts(read_model_file(saved).description["model"]))
                for key, value in part.items()
                if type(value) is int and key not in ("seed", "graph_seed", "piece")
            ]
            assert settings or not isinstance(make(), (RBM, rnn.HMM, Line))
            for i, key in settings:

                def huge(tensors: Any, said: dict[str, Any], i: int = i, key: str = key) -> None:
                    list(parts(said["model"]))[i][key] = 10**9

                saved.write_bytes(content)
                resealed(saved, huge)
                sentence(saved)


def test_odd_settings_are_rejected_or_loaded_unchanged(tmp_path: Path) -> None:
    for name in MAKE:
        with case(name):
            saved = saved_in(tmp_path, name)
            content, generator, refused = saved.read_bytes(), random.Random(name), 0
            for key in [key for key in read_model_file(saved).description["model"] if key != "model"]:
                for odd in generator.sample(ODD, 8):
                    saved.write_bytes(content)
                    resealed(saved, lambda tensors, said, key=key, odd=odd: said["model"].update({key: odd}))
                    stored = read_model_file(saved).description["model"]
                    try:
                        loaded = rnn.load(saved, OWN)
                    except ModelFileError as error:
                        refused += 1
                        told = str(error)
                    else:
                        told = ""
                        assert loaded.description() == stored
                    assert "\n" not in told
            assert refused


def test_changed_equations_are_reported(tmp_path: Path) -> None:
    """Changed equations are reported for equal weights; changed weights alone are not."""
    for name, make in MAKE.items():
        with case(name):
            saved = saved_in(tmp_path, name)
            file = read_model_file(saved)
            assert len(file.description["equations"]) > 0
            assert has_same_equations(make(), file), "the weights are others"
            kind = type(make())
            if kind is rnn.Network:  # its equations are those of its cells (see test_model_file)
                continue

            def changed(self: rnn.Model, kind: Any = kind) -> gn.Graph:
                graph = kind.__graph__(self)
                outputs = [gn.sin(output) if output.dtype.kind == "f" else output for output in graph.outputs]
                return gn.Graph(outputs, graph.inputs)

            other = type(kind.__name__, (kind,), {"__graph__": changed, "__module__": __name__})
            says = f"the equations of {kind.__name__}, or constants in them, have changed"
            with pytest.warns(UserWarning, match=says) as caught:
                rnn.load(saved, [*OWN, other])
            assert caught[0].filename == __file__


def test_equation_digests_differ_between_models() -> None:
    seen: dict[tuple[Any, ...], str] = {}
    for name, make in MAKE.items():
        other = seen.setdefault(tuple(describe_model(make())["equations"]), name)
        assert other == name, (
            f"{name} and {other} in MAKE have the same equations and sizes: choose another size"
        )


class Forgetful(Line):
    def __init__(self, width: int, colour: str = "red") -> None:
        super().__init__(width)


class Holding(Line):
    def __init__(self, width: int, what: Any = None) -> None:
        self.what = what
        super().__init__(width)


def test_models_that_cannot_be_loaded_are_not_saved(tmp_path: Path) -> None:
    cases = [
        (Forgetful(2), "Forgetful does not store its argument 'colour', so a file could not recreate it"),
        (Holding(2, what=np.zeros(2)), "its setting what = an array of shape [2] cannot be stored in a file: JSON"),
        (rnn.LSTM(2), "save takes a model and a path, not LSTM(units=2)"),
        ({"w": np.zeros(2)}, "a class of your own must be a subclass of rnn.Model"),
    ]  # fmt: skip
    for model, words in cases:
        with case(model, words):
            with pytest.raises(UsageError, match=re.escape(words)):
                rnn.save(model, tmp_path / "m")
            assert not (tmp_path / "m").exists()


def test_load_network_rejects_other_models(tmp_path: Path) -> None:
    rnn.save(RBM(3, 2), tmp_path / "m")
    with pytest.raises(ModelFileError, match="holds a model RBM, not a network"):
        load_network(tmp_path / "m")


def test_reserved_argument_names_are_rejected() -> None:
    """The value of such an argument could not be read from a file."""
    for name in ("parts", "model", "theta", "settings", "description", "parameters", "fixed"):
        source = f"def __init__(self, {name}=3, seed=0, values=None): pass"
        members: dict[str, Any] = {}
        exec(source, members)
        with case(name), pytest.raises(UsageError, match=rf"Own\.__init__ has an argument '{name}'"):
            type("Own", (rnn.Model,), {"__init__": members["__init__"]})
