"""Every invalid argument is rejected with an error that names it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from graphnet.errors import DtypeError, GraphnetError
from graphnet_rnn import settings
from graphnet_rnn.cell import initializers
from graphnet_rnn.data import Batches, Corpus, Vocabulary, read_text
from graphnet_rnn.errors import CellError, DataError, UsageError
from graphnet_rnn.network.ctc import label_error_rate
from graphnet_rnn.network.norms import gradient_by_distance, weight_norms
from graphnet_rnn.network.running import run
from graphnet_rnn.optimizers.schedules import ExponentialDecay, Stepwise
from graphnet_rnn.text.evaluation import Evaluator
from graphnet_rnn.text.reading import cost_over_text, read
from graphnet_rnn.text.sampling import Sampler
from graphnet_rnn.training.settings import EarlyStopping
from tests.tables import case

TEXT = "abc" * 30
VOCABULARY = Vocabulary("abc")


def network(**settings: Any) -> rnn.Network:
    made = rnn.Network([rnn.LSTM(2)], inputs=3, outputs=3, **settings)
    made.vocabulary = VOCABULARY
    return made


NET, ADDITION = network(), rnn.tasks.Addition(10)
BROKEN = network()
BROKEN.parameters["layer0.W_xi"].value[1, 0] = math.nan
THETA = np.zeros(3)
#: What takes a network, by what it is called in the message.
TAKE_NETWORKS: dict[str, Callable[[Any], Any]] = {
    "Evaluator": Evaluator,
    "Sampler": Sampler,
    "run": lambda net: run(net, np.zeros((2, 1), int)),
    "read": lambda net: read(net, TEXT),
    "weight_norms": weight_norms,
    "cost_over_text": lambda net: cost_over_text(net, TEXT),
    "gradient_by_distance": lambda net: gradient_by_distance(net, None, None),
    "RTRL": rnn.online.RTRL,
    "TruncatedLSTM": rnn.online.TruncatedLSTM,
    "DynamicEvaluation": lambda net: rnn.online.DynamicEvaluation(net, None),
    "truncated": rnn.online.truncated,
    "FreshSequences": lambda net: rnn.tasks.FreshSequences(ADDITION, net),
    "summed_over_time": lambda net: rnn.tasks.summed_over_time(ADDITION, net, 2),
    "save": lambda net: rnn.save(net, "/nowhere/at/all"),
}
TAKE_TASKS: dict[str, Callable[[Any], Any]] = {
    "settings": rnn.tasks.settings,
    "elman": rnn.tasks.elman,
    "FreshSequences": rnn.tasks.FreshSequences,
    "momentum_settings": rnn.tasks.momentum_settings,
    "echo_state_weights": rnn.tasks.echo_state_weights,
    "summed_over_time": lambda task: rnn.tasks.summed_over_time(task, NET, 2),
    "zero_one_loss": lambda task: rnn.tasks.zero_one_loss(task, None, None),
}
#: A call, the error, and what its message must hold.
NETWORKS: list[Any] = [
    *((lambda u=u: u(3), UsageError, (name, "Network", "3")) for name, u in TAKE_NETWORKS.items() if name != "save"),
    *((lambda u=u: u("addition"), UsageError, (name, "Task", "'addition'")) for name, u in TAKE_TASKS.items()),
    *(
        (lambda u=TAKE_NETWORKS[name]: u(BROKEN), UsageError, (name, "layer0.W_xi", "nan", "[1, 0]"))
        for name in ("Sampler", "Evaluator", "run", "RTRL", "save")
    ),
    (lambda: Evaluator(rnn.Network), UsageError, ("Evaluator", "its class")),
]  # fmt: skip


def assigned(name: str, value: Any) -> Callable[[], None]:
    return lambda: setattr(network(), name, value)


SETTLED = [
    (assigned("vocabulary", Vocabulary("ab")), UsageError, ("vocabulary of 2", "3 symbols")),
    (assigned("vocabulary", "abc"), UsageError, ("vocabulary", "'abc'", "Vocabulary.of")),
    (assigned("dropout", 5.0), UsageError, ("dropout", "5.0", "create a new network")),
    (assigned("dtype", "int8"), UsageError, ("dtype", "'int8'")),
    (assigned("parameters", {}), UsageError, ("parameters", "{}")),
    (lambda: network().parameters.pop("output.b_o"), UsageError, ("'output.b_o'", ".value = array")),
    (lambda: network().fixed.update(a=NET), UsageError, ("cannot be replaced",)),
    (assigned("theta", "abc"), UsageError, ("theta", "'abc'")),
    (assigned("theta", np.ma.ones(NET.theta.size)), DtypeError, ("theta", "masked")),
]

#: Calls with a masked array, whose mask NumPy would drop.
MASKED = np.ma.masked_array(np.ones((4, 1, 1)), np.arange(4).reshape(4, 1, 1) % 2)
SQUARED = rnn.Network([rnn.Elman(2)], 1, 1, "squared")
TAKE_MASKED: dict[str, Callable[[], Any]] = {
    "LongSequence": lambda: rnn.LongSequence(SQUARED).feed(MASKED.data, MASKED),
    "Stream": lambda: rnn.Stream(rnn.online.RTRL(SQUARED), MASKED.data, MASKED),
    "Stream, weights": lambda: rnn.Stream(
        rnn.online.RTRL(SQUARED), MASKED.data, MASKED.data, weights=MASKED[:, 0, 0]
    ),
    "frame_accuracy": lambda: rnn.data.frame_accuracy(MASKED[..., 0], MASKED.data[..., 0]),
    "label_error_rate": lambda: label_error_rate([np.ma.ones(1, int)], [[1]]),
    "label_error_rate, weights": lambda: label_error_rate([[1]], [[1]], np.ma.ones(1)),
    "initializers.array": lambda: initializers.array(MASKED),
    "run, states": lambda: rnn.run(SQUARED, MASKED.data, [np.ma.ones((1, 2))]),
    "run, inputs": lambda: rnn.run(SQUARED, MASKED, lengths=[3]),
    "HMM": lambda: rnn.HMM(2, 2, frequencies=np.ma.ones(2)),
    "smoothed": lambda: rnn.tasks.smoothed(np.ma.ones(2), 3),
    "regret": lambda: rnn.tasks.regret(np.ma.ones(2), rnn.tasks.Drawn("ab", np.ones(2), np.ones(2, bool))),
    "zero_one_loss": lambda: rnn.tasks.zero_one_loss(ADDITION, np.ma.ones((30, 2, 1)), np.ones((30, 2, 1))),
    "probability": lambda: rnn.NGrams("abcabc", order=2).probability(np.ma.zeros((1, 2), int)),
    "trace": lambda: gn.trace(np.ma.ones((2, 2))),
    "attention_map": lambda: viz.attention_map(np.ma.ones((2, 2))),
}

TEXTS = [
    (lambda s=s: VOCABULARY.decode(s), DataError, ("decode: symbols", said))
    for s, said in (([-1], "-1"), ([1.7], "1.7"), ([5], "symbols must be 0 ... 2; got 5"),
                    ("abc", "'abc'"), (None, "None"), ([[1]], "[1, 1]"))
] + [
    (lambda t=t: VOCABULARY.encode(t), DataError, ("encode: text", repr(t))) for t in (None, 3, b"")
] + [
    (lambda: Vocabulary(None), DataError, ("Vocabulary: characters", "None")),
    (lambda: Vocabulary.of(3), DataError, ("Vocabulary.of", "3")),
    (lambda: read(NET, None), UsageError, ("read: text", "None")),
    (lambda: read(NET, "a", context=3), UsageError, ("read: context", "3")),
    (lambda: cost_over_text(NET, 3), UsageError, ("cost_over_text: data", "3")),
    (lambda: Corpus([0], [0], [0], None), DataError, ("Corpus: vocabulary", "None")),
    (lambda: Corpus([0, 7], [0], [0], VOCABULARY), DataError, ("Corpus: train", "7", "0 ... 2")),
    (lambda: Corpus.split(TEXT, valid="a"), DataError, ("got 'a'",)),
    (lambda: Batches(np.zeros(9), 2, 2), DataError, ("Batches: symbols", "float64")),
    (lambda: Batches(np.ma.zeros(9, int), 2, 2), DtypeError, ("Batches: symbols", "masked")),
    (lambda: rnn.data.write_midi("m.mid", np.ma.zeros((3, 88))), DtypeError, ("write_midi: roll", "masked")),
    *((of, DtypeError, ("masked",)) for of in TAKE_MASKED.values()),
    (lambda: label_error_rate(3, [[1]]), DataError, ("label_error_rate: decoded", "3")),
    (lambda: label_error_rate([[1]], [[1]], [-1]), DataError, ("label_error_rate: weights", "at least 0")),
    (lambda: label_error_rate([[1]], [[1]], [np.nan]), DataError, ("label_error_rate: weights", "finite")),
    (lambda: rnn.complete(NET, pattern=5), UsageError, ("complete: pattern", "5")),
] + [
    (lambda at=at: rnn.Warmup(5).then(0.1, at=at), UsageError, ("start", repr(at))) for at in (-1, 2.5, True, "2")
] + [
    (lambda: label_error_rate([[1]], [[1.5]]), DataError, ("targets of case 0", "1.5")),
]  # fmt: skip

VALUES = [
    (lambda: Sampler(NET).sample(2, temperature="a"), UsageError, ("temperature", "'a'")),
    (lambda: EarlyStopping(memory="a"), UsageError, ("EarlyStopping: memory", "'a'")),
    (lambda: network().unroll(3, 2, random=5), UsageError, ("unroll: random", "gn.RandomSource", "5")),
    (lambda: rnn.Adam(groups=np.ones(3)), UsageError, ("Adam: groups", "an array of shape [3]")),
    (lambda: rnn.run(NET, [np.ones((3, 2)), np.ones((5, 2))]), DataError, ("run: inputs", "rnn.data.padded")),
    (lambda: ExponentialDecay(after="a"), UsageError, ("ExponentialDecay: after", "'a'")),
    (lambda: Stepwise({0: 10**400}), UsageError, ("Stepwise", "finite number")),
    (lambda: initializers.sparse(connections=-1), UsageError, ("sparse: connections", "-1")),
    (lambda: initializers.thinned(initializers.normal(1), "a"), UsageError, ("thinned: kept", "'a'")),
    (lambda: initializers.reservoir("a"), UsageError, ("reservoir: radius", "'a'")),
    (lambda: rnn.GNN(frequencies=[1, "a"]), UsageError, ("GNN: frequencies", "'a'")),
    (lambda: network(loss=np.array(["softmax", "ctc"])), UsageError, ("loss", "array")),
    (lambda: network(initial_state=["zero"]), UsageError, ("initial_state", "['zero']")),
    (lambda: network(dtype=None), DtypeError, ("None",)),
    (lambda: network(initial="a"), UsageError, ("Network: initial", "'a'")),
    (lambda: rnn.control.Controller(initial="a"), UsageError, ("Controller: initial", "'a'")),
    (lambda: rnn.LSTM(2, initial=3), CellError, ("LSTM: initial", "3")),
    *(
        (lambda a=a: rnn.tasks.FreshSequences(ADDITION, **{a: 1.5}), UsageError, (f"FreshSequences: {a}", "1.5"))
        for a in ("batch", "gradient_batches", "test", "seed")
    ),
    (lambda: rnn.tasks.FreshSequences(ADDITION, steps=0), UsageError, ("FreshSequences: steps", "0")),
    *(
        (lambda o=o: rnn.Training(o), UsageError, ("Training: optimizer must be an optimizer", settings.shown(o)))
        for o in ("adam", rnn.Adam, np.ones(2))
    ),
]  # fmt: skip


def step(optimizer: Any, theta: Any, state: Any) -> Callable[[], Any]:
    return lambda: optimizer.step(None, theta, state)


OTHERS, UNROLLED = rnn.Momentum().init(THETA), NET.unroll(2, 2)
FED = [UNROLLED.inputs, UNROLLED.targets, *UNROLLED.initial]
OBJECTIVE = rnn.Objective(UNROLLED.cost, NET.parameters, FED)
OPTIMIZERS: list[Any] = [
    (step(rnn.Adam(), THETA, OTHERS), UsageError, ("Adam.step: state", "lacks m", "init(theta")),
    (step(rnn.SGD(), [0.0, 0.0], {}), UsageError, ("SGD.step: theta", "[0.0, 0.0]")),
    (step(rnn.HessianFree(), np.zeros(3, int), {}), UsageError, ("HessianFree.step: theta",)),
    (step(rnn.LBFGS(), THETA, {}), UsageError, ("LBFGS.step: state", "lacks")),
    (step(rnn.SGD(), THETA, {3: THETA}), UsageError, ("SGD.step: state has 3", "needs nothing")),
    (step(rnn.Momentum(), THETA, {"v": [0.0] * 3}), UsageError, ("Momentum.step: v", "[0.0, 0.0")),
    (lambda: rnn.minimize(OBJECTIVE, start=[["a"]]), UsageError, ("minimize: start", "'a'")),
    (lambda: rnn.minimize(OBJECTIVE, start=3.0), UsageError, ("minimize: start", "shape")),
]
for kind in (rnn.Adam, rnn.Momentum, rnn.HessianFree, rnn.LBFGS, rnn.NonlinearConjugateGradient):
    said, longer = f"{kind.__name__}.step: ", kind().init(np.zeros(4))
    shape = (said, " in state must be finite, of shape [", "not float64 of shape [", "init(theta")
    OPTIMIZERS.append((step(kind(), THETA, longer), UsageError, shape))
    narrow = {name: array.astype("float32") for name, array in kind().init(THETA).items()}
    OPTIMIZERS.append((step(kind(), THETA, narrow), UsageError, (said, "must be ", "not float32")))

PATHS: list[Any] = [
    *(
        (lambda p=p, f=f: f(p), UsageError, (f"{name}: path",))
        for name, f in {"save": lambda p: rnn.save(NET, p), "load": rnn.load, "read_text": read_text}.items()
        for p in (None, "a\0b", "")
    ),
    (lambda: rnn.load("file", classes=3), UsageError, ("load: classes", "3")),
    (lambda: rnn.load("file", classes=[int]), UsageError, ("load: classes", "int")),
    (lambda: rnn.save(NET, "file", notes="a"), UsageError, ("save: notes", "'a'")),
    (lambda: rnn.save(NET, "file", notes={"a": NET}), UsageError, ("save: notes", "Network")),
]
TABLES = {
    "networks": NETWORKS, "settled": SETTLED, "texts": TEXTS, "values": VALUES, "optimizers": OPTIMIZERS,
    "paths": PATHS,
}  # fmt: skip


@pytest.mark.parametrize("table", TABLES)
def test_invalid_arguments_are_rejected_by_name(table: str) -> None:
    for number, (call, error, parts) in enumerate(TABLES[table]):
        with case(number, parts):
            with pytest.raises(error) as caught:
                call()
            missing = [part for part in parts if part not in str(caught.value)]
            assert not missing, f"{missing} not in\n{caught.value}"


def test_deeply_nested_cells_are_shortened_in_errors() -> None:
    def nested(cell: rnn.Cell) -> rnn.Cell:
        for _ in range(100):
            cell = rnn.Residual(cell)
        return cell

    back = nested(rnn.Bidirectional(rnn.GRU(3)))
    for call in (
        lambda: rnn.Hyper(back, rnn.GRU(3)),
        lambda: rnn.Hyper(rnn.GRU(3), back),
        lambda: rnn.control.Controller([back]),
        lambda: rnn.online.truncated(rnn.Network([back], 6, 6)),
        lambda: rnn.Network([nested(rnn.GRU(3)), nested(rnn.LSTM(3))], 3, 3, share={1: 0}),
        lambda: rnn.Network([back], 6, 6).require_causal("it"),
        lambda: gradient_by_distance(rnn.Network([nested(rnn.Dense(3))], 3, 3), np.zeros((2, 2), int), None),
    ):
        with case(call), pytest.raises(GraphnetError) as caught:
            call()
        assert max(map(len, str(caught.value).splitlines())) < 600


def test_settings_changed_after_construction_are_not_saved(tmp_path: Path) -> None:
    longer, wider, sharing = network(), network(), network()
    longer.layers.append(rnn.GRU(2))
    wider.layers[0].units = 5
    sharing.share.update({1: 0})
    for changed in (longer, wider, sharing):
        with pytest.raises(UsageError, match=r"save: the settings of .* were changed"):
            rnn.save(changed, tmp_path / "file")
        assert not list(tmp_path.iterdir())


def test_equivalent_arguments_are_accepted() -> None:
    assert rnn.Adam(rate=1, clip_norm=10**30).clip_norm == 1e30
    assert VOCABULARY.decode(iter([0, 1])) == VOCABULARY.decode(np.array([0, 1], np.uint8)) == "ab"
    assert VOCABULARY.decode([]) == ""
    assert label_error_rate([[1, 2]], [np.array([1, 3, -1])]) == 0.5
    assert len(list(Sampler(NET).sample(3, temperature=np.float32(0.5)))) == 3
    joined = NET.parameters | NET.fixed
    assert joined.pop("output.b_o") is NET.parameters["output.b_o"]


def test_names_of_other_libraries_are_explained() -> None:
    for call, says in (
        (
            lambda: rnn.Adam(lr=0.1),
            r"Adam\(\) got an unexpected keyword argument 'lr'; here it is called 'rate'",
        ),
        (lambda: rnn.LSTM(hidden_size=3), r"LSTM\(\) .*'hidden_size'; here it is called 'units'"),
        (lambda: rnn.Training(num_epochs=3), r"Training\(\) .*; here it is called 'epochs'"),
        (lambda: rnn.Network([], input_size=3), r"Network\(\) .*; here it is called 'inputs'"),
        (lambda: rnn.Arrays(None, batch_size=3), r"Arrays\(\) .*; here it is called 'batch'"),
        (lambda: rnn.Warmup(stepss=3), r"Warmup\(\) .*; did you mean 'steps'\?"),
        (lambda: rnn.LSTM(3, bidirectional=True), r"wrap the cell: rnn\.Bidirectional\(cell\)"),
        (lambda: rnn.Network([], 2, 2, num_layers=2), "one cell for each layer"),
        (lambda: EarlyStopping(wait=3), r"EarlyStopping\(\) .*'wait'; it has memory, tolerance, patience"),
    ):
        with case(says), pytest.raises(TypeError, match=says):
            call()
