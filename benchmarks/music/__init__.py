"""Models of music, and what they come to on piano rolls; see __main__."""
