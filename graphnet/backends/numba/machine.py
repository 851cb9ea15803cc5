"""This machine as LLVM sees it, and native kernels: compiled once, cached on disk, in memory while referenced.

GRAPHNET_PROCESSOR, for tests, selects an older processor whose code this one can run.

A kernel's key is the SHA-256 of its text, the processor, its features and LLVM's version, so a file of
another machine or version is never found; the cache verifies that a file's content matches its key.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import count

import llvmlite.binding as llvm

from graphnet.backends.cache import Cache, open_cache
from graphnet.errors import BackendError
from graphnet.settings import shown
from graphnet.system.process import cached_property

#: Widest vectors, in bytes, for the first of these features that the processor has; and how many registers.
_VECTORS = (("avx512f", 64, 32), ("avx", 32, 16), ("sve", 16, 32), ("neon", 16, 32))


#: Values of GRAPHNET_PROCESSOR, for tests: LLVM's processor, required features, bytes of a vector, registers.
_LESSER = {
    "avx2": ("x86-64-v3", ("avx2", "fma", "bmi2"), 32, 16),
    "sse2": ("x86-64", ("sse2",), 16, 16),
}


class Kernel:
    """Native code in memory. Its address is good for as long as this object is held."""

    __slots__ = ("__weakref__", "_held", "address")

    def __init__(self, address: int, held: _Held) -> None:
        self.address, self._held = address, held


class _Held:
    """The memory of kernels that were loaded together: freed when none of them is referenced any more.

    It holds only the number of LLVM's engine, and the machine holds the engine. Otherwise a garbage collector that
    finds both in a cycle would finalize each, and two threads would free the same memory.
    """

    def __init__(self, machine: Machine, engine: int) -> None:
        self._machine, self._engine = machine, engine

    def address(self, symbol: str) -> int:
        return self._machine.address(self._engine, symbol)

    def __del__(self) -> None:
        self._machine.give_back(self._engine)


class Machine:
    """The processor, and the kernels that it holds in memory. One for each process: `this_machine()`."""

    def __init__(self) -> None:
        #: Held, since modules that hold kernels may be emptied after this one.
        self._ends = sys.is_finalizing
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        features = llvm.get_host_cpu_features()
        lesser = _lesser_processor(features)
        if lesser is None:
            self.processor, self.features = llvm.get_host_cpu_name(), features.flatten()
            self.vector_bytes, self.registers = next(
                ((size, count) for name, size, count in _VECTORS if features.get(name)), (16, 16)
            )
        else:
            self.processor, self.features, self.vector_bytes, self.registers = lesser
        self.avx512 = self.vector_bytes == 64
        self._target = llvm.Target.from_default_triple()
        self.triple = self._target.triple
        # All calls of LLVM hold this lock, so that a fork never interrupts one. The garbage collector
        # may free kernels at any time, also while this thread holds the lock.
        self._lock = threading.RLock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._lock.acquire,
                after_in_parent=self._lock.release,
                after_in_child=self._lock.release,
            )
        self._kernels: weakref.WeakValueDictionary[str, Kernel] = weakref.WeakValueDictionary()
        #: Engines by number; then the numbers of engines whose kernels are no longer referenced.
        self._engines: dict[int, llvm.ExecutionEngine] = {}
        self._unused: list[int] = []
        self._numbers = count()
        #: Kernels that this process compiled, and those that it found on disk.
        self.compiled = self.found = 0

    @cached_property
    def _target_machine(self) -> llvm.TargetMachine:
        return self._target.create_target_machine(cpu=self.processor, features=self.features, opt=3)

    @cached_property
    def processor_key(self) -> str:
        """Key of native code besides its text: the processor and its settings."""
        version = ".".join(map(str, llvm.llvm_version_info))
        return f"{self.triple} {self.processor} {self.features} llvm {version}"

    def keys(self, texts: Iterable[str]) -> list[str]:
        """The names under which kernels with these texts are kept."""
        return [hashlib.sha256(f"{self.processor_key}\n{text}".encode()).hexdigest() for text in texts]

    def kernels(self, texts: Sequence[str]) -> list[Kernel]:
        """The kernels with these texts: those in memory, found on disk or compiled, each once."""
        keys = self.keys(texts)
        text_of = dict(zip(keys, texts, strict=True))
        kept = open_cache()
        return self.load(keys, lambda key: self.machine_code(key, text_of[key], kept))

    def load(self, keys: Sequence[str], code_of: Callable[[str], bytes]) -> list[Kernel]:
        """The kernels of these names; `code_of` returns the code of the new ones."""
        with self._lock:
            found = {key: self._kernels.get(key) for key in keys}
            new = [key for key, kernel in found.items() if kernel is None]
            if new:
                codes = [code_of(key) for key in new]
                held = _Held(self, self._loaded(codes))
                for key in new:
                    found[key] = self._kernels[key] = Kernel(held.address(_symbol_of(key)), held)
        self._free_unused()
        return [kernel for key in keys if (kernel := found[key]) is not None]

    @property
    def engines(self) -> int:
        """Number of loads of kernels in memory."""
        return len(self._engines)

    def address(self, engine: int, symbol: str) -> int:
        """Address of a kernel."""
        return int(self._engines[engine].get_function_address(symbol))

    def _loaded(self, codes: Iterable[bytes]) -> int:
        # The code is compiled already, so the target needs no processor. The engine owns its target.
        target = self._target.create_target_machine(opt=0)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
        for code in codes:
            engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        number = next(self._numbers)
        self._engines[number] = engine
        return number

    def give_back(self, engine: int) -> None:
        """Frees the memory of unreferenced kernels: now, or when the thread that uses LLVM has finished."""
        self._unused.append(engine)
        if not self._ends():  # threads may still run these kernels
            self._free_unused()

    def _free_unused(self) -> None:
        while self._unused and self._lock.acquire(blocking=False):
            try:
                while self._unused:
                    self._engines.pop(self._unused.pop()).close()
            finally:
                self._lock.release()

    def machine_code(self, key: str, text: str, kept: Cache | None) -> bytes:
        """The object file of a kernel, from the disk or from the compiler."""
        name = f"{key}.kernel"
        code = kept.read(name) if kept else None
        if code is None:
            with self._lock:
                code = self._compile(text.replace("@kernel(", f"@{_symbol_of(key)}("))
                self.compiled += 1
            if kept:
                kept.write(name, code)
        else:
            self.found += 1
        return code

    def _compile(self, text: str) -> bytes:
        # In a separate context, which frees types and constants: LLVM's global one keeps them forever.
        with llvm.create_context() as context:
            try:
                with llvm.parse_assembly(text, context) as module:
                    module.verify()
                    return bytes(self._target_machine.emit_object(module))
            except RuntimeError as error:
                raise BackendError(f"a kernel is not valid LLVM code: {error}\n{text}") from None

    def kept_text(self, content: str, make: Callable[[], str]) -> str:
        """A kernel's text that takes long to make, kept on disk under the digest of all that it is made of."""
        kept = open_cache()
        name = f"{self.keys([content])[0]}.kernel"
        found = kept.read(name) if kept else None
        if found is not None:
            return found.decode()
        with self._lock:
            text = make()
        if kept:
            kept.write(name, text.encode())
        return text

    def assembly(self, text: str) -> str:
        """The kernel in the machine's assembly language."""
        with self._lock:
            return str(self._target_machine.emit_assembly(llvm.parse_assembly(text)))


def _lesser_processor(features: Mapping[str, bool]) -> tuple[str, str, int, int] | None:
    """(LLVM's name, features, bytes of a vector, registers) of $GRAPHNET_PROCESSOR; None if it is not set.

    Raises BackendError for an unknown name, or if this processor lacks a feature of the other.
    """
    name = os.environ.get("GRAPHNET_PROCESSOR")
    if not name:
        return None
    if name not in _LESSER:
        raise BackendError(
            f"GRAPHNET_PROCESSOR is {shown(name)}; it must be {' or '.join(_LESSER)}, or unset for this "
            "machine's processor."
        )
    processor, needed, vector_bytes, registers = _LESSER[name]
    lacking = [feature for feature in needed if not features.get(feature)]
    if lacking:
        raise BackendError(
            f"GRAPHNET_PROCESSOR is {name!r}, but this processor ({llvm.get_host_cpu_name()}) lacks "
            f"{', '.join(lacking)}; unset it."
        )
    return processor, "", vector_bytes, registers


def _symbol_of(key: str) -> str:
    return f"graphnet_{key[:24]}"


@cache
def this_machine() -> Machine:
    return Machine()
