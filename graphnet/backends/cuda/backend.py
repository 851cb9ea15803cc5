"""The back end "cuda" of `gn.compile`."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from graphnet.backends.base import Backend, Program
from graphnet.errors import BackendError
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array
from graphnet.system.process import has_compiler

PACKAGE = "backend='cuda' needs the package numba-cuda; install it: pip install 'graphnet-rnn[cuda]'"


class CudaBackend(Backend):
    """Back end for one GPU; ignores `threads`. Loads Numba when it is first needed."""

    name = "cuda"
    apart = True
    #: Products of float32 in the shorter numbers of tensor cores: ten bits, eight times as fast.
    tf32: bool = False

    def missing(self) -> str:
        if not has_compiler() or importlib.util.find_spec("numba_cuda") is None:
            return PACKAGE
        try:
            _module("device").this_device()
        except BackendError as error:
            return str(error)
        return ""

    def place(self, array: Array) -> Any:
        self._require()
        return _module("arrays").place(array)

    def build(
        self,
        graph: Graph,
        source: Graph,
        threads: int | None,
        check: bool,
        updated: Sequence[int] | None = None,
    ) -> Program:
        self._require()
        program: Program = _module("building").build(graph, source, check, self.tf32)
        return program

    def restore(
        self, header: Mapping[str, Any], arrays: Mapping[str, Array], source: Graph | None = None
    ) -> Program:
        self._require()
        program: Program = _module("building").restored(header, arrays, source, self.tf32)
        return program

    def _require(self) -> None:
        lacking = self.missing()
        if lacking:
            raise BackendError(lacking)


class CudaTF32Backend(CudaBackend):
    """The CUDA back end with products in TF32: float32 whose operands are rounded to ten bits. Needs cuBLAS."""

    name = "cuda-tf32"
    tf32 = True

    def missing(self) -> str:
        lacking = super().missing()
        if not lacking:
            try:
                _module("blas").cublas(tf32=True)
            except BackendError as error:
                lacking = str(error)
        return lacking


def _module(name: str) -> ModuleType:
    with warnings.catch_warnings():  # Numba's use of NumPy, which users cannot change
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module(f"graphnet.backends.cuda.{name}")
