"""How large a graph would become, asked before it is made: nodes take memory and time as data do."""

from __future__ import annotations

import warnings

from graphnet.system.memory import readable_bytes, require_memory

__all__ = ["require_equations", "require_nodes"]

#: Of each node of an unrolled network, from its making until it is compiled with its gradient (LSTM over 2,000 steps).
NODE_BYTES, NODE_SECONDS = 5_000, 150e-6
#: What the least equation of a cell makes.
EQUATION_NODES = 4
#: With more nodes than this a wait of half a minute is announced.
MANY = 200_000


def require_nodes(count: int, what: str, remedy: str) -> None:
    """NotEnoughMemoryError for more nodes than there is memory for; says how long many of them take (UserWarning)."""
    if count <= MANY:
        return
    nodes = f"{what} makes about {count:,} nodes, which"
    require_memory(count * NODE_BYTES, nodes, remedy)
    warnings.warn(
        f"{nodes} take {readable_bytes(count * NODE_BYTES)} and some {count * NODE_SECONDS:,.0f} s to compile; "
        f"{remedy}",
        stacklevel=3,
    )


def require_equations(argument: str, count: int, each: int = 1) -> None:
    """The same for a cell, before it is traced: an argument asks for `count` times `each` equations."""
    nodes, name = EQUATION_NODES * each * count, argument.rsplit(maxsplit=1)[-1]
    require_nodes(nodes, f"{argument} = {count:,}", f"a smaller {name} takes less")
