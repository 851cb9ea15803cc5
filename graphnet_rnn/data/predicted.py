"""Outputs of a network as predictions: probabilities, classes, numbers."""

from __future__ import annotations

import numpy as np

from graphnet.graph.node import Array


def predicted(outputs: Array, loss: str) -> dict[str, Array]:
    """Returns arrays by their name in files: "prediction", or "probability" and, of classes, "label"."""
    if loss == "squared":
        return {"prediction": outputs}
    if loss == "sigmoid":
        return {"probability": (1 + np.tanh(outputs / 2)) / 2}
    shifted = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
    return {"probability": shifted / shifted.sum(axis=-1, keepdims=True), "label": outputs.argmax(axis=-1)}


def log_softmax(logits: Array) -> Array:
    """ln p = o - ln Σ exp(o), along the last axis, in double precision."""
    below = np.asarray(logits, np.float64) - np.max(logits, axis=-1, keepdims=True)
    return np.asarray(below - np.log(np.exp(below).sum(axis=-1, keepdims=True)))
