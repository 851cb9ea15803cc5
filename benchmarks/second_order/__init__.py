"""Time of one Hessian-free step, here and elsewhere; run `python -m benchmarks.second_order`."""
