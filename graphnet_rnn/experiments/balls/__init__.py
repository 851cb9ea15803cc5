"""Videos of bouncing balls (Sutskever 2013, 3.11.1)."""
