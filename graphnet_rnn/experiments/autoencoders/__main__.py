"""`python -m graphnet_rnn.experiments.autoencoders`: see runs.py, where processes find what they run."""

from graphnet_rnn.experiments.autoencoders.runs import main

if __name__ == "__main__":
    main()
