"""Standalone C: the text of a C11 program that computes what a compiled function does, without Python.

language      types, numbers, names and comments as C writes them
mathematics   exp, tanh and their kin, as C functions of this project's own
expressions   an op's scalar expression as C
source        a C function that is being written; the arrays that it is given
loops, products   instructions as C functions
unit          a function's source, header and weights; what depends on these alone, computed once, now
"""
