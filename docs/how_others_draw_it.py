"""Draws one LSTM cell with graphnet, TorchLens, torchviz, Netron and Keras: docs/how_others_draw_it/.

    python docs/how_others_draw_it.py

Needs PyTorch, onnx, torchlens, torchviz, netron, keras, pydot, playwright with Chromium, and the program `dot`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

os.environ["KERAS_BACKEND"] = "torch"

import keras
import netron
import torch
import torchviz
from playwright.sync_api import sync_playwright
from torch import nn
from torchlens.options import VisualizationOptions
from torchlens.visualization import show_model_graph

import graphnet_rnn as rnn
import viz
from graphnet.system.streams import prepare_streams

FOLDER = Path(__file__).with_suffix("")
INPUTS, UNITS = 5, 8
PORT = 8111


class LSTMCell(nn.Module):
    """The equations of rnn.LSTM, as one writes them in PyTorch."""

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


def by_netron(model: str) -> None:
    netron.start(model, PORT, browse=False)
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1100, "height": 640})
        tab.goto(f"http://localhost:{PORT}")
        tab.get_by_text("Accept").click()
        tab.wait_for_selector("#canvas .node")
        tab.wait_for_timeout(1500)
        tab.screenshot(path=FOLDER / "netron.png")
        browser.close()
    netron.stop()


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    torch.manual_seed(0)
    cell = LSTMCell()
    data = [torch.randn(1, INPUTS), torch.zeros(1, UNITS), torch.zeros(1, UNITS)]
    ours = viz.draw(rnn.LSTM(UNITS), style="compact")
    ours.save(FOLDER / "graphnet.svg")
    options = VisualizationOptions(
        container_path=str(FOLDER / "torchlens"), file_format="svg", save_only=True
    )
    show_model_graph(cell, data, visualization=options)
    for tensor in data:
        tensor.requires_grad_()
    dot = torchviz.make_dot(cell(*data), params=dict(cell.named_parameters()))
    dot.render(FOLDER / "torchviz", format="svg", cleanup=True)
    layers = [keras.Input((None, INPUTS)), keras.layers.LSTM(UNITS)]
    keras.utils.plot_model(keras.Sequential(layers), FOLDER / "keras.png", show_shapes=True)
    model = str(FOLDER / "cell.onnx")
    names = {"input_names": ["x", "h", "c"], "output_names": ["h_t", "c_t"]}
    torch.onnx.export(cell, tuple(data), model, dynamo=False, **names)
    by_netron(model)
    os.remove(model)
    print(
        f"{ours.size} shapes of graphnet, {sum('label' in line and '->' not in line for line in dot.body)} of torchviz"
    )


if __name__ == "__main__":
    prepare_streams()
    main()
