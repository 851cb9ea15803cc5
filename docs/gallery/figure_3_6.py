"""Draw text generation

A network that generates four letters from one. The node χ converts a prediction into the next input.
"""

import graphnet_rnn as rnn
import viz

network = rnn.Network([rnn.Elman(64), rnn.Elman(64)], 27, 27, skip=True)

pictures = {"": viz.generation(network, steps=4)}
