"""Standalone C: C11 source that computes a compiled function without Python.

language      types, numbers, names and comments in C
mathematics   exp, tanh and related functions, written in C
expressions   an op's scalar expression in C
source        a C function under construction; its array arguments
loops, products   instructions as C functions
unit          source, header and weights of a function; values that depend on weights alone are computed now
"""
