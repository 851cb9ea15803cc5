"""Draft matches reading the whole text; Desk and Document: orders, files, recovery of text."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn.apps.writer import Desk, Document, Draft, Snapshot, document, draft
from graphnet_rnn.apps.writer.own_model import LARGEST, documentation, main, own_model
from graphnet_rnn.errors import DataError, ModelFileError, SaveError, TrainingError, UsageError
from tests.tables import case

LETTERS = "\n abcdefgh"


def network(cell: Any = rnn.LSTM, **settings: Any) -> rnn.Network:
    net = rnn.Network([cell(12)], len(LETTERS), len(LETTERS), seed=2, dtype="float64", **settings)
    net.vocabulary = rnn.data.Vocabulary(LETTERS)
    net.theta = 3 * net.theta
    return net


def expected_nats(net: rnn.Network, text: str) -> list[float | None]:
    """Reads the whole text from its start, without characters that the model does not know."""
    known = "".join(c for c in text if c in LETTERS)
    if not known:
        return [None] * len(text)
    nats = iter(rnn.read(net, known, context="\n").nats)
    return [next(nats) if c in LETTERS else None for c in text]


def require_as_read(d: Draft) -> None:
    expected = expected_nats(d.network, d.text)
    as_array = [np.array(nats, float) for nats in (d.nats, expected)]  # None is nan
    np.testing.assert_allclose(*as_array, rtol=1e-9)
    known = [n for n in expected if n is not None]
    assert d.bits == pytest.approx(np.mean(known) / math.log(2)) if known else math.isnan(d.bits)
    assert d.unknown == sum(c not in LETTERS for c in d.text)


LONG = [pytest.param(rnn.LSTM, "learned", seed, marks=pytest.mark.slow) for seed in (1, 2)]


@pytest.mark.parametrize(("cell", "initial", "seed"), [(rnn.LSTM, "zero", 0), (rnn.GRU, "learned", 0), *LONG])
def test_orders_in_any_sequence_match_reading_the_whole_text(cell: Any, initial: str, seed: int) -> None:
    """After typing, accepting, other suggestions and undoing in random order."""
    draws = np.random.default_rng(seed)
    d = Draft(network(cell, initial_state=initial), seed=1)
    for _ in range(300):
        match draws.integers(0, 7):
            case 0 | 1:
                d.type("".join(draws.choice([*LETTERS, "é🙂"], draws.integers(1, 4))))
            case 2:
                d.suggest()
                d.accept()
            case 3:
                d.grow()
                d.type(d.suggestion[:1])  # along the suggestion
            case 4:
                d.forget_suggestion()
            case 5:
                d.temperature = float(draws.choice([0.0, 0.5, 1.5]))
            case _:
                for _ in range(draws.integers(1, 6)):
                    d.undo()
    assert len(d.text) > 40
    require_as_read(d)


def test_suggestions_end_before_white_space() -> None:
    d = Draft(network(), temperature=1.0)
    for _ in range(40):
        found = d.suggest()
        assert d.complete
        assert 1 <= len(found) <= draft.LONGEST
        assert len(found.split()) < 2
        assert found == found.rstrip() or not found.strip()
        d.accept()
    assert " " in d.text or "\n" in d.text


def test_suggestions_at_temperature_0_are_the_likeliest() -> None:
    d = Draft(network(), temperature=0.0)
    d.type("ab c")
    first = d.suggest()
    assert len(first) > 1
    before = "\nab c"
    symbols = d.network.vocabulary.encode(before + first)[:-1]
    outputs, _ = rnn.run(d.network, np.asarray(symbols)[:, None])
    likeliest = outputs[len(before) - 1 :, 0].argmax(axis=1)
    assert d.network.vocabulary.decode(likeliest) == first
    d.type(first[0])
    assert (d.suggestion, d.complete) == (first[1:], True)
    d.type("h" if first[1] != "h" else "g")
    assert d.suggestion == ""


def test_undo_removes_whole_suggestions_without_reading_again(monkeypatch: Any) -> None:
    d = Draft(network())
    d.type("ab ")
    d.suggest()
    accepted = d.accept()
    d.type("cd")
    monkeypatch.setattr(d, "_step", None)
    assert [d.undo() for _ in range(4)] == ["d", "c", accepted, " "]
    assert d.text == "ab"
    assert d.accepted == []
    monkeypatch.undo()
    d.type("x")
    assert [d.undo() for _ in range(4)] == ["x", "b", "a", ""]


def test_states_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft, "STATES", 1)
    d, text = Draft(network()), "abcd efg\n" * 60
    d.type(text)
    assert len(d._marks) <= 4 * draft.KEPT + 1
    for _ in range(len(text) - 7):
        d.undo()
    d.type("hh")
    assert d.text == "abcd efhh"
    require_as_read(d)


def test_only_the_end_of_a_long_text_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft, "CONTEXT", 30)
    text = "abcd éfg\n" * 20
    d = Draft(network())
    d.replace(text)
    assert (d.text, d.unknown) == (text, 20)
    assert d.nats[:150] == [None] * 150
    known = expected_nats(d.network, text[150:])
    np.testing.assert_allclose(np.array(d.nats[150:], float), np.array(known, float), rtol=1e-9)
    for _ in range(100):
        d.undo()
    d.type("ab")
    assert d.text == text[:80] + "ab"
    assert d.unknown == text[:80].count("é")
    assert d.nats[-1] == pytest.approx(expected_nats(d.network, text[54:80] + "ab")[-1])
    # What was not read before is judged, too, now that it is read.
    assert len([n for n, c in zip(d.nats, d.text, strict=True) if n is not None or c == "é"]) >= 30
    assert d.bits == pytest.approx(np.mean([n for n in d.nats if n is not None]) / math.log(2))
    d.replace("")
    require_as_read(d)


def test_learning_matches_dynamic_evaluation() -> None:
    """The losses equal those of DynamicEvaluation on the same text, with a line end before it."""
    net, text = network(), "abc dafe\nhhga bc" * 4
    d = Draft(net, learn=rnn.SGD(0.5), piece=8)
    for character in text:
        d.type(character)
        d.learn()
    assert d.lessons == 8
    twin = network()
    dynamic = rnn.online.DynamicEvaluation(twin, rnn.SGD(0.5), time=8)
    found = dynamic("\n" + text)
    scored = [n for n in d.nats if n is not None]
    assert sum(scored) == pytest.approx(found.nats, rel=1e-9)
    assert sum(scored) < 0.9 * sum(n or 0 for n in expected_nats(twin, text))


def test_predictions_use_the_learned_weights() -> None:
    """Text after the learned piece, or undone text, does not change the prediction."""

    def nats(before: str, after: str, undone: int = 0) -> float:
        d = Draft(network(), learn=rnn.SGD(0.5), piece=8)
        d.type(before)
        assert d.learn()
        for _ in range(undone):
            d.undo()
        d.type(after)
        assert d.lessons == 1
        return next(n for n in reversed(d.nats) if n is not None)

    assert nats("abc dafeé", "b") == nats("abc dafe", "éb") == nats("abc dafe", "b")
    assert nats("abc dafehhga", "b", undone=3) == nats("abc dafeh", "b")


def test_undo_restores_the_weights_before_learning() -> None:
    net = network()
    start = net.theta.copy()
    d = Draft(net, learn=rnn.Momentum(0.1), piece=5)
    weights = [start]
    for character in "abcdéefg abcé d":
        d.type(character)
        if d.learn():
            weights.append(net.theta.copy())
    assert [(a != b).any() for a, b in pairwise(weights)] == [True, True]
    state = {name: a.copy() for name, a in d._state.items()}
    for _ in range(5):
        d.undo()
    assert d.lessons == 1
    np.testing.assert_array_equal(net.theta, weights[1])
    d.type("bcé d")
    d.learn()
    np.testing.assert_array_equal(net.theta, weights[2])
    for name, held in state.items():
        np.testing.assert_array_equal(d._state[name], held)
    while len(d.text) > d._lessons[-1].end:
        d.undo()
    assert d.lessons == 2  # of a text that ends where a lesson does
    while d.undo():
        pass
    np.testing.assert_array_equal(net.theta, start)


def test_weights_before_lessons_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft, "WEIGHTS", 1)
    d = Draft(network(), learn=rnn.SGD(0.1), piece=3)
    for character in "abcabcabc":
        d.type(character)
        d.learn()
    assert d.lessons == 3
    before = d.network.theta.copy()
    for _ in range(9):
        d.undo()
    assert d.lessons == 2  # what was learned earlier stays
    assert (d.network.theta != before).any()
    d.type("abc")
    assert d.can_learn


@pytest.mark.parametrize("broken", [np.nan, 1e308])
def test_lessons_with_non_finite_weights_are_undone(broken: float) -> None:
    """NaN is found by the step, an overflow of 1e308 times 10 in the weights."""
    net = network()
    start = net.theta.copy()
    d = Draft(net, learn=rnn.SGD(10.0), piece=3)
    d._slopes = lambda places: (1.0, np.full(start.shape, broken))  # type: ignore[method-assign]
    d.type("abcd")
    with pytest.raises(TrainingError, match="this step was undone; use a smaller learning rate"):
        d.learn()
    np.testing.assert_array_equal(net.theta, start)
    assert not d.can_learn
    d.type("ef")
    require_as_read(d)


# -- Desk, Document, and the model of the package -------------------------------------------------


def test_desk_types_completes_and_undoes() -> None:
    seen: list[Snapshot] = []
    with Desk(Draft(network(), temperature=0.0), seen.append) as desk:
        desk.type("ab c")
        view = desk.wait(300)
        assert (view.text, view.complete, view.changed) == ("ab c", True, True)
        assert view.suggestion
        desk.accept()
        after = desk.wait(300)
        assert after.text == "ab c" + view.suggestion
        assert after.accepted == ((4, len(after.text)),)
        desk.undo()
        assert desk.wait(300).text == "ab c"
        for degrees, temperature in ((3, 0.3), (-9, 0.0), (99, 2.0)):
            desk.warm(degrees)
            assert desk.wait(300).temperature == pytest.approx(temperature)
        desk.pause()
        desk.accept()
        paused = desk.wait(300)
        assert (paused.paused, paused.suggestion, paused.text) == (True, "", "ab c")
        desk.pause()
        assert desk.wait(300).suggestion
        desk.saved("ab c")
        assert not desk.wait(300).changed
        desk.replace("hgf")
        last = desk.wait(300)
        assert (last.text, last.changed) == ("hgf", False)
    assert not any(thread.name == "writer" for thread in threading.enumerate())
    grown = [view.suggestion for view in seen if view.text == "ab c"]
    assert any(b == a + b[-1:] and len(b) > 1 for a, b in pairwise(grown))  # letter by letter


def test_another_suggestion() -> None:
    with Desk(Draft(network(), temperature=1.5)) as desk:
        found = set()
        for _ in range(20):
            found.add(desk.wait(300).suggestion)
            desk.another()
        assert len(found) > 5
    with Desk(Draft(network(), temperature=0.0)) as desk:
        whole = desk.wait(300).suggestion
        desk.another()
        desk.accept()  # while it grows
        assert desk.wait(300).text in (whole, "")  # "": none was seen yet


def test_pasted_text_is_read_and_cleaned() -> None:
    text = "abcd efg\n" * 300
    with Desk(Draft(network())) as desk:
        desk.type(text)
        desk.type("hé")
        assert desk.wait(300).text == text + "hé"
        assert desk.view.unknown == 1
        require_as_read(desk.draft)
        desk.replace("")
        desk.type("a\r\nb\rc\x1b[31m\x00\x7f\x85\td\ud800é")
        assert desk.wait(300).text == "a\nb\nc[31m\td\ufffdé"


def test_desk_learns_when_idle_and_reports_failures() -> None:
    """The text is kept, also if a listener fails."""
    with Desk(Draft(network(), learn=rnn.SGD(0.1), piece=4)) as desk:
        desk.type("abcdabcdab")
        assert desk.wait(300).lessons == 2
        for _ in range(3):
            desk.undo()
        assert desk.wait(300).lessons == 1

    def fails(view: Snapshot) -> None:
        raise ValueError

    draft = Draft(network(), learn=rnn.SGD(0.1), piece=4)
    draft._slopes = lambda places: (np.nan, draft._theta)  # type: ignore[method-assign]
    with Desk(draft, fails) as desk:
        desk.type("abcd")
        assert "this step was undone" in desk.wait(300).message
        desk.type("e")
        view = desk.wait(300)
        assert (view.text, view.message) == ("abcde", "")


def test_unsaved_text_is_written_beside_its_file(tmp_path: Path, monkeypatch: Any) -> None:
    """Unnamed texts are written to the working folder; existing files are never replaced."""
    own, before = Document(tmp_path / "x.txt"), tmp_path / "x.txt.unsaved"
    with Desk(Draft(network())) as desk:
        assert desk.rescue(own) is None
        desk.type("abc")
        before.write_text("of last time", encoding="utf-8")
        assert own.unsaved == before
        place = desk.rescue(own)
    assert place == tmp_path / "x.txt.unsaved-2"
    assert [each.read_text(encoding="utf-8") for each in (before, place)] == ["of last time", "abc"]
    monkeypatch.chdir(tmp_path)
    nameless = Document()
    assert nameless.unsaved is None
    assert nameless.rescue("a") == Path("writing.txt.unsaved")
    private = tmp_path / "private.txt"
    private.write_text("a", encoding="utf-8")
    private.chmod(0o600)
    assert Document(private).rescue("b").stat().st_mode & 0o077 == 0
    assert nameless.unsaved is not None


def test_pasted_unread_text_is_rescued(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("graphnet_rnn.apps.writer.desk.WAIT", 0.05)
    text = "abc defg\n" * 50_000
    with Desk(Draft(network())) as desk:
        for written in ("ab", text):
            desk.type(written)
            desk.undo()
        desk.type("h")
        place = desk.rescue(Document(tmp_path / "novel.txt"))
    assert place.read_text(encoding="utf-8") == "a" + text[:-1] + "h"


def test_unchanged_text_is_saved_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    for content in (b"", b"a\nb\n", "日本 é".encode(), b"a\r\nb\r\n", b"a\r\nb\n", b"\xef\xbb\xbfa"):
        with case(content):
            path.write_bytes(content)
            own = Document(path)
            text = own.read()
            assert own.rescue(text).read_bytes() == content
            own.save(text)
            assert path.read_bytes() == content


def test_new_files_and_files_changed_by_other_programs(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    own = Document(path)
    assert own.read() == ""
    own.save("a")
    own.save("ab")
    assert path.read_text(encoding="utf-8") == "ab"
    path.write_text("another's", encoding="utf-8")
    with pytest.raises(UsageError, match=r"x\.txt was changed by another program"):
        own.save("a")
    assert path.read_text(encoding="utf-8") == "another's"
    own.save("a", over=True)
    path.unlink()
    own.save("b")
    assert path.read_text(encoding="utf-8") == "b"


def test_invalid_models_settings_and_files_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, nowhere = tmp_path / "bytes", tmp_path / "nowhere" / "x"
    there.write_bytes(b"ab\xff")
    for call, error, said in (
        (lambda: Draft(rnn.Network([rnn.Elman(3)], 3, 3)), UsageError, "must have a vocabulary"),
        (lambda: Draft(network(), temperature=-1), UsageError, "temperature must be >= 0"),
        (lambda: Draft(network(), learn=rnn.HessianFree()), UsageError, "must be a first-order optimizer"),
        (lambda: Draft(network()).type(b"ab"), UsageError, "Draft.type: characters must be a str"),
        (lambda: Draft(network()).replace(None), UsageError, "Draft.replace: text must be a str"),
        (lambda: Document(there).read(), DataError, "bytes is not a text in UTF-8: byte 2 is 0xff"),
        (lambda: Document(tmp_path).read(), DataError, "is a folder"),
        (lambda: Document(nowhere).read(), DataError, "there is no folder .*nowhere for x"),
        (lambda: Document().save("a"), UsageError, "the document has no file name yet"),
        (lambda: Document(nowhere).save("a"), SaveError, "nowhere"),
    ):
        with case(said), pytest.raises(error, match=said):
            call()
    monkeypatch.setattr(document, "LARGEST", 1)
    with pytest.raises(DataError, match="the maximum is 0 MB"):
        Document(there).read()


def test_packaged_model_is_small_and_trained_on_documentation(tmp_path: Path, monkeypatch: Any) -> None:
    """`keep` refuses a file that is not a model, and leaves the present model unchanged."""
    path = own_model()
    assert path.stat().st_size <= LARGEST
    network = rnn.load(path)
    draft = Draft(network, temperature=0.0)
    draft.type("Return the ")
    assert draft.suggest().strip().isalpha()
    text = "Return a list of the names in the current scope. If an argument is given, the default is used."
    assert rnn.read(network, text, context="\n").bits < 3.0
    assert rnn.read(network, text[::-1], context="\n").bits > 3.5
    before = path.read_bytes()
    (tmp_path / "no.safetensors").write_bytes(b"x")
    monkeypatch.setattr(sys, "argv", ["own_model", "keep", str(tmp_path / "no.safetensors")])
    with pytest.raises(ModelFileError):
        main()
    assert path.read_bytes() == before


@pytest.mark.slow
def test_documentation_text_is_reproducible(tmp_path: Path) -> None:
    """The text does not depend on the hash seed, and so on the order of sets."""
    text = documentation()
    assert len(text) > 500_000
    assert set(text) <= {"\n", *map(chr, range(32, 127))}
    command = [
        sys.executable,
        "-m",
        "graphnet_rnn.apps.writer.own_model",
        "text",
        str(tmp_path / "python.txt"),
    ]
    subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "7"}, check=True)
    assert (tmp_path / "python.txt").read_text(encoding="utf-8") == text


def test_each_letter_takes_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """One step of the network for each letter, for a text of any length."""
    draft, steps = Draft(rnn.load(own_model()), threads=1), []
    draft.type("def f(x):\n    The ")

    def counted(*arguments: Any, step: Any = draft._step) -> Any:
        steps.append(1)
        return step(*arguments)

    monkeypatch.setattr(draft, "_step", counted)
    for _ in range(20):
        if not draft.grow():
            draft.forget_suggestion()
    assert len(steps) <= 20
