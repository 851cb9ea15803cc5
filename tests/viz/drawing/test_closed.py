"""Laws of closed pictures: columns by time, rows by layer, one edge per state, no overlaps."""

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
from viz.drawing.closed import BoxKind
from viz.style import LIGHT, EdgeRole

from ..conftest import make_unrolled


def unrolled(*layers, time=3, training=False, initial="given", batch=1, unscored=0, **settings):
    cells_ = [cell(4) if isinstance(cell, type) else cell for cell in layers]
    return rnn.Network(cells_, 5, 5, **settings).unroll(time, batch, training, initial, unscored)


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
        u = np.linspace(0, 1, 40)[:, None]
        for i in range(0, len(controls) - 1, 3):
            a, b, c, d = np.array(controls[i : i + 4])
            curve = (1 - u) ** 3 * a + 3 * u * (1 - u) ** 2 * b + 3 * u**2 * (1 - u) * c + u**3 * d
            points += map(tuple, curve)
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
    labels = r'^  (\w+) -> (\w+) \[.*label=<(.*)>, lp="([^,"]+),([^"]+)"'
    for tail, head, text, x, y in re.findall(labels, drawing.dot, re.M):
        assert not any(frame.holds((float(x), float(y))) for frame in placed.values())
        label = Placed(float(x), float(y), 3.6 * len(plain(text)), 5)
        others = [
            points for *ends, points in curves(drawing.dot) if ends != [tail, head] or "bgcolor" not in text
        ]
        assert not any(label.holds(point) for points in others for point in points), plain(text)


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
        BoxKind.CELL: len(stack) * time, BoxKind.STATE: states, BoxKind.DATA: time + 1,
        BoxKind.OUTPUT: time, BoxKind.COST: 1,
    }  # fmt: skip
    into_cells = [link for link in drawing.picture.edges if link.slot is not None]
    assert len(into_cells) == states * time  # one edge a state, not one a weight


@pytest.mark.parametrize("times", [(1, 2), pytest.param((3, 4, 5, 6, 7, 8), marks=pytest.mark.slow)])
def test_time_runs_left_to_right_and_layers_bottom_to_top_always(times):
    for each in itertools.product(STACKS, times, (False, True), ("given", "zero", "learned"), (0.0, 0.3)):
        with case(*each):
            check_one_direction(*each)


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
    starts = [one for one in box.values() if one.kind is BoxKind.STATE]
    assert Counter(one.column for one in starts) == {-1: 1 + 1 + 2, time: 2 + 2}
    if initial == "given":
        last = [plain(one.lines[0]) for one in starts if one.column == time]
        assert last[:2] == [f"hbackward,{time + 1}", f"cbackward,{time + 1}"]
    read = {tuple(title[key]) for key, one in box.items() if one.kind is BoxKind.OUTPUT}
    between = ("concat",) * skip + ("dropout",) * (dropout > 0)
    assert {("concat", "dropout"), ("dropout",), ("concat",)} & read == ({between} if between else set())
    red = {link.head for link in drawing.picture.edges if link.role is EdgeRole.TO_OUTPUT}
    assert all(title[key][0].startswith(("o", "cross")) for key in red)


@pytest.mark.slow
@pytest.mark.parametrize("times", [(3,), (2, 6)])
def test_both_directions_have_separate_rows(times):
    for each in itertools.product(times, (False, True), ("given", "zero", "learned"), (0.0, 0.3)):
        with case(*each):
            check_both_directions(*each)


def test_many_steps_of_both_directions_are_folded():
    drawing = viz.draw(unrolled(rnn.Bidirectional(rnn.Elman(2)), time=40))
    check_layout(drawing)
    ends = {(link.tail, link.head) for link in drawing.picture.edges}
    assert {("b1_3", "steps_1"), ("steps_1", "b1_37"), ("b2_37", "steps_2"), ("steps_2", "b2_3")} <= ends


def test_ctc_alignments_are_one_cost():
    for layer in [rnn.Elman(2), rnn.Bidirectional(rnn.Elman(2))]:
        u = rnn.Network([layer], 5, 5, loss="ctc", reads="vectors").unroll(3, 2, labels=2)
        drawing = viz.draw(u)
        check_layout(drawing)
        assert says(drawing, BoxKind.COST) == ["CTC"]
        compact = viz.draw(u, "compact", closed=False)
        assert sum(plain(shape.lines[0]) == "CTC" for shape in compact.picture.shapes) == 1


#: Without NARX, of whose states most are earlier values of others, Attention, each step of which reads what it
#: remembers from outside, and layers that need a whole sequence.
FORWARD = [cell for cell in (c().resized(2) for c in cells.ALL.values()) if cell.causal and cell.states]


def test_edges_between_steps_have_state_names():
    for cell in [c for c in FORWARD if not isinstance(c, (cells.NARX, cells.Attention))]:
        with case(cell):
            drawing = viz.draw(unrolled(cell, time=4))
            links = [link for link in drawing.picture.edges if link.slot is not None]
            names = [state.name.replace("_", "") for state in cell.states]  # as subscripts
            for t in range(1, 4):
                found = sorted((x for x in links if x.tail == f"b1_{t - 1}"), key=lambda link: link.slot)
                assert [plain(link.label) for link in found] == names
            starts = [box for box in drawing.picture.shapes if box.kind is BoxKind.STATE]
            assert [plain(box.lines[0]).replace(",", "") for box in starts] == [f"{name}0" for name in names]
            check_layout(drawing)


def test_states_are_named_by_slot():
    """The second state is read first and computed last. Other equations have no names."""
    with gn.scope(layer="layer0", cell="Odd"):
        a, b = gn.input((1, 2), name="a_0"), gn.input((1, 2), name="b_0")
    h = c = gn.input((1, 2), name="h_0")
    for t in (1, 2, 3):
        with gn.scope(layer="layer0", cell="Odd", time=t):
            b, a = gn.tanh(b) + a, gn.sigmoid(b)
            h, c = gn.tanh(h) * c, h + c
            h = gn.exp(h) if t == 3 else h
    for end, said in ((a + b, [(0, "a"), (1, "b")]), (h, [(0, ""), (1, "")])):
        links = [x for x in viz.draw(end).picture.edges if x.head == "b1_2"]
        assert [(x.slot, plain(x.label)) for x in sorted(links, key=lambda x: x.slot)] == said
        assert {x.tail for x in links} == {"b1_1"}


def says(drawing: viz.Drawing, kind: BoxKind) -> list[str]:
    return [" / ".join(map(plain, box.lines)) for box in drawing.picture.shapes if box.kind is kind]


def shown(drawing: viz.Drawing) -> list[str]:
    return [
        "".join(e.itertext()) for e in ET.fromstring(drawing.svg).iter("{http://www.w3.org/2000/svg}text")
    ]


def test_labels_of_an_lstm():
    drawing = viz.draw(rnn.Network([cells.LSTM(4)], 5, 5))
    assert says(drawing, BoxKind.CELL) == ["LSTM / layer 0"] * 3
    assert says(drawing, BoxKind.DATA) == ["x1", "x2", "x3", "t"]
    assert says(drawing, BoxKind.STATE) == ["h0", "c0"]
    assert says(drawing, BoxKind.OUTPUT) == ["o1", "o2", "o3"]
    assert says(drawing, BoxKind.COST) == ["cross-entropy / mean over 3 steps"]
    assert [plain(x.label) for x in drawing.picture.edges if x.label] == ["Who", *["h", "c", "Who"] * 2]
    assert shown(drawing).count("LSTM") == 3
    assert {"cross-entropy", "mean over 3 steps", "layer 0"} <= set(shown(drawing))


def test_skip_connections_and_dropout_are_labelled():
    drawing = viz.draw(unrolled(cells.GRU, cells.LSTM, skip=True, dropout=0.5, training=True, time=2))
    assert says(drawing, BoxKind.CELL) == ["GRU / layer 0", "LSTM / layer 1 / dropout"] * 2
    assert {plain(x.label) for x in drawing.picture.edges} == {"Wh0o", "Wh1o", "h", "c", ""}
    assert {(x.tail, x.head) for x in drawing.picture.edges} >= {("x0", "b1_0"), ("x0", "b2_0")}


def test_one_mask_for_all_steps_adds_no_edges():
    drawn = [
        viz.draw(unrolled(cells.GRU, cells.GRU, dropout=0.5, variational=v, training=True, time=3))
        for v in (False, True)
    ]
    first, second = ([(x.tail, x.head, plain(x.label)) for x in each.picture.edges] for each in drawn)
    assert sorted(first) == sorted(second)
    assert says(drawn[0], BoxKind.CELL) == says(drawn[1], BoxKind.CELL)


def test_edges_into_a_last_step_without_unread_states_have_names():
    net = rnn.Network([cells.LSTM(3)], 4, 5, pool="last")
    links = viz.draw(net.unroll(4, 2, lengths=True)).picture.edges
    for t in (1, 2, 3):
        assert [plain(x.label) for x in links if x.head == f"b1_{t}" and x.tail == f"b1_{t - 1}"] == [
            "h",
            "c",
        ]


def test_cost_label_has_the_loss_and_scored_steps():
    words = {"softmax": "cross-entropy", "sigmoid": "binary cross-entropy", "squared": "squared error"}
    for (loss, name), batch in itertools.product(words.items(), (1, 7)):
        for unscored, mean in ((0, "mean over 5 steps"), (4, "mean over 1 of 5 steps")):
            drawing = viz.draw(unrolled(cells.Elman, loss=loss, time=5, batch=batch, unscored=unscored))
            assert says(drawing, BoxKind.COST) == [f"{name} / {mean}"]
    other = viz.draw(make_unrolled())
    assert (says(other, BoxKind.OUTPUT), says(other, BoxKind.COST)) == (["mean"] * 3, ["+"])


def test_legend_of_colours():
    drawing = viz.draw(unrolled(cells.Elman))
    box = r'^  (\w+) \[pos=.*fillcolor="(.*?)"'
    fills = dict(re.findall(box, drawing.dot, re.M))
    expected = {**dict.fromkeys(("x0", "s1_0", "t0"), LIGHT.leaf), "b2_0": LIGHT.label, "cost": LIGHT.cost}
    assert {key: fills[key] for key in expected} == expected
    for link in drawing.picture.edges:
        (line,) = [x for x in drawing.dot.splitlines() if x.startswith(f"  {link.tail} -> {link.head} ")]
        assert (f'color="{LIGHT.input_edge}"' in line) == (link.tail[0] in "xt")
        to_output = link.head[:2] in ("b2", "co") and link.tail != "t0"
        assert (f'color="{LIGHT.output_edge}"' in line) == to_output


def test_any_name_is_safe_and_fits():
    for name in ['"<&>\\N', "x" * 200, "漢字" * 12, "line\nbreak", ""]:
        with case(name):
            h = gn.input((1, 2), name=name)
            for t in (1, 2):
                with gn.scope(layer=name, cell=name, time=t):
                    h = gn.tanh(h + gn.input((1, 2), name=name))
            drawing = viz.draw(gn.label(h, name))
            check_layout(drawing)
            # Of three inputs, and of two steps their cell and layer: Graphviz leaves out what it cannot read.
            assert not name or [text[:19] for text in shown(drawing)].count(" ".join(name.split())[:19]) == 7
            assert viz.draw(gn.sum(h), closed=True).svg


def is_closed(drawing: viz.Drawing) -> bool:
    return "layout=nop2" in drawing.dot


def test_only_unrolled_networks_are_drawn_closed(regression):
    u = unrolled(cells.LSTM)
    for thing in (
        rnn.Network([cells.LSTM(4)], 5, 5),
        u,
        u.cost,
        u.logits,
        [u.cost, *u.final],
        make_unrolled(),
    ):
        assert is_closed(viz.draw(thing))
        check_layout(viz.draw(thing))
        assert not is_closed(viz.draw(thing, closed=False))
        assert viz.draw(thing).dot == viz.draw(thing).dot
    for thing in (cells.LSTM(), cells.LSTM, unrolled(cells.LSTM, time=1)):
        assert not is_closed(viz.draw(thing))


def test_graphs_that_cannot_be_closed_are_drawn_open_or_rejected(regression):
    both, forward = unrolled(rnn.Bidirectional(rnn.Elman(2))), unrolled(cells.Elman)
    of_forward, of_both = (gn.gradient(u.cost, list(u.network.parameters.values())) for u in (forward, both))
    for thing, says in (
        (regression, r"made in a scope .*closed=False"), (of_forward, r"as derivatives do; .*closed=False"),
        (of_both, "closed=False"), (unrolled(rnn.Bidirectional(rnn.Bidirectional(rnn.Elman(2)))), "closed=False"),
    ):  # fmt: skip
        assert not is_closed(viz.draw(thing))
        with pytest.raises(viz.DrawingError, match=says):
            viz.draw(thing, closed=True)
    with pytest.raises(viz.DrawingError, match="rankdir must be left out"):
        viz.draw(forward, closed=True, rankdir="LR")
    assert {link.back for link in viz.mirror(both.cost).picture.beside.edges} == {True}


def test_compiled_networks_are_closed():
    for initial in ["given", "zero"]:
        with case(initial):
            u = unrolled(cells.GRU, cells.LSTM, skip=True, dropout=0.2, training=True, initial=initial)
            # Products and additions that span time steps belong to none of them.
            steps_apart = gn.passes.without("stack sums", "stack rows", "stack columns", "batch")
            drawing = viz.draw(gn.compile([u.cost], backend="numpy", passes=steps_apart))
            assert is_closed(drawing)
            check_layout(drawing)
            # Biases that the optimizer shares among time steps are no states.
            assert not [x for x in drawing.picture.edges if x.head == "b1_2" and x.tail in ("b1_0", "b2_0")]
            assert max(Counter((x.tail, x.head) for x in drawing.picture.edges).values()) <= 2


def test_feedback_and_jumps_in_time_are_drawn():
    """o_{t-1} into layer 0 at t, h_{t-2} into t, and data read at every step."""
    o, h, context = (gn.input((1, 2), name=name) for name in ("o_0", "h_0", "z"))
    states = [h, h]
    for t in range(1, 6):
        with gn.scope(layer="layer0", cell="Clock", time=t):
            states.append(gn.tanh(states[-1] + states[-2] + o + context))
        with gn.scope(layer="output", time=t):
            o = gn.exp(states[-1])
    drawing = viz.draw(gn.sum(o))
    found = {(link.tail, link.head) for link in drawing.picture.edges}
    assert {("b1_0", "b1_2"), ("b2_0", "b1_1")} <= found
    assert says(drawing, BoxKind.DATA) == ["z"]
    check_layout(drawing)


def test_many_time_steps_need_no_recursion():
    h = gn.input((1, 2), name="h_0")
    for t in range(3000):
        with gn.scope(layer="layer0", cell="Long", time=t):
            h = gn.tanh(h)
    assert viz.draw(h, steps=3000).dot.count(" -> ") == 3000


def test_no_two_boxes_overlap_with_any_notes():
    """States with wide numbers are side by side; two states of an LSTM are stacked in a higher box."""
    for stack in ((cells.LSTM,), (cells.LSTM, cells.LSTMPeephole, cells.NARX)):
        u = unrolled(*stack)
        for notes in (None, viz.values(u), viz.gradients(u.cost)):
            drawing = viz.draw(u, closed=True, notes=notes)
            boxes = [b for k, b in frames(drawing.dot).items() if not k.startswith(("title_", "scale_"))]
            assert len(boxes) == len(drawing.picture.shapes)
            for a, b in itertools.combinations(boxes, 2):
                assert max(abs(a.x - b.x) - a.w - b.w, abs(a.y - b.y) - a.h - b.h) >= -0.2
    # Outputs that are not scored have a gradient of zero, a colour without words: boxes are still laid out.
    u = unrolled(rnn.Elman, time=3, unscored=2, initial="zero")
    assert shown(viz.draw(u, closed=True, notes=viz.gradients(u.cost))).count("Elman") == 3


def test_edges_of_a_closed_mirror_end_at_their_shapes() -> None:
    u = rnn.Network([rnn.LSTM(4), rnn.GRU(4)], inputs=5, outputs=5, skip=True).unroll(time=3, batch=2)
    for drawing in (viz.mirror(u.cost), viz.mirror(u.cost, values=False)):
        placed = frames(drawing.dot)
        found = curves(drawing.dot)
        assert sum(head.endswith("_back") for _, head, _ in found) > 10
        for tail, head, points in found:
            for key, point in ((tail, points[0]), (head, points[-1])):
                frame = placed[key]
                away = np.abs(np.array(point) - (frame.x, frame.y)) - (frame.w, frame.h)
                assert away.max() < 1, (tail, head, key)
                assert not frame.holds(point, margin=6)


def test_networks_of_many_layers_are_closed_by_default() -> None:
    for layers, style in ((1, "full"), (3, "full"), (4, "closed"), (6, "closed")):
        net = rnn.Network([rnn.Dense(3) for _ in range(layers)], inputs=3, outputs=3)
        assert viz.draw(net.unroll(time=1, batch=2).cost).style == style


def test_the_first_output_reads_the_initial_states() -> None:
    for network, weights in [
        (rnn.Network([rnn.Elman(4)], 5, 5), {"W_ho"}),
        (rnn.Network([rnn.GLNN(4, edges=2)], 5, 5), {"W_ho"}),
        (rnn.Network([rnn.LSTM(4), rnn.GRU(4)], 5, 5, skip=True), {"W_h0o", "W_h1o"}),
    ]:
        with case(network.layers):
            drawing = viz.draw(network.unroll(3, 1, initial="given", predict_first=True))
            check_layout(drawing)
            boxes = {box.key: box for box in drawing.picture.shapes}
            states = [box for box in boxes.values() if box.kind is BoxKind.STATE]
            assert len(states) == len(network.state_names())
            assert [plain(box.lines[0]) for box in boxes.values() if box.kind is BoxKind.DATA] == [
                "x1", "x2", "x3", "t",
            ]  # fmt: skip
            into = [link for link in drawing.picture.edges if plain(boxes[link.head].lines[0]) == "o0"]
            assert {plain(link.label).replace("W", "W_") for link in into} == weights
            assert all(boxes[link.tail].kind in (BoxKind.STATE, BoxKind.CELL) for link in into)


def test_lengths_are_drawn_beside_the_cost() -> None:
    net = rnn.Network([rnn.GRU(2), rnn.GRU(2)], 3, 3)
    pictures = [viz.draw(net.unroll(3, 2, lengths=lengths)).picture for lengths in (False, True)]
    without, edges = ({(link.tail, link.head) for link in picture.edges} for picture in pictures)
    ((box, head),) = edges - without
    assert (head, without - edges) == ("cost", set())
    assert next(each.lines for each in pictures[1].shapes if each.key == box) == ("lengths",)


def test_delays_longer_than_the_sequence() -> None:
    for time in (2, 3):
        boxes = viz.draw(rnn.Network([rnn.NARX(2)], 3, 3).unroll(time, 2)).picture.shapes
        states = [plain(box.lines[0]) for box in boxes if box.kind is BoxKind.STATE]
        assert states == ["h1,0", "h2,0", "h3,0", "x1,0", "x2,0"]


def test_states_of_several_steps_ago_are_initial_states() -> None:
    drawing = viz.draw(rnn.Network([rnn.NARX(2)], 3, 3).unroll(5, 2))
    boxes = drawing.picture.shapes
    states = [plain(box.lines[0]) for box in boxes if box.kind is BoxKind.STATE]
    assert states == ["h1,0", "h2,0", "h3,0", "x1,0", "x2,0"]
    ends = [(link.tail, link.head) for link in drawing.picture.edges]
    assert len([pair for pair in ends if pair[0].startswith("s")]) == len(
        {p for p in ends if p[0].startswith("s")}
    )
    assert [plain(box.lines[0]) for box in boxes if box.kind is BoxKind.DATA] == [
        "x1",
        "x2",
        "x3",
        "x4",
        "x5",
        "t",
    ]
