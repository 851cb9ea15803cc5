"""rnn.tasks: problems, settings of the sources, and measures of all experiments.

problem = rnn.tasks.FreshSequences(rnn.tasks.TASKS["addition"](30))
settings = rnn.Training(rnn.tasks.settings(problem.task).optimizer(), goal=0.01, stopping=None)
outcome = rnn.Trainer(problem, settings).run()
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.experiments.autoencoders.curves import (
        Reconstruction,
        autoencoder,
        autoencoder_optimizer,
        curve_images,
        draw_curves,
    )
    from graphnet_rnn.experiments.bags.debagging import Bag, Debagged, debag, draw_bags
    from graphnet_rnn.experiments.balls.videos import bouncing_balls, draw_balls, move_balls
    from graphnet_rnn.experiments.brackets.lag import TimeLag, time_lag
    from graphnet_rnn.experiments.brackets.text import BracketText, bracket_text
    from graphnet_rnn.experiments.dependencies.fresh import FreshSequences
    from graphnet_rnn.experiments.dependencies.problems import (
        TASKS,
        Addition,
        Memory,
        Memory5,
        Memory20,
        Multiplication,
        Permutation,
        Task,
        TemporalOrder,
        TemporalOrder3,
        Xor,
    )
    from graphnet_rnn.experiments.dependencies.source import (
        MOMENTUM_SETTINGS,
        MomentumSettings,
        Settings,
        echo_state_weights,
        elman,
        initial_weights,
        momentum_settings,
        settings,
        summed_over_time,
        zero_one_loss,
    )
    from graphnet_rnn.experiments.music.collections import CHORD_NATS, FIRST_CHORD_NATS, chords
    from graphnet_rnn.experiments.regret.measure import regret, smoothed
    from graphnet_rnn.experiments.regret.texts import TEXTS, Drawn, alphabet, anbn, distant_xor, music

__all__ = [
    "CHORD_NATS",
    "FIRST_CHORD_NATS",
    "MOMENTUM_SETTINGS",
    "TASKS",
    "TEXTS",
    "Addition",
    "Bag",
    "BracketText",
    "Debagged",
    "Drawn",
    "FreshSequences",
    "Memory",
    "Memory5",
    "Memory20",
    "MomentumSettings",
    "Multiplication",
    "Permutation",
    "Reconstruction",
    "Settings",
    "Task",
    "TemporalOrder",
    "TemporalOrder3",
    "TimeLag",
    "Xor",
    "alphabet",
    "anbn",
    "autoencoder",
    "autoencoder_optimizer",
    "bouncing_balls",
    "bracket_text",
    "chords",
    "curve_images",
    "debag",
    "distant_xor",
    "draw_bags",
    "draw_balls",
    "draw_curves",
    "echo_state_weights",
    "elman",
    "initial_weights",
    "momentum_settings",
    "move_balls",
    "music",
    "regret",
    "settings",
    "smoothed",
    "summed_over_time",
    "time_lag",
    "zero_one_loss",
]  # fmt: skip
