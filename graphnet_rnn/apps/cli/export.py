"""Export a trained model: weights for PyTorch, an ONNX file, or standalone C."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from graphnet_rnn.apps.cli.models import load_for_use
from graphnet_rnn.apps.cli.options import add_cell, refuse
from graphnet_rnn.apps.cli.outputs import require_apart, require_ending
from graphnet_rnn.formats.c_export import export_c
from graphnet_rnn.formats.onnx_export import export_onnx
from graphnet_rnn.formats.state_dict import directions_of
from graphnet_rnn.formats.torch_weights import save_torch, torch_kind
from graphnet_rnn.network.network import Network

EXAMPLE = """example:
  graphnet-rnn export runs/book/model.safetensors --to onnx --out book.onnx
  graphnet-rnn export runs/book/model.safetensors --to torch --prefix lstm. --out book-torch.safetensors
  graphnet-rnn export runs/book/model.safetensors --to c --out book-c"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", help="model file (.safetensors) of a training run")
    add(
        "--to",
        choices=("torch", "onnx", "c"),
        required=True,
        help="format: PyTorch state dict in safetensors, ONNX, or C",
    )
    add("--out", required=True, metavar="FILE", help="output file; for C a folder, or a .c file")
    add_cell(parser)
    add(
        "--prefix",
        metavar="NAME.",
        help="torch: prefix of the recurrent module, with a dot (default: rnn.)",
    )
    add(
        "--output-prefix",
        metavar="NAME.",
        help="torch: prefix of the output layer, with a dot (default: linear.)",
    )
    add("--time", type=int, help="onnx, c: fixed number of time steps (default: onnx any, c 1)")
    add("--batch", type=int, help="onnx, c: fixed batch size (default: onnx any, c 1)")
    add(
        "--initial",
        choices=("given", "zero", "learned"),
        help="onnx, c: initial states: inputs of the exported model (given, the default), zeros, or the learned ones",
    )
    add(
        "--lengths",
        action="store_const",
        const=True,
        help="onnx: variable-length sequences; adds an input for the lengths",
    )


def run(options: argparse.Namespace) -> int:
    choices = {
        "torch": ("prefix", "output_prefix"),
        "onnx": ("time", "batch", "initial", "lengths"),
        "c": ("time", "batch", "initial"),
    }
    given = {k: v for names in choices.values() for k in names if (v := getattr(options, k)) is not None}
    refuse(given.keys() - {*choices[options.to]}, f"does not apply to --to {options.to}")
    out = Path(options.out)
    require_apart({"--out": options.out}, {"model": options.model})
    if options.to == "c":
        network = load_for_use(options.model, options.cell)
        print(f"wrote {out}: {export_c(network, out, **given)}")
        return 0
    ending = {"torch": ".safetensors", "onnx": ".onnx"}[options.to]
    require_ending("--out", options.out, [ending], f"a file for {options.to}")
    network = load_for_use(options.model, options.cell)
    if options.to == "onnx":
        export_onnx(network, out, **given)
        print(f"wrote {out}: {_onnx_signature(network, **given)}")
    else:
        save_torch(network, out, **given)
        print(f"wrote {out}: {_torch_modules(network, **given)}")
    return 0


def _torch_modules(network: Network, prefix: str = "rnn.", output_prefix: str = "linear.") -> str:
    kind, first = torch_kind(network), network.layers[0]
    (cell, *others), width = directions_of(first), first.widths[0]
    layers = f", num_layers={len(network.layers)}" if len(network.layers) > 1 else ""
    layers += ", bidirectional=True" if others else ""
    learned = cell.states if network.initial_state == "learned" else ()
    parts = [
        f"{_named(prefix)}torch.nn.{kind}({network.inputs}, {width}{layers})",
        f"{_named(output_prefix)}torch.nn.Linear({first.output_width}, {network.outputs})",
        *(
            f"initial.{s.name} ({len(network.layers) * (1 + len(others))}, 1, {width}), to be given as {s.name}_0"
            for s in learned
        ),
    ]
    return ", ".join(parts)


def _named(prefix: str) -> str:
    """`rnn = ` for "rnn."; "" for keys without a prefix."""
    return f"{prefix[:-1]} = " if prefix else ""


def _onnx_signature(network: Network, initial: str = "given", lengths: bool = False, **sizes: Any) -> str:
    states = [f"{state.name}{l}" for l, cell in enumerate(network.layers) for state in cell.states]
    inputs = [
        "x",
        *([f"initial_{state}" for state in states] if initial == "given" else []),
        *(["lengths"] if lengths else []),
    ]
    outputs = ["logits" if network.outputs else "hidden", *(f"final_{state}" for state in states)]
    return f"{', '.join(inputs)} -> {', '.join(outputs)}"
