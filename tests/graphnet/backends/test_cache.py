"""Kernels on disk: what is trusted, what repairs itself, what goes; and native code in memory, which is given back."""

from __future__ import annotations

import errno
import gc
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import llvmlite.binding as llvm
import numpy as np
import pytest

import graphnet as gn
from graphnet.backends import cache
from graphnet.backends.cache import LARGEST, Cache, open_cache
from graphnet.backends.compiled import layouts
from graphnet.backends.numba import jobs
from graphnet.backends.numba.machine import Machine, this_machine
from graphnet.errors import BackendError
from tests.tables import case

ROOT = Path(gn.__file__).parents[1]
posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has no owners by number")
as_root = pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root gives files away")


class Used(NamedTuple):
    """How many kernels were compiled and how many found; the values of two; and what was warned of."""

    compiled: int
    found: int
    values: list[float]
    told: str = ""


def used() -> Used:
    """Two functions, of which nobody holds a kernel before or after."""
    machine, x, at = this_machine(), gn.input((5,), "float64"), np.arange(5.0)
    gc.collect()
    compiled, found = machine.compiled, machine.found
    a, b = (
        gn.compile([gn.tanh(x) * 3.0625], [x], threads=1),
        gn.compile([gn.exp(-x) * 2.0625], [x], threads=1),
    )
    values = [*a(at)[0].tolist(), *b(at)[0].tolist()]
    return Used(machine.compiled - compiled, machine.found - found, values)


def process(folder: Path | str, **settings: str) -> Used:
    """As a new process would have it, with this folder as its cache; but for what all functions share."""
    x = gn.input((5,), "float64")
    gn.compile([x + 1.0], [x], threads=1)(np.arange(5.0))
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        patch.setattr(cache, "_warned", set())
        for name, value in {"GRAPHNET_CACHE": str(folder), **settings}.items():
            patch.setenv(name, value)
        return used()._replace(told="\n".join(str(warning.message) for warning in told))


#: As `used`, after a line that may come first; prints what it gives.
PROGRAM = """
from tests.graphnet.backends.test_cache import used
print(*used()[:2])
"""


def environment(**settings: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **settings}


def printed(program: str, **settings: str) -> str:
    """By another process, of its own memory."""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment(**settings), capture_output=True, text=True,
        encoding="utf-8", check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    made, found = map(int, printed(PROGRAM, GRAPHNET_CACHE=str(tmp_path)).split())
    assert made > 1
    assert found == 0
    assert printed(PROGRAM, GRAPHNET_CACHE=str(tmp_path)).split() == ["0", str(made)]


def flip(kernels: list[Path]) -> None:
    for kernel in kernels:
        content = bytearray(kernel.read_bytes())
        content[len(content) // 2] ^= 1
        kernel.write_bytes(content)


def cut(kernels: list[Path]) -> None:
    for kernel in kernels:
        kernel.write_bytes(kernel.read_bytes()[:100])


def empty(kernels: list[Path]) -> None:
    for kernel in kernels:
        kernel.write_bytes(b"")


def rotate(kernels: list[Path]) -> None:
    """Each file under the next one's name, seal and all."""
    contents = [kernel.read_bytes() for kernel in kernels]
    for kernel, content in zip(kernels, [*contents[1:], contents[0]], strict=True):
        kernel.write_bytes(content)


def link(kernels: list[Path]) -> None:
    for kernel in kernels:
        kernel.rename(kernel.with_suffix(".elsewhere"))
        kernel.symlink_to(kernel.with_suffix(".elsewhere"))


def folders(kernels: list[Path]) -> None:
    for kernel in kernels:
        kernel.unlink()
        kernel.mkdir()


def pipes(kernels: list[Path]) -> None:
    for kernel in kernels:
        kernel.unlink()
        os.mkfifo(kernel)


def sockets(kernels: list[Path]) -> None:
    for kernel in kernels:
        kernel.unlink()
        os.mknod(kernel, 0o600 | stat.S_IFSOCK)


def lengthen(kernels: list[Path]) -> None:
    """To more than the machine has memory; on the disk it takes nothing."""
    for kernel in kernels:
        os.truncate(kernel, 1 << 42)


DAMAGES = (
    flip,
    cut,
    empty,
    rotate,
    link,
    folders,
    *((pipes, sockets, lengthen) if os.name == "posix" else ()),
)


def test_a_damaged_kernel_is_made_again(tmp_path: Path) -> None:
    made, _, values, _ = process(tmp_path)
    assert made > 1
    for damage in DAMAGES:
        with case(damage.__name__):
            assert process(tmp_path)[:3] == (0, made, values)
            damage(sorted(tmp_path.glob("*.kernel")))
            assert process(tmp_path)[:3] == (made, 0, values)
    assert process(tmp_path)[:3] == (0, made, values), "it has repaired itself"


def test_a_folder_that_holds_something_is_passed_over(tmp_path: Path) -> None:
    made, _, values, _ = process(tmp_path)
    kernels = sorted(tmp_path.glob("*.kernel"))
    folders(kernels)
    for kernel in kernels:
        (kernel / "somebody's").touch()
    for _ in range(2):
        assert process(tmp_path)[:3] == (made, 0, values)
    assert all((kernel / "somebody's").exists() for kernel in kernels)


def test_a_disk_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> os.stat_result:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    kept = Cache(tmp_path, 1 << 20)
    kept.write(named(1), b"kernel")
    assert kept.read(named(1)) == b"kernel"
    with monkeypatch.context() as failing:  # pytest has files of its own
        failing.setattr(os, "fstat", fail)
        found = kept.read(named(1))
    assert found is None


def test_what_is_too_large_to_be_read_is_not_written(tmp_path: Path) -> None:
    kept = Cache(tmp_path, 1 << 30)
    kept.write(named(1), bytes(LARGEST - 32))
    kept.write(named(2), bytes(LARGEST))
    assert [path.name for path in tmp_path.iterdir()] == [named(1)]
    assert kept.read(named(1)) == bytes(LARGEST - 32)


class TestTrust:
    @posix
    def test_the_folder_is_made_for_its_user_alone(self, tmp_path: Path) -> None:
        old = os.umask(0)
        try:
            process(tmp_path / "above" / "cache")
        finally:
            os.umask(old)
        for path in (tmp_path / "above", tmp_path / "above" / "cache"):
            assert path.stat().st_mode & 0o777 == 0o700
        assert {p.stat().st_mode & 0o777 for p in (tmp_path / "above" / "cache").iterdir()} == {0o600}

    @posix
    def test_a_folder_that_others_can_write_to(self, tmp_path: Path) -> None:
        made, _, values, _ = process(tmp_path / "cache")
        before = sorted((tmp_path / "cache").iterdir())
        for mode in (0o777, 0o770, 0o1777):
            (tmp_path / "cache").chmod(mode)
            compiled, found, again, told = process(tmp_path / "cache")
            assert (compiled, found, again) == (made, 0, values)
            assert told.count("can be written to by others") == told.count("set GRAPHNET_CACHE to") == 1
            assert sorted((tmp_path / "cache").iterdir()) == before

    @posix
    def test_a_folder_above_that_others_can_write_to(self, tmp_path: Path) -> None:
        (tmp_path / "above").mkdir()
        (tmp_path / "above").chmod(0o777)
        assert "above" in process(tmp_path / "above" / "cache")[3]
        (tmp_path / "above").chmod(0o1777)  # there nobody can rename what is another's
        assert process(tmp_path / "above" / "cache")[3] == ""

    @posix
    def test_a_link_to_a_folder_that_others_can_write_to(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "real")
        assert process(tmp_path / "link")[3] == ""
        (tmp_path / "real").chmod(0o777)
        assert "can be written to by others" in process(tmp_path / "link")[3]

    @as_root
    def test_a_folder_of_another_user(self, tmp_path: Path) -> None:
        made, _, values, _ = process(tmp_path / "cache")
        os.chown(tmp_path / "cache", 54321, -1)
        compiled, found, again, told = process(tmp_path / "cache")
        assert (compiled, found, again) == (made, 0, values)
        assert told.count("belongs to another user (number 54321)") == 1
        os.chown(tmp_path / "cache", 0, -1)
        os.chown(tmp_path, 54321, -1)
        assert (
            f"{tmp_path}, above {tmp_path / 'cache'}, belongs to another user"
            in process(tmp_path / "cache")[3]
        )

    @posix
    def test_a_file_that_others_can_write_to(self, tmp_path: Path) -> None:
        made, *_ = process(tmp_path)
        for kernel in tmp_path.glob("*.kernel"):
            kernel.chmod(0o666)
        compiled, found, _, told = process(tmp_path)
        assert (compiled, found) == (made, 0)
        assert told.count("can be written to by others") == 1
        assert process(tmp_path)[:2] == (0, made)

    @as_root
    def test_a_file_of_another_user(self, tmp_path: Path) -> None:
        made, *_ = process(tmp_path)
        for kernel in tmp_path.glob("*.kernel"):
            os.chown(kernel, 54321, -1)
        assert process(tmp_path)[:2] == (made, 0)
        assert process(tmp_path)[:2] == (0, made)

    @posix
    def test_the_user_s_own_folder_as_well(self, tmp_path: Path) -> None:
        """The default is looked at as $GRAPHNET_CACHE is."""
        (tmp_path / "graphnet").mkdir()
        (tmp_path / "graphnet").chmod(0o777)
        assert "can be written to by others" in process("", XDG_CACHE_HOME=str(tmp_path))[3]
        (tmp_path / "graphnet").chmod(0o755)
        assert process("", XDG_CACHE_HOME=str(tmp_path))[3] == ""
        assert list((tmp_path / "graphnet").glob("*.kernel"))


class TestWithout:
    """The cache is optional."""

    @posix
    def test_a_user_without_a_home(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No HOME, and a number of which the system knows no name; or one that nothing can be written to."""
        import pwd

        def unknown(number: int) -> None:
            raise KeyError(number)

        for name in ("HOME", "GRAPHNET_CACHE", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(pwd, "getpwuid", unknown)
        with pytest.raises(RuntimeError):
            Path.home()
        assert open_cache() is None
        x = gn.input((3,), "float64")
        np.testing.assert_array_equal(gn.compile([x * 17.25], [x])(np.ones(3))[0], [17.25] * 3)
        monkeypatch.setenv("HOME", "/proc/nothing")
        assert open_cache() is None

    def test_a_folder_that_cannot_be(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        for place in ("/proc/nothing/cache", f"{tmp_path}/file/cache", f"{tmp_path}/file"):
            made, found, *_ = process(place)
            assert made > 1
            assert found == 0

    def test_a_full_disk_leaves_nothing(self, tmp_path: Path) -> None:
        """A limit on the size of files is met as a full disk is: in the middle of a write."""
        limited = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
"""
        pytest.importorskip("resource")
        printed(limited + PROGRAM, GRAPHNET_CACHE=str(tmp_path / "cache"), PYTHONDONTWRITEBYTECODE="1")
        assert list((tmp_path / "cache").iterdir()) == []

    def test_nothing_is_kept_where_nothing_may_be(self, tmp_path: Path) -> None:
        assert process(tmp_path / "cache", GRAPHNET_CACHE_MB="0")[1:2] == (0,)
        assert not (tmp_path / "cache").exists()

    def test_a_bound_that_is_no_number(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for told in ("much", "-1", "nan", "inf", "much" * 1000):
            monkeypatch.setenv("GRAPHNET_CACHE_MB", told)
            with pytest.raises(BackendError, match=f"GRAPHNET_CACHE_MB.*{told[:8]}") as caught:
                open_cache()
            assert len(str(caught.value)) < 200


def named(number: int) -> str:
    return f"{number:064x}.kernel"


class TestBound:
    def test_what_was_not_used_for_longest_goes(self, tmp_path: Path) -> None:
        kept = Cache(tmp_path, 1 << 20)
        for i in range(40):
            Cache(tmp_path, 1 << 40).write(named(i), bytes(40_000))
            age = time.time() - 86_400 * (50 - i)
            os.utime(tmp_path / named(i), (age, age))
        assert kept.read(named(3)) is not None  # used now, so it stays
        others = [tmp_path / "thesis.tex", tmp_path / "0.kernel", tmp_path / f"{7:064x}.safetensors"]
        for path in others:
            path.write_bytes(bytes(100_000))
            os.utime(path, (0, 0))
        kept.prune()
        left = [i for i in range(40) if (tmp_path / named(i)).exists()]
        assert left == [3, *range(left[1], 40)]
        assert 0.7 * 2**20 < sum(path.stat().st_blocks * 512 for path in tmp_path.glob("0*.kernel")) < 2**20
        assert all(path.exists() for path in others), "what is not the cache's is not its to remove"

    def test_it_is_kept_to_by_processes_that_write_little(self, tmp_path: Path) -> None:
        """Each looks at what is there only now and then, by chance, of which names are the source."""
        bound = 2 << 20
        most = 0
        for i in range(1500):
            Cache(tmp_path, bound).write(f"{i * 2**200:064x}.kernel", bytes(4000))
            if i % 50 == 0:
                most = max(most, sum(path.stat().st_blocks * 512 for path in tmp_path.iterdir()))
        assert bound / 2 < most < 1.5 * bound

    def test_a_lookup_does_not_write(self, tmp_path: Path) -> None:
        kept = Cache(tmp_path, 1 << 20)
        kept.write(named(1), b"code")
        for age, moved in ((3600.0, False), (3 * 86_400.0, True)):
            then = time.time() - age
            os.utime(tmp_path / named(1), (then, then))
            before = (tmp_path / named(1)).stat().st_mtime_ns
            assert kept.read(named(1)) == b"code"
            assert ((tmp_path / named(1)).stat().st_mtime_ns != before) == moved

    def test_what_others_remove_meanwhile(self, tmp_path: Path) -> None:
        kept = Cache(tmp_path, 100_000)
        failures: list[BaseException] = []

        def work(start: int) -> None:
            try:
                for i in range(start, start + 60):
                    kept.write(named(i), bytes(4000))
                    kept.read(named(i))
                    kept.prune()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(1000 * k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert sum(1 for _ in tmp_path.iterdir()) <= 25
        shutil.rmtree(tmp_path)
        kept.prune()
        assert kept.read(named(1)) is None

    def test_what_a_killed_process_left_goes_too(self, tmp_path: Path) -> None:
        left = tmp_path / f".{named(1)}.123-456.part"
        left.write_bytes(bytes(200_000))
        os.utime(left, (0, 0))
        Cache(tmp_path, 100_000).prune()
        assert not left.exists()

    def test_files_of_one_kernel_go_together(self, tmp_path: Path) -> None:
        """What Numba keeps is of no use without the code that it is for."""
        folder = tmp_path / "cuda" / "__pycache__"
        folder.mkdir(parents=True)
        for i in range(3):
            stem = f"kernel_{i:032x}"
            files = [
                folder.parent / f"{stem}.py", folder.parent / f"{stem}.seal",
                folder / f"{stem}.kernel-14.py311.nbi", folder / f"{stem}.kernel-14.py311.1.nbc",
            ]  # fmt: skip
            for file in files:
                file.write_bytes(bytes(16_384))
                os.utime(file, (0, 0))
            os.utime(files[1], (1000 * (i == 1) + i, 1000 * (i == 1) + i))
        Cache(tmp_path, 150_000).prune()
        assert {path.name.split(".")[0][-1] for path in tmp_path.rglob("kernel*")} == {"1", "2"}
        assert sum(1 for path in tmp_path.rglob("kernel*")) == 8


# -- in memory ---------------------------------------------------------------------------------------------------------


def distinct(number: int) -> gn.Function:
    """A function with a kernel of its own, and its gradient."""
    x = gn.input((3, 4), "float64")
    y = gn.tanh(x * (1 + number / 8191)) + number
    return gn.compile([y, *gn.gradient(gn.sum(y * y), [x])], [x], threads=1 + number % 2)


def memory() -> float:
    """Megabytes of this process."""
    return (
        int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
        * os.sysconf("SC_PAGE_SIZE")
        / 2**20
    )


def test_code_that_no_function_holds_is_given_back() -> None:
    machine = this_machine()
    distinct(0)(np.ones((3, 4)))
    gc.collect()
    before = machine.engines
    held = [distinct(i) for i in range(1, 30)]
    assert machine.engines >= before + 29
    expected = [function(np.ones((3, 4)))[0][0, 0] for function in held]
    del held[::2]
    gc.collect()
    assert machine.engines <= before + 15
    assert [function(np.ones((3, 4)))[0][0, 0] for function in held] == expected[1::2]
    del held
    gc.collect()
    assert machine.engines <= before
    function = distinct(2)  # loaded once more
    assert function(np.ones((3, 4)))[0][0, 0] == expected[1]


def test_code_in_a_ring_is_given_back_under_the_lock_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector ends each member of a ring; what it ended while another thread freed it was freed twice."""
    machine = Machine()
    make, close = llvm.create_mcjit_compiler, llvm.ExecutionEngine.close
    made: list[int] = []
    closed_by: list[str] = []

    def noted(*given: object) -> llvm.ExecutionEngine:
        engine = make(*given)
        made.append(id(engine))
        return engine

    def seen(engine: llvm.ExecutionEngine) -> None:
        if id(engine) in made:
            closed_by.append(threading.current_thread().name)
        close(engine)

    monkeypatch.setattr(llvm, "create_mcjit_compiler", noted)
    monkeypatch.setattr(llvm.ExecutionEngine, "close", seen)
    ring: list[object] = list(machine.kernels(["define i64 @kernel() { ret i64 7 }"]))
    ring.append(ring)
    assert machine.engines == len(made) == 1
    with machine._lock:
        collector = threading.Thread(target=gc.collect, name="collector")
        del ring
        collector.start()
        collector.join()
        assert closed_by == []
        assert machine.engines == 1
    machine._free_unused()
    assert closed_by[0] == threading.current_thread().name
    assert machine.engines == 0


def test_what_two_functions_share_is_held_by_each() -> None:
    x = gn.input((7,), "float64")
    first, second = (gn.compile([gn.exp(x) * 1.625], [x]) for _ in range(2))
    engines = this_machine().engines
    third = gn.compile([gn.exp(x) * 1.625], [x])
    assert this_machine().engines == engines, "loaded once"
    del first, second
    gc.collect()
    np.testing.assert_allclose(third(np.zeros(7))[0], 1.625)


def test_functions_run_while_others_are_collected() -> None:
    failures: list[BaseException] = []
    stop = threading.Event()
    keeper = distinct(7001)
    expected = keeper(np.ones((3, 4)))[0]

    def run() -> None:
        try:
            while not stop.is_set():
                np.testing.assert_array_equal(keeper(np.ones((3, 4)))[0], expected)
        except BaseException as error:
            failures.append(error)

    def make(start: int) -> None:
        try:
            for i in range(start, start + 8):
                y = distinct(i)(np.ones((3, 4)))[0]
                np.testing.assert_allclose(y, np.tanh(1 + i / 8191) + i, rtol=1e-14)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=make, args=(7100 + 5 * k,)) for k in range(3)]
    runner = threading.Thread(target=run)
    for thread in (runner, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    runner.join()
    assert not failures


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_others_compile() -> None:
    """The child compiles, and gives back what its parent held: no lock is left behind by a thread that it has not."""
    program = """
import gc, os, sys, threading, warnings
import numpy as np
from tests.graphnet.backends.test_cache import distinct
warnings.simplefilter("ignore")
function, stop = distinct(8000), threading.Event()
def work():
    i = 8100
    while not stop.is_set():
        distinct(i := i + 1)
thread = threading.Thread(target=work)
thread.start()
codes = []
for k in range(3):
    child = os.fork()
    if not child:
        del function
        gc.collect()
        distinct(9000 + k)(np.ones((3, 4)))
        os._exit(7)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
stop.set()
thread.join()
print(codes)
"""
    assert printed(program).split() == ["[7,", "7,", "7]"]


def test_what_is_remembered_of_other_graphs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "REMEMBERED", 10)
    for i in range(12):
        distinct(7500 + i)
        assert len(jobs._layouts) <= 10
    assert jobs.text_of.cache_info().maxsize <= 1024


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_does_not_grow_with_the_graphs_that_were_compiled(pytestconfig: pytest.Config) -> None:
    """After those that fill what is remembered."""
    if "slow" not in pytestconfig.getoption("markexpr"):
        pytest.skip("compiles 5,000 graphs, for minutes: -m slow")
    program = """
import gc
import numpy as np
from tests.graphnet.backends.test_cache import distinct, memory
from graphnet.backends.numba.machine import this_machine
for i in range(5000):
    distinct(i)(np.ones((3, 4)))
    if i + 1 in (2500, 5000):
        gc.collect()
        print(memory())
print(this_machine().engines)
"""
    half, whole, engines = map(float, printed(program).split())
    assert engines < 10
    assert whole < 250
    assert whole - half < 12  # what is remembered of expressions and ops fills up at 4,096
