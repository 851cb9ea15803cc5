"""Networks composed: nodes as inputs, feedback, attention."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from graphnet_rnn.errors import UsageError
from tests.tables import case as named

TIME, BATCH = 4, 3
DRAW = np.random.default_rng(0)


def net(cells: list[rnn.Cell], inputs: int, outputs: int, **how: Any) -> rnn.Network:
    return rnn.Network(cells, inputs, outputs, **{"reads": "vectors", "dtype": "float64", **how})


def test_one_network_reads_the_outputs_of_another() -> None:
    """Outputs, final states and lengths of the first network, against running both by hand."""
    one = net([rnn.GRU(3)], 2, 5, loss="squared")
    other = net([rnn.LSTM(3), rnn.GRU(2)], 5, 4, loss="squared", seed=1)
    u = one.unroll(TIME, BATCH, initial="zero", lengths=True, name="one")
    how = {"inputs": u.logits, "initial": {"h0": u.final[0]}, "lengths": u.lengths, "name": "other"}
    v = other.unroll(TIME, BATCH, **how)
    x, t = (DRAW.standard_normal((TIME, BATCH, n)) for n in (2, 4))
    lengths = np.array([2, 4, 1])
    logits, losses = gn.compile([v.logits, v.losses], [u.inputs, u.lengths, v.targets])(x, lengths, t)
    o, ends = rnn.run(one, x, lengths=lengths)
    zero = other.zero_states(BATCH)
    expected, _ = rnn.run(other, o, [ends[0], *zero[1:]], lengths=lengths)
    inside = np.arange(TIME)[:, None] < lengths
    np.testing.assert_allclose(logits[inside], expected[inside], rtol=1e-12)
    np.testing.assert_allclose(losses, np.where(inside, ((expected - t) ** 2).sum(axis=2), 0), rtol=1e-11)


def test_derivatives_pass_between_networks() -> None:
    one, other = net([rnn.Elman(3)], 2, 0), net([rnn.Elman(3)], 2, 2, loss="squared", seed=1)
    u = one.unroll(TIME, BATCH, initial="zero")
    v = other.unroll(TIME, BATCH, initial=u.final)
    parameters = {**{f"one.{k}": p for k, p in one.parameters.items()}, **other.parameters}
    objective = rnn.Objective(v.cost, parameters, [u.inputs, v.inputs, v.targets])
    objective.feed(*(DRAW.standard_normal((TIME, BATCH, 2)) for _ in range(3)))
    w = objective.start()
    _, g = objective.gradient(w)
    v0 = DRAW.standard_normal(w.shape)
    slope = (objective.loss(w + 1e-6 * v0) - objective.loss(w - 1e-6 * v0)) / 2e-6
    assert g @ v0 == pytest.approx(slope, rel=1e-6)
    product = objective.curvature(w)(v0)
    assert v0 @ product > 0
    assert np.abs(product[: one.theta.size]).max() > 1e-6


def test_unrolling_twice_shares_the_weights() -> None:
    one = net([rnn.GRU(3)], 2, 2, loss="squared")
    u, v = (one.unroll(TIME, BATCH, initial="zero") for _ in range(2))
    given, parameters = DRAW.standard_normal((2, TIME, BATCH, 2)), list(one.parameters.values())
    inputs = [u.inputs, u.targets, v.inputs, v.targets]
    both = gn.compile(gn.gradient(u.cost + v.cost, parameters), inputs)(*given, *given)
    single = gn.compile(gn.gradient(u.cost, parameters), inputs[:2])(*given)
    for a, b in zip(both, single, strict=True):
        np.testing.assert_allclose(a, 2 * b, rtol=1e-12, atol=1e-14)


def test_feedback_matches_a_loop_over_single_steps() -> None:
    cases = [("symbols", "softmax"), *(("vectors", loss) for loss in ("softmax", "sigmoid", "squared"))]
    for reads, loss in cases:  # numbers are no symbols
        with named(reads, loss):
            one = net([rnn.GRU(5)], 4, 4, loss=loss, reads=reads)
            u = one.unroll(6, BATCH, initial="zero", feedback="likeliest")
            first = DRAW.standard_normal((1, BATCH, 4))
            first = DRAW.integers(0, 4, (1, BATCH)) if reads == "symbols" else first
            (found,) = gn.compile([u.logits], [u.inputs])(first)
            x, states, steps = first, None, []
            for _ in range(6):
                o, states = rnn.run(one, x, states)
                steps.append(o[0])
                if loss == "softmax":
                    x = o.argmax(axis=2) if reads == "symbols" else np.eye(4)[o.argmax(axis=2)]
                else:
                    x = (o > 0) * 1.0 if loss == "sigmoid" else o
            np.testing.assert_allclose(found, steps, rtol=1e-10, atol=1e-12)


def test_drawn_feedback_follows_the_predicted_probabilities() -> None:
    """A network without memory, whose weights are log probabilities; each draw is new."""
    p = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5]])
    starts = {"vectors": np.tile(np.eye(3)[0], (1, 20_000, 1)), "symbols": np.zeros((1, 20_000), int)}
    for (reads, start), backend in itertools.product(starts.items(), ["numpy", "numba"]):
        with named(reads, backend):
            one = net([rnn.cells.Dense(3, activation="linear")], 3, 3, reads=reads)
            one.theta = np.zeros(one.theta.size)
            (weight,) = (node for name, node in one.parameters.items() if name.startswith("layer0.W"))
            weight.value[...] = np.eye(3)
            one.parameters["output.W_ho"].value[...] = np.log(p)
            u = one.unroll(2, 20_000, feedback="drawn", random=gn.RandomSource(3))
            function, found = gn.compile([u.logits], [u.inputs], backend=backend), []
            for _ in range(2):
                u.random.redraw()
                (o,) = function(start)
                # What was drawn is told by which row of log p follows.
                found.append(np.abs(o[1][:, None] - np.log(p)[None]).sum(axis=2).argmin(axis=1))
                np.testing.assert_allclose(np.bincount(found[-1], minlength=3) / 20_000, p[0], atol=0.02)
            assert (found[0] != found[1]).any()


def test_attention_ignores_padding() -> None:
    one = net([rnn.Bidirectional(rnn.GRU(2))], 3, 0)
    other = net([rnn.Attention(rnn.GRU(3), memory=4, places=TIME)], 2, 2)
    e = one.unroll(TIME, BATCH, initial="zero", lengths=True)
    d = other.unroll(5, BATCH, initial=rnn.attention_memory(e.hidden[-1], e.lengths))
    x, z = DRAW.standard_normal((TIME, BATCH, 3)), DRAW.standard_normal((5, BATCH, 2))
    lengths, inputs = np.array([2, 4, 1]), [e.inputs, e.lengths, d.inputs]
    shares, logits = gn.compile([d.course("attention"), d.logits], inputs)(x, lengths, z)
    np.testing.assert_allclose(shares.sum(axis=2), 1, rtol=1e-12)
    for case, n in enumerate(lengths):
        assert not shares[:, case, n:].any()
        assert shares[:, case, :n].all()
        alone = net([rnn.Attention(rnn.GRU(3), memory=4, places=int(n))], 2, 2)
        alone.theta = other.theta
        e1 = one.unroll(int(n), 1, initial="zero")
        d1 = alone.unroll(5, 1, initial=rnn.attention_memory(e1.hidden[-1]))
        (own,) = gn.compile([d1.logits], [e1.inputs, d1.inputs])(x[:n, [case]], z[:, [case]])
        np.testing.assert_allclose(logits[:, [case]], own, rtol=1e-10)


def test_course_returns_states_and_labelled_nodes_over_time() -> None:
    one = net([rnn.LSTM(3), rnn.GRU(2)], 2, 2)
    u = one.unroll(TIME, BATCH, initial="zero")
    x = DRAW.standard_normal((TIME, BATCH, 2))
    c, h, last = gn.compile([u.course("c"), u.course("h1"), *u.final[1:2]], [u.inputs])(x)
    np.testing.assert_array_equal(c[-1], last)
    np.testing.assert_array_equal(h, gn.compile([u.hidden[1]], [u.inputs])(x)[0])
    for name in ("h", "h11"):
        with pytest.raises(
            UsageError, match=rf"course: the name '{name}' must match exactly one state; .* are h0, c0, h1"
        ):
            u.course(name)


GRU = net([rnn.GRU(3)], 2, 2)
BOTH = net([rnn.Bidirectional(rnn.GRU(3))], 2, 2)
BARE = net([rnn.GRU(3)], 2, 0)
X = gn.input((TIME, BATCH, 2), "float64", name="x")
H = gn.input((BATCH, 3), "float64", name="h")


def test_invalid_arguments_are_rejected() -> None:
    cases = [
        (lambda: GRU.unroll(TIME, BATCH, inputs=H), "inputs must be float64[4, 3, 2], but h[3, 3]"),
        (lambda: GRU.unroll(TIME, BATCH, inputs=np.ones(3)), "inputs must be a node [4, 3, 2], or a name of an input"),
        (lambda: GRU.unroll(TIME, BATCH, initial={"c": H}), "the name 'c' must match exactly one state"),
        (lambda: GRU.unroll(TIME, BATCH, initial={"h": X}), "initial: h (of GRU(units=3)) must be float64[3, 3]"),
        (lambda: GRU.unroll(TIME, BATCH, lengths=H), "unroll: lengths must be int64[3], but h[3, 3]"),
        (lambda: GRU.unroll(TIME, BATCH, feedback="both"), "feedback must be 'likeliest' or 'drawn', not 'both'"),
        (lambda: BOTH.unroll(TIME, BATCH, feedback="drawn"), "feedback needs a causal network"),
        (lambda: net([rnn.GRU(2)], 2, 2, loss="squared").unroll(2, 2, feedback="drawn"), "use feedback='likeliest'"),
        (lambda: net([rnn.GRU(2)], 3, 2).unroll(2, 2, feedback="drawn"), "as many inputs as outputs"),
        (lambda: BARE.unroll(TIME, BATCH).cost, "unroll: cost: the network must have an output layer; this one was"),
        (lambda: rnn.Attention(rnn.Bidirectional(3)), "Attention: inner must be a causal cell with a state"),
        (lambda: rnn.attention_memory(H), "attention_memory: seen must be a node (places, batch, width), not h[3, 3]"),
    ]  # fmt: skip
    for ask, said in cases:
        with named(said), pytest.raises(UsageError, match=re.escape(said)):
            ask()


def test_encoders_without_output_are_saved_and_drawn_with_decoders(tmp_path: Path) -> None:
    rnn.save(BARE, tmp_path / "m.safetensors")
    again = rnn.load(tmp_path / "m.safetensors")
    assert again.outputs == 0
    assert "output.W_ho" not in again.parameters
    e = again.unroll(3, 1, initial="zero", name="encoder")
    d = GRU.unroll(2, 1, initial=e.final, name="decoder")
    text = viz.draw(d, closed=True).svg
    assert "encoder.layer 0" in text
    assert "decoder.layer 0" in text
    assert viz.draw(d, closed=False) is not None
