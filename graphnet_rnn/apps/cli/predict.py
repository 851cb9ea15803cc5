"""Predict sequences with a trained model; writes a file of arrays or a table.

Classes are written as probabilities and as the most probable class, bits as probabilities, numbers unchanged.
Predictions of tables have the cases and times of the table, and the names of the targets. A model with a horizon
forecasts the rows after the end of each case.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.apps.cli.answers import save_chart
from graphnet_rnn.apps.cli.material import add_choices, arrays_of, table_for
from graphnet_rnn.apps.cli.models import load_for_use
from graphnet_rnn.apps.cli.options import add_cell
from graphnet_rnn.apps.cli.outputs import require_apart, require_ending
from graphnet_rnn.apps.cli.specs import parts_of
from graphnet_rnn.data.frame import frame_of
from graphnet_rnn.data.predicted import predicted
from graphnet_rnn.data.sequence_files import LENGTHS, read_inputs
from graphnet_rnn.data.table_files import is_table, require_writer, table_bytes
from graphnet_rnn.errors import UsageError
from graphnet_rnn.files.whole import write_atomically
from graphnet_rnn.network.running import run as run_network

EXAMPLE = """example:
  graphnet-rnn predict runs/weather-LSTM/model.safetensors weather.csv --pieces 48 --out new.csv
  graphnet-rnn predict runs/seattle/model.safetensors seattle.csv --out next.csv --chart next.png"""

KINDS = (".npz", ".csv", ".parquet")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", help="model file (.safetensors) of a training run")
    add("data", help="arrays (.npz), table (.csv, .parquet) or music (.mid)")
    add(
        "--out",
        metavar="FILE",
        required=True,
        help="output file: .npz with shape (time, cases, ...), or a table: .csv, .parquet",
    )
    add("--chart", metavar="FILE", help="write a chart of the forecasts; .svg, .png or .pdf")
    add_cell(parser)
    add_choices(parser, predicts=True)


def run(options: argparse.Namespace) -> int:
    where = parts_of(options.cell or "").where
    require_apart(
        {"--out": options.out, "--chart": options.chart},
        {"model": options.model, "data": options.data, "cell": where},
    )
    require_ending("--out", options.out, KINDS, "the name of predictions")
    require_ending("--chart", options.chart)
    require_writer(options.out)
    network = load_for_use(options.model, options.cell)
    if network.vocabulary is not None:
        raise UsageError(f"{options.model} is a model of text; use the command sample")
    table = table_for(network, options, frame_of(options.data)) if is_table(options.data) else None
    if table is None:
        x, lengths = read_inputs(options.data, **arrays_of(options, options.data, predicted=True))
        if x.ndim == 3 and x.shape[-1] != network.inputs:
            raise UsageError(
                f"the model reads {network.inputs} inputs, but those of {options.data} are {x.shape[-1]} numbers wide"
            )
    else:
        x, lengths = table.inputs, table.lengths
        for note in table.notes:
            print(f"{options.data}: {note}")
    if options.chart and (
        table is None or table.columns.horizon is None or table.columns.classes is not None
    ):
        raise UsageError(
            "--chart shows forecasts of numbers in tables, of a model that was trained with --horizon; leave it out"
        )
    outputs, _ = run_network(network, x, lengths=lengths)
    found = predicted(outputs, network.loss)
    steps = x.shape[0] * x.shape[1] if lengths is None else int(lengths.sum())
    names, size = list(found), f"{x.shape[1]:,} cases, {steps:,} steps in all"
    if options.out.lower().endswith(".npz"):
        content = _arrays(found if lengths is None else {**found, LENGTHS: lengths})
    elif table is None:
        content = table_bytes(options.out, _columns(found, len(x), lengths, network.pool is None))
    else:
        columns = table.predictions(outputs, network.loss)
        content = table_bytes(options.out, columns)
        names = list(columns)
        if (horizon := table.columns.horizon) is not None:
            names, size = ["forecasts"], f"the next {horizon:,} rows of each case"
    write_atomically(options.out, content)
    print(f"wrote {options.out}: {', '.join(names)} of {size}")
    if options.chart and table is not None:
        import viz

        save_chart(viz.forecast(table.forecasts(outputs, network.loss)), options.chart)
    return 0


def _arrays(found: Mapping[str, Array]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **dict(found))  # type: ignore[arg-type]
    return file.getvalue()


def _columns(
    found: Mapping[str, Array], time: int, lengths: Array | None, by_step: bool
) -> dict[str, list[Any]]:
    """Columns with a row for each time step of each case, or for each case."""
    case = np.arange(next(iter(found.values())).shape[int(by_step)])
    rows: tuple[Array, ...] = (case,)
    columns = {"case": case.tolist()}
    if by_step:
        ends = np.full(len(case), time) if lengths is None else lengths
        step = np.concatenate([np.arange(end) for end in ends])
        case = np.repeat(case, ends)
        rows = step, case
        columns = {"case": case.tolist(), "step": step.tolist()}
    for name, array in found.items():
        values = array[rows].reshape(len(case), -1).T.tolist()
        columns.update(
            (name if len(values) == 1 else f"{name}_{n}", column) for n, column in enumerate(values)
        )
    return columns
