"""How long recurrent networks take here and in other engines; `python -m benchmarks.networks` prints it."""
