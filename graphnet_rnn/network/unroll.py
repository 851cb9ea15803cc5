"""Unrolled: a network over several time steps, as one graph."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import graphnet as gn
from graphnet.graph.display import ShowsItself
from graphnet.graph.dtypes import INT64
from graphnet.graph.graph import ancestors
from graphnet.graph.node import Node
from graphnet.graph.provenance import hide_module
from graphnet.system.process import collector_paused
from graphnet_rnn.cell.cell import Cell, at_each_step, title_of
from graphnet_rnn.cell.masks import Masks
from graphnet_rnn.cell.tracing import require_nodes
from graphnet_rnn.errors import UsageError
from graphnet_rnn.network.lengths import ENDS, Lengths
from graphnet_rnn.network.losses import LOSSES, POOLS, SEQUENCE_LOSSES, VALUE_LOSSES
from graphnet_rnn.optimizers.structure import hidden_units
from graphnet_rnn.settings import MANY, listed, one_of, shown, text, whole_number, yes_or_no

#: Attributes that need an output layer.
OF_OUTPUTS = ("targets", "logits", "values", "losses", "cost")
#: Values of `feedback`.
FEEDBACKS = ("likeliest", "drawn")

if TYPE_CHECKING:
    from graphnet_rnn.network.network import Network

hide_module(__file__)


class Unrolled(ShowsItself):
    """The nodes of a network over `time` steps of `batch` sequences, as `Network.unroll` returns them.

    inputs    int64 (time, batch) if the network reads symbols, else floats (time, batch, inputs)
    targets   int64 (time, batch) with the softmax loss, int64 (batch, labels) padded by -1 with ctc, else floats (time,
              batch, outputs); with pool without the time axis, like logits and losses
    initial   one node (batch, width) for each state of each layer, layer by layer; Inputs if "given"
    final     the same states after the last step
    after     the same states after each step, one list for each step; empty with a bidirectional layer
    logits    o_t at all steps, (time, batch, outputs), in the units of the targets; with predict_first they begin with
              o_0, like targets and losses
    outputs   list of the output layer's results at each step; with a scaling of outputs, o'_t in standardized units
    hidden    for each layer its outputs h_t, (time, batch, units)
    losses    L of each step and case, (time, batch); with ctc or pool of each case, (batch,); nats except for squared.
              "squared" and "sigmoid" are summed over the outputs: L = Σ_k (o_k - t_k)², not averaged, without ½ (with a
              scaling, of standardized numbers)
    values    with the losses "squared" and "sigmoid" the summands of each output, (time, batch, outputs); else losses
    cost      the mean of the losses over all cases and scored steps, one number; not over the outputs
    lengths   int64 (batch,), number of time steps of each case, with lengths=True; else None
    ends      masks that follow from lengths; judged_ends: those of the losses, None if these are losses of cases
    random    source of the dropout masks; `random.redraw()` draws new ones

    In the padding states do not change, outputs h_t and losses are 0, logits have no meaning, and inputs and targets
    are ignored. The cost is the mean over the other time steps.
    network, time, batch, training, initial, unscored, random, labels, predict_first, lengths, inputs, feedback, name,
    targets: see Network.unroll.

    >>> net = rnn.Network([rnn.GRU(4)], inputs=3, outputs=2)
    >>> u = net.unroll(time=7, batch=5)
    >>> u.inputs.shape, u.targets.shape, u.logits.shape, u.cost.shape
    ((7, 5), (7, 5), (7, 5, 2), ())
    >>> [state.shape for state in u.final]
    [(5, 4)]
    >>> u.course("h").shape
    (7, 5, 4)
    """

    def __init__(
        self,
        network: Network,
        time: int,
        batch: int,
        training: bool,
        initial: str | Mapping[str, Node] | Sequence[Node],
        unscored: int,
        random: gn.RandomSource | None,
        labels: int | None,
        predict_first: bool,
        lengths: bool | str | Node,
        inputs: str | Node | None,
        feedback: str | None,
        name: str,
        targets: str | Node | None,
    ) -> None:
        training = yes_or_no("unroll: training", training)
        time, batch = whole_number("unroll: time", time), whole_number("unroll: batch", batch)
        unscored = whole_number("unroll: unscored", unscored, least=0)
        predict_first = yes_or_no("unroll: predict_first", predict_first)
        self.name = text("unroll: name", name)
        judged = time + predict_first
        if unscored >= judged:
            raise UsageError(f"unroll: unscored must be in 0 ... {judged - 1}, not {unscored}")
        if unscored or predict_first:
            asked = "unroll: unscored" if unscored else "unroll: predict_first"
            network.require_each_step(asked)
            network.require_output(asked)
        if predict_first and (not network.causal or network.loss in SEQUENCE_LOSSES):
            raise UsageError(
                "unroll: predict_first needs a network that reads no later input, and a loss of each step; "
                "this network "
                f"{'reads later inputs' if not network.causal else f'has the loss {network.loss!r}'}"
            )
        self.network, self.time, self.batch, self.unscored = network, time, batch, unscored
        self.feedback = self._checked_feedback(feedback)
        if random is not None and not isinstance(random, gn.RandomSource):
            raise UsageError(f"unroll: random must be a gn.RandomSource, or None, not {shown(random)}")
        self.random = gn.RandomSource(network.seed) if random is None else random
        self._masks = self._new_masks(training)
        self._layer_masks = [self._new_masks(training) for _ in network.layers]
        self.inputs = self._given_inputs(inputs)
        if network.outputs:
            self.targets = self._targets(targets, labels, unscored, judged)
        elif targets is not None:
            network.require_output("unroll: targets")
        self.lengths: Any = self._given_lengths(lengths)  # a node where sequences end, else None
        self.ends = None if self.lengths is None else Lengths(time, self.lengths)
        with gn.scope(layer=self._layer("input")):
            self._steps = self.inputs
            if self.ends is not None:
                self._steps = self.ends.first(self.inputs) if self.feedback else self.ends.held(self.inputs)
            if network.reads == "vectors":
                self._steps = network.standardized("inputs", self._steps)
        self.begins = _last_time([inputs, *_nodes_of(initial)])
        self.initial = self._initial_states(initial)
        with collector_paused():
            first = [self._read_off()] if predict_first else []
            outputs = self._run()
        self._require_recurrent_dropout()
        if network.outputs:
            with gn.scope(layer="cost"):
                self._judge([*first, *outputs], unscored, predict_first)

    def __getattr__(self, name: str) -> Any:
        if name in OF_OUTPUTS and not self.network.outputs:
            self.network.require_output(f"unroll: {name}")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    # -- nodes given by the caller -------------------------------------------------------------

    def _checked_feedback(self, feedback: str | None) -> str | None:
        if feedback is None:
            return None
        one_of("unroll: feedback", feedback, FEEDBACKS)
        network = self.network
        network.require_output("unroll: feedback")
        network.require_each_step("unroll: feedback")
        if not network.causal or network.loss in SEQUENCE_LOSSES or network.inputs != network.outputs:
            raise UsageError(
                "unroll: feedback needs a causal network with a loss of each time step and as many inputs as "
                f"outputs; this one is {shown(network, MANY)}"
            )
        if feedback == "drawn" and network.loss == "squared":
            raise UsageError(
                "unroll: feedback='drawn' needs predictions that are distributions, but the loss is 'squared'; "
                "use feedback='likeliest', which reads the prediction itself"
            )
        return feedback

    def _given_inputs(self, inputs: str | Node | None) -> Node:
        network, time = self.network, 1 if self.feedback else self.time
        if network.reads == "symbols":
            return _node_or_input("inputs", inputs, "x", (time, self.batch), INT64)
        return _node_or_input("inputs", inputs, "x", (time, self.batch, network.inputs), network.dtype)

    def _given_lengths(self, lengths: bool | str | Node) -> Node | None:
        if not isinstance(lengths, (str, Node)):
            if not yes_or_no("unroll: lengths", lengths):
                return None
            lengths = "lengths"
        with gn.scope(**{ENDS: True}):
            return _node_or_input("lengths", lengths, "lengths", (self.batch,), INT64)

    def _layer(self, name: str) -> str:
        return f"{self.name}.{name}" if self.name else name

    def _judge(self, outputs: list[Node], unscored: int, predict_first: bool) -> None:
        network, targets, ends = self.network, self.targets, self.ends
        if ends is not None and predict_first:
            ends = Lengths(self.time + 1, ends.node + 1)
        by_step = network.loss not in SEQUENCE_LOSSES
        if network.pool is not None:
            (o,), ends = outputs, None
        else:
            o = gn.stack(outputs)
        self.logits = network.in_units(o)
        self.judged_ends = ends if by_step else None
        if ends is not None and by_step:
            targets = ends.held(targets)
        if network.loss in VALUE_LOSSES:
            self.values = VALUE_LOSSES[network.loss](o, network.standardized("outputs", targets))
            self.losses = gn.sum(self.values, axis=-1)
        else:
            loss = LOSSES[network.loss] if by_step else SEQUENCE_LOSSES[network.loss]
            self.values = self.losses = loss(o, targets, *([] if by_step else [self.lengths]))
        if ends is None or not by_step:
            self.cost = gn.mean(self.losses[unscored:] if unscored else self.losses)
            return
        self.losses = ends.cut(self.losses)
        self.values = self.losses if self.values.ndim == 2 else ends.cut(self.values)
        count = gn.sum(gn.maximum(ends.node - unscored, 0))
        total = gn.sum(self.losses[unscored:] if unscored else self.losses)
        self.cost = total / gn.cast(gn.maximum(count, 1), network.dtype)

    def _new_masks(self, training: bool) -> Masks:
        return Masks(self.random, training, self.network.variational, self.network.recurrent_dropout)

    def _require_recurrent_dropout(self) -> None:
        for cell, masks in zip(self.network.layers, self._layer_masks, strict=True):
            if masks.training and masks.recurrent and cell.states and not masks.reached:
                raise UsageError(
                    f"recurrent_dropout = {masks.recurrent:g} does nothing in {shown(cell, MANY)}: none of its states "
                    "enters a product of `affine` or `product`. Leave it out, or let the cell call "
                    "self.recurrent(name, state)."
                )

    def _targets(self, given: str | Node | None, labels: int | None, unscored: int, judged: int) -> Node:
        network, whole = self.network, self.network.loss in SEQUENCE_LOSSES
        if whole != (labels is not None):
            what = (
                "give labels=..., the largest number of labels of a target" if whole else "leave out labels"
            )
            raise UsageError(f"unroll: with the loss {network.loss!r}, {what}")
        if unscored:
            network.require_losses_of_steps("unroll: unscored")
        shape: tuple[int, ...] = (self.batch,) if network.pool is not None else (judged, self.batch)
        if labels is not None:
            shape = (self.batch, whole_number("unroll: labels", labels, least=0))
        elif network.loss != "softmax":
            return _node_or_input("targets", given, "t", (*shape, network.outputs), network.dtype)
        return _node_or_input("targets", given, "t", shape, INT64)

    def _initial_states(self, kind: str | Mapping[str, Node] | Sequence[Node]) -> list[Node]:
        names = self.network.state_names()
        if isinstance(kind, (Mapping, list, tuple)):
            return self._given_states(kind)
        kind = kind if isinstance(kind, str) else shown(kind)
        if kind == "given":
            return [gn.input((self.batch, width), self.network.dtype, name=name) for name, width in names]
        if kind == "zero":
            return [gn.fill(0, (self.batch, width), self.network.dtype) for _, width in names]
        if kind == "learned" and self.network.initial_state == "learned":
            return self.network.learned_states(self.batch)
        raise UsageError(
            f"unroll: initial must be 'given', 'zero', 'learned' (for a network made with initial_state='learned'), or "
            f"nodes, not {shown(kind)}"
        )

    def _starts(self) -> list[range]:
        ends = list(itertools.accumulate((len(cell.states) for cell in self.network.layers), initial=0))
        return [range(a, b) for a, b in itertools.pairwise(ends)]

    def _given_states(self, given: Mapping[str, Node] | Sequence[Node]) -> list[Node]:
        network = self.network
        widths = [width for _, width in network.state_names()]
        known = [state.name for cell in network.layers for state in cell.states]
        if not isinstance(given, Mapping):
            nodes = listed("unroll: initial", given, "nodes")
            if len(nodes) != len(widths):
                raise UsageError(
                    f"unroll: initial has {len(nodes)} nodes for the {len(widths)} states {', '.join(known)}; "
                    "to set only some, name them: initial={'h': node}"
                )
            return [
                _required_node(f"initial: {name}", node, (self.batch, width), network.dtype)
                for name, node, width in zip(known, nodes, widths, strict=True)
            ]
        learned = network.initial_state == "learned"
        found = network.learned_states(self.batch) if learned else self._initial_states("zero")
        for name, node in given.items():
            i = self._number_of("unroll: initial: the name", name)
            (cell,) = (c for c, at in zip(network.layers, self._starts(), strict=True) if i in at)
            of = f" (of {shown(cell, MANY)})"
            found[i] = _required_node(f"initial: {name}{of}", node, (self.batch, widths[i]), network.dtype)
        return found

    def _run(self) -> list[Node]:
        pairs = zip(self.network.layers, self._layer_masks, strict=True)
        layers = [cell.running(masks) for cell, masks in pairs]
        states = [tuple(self.initial[i] for i in at) for at in self._starts()]
        hidden: list[list[Node]] = [[] for _ in layers]
        self.after: list[list[Node]] = []
        outputs: list[Node] = []
        self.outputs = outputs
        # By time steps if possible, so that segments of time are segments of the program.
        run = self._step_by_step if self.network.causal else self._layer_by_layer
        for t, column in enumerate(run(layers, states)):
            if self.network.pool is None and self.network.outputs:
                with gn.scope(layer=self._layer("output"), time=self.begins + t + 1):
                    outputs.append(self.network.project(column))
            for steps, h in zip(hidden, column, strict=True):
                steps.append(h)
        if self.network.pool is not None and self.network.outputs:
            words = "last step" if self.network.pool == "last" else f"{self.network.pool} over time"
            words += ", of each case" if self.ends is not None else ""
            with gn.scope(layer=self._layer("output"), time=self.begins + self.time, pool=words):
                outputs.append(self._pooled(hidden))
        self.hidden = [self._over_time(l, steps) for l, steps in enumerate(hidden)]
        self.final = [node for layer in states for node in layer]
        return outputs

    def _over_time(self, layer: int, steps: list[Node]) -> Node:
        with gn.scope(layer=self._layer(f"layer{layer}.outputs"), time=self.begins + self.time):
            h = gn.stack(steps)
            return h if self.ends is None else self.ends.cut(h)

    def _pooled(self, hidden: list[list[Node]]) -> Node:
        pool = POOLS[self.network.pool or ""]
        readers = self.network.layers if self.network.skips_outputs else self.network.layers[-1:]
        steps = hidden[-len(readers) :]
        pooled = [pool(cell, each, self.ends) for cell, each in zip(readers, steps, strict=True)]
        return self.network.project(pooled)

    def _read_off(self) -> Node:
        """o_0, from the states before the first step"""
        column = []
        for l, (cell, at) in enumerate(zip(self.network.layers, self._starts(), strict=True)):
            with gn.scope(layer=self._layer(f"layer{l}"), cell=title_of(cell), time=self.begins):
                column.append(cell.read_off([self.initial[i] for i in at]))
        with gn.scope(layer=self._layer("output"), time=self.begins):
            return self.network.project(column)

    def _step_by_step(self, layers: Sequence[Cell], states: list[tuple[Node, ...]]) -> Iterator[list[Node]]:
        first, titles = 0, [title_of(cell) for cell in layers]
        for t in range(self.time):
            below = x = self._input_at(t)
            inside = self._inside_at(t)
            if t == 1:  # all steps make as many nodes
                self._require_room(x.serial - first)
            first = x.serial
            column = []
            for l, cell in enumerate(layers):
                with gn.scope(layer=self._layer(f"layer{l}"), cell=titles[l], time=self.begins + t + 1):
                    below, states[l] = cell.advance(self._read(l, below, x), states[l], inside)
                column.append(below)
            self.after.append([node for layer in states for node in layer])
            yield column

    def _layer_by_layer(self, layers: Sequence[Cell], states: list[tuple[Node, ...]]) -> Iterator[list[Node]]:
        """Outputs of all layers, layer by layer, for networks with a bidirectional layer; updates `states`."""
        self._require_room(len(layers))
        below = xs = [self._input_at(t) for t in range(self.time)]
        steps = [self._inside_at(t) for t in range(self.time)]
        inside = [each for each in steps if each is not None] or None
        hidden = []
        for l, cell in enumerate(layers):
            with gn.scope(layer=self._layer(f"layer{l}")):
                with gn.scope(part="input"):
                    read = at_each_step(partial(self._read, l), below, xs)
                with gn.scope(cell=title_of(cell)):
                    below, states[l] = cell.sequence(read, states[l], inside=inside)
            hidden.append(below)
        yield from map(list, zip(*hidden, strict=True))

    def _inside_at(self, t: int) -> Node | None:
        """Mask of the cases that have this step; None for all."""
        if self.ends is None:
            return None
        with gn.scope(layer=self._layer("input"), time=self.begins + t + 1):
            return self.ends.inside_at(t)

    def _require_room(self, nodes: int) -> None:
        require_nodes(nodes * self.time, f"unrolling over {self.time:,} steps", "fewer time steps take less")

    def _read(self, layer: int, below: Node, x: Node) -> Node:
        if not layer:
            return below
        below = self._masks.drop(below, self.network.dropout, layer)
        return gn.concatenate([below, x], axis=1) if self.network.skips_inputs else below

    def _input_at(self, t: int) -> Node:
        network = self.network
        with gn.scope(layer=self._layer("input"), time=self.begins + t + 1):
            x = self._predicted(self.outputs[-1]) if t and self.feedback else self._steps[t]
            return gn.one_hot(x, network.inputs, network.dtype) if network.reads == "symbols" else x

    def _predicted(self, o: Node) -> Node:
        network, drawn = self.network, self.feedback == "drawn"
        if network.loss == "softmax":
            if drawn:  # argmax of log p and Gumbel noise; Maddison, Tarlow & Minka 2014, 2
                share = gn.clip(self.random.uniform(1, o.shape, o.dtype), 1e-30, 1 - 1e-7)
                o = o - gn.log(-gn.log(share))
            symbol = gn.argmax(o)
            return symbol if network.reads == "symbols" else gn.one_hot(symbol, network.inputs, o.dtype)
        if network.loss == "squared":
            return network.standardized("inputs", network.in_units(o))
        half = self.random.uniform(1, o.shape, o.dtype) if drawn else 0.5
        return gn.cast(gn.sigmoid(o) > half, o.dtype)

    def course(self, name: str) -> Node:
        """(time, batch, width): at each time step the node that a cell has labeled `name`, or the state of this name.

        name: label, or name of a state as in `initial`. Raises UsageError if there is none, or several in a step.
        """
        labelled: dict[int, list[Node]] = {}
        own = self._layer("")  # with the dot, as another network's name may begin alike
        for node in ancestors([*self.hidden, *self.final]):
            if node.op.is_label and node.name == name and str(node.scope.get("layer", "")).startswith(own):
                labelled.setdefault(node.scope["time"] - self.begins, []).append(node)
        if labelled:
            found = [labelled.get(t + 1, []) for t in range(self.time)]
            if any(len(each) != 1 for each in found):
                raise UsageError(
                    f"course: {shown(name)} must occur once at each time step, but occurs in {shown(labelled, 80)}"
                )
            return gn.stack([each[0] for each in found])
        if not self.after:
            raise UsageError(
                "course: the network must not have a layer that reads later inputs, since it has no "
                "state after each step"
            )
        at = self._number_of("course: the name", name)
        return gn.stack([states[at] for states in self.after])

    def _number_of(self, what: str, name: str) -> int:
        """Index of a state in `initial`, by its name, or by name and number of its layer."""
        known = [(state.name, l) for l, cell in enumerate(self.network.layers) for state in cell.states]
        exact = [i for i, (each, l) in enumerate(known) if name == f"{each}{l}"]
        found = exact or [i for i, (each, _) in enumerate(known) if name == each]
        if len(found) != 1:
            named = ", ".join(f"{each}{l}" for each, l in known)
            raise UsageError(
                f"{what} {shown(name)} must match exactly one state; the states, with their layers, are "
                f"{named or 'none'}"
            )
        return found[0]

    @property
    def structure(self) -> list[tuple[Node, Node]]:
        """(a, h = e(a)) for each tanh and σ of the layers, for structural damping.

        Each unit occurs once, however often the equations use it. An Objective finds these pairs by itself.
        """
        return hidden_units(self.cost if self.network.outputs else self.final)

    def __graph__(self) -> gn.Graph:
        """The cost as a graph for drawing; the outputs of the last layer if there is no output layer."""
        return gn.Graph([self.cost] if self.network.outputs else [*self.hidden[-1:], *self.final])

    def __repr__(self) -> str:
        return f"<{self.network!r} over {self.time} steps of {self.batch} sequences>"


# -- arguments: nodes, or inputs by name --------------------------------------------------------------------------


def _node_or_input(argument: str, given: Any, name: str, shape: tuple[int, ...], dtype: Any) -> Node:
    if given is None:
        return gn.input(shape, dtype, name=name)
    if isinstance(given, str):
        if not given:
            raise UsageError(f"unroll: {argument} must be a node, or a name of an input, not ''")
        return gn.input(shape, dtype, name=given)
    return _required_node(argument, given, shape, dtype, ", or a name of an input")


def _required_node(argument: str, node: Any, shape: tuple[int, ...], dtype: Any, other: str = "") -> Node:
    if not isinstance(node, Node):
        raise UsageError(f"unroll: {argument} must be a node {list(shape)}{other}, not {shown(node)}")
    if node.shape != shape or node.dtype != dtype:
        raise UsageError(
            f"unroll: {argument} must be {dtype}{list(shape)}, but {node.describe()} (made at {node.origin}) is "
            f"{node.dtype}{list(node.shape)}"
        )
    return node


def _nodes_of(initial: Any) -> list[Any]:
    if isinstance(initial, Mapping):
        return list(initial.values())
    return list(initial) if isinstance(initial, (list, tuple)) else []


def _last_time(given: Iterable[Any]) -> int:
    """Last time step of another network that computes these nodes; 0 if none does."""
    nodes = [node for node in given if isinstance(node, Node) and node.inputs]
    times = (node.scope.get("time") for node in ancestors(nodes))
    return max((time for time in times if isinstance(time, int)), default=0)
