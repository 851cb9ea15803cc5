# %% [markdown]
# # 2 · Three rules of a node
#
# *Reading time: 10 minutes.* You will make an op that the library does not have, and a test that finds every mistake
# that you can think of putting into it. Read [tutorial 1](01_a_graph_by_hand.py) before.

# %%
import matplotlib.pyplot as plt
import numpy as np

import graphnet as gn
import viz

from exercises import check

# %% [markdown]
# ## What an op must know
#
# `tanh` squeezes all numbers between −1 and 1. So does a simpler function, *softsign*, `y = x / (1 + |x|)`. Its slope
# is `1 / (1 + |x|)²`. By hand, at three places:
#
# ```
# x       -1     0     3
# y     -1/2     0   3/4
# slope  1/4     1  1/16
# ```
#
# The library has no softsign. To make one, write three rules in a class. The first line of its docstring is the
# formula; `signature` says what happens to shapes (`...` stands for any axes).


# %%
class Softsign(gn.Op):
    """y = x / (1 + |x|)"""

    signature = "... -> ..."

    def forward(self, x):  # what it means: arrays in, array out
        return x / (1 + np.abs(x))

    def backward(self, gy, y, x):  # from ∂C/∂y, one ∂C/∂x for each input
        return [gy * slope_at(x)]

    def rop(self, rx, y, x):  # from how fast x moves, how fast y moves
        return rx * slope_at(x)


def slope_at(x):
    return 1 / (1 + abs(x)) ** 2


x = gn.input((3,), "float64", name="x")
y = Softsign()(x)
viz.draw(y)

# %% [markdown]
# Calling the op on a node makes a node. Rules always take their arguments in one order: **incoming derivatives,
# output, inputs**. The prefix g means a *cotangent*, how much the cost changes when this changes; the prefix r means
# a *tangent*, how fast this moves. Note the difference: `forward` gets arrays, the other two get *nodes* and return
# nodes. They do not compute a derivative, they write down how it is computed, and therefore it can be differentiated
# again, for ever.

# %%
(gx,) = gn.gradient(gn.sum(y), [x])
(gxx,) = gn.gradient(gn.sum(gx), [x])
values = gn.compile([y, gx, gxx], inputs=[x])
for row in values(np.array([-1.0, 0.0, 3.0])):
    print(row)

# %% [markdown]
# The first two rows are those of the table. The third, the slope of the slope, nobody has written. Together:

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
# Softsign has no kink, but its slope has one, at 0: the second derivative jumps there. Where a derivative does not
# exist, no test can find it, so keep test points away from such places.
#
# ## Testing it
#
# A wrong derivative seldom crashes. The net just learns badly, and you look for the reason for a week. So test:

# %%
example = np.array([[0.5, -1.2], [2.0, -0.1]])
gn.testing.check_op(Softsign(), example)

# %% [markdown]
# No news is good news. Seven laws have been tried, at this example and at smaller ones:
#
# | law | says |
# |---|---|
# | 1 | `forward` gives the shape and dtype that were promised, and float32 agrees with float64 |
# | 2 | the tangent of `rop` is the slope that finite differences find in `forward` |
# | 3 | `backward` is the transpose of `rop`: `⟨u, J v⟩ = ⟨Jᵀ u, v⟩` for random u and v |
# | 4 | `rop` is `backward` twice |
# | 5 | second derivatives are symmetric, and are what finite differences of the gradient find |
# | 6, 7 | no optimization of the graph, and no back end, changes any of this |
#
# Law 2 holds `rop` to `forward`, law 3 holds `backward` to `rop`. So a mistake in any one rule breaks a law. Let us
# plant some. The square is forgotten in `backward` only:


# %%
def what_is_wrong(op, *arrays):
    try:
        gn.testing.check_op(op, *arrays)
        print("nothing")
    except gn.testing.LawError as error:
        print(error)


class NoSquare(Softsign):
    def backward(self, gy, y, x):
        return [gy / (1 + abs(x))]


what_is_wrong(NoSquare(), example)

# %% [markdown]
# Read the last lines: the check has searched for the smallest and roundest input that still fails, since a small
# example is easy to follow by hand. At x = 1 the slope is 1/(1 + 1)² = 1/4, and `NoSquare` says 1/2: twice as much,
# as the check found.
#
# Now the same mistake in both derivatives. They agree with each other, so law 3 sees nothing; but they do not agree
# with `forward`:


# %%
class NoSquareTwice(NoSquare):
    def rop(self, rx, y, x):
        return rx / (1 + abs(x))


what_is_wrong(NoSquareTwice(), example)

# %% [markdown]
# ## The short form
#
# For a function of single numbers, cotangent and tangent are multiplied by the same slope. So say only the slope, and
# give the formula as an expression too. From `kernel`, back ends make machine code (an op that has only NumPy's
# `forward` runs in Python, and everything must wait for it):


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
# The slope is now written with the output, `(1 − |y|)²`: it is known already, so why divide again?
#
# ## Where the transpose comes from
#
# With one number in and one out, backward and forward look the same. They are not. Take the squared distance of each
# row of `a` from each row of `b`, `d[n, m] = Σ_k (a[n, k] − b[m, k])²`. If `a[n, k]` moves, one whole *row* of `d`
# moves:
#
# ```
# rop       r d[n, m] = 2 Σ_k (a[n, k] − b[m, k]) (r a[n, k] − r b[m, k])      adds over k
# backward  g a[n, k] = 2 Σ_m (a[n, k] − b[m, k]) g d[n, m]                    adds over m
#           g b[m, k] = −2 Σ_n (a[n, k] − b[m, k]) g d[n, m]                   adds over n
# ```
#
# Each has the same factors. What is added over is what the receiver does not have.


# %%
class SquaredDistance(gn.Op):
    """d[n, m] = Σ_k (a[n, k] − b[m, k])²"""

    signature = "n k, m k -> n m"
    symbol = "‖a−b‖²"

    def forward(self, a, b):
        return ((a[:, None] - b[None]) ** 2).sum(-1)

    def backward(self, gd, d, a, b):
        difference = a[:, None] - b[None]  # n m k
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
# Point (3, 4) is at 25 from the origin, as Pythagoras says. The new op can stand in any equation, such as that of a
# layer whose units answer to what is near (radial basis functions), and its gradient is drawn as any other:

# %%
w = gn.parameter([1.0, -2.0, 0.5], name="w")
near = gn.exp(-d) @ w
cost = gn.sum(near**2)
viz.draw(cost, style="compact")

# %%
viz.draw(gn.gradient(cost, [B]), style="compact")

# %% [markdown]
# ## What can go wrong
#
# The signature stops shapes that do not fit, and a missing rule is told when it is needed:

# %%
try:
    SquaredDistance()(A, gn.input((3, 5), "float64", name="c"))
except gn.ShapeError as error:
    print(error)


# %%
class Rounded(gn.Op):
    """y = x rounded"""

    signature = "... -> ..."

    def forward(self, x):
        return np.round(x)


try:
    gn.gradient(gn.sum(Rounded()(A)), [A])
except gn.DifferentiationError as error:
    print(error)

# %% [markdown]
# ### Exercise 1
# A unit's output is `y = softsign(x) = 0.9`. What is the slope there? (You do not need `x`.)

# %%
answer_1 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(1, answer_1, solution=0.01, wrong=[0.1, 0.81, 0.19], hint="(1 − |y|)²")

# %% [markdown]
# ### Exercise 2
# *Swish* is `y = x σ(x)`. Write the op in the short form, above `answer_2`, and put an instance of it, `Swish()`, in
# place of the dots. In a kernel σ is called `sigmoid(x)`, on nodes `gn.sigmoid(x)`, and for NumPy it is `1 / (1 +
# np.exp(-x))`.

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
    hint="the product rule: y' = σ + x σ (1 − σ) = σ + y (1 − σ).",
)

# %% [markdown]
# ### Exercise 3
# Write an op for the inner product of each row of `a` with the same row of `b`, `y[n] = Σ_k a[n, k] b[n, k]`, all
# three rules, and put an instance of it in place of the dots. (`gy[:, None]` gives a cotangent an axis of size 1.)

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
    hint="the signature is 'n k, n k -> n'; the product rule gives rop two terms, and a's cotangent is gy times b.",
)

# %% [markdown]
# The rules are all that the library knows of derivatives. [Tutorial 3](03_derivatives_are_graphs.py) puts them
# together: gradients, curvature, and products with matrices that are far too large to write down.
