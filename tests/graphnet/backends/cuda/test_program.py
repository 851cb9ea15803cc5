"""What a program does besides its kernels: files, memory, errors, arrays that stay, inputs that vary, captures."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet import backends
from graphnet.backends.compiled.files import stored_schedule
from graphnet.backends.contents import stored_inputs
from graphnet.backends.cuda import arrays as arrays_module
from graphnet.backends.cuda import files
from graphnet.backends.cuda.arrays import DeviceArray
from graphnet.backends.cuda.backend import CudaBackend
from graphnet.backends.cuda.device import SIMULATED, Device, this_device
from graphnet.backends.cuda.files import schedule_of, stored_work
from graphnet.errors import BackendError, DtypeError, GraphnetError, NonFiniteError, ShapeError
from graphnet.graph.node import Array, Node
from tests.graphnet.backends.cuda.test_kernels import FEW

pytestmark = pytest.mark.cuda


def network(time: int = 3, **how: Any) -> tuple[gn.Function, list[Node], list[Array]]:
    """Cost and gradient of a small LSTM; its parameters, and arrays."""
    net = rnn.Network([rnn.LSTM(4)], inputs=5, outputs=5, seed=1)
    u = net.unroll(time=time, batch=3)
    parameters = list(net.parameters.values())
    local = np.random.default_rng(3)
    arrays = [
        *local.integers(0, 5, (2, time, 3)),
        *(local.standard_normal((3, 4)).astype("f4") for _ in u.initial),
    ]
    inputs = [u.inputs, u.targets, *u.initial]
    return gn.compile([u.cost, *gn.gradient(u.cost, parameters)], inputs, "cuda", **how), parameters, arrays


# -- parameters --------------------------------------------------------------------------------------------------------


def test_parameters_cross_as_one_piece() -> None:
    """They are parts of one vector, so all are brought by one copy."""
    function, parameters, _ = network()
    uploads = [u for u in function._program.schedule.uploads if not u.constant]  # type: ignore[attr-defined]
    assert [len(u.nodes) for u in uploads] == [len(parameters)]


def test_parameters_may_change() -> None:
    function, parameters, arrays = network()
    before = function(*arrays)[0]
    for node in parameters:
        node.value[...] *= 1.5
    other, _, _ = network()
    after = function(*arrays)[0]
    assert after != before
    for node in parameters:
        node.value[...] /= 1.5
    np.testing.assert_allclose(function(*arrays)[0], other(*arrays)[0], rtol=1e-6)


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_stored_function_gives_the_same_bits(tmp_path: Path) -> None:
    function, _, arrays = network()
    function.save(tmp_path / "f.gn")
    loaded = gn.load_function(tmp_path / "f.gn")
    assert (loaded.backend, loaded.memory) == ("cuda", function.memory)
    for a, b in zip(loaded(*arrays), function(*arrays), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(GraphnetError, match="index is out of range"):
        loaded(arrays[0] + 9, *arrays[1:])
    for array in loaded.parameters.values():
        array *= 1.5
    assert not np.array_equal(loaded(*arrays)[0], function(*arrays)[0])


def test_a_stored_function_keeps_what_varies(tmp_path: Path) -> None:
    x, v = gn.input((4, 4), "float64"), gn.input((4, 4), "float64", varying=True)
    function = gn.compile([gn.tanh(x @ x) @ v], [x, v], "cuda")
    function.save(tmp_path / "f.gn")
    loaded = gn.load_function(tmp_path / "f.gn")
    a = np.random.default_rng(0).standard_normal((4, 4))
    loaded(a, a)
    np.testing.assert_allclose(loaded.again(a.T)[0], np.tanh(a @ a) @ a.T)


class Cube(gn.Op):
    """y = x³, without a kernel"""

    def infer(self, x: Node) -> tuple[Any, Any]:
        return x.shape, x.dtype

    def forward(self, x: Array) -> Array:
        return x**3

    def backward(self, gy: Node, y: Node, x: Node) -> list[Node]:
        return [gy * 3.0 * x * x]

    def rop(self, rx: Node, y: Node, x: Node) -> Node:
        return rx * 3.0 * x * x


def test_an_op_that_only_python_knows(tmp_path: Path) -> None:
    x = gn.input((3, 4), "float64")
    nodes = [gn.tanh(Cube()(x.T * 2.0)).T + 1.0, Cube()(x[:, 1:3])]
    function = gn.compile(nodes, [x], "cuda")
    a = np.random.default_rng(0).standard_normal((3, 4))
    for _ in range(3):
        for found, expected in zip(function(a), (np.tanh((2 * a) ** 3) + 1, a[:, 1:3] ** 3), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12)
    with pytest.raises(BackendError, match="Python rule of Cube"):
        function.save(tmp_path / "f.gn")


def test_what_python_makes_may_lie_between_others() -> None:
    """Of booleans it makes the product, which a join wants beside others."""
    a, b, c = gn.input((3, 4), "bool"), gn.input((4, 2), "bool"), gn.input((3, 2), "bool")
    function = gn.compile([gn.concatenate([a @ b, c], axis=1)], [a, b, c], "cuda", passes=())
    arrays = [np.random.default_rng(i).random(node.shape) < 0.5 for i, node in enumerate((a, b, c))]
    np.testing.assert_array_equal(function(*arrays)[0], np.hstack([arrays[0] @ arrays[1], arrays[2]]))


# -- errors ------------------------------------------------------------------------------------------------------------


def test_an_index_out_of_range_is_told_by_numpy() -> None:
    function, _, arrays = network()
    with pytest.raises(Exception, match=r"out of (range|bounds)"):
        function(arrays[0] + 9, *arrays[1:])
    assert np.isfinite(function(*arrays)[0])


def test_check_names_the_node() -> None:
    x = gn.input((4, 3), "float64", name="x")
    for build in (
        lambda: gn.tanh(gn.log(x)),
        lambda: gn.sum(gn.log(x)),
        lambda: gn.tanh(gn.log(x) @ gn.constant(np.ones((3, 2)))),
    ):  # fmt: skip
        function = gn.compile([build()], [x], "cuda", check=True)
        assert np.isfinite(function(np.ones((4, 3)))[0]).all()
        with pytest.raises(NonFiniteError, match=r"Log.*makes (NaN|an infinity)"):
            function(np.zeros((4, 3)))
    with pytest.raises(BackendError, match="check=True"):
        function.save("nowhere")


def test_too_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes are known before anything is allocated, and so is what recomputation would save."""
    function, _, _ = network(time=40)
    monkeypatch.setattr(Device, "free_memory", lambda device: 9000)
    with pytest.raises(BackendError, match="memory='sqrt' it would need") as caught:
        network(time=40)
    said = str(caught.value)
    assert f"{int(function.memory) / 1024:.1f} KiB of memory" in said
    assert "8.8 KiB are free" in said
    less, _, _ = network_with(monkeypatch, memory="sqrt")
    assert f"{int(less.memory) / 1024:.1f} KiB; a smaller" in said


def network_with(monkeypatch: pytest.MonkeyPatch, **how: Any) -> tuple[gn.Function, list[Node], list[Array]]:
    monkeypatch.undo()
    return network(time=40, **how)


def test_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    x = gn.input((2,))
    with pytest.raises(BackendError, match=r"numba-cuda.*pip install 'graphnet\[cuda\]'"):
        gn.compile([x + 1.0], [x], "cuda")
    assert "cuda" not in backends.usable_backends()
    assert "numba-cuda" in CudaBackend().missing()


@pytest.mark.skipif(not SIMULATED, reason="there is a GPU")
def test_no_gpu(tmp_path: Path) -> None:
    """Without a simulator and without a GPU: one sentence that says what to do, and the other back ends still work."""
    program = """
import graphnet as gn, numpy as np
x = gn.input((2,))
try:
    gn.compile([x + 1.0], [x], backend="cuda")
except gn.BackendError as error:
    print(error)
gn.testing.check_op(gn.tanh, np.ones(3))
print(gn.compile([x + 1.0], [x])(np.ones(2, "f4"))[0])
"""
    without = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=without, capture_output=True, text=True, check=True
    )
    first, second = done.stdout.splitlines()
    assert first.startswith("backend='cuda' finds no NVIDIA GPU that it could use (")
    assert "backend='numba' runs on the CPU" in first
    assert second == "[2. 2.]"


# -- arrays that stay --------------------------------------------------------------------------------------------------


def test_results_stay_where_an_array_lies() -> None:
    x, y = gn.input((3, 4)), gn.input((4, 2))
    function = gn.compile([x @ y, x * 2.0], [x, y], "cuda")
    a, b = (np.random.default_rng(0).standard_normal(n.shape).astype("f4") for n in (x, y))
    product, twice = function(gn.place(a), b)
    assert isinstance(product, DeviceArray)
    assert isinstance(twice, DeviceArray)
    np.testing.assert_allclose(np.asarray(product), a @ b, rtol=1e-5)
    again, _ = function(twice, b)
    np.testing.assert_allclose(np.asarray(again), 2 * a @ b, rtol=1e-5)
    assert isinstance(function(a, b)[0], np.ndarray)
    np.testing.assert_allclose(gn.compile([x @ y], [x, y])(gn.place(a), gn.place(b))[0], a @ b, rtol=1e-5)


def test_arrays_there_are_checked_too() -> None:
    x = gn.input((3, 4), name="x")
    function = gn.compile([x * 2.0], [x], "cuda")
    with pytest.raises(ShapeError, match=r"x.*shape"):
        function(gn.place(np.zeros((4, 3), "f4")))
    with pytest.raises(DtypeError, match=r"x.*float64 on the GPU"):
        function(gn.place(np.zeros((3, 4))))


def test_place_on_the_host_is_a_copy() -> None:
    a = np.arange(3.0)
    b = gn.place(a, "numba")
    assert isinstance(b, np.ndarray)
    assert not np.shares_memory(a, b)


RNG = np.random.default_rng(11)
A, B = RNG.standard_normal((2, 70)).astype("f4")
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda a, b: a + b,
    "mixed": lambda a, b: 2 * a - b / 3 + np.float32(0.5) * a,
    "float64": lambda a, b: a.astype(np.float64) * 2.5 - b,
    "negative": lambda a, b: -a,
    "square root": lambda a, b: np.sqrt(a * a),
    "power": lambda a, b: (a * a + np.float32(1)) ** 0.75,
    "square, in float64": lambda a, b: np.square(a, dtype=np.float64),
    "where": lambda a, b: np.where(a > 0, a, 1.0).astype(np.float32),
    "clip": lambda a, b: np.clip(a, -0.5, 0.5),
    "larger, smaller": lambda a, b: np.maximum(a, b) - np.minimum(a, 0.0),
    "total": lambda a, b: np.sum(a.astype(np.float64)),
    "zeros": lambda a, b: np.zeros_like(a, np.float64),
    "a join": lambda a, b: np.concatenate([a, b]),
    "a range": lambda a, b: a[3:9] + b[4:10],
    "another shape": lambda a, b: a.reshape(7, 10)[2:4].ravel() * b[:20],
    "any, all": lambda a, b: np.array([a.any(), a.all(), np.isfinite(a).all(), (a * 0).any()]),
    "finite": lambda a, b: np.isfinite(a / (b * 0)),
    "exp, log": lambda a, b: np.log(np.exp(a)) + np.absolute(b),
}


def test_arithmetic_is_numpy_s() -> None:
    for name, operation in OPERATIONS.items():
        with np.errstate(all="ignore"):
            found, expected = np.asarray(operation(gn.place(A), gn.place(B))), np.asarray(operation(A, B))
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype), name
        np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=name)


def test_inner_products() -> None:
    a, b = (RNG.standard_normal(5000) for _ in range(2))
    assert np.einsum("i,i->", gn.place(a), gn.place(b)) == pytest.approx(a @ b, rel=1e-12)
    assert isinstance(np.einsum("i,i->", gn.place(a), gn.place(b)), float)


def test_threads_share_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays_module, "ONE_THREAD" if SIMULATED else "GPU", FEW)
    a, b = RNG.standard_normal((2, 101))
    assert np.einsum("i,i->", gn.place(a), gn.place(b)) == pytest.approx(a @ b, rel=1e-12)
    np.testing.assert_allclose(np.asarray(gn.place(a) * 2 + gn.place(b)), 2 * a + b)
    assert not (gn.place(a) * 0).any()


def test_changes_in_place() -> None:
    there, here = gn.place(A), A.copy()
    for array, other in ((there, gn.place(B)), (here, B)):
        array *= np.float32(0.5)
        array -= 2 * other
        array[2:5] = other[7:10]
        array[5:6] = 9
    np.testing.assert_allclose(np.asarray(there), here, rtol=1e-6)
    there[...] = B
    np.testing.assert_array_equal(np.asarray(there), B)
    there[...] = 0
    assert not there.any()


def test_overlapping_ranges_are_copied_first() -> None:
    there, here = gn.place(A), A.copy()
    for array in (there, here):
        array[1:8] = array[0:7]
        np.add(array[11:20], array[10:19], out=array[11:20])
        array[30:40] += array[30:40]
    np.testing.assert_array_equal(np.asarray(there), here)


def test_other_byte_orders_and_dtypes() -> None:
    np.testing.assert_array_equal(np.asarray(gn.place(A.astype(">f4")) * 2), A * 2)
    assert gn.place(A.astype(">f4")).dtype.isnative
    for dtype in ("float16", "complex64", "U3"):
        with pytest.raises(DtypeError, match="not supported"):
            gn.place(A.astype(dtype))


def test_what_is_not_there_is_said() -> None:
    there = gn.place(A)
    with pytest.raises(TypeError, match=r"np\.cumsum does not work on the GPU"):
        np.cumsum(there)
    with pytest.raises(TypeError, match=r"np\.arctan does not work on the GPU"):
        np.arctan(there)
    with pytest.raises(TypeError, match="range along its first axis"):
        there[3]
    with pytest.raises(TypeError, match="steps of 1"):
        there[::2]
    with pytest.raises(ShapeError, match=r"\[70\].*\[69\]"):
        there + there[1:]
    with pytest.raises(ShapeError, match="cannot take the shape"):
        there.reshape(3, 5)
    with pytest.raises(DtypeError, match="float64 does not fit"):
        gn.place(np.arange(70)).__iadd__(0.5)
    assert len(there) == 70
    assert "0." in repr(there)
    assert float(gn.place(np.float32(2.5))) == 2.5


@pytest.mark.skipif(not SIMULATED, reason="NumPy takes no memory of a GPU")
def test_other_libraries_take_them_where_they_are() -> None:
    there = gn.place(A)
    taken = np.from_dlpack(there)
    there += 1
    np.testing.assert_array_equal(taken, A + 1)


def test_memory_is_used_again() -> None:
    there = gn.place(A)
    owner = id((there + 1)._owner.memory)  # type: ignore[attr-defined]
    assert id((there + 2)._owner.memory) == owner  # type: ignore[attr-defined]


# -- what varies, profiles, captured graphs ----------------------------------------------------------------------------


def test_memory_in_a_ring_is_used_again_and_not_freed() -> None:
    """The collector ends each member of a ring, the memory before the block that would keep it."""
    block = this_device().block(1024)
    freed: list[int] = []
    weakref.finalize(block.memory, freed.append, 1)
    ring: list[object] = [block]
    ring.append(ring)
    del block, ring
    gc.collect()
    assert not freed


def test_again_brings_only_what_varies() -> None:
    x, v = gn.input((3, 4), "float64"), gn.input((4, 2), "float64", varying=True)
    function = gn.compile([gn.concatenate([gn.tanh(x) @ v, v[:3]], axis=1)], [x, v], "cuda")
    a, b = RNG.standard_normal((3, 4)), RNG.standard_normal((4, 2))
    function(a, b)
    for factor in (2.0, -1.0):
        (found,) = function.again(b * factor)
        np.testing.assert_allclose(found, np.concatenate([np.tanh(a) @ b, b[:3]], 1) * factor, rtol=1e-12)
    assert isinstance(function.again(gn.place(b))[0], DeviceArray)


def test_again_brings_what_is_only_joined() -> None:
    """No instruction comes after those that do not vary: the varying input is a piece of a result."""
    x, v = gn.input((3, 2), "float64"), gn.input((3, 2), "float64", varying=True)
    function = gn.compile([gn.tanh(x), gn.concatenate([v, x], axis=1)], [x, v], "cuda")
    a = np.arange(6.0).reshape(3, 2)
    function(a, a)
    tanh, joined = function.again(2 * a)
    np.testing.assert_allclose(tanh, np.tanh(a))
    np.testing.assert_array_equal(joined, np.hstack([2 * a, a]))


def test_launches_are_captured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call runs them one by one; the second captures; the others replay."""
    function, _, arrays = network()
    captured: list[int] = []
    original = Device.captured

    def counted(device: Device, work: Callable[[], None]) -> Callable[[], None]:
        captured.append(1)
        return original(device, work)

    monkeypatch.setattr(Device, "captured", counted)
    assert sum(function.profile(*arrays, repeats=1).seconds) > 0
    captured.clear()
    results = [function(*arrays) for _ in range(4)]
    assert len(captured) == 1
    for other in results[1:]:
        for a, b in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(a, b)


def test_all_that_is_asked_for_is_json() -> None:
    """A schedule is plain data: what a file cannot hold would be found here."""
    function, _, _ = network()
    header, arrays = function._program.stored()
    plain = {**json.loads(json.dumps(header)), "inputs": stored_inputs(function.inputs)}
    schedule = schedule_of(plain, arrays)
    again = stored_schedule(schedule)[0] | stored_work(schedule)[0]
    assert json.loads(json.dumps({**again, **{n: plain[n] for n in ("parameters", "inputs")}})) == plain


def test_code_that_has_no_encoding_is_refused() -> None:
    """Half of a character, under a seal that fits."""
    function, _, _ = network()
    header, arrays = function._program.stored()
    odd = {**json.loads(json.dumps(header)), "inputs": stored_inputs(function.inputs)}
    odd["texts"][0] += "# \ud800"
    odd["seal"] = files._seal(odd["texts"], odd["runs"], odd["arena_bytes"])
    with pytest.raises(BackendError, match="a kernel has half of a character in it"):
        schedule_of(odd, arrays)
