"""Color scales, and the text color for a background. All colors are `#rrggbb`."""

from __future__ import annotations

from collections.abc import Sequence


def between(stops: Sequence[str], place: float) -> str:
    """Color at a place in [0, 1] on a scale of evenly spaced stops; other places are clipped."""
    along = min(max(place, 0.0), 1.0) * (len(stops) - 1)
    left = min(int(along), len(stops) - 2)
    part = along - left
    mixed = (
        round(a + (b - a) * part)
        for a, b in zip(_channels(stops[left]), _channels(stops[left + 1]), strict=True)
    )
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def ink_on(colour: str, dark: str = "#000000", light: str = "#ffffff") -> str:
    """The one of two text colors with more contrast to a color. Source: WCAG 2.1, contrast ratio."""
    ground = _luminance(colour)

    def contrast(ink: str) -> float:
        a, b = sorted((_luminance(ink), ground))
        return (b + 0.05) / (a + 0.05)

    return max((dark, light), key=contrast)


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _luminance(colour: str) -> float:
    r, g, b = (
        c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4
        for c in (channel / 255 for channel in _channels(colour))
    )
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
