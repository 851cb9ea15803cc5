# %% [markdown]
# # 9 · A character model, from text to novel
#
# *Reading time: 14 minutes.* You will train a model of text, see what it has understood, and let it suggest the next
# word. It helps to know cells and training ([tutorial 6](06_cells_and_time.py)).
#
# A net that predicts the next character of a text, and nothing else, has to learn spelling, words, and some of the
# grammar. Fed with its own predictions it writes.

# %%
import re
import tempfile
from pathlib import Path
from pydoc_data.topics import topics  # Python's own manual, which comes with Python

import matplotlib.pyplot as plt
import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
import viz

from exercises import check

plt.style.use("tableau-colorblind10")

# %% [markdown]
# ## The text
#
# Any text will do, `rnn.data.read_text("book.txt")` reads yours. So that nothing has to be downloaded, we take the
# manual that Python carries with it. Small letters, full stops and commas are enough to begin with.

# %%
manual = " ".join(topics[name] for name in sorted(topics)).lower()
text = " ".join(re.sub(r"[^a-z., ]", " ", manual.replace("\n", " ")).split())
text = re.sub(r" ([.,])", r"\1", text)[:250_000]
print(f"{len(text):,} characters:", text[30_000:30_230])

# %% [markdown]
# A net reads numbers. The **vocabulary** lists each character once, sorted; a character's number is its place there.
# `Corpus.split` makes it, and cuts the text in the order of time: the first 80 % to learn from, the next 10 % to
# validate on, the last 10 % kept back for the very end.

# %%
corpus = rnn.data.Corpus.split(text)
vocabulary = corpus.vocabulary
print(len(vocabulary), "symbols:", repr(vocabulary.characters))
print("'cab' is", vocabulary.encode("cab"), "and back:", vocabulary.decode(vocabulary.encode("cab")))
print("train, valid, test:", len(corpus.train), len(corpus.valid), len(corpus.test))

# %% [markdown]
# ## What is a guess worth?
#
# If the model gave the character that came the probability `p`, we count `-log₂ p` **bits**: 0 if it was certain, 1
# for a coin toss. The mean is the number of bits per character that a perfect compressor would need with this model.
# Before any net, know what simple guessing achieves:
#
# - all symbols alike: `log₂` of their number;
# - by frequency: the space is likely, z is not;
# - by the character before: after q comes u.


# %%
def bits(p):
    return -np.log2(p)


count = len(vocabulary)
frequency = np.bincount(corpus.train, minlength=count) + 1.0
pairs = np.ones((count, count))  # one, not zero: what was never seen is unlikely, not impossible
np.add.at(pairs, (corpus.train[:-1], corpus.train[1:]), 1)
after = pairs / pairs.sum(axis=1, keepdims=True)

before, next_one = corpus.valid[:-1], corpus.valid[1:]
baselines = {
    "all alike": bits(1 / count),
    "by frequency": bits(frequency / frequency.sum())[next_one].mean(),
    "by the one before": bits(after[before, next_one]).mean(),
}
for name, value in baselines.items():
    print(f"{name:<18} {value:.2f} bits per character")

# %% [markdown]
# A person needs about 1 bit for plain prose. Let us see how far some seconds of training go.
#
# ## The model and its training
#
# An LSTM of 128 units reads a symbol (as zeros with a 1 at its number) and its own state, and a softmax over the
# symbols says what comes next. `CarriedText` cuts the training text into lanes that are read side by side, 50
# characters at a time. The state is carried from each piece to the next, so the memory may reach further back than
# the gradient. A `Trainer` makes the steps, epoch after epoch. All files of a run lie in one folder (ours is thrown
# away at the end). A `Listener` is told what happens; ours prints a line for each epoch.


# %%
class Line(rnn.training.Listener):
    def epoch_ended(self, trainer, row):
        print(
            f"epoch {row['epoch']}: {row['train_bits']:.2f} bits in training, {row['valid_bits']:.2f} on validation"
        )


net = rnn.Network([rnn.LSTM(128)], inputs=count, outputs=count, seed=0)
net.vocabulary = vocabulary  # so that the model's file knows its letters
print(net)

with tempfile.TemporaryDirectory() as folder:
    run = Path(folder) / "run"
    optimizer = rnn.Adam(rate=0.01, clip_norm=5.0)
    problem = rnn.CarriedText(net, corpus, time=50, batch=16)
    trainer = rnn.Trainer(problem, rnn.Training(optimizer, epochs=3), run, listeners=[Line()])
    outcome = trainer.run()
    print("files:", ", ".join(sorted(path.name for path in run.iterdir())))
    net = rnn.load(run / "model.safetensors")  # the best epoch
    curve = viz.training_curve(run / "history.jsonl")
curve

# %% [markdown]
# `model.safetensors` is the model: weights, architecture and vocabulary in one file.
# `graphnet-rnn train book.txt --units 128` does all this on the command line, with a bar, samples, early stopping,
# and `--resume` after an interruption.
#
# ## Temperature
#
# To write, draw the next character from the model's probabilities, feed it back, and so on. A **temperature** `τ`
# sharpens or flattens them first: `p_k ∝ e^(o_k / τ)`. By hand, for three logits, outputs of the net before the
# softmax, `o = (2, 1, 0)`:
#
# | | `τ = 1` | `τ = 0.5` |
# |---|---|---|
# | `e^(o/τ)` | 7.39, 2.72, 1 | 54.6, 7.39, 1 |
# | `p` | 0.67, 0.24, 0.09 | 0.87, 0.12, 0.02 |
#
# Towards 0 the likeliest always wins; large temperatures make all alike. A `Sampler` steps a model character by
# character, and keeps its state between calls. First it *reads* a beginning:


# %%
def softmax(o, temperature=1.0):
    e = np.exp((o - o.max(axis=-1, keepdims=True)) / temperature)
    return e / e.sum(axis=-1, keepdims=True)


sampler = rnn.Sampler(net)
for temperature in (0.0, 0.5, 1.0, 2.0):
    sampler.reset()
    sampler.read("the value of ")
    print(f"τ = {temperature}: the value of {''.join(sampler.sample(110, temperature, seed=1))}\n")

# %% [markdown]
# At 0 it walks in circles, at ½ it is a clerk, at 1 a poet, at 2 a typewriter that fell down the stairs. What it
# thinks comes after "the s", at three temperatures:

# %%
sampler.reset()
sampler.read("the s")
figure, axes = plt.subplots(figsize=(8, 2.8), layout="constrained")
for shift, temperature in ((-0.27, 0.5), (0, 1.0), (0.27, 2.0)):
    axes.bar(
        np.arange(count) + shift, softmax(sampler.logits, temperature), width=0.25, label=f"τ = {temperature}"
    )
axes.set_xticks(range(count), [c.replace(" ", "␣") for c in vocabulary.characters])
axes.set(xlabel="next character", ylabel="probability")
axes.legend(frameon=False, loc="upper right")
axes.grid(alpha=0.3)

# %% [markdown]
# ## What has it understood? Text in colour
#
# Let it read a sentence that it has never seen, and colour every character by the probability that the model gave it
# *before* it came: green where it knew, red where it was surprised. Beneath, what it would have written, where that
# was something else. `rnn.run` gives the logits at all places at once; those at place `t` predict the character at
# `t + 1`.


# %%
def predictions(text, states=None):
    """p of each symbol at each place but the first, (characters - 1, symbols), and the states at the end."""
    symbols = vocabulary.encode(text)
    logits, states = rnn.run(net, symbols[:-1, None], states)
    return softmax(logits[:, 0]), states


def show_in_colour(text, states=None):
    p, _ = predictions(text, states)
    symbols = vocabulary.encode(text)[1:]
    guesses = [vocabulary.characters[k] for k in p.argmax(axis=1)]
    print(viz.coloured(text[1:], p[np.arange(len(symbols)), symbols], guesses, width=72))


test = vocabulary.decode(corpus.test)
start = test.index(". ", 2000) + 1  # a sentence that begins here
sentence = test[start : start + 210]
show_in_colour(sentence)

# %% [markdown]
# Look where it is red: at the first letters of words. There the choice is widest; once a word is begun, the rest is
# often green. Spaces come nearly without surprise.
#
# That was a **cold start**: the state was zero, the model did not know what it was in the midst of. With a **warm
# start** it has read the 500 characters before:

# %%
_, states = predictions(test[start - 500 : start + 1])
show_in_colour(sentence, states)

# %% [markdown]
# The difference is small, and mostly at the beginning. Averaged over many places it is plain to see: bits by the
# number of characters that were read since a cold start.

# %%
lanes, length = 250, 60
pieces = corpus.test[: lanes * (length + 1)].reshape(lanes, length + 1).T
logits, _ = rnn.run(net, pieces[:-1])
cost = bits(np.take_along_axis(softmax(logits), pieces[1:, :, None], axis=2)).mean(axis=(1, 2))
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.plot(np.arange(1, length + 1), cost, ".-")
axes.set(xlabel="characters read since a cold start", ylabel="bits for the next one", ylim=(0, None))
axes.grid(alpha=0.3)

# %% [markdown]
# With a single character before it, it does no better than the table of pairs; after some six it has most of what it
# can use. For a fair figure the first characters must therefore not be scored: `Evaluator` takes a `context`.

# %%
tested = rnn.Evaluator(net)(corpus.test, context=50)
print(f"test text: {tested.bits:.3f} bits per character, the likeliest was right for {tested.accuracy:.0%}")

# %% [markdown]
# ## Going on learning: dynamic evaluation
#
# While it is tested, the model reads new text, with new words that come again and again. It may learn from them, as
# long as every character is predicted *before* it is learned from: a step of plain gradient descent after every 20
# characters. Afterwards the weights are as they were.

# %%
some = corpus.test[:8_000]
fixed = rnn.online.DynamicEvaluation(net, None)(some, context=50)
learning = rnn.online.DynamicEvaluation(net, rnn.SGD(rate=0.1), time=20)(some, context=50)
print(
    f"a third of the test text: {fixed.bits:.3f} bits with fixed weights, {learning.bits:.3f} learning on the way"
)

# %% [markdown]
# (On the command line: `graphnet-rnn evaluate model.safetensors book.txt --dynamic 0.1`.)
#
# ## The seed of a writing companion
#
# What could a model do for somebody who writes? Suggest how to go on, up to the next space, and be accepted or
# ignored. That is a few lines: read what has been written; take the likeliest first characters; from each, always go
# on with the likeliest, until a space comes. A sampler's `states` and `logits` are all that it knows, so a copy of
# both is a bookmark to come back to.


# %%
def suggestions(sampler, written, how_many=3, longest=20):
    """The likeliest continuations of `written` up to the next space, each with its probability."""
    sampler.reset()
    sampler.read(written)
    bookmark = sampler.states, sampler.logits
    found = []
    for first in np.argsort(-sampler.logits)[:how_many]:
        sampler.states, sampler.logits = bookmark
        word, p, symbol = "", 1.0, int(first)
        while len(word) < longest:
            p *= softmax(sampler.logits)[symbol]
            character = vocabulary.characters[symbol]
            if character == " ":
                break
            word += character
            sampler.read(character)
            symbol = int(sampler.logits.argmax())
        found.append((word, p))
    return sorted(found, key=lambda pair: -pair[1])


for written in ("the func", "if the object is not ", "a list of the ", "this is a s"):
    listed = ", ".join(
        f"{written.split(' ')[-1]}·{word} ({p:.1%})" for word, p in suggestions(sampler, written)
    )
    print(f"{written!r:>24} → {listed}")

# %% [markdown]
# Put a loop around it that reads keys (Tab to accept, an arrow for the next suggestion), train on a novel for a night
# instead of on a manual for some seconds, and you have what Lynge (2016, 5.4.3) wrote with. This library has the
# parts, as used here, but no such program yet.
#
# ## What can go wrong
#
# - **Letters that the model has never seen** are an error, told with the remedy:

# %%
try:
    sampler.read("Ünïcode")
except rnn.errors.DataError as error:
    print(error)

# %% [markdown]
# - **Bits of different alphabets** cannot be compared: we threw away capitals and digits, which makes prediction
#   easier. Neither can those of different texts.
# - **It learns by heart.** When bits fall in training and rise on validation, more training only harms: fewer units,
#   `dropout=`, or more text. The trainer keeps the best epoch, and stops early.
# - **Judging by samples.** A low temperature makes any model look fluent. Judge by bits on text that it has not seen.
#
# ## Exercises
#
# ### Exercise 1
#
# A training program reports a cost of 1.30 *nats* per character (`-ln p`). How many bits is that?

# %%
answer_1 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    1,
    answer_1,
    solution=1.30 / np.log(2),
    wrong=[1.30 * np.log(2), 1.30, 2**1.30, np.exp(1.30)],
    hint="log₂ p = ln p / ln 2. Bits are smaller than nats, so there are more of them.",
)

# %% [markdown]
# ### Exercise 2
#
# Write `sharpened(p, temperature)`, which turns probabilities (not logits!) drawn at temperature 1 into those at
# another one. (Logits are logarithms of `p`, but for a constant that does not matter.)

# %%
answer_2 = ...


# %% tags=["hide-input"] jupyter={"source_hidden": true}
def is_sharpening(sharpened):
    o = np.random.default_rng(0).normal(size=12) * 3
    return all(np.allclose(sharpened(softmax(o), tau), softmax(o, tau)) for tau in (0.3, 1.0, 2.5))


check(
    2,
    answer_2,
    solution=lambda p, tau: p ** (1 / tau) / np.sum(p ** (1 / tau)),
    wrong=[
        lambda p, tau: p ** (1 / tau),
        lambda p, tau: p**tau / np.sum(p**tau),
        softmax,
        lambda p, tau: p / tau / np.sum(p / tau),
    ],
    right=is_sharpening,
    hint="exp(ln(p) / τ) is a power of p. The result must sum to 1.",
)

# %% [markdown]
# ### Exercise 3
#
# Write `probability(written, word)`: how likely the model holds it that `written` is followed by exactly `word` (with
# its characters one after the other). Use `predictions(text)` from above: its row `t` belongs to the character at
# place `t + 1`.

# %%
answer_3 = ...


# %% tags=["hide-input"] jupyter={"source_hidden": true}
def chance(written, word):
    p, _ = predictions(written + word)
    symbols = vocabulary.encode(word)
    return np.prod(p[-len(word) :][np.arange(len(word)), symbols])


def is_probability(function):
    u = net.unroll(time=11, batch=1, training=False, initial="zero")
    symbols = vocabulary.encode("the function")[:, None]
    (losses,) = gn.compile([u.losses], [u.inputs, u.targets])(symbols[:-1], symbols[1:])
    expected = {
        word: np.exp(-losses[-len(word) :].sum()) for word in ("n", "tion", "function", "he function")
    }
    return all(np.isclose(function("the function"[: -len(w)], w), p, rtol=1e-3) for w, p in expected.items())


check(
    3,
    answer_3,
    solution=chance,
    wrong=[
        lambda written, word: chance(written, word[:1]),
        lambda written, word: chance(written, word) ** (1 / len(word)),
        lambda written, word: predictions(written + word)[0][-len(word) :].max(axis=1).prod(),
        lambda written, word: chance(written + word, word),
    ],
    right=is_probability,
    hint="The chances of all its characters, multiplied; each is in the row before its own place.",
)

# %% [markdown]
# Sources: Lynge 2016 (character models, coloured text, suggestions); Sutskever 2013, ch. 5; Mikolov et al. 2010 and
# Krause et al. 2018 (dynamic evaluation); Shannon 1951 (how many bits people need).
