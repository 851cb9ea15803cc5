"""The back end for NVIDIA GPUs: kernels that Numba compiles, from the same plans and expressions as on the CPU.

source, expressions   a kernel's Python code, written line by line
launch        a kernel with its arguments; division of work among threads
loops, products, scatters   instructions as launches
blas          cuBLAS, where it is installed
schedule      from a graph to launches, and places in the GPU's memory
kernels       compiled and cached code; PTX without a GPU
simulated     functions that kernels call in Numba's simulator
device        the GPU, its memory, captured graphs
arrays, exchange   arrays that stay on the GPU; DLPack
building      from a graph to a program
program       runs launches
files         a program in a file
backend       the interface to `gn.compile`
"""
