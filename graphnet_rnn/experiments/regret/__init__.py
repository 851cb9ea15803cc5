"""Regret on texts whose true model is known (Ollivier 2013, section 4)."""
