# %% [markdown]
# # 4 · Optimize a graph with compiler passes
#
# *Reading time: 11 minutes.* After this lesson you can inspect the compiler passes that `gn.compile` applies to your
# graph, count the operations that they save, leave out a pass, and write your own. Read
# [tutorial 3](03_derivatives_are_graphs.py) first.

# %%
import numpy as np

import graphnet as gn
import viz

from exercises import check

# %% [markdown]
# ## What a compiler pass does
#
# A *pass* is a function from graph to graph. The new graph gives the same numbers with less work. Nodes never change,
# so the old graph remains, and you can draw both. You would not write the example below by hand, but differentiation
# often creates such graphs:

# %%
x = gn.input((3,), "float64", name="x")
m = -x
y = gn.exp(-m) * 1 + gn.tanh(gn.exp(-m))
written = gn.Graph(y)


def before_and_after(graph, step):
    """Two pictures: removed nodes in red, new nodes in green."""
    after = step(graph)
    gone, new = viz.changes(graph, after)
    how = {"closed": False, "rankdir": "LR"}
    return viz.draw(graph, notes=gone, **how), viz.draw(after, notes=new, **how)


before, after = before_and_after(written, gn.passes.merge)
before

# %% [markdown]
# *Merge* finds nodes with the same op and the same inputs, and keeps only the first. It visits inputs before the nodes
# that use them, so one sweep is enough: first the inner nodes become one node. Then the outer nodes have the same
# input, and become one node, too.

# %%
after

# %% [markdown]
# *Simplify* applies rules of algebra: −(−x) is x, and x · 1 is x.

# %%
merged = gn.passes.merge(written)
before, after = before_and_after(merged, gn.passes.simplify)
before

# %%
after

# %% [markdown]
# ## Example: an unrolled recurrent network
#
# The most important passes combine matrix products. Take three time steps of a recurrent network,
# `hₜ = tanh(xₜ W + hₜ₋₁ U)`:

# %%
rng = np.random.default_rng(0)
steps, batch, inputs, units = 3, 4, 3, 5
W = gn.parameter(rng.standard_normal((inputs, units)), name="W")
U = gn.parameter(0.5 * rng.standard_normal((units, units)), name="U")

h = h_0 = gn.input((batch, units), "float64", name="h_0")
xs = [gn.input((batch, inputs), "float64", name=f"x_{t}") for t in range(1, steps + 1)]
target = gn.input((batch, units), "float64", name="t")
for x_t in xs:
    h = gn.tanh(x_t @ W + h @ U)
C = gn.sum(gn.squared_error(h, target))
forward = gn.Graph(C)
viz.draw(forward, style="compact")

# %% [markdown]
# Count the matrix products on paper. Let `gₜ` be the cotangent of the input of tanh at step t.
#
# - Forward: one product with `W` and one with `U` at each step, 6 in total.
# - Gradient of `W`: `xₜᵀ gₜ` at each step, 3 in total.
# - Gradient of `U`: `hₜ₋₁ᵀ gₜ` at each step, 3 in total.
# - From a step to the previous one: `gₜ Uᵀ`, 2 in total. (The gradient of `h_0` is not needed.)
#
# The sum is 14.

# %%
g = gn.gradient(C, [W, U])
whole = gn.Graph([C, *g])


def products(graph):
    return sum(node.op.name == "MatMul" for node in graph.order)


print(products(forward), products(whole))

# %% [markdown]
# Now apply all passes in their order:

# %%
graph = whole
print(f"{'':18}{'nodes':>8}{'products':>10}")
print(f"{'as written':18}{len(graph):8}{products(graph):10}")
for step in gn.passes.DEFAULT:
    graph = step(graph)
    print(f"{step.name:18}{len(graph):8}{products(graph):10}")

# %% [markdown]
# The number of products falls from 14 to 8. The next sections show the passes that do this.
#
# ## Stack rows
#
# The products with `W` do not depend on each other: all `xₜ` are known at the start. So this pass stacks the `xₜ` as
# rows of one matrix and computes one product for all time steps. Each step reads its slice. (The products with `U`
# need `h` of the previous step, so they remain.)

# %%
before, after = before_and_after(forward, gn.passes.stack_rows)
before

# %%
after

# %% [markdown]
# ## Stack sums
#
# The gradient of `W` is `Σₜ xₜᵀ gₜ`. A sum of products is one product of block matrices:
#
# ```
#                                 | g₁ |
# x₁ᵀ g₁ + x₂ᵀ g₂ = [ x₁ᵀ | x₂ᵀ ] | g₂ |
# ```
#
# Here is this sum alone, with the `gₜ` as inputs:

# %%
gs = [gn.input((batch, units), "float64", name=f"g_{t}") for t in range(1, steps + 1)]
(sum_of_products,) = gn.backward({x_t @ W: g_t for x_t, g_t in zip(xs, gs, strict=True)}, [W])
before, after = before_and_after(gn.Graph(sum_of_products), gn.passes.stack_sums)
before

# %%
after

# %% [markdown]
# The arithmetic is the same. But it is faster: a processor multiplies large matrices near its peak speed, and small
# matrices much more slowly. Each node also has a small fixed cost.
#
# ## Stack columns
#
# An LSTM has four gates. *Stack columns* combines the products of all gates at a time step:

# %%
gates = [gn.sigmoid(xs[0] @ gn.parameter(rng.standard_normal((inputs, units)), name=f"W_{n}")) for n in "ifo"]
before, after = before_and_after(gn.Graph(gates), gn.passes.stack_columns)
after

# %% [markdown]
# These passes do not depend on time steps, cells or gates. They use only the dependencies between nodes. So they also
# work on a new cell of yours, on its gradient, and on its Hessian products.
#
# ## Fuse loops
#
# At the end, connected elementwise nodes become one loop that stores no arrays between them. NumPy cannot do this, but
# compiling back ends can ([tutorial 5](05_back_ends_and_speed.py)). The nodes remain in the graph, and the graph lists
# which nodes run together:

# %%
function = gn.compile([C, *g])
for group in function.graph.groups[:3]:
    print(" · ".join(node.op.name for node in group.nodes))

# %% [markdown]
# ## Inspect a compiled function
#
# `explain` lists each pass with its node counts and time, the ops that remain, and the memory of a run:

# %%
print(function.explain())

# %% [markdown]
# `viz.passes` draws the graph before and after each pass. The next picture shows the graph of the cost and its
# gradients just before *stack sums*. Nodes that this pass replaces are colored: six products, three for the gradient of
# `W` and three for that of `U`, with their transposes and sums.

# %%
stages = {stage.name: stage for stage in viz.passes(function, style="compact")}
stages["stack sums"].before

# %% [markdown]
# (`viz.dump(function, folder)` writes all these pictures and the instructions to files. Attach them when you report a
# problem.)
#
# ## Leave out a pass
#
# If you suspect that a pass is wrong, leave it out by name, or leave out all passes, and compare. The numbers must be
# the same up to rounding:

# %%
arrays = [rng.standard_normal(node.shape) for node in function.inputs]
for name, passes in {
    "no stacking of rows": gn.passes.without("stack rows"),
    "no passes at all": (),
}.items():
    other = gn.compile([C, *g], passes=passes)
    worst = max(np.abs(a - b).max() for a, b in zip(other(*arrays), function(*arrays), strict=True))
    print(f"{name:20}{products(other.graph):3} products, largest difference {worst:.0e}")

# %% [markdown]
# ## Write your own pass
#
# `graph.rewrite` visits the nodes, inputs first, and replaces each by `replace(node)`. The example replaces `x³` by
# `x · x · x`. You can pass any function from graph to graph in `passes=`:


# %%
def multiply_cubes(graph):
    def replace(node):
        if node.op.name == "Power" and node.op == (x**3).op:
            (base,) = node.inputs
            return base * base * base
        return node

    return graph.rewrite(replace)


before, after = before_and_after(gn.Graph(gn.sin(x**3)), multiply_cubes)
after

# %% [markdown]
# ## Common errors
#
# A pass must be correct for *all* numbers, including infinity and NaN. Is `x · 0` always 0?

# %%
times_zero = gn.compile([x * 0], inputs=[x])
print(times_zero(np.array([1.0, np.inf, np.nan])))

# %% [markdown]
# graphnet keeps `x · 0`, so that an overflow or a NaN in your network remains visible. However, passes may change the
# order of a sum, so the last digits can differ, as you saw. (With `check=True`, a function stops at the first node
# with a NaN or an infinity, and the error shows the line that created it.)
#
# ### Exercise 1
# The same network runs for 10 steps instead of 3. How many products do the cost and the gradients of `W` and `U` have
# before any pass?

# %%
answer_1 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    1,
    answer_1,
    solution=49,
    wrong=[50, 47, 20, 40],
    hint="2 at each step forward. 3 at each step backward, except 2 at the first step.",
)

# %% [markdown]
# ### Exercise 2
# How many products remain after all passes? (Think first. Then change `steps` above to check.)

# %%
answer_2 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    2,
    answer_2,
    solution=22,
    wrong=[49, 13, 31, 8],
    hint="One product for all x W, and one for each gradient. Products that depend on each other remain: h U and g Uᵀ.",
)

# %% [markdown]
# ### Exercise 3
# Write a pass that replaces `exp(log(x))` by `x`, and nothing else. Replace the dots with the function.
# (`node.op.name` is `"Exp"` or `"Log"`; `node.inputs` is a tuple.)

# %%
answer_3 = ...


# %% tags=["hide-input"] jupyter={"source_hidden": true}
def exp_of_log(graph):
    def replace(node):
        if node.op.name == "Exp" and node.inputs[0].op.name == "Log":
            return node.inputs[0].inputs[0]
        return node

    return graph.rewrite(replace)


def without_exp(graph):
    return graph.rewrite(lambda node: node.inputs[0] if node.op.name == "Exp" else node)


def without_log(graph):
    return graph.rewrite(lambda node: node.inputs[0] if node.op.name in ("Exp", "Log") else node)


def is_exp_of_log(function):
    z = gn.input((2,), "float64")
    nodes = [gn.tanh(gn.exp(gn.log(z + 1))), gn.exp(gn.sin(gn.log(z))), gn.log(gn.exp(z))]
    result = function(gn.Graph(nodes))
    names = [node.op.name for node in result.order]
    place = np.array([0.5, 2.0])
    same = zip(gn.compile(result.outputs, passes=())(place), gn.compile(nodes, passes=())(place), strict=True)
    return names.count("Exp") == 2 and all(np.allclose(a, b) for a, b in same)


check(
    3,
    answer_3,
    solution=exp_of_log,
    wrong=[without_exp, without_log, lambda graph: graph],
    right=is_exp_of_log,
    hint="Find a node whose op is Exp and whose input has the op Log. Return the input of that input.",
)

# %% [markdown]
# (The library does not have this pass. For which x would it be wrong?)
#
# [Tutorial 5](05_back_ends_and_speed.py) measures how much time the passes save.
