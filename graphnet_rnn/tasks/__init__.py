"""Synthetic problems on which recurrent networks are compared.

pathological  long-term dependencies (Hochreiter & Schmidhuber 1997; Sutskever 2013, 4.4), by name in TASKS
source        how Sutskever trained on them: damping or momentum, numbers of sequences, initial weights
objective     the loss summed over time
fresh         such a problem as a Trainer takes it: new sequences at each step, and the share of test sequences wrong
curves        images of strokes through three points, and the deep autoencoders that learn them
symbols       texts whose true model's bits are known exactly (Ollivier 2013), by name in TEXTS
chords        piano rolls whose true model's nats are known
balls         videos of balls that bounce off walls and each other
regret        the bits that a model needs for such a text beyond those of the true model

    problem = rnn.tasks.FreshSequences(rnn.tasks.TASKS["addition"](30))
    settings = rnn.Training(rnn.tasks.settings(problem.task).optimizer(), goal=0.01, stopping=None)
    outcome = rnn.Trainer(problem, settings).run()
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.tasks.balls import bouncing_balls, draw_balls, move_balls
    from graphnet_rnn.tasks.chords import CHORD_NATS, FIRST_CHORD_NATS, chords
    from graphnet_rnn.tasks.curves import (
        Reconstruction,
        autoencoder,
        autoencoder_optimizer,
        curve_images,
        draw_curves,
    )
    from graphnet_rnn.tasks.fresh import FreshSequences
    from graphnet_rnn.tasks.objective import summed_over_time
    from graphnet_rnn.tasks.pathological import (
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
    from graphnet_rnn.tasks.regret import regret, smoothed
    from graphnet_rnn.tasks.source import (
        MOMENTUM_SETTINGS,
        MomentumSettings,
        Settings,
        echo_state_weights,
        elman,
        initial_weights,
        momentum_settings,
        settings,
        zero_one_loss,
    )
    from graphnet_rnn.tasks.symbols import TEXTS, Drawn, alphabet, anbn, distant_xor, music

__all__ = [
    "CHORD_NATS", "FIRST_CHORD_NATS", "MOMENTUM_SETTINGS", "TASKS", "TEXTS", "Addition", "Drawn", "FreshSequences",
    "Memory", "Memory5", "Memory20", "MomentumSettings", "Multiplication", "Permutation", "Reconstruction",
    "Settings", "Task", "TemporalOrder", "TemporalOrder3", "Xor", "alphabet", "anbn", "autoencoder",
    "autoencoder_optimizer", "bouncing_balls", "chords", "curve_images", "distant_xor", "draw_balls", "draw_curves",
    "echo_state_weights", "elman", "initial_weights", "momentum_settings", "move_balls", "music", "regret", "settings",
    "smoothed", "summed_over_time", "zero_one_loss",
]  # fmt: skip
