"""The back end named after Numba, whose LLVM (llvmlite) compiles kernels that are written here.

ir            LLVM code, line by line
mathematics   exp, log, tanh and their kin on vectors
expressions   an op's scalar expression as code
loop, product, scatter    the kernels
machine       the processor, and the cache of kernels
jobs, product_jobs        instructions as records, divided among the cores
barriers      before which jobs the cores meet
schedule      from a graph to tapes
tape          records as plain data, and the native loop that runs them
team, threads barriers, mailboxes, workers
pace          how many threads take part
program       tapes put to work
files         a program in a file
backend       what `gn.compile` calls
"""
