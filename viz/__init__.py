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
    from viz.animation import Animation as Animation, animation as animation
    from viz.charts.arm import arm_movements as arm_movements, loss_by_calls as loss_by_calls
    from viz.charts.attention import attention_map as attention_map
    from viz.charts.compare import best_setting as best_setting, compare_runs as compare_runs
    from viz.charts.curves import training_curve as training_curve
    from viz.charts.fields import receptive_fields as receptive_fields
    from viz.charts.forecast import forecast as forecast
    from viz.charts.images import image_rows as image_rows
    from viz.charts.motion import joint_curves as joint_curves
    from viz.charts.music import piano_roll as piano_roll
    from viz.charts.norms import gradient_by_distance as gradient_by_distance, weight_norms as weight_norms
    from viz.charts.reading import cost_over_text as cost_over_text
    from viz.charts.schedule import schedule_curve as schedule_curve
    from viz.charts.second_order import flight_recorder as flight_recorder
    from viz.charts.settings import compare_settings as compare_settings
    from viz.charts.solved import minibatches_and_failures as minibatches_and_failures
    from viz.charts.timelag import time_lag as time_lag
    from viz.charts.video import filmstrip as filmstrip
    from viz.drawing.dot import to_dot as to_dot
    from viz.drawing.draw import draw as draw
    from viz.drawing.note import Notes as Notes
    from viz.drawing.render import Drawing as Drawing
    from viz.errors import DrawingError as DrawingError
    from viz.explorer.explore import ExplorerPage as ExplorerPage, explore as explore
    from viz.generation import generation as generation
    from viz.mirror import mirror as mirror
    from viz.notes import changes as changes, gradients as gradients, times as times, values as values
    from viz.pages import TextPage as TextPage, reading as reading, samples as samples
    from viz.show import history_chart as history_chart, mimebundle as mimebundle
    from viz.stages import dump as dump, passes as passes
    from viz.style import COLOUR_BLIND as COLOUR_BLIND, DARK as DARK, LIGHT as LIGHT, Style as Style
    from viz.text import coloured as coloured, coloured_html as coloured_html
    from viz.units import units as units
    from viz.walkthrough import Walkthrough as Walkthrough, walkthrough as walkthrough
