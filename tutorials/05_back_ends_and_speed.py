# %% [markdown]
# # 5 · Choose a back end, profile and measure speed
#
# *Reading time: 10 minutes.* After this lesson you can measure the time and memory of a compiled function, find its
# slow parts, trade time for memory, and save the function to a file. Read [tutorial 4](04_what_the_optimizer_does.py)
# first. The times on this page were measured on the machine that built it; run the notebook to measure yours.

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
# ## Choose a back end
#
# A graph defines the computation. A *back end* runs it:
#
# - `backend="numpy"` calls the `forward` rule of each node, in order. It is slow and simple, and serves as the
#   reference for correct results.
# - `backend="numba"` is the default. It compiles the whole graph to machine code: fused loops, its own matrix
#   products, all cores, and no Python between the first input and the last output. A browser cannot run this compiler,
#   so there NumPy computes instead: all times below are then about equal, and functions can be saved as C only.
#
# (On an NVIDIA GPU, use `backend="cuda"`: see [the guide](../docs/on_a_gpu.md).)
#
# The example is the recurrent network of tutorial 4, now with the size of a small language model: the cost and its
# gradients over 50 time steps.


# %%
def network(steps, batch=32, inputs=32, units=64):
    """Nodes of the cost and its gradients, and arrays for the inputs."""
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
# (graphnet stores machine code in a cache on disk. When you compile this network again, also in another process, it
# takes less time.)
#
# ## Measure the time of a function
#
# - *Warm up*: the first run is slower, so do not count it.
# - *Repeat*: other programs can make a run slower, never faster.
# - *Report which statistic you use*: the median is a typical run, and the minimum is an undisturbed run. A single slow
#   run can distort the mean.


# %%
def seconds(function, arrays, repeats=15):
    """The seconds of each run, after one run for warming up."""
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
    print(f"{name:22} median {np.median(runs):6.2f} ms   minimum {runs.min():6.2f}   mean {runs.mean():6.2f}")

# %%
figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
for row, runs in enumerate(measured.values()):
    axes.barh(row, np.median(runs), color="#56B4E9")
    axes.plot(runs, np.full(len(runs), row), "k|", markersize=12)
axes.set_yticks(range(len(measured)), list(measured))
axes.invert_yaxis()
axes.set_xlabel("milliseconds (bars: medians; marks: single runs)")
axes.grid(alpha=0.3, axis="x")

# %% [markdown]
# With all cores, a function is not always faster than with one, because the cores wait for each other after every few
# operations. For small networks or on a busy machine, one core may be as fast. The numba back end measures this now and
# then, and continues with the faster choice. (The NumPy measurements use `threads=1`. On a busy machine, NumPy's
# products with all cores can take thirty times as long.)
#
# All results agree to the precision of float32. With the numba back end, one core and all cores give the same *bits*,
# because one core computes each number, in a fixed order:

# %%
one_core, all_cores, definition = (
    candidates[name](*arrays) for name in ("numba, one core", "numba, all cores", "numpy, as written")
)
print(all(np.array_equal(a, b) for a, b in zip(one_core, all_cores, strict=True)))
print(max(np.abs(a - b).max() for a, b in zip(all_cores, definition, strict=True)))

# %% [markdown]
# ## Profile a function
#
# `profile` measures each node and sums the times by op. It can also sum by layer and time step, if the graph has them
# ([tutorial 6](06_cells_and_time.py)):

# %%
profile = function.profile(*arrays)
for op, spent in list(profile.by_op().items())[:5]:
    print(f"{op:14}{1e6 * spent:8.0f} µs {spent / profile.total:6.0%}")

# %% [markdown]
# Matrix products take most of the time. Draw the times of a network with two steps; warmer nodes are slower:

# %%
few_nodes, few_arrays = network(steps=2)
few = gn.compile(few_nodes[0])
viz.draw(few, notes=viz.times(few, *few_arrays))

# %% [markdown]
# A product of an `n × k` matrix with a `k × m` matrix takes `n k m` multiplications and as many additions. So you can
# estimate its time. Here, 32 × 64 times 64 × 64 takes 262,144 operations. A core with 50 billion operations per second
# needs 5 µs. If your product takes 100 times as long, look for another cause.
#
# ## Save memory
#
# The backward pass needs values of the forward pass: each `h`. So the memory grows with the number of time steps.
# `function.memory` is the memory of a run. You can read it before the first run. With `memory="sqrt"`, the function
# keeps only about √T of the states, and computes the others again when the backward pass needs them. (PyTorch:
# activation checkpointing.)

# %%
lengths = [25, 50, 100, 200]
kept, again = (
    [int(gn.compile(network(n)[0], memory=m).memory) / 2**20 for n in lengths] for m in (None, "sqrt")
)
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.plot(lengths, kept, "o-", label="default")
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
# You can also pass a limit in bytes, such as `memory=2_000_000`. The function then recomputes only as much as this
# limit requires.
#
# ## Save a compiled function
#
# Save a compiled function to a file. To run it, you need only NumPy and graphnet, not your equations or a compiler:

# %%
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "gradient.gn"
    try:
        function.save(path)
    except gn.BackendError as error:  # without the compiler
        print(error)
    else:
        stored = gn.load_function(path)
        print(f"{path.stat().st_size / 1024:.0f} KiB, {stored}, parameters {', '.join(stored.parameters)}")
        print(np.array_equal(stored(*arrays)[1], function(*arrays)[1]))

# %% [markdown]
# A path that ends in `.c` gets C source instead. A C compiler can build it without Python:

# %%
with tempfile.TemporaryDirectory() as folder:
    function.save(Path(folder) / "gradient.c")
    for path in sorted(Path(folder).iterdir()):
        print(path.name, f"{len(path.read_text().splitlines()):,} lines")

# %% [markdown]
# ## Common errors
#
# NumPy arrays are float64 by default. graphnet does not convert them to float32 silently:

# %%
try:
    function(np.zeros((50, 32, 32)), arrays[1])
except gn.DtypeError as error:
    print(error)

# %% [markdown]
# An op with `forward` but without `kernel` ([tutorial 2](02_three_rules_of_a_node.py)) runs inside a compiled
# function. But the other cores wait while Python runs, and you cannot save the function:


# %%
class Softsign(gn.Op):
    """y = x / (1 + |x|)"""

    signature = "... -> ..."

    def forward(self, x):
        return x / (1 + np.abs(x))


z = gn.input((3,), name="z")
try:
    with tempfile.TemporaryDirectory() as folder:
        gn.compile([Softsign()(z)]).save(Path(folder) / "softsign.c")
except gn.BackendError as error:
    print(error)

# %% [markdown]
# To find the first NaN among thousands of nodes, use `check=True`. The error shows the node and the line that created
# it:

# %%
careful = gn.compile([gn.sum(gn.sqrt(z - 1))], check=True)
try:
    careful([2.0, 1.0, 0.0])
except gn.NonFiniteError as error:
    print(error)

# %% [markdown]
# ### Exercise 1
# Five runs took 10.2, 9.8, 31.0, 9.9 and 10.0 ms. How long was a typical run, in ms?

# %%
answer_1 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    1,
    answer_1,
    solution=10.0,
    wrong=[14.18, 9.8, 31.0],
    hint="Use the median: sort the five times, and take the middle one.",
)

# %% [markdown]
# ### Exercise 2
# A core does 20 billion operations per second. How many microseconds does it need at least for a product of a
# 100 × 200 matrix with a 200 × 300 matrix?

# %%
answer_2 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    2,
    answer_2,
    solution=600,
    wrong=[300, 0.6, 0.0006, 3000],
    hint="100 · 200 · 300 multiplications and as many additions, at 20,000 operations per microsecond.",
)

# %% [markdown]
# ### Exercise 3
# Compile a function with one input of three float32 numbers that computes softsign *and can be saved as C*. Replace
# the dots with the function. (You do not need a new op.)

# %%
answer_3 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
composed = gn.compile([z / (1 + abs(z))], inputs=[z])


def can_be_saved(candidate):
    place = np.array([-1.0, 0.0, 3.0], "float32")
    with tempfile.TemporaryDirectory() as folder:
        candidate.save(Path(folder) / "function.c")
    (result,) = candidate(place)
    return np.allclose(result, [-0.5, 0.0, 0.75])


check(
    3,
    answer_3,
    solution=composed,
    wrong=[
        gn.compile([Softsign()(z)]),
        gn.compile([gn.tanh(z)]),
        gn.compile([z / (1 + z * z)]),
    ],
    right=can_be_saved,
    hint="All ops of z / (1 + abs(z)) can be written in C.",
)

# %% [markdown]
# So far you wrote each network by hand, step by step. In [tutorial 6](06_cells_and_time.py) you write one time step as
# a cell, and graphnet unrolls it.
