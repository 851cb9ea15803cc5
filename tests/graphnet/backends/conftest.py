"""Helpers for tests of compiled back ends: comparison with NumPy, processes, concurrent callers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import graphnet as gn
from graphnet.backends import load_backend

ROOT = Path(gn.__file__).parents[1]
#: Time limit in seconds, which only a hang reaches.
HANG = 300
_MISSING = load_backend("cuda").missing()
_ON_CUDA = [pytest.mark.cuda, pytest.mark.skipif(bool(_MISSING), reason=_MISSING or "")]
BACKENDS = ["numpy", "numba", pytest.param("cuda", marks=_ON_CUDA)]
everywhere = pytest.mark.parametrize("backend", BACKENDS)


def require_same(nodes, inputs, arrays, rtol: float = 0.0, **how) -> None:
    """Requires equal values from numba and NumPy: exact, or with rtol, relative to the largest value."""
    found = gn.compile(nodes, inputs, **{"backend": "numba", **how})(*arrays)
    expected = gn.compile(nodes, inputs, backend="numpy", passes=())(*arrays)
    for node, a, b in zip(nodes, found, expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype) == (node.shape, node.dtype), node
        scale = float(abs(b[np.isfinite(b)]).max(initial=0.0)) if b.dtype.kind == "f" else 0.0
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * scale, err_msg=repr(node))


def require_close(found, expected, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Compares arrays one by one; exactly by default."""
    for a, b in zip(found, expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def output_of(*arguments: str, without: tuple[str, ...] = (), **settings: str) -> str:
    """Runs Python in a new process with these environment variables. Returns its output; must not fail."""
    environment = {name: value for name, value in os.environ.items() if name not in without}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env={**environment, "PYTHONPATH": str(ROOT), **settings},
        capture_output=True, text=True, encoding="utf-8", check=False, timeout=2 * HANG,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout


def run_at_once(*work) -> None:
    """Runs each function in its own thread, all at once. Raises an error of a thread."""
    errors = []
    barrier = threading.Barrier(len(work))

    def run(each) -> None:
        try:
            barrier.wait(HANG)
            each()
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=run, args=(each,)) for each in work]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(HANG)
        assert not worker.is_alive(), "a caller hangs"
    if errors:
        raise errors[0]
