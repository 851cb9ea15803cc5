"""The kernel cache: permissions, repair, eviction, compiled code in memory, and older processors."""

from __future__ import annotations

import errno
import gc
import os
import platform
import shutil
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

import graphnet as gn
from graphnet.backends import cache
from graphnet.backends.cache import LARGEST, Cache, open_cache
from graphnet.backends.compiled import schedule
from graphnet.backends.numba import jobs
from graphnet.backends.numba.machine import Machine, this_machine
from tests.graphnet.backends.conftest import output_of, run_at_once
from tests.tables import case

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has no owners by number")


@pytest.fixture(autouse=True, scope="module")
def small_heap() -> Iterator[None]:
    """Excludes existing objects from garbage collection; each full collection would take 0.2 s."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def used() -> tuple[int, int, list[float]]:
    """Numbers of kernels compiled and found for two functions, and their values. Then frees the functions."""
    machine, x = this_machine(), gn.input((5,), "float64")
    gc.collect()
    compiled, found = machine.compiled, machine.found
    functions = [gn.compile([y], [x], threads=1) for y in (gn.tanh(x) * 3.0625, gn.exp(-x) * 2.0625)]
    values = [number for function in functions for number in function(np.arange(5.0))[0].tolist()]
    return machine.compiled - compiled, machine.found - found, values


def process(folder: Path | str, **settings: str) -> tuple[int, int, list[float], str]:
    """Returns the values of `used` and its warnings, with this cache folder, as in a new process."""
    x = gn.input((5,), "float64")
    gn.compile([x + 1.0], [x], threads=1)(np.arange(5.0))
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        patch.setattr(cache, "_warned", set())
        for name, value in {"GRAPHNET_CACHE": str(folder), **settings}.items():
            patch.setenv(name, value)
        return *used(), "\n".join(str(warning.message) for warning in told)


PROGRAM = "from tests.graphnet.backends.test_cache import used; print(*used()[:2])"


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    made, found = output_of("-c", PROGRAM, GRAPHNET_CACHE=str(tmp_path)).split()
    assert int(made) > 1
    assert found == "0"
    assert output_of("-c", PROGRAM, GRAPHNET_CACHE=str(tmp_path)).split() == ["0", made]


OTHERS, ANOTHER = "can be written to by others", "belongs to another user (user id 54321)"
#: Fault of a kernel -> function that makes it, and the warning. ".elsewhere" is a copy of the kernel.
DAMAGES = {
    "another bit": (lambda kernel, was: kernel.write_bytes(was[:-1] + bytes([was[-1] ^ 1])), ""),
    "empty": (lambda kernel, was: kernel.write_bytes(b""), ""),
    "for another name": (lambda kernel, was: kernel.write_bytes(cache._seal("other", was[32:]) + was[32:]), ""),
    "a link": (lambda kernel, was: kernel.symlink_to(kernel.with_suffix(".elsewhere")), ""),
    "a folder": (lambda kernel, was: kernel.mkdir(), "is not a file"),
    "a pipe": (lambda kernel, was: os.mkfifo(kernel), "is not a file"),
    "larger than memory": (lambda kernel, was: os.truncate(kernel, 1 << 42), "is not a file"),  # nothing, on the disk
    "open to others": (lambda kernel, was: kernel.chmod(0o666), OTHERS),
    "another user's": (lambda kernel, was: os.chown(kernel, 54321, -1), ANOTHER),
}  # fmt: skip


def test_damaged_kernels_are_recompiled(tmp_path: Path) -> None:
    made, _, values, _ = process(tmp_path)
    assert made > 1
    kernels = sorted(tmp_path.glob("*.kernel"))
    unable = list(DAMAGES)[5:] if os.name != "posix" else ["another user's"] if os.geteuid() else []
    for name in [name for name in DAMAGES if name not in unable]:
        damage, words = DAMAGES[name]
        with case(name):
            assert process(tmp_path) == (0, made, values, "")
            for kernel in kernels:
                shutil.copy(kernel, kernel.with_suffix(".elsewhere"))
                was = kernel.read_bytes()
                if name in ("a link", "a folder", "a pipe"):
                    kernel.unlink()
                damage(kernel, was)
            *found, told = process(tmp_path)
            assert found == [made, 0, values]
            assert told.count(words) == 1 if words else not told
    assert process(tmp_path)[:3] == (0, made, values), "it has repaired itself"
    for kernel in kernels:
        kernel.unlink()
        kernel.mkdir()
        (kernel / "somebody's").touch()
    for _ in range(2):
        assert process(tmp_path)[:3] == (made, 0, values)
    assert all((kernel / "somebody's").exists() for kernel in kernels)


def named(number: int) -> str:
    return f"{number:064x}.kernel"


def test_too_large_entries_are_not_written_and_read_errors_are_misses(tmp_path: Path, monkeypatch) -> None:
    def fail(descriptor: int) -> os.stat_result:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    kept = Cache(tmp_path, 1 << 30)
    kept.write(named(1), bytes(LARGEST - 32))
    kept.write(named(2), bytes(LARGEST))
    assert [path.name for path in tmp_path.iterdir()] == [named(1)]
    assert kept.read(named(1)) == bytes(LARGEST - 32)
    with monkeypatch.context() as failing:  # pytest has files of its own
        failing.setattr(os, "fstat", fail)
        found = kept.read(named(1))
    assert found is None


@posix
def test_cache_folder_is_private(tmp_path: Path) -> None:
    folder = tmp_path / "above" / "cache"
    old = os.umask(0)
    try:
        process(folder)
    finally:
        os.umask(old)
    assert {path.stat().st_mode & 0o777 for path in (folder.parent, folder)} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


@posix
def test_folder_writable_by_others_warns_and_is_not_used(tmp_path: Path) -> None:
    """The folder itself or the target of a link, in the user's cache or in $GRAPHNET_CACHE."""
    above, folder = tmp_path / "above", tmp_path / "above" / "graphnet"
    made, _, values, _ = process(folder)
    before = sorted(folder.iterdir())
    for mode in (0o777, 0o770, 0o1777):
        folder.chmod(mode)
        *found, told = process(folder)
        assert found == [made, 0, values]
        assert told.count(OTHERS) == told.count("set GRAPHNET_CACHE to") == 1
        assert sorted(folder.iterdir()) == before
    assert OTHERS in process("", XDG_CACHE_HOME=str(above))[3]
    (tmp_path / "link").symlink_to(folder)
    assert OTHERS in process(tmp_path / "link")[3]
    folder.chmod(0o755)
    for place, home in ((folder, ""), (tmp_path / "link", ""), ("", str(above))):
        assert process(place, XDG_CACHE_HOME=home) == (0, made, values, "")


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root gives files away")
def test_folder_of_another_user_warns_and_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    made, _, values, _ = process(folder)
    os.chown(folder, 54321, -1)
    *found, told = process(folder)
    assert found == [made, 0, values]
    assert told.count(ANOTHER) == 1


@posix
def test_missing_home_and_invalid_cache_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """No HOME, an unknown user, an unwritable HOME, and invalid values of GRAPHNET_CACHE_MB."""
    for name in ("HOME", "GRAPHNET_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    assert open_cache() is None
    x = gn.input((3,), "float64")
    np.testing.assert_array_equal(gn.compile([x * 17.25], [x])(np.ones(3))[0], [17.25] * 3)
    monkeypatch.setenv("HOME", "/proc/nothing")
    assert open_cache() is None
    for told in ("much", "-1", "nan", "inf"):
        monkeypatch.setenv("GRAPHNET_CACHE_MB", told)
        with pytest.raises(gn.BackendError, match=f"GRAPHNET_CACHE_MB.*{told}"):
            open_cache()


def test_unusable_folder_or_full_disk_compiles_without_cache(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in ("/proc/nothing/cache", f"{tmp_path}/file/cache", f"{tmp_path}/file"):
        made, found, *_ = process(place)
        assert made > 1
        assert found == 0
    assert process(tmp_path / "cache", GRAPHNET_CACHE_MB="0")[:2] == (made, 0)
    assert not (tmp_path / "cache").exists()
    # A limit on the size of files is met as a full disk is: in the middle of a write.
    pytest.importorskip("resource")
    limited = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
"""
    output_of("-c", limited + PROGRAM, GRAPHNET_CACHE=str(tmp_path / "cache"), PYTHONDONTWRITEBYTECODE="1")
    assert list((tmp_path / "cache").iterdir()) == []


def put(path: Path, size: int, when: float = 0.0) -> Path:
    path.write_bytes(bytes(size))
    os.utime(path, (when, when))
    return path


def on_disk(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.glob("*.kernel"))


def test_least_recently_used_entries_are_evicted(tmp_path: Path) -> None:
    kept = Cache(tmp_path, 1 << 20)
    for i in range(40):
        Cache(tmp_path, 1 << 40).write(named(i), bytes(40_000))
        os.utime(tmp_path / named(i), (time.time() - 86_400 * (50 - i),) * 2)
    assert kept.read(named(3)) is not None  # used now, so it stays
    now = (tmp_path / named(3)).stat().st_mtime_ns
    assert now / 1e9 > time.time() - 86_400
    assert kept.read(named(3)) is not None
    assert (tmp_path / named(3)).stat().st_mtime_ns == now, "a lookup writes only what was long ago"
    kept.prune()
    left = [i for i in range(40) if (tmp_path / named(i)).exists()]
    assert left == [3, *range(left[1], 40)]
    assert 0.7 * 2**20 < on_disk(tmp_path) < 2**20
    others = [put(tmp_path / name, 300_000) for name in ("thesis.tex", "0.kernel", f"{7:064x}.safetensors")]
    killed = put(tmp_path / f".{named(1)}.123-456.part", 200_000)
    kept.prune()
    assert not killed.exists(), "what a killed process left goes as well"
    assert all(path.exists() for path in others), "what is not the cache's is not its to remove"


def test_size_bound_holds_for_processes_that_write_little(tmp_path: Path) -> None:
    """Each process looks at the folder only sometimes, at random, decided by the names of kernels."""
    bound, most = 2 << 20, 0
    for i in range(1500):
        Cache(tmp_path, bound).write(named(i * 2**200), bytes(4000))
        if i % 50 == 0:
            most = max(most, on_disk(tmp_path))
    assert bound / 2 < most < 1.5 * bound


def test_concurrent_removals_are_tolerated(tmp_path: Path) -> None:
    kept = Cache(tmp_path, 100_000)

    def work(start: int) -> None:
        for i in range(start, start + 60):
            kept.write(named(i), bytes(4000))
            kept.read(named(i))
            kept.prune()

    run_at_once(*(partial(work, 1000 * k) for k in range(4)))
    assert sum(1 for _ in tmp_path.iterdir()) <= 25
    shutil.rmtree(tmp_path)
    kept.prune()
    assert kept.read(named(1)) is None


def test_files_of_one_kernel_are_removed_together(tmp_path: Path) -> None:
    """All files of a kernel are removed together: Numba's files are useless without the kernel's code."""
    folder = tmp_path / "cuda" / "__pycache__"
    folder.mkdir(parents=True)
    for i in range(3):
        stem = f"kernel_{i:032x}"
        for ending in (".kernel-14.py311.nbi", ".kernel-14.py311.1.nbc"):
            put(folder / f"{stem}{ending}", 16_384)
        put(folder.parent / f"{stem}.py", 16_384)
        put(folder.parent / f"{stem}.seal", 16_384, when=1000 * (i == 1) + i)
    Cache(tmp_path, 150_000).prune()
    left = [path.name.split(".")[0][-1] for path in tmp_path.rglob("kernel*")]
    assert sorted(left) == ["1"] * 4 + ["2"] * 4


def distinct(number: int) -> gn.Function:
    """A function with a different kernel for each i, and its gradient."""
    x = gn.input((3, 4), "float64")
    y = gn.tanh(x * (1 + number / 8191)) + number
    return gn.compile([y, *gn.gradient(gn.sum(y * y), [x])], [x], threads=1 + number % 2)


def test_unused_code_is_freed(monkeypatch) -> None:
    machine, ones = this_machine(), np.ones((3, 4))
    distinct(0)(ones)
    gc.collect()
    before = machine.engines
    held = [distinct(i) for i in range(1, 30)]
    assert machine.engines >= before + 29
    expected = [function(ones)[0][0, 0] for function in held]
    del held[::2]
    gc.collect()
    assert machine.engines <= before + 15
    assert [function(ones)[0][0, 0] for function in held] == expected[1::2]
    del held
    gc.collect()
    assert machine.engines <= before
    first, second = distinct(2), distinct(2)  # loaded once more, for both
    engines = machine.engines
    del first
    gc.collect()
    assert machine.engines == engines, "what two share is held by each"
    assert second(ones)[0][0, 0] == expected[1]
    monkeypatch.setattr(schedule, "REMEMBERED", 10)
    for i in range(12):
        distinct(7500 + i)
        assert len(jobs._layouts) <= 10, "what is remembered of other graphs is bounded"
    assert jobs.text_of.cache_info().maxsize <= 1024


def test_code_in_a_reference_cycle_is_freed_only_under_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, garbage collection in another thread could free the same code twice."""
    machine, close, closed_by = Machine(), llvm.ExecutionEngine.close, []

    def seen(engine: llvm.ExecutionEngine) -> None:
        closed_by.append(threading.current_thread().name)
        close(engine)

    gc.collect()
    monkeypatch.setattr(llvm.ExecutionEngine, "close", seen)
    ring: list[object] = list(machine.kernels(["define i64 @kernel() { ret i64 7 }"]))
    ring.append(ring)
    assert machine.engines == 1
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


def test_functions_run_while_others_are_compiled_and_collected() -> None:
    """Two threads want the same kernels at the same time."""
    stop, keeper, ones = threading.Event(), distinct(7001), np.ones((3, 4))
    expected = keeper(ones)[0]

    def run() -> None:
        while not stop.is_set():
            np.testing.assert_array_equal(keeper(ones)[0], expected)

    def make(start: int) -> None:
        for i in range(start, start + 8):
            np.testing.assert_allclose(distinct(i)(ones)[0], np.tanh(1 + i / 8191) + i, rtol=1e-14)

    def make_all() -> None:
        try:
            run_at_once(*(partial(make, start) for start in (7100, 7100, 7105)))
        finally:
            stop.set()

    run_at_once(run, make_all)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_does_not_grow_with_the_graphs_that_were_compiled() -> None:
    """Compiles 5,000 graphs, since caches of expressions fill up first; takes minutes."""
    program = """
import gc, os
import numpy as np
from tests.graphnet.backends.test_cache import distinct
from graphnet.backends.numba.machine import this_machine
for i in range(5000):
    distinct(i)(np.ones((3, 4)))
    if i + 1 in (2500, 5000):
        gc.collect()
        print(int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20)
print(this_machine().engines)
"""
    half, whole, engines = map(float, output_of("-c", program).split())
    assert engines < 10
    assert whole < 250
    assert whole - half < 12  # caches of expressions and ops are full at 4,096


x86 = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="processors of another family")


def machine_of(name: str, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("GRAPHNET_PROCESSOR", name)
    return Machine()


@x86
def test_code_is_compiled_for_the_requested_processor(monkeypatch) -> None:
    """Products use fma only if the processor supports it."""
    x, w = gn.input((8, 8)), gn.input((8, 8))
    (addition,) = gn.compile([x + w], [x, w])._program.schedule.kernels
    (product,) = [t for t in gn.compile([x @ w], [x, w])._program.schedule.kernels if "llvm.fm" in t]
    assert "fmaf" not in machine_of("sse2", monkeypatch).assembly(product)
    assert "vfmadd" in machine_of("avx2", monkeypatch).assembly(product)
    for name, vector_bytes, absent in (("sse2", 16, ("ymm", "zmm", "\tvaddps")), ("avx2", 32, ("zmm",))):
        lesser = machine_of(name, monkeypatch)
        assert (lesser.vector_bytes, lesser.registers, lesser.avx512) == (vector_bytes, 16, False)
        code = lesser.assembly(addition)
        assert "addps" in code
        assert not [word for word in absent if word in code]
    assert len({machine_of(name, monkeypatch).keys([addition])[0] for name in ("", "avx2", "sse2")}) == 3


def test_unknown_and_unsupported_processors_are_rejected(monkeypatch) -> None:
    with pytest.raises(gn.BackendError, match="GRAPHNET_PROCESSOR is 'mmx'; it must be avx2 or sse2"):
        machine_of("mmx", monkeypatch)
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", dict)
    with pytest.raises(gn.BackendError, match=r"'avx2'.*lacks avx2, fma, bmi2"):
        machine_of("avx2", monkeypatch)
