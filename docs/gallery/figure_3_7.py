"""Draw an LSTM

An LSTM: one step of a cell, and two steps of a network.
"""

import graphnet_rnn as rnn
import viz

network = rnn.Network([rnn.LSTM(64)], 27, 27)

pictures = {
    "cell": viz.draw(rnn.LSTM, "compact"),
    "unrolled": viz.draw(network.unroll(time=2, batch=1).logits.inputs, "compact", closed=False),
}
