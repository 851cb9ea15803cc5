"""What compiled back ends share."""
