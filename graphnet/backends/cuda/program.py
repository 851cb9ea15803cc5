"""The compiled program: launches on the GPU, which are captured once and then replayed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from graphnet.backends.compiled.locations import HEADER, Location
from graphnet.backends.compiled.program import CompiledProgram
from graphnet.backends.cuda.arrays import DeviceArray, as_device_array, empty
from graphnet.backends.cuda.device import Device
from graphnet.backends.cuda.files import stored_work
from graphnet.backends.cuda.kernels import compiled
from graphnet.backends.cuda.launch import Launch
from graphnet.backends.cuda.schedule import LaunchSchedule, LibraryProduct, Upload
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Dtype, Node, Shape

#: Multiplies matrices in the arena, which begins at this address, on a stream.
Multiply = Callable[[int, LibraryProduct, Any], None]


class Held(NamedTuple):
    """An array on the GPU; its memory is None if it is empty."""

    shape: Shape
    dtype: Dtype
    memory: Any


class CudaProgram(CompiledProgram[LaunchSchedule]):
    """multiply: cuBLAS, if installed."""

    def __init__(
        self,
        schedule: LaunchSchedule,
        source: Graph | None,
        check: bool,
        device: Device,
        multiply: Multiply | None,
    ) -> None:
        self.device = device
        self._multiply = multiply
        self._arena = device.memory(-(-schedule.arena_bytes // HEADER) * HEADER)
        self._views: dict[str, Any] = {}
        self._flag = self._arena[:8]
        self._no, self._raised = np.zeros(1, np.int64), np.zeros(1, np.int64)
        self._wrong = True
        super().__init__(schedule, source, check)
        self._parameters = []
        for upload in schedule.uploads:
            found = self._uploading(upload)
            if upload.constant:
                found()
            else:
                self._parameters.append(found)
        self._sections = [_Section(self, section.work) for section in schedule.sections]

    # -- memory ------------------------------------------------------------------------------------------------------

    def at(self, location: Location) -> Held:
        nbytes = location.nbytes
        memory = self._arena[location.byte : location.byte + nbytes] if nbytes else None
        return Held(location.shape, location.dtype, memory)

    def write(self, array: Any, at: Held) -> None:
        if at.memory is None:
            return
        if isinstance(array, DeviceArray):
            self.device.copy(array.memory, at.memory)
        else:
            self.device.upload(array, at.memory)

    def read(self, locations: Sequence[Location]) -> list[Array]:
        found = [self._downloaded(self.at(location)) for location in locations]
        self.device.wait()
        return found

    def _downloaded(self, at: Held) -> Array:
        """The array is valid after `wait`."""
        array = np.empty(at.shape, at.dtype)
        if at.memory is not None:
            self.device.download(at.memory, array)
        return array

    def _kept(self, at: Held) -> DeviceArray:
        array = empty(at.shape, at.dtype)
        if at.memory is not None:
            self.device.copy(at.memory, array.memory)
        return array

    def bring(self, arrays: Sequence[Array]) -> None:
        for upload in self._parameters:
            upload()

    def _uploading(self, upload: Upload) -> Callable[[], None]:
        first, last = upload.nodes[0].value, upload.nodes[-1].value
        nbytes = last.ctypes.data + last.nbytes - first.ctypes.data
        if not nbytes:
            return lambda: None
        target = self._arena[upload.byte : upload.byte + nbytes]
        if len(upload.nodes) == 1:
            return partial(self.device.upload, first, target)
        root = first
        while isinstance(root.base, np.ndarray):
            root = root.base
        start = first.ctypes.data - root.ctypes.data
        return partial(self.device.upload, root.reshape(-1).view(np.uint8)[start : start + nbytes], target)

    def arrays(self, names: Sequence[str]) -> list[Any]:
        """The arena as numbers of each of these dtypes."""
        for name in names:
            if name not in self._views:
                self._views[name] = self._arena.view(np.dtype(name))
        return [self._views[name] for name in names]

    # -- running -----------------------------------------------------------------------------------------------------

    def taken(self, array: Any) -> DeviceArray | None:
        return as_device_array(array)

    def launch(self, number: int) -> None:
        self._sections[number].launch()

    def timed_launch(self, number: int, spent: dict[Node, float]) -> None:
        """A launch's time is shared among the nodes that it works for."""
        section = self._sections[number]
        for run, action in zip(section.runs, section.actions, strict=True):
            seconds = self.device.timed(partial(action, self.device.stream))
            for node in run.nodes:
                spent[node] += seconds / len(run.nodes)

    def lower_flag(self) -> None:
        """Resets the flag after a run that raised it or was interrupted."""
        if self._wrong:
            self.device.upload(self._no, self._flag)
            self._raised[0] = 0
        self._wrong = self.schedule.flagged

    def fetch(self, arrays: Sequence[Array]) -> list[Any] | None:
        """On the GPU if one of the arrays is."""
        stay = any(isinstance(array, DeviceArray) for array in arrays)
        results = list(map(self._kept if stay else self._downloaded, self._results))
        if self.schedule.flagged:
            self.device.download(self._flag, self._raised)
        if self.schedule.flagged or not stay:
            self.device.wait()
        self._wrong = bool(self._raised[0])
        return None if self._wrong else results

    def stored_work(self) -> tuple[dict[str, Any], dict[str, Array]]:
        return stored_work(self.schedule)

    def action(self, run: Launch | LibraryProduct) -> Callable[[Any], None]:
        """Function that launches the program on a stream."""
        if isinstance(run, Launch):
            kernel = compiled(run.text, run.kinds)
            grid, block = run.grid, run.block
            arguments = *self.arrays(run.arrays), *run.arguments
            # The simulator's kernels remember how they were configured last.
            return lambda stream: kernel[grid, block, stream](*arguments)
        assert self._multiply is not None
        return partial(self._multiply, self.device.address(self._arena), run)


class _Section:
    """Launches in series: first one by one, so that all code is loaded; then captured and replayed."""

    def __init__(self, program: CudaProgram, runs: Sequence[Launch | LibraryProduct]) -> None:
        self.runs = runs
        self._device = program.device
        self.actions = [program.action(run) for run in runs]
        self._replay: Callable[[], None] | None = None
        self._warm = False

    def launch(self) -> None:
        if self._replay is not None:
            self._replay()
        elif not self._warm:
            self._warm = True
            self._one_by_one(self._device.stream)
        elif self.actions:
            self._replay = self._device.captured(self._one_by_one)
            self._replay()

    def _one_by_one(self, stream: Any) -> None:
        for action in self.actions:
            action(stream)
