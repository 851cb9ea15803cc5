"""Experiments of the sources, a folder for each: data, problem, command and runs.

dependencies  long-term dependencies: eight problems (`graphnet-rnn tasks`)
control       a recurrent network moves an arm (`graphnet-rnn control`)
brackets      memory of a language model for an open bracket (`graphnet-rnn timelag`)
bags          reordering of shuffled words (`graphnet-rnn debag`)
regret        bits of a model beyond those of the true model of a text
music         piano rolls
motion        motion capture
balls         videos of bouncing balls
autoencoders  deep autoencoders of images of curves

tasks         public names of all these: rnn.tasks
runs          shared parts of benchmark programs: options, a folder and a row for each run, tables

`python -m graphnet_rnn.experiments.NAME` runs a benchmark, which takes long; for regret, `...regret.baselines` and
`...regret.nets`; bags and brackets are only commands. The library imports none of this.
"""
