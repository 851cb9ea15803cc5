"""Folds: how a reduction makes one number of two, and with which number it begins."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeVar

import numpy as np

from graphnet.backends.compiled.expressions import Emitter
from graphnet.graph.dtypes import BOOL, FLOAT64
from graphnet.graph.node import Dtype

__all__ = ["Fold"]

V = TypeVar("V")


class Fold(NamedTuple):
    """how: "sum", "max" or "min", of numbers of this dtype."""

    how: str
    dtype: Dtype

    @property
    def kept(self) -> Dtype:
        """As what totals are held: sums of floats in double precision, as exact as they are stable."""
        return FLOAT64 if self.how == "sum" and self.dtype.kind == "f" else self.dtype

    @property
    def is_rounded(self) -> bool:
        """Whether what is kept is no more precise than the terms."""
        return self.how == "sum" and self.dtype == FLOAT64

    @property
    def identity(self) -> float:
        if self.how == "sum":
            return 0
        if self.dtype == BOOL:
            return self.how == "min"
        if self.dtype.kind == "f":
            return -math.inf if self.how == "max" else math.inf
        info = np.iinfo(self.dtype)
        return info.min if self.how == "max" else info.max

    def combined(self, emitter: Emitter[V], total: V, x: V, dtype: Dtype) -> V:
        """Both are of this dtype. NaN stays."""
        if dtype == BOOL:
            return emitter.logical("and" if self.how == "min" else "or", (total, x))
        if self.how == "sum":
            return emitter.arithmetic("+", total, x, dtype)
        better = emitter.compare(">" if self.how == "max" else "<", x, total, dtype)
        if dtype.kind == "f":
            better = emitter.logical("or", (better, emitter.compare("!=", x, x, dtype)))
        return emitter.select(better, x, total, dtype)
