"""Chart: a matplotlib figure whose files can be kept and compared, and which notebooks show."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

from matplotlib import rc_context, rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from viz.errors import by_matplotlib
from viz.files import write_file
from viz.notebook import bundle_of

__all__ = ["Chart"]

#: What matplotlib writes of the time of day into files.
_TIMES = {"svg": "Date", "svgz": "Date", "pdf": "CreationDate", "ps": "CreationDate", "eps": "CreationDate"}


class Chart(Figure):
    """A matplotlib Figure, with layout "constrained": saved twice, it is the same bytes.

    `.svg` is its text. It shows itself in notebooks, whatever back end matplotlib uses there.
    """

    def __init__(self, width: float, height: float) -> None:
        super().__init__(figsize=(width, height), layout="constrained")
        self._starts: dict[Axes, Bbox] = {}

    def savefig(self, fname: Any, **how: Any) -> None:
        """As any figure's; no time of day, and no random names, are written.

        A file is replaced only when the new one is complete; DrawingError if it cannot be, or cannot be drawn.
        """
        named = isinstance(fname, (str, os.PathLike))
        ending = how.get("format") or (Path(fname).suffix[1:] if named else "") or rcParams["savefig.format"]
        key = _TIMES.get(str(ending).lower())
        metadata = {**({key: None} if key else {}), **(how.pop("metadata", None) or {})}
        # The layout begins from where the axes are, and ends a rounding error elsewhere when it is made again.
        for axes in self.axes:
            axes.set_position(self._starts.setdefault(axes, axes.get_position(original=True).frozen()))
            axes.set_in_layout(True)  # which setting a position ends
        stream = io.BytesIO() if named else fname
        with by_matplotlib(), rc_context({"svg.hashsalt": "graphnet"}):
            super().savefig(stream, metadata=metadata, **({**how, "format": ending} if named else how))
        if named:
            path = Path(fname)
            whole = path if path.suffix or "format" in how else path.with_name(f"{path.name}.{ending}")
            write_file(whole, stream.getvalue())

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the picture, as the other pictures' `save` does; the suffix says how."""
        self.savefig(path)
        return Path(path)

    @property
    def svg(self) -> str:
        """The picture as SVG text."""
        stream = io.BytesIO()
        self.savefig(stream, format="svg")
        return stream.getvalue().decode("utf-8")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        text = repr(self)
        try:
            return bundle_of(self.svg, text)
        except Exception:  # a picture must never break the notebook that asks for a repr
            return {"text/plain": text}
