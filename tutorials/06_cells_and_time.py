# %% [markdown]
# # 6 · Cells and time
#
# *Reading time: 13 minutes.* You will invent a recurrent cell, and end with one whose weights read like a sentence.
# It helps to know nodes and gradients (tutorials 1 to 3).
#
# A recurrent network is one small set of equations, the **cell**, applied again and again, once for each time step.
# What it hands from each step to the next is its **state**: all that it remembers.

# %%
import matplotlib.pyplot as plt
import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
import viz

from exercises import check

plt.style.use("tableau-colorblind10")

# %% [markdown]
# ## A task that needs a memory
#
# At each step we get two numbers, a *value* and a *flag*. The answer is the value at the last step whose flag was 1.
# Electronics calls it sample and hold:
#
# | step | 1 | 2 | 3 | 4 | 5 |
# |---|---|---|---|---|---|
# | value | 0.5 | −0.8 | 0.3 | 0.9 | −0.2 |
# | flag | **1** | 0 | **1** | 0 | 0 |
# | answer | 0.5 | 0.5 | 0.3 | 0.3 | 0.3 |
#
# At step 5 the value −0.2 is of no use: what counts was seen two steps before. No function of the present input can
# do it.
#
# ## The equations, by hand
#
# A switch `gₜ` would do: 1 where the flag is 1, else 0. Then, with a state `h`,
#
# ```
# hₜ = (1 - gₜ) hₜ₋₁ + gₜ vₜ
# ```
#
# With `gₜ = 0` the state stays as it is; with `gₜ = 1` it is replaced. But a step has no derivative that could teach
# it anything, so take a soft switch, a **gate**: `g = σ(12 · flag - 6)`, with `σ(a) = 1 / (1 + e^(-a))`. Flag 0 gives
# `σ(-6) = 0.0025`, nearly closed, and flag 1 gives `σ(6) = 0.9975`, nearly open. The first two steps, from `h₀ = 0`:
#
# ```
# h₁ = 0.0025 · 0      + 0.9975 · 0.5    = 0.4988
# h₂ = 0.9975 · 0.4988 + 0.0025 · (-0.8) = 0.4956
# ```
#
# And the whole table, in NumPy:

# %%
value = np.array([0.5, -0.8, 0.3, 0.9, -0.2])
flag = np.array([1, 0, 1, 0, 0])
h = 0.0
for v, s in zip(value, flag, strict=True):
    g = 1 / (1 + np.exp(-(12 * s - 6)))
    h = (1 - g) * h + g * v
    print(f"value {v:+.1f}   flag {s}   gate {g:.4f}   state {h:+.4f}")

# %% [markdown]
# ## The same as a cell
#
# We chose 12, −6 and "read the value, not the flag" ourselves. A cell leaves them open: they are weights, to be
# learned. With the input `xₜ` = (value, flag),
#
# ```
# gₜ = σ(xₜ W_xg + b_g)
# vₜ = xₜ W_xv + b_v
# hₜ = (1 - gₜ) hₜ₋₁ + gₜ vₜ
# ```
#
# In the library this is a class with one method, `step`. It gets `x` and the states, and returns the new states.
# `self.affine("g", x=x)` stands for `x W_xg + b_g`: the weights are declared by being used, and get their names from
# the equation.


# %%
class Latch(rnn.Cell):
    """g = σ(x W_xg + b_g);  h' = (1 - g) h + g (x W_xv + b_v)"""

    states = (rnn.State("h"),)

    def step(self, x, h):
        g = gn.sigmoid(self.affine("g", x=x))
        return (1 - g) * h + g * self.affine("v", x=x)


# %% [markdown]
# That is all that you write. Unrolling, derivatives, pictures, training and files follow from it. A cell can be drawn
# as soon as it is declared. Black squares are data and weights, circles are operators, blue arrows come from what is
# given, the red one leads to the result. (▷ copies the bias for each case of a batch.)

# %%
viz.draw(Latch(1))

# %% [markdown]
# The same picture with the weights written on the arrows, as papers draw it. Follow `hₜ₋₁`: it passes one × and one
# +, and is `hₜ`. The gate sits beside that road, not on it. [Tutorial 7](07_vanishing_gradients.py) shows why this
# matters.

# %%
viz.draw(Latch(1), style="compact")

# %% [markdown]
# ## Check it
#
# Before you train a cell, let it be held to the laws. Derivatives are compared with finite differences, the unrolled
# graph with a plain loop, the Gauss-Newton matrix (tutorial 8) with one made by hand, float32 with float64.

# %%
rnn.testing.check_cell(Latch, report=lambda law, found: print(f"{law:<14}{found}"))

# %% [markdown]
# ## Time: the unrolled graph
#
# A `Network` puts an output layer `oₜ = hₜ W_ho + b_o` and a loss behind its cells. `unroll` writes the equations
# out, one copy for each time step, all with the *same* weights. Here are four steps; each box is the whole picture
# from above.

# %%
net = rnn.Network([Latch(1)], inputs=2, outputs=1, loss="squared", seed=1)
print(net)
viz.draw(net.unroll(time=4, batch=1, initial="zero"))

# %% [markdown]
# An unrolled network is nothing but nodes: `u.inputs`, `u.targets`, `u.logits` (all outputs, time first), `u.cost`
# (the mean loss), `u.after[t]` (the states after step `t`).
#
# The weights are ordinary arrays in `net.parameters`. Put in those that we found by hand, and run the network on the
# table. `rnn.run` takes (time, batch, inputs): time comes first, then the cases that run side by side.

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
# The numbers of our loop. So the cell *can* do it. Will it find these weights by itself?
#
# ## Train it
#
# First, endless practice: random values, a flag on a fifth of the steps, and the right answers.


# %%
def practice(generator, time=20, batch=64):
    """Inputs (time, batch, 2) and targets (time, batch, 1)."""
    value = generator.uniform(-1, 1, (time, batch))
    flag = generator.random((time, batch)) < 0.2
    flag[0] = True  # so that there is always something to hold
    held = np.empty_like(value)
    for t in range(time):
        held[t] = np.where(flag[t], value[t], held[t - 1])
    return np.stack([value, flag], axis=2).astype("float32"), held[:, :, None].astype("float32")


# %% [markdown]
# Then four lines that serve every cell: unroll; make an *objective*, the cost as a function of all weights; choose an
# optimizer; minimise, with fresh sequences at every step.


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
# The classic cell, also with one unit: h' = tanh(x W_xh + h W_hh + b_h)
elman, elman_losses = train(rnn.Elman(1))

figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
axes.semilogy(latch_losses, label=f"Latch(1), {latch.theta.size} weights")
axes.semilogy(elman_losses, label=f"Elman(1), {elman.theta.size} weights")
axes.set(xlabel="step", ylabel="mean squared error", title="Learning to sample and hold")
axes.legend(frameon=False)
axes.grid(alpha=0.3)

# %% [markdown]
# With a single unit the plain recurrent cell cannot do it: it weighs value, flag and memory alike at every step, and
# cannot switch. The latch, after wandering about for some hundred steps, gets there. Now read what it has learned:

# %%
for name, node in latch.parameters.items():
    print(f"{name:<13}{node.value.ravel().round(2)}")
write = latch.parameters["layer0.W_xv"].value.ravel() * latch.parameters["output.W_ho"].value.item()
print("from (value, flag) through v to the output:", write.round(2))

# %% [markdown]
# The gate listens to the flag (large weight, negative bias) and hardly to the value. From the value, through `v`, to
# the output the weights multiply to about 1: our solution, found by descending a gradient. (The sign of the state is
# free: minus times minus is plus. Another seed may choose the other one.)
#
# And here is the gate at work on a sequence that the net has never seen:

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
top.step(steps, target[:, 0, 0], where="mid", linewidth=5, alpha=0.35, label="answer")
top.step(steps, output[:, 0, 0], where="mid", color="black", linewidth=1.2, label="output")
top.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0)
bottom.bar(steps, gate[:, 0], color=np.where(x[:, 0, 1] > 0, "#c85200", "#5f9ed1"))
bottom.set(xlabel="time step (orange: the flag is 1)", ylabel="gate", ylim=(0, 1.05))
top.grid(alpha=0.3)

# %% [markdown]
# It was trained on 20 steps and runs for 40: the weights know nothing of how long a sequence is. The slow drift is
# the gate, which is shut but not tight: `σ(-4.3) = 0.014` of each new value leaks in.
#
# A latch that is good for more is a matter of a few letters: let the gate see the state,
# `self.affine("g", x=x, h=h)`, and you are close to the minimal gated unit; add a second gate, and it is a GRU.
# `rnn.cells.ALL` has some thirty.
#
# A `rnn.Trainer` does the same with epochs, validation and files, for arrays as for text ([tutorial
# 9](09_from_text_to_novel.py)).
#
# ## What can go wrong
#
# Mistakes are told with the line of *your* equation and what to write instead. These are the ones that everybody
# makes.


# %%
def told(attempt):
    try:
        attempt()
    except Exception as error:
        print(f"{type(error).__name__}: {error}\n")


class WithNumPy(rnn.Cell):
    states = (rnn.State("h"),)

    def step(self, x, h):
        return np.tanh(self.affine("h", x=x, h=h))  # an array function on a node


class Forgetful(rnn.Cell):
    states = (rnn.State("h"), rnn.State("m"))

    def step(self, x, h, m):
        return gn.tanh(self.affine("h", x=x, h=h, m=m))  # two states declared, one returned


class Branching(rnn.Cell):
    states = (rnn.State("h"),)

    def step(self, x, h):
        a = self.affine("h", x=x, h=h)
        return a if a > 0 else 0 * a  # a node has no value yet, so it cannot choose


for cell in (WithNumPy, Forgetful, Branching):
    told(lambda cell=cell: rnn.Network([cell(3)], inputs=2, outputs=1, loss="squared"))
told(lambda: rnn.run(latch, x[:, 0]))  # the axis of the cases is missing

# %% [markdown]
# The next one is worse, since it runs and learns *something*: the length of the whole batch, where that of each case
# was meant. What the network says of one sequence then depends on its neighbours. Only the check finds it.


# %%
class Mixing(rnn.Cell):
    states = (rnn.State("h"),)

    def step(self, x, h):
        a = self.affine("h", x=x, h=h)
        return a / gn.sqrt(1 + gn.sum(a * a))  # meant: gn.sum(a * a, axis=1, keepdims=True)


told(lambda: rnn.testing.check_cell(Mixing))

# %% [markdown]
# ## Exercises
#
# ### Exercise 1
#
# How many weights has `Latch(5)` in a network with 3 inputs, those of the output layer not counted? Work it out on
# paper.

# %%
answer_1 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    1,
    answer_1,
    solution=40,
    wrong=[30, 35, 20, 46, 65],
    hint="Two affine maps. Each has a matrix of 3 by 5, and a bias for each of the 5 units.",
)

# %% [markdown]
# ### Exercise 2
#
# Write a cell whose state is the greatest value so far of `xₜ W_xh`, a running maximum. No bias (`bias=None`), and
# `gn.maximum(a, b)` is the greater of two nodes, element by element. Give the class as your answer.

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
    hint="class RunningMaximum(rnn.Cell), states as in Latch, and a step of one line: the greater of h and of what is "
    'read, self.affine("h", x=x, bias=None).',
)

# %% [markdown]
# ### Exercise 3
#
# Write a cell with *two* states: `m`, the last input, and `h`, how the input has changed since, `hₜ = xₜ W_xm - mₜ₋₁`
# and `mₜ = xₜ W_xm`, again without bias. `step(self, x, h, m)` returns both, in the order of `states`.

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
    hint="Keep what is read in a name of its own, new = ..., and only then return new - m, new.",
)

# %% [markdown]
# [Declaring a cell](../docs/declaring_cells.md) has the whole vocabulary: peepholes, layer normalisation, dropout,
# cells within cells. Next: [vanishing gradients](07_vanishing_gradients.py).
