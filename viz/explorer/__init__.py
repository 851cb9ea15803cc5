"""Explorer: a graph as one HTML page, in which a person opens, searches and steps through it.

values        arrays for the inputs, every node's value, and each value in a few numbers
derivatives   the backward graph and the R-operator's, by the node that each part belongs to
stages        the graph as written and after each pass
payload       all of it as plain data
page          that data, and the files in assets/, as one page
"""
