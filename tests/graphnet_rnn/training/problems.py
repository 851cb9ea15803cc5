"""A small example of each training problem, including a user-defined one.

python -m tests.graphnet_rnn.training.problems FOLDER NAME ... starts a run of each problem in the folder,
and kills it at the second step.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.training import Problem, Trainer, Training
from tests.graphnet_rnn.training.runs import At

TEXT = "the quick brown fox jumps over the lazy dog. " * 12


def draws(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


class Line(rnn.Model):
    """y = x w + b"""

    def __init__(self, width: int, seed: int = 0, values: Mapping[str, Array] | None = None) -> None:
        self.width, self.seed = width, seed
        shapes = {"w": ((width,), rnn.initializers.normal(0.1)), "b": ((1,), rnn.initializers.zeros())}
        self.declare_parameters(shapes, seed, "float32", values=values)

    def __graph__(self) -> gn.Graph:
        x = gn.input((1, self.width), name="x")
        return gn.Graph([x @ self.parameters["w"] + self.parameters["b"]], [x])


class Fit(Problem):
    """C = mean (x w + b - y)², ten rows for each step."""

    def __init__(self, model: Line, x: Array, y: Array) -> None:
        self.model, self.x, self.y = model, x, y
        nodes = gn.input((10, model.width), name="x"), gn.input((10,), name="y")
        found = nodes[0] @ model.parameters["w"] + model.parameters["b"]
        self.objective = rnn.Objective(gn.mean(gn.squared_error(found, nodes[1])), model.parameters, nodes)

    def __len__(self) -> int:
        return len(self.x) // 10

    def feed(self, epoch: int, step: int) -> rnn.Objective:
        rows = slice(10 * step, 10 * step + 10)
        self.objective.feed(self.x[rows], self.y[rows])
        return self.objective

    def description(self) -> dict[str, Any]:
        return {"x": self.x, "y": self.y}


def of_text(kind: type, initial_state: str = "zero", **how: Any) -> Problem:
    corpus = rnn.data.Corpus.split(TEXT)
    count = len(corpus.vocabulary)
    net = rnn.Network([rnn.GRU(6)], count, count, recurrent_dropout=0.2, initial_state=initial_state)
    return kind(net, corpus, **{"batch": 5, "sample": 5, **how})


def carried(**how: Any) -> Problem:
    return of_text(rnn.CarriedText, "learned", **{"time": 15, **how})


def drawn(**how: Any) -> Problem:
    return of_text(rnn.DrawnText, **{"time": 10, "gradient_batches": 3, "curvature_batches": 2, **how})


def arrays(cases: int = 37, network: dict[str, Any] | None = None, **how: Any) -> Problem:
    """By default, the last batch of an epoch is smaller."""
    net = rnn.Network([rnn.LSTM(4)], 3, 2, "squared", recurrent_dropout=0.2, **(network or {}))
    x = draws().normal(size=(7, cases, 3))
    settings = {"batch": 8, "weights": np.arange(1, cases + 1), **how}
    return rnn.Arrays(net, **{"inputs": x, "targets": x.cumsum(0)[..., :2], **settings})


def classes(**how: Any) -> Problem:
    """Steps of three classes, the first of which is frequent."""
    x = draws(1).normal(size=(5, 20, 2))
    network = rnn.Network([rnn.Elman(3)], 2, 3, reads="vectors")
    return rnn.Arrays(network, x, np.digitize(x[..., 0], [0.5, 1.0]), **{"batch": 8, **how})


def ragged(**how: Any) -> Problem:
    """Several lengths, steps without a target, and a layer that reads from the end."""
    net = rnn.Network([rnn.Bidirectional(rnn.GRU(3)), rnn.GRU(2)], 3, 2, "squared", recurrent_dropout=0.2)
    x = draws().normal(size=(7, 37, 3))
    weights = (draws(1).random((7, 37, 2)) < 0.8) * 1.0
    targets = np.where(weights > 0, x.cumsum(0)[..., :2], np.nan)
    settings = {"batch": 5, "lengths": draws(2).integers(1, 8, 37), "weights": weights, "buckets": 3, **how}
    return rnn.Arrays(net, **{"inputs": x, "targets": targets, **settings})


@rnn.composed
def pair(one: rnn.Network, other: rnn.Network, batch: int, **how: Any) -> rnn.Unrolled:
    """A network that reads a sequence, and one that starts with its final state."""
    u = one.unroll(3, batch, initial="zero", **how)
    return other.unroll(4, batch, inputs="z", initial=u.final, **how)


def pair_arrays() -> dict[str, Array]:
    x, z = draws().normal(size=(3, 37, 3)), draws(1).normal(size=(4, 37, 2))
    return {"x": x, "z": z, "t": draws(2).integers(0, 3, (4, 37))}


def with_noise(model: rnn.Model) -> Any:
    """Another loss and metric for the same network."""

    def losses(batch: int, **how: Any) -> Any:
        u = model.unroll(batch, **how)
        right = gn.mean(gn.cast(gn.equal(gn.argmax(u.logits), u.targets), u.logits.dtype), axis=0)
        return gn.sum(u.losses, axis=0) + 0.1 * gn.sum(u.logits * u.logits, axis=(0, 2)), {"right": right}

    return losses


def composed(model: dict[str, Any] | None = None, graph: Any = None, **how: Any) -> Problem:
    """By default, the last batch of an epoch is smaller."""
    both = pair(
        rnn.Network([rnn.GRU(4)], 3, 0, recurrent_dropout=0.2, reads="vectors", **(model or {})),
        rnn.Network([rnn.GRU(4)], 2, 3, reads="vectors"),
    )
    settings = {"arrays": pair_arrays(), "batch": 8, "weights": np.arange(1, 38), **how}
    return rnn.GraphCases(both, **settings, graph=None if graph is None else graph(both))


@rnn.composed
def speller(
    encoder: rnn.Network, decoder: rnn.Network, batch: int, feedback: str | None = None, **how: Any
) -> Any:
    """Sequence to sequence with attention, on words of several lengths."""
    e = encoder.unroll(4, batch, inputs="word", lengths="length", initial="zero", name="encoder", **how)
    memory = rnn.attention_memory(e.hidden[-1], e.lengths)
    return decoder.unroll(
        3, batch, inputs="before", targets="answer", initial=memory, feedback=feedback, name="decoder", **how
    )


def attentive(**how: Any) -> Problem:
    model = speller(
        rnn.Network([rnn.Bidirectional(rnn.GRU(2))], 4, 0, dropout=0.1),
        rnn.Network([rnn.Attention(rnn.GRU(3), memory=4, places=4)], 4, 4),
    )
    word, answer = draws().integers(0, 4, (4, 37)), draws(1).integers(0, 4, (3, 37))
    length, before = draws(2).integers(1, 5, 37), np.roll(answer, 1, axis=0)
    arrays = {"word": word, "length": length, "before": before, "answer": answer}
    return rnn.GraphCases(model, **{"arrays": arrays, "batch": 8, **how})


def fresh(length: int = 10, **how: Any) -> Problem:
    settings = {"batch": 10, "gradient_batches": 2, "test": 30, "steps": 3, **how}
    network = rnn.Network([rnn.Elman(5)], 2, 1, "squared")
    return rnn.tasks.FreshSequences(rnn.tasks.TASKS["addition"](length), network, **settings)


def rbm(visible: int = 6, seed: int = 0) -> rnn.energy.RBM:
    return rnn.energy.RBM(visible, 4, seed=seed)


def bits(*shape: int, seed: int = 1) -> Array:
    return (draws(seed).random(shape) > 0.5) * 1.0


def energy(**how: Any) -> Problem:
    return rnn.EnergyCases(**{"model": rbm(), "data": bits(45, 6), "batch": 10, **how})


def temporal(**how: Any) -> Problem:
    """The cases are activities of another model, `below`."""
    settings = {"batch": 5, "below": [rnn.energy.TRBM(6, 4)], "gibbs_steps": lambda n: 1 + n // 4, **how}
    return rnn.EnergyCases(rnn.energy.RTRBM(4, 3), bits(5, 22, 6), **settings)


def drawn_cases(generator: np.random.Generator, count: int) -> Array:
    return (generator.random((count, 6)) > 0.5) * 1.0


def drawn_energy(**how: Any) -> Problem:
    """New cases are drawn for each epoch."""
    return rnn.EnergyCases(**{"model": rbm(), "data": drawn_cases, "batch": 10, "drawn": 45, **how})


MOVEMENTS = {"steps", "l2", "clip_values", "gradient_batches", "frozen"}


def movements(**how: Any) -> Problem:
    of_problem = {name: how.pop(name) for name in MOVEMENTS & set(how)}
    controller = rnn.control.Controller([rnn.Elman(5)])
    loop = rnn.control.DelayDisturbanceNoise(controller, **{"batch": 6, "time": 12, **how})
    return rnn.control.Movements(loop, **{"steps": 4, "gradient_batches": 1, **of_problem})


def symbols(**how: Any) -> Problem:
    settings = {"symbols": draws().integers(0, 4, (20, 5)), "valid": draws(2).integers(0, 4, (10, 3)), **how}
    return rnn.SymbolSequences(rnn.HMM(3, 4), **settings)


def stream(kind: type[rnn.online.Learner] = rnn.online.RTRL, batch: int = 2, **how: Any) -> Problem:
    cell = rnn.LSTM(4) if kind is rnn.online.TruncatedLSTM else rnn.Elman(4)
    s = draws().integers(0, 4, (20, batch))
    learner = kind(rnn.Network([cell], 4, 4), batch=batch)
    return rnn.Stream(learner, **{"inputs": s[:-1], "targets": s[1:], "every": 3, **how})


def own(rows: int = 40, seed: int = 1) -> Problem:
    x = draws(seed).normal(size=(rows, 3)).astype("float32")
    return Fit(Line(3), x, (x @ [1, -2, 3]).astype("float32"))


#: Arguments that change a setting, and a part of the error.
Change = tuple[dict[str, Any], str]


@dataclass(frozen=True)
class Row:
    """make: returns a new problem; takes settings of the problem. optimizer: a suitable one.

    shared: True if several processes can train it together. changed: a change of each setting, see Change; those of
    ObjectiveProblem are in test_problems.py.
    """

    make: Callable[..., Problem]
    optimizer: Callable[[], rnn.optimizers.Optimizer] = lambda: rnn.Adam(0.01)
    shared: bool = False
    changed: Mapping[str, Change] = field(default_factory=dict)


HESSIAN_FREE = lambda: rnn.HessianFree(damping=0.1, cg_steps=5)
STRUCTURAL = lambda: rnn.HessianFree(structural=0.3, adapts="structural", cg_steps=5, preconditioner=0.75)
#: Changes of the settings that Arrays and GraphCases have.
CASES: dict[str, Change] = {
    "batch": ({"batch": 7}, "batch was 8, now it is 7"),
    "valid": ({"valid": 0.2}, "the data have changed"),
    "weights": ({"weights": None}, "the data have changed"),
    "gradient_batches": ({"gradient_batches": 2}, "gradient_batches was 1, now it is 2"),
}
CURVATURE: dict[str, Change] = {
    "curvature_batches": ({"curvature_batches": 2}, "curvature_batches was 1, now it is 2")
}
PROBLEMS: dict[str, Row] = {
    "carried": Row(carried),
    "carried, overlapping": Row(lambda **how: carried(stride=6, **how), lambda: rnn.Nesterov(0.05)),
    "drawn": Row(drawn, STRUCTURAL, shared=True),
    "arrays": Row(arrays, changed={
        **CASES,
        "network": ({"network": {"seed": 1}}, "model.seed was 0, now it is 1"),
        "inputs": ({"inputs": draws(3).normal(size=(7, 37, 3))}, "the data have changed"),
        "targets": ({"targets": np.zeros((7, 37, 2))}, "the data have changed"),
        "unscored": ({"unscored": 1}, "unscored was 0, now it is 1"),
        "loss": ({"loss": lambda o, t: abs(o - t)}, "loss"),
    }),
    "arrays, several batches": Row(
        lambda **how: arrays(gradient_batches=2, **how), HESSIAN_FREE, shared=True, changed=CURVATURE
    ),
    "composed": Row(composed, changed={
        **CASES,
        "model": ({"model": {"seed": 1}}, "model.one.seed was 0, now it is 1"),
        "arrays": ({"arrays": {**pair_arrays(), "t": np.zeros((4, 37), int)}}, "the data have changed"),
        "graph": ({"graph": with_noise}, "the graph has changed"),
    }),
    "composed, several batches": Row(
        lambda **how: composed(gradient_batches=2, **how), HESSIAN_FREE, shared=True, changed=CURVATURE
    ),
    "composed, attention": Row(attentive, HESSIAN_FREE),
    "arrays, classes": Row(classes, changed={
        "balanced": ({"balanced": True}, "balanced was False, now it is True"),
    }),
    "arrays, ragged": Row(ragged, changed={
        "lengths": ({"lengths": np.arange(37) % 7 + 1}, "the data have changed"),
        "buckets": ({"buckets": 1}, "buckets was 3, now it is 1"),
    }),
    "arrays, ragged, several batches": Row(lambda **how: ragged(gradient_batches=2, **how), HESSIAN_FREE, shared=True),
    "fresh": Row(fresh, HESSIAN_FREE, shared=True, changed={
        "task": ({"length": 12}, "task.length was 10, now it is 12"),
        "batch": ({"batch": 11}, "batch was 10, now it is 11"),
        "gradient_batches": ({"gradient_batches": 3}, "gradient_batches was 2, now it is 3"),
        "test": ({"test": 31}, "test was 30, now it is 31"),
        "seed": ({"seed": 1}, "seed was 0, now it is 1"),
        "steps": ({"steps": 4}, "steps was 3, now it is 4"),
    }),
    "energy": Row(energy, lambda: rnn.Momentum(0.05), changed={
        "model": ({"model": rbm(seed=1)}, "model.seed was 0, now it is 1"),
        "data": ({"data": bits(45, 6, seed=3)}, "the data have changed"),
        "batch": ({"batch": 9}, "batch was 10, now it is 9"),
        "gibbs_steps": ({"gibbs_steps": 2}, "gibbs_steps was 1, now it is 2"),
        "below": ({"below": [rbm()], "model": rbm(4)}, "model.visible was 6, now it is 4"),
        "valid": ({"valid": 0.2}, "the data have changed"),
        "chains": ({"chains": 2}, "chains was 1, now it is 2"),
        "seed": ({"seed": 1}, "seed was 0, now it is 1"),
    }),
    "energy, curved": Row(lambda **how: energy(chains=3, **how), HESSIAN_FREE),
    "energy, drawn": Row(drawn_energy, lambda: rnn.Momentum(0.05), changed={
        "drawn": ({"drawn": 60}, "drawn was 45, now it is 60"),
        "data": ({"data": lambda generator, count: np.zeros((count, 6))}, "the data have changed"),
    }),
    "energy over time": Row(temporal, lambda: rnn.Nesterov(0.05), changed={
        "below": ({"below": [rnn.energy.TRBM(6, 4, seed=1)]}, "the data have changed"),
        "gibbs_steps": ({"gibbs_steps": lambda n: 1 + n // 5}, "gibbs_steps was temporal.<locals>.<lambda> "),
    }),
    "movements": Row(movements, changed={
        "task": ({"noise": 0.3}, "task.noise was 0.1, now it is 0.3"),
        "task, arm": ({"arm": rnn.control.Arm(mass1=0.4)}, "arm.mass1 was 0.35, now it is 0.4"),
        "task, radius": ({"radius": 0.05}, "the data have changed"),
        "steps": ({"steps": 5}, "steps was 4, now it is 5"),
        "gradient_batches": ({"gradient_batches": 3}, "gradient_batches was 1, now it is 3"),
    }),
    "movements, several batches": Row(lambda **how: movements(gradient_batches=2, **how), HESSIAN_FREE, shared=True),
    "symbols": Row(symbols, rnn.ExpectationMaximization, changed={
        "shares": ({"shares": 2}, "shares was 1, now it is 2"),
        "model": ({"symbols": draws(5).integers(0, 4, (20, 5))}, "the data have changed"),
        "symbols": ({"symbols": draws().integers(0, 4, (5, 20))}, "the data have changed"),
        "valid": ({"valid": None}, "the data have changed"),
    }),
    "symbols, shared": Row(lambda **how: symbols(shares=3, **how), rnn.ExpectationMaximization, shared=True),
    "stream": Row(stream, changed={
        "learner": ({"batch": 3}, "batch was 2, now it is 3"),
        "inputs": ({"inputs": np.zeros((19, 2), int)}, "the data have changed"),
        "targets": ({"targets": np.zeros((19, 2), int)}, "the data have changed"),
        "every": ({"every": 4}, "every was 3, now it is 4"),
        "weights": ({"weights": np.arange(1, 20)}, "the data have changed"),
        "valid": ({"valid": (np.zeros((3, 1), int), np.zeros((3, 1), int))}, "the data have changed"),
    }),
    "stream, by weight": Row(lambda **how: stream(weights=np.arange(19) % 3, valid=(np.ones((5, 1), int),) * 2, **how)),
    "stream, truncated": Row(lambda **how: stream(rnn.online.TruncatedLSTM, **how), lambda: rnn.Nesterov(0.05)),
    "one's own": Row(own, lambda: rnn.LBFGS(iterations=2), changed={"rows": ({"seed": 2}, "x was float32 [40, 3] ")}),
}  # fmt: skip


def begin(name: str, folder: Path | None, problem: Problem | None = None, **how: Any) -> Trainer:
    """A Trainer for this row. how: settings of Training, and listeners."""
    row, listeners = PROBLEMS[name], how.pop("listeners", ())
    optimizer = how.pop("optimizer", row.optimizer())
    settings = Training(optimizer, **{"epochs": 3, "log_every": 2, "stopping": None, **how})
    return Trainer(row.make() if problem is None else problem, settings, folder, listeners=listeners)


def _begin_and_kill(folder: Path, names: list[str]) -> None:
    """Each run is in a process that is forked before any kernel has run, so that it has all threads."""
    for name in names:
        number = os.fork()
        if not number:
            end = At(2, lambda: os.kill(os.getpid(), signal.SIGKILL))
            begin(name, folder / name, checkpoint_seconds=0, listeners=[end]).run()
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) == -signal.SIGKILL, name


if __name__ == "__main__":
    _begin_and_kill(Path(sys.argv[1]), sys.argv[2:])
