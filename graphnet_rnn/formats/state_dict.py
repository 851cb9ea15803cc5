"""Finds the parts of a torch model among the tensors of its state dict, by names and shapes.

Layer l of a torch.nn.RNN, LSTM or GRU has the tensors

    weight_ih_l{l} (gates · units, inputs), weight_hh_l{l} (gates · units, units), bias_ih_l{l}, bias_hh_l{l}

with stacked gates: LSTM i, f, g, o; GRU r, z, n. A torch matrix is the transpose of ours. A bidirectional module has a
second set, ending in _reverse; an RNNCell, LSTMCell or GRUCell has no _l{l}. An LSTM with proj_size also has
weight_hr_l{l} (proj_size, units), and proj_size replaces units in the matrices that read h.
Source: the equations and "Variables" in PyTorch's documentation of torch.nn.RNN, LSTM, GRU, and of their cells.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet.system.text import in_brief
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cells.combine import Bidirectional
from graphnet_rnn.cells.elman import Elman
from graphnet_rnn.cells.gru import GRUResetAfter
from graphnet_rnn.cells.lstm import LSTM, LSTMProjected
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.files.tensor_file import read_tensor_file
from graphnet_rnn.settings import shown

Tensors = Mapping[str, Array]


@dataclass(frozen=True)
class Family:
    """A cell whose equations are those of a torch module, and the order of the module's gates.

    split: gates that keep torch's two biases apart, because something stands between the two.
    projected: the cell of a module with proj_size, if torch has one.
    """

    cell: type[Cell]
    gates: str
    split: str = ""
    projected: type[LSTMProjected] | None = None


#: Name of the module in torch.nn -> family.
FAMILIES = {
    "RNN": Family(Elman, "h"),
    "LSTM": Family(LSTM, "ifgo", projected=LSTMProjected),
    "GRU": Family(GRUResetAfter, "rzn", split="n"),
}
#: Learned initial states, which torch's modules do not have; each (layers, 1, units), the shape of h_0.
INITIAL = "initial."
PART = re.compile(r"(?:(?:weight|bias)_(?:ih|hh)|weight_hr)_l(\d+)(_reverse)?")
OF_CELL = re.compile(r"(?P<owner>(?:.*\.)?)(?P<part>(?:weight|bias)_(?:ih|hh))")
#: Suffix of the names of each direction.
DIRECTIONS = ("", "_reverse")


@dataclass(frozen=True)
class Recurrent:
    """The tensors of one recurrent torch module, with checked shapes, by name without the prefix."""

    kind: str
    prefix: str
    layers: int
    inputs: int
    units: int
    tensors: Tensors
    directions: int = 1
    #: Width of the states h; None without a projection.
    projection: int | None = None

    @property
    def family(self) -> Family:
        return FAMILIES[self.kind]

    @property
    def width(self) -> int:
        """Number of inputs of the output layer: h of all directions."""
        return self.width_of("h") * self.directions

    def width_of(self, state: str) -> int:
        return self.projection if self.projection is not None and state == "h" else self.units

    @property
    def names(self) -> frozenset[str]:
        """Full names of all its tensors."""
        return frozenset(f"{self.prefix}{name}" for name in self.tensors)

    def behind(self, embedding: Array) -> Recurrent:
        """Returns the module for one-hot symbols, with an embedding (symbols, width) multiplied into its weights."""
        joined = dict(self.tensors)
        for ending in DIRECTIONS[: self.directions]:
            first = self.tensors[f"weight_ih_l0{ending}"]
            product = first.astype(np.float64) @ embedding.T.astype(np.float64)
            joined[f"weight_ih_l0{ending}"] = product.astype(np.result_type(first, embedding))
        return replace(self, inputs=len(embedding), tensors=joined)

    def cell(self) -> Cell:
        """Returns the cell of one layer, not bound."""
        projected = self.family.projected
        if self.projection is None or projected is None:
            cell = self.family.cell(self.units)
        else:
            cell = projected(self.units, self.projection)
        return cell if self.directions == 1 else Bidirectional(cell)

    def weights(self, l: int) -> dict[str, Array]:
        """Returns layer l in our names and layout."""
        if self.directions == 1:
            return self._of_direction(f"{l}")
        both = (("forward", f"{l}"), ("backward", f"{l}_reverse"))
        return {f"{part}.{k}": v for part, layer in both for k, v in self._of_direction(layer).items()}

    def _of_direction(self, l: str) -> dict[str, Array]:
        family, units = self.family, self.units
        found: dict[str, Array] = {}
        for j, gate in enumerate(family.gates):
            rows = slice(j * units, (j + 1) * units)
            found[f"W_x{gate}"] = self.tensors[f"weight_ih_l{l}"][rows].T
            found[f"W_h{gate}"] = self.tensors[f"weight_hh_l{l}"][rows].T
            if f"bias_ih_l{l}" in self.tensors:
                of_x, of_h = (self.tensors[f"bias_{side}_l{l}"][rows] for side in ("ih", "hh"))
            else:
                of_x = of_h = np.zeros(units, found[f"W_h{gate}"].dtype)
            if gate in family.split:
                found |= {f"b_x{gate}": of_x, f"b_h{gate}": of_h}
            else:
                found[f"b_{gate}"] = of_x + of_h
        if self.projection is not None:
            found["W_mh"] = self.tensors[f"weight_hr_l{l}"].T
        return found


def tensors_of(model: Any) -> dict[str, Array]:
    """All tensors of a state dict, a torch module or a safetensors file, as arrays by name."""
    if isinstance(model, (str, Path)):
        given: Any = _read(Path(model))
    else:
        given = model.state_dict() if is_module(model) else model
    if not isinstance(given, Mapping):
        raise UsageError(
            f"from_torch: model must be a state dict, a module or a safetensors file, not a {type(model).__name__}"
        )
    return {str(name): _array(str(name), value) for name, value in given.items()}


def as_layers(tensors: Tensors) -> dict[str, Array]:
    """Renames the tensors of RNNCell, LSTMCell and GRUCell as those of layers; a list of cells is layers 0, 1, ..."""
    found = {name: match for name in tensors if (match := OF_CELL.fullmatch(name))}
    owners = sorted({match["owner"] for match in found.values()})
    bases = {owner.rstrip(".").rstrip("0123456789") for owner in owners}
    listed = len(bases) == 1 and set(owners) == {f"{base}{l}." for base in bases for l in range(len(owners))}
    layer = {
        owner: (next(iter(bases)), owner[:-1].rpartition(".")[2]) if listed else (owner, "0")
        for owner in owners
    }

    def renamed(name: str) -> str:
        if name not in found:
            return name
        (_owner, part), (base, l) = found[name].groups(), layer[found[name]["owner"]]
        return f"{base}{part}_l{l}"

    return {renamed(name): array for name, array in tensors.items()}


def directions_of(cell: Cell) -> list[Cell]:
    """The cells of a layer, one for each direction, with their weights."""
    if type(cell) is not Bidirectional:
        return [cell]
    return [cell.part(name, getattr(cell, name), cell.reads) for name in ("forward", "backward")]


def is_module(model: Any) -> bool:
    """True for a torch.nn.Module, by duck typing: torch need not be installed."""
    return hasattr(model, "state_dict") and hasattr(model, "named_modules")


def _read(path: Path) -> dict[str, Array]:
    refused = (
        "is not a safetensors file, or is damaged. A file of torch.save needs PyTorch: "
        "rnn.formats.from_torch(torch.load(path))."
    )
    return read_tensor_file(path, refused, refused).tensors


def _array(name: str, value: Any) -> Array:
    """Converts a tensor to an array; half precision becomes float32, so that sums of biases are accurate."""
    try:
        # A torch tensor may be on a GPU, or require a gradient.
        array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    except (TypeError, ValueError, RuntimeError) as error:
        why = f"cannot be converted to an array ({in_brief(error, 200)})"
        raise DataError(f"the tensor {in_brief(name)} {why}; convert it by .float().") from None
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _listed(tensors: Tensors, names: Iterable[str] | None = None) -> str:
    """`fc.weight [5, 7], fc.bias [5]`, the first twelve."""
    chosen = tensors if names is None else names
    return _first(chosen, lambda name: f"{in_brief(name)} {list(tensors[name].shape)}") or "nothing"


def _first(names: Iterable[str], words: Callable[[str], str]) -> str:
    chosen = list(names)
    return ", ".join([*map(words, chosen[:12]), *[f"and {len(chosen) - 12:,} more"] * (len(chosen) > 12)])


def find_recurrent(tensors: Tensors, kind: str | None, prefix: str | None) -> Recurrent:
    """Finds the only recurrent module. Raises DataError with the tensors found and a remedy."""
    first = "weight_ih_l0"
    prefixes = [name.removesuffix(first) for name in tensors if name.endswith(first)]
    if prefix is None:
        if not prefixes:
            raise DataError(
                f"there is no {first}, which every torch.nn.RNN, LSTM and GRU has, nor an LSTMCell's weight_ih "
                f"(rnn.load reads files of graphnet); found: {_listed(tensors)}."
            )
        if len(prefixes) > 1:
            there = _first(prefixes, shown)
            raise DataError(f"there are {len(prefixes)} recurrent modules, {there}; name one by prefix=.")
        prefix = prefixes[0]
    elif prefix not in prefixes:
        there = _first(prefixes, shown) or "none"
        lacking = in_brief(f"{prefix}{first}")
        raise UsageError(f"prefix={shown(prefix)}: there is no {lacking}; prefixes found: {there}")
    own = {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}
    parts = {name: array for name, array in own.items() if PART.fullmatch(name)}
    layers, directions, wanted = _layers_of(parts, prefix, tensors)
    kind, units = _kind_of(parts, kind, prefix)
    rows, inputs = len(parts["weight_hh_l0"]), parts[first].shape[1]
    projection = len(parts["weight_hr_l0"]) if "weight_hr_l0" in parts else None
    state = units if projection is None else projection
    for name in wanted:
        below = inputs if name in (first, f"{first}_reverse") else state * directions
        matrix = (rows, state if "_hh_" in name else below)
        shape = matrix if name.startswith("weight") else (rows,)
        if "_hr_" in name:
            shape = (state, units)
        of = f"a torch.nn.{kind} of {units} units" + (f" projected to {projection}" if projection else "")
        _check(prefix + name, parts[name], shape, of)
    own = {name: parts[name] for name in wanted}
    return Recurrent(kind, prefix, layers, inputs, units, own, directions, projection)


def _layers_of(parts: Tensors, prefix: str, tensors: Tensors) -> tuple[int, int, list[str]]:
    layers = len({name.removesuffix("_reverse").rpartition("_l")[2] for name in parts})
    directions = 1 + any(name.endswith("_reverse") for name in parts)
    biased = any(name.startswith("bias") for name in parts)
    wanted = [
        f"{what}_{side}_l{l}{ending}"
        for l in range(layers)
        for ending in DIRECTIONS[:directions]
        for what in ("weight", "bias")[: 1 + biased]
        for side in ("ih", "hh")
    ]
    if any("_hr_" in name for name in parts):
        wanted += [f"weight_hr_l{l}{ending}" for l in range(layers) for ending in DIRECTIONS[:directions]]
    missing = [prefix + name for name in wanted if name not in parts]
    if missing:
        needed = f"{layers} layer(s) of a torch module need them"
        raise DataError(f"{_first(missing, in_brief)} missing: {needed}; found: {_listed(tensors)}.")
    return layers, directions, wanted


def _kind_of(parts: Tensors, kind: str | None, prefix: str) -> tuple[str, int]:
    """Returns RNN, LSTM or GRU, by the shape of the recurrent matrix or the projection; and the number of units."""
    matrix, projecting = parts["weight_hh_l0"], "weight_hr_l0" in parts
    for name in ("weight_ih_l0", "weight_hh_l0", *["weight_hr_l0"] * projecting):
        if parts[name].ndim != 2 or not parts[name].size:
            raise DataError(
                f"{in_brief(prefix + name)} has the shape {list(parts[name].shape)}: not a matrix."
            )
    (rows, units), named = matrix.shape, in_brief(f"{prefix}weight_hh_l0")
    if projecting:
        units = parts["weight_hr_l0"].shape[1]
    fitting = (k for k, family in FAMILIES.items() if not projecting or family.projected is not None)
    found = next((k for k in fitting if rows == len(FAMILIES[k].gates) * units), None)
    if found is None:
        should = "1 (RNN), 3 (GRU) or 4 (LSTM) times its columns"
        if projecting:
            should = f"4 times the columns of weight_hr_l0, {list(parts['weight_hr_l0'].shape)}"
        raise DataError(f"{named} has the shape {list(matrix.shape)}; its rows should be {should}.")
    if kind not in (None, found):
        raise DataError(f"kind is {kind!r}, but {named} has the shape of a torch.nn.{found}: leave out kind.")
    return found, units


def _check(name: str, array: Array, shape: tuple[int, ...], of: str) -> None:
    if array.shape != shape:
        raise DataError(f"{in_brief(name)} has the shape {list(array.shape)}; {of} needs {list(shape)}.")
    if array.dtype.kind != "f":
        raise DataError(f"{in_brief(name)} holds {array.dtype}; convert quantized weights to floats first.")


def required_matrix(tensors: Tensors, name: str, width: int, argument: str) -> Array:
    """Returns the matrix (·, width) of this name; errors name the argument."""
    if name not in tensors:
        raise UsageError(f"{argument}: there is no {in_brief(name)}; found: {_listed(tensors)}")
    found = tensors[name]
    _check(name, found, (len(found) if found.ndim else 0, width), f"what {argument} names")
    return found


def find_output(
    tensors: Tensors, part: Recurrent, prefix: str | None, used: frozenset[str]
) -> tuple[Array, Array, frozenset[str]]:
    """Returns weight and bias of the output layer, and their names."""
    if prefix is None:
        matrices = [n for n, a in tensors.items() if n not in used and n.endswith("weight") and a.ndim == 2]
        fitting = [name for name in matrices if tensors[name].shape[1] == part.width]
        if not fitting:
            raise DataError(
                f"there is no output layer: no other weight reads the {part.width} units of the torch.nn.{part.kind} "
                f"(found: {_listed(tensors, matrices)}). Add a torch.nn.Linear({part.width}, outputs)."
            )
        if len(fitting) > 1:
            raise DataError(
                f"{_listed(tensors, fitting)} all read {part.width} units: name the output layer by output_prefix= "
                "(and an embedding by embedding_prefix=)."
            )
        prefix = fitting[0].removesuffix("weight")
    weight = required_matrix(tensors, f"{prefix}weight", part.width, "output_prefix")
    names = frozenset({f"{prefix}weight"})
    if f"{prefix}bias" not in tensors:
        return weight, np.zeros(len(weight), weight.dtype), names
    bias = tensors[f"{prefix}bias"]
    _check(f"{prefix}bias", bias, (len(weight),), f"an output layer of {len(weight)} outputs")
    return weight, bias, names | {f"{prefix}bias"}


def find_initial(tensors: Tensors, part: Recurrent) -> dict[str, Array]:
    """Returns the learned initial states by name: none, or all of the cell."""
    states = [state.name for state in part.family.cell.states]
    found = {state: tensors[f"{INITIAL}{state}"] for state in states if f"{INITIAL}{state}" in tensors}
    if found and len(found) < len(states):
        missing = ", ".join(INITIAL + s for s in states if s not in found)
        raise DataError(f"{missing} missing: a file must have all learned initial states, or none.")
    for state, array in found.items():
        shape = (part.layers * part.directions, 1, part.width_of(state))
        _check(INITIAL + state, array, shape, "a learned initial state")
    return found


def refuse_others(tensors: Tensors, used: frozenset[str], part: Recurrent, embedding: str | None) -> None:
    """Raises DataError for unused tensors, since a part of the computation would be lost."""
    others = [name for name in tensors if name not in used]
    if not others:
        return
    tables = [n for n in others if tensors[n].ndim == 2 and tensors[n].shape[1] == part.inputs]
    hint = ""
    if tables and embedding is None:
        given = shown(tables[0].removesuffix("weight"))
        hint = f" If {in_brief(tables[0])} is an embedding, give embedding_prefix={given}."
    raise DataError(
        f"{_listed(tensors, others)}: not a part of a torch.nn.{part.kind} or of one output layer; a Network cannot "
        f"compute it.{hint} To leave them out, give prefix={shown(part.prefix)} and output_prefix=."
    )
