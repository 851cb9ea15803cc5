"""Test steps of CI: python3 run.py test | quick | elsewhere, each with arguments for pytest.

    python3 run.py test                            the suite, without what is marked slow, and without the guides
                                                   and tutorials, which `python3 run.py newcomer` runs
    python3 run.py test --seed 7 tests/viz -k svg  in another order; arguments go to pytest
    python3 run.py quick                           before each merge: every kind of test once
    python3 run.py elsewhere                       as on an older processor, with vectors of 128 bits
    python3 run.py elsewhere --processor avx2      of 256 bits
    python3 run.py elsewhere tests                 all that runs there, and not only what a processor changes

Every step runs in conditions that a developer's machine rarely has. The order of modules and tests is random, and
so is the hash seed; text is ASCII unless a program says otherwise (LC_ALL=C); the time zone is the first to see a new
day. Each worker computes with one BLAS thread. What fails is repeated with the same --seed.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from graphnet.system.process import own_cores

ROOT = Path(__file__).resolve().parent.parent
#: Processor -> OpenBLAS kernels, and a function that tells whether NumPy may use a feature.
PROCESSORS = {
    "sse2": ("Prescott", lambda feature: False),
    "avx2": ("Haswell", lambda feature: "AVX512" not in feature and feature != "X86_V4"),
}
#: Tests whose results depend on the processor: generated code and its rounding.
COMPUTED = (
    "tests/graphnet/backends", "tests/graphnet/ops", "tests/graphnet/testing/test_random_graphs.py",
    "tests/graphnet_rnn/cells/test_oracles.py", "tests/graphnet_rnn/optimizers/test_every_optimizer.py",
)  # fmt: skip
#: Tests with the same results on each processor: simulated GPU, stored files, processes, memory.
SAME_EVERYWHERE = (
    "tests/graphnet/backends/cuda", "tests/graphnet/backends/test_cache.py", "tests/graphnet/backends/test_races.py",
    "tests/graphnet/backends/test_example_back_end.py", "tests/graphnet/backends/test_threads.py",
)  # fmt: skip
#: Every package imports; one test of each kind of thing; a network is trained, and pictures are drawn.
QUICK = (
    "tests/test_imports.py", "tests/test_exports.py", "tests/test_examples.py", "tests/graphnet/graph/test_engine.py",
    "tests/graphnet/ops/test_every_op.py", "tests/graphnet/passes/test_every_pass.py",
    "tests/graphnet/derivatives", "tests/graphnet_rnn/cells/test_oracles.py",
    "tests/graphnet_rnn/optimizers/test_every_optimizer.py", "tests/graphnet_rnn/training/test_arrays.py",
    "tests/graphnet_rnn/formats/test_model_file.py", "tests/viz/drawing/test_render.py",
)  # fmt: skip
#: README, guides and tutorials, run as they stand.
GUIDES = ("tests/test_docs.py", "tests/test_tutorials.py")


def conditions(seed: int) -> dict[str, str]:
    """Environment variables of a step. Python does not warn about the C locale."""
    return {
        "PYTHONHASHSEED": str(seed),
        "TZ": "Pacific/Kiritimati",
        "LC_ALL": "C",
        "PYTHONDONTWRITEBYTECODE": "",  # else hundreds of processes would compile the code again
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }


def processor(name: str) -> dict[str, str]:
    """Environment variables that restrict our back end, NumPy and OpenBLAS to this processor's features."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return {}
    kernels, has = PROCESSORS[name]
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])  # type: ignore[index, call-overload]
    left_out = " ".join(feature for feature in found if not has(feature))
    return {"GRAPHNET_PROCESSOR": name, "OPENBLAS_CORETYPE": kernels, "NPY_DISABLE_CPU_FEATURES": left_out}


def pytest_command(seed: int, arguments: Sequence[str]) -> list[str]:
    order = ["--random-order-bucket=module", f"--random-order-seed={seed}"]
    workers = ["-n", str(len(own_cores())), "--dist", "worksteal"]
    slowest = ["--durations=10", "--durations-min=3"]
    return [sys.executable, "-m", "pytest", *workers, *order, *slowest, *arguments]


def names_tests(arguments: Sequence[str]) -> bool:
    """True if the arguments for pytest include a file or folder of tests."""
    return any((ROOT / word.split("::")[0]).exists() for word in arguments if not word.startswith("-"))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 run.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=["test", "quick", "elsewhere"])
    parser.add_argument("--processor", choices=list(PROCESSORS), default="sse2", help="of `elsewhere` (sse2)")
    parser.add_argument("--seed", type=int, default=1, help="of the order and the hash seed (1)")
    chosen, words = parser.parse_known_args()
    environment = conditions(chosen.seed)
    if chosen.step == "elsewhere":
        environment |= processor(chosen.processor)
        if not names_tests(words):
            words = [*words, *COMPUTED, *(f"--ignore={path}" for path in SAME_EVERYWHERE)]
    elif chosen.step == "quick":
        words = [*QUICK, *words]
    elif not names_tests(words):
        words = [*words, *(f"--ignore={path}" for path in GUIDES)]
    print(f"{chosen.step}:", *(f"{name}={value!r}" for name, value in environment.items()), flush=True)
    command = pytest_command(chosen.seed, words)
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
