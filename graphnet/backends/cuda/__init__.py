"""The back end for NVIDIA GPUs: kernels that Numba compiles, from the same plans and expressions as on the CPU.

source, expressions   a kernel's Python code, written line by line
launch        a kernel with its arguments; how work is divided among threads
loops, products, scatters   instructions as launches
blas          cuBLAS, where it is installed
schedule      from a graph to launches, and places in the GPU's memory
kernels       code compiled and kept; PTX without a GPU
simulated     what kernels call in Numba's simulator
device        the GPU, its memory, captured graphs
arrays, exchange   arrays that stay on the GPU; DLPack
building      from a graph to a program
program       launches put to work
files         a program in a file
backend       what `gn.compile` calls
"""
