"""Writing with suggestions of a language model.

draft      text, character probabilities, suggestions, undo, learning from the writer
desk       a draft with a worker thread, so that keys never wait for the model
document   file of a draft
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.apps.writer.desk import Desk as Desk, Snapshot as Snapshot
    from graphnet_rnn.apps.writer.document import Document as Document
    from graphnet_rnn.apps.writer.draft import Draft as Draft
