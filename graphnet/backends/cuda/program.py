"""The compiled program: a schedule put to work on the GPU, whose launches are captured once and then replayed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from graphnet.backends.base import OUT_OF_RANGE, Program
from graphnet.backends.cuda.arrays import DeviceArray, empty, seen
from graphnet.backends.cuda.device import Device
from graphnet.backends.cuda.files import told
from graphnet.backends.cuda.kernels import compiled
from graphnet.backends.cuda.launch import Launch
from graphnet.backends.cuda.schedule import HEADER, LibraryProduct, Place, Schedule, Stretch, Upload
from graphnet.backends.numpy import NumpyProgram, call_forward
from graphnet.backends.turns import Turns
from graphnet.errors import BackendError, GraphnetError
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node

__all__ = ["CudaProgram"]

#: Multiplies matrices in the arena, which begins at this address, on a stream.
Multiply = Callable[[int, LibraryProduct, Any], None]


class CudaProgram(Program):
    """source: the graph that the user gave, which tells what went wrong; None for a program from a file. multiply:
    cuBLAS, if it is at hand."""

    def __init__(
        self, schedule: Schedule, source: Graph | None, check: bool, device: Device, multiply: Multiply | None
    ) -> None:
        self.schedule, self.source, self.check, self.device = schedule, source, check, device
        self.memory = schedule.memory
        self._multiply = multiply
        self._turns = Turns()
        self._arena = device.memory(-(-schedule.arena_bytes // HEADER) * HEADER)
        self._views: dict[str, Any] = {}
        self._flag = self._arena[:8]
        self._no, self._raised = np.zeros(1, np.int64), np.zeros(1, np.int64)
        self._wrong = True
        self._given = [None if p is None else self._piece(p) for p in schedule.given]
        self._brought = [(node, self._piece(place)) for node, place in schedule.brought]
        self._results = [self._piece(place) for place in schedule.results]
        self._parameters = []
        for upload in schedule.uploads:
            found = self._uploading(upload)
            if upload.constant:
                found()
            else:
                self._parameters.append(found)
        self._stretches = [_Stretch(self, stretch) for stretch in schedule.stretches]

    # -- memory ------------------------------------------------------------------------------------------------------

    def _piece(self, place: Place) -> Any:
        """The bytes of a place; None where there are none."""
        nbytes = int(np.prod(place.shape, dtype=np.int64)) * place.dtype.itemsize
        return self._arena[place.byte : place.byte + nbytes] if nbytes else None

    def _uploading(self, upload: Upload) -> Callable[[], None]:
        """Copies leaves that lie side by side."""
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
        return seen(array)

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        # Kernels look at what they read; a NaN may also stand where nobody reads.
        if self.check and not all(map(_is_finite, (*arrays, *self._leaves()))):
            return self._explain(arrays)
        with self._turns.lock:
            self._turns.begin(self)
            self._lower_flag()
            self._bring(arrays)
            self._execute()
            fetched = self._fetched(arrays)
            self._turns.end()
            return fetched

    def again(self, arrays: Sequence[Array]) -> list[Array]:
        if not self.schedule.fixed or (self.check and not all(map(_is_finite, arrays))):
            return self.run(arrays)
        with self._turns.lock:
            self._turns.begin(self)
            self._lower_flag()
            for piece, array, varies in zip(self._given, arrays, self.schedule.varying, strict=True):
                # What all else was copied to may have been given to others since.
                if varies and piece is not None:
                    self._give(array, piece)
            self._execute(self.schedule.fixed)
            fetched = self._fetched(arrays)
            self._turns.end()
            return fetched

    def stored(self) -> tuple[dict[str, Any], dict[str, Array]]:
        if self.check:
            raise BackendError("a function compiled with check=True cannot be stored: errors need its graph")
        return told(self.schedule)

    def timed(self, arrays: Sequence[Array]) -> dict[Node, float]:
        """Seconds of each node: its launches' time, shared among the nodes that one launch works for."""
        spent: dict[Node, float] = defaultdict(float)
        with self._turns.lock:
            self._turns.begin(self)
            self._bring(arrays)
            for stretch in self._stretches:
                for run, action in zip(stretch.runs, stretch.actions, strict=True):
                    seconds = self.device.timed(partial(action, self.device.stream))
                    for node in run.nodes:
                        spent[node] += seconds / len(run.nodes)
                if stretch.host is not None:
                    spent[stretch.host[0]] += self.device.timed(partial(self._run_host, *stretch.host))
            self.device.wait()
        return spent

    def _leaves(self) -> list[Array]:
        nodes = [node for upload in self.schedule.uploads for node in upload.nodes]
        return [node.value for node in (*nodes, *(node for node, _ in self.schedule.brought))]

    def _bring(self, arrays: Sequence[Array]) -> None:
        for piece, array in zip(self._given, arrays, strict=True):
            if piece is not None:
                self._give(array, piece)
        for upload in self._parameters:
            upload()
        for node, piece in self._brought:
            if piece is not None:
                self.device.upload(node.value, piece)

    def _give(self, array: Any, piece: Any) -> None:
        if isinstance(array, DeviceArray):
            self.device.copy(array.memory, piece)
        else:
            self.device.upload(array, piece)

    def _execute(self, first: int = 0) -> None:
        """Runs the stretches from `first` on."""
        for stretch in self._stretches[first:]:
            stretch()
            if stretch.host is not None:
                self._run_host(*stretch.host)

    def _run_host(self, node: Node, sources: Sequence[Place], target: Place) -> None:
        found = []
        for place in sources:
            array, piece = np.empty(place.shape, place.dtype), self._piece(place)
            if piece is not None:
                self.device.download(piece, array)
            found.append(array)
        self.device.wait()
        value, piece = call_forward(node, found), self._piece(target)
        if piece is not None:
            self.device.upload(value, piece)

    def _fetched(self, arrays: Sequence[Array]) -> list[Array]:
        """The results, on the GPU if one of the arrays is; where the flag was raised, what the NumPy back end says."""
        stay = any(isinstance(array, DeviceArray) for array in arrays)
        results: list[Any] = []
        for place, piece in zip(self.schedule.results, self._results, strict=True):
            if stay:
                kept = empty(place.shape, place.dtype)
                if piece is not None:
                    self.device.copy(piece, kept.memory)
                results.append(kept)
            else:
                result = np.empty(place.shape, place.dtype)
                if piece is not None:
                    self.device.download(piece, result)
                results.append(result)
        if self.schedule.flagged:
            self.device.download(self._flag, self._raised)
        if self.schedule.flagged or not stay:
            self.device.wait()
        self._wrong = False
        if self._raised[0]:
            self._wrong = True
            return self._explain(arrays)
        return results

    def _lower_flag(self) -> None:
        """After a run in which it was raised, or that was ended before it was looked at."""
        if self._wrong:
            self.device.upload(self._no, self._flag)
            self._raised[0] = 0
        self._wrong = self.schedule.flagged

    def _explain(self, arrays: Sequence[Array]) -> list[Array]:
        """An index was out of range, or a value not finite: the NumPy back end says which, in its words."""
        if self.source is None:
            raise GraphnetError(OUT_OF_RANGE)
        return NumpyProgram(self.source, None, self.check).run([np.asarray(array) for array in arrays])

    def action(self, run: Launch | LibraryProduct) -> Callable[[Any], None]:
        """What launches it on a stream."""
        if isinstance(run, Launch):
            kernel = compiled(run.text, run.kinds)
            grid, block = run.grid, run.block
            arguments = *self.arrays(run.arrays), *run.arguments
            # The simulator's kernels remember how they were configured last.
            return lambda stream: kernel[grid, block, stream](*arguments)
        assert self._multiply is not None
        return partial(self._multiply, self.device.address(self._arena), run)


class _Stretch:
    """Launches in series: one by one when they first run, so that all code is loaded; then captured, and replayed."""

    def __init__(self, program: CudaProgram, stretch: Stretch) -> None:
        self.runs, self.host = stretch.runs, stretch.host
        self._device = program.device
        self.actions = [program.action(run) for run in stretch.runs]
        self._replay: Callable[[], None] | None = None
        self._warm = False

    def __call__(self) -> None:
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


def _is_finite(array: Array) -> bool:
    return array.dtype.kind != "f" or bool(np.all(np.isfinite(array)))
