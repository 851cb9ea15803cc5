"""Forecasts of daily weather: networks beside naive forecasts and regressions on lagged values.

    pip install vega_datasets scikit-learn
    python -m benchmarks.forecasts [--seeds 3]

Data: Seattle's weather 2012 to 2015 (vega_datasets). Each day, the maximum temperature of the next seven days is
forecast. All methods learn from 2012 to 2014 and are tested on each day of 2015. The regressions (scikit-learn with its
default settings) read the temperature, rain and wind of the last 28 days, the weather of the last day, and the day of
the year; a network reads the rows one after another. Its best epoch is that of the last tenth of the training rows.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet.system.streams import prepare_streams

HORIZON, LAGS = 7, 28
COLUMNS: dict[str, Any] = {"targets": "temp_max", "time": "date", "calendar": "day", "horizon": HORIZON}


def table() -> dict[str, list[str]]:
    """Columns of the file, without importing its package, which needs pandas."""
    found = importlib.util.find_spec("vega_datasets")
    if found is None or found.origin is None:
        raise SystemExit("benchmarks.forecasts needs: pip install vega_datasets scikit-learn")
    with (Path(found.origin).parent / "_data" / "seattle-weather.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: [row[name] for row in rows] for name in rows[0]}


def methods(columns: dict[str, list[str]], seeds: int) -> Iterator[tuple[str, list[Array]]]:
    """Yields the name of a method and its forecasts (rows, HORIZON), one array for each seed."""
    whole = rnn.data.Table(columns, **COLUMNS)
    yield "last value", [whole.naive()[:, 0]]
    yield "value 365 days before", [whole.naive(365)[:, 0]]
    test = tested(columns)
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import RidgeCV
    from sklearn.multioutput import MultiOutputRegressor

    x, data = lagged(whole.inputs[:, 0]), whole.sequences
    train = np.flatnonzero(~test)[LAGS:-HORIZON]
    regressions: dict[str, Any] = {
        "ridge regression": RidgeCV(np.logspace(-2, 4, 13)),
        "gradient boosting": MultiOutputRegressor(HistGradientBoostingRegressor(random_state=0)),
    }
    for name, regression in regressions.items():
        yield name, [regression.fit(x[train], data.targets[train, 0]).predict(x)]
    past = {
        name: [cell for cell, late in zip(column, test, strict=True) if not late]
        for name, column in columns.items()
    }
    for cell in (rnn.GRU, rnn.LSTM):
        yield f"{cell.__name__}, 64 units", [network(cell(64), past, columns, seed) for seed in range(seeds)]


def tested(columns: dict[str, list[str]]) -> Array:
    return np.array([date.startswith("2015") for date in columns["date"]])


def lagged(x: Array) -> Array:
    """Inputs of the last days beside each other; categories and calendar only of the last day."""
    whole = rnn.data.Table(table(), **COLUMNS).columns.input_names()
    numbers = [i for i, name in enumerate(whole) if " " not in name]
    before = [np.roll(x[:, numbers], lag, axis=0) for lag in range(1, LAGS)]
    return np.concatenate([x, *before], axis=1)


def network(cell: rnn.Cell, past: dict[str, Array], whole: dict[str, list[str]], seed: int) -> Array:
    """Forecasts of a network that was trained on the past."""
    train = rnn.data.Table(past, **COLUMNS, pieces=100)
    inputs = len(train.columns.input_names())
    learned, kept = train.split(0.1)
    scaling = rnn.data.Scaling.of(learned)
    net = rnn.Network([cell], inputs, HORIZON, "squared", scaling=scaling, seed=seed)
    settings = rnn.Training(rnn.Adam(0.003, clip_norm=1.0), epochs=60)
    trainer = rnn.Trainer(rnn.Arrays(net, learned, valid=kept, batch=2), settings, progress=False)
    trainer.run()
    trainer.take_best()
    found = rnn.data.Table(whole, train.columns)
    outputs: Array = rnn.run(net, found.inputs)[0][:, 0]
    return outputs


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="runs of each network")
    seeds = parser.parse_args().seeds
    columns = table()
    whole = rnn.data.Table(columns, **COLUMNS)
    targets, weights = whole.sequences.targets[:, 0], whole.sequences.target_weights()[:, 0]
    rows = tested(columns)[:, None] & (weights > 0)
    print("| method | MAE, °C | 1 day ahead | 7 days ahead | RMSE, °C |\n|---|---:|---:|---:|---:|")
    for name, found in methods(columns, seeds):
        errors = np.array([np.where(rows, each - targets, np.nan) for each in found])
        mae, ahead = np.nanmean(abs(errors)), np.nanmean(abs(errors), axis=(0, 1))
        rmse = np.sqrt(np.nanmean(errors**2, axis=(1, 2))).mean()
        print(f"| {name} | {mae:.2f} | {ahead[0]:.2f} | {ahead[-1]:.2f} | {rmse:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    prepare_streams()
    raise SystemExit(main())
