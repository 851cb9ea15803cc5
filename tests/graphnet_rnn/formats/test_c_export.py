"""Every cell, and a new one, gives the same results in C."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.errors import GraphnetError
from graphnet_rnn.errors import UsageError
from tests.graphnet.standalone_c.compiled import COMPILER, Exported, library, require_same
from tests.tables import case

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler on PATH")


class Odd(rnn.Cell):
    """h' = sin(x W + h W) max(c, h);  c' = c mod 1.5 + |h|"""

    states = (rnn.State("h"), rnn.State("c"))

    def step(self, x, h, c):
        mixed = gn.sin(self.affine("h", x=x, h=h)) * gn.maximum(c, h)
        return mixed, c % 1.5 + gn.absolute(h)


@pytest.mark.slow
def test_every_cell_agrees(tmp_path: Path) -> None:
    """Two steps of two sequences, from states that are not zero."""
    generator = np.random.default_rng(3)
    found = []
    for number, make in enumerate([*rnn.cells.ALL.values(), Odd]):
        net = rnn.Network([make(6)], 5, 5)
        net.theta[...] = generator.normal(0, 0.4, net.theta.shape)
        u = net.unroll(2, 2, training=False)
        inputs = [u.inputs, *u.initial]
        arrays = [generator.integers(0, 5, u.inputs.shape)]
        arrays += [generator.uniform(0.1, 0.5, s.shape).astype("float32") for s in u.initial]
        found.append(Exported(f"cell{number}", [u.logits, *u.final], inputs, arrays))
    loaded = library(found, tmp_path)
    for f in found:
        require_same(f, loaded)


@pytest.mark.parametrize("how", [{"layers": [rnn.Bidirectional(rnn.GRU(2))]}, {"pool": "mean"}])
def test_noncausal_networks_need_the_number_of_time_steps(tmp_path: Path, how: Any) -> None:
    net = rnn.Network(**{"layers": [rnn.GRU(2)], "inputs": 3, "outputs": 1, "loss": "squared", **how})
    with pytest.raises(UsageError, match="needs the whole sequence at once; give the number of time steps"):
        rnn.formats.export_c(net, tmp_path / "net.c")
    assert rnn.formats.export_c(net, tmp_path / "net.c", time=4).startswith("x[4, 1, 3]")


def test_networks_without_output_layer_export_the_last_layer(tmp_path: Path) -> None:
    net = rnn.Network([rnn.GRU(3), rnn.GRU(2)], 2, 0, reads="vectors", skip="outputs")
    assert "-> hidden[4, 1, 2]" in rnn.formats.export_c(net, tmp_path / "net.c", time=4)
    assert rnn.run(net, np.ones((4, 1, 2)))[0].shape == (4, 1, 2)


def test_invalid_paths_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    net = rnn.Network([rnn.GRU(2)], 3, 3)
    for path, named in (("", "it is empty"), (None, "not None"), (5, "not 5")):
        with case(path), pytest.raises(UsageError, match=f"export_c: path must be .*{named}"):
            rnn.formats.export_c(net, path)
    for path in (300 * "a", 300 * "a" + ".c"):
        with case(path), pytest.raises(GraphnetError, match="cannot write"):
            rnn.formats.export_c(net, path)
    assert not list(tmp_path.iterdir())
