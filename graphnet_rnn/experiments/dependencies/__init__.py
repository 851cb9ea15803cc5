"""Long-term dependencies (Hochreiter & Schmidhuber 1997; Sutskever 2013, 4.4 and 7.4)."""
