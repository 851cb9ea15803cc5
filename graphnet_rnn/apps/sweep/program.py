"""The program that a sweep's runs are of: what it can be told."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys

from graphnet_rnn.errors import TrainingError
from graphnet_rnn.parallel.launcher import alone

__all__ = ["settings_of_train"]


@functools.cache
def settings_of_train() -> frozenset[str]:
    """The options of `graphnet-rnn train`, with _ for -, as the program itself says them: sweeps run it, and know no
    more of it than its users do. TrainingError where it does not start.
    """
    asked = subprocess.run(
        [sys.executable, "-m", "graphnet_rnn", "train", "--help"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", env=alone(os.environ), check=False,
    )  # fmt: skip
    names = re.findall(r"^ +--([a-z][a-z0-9-]*)", asked.stdout, re.MULTILINE)
    if asked.returncode or not names:
        lines = asked.stderr.strip().splitlines()
        raise TrainingError(
            f"the program that trains does not start: {lines[-1] if lines else asked.returncode}"
        )
    return frozenset(name.replace("-", "_") for name in names)
