"""Many runs of one recipe: which settings learn best.

ranges     what a setting may be, and values drawn from it
halving    who is trained for how long, and who is cut down
recipe     a command, its settings and their ranges, seeds, and how they are searched; a TOML file
tuner      what Optuna proposes, and whom it would cut down
book       what there is of each run in the sweep's folder, whoever made it, and the files that the recipe names
baker      a run, in a process of its own: resumed where it was killed
oven       the runs, on all cores, cut down where others learn better
report     tables of what came out
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.apps.sweep.book import Book, Configuration, Entry
    from graphnet_rnn.apps.sweep.halving import Halving
    from graphnet_rnn.apps.sweep.oven import Sweep
    from graphnet_rnn.apps.sweep.ranges import Between, Values
    from graphnet_rnn.apps.sweep.recipe import Optuna, Recipe

__all__ = ["Between", "Book", "Configuration", "Entry", "Halving", "Optuna", "Recipe", "Sweep", "Values"]
