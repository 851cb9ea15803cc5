"""What the sources tried, a folder for each: its data, its problem, its command and its runs.

dependencies  long-term dependencies: eight problems (`graphnet-rnn tasks`)
control       a recurrent network moves an arm (`graphnet-rnn control`)
brackets      how long a model of text remembers an open bracket (`graphnet-rnn timelag`)
bags          shuffled words put into order (`graphnet-rnn debag`)
regret        the bits that a model needs beyond those of a text's true model
music         piano rolls
motion        motion capture
balls         videos of bouncing balls
autoencoders  deep autoencoders of images of curves

tasks         all that is public of them: rnn.tasks
runs          what programs of many runs share: options, a folder and a row for each run, tables

`python -m graphnet_rnn.experiments.NAME` makes the runs of one, at length; of regret, `...regret.baselines` and
`...regret.nets`; bags and brackets are commands alone. The library imports none of this.
"""
