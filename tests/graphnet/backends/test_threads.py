"""The numba back end with several threads, callers and processes; interrupted, and refused by the system."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.backends.numba import threads as team
from graphnet.graph.node import Array
from tests.graphnet.backends.conftest import require_same

ROOT = Path(gn.__file__).parent.parent
#: Seconds that only what hangs takes.
HANG = 300


def make_net(threads: int | None, seed: int = 0) -> tuple[gn.Function, list[Array]]:
    """Cost, gradient and last states of an LSTM that is large enough to be divided among cores."""
    net = rnn.Network([rnn.LSTM(64)], 20, 20, seed=seed)
    u = net.unroll(6, 32, training=False)
    function = gn.compile(
        [u.cost, *u.final, *gn.gradient(u.cost, list(net.parameters.values()))],
        [u.inputs, u.targets, *u.initial],
        threads=threads,
    )
    generator = np.random.default_rng(seed)
    symbols = generator.integers(0, 20, (2, 6, 32))
    return function, [symbols[0], symbols[1], *net.zero_states(32)]


# -- how many threads -----------------------------------------------------------------------------------


def test_every_number_of_threads_gives_the_same_and_repeats_it_bit_for_bit() -> None:
    function, arrays = make_net(1)
    one = function(*arrays)
    for threads in (1, 2, 3, 4, 7, None):
        function, arrays = make_net(threads)
        first = function(*arrays)
        for a, b in zip(first, one, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6 * float(abs(b).max()), err_msg=f"{threads}")
        for _ in range(5):
            again = function(*arrays)
            assert [a.tobytes() for a in again] == [b.tobytes() for b in first], threads


def test_cores_wait_where_one_reads_what_another_wrote() -> None:
    """Rows become columns at every step, so each core needs all that the others made: many barriers, many runs."""
    n = 96
    x = gn.input((n, n), "float64")
    W = gn.parameter(np.random.default_rng(0).standard_normal((n, n)) / np.sqrt(n))
    h = x
    for k in range(12):
        h = gn.tanh(h.T @ W) if k % 3 else gn.tanh(h.T[::-1] + gn.sum(h, 0) / n)
    nodes = [h, gn.sum(h, 0), *gn.gradient(gn.sum(h * h), x)]
    array = np.random.default_rng(1).standard_normal((n, n))
    expected = gn.compile(nodes, [x], backend="numpy", passes=())(array)
    for threads in (2, 3, 4):
        function = gn.compile(nodes, [x], threads=threads)
        for _ in range(20):
            for a, b in zip(function(array), expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, err_msg=f"{threads} threads")


def test_narrow_arrays_of_few_rows() -> None:
    """(8, 2) and (8,) both fill one line of the cache, but core 1's rows begin at byte 32 of one, 16 of the other."""
    generator = np.random.default_rng(0)
    for batch, time_, units in ((4, 4, 100), (8, 3, 40), (8, 5, 100)):
        W = gn.parameter(0.1 * generator.standard_normal((4, units)).astype("f"), name="W")
        V = gn.parameter(0.1 * generator.standard_normal((units, 2)).astype("f"), name="V")
        x = gn.constant(generator.standard_normal((batch, 4)).astype("f"))
        for _ in range(time_):
            u = gn.tanh(x @ W) @ V
            right = gn.stack([u[:, 0] * 2, u[:, 1] * 3], axis=1)
            x = x + 0.01 * gn.concatenate([x[:, 2:], right], axis=1)
        outputs = gn.gradient(gn.sum(x * x), [W])
        (expected,) = gn.compile(outputs, [], threads=1)()
        function = gn.compile(outputs, [], threads=2)
        for _ in range(50):
            np.testing.assert_array_equal(function()[0], expected, err_msg=f"{batch}, {time_}, {units}")


def test_more_threads_than_rows() -> None:
    for rows in (1, 2, 3):
        x = gn.input((rows, 4000), "float64")
        nodes = [gn.tanh(x), gn.sum(x, 1), gn.sum(x, 0), gn.max(x)]
        array = np.random.default_rng(0).standard_normal((rows, 4000))
        require_same(nodes, [x], [array], 1e-12, threads=8)


def test_no_threads_are_an_error() -> None:
    for threads in (0, -1):
        with pytest.raises(gn.BackendError, match="at least 1"):
            gn.compile([gn.fill(0.0, (2,), "float64") + 1.0], threads=threads)


@pytest.mark.parametrize("threads", [1, 2])
def test_memory_is_used_again(threads: int) -> None:
    """Thirty steps of which only the last is wanted need the memory of a few, whatever the number of threads."""
    n = 200
    x, W = gn.input((n, n)), gn.parameter(np.eye(n, dtype="float32"))
    h = x
    for _ in range(30):
        h = gn.tanh(h @ W)
    function = gn.compile([h], [x], threads=threads)
    assert function.memory.peak < 10 * 4 * n * n
    np.testing.assert_allclose(function(np.full((n, n), 1e-4, "float32"))[0], 1e-4, rtol=1e-5)


# -- several callers ---------------------------------------------------------------------------------------


def run_at_once(*work: Callable[[], None]) -> None:
    """Each in a thread of its own, all starting together; an error in one is raised here."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(work))

    def run(each: Callable[[], None]) -> None:
        try:
            barrier.wait(HANG)
            each()
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=run, args=(each,)) for each in work]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(HANG)
        assert not worker.is_alive(), "a caller hangs"
    if errors:
        raise errors[0]


def calls(function: gn.Function, arrays: list[Array]) -> Callable[[], None]:
    """Thirty of them, with the results of the first, which is made at once."""
    wanted = function(*arrays)

    def work() -> None:
        for _ in range(30):
            for a, b in zip(function(*arrays), wanted, strict=True):
                np.testing.assert_array_equal(a, b)

    return work


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_one_function_and_two_functions_called_from_two_threads_at_once(threads: int) -> None:
    """Each caller gets the results of its own arrays."""
    function, arrays = make_net(threads)
    others = [arrays[1], arrays[0], *(a + 0.5 for a in arrays[2:])]
    run_at_once(calls(function, arrays), calls(function, others))
    run_at_once(calls(function, arrays), calls(*make_net(threads, seed=1)))


def test_two_threads_compile_at_once() -> None:
    """The same kernels, wanted by all at the same time."""

    def work() -> None:
        x = gn.input((37,), "float64")
        (value,) = gn.compile([gn.tanh(x * 1.7 + 0.125) / (2.0 + gn.cos(x))], [x])(np.ones(37))
        np.testing.assert_allclose(value, np.tanh(1.825) / (2 + np.cos(1.0)), rtol=1e-13)

    run_at_once(*[work] * 4)


# -- several processes -------------------------------------------------------------------------------------

HEAD = """
import multiprocessing, sys, threading, time
import numpy as np
import graphnet as gn

x = gn.input((96, 96), "float64")
h = x
for _ in range(10):
    h = gn.tanh(h.T @ x) + gn.sum(h, 0)
function = gn.compile([h, gn.sum(h)], [x], threads=2)
array = np.random.default_rng(0).standard_normal((96, 96)) / 10

def work(pipe):
    pipe.send([float(abs(value).sum()) for value in function(array)])
"""

CHILD = """
    mine, its = context.Pipe()
    child = context.Process(target=work, args=(its,))
    child.start()
    assert mine.poll(300), "the child hangs"
    found = mine.recv()
    child.join(300)
    assert child.exitcode == 0
    assert found == [float(abs(value).sum()) for value in function(array)], found
"""


def run_script(code: str, folder: Path) -> str:
    """The script's output; its errors are the test's. It ends, though its threads are idle."""
    script = folder / "script.py"
    script.write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, encoding="utf-8", timeout=HANG, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


MAIN = "\nif __name__ == '__main__':\n    context = multiprocessing.get_context('{}')\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux forks safely")
def test_a_forked_child_runs_functions_made_before(tmp_path: Path) -> None:
    """Before any run, and after: threads do not survive a fork, so the child makes its own; and the parent goes on."""
    assert run_script(HEAD + MAIN.format("fork") + CHILD * 3, tmp_path) == ""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux forks safely")
def test_a_fork_while_another_thread_runs(tmp_path: Path) -> None:
    """The child inherits no lock that nobody will release."""
    code = (
        HEAD
        + MAIN.format("fork")
        + """
    import warnings
    warnings.simplefilter("ignore")
    going, ran = True, threading.Semaphore(0)
    def run():
        while going:
            function(array)
            ran.release()
    runner = threading.Thread(target=run)
    runner.start()
    try:
        for _ in range(5):
            ran.acquire()
            mine, its = context.Pipe()
            child = context.Process(target=work, args=(its,))
            child.start()
            if not mine.poll(300):
                child.kill()
                print("the child hangs")
                break
            child.join()
    finally:
        going = False
        runner.join()
"""
    )
    assert run_script(code, tmp_path) == ""


def test_a_spawned_child_runs(tmp_path: Path) -> None:
    assert run_script(HEAD + MAIN.format("spawn") + CHILD, tmp_path) == ""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT is Ctrl-C elsewhere")
def test_ctrl_c_ends_a_loop_of_calls(tmp_path: Path) -> None:
    """KeyboardInterrupt, whatever the number of threads; the function works afterwards."""
    code = (
        HEAD
        + """
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
print("right", flush=True)
try:
    while True:
        function(array)
finally:
    assert np.array_equal(function(array)[0], wanted)
"""
    )
    script = tmp_path / "script.py"
    script.write_text(code, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            for said in [*["ready"] * 6, "right"]:
                assert process.stdout.readline() == f"{said}\n"
                process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=HANG)
        finally:
            process.kill()
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert process.returncode not in (0, -signal.SIGSEGV, -signal.SIGABRT)


INTERRUPTED = """
import faulthandler, linecache
from graphnet.backends.numba import threads

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


def test_an_interrupt_at_any_line_hangs_nobody(tmp_path: Path) -> None:
    """Ctrl-C may fall between any two lines of what hands work to threads, be they awake or asleep."""
    assert run_script(HEAD.replace("threads=2", "threads=3") + INTERRUPTED, tmp_path) == "right\n"


# -- a call within a call ------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers are POSIX")
def test_a_signal_handler_that_calls_what_is_running_is_told_so() -> None:
    """It would wait for itself, for ever."""
    x = gn.input((400, 400))
    function, array = gn.compile([gn.sum(gn.tanh(x @ x) @ x)], [x]), np.full((400, 400), 0.01, "float32")
    wanted, told = function(array)[0], []

    def handle(number: int, frame: Any) -> None:
        try:
            told.append(function(array)[0] == wanted)  # the call had ended, or not begun
        except gn.BackendError as error:
            told.append("called while it runs in the same thread" in str(error))

    before = signal.signal(signal.SIGALRM, handle)
    try:
        for _ in range(30):
            signal.setitimer(signal.ITIMER_REAL, 0.001)
            assert function(array)[0] == wanted
            time.sleep(0.002)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(told) >= 20
    assert all(told)


def test_an_op_that_calls_the_function_it_is_in_is_told_so() -> None:
    functions: list[gn.Function] = []

    class Calls(gn.Op):
        """y = x, by way of another function"""

        signature = "... -> ..."

        def forward(self, x):
            return functions[-1](x)[0]

    x = gn.input((3,))
    functions.append(gn.compile([gn.tanh(x)], [x]))
    outer = gn.compile([Calls()(x) * 2], [x])
    np.testing.assert_allclose(outer(np.ones(3, "float32"))[0], 2 * np.tanh(1.0), rtol=1e-6)
    functions.append(outer)
    with pytest.raises(gn.BackendError, match="called while it runs in the same thread"):
        outer(np.ones(3, "float32"))
    functions.pop()
    np.testing.assert_allclose(outer(np.ones(3, "float32"))[0], 2 * np.tanh(1.0), rtol=1e-6)


# -- limits --------------------------------------------------------------------------------


def test_no_bit_depends_on_the_number_of_threads() -> None:
    """Also where a core's share of what is added up is a single column."""
    for columns in (1, 2, 3, 4, 5, 9, 17):
        x = gn.input((1000, columns), "float32")
        array = np.random.default_rng(columns).standard_normal(x.shape).astype("float32")
        outputs = [
            gn.sum(x, 0),
            gn.sum(gn.tanh(x) * x, 0),
            gn.sum(x, 1),
            gn.sum(gn.exp(x)),
            gn.softmax(x.T) @ x,
        ]
        results = [
            [
                value.tobytes()
                for value in gn.compile(outputs, [x], threads=threads, deterministic=True)(array)
            ]
            for threads in (1, 2, 3, 4, 7)
        ]
        assert all(result == results[0] for result in results), columns


def test_where_no_thread_can_be_started_one_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit on processes, as of a container: fewer threads, and the same bits."""
    one, arrays = make_net(1)
    expected = one(*arrays)
    started = 0

    def refuse(self: threading.Thread) -> None:
        nonlocal started
        started += 1
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(team, "_pool", team._Pool())  # with no idle ones
    monkeypatch.setattr(threading.Thread, "start", refuse)
    several, _ = make_net(3)
    for _ in range(5):
        assert [a.tobytes() for a in several(*arrays)] == [a.tobytes() for a in expected]
    assert started, "it wanted more"
