# %% [markdown]
# # 6 · Write, check and train a recurrent cell
#
# *Reading time: 13 minutes.* After this lesson you can write your own recurrent cell, draw it, test it, train it, and
# read what its weights have learned. You need nodes and gradients (tutorials 1 to 3).
#
# A recurrent network applies the same small set of equations, the **cell**, at each time step. The cell passes its
# **state** from one time step to the next. The state is its only memory.

# %%
import matplotlib.pyplot as plt
import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
import viz

from exercises import check

plt.style.use("tableau-colorblind10")

# %% [markdown]
# ## A task that needs memory
#
# At each time step the network reads two numbers, a *value* and a *flag*. The target is the value at the last step
# whose flag was 1. (In electronics, this is *sample and hold*.)
#
# | step | 1 | 2 | 3 | 4 | 5 |
# |---|---|---|---|---|---|
# | value | 0.5 | −0.8 | 0.3 | 0.9 | −0.2 |
# | flag | **1** | 0 | **1** | 0 | 0 |
# | target | 0.5 | 0.5 | 0.3 | 0.3 | 0.3 |
#
# At step 5 the network must ignore the value −0.2 and return the value from two steps before. A function of the
# current input alone cannot do this.
#
# ## Solve it by hand with a gate
#
# Use a state `h` and a switch `gₜ`, which is 1 where the flag is 1 and 0 elsewhere:
#
# ```
# hₜ = (1 - gₜ) hₜ₋₁ + gₜ vₜ
# ```
#
# With `gₜ = 0` the state remains unchanged. With `gₜ = 1` the value replaces it. But the derivative of a hard switch
# is zero, so gradient descent cannot train it. Use a smooth switch instead, a **gate**: `g = σ(12 · flag - 6)`, with
# the logistic function `σ(a) = 1 / (1 + e^(-a))`. For flag 0 the gate is `σ(-6) = 0.0025`, nearly closed. For flag 1
# it is `σ(6) = 0.9975`, nearly open. Compute the first two steps from `h₀ = 0`:
#
# ```
# h₁ = 0.0025 · 0      + 0.9975 · 0.5    = 0.4988
# h₂ = 0.9975 · 0.4988 + 0.0025 · (-0.8) = 0.4956
# ```
#
# Compute the whole table in NumPy:

# %%
value = np.array([0.5, -0.8, 0.3, 0.9, -0.2])
flag = np.array([1, 0, 1, 0, 0])
h = 0.0
for v, s in zip(value, flag, strict=True):
    g = 1 / (1 + np.exp(-(12 * s - 6)))
    h = (1 - g) * h + g * v
    print(f"value {v:+.1f}   flag {s}   gate {g:.4f}   state {h:+.4f}")

# %% [markdown]
# ## Write the cell
#
# By hand we chose 12 and −6 for the gate, and read the value but not the flag. In a cell these numbers are weights,
# which training finds. With the input `xₜ` = (value, flag), the equations are
#
# ```
# gₜ = σ(xₜ W_xg + b_g)
# vₜ = xₜ W_xv + b_v
# hₜ = (1 - gₜ) hₜ₋₁ + gₜ vₜ
# ```
#
# In graphnet, a cell is a class with a method `step`. It takes `x` and the states, and returns the new states.
# `self.affine("g", x=x)` computes `xₜ W_xg + b_g`. You do not list the weights: `affine` creates `W_xg` and `b_g`, and
# names them after the equation.


# %%
class Latch(rnn.Cell):
    """g = σ(x W_xg + b_g);  h' = (1 - g) h + g (x W_xv + b_v)"""

    states = (rnn.State("h"),)

    def step(self, x, h):
        g = gn.sigmoid(self.affine("g", x=x))
        return (1 - g) * h + g * self.affine("v", x=x)


# %% [markdown]
# This is all that you have to write. graphnet derives the unrolled network, the derivatives, the pictures and the model
# file from it. Draw the cell: black squares are data and weights, circles are operations. Blue arrows come from inputs,
# the red arrow leads to the result. (▷ copies the bias for each case of a batch.)

# %%
viz.draw(Latch(1))

# %% [markdown]
# The compact style writes the weights on the arrows, as in papers. Follow the path of `hₜ₋₁`: it passes one
# multiplication and one addition, and becomes `hₜ`. The gate multiplies this path, but is not a part of it.
# [Tutorial 7](07_vanishing_gradients.py) shows why this is important.

# %%
viz.draw(Latch(1), style="compact")

# %% [markdown]
# ## Test the cell
#
# Test a cell before you train it. `check_cell` compares derivatives with finite differences, the unrolled graph with a
# plain loop, the Gauss–Newton matrix (tutorial 8) with an explicit one, and float32 with float64.

# %%
rnn.testing.check_cell(Latch, report=lambda law, found: print(f"{law:<14}{found}"))

# %% [markdown]
# ## Unroll the network over time
#
# A `Network` adds an output layer `oₜ = hₜ W_ho + b_o` and a loss to its cells. `unroll` writes the equations for each
# time step, all with the *same* weights. The picture shows four time steps; each box is the cell from above.

# %%
net = rnn.Network([Latch(1)], inputs=2, outputs=1, loss="squared", seed=1)
print(net)
viz.draw(net.unroll(time=4, batch=1, initial="zero"))

# %% [markdown]
# An unrolled network consists of ordinary nodes: `u.inputs`, `u.targets`, `u.logits` (the outputs, time first),
# `u.cost` (the mean loss), and `u.after[t]` (the states after step `t`).
#
# The weights are arrays in `net.parameters`. Set them to the values that we found by hand, and run the network on the
# table. `rnn.run` takes an array of the shape (time, batch, inputs).

# %%
for name, numbers in {
    "layer0.W_xg": [[0], [12]],  # value, flag -> gate
    "layer0.b_g": [-6],
    "layer0.W_xv": [[1], [0]],  # value, flag -> v
    "layer0.b_v": [0],
    "output.W_ho": [[1]],
    "output.b_o": [0],
}.items():
    net.parameters[name].value[...] = numbers

x = np.stack([value, flag], axis=1)[:, None, :]  # (5, 1, 2): five steps, one case, two numbers
outputs, states = rnn.run(net, x)
print(outputs[:, 0, 0].round(4))

# %% [markdown]
# The outputs are the same as those of the NumPy loop. So the cell can solve the task with these weights. Next, find
# such weights by training.
#
# ## Train the network
#
# First, generate random training data. The flag is 1 at about a fifth of the steps.


# %%
def practice(generator, time=20, batch=64):
    """Inputs (time, batch, 2) and targets (time, batch, 1)."""
    value = generator.uniform(-1, 1, (time, batch))
    flag = generator.random((time, batch)) < 0.2
    flag[0] = True  # the target is defined from the first step on
    held = np.empty_like(value)
    for t in range(time):
        held[t] = np.where(flag[t], value[t], held[t - 1])
    return np.stack([value, flag], axis=2).astype("float32"), held[:, :, None].astype("float32")


# %% [markdown]
# Then train. The same four steps work for each cell:
#
# 1. Unroll the network.
# 2. Create an *objective*: the cost as a function of all weights.
# 3. Choose an optimizer.
# 4. Minimize, with a new batch of sequences at each step.


# %%
def train(cell, seed=1, steps=800):
    net = rnn.Network([cell], inputs=2, outputs=1, loss="squared", seed=seed)
    u = net.unroll(time=20, batch=64, initial="zero")
    objective = rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets])
    generator = np.random.default_rng(0)
    result = rnn.minimize(
        objective, rnn.Adam(rate=0.03), steps=steps, feed=lambda step: objective.feed(*practice(generator))
    )
    return net, [report.loss for report in result.reports]


latch, latch_losses = train(Latch(1))
# The Elman cell, also with one unit: h' = tanh(x W_xh + h W_hh + b_h)
elman, elman_losses = train(rnn.Elman(1))

figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
axes.semilogy(latch_losses, label=f"Latch(1), {latch.theta.size} weights")
axes.semilogy(elman_losses, label=f"Elman(1), {elman.theta.size} weights")
axes.set(xlabel="training step", ylabel="mean squared error", title="Sample and hold")
axes.legend(frameon=False)
axes.grid(alpha=0.3)

# %% [markdown]
# With a single unit, the Elman cell cannot solve the task: it adds value, flag and state with the same weights at
# every step, so it cannot switch. The latch needs a few hundred training steps to find the solution. Print its
# weights:

# %%
for name, node in latch.parameters.items():
    print(f"{name:<13}{node.value.ravel().round(2)}")
write = latch.parameters["layer0.W_xv"].value.ravel() * latch.parameters["output.W_ho"].value.item()
print("from (value, flag) through v to the output:", write.round(2))

# %% [markdown]
# The gate depends on the flag (large weight, negative bias), and hardly on the value. The weights from the value
# through `v` to the output multiply to about 1. Gradient descent has found our solution. (The sign of the state is
# arbitrary: if both factors are negative, their product is the same. Another seed may give the other sign.)
#
# Plot the gate on a new sequence:

# %%
x, target = practice(np.random.default_rng(5), time=40, batch=1)
output, _ = rnn.run(latch, x)
weights = {name: node.value for name, node in latch.parameters.items()}
gate = 1 / (1 + np.exp(-(x[:, 0] @ weights["layer0.W_xg"] + weights["layer0.b_g"])))

steps = np.arange(1, 41)
figure, (top, bottom) = plt.subplots(
    2, figsize=(7, 4.2), layout="constrained", sharex=True, height_ratios=[3, 1]
)
top.plot(steps, x[:, 0, 0], "o", markersize=4, color="#bbbbbb", label="value")
top.step(steps, target[:, 0, 0], where="mid", linewidth=5, alpha=0.35, label="target")
top.step(steps, output[:, 0, 0], where="mid", color="black", linewidth=1.2, label="output")
top.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0)
bottom.bar(steps, gate[:, 0], color=np.where(x[:, 0, 1] > 0, "#c85200", "#5f9ed1"))
bottom.set(xlabel="time step (orange: the flag is 1)", ylabel="gate", ylim=(0, 1.05))
top.grid(alpha=0.3)

# %% [markdown]
# The network was trained on 20 time steps and runs on 40, because its weights do not depend on the sequence length.
# The output drifts slowly, because the closed gate is not exactly 0: it lets `σ(-4.3) = 0.014` of each new value pass.
#
# You can extend this cell. If the gate also reads the state, `self.affine("g", x=x, h=h)`, the cell is similar to the
# minimal gated unit. With a second gate, it is similar to a GRU. `rnn.cells.ALL` lists about thirty cells.
#
# A `rnn.Trainer` adds epochs, validation and files, for arrays and for text ([tutorial 9](09_from_text_to_novel.py)).
#
# ## Common errors
#
# Errors in a cell show the line of the equation and how to fix it. These errors are frequent:


# %%
def show_error(attempt):
    try:
        attempt()
    except Exception as error:
        print(f"{type(error).__name__}: {error}\n")


class WithNumPy(rnn.Cell):
    states = (rnn.State("h"),)

    def step(self, x, h):
        return np.tanh(self.affine("h", x=x, h=h))  # a NumPy function applied to a node


class Forgetful(rnn.Cell):
    states = (rnn.State("h"), rnn.State("m"))

    def step(self, x, h, m):
        return gn.tanh(self.affine("h", x=x, h=h, m=m))  # two states declared, one returned


class Branching(rnn.Cell):
    states = (rnn.State("h"),)

    def step(self, x, h):
        a = self.affine("h", x=x, h=h)
        return a if a > 0 else 0 * a  # a node has no value yet, so `if` fails


for cell in (WithNumPy, Forgetful, Branching):
    show_error(lambda cell=cell: rnn.Network([cell(3)], inputs=2, outputs=1, loss="squared"))
show_error(lambda: rnn.run(latch, x[:, 0]))  # the batch axis is missing

# %% [markdown]
# The next mistake raises no error, and the network even learns. The cell divides by the norm of the whole batch,
# instead of the norm of each case. So the output for a sequence depends on the other sequences in the batch.
# `check_cell` finds this mistake:


# %%
class Mixing(rnn.Cell):
    states = (rnn.State("h"),)

    def step(self, x, h):
        a = self.affine("h", x=x, h=h)
        return a / gn.sqrt(1 + gn.sum(a * a))  # correct: gn.sum(a * a, axis=1, keepdims=True)


show_error(lambda: rnn.testing.check_cell(Mixing))

# %% [markdown]
# ## Exercises
#
# ### Exercise 1
#
# How many weights does `Latch(5)` have in a network with 3 inputs? Do not count the output layer. Compute it on paper.

# %%
answer_1 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    1,
    answer_1,
    solution=40,
    wrong=[30, 35, 20, 46, 65],
    hint="There are two affine maps. Each has a 3 × 5 matrix, and a bias for each of the 5 units.",
)

# %% [markdown]
# ### Exercise 2
#
# Write a cell whose state is a running maximum: the largest value of `xₜ W_xh` so far. Use no bias (`bias=None`).
# `gn.maximum(a, b)` is the elementwise maximum of two nodes. The answer is the class.

# %%
answer_2 = ...


# %% tags=["hide-input"] jupyter={"source_hidden": true}
class RunningMaximum(rnn.Cell):
    states = (rnn.State("h"),)

    def step(self, x, h):
        return gn.maximum(h, self.affine("h", x=x, bias=None))


class NoMemory(RunningMaximum):
    def step(self, x, h):
        return gn.maximum(0 * h, self.affine("h", x=x, bias=None))


class MaximumOfSum(RunningMaximum):
    def step(self, x, h):
        return gn.maximum(h, h + self.affine("h", x=x, bias=None))


class WithBias(RunningMaximum):
    def step(self, x, h):
        return gn.maximum(h, self.affine("h", x=x))


def is_running_maximum(cell):
    rnn.testing.check_cell(cell)
    net = rnn.Network([cell(3)], inputs=2, outputs=1, loss="squared")
    x = np.random.default_rng(0).standard_normal((7, 4, 2)).astype("float32")
    u = net.unroll(time=7, batch=4, initial="zero")
    (found,) = gn.compile([u.hidden[0]], [u.inputs])(x)
    expected = np.maximum.accumulate(np.maximum(x @ net.parameters["layer0.W_xh"].value, 0))
    return list(net.parameters) == ["layer0.W_xh", "output.W_ho", "output.b_o"] and np.allclose(
        found, expected, atol=1e-5
    )


check(
    2,
    answer_2,
    solution=RunningMaximum,
    wrong=[rnn.Elman, Latch, NoMemory, MaximumOfSum, WithBias],
    right=is_running_maximum,
    hint="Write class RunningMaximum(rnn.Cell) with the states of Latch. Its step is one line: the maximum of h and "
    'self.affine("h", x=x, bias=None).',
)

# %% [markdown]
# ### Exercise 3
#
# Write a cell with *two* states. `m` is the last input, `mₜ = xₜ W_xm`. `h` is the change of the input since then,
# `hₜ = xₜ W_xm - mₜ₋₁`. Use no bias. `step(self, x, h, m)` returns both states, in the order of `states`.

# %%
answer_3 = ...


# %% tags=["hide-input"] jupyter={"source_hidden": true}
class Change(rnn.Cell):
    states = (rnn.State("h"), rnn.State("m"))

    def step(self, x, h, m):
        new = self.affine("m", x=x, bias=None)
        return new - m, new


class AlwaysZero(Change):
    def step(self, x, h, m):
        m = self.affine("m", x=x, bias=None)
        return self.affine("m", x=x, bias=None) - m, m


class WrongOrder(Change):
    def step(self, x, h, m):
        new = self.affine("m", x=x, bias=None)
        return new, new - m


class WrongSign(Change):
    def step(self, x, h, m):
        new = self.affine("m", x=x, bias=None)
        return m - new, new


def is_change(cell):
    rnn.testing.check_cell(cell)
    net = rnn.Network([cell(3)], inputs=2, outputs=1, loss="squared")
    x = np.random.default_rng(0).standard_normal((7, 4, 2)).astype("float32")
    u = net.unroll(time=7, batch=4, initial="zero")
    (found,) = gn.compile([u.hidden[0]], [u.inputs])(x)
    read = x @ net.parameters["layer0.W_xm"].value
    return np.allclose(found, np.diff(read, axis=0, prepend=0 * read[:1]), atol=1e-5)


check(
    3,
    answer_3,
    solution=Change,
    wrong=[AlwaysZero, WrongOrder, WrongSign],
    right=is_change,
    hint="First compute new = self.affine(...), once. Then return new - m, new.",
)

# %% [markdown]
# [Write your own RNN cell](../docs/declaring_cells.md) explains all features of cells: peepholes, layer normalization,
# dropout, and cells inside cells. Next: [vanishing gradients](07_vanishing_gradients.py).
