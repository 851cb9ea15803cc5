"""The table of one problem, in Markdown."""

from __future__ import annotations

from benchmarks.second_order.problem import Problem
from benchmarks.second_order.turns import TOLERANCES, Measured
from benchmarks.second_order.worker import FEW_STEPS

HEADINGS = (
    "contender",
    "step, ms",
    "tuned",
    "× ours",
    "one Gv, ms",
    "tuned",
    "× ours",
    "products, losses",
    "∇C differs",
    "Gv",
    f"δ, {FEW_STEPS} steps",
    "φ(δ)",
    "δ",
)

LEGEND = """A step is one gradient, CG, and the line search. Medians over rounds, in which contenders take turns.
step, one Gv   as installed; tuned: with an allocator that keeps its memory, and MKL's fast kernels on any processor
× ours         as installed / ours as installed · best / our best
products       that the step took; hessianfree multiplies its first δ, zero, and the last δ by G once more
differs        from ours: gradient, Gv, δ after a few steps of CG and after all, in the norm of the whole vector, and
               φ(δ), which CG minimises. Rounding alone changes δ by some per cent, φ hardly"""


def _ms(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{1e3 * seconds:.3g}" if seconds < 0.1 else f"{1e3 * seconds:,.0f}"


def _times(found: list[Measured], ours: list[Measured], what: str) -> list[str]:
    """Milliseconds in both variants, and the ratios."""

    def median(of: list[Measured], variant: str) -> float | None:
        return next((m.median(what) for m in of if m.variant == variant), None)

    def best(of: list[Measured]) -> float | None:
        return min((s for m in of if (s := m.median(what)) is not None), default=None)

    pairs = [(median(found, "installed"), median(ours, "installed")), (best(found), best(ours))]
    ratios = [f"{theirs / our:.1f}" for theirs, our in pairs if theirs and our]
    return [_ms(median(found, "installed")), _ms(median(found, "tuned")), " · ".join(ratios)]


def _row(contender: str, found: list[Measured], ours: list[Measured]) -> list[str]:
    counts = sorted({f"{m.products}, {m.losses}" for m in found if m.results})
    compared = [m.differences for m in found if m.differences and contender != "ours"]
    row = [contender, *_times(found, ours, "step"), *_times(found, ours, "product"), " or ".join(counts)]
    return row + [f"{max(d[kind] for d in compared):.0e}" if compared else "" for kind in TOLERANCES]


def _notes(contender: str, found: list[Measured]) -> list[str]:
    lines = []
    for m in found:
        tried = ", ".join(f"{way} {_ms(s)}" for way, s in sorted(m.tried.items(), key=lambda pair: pair[1]))
        if tried:
            lines.append(
                f"{contender}, {m.variant}: {m.way}; first estimates of a step's products, ms: {tried}"
            )
        if m.note:
            lines.append(f"{contender}, {m.variant}: {m.note}")
        if m.disagrees:
            lines.append(f"{contender}, {m.variant} DISAGREES with ours")
    return lines


def markdown(problem: Problem, every: list[Measured]) -> str:
    by_contender = {
        name: [m for m in every if m.contender == name] for name in dict.fromkeys(m.contender for m in every)
    }
    ours = by_contender.get("ours", [])
    lines = [f"#### {problem}", "", _line(HEADINGS), "|---|" + "---:|" * (len(HEADINGS) - 1)]
    lines += [_line(_row(contender, found, ours)) for contender, found in by_contender.items()]
    notes = [note for contender, found in by_contender.items() for note in _notes(contender, found)]
    return "\n".join([*lines, "", *(f"- {note}" for note in notes)])


def _line(cells: list[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"
