"""Tables of the results of a sweep: Markdown, LaTeX, CSV."""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphnet_rnn.apps.sweep.results import Results
from graphnet_rnn.data.table_files import csv_text
from graphnet_rnn.settings import one_of

KINDS = (".md", ".tex", ".csv")
#: Special characters of LaTeX.
SPECIAL = {
    "\\": r"\textbackslash{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\^{}",
}


def report(results: Results, kind: str = ".md") -> str:
    """Table with a row for each configuration that has a value, best first.

    Columns: best run, settings that differ, mean ± standard error of the best validation over seeds and folds, number
    of runs, epochs, seconds, and states of runs. kind: ".md", ".tex" or ".csv".
    """
    one_of("report: kind", kind, KINDS)
    results.look()
    names, rows = results.names, []
    for settings, mean, error, known, runs in results.best():
        rows.append(
            [
                runs[0].name,
                *(_shown(settings[name]) if name in settings else "" for name in names),
                _number(mean),
                "" if math.isnan(error) else _number(error),
                str(known),
                f"{max(run.epochs for run in runs)}",
                _seconds(sum(run.seconds for run in runs)),
                ", ".join(dict.fromkeys(run.state for run in sorted(runs, key=lambda run: run.seed))),
            ]
        )
    head = ["run", *names, results.unit, "± error", "runs", "epochs", "seconds", "state"]
    failed = [entry for entry in results.entries if entry.state == "failed"]
    if kind == ".csv":
        return csv_text([head, *rows])
    if kind == ".tex":
        return _latex(head, rows)
    lines = [
        f"# {_cell(results.recipe.name)}",
        "",
        _line(head),
        _line(["---"] * len(head)),
        *map(_line, rows),
    ]
    if failed:
        lines += ["", "Failed:", "", *(f"- {entry.name}: {_cell(entry.sentence)}" for entry in failed)]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 1e6 else f"{value:.4g}"


def _seconds(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _latex(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        escaped = ("".join(SPECIAL.get(c, c) for c in " ".join(cell.split())) for cell in cells)
        return " & ".join(escaped).replace("±", r"$\pm$") + r" \\"

    lines = [rf"\begin{{tabular}}{{{'l' * len(head)}}}", r"\hline", line(head), r"\hline", *map(line, rows)]
    return "\n".join([*lines, r"\hline", r"\end{tabular}"]) + "\n"
