"""A driver without a GPU: what Numba, CUDA's bindings and cuBLAS are asked for is done in the host's memory and written
down; kernels are launched, but compute nothing. It shows calls that a real driver would refuse, not numbers."""
