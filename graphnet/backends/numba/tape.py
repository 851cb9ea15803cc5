"""Tapes: the flat lists that the machine runs, one for each core, and the native loop that runs them.

A record is a row of 64-bit words: the address of a kernel, the record's length, and what the kernel wants.
Cores that must wait for each other meet at barriers, which are records too.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

from graphnet.backends.numba.machine import this_machine

__all__ = ["barrier_text", "runner"]

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


@cache
def barrier_text() -> str:
    """Record: address of the count of arrivals, and the count at which all have arrived.

    The word behind the count, when it is not 0, lets everyone through: the run has been given up.
    """
    declared, pause = _waiting()
    gives_way = sys.platform != "win32"
    lines = f"""
{declared}
{"declare i32 @sched_yield()" if gives_way else ""}
define void @kernel(ptr noalias %record) #0 {{
entry:
  %a = getelementptr i64, ptr %record, i64 2
  %count = load ptr, ptr %a
  %b = getelementptr i64, ptr %record, i64 3
  %all = load i64, ptr %b
  %given_up = getelementptr i64, ptr %count, i64 1
  %old = atomicrmw add ptr %count, i64 1 acq_rel
  br label %look
look:
  %tries = phi i64 [ 0, %entry ], [ %more, %wait ]
  %now = load atomic i64, ptr %count acquire, align 8
  %word = load atomic i64, ptr %given_up acquire, align 8
  %over = icmp ne i64 %word, 0
  %met = icmp sge i64 %now, %all
  %there = or i1 %met, %over
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
    return lines


_RUN = """
define void @kernel(ptr noalias %tape) #0 {
entry:
  %first = load ptr, ptr %tape
  %e = getelementptr i64, ptr %tape, i64 1
  %end = load ptr, ptr %e
  br label %head
head:
  %record = phi ptr [ %first, %entry ], [ %next, %step ]
  %more = icmp ult ptr %record, %end
  br i1 %more, label %step, label %done
step:
  %kernel_ = load ptr, ptr %record
  call void %kernel_(ptr %record)
  %l = getelementptr i64, ptr %record, i64 1
  %length = load i64, ptr %l
  %next = getelementptr i64, ptr %record, i64 %length
  br label %head
done:
  ret void
}
attributes #0 = { nounwind }
"""

_RUN_TIMED = """
declare i64 @llvm.readcyclecounter()
define void @kernel(ptr noalias %tape) #0 {
entry:
  %first = load ptr, ptr %tape
  %e = getelementptr i64, ptr %tape, i64 1
  %end = load ptr, ptr %e
  %t = getelementptr i64, ptr %tape, i64 2
  %times = load ptr, ptr %t
  br label %head
head:
  %record = phi ptr [ %first, %entry ], [ %next, %step ]
  %at = phi ptr [ %times, %entry ], [ %at_next, %step ]
  %more = icmp ult ptr %record, %end
  br i1 %more, label %step, label %done
step:
  %kernel_ = load ptr, ptr %record
  %t0 = call i64 @llvm.readcyclecounter()
  call void %kernel_(ptr %record)
  %t1 = call i64 @llvm.readcyclecounter()
  %spent = sub i64 %t1, %t0
  store i64 %spent, ptr %at
  %at_next = getelementptr i64, ptr %at, i64 1
  %l = getelementptr i64, ptr %record, i64 1
  %length = load i64, ptr %l
  %next = getelementptr i64, ptr %record, i64 %length
  br label %head
done:
  ret void
}
attributes #0 = { nounwind }
"""


@cache
def runner(timed: bool = False):  # type: ignore[no-untyped-def]
    """The native loop, called with the address of (first record, end of records[, where to put times])."""
    (address,) = this_machine().addresses([_RUN_TIMED if timed else _RUN])
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)
