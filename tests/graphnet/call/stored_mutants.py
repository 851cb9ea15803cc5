"""Stored functions with odd contents under a seal that fits: each is refused in a sentence, or runs.

    python -m tests.graphnet.call.stored_mutants [--seed 0] [--mutants 10000] [--backend numba]

In a process of its own, since what is looked for ends processes: what is written last is the mutant that ended it.
Machine code is left alone but for single bits: that its own seal fits as well is malice.
"""

from __future__ import annotations

import argparse
import collections
import copy
import faulthandler
import hashlib
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.call.packing import LENGTH
from graphnet.call.stored import MAGIC
from graphnet.errors import GraphnetError
from tests.graphnet.ops.lattices import PathSums, Recursion

#: What stands in a header instead of what belongs there.
ODD: list[Any] = [
    -1, 0, 1, 2, 3, 7, 64, 255, 2**31, 2**44, 2**62, 2**63, -(2**63), 10**15, 10**30, 1.5, float("nan"), None, "", "x",
    "numba", "cuda", "numpy", "<f8", "|O", "leaf.0", "x" * 3000, "\ud800", [], [[]], {}, True, False,
]  # fmt: skip
#: Bytes that a mutant may take more than others did, and seconds that it may run.
MEMORY, SECONDS = 200 << 20, 30
FIRST = len(MAGIC) + 32


def functions(backend: str) -> Iterator[gn.Function]:
    """Functions with all kinds of kernels."""
    net = rnn.Network([rnn.LSTM(9)], inputs=5, outputs=5, seed=1)
    u = net.unroll(time=3, batch=6)
    nodes = [u.cost, *gn.gradient(u.cost, list(net.parameters.values()))]
    yield gn.compile(nodes, [u.inputs, u.targets, *u.initial], backend=backend, threads=2)
    W = gn.parameter(np.ones((30, 20), "float32"), name="W")
    F = gn.parameter(np.asfortranarray(np.ones((20, 40))), name="F")
    x, i = gn.input((25, 30), name="x", varying=True), gn.input((50,), "int64", name="i")
    y = gn.tanh(x @ W)
    rows = gn.take(y, gn.input((50,), "int32", name="k"))
    looked_up = gn.sum(rows * gn.one_hot(i, 20), 1)
    z = gn.cast(y, "float64") @ F
    outputs = [looked_up, gn.max(z, 0), gn.sum(z[::-1, 1:30:3], 1), gn.sum(z), z.T @ z, x > 0.5]
    more = gn.gradient(gn.sum(rows * rows) + gn.sum(z * z), [W, F, x])
    yield gn.compile([*outputs, *more], backend=backend, threads=1)
    v = gn.input((4096, 3), "float64", name="v")
    at = gn.input((4096,), "int64", name="at")
    yield gn.compile([gn.scatter_add(v, at, 5), gn.exp(v)], backend=backend, threads=3)
    if backend == "numba":  # elsewhere Python runs what a user wrote, which no file holds
        p, r = gn.input((40, 3, 5, 6), "float64", name="p"), gn.input((40, 5, 6), "float64", name="r")
        sums = Recursion(True)(p, r)
        nodes = [PathSums()(p), *gn.gradient(gn.sum(sums * sums), [p, r])]
        yield gn.compile(nodes, backend=backend, threads=2)


def split(content: bytes) -> tuple[dict[str, Any], bytes]:
    length = int.from_bytes(content[FIRST : FIRST + LENGTH], "little")
    return json.loads(content[FIRST + LENGTH : FIRST + LENGTH + length]), content[FIRST + LENGTH + length :]


def sealed(header: Any, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    body = len(text).to_bytes(LENGTH, "little") + text + data
    return MAGIC + hashlib.sha256(body).digest() + body


def slots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) within."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from slots(value[key])


def mutant_of_header(header: Any, chance: random.Random) -> None:
    name = chance.choice(list(header))
    found = [(header, name), *slots(header[name])]
    container, key = chance.choice(found)
    what = chance.random()
    if what < 0.5:
        container[key] = copy.deepcopy(chance.choice(ODD))
    elif what < 0.7 and isinstance(container[key], int):
        container[key] += chance.choice([-64, -8, -1, 1, 8, 64, 4096, 10**9])
    elif what < 0.8:
        del container[key]
    elif what < 0.9:
        other, at = chance.choice(found)
        container[key] = copy.deepcopy(other[at])
    elif isinstance(container, list):
        container.insert(key, copy.deepcopy(container[key]))


def mutant_of_arrays(header: Any, data: bytes, chance: random.Random) -> bytes:
    """A word of an array, or a byte of any."""
    held = bytearray(data)
    tapes, weights, start = [], [], 0
    for name, dtype, shape in header["arrays"]:
        nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if nbytes and name.split(".")[0] in ("words", "heads", "kernels", "ends"):
            tapes.append((start, nbytes))
            weights.append(3 if name.startswith("words") else 1)
        start += nbytes
    if tapes and chance.random() < 0.9:
        start, nbytes = chance.choices(tapes, weights)[0]
        words = np.frombuffer(held, np.int64, nbytes // 8, start)
        at = chance.randrange(len(words))
        old = int(words[at])
        new = chance.choice(
            [old + chance.choice([-64, -8, -1, 1, 2, 8, 64, 4096]), -old, 2 * old, old ^ 1 << chance.randrange(63),
             int(words[chance.randrange(len(words))]), *[odd for odd in ODD if type(odd) is int and abs(odd) < 2**63]]
        )  # fmt: skip
        words[at] = max(-(2**63), min(2**63 - 1, new))
    elif held:
        held[chance.randrange(len(held))] ^= 1 << chance.randrange(8)
    return bytes(held)


def mutant(content: bytes, chance: random.Random) -> bytes:
    header, data = split(content)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        what = chance.random()
        if what < 0.45 and header:
            mutant_of_header(header, chance)
        elif what < 0.9 and isinstance(header.get("arrays"), list):
            try:
                data = mutant_of_arrays(header, data, chance)
            except (TypeError, ValueError, AttributeError, OverflowError):  # of arrays that are none any more
                mutant_of_header(header, chance)
        elif what < 0.95:
            data = data[: chance.randrange(len(data) + 1)] + bytes(chance.randrange(2) * 16)
        else:
            raw = bytearray(sealed(header, data))
            raw[chance.randrange(FIRST, len(raw))] = chance.randrange(256)
            return bytes(raw[: len(MAGIC)]) + hashlib.sha256(raw[FIRST:]).digest() + bytes(raw[FIRST:])
    return sealed(header, data)


def used(path: Path) -> str:
    """What came of it: it "runs", or was "refused" in a sentence."""
    try:
        function = gn.load_function(path)
        if sum(node.nbytes for node in function.inputs) > MEMORY // 4:
            return "wants large arrays"
        function(*(np.zeros(node.shape, node.dtype) for node in function.inputs))
    except GraphnetError as error:
        text = str(error)
    else:
        return "runs"
    assert "\n" not in text, text
    assert len(text) < 400, text
    return "refused"


def main() -> None:
    import resource  # which Windows has not

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mutants", type=int, default=10_000)
    parser.add_argument("--backend", default="numba")
    options = parser.parse_args()
    outcomes: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "f.gn")
        contents = []
        for function in functions(options.backend):
            function.save(path)
            assert used(path) == "runs"
            contents.append(path.read_bytes())
            assert sealed(*split(contents[-1])) == contents[-1]
        for number in range(options.mutants):
            chance = random.Random(f"{options.seed} {number}")
            path.write_bytes(mutant(chance.choice(contents), chance))
            print(f"mutant {number}", end="\r", file=sys.stderr, flush=True)
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            outcomes[used(path)] += 1
            faulthandler.cancel_dump_traceback_later()
            took = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
            assert took < MEMORY, f"mutant {number} took {took >> 20} MiB"
    for outcome, count in outcomes.most_common():
        print(f"{count:7} {outcome}")


if __name__ == "__main__":
    main()
