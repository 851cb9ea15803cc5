"""Arrays: a problem of cases in arrays, shuffled in every epoch, with a validation split."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, field, replace
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet.system.process import cached_property
from graphnet_rnn.data.batches import bucket_of, bucket_times
from graphnet_rnn.data.sequences import Sequences, balanced_weights, named_sequences, steps_of
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.network.ctc.decoding import greedy, label_error_rate
from graphnet_rnn.network.losses import SEQUENCE_LOSSES
from graphnet_rnn.network.network import Network, require_network
from graphnet_rnn.network.running import Runner
from graphnet_rnn.network.unroll import Unrolled
from graphnet_rnn.optimizers.objective import Objective
from graphnet_rnn.settings import Count, CountOrZero, setting, shown
from graphnet_rnn.training.batches_of_cases import (
    MEASURES,
    BatchesOfCases,
    digest_of_graph,
    divided,
    measures,
)
from graphnet_rnn.training.cases import (
    filled,
    fitting,
    is_ragged,
    judged_by_step,
    kind_of_weights,
    of_time,
    shares,
    weighed,
    weight_of,
    with_unused_targets_filled,
)
from graphnet_rnn.training.scores import confusion_of, errors_of, f1_of
from graphnet_rnn.training.state import digest_of


@dataclass(eq=False, repr=False)
class Arrays(BatchesOfCases):
    """C = Σ w L / Σ w over the targets of a batch, L the loss of a target and w its weight

    Trains a network on arrays. A target belongs to a time step of a case, or to a whole case (networks with one output
    for a sequence, and the loss "ctc"). Its loss is the sum over its values; if these have weights of their own, its
    weight is their mean.

    network: the network to train.
    inputs: (time, cases, inputs), or symbols (time, cases); or an rnn.data.Sequences, then without targets, lengths and
    weights.
    targets: as the network's loss takes them: of time steps, (time, cases) or (time, cases, outputs); of whole cases,
    (cases,) or (cases, outputs), or (cases, labels) for "ctc".
    batch: cases of a batch, default 32 (all, if there are fewer). Every epoch uses each case once, in a new random
    order; the last batch is padded with cases of weight 0.
    valid: validation data: (inputs, targets), (inputs, targets, weights), Sequences, or the fraction of the cases to
    hold out, the last ones (of segments, the last ones of each series); default 0.1; None for none.
    lengths: number of time steps of each case, (cases,); default None, all. Values after the end of a case are ignored.
    weights: weights in the loss, at least 0: of cases, (cases,), of time steps, (time, cases), or of values, the shape
    of the targets; default None, all 1. A target of weight 0 is missing, and may be NaN.
    gradient_batches: batches of a step, default 1; cases that do not fill the last step are left out of the epoch.
    curvature_batches: number of these batches for the curvature, default 1.
    unscored: time steps at the start without a target, default 0.
    balanced: True divides the weights of training targets by the total weight of their class, so that all classes have
    the same total weight; default False. Validation does not change. See rnn.data.balanced_weights.
    loss: function of two nodes, the outputs o and the targets t of the network, (time, cases, ...), that returns the
    loss of each target, (time, cases), or of each value, in the shape of o, which are then summed; without the time
    axis for targets of whole cases. With a scaling of outputs, o and t are standardized. Default None, the network's.
    buckets: maximum number of padded lengths, default 4: batches hold cases of similar length and are padded to one of
    these. Each length is compiled separately.
    clip_values, l2, threads, memory, backend: see Objective.
    frozen: patterns of parameters that are not trained, e.g. "layer0.*".

    History rows have the loss, in nats for the network's own (not for "squared"). Raises UsageError, DataError.

    >>> x = np.random.default_rng(0).normal(size=(10, 40, 1))  # (time, cases, inputs)
    >>> net = rnn.Network([rnn.GRU(4)], inputs=1, outputs=1, loss="squared")
    >>> problem = rnn.Arrays(net, x, np.cumsum(x, axis=0), batch=12)
    >>> len(problem)  # steps of an epoch: 36 cases to train, 4 to validate
    3
    """

    model: Network = field(init=False)
    objective: Objective = field(init=False)

    network: Network
    inputs: InitVar[Any]
    targets: InitVar[Any] = None
    batch: Count = setting(32, "cases of a batch")
    _: KW_ONLY
    valid: InitVar[float | tuple[Any, ...] | Sequences | None] = 0.1
    lengths: InitVar[Any] = None
    weights: InitVar[Any] = None
    gradient_batches: Count = setting(1, "batches of a step")
    curvature_batches: Count = setting(1, "number of these batches for the curvature")
    loss: Callable[[Node, Node], Node] | None = None
    unscored: CountOrZero = setting(0, "time steps at the start without a target")
    balanced: bool = setting(False, "classes: weigh all classes of the training targets equally")
    buckets: Count = setting(4, "maximum number of padded lengths for cases of different lengths")

    def __post_init__(
        self,
        inputs: Any,
        targets: Any,
        valid: float | tuple[Any, ...] | Sequences | None,
        lengths: Any,
        weights: Any,
    ) -> None:
        self.model = network = require_network("Arrays", self.network)
        self._check_sizes()
        if self.loss is not None and (not callable(self.loss) or network.loss in SEQUENCE_LOSSES):
            wanted = (
                "a function of (outputs, targets)" if not callable(self.loss) else "None with the loss 'ctc'"
            )
            raise UsageError(f"Arrays: loss must be {wanted}, not {shown(self.loss)}")
        if isinstance(inputs, Sequences):
            if any(each is not None for each in (targets, lengths, weights)):
                raise UsageError(
                    "Arrays: Sequences already contain targets, lengths and weights; leave these arguments out"
                )
            whole = inputs
        else:
            whole = named_sequences("Arrays", inputs, targets, lengths, weights, judged_by_step(network))
        train, kept = self._divided(self._fitting(whole), valid)
        if self.balanced:
            train = self._balanced(train)
        parts = [train] if kept is None else [train, kept]
        self._kind = kind_of_weights(network, parts)
        self._ragged = is_ragged(parts)
        self._train = weighed(train, self._kind)
        self._valid = None if kept is None else weighed(kept, self._kind)
        self._require_weight()
        self._require_known_outputs()
        self._labels = train.targets.shape[1] if network.loss in SEQUENCE_LOSSES else None
        self.batch = min(self.batch, len(self._train))
        self._times = [self._train.time]
        if self._ragged:
            lengths = [steps_of(each) for each in (self._train, self._valid) if each is not None]
            self._times = bucket_times(np.concatenate(lengths), self.buckets, self.batch)
        if self.unscored >= self._times[-1]:
            raise UsageError(
                f"Arrays: unscored must be below the number of time steps ({self._times[-1]}), not {self.unscored}: "
                "no target would be left"
            )
        # A shorter case has no target, so its weight is 0.
        self._times = sorted({max(time, self.unscored + 1) for time in self._times})
        self._begin(network.seed)
        first, *others = self._times
        self.objective = Objective(**self._sized(first), random=self._random, **self.objective_settings())
        for time in others:
            self.objective.add_size(**self._sized(time))
        self._judges: dict[int, gn.Function] = {}

    @property
    def unit_name(self) -> str:  # type: ignore[override]
        return self.model.unit if self.loss is None else getattr(self.loss, "__name__", "")

    # -- cases ---------------------------------------------------------------------------------

    def _fitting(self, given: Sequences) -> Sequences:
        found = fitting(self.model, given)
        own = self.loss is not None and found.targets.dtype.kind == "f"
        return with_unused_targets_filled(found, self.unscored) if own else found

    def _divided(self, whole: Sequences, valid: Any) -> tuple[Sequences, Sequences | None]:
        if valid is None:
            return whole, None
        if isinstance(valid, (tuple, Sequences)):
            if isinstance(valid, tuple):
                if len(valid) not in (2, 3):
                    raise UsageError("Arrays: valid must be (inputs, targets), or (inputs, targets, weights)")
                x, t, w = (*valid, None)[:3]
                valid = named_sequences("Arrays: valid", x, t, None, w, judged_by_step(self.model))
            return whole, self._like(whole, self._fitting(valid))
        first, last = divided("Arrays", valid, len(whole), whole.series)
        return whole.chosen(first), whole.chosen(last) if len(last) else None

    def _balanced(self, train: Sequences) -> Sequences:
        if self.model.loss != "softmax" or self.loss is not None:
            which = self.model.loss if self.loss is None else "of a function"
            raise UsageError(f"Arrays: balanced applies to classes, not to the loss {which}; leave it out")
        t, w = train.targets, train.target_weights().copy()
        if judged_by_step(self.model):
            w[: self.unscored] = 0
        return replace(train, weights=balanced_weights(t, w) if w.any() else w)

    def _require_known_outputs(self) -> None:
        """DataError for an output without any target in the training cases."""
        if self._kind != "values" or self.loss is not None:
            return
        w = shares(self._train, self.unscored)
        known = (w > 0).any(axis=tuple(range(w.ndim - 1)))
        if not known.all():
            number = int(np.argmin(known))
            columns = self.model.columns
            name = f"output {number}" if columns is None else columns.output_names()[number]
            smaller = "" if columns is None or columns.horizon is None else "a smaller horizon or "
            raise DataError(
                f"Arrays: no training case has a value of {name}, so it cannot be learned; leave it out, or take "
                f"{smaller}more cases"
            )

    def _require_weight(self) -> None:
        for what, part in (("train", self._train), ("validate", self._valid)):
            if part is not None and not shares(part, self.unscored).any():
                fewer = f"score more steps (unscored is {self.unscored}), " if self.unscored else ""
                raise DataError(
                    f"Arrays: of the cases to {what} on, at least one target must have a weight above 0; {fewer}choose "
                    "other validation data (valid; --valid, --fold), or leave out the cases without targets"
                )
            most = float(np.finfo(self.model.dtype).max)
            if part is not None and (total := weight_of(part, self.unscored)) > most:
                raise DataError(
                    f"Arrays: the weights of the cases to {what} on sum to {total:.3g}, above the largest number of "
                    f"{self.model.dtype}; divide all weights by one number"
                )

    def _like(self, whole: Sequences, kept: Sequences) -> Sequences:
        if self.model.loss in SEQUENCE_LOSSES and kept.targets.shape[1] != whole.targets.shape[1]:
            most = [each.targets.shape[1] for each in (whole, kept)]
            raise DataError(
                f"Arrays: training and validation cases must have as many labels; got {most[0]} and {most[1]}. Pad "
                "them with -1"
            )
        return kept

    # -- batches -------------------------------------------------------------------------------

    @property
    def _count(self) -> int:
        return len(self._train)

    def _packed(self, order: Array) -> list[Array]:
        return self._of_like_lengths(self._train, order)

    def _of_like_lengths(self, cases: Sequences, order: Array) -> list[Array]:
        if not self._ragged:
            return super()._packed(order)
        bucket = bucket_of(steps_of(cases), self._times)[order]
        groups = [order[bucket == k] for k in range(len(self._times))]
        return [group[i : i + self.batch] for group in groups for i in range(0, len(group), self.batch)]

    def _mixed(self, batches: list[Array], generator: np.random.Generator) -> list[Array]:
        if len(self._times) == 1:
            return super()._mixed(batches, generator)
        return [batches[i] for i in generator.permutation(len(batches))]

    def _divided_step(self, cases: Array, generator: np.random.Generator) -> list[Array]:
        if len(self._times) == 1:
            return super()._divided_step(cases, generator)
        alike = np.argsort(bucket_of(steps_of(self._train), self._times)[cases], kind="stable")
        batches = super()._divided_step(cases[alike], generator)
        return [batches[i] for i in generator.permutation(len(batches))]

    def _weight_of(self, which: Array) -> float:
        return weight_of(self._train, self.unscored, which)

    def _arrays_of(self, which: Array, scale: float) -> tuple[Any, ...]:
        return self._as_read(self._fed(self._train, which), scale)

    def _fed(self, cases: Sequences, which: Array) -> Sequences:
        """Returns a batch, padded with cases of weight 0 and cut to its length."""
        batch = filled(cases, which, self.batch)
        return of_time(batch, self._times[int(bucket_of(steps_of(batch), self._times).max())])

    def _as_read(self, batch: Sequences, scale: float = 1.0) -> tuple[Any, ...]:
        w = (shares(batch, self.unscored) * np.float64(scale)).astype(self.model.dtype)
        return (batch.inputs, batch.targets, w, *([batch.lengths] if self._ragged else []))

    # -- graphs --------------------------------------------------------------------------------

    def _unrolled(self, time: int, **how: Any) -> tuple[Unrolled, Node, Node]:
        """Returns the unrolled network, the weights of its targets, and C."""
        network = self.model
        u = network.unroll(
            time,
            self.batch,
            initial=network.initial_state,
            unscored=self.unscored,
            labels=self._labels,
            lengths=self._ragged,
            **how,
        )
        with gn.scope(layer="cost"):
            losses = self._of_targets(self._losses(u))
            w = gn.input(losses.shape, network.dtype, name="w")
            cost = gn.sum(w * losses)
        return u, w, cost

    def _losses(self, u: Unrolled) -> Node:
        """Returns the losses of targets, or of values if these have weights of their own."""
        of_values = self._kind == "values"
        if self.loss is None:
            return u.values if of_values else u.losses
        o, t = (self.model.standardized("outputs", node) for node in (u.logits, u.targets))
        found = self.loss(o, t)
        if not isinstance(found, Node) or found.shape not in {u.losses.shape, o.shape}:
            what = found.describe() if isinstance(found, Node) else shown(found)
            raise UsageError(
                f"Arrays: loss must return a node {list(u.losses.shape)}, a loss for each target, or {list(o.shape)}, "
                f"one for each value, not {what}"
            )
        if of_values and found.shape != o.shape:
            raise UsageError(
                f"Arrays: with weights of single values, loss must return a node {list(o.shape)}, a loss for each "
                f"value, not {found.describe()}"
            )
        if not of_values and found.shape != u.losses.shape:
            found = gn.sum(found, axis=-1)
        return found if u.judged_ends is None else u.judged_ends.cut(found)

    def _of_targets(self, values: Node) -> Node:
        """Selects the scored steps; averages values that share one weight."""
        by_step = judged_by_step(self.model)
        scored = values[self.unscored :] if by_step else values
        return gn.mean(scored, axis=0) if by_step and self._kind == "cases" else scored

    def _sized(self, time: int) -> dict[str, Any]:
        """Returns the cost of a padded length, with its arguments for Objective."""
        u, w, cost = self._unrolled(time, random=self._random)
        return {
            "cost": cost,
            "inputs": _inputs(u, w),
            "structure": u.structure,
            "structure_scale": self._share_of_case(u, w),
        }

    def _share_of_case(self, u: Unrolled, w: Node) -> Node:
        """Weight (batch,) of a time step in structural damping: mean weight of the targets of a step."""
        if self._kind == "values":
            w = gn.mean(w, axis=-1)
        by_step = judged_by_step(self.model)
        scored = (
            u.time - self.unscored if u.lengths is None else u.lengths - (self.unscored if by_step else 0)
        )
        if isinstance(scored, Node):
            scored = gn.cast(gn.maximum(scored, 1), w.dtype)
        return (gn.sum(w, axis=0) if by_step and self._kind != "cases" else w) / scored

    def _judge(self, time: int) -> gn.Function:
        if time not in self._judges:
            u, w, cost = self._unrolled(time, training=False)
            found = [self._of_targets(each) for each in measures(u, self._kind == "values").values()]
            self._judges[time] = gn.compile(
                [cost, *found], _inputs(u, w), backend=self.backend, threads=self.threads
            )
        return self._judges[time]

    # -- interface to a Trainer ----------------------------------------------------------------

    def validate(self) -> float | None:
        if self._valid is None:
            return None
        sums = np.zeros(1 + (self.model.loss in MEASURES))
        for which in self._of_like_lengths(self._valid, np.arange(len(self._valid))):
            batch = self._fed(self._valid, which)
            cost, *each = self._judge(batch.time)(*self._as_read(batch))
            w = shares(batch, self.unscored).astype(np.float64)
            sums += [float(cost), *(float((w * values).sum()) for values in each)]
        mean, *measured = (sums / weight_of(self._valid, self.unscored)).tolist()
        self._validated.keep(measured)
        return float(mean)

    def metrics(self) -> Mapping[str, Callable[[], float]]:
        """Metrics of the validation data, weighted: "accuracy" of classes and bits, "f1" of classes (macro average),
        "mae" and "rmse" of numbers (mean absolute error, root mean squared error).

        With the loss "ctc": "label_error_rate" of the most probable alignments.
        """
        if self._valid is None:
            return {}
        if self._labels is not None:
            return {"label_error_rate": self._label_error_rate}
        found = self._measured([MEASURES[self.model.loss]] if self.model.loss in MEASURES else [])
        more: dict[str, dict[str, Callable[[], float]]] = {
            "softmax": {"f1": self._f1},
            "squared": {"rmse": self._rmse},
        }
        return found | more.get(self.model.loss, {})

    def _predicted(self) -> tuple[Array, Array, Array]:
        """Returns outputs, targets and weights of the scored validation targets."""
        assert self._valid is not None
        outputs, _ = self._runner(self._valid.inputs, lengths=self._valid.lengths)
        first = self.unscored if judged_by_step(self.model) else 0
        return outputs[first:], self._valid.targets[first:], shares(self._valid, self.unscored)

    def _f1(self) -> float:
        outputs, t, w = self._predicted()
        return f1_of(confusion_of(t, outputs.argmax(axis=-1), w, self.model.outputs))

    def _rmse(self) -> float:
        outputs, t, w = self._predicted()
        return errors_of(outputs, t, w if self._kind == "values" else w[..., None])[1]

    def _label_error_rate(self) -> float:
        assert self._valid is not None
        logits, _ = self._runner(self._valid.inputs, lengths=self._valid.lengths)
        return label_error_rate(greedy(logits), list(self._valid.targets), self._valid.weights)

    @cached_property
    def _runner(self) -> Runner:
        return Runner(self.model, backend=self.backend, threads=self.threads)

    def description(self) -> dict[str, Any]:
        kept = [self._train, *([] if self._valid is None else [self._valid])]
        lengths = [steps_of(each) for each in kept] if self._ragged else []
        arrays = [array for each in kept for array in (each.inputs, each.targets, shares(each, 0))] + lengths
        own = (
            {}
            if self.loss is None
            else {"loss": digest_of_graph(self._unrolled(self._times[0], training=False)[2])}
        )
        return {**super().description(), "data": digest_of(*arrays), **own}


def _inputs(u: Unrolled, w: Node) -> list[Node]:
    return [u.inputs, u.targets, w, *([] if u.lengths is None else [u.lengths])]
