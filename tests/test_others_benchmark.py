"""What breaks others is right here: the programs of benchmarks.others beside finite differences of plain loops."""

from __future__ import annotations

import numpy as np

import graphnet as gn
from benchmarks.others import ours
from benchmarks.others.cases import CASES, masked, masked_arrays
from benchmarks.others.check import error

#: Steps, where those of the benchmark would take too long, and the error of derivatives: float32 has 7 digits.
STEPS = {"window": 60, "Hv": 6, "Jv": 6, "each": 6}
FLOAT32 = ("Hv", "Jv", "each")


def test_derivatives() -> None:
    for name, case in CASES.items():
        if name == "masked":
            continue
        steps = STEPS.get(name, 10)
        arrays = case.arrays(steps, np.random.default_rng(1))
        results = ours.program(name, case, arrays, steps)()
        assert error(case, name, arrays, steps, results) < (1e-5 if name in FLOAT32 else 1e-7), name


def test_the_check_finds_a_wrong_derivative() -> None:
    case = CASES["affine"]
    arrays = case.arrays(10, np.random.default_rng(1))
    value, by_a, by_b = ours.program("affine", case, arrays, 10)()
    assert error(case, "affine", arrays, 10, [value, by_b, by_a]) > 1e-3


def test_a_choice_before_the_function_keeps_nan_out_of_the_gradient() -> None:
    case, steps = CASES["masked"], 10
    arrays = masked_arrays(steps, np.random.default_rng(1))
    assert np.isnan(
        ours.program("masked", case, arrays, steps)()[1]
    ).all()  # 0 · NaN, as the chain rule has it
    w, x = gn.input((2,), "float64"), gn.input((steps,), "float64")
    there = gn.equal(x, x)
    safe, h = gn.where(there, x, 0.0), gn.fill(0.0, (), "float64")
    for t in range(steps):
        h = gn.where(there[t], gn.tanh(w[0] * safe[t] + w[1] * h), h)
    results = gn.compile([h * h, *gn.gradient(h * h, [w])], [w, x])(*arrays)
    np.testing.assert_allclose(results[0], masked(*arrays), rtol=1e-12)
    assert error(case, "masked", arrays, steps, results) < 1e-7
