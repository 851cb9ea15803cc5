"""Explorer: a graph as one HTML page, in which a person opens, searches and steps through it.

values        each value in a few numbers, and a heat map
derivatives   the backward graph and the R-operator's, by the node that each part belongs to
stages        the graph as written and after each pass
payload       all of it as plain data
page          that data, and the files in assets/, as one page
"""
