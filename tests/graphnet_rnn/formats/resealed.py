"""Files with odd contents and a valid checksum."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from safetensors.numpy import load as safetensors_load

from graphnet.graph.node import Array
from graphnet_rnn.formats.model_file import KEY, ModelFile


def nested(depth: int) -> Any:
    value: Any = {"cell": "Elman", "units": 2}
    for _ in range(depth):
        value = {"cell": "Residual", "inner": value}
    return value


def doubled(depth: int) -> Any:
    """Each of two directions of two directions ...: a short file, and 2^depth cells."""
    value: Any = {"cell": "Dense", "units": 1}
    for _ in range(depth):
        value = {"cell": "Bidirectional", "forward": value}
    return value


#: Values that are meant elsewhere.
PLAIN: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 7, 30_000, 2**31 - 1, 2**31, 2**63, 2**64, 10**30, 0.5, -0.5, 1e308, 1e-308,
    math.inf, -math.inf, math.nan, "", "x", "tanh", "LSTM", "float64", "int8", "complex128", "ctc", "\ud800", "é" * 999,
    [], {}, [1], [[1, 0]], [[]], [None], [1.5] * 20, list(range(300)), [[[[[[[[]]]]]]]],
    {"list": []}, {"list": 1}, {"dict": [[1, 2]]}, {"dict": [[{"list": []}, 2]]}, {"float": "inf"}, {"float": "x"},
    {"numpy": "float32", "value": 1}, {"numpy": "int64", "value": 3}, {"numpy": "object", "value": None},
]  # fmt: skip
#: Cells, of which some claim more than any file has.
CELLS: list[Any] = [
    {"cell": "LSTM"}, {"cell": "Nobody"}, {"cell": []}, {"cell": "LSTM", "units": 2**31 - 1},
    {"cell": "NARX", "units": 2, "order": 10**9}, {"cell": "NARX", "taps": 10**9}, {"cell": "NARX", "order": "a" * 9},
    {"cell": "GraphRNN", "units": 10**6, "edges": 10**6}, {"cell": "GLNN", "units": 10**9, "edges": 1},
    {"cell": "GNN", "units": [1, 2], "edges": 10**9}, {"cell": "EchoState", "units": 30_000},
    {"cell": "RHN", "units": 2, "depth": 10**9}, {"cell": "StackedMRNN", "units": [3] * 1000},
    {"cell": "Hyper", "main": 3, "controller": 10**9}, {"cell": "Bidirectional", "forward": 10**9},
    {"cell": "HyperLSTM", "units": 2, "embedding": 10**9}, {"cell": "TensorRNN", "units": 10**6},
    nested(5), nested(120), nested(300), doubled(5), doubled(60),
]  # fmt: skip
ODD = [*PLAIN, *CELLS]
NAMES = [
    "",
    *["cell", "layers", "units", "seed", "truncated", "values", "initial", "more", "state.x", "W", "0"],
    "a" * 500,
]


def parts_of(content: bytes) -> tuple[dict[str, Array], dict[str, Any]]:
    """Tensors and description of a model file."""
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    description = json.loads(header["__metadata__"][KEY])
    return dict(safetensors_load(content)), {k: v for k, v in description.items() if k != "sha256"}


def odd_file(content: bytes, generator: random.Random) -> bytes:
    """The file with one to three things changed in description or tensors, sealed anew."""
    tensors, description = parts_of(content)
    for _ in range(generator.choice([1, 1, 2, 3])):
        if generator.random() < 0.7:
            _change_json(description, generator)
        else:
            tensors = odd_tensors(tensors, generator)
    return ModelFile(tensors, description).to_bytes()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) of a JSON value."""
    for key, each in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(each, (dict, list)):
            yield from _places(each)


def _change_json(root: dict[str, Any], generator: random.Random) -> None:
    places = list(_places(root))
    if not places:
        root["format"] = 1
        return
    holder, key = generator.choice(places)
    before = holder[key]
    match generator.randrange(7):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[generator.choice(NAMES)] = holder.pop(key)
        case 2 if isinstance(holder, dict):
            holder[generator.choice(NAMES)] = copy.deepcopy(generator.choice(ODD))
        case 3 if isinstance(before, (int, float)) and not isinstance(before, bool):
            others = [-before, before + 1, before * 1000, str(before), float(before), [before]]
            holder[key] = generator.choice(others)
        case 4:
            other, where = generator.choice(places)
            there = where in other if isinstance(other, dict) else where < len(other)
            holder[key] = copy.deepcopy(other[where]) if there else None
        case 5 if isinstance(holder, list):
            holder.append(copy.deepcopy(before))
        case _:
            holder[key] = copy.deepcopy(generator.choice(ODD))


def odd_tensors(tensors: dict[str, Array], generator: random.Random) -> dict[str, Array]:
    """With one of the tensors renamed, left out, twice there, or of another shape, dtype or content."""
    result = dict(tensors)
    if not result:
        return {"W": np.zeros(3, np.float32)}
    name = generator.choice(sorted(result))
    array = result[name]
    match generator.randrange(6):
        case 0:
            del result[name]
        case 1:
            result[generator.choice([*NAMES, *sorted(result)]) or "W"] = result.pop(name)
        case 2:
            shapes = [(-1,), (1, -1), (-1, 1), (1, 1, -1), (0,), (), (0, 2**40)]
            shape = generator.choice([*shapes, array.shape[::-1], (*array.shape, 1)])
            size = array.size if -1 in shape else math.prod(shape)
            result[name] = np.resize(array, size).reshape(shape) if size else np.zeros((0,), array.dtype)
        case 3:
            kinds = ["float16", "float32", "float64", "int8", "int64", "uint8", "bool", "complex64"]
            with np.errstate(all="ignore"):
                result[name] = np.asarray(array.real, order="C").astype(generator.choice(kinds))
        case 4:
            result[name] = np.full_like(array, generator.choice([0, 1, 100]))
            if array.dtype.kind == "f":
                result[name] = np.full_like(array, generator.choice([np.nan, np.inf, -1e30, 1e-40]))
        case _:
            result[generator.choice(["state.x", "layer9.W", "output.b_o", "state.optimizer.m"])] = array
    return result


def odd_header(content: bytes, generator: random.Random) -> bytes:
    """The file with something changed in the header of safetensors itself."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    _change_json(header, generator)
    text = json.dumps(header).encode()
    claimed = generator.choice([len(text)] * 8 + [0, 2**40, 2**63, len(text) - 1, len(text) + 1])
    return claimed.to_bytes(8, "little") + text + content[8 + length :]
