"""`python -m graphnet_rnn.experiments.control`: see runs.py, where processes find what they run."""

from graphnet_rnn.experiments.control.runs import main

if __name__ == "__main__":
    main()
