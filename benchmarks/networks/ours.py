"""graphnet: the unrolled network compiled with its gradient, and its Gauss-Newton product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import graphnet as gn
import graphnet_rnn as rnn
from benchmarks.networks.candidate import Candidate
from benchmarks.networks.problem import Array, Arrays, Problem, merge, split
from graphnet.graph.node import Node


class MultiplicativeLSTM(rnn.Cell):
    """m = (x W_xm) ⊙ (h W_hm);  i, f, o = σ(x, m);  c' = f c + i tanh(x, m);  h' = o tanh(c')

    Source: Krause et al. 2016, eqs 16-21.
    """

    states = (rnn.State("h"), rnn.State("c"))

    def step(self, x: Node, h: Node, c: Node) -> tuple[Node, Node]:
        m = self.affine("m", x=x, bias=None) * self.affine("m", h=h, bias=None)
        i = gn.sigmoid(self.affine("i", x=x, m=m))
        f = gn.sigmoid(self.affine("f", x=x, m=m))
        o = gn.sigmoid(self.affine("o", x=x, m=m))
        c = f * c + i * gn.tanh(self.affine("g", x=x, m=m))
        return o * gn.tanh(c), c


class Highway(rnn.Cell):
    """For l = 1, 2, 3: h = tanh(x W_xh [l = 1] + s W_sl + b_l);  t = σ(the same form);  s ← h t + s (1 − t)

    Source: Zilly et al. 2016, eqs 7-9, with the carry gate coupled.
    """

    states = (rnn.State("s"),)

    def step(self, x: Node, s: Node) -> Node:
        for l in (1, 2, 3):
            read: dict[str, Any] = {"x": x, "s": s} if l == 1 else {"s": s}
            h = gn.tanh(self.affine(f"h{l}", **read))
            t = gn.sigmoid(self.affine(f"t{l}", **read))
            s = h * t + s * (1 - t)
        return s


CELLS: dict[str, type[rnn.Cell]] = {
    "LSTM": rnn.LSTM,
    "GRU": rnn.GRU,
    "Elman": rnn.Elman,
    "mLSTM": MultiplicativeLSTM,
    "peephole": rnn.LSTMPeephole,
    "RHN": Highway,
}


def candidates(contender: str, task: str, problem: Problem, options: dict[str, Any]) -> list[Candidate]:
    """One candidate: `gn.compile` on the chosen back end."""
    made: dict[str, Any] = {}

    def make() -> Callable[[], tuple[Array, ...]]:
        net = rnn.Network([CELLS[problem.cell](problem.hidden)], problem.symbols, problem.symbols)
        for name, array in split(problem.cell, problem.weights()).items():
            net.parameters[name].value[...] = array
        u = net.unroll(problem.steps, problem.batch, initial="zero")
        parameters = list(net.parameters.values())
        x, t = problem.data()
        how = {"backend": options["backend"], "threads": options["threads"]}
        if task == "gradient":
            outputs = [u.cost, *gn.gradient(u.cost, parameters)]
            function = gn.compile(outputs, [u.inputs, u.targets], **how)
            arrays = [x, t]
        else:
            v = split(problem.cell, problem.direction())
            nodes = {p: gn.input(p.shape, p.dtype, name=f"v {name}") for name, p in net.parameters.items()}
            outputs = gn.gauss_newton_product(u.cost, nodes)
            function = gn.compile(outputs, [u.inputs, u.targets, *nodes.values()], **how)
            arrays = [x, t, *(v[name] for name in net.parameters)]
        made.update(names=list(net.parameters), memory=int(function.memory))
        return lambda: function(*arrays)

    def read(result: tuple[Array, ...]) -> Arrays:
        loss, derivatives = ({"loss": result[0]}, result[1:]) if task == "gradient" else ({}, result)
        return {**loss, **merge(problem.cell, dict(zip(made["names"], derivatives, strict=True)))}

    return [Candidate("", make, read, memory=lambda: made.get("memory"))]
