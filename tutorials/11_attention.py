# %% [markdown]
# # 11 · Two networks and a glance
#
# *Reading time: 14 minutes.* You will let one network read a word and another write its answer, find out why that is
# hard, and let the second one look. It helps to know cells and time (tutorial 6).
#
# So far an answer was given at each step, or once at the end. But a sorted list, or a name in another script, is a
# sequence of its own, as long as it is. Two networks do it: an **encoder** reads, a **decoder** writes, and what the
# one has made is where the other begins. In graphnet both are graphs, so together they are one.

# %%
import matplotlib.pyplot as plt
import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
import viz

from exercises import check

plt.style.use("tableau-colorblind10")

# %% [markdown]
# ## Words of digits, to be sorted
#
# A word has eight digits; the answer has the same ones in order. The decoder writes one digit at a step, and reads at
# each step the one that it should have written before: *teacher forcing*. Before the first there is none, so it reads
# an eleventh symbol.

# %%
DIGITS, STEPS, START = 10, 8, 10
generator = np.random.default_rng(0)
word = generator.integers(0, DIGITS, (STEPS, 3000))
answer = np.sort(word, axis=0)
before = np.concatenate([np.full((1, 3000), START), answer[:-1]])
print(word[:, 0], "->", answer[:, 0], " reading", before[:, 0])

# %% [markdown]
# ## All of a word in one state
#
# The simplest way: the decoder's first state is the encoder's last one. `outputs=0` makes a network without an output
# layer, and `initial=` takes nodes.

# %%


def pair(seed=0):
    encoder = rnn.Network([rnn.GRU(24)], inputs=DIGITS, outputs=0, seed=seed)
    return encoder, rnn.Network([rnn.GRU(24)], inputs=DIGITS + 1, outputs=DIGITS + 1, seed=seed)


encoder, decoder = pair()
e = encoder.unroll(3, 1, initial="zero", name="encoder")
d = decoder.unroll(3, 1, initial=e.final, name="decoder")
viz.draw(d, closed=True)

# %% [markdown]
# `rnn.composed` makes a model of a function: what stands before `batch` are its parts. `rnn.GraphCases` trains it on
# arrays, by the names that the function gave to what is read.

# %%


@rnn.composed
def sorter(encoder, decoder, batch, feedback=None, **how):
    e = encoder.unroll(STEPS, batch, inputs="word", initial="zero", name="encoder", **how)
    how |= {"initial": e.final, "name": "decoder"}
    return decoder.unroll(STEPS, batch, inputs="before", targets="answer", feedback=feedback, **how)


def trained(model, epochs=6):
    """The share of the words kept to validate that are right in each digit."""
    problem = rnn.GraphCases(model, {"word": word, "before": before, "answer": answer}, batch=50)
    training = rnn.Training(rnn.Adam(rate=0.005, clip_norm=1.0), epochs=epochs, stopping=None)
    rnn.Trainer(problem, training).run()
    return problem.metrics()["exact"]()


share = trained(sorter(*pair()))
print(f"{share:.0%} of the words are right")

# %% [markdown]
# Not many yet. All that the decoder knows of eight digits is 24 numbers, made before it knew what it would need.
#
# ### Exercise 1
#
# Sorting forgets: several words have one answer. How many words of four digits have the answer `1 2 2 7`?

# %%
answer_1 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    1,
    answer_1,
    solution=12,
    wrong=[24, 4, 6, 1],
    hint="Four places in any order make 24, but the two 2s cannot be told apart.",
)

# %% [markdown]
# ## Looking
#
# **Attention** lets the decoder look at every state that the encoder went through. At each step it compares its own
# state `h` with each of them, `m_s`, turns the scores into shares, and reads the mean:
#
# ```
# e_s = (h W_hq) · m_s / √width        how well place s fits what is looked for
# a_s = exp(e_s) / Σ_r exp(e_r)        shares: not below 0, and 1 together
# c   = Σ_s a_s m_s                    what is seen
# ```
#
# By hand, with two places and a query that fits the second:

# %%
places = np.array([[1.0, 0.0], [0.0, 2.0]])
query = np.array([0.5, 1.5])


def shares_of(query, places):
    e = places @ query / np.sqrt(places.shape[1])
    return np.exp(e) / np.exp(e).sum()


a = shares_of(query, places)
print("shares", a.round(3), " seen", (a @ places).round(3))

# %% [markdown]
# ### Exercise 2
#
# What are the shares, if the query is zero?

# %%
answer_2 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    2,
    answer_2,
    solution=[0.5, 0.5],
    wrong=[[0, 0], [1, 0], [1, 1]],
    hint="All scores are 0 then, and exp(0) = 1 for each of them.",
)

# %% [markdown]
# `rnn.Attention(inner, memory, places)` is a cell around a cell: the inner one reads `c` beside `x`. What it remembers
# is a state that stays as it is; `rnn.attention_memory` makes it of what the encoder has seen. The encoder may now
# read from both ends.

# %%


@rnn.composed
def looking(encoder, decoder, batch, feedback=None, **how):
    e = encoder.unroll(STEPS, batch, inputs="word", initial="zero", name="encoder", **how)
    how |= {"initial": rnn.attention_memory(e.hidden[-1]), "name": "decoder"}
    return decoder.unroll(STEPS, batch, inputs="before", targets="answer", feedback=feedback, **how)


cell = rnn.Attention(rnn.GRU(24), memory=32, places=STEPS, score="dot")
model = looking(
    rnn.Network([rnn.Bidirectional(rnn.GRU(16))], inputs=DIGITS, outputs=0),
    rnn.Network([cell], inputs=DIGITS + 1, outputs=DIGITS + 1),
)
share_looking = trained(model)
print(f"{share_looking:.0%} of the words are right, instead of {share:.0%}")
assert share_looking > share

# %% [markdown]
# One step of the decoder's cell: scores and shares on the left, the cell within on the right.

# %%
viz.draw(cell)

# %% [markdown]
# Where does it look? Now it runs free: it reads what it has written itself, the likeliest digit.

# %%
d = model.unroll(1, feedback="likeliest", training=False)
write = gn.compile([gn.argmax(d.logits), d.course("attention")])
digits = np.array([[7, 1, 9, 4, 4, 0, 8, 2]]).T
written, shares = write(digits, np.array([[START]]))
viz.attention_map(shares[:, 0], read=digits[:, 0], written=written[:, 0])

# %% [markdown]
# It need not look at the digit that it writes: an encoder that reads from both ends has told each place of all the
# others. But it often does.
#
# Nothing had to be said about derivatives. The encoder's weights are reached through the first states and through
# every glance, and a Gauss–Newton product goes the same way:

# %%
problem = rnn.GraphCases(model, {"word": word, "before": before, "answer": answer}, batch=20)
objective = problem.feed(epoch=0, step=0)
theta = objective.start()
direction = np.random.default_rng(1).standard_normal(theta.size).astype("float32")
product = objective.curvature(theta)(direction)
print(f"vᵀGv = {direction @ product:.3f} along a random direction of {theta.size:,} parameters")

# %% [markdown]
# ### Exercise 3
#
# Words may have several lengths, and places behind the end of a word must not be looked at. Write a function
# `f(query, places, count)`: the shares of the first `count` places, and 0 for the others.

# %%
answer_3 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}


def masked(query, places, count):
    e = places @ query / np.sqrt(places.shape[1])
    e = np.where(np.arange(len(places)) < count, e, -np.inf)
    return np.exp(e - e.max()) / np.exp(e - e.max()).sum()


def cut_afterwards(query, places, count):
    return np.where(np.arange(len(places)) < count, shares_of(query, places), 0)


def too_many(query, places, count):
    return masked(query, places, count + 1)


def without_scale(query, places, count):
    return masked(query * np.sqrt(places.shape[1]), places, count)


def looks_inside(function):
    draw = np.random.default_rng(0)
    query, places = draw.standard_normal(3), draw.standard_normal((5, 3))
    found = [np.asarray(function(query, places, count)) for count in (1, 3, 5)]
    expected = [np.append(shares_of(query, places[:count]), np.zeros(5 - count)) for count in (1, 3, 5)]
    return all(np.allclose(a, b) for a, b in zip(found, expected, strict=True))


check(
    3,
    answer_3,
    solution=masked,
    wrong=[cut_afterwards, too_many, without_scale],
    right=looks_inside,
    hint="Shares must be 1 together: leave the places out before you divide, e.g. by scores of -inf.",
)

# %% [markdown]
# ## In another script
#
# Names of one alphabet are written in another, letter by letter, but not one for one: ш is two letters in Latin, ю is
# two, and both sides have several lengths. The encoder is given the lengths, and so `rnn.attention_memory` masks as you
# did. The decoder has none: it learns to write an empty sign behind the end.

# %%
LATIN = {"ша": "sha", "ке": "ke", "лю": "lyu", "ми": "mi", "чо": "cho", "ря": "rya", "на": "na", "жи": "zhi"}
PLACES, LONGEST = 6, 9
names = sorted({tuple(generator.choice(list(LATIN), generator.integers(1, 4))) for _ in range(900)})
generator.shuffle(names)
here, there = ["".join(name) for name in names], ["".join(map(LATIN.get, name)) for name in names]
letters, signs = sorted(set("".join(here))), ["", *sorted(set("".join(there)))]


def symbols(words, alphabet, steps):
    numbers = [[alphabet.index(c) for c in word] + [0] * (steps - len(word)) for word in words]
    return np.array(numbers).T


@rnn.composed
def transliterator(encoder, decoder, batch, feedback=None, **how):
    e = encoder.unroll(PLACES, batch, inputs="word", lengths="length", initial="zero", name="encoder", **how)
    how |= {"initial": rnn.attention_memory(e.hidden[-1], e.lengths), "name": "decoder"}
    return decoder.unroll(LONGEST, batch, inputs="before", targets="answer", feedback=feedback, **how)


writer = transliterator(
    rnn.Network([rnn.Bidirectional(rnn.GRU(32))], len(letters), 0),
    rnn.Network([rnn.Attention(rnn.GRU(48), memory=64, places=PLACES)], len(signs), len(signs)),
)
length, written = np.array([len(name) for name in here]), symbols(there, signs, LONGEST)
before = np.concatenate([np.zeros((1, len(names)), int), written[:-1]])
arrays = {"word": symbols(here, letters, PLACES), "length": length, "before": before, "answer": written}
problem = rnn.GraphCases(writer, arrays, batch=20, valid=0.2)
rnn.Trainer(problem, rnn.Training(rnn.Adam(rate=0.005, clip_norm=1.0), epochs=20)).run()
print(f"{problem.metrics()['exact']():.0%} of the names that it had not seen are right in each letter")

# %% [markdown]
# Where did it look, for a name that it had not seen? An empty sign ends what it has written.

# %%
d = writer.unroll(1, feedback="likeliest", training=False)
write = gn.compile([gn.argmax(d.logits), d.course("attention")])
found, shares = write(arrays["word"][:, -1:], length[-1:], [[0]])
latin = "".join(signs[i] for i in found[:, 0])
print(here[-1], "->", latin)
viz.attention_map(shares[: len(latin), 0, : length[-1]], read=here[-1], written=latin)

# %% [markdown]
# [Networks put together](../docs/composing.md) goes on with several inputs, several outputs and shared weights;
# [sequences of several lengths](../docs/variable_length_sequences.md) tells how a case ends.
