"""Networks: layers of cells, an output layer and a loss, unrolled over time.

network  Network, whose parameters are one flat vector
layers   layers of a network, with their own weights or those of another layer
unroll   a network over several time steps as one graph
lengths  variable-length sequences
composed networks composed by a function
losses   losses of each time step or of a whole sequence
ctc      connectionist temporal classification: loss and decoding
running  runs a network on arrays of any length
readout  output weights in closed form
norms    norms of weights, and of gradients by distance in time
"""
