# %% [markdown]
# # 5 · Back ends and speed
#
# *Reading time: 10 minutes.* What a run costs in time and memory, where the time goes, and how to measure it without
# fooling yourself. Read [tutorial 4](04_what_the_optimizer_does.py) before. The seconds below are those of the
# machine that ran this page; run it on yours.

# %%
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import graphnet as gn
import viz

from exercises import check

# %% [markdown]
# ## Two back ends
#
# A graph says *what* is computed. A back end says *how*:
#
# `backend="numpy"` calls the `forward` rule of each node, in order. Slow and simple: it is the definition of what is
# right.
#
# `backend="numba"`, the one that you get without asking, turns the whole graph into machine code: fused loops, its
# own matrix products, all cores, and no Python between the first input and the last output.
#
# Our subject is the recurrent net of the last tutorial, now at the size of a small language model: cost and gradients
# of 50 steps.


# %%
def network(steps, batch=32, inputs=32, units=64):
    """Nodes of cost and gradients, and arrays for the inputs."""
    rng = np.random.default_rng(0)

    def weights(rows, columns, name):
        return gn.parameter((rng.standard_normal((rows, columns)) / rows**0.5).astype("float32"), name=name)

    W, U, V = weights(inputs, units, "W"), weights(units, units, "U"), weights(units, inputs, "V")
    x = gn.input((steps, batch, inputs), name="x")
    t = gn.input((steps, batch, inputs), name="t")
    h = gn.fill(0, (batch, units), "float32")
    costs = []
    for i in range(steps):
        h = gn.tanh(x[i] @ W + h @ U)
        costs.append(gn.mean(gn.squared_error(h @ V, t[i])))
    cost = gn.add(*costs)
    arrays = [rng.standard_normal(x.shape).astype("float32"), rng.standard_normal(t.shape).astype("float32")]
    return [cost, *gn.gradient(cost, [W, U, V])], arrays


nodes, arrays = network(steps=50)
start = time.perf_counter()
function = gn.compile(nodes)
print(f"{len(gn.Graph(nodes))} nodes, compiled in {time.perf_counter() - start:.2f} s")

# %% [markdown]
# (Machine code is kept in a cache on disk. The second time you compile this net, on any day, it takes less.)
#
# ## Measuring
#
# Three rules. *Warm up*: the first run of anything is slower. *Repeat*: other programs disturb, and they only ever
# make a run slower, never faster. *Say what you report*: the median is a typical run, the least an undisturbed one,
# and the mean is what one accident makes of it.


# %%
def seconds(function, arrays, repeats=15):
    """Of each of so many runs, after one that does not count."""
    function(*arrays)
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        function(*arrays)
        taken.append(time.perf_counter() - start)
    return np.array(taken)


candidates = {
    "numpy, as written": gn.compile(nodes, backend="numpy", passes=(), threads=1),
    "numpy, after passes": gn.compile(nodes, backend="numpy", threads=1),
    "numba, one core": gn.compile(nodes, threads=1),
    "numba, all cores": function,
}
measured = {name: 1e3 * seconds(candidate, arrays) for name, candidate in candidates.items()}
for name, runs in measured.items():
    print(f"{name:22} median {np.median(runs):6.2f} ms   least {runs.min():6.2f}   mean {runs.mean():6.2f}")

# %%
figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
for row, runs in enumerate(measured.values()):
    axes.barh(row, np.median(runs), color="#56B4E9")
    axes.plot(runs, np.full(len(runs), row), "k|", markersize=12)
axes.set_yticks(range(len(measured)), list(measured))
axes.invert_yaxis()
axes.set_xlabel("milliseconds; bars are medians, marks are single runs")
axes.grid(alpha=0.3, axis="x")

# %% [markdown]
# Are all cores faster than one, here? They meet after every few operations, and if another program has taken one of
# them, all wait. On a busy machine, or for small nets, one may win: measure. (For the same reason NumPy's products
# were told to use one core. Without `threads=1`, on a busy machine, we have seen them take thirty times as long.)
#
# The answers are the same to the precision of float32. The back end that compiles gives even the same *bits* with one
# core and with many, since every number is computed by one core, in one order:

# %%
one_core, all_cores, definition = (
    candidates[name](*arrays) for name in ("numba, one core", "numba, all cores", "numpy, as written")
)
print(all(np.array_equal(a, b) for a, b in zip(one_core, all_cores, strict=True)))
print(max(np.abs(a - b).max() for a, b in zip(all_cores, definition, strict=True)))

# %% [markdown]
# ## Where does the time go?
#
# Guesses are usually wrong. `profile` measures each node, and adds up by op, or by layer and time step where the
# graph says which ([tutorial 6](06_cells_and_time.py)):

# %%
profile = function.profile(*arrays)
for op, spent in list(profile.by_op().items())[:5]:
    print(f"{op:14}{1e6 * spent:8.0f} µs {spent / profile.total:6.0%}")

# %% [markdown]
# Products, most of it. The same as a picture, for a net of two steps: the warmer, the slower.

# %%
few_nodes, few_arrays = network(steps=2)
few = gn.compile(few_nodes[0])
viz.draw(few, notes=viz.times(few, *few_arrays))

# %% [markdown]
# A product of `n × k` with `k × m` numbers takes `n k m` multiplications and as many additions. That tells what to
# expect: here 32 × 64 times 64 × 64 is 262,144 operations, and a core that does 50 billion a second needs 5 µs. If
# your product takes 100 times as long, something else is the matter.
#
# ## Memory
#
# To go back, one must remember what happened on the way forward: every `h`. So memory grows with the number of steps.
# `function.memory` tells, before anything runs. With `memory="sqrt"`, only some `h` are kept, about √T of them, and
# what lies between is computed again when it is needed:

# %%
lengths = [25, 50, 100, 200]
kept, again = (
    [int(gn.compile(network(n)[0], memory=m).memory) / 2**20 for n in lengths] for m in (None, "sqrt")
)
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.plot(lengths, kept, "o-", label="keeps all")
axes.plot(lengths, again, "o-", label='memory="sqrt"')
axes.set_xlabel("time steps")
axes.set_ylabel("MiB")
axes.legend()
axes.grid(alpha=0.3)

# %%
saving = gn.compile(nodes, memory="sqrt")
runs = 1e3 * seconds(saving, arrays)
print(f"{function.memory}, median {np.median(measured['numba, all cores']):.2f} ms")
print(f"{saving.memory}, median {np.median(runs):.2f} ms")

# %% [markdown]
# A number of bytes, `memory=2_000_000`, is a budget: the function that does the least extra work within it.
#
# ## Keeping a function
#
# A compiled function can be put into a file. To run it, neither your equations nor a compiler is needed, only NumPy
# and graphnet:

# %%
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "gradient.gn"
    function.save(path)
    stored = gn.load_function(path)
    print(f"{path.stat().st_size / 1024:.0f} KiB, {stored}, parameters {', '.join(stored.parameters)}")
    print(np.array_equal(stored(*arrays)[1], function(*arrays)[1]))

# %% [markdown]
# ## What can go wrong
#
# NumPy makes float64 unless told otherwise, and nothing is rounded behind your back:

# %%
try:
    function(np.zeros((50, 32, 32)), arrays[1])
except gn.DtypeError as error:
    print(error)

# %% [markdown]
# An op that has only NumPy's `forward` (no `kernel`, [tutorial 2](02_three_rules_of_a_node.py)) does run inside a
# compiled function, but everything waits for Python meanwhile, and it cannot be put into a file:


# %%
class Softsign(gn.Op):
    """y = x / (1 + |x|)"""

    signature = "... -> ..."

    def forward(self, x):
        return x / (1 + np.abs(x))


z = gn.input((3,), name="z")
try:
    with tempfile.TemporaryDirectory() as folder:
        gn.compile([Softsign()(z)]).save(Path(folder) / "softsign.gn")
except gn.BackendError as error:
    print(error)

# %% [markdown]
# And a NaN, somewhere in ten thousand nodes? `check=True` names the first one, and your line:

# %%
careful = gn.compile([gn.sum(gn.sqrt(z - 1))], check=True)
try:
    careful([2.0, 1.0, 0.0])
except gn.NonFiniteError as error:
    print(error)

# %% [markdown]
# ### Exercise 1
# Five runs took 10.2, 9.8, 31.0, 9.9 and 10.0 ms. What did a typical run take?

# %%
answer_1 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    1,
    answer_1,
    solution=10.0,
    wrong=[14.18, 9.8, 31.0],
    hint="the median: sort them, and take the one in the middle.",
)

# %% [markdown]
# ### Exercise 2
# A core does 20 billion operations a second. How many microseconds does it need at least for a product of 100 × 200
# with 200 × 300 numbers?

# %%
answer_2 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    2,
    answer_2,
    solution=600,
    wrong=[300, 0.6, 0.0006, 3000],
    hint="100 · 200 · 300 multiplications and as many additions; a microsecond has 20,000 operations.",
)

# %% [markdown]
# ### Exercise 3
# Make a compiled function of one input of three float32 numbers which computes softsign *and can be saved*. Put the
# function in place of the dots. (You may write an op with a kernel, or do without a new op.)

# %%
answer_3 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
composed = gn.compile([z / (1 + abs(z))], inputs=[z])


def can_be_saved(candidate):
    place = np.array([-1.0, 0.0, 3.0], "float32")
    with tempfile.TemporaryDirectory() as folder:
        candidate.save(Path(folder) / "function")
        (result,) = gn.load_function(Path(folder) / "function")(place)
    return np.allclose(result, [-0.5, 0.0, 0.75])


check(
    3,
    answer_3,
    solution=composed,
    wrong=[
        gn.compile([Softsign()(z)]),
        gn.compile([gn.tanh(z)]),
        gn.compile([z / (1 + abs(z))], backend="numpy"),
    ],
    right=can_be_saved,
    hint="z / (1 + abs(z)) is made of ops that all have kernels; the numpy back end stores nothing.",
)

# %% [markdown]
# So far, every net was written by hand, step by step. [Tutorial 6](06_cells_and_time.py) says it once, as a cell, and
# lets time take care of itself.
