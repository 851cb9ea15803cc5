"""Applications: the command line, the writer and sweeps. The library below imports none of them."""
