"""`python -m graphnet_rnn.experiments.motion`: see runs.py, where processes find what they run."""

from graphnet.system.streams import prepare_streams
from graphnet_rnn.experiments.motion.runs import main

if __name__ == "__main__":
    prepare_streams()
    main()
