"""Programs that run on the stub.

`python -m tests.graphnet.backends.cuda.stub.use PART [libcublas]` prints "done".
"""

from __future__ import annotations

import sys
from functools import partial
from types import SimpleNamespace

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.backends.cuda import blas, building
from graphnet.backends.cuda.arrays import as_device_array
from graphnet.backends.cuda.device import this_device
from tests.graphnet.backends.conftest import require_close, run_at_once
from tests.graphnet.backends.cuda.programs import PROGRAMS


def programs() -> None:
    """Kernels of every kind: one by one, captured, replayed, on arrays of the host and of the GPU."""
    for name in (
        "one axis", "booleans", "rows by index", "sums of columns, in parts", "product, sums in parts", "products",
        "rows added by index", "a result that lies between others", "sum over nothing",
    ):  # fmt: skip
        nodes, inputs, arrays = PROGRAMS[name].nodes("float32")
        function = gn.compile(nodes, inputs, backend="cuda")
        for _ in range(3):
            function(*arrays)
        function(*map(gn.place, arrays))
        function.profile(*arrays, repeats=1)


def training() -> None:
    """One step of Hessian-free optimization and one of Adam."""
    net = rnn.Network([rnn.Elman(3)], 3, 3, seed=1)
    u = net.unroll(2, 2, initial="zero")
    objective = rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets], backend="cuda")
    objective.feed(*np.zeros((2, 2, 2), np.int64))
    theta = objective.start()
    for _ in range(3):
        loss, gradient = objective.gradient(theta)
        product = objective.curvature(theta)
        for _ in range(3):
            bend = product(gradient)
        theta -= np.float32(0.1) * bend
        print(float(np.sum(np.square(theta, dtype=np.float64))) >= 0, loss is not None)


def threads() -> None:
    """Programs made, captured and replayed in six threads at once; and one that crosses from thread to thread."""

    def work(size: int) -> None:
        x = gn.input((size, 40))
        function = gn.compile([x * 2.0, gn.sum(x)], [x], backend="cuda")
        for _ in range(6):
            function(np.ones((size, 40), np.float32))

    run_at_once(*(partial(work, size) for size in range(30, 36)))


def memory() -> None:
    """STUB_MEMORY of 64 MiB: dropped arrays and dropped programs make room."""
    for size in (3 << 20, 5 << 20, 6 << 20, 9 << 20, 11 << 20):
        [gn.place(np.zeros(size // 4, np.float32)) for _ in range(3)]
    assert this_device().free_memory() > 55 << 20
    gn.place(np.zeros(10 << 20, np.float32))
    for size in (20, 25, 28):
        x = gn.input((size << 18,))
        gn.compile([x * 2.0], [x], backend="cuda", passes=())
    try:
        x = gn.input((80 << 18,))
        gn.compile([x * 2.0], [x], backend="cuda")
    except gn.BackendError as error:
        print(error)


def exchange() -> None:
    """Arrays of another library, by either protocol."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    there = gn.place(x)

    def packed(stream=None):
        assert stream
        return there.__dlpack__(stream=stream)

    interface = {"__cuda_array_interface__": there.__cuda_array_interface__}
    for lent in (interface, {"__dlpack_device__": lambda: (2, 0), "__dlpack__": packed}):
        np.testing.assert_array_equal(np.asarray(as_device_array(SimpleNamespace(**lent))), x)


def products(library: str) -> None:
    """cuBLAS by ctypes: products are right, and their launches are captured."""
    device = this_device()
    space = device.memory(blas.WORKSPACE)
    found = blas.Cublas(blas.Library(library), device.address(space), False)
    building.cublas = lambda tf32: found
    generator = np.random.default_rng(0)
    for dtype in ("float32", "float64"):
        inputs = x, y, p, q = [gn.input(shape, dtype) for shape in ((5, 7), (7, 9), (3, 5, 7), (3, 7, 4))]
        arrays = a, b, c, d = [generator.standard_normal(n.shape).astype(dtype) for n in inputs]
        function = gn.compile([x @ y, p @ q], inputs, backend="cuda")
        require_close(function(*arrays), [a @ b, c @ d], rtol=1e-4, atol=1e-5)
        for _ in range(2):  # captured, and replayed: which computes nothing here
            function(*arrays)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
    print("done")
