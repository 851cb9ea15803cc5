"""The numba back end with several threads, callers and processes, with interrupts and system limits."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.backends.numba.cores import threads as team
from graphnet.backends.numba.cores.pace import CLEARLY, LATEST, Pace
from tests.graphnet.backends.conftest import HANG, ROOT, output_of, require_same, run_at_once
from tests.tables import case


def bits(arrays) -> list[bytes]:
    return [array.tobytes() for array in arrays]


def lstm(seed: int = 0):
    """Cost, gradient and last states of an LSTM that is large enough to be divided among cores."""
    net = rnn.Network([rnn.LSTM(64)], 20, 20, seed=seed)
    u = net.unroll(6, 32, training=False)
    outputs = [u.cost, *u.final, *gn.gradient(u.cost, list(net.parameters.values()))]
    arrays = [*np.random.default_rng(seed).integers(0, 20, (2, 6, 32)), *net.zero_states(32)]
    return outputs, [u.inputs, u.targets, *u.initial], arrays


def turns(n: int = 96):
    """Rows become columns at every step, so each core needs all that the others made: many barriers."""
    generator = np.random.default_rng(0)
    x = h = gn.input((n, n), "float64")
    W = gn.parameter(generator.standard_normal((n, n)) / np.sqrt(n))
    for k in range(12):
        h = gn.tanh(h.T @ W) if k % 3 else gn.tanh(h.T[::-1] + gn.sum(h, 0) / n)
    outputs = [h, gn.sum(h, 0), *gn.gradient(gn.sum(h * h), [x])]
    return outputs, [x], [generator.standard_normal((n, n))]


def narrow(batch: int, time: int, units: int):
    """(8, 2) and (8,) both fill one line of the cache, but core 1's rows begin at byte 32 of one, 16 of the other."""
    generator = np.random.default_rng(0)
    W = gn.parameter(0.1 * generator.standard_normal((4, units)).astype("f"), name="W")
    V = gn.parameter(0.1 * generator.standard_normal((units, 2)).astype("f"), name="V")
    x = gn.constant(generator.standard_normal((batch, 4)).astype("f"))
    for _ in range(time):
        u = gn.tanh(x @ W) @ V
        right = gn.stack([u[:, 0] * 2, u[:, 1] * 3], axis=1)
        x = x + 0.01 * gn.concatenate([x[:, 2:], right], axis=1)
    return gn.gradient(gn.sum(x * x), [W]), [], []


def sums(rows: int, columns: int):
    x = gn.input((rows, columns))
    array = np.random.default_rng(columns).standard_normal(x.shape).astype("f")
    outputs = [gn.sum(x, 0), gn.sum(gn.tanh(x) * x, 0), gn.sum(x, 1), gn.sum(gn.exp(x)), gn.softmax(x.T) @ x]
    return [*outputs, gn.max(x, 0)], [x], [array]


PROBLEMS = {
    "LSTM": [lstm()],
    "turns": [turns()],
    "narrow arrays of few rows": [narrow(*sizes) for sizes in ((4, 4, 100), (8, 3, 40), (8, 5, 100))],
    "sums of few and of many columns": [sums(1000, columns) for columns in (1, 2, 3, 4, 5, 9, 17, 1000)],
    "more threads than rows": [sums(rows, 500) for rows in (1, 2, 3)],
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_results_do_not_depend_on_threads_or_runs(name: str) -> None:
    for outputs, inputs, arrays in PROBLEMS[name]:
        require_same(outputs, inputs, arrays, 1e-4, threads=1)
        one = bits(gn.compile(outputs, inputs, threads=1)(*arrays))
        for threads in (2, 3, 4, 7, None):
            function = gn.compile(outputs, inputs, threads=threads, deterministic=True)
            for _ in range(50 if threads == 2 else 5):
                assert bits(function(*arrays)) == one, threads


def test_memory_is_reused() -> None:
    """Thirty steps need the memory of a few if only the last one is read, for any number of threads."""
    x = h = gn.input((200, 200))
    W = gn.parameter(np.eye(200, dtype="float32"))
    for _ in range(30):
        h = gn.tanh(h @ W)
    for threads in (1, 2):
        assert gn.compile([h], [x], threads=threads).memory.peak < 10 * x.nbytes


def test_calls_use_one_thread_if_no_other_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a limit on processes, fewer threads give the same bits."""
    outputs, inputs, arrays = lstm()
    expected = gn.compile(outputs, inputs, threads=1)(*arrays)
    refused = []

    def refuse(self: threading.Thread) -> None:
        refused.append(self)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(team, "_pool", team._Pool())  # with no idle ones
    monkeypatch.setattr(threading.Thread, "start", refuse)
    several = gn.compile(outputs, inputs, threads=3)
    assert all(bits(several(*arrays)) == bits(expected) for _ in range(5))
    assert refused, "it wanted more"
    for threads in (0, -1):
        with pytest.raises(gn.BackendError, match=f"threads.*{threads}"):
            gn.compile(outputs, inputs, threads=threads)


def test_concurrent_callers_get_their_own_results() -> None:
    """Callers of one function, and of two."""

    def call(function: gn.Function, arrays, wanted) -> None:
        assert all(bits(function(*arrays)) == wanted for _ in range(30))

    for threads in (1, 2, 3):
        problems = lstm(), lstm(seed=1)
        first, second = (gn.compile(*nodes, threads=threads) for *nodes, _ in problems)
        one, other = (arrays for *_, arrays in problems)
        with case(threads):
            for function in (first, second):
                pairs = ((first, one), (function, other))
                run_at_once(*(partial(call, f, arrays, bits(f(*arrays))) for f, arrays in pairs))


HEAD = """
import itertools, multiprocessing, os, sys, threading, time
import numpy as np
import graphnet as gn

x = gn.input((96, 96), "float64")
h = x
for _ in range(10):
    h = gn.tanh(h.T @ x) + gn.sum(h, 0)
function = gn.compile([h, gn.sum(h)], [x], threads=2)
array = np.random.default_rng(0).standard_normal((96, 96)) / 10

def work(pipe):
    gn.compile([gn.tanh(x * os.getpid())], [x])
    pipe.send([float(abs(value).sum()) for value in function(array)])

def child(context):
    mine, its = context.Pipe()
    process = context.Process(target=work, args=(its,))
    process.start()
    if not mine.poll(300):
        process.kill()
        sys.exit("the child hangs")
    found = mine.recv()
    process.join(300)
    assert process.exitcode == 0
    assert found == [float(abs(value).sum()) for value in function(array)], found
"""
#: Before any run, and after: threads do not survive a fork, so the child makes its own; and the parent goes on.
CHILDREN = """
if __name__ == "__main__":
    for _ in range({times}):
        child(multiprocessing.get_context("{way}"))
"""
#: A child that compiles, too, inherits no lock that nobody will release.
FORKS = """
if __name__ == "__main__":
    import warnings
    warnings.simplefilter("ignore")
    going, ran, numbers = True, threading.Semaphore(0), itertools.count(1.5)
    def run():
        while going:
            function(array)
            gn.compile([gn.tanh(x * next(numbers))], [x])
            ran.release()
    runner = threading.Thread(target=run)
    runner.start()
    try:
        for _ in range(5):
            ran.acquire()
            child(multiprocessing.get_context("fork"))
    finally:
        going = False
        runner.join()
"""
#: KeyboardInterrupt, whatever the number of threads; the function works afterwards.
LOOPS = """
for threads in (1, 2, 4):
    function = gn.compile([h, gn.sum(h)], [x], threads=threads)
    wanted = function(array)[0]
    for calls in (0, 3):
        try:
            for _ in range(calls):
                function(array)
            print("ready", flush=True)
            while True:
                function(array)
        except KeyboardInterrupt:
            assert np.array_equal(function(array)[0], wanted)
print("ready", flush=True)
while True:
    function(array)
"""
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux forks safely")


@pytest.mark.parametrize(
    "code", [pytest.param(CHILDREN.format(way="fork", times=3), marks=linux), CHILDREN.format(way="spawn", times=1),
             pytest.param(FORKS, marks=linux)], ids=["fork", "spawn", "fork while another thread runs"],
)  # fmt: skip
def test_child_processes_run_functions_compiled_before_fork(code: str, tmp_path: Path) -> None:
    """Scripts end although threads are idle."""
    (tmp_path / "script.py").write_text(HEAD + code, encoding="utf-8")
    assert output_of(str(tmp_path / "script.py")) == ""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT is Ctrl-C elsewhere")
def test_ctrl_c_ends_a_loop_of_calls() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HEAD + LOOPS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        encoding="utf-8", env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:  # fmt: skip
        try:
            for _ in range(7):
                assert process.stdout.readline() == "ready\n"
                process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=HANG)
        finally:
            process.kill()
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert process.returncode not in (0, -signal.SIGSEGV, -signal.SIGABRT)


INTERRUPTED = """
import faulthandler, linecache
from graphnet.backends.numba.cores import threads

faulthandler.dump_traceback_later(300, exit=True)  # native code that waits for ever hears no Ctrl-C
wanted = function(array)[0]

def interrupt(at):
    seen = 0
    def trace(frame, event, argument):
        nonlocal seen
        if frame.f_code.co_filename != threads.__file__:
            return None
        # Python lets no signal in where a with statement ends, so no interrupt is made there.
        if event == "line" and not linecache.getline(threads.__file__, frame.f_lineno).strip().startswith("with "):
            seen += 1
            if seen == at:
                raise KeyboardInterrupt
        return trace
    return trace

interrupts = 0
for pause in (0, 0.02):
    for at in range(1, 100):
        time.sleep(pause)
        sys.settrace(interrupt(at))
        try:
            function(array)
            sys.settrace(None)
            break
        except KeyboardInterrupt:
            interrupts += 1
        finally:
            sys.settrace(None)
        assert np.array_equal(function(array)[0], wanted), at
print("right" if interrupts > 10 else interrupts)
"""


def test_interrupts_cause_no_deadlock() -> None:
    """Ctrl-C at any line of the code that passes work to threads, awake or asleep."""
    assert output_of("-c", HEAD.replace("threads=2", "threads=3") + INTERRUPTED) == "right\n"


def test_recursive_function_calls_raise_an_error() -> None:
    """Without the error, it would wait for itself forever."""
    called, ones, x = None, np.ones(3, "float32"), gn.input((3,))

    class Calls(gn.Op):
        """y = x, by way of another function"""

        signature = "... -> ..."

        def forward(self, x):
            return called(x)[0]

    inner, outer = gn.compile([gn.tanh(x)], [x]), gn.compile([Calls()(x) * 2], [x])
    for called in (inner, outer, inner):
        if called is outer:
            with pytest.raises(gn.BackendError, match="called while it runs in the same thread"):
                outer(ones)
        else:
            np.testing.assert_allclose(outer(ones)[0], 2 * np.tanh(1.0), rtol=1e-6)


def spent(pace: Pace, seconds_of, until: float, clock: float = 0.0) -> float:
    """Seconds of a call, on average, if one by so many threads takes so long at this time: no clock is read."""
    calls, start = 0, clock
    while clock < until:
        seconds = seconds_of(pace.threads, clock)
        pace.took(seconds)
        clock += seconds
        calls += 1
    return (clock - start) / calls


def test_thread_count_follows_the_load_and_ignores_noise() -> None:
    def seconds(threads: int, now: float) -> float:
        busy = 10.0 < now < 40.0
        return 1.2e-3 if threads == 1 else 8e-3 if busy else 0.6e-3

    pace = Pace(2)
    for start, end, best in ((0.0, 10.0, 0.6e-3), (10.0, 40.0, 1.2e-3), (40.0, 90.0, 0.6e-3)):
        spent(pace, seconds, start + 1.2 * LATEST, start)
        assert spent(pace, seconds, end, start + 1.2 * LATEST) < 1.05 * best
    generator = np.random.default_rng(0)

    def noisy(threads: int, now: float) -> float:
        stolen = 5e-3 if generator.random() < 0.05 else 0.0
        return (0.7e-3 if threads == 2 else 1.2e-3) * generator.uniform(0.9, 1.2) + stolen

    always = np.mean([noisy(2, 0.0) for _ in range(5000)])
    assert spent(Pace(2), noisy, 60.0) < 1.1 * always


def test_trials_cost_little_for_any_call_duration() -> None:
    """Trials take at most 2 % of the time after the faster setting is found."""
    for most, two in itertools.product((2, 16), (1e-5, 1e-2, 0.025, 0.05, 1.0)):
        for ratio in (0.02, 0.3, 0.5, 0.85, 0.95, 1, 1.1, 1.9, 10, 50):
            seconds, pace = {1: two * ratio, most: two}, Pace(most)
            with case(most, two, ratio):
                clock = 3000 * two + 0.1
                spent(pace, lambda threads, now: seconds[threads], clock)
                later = spent(pace, lambda threads, now: seconds[threads], 3 * clock, clock)
                assert later <= 1.02 * (min(two, two * ratio / CLEARLY) if ratio < 1 else two)
    pace = Pace(1)
    assert all((pace.took(1e-3), pace.threads)[1] == 1 for _ in range(1000))


def test_a_single_slow_call_changes_nothing() -> None:
    """A single slow call of the usual setting does not change it."""
    pace, held = Pace(2), iter([1e-3, 50e-3, 1e-3, 1e-3])
    while not pace._trial[0]:
        pace.took(1e-3)
    while pace._trial[0]:
        pace.took(1.2e-3 if pace.threads == 1 else next(held))
    assert pace.threads == 2
