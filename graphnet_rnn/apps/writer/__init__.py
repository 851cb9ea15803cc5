"""Writing with a model, which suggests what comes next.

draft      the text, what the model expected of each character, suggestions, undo, learning from the writer
desk       a draft that a thread of its own works on, so that no key waits for the model
document   the file of a draft
"""

from __future__ import annotations

from graphnet.lazy import lazy_imports

with lazy_imports(__name__):
    from graphnet_rnn.apps.writer.desk import Desk, View
    from graphnet_rnn.apps.writer.document import Document
    from graphnet_rnn.apps.writer.draft import Draft

__all__ = ["Desk", "Document", "Draft", "View"]
