"""viz: pictures of graphs, charts of runs and colored text.

import viz

viz.draw(cost)                                       # a notebook shows it
viz.draw(cost, style="compact").save("cost.svg")     # .svg .png .pdf .dot .html .tex
viz.draw(cost, notes=viz.gradients(cost))            # or viz.values, viz.times, viz.units: notes on each node
viz.mirror(cost)                                     # forward and backward pass, side by side
viz.explore(cost)                                    # HTML page to browse and search a graph
viz.training_curve("run/history.jsonl").savefig("curve.png")
viz.flight_recorder("run.jsonl").savefig("run.png")  # second-order training, step by step
viz.animation({"video": v[:, 0]}).save("video.html")  # or .gif; viz.filmstrip shows frames side by side
viz.schedule_curve(rnn.Warmup(500).then(rnn.Cosine(20_000)))
print(viz.reading(rnn.read(network, text)))          # colored by the probability of each character
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from viz.animation import Animation, animation
    from viz.charts.arm import arm_movements, loss_by_calls
    from viz.charts.attention import attention_map
    from viz.charts.compare import best_setting, compare_runs
    from viz.charts.curves import training_curve
    from viz.charts.fields import receptive_fields
    from viz.charts.forecast import forecast
    from viz.charts.images import image_rows
    from viz.charts.motion import joint_curves
    from viz.charts.music import piano_roll
    from viz.charts.norms import gradient_by_distance, weight_norms
    from viz.charts.reading import cost_over_text
    from viz.charts.schedule import schedule_curve
    from viz.charts.second_order import flight_recorder
    from viz.charts.settings import compare_settings
    from viz.charts.solved import minibatches_and_failures
    from viz.charts.timelag import time_lag
    from viz.charts.video import filmstrip
    from viz.drawing.dot import to_dot
    from viz.drawing.draw import draw
    from viz.drawing.note import Notes
    from viz.drawing.render import Drawing
    from viz.errors import DrawingError
    from viz.explorer.explore import ExplorerPage, explore
    from viz.generation import generation
    from viz.mirror import mirror
    from viz.notes import changes, gradients, times, values
    from viz.pages import TextPage, reading, samples
    from viz.show import history_chart, mimebundle
    from viz.stages import dump, passes
    from viz.style import COLOUR_BLIND, DARK, LIGHT, Style
    from viz.text import coloured, coloured_html
    from viz.units import units
    from viz.walkthrough import Walkthrough, walkthrough

__all__ = [
    "COLOUR_BLIND",
    "DARK",
    "LIGHT",
    "Animation",
    "Drawing",
    "DrawingError",
    "ExplorerPage",
    "Notes",
    "Style",
    "TextPage",
    "Walkthrough",
    "animation",
    "arm_movements",
    "attention_map",
    "best_setting",
    "changes",
    "coloured",
    "coloured_html",
    "compare_runs",
    "compare_settings",
    "cost_over_text",
    "draw",
    "dump",
    "explore",
    "filmstrip",
    "flight_recorder",
    "forecast",
    "generation",
    "gradient_by_distance",
    "gradients",
    "history_chart",
    "image_rows",
    "joint_curves",
    "loss_by_calls",
    "mimebundle",
    "minibatches_and_failures",
    "mirror",
    "passes",
    "piano_roll",
    "reading",
    "receptive_fields",
    "samples",
    "schedule_curve",
    "time_lag",
    "times",
    "to_dot",
    "training_curve",
    "units",
    "values",
    "walkthrough",
    "weight_norms",
]  # fmt: skip
