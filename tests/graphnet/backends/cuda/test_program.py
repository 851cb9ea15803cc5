"""CUDA programs apart from their kernels: files, memory, errors, placed arrays, varying inputs."""

from __future__ import annotations

import gc
import itertools
import json
import weakref

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet import backends
from graphnet.backends.compiled.files import stored_schedule
from graphnet.backends.cuda import arrays as arrays_module, exchange
from graphnet.backends.cuda.arrays import DeviceArray
from graphnet.backends.cuda.backend import CudaBackend
from graphnet.backends.cuda.device import SIMULATED, Device, this_device
from graphnet.backends.cuda.exchange import CPU, borrowed, capsule_of
from graphnet.backends.cuda.files import schedule_of, stored_work
from tests.graphnet.backends.conftest import output_of, require_close
from tests.graphnet.backends.cuda.test_kernels import FEW
from tests.tables import case

pytestmark = pytest.mark.cuda
RNG = np.random.default_rng(11)
A, B = RNG.standard_normal((2, 70)).astype("f4")


def network(time: int = 3, **how):
    """Cost and gradient of a small LSTM; its parameters, and arrays."""
    net = rnn.Network([rnn.LSTM(4)], inputs=5, outputs=5, seed=1)
    u = net.unroll(time=time, batch=3)
    parameters = list(net.parameters.values())
    local = np.random.default_rng(3)
    states = [local.standard_normal((3, 4)).astype("f4") for _ in u.initial]
    inputs = [u.inputs, u.targets, *u.initial]
    function = gn.compile([u.cost, *gn.gradient(u.cost, parameters)], inputs, "cuda", **how)
    return function, parameters, [*local.integers(0, 5, (2, time, 3)), *states]


def test_parameters_are_uploaded_together_and_may_change(monkeypatch) -> None:
    """The first call runs launches one by one; the second captures; the others replay."""
    captured, original = [], Device.captured
    monkeypatch.setattr(Device, "captured", lambda device, work: captured.append(1) or original(device, work))
    function, parameters, arrays = network()
    (upload,) = [u for u in function._program.schedule.uploads if not u.constant]
    assert len(upload.nodes) == len(parameters)
    assert sum(function.profile(*arrays, repeats=1).seconds) > 0
    captured.clear()
    first, *others = [function(*arrays) for _ in range(4)]
    assert len(captured) == 1
    for other in others:
        require_close(other, first)
    for node in parameters:
        node.value[...] *= 1.5
    assert function(*arrays)[0] != first[0]
    for node in parameters:
        node.value[...] /= 1.5
    require_close(function(*arrays), first, rtol=1e-6, atol=1e-7)


def test_a_stored_function_gives_the_same_bits(tmp_path) -> None:
    function, _, arrays = network()
    function.save(tmp_path / "f.gn")
    loaded = gn.load_function(tmp_path / "f.gn")
    assert (loaded.backend, loaded.memory) == ("cuda", function.memory)
    for each in (function, loaded):
        with pytest.raises(gn.GraphnetError, match="out of range"):
            each(arrays[0] + 9, *arrays[1:])
        with pytest.raises(gn.GraphnetError, match="out of range"):
            each(arrays[0] - 9, *arrays[1:])
    require_close(loaded(*arrays), function(*arrays))
    for array in loaded.parameters.values():
        array *= 1.5
    assert not np.array_equal(loaded(*arrays)[0], function(*arrays)[0])


def test_again_transfers_only_varying_inputs(tmp_path) -> None:
    """A varying input may itself be part of a result."""
    x, v = gn.input((3, 3), "float64"), gn.input((3, 3), "float64", varying=True)
    function = gn.compile([gn.concatenate([gn.tanh(x) @ v, v], axis=1)], [x, v], "cuda")
    function.save(tmp_path / "f.gn")
    joined = gn.compile([gn.tanh(x), gn.concatenate([v, x], axis=1)], [x, v], "cuda")
    a, b = RNG.standard_normal((2, 3, 3))
    joined(a, b)
    require_close(joined.again(2 * b), [np.tanh(a), np.hstack([2 * b, a])], rtol=1e-14)
    for each in (function, gn.load_function(tmp_path / "f.gn")):
        each(a, b)
        for factor in (2.0, -1.0):
            require_close(each.again(b * factor), [np.hstack([np.tanh(a) @ b, b]) * factor], rtol=1e-12)
        assert isinstance(each.again(gn.place(b))[0], DeviceArray)


class Cube(gn.Op):
    """y = x³, without a kernel"""

    signature = "... -> ..."

    def forward(self, x):
        return x**3


def test_steps_without_a_kernel_run_in_python(tmp_path) -> None:
    """An op without a kernel, and the product of booleans, which would be joined with others."""
    x = gn.input((3, 4), "float64")
    function = gn.compile([gn.tanh(Cube()(x.T * 2.0)).T + 1.0, Cube()(x[:, 1:3])], [x], "cuda")
    a = np.random.default_rng(0).standard_normal((3, 4))
    for _ in range(3):
        require_close(function(a), (np.tanh((2 * a) ** 3) + 1, a[:, 1:3] ** 3), rtol=1e-12)
    with pytest.raises(gn.BackendError, match="Cube"):
        function.save(tmp_path / "f.gn")
    inputs = a, b, c = [gn.input(shape, "bool") for shape in ((3, 4), (4, 2), (3, 2))]
    function = gn.compile([gn.concatenate([a @ b, c], axis=1)], inputs, "cuda", passes=())
    arrays = [RNG.random(node.shape) < 0.5 for node in inputs]
    np.testing.assert_array_equal(function(*arrays)[0], np.hstack([arrays[0] @ arrays[1], arrays[2]]))


def test_schedule_round_trips_through_json() -> None:
    """A schedule is unchanged by a round trip through JSON."""
    function, _, _ = network()
    header, arrays = function._program.stored()
    plain = json.loads(json.dumps(header))
    schedule = schedule_of(plain, arrays)
    again = stored_schedule(schedule)[0] | stored_work(schedule)[0]
    assert json.loads(json.dumps({**again, "parameters": plain["parameters"]})) == plain


def test_check_names_the_node() -> None:
    x = gn.input((4, 3), "float64", name="x")
    log = gn.log(x)
    for node in (gn.tanh(log), gn.sum(log), gn.tanh(log @ gn.constant(np.ones((3, 2))))):
        function = gn.compile([node], [x], "cuda", check=True)
        assert np.isfinite(function(np.ones((4, 3)))[0]).all()
        with pytest.raises(gn.NonFiniteError, match="Log"):
            function(np.zeros((4, 3)))
    with pytest.raises(gn.BackendError, match="check=True"):
        function.save("nowhere")


def test_missing_memory_or_package_raises_an_error(monkeypatch) -> None:
    """The error states the bytes before allocation, and the bytes with recomputation."""
    needed, less = (int(network(time=40, memory=memory)[0].memory) / 1024 for memory in (None, "sqrt"))
    monkeypatch.setattr(Device, "free_memory", lambda device: 9000)
    with pytest.raises(gn.BackendError, match=r"Compile with memory='sqrt' \(needs") as caught:
        network(time=40)
    for said in (f"{needed:.1f} KiB of memory", "8.8 KiB are free", f"(needs {less:.1f} KiB)"):
        assert said in str(caught.value)
    monkeypatch.undo()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(gn.BackendError, match=r"numba-cuda.*pip install 'graphnet-rnn\[cuda\]'"):
        gn.compile([gn.input((2,)) + 1.0], backend="cuda")
    assert "cuda" not in backends.usable_backends()
    assert "numba-cuda" in CudaBackend().missing()


@pytest.mark.skipif(not SIMULATED, reason="there is a GPU")
def test_missing_gpu_raises_an_error() -> None:
    """Without simulator and GPU, the error has a remedy, and other back ends work."""
    program = """
import graphnet as gn, numpy as np
try:
    gn.compile([gn.tanh(gn.constant(np.ones(3)))], backend="cuda")
except gn.BackendError as error:
    print(error)
gn.testing.check_op(gn.tanh, np.ones(3))
"""
    (said,) = output_of("-c", program, without=("NUMBA_ENABLE_CUDASIM",)).splitlines()
    assert said.startswith("backend='cuda' finds no usable NVIDIA GPU (")
    assert "backend='numba' runs on the CPU" in said


def test_results_for_device_arrays_stay_on_the_device() -> None:
    x, y = gn.input((3, 4), name="x"), gn.input((4, 2))
    function = gn.compile([x @ y, x * 2.0], [x, y], "cuda")
    a, b = (np.random.default_rng(0).standard_normal(n.shape).astype("f4") for n in (x, y))
    product, twice = function(gn.place(a), b)
    assert {type(product), type(twice)} == {DeviceArray}
    require_close([np.asarray(product), np.asarray(function(twice, b)[0])], [a @ b, 2 * a @ b], rtol=1e-5)
    assert isinstance(function(a, b)[0], np.ndarray)
    for wrong, error in ((a.T, gn.ShapeError), (a.astype("f8"), gn.DtypeError)):
        with pytest.raises(error, match=r"x\[3, 4\]"):
            function(gn.place(wrong), b)
    require_close(gn.compile([x @ y], [x, y])(gn.place(a), gn.place(b)), [a @ b], rtol=1e-5)
    copy = gn.place(a, "numba")
    assert isinstance(copy, np.ndarray)
    assert not np.shares_memory(a, copy)


OPERATIONS = {
    "mixed": lambda a, b: 2 * a - b / 3 + np.float32(0.5) * a,
    "functions": lambda a, b: np.sqrt(a * a) + (a * a + np.float32(1)) ** 0.75 + np.log(np.exp(-a)) + np.absolute(b),
    "in float64": lambda a, b: np.square(a, dtype=np.float64) + np.zeros_like(a, np.float64) + a.astype(np.float64),
    "choices": lambda a, b: np.where(a > 0, a, 1.0).astype(np.float32) * np.clip(a, -0.5, 0.5),
    "larger, smaller": lambda a, b: np.maximum(a, b) - np.minimum(a, 0.0),
    "total": lambda a, b: np.sum(a.astype(np.float64)),
    "joins and ranges": lambda a, b: np.concatenate([a[3:9] + b[4:10], a.reshape(7, 10)[2:4].ravel() * b[:20]]),
    "any, all": lambda a, b: np.array([a.any(), a.all(), np.isfinite(a).all(), (a * 0).any()]),
    "finite": lambda a, b: np.isfinite(a / (b * 0)),
}  # fmt: skip


def test_arithmetic_matches_numpy() -> None:
    for name, operation in OPERATIONS.items():
        with case(name), np.errstate(all="ignore"):
            found, expected = np.asarray(operation(gn.place(A), gn.place(B))), np.asarray(operation(A, B))
            assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_inner_products_match_numpy(monkeypatch) -> None:
    random = np.random.default_rng(0)  # of its own: a sum near 0 would have a large relative error
    a, b = (random.standard_normal(5000) for _ in range(2))
    found = np.einsum("i,i->", gn.place(a), gn.place(b))
    assert isinstance(found, float)
    assert found == pytest.approx(a @ b, rel=1e-12)
    monkeypatch.setattr(arrays_module, "ONE_THREAD" if SIMULATED else "GPU", FEW)
    a, b = a[:101], b[:101]
    assert np.einsum("i,i->", gn.place(a), gn.place(b)) == pytest.approx(a @ b, rel=1e-12)
    np.testing.assert_allclose(np.asarray(gn.place(a) * 2 + gn.place(b)), 2 * a + b)
    assert not (gn.place(a) * 0).any()


def test_in_place_changes_conversions_and_memory_reuse() -> None:
    """Overlapping ranges are copied first."""
    there, here = gn.place(A), A.copy()
    for array, other in ((there, gn.place(B)), (here, B)):
        array *= np.float32(0.5)
        array -= 2 * other
        array[2:5] = other[7:10]
        array[5:6] = 9
        array[21:28] = array[20:27]
        np.add(array[41:50], array[40:49], out=array[41:50])
        array[60:70] += array[60:70]
    np.testing.assert_allclose(np.asarray(there), here, rtol=1e-6)
    there[...] = B
    np.testing.assert_array_equal(np.asarray(there), B)
    there[...] = 0
    assert not there.any()
    big = gn.place(A.astype(">f4"))
    np.testing.assert_array_equal(np.asarray(big * 2), A * 2)
    assert big.dtype.isnative
    assert (len(big), float(gn.place(np.float32(2.5)))) == (70, 2.5)
    assert "0." in repr(big)
    owner = id((there + 1)._owner.memory)
    assert id((there + 2)._owner.memory) == owner
    # Garbage collection of a cycle finalizes the memory before the block that owns it.
    freed: list[int] = []
    ring: list[object] = [this_device().block(1024)]
    weakref.finalize(ring[0].memory, freed.append, 1)
    ring.append(ring)
    del ring
    gc.collect()
    assert not freed


REFUSED = {
    "half precision": (lambda a: gn.place(np.zeros(3, "float16")), gn.DtypeError, "not supported"),
    "another's": (lambda a: borrowed(np.zeros(3, "f2").__dlpack__()), gn.DtypeError, "16 bits"),
    "another function": (np.cumsum, TypeError, r"np\.cumsum"),
    "another ufunc": (np.arctan, TypeError, r"np\.arctan"),
    "one number": (lambda a: a[3], TypeError, "slices along its first axis"),
    "steps": (lambda a: a[::2], TypeError, "must have step 1"),
    "other lengths": (lambda a: a + a[1:], gn.ShapeError, r"\[70\].*\[69\]"),
    "no such shape": (lambda a: a.reshape(3, 5), gn.ShapeError, "cannot be reshaped to"),
    "floats into integers": (lambda a: gn.place(np.arange(70)).__iadd__(0.5), gn.DtypeError, "float64"),
}


def test_unsupported_operations_on_a_placed_array_raise() -> None:
    for name, (call, error, part) in REFUSED.items():
        with case(name), pytest.raises(error, match=part):
            call(gn.place(A))


class Lender:
    """Lends an array through DLPack, as other libraries do."""

    def __init__(self, array) -> None:
        self.array = array

    def __dlpack_device__(self):
        return CPU, 0

    def __dlpack__(self, **wishes):
        return capsule_of(self.array.ctypes.data, self.array.shape, self.array.dtype, (CPU, 0), self)


def test_arrays_are_exchanged_with_numpy() -> None:
    dtypes, shapes = ("float32", "float64", "int32", "int64", "uint8"), ((), (5,), (2, 3, 4), (0, 3))
    for dtype, shape in itertools.product(dtypes, shapes):
        array = np.arange(24).astype(dtype)[: np.prod(shape, dtype=int)].reshape(shape)
        taken = np.from_dlpack(Lender(array))
        with case(dtype, shape):
            assert (taken.dtype, taken.shape, taken.tobytes()) == (array.dtype, shape, array.tobytes())
            assert np.shares_memory(taken, array) or not array.size
    whole = np.arange(12)
    for array in (whole.reshape(3, 4).T, np.zeros((2, 2), "float32"), whole[3:]):
        lent = borrowed(array.__dlpack__())
        assert (lent.shape, lent.dtype, lent.device) == (array.shape, array.dtype, (CPU, 0))
        assert lent.address == array.ctypes.data
        strides = tuple(s // array.itemsize for s in array.strides)
        assert (lent.strides or strides) == strides
    capsule = Lender(whole).__dlpack__()
    exchange._Managed.from_address(exchange._held(capsule, exchange.FRESH)).tensor.byte_offset = 16
    assert borrowed(capsule).address == whole.ctypes.data + 16


@pytest.mark.slow
def test_borrowed_memory_is_released_with_the_last_borrower() -> None:
    """Borrowers are NumPy, graphnet, and an unused capsule."""
    for name, take in {
        "NumPy": np.from_dlpack, "us": lambda lender: borrowed(lender.__dlpack__()), "nobody": Lender.__dlpack__,
    }.items():  # fmt: skip
        lender = Lender(np.arange(6.0))
        gone = weakref.ref(lender)
        taken = take(lender)
        del lender
        gc.collect()
        with case(name):
            assert gone() is not None
            del taken
            gc.collect()
            assert gone() is None
            assert not exchange._exported


def test_dlpack_arrays_are_not_copied() -> None:
    x = gn.input((2, 3))
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    for backend in ("numpy", "numba", "cuda"):
        (doubled,) = gn.compile([x * 2.0], [x], backend)(Lender(array))
        np.testing.assert_array_equal(doubled, 2 * array, err_msg=backend)
    if SIMULATED:  # NumPy cannot use memory of a GPU
        there = gn.place(A)
        taken = np.from_dlpack(there)
        there += 1
        np.testing.assert_array_equal(taken, A + 1)
