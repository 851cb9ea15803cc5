"""Step-by-step inference: batch 1, 64 inputs and 64 outputs, states passed on, constant weights; µs per step.

    python -m benchmarks.streaming [--units 32 64 128 256 512 1024] [--cells LSTM GRU Own] [--threads 1]

graphnet: `rnn.Runner(net, frozen=True)`; compiled: its compiled function, with `again`; any weights: the same function
without `again`, for weights that may change. PyTorch: LSTMCell or GRUCell (or the equations of the own cell) and
Linear, eager, scripted, and compiled (`--compiled`, which takes half a minute each). onnxruntime: the file of
`rnn.formats.export_onnx`. All steps are interleaved in turns, and each figure is the minimum over turns of the median
of 50 steps, with pauses between turns, since threads of some libraries spin for a while. floor: the time in which one
core, or two, takes the maximum of as many numbers as there are weights.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
from benchmarks.standalone import Own
from graphnet.graph.node import Array
from graphnet.system.streams import prepare_streams

WIDTH, STEPS = 64, 50
#: Seconds between turns.
REST = 0.02
CELLS: dict[str, type[rnn.Cell]] = {"LSTM": rnn.LSTM, "GRU": rnn.GRUResetAfter, "Own": Own}

#: x and the states before -> the states after, of any library's kind.
Step = Callable[[Array, Any], Any]


def ours(net: rnn.Network, threads: int) -> Iterator[tuple[str, Step, Any]]:
    runner = rnn.Runner(net, threads=threads, frozen=True)
    yield "graphnet", lambda x, states: runner(x, states)[1], net.zero_states(1)
    x = gn.input((1, 1, WIDTH), "float32", name="x", varying=True)
    initial = [gn.input((1, n), "float32", name=name, varying=True) for name, n in net.state_names()]
    u = net.unroll(1, 1, training=False, inputs=x, initial=initial)
    function = gn.compile([u.logits, *u.final], [x, *initial], threads=threads)
    function(np.zeros((1, 1, WIDTH), "float32"), *net.zero_states(1))
    yield "compiled", lambda x, states: function.again(x, *states)[1:], net.zero_states(1)
    yield "any weights", lambda x, states: function(x, *states)[1:], net.zero_states(1)


def onnx(net: rnn.Network, threads: int) -> Iterator[tuple[str, Step, Any]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        rnn.formats.export_onnx(net, path, time=1, batch=1)
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    yield (
        "onnxruntime",
        lambda x, states: session.run(None, dict(zip(names, (x, *states), strict=True)))[1:],
        (net.zero_states(1)),
    )


def torch_step(kind: str, net: rnn.Network) -> tuple[Any, Any]:
    """A module, (x, states) -> (o, states), with its own weights, and its initial states."""
    import torch

    hidden = net.layers[0].units
    h = torch.zeros(1, hidden)

    class LSTMStep(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.out = torch.nn.LSTMCell(WIDTH, hidden), torch.nn.Linear(hidden, WIDTH)

        def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor):  # type: ignore[no-untyped-def]
            h, c = self.cell(x, (h, c))
            return self.out(h), h, c

    class GRUStep(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.out = torch.nn.GRUCell(WIDTH, hidden), torch.nn.Linear(hidden, WIDTH)

        def forward(self, x: torch.Tensor, h: torch.Tensor):  # type: ignore[no-untyped-def]
            h = self.cell(x, h)
            return self.out(h), h

    class OwnStep(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.read = torch.nn.Linear(WIDTH, 2 * hidden)
            self.W_hf, self.W_hh = (torch.nn.Linear(hidden, hidden, bias=False) for _ in range(2))
            self.out = torch.nn.Linear(hidden, WIDTH)

        def forward(self, x: torch.Tensor, h: torch.Tensor):  # type: ignore[no-untyped-def]
            x_f, x_h = torch.chunk(self.read(x), 2, dim=1)
            f = torch.sigmoid(x_f + self.W_hf(h))
            h = (1 - f) * h + f * torch.tanh(x_h + self.W_hh(f * h))
            return self.out(h), h

    module = {"LSTM": LSTMStep, "GRU": GRUStep, "Own": OwnStep}[kind]()
    return module.eval(), (h, h.clone()) if kind == "LSTM" else (h,)


def torch_steps(kind: str, net: rnn.Network, threads: int, compiled: bool) -> Iterator[tuple[str, Step, Any]]:
    import torch

    torch.set_num_threads(threads)
    module, first = torch_step(kind, net)
    forms = {"PyTorch": module, "scripted": torch.jit.script(module)}
    if compiled:
        forms["torch.compile"] = torch.compile(module, fullgraph=True)
    for name, form in forms.items():

        def step(x: Array, states: Any, form: Any = form) -> Any:
            with torch.inference_mode():
                return form(torch.from_numpy(x[0]), *states)[1:]

        yield name, step, first


def measured(steps: list[tuple[str, Step, Any]], turns: int) -> dict[str, float]:
    """µs per step of each contender: the minimum of the medians of interleaved turns."""
    x = np.random.default_rng(0).standard_normal((STEPS, 1, 1, WIDTH)).astype("float32")
    found = {name: float("inf") for name, _, _ in steps}
    for turn in range(turns + 1):
        for name, step, states in steps:
            times = []
            time.sleep(REST)
            for column in x:
                start = time.perf_counter()
                states = step(column, states)
                times.append(time.perf_counter() - start)
            if turn:
                found[name] = min(found[name], statistics.median(times) * 1e6)
    return found


def floor(net: rnn.Network, threads: int) -> float:
    """µs to read as many numbers as there are weights, from the caches in which repeated reads leave them."""
    x = gn.input((net.theta.size,), "float32", name="x")
    function = gn.compile([gn.max(x)], [x], threads=threads, updates={})
    array, times = np.ones(net.theta.size, "float32"), []
    for _ in range(200):
        start = time.perf_counter()
        function(array)
        times.append(time.perf_counter() - start)
    return min(times) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--units", type=int, nargs="+", default=[32, 64, 128, 256, 512, 1024])
    parser.add_argument("--cells", nargs="+", choices=list(CELLS), default=list(CELLS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--compiled", action="store_true", help="measure torch.compile, too")
    options = parser.parse_args()
    threads, heading = options.threads, True
    for kind in options.cells:
        for units in options.units:
            net = rnn.Network([CELLS[kind](units)], WIDTH, WIDTH, reads="vectors", loss="squared", seed=0)
            steps = [
                *ours(net, threads),
                *torch_steps(kind, net, threads, options.compiled),
                *onnx(net, threads),
            ]
            found = measured(steps, options.turns)
            if heading:
                print(f"| cell | units | {' | '.join(found)} | best peer / graphnet | floor |")
                print(f"|---|---|{'---|' * (len(found) + 2)}", flush=True)
                heading = False
            peers = min(found[name] for name in list(found)[3:])
            print(
                f"| {kind} | {units} | {' | '.join(f'{us:.1f}' for us in found.values())} | "
                f"{peers / found['graphnet']:.2f} | {floor(net, threads):.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    prepare_streams()
    main()
