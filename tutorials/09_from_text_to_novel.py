# %% [markdown]
# # 9 · Train a character-level language model
#
# *Reading time: 14 minutes.* After this lesson you can train a model that predicts the next character of a text,
# generate text with it, show its predictions in color, and suggest words. You need cells and training
# ([tutorial 6](06_cells_and_time.py)).
#
# To predict the next character well, a network must learn spelling, words and some grammar. To generate text, feed its
# predictions back as inputs.

# %%
import re
import sys
import tempfile
from pathlib import Path
from pydoc_data.topics import topics  # the manual that comes with Python

import matplotlib.pyplot as plt
import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
import viz

from exercises import check

plt.style.use("tableau-colorblind10")

# %% [markdown]
# ## Load a text
#
# You can use any text: `rnn.data.read_text("book.txt")` reads a file. This lesson uses the manual that comes with
# Python, so there is nothing to download. To keep it simple, convert it to lowercase letters, periods, commas and
# spaces.

# %%
manual = " ".join(topics[name] for name in sorted(topics)).lower()
text = " ".join(re.sub(r"[^a-z., ]", " ", manual.replace("\n", " ")).split())
text = re.sub(r" ([.,])", r"\1", text)[:250_000]
print(f"{len(text):,} characters:", text[30_000:30_230])

# %% [markdown]
# A network reads numbers. The **vocabulary** is the sorted list of all characters. The number of a character is its
# position in this list. `Corpus.split` creates the vocabulary and splits the text without shuffling it: the first 80 %
# for training, the next 10 % for validation, the last 10 % for the final test.

# %%
corpus = rnn.data.Corpus.split(text)
vocabulary = corpus.vocabulary
print(len(vocabulary), "symbols:", repr(vocabulary.characters))
print("'cab' is", vocabulary.encode("cab"), "and back:", vocabulary.decode(vocabulary.encode("cab")))
print("train, valid, test:", len(corpus.train), len(corpus.valid), len(corpus.test))

# %% [markdown]
# ## Measure a baseline in bits per character
#
# If the model gave the correct character the probability `p`, its loss is `-log₂ p` **bits**. This is 0 for a certain
# prediction and 1 for `p = ½`. The mean over a text is the number of bits per character with which an ideal compressor
# could store the text. Before you train a network, measure three simple baselines:
#
# - all symbols are equally likely: `log₂` of their number
# - frequencies of symbols: a space is frequent, a z is rare
# - frequencies after the previous character: after q comes u


# %%
def bits(p):
    return -np.log2(p)


count = len(vocabulary)
frequency = np.bincount(corpus.train, minlength=count) + 1.0
pairs = np.ones((count, count))  # 1, not 0: a pair that never occurred is unlikely, not impossible
np.add.at(pairs, (corpus.train[:-1], corpus.train[1:]), 1)
after = pairs / pairs.sum(axis=1, keepdims=True)

before, next_one = corpus.valid[:-1], corpus.valid[1:]
baselines = {
    "equally likely": bits(1 / count),
    "frequency": bits(frequency / frequency.sum())[next_one].mean(),
    "pairs": bits(after[before, next_one]).mean(),
}
for name, value in baselines.items():
    print(f"{name:<18} {value:.2f} bits per character")

# %% [markdown]
# For comparison, a person needs about 1 bit per character for plain prose. Next, train a network for some seconds.
#
# ## Train the model
#
# The network is an LSTM of 128 units (64 in a browser, where training takes some minutes). It reads a symbol as a
# one-hot vector. A softmax over all symbols gives the probabilities of the next one.
#
# - `CarriedText` cuts the training text into parallel lanes (the batch), and reads 50 characters of each lane per
#   training step. It carries the state from one step to the next. So the state can contain information from far back,
#   although the gradient reaches back over 50 characters only. (This is truncated backpropagation through time.)
# - A `Trainer` runs the epochs. It writes all files of a run into one folder, here a temporary one.
# - A `Listener` is a callback. This one prints a line after each epoch.


# %%
class Line(rnn.training.Listener):
    def epoch_ended(self, trainer, row):
        print(
            f"epoch {row['epoch']}: training {row['train_bits']:.2f} bits, validation {row['valid_bits']:.2f} bits"
        )


units = 64 if sys.platform == "emscripten" else 128
net = rnn.Network([rnn.LSTM(units)], inputs=count, outputs=count, seed=0)
net.vocabulary = vocabulary  # saved in the model file
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
# `model.safetensors` contains the weights, the architecture and the vocabulary. The command
# `graphnet-rnn train book.txt --units 128` does the same, with a progress bar, samples, early stopping, and `--resume`
# after an interruption.
#
# ## Generate text with a temperature
#
# To generate text, draw the next character from the probabilities of the model, feed it back, and repeat. A
# **temperature** `τ` first makes the probabilities sharper or flatter: `p_k ∝ e^(o_k / τ)`. By hand, for the three
# logits (outputs before the softmax) `o = (2, 1, 0)`:
#
# | | `τ = 1` | `τ = 0.5` |
# |---|---|---|
# | `e^(o/τ)` | 7.39, 2.72, 1 | 54.6, 7.39, 1 |
# | `p` | 0.67, 0.24, 0.09 | 0.87, 0.12, 0.02 |
#
# Near 0, the most likely character always wins. A large temperature makes all characters equally likely. A `Sampler`
# runs a model character by character and keeps its state between calls. `read` feeds it the beginning of the text:


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
# At temperature 0 the text repeats itself. At 0.5 most words are correct, at 1 many are misspelled, and at 2 the text
# is nearly random. Plot the probabilities after "the s" at three temperatures:

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
# ## Show the predictions in color
#
# Run the model on a sentence of the test text. Color each character by the probability that the model gave it: green
# for a high probability, red for a low one. The line below shows the most likely character where it differs. `rnn.run`
# returns the logits at all positions; the logits at position `t` predict the character at `t + 1`.


# %%
def predictions(text, states=None):
    """Probabilities (characters - 1, symbols) from the second character on, and the final states."""
    symbols = vocabulary.encode(text)
    logits, states = rnn.run(net, symbols[:-1, None], states)
    return softmax(logits[:, 0]), states


def show_in_color(text, states=None):
    p, _ = predictions(text, states)
    symbols = vocabulary.encode(text)[1:]
    guesses = [vocabulary.characters[k] for k in p.argmax(axis=1)]
    print(viz.coloured(text[1:], p[np.arange(len(symbols)), symbols], guesses, width=72))


test = vocabulary.decode(corpus.test)
start = test.index(". ", 2000) + 1  # start of a sentence
sentence = test[start : start + 210]
show_in_color(sentence)

# %% [markdown]
# Many red characters are first letters of words, where many characters are possible. The end of a word is often green,
# and so is the space after it.
#
# This was a **cold start**: the state was zero, so the model had no context. For a **warm start**, let the model read
# the previous 500 characters first:

# %%
_, states = predictions(test[start - 500 : start + 1])
show_in_color(sentence, states)

# %% [markdown]
# The difference is small, and mostly at the beginning. Average over many sequences to see it clearly: plot the bits
# against the number of characters since a cold start.

# %%
lanes, length = 250, 60
pieces = corpus.test[: lanes * (length + 1)].reshape(lanes, length + 1).T
logits, _ = rnn.run(net, pieces[:-1])
cost = bits(np.take_along_axis(softmax(logits), pieces[1:, :, None], axis=2)).mean(axis=(1, 2))
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.plot(np.arange(1, length + 1), cost, ".-")
axes.set(xlabel="characters since a cold start", ylabel="bits for the next character", ylim=(0, None))
axes.grid(alpha=0.3)

# %% [markdown]
# After a single character, the model is no better than the table of pairs. After about six characters, more context
# helps only a little. So do not score the first characters: pass `context` to the `Evaluator`.

# %%
tested = rnn.Evaluator(net)(corpus.test, context=50)
print(f"test text: {tested.bits:.3f} bits per character, accuracy {tested.accuracy:.0%}")

# %% [markdown]
# ## Adapt the model during the test: dynamic evaluation
#
# A test text contains new words, often several times. In dynamic evaluation the model learns from the test text, but
# only after it has predicted each character. Here it takes a step of gradient descent after every 20 characters. After
# the evaluation, the weights are restored.

# %%
some = corpus.test[:8_000]
fixed = rnn.online.DynamicEvaluation(net, None)(some, context=50)
learning = rnn.online.DynamicEvaluation(net, rnn.SGD(rate=0.1), time=20)(some, context=50)
print(
    f"a third of the test text: {fixed.bits:.3f} bits with fixed weights, {learning.bits:.3f} with dynamic evaluation"
)

# %% [markdown]
# (As a command: `graphnet-rnn evaluate model.safetensors book.txt --dynamic 0.1`.)
#
# ## Suggest words
#
# Suggest how to complete a word, up to the next space. The function below reads the text so far, and takes the most
# likely next characters. It extends each of them: it always adds the most likely character, until the next space. When
# a sampler reads, only its `states` and `logits` change. So store both, to return to the same position later.


# %%
def suggestions(sampler, written, how_many=3, longest=20):
    """Likely continuations of `written` up to the next space, each with its probability."""
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
# Lynge (2016, 5.4.3) wrote text with such a program. In graphnet, the command `graphnet-rnn write` opens an editor
# with suggestions: [Writing with a language model](../docs/writing.md). For good suggestions, train the model on a
# novel for a night, not on a manual for some seconds.
#
# ## Common errors
#
# - **A character outside the vocabulary** raises an error that suggests a fix:

# %%
try:
    sampler.read("Ünïcode")
except rnn.errors.DataError as error:
    print(error)

# %% [markdown]
# - **Different alphabets.** Do not compare bits of different alphabets or different texts. This lesson removed
#   capitals and digits, so the text is easier to predict.
# - **Overfitting.** If the training loss decreases but the validation loss increases, stop training. Use fewer units,
#   `dropout=`, or more text. The trainer keeps the model of the best epoch, and stops early.
# - **Judging by samples.** At a low temperature, the text of any model looks fluent. Compare the bits per character on
#   a text that was not used in training.
#
# ## Exercises
#
# ### Exercise 1
#
# A training program reports a cost of 1.30 *nats* per character (`-ln p`). How many bits is this?

# %%
answer_1 = ...

# %% tags=["hide-input"] jupyter={"source_hidden": true}
check(
    1,
    answer_1,
    solution=1.30 / np.log(2),
    wrong=[1.30 * np.log(2), 1.30, 2**1.30, np.exp(1.30)],
    hint="log₂ p = ln p / ln 2. A bit is smaller than a nat, so the number of bits is larger.",
)

# %% [markdown]
# ### Exercise 2
#
# Write `sharpened(p, temperature)`. It converts probabilities (not logits) at temperature 1 to those at another
# temperature. (Logits are logarithms of `p` plus a constant. The constant has no effect.)

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
    hint="exp(ln(p) / τ) is a power of p. Divide by the sum, so that the result sums to 1.",
)

# %% [markdown]
# ### Exercise 3
#
# Write `probability(written, word)`: the probability that exactly the characters of `word` follow `written`. Use
# `predictions(text)` from above: its row `t` belongs to the character at position `t + 1`.

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
    hint="Multiply the probabilities of all its characters. Each is in the row before its position.",
)

# %% [markdown]
# Sources: Lynge 2016 (character models, colored text, suggestions); Sutskever 2013, ch. 5; Mikolov et al. 2010 and
# Krause et al. 2018 (dynamic evaluation); Shannon 1951 (how many bits people need).
