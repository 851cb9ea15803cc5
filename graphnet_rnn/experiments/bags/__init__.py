"""Shuffled words put into order by a model of text (Sutskever 2013, 5.4.4)."""
