"""The back end named after Numba, whose LLVM (llvmlite) compiles kernels that are written here.

ir            LLVM code, line by line
mathematics   exp, log, tanh and their kin on vectors
expressions   an op's scalar expression as code
loop, product, scatter    the kernels
machine       the processor, and the cache of kernels
jobs, product_jobs        instructions as records, divided among the cores
schedule      from a graph to an image: jobs, meetings, places
image         tapes and places as plain data, which a file can hold
tape, threads the native loop, meetings, mailboxes, workers
program       an image put to work
backend       what `gn.compile` calls
"""
