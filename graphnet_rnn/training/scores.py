"""Scores of predictions: loss, accuracy, F1 score and confusion matrix of classes, errors of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array
from graphnet_rnn.data.sequences import Sequences, steps_of
from graphnet_rnn.errors import DataError
from graphnet_rnn.network.losses import LOSSES, SEQUENCE_LOSSES, VALUE_LOSSES
from graphnet_rnn.network.network import Network
from graphnet_rnn.network.running import run
from graphnet_rnn.training.cases import fitting, kind_of_weights, shares, weighed


@dataclass(frozen=True, eq=False)
class Scores:
    """Loss and scores of a network on sequences, each a weighted mean over the targets.

    accuracy, confusion: of classes, otherwise None. mae, rmse: mean absolute error and root mean squared error of
    numbers, in their units, averaged over the outputs; otherwise None. outputs: of the network, (time, cases, outputs).
    """

    loss: float
    accuracy: float | None = None
    confusion: Array | None = None
    mae: float | None = None
    rmse: float | None = None
    outputs: Any = None


def scores_of(network: Network, given: Sequences) -> Scores:
    sequences = fitting(network, given)
    kind = kind_of_weights(network, [sequences])
    cases = weighed(sequences, kind)
    t, weights = cases.targets, shares(cases, 0)
    if not weights.any():
        raise DataError("evaluate: at least one target must have a weight above 0")
    outputs = run(network, cases.inputs, lengths=sequences.lengths)[0]
    nodes = gn.input(outputs.shape, outputs.dtype), gn.input(t.shape, t.dtype)
    if network.loss in SEQUENCE_LOSSES:
        loss = SEQUENCE_LOSSES[network.loss](*nodes, gn.constant(steps_of(cases)))
    else:
        own = (network.standardized("outputs", each) for each in nodes)
        loss = (VALUE_LOSSES if kind == "values" else LOSSES)[network.loss](*own)
    losses = gn.compile([loss], list(nodes))(outputs, t)[0]
    w = np.broadcast_to(weights, losses.shape).astype(np.float64)
    # As in training: a target whose values have weights of their own has the mean of these.
    mean = float((losses * w).sum() / w.sum()) * (t.shape[-1] if kind == "values" else 1)
    if network.loss == "softmax":
        confusion = confusion_of(t, outputs.argmax(axis=-1), w, network.outputs)
        return Scores(mean, float(np.trace(confusion) / confusion.sum()), confusion, outputs=outputs)
    if network.loss == "squared":
        mae, rmse = errors_of(outputs, t, w if w.ndim == t.ndim else w[..., None])
        return Scores(mean, mae=mae, rmse=rmse, outputs=outputs)
    return Scores(mean, outputs=outputs)


def confusion_of(labels: Array, predicted: Array, weights: Array, classes: int) -> Array:
    """Returns the total weight of each true class (rows) and predicted class (columns)."""
    found = np.zeros((classes, classes))
    np.add.at(found, (labels, predicted), np.broadcast_to(weights, labels.shape))
    return found


def scores_of_classes(confusion: Array) -> tuple[Array, Array, Array]:
    """Returns precision TP / (TP + FP), recall TP / (TP + FN) and F1 = 2 TP / (2 TP + FP + FN) of each class.

    confusion: total weights of true classes (rows) and predicted classes (columns). NaN is 0 / 0.
    """
    right, true, predicted = np.diagonal(confusion), confusion.sum(axis=1), confusion.sum(axis=0)
    with np.errstate(invalid="ignore"):
        return right / predicted, right / true, 2 * right / (true + predicted)


def f1_of(confusion: Array) -> float:
    """The mean of F1 over the classes that occur, the macro average."""
    return float(np.nanmean(scores_of_classes(confusion)[2]))


def errors_of(predicted: Array, targets: Array, weights: Array) -> tuple[float, float]:
    """Returns the weighted mean absolute error and root mean squared error."""
    w = np.broadcast_to(weights, targets.shape).astype(np.float64)
    errors = np.where(w > 0, predicted.astype(np.float64) - targets, 0)
    return float((w * abs(errors)).sum() / w.sum()), float(np.sqrt((w * errors**2).sum() / w.sum()))
