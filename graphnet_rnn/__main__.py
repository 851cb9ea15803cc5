"""`python -m graphnet_rnn` is the command `graphnet-rnn`."""

import sys

from graphnet_rnn.apps.cli import main

if __name__ == "__main__":
    sys.exit(main())
