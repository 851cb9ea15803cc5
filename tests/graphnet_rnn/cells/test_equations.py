"""Equations: cells from text match the classes, and invalid texts raise errors with the equation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet_rnn.errors import CellError
from tests.tables import case


def drawn(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Random numbers, the same for the same name."""
    return np.random.default_rng(list(name.encode())).standard_normal(shape)


def step_of(cell: rnn.Cell, weights: dict[str, np.ndarray] | None = None) -> dict[str, Any]:
    """One step from drawn states and weights, in float64: the output and each new state by name."""
    names = cell.bind(3, dtype="float64").weights
    chosen = {
        f"layer0.{name}": (weights or {}).get(name, drawn(name, node.shape)) for name, node in names.items()
    }
    bound = cell.bind(3, dtype="float64", values=chosen)
    sizes = {"x": (5, 3), **{state.name: (5, bound.width_of(state)) for state in bound.states}}
    x, *states = (gn.input(shape, "float64", name=name) for name, shape in sizes.items())
    output, after = bound.advance(x, states)
    values = gn.compile([output, *after], [x, *states])(
        *(drawn(name, shape) for name, shape in sizes.items())
    )
    return {
        **dict(zip(["output", *(state.name for state in bound.states)], values, strict=True)),
        "weights": set(names),
    }


@pytest.mark.parametrize("cell", ["Elman", "LSTM", "GRU", "GRUResetAfter", "MRNN", "Equations"])
def test_formulas_match_the_cells(cell: str) -> None:
    """The first line of the docstring, as text, matches the class."""
    kind = rnn.cells.ALL[cell]
    found, expected = step_of(rnn.Equations(4, (kind.__doc__ or "").splitlines()[0])), step_of(kind(4))
    assert found.pop("weights") == expected.pop("weights")
    assert found.keys() == expected.keys()
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-12)


def test_signs_precedence_and_functions() -> None:
    """Against NumPy."""
    x, h, W, b, w = (
        drawn(*of) for of in (("x", (5, 3)), ("h", (5, 4)), ("W", (3, 4)), ("b_h", (4,)), ("w_hh", (4,)))
    )
    given = {"W_xh": W, "W_hh": np.eye(4), "g_h": np.ones(4), "s_h": np.zeros(4)}
    softmax = lambda a: np.exp(a) / np.exp(a).sum(axis=1, keepdims=True)
    deviation = lambda a: np.sqrt(a.var(axis=1, keepdims=True) + 1e-5)
    for text, expected in (
        ("h' = 2 h - .5 h / 4 h", 2 * h - 0.5 * h / 4 * h),
        ("h' = -h^2", -(h**2)),
        ("h′ = (h − 1) × h ** 2 ** 2", (h - 1) * h**4),
        ("h' = h - (1 - h) (h + 1) - h", -(1 - h) * (h + 1)),
        ("h' = 3 x W", 3 * x @ W),
        ("h' = exp(x W + b_h) w_hh ⊙ h", np.exp(x @ W + b) * w * h),
        ("h' = softmax(x W) + h", softmax(x @ W) + h),
        ("h' = softmax(w_hh) h", np.exp(w) / np.exp(w).sum() * h),
        ("a = x W\n\nh' = LN(a + h)", ((a := x @ W + h) - a.mean(1, keepdims=True)) / deviation(a)),
        ("a = h + 1; H' = a h; h' = H' a", (h + 1) ** 2 * h),
        ("h' = σ(x, h)", 1 / (1 + np.exp(-(x @ W + h @ np.eye(4) + b)))),
    ):
        with case(text):
            np.testing.assert_allclose(step_of(rnn.Equations(4, text), given)["h"], expected, rtol=1e-12)


def test_states_and_output() -> None:
    for text, states, output in (
        ("c' = c + x W; h' = tanh(c')", ["h", "c"], "h"),
        ("c' = c + x W; m' = c", ["c", "m"], "c"),
        ("c' = c + x W; y = c' + c", ["c"], "y"),
        ("y = tanh(x W)", [], "y"),
    ):
        with case(text):
            cell = rnn.Equations(4, text)
            assert [state.name for state in cell.states] == states
            assert cell.returns[0].name == output


def test_equations_are_saved_with_their_text(tmp_path: Path) -> None:
    net = rnn.Network([rnn.Equations(6, "f = σ(x, h)\nh' = f h + x W_xh")], 3, 2, seed=1)
    rnn.save(net, tmp_path / "cell.safetensors")
    again = rnn.load(tmp_path / "cell.safetensors")
    assert repr(again.layers) == repr(net.layers)
    np.testing.assert_array_equal(again.theta, net.theta)


REFUSED = {
    "h' = tanh(x W_xh + hh W_hh)": "hh is not defined (did you mean h?)",
    "h' = tanh(x W_xh + (h W_hh": "not closed",
    "h' = x W_xh)": "unexpected",
    "h' = x W_xh +": "unexpected",
    "h' = h $ 2": r"$ is unexpected",
    "h' = W_xh x": "must follow what it multiplies",
    "h' = tanh x": "needs parentheses",
    "h' = c' h; c' = c": "used before the equation",
    "a, b = x W; h' = a b": "write · for their names",
    "f = σ(x V); h' = f · h": "· stands for the name of the result, not for a product",
    "i, f = σ(x, 2 h); h' = i f": "only have names",
    "h = x W": "no equation defines",
    "": "no equation defines",
    "h' == 2": "not an equation",
    "h'": "not an equation",
    "2 = h": "not an equation",
    "h' = h; h' = x W": "defined twice",
    "h' = h; h = x W": "both h and h'",
    "x' = x": "meaning of its own",
    "tanh = x W; y = tanh": "meaning of its own",
    "h' = x h": "shapes [1, 3] and [1, 4]",
    "h' = h W_xh + x W_xh": "used with shape [3, 4]",
    "h' = 1": "depends on no node",
    "h' = b_h": "h' is the same for all cases; it must depend on x or a state",
    "y = tanh(w_y)": "y is the same for all cases",
    "h' = x": "h' has the width 3, but the width of the cell is 4",
    "y = x": "y has the width 3",
    "h' = h + b_h W": "W must follow x, a state or a result",
    "h' = 2 W + h": "W must follow x, a state or a result",
    "h' = sqrt(2) h": "sqrt(2) is a number",
    "h' = h Tanh(x W)": "Tanh is not a function; write tanh",
    "h' = LN(x W) + LN(h V)": "LN occurs twice",
    "h' = σ(x, h) tanh(x, h)": "two lists of names would share weights",
    "c' = tanh(x, c); h' = tanh(c', c, h)": "would share W_ch",
    "h₁' = h₁": "cannot be the name of a state",
    "h" * 3000 + "' = " + "·" * 3000: "too long",
    ", ".join(f"a{k}" for k in range(999)) + " = " + "+".join(["b_·"] * 999) + "; h' = a1 h": "too long",
    "h' = " + "(" * 3000 + "h" + ")" * 3000: "too many nested",
    "h' = tanh" + "(x, " * 300 + "h" + ")" * 300: "too many nested",
    "h' = " + "-" * 3000 + "h": "too many nested",
    "h' = h" + " + h" * 2400: "recursion",
    "h' = h" + " " * 10_000: "the limit is 10,000",
    "h' = 1 / 0 h": "division by zero",
}


def test_invalid_equations_are_rejected() -> None:
    for text, told in REFUSED.items():
        with case(text), pytest.raises(CellError) as refused:
            rnn.Network([rnn.Equations(4, text)], 3, 2)
        assert told in str(refused.value)
    with pytest.raises(CellError, match="must be a str"):
        rnn.Equations(4, 3)  # type: ignore[arg-type]


def test_products_of_states_with_signs_and_factors() -> None:
    """Dropout and hypernetworks find products of states by weight names."""
    for text in ("h' = tanh(-h W_hh + x W_xh)", "h' = tanh(x W_xh + 2 h W_hh)"):
        with case(text):
            hyper = rnn.Hyper(rnn.Equations(4, text), rnn.Elman(3)).bind(3)
            assert any("hh" in name and "main" not in name for name in hyper.weights)
            rnn.Network([rnn.Equations(4, text)], 3, 2, recurrent_dropout=0.5)
