# %% [markdown]
# # 3 · Compute gradients, Jacobian, Hessian and Gauss–Newton products
#
# *Reading time: 12 minutes.* After this lesson you can differentiate a graph forward and backward, and multiply
# vectors by the Jacobian, the Hessian and the Gauss–Newton matrix without computing these matrices. Read
# [tutorial 2](02_three_rules_of_a_node.py) first.

# %%
import matplotlib.pyplot as plt
import numpy as np

import graphnet as gn
import viz

from exercises import check

# %% [markdown]
# ## A network with one unit
#
# The example is a network with a single unit, `Y = tanh(X w)`, four cases and two weights. It is small enough to print
# each matrix and to plot the cost as a landscape.

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
# The gradient is a graph, too. Differentiation leaves constants of 1 and labels in it. To draw it without them, first
# apply `compile`, which simplifies the graph ([tutorial 4](04_what_the_optimizer_does.py) shows how):


# %%
def tidy(nodes):
    return gn.compile(nodes, backend="numpy")


(g,) = gn.gradient(C, [w])
viz.draw(tidy([g]))

# %% [markdown]
# Read the formula in the picture from right to left: `Xᵀ [ 2 (Y − T) × (1 − Y²) ]`.
#
# The next picture shows the forward pass with its values. Below it is the backward pass: each node is replaced by its
# cotangent, and the arrows are reversed. A warmer color means that the cost depends more on the node.

# %%
viz.mirror(C, style="full", feeds={X: x, T: t})

# %% [markdown]
# ## Forward mode: the R-operator
#
# Let the weights move from `w` in the direction `v`. How fast does each node change? `R{y}` denotes the rate of change
# of `y`, its tangent. The rules are those of calculus:
#
# ```
# R{a + b}  = R{a} + R{b}
# R{a b}    = R{a} b + a R{b}
# R{tanh a} = (1 − tanh² a) R{a}
# ```
#
# By hand: let `y = a b` at `a = 2`, `b = 3`, with `R{a} = 1` and `R{b} = 10`. Then `R{y} = 1 · 3 + 2 · 10 = 23`.
#
# `gn.rop` follows the arrows and applies the rule `rop` of each op. PyTorch and JAX call the result `jvp`.

# %%
v = gn.input(w.shape, "float64", name="v")
(ry,) = gn.rop(Y, {w: v})
viz.draw(tidy([ry]))

# %% [markdown]
# `v` takes the same path as `w`: it is multiplied by `X`, and then by the slope of tanh.
#
# The *Jacobian* is the matrix of all derivatives of the outputs, `J[i, k] = ∂Y[i] / ∂w[k]`; here it is 4 × 2. Forward
# mode and backward mode are the two ways to multiply by it:
#
# | | direction | result | with a unit vector |
# |---|---|---|---|
# | `gn.rop(Y, {w: v})` | forward | `J v`, the change of all outputs along `v` | a column of `J`, for one weight |
# | `gn.backward({Y: u}, [w])` | backward | `Jᵀ u`, the derivative of `uᵀ Y` | a row of `J`, for one output |
#
# A cost is a single output. So one backward pass computes its whole gradient, for two weights or two million.

# %%
u = gn.input(Y.shape, "float64", name="u")
jv = gn.compile([ry], inputs=[X, v])
jtu = gn.compile(gn.backward({Y: u}, [w]), inputs=[X, u])

columns = np.hstack([jv(x, unit[:, None])[0] for unit in np.eye(2)])
rows = np.hstack([jtu(x, unit[:, None])[0] for unit in np.eye(4)]).T
print(columns, np.abs(columns - rows).max(), sep="\n")

# %% [markdown]
# ## Multiply by the Hessian
#
# The *Hessian* contains the second derivatives of the cost, `H[i, k] = ∂²C / ∂w[i] ∂w[k]`. For a million weights it
# has 10¹² entries, too many to store. But most algorithms need only products `H v`. A product is the change of the
# gradient along `v`, which is `R{∂C/∂w}` (Pearlmutter 1994). The gradient is a graph of ordinary nodes, and all their
# ops have a rule `rop`. So apply `gn.rop` to the gradient:

# %%
(hv,) = gn.rop(g, {w: v})  # gn.hessian_product(C, {w: v}) does the same
viz.draw(tidy([hv]))

# %% [markdown]
# No op has a rule for second derivatives; first derivatives are enough. The picture has two terms before the last
# product, because both `2 (Y − T)` and `1 − Y²` depend on `w` (product rule). Compare the result with finite
# differences of the gradient:

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
# ## Multiply by the Gauss–Newton matrix
#
# The eigenvalues of `H` are the curvatures of the cost along two perpendicular directions, the eigenvectors:

# %%
print(np.linalg.eigvalsh(H))

# %% [markdown]
# One eigenvalue is negative: along its direction the cost curves downward, as on a saddle. Newton's method jumps to
# the minimum of the quadratic model, but this model has no minimum. To see the cause of the negative eigenvalue,
# differentiate `C = Σ (Y − T)²` twice:
#
# ```
# H = Jᵀ 2 J  +  Σ 2 (Y − T) ∂²Y/∂w²
# ```
#
# The first term is never negative. Only the second term can be negative. It is small where the network fits the targets
# (`Y ≈ T`). Elsewhere it can make the curvature negative. Without the second term, you get the *Gauss–Newton matrix*
# `G = Jᵀ H_L J`. `H_L` is the Hessian of the loss with respect to the outputs of the network; here it is 2.
#
# A product with `G` has three steps, and none of them computes a matrix:
#
# 1. forward from `v` to the outputs: `J v`
# 2. multiply by `H_L`
# 3. backward to the weights: `Jᵀ`

# %%
(gv,) = gn.gauss_newton_product(C, {w: v})
viz.draw(tidy([gv]))

# %%
gauss_newton_times = gn.compile([gv], inputs=[X, v])
G = np.hstack([gauss_newton_times(x, unit[:, None])[0] for unit in np.eye(2)])
print(G, np.abs(G - columns.T @ (2 * columns)).max(), np.linalg.eigvalsh(G), sep="\n")

# %% [markdown]
# The picture does not contain `T`: the Gauss–Newton matrix of a squared error does not depend on the targets.
#
# ## Plot Newton and Gauss–Newton steps
#
# Each matrix gives a quadratic model of the cost. Its minimum (or saddle point) is `w − H⁻¹ g` or `w − G⁻¹ g`. Plot
# these steps on the cost:

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
for name, matrix, color in [
    ("Newton, −H⁻¹ g", H, "#D55E00"),
    ("Gauss-Newton, −G⁻¹ g", G, "#0072B2"),
    ("damped, −(G + I)⁻¹ g", G + np.eye(2), "#009E73"),
]:
    jump = -np.linalg.solve(matrix, slope)
    w.value = here + jump[:, None]
    print(f"{name:22} cost {cost(x, t)[0]:.2f}")
    axes.annotate("", start + jump, start, arrowprops={"arrowstyle": "->", "color": color, "lw": 2})
    axes.plot([], [], color=color, lw=2, label=name)
w.value = here
print(f"before                 cost {cost(x, t)[0]:.2f}")
axes.plot(*start, "ko")
axes.legend(loc="upper left")
axes.set_xlabel("w₁")
axes.set_ylabel("w₂")
axes.grid(alpha=0.3)

# %% [markdown]
# Newton's method increases the cost: with negative curvature, the stationary point of the quadratic model is a saddle.
# The Gauss–Newton step goes downhill, but too far, because its model is accurate only near the start. Damping adds a
# multiple of the identity matrix and so shortens the step. [Tutorial 8](08_hessian_free_from_scratch.py) shows how to
# choose the damping λ, and how to solve `(G + λ I) d = −g` with products only.
#
# ## Compare the cost of derivatives
#
# Count the nodes of each graph, as written and after `compile`:

# %%
for name, nodes in {"cost": [C], "gradient": [g], "Jv": [ry], "Hv": [hv], "Gv": [gv]}.items():
    print(f"{name:10}{len(gn.Graph(nodes)):4}{len(tidy(nodes).graph):4}")

# %% [markdown]
# Each derivative has a few times as many nodes as the cost. This factor does not depend on the number of weights.
#
# ## Common errors
#
# `gn.gradient` differentiates a scalar. For an output with several numbers, it raises an error:

# %%
try:
    gn.gradient(Y, [w])
except gn.DifferentiationError as error:
    print(error)

# %% [markdown]
# For a product with `G`, graphnet must find where the network ends and the loss begins. Loss ops mark this place. A
# weight may also affect the cost by another path, such as a penalty on large weights. Without this path, the product
# would be wrong, so graphnet raises an error:

# %%
try:
    gn.gauss_newton_product(C + 0.1 * gn.sum(w**2), {w: v})
except gn.DifferentiationError as error:
    print(error)

# %% [markdown]
# ### Exercise 1
# Let `y = a² b` at `a = 2`, `b = 3`, with `R{a} = 1` and `R{b} = −1`. What is `R{y}`?

# %%
answer_1 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(1, answer_1, solution=8, wrong=[16, 12, -4, 11], hint="R{y} = 2 a b R{a} + a² R{b}.")

# %% [markdown]
# ### Exercise 2
# The cost is `C = w₁² + 3 w₁ w₂`. What is `H v` for `v = (1, 2)`? (You do not need `w`. Why?)

# %%
answer_2 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    2,
    answer_2,
    solution=[8, 3],
    wrong=[[2, 3], [7, 3], [5, 3], [3, 8]],
    hint="The gradient is (2 w₁ + 3 w₂, 3 w₁). It is linear in w, so its change along v does not depend on w.",
)

# %% [markdown]
# ### Exercise 3
# Write a function of a cost, a node `w`, and a direction `v` (an array or a node of the shape of `w`). It returns a
# node: the curvature of the cost along `v`, which is `vᵀ H v`. Replace the dots with the function.

# %%
answer_3 = ...


# %% tags=["hide-input"] jupyter={"source_hidden": true}
def curvature(cost, w, v):
    (product,) = gn.hessian_product(cost, {w: v})
    return gn.sum(product * v)


def is_curvature(function):
    z = gn.parameter([1.0, -2.0, 3.0], name="z")
    direction = np.array([1.0, 0.5, -1.0])
    quartic = gn.sum(z**4) + z[0] * z[1]  # H is diag(12 z²), plus 1 at (z₁, z₂) and (z₂, z₁)
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
    hint="gn.hessian_product returns a list of one node. Multiply this node by v, and sum.",
)

# %% [markdown]
# The pictures were simple because compiler passes had simplified the graphs.
# [Tutorial 4](04_what_the_optimizer_does.py) shows these passes.
