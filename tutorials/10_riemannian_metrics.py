# %% [markdown]
# # 10 · Riemannian metrics: steps that do not depend on how you write the net
#
# *Reading time: 15 minutes. It helps to know gradients (tutorial 3) and the Gauss–Newton matrix (tutorial 8).*
#
# Write a net with tanh units. Write the same net, computing exactly the same function, with logistic units. Train both
# by gradient descent: they part at the first step. Nothing about the problem says which is right. Here you see why that
# is so, and build metrics that cure it, after Ollivier (2013): first for one number, then for a layer in a few lines
# of NumPy, at last through time. (The library's own optimisers of this kind are still to be written; all that you need
# to build one is here.)

# %%
import matplotlib.pyplot as plt
import numpy as np
from exercises import check

import graphnet as gn

plt.style.use("tableau-colorblind10")

# %% [markdown]
# ## One coin, two ways to write it
#
# A coin fell heads 7 times out of 10. The model says heads with probability $p$, its cost is
# $C = -0.7 \ln p - 0.3 \ln (1 - p)$, and it starts at $p = 0.5$. One step of gradient descent, with the rate 0.1:
#
# - Written with $p$ itself: $\frac{dC}{dp} = -\frac{0.7}{p} + \frac{0.3}{1 - p} = -0.8$, so $p = 0.5 + 0.1 \cdot 0.8 = 0.58$.
# - Written as $p = \sigma(\theta)$, with $\theta = 0$: $\frac{dC}{d\theta} = p - 0.7 = -0.2$, so $\theta = 0.02$ and
#   $p = \sigma(0.02) = 0.505$.
#
# The same model, data and rate, and one step is sixteen times as long as the other. For a small step $\varepsilon$,
# descent does
#
# $$\delta = -\varepsilon\,g \;=\; \text{the } \delta \text{ with the least}\quad g^{\mathsf T}\delta + \tfrac{1}{2 \varepsilon}\, |\delta|^2 :$$
#
# as far down as it can for its length. And *length* is measured in whatever numbers we happened to use.
#
# ## A ruler that asks what the model does
#
# A better ruler measures how much the *predictions* change. For probabilities that is the Kullback–Leibler divergence,
# which for a small change is $\tfrac12 F\,\delta^2$, with the **Fisher metric** $F = \mathbb E\bigl[(\tfrac{d}{d\theta}
# \ln p)^2\bigr]$. For our coin,
#
# $$F_p = p \cdot \frac{1}{p^2} + (1 - p) \cdot \frac{1}{(1 - p)^2} = \frac{1}{p (1 - p)} = 4, \qquad
# F_\theta = p\,(1 - p)^2 + (1 - p)\,p^2 = p (1 - p) = \tfrac14 .$$
#
# Least $g\,\delta + \frac{1}{2\varepsilon} F \delta^2$ gives the **natural gradient** step $\delta = -\varepsilon\,F^{-1} g$
# (Amari 1998). With the rate 0.1: in $p$, $\delta = 0.1 \cdot 0.8 / 4 = 0.02$. In $\theta$,
# $\delta = 0.1 \cdot 0.2 \cdot 4 = 0.08$, and $\sigma(0.08) = 0.51999$. They agree, but for what the curve of $\sigma$
# does within one step:

# %%
def sigmoid(a):
    return 1 / (1 + np.exp(-a))


for rate in (1.0, 0.1, 0.01):
    p, theta = 0.5, 0.0
    plain = p + rate * 0.8, sigmoid(theta + rate * 0.2)
    natural = p + rate * 0.8 / 4, sigmoid(theta + rate * 0.2 * 4)
    print(f"rate {rate:4}: p after a plain step {plain[0]:.5f} or {plain[1]:.5f}; natural {natural[0]:.5f} or {natural[1]:.5f}")

# %% [markdown]
# ## The rule in general
#
# A **metric** is a matrix $M(\theta)$ that measures changes, $|\delta|^2 = \delta^{\mathsf T} M \delta$, and the step
# is $\delta = -\varepsilon\,M^{-1} g$. Write the parameters differently, $\theta = A\varphi + c$. Then by the chain rule
#
# $$g_\varphi = A^{\mathsf T} g_\theta, \qquad M_\varphi = A^{\mathsf T} M_\theta A, \qquad
# A\,\delta_\varphi = A\,(A^{\mathsf T} M A)^{-1} A^{\mathsf T} g = M^{-1} g :$$
#
# the same step, exactly, however long. (Where the change of coordinates bends, it is the same up to second order in
# the rate, as with the coin.) All that a metric must do is to *transform like that*. Whatever is built of derivatives
# as $\mathbb E[g\,g^{\mathsf T}]$ does:

# %%
generator = np.random.default_rng(0)
per_example = generator.standard_normal((50, 3))  # 50 gradients, one in each row
A = generator.standard_normal((3, 3))
step = np.linalg.solve(per_example.T @ per_example, per_example.sum(axis=0))
rewritten = per_example @ A  # the same gradients in the other coordinates, g_φ = Aᵀ g_θ as rows
step_there = np.linalg.solve(rewritten.T @ rewritten, rewritten.sum(axis=0))
print(step, A @ step_there)

# %% [markdown]
# ## One net, written twice
#
# Two inputs, three hidden units, one logit $o$ for the answer yes. A column of ones in front of inputs and activities
# takes care of the biases, so a layer is one matrix:
#
# $$a^0 = [1, x], \quad V = a^0 W, \quad a^1 = [1, s(V)], \quad o = a^1 w, \qquad C = \text{mean of the cross entropies}.$$
#
# Besides the cost we ask the graph for $B = \partial \ell / \partial V$, one row for each example, and the same at
# the output. With the *sum* of the losses as output, the row of an example is its own derivative, since no other
# example depends on it: Ollivier's backpropagated values.

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
# Since $\tanh V = 2\,\sigma(2V) - 1$, a logistic unit with $W' = 2W$ sits at $\sigma(V') = (\tanh V + 1) / 2$. The next
# layer makes up for the rest: $w \tanh V = 2w\,\sigma(V') - w$, twice the weights, and their sum off the bias. An
# affine change of all parameters.

# %%
def as_logistic(W, w):
    w_there = 2 * w
    w_there[0] = w[0] - w[1:].sum(axis=0)
    return [2 * W, w_there]


starts = {"tanh": [W, w], "logistic": as_logistic(W, w)}
logits = {name: nets[name](x, t, *starts[name])[1] for name in nets}
print("largest difference between the two nets:", np.abs(logits["tanh"] - logits["logistic"]).max())

# %% [markdown]
# Train both, by any rule that turns a layer's activities $a$ and values $B$ into a step. Gradient descent first: with
# $\partial \ell / \partial w_{ij} = a_i B_j$, the gradient is the mean of $a_i B_j$ over the examples.

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
            cost, o, a0, B_hidden, a1, B_output = function(x, t, W, w)
            costs[name].append(float(cost))
            W -= rate * rule(a0, B_hidden)
            w -= rate * rule(a1, B_output)
        answers[name] = sigmoid(function(x, t, W, w)[1])
    return costs, np.abs(answers["tanh"] - answers["logistic"]).max()


costs, difference = train(gradient, rate=0.5)
print(f"cost with tanh {costs['tanh'][-1]:.3f}, with logistic {costs['logistic'][-1]:.3f}; probabilities differ by up to {difference:.2f}")

# %% [markdown]
# Same function, same data, same algorithm, and different nets.
#
# ## The full metric, from nodes
#
# What would be the Fisher matrix of the whole net? With a probability $\pi = \sigma(o)$ at the end it is
# $F = \mathbb E_x\bigl[\pi (1 - \pi)\, J^{\mathsf T} J\bigr]$, $J$ the row $\partial o / \partial \theta$ of an example:
# the **Gauss–Newton matrix** of tutorial 8, as always when a loss is joined with its own nonlinearity. We get $J$
# column by column, pushing each unit vector forward by `gn.rop`, and compare with the library's product.

# %%
W_node, w_node = gn.parameter(W, name="W"), gn.parameter(w, name="w")
v_W, v_w = gn.input(W.shape, "float64", name="v_W"), gn.input(w.shape, "float64", name="v_w")
one = gn.constant(np.ones((EXAMPLES, 1)))
o = gn.concatenate([one, gn.tanh(gn.constant(np.hstack([one.value, x])) @ W_node)], axis=1) @ w_node
cost = gn.mean(gn.sigmoid_cross_entropy(o, t))
tangents = {W_node: v_W, w_node: v_w}
push = gn.compile([*gn.rop([o], tangents), *gn.gauss_newton_product(cost, tangents)], inputs=[v_W, v_w])

J, G = [], []
for unit_vector in np.eye(W.size + w.size):
    column, G_W, G_w = push(unit_vector[: W.size].reshape(W.shape), unit_vector[W.size :].reshape(w.shape))
    J.append(column[:, 0])
    G.append(np.concatenate([G_W.ravel(), G_w.ravel()]))
J, G = np.array(J).T, np.array(G)

pi = sigmoid(logits["tanh"])
fisher = (pi * (1 - pi) * J).T @ J / EXAMPLES
print("Fisher", fisher.shape, "by hand and by the library differ by", np.abs(fisher - G).max())

# %% [markdown]
# For 13 parameters that is fine; for a million it is not. Either one never makes the matrix (tutorial 8), or one makes
# it smaller.
#
# ## Smaller, unit by unit
#
# Instead of the model's own expectation take the examples as they are: the **outer product metric** is the mean of
# $g\,g^{\mathsf T}$ over them. And of this keep only the blocks of weights that lead *into the same unit* $j$. As
# $g_{ij} = a_i B_j$,
#
# $$M^{(j)}_{ik} = \text{mean of } a_i\, a_k\, B_j^2 .$$
#
# This is the **unitwise outer product metric**. It needs nothing but the activities and the values that
# backpropagation has anyway. Solve one small system for each unit:

# %%
def unitwise(a, B):
    steps = []
    for j in range(B.shape[1]):
        g = a * B[:, [j]]  # per example: ∂loss/∂(weights into unit j)
        M = g.T @ g / len(a)
        steps.append(np.linalg.solve(M, g.mean(axis=0)))
    return np.array(steps).T


# %% [markdown]
# ## Smaller still: quasi-diagonal
#
# With many inputs to a unit even a block is large. Keeping only its diagonal is cheap, but it loses the invariance:
# logistic activities are shifted ones, and a shift mixes every weight with the bias. So keep the diagonal *and the row
# of the bias*, $i = 0$. The step is then (Ollivier, eqs 34–35)
#
# $$\delta_i = \frac{G_i - G_0\, M_{0i} / M_{00}}{M_{ii} - M_{0i}^2 / M_{00}} \ (i \ne 0), \qquad
# \delta_0 = \frac{G_0}{M_{00}} - \sum_{i \ne 0} \frac{M_{0i}}{M_{00}}\, \delta_i .$$
#
# Read it as statistics: $M_{0i}/M_{00}$ is the mean of $a_i$, weighted by $B_j^2$. So numerator and denominator are a
# covariance and a variance *about that mean*, which no shift of $a_i$ can change.

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
fig, panels = plt.subplots(1, 4, figsize=(11, 2.9), layout="constrained", sharey=True)
for axes, (name, rule, rate) in zip(
    panels,
    (
        ("gradient", gradient, 0.5),
        ("diagonal", diagonal, 0.02),
        ("quasi-diagonal", quasi_diagonal, 0.02),
        ("unitwise", unitwise, 0.02),
    ),
    strict=True,
):
    costs, difference = train(rule, rate)
    axes.plot(costs["tanh"], linewidth=5, alpha=0.35, label="tanh")
    axes.plot(costs["logistic"], color="black", linewidth=1.2, label="logistic")
    axes.set_title(f"{name}\ndifference {difference:.0e}", fontsize=10)
    axes.set_xlabel("step")
    print(f"{name:<15} cost {costs['tanh'][-1]:.3f} and {costs['logistic'][-1]:.3f}, probabilities differ by {difference:.0e}")
panels[0].set_ylabel("cost")
panels[0].legend(frameon=False);

# %% [markdown]
# With the quasi-diagonal and the unitwise metric the two nets make the same steps, to the last digits that a computer
# has. With gradient and diagonal each goes its own way. That the invariant ones are also faster here is a pleasant
# fact, not a theorem: one reason is that a unit whose $B$ is small, one that matters little yet, gets larger steps.
#
# ## What can go wrong
#
# - **Damping.** A unit that hardly matters for any example has a metric near zero, whose inverse is huge, so in
#   practice one adds $\varepsilon I$. But $\varepsilon I$ is the old ruler, and it breaks the invariance again, the more
#   the larger it is:

# %%
def damped(epsilon):
    def rule(a, B):
        steps = []
        for j in range(B.shape[1]):
            g = a * B[:, [j]]
            steps.append(np.linalg.solve(g.T @ g / len(a) + epsilon * np.eye(a.shape[1]), g.mean(axis=0)))
        return np.array(steps).T

    return rule


for epsilon in (0.0, 1e-6, 1e-4, 1e-2):
    costs, difference = train(damped(epsilon), 0.02)
    print(f"ε = {epsilon:g}: costs {costs['tanh'][-1]:.3f} and {costs['logistic'][-1]:.3f}, probabilities differ by {difference:.0e}")

# %% [markdown]
# - **Too few examples.** The mean of $g\,g^{\mathsf T}$ over $n$ examples has at most rank $n$; with fewer examples than
#   a unit has inputs it cannot be inverted at all.
# - **The scale of the loss.** Double the loss, and the outer product metric grows by four, the gradient by two: the
#   steps are *halved*. Rates do not carry over from gradient descent.
# - **Initial weights.** An invariant algorithm needs an invariant start. Standard normal weights in tanh units and in
#   logistic ones are different nets; we had to translate them.
#
# ## Through time
#
# In a recurrent net the same weights act at every step. Unfold it: each step is a layer with weights of its own that
# happen to be equal, and a change of the shared weights is measured by the *sum over time* of what it does at each step
# (Ollivier, definition 6). So the recurrent unitwise metric is
#
# $$M^{(j)}_{ik} = \sum_t \text{mean of } a_i^t\, a_k^t\, (B_j^{t})^2 ,$$
#
# and nothing has to be written anew: lay the rows of all time steps below each other, and call the same function. A net
# of three units that reads five numbers, and says whether the last is greater than the first:

# %%
STEPS = 5


def recurrent(s, h0):
    """arrays x (time, examples, 1), t, W (1 + 1 + 3, 3), w -> cost, logits, (a, B) of the units, (a, B) of the output."""
    x, t = gn.input((STEPS, EXAMPLES, 1), "float64"), gn.input((EXAMPLES, 1), "float64")
    W, w = gn.input((5, 3), "float64"), gn.input((4, 1), "float64")
    one = gn.constant(np.ones((EXAMPLES, 1)))
    h = gn.constant(np.full((EXAMPLES, 3), h0))
    a, V = [], []
    for step in range(STEPS):
        a.append(gn.concatenate([one, x[step], h], axis=1))
        V.append(a[-1] @ W)
        h = s(V[-1])
    last = gn.concatenate([one, h], axis=1)
    o = last @ w
    losses = gn.sigmoid_cross_entropy(o, t)
    *B, B_output = gn.backward({gn.sum(losses): 1.0}, [*V, o])
    rows = [gn.concatenate(a, axis=0), gn.concatenate(B, axis=0)]
    return gn.compile([gn.mean(losses), o, *rows, last, B_output], inputs=[x, t, W, w])


def as_logistic_recurrent(W, w):
    """V = b + x W_x + h W_h with h = 2 s - 1, and 2 V for the logistic function."""
    there = 2 * W
    there[2:] = 4 * W[2:]
    there[0] = 2 * (W[0] - W[2:].sum(axis=0))
    return [there, as_logistic(W, w)[1]]


# tanh starts from the state 0, which a logistic unit calls 1/2.
nets = {"tanh": recurrent(gn.tanh, 0.0), "logistic": recurrent(gn.sigmoid, 0.5)}
generator = np.random.default_rng(2)
x = generator.uniform(0, 1, (STEPS, EXAMPLES, 1))
rises = x[0] < x[-1]
t = (rises ^ (generator.random((EXAMPLES, 1)) < 0.1)).astype(float)
W, w = generator.standard_normal((5, 3)), generator.standard_normal((4, 1))
starts = {"tanh": [W, w], "logistic": as_logistic_recurrent(W, w)}

for name, rule, rate in (
    ("gradient", gradient, 2.5),
    ("quasi-diagonal", quasi_diagonal, 0.01),
    ("unitwise", unitwise, 0.01),
):
    costs, difference = train(rule, rate, steps=100)
    print(f"{name:<15} cost {costs['tanh'][-1]:.3f} and {costs['logistic'][-1]:.3f}, probabilities differ by {difference:.0e}")

# %% [markdown]
# Invariant in time, too. (We had luck with the numbers: with others, units saturate, their metric becomes singular, and
# damping is needed. Ollivier 2013, section 2, has a complete recipe, with damping, rates that adapt, gates and leaky
# units.)
#
# ## Exercises
#
# **1.** The pictures come inverted: instead of $x$ the net gets $1 - x$. Write `inverted(W)`, which turns the matrix
# $W$ of a layer $V = [1, x]\,W$ into the one that gives the same $V$ from $[1, 1 - x]$.

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
# **2.** A coin again: 9 heads out of 10, $p = 0.5$, the rate $\varepsilon = 0.5$, written with $p$. Where does one
# natural gradient step lead? ($C = -0.9 \ln p - 0.1 \ln (1 - p)$, and $F_p = 1 / (p\,(1 - p))$.)

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
# **3.** The *backpropagated metric* replaces $B_j^2$, which is noisy, by its expectation $m_j$ under the model's own
# predictions. At the output $m = \pi (1 - \pi)$; for a hidden unit that leads to one output only, by
# $V \to s(V) \to o$, the chain rule brings squares: $m_j = s'(V_j)^2\, w_j^2\, \pi (1 - \pi)$. Write
# `modulus(activity, w, pi)` for *tanh* units: activities (examples, units), $w$ the weights to the output, without the
# bias, (units, 1), and $\pi$ (examples, 1). It returns $m$, (examples, units).

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
