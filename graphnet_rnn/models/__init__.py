"""Models other than networks, and networks within larger models.

energy  restricted Boltzmann machines, and their temporal forms
hmm     hidden Markov models
hmm_likelihood  likelihood of hidden Markov models, and its objective
nade    frames of dependent bits
"""
