"""The GPU: detection, memory, stream, and graphs of launches that are captured once and replayed.

Numba's simulator (NUMBA_ENABLE_CUDASIM=1) takes its place in tests: its memory is the host's, and nothing is captured.
"""

from __future__ import annotations

import importlib
import os
import time
import weakref
from collections import defaultdict
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from numba import cuda

from graphnet.errors import BackendError, NotEnoughMemoryError
from graphnet.graph.node import Array, Dtype
from graphnet.system.memory import readable_bytes

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")
INSTEAD = "backend='numba' runs on the CPU; NUMBA_ENABLE_CUDASIM=1 runs kernels in Numba's simulator, slowly."
#: Blocks of memory are of a power of two bytes, at least a line of the cache; of more than LARGE, a multiple of it.
ALIGNMENT, LARGE = 256, 1 << 22
#: The oldest compute capability for which CUDA 13 makes code.
OLDEST = (7, 5)
#: Memory of the device, and arrays on its first numbers, by count and dtype.
_Memory = tuple[Any, dict[Any, Any]]


class Device:
    """One GPU, and the stream on which all programs run one after another. `this_device()` returns it."""

    def __init__(self) -> None:
        if not SIMULATED:
            _require_gpu()
            # Numba warns about launches with few blocks; here many are small, and cheap to replay.
            settings: Any = importlib.import_module("numba.cuda.core.config")
            settings.CUDA_LOW_OCCUPANCY_WARNINGS = 0
        self.stream = cuda.stream()
        self._spare: dict[int, list[_Memory]] = defaultdict(list)
        #: Memory of live blocks, by id. If only blocks held it, a collector that finds both in a cycle would free it
        #: before the block returns it.
        self._taken: dict[int, _Memory] = {}

    @property
    def name(self) -> str:
        if SIMULATED:
            return "simulator"
        name = cuda.get_current_device().name
        return name.decode() if isinstance(name, bytes) else str(name)

    @property
    def number(self) -> int:
        return 0 if SIMULATED else int(cuda.get_current_device().id)

    def free_memory(self) -> int:
        """Bytes that could be allocated now."""
        if SIMULATED:
            return 1 << 40
        context = cuda.current_context()
        context.memory_manager.deallocations.clear()  # memory that Numba has not freed yet
        spare = sum(size * len(blocks) for size, blocks in list(self._spare.items()))
        return int(context.get_memory_info()[0]) + spare

    def memory(self, nbytes: int) -> Any:
        """Uninitialized memory of this size in bytes."""
        for _ in range(2):
            try:
                return cuda.device_array(max(nbytes, 1), np.uint8)
            except Exception as error:
                if not isinstance(error, MemoryError) and "OUT_OF_MEMORY" not in str(error):
                    raise
                for blocks in list(self._spare.values()):
                    blocks.clear()
        raise NotEnoughMemoryError(
            f"the {self.name} has less than {readable_bytes(nbytes)} of free memory; use a smaller batch"
        )

    def block(self, nbytes: int) -> DeviceMemory:
        """Memory of this size in bytes, reused once unreferenced: an allocation makes the GPU wait."""
        size = (
            max(ALIGNMENT, 1 << max(0, nbytes - 1).bit_length())
            if nbytes < LARGE
            else -(-nbytes // LARGE) * LARGE
        )
        spare = self._spare[size]
        try:
            found = spare.pop()
        except IndexError:
            found = (self.memory(size), {})
        self._taken[id(found[0])] = found
        return DeviceMemory(*found, partial(self._give_back, spare))

    def _give_back(self, spare: list[_Memory], memory: Any) -> None:
        spare.append(self._taken.pop(id(memory)))

    def address(self, memory: Any) -> int:
        return int(memory.ctypes.data if SIMULATED else memory.device_ctypes_pointer.value or 0)

    # Numba's own copies take tens of microseconds to inspect their operands.

    def upload(self, source: Array, target: Any) -> None:
        """Copies an array of the host to memory of its size."""
        array = np.ascontiguousarray(source)
        if SIMULATED:
            target.view(np.uint8).copy_to_device(array.reshape(-1).view(np.uint8))
        else:
            self._copy("cuMemcpyHtoDAsync", self.address(target), array.ctypes.data, array.nbytes)

    def download(self, source: Any, target: Array) -> None:
        """Copies memory to an array of the host of its size; it is there after `wait`."""
        if SIMULATED:
            source.view(np.uint8).copy_to_host(target.reshape(-1).view(np.uint8))
        else:
            self._copy("cuMemcpyDtoHAsync", target.ctypes.data, self.address(source), target.nbytes)

    def copy(self, source: Any, target: Any) -> None:
        """Copies memory to memory of its size."""
        if SIMULATED:
            target.view(np.uint8).copy_to_device(source.view(np.uint8))
        else:
            self._copy("cuMemcpyDtoDAsync", self.address(target), self.address(source), target.nbytes)

    def _copy(self, name: str, to: int, source: int, nbytes: int) -> None:
        cuda.current_context()  # of this thread
        _called(name, to, source, nbytes, int(self.stream))

    def wait(self) -> None:
        """Waits until the stream has finished all its work."""
        if not SIMULATED:
            self.stream.synchronize()

    def captured(self, work: Callable[[Any], None]) -> Callable[[], None]:
        """Captures all launches that `work` makes on its stream as one CUDA graph, and returns a function that replays
        it.
        """
        if SIMULATED:
            return partial(work, self.stream)
        return _Graph(self.stream, work).launch

    def timed(self, work: Callable[[], None]) -> float:
        """Seconds that the work takes on the GPU."""
        if SIMULATED:
            start = time.perf_counter()
            work()
            return time.perf_counter() - start
        before, after = cuda.event(), cuda.event()
        before.record(self.stream)
        work()
        after.record(self.stream)
        after.synchronize()
        return float(before.elapsed_time(after)) / 1e3


class DeviceMemory:
    """Memory that goes back to the spare ones when it is let go; as all work is done in one order, it may be used at
    once."""

    __slots__ = ("_give_back", "_views", "memory")

    def __init__(self, memory: Any, views: dict[Any, Any], give_back: Callable[[Any], None]) -> None:
        self.memory, self._views, self._give_back = memory, views, give_back

    def numbers(self, count: int, dtype: Dtype) -> Any:
        """Its first `count` numbers of a dtype."""
        found = self._views.get((count, dtype))
        if found is None:
            found = self._views[count, dtype] = self.memory[: count * dtype.itemsize].view(dtype)
        return found

    def __del__(self) -> None:
        self._give_back(self.memory)


class _Graph:
    def __init__(self, stream: Any, work: Callable[[Any], None]) -> None:
        self._stream = int(stream)
        # A separate stream, which does not block the default one: work of other threads and libraries is neither
        # captured nor rejected. Relaxed: memory that Python frees during the capture does not invalidate it.
        mode = _driver().CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        cuda.current_context()
        own = int(_called("cuStreamCreate", int(_driver().CUstream_flags.CU_STREAM_NON_BLOCKING)))
        _called("cuStreamBeginCapture", own, mode)
        try:
            work(cuda.external_stream(own))
        finally:
            graph = _called("cuStreamEndCapture", own)
            _called("cuStreamDestroy", own)
        self._graph = _called("cuGraphInstantiate", graph, 0)
        _called("cuGraphDestroy", graph)
        # At exit the driver frees everything; this module may then be gone.
        weakref.finalize(self, _driver().cuGraphExecDestroy, self._graph).atexit = False
        _called("cuGraphUpload", self._graph, self._stream)

    def launch(self) -> None:
        cuda.current_context()  # of this thread, which may not have made the graph
        _called("cuGraphLaunch", self._graph, self._stream)


@cache
def _driver() -> Any:
    return importlib.import_module("cuda.bindings.driver")


def _called(name: str, *arguments: Any) -> Any:
    error, *results = getattr(_driver(), name)(*arguments)
    if int(error):
        text = _driver().cuGetErrorString(error)[1]
        raise BackendError(f"{name} failed: {text.decode() if isinstance(text, bytes) else text}")
    return results[0] if results else None


@cache
def this_device() -> Device:
    """The GPU; BackendError, with reason and remedy, if there is no usable one."""
    return Device()


def _require_gpu() -> None:
    try:
        _, supported = _driver().cuDriverGetVersion()
        _, major, minor = importlib.import_module("cuda.bindings.nvrtc").nvrtcVersion()
        if supported // 1000 >= major:
            cuda.current_context()
        reason = "" if cuda.is_available() else "Numba finds no compiler: pip install 'graphnet-rnn[cuda]'"
    except Exception as error:  # drivers and loaders raise errors of any class
        reason = " ".join(str(error).split()).rstrip(".: ") or type(error).__name__
    if reason:
        raise BackendError(f"backend='cuda' finds no usable NVIDIA GPU ({reason}). {INSTEAD}")
    if supported // 1000 < major:
        raise BackendError(
            f"the NVIDIA driver is too old: it supports CUDA {supported // 1000}.{supported % 1000 // 10}, and kernels "
            f"are compiled for CUDA {major}.{minor}. Update the driver, or install the older compiler: "
            f"pip install 'numba-cuda[cu{supported // 1000}]'. {INSTEAD}"
        )
    capability = cuda.get_current_device().compute_capability
    if major >= 13 and tuple(capability) < OLDEST:
        raise BackendError(
            f"this GPU's compute capability is {capability[0]}.{capability[1]}; CUDA {major} makes code for "
            f"{OLDEST[0]}.{OLDEST[1]} and newer. Try the older compiler: pip install 'numba-cuda[cu12]'. {INSTEAD}"
        )
