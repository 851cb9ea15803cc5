"""Search hyperparameters: train many configurations of a recipe on all cores, and report the best."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphnet.system.text import on_one_line
from graphnet_rnn.apps.cli.answers import brief
from graphnet_rnn.apps.cli.options import refuse
from graphnet_rnn.apps.cli.outputs import require_apart, require_ending
from graphnet_rnn.apps.cli.pages import SweepPage, page_of
from graphnet_rnn.apps.cli.specs import parts_of, quoted, read_settings
from graphnet_rnn.apps.cli.sweep_table import SweepTable
from graphnet_rnn.apps.sweep.ranges import Values
from graphnet_rnn.apps.sweep.recipe import Recipe
from graphnet_rnn.apps.sweep.report import KINDS, report
from graphnet_rnn.apps.sweep.results import Entry, Results
from graphnet_rnn.apps.sweep.sweep import Sweep
from graphnet_rnn.errors import UsageError
from graphnet_rnn.files.whole import write_atomically
from graphnet_rnn.training.interruption import Interruption

EXAMPLE = """example:
  graphnet-rnn sweep recipe.toml --out sweeps/cells --report cells.md
  graphnet-rnn sweep sweeps/cells
  graphnet-rnn sweep sweeps/cells --parallel "dask(scheduler_host='tcp://10.0.0.1:8786')\""""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "recipe",
        help="TOML file: data = 'book.txt' and, under [settings], options of `train`, such as epochs = 9 and "
        "units = { values = [32, 64] }; see docs/hyperparameter_search.md. Or the folder of a sweep, to resume it",
    )
    add("--data", metavar="FILE", help="data file in place of that of RECIPE")
    add(
        "--out",
        metavar="FOLDER",
        help="folder of the sweep; an existing sweep is resumed (default: in sweeps/, named after RECIPE)",
    )
    add("--workers", type=int, help="number of runs at a time (default: one for each core)")
    add(
        "--parallel",
        metavar="NAME",
        help="back end of joblib that starts runs: loky, dask or ray, with settings in parentheses",
    )
    add("--report", metavar="FILE", help=f"at the end, write a table of results ({', '.join(KINDS)})")
    add(
        "--html",
        metavar="FILE",
        help="at the end, write a page with curves, settings and results",
    )
    add(
        "--figure",
        metavar="FILE",
        help="at the end, write a chart of mean ± standard error against a setting; .svg, .png, .pdf",
    )
    add(
        "--against",
        metavar="NAME",
        help="--figure: setting on the horizontal axis (default: the numeric setting with most values)",
    )
    add("--by", metavar="NAME", help="--figure: setting with a line for each value")
    add("--panels", metavar="NAME", help="--figure: setting with a panel for each value")
    add(
        "--serve",
        action="store_true",
        help="show the page of --html in a browser during training; this machine only",
    )
    add("--retry", action="store_true", help="try failed runs again from their last checkpoints")
    add("--only-report", action="store_true", help="report existing results without training")
    add("--quiet", action="store_true", help="print no progress")


def run(options: argparse.Namespace) -> int:
    require_ending("--report", options.report, KINDS, "the name of a table")
    require_ending("--html", options.html, (".html",), "the name of a page")
    require_ending("--figure", options.figure)
    if options.figure is None:
        refuse(options.written & {"against", "by", "panels"}, "needs --figure")
    require_apart(
        {"--report": options.report, "--html": options.html, "--figure": options.figure},
        {"recipe": options.recipe, "data": options.data},
    )
    recipe, folder = _what_and_where(options)
    if options.only_report and options.serve:
        raise UsageError(
            "--serve shows a sweep during training, but --only-report does not train; write the page with --html"
        )
    if options.only_report and not Path(folder).exists():
        raise UsageError(f"there is no sweep in {folder} to report")
    sweep = Sweep(recipe, folder, options.workers, _parallel(options.parallel))
    interrupted = False
    if not options.only_report:
        _announce_code(sweep)
        if options.serve:
            page = SweepPage(sweep.results)
            with page.served("watch it at {}"):
                interrupted = _trained(sweep, options, page.changed)
        else:
            interrupted = _trained(sweep, options, lambda: None)
    if options.html is not None:
        write_atomically(options.html, page_of(sweep.results).encode())
    if options.figure is not None:
        _draw(sweep.results, options)
    if options.report is not None:
        write_atomically(options.report, report(sweep.results, Path(options.report).suffix).encode())
    if not options.quiet or options.only_report:
        sys.stdout.write(report(sweep.results))
    if interrupted and not options.quiet:
        print(f"interrupted; repeat the command to resume {folder}", file=sys.stderr)
    best = sweep.results.best()
    if interrupted:
        return 130
    if not best:
        raise UsageError(f"no run of {folder} has a result; the reasons are in its table")
    if not options.quiet:
        print(f"best run: {best[0].runs[0].run}")
    return 0


def _draw(results: Results, options: argparse.Namespace) -> None:
    import viz

    results.look()
    rows = [
        {
            **each.settings,
            "mean": each.mean,
            "error": each.error,
            "cut": any(e.state == "cut" for e in each.runs),
        }
        for each in results.best()
    ]
    chosen = {name: getattr(options, name) for name in ("against", "by", "panels")}
    drawn = viz.compare_settings(rows, **chosen, unit=results.unit, title=results.recipe.name)
    drawn.savefig(options.figure, dpi=150)


def _what_and_where(options: argparse.Namespace) -> tuple[Recipe | None, str]:
    """(recipe, or None for that of the folder; folder)"""
    if Path(options.recipe).is_dir():
        if options.out is not None:
            raise UsageError(
                f"{options.recipe} is the folder of a sweep, and --out names another; leave it out"
            )
        if options.data is not None:
            raise UsageError(
                f"{options.recipe} is the folder of a sweep, which has its data; leave --data out"
            )
        return None, options.recipe
    recipe = Recipe.read(options.recipe)
    if options.data is not None:
        recipe = replace(recipe, data=options.data)
    _ = recipe.epochs
    return recipe, options.out or str(Path("sweeps") / Path(options.recipe).stem)


def _announce_code(sweep: Sweep) -> None:
    cell = sweep.recipe.settings.get("cell")
    named = cell.values if isinstance(cell, Values) else (cell,)
    files = dict.fromkeys(
        where for name in named if isinstance(name, str) and (where := parts_of(name).where)
    )
    if files:
        words = f"the recipe uses cells of {', '.join(files)}; the runs import and execute this code"
        print(f"graphnet-rnn sweep: {brief(on_one_line(words))}", file=sys.stderr)


def _parallel(given: str | None) -> dict[str, Any] | None:
    if given is None:
        return None
    example = "dask(scheduler_host='tcp://10.0.0.1:8786')"
    unnamed, named = read_settings(given, example)
    if unnamed:
        raise UsageError(f"--parallel {quoted(given)}: name the setting, as in {example}")
    return {"backend": parts_of(given).name, **named}


def _trained(sweep: Sweep, options: argparse.Namespace, changed: Callable[[], None]) -> bool:
    """Runs the sweep; returns True if it was interrupted."""
    progress = None if options.quiet else SweepTable(sweep)
    with Interruption() as interruption:

        def seen(entry: Entry) -> None:
            if progress is not None:
                progress.seen(entry)
            changed()

        try:
            sweep.run(seen, lambda: interruption.requested, options.retry)
        finally:
            if progress is not None:
                progress.close()
    return interruption.requested
