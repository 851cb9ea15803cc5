"""A network as standalone C: one or more time steps, with the states as arguments and results."""

from __future__ import annotations

import os

import graphnet as gn
from graphnet.errors import BackendError
from graphnet.settings import path as named_file
from graphnet_rnn.errors import UsageError
from graphnet_rnn.network.network import Network, require_network
from graphnet_rnn.settings import one_of, whole_number


def export_c(
    network: Network,
    path: str | os.PathLike[str],
    time: int | None = None,
    batch: int = 1,
    initial: str = "given",
) -> str:
    """Writes the network as C11; returns the signature of the C function. See Function.save.

    network: the network to export, without dropout.
    path: a folder, or a file that ends in .c.
    time, batch: time steps and sequences of a call, default 1. A network that needs the whole sequence at once
    (Bidirectional layers, pool "mean" or "max") has no default time.
    initial: "given", the default; or "zero" or "learned" initial states, which are then no arguments.

    The C function reads x (time, batch, inputs), or symbols (time, batch), and the initial states, (batch, width) each.
    It writes the logits (with outputs=0, the output of the last layer) and the final states; initial and final states
    may be the same arrays. Weights are constants.
    Raises UsageError for invalid sizes, BackendError for a cell with an op that only Python runs, and if the files
    cannot be written.

    >>> network = rnn.Network([rnn.Elman(3)], inputs=4, outputs=2)
    >>> print(rnn.formats.export_c(network, "elman.c"))
    x[1, 1], h_0[1, 3] -> logits[1, 1, 2], final_h_0[1, 3]
    """
    require_network("export_c", network).require_finite("export_c")
    named = named_file("export_c: path", path)
    if time is None and not (network.causal and network.pool in (None, "last")):
        raise UsageError(
            "export_c: this network needs the whole sequence at once; give the number of time steps, time= (--time)"
        )
    time, batch = (
        whole_number("export_c: time", 1 if time is None else time),
        whole_number("export_c: batch", batch),
    )
    one_of("export_c: initial", initial, ("given", "zero", "learned"))
    labels = 0 if network.loss == "ctc" else None
    u = network.unroll(time, batch, training=False, labels=labels, initial=initial)
    names = [name for name, _ in network.state_names()]
    finals = [gn.label(state, f"final_{name}") for state, name in zip(u.final, names, strict=True)]
    inputs, outputs = (
        [u.inputs, *(u.initial if initial == "given" else [])],
        [gn.label(u.logits, "logits") if network.outputs else gn.label(u.hidden[-1], "hidden"), *finals],
    )
    function = gn.compile(outputs, inputs)
    if not os.fspath(path).endswith(".c"):
        try:
            named.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise UsageError(
                f"{named} is a file, not a folder; name a folder, or a file that ends in .c"
            ) from None
        except OSError as error:
            raise BackendError(
                f"export_c: cannot write {error.filename or named}: {error.strerror}"
            ) from None
        path = f"{named}/"
    function.save(path)
    return " -> ".join(", ".join(node.describe() for node in nodes) for nodes in (inputs, outputs))
