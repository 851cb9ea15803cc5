"""ParameterVector: parameters as one vector, on the host or in the memory of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

import graphnet as gn
from graphnet.backends import load_backend
from graphnet.graph.node import Array, Node
from graphnet.system.process import cached_property


class ParameterVector:
    """Parameters, end to end in one vector.

    On the host, functions read parameters in place, and vectors in parts of their shapes. A separate device memory gets
    each vector as a whole, so a vector that is there already is not copied.
    """

    def __init__(self, nodes: list[Node], backend: str) -> None:
        self.nodes, self.backend = nodes, backend
        #: Position of each parameter in the vector.
        self.slices = flat_parts(nodes)
        self.size = self.slices[-1].stop
        self.dtype = np.result_type(*(node.dtype for node in nodes))

    @cached_property
    def apart(self) -> bool:
        """True if the back end has a memory of its own."""
        return load_backend(self.backend).apart

    @cached_property
    def theta(self) -> Node:
        """The vector as an input, where it is apart."""
        return gn.input((self.size,), self.dtype, name="theta", weights=True)

    @cached_property
    def directions(self) -> list[Node]:
        """Inputs for a vector of the parameters' shapes."""
        if self.apart:
            return [gn.input((self.size,), self.dtype, name="v", varying=True)]
        return [gn.input(n.shape, n.dtype, name=f"v_{n.name}", varying=True) for n in self.nodes]

    def place(self, vector: Array) -> Array:
        """Copies a vector to the back end's memory."""
        return gn.place(vector, self.backend)

    def set(self, vector: Array) -> None:
        """Sets the parameters to the values of the vector."""
        vector = np.asarray(vector)
        for at, node in zip(self.slices, self.nodes, strict=True):
            node.value[...] = vector[at].reshape(node.shape)

    def cut(self, vector: Node) -> list[Node]:
        """Cuts a node of all parameters into one of each."""
        return [
            gn.cast(gn.reshape(vector[at], node.shape), node.dtype)
            for at, node in zip(self.slices, self.nodes, strict=True)
        ]

    def arguments(self, v: Array) -> list[Array]:
        """Converts a vector to arguments for `directions`."""
        if self.apart:
            return [v.astype(self.dtype, copy=False)]
        v = np.asarray(v)
        return [v[at].reshape(n.shape).astype(n.dtype) for at, n in zip(self.slices, self.nodes, strict=True)]

    def outputs(self, nodes: Sequence[Node]) -> list[Node]:
        """Converts one node for each parameter to outputs of a function."""
        if not self.apart:
            return list(nodes)
        return [gn.concatenate([gn.cast(gn.reshape(node, (node.size,)), self.dtype) for node in nodes])]

    def whole(self, arrays: Sequence[Array]) -> tuple[Array, tuple[Array, ...]]:
        """Joins the values of `outputs` to one vector; returns it and the other arrays."""
        if self.apart:
            return arrays[0], tuple(arrays[1:])
        count = len(self.nodes)
        return np.concatenate([a.ravel() for a in arrays[:count]]), tuple(arrays[count:])


def flat_parts(parameters: Sequence[Node]) -> list[slice]:
    """Returns the position of each parameter in the concatenated vector."""
    ends = accumulate(node.size for node in parameters)
    return [slice(end - node.size, end) for end, node in zip(ends, parameters, strict=True)]
