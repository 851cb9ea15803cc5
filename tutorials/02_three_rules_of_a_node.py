# %% [markdown]
# # 2 · Write and test your own op
#
# *Reading time: 10 minutes.* After this lesson you can add an op to graphnet with three rules, and find mistakes in
# its derivatives with a test. Read [tutorial 1](01_a_graph_by_hand.py) first.

# %%
import matplotlib.pyplot as plt
import numpy as np

import graphnet as gn
import viz

from exercises import check

# %% [markdown]
# ## Write an op with three rules
#
# The example is *softsign*, `y = x / (1 + |x|)`. Like `tanh`, it maps all numbers to values between −1 and 1. Its
# slope is `1 / (1 + |x|)²`. By hand, at three points:
#
# ```
# x       -1     0     3
# y     -1/2     0   3/4
# slope  1/4     1  1/16
# ```
#
# The library has no softsign. To add it, write a class with three rules. The first line of the docstring is the
# formula. `signature` describes the shapes; `...` stands for any axes.


# %%
class Softsign(gn.Op):
    """y = x / (1 + |x|)"""

    signature = "... -> ..."

    def forward(self, x):  # the value: arrays in, array out
        return x / (1 + np.abs(x))

    def backward(self, gy, y, x):  # from ∂C/∂y to ∂C/∂x, one for each input
        return [gy * slope_at(x)]

    def rop(self, rx, y, x):  # from the tangent of x to the tangent of y
        return rx * slope_at(x)


def slope_at(x):
    return 1 / (1 + abs(x)) ** 2


x = gn.input((3,), "float64", name="x")
y = Softsign()(x)
viz.draw(y)

# %% [markdown]
# Call the op on a node to create a node. The arguments of a rule always have the same order: **incoming derivatives,
# output, inputs**. A name with the prefix g is a *cotangent*: the derivative of the cost with respect to this value. A
# name with the prefix r is a *tangent*: the derivative of this value along a direction.
#
# `forward` takes arrays and returns an array. The other two rules take *nodes* and return nodes. They do not compute a
# derivative themselves: they return a graph that computes it. graphnet can differentiate this graph again, any number
# of times.

# %%
(gx,) = gn.gradient(gn.sum(y), [x])
(gxx,) = gn.gradient(gn.sum(gx), [x])
values = gn.compile([y, gx, gxx], inputs=[x])
for row in values(np.array([-1.0, 0.0, 3.0])):
    print(row)

# %% [markdown]
# The first two rows are those of the table. The third row is the second derivative. graphnet derived it from your
# rules. Plot all three:

# %%
many = gn.input((301,), "float64", name="x")
curve = Softsign()(many)
(first,) = gn.gradient(gn.sum(curve), [many])
(second,) = gn.gradient(gn.sum(first), [many])
places = np.linspace(-4, 4, 301)

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for row, label in zip(
    gn.compile([curve, first, second])(places), ["y", "slope", "slope of the slope"], strict=True
):
    axes.plot(places, row, label=label)
axes.set_xlabel("x")
axes.legend()
axes.grid(alpha=0.3)

# %% [markdown]
# Softsign is smooth, but its slope has a kink at 0, so the second derivative jumps there. A test gives no useful result
# at a point where a derivative does not exist. Choose other points for tests.
#
# ## Test the derivatives
#
# A wrong derivative rarely raises an error. The network only trains badly, and the cause is hard to find. So test each
# op:

# %%
example = np.array([[0.5, -1.2], [2.0, -0.1]])
gn.testing.check_op(Softsign(), example)

# %% [markdown]
# If a test fails, `check_op` raises an error; here all passed. `check_op` tests seven laws, on your example and on
# smaller ones:
#
# | law | requirement |
# |---|---|
# | 1 | `forward` returns the shape and dtype of the signature, and float32 agrees with float64 |
# | 2 | the tangent of `rop` equals the finite differences of `forward` |
# | 3 | `backward` is the transpose of `rop`: `⟨u, J v⟩ = ⟨Jᵀ u, v⟩` for random u and v |
# | 4 | `rop` equals `backward` applied twice: `J v` is the derivative of `⟨Jᵀ u, v⟩` with respect to u |
# | 5 | second derivatives are symmetric, and equal the finite differences of the gradient |
# | 6, 7 | compiler passes and back ends do not change the results |
#
# Law 2 compares `rop` with `forward`. Law 3 compares `backward` with `rop`. So a mistake in any single rule violates a
# law. Try it: this class forgets the square in `backward`.


# %%
def what_is_wrong(op, *arrays):
    try:
        gn.testing.check_op(op, *arrays)
        print("all laws hold")
    except gn.testing.LawError as error:
        print(error)


class NoSquare(Softsign):
    def backward(self, gy, y, x):
        return [gy / (1 + abs(x))]


what_is_wrong(NoSquare(), example)

# %% [markdown]
# The last lines show the smallest and simplest input that still fails. So you can compute this example by hand. At x =
# 1 the slope is 1/(1 + 1)² = 1/4. `NoSquare` returns 1/2, which is twice as much.
#
# Now make the same mistake in both derivatives. They agree with each other, so law 3 holds. But they do not agree with
# `forward`, so law 2 fails:


# %%
class NoSquareTwice(NoSquare):
    def rop(self, rx, y, x):
        return rx / (1 + abs(x))


what_is_wrong(NoSquareTwice(), example)

# %% [markdown]
# ## Write an elementwise op
#
# For an elementwise function, `backward` and `rop` multiply by the same slope. Derive the class from `gn.Elementwise`
# and write the slope once, in `partials`. Also write the formula as an expression, `kernel`. Back ends compile the
# kernel to machine code. Without a kernel, an op runs in Python, and all other cores wait for it.


# %%
class Softsign(gn.Elementwise):
    """y = x / (1 + |x|)"""

    symbol = "softsign"
    kernel = "x / (1 + abs(x))"
    domain = "float"

    def forward(self, x):
        return x / (1 + np.abs(x))

    def partials(self, y, x):
        return [(1 - abs(y)) ** 2]


gn.testing.check_op(Softsign(), example)

# %% [markdown]
# The slope is now a function of the output, `(1 − |y|)²`. The output is already known, so this saves a division.
#
# ## Write an op with several inputs
#
# For a function of one number, `backward` and `rop` are almost the same. In general they differ. Take the squared
# distance of each row of `a` from each row of `b`, `d[n, m] = Σ_k (a[n, k] − b[m, k])²`. If `a[n, k]` changes, a whole
# row of `d` changes:
#
# ```
# rop       r d[n, m] = 2 Σ_k (a[n, k] − b[m, k]) (r a[n, k] − r b[m, k])      sum over k
# backward  g a[n, k] = 2 Σ_m (a[n, k] − b[m, k]) g d[n, m]                    sum over m
#           g b[m, k] = −2 Σ_n (a[n, k] − b[m, k]) g d[n, m]                   sum over n
# ```
#
# All three lines have the same factor `2 (a[n, k] − b[m, k])`. Each line sums over the index that its result does not
# have.


# %%
class SquaredDistance(gn.Op):
    """d[n, m] = Σ_k (a[n, k] − b[m, k])²"""

    signature = "n k, m k -> n m"
    symbol = "‖a−b‖²"

    def forward(self, a, b):
        return ((a[:, None] - b[None]) ** 2).sum(-1)

    def backward(self, gd, d, a, b):
        difference = a[:, None] - b[None]  # shape (n, m, k)
        g = 2 * gd[:, :, None] * difference
        return [gn.sum(g, axis=1), -gn.sum(g, axis=0)]

    def rop(self, ra, rb, d, a, b):
        return 2 * gn.sum((a[:, None] - b[None]) * (ra[:, None] - rb[None]), axis=2)


a = np.array([[0.0, 0.0], [3.0, 4.0]])
b = np.array([[0.0, 1.0], [0.0, 0.0], [3.0, 0.0]])
A, B = gn.input(a.shape, "float64", name="a"), gn.input(b.shape, "float64", name="b")
d = SquaredDistance()(A, B)
print(gn.compile([d])(a, b)[0])
gn.testing.check_op(SquaredDistance(), a, b)

# %% [markdown]
# The squared distance of (3, 4) from the origin is 25, as it should be. You can use the new op in any equation. Here
# it is in a layer of radial basis functions, where the output of a unit depends on the distance from a center:

# %%
w = gn.parameter([1.0, -2.0, 0.5], name="w")
near = gn.exp(-d) @ w
cost = gn.sum(near**2)
viz.draw(cost, style="compact")

# %%
viz.draw(gn.gradient(cost, [B]), style="compact")

# %% [markdown]
# ## Common errors
#
# Shapes that do not match the signature raise an error. A missing rule raises an error when graphnet needs the rule:

# %%
try:
    SquaredDistance()(A, gn.input((3, 5), "float64", name="c"))
except gn.ShapeError as error:
    print(error)


# %%
class Rounded(gn.Op):
    """y = round(x)"""

    signature = "... -> ..."

    def forward(self, x):
        return np.round(x)


try:
    gn.gradient(gn.sum(Rounded()(A)), [A])
except gn.DifferentiationError as error:
    print(error)

# %% [markdown]
# ### Exercise 1
# The output of a unit is `y = softsign(x) = 0.9`. What is the slope at this point? (You do not need `x`.)

# %%
answer_1 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(1, answer_1, solution=0.01, wrong=[0.1, 0.81, 0.19], hint="The slope is (1 − |y|)².")

# %% [markdown]
# ### Exercise 2
# *Swish* is `y = x σ(x)`. Write it as an elementwise op, above `answer_2`. Replace the dots with an instance,
# `Swish()`. The logistic function σ is `sigmoid(x)` in a kernel, `gn.sigmoid(x)` for nodes, and `1 / (1 + np.exp(-x))`
# for NumPy.

# %%
answer_2 = ...


# %% tags=["hide-input"] jupyter={"source_hidden": true}
class Swish(gn.Elementwise):
    """y = x σ(x)"""

    kernel = "x * sigmoid(x)"
    domain = "float"

    def forward(self, x):
        return x / (1 + np.exp(-x))

    def partials(self, y, x):
        s = gn.sigmoid(x)
        return [s + y * (1 - s)]


class WithoutProductRule(Swish):
    def partials(self, y, x):
        s = gn.sigmoid(x)
        return [s * (1 - s)]


def is_swish(op):
    gn.testing.check_op(op, example)
    return np.allclose(op.forward(example), example / (1 + np.exp(-example)))


check(
    2,
    answer_2,
    solution=Swish(),
    wrong=[WithoutProductRule(), Softsign(), Swish],
    right=is_swish,
    hint="Use the product rule: y' = σ + x σ (1 − σ) = σ + y (1 − σ).",
)

# %% [markdown]
# ### Exercise 3
# Write an op for the inner product of each row of `a` with the same row of `b`: `y[n] = Σ_k a[n, k] b[n, k]`. Write
# all three rules, and replace the dots with an instance. (`gy[:, None]` adds an axis of size 1 to a cotangent.)

# %%
answer_3 = ...


# %% tags=["hide-input"] jupyter={"source_hidden": true}
class RowProduct(gn.Op):
    """y[n] = Σ_k a[n, k] b[n, k]"""

    signature = "n k, n k -> n"
    zero_if = "any"

    def forward(self, a, b):
        return (a * b).sum(-1)

    def backward(self, gy, y, a, b):
        return [gy[:, None] * b, gy[:, None] * a]

    def rop(self, ra, rb, y, a, b):
        return gn.sum(ra * b, axis=1) + gn.sum(a * rb, axis=1)


class Swapped(RowProduct):
    def backward(self, gy, y, a, b):
        return [gy[:, None] * a, gy[:, None] * b]


class OneTangent(RowProduct):
    def rop(self, ra, rb, y, a, b):
        return gn.sum(ra * rb, axis=1)


def is_row_product(op):
    left, right = np.array([[1.0, 2.0, 0.5], [3.0, -1.0, 2.0]]), np.array([[0.3, 1.0, 2.0], [1.0, 4.0, -2.0]])
    gn.testing.check_op(op, left, right)
    return np.allclose(op.forward(left, right), (left * right).sum(1))


check(
    3,
    answer_3,
    solution=RowProduct(),
    wrong=[Swapped(), OneTangent(), SquaredDistance()],
    right=is_row_product,
    hint="The signature is 'n k, n k -> n'. By the product rule, rop has two terms. The cotangent of a is gy times b.",
)

# %% [markdown]
# graphnet computes all derivatives from such rules. [Tutorial 3](03_derivatives_are_graphs.py) combines them into
# gradients, Hessian products and Gauss–Newton products.
