"""Axes of a loop: the strides of its operands, and the axes that run as one."""

from __future__ import annotations

from collections.abc import Sequence

from graphnet.plan.instructions import Load, Loop

#: Strides of all operands along one axis; None for an operand without this axis.
Strides = Sequence[int | None]


def operand_strides(loop: Loop) -> list[list[int | None]]:
    """For each load, store and reduction, in the order of their numbers, its strides over the loop's axes."""
    axes = len(loop.shape)
    found = [_of_load(load, axes) for load in loop.loads]
    found += [list(view.strides) for _, view in loop.stores]
    for reduction in loop.reductions:
        kept = iter(reduction.view.strides)
        found.append([0 if axis in loop.reduced else next(kept) for axis in range(axes)])
    return found


def _of_load(load: Load, axes: int) -> list[int | None]:
    """Strides of a load; None on the axis of a lookup that its index does not have."""
    if load.kind == "plain":
        assert load.data is not None
        return list(load.data.strides)
    assert load.at is not None
    if load.kind == "columns":
        assert load.data is not None
        return [load.data.strides[0], None]
    return [*load.at.strides, *[None] * (axes - len(load.at.strides))]


def is_along_reduced(loop: Loop, kept: Strides, reduced: Strides) -> bool:
    """True if at least as many operands are contiguous along the last reduced axis as along the last kept axis."""
    loads = range(len(loop.loads))
    return sum(reduced[k] in (1, None) for k in loads) >= sum(kept[k] == 1 for k in loads)


def joined(
    axes: Sequence[int], shape: Sequence[int], tables: Sequence[Sequence[int | None]]
) -> list[tuple[int, tuple[int | None, ...]]]:
    """(size, stride of each operand) of the axes, without those of size 1; adjacent axes are merged."""
    found: list[tuple[int, tuple[int | None, ...]]] = []
    for axis in axes:
        size = shape[axis]
        strides = tuple(table[axis] for table in tables)
        if size == 1 and None not in strides:
            continue
        if found and None not in strides and None not in found[-1][1]:
            outer_size, outer = found[-1]
            if all(o == s * size for o, s in zip(outer, strides, strict=True)):  # type: ignore[operator]
                found[-1] = (outer_size * size, strides)
                continue
        found.append((size, strides))
    return found
