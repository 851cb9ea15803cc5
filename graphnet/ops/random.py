"""Random leaves for dropout masks and noise; values stay fixed until they are redrawn.

A line search or conjugate gradients need a deterministic function, so running a graph never draws. `source.redraw()`
redraws all nodes of one RandomSource. Their values depend only on the seed, the number of draws and the position of
the node in its source. These two numbers are the whole state, and a resumed run continues bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from graphnet.errors import GraphnetError, UsageError
from graphnet.graph.dtypes import as_dtype, is_float
from graphnet.graph.node import Array, ByIdentity, Dtype, Node, Shape
from graphnet.ops.leaf import as_shape
from graphnet.settings import amount, is_number, shown, whole_number


class RandomSource:
    """A random seed and a count of draws, shared by the Random nodes made from it.

    seed: whole number >= 0, 0 by default; equal seeds give equal values.

    >>> source = gn.RandomSource(seed=0)
    >>> mask = source.bernoulli(0.8, shape=(2, 5))  # a node of ones (80 %) and zeros
    >>> before = mask.value.tolist()
    >>> source.redraw()  # new values for all nodes of this source
    >>> mask.value.tolist() == before
    False
    >>> source.normal(0.1, shape=(2, 5)).value.shape, bool(source.uniform(3.0, shape=4).value.max() < 3)
    ((2, 5), True)
    """

    def __init__(self, seed: int = 0) -> None:
        # NumPy's generators take any whole number >= 0.
        self.seed = whole_number("RandomSource: seed", seed, least=0, most=2**128)
        self.draw = 0
        self._nodes = 0

    def redraw(self) -> None:
        """Draws new values for all nodes of this source."""
        self.draw += 1

    def bernoulli(self, p: float, shape: Any, dtype: Any = "float32", name: str | None = None) -> Node:
        """y = 1 with probability p, else 0, independently.

        p: probability in [0, 1]. shape: sizes of the node. dtype: NumPy dtype or its name, float32 by default. name:
        name in error messages and pictures, None by default.
        """
        if not is_number(p) or not 0 <= p <= 1:
            raise GraphnetError(f"bernoulli: the probability must be in [0, 1], not {p!r}")
        return self._node("bernoulli", p, shape, dtype, name)

    def normal(self, scale: float, shape: Any, dtype: Any = "float32", name: str | None = None) -> Node:
        """y ~ N(0, scale²), independently.

        scale: standard deviation, at least 0. shape, dtype, name: see `bernoulli`.
        """
        return self._node("normal", amount("normal: scale", scale), shape, dtype, name)

    def uniform(self, high: float, shape: Any, dtype: Any = "float32", name: str | None = None) -> Node:
        """y ~ U(0, high), independently.

        high: upper bound, exclusive, at least 0. shape, dtype, name: see `bernoulli`.
        """
        return self._node("uniform", amount("uniform: high", high), shape, dtype, name)

    def _node(self, distribution: str, number: float, shape: Any, dtype: Any, name: str | None) -> Node:
        place = self._nodes
        self._nodes += 1
        return Random(self, place, distribution, number, as_shape(shape), as_dtype(dtype))(name=name)

    @property
    def state(self) -> dict[str, int]:
        """Seed and number of draws, as a dict; set it to resume."""
        return {"seed": self.seed, "draw": self.draw}

    @state.setter
    def state(self, state: dict[str, int]) -> None:
        if not isinstance(state, Mapping) or state.keys() != {"seed", "draw"}:
            raise UsageError(
                f"state must be a dict with the keys seed and draw, as in source.state, not {shown(state)}"
            )
        self.seed, self.draw = (
            whole_number(f"state: {name}", state[name], least=0, most=2**128) for name in ("seed", "draw")
        )


@dataclass(frozen=True, eq=False)
class Random(ByIdentity):
    """y ~ a distribution, fixed until its source is redrawn"""

    source: RandomSource = field(default_factory=RandomSource, repr=False)
    place: int = 0
    distribution: str = "bernoulli"
    number: float = 0.5
    of_shape: Shape = ()
    of_dtype: Dtype = np.dtype("float32")
    symbol: ClassVar[str] = "random"
    _held: dict[tuple[int, int], Array] = field(default_factory=dict, repr=False)

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        return self.of_shape, self.of_dtype

    @property
    def value(self) -> Array:
        """Values of the current draw."""
        state = (self.source.seed, self.source.draw)
        held = self._held.get(state)
        if held is None:
            held = self._sample(state)
            held.flags.writeable = False
            self._held.clear()
            self._held[state] = held
        return held

    def _sample(self, state: tuple[int, int]) -> Array:
        seed, draw = state
        generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, draw, self.place])))
        if self.distribution == "bernoulli":
            return np.asarray(generator.random(self.of_shape, "float32") < self.number).astype(self.of_dtype)
        if self.distribution == "normal":
            sample = generator.standard_normal(self.of_shape, "float64") * self.number
        else:
            sample = generator.random(self.of_shape, "float64") * self.number
            if is_float(self.of_dtype):  # the conversion rounds up to the bound at most
                high = self.of_dtype.type(self.number)
                below = np.nextafter(high, high.dtype.type(0))
                sample = np.minimum(np.asarray(sample).astype(self.of_dtype), below)
        return np.asarray(sample, self.of_dtype)

    def forward(self) -> Array:
        return self.value

    def backward(self, gy: Node, y: Node, *inputs: Node) -> Sequence[Node]:
        return ()
