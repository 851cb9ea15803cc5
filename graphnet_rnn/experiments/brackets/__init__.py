"""Memory of language models for an open bracket (Krause 2015, 5.2.4)."""
