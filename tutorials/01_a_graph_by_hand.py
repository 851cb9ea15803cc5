# %% [markdown]
# # 1 · A graph by hand
#
# *Reading time: 9 minutes.* You will write an equation as a graph, compute its value and its gradient with a pencil,
# and see the library do the same. You need to know what a derivative is, and what `X @ W` does in NumPy.

# %%
import matplotlib.pyplot as plt
import numpy as np

import graphnet as gn
import viz

from exercises import check

# %% [markdown]
# ## An equation on nodes
#
# A linear model with a sum of squared errors, `C = Σ (X W + b − T)²`, for two cases with two numbers each:

# %%
X = gn.input((2, 2), "float64", name="X")  # what we know of each case, a row each
T = gn.input((2, 2), "float64", name="T")  # what should come out
W = gn.parameter([[1.0, 0.0], [1.0, -1.0]], name="W")
b = gn.parameter([1.0, 2.0], name="b")

P = X @ W
Y = gn.label(P + b, "Y")
E = Y - T
C = gn.sum(E**2)
print(C)

# %% [markdown]
# Nothing has been computed. `C` is a **node**: it remembers an operation (a sum), the nodes that go into it, the
# shape of what will come out, and the line where you wrote it. Following the inputs back from `C` gives a **graph**,
# and here it is:

# %%
viz.draw(C)

# %% [markdown]
# Black squares are *leaves*: they have no inputs. Those with a blue rim are data, given anew each time; the others,
# `W` and `b`, are parameters, which hold their values. Circles are *operators*. Red is the *cost*, a single number at
# the end. The grey square computes nothing, it is a label for the reader. And ▷ copies the row `b` for each case
# (NumPy calls it broadcasting).
#
# ## Forward
#
# Give the data numbers, and let them flow along the arrows. Take a pencil first:
#
# ```
# X = 1 2    W = 1  0    P = X W = 3 -2    Y = P + b = 4  0    T = 3 1    E = Y - T = 1 -1
#     3 4        1 -1              7 -4                8 -2        8 0                0 -2
#
# C = 1² + 1² + 0² + 2² = 6
# ```
#
# `gn.compile` makes a function of any nodes:

# %%
x = np.array([[1.0, 2.0], [3.0, 4.0]])
t = np.array([[3.0, 1.0], [8.0, 0.0]])

forward = gn.compile([P, Y, E, C], inputs=[X, T])
p, y, e, c = forward(x, t)
print(p, y, e, c, sep="\n")

# %% [markdown]
# How did it know the order? A node can only be made from nodes that are there already. So the order in which they
# were made is an order in which they can be computed, and that is how a `Graph` lists them:

# %%
for node in gn.Graph(C).order:
    reads = ", ".join(source.describe() for source in node.inputs)
    print(f"{node.describe():20}{node.op.name:14}{reads}")

# %% [markdown]
# The same numbers, in the picture: each node shows its smallest, mean and largest value, and a heat map.

# %%
viz.draw(C, notes=viz.values(C, {X: x, T: t}))

# %% [markdown]
# ## Backward
#
# How does `C` change if one number somewhere in the graph changes a little? For a node `Y` this is `∂C/∂Y`, an array
# of the shape of `Y`. Call it `gY`. We find it for the last node first, and then walk against the arrows:
#
# ```
# gC = 1                            C changes as C does
# gE = 2 E        =  2 -2           each square e² changes by 2e
#                    0 -4
# gY = gE                           E = Y - T: what Y gains, E gains
# gP = gY                           Y = P + b: the same again
# gb = rows of gY added  =  2 -6    b stands in both rows, so both changes count
# gW = Xᵀ gP      =  2 -14          P = X W: P[n, m] grows by X[n, k] when W[k, m] grows by one
#                    4 -20
# ```
#
# The library does the same, and its answer is nodes again:

# %%
gW, gb = gn.gradient(C, [W, b])
gradient = gn.compile([gW, gb], inputs=[X, T])
print(*gradient(x, t), sep="\n")
viz.draw([gW, gb])

# %% [markdown]
# Read it from the left: forward up to `− T`, then `× 2` makes `2 E`. From there one arrow leads to the sum over rows,
# `gb`, the other to the product with `Xᵀ`, `gW`. (The 1 that is spread out above is `gC`.) Since a gradient is a
# graph, all that can be done with graphs can be done with it: draw it, make it faster, differentiate it again.
# [Tutorial 3](03_derivatives_are_graphs.py) is about that.
#
# ## The whole algorithm
#
# Each op knows one rule: from the derivative of the cost with respect to its output (the *cotangent*) it makes those
# with respect to its inputs. For `P = X W` they are `gP Wᵀ` and `Xᵀ gP`. The rest is walking back, and adding up
# where several nodes read the same one. Here is all of back-propagation:


# %%
def my_gradient(cost, wrt):
    cotangent = {cost: gn.fill(1, (), cost.dtype)}
    for node in reversed(gn.Graph(cost).order):
        if not node.is_leaf:
            shares = node.op.backward(cotangent[node], node, *node.inputs)
            for source, share in zip(node.inputs, shares, strict=True):
                cotangent[source] = cotangent[source] + share if source in cotangent else share
    return [cotangent[node] for node in wrt]


print(*gn.compile(my_gradient(C, [W, b]), inputs=[X, T])(x, t), sep="\n")

# %% [markdown]
# Walking back from the last node to the first makes sure that all who read a node have had their say before it is its
# turn. Forgetting to add up is the classical mistake, and networks that use one weight at every time step live on
# that sum.
#
# ## Never trust a gradient
#
# A derivative can be checked without any theory: change one number by a little ε, and see how much the cost changes.


# %%
cost = gn.compile([C], inputs=[X, T])


def slope(epsilon):
    """(C(W + ε) − C(W)) / ε for the second number of W's first row."""
    (before,) = cost(x, t)
    W.value[0, 1] += epsilon
    (after,) = cost(x, t)
    W.value[0, 1] -= epsilon
    return (after - before) / epsilon


print(slope(1e-6))

# %% [markdown]
# The gradient said −14. Not exactly: which ε is best?

# %%
epsilons = 10.0 ** np.arange(-15, 0)
errors = [abs(slope(epsilon) + 14) for epsilon in epsilons]
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.loglog(epsilons, errors, "o-")
axes.set(xlabel="ε", ylabel="error of the slope")
axes.grid(alpha=0.3)

# %% [markdown]
# To the right, ε is so large that the cost bends on the way. To the left, the computer's 16 digits run out, for two
# nearly equal numbers are subtracted. So even the best ε leaves an error, and each weight costs another run. That is
# why nobody trains with finite differences, and why everybody tests with them.
#
# ## What can go wrong
#
# Shapes are checked when you write the equation, not when it runs, and the message says which line made which node:

# %%
try:
    X @ gn.parameter(np.ones((3, 2)), name="V")
except gn.ShapeError as error:
    print(error)

# %% [markdown]
# And a node is not a number. Asking one for its truth cannot be answered before it is computed:

# %%
try:
    if C > 5:
        print("too much")
except gn.ValueAccessError as error:
    print(error)

# %% [markdown]
# ### Exercise 1
# What is `∂C/∂X`? Use a pencil, and the rule `gP Wᵀ`. Put your answer, a list of two rows, in place of the dots.

# %%
answer_1 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    1,
    answer_1,
    solution=[[2, 4], [0, 4]],
    wrong=[[[1, 2], [0, 2]], [[0, 2], [-4, 4]], [[2, 0], [4, 4]]],
    hint="gP = 2 E = [[2, -2], [0, -4]], and the rows of Wᵀ are the columns of W: [[1, 1], [0, -1]].",
)

# %% [markdown]
# ### Exercise 2
# A node can be read twice. What is the derivative of `w² + 5 w` with respect to `w`, at `w = 3`?

# %%
answer_2 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    2,
    answer_2,
    solution=11,
    wrong=[6, 5, 8, 30],
    hint="Two ways lead from w to the sum; one gives 2w, the other 5. Add them up.",
)

# %% [markdown]
# ### Exercise 3
# Replace `b` by `b − ε gb`, with `gb = [2, -6]`, and leave `W` as it is. For which ε is the cost smallest? (Try in
# code: `b.value[...] = ...` and `cost(x, t)`; or use a pencil: the cost is a parabola in ε.) Put `b` back to `[1.0,
# 2.0]` after.

# %%
answer_3 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    3,
    answer_3,
    solution=0.25,
    wrong=[0.5, 0.1, -0.25, 1.0],
    hint="C(ε) = Σ (E − ε gb)² = 6 − 40 ε + 80 ε².",
)

# %% [markdown]
# You have just trained a model: one step along the gradient. [Tutorial 2](02_three_rules_of_a_node.py) opens a node,
# and makes one that the library does not have.
