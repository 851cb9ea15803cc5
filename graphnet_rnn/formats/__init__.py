"""Networks of other programs: weights from and to PyTorch, and files of ONNX.

torch_weights   state dicts of torch.nn.RNN, LSTM and GRU with an output layer, both ways
state_dict      the parts of a torch model, found among its tensors
onnx_export     a network as an ONNX file, for the runtimes that read those
"""

from __future__ import annotations

from graphnet_rnn.formats.onnx_export import export_onnx
from graphnet_rnn.formats.torch_weights import from_torch, save_torch, to_torch, torch_kind

__all__ = ["export_onnx", "from_torch", "save_torch", "to_torch", "torch_kind"]
