"""Shared parts of compiled back ends: everything except kernels, the emitter of expressions, and the launcher.

expressions   the walk over an op's scalar expression, by an emitter; reductions; polynomials
schedule      from a graph to sections of native work, and locations; jobs are the back end's
locations     places of arrays while a program runs
program       runs a schedule: run, again, timed, Python's parts, errors
host          memory on the host, and programs that use it
turns         one call at a time
files         schedules in files
"""
