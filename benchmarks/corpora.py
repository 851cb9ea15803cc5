"""Cost of a long text: seconds to read it, and peak memory while a network trains on it.

python -m benchmarks.corpora                          100 million characters, 5,900 different ones
python -m benchmarks.corpora --characters 1000000000  as many as you like (two bytes each, in the temporary folder)
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import graphnet_rnn as rnn
from graphnet.system.streams import prepare_streams

#: Characters that are drawn at once.
PIECE = 1 << 20


def write_text(path: Path, characters: int, different: int) -> None:
    """Writes characters with frequencies ~ 1/rank, from the letters on, each at least once."""
    generator = np.random.default_rng(0)
    shares = 1 / np.arange(1, different + 1)
    alphabet = [chr(97 + i) for i in range(different)]
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(alphabet))
        while characters > 0:
            drawn = generator.choice(different, min(PIECE, characters), p=shares / shares.sum())
            file.write("".join([alphabet[i] for i in drawn.tolist()]))
            characters -= PIECE


def peak() -> float:
    """Peak memory of this process, in GB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--characters", type=int, default=100_000_000)
    parser.add_argument("--different", type=int, default=5_900)
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.txt"
        write_text(path, options.characters, options.different)
        began = time.perf_counter()
        corpus = rnn.data.Corpus.read(path)
        print(f"{corpus!r}: {corpus.train.itemsize} bytes each")
        print(f"read in {time.perf_counter() - began:.1f} s, peak memory {peak():.2f} GB")
        size = len(corpus.vocabulary)
        network = rnn.Network([rnn.LSTM(options.units)], inputs=size, outputs=size)
        problem, optimizer = rnn.CarriedText(network, corpus), rnn.Adam(clip_norm=5.0)
        theta = problem.objective.start()
        state = optimizer.init(theta)
        for step in range(min(options.steps, len(problem))):
            report = optimizer.step(problem.feed(0, step), theta, state)
            problem.stepped(theta, report)
        print(f"{options.steps} steps of an LSTM of {options.units} units, peak memory {peak():.2f} GB")


if __name__ == "__main__":
    prepare_streams()
    main()
