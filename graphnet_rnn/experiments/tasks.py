"""rnn.tasks: problems, settings of the sources, and measures of all experiments.

problem = rnn.tasks.FreshSequences(rnn.tasks.TASKS["addition"](30))
settings = rnn.Training(rnn.tasks.settings(problem.task).optimizer(), goal=0.01, stopping=None)
outcome = rnn.Trainer(problem, settings).run()
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.experiments.autoencoders.curves import (
        Reconstruction as Reconstruction,
        autoencoder as autoencoder,
        autoencoder_optimizer as autoencoder_optimizer,
        curve_images as curve_images,
        draw_curves as draw_curves,
    )
    from graphnet_rnn.experiments.bags.debagging import (
        Bag as Bag,
        Debagged as Debagged,
        debag as debag,
        draw_bags as draw_bags,
    )
    from graphnet_rnn.experiments.balls.videos import (
        bouncing_balls as bouncing_balls,
        draw_balls as draw_balls,
        move_balls as move_balls,
    )
    from graphnet_rnn.experiments.brackets.lag import TimeLag as TimeLag, time_lag as time_lag
    from graphnet_rnn.experiments.brackets.text import (
        BracketText as BracketText,
        bracket_text as bracket_text,
    )
    from graphnet_rnn.experiments.dependencies.fresh import FreshSequences as FreshSequences
    from graphnet_rnn.experiments.dependencies.problems import (
        TASKS as TASKS,
        Addition as Addition,
        Memory as Memory,
        Memory5 as Memory5,
        Memory20 as Memory20,
        Multiplication as Multiplication,
        Permutation as Permutation,
        Task as Task,
        TemporalOrder as TemporalOrder,
        TemporalOrder3 as TemporalOrder3,
        Xor as Xor,
    )
    from graphnet_rnn.experiments.dependencies.source import (
        MOMENTUM_SETTINGS as MOMENTUM_SETTINGS,
        MomentumSettings as MomentumSettings,
        Settings as Settings,
        echo_state_weights as echo_state_weights,
        elman as elman,
        initial_weights as initial_weights,
        momentum_settings as momentum_settings,
        settings as settings,
        summed_over_time as summed_over_time,
        zero_one_loss as zero_one_loss,
    )
    from graphnet_rnn.experiments.music.collections import (
        CHORD_NATS as CHORD_NATS,
        FIRST_CHORD_NATS as FIRST_CHORD_NATS,
        chords as chords,
    )
    from graphnet_rnn.experiments.regret.measure import regret as regret, smoothed as smoothed
    from graphnet_rnn.experiments.regret.texts import (
        TEXTS as TEXTS,
        Drawn as Drawn,
        alphabet as alphabet,
        anbn as anbn,
        distant_xor as distant_xor,
        music as music,
    )
