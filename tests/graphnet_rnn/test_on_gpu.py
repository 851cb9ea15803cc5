"""Training with backend="cuda" matches the host and transfers only scalars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.backends.cuda.arrays import DeviceArray
from graphnet.backends.cuda.device import Device
from tests.tables import case, some_quick

pytestmark = pytest.mark.cuda


def objective(backend: str, **how: Any) -> rnn.Objective:
    net = rnn.Network([rnn.Elman(3)], 3, 3, seed=3)
    u = net.unroll(2, 3, initial="zero")
    how |= {"structure": u.structure, "backend": backend}
    made = rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets], **how)
    local = np.random.default_rng(0)
    made.feed(local.integers(0, 3, u.inputs.shape), local.integers(0, 3, u.targets.shape))
    return made


@pytest.fixture
def transfers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each copy between the host and the GPU."""
    sizes: list[int] = []
    for name, end, copy in (("upload", 0, Device.upload), ("download", 1, Device.download)):

        def counted(device: Device, *ends: Any, copy: Any = copy, end: int = end) -> None:
            sizes.append(ends[end].nbytes)
            copy(device, *ends)

        monkeypatch.setattr(Device, name, counted)
    return sizes


def test_loss_gradient_and_curvature() -> None:
    """Includes a vector on the host."""
    for l2 in [0.0, 0.01]:
        with case(l2):
            host, gpu = (objective(backend, l2=l2) for backend in ("numpy", "cuda"))
            w, there = host.start(), gpu.start()
            loss, g = gpu.gradient(there)
            assert isinstance(g, DeviceArray)
            np.testing.assert_allclose(np.asarray(g), host.gradient(w)[1], rtol=2e-5, atol=1e-7)
            assert host.loss(w) == host.gradient(w)[0] == pytest.approx(loss, rel=1e-6)
            again, same = gpu.gradient(np.asarray(there))
            assert again == gpu.loss(np.asarray(there)) == loss
            np.testing.assert_array_equal(np.asarray(same), np.asarray(g))
            v = np.random.default_rng(1).standard_normal(host.size)
            for structural in (0.0, 0.5):
                expected, product = host.curvature(w, structural), gpu.curvature(there, structural)
                for direction in (v, -2 * v):
                    found = product(gn.place(direction, "cuda"))
                    assert isinstance(found, DeviceArray)
                    np.testing.assert_allclose(np.asarray(found), expected(direction), rtol=2e-4, atol=1e-6)
            gpu.set(there)


OPTIMIZERS = {
    "SGD": rnn.SGD(0.1),
    "clipped": rnn.SGD(0.5, clip_norm=0.05, clip_value=0.02),
    "Momentum": rnn.Momentum(0.1, momentum=0.9),
    "Nesterov": rnn.Nesterov(0.1, momentum=0.9),
    "RMSprop": rnn.RMSprop(0.01),
    "Adam": rnn.Adam(0.01),
    "HessianFree": rnn.HessianFree(structural=0.1, cg_steps=4),
    "LBFGS": rnn.LBFGS(iterations=4),
    "adapted structural damping": rnn.HessianFree(structural=0.1, adapts="structural", cg_steps=4),
    "GreedyHessianFree": rnn.optimizers.GreedyHessianFree(cg_steps=3),
    "AugmentedHessianFree": rnn.optimizers.AugmentedHessianFree(cg_steps=3),
    "NonlinearConjugateGradient": rnn.NonlinearConjugateGradient(iterations=4),
}


@pytest.mark.parametrize("name", some_quick(OPTIMIZERS, ["clipped", "Adam"]))
def test_optimizers_give_the_same_results_on_the_gpu(name: str) -> None:
    optimizer = OPTIMIZERS[name]
    host = rnn.minimize(objective("numpy"), optimizer, steps=2)
    gpu = rnn.minimize(objective("cuda"), optimizer, steps=2)
    assert isinstance(gpu.theta, np.ndarray)
    # A line search in float32 takes other steps where sums round otherwise.
    searches = isinstance(optimizer, rnn.optimizers.LineSearchOptimizer)
    assert gpu.loss == pytest.approx(host.loss, rel=1e-3 if searches else 1e-4)
    np.testing.assert_allclose(gpu.theta, host.theta, rtol=1e-2, atol=1e-2 if searches else 2e-4)


@pytest.mark.slow
def test_minimize_resumes_on_the_gpu() -> None:
    whole = rnn.minimize(objective("cuda"), rnn.Adam(0.01), steps=3)
    first = rnn.minimize(objective("cuda"), rnn.Adam(0.01), steps=1)
    assert all(isinstance(array, np.ndarray) for array in first.state.values())
    more = rnn.minimize(objective("cuda"), rnn.Adam(0.01), steps=2, start=first.theta, state=first.state)
    np.testing.assert_array_equal(more.theta, whole.theta)


@pytest.mark.parametrize(
    "name",
    some_quick(
        ["clipped", "Nesterov", "Adam", "HessianFree", "LBFGS", "NonlinearConjugateGradient", "batched"],
        ["Adam"],
    ),
)
def test_steps_transfer_only_scalars(name: str, transfers: list[int]) -> None:
    """Batches are transferred once."""
    optimizer, gpu = (OPTIMIZERS | {"batched": rnn.HessianFree(cg_steps=4)})[name], objective("cuda")
    if name == "batched":
        arrays = [np.asarray(a) for a in gpu.gradient_batches[0]]
        gpu.feed_batches([arrays, [a.copy() for a in arrays]])
    theta = gpu.start()
    state = optimizer.init(theta)
    optimizer.step(gpu, theta, state)  # compiles, and brings constants
    transfers.clear()
    optimizer.step(gpu, theta, state)
    assert transfers
    assert max(transfers) <= 8
    assert isinstance(theta, DeviceArray)


@pytest.mark.slow
def test_resumed_trainer_has_the_same_bytes(tmp_path: Path) -> None:
    """Includes runs on the GPU; the network gets the trained weights."""
    text = rnn.data.Corpus.split("abcad bcad abca dabc adbc " * 5)

    def trained(folder: str, epochs: int, resumed: bool = False) -> rnn.Trainer:
        net = rnn.Network([rnn.Elman(4)], len(text.vocabulary), len(text.vocabulary), seed=1)
        problem = rnn.CarriedText(net, text, time=6, batch=4, sample=1, backend="cuda")
        training = rnn.Training(rnn.Nesterov(0.2), epochs=epochs, stopping=None)
        made = rnn.Trainer(problem, training, tmp_path / folder)
        if resumed:
            made.resume()
        made.run()
        return made

    whole = trained("whole", 2)
    trained("parts", 1)
    rest = trained("parts", 2, resumed=True)
    np.testing.assert_array_equal(rest.problem.model.theta, whole.problem.model.theta)
    np.testing.assert_array_equal(rest.problem.model.theta, np.asarray(rest.theta))
    assert isinstance(rest.state["v"], DeviceArray)
