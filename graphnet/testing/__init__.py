"""The testing kit: hold your own op or graph to the laws in one line.

    gn.testing.check_op(MyOp(), array, array)
    gn.testing.check_graph([cost], inputs=[x, W])

laws     what must be true of every op, graph, pass and back end, each as one function
rows     a kernel of rows: its bounds, its memory, what it gives
kernel   an elementwise op's expression, read as Python
shrink   the smallest input that still breaks a law
check    the two functions above
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet.testing.check import check_graph, check_op
    from graphnet.testing.laws import TOLERANCES, LawError, require_same_in_any_order

__all__ = ["TOLERANCES", "LawError", "check_graph", "check_op", "require_same_in_any_order"]
