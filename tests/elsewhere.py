"""The tests on another machine than this one: an older processor, another country, another order.

    python3 run.py elsewhere                                 vectors of 128 bits, in the order of seed 1
    python3 run.py elsewhere --processor avx2 --seed 7       of 256 bits, in another order
    python3 run.py elsewhere --seed 7 tests/viz -k colour    whatever pytest takes

Our back end makes code for that processor (GRAPHNET_PROCESSOR), NumPy and OpenBLAS leave out what it has not; sets of
strings have another order (PYTHONHASHSEED); it is tomorrow (TZ), and text is ASCII unless a program says otherwise
(LC_ALL). Tests, and their modules, run in an order that the seed gives. Left out is what no processor changes: the
simulated GPU, and the site.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
#: Processor -> the kernels that OpenBLAS takes, and whether NumPy may use a feature of this name.
PROCESSORS = {
    "sse2": ("Prescott", lambda feature: False),
    "avx2": ("Haswell", lambda feature: "AVX512" not in feature and feature != "X86_V4"),
}
LEFT_OUT = ("--ignore=tests/graphnet/backends/cuda", "--ignore=tests/test_site.py")


def settings(processor: str, seed: int) -> dict[str, str]:
    """The environment of such a machine."""
    elsewhere = {
        "PYTHONHASHSEED": str(seed),
        "TZ": "Pacific/Kiritimati",
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
    }
    if platform.machine() in ("x86_64", "AMD64"):
        kernels, has = PROCESSORS[processor]
        found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])  # type: ignore[index, call-overload]
        elsewhere["GRAPHNET_PROCESSOR"] = processor
        elsewhere["OPENBLAS_CORETYPE"] = kernels
        elsewhere["NPY_DISABLE_CPU_FEATURES"] = " ".join(feature for feature in found if not has(feature))
    return elsewhere


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 run.py elsewhere",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--processor", choices=list(PROCESSORS), default="sse2")
    parser.add_argument("--seed", type=int, default=1, help="of the order (default: 1)")
    chosen, words = parser.parse_known_args()
    machine = settings(chosen.processor, chosen.seed)
    print("elsewhere:", *(f"{name}={value!r}" for name, value in machine.items()), flush=True)
    order = ["--random-order-bucket=module", f"--random-order-seed={chosen.seed}"]
    command = [sys.executable, "-m", "pytest", "-n", "auto", *order, *LEFT_OUT, *words]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **machine}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
