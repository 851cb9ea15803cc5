# %% [markdown]
# # 7 · Vanishing gradients, seen
#
# *Reading time: 12 minutes.* You will work out by hand why gradients fade or explode in time, and *see* it. It helps
# to know gradients (tutorial 3) and cells ([tutorial 6](06_cells_and_time.py)).
#
# A net that is to learn what an input has to do with an answer fifty steps later must be told so by its gradient,
# which travels all the way back. On that road it may fade to nothing, or grow beyond bounds. At the end it is clear
# what an LSTM does about it, and what it does not.

# %%
import matplotlib.pyplot as plt
import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
import viz

from exercises import check

plt.style.use("tableau-colorblind10")

# %% [markdown]
# ## One unit, and powers of a number
#
# The simplest memory multiplies its state by a number `w` at each step, `hₜ = w hₜ₋₁`. After `k` steps, `hₖ = wᵏ h₀`,
# so
#
# ```
# ∂hₖ/∂h₀ = wᵏ
# ```
#
# Three numbers that hardly differ, and fifty steps:

# %%
for w in (0.9, 1.0, 1.1):
    print(f"w = {w}:  w^10 = {w**10:7.3f}   w^50 = {w**50:9.4f}   w^200 = {w**200:.1e}")

# %% [markdown]
# Below 1 the gradient **vanishes**, above 1 it **explodes**; only at 1 it lasts. In both cases exponentially: no
# learning rate can make up for it, since what is right for the nearest step is wrong by a factor of `w⁵⁰` for a far
# one.
#
# ## With a tanh, by hand
#
# A unit with a nonlinearity, `hₜ = tanh(w hₜ₋₁)`. As `tanh' = 1 - tanh²`, the chain rule gives a factor `w (1 - hₜ²)`
# for each step. Take `w = 1.1`, which should explode, and `h₀ = 1`:
#
# ```
# h₁ = tanh(1.1)   = 0.800      its factor: 1.1 (1 - 0.800²) = 0.395
# h₂ = tanh(0.881) = 0.707      its factor: 1.1 (1 - 0.707²) = 0.551
# ∂h₂/∂h₀ = 0.395 · 0.551 = 0.218
# ```
#
# It shrinks, though `w > 1`. The graph must agree:

# %%
h0 = gn.input((), "float64", name="h0")
h1 = gn.tanh(1.1 * h0)
h2 = gn.tanh(1.1 * h1)
function = gn.compile([h1, h2, *gn.gradient(h2, [h0])], inputs=[h0])
print([round(float(value), 4) for value in function(1.0)])

# %% [markdown]
# The slope of tanh is at most 1, and much less where the unit is saturated (its output near 1 or −1): it can only
# take away. So a recurrent net of tanh units has two ways to lose its gradient, weights and saturation, and one to
# blow it up.
#
# ## Many units: a product of Jacobians
#
# For a layer, `hₜ = tanh(xₜ W_xh + hₜ₋₁ W_hh + b_h)` with rows as in all our code. Let `gₜ` be the gradient of the
# cost with respect to `hₜ`, a row as well. One step back:
#
# ```
# gₜ₋₁ = (gₜ ⊙ (1 - hₜ²)) W_hhᵀ
# ```
#
# Read it aloud: through the tanh, multiply by its slope; through the product, multiply by the transposed matrix.
# (This is how it looks when only the last step is judged; otherwise each step adds its own share.)
#
# A net of 32 units over 50 steps, whose cost looks at the last output alone: `unscored` leaves out the others.

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
by_hand = g[-1]  # start at the last step, where the cost is
for t in range(TIME - 1, 0, -1):
    by_hand = (by_hand * (1 - h[t] ** 2)) @ W_hh.T
    if t in (49, 40, 20, 1):
        size, found = np.linalg.norm(by_hand), np.linalg.norm(g[t - 1])
        print(f"{TIME - t:2d} steps back: ‖gradient‖ by hand {size:.6f}, by the graph {found:.6f}")

# %% [markdown]
# Forty-nine Jacobians, multiplied by hand, give what the graph says. And 49 steps back half a per cent is left.
#
# ## What decides: the spectral radius
#
# For one unit it was `w`. For a matrix multiplied by itself over and over, it is the largest absolute value among its
# eigenvalues, the **spectral radius** `ρ`: powers of the matrix shrink like `ρᵏ` or grow like it. To have clean
# numbers we start from `ρ` times an orthogonal matrix: it turns every vector and multiplies its length by exactly
# `ρ`, so that all eigenvalues have the size `ρ`.


# %%
def gradient_norms(cell, state=0):
    """‖∂cost/∂state_t‖ for t = 50, 49, ... 1, the first as 1."""
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
axes.set(xlabel="steps back in time", ylabel="‖∂cost/∂h‖, from 1", xlim=(0, 56), ylim=(1e-16, 1e16))
axes.grid(alpha=0.3)

# %% [markdown]
# The broken lines are `ρᵏ`. Below 1 the gradient follows them: at `ρ = 0.5`, fifteen powers of ten are gone after 50
# steps, and float32 keeps seven digits. Above 1 it stays far below them, since the units that grow saturate, and
# their slopes take away what the weights add. Yet with `ρ = 2` there are still four powers of ten too many, in some
# directions.
#
# ## Seen on the graph itself
#
# `viz.gradients(cost)` computes the gradient of the cost with respect to *every* node, and `viz.draw` colours each by
# its norm, on a logarithmic scale. Six steps are enough if `ρ = 0.3`. Time runs from left to right, the gradient from
# right to left:


# %%
def fading(cell):
    net = rnn.Network([cell], inputs=2, outputs=1, loss="squared", seed=3)
    u = net.unroll(time=6, batch=BATCH, initial="zero", unscored=5)
    return viz.draw(u, closed=True, notes=viz.gradients(u.cost, {u.inputs: x[:6], u.targets: target[:6]}))


fading(rnn.Elman(UNITS, initial={"W_hh": rnn.initializers.orthogonal(0.3)}))

# %% [markdown]
# Of 1.17, 0.0028 is left. The first step is as good as deaf: nothing that happens there can be learned from the error
# at the end. The same picture at `ρ = 1`:

# %%
fading(rnn.Elman(UNITS, initial={"W_hh": rnn.initializers.orthogonal(1.0)}))

# %% [markdown]
# ## What an LSTM does about it
#
# An LSTM keeps its memory in a second state `c`, on a road with no matrix and no tanh on it:
#
# ```
# cₜ = fₜ ⊙ cₜ₋₁ + iₜ ⊙ c̃ₜ
# ∂cₜ/∂cₜ₋₁ = fₜ   (along this road)
# ```
#
# A product of forget gates instead of a product of matrices: each unit has its own factor, and the net can learn it.
# It is between 0 and 1, so nothing explodes on this road. But look at the number: a gate that starts at `σ(0) = 0.5`
# is worse than any matrix above, `0.5⁴⁹ = 2 · 10⁻¹⁵`. The remedy is one line in most programs: start the bias `b_f`
# of the gate high. `σ(1) = 0.73`, `σ(5) = 0.9933`, and
#
# ```
# 0.73⁴⁹ = 2 · 10⁻⁷      0.9933⁴⁹ = 0.72
# ```
#
# (The weights `W_h·` are made small here, so that this road is the only one.)


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
axes.set(xlabel="steps back in time", ylabel="‖∂cost/∂c‖, from 1", xlim=(0, 56), ylim=(1e-16, 10))
axes.grid(alpha=0.3)

# %% [markdown]
# So it is not the letters LSTM that keep a gradient alive, but gates that are open. Many programs start
# `b_f` at 1; `rnn.LSTM` gives each unit another one, from 0 to 2, and `b_i = -b_f`, so that some units forget fast
# and others slowly. For long distances the sources say about 5 (`rnn.LSTMSutskever`).
#
# ## Does it matter?
#
# Remember one number for thirty steps: the first input is the answer at the end, the others are small noise. Whoever
# learns nothing guesses 0, and has the mean squared error 1/3, the variance of a number drawn from −1 … 1.


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
    print(f"{name.replace('$', ''):<16} last twenty steps: {np.mean(losses[-20:]):.3f}")
axes.axhline(1 / 3, color="#999999", linewidth=0.8, linestyle=":")
axes.set(xlabel="step", ylabel="mean squared error")
axes.legend(frameon=False, ncols=2)
axes.grid(alpha=0.3)

# %% [markdown]
# The two whose gradient has faded stay at one third, LSTM or not; the two whose gradient arrives learn. Nothing but
# the initial weights is different between a broken line and the full one of its colour.
#
# ## What can go wrong
#
# - **The net explodes.** One large step along a gradient that is thousands of times too long spoils the weights.
#   Hence `clip_norm=1.0` above: a longer gradient is shortened to that length. It helps against explosion only; what
#   has vanished cannot be lengthened.
# - **The curve lies.** The loss falls nicely because nearby connections are learned, and the far ones never are. Look
#   at the gradient by distance, as above, and not at the loss alone.
# - **Saturated from the start.** Large input weights push every tanh to ±1, whatever ρ is (exercise 3 shows how much
#   that costs).
# - **Adam hides it.** It rescales each weight's gradient, so that even a tiny one makes steps, and then mostly noise
#   of other examples is followed. In the curves above Adam did not help the broken lines.
#
# Another remedy is to use the curvature, which tells that those directions in which the gradient is tiny are also
# nearly flat, and that long steps there are safe: [tutorial 8](08_hessian_free_from_scratch.py).
#
# ## Exercises
#
# ### Exercise 1
#
# `hₜ = 0.9 hₜ₋₁`. What is the smallest number of steps after which less than a thousandth of the gradient is left?

# %%
answer_1 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    1,
    answer_1,
    solution=66,
    wrong=[65, 67, 44, 6.9],
    right=lambda n: n == 66,
    hint="0.9ⁿ < 0.001. Take logarithms (and mind the sign), then the next whole number.",
)

# %% [markdown]
# ### Exercise 2
#
# At which bias `b_f` is one half of the gradient left after 100 steps along the road of `c`? (The gate is `σ(b_f)`;
# `σ(a) = s` means `a = ln(s / (1 - s))`.)

# %%
answer_2 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
kept = 0.5 ** (1 / 100)
check(
    2,
    answer_2,
    solution=np.log(kept / (1 - kept)),
    wrong=[kept, 5.0, 0.0, np.log((1 - kept) / kept), 4.6],
    hint="First the gate: s with s¹⁰⁰ = 0.5. Then its bias. The sources' rule of thumb is not far off.",
)

# %% [markdown]
# ### Exercise 3
#
# Write a function `back(g, h, W_hh)` that takes the gradient with respect to `hₜ` (rows: cases), the state `hₜ`
# itself, and `W_hh`, and returns the gradient with respect to `hₜ₋₁`, for units with the **logistic** function
# instead of tanh: `hₜ = σ(…)`, whose slope is `hₜ (1 - hₜ)`. (How large is that slope at most? So what must `ρ` be to
# keep a gradient alive?)

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
    hint="The slope first, then the transposed matrix: the other way round from the forward pass.",
)

# %% [markdown]
# Sources: Hochreiter 1991 and Bengio, Simard & Frasconi 1994 (the gradient vanishes); Hochreiter & Schmidhuber 1997
# (the LSTM); Gers, Schmidhuber & Cummins 2000 (forget gates); Sutskever 2013, 2.8 (spectral radius, forget biases).
