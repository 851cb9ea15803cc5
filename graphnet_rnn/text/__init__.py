"""Text and networks: evaluation, sampling, completion.

evaluation  bits per character and accuracy
reading     predictions at each character, and the cost over a whole text
sampling    samples of text
lanes       p(next character) after many texts at once
ngrams      n-gram model as a baseline
completion  text under a condition: patterns, conditions, search
"""
