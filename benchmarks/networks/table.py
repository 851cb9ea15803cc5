"""Sections as text of fixed width, or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.networks.problem import TASKS
from benchmarks.networks.team import Measured, Section

HEADINGS = (
    "contender", "installed ms", "p10–p90", "× ours", "tuned ms", "p10–p90", "best × ours", "% of peak",
    "cold s", "warm s", "MiB",
)  # fmt: skip

LEGEND = """\
installed    median over rounds of the median call, in ms, and its spread
tuned        the same with an allocator that keeps its memory (all contenders), and with MKL's fast kernels on
             processors that are not Intel's (PyTorch)
× ours       installed / ours installed
best × ours  the better of both / the better of both of ours
% of peak    flops of the products alone / time of the best, of the fastest float32 product of squares found
cold, warm   building, compiling and the first call: with an empty kernel cache, and with the filled cache
MiB          peak resident memory in the measured calls, as installed, minus that after the imports"""


def _ms(value: float) -> str:
    return f"{1e3 * value:.3g}" if value < 0.1 else f"{1e3 * value:.0f}"


def _of(section: Section, contender: str, variant: str) -> Measured | None:
    for measured in section.measured:
        if (measured.contender, measured.variant) == (contender, variant):
            return measured
    return None


def _best(section: Section, contender: str) -> float | None:
    medians = [m.median for m in section.measured if m.contender == contender and m.rounds]
    return min(medians, default=None)


def _cells(section: Section, contender: str) -> list[str]:
    """Cells of one row, empty if unknown."""
    row = [contender]
    ours = _of(section, "ours", "installed")
    installed, tuned = (_of(section, contender, variant) for variant in ("installed", "tuned"))
    for measured in (installed, tuned):
        if measured is None or not measured.rounds:
            row += ["", "", ""]
            continue
        ratio = measured.median / ours.median if ours and ours.rounds else None
        spread = "–".join(map(_ms, measured.spread))
        row += [_ms(measured.median), spread, f"{ratio:.2f}" if ratio else ""]
    best, our_best = _best(section, contender), _best(section, "ours")
    row[-1] = f"{best / our_best:.2f}" if best and our_best else ""
    flops = section.problem.flops(section.task)
    row.append(f"{100 * flops / best / section.peak:.1f}" if best and section.peak else "")
    row += [f"{m.first:.2f}" if m and m.first is not None else "" for m in (installed, tuned)]
    memory = installed.memory if installed else None
    row.append(f"{memory / 2**20:.0f}" if memory is not None else "")
    return row


def _notes(section: Section) -> list[str]:
    """Notes: the fastest ways, missing results with reasons, disagreements."""
    lines: list[str] = []
    for contender in dict.fromkeys(m.contender for m in section.measured):
        said: dict[str, list[str]] = {}
        for measured in section.measured:
            if measured.contender != contender:
                continue
            planned = f"{measured.planned / 2**20:.1f} MiB by its own count" if measured.planned else ""
            text = "; ".join(filter(None, [measured.way, planned, measured.note]))
            if text:
                said.setdefault(text, []).append(measured.variant)
        for text, variants in said.items():
            only = f" ({variants[0]})" if len(said) > 1 else ""
            lines.append(f"{contender}{only}: {text}")
    compared = [m.difference for m in section.measured if m.difference is not None]
    if len(compared) > 1:
        lines.append(f"largest relative difference from ours: {max(compared):.1g}")
    # /proc counts hundredths of a second: a few of them are noise
    idle = {contender: seconds for contender, seconds in section.wasted.items() if seconds > 0.05}
    if idle:
        listed = ", ".join(f"{contender} {seconds:.2f} s" for contender, seconds in idle.items())
        lines.append(f"processor time used while waiting: {listed}")
    return lines


def title(section: Section) -> str:
    gigaflops = section.problem.flops(section.task) / 1e9
    return (
        f"{section.problem}: {TASKS[section.task]} "
        f"({gigaflops:.3g} GF; peak {section.peak / 1e9:.0f} GF/s: {section.peak_by})"
    )


def _rows(section: Section) -> list[list[str]]:
    contenders = dict.fromkeys(m.contender for m in section.measured)
    rows = [_cells(section, contender) for contender in contenders]
    return [row for row in rows if any(row[1:])]


def text(section: Section) -> str:
    """The table for a terminal."""
    rows = [list(HEADINGS), *_rows(section)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(HEADINGS))]
    lines = [title(section)]
    for row in rows:
        cells = (c.rjust(w) if k else c.ljust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True)))
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join([*lines, *(f"  - {note}" for note in _notes(section))])


def markdown(section: Section) -> str:
    """The table for RESULTS.md."""
    lines = [f"#### {title(section)}", "", _line(HEADINGS), "|---|" + "---:|" * (len(HEADINGS) - 1)]
    lines += [_line(row) for row in _rows(section)]
    return "\n".join([*lines, "", *(f"- {note}" for note in _notes(section))])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
