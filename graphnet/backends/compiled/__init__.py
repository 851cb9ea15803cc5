"""Shared parts of compiled back ends: everything except kernels, the emitter of expressions, and the launcher.

expressions   the walk over an op's scalar expression, by an emitter; how numbers are combined; polynomials
schedule      from a graph to sections of native work, and locations; jobs are the back end's
locations     where arrays lie while a program runs
program       a schedule put to work: run, again, timed, what Python runs, what went wrong
host          memory on the host, and programs that use it
turns         one call at a time
files         a schedule as what a file can hold
"""
