"""Attention over the states of another network."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

import graphnet as gn
from graphnet.graph.node import Node
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.declaration import State
from graphnet_rnn.cell.initializers import Initializer
from graphnet_rnn.cells.combine import as_cell, output_or_one, parts_states
from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import MANY, one_of, shown, whole_number

#: How well a query q and a place of the memory m_s go together.
SCORES = ("additive", "dot")


class Attention(Cell):
    """α_s = softmax_s(e(h_{t-1}, m_s) + l_s), c = Σ_s α_s m_s;  h_t = inner([x_t, c], h_{t-1});  y_t = [h_t, c]

    inner: causal cell whose first state is h, or the number of units of an LSTM; 128 by default. memory: width of m_s,
    128 by default. places: number of places s, 10 by default.
    score: "additive" (default), e = tanh(h W_hq + m_s W_mq + b_q) w_qe; or "dot", e = (h W_hq) · m_s / √width.
    initial: initializers by weight name, see Cell.

    The memory is held in two states that no step changes: `memory`, all places one after another, and `l`, the log
    weight of each place (0, or very low for a place that is not used). rnn.attention_memory computes both from the
    outputs of another network. With zero initial states all places hold zeros.
    u.course("attention") is α at all time steps; viz.attention_map draws it.
    Source: Bahdanau et al. 2015, A.1.2 and A.2.2 ("additive"); Luong et al. 2015, eq. 8 ("dot"), scaled as in Vaswani
    et al. 2017, eq. 1.

    >>> cell = rnn.Attention(rnn.GRU(4), memory=3, places=5)
    >>> net = rnn.Network([cell], inputs=2, outputs=2)
    >>> net.unroll(time=7, batch=1).course("attention").shape
    (7, 1, 5)
    """

    sizes = ("memory", "places")

    def __init__(
        self,
        inner: Cell | int = 128,
        memory: int = 128,
        places: int = 10,
        score: str = "additive",
        *,
        initial: Mapping[str, Initializer] | None = None,
    ) -> None:
        self.inner = as_cell("Attention", "inner", inner)
        if not self.inner.causal or not self.inner.states:
            raise UsageError(
                f"Attention: inner must be a causal cell with a state, not {shown(self.inner, MANY)}"
            )
        taken = [state.name for state in self.inner.states if state.name in ("memory", "l")]
        if taken:
            raise UsageError(
                f"Attention: inner must not have the state {taken[0]}, which is one of Attention's own, so it cannot "
                f"be {shown(self.inner, MANY)}"
            )
        super().__init__(1, initial=initial)
        self.memory = whole_number("Attention: memory", memory)
        self.places = whole_number("Attention: places", places)
        self.score = one_of("Attention: score", score, SCORES)
        self.resolve()

    def resolve(self) -> None:
        read = self.reads + self.memory
        inner = self.inner.reading(read)
        parts = [replace(s, width=read) if s.width == "reads" else s for s in parts_states(inner)]
        own = {"memory": self.places * self.memory, "l": self.places}
        self.states = [*parts, *(State(name, width) for name, width in own.items())]
        self.output = State("y", output_or_one(inner) + self.memory)

    def step(self, x: Node, *states: Node) -> tuple[Node, ...]:
        *own, memory, l = states
        batch, places, width = x.shape[0], self.places, self.memory
        a = gn.label(gn.softmax(self._scores(own[0], memory) + l, axis=1), "attention")
        c = gn.reshape(
            gn.reshape(a, (batch, 1, places)) @ gn.reshape(memory, (batch, places, width)), (batch, width)
        )
        read = gn.concatenate([x, c], axis=1)
        h, after = self.part("inner", self.inner, read.shape[1]).advance(read, own)
        return gn.concatenate([h, c], axis=1), *after, memory, l

    def _scores(self, h: Node, memory: Node) -> Node:
        """e(h, m_s), (batch, places)"""
        batch, places, width = h.shape[0], self.places, self.memory
        if self.score == "dot":
            query = self.product("h", "q", h, width)
            each = gn.reshape(memory, (batch, places, width)) @ gn.reshape(query, (batch, width, 1))
            return gn.reshape(each, (batch, places)) / math.sqrt(width)
        # All places of all cases are rows; the same at each step, so that it is computed once.
        query = self.affine("q", units=width, h=h)
        keys = self.product("m", "q", gn.reshape(memory, (batch * places, width)), width)
        both = gn.reshape(keys, (batch, places, width)) + gn.reshape(query, (batch, 1, width))
        each = self.product("q", "e", gn.reshape(gn.tanh(both), (batch * places, width)), 1)
        return gn.reshape(each, (batch, places))


#: l of an unused place: its attention weight is 0 if any other place is used.
NOTHING = -1e9


def attention_memory(seen: Node, lengths: Node | None = None) -> dict[str, Node]:
    """First states of an Attention cell that attends to `seen`: {"memory": ..., "l": ...}

    seen: node (places, batch, width), usually the outputs of an encoder. lengths: int64 node (batch,), number of places
    of each case, at least 1; all places by default.
    Raises UsageError for nodes of other shapes.

    >>> encoder = rnn.Network([rnn.GRU(3)], inputs=2, outputs=0)
    >>> decoder = rnn.Network([rnn.Attention(4, memory=3, places=5)], inputs=2, outputs=2)
    >>> e = encoder.unroll(time=5, batch=1, initial="zero")
    >>> d = decoder.unroll(time=7, batch=1, initial=rnn.attention_memory(e.hidden[-1]))
    >>> d.logits.shape
    (7, 1, 2)
    """
    if not isinstance(seen, Node) or seen.ndim != 3:
        what = seen.describe() if isinstance(seen, Node) else shown(seen)
        raise UsageError(f"attention_memory: seen must be a node (places, batch, width), not {what}")
    with gn.scope(**seen.scope):
        return _first_states(seen, lengths)


def _first_states(seen: Node, lengths: Node | None) -> dict[str, Node]:
    places, batch, width = seen.shape
    memory = gn.reshape(gn.transpose(seen, (1, 0, 2)), (batch, places * width))
    if lengths is None:
        return {"memory": memory, "l": gn.fill(0, (batch, places), seen.dtype)}
    if not isinstance(lengths, Node) or lengths.shape != (batch,):
        what = lengths.describe() if isinstance(lengths, Node) else shown(lengths)
        raise UsageError(f"attention_memory: lengths must be a node ({batch},), not {what}")
    inside = gn.constant(np.arange(places)[None]) < gn.reshape(lengths, (batch, 1))
    zero = gn.fill(0, (batch, places), seen.dtype)
    return {"memory": memory, "l": gn.where(inside, zero, NOTHING)}
