"""From a graph to what a machine has to do: order, lifetimes, places in memory, instructions. No back end is in it.

order         the nodes as they run, when each value is last read
views         where a value lies
instructions  what a compiled back end does: fused kernels, reductions, products, ...
placement     which values are written straight into the array that joins them
chunks        what a long vector comes to, a chunk at a time
updates       new values of inputs, written where these lie
units         what runs as a whole, and in which order
lowering      from a graph to instructions
transfers     what passes between two memories, in one piece
listing       instructions as text
axes          which axes of a loop run as one
arena         from when to when buffers are needed; one piece of memory for all, reused as they die
"""

from graphnet.plan.listing import listing
from graphnet.plan.lowering import lower
from graphnet.plan.order import RunMemory, RunPlan, make_plan

__all__ = ["RunMemory", "RunPlan", "listing", "lower", "make_plan"]
