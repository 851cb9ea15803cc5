"""Hyperparameter search: many runs of one recipe.

ranges       ranges of settings, and values drawn from them
halving      successive halving and Hyperband
recipe       data, settings and ranges, seeds, and the search method; a TOML file
tuner        samplers and pruners of Optuna
results      state of each run in the sweep's folder, and copies of the recipe's files
run_monitor  a run in its own process, resumed after a crash
fork_server  the processes of runs
sweep        all runs, on all cores, with early stopping of bad ones
report       tables of results
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.apps.sweep.halving import Halving as Halving
    from graphnet_rnn.apps.sweep.ranges import Between as Between, Values as Values
    from graphnet_rnn.apps.sweep.recipe import Optuna as Optuna, Recipe as Recipe
    from graphnet_rnn.apps.sweep.results import (
        Configuration as Configuration,
        Entry as Entry,
        Results as Results,
    )
    from graphnet_rnn.apps.sweep.sweep import Sweep as Sweep
