"""`python -m graphnet_rnn.experiments.music`; the code is in runs.py, which worker processes can import."""

from graphnet_rnn.experiments.music.runs import main

if __name__ == "__main__":
    main()
