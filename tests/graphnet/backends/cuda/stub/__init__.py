"""A stub of the driver: calls of Numba, CUDA's bindings and cuBLAS run in host memory and are logged.
Kernels are launched, but compute nothing. It shows calls that a real driver would reject, not numbers."""
