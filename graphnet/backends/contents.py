"""What a stored function's file says, looked at before it is used: each sees to its own part of the header."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from graphnet.errors import BackendError
from graphnet.graph.dtypes import as_dtype
from graphnet.graph.node import Array, Dtype, Node, Shape

__all__ = [
    "DTYPES",
    "StoredInput",
    "array",
    "code",
    "dtype",
    "entry",
    "inputs",
    "listed",
    "parameters",
    "refuse",
    "require_fit",
    "seal",
    "shape",
    "text",
    "truth",
    "whole",
]

#: Those that arrays of a stored function have, by the names that stand in the file.
DTYPES: dict[str, Dtype] = {
    found.str: found
    for name in (
        "bool",
        *(f"{sign}int{8 << i}" for sign in ("", "u") for i in range(4)),
        "float32",
        "float64",
    )
    for found in (as_dtype(name),)
}
#: No memory has so many bytes, and no array so many elements.
MOST = 1 << 44


def refuse(what: str) -> NoReturn:
    raise BackendError(
        f"this stored function is not as graphnet writes it: {what}; compile it and save it again."
    )


def entry(header: Any, name: str) -> Any:
    if not isinstance(header, Mapping) or name not in header:
        refuse(f"its header has no {name!r}")
    return header[name]


def whole(value: Any, what: str, most: int = MOST, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        refuse(f"{what} is {value!r:.40}, no whole number from {least} to {most}")
    return value


def text(value: Any, what: str, most: int = 4096) -> str:
    if not isinstance(value, str) or len(value) > most:
        refuse(f"{what} is {value!r:.40}, no text of at most {most} characters")
    return value


def code(value: Any, what: str, most: int = 4096) -> str:
    """A text for a compiler or a linker, which has an encoding: half of a character has none."""
    found = text(value, what, most)
    try:
        found.encode()
    except UnicodeEncodeError:
        refuse(f"{what} has half of a character in it, {found!r:.40}")
    return found


def truth(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        refuse(f"{what} is {value!r:.40}, neither true nor false")
    return value


def listed(value: Any, what: str, length: int | None = None) -> list[Any]:
    if not isinstance(value, list) or length not in (None, len(value)):
        refuse(f"{what} is no list" + ("" if length is None else f" of {length}"))
    return value


def dtype(value: Any, what: str) -> Dtype:
    if not isinstance(value, str) or value not in DTYPES:
        refuse(f"{what} has the dtype {value!r:.40}")
    return DTYPES[value]


def shape(value: Any, what: str) -> Shape:
    """Sizes of no more elements than memory could have; NumPy knows no more than 64 axes."""
    sizes = tuple(whole(size, f"a size of {what}") for size in listed(value, f"the shape of {what}"))
    if len(sizes) > 64 or math.prod(max(size, 1) for size in sizes) > MOST:
        refuse(f"the shape of {what} is {list(sizes)!r:.60}")
    return sizes


def array(arrays: Mapping[str, Array], name: str, of: Dtype | None = None) -> Array:
    """The array of this name; with a dtype, that it must be a vector of."""
    if name not in arrays:
        refuse(f"it has no array {name!r:.40}")
    found = arrays[name]
    if of is not None and (found.dtype != of or found.ndim != 1):
        refuse(f"its array {name!r} is {found.dtype}{list(found.shape)}, not {of}[n]")
    return found


def seal(parts: Sequence[bytes]) -> str:
    """A SHA-256 of all that belongs together."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


class StoredInput(NamedTuple):
    """An input: its name, what its arrays are, where the user made it, and whether it varies."""

    name: str | None
    shape: Shape
    dtype: Dtype
    file: str
    line: int
    varying: bool


def stored_inputs(nodes: Sequence[Node]) -> list[list[Any]]:
    """What `inputs` reads."""
    return [[n.name, list(n.shape), n.dtype.str, n.origin.file, n.origin.line, n.op.varying] for n in nodes]


def inputs(header: Mapping[str, Any]) -> list[StoredInput]:
    found = []
    for stored in listed(entry(header, "inputs"), "its inputs"):
        name, sizes, kind, file, line, varying = listed(stored, "an input", 6)
        found.append(
            StoredInput(
                None if name is None else text(name, "an input's name"), shape(sizes, "an input"),
                dtype(kind, "an input"), text(file, "a file's name"), whole(line, "a line"),
                truth(varying, "whether an input varies"),
            )
        )  # fmt: skip
    return found


def require_fit(given: Sequence[Any], varying: Sequence[bool], header: Mapping[str, Any]) -> None:
    """given: for each input the place of its arrays, of a shape and a dtype; None where nothing reads them."""
    found = inputs(header)
    if [each.varying for each in found] != varying or len(found) != len(given):
        refuse("its inputs are not those of its program")
    for each, place in zip(found, given, strict=True):
        if place is not None and (place.shape, place.dtype) != (each.shape, each.dtype):
            refuse(f"the place of the input {each.name!r:.40} has another shape or dtype")


def parameters(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> dict[str, str]:
    """name -> the name of its array."""
    found = entry(header, "parameters")
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found.values()):
        refuse("its parameters are no names of arrays")
    for key in found.values():
        if not key.startswith(("leaf.", "copied.")):
            refuse(f"the parameter {key!r:.40} is none")
        array(arrays, key)
    return found
