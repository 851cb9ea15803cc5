# %% [markdown]
# # 4 · What the optimizer does
#
# *Reading time: 11 minutes.* Between the graph that you write and the graph that runs lie a dozen *passes*. You will
# watch them, count what they save, leave one out, and write one. Read [tutorial 3](03_derivatives_are_graphs.py)
# before.

# %%
import numpy as np

import graphnet as gn
import viz

from exercises import check

# %% [markdown]
# ## A pass is a function
#
# It takes a graph and returns a graph that gives the same numbers with less work. Since nodes never change, the old
# graph is still there afterwards, so both can be drawn. Here is something that nobody would write by hand, but
# derivatives often do:

# %%
x = gn.input((3,), "float64", name="x")
m = -x
y = gn.exp(-m) * 1 + gn.tanh(gn.exp(-m))
written = gn.Graph(y)


def before_and_after(graph, step):
    """Two pictures: red is what goes, green is what is new."""
    after = step(graph)
    gone, new = viz.changes(graph, after)
    how = {"closed": False, "rankdir": "LR"}
    return viz.draw(graph, notes=gone, **how), viz.draw(after, notes=new, **how)


before, after = before_and_after(written, gn.passes.merge)
before

# %% [markdown]
# *Merge* looks for the same op on the same inputs, and keeps the first. Inputs come before what reads them, so one
# sweep does it: the inner nodes become one, then the outer ones have the same input, and become one as well.

# %%
after

# %% [markdown]
# *Simplify* knows algebra: −(−x) is x, and x · 1 is x.

# %%
merged = gn.passes.merge(written)
before, after = before_and_after(merged, gn.passes.simplify)
before

# %%
after

# %% [markdown]
# ## A net through time
#
# The passes that matter most are about matrix products. Take a recurrent net, `hₜ = tanh(xₜ W + hₜ₋₁ U)`, and three
# steps of it:

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
# How many products are there, forward and backward? Count on paper. Forward: one with `W` and one with `U` at each
# step, 6. Backward, with `gₜ` the cotangent of what goes into the tanh of step t: `xₜᵀ gₜ` at each step, for the
# gradient of `W`, 3; `hₜ₋₁ᵀ gₜ`, for that of `U`, 3; and `gₜ Uᵀ`, to come to the step before, 2, since nobody asks
# for the gradient of `h_0`. Together 14.

# %%
g = gn.gradient(C, [W, U])
whole = gn.Graph([C, *g])


def products(graph):
    return sum(node.op.name == "MatMul" for node in graph.order)


print(products(forward), products(whole))

# %% [markdown]
# And now all passes, in their order:

# %%
graph = whole
print(f"{'':18}{'nodes':>8}{'products':>10}")
print(f"{'as written':18}{len(graph):8}{products(graph):10}")
for step in gn.passes.DEFAULT:
    graph = step(graph)
    print(f"{step.name:18}{len(graph):8}{products(graph):10}")

# %% [markdown]
# From 14 products to 8. Who did it?
#
# ## Stack rows
#
# The products with `W` do not wait for each other: every `xₜ` is known at the start. So the `xₜ` are laid one below
# the other, and there is one product for all time steps; each step reads its slice. (Those with `U` must wait for
# `h`, and stay.)

# %%
before, after = before_and_after(forward, gn.passes.stack_rows)
before

# %%
after

# %% [markdown]
# ## Stack sums
#
# The gradient of `W` is `Σₜ xₜᵀ gₜ`. Written with blocks, a sum of products *is* a product:
#
# ```
#                                 | g₁ |
# x₁ᵀ g₁ + x₂ᵀ g₂ = [ x₁ᵀ | x₂ᵀ ] | g₂ |
# ```
#
# Here it is alone, with the `gₜ` as inputs:

# %%
gs = [gn.input((batch, units), "float64", name=f"g_{t}") for t in range(1, steps + 1)]
(sum_of_products,) = gn.backward({x_t @ W: g_t for x_t, g_t in zip(xs, gs, strict=True)}, [W])
before, after = before_and_after(gn.Graph(sum_of_products), gn.passes.stack_sums)
before

# %%
after

# %% [markdown]
# Why bother, if the arithmetic is the same? Because a processor multiplies large matrices near its peak speed, and
# small ones far below it; and because each node costs a little time by itself. With gates (an LSTM has four), *stack
# columns* joins the products of all gates at a step as well:

# %%
gates = [gn.sigmoid(xs[0] @ gn.parameter(rng.standard_normal((inputs, units)), name=f"W_{n}")) for n in "ifo"]
before, after = before_and_after(gn.Graph(gates), gn.passes.stack_columns)
after

# %% [markdown]
# Nothing in these passes knows about time, cells or gates. They look at what depends on what, so they work just as
# well on a net that you have invented this morning, on its gradient, and on its Hessian product.
#
# ## Fuse
#
# Last, elementwise nodes that follow each other become one loop: no array is stored between them. NumPy cannot do
# this; back ends that compile can ([tutorial 5](05_back_ends_and_speed.py)). The nodes stay, and the graph tells
# which run together:

# %%
function = gn.compile([C, *g])
for group in function.graph.groups[:3]:
    print(" · ".join(node.op.name for node in group.nodes))

# %% [markdown]
# ## Asking, and leaving out
#
# `explain` tells what was done to your function, and what it needs:

# %%
print(function.explain())

# %% [markdown]
# `viz.passes` draws the graph before and after every pass, here in compact style. This is what *stack sums* has found
# in cost and gradients together: six products, three for the gradient of `W` and three for that of `U`, with the
# transposes and sums around them.

# %%
stages = {stage.name: stage for stage in viz.passes(function, style="compact")}
stages["stack sums"].before

# %% [markdown]
# (`viz.dump(function, folder)` writes all of these, and the instructions that run, into files: attach them when you
# report a problem.)
#
# If you suspect a pass, leave it out by name, or leave out all, and compare. The numbers must be the same, up to
# rounding:

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
# ## A pass of your own
#
# `graph.rewrite` goes through the nodes, inputs first, and puts `replace(node)` in place of each. This one believes
# that `x³` is better written as `x · x · x`. Anything that takes a graph and returns one can stand in `passes`:


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
# ## What can go wrong
#
# A pass must be right for *all* numbers, also for those that one does not think of. Is `x · 0` not simply 0?

# %%
times_zero = gn.compile([x * 0], inputs=[x])
print(times_zero(np.array([1.0, np.inf, np.nan])))

# %% [markdown]
# The library leaves it, since an overflow or a NaN in your net should be seen, not tidied away. Sums may be added in
# another order, though: the last digits can differ, as you saw. (With `check=True` a function stops at the first node
# that makes a NaN or an infinity, and names your line.)
#
# ### Exercise 1
# The same net runs over 10 steps instead of 3. How many products do cost and gradients of `W` and `U` have as
# written?

# %%
answer_1 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    1,
    answer_1,
    solution=49,
    wrong=[50, 47, 20, 40],
    hint="2 at each step forward; 3 at each step backward, but 2 at the first.",
)

# %% [markdown]
# ### Exercise 2
# And after all passes? (You can change `steps` above to see whether you are right, but think first.)

# %%
answer_2 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    2,
    answer_2,
    solution=22,
    wrong=[49, 13, 31, 8],
    hint="One product for all x W, one for each gradient. Those that must wait for each other stay: h U, and g Uᵀ.",
)

# %% [markdown]
# ### Exercise 3
# Write a pass that replaces `exp(log(x))` by `x`, and nothing else. Put the function in place of the dots.
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
    hint="look for a node whose op is Exp and whose input's op is Log, and return the input of the input.",
)

# %% [markdown]
# (The library does not have this pass. For which x would it be wrong?)
#
# Fewer nodes, larger products, fused loops: [tutorial 5](05_back_ends_and_speed.py) measures what all that is worth.
