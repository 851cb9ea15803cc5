# %% [markdown]
# # 8 · Gauss–Newton and Hessian-free, from scratch
#
# *Reading time: 15 minutes.* You will build Hessian-free optimization in forty lines, and train a recurrent net with
# it. It helps to know gradients and the R-operator ([tutorial 3](03_derivatives_are_graphs.py)).
#
# A gradient tells which way is down. It does not tell how far to go: that is what curvature is for. Three parts, each
# checked by hand: products with the curvature, conjugate gradient, damping.

# %%
import matplotlib.pyplot as plt
import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
import viz

from exercises import check

plt.style.use("tableau-colorblind10")

# %% [markdown]
# ## Why curvature
#
# Take a long valley, `C(x, y) = ½ (100 x² + y²)`, and stand at `(1, 1)`. The gradient is `(100, 1)`. Descent with
# rate `ε` multiplies `x` by `1 - 100 ε` and `y` by `1 - ε` at each step. For `x` not to explode, `ε < 0.02`; but then
# `y` loses less than 2 % a step. The steep direction dictates the rate, the flat one waits.
#
# Newton divides each part of the gradient by its own curvature, 100/100 and 1/1: the step is `(-1, -1)`, and we are
# there at once.

# %%
point = np.array([1.0, 1.0])
for step in range(1, 101):
    point = point - 0.019 * np.array([100, 1]) * point
    if step in (1, 2, 10, 100):
        print(f"gradient descent, step {step:3d}: x = {point[0]:+.5f}   y = {point[1]:+.5f}")
print("Newton, step 1:", np.array([1.0, 1.0]) - np.array([100, 1]) / np.array([100, 1]))

# %% [markdown]
# For a net the curvature is a matrix with a row and a column for each weight. A million weights would make 10¹²
# numbers. Hessian-free optimization never makes it; all it needs is **the matrix times a vector**.
#
# ## The Gauss–Newton matrix, by hand
#
# Our example is Rosenbrock's valley, a famous trap, written as two residuals:
#
# ```
# r(x, y) = (1 - x, 10 (y - x²))      C = r₁² + r₂²      J = ∂r/∂(x, y) = |  -1    0 |
#                                                                        | -20x  10 |
# ```
#
# Gauss's idea: near a point, take the *residuals* to be linear, `r(θ + δ) ≈ r + Jδ`. Then
#
# ```
# C(θ + δ) ≈ |r + Jδ|² = C + gᵀδ + ½ δᵀGδ      with   g = 2 Jᵀr   and   G = 2 JᵀJ
# ```
#
# `G` is the **Gauss–Newton matrix**. It takes no second derivatives, and it never curves downwards
# (`vᵀ G v = 2 |Jv|² ≥ 0`), so the model always has a lowest point. At the classical start `(-1.2, 1)`:
#
# ```
# r = (2.2, -4.4)      J = | -1   0 |
# C = 24.2                 | 24  10 |
#
# g = (-215.6, -88)    G = | 1154  480 |
#                          |  480  200 |
# ```
#
# ## The same with nodes
#
# `gn.rop` pushes a direction forward, `Jv`; `gn.backward` pulls a cotangent back, `Jᵀu`. Neither makes `J`. One after
# the other, with the 2 of the loss between them, they are `Gv`:

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
# The columns of `J` and of `G`, as on paper. For other losses than the squared error the 2 becomes `H_L`, the Hessian
# of the loss with respect to the net's *outputs*: `G = Jᵀ H_L J` (exercise 1 below). The library has the whole as one
# function, which finds the loss in the graph:

# %%
(library,) = gn.gauss_newton_product(cost, {theta: v})
print(gn.compile([library], inputs=[v])(np.array([1.0, 0.0]))[0])

# %% [markdown]
# ## Conjugate gradient, in 15 lines
#
# The lowest point of the model solves `G δ = -g`. With products alone, it is found by **conjugate gradient**. Like
# descent, it goes from minimum to minimum along lines; but each new direction `p` is *conjugate* to the old ones,
# `pᵀ A p_old = 0`, which means that what was won along them is not lost again. With `n` unknowns it is done after `n`
# steps (but for rounding), and it is nearly done much earlier when few directions matter.


# %%
def conjugate_gradient(product, b, steps):
    """x with A x = b, or nearly so, from at most `steps` products v ↦ A v."""
    x = np.zeros_like(b)
    residual = b.copy()  # b - A x
    p = residual.copy()
    for _ in range(steps):
        if residual @ residual <= 1e-20 * (b @ b):
            break
        Ap = product(p)
        alpha = (residual @ residual) / (p @ Ap)  # to the minimum along p
        x = x + alpha * p
        new = residual - alpha * Ap
        p = new + (new @ new) / (residual @ residual) * p  # conjugate to all p before
        residual = new
    return x


# %% [markdown]
# By hand, for `A = [[2, 0], [0, 1]]` and `b = (2, 2)`, whose solution is `(1, 2)`. First `p = b`, `Ap = (4, 2)`,
# `α = 8/12 = 2/3`, `x = (1.33, 1.33)`. Then the residual is `(-0.67, 0.67)`, and the direction
# `p = (-0.67, 0.67) + 0.89/8 · (2, 2) = (-0.44, 0.89)`. Check: `pᵀ A b = -0.44 · 4 + 0.89 · 2 = 0`.

# %%
A, b = np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([2.0, 2.0])
for steps in (1, 2):
    print(f"after {steps} step(s):", conjugate_gradient(lambda p: A @ p, b, steps))

# %% [markdown]
# ## The full step, and why it fails
#
# Now solve `Gδ = -g` at `(-1.2, 1)`. The model promises that both residuals vanish, `C = 0`. An `rnn.Objective` wraps
# cost, gradient and products as functions of one flat vector:

# %%
objective = rnn.Objective(cost, [theta])
start = np.array([-1.2, 1.0])
loss, g = objective.gradient(start)
G = objective.curvature(start)  # v ↦ Gv at this point
delta = conjugate_gradient(G, -g, steps=10)
print(f"to {(start + delta).round(3)}: the cost goes from {loss:.1f} to {objective.loss(start + delta):.1f}")

# %% [markdown]
# A hundred times *worse*. `x` is right at once, but `y` was moved along the slope that the valley had at the start,
# as if it went straight on. The model is good nearby, and we went where it is not.
#
# The remedy is **damping**: make long steps expensive, `(G + λ I) δ = -g`.

# %%
for damping in (0, 1, 10, 100, 1000):
    delta = conjugate_gradient(lambda p, d=damping: G(p) + d * p, -g, steps=10)
    print(f"λ = {damping:4d}: |δ| = {np.linalg.norm(delta):.3f}, cost {objective.loss(start + delta):8.2f}")

# %% [markdown]
# Small λ: Newton's bold step. Large λ: a short step along the gradient, `-g/λ`. Which λ is right changes on the way,
# so let it follow from how well the model predicts. Levenberg and Marquardt's rule looks at
#
# ```
# ρ = (C(θ + δ) - C(θ)) / (what the model said that this would be)
#
# ρ < 1/4:  λ × 3/2            ρ > 3/4:  λ × 2/3
# ```
#
# and a step that makes the cost worse is not taken. With that, here is the whole optimizer.


# %%
def hessian_free(objective, theta, steps, damping, cg_steps=30):
    """The points on the way; one row of what happened for each step."""
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
# On the map, beside three thousand steps of gradient descent:

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
axes.plot(1, 1, "*", color="black", markersize=14, label="the minimum")
axes.set(xlabel="x", ylabel="y")
axes.legend(frameon=False, loc="upper center")
axes.grid(alpha=0)

# %% [markdown]
# It follows the bent valley in a few long steps, and near the end, where the model is right, it takes Newton's.
#
# ## A recurrent net
#
# Nothing in `hessian_free` knows how many weights there are. Give it a net of 20 tanh units and the *addition
# problem*: random numbers go by for twenty steps and a little more, two of them are marked, and at the end the net
# has to say their mean. The far mark is some twenty steps back. `rnn.tasks` has the problem; the cost is that of the
# last step.

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
# The library's is the same algorithm with what experience has added, each a line or two: conjugate gradient starts
# from the last step and ends where the model hardly falls; of its iterates the best on the *true* loss is taken; a
# line search shortens what still fails. (`help(rnn.HessianFree)` says which setting does what.)
#
# A step costs as much as its products. Counted fairly, in passes through the net (a product takes about as long as
# one to two gradients):

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
    "always the mean answer",
    ha="right",
    va="bottom",
    color="#666666",
    fontsize=9,
)
axes.set(xlabel="gradients and products", ylabel="loss", ylim=(1e-5, 3))
axes.legend(frameon=False, loc="lower left")
axes.grid(alpha=0.3)

# %% [markdown]
# At this distance Adam, with a rate that suits it, is not far behind. Hessian-free had no rate to be tuned, and it
# lasts: on the problems with 100 and 200 steps, the ones with which it became famous, first-order methods need very
# careful initial weights and schedules (`benchmarks/RESULTS.md` has runs of both).
#
# ## The flight recorder
#
# A run tells more than its loss. `viz.flight_recorder` draws what every step reported; ours gave four numbers a step,
# the library's gives them all.

# %%
viz.flight_recorder(
    [{"event": "step", "step": k, **report.row()} for k, report in enumerate(library.reports)]
)

# %% [markdown]
# How to read it: **ρ** near 1 means that the model predicts well, and then **λ** falls. A row of ρ below 1/4 with
# growing λ means that steps are too long for the model. |δ| says how far a step went, |g| how steep it was. If CG
# always stops at its limit, allow it more steps. The curves at the right are φ, the model's own value, during CG:
# where they are flat at the end, more steps would not have helped.
#
# ## What can go wrong
#
# - **No damping.** See above: the full step may be a hundred times worse than none.
# - **`pᵀAp ≤ 0`.** With the true Hessian instead of `G`, the model may have no lowest point, and `alpha` turns
#   negative: conjugate gradient then climbs. This is why `G` is used.
# - **Another batch for each product.** CG assumes *one* matrix. Within a step the sequences (and the dropout masks)
#   must stay the same. Between steps they may change.
# - **float32.** Sums of squares over a million weights lose digits. Products may be float32, but let CG count in
#   float64, as we did with `astype`.
#
# ## Exercises
#
# ### Exercise 1
#
# Write `product(cost, logits, parameter, v)`, which returns the node `Gv` for the *softmax cross-entropy* of one
# case, `cost = -log p_k`, with what you know: push `v` forward to the logits; multiply by `H_L`; pull back. For
# softmax, `H_L u = p ⊙ u - p (p · u)`, with `p` = `gn.softmax(logits)`; the dot product is `gn.sum(p * u)`. You do
# not need `gn.gauss_newton_product`.

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
    hint="(u,) = gn.rop([logits], {parameter: v}), then gn.backward({logits: H_L u}, [parameter])[0].",
)

# %% [markdown]
# ### Exercise 2
#
# At `(-1.2, 1)` and without damping the step went to `x = 1`, but to which `y`? Take the second residual as linear,
# `r₂ + J₂₁ δ_x + J₂₂ δ_y = 0` with `δ_x = 2.2`, and find `y = 1 + δ_y` on paper.

# %%
answer_2 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    2,
    answer_2,
    solution=-3.84,
    wrong=[1.0, -4.84, 3.84, 6.72, 5.84],
    hint="-4.4 + 24 · 2.2 + 10 δ_y = 0. And do not forget to add where you started.",
)

# %% [markdown]
# ### Exercise 3
#
# The rule for λ, made safe. Write `next_damping(ratio, damping)`: × 3/2 below 1/4, × 2/3 above 3/4, else as it is. A
# step into overflow gives ρ = NaN, and then the damping must *grow*. (Every comparison with NaN is false: which way
# round must you ask?)

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
    hint="Not `ratio < 1/4`, which NaN is not, but `not ratio >= 1/4`.",
)

# %% [markdown]
# Sources: Martens 2010 (Hessian-free optimization of nets); Schraudolph 2002 (the product Gv); Hestenes & Stiefel
# 1952 (conjugate gradient); Martens & Sutskever 2011, Sutskever 2013, ch. 4 and Krause 2015, ch. 3 (recurrent nets,
# structural damping). [docs/second_order.md](../docs/second_order.md) goes on from here.
