"""Kernels and thread code are valid machine code for other processors and systems."""

from __future__ import annotations

import sys

import llvmlite.binding as llvm
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.backends.numba import tape
from graphnet.backends.numba.cores import team
from graphnet.backends.numba.machine import Machine
from graphnet.backends.numba.schedule import make_schedule
from graphnet.graph.graph import Graph
from tests.tables import some_quick

#: LLVM's name of the platform -> Python's name of its system, processor, bytes of a vector, registers.
PLATFORMS = {
    "aarch64-unknown-linux-gnu": ("linux", "neoverse-n1", 16, 32),
    "arm64-apple-darwin": ("darwin", "apple-m1", 16, 32),
    "x86_64-pc-windows-msvc": ("win32", "haswell", 32, 16),
}
CELLS = [
    rnn.LSTM(9),
    rnn.GRU(5),
    rnn.RHN(4, depth=2),
    rnn.GLNN(5, edges=2),
    rnn.Attention(rnn.Elman(3), 2, 2),
]


class Foreign(Machine):
    def __init__(self, triple: str) -> None:
        super().__init__()
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        self._target, self.triple = llvm.Target.from_triple(triple), triple
        _, self.processor, self.vector_bytes, self.registers = PLATFORMS[triple]
        self.features, self.avx512 = "", False

    def assembled(self, text: str) -> bytes:
        return self._compile(text.replace("@kernel(", "@graphnet_kernel("))


@pytest.mark.parametrize("triple", some_quick(PLATFORMS, ["aarch64-unknown-linux-gnu"]))
def test_kernels_assemble(triple: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Foreign(triple)
    monkeypatch.setattr(team, "this_machine", lambda: machine)
    monkeypatch.setattr(sys, "platform", PLATFORMS[triple][0])
    work, service = (
        team._run_text.__wrapped__(),
        team._serve_text.__wrapped__(),
    )  # not those of this machine, cached
    assert ("@llvm.x86.sse2.pause()" if "x86" in triple else "@llvm.aarch64.hint(i32 1)") in work
    texts = {tape._run_text(False), tape._run_text(True), work, service}
    for cell in CELLS:
        net = rnn.Network([cell], 6, 6, seed=0)
        cost = net.unroll(time=2, batch=5).cost
        weights = net.parameters
        moved = gn.rop([cost], {node: node for node in weights.values()})
        graph = Graph([cost, *gn.gradient(cost, weights), *moved])
        for optimize in gn.passes.DEFAULT:
            graph = optimize(graph)
        texts.update(make_schedule(graph, machine, 2, check=False).kernels)
    x = gn.input((7, 33), "float64", name="x")
    others = [gn.exp(x), gn.argmax(x, axis=1), gn.sum(x.T @ x), gn.cast(x, "int64") % 3, gn.cumsum(x, axis=1)]
    texts.update(make_schedule(Graph(others, [x]), machine, 2, check=True).kernels)
    assert len(texts) > 50
    for text in sorted(texts):
        assert machine.assembled(text)
