"""Exercises that check a learner's answer.

    answer_1 = ...                              # the learner replaces the dots with an answer

    check(1, answer_1, solution=[4, -6], wrong=[[2, -3], [4, 6]], hint="Sum the rows. Do not forget the factor 2.")

An answer can be a number, an array, a node, a function or an op. `right` is a function that tests the answer. Without
`right`, the answer must be equal to the numbers of the solution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

#: Numbers of the exercises that were checked, in order.
met: list[int] = []
#: The tests set this. Each check must then accept its solution, and reject the dots and each wrong answer.
on_trial = False


def check(
    number: int,
    answer: Any,
    *,
    solution: Any,
    wrong: Sequence[Any],
    hint: str,
    right: Callable[[Any], Any] | None = None,
) -> None:
    """Prints whether the answer to exercise `number` is right, and a hint if it is wrong. Never raises an error.

    right: function of the answer, true if the answer is right. If it raises an error, the answer is wrong, and check
        prints the error's message.
    wrong: plausible wrong answers, which the tests of the tutorials check.
    """

    def verdict(given: Any) -> str:
        if given is ...:
            return "no answer yet. Replace the dots with your answer, and run that cell and this one."
        try:
            good = right(given) if right else same_numbers(given, solution)
            problem = ""
        except Exception as error:
            good, problem = False, f"\n  {type(error).__name__}: {error}"
        return "right!" if good else f"not yet. Hint: {hint}{problem}"

    met.append(number)
    print(f"Exercise {number}: {verdict(answer)}")
    if on_trial:
        assert answer is ..., f"exercise {number} already contains an answer; it must be `...`"
        assert wrong, f"exercise {number} has no wrong answer; add one to `wrong`"
        assert verdict(solution) == "right!", f"exercise {number} rejects its solution: {verdict(solution)}"
        for mistake in wrong:
            assert verdict(mistake).startswith("not yet"), f"exercise {number} accepts {mistake!r}"


def same_numbers(answer: Any, solution: Any) -> bool:
    """True if two numbers or arrays have the same shape and agree to about three digits."""
    found, expected = np.asarray(answer, dtype=float), np.asarray(solution, dtype=float)
    if found.shape != expected.shape:
        raise ValueError(f"the answer has the shape {list(found.shape)}; it should be {list(expected.shape)}")
    return bool(np.allclose(found, expected, rtol=2e-3, atol=1e-6))
