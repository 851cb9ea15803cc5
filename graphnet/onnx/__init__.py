"""Export of graphs as ONNX files, which onnxruntime and other programs run.

sizes        sizes that depend on the number of cases, found by comparing two graphs
writer       the nodes, constants, inputs and outputs of one file
call         a node that is being exported, with its inputs in ONNX
elementwise  export of elementwise ops
arrays       export of all other ops
table        op -> its export, or the reason why there is none
translate    from a graph to nodes of ONNX
export       export_onnx: a graph as a file
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet.onnx.export import export_onnx as export_onnx
