"""Tapes: the flat lists that the machine runs, one for each core, and the native loop that runs them.

A record is a row of 64-bit words: the address of a kernel, the record's length, and what the kernel wants.
Cores that must wait for each other meet at barriers, which are records too.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache

from graphnet.backends.numba.machine import Kernel, this_machine

__all__ = ["address_of_runner", "barrier_text", "mail", "runner"]

#: States of a mailbox.
IDLE, WORK, ASLEEP = 0, 1, 2
#: How often a worker without work looks for more before it goes to sleep: some 0.2 ms.
VIGIL = 8192
#: How often a core looks before it lets others run while it waits.
PATIENCE = 256

_PAUSE = {
    "x86": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}


def _waiting() -> tuple[str, str]:
    triple = this_machine().triple
    for name, lines in _PAUSE.items():
        if triple.startswith(name):
            return lines
    return "", ""


def _waiting_text(parameter: str, prepare: str, look: str) -> str:
    """A kernel that looks again and again, until `look` finds %there to be true."""
    declared, pause = _waiting()
    gives_way = sys.platform != "win32"
    return f"""
{declared}
{"declare i32 @sched_yield()" if gives_way else ""}
define void @kernel(ptr noalias {parameter}) #0 {{
entry:
{prepare}
  br label %look
look:
  %tries = phi i64 [ 0, %entry ], [ %more, %wait ]
{look}
  br i1 %there, label %done, label %wait0
wait0:
  {pause}
  %more = add i64 %tries, 1
  %part = and i64 %more, {PATIENCE - 1}
  %tired = icmp eq i64 %part, 0
  br i1 %tired, label %give, label %wait
give:
  {"%y = call i32 @sched_yield()" if gives_way else ""}
  br label %wait
wait:
  br label %look
done:
  ret void
}}
attributes #0 = {{ nounwind }}
"""


@cache
def barrier_text() -> str:
    """Record: address of the count of arrivals, and the count at which all have arrived.

    The word behind the count, when it is not 0, lets everyone through: the run has been given up.
    """
    prepare = """
  %a = getelementptr i64, ptr %record, i64 2
  %count = load ptr, ptr %a
  %b = getelementptr i64, ptr %record, i64 3
  %all = load i64, ptr %b
  %given_up = getelementptr i64, ptr %count, i64 1
  %old = atomicrmw add ptr %count, i64 1 acq_rel"""
    look = """
  %now = load atomic i64, ptr %count acquire, align 8
  %word = load atomic i64, ptr %given_up acquire, align 8
  %over = icmp ne i64 %word, 0
  %met = icmp sge i64 %now, %all
  %there = or i1 %met, %over"""
    return _waiting_text("%record", prepare, look)


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


def _serve_text() -> str:
    """Record: a mailbox. A worker looks into it for a while, does what it finds, and looks again.

    Words of a mailbox: 0 state (IDLE: its worker looks; WORK; ASLEEP), 1 the bounds of a tape, 2 the address of
    the loop that runs it, 3 whether it is done.
    """
    declared, pause = _waiting()
    return f"""
{declared}
define void @kernel(ptr noalias %box) #0 {{
entry:
  %tape_at = getelementptr i64, ptr %box, i64 1
  %run_at = getelementptr i64, ptr %box, i64 2
  %done_at = getelementptr i64, ptr %box, i64 3
  br label %look
look:
  %tries = phi i64 [ 0, %entry ], [ 0, %work ], [ %more, %wait ], [ 0, %stay ]
  %state = load atomic i64, ptr %box acquire, align 8
  %some = icmp eq i64 %state, {WORK}
  br i1 %some, label %work, label %none
work:
  %tape = load ptr, ptr %tape_at
  %run = load ptr, ptr %run_at
  store atomic i64 {IDLE}, ptr %box release, align 8
  call void %run(ptr %tape)
  store atomic i64 1, ptr %done_at release, align 8
  br label %look
none:
  %more = add i64 %tries, 1
  %tired = icmp sge i64 %more, {VIGIL}
  br i1 %tired, label %leave, label %wait
wait:
  {pause}
  br label %look
leave:
  %swap = cmpxchg ptr %box, i64 {IDLE}, i64 {ASLEEP} acq_rel acquire
  %left = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %left, label %done, label %stay
stay:
  br label %look
done:
  ret void
}}
attributes #0 = {{ nounwind }}
"""


_POST = f"""
define void @kernel(ptr noalias %box) #0 {{
entry:
  %done_at = getelementptr i64, ptr %box, i64 3
  %slept_at = getelementptr i64, ptr %box, i64 4
  store atomic i64 0, ptr %done_at release, align 8
  %before = atomicrmw xchg ptr %box, i64 {WORK} acq_rel
  %slept = icmp eq i64 %before, {ASLEEP}
  %word = zext i1 %slept to i64
  store i64 %word, ptr %slept_at
  ret void
}}
attributes #0 = {{ nounwind }}
"""


def _join_text() -> str:
    """Record: a mailbox; returns when its work is done."""
    prepare = "  %done_at = getelementptr i64, ptr %box, i64 3"
    look = """
  %now = load atomic i64, ptr %done_at acquire, align 8
  %there = icmp ne i64 %now, 0"""
    return _waiting_text("%box", prepare, look)


Native = Callable[[int], None]


@cache
def _kernel(text: str) -> Kernel:
    """Held for good: threads may be in it at any time."""
    (kernel,) = this_machine().kernels([text])
    return kernel


@cache
def _native(text: str) -> Native:
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_kernel(text).address)


def runner(timed: bool = False) -> Native:
    """The native loop, called with the address of (first record, end of records[, where to put times])."""
    return _native(_run_text(timed))


def address_of_runner(timed: bool) -> int:
    """The same, for native code to call."""
    return _kernel(_run_text(timed)).address


@cache
def mail() -> tuple[Native, Native, Native]:
    """serve (a worker's loop), post (puts work into a mailbox; word 4 tells if its worker slept), join (waits)."""
    return _native(_serve_text()), _native(_POST), _native(_join_text())
