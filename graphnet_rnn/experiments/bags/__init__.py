"""Reordering of shuffled words with a language model (Sutskever 2013, 5.4.4)."""
