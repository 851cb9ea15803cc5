"""Notes match NumPy and are drawn correctly."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from graphnet.graph.provenance import attributed_to
from graphnet_rnn.riemannian import unit_groups
from tests.tables import case
from viz.colours import between, ink_on
from viz.drawing.note import Note, NoteScale
from viz.matching import kept_nodes
from viz.notes import heat_map
from viz.style import THEMES

X = np.array([[1.0, -2.0], [0.5, 3.0]], "float32")
W = np.array([[0.5, -1.0, 2.0], [1.0, 0.0, -0.5]], "float32")


@pytest.fixture
def net():
    x, w = gn.input((2, 2), name="x"), gn.parameter(W, name="W")
    h = gn.tanh(x @ w)
    return x, w, h, gn.sum(h * h)


def test_values_match_numpy(net):
    x, _, h, cost = net
    notes = viz.values(cost, {x: X})
    expected = np.tanh(X @ W)
    np.testing.assert_allclose(notes.arrays[h], expected, rtol=1e-6)
    shape, numbers = notes.note([h]).lines
    assert shape == "2 × 3"
    said = [float(text.replace("−", "-")) for text in numbers.split(" · ")]
    np.testing.assert_allclose(said, [expected.min(), expected.mean(), expected.max()], rtol=0.06)
    (total,) = notes.note([cost]).lines
    assert float(total) == pytest.approx((expected**2).sum(), rel=1e-2)
    assert notes.note([x]).lines[0] != "2 × 2"  # a square has its shape beneath its name
    # Without feeds they are the same each time.
    assert viz.draw(cost, notes=viz.values(cost)).dot == viz.draw(cost, notes=viz.values(cost)).dot
    # Of nodes drawn as one the last value is shown, and any mark.
    before = h.inputs[0]
    assert notes.note([before, h]) == notes.note([h]) != notes.note([before])
    _, new = viz.changes(gn.Graph(h), gn.Graph(cost))
    assert new.note([h, cost]).mark == "new"
    assert new.note([h]) is None


def test_non_finite_values_are_counted():
    x = gn.input((3,), name="x")
    y = gn.log(x)
    notes = viz.values(y, {x: np.array([-1.0, 0.0, 1.0], "float32")})
    assert notes.note([y]).lines == ("3", "0 · 0 · 0", "2 of 3 not finite")
    assert viz.draw(y, notes=notes).svg


def test_mean_of_large_numbers_does_not_overflow():
    x = gn.input((2,), "float64", name="x")
    note = viz.values(x, {x: np.array([1e308, 1e308])}).note([x])
    assert note is not None
    assert note.lines[-1] == "1·10³⁰⁸ · 1·10³⁰⁸ · 1·10³⁰⁸"


def test_heat_maps_are_small_and_keep_means():
    for shape in [(1, 1), (8, 12), (9, 13), (100, 70), (3, 5, 7), (4,)]:
        with case(shape):
            array = np.random.default_rng(0).standard_normal(shape)
            tile = np.array(heat_map(array))
            assert (np.array(tile.shape) <= (8, 12)).all()
            assert np.abs(tile).max() == 1
            flat = array.reshape(-1, shape[-1])
            if tile.shape == flat.shape:
                np.testing.assert_allclose(tile, flat / np.abs(flat).max(), atol=1e-3)
    array = np.zeros((64, 96))
    array[40:48, 80:] = -5.0
    tile = np.array(heat_map(array))
    assert tile.min() == -1
    assert np.argwhere(tile).tolist() == [[5, 10], [5, 11]]


def test_gradients_are_norms_of_derivatives(net):
    x, w, h, cost = net
    notes = viz.gradients(cost, {x: X})
    value = np.tanh(X @ W)
    by_h = 2 * value
    np.testing.assert_allclose(notes.numbers[h], np.linalg.norm(by_h), rtol=1e-5)
    np.testing.assert_allclose(notes.numbers[w], np.linalg.norm(X.T @ (by_h * (1 - value**2))), rtol=1e-5)
    assert notes.numbers[cost] == 1
    scale = notes.scale([notes.note([node]) for node in (w, h, cost)])
    places = [scale.place(number) for number in sorted(notes.numbers[n] for n in (w, h))]
    assert places == [0, 1]
    assert notes.note([cost]) == Note(("1",))  # without a color: its norm is always 1


def test_vanishing_gradients_are_drawn_lighter():
    """In a network with vanishing gradients, ∂cost/∂h_t and the darkness of boxes grow with t."""
    network = rnn.Network([rnn.Elman(4)], 3, 3, seed=1)
    network.parameters["layer0.W_hh"].value = 0.1 * np.eye(4, dtype="float32")
    u = network.unroll(time=6, batch=1, unscored=5)
    drawing = viz.draw(u.cost, notes=viz.gradients(u.cost))
    picture = drawing.picture
    edges = [re.findall(r"^  \w+ -> \w+", d.dot, re.M) for d in (drawing, viz.draw(u.cost))]
    assert edges[0] == edges[1]
    boxes = sorted((b for b in picture.shapes if b.kind.name == "CELL"), key=lambda b: b.column)
    heats = [box.note.heat for box in boxes]
    assert heats == sorted(heats)
    outputs = {box.note for box in picture.shapes if box.kind.name == "OUTPUT" and box.column < 5}
    assert outputs == {Note(("0",))}  # they have no loss
    assert all(a < 0.2 * b for a, b in itertools.pairwise(heats))
    fills = [box.note.fill(viz.LIGHT, picture.scale) for box in boxes]
    light = [sum(int(fill[i : i + 2], 16) for i in (1, 3, 5)) for fill in fills]
    assert light == sorted(light, reverse=True)
    assert all(f'fillcolor="{fill}"' in drawing.dot for fill in fills)


def test_times_match_the_profile(net):
    function = gn.compile(net[-1], backend="numpy")
    notes = viz.times(function)
    numbers = {node: notes.numbers[node] for node in function.graph.order if node.inputs}
    assert notes.together(list(numbers)) == pytest.approx(sum(numbers.values()))
    assert viz.draw(function, notes=notes).picture.scale.high == max(numbers.values())


def test_changes_show_the_effect_of_a_pass():
    x = gn.input((2, 3), name="x")
    before = gn.Graph(gn.tanh(x) + gn.tanh(x))  # two equal nodes, of one line
    for after, count in ((gn.passes.merge(before), 1), (before, 0)):
        gone, new = viz.changes(before, after)
        assert (len(gone.nodes), len(new.nodes)) == (count, 0)


def test_notes_are_legible_in_every_theme(net):
    for theme, style in THEMES.items():
        with case(theme):
            assert viz.draw(net[-1], notes=viz.gradients(net[-1]), theme=theme).svg
            fills = [between(style.sequence, place) for place in np.linspace(0, 1, 21)]
            for ink, ground in (
                *((ink_on(fill), fill) for fill in fills), (style.text, style.background),
                (style.text, style.operator), (style.text, style.label), (style.leaf_text, style.leaf),
                (style.cost_text, style.cost), (style.leaf_text, style.constant), (style.text, style.cluster),
            ):  # fmt: skip
                low, high = sorted((luminance(ink), luminance(ground)))
                assert (high + 0.05) / (low + 0.05) > 4.5, (ink, ground)
            lightness = [luminance(fill) for fill in fills]
            assert lightness in (sorted(lightness), sorted(lightness, reverse=True))


def luminance(colour: str) -> float:
    """Relative luminance, from the definition (WCAG 2.1)."""
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.03928, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_scales_hold_values_of_different_magnitude():
    scale = NoteScale("", 1e-30, 1e30, ("", ""), logarithmic=True)
    assert scale.place(1.0) == pytest.approx(0.5)
    assert scale.place(0.0) == scale.place(float("nan")) == 0.0
    assert NoteScale("", 2.0, 2.0, ("", ""), logarithmic=True).place(2.0) == 1.0
    assert [NoteScale("", 0.0, 4.0, ("", "")).place(x) for x in (0.0, 1.0, 4.0)] == [0.0, 0.25, 1.0]


def test_values_and_gradients_use_the_same_random_inputs():
    """Includes gradients that do not depend on an input."""
    a, b = gn.input((2,), name="a"), gn.input((2,), name="b")
    cost = gn.sum(gn.concatenate([a, a])) + gn.sum(b * b)
    drawn = viz.values(cost).arrays[b]
    assert viz.gradients(cost).numbers[b] == pytest.approx(2 * np.linalg.norm(drawn))


def test_derivatives_through_integers_are_zero():
    x = gn.input((3,), name="x")
    cost = gn.cast(gn.sum(gn.argmax(gn.reshape(x, (1, 3)), axis=1)), "float32")
    nodes = [node for node in gn.Graph(cost).order if node.dtype.kind == "f"]
    assert viz.gradients(cost).numbers == {**dict.fromkeys(nodes, 0.0), cost: 1.0}


def test_overflowing_values_are_drawn_without_a_warning():
    x = gn.input((30, 30), "float64", name="x")
    cost = gn.sum(x * x)
    array = np.full((30, 30), 1e300)
    array[0, :2] = np.inf, -np.inf
    assert np.isnan(heat_map(array)[0][0])
    notes = viz.gradients(cost, {x: array})
    assert notes.numbers[x] == np.inf
    drawing = viz.draw(cost, notes=notes)
    assert drawing.picture.scale.place(np.inf) == 1.0
    assert f'fillcolor="{between(viz.LIGHT.sequence, 1.0)}"' in drawing.dot
    assert viz.draw(cost, notes=viz.values(cost, {x: array})).svg
    assert viz.mirror(cost, feeds={x: array}).svg


def test_merged_nodes_use_all_derivatives_read_by_others():
    x = gn.input((2,), "float64", name="x")
    inner = x + 1.0  # the greatest, and read only inside
    small = inner * 10.0
    large = small * 10.0
    cost = gn.sum(large) + gn.sum(small)
    notes = viz.gradients(cost, {x: np.zeros(2)})
    numbers = [notes.numbers[node] for node in (inner, small, large)]
    np.testing.assert_allclose(numbers, np.sqrt(2) * np.array([110.0, 11.0, 1.0]))
    outside = np.hypot(notes.numbers[small], notes.numbers[large])  # small is read inside and outside
    assert notes.note([inner, small, large]).heat == pytest.approx(outside)
    assert notes.note([inner]).heat == notes.numbers[inner]
    other = x * 0.5
    notes = viz.gradients(cost + 100.0 * gn.sum(other) + gn.sum(inner * 0.5), {x: np.zeros(2)})
    assert notes.note([large, other]).heat == pytest.approx(
        np.hypot(notes.numbers[other], notes.numbers[large])
    )


class Two(rnn.Cell):
    """h' = tanh(x, h, m);  m' = [h', m]"""

    states = (rnn.State("h"), rnn.State("m", "memory"))
    output = rnn.State("y")
    memory = 8

    def step(self, x, *given):
        order = [state.name for state in self.states]
        old = dict(zip(order, given, strict=True))
        new = {"h": gn.tanh(self.affine("h", x=x, **old))}
        new["m"] = gn.concatenate([new["h"], old["m"][:, :4]], axis=1)
        return new["h"], *(new[name] for name in order)


class Turned(Two):
    states = Two.states[::-1]


def test_boxes_of_all_steps_show_the_output():
    """For any order of states, and at the last step, where no state is read."""
    for cell in (Two, Turned):
        u = rnn.Network([cell(4)], 3, 3).unroll(time=3, batch=2)
        mirror = viz.mirror(u.cost).picture
        for side in (viz.draw(u.cost, notes=viz.values(u.cost)).picture, mirror, mirror.beside):
            lines = [box.note.lines[0] for box in side.shapes if box.kind.name == "CELL"]
            assert lines == ["2 × 4"] * 3, cell


def test_steps_without_a_loss_are_not_linked_to_the_cost():
    u = rnn.Network([rnn.Elman(4)], 3, 3).unroll(time=4, batch=2, unscored=2)
    links = [link.tail for link in viz.draw(u.cost).picture.edges if link.head == "cost"]
    assert sorted(links) == ["b2_2", "b2_3", "t0"]


def test_rewritten_nodes_are_matched_by_line():
    a, b = gn.input((2,), name="a"), gn.input((2,), name="b")
    p, q = gn.tanh(a * 1.0), gn.tanh(b * 1.0)
    before = gn.Graph([p, q])
    after = gn.Graph(gn.passes.simplify(before).outputs[1])
    assert after.outputs[0] is not q
    assert kept_nodes(before, after)[after.outputs[0]] is q


def test_nodes_of_one_line_are_matched_in_order():
    a, b, c = (gn.input((2,), name=name) for name in "abc")
    p = gn.tanh(a)
    with attributed_to() as made:
        made.model = p
        q = gn.tanh(b)
    new = [node.replace_inputs((c,)) for node in (p, q)]
    assert len({node.source_serial for node in (p, q, *new)}) == 1
    kept = kept_nodes(gn.Graph([p, q]), gn.Graph(new))
    assert [kept[node] for node in new] == [p, q]


def test_weights_and_pre_activations_are_labelled_with_their_units() -> None:
    u = rnn.Network([rnn.GRU(4)], 3, 3).unroll(2, 2)
    groups = unit_groups(u.cost, u.network.parameters)
    notes = viz.units(groups)
    for number, group in enumerate(groups):
        for incoming in group.incoming:
            assert notes.note([incoming.weight]).lines == (f"into V{number + 1}",)
        for at in group.pre_activations:
            note = notes.note([u.inputs, at.V])
            assert (note.lines, note.heat) == ((f"V{number + 1}: {group.units} units",), number + 1)
    assert notes.note([u.inputs]) is None
    full, compact = (viz.draw(u.cost, style, closed=False, notes=notes).dot for style in ("full", "compact"))
    assert "into V1" in full  # in the compact style weights are words at the edges
    for words in ("V1: 4 units", "V3: 4 units", "units, by pre-activation"):
        assert words in full
        assert words in compact
    u = rnn.Network([rnn.GLNN(4, edges=2)], 3, 3).unroll(2, 2)
    notes = viz.units(unit_groups(u.cost, u.network.parameters))
    assert "4 units for each of 3 symbols" in viz.draw(u.cost, "full", closed=False, notes=notes).dot


def test_notes_of_another_graph_are_rejected() -> None:
    one, other = (rnn.Network([rnn.Elman(2)], 3, 3).unroll(3, 1) for _ in range(2))
    for notes in (viz.gradients(other.cost), viz.values(other.cost)):
        for closed in (False, True):
            with pytest.raises(viz.DrawingError, match="another graph"):
                viz.draw(one.cost, closed=closed, notes=notes)
