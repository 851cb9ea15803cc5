"""Networks: cells in layers, an output and a loss, over time.

network  Network: its parameters are one flat vector
layers   its cells, with weights of their own or of another layer
unroll   a piece of time as one graph
lengths  where the sequences of a batch end
composed networks put together by a function: a model of them
losses   what an output is judged by
ctc      losses of label sequences that are not aligned, and their decoding
running  a network on arrays of any length
readout  output weights in closed form
norms    of weights, and of gradients on their way back through time
"""
