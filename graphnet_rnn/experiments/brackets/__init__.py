"""How long a model of text remembers that a bracket is open (Krause 2015, 5.2.4)."""
