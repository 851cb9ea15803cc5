"""GRAPHNET_PROCESSOR: code for a lesser processor than this one, which `python3 run.py elsewhere` runs."""

from __future__ import annotations

import platform

import pytest

import graphnet as gn
from graphnet.backends.numba.machine import Machine

x86 = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="processors of another family")

ADDITION = """
define void @kernel(ptr %a, ptr %b) {
  %x = load <16 x float>, ptr %a
  %y = load <16 x float>, ptr %b
  %z = fadd <16 x float> %x, %y
  store <16 x float> %z, ptr %a
  ret void
}
"""


def machine(name: str, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("GRAPHNET_PROCESSOR", name)
    return Machine()


@x86
def test_code_is_for_that_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, vector_bytes, absent in (("sse2", 16, ("ymm", "zmm", "\tvaddps")), ("avx2", 32, ("zmm",))):
        lesser = machine(name, monkeypatch)
        assert (lesser.vector_bytes, lesser.registers, lesser.avx512) == (vector_bytes, 16, False)
        code = lesser.assembly(ADDITION)
        assert "addps" in code
        assert not [word for word in absent if word in code]
    assert len({machine(name, monkeypatch).keys([ADDITION])[0] for name in ("", "avx2", "sse2")}) == 3


@x86
def test_products_call_nobody_where_numbers_cannot_be_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's fma for each number makes products 25 times slower; elsewhere the instruction is taken."""
    x, w = gn.input((8, 8)), gn.input((8, 8))
    (product,) = [t for t in gn.compile([x @ w], [x, w])._program.schedule.kernels if "llvm.fm" in t]
    assert "fmaf" not in machine("sse2", monkeypatch).assembly(product)
    assert "vfmadd" in machine("avx2", monkeypatch).assembly(product)


def test_an_unknown_processor_or_what_this_one_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(gn.BackendError, match="GRAPHNET_PROCESSOR is 'mmx'; it may be avx2 or sse2"):
        machine("mmx", monkeypatch)
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", dict)
    with pytest.raises(gn.BackendError, match=r"'avx2'.*lacks avx2, fma, bmi2"):
        machine("avx2", monkeypatch)
