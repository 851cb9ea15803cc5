"""How long one Hessian-free step takes here and elsewhere; `python -m benchmarks.second_order` prints it."""
