"""What a network does with text.

evaluation  how well it predicts one
reading     what it expected at each character, and what a whole text cost
sampling    text of its own
lanes       p(next character) after many texts at once
ngrams      a model that counts, to compare with
completion  text of its own under a condition: patterns, conditions, search
"""
