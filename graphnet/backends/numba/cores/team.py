"""Team: the native code by which threads share the parts of a program, superstep by superstep.

A program is divided into as many parts as it was compiled for, and into supersteps, between which all parts synchronize
(bulk-synchronous: Valiant 1990). Threads are not tied to parts: each claims its own parts of the current superstep
first, then, after a moment, unclaimed ones. So any number of threads gives the same bits, and one thread can do all
parts. Others wait for a preempted thread only if it is in the middle of a part. A waiting thread spins for a moment and
then sleeps, so that the system can run another thread on its core.

The control block of a program (64-bit words; lines of 128 bytes, so that threads do not disturb each other):

    0        generation: odd while the words up to 7 are written
    1, 2     counts of claims and of finished parts at the start of this run
    3, 4, 5  supersteps, parts, threads
    6, 7     table of tapes (for each superstep and part: first record, end, address of times); the loop that runs one
    8, 9     words 1 and 2 of the next run
    16, 17   parts finished since the beginning; threads asleep until that grows
    32 ...   for each part, on a separate line: supersteps claimed since the beginning

Counters only ever grow. A thread that is late by one or more runs therefore finds all parts claimed and leaves, and no
thread waits for it; but it may still read the block, whose memory is never freed.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TypeVar

from graphnet.backends.numba.machine import this_machine
from graphnet.backends.numba.tape import Native, native

#: Words of a line, and where the claims begin.
LINE, CLAIMS = 16, 32
_FINISHED, _ASLEEP = 16, 17
#: A thread's number is in the zero bits of its block's address.
MOST_PARTS = 64
#: Number of spins of a thread before it takes over an unclaimed part (some 2 µs), before it sleeps during a run
#: (some 40 µs), and before it sleeps between runs (some 200 µs).
GRACE, PATIENCE, IDLE = 64, 1024, 8192

_PAUSE = {
    "x86": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
_PAUSE["arm64"] = _PAUSE["aarch64"]  # the name on macOS
#: The number of Linux' system call futex.
_FUTEX = {"x86": 202, "aarch64": 98}


_Entry = TypeVar("_Entry")


def _by_processor(table: dict[str, _Entry], otherwise: _Entry) -> _Entry:
    triple = this_machine().triple
    return next((entry for name, entry in table.items() if triple.startswith(name)), otherwise)


def _prelude() -> str:
    """@pause; @sleep until a 32-bit word differs from a value; @wake all threads that sleep on it.

    Without a futex, a waiting thread polls with short naps.
    """
    declared, pause = _by_processor(_PAUSE, ("", ""))
    futex = _by_processor(_FUTEX, 0) if sys.platform.startswith("linux") else 0
    if futex:
        declared += "\ndeclare i64 @syscall(i64, ...)"
        sleep = f"%r = call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i64 128, i32 %value, ptr null)"
        wake = f"%r = call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i64 129, i64 2147483647)"
    else:
        name, unit = ("Sleep", 1) if sys.platform == "win32" else ("usleep", 100)
        declared += f"\ndeclare void @{name}(i32)"
        sleep, wake = f"call void @{name}(i32 {unit})", ""
    return f"""
{declared}
define internal void @pause() alwaysinline nounwind {{
  {pause}
  ret void
}}
define internal void @sleep(ptr %word, i32 %value) noinline nounwind {{
  {sleep}
  ret void
}}
define internal void @wake(ptr %word) noinline nounwind {{
  {wake}
  ret void
}}
"""


def _read(name: str, word: int) -> str:
    return f"""
  %{name}.at = getelementptr i64, ptr %control, i64 {word}
  %{name} = load atomic i64, ptr %{name}.at monotonic, align 8"""


def _work_text() -> str:
    """@take_part: a thread's work in the supersteps of the run that the control block describes."""
    return "".join(
        (_prelude(), _do_part(), _begin(), _own_parts(), _waiting(), _others_parts(), _sleeping(), _next())
    )


def _claims(part: str) -> str:
    return f"""  %{part}.line = mul i64 %{part}, {LINE}
  %{part}.word = add i64 %{part}.line, {CLAIMS}
  %{part}.at = getelementptr i64, ptr %control, i64 %{part}.word"""


def _claim(part: str) -> str:
    return f"""  %{part}.pair = cmpxchg ptr %{part}.at, i64 %ticket, i64 %ticket.next acq_rel monotonic
  %{part}.mine = extractvalue {{ i64, i1 }} %{part}.pair, 1"""


def _do(part: str) -> str:
    return f"""  %{part}.tape = add i64 %first, %{part}
  call void @do_part(ptr %control, i64 %table, i64 %run, i64 %{part}.tape)"""


def _do_part() -> str:
    """@do_part: runs a tape, counts it, and wakes the threads that wait for it."""
    return f"""define internal void @do_part(ptr %control, i64 %table, i64 %run, i64 %number) nounwind {{
  %row = mul i64 %number, 24
  %address = add i64 %table, %row
  %tape = inttoptr i64 %address to ptr
  %kernel_ = inttoptr i64 %run to ptr
  call void %kernel_(ptr %tape)
  %done.at = getelementptr i64, ptr %control, i64 {_FINISHED}
  %before = atomicrmw add ptr %done.at, i64 1 seq_cst
  %asleep.at = getelementptr i64, ptr %control, i64 {_ASLEEP}
  %asleep = load atomic i64, ptr %asleep.at seq_cst, align 8
  %some = icmp sgt i64 %asleep, 0
  br i1 %some, label %rouse, label %end
rouse:
  call void @wake(ptr %done.at)
  br label %end
end:
  ret void
}}

"""


def _begin() -> str:
    settings = ("begun", "finished", "steps", "parts", "threads", "table", "run")
    return f"""define internal void @take_part(ptr %control, i64 %number) nounwind {{
entry:
  %generation = load atomic i64, ptr %control acquire, align 8
  %odd = trunc i64 %generation to i1
  br i1 %odd, label %leave, label %read
read:
{"".join(_read(name, word) for word, name in enumerate(settings, start=1))}
  fence acquire
  %now = load atomic i64, ptr %control monotonic, align 8
  %same = icmp eq i64 %now, %generation
  %done.at = getelementptr i64, ptr %control, i64 {_FINISHED}
  %asleep.at = getelementptr i64, ptr %control, i64 {_ASLEEP}
  br i1 %same, label %step, label %leave

step:
  %s = phi i64 [ 0, %read ], [ %s.next, %next ]
  %others.late = phi i1 [ false, %read ], [ %late, %next ]
  %ticket = add i64 %begun, %s
  %ticket.next = add i64 %ticket, 1
  %s.more = add i64 %s, 1
  %all = mul i64 %s.more, %parts
  %wanted = add i64 %all, %finished
  %first = mul i64 %s, %parts
  br label %own

"""


def _own_parts() -> str:
    return f"""own:
  %p = phi i64 [ %number, %step ], [ %p.next, %own.next ]
  %p.is = icmp slt i64 %p, %parts
  br i1 %p.is, label %own.claim, label %wait
own.claim:
{_claims("p")}
{_claim("p")}
  br i1 %p.mine, label %own.do, label %own.next
own.do:
{_do("p")}
  br label %own.next
own.next:
  %p.next = add i64 %p, %threads
  br label %own

"""


def _waiting() -> str:
    """Waits until all parts are done; after a moment takes over unclaimed parts; finally sleeps."""
    return f"""wait:
  %tries = phi i64 [ 0, %own ], [ %tries.more, %look.again ], [ {GRACE + 1}, %taken.over ], [ {GRACE + 1}, %slept ]
  %late = phi i1 [ %others.late, %own ], [ %late, %look.again ], [ %stolen, %taken.over ], [ %late, %slept ]
  %done = load atomic i64, ptr %done.at acquire, align 8
  %over = icmp sge i64 %done, %wanted
  br i1 %over, label %next, label %wait.on
wait.on:
  %limit = select i1 %late, i64 0, i64 {GRACE}
  %due = icmp eq i64 %tries, %limit
  br i1 %due, label %take.over, label %wait.more
wait.more:
  %tired = icmp sge i64 %tries, {PATIENCE}
  br i1 %tired, label %lie.down, label %look.again
look.again:
  call void @pause()
  %tries.more = add i64 %tries, 1
  br label %wait

"""


def _others_parts() -> str:
    return f"""take.over:
  %q = phi i64 [ 0, %wait.on ], [ %q.next, %q.end ]
  %stolen = phi i1 [ false, %wait.on ], [ %stolen.now, %q.end ]
  %q.is = icmp slt i64 %q, %parts
  br i1 %q.is, label %q.look, label %taken.over
q.look:
{_claims("q")}
  %q.claimed = load atomic i64, ptr %q.at monotonic, align 8
  %q.free = icmp eq i64 %q.claimed, %ticket
  br i1 %q.free, label %q.claim, label %q.end
q.claim:
{_claim("q")}
  br i1 %q.mine, label %q.do, label %q.end
q.do:
{_do("q")}
  br label %q.end
q.end:
  %stolen.now = phi i1 [ %stolen, %q.look ], [ %stolen, %q.claim ], [ true, %q.do ]
  %q.next = add i64 %q, 1
  br label %take.over
taken.over:
  br label %wait

"""


def _sleeping() -> str:
    return """lie.down:
  %z0 = atomicrmw add ptr %asleep.at, i64 1 seq_cst
  %done.now = load atomic i64, ptr %done.at seq_cst, align 8
  %over.now = icmp sge i64 %done.now, %wanted
  br i1 %over.now, label %slept, label %sleep.on
sleep.on:
  %value = trunc i64 %done.now to i32
  call void @sleep(ptr %done.at, i32 %value)
  br label %slept
slept:
  %z1 = atomicrmw sub ptr %asleep.at, i64 1 seq_cst
  br label %wait
"""


def _next() -> str:
    return """
next:
  %progress = sub i64 %done, %finished
  %s.next = sdiv i64 %progress, %parts
  %more = icmp slt i64 %s.next, %steps
  br i1 %more, label %step, label %leave
leave:
  ret void
}
"""


def _write(name: str, word: int) -> str:
    return f"""
  %{name}.to = getelementptr i64, ptr %control, i64 {word}
  store atomic i64 %{name}, ptr %{name}.to monotonic, align 8"""


@cache
def _run_text() -> str:
    """Record: the control block, supersteps, threads, table, loop; then the mailboxes of all threads but this one."""
    asked = ("steps", "threads", "table", "run")
    return f"""
{_work_text()}
define void @kernel(ptr %request) #0 {{
entry:
  %control = load ptr, ptr %request
{
        "".join(
            f'''
  %{name}.asked = getelementptr i64, ptr %request, i64 {word}
  %{name} = load i64, ptr %{name}.asked'''
            for word, name in enumerate(asked, start=1)
        )
    }
{_read("parts", 4)}
{_read("begun", 8)}
{_read("finished", 9)}
{_describe_run()}
  %block = ptrtoint ptr %control to i64
  br label %post
{_post(1 + len(asked))}
attributes #0 = {{ nounwind }}
"""


def _describe_run() -> str:
    return f"""  %before = load atomic i64, ptr %control monotonic, align 8
  %odd = add i64 %before, 1
  %even = add i64 %before, 2
  store atomic i64 %odd, ptr %control monotonic, align 8
  fence seq_cst
{_write("begun", 1)}
{_write("finished", 2)}
{_write("steps", 3)}
{_write("threads", 5)}
{_write("table", 6)}
{_write("run", 7)}
  store atomic i64 %even, ptr %control release, align 8
  %then_begun = add i64 %begun, %steps
  %made = mul i64 %steps, %parts
  %then_finished = add i64 %finished, %made
{_write("then_begun", 8)}
{_write("then_finished", 9)}"""


def _post(mailboxes: int) -> str:
    """Fills the mailboxes, which begin at this word, wakes sleeping workers, and takes part."""
    return f"""post:
  %i = phi i64 [ 1, %entry ], [ %i.next, %posted ]
  %i.is = icmp slt i64 %i, %threads
  br i1 %i.is, label %put, label %go
put:
  %place = add i64 %i, {mailboxes - 1}
  %box.at = getelementptr ptr, ptr %request, i64 %place
  %box = load ptr, ptr %box.at
  %mail = or i64 %block, %i
  %old = atomicrmw xchg ptr %box, i64 %mail seq_cst
  %asleep.at = getelementptr i64, ptr %box, i64 1
  %asleep = load atomic i64, ptr %asleep.at seq_cst, align 8
  %sleeps = icmp ne i64 %asleep, 0
  br i1 %sleeps, label %rouse, label %posted
rouse:
  call void @wake(ptr %box)
  br label %posted
posted:
  %i.next = add i64 %i, 1
  br label %post
go:
  call void @take_part(ptr %control, i64 0)
  ret void
}}"""


@cache
def _serve_text() -> str:
    """Record: a mailbox. A worker polls it for a while, then sleeps until mail comes; it never returns.

    Words of a mailbox: 0: a control block's address and the worker's number, 0 if empty; 1: nonzero if it sleeps.
    """
    return f"""
{_work_text()}
define void @kernel(ptr %box) #0 {{
entry:
  %asleep.at = getelementptr i64, ptr %box, i64 1
  br label %look
look:
  %tries = phi i64 [ 0, %entry ], [ 0, %work ], [ %more, %wait ], [ 0, %slept ]
  %there = load atomic i64, ptr %box monotonic, align 8
  %some = icmp ne i64 %there, 0
  br i1 %some, label %work, label %none
work:
  %mail = atomicrmw xchg ptr %box, i64 0 acq_rel
  %number = and i64 %mail, {8 * LINE - 1}
  %block = and i64 %mail, {-8 * LINE}
  %control = inttoptr i64 %block to ptr
  call void @take_part(ptr %control, i64 %number)
  br label %look
none:
  %tired = icmp sge i64 %tries, {IDLE}
  br i1 %tired, label %lie.down, label %wait
wait:
  call void @pause()
  %more = add i64 %tries, 1
  br label %look
lie.down:
  %z0 = atomicrmw xchg ptr %asleep.at, i64 1 seq_cst
  %there.now = load atomic i64, ptr %box seq_cst, align 8
  %some.now = icmp ne i64 %there.now, 0
  br i1 %some.now, label %slept, label %sleep.on
sleep.on:
  call void @sleep(ptr %box, i32 0)
  br label %slept
slept:
  %z1 = atomicrmw xchg ptr %asleep.at, i64 0 seq_cst
  br label %look
}}
attributes #0 = {{ nounwind }}
"""


def run_program() -> Native:
    """Runs a program with the threads whose mailboxes the record names, and returns when all parts are done."""
    return native(_run_text())


def serve() -> Native:
    """A worker's life."""
    return native(_serve_text())
