"""Regret on texts whose true model is known (Ollivier 2013, table 1): of networks, and of what is none."""
