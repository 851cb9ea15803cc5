"""Data sets: texts as symbols, padded sequences, tables, images and music.

characters  text files, decoded piece by piece
symbols  rows of symbols, one to four bytes each
text     vocabularies, and texts as symbols, split into parts; the source text of Python's standard library
batches  contiguous lanes of a sequence, cut into segments; bucketing by length
sequences  padded sequences of different lengths
scaling  standardized inputs and outputs
table_files  CSV and Parquet files, as columns by name
frame  columns of a table by name
table_roles  columns of a training table, determined from their names
columns  cells of tables as numbers: dates, categories, empty cells
table  sequences from the rows of tables; predictions as tables
times    times of rows, read, continued and written
predicted  outputs of a network as probabilities, classes or numbers
missing  missing inputs, filled in and marked
sequence_files  sequences from files of arrays and music
arrays   arrays from files of NumPy and idx
matlab   arrays from files of MATLAB
images   images from such files, as rows of pixels
music  piano rolls, from MIDI and to MIDI
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.data.batches import Batches as Batches
    from graphnet_rnn.data.characters import read_text as read_text
    from graphnet_rnn.data.columns import Columns as Columns
    from graphnet_rnn.data.images import read_images as read_images
    from graphnet_rnn.data.missing import with_missing as with_missing
    from graphnet_rnn.data.music import (
        frame_accuracy as frame_accuracy,
        read_midi as read_midi,
        read_rolls as read_rolls,
        write_midi as write_midi,
    )
    from graphnet_rnn.data.scaling import Scaling as Scaling
    from graphnet_rnn.data.sequence_files import read_sequences as read_sequences
    from graphnet_rnn.data.sequences import (
        Sequences as Sequences,
        balanced_weights as balanced_weights,
        padded as padded,
    )
    from graphnet_rnn.data.table import Forecast as Forecast, Table as Table
    from graphnet_rnn.data.text import (
        Corpus as Corpus,
        Vocabulary as Vocabulary,
        standard_library_text as standard_library_text,
    )
