"""The back end named after Numba, whose LLVM (llvmlite) compiles kernels that are written here.

code/         kernels, as LLVM code
machine       the processor, and the cache of kernels
jobs, product_jobs        instructions as records, divided among the cores
schedule      from a graph to tapes
tape          records as plain data, and the native loop that runs them
cores/        barriers, threads, and how many of them take part
program       tapes put to work, and kept in a file
backend       what `gn.compile` calls
"""
