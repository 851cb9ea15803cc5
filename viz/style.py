"""Style: the legend of all pictures, in one place (Lynge 2016, chapter 3).

black square        static node: input data (blue rim), parameters, constants (dark grey), numbers
light grey square   label: an imaginary node, a name for the reader
circle, ellipse     operator, with its symbol
red                 the cost: a scalar at the root
blue edge           from raw input to the first operators
red edge            to an output
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["LIGHT", "EdgeRole", "Role", "Style"]


class Role(Enum):
    """What a drawn node is to the reader."""

    INPUT = "input"
    PARAMETER = "parameter"
    CONSTANT = "constant"
    LABEL = "label"
    OPERATOR = "operator"

    @property
    def is_square(self) -> bool:
        return self is not Role.OPERATOR


class EdgeRole(Enum):
    """What an edge is to the reader."""

    FROM_INPUT = "from input"
    TO_OUTPUT = "to output"
    INNER = "inner"


@dataclass(frozen=True)
class Style:
    """Colours and fonts. All colours are `#rrggbb`."""

    background: str = "#ffffff"
    static: str = "#111111"
    static_text: str = "#ffffff"
    constant: str = "#4d4d4d"
    label: str = "#e4e4e4"
    operator: str = "#ffffff"
    text: str = "#111111"
    line: str = "#333333"
    muted: str = "#8b9098"
    cost: str = "#c62828"
    cost_text: str = "#ffffff"
    input_edge: str = "#1f66c1"
    output_edge: str = "#c62828"
    inner_edge: str = "#555555"
    cluster: str = "#f5f6f8"
    cluster_line: str = "#c9cdd3"
    #: Where none of these is installed, DejaVu Sans is measured: it is wider, so text never overflows.
    font: str = "Helvetica,Arial,sans-serif"
    #: For letters that stand for quantities, as papers print them.
    math_font: str = "STIXGeneral,Times New Roman,Times,serif"
    font_size: int = 14
    small_size: int = 9
    edge_size: int = 13
    title_size: int = 11

    def fill(self, role: Role, is_cost: bool = False) -> str:
        """The colour inside a node."""
        if is_cost:
            return self.cost
        if role is Role.OPERATOR:
            return self.operator
        if role is Role.LABEL:
            return self.label
        return self.constant if role is Role.CONSTANT else self.static

    def rim(self, role: Role, is_cost: bool = False) -> str:
        """The colour of a node's outline."""
        if role is Role.INPUT:
            return self.input_edge
        return self.line if role is Role.OPERATOR and not is_cost else self.fill(role, is_cost)

    def ink(self, role: Role, is_cost: bool = False) -> str:
        """The colour of the text inside a node."""
        if is_cost:
            return self.cost_text
        return self.text if role in (Role.OPERATOR, Role.LABEL) else self.static_text

    def edge(self, role: EdgeRole) -> str:
        """The colour of an edge."""
        if role is EdgeRole.FROM_INPUT:
            return self.input_edge
        return self.output_edge if role is EdgeRole.TO_OUTPUT else self.inner_edge


LIGHT = Style()
