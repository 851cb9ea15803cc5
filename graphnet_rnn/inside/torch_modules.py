"""Networks as modules of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import graphnet as gn
from graphnet.errors import DtypeError
from graphnet_rnn.cell.cell import classes_of
from graphnet_rnn.data.sequences import checked_lengths
from graphnet_rnn.errors import UsageError
from graphnet_rnn.formats.model_file import ModelFile, describe_model, model_of
from graphnet_rnn.inside.calls import CompiledCalls, require_no_draws, require_states
from graphnet_rnn.network.network import Network


class NetworkModule(torch.nn.Module):  # type: ignore[misc]  # PyTorch may be missing
    """See torch_module."""

    def __init__(self, network: Network, batch_first: bool, backend: str, threads: int | None) -> None:
        super().__init__()
        require_no_draws("torch_module", network, "PyTorch's", "put torch.nn.Dropout between modules")
        self._network, self.batch_first = network, batch_first
        self._states = [name for name, _ in network.state_names()]
        self._how: dict[str, Any] = {"backend": backend, "threads": threads}
        self._compiled = self._to_compile()
        for name, node in network.parameters.items():
            self.register_parameter(_plain(name), torch.nn.Parameter(torch.tensor(node.value)))

    def forward(
        self,
        x: torch.Tensor,
        states: Sequence[torch.Tensor] | None = None,
        lengths: torch.Tensor | Sequence[int] | None = None,
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        axes = 2 if self._network.reads == "symbols" else 3
        if not isinstance(x, torch.Tensor) or x.ndim != axes:
            given = f"shape {list(x.shape)}" if isinstance(x, torch.Tensor) else type(x).__name__
            raise UsageError(
                f"torch_module: x must be a tensor with {axes} axes, not {given}; a batch of one sequence has the "
                "batch axis, too. For sequences of different lengths, pad them (torch.nn.utils.rnn.pad_sequence) and "
                "give lengths="
            )
        if self.batch_first:
            x = x.transpose(0, 1)
        time, batch = x.shape[:2]
        weights = self._weights()
        if states is None:
            states = self._first_states(batch, weights)
        require_states("torch_module", self._states, states)
        ends: list[torch.Tensor] = []
        if lengths is not None:
            known = checked_lengths("torch_module", np.asarray(lengths), time, batch)
            ends = [torch.from_numpy(known.astype(np.int32))]
        function = self._compiled(time, batch, lengths is not None)
        try:
            outputs, *final = function(x, *states, *weights.values(), *ends)
        except DtypeError:
            self._require_own_dtype(weights)
            raise
        pooled = self._network.pool is not None
        return outputs.transpose(0, 1) if self.batch_first and not pooled else outputs, final

    def network(self) -> Network:
        """Returns the network with the module's current weights."""
        for name, weight in self._weights().items():
            self._network.parameters[name].value[...] = weight.detach().numpy()
        return self._network

    def _weights(self) -> dict[str, torch.Tensor]:
        # Not get_parameter: torch.func.functional_call puts tensors in their places.
        return {name: getattr(self, _plain(name)) for name in self._network.parameters}

    def _require_own_dtype(self, weights: dict[str, torch.Tensor]) -> None:
        made = torch.from_numpy(np.empty(0, self._network.dtype)).dtype
        for name, weight in weights.items():
            if weight.dtype != made:
                raise UsageError(
                    f"torch_module: the parameter {name} is {weight.dtype}, but the network was made in {made}; do not "
                    "convert the module. For another precision, make the network with dtype='float64'"
                )

    def _first_states(self, batch: int, weights: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        if self._network.initial_state == "zero":
            return list(map(torch.from_numpy, self._network.zero_states(batch)))
        names = {node: name for name, node in self._network.parameters.items()}
        learned = (node.inputs[0] for node in self._network.learned_states(batch))
        return [weights[names[node]].expand(batch, -1) for node in learned]

    def _to_compile(self) -> CompiledCalls:
        return CompiledCalls(
            self._network,
            lambda outputs, inputs: gn.inside.torch_function(outputs, inputs, **self._how),
        )

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and copy: the network's description; the parameters are those of the module."""
        state, network = {**self.__dict__}, self.network()
        del state["_compiled"]
        fixed = {name: node.value for name, node in network.fixed.items()}
        classes = list(dict.fromkeys(classes_of(network.layers)))
        state["_network"] = (ModelFile(fixed, describe_model(network)), list(network.parameters), classes)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        file, names, classes = state["_network"]
        weights = {name: state["_parameters"][_plain(name)].detach().numpy().copy() for name in names}
        network = model_of(ModelFile({**file.tensors, **weights}, file.description), "the module", classes)
        super().__setstate__({**state, "_network": network})
        self._compiled = self._to_compile()


def _plain(name: str) -> str:
    return name.replace(".", "/")
