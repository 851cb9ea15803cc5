"""Kernels, as LLVM code that is written here.

ir            LLVM code, line by line
mathematics   exp, log, tanh and their kin on vectors
expressions   an op's scalar expression as code
operands      how loops load, compute and store
loop, reduction, product, scatter   the kernels
rowwise       kernels that users write
"""
