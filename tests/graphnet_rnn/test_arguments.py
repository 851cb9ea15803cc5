"""Every argument of the framework that cannot be meant is refused in a sentence that names it.

Each row is a call, the error, and what its message must hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet.errors import DtypeError, GraphnetError
from graphnet_rnn import settings
from graphnet_rnn.cell import initializers
from graphnet_rnn.data import Batches, Corpus, Vocabulary, read_text, standard_library_text
from graphnet_rnn.errors import CellError, DataError, UsageError
from graphnet_rnn.network.ctc import label_error_rate
from graphnet_rnn.network.norms import gradient_by_distance, weight_norms
from graphnet_rnn.network.running import run
from graphnet_rnn.network.unroll import Unrolled
from graphnet_rnn.optimizers.schedules import ExponentialDecay, Stepwise
from graphnet_rnn.text.evaluation import Evaluator
from graphnet_rnn.text.reading import cost_over_text, read
from graphnet_rnn.text.sampling import Sampler
from graphnet_rnn.training.early_stopping import EarlyStopping
from tests.tables import case

TEXT = "abc" * 30
VOCABULARY = Vocabulary("abc")


def network(**settings: Any) -> rnn.Network:
    """A small network that reads text."""
    made = rnn.Network([rnn.LSTM(2)], inputs=3, outputs=3, **settings)
    made.vocabulary = VOCABULARY
    return made


NET = network()


class Row(NamedTuple):
    call: Callable[[], Any]
    error: type[GraphnetError]
    parts: tuple[str, ...]


def assigned(name: str, value: Any) -> Callable[[], None]:
    return lambda: setattr(network(), name, value)


def with_weight(number: float, use: Callable[[rnn.Network], Any]) -> Callable[[], Any]:
    """What uses a network of which one weight is no finite number."""

    def call() -> Any:
        broken = network()
        broken.parameters["layer0.W_xi"].value[1, 0] = number
        return use(broken)

    return call


NETWORKS = [
    Row(lambda u=u: u(3), UsageError, (name, "Network", "3"))
    for name, u in {
        "Evaluator": Evaluator,
        "Sampler": Sampler,
        "Unrolled": lambda net: Unrolled(net, 2, 2, True, "given", 0, None, None),
        "run": lambda net: run(net, np.zeros((2, 1), int)),
        "read": lambda net: read(net, TEXT),
        "weight_norms": weight_norms,
        "cost_over_text": lambda net: cost_over_text(net, TEXT),
        "gradient_by_distance": lambda net: gradient_by_distance(net, None, None),
        "RTRL": rnn.online.RTRL,
        "TruncatedLSTM": rnn.online.TruncatedLSTM,
        "DynamicEvaluation": lambda net: rnn.online.DynamicEvaluation(net, None),
        "truncated": rnn.online.truncated,
        "FreshSequences": lambda net: rnn.tasks.FreshSequences(rnn.tasks.Addition(10), net),
        "summed_over_time": lambda net: rnn.tasks.summed_over_time(rnn.tasks.Addition(10), net, 2),
    }.items()
] + [
    Row(lambda: Evaluator(rnn.Network), UsageError, ("Evaluator", "its class")),
]  # fmt: skip

TASKS = [
    Row(lambda f=f: f("addition"), UsageError, (name, "Task", "'addition'"))
    for name, f in {
        "settings": rnn.tasks.settings,
        "elman": rnn.tasks.elman,
        "FreshSequences": rnn.tasks.FreshSequences,
        "momentum_settings": rnn.tasks.momentum_settings,
        "echo_state_weights": rnn.tasks.echo_state_weights,
        "summed_over_time": lambda task: rnn.tasks.summed_over_time(task, NET, 2),
        "zero_one_loss": lambda task: rnn.tasks.zero_one_loss(task, None, None),
    }.items()
]

SETTLED = [
    Row(assigned("vocabulary", Vocabulary("ab")), UsageError, ("vocabulary of 2", "3 symbols")),
    Row(assigned("vocabulary", "abc"), UsageError, ("vocabulary", "'abc'", "Vocabulary.of")),
    Row(assigned("vocabulary", 3), UsageError, ("vocabulary", "3")),
    Row(assigned("dropout", 5.0), UsageError, ("dropout", "5.0", "make another")),
    Row(assigned("loss", "nope"), UsageError, ("loss", "'nope'")),
    Row(assigned("layers", []), UsageError, ("layers", "[]")),
    Row(assigned("dtype", "int8"), UsageError, ("dtype", "'int8'")),
    Row(assigned("parameters", {}), UsageError, ("parameters", "{}")),
    Row(lambda: network().parameters.pop("output.b_o"), UsageError, ("'output.b_o'", ".value = array")),
    Row(lambda: network().parameters.__delitem__("output.b_o"), UsageError, ("'output.b_o'",)),
    Row(lambda: network().fixed.update(a=NET), UsageError, ("cannot be replaced",)),
    Row(assigned("theta", "abc"), UsageError, ("theta", "'abc'")),
    Row(assigned("theta", None), UsageError, ("theta", "None")),
    Row(assigned("theta", np.ma.ones(NET.theta.size)), DtypeError, ("theta", "masked")),
]

OF_A_BROKEN_MODEL = [
    Row(with_weight(number, use), UsageError, (who, "layer0.W_xi", str(number), "[1, 0]"))
    for number in (math.nan,)
    for who, use in {
        "Sampler": Sampler,
        "Evaluator": Evaluator,
        "run": lambda net: run(net, np.zeros((2, 1), int)),
        "Evaluator: ": lambda net: read(net, TEXT),
        "RTRL": rnn.online.RTRL,
        "save": lambda net: rnn.save(net, "/nowhere/at/all"),
    }.items()
]

TEXTS = [
    Row(lambda s=s: VOCABULARY.decode(s), DataError, ("decode: symbols", said))
    for s, said in (([-1], "-1"), ([1.7], "1.7"), ([5], "the symbol 5 is out of range: symbols are 0 ... 2"),
                    ("abc", "'abc'"), (None, "None"), ([[1]], "[1, 1]"))
] + [
    Row(lambda t=t: VOCABULARY.encode(t), DataError, ("encode: text", repr(t))) for t in (None, 3, b"")
] + [
    Row(lambda: Vocabulary(None), DataError, ("vocabulary", "None")),
    Row(lambda: Vocabulary(["a"]), DataError, ("vocabulary", "['a']")),
    Row(lambda: Vocabulary("a\ud800"), DataError, ("half of one", "\\ud800")),
    Row(lambda: Vocabulary.of(3), DataError, ("Vocabulary.of", "3")),
    Row(lambda: VOCABULARY.encode("d", unknown=0), DataError, ("unknown=0",)),
    Row(lambda: read(NET, None), UsageError, ("read: text", "None")),
    Row(lambda: read(NET, "a", context=3), UsageError, ("read: context", "3")),
    Row(lambda: cost_over_text(NET, 3), UsageError, ("cost_over_text: data", "3")),
    Row(lambda: cost_over_text(NET, TEXT, context="a"), UsageError, ("cost_over_text: context", "'a'")),
    Row(lambda: Evaluator(NET).characters(TEXT, "a"), UsageError, ("context", "'a'")),
    Row(lambda: Corpus([0], [0], [0], None), DataError, ("Corpus: vocabulary", "None")),
    Row(lambda: Corpus([0, 7], [0], [0], VOCABULARY), DataError, ("Corpus: train", "7", "0 ... 2")),
    Row(lambda: Corpus([0], None, [0], VOCABULARY), DataError, ("Corpus: valid", "None")),
    Row(lambda: Corpus.split(TEXT, valid="a"), DataError, ("validation ('a')",)),
    Row(lambda: Corpus.split("a\0b"[:2] and None), DataError, ("NoneType",)),
    Row(lambda: Batches(np.zeros(9), 2, 2), DataError, ("Batches: symbols", "float64")),
    Row(lambda: Batches("abcabcabc", 2, 2), DataError, ("Batches: symbols", "'abcabcabc'")),
    Row(lambda: Batches(None, 2, 2), DataError, ("Batches: symbols", "None")),
    Row(lambda: Batches(np.zeros((9, 1), int), 2, 2), DataError, ("Batches: symbols", "[9, 1]")),
    Row(lambda: Batches(np.ma.zeros(9, int), 2, 2), DtypeError, ("Batches: symbols", "masked")),
    Row(lambda: label_error_rate(3, [[1]]), DataError, ("label_error_rate: decoded", "3")),
    Row(lambda: label_error_rate([[1]], "a"), DataError, ("label_error_rate: targets", "'a'")),
    Row(lambda: label_error_rate([1], [[1]]), DataError, ("decoded of case 0", "1")),
    Row(lambda: label_error_rate([[1]], [[1.5]]), DataError, ("targets of case 0", "1.5")),
    Row(lambda: standard_library_text(-1), UsageError, ("standard_library_text: characters", "-1")),
]  # fmt: skip

NUMBERS = [
    Row(lambda: Sampler(NET).sample(2, temperature="a"), UsageError, ("temperature", "'a'")),
    Row(lambda: Sampler(NET).sample(2, temperature=np.ones(2)), UsageError, ("temperature", "array")),
    Row(lambda: EarlyStopping(memory="a"), UsageError, ("EarlyStopping: memory", "'a'")),
    Row(lambda: EarlyStopping(memory=math.nan), UsageError, ("EarlyStopping: memory", "nan")),
    Row(lambda: network().unroll(3, 2, random=5), UsageError, ("unroll: random", "gn.RandomSource", "5")),
    Row(lambda: rnn.Adam(groups=np.ones(3)), UsageError, ("Adam: groups", "an array of shape [3]")),
    Row(
        lambda: rnn.run(network(), [np.ones((3, 2)), np.ones((5, 2))]),
        DataError,
        ("run: inputs", "rnn.data.padded"),
    ),
    Row(lambda: EarlyStopping(patience=0), UsageError, ("EarlyStopping: patience", "0")),
    Row(lambda: EarlyStopping(tolerance="a"), UsageError, ("EarlyStopping: tolerance", "'a'")),
    Row(lambda: ExponentialDecay(after="a"), UsageError, ("ExponentialDecay: after", "'a'")),
    Row(lambda: ExponentialDecay([]), UsageError, ("ExponentialDecay: decay", "[]")),
    Row(lambda: Stepwise({0: 10**400}), UsageError, ("Stepwise", "finite number")),
    Row(lambda: rnn.Adam(rate=10**400), UsageError, ("Adam: rate", "1000")),
    Row(lambda: rnn.Adam(clip_norm=10**400), UsageError, ("Adam: clip_norm", "1000")),
    Row(lambda: initializers.sparse(connections=-1), UsageError, ("sparse: connections", "-1")),
    Row(lambda: initializers.thinned(initializers.normal(1), "a"), UsageError, ("thinned: kept", "'a'")),
    Row(lambda: initializers.reservoir("a"), UsageError, ("reservoir: radius", "'a'")),
    Row(lambda: initializers.reservoir(density=[]), UsageError, ("reservoir: density", "[]")),
    Row(lambda: rnn.HMM(2, 2, frequencies=10**400), UsageError, ("HMM: frequencies", "too large")),
    Row(lambda: rnn.GNN(frequencies="abc"), UsageError, ("GNN: frequencies", "'abc'")),
    Row(lambda: rnn.GNN(frequencies=[1, "a"]), UsageError, ("GNN: frequencies", "'a'")),
]

CHOICES = [
    Row(lambda: network(loss=np.array(["softmax", "ctc"])), UsageError, ("loss", "array")),
    Row(lambda: network(reads=np.array(["symbols"] * 2)), UsageError, ("reads", "array")),
    Row(lambda: network(initial_state=["zero"]), UsageError, ("initial_state", "['zero']")),
    Row(lambda: network(variational="no"), UsageError, ("variational", "True or False", "'no'")),
    Row(lambda: network(output_bias=1), UsageError, ("output_bias", "1")),
    Row(lambda: network(truncated="no"), UsageError, ("truncated", "'no'")),
    Row(lambda: network(skip=np.ones(2)), UsageError, ("skip", "array")),
    Row(lambda: network(dtype=None), DtypeError, ("None",)),
    Row(lambda: network(initial="a"), UsageError, ("Network: initial", "'a'")),
    Row(lambda: network(initial=3), UsageError, ("Network: initial", "3")),
    Row(lambda: rnn.energy.RBM(3, 2, initial="a"), UsageError, ("RBM: initial", "'a'")),
    Row(lambda: rnn.energy.RBM(3, 2, initial=3), UsageError, ("RBM: initial", "3")),
    Row(lambda: rnn.control.Controller(initial="a"), UsageError, ("Controller: initial", "'a'")),
    Row(lambda: rnn.LSTM(2, initial=3), CellError, ("LSTM: initial", "3")),
    Row(lambda: NET.unroll(2, 2, training="no"), UsageError, ("training", "'no'")),
]

ADDITION = rnn.tasks.Addition(10)
TRIALS = [
    Row(
        lambda a=a, v=v: rnn.tasks.FreshSequences(ADDITION, **{a: v}), UsageError,
        (f"FreshSequences: {a}", settings.shown(v)),
    )
    for a in ("batch", "gradient_batches", "test", "seed")
    for v in (1.5, "a", -1)
] + [
    Row(lambda: rnn.tasks.FreshSequences(ADDITION, steps=0), UsageError, ("FreshSequences: steps", "0")),
    Row(lambda: rnn.tasks.FreshSequences(ADDITION, threads=0), UsageError, ("Objective: threads", "0")),
] + [
    Row(lambda o=o: rnn.Training(o), UsageError, ("Training: optimizer must be an optimizer", settings.shown(o)))
    for o in ("adam", rnn.Adam, 3, np.ones(2))
]  # fmt: skip

THETA = np.zeros(3)
OPTIMIZERS = [
    Row(lambda: rnn.Adam().step(None, THETA, {}), UsageError, ("Adam.step: state", "lacks m", "init(theta")),
    Row(lambda: rnn.Adam().step(None, THETA, rnn.Momentum().init(THETA)), UsageError, ("Adam.step", "lacks")),
    Row(lambda: rnn.Adam().step(None, THETA, None), UsageError, ("Adam.step", "None")),
    Row(lambda: rnn.SGD().step(None, [0.0, 0.0], {}), UsageError, ("SGD.step: theta", "[0.0, 0.0]")),
    Row(lambda: rnn.HessianFree().step(None, np.zeros(3, int), {}), UsageError, ("HessianFree.step: theta",)),
    Row(lambda: rnn.LBFGS().step(None, THETA, {}), UsageError, ("LBFGS.step: state", "lacks")),
    Row(lambda: rnn.SGD().step(None, np.zeros((3, 1)), {}), UsageError, ("SGD.step: theta", "[3, 1]")),
    Row(
        lambda: rnn.SGD().step(None, THETA, {"m": THETA}),
        UsageError,
        ("SGD.step: state has m", "keeps nothing"),
    ),
    Row(lambda: rnn.SGD().step(None, THETA, {3: THETA}), UsageError, ("SGD.step: state has 3",)),
    Row(
        lambda: rnn.Momentum().step(None, THETA, {"v": [0.0] * 3}),
        UsageError,
        ("Momentum.step: v", "[0.0, 0.0"),
    ),
] + [
    Row(
        lambda o=o, s=s: o.step(None, THETA, s),
        UsageError,
        (f"{type(o).__name__}.step: ", *said, "init(theta"),
    )
    for o in (
        rnn.Adam(),
        rnn.Momentum(),
        rnn.HessianFree(),
        rnn.LBFGS(memory=2),
        rnn.NonlinearConjugateGradient(),
    )
    for s, said in (
        (
            o.init(np.zeros(4)),
            (" in state must be finite, of shape [", " and float64, which", "not float64 of shape ["),
        ),
        (
            {name: array.astype("float32") for name, array in o.init(THETA).items()},
            ("must be ", "not float32"),
        ),
    )
]

NO_PATHS = (None, "a\0b", "")
PATHS = [
    Row(lambda p=p: rnn.save(NET, p), UsageError, ("save: path",)) for p in NO_PATHS
] + [
    Row(lambda p=p: rnn.load(p), UsageError, ("load: path",)) for p in NO_PATHS
] + [
    Row(lambda p=p: read_text(p), UsageError, ("read_text: path",)) for p in NO_PATHS
] + [
    Row(lambda: rnn.load("file", classes=3), UsageError, ("load: classes", "3")),
    Row(lambda: rnn.load("file", classes=[int]), UsageError, ("load: classes", "int")),
    Row(lambda: rnn.save(NET, "file", notes="a"), UsageError, ("save: notes", "'a'")),
    Row(lambda: rnn.save(NET, "file", notes={"a": NET}), UsageError, ("save: notes", "Network")),
]  # fmt: skip


TABLES = {
    "networks": NETWORKS,
    "tasks": TASKS,
    "settled": SETTLED,
    "of a broken model": OF_A_BROKEN_MODEL,
    "texts": TEXTS,
    "numbers": NUMBERS,
    "choices": CHOICES,
    "trials": TRIALS,
    "optimizers": OPTIMIZERS,
    "paths": PATHS,
}


@pytest.mark.parametrize("table", TABLES)
def test_it_is_refused_in_a_sentence_that_names_it(table: str) -> None:
    for number, row in enumerate(TABLES[table]):
        with case(number, row.parts):
            with pytest.raises(row.error) as caught:
                row.call()
            missing = [part for part in row.parts if part not in str(caught.value)]
            assert not missing, f"{missing} not in\n{caught.value}"


def nested(cell: rnn.Cell, count: int = 100) -> rnn.Cell:
    for _ in range(count):
        cell = rnn.Residual(cell)
    return cell


BACK = nested(rnn.Bidirectional(rnn.GRU(3)))


def test_a_cell_of_many_cells_is_not_told_whole() -> None:
    cases = [
        lambda: rnn.Hyper(BACK, rnn.GRU(3)),
        lambda: rnn.Hyper(rnn.GRU(3), BACK),
        lambda: rnn.control.Controller([BACK]),
        lambda: rnn.online.truncated(rnn.Network([BACK], 6, 6)),
        lambda: rnn.Network([nested(rnn.GRU(3)), nested(rnn.LSTM(3))], 3, 3, share={1: 0}),
        lambda: rnn.Network([BACK], 6, 6).require_causal("it"),
        lambda: gradient_by_distance(rnn.Network([nested(rnn.Dense(3))], 3, 3), np.zeros((2, 2), int), None),
    ]  # fmt: skip
    for call in cases:
        with case(call):
            with pytest.raises(GraphnetError) as caught:
                call()
            assert max(map(len, str(caught.value).splitlines())) < 600


def test_minimize_starts_at_numbers() -> None:
    u = NET.unroll(2, 2)
    objective = rnn.Objective(u.cost, NET.parameters, [u.inputs, u.targets, *u.initial])
    for start, said in (("a", "'a'"), ([["a"]], "'a'"), (3.0, "shape")):
        with pytest.raises(UsageError, match=rf"minimize: start.*{said}"):
            rnn.minimize(objective, start=start)


def test_settings_that_were_changed_behind_a_networks_back_are_not_saved(tmp_path: Path) -> None:
    for change in (
        lambda net: net.layers.append(rnn.GRU(2)),
        lambda net: setattr(net.layers[0], "units", 5),
        lambda net: net.share.update({1: 0}),
    ):
        changed = network()
        change(changed)
        with pytest.raises(UsageError, match=r"save: the settings of .* were changed"):
            rnn.save(changed, tmp_path / "file")
        assert not list(tmp_path.iterdir())


def test_what_is_saved_can_be_loaded(tmp_path: Path) -> None:
    cut = rnn.online.truncated(network(dropout=0.5))
    cut.vocabulary = Vocabulary("xyz")
    cut.theta = np.ones(cut.theta.size)
    rnn.save(cut, tmp_path / "file", notes={"a": [1]})
    loaded = rnn.load(tmp_path / "file")
    assert loaded.settings() == cut.settings()
    assert loaded.vocabulary == cut.vocabulary
    np.testing.assert_array_equal(loaded.theta, cut.theta)
    cut.vocabulary = None
    assert cut.vocabulary is None


def test_what_is_meant_is_taken() -> None:
    assert rnn.Adam(rate=1, clip_norm=10**30).clip_norm == 1e30
    assert VOCABULARY.decode(iter([0, 1])) == VOCABULARY.decode(np.array([0, 1], np.uint8)) == "ab"
    assert VOCABULARY.decode([]) == ""
    assert label_error_rate([[1, 2]], [np.array([1, 3, -1])]) == 0.5
    assert len(list(Sampler(NET).sample(3, temperature=np.float32(0.5)))) == 3
    joined = NET.parameters | NET.fixed
    assert joined.pop("output.b_o") is NET.parameters["output.b_o"]
