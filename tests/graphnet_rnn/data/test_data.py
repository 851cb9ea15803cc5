"""Texts: reading files, vocabularies, splits and batches."""

from __future__ import annotations

import errno
import os
import re
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphnet_rnn.data import Batches, Corpus, Vocabulary, read_text, standard_library_text
from graphnet_rnn.errors import DataError, UsageError
from tests.tables import case

#: Any characters; halves of one (category Cs) are none, and a vocabulary refuses them.
any_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)


# -- files ---------------------------------------------------------------------------------------


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=re.escape(f"there is no file {tmp_path / 'none.txt'}.")):
        read_text(tmp_path / "none.txt")
    with pytest.raises(DataError, match=re.escape(f"{tmp_path} is a folder; name a file in it.")):
        read_text(tmp_path)


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("graphnet.system.files.os.open", refuse)
    with pytest.raises(DataError, match="cannot be read: Permission denied"):
        read_text(tmp_path / "secret.txt")


def test_bad_file(tmp_path: Path) -> None:
    for raw, encoding, content in (
        (b"", "utf-8", "is empty."),
        (b"ab\0c", "utf-8", "is a binary file (byte 0 at offset 2), not a text."),
        (
            b"gr\xfc\xdfe",
            "utf-8",
            "is not utf-8 text (byte 0xfc at offset 2); name its encoding, e.g. --encoding latin-1.",
        ),
        ("grüße".encode(), "ascii", "is not ascii text (byte 0xc3 at offset 2)"),
        (b"abc", "klingon", "'klingon' is not an encoding that Python knows."),
        (b"\x00\xd8a\x00", "utf-16-le", "is not utf-16-le text (byte 0x00 at offset 0)"),
    ):
        with case(content):
            file = tmp_path / "text.txt"
            file.write_bytes(raw)
            with pytest.raises(DataError, match=re.escape(content)) as caught:
                read_text(file, encoding)
            assert str(file) in str(caught.value) or "encoding" in str(caught.value)


def test_good_file(tmp_path: Path) -> None:
    for raw, encoding, text in (
        (b"a\r\nb\rc\n\r\n", "utf-8", "a\nb\nc\n\n"),
        (b"\r\r\n\n", "utf-8", "\n\n\n"),
        (b"\xef\xbb\xbfa", "utf-8", "\ufeffa"),
        (b"\xef\xbb\xbfa", "utf-8-sig", "a"),
        (b"gr\xfc\xdfe", "latin-1", "grüße"),
        ("a\n😀".encode("utf-16"), "utf-16", "a\n😀"),
        ("\u2028\x0b".encode(), "utf-8", "\u2028\x0b"),
    ):
        with case(raw, encoding, text):
            file = tmp_path / "text.txt"
            file.write_bytes(raw)
            assert read_text(file, encoding) == text


def test_standard_library_text_is_long_and_always_the_same() -> None:
    text = standard_library_text()
    assert len(text) == 1_000_000
    assert standard_library_text(1000) == text[:1000] == standard_library_text(1000)
    assert text.count("\ndef ") > 100
    assert len(Vocabulary.of(text)) < 300


# -- vocabularies --------------------------------------------------------------------------------


@given(any_text)
def test_encode_then_decode(text: str) -> None:
    vocabulary = Vocabulary.of(text)
    symbols = vocabulary.encode(text)
    assert symbols.dtype == np.int64
    assert symbols.shape == (len(text),)
    assert vocabulary.decode(symbols) == text
    assert set(symbols) == set(range(len(vocabulary)))


def test_half_a_character_is_none() -> None:
    with pytest.raises(DataError, match="is only half of one"):
        Vocabulary.of("ab\ud800")


@given(any_text, any_text)
def test_unseen_characters_are_found_and_replaced(known: str, text: str) -> None:
    vocabulary, stand_in = Vocabulary.of(known), known[0]
    unseen = set(text) - set(known)
    expected = "".join(stand_in if c in unseen else c for c in text)
    assert vocabulary.decode(vocabulary.encode(text, unknown=stand_in)) == expected
    if unseen:
        with pytest.raises(DataError, match=rf"holds {len(unseen)} character\(s\)"):
            vocabulary.encode(text)
    else:
        assert vocabulary.decode(vocabulary.encode(text)) == text


def test_unseen_characters_are_named() -> None:
    with pytest.raises(DataError) as caught:
        Vocabulary.of("abc").encode("a😀b\nz")
    assert "the text holds 3 character(s) that the model has not seen in training: '\\n' 'z' '😀'." in str(
        caught.value
    )
    assert "--unknown '?'" in str(caught.value)
    with pytest.raises(DataError, match=re.escape("'d' 'e' 'f' 'g' 'h' 'i' 'j' 'k' ...")):
        Vocabulary.of("abc").encode("defghijkl")


def test_stand_in_must_be_a_known_character() -> None:
    for unknown in ("z", "ab", ""):
        with (
            case(unknown),
            pytest.raises(
                DataError, match=re.escape(f"unknown={unknown!r} must itself be one character that the model")
            ),
        ):
            Vocabulary.of("abc").encode("x", unknown=unknown)


def test_empty_text_is_no_symbols() -> None:
    assert Vocabulary.of("abc").encode("").shape == (0,)


def test_no_vocabulary() -> None:
    for characters in ("", "ba", "aab"):
        with (
            case(characters),
            pytest.raises(DataError, match="each character once, sorted, and at least one"),
        ):
            Vocabulary(characters)


# -- splits --------------------------------------------------------------------------------------


@given(st.integers(1, 500))
def test_split_keeps_order_and_loses_nothing(length: int) -> None:
    text = "".join(chr(97 + i % 26) for i in range(length))
    corpus = Corpus.split(text)
    whole = np.concatenate([corpus.train, corpus.valid, corpus.test])
    assert corpus.vocabulary.decode(whole) == text
    assert abs(len(corpus.train) - 0.8 * length) <= 1
    assert abs(len(corpus.valid) - 0.1 * length) <= 1
    assert abs(len(corpus.test) - 0.1 * length) <= 1


def test_split_of_a_thousand() -> None:
    corpus = Corpus.split("ab" * 500)
    assert [len(part) for part in (corpus.train, corpus.valid, corpus.test)] == [800, 100, 100]
    corpus = Corpus.split("ab" * 500, valid=0.25, test=0)
    assert [len(part) for part in (corpus.train, corpus.valid, corpus.test)] == [750, 250, 0]


def test_impossible_shares() -> None:
    for valid, test in ((-0.1, 0.1), (0.1, -0.1), (0.5, 0.5), (float("nan"), 0.1)):
        with case(valid, test), pytest.raises(DataError, match="must be >= 0 and sum to less than 1"):
            Corpus.split("abc", valid, test)


def test_empty_texts() -> None:
    with pytest.raises(DataError, match="the text is empty"):
        Corpus.split("")
    with pytest.raises(DataError, match="the training text is empty"):
        Corpus.given("", "a")


def test_a_file_s_name_is_not_a_text(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text("abc" * 100, encoding="utf-8")
    for name in (str(file), file):
        with pytest.raises(
            DataError, match=r"the text is '.*text\.txt', a file's name; .* rnn\.data\.read_text"
        ):
            Corpus.split(name)  # type: ignore[arg-type]
        with pytest.raises(DataError, match=r"the training text is '.*', a file's name"):
            Corpus.given(name, "a")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="the text must be a str, not bytes"):
        Corpus.split(b"abc")  # type: ignore[arg-type]
    assert len(Corpus.split("no name at all " * 1000).train) == 12_000


def test_given_texts_share_the_training_vocabulary() -> None:
    corpus = Corpus.given("cab", "bb", "ac")
    assert corpus.vocabulary.characters == "abc"
    assert [part.tolist() for part in (corpus.train, corpus.valid, corpus.test)] == [
        [2, 0, 1],
        [1, 1],
        [0, 2],
    ]
    with pytest.raises(DataError, match="has not seen in training: 'x'"):
        Corpus.given("cab", "bxb")


# -- batches -------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.integers(1, 7), st.integers(1, 6), st.integers(0, 60))
def test_batches(time: int, batch: int, extra: int) -> None:
    """Targets are the next symbols; each lane is contiguous over all pieces; lanes follow one another."""
    symbols = np.arange(time * batch + 1 + extra)
    batches = Batches(symbols, time, batch)
    pieces = list(batches)
    assert len(pieces) == len(batches) >= 1
    inputs = np.concatenate([x for x, _ in pieces])
    targets = np.concatenate([t for _, t in pieces])
    assert all(x.shape == t.shape == (time, batch) for x, t in pieces)
    assert np.array_equal(targets, inputs + 1)
    assert (np.diff(inputs, axis=0) == 1).all()
    lane = (len(symbols) - 1) // batch
    assert inputs[0].tolist() == [k * lane for k in range(batch)]
    left_out = len(symbols) - 1 - inputs.size
    assert left_out < time * batch + batch


def test_lanes_follow_the_text() -> None:
    inputs, targets = Batches(np.arange(13), time=3, batch=2)[1]
    assert inputs.T.tolist() == [[3, 4, 5], [9, 10, 11]]
    assert targets.T.tolist() == [[4, 5, 6], [10, 11, 12]]


def test_exactly_the_shortest_text() -> None:
    assert len(Batches(np.zeros(3 * 4 + 1, np.int64), time=3, batch=4)) == 1
    with pytest.raises(DataError) as caught:
        Batches(np.zeros(3 * 4, np.int64), time=3, batch=4)
    assert "the text has 12 characters, fewer than one batch needs: 4 lanes of 3 steps take 13." in str(
        caught.value
    )
    assert "Use a longer text, or a smaller batch or time." in str(caught.value)


def test_no_text_at_all() -> None:
    for length in (0, 1):
        with case(length), pytest.raises(DataError, match=f"the text has {length} characters"):
            Batches(np.zeros(length, np.int64), 1, 1)


def test_piece_out_of_range() -> None:
    for i in (2, -1):
        with case(i), pytest.raises(IndexError, match=f"piece {i} of 2"):
            Batches(np.arange(13), 3, 2)[i]


def test_impossible_sizes() -> None:
    for sizes, content in (
        ((0, 2), "time must be a whole number >= 1, not 0"),
        ((3, 0), "batch must be a whole number >= 1, not 0"),
        ((3, -1), "batch must be a whole number >= 1, not -1"),
        ((-3, -1), "time must be a whole number >= 1, not -3"),
        ((1.5, 1), "time must be a whole number >= 1, not 1.5"),
    ):
        with case(sizes, content), pytest.raises(UsageError, match=re.escape(content)):
            Batches(np.arange(100), *sizes)


# -- files, a piece at a time ---------------------------------------------------------------------

ODD = "a\r\nb\rc\nä€𝄞\r\r\n" * 9


@pytest.fixture(params=[1, 2, 3, 7, 1 << 20])
def small_pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is cut off between two pieces: characters of several bytes, and the two of a line's end."""
    monkeypatch.setattr("graphnet_rnn.data.characters.PIECE", request.param)
    monkeypatch.setattr("graphnet_rnn.data.text.PIECE", request.param)


@pytest.mark.usefixtures("small_pieces")
def test_a_file_is_read_as_its_text(tmp_path: Path) -> None:
    for encoding in ("utf-8", "utf-16", "utf-32-le", "utf-7"):
        with case(encoding):
            file = tmp_path / "text.txt"
            file.write_bytes(ODD.encode(encoding))
            text = ODD.replace("\r\n", "\n").replace("\r", "\n")
            assert read_text(file, encoding) == text
            for read, made in (
                (Corpus.read(file, encoding=encoding), Corpus.split(text)),
                (Corpus.read(file, 0.2, 0.3, encoding=encoding), Corpus.split(text, 0.2, 0.3)),
                (Corpus.read(file, file, encoding=encoding), Corpus.given(text, text)),
                (Corpus.read(file, file, file, "a", encoding), Corpus.given(text, text, text, "a")),
            ):
                assert read.vocabulary == made.vocabulary
                for name in ("train", "valid", "test"):
                    assert np.array_equal(getattr(read, name), getattr(made, name))


@pytest.mark.usefixtures("small_pieces")
def test_where_a_file_is_no_text(tmp_path: Path) -> None:
    for content, encoding, says in (
        (b"abcd\xffe", "utf-8", "byte 0xff at offset 4"),
        ("ab€".encode()[:-1], "utf-8", "byte 0xe2 at offset 2"),
        (b"abcd\xe4", "ascii", "byte 0xe4 at offset 4"),
        (b"ab", "hex", "'hex' is not an encoding"),
    ):
        with case(content, encoding, says):
            file = tmp_path / "text.txt"
            file.write_bytes(content)
            for read in (read_text, lambda file, encoding: Corpus.read(file, encoding=encoding)):
                with pytest.raises(DataError, match=f"{re.escape(str(file))}.*{says}|^{says}"):
                    read(file, encoding)


def test_symbols_take_a_byte_or_two() -> None:
    for count, dtype in ((2, "u1"), (256, "u1"), (257, "u2")):
        corpus = Corpus.split("".join(map(chr, range(1, count + 1))) * 2)
        assert {part.dtype for part in (corpus.train, corpus.valid, corpus.test)} == {np.dtype(dtype)}
    given = Corpus(*[np.array([0, 1, 1])] * 3, Vocabulary("ab"))
    assert given.train.dtype == np.uint8


def test_long_texts_lie_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the same, and little of them is in memory while they are read, trained on and evaluated."""
    text, file = "the quick brown fox. " * 200_000, tmp_path / "text.txt"
    file.write_text(text, encoding="utf-8")
    monkeypatch.setattr("graphnet_rnn.data.symbols.MAPPED", 1 << 20)
    for module in ("characters", "text"):
        monkeypatch.setattr(f"graphnet_rnn.data.{module}.PIECE", 1 << 16)
    tracemalloc.start()
    corpus = Corpus.read(file)
    batches = Batches(corpus.train, 50, 32)
    pieces = [batches[0], batches[len(batches) - 1]]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(corpus.train.base, np.memmap) or isinstance(corpus.train, np.memmap)
    assert peak < 2 * len(text) + 6e6, "a table of all characters there are takes 6 MB"
    made = Corpus.split(text)
    assert np.array_equal(corpus.train, made.train)
    for piece, expected in zip(pieces, (batches[0], batches[len(batches) - 1]), strict=True):
        assert np.array_equal(piece, expected)
    with pytest.raises(ValueError, match="read-only"):
        corpus.train[0] = 1


def test_no_room_for_a_long_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "text.txt"
    file.write_text("abc" * 1000, encoding="utf-8")
    monkeypatch.setattr("graphnet_rnn.data.symbols.MAPPED", 100)

    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(DataError, match=r"which cannot be written: No space left on device.*TMPDIR"):
        Corpus.read(file)


@pytest.mark.parametrize("given", [False, True], ids=["split", "given"])
def test_a_text_that_grows_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: bool
) -> None:
    """Once for its characters, once for its symbols; what it did not hold at first is no fault of a vocabulary."""
    file, valid = tmp_path / "text.txt", tmp_path / "valid.txt"
    file.write_text("abc" * 100, encoding="utf-8")
    valid.write_text("abc", encoding="utf-8")
    whole = Vocabulary.encoded

    def grown(self: Vocabulary, *arguments: Any) -> Any:
        with file.open("a", encoding="utf-8") as more:
            more.write("d")
        return whole(self, *arguments)

    monkeypatch.setattr(Vocabulary, "encoded", grown)
    with pytest.raises(DataError, match=r"was written to while it was read.*read it again once it is whole"):
        Corpus.read(file, *[valid] * given)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with a name")
def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(pipe, os.O_WRONLY)
    os.write(writer, b"abc" * 100)
    os.close(reader)
    thread = threading.Timer(0.2, os.close, [writer])
    thread.start()
    try:
        assert np.array_equal(Corpus.read(pipe).train, Corpus.split("abc" * 100).train)
    finally:
        thread.join()


def test_folds_divide_a_text_in_the_order_of_time() -> None:
    text = "abcdefghij" * 11 + "klm"
    corpus = Corpus.split(text)
    both, test = text[: -len(corpus.test)], text[-len(corpus.test) :]
    read = corpus.vocabulary.decode
    blocks = []
    for number in range(4):
        fold = corpus.fold(number, 4, gap=3)
        block = read(fold.valid)
        begin = sum(map(len, blocks))
        assert both[begin : begin + len(block)] == block
        assert read(fold.train) == both[: max(0, begin - 3)] + both[begin + len(block) + 3 :]
        assert read(fold.test) == test
        assert fold.vocabulary == corpus.vocabulary
        blocks.append(block)
    assert "".join(blocks) == both
    assert max(map(len, blocks)) - min(map(len, blocks)) <= 1


def test_folds_that_cannot_be() -> None:
    for chosen, words in (
        ((4, 4), "number must be"),
        ((0, 1), "folds must be"),
        ((0, 2, -1), "gap must be"),
        ((0, 2, 1000), "leave none to train or to validate on"),
        ((0, 10_000), "leave none to train"),
    ):
        with case(chosen, words), pytest.raises((DataError, UsageError), match=words):
            Corpus.split("abcdefghij" * 10).fold(*chosen)
