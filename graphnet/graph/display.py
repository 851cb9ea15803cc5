"""Notebooks show a picture of whatever can be drawn, where `viz` is installed, and text elsewhere."""

from __future__ import annotations

from typing import Any

__all__ = ["ShowsItself"]


class ShowsItself:
    """Gives an object that `viz` can show its picture in notebooks; never raises."""

    __slots__ = ()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        bundle = {"text/plain": repr(self)}
        try:
            # The one upward import: pictures are optional, so it is made late and may fail.
            import viz

            bundle.update(viz.mimebundle(self))
        except Exception:  # a picture must never break the notebook that asks for a repr
            pass
        return bundle
