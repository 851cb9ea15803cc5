"""Selection of the drawn nodes: the whole graph, or the compact graph of a paper.

In a compact picture a product with a weight is an edge labeled with that weight (Lynge 2016, fig. 3.5),
a bias or a number is drawn inside its operator, casts, reshapes and broadcasts disappear, and a composite is one
operator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from html import escape

from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from graphnet.ops.broadcast import BroadcastTo, Sum
from graphnet.ops.elementwise import Add, Cast, Multiply
from graphnet.ops.index import Take
from graphnet.ops.leaf import Fill
from graphnet.ops.shape import Reshape, Slice, Transpose
from viz.drawing.composites import Composite, composites_of
from viz.drawing.names import Names, number

#: Longer chains of products or sums are drawn node by node: longer labels are unreadable, and copying
#: them would take quadratic time.
_MOST_LABELS = 2
_MOST_TERMS = 12


@dataclass(frozen=True)
class Operand:
    """Edge into a drawn node: its source, and the operations on the way."""

    source: Node
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class DrawnNode:
    """Node of the picture: node of the graph, symbol in markup, and edges into it."""

    node: Node
    symbol: str
    operands: tuple[Operand, ...]


def unfolded(graph: Graph, names: Names) -> list[DrawnNode]:
    """Every node of the graph."""
    return [DrawnNode(node, symbol_of(node), tuple(map(Operand, node.inputs))) for node in graph.order]


def fold(graph: Graph, names: Names) -> list[DrawnNode]:
    """Nodes that remain when weights, biases, numbers and changes of layout are folded away."""
    folding = _Folding(graph, names)
    for node in graph.order:
        folding.visit(node)
    return folding.needed()


def symbol_of(node: Node) -> str:
    """Symbol of an op in the HTML-like markup of Graphviz."""
    if isinstance(node.op, Slice):
        return escape(_key_text(node.op, node.inputs[0].shape))
    text = node.op.symbol or node.op.name
    base, hat, exponent = text.partition("^")
    if hat and exponent:
        return f"<i>{escape(base) or 'x'}</i><sup>{escape(exponent.replace('-', '−'))}</sup>"
    words = escape(text).split()
    # Long words are stacked, so that an operator stays round.
    return "<br/>".join(words) if len(text) > 9 else " ".join(words)


def _key_text(op: Slice, shape: tuple[int, ...]) -> str:
    """`[3, :, 0:5]`, without trailing whole axes."""
    parts = []
    for key, size in zip(op.key, shape, strict=True):
        if isinstance(key, int):
            parts.append(str(key))
        elif key == (0, size, 1):
            parts.append(":")
        else:
            start, stop, step = key
            parts.append(f"{start}:{stop if stop >= 0 else ''}" + (f":{step}" if step != 1 else ""))
    while parts and parts[-1] == ":":
        parts.pop()
    return f"[{', '.join(parts)}]"


class _Folding:
    def __init__(self, graph: Graph, names: Names) -> None:
        self.graph = graph
        self.names = names
        self.outputs = set(graph.outputs)
        self.composites = composites_of(graph)
        self.drawn: dict[Node, DrawnNode] = {}
        #: Operands that represent a node in its consumers.
        self.seen_as: dict[Node, tuple[Operand, ...]] = {}
        #: Text that can represent a node: the name of a weight, a number.
        self.text: dict[Node, str] = {}

    def visit(self, node: Node) -> None:
        drawn = DrawnNode(node, symbol_of(node), self.operands(node.inputs))
        seen_as: tuple[Operand, ...] = ()
        composite = self.composites.get(node)
        if composite is not None and composite.root is node:
            drawn = self.whole(composite)
        elif node.is_leaf:
            self.name_leaf(node)
        elif self.is_layout(node):
            seen_as = self.seen_as[node.inputs[0]]
            self.keep_text(node, "")
        elif isinstance(node.op, Transpose) and node not in self.outputs:
            self.keep_text(node, "<sup>T</sup>")
        else:
            rule = self.rule_for(node)
            if rule is not None:
                drawn, seen_as = rule(node, drawn)
        self.drawn[node] = drawn
        self.seen_as[node] = seen_as or (Operand(node),)

    def needed(self) -> list[DrawnNode]:
        reached: set[Node] = set()
        pending = list(self.graph.outputs)
        while pending:
            node = pending.pop()
            if node not in reached:
                reached.add(node)
                pending.extend(operand.source for operand in self.drawn[node].operands)
        return [self.drawn[node] for node in self.graph.order if node in reached]

    def whole(self, composite: Composite) -> DrawnNode:
        """Composite as one operator, with the inputs of its nodes from outside; it shows its weights, no constants."""
        inside = set(composite.nodes)
        sources = dict.fromkeys(x for node in composite.nodes for x in node.inputs if x not in inside)
        own = {x for x in sources if x in self.text or (x.op.is_constant and self.is_free(x))}
        operands = self.operands(tuple(x for x in sources if x not in own))
        weights = ", ".join(self.text[x] for x in sources if x in self.text and x.op.is_parameter)
        lines = [*escape(composite.name).split(), *([weights] if weights else [])]
        return DrawnNode(composite.root, "<br/>".join(lines), tuple(dict.fromkeys(operands)))

    # -- what can be folded ------------------------------------------------------------------

    def operands(self, inputs: tuple[Node, ...]) -> tuple[Operand, ...]:
        return tuple(operand for x in inputs for operand in self.seen_as[x])

    def is_layout(self, node: Node) -> bool:
        moves = isinstance(node.op, (BroadcastTo, Cast, Reshape))
        return moves and node.name is None and node not in self.outputs

    def is_free(self, node: Node) -> bool:
        if node.name is not None or node in self.outputs:
            return False
        consumers = self.graph.consumers[node]
        if len(consumers) == 1:
            return True
        inside = self.composites.get(consumers[0]) if consumers else None
        return inside is not None and all(self.composites.get(c) is inside for c in consumers)

    def name_leaf(self, node: Node) -> None:
        if node in self.outputs:
            return
        op = node.op
        if op.everywhere is not None:
            text = escape(number(op.everywhere))
        elif op.is_parameter:
            text = f"<i>{escape(op.symbol)}</i>"
        elif op.is_constant and node.size == 1:
            text = escape(number(node.value.item()))
        else:
            return
        self.text[node] = self.names.markup(node.name) if node.name else text

    def keep_text(self, node: Node, suffix: str) -> None:
        text = self.text.get(node.inputs[0])
        if text is not None:
            self.text[node] = text + suffix

    # -- how: each rule gives how a node is drawn, and how it is seen if it is not ---------------

    def rule_for(
        self, node: Node
    ) -> Callable[[Node, DrawnNode], tuple[DrawnNode, tuple[Operand, ...]]] | None:
        texts = sum(x in self.text for x in node.inputs)
        match node.op:
            case Add():
                return self.fold_sum if texts < len(node.inputs) else None
            case _ if texts != 1 or len(node.inputs) != 2:
                return None
            case op if op.is_product:
                return self.fold_product
            case Take() if node.inputs[0] in self.text:
                return self.fold_product  # a row lookup in a weight; a fixed lookup in a moving array is none
            case op if op.is_elementwise:
                return self.fold_number
        return None

    def fold_product(self, node: Node, drawn: DrawnNode) -> tuple[DrawnNode, tuple[Operand, ...]]:
        """x @ W: an edge labeled W; W @ x: an edge labeled W @."""
        left, right = node.inputs
        weight, x = (right, left) if right in self.text else (left, right)
        operands = self.operands((x,))
        (operand,) = operands
        label = self.text[weight]
        if self.is_free(node) and len(operand.labels) < _MOST_LABELS and not _has_bias(operand):
            edge = f"{label} {drawn.symbol}" if weight is left and node.op.is_product else label
            return drawn, (replace(operand, labels=(*operand.labels, edge)),)
        symbol = f"{drawn.symbol} {label}" if weight is right else f"{label} {drawn.symbol}"
        return replace(drawn, symbol=symbol, operands=operands), ()

    def fold_sum(self, node: Node, drawn: DrawnNode) -> tuple[DrawnNode, tuple[Operand, ...]]:
        """x + y + b: one sum of all its terms, with the bias inside; x + b: an edge labeled + b."""
        operands = self.operands(tuple(x for x in node.inputs if x not in self.text))
        biases = "".join(f" + {self.text[x]}" for x in node.inputs if x in self.text).strip()
        drawn = replace(drawn, symbol=biases or drawn.symbol, operands=operands)
        if not self.is_free(node):
            return drawn, ()
        if len(operands) == 1 and not _has_bias(operands[0]):
            return drawn, (replace(operands[0], labels=(*operands[0].labels, biases)),)
        consumer = self.graph.consumers[node][0]
        if not biases and isinstance(consumer.op, Add) and len(operands) <= _MOST_TERMS:
            return drawn, operands
        return drawn, ()

    def fold_number(self, node: Node, drawn: DrawnNode) -> tuple[DrawnNode, tuple[Operand, ...]]:
        """1 - x, x * w: the number or weight is drawn inside the operator; Σ x / n is a mean."""
        left, right = node.inputs
        total, factor = (left, right) if right in self.text else (right, left)
        terms = self.terms_of_mean(node, total, factor)
        if terms is not None:
            return replace(drawn, symbol="mean", operands=self.operands((terms,))), ()
        text = self.text[factor]
        symbol = f"{drawn.symbol} {text}" if factor is right else f"{text} {drawn.symbol}"
        return replace(drawn, symbol=symbol, operands=self.operands((total,))), ()

    def terms_of_mean(self, node: Node, total: Node, factor: Node) -> Node | None:
        """The x of Σ x · (1/n), or None if the node is something else."""
        match node.op, total, factor.op:
            case Multiply(), Node(op=Sum(), inputs=(x,)), Fill(number=share) if total.size and self.is_free(
                total
            ):
                return x if abs(share * x.size / total.size - 1) < 1e-6 else None
        return None


def _has_bias(operand: Operand) -> bool:
    return any(label.startswith("+") for label in operand.labels)
