"""Texts as sequences of symbols.

text     files, vocabularies, splits
batches  contiguous lanes of a sequence, cut into pieces of equal time
default  the text that is always there: Python's own standard library
"""

from __future__ import annotations

from graphnet_rnn.data.batches import Batches
from graphnet_rnn.data.default import standard_library_text
from graphnet_rnn.data.text import Corpus, Vocabulary, read_text

__all__ = ["Batches", "Corpus", "Vocabulary", "read_text", "standard_library_text"]
