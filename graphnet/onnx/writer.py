"""Writer: collects the parts of an ONNX file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphnet.errors import UsageError
from graphnet.graph.dtypes import BOOL, FLOAT32
from graphnet.graph.node import Dtype, Node
from graphnet.onnx.sizes import Extent, Size
from graphnet.settings import shown
from graphnet.version import __version__

#: From 2022: supported by every runtime in use; the recurrent operators have not changed since 14.
OPSET, IR_VERSION = 17, 8


def require_onnx() -> Any:
    """Returns the package onnx; raises UsageError if it is not installed."""
    try:
        import onnx
    except ImportError:
        raise UsageError("writing ONNX files needs the package onnx: pip install 'onnx>=1.16'") from None
    return onnx


class Writer:
    """The nodes, constants, inputs and outputs of one graph, and of the bodies of loops within it.

    number: dtype of all floats; None keeps their own. A body can read values of the graphs around it. Constants, and
    nodes that do not depend on the loop, belong to the outermost writer.
    """

    def __init__(self, number: Dtype | None = None, around: Writer | None = None) -> None:
        self.onnx = require_onnx()
        self.around = around
        self.main: Writer = self if around is None else around.main
        self.number: Dtype | None = number if around is None else around.number
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self._names: set[str] = set()
        self._constants: dict[str, Any] = {}
        self._known: dict[Any, str] = {}
        #: Name of the value with the number of cases, [n]; empty before there is one.
        self.cases = ""

    # -- nodes and constants -----------------------------------------------------------------

    def unique(self, hint: str) -> str:
        """Returns an unused name. Raises UsageError if it is not valid Unicode."""
        _require_unicode(hint)
        names, name, count = self.main._names, hint, 1
        while name in names:
            count += 1
            name = f"{hint}.{count}"
        names.add(name)
        return name

    def dtype(self, dtype: Dtype) -> Dtype:
        """Returns the dtype in the file."""
        return self.number if self.number is not None and dtype.kind == "f" else dtype

    def constant(self, value: Any, hint: str = "") -> str:
        """Adds a constant under the name hinted at; without a hint, equal constants are shared."""
        array = np.asarray(value)
        array = array.astype(self.dtype(array.dtype))
        key = None if hint else (array.shape, array.dtype.str, array.tobytes())
        if key is not None and key in self.main._known:
            return self.main._known[key]
        name = self.unique(hint or "constant")
        self.main._constants[name] = self.onnx.numpy_helper.from_array(array.copy(order="C"), name)
        if key is not None:
            self.main._known[key] = name
        return name

    def parameter(self, node: Node) -> str:
        """Adds a parameter's value, under its own name."""
        if node not in self.main._known:
            self.main._known[node] = self.constant(node.value, node.name or "parameter")
        return self.main._known[node]

    def node(
        self, operator: str, inputs: Sequence[str], output: str | Sequence[str] = "", **attributes: Any
    ) -> str:
        """Adds a node; returns its first output, by default named like the operator.

        output: its name or names, which must be `unique`.
        """
        outputs = [output or self.unique(operator)] if isinstance(output, str) else list(output)
        self.nodes.append(
            self.onnx.helper.make_node(operator, list(inputs), outputs, outputs[0], **attributes)
        )
        return outputs[0]

    def once(self, key: Any, operator: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Returns a node of the outermost graph, made once for each key."""
        main = self.main
        if key not in main._known:
            main._known[key] = main.node(operator, inputs, **attributes)
        return main._known[key]

    def cast(self, x: str, to: Dtype) -> str:
        return self.node("Cast", [x], to=self.onnx.helper.np_dtype_to_tensor_dtype(to))

    def expand(self, x: str, shape: Sequence[Extent], dtype: Dtype) -> str:
        """Returns x in this shape. Some runtimes expand to an axis of size 0 wrongly, so such a value is made anew."""
        if 0 not in shape:
            return self.node("Expand", [x, self.sizes(shape)])
        zero = self.onnx.numpy_helper.from_array(np.zeros(1, self.dtype(dtype)))
        return self.node("ConstantOfShape", [self.sizes(shape)], value=zero)

    def is_nan(self, x: str) -> str:
        return self.cast(self.node("IsNaN", [x]), FLOAT32)

    def extreme(self, operator: str, x: str, axes: Sequence[int], dtype: Dtype) -> str:
        """Adds ReduceMax or ReduceMin of floats, with NaN for rows with a NaN, which runtimes ignore."""
        wrong = self.node("ReduceMax", [self.is_nan(x)], axes=list(axes), keepdims=0)
        found = self.node(operator, [x], axes=list(axes), keepdims=0)
        return self.node("Where", [self.cast(wrong, BOOL), self.constant(np.array(np.nan, dtype)), found])

    def declare(self, where: list[Any], name: str, dtype: Any, shape: Sequence[int | str]) -> str:
        """Adds an input or output of the graph; where: `inputs` or `outputs`."""
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        where.append(self.onnx.helper.make_tensor_value_info(name, kind, list(shape)))
        return name

    # -- sizes -------------------------------------------------------------------------------

    def cases_of(self, name: str, axis: int) -> None:
        """Sets the number of cases to the size of this axis of a value, unless it is set already."""
        self.cases = self.cases or self.once("cases", "Shape", [name], start=axis, end=axis + 1)

    def sizes(self, extents: Sequence[Extent]) -> str:
        """Returns a value that holds these sizes, int64."""
        if all(isinstance(n, int) for n in extents):
            return self.constant(np.array(extents, np.int64))
        parts = [self._size(n) for n in extents]
        return parts[0] if len(parts) == 1 else self.once(("sizes", *parts), "Concat", parts, axis=0)

    def scalar(self, extent: Extent) -> str:
        """Returns one size as a scalar, int64."""
        vector = self.sizes([extent])
        return self.once(("scalar", extent), "Squeeze", [vector, self.constant(np.array([0]))])

    def _size(self, extent: Extent) -> str:
        if not isinstance(extent, Size):
            return self.constant(np.array([extent], np.int64))
        name, (per_case, plus) = self.main.cases, extent
        if per_case != 1:
            name = self.once(("times", per_case), "Mul", [name, self.constant(np.array([per_case]))])
        if plus:
            name = self.once(("plus", extent), "Add", [name, self.constant(np.array([plus]))])
        return name

    # -- files -------------------------------------------------------------------------------

    def graph(self, name: str) -> Any:
        """Returns the collected nodes as a graph of ONNX, without those that nothing reads."""
        read, nodes = {output.name for output in self.outputs}, []
        for node in reversed(self.nodes):
            if read.intersection(node.output):
                nodes.append(node)
                read |= _names_in(node)
        constants = [constant for found, constant in self._constants.items() if found in read]
        return self.onnx.helper.make_graph(nodes[::-1], name, self.inputs, self.outputs, constants)

    def file(self, name: str, described: str, metadata: Mapping[str, str]) -> bytes:
        """Returns the whole file; the same graph makes the same bytes."""
        helper = self.onnx.helper
        model = helper.make_model(
            self.graph(name),
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="graphnet",
            producer_version=__version__,
            doc_string=described,
        )
        for text in (*metadata, *metadata.values()):
            _require_unicode(text)
        if metadata:
            helper.set_model_props(model, dict(metadata))
        content: bytes = model.SerializeToString(deterministic=True)
        return content


def _require_unicode(text: str) -> None:
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise UsageError(f"export_onnx: {text!r} is not valid Unicode; give another name or text")


def _names_in(node: Any) -> set[str]:
    """Names that a node reads, also in the bodies of loops."""
    graphs = [attribute.g for attribute in node.attribute]
    within = [_names_in(each) for graph in graphs for each in graph.node]
    return {*node.input, *(output.name for graph in graphs for output in graph.output)}.union(*within)


def named_path(path: Any) -> str:
    """Returns the path; raises UsageError if it is not one."""
    try:
        return os.fspath(path)
    except TypeError:
        raise UsageError(f"export_onnx: path must be the name of a file, not {shown(path)}") from None
