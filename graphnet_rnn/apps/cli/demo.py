"""Draw, train and check a small network, in about a minute.

Draws a cell and a short unrolled graph, trains on the source code of Python, plots the learning curve, and checks the
derivatives of the same cell.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from graphnet_rnn.apps.cli.answers import command_line, print_sample
from graphnet_rnn.apps.cli.console import Console
from graphnet_rnn.apps.cli.specs import described
from graphnet_rnn.cell.initializers import log_frequencies
from graphnet_rnn.cells.lstm import LSTM
from graphnet_rnn.data.text import Corpus, standard_library_text
from graphnet_rnn.errors import UsageError
from graphnet_rnn.files.whole import locked
from graphnet_rnn.network.network import Network
from graphnet_rnn.testing import check_cell, check_network
from graphnet_rnn.text.sampling import Sampler
from graphnet_rnn.training.folder import RunFolder
from graphnet_rnn.training.settings import EarlyStopping, Training
from graphnet_rnn.training.text import CarriedText
from graphnet_rnn.training.trainer import Trainer

EXAMPLE = """example:
  graphnet-rnn demo --seconds 30"""

MARKER = "made-by-graphnet-rnn-demo"
#: Files of a demo, and of a run resumed in its folder.
MADE = (
    "cell.svg", "cell.html", "unrolled.svg", "unrolled.html", "curve.png", "flight.png", "model.safetensors",
    "history.jsonl", "timing.jsonl", "checkpoint-*.safetensors", "*.part",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="demo", metavar="FOLDER", help="output folder; replaced each time")
    parser.add_argument("--seconds", type=float, default=60.0, help="maximum training time, in seconds")


class Paced(Console):
    """Console that stops when one more epoch would exceed the time."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.end = time.monotonic() + seconds
        self.epoch_start = time.monotonic()

    def epoch_ended(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        super().epoch_ended(trainer, row)
        now = time.monotonic()
        if now + (now - self.epoch_start) > self.end:
            trainer.stop("time is up")
        self.epoch_start = now


def run(options: argparse.Namespace) -> int:
    if not 0 <= options.seconds < math.inf:
        raise UsageError(f"--seconds must be a number of seconds >= 0, not {options.seconds}")
    with _fresh_folder(Path(options.out)) as folder:
        return _show(folder, options.seconds)


def _show(folder: Path, seconds: float) -> int:
    import viz
    from viz.drawing.render import installed_renderer

    corpus = Corpus.split(standard_library_text())
    symbols, frequencies = len(corpus.vocabulary), log_frequencies(corpus.train)
    network = Network([LSTM(128)], inputs=symbols, outputs=symbols, initial={"b_o": frequencies})
    network.vocabulary = corpus.vocabulary

    print("1. A cell is its equations:", described(LSTM)[0])
    cell_picture = viz.draw(LSTM)
    kind = "svg" if installed_renderer() else "html"
    cell, unrolled, curve = folder / f"cell.{kind}", folder / f"unrolled.{kind}", folder / "curve.png"
    cell_picture.save(cell)
    viz.draw(network.unroll(time=3, batch=1, training=False), style="compact").save(unrolled)
    print(f"   drawn in {cell}; unrolled over three steps in {unrolled}")
    print(f"   ({cell_picture.renderer})\n")

    print("2. It learns Python's own source code. Before training it writes:")
    print_sample("".join(Sampler(network).sample(120)))
    settings = Training(epochs=100, stopping=EarlyStopping(memory=3))
    trainer = Trainer(CarriedText(network, corpus), settings, folder, listeners=[Paced(seconds)])
    outcome = trainer.run()
    if outcome.reason == "interrupted":
        print(f"stopped; the files so far are in {folder}/")
        return 130
    files = [cell.name, unrolled.name, curve.name, "model.safetensors", "history.jsonl"]
    try:
        viz.training_curve(folder / "history.jsonl").savefig(curve, dpi=150)
    except viz.DrawingError as error:
        print(f"   {curve.name} was not drawn: {error}")
        files.remove(curve.name)

    print("\n3. The derivatives of the network that it trained, against finite differences:")
    check_network(network, lambda name, found: print(f"   {name:<13} {found}"))
    print("   and all laws of its cell, in a small network of its own:")
    check_cell(LSTM, lambda name, found: print(f"   {name:<13} {found}"))

    model = folder / "model.safetensors"
    print(
        f"\nFrom {network.theta.size:,} parameters: {outcome.best:.2f} bits per character on text that it has "
        f"not seen.\nFiles in {folder}/: {', '.join(files)}\n"
        f"Try next:\n"
        f"  {command_line()} sample {model} --temperature 0.6 --warm-up 'def '\n"
        f"  {command_line()} draw GRU --style compact --out gru.svg\n"
        f"  {command_line()} train YOUR_TEXT.txt --units 256"
    )
    return 0


@contextlib.contextmanager
def _fresh_folder(folder: Path) -> Iterator[Path]:
    """Empty folder for this demo; files of an earlier demo are removed, other files are kept."""
    marker = folder / MARKER
    if (
        folder.exists()
        and not marker.exists()
        and not (folder.is_dir() and all(map(_is_lock, folder.iterdir())))
    ):
        raise UsageError(f"{folder} exists, and was not created by the demo; name another with --out.")
    folder.mkdir(parents=True, exist_ok=True)
    busy = f"another demo is running in {folder}; wait for it, or name another folder with --out."
    with locked(marker, busy):
        with RunFolder(folder).locked():  # `train --resume` may be using the run of a demo
            for path in [path for name in MADE for path in folder.glob(name) if path.is_file()]:
                path.unlink()
        marker.touch()
        yield folder


def _is_lock(path: Path) -> bool:
    return path.name.endswith(".lock")
