"""From a graph to a function.

function    compile, and the Function that it returns
arguments   the arrays of a call, checked before anything runs
running     runs of a program, and runs with new arrays for varying inputs
profile     time of a run by node, op and scope
stored      functions in files
standalone  functions as C
kept        on-disk cache of programs
"""
