"""Tapes: the flat lists that the machine runs, one for each part of a section, and the native loop that runs them.

A record is a launch: a row of 64-bit words with the address of a kernel, the record's length, and the kernel's
arguments. Addresses in a tape are symbolic until it is loaded: a word of 2**44 or more names a piece of memory (see
`locations`) and a byte in it. A tape can therefore be stored in a file.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from graphnet.backends.numba.jobs import Record
from graphnet.backends.numba.machine import Kernel, this_machine
from graphnet.graph.node import Array, Node

Native = Callable[[int], None]
#: Bits of a symbolic address that count bytes; those above them name the piece of memory.
SHIFT = 44


def address(piece: int, byte: int) -> int:
    return (piece << SHIFT) + byte


@dataclass
class Tape:
    """One part of a program: words, positions of kernel addresses among them and their kernels, and ends of
    supersteps. owners: nodes of each record (for profiles; not stored in files).
    """

    words: Array
    heads: Array
    kernels: Array
    ends: Array
    owners: Sequence[tuple[Node, ...]]

    def of_piece(self, piece: int) -> Array:
        """Which words are addresses in this piece of memory."""
        return np.flatnonzero(self.words >> SHIFT == piece)

    def located(self, pieces: Array, kernels: Array) -> Array:
        """The words with real addresses."""
        words = self.words.copy()
        piece = words >> SHIFT
        symbolic = np.flatnonzero(piece > 0)
        words[symbolic] = pieces[piece[symbolic]] + (words[symbolic] & ((1 << SHIFT) - 1))
        words[self.heads] = kernels[self.kernels]
        return words


def make_tape(
    supersteps: Sequence[Sequence[Record]], owners: Sequence[tuple[Node, ...]], numbers: dict[str, int]
) -> Tape:
    """numbers: text of a kernel -> its number; new kernels are added."""
    words: list[int] = []
    heads: list[int] = []
    kernels: list[int] = []
    ends: list[int] = []
    for records in supersteps:
        for record in records:
            heads.append(len(words))
            kernels.append(numbers.setdefault(record.text, len(numbers)))
            words.append(0)
            words.append(2 + len(record.words))
            words.extend(record.words)
        ends.append(len(words))
    columns = [np.array(column, np.int64) for column in (words, heads, kernels, ends)]
    return Tape(columns[0], columns[1], columns[2], columns[3], owners)


@cache
def _run_text(timed: bool) -> str:
    def only(text: str) -> str:
        return text if timed else ""

    return f"""
{only("declare i64 @llvm.readcyclecounter()")}
define void @kernel(ptr noalias %tape) #0 {{
entry:
  %first = load ptr, ptr %tape
  %e = getelementptr i64, ptr %tape, i64 1
  %end = load ptr, ptr %e
  {only("%t = getelementptr i64, ptr %tape, i64 2")}
  {only("%times = load ptr, ptr %t")}
  br label %head
head:
  %record = phi ptr [ %first, %entry ], [ %next, %step ]
  {only("%at = phi ptr [ %times, %entry ], [ %at_next, %step ]")}
  %more = icmp ult ptr %record, %end
  br i1 %more, label %step, label %done
step:
  %kernel_ = load ptr, ptr %record
  {only("%t0 = call i64 @llvm.readcyclecounter()")}
  call void %kernel_(ptr %record)
  {only("%t1 = call i64 @llvm.readcyclecounter()")}
  {only("%spent = sub i64 %t1, %t0")}
  {only("store i64 %spent, ptr %at")}
  {only("%at_next = getelementptr i64, ptr %at, i64 1")}
  %l = getelementptr i64, ptr %record, i64 1
  %length = load i64, ptr %l
  %next = getelementptr i64, ptr %record, i64 %length
  br label %head
done:
  ret void
}}
attributes #0 = {{ nounwind }}
"""


@cache
def _kernel(text: str) -> Kernel:
    """Never freed, since threads may run it at any time."""
    (kernel,) = this_machine().kernels([text])
    return kernel


@cache
def native(text: str) -> Native:
    """The code with this text, to be called from Python with one address; Python's lock is free meanwhile."""
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_kernel(text).address)


def runner(timed: bool = False) -> Native:
    """The native loop, called with the address of (first record, end of records[, where to put times])."""
    return native(_run_text(timed))


def address_of_runner(timed: bool) -> int:
    """Address of the runner, for native code to call."""
    return _kernel(_run_text(timed)).address
