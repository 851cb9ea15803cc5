# %% [markdown]
# # 7 · Vanishing and exploding gradients
#
# *Reading time: 12 minutes.* After this lesson you can explain why gradients vanish or explode over time, plot them
# for any cell, and prevent it with initial weights and gates. You need gradients (tutorial 3) and cells
# ([tutorial 6](06_cells_and_time.py)).
#
# To learn that an input affects a target fifty steps later, a network needs a gradient that reaches back over fifty
# steps. On the way, the gradient may become very small or very large. The lesson also shows how far an LSTM solves this
# problem.

# %%
import matplotlib.pyplot as plt
import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
import viz

from exercises import check

plt.style.use("tableau-colorblind10")

# %% [markdown]
# ## A linear unit: powers of a number
#
# The simplest memory multiplies its state by a number `w` at each step, `hₜ = w hₜ₋₁`. After `k` steps, `hₖ = wᵏ h₀`.
# So
#
# ```
# ∂hₖ/∂h₀ = wᵏ
# ```
#
# Compare three similar values of `w`:

# %%
for w in (0.9, 1.0, 1.1):
    print(f"w = {w}:  w^10 = {w**10:7.3f}   w^50 = {w**50:9.4f}   w^200 = {w**200:.1e}")

# %% [markdown]
# If `w` is below 1, the gradient **vanishes**. If `w` is above 1, it **explodes**. Both are exponential in the number
# of steps. No learning rate corrects this: a rate that suits the last step is wrong by a factor of `w⁵⁰` for a step
# fifty steps before.
#
# ## A tanh unit, by hand
#
# Take a nonlinear unit, `hₜ = tanh(w hₜ₋₁)`. Since `tanh' = 1 - tanh²`, the chain rule gives a factor `w (1 - hₜ²)`
# for each step. Let `w = 1.1`, which is above 1, and `h₀ = 1`:
#
# ```
# h₁ = tanh(1.1)   = 0.800      factor: 1.1 (1 - 0.800²) = 0.395
# h₂ = tanh(0.881) = 0.707      factor: 1.1 (1 - 0.707²) = 0.551
# ∂h₂/∂h₀ = 0.395 · 0.551 = 0.218
# ```
#
# The gradient shrinks, although `w > 1`. Check this with graphnet:

# %%
h0 = gn.input((), "float64", name="h0")
h1 = gn.tanh(1.1 * h0)
h2 = gn.tanh(1.1 * h1)
function = gn.compile([h1, h2, *gn.gradient(h2, [h0])], inputs=[h0])
print([round(float(value), 4) for value in function(1.0)])

# %% [markdown]
# The slope of tanh is at most 1. It is much smaller where the unit is saturated, that is, where its output is near 1
# or −1. So tanh can only reduce a gradient. In a recurrent network of tanh units, small weights or saturation make the
# gradient vanish. Large weights make it explode.
#
# ## A layer: a product of Jacobians
#
# A layer has the equation `hₜ = tanh(xₜ W_xh + hₜ₋₁ W_hh + b_h)`, where the states are rows. Let `gₜ` be the gradient
# of the cost with respect to `hₜ`, also a row. One step back in time, it is
#
# ```
# gₜ₋₁ = (gₜ ⊙ (1 - hₜ²)) W_hhᵀ
# ```
#
# First multiply by the slope of tanh, then by the transposed matrix. (This holds if only the last step has a loss.
# Otherwise the loss of each step adds a term.)
#
# The example has 32 units and 50 steps. `unscored` excludes all steps but the last from the loss.

# %%
TIME, BATCH, UNITS = 50, 8, 32
generator = np.random.default_rng(1)
x = 0.1 * generator.standard_normal((TIME, BATCH, 2)).astype("float32")
target = generator.standard_normal((TIME, BATCH, 1)).astype("float32")


def unrolled(cell):
    net = rnn.Network([cell], inputs=2, outputs=1, loss="squared", seed=3)
    return net.unroll(TIME, BATCH, initial="zero", unscored=TIME - 1)


u = unrolled(rnn.Elman(UNITS, initial={"W_hh": rnn.initializers.orthogonal(0.9)}))
states = [after[0] for after in u.after]  # the nodes h_1 ... h_50
function = gn.compile([*states, *gn.gradient(u.cost, states)], inputs=[u.inputs, u.targets])
values = function(x, target)
h, g = values[:TIME], values[TIME:]

W_hh = u.network.parameters["layer0.W_hh"].value
by_hand = g[-1]  # start at the last step, which has the loss
for t in range(TIME - 1, 0, -1):
    by_hand = (by_hand * (1 - h[t] ** 2)) @ W_hh.T
    if t in (49, 40, 20, 1):
        size, found = np.linalg.norm(by_hand), np.linalg.norm(g[t - 1])
        print(f"{TIME - t:2d} steps back: ‖gradient‖ by hand {size:.6f}, by the graph {found:.6f}")

# %% [markdown]
# Your product of 49 Jacobians equals the gradient of graphnet. After 49 steps back, only half a percent of the norm is
# left.
#
# ## Spectral radius of the recurrent weights
#
# For one unit, `w` decides whether the gradient vanishes. For a matrix, it is the largest absolute value of its
# eigenvalues, the **spectral radius** `ρ`: powers of the matrix grow or shrink like `ρᵏ`.
#
# For the next plot, the initial weights are `ρ` times an orthogonal matrix. Such a matrix multiplies the length of
# each vector by exactly `ρ`, and all its eigenvalues have the absolute value `ρ`.


# %%
def gradient_norms(cell, state=0):
    """‖∂cost/∂state_t‖ for t = 50, 49, ... 1, divided by the first."""
    u = unrolled(cell)
    nodes = [after[state] for after in u.after]
    arrays = gn.compile(gn.gradient(u.cost, nodes), inputs=[u.inputs, u.targets])(x, target)
    norms = np.array([np.linalg.norm(a) for a in arrays])[::-1]
    return norms / norms[0]


radii = {0.5: "#2c4b9b", 0.8: "#5f8fd3", 1.0: "#777777", 1.3: "#e08a5b", 2.0: "#b2182b"}
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
back = np.arange(TIME)
for radius, shade in radii.items():
    norms = gradient_norms(rnn.Elman(UNITS, initial={"W_hh": rnn.initializers.orthogonal(radius)}))
    axes.semilogy(back, norms, color=shade, linewidth=2)
    axes.semilogy(back, radius ** back.astype(float), color="#999999", linewidth=0.8, linestyle="--")
    axes.text(TIME, norms[-1], f"ρ = {radius:g}", color=shade, va="center")
axes.set(xlabel="steps back in time", ylabel="‖∂cost/∂h‖, relative", xlim=(0, 56), ylim=(1e-16, 1e16))
axes.grid(alpha=0.3)

# %% [markdown]
# The dashed lines are `ρᵏ`. For `ρ` below 1, the gradient follows them: with `ρ = 0.5` it shrinks by fifteen orders of
# magnitude in 50 steps, while float32 has seven digits. For `ρ` above 1, it stays far below the dashed line: the units
# saturate, and their small slopes reduce the gradient. Still, with `ρ = 2` it grows by four orders of magnitude.
#
# ## Draw the gradients on the graph
#
# `viz.gradients(cost)` computes the gradient of the cost with respect to *each* node. `viz.draw` colors each node by
# its norm, on a logarithmic scale. With `ρ = 0.3`, six steps are enough to see the effect. Time runs from left to
# right, the gradient from right to left:


# %%
def fading(cell):
    net = rnn.Network([cell], inputs=2, outputs=1, loss="squared", seed=3)
    u = net.unroll(time=6, batch=BATCH, initial="zero", unscored=5)
    return viz.draw(u, closed=True, notes=viz.gradients(u.cost, {u.inputs: x[:6], u.targets: target[:6]}))


fading(rnn.Elman(UNITS, initial={"W_hh": rnn.initializers.orthogonal(0.3)}))

# %% [markdown]
# The norm falls from 1.17 to 0.0028. The error at the end hardly depends on the first step, so training cannot learn
# anything from it. Draw the same network with `ρ = 1`:

# %%
fading(rnn.Elman(UNITS, initial={"W_hh": rnn.initializers.orthogonal(1.0)}))

# %% [markdown]
# ## How an LSTM keeps its gradient
#
# An LSTM keeps its memory in a second state `c`. The path from `cₜ₋₁` to `cₜ` has no matrix and no tanh:
#
# ```
# cₜ = fₜ ⊙ cₜ₋₁ + iₜ ⊙ c̃ₜ
# ∂cₜ/∂cₜ₋₁ = fₜ   (along this path)
# ```
#
# Instead of a product of matrices, there is a product of forget gates. Each unit has its own factor, and training can
# change it. The factor is between 0 and 1, so the gradient cannot explode on this path. But it can vanish: a gate that
# starts at `σ(0) = 0.5` leaves only `0.5⁴⁹ = 2 · 10⁻¹⁵` after 49 steps. The remedy is to initialize the bias `b_f` of
# the forget gate to a larger value. `σ(1) = 0.73` and `σ(5) = 0.9933`, so
#
# ```
# 0.73⁴⁹ = 2 · 10⁻⁷      0.9933⁴⁹ = 0.72
# ```
#
# (In the next plot the weights `W_h·` are small, so that nearly all of the gradient takes this path.)


# %%
def lstm(bias):
    small = rnn.initializers.normal(0.01)
    return rnn.LSTM(UNITS, initial={"W_h*": small, "b_f": rnn.initializers.constant(bias)})


figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
for bias, shade in zip((0.0, 1.0, 3.0, 5.0), plt.get_cmap("viridis")((0.85, 0.6, 0.35, 0.0)), strict=True):
    norms = gradient_norms(lstm(bias), state=1)
    gate = 1 / (1 + np.exp(-bias))
    axes.semilogy(back, norms, color=shade, linewidth=2)
    axes.semilogy(back, gate ** back.astype(float), color="#999999", linewidth=0.8, linestyle="--")
    axes.text(TIME, norms[-1], f"$b_f$ = {bias:g}", color=shade, va="center")
    print(f"b_f = {bias:g}: 49 steps back {norms[-1]:.1e}, σ(b_f)^49 = {gate**49:.1e}")
axes.set(xlabel="steps back in time", ylabel="‖∂cost/∂c‖, relative", xlim=(0, 56), ylim=(1e-16, 10))
axes.grid(alpha=0.3)

# %% [markdown]
# So an LSTM keeps its gradient only if its forget gates are open. Many programs initialize `b_f` to 1. `rnn.LSTM` uses
# a different value for each unit, from 0 to 2, and `b_i = -b_f`, so that some units forget fast and others slowly. For
# long distances, the literature recommends about 5 (`rnn.LSTMSutskever`).
#
# ## Compare training with and without vanishing gradients
#
# The task is to remember one number for thirty steps. The first input is the target at the end; the other inputs are
# small noise. A network that learns nothing outputs 0. Its mean squared error is 1/3, the variance of a uniform random
# number from −1 to 1.


# %%
def practice(generator, time=30, batch=64):
    x = 0.1 * generator.standard_normal((time, batch, 1))
    x[0] = generator.uniform(-1, 1, (batch, 1))
    target = np.broadcast_to(x[0], x.shape)  # only the last step is scored
    return x.astype("float32"), target.astype("float32")


def learn(cell, steps=300):
    net = rnn.Network([cell], inputs=1, outputs=1, loss="squared", seed=2)
    u = net.unroll(time=30, batch=64, initial="zero", unscored=29)
    objective = rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets])
    generator = np.random.default_rng(0)
    result = rnn.minimize(
        objective,
        rnn.Adam(rate=0.003, clip_norm=1.0),
        steps=steps,
        feed=lambda step: objective.feed(*practice(generator)),
    )
    return [report.loss for report in result.reports]


def elman(radius):
    return rnn.Elman(16, initial={"W_hh": rnn.initializers.orthogonal(radius)})


small = {"W_h*": rnn.initializers.normal(0.01)}
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
for name, cell, line in (
    ("Elman, ρ = 0.5", elman(0.5), "C0--"),
    ("Elman, ρ = 1", elman(1.0), "C0-"),
    ("LSTM, $b_f$ = 0", rnn.LSTM(16, initial=small | {"b_f": rnn.initializers.constant(0.0)}), "C1--"),
    ("LSTM, $b_f$ = 5", rnn.LSTM(16, initial=small | {"b_f": rnn.initializers.constant(5.0)}), "C1-"),
):
    losses = learn(cell)
    axes.semilogy(losses, line, label=name)
    print(f"{name.replace('$', ''):<16} mean loss of the last 20 steps: {np.mean(losses[-20:]):.3f}")
axes.axhline(1 / 3, color="#999999", linewidth=0.8, linestyle=":")
axes.set(xlabel="training step", ylabel="mean squared error")
axes.legend(frameon=False, ncols=2)
axes.grid(alpha=0.3)

# %% [markdown]
# The two networks with vanishing gradients (dashed) remain at 1/3: the Elman network with ρ = 0.5 and the LSTM with
# `b_f` = 0. The other two learn. The dashed and the solid line of a color differ only in the initial weights.
#
# ## Common errors
#
# - **Exploding gradients.** If a gradient is a thousand times too long, a single step destroys the weights. Use
#   gradient clipping, `clip_norm=1.0` as above: it rescales gradients with a larger norm to this norm. Clipping does
#   not help against vanishing gradients.
# - **A loss curve that looks good.** The loss falls because the network learns short-term dependencies. It may never
#   learn the long-term ones. Plot the gradient by distance, as above.
# - **Saturation at the start.** With large input weights, each tanh is close to ±1, for any ρ.
# - **Adam does not help.** Adam rescales the gradient of each weight, so even a tiny gradient leads to a step of normal
#   size. But such steps mostly follow noise from other examples. In the plot above, Adam trained the dashed networks,
#   too, but they did not learn.
#
# Second-order methods are another remedy. Directions with a tiny gradient often also have a tiny curvature. In such
# directions, a long step is safe: [tutorial 8](08_hessian_free_from_scratch.py).
#
# ## Exercises
#
# ### Exercise 1
#
# Let `hₜ = 0.9 hₜ₋₁`. After how many steps is less than a thousandth of the gradient left? Give the smallest number.

# %%
answer_1 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    1,
    answer_1,
    solution=66,
    wrong=[65, 67, 44, 6.9],
    right=lambda n: n == 66,
    hint="Solve 0.9ⁿ < 0.001. Take logarithms (the sign changes), and round up to an integer.",
)

# %% [markdown]
# ### Exercise 2
#
# For which bias `b_f` is one half of the gradient left after 100 steps along the path of `c`? (The gate is `σ(b_f)`.
# From `σ(a) = s` follows `a = ln(s / (1 - s))`.)

# %%
answer_2 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
kept = 0.5 ** (1 / 100)
check(
    2,
    answer_2,
    solution=np.log(kept / (1 - kept)),
    wrong=[kept, 5.0, 0.0, np.log((1 - kept) / kept), 4.6],
    hint="First find the gate s with s¹⁰⁰ = 0.5. Then compute its bias. It is close to 5.",
)

# %% [markdown]
# ### Exercise 3
#
# Write a function `back(g, h, W_hh)` for units with the **logistic** function instead of tanh, `hₜ = σ(…)`, whose
# slope is `hₜ (1 - hₜ)`. `g` is the gradient with respect to `hₜ` (one row for each case), and `h` is the state `hₜ`.
# The function returns the gradient with respect to `hₜ₋₁`. (What is the largest slope of σ? Which `ρ` would keep the
# gradient?)

# %%
answer_3 = ...


# %% tags=["hide-input"] jupyter={"source_hidden": true}
def is_step_back(back):
    generator = np.random.default_rng(0)
    W, before, g = (generator.standard_normal(shape) for shape in ((5, 5), (3, 5), (3, 5)))
    node = gn.input((3, 5), "float64")
    after = gn.sigmoid(node @ gn.constant(W))
    found, state = gn.compile([*gn.backward({after: gn.constant(g)}, [node]), after], inputs=[node])(before)
    return np.allclose(back(g, state, W), found)


check(
    3,
    answer_3,
    solution=lambda g, h, W: (g * h * (1 - h)) @ W.T,
    wrong=[
        lambda g, h, W: (g * h * (1 - h)) @ W,
        lambda g, h, W: (g * (1 - h**2)) @ W.T,
        lambda g, h, W: (g @ W.T) * h * (1 - h),
        lambda g, h, W: g @ W.T,
    ],
    right=is_step_back,
    hint="Multiply by the slope first, then by the transposed matrix. The order is that of the forward pass, reversed.",
)

# %% [markdown]
# Sources: Hochreiter 1991 and Bengio, Simard & Frasconi 1994 (vanishing gradients); Hochreiter & Schmidhuber 1997
# (LSTM); Gers, Schmidhuber & Cummins 2000 (forget gates); Sutskever 2013, 2.8 (spectral radius, forget biases).
