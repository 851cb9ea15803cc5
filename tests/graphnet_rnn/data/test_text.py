"""Texts: reading files, vocabularies, splits and batches."""

from __future__ import annotations

import errno
import itertools
import os
import re
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from graphnet_rnn.data import Batches, Corpus, Vocabulary, read_text, standard_library_text
from graphnet_rnn.errors import DataError, UsageError
from tests.tables import case

#: Any characters; halves of one (category Cs) are none, and a vocabulary refuses them.
any_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)


def test_standard_library_text_is_long_and_always_the_same() -> None:
    text = standard_library_text()
    assert len(text) == 1_000_000
    assert standard_library_text(1000) == text[:1000] == standard_library_text(1000)
    assert text.count("\ndef ") > 100
    assert len(Vocabulary.of(text)) < 300


@given(any_text, any_text)
def test_unseen_characters_are_found_and_replaced(known: str, text: str) -> None:
    vocabulary, stand_in = Vocabulary.of(known), known[0]
    unseen = set(text) - set(known)
    expected = "".join(stand_in if c in unseen else c for c in text)
    assert vocabulary.decode(vocabulary.encode(text, unknown=stand_in)) == expected
    if unseen:
        with pytest.raises(DataError, match=rf"has {len(unseen)} character\(s\)"):
            vocabulary.encode(text)
    else:
        assert vocabulary.decode(vocabulary.encode(text)) == text


@given(any_text)
def test_split_keeps_all_characters_in_order(text: str) -> None:
    corpus = Corpus.split(text)
    symbols = corpus.vocabulary.encode(text)
    assert symbols.dtype == np.int64
    assert set(symbols) == set(range(len(corpus.vocabulary)))
    assert np.array_equal(symbols, np.concatenate([corpus.train, corpus.valid, corpus.test]))
    assert corpus.vocabulary.decode(symbols) == text
    for part, share in ((corpus.train, 0.8), (corpus.valid, 0.1), (corpus.test, 0.1)):
        assert abs(len(part) - share * len(text)) <= 1


def test_file_names_are_rejected_as_text(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text("abc" * 100, encoding="utf-8")
    for name in (str(file), file):
        with pytest.raises(
            DataError,
            match=r"text must be a text, but '.*text\.txt' is the name of a file; .* rnn\.data\.read_text",
        ):
            Corpus.split(name)  # type: ignore[arg-type]
        with pytest.raises(
            DataError, match=r"the training text must be a text, but '.*' is the name of a file"
        ):
            Corpus.given(name, "a")  # type: ignore[arg-type]
    assert len(Corpus.split("no name at all " * 1000).train) == 12_000


def test_given_texts_share_the_vocabulary_and_use_small_dtypes() -> None:
    corpus = Corpus.given("cab", "bb", "ac")
    assert corpus.vocabulary.characters == "abc"
    symbols = [part.tolist() for part in (corpus.train, corpus.valid, corpus.test)]
    assert symbols == [[2, 0, 1], [1, 1], [0, 2]]
    corpus = Corpus.split("ab" * 500, valid=0.25, test=0)
    assert [len(part) for part in (corpus.train, corpus.valid, corpus.test)] == [750, 250, 0]
    for count, dtype in ((256, "u1"), (257, "u2")):
        corpus = Corpus.split("".join(map(chr, range(1, count + 1))) * 2)
        assert {part.dtype for part in (corpus.train, corpus.valid, corpus.test)} == {np.dtype(dtype)}
    assert Corpus(*[np.array([0, 1, 1])] * 3, Vocabulary("ab")).train.dtype == np.uint8


@settings(max_examples=60)
@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 6), st.integers(0, 60))
def test_batches(stride: int, more: int, batch: int, extra: int) -> None:
    """Lanes are consecutive; pieces start k₁ steps apart; every target is scored once, in order."""
    time = stride + more - 1
    symbols = np.arange(time * batch + 1 + extra)
    batches = Batches(symbols, time, batch, stride)
    pieces, lane, scored = list(batches), (len(symbols) - 1) // batch, []
    assert len(pieces) == len(batches) == (lane - time) // stride + 1
    for i, (x, t) in enumerate(pieces):
        assert x.shape == t.shape == (time, batch)
        assert x[:, 0].tolist() == list(range(i * stride, i * stride + time))
        assert np.array_equal(x, x[:, :1] + lane * np.arange(batch))
        assert np.array_equal(t, x + 1)
        scored += t[time - stride if i else 0 :, 0].tolist()
    assert scored == list(range(1, len(scored) + 1))
    assert lane - len(scored) < stride, "less than another piece is left out"
    assert Batches(symbols, time, batch).stride == time


ODD = "a\r\nb\rc\nä€𝄞\u2028\x0b\r\r\n" * 9
PIECES = (1, 2, 3, 7, 1 << 20)


def cut(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Reads files in pieces of this size, which divide multi-byte characters and line ends."""
    for module in ("characters", "text"):
        monkeypatch.setattr(f"graphnet_rnn.data.{module}.PIECE", size)


def test_files_give_the_same_corpus_as_their_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, text = tmp_path / "text.txt", ODD.replace("\r\n", "\n").replace("\r", "\n")
    for encoding, size in itertools.product(("utf-8", "utf-8-sig", "utf-16", "utf-32-le", "utf-7"), PIECES):
        cut(monkeypatch, size)
        with case(encoding, size):
            file.write_bytes(ODD.encode(encoding))
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


def test_files_of_line_ends_and_byte_order_marks(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    for raw, encoding, text in (
        (b"\r", "utf-8", "\n"),
        ("\ufeffa".encode("gb18030"), "gb18030", "a"),
        ("\ufeffa\ufeff".encode(), "utf-8", "a\ufeff"),
    ):
        file.write_bytes(raw)
        assert read_text(file, encoding) == text


#: (content of a file, encoding, part of the error); for whole files and pieces of any size.
BAD: list[tuple[bytes, str, str]] = [
    (b"", "utf-8", "is empty."),
    (b"ab\0c", "utf-8", "is a binary file (byte 0 at offset 2), not a text."),
    (b"gr\xfc\xdfe", "utf-8", "is not utf-8 text (byte 0xfc at offset 2); name its encoding, e.g. --encodin"),
    ("ab€".encode()[:-1], "utf-8", "byte 0xe2 at offset 2"),
    (b"abcd\xe4", "ascii", "is not ascii text (byte 0xe4 at offset 4)"),
    (b"abc", "klingon", "not 'klingon'."),
    (b"ab", "hex", "not 'hex'"),
    (b"\x00\xd8a\x00", "utf-16-le", "is not utf-16-le text (byte 0x00 at offset 0)"),
]  # fmt: skip


def test_unreadable_files_raise_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse = mock.Mock(side_effect=PermissionError(13, "Permission denied"))
    with pytest.raises(DataError, match=re.escape(f"there is no file {tmp_path / 'none.txt'}.")):
        read_text(tmp_path / "none.txt")
    with pytest.raises(DataError, match=re.escape(f"{tmp_path} is a folder; name a file in it.")):
        read_text(tmp_path)
    monkeypatch.setattr("graphnet.system.files.os.open", refuse)
    with pytest.raises(DataError, match="cannot be read: Permission denied"):
        read_text(tmp_path / "secret.txt")


def test_undecodable_files_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "text.txt"
    for size in PIECES:
        cut(monkeypatch, size)
        for raw, encoding, said in BAD:
            file.write_bytes(raw)
            for read in (read_text, lambda file, encoding: Corpus.read(file, encoding=encoding)):
                with case(said, size), pytest.raises(DataError, match=re.escape(said)) as caught:
                    read(file, encoding)
                assert str(file) in str(caught.value) or "encoding" in str(caught.value)


def test_long_texts_are_memory_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long texts are mapped from a file. Reading, training and evaluation keep only a little in memory."""
    text, file = "the quick brown fox. " * 200_000, tmp_path / "text.txt"
    file.write_text(text, encoding="utf-8")
    monkeypatch.setattr("graphnet_rnn.data.symbols.MAPPED", 1 << 20)
    cut(monkeypatch, 1 << 16)
    tracemalloc.start()
    corpus = Corpus.read(file)
    batches = Batches(corpus.train, 50, 32)
    pieces = [batches[0], batches[len(batches) - 1]]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(corpus.train.base, np.memmap) or isinstance(corpus.train, np.memmap)
    assert peak < 2 * len(text) + 6e6, "a table of all characters there are takes 6 MB"
    assert np.array_equal(corpus.train, Corpus.split(text).train)
    for piece, expected in zip(pieces, (batches[0], batches[len(batches) - 1]), strict=True):
        assert np.array_equal(piece, expected)
    with pytest.raises(ValueError, match="read-only"):
        corpus.train[0] = 1
    full = mock.Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(DataError, match=r"which cannot be written: No space left on device.*TMPDIR"):
        Corpus.read(file)


def test_file_growing_during_reading_raises_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text is read twice: for characters, then for symbols. The error must not blame the vocabulary."""
    file, valid, whole = tmp_path / "text.txt", tmp_path / "valid.txt", Vocabulary.encoded
    valid.write_text("abc", encoding="utf-8")

    def grown(self: Vocabulary, *arguments: Any) -> Any:
        with file.open("a", encoding="utf-8") as more:
            more.write("d")
        return whole(self, *arguments)

    monkeypatch.setattr(Vocabulary, "encoded", grown)
    for more in ((), (valid,)):
        file.write_text("abc" * 100, encoding="utf-8")
        with (
            case(more),
            pytest.raises(DataError, match=r"changed while it was read.*read it again when"),
        ):
            Corpus.read(file, *more)


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


ABC = Vocabulary.of("abc")
UNSEEN = "the text has 3 character(s) that are not in the vocabulary of the model: '\\n' 'z' '😀'."
NO_VOCABULARY = "must be sorted and different, at least one"
SHARES = ">= 0, with a sum below 1"
SHORT = "the text has 12 characters, fewer than one batch needs: 4 lanes of 3 steps take 13. Use a longer text, or"
SYMBOLS = np.arange(100)
WHOLE = "must be a whole number >= 1, not"
LANES = np.zeros(12, np.int64)
ALPHABET = Corpus.split("abcdefghij" * 10)
#: Case -> (call, error, part of its message).
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "half a character": (lambda: Vocabulary.of("ab\ud800"), DataError, "half of a surrogate pair"),
    "unseen": (lambda: ABC.encode("a😀b\nz"), DataError, UNSEEN),
    "unseen, the remedy": (lambda: ABC.encode("z"), DataError, "--unknown '?'"),
    "many unseen": (lambda: ABC.encode("defghijkl"), DataError, "'d' 'e' 'f' 'g' 'h' 'i' 'j' 'k'"),
    "given, unseen": (lambda: Corpus.given("cab", "bxb"), DataError, "are not in the vocabulary of the model: 'x'"),
    "a stand-in unseen": (lambda: ABC.encode("x", unknown="z"), DataError, "of the vocabulary, not 'z'"),
    "no stand-in": (lambda: ABC.encode("x", unknown=""), DataError, "of the vocabulary, not ''"),
    "no characters": (lambda: Vocabulary(""), DataError, NO_VOCABULARY),
    "not sorted": (lambda: Vocabulary("ba"), DataError, NO_VOCABULARY),
    "twice": (lambda: Vocabulary("aab"), DataError, NO_VOCABULARY),
    "a share below 0": (lambda: Corpus.split("abc", -0.1, 0.1), DataError, SHARES),
    "all": (lambda: Corpus.split("abc", 0.5, 0.5), DataError, SHARES),
    "no number": (lambda: Corpus.split("abc", float("nan"), 0.1), DataError, SHARES),
    "no text": (lambda: Corpus.split(""), DataError, "the text is empty"),
    "nothing to train on": (lambda: Corpus.given("", "a"), DataError, "the training text is empty"),
    "bytes": (lambda: Corpus.split(b"abc"), DataError, "the text must be a str, not b'abc'"),
    "too short": (lambda: Batches(LANES, time=3, batch=4), DataError, SHORT),
    "no symbols": (lambda: Batches(LANES[:0], 1, 1), DataError, "the text has 0 characters"),
    "a piece too far": (lambda: Batches(SYMBOLS[:13], 3, 2)[2], IndexError, "there is no segment 2: there are 2"),
    "a piece before": (lambda: Batches(SYMBOLS[:13], 3, 2)[-1], IndexError, "there is no segment -1: there are 2"),
    "no time": (lambda: Batches(SYMBOLS, 0, 2), UsageError, f"time {WHOLE} 0"),
    "half a step": (lambda: Batches(SYMBOLS, 1.5, 1), UsageError, f"time {WHOLE} 1.5"),
    "no batch": (lambda: Batches(SYMBOLS, 3, -1), UsageError, f"batch {WHOLE} -1"),
    "no stride": (lambda: Batches(SYMBOLS, 4, 3, 0), UsageError, f"stride {WHOLE} 0"),
    "a long stride": (lambda: Batches(SYMBOLS, 4, 3, 5), UsageError, "stride must be at most time (4)"),
    "a fold too far": (lambda: ALPHABET.fold(4, 4), UsageError, "number must be"),
    "one fold": (lambda: ALPHABET.fold(0, 1), UsageError, "folds must be"),
    "a gap below 0": (lambda: ALPHABET.fold(0, 2, -1), UsageError, "gap must be"),
    "a wide gap": (lambda: ALPHABET.fold(0, 2, 1000), DataError, "leave no characters for training or for validation"),
    "many folds": (lambda: ALPHABET.fold(0, 10_000), DataError, "leave no characters for training"),
}  # fmt: skip


def test_invalid_arguments_are_rejected() -> None:
    for what, (call, error, said) in REFUSED.items():
        with case(what), pytest.raises(error, match=re.escape(said)):
            call()
    assert ABC.encode("").shape == (0,)
    assert len(Batches(np.zeros(13, np.int64), time=3, batch=4)) == 1, "the shortest text that will do"
