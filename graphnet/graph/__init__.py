"""Nodes and graphs.

node        Op and Node: the rules of an operation, and an application of it
graph       inputs, outputs, and all nodes between them in order
dtypes      supported dtypes and their promotion
signature   one string that documents an op's shapes, and checks them
expression  the scalar expression of an elementwise op, parsed
provenance  the user's line that made a node, and the scope it was made in
display     pictures in notebooks
"""
