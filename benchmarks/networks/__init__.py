"""Time of recurrent networks, here and in other engines; run `python -m benchmarks.networks`."""
