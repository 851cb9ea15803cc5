# %% [markdown]
# # 8 · Gauss–Newton and Hessian-free optimization from scratch
#
# *Reading time: 15 minutes.* After this lesson you can write a Hessian-free optimizer in forty lines, and train a
# recurrent network with it. You need gradients and the R-operator ([tutorial 3](03_derivatives_are_graphs.py)).
#
# The gradient gives the direction of a step. Curvature gives its length. The lesson has three parts: products with the
# curvature, conjugate gradient, and damping. You check each by hand.

# %%
import matplotlib.pyplot as plt
import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
import viz

from exercises import check

plt.style.use("tableau-colorblind10")

# %% [markdown]
# ## Why use curvature
#
# Take a long valley, `C(x, y) = ½ (100 x² + y²)`, and start at `(1, 1)`. The gradient is `(100, 1)`. A step of
# gradient descent with learning rate `ε` multiplies `x` by `1 - 100 ε` and `y` by `1 - ε`. For `x` to converge, `ε`
# must be below 0.02. But then `y` shrinks by less than 2 % per step. The steep direction limits the learning rate, and
# the flat direction is slow.
#
# Newton's method divides each component of the gradient by its curvature, 100/100 and 1/1. The step is `(-1, -1)`, and
# reaches the minimum at once.

# %%
point = np.array([1.0, 1.0])
for step in range(1, 101):
    point = point - 0.019 * np.array([100, 1]) * point
    if step in (1, 2, 10, 100):
        print(f"gradient descent, step {step:3d}: x = {point[0]:+.5f}   y = {point[1]:+.5f}")
print("Newton, step 1:", np.array([1.0, 1.0]) - np.array([100, 1]) / np.array([100, 1]))

# %% [markdown]
# For a network, the curvature is a matrix with one row and one column for each weight. With a million weights it has
# 10¹² entries. Hessian-free optimization never computes this matrix. It needs only products of **the matrix with a
# vector**.
#
# ## Compute the Gauss–Newton matrix by hand
#
# The example is Rosenbrock's function, a standard test for optimizers. Write it as two residuals:
#
# ```
# r(x, y) = (1 - x, 10 (y - x²))      C = r₁² + r₂²      J = ∂r/∂(x, y) = |  -1    0 |
#                                                                        | -20x  10 |
# ```
#
# Gauss's idea is to make the *residuals* linear near a point, `r(θ + δ) ≈ r + Jδ`. Then the cost becomes a quadratic
# model:
#
# ```
# C(θ + δ) ≈ |r + Jδ|² = C + gᵀδ + ½ δᵀGδ      with   g = 2 Jᵀr   and   G = 2 JᵀJ
# ```
#
# `G` is the **Gauss–Newton matrix**. It needs no second derivatives. It has no negative curvature
# (`vᵀ G v = 2 |Jv|² ≥ 0`), so the model always has a minimum. At the usual start `(-1.2, 1)`:
#
# ```
# r = (2.2, -4.4)      J = | -1   0 |
# C = 24.2                 | 24  10 |
#
# g = (-215.6, -88)    G = | 1154  480 |
#                          |  480  200 |
# ```
#
# ## Compute Gauss–Newton products with graphnet
#
# `gn.rop` multiplies a direction by the Jacobian, `Jv` (forward). `gn.backward` multiplies a cotangent by its
# transpose, `Jᵀu` (backward). Neither computes `J`. To compute `Gv`, apply one after the other, with the factor 2 of
# the loss in between:

# %%
theta = gn.parameter(np.array([-1.2, 1.0]), name="θ")
residuals = gn.stack([1 - theta[0], 10 * (theta[1] - theta[0] ** 2)])
cost = gn.sum(gn.squared_error(residuals, np.zeros(2)))

v = gn.input((2,), "float64", name="v")
(Jv,) = gn.rop([residuals], {theta: v})
(Gv,) = gn.backward({residuals: 2 * Jv}, [theta])
function = gn.compile([cost, *gn.gradient(cost, [theta]), Jv, Gv], inputs=[v])

for direction in ([1.0, 0.0], [0.0, 1.0]):
    C, g, forward, product = function(np.array(direction))
    print(f"C = {C:.1f}  g = {g}   v = {direction}:  Jv = {forward}  Gv = {product}")

# %% [markdown]
# The products are the columns of `J` and `G` from above. For other losses than the squared error, replace the factor 2
# with `H_L`, the Hessian of the loss with respect to the *outputs* of the network: `G = Jᵀ H_L J` (exercise 1 below).
# `gn.gauss_newton_product` does all of this. It finds the loss in the graph:

# %%
(library,) = gn.gauss_newton_product(cost, {theta: v})
print(gn.compile([library], inputs=[v])(np.array([1.0, 0.0]))[0])

# %% [markdown]
# ## Write conjugate gradient in 15 lines
#
# The minimum of the quadratic model solves `G δ = -g`. **Conjugate gradient** (CG) solves this equation with products
# only. Like gradient descent, it minimizes along one direction after another. But each new direction `p` is *conjugate*
# to the previous ones, `pᵀ A p_old = 0`. So a step along `p` does not undo the previous minimizations. For `n`
# unknowns, CG finishes after `n` steps (up to rounding). If only a few directions are important, CG is close to the
# solution much earlier.


# %%
def conjugate_gradient(product, b, steps):
    """Approximate solution x of A x = b, from at most `steps` products v ↦ A v."""
    x = np.zeros_like(b)
    residual = b.copy()  # b - A x
    p = residual.copy()
    for _ in range(steps):
        if residual @ residual <= 1e-20 * (b @ b):
            break
        Ap = product(p)
        alpha = (residual @ residual) / (p @ Ap)  # step length to the minimum along p
        x = x + alpha * p
        new = residual - alpha * Ap
        p = new + (new @ new) / (residual @ residual) * p  # conjugate to all previous p
        residual = new
    return x


# %% [markdown]
# By hand, take `A = [[2, 0], [0, 1]]` and `b = (2, 2)`. The solution is `(1, 2)`.
#
# - Step 1: `p = b`, `Ap = (4, 2)`, `α = 8/12 = 2/3`, `x = (1.33, 1.33)`.
# - The residual is `(-0.67, 0.67)`. The new direction is `p = (-0.67, 0.67) + 0.89/8 · (2, 2) = (-0.44, 0.89)`.
# - Check that it is conjugate: `pᵀ A b = -0.44 · 4 + 0.89 · 2 = 0`.

# %%
A, b = np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([2.0, 2.0])
for steps in (1, 2):
    print(f"after {steps} step(s):", conjugate_gradient(lambda p: A @ p, b, steps))

# %% [markdown]
# ## Take the full Gauss–Newton step
#
# Solve `Gδ = -g` at `(-1.2, 1)`. The model predicts that both residuals become 0, so `C = 0`. `rnn.Objective` provides
# the cost, the gradient and the products as functions of one flat vector:

# %%
objective = rnn.Objective(cost, [theta])
start = np.array([-1.2, 1.0])
loss, g = objective.gradient(start)
G = objective.curvature(start)  # v ↦ Gv at this point
delta = conjugate_gradient(G, -g, steps=10)
print(f"step to {(start + delta).round(3)}: cost from {loss:.1f} to {objective.loss(start + delta):.1f}")

# %% [markdown]
# The cost is a hundred times *larger*. `x` is correct after one step, but `y` is not: the valley is curved, and the
# linear model of the residuals assumes that it is straight. The model is accurate only near the start, and the step was
# too long.
#
# ## Damp the step
#
# **Damping** penalizes long steps. Solve `(G + λ I) δ = -g`:

# %%
for damping in (0, 1, 10, 100, 1000):
    delta = conjugate_gradient(lambda p, d=damping: G(p) + d * p, -g, steps=10)
    print(f"λ = {damping:4d}: |δ| = {np.linalg.norm(delta):.3f}, cost {objective.loss(start + delta):8.2f}")

# %% [markdown]
# With a small λ you get the Gauss–Newton step. With a large λ you get a short step along the gradient, `-g/λ`. The
# best λ changes during training. The rule of Levenberg and Marquardt adapts it to the accuracy of the model. It uses
# the reduction ratio
#
# ```
# ρ = (C(θ + δ) - C(θ)) / (the change that the model predicts)
#
# ρ < 1/4:  λ × 3/2            ρ > 3/4:  λ × 2/3
# ```
#
# A step that increases the cost is rejected. This is the whole optimizer:


# %%
def hessian_free(objective, theta, steps, damping, cg_steps=30):
    """The parameters after each step, and one row of measurements per step."""
    path, rows = [theta], []
    for step in range(steps):
        loss, g = objective.gradient(theta)
        G = objective.curvature(theta)

        def damped(p, G=G, damping=damping):
            return G(p) + damping * p

        delta = conjugate_gradient(damped, -g.astype("float64"), cg_steps)
        after = objective.loss(theta + delta)
        predicted = g @ delta + 0.5 * delta @ damped(delta)
        ratio = (after - loss) / predicted if predicted else 0.0
        rows.append({"step": step, "before": loss, "after": after, "ratio": ratio, "damping": damping})
        damping *= 3 / 2 if ratio < 1 / 4 else 2 / 3 if ratio > 3 / 4 else 1
        if after < loss:
            theta = (theta + delta).astype(theta.dtype)
        path.append(theta)
    return np.array(path), rows


path, rows = hessian_free(objective, start, steps=25, damping=1.0)
for row in rows[:6]:
    print("step {step}: cost {before:8.4f} -> {after:8.4f}   ρ {ratio:+.2f}   λ {damping:.2f}".format(**row))
print(f"... step 25: cost {rows[-1]['after']:.1e}, at {path[-1].round(6)}")

# %% [markdown]
# Plot its path, with 3,000 steps of gradient descent for comparison:

# %%
descent = [start]
for _ in range(3000):
    descent.append(descent[-1] - 0.001 * objective.gradient(descent[-1])[1])
descent = np.array(descent)

xs, ys = np.meshgrid(np.linspace(-1.7, 1.5, 200), np.linspace(-0.7, 2, 200))
figure, axes = plt.subplots(figsize=(7, 4.6), layout="constrained")
axes.contour(
    xs, ys, np.log10((1 - xs) ** 2 + 100 * (ys - xs**2) ** 2 + 1e-3), 14, colors="#cccccc", linewidths=0.8
)
axes.plot(*descent.T, color="C1", linewidth=3, label="gradient descent, 3,000 steps")
axes.plot(*path.T, "o-", color="C0", markersize=5, linewidth=1.2, label="ours, 25 steps")
axes.plot(1, 1, "*", color="black", markersize=14, label="minimum")
axes.set(xlabel="x", ylabel="y")
axes.legend(frameon=False, loc="upper center")
axes.grid(alpha=0)

# %% [markdown]
# The optimizer follows the curved valley in a few long steps. Near the end, where the model is accurate, it takes full
# Gauss–Newton steps.
#
# ## Train a recurrent network
#
# `hessian_free` works for any number of weights. Use it for a network of 20 tanh units on the *addition problem*: the
# network reads random numbers for a little more than twenty steps. Two of the numbers are marked. At the end, the
# network must return their mean. The first mark may be about twenty steps back. `rnn.tasks` contains the problem. The
# cost is the loss at the last step.

# %%
task = rnn.tasks.TASKS["addition"](20)
inputs, targets = task.batch(np.random.default_rng(0), 200)


def problem():
    net = rnn.Network([rnn.Elman(20)], task.inputs, task.outputs, loss=task.loss, reads=task.reads, seed=1)
    objective = rnn.tasks.summed_over_time(task, net, 200)
    objective.feed(inputs, targets)
    return net, objective


net, objective = problem()
print(net)
_, ours = hessian_free(objective, net.theta.copy(), steps=30, damping=0.1)

net, objective = problem()
library = rnn.minimize(objective, rnn.HessianFree(damping=0.1, cg_steps=30), steps=30)

_, other = problem()
adam = rnn.minimize(other, rnn.Adam(rate=0.01), steps=1000)

for name, losses in (
    ("ours", [row["after"] for row in ours]),
    ("rnn.HessianFree", [report.after for report in library.reports]),
):
    print(f"{name:<16}", "  ".join(f"step {k}: {losses[k - 1]:.5f}" for k in (1, 10, 20, 30)))
print("rnn.Adam        ", "  ".join(f"step {k}: {adam.reports[k - 1].loss:.5f}" for k in (30, 300, 1000)))

# %% [markdown]
# `rnn.HessianFree` is the same algorithm with some additions: CG starts from the previous step, and stops when the
# quadratic model hardly decreases any more. From the iterates of CG, it takes the one with the smallest *true* loss. If
# the loss still increases, a line search shortens the step. (`help(rnn.HessianFree)` lists the settings.)
#
# ## Compare with Adam
#
# A step of Hessian-free optimization needs many products. For a fair comparison, count gradients and products. (One
# product takes about as long as one to two gradients.)

# %%
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
passes = np.cumsum([report.products + 1 for report in library.reports])
axes.semilogy(
    passes,
    [report.after for report in library.reports],
    "o-",
    markersize=4,
    label="rnn.HessianFree, 30 steps",
)
axes.semilogy([report.loss for report in adam.reports], linewidth=1, label="rnn.Adam(0.01), 1,000 steps")
axes.axhline(targets[-1].var(), color="#999999", linewidth=0.8, linestyle=":")
axes.text(
    1000,
    targets[-1].var() * 1.1,
    "constant output (the mean)",
    ha="right",
    va="bottom",
    color="#666666",
    fontsize=9,
)
axes.set(xlabel="number of gradients and products", ylabel="loss", ylim=(1e-5, 3))
axes.legend(frameon=False, loc="lower left")
axes.grid(alpha=0.3)

# %% [markdown]
# At this distance, Adam with a suitable learning rate is almost as good. Hessian-free optimization needs no learning
# rate, and it also works over longer distances. It became known for solving such problems with 100 and 200 steps.
# There, first-order methods need very careful initial weights and schedules (`benchmarks/RESULTS.md` lists runs of
# both).
#
# ## Plot the report of each step
#
# `viz.flight_recorder` plots the measurements of each optimizer step:

# %%
viz.flight_recorder(
    [{"event": "step", "step": k, **report.row()} for k, report in enumerate(library.reports)]
)

# %% [markdown]
# How to read the plot:
#
# - **ρ** near 1 means that the model predicts well. Then **λ** falls.
# - If ρ remains below 1/4 while λ grows, the steps are too long for the model.
# - |δ| is the length of a step, |g| the norm of the gradient.
# - If CG always stops at its limit, increase `cg_steps`.
# - The curves on the right show φ, the value of the quadratic model, during CG. If they are flat at the end, more CG
#   steps would not help.
#
# ## Common errors
#
# - **No damping.** The full step can increase the cost a hundred times, as above.
# - **`pᵀAp ≤ 0`.** With the true Hessian instead of `G`, the model may have no minimum. Then `alpha` is negative and
#   CG goes uphill. This is why Hessian-free optimization uses `G`.
# - **A different batch for each product.** CG assumes a *constant* matrix. Within a step, keep the sequences (and the
#   dropout masks) the same. Between steps they may change.
# - **float32.** Sums of squares over a million weights lose digits. The products can be float32, but compute the sums
#   of CG in float64, as with `astype` above.
#
# ## Exercises
#
# ### Exercise 1
#
# Write `product(cost, logits, parameter, v)` for the *softmax cross-entropy* of one case, `cost = -log p_k`. It
# returns the node `Gv`. Compute the three steps: `gn.rop` to the logits, multiplication by `H_L`, `gn.backward`. For
# softmax, `H_L u = p ⊙ u - p (p · u)` with `p = gn.softmax(logits)`; the dot product is `gn.sum(p * u)`. Do not use
# `gn.gauss_newton_product`.

# %%
answer_1 = ...


# %% tags=["hide-input"] jupyter={"source_hidden": true}
def gauss_newton(cost, logits, parameter, v):
    (u,) = gn.rop([logits], {parameter: v})
    p = gn.softmax(logits)
    return gn.backward({logits: p * u - p * gn.sum(p * u)}, [parameter])[0]


def without_hessian(cost, logits, parameter, v):
    (u,) = gn.rop([logits], {parameter: v})
    return gn.backward({logits: u}, [parameter])[0]


def only_diagonal(cost, logits, parameter, v):
    (u,) = gn.rop([logits], {parameter: v})
    p = gn.softmax(logits)
    return gn.backward({logits: p * u}, [parameter])[0]


def full_hessian(cost, logits, parameter, v):
    return gn.hessian_product(cost, {parameter: v})[0]


def is_product(product):
    generator = np.random.default_rng(0)
    W, x = gn.parameter(generator.standard_normal((3, 4)), name="W"), generator.standard_normal(3)
    logits = gn.tanh(gn.constant(x) @ W) * 2
    cost = gn.softmax_cross_entropy(logits, np.eye(4)[1])
    v = gn.input((3, 4), "float64", name="v")
    ours, theirs = gn.compile(
        [product(cost, logits, W, v), *gn.gauss_newton_product(cost, {W: v})], inputs=[v]
    )(generator.standard_normal((3, 4)))
    return np.allclose(ours, theirs)


check(
    1,
    answer_1,
    solution=gauss_newton,
    wrong=[without_hessian, only_diagonal, full_hessian],
    right=is_product,
    hint="Compute (u,) = gn.rop([logits], {parameter: v}), then gn.backward({logits: H_L u}, [parameter])[0].",
)

# %% [markdown]
# ### Exercise 2
#
# At `(-1.2, 1)`, the step without damping leads to `x = 1`. To which `y`? Use the linear model of the second residual,
# `r₂ + J₂₁ δ_x + J₂₂ δ_y = 0` with `δ_x = 2.2`, and compute `y = 1 + δ_y` on paper.

# %%
answer_2 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    2,
    answer_2,
    solution=-3.84,
    wrong=[1.0, -4.84, 3.84, 6.72, 5.84],
    hint="Solve -4.4 + 24 · 2.2 + 10 δ_y = 0. Then add δ_y to the start, y = 1.",
)

# %% [markdown]
# ### Exercise 3
#
# Write `next_damping(ratio, damping)`. It multiplies λ by 3/2 if ρ is below 1/4, by 2/3 if ρ is above 3/4, and
# otherwise returns it unchanged. If a step overflows, ρ is NaN. Then λ must *grow*. (Every comparison with NaN is
# false. How do you write the first condition?)

# %%
answer_3 = ...


# %% tags=["hide-input"] jupyter={"source_hidden": true}
def is_rule(rule):
    expected = {-2.0: 1.5, 0.24: 1.5, 0.25: 1.0, 0.5: 1.0, 0.75: 1.0, 0.76: 2 / 3, 3.0: 2 / 3, np.nan: 1.5}
    return all(np.isclose(rule(ratio, 8.0), 8 * factor) for ratio, factor in expected.items())


check(
    3,
    answer_3,
    solution=lambda r, d: d * (3 / 2 if not r >= 1 / 4 else 2 / 3 if r > 3 / 4 else 1),
    wrong=[
        lambda r, d: d * (3 / 2 if r < 1 / 4 else 2 / 3 if r > 3 / 4 else 1),
        lambda r, d: d * (2 / 3 if not r >= 1 / 4 else 3 / 2 if r > 3 / 4 else 1),
        lambda r, d: d * (2 / 3 if r > 3 / 4 else 3 / 2),
    ],
    right=is_rule,
    hint="`ratio < 1/4` is false for NaN. Write `not ratio >= 1/4`.",
)

# %% [markdown]
# Sources: Martens 2010 (Hessian-free optimization of networks); Schraudolph 2002 (the product Gv); Hestenes & Stiefel
# 1952 (conjugate gradient); Martens & Sutskever 2011, Sutskever 2013, ch. 4 and Krause 2015, ch. 3 (recurrent
# networks, structural damping). Continue with [Hessian-free optimization and L-BFGS](../docs/second_order.md).
