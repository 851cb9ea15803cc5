"""Matrices of derivatives of a recurrent net: eigenvalues of its Hessian, a product, and the gradient of each case.

    python -m benchmarks.operators [--units 16 --time 20 --batch 32 --rounds 5]

A GRU (PyTorch's form) with a linear output and the mean squared error, float32, the same weights everywhere. All take
turns; medians, after one warm-up call (compiling). Peers, if the extra `peers` is installed: curvlinops'
HessianLinearOperator of torch.nn.GRU, with SciPy's eigsh as here, and torch.func's vmap(grad) over the cases.
The eigenvalues and the gradients must agree with graphnet's, or the program ends with an error.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet.system.streams import prepare_streams

#: Work -> call of one peer in a turn: a function without arguments.
Calls = dict[str, Callable[[], Array]]
INPUTS, OUTPUTS, LARGEST = 8, 4, 10
WORK = ("product", f"{LARGEST} eigenvalues", "gradients of cases")


def in_graphnet(net: rnn.Network, x: Array, t: Array) -> Calls:
    time_steps, batch = x.shape[:2]
    u = net.unroll(time_steps, batch, initial="zero")
    # Without the bias of n inside the reset gate: in torch it is a third of a parameter of other gates.
    chosen = {name: p for name, p in net.parameters.items() if not name.endswith("b_hn")}
    H = gn.linear_operator("hessian", u.cost, chosen, {u.inputs: x, u.targets: t})
    v = np.ones(H.shape[1], H.dtype)
    each = gn.per_example_gradients(gn.sum(u.losses, axis=0), chosen)
    function = gn.compile(each, [u.inputs, u.targets])
    return {
        WORK[0]: lambda: np.asarray(H @ v),
        WORK[1]: lambda: gn.eigenvalues(H, LARGEST)[0],
        WORK[2]: lambda: np.array([np.sum(np.square(g)) for g in function(x, t)]).sum(),
    }


def in_torch(net: rnn.Network, x: Array, t: Array) -> Calls:
    import torch
    from curvlinops import HessianLinearOperator
    from scipy.sparse.linalg import eigsh
    from torch.func import grad, vmap

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = torch.nn.GRU(INPUTS, net.layers[0].widths[0])
            self.linear = torch.nn.Linear(net.layers[0].widths[0], OUTPUTS)

        def forward(self, x: Any) -> Any:
            return self.linear(self.rnn(x)[0])

    model = Model()
    model.load_state_dict({k: torch.from_numpy(v) for k, v in rnn.formats.to_torch(net).items()})
    parameters = [p for name, p in model.named_parameters() if "bias_hh" not in name]
    inputs, targets = torch.from_numpy(x), torch.from_numpy(t)
    data, loss = [(inputs, targets)], torch.nn.MSELoss()
    scipy_form = HessianLinearOperator(model, loss, parameters, data, check_deterministic=False).to_scipy()
    v = np.ones(scipy_form.shape[1], np.float32)
    values = dict(model.named_parameters())

    def of_case(values: Mapping[str, Any], x: Any, t: Any) -> Any:
        # torch.nn.GRU cannot be called by vmap; the same equations can.
        linear = torch.nn.functional.linear
        h, cost = torch.zeros(net.layers[0].widths[0]), torch.zeros(())
        from_x = linear(x, values["rnn.weight_ih_l0"], values["rnn.bias_ih_l0"])
        for step in range(len(x)):
            r_x, z_x, n_x = from_x[step].chunk(3)
            r_h, z_h, n_h = linear(h, values["rnn.weight_hh_l0"], values["rnn.bias_hh_l0"]).chunk(3)
            r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
            n = torch.tanh(n_x + r * n_h)
            h = (1 - z) * n + z * h
            y = linear(h, values["linear.weight"], values["linear.bias"])
            cost = cost + ((y - t[step]) ** 2).sum()
        return cost

    each = vmap(grad(of_case), in_dims=(None, 1, 1))

    def squares() -> Array:
        found = each(values, inputs, targets)
        return np.array(
            sum(float((g.detach() ** 2).sum()) for name, g in found.items() if "bias_hh" not in name)
        )

    return {
        WORK[0]: lambda: np.asarray(scipy_form @ v),
        # torch's mean is over outputs, too
        WORK[1]: lambda: eigsh(scipy_form, LARGEST, which="LA", return_eigenvectors=False) * OUTPUTS,
        WORK[2]: squares,
    }


def measure(peers: Mapping[str, Calls], rounds: int) -> dict[str, dict[str, float]]:
    """Work -> peer -> median seconds, in turns."""
    found: dict[str, dict[str, float]] = {}
    for work in WORK:
        seconds: dict[str, list[float]] = {name: [] for name in peers}
        for number in range(rounds + 1):
            for name, calls in peers.items():
                start = time.perf_counter()
                calls[work]()
                if number:
                    seconds[name].append(time.perf_counter() - start)
        found[work] = {name: statistics.median(each) for name, each in seconds.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (("units", 16), ("time", 20), ("batch", 32), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    draw = np.random.default_rng(0)
    x = draw.standard_normal((options.time, options.batch, INPUTS)).astype("f4")
    t = draw.standard_normal((options.time, options.batch, OUTPUTS)).astype("f4")
    net = rnn.Network([rnn.GRUResetAfter(options.units)], INPUTS, OUTPUTS, "squared", reads="vectors")
    peers = {"graphnet": in_graphnet(net, x, t)}
    try:
        peers["PyTorch"] = in_torch(net, x, t)
    except ImportError as error:
        print(f"without PyTorch and curvlinops: {error}")
    for work in WORK[1:]:
        values = {name: calls[work]() for name, calls in peers.items()}
        for name, value in values.items():
            expected = np.sort(np.ravel(values["graphnet"]))
            np.testing.assert_allclose(np.sort(np.ravel(value)), expected, 5e-3, 1e-4, err_msg=name)
    found = measure(peers, options.rounds)
    print(f"| ms | {' | '.join(peers)} |\n|---|{'---|' * len(peers)}")
    for work, row in found.items():
        print(f"| {work} | {' | '.join(f'{1e3 * row[name]:.2f}' for name in peers)} |")


if __name__ == "__main__":
    prepare_streams()
    main()
