"""Text pages: readings with a legend and figures, samples by epoch, in terminals and as HTML."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass

import viz
from tests.tables import case


@dataclass
class Reading:
    text: str = "<a b>"
    probabilities: tuple[float | None, ...] = (None, 0.1, 0.9, 0.5, 1.0)
    guesses: str = "<& b>"
    context: int = 0
    bits: float = 1.25
    accuracy: float = 0.75


def plain(page: viz.TextPage) -> list[str]:
    return re.sub(r"\x1b\[[\d;]*m", "", str(page)).split("\n")


def history(epochs: int, best: int = 2) -> list[dict]:
    rows: list[dict] = [{"event": "initial", "epoch": 0, "sample": "qzx"}]
    for e in range(1, epochs + 1):
        rows.append({"event": "step", "epoch": e, "train_bits": 1.0, "sample": "no"})
        rows.append({"event": "epoch", "epoch": e, "valid_bits": 2.0 + abs(e - best), "sample": f"text {e}"})
    return rows


def test_readings_have_a_legend_figures_and_wrong_guesses():
    legend, _, heading, text, guesses = plain(viz.reading(Reading()))
    assert legend.startswith("0 ")
    assert "red low, amber ½, green high; beneath it, a wrong guess" in legend
    assert heading == "cold start: 1.250 bits/char, 75.0% guessed"
    assert (text, guesses) == ("<a b>", " &")
    lines = plain(viz.reading({"cold": Reading(), "warm": Reading(context=9)}))
    both = [f"{name}: 1.250 bits/char, 75.0% guessed" for name in ("cold", "warm")]
    assert [line for line in lines if "bits/char" in line] == both
    assert "warm start, after 1,200 characters:" in str(viz.reading(Reading(context=1200)))
    nothing = Reading("a", (None,), "a", bits=float("nan"), accuracy=float("nan"))
    assert "cold start: nothing was predicted" in plain(viz.reading(nothing))


def test_html_is_one_safe_page():
    page = viz.reading(Reading(), title="<script>")
    assert page.html.startswith("<!DOCTYPE html>")
    assert "<script" not in page.html
    assert "&lt;script&gt;" in page.html
    assert "http" not in page.html
    assert '<span title="not predicted">&lt;</span>' in page.html
    assert 'title="p = 0.1">a</span>' in page.html
    assert page.html == viz.reading(Reading(), title="<script>").html


def test_themes():
    for theme, words in (("light", "red"), ("dark", "red"), ("colour-blind", "orange")):
        text = viz.reading(Reading(), theme=theme).terminal
        assert words in text
        luminance = [sum(map(int, rgb)) for rgb in re.findall(r"48;2;(\d+);(\d+);(\d+)", text)]
        assert set(re.findall(r"\x1b\[(\d+);48", text)) == ({"97"} if theme == "dark" else {"30"})
        assert max(luminance) < 330 if theme == "dark" else min(luminance) > 380
    # What dichromats without long- or middle-wave cones share is the blue channel against the yellow of the others.
    low, _, high = viz.text.SCALES["colour-blind"].colours[:3]
    assert abs((low[2] - (low[0] + low[1]) / 2) - (high[2] - (high[0] + high[1]) / 2)) > 200


def test_samples_by_epoch_with_their_bits():
    assert plain(viz.samples(history(3))) == [
        "before training", "  qzx", "",
        "epoch 1  validation 3.000 bits/char", "  text 1", "",
        "epoch 2  validation 2.000 bits/char  (best)", "  text 2", "",
        "epoch 3  validation 3.000 bits/char", "  text 3",
    ]  # fmt: skip
    rows = [{"event": "epoch", "epoch": 1, "train_loss": 0.5, "valid_loss": 0.25, "sample": "ab"}]
    assert plain(viz.samples(rows))[0].startswith("epoch 1  validation 0.250 loss")


def test_samples_of_many_epochs_include_first_best_and_last():
    for count in [1, 2, 3, 5, 8, 40, 60]:
        with case(count):
            lines = plain(viz.samples(history(50, best=37), count))
            shown = [line.split()[1] for line in lines if line and not line.startswith(" ")]
            assert len(shown) == min(count, 51)
            assert shown[-1] == "50"
            if count >= 3:
                assert shown[0] == "training"
                assert "37" in shown
                numbers = [int(n) for n in shown[1:] if n != "37"]
                assert numbers == sorted(set(numbers))


def test_named_texts_long_lines_and_control_characters():
    lines = plain(viz.samples({"argmax": "abcdefgh\n\x1b[2J", "τ = 1": ""}, width=6))
    assert lines == ["argmax", "  abcd", "  efgh", "  ␛[2J", "", "τ = 1", "  "]


def test_pages_are_saved_by_suffix_and_display_themselves(tmp_path):
    page = viz.reading(Reading())
    page.save(tmp_path / "a.html")
    page.save(str(tmp_path / "a.txt"))
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == page.html
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == page.terminal + "\n"
    bundle = page._repr_mimebundle_()
    assert bundle["text/plain"] == page.terminal
    assert page.body in bundle["text/html"]
    assert "<html" not in bundle["text/html"]
    assert repr(page) == "<TextPage 'How probable each character was'>"


def test_picture_places_characters_as_the_terminal_does(tmp_path):
    text = 'a<b&"c"\n漢 x'
    known = [0.0, 0.5, 1.0, None, 0.9, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    page = viz.TextPage("t", viz.coloured(text, known, "z" * len(text)), "", "light")
    root = ET.fromstring(page.svg)
    rows: dict[float, dict[float, str]] = {}
    for element in root.iter("{http://www.w3.org/2000/svg}text"):
        places = [float(x) for x in element.get("x").split()]
        assert len(places) == len(element.text)
        rows.setdefault(float(element.get("y")), {}).update(zip(places, element.text, strict=True))
    lines = [rows[y] for y in sorted(rows)]
    assert "".join(lines[0].values()) == 'a<b&"c"⏎'
    steps = {round(b - a, 1) for a, b in itertools.pairwise(sorted(lines[0]))}
    assert steps == {7.8}
    third = sorted(lines[2])
    assert round(third[1] - third[0], 1) == 3 * 7.8  # a wide character takes two places, a space one
    fills = {e.get("fill") for e in root.iter("{http://www.w3.org/2000/svg}rect")}
    assert {"#f4786c", "#fada78", "#7acc82"} <= fills
    page.save(tmp_path / "page.svg")
    assert (tmp_path / "page.svg").read_text(encoding="utf-8") == page.svg
