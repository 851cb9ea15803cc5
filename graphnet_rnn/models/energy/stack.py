"""Stack: models on top of each other, each trained on the hidden activities of the one below."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeVar

import graphnet as gn
from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.model import Model
from graphnet_rnn.models.energy.model import EnergyModel, as_generator, raised
from graphnet_rnn.models.energy.rbm import RBM
from graphnet_rnn.models.energy.sequence import SequenceRBM
from graphnet_rnn.settings import MANY, listed, shown, whole_number, yes_or_no

Layer = TypeVar("Layer", bound=EnergyModel)


class Stack(Model):
    """M(v, h, u) = P(v|h) Q(h, u): the last model generates, those below it only pass down.

    layers: from the data upwards; all RBMs, or all models of sequences (TRBM, RTRBM, RecurrentRBM). The visible units
    of a layer are the hidden units of the layer below, so they are binary. UsageError if the layers do not fit.
    Each layer is trained with those below it fixed (eqs 2.34-2.36, 3.12), from the data upwards:

        for level, layer in enumerate(stack.layers):
            rnn.Trainer(rnn.EnergyCases(layer, data, below=stack.layers[:level]), settings).run()

    Source: Hinton, Osindero & Teh 2006; Sutskever 2013, 2.7.1 and 3.4.

    >>> stack = rnn.energy.Stack([rnn.energy.RBM(6, 4), rnn.energy.RBM(4, 2)])
    >>> [h.shape for h in stack.infer(np.ones((3, 6)))]
    [(3, 4), (3, 2)]
    >>> stack.sample(cases=2, gibbs_steps=10).shape
    (2, 6)
    >>> stack.activities(np.ones((3, 6)), level=1).shape, stack.reconstruct(np.ones((3, 6))).shape
    ((3, 4), (3, 6))
    >>> rnn.energy.Stack([rnn.energy.TRBM(6, 4), rnn.energy.TRBM(4, 2)]).sample_sequences(time=5).shape
    (5, 1, 6)
    """

    def __init__(self, layers: Sequence[EnergyModel]) -> None:
        self.layers = listed("Stack: layers", layers, "RBMs, or of models of sequences")
        if not self.layers:
            raise UsageError(
                "Stack: layers is empty: give at least one layer, e.g. [RBM(784, 500), RBM(500, 500)]"
            )
        kind = RBM if isinstance(self.layers[0], RBM) else SequenceRBM
        if not all(isinstance(layer, kind) for layer in self.layers):
            raise UsageError(
                "Stack: layers must be all RBMs, or all models of sequences (TRBM, RTRBM, RecurrentRBM), not "
                f"{shown(self.layers, MANY)}"
            )
        for below, layer in itertools.pairwise(self.layers):
            if layer.visible != below.hidden or layer.visibles != "binary" or layer.dtype != below.dtype:
                raise UsageError(
                    f"Stack: on top of {below.hidden} hidden units ({below.dtype.name}) is a layer of "
                    f"{layer.visible} {layer.visibles} visible units ({layer.dtype.name}); they must match"
                )
        # Each layer has its own vector and is trained alone.
        self.declare_parameters({}, 0, self.layers[0].dtype)

    def __graph__(self) -> gn.Graph:
        """The equations of the layers, for files."""
        graphs = [layer.__graph__() for layer in self.layers]
        return gn.Graph([o for g in graphs for o in g.outputs], [i for g in graphs for i in g.inputs])

    def activities(self, data: Any, level: int, seed: int = 0) -> Array:
        """Training data of layer `level`: the data (0), or drawn hidden states of the layer below."""
        below = self.layers[: self._level("activities", level)]
        return raised(self.layers[0].check_data("data", data), below, as_generator("Stack.activities", seed))

    def _level(self, method: str, level: int) -> int:
        if whole_number(f"Stack.{method}: level", level, least=0) >= len(self.layers):
            raise UsageError(
                f"Stack.{method}: level must be less than the number of layers, {len(self.layers)}, not {level}"
            )
        return level

    def infer(self, v: Any) -> list[Array]:
        """Probabilities of the hidden units of every layer, from the data upwards."""
        result: list[Array] = []
        for layer in self.layers:
            v = layer.infer(v)
            result.append(v)
        return result

    def reconstruct(self, v: Any) -> Array:
        """Infers up to the top, then reads out down to the data, for denoising (3.3, 3.4)."""
        inferred = self.infer(v)
        h = inferred[-1]
        for layer, seen in zip(reversed(self.layers), reversed([v, *inferred[:-1]]), strict=True):
            h = layer.read_out(h, seen)
        return h

    def sample(self, cases: int, gibbs_steps: int = 1000, means: bool = False, seed: int = 0) -> Array:
        """(cases, visible) from a stack of RBMs: a Markov chain in the top one, then one pass down.

        cases: number of samples. gibbs_steps: length of the chain, 1000 by default. means: True returns E[v|h] in the
        lowest layer instead of a draw. seed: of the random numbers.
        """
        *lower, top = self._all_of(RBM, "sample", "sample_sequences")
        means = yes_or_no("Stack.sample: means", means)
        if not lower:
            return top.sample(cases, gibbs_steps, means=means, seed=seed)
        v = top.sample(cases, gibbs_steps, seed=seed)
        generator = as_generator("Stack.sample", seed, 1)
        for l, layer in reversed(list(enumerate(lower))):
            mean = layer.read_out(v)
            v = mean if means and l == 0 else layer.units.draw(mean, generator)
        return v

    def sample_sequences(
        self,
        time: int,
        batch: int = 1,
        warm_up: Any = None,
        gibbs_steps: int = 25,
        means: bool = False,
        mean_field: bool | None = None,
        seed: int = 0,
    ) -> Array:
        """`time` new frames, (time, batch, visible): sampled in the top model, then passed down frame by frame.

        time, batch: numbers of new frames and of sequences. warm_up: frames before them, (time, batch, visible); None:
        none. Each layer reads the warm-up as the layers below it infer it. gibbs_steps: steps for each frame in the top
        model, 25 by default. means: True returns E[v|h] in the lowest layer instead of draws. mean_field: see
        TRBM.sample. seed: of the random numbers.
        """
        sequences: Any = SequenceRBM  # abstract
        *lower, top = self._all_of(sequences, "sample_sequences", "sample")
        means = yes_or_no("Stack.sample_sequences: means", means)
        seen = self._seen(warm_up)
        v = top.sample(time, batch, seen[-1], gibbs_steps, means and not lower, mean_field, seed)
        generator = as_generator("Stack.sample_sequences", seed, 1)
        for l, layer in reversed(list(enumerate(lower))):
            v = layer.emit(v, seen[l], means and l == 0, generator)
        return v

    def _seen(self, v: Any) -> list[Any]:
        """Input of each layer: the data, then the probabilities that the layer below infers."""
        return [None] * len(self.layers) if v is None else [v, *self.infer(v)[:-1]]

    def _all_of(self, kind: type[Layer], method: str, other: str) -> list[Layer]:
        found = [layer for layer in self.layers if isinstance(layer, kind)]
        if not found:
            raise UsageError(
                f"Stack.{method} is not for layers of {type(self.layers[0]).__name__}s; use Stack.{other}"
            )
        return found

    def __repr__(self) -> str:
        return "Stack([" + ",\n       ".join(map(repr, self.layers)) + "])"
