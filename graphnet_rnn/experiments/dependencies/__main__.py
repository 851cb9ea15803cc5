"""`python -m graphnet_rnn.experiments.dependencies`; the code is in runs.py, which worker processes can import."""

from graphnet_rnn.experiments.dependencies.runs import main

if __name__ == "__main__":
    main()
