"""How long recurrent networks take on a GPU, here and in other engines; `python -m benchmarks.gpu` prints it."""
