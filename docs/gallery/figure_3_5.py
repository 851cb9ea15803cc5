"""The same network, its weights as labels on the edges; and each layer at each step as one box."""

import graphnet_rnn as rnn
import viz

network = rnn.Network([rnn.Elman(64), rnn.Elman(64)], 27, 27, skip=True)
outputs = network.unroll(time=3, batch=1).logits.inputs  # o_1, o_2, o_3

pictures = {"open": viz.draw(outputs, "compact", closed=False), "closed": viz.draw(outputs)}
