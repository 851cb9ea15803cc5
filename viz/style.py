"""Style: colors and fonts of all pictures (Lynge 2016, chapter 3).

black square        leaf: input data (blue rim), parameters, constants (dark gray), numbers
light gray square   label: an imaginary node, a name for the reader
circle, ellipse     operator, with its symbol
red                 the cost: a scalar at the root
blue edge           from raw input to the first operators
red edge            to an output
green edge          from a prediction to the next input of a network that generates
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields
from enum import Enum

from viz.colours import between
from viz.errors import DrawingError, seconds_of


class Role(Enum):
    """Kind of a drawn node."""

    INPUT = "input"
    PARAMETER = "parameter"
    CONSTANT = "constant"
    LABEL = "label"
    OPERATOR = "operator"

    @property
    def is_square(self) -> bool:
        return self is not Role.OPERATOR


class EdgeRole(Enum):
    """Kind of a drawn edge."""

    FROM_INPUT = "from input"
    TO_OUTPUT = "to output"
    GENERATED = "generated"
    INNER = "inner"


def _is_color(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch("#[0-9a-fA-F]{6}", value) is not None


@dataclass(frozen=True)
class Style:
    """Colors, fonts and sizes of a picture; viz.LIGHT, viz.DARK and viz.COLOUR_BLIND are ready-made.

    A color is `#rrggbb`, or "transparent" except in scales.
    background: of the picture. leaf, constant, label, operator, cost: inside nodes of these kinds; leaf also of inputs
    and parameters. leaf_text, text, cost_text: letters in leaves, other nodes and the cost. line: outlines. muted: less
    important text. input_edge, output_edge, generated_edge, inner_edge: edges from inputs, to outputs, from predictions
    to next inputs, and all others.
    cluster, cluster_line: boxes around layers and time steps, and their outlines. sequence: colors from small to large
    numbers (norms, times). diverging: colors from -1 to 1 (values). new, gone: nodes that a compiler pass adds or
    removes. font, math_font: fonts of words and of symbols. font_size, small_size, edge_size, title_size: points, of
    symbols, small print, edges and titles.
    role, is_cost, in methods: kind of the node or edge, and True for the cost.
    x: number in [-1, 1]. Raises DrawingError for other colors, fonts and sizes.

    >>> style = viz.Style(background="#eeeeee", font_size=12)
    >>> style.background, style.heat(0.0), viz.DARK.background
    ('#eeeeee', '#fffaf3', '#15181d')
    >>> role = viz.style.Role.INPUT
    >>> style.fill(role), style.ink(role), style.rim(role)
    ('#111111', '#ffffff', '#1f66c1')
    >>> style.signed(-1.0), style.edge(viz.style.EdgeRole.TO_OUTPUT)
    ('#2166ac', '#c62828')
    """

    background: str = "#ffffff"
    leaf: str = "#111111"
    leaf_text: str = "#ffffff"
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
    generated_edge: str = "#2e8b3d"
    inner_edge: str = "#555555"
    cluster: str = "#f5f6f8"
    cluster_line: str = "#c9cdd3"
    #: From small to large: norms, times. Lightness alone shows the order.
    sequence: tuple[str, ...] = ("#fffaf3", "#fdae6b", "#a63603")
    #: From negative to positive: values.
    diverging: tuple[str, ...] = ("#2166ac", "#f7f7f7", "#b2182b")
    #: Nodes that a compiler pass adds, and nodes that it removes.
    new: str = "#bfe6c4"
    gone: str = "#f6c3c0"
    #: Without these fonts, text is measured in DejaVu Sans, which is wider, so text never overflows.
    font: str = "Helvetica,Arial,sans-serif"
    #: For symbols of quantities, as in papers.
    math_font: str = "STIXGeneral,Times New Roman,Times,serif"
    font_size: int = 14
    small_size: int = 11
    edge_size: int = 13
    title_size: int = 11

    def __post_init__(self) -> None:
        for setting in fields(self):
            value, name = getattr(self, setting.name), f"Style: {setting.name}"
            if setting.name.endswith("_size"):
                seconds_of(name, value)
            elif setting.name.endswith("font"):
                if not isinstance(value, str) or set('<>&"') & set(value):
                    raise DrawingError(f"{name} must be the names of fonts, not {value!r:.80}.")
            elif setting.name in ("sequence", "diverging"):
                if not isinstance(value, tuple) or len(value) < 2 or not all(map(_is_color, value)):
                    raise DrawingError(f"{name} must be a tuple of two or more colors, not {value!r:.80}.")
            elif not _is_color(value) and value != "transparent":
                raise DrawingError(f"{name} must be a color such as '#1f66c1', not {value!r:.80}.")

    def fill(self, role: Role, is_cost: bool = False) -> str:
        """Returns the color inside a node."""
        if is_cost:
            return self.cost
        if role is Role.OPERATOR:
            return self.operator
        if role is Role.LABEL:
            return self.label
        return self.constant if role is Role.CONSTANT else self.leaf

    def rim(self, role: Role, is_cost: bool = False) -> str:
        """Returns the color of the outline of a node."""
        if role is Role.INPUT:
            return self.input_edge
        return self.line if role is Role.OPERATOR and not is_cost else self.fill(role, is_cost)

    def ink(self, role: Role, is_cost: bool = False) -> str:
        """Returns the color of the text in a node."""
        if is_cost:
            return self.cost_text
        return self.text if role in (Role.OPERATOR, Role.LABEL) else self.leaf_text

    def heat(self, place: float) -> str:
        """Returns the color of `place` in [0, 1] on the scale `sequence`."""
        return between(self.sequence, place)

    def signed(self, x: float) -> str:
        """Returns the color of x on the scale `diverging`; `muted` for NaN."""
        return self.muted if math.isnan(x) else between(self.diverging, (x + 1) / 2)

    def edge(self, role: EdgeRole) -> str:
        """Returns the color of an edge."""
        if role is EdgeRole.FROM_INPUT:
            return self.input_edge
        if role is EdgeRole.GENERATED:
            return self.generated_edge
        return self.output_edge if role is EdgeRole.TO_OUTPUT else self.inner_edge


LIGHT = Style()

#: Light on dark, with light squares of leaves.
DARK = Style(
    background="#15181d",
    leaf="#f0f0f0",
    leaf_text="#111111",
    constant="#b4b8bf",
    label="#3b4049",
    operator="#22272f",
    text="#eceff3",
    line="#aab1bc",
    muted="#949ba6",
    cost="#e5554f",
    cost_text="#111111",
    input_edge="#6aaeff",
    output_edge="#ff7a72",
    generated_edge="#63cf77",
    inner_edge="#98a0ac",
    cluster="#1d2128",
    cluster_line="#3a404a",
    sequence=("#22272f", "#b4532a", "#ffe3a6"),
    diverging=("#63aef5", "#22272f", "#ff8468"),
    new="#245c34",
    gone="#6d2b2a",
)

#: Okabe and Ito's blue, vermilion and green, for all kinds of color vision.
COLOUR_BLIND = Style(
    cost="#d55e00",
    cost_text="#111111",
    input_edge="#0072b2",
    output_edge="#d55e00",
    generated_edge="#009e73",
    sequence=("#fdf9ee", "#f0a830", "#6b3d00"),
    diverging=("#0072b2", "#f7f7f7", "#d55e00"),
    new="#a9d8f5",
    gone="#f9cfa6",
)

THEMES = {"light": LIGHT, "dark": DARK, "colour-blind": COLOUR_BLIND}

#: Name of a theme, or a Style.
Theme = Style | str


def style_of(theme: Theme) -> Style:
    """Style of a theme; raises DrawingError for an unknown name."""
    if isinstance(theme, Style):
        return theme
    if not isinstance(theme, str) or theme not in THEMES:
        raise DrawingError(f"theme must be {', '.join(map(repr, THEMES))}, or a viz.Style, not {theme!r}.")
    return THEMES[theme]
