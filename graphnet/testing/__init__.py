"""The testing kit: hold your own op or graph to the laws in one line.

    gn.testing.check_op(MyOp(), array, array)
    gn.testing.check_graph([cost], inputs=[x, W])

laws     what must be true of every op, graph, pass and back end, each as one function
declared what an op declares of itself
kernel   an elementwise op's expression, read as Python; a kernel of rows: its bounds, its memory, what it gives
check    the two functions above, and the smallest input that still breaks a law
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet.testing.check import check_graph, check_op
    from graphnet.testing.laws import TOLERANCES, LawError, require_same_in_any_order

__all__ = ["TOLERANCES", "LawError", "check_graph", "check_op", "require_same_in_any_order"]
