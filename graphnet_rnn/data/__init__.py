"""Texts as sequences of symbols, and other sequences.

characters  text files, decoded a piece at a time
symbols  rows of symbols, a byte or two each
text     vocabularies, and texts as symbols, split
batches  contiguous lanes of a sequence, cut into pieces of equal time
sequences  cases of equally many steps, from arrays, tables and music
default  the text that is always there: Python's own standard library
"""

from __future__ import annotations

from graphnet_rnn.data.batches import Batches
from graphnet_rnn.data.characters import read_text
from graphnet_rnn.data.default import standard_library_text
from graphnet_rnn.data.sequences import Choice, Sequences, read_sequences
from graphnet_rnn.data.text import Corpus, Vocabulary

__all__ = [
    "Batches",
    "Choice",
    "Corpus",
    "Sequences",
    "Vocabulary",
    "read_sequences",
    "read_text",
    "standard_library_text",
]
