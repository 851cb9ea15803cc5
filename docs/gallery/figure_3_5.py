"""Draw a recurrent network in compact or closed style

The network of figure 3.4: (open) weights as labels on edges, (closed) one box for each layer and step.
"""

import graphnet_rnn as rnn
import viz

network = rnn.Network([rnn.Elman(64), rnn.Elman(64)], 27, 27, skip=True)
outputs = network.unroll(time=3, batch=1).logits.inputs  # o_1, o_2, o_3

pictures = {"open": viz.draw(outputs, "compact", closed=False), "closed": viz.draw(outputs)}
