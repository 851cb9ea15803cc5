"""Cost of variable-length sequences, compared with padded ones, bucketing by length, and PyTorch.

    python -m benchmarks.ragged [--cells LSTM GRU Elman Bidirectional] [--units 128] [--time 100] [--batch 32]
                                [--rounds 21] [--threads 2] [--cases 960]

Loss and gradient of a batch of sequences of 64 numbers with a softmax over 64 classes at each step, in turns, medians:
*padded*, all cases of the longest length; *ragged*, the same arrays with lengths, whose padding is ignored.
PyTorch, if installed: the same padded, with a mask on the loss, and as packed sequences.

Then an epoch of many cases whose lengths are distributed evenly, exponentially, or near the longest: ratio of computed
to actual steps with 1, 2, 4 and 8 buckets, and the time of an epoch.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet.system.streams import prepare_streams

WIDTH = CLASSES = 64
CELLS: dict[str, Callable[[int], rnn.Cell]] = {
    "LSTM": rnn.LSTM,
    "GRU": rnn.GRU,
    "Elman": rnn.Elman,
    "Bidirectional": lambda units: rnn.Bidirectional(rnn.LSTM(units // 2)),
}
SPREADS: dict[str, Callable[[np.random.Generator, int, int], Array]] = {
    "evenly": lambda draw, cases, longest: draw.integers(1, longest + 1, cases),
    "exponentially": lambda draw, cases, longest: np.clip(draw.exponential(longest / 4, cases), 1, longest),
    "near the longest": lambda draw, cases, longest: draw.integers(longest * 9 // 10, longest + 1, cases),
}
BUCKETS = (1, 2, 4, 8)


def network(cell: str, units: int) -> rnn.Network:
    return rnn.Network([CELLS[cell](units)], WIDTH, CLASSES, reads="vectors")


def data(steps: int, cases: int, lengths: Array) -> tuple[Array, Array]:
    draw = np.random.default_rng(0)
    x = draw.standard_normal((steps, cases, WIDTH)).astype("f4")
    t = draw.integers(0, CLASSES, (steps, cases))
    return x, np.where(np.arange(steps)[:, None] < lengths, t, 0)


def ours(cell: str, units: int, x: Array, t: Array, lengths: Array | None, threads: int) -> Callable[[], Any]:
    net = network(cell, units)
    u = net.unroll(*x.shape[:2], initial="zero", lengths=lengths is not None)
    inputs = [u.inputs, u.targets, *([] if u.lengths is None else [u.lengths])]
    nodes = [u.cost, *gn.gradient(u.cost, list(net.parameters.values()))]
    function = gn.compile(nodes, inputs, threads=threads)
    given = (x, t) if lengths is None else (x, t, lengths)
    return lambda: function(*given)


def theirs(
    cell: str, units: int, x: Array, t: Array, lengths: Array, threads: int
) -> dict[str, Callable[[], Any]]:
    """PyTorch: padded with a mask on the loss, and packed."""
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(threads)
    both = cell == "Bidirectional"
    kind = (
        torch.nn.LSTM
        if cell in ("LSTM", "Bidirectional")
        else torch.nn.GRU
        if cell == "GRU"
        else torch.nn.RNN
    )
    layer = kind(WIDTH, units // 2 if both else units, bidirectional=both)
    output = torch.nn.Linear(units, CLASSES)
    parameters = [*layer.parameters(), *output.parameters()]
    inside = torch.from_numpy(np.arange(len(x))[:, None] < lengths)
    inputs, targets, ends = torch.from_numpy(x), torch.from_numpy(t), torch.from_numpy(lengths)
    wanted = torch.where(inside, targets, -100).flatten()

    def loss(hidden: Any) -> Any:
        return torch.nn.functional.cross_entropy(output(hidden).flatten(0, 1), wanted)

    def step(hidden: Callable[[], Any]) -> None:
        for parameter in parameters:
            parameter.grad = None
        loss(hidden()).backward()

    def packed() -> Any:
        pack = torch.nn.utils.rnn.pack_padded_sequence(inputs, ends, enforce_sorted=False)
        return torch.nn.utils.rnn.pad_packed_sequence(layer(pack)[0], total_length=len(x))[0]

    return {"torch padded": lambda: step(lambda: layer(inputs)[0]), "torch packed": lambda: step(packed)}


def in_turns(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median milliseconds."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 2):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if turn > 1:
                times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(found) for name, found in times.items()}


def of_a_batch(options: argparse.Namespace) -> None:
    print(f"{options.batch} cases of 1 ... {options.time} steps, {options.units} units, milliseconds")
    print(
        f"{'network':<14} {'padded':>8} {'ragged':>8} {'ratio':>6} {'torch padded':>13} {'torch packed':>13}"
    )
    lengths = SPREADS["evenly"](np.random.default_rng(1), options.batch, options.time)
    lengths[0] = options.time
    x, t = data(options.time, options.batch, lengths)
    for cell in options.cells:
        calls = {
            "padded": ours(cell, options.units, x, t, None, options.threads),
            "ragged": ours(cell, options.units, x, t, lengths, options.threads),
        }
        # Separately: threads of PyTorch spin for a while, which would slow down the next contender.
        found = in_turns(calls, options.rounds)
        found |= in_turns(theirs(cell, options.units, x, t, lengths, options.threads), options.rounds)
        others = "".join(
            f"{found.get(name, float('nan')):14.2f}" for name in ("torch padded", "torch packed")
        )
        ratio = found["ragged"] / found["padded"]
        print(f"{cell:<14} {found['padded']:8.2f} {found['ragged']:8.2f} {ratio:6.3f}{others}")


def of_an_epoch(options: argparse.Namespace) -> None:
    print(
        f"\nan epoch of {options.cases} cases, batch {options.batch}, {options.cells[0]} of {options.units} units"
    )
    print(f"{'lengths':<18} {'buckets':>7} {'computed / there are':>21} {'seconds':>8} {'of 1 bucket':>12}")
    for name, spread in SPREADS.items():
        lengths = spread(np.random.default_rng(2), options.cases, options.time).astype(np.int64)
        lengths[0] = options.time
        x, t = data(options.time, options.cases, lengths)
        sequences = rnn.data.Sequences(x, t, lengths)
        calls, shares = {}, {}
        for buckets in BUCKETS:
            net = network(options.cells[0], options.units)
            problem = rnn.Arrays(
                net, sequences, batch=options.batch, valid=None, buckets=buckets, threads=options.threads
            )
            fed = [problem.feed(0, step).gradient_batches[0][0].shape for step in range(len(problem))]
            shares[str(buckets)] = sum(shape[0] * shape[1] for shape in fed) / lengths.sum()
            calls[str(buckets)] = epoch_of(problem)
        found = in_turns(calls, max(3, options.rounds // 7))
        for buckets in calls:
            seconds = found[buckets] / 1e3
            relative = found[buckets] / found["1"]
            print(f"{name:<18} {buckets:>7} {shares[buckets]:21.2f} {seconds:8.3f} {relative:12.2f}")


def epoch_of(problem: rnn.Arrays) -> Callable[[], None]:
    theta = problem.objective.start()

    def epoch() -> None:
        for step in range(len(problem)):
            problem.feed(0, step).gradient(theta)

    return epoch


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", nargs="+", choices=list(CELLS), default=list(CELLS))
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--time", type=int, default=100)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--cases", type=int, default=960)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    of_a_batch(options)
    of_an_epoch(options)


if __name__ == "__main__":
    prepare_streams()
    main()
