"""Models that are no networks, and networks within larger models.

energy  restricted Boltzmann machines, and their temporal forms
hmm     hidden Markov models
hmm_likelihood  the objective that trains one
nade    frames of bits that depend on each other
"""
