"""Chart: a matplotlib figure with reproducible files."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

from graphnet.settings import shown
from viz.errors import DrawingError, by_matplotlib
from viz.files import write_file
from viz.notebook import bundle_of

try:
    from matplotlib import rc_context, rcParams
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox
except ModuleNotFoundError as error:
    raise DrawingError("charts need matplotlib, which is not installed: pip install matplotlib") from error

#: Metadata fields with the time of day in files of matplotlib.
_TIMES = {"svg": "Date", "svgz": "Date", "pdf": "CreationDate", "ps": "CreationDate", "eps": "CreationDate"}


class Chart(Figure):
    """Matplotlib Figure with layout "constrained"; saving it twice gives the same bytes.

    `.svg` is its text. A notebook shows it with any back end of matplotlib.
    """

    def __init__(self, width: float, height: float) -> None:
        super().__init__(figsize=(width, height), layout="constrained")
        self._starts: dict[Axes, Bbox] = {}

    def savefig(self, fname: Any, **how: Any) -> None:
        """Saves the figure as matplotlib does, without the time of day and random names.

        An existing file is replaced when the new one is complete. Raises DrawingError if the figure cannot be drawn or
        written.
        """
        named = isinstance(fname, (str, os.PathLike))
        if not (Path(fname).name if named else hasattr(fname, "write")):
            raise DrawingError(f"path must be the name of a file, or a file object, not {shown(fname)}.")
        ending = how.get("format") or (Path(fname).suffix[1:] if named else "") or rcParams["savefig.format"]
        known = self.canvas.get_supported_filetypes()
        if str(ending).lower() not in known:
            listed = ", ".join(f".{each}" for each in sorted(known))
            raise DrawingError(f"path {shown(str(fname), 200)}: the suffix must be one of {listed}.")
        key = _TIMES.get(str(ending).lower())
        metadata = {**({key: None} if key else {}), **(how.pop("metadata", None) or {})}
        # A layout starts from the current axes; when it is repeated, they move by a rounding error.
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
        """Writes the figure in the format of the suffix; returns the path."""
        self.savefig(path)
        return Path(path)

    @property
    def svg(self) -> str:
        """SVG text of the figure."""
        stream = io.BytesIO()
        self.savefig(stream, format="svg")
        return stream.getvalue().decode("utf-8")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        text = repr(self)
        try:
            return bundle_of(self.svg, text)
        except Exception:  # a picture must never raise in a notebook
            return {"text/plain": text}
