"""Evaluate a trained model on a text (bits per character, accuracy, colored excerpts) or on other sequences."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from graphnet.graph.node import Array
from graphnet.system.text import in_brief
from graphnet_rnn.apps.cli.answers import save_chart
from graphnet_rnn.apps.cli.material import CHOICES, add_choices, arrays_of, fitting_loss, table_for
from graphnet_rnn.apps.cli.models import load_for_use
from graphnet_rnn.apps.cli.options import add_cell, refuse
from graphnet_rnn.apps.cli.outputs import PAGES, require_apart, require_ending
from graphnet_rnn.apps.cli.specs import parts_of
from graphnet_rnn.data.characters import read_text
from graphnet_rnn.data.frame import frame_of
from graphnet_rnn.data.sequence_files import ENDINGS, read_sequences
from graphnet_rnn.data.table import Table
from graphnet_rnn.data.table_files import is_table
from graphnet_rnn.data.text import Corpus
from graphnet_rnn.errors import UsageError
from graphnet_rnn.network.network import Network
from graphnet_rnn.online.dynamic import DynamicEvaluation
from graphnet_rnn.optimizers.first_order import SGD
from graphnet_rnn.settings import amount, whole_number
from graphnet_rnn.text.evaluation import Evaluator
from graphnet_rnn.text.reading import cost_over_text, read
from graphnet_rnn.training.cases import judged_by_step
from graphnet_rnn.training.scores import errors_of, f1_of, scores_of, scores_of_classes

EXAMPLE = """example:
  graphnet-rnn evaluate runs/book/model.safetensors other.txt --context 100
  graphnet-rnn evaluate runs/book/model.safetensors other.txt --dynamic 0.5
  graphnet-rnn evaluate runs/book/model.safetensors book.txt --colour --at 90000 --save reading.html
  graphnet-rnn evaluate runs/book/model.safetensors book.txt --costs costs.png --split"""

#: Themes of viz, which is imported only to draw.
THEMES = ("light", "dark", "colour-blind")
#: Maximum number of classes of a printed confusion matrix.
FEW_CLASSES = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", help="model file (.safetensors) of a training run")
    add(
        "data",
        help="text file; or arrays (.npz), table (.csv, .parquet) or music (.mid), as the model was trained on",
    )
    add_cell(parser)
    add_choices(parser)
    add(
        "--season",
        type=int,
        metavar="N",
        help="forecasts of a table: also compare with the value N rows before (24 for hours with a daily period)",
    )
    _add_reading(parser)


def _add_reading(parser: argparse.ArgumentParser) -> None:
    """Options for texts."""
    add = parser.add_argument
    add(
        "--context",
        type=int,
        default=50,
        help="number of unscored characters that the model reads first, in each lane",
    )
    add("--lanes", type=int, help="number of parts of the text to read in parallel (default: 32)")
    add(
        "--dynamic",
        type=float,
        metavar="RATE",
        help="dynamic evaluation: keep training on the text already read, with SGD of this learning rate",
    )
    add("--dynamic-time", type=int, metavar="N", help="characters between steps of --dynamic (default: 20)")
    add(
        "--dynamic-decay",
        type=float,
        metavar="D",
        help="--dynamic: decay toward the trained weights in each step, 0 to 1",
    )
    add("--unknown", metavar="CHAR", help="character that replaces unknown characters")
    add("--encoding", default="utf-8", help="encoding of the text file")
    add(
        "--colour",
        action="store_true",
        help="print an excerpt colored by the probability of each character, from a cold start and from a warm "
        "start after --context characters",
    )
    add(
        "--save",
        metavar="FILE",
        help="write the colored excerpt as a page (.html), picture (.svg), or text (.ansi, .txt)",
    )
    add(
        "--at",
        type=int,
        metavar="N",
        help="start of the excerpt, in characters (default: after --context characters)",
    )
    add("--length", type=int, default=600, metavar="N", help="length of the excerpt, in characters")
    add("--theme", choices=THEMES, default="light", help="colors; colour-blind: orange and blue")
    add("--costs", metavar="FILE", help="write a chart of the cost along the text; .svg, .png or .pdf")
    add(
        "--split",
        action="store_true",
        help="mark 80, 10 and 10 %% as training, validation and test text in the chart of --costs",
    )


def run(options: argparse.Namespace) -> int:
    _require_sense(options)
    network = load_for_use(options.model, options.cell)
    if network.vocabulary is None:
        return _judge(network, options)
    refuse(options.written & {*CHOICES, "season"}, "does not apply to a text")
    text = read_text(options.data, options.encoding)
    symbols = network.vocabulary.encode(text, options.unknown)
    excerpt = _excerpt(text, options)
    evaluator = _evaluator(network, _lanes(options, len(symbols)), options)
    from tqdm import tqdm

    with tqdm(unit="char", unit_scale=True, disable=not sys.stderr.isatty(), leave=False) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        result = evaluator(symbols, options.context, show)
    print(
        f"{result.bits:.4f} bits/char, accuracy {result.accuracy:.2%}, over {result.scored:,} characters "
        f"with at least {options.context} of context"
    )
    if options.colour or options.save:
        _show(network, text, excerpt, options)
    if options.costs:
        _draw_costs(network, text, _lanes(options, len(symbols)), options)
    return 0


def _judge(network: Network, options: argparse.Namespace) -> int:
    if Path(options.data).suffix.lower() not in ENDINGS:
        raise UsageError(
            f"{options.model} has no vocabulary: it was trained on sequences, not on text; give a file that ends in "
            f"{', '.join(ENDINGS)}"
        )
    refuse(options.written - {*CHOICES, "season", "model", "data", "cell", "debug"}, "applies only to texts")
    table = table_for(network, options, frame_of(options.data)) if is_table(options.data) else None
    is_forecast = table is not None and table.columns.horizon is not None and table.columns.classes is None
    is_forecast = is_forecast and network.loss == "squared"
    if not is_forecast:
        refuse(options.written & {"season"}, "applies only to forecasts of numbers in tables")
    if table is None:
        sequences = read_sequences(
            options.data, by_step=judged_by_step(network), **arrays_of(options, options.data)
        )
    else:
        sequences = table.sequences
        for note in table.notes:
            print(f"{options.data}: {note}")
    scores = scores_of(network, fitting_loss(sequences, network.loss))
    of = "step" if judged_by_step(network) else "case"
    steps, cases, more = f"{int(sequences.inside().sum()):,}", f"{len(sequences):,}", ""
    w = sequences.target_weights()
    scored = np.count_nonzero(w if w.ndim == 1 + bool(sequences.by_step) else w.any(axis=-1))
    if sequences.by_step and scored < sequences.inside().sum():
        steps = f"{scored:,} of {steps}"
    elif not sequences.by_step and scored < len(sequences):
        cases = f"{scored:,} of {cases}"
    if scores.confusion is not None:
        more = f", accuracy {scores.accuracy:.2%}, mean F1 score {f1_of(scores.confusion):.4f}"
    elif scores.mae is not None and (table is None or table.columns.horizon is None):
        more = f", MAE {scores.mae:.4g}, RMSE {scores.rmse:.4g}"
    print(f"{scores.loss:.4f} {network.unit} a {of}{more}, over {cases} cases, {steps} steps in all")
    if scores.confusion is not None and len(scores.confusion) <= FEW_CLASSES:
        classes = None if network.columns is None else network.columns.classes
        print(_confusion(scores.confusion, classes or [str(i) for i in range(network.outputs)]))
    if table is not None and is_forecast:
        print(_forecasts(table, scores.outputs, options.season))
    return 0


def _confusion(confusion: Array, names: Sequence[str]) -> str:
    """The confusion matrix, and the scores of each class, as text."""
    head = [in_brief(name, 12) for name in names]
    cells = [[name, *(f"{value:g}" for value in row)] for name, row in zip(head, confusion, strict=True)]
    scores = zip(head, *scores_of_classes(confusion), strict=True)
    each = [
        [name, *("-" if np.isnan(value) else f"{value:.4f}" for value in values)] for name, *values in scores
    ]
    tables = [["true \\ predicted", *head], *cells], [["class", "precision", "recall", "F1 score"], *each]
    return "\n\n".join(map(_aligned, tables))


def _forecasts(table: Table, outputs: Array, season: int | None) -> str:
    """Errors of the network beside those of naive forecasts, over the targets that all of them predict."""
    targets, w = table.sequences.targets, table.sequences.target_weights()
    kinds = {"network": outputs, "last value": table.naive()}
    if season is not None:
        kinds[f"value {season} rows before"] = table.naive(season)
    for each in kinds.values():
        w = np.where(np.isnan(each), 0, w)
    if not w.any():
        why = "" if season is None else f" for --season {season}"
        raise UsageError(f"{table.where} has too few rows{why}: no forecast has a target to compare it with")
    scale = table.naive_error(season or 1)
    rows = [["forecast", "MAE", "RMSE", "MASE"]]
    for name, predicted in kinds.items():
        mae, rmse = errors_of(np.nan_to_num(predicted), targets, w)
        with np.errstate(divide="ignore", invalid="ignore"):  # of a constant series
            scaled, _ = errors_of(np.nan_to_num(predicted) / scale, targets / scale, w)
        rows.append([name, f"{mae:.4g}", f"{rmse:.4g}", f"{scaled:.4g}"])
    return _aligned(rows)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(n) for c, n in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    )


def _require_sense(options: argparse.Namespace) -> None:
    require_apart(
        {"--save": options.save, "--costs": options.costs},
        {"model": options.model, "data": options.data, "cell": parts_of(options.cell or "").where},
    )
    require_ending("--save", options.save, PAGES, "the name of a page")
    require_ending("--costs", options.costs)
    if not (options.colour or options.save):
        refuse(
            options.written & {"at", "length", "theme"},
            "needs --colour or --save",
        )
    if not options.costs:
        refuse(options.written & {"split"}, "needs --costs")
    if options.dynamic is not None and (options.colour or options.save or options.costs):
        raise UsageError("--colour, --save and --costs show the model as it was trained; leave --dynamic out")


def _excerpt(text: str, options: argparse.Namespace) -> slice:
    start = max(0, options.context) if options.at is None else whole_number("--at", options.at, least=0)
    length = whole_number("--length", options.length)
    if (options.colour or options.save) and start >= len(text):
        raise UsageError(
            f"the text has {len(text):,} characters, so there is no excerpt at {start:,}; give a smaller --at"
        )
    return slice(start, start + length)


def _show(network: Network, text: str, excerpt: slice, options: argparse.Namespace) -> None:
    import viz

    readings = {"cold start": read(network, text[excerpt], unknown=options.unknown)}
    context = text[max(0, excerpt.start - options.context) : excerpt.start]
    if context:
        warm = read(network, text[excerpt], context, options.unknown)
        readings[f"warm start, after {len(context):,} characters"] = warm
    width = min(100, shutil.get_terminal_size().columns) if options.colour else 80
    if options.colour:
        print(f"\n{viz.reading(readings, max(2, width), options.theme)}")
    if options.save:
        page = viz.reading(readings, 80, options.theme, f"{Path(options.data).name} as read by a network")
        page.save(options.save)
        print(f"wrote {options.save}")


def _lanes(options: argparse.Namespace, characters: int) -> int:
    """Number of lanes, without lanes that would score nothing."""
    lanes = 32 if options.lanes is None else whole_number("--lanes", options.lanes)
    return min(lanes, max(1, characters - max(1, options.context)))


def _draw_costs(network: Network, text: str, lanes: int, options: argparse.Namespace) -> None:
    import viz

    costs = cost_over_text(
        network,
        Corpus.split(text) if options.split else text,
        context=options.context,
        lanes=lanes,
        unknown=options.unknown,
    )
    save_chart(viz.cost_over_text(costs), options.costs)


def _evaluator(network: Network, lanes: int, options: argparse.Namespace) -> Evaluator | DynamicEvaluation:
    names = ("time", "decay")
    given = {name: value for name in names if (value := getattr(options, f"dynamic_{name}")) is not None}
    if options.dynamic is None:
        refuse((f"dynamic_{name}" for name in given), "needs --dynamic")
        return Evaluator(network, lanes)
    if options.lanes not in (None, 1):
        raise UsageError(
            f"--dynamic reads the text in its order, in one lane; leave --lanes {options.lanes} out"
        )
    rate = amount("--dynamic", options.dynamic, above_zero=True)
    return DynamicEvaluation(network, SGD(rate), **given)
