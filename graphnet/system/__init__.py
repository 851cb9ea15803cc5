"""Interfaces to the operating system and to Python.

files       reading, atomic writing, locks between processes
json_lines  append and read JSON-lines files
memory      available memory, checked before large allocations
text        printable characters, bounded JSON, page templates
streams     standard streams that never raise on output
process     its cores, Python's garbage collector, cached_property without the lock that Python 3.11 holds
"""
