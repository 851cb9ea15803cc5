"""Training with backend="cuda": the same numbers as on the host, which nothing but scalars crosses on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.backends.cuda.arrays import DeviceArray
from graphnet.backends.cuda.device import Device
from graphnet_rnn.optimizers.conjugate_gradient import conjugate_gradient
from graphnet_rnn.optimizers.hessian_free import AugmentedHessianFree, GreedyHessianFree
from tests.tables import case

pytestmark = pytest.mark.cuda

TIME, BATCH = 2, 3


def objective(backend: str, **how: Any) -> rnn.Objective:
    net = rnn.Network([rnn.Elman(3)], 3, 3, seed=3)
    u = net.unroll(TIME, BATCH, initial="zero")
    made = rnn.Objective(
        u.cost, net.parameters, [u.inputs, u.targets], structure=u.structure, backend=backend, **how
    )
    local = np.random.default_rng(0)
    made.feed(local.integers(0, 3, u.inputs.shape), local.integers(0, 3, u.targets.shape))
    return made


class Transfers:
    """The bytes of each copy between the host and the GPU."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        upload, download = Device.upload, Device.download

        def counted_upload(device: Device, source: Any, target: Any) -> None:
            self.sizes.append(source.nbytes)
            upload(device, source, target)

        def counted_download(device: Device, source: Any, target: Any) -> None:
            self.sizes.append(target.nbytes)
            download(device, source, target)

        monkeypatch.setattr(Device, "upload", counted_upload)
        monkeypatch.setattr(Device, "download", counted_download)

    @property
    def largest(self) -> int:
        return max(self.sizes, default=0)


@pytest.fixture
def transfers(monkeypatch: pytest.MonkeyPatch) -> Transfers:
    return Transfers(monkeypatch)


def test_loss_gradient_and_curvature() -> None:
    for l2 in [0.0, 0.01]:
        with case(l2):
            host, gpu = (objective(backend, l2=l2) for backend in ("numpy", "cuda"))
            w = host.start()
            there = gpu.start()
            assert isinstance(there, DeviceArray)
            assert host.loss(w) == pytest.approx(gpu.loss(there), rel=1e-6)
            loss, g = gpu.gradient(there)
            assert isinstance(g, DeviceArray)
            np.testing.assert_allclose(np.asarray(g), host.gradient(w)[1], rtol=2e-5, atol=1e-7)
            assert loss == pytest.approx(host.gradient(w)[0], rel=1e-6)
            v = np.random.default_rng(1).standard_normal(host.size)
            for structural in (0.0, 0.5):
                expected, product = host.curvature(w, structural), gpu.curvature(there, structural)
                for direction in (v, -2 * v):
                    found = product(gn.place(direction, "cuda"))
                    assert isinstance(found, DeviceArray)
                    np.testing.assert_allclose(np.asarray(found), expected(direction), rtol=2e-4, atol=1e-6)


def test_vectors_of_the_host_are_taken_and_given_back() -> None:
    gpu = objective("cuda")
    w = np.asarray(gpu.start())
    loss, g = gpu.gradient(w)
    np.testing.assert_array_equal(np.asarray(gpu.gradient(gn.place(w))[1]), np.asarray(g))
    assert loss == gpu.loss(w)
    gpu.set(gpu.start())


OPTIMIZERS = {
    "SGD": rnn.SGD(0.1),
    "clipped": rnn.SGD(0.5, clip_norm=0.05, clip_value=0.02),
    "Momentum": rnn.Momentum(0.1, momentum=0.9),
    "Nesterov": rnn.Nesterov(0.1, momentum=0.9),
    "RMSprop": rnn.RMSprop(0.01),
    "Adam": rnn.Adam(0.01),
    "HessianFree": rnn.HessianFree(structural=0.1, cg_steps=4),
    "adapted structural damping": rnn.HessianFree(structural=0.1, adapts="structural", cg_steps=4),
    "GreedyHessianFree": GreedyHessianFree(cg_steps=3),
    "AugmentedHessianFree": AugmentedHessianFree(cg_steps=3),
    "LBFGS": rnn.LBFGS(iterations=4),
    "NonlinearConjugateGradient": rnn.NonlinearConjugateGradient(iterations=4),
}


#: Relatives of HessianFree and LBFGS, which take seconds where a GPU is simulated.
LONG = (
    "adapted structural damping",
    "GreedyHessianFree",
    "AugmentedHessianFree",
    "NonlinearConjugateGradient",
)


@pytest.mark.parametrize(
    "optimizer",
    [
        pytest.param(each, id=name, marks=[pytest.mark.slow] * (name in LONG))
        for name, each in OPTIMIZERS.items()
    ],
)
def test_an_optimizer_does_the_same_there(optimizer: Any) -> None:
    host = rnn.minimize(objective("numpy"), optimizer, steps=2)
    gpu = rnn.minimize(objective("cuda"), optimizer, steps=2)
    assert isinstance(gpu.theta, np.ndarray)
    # A line search in float32 takes other steps where sums round otherwise.
    searches = isinstance(optimizer, rnn.optimizers.LineSearchOptimizer)
    assert gpu.loss == pytest.approx(host.loss, rel=1e-3 if searches else 1e-4)
    np.testing.assert_allclose(gpu.theta, host.theta, rtol=1e-2, atol=1e-2 if searches else 2e-4)


def test_minimize_goes_on_there() -> None:
    whole = rnn.minimize(objective("cuda"), rnn.Adam(0.01), steps=3)
    first = rnn.minimize(objective("cuda"), rnn.Adam(0.01), steps=1)
    assert all(isinstance(array, np.ndarray) for array in first.state.values())
    more = rnn.minimize(objective("cuda"), rnn.Adam(0.01), steps=2, start=first.theta, state=first.state)
    np.testing.assert_array_equal(more.theta, whole.theta)


@pytest.mark.parametrize(
    "name", ["clipped", "Nesterov", "Adam", "HessianFree", "LBFGS", "NonlinearConjugateGradient"]
)
def test_a_step_moves_only_scalars(name: str, transfers: Transfers) -> None:
    optimizer = OPTIMIZERS[name]
    gpu = objective("cuda")
    theta = gpu.start()
    state = optimizer.init(theta)
    optimizer.step(gpu, theta, state)  # compiles, and brings constants
    transfers.sizes.clear()
    optimizer.step(gpu, theta, state)
    assert transfers.sizes
    assert transfers.largest <= 8
    assert isinstance(theta, DeviceArray)


def test_batches_are_brought_once(transfers: Transfers) -> None:
    gpu = objective("cuda")
    batches = rnn.BatchedObjective(gpu)
    arrays = [np.asarray(a) for a in gpu.fed]
    batches.feed([arrays, [a.copy() for a in arrays]])
    theta, optimizer = batches.start(), rnn.HessianFree(cg_steps=4)
    state = optimizer.init(theta)
    optimizer.step(batches, theta, state)
    transfers.sizes.clear()
    optimizer.step(batches, theta, state)
    assert transfers.largest <= 8


def test_conjugate_gradient_solves_there() -> None:
    local = np.random.default_rng(5)
    root = local.standard_normal((6, 6))
    matrix, b = root @ root.T + np.eye(6), local.standard_normal(6)

    def product(v: Any) -> Any:
        return gn.place(matrix @ np.asarray(v))

    there = conjugate_gradient(product, gn.place(b), max_steps=20, tolerance=0)
    np.testing.assert_allclose(np.asarray(there.x), np.linalg.solve(matrix, b), rtol=1e-8)


def test_a_trainer_is_resumed_with_the_same_bytes(tmp_path: Path) -> None:
    """Also on the GPU; and its network has the weights that it found there."""
    text = rnn.data.Corpus.split("abcad bcad abca dabc adbc " * 5)

    def trainer(folder: Path, epochs: int) -> rnn.Trainer:
        net = rnn.Network([rnn.Elman(4)], len(text.vocabulary), len(text.vocabulary), seed=1)
        problem = rnn.CarriedText(net, text, time=6, batch=4, sample=1, backend="cuda")
        return rnn.Trainer(problem, rnn.Training(rnn.Nesterov(0.2), epochs=epochs, stopping=None), folder)

    whole = trainer(tmp_path / "whole", 2)
    whole.run()
    first = trainer(tmp_path / "parts", 1)
    first.run()
    rest = trainer(tmp_path / "parts", 2)
    rest.resume()
    rest.run()
    np.testing.assert_array_equal(rest.problem.model.theta, whole.problem.model.theta)
    np.testing.assert_array_equal(rest.problem.model.theta, np.asarray(rest.theta))
    assert isinstance(rest.state["v"], DeviceArray)
