"""Laws of closed pictures: columns by time, rows by layer, one edge a state, nothing over anything else."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from graphnet_rnn import cells
from tests.tables import case
from viz.drawing.closed import Kind
from viz.style import LIGHT, EdgeRole

from ..conftest import make_unrolled

SVG = "{http://www.w3.org/2000/svg}"


def network(*layers, **settings):
    return rnn.Network([cell(4) if isinstance(cell, type) else cell for cell in layers], 5, 5, **settings)


def unrolled(*layers, time=3, training=False, initial="given", batch=1, unscored=0, **settings):
    return network(*layers, **settings).unroll(time, batch, training, initial, unscored)


def plain(markup: str) -> str:
    return re.sub("<.*?>", "", markup)


class Placed(NamedTuple):
    x: float
    y: float
    w: float
    h: float
    round: bool = False

    def holds(self, point, margin=0.0) -> bool:
        x, y = abs(point[0] - self.x) / (self.w - margin), abs(point[1] - self.y) / (self.h - margin)
        return x * x + y * y < 1 if self.round else max(x, y) < 1


def frames(dot: str) -> dict[str, Placed]:
    """Centre and half the size of each node, as Graphviz is told them."""
    number = r"([-\d.]+)"
    box = rf'^  (\w+) \[pos="{number},{number}", width={number}, height={number}.*? shape=(\w+)'
    return {
        key: Placed(float(x), float(y), float(w) * 36, float(h) * 36, shape in ("circle", "ellipse"))
        for key, x, y, w, h, shape in re.findall(box, dot, re.M)
    }


def curves(dot: str) -> list[tuple[str, str, list[tuple[float, float]]]]:
    """For each edge its ends, and points all along it."""
    result = []
    for tail, head, tip, places in re.findall(r'^  (\w+) -> (\w+) \[pos="e,(\S+) ([^"]+)"', dot, re.M):
        controls = [tuple(map(float, place.split(","))) for place in places.split()]
        points = []
        for i in range(0, len(controls) - 1, 3):
            p = np.array(controls[i : i + 4])
            u = np.linspace(0, 1, 40)[:, None]
            points += map(
                tuple,
                (1 - u) ** 3 * p[0] + 3 * u * (1 - u) ** 2 * p[1] + 3 * u**2 * (1 - u) * p[2] + u**3 * p[3],
            )
        result.append((tail, head, [*points, tuple(map(float, tip.split(",")))]))
    return result


def check_layout(drawing: viz.Drawing) -> None:
    """Time from left to right, rows from bottom to top, and nothing over anything else."""
    picture, placed = drawing.picture, frames(drawing.dot)
    assert set(placed) == {box.key for box in picture.shapes}
    assert drawing.dot.count(" -> ") == len(picture.edges) == len(curves(drawing.dot))
    for a, b in itertools.combinations([box for box in picture.shapes if box.key != "cost"], 2):
        if a.key[0] != "t" and b.key[0] != "t":  # the targets stand beside the cost
            if a.column < b.column:
                assert placed[a.key].x + placed[a.key].w < placed[b.key].x - placed[b.key].w
            if a.row < b.row:
                assert placed[a.key].y + placed[a.key].h < placed[b.key].y - placed[b.key].h
    for a, b in itertools.combinations(placed.values(), 2):
        assert abs(a.x - b.x) >= a.w + b.w or abs(a.y - b.y) >= a.h + b.h
    for tail, head, points in curves(drawing.dot):
        assert not placed[tail].holds(points[0], margin=3)
        assert not placed[head].holds(points[-1], margin=6)
        for key, frame in placed.items():
            assert key in (tail, head) or not any(map(frame.holds, points)), (tail, head, key)
    everywhere = [point for _, _, points in curves(drawing.dot) for point in points]
    for text, x, y in re.findall(r'label=<(.*)>, lp="([^,"]+),([^"]+)"', drawing.dot):
        assert not any(frame.holds((float(x), float(y))) for frame in placed.values())
        label = Placed(float(x), float(y), 3.6 * len(plain(text)), 5)
        assert not any(map(label.holds, everywhere)), plain(text)


# -- layout ----------------------------------------------------------------------------------

STACKS = [(cells.Elman,), (cells.GRU, cells.LSTMPeephole), (cells.LSTM, cells.LSTMKrause, cells.Elman)]


def check_one_direction(stack, time, skip, initial, dropout):
    u = unrolled(
        *stack, time=time, skip=skip, dropout=dropout, training=True, initial=initial,
        initial_state="learned" if initial == "learned" else "zero",
    )  # fmt: skip
    drawing = viz.draw(u, closed=True)
    check_layout(drawing)
    states = sum(len(cell.states) for cell in stack)
    assert Counter(box.kind for box in drawing.picture.shapes) == {
        Kind.CELL: len(stack) * time, Kind.STATE: states, Kind.DATA: time + 1, Kind.OUTPUT: time, Kind.COST: 1,
    }  # fmt: skip
    into_cells = [link for link in drawing.picture.edges if link.slot is not None]
    assert len(into_cells) == states * time  # one edge a state, not one a weight


@pytest.mark.parametrize("times", [(1, 2, 8), pytest.param((3, 4, 5, 6, 7), marks=pytest.mark.slow)])
def test_time_runs_left_to_right_and_layers_bottom_to_top_always(times):
    for each in itertools.product(STACKS, times, (False, True), ("given", "zero", "learned"), (0.0, 0.3)):
        with case(*each):
            check_one_direction(*each)


# -- both directions of time -------------------------------------------------------------------


def check_both_directions(time, skip, initial, dropout):
    u = unrolled(
        rnn.Bidirectional(rnn.Elman(2), rnn.LSTM(3)), rnn.GRU(2), rnn.Residual(rnn.Bidirectional(2)),
        time=time, skip=skip, dropout=dropout, training=True, initial=initial,
        initial_state="learned" if initial == "learned" else "zero",
    )  # fmt: skip
    drawing = viz.draw(u)
    assert is_closed(drawing)
    check_layout(drawing)
    box = {box.key: box for box in drawing.picture.shapes}
    title = {key: [plain(line) for line in one.lines] for key, one in box.items()}
    steps = Counter()
    for tail, head in {(x.tail, x.head) for x in drawing.picture.edges if x.slot is not None}:
        a, b = box[tail], box[head]
        assert a.row == b.row
        way = title[head][2] if len(title[head]) > 2 else ""
        assert b.column - a.column == (-1 if way == "backward" else 1), title[head]
        steps[title[head][0], way] += 1
    assert steps == {  # of an LSTM both states have an edge from their start, and share those between steps
        ("Elman", "forward"): time,
        ("GRU", ""): time,
        ("LSTM", "forward"): time + 1,
        ("LSTM", "backward"): 2 * (time + 1),
    }
    starts = [one for one in box.values() if one.kind is Kind.STATE]
    assert Counter(one.column for one in starts) == {-1: 1 + 1 + 2, time: 2 + 2}
    if initial == "given":
        last = [plain(one.lines[0]) for one in starts if one.column == time]
        assert last[:2] == [f"hbackward,{time + 1}", f"cbackward,{time + 1}"]
    read = {tuple(title[key]) for key, one in box.items() if one.kind is Kind.OUTPUT}
    between = ("concat",) * skip + ("dropout",) * (dropout > 0)
    assert {("concat", "dropout"), ("dropout",), ("concat",)} & read == ({between} if between else set())
    red = {link.head for link in drawing.picture.edges if link.role is EdgeRole.TO_OUTPUT}
    assert all(title[key][0].startswith(("o", "cross")) for key in red)


@pytest.mark.parametrize("times", [(2, 3), pytest.param((6,), marks=pytest.mark.slow)])
def test_both_directions_have_rows_of_their_own(times):
    for each in itertools.product(times, (False, True), ("given", "zero", "learned"), (0.0, 0.3)):
        with case(*each):
            check_both_directions(*each)


def test_layers_of_both_directions_in_one_another_stay_open():
    """Their rows would run both ways."""
    u = unrolled(rnn.Bidirectional(rnn.Bidirectional(rnn.Elman(2))))
    assert not is_closed(viz.draw(u))
    with pytest.raises(viz.DrawingError, match="closed=False"):
        viz.draw(u, closed=True)


def test_derivatives_of_both_directions_stay_open():
    u = unrolled(rnn.Bidirectional(rnn.Elman(2)))
    gradients = gn.gradient(u.cost, list(u.network.parameters.values()))
    assert not is_closed(viz.draw(gradients))
    pair = viz.mirror(u.cost)
    assert {link.back for link in pair.picture.beside.edges} == {True}


def test_many_steps_of_both_directions_are_folded():
    drawing = viz.draw(unrolled(rnn.Bidirectional(rnn.Elman(2)), time=40))
    check_layout(drawing)
    ends = {(link.tail, link.head) for link in drawing.picture.edges}
    assert {("b1_3", "steps_1"), ("steps_1", "b1_37"), ("b2_37", "steps_2"), ("steps_2", "b2_3")} <= ends


def test_the_alignments_of_ctc_are_one_cost():
    for layer in [rnn.Elman(2), rnn.Bidirectional(rnn.Elman(2))]:
        with case(layer):
            u = network(layer, loss="ctc", reads="vectors").unroll(3, 2, labels=2)
            drawing = viz.draw(u)
            assert is_closed(drawing)
            check_layout(drawing)
            assert says(drawing, Kind.COST) == ["CTC"]
            compact = viz.draw(u, "compact", closed=False)
            assert sum(plain(shape.lines[0]) == "CTC" for shape in compact.picture.shapes) == 1


#: Without NARX, of whose states most are earlier values of others, Attention, each step of which reads what it
#: remembers from outside, and layers that need a whole sequence.
FORWARD = [cell for cell in (c().resized(2) for c in cells.ALL.values()) if cell.causal and cell.states]


def test_edges_between_steps_carry_the_names_of_the_states():
    for cell in [c for c in FORWARD if not isinstance(c, (cells.NARX, cells.Attention))]:
        with case(cell):
            drawing = viz.draw(unrolled(cell, time=4))
            links = [link for link in drawing.picture.edges if link.slot is not None]
            names = [state.name.replace("_", "") for state in cell.states]  # as subscripts
            for t in range(1, 4):
                found = sorted((x for x in links if x.tail == f"b1_{t - 1}"), key=lambda link: link.slot)
                assert [plain(link.label) for link in found] == names
            starts = [box for box in drawing.picture.shapes if box.kind is Kind.STATE]
            assert [plain(box.lines[0]).replace(",", "") for box in starts] == [f"{name}0" for name in names]
            check_layout(drawing)


def test_states_are_named_by_their_slot_not_by_the_order_in_which_they_are_read():
    """Crossed on purpose: the second state is read first, and made last."""
    with gn.scope(layer="layer0", cell="Odd"):
        a, b = gn.input((1, 2), name="a_0"), gn.input((1, 2), name="b_0")
    for t in (1, 2, 3):
        with gn.scope(layer="layer0", cell="Odd", time=t):
            b, a = gn.tanh(b) + a, gn.sigmoid(b)
    links = [x for x in viz.draw(a + b).picture.edges if x.head == "b1_2"]
    assert [(x.slot, plain(x.label)) for x in sorted(links, key=lambda x: x.slot)] == [(0, "a"), (1, "b")]


def test_steps_of_other_equations_get_unlabelled_edges_one_for_each_value():
    h = c = gn.input((1, 2), name="h_0")
    for t in (1, 2, 3):
        with gn.scope(layer="layer0", cell="Odd", time=t):
            h, c = gn.tanh(h) * c, h + c
            h = gn.exp(h) if t == 3 else h
    links = [link for link in viz.draw(h).picture.edges if link.head == "b1_2"]
    assert [(link.tail, link.label, link.slot) for link in links] == [("b1_1", "", 0), ("b1_1", "", 1)]


# -- what is said ----------------------------------------------------------------------------


def says(drawing: viz.Drawing, kind: Kind) -> list[str]:
    return [" / ".join(map(plain, box.lines)) for box in drawing.picture.shapes if box.kind is kind]


def test_an_lstm_reads_as_on_a_slide():
    drawing = viz.draw(network(cells.LSTM))
    assert says(drawing, Kind.CELL) == ["LSTM / layer 0"] * 3
    assert says(drawing, Kind.DATA) == ["x1", "x2", "x3", "t"]
    assert says(drawing, Kind.STATE) == ["h0", "c0"]
    assert says(drawing, Kind.OUTPUT) == ["o1", "o2", "o3"]
    assert says(drawing, Kind.COST) == ["cross-entropy / mean over 3 steps"]
    assert [plain(x.label) for x in drawing.picture.edges if x.label] == ["Who", *["h", "c", "Who"] * 2]
    shown = ["".join(e.itertext()) for e in ET.fromstring(drawing.svg).iter(f"{SVG}text")]
    assert shown.count("LSTM") == 3
    assert {"cross-entropy", "mean over 3 steps", "layer 0"} <= set(shown)


def test_skip_connections_name_their_weights_and_dropout_is_marked_where_it_is():
    drawing = viz.draw(unrolled(cells.GRU, cells.LSTM, skip=True, dropout=0.5, training=True, time=2))
    assert says(drawing, Kind.CELL) == ["GRU / layer 0", "LSTM / layer 1 / dropout"] * 2
    assert {plain(x.label) for x in drawing.picture.edges} == {"Wh0o", "Wh1o", "h", "c", ""}
    assert {(x.tail, x.head) for x in drawing.picture.edges} >= {("x0", "b1_0"), ("x0", "b2_0")}


def test_the_cost_is_labelled_by_its_loss_and_by_the_steps_that_it_scores():
    words = {"softmax": "cross-entropy", "sigmoid": "binary cross-entropy", "squared": "squared error"}
    for (loss, name), batch in itertools.product(words.items(), (1, 7)):
        for unscored, mean in ((0, "mean over 5 steps"), (4, "mean over 1 of 5 steps")):
            drawing = viz.draw(unrolled(cells.Elman, loss=loss, time=5, batch=batch, unscored=unscored))
            assert says(drawing, Kind.COST) == [f"{name} / {mean}"]


def test_other_costs_are_named_by_their_operators():
    drawing = viz.draw(make_unrolled())
    assert says(drawing, Kind.OUTPUT) == ["mean"] * 3
    assert says(drawing, Kind.COST) == ["+"]


def test_legend_of_colours():
    drawing = viz.draw(network(cells.Elman))
    lines = {
        line.split()[0]: line for line in drawing.dot.splitlines() if " [pos=" in line and "->" not in line
    }
    for key, colour in (("x0", LIGHT.leaf), ("s1_0", LIGHT.leaf), ("t0", LIGHT.leaf), ("b2_0", LIGHT.label)):
        assert f'fillcolor="{colour}"' in lines[key]
    assert f'fillcolor="{LIGHT.cost}"' in lines["cost"]
    for link in drawing.picture.edges:
        (line,) = [x for x in drawing.dot.splitlines() if x.startswith(f"  {link.tail} -> {link.head} ")]
        assert (f'color="{LIGHT.input_edge}"' in line) == (link.tail[0] in "xt")
        assert (f'color="{LIGHT.output_edge}"' in line) == (
            link.head[:2] in ("b2", "co") and link.tail != "t0"
        )


def test_any_name_is_safe_and_fits():
    for name in ['"<&>\\N', "x" * 200, "漢字" * 12, "line\nbreak", ""]:
        with case(name):
            h = gn.input((1, 2), name=name)
            for t in (1, 2):
                with gn.scope(layer=name, cell=name, time=t):
                    h = gn.tanh(h + gn.input((1, 2), name=name))
            drawing = viz.draw(gn.label(h, name))
            check_layout(drawing)
            shown = ["".join(e.itertext()) for e in ET.fromstring(drawing.svg).iter(f"{SVG}text")]
            # Of three inputs, and of two steps their cell and layer: Graphviz leaves out what it cannot read.
            assert not name or [text[:19] for text in shown].count(" ".join(name.split())[:19]) == 7
            assert viz.draw(gn.sum(h), closed=True).svg


# -- when ------------------------------------------------------------------------------------


def is_closed(drawing: viz.Drawing) -> bool:
    return "layout=nop2" in drawing.dot


def test_what_is_unrolled_is_closed_and_nothing_else(regression):
    u = unrolled(cells.LSTM)
    for thing in (network(cells.LSTM), u, u.cost, u.logits, [u.cost, *u.final], make_unrolled()):
        assert is_closed(viz.draw(thing))
        check_layout(viz.draw(thing))
        assert not is_closed(viz.draw(thing, closed=False))
    for thing in (cells.LSTM(), cells.LSTM, regression, unrolled(cells.LSTM, time=1)):
        assert not is_closed(viz.draw(thing))


def test_compiled_networks_are_closed():
    for initial in ["given", "zero"]:
        with case(initial):
            u = unrolled(cells.GRU, cells.LSTM, skip=True, dropout=0.2, training=True, initial=initial)
            # Products and additions that span time steps belong to none of them.
            steps_apart = gn.passes.without("stack sums", "stack rows", "stack columns", "batch")
            drawing = viz.draw(gn.compile([u.cost], backend="numpy", passes=steps_apart))
            assert is_closed(drawing)
            check_layout(drawing)
            # Biases that the optimiser shares among time steps are no states.
            assert not [x for x in drawing.picture.edges if x.head == "b1_2" and x.tail in ("b1_0", "b2_0")]
            assert max(Counter((x.tail, x.head) for x in drawing.picture.edges).values()) <= 2


def test_derivatives_flow_back_in_time_and_stay_open():
    u = unrolled(cells.Elman)
    gradients = gn.gradient(u.cost, list(u.network.parameters.values()))
    assert not is_closed(viz.draw(gradients))
    with pytest.raises(viz.DrawingError, match=r"as derivatives do; .*closed=False"):
        viz.draw(gradients, closed=True)


def test_what_cannot_be_closed_says_so(regression):
    with pytest.raises(viz.DrawingError, match=r"made in a scope .*closed=False"):
        viz.draw(regression, closed=True)
    with pytest.raises(viz.DrawingError, match="leave rankdir out"):
        viz.draw(unrolled(cells.Elman), closed=True, rankdir="LR")


def test_feedback_and_jumps_in_time_are_drawn():
    """o_{t-1} into layer 0 at t, h_{t-2} into t, and data that is read at every step."""
    o, states, context = (
        gn.input((1, 2), name="o_0"),
        [gn.input((1, 2), name="h_0")] * 2,
        gn.input((1, 2), name="z"),
    )
    for t in range(1, 6):
        with gn.scope(layer="layer0", cell="Clock", time=t):
            states.append(gn.tanh(states[-1] + states[-2] + o + context))
        with gn.scope(layer="output", time=t):
            o = gn.exp(states[-1])
    drawing = viz.draw(gn.sum(o))
    found = {(link.tail, link.head) for link in drawing.picture.edges}
    assert {("b1_0", "b1_2"), ("b2_0", "b1_1")} <= found
    assert says(drawing, Kind.DATA) == ["z"]
    check_layout(drawing)


def test_same_network_gives_the_same_bytes():
    made = {viz.draw(unrolled(*STACKS[2], skip=True)).dot for _ in range(3)}
    assert len(made) == 1


def test_many_time_steps_are_fast_and_need_no_recursion():
    h = gn.input((1, 2), name="h_0")
    for t in range(3000):
        with gn.scope(layer="layer0", cell="Long", time=t):
            h = gn.tanh(h)
    drawing = viz.draw(h, steps=3000)
    assert drawing.dot.count(" -> ") == 3000
    with pytest.raises(viz.DrawingError, match="limit"):
        _ = drawing.svg


def test_notes_of_colour_alone():
    """Outputs that are not scored have a gradient of zero, a colour without words: boxes are still laid out."""
    u = unrolled(rnn.Elman, time=3, unscored=2, initial="zero")
    picture = viz.draw(u, closed=True, notes=viz.gradients(u.cost)).svg
    assert plain(picture).count("Elman") == 3


def test_no_two_boxes_overlap_whatever_notes_tell():
    """States side by side with wide numbers; of an LSTM two, one above the other, whose boxes are higher then."""
    for stack in ((cells.LSTM,), (cells.LSTM, cells.LSTMPeephole, cells.NARX)):
        u = unrolled(*stack)
        for notes in (None, viz.values(u), viz.gradients(u.cost)):
            drawing = viz.draw(u, closed=True, notes=notes)
            boxes = {
                k: box for k, box in frames(drawing.dot).items() if not k.startswith(("title_", "scale_"))
            }
            assert len(boxes) == len(drawing.picture.shapes)
            for (a, one), (b, other) in itertools.combinations(boxes.items(), 2):
                apart = abs(one.x - other.x) - one.w - other.w, abs(one.y - other.y) - one.h - other.h
                assert max(apart) >= -0.2, (a, b)
