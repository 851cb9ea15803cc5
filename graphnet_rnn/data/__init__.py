"""Texts as sequences of symbols, and other sequences.

characters  text files, decoded a piece at a time
symbols  rows of symbols, a byte or two each
text     vocabularies, and texts as symbols, split; the text that is always there: Python's own standard library
batches  contiguous lanes of a sequence, cut into pieces of equal time; cases of like lengths together
sequences  cases side by side, each with as many steps as it has
tables  what of a file is what, and sequences from the rows of tables
sequence_files  and from arrays and music
arrays   what files of NumPy, of MATLAB and of the format idx hold
images   images of such files, as rows of pixels
music  piano rolls, from MIDI and to it
text     vocabularies, and texts as symbols, split; the text that is always there: Python's own standard library
batches  contiguous lanes of a sequence, cut into pieces of equal time; cases of like lengths together
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.data.batches import Batches
    from graphnet_rnn.data.characters import read_text
    from graphnet_rnn.data.images import read_images
    from graphnet_rnn.data.music import frame_accuracy, read_midi, read_rolls, write_midi
    from graphnet_rnn.data.scaling import Scaling
    from graphnet_rnn.data.sequence_files import read_sequences
    from graphnet_rnn.data.sequences import Sequences, balanced_weights, padded, with_missing
    from graphnet_rnn.data.tables import Choice, Columns
    from graphnet_rnn.data.text import Corpus, Vocabulary, standard_library_text

__all__ = [
    "Batches",
    "Choice",
    "Columns",
    "Corpus",
    "Scaling",
    "Sequences",
    "Vocabulary",
    "balanced_weights",
    "frame_accuracy",
    "padded",
    "read_images",
    "read_midi",
    "read_rolls",
    "read_sequences",
    "read_text",
    "standard_library_text",
    "with_missing",
    "write_midi",
]
