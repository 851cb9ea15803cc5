"""Where a package is missing, one sentence says so."""

from __future__ import annotations

import importlib.util

import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.errors import UsageError


@pytest.mark.parametrize(("package", "who"), [("torch", "torch_module"), ("jax", "jax_function")])
def test_a_missing_package_is_one_sentence(package: str, who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == package else found(name, *rest)
    )
    with pytest.raises(UsageError, match=rf"^{who}: \w+ is not installed: pip install {package}$"):
        getattr(rnn.inside, who)(rnn.Network([rnn.GRU(3)], 2, 1, loss="squared"))
    x = gn.input((2,), "float32", name="x")
    with pytest.raises(
        UsageError, match=rf"^{package}_function: \w+ is not installed: pip install {package}$"
    ):
        getattr(gn.inside, f"{package}_function")([x * 2], [x])
