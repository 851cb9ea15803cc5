"""This machine as LLVM sees it, and native kernels: compiled once, kept on disk by content.

GRAPHNET_PROCESSOR, for tests, makes it a lesser one: code for another processor, as this one can run it.

A kernel's key is the SHA-256 of its text, the processor, its features and LLVM's version, so a file of
another machine or version is never found; each file carries a SHA-256 of its own, so a damaged one is never
run but made again.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path

import llvmlite.binding as llvm

from graphnet.backends.cache import cache_folder
from graphnet.errors import BackendError

__all__ = ["Machine", "this_machine"]

#: Widest vectors, in bytes, for the first of these features that the processor has; and how many registers.
_VECTORS = (("avx512f", 64, 32), ("avx", 32, 16), ("sve", 16, 32), ("neon", 16, 32))


#: What GRAPHNET_PROCESSOR may name, for tests: LLVM's processor, the features this one must have, and the same two.
_LESSER = {
    "avx2": ("x86-64-v3", ("avx2", "fma", "bmi2"), 32, 16),
    "sse2": ("x86-64", ("sse2",), 16, 16),
}


class Machine:
    """The processor, and the engine that holds native code. One for each process: `this_machine()`."""

    def __init__(self) -> None:
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
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)
        self._addresses: dict[str, int] = {}
        #: Kernels that this process compiled, and those that it found on disk.
        self.compiled = self.found = 0

    def _after_fork(self) -> None:
        """In the child no other thread is left that could give back the lock."""
        self._lock = threading.Lock()

    @cached_property
    def _target_machine(self) -> llvm.TargetMachine:
        return self._target.create_target_machine(cpu=self.processor, features=self.features, opt=3)

    @cached_property
    def _engine(self) -> llvm.ExecutionEngine:
        return llvm.create_mcjit_compiler(llvm.parse_assembly(""), self._target_machine)

    @cached_property
    def fingerprint(self) -> str:
        """What native code depends on besides its text."""
        version = ".".join(map(str, llvm.llvm_version_info))
        return f"{self.triple} {self.processor} {self.features} llvm {version}"

    def keys(self, texts: Iterable[str]) -> list[str]:
        """The names under which kernels with these texts are kept."""
        return [hashlib.sha256(f"{self.fingerprint}\n{text}".encode()).hexdigest() for text in texts]

    def addresses(self, texts: Sequence[str]) -> list[int]:
        """The addresses of the kernels with these texts: loaded, found on disk or compiled, each once."""
        keys = self.keys(texts)
        text_of = dict(zip(keys, texts, strict=True))
        return self.load(keys, lambda key: self.machine_code(key, text_of[key]))

    def load(self, keys: Sequence[str], code_of: Callable[[str], bytes]) -> list[int]:
        """The addresses of the kernels of these names; `code_of` gives the code of those that are new."""
        with self._lock:
            new = [key for key in dict.fromkeys(keys) if key not in self._addresses]
            for key in new:
                self._engine.add_object_file(llvm.ObjectFileRef.from_data(code_of(key)))
            if new:
                self._engine.finalize_object()
            for key in new:
                self._addresses[key] = self._engine.get_function_address(_symbol(key))
        return [self._addresses[key] for key in keys]

    def machine_code(self, key: str, text: str) -> bytes:
        """The object file of a kernel, from the disk or from the compiler."""
        path = cache_folder() / f"{key}.kernel"
        code = _read_checked(path)
        if code is None:
            code = self._compile(text.replace("@kernel(", f"@{_symbol(key)}("))
            self.compiled += 1
            _write_checked(path, code)
        else:
            self.found += 1
        return code

    def _compile(self, text: str) -> bytes:
        try:
            module = llvm.parse_assembly(text)
            module.verify()
        except RuntimeError as error:
            raise BackendError(f"a kernel is not valid LLVM code: {error}\n{text}") from None
        return bytes(self._target_machine.emit_object(module))

    def assembly(self, text: str) -> str:
        """The kernel in the machine's assembly language."""
        return str(self._target_machine.emit_assembly(llvm.parse_assembly(text)))


def _lesser_processor(features: Mapping[str, bool]) -> tuple[str, str, int, int] | None:
    """(LLVM's name, its features, bytes of a vector, registers) of the processor that tests ask for; None: this one.

    Raises BackendError for a name that is none, or a processor of which this one is no superset.
    """
    name = os.environ.get("GRAPHNET_PROCESSOR")
    if not name:
        return None
    if name not in _LESSER:
        raise BackendError(
            f"GRAPHNET_PROCESSOR is {name!r}; it may be {' or '.join(_LESSER)}, or not set: this machine's own."
        )
    processor, needed, vector_bytes, registers = _LESSER[name]
    lacking = [feature for feature in needed if not features.get(feature)]
    if lacking:
        raise BackendError(
            f"GRAPHNET_PROCESSOR is {name!r}, but this processor ({llvm.get_host_cpu_name()}) lacks "
            f"{', '.join(lacking)}; unset it."
        )
    return processor, "", vector_bytes, registers


def _symbol(key: str) -> str:
    return f"graphnet_{key[:24]}"


def _read_checked(path: Path) -> bytes | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, code = content[:32], content[32:]
    return code if hashlib.sha256(code).digest() == digest else None


def _write_checked(path: Path, code: bytes) -> None:
    """Whole or not at all; a folder that cannot be written means that kernels are made again next time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(code).digest() + code)
        os.replace(temporary, path)
    except OSError:
        pass


@cache
def this_machine() -> Machine:
    return Machine()
