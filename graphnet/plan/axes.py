"""Axes of a loop: the strides of what it touches, and which axes run as one."""

from __future__ import annotations

from collections.abc import Sequence

from graphnet.plan.instructions import Load

__all__ = ["joined", "strides_over"]


def strides_over(load: Load, axes: int) -> list[int | None]:
    """The operand's strides over the loop's axes; a lookup has none on the axis that it is no index of."""
    if load.kind == "plain":
        assert load.data is not None
        return list(load.data.strides)
    assert load.at is not None
    if load.kind == "columns":
        assert load.data is not None
        return [load.data.strides[0], None]
    return [*load.at.strides, *[None] * (axes - len(load.at.strides))]


def joined(
    axes: Sequence[int], shape: Sequence[int], tables: Sequence[Sequence[int | None]]
) -> list[tuple[int, tuple[int | None, ...]]]:
    """(size, stride of each operand) of the axes, those of size 1 dropped, neighbours joined."""
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
