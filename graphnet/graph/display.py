"""Pictures in notebooks of objects that `viz` can draw; text if `viz` is not installed."""

from __future__ import annotations

from typing import Any


class ShowsItself:
    """Mixin that shows a picture by `viz` in notebooks; never raises."""

    __slots__ = ()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        bundle = {"text/plain": repr(self)}
        try:
            # The only upward import: pictures are optional, so it is late and may fail.
            import viz

            bundle.update(viz.mimebundle(self))
        except Exception:  # a picture must never raise in a notebook
            pass
        return bundle
