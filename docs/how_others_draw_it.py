"""Draws one LSTM cell with graphnet, TorchLens, torchviz, Netron, Keras and tinygrad: docs/how_others_draw_it/.

    python docs/how_others_draw_it.py [TOOL ...]

Needs the packages of the tools, PyTorch and onnx for the first four others, pydot for Keras, playwright with Chromium
for Netron and tinygrad, and the program `dot`. Without a TOOL, all draw.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import graphnet_rnn as rnn
import viz
from graphnet.system.streams import prepare_streams

FOLDER = Path(__file__).with_suffix("")
INPUTS, UNITS = 5, 8
PORT = 8111

#: The same cell in tinygrad, run by a process of its own.
TINYGRAD = f"""
from tinygrad import Tensor
W = {{f"{{k}}{{g}}": Tensor.empty(n, {UNITS}) for k, n in (("x", {INPUTS}), ("h", {UNITS}), ("b", 1)) for g in "ifgo"}}
x, h, c = Tensor.empty(1, {INPUTS}), Tensor.empty(1, {UNITS}), Tensor.empty(1, {UNITS})
i, f, g, o = (x @ W["x" + k] + h @ W["h" + k] + W["b" + k] for k in "ifgo")
(o.sigmoid() * (f.sigmoid() * c + i.sigmoid() * g.tanh()).tanh()).realize()
"""


def in_pytorch() -> tuple[Any, list[Any]]:
    """The equations of rnn.LSTM as a PyTorch module, and arguments."""
    import torch
    from torch import nn

    class LSTMCell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for gate in "ifgo":
                setattr(self, f"W_x{gate}", nn.Parameter(0.1 * torch.randn(INPUTS, UNITS)))
                setattr(self, f"W_h{gate}", nn.Parameter(0.1 * torch.randn(UNITS, UNITS)))
                setattr(self, f"b_{gate}", nn.Parameter(torch.zeros(UNITS)))

        def forward(self, x, h, c):
            i = torch.sigmoid(x @ self.W_xi + h @ self.W_hi + self.b_i)
            f = torch.sigmoid(x @ self.W_xf + h @ self.W_hf + self.b_f)
            g = torch.tanh(x @ self.W_xg + h @ self.W_hg + self.b_g)
            o = torch.sigmoid(x @ self.W_xo + h @ self.W_ho + self.b_o)
            c = f * c + i * g
            return o * torch.tanh(c), c

    torch.manual_seed(0)
    return LSTMCell(), [torch.randn(1, INPUTS), torch.zeros(1, UNITS), torch.zeros(1, UNITS)]


@contextmanager
def page(url: str, wide: int, high: int) -> Iterator[Any]:
    """A page in Chromium."""
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": wide, "height": high})
        tab.goto(url)
        yield tab
        browser.close()


def by_graphnet() -> int:
    ours = viz.draw(rnn.LSTM(UNITS), style="compact")
    ours.save(FOLDER / "graphnet.svg")
    return ours.size


def by_torchlens() -> None:
    from torchlens.options import VisualizationOptions
    from torchlens.visualization import show_model_graph

    options = VisualizationOptions(
        container_path=str(FOLDER / "torchlens"), file_format="svg", save_only=True
    )
    show_model_graph(*in_pytorch(), visualization=options)


def by_torchviz() -> int:
    import torchviz

    cell, data = in_pytorch()
    for tensor in data:
        tensor.requires_grad_()
    dot = torchviz.make_dot(cell(*data), params=dict(cell.named_parameters()))
    dot.render(FOLDER / "torchviz", format="svg", cleanup=True)
    return sum("label" in line and "->" not in line for line in dot.body)


def by_netron() -> None:
    import netron
    import torch

    cell, data = in_pytorch()
    model = str(FOLDER / "cell.onnx")
    names = {"input_names": ["x", "h", "c"], "output_names": ["h_t", "c_t"]}
    torch.onnx.export(cell, tuple(data), model, dynamo=False, **names)
    netron.start(model, PORT, browse=False)
    with page(f"http://localhost:{PORT}", 1100, 640) as tab:
        tab.get_by_text("Accept").click()
        tab.wait_for_selector("#canvas .node")
        tab.wait_for_timeout(1500)
        tab.screenshot(path=FOLDER / "netron.png")
    netron.stop()
    os.remove(model)


def by_keras() -> None:
    os.environ["KERAS_BACKEND"] = "torch"
    import keras

    layers = [keras.Input((None, INPUTS)), keras.layers.LSTM(UNITS)]
    keras.utils.plot_model(keras.Sequential(layers), FOLDER / "keras.png", show_shapes=True)


def by_tinygrad() -> int:
    with tempfile.TemporaryDirectory() as folder:
        settings = {**os.environ, "VIZ": "1", "DEV": "PYTHON", "PORT": str(PORT), "TMPDIR": folder}
        subprocess.run([sys.executable, "-c", TINYGRAD], env=settings, check=True)
        server = subprocess.Popen(
            [sys.executable, "-u", "-m", "tinygrad.viz.serve"],
            env=settings,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert server.stdout is not None
        while "ready" not in server.stdout.readline():
            pass
        with page(f"http://localhost:{PORT}", 1300, 640) as tab:
            tab.get_by_text("Callify").first.click()
            tab.get_by_text("View Tensor Graph").first.click()
            tab.wait_for_selector("#nodes g")
            tab.wait_for_timeout(1500)
            tab.screenshot(path=FOLDER / "tinygrad.png")
            count: int = tab.locator("#nodes > g").count()
        server.kill()
    return count


TOOLS: dict[str, Callable[[], int | None]] = {
    "graphnet": by_graphnet,
    "torchlens": by_torchlens,
    "torchviz": by_torchviz,
    "netron": by_netron,
    "keras": by_keras,
    "tinygrad": by_tinygrad,
}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for tool in sys.argv[1:] or TOOLS:
        shapes = TOOLS[tool]()
        print(f"{tool}: {shapes} shapes" if shapes else tool)


if __name__ == "__main__":
    prepare_streams()
    main()
