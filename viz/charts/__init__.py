"""Charts: numbers that a run leaves behind, as matplotlib figures."""
