"""Exercises that check themselves.

    answer_1 = ...                              # the learner puts an answer in place of the dots

    check(1, answer_1, solution=[4, -6], wrong=[[2, -3], [4, 6]], hint="Add up the rows, and mind the 2.")

An answer may be anything: a number, an array, a node, a function, an op. `right` tells whether it is right; without
it, it must be the numbers of the solution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["check"]

#: The exercises that have been met, by number.
met: list[int] = []
#: The tests set this: each check then has to accept its solution, and to reject every wrong answer and the dots.
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
    """Prints whether the answer to exercise `number` is right; a hint, where it is not. Never raises.

    right(answer): true if it is; may raise, and then it is not, and the learner reads the error's message.
    wrong: answers that learners might give, and that must not pass.
    """

    def verdict(given: Any) -> str:
        if given is ...:
            return "no answer yet: put yours in place of the dots, and run that cell and this one."
        try:
            good = right(given) if right else same_numbers(given, solution)
            problem = ""
        except Exception as error:
            good, problem = False, f"\n  {type(error).__name__}: {error}"
        return "right!" if good else f"not yet. Hint: {hint}{problem}"

    met.append(number)
    print(f"Exercise {number}: {verdict(answer)}")
    if on_trial:
        assert answer is ..., f"exercise {number} comes with an answer already in it"
        assert wrong, f"exercise {number} lists no wrong answer"
        assert verdict(solution) == "right!", f"exercise {number} rejects its solution: {verdict(solution)}"
        for mistake in wrong:
            assert verdict(mistake).startswith("not yet"), f"exercise {number} accepts {mistake!r}"


def same_numbers(answer: Any, solution: Any) -> bool:
    """Whether two numbers, or arrays, have one shape and agree to about three digits, as one writes them by hand."""
    found, expected = np.asarray(answer, dtype=float), np.asarray(solution, dtype=float)
    if found.shape != expected.shape:
        raise ValueError(
            f"the answer has the shape {list(found.shape)}, it should be {list(expected.shape)}."
        )
    return bool(np.allclose(found, expected, rtol=2e-3, atol=1e-6))
