"""Regret on texts whose true model is known (Ollivier 2013, table 1); `baselines` has what is no network."""
