"""Writes a lecture of 20 slides on recurrent networks as graphs, one HTML file for any browser.

    python docs/lecture.py lecture.html

Keys: right and left arrow (also space and click) for the next and previous step, PageDown and PageUp for slides. Print
the page to save it as PDF. Change or copy `slides` for your own lecture.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
import viz
from graphnet.graph.node import Node
from graphnet.system.streams import prepare_streams
from graphnet.system.text import filled

ELMAN = (
    "<i>h</i><sub>t</sub> = tanh(<i>x</i><sub>t</sub> <i>W</i><sub>xh</sub> + <i>h</i><sub>t−1</sub> "
    "<i>W</i><sub>hh</sub> + <i>b</i><sub>h</sub>). Weights are on edges, biases in circles."
)
TITLE = "Recurrent networks as graphs of nodes"


@dataclass
class Slide:
    """A title, a sentence (HTML), and pictures side by side. animated: shapes appear one after the other."""

    title: str
    text: str
    pictures: tuple[viz.Drawing, ...]
    animated: bool = False

    @property
    def steps(self) -> list[tuple[str, str]]:
        """(key of a shape, caption) in order of execution."""
        pictures = self.pictures if self.animated else ()
        return [step for drawing in pictures for step in viz.walkthrough(drawing).steps]


def regression() -> Node:
    x, t = gn.input((4, 3), name="x"), gn.input((4, 2), name="t")
    W = gn.parameter(np.random.default_rng(0).standard_normal((3, 2)).astype("float32"), name="W")
    b = gn.parameter(np.zeros(2, "float32"), name="b")
    y = gn.label(gn.tanh(x @ W + b), "y")
    return gn.mean(gn.squared_error(y, t))


def network(*cells: rnn.Cell, **settings: bool) -> rnn.Network:
    return rnn.Network(list(cells), inputs=5, outputs=5, **settings)


def fading(cell: rnn.Cell) -> viz.Drawing:
    """Gradient of the cost of the last step with respect to all steps."""
    cost = network(cell).unroll(time=8, batch=2, unscored=7).cost
    return viz.draw(cost, closed=True, notes=viz.gradients(cost))


def slides() -> Iterator[Slide]:
    cost = regression()
    yield Slide(TITLE, "Each operator is a node with three rules: forward, backward, and R-operator.",
                (viz.draw(rnn.LSTM, style="compact"),))  # fmt: skip
    yield Slide("A computation is a graph", "Squares are data and weights, circles are operators, the cost is red.",
                (viz.draw(cost),), animated=True)  # fmt: skip
    yield Slide("Values flow forward", "Below each name: shape; minimum, mean and maximum; heat map.",
                (viz.draw(cost, notes=viz.values(cost)),))  # fmt: skip
    yield Slide("Gradients flow backward", "Each operator's backward rule turns ∂cost/∂output into ∂cost/∂inputs.",
                (viz.mirror(cost, values=False, style="full"),), animated=True)  # fmt: skip
    along = {node: np.ones(node.shape) for node in gn.Graph(cost).order if node.op.is_parameter}
    yield Slide("The R-operator goes forward", "Derivatives of all nodes along one direction of the weights.",
                (viz.mirror(cost, along=along, values=False, style="full"),), animated=True)  # fmt: skip
    yield Slide("The norm of each gradient", "The color shows ‖∂cost/∂node‖.",
                (viz.draw(cost, notes=viz.gradients(cost)),))  # fmt: skip
    yield Slide("A recurrent network, unrolled in time", "Every step has the same weights. h carries the past.",
                (viz.draw(network(rnn.Elman(8)).unroll(time=4, batch=2)),))  # fmt: skip
    yield Slide("The Elman cell", ELMAN,
                (viz.draw(rnn.Elman, style="compact"),), animated=True)  # fmt: skip
    pair = network(rnn.Elman(8)).unroll(time=2, batch=2)
    yield Slide("Inside of two time steps", "The state of the first step is an input of the second.",
                (viz.draw(list(pair.final), style="compact", closed=False),))  # fmt: skip
    yield Slide("Vanishing gradients", "The cost reads step 8 only. Its gradient fades with the distance in time.",
                (fading(rnn.Elman(8)),))  # fmt: skip
    yield Slide("Long short-term memory", "The state c is added to and gated, not transformed (Hochreiter 1997).",
                (viz.draw(rnn.LSTM, style="compact"),), animated=True)  # fmt: skip
    yield Slide(
        "The LSTM's gradient lasts longer", "The same cost as before, with an LSTM.", (fading(rnn.LSTM(8)),)
    )
    yield Slide("Gated recurrent unit", "The new state is an average of the old one and a candidate (Cho 2014).",
                (viz.draw(rnn.GRU, style="compact"),), animated=True)  # fmt: skip
    yield Slide("Multiplicative RNN", "The input chooses the transition between states (Sutskever 2011).",
                (viz.draw(rnn.MRNN, style="compact"),), animated=True)  # fmt: skip
    yield Slide("Recurrent highway network", "Several layers within one time step (Zilly 2017).",
                (viz.draw(rnn.RHN, style="compact"),))  # fmt: skip
    yield Slide("Layers and skip connections", "Each layer reads the input and feeds the output.",
                (viz.draw(network(rnn.GRU(8), rnn.GRU(8), skip=True).unroll(time=3, batch=2)),))  # fmt: skip
    yield Slide("Both directions", "One layer reads from left to right, the other from right to left.",
                (viz.draw(network(rnn.Bidirectional(rnn.LSTM(8))).unroll(time=4, batch=2)),))  # fmt: skip
    translator = rnn.Seq2Seq.of(rnn.GRU(8), inputs=5, outputs=5, longest=(2, 2), attention=None)
    yield Slide("Encoder and decoder", "The decoder starts from the last state of the encoder.",
                (viz.draw(translator, closed=True),))  # fmt: skip
    yield Slide("Generating text", "Each prediction, turned into a symbol by χ, is the next input.",
                (viz.generation(network(rnn.GRU(8))),))  # fmt: skip
    yield Slide("All of backpropagation through time", "Forward pass on the left, backward pass on the right.",
                (viz.mirror(network(rnn.LSTM(8)).unroll(time=3, batch=2).cost, values=False),),
                animated=True)  # fmt: skip
    x, W = gn.input((4, 3), name="x"), gn.parameter(np.ones((3, 2), "float32"), name="W")
    twice = gn.mean(gn.tanh(x @ W) * gn.sigmoid(x @ W))
    merge = next(stage for stage in viz.passes(gn.compile(twice)) if stage.name == "merge")
    yield Slide("The compiler simplifies graphs", "The pass <i>merge</i> computes equal nodes once.",
                (merge.before, merge.after))  # fmt: skip


def html(slide: Slide, number: int, count: int) -> str:
    steps = escape(json.dumps(slide.steps, ensure_ascii=False))
    pictures = "".join(drawing.svg for drawing in slide.pictures)
    return (
        f'<section data-steps="{steps}"><h1>{escape(slide.title)}</h1><p>{slide.text}</p>'
        f'<div class="pictures">{pictures}</div>'
        f'<footer><span class="caption"></span><span>{number} of {count}</span></footer></section>'
    )


def page() -> str:
    template = Path(__file__).with_suffix(".html").read_text(encoding="utf-8")
    every = list(slides())
    texts = [html(slide, number, len(every)) for number, slide in enumerate(every, 1)]
    return filled(template, {"title": TITLE, "slides": "\n".join(texts)})


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(str(__doc__).strip())
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
    print(f"wrote {sys.argv[1]}")


if __name__ == "__main__":
    prepare_streams()
    main()
