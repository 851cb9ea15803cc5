"""Network: stacked cells, an output projection and a loss; its parameters are one flat vector."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet.graph.provenance import hide_module
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.initializers import Initializer, checked_initial
from graphnet_rnn.cell.weights import Weights, unfit
from graphnet_rnn.cells.lstm import without_recurrent_errors
from graphnet_rnn.data.columns import Columns
from graphnet_rnn.data.scaling import Scaling, as_scaling
from graphnet_rnn.data.text import Vocabulary
from graphnet_rnn.errors import CellError, UsageError
from graphnet_rnn.model import Model, float_dtype, seed_of
from graphnet_rnn.network.layers import bound_layers, checked_layers, checked_share
from graphnet_rnn.network.losses import LOSSES, POOLS, SEQUENCE_LOSSES
from graphnet_rnn.network.unroll import Unrolled
from graphnet_rnn.settings import MANY, NamedArguments, fraction, one_of, shown, whole_number, yes_or_no

#: Names of the settings, without scaling; see Network.settings.
_SETTINGS = (
    "layers", "inputs", "outputs", "loss", "skip", "dropout", "initial_state", "seed", "dtype", "reads",
    "recurrent_dropout", "variational", "share", "output_bias", "truncated", "pool",
)  # fmt: skip

hide_module(__file__)


class Network(NamedArguments, Model):
    """h^l_t = cell_l(h^{l-1}_t, h^l_{t-1});  o_t = h^L_t W_ho + b_o;  skip=True: cell_l reads x_t, too,
    and o_t = Σ_l h^l_t W_hlo + b_o;  pool: one o = pool_t(h^L_t) W_ho + b_o

    layers: cells, first to last. Each entry of the list gets its own weights, unless `share` links it to another layer.
    inputs: number of symbols (reads="symbols"), or width of the input vectors (reads="vectors").
    outputs: width of o; 0 for no output layer and no loss, e.g. for an encoder.
    loss: L of one time step of one case, in nats except for "squared":

    softmax     -log softmax(o)_t; targets are symbols t
    sigmoid     Σ_k log(1 + exp(o_k)) - t_k o_k, summed over the outputs, not averaged; targets are in [0, 1]
    squared     Σ_k (o_k - t_k)², summed over the outputs, not averaged, and without ½; targets are vectors
    ctc         -log P(labels) of a whole sequence, not divided by its steps or labels; targets are its labels; the last
                output is the blank, see rnn.ctc.ctc_loss

    The cost of a graph is the mean of L over cases and scored time steps, without padding; with "ctc" and with `pool`
    it is the mean over cases. For weighted data it is Σ w L / Σ w, see rnn.Arrays.

    skip: True lets every layer also read x_t and the output sum a projection of every layer (Lynge 2016, 3.4.2);
    "inputs" for only the first of both, "outputs" for only the second. False by default.
    dropout: dropout rate between layers in training, 0 by default. It is not applied before the first layer or after
    the last, so it has no effect on a single layer.
    recurrent_dropout: dropout rate of states in a cell's products in training, 0 by default.
    variational: True uses each mask at all time steps (Gal & Ghahramani 2016) instead of drawing a new one for each.
    share: {1: 0} lets layer 1 use the weights of layer 0, which must fit; none by default.
    output_bias: False for no b_o.
    initial_state: "zero" (default), or "learned": one parameter for each state.
    seed: of initial weights and dropout, 0 by default. dtype: "float32" (default) or "float64".
    initial: initializers of the output and of learned initial states, by weight name, see Cell. Those of a layer are
    arguments of its cell.
    truncated: True stops gradients at products of states; for LSTMs only, see rnn.online.truncated.
    pool: "last", "mean" or "max" for one output for a whole sequence, from the last hidden layer at its last time step,
    or from its mean or maximum over time; targets are then (batch,) or (batch, outputs). With "last", a bidirectional
    layer gives the outputs that depend on the whole sequence. None (default): an output at each time step.
    scaling: rnn.data.Scaling, with which the network standardizes inputs and predicts in the units of the data. The
    loss "squared" is then Σ_k (o'_k - t'_k)² of standardized predictions and targets. None by default.
    values: all weights by name, used instead of initializers; arrays of the network's dtype and the right shapes.
    reads: "symbols" (default with the softmax loss) or "vectors" (default with other losses).
    Raises UsageError for invalid settings, CellError for an invalid cell.
    Source: Lynge 2016, 3.4; Krause 2015, 2.3.

    >>> net = rnn.Network([rnn.GRU(8), rnn.GRU(4)], inputs=3, outputs=2, loss="squared")
    >>> net
    Network([GRU(units=8), GRU(units=4)], inputs=3, outputs=2, loss='squared'): 454 parameters
    >>> net.unroll(time=10, batch=5).logits.shape
    (10, 5, 2)
    """

    #: True once the network is complete; its settings cannot change after that.
    _whole = False

    def __init__(
        self,
        layers: Sequence[Cell],
        inputs: int,
        outputs: int,
        loss: str = "softmax",
        skip: bool | str = False,
        dropout: float = 0.0,
        initial_state: str = "zero",
        seed: int = 0,
        dtype: Any = "float32",
        reads: str | None = None,
        initial: Mapping[str, Initializer] | None = None,
        *,
        recurrent_dropout: float = 0.0,
        variational: bool = False,
        share: Mapping[int, int] | Iterable[Sequence[int]] = (),
        output_bias: bool = True,
        truncated: bool = False,
        pool: str | None = None,
        scaling: Scaling | None = None,
        values: Mapping[str, Array] | None = None,
    ) -> None:
        self.inputs, self.outputs = whole_number("inputs", inputs), whole_number("outputs", outputs, least=0)
        self.loss = one_of("loss", loss, (*LOSSES, *SEQUENCE_LOSSES))
        self.skip = (
            skip
            if isinstance(skip, str) and skip in ("inputs", "outputs")
            else yes_or_no("skip", skip, "; to skip only one kind, give 'inputs' or 'outputs'")
        )
        self.seed, self.dtype = seed_of("Network", seed), float_dtype("Network", dtype)
        self.reads = one_of(
            "reads",
            ("symbols" if loss == "softmax" else "vectors") if reads is None else reads,
            ("symbols", "vectors"),
        )
        self.initial_state = one_of("initial_state", initial_state, ("zero", "learned"))
        if self.loss in SEQUENCE_LOSSES and self.outputs < 2:
            raise UsageError(
                f"outputs must be at least 2 with the loss {loss!r} (a label and the blank), not {outputs}"
            )
        self.dropout = fraction("dropout, the share that is zeroed,", dropout)
        self.recurrent_dropout = fraction("recurrent_dropout, the share that is zeroed,", recurrent_dropout)
        self.variational = yes_or_no("variational", variational)
        self.output_bias = yes_or_no("output_bias", output_bias)
        self.pool = None if pool is None else one_of("pool", pool, tuple(POOLS))
        if self.pool is not None and self.loss in SEQUENCE_LOSSES:
            raise UsageError(
                f"pool makes one output of a sequence, but the loss {loss!r} needs one at each time step; "
                "leave out pool"
            )
        self.scaling = as_scaling(scaling)
        self._require_scaling()
        own_initial = checked_initial("Network", initial)
        cells = checked_layers(layers)
        self.share = checked_share(share, len(cells))
        beside = self.inputs if self.skips_inputs else 0
        self.layers = bound_layers(cells, self.inputs, beside, self.share, self.seed, self.dtype, values)
        self.truncated = False
        self._own = Weights("output", self.seed, self.dtype, own_initial, values)
        self._declare_projection()
        self._learned = Weights("initial", self.seed, self.dtype, own_initial, values)
        if self.initial_state == "learned":
            for l, cell in enumerate(self.layers):
                for state, width in zip(cell.states, cell.widths, strict=True):
                    name = f"{state.name}{l}"
                    while name in self._learned.nodes:  # h1 in layer 0 is not h in layer 10
                        name = f"{name}_"
                    self._learned.get(name, (width,), state.initial)
        if wrong := unfit(own_initial, [*self._own.nodes, *self._learned.nodes]):
            raise UsageError(
                f"Network: initial {wrong}; pass initializers of a layer to its cell, as `initial`"
            )
        self.lay_out(self._groups(), self.dtype)
        self._vocabulary: Vocabulary | None = None
        self._columns: Columns | None = None
        if yes_or_no("truncated", truncated):
            self.truncate()
        self._whole = True
        self._made_with = self._description()

    def __setattr__(self, name: str, value: Any) -> None:
        if self._whole and name in (*_SETTINGS, "scaling", "parameters", "fixed"):
            raise UsageError(
                f"Network: {name} cannot be set to {shown(value)} after the network was created, since its weights and "
                "equations depend on it; create a new network: rnn.Network(...)"
            )
        super().__setattr__(name, value)

    @property
    def vocabulary(self) -> Vocabulary | None:
        """Characters of the symbols, for a network that reads text; saved in its file.

        Raises UsageError unless there are as many characters as symbols.
        """
        return self._vocabulary

    @vocabulary.setter
    def vocabulary(self, vocabulary: Vocabulary | None) -> None:
        if vocabulary is not None and not isinstance(vocabulary, Vocabulary):
            raise UsageError(
                "Network: vocabulary must be an rnn.data.Vocabulary, e.g. rnn.data.Vocabulary.of(text), "
                f"not {shown(vocabulary)}"
            )
        if vocabulary is not None and self.reads == "symbols" and len(vocabulary) != self.inputs:
            raise UsageError(
                f"Network: a vocabulary of {len(vocabulary)} characters does not fit a network of {self.inputs} "
                "symbols; create the network with inputs=len(vocabulary)"
            )
        self._vocabulary = vocabulary

    @property
    def columns(self) -> Columns | None:
        """Columns of the table that the network was trained on, for a network that reads vectors; saved in its file.

        Raises UsageError unless they fit its inputs and outputs.
        """
        return self._columns

    @columns.setter
    def columns(self, columns: Columns | None) -> None:
        if columns is not None and not isinstance(columns, Columns):
            raise UsageError(f"Network: columns must be rnn.data.Columns or None, not {shown(columns)}")
        count = None if columns is None else len(columns.input_names())
        if count is not None and (self.reads != "vectors" or count != self.inputs):
            raise UsageError(
                f"Network: {count} columns do not fit a network of {self.inputs} inputs that reads {self.reads}"
            )
        if columns is not None and columns.targets and columns.outputs(self.loss) != self.outputs:
            raise UsageError(
                f"Network: the targets of the columns need {columns.outputs(self.loss)} outputs with the loss "
                f"{self.loss!r}, but the network has {self.outputs}"
            )
        if columns is not None and columns.horizon is not None and self.pool is not None:
            raise UsageError("Network: columns with a horizon do not fit a network with one output (pool)")
        self._columns = columns

    # -- declaring ---------------------------------------------------------------------------

    def _require_scaling(self) -> None:
        if self.scaling is None:
            return
        for name, given, width, meant, remedy in (
            ("inputs", self.scaling.inputs, self.inputs, self.reads == "vectors", 'reads="vectors"'),
            ("outputs", self.scaling.outputs, self.outputs, self.loss == "squared", 'loss="squared"'),
        ):
            if given is None:
                continue
            if not meant:
                raise UsageError(
                    f"Network: a scaling of {name} needs a network with {remedy}; leave it out, e.g. "
                    "rnn.data.Scaling(scaling.inputs) scales only inputs"
                )
            if len(given[0]) != width:
                raise UsageError(
                    f"Network: scaling has means of {len(given[0])} {name}, but the network has {width}"
                )
            with np.errstate(over="ignore"):
                held = [np.array(each, self.dtype) for each in given]
            if not np.isfinite(held).all() or not held[1].all():
                raise UsageError(
                    f"Network: scaling has means or deviations of {name} that are 0 or infinite in {self.dtype}; "
                    "rescale the data, or use dtype='float64'"
                )

    @property
    def skips_inputs(self) -> bool:
        """True if every layer reads x_t."""
        return self.skip in (True, "inputs")

    @property
    def skips_outputs(self) -> bool:
        """True if the output layer reads every layer."""
        return self.skip in (True, "outputs")

    @property
    def causal(self) -> bool:
        """True if o_t depends on no later input; False with a bidirectional layer."""
        return all(cell.causal for cell in self.layers)

    def truncate(self) -> None:
        """Stops gradients at products of states; see rnn.online.truncated.

        Raises UsageError if a layer with states is not an LSTM.

        >>> network = rnn.Network([rnn.LSTM(4)], inputs=3, outputs=2)
        >>> network.truncate()
        >>> network.truncated
        True
        """
        layers = [without_recurrent_errors(cell) if cell.states else cell for cell in self.layers]
        vars(self).update(layers=layers, truncated=True)
        self._made_with = self._description()

    def _declare_projection(self) -> None:
        self._projections: list[str] = []
        if not self.outputs:
            return
        readers = self.layers if self.skips_outputs else self.layers[-1:]
        self._projections = [f"W_h{l}o" for l in range(len(readers))] if self.skips_outputs else ["W_ho"]
        for name, cell in zip(self._projections, readers, strict=True):
            self._own.get(name, (cell.output_width, self.outputs), None)
        if self.output_bias:
            self._own.get("b_o", (self.outputs,), None)

    def _groups(self) -> list[Weights]:
        groups = [cell.bound_weights for l, cell in enumerate(self.layers) if l not in self.share]
        return [*(w for w in groups if isinstance(w, Weights)), self._own, self._learned]

    # -- equations ---------------------------------------------------------------------------

    def standardized(self, of: str, values: Node) -> Node:
        """(values - m) / s, of: "inputs" or "outputs"; values unchanged without a scaling.

        >>> scaling = rnn.data.Scaling(inputs=([1.0], [2.0]), outputs=([10.0], [5.0]))
        >>> network = rnn.Network([rnn.GRU(4)], inputs=1, outputs=1, loss="squared", scaling=scaling)
        >>> gn.compile(network.standardized("inputs", gn.constant(np.array([5.0]))))()[0].tolist()
        [2.0]
        """
        columns = self.scaling_of(of)
        return values if columns is None else (values - columns[0]) / columns[1]

    def in_units(self, outputs: Node) -> Node:
        """m + s o', in the units of the targets; outputs: o'.

        >>> scaling = rnn.data.Scaling(inputs=([1.0], [2.0]), outputs=([10.0], [5.0]))
        >>> network = rnn.Network([rnn.GRU(4)], inputs=1, outputs=1, loss="squared", scaling=scaling)
        >>> gn.compile(network.in_units(gn.constant(np.array([2.0]))))()[0].tolist()
        [20.0]
        """
        columns = self.scaling_of("outputs")
        return outputs if columns is None else columns[0] + columns[1] * outputs

    def scaling_of(self, of: str, dtype: Any = None) -> tuple[Array, Array] | None:
        """m and s of "inputs" or "outputs", in the network's dtype or in `dtype`.

        >>> scaling = rnn.data.Scaling(inputs=([1.0], [2.0]), outputs=([10.0], [5.0]))
        >>> network = rnn.Network([rnn.GRU(4)], inputs=1, outputs=1, loss="squared", scaling=scaling)
        >>> [columns.tolist() for columns in network.scaling_of("outputs")]
        [[10.0], [5.0]]
        """
        columns = None if self.scaling is None else getattr(self.scaling, of)
        if columns is None:
            return None
        means, deviations = (np.array(each, dtype or self.dtype) for each in columns)
        return means, deviations

    def project(self, hidden: Sequence[Node]) -> Node:
        """o_t from `hidden`, the outputs of all layers at one time step; o'_t with a scaling.

        >>> network = rnn.Network([rnn.GRU(4)], inputs=3, outputs=2)
        >>> network.project([gn.input((5, 4), name="h")]).shape
        (5, 2)
        """
        readers = hidden if self.skips_outputs else hidden[-1:]
        products = [h @ weight for h, weight in zip(readers, self.output_weights, strict=True)]
        return gn.add(*products, *([self._own.nodes["b_o"]] if self.output_bias else []))

    @property
    def output_weights(self) -> list[Node]:
        """W_ho, or W_h0o, W_h1o, ... if the output reads every layer."""
        return [self._own.nodes[name] for name in self._projections]

    @property
    def unit(self) -> str:
        """Unit of the loss."""
        if self.loss != "squared":
            return "nats"
        scaled = self.scaling is not None and self.scaling.outputs is not None
        return "standardized squared error" if scaled else "squared error"

    @property
    def predicts_symbols(self) -> bool:
        """True if the network reads and predicts symbols, like a language model."""
        return self.loss == "softmax" and self.reads == "symbols" and self.pool is None and self.outputs > 0

    def require_causal(self, who: str) -> None:
        """Raises UsageError, prefixed with `who`, if a layer reads later inputs.

        >>> network = rnn.Network([rnn.Bidirectional(rnn.GRU(4))], inputs=3, outputs=2)
        >>> network.require_causal("sample")
        Traceback (most recent call last):
        graphnet.errors.UsageError: sample: Bidirectional(...) reads later inputs, ...
        """
        for cell in self.layers:
            if not cell.causal:
                raise UsageError(
                    f"{who}: {shown(cell, MANY)} reads later inputs, so the network cannot predict the next "
                    "input; train it on given targets, see rnn.Arrays."
                )

    def require_output(self, who: str) -> None:
        """Raises UsageError, prefixed with `who`, if there is no output layer.

        >>> rnn.Network([rnn.GRU(4)], inputs=3, outputs=0).require_output("train")
        Traceback (most recent call last):
        graphnet.errors.UsageError: train: the network must have an output layer; this one was created with outputs=0
        """
        if not self.outputs:
            raise UsageError(
                f"{who}: the network must have an output layer; this one was created with outputs=0"
            )

    def require_each_step(self, who: str) -> None:
        """Raises UsageError, prefixed with `who`, if the network has one output for a whole sequence.

        >>> rnn.Network([rnn.GRU(4)], inputs=3, outputs=2, pool="last").require_each_step("sample")
        Traceback (most recent call last):
        graphnet.errors.UsageError: sample: the network must have an output at each time step; ...
        """
        if self.pool is not None:
            raise UsageError(
                f"{who}: the network must have an output at each time step; this one has one for a whole "
                f"sequence, pool={self.pool!r}"
            )

    def require_losses_of_steps(self, who: str) -> None:
        """Raises UsageError, prefixed with `who`, if time steps have no output or no loss of their own.

        >>> network = rnn.Network([rnn.GRU(4)], inputs=3, outputs=2, loss="ctc")
        >>> network.require_losses_of_steps("train")
        Traceback (most recent call last):
        graphnet.errors.UsageError: train: each time step must have a loss, but the loss 'ctc' is one of whole sequences
        """
        self.require_each_step(who)
        if self.loss in SEQUENCE_LOSSES:
            raise UsageError(
                f"{who}: each time step must have a loss, but the loss {self.loss!r} is one of whole sequences"
            )

    def learned_states(self, batch: int) -> list[Node]:
        """Learned initial states, one row for each of `batch` cases.

        >>> network = rnn.Network([rnn.GRU(4)], inputs=3, outputs=2, initial_state="learned")
        >>> [node.shape for node in network.learned_states(batch=5)]
        [(5, 4)]
        """
        return [gn.broadcast_to(node, (batch, node.shape[0])) for node in self._learned.nodes.values()]

    def state_names(self) -> list[tuple[str, int]]:
        """Returns name and width of every state, layer by layer.

        >>> rnn.Network([rnn.LSTM(4), rnn.GRU(2)], inputs=3, outputs=2).state_names()
        [('h_0^0', 4), ('c_0^0', 4), ('h_0^1', 2)]
        """
        return [
            (f"{state.name}_0^{l}" if len(self.layers) > 1 else f"{state.name}_0", width)
            for l, cell in enumerate(self.layers)
            for state, width in zip(cell.states, cell.widths, strict=True)
        ]

    def zero_states(self, batch: int) -> list[Array]:
        """Returns zeros for `u.initial`, for `batch` cases.

        >>> network = rnn.Network([rnn.LSTM(4), rnn.GRU(2)], inputs=3, outputs=2)
        >>> [array.shape for array in network.zero_states(batch=5)]
        [(5, 4), (5, 4), (5, 2)]
        """
        return [np.zeros((batch, width), self.dtype) for _, width in self.state_names()]

    def first_states(self, batch: int) -> list[Array]:
        """Returns arrays for `u.initial` at the start of `batch` sequences: zeros, or the learned states.

        >>> network = rnn.Network([rnn.GRU(2)], inputs=3, outputs=2)
        >>> network.first_states(batch=1)
        [array([[0., 0.]], dtype=float32)]
        """
        if self.initial_state == "zero":
            return self.zero_states(batch)
        return [np.tile(node.value, (batch, 1)) for node in self._learned.nodes.values()]

    def unroll(
        self,
        time: int,
        batch: int,
        training: bool = True,
        initial: str | Mapping[str, Node] | Sequence[Node] = "given",
        unscored: int = 0,
        random: gn.RandomSource | None = None,
        labels: int | None = None,
        predict_first: bool = False,
        lengths: bool | str | Node = False,
        inputs: str | Node | None = None,
        feedback: str | None = None,
        name: str = "",
        targets: str | Node | None = None,
    ) -> Unrolled:
        """Returns the network over `time` steps of `batch` sequences, as a graph. See Unrolled.

        time: number of time steps. batch: number of cases. training: True (default) applies dropout.
        initial: "given" (default), where u.initial are Inputs, to carry states from segment to segment; "zero";
        "learned"; or nodes (batch, width): all in the order of `u.initial`, or some by the names of states, {"h":
        node}, {"h1": node} for layer 1; the others are then learned or zero.
        unscored: number of time steps at the start that the cost excludes, 0 by default.
        random: source of dropout masks; by default a new one with the network's seed.
        labels: with the loss "ctc", maximum number of labels of a target.
        predict_first: True also computes an output from the states before the first step, so that x_0 itself is
        predicted (π_0 of Ollivier 2013, eqs 6-7); logits, targets and losses then have one more step than the inputs,
        in front. lengths: True for sequences of different lengths, u.lengths, up to `time`; padding in inputs and
        targets is ignored. inputs, targets, lengths: nodes to use instead of Inputs, or names of the Inputs; "x", "t"
        and "lengths" by default. feedback: "likeliest" lets each step after the first read the likeliest prediction of
        the step before; "drawn" a sample of its distribution. u.inputs is then one step long. None (default): no
        feedback. name: name of the network in a graph of several, for drawings and profiles.
        """
        how = (training, initial, unscored, random, labels, predict_first, lengths, inputs, feedback, name)
        return Unrolled(self, time, batch, *how, targets)

    # -- description -------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """Returns the arguments that recreate this architecture, as JSON would hold them."""
        found = {name: getattr(self, name) for name in _SETTINGS}
        found |= {"layers": [cell.description() for cell in self.layers], "dtype": self.dtype.name}
        found["share"] = [list(pair) for pair in self.share.items()]
        return found if self.scaling is None else {**found, "scaling": self.scaling.plain()}

    def description(self) -> dict[str, Any]:
        return {"model": "Network", **self.settings()}

    def _description(self) -> str | None:
        """Settings as a file has them; None if a file cannot hold them."""
        try:
            return json.dumps(self.settings(), sort_keys=True)
        except (CellError, TypeError, ValueError):
            return None

    def require_unchanged(self, who: str) -> None:
        """Raises UsageError, prefixed with `who`, if settings have changed since the network was created.

        A list or a cell among the settings can be modified in place.

        >>> network = rnn.Network([rnn.GRU(4)], inputs=3, outputs=2)
        >>> network.layers[0].units = 5
        >>> network.require_unchanged("save")
        Traceback (most recent call last):
        graphnet.errors.UsageError: save: the settings of ... were changed after it was created, ...
        """
        if self._made_with is not None and self._description() not in (None, self._made_with):
            raise UsageError(
                f"{who}: the settings of {shown(self, 200)} were changed after it was created, which does not "
                "change its weights and equations; create a new network with these settings"
            )

    def __graph__(self) -> gn.Graph:
        """Three time steps, for drawing."""
        labels = 2 if self.loss in SEQUENCE_LOSSES else None
        return self.unroll(time=3, batch=1, training=False, labels=labels).__graph__()

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises UsageError: `rnn.run` runs a network on arrays."""
        raise UsageError(
            "a Network cannot be called; write outputs, states = rnn.run(network, inputs) for arrays, "
            "or network.unroll(...) for nodes"
        )

    def __repr__(self) -> str:
        listed = ", ".join(map(repr, self.layers))
        return (
            f"Network([{listed}], inputs={self.inputs}, outputs={self.outputs}, loss={self.loss!r}): "
            f"{self.theta.size:,} parameters"
        )


def require_network(who: str, network: Any) -> Network:
    """Returns the network; UsageError, prefixed with `who`, for anything else."""
    if not isinstance(network, Network):
        hint = ", its class" if network is Network else ""
        raise UsageError(
            f"{who}: the argument must be a Network, not {shown(network)}{hint}; create one with "
            "rnn.Network([rnn.LSTM(128)], inputs=..., outputs=...), or load one with rnn.load(path)"
        )
    return network
