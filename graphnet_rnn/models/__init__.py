"""Models that are no networks, and networks within larger models.

energy      restricted Boltzmann machines, and their temporal forms
hmm         hidden Markov models
likelihood  what they are trained by
nade        frames of bits that depend on each other
"""
