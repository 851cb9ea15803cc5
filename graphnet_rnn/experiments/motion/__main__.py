"""`python -m graphnet_rnn.experiments.motion`; the code is in runs.py, which worker processes can import."""

from graphnet_rnn.experiments.motion.runs import main

if __name__ == "__main__":
    main()
