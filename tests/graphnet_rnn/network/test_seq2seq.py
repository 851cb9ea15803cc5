"""Seq2Seq matches a model composed by hand; its search matches enumeration."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet_rnn.errors import DataError, UsageError
from tests.tables import case

RANDOM = np.random.default_rng(0)
SOURCES = [RANDOM.integers(0, 4, n).tolist() for n in (1, 4, 2, 3, 4, 1, 3)]
TARGETS = [RANDOM.integers(0, 3, n).tolist() for n in (0, 3, 1, 2, 3, 2, 1)]
KINDS: dict[str, Any] = {
    "additive": {},
    "dot": {"attention": "dot"},
    "two layers": {"layers": 2},
    "without attention": {"attention": None},
    "LSTMs without attention": {"cell": rnn.LSTM(3), "attention": None, "layers": 2},
}


def model_of(name: str, scale: float = 1.0) -> rnn.Seq2Seq:
    how = {"cell": rnn.GRU(3), **KINDS[name]}
    model = rnn.Seq2Seq.of(how.pop("cell"), inputs=4, outputs=3, longest=(4, 3), seed=1, **how)
    model.theta = scale * np.random.default_rng(2).standard_normal(model.theta.size)
    return model


def by_hand(model: rnn.Seq2Seq, source: list[int], target: list[int]) -> tuple[float, np.ndarray | None]:
    """ln p of one case without padding, and its attention weights."""
    e = model.encoder.unroll(len(source), 1, initial="zero", training=False)
    attends = any(isinstance(cell, rnn.Attention) for cell in model.decoder.layers)
    first: Any = list(e.final)
    if attends:  # places after the end of the source are unused
        width, places = e.hidden[-1].shape[2], model.longest[0]
        filled = gn.concatenate(
            [e.hidden[-1], gn.fill(7.0, (places - len(source), 1, width), "float32")], axis=0
        )
        first = rnn.attention_memory(filled, gn.constant(np.array([len(source)])))
    d = model.decoder.unroll(len(target) + 1, 1, initial=first, training=False)
    nodes = [gn.sum(d.losses), *([d.course("attention")] if attends else [])]
    arrays = [np.array([source]).T, np.array([[3, *target]]).T, np.array([[*target, 3]]).T]
    found = gn.compile(nodes, [e.inputs, d.inputs, d.targets])(*arrays)
    return -float(found[0]), found[1][:, 0] if attends else None


def test_probabilities_match_the_networks_run_by_hand() -> None:
    for name in KINDS:
        model = model_of(name)
        found = model.log_probabilities(SOURCES, TARGETS)
        for n, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
            with case(name, n):
                expected, shares = by_hand(model, source, target)
                assert found[n] == pytest.approx(expected, rel=1e-4)
                if shares is not None:
                    steps = len(target) + 1
                    given = model.attention(SOURCES, TARGETS)[:steps, n]
                    np.testing.assert_allclose(given, shares, atol=1e-5)
        (alone,) = model.log_probabilities(SOURCES[3:4], TARGETS[3:4])
        assert alone == pytest.approx(found[3], rel=1e-5)


def test_wide_search_finds_the_likeliest_target() -> None:
    every = [list(each) for n in range(4) for each in itertools.product(range(3), repeat=n)]
    for name in KINDS:
        model = model_of(name, scale=1.5)
        wide = model.generate(SOURCES, width=60)
        for n, source in enumerate(SOURCES):
            with case(name, n):
                log_p = model.log_probabilities([source] * len(every), every)
                assert wide[n] == every[int(log_p.argmax())]


def test_greedy_search_takes_the_likeliest_symbol() -> None:
    """Greedy output matches a decoder with feedback, up to the end symbol."""
    for name in KINDS:
        model = model_of(name, scale=1.5)
        d = model.unroll(len(SOURCES), feedback="likeliest", training=False)
        inputs = {node.name: node for node in gn.Graph([d.logits]).inputs}
        arrays = model.arrays(SOURCES, TARGETS)
        predict = gn.compile([gn.argmax(d.logits)], [inputs[each] for each in ("read", "length", "before")])
        (written,) = predict(arrays["read"], arrays["length"], arrays["before"][:1])
        for n, found in enumerate(model.generate(SOURCES)):
            with case(name, n):
                ends = [*np.flatnonzero(written[:, n] == 3).tolist(), 3]
                assert found == written[: ends[0], n].tolist()


def test_many_cases_are_decoded_in_parts() -> None:
    model = model_of("dot")
    sources, targets = SOURCES * 20, TARGETS * 20
    assert model.generate(sources, width=2) == model.generate(SOURCES, width=2) * 20
    expected = np.tile(model.log_probabilities(SOURCES, TARGETS), 20)
    np.testing.assert_allclose(model.log_probabilities(sources, targets), expected, rtol=1e-5)


def test_seq2seq_learns_and_is_saved_and_exported(tmp_path: Path) -> None:
    """Learns to reverse words; an exported model writes the same in another runtime."""
    onnxruntime = pytest.importorskip("onnxruntime")
    words = [list(each) for n in (1, 2, 3) for each in itertools.product(range(4), repeat=n)]
    model = rnn.Seq2Seq.of(rnn.GRU(24), inputs=4, outputs=4, longest=(3, 3))
    problem = rnn.GraphCases(model, model.arrays(words, [word[::-1] for word in words]), batch=12, valid=None)
    rnn.Trainer(problem, rnn.Training(rnn.Adam(0.02, clip_norm=1.0), epochs=40, stopping=None)).run()
    assert model.generate(words) == [word[::-1] for word in words]
    rnn.save(model, tmp_path / "m.safetensors")
    loaded = rnn.load(tmp_path / "m.safetensors")
    assert isinstance(loaded, rnn.Seq2Seq)
    assert loaded.generate(words[-9:], width=3) == model.generate(words[-9:], width=3)

    def equations(n: int) -> tuple[Any, Any]:
        d = model.unroll(n, feedback="likeliest", training=False)
        outputs = {"written": gn.argmax(d.logits)}
        return outputs, {node.name: node for node in gn.Graph([d.logits]).inputs}

    gn.export_onnx(equations, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    arrays = model.arrays(words, words)
    feed = {"read": arrays["read"], "length": arrays["length"], "before": arrays["before"][:1]}
    (written,) = session.run(None, feed)
    assert [
        [s for s in row.tolist() if s != model.end][: len(w)] for row, w in zip(written.T, words, strict=True)
    ] == [word[::-1] for word in words]


def test_invalid_arguments_are_rejected() -> None:
    gru, attention = rnn.GRU(3), rnn.Attention(rnn.GRU(3), memory=3, places=4)
    encoder, decoder = rnn.Network([gru], 4, 0), rnn.Network([attention], 4, 4)
    model = rnn.Seq2Seq(encoder, decoder, (4, 3))
    numbers = rnn.Seq2Seq(rnn.Network([gru], 2, 0, reads="vectors"), rnn.Network([gru], 4, 4), (4, 3))
    single = numbers.log_probabilities([np.ones((2, 2), "float32")], [[0]])
    assert numbers.log_probabilities([np.ones((2, 2))], [[0]]) == single
    assert numbers.generate([[[1, 1], [1, 1]]]) == numbers.generate([np.ones((2, 2), "float32")])
    for make, error, said in (
        (lambda: rnn.Seq2Seq(decoder, decoder, (4, 3)), UsageError, "encoder must have outputs=0, not 4"),
        (
            lambda: rnn.Seq2Seq(encoder, encoder, (4, 3)),
            UsageError,
            "decoder must read and write the same symbols",
        ),
        (lambda: rnn.Seq2Seq(encoder, decoder, 4), UsageError, "longest"),
        (lambda: rnn.Seq2Seq.of(rnn.GRU(4), 3, 2, longest=4), UsageError, "Seq2Seq: longest"),
        (
            lambda: rnn.Seq2Seq(encoder, rnn.Network([rnn.GRU(4)], 3, 4), (3, 3)),
            UsageError,
            "the same symbols",
        ),
        (lambda: model.generate([1, 2]), DataError, "sources must be a list of sequences"),
        (lambda: rnn.Seq2Seq(encoder, decoder, (4, 3, 2)), UsageError, "longest must be two lengths"),
        (
            lambda: rnn.Seq2Seq(encoder, decoder, (5, 3)),
            UsageError,
            "memory=3, .* and places=5, .* not 3 and 4",
        ),
        (
            lambda: rnn.Seq2Seq(encoder, rnn.Network([rnn.GRU(4)], 4, 4), (4, 3)),
            UsageError,
            r"\[3\] and \[4\]",
        ),
        (lambda: model.arrays([[0], [1]], [[0]]), DataError, "as many targets as sources; got 1 and 2"),
        (
            lambda: model.arrays([[0]], [[0, 1, 2, 0]]),
            DataError,
            "target 0 must have at most 3 symbols in 0 ... 2",
        ),
        (lambda: model.arrays([[0]], [[3]]), DataError, r"not \[3\]"),
        (lambda: model.arrays([[0]], [[1.7]]), DataError, r"not \[1.7\]"),
        (lambda: model.arrays([[0]], [[np.nan]]), DataError, r"not \[nan\]"),
        (lambda: model.arrays([[0]], [[None]]), DataError, r"not \[None\]"),
        (lambda: model.arrays([[0]], [["1"]]), DataError, r"not \['1'\]"),
        (
            lambda: model.arrays([[0]], [np.ma.masked_array([1, 2], [0, 1])]),
            gn.DtypeError,
            "target 0 cannot take",
        ),
        (lambda: model.generate([[0] * 5]), DataError, "source 0 has 5 steps, more than longest, 4"),
        (lambda: model.generate([[4]]), DataError, "sources must be symbols in 0 ... 3"),
        (lambda: model.generate("abc"), DataError, "sources must be a list of sequences"),
        (lambda: model.generate([[0]], width=0), UsageError, "width"),
        (
            lambda: rnn.Seq2Seq.of(rnn.Dense(4), 4, 2, (4, 3), attention=None),
            UsageError,
            "its cells have none",
        ),
        (lambda: numbers.generate([np.full((2, 2), np.nan)]), DataError, "source 0 .* nan"),
        (
            lambda: numbers.generate([np.ones((2, 3))]),
            DataError,
            r"source 0 must have the shape \(steps, 2\)",
        ),
        (lambda: model_of("without attention").attention([[0]], [[0]]), UsageError, "no rnn.Attention"),
    ):
        with case(said), pytest.raises(error, match=said):  # type: ignore[arg-type]
            make()  # type: ignore[no-untyped-call]
