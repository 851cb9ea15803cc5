"""Seq2Seq: an encoder reads a sequence, a decoder writes another one, of another length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cells.attention import Attention, attention_memory
from graphnet_rnn.cells.combine import Bidirectional
from graphnet_rnn.data.predicted import log_softmax
from graphnet_rnn.data.sequences import padded
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.model import Model
from graphnet_rnn.network.network import Network, require_network
from graphnet_rnn.network.running import Runner, array_of, checked_floats
from graphnet_rnn.network.unroll import Unrolled
from graphnet_rnn.settings import has_items, listed, shown, whole_number

#: Maximum number of cases that are decoded at once.
CASES = 64


class Seq2Seq(Model):
    """p(y_1 ... y_m | x_1 ... x_n) = Π_j p(y_j | y_1 ... y_{j-1}, encoder(x)),  y_{m+1} = the end symbol

    encoder: network with outputs=0. Its last layer may be bidirectional if the decoder has attention.
    decoder: network that reads and writes symbols, with one more than the targets have: the last one begins and ends a
    sequence. If a layer is rnn.Attention, it attends to the outputs of the encoder; otherwise the decoder starts from
    the final states of the encoder, which must have the same widths.
    longest: maximum lengths of sources and targets.
    Seq2Seq.of(...) makes both networks from a cell. Raises UsageError.

    Train it with rnn.GraphCases on `model.arrays(sources, targets)`: the decoder reads the correct previous symbols
    (teacher forcing). The loss of a case is -ln p, in nats. Then `generate` writes.
    Source: Sutskever, Vinyals & Le 2014; with attention Bahdanau, Cho & Bengio 2015.

    >>> model = rnn.Seq2Seq.of(rnn.GRU(8), inputs=5, outputs=5, longest=(3, 3))
    >>> sources, targets = [[0, 1], [2], [3, 4, 1], [4]], [[1, 0], [2], [1, 4, 3], [4]]
    >>> problem = rnn.GraphCases(model, model.arrays(sources, targets), batch=4, valid=None)
    >>> outcome = rnn.Trainer(problem, rnn.Training(rnn.Adam(0.05), epochs=60, stopping=None)).run()
    >>> model.generate([[0, 1], [4]], width=2)
    [[1, 0], [4]]
    >>> bool(model.log_probabilities([[2]], [[2]])[0] > -0.5)
    True
    >>> model.attention([[0, 1]], [[1, 0]]).shape  # steps with the end symbol, cases, steps of the source
    (4, 1, 3)
    >>> model.unroll(2, feedback="likeliest", training=False).logits.shape
    (4, 2, 6)
    """

    def __init__(self, encoder: Network, decoder: Network, longest: Sequence[int]) -> None:
        self.encoder = require_network("Seq2Seq", encoder)
        self.decoder = require_network("Seq2Seq", decoder)
        self.longest = _two_lengths(longest)
        if encoder.outputs:
            raise UsageError(f"Seq2Seq: encoder must have outputs=0, not {encoder.outputs}")
        if not decoder.predicts_symbols or not decoder.causal or decoder.inputs != decoder.outputs:
            raise UsageError(
                "Seq2Seq: decoder must read and write the same symbols, e.g. rnn.Network([rnn.GRU(64)], 11, 11), not "
                f"{shown(decoder, 200)}"
            )
        self._attending = next(
            (i for i, cell in enumerate(decoder.layers) if isinstance(cell, Attention)), None
        )
        self._require_fit()
        self.declare_parameters({}, 0, decoder.dtype)
        self._runner = Runner(decoder)
        self._functions: dict[tuple[str, int], gn.Function] = {}

    def _require_fit(self) -> None:
        encoder, decoder = self.encoder, self.decoder
        if self._attending is None:
            widths = [[width for _, width in each.state_names()] for each in (encoder, decoder)]
            if not widths[0]:
                raise UsageError(
                    "Seq2Seq: without attention, the decoder starts from the states of the encoder, but its cells have "
                    "none; use other cells, or rnn.Attention in the decoder"
                )
            if widths[0] != widths[1]:
                raise UsageError(
                    f"Seq2Seq: without attention, encoder and decoder must have states of the same widths, not "
                    f"{widths[0]} and {widths[1]}; use the same cells, or rnn.Attention in the decoder"
                )
            return
        cell: Any = decoder.layers[self._attending]
        found = encoder.layers[-1].output_width, self.longest[0]
        if (cell.memory, cell.places) != found:
            raise UsageError(
                f"Seq2Seq: the Attention of the decoder must have memory={found[0]}, the width of the encoder's "
                f"outputs, and places={found[1]}, the maximum length of sources, not {cell.memory} and {cell.places}"
            )

    @classmethod
    def of(
        cls,
        cell: Cell,
        inputs: int,
        outputs: int,
        longest: Sequence[int],
        attention: str | None = "additive",
        layers: int = 1,
        dropout: float = 0.0,
        seed: int = 0,
    ) -> Seq2Seq:
        """Makes encoder and decoder from a cell.

        cell: cell of all layers. inputs, outputs: numbers of symbols of sources and targets, without the end symbol.
        longest: as in Seq2Seq. attention: "additive" (default) or "dot", with a bidirectional encoder and rnn.Attention
        in the first layer of the decoder; None for neither. layers: number of layers of each network, default 1.
        dropout: between layers, default 0. seed: of the initial weights, default 0.
        """
        layers, both_lengths = whole_number("Seq2Seq.of: layers", layers), _two_lengths(longest)
        how: dict[str, Any] = {"dropout": dropout}
        both = [Bidirectional(cell) if attention is not None else cell] * layers
        encoder = Network(both, inputs, 0, seed=seed, **how)
        first: Cell = cell
        if attention is not None:
            width = encoder.layers[-1].output_width
            first = Attention(cell, memory=width, places=both_lengths[0], score=attention)
        symbols = whole_number("Seq2Seq.of: outputs", outputs) + 1
        decoder = Network([first, *[cell] * (layers - 1)], symbols, symbols, seed=seed + 1, **how)
        return cls(encoder, decoder, both_lengths)

    # -- nodes -------------------------------------------------------------------------------------

    def unroll(self, batch: int, feedback: str | None = None, **how: Any) -> Unrolled:
        """Returns the decoder over all steps, with the inputs "read", "length", "before", "answer" and "written".

        batch: number of cases. feedback: "likeliest" or "drawn", to read its own predictions: "before" is then the
        first symbol, and there are no lengths ("written"). how: training and random, see Network.unroll.
        """
        e = self._encoded(batch, **how)
        return self.decoder.unroll(
            self.longest[1] + 1,
            batch,
            inputs="before",
            targets="answer",
            initial=self._first_states(e),
            feedback=feedback,
            name="decoder",
            lengths="written" if feedback is None else False,
            **how,
        )

    def _encoded(self, batch: int, **how: Any) -> Unrolled:
        first = self.encoder.initial_state
        return self.encoder.unroll(
            self.longest[0], batch, inputs="read", lengths="length", initial=first, name="encoder", **how
        )

    def _first_states(self, e: Unrolled) -> Mapping[str, Node] | Sequence[Node]:
        if self._attending is None:
            return list(e.final)
        memory = attention_memory(e.hidden[-1], e.lengths)
        return {f"{name}{self._attending or ''}": node for name, node in memory.items()}

    def __graph__(self) -> gn.Graph:
        return self.unroll(1, training=False).__graph__()

    # -- arrays ------------------------------------------------------------------------------------

    @property
    def end(self) -> int:
        """The symbol that begins and ends a target."""
        return self.decoder.outputs - 1

    def arrays(self, sources: Sequence[Any] | Array, targets: Sequence[Any] | Array) -> dict[str, Array]:
        """Returns padded arrays for rnn.GraphCases, by the names of the inputs.

        sources: a sequence of symbols (or vectors) for each case, of 1 to longest[0] steps. targets: a sequence of
        symbols for each case, of 0 to longest[1] steps, without the end symbol. Raises DataError.
        """
        read = self._read(sources)
        rows = [
            array_of(f"Seq2Seq: target {case}", each)
            for case, each in enumerate(self._rows("targets", targets))
        ]
        if len(rows) != len(read["length"]):
            raise DataError(
                f"Seq2Seq: there must be as many targets as sources; got {len(rows)} and {len(read['length'])}"
            )
        time = self.longest[1] + 1
        answer = np.full((time, len(rows)), self.end)
        for case, row in enumerate(rows):
            symbols = not row.size or (row.dtype.kind in "iu" and 0 <= row.min() <= row.max() < self.end)
            if row.ndim != 1 or len(row) >= time or not symbols:
                raise DataError(
                    f"Seq2Seq: target {case} must have at most {time - 1} symbols in 0 ... {self.end - 1}, not "
                    f"{shown(row.tolist())}"
                )
            answer[: len(row), case] = row
        before = np.concatenate([np.full((1, len(rows)), self.end), answer[:-1]])
        return {
            **read,
            "before": before,
            "answer": answer,
            "written": np.array([len(row) + 1 for row in rows]),
        }

    def _rows(self, what: str, given: Any) -> list[Any]:
        flat = isinstance(given, (str, bytes)) or not has_items(given) or not len(given)
        if flat or any(isinstance(row, (str, bytes)) or not has_items(row) for row in given):
            raise DataError(
                f"Seq2Seq: {what} must be a list of sequences, one for each case, not {shown(given)}"
            )
        return list(given)

    def _read(self, sources: Any) -> dict[str, Array]:
        rows = self._rows("sources", sources)
        symbols = self.encoder.reads == "symbols"
        if not symbols:
            rows = [self._numbers(f"Seq2Seq: source {case}", row) for case, row in enumerate(rows)]
        x, lengths = padded(rows)
        if len(x) > self.longest[0]:
            case = int(lengths.argmax())
            raise DataError(
                f"Seq2Seq: source {case} has {lengths[case]} steps, more than longest, {self.longest[0]}"
            )
        if symbols and (
            x.ndim != 2 or x.dtype.kind not in "iu" or x.min() < 0 or x.max() >= self.encoder.inputs
        ):
            raise DataError(f"Seq2Seq: sources must be symbols in 0 ... {self.encoder.inputs - 1}")
        read = np.zeros((self.longest[0], *x.shape[1:]), x.dtype)
        read[: len(x)] = x
        return {"read": read, "length": lengths}

    def _numbers(self, who: str, source: Any) -> Array:
        found, width = array_of(who, source), self.encoder.inputs
        if found.ndim != 2 or found.shape[1] != width:
            raise DataError(f"{who} must have the shape (steps, {width}), not {list(found.shape)}")
        return checked_floats(who, found, self.encoder.dtype)

    # -- use ---------------------------------------------------------------------------------------

    def log_probabilities(self, sources: Sequence[Any] | Array, targets: Sequence[Any] | Array) -> Array:
        """ln p(target | source) of each case, with its end symbol, (cases,)

        sources, targets: as in `arrays`.
        """
        arrays = self.arrays(sources, targets)
        return -self._called("loss", arrays, axis=0)

    def attention(self, sources: Sequence[Any] | Array, targets: Sequence[Any] | Array) -> Array:
        """Returns the attention weights at each step of the targets, (longest[1] + 1, cases, longest[0]).

        sources, targets: as in `arrays`. Draw those of a case with viz.attention_map. Raises UsageError for a decoder
        without rnn.Attention.
        """
        if self._attending is None:
            raise UsageError("Seq2Seq: the decoder has no rnn.Attention, so there are no attention weights")
        return self._called("attention", self.arrays(sources, targets), axis=1)

    def _called(self, what: str, arrays: Mapping[str, Array], axis: int) -> Array:
        """Returns a node's value for all cases, computed a few at a time."""
        found = []
        for which, new in _parts(len(arrays["length"])):
            taken = [arrays[name].take(which, axis=-1 if name != "read" else 1) for name in ORDER[what]]
            (value,) = self._function(what, len(which))(*taken)
            found.append(value.take(np.arange(new), axis=axis))
        return np.concatenate(found, axis=axis)

    def _function(self, what: str, batch: int) -> gn.Function:
        if (what, batch) not in self._functions:
            if what == "states":
                e = self._encoded(batch, training=False)
                u = self.decoder.unroll(1, batch, training=False, initial=self._first_states(e))
                function = gn.compile(u.initial, [e.inputs, e.lengths])
            else:
                u = self.unroll(batch, training=False)
                attention = f"attention{self._attending or ''}"
                node = gn.sum(u.losses, axis=0) if what == "loss" else u.course(attention)
                by_name = {node.name: node for node in gn.Graph([node]).inputs}
                function = gn.compile([node], [by_name[name] for name in ORDER[what]])
            self._functions[what, batch] = function
        return self._functions[what, batch]

    def generate(self, sources: Sequence[Any] | Array, width: int = 1) -> list[list[int]]:
        """Returns the likeliest target of each source that a beam search finds, without the end symbol.

        sources: as in `arrays`. width: number of targets that the search keeps for each case; default 1, greedy.
        """
        width = whole_number("Seq2Seq.generate: width", width)
        read = self._read(sources)
        found: list[list[int]] = []
        for which, new in _parts(len(read["length"])):
            states = self._function("states", len(which))(
                read["read"].take(which, axis=1), read["length"][which]
            )
            found += self._searched([np.asarray(state) for state in states], width)[:new]
        return found

    def _searched(self, states: list[Array], width: int) -> list[list[int]]:
        """Beam search from the first states of each case, (cases, ...)."""
        cases, end = len(states[0]), self.end
        states = [np.repeat(state, width, axis=0) for state in states]
        # The first step has one beam; the others are impossible.
        scores = np.where(np.arange(width) == 0, 0.0, -np.inf)[None].repeat(cases, axis=0)
        texts = np.full((cases, width, self.longest[1] + 1), end)
        symbols = np.full((cases, width), end)
        ended = np.zeros((cases, width), bool)
        for step in range(self.longest[1] + 1):
            logits, states = self._runner(symbols.reshape(1, -1), states)
            log_p = log_softmax(logits[0]).reshape(cases, width, end + 1)
            only_end = ended if step < self.longest[1] else np.ones_like(ended)
            log_p[only_end, :end] = -np.inf
            log_p[ended, end] = 0.0
            every = (scores[..., None] + log_p).reshape(cases, -1)
            best = np.argsort(-every, axis=1, kind="stable")[:, :width]
            scores = np.take_along_axis(every, best, axis=1)
            beam, symbols = best // (end + 1), best % (end + 1)
            rows = (np.arange(cases)[:, None] * width + beam).ravel()
            states = [state[rows] for state in states]
            texts, ended = (
                np.take_along_axis(texts, beam[..., None], axis=1),
                np.take_along_axis(ended, beam, axis=1),
            )
            texts[..., step] = symbols
            ended |= symbols == end
            if ended.all():
                break
        return [row[: int((row == end).argmax())].tolist() for row in texts[:, 0]]


#: What is computed -> the inputs that it needs, in order.
ORDER = {
    "loss": ("read", "length", "before", "answer", "written"),
    "attention": ("read", "length", "before", "written"),
}


def _parts(count: int) -> Iterator[tuple[Array, int]]:
    """Yields cases, always the same number, and how many of them are new; the last part repeats some."""
    for start in range(0, count, CASES):
        part = np.arange(start, min(start + CASES, count))
        yield np.resize(part, min(CASES, count)), len(part)


def _two_lengths(longest: Any) -> list[int]:
    both = listed("Seq2Seq: longest", longest, "two lengths, of sources and targets")
    if len(both) != 2:
        raise UsageError(f"Seq2Seq: longest must be two lengths, of sources and targets, not {shown(both)}")
    return [whole_number("Seq2Seq: longest", each) for each in both]
