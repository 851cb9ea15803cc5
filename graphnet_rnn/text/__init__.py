"""What a network does with text.

evaluation  how well it predicts one
reading     what it expected at each character, and what a whole text cost
sampling    text of its own
"""
