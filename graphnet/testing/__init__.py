"""Testing tools: check your own op or graph in one line.

    gn.testing.check_op(MyOp(), array, array)
    gn.testing.check_graph([cost], inputs=[x, W])

laws      laws that hold for every op, graph, pass and back end, each as one function
declared  checks of the properties that an op declares
kernel    checks of kernels: an elementwise op's expression, run as Python; a rowwise kernel's bounds and memory
check     the two functions above, and the smallest input that still breaks a law
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet.testing.check import check_graph as check_graph, check_op as check_op
    from graphnet.testing.laws import (
        TOLERANCES as TOLERANCES,
        LawError as LawError,
        require_same_in_any_order as require_same_in_any_order,
    )
