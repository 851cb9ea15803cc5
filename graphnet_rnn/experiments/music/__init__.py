"""Music as frames of notes."""
