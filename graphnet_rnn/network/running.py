"""Runner: runs a network on arrays of any length, in segments that are compiled once; checks of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.dtypes import require_unmasked
from graphnet.graph.node import Array, Node
from graphnet_rnn.data.sequences import checked_lengths, zero_outside
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.network.ctc.loss import blank_for_sure
from graphnet_rnn.network.network import Network, require_network
from graphnet_rnn.network.unroll import Unrolled
from graphnet_rnn.settings import MANY, listed, shown, yes_or_no

#: Time steps that are unrolled at once. A longer sequence is read in segments of this length, the rest of it in powers
#: of two, so eight compiled programs serve all lengths.
PIECE = 128


def run(
    network: Network,
    inputs: Any,
    states: Sequence[Array] | None = None,
    backend: str = "numba",
    threads: int | None = None,
    lengths: Any = None,
) -> tuple[Array, list[Array]]:
    """o_1 ... o_T, (time, batch, outputs), and the states after the last step, from x_1 ... x_T

    With `pool` the output is (batch, outputs). Of a network with outputs=0, it is the output of the last layer. Outputs
    are before the loss's nonlinearity: logits with "softmax", "sigmoid" and "ctc".

    network: any rnn.Network. inputs: (time, batch, inputs), or symbols (time, batch). states: states before the first
    step, one array (batch, width) each, as returned by an earlier call; by default zeros or the learned states. Not for
    a network with a bidirectional layer, or with pool "mean" or "max".
    lengths: (batch,), number of time steps of each case. In the padding inputs are ignored, outputs are 0 (with "ctc"
    certain of the blank), and states do not change. None: all steps. backend, threads: see gn.compile.
    For several calls use a Runner, which compiles once.
    Raises DataError for arrays of other shapes; UsageError for states that the network cannot continue from.

    >>> net = rnn.Network([rnn.GRU(4)], inputs=3, outputs=2, loss="squared")
    >>> outputs, states = rnn.run(net, np.zeros((7, 1, 3)))
    >>> outputs.shape, [state.shape for state in states]
    ((7, 1, 2), [(1, 4)])
    """
    return Runner(network, backend=backend, threads=threads)(inputs, states, lengths)


def pieces(time: int, most: int = PIECE) -> list[tuple[int, int]]:
    """Yields (begin, length) of segments: the longest possible, then powers of two, to compile few lengths."""
    found, begin = [], 0
    while begin < time:
        left = time - begin
        length = most if left >= most else 1 << left.bit_length() - 1
        found.append((begin, length))
        begin += length
    return found


class Runner:
    """`run` with a cache of compiled functions, without dropout, at the network's current weights.

    network: any rnn.Network. read_by_output: True returns the input of the output layer instead of its output. backend,
    threads: see gn.compile. frozen: True is faster for single steps: values that depend only on the weights are
    computed once. After the weights have changed, call `refresh()`. Use a frozen Runner in one thread only.
    Called with inputs, states and lengths, see `run`.

    >>> net = rnn.Network([rnn.GRU(4)], inputs=3, outputs=2, loss="squared")
    >>> runner = rnn.Runner(net)
    >>> outputs, states = runner(np.zeros((7, 1, 3)))
    >>> outputs, states = runner(np.zeros((7, 1, 3)), states)
    >>> outputs.shape
    (7, 1, 2)
    >>> runner = rnn.Runner(net, frozen=True)  # for single steps
    >>> outputs, states = runner(np.zeros((1, 1, 3)))
    >>> net.theta = np.zeros_like(net.theta)
    >>> runner.refresh()
    >>> runner(np.zeros((1, 1, 3)), states)[0].tolist()
    [[[0.0, 0.0]]]
    """

    def __init__(
        self,
        network: Network,
        read_by_output: bool = False,
        backend: str = "numba",
        threads: int | None = None,
        frozen: bool = False,
    ) -> None:
        self.network = require_network("run", network)
        self.read_by_output = yes_or_no("Runner: read_by_output", read_by_output)
        self.frozen = yes_or_no("Runner: frozen", frozen)
        self._how: dict[str, Any] = {"backend": backend, "threads": threads}
        self._functions: dict[tuple[int, int, bool], gn.Function] = {}
        #: `again` of the functions that have run since the last refresh.
        self._begun: dict[tuple[int, int, bool], Callable[..., tuple[Array, ...]]] = {}
        self._in_pieces = network.causal and network.pool is None
        self._names = network.state_names()

    def refresh(self) -> None:
        """Reads the current weights. Only a frozen Runner needs this."""
        self._begun.clear()

    def __call__(
        self, inputs: Any, states: Sequence[Array] | None = None, lengths: Any = None
    ) -> tuple[Array, list[Array]]:
        network = self.network
        if not self._begun:
            network.require_finite("run")
        x, ends = inputs_and_lengths("run", network, inputs, lengths)
        time, batch = x.shape[:2]
        current = network.first_states(batch) if states is None else self._checked_states(states, batch)
        found = []
        for start, length in pieces(time) if self._in_pieces else [(0, time)]:
            piece = x if length == time else x[start : start + length]
            left = () if ends is None else (np.clip(ends - start, 0, length),)
            parts = self._run((length, batch, ends is not None), piece, *current, *left)
            count = len(parts) - len(current)
            found.append(parts[0] if count == 1 else np.concatenate(parts[:count], axis=-1))
            current = list(parts[count:])
        return found[0] if len(found) == 1 else np.concatenate(found), current

    def _run(self, sizes: tuple[int, int, bool], *arrays: Array) -> tuple[Array, ...]:
        again = self._begun.get(sizes)
        if again is not None:
            return again(*arrays)
        function = self._function(*sizes)
        outputs = function(*arrays)
        if self.frozen:
            self._begun[sizes] = function.again
        return outputs

    def _function(self, time: int, batch: int, ragged: bool) -> gn.Function:
        function = self._functions.get((time, batch, ragged))
        if function is None:
            network, varying = self.network, self.frozen
            symbols = network.reads == "symbols"
            shape, dtype = (
                ((time, batch), "int64") if symbols else ((time, batch, network.inputs), network.dtype)
            )
            u = network.unroll(
                time,
                batch,
                training=False,
                labels=0 if network.loss == "ctc" else None,
                lengths=gn.input((batch,), "int64", name="lengths", varying=varying) if ragged else False,
                inputs=gn.input(shape, dtype, name="x", varying=varying),
                initial=[
                    gn.input((batch, width), network.dtype, name=name, varying=varying)
                    for name, width in self._names
                ],
            )
            inputs = [u.inputs, *u.initial, *([] if u.lengths is None else [u.lengths])]
            function = gn.compile([*self._wanted(u), *u.final], inputs, **self._how)
            self._functions[time, batch, ragged] = function
        return function

    def _wanted(self, u: Unrolled) -> list[Node]:
        if not self.read_by_output and self.network.outputs:
            if u.ends is None or self.network.pool is not None:
                return [u.logits]
            beyond = blank_for_sure(self.network.outputs, u.logits.dtype) if self.network.loss == "ctc" else 0
            return [u.ends.cut(u.logits, beyond)]
        return u.hidden if self.read_by_output and self.network.skips_outputs else u.hidden[-1:]

    def _require_continuable(self) -> None:
        network = self.network
        backward = [cell for cell in network.layers if not cell.causal]
        if not backward and network.pool in (None, "last"):
            return
        why = (
            f"{shown(backward[0], MANY)} reads later inputs"
            if backward
            else f"pool={network.pool!r} is taken over all steps of a sequence"
        )
        raise UsageError(
            f"run: {why}, so a sequence cannot be continued from states: pass the whole sequence, without "
            "states. To set first states, use network.unroll(initial=...)."
        )

    def _checked_states(self, states: Sequence[Array], batch: int) -> list[Array]:
        self._require_continuable()
        dtype = self.network.dtype
        arrays = arrays_of_states("run", self._names, states, batch)
        return [array if array.dtype == dtype else array.astype(dtype) for array in arrays]


def arrays_of_states(who: str, names: Sequence[tuple[str, int]], states: Any, batch: int) -> list[Array]:
    """Returns one array (batch, width) for each state; DataError, prefixed with `who`, if they do not fit."""
    arrays = [array_of(f"{who}: states", state) for state in listed(f"{who}: states", states, "arrays")]
    if [array.shape for array in arrays] != [(batch, width) for _, width in names]:
        named = ", ".join(f"{name} {[batch, width]}" for name, width in names)
        given = ", ".join(str(list(array.shape)) for array in arrays)
        raise DataError(
            f"{who}: the states must be {named or 'none'}, not {given or 'none'}; leave them out to start from "
            "network.first_states(batch)"
        )
    return arrays


def inputs_and_lengths(who: str, network: Network, inputs: Any, lengths: Any) -> tuple[Array, Array | None]:
    """Returns the inputs as the network reads them, padded by zeros, and the lengths; DataError if they do not fit."""
    if lengths is None:
        return checked_inputs(who, network, inputs), None
    given = array_of(f"{who}: inputs", inputs)
    ends = checked_lengths(who, lengths, *given.shape[:2]) if given.ndim in (2, 3) else None
    if ends is not None:
        given = zero_outside(given, np.arange(len(given))[:, None] < ends)
    return checked_inputs(who, network, given), ends


def checked_inputs(who: str, network: Network, inputs: Any) -> Array:
    """Returns the inputs as the network reads them; DataError, prefixed with `who`, if they do not fit."""
    symbols = network.reads == "symbols"
    wanted = "(time, batch)" if symbols else f"(time, batch, {network.inputs})"
    remedy = "; rnn.data.padded pads variable-length sequences, and returns their lengths"
    x = array_of(f"{who}: inputs", inputs, f" {wanted}", remedy)
    if x.ndim != (2 if symbols else 3) or (not symbols and x.shape[2] != network.inputs) or not x.size:
        hint = ""
        if symbols and x.ndim == 3 and x.shape[2] == network.inputs:
            hint = '; this network reads symbols, create it with reads="vectors" for numbers'
        raise DataError(f"{who}: inputs must be {wanted} and not empty, not of shape {list(x.shape)}{hint}")
    if symbols:
        hint = "; a network that reads numbers needs (time, batch, width), such as x[..., None]"
        return checked_symbols(f"{who}: inputs", x, network.inputs, hint if x.dtype.kind == "f" else "")
    remedy = "; for missing values (NaN), see rnn.data.with_missing"
    return checked_floats(f"{who}: inputs", x, network.dtype, remedy)


def array_of(what: str, given: Any, shape: str = "", remedy: str = "") -> Array:
    """Returns `given` as an array; DataError if NumPy cannot make one, e.g. from lists of different lengths."""
    require_unmasked(what, given)
    try:
        return np.asarray(given)
    except ValueError:
        raise DataError(f"{what} must be an array{shape}, not {shown(given)}{remedy}") from None


def checked_symbols(what: str, array: Array, count: int, hint: str = "") -> Array:
    """Returns the array as int64; DataError unless all are symbols in 0 ... count - 1."""
    if array.dtype.kind not in "iu" or (array.size and (array.min() < 0 or array.max() >= count)):
        among = f" from {array.min()} to {array.max()}" if array.dtype.kind in "biuf" and array.size else ""
        raise DataError(
            f"{what} must be symbols, whole numbers in 0 ... {count - 1}, not {array.dtype}{among}{hint}"
        )
    return array.astype(np.int64)


def checked_floats(what: str, array: Array, dtype: Any, remedy: str = "") -> Array:
    """Returns the array in this dtype; DataError with the place of the first number that is not finite."""
    if array.dtype.kind not in "biuf":
        raise DataError(f"{what} must be numbers, not {array.dtype}")
    finite = np.isfinite(array)
    if np.count_nonzero(finite) < finite.size:  # a microsecond faster than `all`, for streams
        place = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise DataError(f"{what} at {list(place)} is {array[place]}; all must be finite{remedy}")
    if array.dtype == dtype:
        return array.copy()
    with np.errstate(over="ignore"):
        found = array.astype(dtype)
    if not np.isfinite(found).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(found))[0])
        raise DataError(
            f"{what} at {list(place)} is {array[place]}, which is infinite in {found.dtype}; scale the data, or create "
            "the network with dtype='float64'"
        )
    return found
