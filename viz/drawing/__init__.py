"""Drawing: from a graph to what is drawn of it, to Graphviz's language, to a file.

names, fold        what stands in the picture, and what is folded into edges
picture, dot       an open picture, every node, laid out by Graphviz
condense, states   the nodes put together by time step and layer
closed, grid       a closed picture, a box for each, laid out here (geometry: its curves)
render             the Drawing, and the Graphviz that draws it
"""
