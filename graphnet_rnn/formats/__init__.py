"""File formats of models, and exchange with other programs.

model_file      one file for a model of any kind
digest          detects changed equations of a model
torch_weights   state dicts of torch.nn.RNN, LSTM and GRU with an output layer, both ways
state_dict      the parts of a torch model, found among its tensors
onnx_export     a network as an ONNX file
c_export        a network as standalone C
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.formats.c_export import export_c as export_c
    from graphnet_rnn.formats.onnx_export import export_onnx as export_onnx
    from graphnet_rnn.formats.torch_weights import (
        from_torch as from_torch,
        save_torch as save_torch,
        to_torch as to_torch,
        torch_kind as torch_kind,
    )
