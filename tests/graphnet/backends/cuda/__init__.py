"""Tests of the cuda back end, in Numba's simulator or as compiled machine code if there is no GPU."""
