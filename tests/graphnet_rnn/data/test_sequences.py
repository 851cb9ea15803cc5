"""Sequences: cases of several lengths beside each other, and what is made of them."""

from __future__ import annotations

import numpy as np
import pytest

from graphnet_rnn.data import Sequences, balanced_weights, padded, with_missing
from graphnet_rnn.errors import DataError
from tests.tables import case

CASES = [np.arange(6.0).reshape(3, 2), np.arange(2.0).reshape(1, 2), np.arange(8.0).reshape(4, 2)]


def test_lists_of_cases_lie_side_by_side() -> None:
    found = Sequences.of(CASES, [case.sum(axis=1) for case in CASES], [1, 2, 3])
    assert (found.time, len(found), found.by_step) == (4, 3, True)
    np.testing.assert_array_equal(found.lengths, [3, 1, 4])
    np.testing.assert_array_equal(found.weights, [1, 2, 3])
    for n, own in enumerate(CASES):
        np.testing.assert_array_equal(found.inputs[: len(own), n], own)
        np.testing.assert_array_equal(found.targets[: len(own), n], own.sum(axis=1))
        assert not found.inputs[len(own) :, n].any()
    np.testing.assert_array_equal(found.inside(), np.arange(4)[:, None] < [3, 1, 4])


def test_targets_may_be_of_cases_or_labels() -> None:
    whole = Sequences.of(CASES, [2, 0, 1])
    assert not whole.by_step
    np.testing.assert_array_equal(whole.chosen([2, 0]).targets, [1, 2])
    labels = Sequences.of(CASES, [[1, 0], [], [2]])
    np.testing.assert_array_equal(labels.targets, [[1, 0], [-1, -1], [2, -1]])


def test_padded_cases_are_those_of_a_list() -> None:
    x, lengths = padded(CASES)
    found = Sequences.of(CASES, [0, 0, 0])
    np.testing.assert_array_equal(x, found.inputs)
    np.testing.assert_array_equal(lengths, found.lengths)


def test_pieces_keep_the_rest_of_a_case() -> None:
    whole = Sequences.of(CASES, [case[:, 0] for case in CASES], [1.0, 2.0, 3.0])
    found = whole.pieces(2)
    np.testing.assert_array_equal(found.lengths, [2, 1, 1, 2, 2])
    np.testing.assert_array_equal(found.weights, [1, 1, 2, 3, 3])
    np.testing.assert_array_equal(found.inputs[:, 4], CASES[2][2:])
    np.testing.assert_array_equal(found.targets[:1, 1], CASES[0][2:, 0])


def test_what_is_missing_is_said_beside_it() -> None:
    x = np.array([[1.0, np.nan], [np.nan, 0.0]])
    np.testing.assert_array_equal(with_missing(x), [[1, 0, 1, 0], [0, 0, 0, 1]])


def test_balanced_classes_count_alike() -> None:
    labels = np.array([0, 0, 0, 1, 2, 2])
    w = balanced_weights(labels)
    np.testing.assert_allclose([w[labels == k].sum() for k in range(3)], 2)


def test_cases_may_come_first() -> None:
    for targets in ("steps", "labels", "cases", "labels as long as the cases"):
        with case(targets):
            draw = np.random.default_rng(0)
            x = draw.standard_normal((5, 7, 2))  # (cases, time, width)
            shape = {"steps": (5, 7, 3), "labels": (5, 7), "cases": (5, 3)}.get(targets, (5, 7))
            t, by_step = (
                draw.integers(0, 9, shape),
                targets.startswith(("steps", "labels")) and "long" not in targets,
            )
            found = Sequences.cases_first(
                x, t, None, draw.uniform(size=5), None if "long" not in targets else False
            )
            assert found.by_step == by_step
            np.testing.assert_array_equal(found.inputs, x.swapaxes(0, 1))
            np.testing.assert_array_equal(found.targets, t.swapaxes(0, 1) if by_step else t)
            assert found.weights is not None
            assert found.weights.shape == (5,)
            if by_step:
                of_steps = Sequences.cases_first(x, t, None, x[..., 0])
                assert of_steps.weights is not None
                np.testing.assert_array_equal(of_steps.weights, x[..., 0].T)


def test_targets_that_happen_to_be_as_long_as_inputs_can_be_of_cases() -> None:
    x, labels = [X[:3, 0], X[:2, 1]], [[1, 2, 0], [1, 1]]
    assert Sequences.of(x, labels).targets.shape == (3, 2)
    np.testing.assert_array_equal(Sequences.of(x, labels, by_step=False).targets, [[1, 2, 0], [1, 1, -1]])


X, T = np.zeros((4, 3, 2)), np.zeros((4, 3), int)


def test_what_does_not_fit_is_told() -> None:
    for ask, said in (
        (lambda: Sequences(X, T, [1, 2]), "lengths must be whole numbers (3,), one for each case"),
        (lambda: Sequences(X, T, [1, 2, 5]), "the length of case 2 is 5; it must be in 1 ... 4"),
        (lambda: Sequences(X, T, None, np.ones((3, 4))), "weights must be [4, 3], one for each target"),
        (
            lambda: Sequences(X, np.zeros((5, 3))),
            "targets must be (4, 3, ...), of each step or (3, ...), of each case",
        ),
        (lambda: Sequences(X, T, by_step=False), "targets must be (3, ...), of each case, not [4, 3]"),
        (lambda: Sequences(X, np.zeros((4, 5))), "of arrays with cases first make Sequences.cases_first"),
        (lambda: Sequences(None, T), "inputs must be an array, not None"),
        (lambda: Sequences.of(5, [1]), "inputs must be a list of cases, not 5"),
        (lambda: Sequences.of([[1], [2]], 5), "targets must be a list of cases, not 5"),
        (lambda: Sequences.of([[1], [2]], [1, 2], []), "weights must be one for each of the 2 cases"),
        (
            lambda: Sequences.of([[1], [2]], [1, 2], [[1], [1, 2]]),
            "weights must be one for each of the 2 cases",
        ),
        (lambda: Sequences.of([[1], [2, 3]], [1, 2], by_step=True), "targets of steps must be as long as"),
        (lambda: padded(5), "padded: cases must be a list of cases, not 5"),
        (lambda: with_missing(0.5), "with_missing: x must be floats"),
        (
            lambda: Sequences([[1], [1, 2]], T),
            "inputs must be an array; cases of several lengths are taken by",
        ),
        (lambda: Sequences.of([], []), "there must be targets for each case, and one at least"),
        (lambda: Sequences.of([np.zeros((0, 2))], [1]), "case 0 has no steps"),
        (
            lambda: Sequences.of([X[:, 0], X[:, 0, :1]], [1, 2]),
            "inputs of case 1 are [4, 1], those of case 0 [4, 2]",
        ),
        (lambda: padded([]), "padded: there are no cases"),
        (lambda: with_missing([1, 2]), "with_missing: x must be floats"),
        (lambda: balanced_weights([0.5]), "labels must be whole numbers, not float64"),
    ):
        with case(said):
            with pytest.raises(DataError) as caught:
                ask()
            assert said in str(caught.value)
