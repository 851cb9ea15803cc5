"""Pictures for notebooks, scaled to the page."""

from __future__ import annotations

import base64
import re
from html import escape

_WIDTH = re.compile(r'<svg[^>]*? width="([\d.]+)(pt|px)?"')
_PIXELS_PER_POINT = 4 / 3
#: Minimum scale of a wide picture; below, the page scrolls.
_LEAST = 0.5


def bundle_of(svg: str, text: str) -> dict[str, str]:
    """MIME type -> content of a picture: a line of text, SVG, and HTML that scales to the width of the page.

    Notebooks show SVG at its own size, and clip wide pictures. They prefer HTML, and show an `<img>` also in untrusted
    notebooks, which block scripts and SVG.
    """
    found = _WIDTH.search(svg)
    least = float(found[1]) * (_PIXELS_PER_POINT if found[2] == "pt" else 1.0) * _LEAST if found else 0.0
    data = base64.b64encode(svg.encode()).decode()
    page = (
        f'<img alt="{escape(text[:200])}" style="max-width:max(100%, {least:.0f}px);height:auto" '
        f'src="data:image/svg+xml;base64,{data}">'
    )
    return {"text/plain": text, "text/html": page, "image/svg+xml": svg}
