"""What every cell is made of: the equations of one time step, and what is derived from them.

cell          Cell
declaration   what a cell declares besides its equations: states, arguments
tracing       running the equations, and what is wrong with them
weights       parameters, made when the equations first use them, end to end in one vector
initializers  what they hold at first
masks         what is dropped while a network trains
"""
