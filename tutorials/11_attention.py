# %% [markdown]
# # 11 · Sequence to sequence with attention
#
# *Reading time: 14 minutes.* After this lesson you can build an encoder and a decoder, train them as one model, add
# attention, and plot where the decoder attends. You need cells and unrolling (tutorial 6).
#
# In the previous lessons, a network had one output per input, or one at the end. But often the output is another
# sequence, for example a sorted list, or a name in another alphabet. For such tasks, use two networks: an **encoder**
# reads the input sequence, and a **decoder** writes the output sequence. The decoder starts from the result of the
# encoder. In graphnet, both are parts of one graph.

# %%
import matplotlib.pyplot as plt
import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
import viz

from exercises import check

plt.style.use("tableau-colorblind10")

# %% [markdown]
# ## Create the data: digits to sort
#
# An input word has eight digits. The target is the same digits in ascending order. The decoder writes one digit per
# time step. During training, its input at each step is the previous digit of the target: *teacher forcing*. At the
# first step there is no previous digit, so its input is an eleventh symbol, `START`.

# %%
DIGITS, STEPS, START = 10, 8, 10
generator = np.random.default_rng(0)
word = generator.integers(0, DIGITS, (STEPS, 3000))
answer = np.sort(word, axis=0)
before = np.concatenate([np.full((1, 3000), START), answer[:-1]])
print(word[:, 0], "->", answer[:, 0], " decoder inputs", before[:, 0])

# %% [markdown]
# ## Connect an encoder and a decoder
#
# In the simplest model, the initial state of the decoder is the final state of the encoder. `outputs=0` creates a
# network without an output layer. Pass the initial states as nodes, `initial=e.final`.

# %%


def pair(seed=0):
    encoder = rnn.Network([rnn.GRU(24)], inputs=DIGITS, outputs=0, seed=seed)
    return encoder, rnn.Network([rnn.GRU(24)], inputs=DIGITS + 1, outputs=DIGITS + 1, seed=seed)


encoder, decoder = pair()
e = encoder.unroll(3, 1, initial="zero", name="encoder")
d = decoder.unroll(3, 1, initial=e.final, name="decoder")
viz.draw(d, closed=True)

# %% [markdown]
# `rnn.composed` turns a function into a model. The arguments before `batch` are its networks. `**how` contains options
# of the trainer; pass them on to each `unroll`. `rnn.GraphCases` trains the model on a dict of arrays. Its keys are the
# names that the function passes as `inputs=` and `targets=`.

# %%


@rnn.composed
def sorter(encoder, decoder, batch, feedback=None, **how):
    e = encoder.unroll(STEPS, batch, inputs="word", initial="zero", name="encoder", **how)
    how |= {"initial": e.final, "name": "decoder"}
    return decoder.unroll(STEPS, batch, inputs="before", targets="answer", feedback=feedback, **how)


def trained(model, epochs=6):
    """Fraction of the validation words whose digits are all correct."""
    problem = rnn.GraphCases(model, {"word": word, "before": before, "answer": answer}, batch=50)
    training = rnn.Training(rnn.Adam(rate=0.005, clip_norm=1.0), epochs=epochs, stopping=None)
    rnn.Trainer(problem, training).run()
    return problem.metrics()["exact"]()


share = trained(sorter(*pair()))
print(f"{share:.0%} of the words are correct")

# %% [markdown]
# Few words are correct, because the decoder gets all its information about the eight digits as a vector of 24 numbers.
#
# ### Exercise 1
#
# Several words have the same sorted answer. How many words of four digits have the answer `1 2 2 7`?

# %%
answer_1 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    1,
    answer_1,
    solution=12,
    wrong=[24, 4, 6, 1],
    hint="Four different digits have 24 orders. Two of the digits are equal, so divide by 2.",
)

# %% [markdown]
# ## Compute attention by hand
#
# With **attention**, the decoder reads every state of the encoder. At each step it compares its own state `h` with
# each encoder state `m_s`. A softmax turns these scores into weights, and the decoder reads the weighted mean:
#
# ```
# e_s = (h W_hq) · m_s / √width        score: how well position s matches the query h W_hq
# a_s = exp(e_s) / Σ_r exp(e_r)        attention weights: not negative, with the sum 1
# c   = Σ_s a_s m_s                    context: the weighted mean
# ```
#
# By hand, with two positions and a query that matches the second one:

# %%
places = np.array([[1.0, 0.0], [0.0, 2.0]])
query = np.array([0.5, 1.5])


def attention_weights(query, places):
    e = places @ query / np.sqrt(places.shape[1])
    return np.exp(e) / np.exp(e).sum()


a = attention_weights(query, places)
print("attention weights", a.round(3), " context", (a @ places).round(3))

# %% [markdown]
# ### Exercise 2
#
# What are the attention weights if the query is zero?

# %%
answer_2 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    2,
    answer_2,
    solution=[0.5, 0.5],
    wrong=[[0, 0], [1, 0], [1, 1]],
    hint="All scores are 0, and exp(0) = 1. The weights are equal and sum to 1.",
)

# %% [markdown]
# ## Add attention to the decoder
#
# `rnn.Attention(inner, memory, places)` wraps a cell: the inner cell reads the context `c` together with `x`. The
# memory is a state that never changes. `rnn.attention_memory` creates it from the states of the encoder. The encoder
# is now bidirectional.

# %%


@rnn.composed
def sorter_with_attention(encoder, decoder, batch, feedback=None, **how):
    e = encoder.unroll(STEPS, batch, inputs="word", initial="zero", name="encoder", **how)
    how |= {"initial": rnn.attention_memory(e.hidden[-1]), "name": "decoder"}
    return decoder.unroll(STEPS, batch, inputs="before", targets="answer", feedback=feedback, **how)


cell = rnn.Attention(rnn.GRU(24), memory=32, places=STEPS, score="dot")
model = sorter_with_attention(
    rnn.Network([rnn.Bidirectional(rnn.GRU(16))], inputs=DIGITS, outputs=0),
    rnn.Network([cell], inputs=DIGITS + 1, outputs=DIGITS + 1),
)
share_with_attention = trained(model)
print(f"{share_with_attention:.0%} of the words are correct, instead of {share:.0%}")
assert share_with_attention > share

# %% [markdown]
# Draw one step of the decoder. The scores and attention weights are on the left, and the inner cell is on the right:

# %%
viz.draw(cell)

# %% [markdown]
# ## Plot the attention weights
#
# Now run the decoder without teacher forcing: at each step it reads the most likely digit of the previous step.
# `d.course("attention")` is the value that the cell labels "attention", at all time steps.

# %%
d = model.unroll(1, feedback="likeliest", training=False)
write = gn.compile([gn.argmax(d.logits), d.course("attention")])
digits = np.array([[7, 1, 9, 4, 4, 0, 8, 2]]).T
written, shares = write(digits, np.array([[START]]))
viz.attention_map(shares[:, 0], read=digits[:, 0], written=written[:, 0])

# %% [markdown]
# The decoder often attends to the digit that it writes, but this is not necessary: the encoder is bidirectional, so
# each of its states can contain information about all digits.
#
# You did not write any derivatives. The gradient reaches the encoder through the memory, which the attention of each
# step reads. A Gauss–Newton product uses the same paths:

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
# Input words may have different lengths, and the decoder must not attend to positions after the end of a word. Write a
# function `f(query, places, count)`. It returns the attention weights of the first `count` positions, and 0 for the
# others.

# %%
answer_3 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}


def masked(query, places, count):
    e = places @ query / np.sqrt(places.shape[1])
    e = np.where(np.arange(len(places)) < count, e, -np.inf)
    return np.exp(e - e.max()) / np.exp(e - e.max()).sum()


def cut_afterwards(query, places, count):
    return np.where(np.arange(len(places)) < count, attention_weights(query, places), 0)


def too_many(query, places, count):
    return masked(query, places, count + 1)


def without_scale(query, places, count):
    return masked(query * np.sqrt(places.shape[1]), places, count)


def is_masked(function):
    draw = np.random.default_rng(0)
    query, places = draw.standard_normal(3), draw.standard_normal((5, 3))
    found = [np.asarray(function(query, places, count)) for count in (1, 3, 5)]
    expected = [
        np.append(attention_weights(query, places[:count]), np.zeros(5 - count)) for count in (1, 3, 5)
    ]
    return all(np.allclose(a, b) for a, b in zip(found, expected, strict=True))


check(
    3,
    answer_3,
    solution=masked,
    wrong=[cut_afterwards, too_many, without_scale],
    right=is_masked,
    hint="The weights must sum to 1. So exclude positions before you divide: set their scores to -inf.",
)

# %% [markdown]
# ## Variable-length sequences: transliterate names
#
# Convert names from one alphabet to another, here from Cyrillic to Latin. Some letters become two (ш becomes sh, ю
# becomes yu), so inputs and outputs have different lengths. The encoder gets the lengths, and `rnn.attention_memory`
# masks the padding, as in exercise 3. The decoder gets no lengths: it learns to write an empty symbol after the end.

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
print(f"{problem.metrics()['exact']():.0%} of the validation names are correct in each letter")

# %% [markdown]
# Plot the attention weights for a name from the validation set. Each output ends at the first empty symbol.

# %%
d = writer.unroll(1, feedback="likeliest", training=False)
write = gn.compile([gn.argmax(d.logits), d.course("attention")])
found, shares = write(arrays["word"][:, -1:], length[-1:], [[0]])
latin = "".join(signs[i] for i in found[:, 0])
print(here[-1], "->", latin)
viz.attention_map(shares[: len(latin), 0, : length[-1]], read=here[-1], written=latin)

# %% [markdown]
# [Composing networks](../docs/composing.md) explains models with several inputs, several outputs and shared weights.
# [Variable-length sequences](../docs/variable_length_sequences.md) explains `lengths`, padding and masks.
