"""Formulas without scripts from elsewhere: indices in text, and LaTeX as MathML.

Formulas are written in Unicode here, with _ and ^ for indices: W_xh, h^{l-1}_t. In docstrings' first lines and in the
equations of architectures every index is set; in prose only those of single letters, so that `squared_error` stays.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

_INDEX = r"(?:\{(?P<braced>(?:[^{}]|\{[^{}]*\})*)\}|(?P<plain>%s))"
#: After a formula's letter, word or bracket.
INDEX = re.compile(r"(?P<mark>[_^])" + _INDEX % r"\([A-Za-z]\)|[A-Za-z0-9·]+")
#: In prose: after a single letter, perhaps primed, at most four characters, and no word goes on after them.
_PROSE = re.compile(
    r"(?<![\w.])(?P<base>[^\W\d_][̃̂̄]?['’]?[\]})]?)(?P<mark>[_^])" + _INDEX % r"[A-Za-z0-9·]{1,4}(?![\w(])"
)
#: What the converter did not understand, in what it made.
_UNKNOWN = re.compile(r">\s*(\\[A-Za-z]+)")
_SMALL = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
#: Where text is code or belongs to the mathematics renderer.
_LEFT_ALONE = (nodes.literal, nodes.literal_block, nodes.raw, nodes.math, nodes.math_block, nodes.comment)


def indexed(text: str, pattern: re.Pattern[str] = INDEX) -> Iterator[nodes.Node]:
    """The text with subscripts and superscripts, as nodes."""
    end = 0
    for found in pattern.finditer(text):
        base = found["base"] if "base" in pattern.groupindex else ""
        before = text[end : found.start()] + base
        if before:
            yield nodes.Text(before)
        index = found["braced"] if found["braced"] is not None else found["plain"]
        # An index of an index, as in π_{i_0}: small digits, or brackets' content as it is.
        index = re.sub(r"_\{?(\d+)\}?", lambda inner: inner[1].translate(_SMALL), index)
        index = re.sub(r"_\{([^{}]*)\}", r"\1", index).replace("-", "−")
        make = nodes.subscript if found["mark"] == "_" else nodes.superscript
        yield make("", index)
        end = found.end()
    if text[end:]:
        yield nodes.Text(text[end:])


class SetIndices(SphinxTransform):
    """Indices in all text that is no code."""

    default_priority = 750  # after references, substitutions and the architectures' sections

    def apply(self, **kwargs: Any) -> None:
        for text in list(self.document.findall(nodes.Text)):
            if "_" not in text and "^" not in text:
                continue
            written = text.astext()  # without the marks of backslashes
            if _inside(text, _LEFT_ALONE) or _in_signature(text) or isinstance(text.parent, nodes.subscript):
                continue
            pattern = INDEX if _in_formula(text) else _PROSE
            parts = list(indexed(written, pattern))
            if len(parts) > 1 or not isinstance(parts[0], nodes.Text):
                text.parent.replace(text, parts)


def _ancestors(node: nodes.Node) -> Iterator[nodes.Element]:
    while node.parent is not None:
        node = node.parent
        yield node


def _inside(node: nodes.Node, kinds: tuple[type[nodes.Node], ...]) -> bool:
    return any(isinstance(a, kinds) for a in _ancestors(node))


def _in_signature(node: nodes.Node) -> bool:
    return any(
        type(a).__name__.startswith("desc_") and type(a).__name__ != "desc_content" for a in _nearest(node)
    )


def _nearest(node: nodes.Node) -> Iterator[nodes.Element]:
    """Ancestors up to the description that the node belongs to."""
    for ancestor in _ancestors(node):
        yield ancestor
        if type(ancestor).__name__ == "desc_content":
            return


def _in_formula(node: nodes.Node) -> bool:
    return any("formula" in a.get("classes", ()) for a in _ancestors(node))


def mathml(latex: str, display: str = "inline") -> str:
    """LaTeX as a <math> element. ValueError for what it cannot be made of."""
    from latex2mathml.converter import convert

    # The converter knows no `aligned`; two columns without space between them are the same.
    text = latex.replace(r"\begin{aligned}", r"\begin{array}{rl}").replace(r"\end{aligned}", r"\end{array}")
    try:
        made = str(convert(text, display=display))
    except Exception as error:
        raise ValueError(
            f"no MathML can be made of {latex!r}: {type(error).__name__} {error}".rstrip()
        ) from error
    if unknown := _UNKNOWN.search(made):
        raise ValueError(f"no MathML can be made of {unknown[1]} in {latex!r}: write it without")
    return made


def _written(node: nodes.Element, display: str) -> str:
    try:
        return mathml(node.astext(), display)
    except ValueError as error:
        logging.getLogger(__name__).warning(str(error), location=node)
        return f"<code>{html.escape(node.astext())}</code>"


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(_written(node, "inline"))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{_written(node, "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_transform(SetIndices)
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
