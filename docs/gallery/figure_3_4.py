"""Draw a recurrent network over time

A recurrent network with two layers and skip connections, unrolled over three time steps. Each weight is a node.
"""

import graphnet_rnn as rnn
import viz

network = rnn.Network([rnn.Elman(64), rnn.Elman(64)], 27, 27, skip=True)
outputs = network.unroll(time=3, batch=1).logits.inputs  # o_1, o_2, o_3

pictures = {"": viz.draw(outputs, closed=False)}
