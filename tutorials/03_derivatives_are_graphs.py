# %% [markdown]
# # 3 · Derivatives are graphs
#
# *Reading time: 12 minutes.* Forward and backward, two ways to differentiate; and what you get when you run one over
# the other: products with the Hessian and the Gauss-Newton matrix, without the matrix. Read
# [tutorial 2](02_three_rules_of_a_node.py) before.

# %%
import matplotlib.pyplot as plt
import numpy as np

import graphnet as gn
import viz

from exercises import check

# %% [markdown]
# ## One unit
#
# A net of a single unit, `Y = tanh(X w)`, four cases, two weights. Small enough to write every matrix down, and to
# draw the cost as a landscape.

# %%
X = gn.input((4, 2), "float64", name="X")
T = gn.input((4, 1), "float64", name="T")
w = gn.parameter([[1.0], [1.0]], name="w")

Y = gn.label(gn.tanh(X @ w), "Y")
C = gn.sum(gn.squared_error(Y, T))
x = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]])
t = np.array([[0.5], [-0.5], [0.5], [0.5]])
viz.draw(C)

# %% [markdown]
# The gradient is a graph too. To see it without the ones and the labels that differentiation leaves, we draw it as it
# is after `compile` has tidied up ([tutorial 4](04_what_the_optimizer_does.py) tells how):


# %%
def tidy(nodes):
    return gn.compile(nodes, backend="numpy")


(g,) = gn.gradient(C, [w])
viz.draw(tidy([g]))

# %% [markdown]
# In it you can read the formula, from the right: `Xᵀ [ 2 (Y − T) × (1 − Y²) ]`. To see what belongs to what, here is
# the graph with its values, and beneath it the backward pass: at the place of each node stands its cotangent, and the
# arrows are turned round. The warmer the colour, the more the cost depends on the node.

# %%
viz.mirror(C, style="full", feeds={X: x, T: t})

# %% [markdown]
# ## The R-operator: forward
#
# Let the weights move. At time 0 they are `w`, and their speed is `v`. How fast does each node change? Write `R{y}`
# for the speed of `y`. The rules are those of calculus: `R{a + b} = R{a} + R{b}`, `R{a b} = R{a} b + a R{b}`, `R{tanh
# a} = (1 − tanh² a) R{a}`. By hand, for `y = a b` at `a = 2, b = 3`, while `a` moves at speed 1 and `b` at speed 10:
# `R{y} = 1 · 3 + 2 · 10 = 23`.
#
# `gn.rop` walks along the arrows and applies the op's third rule at each node:

# %%
v = gn.input(w.shape, "float64", name="v")
(ry,) = gn.rop(Y, {w: v})
viz.draw(tidy([ry]))

# %% [markdown]
# `v` takes the same way as `w`: through the product with `X`, and then times the slope of tanh.
#
# All slopes of all outputs make a matrix, the *Jacobian*, `J[i, k] = ∂Y[i] / ∂w[k]`, here 4 × 2. The two directions
# are the two ways to multiply by it:
#
# | | walks | gives | one run is |
# |---|---|---|---|
# | `gn.rop(Y, {w: v})` | forward | `J v`, how fast all outputs move | a column of `J`, for one weight |
# | `gn.backward({Y: u}, [w])` | backward | `Jᵀ u`, what each weight does to `uᵀ Y` | a row of `J`, for one output |
#
# A cost is one output, so its gradient is one run backward, for two weights or two million. That is why nets can be
# trained.

# %%
u = gn.input(Y.shape, "float64", name="u")
jv = gn.compile([ry], inputs=[X, v])
jtu = gn.compile(gn.backward({Y: u}, [w]), inputs=[X, u])

columns = np.hstack([jv(x, unit[:, None])[0] for unit in np.eye(2)])
rows = np.hstack([jtu(x, unit[:, None])[0] for unit in np.eye(4)]).T
print(columns, np.abs(columns - rows).max(), sep="\n")

# %% [markdown]
# ## Hv: the R-operator of the gradient
#
# The gradient says which way is down. How soon that changes is told by the *Hessian*, `H[i, k] = ∂²C / ∂w[i] ∂w[k]`.
# For a million weights it has 10¹² entries, and cannot even be stored. But one seldom wants the matrix, one wants a
# product `H v`: how fast does the gradient change when the weights move along `v`? That is `R{∂C/∂w}` (Pearlmutter
# 1994). And the gradient is a graph, made of ordinary nodes which all have an R rule. So:

# %%
(hv,) = gn.rop(g, {w: v})  # this is all that gn.hessian_product(C, {w: v}) does
viz.draw(tidy([hv]))

# %% [markdown]
# Nobody has written a rule for second derivatives. You find two terms before the last product, for `2 (Y − T)` and `1
# − Y²` both change: the product rule, applied by the × node of the gradient. Check it against finite differences of
# the gradient:

# %%
hessian_times = gn.compile([hv], inputs=[X, T, v])
gradient = gn.compile([g], inputs=[X, T])


def gradient_at(weights):
    before, w.value = w.value.copy(), weights
    (result,) = gradient(x, t)
    w.value = before
    return result


H = np.hstack([hessian_times(x, t, unit[:, None])[0] for unit in np.eye(2)])
step = 1e-5
differences = np.hstack(
    [
        (gradient_at(w.value + step * unit[:, None]) - gradient_at(w.value - step * unit[:, None]))
        / (2 * step)
        for unit in np.eye(2)
    ]
)
print(H, np.abs(H - differences).max(), sep="\n")

# %% [markdown]
# ## Gv: the curvature that one can trust
#
# `np.linalg.eigvalsh` tells the curvature along the two main directions:

# %%
print(np.linalg.eigvalsh(H))

# %% [markdown]
# One is negative: along it the landscape is bent like a saddle. Newton's method, which jumps to where the parabola
# has its lowest point, then jumps to where it has none. Where does the minus come from? Differentiate `C = Σ (Y −
# T)²` twice:
#
# ```
# H = Jᵀ 2 J  +  Σ 2 (Y − T) ∂²Y/∂w²
# ```
#
# The first part is a square and never negative. Only the second can be. It is small where the net fits (`Y ≈ T`), and
# far from there it misleads. Leave it out, and you have the *Gauss-Newton matrix* `G = Jᵀ H_L J`, where `H_L` is the
# Hessian of the loss as a function of the net's outputs; here it is 2. A product with `G` is three steps, none of
# which makes a matrix: R forward from `v` to the outputs (`J v`), times `H_L`, and backward (`Jᵀ`).

# %%
(gv,) = gn.gauss_newton_product(C, {w: v})
viz.draw(tidy([gv]))

# %%
gauss_newton_times = gn.compile([gv], inputs=[X, v])
G = np.hstack([gauss_newton_times(x, unit[:, None])[0] for unit in np.eye(2)])
print(G, np.abs(G - columns.T @ (2 * columns)).max(), np.linalg.eigvalsh(G), sep="\n")

# %% [markdown]
# Not even `T` is left in the picture: the curvature of a squared error does not depend on the target.
#
# ## The landscape
#
# Each matrix makes a parabola of the landscape, with a lowest point (or a saddle): `w − H⁻¹ g`, `w − G⁻¹ g`. Let us
# look where that is.

# %%
cost = gn.compile([C], inputs=[X, T])
here = w.value.copy()
a, b = np.meshgrid(np.linspace(-1.5, 2.5, 81), np.linspace(-3, 2, 81))
heights = np.empty_like(a)
for place in np.ndindex(a.shape):
    w.value = [[a[place]], [b[place]]]
    heights[place] = cost(x, t)[0]
w.value = here

start, slope = here.ravel(), gradient_at(here).ravel()
figure, axes = plt.subplots(figsize=(6.5, 4.5), layout="constrained")
axes.contour(a, b, heights, levels=24, cmap="Greys_r", linewidths=0.8)
for name, matrix, colour in [
    ("Newton, −H⁻¹ g", H, "#D55E00"),
    ("Gauss-Newton, −G⁻¹ g", G, "#0072B2"),
    ("damped, −(G + I)⁻¹ g", G + np.eye(2), "#009E73"),
]:
    jump = -np.linalg.solve(matrix, slope)
    w.value = here + jump[:, None]
    print(f"{name:22} cost {cost(x, t)[0]:.2f}")
    axes.annotate("", start + jump, start, arrowprops={"arrowstyle": "->", "color": colour, "lw": 2})
    axes.plot([], [], color=colour, lw=2, label=name)
w.value = here
print(f"before                 cost {cost(x, t)[0]:.2f}")
axes.plot(*start, "ko")
axes.legend(loc="upper left")
axes.set_xlabel("w₁")
axes.set_ylabel("w₂")
axes.grid(alpha=0.3)

# %% [markdown]
# Newton's method climbs: with negative curvature the "lowest point" of its parabola is a saddle. Gauss-Newton heads
# downhill, but much too far, for its parabola is right only nearby. Adding a multiple of the unit matrix shortens the
# step; how to choose it, and how to solve `(G + λ I) d = −g` with products only, is
# [tutorial 8](08_hessian_free_from_scratch.py).
#
# What does all this cost? Count the nodes, as written and after tidying:

# %%
for name, nodes in {"cost": [C], "gradient": [g], "Jv": [ry], "Hv": [hv], "Gv": [gv]}.items():
    print(f"{name:10}{len(gn.Graph(nodes)):4}{len(tidy(nodes).graph):4}")

# %% [markdown]
# A few times the forward pass, whatever the number of weights: that is the whole trick.
#
# ## What can go wrong
#
# A gradient is that of *one* number:

# %%
try:
    gn.gradient(Y, [w])
except gn.DifferentiationError as error:
    print(error)

# %% [markdown]
# And `G` must know where the net ends and the loss begins. Loss ops say so themselves. If a weight reaches the cost
# also by another way, as in a penalty for large weights, leaving out that way would be wrong, so you are asked:

# %%
try:
    gn.gauss_newton_product(C + 0.1 * gn.sum(w**2), {w: v})
except gn.DifferentiationError as error:
    print(error)

# %% [markdown]
# ### Exercise 1
# `y = a² b`, at `a = 2`, `b = 3`. Now `a` moves with speed 1 and `b` with speed −1. What is `R{y}`?

# %%
answer_1 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(1, answer_1, solution=8, wrong=[16, 12, -4, 11], hint="R{y} = 2 a b R{a} + a² R{b}")

# %% [markdown]
# ### Exercise 2
# The cost is `C = w₁² + 3 w₁ w₂`. What is `H v` for `v = (1, 2)`? (You need no `w`. Why?)

# %%
answer_2 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    2,
    answer_2,
    solution=[8, 3],
    wrong=[[2, 3], [7, 3], [5, 3], [3, 8]],
    hint="the gradient is (2 w₁ + 3 w₂, 3 w₁). It is linear in w, so its speed along v does not depend on w.",
)

# %% [markdown]
# ### Exercise 3
# Write a function of a cost, a node `w` and a direction `v` (an array or a node of the shape of `w`) which returns a
# node: the curvature of the cost along `v`, `vᵀ H v`. Put the function in place of the dots.

# %%
answer_3 = ...


# %% tags=["hide-input"] jupyter={"source_hidden": true}
def curvature(cost, w, v):
    (product,) = gn.hessian_product(cost, {w: v})
    return gn.sum(product * v)


def is_curvature(function):
    z = gn.parameter([1.0, -2.0, 3.0], name="z")
    direction = np.array([1.0, 0.5, -1.0])
    quartic = gn.sum(z**4) + z[0] * z[1]  # H is diag(12 z²), and 1 where z₁ meets z₂
    (found,) = gn.compile([function(quartic, z, direction)])()
    expected = (12 * z.value**2 * direction**2).sum() + 2 * direction[0] * direction[1]
    return found.shape == () and np.isclose(found, expected)


check(
    3,
    answer_3,
    solution=curvature,
    wrong=[
        lambda cost, w, v: gn.hessian_product(cost, {w: v})[0],
        lambda cost, w, v: gn.sum(gn.gradient(cost, [w])[0] * v),
        lambda cost, w, v: gn.sum(gn.hessian_product(cost, {w: v})[0]),
    ],
    right=is_curvature,
    hint="gn.hessian_product returns a list of one node; multiply it by v and add up.",
)

# %% [markdown]
# The pictures were tidy because passes had been over them. [Tutorial 4](04_what_the_optimizer_does.py) watches them
# at work.
