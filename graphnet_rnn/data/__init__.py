"""Data sets: texts as symbols, padded sequences, tables, images and music.

characters  text files, decoded piece by piece
symbols  rows of symbols, one to four bytes each
text     vocabularies, and texts as symbols, split into parts; the source text of Python's standard library
batches  contiguous lanes of a sequence, cut into segments; bucketing by length
sequences  padded sequences of different lengths
scaling  standardized inputs and outputs
table_files  CSV and Parquet files, as columns by name
frame  columns of a table by name
table_roles  columns of a training table, determined from a choice
choice  the arrays or columns of a file to read
columns  cells of tables as numbers: dates, categories, empty cells
table  sequences from the rows of tables; predictions as tables
sequence_files  sequences from files of arrays, tables and music
arrays   arrays from files of NumPy, MATLAB and idx
images   images from such files, as rows of pixels
music  piano rolls, from MIDI and to MIDI
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.data.batches import Batches
    from graphnet_rnn.data.characters import read_text
    from graphnet_rnn.data.choice import Choice
    from graphnet_rnn.data.columns import Columns
    from graphnet_rnn.data.images import read_images
    from graphnet_rnn.data.music import frame_accuracy, read_midi, read_rolls, write_midi
    from graphnet_rnn.data.scaling import Scaling
    from graphnet_rnn.data.sequence_files import read_sequences
    from graphnet_rnn.data.sequences import Sequences, balanced_weights, padded, with_missing
    from graphnet_rnn.data.table import Forecast, Table
    from graphnet_rnn.data.text import Corpus, Vocabulary, standard_library_text

__all__ = [
    "Batches",
    "Choice",
    "Columns",
    "Corpus",
    "Forecast",
    "Scaling",
    "Sequences",
    "Table",
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
