"""Graphs as files of ONNX, which onnxruntime and other programs run.

sizes        sizes that depend on the number of cases, found by comparing two graphs
writer       the nodes, constants, inputs and outputs of one file
call         what the saying of an op is given
elementwise  how elementwise ops are said in ONNX
arrays       how all other ops are said
table        op -> how it is said, or why it cannot be
translate    from a graph to nodes of ONNX
export       export_onnx: a graph as a file
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet.onnx.export import export_onnx

__all__ = ["export_onnx"]
