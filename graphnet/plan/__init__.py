"""Lowering of graphs, independent of the back end: order, lifetimes, memory layout, instructions.

order         execution order of the nodes, last use of each value
views         buffers and views into them
instructions  instructions of a compiled back end: fused kernels, reductions, products, ...
placement     values that are written directly into the array that joins them
chunks        reductions of a long vector, one chunk at a time
updates       in-place updates of inputs
units         units of work, and their order
lowering      from a graph to instructions
transfers     transfers between two memories, in one piece
listing       instructions as text
axes          axes of a loop that run as one
arena         lifetimes of buffers; one block of memory for all, reused as they die
"""

from graphnet.plan.listing import listing
from graphnet.plan.lowering import lower
from graphnet.plan.order import RunMemory, RunPlan, make_plan

__all__ = ["RunMemory", "RunPlan", "listing", "lower", "make_plan"]
