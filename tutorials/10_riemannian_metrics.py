# %% [markdown]
# # 10 · Riemannian metrics: training steps independent of the parametrization
#
# *Reading time: 15 minutes.* After this lesson you can compute natural-gradient steps, and write the unitwise and the
# quasi-diagonal metric in a few lines of NumPy. With these metrics, training does not depend on the parametrization of
# the network. You need gradients (tutorial 3) and the Gauss–Newton matrix
# ([tutorial 8](08_hessian_free_from_scratch.py)).
#
# The same function can be written as a network of tanh units or of logistic units. If you train both networks by
# gradient descent, they differ after the first step, although the problem is the same. Ollivier (2013) defines metrics
# that avoid this. This lesson applies them to a single number, then to layers, and then to a recurrent network. (In
# your own training, use `rnn.Riemannian`, which works for any network.)

# %%
import matplotlib.pyplot as plt
import numpy as np

import graphnet as gn
import graphnet_rnn as rnn

from exercises import check

plt.style.use("tableau-colorblind10")

# %% [markdown]
# ## One model, two parametrizations
#
# A coin fell heads 7 times out of 10. The model gives heads the probability `p`. Its cost is
# `C = -0.7 ln p - 0.3 ln (1 - p)`, and it starts at `p = 0.5`. Take one step of gradient descent with the learning
# rate 0.1:
#
# - With the parameter `p`: `dC/dp = -0.7/p + 0.3/(1 - p) = -0.8`, so `p = 0.5 + 0.1 · 0.8 = 0.58`.
# - With the parameter `θ`, where `p = σ(θ)`, from `θ = 0`: `dC/dθ = p - 0.7 = -0.2`, so `θ = 0.02` and
#   `p = σ(0.02) = 0.505`.
#
# Model, data and learning rate are the same, but one step is sixteen times as long as the other. The reason is that a
# step of gradient descent minimizes
#
# ```
# gᵀδ + |δ|² / 2ε      with the result      δ = -ε g
# ```
#
# Of all steps with the same length `|δ|`, this step decreases the linear model `gᵀδ` the most. But the length depends
# on the parametrization.
#
# ## The Fisher metric and the natural gradient
#
# Instead, measure how much the *predictions* change. For probabilities, use the Kullback–Leibler divergence. For a
# small change it is `½ F δ²`, with the **Fisher metric** `F`. `F` is the mean of `(d ln p / dθ)²` over the outcomes
# that the model predicts. For the coin,
#
# ```
# F_p = p / p² + (1 - p) / (1 - p)²   = 1 / (p (1 - p)) = 4
# F_θ = p (1 - p)² + (1 - p) p²       = p (1 - p)       = 1/4
# ```
#
# The minimum of `g δ + F δ² / 2ε` is the **natural gradient** step, `δ = -ε F⁻¹ g` (Amari 1998). With the learning rate
# 0.1:
#
# - With the parameter `p`: `δ = 0.1 · 0.8 / 4 = 0.02`, so `p = 0.52`.
# - With the parameter `θ`: `δ = 0.1 · 0.2 · 4 = 0.08`, so `p = σ(0.08) = 0.51999`.
#
# Both steps agree, except for a small difference: `σ` is curved within a step. The difference vanishes for small
# learning rates:


# %%
def sigmoid(a):
    return 1 / (1 + np.exp(-a))


for rate in (1.0, 0.1, 0.01):
    plain = 0.5 + rate * 0.8, sigmoid(rate * 0.2)
    natural = 0.5 + rate * 0.8 / 4, sigmoid(rate * 0.2 * 4)
    print("rate {}: plain step to {:.5f} or {:.5f}, natural {:.5f} or {:.5f}".format(rate, *plain, *natural))

# %% [markdown]
# ## Why a metric makes the step invariant
#
# A **metric** is a matrix `M(θ)` that defines the length of a change, `|δ|² = δᵀ M δ`. The step is `δ = -ε M⁻¹ g`. Now
# use other parameters `φ` with `θ = Aφ + c`. By the chain rule,
#
# ```
# g_φ = Aᵀ g_θ            M_φ = Aᵀ M_θ A
# A δ_φ  =  -ε A (Aᵀ M_θ A)⁻¹ Aᵀ g_θ  =  -ε M_θ⁻¹ g_θ  =  δ_θ
# ```
#
# So both steps are the same, for any learning rate. (If the change of parameters is not linear, they agree up to second
# order in the learning rate, as for the coin.) This holds for every metric with `M_φ = Aᵀ M_θ A`. A mean of `g gᵀ` is
# such a metric, because `g_φ g_φᵀ = Aᵀ (g_θ g_θᵀ) A`.
#
# ## One network, two parametrizations
#
# The network has two inputs, three hidden units, and one logit `o` for the answer *yes*. Inputs and activities have an
# additional first column of ones, which replaces the biases. So each layer has one matrix:
#
# ```
# a⁰ = [1, x]      V = a⁰ W      a¹ = [1, s(V)]      o = a¹ w      C = mean cross-entropy
# ```
#
# Besides the cost, compute `B = ∂ℓ/∂V`, where `ℓ` is the loss of an example. `B` has one row for each example. Compute
# the same for the output. To get `B` for all examples at once, differentiate the *sum* of the losses: each row of `V`
# affects only the loss of its own example. Ollivier calls `B` the backpropagated values.

# %%
EXAMPLES = 500


def network(s):
    """Function of the arrays x, t, W, w: returns cost, logits, (a⁰, B) of the hidden layer, (a¹, B) of the output."""
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
yes = (x[:, 0] > 0.5) ^ (x[:, 1] > 0.5)  # exactly one of the two is above 0.5
t = (yes ^ (generator.random(EXAMPLES) < 0.1)).astype(float)[:, None]  # a tenth of the labels is wrong
W, w = generator.standard_normal((3, 3)), generator.standard_normal((4, 1))

# %% [markdown]
# To convert the tanh network, use `tanh V = 2 σ(2V) - 1`. A logistic unit with `W' = 2W` has the output
# `σ(V') = (tanh V + 1) / 2`. The next layer compensates for this: since `w tanh V = 2w σ(V') - w`, its weights are
# doubled, and their sum is subtracted from its bias. This is an affine change of all parameters.


# %%
def as_logistic(W, w):
    w_there = 2 * w
    w_there[0] = w[0] - w[1:].sum(axis=0)
    return [2 * W, w_there]


starts = {"tanh": [W, w], "logistic": as_logistic(W, w)}
logits = {name: nets[name](x, t, *starts[name])[1] for name in nets}
print("largest difference of the logits:", np.abs(logits["tanh"] - logits["logistic"]).max())

# %% [markdown]
# `train` trains both networks. Its argument `rule` computes a step from the activities `a` and the values `B` of a
# layer. Start with gradient descent: since `∂ℓ/∂w_ij = a_i B_j`, the gradient is the mean of `a_i B_j` over the
# examples.


# %%
def gradient(a, B):
    return a.T @ B / len(a)


def train(rule, rate, steps=150):
    """Costs of both networks at each step, and the largest difference of their final probabilities."""
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


def report(name, costs, difference):
    last = f"{costs['tanh'][-1]:.3f} and {costs['logistic'][-1]:.3f}"
    print(f"{name:<15} costs {last}, probabilities differ by up to {difference:.0e}")


report("gradient", *train(gradient, rate=0.5))

# %% [markdown]
# ## The full Fisher metric
#
# With a probability `π = σ(o)` as output, the Fisher matrix of the whole network is the mean of `π (1 - π) JᵀJ`. `J` is
# the row `∂o/∂θ` of an example. This is the **Gauss–Newton matrix** of tutorial 8. With a million parameters it is too
# large. Either use only products with it, as in tutorial 8, or use a smaller matrix.
#
# ## The unitwise metric
#
# First, replace the expectation under the model by the data: the **outer product metric** is the mean of `g gᵀ` over
# the examples. Then keep only the blocks of weights that lead *into the same unit* `j`. Since `g_ij = a_i B_j`,
#
# ```
# M⁽ʲ⁾_ik = mean of a_i a_k B_j²
# ```
#
# This is the **unitwise outer product metric**. Backpropagation has already computed all its values. For each unit,
# solve one small linear system:


# %%
def unitwise(a, B, epsilon=0.0):
    steps = []
    for j in range(B.shape[1]):
        g = a * B[:, [j]]  # for each example: ∂ℓ/∂(weights into unit j)
        M = g.T @ g / len(a) + epsilon * np.eye(a.shape[1])  # ε: damping, see below
        steps.append(np.linalg.solve(M, g.mean(axis=0)))
    return np.array(steps).T


# %% [markdown]
# ## The quasi-diagonal metric
#
# If a unit has many inputs, even its block is large. The diagonal alone is cheap, but not invariant. To see this,
# compare the activities: those of a logistic unit are those of a tanh unit, scaled and shifted. Scaling keeps the
# metric diagonal, but a shift mixes each weight with the bias. So keep the diagonal *and the row of the bias*, `i = 0`.
# The step is then (Ollivier, eqs 34–35)
#
# ```
# δ_i = (G_i - G_0 M_0i / M_00) / (M_ii - M_0i² / M_00)      for i ≠ 0
# δ_0 = G_0 / M_00 - Σ_i≠0 (M_0i / M_00) δ_i
# ```
#
# `M_0i / M_00` is the mean of `a_i`, weighted by `B_j²`. So the numerator is a covariance and the denominator a
# variance *about this mean*. A shift of `a_i` does not change them.


# %%
def diagonal(a, B):
    return gradient(a, B) / ((a * a).T @ (B * B) / len(a))


def quasi_diagonal(a, B):
    G = gradient(a, B)
    M_ii = (a * a).T @ (B * B) / len(a)
    M_0i = a.T @ (B * B) / len(a)  # because a_0 = 1; row 0 is M_00
    mean = M_0i[1:] / M_0i[0]
    step = np.empty_like(G)
    step[1:] = (G[1:] - G[0] * mean) / (M_ii[1:] - M_0i[1:] * mean)
    step[0] = G[0] / M_0i[0] - (mean * step[1:]).sum(axis=0)
    return step


# %% [markdown]
# ## Compare the metrics

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
    report(name, costs, difference)
panels[0].legend(frameon=False)
panels[0].grid(alpha=0)

# %% [markdown]
# With the quasi-diagonal and the unitwise metric, the steps of both networks agree up to rounding. With the gradient
# and the diagonal, they differ. In this example, the invariant metrics also train faster, but this is not always so.
#
# ## Common errors
#
# - **Damping.** If a unit hardly affects the output, its metric is almost zero, and the inverse is very large. So in
#   practice you add `ε I` to the metric. But the additional length `ε |δ|²` depends on the parametrization, so the
#   steps are no longer invariant:


# %%
for epsilon in (0.0, 1e-6, 1e-4, 1e-2):
    report(f"ε = {epsilon:g}", *train(lambda a, B, epsilon=epsilon: unitwise(a, B, epsilon), 0.02))

# %% [markdown]
# - **Too few examples.** With fewer examples than a unit has inputs, the mean of `g gᵀ` is singular.
# - **Initial weights.** Both networks must start as the same function. Here we converted the weights.
#
# ## Recurrent networks
#
# A recurrent network uses the same weights at each time step. Unroll the network, and treat each time step as a layer.
# All these layers share their weights. The metric of the shared weights is the *sum over time* (Ollivier, definition
# 6). So the recurrent unitwise metric is
#
# ```
# M⁽ʲ⁾_ik = Σ_t mean of a_i a_k B_j²,  a and B those of step t
# ```
#
# You need no new code: stack the rows of all time steps. graphnet does this for any cost, and finds the weights of each
# unit in the graph. First test it on the network from above, where you know the steps:

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
print("largest difference of the steps, by hand and by graphnet:", np.abs(step - by_hand).max())

# %% [markdown]
# Next, take a network of three units that reads five numbers, and predicts whether the last is greater than the first.

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
# The state 0 of a tanh unit is 1/2 for a logistic unit: V = b + x W_x + h W_h with h = 2 s - 1.
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
    report(name, *train_recurrent(rnn.riemannian.OuterProduct(reduction, outputs="same", damping=0.0), 0.01))

# %% [markdown]
# The steps are invariant for a recurrent network, too. (For other data, units may saturate, and you need damping.
# `rnn.Riemannian` adapts its learning rate; `rnn.NaturalGradient` trains on minibatches.)
#
# ## Exercises
#
# ### Exercise 1
#
# The inputs are inverted: the network gets `1 - x` instead of `x`. Write `inverted(W)`. It takes the matrix `W` of a
# layer `V = [1, x] W`, and returns the matrix that gives the same `V` from `[1, 1 - x]`.

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
    hint="b + x W = b + 1·W - (1 - x) W, where 1·W is the sum of the rows of W. Do not change the argument in place.",
)

# %% [markdown]
# ### Exercise 2
#
# Take another coin: 9 heads out of 10, `p = 0.5`, learning rate `ε = 0.5`, with the parameter `p`. What is `p` after
# one natural-gradient step? (`C = -0.9 ln p - 0.1 ln (1 - p)`, and `F_p = 1 / (p (1 - p))`.)

# %%
answer_2 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    2,
    answer_2,
    solution=0.7,
    wrong=[0.9, 1.3, 0.5, 0.3, 3.7],
    hint="The gradient is -0.9/0.5 + 0.1/0.5. Divide it by 4, multiply by -ε, and add the result to p.",
)

# %% [markdown]
# ### Exercise 3
#
# The values `B_j²` are noisy, because they depend on the targets. The *backpropagated metric* replaces them by their
# expectation `m_j` under the predictions of the model. At the output, `m = π (1 - π)`. For a hidden unit that leads to
# a single output, `V → s(V) → o`, the chain rule gives `m_j = s'(V_j)² w_j² π (1 - π)`.
#
# Write `modulus(activity, w, pi)` for *tanh* units. `activity` has the shape (examples, units). `w` are the weights to
# the output without the bias, (units, 1). `pi` has the shape (examples, 1). The function returns `m`, (examples,
# units).

# %%
answer_3 = ...


# %% tags=["hide-input"] jupyter={"source_hidden": true}
def is_modulus(modulus):
    # The exact expectation of B²: B for the answer yes, weighted by π, and for no, weighted by 1 - π.
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
    hint="Square the slope of tanh, 1 - activity², and also w. w.T is a row with one element for each unit.",
)

# %% [markdown]
# Sources: Ollivier 2013, *Riemannian metrics for neural networks*, I (feedforward networks) and II (recurrent
# networks: eqs 26–27 unitwise, 34–35 quasi-diagonal, 52–53 metrics in time); Amari 1998 (natural gradient);
# Schraudolph 2002 (Gauss–Newton and Fisher). Continue with [Natural-gradient training](../docs/natural_gradient.md).
