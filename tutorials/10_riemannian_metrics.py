# %% [markdown]
# # 10 · Riemannian metrics: steps that do not depend on how you write the net
#
# *Reading time: 15 minutes.* You will build steps that two ways to write one net agree on. It helps to know gradients
# (tutorial 3) and the Gauss–Newton matrix ([tutorial 8](08_hessian_free_from_scratch.py)).
#
# Write a net with tanh units. Write the same net, computing exactly the same function, with logistic units. Train
# both by gradient descent: they part at the first step. Nothing about the problem says which is right. Ollivier
# (2013) builds metrics that cure it: here first for one number, then for a layer in a few lines of NumPy, at last
# through time. (`rnn.Riemannian` does it for any net; here you build it by hand.)

# %%
import matplotlib.pyplot as plt
import numpy as np

import graphnet as gn
import graphnet_rnn as rnn

from exercises import check

plt.style.use("tableau-colorblind10")

# %% [markdown]
# ## One coin, two ways to write it
#
# A coin fell heads 7 times out of 10. The model says heads with probability `p`, its cost is
# `C = -0.7 ln p - 0.3 ln (1 - p)`, and it starts at `p = 0.5`. One step of gradient descent, with the rate 0.1:
#
# - Written with `p` itself: `dC/dp = -0.7/p + 0.3/(1 - p) = -0.8`, so `p = 0.5 + 0.1 · 0.8 = 0.58`.
# - Written as `p = σ(θ)`, with `θ = 0`: `dC/dθ = p - 0.7 = -0.2`, so `θ = 0.02` and `p = σ(0.02) = 0.505`.
#
# The same model, data and rate, and one step is sixteen times as long as the other. For a small step `ε`, descent
# does
#
# ```
# δ = -ε g  =  the δ with the least  gᵀδ + |δ|² / 2ε
# ```
#
# as far down as it can for its length. And *length* is measured in whatever numbers we happened to use.
#
# ## A ruler that asks what the model does
#
# A better ruler measures how much the *predictions* change. For probabilities that is the Kullback–Leibler
# divergence, which for a small change is `½ F δ²`, with the **Fisher metric** `F`, the mean of `(d ln p / dθ)²` over
# what the model says may come. For our coin,
#
# ```
# F_p = p / p² + (1 - p) / (1 - p)²   = 1 / (p (1 - p)) = 4
# F_θ = p (1 - p)² + (1 - p) p²       = p (1 - p)       = 1/4
# ```
#
# The least of `g δ + F δ² / 2ε` gives the **natural gradient** step `δ = -ε F⁻¹ g` (Amari 1998). With the rate 0.1:
# in `p`, `δ = 0.1 · 0.8 / 4 = 0.02`. In `θ`, `δ = 0.1 · 0.2 · 4 = 0.08`, and `σ(0.08) = 0.51999`. They agree, but for
# what the curve of `σ` does within one step:


# %%
def sigmoid(a):
    return 1 / (1 + np.exp(-a))


for rate in (1.0, 0.1, 0.01):
    plain = 0.5 + rate * 0.8, sigmoid(rate * 0.2)
    natural = 0.5 + rate * 0.8 / 4, sigmoid(rate * 0.2 * 4)
    print("rate {}: plain step to {:.5f} or {:.5f}, natural {:.5f} or {:.5f}".format(rate, *plain, *natural))

# %% [markdown]
# ## The rule in general
#
# A **metric** is a matrix `M(θ)` that measures changes, `|δ|² = δᵀ M δ`, and the step is `δ = -ε M⁻¹ g`. Write the
# parameters differently, `θ = Aφ + c`. Then by the chain rule
#
# ```
# g_φ = Aᵀ g_θ            M_φ = Aᵀ M_θ A
# A δ_φ  =  -ε A (Aᵀ M_θ A)⁻¹ Aᵀ g_θ  =  -ε M_θ⁻¹ g_θ  =  δ_θ
# ```
#
# the same step, however long. (Where the change of coordinates bends, it is the same up to second order in the rate,
# as with the coin.) All that a metric must do is to *transform like that*, as a mean of `g gᵀ` does:
# `AᵀggᵀA = Aᵀ(ggᵀ)A`.
#
# ## One net, written twice
#
# Two inputs, three hidden units, one logit `o` for the answer yes. A column of ones in front of inputs and activities
# takes care of the biases, so a layer is one matrix:
#
# ```
# a⁰ = [1, x]      V = a⁰ W      a¹ = [1, s(V)]      o = a¹ w      C = mean of the cross entropies
# ```
#
# Besides the cost we ask the graph for `B = ∂ℓ/∂V`, one row for each example, and the same at the output. With the
# *sum* of the losses as output, the row of an example is its own derivative, since no other example depends on it:
# Ollivier's backpropagated values.

# %%
EXAMPLES = 500


def network(s):
    """arrays x, t, W, w -> cost, logits, (a⁰, B) of the hidden layer, (a¹, B) of the output."""
    x, t = gn.input((EXAMPLES, 2), "float64", name="x"), gn.input((EXAMPLES, 1), "float64", name="t")
    W, w = gn.input((3, 3), "float64", name="W"), gn.input((4, 1), "float64", name="w")
    one = gn.constant(np.ones((EXAMPLES, 1)))
    a0 = gn.concatenate([one, x], axis=1)
    V = a0 @ W
    a1 = gn.concatenate([one, s(V)], axis=1)
    o = a1 @ w
    losses = gn.sigmoid_cross_entropy(o, t)
    B_hidden, B_output = gn.backward({gn.sum(losses): 1.0}, [V, o])
    return gn.compile([gn.mean(losses), o, a0, B_hidden, a1, B_output], inputs=[x, t, W, w])


nets = {"tanh": network(gn.tanh), "logistic": network(gn.sigmoid)}

generator = np.random.default_rng(2)
x = generator.uniform(0, 1, (EXAMPLES, 2))
yes = (x[:, 0] > 0.5) ^ (x[:, 1] > 0.5)  # exactly one of the two is large
t = (yes ^ (generator.random(EXAMPLES) < 0.1)).astype(float)[:, None]  # and a tenth of the answers is wrong
W, w = generator.standard_normal((3, 3)), generator.standard_normal((4, 1))

# %% [markdown]
# Since `tanh V = 2 σ(2V) - 1`, a logistic unit with `W' = 2W` sits at `σ(V') = (tanh V + 1) / 2`. The next layer
# makes up for the rest: `w tanh V = 2w σ(V') - w`, twice the weights, and their sum off the bias. An affine change of
# all parameters.


# %%
def as_logistic(W, w):
    w_there = 2 * w
    w_there[0] = w[0] - w[1:].sum(axis=0)
    return [2 * W, w_there]


starts = {"tanh": [W, w], "logistic": as_logistic(W, w)}
logits = {name: nets[name](x, t, *starts[name])[1] for name in nets}
print("the two nets differ by", np.abs(logits["tanh"] - logits["logistic"]).max())

# %% [markdown]
# Train both, by any rule that turns a layer's activities `a` and values `B` into a step. Gradient descent first: with
# `∂ℓ/∂w_ij = a_i B_j`, the gradient is the mean of `a_i B_j` over the examples.


# %%
def gradient(a, B):
    return a.T @ B / len(a)


def train(rule, rate, steps=150):
    """Costs by step, and the final probabilities, for both nets."""
    costs, answers = {}, {}
    for name, function in nets.items():
        W, w = (matrix.copy() for matrix in starts[name])
        costs[name] = []
        for _ in range(steps):
            cost, _, a0, B_hidden, a1, B_output = function(x, t, W, w)
            costs[name].append(float(cost))
            W -= rate * rule(a0, B_hidden)
            w -= rate * rule(a1, B_output)
        answers[name] = sigmoid(function(x, t, W, w)[1])
    return costs, np.abs(answers["tanh"] - answers["logistic"]).max()


def tell(name, costs, difference):
    last = f"{costs['tanh'][-1]:.3f} and {costs['logistic'][-1]:.3f}"
    print(f"{name:<15} costs {last}, probabilities differ by up to {difference:.0e}")


tell("gradient", *train(gradient, rate=0.5))

# %% [markdown]
# ## The full metric
#
# The Fisher matrix of the whole net is, with a probability `π = σ(o)` at the end, the mean of `π (1 - π) JᵀJ`, `J` the
# row `∂o/∂θ` of an example: the **Gauss–Newton matrix** of tutorial 8. For a million parameters one either never makes
# it (there), or makes it smaller.
#
# ## Smaller, unit by unit
#
# Instead of the model's own expectation take the examples as they are: the **outer product metric** is the mean of
# `g gᵀ` over them. And of this keep only the blocks of weights that lead *into the same unit* `j`. As
# `g_ij = a_i B_j`,
#
# ```
# M⁽ʲ⁾_ik = mean of a_i a_k B_j²
# ```
#
# This **unitwise outer product metric** needs nothing but what backpropagation has anyway. Solve one small system for
# each unit:


# %%
def unitwise(a, B, epsilon=0.0):
    steps = []
    for j in range(B.shape[1]):
        g = a * B[:, [j]]  # per example: ∂ℓ/∂(weights into unit j)
        M = g.T @ g / len(a) + epsilon * np.eye(a.shape[1])  # ε: later
        steps.append(np.linalg.solve(M, g.mean(axis=0)))
    return np.array(steps).T


# %% [markdown]
# ## Smaller still: quasi-diagonal
#
# With many inputs to a unit even a block is large. Keeping only its diagonal is cheap, but it loses the invariance:
# logistic activities are shifted ones, and a shift mixes every weight with the bias. So keep the diagonal *and the
# row of the bias*, `i = 0`. The step is then (Ollivier, eqs 34–35)
#
# ```
# δ_i = (G_i - G_0 M_0i / M_00) / (M_ii - M_0i² / M_00)      for i ≠ 0
# δ_0 = G_0 / M_00 - Σ_i≠0 (M_0i / M_00) δ_i
# ```
#
# `M_0i / M_00` is the mean of `a_i`, weighted by `B_j²`. So numerator and denominator are a covariance and a variance
# *about that mean*, which no shift of `a_i` can change.


# %%
def diagonal(a, B):
    return gradient(a, B) / ((a * a).T @ (B * B) / len(a))


def quasi_diagonal(a, B):
    G = gradient(a, B)
    M_ii = (a * a).T @ (B * B) / len(a)
    M_0i = a.T @ (B * B) / len(a)  # as a_0 = 1; row 0 is M_00
    mean = M_0i[1:] / M_0i[0]
    step = np.empty_like(G)
    step[1:] = (G[1:] - G[0] * mean) / (M_ii[1:] - M_0i[1:] * mean)
    step[0] = G[0] / M_0i[0] - (mean * step[1:]).sum(axis=0)
    return step


# %% [markdown]
# ## Do the two nets learn alike?

# %%
rules = {
    "gradient": (gradient, 0.5),
    "diagonal": (diagonal, 0.02),
    "quasi-diagonal": (quasi_diagonal, 0.02),
    "unitwise": (unitwise, 0.02),
}
figure, panels = plt.subplots(1, 4, figsize=(11, 2.9), layout="constrained", sharey=True)
for axes, (name, (rule, rate)) in zip(panels, rules.items(), strict=True):
    costs, difference = train(rule, rate)
    axes.plot(costs["tanh"], linewidth=5, alpha=0.35, label="tanh")
    axes.plot(costs["logistic"], color="black", linewidth=1.2, label="logistic")
    axes.set(title=name, xlabel="step", ylabel="cost" if name == "gradient" else None)
    tell(name, costs, difference)
panels[0].legend(frameon=False)
panels[0].grid(alpha=0)

# %% [markdown]
# With the quasi-diagonal and the unitwise metric the two nets make the same steps, to the last digits that a computer
# has. With gradient and diagonal each goes its own way. That the invariant ones are also faster here is a pleasant
# fact, not a theorem.
#
# ## What can go wrong
#
# - **Damping.** A unit that hardly matters has a metric near zero, whose inverse is huge, so in practice one adds
#   `ε I`. But that is the old ruler, and breaks the invariance again:


# %%
for epsilon in (0.0, 1e-6, 1e-4, 1e-2):
    tell(f"ε = {epsilon:g}", *train(lambda a, B, epsilon=epsilon: unitwise(a, B, epsilon), 0.02))

# %% [markdown]
# - **Too few examples.** With fewer examples than a unit has inputs, the mean of `g gᵀ` has no inverse.
# - **Initial weights.** An invariant algorithm needs an invariant start; we had to translate the weights.
#
# ## Through time
#
# In a recurrent net the same weights act at every step. Unfold it: each step is a layer with weights of its own that
# happen to be equal, and a change of the shared weights is measured by the *sum over time* of what it does at each
# step (Ollivier, definition 6). So the recurrent unitwise metric is
#
# ```
# M⁽ʲ⁾_ik = Σ_t mean of a_i a_k B_j²,  a and B those of step t
# ```
#
# and nothing has to be written anew: lay the rows of all time steps below each other. The library keeps these books: it
# reads off the graph of any cost which weights meet in which unit. First the net above, whose steps we know:

# %%
values = {"W": W[1:], "b": W[0], "w": w[1:], "b_o": w[0]}
parameters = [gn.parameter(value, name=name) for name, value in values.items()]
o = gn.tanh(gn.constant(x) @ parameters[0] + parameters[1]) @ parameters[2] + parameters[3]
objective = rnn.Objective(gn.mean(gn.sigmoid_cross_entropy(o, gn.constant(t))), parameters)
print(*rnn.riemannian.unit_groups(objective.cost, parameters), sep="\n")
metric = rnn.riemannian.OuterProduct("full", outputs="same", damping=0.0)
cost, g, numbers = objective.metric(objective.start(), metric)
step = objective.metric_solver(metric, "all", numbers)(g)
_, _, a0, B_hidden, a1, B_output = nets["tanh"](x, t, W, w)
by_hand = unitwise(a0, B_hidden), unitwise(a1, B_output)
by_hand = np.concatenate([part.ravel() for matrix in by_hand for part in (matrix[1:], matrix[0])])
print("steps by hand and by the library differ by", np.abs(step - by_hand).max())

# %% [markdown]
# Then a net of three units that reads five numbers, and says whether the last is greater than the first.

# %%
STEPS = 5


def recurrent(s, h0, b, W_x, W_h, w, b_o):
    """h' = s(x W_x + h W_h + b) from h0, o = h' w + b_o after five steps: an objective."""
    parameters = b, W_x, W_h, w, b_o = [gn.parameter(value) for value in (b, W_x, W_h, w, b_o)]
    x, t = gn.input((STEPS, EXAMPLES, 1), "float64"), gn.input((EXAMPLES, 1), "float64")
    h = gn.constant(np.full((EXAMPLES, 3), h0))
    for step in range(STEPS):
        h = s(x[step] @ W_x + h @ W_h + b)
    o = h @ w + b_o
    return rnn.Objective(gn.mean(gn.sigmoid_cross_entropy(o, t)), parameters, [x, t], also=[o])


generator = np.random.default_rng(2)
x = generator.uniform(0, 1, (STEPS, EXAMPLES, 1))
rises = x[0] < x[-1]
t = (rises ^ (generator.random((EXAMPLES, 1)) < 0.1)).astype(float)
W, w = generator.standard_normal((5, 3)), generator.standard_normal((4, 1))
b, W_x, W_h, b_o, w = W[0], W[1:2], W[2:], w[0], w[1:]
# tanh starts from the state 0, which a logistic unit calls 1/2: V = b + x W_x + h W_h with h = 2 s - 1.
there = 2 * (b - W_h.sum(axis=0)), 2 * W_x, 4 * W_h, 2 * w, b_o - w.sum(axis=0)
nets = {
    "tanh": recurrent(gn.tanh, 0.0, b, W_x, W_h, w, b_o),
    "logistic": recurrent(gn.sigmoid, 0.5, *there),
}


def train_recurrent(metric, rate, steps=100):
    costs, answers = {}, {}
    for name, objective in nets.items():
        objective.feed(x, t)
        theta, costs[name] = objective.start(), []
        for _ in range(steps):
            cost, g, numbers = objective.metric(theta, metric)
            costs[name].append(cost)
            theta = theta - rate * objective.metric_solver(metric, "all", numbers)(g)
        objective.gradient(theta)
        answers[name] = sigmoid(objective.also_values[0])
        objective.set(starts[name])
    return costs, np.abs(answers["tanh"] - answers["logistic"]).max()


starts = {name: objective.start() for name, objective in nets.items()}
for name, reduction in (("quasi-diagonal", "quasi-diagonal"), ("unitwise", "full")):
    tell(name, *train_recurrent(rnn.riemannian.OuterProduct(reduction, outputs="same", damping=0.0), 0.01))

# %% [markdown]
# Invariant in time, too. (With other numbers units saturate, and damping is needed; `rnn.Riemannian` and
# `rnn.NaturalGradient` take care of rates and batches.)
#
# ## Exercises
#
# ### Exercise 1
#
# The pictures come inverted: instead of `x` the net gets `1 - x`. Write `inverted(W)`, which turns the matrix `W` of
# a layer `V = [1, x] W` into the one that gives the same `V` from `[1, 1 - x]`.

# %%
answer_1 = ...


# %% tags=["hide-input"] jupyter={"source_hidden": true}
def invert(W):
    return np.vstack([W[:1] + W[1:].sum(axis=0, keepdims=True), -W[1:]])


def is_inversion(function):
    generator = np.random.default_rng(0)
    x, W = generator.uniform(size=(7, 3)), generator.standard_normal((4, 5))
    kept = W.copy()
    ones = np.ones((7, 1))
    good = np.allclose(np.hstack([ones, 1 - x]) @ function(W), np.hstack([ones, x]) @ kept)
    return good and np.array_equal(W, kept)


check(
    1,
    answer_1,
    solution=invert,
    wrong=[
        lambda W: -W,
        lambda W: np.vstack([W[:1], -W[1:]]),
        lambda W: np.vstack([W[:1] - W[1:].sum(axis=0), -W[1:]]),
        lambda W: np.vstack([1 - W[:1], -W[1:]]),
    ],
    right=is_inversion,
    hint="b + x W = b + W·1 - (1 - x) W, where W·1 adds up the rows. Do not change the array that you get.",
)

# %% [markdown]
# ### Exercise 2
#
# A coin again: 9 heads out of 10, `p = 0.5`, the rate `ε = 0.5`, written with `p`. Where does one natural gradient
# step lead? (`C = -0.9 ln p - 0.1 ln (1 - p)`, and `F_p = 1 / (p (1 - p))`.)

# %%
answer_2 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    2,
    answer_2,
    solution=0.7,
    wrong=[0.9, 1.3, 0.5, 0.3, 3.7],
    hint="The gradient is -0.9/0.5 + 0.1/0.5. Divide by 4, times the rate, and go against it.",
)

# %% [markdown]
# ### Exercise 3
#
# The *backpropagated metric* replaces `B_j²`, which is noisy, by its expectation `m_j` under the model's own
# predictions. At the output `m = π (1 - π)`; for a hidden unit that leads to one output only, by `V → s(V) → o`, the
# chain rule brings squares: `m_j = s'(V_j)² w_j² π (1 - π)`. Write `modulus(activity, w, pi)` for *tanh* units:
# activities (examples, units), `w` the weights to the output, without the bias, (units, 1), and `π` (examples, 1). It
# returns `m`, (examples, units).

# %%
answer_3 = ...


# %% tags=["hide-input"] jupyter={"source_hidden": true}
def is_modulus(modulus):
    # The expectation, exactly: B for the answer yes and for no, squared, weighted by π and 1 - π.
    generator = np.random.default_rng(0)
    V, w = generator.standard_normal((6, 3)), generator.standard_normal((3, 1))
    node, target = gn.input((6, 3), "float64"), gn.input((6, 1), "float64")
    o = gn.tanh(node) @ gn.constant(w)
    (B,) = gn.backward({gn.sum(gn.sigmoid_cross_entropy(o, target)): 1.0}, [node])
    function = gn.compile([B, o], inputs=[node, target])
    (B_yes, o_value), (B_no, _) = function(V, np.ones((6, 1))), function(V, np.zeros((6, 1)))
    pi = sigmoid(o_value)
    return np.allclose(modulus(np.tanh(V), w, pi), pi * B_yes**2 + (1 - pi) * B_no**2)


check(
    3,
    answer_3,
    solution=lambda activity, w, pi: (1 - activity**2) ** 2 * w.T**2 * pi * (1 - pi),
    wrong=[
        lambda activity, w, pi: (1 - activity**2) * w.T**2 * pi * (1 - pi),
        lambda activity, w, pi: (activity * (1 - activity)) ** 2 * w.T**2 * pi * (1 - pi),
        lambda activity, w, pi: (1 - activity**2) ** 2 * w.T * pi * (1 - pi),
        lambda activity, w, pi: (1 - activity**2) ** 2 * w.T**2 * pi,
    ],
    right=is_modulus,
    hint="The slope of tanh, 1 - activity², is squared, and so is w; w.T is a row that goes with the units.",
)

# %% [markdown]
# Sources: Ollivier 2013, *Riemannian metrics for neural networks*, I (feedforward nets) and II (recurrent nets: eqs
# 26–27 unitwise, 34–35 quasi-diagonal, 52–53 metrics in time); Amari 1998 (the natural gradient); Schraudolph 2002
# (Gauss–Newton and Fisher).
