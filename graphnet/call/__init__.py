"""From a graph to a function that is called.

function   compile, and the Function that it makes
arguments  the arrays it is called with, checked before anything runs
running    a program that is run, and run again
profile    where the time of a run goes
stored     functions in files
"""
