"""Training data of `train`: a text, sequences of a file, or a generated problem."""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet.system.text import in_brief
from graphnet_rnn.apps.cli.options import given_settings, refuse
from graphnet_rnn.apps.cli.specs import no_limit, optimizer_class
from graphnet_rnn.cell.initializers import Initializer, log_frequencies, log_odds
from graphnet_rnn.data.columns import Columns, most_categories, names
from graphnet_rnn.data.frame import Frame, frame_of
from graphnet_rnn.data.scaling import Scaling
from graphnet_rnn.data.sequence_files import ENDINGS, read_sequences
from graphnet_rnn.data.sequences import Sequences
from graphnet_rnn.data.table import Table
from graphnet_rnn.data.table_files import is_table
from graphnet_rnn.data.text import Corpus, Vocabulary, standard_library_text
from graphnet_rnn.errors import UsageError
from graphnet_rnn.installed import installed, material_kind
from graphnet_rnn.network.losses import SEQUENCE_LOSSES, VALUE_LOSSES
from graphnet_rnn.network.network import Network
from graphnet_rnn.optimizers.base import Optimizer
from graphnet_rnn.optimizers.first_order import FirstOrder
from graphnet_rnn.settings import declared_settings, shown, whole_number
from graphnet_rnn.training.arrays import Arrays
from graphnet_rnn.training.batches_of_cases import divided
from graphnet_rnn.training.problem import Problem
from graphnet_rnn.training.text import CarriedText, DrawnText

#: Number of classes that is always accepted.
FEW_CLASSES = 1000
#: Maximum number of input symbols, and of labels.
MOST_SYMBOLS = 1_000_000
#: Default batch size; of fewer than 256 cases, an eighth of them, so that an epoch has several steps, but at least 4.
FULL, LEAST_STEPS, LEAST = 32, 8, 4
#: Share of the cases of a file for validation.
VALID = 0.1
#: Default number of rows of a segment of a long table.
PIECE = 100
#: Options that name the arrays or columns of a file.
CHOICES = (
    "inputs", "target", "weights", "lengths", "case", "cases_first", "pieces", "time_column", "calendar", "categories",
    "horizon", "date_format", "independent_rows",
)  # fmt: skip
OF_ARRAYS = ("lengths", "cases_first")
OF_TABLES = ("case", "time_column", "calendar", "categories", "horizon", "date_format", "independent_rows")
#: Options for some kinds of data only, besides the settings of their problems.
OF_TEXTS = ("test", "unknown", "encoding", "gap")
OF_SEQUENCES = (*CHOICES, "loss", "pool", "gap", "no_scaling")


def add_choices(parser: argparse.ArgumentParser, predicts: bool = False) -> None:
    """Adds options that name the inputs, targets, weights and lengths in a file of sequences. predicts: no weights."""
    add = parser.add_argument
    add(
        "--inputs",
        metavar="NAMES",
        help="input columns, a,b (default: all others), or input array (default: x)",
    )
    if predicts:
        add("--target", metavar="NAMES", help="table: target columns, a,b")
        parser.set_defaults(weights=None)
    else:
        add("--target", metavar="NAMES", help="target columns, a,b, or target array (default: y)")
        add(
            "--weights",
            metavar="NAME",
            help="column or array of loss weights, of cases, time steps or values",
        )
    add(
        "--lengths",
        metavar="NAME",
        help="array of sequence lengths (default: lengths, if it exists)",
    )
    add("--case", metavar="NAME", help="table: column with the name or number of each row's sequence")
    add(
        "--cases-first",
        action="store_true",
        help="arrays have the shape (cases, time, ...), not (time, cases, ...)",
    )
    add("--pieces", type=int, metavar="N", help="cut sequences into segments of N time steps")
    add("--time-column", metavar="NAME", help="table: column with the time of each row; sorts the rows")
    add(
        "--calendar",
        metavar="NAMES",
        help="table: inputs from dates, of hour, weekday, day (of the year), month",
    )
    add("--categories", metavar="NAMES", help="table: columns of numbers that are categories or classes")
    add("--horizon", type=int, metavar="N", help="table: predict the targets of the next N rows")
    add(
        "--date-format",
        metavar="FORMAT",
        help="table: format of dates, e.g. '%%d.%%m.%%Y %%H:%%M' (default: ISO 8601)",
    )
    add(
        "--independent-rows",
        action="store_true",
        help="table: rows do not depend on each other; each is a case of one time step",
    )


def names_of(option: str, given: str | None) -> tuple[str, ...]:
    return () if given is None else names(f"--{option}", given)


def arrays_of(options: argparse.Namespace, file: str, *, predicted: bool = False) -> dict[str, Any]:
    """Arguments of read_sequences, or of read_inputs if the file is to be predicted."""
    refuse(_given(options, OF_TABLES), f"applies only to tables, not to {file}")
    found = {"inputs": options.inputs, "lengths": options.lengths, "pieces": options.pieces}
    if predicted:
        refuse(_given(options, ("target",)), f"does not apply to predictions of {file}")
    else:
        found |= {"targets": options.target, "weights": options.weights}
    given = {what: name for what, name in found.items() if name is not None}
    return given | {"cases_first": options.cases_first}


def _given(options: argparse.Namespace, names: Collection[str]) -> list[str]:
    return [name for name in names if getattr(options, name) not in (None, False)]


def table_of(
    options: argparse.Namespace, frame: Frame, columns: Columns | None, whole: bool, classes: bool = False
) -> Table:
    """Table of these options. columns: of a model. whole: True if a case has one target; classes: if it is one."""
    refuse(_given(options, OF_ARRAYS), f"applies only to arrays, not to {frame.where}")
    described = {
        "inputs": names_of("inputs", options.inputs),
        "targets": names_of("target", options.target),
        "calendar": names_of("calendar", options.calendar),
        "categories": names_of("categories", options.categories),
        "horizon": options.horizon,
        "independent": options.independent_rows,
    }
    if classes:
        both = (*described["categories"], *described["targets"])
        described["categories"] = tuple(dict.fromkeys(both))
    return Table(
        frame,
        columns,
        case=options.case,
        time=options.time_column,
        date_format=options.date_format,
        weights=options.weights,
        whole=whole,
        pieces=options.pieces,
        **described,
    )


def table_for(network: Network, options: argparse.Namespace, frame: Frame) -> Table:
    """Table of these options for a trained network, which has its columns."""
    table = table_of(options, frame, network.columns, network.pool is not None)
    found = table.columns.input_names()
    if network.columns is None and len(found) != network.inputs:
        raise UsageError(
            f"the model reads {network.inputs} inputs, but {frame.where} has {len(found)} "
            f"({in_brief(', '.join(found))}); name the columns by --inputs"
        )
    return table


def chosen(options: argparse.Namespace) -> str:
    """The options that predictions of arrays need, as shell words."""
    words = []
    for name in ("inputs", "lengths", "cases_first", "pieces"):
        value, option = getattr(options, name), f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value not in (None, False):
            words += [option, shlex.quote(str(value))]
    return "".join(f" {word}" for word in words)


class Material(ABC):
    """Training data of a run, from the arguments of `train`. Others: entry points of graphnet_rnn.materials.

    shape: arguments of a Network that fits. batch: default batch size.
    """

    shape: dict[str, Any]
    batch: int | None = FULL

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options

    @abstractmethod
    def problem(self, network: Network, optimizer: Optimizer) -> Problem:
        """Problem of the run."""

    def settings(self, kind: type, **others: Any) -> dict[str, Any]:
        """Settings of a problem from the arguments."""
        options = self.options
        how: dict[str, Any] = {
            "clip_values": no_limit("--clip-values", options.clip_values),
            "memory": _memory(options.memory),
            "batch": self.batch if options.batch is None else options.batch,
        }
        known = {each.name for each in declared_settings(kind)}
        return given_settings(kind, options, **{k: v for k, v in how.items() if k in known} | others)

    def require_fitting(self, kinds: Collection[type], others: Collection[str], what: str) -> None:
        """Raises UsageError for options that do not apply. kinds: classes whose settings apply."""
        of_problems = {each.name for kind in PROBLEMS for each in declared_settings(kind)}
        known = {each.name for kind in kinds for each in declared_settings(kind)}
        strange = of_problems - known | {*OF_TEXTS, *OF_SEQUENCES} - {*others}
        refuse(self.options.written & strange, f"does not apply to {what}")


PROBLEMS = (CarriedText, DrawnText, Arrays)


def material_of(options: argparse.Namespace, network: Network | None = None) -> Material:
    """Material for the name of the data. network: trained network, whose columns and scaling the data use."""
    data = options.data
    if (kind := material_kind(data)) is not None:
        material: Material = installed("materials", kind)(options)
        return material
    if data is not None and Path(data).suffix.lower() in ENDINGS:
        return FileMaterial(options, network)
    return TextMaterial(options, network)


# -- texts -------------------------------------------------------------------------------------


class TextMaterial(Material):
    """A text file, or the sources of Python's library."""

    def __init__(self, options: argparse.Namespace, network: Network | None = None) -> None:
        super().__init__(options)
        self.require_fitting((CarriedText, DrawnText), OF_TEXTS, "a text")
        self.corpus = load_corpus(options, None if network is None else network.vocabulary)
        size = len(self.corpus.vocabulary)
        self.shape = {
            "inputs": size,
            "outputs": size,
            "initial": {"b_o": log_frequencies(self.corpus.train)},
        }

    def problem(self, network: Network, optimizer: Optimizer) -> Problem:
        """Segments with carried states, or independent sequences with --gradient-batches."""
        options = self.options
        gradient, curvature = _gradient_batches(options), _curvature_batches(options)
        if gradient is None:
            if options.unscored:
                raise UsageError(
                    "--unscored applies only to independent sequences; also give --gradient-batches"
                )
            return CarriedText(network, self.corpus, **self.settings(CarriedText))
        if name := _of_segments(options):
            raise UsageError(
                f"{name} applies only to segments with carried states; leave it out with --gradient-batches"
            )
        batches: dict[str, Any] = {"gradient_batches": gradient, "curvature_batches": curvature}
        return DrawnText(network, self.corpus, **self.settings(DrawnText, **batches))


def load_corpus(options: argparse.Namespace, vocabulary: Vocabulary | None = None) -> Corpus:
    """Texts of the arguments, split into training, validation and test text. vocabulary: of a trained network."""
    found = _fold(options)
    texts = _texts(options, vocabulary)
    return texts if found is None else texts.fold(*found, options.gap)


def _fold(options: argparse.Namespace) -> tuple[int, int] | None:
    """(fold from 0, number of folds)"""
    whole_number("--gap", options.gap, least=0)
    if options.fold is None:
        if options.gap:
            raise UsageError("--gap needs --fold")
        return None
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", options.fold)
    if found is None or not 1 <= int(found[1]) <= int(found[2]) or int(found[2]) < 2:
        raise UsageError(f"--fold must be K/N, such as 1/5, K of 1 ... N, not {in_brief(options.fold)}")
    if options.valid is not None:
        raise UsageError("--fold and --valid both set the validation data; give only one of them")
    return int(found[1]) - 1, int(found[2])


def _texts(options: argparse.Namespace, vocabulary: Vocabulary | None) -> Corpus:
    if options.data is None:
        if options.valid or options.test:
            raise UsageError("--valid and --test need a training text")
        unknown = None if vocabulary is None else options.unknown
        return Corpus.split(standard_library_text(), vocabulary=vocabulary, unknown=unknown)
    if options.valid is None:
        if options.test is not None:
            raise UsageError("--test FILE needs --valid FILE as well")
        if options.unknown is not None and vocabulary is None:
            raise UsageError("--unknown needs --valid FILE")
        return Corpus.read(
            options.data, unknown=options.unknown, encoding=options.encoding, vocabulary=vocabulary
        )
    files = (options.data, options.valid, options.test)
    corpus = Corpus.read(*files, options.unknown, options.encoding, vocabulary=vocabulary)
    for option, file, part in (
        ("--valid", options.valid, corpus.valid),
        ("--test", options.test, corpus.test),
    ):
        if file and len(part) <= options.time:
            raise UsageError(
                f"{option} {file} has {len(part)} character(s), but the first --time = {options.time} are not "
                "scored; give a longer text, or leave it out"
            )
    return corpus


def _memory(given: str | None) -> str | int | None:
    if given is None or given == "sqrt":
        return given
    if not re.fullmatch("0*[1-9][0-9]{0,17}", given):
        raise UsageError(f"--memory must be sqrt, or a number of bytes, not {in_brief(given)}")
    return int(given)


def _of_segments(options: argparse.Namespace) -> str:
    """An option that was given, and applies to segments with carried states only; "" if there is none."""
    return "--stride" if options.stride is not None else "--shares" if options.shares != 1 else ""


def _gradient_batches(options: argparse.Namespace) -> int | None:
    """Number of batches of independent sequences; None for segments with carried states."""
    first_order = issubclass(optimizer_class(options.optimizer), FirstOrder)
    if options.gradient_batches is None and not first_order and not _of_segments(options):
        return 16
    given: int | None = options.gradient_batches
    return given


def _curvature_batches(options: argparse.Namespace) -> int | None:
    gradient, given = _gradient_batches(options), options.curvature_batches
    curved = optimizer_class(options.optimizer).curved
    if given is not None and (gradient is None or not curved):
        raise UsageError(
            "--curvature-batches applies only to independent sequences (--gradient-batches) and optimizers that "
            f"use curvature, not to --optimizer {options.optimizer}"
            + (f" with {_of_segments(options)}" if curved else "")
        )
    return max(1, gradient // 4) if given is None and gradient is not None and curved else given


# -- sequences of files ------------------------------------------------------------------------


class FileMaterial(Material):
    """Arrays, a table, or music."""

    def __init__(self, options: argparse.Namespace, network: Network | None = None) -> None:
        super().__init__(options)
        self.require_fitting((Arrays,), OF_SEQUENCES, f"the sequences of {options.data}")
        self.columns: Columns | None = None
        self.notes, self._tables = list[str](), list[Table]()
        loss, pool = (options.loss, options.pool) if network is None else (network.loss, network.pool)
        of_cases = pool is not None or loss in SEQUENCE_LOSSES
        whole = self._read(options.data, network, loss, False if of_cases else None)
        self.loss = loss or self._likely_loss(whole)
        self.train, self.valid = fitting_loss(whole, self.loss), None
        whole_cases = not whole.by_step
        if options.valid is not None:
            _ = _fold(options)
            self.valid = fitting_loss(self._read(options.valid, network, loss, whole.by_step), self.loss)
        elif (fold := _fold(options)) is not None:
            self.train, self.valid = self.train.fold(*fold, gap=self._gap(fold[1]))
        elif (
            self.columns is not None
            and not whole_cases
            and (self.columns.horizon or self.columns.independent or whole.series is not None)
        ):
            with contextlib.suppress(UsageError):  # too few rows
                train, valid = self._tables[0].split(VALID)
                self.train, self.valid = fitting_loss(train, self.loss), fitting_loss(valid, self.loss)
        parts = [part for part in (self.train, self.valid) if part is not None]
        symbols = self.train.inputs.ndim == 2
        classes = (
            self.columns.classes or () if self.columns and self.loss == "softmax" else ()
        )  # also unseen ones
        self.shape = {
            "inputs": _few("symbols", 1 + max(_largest(part.inputs[part.inside()]) for part in parts))
            if symbols
            else parts[0].inputs.shape[2],
            "outputs": max(*(_outputs(part, self.loss) for part in parts), len(classes)),
            "loss": self.loss,
            "reads": "symbols" if symbols else "vectors",
            "pool": options.pool or (None if whole.by_step or self.loss in SEQUENCE_LOSSES else "last"),
        }
        self.batch = min(FULL, max(LEAST, len(self.train) // LEAST_STEPS))
        train, valid = self.train, self.valid
        if valid is None:
            first, last = self._divided()
            train, valid = self.train.chosen(first), self.train.chosen(last) if len(last) else None
        kept = "none to validate" if valid is None else f"{_size(valid)} to validate"
        self.notes.append(f"{_size(train)} to train on, {kept}")
        if not options.no_scaling:
            self.shape["scaling"] = self._scaling(train)
        if not options.balanced and (bias := self._bias(train)) is not None:
            self.shape["initial"] = {"b_o": bias}

    def _read(self, path: str, network: Network | None, loss: str | None, by_step: bool | None) -> Sequences:
        """Reads a file; its first table determines the columns of a new network.

        by_step: False if a case has one target, None if not known.
        """
        options, whole = self.options, by_step is False
        if not is_table(path):
            return read_sequences(path, by_step=by_step, **arrays_of(options, path))
        frame = frame_of(path)
        if self.columns is not None:  # of --valid
            table = Table(frame, self.columns, weights=options.weights, whole=whole, pieces=options.pieces)
        elif network is not None:
            table = table_for(network, options, frame)
        else:
            table = table_of(options, frame, None, whole, options.loss == "softmax")
        if not whole and options.pieces is None and table.inputs.shape[0] > 2 * PIECE:
            self.notes.append(f"{path} is cut into segments of {PIECE} rows (--pieces)")
            table = Table(frame, table.columns, weights=options.weights, pieces=PIECE)
        if self.columns is None:
            self._require_fitting_loss(table.columns, loss, len(frame))
            self.notes.append(f"{path}: {_described(table.columns)}")
        self.columns = table.columns
        self._tables.append(table)
        self.notes += [f"{path}: {note}" for note in table.notes]
        return table.sequences

    def _require_fitting_loss(self, columns: Columns, loss: str | None, rows: int) -> None:
        classes = columns.classes
        if loss in SEQUENCE_LOSSES:
            raise UsageError(
                f"--loss {loss} needs a list of labels for each case; a table has only one: use arrays"
            )
        if classes is None:
            return
        target = columns.targets[0]
        if loss is not None:
            columns.outputs(loss)  # raises UsageError for classes with a loss for numbers
        whole = all(name.lstrip("-").isdecimal() for name in classes)
        named = target in names_of("categories", self.options.categories)
        # A model to start with may have more classes than a small table: only the option is checked.
        if self.options.loss == "softmax" and len(classes) > most_categories(rows) and not (whole or named):
            raise UsageError(
                f"--loss softmax: the target {shown(target)} has {len(classes):,} different values in {rows:,} rows; "
                "leave out --loss for numbers, or add --categories if they are classes"
            )

    def _gap(self, folds: int) -> int:
        """At least the horizon for blocks of time, whose neighbors have targets in them."""
        horizon = 0 if self.columns is None else self.columns.horizon or 0
        blocks = self.train.series is not None and len(np.unique(self.train.series)) < folds
        gap: int = self.options.gap
        return max(gap, horizon) if blocks else gap

    def _divided(self) -> tuple[Array, Array]:
        return divided("", VALID, len(self.train), self.train.series)

    def _likely_loss(self, data: Sequences) -> str:
        """softmax for classes, sigmoid for several columns that are all 0 or 1, squared for other numbers."""
        t, there = data.targets, data.target_weights() > 0
        several = t.ndim == 2 + bool(data.by_step)
        if t.dtype.kind in "iub" and not several:
            return "softmax"
        columns = self.columns
        if columns is not None and columns.horizon is None and len(columns.targets) == 1:
            found = t[there]
            if found.size and (found == np.floor(found)).all() and found.min() >= 0:
                raise UsageError(
                    f"{self.options.data}: the target {shown(columns.targets[0])} has whole numbers; add --loss "
                    "softmax if they are classes, or --loss squared if they are amounts (to predict following rows, "
                    "add --horizon)"
                )
            return "squared"
        return "sigmoid" if several and np.isin(t[there], (0, 1)).all() else "squared"

    def _bias(self, train: Sequences) -> Initializer | None:
        """Output bias from the frequency of classes or ones; None for targets that the problem rejects."""
        t, w = train.targets, train.target_weights()
        if self.loss == "sigmoid":
            fitting = ((t >= 0) & (t <= 1) | (w == 0)).all()
            rows = (-1, t.shape[-1])
            return log_odds(t.reshape(rows), w.reshape(rows)) if fitting and w.any() else None
        counted = w > 0
        if self.loss == "softmax" and t[counted].min(initial=0) >= 0 and counted.any():
            return log_frequencies(np.where(counted, t, 0), w)
        return None

    def _scaling(self, train: Sequences) -> Scaling | None:
        found = Scaling.of(train, self.columns)
        found = found if self.loss == "squared" else replace(found, outputs=None)
        return None if found == Scaling() else found

    def problem(self, network: Network, optimizer: Optimizer) -> Problem:
        options = self.options
        network.columns = self.columns
        return Arrays(
            network,
            self.train,
            valid=self.valid or VALID,
            **self.settings(
                Arrays,
                gradient_batches=options.gradient_batches or 1,
                curvature_batches=options.curvature_batches or 1,
            ),
        )


def _described(columns: Columns) -> str:
    ahead = {None: "", 1: " of the next row"}.get(columns.horizon, f" of the next {columns.horizon} rows")
    inputs = [
        f"{name} ({len(columns.categories[name])} categories)" if name in columns.categories else name
        for name in columns.inputs
    ]
    calendar = [f"the {name} of {columns.time}" for name in columns.calendar]
    return f"predicts {', '.join(columns.targets)}{ahead} from {', '.join([*inputs, *calendar])}"


def fitting_loss(data: Sequences, loss: str) -> Sequences:
    """Converts targets to the form of the loss."""
    t = data.targets
    if loss in VALUE_LOSSES:
        if t.ndim == 1 + bool(data.by_step):
            t = t[..., None]
        t = t.astype(np.float64) if t.dtype.kind in "iub" else t
    elif t.dtype.kind == "b":
        t = t.astype(np.int64)
    return replace(data, targets=t)


def _size(part: Sequences) -> str:
    what, steps = "case" if part.series is None else "segment", int(part.inside().sum())
    count = f"{len(part):,} {what}{'s' * (len(part) != 1)}"
    return count if steps == len(part) else f"{count} of {steps:,} time steps"


def _largest(array: Array) -> int:
    return max(0, int(array.max())) if array.dtype.kind in "iu" and array.size else 0


def _outputs(part: Sequences, loss: str) -> int:
    targets = part.targets
    if loss in SEQUENCE_LOSSES:
        return _few("labels", _largest(targets[part.target_weights() > 0]) + 1) + 1  # one more for the blank
    if loss != "softmax":
        return int(targets.shape[-1])
    if targets.dtype.kind not in "iu":
        raise UsageError(
            "--loss softmax: targets must be classes, whole numbers from 0 on, one for each step or case; use "
            "--loss squared for other numbers"
        )
    count = _largest(targets[part.target_weights() > 0]) + 1
    if count > max(FEW_CLASSES, targets.size):
        raise UsageError(
            f"the targets are whole numbers up to {count - 1:,}, which makes {count:,} classes for {targets.size:,} "
            "targets; number the classes from 0 on, or use --loss squared"
        )
    return count


def _few(what: str, count: int) -> int:
    if count > MOST_SYMBOLS:
        raise UsageError(
            f"the {what} are whole numbers up to {count - 1:,}; the most is {MOST_SYMBOLS - 1:,}. Number those that "
            "occur as 0, 1, 2, ..."
        )
    return count
