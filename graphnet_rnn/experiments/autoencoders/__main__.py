"""`python -m graphnet_rnn.experiments.autoencoders`; the code is in runs.py, which worker processes can import."""

from graphnet_rnn.experiments.autoencoders.runs import main

if __name__ == "__main__":
    main()
