"""`python -m graphnet_rnn.experiments.balls`; the code is in runs.py, which worker processes can import."""

from graphnet_rnn.experiments.balls.runs import main

if __name__ == "__main__":
    main()
