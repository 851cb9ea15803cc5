"""Base of every cell: equations of one time step, weights, initializers.

cell          Cell
declaration   checks of what a cell declares: states, arguments of step
tracing       runs the equations and checks them; estimates the size of a graph
weights       parameters, made when the equations first use them, end to end in one vector
initializers  initial values of parameters
masks         dropout masks
"""
