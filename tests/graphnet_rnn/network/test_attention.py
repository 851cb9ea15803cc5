"""An encoder and a decoder with attention as one graph: laws, curvature, back ends, pictures, feedback."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from tests.tables import case

PLACES, STEPS, BATCH, SYMBOLS = 3, 2, 3, 3
LENGTHS = np.array([2, 3, 1])
SCORES = ("additive", "dot")
#: What a whole is held to beside NumPy.
HOW: list[dict[str, Any]] = [{}, {"threads": 2}, {"memory": "sqrt"}, {"backend": "cuda"}]


def networks(score: str = "dot") -> tuple[rnn.Network, rnn.Network]:
    how = {"dtype": "float64"}
    encoder = rnn.Network([rnn.Bidirectional(rnn.GRU(2))], SYMBOLS, 0, seed=1, **how)
    cell = rnn.Attention(rnn.GRU(2), memory=4, places=PLACES, score=score)
    return encoder, rnn.Network([cell], SYMBOLS, SYMBOLS, seed=2, **how)


class Whole:
    """Both over a batch, their parameters by name, and arrays for all that they read."""

    def __init__(self, score: str = "dot", **how: Any) -> None:
        self.encoder, self.decoder = networks(score)
        self.e = self.encoder.unroll(PLACES, BATCH, initial="zero", lengths=True, name="encoder")
        memory = rnn.attention_memory(self.e.hidden[-1], self.e.lengths)
        self.d = self.decoder.unroll(STEPS, BATCH, initial=memory, name="decoder", **how)
        both = {"encoder": self.encoder, "decoder": self.decoder}
        self.parameters = {f"{n}.{k}": p for n, net in both.items() for k, p in net.parameters.items()}
        self.inputs = [self.e.inputs, self.e.lengths, self.d.inputs, self.d.targets]
        draw = np.random.default_rng(0)
        self.word = draw.integers(0, SYMBOLS, (PLACES, BATCH))
        self.before, self.answer = draw.integers(0, SYMBOLS, (2, STEPS, BATCH))
        self.arrays = [self.word, LENGTHS, self.before, self.answer]
        self.v = {p: draw.standard_normal(p.shape) for p in self.parameters.values()}

    def derivatives(self) -> list[gn.Node]:
        """C, its gradient, its R-operator and G v."""
        cost, parameters = self.d.cost, list(self.parameters.values())
        products = gn.gauss_newton_product(cost, self.v)
        return [cost, *gn.gradient(cost, parameters), *gn.rop([cost], self.v), *products]


def require_laws(score: str, laws: Iterable[int]) -> None:
    """As a function of all weights of both."""
    whole = Whole(score)
    leaves = [*whole.parameters.values(), *whole.inputs]
    values = [*(p.value for p in whole.parameters.values()), *whole.arrays]
    gn.testing.check_graph([whole.d.cost], leaves, values, laws)


def test_encoder_and_decoder_obey_the_laws() -> None:
    for score in SCORES:
        with case(score):
            require_laws(score, (1, 2, 3, 4, 5, 6))


@pytest.mark.slow
@pytest.mark.parametrize("score", SCORES)
def test_encoder_and_decoder_obey_the_laws_of_back_ends_and_threads(score: str) -> None:
    require_laws(score, (7, 8))


def test_gauss_newton_products_match_the_dense_matrix() -> None:
    """Gv = Jᵀ H_L J v, J by differences of the logits in every weight, H_L = (diag p - p pᵀ) / (steps · batch)."""
    for score in SCORES:
        with case(score):
            whole = Whole(score)
            logits = gn.compile([whole.d.logits], whole.inputs[:3], backend="numpy")
            rows = []
            for p in whole.parameters.values():
                for i in range(p.value.size):
                    kept, ends = p.value.flat[i], []
                    for h in (1e-5, -1e-5):
                        p.value.flat[i] = kept + h
                        ends.append(logits(*whole.arrays[:3])[0])
                    p.value.flat[i] = kept
                    rows.append((ends[0] - ends[1]) / 2e-5)
            J = np.stack(rows, axis=-1).reshape(STEPS * BATCH, SYMBOLS, -1)
            o = logits(*whole.arrays[:3])[0].reshape(STEPS * BATCH, SYMBOLS)
            p = np.exp(o) / np.exp(o).sum(axis=1, keepdims=True)
            H = (p[:, :, None] * np.eye(SYMBOLS) - p[:, :, None] * p[:, None, :]) / (STEPS * BATCH)
            v = np.concatenate([each.ravel() for each in whole.v.values()])
            expected = np.einsum("kop,koq,kqr,r->p", J, H, J, v)
            product = gn.gauss_newton_product(whole.d.cost, whole.v)
            found = [g.ravel() for g in gn.compile(product, whole.inputs[:3])(*whole.arrays[:3])]
            assert np.abs(expected[: whole.encoder.theta.size]).max() > 1e-5
            np.testing.assert_allclose(np.concatenate(found), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("score", "ways"),
    [
        ("additive", HOW[:3]),
        *(pytest.param(score, HOW, marks=pytest.mark.slow) for score in ("additive", "dot")),
    ],
)
def test_encoder_and_decoder_on_every_back_end(score: str, ways: list[dict[str, Any]]) -> None:
    for how in ways:
        with case(how):
            whole = Whole(score)
            nodes = whole.derivatives()
            expected = gn.compile(nodes, whole.inputs, backend="numpy")(*whole.arrays)
            found = gn.compile(nodes, whole.inputs, **how)(*whole.arrays)
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_decoder_with_feedback_on_every_back_end() -> None:
    """Against a decoder that reads its previous outputs as given inputs."""
    for how in HOW:
        with case(how):
            whole = Whole(feedback="likeliest", training=False)
            write = gn.compile([whole.d.logits, whole.d.course("attention")], whole.inputs[:3], **how)
            logits, shares = write(whole.word, LENGTHS, whole.before[:1])
            taught = Whole(training=False)
            read = np.concatenate([whole.before[:1], logits[:-1].argmax(axis=2)])
            by_hand = [taught.d.logits, taught.d.course("attention")]
            function = gn.compile(by_hand, taught.inputs[:3], backend="numpy")
            for found, expected in zip((logits, shares), function(whole.word, LENGTHS, read), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_encoder_and_decoder_are_drawn_open_and_closed() -> None:
    for feedback in [None, "likeliest", "drawn"]:
        with case(feedback):
            whole = Whole(feedback=feedback)
            closed, opened = (viz.draw(whole.d, closed=closed).svg for closed in (True, False))
            for text, words in (
                (closed, ("decoder.layer 0", "of encoder.layer 0")),
                (opened, ("attention", "encoder.layer0")),
            ):
                assert [word for word in words if word not in text] == []
            assert "[1]" not in closed  # what it reads of itself is called x as well
