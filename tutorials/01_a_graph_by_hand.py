# %% [markdown]
# # 1 · Build a graph and compute its gradient by hand
#
# *Reading time: 9 minutes.* After this lesson you can write an equation as a graph, run it, compute its gradient, and
# test the gradient with finite differences. You will compute everything twice: with a pencil and with graphnet. You
# need derivatives, and `X @ W` in NumPy.

# %%
import matplotlib.pyplot as plt
import numpy as np

import graphnet as gn
import viz

from exercises import check

# %% [markdown]
# ## Write an equation as nodes
#
# The example is a linear model with a sum of squared errors, `C = Σ (X W + b − T)²`. It has two cases (examples) with
# two inputs and two targets each:

# %%
X = gn.input((2, 2), "float64", name="X")  # data: one row for each case
T = gn.input((2, 2), "float64", name="T")  # targets
W = gn.parameter([[1.0, 0.0], [1.0, -1.0]], name="W")
b = gn.parameter([1.0, 2.0], name="b")

P = X @ W
Y = gn.label(P + b, "Y")
E = Y - T
C = gn.sum(E**2)
print(C)

# %% [markdown]
# graphnet has not computed anything yet. `C` is a **node**. It stores an operation (here a sum), its input nodes, the
# shape of its value, and the line of your program that created it. `C`, its inputs, their inputs, and so on form a
# **graph**. Draw it:

# %%
viz.draw(C)

# %% [markdown]
# How to read the picture:
#
# - Black squares are *leaves*, nodes without inputs. A blue rim marks data, which you pass at each call. The other two
#   leaves, `W` and `b`, are parameters, and store their values.
# - Circles are *operations*. The red one is the *cost*, the single number at the end.
# - The gray square is a label. It names a node and computes nothing.
# - ▷ copies the row `b` for each case. NumPy calls this broadcasting.
#
# ## Compute the forward pass
#
# Take some data, and compute each node from left to right. First use a pencil:
#
# ```
# X = 1 2    W = 1  0    P = X W = 3 -2    Y = P + b = 4  0    T = 3 1    E = Y - T = 1 -1
#     3 4        1 -1              7 -4                8 -2        8 0                0 -2
#
# C = 1² + 1² + 0² + 2² = 6
# ```
#
# `gn.compile` creates a function that computes any nodes. Call it with one array for each input:

# %%
x = np.array([[1.0, 2.0], [3.0, 4.0]])
t = np.array([[3.0, 1.0], [8.0, 0.0]])

forward = gn.compile([P, Y, E, C], inputs=[X, T])
p, y, e, c = forward(x, t)
print(p, y, e, c, sep="\n")

# %% [markdown]
# The function needs an order in which to compute the nodes. You can create a node only from nodes that already exist,
# so the order of creation is a valid order of computation. A `Graph` lists its nodes in this order:

# %%
for node in gn.Graph(C).order:
    reads = ", ".join(source.describe() for source in node.inputs)
    print(f"{node.describe():20}{node.op.name:14}{reads}")

# %% [markdown]
# Show the same numbers in the picture. Each node shows its smallest, mean and largest value, and a heat map:

# %%
viz.draw(C, notes=viz.values(C, {X: x, T: t}))

# %% [markdown]
# ## Compute the backward pass
#
# How much does `C` change if a number in the graph changes a little? For a node `Y` the answer is the derivative
# `∂C/∂Y`, an array of the shape of `Y`. Call it `gY`. Start at the last node, where `gC = 1`, and follow the arrows
# backward:
#
# ```
# gC = 1                            ∂C/∂C
# gE = 2 E        =  2 -2           the derivative of e² is 2e
#                    0 -4
# gY = gE                           E = Y - T: the derivative of E with respect to Y is 1
# gP = gY                           Y = P + b: the same
# gb = sum of rows of gY =  2 -6    b is added to both rows, so add the derivatives of both
# gW = Xᵀ gP      =  2 -14          P = X W: the derivative of P[n, m] with respect to W[k, m] is X[n, k]
#                    4 -20
# ```
#
# `gn.gradient` does the same. It returns nodes, not numbers:

# %%
gW, gb = gn.gradient(C, [W, b])
gradient = gn.compile([gW, gb], inputs=[X, T])
print(*gradient(x, t), sep="\n")
viz.draw([gW, gb])

# %% [markdown]
# Read the picture from the left. The forward pass ends at `− T`. Then `× 2` computes `2 E`. From there, one arrow
# leads to the sum over rows, which is `gb`. The other arrow leads to the product with `Xᵀ`, which is `gW`. (The 1 that
# is broadcast at the top is `gC`.)
#
# The gradient is a graph like any other: you can draw it, optimize it, or differentiate it again.
# [Tutorial 3](03_derivatives_are_graphs.py) does this.
#
# ## Implement backpropagation
#
# Each op has a backward rule. The rule takes the derivative of the cost with respect to the op's output, called the
# *cotangent*. It returns the derivatives with respect to the op's inputs. For `P = X W` these are `gP Wᵀ` and `Xᵀ gP`.
# The algorithm applies these rules from the last node to the first. If several nodes use the same input, it adds their
# contributions. This is backpropagation in full:


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
# The reversed order guarantees that all contributions to a node are complete before its own rule runs. Do not forget
# the sum: a recurrent network uses the same weights at every time step, so its gradient is a sum over time steps.
#
# ## Check a gradient with finite differences
#
# You can check any derivative: change one number by a small ε, and measure the change of the cost.


# %%
cost = gn.compile([C], inputs=[X, T])


def slope(epsilon):
    """(C(W + ε) − C(W)) / ε, where only W[0, 1] changes."""
    (before,) = cost(x, t)
    W.value[0, 1] += epsilon
    (after,) = cost(x, t)
    W.value[0, 1] -= epsilon
    return (after - before) / epsilon


print(slope(1e-6))

# %% [markdown]
# The gradient is −14. The result differs a little, because ε is finite. Find the best ε:

# %%
epsilons = 10.0 ** np.arange(-15, 0)
errors = [abs(slope(epsilon) + 14) for epsilon in epsilons]
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.loglog(epsilons, errors, "o-")
axes.set(xlabel="ε", ylabel="error of the slope")
axes.grid(alpha=0.3)

# %% [markdown]
# On the right, ε is too large: the cost is not a straight line over that distance. On the left, ε is too small: the
# difference of two nearly equal numbers loses most of the 16 digits of float64. Even with the best ε, an error remains.
# Also, each weight needs another call of the function. Finite differences are therefore too slow and too inexact for
# training, but good for tests.
#
# ## Common errors
#
# graphnet checks shapes when you create a node, before any computation. The message names the lines that created the
# nodes:

# %%
try:
    X @ gn.parameter(np.ones((3, 2)), name="V")
except gn.ShapeError as error:
    print(error)

# %% [markdown]
# A node has no value while you build the graph, so you cannot use it in an `if`:

# %%
try:
    if C > 5:
        print("the cost is too large")
except gn.ValueAccessError as error:
    print(error)

# %% [markdown]
# ### Exercise 1
# Compute `∂C/∂X` with a pencil. Use the rule `gP Wᵀ`. Replace the dots with your answer, a list of two rows.

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
# A node can be an input of several nodes. What is the derivative of `w² + 5 w` with respect to `w`, at `w = 3`?

# %%
answer_2 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    2,
    answer_2,
    solution=11,
    wrong=[6, 5, 8, 30],
    hint="Two paths lead from w to the sum. One gives 2w, the other 5. Add them.",
)

# %% [markdown]
# ### Exercise 3
# Replace `b` by `b − ε gb`, with `gb = [2, -6]`, and keep `W`. For which ε is the cost smallest? Either use a pencil
# (the cost is a parabola in ε), or try values: set `b.value[...] = ...` and call `cost(x, t)`. If you change `b`, set
# it back to `[1.0, 2.0]` afterwards.

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
# In exercise 3 you trained a model: one step of gradient descent, with the best step size. In
# [tutorial 2](02_three_rules_of_a_node.py) you write an op that the library does not have.
