"""What is asked of the operating system and of Python.

files       read whole, written whole, locked against other processes
json_lines  rows in a file, one more or all
memory      how much there is, asked before much of it is taken
characters  those that can be shown, and what stands for the others
streams     standard streams that take whatever is said
collector   Python's cyclic garbage collector, paused while many nodes are made
cached      cached_property without the lock that Python 3.11 holds
"""
