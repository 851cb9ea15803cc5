"""`python -m graphnet_rnn.experiments.motion`: see runs.py, where processes find what they run."""

from graphnet_rnn.experiments.motion.runs import main

if __name__ == "__main__":
    main()
