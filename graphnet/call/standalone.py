"""Compiled functions as C: two files, or a folder with a Makefile and a test."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from graphnet.backends.numpy import NumpyProgram
from graphnet.call.arguments import sample_inputs
from graphnet.errors import BackendError
from graphnet.graph.graph import Graph, ancestors
from graphnet.graph.node import Array
from graphnet.standalone_c.language import c_type, identifier, listed
from graphnet.standalone_c.unit import Argument, Unit
from graphnet.system.files import write_together

#: Tolerance of results, relative to 1 + their size, by bytes of the least precise dtype that they are computed from.
TOLERANCE = {4: 2e-4, 8: 1e-9}

MAKEFILE = """\
# {made}
# make test                                   compiles, runs, compares with stored results
# make CC=arm-none-eabi-gcc ARCH=-mcpu=... {name}.o {name}_weights.o
ARCH ?= -march=native $(SAFE)
# GCC 12 computes some vectors of 512 bits wrongly.
SAFE := $(shell $(CC) -dumpversion 2>/dev/null | grep -q '^12' && \\
  $(CC) -mprefer-vector-width=256 -E -x c /dev/null >/dev/null 2>&1 && echo -mprefer-vector-width=256)
CFLAGS ?= -std=c11 -O3 $(ARCH) -ffp-contract=fast -fno-math-errno -Wall -Wextra -pedantic

lib{name}.a: {name}.o {name}_weights.o
\t$(AR) rcs $@ $^

{name}.o {name}_test.o: {name}.h

{name}_test: {name}_test.o lib{name}.a
\t$(CC) $(CFLAGS) -o $@ $^ -lm

test: {name}_test
\t./{name}_test

clean:
\trm -f *.o lib{name}.a {name}_test

.PHONY: test clean
"""

TEST = """\
/* {made} Runs the function on stored inputs; fails if the error of a result exceeds the tolerance. */
#include "{name}.h"

#include <math.h>
#include <stdio.h>

{arrays}
static {name}_arena arena;

/* The largest error, relative to 1 + |expected|; NaN and infinities must be the same. */
static double worse(double worst, double found, double wanted)
{{
    if (isnan(wanted) || isinf(wanted))
        return (isnan(wanted) ? isnan(found) : found == wanted) ? worst : INFINITY;
    const double off = fabs(found - wanted) / (1.0 + fabs(wanted));
    return off <= worst ? worst : isnan(off) ? INFINITY : off;
}}

int main(void)
{{
    int failed = 0;
    if ({name}_run({arguments})) {{
        puts("an index is out of range");
        return 1;
    }}
{checks}
    return failed;
}}
"""

CHECK = """\
    {{
        double worst = 0.0;
        for (long i = 0; i < {size}; i++)
            worst = worse(worst, (double){found}[i], (double){wanted}[i]);
        printf("{found}: largest difference %g, of at most {tolerance:g}\\n", worst);
        failed |= !(worst <= {tolerance:g});
    }}"""


def is_folder(path: str | os.PathLike[str]) -> bool:
    """True if the path ends in a slash; an existing folder alone may be a mistake."""
    return isinstance(path, str) and path.endswith(("/", os.sep))


def name_of(path: str | os.PathLike[str]) -> str:
    """Returns the prefix of the C functions: the file's or folder's name in letters, digits and underscores."""
    return identifier(Path(os.path.abspath(os.fspath(path))).name.removesuffix(".c"), "model")


def c_files(unit: Unit, path: str | os.PathLike[str]) -> dict[Path, str]:
    """Returns the source, weights included, under this path, and its header next to it."""
    file = Path(path)
    plain = re.fullmatch(r"[\w.+ -]+", file.stem)  # can stand in an #include
    header = file.with_name(f"{file.stem if plain else unit.name}.h")
    return {file: unit.source(apart=False, header=header.name), header: unit.header()}


def folder_files(unit: Unit, source: Graph, path: str | os.PathLike[str]) -> dict[Path, str]:
    """Returns header, source, weights, a Makefile, and a test against results of the NumPy back end."""
    folder, name = Path(path), unit.name
    made = unit.header().split("\n")[0][3:-3]
    return {
        folder / f"{name}.h": unit.header(),
        folder / f"{name}.c": unit.source(apart=True),
        folder / f"{name}_weights.c": unit.weights_text(apart=True) + "\n",
        folder / f"{name}_test.c": _test(unit, source, made),
        folder / "Makefile": MAKEFILE.format(name=name, made=made),
    }


def write_files(files: dict[Path, str]) -> None:
    """Writes all files, or none; raises BackendError rather than replace files not made by graphnet."""
    try:
        for path in files:
            head = path.read_bytes()[:20] if path.is_file() else b""
            if head and b" Made by graphnet" not in head:
                raise BackendError(
                    f"save: {path} was not made by graphnet, so it is not overwritten; choose another name or a new "
                    "folder"
                )
        write_together({path: text.encode() for path, text in files.items()})
    except OSError as error:
        raise BackendError(
            f"save: cannot write {error.filename or next(iter(files))}: {error.strerror}"
        ) from None


def _test(unit: Unit, source: Graph, made: str) -> str:
    arrays = sample_inputs(source.inputs, source)
    wanted = NumpyProgram(source, None, False).run(arrays)
    texts = [_array(f"given_{x.name}", array) for x, array in zip(unit.inputs, arrays, strict=True)]
    checks = []
    for y, array in zip(unit.outputs, wanted, strict=True):
        texts.append(_array(f"wanted_{y.name}", np.asarray(array, y.node.dtype)))
        texts.append(f"static {c_type(y.node.dtype)} found_{y.name}[{max(y.node.size, 1)}];")
        checks.append(_check(y))
    names = [*(f"given_{x.name}" for x in unit.inputs), *(f"found_{y.name}" for y in unit.outputs), "&arena"]
    return TEST.format(
        made=made,
        name=unit.name,
        arrays="\n".join(texts),
        arguments=", ".join(names),
        checks="\n".join(checks),
    )


def _check(y: Argument) -> str:
    precise = {x.dtype.itemsize for x in ancestors([y.node]) if x.dtype.kind == "f"}
    return CHECK.format(
        size=y.node.size,
        found=f"found_{y.name}",
        wanted=f"wanted_{y.name}",
        tolerance=TOLERANCE[min(precise)] if y.node.dtype.kind == "f" else 0.0,
    )


def _array(name: str, array: Array) -> str:
    return f"static const {c_type(array.dtype)} {name}[{max(array.size, 1)}] = {{\n{listed(array)}\n}};"
