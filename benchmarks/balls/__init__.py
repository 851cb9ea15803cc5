"""Models of videos of bouncing balls, and what they predict of the next frame; see __main__."""
