"""Tests of the cuda back end: in Numba's simulator where there is no GPU, and as machine code that none has run."""
