"""Explorer: a graph as one HTML page, to browse, search and step through.

values        each value in a few numbers, and a heat map
derivatives   the backward graph and the R-operator's, by the node that each part belongs to
stages        the original graph and the graph after each pass
payload       all of this as plain data
page          that data, and the files in assets/, as one page
"""
