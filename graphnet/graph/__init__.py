"""Nodes, and what lies between some of them and others.

node        Op and Node: a rule book, and an application of it
graph       inputs, outputs, and all between them in order
dtypes      which dtypes there are, and what two of them make together
signature   one string that documents an op's shapes, and checks them
expression  the scalar expression of an elementwise op, read by machines
provenance  the user's line that made a node, and the scope it was made in
display     pictures in notebooks
"""
