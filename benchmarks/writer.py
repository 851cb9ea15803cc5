"""Time from a key to the writer's suggestion: the model reads the key, and draws characters up to the next white space.

    python -m benchmarks.writer [--units 512] [--layers 2] [--keys 200] [--texts 0 2000]

A draft as in `graphnet-rnn write`, of an LSTM with random weights, on one core. "first": until the first character of a
suggestion; "whole": all of it, up to LONGEST characters; "undo": one key undone. Medians and the slowest of twenty, in
milliseconds, for texts of several lengths: no time may grow with the text.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import graphnet_rnn as rnn
from graphnet.system.streams import prepare_streams
from graphnet_rnn.apps.writer import Draft

LETTERS = "".join(sorted("\n abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,;:!?'-()"))


def measured(units: int, layers: int, keys: int, before: int) -> dict[str, list[float]]:
    """Seconds of each."""
    network = rnn.Network([rnn.LSTM(units)] * layers, len(LETTERS), len(LETTERS), seed=0)
    network.vocabulary = rnn.data.Vocabulary(LETTERS)
    draft = Draft(network, seed=0)
    random = np.random.default_rng(0)
    draft.type("".join(random.choice(list(LETTERS[1:]), before)))
    found: dict[str, list[float]] = {"first": [], "whole": [], "undo": []}

    def timed(name: str, work: Callable[[], object]) -> None:
        start = time.perf_counter()
        work()
        found[name].append(time.perf_counter() - start)

    for key in random.choice(list(LETTERS[1:]), keys):

        def first(key: str = str(key)) -> None:
            draft.type(key)
            draft.grow()

        timed("first", first)
        start = found["first"][-1]
        timed("whole", draft.suggest)
        found["whole"][-1] += start
        draft.forget_suggestion()
        if len(found["undo"]) < keys // 4:
            timed("undo", draft.undo)
            draft.type(str(key))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.writer", description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, default=512)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument(
        "--texts", type=int, nargs="+", default=[0, 2000], help="lengths of the text before the key"
    )
    options = parser.parse_args()
    print(f"{options.layers} × LSTM({options.units}), {len(LETTERS)} symbols, {options.keys} keys\n")
    print(
        "| characters before | first, ms | 95 % | whole, ms | 95 % | undo, ms | 95 % |\n|---|---|---|---|---|---|---|"
    )
    for before in options.texts:
        found = measured(options.units, options.layers, options.keys, before)
        cells = [f"{1e3 * np.quantile(times, q):.2f}" for times in found.values() for q in (0.5, 0.95)]
        print(f"| {before:,} | {' | '.join(cells)} |")


if __name__ == "__main__":
    prepare_streams()
    main()
