"""Hidden Markov models as linear gated networks (Ollivier 2013, 1.2.2), trained by expectation-maximization.

A state i emits the symbol x with probability B_i(x), then moves to j with probability A_ij; the first state is drawn
from π. With τ_ijx = B_i(x) A_ij, the transition of a gated network (eq. 10) with the identity for s is the forward
recursion

    a_{t+1,j} = Σ_i a_{t,i} τ_{ij x_t} / c_t        c_t = Σ_i a_{t,i} B_i(x_t) = p(x_t | x_0 ... x_{t-1})

Dividing by c_t keeps Σ_i a_{t,i} = 1 for any length of the sequence; the log-likelihood is Σ_t log c_t.

As a function of free tables (whose rows need not sum to 1) the likelihood is a sum over hidden paths of products of
their entries. So A_ij ∂log p/∂A_ij is the expected number of moves from i to j given the symbols, and likewise for π
and B: the E-step is one backward pass. This pass computes the derivative of log c_T, with c_0 ... c_{T-1} constant as
divisors. For any divisors, c_T is p over their product, so the derivative is that of log p, and all its terms are
positive. In a derivative through the c_t each step would subtract terms that the next step adds. If states decay for a
thousand symbols, only rounding errors would remain, and counts would be negative.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.dtypes import require_unmasked
from graphnet.graph.node import Array, Node
from graphnet.system.memory import require_memory
from graphnet.system.process import cached_property
from graphnet_rnn.cell.initializers import array
from graphnet_rnn.cells.sparse import random_edges
from graphnet_rnn.errors import DataError, TrainingError, UsageError
from graphnet_rnn.model import Model, seed_of
from graphnet_rnn.models.hmm_likelihood import (
    Counts,
    Likelihood,
    UnrolledHMM,
    forward,
    logits_of,
    mean_of_complete_data,
    of_complete_data,
)
from graphnet_rnn.network.running import array_of, checked_symbols, pieces
from graphnet_rnn.optimizers.base import Report
from graphnet_rnn.optimizers.expectation import ExpectationMaximization
from graphnet_rnn.optimizers.minimize import minimize
from graphnet_rnn.settings import amount, one_of, shown, whole_number


class HMM(Model):
    """p(x_0 ... x_{T-1}) = Σ_paths π_{i_0} B_{i_0}(x_0) Π_t A_{i_t i_{t+1}} B_{i_{t+1}}(x_{t+1})

    states: number of hidden states. symbols: number of symbols; as an argument of methods, integers (time, batch), or
    (time,) for one sequence. seed: of the initial tables, 0 by default. frequencies: of the symbols (any scale), equal
    by default; at first B_i(x) ∝ frequency of x · U(0, 1), and π and the rows of A are drawn from a Dirichlet(½, ...,
    ½). piece: maximum number of time steps of one graph, 128 by default. Longer sequences are read in pieces, and the
    derivative is carried back from piece to piece without truncation. A state with probability below 1e-308 is lost.
    backend, threads: see gn.compile. edges: number of moves that each state allows, one of them to itself, given by a
    random graph over the states; all other moves have probability 0. None (default), or `states` or more: all moves.
    graph_seed: of this graph. values: tables by name instead of drawn ones, kept as they are, also if a row has another
    sum than 1.
    All numbers are float64, as counts of a long text need this precision.
    Raises UsageError for invalid settings and tables, DataError for invalid symbols.
    Source: Ollivier 2013, 1.2.2 and note 16; Baum et al. 1970; Rabiner 1989.

    >>> hmm = rnn.HMM(states=2, symbols=3)
    >>> bits = hmm.fit([0, 1, 2, 0, 1, 2, 0, 1], iterations=3)
    >>> len(bits), bits[-1] < bits[0]
    (4, True)
    >>> hmm.viterbi([0, 1, 2, 0]).shape
    (4,)
    >>> hmm.sample(length=5, batch=2).shape, hmm.predict([0, 1]).shape
    ((5, 2), (3,))
    >>> x = np.array([0, 1, 2, 0, 1, 2, 0, 1])
    >>> log_p = hmm.log_likelihood(x)  # nats of the sequence
    >>> np.allclose(log_p, [hmm.log_probabilities(x).sum(), -8 * np.log(2) * hmm.bits(x)])
    True
    >>> hmm.theta = hmm.maximized(hmm.counts(x), smoothing=0.1)  # an E-step and an M-step
    >>> u = hmm.unroll(time=8, batch=1, tables="softmax")  # training by gradients
    >>> objective = rnn.Objective(u.cost, u.parameters, [u.symbols])
    >>> objective.feed(x[:, np.newaxis])
    >>> objective.set(rnn.minimize(objective, rnn.LBFGS(), steps=2).theta)
    >>> hmm.adopt(u)
    """

    def __init__(
        self,
        states: int,
        symbols: int,
        seed: int = 0,
        frequencies: Any = None,
        piece: int = 128,
        backend: str = "numba",
        threads: int | None = None,
        edges: int | None = None,
        graph_seed: int = 0,
        values: Mapping[str, Array] | None = None,
    ) -> None:
        self._how: dict[str, Any] = {"backend": backend, "threads": threads}
        self.states, self.symbols = whole_number("HMM: states", states), whole_number("HMM: symbols", symbols)
        self.piece, self.seed = whole_number("HMM: piece", piece), seed_of("HMM", seed)
        shapes = {"pi": (self.states,), "A": (self.states, self.states), "B": (self.states, self.symbols)}
        self.edges = None if edges is None else min(whole_number("HMM: edges", edges), self.states)
        self.graph_seed = whole_number("HMM: graph_seed", graph_seed, least=0)
        tables = dict.fromkeys(shapes) if values is not None else self._drawn(frequencies)
        self.declare_parameters(
            {name: (shape, array(tables[name])) for name, shape in shapes.items()},
            self.seed,
            "float64",
            values=values,
        )
        self._pi, self._A, self._B = self.parameters.values()
        for name, node in self.parameters.items():
            if not ((node.value >= 0) & np.isfinite(node.value)).all():
                raise UsageError(
                    f"HMM: {name} must hold probabilities; the smallest entry is {node.value.min():g}, the largest "
                    f"{node.value.max():g}"
                )
        self._functions: dict[tuple[str, int, int], gn.Function] = {}

    def _drawn(self, frequencies: Any) -> dict[str, Any]:
        require_memory(
            8 * self.states * (self.states + self.symbols), "HMM: its tables", "fewer states take less"
        )
        generator = np.random.default_rng(self.seed)
        shares = np.ones(self.symbols) if frequencies is None else self._frequencies(frequencies)
        half = np.full(self.states, 0.5)
        B = shares * (1 - generator.random((self.states, self.symbols)))  # in (0, 1]: no row is all zeros
        pi = generator.dirichlet(half)
        if self.edges is None:
            A = generator.dirichlet(half, self.states)
        else:
            A = np.zeros((self.states, self.states))
            A[np.nonzero(self._possible)] = generator.dirichlet(half[: self.edges], self.states).ravel()
        return {"pi": pi, "A": A, "B": B / B.sum(axis=1, keepdims=True)}

    @cached_property
    def _possible(self) -> Array:
        if self.edges is None:
            return np.ones((self.states, self.states), bool)
        sources, targets = random_edges(self.states, self.edges, self.graph_seed)
        possible = np.zeros((self.states, self.states), bool)
        possible[sources, targets] = True
        return possible

    def settings(self) -> dict[str, Any]:
        """Returns the arguments that recreate the model, without frequencies, which only set the initial B."""
        return {
            name: getattr(self, name)
            for name in ("states", "symbols", "seed", "piece", "edges", "graph_seed")
        }

    def _frequencies(self, frequencies: Any) -> Array:
        shares = _as_floats("HMM: frequencies", frequencies)
        fits = shares.shape == (self.symbols,) and shares.min() >= 0
        if not fits or not 0 < shares.sum() < math.inf:
            raise UsageError(
                f"HMM: frequencies must be {self.symbols} numbers >= 0, one for each symbol and not all 0, not "
                f"{shown(frequencies)}"
            )
        return shares / shares.sum()

    # -- tables ------------------------------------------------------------------------------

    @property
    def pi(self) -> Array:
        """π_i, the probability to start in state i, (states,). The setter checks that it sums to 1."""
        return self._pi.value.copy()

    @pi.setter
    def pi(self, table: Any) -> None:
        self._pi.value[...] = _distributions("pi", table, self._pi.shape)

    @property
    def A(self) -> Array:
        """A_ij, the probability to move from state i to j, (states, states). The setter checks that rows sum to 1."""
        return self._A.value.copy()

    @A.setter
    def A(self, table: Any) -> None:
        found = _distributions("A", table, self._A.shape)
        stray = np.argwhere((found > 0) & ~self._possible)
        if stray.size:
            i, j = stray[0]
            raise UsageError(
                f"A must be 0 where the graph has no edge (edges={self.edges}), but A[{i}, {j}] is {found[i, j]:g}"
            )
        self._A.value[...] = found

    @property
    def B(self) -> Array:
        """B_i(x), the probability that state i emits x, (states, symbols). The setter checks that rows sum to 1."""
        return self._B.value.copy()

    @B.setter
    def B(self, table: Any) -> None:
        self._B.value[...] = _distributions("B", table, self._B.shape)

    @property
    def tau(self) -> Array:
        """τ_ijx = B_i(x) A_ij, the gated network's weights in eq. 10, (states, states, symbols)."""
        return self._A.value[:, :, None] * self._B.value[:, None, :]

    # -- graphs ------------------------------------------------------------------------------

    def unroll(self, time: int, batch: int, tables: str = "free", initial: str = "pi") -> UnrolledHMM:
        """Returns the model over `time` steps of `batch` sequences, as nodes. See UnrolledHMM.

        time: number of time steps. batch: number of sequences.
        tables: "free" (default): the parameters are the tables, free numbers for derivatives, as an E-step needs;
        "softmax": the parameters are new logits of the current tables, for optimizers; entries that are 0 stay 0, and
        `adopt` copies the trained tables to the model.
        initial: "pi" (default), or "given" for an Input, to carry the state from piece to piece.
        """
        time, batch = whole_number("unroll: time", time), whole_number("unroll: batch", batch)
        one_of("unroll: tables", tables, ("free", "softmax"))
        one_of("unroll: initial", initial, ("pi", "given"))
        parameters: dict[str, Node] = dict(self.parameters)
        used = parameters
        if tables == "softmax":
            pairs = {name: logits_of(name, node.value) for name, node in parameters.items()}
            parameters = {name: free for name, (free, _) in pairs.items()}
            used = {name: gn.softmax(logits) for name, (_, logits) in pairs.items()}
        pi, A, B = used.values()
        symbols = gn.input((time, batch), "int64", name="symbols")
        if initial == "given":
            a = gn.input((batch, self.states), "float64", name="a_0")
        else:
            a = gn.broadcast_to(pi, (batch, self.states))
        emissions = gn.take(gn.transpose(B), symbols)
        log_probabilities, final = forward(emissions, a, lambda a: a @ A)
        log_likelihood = gn.sum(log_probabilities, axis=0)
        cost = -gn.mean(log_probabilities)
        if tables == "softmax":
            logits = [node for name, (_, node) in pairs.items() if name != "pi" or initial == "pi"]
            given = [log_likelihood, emissions]
            log_likelihood = gn.with_surrogate(log_likelihood, of_complete_data, logits, given)
            cost = gn.with_surrogate(cost, mean_of_complete_data, logits, given)
        return UnrolledHMM(parameters, used, symbols, a, final, log_probabilities, log_likelihood, cost)

    def __graph__(self) -> gn.Graph:
        """One step of the forward recursion, for drawing."""
        symbols, a = gn.input((1, 1), "int64", name="x_t"), gn.input((1, self.states), "float64", name="a_t")
        emissions = gn.take(gn.transpose(self._B), symbols)
        log_probabilities, after = forward(emissions, a, lambda a: a @ self._A)
        return gn.Graph([gn.label(log_probabilities, "log p"), gn.label(after, "a_t+1")], [symbols, a])

    def adopt(self, u: UnrolledHMM) -> None:
        """Sets the tables to the softmax of the logits of u = hmm.unroll(..., tables="softmax")."""
        for name, node in self.parameters.items():
            logits = u.parameters[name]
            if logits is node or logits.shape != node.shape:
                raise UsageError(
                    f"adopt: the parameter {name} {list(logits.shape)} holds no logits for this model's {name} "
                    f"{list(node.shape)}; give what hmm.unroll(time, batch, tables='softmax') returned."
                )
        trained = gn.compile(list(u.tables.values()), backend="numpy")()
        for node, table in zip(self.parameters.values(), trained, strict=True):
            node.value[...] = table

    # -- reading -----------------------------------------------------------------------------

    def log_likelihood(self, symbols: Any) -> Array:
        """log p(x_0 ... x_{T-1}) in nats of each sequence, (batch,) or () for one; -inf if impossible."""
        lanes, shape = self._lanes("log_likelihood", symbols)
        _, log_probabilities = self._read(lanes)
        return log_probabilities.sum(axis=0).reshape(shape[1:])

    def log_probabilities(self, symbols: Any) -> Array:
        """log p(x_t | x_0 ... x_{t-1}) in nats, of the shape of `symbols`; -inf from the first impossible one on."""
        lanes, shape = self._lanes("log_probabilities", symbols)
        return self._read(lanes)[1].reshape(shape)

    def bits(self, symbols: Any) -> float:
        """Mean bits for each symbol: -log₂ p(x_t | x_<t)."""
        lanes, _ = self._lanes("bits", symbols)
        return _bits(self._read(lanes)[1])

    def predict(self, symbols: Any) -> Array:
        """p(x_T | x_0 ... x_{T-1}): the distribution over the next symbol, (batch, symbols) (or (symbols,) for one).

        No symbols, shape (0,) or (0, batch), give the distribution of the first symbol.
        """
        lanes, shape = self._lanes("predict", symbols, least=0)
        starts, log_probabilities = self._read(lanes)
        self._require_possible("predict", log_probabilities)
        return (starts[-1] @ self._B.value).reshape(*shape[1:], self.symbols)

    def viterbi(self, symbols: Any) -> Array:
        """argmax over hidden paths of p(path, symbols): int64 states, of the shape of `symbols`.

        Returns one of several equally likely paths. Raises DataError if no path can emit the symbols.
        Source: Viterbi 1967; Rabiner 1989, eqs 32-35.
        """
        self.require_finite("viterbi")
        lanes, shape = self._lanes("viterbi", symbols)
        with np.errstate(divide="ignore"):  # log 0 = -inf for impossible moves
            pi, A, B = [np.log(table.value) for table in (self._pi, self._A, self._B)]
        best = pi + B.T[lanes[0]]  # (batch, states): the log-probability of the best path that ends there
        came_from = np.zeros((*lanes.shape, self.states), np.int64)
        for t in range(1, len(lanes)):
            ways = best[:, :, None] + A
            came_from[t] = ways.argmax(axis=1)
            best = ways.max(axis=1) + B.T[lanes[t]]
        closed = np.flatnonzero(np.isneginf(best.max(axis=1)))
        if closed.size:
            raise DataError(
                f"viterbi: sequence {closed[0]} has probability 0 under this model, so it has no path"
            )
        path = np.empty(lanes.shape, np.int64)
        path[-1] = best.argmax(axis=1)
        every = np.arange(lanes.shape[1])
        for t in range(len(lanes) - 1, 0, -1):
            path[t - 1] = came_from[t, every, path[t]]
        return path.reshape(shape)

    def sample(self, length: int, seed: int = 0, batch: int | None = None) -> Array:
        """Returns symbols drawn from the model: int64 (length,), or (length, batch).

        length: number of symbols. seed: of the random numbers. batch: number of sequences.
        """
        self.require_finite("sample")
        length = whole_number("sample: length", length)
        lanes = 1 if batch is None else whole_number("sample: batch", batch)
        generator = np.random.default_rng(whole_number("sample: seed", seed, least=0))
        drawn = np.empty((length, lanes), np.int64)
        state = _draw(np.tile(self._pi.value, (lanes, 1)), generator)
        for t in range(length):
            drawn[t] = _draw(self._B.value[state], generator)
            state = _draw(self._A.value[state], generator)
        return drawn[:, 0] if batch is None else drawn

    # -- learning ----------------------------------------------------------------------------

    def counts(self, symbols: Any) -> Counts:
        """The E-step: expected counts under the current tables, w ∂log p/∂w for each entry w. See Counts.

        Raises DataError for a sequence that the model cannot emit, TrainingError if the derivative overflows.
        """
        lanes, _ = self._lanes("counts", symbols)
        starts, log_probabilities = self._read(lanes)
        self._require_possible("counts", log_probabilities)
        # Nothing depends on the final state of the last piece.
        g_state = np.zeros_like(starts[-1])
        g_A, g_B = np.zeros(self._A.shape), np.zeros(self._B.shape)
        parts, last = pieces(len(lanes), self.piece), np.zeros(lanes.shape)
        last[-1] = 1
        for (begin, length), state in zip(reversed(parts), reversed(starts[:-1]), strict=True):
            run, part = self._function("derivative", length, lanes.shape[1]), slice(begin, begin + length)
            g_state, more_A, more_B = run(lanes[part], state, last[part], g_state)
            g_A += more_A
            g_B += more_B
        with np.errstate(invalid="ignore"):  # 0 · inf, checked below
            found = self._pi.value * g_state.sum(axis=0), self._A.value * g_A, self._B.value * g_B
        if not all(np.isfinite(table).all() for table in found):
            raise TrainingError(
                "HMM: the derivative overflowed, as only a state of almost zero probability explains some "
                "symbols. Fit with smoothing > 0, or set A to a table without tiny entries."
            )
        return Counts(*found, log_probabilities.sum(axis=0))

    def fit(
        self, symbols: Any, iterations: int = 100, smoothing: float = 0.0, tolerance: float = 0.0
    ) -> list[float]:
        """Expectation-maximization (Baum & Welch): each step replaces every table by its normalized expected counts.

        symbols: training sequences. iterations: maximum number of steps, 100 by default. smoothing: number added to
        each count except those of moves without an edge, 0 by default; without smoothing the likelihood never falls,
        and an entry that is 0 stays 0 (so a move can be excluded). tolerance: stops after a step that follows one that
        gained fewer bits per symbol than this; 0 (default) never stops early.
        Returns the bits per symbol before the first step and after each step; the last are those of the final tables. A
        row without counts does not change. Near a saddle point steps can be tiny for a long time, and the result
        depends on the initial tables: use a small tolerance and several seeds. Raises the errors of `counts`.
        rnn.Trainer makes the same steps on rnn.SymbolSequences, with validation, files and resuming.
        Source: Baum et al. 1970; Rabiner 1989, eqs 40a-c.
        """
        lanes, _ = self._lanes("fit", symbols)
        tolerance = amount("fit: tolerance", tolerance)
        bits: list[float] = []

        def settled(step: int, report: Report) -> bool:
            bits.append(report.loss / math.log(2))
            return step > 0 and bits[-2] - bits[-1] < tolerance and tolerance > 0

        optimizer = ExpectationMaximization(amount("fit: smoothing", smoothing))
        steps = whole_number("fit: iterations", iterations)
        minimize(Likelihood(self, lanes), optimizer, steps, callback=settled)
        return [*bits, self.bits(lanes)]

    def maximized(self, counts: Counts, smoothing: float = 0.0) -> Array:
        """The M-step: expected counts plus `smoothing`, normalized; all tables as one vector like `theta`.

        A row without counts does not change.
        """
        tables = []
        for node, count in ((self._pi, counts.pi), (self._A, counts.A), (self._B, counts.B)):
            more = count + smoothing * (self._possible if node is self._A else 1)
            total = more.sum(axis=-1, keepdims=True)
            seen = total > 0
            tables.append(np.where(seen, more / np.where(seen, total, 1), node.value).ravel())
        return np.concatenate(tables)

    # -- pieces ------------------------------------------------------------------------------

    def _read(self, lanes: Array) -> tuple[list[Array], Array]:
        """a before each piece and after the last; log p(x_t | x_<t), (time, batch)."""
        starts = [np.tile(self._pi.value, (lanes.shape[1], 1))]
        parts = [np.zeros((0, lanes.shape[1]))]
        for begin, length in pieces(len(lanes), self.piece):
            run = self._function("forward", length, lanes.shape[1])
            log_probabilities, state = run(lanes[begin : begin + length], starts[-1])
            parts.append(log_probabilities)
            starts.append(state)
        return starts, np.concatenate(parts)

    def _function(self, kind: str, time: int, batch: int) -> gn.Function:
        key = (kind, time, batch)
        if key not in self._functions:
            symbols = gn.input((time, batch), "int64", name="symbols")
            initial = gn.input((batch, self.states), "float64", name="a_0")
            emissions, scaled = gn.take(gn.transpose(self._B), symbols), kind == "derivative"
            outputs = list(forward(emissions, initial, lambda a: a @ self._A, scaled))
            inputs = [symbols, initial]
            if scaled:
                g = [gn.input(node.shape, "float64", name="g") for node in outputs]
                outputs = gn.backward(dict(zip(outputs, g, strict=True)), [initial, self._A, self._B])
                inputs += g
            self._functions[key] = gn.compile(outputs, inputs, **self._how)
        return self._functions[key]

    # -- checks ------------------------------------------------------------------------------

    def _lanes(self, method: str, symbols: Any, least: int = 1) -> tuple[Array, tuple[int, ...]]:
        what = f"{method}: symbols"
        given = array_of(what, symbols, " (time, batch) or (time,)", "; sequences must be equally long")
        if given.size == 0 and given.dtype.kind == "f":  # np.asarray([])
            given = given.astype(np.int64)
        if given.ndim not in (1, 2) or given.shape[0] < least or 0 in given.shape[1:]:
            raise DataError(
                f"{what} must be (time, batch) or (time,), and not empty, not {list(given.shape)}"
            )
        lanes = checked_symbols(what, given, self.symbols)
        return lanes[:, None] if lanes.ndim == 1 else lanes, given.shape

    def _require_possible(self, method: str, log_probabilities: Array) -> None:
        impossible = np.argwhere(np.isneginf(log_probabilities))
        if impossible.size:
            t, lane = impossible[0]
            raise DataError(
                f"{method}: under these tables the symbol at time {t} of sequence {lane} has probability 0 "
                "given the symbols before; set tables without zeros there. (A fit with smoothing > 0 has no zeros.)"
            )

    def __repr__(self) -> str:
        return f"HMM(states={self.states}, symbols={self.symbols})"


def _bits(log_probabilities: Array) -> float:
    return float(-log_probabilities.sum() / log_probabilities.size / math.log(2))


def _draw(distributions: Array, generator: np.random.Generator) -> Array:
    cumulative = np.cumsum(distributions, axis=1)
    # Scaled by the last value, which may be below 1 by rounding, so that u stays below it.
    u = generator.random((len(distributions), 1)) * cumulative[:, -1:]
    return (u >= cumulative).sum(axis=1)


def _as_floats(argument: str, value: Any) -> Array:
    require_unmasked(argument, value)
    try:
        return np.array(value, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{argument} must be an array of numbers: {error}") from None


def _distributions(name: str, table: Any, shape: Sequence[int]) -> Array:
    given = _as_floats(name, table)
    if given.shape != tuple(shape):
        raise UsageError(f"{name} must have the shape {list(shape)}, not {list(given.shape)}")
    sums = given.sum(axis=-1, keepdims=True)
    if not (given >= 0).all() or not np.allclose(sums, 1, rtol=0, atol=1e-5):
        raise UsageError(
            f"{name} must hold probabilities, each row with the sum 1; the smallest entry is {given.min()}, "
            f"the sums are {sums.min()} to {sums.max()}"
        )
    return given / sums
