"""Tuner: samplers and pruners of Optuna for the configurations of a sweep."""

from __future__ import annotations

import contextlib
import inspect
import math
import threading
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

from graphnet.system.text import in_brief
from graphnet_rnn.apps.sweep.ranges import Between, Range, Values
from graphnet_rnn.apps.sweep.recipe import Optuna, Recipe, Settings
from graphnet_rnn.errors import UsageError

SAMPLER = Optuna("TPESampler")


class Fate(NamedTuple):
    """Result of a configuration: values so far, end ("" before), and best value or NaN."""

    number: int
    settings: Settings
    values: list[float]
    ended: str
    best: float


class Tuner:
    """Study of Optuna in memory that follows the results of a sweep.

    A resumed sweep rebuilds it from them. Proposals depend on the progress of other runs, and so on timing.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe, self._lock = recipe, threading.Lock()
        optuna = _package()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = recipe.sampler or SAMPLER

        self._trials: dict[int, Any] = {}
        self._reported: dict[int, int] = {}
        self._hopeless: set[int] = set()
        self._ended: set[int] = set()
        #: True if other or earlier processes have drawn trials.
        self._others = False
        self._study = optuna.create_study(
            study_name="sweep",
            sampler=_made("sampler", "Sampler", sampler, recipe.seed),
            pruner=None if recipe.pruner is None else _made("pruner", "Pruner", recipe.pruner, None),
        )

    @staticmethod
    def is_needed(recipe: Recipe) -> bool:
        """True if a recipe uses Optuna."""
        return recipe.method == "optuna" or recipe.pruner is not None

    def propose(self, number: int, fates: list[Fate]) -> Settings:
        """Settings of a new configuration."""
        with self._lock, _in_words(self._recipe):
            self._follow(fates)
            if number not in self._trials:
                if self._others:  # a sampler with the same seed has drawn these already
                    self._study.sampler.reseed_rng()
                    self._others = False
                self._trials[number] = self._study.ask()
            return self._settings(number)

    def is_hopeless(self, number: int, fates: list[Fate]) -> bool:
        """True if the pruner would stop the configuration."""
        with self._lock, _in_words(self._recipe):
            self._follow(fates)
            return number in self._hopeless

    def _settings(self, number: int) -> Settings:
        return _drawn(self._trials[number], self._recipe)

    def _follow(self, fates: list[Fate]) -> None:
        """Adds new results to the study, in the order of configurations."""
        optuna = _package()
        for fate in fates:
            if fate.number not in self._trials:
                ranges = self._recipe.ranges
                self._study.enqueue_trial(
                    {name: fate.settings[name] for name in ranges if name in fate.settings}
                )
                self._trials[fate.number] = self._study.ask()
                self._settings(fate.number)
                self._others = True
            trial = self._trials[fate.number]
            if fate.number in self._ended:
                continue
            for epoch in range(self._reported.get(fate.number, 0), len(fate.values)):
                self._reported[fate.number] = epoch + 1
                if math.isfinite(fate.values[epoch]):
                    trial.report(fate.values[epoch], epoch + 1)
                    if self._recipe.pruner is not None and trial.should_prune():
                        self._hopeless.add(fate.number)
            if fate.ended:
                self._ended.add(fate.number)
                states = optuna.trial.TrialState
                if not math.isfinite(fate.best):
                    self._study.tell(trial, state=states.FAIL)
                elif fate.ended == "cut":
                    self._study.tell(trial, state=states.PRUNED)
                else:
                    self._study.tell(trial, fate.best)


@contextlib.contextmanager
def _in_words(recipe: Recipe) -> Iterator[None]:
    try:
        yield
    except UsageError:
        raise
    except Exception as error:
        names = " and ".join(
            each.name for each in (recipe.sampler or SAMPLER, recipe.pruner) if each is not None
        )
        reason = in_brief(f"{type(error).__name__}: {' '.join(str(error).split())}", 300)
        raise UsageError(f"recipe: Optuna cannot search with {names}: {reason}") from None


def _package() -> Any:
    try:
        import optuna
    except ImportError:
        raise UsageError(
            "recipe: samplers and pruners need Optuna: pip install 'graphnet-rnn[sweep]', or use method = 'random' "
            "and [halving]"
        ) from None
    return optuna


def _made(what: str, ending: str, given: Optuna, seed: int | None) -> Any:
    module = getattr(_package(), f"{what}s")
    names = sorted(
        name for name in dir(module) if name.endswith(ending) and name not in (f"Base{ending}", ending)
    )
    if given.name not in names:
        raise UsageError(f"recipe: Optuna has no {what} {given.name}; it has {', '.join(names)}")
    kind, settings = getattr(module, given.name), dict(given.settings)
    if seed is not None and "seed" in inspect.signature(kind).parameters:
        settings.setdefault("seed", seed)
    try:
        with warnings.catch_warnings(action="ignore", category=_package().exceptions.ExperimentalWarning):
            return kind(**settings)
    except (TypeError, ValueError, ImportError) as error:
        reason = in_brief(" ".join(str(error).split()), 200)
        raise UsageError(f"recipe: {what} {given.name} cannot be created: {reason}") from None


def _drawn(trial: Any, recipe: Recipe) -> Settings:
    ranges = recipe.ranges
    return recipe.fitting(lambda name: _suggested(trial, name, ranges[name]))


def _suggested(trial: Any, name: str, given: Range) -> Any:
    if isinstance(given, Values):
        return trial.suggest_categorical(name, given.values)
    assert isinstance(given, Between)
    if given.whole:
        return trial.suggest_int(name, int(given.low), int(given.high), log=given.log)
    return trial.suggest_float(name, given.low, given.high, log=given.log)
