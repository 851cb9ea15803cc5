"""`python -m graphnet_rnn.experiments.balls`: see runs.py, where processes find what they run."""

from graphnet_rnn.experiments.balls.runs import main

if __name__ == "__main__":
    main()
