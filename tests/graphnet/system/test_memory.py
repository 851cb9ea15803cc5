"""Requests for too much memory are rejected before allocation; devices are neither read nor replaced."""

from __future__ import annotations

import errno
import mmap
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.backends.compiled.host import Arena
from graphnet.errors import GraphnetError, NotEnoughMemoryError
from graphnet.graph.graph import Graph
from graphnet.ops.elementwise import Tanh
from graphnet.system import memory
from graphnet.system.files import read_whole, write_whole
from tests.graphnet.backends.conftest import output_of
from tests.tables import case

LITTLE = 200_000_000


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the available memory to 200 MB."""
    monkeypatch.setattr(memory, "available_memory", lambda: LITTLE)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of a process are told by Linux")
def test_available_memory_respects_process_limits() -> None:
    limited = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))\n"
    read = "from graphnet.system.memory import available_memory; print(available_memory())"
    assert 0 < int(output_of("-c", limited + read)) < 1 << 31


def test_available_memory_respects_system_and_container_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = memory.available_memory()
    assert found is not None
    assert 0 < found <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    files = {
        "/sys/fs/cgroup/memory.max": ["300"],
        "/sys/fs/cgroup/memory.current": ["250"],
        "/sys/fs/cgroup/memory.stat": ["anon 9", "inactive_file 40"],
        "/proc/meminfo": ["MemTotal: 9 kB", "MemAvailable: 1000 kB"],
    }
    monkeypatch.setattr(memory, "_lines", lambda path: files.get(path, []))
    assert memory.available_memory() == 300 - 250 + 40
    files["/sys/fs/cgroup/memory.max"] = ["max"]
    assert memory.available_memory() == 1000 * 1024


def test_small_requests_and_unknown_memory_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 1 / 0)
    memory.require_memory(memory.SMALL - 1, "this", "less")
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    memory.require_memory(10**30, "this", "less")
    huge = memory.readable_bytes(0), memory.readable_bytes(1 << 60), memory.readable_bytes(10**400)
    assert huge == ("0 B", "1 EiB", "8.67e+21 EiB")


def test_requests_beyond_available_memory_are_rejected_before_allocation(
    little: None, tmp_path: Path
) -> None:
    x, drawn = gn.input((3000, 10_000), name="x"), []
    h = gn.tanh(x)
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(1 << 40)

    def watched(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        drawn.append(shape)
        return np.zeros(shape)

    def network(*layers: rnn.Cell) -> rnn.Network:
        return rnn.Network(layers, 4, 4)

    for call, words in (
        (lambda: Arena(1_000_000_000), r"would take 953\.7 MiB .* 190\.7 MiB are available; .*sqrt"),
        (lambda: gn.compile([gn.sum(gn.fill(1, (10**6,) * 3, "float64"))]), "elements"),
        (lambda: gn.compile([gn.mean(gn.broadcast_to(gn.constant(np.ones(1)), (2**33, 2**33)))]), "elements"),
        (lambda: gn.compile([gn.sum(gn.tanh(h @ h.T)), h], [x]), "a run of this function would take"),
        # the first weight would fit
        (lambda: network(rnn.LSTM(5000, initial={"*": watched})), r"layer0: its weights .* \[5000, 5000\]"),
        (lambda: network(*[rnn.GRU(256)] * 1000), r"1,000 layers like GRU\(units=256\), their weights alone"),
        (lambda: network(*[rnn.Elman(1)] * 100_000), "100,000 layers .* makes about 1,000,000 nodes"),
        (lambda: network(rnn.LSTM(4)).unroll(1_000_000, 1), r"over 1,000,000 steps makes about [\d,]+ nodes"),
        (lambda: network(rnn.Bidirectional(rnn.GRU(4))).unroll(1_000_000, 1), "over 1,000,000 steps"),
        (lambda: rnn.data.Vocabulary("ab").encode("ab" * 10_000_000), "text of 20,000,000 characters"),
        (lambda: read_whole(tmp_path / "sparse"), r"reading .*sparse would take 1\.0 TiB"),
    ):
        with case(words), pytest.raises(NotEnoughMemoryError, match=words) as caught:
            call()
        assert isinstance(caught.value, GraphnetError)
        assert isinstance(caught.value, MemoryError)
    assert not drawn


def test_failed_arena_allocation_raises_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", refuse)
    with pytest.raises(
        NotEnoughMemoryError, match=r"needs 6\.0 MiB of memory, which the system does not provide; .*batch"
    ):
        Arena(4 << 20)


def test_numpy_memory_errors_name_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Tanh, x: np.ndarray) -> np.ndarray:
        raise MemoryError("Unable to allocate 9 TiB")

    monkeypatch.setattr(Tanh, "forward", full)
    x = gn.input((2,), name="x")
    function = gn.compile(gn.tanh(x), [x], backend="numpy")
    with pytest.raises(NotEnoughMemoryError, match=r"Tanh: Tanh\[2\] needs 8 B .*test_memory\.py:\d+"):
        function(np.ones(2, "float32"))


def test_large_graphs_give_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphnet_rnn.cell.tracing.MANY", 50)
    with pytest.warns(UserWarning, match=r"over 20 steps makes about \d+ nodes, which take .* to compile"):
        rnn.Network([rnn.Elman(2)], 3, 3).unroll(20, 1)


def test_network_sizes_of_the_publications_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """An LSTM of 2,250 units over 100 steps needs less than 2 GB."""
    monkeypatch.setattr(memory, "available_memory", lambda: 2 << 30)
    net = rnn.Network([rnn.LSTM(2250, initial={"*": rnn.initializers.zeros()})], 50, 50)
    assert net.theta.nbytes > 80e6
    assert len(Graph([net.unroll(100, 32).cost])) > 2000


linux = pytest.mark.skipif(not Path("/dev/full").exists(), reason="devices and pipes are Linux's")


@linux
def test_endless_pipes_are_rejected(little: None) -> None:
    reads = (
        (read_whole, "a smaller file"),
        (rnn.data.read_text, "a shorter text"),
        (rnn.data.Corpus.read, "to a file"),
    )
    with subprocess.Popen(["yes", "abcdefg"], stdout=subprocess.PIPE) as endless:
        assert endless.stdout is not None
        try:
            for read, says in reads:
                with pytest.raises(NotEnoughMemoryError, match=f"/dev/fd/.*{says}"):
                    read(f"/dev/fd/{endless.stdout.fileno()}")
        finally:
            endless.kill()


@linux
def test_devices_are_not_read_and_never_replaced(tmp_path: Path) -> None:
    for device in ("/dev/zero", "/dev/full", "/dev/null"):
        link = tmp_path / "link"
        link.symlink_to(device)
        before = os.stat(device)
        with pytest.raises(OSError, match="it is a device"):
            read_whole(link)
        with pytest.raises(OSError, match="it is a device, not a file"):
            write_whole(link, b"x")
        assert os.stat(device) == before
        link.unlink()
    assert os.listdir(tmp_path) == []


@linux
def test_pipes_are_read_to_the_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert read_whole(tmp_path / "pipe") == b""
    end, start = os.pipe()
    content = bytes(200_000)  # more than a pipe holds at once

    def write() -> None:
        with open(start, "wb") as stream:
            stream.write(content)

    writer = threading.Thread(target=write)
    writer.start()
    assert read_whole(f"/dev/fd/{end}") == content  # what a shell gives for <(command)
    writer.join()
    os.close(end)
