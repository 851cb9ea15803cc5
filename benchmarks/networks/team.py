"""The workers of one row of the table, and their turns: at any time one of them computes.

Waiting workers are blocked in a read. Their OpenMP and OpenBLAS threads spin for some milliseconds after a
product (OMP_WAIT_POLICY=PASSIVE forbids it, but makes small products in PyTorch several times slower). So each
turn begins when the last worker is idle, and the processor time of waiting workers is measured: see `Worker.wasted`.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.networks.problem import Problem, largest_difference
from benchmarks.networks.worker import HAVE_WAYS, MODULES

ROOT = Path(__file__).resolve().parents[2]

#: "as installed", and with settings that make peers faster: an allocator that keeps its memory, MKL's best kernels.
VARIANTS = ("installed", "tuned")

#: glibc: never give memory back, never map it anew for each large array, use large pages where allowed.
MALLOC = {
    "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1),
    "MALLOC_TOP_PAD_": str(2**26),
    "MALLOC_MMAP_MAX_": "0",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}

#: Settings of the caller's shell that would make some contender another than it is as installed.
CLEARED = (
    "OPENBLAS_CORETYPE",
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "GOMP_SPINCOUNT",
    "GOMP_CPU_AFFINITY",
    "OMP_PROC_BIND",
    "KMP_BLOCKTIME",
    "KMP_AFFINITY",
    "MKL_NUM_THREADS",
    "MKL_DEBUG_CPU_TYPE",
    "NUMBA_NUM_THREADS",
    "XLA_FLAGS",
    "LD_PRELOAD",
    "GLIBC_TUNABLES",
    "MALLOC_ARENA_MAX",
    "MALLOC_TRIM_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "MALLOC_MMAP_MAX_",
    "MALLOC_MMAP_THRESHOLD_",
)

#: MKL calls this to choose its fast kernels; on processors that are not Intel's it returns 0.
SHIM = "int mkl_serv_intel_cpu_true(void) { return 1; }\nint mkl_serv_intel_cpu(void) { return 1; }\n"

#: Seconds: after its turn a worker has come to rest when it uses no processor time for the first; the second
#: is how long that is waited for (idle threads of OpenBLAS look for work for about 100 ms, of OpenMP for less).
REST, RESTLESS = 0.03, 0.5


def mkl_shim(folder: Path) -> Path | None:
    """A library to preload that lets MKL use its fast kernels; None if it is not needed, or without gcc."""
    try:
        intel = "GenuineIntel" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return None
    if intel or not shutil.which("gcc"):
        return None
    source, library = folder / "shim.c", folder / "shim.so"
    source.write_text(SHIM)
    built = subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=False)
    return library if built.returncode == 0 else None


def environment(variant: str, caches: Path, cores: int, all_cores: int, shim: Path | None) -> dict[str, str]:
    """Environment of a worker. Kernel caches of all contenders are in `caches`: the first variant starts cold."""
    env = {name: value for name, value in os.environ.items() if name not in CLEARED}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), env.get("PYTHONPATH", "")]))
    env |= {
        "GRAPHNET_CACHE": str(caches / "graphnet"),
        "NUMBA_CACHE_DIR": str(caches / "numba"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "JAX_COMPILATION_CACHE_DIR": str(caches / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
        "JAX_PLATFORMS": "cpu",
        "PYTENSOR_FLAGS": f"base_compiledir={caches / 'pytensor'}",
    }
    if cores < all_cores:
        env |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(cores))
    if variant == "tuned":
        env |= MALLOC
        if shim:
            env["LD_PRELOAD"] = str(shim)
    return env


class Worker:
    """A child process and the pipes to it."""

    def __init__(
        self,
        contender: str,
        variant: str,
        python: str,
        spec: dict[str, Any],
        env: dict[str, str],
        log: Path,
        module: str = "benchmarks.networks.worker",
    ) -> None:
        self.contender, self.variant, self.log = contender, variant, log
        #: Seconds of processor time used while it had nothing to do.
        self.wasted = 0.0
        self._used = 0.0
        with log.open("w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                [python, "-m", module, json.dumps({"contender": contender, **spec})],
                cwd=ROOT,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,  # with its own children (compilers), so that all can be ended
            )
        self.greeting = self._answer(120)
        self._rest()

    def ask(self, patience: float, do: str, **arguments: Any) -> dict[str, Any]:
        """The answer to a command; {"error": ...} if none comes within `patience` seconds."""
        assert self.process.stdin is not None
        self.wasted += self._processor_time() - self._used
        try:
            self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self.process.stdin.flush()
        except OSError:
            return {"error": "its process has ended"}
        answer = self._answer(patience)
        self._rest()
        return answer

    def _answer(self, patience: float) -> dict[str, Any]:
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], patience)[0]:
            self.end(kill=True)
            return {"error": f"no answer in {patience:.0f} s"}
        line = self.process.stdout.readline()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        last = self.log.read_text(encoding="utf-8").strip().splitlines()[-1:]
        return {"error": f"its process ended: {' '.join(last)}"}

    def _rest(self) -> None:
        limit = time.perf_counter() + RESTLESS
        before = -1.0
        while before != (now := self._processor_time()) and time.perf_counter() < limit:
            before = now
            time.sleep(REST)
        self._used = now

    def _processor_time(self) -> float:
        try:
            fields = (
                Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            )
        except OSError:
            return self._used
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self, kill: bool = False) -> None:
        """Ends the worker. kill: kills it and its child processes, as happens also if it does not end."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            if not kill:
                self.process.wait(10)
                return
        except subprocess.TimeoutExpired:
            pass
        # It leads its own session, so this kills only the worker and its compilers.
        os.killpg(self.process.pid, 9)
        self.process.wait()


@dataclass
class Measured:
    """Results of one contender in one variant: seconds of the median call of each round, and others."""

    contender: str
    variant: str
    rounds: list[float] = field(default_factory=list)
    first: float | None = None
    memory: int | None = None
    planned: int | None = None
    way: str = ""
    note: str = ""
    #: Largest relative difference from ours; None if not compared.
    difference: float | None = None

    @property
    def median(self) -> float:
        return float(np.median(self.rounds))

    @property
    def spread(self) -> tuple[float, float]:
        low, high = np.percentile(self.rounds, [10, 90])
        return float(low), float(high)


@dataclass
class Section:
    """Results of all contenders for one problem and task."""

    problem: Problem
    task: str
    peak: float
    peak_by: str
    measured: list[Measured]
    #: Contender -> seconds of processor time of its waiting workers.
    wasted: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """Settings of the measurement."""

    contenders: tuple[str, ...]
    variants: tuple[str, ...] = VARIANTS
    tasks: tuple[str, ...] = ("gradient", "product")
    rounds: int = 7
    turn: float = 0.1
    patience: float = 300.0
    tolerance: float = 1e-3
    pythons: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


class Team:
    """The workers of one problem."""

    def __init__(self, problem: Problem, plan: Plan, folder: Path) -> None:
        self.problem, self.plan, self.folder = problem, plan, folder
        everything = sorted(os.sched_getaffinity(0))
        cores = everything[: problem.cores or len(everything)]
        self.options = {
            **plan.options,
            "cores": cores,
            "threads": len(cores),
            "limited": len(cores) < len(everything),
            "folder": str(folder),
        }
        self.shim = mkl_shim(folder)
        self.all_cores = len(everything)
        self.workers: list[Worker] = []

    def start(self, contender: str, variant: str, scout: bool = False) -> Worker:
        """Starts a worker. scout: finds the fastest way, with a separate kernel cache."""
        spec = {"problem": self.problem.record(), "options": self.options}
        caches = self.folder / (contender.replace(" ", "-") + "-scout" * scout)
        env = environment(variant, caches, self.options["threads"], self.all_cores, self.shim)
        family = MODULES.get(contender, "").removesuffix("_peer")
        python = self.plan.pythons.get(family, sys.executable)
        return Worker(contender, variant, python, spec, env, self.folder / f"{caches.name}-{variant}.log")

    def peak(self) -> tuple[float, str]:
        """The highest of all libraries in all variants."""
        best, by = 0.0, "unknown"
        for variant in self.plan.variants:
            worker = self.start("peak", variant)
            answer = worker.greeting or worker.ask(120, "peak")
            worker.end()
            for library, flops in answer.items():
                if library != "error" and flops > best:
                    best, by = flops, f"{library}, {variant}"
        return best, by

    def run(self) -> Iterable[Section]:
        """The sections of this problem, one for each task."""
        peak, by = self.peak()
        ways = {contender: self.ways(contender) for contender in self.plan.contenders}
        self.workers = [self.start(c, v) for c in self.plan.contenders for v in self.plan.variants]
        try:
            for task in self.plan.tasks:
                yield self._section(task, peak, by, ways)
        finally:
            for worker in self.workers:
                worker.end()

    def ways(self, contender: str) -> dict[str, str | None]:
        """Task -> the fastest way, for contenders that have several."""
        if contender not in HAVE_WAYS:
            return {}
        scout = self.start(contender, "installed", scout=True)
        asked = {
            task: scout.greeting or scout.ask(self.plan.patience, "choose", task=task)
            for task in self.plan.tasks
        }
        scout.end()
        return {task: answer.get("way") for task, answer in asked.items()}

    def _section(self, task: str, peak: float, by: str, ways: dict[str, dict[str, str | None]]) -> Section:
        ready: list[tuple[Worker, Measured, int]] = []
        every: list[Measured] = []
        reference: dict[str, Any] | None = None
        for worker in self.workers:
            measured = Measured(worker.contender, worker.variant)
            every.append(measured)
            answer = worker.greeting or worker.ask(
                self.plan.patience, "setup", task=task, way=ways[worker.contender].get(task)
            )
            trouble = answer.get("absent") or answer.get("error")
            if trouble:
                measured.note = " ".join(str(trouble).split())[:150]
                continue
            measured.way, measured.first, measured.planned = (
                answer[key] for key in ("way", "first", "planned")
            )
            with np.load(answer["results"]) as file:
                results = dict(file)
            Path(answer["results"]).unlink()
            if worker.contender == "ours" and reference is None:
                reference = results
            measured.note = answer["unlike"]
            if reference is not None and not measured.note:
                measured.difference = largest_difference(results, reference)
                # "not >": a NaN disagrees
                if not measured.difference <= self.plan.tolerance:
                    measured.note = f"DISAGREES by {measured.difference:.1g}"
            calls = int(np.clip(self.plan.turn / answer["seconds"], 1, 200))
            ready.append((worker, measured, calls))
        for worker, _, _ in ready:
            worker.ask(self.plan.patience, "forget")
            worker.wasted = 0.0
        for _ in range(self.plan.rounds):
            for worker, measured, calls in ready:
                answer = worker.ask(self.plan.patience, "time", calls=calls)
                if "error" in answer:
                    measured.note = answer["error"][:150]
                else:
                    measured.rounds.append(float(np.median(answer["seconds"])))
        for worker, measured, _ in ready:
            measured.memory = worker.ask(self.plan.patience, "memory").get("bytes")
        wasted: dict[str, float] = {}
        for worker, _, _ in ready:
            wasted[worker.contender] = wasted.get(worker.contender, 0.0) + worker.wasted
        return Section(self.problem, task, peak, by, every, wasted)


def run(problem: Problem, plan: Plan) -> Iterable[Section]:
    """All sections of a problem; files and caches are in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="graphnet-benchmark-") as folder:
        yield from Team(problem, plan, Path(folder)).run()
