"""Tapes: the flat lists that the machine runs, one for each part of a program, and the native loop that runs them.

A record is a row of 64-bit words: the address of a kernel, the record's length, and what the kernel wants.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

from graphnet.backends.numba.machine import Kernel, this_machine

__all__ = ["Native", "address_of_runner", "native", "runner"]

Native = Callable[[int], None]


@cache
def _run_text(timed: bool) -> str:
    """The native loop over the records of a tape; timed: with the ticks of each record written one after another."""

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
    """Held for good: threads may be in it at any time."""
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
    """The same, for native code to call."""
    return _kernel(_run_text(timed)).address
