"""Every architecture: rows of the tables of docs/architectures.md as sections with formula, source, size and picture.

The page itself stays a table, which is what one wants of it elsewhere; here pictures have the width of the page, and
each architecture an address.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

_COLUMNS = ["architecture", "equation", "source", "parameters", "diagram"]


class Sections(SphinxTransform):
    default_priority = 700  # before links and indices are set

    def apply(self, **kwargs: Any) -> None:
        if self.env.docname != "architectures":
            return
        for table in list(self.document.findall(nodes.table)):
            head = [entry.astext() for entry in table.next_node(nodes.thead).findall(nodes.entry)]
            if head != _COLUMNS:
                continue
            section, place = table.parent, table.parent.index(table)
            rows = [self._section(row) for row in table.next_node(nodes.tbody).findall(nodes.row)]
            # What stands behind the table would belong to the last architecture: it goes before the first.
            after = section.children[place + 1 :]
            section.children[place:] = []
            section.extend([*after, *rows])

    def _section(self, row: nodes.row) -> nodes.section:
        architecture, equation, source, parameters, diagram = row.children
        name = architecture.next_node(nodes.strong).astext()
        call = architecture.next_node(nodes.literal)
        identity = nodes.make_id(name)
        made = nodes.section(
            "", nodes.title("", name), ids=[identity], names=[nodes.fully_normalize_name(name)]
        )
        made.document = self.document
        self.document.note_implicit_target(made)
        formula = nodes.paragraph("", "", *_content(equation), classes=["formula"])
        size = (
            [nodes.Text("  ·  " + parameters.astext() + " parameters")] if parameters.astext() != "0" else []
        )
        facts = nodes.paragraph("", "", _made(call), *size, classes=["facts"])
        made += [formula, facts]
        if source.astext():
            made += nodes.paragraph("", "Source: ", *_content(source), classes=["source"])
        for image in diagram.findall(nodes.image):
            shown = image.deepcopy()
            shown["width"] = "100%"  # Sphinx then links it to the file; the style sheet lets it be smaller
            made += nodes.paragraph("", "", shown, classes=["picture"])
        return made


def _made(call: nodes.literal) -> nodes.literal:
    """`LSTM(units=128)` as one writes it."""
    text = call.astext()
    return nodes.literal("", text if text.startswith("rnn.") else f"rnn.{text}")


def _content(entry: nodes.entry) -> list[nodes.Node]:
    return [child for paragraph in entry.findall(nodes.paragraph) for child in paragraph.children]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_transform(Sections)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
