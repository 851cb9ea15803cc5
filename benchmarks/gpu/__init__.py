"""Time of recurrent networks on a GPU, here and in other engines; run `python -m benchmarks.gpu`."""
