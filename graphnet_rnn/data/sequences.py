"""Sequences: padded arrays of cases with different lengths, and missing values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphnet.graph.dtypes import require_unmasked
from graphnet.graph.node import Array, Dtype
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.settings import listed, shown, whole_number, yes_no_or_none


@dataclass(frozen=True, eq=False)
class Sequences:
    """Padded sequences: arrays of cases, padded to the longest, with their lengths and weights.

    inputs: (time, cases, width), or symbols (time, cases).
    targets: of each time step, (time, cases, width), or symbols (time, cases); of each case, (cases,) or (cases,
    width); or the labels of each case, (cases, most), padded with -1.
    lengths: number of time steps of each case, (cases,), from 1 to time; default None, all. Values after the end of a
    case are ignored.
    weights: factors in the loss: of cases, (cases,), of time steps, (time, cases), or of single target values, the
    shape of the targets; default None, all equal. A target of weight 0 is missing, and may be NaN.
    by_step: True if targets are of time steps, False if of whole cases; default None, inferred from their shape.
    series: index of the series that each case is a segment of, (cases,), whole numbers, segments in the order of time;
    default None, the cases are independent.
    Raises DataError if the arrays do not fit together.

    >>> x = np.zeros((20, 3, 2))  # 3 cases of at most 20 steps, 2 inputs
    >>> data = rnn.data.Sequences(x, np.array([0, 1, 1]), lengths=[20, 5, 12])
    >>> len(data), data.time, data.inside().sum(axis=0).tolist()
    (3, 20, [20, 5, 12])
    >>> data.chosen([1, 2]).lengths.tolist()
    [5, 12]
    >>> train, valid = data.fold(0, folds=3)
    >>> len(train), len(valid)
    (2, 1)
    >>> rnn.data.Sequences.of([np.zeros((20, 2)), np.zeros((5, 2))], [0, 1]).inputs.shape
    (20, 2, 2)
    >>> series = rnn.data.Sequences.cases_first(np.zeros((3, 20, 2)), np.zeros((3, 20, 1)), weights=[1, 1, 0.5])
    >>> series.inputs.shape, series.target_weights().shape
    ((20, 3, 2), (20, 3, 1))
    >>> len(series.pieces(8)), series.pieces(8).lengths.tolist()
    (9, [8, 8, 4, 8, 8, 4, 8, 8, 4])
    """

    inputs: Array
    targets: Array
    lengths: Array | None = None
    weights: Array | None = None
    by_step: bool | None = None
    series: Array | None = None

    def __post_init__(self) -> None:
        for name in ("inputs", "targets", "lengths", "weights", "series"):
            given = getattr(self, name)
            if given is not None or name in ("inputs", "targets"):
                array = array_of_numbers(f"Sequences: {name}", given)
                if array.dtype.kind not in "biuf":
                    raise DataError(f"Sequences: {name} must be numbers, not {array.dtype}")
                object.__setattr__(self, name, array)
        yes_no_or_none("Sequences: by_step", self.by_step)
        x, t, w = self.inputs, self.targets, self.weights
        if x.ndim not in (2, 3) or not x.size:
            raise DataError(
                "Sequences: inputs must be (time, cases, width), or symbols (time, cases), without an axis of size "
                f"0, not {list(x.shape)}; see Sequences.of for lists"
            )
        time, cases = x.shape[:2]
        of_steps = t.ndim in (2, 3) and t.shape[:2] == (time, cases)
        of_cases = t.ndim in (1, 2) and len(t) == cases
        if not {True: of_steps, False: of_cases, None: of_steps or of_cases}[self.by_step]:
            wanted = [f"({time}, {cases}, ...) for each time step"] * (self.by_step is not False)
            wanted += [f"({cases}, ...) for each case"] * (not self.by_step)
            remedy = (
                "; for arrays with cases first use Sequences.cases_first(...)"
                if t.shape[:1] == (time,)
                else ""
            )
            if self.by_step and of_cases:
                remedy = '; one target for each case needs a network with pool="last", "mean" or "max"'
            elif self.by_step is False and of_steps:
                remedy = "; targets for each time step need a network without pool"
            raise DataError(f"Sequences: targets must be {' or '.join(wanted)}, not {list(t.shape)}{remedy}")
        if t.ndim == 3 and not t.size:
            raise DataError(f"Sequences: targets have no values: their shape is {list(t.shape)}")
        if self.by_step is None:
            object.__setattr__(self, "by_step", of_steps)
        if self.lengths is not None:
            object.__setattr__(self, "lengths", checked_lengths("Sequences", self.lengths, time, cases))
        if self.series is not None and (self.series.shape != (cases,) or self.series.dtype.kind not in "iu"):
            found = f"{self.series.dtype} {list(self.series.shape)}"
            raise DataError(
                f"Sequences: series must be whole numbers ({cases},), one for each case, not {found}"
            )
        steps = {(time, cases)} if self.by_step else set()
        if w is not None and w.shape not in {(cases,), t.shape, *steps}:
            of_step = f"({time}, {cases}), for each step, " if self.by_step else ""
            raise DataError(
                f"Sequences: weights must be {list(t.shape)}, one for each target, {of_step}or ({cases},), for each "
                f"case, not {list(w.shape)}"
            )
        if w is not None:
            inside = self.target_weights()
            odd = inside[~np.isfinite(inside) | (inside < 0)]
            if len(odd):
                raise DataError(f"Sequences: weights must be finite and at least 0; got {odd[0]:g}")

    @classmethod
    def cases_first(
        cls, inputs: Any, targets: Any, lengths: Any = None, weights: Any = None, by_step: bool | None = None
    ) -> Sequences:
        """Converts arrays whose first axis is that of the cases: inputs (cases, time, width) or (cases, time).

        inputs, targets, lengths, weights, by_step: as in Sequences, with targets and weights of time steps (cases,
        time, ...). Raises DataError.
        """
        x, t = array_of_numbers("Sequences: inputs", inputs), array_of_numbers("Sequences: targets", targets)
        w = None if weights is None else array_of_numbers("Sequences: weights", weights)
        yes_no_or_none("Sequences: by_step", by_step)

        def turned(array: Array, of_steps: bool) -> Array:
            return np.swapaxes(array, 0, 1) if of_steps and array.ndim > 1 else array

        of_steps = t.shape[:2] == x.shape[:2] if by_step is None else by_step
        if w is not None and w.ndim > 1 and (of_steps or w.shape != t.shape):
            if w.shape[:2] != x.shape[:2]:
                raise DataError(
                    f"Sequences: weights must be (cases,) or begin with (cases, time), {list(x.shape[:2])} as inputs "
                    f"do, not {list(w.shape)}"
                )
            w = turned(w, of_steps)
        return cls(turned(x, True), turned(t, of_steps), lengths, w, of_steps)

    @classmethod
    def of(
        cls,
        inputs: Sequence[Any] | Array,
        targets: Sequence[Any] | Array,
        weights: Sequence[Any] | Array | None = None,
        by_step: bool | None = None,
    ) -> Sequences:
        """Pads lists of cases: inputs (steps, width), or symbols (steps,), of each case, with zeros; labels with -1.

        inputs: a list of arrays, one for each case.
        targets: likewise, of each time step, (steps, ...), of the whole case, (), or labels, (labels,).
        weights: a number for each case, or a list of arrays like targets; default None, all equal.
        by_step: True if targets are of time steps; default None, True if they are as long as the inputs in all cases.
        Raises DataError if the cases do not fit together.
        """
        x = _arrays("Sequences: inputs", inputs)
        t = _arrays("Sequences: targets", targets)
        if len(x) != len(t):
            raise DataError(
                f"Sequences: inputs and targets must have as many cases; got {len(x)} cases with inputs and "
                f"{len(t)} with targets"
            )
        lengths = _lengths("Sequences", x)
        as_long = all(b.ndim and len(b) == n for b, n in zip(t, lengths, strict=True))
        if yes_no_or_none("Sequences: by_step", by_step) and not as_long:
            raise DataError(
                "Sequences: with by_step=True, the targets of a case must have as many time steps as its inputs"
            )
        by_step = as_long if by_step is None else by_step
        if by_step:
            stacked = _filled("targets", t, axis=1)
        elif all(b.ndim == 0 for b in t):
            stacked = np.stack(t)
        else:
            if len({b.shape for b in t}) > 1 and not all(b.dtype.kind in "iu" or not b.size for b in t):
                raise DataError(
                    "Sequences: targets of whole cases that are no labels (whole numbers) must have the same shape in "
                    f"all cases, not {' and '.join(map(str, sorted({b.shape for b in t})[:4]))}"
                )
            stacked = _filled("labels", t, axis=0, with_value=-1)
        w = None
        if weights is not None:
            each = _arrays("Sequences: weights", weights)
            whole = not by_step or all(b.ndim == 0 for b in each)
            if len(each) != len(x) or (whole and len({b.shape for b in each}) > 1):
                found = f"{len(each)} of shapes {sorted({b.shape for b in each})[:4]}"
                raise DataError(
                    f"Sequences: weights must be one number for each of the {len(x)} cases, or have the shapes of "
                    f"targets, not {found}"
                )
            for case, (own, steps) in enumerate(zip(each, lengths, strict=True)):
                if not whole and own.ndim and (len(own) < steps or own[steps:].any()):
                    raise DataError(
                        f"Sequences: the weights of case {case} must have {steps} time steps, as its inputs, not "
                        f"{len(own)}"
                    )
            w = np.stack(each) if whole else _filled("weights", each, axis=1)
        return cls(_filled("inputs", x, axis=1), stacked, lengths, w, by_step)

    def __len__(self) -> int:
        """Number of cases."""
        return int(self.inputs.shape[1])

    @property
    def time(self) -> int:
        """Padded length: number of time steps of the arrays."""
        return len(self.inputs)

    def inside(self) -> Array:
        """Returns a mask (time, cases), True where the time step lies within the sequence."""
        steps = np.arange(self.time)[:, None]
        return np.broadcast_to(True, self.inputs.shape[:2]) if self.lengths is None else steps < self.lengths

    def target_weights(self) -> Array:
        """Returns the weight of each target in the loss, in the shape of the targets."""
        there = self.inside() if self.by_step else np.ones(len(self.targets), bool)
        if self.weights is None:
            w = there * 1.0
        else:
            w = np.where(there if self.weights.ndim <= there.ndim else there[..., None], self.weights, 0.0)
        return np.broadcast_to(w.reshape(*w.shape, *[1] * (self.targets.ndim - w.ndim)), self.targets.shape)

    def chosen(self, cases: Any) -> Sequences:
        """Selects cases.

        cases: indices, a slice or a mask. In another order than that of time, segments no longer count as parts of
        their series.
        Raises DataError for others, and if no case is left.
        """
        try:
            which = np.arange(len(self))[cases if isinstance(cases, slice) else np.asarray(cases)]
        except (IndexError, ValueError):
            which = np.array(0)
        if which.ndim != 1 or not which.size:
            raise DataError(
                f"Sequences: cases must be indices of the {len(self)} cases, a slice or a mask, and leave at least one "
                f"case; got {shown(cases)}"
            )
        axes = {"inputs": 1, "targets": int(bool(self.by_step)), "lengths": 0, "series": 0}
        axes["weights"] = weights_axis(self)
        arrays = ((name, getattr(self, name), axis) for name, axis in axes.items())
        found = {name: a.take(which, axis=axis) for name, a, axis in arrays if a is not None}
        if (np.diff(which) <= 0).any():
            found["series"] = None
        return changed(self, **found)

    def fold(self, fold: int, folds: int, seed: int = 0, gap: int = 0) -> tuple[Sequences, Sequences]:
        """Splits into training and validation cases for cross-validation.

        fold: index of the fold to validate on, 0 ... folds - 1 (`--fold K/N` of the command line is fold K - 1 of N).
        folds: number of folds.
        seed: seed of the random assignment of cases to folds.
        gap: time steps on each side of a validation block to leave out of both parts, since neighbors are correlated.
        Rounded up to whole segments.

        Independent cases are assigned at random; so are whole series, if there are at least as many as folds. Fewer
        series are cut in the order of time, each into `folds` blocks. Raises UsageError.
        """
        folds = whole_number("Sequences: folds", folds, least=2)
        fold = whole_number("Sequences: fold", fold, least=0)
        seed = whole_number("Sequences: seed", seed, least=0)
        gap = whole_number("Sequences: gap", gap, least=0)
        if not fold < folds <= len(self):
            remedy = "; cut the series into segments by pieces(time)" if len(self) == 1 else ""
            raise UsageError(
                f"Sequences: fold must be below folds, and folds at most the number of cases ({len(self)}); got "
                f"fold {fold} of {folds}{remedy}"
            )
        of = np.arange(len(self)) if self.series is None else np.unique(self.series, return_inverse=True)[1]
        count = int(of.max()) + 1
        if count >= folds:
            if gap:
                raise UsageError(
                    f"Sequences: gap applies to blocks of time; these folds are {count} independent cases or "
                    f"series. Leave out gap (got {gap})"
                )
            parts = np.array_split(np.random.default_rng(seed).permutation(count), folds)
            held = np.isin(of, parts[fold])
            return self.chosen(np.flatnonzero(~held)), self.chosen(np.flatnonzero(held))
        far = -(-gap // self.time)
        train, valid = list[int](), list[int]()
        for one_of in range(count):
            pieces = np.flatnonzero(of == one_of)
            begin, end = len(pieces) * fold // folds, len(pieces) * (fold + 1) // folds
            valid += pieces[begin:end].tolist()
            train += [*pieces[: max(0, begin - far)].tolist(), *pieces[end + far :].tolist()]
        if not (train and valid):
            apart = f" with a gap of {gap:,}" * (gap > 0)
            raise UsageError(
                f"Sequences: {folds} folds of {len(self):,} segments of {self.time:,} steps{apart} leave none for "
                f"training or for validation; use {'a smaller gap or ' * (gap > 0)}fewer folds"
            )
        return self.chosen(train), self.chosen(valid)

    def pieces(self, time: int) -> Sequences:
        """Cuts each case into segments; the last one of a case may be shorter.

        time: maximum number of time steps of a segment.
        """
        time = whole_number("Sequences: time", time)
        if self.lengths is None:
            time = min(time, self.time)
        if not self.by_step:
            raise UsageError(
                "Sequences: cases with one target for the whole case cannot be cut into segments"
            )
        own = steps_of(self)
        starts = [(n, start) for n, length in enumerate(own) for start in range(0, length, time)]
        cases = np.array([n for n, _ in starts])
        rows = np.array([start for _, start in starts]) + np.arange(time)[:, None]
        rows = np.minimum(rows, self.time - 1)

        weights = None
        found = np.minimum(time, own[cases] - np.array([start for _, start in starts]))
        lengths = None if self.lengths is None and (found == time).all() else found
        if self.weights is not None:
            weights = self.weights[cases] if self.weights.ndim == 1 else self.weights[rows, cases]
        series = cases if self.series is None else self.series[cases]
        return Sequences(self.inputs[rows, cases], self.targets[rows, cases], lengths, weights, True, series)


def changed(cases: Sequences, **arrays: Array) -> Sequences:
    """Returns a copy with other arrays, which are not checked again."""
    found = copy(cases)
    vars(found).update(arrays)
    return found


def steps_of(cases: Sequences) -> Array:
    """Returns the length of each case, (cases,)."""
    return np.full(len(cases), cases.time) if cases.lengths is None else cases.lengths


def weights_axis(cases: Sequences) -> int:
    """Returns the axis of the cases in the weights."""
    return int(bool(cases.by_step) and cases.weights is not None and cases.weights.ndim > 1)


def named_sequences(who: str, *arrays: Any, kind: Callable[..., Sequences] = Sequences) -> Sequences:
    """Makes Sequences with `kind`; errors begin with the name of the caller, `who`."""
    try:
        return kind(*arrays)
    except DataError as error:
        raise DataError(f"{who}: {str(error).removeprefix('Sequences: ')}") from None


def checked_lengths(who: str, lengths: Any, time: int, cases: int) -> Array:
    """Returns the lengths as int64 (cases,); DataError, with the caller's name `who`, unless each is in 1 ... time."""
    found = array_of_numbers(f"{who}: lengths", lengths)
    if found.shape != (cases,) or found.dtype.kind not in "iu":
        wanted = f"whole numbers ({cases},), one for each case"
        raise DataError(f"{who}: lengths must be {wanted}, not {found.dtype} of shape {list(found.shape)}")
    odd = np.flatnonzero((found < 1) | (found > time))
    if len(odd):
        n = int(odd[0])
        raise DataError(
            f"{who}: lengths must be in 1 ... {time} (the time steps of inputs); got {found[n]} for case {n}"
        )
    return found.astype(np.int64)


def zero_outside(array: Array, inside: Array) -> Array:
    """Returns the array (time, cases, ...) with 0 where the mask (time, cases) is False."""
    return np.where(inside if array.ndim == 2 else inside[..., None], array, np.zeros((), array.dtype))


def padded(cases: Sequence[Any]) -> tuple[Array, Array]:
    """Pads a list of cases with zeros to the longest; returns the array (time, cases, ...) and the lengths (cases,)

    cases: a list of arrays (steps, ...), one for each case.

    Use it to run a network on cases without targets. Raises DataError if the cases do not fit together, have no
    steps, or hold integers above 2⁵³ that would become floats.

    >>> x, lengths = rnn.data.padded([[1.0, 2.0, 3.0], [4.0]])
    >>> x.tolist(), lengths.tolist()
    ([[1.0, 4.0], [2.0, 0.0], [3.0, 0.0]], [3, 1])
    >>> net = rnn.Network([rnn.GRU(4)], inputs=1, outputs=2, loss="squared")
    >>> outputs, states = rnn.run(net, x[..., np.newaxis], lengths=lengths)
    >>> outputs.shape
    (3, 2, 2)
    """
    given = _arrays("padded: cases", cases)
    lengths = _lengths("padded", given)
    return _filled("inputs", given, axis=1), lengths


def balanced_weights(labels: Any, weights: Any = None) -> Array:
    """w_n = v_n N / (K N_k), k the label of case (or time step) n: all K classes with weight get the same total weight

    labels: whole numbers of any shape. weights: v >= 0, of the same shape; default None, all 1. N_k is the total weight
    of class k, and N that of all classes; classes without weight do not count. Returns weights of the same shape.

    >>> rnn.data.balanced_weights([0, 0, 0, 1]).round(3).tolist()
    [0.667, 0.667, 0.667, 2.0]
    """
    found = array_of_numbers("balanced_weights: labels", labels)
    if found.dtype.kind not in "iu" or not found.size:
        raise DataError(
            f"balanced_weights: labels must be whole numbers, not {found.dtype} {list(found.shape)}"
        )
    v = (
        np.ones(found.shape)
        if weights is None
        else array_of_numbers("balanced_weights: weights", weights).astype(np.float64)
    )
    if v.shape != found.shape or not (np.isfinite(v) & (v >= 0)).all() or not v.any():
        raise DataError(
            f"balanced_weights: weights must be {list(found.shape)}, finite, at least 0 and not all 0, not "
            f"{list(v.shape)} from {v.min(initial=0):g} to {v.max(initial=0):g}"
        )
    which = np.unique(found, return_inverse=True)[1].reshape(found.shape)
    totals = np.bincount(which.ravel(), v.ravel())
    shares = np.divide(
        v.sum() / np.count_nonzero(totals), totals, out=np.zeros_like(totals), where=totals > 0
    )
    return v * shares[which]


def _arrays(what: str, given: Any) -> list[Array]:
    try:
        found = [
            array_of_numbers(f"{what} of case {i}", each)
            for i, each in enumerate(listed(what, given, "cases"))
        ]
    except UsageError as error:
        raise DataError(str(error)) from None
    dtype = _common_dtype(found)
    for i, each in enumerate(found):
        if dtype.kind == "f" and each.dtype.kind in "iu" and each.size:
            largest = max(int(each.min()), int(each.max()), key=abs)
            if abs(largest) > 2**53:
                raise DataError(
                    f"{what} of case {i} are {each.dtype}, and {dtype}, the common dtype of all cases, may round "
                    f"{largest}; convert all cases to one dtype"
                )
    return found


def _common_dtype(cases: Sequence[Array]) -> Dtype:
    return np.result_type(*[each.dtype for each in cases if each.size] or [np.int64])  # [] is float64


def _lengths(who: str, cases: Sequence[Array]) -> Array:
    single = next((n for n, each in enumerate(cases) if not each.ndim), None)
    if single is not None:
        raise DataError(
            f"{who}: each case must be a sequence; case {single} is {shown(cases[single].item())}"
        )
    found = np.array([len(each) for each in cases])
    if not found.all() or not len(found):
        which = f"case {int(found.argmin())} has no time steps" if len(found) else "there are no cases"
        raise DataError(f"{who}: {which}")
    return found


def array_of_numbers(what: str, given: Any) -> Array:
    """Returns `given` as an array; DataError, with its name `what`, for lists of several lengths and for objects."""
    require_unmasked(what, given)
    try:
        found = np.asarray(given)
    except ValueError:  # rows of several lengths
        found = np.array(None)
    if found.dtype == object:
        remedy = "see Sequences.of for lists of cases"
        if isinstance(given, Mapping):
            remedy = (
                "for a mapping from classes to weights use np.vectorize(mapping.get)(targets), or "
                "balanced_weights(targets)"
            )
        raise DataError(f"{what} must be an array of numbers, not {shown(given)}; {remedy}")
    return found


def _filled(name: str, cases: Sequence[Array], axis: int, with_value: int = 0) -> Array:
    """Stacks and pads arrays to (time, cases, ...) or (cases, most)."""
    for i, each in enumerate(cases):
        if each.ndim < 1 or each.shape[1:] != cases[0].shape[1:]:
            raise DataError(
                f"Sequences: all cases must have the same shape except for the number of steps; {name} of case {i} "
                f"have the shape {list(each.shape)}, of case 0 {list(cases[0].shape)}"
            )
    longest = max(len(each) for each in cases)
    dtype = _common_dtype(cases)
    if with_value < 0:
        dtype = np.result_type(dtype, np.min_scalar_type(with_value))
    found = np.full((len(cases), longest, *cases[0].shape[1:]), with_value, dtype)
    for i, each in enumerate(cases):
        found[i, : len(each)] = each
    return np.ascontiguousarray(np.swapaxes(found, 0, 1)) if axis else found
