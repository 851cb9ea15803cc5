"""Charts of training runs, as matplotlib figures."""
