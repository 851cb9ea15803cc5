"""Models that are no networks, and networks within larger models.

energy   restricted Boltzmann machines, and their temporal forms
hmm      hidden Markov models
control  a network that moves an arm
"""
