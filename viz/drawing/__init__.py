"""Drawing: from a graph to a picture, to DOT text, to a file.

names, fold        shapes of the picture, and nodes that are folded into edges
picture, dot       an open picture, every node, laid out by Graphviz
condense, states   nodes grouped by time step and layer
closed, grid       a closed picture, a box for each group, laid out here (geometry: its curves)
render             Drawing, and the Graphviz that renders it
"""
