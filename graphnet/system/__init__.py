"""Interfaces to the operating system and to Python.

files       read whole, written whole, locked against other processes
json_lines  rows in a file, one more or all
memory      how much there is, asked before much of it is taken
text        characters that can be shown, JSON that is looked at before it is read, templates of pages
streams     standard streams that take whatever is said
process     its cores, Python's garbage collector, cached_property without the lock that Python 3.11 holds
"""
