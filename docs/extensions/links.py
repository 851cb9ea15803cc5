"""Links to public names: to `gn.gradient` in code anywhere, to `Function.profile`, to gn.gradient in docstrings."""

from __future__ import annotations

import importlib
import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform

from extensions.names import PACKAGES, path_of, public_path

_DOTTED = re.compile(r"\b(?:gn|rnn|viz|graphnet|graphnet_rnn)(?:\.[A-Za-z_]\w*)+")


class LinkNames(SphinxTransform):
    """Public names in code, and those with a prefix in docstrings' prose, become links."""

    default_priority = 740

    def apply(self, **kwargs: Any) -> None:
        for literal in list(self.document.findall(nodes.literal)):
            if isinstance(literal.parent, (nodes.reference, addnodes.pending_xref, nodes.title)):
                continue
            written = re.match(r"[A-Za-z_][\w.]*\w", literal.astext())
            path = public_path(written[0]) if written else None
            if path and not _is_inside_entry(literal, path):
                literal.parent.replace(literal, _link(path, literal))
        for text in list(self.document.findall(nodes.Text)):
            written = text.astext()  # without the marks of backslashes
            if _DOTTED.search(written) and isinstance(text.parent, nodes.paragraph) and _in_api(text):
                text.parent.replace(text, _linked(written))


def _linked(text: str) -> list[nodes.Node]:
    parts: list[nodes.Node] = []
    end = 0
    for found in _DOTTED.finditer(text):
        path = public_path(found[0])
        if path is None:
            continue
        parts += [nodes.Text(text[end : found.start()]), _link(path, nodes.literal("", found[0]))]
        end = found.end()
    return [*parts, nodes.Text(text[end:])]


def _link(path: str, content: nodes.literal) -> addnodes.pending_xref:
    return addnodes.pending_xref(
        "",
        content.deepcopy(),
        refdomain="py",
        reftype="obj",
        reftarget=path,
        refexplicit=True,
        refwarn=True,
    )


def _in_api(node: nodes.Node) -> bool:
    while node is not None:
        if isinstance(node, addnodes.desc_content):
            return True
        node = node.parent
    return False


def _is_inside_entry(node: nodes.Node, path: str) -> bool:
    """True if the node is inside the entry of `path` itself, where a link would be useless."""
    while node is not None:
        if isinstance(node, addnodes.desc):
            signature = node.next_node(addnodes.desc_signature)
            if signature is not None and path in signature.get("ids", ()):
                return True
        node = node.parent
    return False


def resolve(app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.Element) -> Any:
    """Types in signatures: public ones by the path where they are documented, others as plain text."""
    if node.get("refdomain") != "py" or node.get("refwarn"):
        return None
    target = node["reftarget"]
    module, _, name = target.rpartition(".")
    value = None
    if module.split(".")[0] in PACKAGES:
        try:
            value = getattr(importlib.import_module(module), name, None)
        except ImportError:
            return None
        if value is None:
            return None
    path = path_of(value) if value is not None else None
    if path is None:
        return content
    domain = env.domains.python_domain
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", path, node, content)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_transform(LinkNames)
    app.connect("missing-reference", resolve)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
